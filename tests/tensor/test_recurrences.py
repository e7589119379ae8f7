"""Loops whose turns take what those before have left: values, gradients, costs, messages, and the
theorems of docs/recurrences.md.
"""

from __future__ import annotations

import inspect
from fractions import Fraction

import fuzz
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_loops

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.frontend.tracers import UnreadableValue
from jupyter_hvd.tensor.jax.precision import keeping_float64
from jupyter_hvd.tensor.lowering.recomputation import block_length
from jupyter_hvd.tensor.ssa.program import Recurrence

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


@case("u k", R.uniform(1, 2, 8), 0.2, 9)
def heat(u, k, steps: int):
    n = len(u)
    for _ in range(steps):
        u = np.array(
            [
                u[i] if i == 0 or i == n - 1 else u[i] + k * (u[i - 1] - 2 * u[i] + u[i + 1])
                for i in range(n)
            ]
        )
    return np.sum(u**2)


@case(
    "A B start",
    R.uniform(0.1, 1, (3, 3)),
    R.uniform(0.1, 1, (3, 4)),
    R.uniform(0.1, 1, 3),
    R.integers(0, 4, 12),
)
def hidden_markov(A, B, start, seen):
    n = len(start)
    alpha = np.array([start[i] * B[i, seen[0]] for i in range(n)])
    evidence = 0
    for t in range(1, len(seen)):
        alpha = np.array(
            [sum(alpha[i] * A[i, j] for i in range(n)) * B[j, seen[t]] for j in range(n)]
        )
        total = np.sum(alpha)
        evidence += np.log(total)
        alpha = alpha / total
    return evidence


@case("y rate", np.array([1.0, 0.5]), np.array([1.1, 0.4, 0.1]), 9)
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


@case("a x", 0.5, normal(9))
def trajectory(a, x):
    h = x[0]
    seen, after = [h], []
    for k in range(1, len(x)):
        h = np.tanh(a * h + x[k])
        seen.append(h)
        after.append(h)
    return sum(seen[t] * x[t] for t in range(len(x))) * sum(
        after[t] ** 2 for t in range(len(x) - 1)
    )


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
    for t, (a, b) in enumerate(zip(reversed(x), y, strict=True)):
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
        if s > 2:  # noqa: SIM108
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


@case("x a", normal(6), normal(2))
def lists_are_carried(x, a):
    h = [0.1, 0.2]
    for v in x:
        h = [a[0] * h[1] + v, a[1] * h[0]]
    g = [1.0, 2.0]
    for v in x:
        g[0] = g[0] * v + g[1]
    return h[0] * h[1] * g[0]


@case("x", R.uniform(0.5, 1, 6))
def masked(x):
    h = 0.1
    for t in range(len(x)):
        h = h * 0.5 + (np.log(x[t - 1]) if t > 0 else 0) + t * x[t]
    return h * h


@case("x", R.uniform(0.5, 1, 5))
def added_to_and_assigned(x):
    s = 0
    for v in x:
        s += v
        s = s * 2
    return s


@case("A b", normal(6, 6) * 0.2 + 2 * np.eye(6), normal(6))
def forward_substitution(A, b):
    x = np.zeros(len(b))
    for i in range(len(b)):
        s = b[i]
        for j in range(i):
            s = s - A[i, j] * x[j]
        x[i] = s / A[i, i]
    return np.sum(x * x)


def forward_substitution_jax(A, b):
    return jnp.sum(jax.scipy.linalg.solve_triangular(A, b, lower=True) ** 2)


@case("x", R.uniform(0.5, 1, 6))
def triangular(x):
    n = len(x)
    h, g = 1.0, x
    for i in range(n):
        for j in range(i, n - 1):
            z = np.sin(h) * x[j]
            h = z + 0.1
            g = g * 0.9 + h * x[j - i]
    return h * np.sum(g)


def in_jax(function):
    """The same function on JAX's arrays."""
    code = function.__globals__ | {
        "np": jnp,
        "min": lambda *xs: __import__("functools").reduce(jnp.minimum, xs),
    }
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


JAXS: dict[str, tuple[float, tuple[np.ndarray, ...]]] = {}


