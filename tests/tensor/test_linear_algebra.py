"""Linear systems and decompositions: each definition against its equation, its derivatives against JAX's to the second order, and
programs that use them.
"""

import inspect

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import mpmath
import numpy as np
import of_jax
import pytest
import scipy.linalg
from public_functions import draw

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.derivative import linear_algebra, sorting
from jupyter_hvd.tensor.jax.backend import kernel
from jupyter_hvd.tensor.jax.definitions import FUNCTIONS
from jupyter_hvd.tensor.jax.precision import keeping_float64
from jupyter_hvd.tensor.language.definition import Definition
from jupyter_hvd.tensor.lowering.choices import DENSE, MODEL
from jupyter_hvd.tensor.lowering.ir import Whole

DEFINITIONS = {d.name: d for d in vars(linear_algebra).values() if isinstance(d, Definition)}
SORTING = {d.name for d in vars(sorting).values() if isinstance(d, Definition)}


def definite(n, *batch):
    m = draw(*batch, n, n)
    return m @ np.swapaxes(m, -1, -2) + 2 * np.eye(n)


def operands(definition, n=4):
    """Matrices that it takes, the factors of the first among them."""
    first = definite(n) + (0 if definition.name == "eigh" else np.triu(draw(n, n)))
    if definition.ranks == (2,):
        return [first]
    if definition.name in ("solve_lower", "solve_upper", "expm_along"):
        return [first, draw(n, n)]
    factors = linear_algebra.FACTORS.compute(first)
    return [first, factors, draw(n, 2)][: len(definition.ranks)]


@pytest.mark.parametrize("norm", [5.2, 8, 10.5, 20, 42])
def test_an_exponential_is_exact_to_rounding(norm):
    """JAX's own loses half of the digits where the norm is a little below twice what it approximates."""
    A = draw(4, 4) ** 2
    A = A / A.sum(0).max() * norm
    with keeping_float64(True):
        found = jax.jit(FUNCTIONS["expm"])(A)
    np.testing.assert_allclose(found, exact_exponential(A), rtol=1e-11)


def exact_exponential(A):
    with mpmath.workdps(40):
        return np.array(mpmath.expm(mpmath.matrix(A.tolist())).tolist(), dtype=float)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in SORTING])
def test_kernels_are_the_definition(name):
    """Of each matrix of a batch."""
    definition = DEFINITIONS[name]
    one, two = operands(definition), operands(definition)
    two[0] = two[0] * 1.5
    if "factors" in inspect.signature(FUNCTIONS[name]).parameters:
        two[1] = linear_algebra.FACTORS.compute(two[0])
    with keeping_float64(True):
        both = jax.jit(FUNCTIONS[name])(*map(jnp.stack, zip(one, two, strict=True)))
    for found, arrays in zip(both, (one, two), strict=True):
        np.testing.assert_allclose(found, definition.compute(*arrays), rtol=1e-9, atol=1e-9)


def test_all_that_have_no_body_have_a_kernel():
    assert {*FUNCTIONS} - SORTING == {name for name, d in DEFINITIONS.items() if d.body is None}
    assert {*FUNCTIONS} >= SORTING


A, S, B = draw(5, 5) + 3 * np.eye(5), definite(5), draw(5, 2)
TALL, W = draw(6, 3), draw(6, 6)

#: Programs whose value does not depend on the signs of vectors, in NumPy and in JAX at once.
PROGRAMS = {
    "solve": (lambda np, A: np.sum(np.linalg.solve(A, B) ** 2), A),
    "inv": (lambda np, A: np.sum(np.linalg.inv(A) * W[:5, :5]), A),
    "det": (lambda np, A: np.linalg.det(A), A),
    "slogdet": (lambda np, A: np.linalg.slogdet(A)[0] * np.linalg.slogdet(A)[1], A),
    "cholesky": (lambda np, A: np.sum(np.linalg.cholesky(A) * W[:5, :5]), S),
    "lower": (lambda np, A: np.sum(jax.scipy.linalg.solve_triangular(A, B, lower=True) ** 2), A),
    "upper": (lambda np, A: np.sum(jax.scipy.linalg.solve_triangular(A, B) ** 2), A),
    "qr": (
        lambda np, A: np.sum(np.linalg.qr(A)[0] * W[:, :3]) + np.sum(np.linalg.qr(A)[1] ** 3),
        TALL,
    ),
    "eigh": (
        lambda np, A: np.sum(
            np.linalg.eigh(A)[0] * W[0, :5] + (np.linalg.eigh(A)[1] ** 2) @ W[1, :5]
        ),
        S,
    ),
    "eigvalsh": (lambda np, A: np.sum(np.linalg.eigvalsh(A) ** 3), S),
    "svd": (
        lambda np, A: (
            np.sum(np.linalg.svd(A, full_matrices=False)[0] ** 2 @ W[:3, :3])
            + np.sum(np.linalg.svd(A, full_matrices=False)[2] ** 2 @ W[3:, :3])
            + np.sum(np.linalg.svd(A, full_matrices=False)[1] ** 3)
        ),
        TALL,
    ),
    "nuclear": (lambda np, A: np.linalg.norm(A, "nuc"), TALL),
    "spectral": (lambda np, A: np.linalg.norm(A, 2), TALL),
    "pinv": (lambda np, A: np.sum(np.linalg.pinv(A) * W[:3]), TALL),
    "expm": (lambda np, A: np.sum(jax.scipy.linalg.expm(A / 3) * W[:5, :5]), A),
}


