"""Functions in the manner of public sources, NumPy's and JAX's tutorials, SciPy's, GradBench, scikit-learn's metrics, d2l.ai,
picoGPT, autograd's examples, "From Python to NumPy": each undecorated gives the same numbers, and `jax.grad` the same
gradients.
"""

import dataclasses
import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import of_jax
import pytest
from cases import Cases, entering

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.precision import keeping_float64

R = np.random.default_rng(3)
CASES: Cases = []
case = entering(CASES)
#: They fill arrays in place, which JAX's do not allow.
IN_PLACE = ("corr2d", "heat_residual", "moving_average")


def draw(*shape):
    return R.uniform(0.3, 1.3, shape)


# JAX quickstart / autodiff cookbook / thinking in jax
@case(draw(5))
def selu_sum(x, alpha=1.67, lmbda=1.05):
    return jnp.sum(lmbda * jnp.where(x > 0.8, x, alpha * jnp.exp(x) - alpha))


@case(draw(3), 0.3, draw(6, 3), np.array([True, False, True, True, False, True]))
def cookbook_loss(W, b, inputs, targets):
    preds = 0.5 * (jnp.tanh((jnp.dot(inputs, W) + b) / 2) + 1)
    label_probs = preds * targets + (1 - preds) * (1 - targets)
    return -jnp.sum(jnp.log(label_probs))


@case({"W": draw(3), "b": 0.3}, draw(6, 3), draw(6))
def cookbook_dict(params, inputs, targets):
    preds = jax.nn.sigmoid(jnp.dot(inputs, params["W"]) + params["b"])
    return jnp.mean((preds - targets) ** 2)


@case(
    [(draw(4, 3), draw(4)), (draw(4, 4), draw(4)), (draw(2, 4), draw(2))],
    draw(5, 3),
    np.eye(2)[[0, 1, 1, 0, 1]],
)
def mnist_from_scratch(params, images, targets):
    activations = images
    for w, b in params[:-1]:
        outputs = jnp.dot(activations, w.T) + b
        activations = jnp.maximum(0, outputs)
    final_w, final_b = params[-1]
    logits = jnp.dot(activations, final_w.T) + final_b
    preds = logits - jax.nn.logsumexp(logits, axis=1, keepdims=True)
    return -jnp.mean(preds * targets)


@case(draw(6), draw(3))
def jax101_convolve(x, w):
    output = []
    for i in range(1, len(x) - 1):
        output.append(jnp.dot(x[i - 1 : i + 2], w))
    return jnp.array(output)


# scipy optimise tutorial
@case(draw(6))
def rosen(x):
    return sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0)


@case(draw(6))
def rosen_with_args(x, a=2.0, b=0.5):
    return sum(a * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0) + b


@case(draw(5, 5))
def heat_residual(P):
    hx = hy = 1 / 4
    d2x = np.zeros_like(P)
    d2y = np.zeros_like(P)
    d2x[1:-1] = (P[2:] - 2 * P[1:-1] + P[:-2]) / hx / hx
    d2y[:, 1:-1] = (P[:, 2:] - 2 * P[:, 1:-1] + P[:, :-2]) / hy / hy
    return np.sum((d2x + d2y + 5 * np.cosh(P).mean() ** 2) ** 2)


# GradBench / ADBench
@case(draw(6, 3), draw(2, 3))
def gradbench_kmeans(points, centers):
    d = ((points[:, None] - centers) ** 2).sum(-1)
    return d.min(axis=1).sum()


@case(draw(7))
def lse(x):
    A = x.max()
    return jnp.log(jnp.sum(jnp.exp(x - A))) + A


@case(draw(4))
def llsq(x):
    total = 0
    n, m = 6, len(x)
    for i in range(n):
        ti = -1 + i * 2 / (n - 1)
        acc = 0.3
        p = 1
        for j in range(m):
            acc = acc - x[j] * p
            p = p * ti
        total += acc**2
    return total / 2


@case(draw(2), draw(2), draw(2, 3))
def ba_radial(rad, x0, proj):
    rsq = np.sum(proj * proj, axis=0)
    L = 1.0 + rad[0] * rsq + rad[1] * rsq * rsq
    return np.sum(proj * L + x0[:, None])


@case(draw(3), draw(3))
def rodrigues(rot, X):
    sqtheta = np.sum(rot * rot)
    theta = np.sqrt(sqtheta)
    w = rot / theta
    return (
        X * np.cos(theta) + np.cross(w, X) * np.sin(theta) + w * np.dot(w, X) * (1 - np.cos(theta))
    )


