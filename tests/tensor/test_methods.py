"""Tensor functions as methods, and gradients of a scalar that comes with other results."""

import pickle

import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor

X = np.array([1.0, 2.0, 3.0])


class Model:
    def __init__(self, w):
        self.w = w

    @tensor
    def loss(self, x):
        return np.sum(self.w * x**2)

    @tensor
    def twice(self, x):
        return 2 * self.loss(x)


def test_a_method_is_called_for_its_object():
    one, two = Model(np.ones(3)), Model(np.arange(3.0))
    assert (one.loss(X), two.loss(X), two.twice(x=X)) == (14, 22, 44)
    one.w = np.zeros(3)
    assert one.loss(X) == 0
    assert Model.loss(two, X) == 22


def test_derivatives_of_a_method_are_methods():
    model = Model(np.arange(3.0))
    np.testing.assert_allclose(model.loss.grad("x")(X), [0, 4, 12])
    np.testing.assert_allclose(model.loss.grad("x").jvp("x")(X, np.ones(3)), [0, 2, 4])
    np.testing.assert_allclose(
        model.twice.hessian("x", format="csr")(X).toarray(), np.diag([0, 4, 8])
    )
    assert model.loss.cost(X) == Model.loss.cost(model, X)
    assert model.loss.debug(X) == 22


def test_a_method_says_what_it_is():
    model = Model(X)
    assert "loss(self, x)" in repr(model.loss)
    with pytest.raises(TensorError, match="missing a required argument: 'x'"):
        model.loss()


@tensor
def loss_and_more(w, x):
    p = x @ w
    loss = np.sum(p**2)
    return loss, {"p": p, "parts": (loss, w[0])}


W, A = np.array([1.0, 2.0]), np.arange(6.0).reshape(3, 2)
EXPECTED = 2 * A.T @ (A @ W)


def test_a_gradient_gives_what_the_function_gives_beside_the_scalar():
    gradient, aux = loss_and_more.grad("w", has_aux=True)(W, A)
    np.testing.assert_allclose(gradient, EXPECTED)
    np.testing.assert_allclose(aux["p"], A @ W)
    (value, again), (by_w, by_x) = loss_and_more.value_and_grad("w", "x", has_aux=True)(W, A)
    np.testing.assert_allclose(by_w, EXPECTED)
    np.testing.assert_allclose(by_x, 2 * np.outer(A @ W, W))
    assert value == again["parts"][0] == loss_and_more(W, A)[0]
    assert again["parts"][1] == 1


def test_it_costs_no_more_than_value_and_gradient():
    @tensor
    def alone(w, x):
        return np.sum((x @ w) ** 2)

    without = alone.value_and_grad("w").cost(W, A).total
    assert loss_and_more.value_and_grad("w", has_aux=True).cost(W, A).total == without


def test_it_can_be_pickled():
    kept = pickle.loads(pickle.dumps(loss_and_more.grad("w", has_aux=True)))
    np.testing.assert_allclose(kept(W, A)[0], EXPECTED)


def test_what_returns_no_pair_has_nothing_beside_its_value():
    with pytest.raises(TensorError, match=r"return loss, aux"):
        Model.loss.grad("x", has_aux=True)(Model(X), X)
    with pytest.raises(TensorError, match=r"has_aux=True"):
        loss_and_more.grad("w")(W, A)


def test_a_bound_method_is_made_one():
    loss = tensor(Plain().loss)
    assert loss(X) == 12
    np.testing.assert_allclose(loss.grad("x")(X), [2, 2, 2])


class Plain:
    rate = 2.0

    def loss(self, x):
        return self.rate * np.sum(x)
