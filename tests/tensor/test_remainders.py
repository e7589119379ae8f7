"""Indices that are divided by constants, `i % 2 == 0` and `x[i // 2]`, with values as NumPy has them and gradients as by
differences.
"""

from itertools import product

import numpy as np
import pytest
from cases import entering_by_name
from differences import check

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.language.affine import Affine
from jupyter_hvd.tensor.language.predicates import Exists, compare, negate
from jupyter_hvd.tensor.reference.evaluate import Environment, holds

R = np.random.default_rng(7)
X, A = R.uniform(0.3, 1.3, 9), R.uniform(0.3, 1.3, (4, 5))
CASES = {}
case = entering_by_name(CASES)


@case(X)
def even(x):
    return sum(x[i] ** 2 for i in range(len(x)) if i % 2 == 0)


@case(X)
def odd(x):
    return sum(x[i] ** 2 for i in range(len(x)) if i % 2)


@case(X)
def not_odd(x):
    return sum(x[i] ** 2 for i in range(len(x)) if not i % 2)


@case(X)
def between(x):
    return sum(x[i] ** 2 for i in range(len(x)) if 1 <= i % 4 < 3)


@case(X)
def differences_modulo(x):
    n = len(x)
    return sum(x[i] * x[j] for i in range(n) for j in range(n) if (i - j) % 3 == 1)


@case(X)
def same_remainder(x):
    n = len(x)
    return sum(x[i] * x[j] for i in range(n) for j in range(n) if i % 3 == j % 3)


@case(X)
def modulo_the_size(x):
    n = len(x)
    return sum(x[i] * x[j] for i in range(n) for j in range(n) if (2 * i) % n == j)


@case(X)
def quotient(x):
    n = len(x)
    return sum(x[i] * x[j] for i in range(n) for j in range(n) if i // 2 == j)


@case(X)
def quotients_compared(x):
    n = len(x)
    return sum(
        x[i] * x[j] * ((i // 2 <= j) + 2 * (i // 3 > j) + 4 * (i // 2 != j) + 8 * (i // 2 < j))
        for i in range(n)
        for j in range(n)
        if i // 2 <= j // 3
    )


@case(X)
def simpson(x):
    n = len(x) - 1
    weighted = sum(
        (1 if i == 0 or i == n else 4 if i % 2 == 1 else 2) * x[i] ** 2 for i in range(n + 1)
    )
    return weighted / (3 * n)


@case(X)
def alternating(x):
    return np.array([x[i] ** 2 if i % 2 == 0 else -x[i] for i in range(len(x))])


@case(X)
def as_numbers(x):
    n = len(x)
    return sum((-1) ** (i % 2) * (i % 3) * x[i] + (i // 4) * x[i] ** 2 for i in range(n))


@case(X)
def entry_of_the_half(x):
    return np.array([x[i // 2] * x[i] for i in range(len(x))])


@case(X)
def entry_many_times_round(x):
    return np.array([x[(i - 5) % 3] * x[i] for i in range(len(x))])


@case(A)
def rows_of_the_half(A):
    return np.array([A[i // 2] * A[i] for i in range(A.shape[0])])


@case(A)
def checkers(A):
    n, m = A.shape
    return np.array(
        [[A[i, j] ** 2 if (i + j) % 2 == 0 else 0.0 for j in range(m)] for i in range(n)]
    )


@case(X)
def in_a_loop(x):
    s = 0.0
    for i in range(len(x)):
        if i % 2 == 0:
            s += x[i] ** 2
        else:
            s -= x[i]
    return s


@case(X)
def stored(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        if i % 2 == 0:
            y[i] = x[i] ** 2
        else:
            y[i] = 3 * x[i]
    return y


@case(X)
def stored_in_every_third(x):
    y = x.copy()
    for i in range(0, len(x), 3):
        y[i] = x[i] ** 2
    return y


@case(X)
def added_by_remainder(x):
    y = np.zeros(3)
    for i in range(len(x)):
        y[i % 3] += x[i] ** 2
    return y


@case(X)
def added_by_quotient(x):
    y = np.zeros(5)
    for i in range(len(x)):
        y[i // 2] += x[i] ** 2
    return y


@case(X)
def carried(x):
    h = 0.0
    for t in range(len(x)):
        h = np.tanh(h + x[t]) if t % 3 == 0 else 0.5 * h
    return h


@case(X, -3)
def by_an_offset_that_is_given(x, k):
    return sum(x[i] ** 2 for i in range(len(x)) if (i + k) % 2 == 1)


@case(X, 3)
def by_a_divisor_that_is_given(x, k):
    return sum(x[i] ** 2 for i in range(len(x)) if i % k == 1)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    f = check(*CASES[name])
    arguments = CASES[name][1]
    formula = f.cost_formula().evaluate(Environment({}, f.last_sizes))
    assert formula == f.cost(*arguments).total


def test_half_of_the_terms_cost_half():
    costs = {}
    for name in ("even", "odd"):
        f = tensor(CASES[name][0])
        f(np.ones(100))
        costs[name] = f.cost(np.ones(100)).total
    assert costs == {"even": 99, "odd": 99}


def test_the_complement_of_a_multiple():
    for k, r, size in product((-3, -2, 2, 5), (-1, 0, 1), (0, 1, 4)):
        a = Affine.of("i") + r
        p = Exists("q", Affine.of(size), compare("=", a, Affine.of("q") * k))
        other = negate(p)
        for i in range(-20, 21):
            env = Environment({}, {"i": i})
            assert holds(p, env) != holds(other, env)


def test_a_quotient_out_of_range_is_reported():
    @tensor
    def beyond(x):
        y = x[:2]
        return sum(y[i // 2] * x[i] for i in range(len(x)))

    with pytest.raises(TensorError, match="reads index"):
        beyond(X)


def test_a_remainder_that_is_no_size_is_refused():
    @tensor
    def repeated(x):
        return sum(sum(x[j] for j in range(i % len(x))) for i in range(len(x)))

    with pytest.raises(TensorError, match="not affine"):
        repeated(X)
