"""Contractions in JAX, with one function per strategy of `lowering.strategy`.

Operands are aligned arrays: an array and the axes of the step that it has, in its own order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..language.affine import Affine
from ..language.predicates import TRUE, Predicate, conjuncts
from ..lowering.dataflow import names_of, used_lookups
from ..lowering.ir import Access, Contract, Rewriting
from ..lowering.strategy import (
    Boxed,
    Convolution,
    Masks,
    Multiplied,
    Pairing,
    Pointwise,
    Reduced,
    Running,
    Swept,
    Unrolled,
    choose_kernel,
    choose_pairing,
    is_covered,
    mask_axes,
    split_scalars,
)
from ..polyhedral.points import Aligned, Axes
from .access import Space, align, read, slice_with_zeros
from .masks import make_mask
from .runtime import Values, fusion_barrier, is_inside, look_up_entries, read_in_order

SLICES = 16  # of a long window that are added at once
WRITTEN_OUT = 16  # and of several short ones


def contract(step: Contract, values: Values) -> Any:
    """Compute the array of a contraction, with the strategy that `lowering.strategy` chooses."""
    step, numbers = split_scalars(step)
    result = _run_strategy(step, values)
    for number in numbers:
        result = result * values.arrays[number.array]
    return _scatter_terms(step, result, values) if step.scatter_to else result


def _run_strategy(step: Contract, values: Values) -> Any:
    """Compute `⊞out. Σ sums. …`, before it is scattered."""
    match choose_kernel(step, values.device):
        case Pointwise():
            return _multiply_pointwise(step, values)
        case Convolution() as convolution:
            return _convolve(step, convolution, values)
        case Swept() as sweep:
            return _slide_slices(step, sweep, values)
        case Boxed(windows):
            return _sum_boxes(step, windows, values)
        case Unrolled(axis, _):
            return _unroll_axis(step, axis, values)
        case Multiplied(_, _, masks, fuses):
            space, operands = _masked_operands(step, masks, values)
            return _sum_product(operands, step.axes, space, fuses)
        case Running() as running:
            return _sum_running(step, running, values)
        case Reduced(coupling, masks):
            return _sum_masked_product(step, coupling, masks, values)


def _multiply_pointwise(step: Contract, values: Values) -> Any:
    """Compute a contraction without sums: factors multiplied entry by entry, zero where a mask is false."""
    space = _space_of_step(step, values)
    if (quotient := _divide(step, space, values)) is not None:
        return quotient
    operands = [read_in_order(r, space, values) for r in step.reads]
    tests = conjuncts(step.mask) if step.mask != TRUE else ()
    masks = [make_mask(q, space, values.relation) for q in tests]
    return jnp.broadcast_to(_multiply_aligned(operands, masks, step.axes), space.shape(step.axes))


def _divide(step: Contract, space: Space, values: Values) -> Any:
    """Compute `x·(1/y)` as `x / y`, which takes one XLA kernel in place of two; None if the step is something else."""
    if step.mask != TRUE or len(step.reads) != 2:
        return None
    k = next((k for k, r in enumerate(step.reads) if r.array in values.inverted), None)
    if k is None or not is_inside(step.reads[k], values.arrays[step.reads[k].array].shape, space):
        return None
    read_ = step.reads[k]
    below = read_in_order(
        read_, space, replace(values, arrays={read_.array: values.inverted[read_.array]})
    )
    above = read_in_order(step.reads[1 - k], space, values)
    # A number with an axis of length 1 is turned into its reciprocal by XLA.
    divisor = align(below, step.axes) if below[1] else below[0]
    found = align(above, step.axes) / divisor
    return jnp.broadcast_to(found, space.shape(step.axes))


def _sum_masked_product(
    step: Contract, coupling: Sequence[Predicate], masks: Masks, values: Values
) -> Any:
    """Compute a contraction whose masks couple axes: the whole product is masked, then summed."""
    space, operands = _masked_operands(step, masks, values)
    tests = [make_mask(q, space, values.relation) for q in coupling]
    axes = tuple(space.extents)
    whole = jnp.broadcast_to(_multiply_aligned(operands, tests, axes), space.shape(axes))
    return whole.sum(tuple(range(len(step.out), len(axes))))


def _sum_running(step: Contract, found: Running, values: Values) -> Any:
    """Compute `Σ s≤place` as running sums along s, read at `place`, times the rest."""
    space, operands = _masked_operands(step, found.masks, values)
    inside = [operand for operand in operands if found.axis in operand[1]]
    axes = (found.axis, *found.kept)
    terms = _sum_product(inside, axes, Space({i: space.extents[i] for i in axes}))
    sums = lax.cumsum(terms, 0, reverse=found.from_last)
    (o,) = found.place.names
    places = found.place.constant + found.place.coefficient(o) * np.arange(space.extents[o])
    n = space.extents[found.axis]
    # Before the first and behind the last there is nothing to sum, or all.
    none = jnp.zeros((1, *sums.shape[1:]), sums.dtype)
    sums = jnp.concatenate([sums, none] if found.from_last else [none, sums])
    read_ = _repeat_rows(sums, np.clip(places if found.from_last else places + 1, 0, n))
    others = [operand for operand in operands if found.axis not in operand[1]]
    gone = {i for _, has in inside for i in has} - {*found.kept}
    left = Space({i: n for i, n in space.extents.items() if i not in gone})
    return _sum_product([(read_, (o, *found.kept)), *others], step.axes, left)


def _repeat_rows(array: Any, places: Any) -> Any:
    """Return the rows of an array at places that go up or down by one or stay, by slicing and padding in place of a gather."""
    turn = places[0] > places[-1]
    places = places[::-1] if turn else places
    low, high = int(places[0]), int(places[-1])
    before = int((places == low).sum()) - 1
    after = len(places) - before - (high - low + 1)
    rows = lax.slice_in_dim(array, low, high + 1)
    rows = jnp.pad(rows, [(before, after)] + [(0, 0)] * (array.ndim - 1), mode="edge")
    return jnp.flip(rows, 0) if turn else rows


def _space_of_step(step: Contract, values: Values) -> Space:
    """Return the axes of a step, with the entries of index arrays that it looks up."""
    space = Space(step.extents)
    look_up_entries(step.lookups, space, values)
    return space


def _masked_operands(step: Contract, masks: Masks, values: Values) -> tuple[Space, list[Aligned]]:
    """Return the axes of a step and its factors: what it reads, masked, and relations as matrices of zeros and ones."""
    space = _space_of_step(step, values)
    operands = [read(values.arrays[r.array], r.indices, space, False) for r in step.reads]
    for q, hosts in masks:
        for k in hosts:
            operands[k] = _mask_operand(operands[k], q, space, values)
        if not hosts:
            inside = make_mask(q, space, values.relation)
            operands = [_mask_outside(operand, inside) for operand in operands]
            operands.append((inside[0].astype(values.dtype), inside[1]))
    return space, operands


def _multiply_aligned(operands: Sequence[Aligned], masks: Sequence[Aligned], axes: Axes) -> Any:
    """Multiply factors broadcast to `axes`; the product is zero where a mask is false."""
    total: Any = align(operands[0], axes)
    for operand in operands[1:]:
        total = total * align(operand, axes)
    if not masks:
        return total
    inside: Any = jnp.asarray(True)
    for m in masks:
        inside = inside & align(m, axes)
    return jnp.where(inside, total, jnp.zeros((), total.dtype))


def _mask_operand(operand: Aligned, q: Predicate, space: Space, values: Values) -> Aligned:
    """Return a factor, zero where `q` is false. The mask is made in the array's own layout, so that equal masks are one."""
    array, axes = operand
    own = Space({i: space.extents[i] for i in axes}, space.entries)
    inside = align(make_mask(q, own, values.relation), axes)
    return jnp.where(inside, array, jnp.zeros((), array.dtype)), axes