@case(draw(4), draw(4, 4), draw(6, 4))
def log_gamma_gmm(q, L, x):
    Lx = x @ np.tril(L, -1).T + np.exp(q) * x
    return np.sum(q) - 0.5 * np.sum(Lx * Lx)


# picoGPT / minGPT
@case(draw(4, 3))
def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@case(draw(4, 3))
def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


@case(draw(4, 3), draw(4, 3), draw(4, 3))
def causal_attention(q, k, v):
    mask = (1 - np.tri(q.shape[0])) * -1e10
    s = q @ k.T / np.sqrt(q.shape[-1]) + mask
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True) @ v


@case(
    draw(4, 6),
    {"c_attn": {"w": draw(6, 18), "b": draw(18)}, "c_proj": {"w": draw(6, 6), "b": draw(6)}},
)
def multi_head_attention(x, params):
    x = x @ params["c_attn"]["w"] + params["c_attn"]["b"]
    qkv = np.split(x, 3, axis=-1)
    heads = [np.split(part, 2, axis=-1) for part in qkv]
    out = []
    for q, k, v in zip(*heads, strict=True):
        s = q @ k.T / np.sqrt(q.shape[-1])
        e = np.exp(s - np.max(s, axis=-1, keepdims=True))
        out.append(e / np.sum(e, axis=-1, keepdims=True) @ v)
    return np.hstack(out) @ params["c_proj"]["w"] + params["c_proj"]["b"]


# scikit-learn metrics
@case(draw(5, 3), draw(4, 3))
def rbf_kernel(X, Y, gamma=0.5):
    XX = (X * X).sum(axis=1)[:, np.newaxis]
    YY = (Y * Y).sum(axis=1)[np.newaxis, :]
    return np.exp(-gamma * (XX + YY - 2 * np.dot(X, Y.T)))


@case(draw(5), draw(5))
def cosine_similarity(a, b):
    return np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b))


@case(draw(6), draw(6))
def r2_score(y, p):
    return 1 - ((y - p) ** 2).sum() / ((y - y.mean()) ** 2).sum()


@case(draw(6), draw(6))
def poisson_deviance(y, p):
    return 2 * np.mean(y * np.log(y / p) - y + p)


@case(draw(6, 3), draw(6))
def hinge(X, y):
    w = X[0]
    return np.maximum(0, 1 - y * (X @ w)).mean() + 0.5 * (w @ w)


# d2l.ai
@case(draw(6, 6), draw(2, 2))
def corr2d(X, K):
    h, w = K.shape
    Y = np.zeros((X.shape[0] - h + 1, X.shape[1] - w + 1))
    for i in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            Y[i, j] = (X[i : i + h, j : j + w] * K).sum()
    return Y


@case(draw(6, 6))
def avg_pool(X):
    return X.reshape(3, 2, 3, 2).mean(axis=(1, 3))


@case(draw(6, 6))
def max_pool(X):
    return X.reshape(3, 2, 3, 2).max(axis=(1, 3))


@case(draw(5, 3), draw(5, 4), np.array([0, 2, 1, 2, 0]))
def cross_entropy(X, W0, y):
    o = X @ W0[:3, :3]
    p = np.exp(o) / np.exp(o).sum(1, keepdims=True)
    return -np.log(p[np.arange(len(p)), y]).mean()


@case(draw(4, 5), draw(4, 5))
def batch_norm(X, G):
    mean = X.mean(axis=0)
    var = ((X - mean) ** 2).mean(axis=0)
    return (X - mean) / np.sqrt(var + 1e-5) * G


# From Python to NumPy (Rougier)
@case(draw(7, 7), draw(7, 7))
def gray_scott(U, V, Du=0.16, Dv=0.08, F=0.035, k=0.065):
    u, v = U[1:-1, 1:-1], V[1:-1, 1:-1]
    Lu = U[0:-2, 1:-1] + U[1:-1, 0:-2] - 4 * U[1:-1, 1:-1] + U[1:-1, 2:] + U[2:, 1:-1]
    Lv = V[0:-2, 1:-1] + V[1:-1, 0:-2] - 4 * V[1:-1, 1:-1] + V[1:-1, 2:] + V[2:, 1:-1]
    uvv = u * v * v
    return np.sum((Du * Lu - uvv + F * (1 - u)) ** 2 + (Dv * Lv + uvv - (F + k) * v) ** 2)


