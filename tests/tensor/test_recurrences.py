"""Loops whose turns take what those before have left: values, gradients, costs, messages, and the
theorems of docs/recurrences.md.
"""

from __future__ import annotations

import sys
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_loops

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.derivative import reverse
from jupyter_hvd.tensor.jax.precision import keeping_float64

R = np.random.default_rng(0)
CASES = []


def normal(*shape, scale=0.5):
    return scale * R.normal(size=shape)


def case(wrt, *arguments):
    """A function that is run as it stands by Python, too, on JAX's arrays."""

    def enter(function):
        CASES.append(pytest.param(function, wrt, arguments, id=function.__name__))
        return function

    return enter


@case("W U x h0", normal(4, 4), normal(4, 3), normal(100, 3), normal(4))
def rnn(W, U, x, h0):
    h = h0
    for t in range(len(x)):
        h = np.tanh(W @ h + U @ x[t])
    return np.sum(h * h)


@case("W b x", normal(12, 5), normal(12), normal(100, 2))
def lstm(W, b, x):
    h, c = np.zeros(3), np.zeros(3)
    loss = 0
    for t in range(len(x)):
        z = W @ np.concatenate([h, x[t]]) + b
        c = 1 / (1 + np.exp(-z[:3])) * c + 1 / (1 + np.exp(-z[3:6])) * np.tanh(z[6:9])
        h = 1 / (1 + np.exp(-z[9:])) * np.tanh(c)
        loss += np.sum(h * h)
    return loss


@case("u k", R.uniform(1, 2, 12), 0.2, 20)
def heat(u, k, steps: int):
    n = len(u)
    for _ in range(steps):
        u = np.array(
            [u[i] if i == 0 or i == n - 1 else u[i] + k * (u[i - 1] - 2 * u[i] + u[i + 1]) for i in range(n)]
        )
    return np.sum(u**2)


@case("A B start", R.uniform(0.1, 1, (3, 3)), R.uniform(0.1, 1, (3, 4)), R.uniform(0.1, 1, 3), R.integers(0, 4, 30))
def hidden_markov(A, B, start, seen):
    n = len(start)
    alpha = np.array([start[i] * B[i, seen[0]] for i in range(n)])
    evidence = 0
    for t in range(1, len(seen)):
        alpha = np.array([sum(alpha[i] * A[i, j] for i in range(n)) * B[j, seen[t]] for j in range(n)])
        total = np.sum(alpha)
        evidence += np.log(total)
        alpha = alpha / total
    return evidence


@case("y rate", np.array([1.0, 0.5]), np.array([1.1, 0.4, 0.1]), 40)
def runge_kutta(y, rate, steps: int):
    def slope(y):
        return np.array([rate[0] * y[0] - rate[1] * y[0] * y[1], rate[2] * y[0] * y[1] - y[1]])

    h = 0.05
    for _ in range(steps):
        a = slope(y)
        b = slope(y + h / 2 * a)
        c = slope(y + h / 2 * b)
        d = slope(y + h * c)
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
    return y[0] * y[1]


@case("x y", normal(6), normal(5))
def time_warping(x, y):
    row = np.array([0.0 if j == 0 else 1e3 for j in range(len(y) + 1)])
    for i in range(len(x)):
        left = 1e3
        new = [1e3]
        for j in range(len(y)):
            left = (x[i] - y[j]) ** 2 + min(left, row[j], row[j + 1])
            new.append(left)
        row = np.array(new)
    return row[len(y)]


@case("a x", 0.5, normal(9))
def history(a, x):
    h = 0.0
    seen = []
    for v in x:
        h = a * h + v
        seen.append(h * h)
    return sum(seen[t] * x[t] for t in range(len(x)))


@case("x", R.uniform(0.5, 1, 7))
def fibonacci(x):
    a, b = x[0], x[1]
    for t in range(2, len(x)):
        a, b = b, a + b * x[t]
    return a * b


@case("A v", normal(4, 4) + 2 * np.eye(4), normal(4), 12)
def power_iteration(A, v, steps: int):
    for _ in range(steps):
        v = A @ v
        v = v / np.sqrt(np.sum(v * v))
    return v @ (A @ v)


@case("x a", normal(3, 8), normal(3))
def side_by_side(x, a):
    def filtered(row, rate):
        s = 0.0
        for v in row:
            s = rate * s + np.sin(v)
        return s

    return sum(filtered(x[b], a[b]) ** 2 for b in range(len(x)))


@case("M x", normal(3, 3), normal(3), 4, 3)
def nested(M, x, outer: int, inner: int):
    for i in range(outer):
        y = x
        for j in range(inner):
            y = np.tanh(M @ y + x) * (1 if j <= i else 0.5)
        x = x + y / (i + 2)
    return np.sum(x)


