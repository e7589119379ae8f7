"""Linear systems, factors and determinants in JAX's own way, by functions of whole arrays; what they are is said by loops, with
which they are compared.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import of_jax
import pytest
from public_functions import draw

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.backend import kernel
from jupyter_hvd.tensor.jax.precision import keeping_float64
from jupyter_hvd.tensor.lowering.choices import DENSE, MODEL

CASES = []


def case(*arguments):
    def enter(function):
        CASES.append(pytest.param(function, arguments, id=function.__name__))
        return function

    return enter


def definite(n, *batch):
    m = draw(*batch, n, n)
    return m @ np.swapaxes(m, -1, -2) + 2 * np.eye(n)


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


@case(definite(4), draw(4, 3))
def triangles(A, B):
    L = np.linalg.cholesky(A)
    return np.sum(np.linalg.inv(L) @ B) + np.linalg.slogdet(A + B @ B.T)[1] * np.linalg.det(A)


@case(definite(4), draw(4))
def of_a_row_and_of_numbers(A, b):
    """What is read at constants alone would be an array of its own for each row."""
    return np.sum(np.linalg.solve(A, b * b[0])[1:]) + b[0] * b[1] * b[2] * b[3]


def prepared(function, *arguments):
    call = function.specialised(*arguments)
    made = kernel(call.instance, call.sizes, call.constants)
    return made, made.operands(tuple(call.arguments.values()))


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_both_ways_are_the_function(function, arguments):
    """The loops, which XLA compiles long, of two programs."""
    ways = [MODEL, DENSE] if function in (several_at_once, triangles) else [DENSE]
    names = list(inspect.signature(function).parameters)
    f = tensor(function)
    with keeping_float64(True), pytest.MonkeyPatch.context() as patch:
        patch.setitem(function.__globals__, "np", jnp)
        inputs = [jnp.asarray(a) for a in arguments]
        expected = of_jax.gradients(function, range(len(names)), inputs)
        patch.undo()
        np.testing.assert_allclose(f(*arguments), function(*arguments), rtol=1e-9)
        made, operands = prepared(f.grad(*names), *arguments)
        assert made.by_model(operands) == DENSE
        for choices in ways:
            plan = made.compile(made.counts(operands), made.dtype(operands), choices)
            found = jax.tree_util.tree_leaves(made.executed(plan, operands))
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def primitives(function, *arguments):
    return str(jax.make_jaxpr(function.jax)(*arguments))


def test_no_loop_is_left():
    """In the gradient either; JAX's loops apart, which are inside of its functions."""
    A, b = definite(4).astype(np.float32), draw(4).astype(np.float32)
    gradient = tensor(of_a_row_and_of_numbers).grad("A", "b")
    gradient(A, b)
    made, _ = prepared(gradient, A, b)
    assert "lu" in primitives(gradient, A, b)
    assert made.plain.reason == ""
    assert "iterate" not in str(made.plain.body)


def test_costs_and_programs_are_those_of_the_loops():
    """The note is nothing that is computed."""

    @tensor
    def solved(A: 'Float[Array, "3 3"]', b: 'Float[Array, "3"]'):  # noqa: F821, F722
        return np.sum(np.linalg.solve(A, b))

    assert "whole_" not in str(solved.program)
    assert "whole_" not in str(solved.grad("A").program)
    assert "whole_" not in str(solved.grad("A").instance.differentiable)


def test_what_jax_has_no_function_for_is_computed_by_the_loops():
    """Of half precision, and under a condition of the turn, where a matrix might be singular."""
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
    made, _ = prepared(outer.grad("A"), A, b)
    assert made.plain.has_whole_functions
    with keeping_float64(True):
        np.testing.assert_allclose(
            outer.grad("A")(A, b),
            jax.grad(lambda A: jnp.sum(jnp.linalg.solve(A, b) ** 2))(A),
            rtol=1e-7,
        )
