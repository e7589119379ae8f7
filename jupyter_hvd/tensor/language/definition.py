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
    """`times` operations of a kind at each point of a box where a condition holds."""

    kind: str
    ranges: tuple[tuple[str, Affine], ...]
    condition: Predicate
    times: int = 1


@dataclass(frozen=True, eq=False)
class Definition:
    """A function of arrays. There is one object for each name.

    Attributes:
        name: as programs print it.
        ranks: the number of dimensions of each operand, without those of the batch.
        dims: computes the result's dimensions from the operands', both without those of the batch.
        cost: the operations of one batch entry, as a known algorithm takes them.
        compute: computes the result of one batch entry from NumPy arrays of float64.
        tangent: the differential of the result as a term (`derivative/matrices`), from the operands, their differentials (None
            where these are zero) and the result.
        cotangent: the cotangent of one operand, given by its position, from the operands, the result and its cotangent; None
            where it is zero.
        body: the result as a term over the operands, where the language can express it. Kernels compute this term, and
            derivatives are derived from it.
        counterpart_work: the operations that a library takes for one batch entry, from the operands' dimensions as numbers;
            only where they are fewer than `cost`.
        reduction: the binary function with which it reduces its operand to one number, if it does; kernels then read the
            operand entry by entry.

    A definition without derivatives and body counts as a constant when differentiated.
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
        """Return the dimensions of the batch. Raises TypeError for operands that the function does not accept."""
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
        """Return the dimensions of each operand without those of the batch."""
        return tuple([d[len(d) - rank :] for d, rank in zip(operands, self.ranks, strict=True)])

    def result_dimensions(self, operands: Sequence[Dims]) -> Dims:
        """Return the dimensions of the result, the batch's first."""
        return self.batch_dimensions(operands) + self.dims(*self.own_dimensions(operands))

    def __reduce__(self) -> tuple[Callable[[str], Definition], tuple[str]]:
        return find_definition, (self.name,)


_DEFINITIONS: dict[str, Definition] = {}


def register_definition(d: Definition) -> Definition:
    """Register a definition under its name, and return it. Raises ValueError where the name is taken."""
    if d.name in _DEFINITIONS:
        raise ValueError(f"`{d.name}` is defined already")
    _DEFINITIONS[d.name] = d
    return d


def find_definition(name: str) -> Definition:
    """Return the definition of a name. Raises KeyError where there is none."""
    return _DEFINITIONS[name]


def is_defined(name: str) -> bool:
    """Whether there is a definition of that name."""
    return name in _DEFINITIONS
