"""The magics of the tensor language: `%%tensor` and `%gradcost`. Parse, call, show.

What does the work is imported when it is used, so that `%load_ext jupyter_hvd` is instant.
"""

from __future__ import annotations

import ast
import shlex
import sys
from collections import deque
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

from .parser import MagicParser

if TYPE_CHECKING:
    from ..gradcost.cards import Shown
    from ..gradcost.cells import Cells
    from ..gradcost.panel_comm import Panels
    from ..tensor import TensorFunction

TARGET = "jupyter_hvd.gradcost"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def gradcost_parser() -> MagicParser:
    """Create the parser of `%gradcost`."""
    parser = MagicParser(
        prog="%gradcost",
        description="What the derivatives of a tensor function cost.",
    )
    parser.add_argument(
        "function", nargs="+", metavar="f", help="a tensor function, or a call of one: f(A, x)"
    )
    parser.add_argument(
        "--wrt", nargs="+", default=[], metavar="x", help="parameters to differentiate by; all"
    )
    parser.add_argument(
        "--against", metavar="g", help="the same in jax.numpy, for jax.grad to be compared with"
    )
    parser.add_argument(
        "--compare", nargs="+", default=[], metavar="g", help="tensor functions to show beside it"
    )
    parser.add_argument(
        "--estimate", action="store_true", help="ask XLA before showing, for use without the panel"
    )
    parser.add_argument(
        "--measure", action="store_true", help="measure before showing, for use without the panel"
    )
    return parser