@case(draw(5, 2), draw(5, 2))
def boids_cohesion(position, velocity):
    dx = np.subtract.outer(position[:, 0], position[:, 0])
    dy = np.subtract.outer(position[:, 1], position[:, 1])
    distance = np.sqrt(dx**2 + dy**2 + 1)
    return np.sum(velocity[:, 0] / distance.sum(axis=1))


# autograd examples
@case(draw(5, 2), draw(5, 2))
def rkhs_mmd(x, y):
    def k(a, b):
        return np.exp(-np.sum((a[:, None] - b[None]) ** 2, axis=2))

    return k(x, x).mean() + k(y, y).mean() - 2 * k(x, y).mean()


@case(draw(8))
def tanh_taylor(x):
    y = np.exp(-2.0 * x)
    return (1.0 - y) / (1.0 + y)


@case(draw(6, 6), draw(6, 6))
def fluid_project(vx, vy):
    h = 1.0 / vx.shape[0]
    div = (
        -0.5
        * h
        * (
            np.roll(vx, -1, axis=0)
            - np.roll(vx, 1, axis=0)
            + np.roll(vy, -1, axis=1)
            - np.roll(vy, 1, axis=1)
        )
    )
    return np.sum(div**2)


@case(draw(3, 2), draw(10, 2))
def black_box_elbo(params, samples):
    mean, log_std = params[:, 0], params[:, 1]
    entropy = 0.5 * 3 * (1.0 + np.log(2 * np.pi)) + np.sum(log_std)
    z = mean[:2] + samples * np.exp(log_std[:2])
    return entropy + np.mean(-0.5 * np.sum(z**2, axis=1))


# NumPy docs
@case(draw(4), draw(4))
def mse_absolute_beginners(predictions, labels):
    return 1 / len(labels) * np.sum(np.square(predictions - labels))


@case(draw(6))
def moving_average(a, n=3):
    ret = np.cumsum(a)
    ret[n:] = ret[n:] - ret[:-n]
    return ret[n - 1 :] / n


@case(draw(4, 4), draw(4))
def markov_step(P, p):
    P = P / P.sum(axis=1, keepdims=True)
    for _ in range(3):
        p = p @ P
    return p


# physics / Scipy lectures / Elegant SciPy
@case(draw(10))
def trapezoid(y):
    return 0.1 * (y[1:] + y[:-1]).sum() / 2


@case(draw(10))
def simpson(y):
    return 0.1 / 3 * (y[0] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum() + y[-1])


@case(draw(4, 3), draw(4))
def lennard_jones(positions, eps):
    n = len(positions)
    e = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            r2 = ((positions[i] - positions[j]) ** 2).sum()
            s6 = (1 / r2) ** 3
            e += 4 * eps[i] * (s6**2 - s6)
    return e


@case(draw(6), draw(6))
def kl(p, q):
    p, q = p / p.sum(), q / q.sum()
    return np.sum(np.where(p != 0, p * np.log(p / q), 0))


@case(draw(4, 4))
def gram_style(F):
    G = np.einsum("ij,kj->ik", F, F) / F.size
    return np.square(G).sum()


@case(draw(6, 2))
def polygon_area(p):
    x, y = p.T
    return 0.5 * np.abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))


@case(draw(5), 0.3)
def focal(p, gamma):
    return -np.mean((1 - p / 2) ** gamma * np.log(p / 2))


# written down from memory, as such functions are written: losses, kernels, filters, models of sequences
@case(draw(5, 3), draw(5, 3), 0.7)
def matern32(X, Y, ell):
    d = np.sqrt(((X[:, None, :] - Y[None, :, :] + 0.1) ** 2).sum(-1))
    a = np.sqrt(3.0) * d / ell
    return ((1 + a) * np.exp(-a)).sum()


@case(draw(6, 3), np.array([0, 2, 1, 1, 0, 2]))
def nll_takes(logits, labels):
    logp = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.mean(jnp.take_along_axis(logp, labels[:, None], axis=1))


@case(draw(6, 3), np.array([0, 2, 1, 1, 0, 2]))
def ce_onehot(logits, labels):
    onehot = jax.nn.one_hot(labels, 3)
    return -jnp.mean(jnp.sum(onehot * jax.nn.log_softmax(logits), axis=-1))


