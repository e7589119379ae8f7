"""The stand-ins that a traced function computes with, in place of arrays, indices, conditions and data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np

from ..language.affine import Affine
from ..language.errors import Place, TensorError
from ..language.predicates import TRUE, Predicate
from ..language.terms import Binders, Term
from ..language.types import (
    Array,
    IndexArray,
    Layout,
    Product,
    Relation,
    TupleSet,
    Type,
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

    def several(self, values: Any) -> list[Any]: ...

    def attribute(self, value: Any, name: str) -> Any: ...

    def looked_up(self, relation: str, arguments: tuple[Affine, ...], offset: Affine) -> Index: ...


class Value:
    """A stand-in for a scalar, an array or a tuple, backed by a term."""

    __array_ufunc__ = None

    def __init__(self, tracer: Tracing, term: Term, layout: Layout = None) -> None:
        self.tracer = tracer
        self.unchecked = term
        self.layout = layout
        self.written: list[Any] | None = None  # the entries of a list that is written out
        self.nature = Nature()
        self.defined: Predicate | None = None  # where it has a value, if that is not everywhere
        tracer.note(term)

    @property
    def term(self) -> Term:
        """The term; TensorError where what it reads has been changed in place by another name, or has no value here."""
        self.tracer.check(self)
        return self.tracer.as_number(self.unchecked)

    @property
    def type(self) -> Type:
        return self.unchecked.type

    def of_nature(self, nature: Nature) -> Value:
        """This value, with what is known of it."""
        self.nature = nature
        return self

    @property
    def shape(self) -> tuple[Index, ...]:
        return tuple(Index(self.tracer, n) for n in dimensions(self.type))

    def __iter__(self) -> Iterator[Any]:
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
    """A stand-in for the entries of an array that a condition on data chooses, `x[x > 0]`: the array, with
    whatever it has elsewhere, and the condition, which is as long as its first axes.
    """

    def __init__(self, tracer: Tracing, array: Value, mask: Value, written: Term) -> None:
        self.tracer = tracer
        self.array = array
        self.mask = mask
        self.place = tracer.place
        self.written = written  # the condition as it is written: `x > 0` twice is one condition
        self.length: Affine | None = None  # of a slice, where it is another in each turn of a loop
        self.pairs: Pairs | None = None  # where the entries are indices, `np.triu_indices(n)`
        self.integers: Data | None = None  # the index array of which this is a slice
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
    """The affine expression that an integer is everywhere; None for anything else."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return Affine.of(int(value))
    cases = value.cases if isinstance(value, Index) else None
    return cases[0][1] if cases is not None and len(cases) == 1 else None


def several_cases(value: Any) -> TypeGuard[Index]:
    """Whether a value is an integer that is affine case by case."""
    return isinstance(value, Index) and value.cases is not None and len(value.cases) > 1


def sought_of(value: Any) -> NonAffineInteger | None:
    """What is known of an integer that is affine nowhere; None for anything else."""
    return value.sought if isinstance(value, Index) else None


def data_of(value: Any) -> Value | None:
    """The number of an integer that is computed from data; None for anything else."""
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


NO_OFFSET = Affine.of(0)


class Data:
    """A stand-in for a relation or an index array, or for a part of one: its own sizes, and the places
    in the whole of the indices that it takes; `offset` is added to every integer. `steps` lead from the whole to it before a
    call, where the indices are constants.
    """

    def __init__(
        self,
        tracer: Tracing,
        name: str,
        type_: Relation | IndexArray | TupleSet,
        dims: tuple[Affine, ...] | None = None,
        places: Callable[[Sequence[Affine]], tuple[Affine, ...]] = tuple,
        offset: Affine = NO_OFFSET,
        steps: tuple[OnHost, ...] | None = (),
    ) -> None:
        self.tracer = tracer
        self.name = name
        self.type = type_
        self.own = dims
        self.places = places
        self.offset = offset
        self.steps = steps
        self.lists = 0  # levels of Python's lists that it is

    @property
    def dims(self) -> tuple[Affine, ...]:
        if isinstance(self.type, TupleSet):
            raise self.tracer.error("a set of tuples has no shape", "test `(i, j) in R`")
        return self.type.dims if self.own is None else self.own

    def part(
        self,
        dims: Sequence[Affine],
        places: Callable[[Sequence[Affine]], Sequence[Affine]],
        step: OnHost | None = None,
    ) -> Data:
        """A part of these sizes: `places` gives the indices here of indices there, and `step` makes it before a call."""
        here = self.places
        steps = None if step is None or self.steps is None else (*self.steps, step)
        return Data(
            self.tracer,
            self.name,
            self.type,
            tuple(dims),
            lambda at: here(places(at)),
            self.offset,
            steps,
        )

    def moved(self, offset: Affine) -> Data:
        """An array of integers, each so much more: `src + 1`."""
        there, steps = self.offset + offset, None
        if offset.is_constant and self.steps is not None:
            steps = (*self.steps, OnHost("add", (offset.constant,)))
        return Data(self.tracer, self.name, self.type, self.own, self.places, there, steps)

    def replaced(self, name: str) -> Data:
        """The same part of another array of integers, as large as the whole of this one."""
        return Data(self.tracer, name, self.type, self.dims, self.places, steps=None)

    def entry(self, at: Sequence[Affine]) -> Index:
        """The entry of an array of integers at these indices."""
        return self.tracer.looked_up(self.name, self.places(at), self.offset)

    @property
    def shape(self) -> tuple[Index, ...]:
        return tuple(Index(self.tracer, n) for n in self.dims)

    @property
    def transposed(self) -> Data:
        """With its axes in reverse."""
        return self.part(self.dims[::-1], lambda at: tuple(at[::-1]), OnHost("transpose"))

    def __iter__(self) -> Iterator[Any]:
        raise self.tracer.error(
            f"`{self.name}` is as long as data decide", f"take its columns: `i, j = {self.name}.T`"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.tracer.attribute(self, name)


class UnreadableValue:
    """A stand-in for what cannot be read here, and why."""

    def __init__(self, message: str, help_: str) -> None:
        self.message = message
        self.help = help_

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TensorError(self.message, self.help)


def describe(type_: Type, words: Mapping[str, str]) -> str:
    """A type in words, its sizes as a user writes them."""
    match type_:
        case Array():
            written = {size: Affine.of(word) for size, word in words.items()}
            return f"an array of type {at_sizes(type_, written)}"
        case Product():
            return "a tuple"
    return "a scalar"


def kind(value: Any) -> str:
    """What a value is, in words."""
    match value:
        case Value():
            return describe(value.type, value.tracer.spelt)
        case Condition():
            return "a condition"
        case Index():
            return "an index" if value.sought is None else value.sought.words
        case Data():
            return f"`{value.name}`"
        case Selected():
            return "entries that data choose"
        case UnreadableValue():
            return "what has no value here: " + value.message
    return f"{value!r}"


def data_help(data: Data) -> str:
    """What a relation or an index array is used for."""
    match data.type:
        case Relation():
            return f"it is a relation: use it as a condition, `{data.name}[i, j]`; or pass floats"
        case IndexArray():
            return (
                f"it holds integers, so it is an index array: `x[{data.name}[e]]`; or pass floats"
            )
    return f"it is a relation: `(i, j) in {data.name}`"
