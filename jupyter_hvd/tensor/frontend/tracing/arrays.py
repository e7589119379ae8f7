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
        self, left: Affine, right: Affine | None, exact: bool, place: Place | None
    ) -> None:
        super().__init__(left, right)
        self.left = left
        self.right = right
        self.exact = exact
        self.place = place
        self.refused: TensorError | None = None  # what there is to say where no arguments are


class Wholes(Packing):
    """Arrays as a whole: their sizes, their entries, and arrays made entry by entry."""

    # What classes that extend this one define
    entry_of_data: Callable[[Data, Affine], Any]

    def whole(self, value: Any) -> Value:
        """A value of any kind as an array or a scalar; conditions count 1 where they hold."""
        if isinstance(value, Value):
            return value if value.data is None else self.as_numbers(value.data)
        return Value(self, *self.pack(value))

    def truth_of(self, p: Predicate) -> Value:
        """1 where a predicate holds."""
        return Value(self, guarded(p, Const(1)))

    def predicate_of(self, value: Value) -> Predicate | None:
        """The predicate that a value is 1 for, where it says so."""
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
        """The sizes of an array's axes, none of a scalar; TensorError for an array of tuples."""
        if isinstance(_innermost(value), Product):
            raise self.error(f"{kind(value)} is not an array of numbers", "take its parts first")
        return dimensions(value.type)

    def is_array(self, value: Any) -> bool:
        """Whether NumPy would compute with it entry by entry."""
        return isinstance(value, Value) and isinstance(value.type, Array)

    # Sizes

    def meet(self, left: Affine, right: Affine) -> Affine:
        """The size of two axes side by side, of which one may be 1."""
        if left == right or right == Affine.of(1):
            return left
        if left == Affine.of(1):
            return right
        if self._varies(left) or self._varies(right) or (left.is_constant and right.is_constant):
            return self.same(left, right)
        raise SizesMet(left, right, False, self.place)

    def same(self, left: Affine, right: Affine) -> Affine:
        """The size of two axes that must be equal."""
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
        """A size as a number, which only the arguments tell."""
        if size.is_constant:
            return size.constant
        if self._varies(size):
            raise self.error("this size depends on an index")
        raise SizesMet(size, None, True, self.place)

    # Entries

    def from_start(self, place: Any, size: Affine) -> Affine:
        """An index as Python takes it: `x[-1]`, and `x[-k]` unless the argument k is 0, are counted from the end; `x[-i]` where
        i is not 0 here.
        """
        a = self.affine(place, "an index")
        if counts_from_the_end(a) and a.names & {i for i, _ in self.binders}:
            within = conj(*self.conditions, compare("≤", 0, a))
            if a.constant < 0 or sets.is_impossible(tuple(self.binders), within):
                return size + a
        if a.names and a.names <= self.integers and all(c < 0 for _, c in a.terms):
            place = self.number(a)
            a = Affine.of(place)
        return size + a.constant if isinstance(place, int) and a.constant < 0 else a

    def entry_within(self, array: Value, a: Affine) -> Any:
        """`array[a]`, an entry of the array itself and not a copy of one."""
        if array.data is not None:
            return self.entry_of_data(array.data, a)
        lists, numbers = max(0, array.nature.lists - 1), array.nature.numbers
        nature = Nature(lists, numbers, self.memory.of(array), array.nature.within)
        return Value(self, At(array.term, a), array.layout).of_nature(nature)

    def read(self, value: Value, *places: Affine) -> Value:
        """An entry: what is at these indices, which are in range."""
        term = value.term
        for a in places:
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
        """A value that may be read at many places: one that costs something gets a name."""
        if value.data is not None or is_free(value.term):
            return value
        return cast("Value", self._bind(name, value))

    def named(self, value: Value, name: str) -> Value:
        """A value that is a variable."""
        return cast("Value", self._bind(name, value))

    def plainly(self, value: Value, name: str = "t") -> Value:
        """A value whose entries can be read where they are wanted, each once."""
        term = value.term
        while isinstance(term, Gen):
            term = term.body
        if isinstance(term.type, Array) and not is_free(term):
            return cast("Value", self._bind(name, value))
        return value

    def build(self, dims: Sequence[Affine], entry: Entry, *of: Value) -> Value:
        """`⊞ i:dims[0], …. entry(i, …)`; `of` are the operands, whose indices' names are not
        taken.
        """
        binders = self._fresh(dims, of)
        return Value(self, self._within(binders, entry, 0, Gen))

    def total(self, dims: Sequence[Affine], entry: Entry, *of: Value) -> Value:
        """`Σ i:dims[0], …. entry(i, …)`."""
        binders = self._fresh(dims, of)
        if not binders:
            return entry()
        with self._inside(binders) as (scope, at):
            value = entry(*at)
            term = lets(scope, value.term)
        return Value(self, sums(tuple(binders), term))

    def _within(
        self, binders: list[Binder], entry: Entry, k: int, maker: Callable[..., Term]
    ) -> Term:
        if not binders:
            return entry().term
        with self._inside(binders) as (scope, at):
            term = lets(scope, entry(*at).term)
        for index, size in reversed(binders):
            term = maker(index, size, term)
        return term

    def _inside(self, binders: Sequence[Binder]) -> _Nested:
        return _Nested(self, binders)

    def _fresh(self, dims: Sequence[Affine], of: Sequence[Value]) -> list[Binder]:
        taken = {*self.reserved, *(i for i, _ in self.binders)}
        for value in of:
            taken |= inner_indices(value.term)
        names = (x for x in self._letters() if x not in taken)
        return [Binder(next(names), size) for size in dims]

    def _letters(self) -> Iterator[str]:
        yield from LETTERS
        k = 1
        while True:
            yield from (f"{x}_{k}" for x in LETTERS)
            k += 1

    # Entry by entry

    def spread(self, values: Sequence[Any], entry: Callable[..., Value]) -> Value:
        """`entry` of values that are broadcast against each other."""
        wholes = [self.whole(value) for value in values]
        dims = self.broadcast_dims([self.dims(value) for value in wholes])
        if not dims:
            return entry(*wholes)
        operands = [self._operand(value, dims) for value in wholes]

        def at(*places: Affine) -> Value:
            return entry(*(self._aligned(value, places) for value in operands))

        return self.build(dims, at, *operands)

    def broadcast_dims(self, each: Sequence[tuple[Affine, ...]]) -> tuple[Affine, ...]:
        """The sizes of all these side by side, aligned at the last axis as NumPy does."""
        rank = max((len(dims) for dims in each), default=0)
        result = [Affine.of(1)] * rank
        for dims in each:
            for k, size in enumerate(dims, rank - len(dims)):
                result[k] = self.meet(result[k], size)
        return tuple(result)

    def _operand(self, value: Value, dims: tuple[Affine, ...]) -> Value:
        return self.plainly(value) if self.dims(value) == dims else self.once(value)

    def _aligned(self, value: Value, places: Sequence[Affine]) -> Value:
        """The entry of an operand that is broadcast to these places."""
        return self.read(value, *broadcast_places(self.dims(value), places))

    def product(self, left: Value, right: Value) -> Value:
        """`[p]·a · [q]·b` is `[p∧q]·a·b`, so that a sum of it has only the terms that count."""
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
        """A read that must be in range, though its entry may be put in place of it."""
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
        """`left + right` of scalars, without a zero."""
        if left.term is Const(0):
            return right
        return left if right.term is Const(0) else Value(self, Add(left.term, right.term))

    def ranging(self, value: Value, low: Affine, below: Affine) -> Value:
        """Integers, of which it is known where they lie."""
        return value.of_nature(replace(value.nature, numbers="int", within=(low, below)))

    def index(self, a: Affine) -> Index:
        """An index expression as what a program computes with."""
        return Index(self, a)

    def conditioned(self, p: Predicate, value: Value) -> Value:
        """`[p]·value`."""
        return Value(self, guarded(p, value.term))

    def under(self, p: Predicate, make: Callable[[], Value]) -> Value:
        """`[p]·make()`, with what it gives names to."""
        with self.scope(condition=p) as scope:
            made = make()
        return Value(self, guarded(p, lets(scope.bindings, made.term)))

    def condition_array(self, dims: Sequence[Affine], p: Callable[..., Predicate]) -> Value:
        """`⊞ i:dims[0], …. [p(i, …)]`."""
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
    """The entries of a list that is written out, of integers or of tuples with integers: `[0, 2]`, `[(i - 1, j), (i, j - 1)]`."""
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
    """Between which sizes the whole numbers lie that a value is, where that is known."""
    if isinstance(value, Index):
        if value.sought is not None:
            return value.sought.within
        return joined_ranges([(a, a + 1) for _, a in value.cases or ()])
    if isinstance(value, int) and not isinstance(value, bool):
        return Affine.of(value), Affine.of(value + 1)
    return value.nature.within if isinstance(value, Value) else None


