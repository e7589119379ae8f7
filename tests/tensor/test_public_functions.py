"""`public_functions.py`: each undecorated gives the same numbers, and `jax.grad` the same gradients by every parameter."""

import inspect

import jax
import jax.numpy as jnp
import more_functions
import numpy as np
import of_jax
import practice_functions
import public_functions
import pytest
from differences import check

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.precision import keeping_float64


def active(function, arguments):
    """The parameters that are numbers or arrays of such, or trees of these."""
    leaves = [jax.tree_util.tree_leaves(argument) for argument in arguments]
    real = [all(np.asarray(x).dtype.kind == "f" for x in xs) for xs in leaves]
    return [n for n, ok in zip(inspect.signature(function).parameters, real, strict=True) if ok]


def by_differences(function, arguments, k):
    """The gradient by an array, or a number, from differences: right to about 1e-9."""
    x, made = np.asarray(arguments[k]), np.zeros(np.shape(arguments[k]))
    for at in np.ndindex(x.shape):
        sides = []
        for step in (1e-5, -1e-5):
            moved = x.copy()
            moved[at] += step
            sides.append(function(*arguments[:k], moved, *arguments[k + 1 :]))
        made[at] = (sides[0] - sides[1]) / 2e-5
    return made


def gradients(function, arguments, names):
    places = [list(inspect.signature(function).parameters).index(name) for name in names]
    if function.__name__ in public_functions.IN_PLACE:
        return [by_differences(function, arguments, k) for k in places]
    with keeping_float64(True), pytest.MonkeyPatch.context() as patch:
        patch.setitem(function.__globals__, "np", jnp)
        return of_jax.gradients(function, places, arguments)


@pytest.mark.parametrize(
    ("function", "arguments"),
    public_functions.CASES,
    ids=[function.__name__ for function, _ in public_functions.CASES],
)
def test_value_and_gradient(function, arguments):
    f, names = tensor(function), active(function, arguments)
    np.testing.assert_allclose(f.interpret(*arguments), function(*arguments), rtol=1e-7)
    expected = gradients(function, arguments, names)
    found = f.grad(*names).interpret(*arguments)
    tolerance = 1e-6 if function.__name__ in public_functions.IN_PLACE else 1e-7
    leaves = (jax.tree_util.tree_leaves(tree) for tree in (found, expected))
    for one, other in zip(*leaves, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=1e-9)


@pytest.mark.parametrize(
    ("function", "arguments"),
    more_functions.CASES,
    ids=[f.__name__ for f, _ in more_functions.CASES],
)
def test_more(function, arguments):
    """Gradients are those of differences: many write in place, or choose by `argsort`."""
    f, names = tensor(function), active(function, arguments)
    np.testing.assert_allclose(float(f.interpret(*arguments)), function(*arguments), rtol=1e-7)
    found = f.grad(*names).interpret(*arguments)
    places = [list(inspect.signature(function).parameters).index(name) for name in names]
    for one, k in zip(found if len(names) > 1 else [found], places, strict=True):
        expected = by_differences(function, arguments, k)
        np.testing.assert_allclose(np.asarray(one, dtype=float), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "arguments"),
    practice_functions.CASES,
    ids=[f.__name__ for f, _ in practice_functions.CASES],
)
def test_from_practice(function, arguments):
    check(function, arguments)
