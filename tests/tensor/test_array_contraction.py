"""Arrays that loops fill from their earlier entries: values, gradients, and that the loops carry rows of them; the
rule of docs/recurrences.md on random programs.
"""

from __future__ import annotations

from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_fills

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.ssa.program import Recurrence, all_statements

R = np.random.default_rng(0)
CASES = []


def case(**shapes):
    """A function that plain NumPy runs, too, of arrays of such shapes, "n" rows of them."""

    def enter(function):
        CASES.append(pytest.param(function, shapes, id=function.__name__))
        return function

    return enter


def drawn(shapes, n):
    draw = np.random.default_rng(0)
    sizes = [tuple(n if k == "n" else k for k in shape) for shape in shapes.values()]
    return [0.3 * draw.normal(size=shape) for shape in sizes]


@case(x=("n",))
def forwards(x):
    y = np.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + np.sin(y[i - 1]) + x[i]
    return np.sum(y * y)


@case(x=("n",))
def backwards(x):
    n = len(x)
    y = np.zeros(n)
    y[n - 1] = x[n - 1]
    for i in range(n - 2, -1, -1):
        y[i] = np.tanh(y[i + 1]) + x[i]
    return np.sum(y * y)


@case(x=("n",))
def two_before(x):
    y = x.copy()
    for i in range(2, len(x)):
        y[i] = 0.5 * y[i - 1] + 0.3 * np.sin(y[i - 2]) + x[i]
    return np.sum(y * y)


@case(x=("n",))
def one_further(x):
    y = np.zeros(len(x) + 1)
    for i, v in enumerate(x):
        y[i + 1] = 0.5 * y[i] + v
    return np.sum(y[1:] ** 2)


@case(x=("n",))
def season(x):
    y = x.copy()
    for i in range(7, len(x)):
        y[i] = np.tanh(y[i - 7]) + 0.2 * y[i - 1]
    return np.sum(y * y)


@case(x=("n",))
def in_place(x):
    y = x.copy()
    for i in range(1, len(x)):
        y[i] += 0.5 * y[i - 1]
    return np.sum(y * y)


@case(x=("n",))
def every_other(x):
    y = x.copy()
    for i in range(2, len(x), 2):
        y[i] = np.sin(y[i - 2]) + y[i - 1]
    return np.sum(y * y)


@case(x=("n",))
def slices(x):
    y = x.copy()
    for i in range(3, len(x)):
        y[i] = np.sin(np.sum(y[i - 3 : i])) + x[i]
    return np.sum(y * y)


@case(x=("n",))
def last_entry_alone(x):
    y = np.ones(len(x))
    for i in range(1, len(x)):
        y[i] = np.sin(y[i - 1]) + x[i]
    return y[-1]