def joined_ranges(ranges: Sequence[Range | None]) -> Range | None:
    """A range that holds all of these, if one of their ends is the outermost whatever the sizes are."""
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
    """A range that depends on an index, for all values of it."""
    if range_ is None or all(index not in a.names for a in range_):
        return range_
    low, below = range_
    first, last = {index: Affine.of(0)}, {index: size - 1}
    return (
        low.substitute(first if low.coefficient(index) > 0 else last),
        below.substitute(last if below.coefficient(index) > 0 else first),
    )


def at_most(a: Affine, b: Affine) -> bool:
    """Whether a ≤ b whatever the sizes and indices are, none of which is negative."""
    rest = b - a
    return rest.constant >= 0 and all(c > 0 for _, c in rest.terms)


def nature_of(values: Sequence[Any]) -> Nature:
    """What is known of whole numbers or conditions that come from all of these."""
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
    """The indices that a term binds, but for those of the array that it is."""
    while isinstance(e, Gen):
        e = e.body
    return _bound(e) | e.names


@lru_cache(maxsize=65536)
def _bound(e: Term) -> frozenset[str]:
    own = frozenset((e.index,)) if isinstance(e, Gen | Sum | Iterate) else frozenset[str]()
    return own.union(*(_bound(child) for child in e.children))


def _innermost(value: Value) -> Any:
    type_ = value.type
    while isinstance(type_, Array):
        type_ = type_.element
    return type_


def entry_aligned(array: Any, places: Sequence[Affine]) -> Any:
    """The entry of an array of integers that is broadcast to these places."""
    return array.entry(broadcast_places(array.dims, places))


def broadcast_places(dims: Sequence[Affine], places: Sequence[Affine]) -> list[Affine]:
    """The place in an operand of these sizes, of one that NumPy broadcasts."""
    here = places[len(places) - len(dims) :]
    return [Affine.of(0) if n == Affine.of(1) else a for n, a in zip(dims, here, strict=True)]
