"""`@f.derivative`: partial derivatives that a user writes, exact to every order, and compared with the function's own."""

import pickle

import jax
import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(5)
X, A, W = np.array([-1.0, 0.3, 2.0]), R.normal(size=(3, 3)), R.normal(size=(5, 3))


@tensor
def softplus(x):
    return np.log(1 + np.exp(x))


@softplus.derivative
def slope_of_softplus(x):
    return 1 / (1 + np.exp(-x))


@tensor
def quadratic(x, A):
    return x @ A @ x


@quadratic.derivative
def slopes_of_quadratic(x, A):
    return (A + A.T) @ x, np.outer(x, x)


@tensor
def waves(x, A):
    return np.sin(A @ x)


@waves.derivative
def slopes_of_waves(x, A):
    c = np.cos(A @ x)
    return c[:, None] * A, c[:, None, None] * np.eye(len(A))[:, :, None] * x


@tensor
def logistic(x):
    return 1 / (1 + np.exp(-x))


@logistic.derivative
def slope_of_logistic(x):
    s = logistic(x)
    return s * (1 - s)


def test_entry_by_entry_and_beyond_what_the_body_can():
    x = np.array([-1.0, 0.0, 800.0])
    for where in (X, x):
        np.testing.assert_allclose(softplus.vjp("x")(where, X), slope_of_softplus(where) * X)


def test_in_another_function_and_to_the_second_order():
    @tensor
    def loss(w, W):
        return np.sum(softplus(W @ w) ** 2)

    @tensor
    def plain(w, W):
        return np.sum(np.log(1 + np.exp(W @ w)) ** 2)

    np.testing.assert_allclose(loss(X, W), plain(X, W))
    for derive in ("grad", "hessian"):
        found, expected = (getattr(f, derive)("w")(X, W) for f in (loss, plain))
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_several_parameters():
    np.testing.assert_allclose(quadratic.grad("x")(X, A), (A + A.T) @ X)
    np.testing.assert_allclose(quadratic.grad("A")(X, A), np.outer(X, X))
    np.testing.assert_allclose(quadratic.hessian("x")(X, A), A + A.T)
    mixed = quadratic.grad("A").jvp("x")(X, A, np.ones(3))
    np.testing.assert_allclose(mixed, np.outer(X, np.ones(3)) + np.outer(np.ones(3), X))


def test_a_jacobian():
    for by in ("x", "A"):
        expected = jax.jacobian(lambda x, A: jax.numpy.sin(A @ x), "xA".index(by))(X, A)
        np.testing.assert_allclose(waves.jacobian(by, format="dense")(X, A), expected, atol=1e-12)


def test_what_it_calls_of_the_function_is_the_body():
    @tensor
    def total(x):
        return np.sum(logistic(x))

    s = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(total.grad("x")(X), s * (1 - s))
    np.testing.assert_allclose(np.diag(total.hessian("x")(X)), s * (1 - s) * (1 - 2 * s))
    np.testing.assert_allclose(jax.grad(total.jax)(X), s * (1 - s))
    np.testing.assert_allclose(jax.jit(total.grad("x").jax)(X), s * (1 - s))


def test_another_derivative_than_the_body_has_is_refused_unless_it_is_meant():
    @tensor
    def cube(x):
        return np.sum(x**3)

    @cube.derivative
    def _(x):
        return 2 * x**2

    for _ in range(2):
        with pytest.raises(TensorError, match=r"for `cube` gives .* that of the function itself"):
            cube.grad("x")(X)

    @tensor
    def rounded(x):
        return np.round(x)

    rounded.derivative(lambda x: np.ones_like(x), check=False)
    np.testing.assert_allclose(rounded.vjp("x")(X, X), X)
    np.testing.assert_allclose(rounded(X), np.round(X))


def test_what_is_no_derivative_is_refused():
    @tensor
    def total(x, A):
        return np.sum(A @ x)

    total.derivative(lambda x, A: np.sum(A, 0) + 0 * x)
    with pytest.raises(TensorError, match="one array for each real parameter: `x`, `A`"):
        total.grad("x")(X, A)
    total.derivative(lambda x, A: (x, A[0]))
    with pytest.raises(TensorError, match="`total` by `A` has 1 dimensions"):
        total(X, A)

    @tensor
    def pair(x):
        return np.sum(x), x

    pair.derivative(lambda x: x)
    with pytest.raises(TensorError, match="its result is a tuple"):
        pair(X)
    with pytest.raises(TensorError, match="is derived"):
        total.grad("x").derivative(slopes_of_quadratic)


def test_a_local_function_with_a_derivative_is_not_pickled():
    @tensor
    def half(x):
        return x / 2

    half.derivative(lambda x: 0.5 + 0 * x)
    with pytest.raises(pickle.PicklingError, match="pickled by its module"):
        pickle.dumps(half)


def test_a_derivative_that_is_entered_later_counts():
    @tensor
    def scaled(x):
        return 3 * x

    @tensor
    def total(x):
        return np.sum(scaled(x))

    np.testing.assert_allclose(total.grad("x")(X), 3.0)
    scaled.derivative(lambda x: 7 + 0 * x, check=False)
    np.testing.assert_allclose(total.grad("x")(X), 7.0)
