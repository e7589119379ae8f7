"""Loops that make an array longer or shorter by as much in each iteration: values are NumPy's, gradients as by differences."""

import numpy as np
import pytest
from cases import entering
from differences import check

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(4)
LONG = 40  # iterations, more than are written out
X = R.uniform(0.5, 1.5, LONG + 4)
A = R.uniform(0.5, 1.5, (3, LONG + 2))
CASES = []
case = entering(CASES)


@case(X)
def averaged(x):
    for _ in range(40):
        x = 0.5 * (x[1:] + x[:-1])
    return x


@case(X, LONG + 3)
def american_option(x, n):
    for k in range(1, n + 1):
        x = 0.5 * (x[1:] + x[:-1])
        x = np.maximum(x, np.arange(n + 1 - k) * 0.02)
    return x[0]


@case(X)
def read_in_many_ways(x):
    total, v = 0.0, x
    for k in range(40):
        v = v[1:]
        w = [v[i] * i for i in range(len(v))]
        total += np.sum(v) / len(v) + v[-1] * v[len(v) - 2] + w[1] + np.mean(v[:-1]) * k
    return total


@case(X[:3])
def grown(x):
    v = x
    for k in range(40):
        v = np.concatenate([v, [v[-1] * 0.9 + x[0] * k]])
    return np.sum(v * v)


@case(A)
def one_axis_of_two(a):
    for _ in range(40):
        a = 0.5 * (a[:, 1:] + a[::-1, :-1])
    return a


@case(X)
def one_shorter_and_one_longer(x):
    done, left = x[:1], x
    for _ in range(40):
        done = np.concatenate([done, [np.sum(left) / len(left)]])
        left = left[:-1] * left[1:]
        left = left / np.mean(left)
    return np.sum(done) + left[0]


@case(X)
def neville(x):
    """Interpolation by Neville's scheme at 0.3."""
    n = 44
    at, p = np.arange(44) * 1.0 / 44, x
    for k in range(1, 41):
        left, right = at[: n - k], at[k:]
        p = ((0.3 - right) * p[:-1] + (left - 0.3) * p[1:]) / (left - right)
    return np.sum(p)


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_value_and_gradient(function, arguments):
    check(function, arguments)


def test_cost_and_memory_are_those_of_the_entries_there_are():
    def halved(x):
        for _ in range(LONG):
            x = x[1:] * 0.5
        return np.sum(x)

    f = tensor(halved)
    assert f.cost(np.ones(LONG + 4)).total <= LONG * (LONG + 4)
    assert f.grad("x").cost(np.ones(LONG + 4)).total <= 4 * f.cost(np.ones(LONG + 4)).io


def test_more_iterations_than_there_are_entries_are_refused():
    f = tensor(averaged)
    np.testing.assert_allclose(f(X[:41]), averaged(X[:41]))
    with pytest.raises(TensorError):
        f(X[:39])


def test_a_loop_whose_sizes_change_otherwise_is_written_out():
    @tensor
    def ever_faster(x):
        for k in range(40):
            x = x[k:]
        return np.sum(x)

    assert ever_faster(np.ones(1000)) == 1000 - 39 * 20
