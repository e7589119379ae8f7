"""What does not depend on an axis around it is computed without that axis, and its adjoint summed over it first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import tensor

R = np.random.default_rng(3)
POINTS, LABELS = R.normal(size=(7, 3)), R.integers(0, 3, size=7)


def distance(x, i, j):
    return sum((x[i, k] - x[j, k]) ** 2 for k in range(x.shape[1]))


@tensor
def triplets(x, labels):
    n = len(x)
    return sum(
        max(distance(x, i, j) - distance(x, i, k) + 0.5, 0)
        for i in range(n)
        for j in range(n)
        for k in range(n)
        if labels[i] == labels[j] and i != j and labels[i] != labels[k]
    )


def triplets_in_jax(x, labels):
    d = ((x[:, None] - x) ** 2).sum(2)
    same = labels[:, None] == labels
    chosen = (same & ~jnp.eye(len(x), dtype=bool))[:, :, None] & ~same[:, None]
    return jnp.where(chosen, jnp.maximum(d[:, :, None] - d[:, None] + 0.5, 0), 0).sum()


@tensor
def triples(x):
    """Each pair has a condition with an index that its distance does not depend on."""
    n = len(x)
    return sum(
        np.exp(-distance(x, i, j)) * np.sqrt(1 + distance(x, j, k))
        for i in range(n)
        for j in range(i)
        for k in range(j)
    )


def triples_in_jax(x):
    d = ((x[:, None] - x) ** 2).sum(2)
    i = jnp.arange(len(x))
    chosen = (i[None, :, None] < i[:, None, None]) & (i < i[:, None])
    return jnp.where(chosen, jnp.exp(-d)[:, :, None] * jnp.sqrt(1 + d)[None], 0).sum()


@tensor
def others(x):
    """The inner sum is read under one condition and has another: together they are four cases."""
    n, total = len(x), 0.0
    for i in range(n):
        weights = 0.0
        for k in range(n):
            if k != i:
                weights += np.exp(-distance(x, i, k))
        for j in range(n):
            if j != i:
                total += distance(x, i, j) * np.log(weights)
    return total


def others_in_jax(x):
    d = ((x[:, None] - x) ** 2).sum(2)
    weights = jnp.where(jnp.eye(len(x), dtype=bool), 0, jnp.exp(-d)).sum(1)
    return (d * jnp.log(weights)[:, None]).sum()


@tensor
def in_a_loop(x, steps: int):
    n = len(x)
    for _ in range(steps):
        x = np.array(
            [
                [sum(np.tanh(x[i, k] * x[j, k]) for j in range(n)) / n for k in range(3)]
                for i in range(n)
            ]
        )
        x = np.array(
            [
                [x[i, k] + np.cos(sum(x[j, k] for j in range(n))) / n for k in range(3)]
                for i in range(n)
            ]
        )
    return np.sum(x)


def in_a_loop_in_jax(x, steps):
    for _ in range(steps):
        x = jnp.tanh(x[:, None] * x).sum(1) / len(x)
        x = x + jnp.cos(x.sum(0)) / len(x)
    return x.sum()


CASES = {
    "triplets": (triplets, triplets_in_jax, (POINTS, LABELS), "x", 3),
    "triples": (triples, triples_in_jax, (POINTS,), "x", 3),
    "others": (others, others_in_jax, (POINTS,), "x", 3),
    "in a loop": (in_a_loop, in_a_loop_in_jax, (POINTS, 3), "x", 3),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_jax(name):
    function, direct, arguments, wrt, _ = CASES[name]
    value, slope = function.value_and_grad(wrt)(*arguments)
    with jax.enable_x64():
        expected, due = jax.value_and_grad(direct)(*arguments)
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    np.testing.assert_allclose(slope, due, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["triplets", "triples", "others"])
def test_no_step_runs_over_axes_that_it_does_not_depend_on(name):
    function, _, arguments, wrt, axes = CASES[name]
    plan = function.value_and_grad(wrt).plan(*arguments)
    assert max(len(shape) for shape in plan.shapes(whole=True).values()) <= axes
    assert all(
        len(step.action.extents) <= axes for step in plan.steps if hasattr(step.action, "extents")
    )
