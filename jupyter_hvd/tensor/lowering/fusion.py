"""Steps as XLA fuses them best: what only moves or repeats entries is read through, and sums of sums
are one sum.

XLA fuses entrywise steps by itself, but it keeps what an intermediate is: where one repeats the
entries of a smaller array along an axis, every function of it is computed over and over, and where
one is written before it is read, as at a barrier, all of it is in memory. A sum of shifted sums puts
a padding around a padding, each with a branch for each entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from operator import and_

from ..language.affine import Affine
from ..language.predicates import TRUE, conj
from ..ssa.program import Output, flatten_output
from .conditions import simplify_conditions
from .dataflow import names_of, needed_steps
from .ir import (
    Access,
    Accumulate,
    Action,
    Contract,
    Entrywise,
    Fill,
    MadeRelation,
    Masked,
    Rewriting,
    Step,
    Whole,
    extents_of,
)
from .storage import Storage

#: Terms of sums for each entry of an array, from which on multiplying the entries is nothing beside them.
MANY_TERMS = 8
MINUS_ONE = Fill((), -1)

Shape = tuple[int, ...]
End = tuple[str, bool]  # of an axis, the first or the last


@dataclass(frozen=True)
class Fused:
    """Fused steps. `dimensions` says, for arrays that now have fewer or reordered dimensions, which ones they have."""

    steps: tuple[Step, ...]
    dimensions: Mapping[str, tuple[int, ...]]

    def fused_storage(self, name: str, storage: Storage) -> Storage:
        """Return the storage of an array for its remaining dimensions."""
        kept = self.dimensions.get(name)
        if kept is None:
            return storage
        return replace(
            storage,
            extents=tuple(storage.extents[d] for d in kept),
            inverse=tuple(storage.inverse[d] for d in kept),
        )


def fuse_steps(
    steps: Sequence[Step],
    output: Output,
    storages: Mapping[str, Storage],
    below: Mapping[str, int],
) -> Fused:
    """Return fewer steps that make the same arrays. The entries of index arrays are known to be `below` a number."""
    whole = frozenset(flatten_output(output)).union(*(_read_whole(s.action) for s in steps))
    shapes = {x: storage.extents for x, storage in storages.items()}
    asked = simplify_conditions(steps, whole)
    found = needed_steps(
        _read_through_views(asked, {**shapes, **_entrywise_shapes(asked)}, below), output
    )
    less, dropped = _drop_repeated_dimensions(found, whole, below)
    lying, orders = _reorder_as_read(less, whole)
    flat_ = needed_steps(
        _flatten_sums(lying, whole, {**shapes, **_entrywise_shapes(lying)}), output
    )
    dimensions = {
        x: _remaining_dimensions(storages[x], gone) for x, gone in dropped.items() if x in storages
    }
    for x, order in orders.items():
        kept = dimensions.get(x, tuple(range(len(order))))
        dimensions[x] = tuple(kept[d] for d in order)
    return Fused(tuple(_scale_early(flat_, whole)), dimensions)


def _remaining_dimensions(storage: Storage, gone: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions of an array that are not dropped."""
    return tuple(d for d in range(len(storage.extents)) if d not in gone)


def _entrywise_shapes(steps: Sequence[Step]) -> dict[str, Shape]:
    """Return the shapes of arrays that are made entry by entry."""
    return {
        s.name: _shape_of_result(s.action) for s in steps if isinstance(s.action, Entrywise | Fill)
    }


def _read_whole(action: Action) -> frozenset[str]:
    """Return the arrays whose full shape a step needs."""
    return (
        action.sources if isinstance(action, MadeRelation | Whole) or action.loops else frozenset()
    )


# Views


