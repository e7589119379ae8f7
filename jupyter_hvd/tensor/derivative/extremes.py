"""The largest and smallest entries of arrays, as constants to derivatives: `np.max` adds how the entries share
its derivative. Where one of them is no number, the result is none.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from ..language.definition import Definition, Dims, Work, register_definition
from ..language.function import find_function
from ..language.predicates import compare, disj
from .lemmas import operations_where

AXES = 8  # that are reduced at once, at most


def _comparison_count(x: Dims) -> tuple[Work, ...]:
    """Count the comparisons: each entry but the first with the extreme of the earlier ones."""
    later = disj(*(compare("<", 0, f"ε{k}") for k in range(len(x))))
    return operations_where(x, later, products=0, sums=0, calls=1)


def _define_extreme(name: str, function: str, of_none: float) -> tuple[Definition, ...]:
    """Define a maximum or minimum over one axis, two axes, …"""

    def compute(x: Any) -> Any:
        return reduce(find_function(function).compute, x.ravel().tolist(), of_none)

    return tuple(
        register_definition(
            Definition(
                name if axes == 1 else f"{name}_{axes}",
                (axes,),
                lambda _: (),
                _comparison_count,
                compute,
                reduction=function,
            )
        )
        for axes in range(1, AXES + 1)
    )


#: Of so many axes and one more; of no entries they are infinite.
LARGEST = _define_extreme("largest", "maximum", -np.inf)
SMALLEST = _define_extreme("smallest", "minimum", np.inf)
