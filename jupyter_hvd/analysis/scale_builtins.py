"""How the results of Python's own functions scale: `range`, `len`, `sum` and others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import libcst as cst

from .exponents import ZERO, Unknown, exponent_of
from .flow import positional
from .scale_findings import Agreement, Scale, number_of, numbered, unknown_scale
from .scale_recurrences import CONVERTING
from .scale_walk import Walk
from .syntax import added_to
from .whole_numbers import BOUNDS


def _range(walk: Walk, call: cst.Call) -> Scale:
    args = positional(call)
    if not args:
        return unknown_scale(call)
    last = args[1] if len(args) > 1 else args[0]
    value = walk.scale(last).value
    length = value
    if len(args) > 1 and number_of(args[0]) != 0:
        value = walk.agree("bound", call, args[0], last)
        added = added_to(args[0], last)
        length = walk.scale(added).value if added is not None else value
    if len(args) > 2 and number_of(args[2]) not in (1, -1):
        length = value - walk.scale(args[2]).value
    return Scale(value, length, Scale(value))


def _enumerate(walk: Walk, call: cst.Call) -> Scale:
    over = walk.scale(call.args[0].value) if call.args else unknown_scale(call)
    length = over.length if over.length is not None else walk.count(call)
    return Scale(ZERO, length, numbered(length, walk.element(over) or unknown_scale(call)))


def _zip(walk: Walk, call: cst.Call) -> Scale:
    scales = [walk.scale(arg) for arg in positional(call)]
    sized = [
        (arg, scale.length)
        for arg, scale in zip(positional(call), scales, strict=True)
        if scale.length is not None
    ]
    for (one, length), (other, its) in pairwise(sized):
        result = exponent_of(Unknown(call))
        pair = length, its
        walk.found.agreements.append(Agreement("bound", call, one, other, pair, result))
    length = sized[0][1] if sized else walk.count(call)
    elements = tuple(walk.element(scale) or unknown_scale(call) for scale in scales)
    return Scale(ZERO, length, Scale(ZERO, items=elements))


def _len(walk: Walk, call: cst.Call) -> Scale:
    scale = _first(walk, call)
    return Scale(scale.length) if scale.length is not None else walk.opaque(call)


def _sum(walk: Walk, call: cst.Call) -> Scale:
    scale = _first(walk, call)
    if scale.length is None:
        return walk.opaque(call)
    element = walk.element(scale)
    return Scale((element if element is not None else scale).value + scale.length)


def _bounds(walk: Walk, call: cst.Call) -> Scale:
    args = positional(call)
    if len(args) == 1:
        scale = _first(walk, call)
        return walk.element(scale) or Scale(scale.value)
    value = walk.scale(args[0]).value if args else ZERO
    for one, other in pairwise(args):
        value = walk.agree("bound", call, one, other)
    return Scale(value)


def _divmod(walk: Walk, call: cst.Call) -> Scale:
    """Of a step and the steps of an epoch, the epoch and the step in it."""
    args = positional(call)
    if len(args) != 2:
        return unknown_scale(call)
    rest = walk.agree("modulus", call, *args)
    return Scale(
        ZERO,
        ZERO,
        items=(Scale(walk.scale(args[0]).value - walk.scale(args[1]).value), Scale(rest)),
    )


def _compared(walk: Walk, call: cst.Call) -> Scale:
    """`greater(step, 100)`, as `step > 100`."""
    if len(args := positional(call)) < 2:
        return walk.opaque(call)
    walk.agree("comparison", call, *args[:2])
    return Scale(ZERO, walk.scale(args[0]).length)


def _remainder(walk: Walk, call: cst.Call) -> Scale:
    """`np.mod(step, 100)`, as `step % 100`."""
    if len(args := positional(call)) < 2:
        return walk.opaque(call)
    return Scale(walk.agree("modulus", call, *args[:2]))


def _power(walk: Walk, call: cst.Call) -> Scale:
    """`pow(0.99, step)`, as `0.99 ** step`."""
    if len(args := positional(call)) < 2 or number_of(args[1]) is not None:
        return walk.opaque(call)
    walk.sink(args[1], ZERO, "takes it as an exponent")
    return walk.scale(args[0])


def _converted(walk: Walk, call: cst.Call) -> Scale:
    scale = _first(walk, call)
    if walk.is_external(call):
        return walk.outside(call)
    return replace(scale, is_record=False)


def _next(walk: Walk, call: cst.Call) -> Scale:
    return walk.element(_first(walk, call)) or unknown_scale(call)


def _same(walk: Walk, call: cst.Call) -> Scale:
    return _first(walk, call)


def _shown(walk: Walk, call: cst.Call) -> Scale:
    """`print`, which computes nothing."""
    for arg in call.args:
        walk.scale(arg.value)
    return unknown_scale(call)


def _first(walk: Walk, call: cst.Call) -> Scale:
    return walk.scale(call.args[0].value) if call.args else unknown_scale(call)


BUILTINS: dict[str, Callable[[Walk, cst.Call], Scale]] = {
    "builtins.range": _range,
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.len": _len,
    "builtins.sum": _sum,
    "builtins.divmod": _divmod,
    **dict.fromkeys(BOUNDS, _bounds),
    **dict.fromkeys(CONVERTING, _converted),
    "builtins.print": _shown,
    "builtins.next": _next,
    "builtins.iter": _same,
    "builtins.reversed": _same,
    "builtins.sorted": _same,
    "builtins.pow": _power,
}
#: What functions of libraries are that stand for Python's operators.
OPERATORS: dict[str, Callable[[Walk, cst.Call], Scale]] = {
    "comparison": _compared,
    "modulus": _remainder,
    "power": _power,
}
