"""Data that functions take from outside, arguments that are no tensors, and integers that programs compute with: values are
Python's, gradients as by differences.
"""

import dataclasses
import pickle
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import entering
from differences import check

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(1)
W, X, DATA = R.normal(size=3), R.normal(size=7), R.normal(size=(5, 3))
LABELS, NUMBERS, PAIRS = np.array([0, 1, 1, 0, 1]), [1.0, 2.0, 3.0], {(0, 1), (1, 2)}
MASK = LABELS > 0
K, Z = np.array([3, 0, 2, 5, 1, 4, 4]), np.array([1, 2, 0, 2, 2, 3, 1])
CASES = []
case = entering(CASES)


def squared(x, a=2.0):
    return a * x**2


@dataclasses.dataclass
class Settings:
    rate: float
    X: np.ndarray
    y: np.ndarray
    kind: str = "tanh"
    power: int = 2


class Model:
    def __init__(self):
        self.X, self.power = DATA, 2

    def predict(self, w):
        return self.X @ w

    def loss(self, w):
        return np.sum(self.predict(w) ** self.power)


MODEL = Model()


@case(W)
def of_globals(w):
    rows = np.where(MASK, DATA @ w, 0.5 * (DATA[:, 0] - w[0]))
    return np.sum(rows**2 * (LABELS == 1)) + sum(a * b for a, b in zip(NUMBERS, w, strict=True))


@case(W)
def loops_over_globals(w):
    s = 0.0
    for row, y in zip(DATA, LABELS, strict=True):
        s += (row @ w - y) ** 2
    for i in range(len(DATA)):
        for j in range(len(w)):
            if (i, j) in PAIRS:
                s += DATA[i, j] * w[j]
    return s


def with_closure(A):
    def quadratic(w):
        return w @ A @ w

    return quadratic


case(W)(with_closure(R.normal(size=(3, 3))))


@case(W)
def of_an_object(w):
    return MODEL.loss(w) + np.sum(MODEL.X @ w)


@case(W, None, "tanh", True, np.tanh)
def constants(w, mask, kind, train, activation):
    h = DATA @ w
    if kind == "relu":
        h = np.maximum(h, 0)
    elif kind == "tanh":
        h = activation(h)
    if mask is not None:
        h = h * mask
    return np.sum(h**2) if train else np.sum(h)


@case(W, partial(squared, a=0.5), squared)
def functions(w, first, second):
    return np.sum(first(DATA @ w)) + np.sum(second(w))


@case(W, {"rate": 0.1, "power": 3, "kind": "tanh", "X": DATA, "y": LABELS, "parts": [X, None]})
def dictionary(w, given):
    h = given["X"] @ w
    if given["kind"] == "tanh":
        h = np.tanh(h)
    part = given["parts"][0]
    return np.sum((h - given["y"]) ** 2) + given["rate"] * np.sum(w ** given["power"]) * part[1]


@case(W, Settings(0.1, DATA, LABELS))
def dataclass(w, given):
    return np.sum((given.X @ w - given.y) ** given.power) + given.rate * np.sum(w**2)


@case(X, K, Z)
def integers(x, k, z):
    s = np.sum(x * k) + np.sum(k) - np.sum(-k * x) + k.mean() * np.max(k) * x[0]
    s += np.sum(np.where(k >= 2, x, x**2)) + np.sum(x * (k > z)) + np.sum(x * (k == z))
    for i in range(len(x)):
        if k[i] >= 2 and z[i] % 2 == 0:
            s += k[i] * x[i] + x[k[i]] / (z[i] + 1)
        if z[i]:
            s += x[(k[i] * 2) % len(x)]
    return s


@case(X, K)
def integers_in_brackets(x, k):
    A = np.outer(x, x)
    return np.sum(x[k + 1] * x[1 + k - 1]) + np.sum(A[range(len(k)), k]) * int(np.floor(2.5))


@case(X, K)
def powers(x, k):
    return np.sum((x**2 + 1) ** k) + np.sum(np.exp(x) - k * x) + np.sum(x @ k)


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_value_and_gradient(function, arguments):
    check(function, arguments)


