"""The rates and decays by which a program changes weights itself, without an optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from ...analysis.library import Kind
from ...analysis.syntax import method
from ...analysis.tree import nodes_in
from ..tensorflow.updates import Update
from .context import Context
from .optimizer_rates import minimizes_sum


def find_rates(
    context: Context, update: Update, moments: Sequence[cst.BaseExpression]
) -> Iterator[cst.BaseExpression]:
    """Yield the numbers that multiply gradients, or moments of gradients, in an update: `0.01` in `w.assign_sub(0.01 * g)`.

    Args:
        moments: other variables that the program changes by gradients.
    """
    names = set(map(context.module.text, moments))
    for node in nodes_in(update.call):
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
            continue
        for rate, step in ((node.left, node.right), (node.right, node.left)):
            is_moment = not names.isdisjoint(context.module.text(n) for n in nodes_in(step))
            is_step = is_moment or any(True for _ in context.training.gradients.flowing_into(step))
            number = context.values.kinds(rate)
            if is_step and number and number <= {Kind.CONSTANT}:
                yield rate


def grows_with_batch(context: Context, update: Update) -> bool:
    """Whether an update applies the gradient of a sum over a batch's rows without dividing it by the number of rows."""
    divisors = (
        context.scales.exponent(node.right)
        for node in nodes_in(update.call)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide)
    )
    return minimizes_sum(context, update) and not any(divisors)


def find_weight_decays(context: Context, update: Update) -> Iterator[cst.BaseExpression]:
    """Yield the factor of the weight in an assignment: `1 - 1e-3` in `w.assign(w * (1 - 1e-3) - 0.01 * g)`."""
    text = context.module.text
    if method(update.call) != "assign" or not update.call.args:
        return
    for summand in iterate_summands(update.call.args[0].value):
        match summand:
            case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
                for weight, factor in ((left, right), (right, left)):
                    if text(weight) == text(update.variables[0]):
                        yield factor


def is_undone(context: Context, update: Update, updates: Sequence[Update]) -> bool:
    """Whether a later update reverses this one, as in SAM: `w.assign_add(e)`, then `w.assign_sub(e)`. Its size is no rate."""
    opposite = {"assign_add": "assign_sub", "assign_sub": "assign_add"}.get(method(update.call))
    moved = [context.module.text(arg.value) for arg in update.call.args[:1]]
    return any(
        method(other.call) == opposite
        and [context.module.text(arg.value) for arg in other.call.args[:1]] == moved
        for other in updates
    )


def iterate_summands(value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the terms of a sum or difference."""
    match value:
        case cst.BinaryOperation(left=left, operator=cst.Add() | cst.Subtract(), right=right):
            yield from iterate_summands(left)
            yield from iterate_summands(right)
        case _:
            yield value
