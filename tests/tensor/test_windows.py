"""Arrays of all windows are made one entry of the windows at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.lowering.tiling import Blocks

R = np.random.default_rng(5)
IMAGE, OTHER = R.uniform(size=(70, 74)), R.uniform(size=(70, 74))
SIGNAL = R.normal(size=5000)


def bilateral(xp, x):
    """A loop over the window for NumPy's and JAX's arrays."""
    n, m = x.shape
    above = below = 0
    for p in range(5):
        for q in range(5):
            there = x[p : n - 4 + p, q : m - 4 + q]
            w = xp.exp(
                -((there - x[2 : n - 2, 2 : m - 2]) ** 2) - 0.1 * ((p - 2) ** 2 + (q - 2) ** 2)
            )
            above, below = above + w * there, below + w
    return xp.sum((above / below) ** 2)


@tensor
def bilateral_by_entries(x):
    n, m = x.shape
    total = 0.0
    for i in range(2, n - 2):
        for j in range(2, m - 2):
            w = np.array(
                [
                    [
                        np.exp(-((x[i + p, j + q] - x[i, j]) ** 2) - 0.1 * (p * p + q * q))
                        for q in range(-2, 3)
                    ]
                    for p in range(-2, 3)
                ]
            )
            total += (np.sum(w * x[i - 2 : i + 3, j - 2 : j + 3]) / np.sum(w)) ** 2
    return total


@tensor
def covariances(x, y):
    wx = np.lib.stride_tricks.sliding_window_view(x, (3, 4))
    wy = np.lib.stride_tricks.sliding_window_view(y, (3, 4))
    mx, my = wx.mean(axis=(2, 3)), wy.mean(axis=(2, 3))
    cov = ((wx - mx[:, :, None, None]) * (wy - my[:, :, None, None])).mean(axis=(2, 3))
    return np.sum(cov / (wx.var(axis=(2, 3)) + wy.var(axis=(2, 3)) + 0.1))


def covariances_in_jax(x, y):
    def mean(a):
        rows = sum(a[p : p + 68] for p in range(3))
        return sum(rows[:, q : q + 71] for q in range(4)) / 12

    mx, my = mean(x), mean(y)
    cov, vx, vy = mean(x * y) - mx * my, mean(x * x) - mx**2, mean(y * y) - my**2
    return jnp.sum(cov / (vx + vy + 0.1))


@tensor
def weighted(x, w):
    """The weights of a window have slopes, too, which are sums over all of its places."""
    n, k = len(x), len(w)
    y = [sum(np.tanh(w[p] * x[i + p]) for p in range(k)) for i in range(n - k + 1)]
    return np.sum(np.array(y) ** 2)


def weighted_in_jax(x, w):
    n, k = len(x), len(w)
    return jnp.sum(sum(jnp.tanh(w[p] * x[p : p + n - k + 1]) for p in range(k)) ** 2)


@tensor
def beyond_the_ends(x):
    """Windows that are cut off at both ends, and a step of two."""
    n = len(x)
    y = [
        sum(
            np.exp(-((x[i + 2 * p] - x[i]) ** 2)) if i + 2 * p >= 0 and i + 2 * p < n else 0
            for p in range(-3, 4)
        )
        for i in range(n)
    ]
    return np.sum(np.sin(np.array(y)))


def beyond_the_ends_in_jax(x):
    n, total = len(x), 0
    for p in range(-3, 4):
        low, high = max(0, -2 * p), n - max(0, 2 * p)
        there = jnp.exp(-((x[low + 2 * p : high + 2 * p] - x[low:high]) ** 2))
        total = total + jnp.zeros(n).at[low:high].add(there)
    return jnp.sum(jnp.sin(total))


CASES = {
    "bilateral": (bilateral_by_entries, lambda x: bilateral(jnp, x), (IMAGE,)),
    "covariances": (covariances, covariances_in_jax, (IMAGE, OTHER)),
    "weighted": (weighted, weighted_in_jax, (SIGNAL, R.normal(size=6))),
    "beyond the ends": (beyond_the_ends, beyond_the_ends_in_jax, (SIGNAL,)),
}


def gradient(name):
    function, direct, arguments = CASES[name]
    names = tuple(function.__wrapped__.__code__.co_varnames[: len(arguments)])
    return function.value_and_grad(*names), direct, arguments


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_jax(name):
    ours, direct, arguments = gradient(name)
    value, slopes = ours(*arguments)
    with jax.enable_x64():
        expected, due = jax.value_and_grad(direct, tuple(range(len(arguments))))(*arguments)
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    for slope, d in zip(slopes if len(arguments) > 1 else (slopes,), due, strict=True):
        np.testing.assert_allclose(slope, d, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_no_array_of_all_windows_is_made(name):
    ours, _, arguments = gradient(name)
    plan = ours.plan(*arguments)
    assert any(isinstance(part, Blocks) and part.windows for part in plan.order)
    largest = max(int(np.prod(shape)) for shape in plan.shapes().values())
    assert largest <= max(np.size(x) for x in arguments) + 20


def test_few_windows_are_made_at_once():
    ours, _, arguments = gradient("bilateral")
    plan = ours.plan(*(x[:20, :20] for x in arguments))
    assert not any(isinstance(part, Blocks) for part in plan.order)
