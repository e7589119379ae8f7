"""Arrays: the sizes of an array, and a function from indices to its entries.

What NumPy does with whole arrays is a comprehension here. Entries of an operand are put where they
are read, as long as each is read once; an operand that costs something and is read at more than one
place gets a name first, so that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from ...language.affine import Affine
from ...language.errors import Place, TensorError
from ...language.predicates import Predicate, compare, conj
from ...language.provenance import Origins, carry_origins
from ...language.terms import (
    Add,
    Apply,
    At,
    Binder,
    Call,
    Const,
    Gen,
    Guard,
    Iterate,
    Let,
    Mul,
    Sum,
    Term,
    Var,
    lets,
    strip_entries,
    strip_guards,
    substitute,
    sums,
)
from ...language.types import Array, Product, dimensions
from ...polyhedral import sets
from ..tracers import Data, Index, Nature, Value, kind, lists_of, numbers_of
from .packing import Packing, guarded
from .trace_result import Access

LETTERS = "ijklpqrstuvw"
Entry = Callable[..., Value]


class SizesMet(Exception):  # noqa: N818 - no error
    """Only the arguments' sizes can tell how to go on: whether two sizes are equal or one of them
    is 1; or, of one size alone, what number it is.
    """

    def __init__(
        self, left: Affine, right: Affine | None, exact: bool, position: Place | None
    ) -> None:
        super().__init__(left, right)
        self.left = left
        self.right = right
        self.exact = exact
        self.place = position
        self.refused: TensorError | None = None  # what there is to say where no arguments are


class Wholes(Packing):
    """Arrays as a whole: their sizes, their entries, and arrays made entry by entry."""

    # What classes that extend this one define
    entry_of_data: Callable[[Data, Affine], Any]

    def whole(self, value: Any) -> Value:
        """Return a value of any kind as an array or a scalar; a condition as 1 where it holds, else 0."""
        if isinstance(value, Value):
            return value if value.data is None else self.as_numbers(value.data)
        return Value(self, *self.pack(value))

    def truth_of(self, p: Predicate) -> Value:
        """Return 1 where a predicate holds, else 0."""
        return Value(self, guarded(p, Const(1)))

    def predicate_of(self, value: Value) -> Predicate | None:
        """Return the predicate for which a value is 1; None if it is not known to be of that form."""
        p, e = strip_guards(value.term)
        root, places = strip_entries(e)
        if isinstance(root, Var) and root.name in self.truths:
            read = self.read(Value(self, self.truths[root.name]), *places)
            q, e = strip_guards(read.term)
            p = conj(p, q)
        if e is Const(1):
            return p
        return None

    def dims(self, value: Value) -> tuple[Affine, ...]:
        """Return the sizes of an array's axes, outermost first; none for a scalar.

        Raises:
            TensorError: it is an array of tuples.
        """
        if isinstance(_element_type(value), Product):
            raise self.error(f"{kind(value)} is not an array of numbers", "take its parts first")
        return dimensions(value.type)

    def is_array(self, value: Any) -> bool:
        """Whether NumPy would compute with it entry by entry."""
        return isinstance(value, Value) and isinstance(value.type, Array)

    # Sizes

    def meet(self, left: Affine, right: Affine) -> Affine:
        """Return the common size of two axes under broadcasting: one of them may be 1."""
        if left == right or right == Affine.of(1):
            return left
        if left == Affine.of(1):
            return right
        if self._varies(left) or self._varies(right) or (left.is_constant and right.is_constant):
            return self.same(left, right)
        raise SizesMet(left, right, False, self.place)

    def same(self, left: Affine, right: Affine) -> Affine:
        """Return the common size of two axes that must be equal."""
        if left == right:
            return left
        if self._varies(left - right):  # no sizes of arguments make them equal
            raise self.error(
                f"sizes {left} and {right} do not go together in every iteration",
                "make the array as long as its longest, and leave the rest unused",
            )
        of_indices = Affine(tuple([(x, k) for x, k in left.terms if self._varies(Affine.of(x))]), 0)
        m, n = left - of_indices, right - of_indices
        if m.is_constant and n.is_constant:
            raise self.error(f"sizes {left} and {right} do not go together")
        raise SizesMet(m, n, True, self.place)

    def _varies(self, size: Affine) -> bool:
        """Whether a size depends on the index of a loop."""
        return not size.names.isdisjoint(i for i, _ in self.binders)

    def number(self, size: Affine) -> int:
        """Return a size as an integer. If it is not known yet, `SizesMet` starts tracing again at a call's sizes."""
        if size.is_constant:
            return size.constant
        if self._varies(size):
            raise self.error("this size depends on an index")
        raise SizesMet(size, None, True, self.place)

    # Entries

    def from_start(self, index: Any, size: Affine) -> Affine:
        """Return an index as an offset from the start: `x[-1]` and `x[-k]` count from the end.

        `x[-i]` does if i cannot be 0 here; an argument k that is 0 gives the first entry.
        """
        a = self.affine(index, "an index")
        if counts_from_the_end(a) and a.names & {i for i, _ in self.binders}:
            within = conj(*self.conditions, compare("≤", 0, a))
            if a.constant < 0 or sets.is_impossible(tuple(self.binders), within):
                return size + a
        if a.names and a.names <= self.integers and all(c < 0 for _, c in a.terms):
            index = self.number(a)
            a = Affine.of(index)
        return size + a.constant if isinstance(index, int) and a.constant < 0 else a

    def entry_within(self, array: Value, a: Affine) -> Any:
        """Return `array[a]` as a part that shares the array's entries, not a copy."""
        if array.data is not None:
            return self.entry_of_data(array.data, a)
        lists, numbers = max(0, array.nature.lists - 1), array.nature.numbers
        nature = Nature(lists, numbers, self.memory.of(array), array.nature.within)
        return Value(self, At(array.term, a), array.layout).of_nature(nature)

    def read(self, value: Value, *indices: Affine) -> Value:
        """Return the entry at these indices, which are in range."""
        term = value.term
        for a in indices:
            if isinstance(term, Gen):
                with carry_origins(cast("Origins", self.places_of)):
                    term = substitute(term.body, indices={term.index: a})
            elif isinstance(term, Guard):
                inner = term.body
                read = self.read(Value(self, inner), a).term
                term = guarded(term.condition, read)
            else:
                term = At(term, a)
        return Value(self, term)

    def once(self, value: Value, name: str = "t") -> Value:
        """Return a value that may be read several times: one that costs operations gets a name."""
        if value.data is not None or is_free(value.term):
            return value
        return cast("Value", self._bind(name, value))

    def named(self, value: Value, name: str) -> Value:
        """Return a value as a variable."""
        return cast("Value", self._bind(name, value))

    def plainly(self, value: Value, name: str = "t") -> Value:
        """Return a value whose entries can be read one by one where they are needed, each once."""
        term = value.term
        while isinstance(term, Gen):
            term = term.body
        if isinstance(term.type, Array) and not is_free(term):
            return cast("Value", self._bind(name, value))
        return value

    def build(self, dims: Sequence[Affine], entry: Entry, *of: Value) -> Value:
        """Return the array `⊞ i:dims[0], …. entry(i, …)`. The operands `of` keep their index names."""
        binders = self._fresh_binders(dims, of)
        return Value(self, self._build_nested(binders, entry, 0, Gen))

    def total(self, dims: Sequence[Affine], entry: Entry, *of: Value) -> Value:
        """Return the sum `Σ i:dims[0], …. entry(i, …)`. The operands `of` keep their index names."""
        binders = self._fresh_binders(dims, of)
        if not binders:
            return entry()
        with self._open_scopes(binders) as (scope, at):
            value = entry(*at)
            term = lets(scope, value.term)
        return Value(self, sums(tuple(binders), term))

    def _build_nested(
        self, binders: list[Binder], entry: Entry, k: int, maker: Callable[..., Term]
    ) -> Term:
        """Return the term of nested binders of one kind around an entry."""
        if not binders:
            return entry().term
        with self._open_scopes(binders) as (scope, at):
            term = lets(scope, entry(*at).term)
        for index, size in reversed(binders):
            term = maker(index, size, term)
        return term

    def _open_scopes(self, binders: Sequence[Binder]) -> _Nested:
        """Return the context in which several binders are open."""
        return _Nested(self, binders)

    def _fresh_binders(self, dims: Sequence[Affine], operands: Sequence[Value]) -> list[Binder]:
        """Return a binder with an unused name for each size."""
        taken = {*self.reserved, *(i for i, _ in self.binders)}
        for value in operands:
            taken |= inner_indices(value.term)
        names = (x for x in self._index_names() if x not in taken)
        return [Binder(next(names), size) for size in dims]

    def _index_names(self) -> Iterator[str]:
        """Yield names for indices: letters, then letters with numbers."""
        yield from LETTERS
        k = 1
        while True:
            yield from (f"{x}_{k}" for x in LETTERS)
            k += 1

    # Entry by entry

    def spread(self, values: Sequence[Any], entry: Callable[..., Value]) -> Value:
        """Return `entry` of values that are broadcast against each other."""
        wholes = [self.whole(value) for value in values]
        dims = self.broadcast_dims([self.dims(value) for value in wholes])
        if not dims:
            return entry(*wholes)
        operands = [self._operand(value, dims) for value in wholes]

        def at(*indices: Affine) -> Value:
            return entry(*(self._aligned(value, indices) for value in operands))

        return self.build(dims, at, *operands)

    def broadcast_dims(self, shapes: Sequence[tuple[Affine, ...]]) -> tuple[Affine, ...]:
        """Return the common sizes of several arrays under NumPy's broadcasting."""
        rank = max((len(dims) for dims in shapes), default=0)
        result = [Affine.of(1)] * rank
        for dims in shapes:
            for k, size in enumerate(dims, rank - len(dims)):
                result[k] = self.meet(result[k], size)
        return tuple(result)

    def _operand(self, value: Value, dims: tuple[Affine, ...]) -> Value:
        """Return an operand of a broadcast: its entries are read several times if its sizes differ from the result's."""
        return self.plainly(value) if self.dims(value) == dims else self.once(value)

    def _aligned(self, value: Value, indices: Sequence[Affine]) -> Value:
        """Return an operand's entry for indices of the broadcast result."""
        return self.read(value, *broadcast_indices(self.dims(value), indices))

    def product(self, left: Value, right: Value) -> Value:
        """Return `[p]·a · [q]·b` as `[p∧q]·a·b`, so that a sum of it has only the terms that count."""
        (p, a), (q, b) = strip_guards(left.term), strip_guards(right.term)
        both = conj(p, q)
        if a is Const(1):
            return Value(self, guarded(both, b))
        if b is Const(1):
            return Value(self, guarded(both, a))
        return Value(self, guarded(both, self.times(a, b)))

    def looked(
        self,
        text: str,
        owner: str,
        index: Affine,
        size: Affine,
        axis: int = 0,
        clips: bool = False,
    ) -> None:
        """Record a read that must be in range, even if its entry is replaced in the program."""
        self.accesses.append(
            Access(
                text,
                owner,
                axis,
                index,
                size,
                tuple(self.binders),
                conj(*self.conditions),
                self.place,
                clips,
            )
        )

    def plus_of(self, left: Value, right: Value) -> Value:
        """Return `left + right` of scalars, without adding a zero."""
        if left.term is Const(0):
            return right
        return left if right.term is Const(0) else Value(self, Add(left.term, right.term))

    def ranging(self, value: Value, low: Affine, below: Affine) -> Value:
        """Mark a value as integers from `low` up to below `below`."""
        return value.of_nature(replace(value.nature, numbers="int", within=(low, below)))

    def index(self, a: Affine) -> Index:
        """Return an affine expression as a stand-in that programs compute with."""
        return Index(self, a)

    def conditioned(self, p: Predicate, value: Value) -> Value:
        """Return `[p]·value`."""
        return Value(self, guarded(p, value.term))

    def under(self, p: Predicate, make: Callable[[], Value]) -> Value:
        """Return `[p]·make()`, where names that `make` introduces are bound under p."""
        with self.scope(condition=p) as scope:
            made = make()
        return Value(self, guarded(p, lets(scope.bindings, made.term)))

    def condition_array(self, dims: Sequence[Affine], p: Callable[..., Predicate]) -> Value:
        """Return the array `⊞ i:dims[0], …. [p(i, …)]`."""
        return self.build(dims, lambda *at: self.truth_of(p(*at)))


