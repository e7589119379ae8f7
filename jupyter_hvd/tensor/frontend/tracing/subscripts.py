"""Slices, `None`, `...` and index arrays in brackets; and assignments to parts of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product
from typing import Any

from ...language.affine import Affine
from ...language.function import find_function as named_
from ...language.predicates import TRUE, Predicate, compare, conj, disj, exists, negate
from ...language.terms import Call, Const, Gen, Var
from ...language.types import REAL
from ..captured_data import OnHost
from ..tracers import Data, Index, Nature, Selected, Value, data_of, is_index_array, kind, sought_of
from .arrays import broadcast_indices, entry_aligned, nature_of
from .computed_indices import Indices, Places


@dataclass(frozen=True)
class Axis:
    """What a bracket does along one axis of an array: `start + step·i` for i below `length`; one
    entry where `length` is None.
    """

    tracer: Any
    start: Affine
    step: int = 1
    length: Affine | None = None
    is_here: None = None

    @property
    def dims(self) -> tuple[Affine, ...]:
        """The size of the result axis; () for a single entry."""
        return () if self.length is None else (self.length,)

    def entry(self, at: Sequence[Affine]) -> Index:
        """Return the index in the array for an entry of the result."""
        return Index(self.tracer, self.place(at[0]) if at else self.start)

    def place(self, i: Affine) -> Affine:
        """Return the index in the array of the i-th entry."""
        return self.start + i * self.step

    def holds(self, k: Affine) -> tuple[Predicate, Affine]:
        """Return the predicate that the index k is taken, and its position among the taken ones."""
        if self.length is None:
            return compare("=", k, self.start), Affine.of(0)
        moved = (k - self.start) * self.step
        return conj(compare("≤", 0, moved), compare("<", moved, self.length)), moved

    def misses(self, k: Affine, name: Callable[[str], str]) -> Predicate:
        """Return the predicate that the index k is not taken: outside the slice, or between two steps."""
        if self.length is None:
            return disj(compare("<", k, self.start), compare("<", self.start, k))
        step = abs(self.step)
        last = self.place(self.length - 1)
        low, high = (self.start, last) if self.step > 0 else (last, self.start)
        i = name("i")
        between = [
            exists(i, self.length - 1, compare("=", k, low + Affine.of(i) * step + r))
            for r in range(1, step)
        ]
        return disj(compare("<", k, low), compare("<", high, k), *between)


@dataclass(frozen=True)
class One:
    """One entry along an axis, at an integer that is not affine."""

    integer: Any
    equals: Callable[[Affine], Predicate]
    is_here: Callable[[Affine], Value] | None = None  # where data decide, 1 or 0
    length: None = None
    dims: tuple[Affine, ...] = ()
    step: int = 1

    def entry(self, _: Sequence[Affine]) -> Any:
        """Return the integer."""
        return self.integer

    def holds(self, k: Affine) -> tuple[Predicate, Affine]:
        """Return the predicate that the index k is this entry, and 0, its position."""
        return self.equals(k), ZERO

    def misses(self, k: Affine, name: Callable[[str], str]) -> Predicate:
        """Return the predicate that k is another entry."""
        p = negate(self.equals(k))
        assert p is not None
        return p


#: What stands for many indices at once; an `Axis` where it is an array that counts, `np.arange(n)`.
_Many = (Data, Axis, Indices)
ZERO = Affine.of(0)
STORED_IN_SLICE = (
    "a slice that data end, beside other indices or in `x.at[…]`",
    "loop over its entries: `for j in range(k[i], k[i + 1]): y[j] += e`",
)


def is_written(index: Any) -> bool:
    """Whether an index is a literal list of integers."""
    return isinstance(index, Indices) and index.written


def _lead(indices: Sequence[Any], spelt: Sequence[Any]) -> int:
    """Return the number of result axes before those of the index arrays."""
    if not _side_by_side(indices):
        return 0
    return next(k for k, p in enumerate(spelt) if p is not None and not isinstance(p, slice))


def _side_by_side(indices: Sequence[Any]) -> bool:
    """Whether all integer and array indices are adjacent; otherwise NumPy puts their axes first."""
    apart = (slice, type(None), type(...))
    taken = [k for k, p in enumerate(indices) if not isinstance(p, apart)]
    if not any(isinstance(indices[k], _Many) for k in taken):
        return True
    return taken[-1] - taken[0] + 1 == len(taken)


@dataclass(frozen=True)
class Changed:
    """JAX's `x.at`, and `x.at[…]` with the places."""

    array: Value
    places: tuple[Any, ...] | None = None

    def __getattr__(self, name: str) -> Any:
        if self.places is None or name not in CHANGES:
            raise AttributeError(f"`x.at[…].{name}` is not in the tensor language")
        return Changing(self.array, self.places, CHANGES[name])


