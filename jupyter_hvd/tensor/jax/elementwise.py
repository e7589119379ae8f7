"""Maps and sums of pieces, entry by entry, which XLA fuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..derivative.elementary import SLOPES_OF_JAX, find_elementary
from ..language.affine import Affine
from ..language.function import Function, parameter_names
from ..language.predicates import TRUE, conjuncts
from ..language.terms import Add, Call, Const, Mul, Term, Var
from ..lowering.concatenations import Chain, find_concatenations
from ..lowering.ir import Accumulate, Apply, Masked, Reduce, Rewriting, extents_of
from .access import Space, align
from .masks import make_mask
from .runtime import Values, is_inside, look_up_entries, read_in_order


def _zero_slope(x: Any, w: Any) -> Any:
    """Return zeros of the shape and dtype of two numbers together."""
    return jnp.zeros(jnp.broadcast_shapes(jnp.shape(x), jnp.shape(w)), jnp.result_type(x, w))


def _slope_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the value and the tangent of `_zero_slope`, whose derivative is its second argument."""
    return _zero_slope(*primals), tangents[0] * primals[1]


#: 0, of which the derivative by x is w.
_tangent: Any = jax.custom_jvp(_zero_slope)
_tangent.defjvp(_slope_jvp)


#: What JAX is to differentiate otherwise than it would.
_OWN: dict[str, Callable[..., Any]] = {
    "tangent": _tangent,
    "finite": lambda x: lax.stop_gradient(jnp.where(jnp.isfinite(x), x, 0)),
}


REDUCTIONS: dict[str, Callable[..., Any]] = {"maximum": jnp.max, "minimum": jnp.min}


def reduce_axes(function: str, x: Any, axes: tuple[int, ...]) -> Any:
    """Reduce entries along axes by a function of two numbers; infinite if there are no entries."""
    if x.size:
        return REDUCTIONS[function](x, axes)
    of_none = -jnp.inf if function == "maximum" else jnp.inf
    return REDUCTIONS[function](x, axes, initial=of_none)


def run_reduction(step: Reduce, values: Values) -> Any:
    """Return the array of a reduction that is no sum, such as a maximum."""
    space = Space(step.extents)
    look_up_entries((), space, values)
    if not prod(extents_of(step.over)):
        nothing = jnp.zeros((*step.shape, 0), values.dtype)
        return reduce_axes(step.function, nothing, (-1,))
    array, axes = read_in_order(step.read, space, values)
    gone = tuple(k for k, i in enumerate(axes) if i not in step.axes)
    kept = tuple(i for i in axes if i in step.axes)
    found = reduce_axes(step.function, array, gone)
    return jnp.broadcast_to(align((found, kept), step.axes), step.shape)


@cache
def find_kernel(name: str) -> Callable[..., Any]:
    """Return JAX's function for an elementary function by its name."""
    if name in _OWN:
        return _OWN[name]
    row = find_elementary(name)
    assert row is not None, name
    if row.kernel is not None:
        return partial(row.kernel, jnp)
    path, _, order = row.jax.partition(":")
    module, _, function = path.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(f"jax.{module}"), function)
    return partial(found, int(order)) if order else found


def accumulate(step: Accumulate, values: Values) -> Any:
    """Return the array of a step that adds arrays."""
    space = Space(step.extents)
    axes = tuple(space.extents)
    added = _add_addends(step.addends, space, values, step.parted)
    return jnp.broadcast_to(added, space.shape(axes))


def _add_addends(
    addends: Sequence[Masked], space: Space, values: Values, parted: bool = False
) -> Any:
    """Return the sum of addends, as concatenated parts where these are disjoint spans of an axis."""
    shapes = {m.read.array: values.arrays[m.read.array].shape for m in addends}
    found = find_concatenations(addends, space.extents, shapes, parted)
    padded = not all(is_inside(m.read, shapes[m.read.array], space) for m in addends)
    return _add_in_sequence(
        _order_padded(found) if padded else found,
        space,
        values,
        padded or _is_stencil(addends, space),
    )


def _add_in_sequence(
    addends: Sequence[Masked | Chain], space: Space, values: Values, in_order: bool = False
) -> Any:
    """Return a sum, with subtracted addends last.

    If `in_order`, the order is kept and they are multiplied by -1: XLA turns `-x + y` round, and a stencil's loop takes longer
    with a subtraction.
    """
    result: Any = None
    for addend in addends if in_order else sorted(addends, key=_is_subtracted):
        one = _concatenate_parts if isinstance(addend, Chain) else _compute_addend
        array = one(addend, space, values)  # type: ignore[arg-type]
        minus = _is_subtracted(addend)
        if minus and not in_order and result is not None:
            result = result - array
            continue
        array = -1 * array if minus else array
        result = array if result is None else result + array
    return jnp.zeros((), values.dtype) if result is None else result


