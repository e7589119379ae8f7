"""How the results of Python's own functions scale: `range`, `len`, `sum` and others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import libcst as cst

from .exponents import ZERO, Unknown, exponent_of
from .flow import positional_arguments
from .library import Kind
from .scale_findings import Agreement, Scale, Sink, number_of, pair_with_index, unknown_scale
from .scale_recurrences import CONVERTING
from .scale_walk import ScaleWalk
from .syntax import find_increment
from .whole_numbers import BOUNDS


def _scale_range(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `range`: its length as its bound, divided by a step."""
    args = positional_arguments(call)
    if not args:
        return unknown_scale(call)
    last = args[1] if len(args) > 1 else args[0]
    value = walk.scale(last).value
    length = value
    if len(args) > 1 and number_of(args[0]) != 0:
        value = walk.agree("bound", call, args[0], last)
        added = find_increment(args[0], last)
        length = walk.scale(added).value if added is not None else value
    if len(args) > 2 and number_of(args[2]) not in (1, -1):
        stride = walk.scale(args[2]).value
        length = value - stride
        walk.found.cuts.append(Sink(args[2], stride, value, "advances by it"))
    return Scale(value, length, Scale(value))


def _scale_enumerate(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `enumerate`: elements beside their index, which scales as the length."""
    over = walk.scale(call.args[0].value) if call.args else unknown_scale(call)
    length = over.length if over.length is not None else walk.new_length(call)
    return Scale(ZERO, length, pair_with_index(length, walk.element(over) or unknown_scale(call)))


def _scale_zip(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `zip`: the lengths of its arguments, or of those in a tuple, must agree."""
    args = positional_arguments(call)
    match args:
        case [cst.Tuple(elements=parts)]:
            args = [part.value for part in parts]
    scales = [walk.scale(arg) for arg in args]
    sized = [
        (arg, scale.length)
        for arg, scale in zip(args, scales, strict=True)
        if scale.length is not None
    ]
    for (one, length), (other, its) in pairwise(sized):
        result = exponent_of(Unknown(call))
        pair = length, its
        walk.found.agreements.append(Agreement("bound", call, one, other, pair, result))
    length = sized[0][1] if sized else walk.new_length(call)
    elements = tuple(walk.element(scale) or unknown_scale(call) for scale in scales)
    return Scale(ZERO, length, Scale(ZERO, items=elements))


def _scale_len(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `len`: a number with the exponent of the length."""
    scale = _scale_first_argument(walk, call)
    return Scale(scale.length) if scale.length is not None else walk.scale_opaque_call(call)


def _scale_sum(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `sum`: an element's exponent plus that of the length."""
    scale = _scale_first_argument(walk, call)
    if scale.length is None:
        return walk.scale_opaque_call(call)
    element = walk.element(scale)
    return Scale((element if element is not None else scale).value + scale.length)


def _scale_bounds(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `max` and `min`: all arguments must have the same exponent."""
    args = positional_arguments(call)
    if len(args) == 1:
        scale = _scale_first_argument(walk, call)
        return walk.element(scale) or Scale(scale.value)
    value = walk.scale(args[0]).value if args else ZERO
    for one, other in pairwise(args):
        value = walk.agree("bound", call, one, other)
    return Scale(value)


def _scale_divmod(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `divmod`: of a step and the steps of an epoch, the epoch and the step in it."""
    args = positional_arguments(call)
    if len(args) != 2:
        return unknown_scale(call)
    rest = walk.agree("modulus", call, *args)
    return Scale(
        ZERO,
        ZERO,
        items=(Scale(walk.scale(args[0]).value - walk.scale(args[1]).value), Scale(rest)),
    )


def _scale_comparison(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `greater(step, 100)` as `step > 100`."""
    if len(args := positional_arguments(call)) < 2:
        return walk.scale_opaque_call(call)
    walk.agree("comparison", call, *args[:2])
    return Scale(ZERO, walk.scale(args[0]).length)


def _scale_modulus(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `np.mod(step, 100)` as `step % 100`."""
    if len(args := positional_arguments(call)) < 2:
        return walk.scale_opaque_call(call)
    return Scale(walk.agree("modulus", call, *args[:2]))


def _scale_power(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `pow(0.99, step)` as `0.99 ** step`."""
    if len(args := positional_arguments(call)) < 2 or number_of(args[1]) is not None:
        return walk.scale_opaque_call(call)
    walk.note_sink(args[1], ZERO, "takes it as an exponent")
    return walk.scale(args[0])


def _scale_conversion(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `int`, `float` and the like as their argument."""
    scale = _scale_first_argument(walk, call)
    if walk.is_external(call):
        return walk.scale_unknown_source(call)
    return replace(scale, is_record=False)


def _scale_next(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale `next` as an element of its argument, of which as many are taken as this runs: of `count()` their number."""
    given = _scale_first_argument(walk, call)
    often = walk.frequencies.of(call)
    for made in walk.values.of(call.args[0].value) if call.args else ():
        if isinstance(made.node, cst.Call) and walk.qualified(made.node) == "itertools.count":
            return Scale(often)
        if made.kind is Kind.GENERATOR and made.node is not None:
            walk.note_draws(made.node, often)
    return walk.element(given) or unknown_scale(call)


def _scale_same(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale a function as its first argument."""
    return _scale_first_argument(walk, call)


def _scale_print(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Scale the arguments of `print` or `partial`, which themselves compute nothing."""
    for arg in call.args:
        walk.scale(arg.value)
    return unknown_scale(call)


def _scale_first_argument(walk: ScaleWalk, call: cst.Call) -> Scale:
    """Return how the first argument scales."""
    return walk.scale(call.args[0].value) if call.args else unknown_scale(call)


BUILTINS: dict[str, Callable[[ScaleWalk, cst.Call], Scale]] = {
    "builtins.range": _scale_range,
    "builtins.enumerate": _scale_enumerate,
    "builtins.zip": _scale_zip,
    "builtins.len": _scale_len,
    "builtins.sum": _scale_sum,
    "builtins.divmod": _scale_divmod,
    **dict.fromkeys(BOUNDS, _scale_bounds),
    **dict.fromkeys(CONVERTING, _scale_conversion),
    **dict.fromkeys(("builtins.print", "functools.partial"), _scale_print),
    "builtins.next": _scale_next,
    **dict.fromkeys(
        [f"builtins.{name}" for name in "iter reversed sorted set frozenset".split()], _scale_same
    ),
    "builtins.pow": _scale_power,
}
#: What functions of libraries are that stand for Python's operators.
OPERATORS: dict[str, Callable[[ScaleWalk, cst.Call], Scale]] = {
    "comparison": _scale_comparison,
    "modulus": _scale_modulus,
    "power": _scale_power,
    "zip": _scale_zip,
}
