"""GradBench's evaluations (github.com/gradbench/gradbench) that the language can state, written in it and in JAX, with made-up
data of its shapes: `gmm`, `kmeans`, `lse`, `llsq`, `lstm`, `ba` and `ht`. Of those whose result is no scalar (`ba`, `ht`) it is
the gradient of the sum of squares; `ht` has a hand whose bones each turn by themselves, for a tree of bones is no array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from peer_programs import bundle, columns_bundle

Arguments = tuple[Any, ...]


def _normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def gmm(alpha, means, q, low, x, gamma):
    """A mixture whose inverse deviations have logarithms q on their diagonals and `low` below them, with a Wishart prior."""
    n, d = x.shape
    k = len(alpha)
    centred = [[[x[i, a] - means[c, a] for a in range(d)] for c in range(k)] for i in range(n)]
    turned = [
        [
            [
                np.exp(q[c, a]) * centred[i][c][a]
                + sum(low[c, a, b] * centred[i][c][b] for b in range(d) if b < a)
                for a in range(d)
            ]
            for c in range(k)
        ]
        for i in range(n)
    ]
    inner = [
        [
            alpha[c]
            + sum(q[c, a] for a in range(d))
            - 0.5 * sum(turned[i][c][a] ** 2 for a in range(d))
            for c in range(k)
        ]
        for i in range(n)
    ]
    slack = sum(np.log(sum(np.exp(inner[i][c]) for c in range(k))) for i in range(n))
    weights = n * np.log(sum(np.exp(alpha[c]) for c in range(k)))
    prior = sum(
        0.5 * gamma**2 * (np.exp(q[c, a]) ** 2 + sum(low[c, a, b] ** 2 for b in range(d) if b < a))
        - q[c, a]
        for c in range(k)
        for a in range(d)
    )
    return slack - weights - prior


def direct_gmm(alpha, means, q, low, x, gamma):
    n = len(x)
    factors = jnp.tril(low, -1)
    centred = x[:, None, :] - means
    turned = jnp.exp(q) * centred + jnp.einsum("cab,icb->ica", factors, centred)
    inner = alpha + q.sum(1) - 0.5 * (turned**2).sum(2)
    slack = jnp.log(jnp.exp(inner).sum(1)).sum()
    prior = 0.5 * gamma**2 * ((jnp.exp(q) ** 2).sum() + (factors**2).sum()) - q.sum()
    return slack - n * jnp.log(jnp.exp(alpha).sum()) - prior


def kmeans(centres, points):
    n, k, d = len(points), len(centres), points.shape[1]
    return sum(
        min(sum((points[i, q] - centres[c, q]) ** 2 for q in range(d)) for c in range(k))
        for i in range(n)
    )


def direct_kmeans(centres, points):
    return ((points[:, None, :] - centres) ** 2).sum(2).min(1).sum()


def lse(x):
    top = max(x[i] for i in range(len(x)))
    return top + np.log(sum(np.exp(x[i] - top) for i in range(len(x))))


def direct_lse(x):
    top = x.max()
    return top + jnp.log(jnp.exp(x - top).sum())


def llsq(w, s, t):
    """A polynomial's squared errors; GradBench has the powers of s inside."""
    return 0.5 * sum(
        (t[i] - sum(w[j] * s[i, j] for j in range(len(w)))) ** 2 for i in range(len(t))
    )


def direct_llsq(w, s, t):
    return 0.5 * ((t - s @ w) ** 2).sum()


def lstm(weights, biases, x, h, c):
    """One layer's step for a batch, its weights entry by entry as GradBench has them."""
    m, n = x.shape
    gates = [
        [
            [weights[g, j] * (x[b, j] if g < 2 else h[b, j]) + biases[g, j] for j in range(n)]
            for b in range(m)
        ]
        for g in range(4)
    ]
    total = 0
    for b in range(m):
        for j in range(n):
            forget = 1 / (1 + np.exp(-gates[0][b][j]))
            entered = 1 / (1 + np.exp(-gates[1][b][j]))
            shown = 1 / (1 + np.exp(-gates[2][b][j]))
            state = c[b, j] * forget + entered * np.tanh(gates[3][b][j])
            total += (shown * np.tanh(state)) ** 2
    return total


def direct_lstm(weights, biases, x, h, c):
    forget, entered = (1 / (1 + jnp.exp(-(weights[g] * x + biases[g]))) for g in (0, 1))
    shown = 1 / (1 + jnp.exp(-(weights[2] * h + biases[2])))
    state = c * forget + entered * jnp.tanh(weights[3] * h + biases[3])
    return ((shown * jnp.tanh(state)) ** 2).sum()