def _is_stencil(addends: Sequence[Masked], space: Space) -> bool:
    """Return whether entries are read at several places along the axes."""
    whole = (m.read.indices for m in addends if len(m.read.indices) == len(space.extents))
    return len({tuple(a.constant for a in indices) for indices in whole}) > 1


def _is_subtracted(addend: Masked | Chain) -> bool:
    """Return whether an addend is subtracted."""
    return isinstance(addend, Masked) and addend.minus


def _order_padded(addends: Sequence[Masked | Chain]) -> Sequence[Masked | Chain]:
    """Return two addends with the one first that is read further on: if both are padded, XLA does not vectorize the other
    order.
    """
    match addends:
        case [Masked(read=first), Masked(read=second)]:
            before, after = (sum(a.constant for a in read.indices) for read in (first, second))
            return addends if before >= after else addends[::-1]
    return addends


def _concatenate_parts(chain: Chain, space: Space, values: Values) -> Any:
    """Return an addend that has several parts along an axis, each computed by itself, as one array."""
    axes, made = tuple(space.extents), []
    for part in chain.parts:
        at = {chain.axis: Affine.of(chain.axis) + part.start}
        here = Space({**space.extents, chain.axis: part.stop - part.start})
        addends = [m.rewritten(Rewriting.substituting(at)) for m in part.addends]
        made.append(jnp.broadcast_to(_add_in_sequence(addends, here, values), here.shape(axes)))
    return jnp.concatenate(made, axes.index(chain.axis))


def _compute_addend(addend: Masked, space: Space, values: Values) -> Any:
    """Return the array of one addend, scaled, and zero where its mask is false."""
    here = Space(space.extents)
    look_up_entries(addend.lookups, here, values)
    array = align(read_in_order(addend.read, here, values), tuple(space.extents))
    for name in addend.scale:
        array = values.arrays[name] * array
    if addend.mask != TRUE:
        array = jnp.where(
            _where_mask_holds(addend, here, values), array, jnp.zeros((), array.dtype)
        )
    return array


def _where_mask_holds(step: Masked | Apply, space: Space, values: Values) -> Any:
    """Return where the mask of a step holds, aligned to all axes."""
    axes = tuple(space.extents)
    inside: Any = jnp.asarray(True)
    for q in conjuncts(step.mask):
        inside = inside & align(make_mask(q, space, values.relation), axes)
    return inside


def compute_divisor(step: Apply, values: Values) -> Any:
    """Return the array of which a step takes reciprocals, so that a reader can divide by it."""
    space = Space(step.extents)
    return jnp.broadcast_to(_add_addends(step.arguments[0], space, values), space.shape(step.axes))


def run_apply(step: Apply, values: Values) -> Any:
    """Return the array of a step that applies a function entry by entry."""
    space = Space(step.extents)
    shape = space.shape(tuple(space.extents))
    arguments = [_add_addends(argument, space, values) for argument in step.arguments]
    if step.mask == TRUE:
        return jnp.broadcast_to(call_primitive(step.function, arguments, values.dtype), shape)
    look_up_entries(step.lookups, space, values)
    inside = _where_mask_holds(step, space, values)
    # Where the mask is false the function sees 1, so that neither it nor JAX's derivative of it
    # makes NaN there.
    safe = [jnp.where(inside, argument, jnp.ones((), argument.dtype)) for argument in arguments]
    found = call_primitive(step.function, safe, values.dtype)
    return jnp.broadcast_to(jnp.where(inside, found, jnp.zeros((), found.dtype)), shape)


def call_primitive(function: Function, arguments: Sequence[Any], dtype: Any) -> Any:
    """Return a primitive at every entry.

    If it is the slope of a function whose slopes are JAX's, JAX differentiates that: XLA would compute `1 - t·t` again in each
    reader, but stores `(1 + t)·(1 - t)`.
    """
    base = function.slope_of
    if base is not None and base.name in SLOPES_OF_JAX:
        (x,) = arguments
        return jax.jvp(find_kernel(base.name), (x,), (jnp.ones_like(x),))[1]
    if function.body is None:
        return find_kernel(function.name)(*arguments)
    names = parameter_names(function.arity)
    return evaluate_scalar(function.body, dict(zip(names, arguments, strict=True)), dtype)


def evaluate_scalar(e: Term, values: Mapping[str, Any], dtype: Any) -> Any:
    """Return the value of a scalar term at values of its variables."""
    match e:
        case Var(name):
            return values[name]
        case Const(value):
            return jnp.asarray(float(value), dtype)  # type: ignore[arg-type]
        case Add(left, right):
            return evaluate_scalar(left, values, dtype) + evaluate_scalar(right, values, dtype)
        case Mul(left, right):
            return evaluate_scalar(left, values, dtype) * evaluate_scalar(right, values, dtype)
        case Call(function, arguments):
            return call_primitive(
                function, [evaluate_scalar(x, values, dtype) for x in arguments], dtype
            )
    raise TypeError(e)
