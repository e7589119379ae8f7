"""What is looked up at computed places is gathered, what is sent to them scattered, and what is put in order sorted; by the
model and in JAX's own way. That it is right is compared with NumPy and `jax.grad`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from public_functions import draw
from test_places import close, of_one

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.kernel import Kernel
from jupyter_hvd.tensor.jax.precision import keeping_float64
from jupyter_hvd.tensor.lowering.choices import DENSE, MODEL

CASES = []


def case(*arguments):
    def enter(function):
        CASES.append(pytest.param(function, arguments, id=function.__name__))
        return function

    return enter


def spread(n, *shape):
    """Places around the indices below n, some beyond either end."""
    return np.random.default_rng(n).uniform(-1.5, n + 1.5, shape)


@case(draw(12), spread(12, 50))
def between_entries(v, p):
    k = np.clip(np.floor(p).astype(int), 0, len(v) - 2)
    f = p - k
    return np.sum((v[k] * (1 - f) + v[k + 1] * f) ** 2)


@case(draw(12, 9), spread(10, 50, 2))
def in_a_picture(img, at):
    i = np.clip(np.floor(at[:, 0]).astype(int), 0, img.shape[0] - 2)
    j = np.clip(np.rint(at[:, 1]).astype(int), 0, img.shape[1] - 2)
    f = at[:, 0] - i
    return np.sum((img[i, j] * (1 - f) + img[i + 1, j] * f) ** 2 * img[i + 1, j + 1])


@case(draw(12, 9, 3), spread(12, 20), spread(9, 20))
def colours(img, y, x):
    i = np.clip(np.trunc(y).astype(int), 0, img.shape[0] - 1)
    j = np.clip(np.trunc(x).astype(int), 0, img.shape[1] - 1)
    return np.sum(np.sin(img[i, j]) * x[:, None])


@case(draw(12, 5), spread(12, 30), draw(5))
def rows_of_a_table(W, p, b):
    k = np.clip(np.floor(p).astype(int), 0, len(W) - 1)
    return np.sum(np.tanh(W[k] @ b) * p)


@case(draw(12), spread(12, 12))
def places_of_places(v, p):
    k = np.clip(np.floor(p).astype(int), 0, len(p) - 1)
    return np.sum(v[k[k]] ** 2 * p[k])


@case(draw(40), spread(7, 40))
def histogram(w, p):
    k = np.clip(np.floor(p).astype(int), 0, 6)
    return np.sum(np.bincount(k, w, minlength=7) ** 3)


@case(draw(30, 2), draw(4, 2))
def nearest_centres(x, c):
    squares = np.sum((x[:, None, :] - c[None, :, :]) ** 2, axis=2)
    return np.sum((x - c[np.argmin(squares, axis=1)]) ** 3)


@case(draw(9), spread(4, 12))
def along_a_loop(v, p):
    s = 0.0
    for i in range(len(p)):
        s = 0.5 * s + v[np.clip(np.floor(s * s + p[i]).astype(int), 0, len(v) - 1)] * p[i]
    return s


@case(draw(70))
def in_order(x):
    return np.sum(np.sort(x) ** 2 * np.arange(len(x))) + np.median(x)


@case(draw(3, 70), draw(3, 70))
def rows_by_rank(A, B):
    order = np.argsort(A, axis=1)
    return np.sum(np.take_along_axis(B, order, axis=1) * np.sort(B, axis=1))


@case(draw(90) * 3, np.sort(draw(60)) * 3, draw(60))
def between_many_points(x, xp, fp):
    return np.sum(np.interp(x, xp, fp) ** 2)


@pytest.mark.parametrize("choices", [MODEL, DENSE], ids=["model", "dense"])
@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_values_and_gradients(function, arguments, choices, monkeypatch):
    monkeypatch.setattr(Kernel, "choices", lambda *_: choices)
    names, gradients = of_one(function, arguments, False)
    with keeping_float64(True):
        np.testing.assert_allclose(tensor(function)(*arguments), function(*arguments), rtol=1e-9)
        close(tensor(function).grad(*names)(*arguments), gradients, 1e-8)


#: The squares of `nearest_centres` are an array of the program's.
SMALL = [case for case in CASES if case.id != "nearest_centres"]


@pytest.mark.parametrize(("function", "arguments"), SMALL)
def test_nothing_is_made_for_each_place_and_each_entry(function, arguments):
    names = of_one(function, arguments, False)[0]
    gradient = tensor(function).grad(*names)
    found = gradient.plan(*map(np.float32, arguments))
    most = 2 * max(map(np.size, arguments)) + 90
    for plan in (found, *(loop.body for step in found.steps for loop in step.action.loops)):
        assert {x: n for x, n in plan.shapes().items() if np.prod(n) > most} == {}


@pytest.mark.parametrize("choices", [MODEL, DENSE], ids=["model", "dense"])
@pytest.mark.parametrize("axis", [0, 1])
def test_in_numpys_order(choices, axis, monkeypatch):
    """Equal entries in theirs, zeros of either sign alike, what is no number last."""
    monkeypatch.setattr(Kernel, "choices", lambda *_: choices)
    x = np.random.default_rng(0).integers(0, 20, (70, 71)).astype(np.float32)
    x[3, 5:8], x[5:60:9, 6], x[7], x[:, 9] = np.nan, np.nan, 0, 0
    x[7, 3:60:5], x[4:50:3, 9] = -0.0, -0.0

    @tensor
    def ordered(x):
        return np.sort(x, axis=axis)

    @tensor
    def order(x):
        return np.argsort(x, axis=axis)

    @tensor
    def largest_first(x):
        return jnp.argsort(x, axis=axis, descending=True)

    np.testing.assert_array_equal(ordered(x), np.sort(x, axis=axis))
    np.testing.assert_array_equal(order(x), np.argsort(x, axis=axis, kind="stable"))
    np.testing.assert_array_equal(
        largest_first(x), jnp.argsort(x, axis=axis, descending=True, stable=True)
    )


@pytest.mark.parametrize("choices", [MODEL, DENSE], ids=["model", "dense"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_how_many_come_before(side, choices, monkeypatch):
    monkeypatch.setattr(Kernel, "choices", lambda *_: choices)
    rng = np.random.default_rng(1)
    among = np.sort(rng.integers(0, 40, 100)).astype(np.float32)
    wanted = rng.integers(-3, 44, (9, 10)).astype(np.float32)
    wanted[2, 3] = np.nan

    @tensor
    def places(among, wanted):
        return np.searchsorted(among, wanted, side)

    np.testing.assert_array_equal(
        places(among, wanted), np.searchsorted(among, wanted, side).reshape(wanted.shape)
    )


def test_a_place_that_is_no_number_reads_some_entry():
    """As in JAX, and nothing outside of the array."""
    gradient = tensor(
        between_entries.__wrapped__ if hasattr(between_entries, "__wrapped__") else between_entries
    ).grad("v")
    p = np.array([0.5, np.nan, np.inf, -np.inf, 1e30], np.float32)
    assert gradient(np.ones(12, np.float32), p).shape == (12,)


def test_under_jax():
    """Mapped over many, compiled within another function, differentiated by JAX."""
    f = tensor(in_a_picture)
    img, at = draw(12, 9), spread(10, 50, 2)
    with keeping_float64(True):
        many = jax.vmap(f.jax, (None, 0))(img, jnp.stack([at, at[::-1]]))
        np.testing.assert_allclose(many, [f(img, at)] * 2)
        np.testing.assert_allclose(jax.grad(jax.jit(f.jax))(img, at), f.grad("img")(img, at))


def test_a_remainder_is_a_place():
    """Whatever it is the remainder of: what goes round."""

    def around(v, p):
        k = np.floor(p).astype(int)
        return np.sum(v[k % len(v)] * v[(k + 1) % len(v)])

    v, p = draw(9), spread(9, 30) * 5
    names, gradients = of_one(around, (v, p), False)
    with keeping_float64(True):
        np.testing.assert_allclose(tensor(around)(v, p), around(v, p))
        close(tensor(around).grad(*names)(v, p), gradients, 1e-8)
