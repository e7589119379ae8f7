"""Functions whose Jacobians are sparse, each beside its version in JAX."""

import math

import jax.numpy as jnp
import numpy as np

from jupyter_hvd.tensor import tensor


@tensor
def band(x):
    n = len(x)
    return [x[i] * x[i] * (x[i - 1] if i > 0 else 1.0) for i in range(n)]


def band_jax(x):
    return x * x * jnp.concatenate([jnp.ones(1), x[:-1]])


@tensor
def arrow(x):
    n = len(x)
    return sum(math.sin(x[0] * x[i]) * x[i] for i in range(n))


def arrow_jax(x):
    return jnp.sum(jnp.sin(x[0] * x) * x)


@tensor
def stencil_1d(u):
    n = len(u)
    return [
        u[i - 1] - 2 * u[i] + u[i + 1] - math.exp(u[i]) if 0 < i < n - 1 else u[i] for i in range(n)
    ]


def stencil_1d_jax(u):
    inside = u[:-2] - 2 * u[1:-1] + u[2:] - jnp.exp(u[1:-1])
    return jnp.concatenate([u[:1], inside, u[-1:]])


@tensor
def stencil_2d(u):
    n, m = u.shape
    return [
        [
            u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j] + u[i, j] ** 3
            if 0 < i < n - 1 and 0 < j < m - 1
            else u[i, j]
            for j in range(m)
        ]
        for i in range(n)
    ]


def stencil_2d_jax(u):
    inside = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    return u.at[1:-1, 1:-1].set(inside + u[1:-1, 1:-1] ** 3)


@tensor
def stencil_3d(u):
    n, m, depth = u.shape
    return sum(
        (u[i + 1, j, k] - u[i, j, k]) ** 4
        + (u[i, j + 1, k] - u[i, j, k]) ** 4
        + (u[i, j, k + 1] - u[i, j, k]) ** 4
        for i in range(n - 1)
        for j in range(m - 1)
        for k in range(depth - 1)
    )


def stencil_3d_jax(u):
    v = u[:-1, :-1, :-1]
    around = u[1:, :-1, :-1], u[:-1, 1:, :-1], u[:-1, :-1, 1:]
    return sum(jnp.sum((w - v) ** 4) for w in around)


@tensor
def blocks(A, x):
    b, n, _ = A.shape
    return [
        [sum(A[k, i, j] * x[k, j] * x[k, j] for j in range(n)) for i in range(n)] for k in range(b)
    ]


def blocks_jax(A, x):
    return jnp.einsum("kij,kj->ki", A, x * x)


@tensor
def chain(p, rest):
    n, d = p.shape
    stretch = [
        math.sqrt(sum((p[i + 1, c] - p[i, c]) ** 2 for c in range(d))) - rest[i]
        for i in range(n - 1)
    ]
    return sum(stretch[i] * stretch[i] for i in range(n - 1))


def chain_jax(p, rest):
    return jnp.sum((jnp.sqrt(jnp.sum((p[1:] - p[:-1]) ** 2, axis=1)) - rest) ** 2)


@tensor
def graph(x, src, dst):
    return sum((x[dst[e]] - x[src[e]]) ** 4 for e in range(len(src)))


def graph_jax(x, src, dst):
    return jnp.sum((x[dst] - x[src]) ** 4)


@tensor
def related(x, R):
    n = len(x)
    return sum(math.exp(x[i] * x[j]) for i in range(n) for j in range(n) if R[i, j])


def related_jax(x, R):
    return jnp.sum(jnp.where(R, jnp.exp(x[:, None] * x), 0.0))


@tensor
def bundle(cameras, points, camera, point, seen):
    m = len(camera)
    z = [
        math.exp(cameras[camera[o], 2])
        + sum(cameras[camera[o], 3 + c] * points[point[o], c] for c in range(3)) ** 2
        for o in range(m)
    ]
    return [
        [(points[point[o], c] + cameras[camera[o], c]) / z[o] - seen[o, c] for c in range(2)]
        for o in range(m)
    ]


