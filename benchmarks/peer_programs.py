"""Programs beside the fastest of the ways in which one who knows JAX well would write them: they are
not what the kernels were made for.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tensor_programs import Benchmark, _normal, _uniform, direct_gravity

from jupyter_hvd.tensor import tensor

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "tensor"))

from programs import blur, catenary, direct_blur, direct_catenary, gravity


@tensor
def mixture(a, mu, q, x):
    """The negative log-likelihood of points by weights (logarithms), means and inverse deviations
    (logarithms) of Gaussians.
    """
    n, d = x.shape
    k = len(a)
    log_weights = [
        [
            a[c]
            + sum(q[c, j] for j in range(d))
            - 0.5 * sum((math.exp(q[c, j]) * (x[i, j] - mu[c, j])) ** 2 for j in range(d))
            for c in range(k)
        ]
        for i in range(n)
    ]
    inside = sum(math.log(sum(math.exp(log_weights[i][c]) for c in range(k))) for i in range(n))
    return n * math.log(sum(math.exp(a[c]) for c in range(k))) - inside


def direct_mixture(a, mu, q, x):
    import jax

    centred = jax.numpy.exp(q) * (x[:, None, :] - mu)
    log_weights = a + q.sum(1) - 0.5 * (centred**2).sum(-1)
    logsumexp = jax.scipy.special.logsumexp
    return len(x) * logsumexp(a) - logsumexp(log_weights, axis=1).sum()


def plain_mixture(a, mu, q, x):
    """As written in the language: without the largest exponent taken out."""
    import jax.numpy as jnp

    centred = jnp.exp(q) * (x[:, None, :] - mu)
    log_weights = a + q.sum(1) - 0.5 * (centred**2).sum(-1)
    inside = jnp.log(jnp.exp(log_weights).sum(1)).sum()
    return len(x) * jnp.log(jnp.exp(a).sum()) - inside


@tensor
def masked_laplacian(u, M):
    h, w = u.shape
    return sum(
        (4 * u[i, j] - u[i - 1, j] - u[i + 1, j] - u[i, j - 1] - u[i, j + 1]) ** 2
        for i in range(1, h - 1)
        for j in range(1, w - 1)
        if M[i, j]
    )


def direct_masked_laplacian(u, M):
    import jax.numpy as jnp

    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return jnp.where(M[1:-1, 1:-1], (4 * u[1:-1, 1:-1] - around) ** 2, 0).sum()


def paired_gravity(x, m):
    import jax.numpy as jnp

    i, j = jnp.triu_indices(len(m), 1)
    return -(m[i] * m[j] / jnp.sqrt(((x[i] - x[j]) ** 2).sum(1))).sum()


@tensor
def bundle(r, t, f, k, X, cam, pt, seen):
    """Reprojection errors: cameras with rotations r, positions t, focal lengths f and two radial
    distortions k see points X.
    """
    total = 0
    for e in range(len(cam)):
        c = cam[e]
        p = pt[e]
        x, y, z = X[p, 0] - t[c, 0], X[p, 1] - t[c, 1], X[p, 2] - t[c, 2]
        angle = math.sqrt(r[c, 0] ** 2 + r[c, 1] ** 2 + r[c, 2] ** 2)
        a0, a1, a2 = r[c, 0] / angle, r[c, 1] / angle, r[c, 2] / angle
        cosine, sine = math.cos(angle), math.sin(angle)
        along = (a0 * x + a1 * y + a2 * z) * (1 - cosine)
        u = x * cosine + (a1 * z - a2 * y) * sine + a0 * along
        v = y * cosine + (a2 * x - a0 * z) * sine + a1 * along
        w = z * cosine + (a0 * y - a1 * x) * sine + a2 * along
        s = (u / w) ** 2 + (v / w) ** 2
        scale = f[c] * (1 + k[c, 0] * s + k[c, 1] * s * s)
        total += (scale * u / w - seen[e, 0]) ** 2 + (scale * v / w - seen[e, 1]) ** 2
    return total


def direct_bundle(r, t, f, k, X, cam, pt, seen):
    import jax.numpy as jnp

    moved, rotation, distortion = X[pt] - t[cam], r[cam], k[cam]
    angle = jnp.sqrt((rotation**2).sum(1, keepdims=True))
    axis = rotation / angle
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    along = (axis * moved).sum(1, keepdims=True) * (1 - cosine)
    turned = moved * cosine + jnp.cross(axis, moved) * sine + axis * along
    image = turned[:, :2] / turned[:, 2:]
    s = (image**2).sum(1)
    scale = f[cam] * (1 + distortion[:, 0] * s + distortion[:, 1] * s * s)
    return ((scale[:, None] * image - seen) ** 2).sum()


def columns_bundle(r, t, f, k, X, cam, pt, seen):
    """Column by column, so that nothing has an axis of three."""
    import jax.numpy as jnp

    moved, rotation, distortion = X[pt] - t[cam], r[cam], k[cam]
    x, y, z = moved.T
    a0, a1, a2 = rotation.T
    angle = jnp.sqrt(a0**2 + a1**2 + a2**2)
    a0, a1, a2 = a0 / angle, a1 / angle, a2 / angle
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    along = (a0 * x + a1 * y + a2 * z) * (1 - cosine)
    u = x * cosine + (a1 * z - a2 * y) * sine + a0 * along
    v = y * cosine + (a2 * x - a0 * z) * sine + a1 * along
    w = z * cosine + (a0 * y - a1 * x) * sine + a2 * along
    s = (u / w) ** 2 + (v / w) ** 2
    scale = f[cam] * (1 + distortion[:, 0] * s + distortion[:, 1] * s * s)
    return ((scale * u / w - seen[:, 0]) ** 2 + (scale * v / w - seen[:, 1]) ** 2).sum()


@tensor
def lstm_step(W, U, b, x, h, c):
    """One step of a long short-term memory; W, U and b have the four gates one after the other."""
    n = len(h)
    z = [
        sum(W[i, j] * x[j] for j in range(len(x))) + sum(U[i, j] * h[j] for j in range(n)) + b[i]
        for i in range(4 * n)
    ]
    total = 0
    for i in range(n):
        entered = 1 / (1 + math.exp(-z[i]))
        forgotten = 1 / (1 + math.exp(-z[n + i]))
        candidate = math.tanh(z[2 * n + i])
        shown = 1 / (1 + math.exp(-z[3 * n + i]))
        state = forgotten * c[i] + entered * candidate
        total += (shown * math.tanh(state)) ** 2
    return total


def direct_lstm_step(W, U, b, x, h, c):
    import jax
    import jax.numpy as jnp

    entered, forgotten, candidate, shown = jnp.split(W @ x + U @ h + b, 4)
    state = jax.nn.sigmoid(forgotten) * c + jax.nn.sigmoid(entered) * jnp.tanh(candidate)
    return ((jax.nn.sigmoid(shown) * jnp.tanh(state)) ** 2).sum()


@tensor
def circulant(c, x, y):
    n = len(x)
    r = [
        sum((c[i - j] if i >= j else c[i - j + n]) * x[j] for j in range(n)) - y[i]
        for i in range(n)
    ]
    return sum(r[i] ** 2 for i in range(n))


def direct_circulant(c, x, y):
    import jax.numpy as jnp

    n = len(x)
    i = jnp.arange(n)
    return ((c[(i[:, None] - i) % n] @ x - y) ** 2).sum()


def windowed_circulant(c, x, y):
    import jax.numpy as jnp

    return ((jnp.convolve(jnp.concatenate([x, x]), c)[len(x) : 2 * len(x)] - y) ** 2).sum()


def transformed_circulant(c, x, y):
    """A better algorithm: n log n."""
    import jax.numpy as jnp

    found = jnp.fft.irfft(jnp.fft.rfft(c) * jnp.fft.rfft(x), len(x))
    return ((found - y) ** 2).sum()


@tensor
def differences(x, y):
    return sum((x[i] - y[i]) ** 2 for i in range(len(x)))


@dataclass(frozen=True)
class Peer:
    """A program of the language, and the ways to write it in JAX, of which the fastest counts;
    `better` are those by another algorithm, which are shown and do not count.
    """

    benchmark: Benchmark
    ways: tuple[Callable[..., Any], ...] = ()
    better: tuple[Callable[..., Any], ...] = ()


def _observations(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    cameras, points = max(1, n // 400), n // 4
    X = _normal(points, 3)
    X[:, 2] += 10
    t, k = 0.1 * _normal(cameras, 3), 0.01 * _normal(cameras, 2)
    cam = np.sort(rng.integers(0, cameras, n)).astype(np.int32)
    pt = rng.integers(0, points, n).astype(np.int32)
    return 0.1 * _normal(cameras, 3), t, _uniform(cameras), k, X, cam, pt, _normal(n, 2)


def _lstm(n: int) -> tuple[Any, ...]:
    scale = np.float32(1 / math.sqrt(n))
    matrices = (scale * _normal(4 * n, n), scale * _normal(4 * n, n, seed=1))
    return (*matrices, _normal(4 * n), _normal(n), _normal(n, seed=1), _normal(n, seed=2))


PEERS = (
    Peer(
        Benchmark(
            "catenary chain",
            catenary,
            direct_catenary,
            lambda n: (np.linspace(0, 1, n, dtype=np.float32), _normal(n), np.float32(0.25)),
            ("x", "y"),
            100_000,
        )
    ),
    Peer(
        Benchmark(
            "5-point blur energy",
            blur,
            direct_blur,
            lambda n: (_normal(n, n), _normal(n, n, seed=1)),
            ("u",),
            512,
        )
    ),
    Peer(
        Benchmark(
            "Gaussian mixture, 25 × 10",
            mixture,
            direct_mixture,
            lambda n: (_normal(25), _normal(25, 10), 0.1 * _normal(25, 10, seed=1), _normal(n, 10)),
            ("a", "mu", "q"),
            5000,
        ),
        (plain_mixture,),
    ),
    Peer(
        Benchmark(
            "masked Laplacian",
            masked_laplacian,
            direct_masked_laplacian,
            lambda n: (_normal(n, n), np.random.default_rng(5).uniform(size=(n, n)) < 0.8),
            ("u",),
            512,
        )
    ),
    Peer(
        Benchmark(
            "n-body, i<j, both unknown",
            gravity,
            direct_gravity,
            lambda n: (_normal(n, 3), _uniform(n)),
            ("x", "m"),
            1000,
        ),
        (paired_gravity,),
    ),
    Peer(
        Benchmark(
            "bundle adjustment",
            bundle,
            direct_bundle,
            _observations,
            ("r", "t", "f", "k", "X"),
            20_000,
        ),
        (columns_bundle,),
    ),
    Peer(Benchmark("LSTM step", lstm_step, direct_lstm_step, _lstm, ("W", "U", "b"), 512)),
    Peer(
        Benchmark(
            "circulant residual",
            circulant,
            direct_circulant,
            lambda n: (_normal(n), _normal(n, seed=1), _normal(n, seed=2)),
            ("c", "x"),
            2000,
        ),
        (windowed_circulant,),
        (transformed_circulant,),
    ),
)
