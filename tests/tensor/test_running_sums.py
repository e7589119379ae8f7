"""Sums up to an index, and from it on: in steps of n, not n²."""

from __future__ import annotations

from random import Random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.contraction import contract
from jupyter_hvd.tensor.jax.devices import planned_for
from jupyter_hvd.tensor.jax.runtime import Values
from jupyter_hvd.tensor.language.affine import Affine
from jupyter_hvd.tensor.language.predicates import compare
from jupyter_hvd.tensor.language.terms import Binder
from jupyter_hvd.tensor.lowering import strategy
from jupyter_hvd.tensor.lowering.device import CPU
from jupyter_hvd.tensor.lowering.ir import Access, Contract

R = np.random.default_rng(0)


def up_to(x, y, c: int):
    n, m = len(x), len(y)
    return [x[i] * sum(y[j] for j in range(m) if j <= i + c) for i in range(n)]


def before(x, y, c: int):
    n, m = len(x), len(y)
    return [x[i] * sum(y[j] for j in range(m) if j < i + c) for i in range(n)]


def behind(x, y, c: int):
    n, m = len(x), len(y)
    return [x[i] * sum(y[j] for j in range(m) if i + c < j) for i in range(n)]


def down_to(x, y, c: int):
    n, m = len(x), len(y)
    return [x[i] * sum(y[j] for j in range(m) if i + j <= c + 40) for i in range(n)]


def mirrored(x, y, c: int):
    n, m = len(x), len(y)
    return [x[i] * sum(y[j] for j in range(m) if c + 40 < i + j) for i in range(n)]


def of_pairs(x, y, c: int):
    return sum(x[i] * y[j] for i in range(len(x)) for j in range(len(y)) if i <= j + c)


WITHIN = {
    up_to: lambda i, j, c: j <= i + c,
    before: lambda i, j, c: j < i + c,
    behind: lambda i, j, c: i + c < j,
    down_to: lambda i, j, c: i + j <= c + 40,
    mirrored: lambda i, j, c: c + 40 < i + j,
    of_pairs: lambda i, j, c: i <= j + c,
}


@pytest.mark.parametrize("c", [-200, -3, 0, 1, 5, 200])
@pytest.mark.parametrize("function", WITHIN)
def test_values_and_gradients_are_those_of_the_sums_as_written(function, c, monkeypatch):
    monkeypatch.setattr(strategy, "FEW", 1)
    x, y = R.normal(size=90), R.normal(size=70)
    made = tensor(function)
    M = np.fromfunction(WITHIN[function], (90, 70), c=c) * 1.0
    pairs = function is of_pairs
    expected = x @ M @ y if pairs else x * (M @ y)

    def squares(x, y, c: int):
        return np.sum(np.array(made(x, y, c)) ** 2)

    with jax.enable_x64(True), planned_for(CPU):
        assert c in (-200, 200) or "running sums" in str(made.plan(x, y, c))
        np.testing.assert_allclose(made(x, y, c), expected, rtol=1e-9)
        found = tensor(squares).grad("x", "y")(x, y, c)
    by_x = 2 * expected * (M @ y)
    by_y = 2 * expected * (x @ M) if pairs else 2 * (x * expected) @ M
    np.testing.assert_allclose(found[0], by_x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1], by_y, rtol=1e-9, atol=1e-9)


@tensor
def attended(q, k, v):
    """Attention without its exponentials: what went before, weighed by products."""
    n, d, e = len(q), q.shape[1], v.shape[1]
    return [
        [
            sum(q[i, a] * k[j, a] * v[j, b] for a in range(d) for j in range(n) if j <= i)
            for b in range(e)
        ]
        for i in range(n)
    ]


def test_what_is_multiplied_before_and_after_the_sum():
    q, k, v = R.normal(size=(50, 3)), R.normal(size=(50, 3)), R.normal(size=(50, 4))
    expected = np.tril(q @ k.T) @ v
    np.testing.assert_allclose(attended(q, k, v), expected, atol=1e-4)


def test_an_infinity_reaches_what_comes_after_it_alone():
    x, y = np.ones(90), np.ones(70)
    y[20] = np.inf
    found = np.asarray(tensor(up_to)(x, y, 0))
    assert np.isfinite(found[:20]).all()
    assert np.isinf(found[20:]).all()


