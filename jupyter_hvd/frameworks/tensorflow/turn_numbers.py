"""The number of a turn, in a loop whose turns the ranks divide: which names hold it, and what is computed from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

import libcst as cst

from ...analysis.flow import Source
from ...analysis.index import ELEMENT
from ...analysis.library import Kind
from ...analysis.syntax import nodes_in
from ...analysis.values import ValueAnalysis

#: Functions of numbers, by the last part of their names.
_OF_NUMBERS = frozenset(
    "abs cast ceil constant convert_to_tensor cos divmod exp float float32 float64 floor int int32 int64 len log max maximum min"
    " minimum mod pow power round sin sqrt".split()
)
_MATHEMATICS = ("builtins.", "math.", "numpy.", "tensorflow.")


class TurnNumber:
    """The number of the turns of one loop.

    Args:
        asked: expressions that give all ranks the same, though they read the number.
        parts: of what the ranks divide, as parts of which the number comes; None where it is that itself.
    """

    def __init__(
        self,
        values: ValueAnalysis,
        loop: cst.For,
        asked: Collection[cst.CSTNode] = (),
        parts: Collection[Source] | None = None,
    ) -> None:
        self._values, self._loop, self._asked, self._parts = values, loop, asked, parts
        self._turns = values.flow.unwrap_iteration(loop.iter)

    def beside(self, asked: cst.CSTNode) -> TurnNumber:
        """The same number, where one more expression gives all ranks the same."""
        return TurnNumber(self._values, self._loop, (*self._asked, asked), self._parts)

    @cached_property
    def bodies(self) -> dict[cst.CSTNode, cst.FunctionDef | None]:
        """The loop's body, and those of the program's functions that run in it, each with its function."""
        found: dict[cst.CSTNode, cst.FunctionDef | None] = {self._loop.body: None}
        pending: list[cst.CSTNode] = [self._loop.body]
        while pending:
            for call in nodes_in(pending.pop()):
                for value in self._values.of(call.func) if isinstance(call, cst.Call) else ():
                    function = value.node if value.kind is Kind.FUNCTION else None
                    if isinstance(function, cst.FunctionDef) and function.body not in found:
                        found[function.body] = function
                        pending.append(function.body)
        return found

    def is_it(self, name: cst.Name) -> bool:
        """Whether a name holds the number of the turn, and nothing else."""
        found = list(self._behind(name, through=False))
        ends = [part for part, is_end in found if is_end]
        return bool(ends) and all(self._is_number(part) for part in ends)

    def names_behind(self, expression: cst.BaseExpression) -> list[cst.Name]:
        """The names, in the loop's body, of the number or a part of it, from which an expression is computed."""
        return [
            node
            for (node, path), _ in self._behind(expression, through=True)
            if isinstance(node, cst.Name)
            and any(
                source is self._loop.iter
                for source, _ in self._values.flow.predecessors(node, path)
            )
            and self.is_behind(node)
        ]

    def is_behind(self, expression: cst.BaseExpression) -> bool:
        """Whether an expression is the number, or is computed from it."""
        return any(self._holds(part) for part, _ in self._behind(expression, through=True))

    def _holds(self, part: Source) -> bool:
        """Whether a part of what is divided is the number, or holds it."""
        node, path = part
        if self._parts is not None:
            return part in self._parts
        return node is self._turns and path[:1] == (ELEMENT,)

    def _is_number(self, part: Source) -> bool:
        return part[0] is self._turns and part[1] == (ELEMENT,)

    def _behind(
        self, expression: cst.BaseExpression, through: bool
    ) -> Iterator[tuple[Source, bool]]:
        """What an expression may be taken from, itself first, and whether that is taken from nothing more.

        Args:
            through: functions of numbers, too.
        """
        pending: list[Source] = [(expression, ())]
        seen = set[Source]()
        while pending:
            part = node, path = pending.pop()
            if part in seen or node in self._asked:
                continue
            seen.add(part)
            is_turn = self._holds(part)
            sources = [] if is_turn else self._values.flow.predecessors(node, path)
            if through and not is_turn and not sources and not path:
                sources = [(operand, ()) for operand in self._operands(node)]
            yield part, not sources
            pending += sources

    def _operands(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """What a number is computed from, in one step."""
        match node:
            case cst.BinaryOperation(left=left, right=right) if not isinstance(
                node.operator, cst.MatrixMultiply
            ):
                yield from (left, right)
            case cst.UnaryOperation(expression=inner):
                yield inner
            case cst.Comparison(left=left, comparisons=others):
                yield left
                yield from (each.comparator for each in others)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                yield from (each.value for each in elements)
            case cst.ListComp(elt=elt) | cst.GeneratorExp(elt=elt):
                yield elt
            case cst.Call(func=func, args=args):
                name = self._values.qualified(func)
                if name.startswith(_MATHEMATICS) and name.rpartition(".")[2] in _OF_NUMBERS:
                    yield from (arg.value for arg in args)
