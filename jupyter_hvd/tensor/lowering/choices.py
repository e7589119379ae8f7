"""The candidates of a plan, all of which give the same arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Choices:
    """Which optimizations a plan uses. All candidates give the same arrays.

    Attributes:
        fused: reads through steps that only move or repeat entries, and merges sums of sums (`fusion`).
        columns: on CPUs, computes large arrays with a short last axis column by column (`coordinate_columns`).
        apart: computes some arrays before anything reads them (`dataflow.fusion_barriers`).
        blocked: computes big intermediates a block of rows at a time (`tiling`).
        windows: on CPUs, runs a correlation as a convolution, or as slices that are added (`strategy`).
        dense: uses none of these: dense arrays and JAX's own derivative (`jax/dense_candidate`).
    """

    fused: bool = True
    columns: bool = True
    apart: bool = True
    blocked: bool = True
    windows: bool = True
    dense: bool = False

    def __str__(self) -> str:
        if self.dense:
            return "JAX's own, in dense arrays"
        return ", ".join(f"not {name}" for name in self.omitted) or "by the model"

    @property
    def omitted(self) -> tuple[str, ...]:
        """The names of optimizations that are not used."""
        return tuple(x for x in _WAYS if not getattr(self, x))

    @classmethod
    def without(cls, names: tuple[str, ...]) -> Choices:
        """Return all optimizations except these. Raises TypeError for an unknown name."""
        if not {*names} <= {*_WAYS}:
            raise TypeError(names)
        return replace(cls(), **dict.fromkeys(names, False))


_WAYS = tuple(f.name for f in fields(Choices) if f.default)

#: What is done where nothing was measured.
MODEL = Choices()
#: The program as JAX alone would compute it.
DENSE = Choices(dense=True)
#: That of the model, first, each way to leave out one thing, and JAX's.
CANDIDATES = (MODEL, *(Choices.without((x,)) for x in _WAYS), DENSE)
#: Those that a first call measures.
LIKELY = (MODEL, Choices.without(("columns",)), Choices.without(("apart",)), DENSE)
