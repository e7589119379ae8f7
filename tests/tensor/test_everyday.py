"""Functions as tutorials and benchmarks have them, untouched but for `@tensor`: values are NumPy's,
gradients those of `jax.grad`.
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import of_jax
import pytest

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.precision import keeping_float64

R = np.random.default_rng(3)


def draw(*shape):
    return R.uniform(0.3, 1.3, shape)


CASES = []


def case(*arguments):
    def enter(function):
        CASES.append((function, arguments))
        return function

    return enter


@case(draw(3), draw(8, 3), draw(8))
def least_squares(w, X, y):
    return np.mean((X @ w - y) ** 2)


@case(draw(3), draw(8, 3), draw(8))
def ridge(w, X, y):
    residual = y - X.dot(w)
    return residual @ residual / len(y) + 0.1 * np.sum(w**2)


@case(draw(3), draw(8, 3), np.round(draw(8)))
def logistic_regression(w, X, y):
    p = 0.5 * (np.tanh((X @ w) / 2) + 1)
    return -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))


@case([(draw(5, 3), draw(5)), (draw(2, 5), draw(2))], draw(6, 3), draw(6, 2))
def two_layers(params, X, Y):
    a = X
    for W, b in params:
        a = np.tanh(a @ W.T + b)
    return np.sum((a - Y) ** 2)


@case(draw(4, 3), draw(8, 3))
def kmeans_inertia(centres, points):
    apart = points[:, None, :] - centres[None, :, :]
    return np.sum(np.min(np.sum(apart**2, axis=-1), axis=1))


@case(draw(4), draw(4, 2), draw(6, 2))
def mixture(weights, means, points):
    p = np.exp(-0.5 * np.sum((points[:, None] - means) ** 2, axis=2))
    return np.sum(np.log(p @ (weights / weights.sum())))


@case(draw(5, 4), draw(6, 4), draw(6, 3))
def attention(Q, K, V):
    scores = Q @ K.T / np.sqrt(4.0)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.sum(((e / e.sum(axis=1, keepdims=True)) @ V) ** 2)


@case(draw(6, 5), draw(5), draw(5))
def layer_norm(x, gamma, beta):
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return np.sum(np.sin(gamma * (x - mean) / np.sqrt(var + 1e-5) + beta))


@case(draw(9), 0.1)
def heat_step(u, dt):
    inner = u[1:-1] + dt * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(np.concatenate([u[:1], inner, u[-1:]]) ** 2)


@case(draw(6, 7), draw(3, 2))
def convolution_loops(image, kernel):
    n, m = image.shape
    k, l = kernel.shape  # noqa: E741
    out = np.zeros((n - k + 1, m - l + 1))
    for i in range(n - k + 1):
        for j in range(m - l + 1):
            out[i, j] = np.sum(image[i : i + k, j : j + l] * kernel)
    return np.sum(out**2)


@case(draw(7))
def total_variation(x):
    return np.sum(np.abs(np.diff(x)))


@case(draw(7), draw(7))
def huber(x, y):
    r = np.abs(x - y)
    return np.sum(np.where(r < 0.2, 0.5 * r**2, 0.2 * (r - 0.1)))


@case(draw(6, 3))
def pairwise_energy(x):
    energy = 0.0
    for i in range(len(x)):
        for j in range(i):
            energy += 1 / np.sqrt(np.sum((x[i] - x[j]) ** 2) + 0.1)
    return energy


@case(draw(5))
def rosenbrock(x):
    return sum(100.0 * (b - a**2) ** 2 + (1 - a) ** 2 for a, b in zip(x[:-1], x[1:], strict=True))  # noqa: RUF007


@case(draw(6))
def polynomial(c):
    y = 0.0
    for _ in range(3):
        y = y * 0.7 + c[_]
    return y * np.prod(c)


@case(draw(4, 4), draw(4))
def rayleigh(A, v):
    return v @ A @ v / (v @ v)


@case(draw(5, 4))
def cosine_similarity(X):
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    return np.sum(np.triu(X @ X.T, 1))


@case({"W": draw(4, 3), "U": draw(4, 4), "b": draw(4)}, draw(4), draw(3))
def recurrent_cell(p, h, x):
    return np.sum(np.tanh(p["W"] @ x + p["U"] @ h + p["b"]))


@case(draw(7))
def entropy(x):
    p = x / np.sum(x)
    return -np.sum(p * np.log(p))


@case(draw(6), draw(6))
def correlation(x, y):
    a, b = x - x.mean(), y - y.mean()
    return np.sum(a * b) / np.sqrt(np.sum(a**2) * np.sum(b**2))


@case(draw(4, 3), draw(5, 3))
def gaussian_kernel(X, Y):
    apart = np.sum(X**2, axis=1)[:, None] + np.sum(Y**2, axis=1) - 2 * X @ Y.T
    return np.sum(np.exp(-apart / 2))


@case(draw(3))
def volatility_of_a_step(x):
    steps = 100
    dt = 1 / steps
    return np.sum(np.exp(x * np.sqrt(dt)))


@case(draw(8))
def moving_average(x):
    return np.sum(np.convolve(x, np.ones(3) / 3, mode="valid") ** 2)


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_value_and_gradient(function, arguments):
    f = tensor(function)
    np.testing.assert_allclose(f.interpret(*arguments), function(*arguments), rtol=1e-9)
    if (
        function is convolution_loops
    ):  # It fills an array in place, which JAX's arrays do not allow.
        return
    direct = types.FunctionType(function.__code__, {**function.__globals__, "np": jnp})
    first = next(iter(f.__signature__.parameters))
    with keeping_float64(True):
        expected = jax.tree_util.tree_leaves(
            of_jax.gradients(direct, [0], jax.tree_util.tree_map(jnp.asarray, arguments))
        )
        found = jax.tree_util.tree_leaves(f.grad(first).interpret(*arguments))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)
