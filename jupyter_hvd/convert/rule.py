"""A rule: one class with its code, its why, its examples, and how it finds what to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from inspect import cleandoc
from typing import ClassVar

import libcst as cst
from libcst.helpers import get_full_name_for_node

from ..analysis.effects import writes
from ..analysis.module import Module, Span
from ..analysis.values import ValueAnalysis
from ..frameworks.tensorflow.data import Datasets
from ..frameworks.tensorflow.library import TensorFlowLibrary
from ..frameworks.tensorflow.randomness import Randomness
from ..frameworks.tensorflow.training import Training
from .conversion import Options, Severity
from .edits import Edit


@dataclass(frozen=True)
class Example:
    """Source before and after a rule; `after` is None where the program is refused.

    `after` shows this rule's changes alone. The test of the example converts `before` and
    compares; `docs/rules.md` shows it.
    """

    before: str
    after: str | None
    note: str = ""


def program(text: str) -> str:
    """The program in an indented triple-quoted string."""
    return cleandoc(text) + "\n"


@dataclass(frozen=True)
class Fix:
    """Edits that belong together, anchored where the user should look."""

    anchor: cst.CSTNode
    edits: tuple[Edit, ...]
    why: str = ""


@dataclass(frozen=True)
class Problem:
    """Something to tell the user instead."""

    anchor: cst.CSTNode
    message: str
    help: str
    severity: Severity = "error"


Finding = Fix | Problem


class Rule(ABC):
    """Base of all rules. The docstring of a rule is its page in the documentation.

    Attributes:
        code: `HVD` and three digits; the first is the family.
        name: a few words, for lists.
        message: why, in one sentence, for the user who reads a diff.
        examples: what it does, tested and shown.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    message: ClassVar[str]
    examples: ClassVar[tuple[Example, ...]] = ()

    @abstractmethod
    def find(self, context: Context) -> Iterator[Finding]:
        """Everything in the module that this rule changes or objects to."""


