"""Arrays that a loop makes longer or shorter by the same amount in each iteration, `V = V[1:] + V[:-1]`.

The loop carries such an array as long as its longest, with zeros beyond its entries. While an iteration is traced, its index is
like a size: the array is `⊞ i:(n - t). V[i]`, and what is made of it has such sizes. Then `at_constant_sizes` makes each array
and sum as long as its longest, under the condition that says where it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...language.affine import Affine
from ...language.errors import TensorError
from ...language.predicates import compare
from ...language.provenance import came_from
from ...language.terms import Apply, Gen, Guard, Iterate, Let, Sum, Term, Var, rebuild
from ...language.types import Type, dimensions

#: By how much each axis of each part of what a loop carries grows in an iteration.
Steps = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Lengths:
    """The dimensions of an array in each iteration of a loop: `first` when it begins, and so many `steps` more after each of its
    `size` iterations, which `index` counts.
    """

    first: tuple[Affine, ...]
    steps: tuple[int, ...]
    index: str
    size: Affine

    def at(self, iteration: Affine) -> tuple[Affine, ...]:
        """Return the sizes when an iteration begins; at `size`, those after the loop."""
        return tuple(n + iteration * c for n, c in zip(self.first, self.steps, strict=True))

    @property
    def now(self) -> tuple[Affine, ...]:
        """The sizes when the present iteration begins."""
        return self.at(Affine.of(self.index))

    @property
    def next(self) -> tuple[Affine, ...]:
        """The sizes after the present iteration."""
        return self.at(Affine.of(self.index) + 1)

    @property
    def after(self) -> tuple[Affine, ...]:
        """The sizes after the loop."""
        return self.at(self.size)

    @property
    def grows(self) -> bool:
        """Whether no axis becomes shorter."""
        return all(c >= 0 for c in self.steps)

    @property
    def longest(self) -> tuple[Affine, ...]:
        """The largest sizes in any iteration."""
        ends = zip(self.first, self.after, self.steps, strict=True)
        return tuple(last if c > 0 else first for first, last, c in ends)


def steps_between(before: tuple[Affine, ...], after: tuple[Affine, ...]) -> tuple[int, ...] | None:
    """Return by how much each axis is longer after an iteration; None if that is not constant."""
    if len(before) != len(after):
        return None
    differences = [b - a for a, b in zip(before, after, strict=True)]
    if not all(d.is_constant for d in differences):
        return None
    return tuple(d.constant for d in differences)


def at_constant_sizes(e: Term, index: str, size: Affine) -> Term:
    """Return a term without sizes that depend on an outer loop's index: arrays and sums get their largest size.

    Raises TensorError if the length of an inner loop that carries values depends on the index.
    """
    first, last = {index: Affine.of(0)}, {index: size - 1}

    def longest(n: Affine) -> Affine:
        return n.substitute(last if n.coefficient(index) > 0 else first)

    def go(e: Term, types: Mapping[str, Type]) -> Term:
        match e:
            case Var(name):
                return Var(name, types[name]) if name in types else e
            case Gen(i, n, body) | Sum(i, n, body):
                body = go(body, types)
                if index in n.names:
                    n, body = longest(n), Guard(compare("<", Affine.of(i), n), body)
                return came_from(type(e)(i, n, body), e)
            case Let(name, value, body):
                value = go(value, types)
                return came_from(Let(name, value, go(body, {**types, name: value.type})), e)
            case Iterate(i, n, names, starts, body):
                if index in n.names:
                    raise TensorError(
                        "a loop that carries values, as long as an array whose size changes in the loop around",
                        "make the array as long as its longest, and leave the rest unused",
                    )
                starts = tuple(go(start, types) for start in starts)
                inner = {**types, **{x: s.type for x, s in zip(names, starts, strict=True)}}
                return came_from(Iterate(i, n, names, starts, go(body, inner)), e)
            case Apply() if any(index in n.names for x in e.arguments for n in dimensions(x.type)):
                raise TensorError(
                    f"`{e.definition.name}` of an array whose size changes in the loop around",
                    "make the array as long as its longest, and let the rest be rows of the identity",
                )
        return rebuild(e, lambda child: go(child, types))

    return go(e, {})