def _read_through_views(
    steps: Sequence[Step], shapes: Mapping[str, Shape], below: Mapping[str, int]
) -> list[Step]:
    """Return steps that read the sources of slices, permutations and repetitions instead of these."""
    views: dict[str, Contract] = {}
    found = []
    for step in steps:
        action = step.action
        if isinstance(action, Entrywise):
            action = action.rewritten(_view_rewriting(views, _axis_extents(action, below), shapes))
            if (view := _as_product(action)) is not None and _is_view(view.reads):
                views[step.name] = view
        found.append(replace(step, action=action))
    return found


def _axis_extents(action: Entrywise, below: Mapping[str, int]) -> dict[str, int]:
    """Return the extents of the axes, and of index-array entries that are known to be below a number."""
    looked = action.indirections
    known = {x.name: below[x.relation] for x in looked if x.relation in below and not x.searched}
    return known | action.extents


def _view_rewriting(
    views: Mapping[str, Contract], extents: Mapping[str, int], shapes: Mapping[str, Shape]
) -> Rewriting:
    """Return the rewriting that replaces reads of views by reads of their sources."""

    def substitute_view(r: Access) -> Access:
        view = views.get(r.array)
        if view is None:
            return r
        (source,) = view.reads
        if not _exceeded_ends(r, view, extents) <= _zero_beyond(source, view.extents, shapes):
            return r
        return source.substitute(dict(zip(view.axes, r.indices, strict=True)))

    return Rewriting(substitute_view, lambda p: p, lambda x: x)


def _as_product(action: Action) -> Contract | None:
    """Return an action if it multiplies entry by entry without condition; else None."""
    if not isinstance(action, Contract) or action.sums or action.scatter_to or action.lookups:
        return None
    return action if action.mask == TRUE else None


def _is_view(reads: Sequence[Access]) -> bool:
    """Whether entries are those of another array, each index one axis at most, in steps of one."""
    if len(reads) != 1:
        return False
    (read,) = reads
    axes = [i for a in read.indices for i in a.names]
    return len(set(axes)) == len(axes) and all(
        len(a.terms) <= 1 and all(abs(k) == 1 for _, k in a.terms) for a in read.indices
    )


def _exceeded_ends(read: Access, made: Entrywise, extents: Mapping[str, int]) -> frozenset[End]:
    """Return the ends of an array beyond which a read may lie."""
    places = zip(made.axes, read.indices, made.shape, strict=True)
    return frozenset(end for i, a, n in places for end in _ends_exceeded_on(i, a, n, extents))


def _ends_exceeded_on(axis: str, a: Affine, n: int, extents: Mapping[str, int]) -> set[End]:
    """Return the ends of one axis beyond which an index may lie."""
    if not a.names <= extents.keys():
        return {(axis, False), (axis, True)}  # data give it
    low, high = a.value_range(extents)
    return {(axis, last) for last, beyond in ((False, low < 0), (True, high >= n)) if beyond}


def _stays_within(a: Affine, n: int, extents: Mapping[str, int]) -> bool:
    """Whether an index is always in range."""
    if not a.names <= extents.keys():
        return False  # data give it
    low, high = a.value_range(extents)
    return low >= 0 and high < n


# Order


def _reorder_as_read(
    steps: Sequence[Step], whole: AbstractSet[str]
) -> tuple[list[Step], dict[str, tuple[int, ...]]]:
    """Return arrays with their dimensions in the order of what they are made from.

    For `[sum((x[i, j] - y[j])**2 for i …) for j …]`, the squares would have j first, and be written and read across the rows
    of x.
    """
    orders: dict[str, tuple[int, ...]] = {}

    def access(r: Access) -> Access:
        order = orders.get(r.array)
        return r if order is None else Access(r.array, tuple(r.indices[d] for d in order))

    found = []
    for step in steps:
        action = step.action
        if isinstance(action, Entrywise):
            action = action.rewritten(Rewriting(access, lambda p: p, lambda x: x))
            order = None if step.name in whole else _order_read(action)
            if order is not None:
                orders[step.name] = order
                action = replace(action, out=tuple(action.out[d] for d in order))
        found.append(replace(step, action=action))
    return found, orders


