"""The live panel: a report that follows its sliders, through a comm of its own.

The front end sends what the user wants, `{"do": "sizes", …}`, and gets `{"report": …}` back; slow work
runs in a thread and reports its progress. `{"do": "save"}` asks for all forms of the last report, for
the notebook to keep.
"""

from __future__ import annotations

import contextvars
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..tensor import TensorError
from ..tensor.jax.profile import ProfileCancelledError
from . import background_work as work
from .advice import Adviser
from .apply_advice import accept_advice
from .cells import Cells, explain_error
from .compare import Other, compare_function, match_sizes, other_subject, sizes_of_other
from .fallback import report_bundle
from .report import Measured, Plain, Report, Shown, Times, make_report, move_sizes
from .sections import VIEWS, make_view
from .subject import Subject, make_subject

Send = Callable[[dict[str, Any]], None]

#: So many seconds a front end may take to keep figures; it rests half a one.
PATIENCE = 10.0

#: Puts what was measured where it is shown.
Keep = Callable[[], None]


class Panel:
    """One inspection, with the front ends that show it."""

    def __init__(
        self,
        about: Subject,
        cells: Cells,
        functions: Callable[[], Mapping[str, Any]] = dict,
        fixed: bool = False,
    ) -> None:
        """`functions` are the notebook's; of a panel that is not `fixed`, another may be chosen."""
        self.id = uuid.uuid4().hex
        self.cells = cells
        self.functions = functions
        self.fixed = fixed
        self.views: list[Send] = []
        self.asking: Send | None = None
        self.lock = threading.RLock()
        self.linked = True
        self._reset(about)

    def _reset(self, subject: Subject) -> None:
        """Start over with another subject: initial sizes, nothing measured, nothing compared."""
        self.subject, self.adviser = subject, Adviser(subject)
        self.sizes: dict[str, int] = dict(subject.start)
        self.plain = Plain("pending", subject.version)
        self.measured: Measured | None = None
        self.times: dict[str, Times] = {}
        self.others: dict[str, Other] = {}
        self.other_times: dict[str, dict[str, Times]] = {}
        self.known: dict[work.Key, Any] = {}
        self.error = ""
        self.keeper: Send | None = None
        # Since when the notebook has not been given the newest figures.
        self.owed: float | None = None
        # What runs or ran last in a thread, by what it is.
        self.tasks: dict[str, Task] = {}
        self.shown = dict.fromkeys(VIEWS, Shown())

    # What is shown

    def make_report(self) -> Report:
        """Return the figures at the current sizes, with everything that has been measured."""
        with self.lock:
            made = make_report(
                self.subject,
                self.sizes,
                id=self.id,
                linked=self.linked,
                locate=self.cells.locate_cell,
            )
            made = replace(
                made,
                plain=self.plain,
                measured=self.measured,
                times={x: t for x, t in self.times.items() if t.at.items() <= self.sizes.items()},
                shown=dict(self.shown),
                error=self.error,
                functions=() if self.fixed else tuple(self.functions()),
                beside=tuple(name for name in self.functions() if name != self.subject.name),
                compared=tuple(
                    compare_function(
                        self.subject, self.sizes, self.linked, name, beside, self.other_times[name]
                    )
                    for name, beside in self.others.items()
                ),
            )
            advice = self.adviser.give_advice(made, self.cells.locate_cell)
            return replace(made, advice=advice)

    def make_form(self) -> dict[str, Any]:
        """Return the view of the report as JSON for front ends."""
        return make_view(self.make_report()).json()

    def make_bundle(self) -> dict[str, Any]:
        """Return the report as a MIME bundle for display."""
        return report_bundle(self.make_report())

    # What the front end asks

    def attach_front_end(self, send: Send) -> None:
        """Add a front end, which `send` reaches, and send it the report."""
        self.views.append(send)
        send({"report": self.make_form()})

    def detach_front_end(self, send: Send) -> None:
        """Remove a front end; ignored if it is not attached."""
        if send in self.views:
            self.views.remove(send)

    def answer_message(self, message: Mapping[str, Any], send: Send) -> None:
        """Carry out a front end's request; a TensorError is sent back as the answer."""
        if message.get("do") not in ("estimate", "save"):  # which front ends ask by themselves
            self.asking = send
        try:
            self._do_request(message, send)
        except TensorError as error:
            send({"error": explain_error(error, self.cells), "seq": message.get("seq")})

    def _do_request(self, message: Mapping[str, Any], send: Send) -> None:
        """Carry out a front end's request.

        Raises:
            TensorError: it cannot be carried out.
        """
        match message.get("do"):
            case "sizes":
                self._resize_sliders(message["sizes"])
                self._send_report(message.get("seq"))
            case "linked":
                self.linked = bool(message["linked"])
                self._send_report()
            case "inspect":
                self._inspect_other(str(message["function"]), tuple(message.get("wrt", ())))
            case "compare":
                self.compare_with(tuple(map(str, message["functions"])))
                self._send_report()
            case "estimate":
                self.estimate_plain()
            case "measure":
                self.measure_times()
            case "sweep":
                self.sweep_size(str(message["size"]))
            case "accept":
                self.accept_advice(int(message["way"]), send)
            case "view":
                self.show_view(str(message["view"]))
            case "cancel":
                self.cancel_tasks("measure", "accept")
            case "save":
                if send == self._find_keeper():
                    self.owed = None
                    send({"bundle": self.make_bundle()})

    def _resize_sliders(self, moved: Mapping[str, int]) -> None:
        """Set sizes that a user has moved, with the sizes linked to them.

        Raises:
            TensorError: at these sizes a read is out of range, or data fix a size.
        """
        with self.lock:
            sizes = move_sizes(self.subject, self.sizes, moved, self.linked)
            self.subject.require_in_range(sizes)
            self.sizes, self.error = sizes, ""
            self.plain = work.known_estimates(
                self.subject, sizes, self.linked, self.known, self.plain.message
            )

    def compare_with(self, names: Sequence[str]) -> None:
        """Show other functions beside this one."""
        with self.lock:
            functions = self.functions()
            kept = {x: o for x, o in self.others.items() if isinstance(o, Subject)}
            self.others = {
                name: kept.get(name) or other_subject(self.subject, name, functions, self.cells)
                for name in names
                if name != self.subject.name
            }
            self.other_times = {x: self.other_times.get(x, {}) for x in self.others}

    def _inspect_other(self, name: str, wrt: tuple[str, ...]) -> None:
        """Inspect another function, or the same one by other parameters, and report it."""
        with self.lock:
            same = name == self.subject.name
            about = (
                self.subject.differentiate_by(wrt)
                if same
                else make_subject(self.functions().get(name), wrt, label=name)
            )
            self.cancel_tasks(*self.tasks)
            sizes, names = self.sizes if same else None, tuple(self.others)
            self._reset(about)
            self.compare_with(names)
            if sizes is not None:
                self.sizes = sizes
        self._send_report()
        self.estimate_plain()

    def _send_report(self, seq: Any = None) -> None:
        """Send the report to all front ends; say which one asked for it, and which one should save it."""
        made, keeper = self.make_form(), self._find_keeper()
        self.owed = self.owed or time.monotonic()
        for send in tuple(self.views):
            answers = send == self.asking
            send({"report": made, "seq": seq if answers else None, "keep": send == keeper})

    def _find_keeper(self) -> Send | None:
        """Return the front end that saves the figures in the notebook; None if there is none.

        It stays the same as long as it responds: two that save at once would leave the figures twice in a shared
        notebook.
        """
        if self.keeper not in self.views or (
            self.owed is not None and time.monotonic() - self.owed > PATIENCE
        ):
            self.keeper = self.asking if self.asking in self.views else next(iter(self.views), None)
            self.owed = None
        return self.keeper

    def _broadcast_message(self, message: dict[str, Any]) -> None:
        """Send a message to all front ends."""
        for send in tuple(self.views):
            send(message)

    # What takes a while

    def is_running(self, name: str) -> bool:
        """Whether a task of this name is running."""
        return name in self.tasks and self.tasks[name].is_alive()

    def cancel_tasks(self, *names: str) -> None:
        """Ask tasks to stop, without waiting for them; unknown names are ignored."""
        for name in names:
            if name in self.tasks:
                self.tasks[name].cancel()

    def _start_task(
        self,
        name: str,
        compute: Callable[[work.Step], Keep],
        fail: Callable[[str], None],
        done: Callable[[bool], None],
    ) -> Task:
        """Run work in a thread, under a name by which it can be cancelled.

        Args:
            compute: returns a function that stores its result.
            fail: stores why the work failed.
            done: called at the end with whether anything was stored; nothing is after a cancellation.
        """

        def run(task: Task) -> None:
            keep: Keep | None = None
            try:
                keep = compute(task.step)
            except ProfileCancelledError:
                pass
            except Exception as wrong:  # XLA at its limits, the user's own version
                keep = partial(fail, explain_error(wrong, self.cells))
            with self.lock:
                # It may have been cancelled after its last step: the panel is about another gradient.
                kept = keep is not None and not task.is_cancelled
                if keep is not None and kept:
                    keep()
            done(kept)

        task = self.tasks[name] = Task(run)
        task.start()
        return task

    def _send_if(self, changed: bool) -> None:
        """Send the report to the front ends if it has changed."""
        if changed:
            self._send_report()

    def estimate_plain(self) -> Task:
        """Estimate plain JAX's gradient with XLA at the current sizes, in a thread; cancels an earlier estimate."""
        self.cancel_tasks("estimate")
        with self.lock:
            about, sizes, linked, known = self.subject, dict(self.sizes), self.linked, self.known

        def keep_estimates(estimates: Plain) -> None:
            # Sizes may have moved meanwhile: those that stand now may wait for their estimate.
            is_failed = estimates.state == "failed"
            now = self.sizes
            self.plain = estimates if is_failed else work.known_estimates(about, now, linked, known)

        def estimate(step: work.Step) -> Keep:
            found = work.estimate_plain(about, sizes, linked, known, step)
            return partial(keep_estimates, found)

        def fail(why: str) -> None:
            self.plain = Plain("failed", about.version, why)

        return self._start_task("estimate", estimate, fail, self._send_if)

    def measure_times(self) -> Task:
        """Measure times at the current sizes in a thread, and report progress."""
        with self.lock:
            about, sizes = self.subject, dict(self.sizes)

        def measure(progress: work.Progress, step: work.Step) -> Keep:
            found = work.measure_subject(about, sizes, progress, step)
            return lambda: setattr(self, "measured", found)

        return self._measure_in_thread(measure)

    def sweep_size(self, name: str) -> Task:
        """Measure times over a size in a thread, also of the functions compared, and report progress."""
        with self.lock:
            about, sizes, linked = self.subject, dict(self.sizes), self.linked
            size = next((s for s in about.size_sliders(linked) if name in s.names), None)
            others = {x: o for x, o in self.others.items() if isinstance(o, Subject)}

        def sweep_all(progress: work.Progress, step: work.Step) -> Keep:
            if size is None or size.fixed:
                raise TensorError(f"`{name}` is not a size that can be chosen")
            wanted = [(about, sizes, size)]
            for beside in others.values():
                pairs = match_sizes(about, beside, linked)
                there = sizes_of_other(sizes, beside, pairs)
                wanted += [(beside, there, b) for a, b in pairs if a == size]
            own, *found = [
                work.sweep_sizes(which, at, over, progress_of_part(progress, k, len(wanted)), step)
                for k, (which, at, over) in enumerate(wanted)
            ]

            def keep_sweeps() -> None:
                self.times[own.size] = own
                for (beside, _, _), times in zip(wanted[1:], found, strict=True):
                    # Another may have come in its place meanwhile.
                    if self.others.get(beside.name) is beside:
                        self.other_times[beside.name][own.size] = times

            return keep_sweeps

        return self._measure_in_thread(sweep_all)

    def _measure_in_thread(self, measure: Callable[[work.Progress, work.Step], Keep]) -> Task:
        """Measure in a thread, unless a measurement is running, and show the results and the progress."""
        if self.is_running("measure"):
            return self.tasks["measure"]
        self._fail("")

        def send_progress(done: int, total: int) -> None:
            self._broadcast_message({"progress": {"done": done, "total": total}})

        def end(changed: bool) -> None:
            self._broadcast_message({"progress": None})
            self._send_if(changed)

        return self._start_task("measure", partial(measure, send_progress), self._fail, end)

    def _fail(self, why: str) -> None:
        """Store why a task failed, for the next report."""
        with self.lock:
            self.error = why

    def accept_advice(self, index: int, send: Send) -> Task:
        """Compare both programs in a thread, and send the change that advice asks for to a front end.

        Args:
            index: that of the rewriting.
        """
        if self.is_running("accept"):
            return self.tasks["accept"]
        with self.lock:
            adviser, sizes = self.adviser, dict(self.sizes)
        send({"checking": index})
        answer: dict[str, Any] = {"accepted": index}

        def accept(step: work.Step) -> Keep:
            change = accept_advice(adviser, index, sizes, self.cells.locate_cell, step)
            return lambda: answer.update(change=change.json())

        return self._start_task(
            "accept", accept, lambda why: answer.update(error=why), lambda _: send(answer)
        )

    def show_view(self, view: str) -> Task:
        """Compute a view at the current sizes in a thread; cancels an earlier request for it.

        Raises:
            TensorError: there is no such view.
        """
        if view not in VIEWS:
            raise TensorError(f"there is no view `{view}`", f"ask for {' or '.join(VIEWS)}")
        with self.lock:
            about, sizes = self.subject, dict(self.sizes)
            self.cancel_tasks(view)
            self.shown[view] = Shown("pending")
        self._send_report()
        found = Shown("done", sizes, work.spell_sizes(about, sizes))

        def keep(text: str = "", error: str = "") -> None:
            self.shown[view] = replace(found, text=text, error=error)

        return self._start_task(
            view,
            lambda _: partial(keep, text=work.view_text(about, sizes, view)),
            lambda why: keep(error=why),
            self._send_if,
        )


def progress_of_part(progress: work.Progress, k: int, parts: int) -> work.Progress:
    """Return a progress function for part `k` of several parts that take equally long."""
    return lambda done, total: progress(k * total + done, parts * total)


class Task(threading.Thread):
    """Work in a thread that can be told to stop."""

    def __init__(self, run: Callable[[Task], None]) -> None:
        # In the caller's context, so that what it sends belongs to the caller's message.
        context = contextvars.copy_context()
        super().__init__(target=context.run, args=(run, self), daemon=True)
        self.is_cancelled = False

    def step(self) -> None:
        """Raise ProfileCancelledError if the task was cancelled; called by the work in the thread."""
        if self.is_cancelled:
            raise ProfileCancelledError

    def cancel(self) -> None:
        """Make the next call of `step` in the thread raise, so that it stops."""
        self.is_cancelled = True