def total_of_squares(x):
    return np.sum(np.cumsum(x) ** 2)


def down(x):
    return np.sum(np.cumsum(x, axis=0) ** 3)


def across(x):
    return np.sum(np.cumsum(x, axis=-1) ** 3)


def looped(x):
    s, squares = 0.0, 0.0
    for i in range(len(x)):
        s = s + x[i]
        squares = squares + s
    return squares * s


def test_a_loop_that_only_adds_is_no_loop_in_a_kernel():
    x = R.normal(size=40)
    for f in (total_of_squares, looped):
        made = tensor(f)
        assert "running sums" in str(made.plan(x))
        assert "running sums" in str(made.grad("x").plan(x))
        assert "sequential iterations" not in str(made.grad("x").plan(x))
        with jax.enable_x64(True):
            direct = jax.grad(in_jax(f))(x)
            np.testing.assert_allclose(made.grad("x")(x), direct, rtol=1e-9)


def in_jax(f):
    made = {**f.__globals__, "np": jnp}
    return type(f)(f.__code__, made)


@pytest.mark.parametrize("function", [down, across])
def test_sums_along_an_axis(function):
    x = R.normal(size=(7, 5))
    with jax.enable_x64(True):
        found = tensor(function).grad("x")(x)
        expected = jax.grad(in_jax(function))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def summed_up(x):
    return np.cumsum(x)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_entries(n):
    x = R.normal(size=n)
    np.testing.assert_allclose(tensor(summed_up)(x), np.cumsum(x), rtol=1e-6)


def test_sums_take_n_additions():
    cost = tensor(total_of_squares).cost(np.zeros(1000))
    assert cost.total < 5000


def test_a_loop_of_which_one_value_is_more_than_a_sum_is_one():
    def f(x):
        s, p = 0.0, 1.0
        for i in range(len(x)):
            s = s + x[i]
            p = p * x[i] + s
        return p

    x = R.normal(size=10)
    assert "sequential iterations" in str(tensor(f).plan(x))
    np.testing.assert_allclose(tensor(f)(x), f(x), rtol=1e-5)


def drawn(random):
    """A sum under one inequality: axes, operands that have some of them, with extents and offsets as they come."""
    extents = {i: random.randint(1, 6) for i in "abcd"}
    summed = random.sample("abcd", random.randint(1, 3))
    out = tuple(Binder(i, Affine.of(extents[i])) for i in extents if i not in summed)
    sums = tuple(Binder(i, Affine.of(extents[i])) for i in extents if i in summed)
    reads, arrays = [], {}
    for name in "XYZ"[: random.randint(1, 3)]:
        axes = random.sample("abcd", random.randint(0, 3))
        shifts = [random.randint(-2, 2) for _ in axes]
        arrays[name] = R.normal(size=[random.randint(1, 7) for _ in axes])
        reads.append(
            Access(name, tuple(Affine.of(i) + c for i, c in zip(axes, shifts, strict=True)))
        )
    s = random.choice(summed)
    o = random.choice([i for i in "abcd" if i != s])
    sides = Affine.of(s) * random.choice((1, -1)), Affine.of(o) * random.choice((1, -1))
    mask = compare(random.choice("<≤"), sides[0], sides[1] + random.randint(-7, 7))
    return Contract(out, sums, tuple(reads), mask), arrays


@pytest.mark.slow
@pytest.mark.long
def test_random_sums_agree_with_masked_ones(monkeypatch):
    random, taken = Random(0), 0
    with jax.enable_x64(True):
        for _ in range(50):
            action, arrays = drawn(random)
            found = []
            for few in (1, 1 << 30):
                monkeypatch.setattr(strategy, "FEW", few)
                way = strategy.choose_kernel(action, CPU)
                taken += isinstance(way, strategy.Running)
                values = Values(np.dtype(float), {}, {}, device=CPU)
                values.arrays.update({x: jnp.asarray(a) for x, a in arrays.items()})
                found.append(contract(action, values))
            np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-9, err_msg=str(action))
    assert taken > 10
