"""Every program of the paper and the prototype: value, forward, adjoint, gradient and Hessian
against Python and JAX.
"""

import jax
import numpy as np
import pytest
from programs import CASES, Case

from jupyter_hvd.tensor.ssa import convert as ssa
from jupyter_hvd.tensor.ssa import simplify


def close(found, expected):
    jax.tree_util.tree_map(
        lambda a, b: np.testing.assert_allclose(
            np.asarray(a, float), np.asarray(b, float), rtol=1e-9, atol=1e-9
        ),
        found,
        expected,
    )


def positions(case: Case) -> list[int]:
    names = list(case.function.__signature__.parameters)
    return [names.index(name) for name in case.wrt]


def random_like(value, seed):
    rng = np.random.default_rng(seed)
    return jax.tree_util.tree_map(lambda leaf: rng.normal(size=np.shape(leaf)), value)


def is_scalar(case: Case) -> bool:
    return np.shape(case.function.interpret(*case.arguments)) == ()


def direct_of(case: Case):
    """The direct version as a function of the differentiated arguments alone."""
    places = positions(case)

    def direct(*chosen):
        arguments = list(case.arguments)
        for k, value in zip(places, chosen, strict=True):
            arguments[k] = value
        return case.direct(*arguments)

    return direct, tuple(case.arguments[k] for k in places)


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_value_is_that_of_plain_python(case):
    expected = case.function.python(*case.arguments)
    close(case.function.interpret(*case.arguments), expected)
    close(case.function(*case.arguments), expected)
    close(case.direct(*case.arguments), expected)


@every_case
def test_forward_derivative_is_that_of_jax(case):
    direct, chosen = direct_of(case)
    moved = random_like(chosen, 1)
    chosen = jax.tree_util.tree_map(np.asarray, chosen)
    _, expected = jax.jvp(direct, chosen, moved)
    jvp = case.function.jvp(*case.wrt)
    close(jvp.interpret(*case.arguments, *moved), expected)
    close(jvp(*case.arguments, *moved), expected)


@every_case
def test_adjoint_derivative_is_that_of_jax(case):
    direct, chosen = direct_of(case)
    value, pull = jax.vjp(direct, *chosen)
    dy = random_like(value, 2)
    expected = pull(jax.tree_util.tree_map(jax.numpy.asarray, dy))
    expected = expected[0] if len(case.wrt) == 1 else tuple(expected)
    vjp = case.function.vjp(*case.wrt)
    close(vjp.interpret(*case.arguments, dy), expected)
    close(vjp(*case.arguments, dy), expected)


@pytest.mark.parametrize("case", [c for c in CASES if c.name != "additions"], ids=lambda c: c.name)
def test_gradient_is_that_of_jax(case):
    direct, chosen = direct_of(case)
    expected = jax.grad(direct, tuple(range(len(chosen))))(*chosen)
    expected = expected[0] if len(case.wrt) == 1 else expected
    gradient = case.function.grad(*case.wrt)
    close(gradient.interpret(*case.arguments), expected)
    close(gradient(*case.arguments), expected)
    value, again = case.function.value_and_grad(*case.wrt)(*case.arguments)
    close(value, case.function.interpret(*case.arguments))
    close(again, expected)


@pytest.mark.parametrize("case", [c for c in CASES if c.hessian], ids=lambda c: c.name)
def test_hessian_is_that_of_jax(case):
    place = list(case.function.__signature__.parameters).index(case.hessian)
    expected = jax.jit(jax.hessian(case.direct, place))(*case.arguments)
    hessian = case.function.hessian(case.hessian)
    close(hessian.interpret(*case.arguments), expected)
    close(hessian(*case.arguments), expected)


@every_case
def test_derivatives_cost_at_most_four_times(case):
    spent = case.function.cost(*case.arguments)
    value = case.function.interpret(*case.arguments)
    dy = jax.tree_util.tree_map(np.ones_like, value)
    pulled = case.function.vjp(*case.wrt).cost(*case.arguments, dy)
    assert pulled.io <= 4 * spent.io
    moved = jax.tree_util.tree_map(np.ones_like, tuple(direct_of(case)[1]))
    pushed = case.function.jvp(*case.wrt).cost(*case.arguments, *moved)
    assert pushed.total <= 4 * spent.total


@every_case
def test_simplification_is_idempotent(case):
    case.function.interpret(*case.arguments)
    once = case.function.ssa
    assert str(simplify.simplify(once)) == str(once)
    assert ssa.to_term(once).type is not None
