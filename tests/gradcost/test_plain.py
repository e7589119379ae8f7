"""Plain JAX's version of a program is that program: values and gradients are those of the direct one."""

import time

import jax
import numpy as np
import pytest
from programs import CASES

from jupyter_hvd.gradcost import plainjax
from jupyter_hvd.gradcost.subject import make_subject
from jupyter_hvd.gradcost.xla import real_arguments
from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.timing import compare_times, quartiles_of, time_interleaved


@pytest.fixture(autouse=True)
def double_precision():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_translation_is_the_program(case):
    about = make_subject(case.function, case.wrt, (case.arguments, {}))
    value = plainjax.translate_program(about, about.start)
    compute_gradient, _ = plainjax.plain_gradient(about, about.start)
    real = real_arguments(about, dict(zip(dict(about.types), case.arguments, strict=True)))
    found = value(dict(zip(about.differentiable_names, real, strict=True)))
    expected = case.direct(*case.arguments)
    for mine, direct in zip(*map(jax.tree_util.tree_leaves, (found, expected)), strict=True):
        assert np.allclose(mine, direct)
    if about.is_scalar and case.name != "gravity":  # where √0 stands beside the guard, JAX has NaN
        gradient = jax.grad(lambda wrt: case.direct(*_placed(about, case, wrt)))(
            tuple(
                a for x, a in zip(dict(about.types), case.arguments, strict=True) if x in case.wrt
            )
        )
        for mine, direct in zip(
            *map(jax.tree_util.tree_leaves, (compute_gradient(*real), gradient)), strict=True
        ):
            assert np.allclose(mine, direct)


def _placed(about, case, wrt):
    moved = iter(wrt)
    return [
        next(moved) if x in case.wrt else a
        for x, a in zip(dict(about.types), case.arguments, strict=True)
    ]


@tensor
def curved(x):
    return sum(np.tanh(x[i]) + 1 / x[i] + x[i] ** 2.5 for i in range(len(x)))


slope = curved.grad("x")


@tensor
def roughness(x):
    d = slope(x)
    return sum(d[i] * d[i] for i in range(len(x)))


def test_derived_primitives_are_translated():
    """A function may call the gradient of another, and with it `recip′` and `tanh′`."""
    x = np.linspace(0.5, 1.5, 5)
    about = make_subject(roughness, ("x",), ((x,), {}))
    value = plainjax.translate_program(about, about.start)
    assert np.allclose(value({"x": x}), roughness(x))
    compute_gradient, _ = plainjax.plain_gradient(about, about.start)
    (gradient,) = compute_gradient(x)
    assert np.allclose(gradient, roughness.grad("x")(x))


def test_times_that_run_sequentially():
    slow, fast = np.ones((500, 500)), np.ones(2)
    steps = []
    first, second = time_interleaved(
        [lambda: slow @ slow, lambda: fast + fast], 9, lambda: steps.append(1)
    )
    assert compare_times(first, second) == "second"
    assert quartiles_of(first).median > quartiles_of(second).median > 0


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        # The machine slows down from round to round: all times overlap, each round is clear.
        (([1.5 * 1.1**k for k in range(11)], [1.1**k for k in range(11)]), "second"),
        (([1.0, 1.01] * 6, [1.01, 1.0] * 6), "neither"),
        (([1.0, 3.0] * 6, [2.0, 1.0] * 6), "noisy"),
    ],
)
def test_no_winner_where_times_are_too_noisy(times, verdict):
    assert compare_times(*times) == verdict


def test_more_rounds_until_times_are_stable():
    calls = iter(range(10**9))
    rounds = time_interleaved([lambda: time.sleep(0.003 * (next(calls) % 2))], 3, lambda: None, 0.1)
    assert len(rounds[0]) > 3