def test_data_from_outside_are_read_again():
    data = np.ones((4, 3))

    @tensor
    def loss(w):
        return np.sum((data @ w) ** 2)

    gradient = loss.grad("w")
    assert loss(np.ones(3)) == 36
    data[0] = 0  # in place
    assert loss(np.ones(3)) == 27
    np.testing.assert_allclose(gradient(np.ones(3)), 18)
    data = np.ones((2, 3))  # of another shape
    assert loss(np.ones(3)) == 18
    data = np.array([1, 1, 0])  # of another type and rank
    assert loss(np.ones(3)) == 4
    data = jnp.ones((1, 3))
    np.testing.assert_allclose(jax.jit(jax.grad(loss.jax))(jnp.ones(3)), 6)


def test_constants_are_looked_at_in_each_call():
    @tensor
    def powered(x, kind):
        return np.sum(x**2) if kind == "square" else np.sum(x)

    assert [powered(np.full(2, 3.0), kind) for kind in ("square", "plain", "square")] == [18, 6, 18]
    np.testing.assert_allclose(powered.grad(0)(np.full(2, 3.0), "square"), 6)
    MODEL.power = 3
    loss = tensor(lambda_free)
    cubed = loss(W)
    MODEL.power = 2
    np.testing.assert_allclose([cubed, loss(W)], [np.sum((DATA @ W) ** k) for k in (3, 2)])


def lambda_free(w):
    return MODEL.loss(w)


def test_a_call_like_one_before_is_not_checked_again(monkeypatch):
    data, given = np.ones((5, 3)), np.full(3, 2.0)

    @tensor
    def loss(w, kind, offset=None):
        h = data @ w
        return np.sum(h**2) if kind == "square" and offset is None else np.sum(h)

    gradient = loss.grad("w")
    first = loss(given, "square"), gradient(given, "square")
    monkeypatch.setattr(type(loss), "_resolve", None)
    data *= 2
    np.testing.assert_allclose(loss(given, "square"), 4 * first[0])
    np.testing.assert_allclose(gradient(given, "square"), 4 * first[1])


@tensor
def fitted(w):
    return np.sum((DATA @ w - LABELS) ** 2)


def test_derivatives_of_functions_with_data_in_other_functions():
    @tensor
    def penalised(w):
        return np.sum(fitted.grad("w")(w) ** 2) + fitted(w)

    slope = 2 * DATA.T @ (DATA @ W - LABELS)
    np.testing.assert_allclose(penalised(W), np.sum(slope**2) + fitted(W))
    expected = 4 * DATA.T @ DATA @ slope + slope
    np.testing.assert_allclose(penalised.grad("w")(W), expected)


def test_what_is_known_of_a_function_with_data():
    fitted(W)
    assert fitted.certify("w").largest_ratio <= 4
    np.testing.assert_allclose(fitted.interpret(W), fitted(W))
    np.testing.assert_allclose(pickle.loads(pickle.dumps(fitted.grad("w")))(W), fitted.grad(0)(W))
    np.testing.assert_allclose(jax.vmap(fitted.jax)(np.stack([W, W])), [fitted(W)] * 2)


def test_nothing_is_differentiated_by_what_is_no_tensor():
    f = tensor(dataclass)
    with pytest.raises(TensorError, match="`given` is not a real parameter"):
        f.grad("given")(W, Settings(0.1, DATA, LABELS))


def test_parameters_by_position():
    @tensor
    def loss(w, X, y):
        return np.sum((X @ w - y) ** 2)

    y = np.ones(5)
    np.testing.assert_array_equal(loss.grad(0)(W, DATA, y), loss.grad("w")(W, DATA, y))
    by_both = loss.value_and_grad(-1, "w")(W, DATA, y)[1]
    np.testing.assert_array_equal(by_both[0], loss.grad("y")(W, DATA, y))
    assert loss.hessian(0)(W, DATA, y).shape == (3, 3)
    with pytest.raises(TensorError, match="`loss` has no parameter `3`"):
        loss.grad(3)
    with pytest.raises(
        TensorError, match=r"(?s)names or positions, and this is ndarray.*grad\(\"w\"\)"
    ):
        loss.grad(W, DATA, y)