def of_jax(function, wrt, arguments):
    """The value of a case and its gradients, computed once: JAX goes through every turn."""
    if function.__name__ not in JAXS:
        names, direct = list(inspect.signature(function).parameters), reference(function)
        places = tuple(names.index(name) for name in wrt.split())
        given = (jnp.asarray(a) if i in places else a for i, a in enumerate(arguments))
        JAXS[function.__name__] = jax.value_and_grad(direct, places)(*given)
    return JAXS[function.__name__]


@pytest.fixture(autouse=True)
def exactly():
    with keeping_float64(True):
        yield


@pytest.mark.parametrize(("function", "wrt", "arguments"), CASES)
def test_values_and_gradients_are_those_of_jax(function, wrt, arguments):
    f = tensor(function)
    names = wrt.split()
    expected, wanted = of_jax(function, wrt, arguments)
    assert f(*arguments) == pytest.approx(float(function(*arguments)), rel=1e-9)
    assert f(*arguments) == pytest.approx(float(expected), rel=1e-9)
    found = f.value_and_grad(*names)(*arguments)
    gradients = found[1] if len(names) > 1 else (found[1],)
    for gradient, right in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(gradient, right, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("function", "wrt", "arguments"), [c for c in CASES if c.id not in ("rnn", "lstm")]
)
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


def test_costs_are_exact_formulas():
    @tensor
    def filtered(x, a):
        n = len(x)
        s = 0.0
        for t in range(n):
            s = a * s + x[t]
        return s

    @tensor
    def triangle(x):
        n = len(x)
        s = 0.0
        for t in range(n):
            s = 0.5 * s + sum(x[i] * x[i] for i in range(t))
        return s

    x = normal(7)
    assert filtered(x, 0.5) == pytest.approx(float(filtered.python(x, 0.5)))
    assert triangle(x) == pytest.approx(float(triangle.python(x)))
    assert str(filtered.cost_formula()) == "2*n"
    gradient = filtered.value_and_grad("a")
    gradient(x, 0.5)
    assert str(gradient.cost_formula()) == "5*n"
    for n in (1, 2, 7):
        assert triangle.cost_formula().evaluate(n=n) == triangle.cost(x[:n]).total


def test_a_loop_that_only_adds_up_is_the_sum_that_it_was():
    @tensor
    def total(x):
        n = len(x)
        s = 0
        for i in range(n):
            s += x[i] * x[i]
        return s

    total(normal(3))
    assert "iterate" not in str(total.program)
    assert str(total.cost_formula()) == "2*n"


def test_a_long_loop_of_constant_count_is_not_written_out():
    @tensor
    def steps(x, y):
        h = x[0]
        for _ in range(200):
            z = h * 0.99
            h = np.sin(z) + y
        return h + z

    @tensor
    def alternating(x):
        s = 1.0
        for t in range(40):
            s = s * 0.5 + x[t * t % 40]
        return s

    x = normal(40)
    assert steps(x, 0.3) == pytest.approx(float(steps.python(x, 0.3)))
    assert "iterate" in str(steps.program)
    assert str(steps.cost_formula()) == "601"
    assert alternating(x) == pytest.approx(float(alternating.python(x)))
    assert "iterate" not in str(alternating.program)


def test_a_loop_may_have_no_iterations():
    @tensor
    def repeated(x, n: int):
        for _ in range(n):
            x = np.sin(x) * x
        return np.sum(x)

    x = normal(3)
    for n in (0, 1, 3):
        assert repeated(x, n) == pytest.approx(float(repeated.python(x, n)))
    assert repeated.grad("x")(x, 0).tolist() == [1, 1, 1]


def test_only_what_is_read_is_kept():
    f = tensor(rnn)
    arguments = normal(4, 4), normal(4, 3), normal(100, 3), normal(4)
    assert "101×4" not in str(f.plan(*arguments))
    gradient = f.grad("W")
    assert "101×4×4" not in str(gradient.plan(*arguments))
    # The reverse loop computes no product W·h anew: it has the two of dh and dW.
    turns = str(gradient.plan(*arguments)).split("iterations of")[2]
    assert turns.count("sum of products") == 1