def _mask_outside(operand: Aligned, m: Aligned) -> Aligned:
    """Return a factor, zero where a mask is false along all its other axes, so that a NaN there is not multiplied."""
    inside, has = m
    shared = tuple(i for i in has if i in operand[1])
    if not shared:
        return operand
    some = inside.any(tuple(k for k, i in enumerate(has) if i not in shared))
    array, axes = operand
    return jnp.where(align((some, shared), axes), array, jnp.zeros((), array.dtype)), axes


def _sum_product(operands: Sequence[Aligned], out: Axes, space: Space, fuses: bool = False) -> Any:
    """Sum a product of factors to the axes `out`, by matrix products where these serve, or fused if `fuses`."""
    scalars = [array for array, axes in operands if not axes]
    factors = [operand for operand in operands if operand[1]]
    used = {axis for _, axes in factors for axis in axes}
    present = tuple(axis for axis in out if axis in used)
    times = prod(n for axis, n in space.extents.items() if axis not in used and axis not in out)
    match factors:
        case []:
            total = scalars.pop()
        case [factor]:
            total = align(_sum_factor(factor, present), present)
        case _ if fuses and len(factors) > 1 and is_covered([frozenset(f[1]) for f in factors]):
            axes = max((axes for _, axes in factors), key=len)
            total = align(
                _sum_factor((_multiply_aligned(factors, [], axes), axes), present), present
            )
        case [left, right]:
            total = _multiply_pair(left, right, present)
        case _:
            total = _multiply_in_order(factors, present)
    for scalar in scalars:
        total = total * scalar
    if times != 1:
        total = total * jnp.asarray(times, total.dtype)
    return jnp.broadcast_to(align((total, present), out), space.shape(out))


