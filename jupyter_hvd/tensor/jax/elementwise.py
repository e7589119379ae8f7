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
from ..lowering.concatenations import Chain, join_parts
from ..lowering.ir import Accumulate, Apply, Masked, Reduce, Rewriting, extents_of
from .access import Space, align
from .masks import mask
from .runtime import Values, entries, inside, turned


def _nothing(x: Any, w: Any) -> Any:
    return jnp.zeros(jnp.broadcast_shapes(jnp.shape(x), jnp.shape(w)), jnp.result_type(x, w))


def _slope(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    return _nothing(*primals), tangents[0] * primals[1]


#: 0, of which the derivative by x is w.
_tangent: Any = jax.custom_jvp(_nothing)
_tangent.defjvp(_slope)


#: What JAX is to differentiate otherwise than it would.
_OWN: dict[str, Callable[..., Any]] = {
    "tangent": _tangent,
    "finite": lambda x: lax.stop_gradient(jnp.where(jnp.isfinite(x), x, 0)),
}


REDUCTIONS: dict[str, Callable[..., Any]] = {"maximum": jnp.max, "minimum": jnp.min}


def reduction(function: str, x: Any, axes: tuple[int, ...]) -> Any:
    """What a function of two numbers makes of the entries along axes; infinite where there are none."""
    if x.size:
        return REDUCTIONS[function](x, axes)
    of_none = -jnp.inf if function == "maximum" else jnp.inf
    return REDUCTIONS[function](x, axes, initial=of_none)


def reduced(step: Reduce, values: Values) -> Any:
    """The array of a reduction that is no sum."""
    space = Space(step.extents)
    entries((), space, values)
    if not prod(extents_of(step.over)):
        nothing = jnp.zeros((*step.shape, 0), values.dtype)
        return reduction(step.function, nothing, (-1,))
    array, axes = turned(step.read, space, values)
    gone = tuple(k for k, i in enumerate(axes) if i not in step.axes)
    kept = tuple(i for i in axes if i in step.axes)
    found = reduction(step.function, array, gone)
    return jnp.broadcast_to(align((found, kept), step.axes), step.shape)


@cache
def kernel_of(name: str) -> Callable[..., Any]:
    """JAX's function for a row of the table of elementary functions."""
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
    """The array of an accumulating step."""
    space = Space(step.extents)
    axes = tuple(space.extents)
    added = _added(step.addends, space, values, step.parted)
    return jnp.broadcast_to(added, space.shape(axes))


def _added(addends: Sequence[Masked], space: Space, values: Values, parted: bool = False) -> Any:
    shapes = {m.read.array: values.arrays[m.read.array].shape for m in addends}
    found = join_parts(addends, space.extents, shapes, parted)
    padded = not all(inside(m.read, shapes[m.read.array], space) for m in addends)
    return _sum(
        _ends_first(found) if padded else found,
        space,
        values,
        padded or _is_stencil(addends, space),
    )


def _sum(
    addends: Sequence[Masked | Chain], space: Space, values: Values, in_order: bool = False
) -> Any:
    """A sum, what is subtracted last; or in this order, multiplied by -1: XLA turns `-x + y` round, and a stencil's loop takes
    longer with a subtraction.
    """
    result: Any = None
    for addend in addends if in_order else sorted(addends, key=_is_subtracted):
        one = _one_after_the_other if isinstance(addend, Chain) else _addend
        array = one(addend, space, values)  # type: ignore[arg-type]
        minus = _is_subtracted(addend)
        if minus and not in_order and result is not None:
            result = result - array
            continue
        array = -1 * array if minus else array
        result = array if result is None else result + array
    return jnp.zeros((), values.dtype) if result is None else result


def _is_stencil(addends: Sequence[Masked], space: Space) -> bool:
    """Whether entries are read at several places along the axes."""
    whole = (m.read.indices for m in addends if len(m.read.indices) == len(space.extents))
    return len({tuple(a.constant for a in indices) for indices in whole}) > 1


def _is_subtracted(addend: Masked | Chain) -> bool:
    return isinstance(addend, Masked) and addend.minus


def _ends_first(addends: Sequence[Masked | Chain]) -> Sequence[Masked | Chain]:
    """Of two addends the one first that is read further on: where both are padded, XLA's loop over the two has no vectors in the
    other order.
    """
    match addends:
        case [Masked(read=first), Masked(read=second)]:
            before, after = (sum(a.constant for a in read.indices) for read in (first, second))
            return addends if before >= after else addends[::-1]
    return addends


def _one_after_the_other(chain: Chain, space: Space, values: Values) -> Any:
    axes, made = tuple(space.extents), []
    for part in chain.parts:
        at = {chain.axis: Affine.of(chain.axis) + part.start}
        here = Space({**space.extents, chain.axis: part.stop - part.start})
        addends = [m.rewritten(Rewriting.substituting(at)) for m in part.addends]
        made.append(jnp.broadcast_to(_sum(addends, here, values), here.shape(axes)))
    return jnp.concatenate(made, axes.index(chain.axis))


def _addend(addend: Masked, space: Space, values: Values) -> Any:
    here = Space(space.extents)
    entries(addend.lookups, here, values)
    array = align(turned(addend.read, here, values), tuple(space.extents))
    for name in addend.scale:
        array = values.arrays[name] * array
    if addend.mask != TRUE:
        array = jnp.where(_inside(addend, here, values), array, jnp.zeros((), array.dtype))
    return array


def _inside(step: Masked | Apply, space: Space, values: Values) -> Any:
    axes = tuple(space.extents)
    inside: Any = jnp.asarray(True)
    for q in conjuncts(step.mask):
        inside = inside & align(mask(q, space, values.relation), axes)
    return inside


def inverted(step: Apply, values: Values) -> Any:
    """What a step that takes reciprocals takes them of."""
    space = Space(step.extents)
    return jnp.broadcast_to(_added(step.arguments[0], space, values), space.shape(step.axes))


def apply(step: Apply, values: Values) -> Any:
    """The array of a map step."""
    space = Space(step.extents)
    shape = space.shape(tuple(space.extents))
    arguments = [_added(argument, space, values) for argument in step.arguments]
    if step.mask == TRUE:
        return jnp.broadcast_to(call(step.function, arguments, values.dtype), shape)
    entries(step.lookups, space, values)
    inside = _inside(step, space, values)
    # Where the mask is false the function sees 1, so that neither it nor JAX's derivative of it
    # makes NaN there.
    safe = [jnp.where(inside, argument, jnp.ones((), argument.dtype)) for argument in arguments]
    found = call(step.function, safe, values.dtype)
    return jnp.broadcast_to(jnp.where(inside, found, jnp.zeros((), found.dtype)), shape)


def call(function: Function, arguments: Sequence[Any], dtype: Any) -> Any:
    """A primitive at every entry at once; of those whose slopes are JAX's the slope is, too, which XLA fuses better: `1 - t·t`
    it would compute again in each reader, where it stores `(1 + t)·(1 - t)`.
    """
    base = function.slope_of
    if base is not None and base.name in SLOPES_OF_JAX:
        (x,) = arguments
        return jax.jvp(kernel_of(base.name), (x,), (jnp.ones_like(x),))[1]
    if function.body is None:
        return kernel_of(function.name)(*arguments)
    names = parameter_names(function.arity)
    return scalar(function.body, dict(zip(names, arguments, strict=True)), dtype)


def scalar(e: Term, values: Mapping[str, Any], dtype: Any) -> Any:
    """A scalar term over values of its variables."""
    match e:
        case Var(name):
            return values[name]
        case Const(value):
            return jnp.asarray(float(value), dtype)  # type: ignore[arg-type]
        case Add(left, right):
            return scalar(left, values, dtype) + scalar(right, values, dtype)
        case Mul(left, right):
            return scalar(left, values, dtype) * scalar(right, values, dtype)
        case Call(function, arguments):
            return call(function, [scalar(x, values, dtype) for x in arguments], dtype)
    raise TypeError(e)
