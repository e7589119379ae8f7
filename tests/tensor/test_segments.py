"""Segments of an array whose ends are integers that ascend, `ptr[i]` and `ptr[i + 1]`: each costs its own entries."""

import jax
import numpy as np
import pytest
from cases import entering
from differences import check

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(11)
X, V = R.normal(size=9), R.normal(size=7)
PTR = np.array([0, 2, 2, 5, 5, 9])
COLUMNS = R.integers(0, 7, 9)
CASES = []
case = entering(CASES)


@case(X, V, PTR, COLUMNS)
def product_with_a_sparse_matrix(data, v, ptr, columns):
    y = np.zeros(len(ptr) - 1)
    for i in range(len(ptr) - 1):
        for k in range(ptr[i], ptr[i + 1]):
            y[i] += data[k] * v[columns[k]]
    return np.sum(np.sin(y))


@case(X, V, PTR, COLUMNS)
def in_comprehensions(data, v, ptr, columns):
    return [
        sum(data[k] * v[columns[k]] for k in range(ptr[i], ptr[i + 1])) ** 2
        for i in range(len(ptr) - 1)
    ]


@case(X, V, PTR, COLUMNS)
def of_slices(data, v, ptr, columns):
    s = 0.0
    for i in range(len(ptr) - 1):
        a, b = ptr[i], ptr[i + 1]
        s += np.sum(data[a:b] * v[columns[a:b]]) ** 2
    return s


@case(X, PTR)
def by_pairs_of_ends(x, ptr):
    return sum(np.sum(x[a:b]) ** 2 for a, b in zip(ptr[:-1], ptr[1:], strict=True))  # noqa: RUF007


@case(X, PTR)
def in_an_order(x, ptr):
    s = 0.0
    for i in range(len(ptr) - 1):
        h = 0.1
        for k in range(ptr[i], ptr[i + 1]):
            h = np.tanh(h + x[k])
        s += h * (i + 1)
    return s


@case(X, PTR)
def some_segments_and_other_indices(x, ptr):
    s = 0.0
    for i in range(2, len(ptr) - 1):
        for k in range(ptr[i] + 1, ptr[i + 1] + 1):
            if k < len(x) and k != 2 * i:
                s += x[k] * x[k - 1] * (i + k)
    return s


@case(X, PTR)
def with_a_step_and_backwards(x, ptr):
    s = 0.0
    for i in range(len(ptr) - 1):
        for k in range(ptr[i], ptr[i + 1], 2):
            s += x[k] ** 2
        for k in range(ptr[i + 1] - 1, ptr[i] - 1, -1):
            s += x[k] * i
    return s


@case(X, PTR)
def stored_in_slices(x, ptr):
    y = np.zeros(len(x))
    for i in range(len(ptr) - 1):
        y[ptr[i] : ptr[i + 1]] += x[i] ** 2
    return y


ENDS = {
    "all": PTR,
    "late": np.array([3, 4, 4, 8]),
    "single": np.array([0, 9]),
    "empty": np.array([0, 0, 0]),
    "descending": np.array([4, 2, 7, 1, 6]),
}


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_value_gradient_and_cost(function, arguments):
    check(function, arguments)


@pytest.mark.parametrize("ptr", ENDS.values(), ids=ENDS)
def test_ends_of_every_kind(ptr):
    check(by_pairs_of_ends, (X, ptr))


def segment_sums(x, ptr):
    return sum(sum(x[k] for k in range(ptr[i], ptr[i + 1])) ** 2 for i in range(len(ptr) - 1))


def test_ends_may_descend_in_some_calls_only():
    f = tensor(segment_sums)
    for ptr in (PTR, np.array([0, 5, 2, 2, 7, 9]), PTR + 0, np.array([1, 1, 4, 4, 4, 8])):
        np.testing.assert_allclose(f(X, ptr), segment_sums(X, ptr))
        step = np.array([f(X + 1e-6 * e, ptr) - f(X - 1e-6 * e, ptr) for e in np.eye(len(X))])
        np.testing.assert_allclose(f.grad("x")(X, ptr), step / 2e-6, atol=1e-6)


def test_ends_from_outside_may_descend():
    ptr = PTR

    @tensor
    def f(x):
        return sum(np.sum(x[ptr[i] : ptr[i + 1]]) ** 2 for i in range(len(ptr) - 1))

    @tensor
    def g(x):
        return f(x) + f.grad("x")(x)[0]

    for ptr in (PTR, PTR[::-1].copy(), PTR):
        expected = sum(np.sum(X[ptr[i] : ptr[i + 1]]) ** 2 for i in range(len(ptr) - 1))
        np.testing.assert_allclose(f(X), expected)
        np.testing.assert_allclose(g(X), expected + f.grad("x")(X)[0])


def test_an_end_that_leads_out_is_refused():
    f = tensor(segment_sums)
    with pytest.raises(TensorError, match="reads index 9"):
        f(X, np.array([0, 3, 10]))

    @tensor
    def one_too_many(x, ptr):
        return sum(sum(x[k] for k in range(ptr[i], ptr[i + 1])) for i in range(len(ptr)))

    with pytest.raises(TensorError, match=r"`?ptr.* reads index 6"):
        one_too_many(X, PTR)


def test_a_slice_ends_where_the_array_does():
    check(by_pairs_of_ends, (X, np.array([0, 3, 14])))


def test_the_cost_is_that_of_the_entries():
    f = tensor(segment_sums)
    costs = []
    for n in (100, 1000):
        ptr = np.arange(0, 5 * n + 1, 5)
        costs.append(f.grad("x").cost(R.normal(size=5 * n), ptr).total)
    assert costs[1] < 11 * costs[0]


def test_no_array_has_as_many_entries_as_segments_times_positions():
    n = 2000
    ptr, columns = np.arange(0, 4 * n + 1, 4), R.integers(0, n, 4 * n)
    data, v = R.normal(size=4 * n), R.normal(size=n)
    f = tensor(product_with_a_sparse_matrix)
    for g in (f, f.grad("data", "v")):
        plan = g.plan(data, v, ptr, columns)
        assert plan.bound < 2_000_000, str(plan)


def test_under_jit_ends_are_constants():
    f = tensor(segment_sums)
    np.testing.assert_allclose(jax.jit(lambda x: f(x, PTR))(X), segment_sums(X, PTR))
    with pytest.raises(TensorError, match=r"under `jax.jit`"):
        jax.jit(f.jax)(X, PTR)