def _multiply_pair(left: Aligned, right: Aligned, out: Axes) -> Any:
    """Sum a product of two factors to the axes `out`, fused, apart or as a matrix product as `choose_pairing` says."""
    match choose_pairing(frozenset(left[1]), frozenset(right[1]), frozenset(out)):
        case Pairing.FUSED:
            whole = left[0] * align(right, left[1])
            return align(_sum_factor((whole, left[1]), out), out)
        case Pairing.APART:
            return _multiply_aligned([_sum_factor(left, out), _sum_factor(right, out)], [], out)
    if _summed_first(left, out) or _summed_first(right, out) is False:
        left, right = right, left  # so that XLA need not turn a matrix round
    return _multiply_in_order((left, right), out)


def _multiply_in_order(factors: Sequence[Aligned], out: Axes) -> Any:
    """Sum a product of factors by `jnp.einsum`, two at a time in the cheapest order."""
    number = {axis: k for k, axis in enumerate(dict.fromkeys(a for _, has in factors for a in has))}
    operands: list[Any] = []
    for array, axes in factors:
        operands += [array, [number[axis] for axis in axes]]
    return jnp.einsum(*operands, [number[axis] for axis in out], optimize="optimal")


def _summed_first(operand: Aligned, out: Axes) -> bool | None:
    """Return whether the summed axes of a matrix come before the kept ones; None for a vector."""
    axes = operand[1]
    if len(axes) < 2:
        return None
    return axes[0] not in out and axes[-1] in out


def _sum_factor(operand: Aligned, out: Axes) -> Aligned:
    """Return a factor summed along every axis that is not in `out`."""
    array, axes = operand
    gone = tuple(k for k, axis in enumerate(axes) if axis not in out)
    return (array.sum(gone) if gone else array), tuple(axis for axis in axes if axis in out)


# Windows


def _convolve(step: Contract, found: Convolution, values: Values) -> Any:
    """Compute a sum over a sliding window by XLA's convolution."""
    segment, window, turn = _correlation_operands(step, found, values)
    result = lax.conv_general_dilated(segment[None, None], window[None, None], (1,), "VALID")[0, 0]
    return jnp.flip(result) if turn else result