@case(x=("n",))
def first_iteration_differs(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        if i == 0:
            y[i] = x[0]
        else:
            y[i] = np.sin(y[i - 1]) + x[i]
    return np.sum(y * y)


@case(x=("n",))
def data_decide(x):
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        if x[i] > 0:
            y[i] = 0.9 * y[i - 1] + x[i]
        else:
            y[i] = 0.5 * y[i - 1]
    return np.sum(y * y)


@case(x=("n",))
def two_arrays(x):
    q, p = np.zeros((len(x), 2)), np.zeros((len(x), 2))
    q[0, 0] = x[0]
    p[0, 1] = 1.0
    for i in range(1, len(x)):
        p[i] = p[i - 1] - 0.1 * q[i - 1]
        q[i] = q[i - 1] + 0.1 * p[i] + x[i]
    return np.sum(q * q) + q[-1, 0]


@case(x=("n",))
def matrices(x):
    y = np.zeros((len(x), 3, 3))
    y[0] = x[0] * np.eye(3)
    for i in range(1, len(x)):
        y[i] = np.tanh(0.3 * y[i - 1] @ y[i - 1] + x[i])
    return np.sum(y * y)


@case(x=("n", 5))
def inner_columns(x):
    u = np.zeros(x.shape)
    u[0] = x[0]
    for t in range(1, x.shape[0]):
        u[t, 1:-1] = u[t - 1, 1:-1] + 0.1 * (u[t - 1, 2:] - u[t - 1, :-2]) + x[t, 1:-1]
    return np.sum(u**2)


@case(x=("n", 5))
def inner_loop(x):
    alpha = np.zeros(x.shape)
    alpha[0] = x[0]
    for t in range(1, x.shape[0]):
        for s in range(1, x.shape[1]):
            alpha[t, s] = np.tanh(alpha[t - 1, s - 1]) + x[t, s]
    return np.sum(alpha**2)


@case(x=("n", 5))
def warping(x):
    n, m = x.shape
    D = np.full((n + 1, m + 1), 1e3)
    D[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            D[i, j] = x[i - 1, j - 1] ** 2 + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return D[n, m]


@case(x=("n", 5))
def labels(x):
    alpha = np.zeros(x.shape)
    alpha[0, 0] = np.exp(x[0, 0])
    alpha[0, 1] = np.exp(x[0, 1])
    for t in range(1, x.shape[0]):
        for s in range(x.shape[1]):
            a = alpha[t - 1, s]
            if s > 0:
                a = a + alpha[t - 1, s - 1]
            if s > 1:
                a = a + 0.5 * alpha[t - 1, s - 2]
            alpha[t, s] = 0.4 * a * np.exp(x[t, s])
    return -np.log(alpha[-1, -1] + alpha[-1, -2])


@case(x=("n",), phi=(3,))
def as_many_as_given(x, phi):
    p = len(phi)
    y = x.copy()
    for t in range(p, len(x)):
        y[t] = x[t] + sum(phi[j] * y[t - 1 - j] for j in range(p))
    return np.sum(y**2)


@case(x=("n",), phi=(3,))
def added_in_an_inner_loop(x, phi):
    e = np.zeros(len(x))
    for t in range(len(x)):
        e[t] = x[t]
        for j in range(len(phi)):
            if t - 1 - j >= 0:
                e[t] -= phi[j] * e[t - 1 - j]
    return np.sum(e**2)


@case(x=("n",), u=("n",))
def tridiagonal(x, u):
    n = len(x)
    c, d = np.zeros(n), np.zeros(n)
    c[0] = 0.1
    d[0] = x[0] / 2
    for i in range(1, n):
        m = 2 + u[i] - 0.2 * c[i - 1]
        c[i] = 0.2 / m
        d[i] = (x[i] - 0.2 * d[i - 1]) / m
    y = np.zeros(n)
    y[n - 1] = d[n - 1]
    for i in range(n - 2, -1, -1):
        y[i] = d[i] - c[i] * y[i + 1]
    return np.sum(y**2)


def carried(program, sizes):
    """The reals that the loops of a program carry at given sizes."""
    loops = [s.rhs for s in all_statements(program) if isinstance(s.rhs, Recurrence)]
    assert loops
    return sum(
        prod(b.size.evaluate(sizes) for b in gens) for loop in loops for gens in loop.carried
    )


def directional(f, arguments, directions, step=1e-6):
    """The derivative of a function in a direction, by differences."""
    ends = [
        f(*(a + s * step * d for a, d in zip(arguments, directions, strict=True))) for s in (1, -1)
    ]
    return (ends[0] - ends[1]) / (2 * step)


@pytest.mark.parametrize(("function", "shapes"), CASES)
def test_values_and_gradients_are_those_of_numpy(function, shapes):
    f, arguments = tensor(function), drawn(shapes, 11)
    wanted = function(*(a.copy() for a in arguments))
    np.testing.assert_allclose(f(*arguments), wanted, rtol=1e-6)
    gradient = f.grad(*shapes)(*arguments)
    parts = gradient if len(arguments) > 1 else (gradient,)
    for seed in range(2):
        draw = np.random.default_rng(seed)
        directions = [draw.normal(size=a.shape) for a in arguments]
        slope = sum(np.sum(p * d) for p, d in zip(parts, directions, strict=True))
        expected = directional(function, arguments, directions)
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("function", "shapes"), CASES)
def test_loops_carry_rows(function, shapes):
    f = tensor(function)
    f(*drawn(shapes, 11))
    for g in (f, f.grad(*shapes)):
        first = g.plan(*drawn(shapes, 50))
        assert g.plan(*drawn(shapes, 100)).points <= 2.2 * first.points
        sizes = [{"n": k, "x_0": k, "x_1": 5, "m": 5, "p": 3, "phi_0": 3} for k in (50, 100)]
        assert carried(g.ssa, sizes[0]) == carried(g.ssa, sizes[1])


def test_updates_of_jax_are_carried_as_rows():
    def fill(x):
        y = jnp.zeros(len(x))
        for i in range(1, len(x)):
            y = y.at[i].set(0.5 * y[i - 1] + jnp.sin(y[i - 1]) + x[i])
        return jnp.sum(y * y)

    f, x = tensor(fill), np.linspace(-1, 1, 9)
    np.testing.assert_allclose(f(x), fill(jnp.asarray(x)), rtol=1e-5)
    np.testing.assert_allclose(f.grad("x")(x), jax.grad(fill)(jnp.asarray(x)), rtol=1e-4, atol=1e-5)
    assert carried(f.ssa, {"n": 9, "x_0": 9}) == 1


def test_second_derivatives_are_those_of_scan():
    def direct(x):
        def turn(y, v):
            y = 0.5 * y + jnp.sin(y) + v
            return y, y

        return x[0] ** 2 + jnp.sum(jax.lax.scan(turn, x[0], x[1:])[1] ** 2)

    x = np.linspace(-1, 1, 7).astype(np.float32)
    found = tensor(forwards).hessian("x")(x)
    np.testing.assert_allclose(found, jax.hessian(direct)(x), rtol=1e-4, atol=1e-4)


def kept_whole(x):
    y = np.ones(len(x))
    for i in range(1, len(x)):
        y[i] = y[i // 2] * x[i]
    return np.sum(y)


def rows_that_grow(x):
    y = x.copy()
    for i in range(1, len(x)):
        y[i] = 0.1 * sum(y[j] for j in range(i)) + x[i]
    return np.sum(y * y)


def two_rows_an_iteration(x):
    y = np.zeros(2 * len(x))
    for i in range(1, len(x)):
        y[2 * i] = y[2 * i - 1] + x[i]
        y[2 * i + 1] = 0.5 * y[2 * i]
    return np.sum(y * y)


@pytest.mark.parametrize("function", [kept_whole, rows_that_grow, two_rows_an_iteration])
def test_other_loops_carry_the_array(function):
    f, x = tensor(function), np.linspace(0.5, 1, 9)
    np.testing.assert_allclose(f(x), function(x), rtol=1e-6)
    d = np.linspace(-1, 1, 9)
    slope = directional(function, [x], [d])
    np.testing.assert_allclose(np.sum(f.grad("x")(x) * d), slope, rtol=1e-5)


def test_an_inner_loop_carries_the_row_that_it_fills():
    def factor(A):
        n = len(A)
        L = np.zeros((n, n))
        for i in range(n):
            for j in range(i + 1):
                s = A[i, j]
                for k in range(j):
                    s -= L[i, k] * L[j, k]
                if i == j:
                    L[i, j] = np.sqrt(s)
                else:
                    L[i, j] = s / L[j, j]
        return np.sum(L * L * L)

    f = tensor(factor)
    A = 3 * np.eye(5) + 0.1 * np.cos(np.arange(25.0).reshape(5, 5))
    np.testing.assert_allclose(f(A), factor(A), rtol=1e-6)
    d = R.normal(size=(5, 5))
    slope = directional(factor, [A], [d])
    np.testing.assert_allclose(np.sum(f.grad("A")(A) * d), slope, rtol=1e-5)
    loops = [s.rhs for s in all_statements(f.ssa) if isinstance(s.rhs, Recurrence)]
    assert [[len(gens) for gens in loop.carried] for loop in loops] == [[2], [1]]


def test_an_inner_loop_of_independent_iterations_is_none():
    """Each entry of a row is made from the row before, so that a row is one array operation."""
    f = tensor(inner_loop)
    f(*drawn({"x": ("n", 5)}, 7))
    loops = [s.rhs for s in all_statements(f.ssa) if isinstance(s.rhs, Recurrence)]
    assert [[len(gens) for gens in loop.carried] for loop in loops] == [[1]]


@pytest.mark.parametrize("seed", range(40))
def test_contraction_keeps_value_and_cost_of_random_programs(seed):
    random_fills.check(seed)


def test_enough_random_programs_are_contracted():
    random_fills.SEEN = random_fills.Seen()
    for seed in range(40, 60):
        random_fills.check(seed)
    assert random_fills.SEEN.contracted >= 5
