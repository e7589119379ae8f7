"""How the results of operators scale, and which operands must have the same exponent."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import libcst as cst

from .exponents import ZERO, Equation, Exponent, Unknown, exponent_of
from .index import Binding
from .scale_constants import UNITS
from .scale_containers import Containers
from .scale_findings import Agreeing, Agreement, Scale, number_of, unknown_scale
from .scale_recurrences import CONVERTING
from .scale_state import StateUpdates
from .scale_walk import ScaleWalk
from .syntax import is_string_literal

#: The largest number that is added only so that a divisor is not 0.
MAX_EPSILON = 1e-4
#: Functions that sum a list.
_SUMS = ("builtins.sum", "math.fsum", "numpy.sum")


class Operators:
    """The operations and comparisons of one module."""

    def __init__(self, walk: ScaleWalk, state: StateUpdates, containers: Containers) -> None:
        self._walk, self._state, self._containers = walk, state, containers
        self._values, self._module, self._index = walk.values, walk.values.module, walk.values.index

    def scale_operation(self, node: cst.BinaryOperation) -> Scale:
        """Return how the result of a binary operation scales."""
        if is_string_literal(node.left) or is_string_literal(node.right):
            return unknown_scale(node)
        left, right = self._walk.scale(node.left), self._walk.scale(node.right)
        sized = left if left.length is not None else right
        match node.operator:
            case cst.Add() | cst.Subtract() if (
                itself := self._state.of_recurrence(node)
            ) is not None:
                value = itself.value
            case cst.Add() if (count := self._walk.constants.count_in_ratio(node)) is not None:
                self._walk.note_sink(count, ZERO, "adds numbers to it in a ratio")
                value = ZERO
            case cst.Add() | cst.Subtract():
                value = self.agree("sum", node, node.left, node.right)
            case cst.Multiply():
                value = left.value + right.value
                self._walk.note_size(node.left, right.value)
                self._walk.note_size(node.right, left.value)
                if isinstance(node.left, cst.List):
                    return replace(left, length=right.value)
            case cst.Divide() | cst.FloorDivide():
                value = left.value - right.value
                self._walk.found.quotients.append((left.value, right.value, node))
                if self._is_mean(node):
                    reason = "is the mean of what each step adds"
                    self._walk.found.means.append(Equation(value, ZERO, node, reason))
            case cst.Modulo():
                if self._walk.frequencies.counts_accumulation(node):
                    value = left.value
                else:
                    value = self.agree("modulus", node, node.left, node.right)
            case cst.Power():
                number = number_of(node.right)
                if number is not None:
                    value = left.value * Fraction(number).limit_denominator(1000)
                else:
                    reason = "takes it as an exponent"
                    self._walk.note_sink(node.right, ZERO, reason)
                    value = left.value
            case _:
                value = self._walk.scale_opaque_operator(node, node.left, node.right)
        return replace(sized, value=value, items=())

    def _is_mean(self, quotient: cst.BinaryOperation) -> bool:
        """Whether a loop's sum is divided by a number that is no unit such as 60 or 1000: `total / 4`.

        Or the sum of a list's last entries by their number: `sum(losses[-4:]) / 4`.
        """
        if self._sums_last(quotient.left, quotient.right):
            return True
        count = number_of(quotient.right) if isinstance(quotient.right, cst.Integer) else None
        if count is None or count < 2 or count in UNITS:
            return False
        return self._is_total(quotient.left)

    def _is_total(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a loop's sum: `total`, `float(total)`, or `sum(losses)` of a list that a loop fills."""
        match node:
            case cst.Name():
                bindings = [d for d in self._walk.reaching(node) if isinstance(d, Binding)]
            case cst.Attribute():
                bindings = self._values.attribute_bindings(node)
            case cst.Call(args=[cst.Arg(value=inner)]):
                name = self._walk.qualified(node)
                if name in _SUMS:
                    return self._index.fills(inner)
                return name in CONVERTING and self._is_total(inner)
            case _:
                return False
        return any(each.adds and number_of(each.value) is None for each in bindings)

    def _sums_last(self, node: cst.BaseExpression, count: cst.BaseExpression) -> bool:
        """Whether an expression is `sum(losses[-count:])`."""
        match node:
            case cst.Call(args=[cst.Arg(value=cst.Subscript(slice=[cut]))]):
                name = self._values.qualified(node.func)
                match cut.slice:
                    case cst.Slice(
                        lower=cst.UnaryOperation(operator=cst.Minus(), expression=last), upper=None
                    ):
                        same = self._module.text(last) == self._module.text(count)
                        return same and name in _SUMS
        return False

    def agree(
        self,
        kind: Agreeing,
        place: cst.BaseExpression,
        left: cst.BaseExpression,
        right: cst.BaseExpression,
    ) -> Exponent:
        """Return the exponent of the result of two operands that must have the same exponent; record the requirement."""
        exponents = self._walk.scale(left).value, self._walk.scale(right).value
        for one, other in (exponents, exponents[::-1]):
            node, beside = (left, right) if one is exponents[0] else (right, left)
            if number_of(node) is not None and not self._is_scaled(node):
                return other
            if kind == "sum" and abs(number_of(node) or 1) <= MAX_EPSILON:
                return other
            if kind == "sum" and number_of(node) in (1, -1) and _is_ratio(beside):
                reason = "adds it to another number"
                self._walk.found.facts.append(Equation(one, ZERO, place, reason))
        result = exponent_of(Unknown(place, "result"))
        whole = (
            kind == "sum" and self._walk.whole.is_whole(left) and self._walk.whole.is_whole(right)
        )
        cuts = self._is_in_slice(place)
        agreement = Agreement(kind, place, left, right, exponents, result, whole, cuts)
        self._walk.found.agreements.append(agreement)
        return result

    def _is_in_slice(self, node: cst.CSTNode) -> bool:
        """Whether a number is a bound of a slice: rows from `i` to `i + size`."""
        return self._module.enclosing(node, (cst.Slice, cst.BaseStatement)).__class__ is cst.Slice

    def _is_scaled(self, node: cst.BaseExpression) -> bool:
        """Whether the exponent of a number counts: it is neither 0 nor the 1 of `step + 1`."""
        return number_of(node) != 0 and not self._walk.constants.shifts_count(node)

    def compare(
        self, node: cst.Comparison, left: cst.BaseExpression, target: cst.ComparisonTarget
    ) -> None:
        """Record that the two sides of a comparison, or of `in`, must have the same exponent."""
        right = target.comparator
        if isinstance(target.operator, cst.In | cst.NotIn):
            if isinstance(right, cst.Tuple | cst.List | cst.Set):
                for element in right.elements:
                    self.agree("comparison", node, left, element.value)
            elif (held := self._walk.element(self._walk.scale(right))) is not None:
                self._containers.note_lookup(left, held)
            else:
                self._walk.scale_opaque_operator(node, left)
        elif not isinstance(target.operator, cst.Is | cst.IsNot) and not (
            is_string_literal(left) or is_string_literal(right)
        ):
            self.agree("comparison", node, left, right)


def _is_ratio(node: cst.BaseExpression) -> bool:
    """Whether an expression is a quotient, or a multiple of one: `done / total`, `0.5 * done / total`."""
    match node:
        case cst.BinaryOperation(operator=cst.Divide()):
            return True
        case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
            return _is_ratio(left) or _is_ratio(right)
    return False
