"""Array-level functions that the language does not write out: `solve`, `cholesky`, `eigh`.

Each is defined by an equation, `A·solve(A, B) = B`, and not by a program. It is applied to arrays whose last dimensions are its
own; those before them are a batch, the same of all operands that have any: an operand that has none is that of the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .affine import Affine

if TYPE_CHECKING:
    from .predicates import Predicate

Dims = tuple[Affine, ...]
Term = Any  # terms are built on definitions
Rule = Callable[..., Term | None]


@dataclass(frozen=True)
class Work:
    """`times` operations of a kind at each point of the ranges at which a condition holds."""

    kind: str
    ranges: tuple[tuple[str, Affine], ...]
    condition: Predicate
    times: int = 1


@dataclass(frozen=True, eq=False)
class Definition:
    """A function of arrays; those of one name are one object.

    Attributes:
        name: as programs print it.
        ranks: how many dimensions of each operand are its own, behind those of a batch.
        dims: the dimensions of the result, of the operands' own.
        cost: the operations of one batch entry, by the lemma of an algorithm that computes it.
        compute: the result for one batch entry, of NumPy's arrays of float64.
        tangent: the differential of the result as a term (`derivative/matrices`), of the operands, their differentials, None
            where these are zero, and the result.
        cotangent: the cotangent of the operand of a number, of the operands, the result and its cotangent; None where it is zero.
        body: the result as a term of the operands, where the language can say it: what kernels compute and derivatives derive.
        counterpart_work: the operations that a library takes for one batch entry, of the operands' dimensions as numbers, where
            they are fewer than the lemma's.
        reduction: the function of two numbers by which it reduces its operand to one, if it does that; kernels read the operand
            entry by entry then.

    What has neither derivatives nor a body is a constant to derivatives.
    """

    name: str
    ranks: tuple[int, ...]
    dims: Callable[..., Dims] = field(repr=False)
    cost: Callable[..., tuple[Work, ...]] = field(repr=False)
    compute: Callable[..., Any] = field(repr=False)
    tangent: Rule | None = field(default=None, repr=False)
    cotangent: Rule | None = field(default=None, repr=False)
    body: Rule | None = field(default=None, repr=False)
    counterpart_work: Callable[..., float] | None = field(default=None, repr=False)
    reduction: str = ""

    def batch_dimensions(self, operands: Sequence[Dims]) -> Dims:
        """The dimensions of a batch. Raises TypeError for operands that it does not take."""
        if len(operands) != len(self.ranks):
            raise TypeError(f"{self.name} takes {len(self.ranks)} arrays")
        pairs = zip(operands, self.ranks, strict=True)
        found = {dims[: len(dims) - rank] for dims, rank in pairs if len(dims) != rank}
        if len(found) > 1 or any(map(int.__lt__, map(len, operands), self.ranks)):
            raise TypeError(
                f"{self.name} takes arrays of {self.ranks} dimensions, and batches of these"
            )
        return found.pop() if found else ()

    def own_dimensions(self, operands: Sequence[Dims]) -> tuple[Dims, ...]:
        """The dimensions of the operands behind the batch's."""
        return tuple([d[len(d) - rank :] for d, rank in zip(operands, self.ranks, strict=True)])

    def result_dimensions(self, operands: Sequence[Dims]) -> Dims:
        """The dimensions of the result, the batch's first."""
        return self.batch_dimensions(operands) + self.dims(*self.own_dimensions(operands))

    def __reduce__(self) -> tuple[Callable[[str], Definition], tuple[str]]:
        return find_definition, (self.name,)


_DEFINITIONS: dict[str, Definition] = {}


def enter_definition(d: Definition) -> Definition:
    """Enter a definition; ValueError where there is one of its name."""
    if d.name in _DEFINITIONS:
        raise ValueError(f"`{d.name}` is defined already")
    _DEFINITIONS[d.name] = d
    return d


def find_definition(name: str) -> Definition:
    """The definition of that name; KeyError where there is none."""
    return _DEFINITIONS[name]


def is_defined(name: str) -> bool:
    """Whether there is a definition of that name."""
    return name in _DEFINITIONS
