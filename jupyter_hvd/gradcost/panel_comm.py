"""The panels of a kernel: the comm target that front ends connect to, and what `%gradcost` shows."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from IPython.display import display

from ..tensor import TensorError, TensorFunction
from .cells import Cells, explain_error
from .panel import Panel, Task
from .subject import Subject, make_subject

KEPT = 64  # panels that a kernel answers for; older ones show their last state


def _wait_for(task: Task) -> None:
    """Wait until a task has ended; an interrupt cancels it."""
    try:
        task.join()
    except KeyboardInterrupt:
        task.cancel()
        raise


class Panels:
    """All panels of a kernel."""

    def __init__(self, shell: Any, cells: Cells) -> None:
        self.shell = shell
        self.cells = cells
        self.panels: OrderedDict[str, Panel] = OrderedDict()

    def show_panel(
        self,
        subject: Subject,
        estimate: bool = False,
        measure: bool = False,
        compare: Sequence[str] = (),
    ) -> Panel:
        """Display a panel.

        Args:
            estimate, measure: wait for XLA's estimates, or measured times, before it is shown.
            compare: names of functions to show beside it.
        """
        panel = self._keep_panel(Panel(subject, self.cells, self.tensor_functions, fixed=True))
        panel.compare_with(compare)
        for wanted, begin in ((estimate, panel.estimate_plain), (measure, panel.measure_times)):
            if wanted:
                _wait_for(begin())
        display(panel.make_bundle(), raw=True)
        return panel

    def connect_front_end(self, comm: Any, message: Mapping[str, Any]) -> None:
        """Connect a front end's comm to a panel that exists, or to a new one about a cell's functions."""
        request = message["content"]["data"]
        try:
            panel = self._panel_for(request)
        except TensorError as error:
            comm.send({"gone": True, "error": explain_error(error, self.cells)})
            return
        if panel is None:
            comm.send({"gone": True})
            return
        send = comm.send
        comm.on_msg(lambda asked: panel.answer_message(asked["content"]["data"], send))
        comm.on_close(lambda _closed: panel.detach_front_end(send))
        panel.attach_front_end(send)
        if panel.plain.state == "pending" and not panel.is_running("estimate"):
            panel.estimate_plain()

    def _panel_for(self, request: Mapping[str, Any]) -> Panel | None:
        """Return the panel with the requested id, else one about the requested cell's text; None if neither."""
        known = self.panels.get(request.get("id", ""))
        if known is not None or "source" not in request:
            return known
        return self._keep_panel(self.inspect_cell(str(request["source"])))

    def _keep_panel(self, panel: Panel) -> Panel:
        """Store a panel by its id, and drop the oldest ones above `KEPT`."""
        self.panels[panel.id] = panel
        while len(self.panels) > KEPT:
            self.panels.popitem(last=False)
        return panel

    def inspect_cell(self, source: str) -> Panel:
        """Return a panel about the first function of a cell that can be inspected; the last defined one first.

        Raises:
            TensorError: there is none.
        """
        functions = self.tensor_functions()
        defined = [name for name in re.findall(r"^def\s+(\w+)", source, re.M) if name in functions]
        used = [name for name in re.findall(r"\w+", source) if name in functions]
        if not functions:
            raise TensorError(
                "the notebook has no tensor function yet",
                "put `%%tensor` on top of a cell of functions and run it",
            )
        if not defined and not used:
            raise TensorError(
                "this cell has no tensor function", "choose a cell that defines or calls one"
            )
        names = [*reversed(defined), *used]
        errors = []
        for name in dict.fromkeys(names):
            try:
                return Panel(
                    make_subject(functions[name], label=name), self.cells, self.tensor_functions
                )
            except TensorError as error:
                errors.append(error)
        raise errors[0]

    def tensor_functions(self) -> dict[str, TensorFunction]:
        """Return the tensor functions in the user's namespace, by name."""
        return {
            name: value
            for name, value in self.shell.user_ns.items()
            if isinstance(value, TensorFunction) and not name.startswith("_")
        }
