"""Array-level functions that sort or search: their results are integers, whose derivative is zero.

What is no number comes after all numbers; zeros of either sign are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import Any

import numpy as np

from ..language.definition import Definition, Dims, Work, register_definition
from .lemmas import below_condition, operations_where


def _sort_order(x: Any) -> Any:
    """Compute the indices that sort a list; equal entries keep their order."""
    return np.argsort(x, kind="stable").astype(float)


def _descending_order(x: Any) -> Any:
    """Compute the indices that sort a list in descending order; equal entries keep their order."""
    return len(x) - 1 - np.argsort(x[::-1], kind="stable")[::-1].astype(float)


def _define_ordering(name: str, compute: Callable[[Any], Any]) -> Definition:
    """Register an array-level function that returns the order of a list."""
    return register_definition(
        Definition(
            name,
            (1,),
            lambda x: x,
            lambda x: operations_where(
                (x[0], x[0]), below_condition("ε0", "ε1"), products=0, sums=0, calls=1
            ),
            compute,
            counterpart_work=lambda x: _log_cost(x[0].constant) * x[0].constant,
        )
    )


def _log_cost(n: int) -> float:
    """Return log2(n), at least 1."""
    return log2(max(n, 2))


#: The indices that sort an array, equal entries in their order, by `n·(n-1)/2` comparisons at most.
ORDER = _define_ordering("order", _sort_order)
#: The same, the largest entry first.
DESCENDING_ORDER = _define_ordering("descending_order", _descending_order)


def _comparison_count(ordered: Dims, wanted: Dims) -> tuple[Work, ...]:
    """Count the comparisons of each wanted entry with each entry of the list, an upper bound."""
    return operations_where((*ordered, *wanted), products=0, sums=0, calls=1)


def _define_search(name: str, bound: Any) -> Definition:
    """Register an array-level function that searches a sorted list; `bound` is NumPy's `side`."""
    return register_definition(
        Definition(
            name,
            (1, 1),
            lambda _, wanted: wanted,
            _comparison_count,
            lambda among, wanted: np.searchsorted(among, wanted, bound).astype(float),
            counterpart_work=lambda among, wanted: (
                _log_cost(among[0].constant) * wanted[0].constant
            ),
        )
    )


#: How many entries of a sorted list are less than each of an array; with `COUNT_UP_TO`, less or equal.
COUNT_BELOW = _define_search("count_below", "left")
COUNT_UP_TO = _define_search("count_up_to", "right")
