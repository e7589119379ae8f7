"""The functions of `benchmarks/practice_programs.py`: values are NumPy's, and gradients those of the version in JAX."""

import importlib.util
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor

FILE = Path(__file__).parents[2] / "benchmarks" / "practice_programs.py"
SPEC = importlib.util.spec_from_file_location("practice_programs", FILE)
programs = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = programs  # where its dataclasses look for their types
SPEC.loader.exec_module(programs)

#: Stores in blocks of a matrix at places from data; a loop over arrays whose lengths data decide.
REFUSED = ("truss_compliance", "swap_book")
CASES = [
    pytest.param(
        program,
        id=program.name,
        marks=[pytest.mark.xfail(raises=TensorError, strict=True)] * (program.name in REFUSED),
    )
    for program in programs.PROGRAMS
]
each = pytest.mark.parametrize("program", CASES)


def of_jax(program, arguments):
    """The gradient of the version in JAX, whose integers are constants."""
    names = program.function.__code__.co_varnames
    wanted = [names.index(name) for name in program.unknowns]
    arguments = [a if isinstance(a, int) else jax.tree.map(jnp.asarray, a) for a in arguments]

    def at(*chosen):
        given = list(arguments)
        for k, argument in zip(wanted, chosen, strict=True):
            given[k] = argument
        return program.direct(*given)

    return jax.jit(jax.grad(at, tuple(range(len(wanted)))))(*(arguments[k] for k in wanted))


def slope(program, arguments, gradient):
    """In a random direction, by the gradient and by a central difference of the function in NumPy."""
    random, step = np.random.default_rng(1), 1e-5
    names = program.function.__code__.co_varnames
    wanted = [names.index(name) for name in program.unknowns]
    leaves, structure = jax.tree.flatten([arguments[k] for k in wanted])
    direction = [random.normal(size=np.shape(leaf)) for leaf in leaves]

    def at(length):
        moved = jax.tree.unflatten(structure, map(lambda x, d: x + length * d, leaves, direction))
        given = dict(zip(wanted, moved, strict=True))
        return program.function(*(given.get(k, a) for k, a in enumerate(arguments)))

    pairs = zip(jax.tree.leaves(gradient), direction, strict=True)
    by_gradient = sum(np.sum(np.float64(g) * d) for g, d in pairs)
    return by_gradient, (at(step) - at(-step)) / (2 * step)


def made(program):
    return tensor(program.function).value_and_grad(*program.unknowns)


@each
def test_value_and_slope(program):
    arguments = program.arguments(program.small)
    value, gradient = made(program).interpret(*arguments)
    np.testing.assert_allclose(np.float64(value), program.function(*arguments), rtol=1e-9)
    found, expected = slope(program, arguments, gradient)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@each
def test_compiled(program):
    arguments = program.arguments(program.small)
    value, gradient = made(program)(*arguments)
    np.testing.assert_allclose(np.float64(value), program.function(*arguments), rtol=1e-9)
    expected = of_jax(program, arguments)
    for one, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected), strict=True):
        size = np.max(np.abs(other))
        np.testing.assert_allclose(np.float64(one), other, rtol=1e-7, atol=1e-9 * size)
