"""Ranks the literal numbers of a program by how likely they are to count steps."""

from __future__ import annotations

import libcst as cst

from .scale_findings import Rank, is_plain, number_of
from .values import ValueAnalysis
from .whole_numbers import BOUNDS

#: Numbers by which seconds or bytes are divided, to be shown in another unit.
UNITS = frozenset({60, 1000, 1024, 3600, 1_000_000, 1_000_000_000})
#: The least number of steps that is written as `1e2`.
LEAST_COUNT = 100


class Constants:
    """Ranks the constants of one module by their position in the program."""

    def __init__(self, values: ValueAnalysis) -> None:
        self._values = values

    def rank(self, node: cst.BaseExpression) -> Rank:
        """Return in which order a constant is given exponent 0 where the equations leave a choice; late ranks likely count
        steps.
        """
        parent = self._values.module.parent(node)
        number = number_of(node)
        whole = number is None or (number % 1 == 0 and number not in (1, -1))
        if isinstance(node, cst.Float):  # `1e4` may count steps, `2.0` does not
            whole = whole and number is not None and number >= LEAST_COUNT
        if whole and self._is_in_ratio(node):
            return Rank.IN_RATIO
        match parent:
            case cst.BinaryOperation(operator=cst.Multiply() | cst.Divide()):
                return Rank.WHOLE_FACTOR if whole else Rank.FACTOR
            case cst.AugAssign():
                return Rank.RATIO if isinstance(node, cst.Integer) else Rank.INCREMENT
            case cst.Arg() if self._called_name(parent).startswith("builtins."):
                pass
            case cst.Assign() | cst.AnnAssign() | cst.Param() | cst.Arg() | cst.DictElement():
                return Rank.NAMED if whole or isinstance(node, cst.Integer) else Rank.FACTOR
        return Rank.COUNT if whole else Rank.RATIO

    def _is_in_ratio(self, node: cst.BaseExpression) -> bool:
        """Whether a number is a factor in a ratio, `step / 500`, and so may have the unit of the other number."""
        parent = self._values.module.parent(node)
        while isinstance(parent, cst.BinaryOperation):
            if isinstance(parent.operator, cst.Divide):
                return True
            if not isinstance(parent.operator, cst.Multiply):
                return False
            parent = self._values.module.parent(parent)
        return False

    def count_in_ratio(self, total: cst.BinaryOperation) -> cst.BaseExpression | None:
        """Return the `n` of `10 + n` in `(1 + n) / (10 + n)`, where neither number can be divided without rounding; else None."""
        ratio = self._values.module.parent(total)
        match ratio:
            case cst.BinaryOperation(left=left, operator=cst.Divide(), right=right):
                counts = _find_shifted_variable(left), _find_shifted_variable(right)
                if counts[0] and counts[1] and counts[0].deep_equals(counts[1]):
                    return _find_shifted_variable(total)
        return None

    def _called_name(self, arg: cst.CSTNode) -> str:
        """Return the canonical name of the function that is given an argument."""
        call = self._values.module.parent(arg)
        return self._values.qualified(call.func) if isinstance(call, cst.Call) else ""

    def shifts_count(self, node: cst.BaseExpression) -> bool:
        """Whether a number is the 1 of `step + 1` or `step >= 1`: one step in any unit."""
        if number_of(node) not in (1, -1) or not isinstance(node, cst.Integer | cst.UnaryOperation):
            return False
        match self._values.module.parent(node):
            case cst.BinaryOperation(left=left, operator=cst.Add() | cst.Subtract(), right=right):
                return is_plain(right if left is node else left)
            case cst.Comparison(left=left):
                return is_plain(left) or left is node
            case cst.ComparisonTarget() as target:
                around = self._values.module.parent(target)
                return isinstance(around, cst.Comparison) and is_plain(around.left)
            case cst.Arg() as arg:
                call = self._values.module.parent(arg)
                if isinstance(call, cst.Call) and self._values.qualified(call.func) in BOUNDS:
                    return all(is_plain(a.value) for a in call.args if a is not arg)
        return False


def _find_shifted_variable(total: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the variable to which a number is added; None for another expression."""
    match total:
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            for number, variable in ((left, right), (right, left)):
                if number_of(number) is not None and is_plain(variable):
                    return variable
    return None