def _order_read(action: Entrywise) -> tuple[int, ...] | None:
    """Return the common order of the axes in what is read along all of them, if it differs from the result's; else None."""
    axes = action.axes
    if action.summed or (isinstance(action, Contract) and action.scatter_to):
        return None
    orders = set[tuple[int, ...]]()
    for r in action.accesses:
        order = tuple(
            axes.index(i) for a in r.indices if len(a.names) == 1 for i in a.names if i in axes
        )
        if sorted(order) == [*range(len(axes))]:
            orders.add(order)
    if len(orders) != 1:
        return None
    (order,) = orders
    return None if order == tuple(range(len(axes))) else order


# Repetition


def _drop_repeated_dimensions(
    steps: Sequence[Step], whole: AbstractSet[str], below: Mapping[str, int]
) -> tuple[list[Step], dict[str, tuple[int, ...]]]:
    """Return arrays without the dimensions along which their entries repeat, if all reads are in range."""
    inside = _dimensions_read_inside(steps, below)
    dropped: dict[str, tuple[int, ...]] = {}

    def access(r: Access) -> Access:
        gone = dropped.get(r.array, ())
        return Access(r.array, tuple(a for d, a in enumerate(r.indices) if d not in gone))

    found = []
    for step in steps:
        action = step.action
        if isinstance(action, Entrywise):
            action = action.rewritten(Rewriting(access, lambda p: p, lambda x: x))
        if isinstance(action, Entrywise | Fill) and step.name not in whole:
            gone = _repeating_axes(action) & inside.get(step.name, frozenset())
            if gone:
                dropped[step.name] = tuple(sorted(gone))
                out = tuple(b for d, b in enumerate(action.out) if d not in gone)
                action = replace(action, out=out)
        found.append(replace(step, action=action))
    return found, dropped


def _dimensions_read_inside(
    steps: Sequence[Step], below: Mapping[str, int]
) -> dict[str, frozenset[int]]:
    """Return, for each array, the dimensions along which all reads are in range."""
    shapes = {s.name: _shape_of_result(s.action) for s in steps}
    found: dict[str, frozenset[int]] = {}
    for step in steps:
        if isinstance(step.action, Entrywise):
            extents = _axis_extents(step.action, below)
            for r in step.action.accesses:
                places = enumerate(zip(r.indices, shapes[r.array], strict=False))
                here = frozenset(d for d, (a, n) in places if _stays_within(a, n, extents))
                found[r.array] = found.get(r.array, here) & here
    return found


def _shape_of_result(action: Action) -> Shape:
    """Return the shape that an action makes; () if it is not entrywise."""
    match action:
        case Entrywise():
            return action.shape
        case Fill(out, _):
            return extents_of(out)
    return ()


def _repeating_axes(action: Entrywise | Fill) -> frozenset[int]:
    """Return the axes on which no entry depends."""
    if isinstance(action, Contract) and action.scatter_to:
        return frozenset()
    if isinstance(action, Fill):
        used = action.value.names if isinstance(action.value, Affine) else frozenset[str]()
    else:
        used = names_of(a for r in action.accesses for a in r.indices)
        used |= names_of(a for x in action.indirections for a in x.subscripts)
        used = used.union(*(p.names for p in action.conditions))
    return frozenset(d for d, (i, _) in enumerate(action.out) if i not in used)


# Sums of sums


