"""The stand-ins that a traced function computes with, in place of arrays, indices, conditions and data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeGuard

import numpy as np

from ..language.affine import Affine
from ..language.errors import Place, TensorError
from ..language.predicates import TRUE, Predicate
from ..language.terms import Binders, Term, Var
from ..language.types import (
    REAL,
    Array,
    IndexArray,
    Layout,
    Product,
    Relation,
    TupleSet,
    Type,
    array,
    at_sizes,
    dimensions,
)
from .captured_data import OnHost

#: Arrays that share entries with a value, each with the number of its last change.
Shares = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Nature:
    """What Python and NumPy know of a value, and the language does not: how many levels of Python's lists
    it is, whether its numbers are `bool` or `int`, and what arrays it shares entries with; of whole numbers
    that data decide, `np.argmax(x)`, between which sizes they lie: at least the first, below the second.
    """

    lists: int = 0
    numbers: str = ""
    shares: Shares = frozenset()
    within: tuple[Affine, Affine] | None = None


class Tracing(Protocol):
    """What stand-ins ask of the tracer that made them."""

    spelt: dict[str, str]
    place: Place | None

    def check(self, value: Value) -> None: ...

    def as_number(self, e: Term) -> Term: ...

    def error(self, message: str, help_: str = "") -> TensorError: ...

    def note(self, term: Term) -> None: ...

    def as_numbers(self, data: Data) -> Value: ...

    def several(self, values: Any) -> list[Any]: ...

    def attribute(self, value: Any, name: str) -> Any: ...

    def looked_up(self, relation: str, arguments: tuple[Affine, ...], offset: Affine) -> Index: ...


NO_OFFSET = Affine.of(0)


@dataclass(frozen=True)
class Data:
    """What an array of integers or conditions is that is a parameter, or a part of one: its own sizes, and the places
    in the whole of the indices that it takes; `offset` is added to every integer. `steps` lead from the whole to it before a
    call, where the indices are constants.
    """

    tracer: Tracing
    name: str
    type: Relation | IndexArray | TupleSet
    own: tuple[Affine, ...] | None = None
    places: Callable[[Sequence[Affine]], tuple[Affine, ...]] = tuple
    offset: Affine = NO_OFFSET
    steps: tuple[OnHost, ...] | None = ()

    @property
    def dims(self) -> tuple[Affine, ...]:
        """The sizes of the part's own axes."""
        if isinstance(self.type, TupleSet):
            raise self.tracer.error("a set of tuples has no shape", "test `(i, j) in R`")
        return self.type.dims if self.own is None else self.own

    def part(
        self,
        dims: Sequence[Affine],
        places: Callable[[Sequence[Affine]], Sequence[Affine]],
        step: OnHost | None = None,
    ) -> Data:
        """Return a part with these sizes.

        Args:
            places: maps indices of the part to indices of this array.
            step: computes the part before a call, if that is possible.
        """
        here = self.places
        steps = None if step is None or self.steps is None else (*self.steps, step)
        return replace(self, own=tuple(dims), places=lambda at: here(places(at)), steps=steps)

    def moved(self, offset: Affine) -> Data:
        """Return the array with an offset added to each integer: `src + 1`."""
        known = offset.is_constant and self.steps is not None
        steps = (*(self.steps or ()), OnHost("add", (offset.constant,))) if known else None
        return replace(self, offset=self.offset + offset, steps=steps)

    def replaced(self, name: str) -> Data:
        """Return the same part of another array of integers of the same size."""
        return replace(self, name=name, own=self.dims, offset=NO_OFFSET, steps=None)

    def entry(self, at: Sequence[Affine]) -> Index:
        """Return the entry of an array of integers at these indices."""
        return self.tracer.looked_up(self.name, self.places(at), self.offset)

    @property
    def transposed(self) -> Data:
        """The array with its axes reversed."""
        return self.part(self.dims[::-1], lambda at: tuple(at[::-1]), OnHost("transpose"))

    @property
    def array(self) -> Value:
        """The array as a value that a program computes with."""
        numbers = "int" if isinstance(self.type, IndexArray) else "bool"
        return Value(self.tracer, None, data=self).of_nature(Nature(numbers=numbers))