@case(draw(8), draw(8))
def huber(pred, target, delta=0.2):
    err = pred - target
    abs_err = np.abs(err)
    quad = np.minimum(abs_err, delta)
    lin = abs_err - quad
    return np.mean(0.5 * quad**2 + delta * lin)


@case(draw(5, 6), draw(6))
def rmsnorm(x, w):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * w


@case(draw(4), draw(5, 3))
def quat_rotate(q, pts):
    q = q / np.linalg.norm(q)
    w, v = q[0], q[1:]
    t = 2 * np.cross(v, pts)
    return (pts + w * t + np.cross(v, t)).sum()


@case(draw(3), draw(5, 3) + 2)
def project_pinhole(cam, X, f=1.2):
    p = X - cam
    uv = p[:, :2] / p[:, 2:]
    r2 = (uv**2).sum(1, keepdims=True)
    uv = uv * (1 + 0.1 * r2 + 0.01 * r2**2)
    return np.sum((f * uv - 0.5) ** 2)


@case(draw(5), 0.7)
def horner(c, x):
    p = 0.0
    for a in c[::-1]:
        p = p * x + a
    return p


@case(draw(5), 0.7)
def polyval(c, x):
    return np.polyval(c, x)


@case(draw(6), draw(6))
def trapz(y, x):
    return np.trapezoid(y, x)


@case(draw(4, 5), draw(4), draw(5))
def sinkhorn(C, a, b, eps=0.5):
    K = np.exp(-C / eps)
    u = np.ones_like(a)
    for _ in range(20):
        v = b / (K.T @ u)
        u = a / (K @ v)
    return np.sum(u[:, None] * K * v[None, :] * C)


@case(draw(4, 4), draw(4, 3), draw(4), np.array([0, 2, 1, 1, 0, 2, 0]))
def hmm_forward(A, B, pi, obs):
    alpha = pi * B[:, obs[0]]
    for t in range(1, len(obs)):
        alpha = (alpha @ A) * B[:, obs[t]]
    return np.log(alpha.sum())


@case(draw(3, 3), draw(3, 2), draw(7, 2), draw(3))
def rnn_scan(W, U, xs, h0):
    def cell(h, x):
        h = jnp.tanh(W @ h + U @ x)
        return h, h

    h, hs = jax.lax.scan(cell, h0, xs)
    return jnp.sum(hs**2) + jnp.sum(h)


@case(draw(6), 12)
def heat_fori(u, n):
    def body(_, u):
        return u.at[1:-1].add(0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]))

    u = jax.lax.fori_loop(0, n, body, u)
    return jnp.sum(u**2)


@case(draw(2), draw(2, 2), draw(1, 2), draw(6, 1))
def kalman(x, F, H, zs):
    P = np.eye(2)
    ll = 0.0
    for z in zs:
        x = F @ x
        P = F @ P @ F.T + 0.1 * np.eye(2)
        y = z - H @ x
        S = (H @ P @ H.T)[0, 0] + 0.5
        K = P @ H.T / S
        x = x + K @ y
        P = (np.eye(2) - K @ H) @ P
        ll += -0.5 * (np.log(2 * np.pi * S) + y[0] ** 2 / S)
    return ll


class LSTM(NamedTuple):
    Wx: Any
    Wh: Any
    b: Any


