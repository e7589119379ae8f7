"""The largest entry and the order of entries are functions of whole arrays: right with ties, what is no number and no entries, to
the second derivative; one reduction or sort in a kernel; made once for all sizes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.kernel import Kernel
from jupyter_hvd.tensor.jax.precision import keeping_float64
from jupyter_hvd.tensor.language.errors import TensorError
from jupyter_hvd.tensor.lowering.choices import DENSE, MODEL
from jupyter_hvd.tensor.lowering.ir import Reduce, Whole

WAYS = pytest.mark.parametrize("choices", [MODEL, DENSE], ids=["model", "dense"])


def numbers(*shape: int) -> np.ndarray:
    """Small whole numbers, of which many are equal."""
    return np.random.default_rng(3).integers(-2, 3, shape).astype(float)


def largest(A):
    return np.sum(np.max(A, axis=(0, 2)) ** 3) + np.max(A) ** 2


def smallest_rows(A):
    return np.sum(np.min(A * A, axis=1, keepdims=True) * A)


def spread(A):
    return np.sum(np.ptp(A, axis=0) ** 2)


def normalized(A):
    return np.sum(jax.nn.log_softmax(A, axis=1)[0] ** 2) + jax.nn.logsumexp(A[:, 0]) ** 2


def sorted_columns(A):
    return np.sum(np.sort(A, axis=0) ** 2 * np.arange(len(A))[:, None])


def middle(A):
    return np.sum(np.median(A, axis=1) ** 3) + np.quantile(A.ravel(), 0.3) ** 2


def largest_two(A):
    return np.sum(jax.lax.top_k(A, 2)[0] ** 3)


CASES = [
    (largest, (4, 3, 5)),
    (smallest_rows, (4, 5)),
    (spread, (6, 3)),
    (normalized, (4, 5)),
    (sorted_columns, (7, 4)),
    (middle, (5, 6)),
    (largest_two, (3, 6)),
]


def in_jax(function):
    """The function with JAX's arrays."""
    return type(function)(function.__code__, {**function.__globals__, "np": jnp})


@WAYS
@pytest.mark.parametrize(("function", "shape"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_values_and_derivatives_are_those_of_jax(function, shape, choices, monkeypatch):
    """Also among equal entries, which share a derivative; those that are sorted have none of their own."""
    monkeypatch.setattr(Kernel, "choices", lambda *_: choices)
    A = numbers(*shape)
    if function in (sorted_columns, middle, largest_two, normalized):
        A += np.random.default_rng(5).uniform(0, 0.1, shape)
    f = tensor(function)
    with keeping_float64(True):
        np.testing.assert_allclose(f(A), in_jax(function)(A), rtol=1e-9)
        gradient = jax.grad(in_jax(function))
        np.testing.assert_allclose(f.grad("A")(A), gradient(A), rtol=1e-9, atol=1e-12)
        along = np.random.default_rng(6).normal(size=shape)
        twice = jax.jvp(gradient, (A,), (along,))[1]
        np.testing.assert_allclose(f.grad("A").jvp("A")(A, along), twice, rtol=1e-9, atol=1e-9)


@WAYS
def test_what_is_no_number_makes_a_maximum_none(choices, monkeypatch):
    monkeypatch.setattr(Kernel, "choices", lambda *_: choices)
    x = np.array([[1.0, np.nan, 3.0], [-np.inf, -np.inf, -np.inf], [np.inf, 1.0, np.inf]])

    @tensor
    def rows(x):
        return np.max(x, axis=1)

    with keeping_float64(True):
        np.testing.assert_array_equal(rows(x), np.max(x, axis=1))
        made = rows.vjp("x")(x, np.ones(3))
    np.testing.assert_array_equal(made, [[0, 0, 0], [1 / 3] * 3, [0.5, 0, 0.5]])


@WAYS
def test_no_entries(choices, monkeypatch):
    """A start is their maximum; without one there is none, which is found when a call says the size."""
    monkeypatch.setattr(Kernel, "choices", lambda *_: choices)

    @tensor
    def started(A):
        return np.max(A, axis=1, initial=-1.0)

    @tensor
    def plain(x):
        return np.max(x)

    @tensor
    def conditions(x):
        return np.any(x > 0) + 2 * np.all(x > 0)

    np.testing.assert_array_equal(started(np.zeros((2, 0))), [-1, -1])
    np.testing.assert_array_equal(started(np.zeros((0, 2))), [])
    assert plain(np.ones(3)) == 1
    with pytest.raises(TensorError):
        plain(np.ones(0))
    assert conditions(np.ones(0)) == 2


@WAYS
def test_a_list_for_each_row_is_searched(choices, monkeypatch):
    monkeypatch.setattr(Kernel, "choices", lambda *_: choices)
    among = np.sort(numbers(4, 9), axis=1)
    wanted = numbers(4, 5)

    @tensor
    def places(among, wanted):
        return [np.searchsorted(among[k], wanted[k], "right") for k in range(len(among))]

    @tensor
    def one_by_one(among, wanted):
        return [[np.searchsorted(among[0], v) for v in row] for row in wanted]

    expected = [np.searchsorted(a, v, "right") for a, v in zip(among, wanted, strict=True)]
    np.testing.assert_array_equal(places(among, wanted), expected)
    np.testing.assert_array_equal(one_by_one(among, wanted), np.searchsorted(among[0], wanted))


def test_a_kernel_reduces_and_sorts_once():
    """Along any axis, and without a copy of the array."""
    A = np.ones((50, 60), np.float32)

    @tensor
    def f(A):
        return np.sum(np.max(A, axis=0) ** 2) + np.sum(np.sort(A, axis=1)[:, 0])

    plan = f.plan(A)
    reductions = [s.action for s in plan.order if isinstance(s.action, Reduce)]
    assert [(a.function, a.shape) for a in reductions] == [("maximum", (60,))]
    loaded = next(s.name for s in plan.order if plan.shapes()[s.name] == (50, 60))
    assert {r.array for a in reductions for r in a.accesses} == {loaded}
    sorts = [s.action for s in plan.order if isinstance(s.action, Whole)]
    assert [(a.definition.name, a.operands) for a in sorts] == [("order", (loaded,))]


def test_sizes_need_not_be_numbers():
    """A maximum is traced once for all sizes of a call."""

    @tensor
    def f(x):
        return np.max(x) + jax.nn.logsumexp(x)

    for n in (3, 4, 5):
        f(np.arange(n, dtype=float))
    assert str(f.program).count("x_0") > 1
    assert f.cost_formula().evaluate(x_0=4) < f.cost_formula().evaluate(x_0=8)
