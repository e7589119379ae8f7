"""The result of tracing a function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...language.affine import Affine
from ...language.errors import Place
from ...language.predicates import Predicate
from ...language.terms import Binders, Lambda, Term
from ...language.types import Layout
from ..captured_data import Reference


@dataclass(frozen=True)
class Lookup:
    """A read of an array through an index array, `x[src[e] + offset]`, whose range only the data
    can show. It is `guarded` where a condition on data that looks at the index array decides whether the program reads there;
    negative entries may count `from_end`.
    """

    relation: str
    arguments: tuple[Affine, ...]
    offset: Affine
    size: Affine
    binders: Binders
    condition: Predicate
    place: Place | None
    guarded: bool = False
    from_end: bool = False


@dataclass(frozen=True)
class Access:
    """A read at `index` along an axis of `size` entries, made for every point of the binders
    where `condition` holds. `read` is what the program has there, or its text.
    """

    read: Term | Predicate | str
    owner: str
    axis: int
    index: Affine
    size: Affine
    binders: Binders
    condition: Predicate
    place: Place | None
    clips: bool = False  # the end of a slice, which NumPy cuts off where the array ends


@dataclass(frozen=True)
class Traced:
    """A traced function: the program, how its result is laid out, and where in the source its
    terms are. The last parameters are arrays from `outside`.

    `accesses` are reads of whole arrays' entries which need not occur in the program as
    such, and `spelt` is what the program writes for each index of its loops and each size without a name.
    """

    function: Lambda
    layout: Layout
    places: dict[Term, Place] = field(compare=False)
    lookups: tuple[Lookup, ...] = ()
    accesses: tuple[Access, ...] = ()
    spelt: dict[str, str] = field(default_factory=dict, compare=False)
    outside: tuple[tuple[str, Reference], ...] = ()

    def cut_off(self, sizes: Mapping[str, int]) -> str | None:
        """Return a size or integer that must be known as a number because an array ends before one of its slices does; None if
        there is none.
        """
        for read in self.accesses:
            names = read.index.names | read.size.names
            known = read.clips and names and names <= sizes.keys()
            if known and not 0 <= read.index.evaluate(sizes) < read.size.evaluate(sizes):
                return min(names)
        return None

    def called(self, name: str) -> frozenset[str]:
        """Return the indices and sizes that the program calls by this name."""
        return frozenset(index for index, spelt in self.spelt.items() if spelt == name)
