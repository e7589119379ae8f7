"""Functions from practice in NumPy, each beside an expert's JAX. `practice.py` measures them.

They were written as their authors would write them, before any of them was tried; they are not edited since.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import expit, gammaln, logsumexp, ndtr

Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """A function in NumPy and in JAX, its arguments by size, the size that is timed, and the one that tests use."""

    function: Callable[..., Any]
    direct: Callable[..., Any]
    kind: str
    unknowns: tuple[str, ...]
    drawn: Callable[[Any, int], Arguments]
    size: int
    small: int

    @property
    def name(self) -> str:
        return self.function.__name__

    def arguments(self, size: int) -> Arguments:
        return self.drawn(np.random.default_rng(0), size)


PROGRAMS: list[Program] = []


def enter(
    function: Callable[..., Any],
    direct: Callable[..., Any],
    kind: str,
    unknowns: str,
    drawn: Callable[[Any, int], Arguments],
    size: int,
    small: int,
) -> None:
    PROGRAMS.append(Program(function, direct, kind, tuple(unknowns.split()), drawn, size, small))


# Loops that carry values


def kalman_filter(F, H, Q, R, y):
    n = F.shape[0]
    m, P = np.zeros(n), np.eye(n)
    loglik = 0.0
    for t in range(len(y)):
        m = F @ m
        P = F @ P @ F.T + Q
        S = H @ P @ H.T + R
        v = y[t] - H @ m
        K = P @ H.T @ np.linalg.inv(S)
        m = m + K @ v
        P = P - K @ S @ K.T
        loglik -= 0.5 * (np.linalg.slogdet(2 * np.pi * S)[1] + v @ np.linalg.solve(S, v))
    return loglik


def kalman_filter_jax(F, H, Q, R, y):
    def step(carry, observed):
        m, P, loglik = carry
        m = F @ m
        P = F @ P @ F.T + Q
        S = H @ P @ H.T + R
        v = observed - H @ m
        K = P @ H.T @ jnp.linalg.inv(S)
        loglik -= 0.5 * (jnp.linalg.slogdet(2 * jnp.pi * S)[1] + v @ jnp.linalg.solve(S, v))
        return (m + K @ v, P - K @ S @ K.T, loglik), None

    n = F.shape[0]
    return lax.scan(step, (jnp.zeros(n), jnp.eye(n), 0.0), y)[0][2]


enter(
    kalman_filter,
    kalman_filter_jax,
    "loop",
    "F H Q R",
    lambda r, n: (
        0.9 * np.eye(4) + 0.05 * r.normal(size=(4, 4)),
        r.normal(size=(2, 4)),
        0.1 * np.eye(4),
        0.5 * np.eye(2),
        r.normal(size=(n, 2)),
    ),
    200,
    6,
)


def gjr_garch(params, r):
    mu, omega, alpha, gamma, beta, nu = params
    e = r - mu
    h = np.empty(len(r))
    h[0] = np.mean(e**2)
    for t in range(1, len(r)):
        leverage = gamma if e[t - 1] < 0 else 0.0
        h[t] = omega + (alpha + leverage) * e[t - 1] ** 2 + beta * h[t - 1]
    density = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(np.pi * (nu - 2) * h)
    return -np.sum(density - (nu + 1) / 2 * np.log1p(e**2 / ((nu - 2) * h)))


def gjr_garch_jax(params, r):
    mu, omega, alpha, gamma, beta, nu = params
    e = r - mu
    drive = omega + (alpha + jnp.where(e < 0, gamma, 0.0)) * e**2

    def step(h, d):
        h = d + beta * h
        return h, h

    first = jnp.mean(e**2)
    _, rest = lax.scan(step, first, drive[:-1])
    h = jnp.concatenate([first[None], rest])
    density = special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2)
    density -= 0.5 * jnp.log(jnp.pi * (nu - 2) * h)
    return -jnp.sum(density - (nu + 1) / 2 * jnp.log1p(e**2 / ((nu - 2) * h)))


enter(
    gjr_garch,
    gjr_garch_jax,
    "loop",
    "params",
    lambda r, n: (np.array([0.01, 0.05, 0.05, 0.1, 0.85, 6.0]), r.standard_t(6, size=n)),
    2000,
    9,
)


def american_put(sigma, spot, strike, rate, maturity, steps: int):
    dt = maturity / steps
    u = np.exp(sigma * np.sqrt(dt))
    d = 1 / u
    q = (np.exp(rate * dt) - d) / (u - d)
    discount = np.exp(-rate * dt)
    prices = spot * u ** (2 * np.arange(steps + 1) - steps)
    values = np.maximum(strike - prices, 0)
    for n in range(steps - 1, -1, -1):
        values = discount * (q * values[1:] + (1 - q) * values[:-1])
        prices = spot * u ** (2 * np.arange(n + 1) - n)
        values = np.maximum(values, strike - prices)
    return values[0]


def american_put_jax(sigma, spot, strike, rate, maturity, steps):
    dt = maturity / steps
    u = jnp.exp(sigma * jnp.sqrt(dt))
    d = 1 / u
    q = (jnp.exp(rate * dt) - d) / (u - d)
    discount = jnp.exp(-rate * dt)
    ups = jnp.arange(steps + 1)

    def exercise(n):
        return strike - spot * u ** (2.0 * ups - n)

    def back(values, n):
        values = discount * (q * jnp.roll(values, -1) + (1 - q) * values)
        return jnp.maximum(values, exercise(n)), None

    start = jnp.maximum(exercise(steps), 0)
    return lax.scan(back, start, jnp.arange(steps - 1, -1, -1))[0][0]


enter(
    american_put,
    american_put_jax,
    "loop",
    "sigma spot rate",
    lambda _, n: (0.3, 96.0, 100.0, 0.05, 1.0, n),
    200,
    7,
)


def seir(log_beta, sigma, gamma, report, cases, population):
    susceptible, exposed, infectious, removed = population - 10.0, 5.0, 5.0, 0.0
    nll = 0.0
    for day, observed in enumerate(cases):
        beta = np.exp(log_beta[day // 7])
        infections = beta * susceptible * infectious / population
        onsets = sigma * exposed
        recoveries = gamma * infectious
        susceptible -= infections
        exposed += infections - onsets
        infectious += onsets - recoveries
        removed += recoveries
        expected = report * onsets + 1e-3
        nll += expected - observed * np.log(expected)
    return nll + (removed / population) ** 2


def seir_jax(log_beta, sigma, gamma, report, cases, population):
    def step(carry, now):
        susceptible, exposed, infectious, removed, nll = carry
        beta, observed = now
        infections = beta * susceptible * infectious / population
        onsets = sigma * exposed
        recoveries = gamma * infectious
        expected = report * onsets + 1e-3
        return (
            susceptible - infections,
            exposed + infections - onsets,
            infectious + onsets - recoveries,
            removed + recoveries,
            nll + expected - observed * jnp.log(expected),
        ), None

    beta = jnp.repeat(jnp.exp(log_beta), 7)[: len(cases)]
    start = (population - 10.0, 5.0, 5.0, 0.0, 0.0)
    *_, removed, nll = lax.scan(step, start, (beta, cases))[0]
    return nll + (removed / population) ** 2


enter(
    seir,
    seir_jax,
    "loop",
    "log_beta sigma gamma report",
    lambda r, n: (
        np.log(r.uniform(0.1, 0.3, 1 + (n - 1) // 7)),
        0.2,
        0.15,
        0.5,
        r.poisson(20, n).astype(float),
        1e5,
    ),
    350,
    16,
)


class Conductances(NamedTuple):
    sodium: Any
    potassium: Any
    leak: Any


def hodgkin_huxley(g, current, recorded, dt):
    V, m, h, n = -65.0, 0.05, 0.6, 0.32
    trace = []
    for injected in current:
        am = 0.1 * (V + 40.0) / (1 - np.exp(-(V + 40.0) / 10))
        bm = 4 * np.exp(-(V + 65.0) / 18)
        ah = 0.07 * np.exp(-(V + 65.0) / 20)
        bh = 1 / (1 + np.exp(-(V + 35.0) / 10))
        an = 0.01 * (V + 55.0) / (1 - np.exp(-(V + 55.0) / 10))
        bn = 0.125 * np.exp(-(V + 65.0) / 80)
        sodium = g.sodium * m**3 * h * (V - 50.0)
        potassium = g.potassium * n**4 * (V + 77.0)
        leak = g.leak * (V + 54.4)
        V = V + dt * (injected - sodium - potassium - leak)
        m = m + dt * (am * (1 - m) - bm * m)
        h = h + dt * (ah * (1 - h) - bh * h)
        n = n + dt * (an * (1 - n) - bn * n)
        trace.append(V)
    return np.mean((np.array(trace) - recorded) ** 2)


def hodgkin_huxley_jax(g, current, recorded, dt):
    def step(state, injected):
        V, m, h, n = state
        am = 0.1 * (V + 40.0) / (1 - jnp.exp(-(V + 40.0) / 10))
        bm = 4 * jnp.exp(-(V + 65.0) / 18)
        ah = 0.07 * jnp.exp(-(V + 65.0) / 20)
        bh = 1 / (1 + jnp.exp(-(V + 35.0) / 10))
        an = 0.01 * (V + 55.0) / (1 - jnp.exp(-(V + 55.0) / 10))
        bn = 0.125 * jnp.exp(-(V + 65.0) / 80)
        sodium = g.sodium * m**3 * h * (V - 50.0)
        potassium = g.potassium * n**4 * (V + 77.0)
        V_next = V + dt * (injected - sodium - potassium - g.leak * (V + 54.4))
        m_next = m + dt * (am * (1 - m) - bm * m)
        h_next = h + dt * (ah * (1 - h) - bh * h)
        n_next = n + dt * (an * (1 - n) - bn * n)
        return (V_next, m_next, h_next, n_next), V_next

    _, trace = lax.scan(step, (-65.0, 0.05, 0.6, 0.32), current)
    return jnp.mean((trace - recorded) ** 2)


enter(
    hodgkin_huxley,
    hodgkin_huxley_jax,
    "loop",
    "g",
    lambda r, n: (
        Conductances(120.0, 36.0, 0.3),
        r.uniform(5, 15, n),
        -65 + 5 * r.normal(size=n),
        0.02,
    ),
    1000,
    8,
)


def double_pendulum(state, masses, lengths, target, steps: int):
    g, dt = 9.81, 0.01
    m1, m2 = masses
    l1, l2 = lengths

    def derivative(s):
        a, b, da, db = s
        delta = a - b
        den = 2 * m1 + m2 - m2 * np.cos(2 * delta)
        dda = (
            -g * (2 * m1 + m2) * np.sin(a)
            - m2 * g * np.sin(a - 2 * b)
            - 2 * np.sin(delta) * m2 * (db**2 * l2 + da**2 * l1 * np.cos(delta))
        ) / (l1 * den)
        ddb = (
            2
            * np.sin(delta)
            * (da**2 * l1 * (m1 + m2) + g * (m1 + m2) * np.cos(a) + db**2 * l2 * m2 * np.cos(delta))
        ) / (l2 * den)
        return np.array([da, db, dda, ddb])

    for _ in range(steps):
        k1 = derivative(state)
        k2 = derivative(state + dt / 2 * k1)
        k3 = derivative(state + dt / 2 * k2)
        k4 = derivative(state + dt * k3)
        state = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.sum((state - target) ** 2)


def double_pendulum_jax(state, masses, lengths, target, steps):
    g, dt = 9.81, 0.01
    m1, m2 = masses
    l1, l2 = lengths

    def derivative(s):
        a, b, da, db = s
        delta = a - b
        den = 2 * m1 + m2 - m2 * jnp.cos(2 * delta)
        dda = -g * (2 * m1 + m2) * jnp.sin(a) - m2 * g * jnp.sin(a - 2 * b)
        dda -= 2 * jnp.sin(delta) * m2 * (db**2 * l2 + da**2 * l1 * jnp.cos(delta))
        ddb = da**2 * l1 * (m1 + m2) + g * (m1 + m2) * jnp.cos(a)
        ddb += db**2 * l2 * m2 * jnp.cos(delta)
        ddb *= 2 * jnp.sin(delta)
        return jnp.array([da, db, dda / (l1 * den), ddb / (l2 * den)])

    def step(state, _):
        k1 = derivative(state)
        k2 = derivative(state + dt / 2 * k1)
        k3 = derivative(state + dt / 2 * k2)
        k4 = derivative(state + dt * k3)
        return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return jnp.sum((lax.scan(step, state, None, length=steps)[0] - target) ** 2)


enter(
    double_pendulum,
    double_pendulum_jax,
    "loop",
    "state masses lengths",
    lambda _, n: (
        np.array([0.4, -0.3, 0.1, 0.2]),
        np.array([1.0, 0.8]),
        np.array([1.0, 1.2]),
        np.array([0.1, 0.1, 0.0, 0.0]),
        n,
    ),
    500,
    3,
)


def smith_waterman(x, y, gap, temperature):
    n, m = len(x), len(y)
    S = x @ y.T
    H = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            options = np.array(
                [
                    0.0,
                    H[i - 1, j - 1] + S[i - 1, j - 1],
                    H[i - 1, j] - gap,
                    H[i, j - 1] - gap,
                ]
            )
            H[i, j] = temperature * logsumexp(options / temperature)
    return temperature * logsumexp(H / temperature)


def smith_waterman_jax(x, y, gap, temperature):
    n, m = len(x), len(y)
    rows, diagonals = jnp.arange(n), jnp.arange(n + m - 1)
    columns = diagonals[:, None] - rows
    inside = (columns >= 0) & (columns < m)
    S = (x @ y.T)[rows, jnp.clip(columns, 0, m - 1)]

    def step(carry, now):
        before, last = carry
        s, ok = now
        shifted = [jnp.concatenate([jnp.zeros(1), d[:-1]]) for d in (before, last)]
        options = jnp.stack([jnp.zeros(n), shifted[0] + s, shifted[1] - gap, last - gap])
        h = temperature * special.logsumexp(options / temperature, axis=0)
        h = jnp.where(ok, h, 0.0)
        return (last, h), h

    _, H = lax.scan(step, (jnp.zeros(n), jnp.zeros(n)), (S, inside))
    H = jnp.where(inside, H, -jnp.inf).ravel()
    return temperature * special.logsumexp(jnp.concatenate([H, jnp.zeros(n + m + 1)]) / temperature)


enter(
    smith_waterman,
    smith_waterman_jax,
    "loop",
    "x y gap",
    lambda r, n: (0.5 * r.normal(size=(n, 8)), 0.5 * r.normal(size=(n - 1, 8)), 0.7, 0.8),
    60,
    5,
)


def inside(rules, lexicon, words):
    n, symbols = len(words), len(lexicon)
    chart = np.zeros((n, n + 1, symbols))
    for i in range(n):
        chart[i, i + 1] = lexicon[:, words[i]]
    for span in range(2, n + 1):
        for i in range(n - span + 1):
            k = i + span
            for j in range(i + 1, k):
                chart[i, k] += np.einsum("abc,b,c->a", rules, chart[i, j], chart[j, k])
    return np.log(chart[0, n, 0])


def inside_jax(rules, lexicon, words):
    n = len(words)
    spans = [None, lexicon[:, words].T]
    for span in range(2, n + 1):
        starts = n - span + 1
        left = jnp.stack([spans[a][:starts] for a in range(1, span)])
        right = jnp.stack([spans[span - a][a : a + starts] for a in range(1, span)])
        pairs = jnp.einsum("lib,lic->ibc", left, right)
        spans.append(jnp.einsum("abc,ibc->ia", rules, pairs))
    return jnp.log(spans[n][0, 0])


def _grammar(r: Any, n: int) -> Arguments:
    rules, lexicon = r.uniform(0.1, 1, (8, 8, 8)), r.uniform(0.1, 1, (8, 20))
    rules /= rules.sum((1, 2), keepdims=True)
    return rules, lexicon / lexicon.sum(1, keepdims=True), r.integers(0, 20, n)


enter(inside, inside_jax, "loop", "rules lexicon", _grammar, 16, 4)


def selective_scan(x, delta, A, B, C, D):
    length = len(x)
    h = np.zeros(A.shape)
    y = np.zeros(x.shape)
    step = np.log1p(np.exp(delta))
    for t in range(length):
        decay = np.exp(step[t][:, None] * A)
        h = decay * h + (step[t] * x[t])[:, None] * B[t]
        y[t] = h @ C[t] + D * x[t]
    return np.mean(y**2)


def selective_scan_jax(x, delta, A, B, C, D):
    def turn(h, now):
        v, s, b, c = now
        h = jnp.exp(s[:, None] * A) * h + (s * v)[:, None] * b
        return h, h @ c + D * v

    _, y = lax.scan(turn, jnp.zeros(A.shape), (x, jax.nn.softplus(delta), B, C))
    return jnp.mean(y**2)


enter(
    selective_scan,
    selective_scan_jax,
    "loop",
    "x delta A B C D",
    lambda r, n: (
        r.normal(size=(n, 64)),
        r.normal(size=(n, 64)) - 2,
        -r.uniform(0.5, 4, (64, 16)),
        r.normal(size=(n, 16)),
        r.normal(size=(n, 16)),
        r.normal(size=64),
    ),
    256,
    3,
)


def tuned_step_sizes(log_rates, decay, X, y, X_val, y_val):
    w = np.zeros(X.shape[1])
    for log_rate in log_rates:
        p = expit(X @ w)
        w = w - np.exp(log_rate) * (X.T @ (p - y) / len(y) + decay * w)
    margin = X_val @ w
    return np.mean(np.logaddexp(0, margin) - y_val * margin)


def tuned_step_sizes_jax(log_rates, decay, X, y, X_val, y_val):
    def step(w, log_rate):
        p = jax.nn.sigmoid(X @ w)
        return w - jnp.exp(log_rate) * (X.T @ (p - y) / len(y) + decay * w), None

    w, _ = lax.scan(step, jnp.zeros(X.shape[1]), log_rates)
    margin = X_val @ w
    return jnp.mean(jax.nn.softplus(margin) - y_val * margin)


enter(
    tuned_step_sizes,
    tuned_step_sizes_jax,
    "loop",
    "log_rates decay",
    lambda r, n: (
        np.full(n, -1.0),
        0.01,
        r.normal(size=(10 * n, 20)),
        r.integers(0, 2, 10 * n).astype(float),
        r.normal(size=(5 * n, 20)),
        r.integers(0, 2, 5 * n).astype(float),
    ),
    50,
    3,
)


def cloth(x, stiffness, damping, target, steps: int):
    dt, rest = 0.01, 0.1
    v = np.zeros(x.shape)

    def spring(p, q):
        d = q - p
        length = np.linalg.norm(d, axis=-1, keepdims=True)
        return stiffness * (length - rest) * d / length

    for _ in range(steps):
        force = np.zeros(x.shape)
        force[..., 2] = -9.81
        down = spring(x[:-1], x[1:])
        force[:-1] += down
        force[1:] -= down
        across = spring(x[:, :-1], x[:, 1:])
        force[:, :-1] += across
        force[:, 1:] -= across
        v = damping * (v + dt * force)
        v[0] = 0.0
        x = x + dt * v
    return np.mean((x - target) ** 2)


def cloth_jax(x, stiffness, damping, target, steps):
    dt, rest = 0.01, 0.1

    def spring(p, q):
        d = q - p
        length = jnp.linalg.norm(d, axis=-1, keepdims=True)
        return stiffness * (length - rest) * d / length

    def step(carry, _):
        x, v = carry
        down, across = spring(x[:-1], x[1:]), spring(x[:, :-1], x[:, 1:])
        force = jnp.zeros(x.shape).at[..., 2].set(-9.81)
        force = force.at[:-1].add(down).at[1:].add(-down)
        force = force.at[:, :-1].add(across).at[:, 1:].add(-across)
        v = (damping * (v + dt * force)).at[0].set(0.0)
        return (x + dt * v, v), None

    (x, _), _ = lax.scan(step, (x, jnp.zeros(x.shape)), None, length=steps)
    return jnp.mean((x - target) ** 2)


def _sheet(r: Any, n: int) -> Arguments:
    down, across = np.meshgrid(0.11 * np.arange(n), 0.11 * np.arange(n), indexing="ij")
    x = np.stack([down, across, 0.01 * r.normal(size=(n, n))], axis=-1)
    return x, 50.0, 0.99, x - 0.1, 5 if n < 10 else 50


enter(cloth, cloth_jax, "loop", "x stiffness damping", _sheet, 20, 3)


def gray_scott(u, v, feed, kill, target, steps: int):
    def laplacian(z):
        around = np.roll(z, 1, 0) + np.roll(z, -1, 0) + np.roll(z, 1, 1) + np.roll(z, -1, 1)
        return around - 4 * z

    for _ in range(steps):
        reaction = u * v**2
        u, v = (
            u + 0.16 * laplacian(u) - reaction + feed * (1 - u),
            v + 0.08 * laplacian(v) + reaction - (feed + kill) * v,
        )
    return np.mean((v - target) ** 2)


def gray_scott_jax(u, v, feed, kill, target, steps):
    def laplacian(z):
        shifted = [jnp.roll(z, s, a) for s in (1, -1) for a in (0, 1)]
        return sum(shifted) - 4 * z

    def step(carry, _):
        u, v = carry
        reaction = u * v**2
        return (
            u + 0.16 * laplacian(u) - reaction + feed * (1 - u),
            v + 0.08 * laplacian(v) + reaction - (feed + kill) * v,
        ), None

    (u, v), _ = lax.scan(step, (u, v), None, length=steps)
    return jnp.mean((v - target) ** 2)


enter(
    gray_scott,
    gray_scott_jax,
    "loop",
    "u v feed kill",
    lambda r, n: (
        r.uniform(0.5, 1, (n, n)),
        r.uniform(0, 0.5, (n, n)),
        0.04,
        0.06,
        r.uniform(0, 0.5, (n, n)),
        3 if n < 10 else 50,
    ),
    48,
    4,
)


def holt_winters(smoothing, y, period: int):
    alpha, beta, gamma = smoothing
    level = np.mean(y[:period])
    trend = (np.mean(y[period : 2 * period]) - level) / period
    season = list(y[:period] - level)
    sse = 0.0
    for t in range(period, len(y)):
        sse += (y[t] - level - trend - season[t - period]) ** 2
        last = level
        level = alpha * (y[t] - season[t - period]) + (1 - alpha) * (level + trend)
        trend = beta * (level - last) + (1 - beta) * trend
        season.append(gamma * (y[t] - level) + (1 - gamma) * season[t - period])
    return sse / (len(y) - period)


def holt_winters_jax(smoothing, y, period):
    alpha, beta, gamma = smoothing

    def step(carry, v):
        level, trend, season = carry
        error = v - level - trend - season[0]
        new = alpha * (v - season[0]) + (1 - alpha) * (level + trend)
        trend = beta * (new - level) + (1 - beta) * trend
        seasonal = gamma * (v - new) + (1 - gamma) * season[0]
        return (new, trend, jnp.append(season[1:], seasonal)), error

    level = jnp.mean(y[:period])
    trend = (jnp.mean(y[period : 2 * period]) - level) / period
    _, errors = lax.scan(step, (level, trend, y[:period] - level), y[period:])
    return jnp.mean(errors**2)


enter(
    holt_winters,
    holt_winters_jax,
    "loop",
    "smoothing",
    lambda r, n: (
        np.array([0.3, 0.1, 0.2]),
        10 + np.sin(np.arange(n) * np.pi / 6) + 0.1 * r.normal(size=n),
        12 if n > 30 else 3,
    ),
    600,
    14,
)


def ppo_loss(logits, values, rewards, actions, old_log_probs, done, gamma=0.99, lam=0.95):
    steps = len(rewards)
    advantages = np.zeros(rewards.shape)
    gae = np.zeros(rewards.shape[1])
    for t in reversed(range(steps)):
        alive = 1.0 - done[t]
        delta = rewards[t] + gamma * values[t + 1] * alive - values[t]
        gae = delta + gamma * lam * alive * gae
        advantages[t] = gae
    log_probs = logits - logsumexp(logits, axis=-1, keepdims=True)
    taken = np.take_along_axis(log_probs, actions[..., None], axis=-1)[..., 0]
    ratio = np.exp(taken - old_log_probs)
    policy = np.minimum(ratio * advantages, np.clip(ratio, 0.8, 1.2) * advantages)
    entropy = -np.sum(np.exp(log_probs) * log_probs, axis=-1)
    return -np.mean(policy) + 0.5 * np.mean(advantages**2) - 0.01 * np.mean(entropy)


def ppo_loss_jax(logits, values, rewards, actions, old_log_probs, done, gamma=0.99, lam=0.95):
    alive = 1.0 - done
    delta = rewards + gamma * values[1:] * alive - values[:-1]

    def back(gae, now):
        d, a = now
        gae = d + gamma * lam * a * gae
        return gae, gae

    _, advantages = lax.scan(back, jnp.zeros(rewards.shape[1]), (delta, alive), reverse=True)
    log_probs = jax.nn.log_softmax(logits)
    taken = jnp.take_along_axis(log_probs, actions[..., None], axis=-1)[..., 0]
    ratio = jnp.exp(taken - old_log_probs)
    policy = jnp.minimum(ratio * advantages, jnp.clip(ratio, 0.8, 1.2) * advantages)
    entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)
    return -jnp.mean(policy) + 0.5 * jnp.mean(advantages**2) - 0.01 * jnp.mean(entropy)


enter(
    ppo_loss,
    ppo_loss_jax,
    "loop",
    "logits values",
    lambda r, n: (
        r.normal(size=(n, 8, 6)),
        r.normal(size=(n + 1, 8)),
        r.normal(size=(n, 8)),
        r.integers(0, 6, (n, 8)),
        -1.8 + 0.3 * r.normal(size=(n, 8)),
        (r.uniform(size=(n, 8)) < 0.05).astype(float),
    ),
    256,
    3,
)


def hawkes(params, times, horizon):
    mu, alpha, beta = params
    excitation = 0.0
    loglik = np.log(mu)
    for k in range(1, len(times)):
        excitation = np.exp(-beta * (times[k] - times[k - 1])) * (1 + excitation)
        loglik += np.log(mu + alpha * excitation)
    decayed = np.sum(1 - np.exp(-beta * (horizon - times)))
    return mu * horizon + alpha / beta * decayed - loglik


def hawkes_jax(params, times, horizon):
    mu, alpha, beta = params

    def step(excitation, decay):
        excitation = decay * (1 + excitation)
        return excitation, excitation

    _, excitation = lax.scan(step, 0.0, jnp.exp(-beta * jnp.diff(times)))
    loglik = jnp.log(mu) + jnp.sum(jnp.log(mu + alpha * excitation))
    decayed = jnp.sum(1 - jnp.exp(-beta * (horizon - times)))
    return mu * horizon + alpha / beta * decayed - loglik


enter(
    hawkes,
    hawkes_jax,
    "loop",
    "params",
    lambda r, n: (np.array([0.5, 0.6, 1.2]), np.cumsum(r.exponential(1, n)), n + 5.0),
    2000,
    8,
)


def lms_filter(step, x, desired, taps: int):
    w = np.zeros(taps)
    error = np.zeros(len(x))
    for n in range(taps, len(x)):
        window = x[n - taps : n][::-1]
        error[n] = desired[n] - w @ window
        w = w + step * error[n] * window / (1e-3 + window @ window)
    return np.mean(error[taps:] ** 2)


def lms_filter_jax(step, x, desired, taps):
    def turn(w, n):
        window = lax.dynamic_slice(x, (n - taps,), (taps,))[::-1]
        error = desired[n] - w @ window
        return w + step * error * window / (1e-3 + window @ window), error

    _, error = lax.scan(turn, jnp.zeros(taps), jnp.arange(taps, len(x)))
    return jnp.mean(error**2)


enter(
    lms_filter,
    lms_filter_jax,
    "loop",
    "step x",
    lambda r, n: (0.1, r.normal(size=n), r.normal(size=n), 16 if n > 50 else 3),
    1000,
    9,
)

# Dense and small programs


def factor_analysis(W, log_psi, mu, X):
    d = len(mu)
    C = W @ W.T + np.diag(np.exp(log_psi))
    Z = X - mu
    _, logdet = np.linalg.slogdet(C)
    mahalanobis = np.sum(Z * np.linalg.solve(C, Z.T).T, axis=1)
    return 0.5 * (d * np.log(2 * np.pi) + logdet + np.mean(mahalanobis))


def factor_analysis_jax(W, log_psi, mu, X):
    C = W @ W.T + jnp.diag(jnp.exp(log_psi))
    L = jnp.linalg.cholesky(C)
    whitened = jax.scipy.linalg.solve_triangular(L, (X - mu).T, lower=True)
    logdet = 2 * jnp.sum(jnp.log(jnp.diag(L)))
    squares = jnp.mean(jnp.sum(whitened**2, axis=0))
    return 0.5 * (len(mu) * jnp.log(2 * jnp.pi) + logdet + squares)


enter(
    factor_analysis,
    factor_analysis_jax,
    "dense",
    "W log_psi mu",
    lambda r, n: (
        r.normal(size=(n, 5)),
        0.3 * r.normal(size=n),
        r.normal(size=n),
        r.normal(size=(25 * n, n)),
    ),
    40,
    6,
)


def vae_elbo(params, x, eps):
    def mlp(layers, h):
        for W, b in layers[:-1]:
            h = np.tanh(h @ W + b)
        W, b = layers[-1]
        return h @ W + b

    mean, log_var = np.split(mlp(params["encoder"], x), 2, axis=1)
    z = mean + np.exp(0.5 * log_var) * eps
    logits = mlp(params["decoder"], z)
    reconstruction = np.sum(x * logits - np.logaddexp(0, logits), axis=1)
    kl = -0.5 * np.sum(1 + log_var - mean**2 - np.exp(log_var), axis=1)
    return np.mean(kl - reconstruction)


def vae_elbo_jax(params, x, eps):
    def mlp(layers, h):
        for W, b in layers[:-1]:
            h = jnp.tanh(h @ W + b)
        W, b = layers[-1]
        return h @ W + b

    mean, log_var = jnp.split(mlp(params["encoder"], x), 2, axis=1)
    z = mean + jnp.exp(0.5 * log_var) * eps
    logits = mlp(params["decoder"], z)
    reconstruction = jnp.sum(x * logits - jax.nn.softplus(logits), axis=1)
    kl = -0.5 * jnp.sum(1 + log_var - mean**2 - jnp.exp(log_var), axis=1)
    return jnp.mean(kl - reconstruction)


def _autoencoder(r: Any, n: int) -> Arguments:
    def layers(*sizes: int) -> list[tuple[Any, Any]]:
        return [
            (r.normal(size=(a, b)) / np.sqrt(a), 0.1 * r.normal(size=b)) for a, b in pairwise(sizes)
        ]

    pixels, hidden = (196, 128) if n > 10 else (5, 4)
    params = {"encoder": layers(pixels, hidden, 2 * 8), "decoder": layers(8, hidden, pixels)}
    return params, r.integers(0, 2, (n, pixels)).astype(float), r.normal(size=(n, 8))


enter(vae_elbo, vae_elbo_jax, "dense", "params", _autoencoder, 128, 3)


def layer_norm(x, scale, shift):
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return scale * (x - mean) / np.sqrt(var + 1e-5) + shift


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def mixer_block(x, scale, shift, tokens_in, tokens_out, channels_in, channels_out):
    y = layer_norm(x, scale[0], shift[0])
    y = np.swapaxes(y, 1, 2)
    y = gelu(y @ tokens_in) @ tokens_out
    x = x + np.swapaxes(y, 1, 2)
    y = layer_norm(x, scale[1], shift[1])
    x = x + gelu(y @ channels_in) @ channels_out
    return np.mean(x.mean(axis=1) ** 2)


def mixer_block_jax(x, scale, shift, tokens_in, tokens_out, channels_in, channels_out):
    def norm(x, scale, shift):
        return scale * jax.nn.standardize(x, epsilon=1e-5) + shift

    y = norm(x, scale[0], shift[0])
    y = jnp.einsum("bpc,ph->bch", y, tokens_in)
    x = x + jnp.einsum("bch,hp->bpc", jax.nn.gelu(y), tokens_out)
    y = norm(x, scale[1], shift[1])
    x = x + jax.nn.gelu(y @ channels_in) @ channels_out
    return jnp.mean(x.mean(axis=1) ** 2)


enter(
    mixer_block,
    mixer_block_jax,
    "dense",
    "x scale shift tokens_in tokens_out channels_in channels_out",
    lambda r, n: (
        r.normal(size=(n // 2, n, n)),
        1 + 0.1 * r.normal(size=(2, n)),
        0.1 * r.normal(size=(2, n)),
        r.normal(size=(n, 2 * n)) / np.sqrt(n),
        r.normal(size=(2 * n, n)) / np.sqrt(n),
        r.normal(size=(n, 3 * n)) / np.sqrt(n),
        r.normal(size=(3 * n, n)) / np.sqrt(n),
    ),
    48,
    4,
)


def barlow_twins(W, a, b, weight):
    za, zb = a @ W, b @ W
    za = (za - za.mean(axis=0)) / za.std(axis=0)
    zb = (zb - zb.mean(axis=0)) / zb.std(axis=0)
    c = za.T @ zb / len(a)
    on_diagonal = np.sum((np.diag(c) - 1) ** 2)
    off_diagonal = np.sum(c**2) - np.sum(np.diag(c) ** 2)
    return on_diagonal + weight * off_diagonal


def barlow_twins_jax(W, a, b, weight):
    za, zb = (jax.nn.standardize(z @ W, axis=0, epsilon=0) for z in (a, b))
    c = za.T @ zb / len(a)
    diagonal = jnp.diag(c)
    on_diagonal = jnp.sum((diagonal - 1) ** 2)
    return on_diagonal + weight * (jnp.sum(c**2) - jnp.sum(diagonal**2))


enter(
    barlow_twins,
    barlow_twins_jax,
    "dense",
    "W",
    lambda r, n: (
        r.normal(size=(n, n)),
        r.normal(size=(2 * n, n)),
        r.normal(size=(2 * n, n)),
        0.01,
    ),
    128,
    4,
)


def conv_net(filters, bias, weights, images, labels):
    patches = sliding_window_view(images, (5, 5), axis=(1, 2))
    features = np.maximum(np.einsum("nhwij,fij->nhwf", patches, filters) + bias, 0)
    n, h, w, f = features.shape
    pooled = features.reshape(n, h // 2, 2, w // 2, 2, f).max(axis=(2, 4))
    logits = pooled.reshape(n, -1) @ weights
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)
    return -np.mean(log_probs[np.arange(n), labels])


def conv_net_jax(filters, bias, weights, images, labels):
    features = lax.conv_general_dilated(
        images[..., None],
        jnp.transpose(filters, (1, 2, 0))[:, :, None],
        (1, 1),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    features = jax.nn.relu(features + bias)
    n, h, w, f = features.shape
    pooled = features.reshape(n, h // 2, 2, w // 2, 2, f).max((2, 4))
    log_probs = jax.nn.log_softmax(pooled.reshape(n, -1) @ weights)
    return -jnp.mean(jnp.take_along_axis(log_probs, labels[:, None], axis=1))


enter(
    conv_net,
    conv_net_jax,
    "dense",
    "filters bias weights",
    lambda r, n: (
        0.2 * r.normal(size=(8, 5, 5)),
        0.1 * r.normal(size=8),
        0.05 * r.normal(size=(8 * ((n - 4) // 2) ** 2, 10)),
        r.normal(size=(2 * n, n, n)),
        r.integers(0, 10, 2 * n),
    ),
    24,
    8,
)


def hartree_fock(C, core, repulsion, overlap):
    D = 2 * C @ C.T
    coulomb = np.einsum("kl,ijkl->ij", D, repulsion)
    exchange = np.einsum("kl,ikjl->ij", D, repulsion)
    fock = core + coulomb - 0.5 * exchange
    energy = 0.5 * np.sum(D * (core + fock))
    deviation = C.T @ overlap @ C - np.eye(C.shape[1])
    return energy + 10.0 * np.sum(deviation**2)


def hartree_fock_jax(C, core, repulsion, overlap):
    D = 2 * C @ C.T
    coulomb = jnp.einsum("kl,ijkl->ij", D, repulsion)
    exchange = jnp.einsum("kl,ikjl->ij", D, repulsion)
    energy = jnp.sum(D * (core + 0.5 * coulomb - 0.25 * exchange))
    deviation = C.T @ overlap @ C - jnp.eye(C.shape[1])
    return energy + 10.0 * jnp.sum(deviation**2)


def _molecule(r: Any, n: int) -> Arguments:
    core, overlap = r.normal(size=(n, n)), 0.1 * r.normal(size=(n, n))
    repulsion = 0.1 * r.normal(size=(n, n, n, n))
    repulsion = repulsion + repulsion.transpose(2, 3, 0, 1)
    return 0.3 * r.normal(size=(n, 4)), core + core.T, repulsion, np.eye(n) + overlap @ overlap.T


enter(hartree_fock, hartree_fock_jax, "dense", "C", _molecule, 24, 4)


def lomb_scargle(y, t, frequencies):
    y = y - y.mean()
    omega = 2 * np.pi * frequencies[:, None]
    tau = np.arctan2(np.sin(2 * omega * t).sum(1), np.cos(2 * omega * t).sum(1)) / 2
    phase = omega * t - tau[:, None]
    c, s = np.cos(phase), np.sin(phase)
    power = 0.5 * ((c @ y) ** 2 / np.sum(c**2, axis=1) + (s @ y) ** 2 / np.sum(s**2, axis=1))
    return np.sum(power**2) / np.sum(power) ** 2


def lomb_scargle_jax(y, t, frequencies):
    y = y - y.mean()
    omega = 2 * jnp.pi * frequencies[:, None]
    double = 2 * omega * t
    tau = jnp.arctan2(jnp.sin(double).sum(1), jnp.cos(double).sum(1)) / 2
    phase = omega * t - tau[:, None]
    c, s = jnp.cos(phase), jnp.sin(phase)
    power = 0.5 * ((c @ y) ** 2 / jnp.sum(c**2, axis=1) + (s @ y) ** 2 / jnp.sum(s**2, axis=1))
    return jnp.sum(power**2) / jnp.sum(power) ** 2


enter(
    lomb_scargle,
    lomb_scargle_jax,
    "dense",
    "y frequencies",
    lambda r, n: (r.normal(size=n), np.sort(r.uniform(0, 10, n)), np.linspace(0.1, 2, n // 2)),
    300,
    10,
)


def log_mel_loss(signal, target, window, mel):
    size = len(window)
    hop = size // 4
    starts = np.arange(0, len(signal) - size + 1, hop)
    frames = signal[starts[:, None] + np.arange(size)] * window
    angles = 2 * np.pi / size * np.outer(np.arange(size), np.arange(size // 2 + 1))
    power = (frames @ np.cos(angles)) ** 2 + (frames @ np.sin(angles)) ** 2
    log_mel = np.log(power @ mel + 1e-6)
    convergence = np.linalg.norm(log_mel - target) / np.linalg.norm(target)
    return convergence + np.mean(np.abs(log_mel - target))


def log_mel_loss_jax(signal, target, window, mel):
    size = len(window)
    starts = jnp.arange(0, len(signal) - size + 1, size // 4)
    frames = signal[starts[:, None] + jnp.arange(size)] * window
    power = jnp.abs(jnp.fft.rfft(frames)) ** 2
    log_mel = jnp.log(power @ mel + 1e-6)
    convergence = jnp.linalg.norm(log_mel - target) / jnp.linalg.norm(target)
    return convergence + jnp.mean(jnp.abs(log_mel - target))


def _recording(r: Any, n: int) -> Arguments:
    size = 256 if n > 1000 else 8
    frames = (n - size) // (size // 4) + 1
    mel = r.uniform(0, 1, (size // 2 + 1, 20))
    return r.normal(size=n), r.normal(size=(frames, 20)) + 4, np.hanning(size), mel


enter(log_mel_loss, log_mel_loss_jax, "dense", "signal", _recording, 8192, 20)


def nmf(W, H, V, sparsity):
    W, H = np.exp(W), np.exp(H)
    R = W @ H
    divergence = np.sum(V * np.log((V + 1e-9) / R) - V + R)
    return divergence + sparsity * np.abs(H).sum()


def nmf_jax(W, H, V, sparsity):
    W, H = jnp.exp(W), jnp.exp(H)
    R = W @ H
    divergence = jnp.sum(V * (jnp.log(V + 1e-9) - jnp.log(R)) - V + R)
    return divergence + sparsity * H.sum()


enter(
    nmf,
    nmf_jax,
    "dense",
    "W H",
    lambda r, n: (
        0.1 * r.normal(size=(n, 8)),
        0.1 * r.normal(size=(8, n - n // 4)),
        r.uniform(0, 10, (n, n - n // 4)),
        0.1,
    ),
    200,
    6,
)


def sabr(params, forward, strikes, expiries, quoted):
    alpha, beta, rho, nu = params
    log_fk = np.log(forward / strikes)
    mid = (forward * strikes) ** ((1 - beta) / 2)
    z = nu / alpha * mid * log_fk
    x = np.log((np.sqrt(1 - 2 * rho * z + z**2) + z - rho) / (1 - rho))
    ratio = np.where(np.abs(z) > 1e-6, z / np.where(np.abs(z) > 1e-6, x, 1.0), 1.0)
    denominator = mid * (1 + (1 - beta) ** 2 / 24 * log_fk**2 + (1 - beta) ** 4 / 1920 * log_fk**4)
    correction = (
        (1 - beta) ** 2 / 24 * alpha**2 / mid**2
        + rho * beta * nu * alpha / (4 * mid)
        + (2 - 3 * rho**2) / 24 * nu**2
    )
    vol = alpha / denominator * ratio * (1 + correction * expiries)
    return np.sqrt(np.mean((vol - quoted) ** 2))


def sabr_jax(params, forward, strikes, expiries, quoted):
    alpha, beta, rho, nu = params
    log_fk = jnp.log(forward / strikes)
    mid = (forward * strikes) ** ((1 - beta) / 2)
    z = nu / alpha * mid * log_fk
    x = jnp.log((jnp.sqrt(1 - 2 * rho * z + z**2) + z - rho) / (1 - rho))
    away = jnp.abs(z) > 1e-6
    ratio = jnp.where(away, z / jnp.where(away, x, 1.0), 1.0)
    square = ((1 - beta) * log_fk) ** 2
    denominator = mid * (1 + square / 24 + square**2 / 1920)
    correction = ((1 - beta) * alpha / mid) ** 2 / 24
    correction += rho * beta * nu * alpha / (4 * mid) + (2 - 3 * rho**2) / 24 * nu**2
    vol = alpha / denominator * ratio * (1 + correction * expiries)
    return jnp.sqrt(jnp.mean((vol - quoted) ** 2))


enter(
    sabr,
    sabr_jax,
    "dense",
    "params",
    lambda r, n: (
        np.array([0.2, 0.6, -0.3, 0.4]),
        r.uniform(90, 110, n),
        r.uniform(60, 140, n),
        r.uniform(0.1, 5, n),
        r.uniform(0.02, 0.06, n),
    ),
    3000,
    7,
)


def homography(h, source, target):
    H = np.append(h, 1.0).reshape(3, 3)

    def project(H, points):
        homogeneous = np.hstack([points, np.ones((len(points), 1))]) @ H.T
        return homogeneous[:, :2] / homogeneous[:, 2:]

    forward = np.sum((project(H, source) - target) ** 2, axis=1)
    backward = np.sum((project(np.linalg.inv(H), target) - source) ** 2, axis=1)
    error = forward + backward
    return np.mean(np.where(error < 1.0, error, 2 * np.sqrt(error) - 1))


def homography_jax(h, source, target):
    H = jnp.append(h, 1.0).reshape(3, 3)

    def project(H, points):
        homogeneous = points @ H[:, :2].T + H[:, 2]
        return homogeneous[:, :2] / homogeneous[:, 2:]

    forward = jnp.sum((project(H, source) - target) ** 2, axis=1)
    backward = jnp.sum((project(jnp.linalg.inv(H), target) - source) ** 2, axis=1)
    error = forward + backward
    return jnp.mean(jnp.where(error < 1.0, error, 2 * jnp.sqrt(error) - 1))


enter(
    homography,
    homography_jax,
    "dense",
    "h",
    lambda r, n: (
        np.array([1.1, 0.1, 0.2, -0.1, 0.9, 0.3, 0.05, 0.02]),
        r.uniform(-1, 1, (n, 2)),
        r.uniform(-1, 1, (n, 2)),
    ),
    5000,
    6,
)


def weibull_aft(beta, log_shape, X, time, event):
    shape = np.exp(log_shape)
    z = shape * (np.log(time) - X @ beta)
    log_hazard = log_shape - np.log(time) + z
    return -np.sum(event * log_hazard - np.exp(z))


def weibull_aft_jax(beta, log_shape, X, time, event):
    log_time = jnp.log(time)
    z = jnp.exp(log_shape) * (log_time - X @ beta)
    return jnp.sum(jnp.exp(z) - event * (log_shape - log_time + z))


enter(
    weibull_aft,
    weibull_aft_jax,
    "dense",
    "beta log_shape",
    lambda r, n: (
        0.1 * r.normal(size=10),
        0.2,
        r.normal(size=(n, 10)),
        r.weibull(1.5, n) + 0.01,
        (r.uniform(size=n) < 0.7).astype(float),
    ),
    10000,
    8,
)


def risk_parity(theta, returns):
    w = np.exp(theta - np.max(theta))
    w = w / w.sum()
    cov = np.cov(returns, rowvar=False)
    volatility = np.sqrt(w @ cov @ w)
    contributions = w * (cov @ w) / volatility
    return np.sum((contributions - volatility / len(w)) ** 2) * 1e4


def risk_parity_jax(theta, returns):
    w = jax.nn.softmax(theta)
    cov = jnp.cov(returns, rowvar=False)
    marginal = cov @ w
    volatility = jnp.sqrt(w @ marginal)
    contributions = w * marginal / volatility
    return jnp.sum((contributions - volatility / len(w)) ** 2) * 1e4


enter(
    risk_parity,
    risk_parity_jax,
    "dense",
    "theta",
    lambda r, n: (r.normal(size=n), 0.01 * r.normal(size=(10 * n, n))),
    60,
    5,
)


def shape_from_shading(depth, light, albedo, image):
    p, q = np.gradient(depth)
    normal = np.dstack([-p, -q, np.ones(depth.shape)])
    normal = normal / np.linalg.norm(normal, axis=2, keepdims=True)
    shading = albedo * np.maximum(normal @ (light / np.linalg.norm(light)), 0)
    smooth = np.sum(np.diff(depth, 2, axis=0) ** 2) + np.sum(np.diff(depth, 2, axis=1) ** 2)
    return np.sum((shading - image) ** 2) + 0.1 * smooth


def shape_from_shading_jax(depth, light, albedo, image):
    p, q = jnp.gradient(depth)
    x, y, z = light / jnp.linalg.norm(light)
    cosine = (z - p * x - q * y) * lax.rsqrt(p**2 + q**2 + 1)
    smooth = jnp.sum(jnp.diff(depth, 2, axis=0) ** 2) + jnp.sum(jnp.diff(depth, 2, axis=1) ** 2)
    return jnp.sum((albedo * jax.nn.relu(cosine) - image) ** 2) + 0.1 * smooth


enter(
    shape_from_shading,
    shape_from_shading_jax,
    "dense",
    "depth light",
    lambda r, n: (
        0.3 * r.normal(size=(n, n)),
        np.array([0.3, 0.2, 0.9]),
        r.uniform(0.5, 1, (n, n)),
        r.uniform(0, 1, (n, n)),
    ),
    128,
    5,
)

# Index arrays, geometry, rendering


def truss_compliance(areas, nodes, bars, free, load, modulus):
    n = len(nodes)
    K = np.zeros((2 * n, 2 * n))
    for e, (i, j) in enumerate(bars):
        d = nodes[j] - nodes[i]
        length = np.linalg.norm(d)
        direction = d / length
        k = modulus * areas[e] / length * np.outer(direction, direction)
        K[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] += k
        K[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] += k
        K[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] -= k
        K[2 * j : 2 * j + 2, 2 * i : 2 * i + 2] -= k
    u = np.linalg.solve(K[np.ix_(free, free)], load[free])
    volume = sum(a * np.linalg.norm(nodes[j] - nodes[i]) for a, (i, j) in zip(areas, bars))
    return load[free] @ u + 0.1 * volume


def truss_compliance_jax(areas, nodes, bars, free, load, modulus):
    n = len(nodes)
    i, j = bars[:, 0], bars[:, 1]
    d = nodes[j] - nodes[i]
    length = jnp.linalg.norm(d, axis=1)
    full = jnp.concatenate([-d, d], axis=1) / length[:, None]
    k = jnp.einsum("e,ea,eb->eab", modulus * areas / length, full, full)
    dofs = jnp.stack([2 * i, 2 * i + 1, 2 * j, 2 * j + 1], axis=1)
    K = jnp.zeros((2 * n, 2 * n)).at[dofs[:, :, None], dofs[:, None, :]].add(k)
    u = jnp.linalg.solve(K[free[:, None], free], load[free])
    return load[free] @ u + 0.1 * areas @ length


def _bridge(r: Any, n: int) -> Arguments:
    x = np.stack([np.repeat(np.arange(n), 2), np.tile([0, 1], n)], axis=1).astype(float)
    pairs = [(2 * k, 2 * k + 1) for k in range(n)]
    for k in range(n - 1):
        pairs += [(2 * k, 2 * k + 2), (2 * k + 1, 2 * k + 3), (2 * k, 2 * k + 3)]
        pairs += [(2 * k + 1, 2 * k + 2)]
    load = np.zeros(4 * n)
    load[3::4] = -1.0
    free = np.arange(4, 4 * n - 4)
    x = x + 0.05 * r.normal(size=x.shape)
    return r.uniform(0.5, 1, len(pairs)), x, np.array(pairs), free, load, 100.0


enter(truss_compliance, truss_compliance_jax, "other", "areas nodes", _bridge, 30, 4)


def mesh_energy(vertices, faces, rest_areas, volume, tension):
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    area = 0.5 * np.linalg.norm(normal, axis=1)
    enclosed = np.sum(a * np.cross(b, c)) / 6
    strain = np.sum((area - rest_areas) ** 2 / rest_areas)
    return tension * area.sum() + strain + 10 * (enclosed - volume) ** 2


def mesh_energy_jax(vertices, faces, rest_areas, volume, tension):
    a, b, c = jnp.moveaxis(vertices[faces], 1, 0)
    area = 0.5 * jnp.linalg.norm(jnp.cross(b - a, c - a), axis=1)
    enclosed = jnp.sum(a * jnp.cross(b, c)) / 6
    strain = jnp.sum((area - rest_areas) ** 2 / rest_areas)
    return tension * area.sum() + strain + 10 * (enclosed - volume) ** 2


enter(
    mesh_energy,
    mesh_energy_jax,
    "other",
    "vertices",
    lambda r, n: (
        r.normal(size=(n, 3)),
        np.array([r.choice(n, 3, replace=False) for _ in range(2 * n)]),
        r.uniform(0.5, 1.5, 2 * n),
        4.0,
        0.1,
    ),
    2000,
    6,
)


def torsion_energy(x, quads, barrier, periodicity, phase):
    energy = 0.0
    for k, (i, j, m, n) in enumerate(quads):
        b1, b2, b3 = x[j] - x[i], x[m] - x[j], x[n] - x[m]
        n1 = np.cross(b1, b2)
        n2 = np.cross(b2, b3)
        m1 = np.cross(n1, b2 / np.linalg.norm(b2))
        angle = np.arctan2(m1 @ n2, n1 @ n2)
        energy += barrier[k] * (1 + np.cos(periodicity[k] * angle - phase[k]))
    return energy


def torsion_energy_jax(x, quads, barrier, periodicity, phase):
    i, j, m, n = (x[quads[:, k]] for k in range(4))
    b1, b2, b3 = j - i, m - j, n - m
    n1, n2 = jnp.cross(b1, b2), jnp.cross(b2, b3)
    m1 = jnp.cross(n1, b2 / jnp.linalg.norm(b2, axis=1, keepdims=True))
    angle = jnp.arctan2(jnp.sum(m1 * n2, axis=1), jnp.sum(n1 * n2, axis=1))
    return jnp.sum(barrier * (1 + jnp.cos(periodicity * angle - phase)))


enter(
    torsion_energy,
    torsion_energy_jax,
    "other",
    "x barrier",
    lambda r, n: (
        r.normal(size=(n, 3)),
        np.array([np.arange(k, k + 4) for k in range(n - 3)]),
        r.uniform(0.5, 2, n - 3),
        r.integers(1, 4, n - 3).astype(float),
        r.uniform(0, np.pi, n - 3),
    ),
    2000,
    7,
)


def volume_rendering(density, colour, depth, target):
    delta = np.append(np.diff(depth), 1e3)
    alpha = 1 - np.exp(-np.maximum(density, 0) * delta)
    clear = np.cumprod(1 - alpha + 1e-10, axis=1)
    transmittance = np.concatenate([np.ones((len(alpha), 1)), clear[:, :-1]], axis=1)
    weights = alpha * transmittance
    rgb = np.sum(weights[..., None] * colour, axis=1)
    distortion = np.mean(np.sum(weights * depth**2, axis=1) - np.sum(weights * depth, axis=1) ** 2)
    return np.mean((rgb - target) ** 2) + 0.01 * distortion


def volume_rendering_jax(density, colour, depth, target):
    delta = jnp.append(jnp.diff(depth), 1e3)
    alpha = 1 - jnp.exp(-jax.nn.relu(density) * delta)
    clear = jnp.cumprod(1 - alpha + 1e-10, axis=1)
    weights = alpha * jnp.pad(clear[:, :-1], ((0, 0), (1, 0)), constant_values=1.0)
    rgb = jnp.einsum("rs,rsc->rc", weights, colour)
    distortion = jnp.mean(weights @ depth**2 - (weights @ depth) ** 2)
    return jnp.mean((rgb - target) ** 2) + 0.01 * distortion


enter(
    volume_rendering,
    volume_rendering_jax,
    "other",
    "density colour",
    lambda r, n: (
        r.normal(size=(n, 32 if n > 10 else 5)),
        r.uniform(0, 1, (n, 32 if n > 10 else 5, 3)),
        np.linspace(2, 6, 32 if n > 10 else 5),
        r.uniform(0, 1, (n, 3)),
    ),
    1024,
    3,
)


def stereo(left, right, truth, disparities: int):
    height, width, _ = left.shape
    cost = np.full((disparities, height, width), 5.0)
    for d in range(disparities):
        cost[d, :, d:] = np.mean(np.abs(left[:, d:] - right[:, : width - d]), axis=2)
    weight = np.exp(-4 * cost)
    weight = weight / weight.sum(axis=0)
    disparity = np.sum(weight * np.arange(disparities)[:, None, None], axis=0)
    error = np.abs(disparity - truth)
    return np.mean(np.where(error < 1, 0.5 * error**2, error - 0.5))


def stereo_jax(left, right, truth, disparities):
    width = left.shape[1]

    def matching(d):
        difference = jnp.mean(jnp.abs(left - jnp.roll(right, d, axis=1)), axis=2)
        return jnp.where(jnp.arange(width) >= d, difference, 5.0)

    shifts = jnp.arange(disparities)
    weight = jax.nn.softmax(-4 * jax.vmap(matching)(shifts), axis=0)
    error = jnp.abs(jnp.einsum("dhw,d->hw", weight, shifts.astype(weight.dtype)) - truth)
    return jnp.mean(jnp.where(error < 1, 0.5 * error**2, error - 0.5))


enter(
    stereo,
    stereo_jax,
    "other",
    "left right",
    lambda r, n: (
        r.normal(size=(n, n, 4)),
        r.normal(size=(n, n, 4)),
        r.uniform(0, 8, (n, n)),
        12 if n > 20 else 3,
    ),
    64,
    5,
)


class Splats(NamedTuple):
    centres: Any
    log_scales: Any
    colours: Any
    opacity: Any


def splatting(splats, image):
    height, width, _ = image.shape
    y, x = np.mgrid[0:height, 0:width]
    canvas = np.zeros(image.shape)
    transmittance = np.ones((height, width))
    for k in range(len(splats.centres)):
        cx, cy = splats.centres[k]
        sx, sy = np.exp(splats.log_scales[k])
        falloff = np.exp(-0.5 * (((x - cx) / sx) ** 2 + ((y - cy) / sy) ** 2))
        alpha = expit(splats.opacity[k]) * falloff
        canvas += (transmittance * alpha)[..., None] * splats.colours[k]
        transmittance = transmittance * (1 - alpha)
    return np.mean(np.abs(canvas - image))


def splatting_jax(splats, image):
    height, width, _ = image.shape
    y, x = jnp.arange(height)[:, None], jnp.arange(width)

    def step(carry, splat):
        canvas, transmittance = carry
        (cx, cy), (sx, sy) = splat.centres, jnp.exp(splat.log_scales)
        falloff = jnp.exp(-0.5 * (((x - cx) / sx) ** 2 + ((y - cy) / sy) ** 2))
        alpha = jax.nn.sigmoid(splat.opacity) * falloff
        canvas = canvas + (transmittance * alpha)[..., None] * splat.colours
        return (canvas, transmittance * (1 - alpha)), None

    start = jnp.zeros(image.shape), jnp.ones((height, width))
    return jnp.mean(jnp.abs(lax.scan(step, start, splats)[0][0] - image))


enter(
    splatting,
    splatting_jax,
    "other",
    "splats",
    lambda r, n: (
        Splats(
            r.uniform(0, n, (n, 2)),
            np.log(r.uniform(1, n / 4, (n, 2))),
            r.uniform(0, 1, (n, 3)),
            r.normal(size=n),
        ),
        r.uniform(0, 1, (n, n + 1, 3)),
    ),
    48,
    5,
)


def plackett_luce(w, X, rankings):
    scores = (X @ w)[rankings]
    tails = np.logaddexp.accumulate(scores[:, ::-1], axis=1)[:, ::-1]
    return np.mean(np.sum(tails - scores, axis=1)) + 0.01 * w @ w


def plackett_luce_jax(w, X, rankings):
    scores = (X @ w)[rankings]
    tails = lax.cumlogsumexp(scores, axis=1, reverse=True)
    return jnp.mean(jnp.sum(tails - scores, axis=1)) + 0.01 * w @ w


enter(
    plackett_luce,
    plackett_luce_jax,
    "other",
    "w",
    lambda r, n: (
        r.normal(size=8),
        r.normal(size=(n // 10 + 3, 8)),
        np.array([r.permutation(n // 10 + 3)[: n // 20 + 2] for _ in range(n)]),
    ),
    400,
    4,
)


def mixed_model(beta, log_between, log_within, X, y, groups):
    between, within = np.exp(2 * log_between), np.exp(2 * log_within)
    residual = y - X @ beta
    nll = 0.0
    for g in np.unique(groups):
        r = residual[groups == g]
        n = len(r)
        total = within + n * between
        quadratic = (np.sum(r**2) - between * np.sum(r) ** 2 / total) / within
        nll += 0.5 * (quadratic + (n - 1) * np.log(within) + np.log(total))
    return nll


def mixed_model_jax(beta, log_between, log_within, X, y, groups):
    between, within = jnp.exp(2 * log_between), jnp.exp(2 * log_within)
    residual = y - X @ beta
    segments = len(y) // 5

    def per_group(values):
        return jax.ops.segment_sum(values, groups, segments)

    n = per_group(jnp.ones(len(y)))
    total = within + n * between
    quadratic = (per_group(residual**2) - between * per_group(residual) ** 2 / total) / within
    return 0.5 * jnp.sum(quadratic + (n - 1) * jnp.log(within) + jnp.log(total))


enter(
    mixed_model,
    mixed_model_jax,
    "other",
    "beta log_between log_within",
    lambda r, n: (
        r.normal(size=6),
        -0.3,
        0.2,
        r.normal(size=(n, 6)),
        r.normal(size=n),
        r.permutation(np.arange(n) % (n // 5)),
    ),
    5000,
    15,
)


def skip_gram(embedding, output, centres, contexts, negatives):
    v = embedding[centres]
    positive = np.sum(v * output[contexts], axis=1)
    negative = np.einsum("bd,bkd->bk", v, output[negatives])
    return np.mean(np.logaddexp(0, -positive) + np.logaddexp(0, negative).sum(axis=1))


def skip_gram_jax(embedding, output, centres, contexts, negatives):
    v = embedding[centres]
    positive = jnp.sum(v * output[contexts], axis=1)
    negative = jnp.einsum("bd,bkd->bk", v, output[negatives])
    return jnp.mean(jax.nn.softplus(-positive) + jax.nn.softplus(negative).sum(axis=1))


enter(
    skip_gram,
    skip_gram_jax,
    "other",
    "embedding output",
    lambda r, n: (
        0.3 * r.normal(size=(2 * n, 32 if n > 10 else 3)),
        0.3 * r.normal(size=(2 * n, 32 if n > 10 else 3)),
        r.integers(0, 2 * n, n),
        r.integers(0, 2 * n, n),
        r.integers(0, 2 * n, (n, 5)),
    ),
    1000,
    4,
)


def swap_book(zero_rates, knots, starts, maturities, fixed, notional):
    value = 0.0
    for start, years, rate, amount in zip(starts, maturities, fixed, notional):
        times = start + np.arange(1, years + 1)
        discount = np.exp(-np.interp(times, knots, zero_rates) * times)
        begin = np.exp(-np.interp(start, knots, zero_rates) * start)
        value += amount * (begin - discount[-1] - rate * np.sum(discount))
    return value


def swap_book_jax(zero_rates, knots, starts, maturities, fixed, notional):
    def discount(t):
        return jnp.exp(-jnp.interp(t, knots, zero_rates) * t)

    years = jnp.arange(1, 31)
    factors = discount(starts[:, None] + years)
    annuity = jnp.sum(jnp.where(years <= maturities[:, None], factors, 0.0), axis=1)
    end = discount(starts + maturities)
    return jnp.sum(notional * (discount(starts) - end - fixed * annuity))


enter(
    swap_book,
    swap_book_jax,
    "other",
    "zero_rates fixed",
    lambda r, n: (
        0.02 + 0.01 * r.uniform(size=12),
        np.array([0, 0.25, 0.5, 1, 2, 3, 5, 7, 10, 15, 20, 35.0]),
        r.uniform(0, 3, n),
        r.integers(1, 31 if n > 10 else 4, n),
        0.03 + 0.005 * r.normal(size=n),
        r.uniform(-1, 1, n),
    ),
    300,
    4,
)


def pose_graph(poses, first, second, measured, information):
    error = 0.0
    for i, j, z in zip(first, second, measured):
        x, y, heading = poses[i]
        dx, dy = poses[j, 0] - x, poses[j, 1] - y
        c, s = np.cos(heading), np.sin(heading)
        turned = poses[j, 2] - heading - z[2]
        r = np.array(
            [
                c * dx + s * dy - z[0],
                -s * dx + c * dy - z[1],
                np.arctan2(np.sin(turned), np.cos(turned)),
            ]
        )
        chi2 = r @ information @ r
        error += chi2 / (1 + chi2)
    return error + 100 * np.sum(poses[0] ** 2)


def pose_graph_jax(poses, first, second, measured, information):
    def residual(a, b, z):
        c, s = jnp.cos(a[2]), jnp.sin(a[2])
        dx, dy = b[0] - a[0], b[1] - a[1]
        turned = b[2] - a[2] - z[2]
        wrapped = jnp.arctan2(jnp.sin(turned), jnp.cos(turned))
        return jnp.array([c * dx + s * dy - z[0], -s * dx + c * dy - z[1], wrapped])

    r = jax.vmap(residual)(poses[first], poses[second], measured)
    chi2 = jnp.einsum("ei,ij,ej->e", r, information, r)
    return jnp.sum(chi2 / (1 + chi2)) + 100 * jnp.sum(poses[0] ** 2)


enter(
    pose_graph,
    pose_graph_jax,
    "other",
    "poses",
    lambda r, n: (
        r.normal(size=(n, 3)),
        np.concatenate([np.arange(n - 1), r.integers(0, n - 1, n)]),
        np.concatenate([np.arange(1, n), np.full(n, n - 1)]),
        0.5 * r.normal(size=(2 * n - 1, 3)),
        np.diag([2.0, 2.0, 5.0]),
    ),
    1500,
    5,
)


def ordinal_probit(beta, cuts, X, ratings):
    edges = np.concatenate([[-10.0], np.cumsum(np.exp(cuts)) - 3, [10.0]])
    eta = X @ beta
    upper = ndtr(edges[ratings + 1] - eta)
    lower = ndtr(edges[ratings] - eta)
    return -np.sum(np.log(np.maximum(upper - lower, 1e-6))) + 0.5 * np.sum(beta**2)


def ordinal_probit_jax(beta, cuts, X, ratings):
    edges = jnp.concatenate([jnp.array([-10.0]), jnp.cumsum(jnp.exp(cuts)) - 3, jnp.array([10.0])])
    eta = X @ beta
    upper = special.ndtr(edges[ratings + 1] - eta)
    lower = special.ndtr(edges[ratings] - eta)
    return -jnp.sum(jnp.log(jnp.maximum(upper - lower, 1e-6))) + 0.5 * jnp.sum(beta**2)


enter(
    ordinal_probit,
    ordinal_probit_jax,
    "other",
    "beta cuts",
    lambda r, n: (
        0.3 * r.normal(size=5),
        0.2 + 0.1 * r.normal(size=4),
        r.normal(size=(n, 5)),
        r.integers(0, 5, n),
    ),
    10000,
    8,
)
