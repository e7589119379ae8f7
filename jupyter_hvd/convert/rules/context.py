"""One program as the rules for TensorFlow and Horovod see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import libcst as cst
from libcst.helpers import get_full_name_for_node

from ...analysis.module import Module, Span, parse_module
from ...analysis.scale_edits import product_around, without_factor_of_one
from ...analysis.tree import children_of
from ...source.cells import JoinedCells
from ...source.edits import Edit, Layer
from ..horovod import Horovod
from ..tensorflow.program import TensorFlowProgram
from .base import BACKEND, Fix, Guard
from .base import Rule as BaseRule
from .options import Options

#: What a fix may need to be in the program, besides the functions of `jupyter_hvd.runtime` by their names.
HOROVOD, TENSORFLOW, RUNTIME = BACKEND, "tensorflow", "runtime"


@dataclass
class Context(TensorFlowProgram):
    """One program as the rules see it: its text, what is known of it, and the names to write with."""

    cells: JoinedCells
    options: Options
    module: Module = field(init=False)

    def __post_init__(self) -> None:
        self.module = parse_module(self.cells.python)

    @property
    def keeps_values(self) -> bool:
        """Whether named values stay those of one process: in notebooks, because later cells may read and set them."""
        return self.options.open_ended

    # Names to write with

    def choose_unused_name(self, *candidates: str) -> str:
        """Return the first of these names, then of their numbered forms, that the module does not use."""
        taken = self.values.index.names
        numbered = (f"{candidates[0]}_{n}" for n in range(2, 1000))
        return next(name for name in chain(candidates, numbered) if name not in taken)

    @cached_property
    def hvd(self) -> str:
        """The name under which converted code calls `horovod.tensorflow`."""
        return self.choose_unused_name("hvd", "horovod_tf")

    @cached_property
    def backend(self) -> Horovod:
        """The backend that formats ranks and sizes under this program's name of Horovod."""
        return Horovod(self.hvd)

    @cached_property
    def jhvd(self) -> str:
        """The name under which converted code calls the runtime library."""
        return self.choose_unused_name("jhvd", "jupyter_hvd_runtime")

    def runtime(self, name: str) -> str:
        """Return how the program writes a function of the runtime library: `jhvd.scale_rate`."""
        return f"{self.jhvd}.{name}"

    @cached_property
    def tf(self) -> str:
        """The name of TensorFlow: the one that the module binds at top level, else one that no name of the module equals."""
        return self.bound_tf or self.choose_unused_name("tf", "tensorflow")

    @cached_property
    def bound_tf(self) -> str | None:
        """The name that a top-level import binds to TensorFlow; None if there is none."""
        for node in self.values.index.imports:
            if isinstance(node, cst.Import) and self.module.function_of(node) is None:
                for alias in node.names:
                    whole = get_full_name_for_node(alias.name)
                    if whole == "tensorflow" or (whole == "tensorflow.compat.v2" and alias.asname):
                        return alias.evaluated_alias or "tensorflow"
                    if (whole or "").startswith("tensorflow.") and not alias.asname:
                        return "tensorflow"
        return None

    # Edits that many rules make

    def insert(self, offset: int, text: str, layer: int = Layer.PLAIN) -> Edit:
        """Return the edit that inserts text at an offset; `layer` orders insertions at one offset."""
        return Edit(offset, offset, layer, text)

    def wrap(
        self, node: cst.CSTNode, before: str, after: str, layer: Layer = Layer.WRAP
    ) -> tuple[Edit, Edit]:
        """Return the edits that put `before` and `after` around a node. Wrappers with a greater layer are nearer to it."""
        start, end = (span := self.module.span(node)).start, span.end
        opening = Edit(start, start, layer, before, other_end=end)
        return opening, self.insert_behind(node, after, -layer)

    def insert_behind(self, node: cst.CSTNode, text: str, layer: int) -> Edit:
        """Return the edit that inserts text behind a node, but inside what closes there around more than this node."""
        span = self.module.span(node)
        return Edit(span.end, span.end, layer, text, other_end=span.start)

    def replace(self, node: cst.CSTNode, text: str) -> Edit:
        """Return the edit that replaces a node's text."""
        span = self.module.span(node)
        return Edit(span.start, span.end, 0, text)

    def multiply_by_size(self, number: cst.BaseExpression) -> tuple[Edit, ...]:
        """Return the edits that multiply a number by the number of ranks."""
        around = product_around(number, self.module.parent(number), self.backend.size)
        return self.convert_number(number, *around)

    def convert_number(
        self, number: cst.BaseExpression, before: str, after: str, layer: Layer = Layer.WRAP
    ) -> tuple[Edit, ...]:
        """Return the edits that put `before` and `after` around a number, as `scale_edits` writes them; `1 * n` is written
        `n`.
        """
        factor = without_factor_of_one(self.module.text(number), before, after)
        if factor:
            return (self.replace(number, factor),)
        return tuple(edit for edit in self.wrap(number, before, after, layer) if edit.text)

    def add_keyword(self, call: cst.Call, text: str, layer: Layer = Layer.PLAIN) -> Edit:
        """Return the edit that appends `name=value` to a call's arguments, in the layout of the existing ones."""
        end = self.module.span(call).end - 1
        if not call.args:
            return self.insert(end, text, layer)
        last = call.args[-1]
        after = self.module.span(last.value).end
        trailing = isinstance(last.comma, cst.Comma)
        if not trailing:
            return self.insert(after, f", {text}", layer)
        # A trailing comma is kept; where the arguments stand on lines of their own, so does the new one.
        comma = self.module.source.index(",", after) + 1
        between = self.module.source[comma:end]
        if "\n" in between:
            start = self.module.span(last).start
            return self.insert(
                comma, f"{self.module.newline}{self.module.indentation(start)}{text},", layer
            )
        return self.insert(comma, f" {text},", layer)

    def after_block(self, block: cst.With, line: str) -> Edit:
        """Return the edit that inserts a new line below a block, indented like the block's header."""
        indent = self.module.indentation(self.module.span(block).start)
        end = self.module.line_end(self.module.span(find_last_line(block)).end)
        return self.insert(end, f"{self.module.newline}{indent}{line}", Layer.BEHIND_BLOCK)

    def own_line(self, call: cst.Call) -> cst.SimpleStatementLine | None:
        """Return the line whose only statement is this call; None if there is none."""
        statement = self.module.parent(call)
        line = self.module.parent(statement) if isinstance(statement, cst.Expr) else None
        return line if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None

    def on_rank_zero(self, line: cst.SimpleStatementLine, anchor: cst.CSTNode) -> Fix:
        """Return the fix that makes only rank 0 run a line: a new `if`, or one more condition in an `if` around only this
        line.
        """
        condition = self._only_condition(line)
        if condition is not None:
            return Fix(anchor, self._and_rank_zero(condition))
        span = self.module.span(line)
        newline, indent = self.module.newline, self.module.indentation(span.start)
        header = self.insert(
            span.start, f"if {self.backend.is_rank_zero}:{newline}{indent}", Layer.GUARD
        )
        fixed = self.spans_of_strings(line)
        starts = [
            start
            for start in self.module.line_starts_within(span)
            if not any(string.start < start <= string.end for string in fixed)
        ]
        step = self.indent_step(line)
        indents = [self.insert(start, step, Layer.INDENT) for start in (span.start, *starts)]
        return Fix(anchor, (header, *indents), guard=Guard(line, header))

    def _only_condition(self, line: cst.SimpleStatementLine) -> cst.BaseExpression | None:
        """Return the test of an `if` without `else` whose block is only this line; None if there is none."""
        block = self.module.parent(line)
        owner = self.module.parent(block) if isinstance(block, cst.IndentedBlock) else None
        if isinstance(owner, cst.If) and owner.body is block and len(block.body) == 1:
            return owner.test if owner.orelse is None else None
        return None

    def _and_rank_zero(self, test: cst.BaseExpression) -> tuple[Edit, ...]:
        """Return the edits that add `and hvd.rank() == 0` to a test."""
        more = f" and {self.backend.is_rank_zero}"
        binds_less = isinstance(test, (cst.IfExp, cst.Lambda, cst.NamedExpr)) or (
            isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or)
        )
        if binds_less and not test.lpar:
            return self.wrap(test, "(", f"){more}", Layer.LIST)
        return (self.insert(self.module.span(test).end, more),)

    def line_before(self, line: cst.SimpleStatementLine) -> cst.SimpleStatementLine | None:
        """Return the statement on the line directly above, in the same block and cell; None if there is none."""
        block = self.module.parent(line)
        if not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        places = self._statement_indices.setdefault(block, {})
        if not places:
            places.update((statement, place) for place, statement in enumerate(block.body))
        before = block.body[places[line] - 1] if places[line] else None
        if not isinstance(before, cst.SimpleStatementLine):
            return None
        end, start = self.module.span(before).end, self.module.span(line).start
        adjacent = self.module.line(start) == self.module.line(end) + 1
        return before if adjacent and self.cells.cell_of(end) == self.cells.cell_of(start) else None

    @cached_property
    def _statement_indices(self) -> dict[cst.CSTNode, dict[cst.CSTNode, int]]:
        """The index of each statement in its block, for the blocks asked for so far."""
        return {}

    def indent_step(self, node: cst.CSTNode) -> str:
        """Return one level of indentation at a node: that of its own block, else of the first block of its cell."""
        default = self.module.tree.default_indent
        around = self.module.enclosing(node, cst.IndentedBlock)
        if around is None and not isinstance(node, cst.Module):
            cell = self.cells.cell_of(self.module.span(node).start)
            around = self._first_blocks.get(cell)
        return default if around is None or around.indent is None else around.indent

    @cached_property
    def _first_blocks(self) -> dict[int, cst.IndentedBlock]:
        """The first indented block of each cell."""
        found: dict[int, cst.IndentedBlock] = {}
        for statement in self.module.tree.body:
            block = getattr(statement, "body", None)
            if isinstance(block, cst.IndentedBlock):
                found.setdefault(self.cells.cell_of(self.module.span(statement).start), block)
        return found

    def spans_of_strings(self, node: cst.CSTNode) -> list[Span]:
        """Return the spans of the strings in a statement. The lines inside a string must not be indented."""
        found: list[Span] = []
        pending = [node]
        while pending:
            child = pending.pop()
            if isinstance(child, (cst.SimpleString, cst.FormattedString)):
                found.append(self.module.span(child))
            else:
                pending += children_of(child)
        return found


def find_last_line(block: cst.CSTNode) -> cst.CSTNode:
    """Return the last simple statement inside a compound statement."""
    body = getattr(block, "body", None)
    orelse = getattr(block, "finalbody", None) or getattr(block, "orelse", None)
    if orelse is not None:
        return find_last_line(orelse)
    if isinstance(block, cst.Try | cst.TryStar) and block.handlers:
        return find_last_line(block.handlers[-1])
    if isinstance(block, cst.Match):
        return find_last_line(block.cases[-1])
    if isinstance(body, cst.IndentedBlock):
        return find_last_line(body.body[-1])
    return block


Rule = BaseRule[Context]
