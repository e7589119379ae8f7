"""The programs that `tensor_kernels.py` measures, each as a tensor function and as direct JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jupyter_hvd.tensor import TensorFunction, tensor


@dataclass(frozen=True)
class Benchmark:
    """A program, the same in JAX, and its arguments at a size (float32; `wrt` by name).

    `kind` is `grad` or `hessian`; `size` is that of the comparison, `large` that at which JAX need
    not run; `direct_size` is smaller where JAX cannot run at `size`.
    """

    name: str
    function: TensorFunction
    direct: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    wrt: tuple[str, ...]
    size: int
    large: int | None = None
    kind: str = "grad"

    @property
    def places(self) -> tuple[int, ...]:
        names = list(self.function.__signature__.parameters)
        return tuple(names.index(x) for x in self.wrt)


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(np.float32)


def _uniform(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).uniform(0.5, 1.5, shape).astype(np.float32)


# Structure


@tensor
def diag(x):
    n = len(x)
    return [[x[i] if i == j else 0 for j in range(n)] for i in range(n)]


@tensor
def trace(A):
    return sum(A[i, i] for i in range(len(A)))


@tensor
def diagonal_dot(x):
    A = diag(x)
    return sum(A[i, 0] * A[0, i] for i in range(len(x)))


def direct_diagonal_dot(x):
    import jax.numpy as jnp

    A = jnp.diag(x)
    return A[:, 0] @ A[0, :]


@tensor
def eight_traces(x):
    A = diag(x)
    return (
        trace(A) + trace(A) + trace(A) + trace(A) + trace(A) + trace(A) + trace(A) + trace(A) ** 2
    )


def direct_eight_traces(x):
    import jax.numpy as jnp

    A = jnp.diag(x)
    return sum(jnp.trace(A) for _ in range(7)) + jnp.trace(A) ** 2


@tensor
def tridiagonal(a, b, w):
    n = len(a)
    A = [
        [
            (a[i] if i == j else 0) + (b[i] if i == j + 1 else 0) + (b[j] if j == i + 1 else 0)
            for j in range(n)
        ]
        for i in range(n)
    ]
    y = [sum(A[i][j] * w[j] for j in range(n)) for i in range(n)]
    return sum(w[i] * y[i] for i in range(n))


def direct_tridiagonal(a, b, w):
    import jax.numpy as jnp

    A = jnp.diag(a) + jnp.diag(b[1:], -1) + jnp.diag(b[1:], 1)
    return w @ A @ w


@tensor
def quadratic_form(A, x):
    n = len(x)
    y = [sum(A[i, j] * x[j] for j in range(n)) for i in range(n)]
    return sum(x[i] * y[i] for i in range(n))


def direct_quadratic_form(A, x):
    return x @ A @ x


@tensor
def block_diagonal(B, x):
    nb, k = x.shape
    A = [
        [[[B[b, i, j] if b == c else 0 for j in range(k)] for c in range(nb)] for i in range(k)]
        for b in range(nb)
    ]
    return sum(
        x[b, i] * A[b][i][c][j] * x[c, j]
        for b in range(nb)
        for i in range(k)
        for c in range(nb)
        for j in range(k)
    )


def direct_block_diagonal(B, x):
    import jax.numpy as jnp

    nb, k = x.shape
    A = jnp.einsum("bij,bc->bicj", B, jnp.eye(nb, dtype=B.dtype)).reshape(nb * k, nb * k)
    return x.ravel() @ A @ x.ravel()


@tensor
def banded(D, x):
    """D has the diagonals -8 to 8 as columns."""
    n = len(x)
    A = [[D[i, j - i + 8] if -8 <= j - i <= 8 else 0 for j in range(n)] for i in range(n)]
    y = [sum(A[i][j] * x[j] for j in range(n)) for i in range(n)]
    return sum(x[i] * y[i] for i in range(n))


def direct_banded(D, x):
    import jax.numpy as jnp

    n = len(x)
    i, j = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
    A = jnp.where(jnp.abs(j - i) <= 8, D[i, jnp.clip(j - i + 8, 0, 16)], 0)
    return x @ A @ x


@tensor
def kronecker(A, B, x, z):
    n, m = z.shape
    K = [
        [[[A[i, j] * B[p, q] for q in range(m)] for j in range(n)] for p in range(m)]
        for i in range(n)
    ]
    y = [
        [sum(K[i][p][j][q] * x[j, q] for j in range(n) for q in range(m)) for p in range(m)]
        for i in range(n)
    ]
    return sum((y[i][p] - z[i, p]) ** 2 for i in range(n) for p in range(m))


def direct_kronecker(A, B, x, z):
    import jax.numpy as jnp

    return ((jnp.kron(A, B) @ x.ravel() - z.ravel()) ** 2).sum()


@tensor
def triangular_residual(L, x, b):
    n = len(x)
    r = [sum(L[i, j] * x[j] for j in range(n) if j <= i) - b[i] for i in range(n)]
    return sum(r[i] ** 2 for i in range(n))


def direct_triangular_residual(L, x, b):
    import jax.numpy as jnp

    return ((jnp.tril(L) @ x - b) ** 2).sum()


# Dense


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
def convolution_loss(x, c, z):
    m = len(c)
    y = [sum(x[i - j + m - 1] * c[j] for j in range(m)) for i in range(len(z))]
    return sum((y[k] - z[k]) ** 2 for k in range(len(z)))


def direct_convolution_loss(x, c, z):
    import jax.numpy as jnp

    return ((jnp.convolve(x, c, mode="valid") - z) ** 2).sum()


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
def gravity(x, m):
    n, d = x.shape
    square = [
        [sum((x[i, k] - x[j, k]) ** 2 for k in range(d)) if i < j else 0 for j in range(n)]
        for i in range(n)
    ]
    return sum(-m[i] * m[j] / math.sqrt(square[i][j]) for i in range(n) for j in range(n) if i < j)


def direct_gravity(x, m):
    import jax.numpy as jnp

    n = len(m)
    before = jnp.arange(n)[:, None] < jnp.arange(n)[None, :]
    square = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
    square = jnp.where(before, square, 1)
    return jnp.where(before, -m[:, None] * m[None, :] / jnp.sqrt(square), 0).sum()


@tensor
def edge_energy(p, q, a, di: int, dj: int, M):
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


# Data


@tensor
def graph_energy(x, src, dst, rest):
    return sum((np.abs(x[src[e]] - x[dst[e]]) - rest[e]) ** 2 for e in range(len(rest)))


def direct_graph_energy(x, src, dst, rest):
    import jax.numpy as jnp

    return ((jnp.abs(x[src] - x[dst]) - rest) ** 2).sum()


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


def _image(n: int) -> tuple[Any, ...]:
    mask = np.random.default_rng(0).uniform(size=(n, n)) < 0.9
    fixed = np.random.default_rng(1).uniform(size=(n, n)) < 0.1
    pair = (_normal(n, n), _normal(n, n, seed=1))
    return pair, _normal(n, n, seed=2), (_normal(n, n, seed=3), _normal(n, n, seed=4)), mask, fixed


def _graph(edges: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    nodes = edges // 4
    src, dst = (rng.integers(0, nodes, edges).astype(np.int32) for _ in range(2))
    return _normal(nodes), src, dst, _uniform(edges)


def _mask(n: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(size=(n, n)) < 0.8


STRUCTURED = (
    Benchmark(
        "dot(diag col, diag row)",
        diagonal_dot,
        direct_diagonal_dot,
        lambda n: (_uniform(n),),
        ("x",),
        8192,
        1_000_000,
    ),
    Benchmark(
        "8 traces of diag",
        eight_traces,
        direct_eight_traces,
        lambda n: (_uniform(n),),
        ("x",),
        4096,
        200_000,
    ),
    Benchmark(
        "wᵀAw, A tridiagonal",
        tridiagonal,
        direct_tridiagonal,
        lambda n: (_normal(n), _normal(n, seed=1), _normal(n, seed=2)),
        ("a", "b", "w"),
        4096,
        200_000,
    ),
    Benchmark(
        "Hessian of xᵀAx",
        quadratic_form,
        direct_quadratic_form,
        lambda n: (_normal(n, n), _normal(n)),
        ("x",),
        2048,
        kind="hessian",
    ),
    Benchmark(
        "block-diagonal form",
        block_diagonal,
        direct_block_diagonal,
        lambda n: (_normal(n // 8, 8, 8), _normal(n // 8, 8)),
        ("B", "x"),
        4096,
        100_000,
    ),
    Benchmark(
        "banded form, 17 diagonals",
        banded,
        direct_banded,
        lambda n: (_normal(n, 17), _normal(n)),
        ("D", "x"),
        4096,
        100_000,
    ),
    Benchmark(
        "(A⊗B)x",
        kronecker,
        direct_kronecker,
        lambda n: (_normal(n, n), _normal(n, n, seed=1), _normal(n, n, seed=2), _normal(n, n)),
        ("A", "B", "x"),
        64,
        256,
    ),
    Benchmark(
        "triangular residual",
        triangular_residual,
        direct_triangular_residual,
        lambda n: (_normal(n, n), _normal(n), _normal(n, seed=1)),
        ("L", "x"),
        4096,
    ),
)

DENSE = (
    Benchmark(
        "xᵀAx",
        quadratic_form,
        direct_quadratic_form,
        lambda n: (_normal(n, n), _normal(n)),
        ("A", "x"),
        4096,
    ),
    Benchmark(
        "Σ ln(WH)+A/(WH)",
        factorisation,
        direct_factorisation,
        lambda n: (_uniform(n, n // 16), _uniform(n // 16, n), _uniform(n, n)),
        ("W", "H"),
        2048,
    ),
    Benchmark(
        "convolution loss",
        convolution_loss,
        direct_convolution_loss,
        lambda n: (_normal(n), _normal(32), _normal(n - 31)),
        ("x", "c"),
        200_000,
    ),
    Benchmark(
        "image Laplacian", laplacian, direct_laplacian, lambda n: (_normal(n, n),), ("u",), 2048
    ),
    Benchmark(
        "n-body, i<j",
        gravity,
        direct_gravity,
        lambda n: (_normal(n, 3), _uniform(n)),
        ("x",),
        4000,
        20_000,
    ),
    Benchmark(
        "as-rigid-as-possible",
        as_rigid_as_possible,
        direct_as_rigid_as_possible,
        _image,
        ("P", "a"),
        1024,
    ),
    Benchmark(
        "graph energy, index arrays",
        graph_energy,
        direct_graph_energy,
        _graph,
        ("x",),
        1_000_000,
    ),
    Benchmark(
        "masked stencil",
        masked_stencil,
        direct_masked_stencil,
        lambda n: (_normal(n, n), _mask(n)),
        ("u",),
        2048,
    ),
)

ALL = (*STRUCTURED, *DENSE)
