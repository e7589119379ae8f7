"""What is stored of arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from jupyter_hvd.verify.exact.measures import measure_part, measure_parts, project_batch_rows

RNG = np.random.default_rng(0)
KERNEL = RNG.normal(size=(5, 3, 2)).astype(np.float32)


def test_a_projection_is_linear_and_tells_entries_apart() -> None:
    one, two = RNG.normal(size=(2, 5, 6))
    projections = [
        measure_part([array])[0] for array in (one, two, one + 2 * two, one[::-1], one.T)
    ]
    assert projections[2] == pytest.approx(projections[0] + 2 * projections[1])
    assert len({round(p, 6) for p in projections}) == 5


def test_norms() -> None:
    assert measure_part([KERNEL])[1] == pytest.approx(np.linalg.norm(KERNEL.ravel()), rel=1e-6)
    assert measure_part([np.float32(-2.0)]) == (pytest.approx(-2.0 * np.cos(0.5), rel=1e-6), 2.0)
    assert measure_part([]) == (0.0, 0.0)
    assert measure_part([np.zeros((0, 4), np.float32)]) == (0.0, 0.0)
    assert measure_part([np.array([1, 2, 250], np.uint8)]) == (253.0, 0.0)
    half = KERNEL.astype(ml_dtypes.bfloat16)
    assert measure_part([half]) == measure_part([half.astype(np.float32)])
    assert measure_part([KERNEL + 1j * KERNEL]) == pytest.approx(
        measure_part([3 * KERNEL]), rel=1e-6
    )


def test_a_sparse_gradient_is_the_sum_of_its_rows() -> None:
    values, places = RNG.normal(size=(4, 3)), np.array([2, 0, 2, 5])
    dense = np.zeros((6, 3))
    np.add.at(dense, places, values)
    assert measure_part([values, places])[0] == pytest.approx(measure_part([dense])[0])
    order = [3, 1, 0, 2]
    again = measure_part([values[order], places[order]])
    assert again == pytest.approx(measure_part([values, places]))
    joined = measure_part([dense[[0, 2, 5]], np.array([0, 2, 5])])
    assert joined == pytest.approx(again)


def test_several_arrays_stand_one_after_another() -> None:
    found = measure_parts([[KERNEL], [], [KERNEL[0]]])
    assert found.shape == (6,)
    assert tuple(found[4:]) == measure_part([KERNEL[0]])


def test_rows_are_found_again_in_another_batch() -> None:
    images, ages = RNG.integers(0, 255, (8, 4, 4), np.uint8), RNG.normal(size=8)
    found = project_batch_rows([images, ages])
    order = RNG.permutation(8)
    assert project_batch_rows([images[order], ages[order]]) == pytest.approx(found[order], abs=1e-9)
    assert np.min(np.diff(np.sort(found))) > 1e-6
    assert project_batch_rows([images[:0], ages[:0]]).shape == (0,)
