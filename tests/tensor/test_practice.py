"""The functions of `benchmarks/practice_programs.py`: values are NumPy's, gradients those of JAX of the expert's version."""

import importlib.util
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from jupyter_hvd.tensor import tensor

FILE = Path(__file__).parents[2] / "benchmarks" / "practice_programs.py"
SPEC = importlib.util.spec_from_file_location("practice_programs", FILE)
programs = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = programs  # where its dataclasses look for their types
SPEC.loader.exec_module(programs)

each = pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda program: program.name)


def of_jax(program, arguments):
    """The gradient of the version in JAX, whose integers are constants."""
    names = program.function.__code__.co_varnames
    wanted = [names.index(name) for name in program.unknowns]

    def at(*chosen):
        given = list(arguments)
        for k, argument in zip(wanted, chosen, strict=True):
            given[k] = argument
        return program.direct(*given)

    return jax.jit(jax.grad(at, tuple(range(len(wanted)))))(*(arguments[k] for k in wanted))


def compare(program, found, arguments):
    value, gradient = found
    np.testing.assert_allclose(np.float64(value), program.function(*arguments), rtol=1e-9)
    expected = of_jax(program, arguments)
    gradient = gradient if len(program.unknowns) > 1 else (gradient,)
    leaves = jax.tree.leaves(gradient), jax.tree.leaves(expected)
    for one, other in zip(*leaves, strict=True):
        size = np.max(np.abs(other))
        np.testing.assert_allclose(np.float64(one), other, rtol=1e-7, atol=1e-9 * size)


@each
def test_value_and_gradient(program):
    arguments = program.arguments(program.small)
    gradient = tensor(program.function).value_and_grad(*program.unknowns)
    compare(program, gradient.interpret(*arguments), arguments)


@pytest.mark.slow
@each
def test_compiled(program):
    arguments = program.arguments(program.small)
    gradient = tensor(program.function).value_and_grad(*program.unknowns)
    compare(program, gradient(*arguments), arguments)