@dataclass
class Context:
    """One module as the rules see it: its text, roles and training, and the names to write with."""

    module: Module
    options: Options
    cell_starts: tuple[int, ...] = (0,)
    roles: ValueAnalysis = field(init=False)
    training: Training = field(init=False)

    datasets: Datasets = field(init=False)
    randomness: Randomness = field(init=False)

    def __post_init__(self) -> None:
        self.roles = ValueAnalysis(self.module, TensorFlowLibrary())
        self.training = Training(self.roles)
        self.datasets = Datasets(self.training)
        self.randomness = Randomness(self.roles)

    # Names to write with

    def fresh(self, *candidates: str) -> str:
        """The first of these names, then of their numbered forms, that the module does not use."""
        numbered = (f"{candidates[0]}_{n}" for n in range(2, 1000))
        return next(name for name in (*candidates, *numbered) if name not in self.roles.index.names)

    @cached_property
    def hvd(self) -> str:
        """The name of the Horovod module with `rank`, `size` and, in a tape loop, all else."""
        return self.fresh("hvd", "horovod_tf")

    @cached_property
    def hvd_keras(self) -> str:
        """The name of the Horovod module with Keras callbacks."""
        return self.fresh("hvd_keras") if self.uses_both else self.hvd

    @cached_property
    def uses_both(self) -> bool:
        """Whether `fit`'s module is not enough: it has no tapes, and no `broadcast_object` for a kept path."""
        keeps_path = any(
            writes(self.roles, call) and not isinstance(self.module.parent(call), cst.Expr)
            for call in self.roles.index.calls
        )
        return bool(self.training.fits) and (bool(self.training.updates) or keeps_path)

    @cached_property
    def tf(self) -> str:
        """The name of tensorflow: the module's own where one is bound at top level, else one to import."""
        return self.bound_tf or self.fresh("tf", "tensorflow")

    @cached_property
    def bound_tf(self) -> str | None:
        for node in self.roles.index.imports:
            if isinstance(node, cst.Import) and self.module.function_of(node) is None:
                for alias in node.names:
                    whole = get_full_name_for_node(alias.name)
                    if whole == "tensorflow" or (whole == "tensorflow.compat.v2" and alias.asname):
                        return alias.evaluated_alias or "tensorflow"
                    if (whole or "").startswith("tensorflow.") and not alias.asname:
                        return "tensorflow"
        return None

    @property
    def is_rank_zero(self) -> str:
        return f"{self.hvd}.rank() == 0"

    def cell_of(self, offset: int) -> int:
        """The cell, counted from 0 among the joined ones, in which an offset stands."""
        return bisect_right(self.cell_starts, offset) - 1

    @property
    def compression(self) -> str:
        """The argument of Horovod's wrappers that compresses gradients, or ''."""
        return (
            f", compression={self.hvd}.Compression.fp16"
            if self.options.compression == "fp16"
            else ""
        )

    # Edits that many rules make

    def insert(self, offset: int, text: str, priority: int = 0) -> Edit:
        return Edit(offset, offset, priority, text)

    def wrap(self, node: cst.CSTNode, before: str, after: str, depth: int = 0) -> tuple[Edit, Edit]:
        """`before` and `after` around a node; wrappers with a greater depth stand nearer to it."""
        span = self.module.span(node)
        return (
            self.insert(span.start, before, 10 + depth),
            self.insert(span.end, after, -10 - depth),
        )

    def replace(self, node: cst.CSTNode, text: str) -> Edit:
        span = self.module.span(node)
        return Edit(span.start, span.end, 0, text)

    def times_size(self, rate: cst.BaseExpression) -> tuple[Edit, ...]:
        """A learning rate multiplied by the number of ranks."""
        size = f" * {self.hvd}.size()"
        if (
            isinstance(
                rate, (cst.Name, cst.Attribute, cst.Call, cst.Float, cst.Integer, cst.Subscript)
            )
            or rate.lpar
        ):
            return (self.insert(self.module.span(rate).end, size),)
        return self.wrap(rate, "(", f"){size}")

    def over_size(self, count: cst.BaseExpression, compared: bool = False) -> tuple[Edit, ...]:
        """A count of steps divided by the number of ranks; at least one step remains. `compared` counts are part of an
        expression, others stand alone.
        """
        size = f" // {self.hvd}.size()"
        plain = isinstance(count, (cst.Name, cst.Integer, cst.Attribute))
        if plain and not compared:
            end = self.module.span(count).end
            return (self.insert(end, f"{size} or {self.module.text(count)}", -3),)
        if plain or isinstance(count, cst.Call) or count.lpar:
            return self.wrap(count, "max(1, ", f"{size})", 1)
        return self.wrap(count, "max(1, (", f"){size})", 1)

    def add_keyword(self, call: cst.Call, text: str, priority: int = 0) -> Edit:
        """`name=value` as one more argument at the end of a call."""
        end = self.module.span(call).end - 1
        if not call.args:
            return self.insert(end, text, priority)
        last = call.args[-1]
        after = self.module.span(last.value).end
        trailing = isinstance(last.comma, cst.Comma)
        if not trailing:
            return self.insert(after, f", {text}", priority)
        # A trailing comma is kept; where the arguments stand on lines of their own, so does the new one.
        comma = self.module.source.index(",", after) + 1
        between = self.module.source[comma:end]
        if "\n" in between:
            start = self.module.span(last).start
            return self.insert(
                comma, f"{self.module.newline}{self.module.indentation(start)}{text},", priority
            )
        return self.insert(comma, f" {text}", priority)

    def after_statement(self, statement: cst.CSTNode, lines: list[str], priority: int = 0) -> Edit:
        """New lines, indented like the statement, on the line after it."""
        span = self.module.span(statement)
        indent = self.module.indentation(span.start)
        text = "".join(f"{self.module.newline}{indent}{line}" for line in lines)
        return self.insert(self.module.line_end(span.end), text, priority)

    def guard_lines(self, statement: cst.SimpleStatementLine, header: str) -> tuple[Edit, ...]:
        """A statement put, as it stands, under a header one step further in."""
        span = self.module.span(statement)
        indent = self.module.indentation(span.start)
        step = self.indent_step
        edits = [self.insert(span.start, f"{header}{self.module.newline}{indent}{step}", -20)]
        fixed = self._spans_inside_strings(statement)
        for start in self.module.line_starts_within(span):
            if not any(s.start < start <= s.end for s in fixed):
                edits.append(self.insert(start, step, -20))
        return tuple(edits)

    @cached_property
    def indent_step(self) -> str:
        return self.module.tree.default_indent

    def _spans_inside_strings(self, node: cst.CSTNode) -> list[Span]:
        """The strings of a statement that go over several lines: their lines must not move."""
        found: list[Span] = []
        pending = [node]
        while pending:
            child = pending.pop()
            if isinstance(child, (cst.SimpleString, cst.FormattedString)):
                found.append(self.module.span(child))
            else:
                pending.extend(child.children)
        return found

    def statement_of(self, node: cst.CSTNode) -> cst.BaseSmallStatement | None:
        """The small statement in which an expression stands, unless a lambda or comprehension, or the
        header of a compound statement, comes between."""
        for ancestor in self.module.ancestors(node):
            if isinstance(ancestor, cst.BaseSmallStatement):
                return ancestor
            if isinstance(
                ancestor, (cst.BaseCompoundStatement, cst.Lambda, cst.CompFor, cst.BaseComp)
            ):
                return None
        return None
