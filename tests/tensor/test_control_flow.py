"""`continue`, `break`, `while`, and names that have a value in one branch of an `if`: values are Python's, gradients as by
differences.
"""

import numpy as np
import pytest
from cases import entering
from differences import check

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(1)
X, P = R.normal(size=7), R.normal(size=(7, 2))
CASES = []
case = entering(CASES)


@case(P)
def name_of_one_branch(x):
    e = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j:
                d = x[i] - x[j]
                e += np.sum(d * d)
        if x[i, 0] > 0:
            d = x[i, 1] ** 2
            e += d
    return e


@case(X)
def read_where_it_has_a_value(x):
    s = 0.0
    for i in range(len(x)):
        if i > 0:
            p = x[i - 1]
        if i > 2:
            s += p * x[i]
    return s


@case(X)
def continued(x):
    n, s = len(x), 0.0
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            if j > i + 2:
                s -= x[j]
                if x[j] > 0:
                    continue
                s += 0.5
            elif j == 0:
                continue
            else:
                s += x[i]
            s += x[i] * x[j] / (i - j)
        s = s * 0.9
    return s


@case(X)
def continued_in_a_recurrence(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        if i == 0:
            y[i] = x[i]
            continue
        y[i] = 0.5 * y[i - 1] + x[i]
    return y


@case(X)
def ended_by_data(x):
    n, s = len(x), 0.0
    for i in range(n):
        for j in range(n):
            if x[i] * x[j] > 0.8:
                break
            s += x[i] * x[j]
        if s > 5:
            s += x[0]
            break
    return s


@case(X)
def ended_by_an_index(x):
    s = 0.0
    for i in range(len(x)):
        if i > 3:
            break
        if i == 1:
            continue
        s += x[i] ** 2
    return s


@case(X)
def newton(x):
    z = 1.0
    for _ in range(50):
        d = (z * z - 2 - x[0] ** 2) / (2 * z)
        z = z - d
        if abs(d) < 1e-10:
            break
    return z


@case(X)
def first_found(x):
    found = 0.0
    for i in range(len(x)):
        if x[i] > 0.2:
            found = x[i] ** 2
            break
    return found


@case(np.concatenate([X, X[:1]]))
def halved(x):
    while len(x) > 1:
        x = x[::2] + x[1::2] ** 2
    return x[0]


@case(X)
def counted(x):
    i, s = 0, 0.0
    while i < len(x):
        s += x[i] * i
        i += 2
    return s


@case(X)
def list_that_is_filled(x):
    h = [x[0], x[1], 0.0]
    for i in range(3):
        h[i] = h[i] + x[i]
    return h[0] * h[1] * h[2]


@case(X)
def entries_swapped(x):
    h, y = np.array([x[0], x[1]]), x.copy()
    for i in range(len(x) - 1):
        h[0], s, h[1] = h[1], i + 1, h[0] + x[i]
        if y[i] > y[i + 1]:
            y[i], y[i + 1] = s * y[i + 1], y[i]
    return y * h[0] * h[1]


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_value_and_gradient(function, arguments):
    check(function, arguments)


def unset(x):
    s = 0.0
    for i in range(len(x)):
        if i % 2 == 0:
            p = x[i]
        s += p
    return s


def unset_by_data(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0:
            p = x[i]
        s += p
    return s


@pytest.mark.parametrize("function", [unset, unset_by_data])
def test_a_name_is_read_where_it_may_have_no_value(function):
    with pytest.raises(TensorError, match=r"(?s)s \+= p.*in the other branch, too") as caught:
        tensor(function)(X)
    assert "history" not in str(caught.value)


def test_a_while_loop_that_data_decide_says_what_to_write():
    @tensor
    def grown(x):
        z = x[0]
        while z < 10:
            z = z * z + 1
        return z

    with pytest.raises(TensorError, match=r"at most, and end it there"):
        grown(X)


def test_a_loop_that_may_end_costs_its_bound():
    f = tensor(first_found)
    costs = [f.cost(np.ones(n)).total for n in (10, 20, 40)]
    assert costs[2] - costs[1] == 2 * (costs[1] - costs[0])
