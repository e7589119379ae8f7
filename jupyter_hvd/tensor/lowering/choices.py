"""The candidates of a plan, all of which give the same arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Choices:
    """Which of the ways is taken.

    Attributes:
        fused: what only moves or repeats entries is read through, and sums of sums are one (`fusion`).
        columns: on CPUs large arrays with a short last axis are made column by column (`columns`).
        apart: some arrays are computed before anything reads them (`dataflow.fusion_barriers`).
        blocked: big intermediates are made a block of rows at a time (`tiling`).
        windows: on CPUs a correlation is a convolution, or slices that are added (`strategy`).
        dense: none of this: the program in dense arrays and JAX's own derivative of it (`jax/dense_candidate`).
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
        """The names of what is not done."""
        return tuple(x for x in _WAYS if not getattr(self, x))

    @classmethod
    def without(cls, names: tuple[str, ...]) -> Choices:
        """All but these. Raises TypeError for a name that is none."""
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