class _Nested:
    """The scope of several binders at once."""

    def __init__(self, tracer: Wholes, binders: Sequence[Binder]) -> None:
        self.tracer = tracer
        self.binders = list(binders)

    def __enter__(self) -> tuple[list[tuple[str, Term]], list[Affine]]:
        self.tracer.binders += self.binders
        self.scope = self.tracer.scope()
        made = self.scope.__enter__()
        return made.bindings, [Affine.of(i) for i, _ in self.binders]

    def __exit__(self, *error: Any) -> None:
        self.scope.__exit__(*error)
        del self.tracer.binders[len(self.tracer.binders) - len(self.binders) :]


def integers_written(value: Any) -> list[Any] | None:
    """Return the entries of a literal list of integers, or of tuples with integers; None for other values."""
    written = value.written if isinstance(value, Value) and lists_of(value) else None
    return written if written and all(map(_holds_integer, written)) else None


def _holds_integer(value: Any) -> bool:
    """Whether a value is an integer that sizes and indices decide, or a tuple that has one."""
    if isinstance(value, tuple):
        return any(map(_holds_integer, value))
    return type(value) is int or isinstance(value, Index)


#: Between which sizes whole numbers lie: at least the first, below the second.
Range = tuple[Affine, Affine]


def range_of(value: Any) -> Range | None:
    """Return between which sizes a value's integers lie; None if unknown."""
    if isinstance(value, Index):
        if value.sought is not None:
            return value.sought.within
        return joined_ranges([(a, a + 1) for _, a in value.cases or ()])
    if isinstance(value, int) and not isinstance(value, bool):
        return Affine.of(value), Affine.of(value + 1)
    return value.nature.within if isinstance(value, Value) else None