@case(LSTM(draw(2, 12), draw(3, 12), draw(12)), draw(5, 2))
def lstm(p, xs):
    h = jnp.zeros(3)
    c = jnp.zeros(3)
    for x in xs:
        z = x @ p.Wx + h @ p.Wh + p.b
        i, f, g, o = jnp.split(z, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return jnp.sum(h)


@case([draw(3, 4), draw(4, 4), draw(4, 2)], draw(5, 3))
def mlp_reduce(ws, x):
    return jnp.sum(functools.reduce(lambda h, w: jnp.tanh(h @ w), ws, x) ** 2)


@case(draw(6))
def ema_accumulate(x):
    return np.array(list(itertools.accumulate(x, lambda s, v: 0.9 * s + 0.1 * v)))


@case(draw(4), draw(6, 4))
def vmap_inner(w, X):
    def predict(w, x):
        return jnp.tanh(jnp.dot(w, x))

    return jnp.sum(jax.vmap(predict, in_axes=(None, 0))(w, X))


@case(draw(10))
def burgers_residual(u):
    dx = 0.1
    ux = (np.roll(u, -1) - np.roll(u, 1)) / (2 * dx)
    uxx = (np.roll(u, -1) - 2 * u + np.roll(u, 1)) / dx**2
    return np.mean((u * ux - 0.01 * uxx) ** 2)


@case(draw(5, 3))
def coulomb_mask(r):
    d = r[:, None] - r[None, :]
    d2 = (d**2).sum(-1)
    inv = np.where(np.eye(len(r), dtype=bool), 0.0, 1 / np.sqrt(d2 + np.eye(len(r))))
    return 0.5 * inv.sum()


@case({"enc": [draw(3, 2), draw(2)], "dec": (draw(2, 3), draw(3))}, draw(4, 3))
def autoenc(params, x):
    (we, be), (wd, bd) = params["enc"], params["dec"]
    z = jax.nn.gelu(x @ we + be)
    xr = z @ wd + bd
    return jnp.mean(jnp.square(x - xr))


@case(draw(6, 4), np.array([0, 1, 1, 2, 4]), np.array([1, 0, 3, 4, 5]))
def gnn_segment(h, src, dst):
    msg = h[src]
    agg = jax.ops.segment_sum(msg, dst, num_segments=6)
    return jnp.sum(jax.nn.relu(h + agg) ** 2)


@case(draw(5))
def cumulative_hazard(x):
    risk = np.cumsum(np.exp(x)[::-1])[::-1]
    return -np.sum(x - np.log(risk))


@case(draw(5, 2), draw(3, 2))
def chamfer(a, b):
    d = np.sum((a[:, None, :] - b[None, :, :]) ** 2, -1)
    return d.min(0).mean() + d.min(1).mean()


@case(draw(5), draw(4))
def star_args(x, w):
    def poly(t, *cs, scale=1.0):
        return scale * sum(c * t**k for k, c in enumerate(cs))

    return sum(poly(v, *w, scale=0.5) for v in x)


# Helper functions beside the function, as nearly every source has them
def sigmoid_of(x):
    return 1 / (1 + np.exp(-x))


def logsumexp_of(x, axis=None, keepdims=False):
    m = np.max(x, axis=axis, keepdims=True)
    s = np.log(np.sum(np.exp(x - m), axis=axis, keepdims=True)) + m
    return s if keepdims else np.squeeze(s, axis=axis)


def dense(x, W, b=None, act=sigmoid_of):
    y = x @ W if b is None else x @ W + b
    return act(y)


@case({"Wz": draw(3, 5), "Wr": draw(3, 5), "Wh": draw(3, 5), "b": draw(3)}, draw(4, 2), draw(3))
def gru_by_helpers(params, xs, h):
    for x in xs:
        hx = np.concatenate([h, x])
        z = sigmoid_of(params["Wz"] @ hx + params["b"])
        r = sigmoid_of(params["Wr"] @ hx)
        g = np.tanh(params["Wh"] @ np.concatenate([r * h, x]))
        h = (1 - z) * h + z * g
    return np.sum(h**2)


@case(draw(3, 3), draw(5, 3), draw(3))
def hmm_by_helpers(log_A, log_B, log_pi):
    alpha = log_pi + log_B[0]
    for t in range(1, log_B.shape[0]):
        alpha = log_B[t] + logsumexp_of(alpha[:, None] + log_A, axis=0)
    return logsumexp_of(alpha, axis=0)


@case(draw(4, 3), draw(3, 3), draw(3))
def dense_by_helpers(x, W, b):
    return np.sum(dense(dense(x, W, b), W, act=np.tanh) ** 2)


def squared_error(a, b, reduction="mean"):
    d = (a - b) ** 2
    if reduction == "mean":
        return d.mean()
    return d.sum() if reduction == "sum" else d


@case(draw(4), draw(4))
def reduced_in_several_ways(a, b):
    return (
        squared_error(a, b) + squared_error(a, b, "sum") * squared_error(a, b, reduction="none")[1]
    )


class Cell(NamedTuple):
    h: Any
    c: Any


@case(draw(8, 4), draw(5, 2))
def lstm_of_named_tuples(W, xs):
    cell = Cell(np.zeros(2), np.zeros(2))
    for x in xs:
        i, f, g, o = np.split(W @ np.concatenate([x, cell.h]), 4)
        c = sigmoid_of(f + 1.0) * cell.c + sigmoid_of(i) * np.tanh(g)
        cell = cell._replace(h=sigmoid_of(o) * np.tanh(c), c=c)
    return cell.h.sum()


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Ridge:
    w: Any
    b: Any


@case(Ridge(draw(3), 0.2), draw(5, 3), draw(5))
def steps_of_a_dataclass(p, X, y):
    for _ in range(2):
        r = X @ p.w + p.b - y
        p = Ridge(p.w - 0.1 * X.T @ r, p.b - 0.1 * np.mean(r))
    p = dataclasses.replace(p, b=2 * p.b)
    return np.sum((X @ p.w + p.b - y) ** 2)


# A new array by an old name leaves the old one as it was
@case(draw(4, 4), draw(4))
def conjugate_gradient(A, b):
    A = A @ A.T + 4 * np.eye(4)
    x = np.zeros_like(b)
    r = b - A @ x
    p = r
    for _ in range(3):
        Ap = A @ p
        alpha = r @ r / (p @ Ap)
        x = x + alpha * p
        new = r - alpha * Ap
        beta = new @ new / (r @ r)
        r = r - alpha * Ap
        p = r + beta * p
    return np.sum(x**2)


@case(draw(4, 4), draw(4, 4))
def projected_away(V, Q):
    v = V[:, 0]
    for i in range(V.shape[1]):
        v = v - (Q[:, i] @ V[:, 0]) * Q[:, i]
    return np.sum(v**3) + np.sum(V[:, 0])


# Integers that are parameters, and what they divide
@case(draw(3, 4), draw(4, 4), draw(4, 4), 2)
def heads(x, Wq, Wk, h: int):
    T, D = x.shape
    d = D // h

    def split(z):
        return z.reshape(T, h, d).transpose(1, 0, 2)

    scores = np.einsum("htd,hsd->hts", split(x @ Wq), split(x @ Wk)) / np.sqrt(d)
    return np.sum(np.exp(scores))


@case(draw(4, 3), 2)
def fourier_features(x, L: int):
    found = []
    for k in range(L):
        found.append(np.sin(2.0**k * np.pi * x))
        found.append(np.cos(2.0**k * np.pi * x))
    return np.sum(np.concatenate(found, axis=-1) ** 3)


@case(draw(6), 2)
def vandermonde_columns(x, degree: int):
    return np.sum(np.stack([x**k for k in range(degree + 1)], axis=-1) @ np.array([1.0, 2.0, 3.0]))


@case(1.1, 0.05, 0.2, 4)
def binomial_option(S, r, sigma, N: int):
    dt = 1.0 / N
    u = np.exp(sigma * np.sqrt(dt))
    p = (np.exp(r * dt) - 1 / u) / (u - 1 / u)
    V = np.maximum(S * u ** (2.0 * np.arange(N + 1) - N) - 1.0, 0)
    for _ in range(N):
        V = np.exp(-r * dt) * (p * V[1:] + (1 - p) * V[:-1])
    return V[0]


# Slices that an index of a loop of constant count bounds
@case(draw(7), 3)
def every_kth(x, k: int):
    return np.sum(x[::k] ** 2)


@case(draw(8))
def autocorrelations(x):
    x = x - x.mean()
    return sum(np.dot(x[: len(x) - k], x[k:]) ** 2 for k in range(1, 4))


@case(draw(6), np.array([[0, 1], [1, 2], [2, 3], [5, 0]]), draw(4))
def graph_smoothness(f, edges, w):
    return sum(w[k] * (f[i] - f[j]) ** 2 for k, (i, j) in enumerate(edges))


@case(draw(5, 6))
def nine_point_laplacian(a):
    around = np.roll(a, (1, 1), (0, 1)) + np.roll(a, (-1, 1), axis=(0, 1)) + np.roll(a, 1, (0, 1))
    return np.sum((around - 3 * a) ** 2)


@case(draw(5))
def sum_of_a_map(x):
    return sum(map(sigmoid_of, x)) + x[:4] @ np.arange(4.0)


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_value_and_gradient(function, arguments):
    f = tensor(function)
    expected = function(*arguments)
    np.testing.assert_allclose(f.interpret(*arguments), expected, rtol=1e-7)
    if np.ndim(expected) or function.__name__ in IN_PLACE:
        return
    first = next(iter(f.__signature__.parameters))
    with keeping_float64(True):
        inputs = jax.tree_util.tree_map(jnp.asarray, arguments)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(function.__globals__, "np", jnp)  # for its helpers, too
            gradients = jax.tree_util.tree_leaves(of_jax.gradients(function, [0], inputs))
        found = jax.tree_util.tree_leaves(f.grad(first).interpret(*arguments))
    for one, other in zip(found, gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)