def bundle_jax(cameras, points, camera, point, seen):
    a, b = cameras[camera], points[point]
    z = jnp.exp(a[:, 2]) + jnp.sum(a[:, 3:6] * b, axis=1) ** 2
    return (b[:, :2] + a[:, :2]) / z[:, None] - seen


@tensor
def brusselator(u, v, a):
    n = len(u)
    return [
        1 + u[i] * u[i] * v[i] - 4.4 * u[i] + a * (u[(i - 1) % n] - 2 * u[i] + u[(i + 1) % n])
        for i in range(n)
    ]


def brusselator_jax(u, v, a):
    return 1 + u * u * v - 4.4 * u + a * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


@tensor
def kernel_matrix(x):
    n = len(x)
    K = [
        [math.exp(-((x[i] - x[j]) ** 2)) if i - 2 <= j <= i + 2 else 0 for j in range(n)]
        for i in range(n)
    ]
    return [sum(K[i][j] * x[j] for j in range(n)) for i in range(n)]


def kernel_matrix_jax(x):
    n = len(x)
    near = jnp.abs(jnp.arange(n)[:, None] - jnp.arange(n)) <= 2
    return jnp.where(near, jnp.exp(-((x[:, None] - x) ** 2)), 0.0) @ x


@tensor
def hand(bends, lengths, finger):
    """Points on fingers whose joints bend. `finger` names the finger of each point, `lengths` how far it lies along each bone."""
    fingers, joints = bends.shape
    angle = [
        [sum(bends[f, i] for i in range(j + 1)) for j in range(joints)] for f in range(fingers)
    ]
    x = [
        sum(lengths[p, j] * math.cos(angle[finger[p]][j]) for j in range(joints))
        for p in range(len(finger))
    ]
    y = [
        sum(lengths[p, j] * math.sin(angle[finger[p]][j]) for j in range(joints))
        for p in range(len(finger))
    ]
    return [[x[p], y[p]] for p in range(len(finger))]


def hand_jax(bends, lengths, finger):
    angle = jnp.cumsum(bends, axis=1)[finger]
    x, y = jnp.sum(lengths * jnp.cos(angle), axis=1), jnp.sum(lengths * jnp.sin(angle), axis=1)
    return jnp.stack([x, y], axis=1)


def draw(seed=0):
    """Arguments at small sizes of each function, by name."""
    r = np.random.default_rng(seed)
    x = r.normal(size=9)
    R = r.random((9, 9)) < 0.15
    return {
        "band": (x,),
        "arrow": (x,),
        "stencil_1d": (x,),
        "stencil_2d": (r.normal(size=(5, 6)),),
        "stencil_3d": (r.normal(size=(3, 4, 5)),),
        "blocks": (r.normal(size=(4, 3, 3)), r.normal(size=(4, 3))),
        "chain": (r.normal(size=(7, 2)), np.ones(6)),
        "graph": (x, np.array([0, 3, 3, 5, 2, 0]), np.array([3, 0, 3, 6, 2, 3])),
        "related": (x, R),
        "bundle": (
            r.normal(size=(3, 6)),
            r.normal(size=(5, 3)),
            np.array([0, 0, 2, 2, 2, 0, 2]),
            np.array([0, 1, 1, 2, 4, 0, 4]),
            r.normal(size=(7, 2)),
        ),
        "brusselator": (x, r.normal(size=9), 0.3),
        "kernel_matrix": (x,),
        "hand": (r.normal(size=(3, 4)), r.uniform(1, 2, (7, 4)), np.array([0, 2, 2, 1, 0, 0, 2])),
    }


# A function, and the parameters to differentiate by: one for a Jacobian, two for a Hessian.
CASES = [
    ("band", "x"),
    ("arrow", "x", "x"),
    ("stencil_1d", "u"),
    ("stencil_2d", "u"),
    ("stencil_3d", "u", "u"),
    ("blocks", "x"),
    ("blocks", "A"),
    ("chain", "p", "p"),
    ("chain", "p", "rest"),
    ("graph", "x", "x"),
    ("related", "x", "x"),
    ("bundle", "cameras"),
    ("bundle", "points"),
    ("brusselator", "u"),
    ("brusselator", "v"),
    ("kernel_matrix", "x"),
    ("hand", "bends"),
]