THOROUGH = ("eigvalsh", "spectral", "upper", "slogdet", "pinv")  # of which others are like


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=[pytest.mark.thorough] if x in THOROUGH else []) for x in PROGRAMS],
)
def test_derivatives_to_the_second_order_are_those_of_jax(name):
    program, x = PROGRAMS[name]
    v = draw(*x.shape)

    @tensor
    def f(A):
        return program(np, A)

    def direct(A):
        return program(jnp, A)

    def second(A):
        return jax.jvp(jax.grad(direct), (A,), (v,))

    with keeping_float64(True):
        value, (gradient, moved) = jax.jit(lambda A: (direct(A), second(A)))(jnp.asarray(x))
        both = f.value_and_grad("A")(x)
        by_jax = jax.jit(jax.grad(f.jax))(jnp.asarray(x))
        forwards, backwards = f.grad("A").jvp("A")(x, v), f.grad("A").vjp("A")(x, v)
    np.testing.assert_allclose(both[0], value, rtol=1e-10)
    for found in (both[1], by_jax):
        np.testing.assert_allclose(found, gradient, rtol=1e-8, atol=1e-9 * np.abs(gradient).max())
    for found in (forwards, backwards):
        np.testing.assert_allclose(found, moved, rtol=1e-7, atol=1e-8 * np.abs(moved).max())


def test_what_does_not_depend_on_the_choice_has_a_derivative_where_values_are_equal():
    @tensor
    def powers(A):
        return np.sum(np.linalg.eigvalsh(A) ** 3)

    @tensor
    def nuclear(A):
        return np.linalg.norm(A, "nuc")

    with keeping_float64(True):
        np.testing.assert_allclose(powers.grad("A")(2 * np.eye(3)), 12 * np.eye(3), atol=1e-12)
        np.testing.assert_allclose(nuclear.grad("A")(np.eye(3)), np.eye(3), atol=1e-12)


CASES = []


def case(*arguments):
    def enter(function):
        CASES.append(pytest.param(function, arguments, id=function.__name__))
        return function

    return enter


@case(draw(12, 2), draw(12), np.float64(0.7))
def gaussian_process(X, y, width):
    squares = np.sum((X[:, None, :] - X[None, :, :]) ** 2, axis=2)
    K = np.exp(-squares / width**2) + 0.1 * np.eye(len(y))
    L = np.linalg.cholesky(K)
    return 0.5 * y @ np.linalg.solve(K, y) + np.sum(np.log(np.diagonal(L)))


@case(draw(6, 3), definite(3), definite(3), draw(3, 3))
def kalman_filter(ys, Q, R, F):
    m, P, total = np.zeros(3), np.eye(3), 0.0
    for t in range(len(ys)):
        m, P = F @ m, F @ P @ F.T + Q
        S, v = P + R, ys[t] - m
        K = np.linalg.solve(S, P).T
        sign, log = np.linalg.slogdet(S)
        total = total + v @ np.linalg.solve(S, v) + sign * log
        m, P = m + K @ v, P - K @ S @ K.T
    return total


@case(definite(4, 5), draw(5, 4))
def several_at_once(A, b):
    return sum(np.sum(np.linalg.solve(A[k], b[k]) ** 2) for k in range(len(b)))


@case(definite(4, 5), draw(5, 4, 2))
def a_batch(A, b):
    return np.sum(np.linalg.solve(A, b) ** 2) + np.sum(np.linalg.inv(A)) + np.sum(np.linalg.det(A))


@case(definite(4), draw(4, 3))
def triangles(A, B):
    L = np.linalg.cholesky(A)
    return np.sum(np.linalg.inv(L) @ B) + np.linalg.slogdet(A + B @ B.T)[1] * np.linalg.det(A)


@case(definite(4), draw(4))
def of_a_row_and_of_numbers(A, b):
    return np.sum(np.linalg.solve(A, b * b[0])[1:]) + b[0] * b[1] * b[2] * b[3]


