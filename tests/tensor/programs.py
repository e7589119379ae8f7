"""The paper's programs and those that the authors' prototype differentiated, each with a direct
JAX version and arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jupyter_hvd.tensor import TensorFunction, tensor


@dataclass(frozen=True)
class Case:
    """A tensor function, arguments for it, what to differentiate it by, and the same written
    directly in JAX.
    """

    function: TensorFunction
    direct: Callable[..., Any]
    arguments: tuple[Any, ...]
    wrt: tuple[str, ...]
    hessian: str | None = None

    @property
    def name(self) -> str:
        return self.function.__name__


def _array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).uniform(0.5, 1.5, shape)


# §2.1: convolution


@tensor
def convolve(x, c):
    n = len(x) - len(c) + 1
    m = len(c)
    return [sum(x[i - j + m - 1] * c[j] for j in range(m)) for i in range(n)]


@tensor
def convolution_loss(x, c, z):
    y = convolve(x, c)
    return sum((y[k] - z[k]) ** 2 for k in range(len(z)))


def direct_convolution_loss(x, c, z):
    import jax.numpy as jnp

    return ((jnp.convolve(x, c, mode="valid") - z) ** 2).sum()


# §2.3: the batched form, the kernel unknown


@tensor
def batched_loss(x, c, z):
    batch, m = x.shape[0], len(c)
    return sum(convolution_loss(x[k], c, z[k]) for k in range(batch)) / m


def direct_batched_loss(x, c, z):
    import jax

    return jax.vmap(direct_convolution_loss, (0, None, 0))(x, c, z).sum() / len(c)


# §1: diagonal matrices


@tensor
def diag(x):
    n = len(x)
    return [[x[i] if i == j else 0 for j in range(n)] for i in range(n)]


@tensor
def trace(A):
    return sum(A[i, i] for i in range(len(A)))


@tensor
def traces(x):
    A = diag(x)
    return trace(A) + trace(A) + trace(A) + trace(A)


def direct_traces(x):
    import jax.numpy as jnp

    return 4 * jnp.trace(jnp.diag(x))


@tensor
def diagonal_dot(x):
    A = diag(x)
    return sum(A[i, 0] * A[0, i] for i in range(len(x)))


def direct_diagonal_dot(x):
    import jax.numpy as jnp

    A = jnp.diag(x)
    return A[:, 0] @ A[0, :]


# §2.2: zero costs


@tensor
def trace_of_eye(x, n: int):
    A = [[x if i == j else 0 for j in range(n)] for i in range(n)]
    return trace(A)


@tensor
def dead_lets(x):
    z0 = x
    z1 = x * x
    z2 = z1 + z0  # noqa: F841
    return 2 * x


@tensor
def additions(x, y):
    a = 2 * x + 3 * y
    b = 4 * x + a
    z = 8 * x
    w = 5 * a + 6 * b
    return z, w


def direct_additions(x, y):
    a = 2 * x + 3 * y
    return 8 * x, 5 * a + 6 * (4 * x + a)


@tensor
def skipping_sum(x):
    return x[0] + x[2] + x[3] + sum(x[i] for i in range(4, len(x)))


@tensor
def product(a, b, c, d, e):
    return a * b * c * d * e


@tensor
def product_by_lets(a, b, c, d, e):
    ab = a * b
    abc = ab * c
    abcd = abc * d
    return abcd * e


# The prototype's list


@tensor
def quadratic_form(A, x):
    n = len(x)
    y = [sum(A[i, j] * x[j] for j in range(n)) for i in range(n)]
    return sum(x[i] * y[i] for i in range(n))


@tensor
def image_gradient(u, f):
    h, w = u.shape
    dx = sum((u[i, j + 1] - u[i, j] - f[i, j]) ** 2 for i in range(h) for j in range(w - 1))
    dy = sum((u[i + 1, j] - u[i, j]) ** 2 for i in range(h - 1) for j in range(w))
    return dx + dy


def direct_image_gradient(u, f):
    dx = ((u[:, 1:] - u[:, :-1] - f[:, :-1]) ** 2).sum()
    return dx + ((u[1:] - u[:-1]) ** 2).sum()


@tensor
def blur(u, f):
    h, w = u.shape
    return sum(
        ((u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + 4 * u[i, j]) / 8 - f[i, j]) ** 2
        for i in range(1, h - 1)
        for j in range(1, w - 1)
    )


def direct_blur(u, f):
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return (((around + 4 * u[1:-1, 1:-1]) / 8 - f[1:-1, 1:-1]) ** 2).sum()


@tensor
def laplacian(u):
    h, w = u.shape
    lap = [
        [
            4 * u[i, j]
            - (u[i - 1, j] if i > 0 else 0)
            - (u[i + 1, j] if i < h - 1 else 0)
            - (u[i, j - 1] if j > 0 else 0)
            - (u[i, j + 1] if j < w - 1 else 0)
            for j in range(w)
        ]
        for i in range(h)
    ]
    return sum(lap[i][j] ** 2 for i in range(h) for j in range(w))


def direct_laplacian(u):
    import jax.numpy as jnp

    p = jnp.pad(u, 1)
    return ((4 * u - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]) ** 2).sum()


@tensor
def masked_stencil(u, M):
    h, w = u.shape
    return sum(
        (u[i, j] - u[i, j + 1]) ** 2 if M[i, j] and not M[i, j + 1] else math.sin(u[i, j])
        for i in range(h)
        for j in range(w - 1)
    )


def direct_masked_stencil(u, M):
    import jax.numpy as jnp

    edge = M[:, :-1] & ~M[:, 1:]
    return jnp.where(edge, (u[:, :-1] - u[:, 1:]) ** 2, jnp.sin(u[:, :-1])).sum()


@tensor
def edge_energy(p, q, a, di: int, dj: int, M):
    """Rigidity along one direction of the grid, for pixels inside the mask."""
    h, w = a.shape
    return sum(
        (p[i + di, j + dj] - p[i, j] - (math.cos(a[i, j]) * di - math.sin(a[i, j]) * dj)) ** 2
        + (q[i + di, j + dj] - q[i, j] - (math.sin(a[i, j]) * di + math.cos(a[i, j]) * dj)) ** 2
        for i in range(h)
        for j in range(w)
        if 0 <= i + di < h and 0 <= j + dj < w and M[i, j] and M[i + di, j + dj]
    )


@tensor
def as_rigid_as_possible(P, a, target, M, C):
    """2-D image warping: positions P and angles a are unknown, M masks the image and C the
    constrained pixels.
    """
    p, q = P
    s, t = target
    h, w = a.shape
    rigid = (
        edge_energy(p, q, a, 1, 0, M)
        + edge_energy(p, q, a, -1, 0, M)
        + edge_energy(p, q, a, 0, 1, M)
        + edge_energy(p, q, a, 0, -1, M)
    )
    fit = sum(
        (p[i, j] - s[i, j]) ** 2 + (q[i, j] - t[i, j]) ** 2
        for i in range(h)
        for j in range(w)
        if C[i, j]
    )
    return 0.5 * rigid + 10 * fit


def direct_as_rigid_as_possible(P, a, target, M, C):
    import jax.numpy as jnp

    (p, q), (s, t) = P, target
    h, w = a.shape
    rigid = 0.0
    for di, dj in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        here = (slice(max(0, -di), h - max(0, di)), slice(max(0, -dj), w - max(0, dj)))
        there = (slice(max(0, di), h + min(0, di)), slice(max(0, dj), w + min(0, dj)))
        c, sn = jnp.cos(a[here]), jnp.sin(a[here])
        x = p[there] - p[here] - (c * di - sn * dj)
        y = q[there] - q[here] - (sn * di + c * dj)
        rigid += jnp.where(M[here] & M[there], x**2 + y**2, 0).sum()
    fit = jnp.where(C, (p - s) ** 2 + (q - t) ** 2, 0).sum()
    return 0.5 * rigid + 10 * fit


@tensor
def gravity(x, m):
    n, d = x.shape
    square = [
        [sum((x[i, k] - x[j, k]) ** 2 for k in range(d)) if i < j else 0 for j in range(n)]
        for i in range(n)
    ]
    return sum(-m[i] * m[j] / math.sqrt(square[i][j]) for i in range(n) for j in range(n) if i < j)


def direct_gravity(x, m):
    import jax.numpy as jnp

    i, j = jnp.triu_indices(len(m), 1)
    return -(m[i] * m[j] / jnp.sqrt(((x[i] - x[j]) ** 2).sum(1))).sum()


@tensor
def factorisation(W, H, A):
    n, k = W.shape
    m = H.shape[1]
    Y = [[sum(W[i, r] * H[r, j] for r in range(k)) for j in range(m)] for i in range(n)]
    return sum(np.log(Y[i][j]) + A[i, j] / Y[i][j] for i in range(n) for j in range(m))


def direct_factorisation(W, H, A):
    import jax.numpy as jnp

    Y = W @ H
    return (jnp.log(Y) + A / Y).sum()


@tensor
def catenary(x, y, length):
    n = len(x)
    stretch = sum(
        (math.sqrt((x[i + 1] - x[i]) ** 2 + (y[i + 1] - y[i]) ** 2) - length) ** 2
        for i in range(n - 1)
    )
    ends = x[0] ** 2 + y[0] ** 2 + (x[-1] - 1) ** 2 + y[-1] ** 2
    return 50 * stretch + sum(y[i] for i in range(n)) / n + 100 * ends


def direct_catenary(x, y, length):
    import jax.numpy as jnp

    stretch = ((jnp.sqrt(jnp.diff(x) ** 2 + jnp.diff(y) ** 2) - length) ** 2).sum()
    ends = x[0] ** 2 + y[0] ** 2 + (x[-1] - 1) ** 2 + y[-1] ** 2
    return 50 * stretch + y.mean() + 100 * ends


@tensor
def springs(x, src, dst, rest):
    return sum((np.abs(x[src[e]] - x[dst[e]]) - rest[e]) ** 2 for e in range(len(rest)))


def direct_springs(x, src, dst, rest):
    import jax.numpy as jnp

    return ((jnp.abs(x[src] - x[dst]) - rest) ** 2).sum()


@tensor
def tables(x, y):
    """Arrays of pairs, black boxes of two arguments, and a choice."""
    n = len(x)
    polar = [(np.hypot(x[i], y[i]), np.arctan2(y[i], x[i])) for i in range(n)]
    turned = [
        (polar[i][0], polar[i][1] * 2) if i < n - 1 else (polar[i][0] ** 3, 0.25) for i in range(n)
    ]
    r = [turned[i][0] for i in range(n)]
    return sum(max(r[i], 1.2) * np.tanh(turned[i][1]) + x[i] ** y[i] for i in range(n))


def direct_tables(x, y):
    import jax.numpy as jnp

    r, t = jnp.hypot(x, y), jnp.arctan2(y, x)
    last = jnp.arange(len(x)) == len(x) - 1
    r, t = jnp.where(last, r**3, r), jnp.where(last, 0.25, 2 * t)
    return (jnp.maximum(r, 1.2) * jnp.tanh(t) + x**y).sum()


_IMAGE, _OTHER = _array(5, 4), _array(5, 4, seed=1)
_MASK = np.random.default_rng(3).uniform(size=(5, 4)) < 0.8
_FIXED = np.random.default_rng(4).uniform(size=(5, 4)) < 0.2
_SCALARS = tuple(float(s) for s in _array(5))

CASES = (
    Case(
        convolution_loss,
        direct_convolution_loss,
        (_array(7), _array(3), _array(5)),
        ("x", "c"),
        "x",
    ),
    Case(batched_loss, direct_batched_loss, (_array(2, 7), _array(3), _array(2, 5)), ("c",), "c"),
    Case(traces, direct_traces, (_array(4),), ("x",), "x"),
    Case(diagonal_dot, direct_diagonal_dot, (_array(4),), ("x",), "x"),
    Case(trace_of_eye, lambda x, n: x * n, (1.5, 4), ("x",)),
    Case(dead_lets, lambda x: 2 * x, (1.5,), ("x",)),
    Case(additions, direct_additions, (1.5, 2.5), ("x", "y")),
    Case(skipping_sum, lambda x: x[0] + x[2:].sum(), (_array(7),), ("x",)),
    Case(product, product.python, _SCALARS, ("a", "b", "c", "d", "e"), "a"),
    Case(product_by_lets, product.python, _SCALARS, ("a", "b", "c", "d", "e")),
    Case(quadratic_form, lambda A, x: x @ A @ x, (_array(3, 3), _array(3)), ("A", "x"), "x"),
    Case(image_gradient, direct_image_gradient, (_IMAGE, _OTHER), ("u", "f"), "u"),
    Case(blur, direct_blur, (_IMAGE, _OTHER), ("u",), "u"),
    Case(laplacian, direct_laplacian, (_IMAGE,), ("u",), "u"),
    Case(masked_stencil, direct_masked_stencil, (_IMAGE, _MASK), ("u",), "u"),
    Case(
        as_rigid_as_possible,
        direct_as_rigid_as_possible,
        ((_IMAGE, _OTHER), _array(5, 4, seed=2), (_OTHER, _IMAGE), _MASK, _FIXED),
        ("P", "a"),
        "a",
    ),
    Case(gravity, direct_gravity, (_array(5, 2), _array(5)), ("x", "m"), "x"),
    Case(
        factorisation,
        direct_factorisation,
        (_array(3, 2), _array(2, 4), _array(3, 4)),
        ("W", "H"),
        "W",
    ),
    Case(catenary, direct_catenary, (_array(5), _array(5, seed=1), 0.25), ("x", "y"), "y"),
    Case(
        springs,
        direct_springs,
        (_array(4), np.array([0, 1, 2, 3, 0]), np.array([1, 2, 3, 0, 2]), _array(5)),
        ("x", "rest"),
        "x",
    ),
    Case(tables, direct_tables, (_array(4), _array(4, seed=1)), ("x", "y"), "x"),
)