def joined_ranges(ranges: Sequence[Range | None]) -> Range | None:
    """Return a range that contains all of these, if one of their ends is outermost for all sizes; else None."""
    made = ranges[0] if ranges else None
    for range_ in ranges[1:]:
        if made is None or range_ is None:
            return None
        low = next(
            (a for a, b in (made[:1] + range_[:1], range_[:1] + made[:1]) if at_most(a, b)), None
        )
        below = next(
            (b for a, b in (made[1:] + range_[1:], range_[1:] + made[1:]) if at_most(a, b)), None
        )
        made = None if low is None or below is None else (low, below)
    return made


def beyond(range_: Range | None, index: str, size: Affine) -> Range | None:
    """Return a range that holds for all values of an index, from one that depends on it; None if unknown."""
    if range_ is None or all(index not in a.names for a in range_):
        return range_
    low, below = range_
    first, last = {index: Affine.of(0)}, {index: size - 1}
    return (
        low.substitute(first if low.coefficient(index) > 0 else last),
        below.substitute(last if below.coefficient(index) > 0 else first),
    )


def at_most(a: Affine, b: Affine) -> bool:
    """Whether a ≤ b for all sizes and indices, none of which is negative."""
    rest = b - a
    return rest.constant >= 0 and all(c > 0 for _, c in rest.terms)


