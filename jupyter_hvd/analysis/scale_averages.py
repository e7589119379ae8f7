"""The weights of moving averages: `d * x + (1 - d) * y`, `x + w * (y - x)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from .scale_findings import Weight, number_of

IsItself = Callable[[cst.BaseExpression], bool]
Weights = tuple[tuple[cst.BaseExpression, Weight], ...]
#: By how much two weights may sum to another number than 1, as they are written.
ROUNDING = 1e-9


def weights_of_average(
    left: cst.BaseExpression, right: cst.BaseExpression, is_itself: IsItself
) -> Weights:
    """The weights in a sum of two terms, one of which is a multiple of what the variable was before; else none."""
    for term, other in ((left, right), (right, left)):
        kept = weight_of(term, is_itself)
        if kept is None:
            continue
        if rest := weight_of_rest(kept, other):
            return (kept, "factor"), *rest
        return ((kept, "open"),)
    return ()


def step_of_average(added: cst.BaseExpression, sign: str, is_itself: IsItself) -> Weights:
    """The weight of `w * (y - x)` that is added to x, or of `w * (x - y)` that is subtracted; else none."""
    if sign not in ("+", "-"):
        return ()
    match added:
        case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
            for weight, difference in ((left, right), (right, left)):
                match difference:
                    case cst.BinaryOperation(left=one, operator=cst.Subtract(), right=other):
                        if is_itself(other if sign == "+" else one):
                            inner = one_minus(weight)
                            return (
                                ((inner, "factor"),) if inner is not None else ((weight, "rest"),)
                            )
    return ()


def weight_of_rest(kept: cst.BaseExpression, added: cst.BaseExpression) -> Weights:
    """The weight of what is added to `d` times a variable: that of `(1 - d) * y`; else none."""
    for factor in factors_of(added):
        if (inner := one_minus(factor)) is not None and same_number(inner, kept):
            return ((inner, "factor"),)
        if (inner := one_minus(kept)) is not None and same_number(inner, factor):
            return ((factor, "rest"),)
        numbers = [number for each in (kept, factor) if (number := number_of(each)) is not None]
        if len(numbers) > 1 and abs(sum(numbers) - 1) < ROUNDING:
            return ((factor, "rest"),)
    return ()


def weight_of(term: cst.BaseExpression, is_itself: IsItself) -> cst.BaseExpression | None:
    """The `d` of `d * x`."""
    match term:
        case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
            if is_itself(left):
                return right
            if is_itself(right):
                return left
    return None


def factors_of(product: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    match product:
        case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
            yield from factors_of(left)
            yield from factors_of(right)
        case _:
            yield product


def one_minus(weight: cst.BaseExpression) -> cst.BaseExpression | None:
    """The `d` of `1 - d`."""
    match weight:
        case cst.BinaryOperation(left=one, operator=cst.Subtract(), right=inner) if (
            number_of(one) == 1
        ):
            return inner
    return None


def same_number(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether two expressions are the same number: one name, or one literal."""
    return one.deep_equals(other)
