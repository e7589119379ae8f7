"""The batches of one training run: the expressions that give their size."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

#: The rows of a batch of which `fit`, a loader or a generator of images is told no size.
DEFAULT = 32


@dataclass(frozen=True, eq=False)
class MissingSize:
    """A call that takes a batch size, and is given none."""

    call: cst.Call
    default: int = DEFAULT


@dataclass(frozen=True, eq=False)
class Batches:
    """What one training takes its batches from.

    Attributes:
        training: the call of `fit`, or of a training step.
        sizes: the expressions that say how many rows a batch has. missing: the calls that leave it at the default.
        counts: numbers of batches that a loop cuts out of data, by numbers from 0 on.
        joined: batches of which no size is seen. whole: the size of a batch of all rows, or the step that takes these.
        is_stateful: a layer goes on, row by row, from one batch to the next, so that a batch cannot have other rows.
    """

    training: cst.Call
    sizes: tuple[cst.BaseExpression, ...] = ()
    missing: tuple[MissingSize, ...] = ()
    counts: tuple[cst.BaseExpression, ...] = ()
    joined: tuple[cst.BaseExpression, ...] = ()
    whole: cst.BaseExpression | None = None
    is_stateful: bool = False

    @property
    def can_grow(self) -> bool:
        """Whether N ranks can take N times as many rows: some size is written, defaulted, or left to joining."""
        return bool(self.sizes or self.missing or self.joined)


def merge_batches(training: cst.Call, found: list[Batches]) -> Batches:
    """Return the batches of one training with several sources; full batches only if none of the sources can grow."""
    growing = [each for each in found if each.can_grow]
    whole = next((each.whole for each in found if each.whole is not None), None)
    return Batches(
        training,
        tuple(s for each in growing for s in each.sizes),
        tuple(m for each in growing for m in each.missing),
        tuple(c for each in growing for c in each.counts),
        tuple(j for each in growing for j in each.joined),
        None if growing else whole,
    )