def nature_of(values: Sequence[Any]) -> Nature:
    """Return what NumPy knows of numbers that come from all of these values."""
    types = set(map(numbers_of, values))
    numbers = types.pop() if len(types) == 1 else ""
    within = joined_ranges([range_of(value) for value in values]) if numbers == "int" else None
    return Nature(numbers=numbers, within=within)


def counts_from_the_end(a: Affine) -> bool:
    """Whether an index is 0 or negative as it is written: `-i`, `-2*i - 1`."""
    return a.constant <= 0 and all(c < 0 for _, c in a.terms)


@lru_cache(maxsize=65536)
def is_free(e: Term) -> bool:
    """Whether a term costs nothing: reads, guards, constants, and arrays and pairs of these."""
    if isinstance(e, Add | Mul | Call | Sum | Let | Iterate | Apply):
        return False
    return all(is_free(child) for child in e.children)


@lru_cache(maxsize=65536)
def inner_indices(e: Term) -> frozenset[str]:
    """Return the indices that a term binds below its outermost arrays."""
    while isinstance(e, Gen):
        e = e.body
    return _bound_indices(e) | e.names


@lru_cache(maxsize=65536)
def _bound_indices(e: Term) -> frozenset[str]:
    """Return all indices that a term binds."""
    own = frozenset((e.index,)) if isinstance(e, Gen | Sum | Iterate) else frozenset[str]()
    return own.union(*(_bound_indices(child) for child in e.children))


def _element_type(value: Value) -> Any:
    """Return the type of an array's elements."""
    type_ = value.type
    while isinstance(type_, Array):
        type_ = type_.element
    return type_


def entry_aligned(array: Any, indices: Sequence[Affine]) -> Any:
    """Return the entry of an array of integers for indices of the broadcast result."""
    return array.entry(broadcast_indices(array.dims, indices))


def broadcast_indices(dims: Sequence[Affine], indices: Sequence[Affine]) -> list[Affine]:
    """Return the indices in an operand of these sizes for indices of the broadcast result."""
    here = indices[len(indices) - len(dims) :]
    return [Affine.of(0) if n == Affine.of(1) else a for n, a in zip(dims, here, strict=True)]
