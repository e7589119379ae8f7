"""Where a plan can be made in more than one way, all of which give the same arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Choices:
    """Which of the ways is taken.

    Attributes:
        fused: what only moves or repeats entries is read through, and sums of sums are one (`fusion`).
        apart: some arrays are computed before anything reads them (`dataflow.fusion_barriers`).
        blocked: big intermediates are made a block of rows at a time (`tiling`).
        windows: on CPUs a correlation is a convolution, or slices that are added (`strategy`).
    """

    fused: bool = True
    apart: bool = True
    blocked: bool = True
    windows: bool = True

    def __str__(self) -> str:
        return ", ".join(f"not {name}" for name in self.omitted) or "by the model"

    @property
    def omitted(self) -> tuple[str, ...]:
        """The names of what is not done."""
        return tuple(f.name for f in fields(self) if not getattr(self, f.name))

    @classmethod
    def without(cls, names: tuple[str, ...]) -> Choices:
        """All but these. Raises TypeError for a name that is none."""
        return replace(cls(), **dict.fromkeys(names, False))


#: What is done where nothing was measured.
MODEL = Choices()
#: That, first, and each way to leave out one thing.
CANDIDATES = (MODEL, *(Choices.without((f.name,)) for f in fields(Choices)))
