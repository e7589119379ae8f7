"""Functions of public sources, each in words of its own, written before any of them was tried. `CASES` has each with its
arguments; `test_public_functions.py` compares them with NumPy and `jax.grad`.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.polynomial import legendre

R = np.random.default_rng(21)
CASES: list[tuple[Any, tuple[Any, ...]]] = []
#: They write into their arrays, which JAX's do not allow: differences are their gradients.
IN_PLACE: set[str] = set()


def draw(*shape):
    return R.uniform(0.3, 1.3, shape)


def spread(*shape):
    return R.normal(size=shape)


def case(*arguments, in_place=False):
    def enter(function):
        CASES.append((function, arguments))
        if in_place:
            IN_PLACE.add(function.__name__)
        return function

    return enter


# GradBench: gmm
@case(draw(3), draw(3, 2), draw(3, 3), spread(6, 2))
def mixture_objective(alphas, means, icf, x):
    d = means.shape[1]
    logs = []
    for k in range(len(alphas)):
        q, low = icf[k, :d], icf[k, d:]
        L = jnp.diag(jnp.exp(q)) + jnp.array([[0.0, 0.0], [low[0], 0.0]])
        z = (x - means[k]) @ L.T
        logs.append(alphas[k] + q.sum() - 0.5 * (z**2).sum(axis=1))
    inner = jax.scipy.special.logsumexp(jnp.stack(logs), axis=0).sum()
    frobenius = jnp.sum(jnp.exp(2 * icf[:, :d])) + jnp.sum(icf[:, d:] ** 2)
    return inner - len(x) * jax.scipy.special.logsumexp(alphas) + 0.5 * frobenius


# GradBench: ode
@case(draw(5), 6)
def nested_exponentials(x, steps: int):
    def slope(y):
        return jnp.concatenate([x[:1], x[1:] * y[:-1]])

    h = 2.0 / steps
    y = jnp.zeros_like(x)
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h * k1 / 2)
        k3 = slope(y + h * k2 / 2)
        k4 = slope(y + h * k3)
        y = y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6
    return y[-1]


# GradBench: det
@case(spread(4, 4))
def determinant_by_minors(A):
    n = A.shape[0]
    if n == 1:
        return A[0, 0]
    total = 0.0
    for j in range(n):
        minor = np.delete(A[1:], j, axis=1)
        total += (-1) ** j * A[0, j] * determinant_by_minors(minor)
    return total


# GradBench: ba
@case(draw(11), draw(3), 0.8, draw(2))
def reprojection_error(cam, X, w, feat):
    rot, centre, f, x0, rad = cam[:3], cam[3:6], cam[6], cam[7:9], cam[9:]
    theta2 = jnp.sum(rot**2)
    theta = jnp.sqrt(theta2)
    axis = rot / theta
    Y = X - centre
    turned = (
        Y * jnp.cos(theta)
        + jnp.cross(axis, Y) * jnp.sin(theta)
        + axis * (axis @ Y) * (1 - jnp.cos(theta))
    )
    p = turned[:2] / turned[2]
    r2 = p @ p
    p = p * (1 + rad[0] * r2 + rad[1] * r2**2)
    return jnp.sum((w * (p * f + x0 - feat)) ** 2)


# GradBench: ht
@case(draw(2, 3), draw(2, 4, 4), draw(5, 4), draw(2, 5), draw(5, 3))
def skinned_hand(angles, base, rest, weights, points):
    def rotation(v):
        cx, cy, cz = np.cos(v)
        sx, sy, sz = np.sin(v)
        Rx = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
        Ry = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
        Rz = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
        return Rz @ Ry @ Rx

    placed = 0
    absolute = np.eye(4)
    for k in range(2):
        local = np.block(
            [[rotation(angles[k]), np.zeros((3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]]
        )
        absolute = absolute @ base[k] @ local
        placed = placed + weights[k][:, None] * (rest @ absolute.T)[:, :3]
    return np.sum((placed - points) ** 2)


# GradBench: particle, with its steps counted
@case(0.4)
def charged_particle(w):
    charges = [(10.0, 10.0 - w), (10.0, 0.0)]
    dt = 0.1
    x = jnp.array([0.0, 8.0])
    v = jnp.array([0.75, 0.0])
    for _ in range(8):
        a = jnp.zeros(2)
        for cx, cy in charges:
            d = x - jnp.array([cx, cy])
            a = a + d / jnp.linalg.norm(d) ** 3
        x = x + dt * v
        v = v + dt * a
    return x[0] ** 2


# GradBench: saddle, by descent and ascent in turn
@case(draw(2))
def saddle_by_iterations(start):
    x, y = start, start
    for _ in range(10):
        x = x - 0.1 * 2 * x
        y = y + 0.1 * (-2 * y)
    f = x @ x - y @ y
    return f + x.sum()


# GradBench: lstm
@case(draw(2, 8, 3), draw(3, 3), draw(2, 2, 3), draw(6, 3))
def gates_by_weights(main, extra, state, sequence):
    def layer(weight, bias, h, c, x):
        forget = jax.nn.sigmoid(x * weight[0] + bias[0])
        ingate = jax.nn.sigmoid(h * weight[1] + bias[1])
        outgate = jax.nn.sigmoid(x * weight[2] + bias[2])
        change = jnp.tanh(h * weight[3] + bias[3])
        c = c * forget + ingate * change
        return outgate * jnp.tanh(c), c

    loss, count = 0.0, 0
    for t in range(len(sequence) - 1):
        x = sequence[t] * extra[0]
        made = []
        for k in range(2):
            h, c = layer(main[k, :4], main[k, 4:], state[k, 0], state[k, 1], x)
            made.append(jnp.stack([h, c]))
            x = h
        state = jnp.stack(made)
        y = x * extra[1] + extra[2]
        y = y - jax.nn.logsumexp(y)
        loss = loss + jnp.sum(sequence[t + 1] * y)
        count += 3
    return -loss / count


# autograd: ica
@case(draw(12), spread(5, 3))
def independent_components(params, observed):
    weights = np.reshape(params[:6], (3, 2))
    latents = np.reshape(params[6:], (2, 3))
    z = ((np.dot(weights, latents)).T - observed[:3]) / 0.7
    nu = 2.4
    return np.sum(-0.5 * (nu + 1) * np.log1p(z**2 / nu) - np.log(0.7))


# autograd: hmm_em
@case([draw(3), draw(3, 3), draw(3, 4)], np.array([0, 3, 1, 1, 2]))
def log_partition(natural_params, data):
    log_pi, log_A, log_B = natural_params
    log_alpha = log_pi
    for y in data:
        log_alpha = jax.nn.logsumexp(log_alpha[:, None] + log_A, axis=0) + log_B[:, y]
    return jax.nn.logsumexp(log_alpha)


# autograd: fluidsim's wing
@case(draw(4, 5), draw(4, 5), draw(4, 5))
def flow_around(vx, vy, blocked):
    def smooth(f):
        free = 1 - blocked
        num, den = 0, 0
        for axis in (0, 1):
            for shift in (1, -1):
                num += np.roll(f, shift, axis) * np.roll(free, shift, axis=axis)
                den += np.roll(free, shift, axis=axis)
        return f * free + (1 - free) * num / (den + 0.001)

    div = -0.5 * (np.roll(vx, -1, 1) - np.roll(vx, 1, 1) + np.roll(vy, -1, 0) - np.roll(vy, 1, 0))
    p = np.zeros(vx.shape)
    for _ in range(3):
        p = smooth((smooth(div) + np.roll(p, 1, 1) + np.roll(p, -1, 1)) / 4.0)
    vx = vx - 0.5 * (np.roll(p, -1, axis=1) - np.roll(p, 1, axis=1))
    return np.mean(vx**2)


# autograd: negative_binomial_maxlike
@case(2.5, 0.4, np.array([1.0, 3.0, 2.0, 5.0]))
def negative_binomial(r, p, counts):
    gammaln = jax.scipy.special.gammaln
    return jnp.sum(
        gammaln(counts + r)
        - gammaln(counts + 1)
        - gammaln(r)
        + counts * jnp.log(p)
        + r * jnp.log1p(-p)
    )


# autograd: gaussian_process
@case(draw(3), draw(5, 2), draw(5))
def marginal_likelihood(log_params, x, y):
    noise, scale, length = jnp.exp(log_params)
    d2 = jnp.sum((x[:, None] - x[None]) ** 2, axis=-1)
    K = scale * jnp.exp(-0.5 * d2 / length**2) + noise * jnp.eye(len(y))
    L = jnp.linalg.cholesky(K)
    alpha = jax.scipy.linalg.cho_solve((L, True), y)
    return -0.5 * y @ alpha - jnp.sum(jnp.log(jnp.diag(L))) - 0.5 * len(y) * jnp.log(2 * jnp.pi)


# autograd: neural_net, with its parameters in one vector
@case(draw(3 * 4 + 4 + 4 * 2 + 2), draw(5, 3), draw(5, 2))
def flat_network(flat, inputs, targets):
    sizes = [3, 4, 2]
    at = 0
    for m, n in zip(sizes[:-1], sizes[1:], strict=True):  # noqa: RUF007
        W = flat[at : at + m * n].reshape((m, n))
        b = flat[at + m * n : at + m * n + n]
        at += m * n + n
        outputs = inputs @ W + b
        inputs = np.tanh(outputs)
    return np.sum((outputs - targets) ** 2) + 0.1 * np.dot(flat, flat)


# From Python to NumPy: smoke
@case(draw(6, 6), draw(6, 6), in_place=True)
def diffused_smoke(x, x0):
    x = x.copy()
    for _ in range(3):
        x[1:-1, 1:-1] = (
            x0[1:-1, 1:-1] + 0.2 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
        ) / 1.8
        x[0, 1:-1] = -x[1, 1:-1]
        x[-1, 1:-1] = -x[-2, 1:-1]
        x[1:-1, 0] = x[1:-1, 1]
        x[1:-1, -1] = x[1:-1, -2]
        x[0, 0] = 0.5 * (x[1, 0] + x[0, 1])
    return np.sum(x**2)


# From Python to NumPy: boids
@case(spread(5, 2), spread(5, 2))
def separated_boids(position, velocity):
    apart = position[:, None] - position[None, :]
    distance = np.sqrt((apart**2).sum(axis=-1) + 1e-3)
    near = (distance > 0) * (distance < 1.5)
    count = np.maximum(near.sum(axis=1), 1).reshape(-1, 1)
    steer = (near[..., None] * apart / distance[..., None]).sum(axis=1) / count
    heading = np.dot(near * 1.0, velocity) / count
    return np.sum(steer**2) + np.sum((heading - velocity) ** 2)


# From Python to NumPy: mandelbrot, in real and imaginary parts
@case(0.31 * spread(6), 0.31 * spread(6))
def escape_radius(cr, ci):
    zr, zi = np.zeros_like(cr), np.zeros_like(ci)
    for _ in range(5):
        inside = zr * zr + zi * zi < 4.0
        zr, zi = (
            np.where(inside, zr * zr - zi * zi + cr, zr),
            np.where(inside, 2 * zr * zi + ci, zi),
        )
    return np.sum(np.hypot(zr, zi))


# SciPy cookbook: least squares circle
@case(draw(2), spread(7), spread(7))
def circle_fit(centre, x, y):
    def radii(xc, yc):
        return np.sqrt((x - xc) ** 2 + (y - yc) ** 2)

    Ri = radii(*centre)
    return sum((Ri - Ri.mean()) ** 2)


# SciPy cookbook: coupled springs
@case(draw(4), draw(8))
def coupled_springs(w0, p):
    def field(w):
        x1, y1, x2, y2 = w
        m1, m2, k1, k2, L1, L2, b1, b2 = p
        return np.array([
            y1,
            (-b1 * y1 - k1 * (x1 - L1) + k2 * (x2 - x1 - L2)) / m1,
            y2,
            (-b2 * y2 - k2 * (x2 - x1 - L2)) / m2,
        ])  # fmt: skip

    w = w0
    for _ in range(34):
        half = w + 0.025 * field(w)
        w = w + 0.05 * field(half)
    return w[0] ** 2 + w[2] ** 2


# SciPy cookbook: signal smooth
@case(draw(12))
def smoothed_signal(x):
    n = 5
    s = np.r_[x[n - 1 : 0 : -1], x, x[-2 : -n - 1 : -1]]
    w = np.hanning(n)
    y = np.convolve(w / w.sum(), s, mode="valid")
    return np.sum(y**2)


# SciPy cookbook: Lotka-Volterra
@case(draw(2), draw(4), 34)
def foxes_and_rabbits(X, rates, steps: int):
    a, b, c, d = rates
    for _ in range(steps):
        dX = np.array([a * X[0] - b * X[0] * X[1], -c * X[1] + d * b * X[0] * X[1]])
        X = X + 0.01 * dX
    return X @ X


# SciPy cookbook: OLS
@case(spread(8, 3), draw(8))
def ordinary_least_squares(X, y):
    b = np.linalg.solve(X.T @ X, X.T @ y)
    e = y - X @ b
    return e @ e / (len(y) - 3)


# NumPy 100: negate what is between
@case(spread(9), in_place=True)
def negated_between(z):
    z = z.copy()
    z[(z > -0.5) & (z < 0.5)] *= -1
    z[z < -1] = 0
    return np.sum(z**3)


# NumPy 100: distance of points from lines
@case(spread(4, 2), spread(4, 2), spread(3, 2))
def distance_to_lines(P0, P1, points):
    T = P1 - P0
    L = (T**2).sum(axis=1)
    total = 0.0
    for p in points:
        U = -((P0[:, 0] - p[0]) * T[:, 0] + (P0[:, 1] - p[1]) * T[:, 1]) / L
        D = P0 + U.reshape(len(U), 1) * T - p
        total += np.sqrt((D**2).sum(axis=1)).sum()
    return total


# NumPy 100: Cauchy matrix
@case(draw(3))
def cauchy_determinant(X):
    Y = X + 0.5
    C = 1.0 / (X.reshape((X.size, 1)) + Y)
    return np.linalg.det(C)


# NumPy 100: sums by bins
@case(draw(6), np.array([1, 3, 0, 3, 4, 1]))
def binned(X, I):  # noqa: E741
    F = np.bincount(I, weights=X, minlength=6)
    return np.sum(F**2)


# NumPy 100: the largest values, the median
@case(spread(7), 3)
def trimmed(z, k: int):
    s = np.sort(z)
    return np.sum(s[k:] ** 2) + np.median(z) * np.median(z[1:])


# d2l.ai: masked softmax
@case(draw(2, 3, 4), draw(2, 4, 4), draw(2, 4, 2), np.array([2.0, 3.0]))
def masked_attention(Q, K, V, lengths):
    scores = Q @ K.swapaxes(1, 2) / math.sqrt(Q.shape[-1])
    mask = jnp.arange(K.shape[1])[None, :] < lengths[:, None]
    scores = jnp.where(mask[:, None, :], scores, -1e6)
    return jnp.sum(jax.nn.softmax(scores, axis=-1) @ V)


# d2l.ai: positional encoding
@case(draw(5, 6))
def positions_added(X):
    n, d = X.shape
    angle = np.arange(n).reshape(-1, 1) / np.power(10000, np.arange(0, d, 2) / d)
    P = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(n, d)
    return np.sum((X + P) ** 2)


# d2l.ai: Adam from scratch
@case(draw(3), spread(6, 3), draw(6))
def adam_steps(w, X, y):
    v, s = np.zeros(3), np.zeros(3)
    for t in range(1, 5):
        g = 2 * X.T @ (X @ w - y) / len(y)
        v = 0.9 * v + 0.1 * g
        s = 0.99 * s + 0.01 * g**2
        vhat, shat = v / (1 - 0.9**t), s / (1 - 0.99**t)
        w = w - 0.05 * vhat / (np.sqrt(shat) + 1e-6)
    return np.sum((X @ w - y) ** 2)


# d2l.ai: intersection over union
@case(draw(3, 4), draw(4, 4))
def box_overlap(a, b):
    a = np.concatenate([a[:, :2], a[:, :2] + a[:, 2:]], axis=1)
    b = np.concatenate([b[:, :2], b[:, :2] + b[:, 2:]], axis=1)

    def area(boxes):
        return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])

    low = np.maximum(a[:, None, :2], b[:, :2])
    high = np.minimum(a[:, None, 2:], b[:, 2:])
    side = np.clip(high - low, 0, None)
    both = side[..., 0] * side[..., 1]
    return np.sum(both / (area(a)[:, None] + area(b) - both))


# cs231n: SVM loss
@case(spread(4, 3), spread(6, 4), np.array([0, 2, 1, 1, 2, 0]), in_place=True)
def svm_margins(W, X, y):
    scores = X.dot(W)
    right = scores[np.arange(len(y)), y].reshape(-1, 1)
    margins = np.maximum(0, scores - right + 1)
    margins[np.arange(len(y)), y] = 0
    return margins.sum() / len(y) + 0.1 * np.sum(W * W)


# cs231n: a convolution by loops
@case(draw(2, 5, 5), draw(3, 2, 3, 3), draw(3), in_place=True)
def convolved_by_loops(x, w, b):
    pad, stride = 1, 2
    xp = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
    F, _, HH, WW = w.shape
    out = np.zeros((F, 3, 3))
    for f in range(F):
        for i in range(3):
            for j in range(3):
                part = xp[:, i * stride : i * stride + HH, j * stride : j * stride + WW]
                out[f, i, j] = np.sum(part * w[f]) + b[f]
    return np.sum(out**2)


# min-char-rnn
@case(draw(4, 5), draw(4, 4), draw(5, 4), [0, 3, 2], [3, 2, 4])
def characters(Wxh, Whh, Why, inputs, targets):
    hs, loss = {}, 0
    hs[-1] = np.zeros((4, 1))
    for t in range(3):
        x = np.zeros((5, 1)) + np.eye(5)[:, inputs[t]].reshape(5, 1)
        hs[t] = np.tanh(np.dot(Wxh, x) + np.dot(Whh, hs[t - 1]))
        y = np.dot(Why, hs[t])
        p = np.exp(y) / np.sum(np.exp(y))
        loss += -np.log(p[targets[t], 0])
    return loss


# PyTorch's tutorial: a polynomial by NumPy
@case(draw(4), np.linspace(-math.pi, math.pi, 9))
def third_order_fit(coefficients, x):
    a, b, c, d = coefficients
    y = np.sin(x)
    for _ in range(5):
        pred = a + b * x + c * x**2 + d * x**3
        grad = 2.0 * (pred - y)
        a -= 1e-3 * grad.sum()
        b -= 1e-3 * (grad * x).sum()
        c -= 1e-4 * (grad * x**2).sum()
        d -= 1e-5 * (grad * x**3).sum()
    return np.square(a + b * x + c * x**2 + d * x**3 - y).sum()


# scikit-learn: metrics
@case(draw(6), draw(6), 0.3)
def pinball(y, p, alpha):
    d = y - p
    sign = (d >= 0).astype(d.dtype)
    return np.average(alpha * sign * d - (1 - alpha) * (1 - sign) * d)


@case(draw(4, 3), draw(5, 3))
def chi_squared_kernel(X, Y):
    num = (X[:, None] - Y[None]) ** 2
    den = X[:, None] + Y[None]
    return np.exp(-0.5 * np.sum(num / den, axis=2)).sum()


# JAX: thinking in JAX, the sharp bits, pytrees
@case(spread(6))
def safe_logarithm(x):
    ok = x > 0
    return jnp.where(ok, jnp.log(jnp.where(ok, x, 1.0)), 0.0).sum()


@case({"a": draw(3), "b": [draw(2), (draw(2, 2), draw(1))]})
def sum_of_leaves(tree):
    squares = jax.tree_util.tree_map(lambda v: jnp.sum(v**2), tree)
    return sum(jax.tree_util.tree_leaves(squares))


class Body(NamedTuple):
    at: Any
    speed: Any


# JAX MD, and the n-body problem of the Computer Language Benchmarks Game
@case(Body(spread(4, 3), spread(4, 3)), draw(4))
def leapfrog(state, mass):
    def force(q):
        d = q[:, None] - q[None]
        r2 = jnp.sum(d**2, -1) + 0.1
        return -jnp.sum(mass[None, :, None] * d * r2[..., None] ** -1.5, axis=1)

    def step(s, _):
        half = s.speed + 0.005 * force(s.at)
        q = s.at + 0.01 * half
        s = Body(q, half + 0.005 * force(q))
        return s, 0.5 * jnp.sum(mass[:, None] * s.speed**2)

    last, energies = lax.scan(step, state, None, length=6)
    return jnp.mean(energies) + jnp.sum(last.at**2)


# NumPy's documentation: periodic boundaries
@case(spread(6, 2) * 2, 1.5)
def periodic_distances(x, box):
    d = x[:, None] - x[None]
    d = d - box * np.floor(d / box + 0.5)
    wrapped = x % box
    return np.sum(np.exp(-np.sum(d**2, -1))) + np.sum(wrapped**2)


# SciPy lectures: Gauss quadrature, Newton's method
@case(draw(3))
def arc_length(c):
    nodes, weights = legendre.leggauss(5)
    t = 0.5 * (nodes + 1)
    slope = c[0] + 2 * c[1] * t + 3 * c[2] * t**2
    return 0.5 * np.sum(weights * np.sqrt(1 + slope**2))


@case(2.7)
def root_by_newton(a):
    x = a
    for _ in range(6):
        x = x - (x**3 - a) / (3 * x**2)
    return x


# Kalman filters, as FilterPy writes them
@case(draw(2), draw(2, 2), draw(2, 2), draw(5, 2))
def filtered(x, F, H, zs):
    P = np.eye(2) * 2.0
    loglik = 0.0
    for z in zs:
        x, P = F @ x, F @ P @ F.T + 0.1 * np.eye(2)
        y = z - H @ x
        S = H @ P @ H.T + 0.3 * np.eye(2)
        SI = np.linalg.inv(S)
        K = P @ H.T @ SI
        x = x + K @ y
        P = (np.eye(2) - K @ H) @ P
        loglik -= 0.5 * (y @ SI @ y + np.log(np.linalg.det(S)))
    return loglik


# An Introduction to Statistical Learning: a spline's basis, elastic net
@case(draw(6), spread(8), spread(8, 6))
def elastic_net(beta, y, X):
    r = y - X @ beta
    return np.mean(r**2) / 2 + 0.1 * np.linalg.norm(beta, ord=1) + 0.05 * np.linalg.norm(beta) ** 2


@case(draw(8), draw(3))
def hinge_splines(x, coefficients):
    knots = np.array([0.4, 0.7, 1.0])
    basis = np.maximum(x[:, None] - knots[None, :], 0.0) ** 3
    return np.sum(basis @ coefficients)


# Signal processing: Think DSP, SciPy
@case(draw(8), 3)
def circular_mean_shift(phases, k: int):
    s, c = np.sin(phases).sum(), np.cos(phases).sum()
    centre = np.arctan2(s, c)
    apart = (phases - centre + np.pi) % (2 * np.pi) - np.pi
    return np.sum(apart**2) + phases[len(phases) // k]


# Numerical tours of optimal transport
@case(draw(5), draw(5))
def wasserstein_in_one_dimension(x, y):
    return np.sum((np.sort(x) - np.sort(y)) ** 2)


@case(draw(4, 4), draw(4), draw(4))
def sinkhorn_in_logs(C, a, b):
    eps = 0.3
    f, g = jnp.zeros_like(a), jnp.zeros_like(b)
    for _ in range(34):
        f = eps * (jnp.log(a) - jax.nn.logsumexp((g[None, :] - C) / eps, axis=1))
        g = eps * (jnp.log(b) - jax.nn.logsumexp((f[:, None] - C) / eps, axis=0))
    return jnp.sum(jnp.exp((f[:, None] + g[None, :] - C) / eps) * C)


# Machine learning from scratch, gradient boosting and robust statistics
@case(spread(9))
def robust_scale(x):
    centre = np.median(x)
    mad = np.median(np.abs(x - centre))
    return np.sum(np.tanh((x - centre) / (1.4826 * mad)) ** 2)


@case(spread(8))
def positive_part_mean(x):
    return x[x > 0].sum() + x[x < 0].mean() ** 2


@case(spread(6), spread(6))
def triplet(a, b):
    d = functools.reduce(lambda s, v: s + v, [np.sum((a - np.roll(b, k)) ** 2) for k in range(3)])
    return np.maximum(0.0, d - 1.0) + np.linalg.norm(a - b, ord=np.inf) + np.linalg.norm(a, 3)
