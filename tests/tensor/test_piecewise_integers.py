"""Integers that are affine case by case, and conditions that guard what stands behind `and` and `or`: values are NumPy's,
gradients as by differences.
"""

import numpy as np
import pytest
from cases import entering
from differences import check

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(3)
X, SHORT, S = R.normal(size=7), R.normal(size=4), R.normal(size=(40, 3))
CASES = []
case = entering(CASES)


@case(X, SHORT)
def sizes_of_two(p, q):
    r = np.zeros(max(len(p), len(q)))
    for i in range(min(len(p), len(q))):
        r[i] += p[i] * q[i]
    for i in range(len(p)):
        r[i] += p[i] ** 2
    return r


@case(X, 2)
def window(x, k):
    n = len(x)
    y = np.zeros(n)
    for i in range(n):
        for j in range(max(0, i - k), min(n, i + k + 1)):
            y[i] += x[j] ** 2 * (j - i)
    return y


@case(X)
def backwards_in_a_window(x):
    n, s = len(x), 0.0
    for i in range(n):
        h = 1.0
        for j in range(min(n - 1, i + 2), max(-1, i - 3), -1):
            h = np.sin(h) + x[j]
        s += h * x[i]
    return s


@case(X)
def slices_as_windows(x):
    n = len(x)
    means = [np.mean(x[max(0, i - 2) : i + 1]) for i in range(n)]
    return np.array(means) + np.array([np.max(x[i : min(n, i + 3)]) for i in range(n)])


@case(X)
def clamped(x):
    n = len(x)
    return np.array([x[max(i - 1, 0)] - 2 * x[i] + x[min(i + 1, n - 1)] for i in range(n)])


@case(X)
def clipped_by_numpy(x):
    n = len(x)
    y = np.zeros(n)
    for i in range(n):
        y[i] = x[np.clip(i - 2, 0, n - 1)] * x[np.minimum(i + 1, n - 1)]
    return y


@case(X)
def recurrence_with_clamped_lag(x):
    y = np.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = 0.5 * y[max(i - 2, 0)] + x[i]
    return y


@case(X)
def around(x):
    n = len(x)
    y = np.zeros(n)
    for i in range(n):
        y[(i + 1) % n] = x[i] ** 2
        y[(i - 1) % n] -= x[i]
    return y


@case(X)
def from_the_end(x):
    n = len(x)
    return np.array([x[-i] * x[-i - 1] for i in range(n)])


@case(X)
def toeplitz(x):
    n = len(x)
    return np.array([[x[abs(i - j)] for j in range(n)] for i in range(n)])


@case(S)
def chosen_index(x):
    n, t = len(x), 0.0
    for i in range(n):
        j = i + 3 if i < n - 3 else i - n + 3
        k = 0
        if i >= 5:
            k = i - 5
        t += x[j, 0] * x[k, 1]
    return t


@case(X)
def guarded_by_and(x):
    s = 0.0
    for i in range(len(x)):
        if i >= 1 and x[i - 1] > 0.1:
            s += x[i] * x[i - 1]
        else:
            s -= 0.5 * x[i]
    return s


@case(X)
def guarded_by_or(x):
    return sum((x[i] if i == 0 or x[i - 1] > 0 else 0.5) * x[i] for i in range(len(x)))


@case(X)
def guarded_twice(x):
    n = len(x)
    return sum(x[i] for i in range(n) if 0 < i < n - 1 and x[i - 1] < x[i] and x[i] > x[i + 1])


@case(X)
def largest_of_prefix(x):
    return sum(x[np.argmax(x[:i])] * x[i] for i in range(1, len(x)))


@case(X)
def empty_or_not(x):
    return np.sum(x**2) if len(x) else 0.0


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_value_and_gradient(function, arguments):
    check(function, arguments)


def test_a_window_costs_its_entries():
    f = tensor(window)
    small, large = (f.cost(np.ones(n), 2).total for n in (50, 100))
    assert large < 2.1 * small


def test_an_index_in_several_cases_is_refused_where_one_is_needed():
    @tensor
    def sliced(x):
        return sum(np.sum(x[:: max(i, 1)]) for i in range(len(x)))

    with pytest.raises(TensorError, match="a step takes one affine expression"):
        sliced(X)


def test_a_variable_is_named_as_it_is_written():
    @tensor
    def filled(x):
        y = np.zeros(len(x))
        y[0] = x[0]
        for i in range(len(x)):
            y[i] = 0.5 * y[i - 1] + x[i]
        return y

    with pytest.raises(TensorError, match=r": y\[i-1\] reads index -1 at i=0; y has 7 entries"):
        filled(X)
