"""Second derivatives of smooth functions at points where a formula of theirs has a kink, and powers with whole exponents."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.jax.precision import keeping_float64

R = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def float64():
    with keeping_float64(True):
        yield


def derivatives(f, *args, by):
    """Value, gradient and Hessian, compiled and by the reference evaluator."""
    made = tensor(f)
    first, second = made.grad(by), made.hessian(by)
    for one, other in ((x(*args), x.interpret(*args)) for x in (made, first, second)):
        np.testing.assert_allclose(one, np.asarray(other, dtype=float), rtol=1e-12, atol=1e-15)
    return tuple(np.asarray(x(*args)) for x in (made, first, second))


def test_hessian_of_logistic_regression_at_zero():
    X, y = R.normal(size=(20, 3)), R.integers(0, 2, 20).astype(float)

    def loss(X, y, w):
        return np.mean(np.logaddexp(0, -(2 * y - 1) * (X @ w)))

    _, _, hessian = derivatives(loss, X, y, np.zeros(3), by="w")
    np.testing.assert_allclose(hessian, X.T @ X / 80, rtol=1e-12)


def softplus(x: float):
    return jax.nn.softplus(x)


def logaddexp(x: float):
    return np.logaddexp(x, 0)


def log_sigmoid(x: float):
    return -jax.nn.log_sigmoid(-x)


def square_of_abs(x: float):
    return np.abs(x) ** 2


def product_of_abs(x: float):
    a = abs(x)
    return a * a


def root_of_square_of_abs(x: float):
    return np.sqrt(np.abs(x) ** 2 + 1)


def even_power_of_abs(x: float):
    return np.abs(x) ** 2.0 + np.fabs(x) ** 6


def sinc(x: float):
    return np.sinc(x)


@pytest.mark.parametrize(
    ("f", "slope", "curvature"),
    [
        (softplus, 1 / 2, 1 / 4),
        (logaddexp, 1 / 2, 1 / 4),
        (log_sigmoid, 1 / 2, 1 / 4),
        (square_of_abs, 0, 2),
        (product_of_abs, 0, 2),
        (root_of_square_of_abs, 0, 1),
        (even_power_of_abs, 0, 2),
        (sinc, 0, -(np.pi**2) / 3),
    ],
)
def test_second_derivatives_at_zero(f, slope, curvature):
    _, first, second = derivatives(f, 0.0, by="x")
    np.testing.assert_allclose([first, second], [slope, curvature], atol=1e-14)


@pytest.mark.parametrize("x", [np.zeros(3), np.array([0.0, -2.0, 3.0])])
def test_squares_of_arrays_of_absolute_values(x):
    def f(x):
        a = np.abs(x - 1 + 1)
        return a @ a + np.sum(a**4) + np.sum(np.square(np.abs(x)))

    _, first, second = derivatives(f, x, by="x")
    np.testing.assert_allclose(first, 4 * x + 4 * x**3)
    np.testing.assert_allclose(second, np.diag(4 + 12 * x**2))


def test_fmod_at_zero():
    def f(x: float):
        return np.fmod(x, 2.0)

    _, first, _ = derivatives(f, 0.0, by="x")
    assert first == jax.grad(lambda x: jnp.fmod(x, 2.0))(0.0) == 1


def test_xlogy_at_zero():
    """Of a probability 0: finite by the other argument, and log(y), not 0, by its own."""

    def f(p, q):
        return np.sum(jax.scipy.special.xlogy(p, q))

    p, q = np.array([0.0, 1.0, 0.0]), np.array([0.5, 0.25, 0.0])
    made = tensor(f)
    np.testing.assert_allclose(made(p, q), np.log(0.25))
    np.testing.assert_allclose(made.grad("q")(p, q), [0, 4, 0])
    np.testing.assert_allclose(made.grad("p")(p[:2], q[:2]), np.log(q[:2]))


@pytest.mark.parametrize("x", [-1.0, 0.0, 0.5, 1.0, 2.0])
def test_interp_at_a_repeated_last_place(x):
    xp, fp = np.array([0.0, 1.0, 1.0]), np.array([1.0, 2.0, 5.0])

    def f(x: float, xp, fp):
        return np.interp(x, xp, fp)

    made = tensor(f)
    assert made(x, xp, fp) == np.interp(x, xp, fp)
    slope = jax.grad(jnp.interp)(x, xp, fp)
    assert made.grad("x")(x, xp, fp) == (slope if x else slope / 2)  # the middle, at a kink


# Powers with whole exponents


def polynomial(c, x: float):
    return sum(c[k] * x**k for k in range(len(c)))


def test_a_polynomial_by_powers_at_zero():
    c = np.array([3.0, -2.0, 5.0, 7.0, 1.0])
    value, first, second = derivatives(polynomial, c, 0.0, by="x")
    assert (value, first, second) == (3, -2, 10)
    third = tensor(polynomial).grad("x").grad("x").grad("x")
    assert third(c, 0.0) == third.interpret(c, 0.0) == 42
    np.testing.assert_array_equal(tensor(polynomial).grad("c")(c, 0.0), [1, 0, 0, 0, 0])


def test_discounted_returns_at_zero():
    def f(r, g: float):
        return sum(g**t * r[t] for t in range(len(r)))

    r = np.array([1.0, 2.0, 3.0, 4.0])
    assert derivatives(f, r, 0.0, by="g") == (1, 2, 6)


@pytest.mark.parametrize("k", range(5))
@pytest.mark.parametrize("x", [0.0, -1.5])
def test_exponents_that_are_integer_parameters(k, x):
    def f(x: float, k: int):
        return x**k

    wanted = (x**k, k * x ** max(k - 1, 0), k * (k - 1) * x ** max(k - 2, 0))
    np.testing.assert_allclose(derivatives(f, x, k, by="x"), wanted)


def test_exponents_that_are_data():
    def f(x, k):
        return np.sum(x**k)

    x, k = np.array([0.0, 0.0, 0.0, -2.0, 3.0]), np.array([0.0, 1.0, 2.0, 3.0, 0.5])
    wanted = np.array([0, 1, 0, 12, 0.5 * 3**-0.5])
    np.testing.assert_allclose(tensor(f).grad("x")(x, k), wanted)
    slopes = jax.grad(f)(jnp.asarray(x), k)[1:]  # of x**0.0 at 0 JAX has none
    np.testing.assert_allclose(wanted[1:], slopes)
    curvature = np.diag([0, 0, 2, -12, -0.25 * 3**-1.5])
    np.testing.assert_allclose(tensor(f).hessian("x")(x, k), curvature)


@pytest.mark.parametrize("n", [-3, -2, 5, 7])
def test_exponents_that_are_constants(n):
    def f(x: float):
        return x**n

    x = -1.3
    np.testing.assert_allclose(
        derivatives(f, x, by="x"), [x**n, n * x ** (n - 1), n * (n - 1) * x ** (n - 2)]
    )


# Functions that there were none of


def test_functions_by_their_names():
    import math

    import scipy.special

    def f(x: float):
        return (
            scipy.special.erfc(x)
            + math.erfc(x)
            + np.exp2(x)
            + math.fmod(x, 2)
            + np.logaddexp2(x, 1.0)
        )

    x = 0.7
    np.testing.assert_allclose(derivatives(f, x, by="x")[0], f(x))


def test_polygamma_takes_its_order_as_a_constant():
    def f(n: float, x: float):
        return jax.scipy.special.polygamma(n, x)

    with pytest.raises(TensorError, match="order as a constant"):
        tensor(f)(1.0, 2.0)

    def fifth(x: float):
        return jax.scipy.special.polygamma(5, x)

    np.testing.assert_allclose(tensor(fifth)(2.0), jax.scipy.special.polygamma(5, 2.0))


def chosen_of_two_arrays(x):
    return jnp.sum(jnp.where(x > 0, jnp.log(x), 0))


def chosen_by_an_if(x):
    return sum(np.log(v) if v > 0 else 0 for v in x)


def test_where_has_the_gradient_that_jax_has_and_an_if_none_of_the_other_branch():
    """As docs/writing.md says of `np.where(x > 0, np.log(x), 0)`."""
    x = np.array([0.0, 0.5, 2.0])
    gradient = tensor(chosen_of_two_arrays).grad("x")(x)
    np.testing.assert_allclose(gradient, jax.grad(chosen_of_two_arrays)(x))
    assert np.isnan(gradient[0])
    np.testing.assert_allclose(tensor(chosen_by_an_if).grad("x")(x), [0, 2, 0.5])