def test_second_derivatives_and_jax_compose():
    @tensor
    def f(x, a):
        s = 1.0
        for v in x:
            s = np.sin(a * s) + v
        return s

    def direct(x, a):
        s = 1.0
        for v in x:
            s = jnp.sin(a * s) + v
        return s

    x = normal(5)
    np.testing.assert_allclose(f.hessian("x")(x, 0.7), jax.hessian(direct)(x, 0.7), rtol=1e-9)
    second = f.grad("a").grad("a")(x, 0.7)
    assert second == pytest.approx(float(jax.grad(jax.grad(direct, 1), 1)(x, 0.7)))
    rows = normal(3, 5)
    found = jax.vmap(f.jax, (0, None))(rows, 0.7)
    np.testing.assert_allclose(found, [direct(row, 0.7) for row in rows], rtol=1e-9)
    np.testing.assert_allclose(
        jax.jit(jax.grad(f.jax))(jnp.asarray(x), 0.7), f.grad("x")(x, 0.7), rtol=1e-9
    )


def test_a_function_with_a_loop_is_called_from_others():
    @tensor
    def filtered(x, a):
        s = 0.0
        for v in x:
            s = a * s + v
        return s

    @tensor
    def all_of_them(X, a):
        return [filtered(row, a) if i > 0 else 0 for i, row in enumerate(X)]

    slope = filtered.grad("x")

    @tensor
    def all_slopes(X, a):
        return [slope(row, a) for row in X]

    X = normal(3, 4)
    np.testing.assert_allclose(all_slopes(X, 0.5), [[0.125, 0.25, 0.5, 1.0]] * 3)
    expected = [0.0, *(filtered.python(row, 0.5) for row in X[1:])]
    np.testing.assert_allclose(all_of_them(X, 0.5), expected)
    np.testing.assert_allclose(all_of_them.interpret(X, 0.5), expected)


def test_it_is_exact_on_fractions():
    @tensor
    def chain(x, a):
        s = a
        for v in x:
            s = s * v + a
        return s

    x, a = [Fraction(1, 2), Fraction(1, 3), Fraction(-2, 5)], Fraction(1, 7)
    assert chain.interpret(x, a) == chain.python(x, a)
    s = chain.grad("a").interpret(x, a)
    assert s == (chain.python(x, a + 1) - chain.python(x, a))


