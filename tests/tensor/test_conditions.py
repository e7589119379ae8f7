"""Conditions are asked once, and what they leave out stays out, whatever is there."""

import numpy as np
import pytest
from test_fusion import agrees, normal, plan

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.language.predicates import TRUE
from jupyter_hvd.tensor.lowering.ir import Apply


@tensor
def gravity(x, m):
    n, d = x.shape
    return -sum(
        m[i] * m[j] / np.sqrt(sum((x[i, k] - x[j, k]) ** 2 for k in range(d)))
        for i in range(n)
        for j in range(n)
        if i < j
    )


@tensor
def upper(A, x):
    n = len(x)
    return sum((A[i, j] - x[j]) ** 2 * A[i, j] for i in range(n) for j in range(n) if i <= j)


@tensor
def roots(A, x):
    n = len(x)
    return sum(
        np.sqrt(A[i, j] * x[j]) * (A[i, j] + x[i]) for i in range(n) for j in range(n) if i <= j
    )


def test_pairs_are_made_without_conditions_before_their_sum():
    """Differences of all pairs were written to memory three times, each with zeros where i ≥ j."""
    x, m = normal(6, 3), np.abs(normal(6))
    steps = plan(gravity, x, m).order  # the last of them takes the sum negative
    asking = [s for s in steps if any(p != TRUE for p in s.action.conditions)]
    assert [s for s in asking if not isinstance(s.action, Apply)] == [steps[-2]]
    agrees(gravity, x, m)
    agrees(gravity.grad("x", "m"), x, m)


@pytest.mark.parametrize("function", [upper, roots])
@pytest.mark.parametrize("hole", [np.nan, np.inf])
def test_what_is_left_out_is_not_multiplied_by_zero(function, hole):
    A, x = np.abs(normal(5, 5)) + 1, np.abs(normal(5, seed=1)) + 1
    holes = np.where(np.tril(np.ones((5, 5), bool), -1), hole, A)
    for made in (function, function.grad("x")):
        np.testing.assert_allclose(made(holes, x), made(A, x), rtol=1e-6)
    by_A, holed = function.grad("A")(A, x), function.grad("A")(holes, x)
    np.testing.assert_allclose(holed, by_A, rtol=1e-6)
