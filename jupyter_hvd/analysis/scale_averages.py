"""The weights of moving averages: `d * x + (1 - d) * y`, `x + w * (y - x)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from .scale_findings import Weight, number_of

IsItself = Callable[[cst.BaseExpression], bool]
Weights = tuple[tuple[cst.BaseExpression, Weight], ...]
#: By how much two weights may sum to another number than 1, as they are written.
ROUNDING = 1e-9


def find_average_weights(
    left: cst.BaseExpression, right: cst.BaseExpression, is_itself: IsItself
) -> Weights:
    """Return the weights in a sum of two terms, one of which is a multiple of the variable's previous value; else ().

    Args:
        is_itself: whether an expression is the variable.
    """
    for term, other in ((left, right), (right, left)):
        kept = find_weight(term, is_itself)
        if kept is None:
            continue
        if rest := find_other_weight(kept, other):
            return (kept, "factor"), *rest
        return ((kept, "open"),)
    return ()


def find_step_weight(added: cst.BaseExpression, sign: str, is_itself: IsItself) -> Weights:
    """Return the weight `w` in `x += w * (y - x)`, or in `x -= w * (x - y)`; else ().

    Args:
        added: what is added or subtracted. sign: `+` or `-`.
    """
    if sign not in ("+", "-"):
        return ()
    match added:
        case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
            for weight, difference in ((left, right), (right, left)):
                match difference:
                    case cst.BinaryOperation(left=one, operator=cst.Subtract(), right=other):
                        if is_itself(other if sign == "+" else one):
                            inner = find_complement(weight)
                            return (
                                ((inner, "factor"),) if inner is not None else ((weight, "rest"),)
                            )
    return ()


def find_other_weight(kept: cst.BaseExpression, added: cst.BaseExpression) -> Weights:
    """Return the weight of the new value that is added to `d` times a variable: `1 - d` of `(1 - d) * y`; else ()."""
    for factor in iterate_factors(added):
        if (inner := find_complement(factor)) is not None and is_same_number(inner, kept):
            return ((inner, "factor"),)
        if (inner := find_complement(kept)) is not None and is_same_number(inner, factor):
            return ((factor, "rest"),)
        numbers = [number for each in (kept, factor) if (number := number_of(each)) is not None]
        if len(numbers) > 1 and abs(sum(numbers) - 1) < ROUNDING:
            return ((factor, "rest"),)
    return ()


def find_weight(term: cst.BaseExpression, is_itself: IsItself) -> cst.BaseExpression | None:
    """Return the `d` of `d * x`; None for another term."""
    match term:
        case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
            if is_itself(left):
                return right
            if is_itself(right):
                return left
    return None


def iterate_factors(product: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the factors of a product."""
    match product:
        case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
            yield from iterate_factors(left)
            yield from iterate_factors(right)
        case _:
            yield product


def find_complement(weight: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the `d` of `1 - d`; None for another expression."""
    match weight:
        case cst.BinaryOperation(left=one, operator=cst.Subtract(), right=inner) if (
            number_of(one) == 1
        ):
            return inner
    return None


def is_same_number(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether two expressions are the same number: one name, or one literal."""
    return one.deep_equals(other)