def _flatten_sums(
    steps: Sequence[Step], whole: AbstractSet[str], shapes: Mapping[str, Shape]
) -> list[Step]:
    """Merge sums that one other sum reads, and arrays times constants, into the sums that read them; equal addends become one,
    times their number.
    """
    reads = Counter(r.array for s in steps for r in s.action.accesses)
    constants = _constant_values(steps)
    sums: dict[str, Accumulate] = {}
    scaled: dict[str, Contract] = {}
    bare: dict[Accumulate, str] = {}
    numbers: dict[int, str] = {}
    shapes = dict(shapes)
    found = []
    for step in steps:
        action = step.action
        if isinstance(action, Accumulate):
            parts = [_addend_parts(m, sums, action.extents, shapes) for m in action.addends]
            counted = Counter(m for part in parts for m in part)
            for times in {n for n in counted.values() if n > 1 and n not in numbers}:
                numbers[times] = f"{times}″"
                found.append(Step(numbers[times], Fill((), times), step.statement))
            action = replace(
                action,
                addends=tuple(_multiply_addend(m, numbers.get(n)) for m, n in counted.items()),
            )
            if reads[step.name] == 1 and step.name not in whole:
                sums[step.name] = action
            scale = (
                _common_factors(action) if reads[step.name] > 1 and step.name not in whole else ()
            )
            if not scale:
                found.append(replace(step, action=action))
                continue
            sum_ = replace(action, addends=tuple(_drop_scale(m, scale) for m in action.addends))
            if sum_ not in bare:
                bare[sum_] = f"{step.name}″"
                shapes[bare[sum_]] = sum_.shape
                found.append(Step(bare[sum_], sum_, step.statement))
            at = action.entry_of(bare[sum_])
            action = Contract(action.out, (), (at, *(Access(x, ()) for x in scale)))
        if isinstance(action, Contract) and action.sums and not action.scatter_to:
            factors = [_factor_parts(r, scaled, action.extents, shapes) for r in action.reads]
            action = replace(action, reads=tuple(r for part in factors for r in part))
        if (addend := _scaled_addend(action, constants)) is not None:
            assert isinstance(action, Contract)
            parts_ = _addend_parts(addend, sums, action.extents, shapes)
            sums[step.name] = Accumulate(action.out, parts_)
            scaled[step.name] = action
        found.append(replace(step, action=action))
    return found


def _constant_values(steps: Sequence[Step]) -> dict[str, Step]:
    """Return the steps of scalar constants, by name."""
    return {s.name: s for s in steps if isinstance(s.action, Fill) and not s.action.out}


def _scale_early(steps: Sequence[Step], whole: AbstractSet[str]) -> list[Step]:
    """Multiply an array once by the numbers by which all sums of it are multiplied, if that is far fewer multiplications.

    The derivatives of a mean square are sums of the residuals times 2/n; after each sum, such a number would be a kernel of
    its own.
    """
    constants = _constant_values(steps)
    readers: dict[str, list[Step]] = {}
    for step in steps:
        for name in step.action.sources:
            readers.setdefault(name, []).append(step)
    found: dict[str, Step] = {}
    without = set[str]()
    for step in steps:
        action = step.action
        if step.name in without and isinstance(action, Contract):
            action = replace(action, reads=_reads_except(action.reads, constants.keys()))
        at_once = readers.get(step.name, ())
        scale = () if step.name in whole else _common_scale(step, at_once, constants.keys())
        if scale and isinstance(action, Entrywise) and without.isdisjoint(s.name for s in at_once):
            without |= {s.name for s in at_once}
            bare = Step(f"{step.name}′", action, step.statement)
            at = action.entry_of(bare.name)
            found |= {r.array: constants[r.array] for r in scale}
            found[bare.name] = bare
            action = Contract(action.out, (), (at, *scale))
        found.setdefault(step.name, replace(step, action=action))
    return list(found.values())


def _reads_except(reads: Sequence[Access], arrays: AbstractSet[str]) -> tuple[Access, ...]:
    """Return the reads except those of some arrays."""
    return tuple(r for r in reads if r.array not in arrays)


def _common_scale(
    step: Step, readers: Sequence[Step], constants: AbstractSet[str]
) -> tuple[Access, ...]:
    """Return the numbers by which all readers of an array multiply it, if these sum far more terms; else ()."""
    action = step.action
    if not isinstance(action, Entrywise) or action.summed:
        return ()
    scales, terms = set[tuple[Access, ...]](), 0
    for reader in (s.action for s in readers):
        if not isinstance(reader, Contract) or not reader.sums or reader.scatter_to:
            return ()
        if sum(r.array == step.name for r in reader.reads) != 1:
            return ()
        scales.add(tuple(r for r in reader.reads if r.array in constants))
        terms += prod(reader.extents.values())
    few = MANY_TERMS * prod(action.shape) <= terms
    return scales.pop() if few and len(scales) == 1 else ()