def ht(theta, base, weights, points, nearest):
    """Vertices moved by the turned bones that they hang on; their distances to the points that they belong to."""
    bones, vertices = weights.shape[1], len(base)
    moved = [
        [
            (
                np.cos(theta[b, 0]) * base[v, 0] - np.sin(theta[b, 0]) * base[v, 1] + theta[b, 1],
                np.sin(theta[b, 0]) * base[v, 0] + np.cos(theta[b, 0]) * base[v, 1] + theta[b, 2],
                base[v, 2] + theta[b, 3],
            )
            for b in range(bones)
        ]
        for v in range(vertices)
    ]
    x = [sum(weights[v, b] * moved[v][b][0] for b in range(bones)) for v in range(vertices)]
    y = [sum(weights[v, b] * moved[v][b][1] for b in range(bones)) for v in range(vertices)]
    z = [sum(weights[v, b] * moved[v][b][2] for b in range(bones)) for v in range(vertices)]
    return sum(
        (points[e, 0] - x[nearest[e]]) ** 2
        + (points[e, 1] - y[nearest[e]]) ** 2
        + (points[e, 2] - z[nearest[e]]) ** 2
        for e in range(len(points))
    )


def direct_ht(theta, base, weights, points, nearest):
    cosine, sine = jnp.cos(theta[:, 0]), jnp.sin(theta[:, 0])
    x, y, z = base.T[:, :, None]
    moved = (
        cosine * x - sine * y + theta[:, 1],
        sine * x + cosine * y + theta[:, 2],
        z + theta[:, 3],
    )
    placed = jnp.stack([(weights * part).sum(1) for part in moved], 1)
    return ((points - placed[nearest]) ** 2).sum()


@dataclass(frozen=True)
class Evaluation:
    """A function in the language and in JAX, and arguments for about so many times as many points."""

    name: str
    kind: str
    function: Callable[..., Any]
    direct: Callable[..., Any]
    at: Callable[[int], Arguments]


def _mixture(scale: int) -> Arguments:
    k, d = 10, 8
    low = 0.1 * _normal(k, d, d)
    return _normal(k), _normal(k, d), 0.1 * _normal(k, d, seed=1), low, _normal(64 * scale, d), 1.0


def _bundle(scale: int) -> Arguments:
    n, rng = 256 * scale, np.random.default_rng(0)
    cameras, points = max(1, n // 400), n // 4
    X = _normal(points, 3)
    X[:, 2] += 10
    cam = np.sort(rng.integers(0, cameras, n)).astype(np.int32)
    pt = rng.integers(0, points, n).astype(np.int32)
    r, t, k = 0.1 * _normal(cameras, 3), 0.1 * _normal(cameras, 3), 0.01 * _normal(cameras, 2)
    return r, t, np.full(cameras, 1, np.float32), k, X, cam, pt, _normal(n, 2)


def _hand(scale: int) -> Arguments:
    vertices, bones = 64 * scale, 22
    weights = np.abs(_normal(vertices, bones))
    nearest = np.random.default_rng(1).integers(0, vertices, vertices).astype(np.int32)
    base, points = _normal(vertices, 3), _normal(vertices, 3, seed=3)
    return 0.1 * _normal(bones, 4), base, weights, points, nearest


def _steps(scale: int) -> Arguments:
    m, n = scale, 1024
    return _normal(4, n), _normal(4, n, seed=1), *(_normal(m, n, seed=k) for k in (2, 3, 4))


EVALUATIONS = (
    Evaluation("GradBench gmm", "pairwise", gmm, direct_gmm, _mixture),
    Evaluation(
        "GradBench kmeans",
        "pairwise",
        kmeans,
        direct_kmeans,
        lambda scale: (_normal(16, 16), _normal(64 * scale, 16, seed=1)),
    ),
    Evaluation("GradBench lse", "reduction", lse, direct_lse, lambda n: (_normal(n << 12),)),
    Evaluation(
        "GradBench llsq",
        "contraction",
        llsq,
        direct_llsq,
        lambda n: (_normal(128), _normal(128 * n, 128, seed=1), _normal(128 * n, seed=2)),
    ),
    Evaluation("GradBench lstm", "map", lstm, direct_lstm, _steps),
    Evaluation("GradBench ba", "gather", bundle, columns_bundle, _bundle),
    Evaluation("GradBench ht", "gather", ht, direct_ht, _hand),
)
