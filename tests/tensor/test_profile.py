"""`f.profile(*args)`: exact operations, and no more than that is claimed."""

import numpy as np
import pytest
from programs import CASES

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.profile import ProfileCancelledError


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.name in ("convolution_loss", "masked_stencil", "springs")],
    ids=lambda case: case.name,
)
def test_operations_are_those_of_the_cost_model(case):
    gradient = case.function.grad(*case.wrt)
    found = gradient.profile(*case.arguments, repeats=1)
    assert found.total.operations == gradient.cost(*case.arguments).total
    assert [s.name for s in found.statements] == [s.name for s in gradient.ssa.statements]
    assert all(s.seconds > 0 and s.bytes >= 0 for s in found.statements)
    assert found.compile_seconds > 0


def test_progress_and_cancel():
    @tensor
    def square(x):
        return sum(x[i] * x[i] for i in range(len(x)))

    seen = []
    square.profile(np.ones(3), repeats=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(k + 1, len(seen)) for k in range(len(seen))]
    with pytest.raises(ProfileCancelledError):
        square.profile(np.ones(3), repeats=1, cancelled=lambda: True)


def test_the_work_of_a_count_follows_the_tuples():
    """10 tuples of 10^10 pairs: counted by going over the tuples, as the kernel does."""

    @tensor
    def energy(x, y, R):
        n, m = len(x), len(y)
        return sum((x[i] - y[j]) ** 2 for i in range(n) for j in range(m) if (i, j) in R)

    n = 10**5
    pairs = {(97 * k, n - 1 - k) for k in range(10)}
    gradient = energy.grad("x", "y")
    found = gradient.profile(np.ones(n), np.ones(n), pairs, repeats=1)
    small = {(k, k) for k in range(10)}
    expected = gradient.cost(np.ones(10), np.ones(10), small)
    assert found.total.operations < expected.total + 20


def test_a_loop_in_a_loop_is_profiled_at_the_sizes_of_the_call():
    """A binomial tree, in place: the inner loop begins with what the outer one carries."""

    def price(payoff, p: float, n: int):
        v = payoff.copy()
        for step in range(n - 1, -1, -1):
            for k in range(step + 1):
                v[k] = p * v[k + 1] + (1 - p) * v[k]
        return v[0]

    found = tensor(price).profile(np.arange(5.0), 0.5, 4, repeats=1)
    assert found.total.seconds > 0
