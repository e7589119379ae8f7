"""What a kernel does, step by step: each step makes one array from arrays made before.

Steps are static: they know extents and affine indices, not data. Index variables of a step are its
own; `out` are the axes of its result, in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..language.affine import Affine
from ..language.function import Function
from ..language.predicates import TRUE, Predicate
from ..language.terms import Binders, Number


@dataclass(frozen=True)
class Lookup:
    """`name := relation[places]`, an entry of an index array as an index."""

    name: str
    relation: str
    places: tuple[Affine, ...]


@dataclass(frozen=True)
class Read:
    """`array[indices]`, zero where an index lies outside; an index may use lookups."""

    array: str
    indices: tuple[Affine, ...]


@dataclass(frozen=True)
class Load:
    """A component of a parameter: `π…π x`."""

    parameter: str
    path: tuple[int, ...]


@dataclass(frozen=True)
class Fill:
    """A constant array."""

    out: Binders
    value: Number


@dataclass(frozen=True)
class Product:
    """`result[out] = Σ sums. [mask]·read·read`, each term under lookups.

    With `targets`, the result is indexed by those instead, entry by entry, and terms with equal
    targets add up: `target` extents and indices over the step's variables and lookups.
    """

    out: Binders
    sums: Binders
    reads: tuple[Read, ...]
    mask: Predicate = TRUE
    lookups: tuple[Lookup, ...] = ()
    targets: tuple[tuple[Affine, int], ...] = ()


@dataclass(frozen=True)
class Masked:
    """`[mask]·read`, an addend."""

    read: Read
    mask: Predicate = TRUE
    lookups: tuple[Lookup, ...] = ()


@dataclass(frozen=True)
class Total:
    """`result[out] = Σ addends`."""

    out: Binders
    addends: tuple[Masked, ...]


@dataclass(frozen=True)
class Apply:
    """`result[out] = [mask]·f(argument, …)`, each argument a total."""

    out: Binders
    function: Function
    arguments: tuple[tuple[Masked, ...], ...]
    mask: Predicate = TRUE
    lookups: tuple[Lookup, ...] = ()


@dataclass(frozen=True)
class Test:
    """`result[…] = array[…] ≠ 0`, a relation for the masks of later steps."""

    array: str


Action = Load | Fill | Product | Total | Apply | Test


@dataclass(frozen=True)
class Step:
    """`name = action`, for a statement of the SSA."""

    name: str
    action: Action
    statement: str
