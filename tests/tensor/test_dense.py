"""JAX's own way to compute a kernel: what it makes of a program, and that it is the same."""

from __future__ import annotations

from random import Random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.backend import kernel
from jupyter_hvd.tensor.lowering.choices import DENSE

X = np.random.default_rng(0).uniform(0.5, 1.5, (7, 5))


def in_jax(function, *arguments):
    """The result in JAX's own way, which is the evaluator's, and the primitives that it is made of."""
    call = function.specialised(*arguments)
    made = kernel(call.instance, call.sizes, call.constants)
    operands = made.operands(tuple(call.arguments.values()))
    plan = made.compile(made.counts(operands), made.dtype(operands), DENSE)
    run = jax.jit(lambda *xs: made.executed(plan, xs))
    expected = np.asarray(function.interpret(*arguments), float)
    np.testing.assert_allclose(run(*operands), expected, rtol=1e-6, atol=1e-9)
    return primitives(jax.make_jaxpr(run)(*operands).jaxpr)


def primitives(jaxpr):
    found = set()
    for equation in jaxpr.eqns:
        found.add(equation.primitive.name)
        for inner in jaxprs_in_params(equation.params):
            found |= primitives(inner)
    return found


def gradient_in_jax(function, *arguments):
    return in_jax(function.grad(next(iter(function.__signature__.parameters))), *arguments)


def test_what_stands_side_by_side_is_not_masked():
    @tensor
    def turned(x):
        moved = np.roll(np.concatenate([x, x[:2] ** 2]), (2, -1), (0, 1))
        return np.sum(moved * moved[::-1])

    for seen in (in_jax(turned, X), gradient_in_jax(turned, X)):
        assert "concatenate" in seen or "pad" in seen
        assert not {"select_n", "gather"} & seen


@pytest.mark.parametrize("seed", range(20))
def test_spans_of_any_kind(seed):
    """Spans that leave gaps, are empty, have one entry, or overlap, of which a sum is no array side by side."""
    random = Random(seed)
    n = random.randrange(1, 8)
    a, b, c, d = sorted(random.randrange(-1, n + 2) for _ in range(4))
    if seed % 4 == 0:
        b, c = c, b

    @tensor
    def pieces(x, y):
        k = len(x)
        parts = [
            (x[i] * y[i] if a <= i and i < b else 0)
            + (np.log(x[k - 1 - i]) if c <= i and i < d else 0)
            + (y[i] if i == k - 1 and d < k else 0)
            for i in range(k)
        ]
        return sum(parts[i] ** 2 * x[i] for i in range(k))

    x, y = X.ravel()[:n], X.ravel()[n : 2 * n]
    in_jax(pieces, x, y)
    gradient_in_jax(pieces, x, y)


def test_a_loop_that_adds_up_is_a_running_sum():
    @tensor
    def sums(x):
        return np.sum(np.cumsum(x) ** 2)

    @tensor
    def along(x):
        return np.sum(np.cumsum(x, axis=1)[:, ::-1] ** 2 * x)

    @tensor
    def from_elsewhere(x):
        total, seen = 2.0 * x[3], []
        for k in range(len(x)):
            total = x[k] ** 2 + total
            seen.append(total)
        return np.sum(np.array(seen) * x)

    for f, x in ((sums, X[0]), (sums, X[0, :1]), (along, X), (from_elsewhere, X[0])):
        for seen in (in_jax(f, x), gradient_in_jax(f, x)):
            assert len(x) == 1 or "cumsum" in seen
            assert not {"scan", "while"} & seen


def test_scans_read_what_is_repeated_row_by_row():
    @tensor
    def driven(x, s):
        y = [s * s for _ in range(len(x))]
        h = 0.0
        for t in range(len(x)):
            h = np.tanh(h + y[t]) + x[t]
        return h

    x = np.linspace(0.5, 1.5, 40)
    assert "scan" in in_jax(driven, x, 0.3)
    in_jax(driven.grad("s"), x, 0.3)


def test_slopes_at_corners_are_the_language_s():
    """By whichever way a call is computed."""

    @tensor
    def corner(x):
        return np.sum(np.abs(x) + np.maximum(x, 0.0) + np.sqrt(1 + x))

    in_jax(corner.grad("x"), np.zeros(3))


def test_arrays_are_not_turned_round_to_be_kept():
    @tensor
    def spread(x):
        return np.sum(np.sqrt(((x - x.mean(axis=0)) ** 2).mean(axis=0)))

    assert "transpose" not in in_jax(spread, X)
    assert "transpose" not in gradient_in_jax(spread, X)


def test_products_of_matrices_with_axes_of_both():
    @tensor
    def gates(x, w):
        turned = np.einsum("icb,cab->ica", x, w)
        return np.sum(np.tanh(turned) * x)

    draw = np.random.default_rng(1)
    x, w = draw.normal(size=(6, 3, 4)), draw.normal(size=(3, 4, 4))
    assert "dot_general" in in_jax(gates, x, w)
    gradient_in_jax(gates, x, w)


@pytest.mark.parametrize(
    "x", [[np.inf, 0.0], [-np.inf, 1.0], [-np.inf, -np.inf], [np.nan, 0.0]], ids=str
)
def test_what_is_infinite_is_as_in_jax(x):
    @tensor
    def several(x):
        return jax.nn.softmax(x), jax.nn.log_softmax(x), jax.nn.logsumexp(x)

    x = np.array(x)
    found, expected = several(x), several.python(jnp.asarray(x))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