class Value:
    """A stand-in for a scalar, an array or a tuple, backed by a term; or for an array of integers or conditions that is `data`,
    of which a term makes numbers where they are computed with.
    """

    __array_ufunc__ = None

    def __init__(
        self, tracer: Tracing, term: Term | None, layout: Layout = None, data: Data | None = None
    ) -> None:
        self.tracer = tracer
        self.backing = term
        self.layout = layout
        self.data = data
        self.written: list[Any] | None = None  # the entries of a list that is written out
        self.nature = Nature()
        self.defined: Predicate | None = None  # where it has a value, if that is not everywhere
        if term is not None:
            tracer.note(term)

    @property
    def term(self) -> Term:
        """The term; TensorError where what it reads has been changed in place by another name, or has no value here."""
        self.tracer.check(self)
        return self.tracer.as_number(self.unchecked)

    @property
    def unchecked(self) -> Term:
        """The term, without checking whether it may be read here."""
        if self.data is not None:
            return self.tracer.as_numbers(self.data).unchecked
        assert self.backing is not None
        return self.backing

    @property
    def variable(self) -> str:
        """The name of the variable that the value is; '' for data and computed values."""
        return self.backing.name if isinstance(self.backing, Var) else ""

    @property
    def type(self) -> Type:
        """The type of the value's term."""
        if self.data is None:
            return self.unchecked.type
        return REAL if isinstance(self.data.type, TupleSet) else array(self.data.dims)

    def of_nature(self, nature: Nature) -> Value:
        """Set what Python and NumPy know of this value, and return it."""
        self.nature = nature
        return self

    @property
    def shape(self) -> tuple[Index, ...]:
        """The sizes as stand-ins."""
        return tuple(Index(self.tracer, n) for n in dimensions(self.type))

    def __iter__(self) -> Iterator[Any]:
        if self.data is not None:
            raise self.tracer.error(
                f"`{self.data.name}` is as long as data decide",
                f"take its columns: `i, j = {self.data.name}.T`",
            )
        return iter(self.tracer.several(self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.tracer.attribute(self, name)

    def __bool__(self) -> bool:
        raise self.tracer.error("a condition on data", "use `np.maximum`, or pass a boolean array")

    def __float__(self) -> float:
        raise self.tracer.error("this needs a number now", "call a function of `math` or NumPy")


def is_tuple(value: Any) -> TypeGuard[Value]:
    """Whether a value is a tuple, or another of what its user knows parts of."""
    if not isinstance(value, Value):
        return False
    return isinstance(value.type, Product) or (value.layout is not None and len(value.layout) == 1)


@dataclass(frozen=True)
class Pairs:
    """Which index of a table entries are, and both indices as constants."""

    axis: int
    constants: Callable[[], Any]


class Selected:
    """A stand-in for the entries of an array that a condition on data chooses, `x[x > 0]`.

    It has the full array, with arbitrary entries where the condition does not hold, and the condition, over the first axes.
    """

    def __init__(self, tracer: Tracing, array: Value, mask: Value, written: Term) -> None:
        self.tracer = tracer
        self.array = array
        self.mask = mask
        self.place = tracer.place
        self.written = written  # the condition as it is written: `x > 0` twice is one condition
        self.length: Affine | None = None  # of a slice, where it is another in each turn of a loop
        self.pairs: Pairs | None = None  # where the entries are indices, `np.triu_indices(n)`
        self.integers: Value | None = None  # the index array of which this is a slice
        self.ends: tuple[Term | None, ...] | None = None  # of a slice that data end
        self.grown: tuple[Selected, Value, Value] | None = (
            None  # of a list what it was before, and the last entries, each chosen or not
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.tracer.attribute(self, name)


#: Where an integer is an affine expression, and which.
Case = tuple[Predicate, Affine]


@dataclass(frozen=True)
class NonAffineInteger:
    """What is known of an integer that is affine nowhere: an entry of an index array, a quotient or a remainder of an index.

    `compare` says by a predicate how it compares with an affine expression, None where only numbers can. `meet` says where it is
    one, over indices of its own of which exactly one tuple fits. `check` notes that it must be below a size. It lies between
    `least` and `most`. Where negative ones may count from the end, `from_end` makes it an index of an
    axis of a size. `entry` says of an entry of an index array which it is, and what is added to it. `data` is the number of
    one that is computed from data, which no predicate describes.
    """

    words: str
    number: Callable[[], Term]
    check: Callable[..., None]
    least: Callable[[], Affine | None]
    most: Callable[[], Affine | None]
    refusal: tuple[str, str] = ("", "")
    compare: Callable[[str, Affine], Predicate | None] = lambda _op, _k: None
    meet: Callable[[Affine], tuple[Binders, Predicate]] = lambda _k: ((), TRUE)
    from_end: Callable[[Affine], Any] | None = None
    within: tuple[Affine, Affine] | None = None
    entry: tuple[str, tuple[Affine, ...], Affine] | None = None
    division: tuple[str, Affine, Affine] | None = None
    data: Value | None = None


class Index:
    """A stand-in for an integer that indices, sizes and index arrays decide.

    Where it is affine, `cases` says what it is where, and exactly one of them holds; a largest or smallest has its `ends`, and
    `extreme` is "maximum" or "minimum". Anything else is `sought`.
    """

    def __init__(
        self,
        tracer: Tracing,
        affine: Affine | None = None,
        cases: tuple[Case, ...] | None = None,
        extreme: str = "",
        ends: Sequence[Affine] = (),
        sought: NonAffineInteger | None = None,
    ) -> None:
        self.tracer = tracer
        self.cases = cases if affine is None else ((TRUE, affine),)
        self.extreme = extreme
        self.ends = tuple(ends)
        self.sought = sought

    def __bool__(self) -> bool:
        raise self.tracer.error("an integer is not a condition", "compare it: `i == 0`")

    def __index__(self) -> int:
        raise self.tracer.error(
            "a size is not known while tracing", "use it in `range` or an index"
        )

    __int__ = __index__
    __float__ = __index__


def affine_of(value: Any) -> Affine | None:
    """Return the affine expression that an integer always equals; None for other values."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return Affine.of(int(value))
    cases = value.cases if isinstance(value, Index) else None
    return cases[0][1] if cases is not None and len(cases) == 1 else None


def several_cases(value: Any) -> TypeGuard[Index]:
    """Whether a value is an integer that is affine case by case."""
    return isinstance(value, Index) and value.cases is not None and len(value.cases) > 1


def sought_of(value: Any) -> NonAffineInteger | None:
    """Return what is known of an integer that is not affine; None for other values."""
    return value.sought if isinstance(value, Index) else None


def data_of(value: Any) -> Value | None:
    """Return the number of an integer that is computed from data; None for other values."""
    sought = sought_of(value)
    return None if sought is None else sought.data


class Condition:
    """A stand-in for a truth value over indices and relations."""

    def __init__(self, tracer: Tracing, predicate: Predicate) -> None:
        self.tracer = tracer
        self.predicate = predicate

    def __bool__(self) -> bool:
        raise self.tracer.error(
            "this condition is not known while tracing", "write `a if p else b`, `p and q`, `not p`"
        )


class UnreadableValue:
    """A stand-in for what cannot be read here, and why."""

    def __init__(self, message: str, help_: str) -> None:
        self.message = message
        self.help = help_

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnreadableError(self)


class UnreadableError(TensorError):
    """The error for a read of what cannot be read: `of` is its stand-in."""

    def __init__(self, of: UnreadableValue, place: Place | None = None) -> None:
        super().__init__(of.message, of.help, place)
        self.of = of


def tuples_of(value: Any) -> Data | None:
    """Return the set of tuples that a value is; None for other values."""
    data = value.data if isinstance(value, Value) else None
    return data if data is not None and isinstance(data.type, TupleSet) else None


def is_index_array(value: Any) -> bool:
    """Whether a value is an array of integers that is a parameter, or a part of one."""
    data = value.data if isinstance(value, Value) else None
    return data is not None and isinstance(data.type, IndexArray)


def lists_of(value: Any) -> int:
    """Return how many levels of Python's lists a value is; 0 for an array."""
    if isinstance(value, Value):
        return value.nature.lists
    return 1 if isinstance(value, list) else 0


def numbers_of(value: Any) -> str:
    """Return the NumPy type of a value's numbers: `bool`, `int`, or '' for floats."""
    if isinstance(value, Condition | bool):
        return "bool"
    if isinstance(value, int | Index):
        return "int"
    return value.nature.numbers if isinstance(value, Value) else ""


def as_truth(value: Any) -> Any:
    """Mark a condition's numbers as NumPy's `bool`, and return it."""
    return value.of_nature(Nature(numbers="bool")) if isinstance(value, Value) else value


def describe(type_: Type, words: Mapping[str, str]) -> str:
    """Return a type in words, with its sizes as the user writes them."""
    match type_:
        case Array():
            written = {size: Affine.of(word) for size, word in words.items()}
            return f"an array of type {at_sizes(type_, written)}"
        case Product():
            return "a tuple"
    return "a scalar"


def kind(value: Any) -> str:
    """Return in words what a value is, for errors."""
    match value:
        case Value(data=Data(name=name)):
            return f"`{name}`"
        case Value():
            return describe(value.type, value.tracer.spelt)
        case Condition():
            return "a condition"
        case Index():
            return "an index" if value.sought is None else value.sought.words
        case Selected():
            return "entries that data choose"
        case UnreadableValue():
            raise UnreadableError(value)
    return f"{value!r}"


def set_help(name: str) -> str:
    """Return advice on how to use a set of tuples."""
    return f"it is a relation: `(i, j) in {name}`"
