"""Sums of points by entry: parts that XLA computes in one loop over the entries, and a rest that it adds one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jupyter_hvd.tensor.lowering.composition import Composer
from jupyter_hvd.tensor.lowering.point_values import Added, Listed, PointStep


def sum_parts(composer: Composer, parts: list[Added], size: int) -> np.ndarray:
    """What the parts add up to; each has one step, a column of numbers."""
    arrays, total = composer.listed.arrays, np.zeros(size, np.int64)
    for part in parts:
        numbers = arrays[part.steps[0].places[0]]
        if part.inside is not None:
            numbers = np.where(arrays[part.inside], numbers, 0)
        if part.slot is None:
            assert len(numbers) == size
            total += numbers
        else:
            np.add.at(total, arrays[part.slot], numbers)
    return total


def parts_of(slots: list[int], size: int) -> tuple[Composer, list[Added], np.ndarray]:
    numbers = np.arange(1, len(slots) + 1)
    listed = Listed.of([np.array(slots, np.int32), numbers])
    composer = Composer(listed, frozenset())
    addend = Added(None, None, (PointStep(None, (), (None,), 0, (1,)),), 0)
    wanted = np.bincount(slots, weights=numbers, minlength=size).astype(np.int64)
    return composer, list(composer.at_entries(addend, size)), wanted


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60))
def test_parts_add_up_to_the_sum(slots: list[int]) -> None:
    composer, parts, wanted = parts_of(sorted(slots), 10)
    assert np.array_equal(sum_parts(composer, parts, 10), wanted)


def test_an_entry_with_many_points_leaves_a_rest() -> None:
    slots = [0, 1, 2, *[3] * 50, 4, 5]
    composer, parts, wanted = parts_of(slots, 6)
    assert [part.slot is None for part in parts].count(False) == 1
    assert len(parts) > 1, "all points are added one by one"
    assert np.array_equal(sum_parts(composer, parts, 6), wanted)
