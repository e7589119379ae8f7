"""Exponents of the number of ranks: affine terms over unknowns, and the linear equations between them.

A value with exponent k is, on N ranks, N ** k times what it is in one process at the same number of examples seen.
These are units of measure (Kennedy, 1997) with one base unit, so unification is Gaussian elimination over the rationals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import libcst as cst


@dataclass(frozen=True, eq=False)
class Unknown:
    """An exponent that is not known yet, of the value of a node."""

    node: cst.CSTNode | None = None
    label: str = ""


@dataclass(frozen=True)
class Exponent:
    """`constant` plus a rational multiple of each unknown in `terms`."""

    constant: Fraction = Fraction(0)
    terms: Mapping[Unknown, Fraction] = field(default_factory=dict)

    def __add__(self, other: Exponent) -> Exponent:
        if other.is_zero:  # most are
            return self
        if self.is_zero:
            return other
        terms = dict(self.terms)
        for unknown, factor in other.terms.items():
            total = terms.pop(unknown, Fraction(0)) + factor
            if total:
                terms[unknown] = total
        return Exponent(self.constant + other.constant, terms)

    def __mul__(self, factor: Fraction | int) -> Exponent:
        if not factor or self.is_zero:
            return ZERO
        if factor == 1:
            return self
        return Exponent(self.constant * factor, {u: f * factor for u, f in self.terms.items()})

    def __neg__(self) -> Exponent:
        return self * -1

    def __sub__(self, other: Exponent) -> Exponent:
        return self + -other

    @property
    def is_known(self) -> bool:
        """Whether the exponent has no unknowns."""
        return not self.terms

    @property
    def key(self) -> tuple[Fraction, frozenset[tuple[Unknown, Fraction]]]:
        """A hashable key, equal for equal exponents."""
        return self.constant, frozenset(self.terms.items())

    @property
    def is_zero(self) -> bool:
        """Whether the exponent is the number 0."""
        return not self.terms and not self.constant


ZERO = Exponent()
ONE = Exponent(Fraction(1))


def exponent_of(unknown: Unknown) -> Exponent:
    """Return the exponent that consists of one unknown."""
    return Exponent(Fraction(0), {unknown: Fraction(1)})


@dataclass(frozen=True, eq=False)
class Equation:
    """Two exponents that must be equal.

    Attributes:
        place: the expression that asks for it.
        reason: why, in words that follow "line 30": "runs once a step".
    """

    left: Exponent
    right: Exponent
    place: cst.CSTNode
    reason: str = ""


class Solution:
    """A set of solved equations, as a substitution that holds no cycle."""

    def __init__(self) -> None:
        self._solved: dict[Unknown, tuple[Exponent, Equation]] = {}

    def resolve(self, exponent: Exponent) -> Exponent:
        """Return the exponent with all solved unknowns replaced."""
        for unknown in exponent.terms:
            if unknown in self._solved:
                self._shorten_path(unknown)
        return self._substitute(exponent)

    def _shorten_path(self, unknown: Unknown) -> None:
        """Express a solved unknown, and those on the path to it, by unsolved ones, so that long chains are followed once."""
        waiting = [unknown]
        while waiting:
            exponent, equation = self._solved[waiting[-1]]
            solved = [u for u in exponent.terms if u in self._solved]
            if further := [u for u in solved if self._has_solved(self._solved[u][0])]:
                waiting += further
                continue
            at = waiting.pop()
            if solved:
                self._solved[at] = self._substitute(exponent), equation

    def _has_solved(self, exponent: Exponent) -> bool:
        """Whether an exponent has unknowns that are solved."""
        return any(unknown in self._solved for unknown in exponent.terms)

    def _substitute(self, exponent: Exponent) -> Exponent:
        """Replace the solved unknowns of an exponent, one step."""
        if not self._has_solved(exponent):
            return exponent
        replaced = Exponent(exponent.constant)
        for unknown, factor in exponent.terms.items():
            known = self._solved.get(unknown)
            replaced += (known[0] if known else exponent_of(unknown)) * factor
        return replaced

    def add(self, equation: Equation) -> bool:
        """Add an equation; return False, and change nothing, if it contradicts earlier ones."""
        difference = self.resolve(equation.left - equation.right)
        if difference.is_known:
            return not difference.constant
        unknown, factor = next(iter(difference.terms.items()))
        rest = Exponent(
            difference.constant, {u: f for u, f in difference.terms.items() if u is not unknown}
        )
        self._solved[unknown] = rest * (Fraction(-1) / factor), equation
        return True

    def causes(self, exponent: Exponent) -> Iterable[Equation]:
        """Yield the equations that determined an exponent, the nearest first."""
        waiting, seen = [*exponent.terms], set[Unknown]()
        while waiting:
            unknown = waiting.pop(0)
            if unknown in self._solved and unknown not in seen:
                seen.add(unknown)
                _, equation = self._solved[unknown]
                yield equation
                waiting += [*equation.left.terms, *equation.right.terms]
