"""The programs that `tensor_kernels.py` measures, each as a tensor function and as direct JAX."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jupyter_hvd.tensor import TensorFunction, tensor

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "tensor"))

from programs import (
    as_rigid_as_possible,
    convolution_loss,
    diag,
    diagonal_dot,
    direct_as_rigid_as_possible,
    direct_convolution_loss,
    direct_diagonal_dot,
    direct_factorisation,
    direct_laplacian,
    direct_masked_stencil,
    factorisation,
    gravity,
    laplacian,
    masked_stencil,
    quadratic_form,
    trace,
)


@tensor
def sparse_product(R, S, T, x, y, z):
    """A·B of two sparse matrices, read where T holds."""
    n = len(x)
    C = [
        [
            sum(x[i] * y[j] * z[k] for j in range(n) if (i, j) in R and (j, k) in S)
            if (i, k) in T
            else 0
            for k in range(n)
        ]
        for i in range(n)
    ]
    return sum(C[i][k] * C[i][k] for i in range(n) for k in range(n) if (i, k) in T)


@tensor
def congruence(R, T, x, d):
    """Aᵀ·D·A, read where T holds."""
    n = len(x)
    C = [
        [
            sum(
                (x[p] + x[i]) * d[p] * (x[p] + x[k])
                for p in range(n)
                if (p, i) in R and (p, k) in R
            )
            if (i, k) in T
            else 0
            for k in range(n)
        ]
        for i in range(n)
    ]
    return sum(C[i][k] * x[i] * x[k] for i in range(n) for k in range(n) if (i, k) in T)


@tensor
def triangles(R, x):
    n = len(x)
    return sum(
        x[i] * x[j] * x[k]
        for i in range(n)
        for j in range(n)
        for k in range(n)
        if (i, j) in R and (j, k) in R and (i, k) in R
    )


def on_a_ring(n: int, reach: int = 4) -> set[tuple[int, int]]:
    """Those of each of n places on a ring, on either side."""
    return {(i, (i + d) % n) for i in range(n) for d in range(-reach, reach + 1) if d}


# Programs whose sums are over several relations, and arguments in which tuples are in proportion to n.
JOINS: tuple[tuple[str, TensorFunction, str, Callable[[int], tuple[Any, ...]]], ...] = (
    (
        "A·B where T holds",
        sparse_product,
        "y",
        lambda n: (*[on_a_ring(n)] * 3, *np.ones((3, n), np.float32)),
    ),
    (
        "AᵀDA where T holds",
        congruence,
        "d",
        lambda n: (*[on_a_ring(n)] * 2, *np.ones((2, n), np.float32)),
    ),
    ("triangles", triangles, "x", lambda n: (on_a_ring(n), np.ones(n, np.float32))),
)


@dataclass(frozen=True)
class Benchmark:
    """A program, the same in JAX, and its arguments at a size (float32; `wrt` by name).

    `kind` is `grad` or `hessian`; `size` is that of the comparison, `large` that at which JAX need
    not run. With `called`, the tensor function is called as a user calls it, not compiled as a
    whole: what it finds out about its data then counts. `limit` is what remains to be done once the derivative is known, and is
    compared with where nothing can be faster.
    """

    name: str
    function: TensorFunction
    direct: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    wrt: tuple[str, ...]
    size: int
    large: int | None = None
    kind: str = "grad"
    called: bool = False
    limit: Callable[..., Any] | None = None

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


def direct_gravity(x, m):
    import jax.numpy as jnp

    n = len(m)
    before = jnp.arange(n)[:, None] < jnp.arange(n)[None, :]
    square = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
    square = jnp.where(before, square, 1)
    return jnp.where(before, -m[:, None] * m[None, :] / jnp.sqrt(square), 0).sum()


# Data


@tensor
def graph_energy(x, src, dst, rest):
    return sum((np.abs(x[src[e]] - x[dst[e]]) - rest[e]) ** 2 for e in range(len(rest)))


def direct_graph_energy(x, src, dst, rest):
    import jax.numpy as jnp

    return ((jnp.abs(x[src] - x[dst]) - rest) ** 2).sum()


@tensor
def neighbours(x, R):
    n = len(x)
    return sum((x[i] - x[j]) ** 2 for i in range(n) for j in range(n) if R[i, j])


def direct_neighbours(x, R):
    import jax.numpy as jnp

    return jnp.where(R, (x[:, None] - x[None, :]) ** 2, 0).sum()


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


def _sparse(n: int) -> np.ndarray:
    """Ten neighbours each."""
    return np.random.default_rng(0).uniform(size=(n, n)) < 10 / n


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
        limit=lambda A, _: A + A.T,
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
        "graph energy, boolean array",
        neighbours,
        direct_neighbours,
        lambda n: (_normal(n), _sparse(n)),
        ("x",),
        4096,
        called=True,
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


@tensor
def smaller_before(x, y):
    """Of each entry the product with all that stand before it."""
    return sum(x[i] * y[j] for i in range(len(x)) for j in range(len(y)) if i < j)


@tensor
def of_rows_before(A, x):
    n, d = A.shape
    before = [[sum(A[j, q] for j in range(n) if j <= i) for q in range(d)] for i in range(n)]
    return sum(before[i][q] ** 2 * x[i] for i in range(n) for q in range(d))


@tensor
def log_of_risk(x):
    """The partial likelihood of a proportional hazard."""
    risk = np.cumsum(np.exp(x)[::-1])[::-1]
    return np.sum(np.log(risk)) - np.sum(x)


def _smaller_before(x: Any, y: Any) -> Any:
    import jax.numpy as jnp

    return jnp.sum((jnp.cumsum(x) - x) * y)


def _of_rows_before(A: Any, x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.sum(jnp.cumsum(A, 0) ** 2 * x[:, None])


def _log_of_risk(x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.sum(jnp.log(jnp.cumsum(jnp.exp(x)[::-1])[::-1])) - jnp.sum(x)


# Programs that sum up to an index, the same with running sums in JAX, and arguments.
SUMS_UP_TO: tuple[
    tuple[str, TensorFunction, Callable[..., Any], Callable[[int], tuple[Any, ...]]], ...
] = (
    (
        "Σ i<j. x[i]·y[j]",
        smaller_before,
        _smaller_before,
        lambda n: (_normal(n), _normal(n, seed=1)),
    ),
    (
        "Σ i,q. x[i]·(Σ j≤i. A[j,q])²",
        of_rows_before,
        _of_rows_before,
        lambda n: (_normal(n, 16), _normal(n, seed=1)),
    ),
    ("Σ log Σ j≥i. exp(x[j])", log_of_risk, _log_of_risk, lambda n: (_normal(n),)),
)
