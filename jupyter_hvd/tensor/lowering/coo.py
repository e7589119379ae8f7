"""Boolean arrays with few true entries, by the tuples of those entries.

A kernel is made for a number of tuples, so that number is rounded up to a power of two: relations
that change a little from call to call share a kernel. The rows in excess hold indices outside of
every array, of which reading makes zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..cost.counting import OUTSIDE
from ..language.predicates import conjuncts, is_asserted
from ..ssa.program import Contraction, Map, Program, all_statements

SMALL = 1 << 14  # entries below which a mask is as good
DENSE = 32  # entries of a mask that are read in the time of one that is scattered to


class Tuples(NamedTuple):
    """A relation as a boolean array and, in order, the rows of its true entries' indices."""

    mask: Any
    rows: Any


def split_operands(arrays: Sequence[Any]) -> tuple[Sequence[Any], Mapping[Any, Any]]:
    """Split operands into those of the parameters and the tables of joins, which come last if there are any."""
    if arrays and isinstance(arrays[-1], dict):
        return arrays[:-1], arrays[-1]
    return arrays, {}


def table_name(relation: str) -> str:
    """Return the name of the rows of a relation that also has a mask."""
    return f"{relation}·rows"


def true_entries(mask: Any) -> Any:
    """Return the index tuples of a boolean array's true entries, padded to a power of two."""
    host = np.asarray(mask)
    places = np.flatnonzero(host)
    return pad_rows(np.stack(np.unravel_index(places, host.shape), axis=1))


def pad_rows(rows: Any) -> Any:
    """Return rows padded to a power of two, at least one, with rows that lie outside."""
    made = np.full((1 << max(0, len(rows) - 1).bit_length(), rows.shape[1]), OUTSIDE, np.int32)
    made[: len(rows)] = rows
    return made


def unpad_rows(rows: Any) -> Any:
    """Return the rows without padding."""
    return rows[rows[:, 0] != OUTSIDE] if rows.shape[1] else rows


def is_sparse(mask: Any) -> bool:
    """Whether going over the true entries costs less than going over all."""
    host = np.asarray(mask)
    return host.size >= SMALL and int(np.count_nonzero(host)) * DENSE <= host.size


def enumerated_relations(program: Program) -> frozenset[str]:
    """Return the relations over whose tuples some statement may run, because all of its points satisfy them."""
    return frozenset(
        q.relation
        for statement in all_statements(program)
        if isinstance(statement.rhs, Contraction | Map)
        for q in conjuncts(statement.rhs.mask)
        if is_asserted(q)
    )
