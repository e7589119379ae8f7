"""Tuples as nested pairs, and arrays of tuples as tuples of arrays.

The language has pairs: a tuple `(a, b, c)` is `(a, (b, c))`. Pair elimination gives every output in
struct-of-arrays form, where pairs stand outside arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar

from .types import Array, Layout, Product, Type, leaves

T = TypeVar("T")


def to_pairs(parts: Sequence[T], pair: Callable[[T, T], T]) -> T:
    """The parts of a tuple, two or more, as nested pairs, the last innermost."""
    return reduce(lambda rest, part: pair(part, rest), reversed(parts))


def halves(value: tuple[Any, ...]) -> tuple[Any, Any]:
    """A tuple as a pair: its first part, and the rest."""
    return value[0], value[1:] if len(value) > 2 else value[1]


def from_pairs(value: Any, layout: Layout) -> Any:
    """Nested pairs as the tuple that the program returned."""
    if layout is None:
        return value
    parts = []
    for inner in layout[:-1]:
        parts.append(from_pairs(value[0], inner))
        value = value[1]
    return (*parts, from_pairs(value, layout[-1]))


def soa(type_: Type) -> Type:
    """The struct-of-arrays form of a type, which pair elimination gives every output."""
    match type_:
        case Product(first, second):
            return Product(soa(first), soa(second))
        case Array(size, element):
            inner = soa(element)
            if isinstance(inner, Product):
                return Product(soa(Array(size, inner.first)), soa(Array(size, inner.second)))
            return Array(size, inner)
    return type_


def struct_of_arrays(value: Any, type_: Type) -> Any:
    """A value of a type in the struct-of-arrays form of that type."""
    match type_:
        case Product(first, second):
            return struct_of_arrays(value[0], first), struct_of_arrays(value[1], second)
        case Array(_, element) if len(leaves(soa(element))) > 1:
            return _gathered(soa(element), [struct_of_arrays(entry, element) for entry in value])
    return value


def _gathered(type_: Type, entries: list[Any]) -> Any:
    if not isinstance(type_, Product):
        return entries
    parts = enumerate((type_.first, type_.second))
    return tuple(_gathered(part, [entry[k] for entry in entries]) for k, part in parts)
