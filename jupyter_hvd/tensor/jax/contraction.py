"""Sums of products: `dot_general` where the operands allow it, else one fused reduction.

⊞out. Σ sums. [mask]·A[a]·B[b]

How, in order of preference:

1. without sums, the product of two views, masked;
2. a window (`x[i+j]`, i and j both axes) over a short axis: one contraction for each of its entries;
3. a mask that each operand can take by itself: operands masked, then `einsum`; a relation among
   fewer axes than all of them is an operand itself, of zeros and ones;
4. a mask that couples operands: product, mask and sum in one reduction, which XLA fuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..language.affine import Affine
from ..language.predicates import TRUE, Predicate, Related, conjuncts, substitute
from ..lowering.dataflow import used_lookups
from ..lowering.ir import Lookup, Product, Read
from ..lowering.tiling import OFFSET
from .access import Aligned, Axes, Space, align, cut, reach, read, windowed
from .masks import mask
from .runtime import Values, entries, fence, turned

MATRIX = 1 << 20  # points of a sum from which on relations in it are multiplied as matrices
WINDOWS = 64  # entries of a window that are summed one after the other


def product(step: Product, values: Values) -> Any:
    """The array of a product step."""
    result = _summed(step, values)
    if step.targets:
        return _scattered(step, result, values)
    return result


def _summed(step: Product, values: Values) -> Any:
    space = Space({i: n.constant for i, n in (*step.out, *step.sums)})
    if step.sums and (axis := _window(step, space)) is not None:
        correlated = _correlation(step, space, values)
        return _unrolled(step, axis, space, values) if correlated is None else correlated
    entries(step.lookups, space, values)
    operands = [read(values.arrays[r.array], r.indices, space, False) for r in step.reads]
    tests = conjuncts(step.mask) if step.mask != TRUE else ()
    masks = [(q, mask(q, space, values.relation)) for q in tests]
    out = tuple(i for i, _ in step.out)
    sums = tuple(i for i, _ in step.sums)
    if not sums:
        operands = [turned(r, space, values) for r in step.reads]
        every = [m for _, m in masks]
        return jnp.broadcast_to(_multiplied(operands, every, out), space.shape(out))
    coupled = []
    for q, m in masks:
        hosts = [k for k, (_, axes) in enumerate(operands) if set(m[1]) <= set(axes)]
        for k in hosts:
            operands[k] = _masked(operands[k], q, space, values)
        if hosts:
            continue
        if isinstance(q, Related) and max(MATRIX, 4 * m[0].size) <= prod(space.extents.values()):
            operands = [_covered(operand, m) for operand in operands]
            operands.append((m[0].astype(values.dtype), m[1]))  # a matrix of zeros and ones
        else:
            coupled.append(m)
    if coupled:
        axes = (*out, *sums)
        whole = jnp.broadcast_to(_multiplied(operands, coupled, axes), space.shape(axes))
        return whole.sum(tuple(range(len(out), len(axes))))
    return _einsum(operands, out, sums, space)


def _multiplied(operands: Sequence[Aligned], masks: Sequence[Aligned], axes: Axes) -> Any:
    total: Any = align(operands[0], axes)
    for operand in operands[1:]:
        total = total * align(operand, axes)
    if not masks:
        return total
    inside: Any = jnp.asarray(True)
    for m in masks:
        inside = inside & align(m, axes)
    return jnp.where(inside, total, jnp.zeros((), total.dtype))


def _masked(operand: Aligned, q: Predicate, space: Space, values: Values) -> Aligned:
    """Zero where `q` is false; the mask is made as the array lies, so that equal ones are one."""
    array, axes = operand
    own = Space({i: space.extents[i] for i in axes}, space.entries)
    inside = align(mask(q, own, values.relation), axes)
    return jnp.where(inside, array, jnp.zeros((), array.dtype)), axes


def _covered(operand: Aligned, m: Aligned) -> Aligned:
    """Zero where the mask holds nowhere along its other axes, so that a NaN there is not multiplied."""
    inside, has = m
    shared = tuple(i for i in has if i in operand[1])
    if not shared:
        return operand
    some = inside.any(tuple(k for k, i in enumerate(has) if i not in shared))
    array, axes = operand
    return jnp.where(align((some, shared), axes), array, jnp.zeros((), array.dtype)), axes


def _einsum(operands: Sequence[Aligned], out: Axes, sums: Axes, space: Space) -> Any:
    scalars = [array for array, axes in operands if not axes]
    factors = [operand for operand in operands if operand[1]]
    used = {axis for _, axes in factors for axis in axes}
    present = tuple(axis for axis in out if axis in used)
    times = prod(space.extents[axis] for axis in sums if axis not in used)
    if not factors:
        total = scalars.pop()
    elif len(factors) == 1:
        array, axes = factors[0]
        total, axes = _alone((array, axes), present)
        total = align((total, axes), present)
    elif len(factors) == 2:
        total = _pair(factors[0], factors[1], present)
    else:
        total = _several(factors, present)
    for scalar in scalars:
        total = total * scalar
    if times != 1:
        total = total * jnp.asarray(times, total.dtype)
    return jnp.broadcast_to(align((total, present), out), space.shape(out))


def _pair(left: Aligned, right: Aligned, out: Axes) -> Any:
    shared = set(left[1]) & set(right[1])
    if out and set(left[1]) == set(right[1]):
        # Many short dot products: a fused multiply and sum; a batched `dot_general` is slower.
        whole = left[0] * align(right, left[1])
        total = whole.sum(tuple(k for k, axis in enumerate(left[1]) if axis not in out))
        return align((total, tuple(axis for axis in left[1] if axis in out)), out)
    if not shared - set(out) and not set(left[1]) | set(right[1]) <= set(out):
        # Nothing is summed together: sum each by itself first.
        parts = [_alone(left, out), _alone(right, out)]
        return _multiplied(parts, [], out)
    if _summed_first(left, out) or _summed_first(right, out) is False:
        left, right = right, left  # so that XLA need not turn a matrix round
    number = {axis: k for k, axis in enumerate(dict.fromkeys((*left[1], *right[1])))}
    letters = [[number[axis] for axis in axes] for axes in (left[1], right[1], out)]
    return jnp.einsum(left[0], letters[0], right[0], letters[1], letters[2])


def _several(factors: Sequence[Aligned], out: Axes) -> Any:
    """Three factors or more, two at a time in the order that costs least."""
    number = {axis: k for k, axis in enumerate(dict.fromkeys(a for _, has in factors for a in has))}
    operands: list[Any] = []
    for array, axes in factors:
        operands += [array, [number[axis] for axis in axes]]
    return jnp.einsum(*operands, [number[axis] for axis in out], optimize="optimal")


def _summed_first(operand: Aligned, out: Axes) -> bool | None:
    """Whether the axes that are summed lead, those that stay follow; None for a vector."""
    axes = operand[1]
    if len(axes) < 2:
        return None
    return axes[0] not in out and axes[-1] in out


def _alone(operand: Aligned, out: Axes) -> Aligned:
    array, axes = operand
    gone = tuple(k for k, axis in enumerate(axes) if axis not in out)
    return (array.sum(gone) if gone else array), tuple(axis for axis in axes if axis in out)


# Windows


def _window(step: Product, space: Space) -> str | None:
    """The shortest axis of a window, where it is short and something else is summed or kept."""
    looked = {OFFSET, *(x.name for x in step.lookups)}
    found: set[str] = set()
    for r in step.reads:
        if not any(a.names & looked for a in r.indices):
            found |= windowed(r.indices, space)
    if not found or len(step.reads) < 2:
        return None
    axis = min(found, key=lambda i: space.extents[i])
    return axis if 1 < space.extents[axis] <= WINDOWS else None


def _correlation(step: Product, space: Space, values: Values) -> Any | None:
    """`⊞w. Σs. A[±w±s+c]·B[±s+d]` as a convolution, where w is the shorter: XLA for CPUs does that
    well, and the dot products of an unrolled w badly. None for anything else.
    """
    if len(step.out) != 1 or len(step.sums) != 1 or step.mask != TRUE or step.targets:
        return None
    if len(step.reads) != 2 or jax.default_backend() != "cpu":
        return None
    ((w, _),), ((s, _),) = step.out, step.sums
    long, short = sorted(step.reads, key=lambda r: -len(r.indices[0].terms) if r.indices else 0)
    if len(long.indices) != 1 or len(short.indices) != 1:
        return None
    (a,), (b,) = long.indices, short.indices
    turn_w, turn_s, turn_b = a.coefficient(w), a.coefficient(s), b.coefficient(s)
    if {abs(turn_w), abs(turn_s), abs(turn_b)} != {1} or a.names != {w, s} or b.names != {s}:
        return None
    if space.extents[w] > space.extents[s]:
        return None
    low, high = reach(a, space)
    segment, _ = read(
        values.arrays[long.array], (Affine.of("t") + low,), Space({"t": high - low + 1})
    )
    window, _ = read(values.arrays[short.array], (b,), Space({s: space.extents[s]}))
    window = window if turn_s > 0 else jnp.flip(window)
    found = lax.conv_general_dilated(segment[None, None], window[None, None], (1,), "VALID")[0, 0]
    return found if turn_w > 0 else jnp.flip(found)


def _unrolled(step: Product, axis: str, space: Space, values: Values) -> Any:
    parts = [_summed(_fixed(step, axis, value), values) for value in range(space.extents[axis])]
    kept = [i for i, _ in step.out]
    if axis in kept:
        return jnp.stack(parts, kept.index(axis))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return fence(total, values)  # else it may be computed anew for each step that reads it


def _fixed(step: Product, axis: str, value: int) -> Product:
    at = {axis: Affine.of(value)}

    def here(indices: Sequence[Affine]) -> tuple[Affine, ...]:
        return tuple(a.substitute(at) for a in indices)

    return replace(
        step,
        out=tuple(b for b in step.out if b[0] != axis),
        sums=tuple(b for b in step.sums if b[0] != axis),
        reads=tuple(Read(r.array, here(r.indices)) for r in step.reads),
        mask=substitute(step.mask, at),
        lookups=tuple(Lookup(x.name, x.relation, here(x.places)) for x in step.lookups),
        targets=(),
    )


# Terms that data send somewhere


def _scattered(step: Product, terms: Any, values: Values) -> Any:
    """Add up terms with equal targets."""
    space = Space({i: n.constant for i, n in step.out})
    for a, n in step.targets:
        if len(a.terms) == 2 and a.names <= space.extents.keys():
            return _digits(terms, step, a, n)
    entries(used_lookups(step.lookups, [a for a, _ in step.targets]), space, values)
    indices = [space.index(a) for a, _ in step.targets]
    extents = tuple(n for _, n in step.targets)
    plain = [a.name if a.name in space.extents else None for a, _ in step.targets]
    kept = [k for k, name in enumerate(plain) if name is not None and plain.count(name) == 1]
    sent = [k for k in range(len(plain)) if k not in kept]
    looked = {axis for k in sent for axis in indices[k][1]}
    # Axes that are targets themselves and on which no other target depends stay whole.
    whole = [k for k in kept if plain[k] not in looked]
    sent = [k for k in range(len(plain)) if k not in whole]
    rest = [str(plain[k]) for k in whole]
    out = tuple(space.extents)
    axes = tuple(axis for axis in out if axis not in rest)
    ordered = jnp.transpose(terms, [out.index(axis) for axis in (*axes, *rest)])
    flat = ordered.reshape(prod(space.shape(axes)), *space.shape(rest))
    if not sent:
        return jnp.transpose(flat.sum(0), [whole.index(k) for k in range(len(extents))])
    columns = [jnp.broadcast_to(align(indices[k], axes), space.shape(axes)) for k in sent]
    address = jnp.stack([column.reshape(-1) for column in columns], 1)
    start = jnp.zeros((*(extents[k] for k in sent), *space.shape(rest)), terms.dtype)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, 1 + len(rest))),
        inserted_window_dims=tuple(range(len(sent))),
        scatter_dims_to_operand_dims=tuple(range(len(sent))),
    )
    mode = lax.GatherScatterMode.FILL_OR_DROP  # what lies outside is dropped
    total = lax.scatter_add(start, address, flat, numbers, mode=mode)
    order = [*sent, *whole]
    return jnp.transpose(total, [order.index(k) for k in range(len(extents))])


def _digits(terms: Any, step: Product, address: Affine, extent: int) -> Any:
    """Terms at `k·r + e + c`, `0 ≤ e < k`: r and e are two axes that become one."""
    names = [i for i, _ in step.out]
    (e, _), (r, k) = sorted(address.terms, key=lambda term: term[1])
    order = [a.name if a is not address else r for a, _ in step.targets]
    place = order.index(r)
    order.insert(place + 1, e)
    array = jnp.transpose(terms, [names.index(str(i)) for i in order])
    array = cut(array, place + 1, 0, k)
    array = array.reshape(*array.shape[:place], -1, *array.shape[place + 2 :])
    return cut(array, place, -address.constant, extent - address.constant)