@case("x y", normal(6), normal(6))
def from_the_end(x, y):
    s = 1.0
    for t, (a, b) in enumerate(zip(reversed(x), y)):
        s = s * a + b * t
    return s


@case("x", normal(8))
def in_place(x):
    y = np.zeros(len(x))
    for t in range(1, len(x)):
        y[t] = 0.5 * y[t - 1] + x[t] * x[t - 1]
    return np.sum(y * y)


@case("x", R.uniform(1, 2, 6))
def chosen_by_data(x):
    s = 1.0
    for v in x:
        if s > 2:
            s = s / v
        else:
            s = s * v + 0.1
    return s


@case("x b", normal(5), normal(2))
def a_tuple_is_carried(x, b):
    state = (b, 1.0)
    for v in x:
        h, k = state
        state = (h * v + k, k * 0.9 + h[0])
    return np.sum(state[0]) * state[1]


def in_jax(function):
    """The same function on JAX's arrays."""
    code = function.__globals__ | {"np": jnp, "min": lambda *xs: __import__("functools").reduce(jnp.minimum, xs)}
    return type(function)(function.__code__, code, function.__name__, function.__defaults__)


def rnn_jax(W, U, x, h0):
    def turn(h, row):
        return jnp.tanh(W @ h + U @ row), None

    h, _ = jax.lax.scan(turn, h0, x)
    return jnp.sum(h * h)


def lstm_jax(W, b, x):
    def turn(carried, row):
        h, c, loss = carried
        z = W @ jnp.concatenate([h, row]) + b
        gates = 1 / (1 + jnp.exp(-z))
        c = gates[:3] * c + gates[3:6] * jnp.tanh(z[6:9])
        h = gates[9:] * jnp.tanh(c)
        return (h, c, loss + jnp.sum(h * h)), None

    (_, _, loss), _ = jax.lax.scan(turn, (jnp.zeros(3), jnp.zeros(3), 0.0), x)
    return loss


def in_place_jax(x):
    y = jnp.zeros(len(x))
    for t in range(1, len(x)):
        y = y.at[t].set(0.5 * y[t - 1] + x[t] * x[t - 1])
    return jnp.sum(y * y)


def chosen_by_data_jax(x):
    s = 1.0
    for v in x:
        s = jnp.where(s > 2, s / v, s * v + 0.1)
    return s


def reference(function):
    return globals().get(f"{function.__name__}_jax") or in_jax(function)


@pytest.fixture(autouse=True)
def exactly():
    with keeping_float64(True):
        yield


@pytest.mark.parametrize(("function", "wrt", "arguments"), CASES)
def test_values_and_gradients_are_those_of_jax(function, wrt, arguments):
    f = tensor(function)
    names = wrt.split()
    direct = reference(function)
    places = [i for i, name in enumerate(f.__signature__.parameters) if name in names]
    expected = direct(*arguments)
    assert f(*arguments) == pytest.approx(float(function(*arguments)), rel=1e-9)
    assert f(*arguments) == pytest.approx(float(expected), rel=1e-9)
    found = f.value_and_grad(*names)(*arguments)
    wanted = jax.grad(direct, tuple(places))(*(jnp.asarray(a) if i in places else a for i, a in enumerate(arguments)))
    gradients = found[1] if len(names) > 1 else (found[1],)
    for gradient, right in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(gradient, right, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("function", "wrt", "arguments"), [c for c in CASES if c.id not in ("rnn", "lstm")])
def test_the_evaluator_and_the_forward_derivative_agree(function, wrt, arguments):
    f, names = tensor(function), wrt.split()
    assert f.interpret(*arguments) == pytest.approx(float(f(*arguments)), rel=1e-9)
    values = dict(zip(f.__signature__.parameters, arguments, strict=True))
    directions = [normal(*np.shape(values[x])) if np.shape(values[x]) else 0.7 for x in names]
    gradient = f.grad(*names)(*arguments)
    gradient = gradient if len(names) > 1 else (gradient,)
    moved = f.jvp(*names)(*arguments, *directions)
    along = sum(np.sum(np.asarray(g) * d) for g, d in zip(gradient, directions, strict=True))
    assert moved == pytest.approx(float(along), rel=1e-7)


@pytest.mark.parametrize(("function", "wrt", "arguments"), CASES)
def test_a_value_and_its_gradient_cost_at_most_four_times_the_value(function, wrt, arguments):
    f = tensor(function)
    spent = f.cost(*arguments)
    both = f.value_and_grad(*wrt.split()).cost(*arguments)
    assert both.total <= 4 * spent.total
    formula = f.cost_formula()
    if not formula.counts:
        assert formula.evaluate(**f.last_sizes) == spent.total
