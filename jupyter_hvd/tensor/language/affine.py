"""Affine index expressions `a ::= i | n | k | a + a | k·a` (Fig. 3), as immutable values.

Index variables and sizes are both plain names here: each stands for an integer, and only their
binders tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from .hashcons import HashConsed


@dataclass(frozen=True, eq=False)
class Affine(metaclass=HashConsed):
    """A constant plus integer multiples of names; `terms` is sorted and has no zero coefficient."""

    terms: tuple[tuple[str, int], ...]
    constant: int

    @staticmethod
    def of(value: Affine | int | str) -> Affine:
        """Read an integer or a name as an affine expression."""
        if isinstance(value, Affine):
            return value
        if isinstance(value, str):
            return Affine(((value, 1),), 0)
        return Affine((), int(value))

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that occur in the expression."""
        return frozenset(name for name, _ in self.terms)

    @property
    def is_constant(self) -> bool:
        """Whether no name occurs in the expression."""
        return not self.terms

    @property
    def name(self) -> str | None:
        """The name that this expression consists of; None where it is anything but one name."""
        bare = self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1
        return self.terms[0][0] if bare else None

    def coefficient(self, name: str) -> int:
        """Return the coefficient of a name; 0 if it does not occur."""
        return next((k for other, k in self.terms if other == name), 0)

    def substitute(self, values: Mapping[str, Affine]) -> Affine:
        """Replace names by affine expressions, all at once."""
        if (bare := self.name) is not None:
            return values.get(bare, self)
        if not any(name in values for name, _ in self.terms):
            return self
        constant, sums = self.constant, dict[str, int]()
        for name, k in self.terms:
            value = values.get(name)
            if value is None:
                sums[name] = sums.get(name, 0) + k
                continue
            constant += value.constant * k
            for other, j in value.terms:
                sums[other] = sums.get(other, 0) + j * k
        return _make_affine(sums, constant)

    def rename_names(self, names: Mapping[str, str]) -> Affine:
        """Return the expression with names replaced by others."""
        return self.substitute({x: Affine.of(names[x]) for x, _ in self.terms if x in names})

    def solve(self, name: str) -> Affine | None:
        """Solve `self = 0` for a name with coefficient ±1: return the `a` with `self = 0 ⇔ name = a`."""
        k = self.coefficient(name)
        return self * -k + Affine.of(name) if abs(k) == 1 else None

    def evaluate(self, integers: Mapping[str, int]) -> int:
        """Return the integer value, given a value for every name."""
        total = self.constant
        for name, k in self.terms:
            total += k * integers[name]
        return total

    def value_range(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """Return the smallest and the largest value, where each name runs over `0 ≤ name < extent`."""
        low = high = self.constant
        for name, k in self.terms:
            last = k * (extents[name] - 1)
            low, high = low + min(0, last), high + max(0, last)
        return low, high

    def __add__(self, other: Affine | int) -> Affine:
        other = Affine.of(other)
        sums = dict(self.terms)
        for name, k in other.terms:
            sums[name] = sums.get(name, 0) + k
        return _make_affine(sums, self.constant + other.constant)

    def __sub__(self, other: Affine | int) -> Affine:
        other = Affine.of(other)
        sums = dict(self.terms)
        for name, k in other.terms:
            sums[name] = sums.get(name, 0) - k
        return _make_affine(sums, self.constant - other.constant)

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine((), 0)
        return Affine(tuple((name, k * factor) for name, k in self.terms), self.constant * factor)

    def __str__(self) -> str:
        text = ""
        # Positive terms first, so that `n - 1` never prints as `-1 + n`.
        for name, k in sorted(self.terms, key=lambda term: term[1] < 0):
            size = name if abs(k) == 1 else f"{abs(k)}·{name}"
            text += ("-" if k < 0 else "") + size if not text else f"{'-' if k < 0 else '+'}{size}"
        if not text:
            return str(self.constant)
        return text if not self.constant else f"{text}{self.constant:+d}"


def _make_affine(sums: Mapping[str, int], constant: int) -> Affine:
    """Return the expression with these coefficients, without zeros."""
    return Affine(tuple(sorted(term for term in sums.items() if term[1])), constant)
