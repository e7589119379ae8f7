"""Loops whose range is empty, `range(2, n)` for n < 2: values are NumPy's, gradients as by differences."""

import numpy as np
import pytest
from differences import check

from jupyter_hvd.tensor import tensor


def filled(x):
    n = len(x)
    y = np.zeros(n + 1)
    y[0] = 2.0
    for i in range(2, n):
        y[i] = y[i - 1] * 0.5 + x[i]
    return np.sum(y) + np.sum(x)


def carried(x):
    h, g = 1.0, np.ones(2)
    for i in range(2, len(x)):
        h, g = h * x[i] + g[0], g * np.sin(h)
    return h + np.sum(g) * np.sum(x)


def backwards(x):
    h = 1.0
    for i in range(len(x) - 3, -1, -1):
        h = np.cos(h) + x[i]
    return h + np.sum(x**2)


def by_threes(x):
    h = 1.0
    for i in range(4, len(x), 3):
        h = np.cos(h) + x[i]
    return h + np.sum(x**2)


def appended(x):
    y = [1.0]
    for i in range(1, len(x) - 1):
        y.append(y[-1] * x[i])
    return np.sum(np.array(y)) + np.sum(x)


def collected(x):
    y = [0.5 * x[i] for i in range(3, len(x))]
    return np.sum(np.array(y)) + np.sum(x)


def nested(x):
    n, s = len(x), 0.0
    for i in range(n):
        h = 1.0
        for j in range(i + 2, n):
            h = np.sin(h) * x[j]
        s = s * 0.5 + h * x[i]
    return s


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize(
    "function", [filled, carried, backwards, by_threes, appended, collected, nested]
)
def test_a_loop_without_iterations(function, size):
    check(function, (np.linspace(0.4, 1.3, size),))


def test_an_integer_parameter_beyond_the_end():
    @tensor
    def powers(x, first):
        h = x
        for _ in range(first, 3):
            h = h * h
        return h

    assert powers(1.5, 4) == 1.5
    assert powers.grad("x")(1.5, 7) == 1.0
    assert powers(1.5, 1) == 1.5**4