CHANGES = {"set": "", "add": "+", "subtract": "-", "multiply": "*", "mul": "*", "divide": "/"}


@dataclass(frozen=True)
class Changing:
    """`x.at[…].add`, to be called."""

    array: Value
    places: tuple[Any, ...]
    op: str

    def __tensor_inline__(self, tracer: Any, args: Any, _kwargs: Any) -> Any:
        (value,) = args
        return tracer.stored(self.array, self.places, value, self.op)


class Subscripts(Places):
    """`x[1:-1]`, `A[:, 0]`, `A[:, None]`, `x[src]`, `x.at[i].add(v)`."""

    # What classes that extend this one define
    written_out: Callable[[list[Any]], Any]

    def cut(self, *parts: Any) -> slice:
        """Return the slice `start:stop:step`; called by rewritten code."""
        return slice(*parts)

    def _takes_many(self, index: Any) -> bool:
        """Whether an index selects more than one entry, or adds an axis."""
        return (
            index is None
            or index is ...
            or isinstance(index, slice | Indices)
            or self.is_array(index)
        )

    def subscript(self, array: Any, indices: tuple[Any, ...]) -> Any:
        """Return a part of an array, as an array."""
        indices = tuple(map(self.as_integer, indices))
        if is_index_array(array):
            return self._part_of_data(array.data, indices)
        value = self.once(self.whole(array))
        own = self.dims(value)
        out: list[Affine] = []
        axes: list[
            Any
        ] = []  # for each axis of the array: its Axis and its place in the result, or index arrays
        indices = self._clamped_places(tuple(map(self._as_indices, indices)), own)
        indices = tuple(map(self._as_index_array, indices))
        spelt = self._expand_ellipsis(indices, len(own))
        if any(map(is_written, spelt)):
            return self._read_at_list(value, indices, spelt)
        for place, size in zip((p for p in spelt if p is not None), own, strict=True):
            if isinstance(place, Axis):
                self.in_range(place, size)
        gathered, many = self.side_by_side_places([p for p in spelt if isinstance(p, _Many)])
        arrays, first = iter(many), None
        if not _side_by_side(indices):
            first, out = 0, [*gathered]
        at = 0
        for place in spelt:
            if place is None:
                out.append(Affine.of(1))
                continue
            size = own[at]
            at += 1
            if isinstance(place, _Many):
                if first is None:
                    first = len(out)
                    out += gathered
                axes.append((next(arrays), first))
                continue
            if sought_of(place):
                axes.append((One(place, partial(self.equals, place)), 0))
                continue
            axis = self._axis(place, size, value, at - 1, ragged=True)
            axes.append((axis, len(out)))
            if axis.length is not None:
                out.append(axis.length)
        if any(map(self.varies, out)):
            return self._slice_by_iteration(value, axes, out)
        if not out and all(isinstance(axis, Axis) for axis, _ in axes):
            return self.read(value, *(axis.start for axis, _ in axes))

        def entry(*entry_index: Affine) -> Value:
            whole: Any = value
            picked: list[Index] = []  # places that are not affine, one axis after the other
            for axis, k in axes:
                place = axis.entry(entry_index[k : k + len(axis.dims)])
                if sought_of(place):
                    picked.append(place)
                    continue
                whole, picked = self.gathered(whole, *picked) if picked else whole, []
                whole = self.read(whole, self.affine(place, "an index"))
            return self.whole(self.gathered(whole, *picked) if picked else whole)

        made = self.build(out, entry, value)
        copied = bool(many) or any(isinstance(axis, One) for axis, _ in axes)
        shares = frozenset[tuple[str, int]]() if copied else self.memory.of(value)
        return made.of_nature(
            replace(value.nature, shares=shares, lists=min(value.nature.lists, 1))
        )

    def _clamped_places(self, indices: tuple[Any, ...], sizes: Sequence[Affine]) -> tuple[Any, ...]:
        """Return the indices in brackets, with integers that data decide clamped to their axes."""
        if not any(isinstance(place, Value) and self.is_array(place) for place in indices):
            return indices
        spelt = self._expand_ellipsis(indices, len(sizes))
        remaining = iter(sizes)
        each = [(place, None if place is None else next(remaining)) for place in spelt]
        return tuple(
            self.clamped(place, size) if isinstance(place, Value) and size is not None else place
            for place, size in each
        )

    def varies(self, size: Affine) -> bool:
        """Whether a size is another in each turn of a loop around."""
        return bool(size.names & ({i for i, _ in self.binders} - self.sizing))

    def _slice_by_iteration(
        self, value: Value, axes: Sequence[tuple[Any, int]], out: list[Affine]
    ) -> Selected:
        """Return `x[:i]`, whose length depends on the iteration: a selection from the longest slice."""
        length, *rest = out
        simple = all(isinstance(axis, Axis) for axis, _ in axes) and all(
            abs(axis.step) == 1 for axis, _ in axes if axis.length is length
        )
        if not simple or not self.varies(length) or any(map(self.varies, rest)):
            raise self.error(
                "this slice's length depends on an index",
                "take such a slice of the first axis, `A.T[:i]`; or sum with a condition, "
                "`sum(x[j] for j in range(i))`",
            )
        most = length
        for i, n in reversed(self.binders):
            most = most.substitute({i: n if most.coefficient(i) > 0 else Affine.of(0)})
        most = most - min(0, most.constant)

        def entry(j: Affine, *at: Affine) -> Value:
            here = (j, *at)
            places = [a.start if a.length is None else a.place(here[k]) for a, k in axes]
            return self.conditioned(compare("<", j, length), self.read(value, *places))

        mask = self.condition_array([most], lambda j: compare("<", j, length))
        mask.of_nature(Nature(numbers="bool"))
        array = self.build([most, *rest], entry, value)
        array.of_nature(replace(value.nature, shares=frozenset()))
        made = Selected(self, array, mask, mask.term)
        made.length = length
        return made

    def _read_at_list(self, value: Value, indices: tuple[Any, ...], spelt: tuple[Any, ...]) -> Any:
        """Return `x[[0, 2]]`: the entries at literal indices, stacked."""
        many = [p for p in spelt if isinstance(p, _Many)]
        dims = self.broadcast_dims([p.dims for p in many])

        def size(p: Any, axis: int) -> Affine | None:
            own = axis - len(dims) + len(p.dims)
            return p.dims[own] if own >= 0 else None

        written = [p for p in many if is_written(p)]
        each = (k for k, n in enumerate(dims) if any(size(p, k) == n for p in written))
        if (axis := next(each, None)) is None:
            ones = [p.entry([ZERO] * len(p.dims)) if is_written(p) else p for p in spelt]
            return self.subscript(value, tuple(ones))

        def at(p: Any, j: int) -> Any:
            if not isinstance(p, _Many) or (n := size(p, axis)) is None:
                return p
            own = axis - len(dims) + len(p.dims)
            return Indices(p.dims, p.entry, is_written(p)).at(
                own, ZERO if n == Affine.of(1) else Affine.of(j)
            )

        rows = [
            self.subscript(value, tuple(at(p, j) for p in spelt))
            for j in range(self.number(dims[axis]))
        ]
        return self.built("stack", rows, _lead(indices, spelt) + axis)

    def along_axis(self, integers: Any, axis: int, rank: int) -> Indices:
        """Return an array of integers along one of `rank` axes, to broadcast with others: `np.arange(n)[:, None]`, `np.ix_`."""
        if isinstance(integers, tuple | list):
            integers = self.written_out(list(integers))
        one = self._as_index_array(self._as_indices(integers, symbols=True))
        dims = [one.dims[0] if k == axis else Affine.of(1) for k in range(rank)]
        return Indices(tuple(dims), lambda at: one.entry((at[axis],)), is_written(one))

    def _as_indices(self, index: Any, symbols: bool = False) -> Any:
        """Return an index array in a usable form if it counts, `np.arange(n)`, is an argument, or is a list of constants or
        `symbols`; others unchanged.
        """
        if is_index_array(index):
            return index.data
        written = index.written if isinstance(index, Value) else None
        constant = bool(written) and all(type(j) is int for j in written or ())
        if written and (constant or symbols):
            size = Affine.of(len(written))
            return Indices((size,), lambda at: written[at[0].constant], written=True)
        return self._counting(index) or index

    def _counting(self, bracket: Any) -> Axis | None:
        """Return the axis for `np.arange(n)` in brackets; None for others."""
        if isinstance(bracket, Value) and bracket.variable in self.counting:
            bracket = Value(self, self.counting[bracket.variable])
        match bracket:
            case Value(backing=Gen(index, size, Const(value=Affine() as a))) if a.names == {index}:
                step = a.coefficient(index)
                return Axis(self, a - Affine.of(index) * step, step, size)
        return None

    def _part_of_data(self, data: Data, indices: tuple[Any, ...]) -> Any:
        """Return a part of an array of integers or conditions: `src[:, 0]`, `labels[:, None]`."""
        own, out, axes = data.dims, list[Affine](), list[tuple[Axis, int]]()
        for place in self._expand_ellipsis(indices, len(own)):
            if place is None:
                out.append(Affine.of(1))
                continue
            if isinstance(place, Value) or sought_of(place):
                return self.subscript(self.as_numbers(data), indices)
            axis = self._axis(place, own[len(axes)], Value(self, Var(data.name, REAL)), len(axes))
            axes.append((axis, len(out)))
            if axis.length is not None:
                out.append(axis.length)

        def places_of(at: Sequence[Affine]) -> list[Affine]:
            return [a.start if a.length is None else a.place(at[k]) for a, k in axes]

        part = data.part(out, places_of, _host_step(indices))
        return part.array if out else part.entry(())

    def _expand_ellipsis(self, indices: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
        """Return the indices with `...` replaced by `:`, and `:` for omitted axes."""
        if indices.count(...) > 1:
            raise self.error("`...` stands twice here")
        named = sum(p is not None and p is not ... for p in indices)
        if named > rank:
            raise self.error(f"{named} indices for an array of {rank} dimensions")
        rest = (slice(None),) * (rank - named)
        if ... in indices:
            k = indices.index(...)
            return (*indices[:k], *rest, *indices[k + 1 :])
        return (*indices, *rest)

    def _axis(
        self, index: Any, size: Affine, value: Value, axis: int, ragged: bool = False
    ) -> Axis:
        """Return what an index or slice does along one axis; record the range check."""
        owner = value.term.name if isinstance(value.term, Var) else "the array"
        if not isinstance(index, slice):
            a = self.from_start(index, size)
            self.looked(f"{owner}[{a.rename_names(self.spelt)}]", owner, a, size, axis)
            return Axis(self, a)
        return self._sliced(index, size, owner, axis, ragged)

    def _taken(self, index: Any, size: Affine, value: Value, axis: int) -> Axis | One:
        """Return what a stored index or slice does along one axis; it may also be `src[e]`, `i // 2`, `i % 2`, or decided by
        data.
        """
        if (data := data_of(index)) is not None:
            number = self.once(data, "place").of_nature(data.nature)
            return One(index, lambda _: TRUE, self.storable(number, size))
        if (sought := sought_of(index)) is not None:
            sought.check(size)
            return One(index, partial(self.equals, index))
        return self._axis(index, size, value, axis, ragged=True)

    def _sliced(self, index: slice, size: Affine, owner: str, axis: int, ragged: bool) -> Axis:
        """Return what a slice does along one axis."""
        step = 1 if index.step is None else index.step
        if isinstance(step, Index):
            step = self.number(self.affine(step, "a step"))
            index = slice(index.start, index.stop, step)
        if not isinstance(step, int) or step == 0:
            raise self.error("a slice's step is a constant", "write `x[::2]`")
        if size.is_constant and all(
            x is None or isinstance(x, int) for x in (index.start, index.stop)
        ):
            taken = range(size.constant)[index]
            return Axis(self, Affine.of(taken.start), step, Affine.of(len(taken)))
        low = self._slice_end(
            index.start, size, Affine.of(0) if step > 0 else size - 1, owner, axis
        )
        high = self._slice_end(index.stop, size, size if step > 0 else Affine.of(-1), owner, axis)
        length = (high - low) if step > 0 else (low - high)
        if self.varies(length):
            if not ragged or abs(step) > 1:
                raise self.error(
                    "this slice's length depends on an index",
                    "sum with a condition, `sum(x[j] for j in range(i))`, or multiply by a mask",
                )
            for end in (
                (low, high) if step > 0 else (low + 1, high + 1)
            ):  # below 0 it is counted from the end
                self.looked(f"the slice of {owner}", owner, end, size + 1, axis)
            return Axis(self, low, step, length)
        if abs(step) > 1:
            length = self._divided(length, abs(step))
        for end in (low, high - 1) if step > 0 else (low, high + 1):
            given = index.start if end is low else index.stop
            if given is not None:
                text = f"the slice of {owner}"
                empty = conj(*self.conditions, compare("<", 0, length))
                self.conditions.append(empty)
                self.looked(text, owner, end, size, axis, clips=True)
                self.conditions.pop()
        if not length.is_constant and index != slice(None):
            self.looked(f"the slice of {owner}", owner, length, size + 1, axis, clips=True)
        return Axis(self, low, step, length)

    def _slice_end(self, end: Any, size: Affine, default: Affine, owner: str, axis: int) -> Affine:
        """Return an end of a slice as an offset from the start of the axis."""
        if end is None:
            return default
        if sought_of(end) is not None:
            raise self.error(*STORED_IN_SLICE)
        a = self.affine(end, "a slice")
        # `x[:-n]` counts from the end, since sizes and numbers of arguments are not negative: but from the start where n is 0.
        backwards = a.constant <= 0 and all(c < 0 for _, c in a.terms)
        if not backwards or a == Affine.of(0):
            return a
        if a.constant == 0 and a.names <= self.integers:
            a = Affine.of(self.number(a))
        elif a.constant == 0:
            self.looked(f"the slice of {owner}", owner, (a + 1) * -1, a * -1, axis)
        return size + a if a != Affine.of(0) else a

    def _divided(self, length: Affine, k: int) -> Affine:
        """Return `⌈length / k⌉`, the length of a slice with step `k`, as an affine size.

        Where `k` does not divide the coefficients, `number` raises `SizesMet` and the function is traced again at concrete
        sizes.
        """
        rounded = length + (k - 1)
        if any(c % k for _, c in rounded.terms):
            return Affine.of(-(-self.number(length) // k))
        return Affine(tuple((name, c // k) for name, c in rounded.terms), rounded.constant // k)

    # Changes

    def changes(self, at: Changed, indices: tuple[Any, ...]) -> Changed:
        """Return `x.at[places]`."""
        return Changed(at.array, indices)

    def stored(self, array: Value, indices: tuple[Any, ...], value: Any, op: str) -> Value:
        """Return the array with `value` stored at these indices, or combined with what is there by `op`."""
        array, indices = self.once(array, "old"), tuple(map(self.as_integer, indices))
        own = self.dims(array)
        value = value if isinstance(value, Selected) else self.whole(value)
        if any(is_index_array(place) or sought_of(place) is not None for place in indices):
            spelt = self._as_data(self._expand_ellipsis(indices, len(own)))
            spelt = tuple(map(self.from_either_end, spelt, own))
            indices = spelt if ... in indices else spelt[: len(indices)]
        indices = self._as_index_arrays(indices)
        if any(map(is_written, indices)):
            return self.whole(self.stored_by_lists(self.stored, array, indices, value, op))
        if many := [p for p in indices if isinstance(p, _Many)]:
            if any(map(_is_stepped, indices)):
                return self._stored_in_part(self.stored, array, indices, value, op)
            rows, *others = indices
            lists = all(isinstance(p, Data | Indices) and len(p.dims) == 1 for p in others)
            if others and lists and isinstance(rows, Axis) and abs(rows.step) == 1:
                return self._one_in_each_row(array, rows, others, value, op)
            if op and not all(isinstance(p, Axis) for p in many):  # which names no place twice
                return self._scatter_add(array, indices, value, op)
            return self.stored_once(array, indices, value, op)
        axes = [
            self._taken(p, n, array, k)
            for k, (p, n) in enumerate(
                zip(self._expand_ellipsis(indices, len(own)), own, strict=True)
            )
        ]
        value = self.once(
            self.filling(value, [a.length for a in axes if a.length is not None]), "new"
        )

        def entry(*entry_index: Affine) -> Value:
            p, new = self.new_entry(axes, entry_index, value)
            old = self.read(array, *entry_index)
            if op == "-":
                new = self.negative(new)
            elif op not in ("", "+"):
                new = self.computed(op, old, new)
            tests = [a.is_here(k) for a, k in zip(axes, entry_index, strict=True) if a.is_here]
            if tests:
                rest = self.whole(0) if op in ("+", "-") else old
                new = self._choose_scalar(reduce(self.product, tests), new, rest)
            if op in ("+", "-"):
                return self.plus_of(old, self.conditioned(p, new))
            misses = (a.misses(k, self.name) for a, k in zip(axes, entry_index, strict=True))
            q = disj(*misses) if _have_gaps(axes) else self._negation(p)
            kept = old if old.term is Const(0) else self.conditioned(q, old)
            return self.plus_of(self.conditioned(p, new), kept) if p != TRUE else new

        made = self.build(own, entry, array, value)
        within = None if op else nature_of([array, value]).within
        return made.of_nature(replace(made.nature, within=within))

    def filling(self, value: Any, lengths: Sequence[Affine]) -> Value:
        """Check and return the value to store along slices of these lengths. The first length may depend on the iteration."""
        if not any(map(self.varies, lengths)):
            array = self.whole(value)
            self._fits_into(array, lengths)
            return array
        length, *rest = lengths
        slice_ = isinstance(value, Selected) and value.length is not None
        array = value.array if slice_ else self.whole(value)
        if any(map(self.varies, rest)) or (len(self.dims(array)) > len(rest)) != slice_:
            raise self.error(
                "this slice's length depends on an index",
                "store numbers there, or a slice as long, `y[i:] += x[i:]`; or entry by entry: `for j in range(i): y[j] = …`",
            )
        if slice_ and not self.as_long(value.length, length):
            one, other = (n.rename_names(self.spelt) for n in (value.length, length))
            raise self.error(f"slices of {one} and of {other} entries do not go together")
        self._fits_into(array, [*self.dims(array)[:slice_], *rest])
        return array

    def as_long(self, length: Affine, other_length: Affine) -> bool:
        """Whether two slices have equal lengths in every iteration, recording the size equations that this needs."""
        inner = {i: Affine.of(0) for i, _ in self.binders}
        if not self.varies(length - other_length):
            self.same(length.substitute(inner), other_length.substitute(inner))
        return length == other_length

    # Changes where arrays say

    def stored_once(self, array: Value, indices: tuple[Any, ...], value: Any, op: str) -> Value:
        """Store along an index array, as NumPy's `y[k] = v` and `y[k] += v`: of equal indices in `k`, the last counts."""
        array, value = self.once(array, "old"), self.once(self.whole(value), "new")
        own = self.dims(array)
        indices = self._as_index_arrays(indices)
        if any(map(is_written, indices)):
            made = self.stored_by_lists(self.stored, array, indices, value, op, once=True)
            return self.whole(made)
        if any(map(_is_stepped, indices)):
            return self._stored_in_part(self.stored_once, array, indices, value, op)
        spelt = self._expand_ellipsis(indices, len(own))
        spelt = tuple(map(self.from_either_end, spelt, own))
        many = [(k, p) for k, p in enumerate(spelt) if isinstance(p, _Many)]
        if not _side_by_side(spelt) or any(isinstance(p, Value) or sought_of(p) for p in spelt):
            raise self.error(
                "an array of places beside other indices than slices and numbers",
                "store row by row: `for i in range(n): y[i, k] = v[i]`",
            )
        for k, p in many:
            self.in_range(p, own[k])
        turns, arrays = self.side_by_side_places([p for _, p in many])
        many = [(k, p) for (k, _), p in zip(many, arrays, strict=True)]
        axes = {
            k: self._axis(p, own[k], array, k)
            for k, p in enumerate(spelt)
            if not isinstance(p, _Many)
        }
        lead = sum(a.length is not None for k, a in axes.items() if k < many[0][0])
        lengths = [a.length for a in axes.values() if a.length is not None]
        out = (*lengths[:lead], *turns, *lengths[lead:])
        self._fits_into(value, out)
        theirs = self.dims(value)[-(len(out) - lead) :] if len(out) > lead else ()
        apart = [
            n for n in theirs[: len(theirs) - len(out) + lead + len(turns)] if n != Affine.of(1)
        ]
        if apart and op:
            value = self.once(self.computed(op, self.subscript(array, indices), value), "new")
            op = ""
        sizes = [own[k] for k, _ in many]

        def named(e: Sequence[Affine], at: Sequence[Affine]) -> Value:
            here = [self.index_indicator(p.entry(e), a) for (_, p), a in zip(many, at, strict=True)]
            return reduce(self.product, here)

        def times(*at: Affine) -> Value:
            return self.total(turns, lambda *e: named(e, at), value)

        count = self.once(self.build(sizes, times, value), "count")
        later = self._named_later(many, turns, sizes, value) if apart else None

        def entry(*entry_index: Affine) -> Value:
            holds = {k: axis.holds(entry_index[k]) for k, axis in axes.items()}
            p = conj(*(q for q, _ in holds.values()))
            inner = [i for k, (_, i) in holds.items() if axes[k].length is not None]
            at, old = [entry_index[k] for k, _ in many], self.read(array, *entry_index)

            def put(e: Sequence[Affine]) -> Value:
                return self._aligned(value, (*inner[:lead], *e, *inner[lead:]))

            def last(*e: Affine) -> Value:
                assert later is not None
                new = Value(self, Call(named_("dropped"), (self.read(later, *e).term, put(e).term)))
                here_ = named(e, at)
                if (q := self.predicate_of(here_)) is not None:
                    return self.conditioned(q, new)
                return self._choose_scalar(here_, new, self.whole(0))

            if later is not None:
                new = self.total(turns, last, value, later)
            else:
                new = put([Affine.of(0)] * len(turns))
                new = self.computed(op, old, new) if op else new
            none = Value(self, Call(named_("equal"), (self.read(count, *at).term, Const(0))))
            made = self._choose_scalar(none, old, new)
            if p == TRUE:
                return made
            return self.plus_of(self.conditioned(p, made), self.conditioned(self._negation(p), old))

        made = self.build(own, entry, array, value, count)
        within = None if op else nature_of([array, value]).within
        return made.of_nature(replace(made.nature, within=within))

    def _stored_in_part(
        self,
        store: Callable[[Value, tuple[Any, ...], Any, str], Value],
        array: Value,
        indices: tuple[Any, ...],
        value: Any,
        op: str,
    ) -> Value:
        """Return the array after `y[k, ::2] = v`: store in the part `y[:, ::2]`, then that in the array."""
        spelt = self._expand_ellipsis(indices, len(self.dims(array)))
        part = tuple([p if _is_stepped(p) else slice(None) for p in spelt])
        within = tuple([slice(None) if _is_stepped(p) else p for p in spelt])
        return self.stored(array, part, store(self.subscript(array, part), within, value, op), "")

    def _fits_into(self, value: Value, out: Sequence[Affine]) -> None:
        """Raise TensorError if a value cannot be broadcast to the selected entries."""
        dims = self.dims(value)
        if len(dims) > len(out):
            raise self.error(f"{kind(value)} does not fit into this place")
        for mine, theirs in zip(out[len(out) - len(dims) :], dims, strict=True):
            if mine != theirs and theirs != Affine.of(1):
                self.same(mine, theirs)

    def _named_later(
        self,
        index_arrays: Sequence[tuple[int, Any]],
        iterations: Sequence[Affine],
        sizes: Sequence[Affine],
        array: Value,
    ) -> Value | None:
        """Return how many later entries of index arrays select the same position as an entry; None if none can."""
        looked = [
            (p, n) for (_, p), n in zip(index_arrays, sizes, strict=True) if isinstance(p, Data)
        ]
        direct = [p for _, p in index_arrays if not isinstance(p, Data)]

        def entry(*e: Affine) -> Value:
            def same(*at: Affine) -> Value:
                after, places = at[: len(iterations)], at[len(iterations) :]
                agree = [self.truth_of(_before(e, after))]
                for (p, _), k in zip(looked, places, strict=True):
                    agree += [
                        self.index_indicator(p.entry(e), k),
                        self.index_indicator(p.entry(after), k),
                    ]
                for p in direct:
                    agree.append(self.whole(self._compare("==", p.entry(e), p.entry(after))))
                return reduce(self.product, agree)

            return self.total([*iterations, *(n for _, n in looked)], same, array)

        return self.once(self.build(iterations, entry, array), "later")

    def stored_by_lists(
        self,
        store: Callable[[Any, tuple[Any, ...], Any, str], Any],
        target: Any,
        indices: tuple[Any, ...],
        value: Any,
        op: str,
        once: bool = False,
        sizes: Sequence[Affine] = (),
    ) -> Any:
        """Return the array after `y[[0, 2]] = v`: one index after the other; if `once`, only the last of equal indices counts."""
        sizes = sizes or self.dims(target)
        spelt, value = (
            self._expand_ellipsis(indices, len(sizes)),
            self.once(self.whole(value), "new"),
        )
        many = [p for p in spelt if isinstance(p, _Many)]
        if not all(map(is_written, many)):
            raise self.error(
                "a list of indices beside other arrays of places, where something is stored",
                "loop over these: `for p in range(len(i)): A[i[p], j] += v[p]`",
            )
        turns = self.broadcast_dims([p.dims for p in many])
        behind = sum(isinstance(p, slice) for p in spelt) - _lead(indices, spelt)
        theirs = self.dims(value)
        lead = max(0, len(theirs) - behind - len(turns))
        block = theirs[lead : max(lead, len(theirs) - behind)]
        for mine, one in zip(turns[len(turns) - len(block) :], block, strict=True):
            if one != Affine.of(1):
                self.same(mine, one)
        stores: dict[Any, tuple[tuple[Any, ...], Value]] = {}
        for e in product(*(range(n.constant) for n in turns)):
            at = [Affine.of(j) for j in e]
            here = tuple(entry_aligned(p, at) if isinstance(p, _Many) else p for p in spelt)
            entry = [Index(self, a) for a in broadcast_indices(block, at)]
            row = self.subscript(value, (*[slice(None)] * lead, *entry)) if block else value
            if once and op and all(isinstance(p, int | slice) for p in here):
                ints = [(p, n) for p, n in zip(here, sizes, strict=True) if isinstance(p, int)]
                e = tuple(p if p >= 0 else self.number(n) + p for p, n in ints)
            stores[e] = here, row
        for here, row in stores.values():
            target = store(target, here, row, op)
        return target

    def new_entry(
        self, axes: Sequence[Axis | One], position: Sequence[Affine], value: Value
    ) -> tuple[Predicate, Value]:
        """Return whether an entry of an array is stored to, and what is stored there."""
        if _have_gaps(axes):
            return self._spread_out(axes, position, value)
        held = [axis.holds(k) for axis, k in zip(axes, position, strict=True)]
        inner = [i for axis, (_, i) in zip(axes, held, strict=True) if axis.length is not None]
        return conj(*(p for p, _ in held)), self._aligned(value, inner)

    def _spread_out(
        self, axes: Sequence[Axis | One], position: Sequence[Affine], value: Value
    ) -> tuple[Predicate, Value]:
        """Return whether a position is one of the stored ones of a slice with a step, and what is stored there."""
        lengths = [axis.length for axis in axes if axis.length is not None]
        within: list[Predicate] = []

        def term(*at: Affine) -> Value:
            rest = iter(at)
            taken = [
                a.holds(k)[0] if a.length is None else compare("=", k, a.place(next(rest)))
                for a, k in zip(axes, position, strict=True)
            ]
            p = conj(*taken)
            for (i, n), _ in zip(self.binders[::-1], at, strict=False):
                within[:] = [exists(i, n, within[0] if within else p)]
            return self.conditioned(p, self._aligned(value, at))

        new = self.total(lengths, term, value)
        return within[0], new

    def _as_data(self, indices: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the indices in brackets, with arguments that are arrays of integers as data."""
        return tuple(p.data if is_index_array(p) else p for p in indices)

    def _as_index_arrays(self, indices: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the indices in brackets, with arrays of integers as index arrays along an axis."""
        return tuple(
            p if isinstance(p, _Many) else self._as_index_array(self._as_indices(p))
            for p in indices
        )

    def _one_in_each_row(
        self,
        array: Value,
        rows: Axis,
        index_arrays: Sequence[Data | Indices],
        value: Value,
        op: str,
    ) -> Value:
        """Return the array after `A[np.arange(n), src] = v`: in row e, `v[e]` is stored at `src[e]`."""
        own, value = self.dims(array), self.once(value, "new")
        (n,) = rows.dims
        for k, place in enumerate((rows, *index_arrays)):
            self.same(n, place.dims[0])
            self.in_range(place, own[k])

        def entry(*entry_index: Affine) -> Value:
            holds, e = rows.holds(entry_index[0])
            at = zip(index_arrays, entry_index[1:], strict=False)
            named = reduce(self.product, (self.index_indicator(p.entry((e,)), a) for p, a in at))
            if (p := self.predicate_of(named)) is not None:
                holds, named = conj(holds, p), self.whole(1)
            old, none = self.read(array, *entry_index), self.whole(0)
            new = self._aligned(value, (e, *entry_index[len(index_arrays) + 1 :]))
            if op in ("+", "-"):
                new = self.negative(new) if op == "-" else new
                return self.plus_of(
                    old, self.conditioned(holds, self._choose_scalar(named, new, none))
                )
            new = self._choose_scalar(named, self.computed(op, old, new) if op else new, old)
            kept = self.conditioned(self._negation(holds), old)
            return self.plus_of(self.conditioned(holds, new), kept)

        return self.build(own, entry, array, value)

    def _scatter_add(self, array: Value, indices: tuple[Any, ...], value: Value, op: str) -> Value:
        """Return the array after `x.at[src].add(v)`: at k, `x[k] + Σ e. [src(e)=k]·v[e]`."""
        if op != "+" or not all(isinstance(place, _Many) for place in indices):
            raise self.error(
                "an array of places takes only assignments and additions",
                "write `y[p] = v`, `y.at[p].add(v)`, or `np.bincount(p, v, minlength=n)`",
            )
        own, value = self.dims(array), self.once(value, "new")
        count = len(indices)
        if count > len(own):
            raise self.error(f"{count} indices for an array of {len(own)} dimensions")
        for place, size in zip(indices, own, strict=False):
            self.in_range(place, size)
        dims, arrays = self.side_by_side_places(indices)

        def entry(*entry_index: Affine) -> Value:
            def term(*e: Affine) -> Value:
                pairs = zip(arrays, entry_index, strict=False)
                named = reduce(
                    self.product, (self.index_indicator(p.entry(e), a) for p, a in pairs)
                )
                return self._choose_scalar(
                    named, self._aligned(value, (*e, *entry_index[count:])), self.whole(0)
                )

            return self.plus_of(self.read(array, *entry_index), self.total(dims, term, value))

        return self.build(own, entry, array, value)


def _have_gaps(axes: Sequence[Axis | One]) -> bool:
    """Whether entries lie between those that are stored: `y[::2]`."""
    return any(abs(axis.step) > 1 for axis in axes)


def _is_stepped(index: Any) -> bool:
    """Whether an index is a slice that skips entries."""
    return isinstance(index, slice) and index.step not in (None, 1, -1)


def _before(first: Sequence[Affine], second: Sequence[Affine]) -> Predicate:
    """Return the predicate that indices come before others, in row-major order."""
    cases = [
        conj(*map(partial(compare, "="), first[:k], second[:k]), compare("<", first[k], second[k]))
        for k in range(len(first))
    ]
    return disj(*cases)


def _host_step(indices: tuple[Any, ...]) -> OnHost | None:
    """Return the step that takes a part of an array before a call, if the brackets have constants only; else None."""
    parts = [(p.start, p.stop, p.step) if isinstance(p, slice) else p for p in indices]
    inner = [x for p in parts for x in (p if isinstance(p, tuple) else (p,))]
    known = all(x is None or x is ... or isinstance(x, int) for x in inner)
    return OnHost("getitem", tuple(parts)) if known else None
