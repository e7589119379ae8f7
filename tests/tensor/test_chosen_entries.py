"""Entries that conditions on data choose, entries in order, and linear systems: values as NumPy's, gradients as `jax.grad`'s."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import of_jax
import pytest

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.jax.precision import keeping_float64

R = np.random.default_rng(1)
x, y, A = R.normal(size=8), R.normal(size=8), R.normal(size=(5, 3))
mask = np.array([True, False, True, True, False, False, True, False])
rows = np.array([True, False, True, True, False])


def logs(x):
    return np.log(x[x > 0]).sum() + np.sum(np.sqrt(x[x > 0.5] - 0.5) / x[x > 0.5])


def side_by_side(x, y):
    p = x > 0
    return np.mean((x[p] - y[p]) ** 2) + x[p] @ y[p] + x[p].size * y[0]


def moments(x, m):
    return x[m].sum() + np.std(x[m]) + len(x[m]) * x[0] + np.linalg.norm(x[m]) + x[m].prod()


def some_rows(A, rows):
    return A[A[:, 0] > 0].mean(axis=0).sum() + (A[rows] ** 2).sum()


def of_the_others(x):
    p = x > 0
    q = ~p
    return (0.5 * x[p] ** 2).sum() + (-x[q]).mean()


def reduced_in_a_helper(x):
    def spread(v):
        return ((v - v.mean()) ** 2).mean()

    return spread(x[x < 0.7])


def ties(x):
    z = np.array([x[0], x[1], x[0], x[2]])
    return np.sort(z) @ np.array([1.0, 2.0, 3.0, 5.0]) + np.median(z)


def singular(A):
    return np.linalg.det(A[:3] * 0 + np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]]))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (logs, (x,)),
        (side_by_side, (x, y)),
        (moments, (x, mask)),
        (some_rows, (A, rows)),
        (of_the_others, (x,)),
        (reduced_in_a_helper, (x,)),
        (ties, (x,)),
        (singular, (A,)),
    ],
)
def test_value_and_gradient(function, arguments):
    f = tensor(function)
    np.testing.assert_allclose(f.interpret(*arguments), function(*arguments), atol=1e-12)
    names = [
        n for n, a in zip(f.__signature__.parameters, arguments, strict=True) if a.dtype == float
    ]
    direct = types.FunctionType(function.__code__, {**function.__globals__, "np": jnp})
    with keeping_float64(True):
        expected = of_jax.gradients(direct, range(len(names)), arguments)
    found = f.grad(*names).interpret(*arguments)
    for one, other in zip(found if len(names) > 1 else (found,), expected, strict=True):
        np.testing.assert_allclose(np.asarray(one, float), other, rtol=1e-7, atol=1e-12)


def test_what_is_chosen_is_stored_where_it_came_from():
    def stable_sigmoid(x):
        made, p = np.zeros_like(x), x > 0
        made[p] = 1 / (1 + np.exp(-x[p]))
        made[~p] = np.exp(x[~p]) / (1 + np.exp(x[~p]))
        return made

    np.testing.assert_allclose(tensor(stable_sigmoid).interpret(x), stable_sigmoid(x))


def test_places_beyond_the_bins_are_named():
    @tensor
    def f(w, src):
        return np.bincount(src, weights=w, minlength=3)

    np.testing.assert_allclose(f.interpret(np.ones(3), np.array([0, 2, 2])), [1, 0, 2])
    with pytest.raises(TensorError, match="src"):
        f.interpret(np.ones(3), np.array([0, 3, 2]))


def test_one_entry_in_each_row():
    @tensor
    def f(A, src):
        B = A.copy()
        B[np.arange(len(A)), src] += 10.0
        return B

    src = np.array([0, 2, 1, 1, 0])
    expected = A.copy()
    expected[np.arange(5), src] += 10
    np.testing.assert_allclose(f.interpret(A, src), expected)
    with pytest.raises(TensorError, match="src"):
        f.interpret(A, src + 1)


def test_functions_of_scipy_and_of_trees_are_not_those_of_their_names():
    @tensor
    def f(S):
        return jax.scipy.linalg.cholesky(S)

    @tensor
    def g(A):
        return jax.tree.map(np.sum, A)

    S = A.T @ A + np.eye(3)
    np.testing.assert_allclose(f.interpret(S), np.linalg.cholesky(S).T, atol=1e-12)
    assert g.interpret(A) == pytest.approx(A.sum())


def test_a_system_is_as_accurate_as_numpys():
    """The first entry is tiny: an elimination that takes it for a pivot loses every digit."""

    @tensor
    def f(S, b):
        return np.linalg.solve(S, b)

    S, b = np.array([[1e-18, 1.0], [1.0, 1.0]]), np.array([1.0, 2.0])
    np.testing.assert_allclose(f.interpret(S, b), np.linalg.solve(S, b), rtol=1e-14)


def test_functions_end_where_sizes_say():
    @tensor
    def largest(x):
        n = len(x)
        if n == 1:
            return x[0]
        return np.maximum(largest(x[: n // 2]), largest(x[n // 2 :]))

    assert largest.interpret(x) == max(x)
    assert largest.interpret(x[:5]) == max(x[:5])


def test_places_of_one_iteration_and_of_the_next():
    """Two places of one turn that no turn shares are two columns; where turns share them, the last is right."""

    def columns(x):
        made = np.zeros((len(x), 2))
        for i in range(len(x)):
            made[i, 0] = x[i]
            made[i, 1] = 2 * x[i]
        return made

    def shared(x):
        made = np.zeros(len(x) + 1)
        for i in range(len(x)):
            made[i] = x[i]
            made[i + 1] = 2 * x[i]
        return made

    np.testing.assert_allclose(tensor(columns).interpret(x), columns(x))
    try:
        found = tensor(shared).interpret(x)
    except TensorError:
        return
    np.testing.assert_allclose(found, shared(x))


def test_whole_numbers_stay_places_where_they_are_added_up():
    def parts(flat):
        at, total = 0, 0.0
        for size in [2, 3, 1]:
            total = total + size * flat[at : at + size].sum()
            at += size
        if flat[0] > 0:
            at += 2
        return total * at

    assert tensor(parts).interpret(x) == pytest.approx(parts(x))


def test_chosen_entries_of_a_range_are_indices():
    @tensor
    def equal_parts(z, labels):
        total = 0.0
        for i in range(len(z)):
            others = [p for p in range(len(z)) if p != i and labels[p] == labels[i]]
            total += sum(z[i] @ z[p] for p in others) / len(others)
        return total

    z, labels = R.normal(size=(6, 2)), np.array([0, 1, 0, 1, 1, 0])
    assert "as indices below" not in str(equal_parts.plan(z, labels))
    assert equal_parts(z, labels) == pytest.approx(float(equal_parts.python(z, labels)))

    @tensor
    def beyond(x):
        chosen = [p for p in range(len(x) + 1) if p < len(x) and x[min(p, len(x) - 1)] > 0]
        return sum(x[p] for p in chosen)

    assert beyond(x) == pytest.approx(float(beyond.python(x)))
