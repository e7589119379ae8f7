"""Types `T ::= ℝ | T×T | [n]T` (Fig. 3), and what a program receives besides reals: relations,
index arrays and integers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar, cast

from .affine import Affine


@dataclass(frozen=True)
class Real:
    def __str__(self) -> str:
        return "ℝ"


@dataclass(frozen=True)
class Product:
    first: Type
    second: Type

    def __str__(self) -> str:
        first = f"({self.first})" if isinstance(self.first, Product) else str(self.first)
        return f"{first}×{self.second}"


@dataclass(frozen=True)
class Array:
    size: Affine
    element: Type

    def __str__(self) -> str:
        element = f"({self.element})" if isinstance(self.element, Product) else str(self.element)
        return f"[{self.size}]{element}"


Type = Real | Product | Array
REAL = Real()


@dataclass(frozen=True)
class Relation:
    """A boolean array of the given dimensions; it is data for predicates, never a value."""

    dims: tuple[Affine, ...]

    def __str__(self) -> str:
        return "".join(f"[{n}]" for n in self.dims) + "𝔹"


@dataclass(frozen=True)
class IndexArray:
    """An integer array, which the program reads as the functional relation `R(a,…,j) ⇔
    array[a,…] = j`. All its entries are in `range(below)`, where that is known.
    """

    dims: tuple[Affine, ...]
    below: int | None = None

    def __str__(self) -> str:
        return "".join(f"[{n}]" for n in self.dims) + "ℤ"


@dataclass(frozen=True)
class TupleSet:
    """A Python set of index tuples, all of one length: the relation `(i, …) in R`."""

    arity: int

    def __str__(self) -> str:
        return f"{{ℤ^{self.arity}}}"


@dataclass(frozen=True)
class Integer:
    """An integer parameter: a size, or an offset in an index; as a number it is a constant. `value` is the
    number itself where the program is made for that alone.
    """

    value: int | None = None

    def __str__(self) -> str:
        return "ℤ"


@dataclass(frozen=True)
class Static:
    """A parameter that is no tensor, or has parts that are none; programs differ where `key` does."""

    key: Hashable

    def __str__(self) -> str:
        return "constant"


# How a value is laid out for its user: None for what is no tuple, a tuple of layouts for a tuple, in or out of arrays.
Layout = tuple["Layout", ...] | None

AnyType = TypeVar("AnyType", bound="ParameterType")
ParameterType = Type | Relation | IndexArray | TupleSet | Integer | Static


class Parameter(NamedTuple):
    """A parameter of a function at given types."""

    name: str
    type: ParameterType
    layout: Layout


def size_names(type_: ParameterType) -> frozenset[str]:
    """Return the names in the sizes of a type."""
    match type_:
        case Array(size, element):
            return size.names | size_names(element)
        case Product(first, second):
            return size_names(first) | size_names(second)
        case Relation(dims) | IndexArray(dims):
            return frozenset[str]().union(*(n.names for n in dims))
    return frozenset()


def at_sizes(type_: AnyType, values: Mapping[str, Affine]) -> AnyType:
    """Replace names in the sizes of a type."""
    made: ParameterType = type_
    match type_:
        case Array(size, element):
            made = Array(size.substitute(values), at_sizes(element, values))
        case Product(first, second):
            made = Product(at_sizes(first, values), at_sizes(second, values))
        case Relation(dims) | IndexArray(dims):
            made = replace(type_, dims=tuple(n.substitute(values) for n in dims))
    return cast("AnyType", made)


def array(dims: tuple[Affine, ...], element: Type = REAL) -> Type:
    """Return the type `[n0]…[nk]element`."""
    for size in reversed(dims):
        element = Array(size, element)
    return element


def dimensions(type_: Type) -> tuple[Affine, ...]:
    """Return the sizes of an array type, outermost first; none for a scalar."""
    dims: list[Affine] = []
    while isinstance(type_, Array):
        dims.append(type_.size)
        type_ = type_.element
    return tuple(dims)


def size_cost(type_: Type, sizes: Mapping[str, int]) -> int:
    """Return how many reals a value of a type holds: `$(ℝ)=1, $(T0×T1)=$T0+$T1, $([n]T)=n·$T` (6.53)."""
    match type_:
        case Array(size, element):
            return max(0, size.evaluate(sizes)) * size_cost(element, sizes)
        case Product(first, second):
            return size_cost(first, sizes) + size_cost(second, sizes)
    return 1


def leaves(type_: Type) -> list[tuple[tuple[int, ...], Type]]:
    """Return the pair-free components of a type in struct-of-arrays form, each with its path of projections."""
    if isinstance(type_, Product):
        return [
            ((k, *path), leaf)
            for k, part in enumerate((type_.first, type_.second))
            for path, leaf in leaves(part)
        ]
    return [((), type_)]
