"""The imports of a program, and where Horovod is started after them. Helpers of several rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst.helpers import get_full_name_for_node

from ..tensorflow.roles import Role
from ..tensorflow.tf_api import canonical
from .base import Fix
from .context import Context

#: The comment by which a converted program is known again.
MARK = "# Horovod, added by jupyter hvd: the ranks share each batch"
#: The module of the file that a stand-alone program imports instead of the runtime.
SHARING_FILE = "jupyter_hvd_sharing"
#: What such a program calls first.
START_SHARED = ("jupyter_hvd.runtime.start_shared", f"{SHARING_FILE}.start_shared")


def uses_horovod(context: Context) -> cst.CSTNode | None:
    """Return the first import of Horovod or of a part of it, or the first call of `start_shared`; None if there is none."""
    calls = (
        call
        for call in context.values.index.calls
        if context.values.qualified(call.func) in START_SHARED
    )
    return next(_find_imports(context, "horovod"), None) or next(calls, None)


def imports_tensorflow(context: Context) -> bool:
    """Whether the program imports TensorFlow or Keras anywhere."""
    return any(True for _ in _find_imports(context, "tensorflow"))


def makes_models(context: Context) -> bool:
    """Whether the program makes a model or an optimizer, which another module may train."""
    qualified, kind_of = context.values.qualified, context.values.library.kind_of_result
    trained = {Role.MODEL, Role.OPTIMIZER}
    return any(kind_of(qualified(call.func)) in trained for call in context.values.index.calls)


def is_converted_already(context: Context) -> bool:
    """Whether this converter wrote the program."""
    return MARK in context.module.source and uses_horovod(context) is not None


def find_first_import(context: Context) -> cst.CSTNode | None:
    """Return the first top-level statement that imports TensorFlow or Keras; None if there is none."""
    for node in _find_imports(context, "tensorflow"):
        if context.module.function_of(node) is None:
            return context.module.top_level_statement(node)
    return None


def _find_imports(context: Context, library: str) -> Iterator[cst.CSTNode]:
    """Yield the imports of a library or its parts; `keras` counts as part of TensorFlow."""
    for node in context.values.index.imports:
        if isinstance(node, cst.Import):
            modules: list[cst.BaseExpression | None] = [alias.name for alias in node.names]
        else:
            modules = [] if node.relative else [node.module]
        names = (get_full_name_for_node(module) or "" for module in modules if module is not None)
        if any(canonical(name).partition(".")[0] == library for name in names):
            yield node


@dataclass(frozen=True)
class InsertionPoint:
    """A statement in front of which lines can be inserted, and the offset where it begins."""

    statement: cst.CSTNode
    offset: int


def find_first_insertion_point(context: Context) -> InsertionPoint | None:
    """Return the first statement in front of which the converter may insert lines; None if there is none."""
    return next((p for p in _insertion_points(context) if not must_stay_first(p.statement)), None)


def _insertion_points(context: Context) -> Iterator[InsertionPoint]:
    """Yield the top-level statements whose first line consists of the user's Python only, in order."""
    module, text = context.module, context.cells.text
    for statement in module.tree.body:
        inner: cst.CSTNode = statement
        if isinstance(statement, cst.With) and is_cell_header(context, statement):
            inner = statement.body.body[0]
        first = inner
        if isinstance(inner, cst.FunctionDef | cst.ClassDef) and inner.decorators:
            first = inner.decorators[0]
        offset = module.span(first).start
        line = slice(module.line_start(offset), module.line_end(offset))
        if text[line] == module.source[line] and not text[line.start : offset].strip():
            yield InsertionPoint(inner, offset)


def is_cell_header(context: Context, statement: cst.With) -> bool:
    """Whether a `with` is not the user's, but stands around a cell whose lines are all indented."""
    start = context.module.span(statement).start
    first = context.module.span(statement.body.body[0]).start
    return context.cells.cell_of(start) != context.cells.cell_of(first)


def must_stay_first(statement: cst.CSTNode) -> bool:
    """Whether Python requires a statement to come first: a docstring or an import from `__future__`."""
    match statement:
        case cst.SimpleStatementLine(
            body=[
                cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString())
                | cst.ImportFrom(module=cst.Name(value="__future__")),
                *_,
            ]
        ):
            return True
    return False


@dataclass(frozen=True)
class HorovodPosition:
    """Where Horovod is imported and started.

    Attributes:
        anchor: the statement beside which it is inserted. offset: where it is inserted.
        in_front: whether it is inserted in front of that statement, or behind it.
    """

    anchor: cst.CSTNode
    offset: int
    in_front: bool


def choose_horovod_position(context: Context, users: Sequence[Fix]) -> HorovodPosition | None:
    """Return where to import and start Horovod: behind the imports of TensorFlow, or above an earlier line that needs Horovod.

    At the top if only functions import TensorFlow. None if there is no such position.

    Args:
        users: the fixes that need Horovod.
    """
    first = find_first_import(context)
    if first is None:
        top = find_first_insertion_point(context)
        return None if top is None else HorovodPosition(top.statement, top.offset, True)
    end = find_end_of_imports(context, first)
    early = sorted(edit.start for fix in users for edit in fix.edits if edit.start < end)
    statements = [s for s in context.module.tree.body if context.module.span(s).start < end]
    called: set[str] = set()
    for statement in statements:
        span = context.module.span(statement)
        needs = any(span.start <= offset <= span.end for offset in early)
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            if needs:  # when it is called
                called.add(statement.name.value)
        elif needs or called & set(
            re.findall(r"\w+", context.module.source[span.start : span.end])
        ):
            return HorovodPosition(statement, span.start, True)
    return HorovodPosition(first, end, False)


def find_end_of_imports(context: Context, first: cst.CSTNode) -> int:
    """Return the end of the last line of the block of imports that begins with `first`, within its cell."""
    cells, span = context.cells, context.module.span
    body = list(context.module.tree.body)
    last = first
    for statement in body[body.index(first) + 1 :]:  # type: ignore[arg-type]
        if (
            not isinstance(statement, cst.SimpleStatementLine)
            or not all(isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body)
            or cells.cell_of(span(statement).start) != cells.cell_of(span(first).start)
        ):
            break
        last = statement
    return context.module.line_end(span(last).end)
