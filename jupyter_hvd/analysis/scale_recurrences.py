"""Variables that are updated from their last value: `x += c`, `x = max(low, x * c)`, moving averages."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from .flow import positional_arguments
from .index import Binding, bound_expression
from .scale_averages import find_average_weights, find_other_weight, find_step_weight
from .scale_findings import Reaching, Recurrence
from .syntax import text_key
from .tree import children_of
from .values import ValueAnalysis
from .whole_numbers import BOUNDS

CONVERTING = ("builtins.int", "builtins.float", "builtins.round", "builtins.abs")
AUGMENTED: dict[type[cst.CSTNode], str] = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
}
_OPERATORS: dict[type[cst.CSTNode], str] = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
}


class Recurrences:
    """The recurrences of one module that a single statement shows."""

    def __init__(self, values: ValueAnalysis, reaching: Reaching) -> None:
        self._values, self._reaching = values, reaching
        self._before: dict[cst.CSTNode, dict[cst.CSTNode | None, cst.CSTNode]] = {}

    def of(self, binding: Binding, place: cst.CSTNode) -> Recurrence | None:
        """Return how `x += c`, or `x = max(low, x * c)`, computes a variable from itself; None if it does not."""
        if not isinstance(place, cst.BaseExpression):
            return None
        if binding.adds:
            statement = self._values.module.parent(place)
            return (
                self.of_augmented(statement, place)
                if isinstance(statement, cst.AugAssign)
                else None
            )
        written = bound_expression(binding)
        if written is None:
            return None
        value = self.within_bounds(written, place)
        return self.of_value(value, lambda node: self._is_itself(node, place, binding))

    def of_augmented(self, statement: cst.AugAssign, place: cst.BaseExpression) -> Recurrence:
        """Return how `x += c` computes a variable from itself."""
        sign = AUGMENTED.get(type(statement.operator), "?")
        itself = lambda node: self.is_same(node, place)  # noqa: E731
        weights = find_step_weight(statement.value, sign, itself)
        if sign == "+" and (kept := self._find_factor_above(statement, itself)) is not None:
            weights = find_other_weight(kept, statement.value)
        return Recurrence("~" if weights else sign, statement.value, weights)

    def of_entry(self, entry: cst.Subscript, value: cst.BaseExpression) -> Recurrence | None:
        """Return how an entry is computed from its previous value, `state["step"] + 1`; None if it is not."""
        return self.of_value(value, lambda node: self.is_same(node, entry))

    def _find_factor_above(
        self, statement: cst.AugAssign, is_itself: Callable[[cst.BaseExpression], bool]
    ) -> cst.BaseExpression | None:
        """Return the `d` of `x *= d` directly above `x += (1 - d) * y`: both make a moving average; else None."""
        line = self._values.module.parent(statement)
        block = self._values.module.parent(line) if line is not None else None
        if not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        before = self._before.setdefault(block, {})
        if not before:
            before.update(zip(block.body[1:], block.body, strict=False))
        match before.get(line):
            case cst.SimpleStatementLine(
                body=[cst.AugAssign(target=target, operator=cst.MultiplyAssign(), value=factor)]
            ) if is_itself(target):
                return factor
        return None

    def of_value(
        self, value: cst.BaseExpression, is_itself: Callable[[cst.BaseExpression], bool]
    ) -> Recurrence | None:
        """Return how a value is computed from a variable's previous value: `x + c`, `c * x`, `d * x + (1 - d) * y`; else None."""
        match value:
            case cst.BinaryOperation(left=left, operator=operator, right=right):
                sign = _OPERATORS.get(type(operator), "?")
                for one, other in ((left, right), (right, left)):
                    if is_itself(one) and (one is left or sign in "+*"):
                        weights = find_step_weight(other, sign, is_itself)
                        return Recurrence("~" if weights else sign, other, weights)
                if sign == "+" and (weights := find_average_weights(left, right, is_itself)):
                    return Recurrence("~", weights[0][0], weights)
        return None

    def within_bounds(
        self, value: cst.BaseExpression, place: cst.BaseExpression
    ) -> cst.BaseExpression:
        """Return the `x * c` of `max(low, x * c)`, whose bounds scale as the variable does."""
        while True:
            match value:
                case cst.IfExp(body=one, orelse=other):
                    inside = [one, other]
                case cst.BinaryOperation(left=one, operator=cst.Modulo()):
                    inside = [one]
                case cst.Call() if self._values.qualified(value.func) in (*BOUNDS, *CONVERTING):
                    inside = positional_arguments(value)
                case _:
                    break
            inner = next((each for each in inside if self.reads(each, place)), None)
            if inner is None:
                break
            value = inner
        return value

    def reads(self, node: cst.CSTNode, place: cst.BaseExpression) -> bool:
        """Whether an expression reads a variable."""
        if isinstance(node, cst.BaseExpression) and self.is_same(node, place):
            return True
        return any(self.reads(child, place) for child in children_of(node))

    def is_same(self, node: cst.BaseExpression, place: cst.BaseExpression) -> bool:
        """Whether two expressions are the same variable: by identity of names, key of entries, or text."""
        identity = self._values.definitions.identity
        if isinstance(node, cst.Name) and isinstance(place, cst.Name):
            return node.value == place.value and identity(node) == identity(place)
        if isinstance(node, cst.Subscript) and isinstance(place, cst.Subscript):
            key = text_key(node)
            if key is not None:
                return key == text_key(place) and self.is_same(node.value, place.value)
        if isinstance(node, cst.Attribute | cst.Subscript):
            return self._values.module.text(node) == self._values.module.text(place)
        return False

    def _is_itself(
        self, node: cst.BaseExpression, place: cst.BaseExpression, binding: Binding
    ) -> bool:
        """Whether an operand is the variable as the same statement left it before."""
        while (
            isinstance(node, cst.Call)
            and self._values.qualified(node.func) in CONVERTING
            and node.args
        ):
            node = node.args[0].value
        if not self.is_same(node, place):
            return False
        if isinstance(node, cst.Name):
            return any(d is binding for d in self._reaching(node))
        return True
