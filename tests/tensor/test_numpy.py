"""Every line of docs/numpy.md: its value is NumPy's, its gradient that of `jax.grad`."""

import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.jax.precision import keeping_float64

ROOT = Path(__file__).parents[2]


def _page():
    spec = importlib.util.spec_from_file_location("numpy_page", ROOT / "scripts" / "numpy_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = _page()
CALLS = [call for calls in PAGE.CALLS.values() for call in calls]


@pytest.mark.parametrize("call", CALLS)
def test_value(call):
    f, arguments = PAGE.function(call), PAGE.arguments(PAGE.parameters(call))
    found = np.asarray(tensor(f).interpret(*arguments), dtype=float)
    expected = np.asarray(f(*arguments))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-6)


#: Each call is compiled alone and with its gradient: every sixth in `make test`, the others in `make test-thorough`.
COMPILED = [
    pytest.param(call, marks=[pytest.mark.thorough] if number % 6 else [])
    for number, call in enumerate(CALLS)
]


@pytest.mark.slow
@pytest.mark.parametrize("call", COMPILED)
def test_kernel_and_gradient(call):
    names = PAGE.parameters(call)
    result, arguments = "np.sum(np.sin(1.7 * ({})))", PAGE.arguments(names)
    f = PAGE.function(call, result=result)
    # JAX takes no lists in brackets.
    same = PAGE.function(call.replace("[[0, 2]]", "[np.array([0, 2])]"), result=result)
    direct = types.FunctionType(same.__code__, {**same.__globals__, "np": jnp})
    made = tensor(f)
    with keeping_float64(True):
        np.testing.assert_allclose(made(*arguments), direct(*arguments), rtol=1e-6)
        for k, name in enumerate(names):
            expected = jax.grad(direct, k)(*map(jnp.asarray, arguments))
            np.testing.assert_allclose(made.grad(name)(*arguments), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_the_page_is_current():
    script = ROOT / "scripts" / "numpy_page.py"
    made = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True)
    message = "run  python scripts/numpy_page.py > docs/numpy.md"
    assert made.stdout == (ROOT / "docs" / "numpy.md").read_text(), message


def test_one_multiplication():
    """The paper's example, as one writes it: there is one term, and it is one product."""

    @tensor
    def dot_of_diagonals(x):
        return np.diag(x)[:, 0] @ np.diag(x)[0, :]

    x = np.array([3.0, 2.0, 5.0])
    assert dot_of_diagonals.interpret(x) == 9
    assert dot_of_diagonals.cost(x).total == 1
    assert str(dot_of_diagonals.cost_formula()) == "1"


def test_what_is_read_twice_is_computed_once():
    @tensor
    def f(x, y):
        return np.sum(np.exp(x)[:, None] * y)

    x, y = np.ones(3), np.ones(5)
    cost = f.cost(x, y)
    assert (cost.calls, cost.multiplications, cost.additions) == (3, 15, 14)


def test_sizes_that_meet_are_decided_at_each_call():
    @tensor
    def f(x, y):
        return np.sum(x * y)

    three, one, four = np.arange(3.0), np.array([2.0]), np.arange(4.0)
    assert f.interpret(three, three) == 5
    assert f.interpret(three, one) == 6
    assert f.interpret(one, four) == 12
    assert f.interpret(four, four) == 14
    np.testing.assert_allclose(f.grad("y").interpret(three, one), [3])
    with pytest.raises(
        TensorError, match=r"len\(x\) = 3 and len\(y\) = 4 do not go together"
    ) as error:
        f.interpret(three, four)
    assert error.value.place.text.strip() == "return np.sum(x * y)"


def test_declared_sizes_that_meet_must_be_one():
    @tensor
    def f(x: 'Float[Array, "n"]', y: 'Float[Array, "m"]'):  # noqa: F821
        return np.sum(x * y)

    with pytest.raises(TensorError, match="the sizes n and m meet"):
        _ = f.program


def test_slices_end_where_the_array_does():
    @tensor
    def f(x):
        return np.sum(x[2:5])

    for n in (6, 4, 2, 1):
        x = np.arange(float(n))
        assert f(x) == f.interpret(x) == f.python(x) == np.sum(x[2:5])


@pytest.mark.parametrize("x", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]])
def test_the_gradient_of_a_product_takes_zeros(x):
    @tensor
    def f(x):
        return np.prod(x)

    expected = jax.grad(jnp.prod)(jnp.asarray(x))
    np.testing.assert_allclose(f.grad("x").interpret(np.asarray(x)), expected)
    assert f.cost(np.asarray(x)).total == 2


def test_large_numbers_do_not_overflow():
    @tensor
    def f(x):
        return jax.nn.logsumexp(x)

    x = np.array([1000.0, 1001.0, -1000.0])
    np.testing.assert_allclose(f.interpret(x), 1001.3132616875182)
    np.testing.assert_allclose(f.grad("x").interpret(x), jax.nn.softmax(jnp.asarray(x)), rtol=1e-6)


def test_the_derivative_of_a_condition_is_zero():
    @tensor
    def relu(x):
        return np.sum(np.where(x > 0, x, 0))

    @tensor
    def step(x):
        return np.sum(x > 0.5)

    x = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_array_equal(relu.grad("x").interpret(x), [0, 0, 1])
    np.testing.assert_array_equal(step.grad("x").interpret(x), [0, 0, 0])
    assert relu.cost(x).calls == 6


def test_a_triangle_stays_one():
    """`np.where` of indices is a bracket, through a name too."""

    @tensor
    def f(x):
        i = np.arange(len(x))
        below = i[None, :] <= i[:, None]
        return np.sum(np.where(below, np.outer(x, x), 0))

    x = np.arange(1.0, 5.0)
    assert f.interpret(x) == np.sum(np.tril(np.outer(x, x)))
    assert f.cost(x).calls == 0
