"""Python's own forms, as one writes them: loops that add up, branches, inner functions, and models'
parameters. Undecorated, each gives the same numbers.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_statements
import scipy.linalg

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.jax.precision import keeping_float64

R = np.random.default_rng(0)
x, y, w = R.uniform(0.5, 1.5, 5), R.uniform(0.5, 1.5, 5), R.uniform(0.5, 1.5, 4)
A, M = R.uniform(0.5, 1.5, (5, 4)), R.uniform(0.5, 1.5, (5, 5))
CASES = []


def case(*arguments):
    def enter(function):
        CASES.append((function, arguments))
        return function

    return enter


class Layer(NamedTuple):
    w: Any
    b: Any


@dataclass
class Model:
    w: Any
    b: Any


@case(x)
def forv(x):
    return sum(v * v for v in x)


@case(x, y)
def zipped(x, y):
    return sum(a * b for a, b in zip(x, y))


@case(x, y)
def enum(x, y):
    return [v * y[i] for i, v in enumerate(x)]


@case(x)
def rev(x):
    return [v for v in reversed(x)]


@case(A)
def rows(A):
    return [sum(row) for row in A]


@case(A)
def rows2(A):
    return sum(v for row in A for v in row if v > 0.8)


@case(x)
def loop(x):
    s = 0
    for v in x:
        s += v**2
    return s


@case(x)
def loopn(x):
    s = 0.0
    for i in range(len(x)):
        s = s + x[i]
        if i > 1:
            s -= x[i] * x[0]
    return s / len(x)


@case(x)
def app(x):
    y = []
    for i in range(len(x)):
        t = x[i] * 2
        y.append(t * t)
    return np.array(y)


@case(A)
def fill(A):
    n, m = A.shape
    y = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            y[i, j] = A[i, j] * 2
    return y


@case(A, w)
def matvec(A, w):
    n, m = A.shape
    y = np.zeros(n)
    for i in range(n):
        acc = 0.0
        for j in range(m):
            acc += A[i, j] * w[j]
        y[i] = acc
    return y


@case(A, w)
def matvec2(A, w):
    n, m = A.shape
    y = np.zeros(n)
    for i in range(n):
        for j in range(m):
            y[i] += A[i, j] * w[j]
    return y


@case(x)
def stencil(x):
    n = len(x)
    y = x.copy()
    for i in range(1, n - 1):
        y[i] = x[i - 1] - 2 * x[i] + x[i + 1]
    return y


@case(x)
def ifs(x):
    s = 0
    for i in range(len(x)):
        if i < 2:
            w = 3 * x[i]
        else:
            w = x[i] * x[i]
        s += w
    return s


@case(x)
def ifdata(x):
    s = 0
    for v in x:
        if v > 1:
            s += v
        else:
            s -= 2 * v
    return s


@case(x)
def huber(x):
    def h(r, d=1.0):
        if abs(r) <= d:
            return 0.5 * r * r
        return d * (abs(r) - 0.5 * d)

    return sum(h(v - 1, d=0.2) for v in x)


@case(x)
def lam(x):
    f = lambda v, k=2: k * v * v
    return sum(f(v) for v in x) + f(x[0], k=3)


@case(x)
def early(x):
    n = len(x)
    if n > 3:
        return x[0]
    return x[1]


@case(x)
def star(x):
    a, *b = x
    return a * b[0] - b[-1]


@case((x[0], (x[1], x[2])))
def nested(p):
    a, (b, c) = p
    return a * b - c


@case({"w": A, "b": x}, w)
def dicts(p, w):
    return np.sum((p["w"] @ w + p["b"]) ** 2)


@case(Layer(A, x), w)
def named(p, w):
    return np.sum((p.w @ w + p.b) ** 2)


@case(Model(A, x), w)
def datac(p, w):
    return np.sum((p.w @ w + p.b) ** 2)


@case([(A, x), (M, y), (R.uniform(0.5, 1.5, (3, 5)), x[:3])], w)
def mlp(params, v):
    for W, b in params:
        v = np.tanh(W @ v + b)
    return v


@case([(A, x), (M, y), (R.uniform(0.5, 1.5, (3, 5)), x[:3])], w)
def mlp2(params, v):
    *hidden, (W, b) = params
    for U, c in hidden:
        v = np.tanh(U @ v + c)
    return W @ v + b


@case(x)
def newton(x):
    y = x
    for _ in range(3):
        y = 0.5 * (y + x / y)
    return y


@case(x)
def ol(x):
    s = x * 2
    return s @ x


@case(x)
def aug(x):
    x = x * 1
    x += 1
    x *= 2
    return x


@case(x, A)
def calls(x, A):
    def norm(v, axis=None):
        return np.sqrt(np.sum(v**2, axis=axis))

    args = (A,)
    return norm(x) + norm(*args, axis=1)


@case(x)
def arr(x):
    n = len(x)
    t = np.arange(n) / n
    return np.sum(x * t) + sum(i * v for i, v in enumerate(x))


@case(x)
def mask(x):
    i = np.arange(len(x))
    return np.where(i[:, None] <= i, np.outer(x, x), 0)


@case(x)
def slices(x):
    y = np.zeros(len(x) + 2)
    y[1:-1] = x
    y[0] = x[0]
    y[-1] = x[-1]
    return y[2:] - y[:-2]


@case(x)
def prodloop(x):
    p = 1
    for v in x:
        p *= v
    return p


@case(x)
def mx(x):
    return max(v * 2 for v in x) - min(x)


@case(A)
def genexp(A):
    return np.array([np.sum(row**2) for row in A]) @ np.ones(A.shape[0])


@case(x)
def horner(x):
    y = 0.0
    for v in x:
        y *= 0.5
        y += v
    return y


@case(x)
def discounted_in_branches(x):
    s = 1.0
    for i in range(len(x)):
        if x[i] > 1:
            s *= x[i]
        else:
            s += x[i]
    return s


@case(x)
def entries_then_all(x):
    y = np.ones(len(x))
    for i in range(len(x)):
        y[i] = x[i]
        y *= 0.5
    return y


@case(x)
def held_at_both_ends(x):
    u = x * 1.0
    u[0] = u[-1] = s = x[1]
    return u * s


@case(x)
def list_plus_list_in_a_loop(x):
    parts = []
    for i in range(len(x)):
        parts = parts + [x[i] ** 2]
    return np.array(parts)


@case(M)
def factors_as_scipy_has_them(M):
    return scipy.linalg.qr(M[:, :3])[1]


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_the_value_is_python_s(function, arguments):
    f = tensor(function)
    expected = function(*arguments)
    found = f.interpret(*arguments)
    np.testing.assert_allclose(np.asarray(found, dtype=float), np.asarray(expected), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("function", "arguments"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_the_kernel_s_is_too(function, arguments):
    expected = function(*arguments)
    np.testing.assert_allclose(tensor(function)(*arguments), np.asarray(expected), rtol=1e-5)


def loss(params, v):
    for W, b in params:
        v = np.tanh(W @ v + b)
    return np.sum(v**2)


def test_a_gradient_has_the_shape_of_its_parameters():
    f = tensor(loss)
    params = [Layer(A, x), Layer(R.uniform(0.5, 1.5, (3, 5)), x[:3])]
    found = f.grad("params").interpret(params, w)
    assert isinstance(found, list)
    assert all(isinstance(layer, Layer) for layer in found)
    assert [layer.w.shape for layer in found] == [(5, 4), (3, 5)]

    @tensor
    def energy(p):
        return np.sum(p["a"] ** 2) * p["s"]

    found = energy.grad("p").interpret({"a": x, "s": 2.0})
    assert list(found) == ["a", "s"]
    np.testing.assert_allclose(found["a"], 4 * x)
    model = tensor(lambda_free).grad("m").interpret(Model(A, x), w)
    assert isinstance(model, Model)
    np.testing.assert_allclose(model.b, np.ones(5))
    kernel = tensor(lambda_free).grad("m")(Model(A, x), w)
    assert isinstance(kernel, Model)


def lambda_free(m, v):
    return np.sum(m.w @ v + m.b)


def test_a_dictionary_of_other_keys_is_another_type():
    @tensor
    def f(p):
        return sum(np.sum(v) * len(p) for v in p.values())

    assert f.interpret({"a": x, "b": y}) == pytest.approx(2 * (x.sum() + y.sum()))
    assert f.interpret({"c": y, "d": x}) == pytest.approx(2 * (x.sum() + y.sum()))

    @tensor
    def g(p):
        return np.sum(p["a"])

    assert g.interpret({"a": x, "b": y}) == pytest.approx(x.sum())
    assert g.interpret({"b": y, "a": x}) == pytest.approx(x.sum())
    with pytest.raises(TensorError, match="no part 'a'"):
        g.interpret({"c": x, "b": y})


def test_accumulating_costs_what_a_sum_does():
    @tensor
    def looped(x):
        s = 0
        q = 0
        for v in x:
            t = v * v
            s += t
            q += t * v
        return s, q

    # n for t, n for t·v, n - 1 additions each, and one to the start each.
    assert looped.cost(x).total == 5 + 5 + 4 + 4 + 2


def test_gradients_through_loops_and_branches_are_those_of_jax():
    def huber(x, y):
        total = 0.0
        for a, b in zip(x, y):
            r = a - b
            if abs(r) < 0.3:
                total += 0.5 * r * r
            else:
                total += 0.3 * abs(r) - 0.045
        return total

    def direct(x, y):
        r = x - y
        return jnp.sum(jnp.where(abs(r) < 0.3, 0.5 * r * r, 0.3 * abs(r) - 0.045))

    f = tensor(huber)
    np.testing.assert_allclose(f.interpret(x, y), huber(x, y))
    with keeping_float64(True):
        np.testing.assert_allclose(f.grad("x").interpret(x, y), jax.grad(direct)(x, y), atol=1e-12)


def test_random_loops_that_change_names_agree_with_python(tmp_path):
    """All sums were made before all products: `s *= a`, then `s += b`."""
    assert random_statements.taken(range(200), tmp_path) > 180


def _swapped_in_a_tuple(x):
    y = x * 1.0
    (y[0], y[1]), z = (y[1], y[0]), 1.0
    return y * z


def _in_a_part(M):
    N = M * 1.0
    N[1:][0] = 5.0
    return N


def _polynomial(x, y):
    return np.polynomial.polynomial.polyval(x, y)


def _columns_chosen(M, m):
    return M[:, m].sum(0)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (_columns_chosen, (M, np.arange(5) > 2), "along one axis of several"),
        (_swapped_in_a_tuple, (x,), "a tuple of targets that is in another"),
        (_in_a_part, (M,), "a part of a part"),
        (_polynomial, (x, y), "not in the tensor language"),
    ],
)
def test_what_numpy_reads_otherwise_is_refused(function, arguments, message):
    with pytest.raises(TensorError, match=message):
        tensor(function)(*arguments)


def test_a_function_that_has_another_name_since():
    def squares(x):
        return np.sum(x**2)

    squares.__name__ = "energy"
    assert tensor(squares)(np.ones(3)) == 3
