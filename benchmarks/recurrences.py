"""Loops that carry values beside `jax.lax.scan`: `python benchmarks/recurrences.py [NAME …]`.

Both are jitted functions of the same arrays and run by turns in one process, value and gradient in one call each, and
the median of the ratios of neighbours is shown: what else the machine does slows both alike. What a call costs beside
its kernel is measured by `tensor_peers.py`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jupyter_hvd.tensor import tensor

R = np.random.default_rng(0)
Case = tuple[Callable[..., Any], Callable[..., Any], str, tuple[Any, ...]]
CASES: dict[str, Case] = {}


def draw(*shape: int) -> Any:
    return R.normal(size=shape).astype(np.float32) * np.float32(0.3)


def positive(*shape: int) -> Any:
    return R.uniform(0.2, 1.0, shape).astype(np.float32)


def case(name: str, wrt: str, ours: Callable[..., Any], *arguments: Any) -> Any:
    def enter(direct: Callable[..., Any]) -> Callable[..., Any]:
        CASES[name] = ours, direct, wrt, arguments
        return direct

    return enter


@tensor
def rnn(W, U, x, h):
    for t in range(len(x)):
        h = np.tanh(W @ h + U @ x[t])
    return np.sum(h * h)


@case("RNN, 100 steps, 64 units", "W U", rnn, draw(64, 64), draw(64, 32), draw(100, 32), draw(64))
def direct_rnn(W, U, x, h):
    h, _ = lax.scan(lambda h, v: (jnp.tanh(W @ h + U @ v), None), h, x)
    return jnp.sum(h * h)


@tensor
def lstm(W, U, b, x):
    h = np.zeros(64)
    c = np.zeros(64)
    for v in x:
        i, f, g, o = np.split(W @ h + U @ v + b, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * np.tanh(g)
        h = jax.nn.sigmoid(o) * np.tanh(c)
    return np.sum(h * h)


@case(
    "LSTM, 100 steps, 64 units",
    "W U b",
    lstm,
    draw(256, 64),
    draw(256, 32),
    draw(256),
    draw(100, 32),
)
def direct_lstm(W, U, b, x):
    def turn(carry, v):
        h, c = carry
        i, f, g, o = jnp.split(W @ h + U @ v + b, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    (h, _), _ = lax.scan(turn, (jnp.zeros(64), jnp.zeros(64)), x)
    return jnp.sum(h * h)


@tensor
def heat(u, steps: int):
    for _ in range(steps):
        new = u.copy()
        new[1:-1] = u[1:-1] + 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = new
    return np.sum(u * u)


@case("heat equation, 1000 points, 200 steps", "u", heat, draw(1000), 200)
def direct_heat(u, steps):
    def turn(u, _):
        return u.at[1:-1].add(0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])), None

    return jnp.sum(lax.scan(turn, u, None, length=steps)[0] ** 2)


@tensor
def markov(A, B, start, seen):
    alpha, evidence = start, 0.0
    for t in range(len(seen)):
        alpha = (alpha @ A) * B[:, seen[t]]
        total = alpha.sum()
        alpha = alpha / total
        evidence += np.log(total)
    return evidence


@case(
    "hidden Markov model, 64 states, 100 steps", "A B", markov, positive(64, 64), positive(64, 8), positive(64),
    R.integers(0, 8, 100),
)  # fmt: skip
def direct_markov(A, B, start, seen):
    def turn(carry, o):
        alpha, evidence = carry
        alpha = (alpha @ A) * B[:, o]
        total = alpha.sum()
        return (alpha / total, evidence + jnp.log(total)), None

    return lax.scan(turn, (start, 0.0), seen)[0][1]


@tensor
def warping(x, y):
    row = np.array([0.0 if j == 0 else 1e3 for j in range(len(y) + 1)])
    for i in range(len(x)):
        left = 1e3
        new = [1e3]
        for j in range(len(y)):
            left = (x[i] - y[j]) ** 2 + min(row[j], row[j + 1], left)
            new.append(left)
        row = np.array(new)
    return row[-1]


@case("dynamic time warping, 50 × 50", "x", warping, draw(50), draw(50))
def direct_warping(x, y):
    def turn(row, v):
        def cell(left, at):
            w, above, before = at
            left = (v - w) ** 2 + jnp.minimum(jnp.minimum(before, above), left)
            return left, left

        _, new = lax.scan(cell, 1e3, (y, row[1:], row[:-1]))
        return jnp.concatenate([jnp.full(1, 1e3), new]), None

    start = jnp.full(len(y) + 1, 1e3).at[0].set(0.0)
    return lax.scan(turn, start, x)[0][-1]


@tensor
def runge_kutta(y, M, steps: int):
    h = 0.01
    for _ in range(steps):
        a = np.tanh(M @ y)
        b = np.tanh(M @ (y + h / 2 * a))
        c = np.tanh(M @ (y + h / 2 * b))
        d = np.tanh(M @ (y + h * c))
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
    return np.sum(y * y)


@case("Runge–Kutta, 32 variables, 200 steps", "y M", runge_kutta, draw(32), draw(32, 32), 200)
def direct_runge_kutta(y, M, steps):
    h = 0.01

    def turn(y, _):
        a = jnp.tanh(M @ y)
        b = jnp.tanh(M @ (y + h / 2 * a))
        c = jnp.tanh(M @ (y + h / 2 * b))
        d = jnp.tanh(M @ (y + h * c))
        return y + h / 6 * (a + 2 * b + 2 * c + d), None

    return jnp.sum(lax.scan(turn, y, None, length=steps)[0] ** 2)


def seconds(run: Callable[[], Any]) -> float:
    """Of a call, of as many as take 5 ms together, 50 at most, after one that is not timed."""
    jax.block_until_ready(run())
    began, calls = time.perf_counter(), 0
    while calls == 0 or (calls < 50 and time.perf_counter() - began < 0.005):
        jax.block_until_ready(run())
        calls += 1
    return (time.perf_counter() - began) / calls


def compared(
    ours: Callable[[], Any], direct: Callable[[], Any], pairs: int
) -> tuple[float, float, float]:
    """The medians of both times in milliseconds, and of their ratios."""
    for run in (ours, direct, ours, direct):
        seconds(run)
    times = [(seconds(ours), seconds(direct)) for _ in range(pairs)]
    first, second = zip(*times, strict=True)
    ratio = statistics.median(a / b for a, b in times)
    return statistics.median(first) * 1e3, statistics.median(second) * 1e3, ratio


def compiled(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Any]:
    """A call of the function, its integers constants."""
    places = [k for k, a in enumerate(arguments) if not isinstance(a, int)]

    def of(*data: Any) -> Any:
        given = dict(zip(places, data, strict=True))
        return function(*(given.get(k, a) for k, a in enumerate(arguments)))

    data = tuple(arguments[k] for k in places)
    made = jax.jit(of).lower(*data).compile()
    return lambda: made(*data)


def row(name: str, pairs: int = 41) -> str:
    ours, direct, wrt, arguments = CASES[name]
    unknowns = wrt.split()
    places = tuple(list(ours.__signature__.parameters).index(x) for x in unknowns)
    on_device = tuple(a if isinstance(a, int) else jnp.asarray(a) for a in arguments)
    gradient = ours.value_and_grad(*unknowns)
    value = compiled(ours.jax, on_device), compiled(direct, on_device)
    both = compiled(gradient.jax, on_device), compiled(_with_gradient(direct, places), on_device)
    np.testing.assert_allclose(value[0](), value[1](), rtol=1e-3)
    for a, b in zip(jax.tree.leaves(both[0]()[1]), jax.tree.leaves(both[1]()[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-4)
    cells = [
        "{:.2f} ms | {:.2f} ms | {:.2f}".format(*compared(*two, pairs)) for two in (value, both)
    ]
    return f"| {name} | {' | '.join(cells)} |"


def _with_gradient(direct: Callable[..., Any], places: tuple[int, ...]) -> Callable[..., Any]:
    return lambda *arguments: jax.value_and_grad(direct, places)(*arguments)


def main() -> None:
    print("| | value, ours | `lax.scan` | ratio | and gradient, ours | `lax.scan` | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in CASES:
        if not sys.argv[1:] or any(word in name for word in sys.argv[1:]):
            print(row(name), flush=True)


if __name__ == "__main__":
    main()
