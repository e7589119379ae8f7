"""State carried from step to step: variables computed from their previous value, in any spelling."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from .index import Binding, Path
from .library import Kind
from .scale_findings import Reaching, is_constant, number_of
from .scale_recurrences import Recurrences
from .scale_signatures import ScaleLibrary
from .syntax import text_key
from .values import ValueAnalysis

#: How many expressions are followed backwards.
MAX_FOLLOWED = 200
#: How deep numbers are followed that are computed from numbers.
MAX_DEPTH = 6
#: Operators that combine a state with a number.
_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.Power)


@dataclass(frozen=True)
class State:
    """A variable as one statement sets it.

    Attributes:
        place: its name or attribute there, or what a method assigns to; of an entry that a call sets, the value.
        binding: the assignment; None of a method or a call. record: whose entry or field a call sets. key: the name of that.
    """

    place: cst.BaseExpression
    binding: Binding | None = None
    record: cst.BaseExpression | None = None
    key: str = ""


class CarriedState:
    """Finds statements that compute a variable from itself, and the numbers with which they combine it."""

    def __init__(
        self,
        values: ValueAnalysis,
        library: ScaleLibrary,
        recurrences: Recurrences,
        reaching: Reaching,
    ) -> None:
        self._values, self._library = values, library
        self._recurrences, self._reaching = recurrences, reaching

    def find_numbers(
        self, state: State, value: cst.BaseExpression, path: Path = ()
    ) -> list[cst.CSTNode]:
        """Return the numbers with which a state is combined from one step to the next; [] if it does not depend on itself.

        Args:
            value, path: the part of an expression that the state is set to.
        """
        found = self._numbers_between(state, value, path, set()) or []
        if state.binding is not None and state.binding.adds and self._is_number(value, True):
            found = [*found, value]
        return list(dict.fromkeys(found))

    def _numbers_between(
        self, state: State, node: cst.BaseExpression, path: Path, seen: set[object]
    ) -> list[cst.CSTNode] | None:
        """Return the numbers between the previous state and an expression; None if the expression does not depend on that
        state.
        """
        if (node, path) in seen or len(seen) > MAX_FOLLOWED:
            return None
        seen.add((node, path))
        if self._is_state(state, node):
            return []
        match node:
            case cst.BinaryOperation(left=left, operator=operator, right=right):
                return self._numbers_in_operands(
                    state, (left, right), isinstance(operator, _ARITHMETIC), seen
                )
            case cst.List(elements=elements) | cst.Tuple(elements=elements) if not path:
                return self._numbers_in_operands(
                    state, tuple(e.value for e in elements), False, seen
                )
            case cst.UnaryOperation(expression=inner):
                return self._numbers_between(state, inner, path, seen)
            case cst.Call() if not self._runs_function(node):
                given = (node.func.value,) if isinstance(node.func, cst.Attribute) else ()
                return self._numbers_in_operands(
                    state, (*given, *(a.value for a in node.args)), False, seen
                )
        found = [
            self._numbers_between(state, source, part, seen)
            for source, part in self._values.flow.predecessors(node, path)
            if not self._is_initial_value(source, state)
        ]
        return _join_reached(found)

    def _is_initial_value(self, source: cst.BaseExpression, state: State) -> bool:
        """Whether an expression is in an `__init__`, which runs once, while the state is set elsewhere."""
        module = self._values.module
        function = module.function_of(source)
        is_initial = function is not None and function.name.value == "__init__"
        return is_initial and module.function_of(state.place) is not function

    def _numbers_in_operands(
        self,
        state: State,
        operands: tuple[cst.BaseExpression, ...],
        counts_numbers: bool,
        seen: set[object],
    ) -> list[cst.CSTNode] | None:
        """Return the numbers beside and within operands; None if no operand depends on the state."""
        each = [self._numbers_between(state, operand, (), seen) for operand in operands]
        united = _join_reached(each)
        if united is None:
            return None
        others = (o for o, found in zip(operands, each, strict=True) if found is None)
        return [*united, *(o for o in others if self._is_number(o, counts_numbers))]

    def _runs_function(self, call: cst.Call) -> bool:
        """Whether a call runs a function of the program."""
        return any(value.kind is Kind.FUNCTION for value in self._values.of(call.func))

    def _is_state(self, state: State, node: cst.BaseExpression) -> bool:
        """Whether an expression reads the state."""
        if state.record is not None:
            match node:
                case cst.Subscript(value=record) if text_key(node) == state.key:
                    return self._recurrences.is_same(record, state.record)
                case cst.Attribute(value=record, attr=cst.Name(value=name)) if name == state.key:
                    return self._recurrences.is_same(record, state.record)
            return False
        if isinstance(node, cst.Name) and isinstance(state.place, cst.Name):
            return any(each is state.binding for each in self._reaching(node))
        return not isinstance(node, cst.Name) and self._recurrences.is_same(node, state.place)

    def _is_number(self, node: cst.BaseExpression, is_operand: bool) -> bool:
        """Whether an operand is a number of the program; for an argument of a call, whether it may be a weight."""
        for number in self._find_constants(node):
            if not is_constant(number):
                return True  # from outside the program
            value = number_of(number)
            if is_operand and value not in (0, 1, -1):
                return True
            if value is not None and 0 < value < 1:
                return True
        return False

    def _find_constants(self, node: cst.BaseExpression, depth: int = 0) -> list[cst.BaseExpression]:
        """Return the numbers that an expression is computed from; [] if it is also computed from something else."""
        if is_constant(node) or self._library.is_external(self._values, node):
            return [node]
        if depth > MAX_DEPTH:
            return []
        match node:
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                items = [self._find_constants(element.value, depth + 1) for element in elements]
                return [number for each in items for number in each] if all(items) else []
            case cst.BinaryOperation(left=left, right=right):
                sides = [self._find_constants(side, depth + 1) for side in (left, right)]
                return [*sides[0], *sides[1]] if all(sides) else []
            case cst.Name() | cst.Attribute() | cst.Subscript():
                made = [
                    self._find_constants(value.node, depth + 1)
                    if isinstance(value.node, cst.BinaryOperation | cst.BaseNumber)
                    else []
                    for value in self._values.of(node)
                    if value.node is not None  # else a parameter that callers elsewhere may give
                ]
                return [number for each in made for number in each] if all(made) else []
        return []


def _join_reached(found: list[list[cst.CSTNode] | None]) -> list[cst.CSTNode] | None:
    """Join the numbers of all sources that depend on the state; None if none does."""
    reached = [each for each in found if each is not None]
    return [number for each in reached for number in each] if reached else None
