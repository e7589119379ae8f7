"""Sparse Jacobians of random programs: `random_jacobians` says what is checked."""

import pytest
import random_jacobians

CHUNK = 25


@pytest.mark.parametrize(
    "start",
    [5000, *(pytest.param(s, marks=pytest.mark.thorough) for s in range(5025, 5400, CHUNK))],
)
def test_entries_of_random_programs(start):
    random_jacobians.SEEN = random_jacobians.Seen()
    for seed in range(start, start + CHUNK):
        random_jacobians.check(seed)
    assert random_jacobians.SEEN.jacobians >= 4
    assert random_jacobians.SEEN.written >= 2


def test_functions_of_two_arguments():
    random_jacobians.check(
        200689
    )  # whose forward derivative costs more than four times the program


@pytest.mark.parametrize(
    "seed",
    [
        300686,  # has a condition with the same index on both sides
        410520,  # reads the first entries of a longer value
        413647,  # has a quantified index on both sides
        300857,  # reads a value at a place outside of it where its mask is false
    ],
)
def test_seeds_that_failed(seed):
    random_jacobians.check(seed)