@magics_class
class TensorMagics(Magics):  # type: ignore[misc]
    """`%%tensor` and `%gradcost`."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.shown: list[Shown] = []
        self.infos: deque[Any] = deque(maxlen=1000)

    @cached_property
    def cells(self) -> Cells:
        """The record of cells that ran, created on first use."""
        from ..gradcost.cells import Cells

        return Cells(self.shell)

    @cached_property
    def panels(self) -> Panels:
        """The open gradient-cost panels, created on first use."""
        from ..gradcost.panel_comm import Panels

        return Panels(self.shell, self.cells)

    @cell_magic  # type: ignore[untyped-decorator]
    def tensor(self, line: str, cell: str) -> None:
        """Run the cell; convert each function that it defines before the next statement runs, and show its cost."""
        if line.strip():
            raise UsageError("%%tensor takes no arguments")
        from ..gradcost.cells import CellError
        from ..tensor import TensorError

        self._remember_cell()
        source, filename = self.cells.enter_cell(self.shell.transform_cell(cell))
        tree = ast.parse(source, filename)
        errors: list[TensorError] = []
        made: dict[str, TensorFunction] = {}
        for node in tree.body:
            name = getattr(node, "name", "") if isinstance(node, FUNCTIONS) else ""
            if errors and not name:
                continue  # it may call what is no tensor function
            self._execute_statement(node, filename, shows=node is tree.body[-1])
            try:
                if name and (function := self._convert_defined_function(name)) is not None:
                    made[name] = function
            except TensorError as error:
                errors.append(error)
        self._show_cards(list(made.values()), errors)
        if errors:
            raise CellError(errors, self.cells)

    def _convert_defined_function(self, name: str) -> TensorFunction | None:
        """Convert a function that was just defined to a tensor function; None where a decorator made something else of
        it.

        Raises:
            TensorError: it cannot be converted; its name is then unbound.
        """
        from ..tensor import TensorError, TensorFunction, tensor

        value = self.shell.user_ns.get(name)
        try:
            if isinstance(value, FunctionType):
                value = self.shell.user_ns[name] = tensor(value)
        except TensorError:
            del self.shell.user_ns[name]
            raise
        return value if isinstance(value, TensorFunction) else None

    def _execute_statement(self, node: ast.stmt, filename: str, shows: bool) -> None:
        """Run a statement of the cell in the user's namespace.

        Args:
            shows: show the value of an expression.
        """
        namespace, flags = self.shell.user_ns, self.shell.compile.flags
        if shows and isinstance(node, ast.Expr):
            tree: ast.Expression | ast.Module = ast.Expression(node.value)
            value = eval(compile(tree, filename, "eval", flags, dont_inherit=True), namespace)  # noqa: S307
            if value is not None:
                sys.displayhook(value)
            return
        tree = ast.Module([node], [])
        exec(compile(tree, filename, "exec", flags, dont_inherit=True), namespace)  # noqa: S102

    def _show_cards(self, functions: list[Any], errors: list[Any]) -> None:
        """Show a card for each tensor function; append the errors of those that have none to `errors`."""
        from IPython.display import display

        from ..gradcost import cards
        from ..tensor import TensorError

        known, made = [], []
        for function in functions:
            try:
                made.append(cards.make_card(function))
                known.append(function)
            except TensorError as error:
                errors.append(error)
        if made:
            handle = display(cards.cards_bundle(made), raw=True, display_id=True)
            self.shown.append(cards.Shown(tuple(known), handle, made))

    @line_magic  # type: ignore[untyped-decorator]
    def gradcost(self, line: str) -> None:
        """Report the cost of a tensor function's derivatives: `%gradcost f --wrt x`."""
        try:
            words = shlex.split(line, posix=False)
        except ValueError as error:
            raise UsageError(f"%gradcost: {error}") from None
        arguments = gradcost_parser().parse_args(words)
        from ..gradcost.cells import CellError
        from ..gradcost.subject import make_subject
        from ..tensor import TensorError

        self._remember_cell()
        function, call = self._parse_subject(" ".join(arguments.function))
        against = self._evaluate_text(arguments.against) if arguments.against else None
        try:
            wrt = [name for word in arguments.wrt for name in word.split(",") if name]
            about = make_subject(function, wrt, call, against)
            self.panels.show_panel(about, arguments.estimate, arguments.measure, arguments.compare)
        except TensorError as error:
            raise CellError([error], self.cells) from None

    def _parse_subject(self, text: str) -> tuple[Any, Any]:
        """Evaluate `f` to `(f, None)`, and `f(A, x)` to `(f, (args, kwargs))` without calling f.

        What makes a function, as `f.grad("x")`, is evaluated to that function.
        """
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise UsageError(f"%gradcost: `{text}` is neither a function nor a call") from None
        if not isinstance(tree, ast.Call) or _makes_function(tree):
            return self._evaluate_text(text), None
        function = self._evaluate_text(ast.unparse(tree.func))
        args = [self._evaluate_text(ast.unparse(part)) for part in tree.args]
        named = {k.arg: self._evaluate_text(ast.unparse(k.value)) for k in tree.keywords if k.arg}
        return function, (tuple(args), named)

    def _evaluate_text(self, text: str) -> Any:
        """Evaluate an expression in the user's namespace."""
        return eval(text, self.shell.user_ns)  # noqa: S307 — the user's own expression

    # What is remembered between cells

    def note_start(self, info: Any) -> None:
        """Note which cell is about to run, so that statements can refer to its lines."""
        self.infos.append(info)
        if "cells" in self.__dict__:
            self._remember_cell()

    def _remember_cell(self) -> None:
        """Record the cells that have started since the last call."""
        for info in self.infos:
            self.cells.note_cell(info)
        self.infos.clear()

    def note_end(self, _result: Any) -> None:
        """Refresh the cards that are shown, after each cell; a callback of IPython's."""
        for shown in self.shown:
            shown.refresh_cards()

    def connect_panel(self, comm: Any, message: Any) -> None:
        """Connect a gradient-cost panel of the front end to this kernel; a callback of comms."""
        self._remember_cell()
        self.panels.connect_front_end(comm, message)


def _makes_function(call: ast.Call) -> bool:
    """Whether a call is `f.grad("x")` or the like, which returns a function."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in (
        *("grad", "value_and_grad", "jvp", "vjp", "hessian"),
    )


def load_magics(shell: Any) -> None:
    """Register the magics, and the comm target of the panels where there is a kernel."""
    magics = TensorMagics(shell)
    shell.register_magics(magics)
    shell.events.register("pre_run_cell", magics.note_start)
    shell.events.register("post_run_cell", magics.note_end)
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        kernel.comm_manager.register_target(TARGET, magics.connect_panel)
