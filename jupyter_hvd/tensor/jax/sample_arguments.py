"""Random arguments for measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..language.pairs import from_pairs, lay_out
from ..language.predicates import reserve_generated_names
from ..language.types import Array, Integer, Product, Real, dimensions

if TYPE_CHECKING:
    from ..instance import Instance


def random_arguments(
    instance: Instance, sizes: Mapping[str, int], given: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return arguments by name: random numbers from 0.5 to 1.5, tuples of them, the sizes themselves, and the relations that
    are given.
    """
    random = np.random.default_rng(0)
    dtype = jnp.result_type(float)

    def make_argument(type_: Any) -> Any:
        """Return a random argument of a type."""
        if isinstance(type_, Product):
            return make_argument(type_.first), make_argument(type_.second)
        dims = tuple(n.evaluate(sizes) for n in dimensions(type_))
        return np.asarray(random.uniform(0.5, 1.5, dims), dtype)

    return {
        x: lay_out(from_pairs(make_argument(type_), layout))
        if isinstance(type_, Real | Array | Product)
        else sizes[reserve_generated_names(x)]
        if isinstance(type_, Integer)
        else (given or {})[x]
        for x, type_, layout in instance.parameters
    }
