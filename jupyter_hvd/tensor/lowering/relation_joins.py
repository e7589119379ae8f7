"""Joins of relations: the tuples of `R(a,b) ∧ S(b,c)` as a table of their own.

Going over the tuples of one relation and over all of an index that it leaves open is more than the
tuples of both that agree. These are found on the host, where relations are data (`join_rows`: sort
and merge, one relation after the other), and a kernel iterates over them like over any set of tuples.
Beside each tuple stands its position in the table of each relation that was joined: there is what is
stored by the positions of that relation, and there goes what is to be stored so.

A kernel is made for a number of tuples, here too rounded up to a power of two (`coo`): how many agree
changes with every change of a relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from ..language.affine import Affine
from ..language.predicates import Related
from .coo import pad_rows

SMALL = 1 << 14  # points that a kernel visits in about the time that a join takes
MOST = 1 << 22  # tuples of a join, and of what is joined of it at any time: they take memory
ORDERS = 5  # relations up to which all of their orders are compared
SPARSE = 4  # times as many numbers as tuples, up to which there is a table of all
Rows = Any  # an array of integers, a tuple a row


class Join(str):
    """The name of a relation that holds where all of `atoms` do, each over the `variables`; equal to
    others of its text, it knows what it joins.
    """

    __slots__ = ("atoms", "variables")
    atoms: tuple[Related, ...]
    variables: tuple[str, ...]

    def __new__(cls, atoms: tuple[Related, ...]) -> Join:
        made = super().__new__(cls, "⋈".join(map(_atom_text, atoms)))
        made.atoms = atoms
        made.variables = _variables_of(atoms)
        return made

    def substitute_variables(self, arguments: Sequence[Affine]) -> tuple[Related, ...]:
        """Return the joined atoms for these values of the variables."""
        values = dict(zip(self.variables, arguments, strict=True))
        return tuple([_substitute_atom(q, values) for q in self.atoms])


def _atom_text(q: Related) -> str:
    """Return an atom as text, by which equal joins are recognized."""
    relation = f"({q.relation})" if isinstance(q.relation, Join) else q.relation
    return f"{relation}({','.join(map(str, q.arguments))})"


def _variables_of(atoms: Iterable[Related]) -> tuple[str, ...]:
    """Return the indices of atoms, in order."""
    return tuple(dict.fromkeys(i for q in atoms for a in q.arguments for i, _ in a.terms))


def _substitute_atom(q: Related, values: Mapping[str, Affine]) -> Related:
    """Return an atom with names replaced."""
    return Related(q.relation, tuple([a.substitute(values) for a in q.arguments]))


def joins_within(join: Join) -> Iterator[Join]:
    """Yield a join, and the joins that it joins."""
    yield join
    for q in join.atoms:
        if isinstance(q.relation, Join):
            yield from joins_within(q.relation)


def is_joinable(q: Related) -> bool:
    """Whether each argument of an atom gives at most one index, once."""
    return bool(q.names) and all(
        len(a.terms) <= 1 and all(abs(k) == 1 for _, k in a.terms) for a in q.arguments
    )


def join_atoms(atoms: Iterable[Related]) -> Related:
    """Return the atom that holds where all of these do. Its name does not depend on their order or on the names of their
    indices.
    """
    given = sorted(dict.fromkeys(atoms), key=_atom_text)
    orders = permutations(given) if len(given) <= ORDERS else (given,)
    made = min((_letter_atoms(order) for order in orders), key=lambda found: found[0])
    return Related(made[0], tuple(map(Affine.of, made[1])))


def _letter_atoms(atoms: Sequence[Related]) -> tuple[Join, tuple[str, ...]]:
    """Return the join of atoms in this order, and the indices for which its variables stand."""
    names = _variables_of(atoms)
    letters = {i: Affine.of(chr(ord("a") + k) if k < 26 else f"a{k}") for k, i in enumerate(names)}
    return Join(tuple([_substitute_atom(q, letters) for q in atoms])), names


def connected_groups(atoms: Iterable[Related]) -> list[list[Related]]:
    """Group atoms that share indices, also through other atoms."""
    groups: list[list[Related]] = []
    for q in atoms:
        near = [g for g in groups if any(q.names & other.names for other in g)]
        groups = [g for g in groups if g not in near]
        groups.append([*(other for g in near for other in g), q])
    return groups


# How many tuples there are


@dataclass
class TupleCounts:
    """The numbers of tuples of relations and joins, by name.

    With `asked`, an unknown join is assumed to have the expected number, and `asked` gets each considered join with how many
    tuples it may have to be worthwhile.
    """

    known: dict[str, int]
    asked: dict[Join, int] | None = None

    def is_worthwhile(self, join: Join, expected: float, most: int) -> bool:
        """Whether to iterate over a join that is to have so many tuples at most."""
        most = min(most, MOST)
        if join not in self.known and (self.asked is None or expected > most):
            return False
        if self.asked is not None:
            self.asked[join] = max(most, self.asked.get(join, 0))
        found = self.known.setdefault(join, power_of_two(int(expected)))
        return 0 < found <= power_of_two(most)


def expected_count(
    atoms: Sequence[Related], rows: Sequence[int], extents: Mapping[str, int]
) -> float:
    """Return how many tuples would agree if they were spread evenly."""
    occurrences = [i for q in atoms for i in q.names]
    shared = (extents[i] ** (occurrences.count(i) - 1) for i in {*occurrences})
    return prod(rows) / float(prod(shared))


def power_of_two(n: int) -> int:
    """Return the least power of two that is not less than n."""
    return 1 << max(0, n - 1).bit_length()


# The tuples


@dataclass(frozen=True, eq=False)
class _Joined:
    """Tuples, by columns: the values of variables, the positions in the tables of atoms."""

    count: int
    values: Mapping[str, Any]
    positions: Mapping[int, Any]

    def take_tuples(self, rows: Any) -> _Joined:
        """Return some of the tuples, by number or by mask."""
        values = {i: column[rows] for i, column in self.values.items()}
        positions = {k: column[rows] for k, column in self.positions.items()}
        return _Joined(len(next(iter(positions.values()))), values, positions)


def join_rows(join: Join, tables: Mapping[str, Rows], most: int) -> Rows | None:
    """Return the tuples of a join in order, each followed by its positions in the joined tables; None if there would be more
    than `most` at some time.
    """
    parts = [_fitting_columns(k, q, tables[q.relation]) for k, q in enumerate(join.atoms)]
    parts.sort(key=lambda part: part.count)
    made = parts.pop(0)
    while parts:
        matches = [_Matches(made, part) for part in parts if {*made.values} & {*part.values}]
        best = min(matches, key=lambda m: m.count)
        if best.count > most:
            return None
        parts.remove(best.right)
        made = best.matching_pairs()
    columns = [*(made.values[i] for i in join.variables)]
    columns += [made.positions[k] for k in range(len(join.atoms))]
    order = np.lexsort(columns[len(join.variables) - 1 :: -1])
    return np.stack(columns, axis=1)[order].astype(np.int32)


def _fitting_columns(number: int, q: Related, rows: Rows) -> _Joined:
    """Return the tuples of a relation that fit an atom."""
    rows = np.asarray(rows, np.int64)
    fits = np.ones(len(rows), bool)
    values: dict[str, Any] = {}
    for column, a in zip(rows.T, q.arguments, strict=False):
        if a.is_constant:
            fits &= column == a.constant
            continue
        ((name, k),) = a.terms
        value = k * (column - a.constant)
        fits &= value == values.setdefault(name, value)
    return _Joined(len(rows), values, {number: np.arange(len(rows))}).take_tuples(fits)


class _Matches:
    """The pairs of tuples that agree, counted before they are made: the left ones in their own order, the right ones sorted by
    their common columns.
    """

    def __init__(self, left: _Joined, right: _Joined) -> None:
        self.left, self.right = left, right
        a, b = _join_keys(
            [(left.values[i], right.values[i]) for i in left.values if i in right.values]
        )
        self.order = np.argsort(b, kind="stable")
        self.first, self.counts = _equal_runs(b[self.order], a)
        self.count = int(self.counts.sum())

    def matching_pairs(self) -> _Joined:
        """Return the agreeing pairs as tuples."""
        left = self.left.take_tuples(np.repeat(np.arange(self.left.count), self.counts))
        before = np.cumsum(self.counts) - self.counts
        within = np.arange(self.count) - np.repeat(before, self.counts)
        right = self.right.take_tuples(self.order[np.repeat(self.first, self.counts) + within])
        values, positions = {**right.values, **left.values}, {**right.positions, **left.positions}
        return _Joined(self.count, values, positions)


def _equal_runs(sorted_: Any, keys: Any) -> tuple[Any, Any]:
    """Return where the entries equal to each key begin in a sorted array, and how many there are."""
    low = min(sorted_.min(initial=0), keys.min(initial=0))
    width = int(max(sorted_.max(initial=0), keys.max(initial=0)) - low) + 1
    if width > SPARSE * (len(sorted_) + len(keys)) + 1:
        first = np.searchsorted(sorted_, keys, "left")
        return first, np.searchsorted(sorted_, keys, "right") - first
    counts = np.bincount(
        sorted_ - low, minlength=width
    )  # a table of all keys, which is read faster
    first = np.cumsum(counts) - counts
    return first[keys - low], counts[keys - low]


def _join_keys(columns: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return a number for each left and each right tuple that is equal if they agree in some columns."""
    (left, right), *others = columns
    for a, b in others:
        # What was numbered so far, in fewer numbers, so that their products do not overflow.
        _, dense = np.unique(np.concatenate([left, right]), return_inverse=True)
        low = min(a.min(initial=0), b.min(initial=0))
        width = max(a.max(initial=0), b.max(initial=0)) - low + 1
        left = dense[: len(left)] * width + (a - low)
        right = dense[len(a) :] * width + (b - low)
    return left, right


def build_tables(joins: Mapping[Join, int], given: Mapping[str, Rows]) -> dict[Join, Rows]:
    """Return the padded tables of joins with at most the given number of tuples, each after the joins that it joins."""
    tables: dict[str, Rows] = {**given}
    made: dict[Join, Rows] = {}
    for join, most in joins.items():
        if all(q.relation in tables for q in join.atoms):
            rows = join_rows(join, tables, most)
            if rows is not None:
                tables[join], made[join] = rows, pad_rows(rows)
    return made