def prepared(function, *arguments):
    call = function.specialised(*arguments)
    made = kernel(call.instance, call.sizes, call.constants)
    return made, made.operands(tuple(call.arguments.values()))


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_both_ways_are_the_function(function, arguments):
    names = list(inspect.signature(function).parameters)
    f = tensor(function)
    with keeping_float64(True), pytest.MonkeyPatch.context() as patch:
        patch.setitem(function.__globals__, "np", jnp)
        inputs = [jnp.asarray(a) for a in arguments]
        expected = of_jax.gradients(function, range(len(names)), inputs)
        patch.undo()
        np.testing.assert_allclose(f(*arguments), function(*arguments), rtol=1e-9)
        made, operands = prepared(f.grad(*names), *arguments)
        for choices in (MODEL, DENSE):
            plan = made.compile(made.counts(operands), made.dtype(operands), choices)
            found = jax.tree_util.tree_leaves(made.executed(plan, operands))
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_a_matrix_that_is_factored_once():
    """The gradient of `solve` reads the factors of the value; nothing is a loop, also where something stands beside it."""

    @tensor
    def f(d, e, b):
        n = len(d)
        A = np.zeros((n, n))
        for i in range(n):
            A[i, i] = d[i]
        for i in range(1, n):
            A[i, i - 1] = e[i]
        return np.sum(np.linalg.solve(A, b) ** 2) + np.sum(A[~np.eye(n, dtype=bool)] ** 2)

    arguments = draw(6) + 3, draw(6), draw(6)
    made, operands = prepared(f.value_and_grad("d", "e", "b"), *arguments)
    steps = [s.action for s in made.plan(operands).steps]
    used = [a.definition.name for a in steps if isinstance(a, Whole)]
    assert sorted(used) == ["factors", "solve", "solve_transposed"]
    assert not any(a.loops for a in steps)


def test_what_nobody_asks_for_is_not_computed():
    """Of singular values the gradient is `U V.T`: nothing is due to vectors."""

    @tensor
    def nuclear(A):
        return np.linalg.norm(A, "nuc")

    made, operands = prepared(nuclear.grad("A"), TALL)
    assert len(made.plan(operands).steps) < 12


def test_costs_are_those_of_textbooks():
    @tensor
    def solved(A: 'Float[Array, "n n"]', b: 'Float[Array, "n"]'):  # noqa: F821, F722
        return np.linalg.solve(A, b)

    @tensor
    def factor(A: 'Float[Array, "n n"]'):  # noqa: F821, F722
        return np.linalg.cholesky(A)

    assert str(solved.cost_formula()).startswith("2*n**3/3 + ")
    assert str(factor.cost_formula()).startswith("n**3/3 + ")


def test_half_precision_and_conditions_of_a_loop():
    """Under a condition of the turn a matrix might be singular."""
    A, b = definite(3), draw(3)

    @tensor
    def solved(A, b):
        return np.sum(np.linalg.solve(A, b))

    found = solved(A.astype(np.float16), b.astype(np.float16))
    np.testing.assert_allclose(found, np.sum(np.linalg.solve(A, b)), rtol=0.05)

    @tensor
    def later(A, b):
        total = 0.0
        for i in range(4):
            total = total + (np.sum(np.linalg.solve(A * i, b)) if i > 0 else 0.0)
        return total

    expected = sum(np.sum(np.linalg.solve(A * i, b)) for i in range(1, 4))
    np.testing.assert_allclose(later(A, b), expected, rtol=1e-5)
    assert np.all(np.isfinite(later.grad("A")(A, b)))


def test_of_a_function_of_the_languages_within_another():
    @tensor
    def inner(A, b):
        return np.linalg.solve(A, b)

    @tensor
    def outer(A, b):
        return np.sum(inner(A, b) ** 2)

    A, b = definite(4), draw(4)
    with keeping_float64(True):
        np.testing.assert_allclose(
            outer.grad("A")(A, b),
            jax.grad(lambda A: jnp.sum(jnp.linalg.solve(A, b) ** 2))(A),
            rtol=1e-7,
        )


def test_sizes_that_do_not_go_together():
    @tensor
    def solved(A, b):
        return np.linalg.solve(A, b)

    with pytest.raises(TensorError):
        solved(np.ones((3, 4)), np.ones(3))
    with pytest.raises(TensorError):
        solved(np.ones((3, 3)), np.ones(4))


def test_of_scipy():
    @tensor
    def f(A):
        return np.sum(scipy.linalg.expm(A)) + np.sum(scipy.linalg.cholesky(A, lower=True))

    S = definite(3) / 5
    expected = np.sum(scipy.linalg.expm(S)) + np.sum(scipy.linalg.cholesky(S, lower=True))
    with keeping_float64(True):
        np.testing.assert_allclose(f(S), expected, rtol=1e-10)