def _slide_slices(step: Contract, found: Swept, values: Values) -> Any:
    """Compute a sum over a long sliding window as a loop that adds a few shifted slices at a time."""
    segment, window, turn = _correlation_operands(step, found, values)
    ((w, _),) = step.out
    kept, summed = step.extents[w], window.shape[0]
    blocks = -(-summed // SLICES)
    beyond = blocks * SLICES - summed
    segment, window = (jnp.pad(x, (0, beyond)) for x in (segment, window))

    def add_block(total: Any, block: tuple[Any, Any]) -> tuple[Any, None]:
        """Add one block of the window to the total."""
        start, factors = block
        part = lax.dynamic_slice(segment, (start,), (kept + SLICES - 1,))
        for k in range(SLICES):
            total = total + factors[k] * lax.slice(part, (k,), (k + kept,))
        return total, None

    starts = jnp.arange(blocks, dtype=jnp.int32) * SLICES
    zeros = jnp.zeros(kept, jnp.result_type(segment, window))
    result, _ = lax.scan(add_block, zeros, (starts, window.reshape(blocks, SLICES)))
    return jnp.flip(result) if turn else result


def _correlation_operands(
    step: Contract, found: Convolution | Swept, values: Values
) -> tuple[Any, Any, bool]:
    """Return the long and the short operand of `⊞w. Σs. long[w+s]·short[s]`, and whether the result has to be reversed."""
    ((w, _),), ((s, _),) = step.out, step.sums
    (a,), (b,) = found.long.indices, found.short.indices
    low, high = a.value_range(step.extents)
    long = Space({"t": high - low + 1})
    segment, _ = read(values.arrays[found.long.array], (Affine.of("t") + low,), long)
    window, _ = read(values.arrays[found.short.array], (b,), Space({s: step.extents[s]}))
    turn = a.coefficient(w) < 0
    window = window if a.coefficient(s) > 0 else jnp.flip(window)
    return segment, window, turn


def _sum_boxes(step: Contract, windows: Sequence[tuple[int, str, int]], values: Values) -> Any:
    """Compute `Σs. X[w + k·s]`, sums over a box, along one axis after the other; then what is left to sum."""
    (read_,) = step.reads
    array, indices, extents = values.arrays[read_.array], [*read_.indices], dict(step.extents)
    for d, s, k in windows:
        rest = indices[d] - Affine.of(s) * k
        count = extents.pop(s)
        low, high = rest.value_range(extents)
        first, last = sorted((0, k * (count - 1)))
        array = slice_with_zeros(array, d, low + first, high + last + 1)
        window, apart = [1] * array.ndim, [1] * array.ndim
        window[d], apart[d] = count, abs(k)
        zero, once = np.zeros((), array.dtype), [1] * array.ndim
        array = lax.reduce_window(
            array, zero, lax.add, window, once, "VALID", window_dilation=apart
        )
        indices[d] = rest - low
    left = replace(
        step,
        reads=(Access(read_.array, tuple(indices)),),
        sums=tuple([b for b in step.sums if b.name in extents]),
    )
    return _run_strategy(
        left, replace(values, arrays={**values.arrays, read_.array: array}, around={})
    )


def _unroll_axis(step: Contract, axis: str, values: Values) -> Any:
    """Compute a contraction at each value of one axis separately, and stack or add up the results."""
    if axis not in step.axes and (swept := _loop_over_window(step, axis, values)) is not None:
        return swept
    parts = [
        _run_strategy(_fix_axis(step, axis, value), values) for value in range(step.extents[axis])
    ]
    if axis in step.axes:
        return jnp.stack(parts, step.axes.index(axis))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return fusion_barrier(total, values)  # else it may be computed again for each reader


def _loop_over_window(step: Contract, axis: str, values: Values) -> Any:
    """Compute a sum along a window, whose terms are sums along other axes, in a loop; None if the axis has few values or
    conditions need it.

    Written out they would be as many slices as the window has entries, and XLA takes time for each.
    """
    count, extents = step.extents[axis], dict(step.extents)
    del extents[axis]
    tested = {axis} & (
        mask_axes(step.mask, step.lookups) | names_of(a for x in step.lookups for a in x.subscripts)
    )
    left = _fix_axis(step, axis, 0)
    inner = choose_kernel(left, values.device)
    if tested or not isinstance(inner, Unrolled) or count * inner.extent <= WRITTEN_OUT:
        return None
    arrays, reads, moved = dict[str, Any](), list[Access](), list[tuple[str, int, int, int, int]]()
    for number, r in enumerate(step.reads):
        name, indices = f"{r.array}·{number}", list[Affine]()
        array = values.arrays[r.array]
        for d, a in enumerate(r.indices):
            k = a.coefficient(axis)
            if not k:
                indices.append(a)
                continue
            rest = a - Affine.of(axis) * k
            (low, high), (first, last) = rest.value_range(extents), sorted((0, k * (count - 1)))
            array = slice_with_zeros(array, d, low + first, high + last + 1)
            moved.append((name, d, k, -first, high - low + 1))
            indices.append(rest - low)
        arrays[name] = array
        reads.append(Access(name, tuple(indices)))
    left = replace(left, reads=tuple(reads))

    def add_term(total: Any, value: Any) -> tuple[Any, None]:
        here = dict(arrays)
        for name, d, k, first, size in moved:
            here[name] = lax.dynamic_slice_in_dim(here[name], first + k * value, size, d)
        return total + _run_strategy(
            left, replace(values, arrays=here, around={}, under_shard_map=True)
        ), None

    start = jnp.zeros(left.shape, values.dtype)
    return lax.scan(add_term, start, jnp.arange(count, dtype=jnp.int32))[0]


def _fix_axis(step: Contract, axis: str, value: int) -> Contract:
    """Return the contraction at one value of an axis, not scattered."""
    return replace(
        step.rewritten(Rewriting.substituting({axis: Affine.of(value)})),
        out=tuple(b for b in step.out if b[0] != axis),
        sums=tuple(b for b in step.sums if b[0] != axis),
        scatter_to=(),
    )


# Terms that data send somewhere


def _scatter_terms(step: Contract, terms: Any, values: Values) -> Any:
    """Add up terms at the places that `scatter_to` says, and return the array of those places."""
    space = Space({i: step.extents[i] for i in step.axes})
    if any(len(a.terms) > 1 and a.names <= space.extents.keys() for a, _ in step.scatter_to):
        return _interleave_axes(terms, step)
    look_up_entries(
        used_lookups(step.lookups, names_of(a for a, _ in step.scatter_to)), space, values
    )
    indices = [space.index(a) for a, _ in step.scatter_to]
    extents = tuple(n for _, n in step.scatter_to)
    plain = [a.name if a.name in space.extents else None for a, _ in step.scatter_to]
    kept = [k for k, name in enumerate(plain) if name is not None and plain.count(name) == 1]
    sent = [k for k in range(len(plain)) if k not in kept]
    looked = {axis for k in sent for axis in indices[k][1]}
    # Axes that are places themselves and on which no other place depends stay whole.
    whole = [k for k in kept if plain[k] not in looked]
    sent = [k for k in range(len(plain)) if k not in whole]
    rest = [str(plain[k]) for k in whole]
    out = tuple(space.extents)
    axes = tuple(axis for axis in out if axis not in rest)
    ordered = jnp.transpose(terms, [out.index(axis) for axis in (*axes, *rest)])
    flat = ordered.reshape(prod(space.shape(axes)), *space.shape(rest))
    if not sent:
        return jnp.transpose(flat.sum(0), [whole.index(k) for k in range(len(extents))])
    if not looked:
        return _place_in_zeros(
            flat.sum(0) if axes else flat[0], {k: indices[k][0] for k in sent}, extents
        )
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


def _place_in_zeros(part: Any, places: Mapping[int, Any], extents: Sequence[int]) -> Any:
    """Return an array of zeros with `part` at places along some dimensions, as far as these lie inside."""
    there: Any = jnp.asarray(True)
    for k, place in places.items():
        there = there & (place >= 0) & (place < extents[k])
    shape = [1 if k in places else n for k, n in enumerate(extents)]
    update = jnp.where(there, part, jnp.zeros((), part.dtype)).reshape(shape)
    starts = [places.get(k, jnp.zeros((), jnp.int32)) for k in range(len(extents))]
    return lax.dynamic_update_slice(jnp.zeros(tuple(extents), part.dtype), update, starts)


def _interleave_axes(terms: Any, step: Contract) -> Any:
    """Place terms at `k·r + e + c`, `0 ≤ e < k`, along some dimensions: there r and e, or e's own digits, become one axis."""
    names = [i for i, _ in step.out]
    digits = [sorted(a.terms, key=lambda term: -term[1]) for a, _ in step.scatter_to]
    array = jnp.transpose(terms, [names.index(i) for parts in digits for i, _ in parts])
    for place, (parts, (address, extent)) in enumerate(zip(digits, step.scatter_to, strict=True)):
        for axis, (_, k) in reversed([*enumerate(parts[:-1], place)]):
            array = slice_with_zeros(array, axis + 1, 0, k)
            array = array.reshape(*array.shape[:axis], -1, *array.shape[axis + 2 :])
        if len(parts) > 1:
            array = slice_with_zeros(array, place, -address.constant, extent - address.constant)
    return array