def _scaled_addend(action: Action, constants: Mapping[str, Step]) -> Masked | None:
    """Return an array times constants as an addend; None for other actions."""
    product = _as_product(action)
    if product is None:
        return None
    rest = [r for r in product.reads if r.array not in constants]
    if len(rest) != 1 or len(rest) == len(product.reads):
        return None
    scale = [r.array for r in product.reads if r.array in constants]
    negative = [x for x in scale if constants[x].action == MINUS_ONE]
    minus = len(negative) % 2 == 1
    return Masked(rest[0], scale=tuple(x for x in scale if x not in negative), minus=minus)


def _common_factors(action: Accumulate) -> tuple[str, ...]:
    """Return the numbers by which all addends of a sum are multiplied; () for a single addend."""
    if len(action.addends) < 2:
        return ()
    return tuple(reduce(and_, (Counter(m.scale) for m in action.addends)).elements())


def _multiply_addend(addend: Masked, number: str | None) -> Masked:
    """Return an addend multiplied by one more number."""
    return addend if number is None else replace(addend, scale=(*addend.scale, number))


def _drop_scale(addend: Masked, scale: Sequence[str]) -> Masked:
    """Return an addend without these factors."""
    left = Counter(addend.scale) - Counter(scale)
    return replace(addend, scale=tuple(left.elements()))


def _addend_parts(
    addend: Masked,
    sums: Mapping[str, Accumulate],
    extents: Mapping[str, int],
    shapes: Mapping[str, Shape],
) -> tuple[Masked, ...]:
    """Return the addends of the sum that an addend reads; the addend itself if its own extents cut that sum off."""
    inner = sums.get(addend.read.array)
    if inner is None or addend.lookups:
        return (addend,)
    if len(inner.addends) > 1 and (addend.scale or addend.mask != TRUE):
        return (addend,)  # a sum is multiplied and masked once
    beyond = _exceeded_ends(addend.read, inner, extents)
    if not all(beyond <= _zero_beyond(m.read, inner.extents, shapes) for m in inner.addends):
        return (addend,)
    at = dict(zip(inner.axes, addend.read.indices, strict=True))
    parts = (m.rewritten(Rewriting.substituting(at)) for m in inner.addends)
    return tuple(
        replace(
            m,
            mask=conj(addend.mask, m.mask),
            scale=(*addend.scale, *m.scale),
            minus=addend.minus != m.minus,
        )
        for m in parts
    )


def _factor_parts(
    read: Access,
    scaled: Mapping[str, Contract],
    extents: Mapping[str, int],
    shapes: Mapping[str, Shape],
) -> tuple[Access, ...]:
    """Return the factors of an array times constants; the read itself for other arrays."""
    inner = scaled.get(read.array)
    if inner is None:
        return (read,)
    ends = (_zero_beyond(r, inner.extents, shapes) for r in inner.reads)
    if not _exceeded_ends(read, inner, extents) <= frozenset[End]().union(*ends):
        return (read,)
    at = dict(zip(inner.axes, read.indices, strict=True))
    return tuple(r.substitute(at) for r in inner.reads)


def _zero_beyond(
    read: Access, extents: Mapping[str, int], shapes: Mapping[str, Shape]
) -> frozenset[End]:
    """Return the ends beyond which a read yields zero, because it is outside its array."""
    found = set[End]()
    for a, n in zip(read.indices, shapes[read.array], strict=True):
        if len(a.terms) == 1 and a.terms[0][1] == 1:
            (i,) = a.names
            if i in extents:
                found |= {(i, False)} if a.constant <= 0 else set()
                found |= {(i, True)} if n - a.constant <= extents[i] else set()
    return frozenset(found)
