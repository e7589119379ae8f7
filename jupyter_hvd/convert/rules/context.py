"""One program as the rules for TensorFlow and Horovod see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import libcst as cst
from libcst.helpers import get_full_name_for_node

from ...analysis.module import Module, Span, parsed
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
        self.module = parsed(self.cells.python)

    @property
    def keeps_values(self) -> bool:
        return self.options.open_ended

    # Names to write with

    def fresh(self, *candidates: str) -> str:
        """The first of these names, then of their numbered forms, that the module does not use."""
        taken = self.values.index.names
        numbered = (f"{candidates[0]}_{n}" for n in range(2, 1000))
        return next(name for name in chain(candidates, numbered) if name not in taken)

    @cached_property
    def hvd(self) -> str:
        """The name of Horovod's module for TensorFlow."""
        return self.fresh("hvd", "horovod_tf")

    @cached_property
    def backend(self) -> Horovod:
        return Horovod(self.hvd)

    @cached_property
    def jhvd(self) -> str:
        """The name of the runtime library."""
        return self.fresh("jhvd", "jupyter_hvd_runtime")

    def runtime(self, name: str) -> str:
        """How the program writes the name of a function of the runtime library."""
        return f"{self.jhvd}.{name}"

    @cached_property
    def tf(self) -> str:
        """The name of tensorflow: the module's own where one is bound at top level, else one to import."""
        return self.bound_tf or self.fresh("tf", "tensorflow")

    @cached_property
    def bound_tf(self) -> str | None:
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
        return Edit(offset, offset, layer, text)

    def wrap(
        self, node: cst.CSTNode, before: str, after: str, layer: Layer = Layer.WRAP
    ) -> tuple[Edit, Edit]:
        """`before` and `after` around a node; wrappers with a greater layer stand nearer to it."""
        start, end = (span := self.module.span(node)).start, span.end
        opening = Edit(start, start, layer, before, other_end=end)
        return opening, self.behind(node, after, -layer)

    def behind(self, node: cst.CSTNode, text: str, layer: int) -> Edit:
        """`text` behind a node, before what closes around it and more."""
        span = self.module.span(node)
        return Edit(span.end, span.end, layer, text, other_end=span.start)

    def replace(self, node: cst.CSTNode, text: str) -> Edit:
        span = self.module.span(node)
        return Edit(span.start, span.end, 0, text)

    def times_size(self, number: cst.BaseExpression) -> tuple[Edit, ...]:
        """A number multiplied by the number of ranks."""
        around = product_around(number, self.module.parent(number), self.backend.size)
        return self.convert_number(number, *around)

    def convert_number(
        self, number: cst.BaseExpression, before: str, after: str, layer: Layer = Layer.WRAP
    ) -> tuple[Edit, ...]:
        """`before` and `after` around a number, as `scale_edits` writes them; `1 * n` is written `n`."""
        factor = without_factor_of_one(self.module.text(number), before, after)
        if factor:
            return (self.replace(number, factor),)
        return tuple(edit for edit in self.wrap(number, before, after, layer) if edit.text)

    def add_keyword(self, call: cst.Call, text: str, layer: Layer = Layer.PLAIN) -> Edit:
        """`name=value` as one more argument at the end of a call."""
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
        """A new line behind a block, indented like its header."""
        indent = self.module.indentation(self.module.span(block).start)
        end = self.module.line_end(self.module.span(last_line(block)).end)
        return self.insert(end, f"{self.module.newline}{indent}{line}", Layer.BEHIND_BLOCK)

    def own_line(self, call: cst.Call) -> cst.SimpleStatementLine | None:
        """The line that holds this call as its only statement."""
        statement = self.module.parent(call)
        line = self.module.parent(statement) if isinstance(statement, cst.Expr) else None
        return line if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None

    def on_rank_zero(self, line: cst.SimpleStatementLine, anchor: cst.CSTNode) -> Fix:
        """A line that rank 0 alone runs: under an `if` of its own, or the one that holds nothing else."""
        condition = self._only_condition(line)
        if condition is not None:
            return Fix(anchor, self._and_rank_zero(condition))
        span = self.module.span(line)
        newline, indent = self.module.newline, self.module.indentation(span.start)
        header = self.insert(
            span.start, f"if {self.backend.is_rank_zero}:{newline}{indent}", Layer.GUARD
        )
        fixed = self.spans_inside_strings(line)
        starts = [
            start
            for start in self.module.line_starts_within(span)
            if not any(string.start < start <= string.end for string in fixed)
        ]
        step = self.indent_step(line)
        indents = [self.insert(start, step, Layer.INDENT) for start in (span.start, *starts)]
        return Fix(anchor, (header, *indents), guard=Guard(line, header))

    def _only_condition(self, line: cst.SimpleStatementLine) -> cst.BaseExpression | None:
        """The test of an `if` that does nothing but this line, and nothing where it does not hold."""
        block = self.module.parent(line)
        owner = self.module.parent(block) if isinstance(block, cst.IndentedBlock) else None
        if isinstance(owner, cst.If) and owner.body is block and len(block.body) == 1:
            return owner.test if owner.orelse is None else None
        return None

    def _and_rank_zero(self, test: cst.BaseExpression) -> tuple[Edit, ...]:
        more = f" and {self.backend.is_rank_zero}"
        binds_less = isinstance(test, (cst.IfExp, cst.Lambda, cst.NamedExpr)) or (
            isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or)
        )
        if binds_less and not test.lpar:
            return self.wrap(test, "(", f"){more}", Layer.LIST)
        return (self.insert(self.module.span(test).end, more),)

    def line_before(self, line: cst.SimpleStatementLine) -> cst.SimpleStatementLine | None:
        """The statement of the same block and cell that stands on the line directly before."""
        block = self.module.parent(line)
        if not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        places = self._places.setdefault(block, {})
        if not places:
            places.update((statement, place) for place, statement in enumerate(block.body))
        before = block.body[places[line] - 1] if places[line] else None
        if not isinstance(before, cst.SimpleStatementLine):
            return None
        end, start = self.module.span(before).end, self.module.span(line).start
        adjacent = self.module.line(start) == self.module.line(end) + 1
        return before if adjacent and self.cells.cell_of(end) == self.cells.cell_of(start) else None

    @cached_property
    def _places(self) -> dict[cst.CSTNode, dict[cst.CSTNode, int]]:
        """The places of the statements in each block that was asked for."""
        return {}

    def indent_step(self, node: cst.CSTNode) -> str:
        """The indentation of a block at a node: its own block's, else that of the first block of its cell."""
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

    def spans_inside_strings(self, node: cst.CSTNode) -> list[Span]:
        """The strings of a statement that go over several lines: their lines must not move."""
        found: list[Span] = []
        pending = [node]
        while pending:
            child = pending.pop()
            if isinstance(child, (cst.SimpleString, cst.FormattedString)):
                found.append(self.module.span(child))
            else:
                pending += children_of(child)
        return found


def last_line(block: cst.CSTNode) -> cst.CSTNode:
    """The last simple statement inside a compound statement."""
    body = getattr(block, "body", None)
    orelse = getattr(block, "finalbody", None) or getattr(block, "orelse", None)
    if orelse is not None:
        return last_line(orelse)
    if isinstance(block, cst.Try | cst.TryStar) and block.handlers:
        return last_line(block.handlers[-1])
    if isinstance(block, cst.Match):
        return last_line(block.cases[-1])
    if isinstance(body, cst.IndentedBlock):
        return last_line(body.body[-1])
    return block


Rule = BaseRule[Context]