def test_relations_are_read_iteration_by_iteration():
    @tensor
    def spread(x, R, src):
        n = len(x)
        h = x
        for t in range(len(R)):
            h = [sum(h[j] for j in range(n) if R[t, i, j]) * h[src[i]] + x[i] for i in range(n)]
        return sum(h[i] * (t + 1) for t in range(2) for i in range(n) if R[t, i, 0])

    x, src = normal(5), R.integers(0, 5, 5)
    edges = R.random((3, 5, 5)) < 0.4

    def direct(x):
        h = x
        for t in range(3):
            h = edges[t].astype(float) @ h * h[src] + x
        return sum(jnp.sum(h * edges[t, :, 0]) * (t + 1) for t in range(2))

    assert spread(x, edges, src) == pytest.approx(float(direct(jnp.asarray(x))))
    assert spread.interpret(x, edges, src) == pytest.approx(float(direct(jnp.asarray(x))))
    found = spread.grad("x")(x, edges, src)
    np.testing.assert_allclose(found, jax.grad(direct)(jnp.asarray(x)), rtol=1e-9)
    many = R.random((3, 200, 200)) < 0.01  # by its true entries
    big = normal(200)
    src = R.integers(0, 200, 200)
    assert spread(big, many, src) == pytest.approx(float(spread.python(big, many, src)), rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_numbers_keep_their_type(dtype):
    arguments = [
        np.asarray(a, dtype) for a in (normal(4, 4), normal(4, 3), normal(9, 3), normal(4))
    ]
    f = tensor(rnn)
    assert f(*arguments).dtype == dtype
    value, gradient = f.value_and_grad("W")(*arguments)
    assert value.dtype == gradient.dtype == dtype
    exact = f(*(np.asarray(a, float) for a in arguments))
    assert float(value) == pytest.approx(float(exact), rel=1e-5 if dtype is np.float32 else 0.1)


def test_a_profile_counts_the_iterations():
    f = tensor(rnn)
    arguments = normal(4, 4), normal(4, 3), normal(10, 3), normal(4)
    profile = f.profile(*arguments, repeats=1)
    assert sum(s.operations for s in profile.statements) == f.cost(*arguments).total


def test_a_loop_is_not_divided_among_devices():
    with pytest.raises(TensorError, match="not divided"):
        tensor(rnn).sharded("t")(normal(4, 4), normal(4, 3), normal(10, 3), normal(4))


def test_a_loop_in_reverse_takes_its_rows_from_the_last():
    """What is kept is not turned round first."""
    arguments = normal(4, 4), normal(4, 3), normal(20, 3), normal(4)
    plan = str(tensor(rnn).grad("W").plan(*arguments))
    assert "rows from the last" in plan
    assert "-u0" not in plan


def test_an_inner_loop_takes_of_the_outer_iteration_that_alone():
    """Else what is due to all of A is carried through every turn: n⁴ operations for n² turns."""

    @tensor
    def f(A):
        n = len(A)
        h = 1.0
        for i in range(n):
            for j in range(n):
                h = np.sin(h * A[i, j])
        return h

    small, large = normal(5, 5), normal(10, 10)
    gradient = f.grad("A")
    costs = [gradient.cost(A).total for A in (small, large)]
    assert costs[1] <= 4.2 * costs[0]
    wanted = jax.grad(in_jax(f.python))(jnp.asarray(small))
    np.testing.assert_allclose(gradient(small), wanted, rtol=1e-9)


def test_what_an_iteration_looks_up_is_no_table_and_no_mask():
    f = tensor(hidden_markov)
    arguments = next(c.values[2] for c in CASES if c.id == "hidden_markov")
    plan = str(f.grad("B").plan(*arguments))
    assert "with δ0 = t, " in plan
    assert "turn[" not in plan
    assert "turn(" not in plan
    turn = plan[plan.index("rows from the last") :].split("carried on")[0]
    assert turn.count("scatter-add") == 1


def test_a_product_with_a_reciprocal_is_a_quotient():
    @tensor
    def normalized(x):
        for _ in range(40):
            x = x / np.sum(x)
        return np.sum(x * x)

    x = R.uniform(1, 2, 4)
    text = str(jax.make_jaxpr(normalized.jax)(x))
    body = text[: text.index(" in (")]
    assert body.count(" div ") == 2  # one of them is not read
    assert normalized(x) == pytest.approx(float(normalized.python(x)))


# The function's body, with the marked part in «»; what the message says, and the help
REFUSED = [
    (
        "h, s = 1.0 * x, []\n    for t in range(len(x)):\n        h = h + x\n        s.append(h)\n"
        "    h += 1\n    return «np.array(s)»",
        "shares its entries",
        "copy",
    ),
    (
        "h = 1.0 * x\n    s = [h]\n    for t in range(len(x)):\n        h = h + x\n        s.append(h)\n"
        "    h += 1\n    return «np.array(s)»",
        "shares its entries",
        "copy",
    ),
    (
        "b = np.zeros(2)\n    s = [1.0 * b]\n    s.append(b)\n    for «t» in range(len(x)):\n        b += x[t]\n"
        "        s.append(b + x[t])\n    return np.array(s)",
        "`s` holds `b` itself",
        "copy",
    ),
    (
        "h = 0.0\n    while «h < 3»:\n        h = h + x[0]\n    return h",
        "`while`",
        "# at most 100",
    ),
    (
        "h = 0.0\n    for «t» in range(x[0]):\n        h = h * x[t]\n    return h",
        "data decide how often",
        "int",
    ),
    (
        "h = 0.0\n    for «t» in range(len(x)):\n        h = h * x\n    return h",
        "`h` begins as a scalar",
        "keeps its shape",
    ),
    (
        "for t in range(1, len(x)):\n        «x[t] = x[t - 1] + x[t]»\n    return x",
        "the caller's",
        "copy",
    ),
    (
        "y = x\n    for t in range(1, len(x)):\n        «y[t] = y[t - 1] + x[t]»\n    return y",
        "the caller's",
        "copy",
    ),
    (
        "for t in range(len(x)):\n        h = «h * x[t]»\n    return h",
        "previous iteration",
        "before the loop",
    ),
    (
        "h = 1.0\n    s = []\n    for «t» in range(len(x)):\n        h = h * x[t]\n"
        "        if t > 2:\n            s.append(h)\n    return s",
        "data decide how many entries",
        "sum them",
    ),
    (
        "h = 1.0\n    for t in range(len(x)):\n        s = []\n        for «j» in range(t):\n"
        "            h = h * x[j]\n            s.append(h)\n        h = h + sum(s)\n    return h",
        "appends depends on an outer index",
        "for every index",
    ),
    (
        "h = 1.0\n    for t in range(len(x)):\n        h = h * «x[t + 1]»\n    return h",
        "reads index 3 at t=2",
        "guard it",
    ),
    (
        "h = 1.0\n    for t in range(len(x)):\n        z = h * x[t]\n        h = z + 1\n"
        "    «return z»",
        "within the loop",
        "",
    ),
]


@pytest.mark.parametrize(("body", "message", "help_"), REFUSED)
def test_what_no_loop_can_carry_is_refused_where_it_stands(body, message, help_, tmp_path):
    path = tmp_path / "refused.py"
    path.write_text(f"def f(x):\n    {body.replace('«', '').replace('»', '')}\n")
    namespace = {"np": np}
    exec(compile(path.read_text(), path, "exec"), namespace)
    with pytest.raises(TensorError) as error:
        tensor(namespace["f"])(np.array([1.0, 2.0, 3.0]))
    assert message in str(error.value)
    assert help_ in error.value.help
    marked = body[body.index("«") + 1 : body.index("»")]
    place = error.value.place
    assert place.text[place.column : place.end_column] == marked


# The theorems of docs/recurrences.md


@pytest.mark.parametrize("seed", [*range(40), 11048])
def test_random_loops_obey_the_theorems(seed):
    random_loops.check(seed)


def test_the_long_run_takes_loops():
    programs, forward, adjoint, failures = fuzz.run(range(2), 4, "loops")
    assert (programs, failures) == (2, [])
    assert 0 < forward <= 4
    assert 0 < adjoint <= 4


@pytest.mark.thorough
def test_many_random_loops_obey_the_theorems():
    for seed in range(1000, 1400):
        random_loops.check(seed)


def test_computing_an_iteration_again_breaks_the_bound(monkeypatch):
    """The check notices a reverse loop that keeps only what the loop carries."""
    monkeypatch.setattr(random_loops.reverse, "_needed_values", lambda *_: {})
    assert random_loops.chain_ratio() > 4


def test_keeping_what_an_iteration_computes_attains_the_bound():
    assert 3.5 < random_loops.chain_ratio() <= 4


def test_checkpoints_keep_what_a_loop_carries_alone():
    arguments = normal(4, 4), normal(4, 3), normal(30, 3), normal(4)
    f = tensor(rnn)
    kept, anew = f.grad("W", "x"), f.grad("W", "x", checkpoint=True)
    for a, b in zip(kept(*arguments), anew(*arguments), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    # One more value of each turn is what it costs, and one array of 31×4 less what it keeps.
    more = anew.cost(*arguments).total - kept.cost(*arguments).total
    assert 0 < more <= f.cost(*arguments).total
    assert str(anew.plan(*arguments)).count("31×4") < str(kept.plan(*arguments)).count("31×4")


def test_blocks_of_iterations_with_checkpoints_keep_as_many_as_two_roots():
    @tensor
    def plain(x, a):
        h = 1.0
        for t in range(len(x)):
            h = np.sin(a * h) + x[t]
        return h

    @tensor
    def blocks(x, a, count: int):
        h = 1.0
        for b in range(count):
            for j in range(8):
                h = np.sin(a * h) + x[8 * b + j]
        return h

    x = normal(64)
    expected = plain.grad("x")(x, 0.7)
    found = blocks.grad("x", checkpoint=True)
    np.testing.assert_allclose(found(x, 0.7, 8), expected, rtol=1e-9)
    assert found.cost(x, 0.7, 8).total <= 5 * blocks.cost(x, 0.7, 8).total


IN_BLOCKS = (
    *("rnn", "lstm", "heat", "hidden_markov", "runge_kutta", "time_warping", "history", "nested"),
    *("side_by_side", "chosen_by_data", "forward_substitution", "triangular"),
)


@pytest.mark.parametrize(("function", "wrt", "arguments"), [c for c in CASES if c.id in IN_BLOCKS])
def test_blocks_give_the_gradients_of_jax(function, wrt, arguments):
    f, names = tensor(function), wrt.split()
    expected, wanted = of_jax(function, wrt, arguments)
    gradient = f.value_and_grad(*names, checkpoint="blocks")
    value, found = gradient(*arguments)
    assert "in blocks of" in str(gradient.plan(*arguments))
    assert float(value) == pytest.approx(float(expected), rel=1e-9)
    for cotangent, right in zip(found if len(names) > 1 else (found,), wanted, strict=True):
        np.testing.assert_allclose(cotangent, right, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("turns", [0, 1, 3, 4, 5, 16, 17, 24, 25, 26])
def test_blocks_of_any_number_of_iterations(turns):
    @tensor
    def f(x, a, steps: int):
        h = a
        seen = []
        for t in range(steps):
            h = np.sin(x[t] * h) + a
            seen.append(h * x[t])
        return h + sum(seen[t] * (t + 1) for t in range(steps))

    x = normal(30)
    expected = f.grad("x", "a")(x, 0.7, turns)
    found = f.grad("x", "a", checkpoint="blocks")(x, 0.7, turns)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)


def test_blocks_cost_one_more_value():
    @tensor
    def filtered(x, a):
        n = len(x)
        s = 0.0
        for t in range(n):
            s = a * s + x[t]
        return s

    filtered(normal(7), 0.5)
    kept, blocks = (filtered.value_and_grad("a", checkpoint=c) for c in (False, "blocks"))
    x = normal(7)
    assert blocks(x, 0.5)[1] == pytest.approx(float(kept(x, 0.5)[1]))
    assert str(kept.cost_formula()) == "5*n"
    assert str(blocks.cost_formula()) == "7*n"
    # Also where nothing but the reverse asks for the value: what blocks begin with has to be computed.
    assert str(filtered.grad("a", checkpoint="blocks").cost_formula()) == "7*n"


def test_blocks_keep_about_two_roots_of_the_states():
    @tensor
    def wave(x, W, u):
        h = u
        for t in range(len(x)):
            h = np.sin(W * h) + x[t]
        return np.sum(h)

    turns, units = 4096, 64
    arguments = normal(turns), normal(units), normal(units)
    state = 8 * units

    def temporary(checkpoint):
        gradient = jax.jit(wave.grad("W", checkpoint=checkpoint).jax)
        return gradient.lower(*arguments).compile().memory_analysis().temp_size_in_bytes

    assert temporary(True) > turns * state
    # The states of 91 blocks of 46 turns and those of one, W·h beside each; all x, in reverse, too.
    assert temporary("blocks") < 2 * 2 * np.sqrt(2 * turns) * state + 4 * 8 * turns


def test_derivatives_of_blocks_are_right():
    @tensor
    def f(x, a):
        s = 1.0
        for v in x:
            s = np.sin(a * s) + v
        return s

    x = normal(9)
    expected = f.grad("a").grad("a")(x, 0.7)
    for inner, outer in (("blocks", False), (False, "blocks"), ("blocks", "blocks")):
        found = f.grad("a", checkpoint=inner).grad("a", checkpoint=outer)(x, 0.7)
        assert found == pytest.approx(float(expected), rel=1e-9)
    rows = f.grad("x", checkpoint="blocks").jvp("a")(x, 0.7, 1.0)
    np.testing.assert_allclose(rows, f.grad("x").jvp("a")(x, 0.7, 1.0), rtol=1e-9)


def test_what_checkpoint_may_be():
    f = tensor(rnn)
    with pytest.raises(TensorError, match="checkpoint='block'") as error:
        f.grad("W", checkpoint="block")
    assert '"blocks"' in error.value.help
    with pytest.raises(TensorError, match="checkpoint=8"):
        f.vjp("W", checkpoint=8)


@pytest.mark.parametrize("turns", [4, 5, 7, 100, 4096, 5000])
@pytest.mark.parametrize(("carried", "kept"), [(1, 1), (64, 64), (64, 192), (1, 10_000), (5, 7)])
def test_blocks_are_as_long_as_takes_least(turns, carried, kept):
    def reals(length):
        return -(-turns // length) * carried + length * kept

    length = block_length(turns, carried, kept)
    assert 1 <= length <= turns
    assert reals(length) <= 2 * np.sqrt(turns * carried * kept) + carried + kept


def test_without_what_iterations_take_and_give_the_bound_does_not_hold():
    counted, left_out = random_loops.exchange_ratio()
    assert counted <= 4 < left_out


def lines_of(f, *arguments):
    """How long a call's plan is, the bodies of its loops counted in."""
    return len(str(f.plan(*arguments)).splitlines())


@pytest.mark.parametrize("n", [20, 40])
def test_iterations_of_many_statements_are_a_loop_however_few_they_are(n):
    """Written out, every statement is planned and compiled: 66 s before the first call of this at n = 20."""

    @tensor
    def likelihood(scale, x, y):
        d = (x[:, None] - x[None, :]) ** 2
        K = np.exp(-0.5 * d / scale**2) + 0.1 * np.eye(len(x))
        return y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1]

    def of_jax(scale):
        d = (x[:, None] - x[None, :]) ** 2
        K = jnp.exp(-0.5 * d / scale**2) + 0.1 * jnp.eye(n)
        return y @ jnp.linalg.solve(K, y) + jnp.linalg.slogdet(K)[1]

    x, y = np.linspace(0, 1, n), np.sin(np.arange(n))
    assert lines_of(likelihood, 0.7, x, y) < 150
    with keeping_float64(True):
        expected = jax.grad(of_jax)(0.7)
    np.testing.assert_allclose(likelihood.grad("scale")(0.7, x, y), expected, rtol=1e-6)


def test_an_index_that_begins_within_a_loop_has_its_last_value_after_it():
    @tensor
    def f(x):
        h = 0.0
        for p in range(40):
            k = 39 - p
            h = 0.5 * h + x[k]
        return h * x[k + 1]

    x = np.arange(1.0, 41)
    assert lines_of(f, x) < 20
    np.testing.assert_allclose(f(x), inspect.unwrap(f)(x))


def test_a_number_that_each_iteration_changes_stays_one_where_iterations_are_long():
    @tensor
    def f(x):
        reach = 1
        for _ in range(4):
            a = np.sin(x[reach:])
            b = np.cos(x[:-reach])
            c = a * b + a
            d = c * b + a * c
            x = np.concatenate([x[:reach], np.tanh(d)])
            reach *= 2
            u = np.sum(x * x)
            v, w = u * u, np.sqrt(u)
            z, q = v + w, v * w
            x = x + z * q
            r, s, t = u + v, v + w, w + z
            x = x * np.tanh(r * s * t)
            y = x * x
            x = y + np.sum(y)
            x = x / np.sum(x)
            e = x - np.mean(x)
            x = e * e + np.max(x)
        return np.sum(x)

    x = np.linspace(0, 1, 20)
    np.testing.assert_allclose(f(x), inspect.unwrap(f)(x))


def test_what_is_read_neither_by_an_iteration_nor_after_the_loop_is_not_carried():
    @tensor
    def f(x):
        for _ in range(40):
            t = x[0] + 1
            u = t * x
            x = 0.9 * np.sin(u) + 0.1 * x
        return np.sum(x)

    (carried,) = [line for line in str(f.plan(np.ones(3))).splitlines() if "carried on" in line]
    assert "," not in carried
    np.testing.assert_allclose(f(np.ones(3)), inspect.unwrap(f)(np.ones(3)))


def test_lists_of_what_a_loop_carries_are_its_history():
    """Nothing is carried beside it; a list that begins otherwise, or of something else, is."""

    def carried(function):
        (loop,) = [s.rhs for s in function.ssa.statements if isinstance(s.rhs, Recurrence)]
        return len(loop.starts)

    @tensor
    def otherwise(a, x):
        h = x[0]
        seen, doubled = [a], []
        for k in range(1, len(x)):
            h = a * h + x[k]
            seen.append(h)
            doubled.append(2 * h)
        return sum(seen[t] * x[t] for t in range(len(x))) + sum(
            doubled[t] for t in range(len(x) - 1)
        )

    @tensor
    def scaled(x, s):
        return s * np.sum(np.cumsum(np.sin(x)))

    x = normal(6)
    found = scaled.grad("x")(x, 2.0)  # what is due to each entry of the history is one number
    np.testing.assert_allclose(found, 2 * np.arange(6, 0, -1) * np.cos(x))
    whole = tensor(trajectory)
    whole(0.5, x)
    assert carried(whole) == 1
    np.testing.assert_allclose(otherwise(0.5, x), otherwise.python(0.5, x))
    assert carried(otherwise) == 2


def test_that_a_loop_carries_values_is_decided_by_the_error_not_its_text(monkeypatch):
    @tensor
    def f(x):
        h, total = 0.0, 0.0
        for v in x:
            h = np.tanh(h + v)
            total += h
        return total

    made = UnreadableValue.__init__
    monkeypatch.setattr(UnreadableValue, "__init__", lambda self, *_: made(self, "no", "value"))
    x = normal(40)
    assert f.interpret(x) == pytest.approx(f.python(x))
