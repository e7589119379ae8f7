"""Indices that are computed from data, and of which nothing says in what range they lie."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from differences import check

from jupyter_hvd.tensor import tensor

R = np.random.default_rng(5)
IMAGE, X = R.normal(size=(5, 6)), R.normal(size=7)


def interpolated(image, y, x):
    i, j = int(np.floor(y)), int(np.floor(x))
    a, b = y - i, x - j
    upper = image[i, j] * (1 - b) + image[i, j + 1] * b
    return upper * (1 - a) + (image[i + 1, j] * (1 - b) + image[i + 1, j + 1] * b) * a


def gathered(x, u):
    k = np.floor(u * len(x)).astype(int)
    return np.sum(x[k] * u) + x[k[0] - 2] * 3


def rows_and_columns(a, u):
    k = np.floor(u).astype(int)
    return a[k] * 2, a[k, 0] @ u, a[0, k], a[:, k[1]]


@pytest.mark.parametrize(("y", "x"), [(1.3, 2.6), (0.0, 0.0), (3.9, 4.9)])
def test_an_image_is_read_between_its_pixels(y, x):
    f = check(interpolated, (IMAGE, y, x))
    slope = (interpolated(IMAGE, y + 1e-6, x) - interpolated(IMAGE, y, x)) / 1e-6
    np.testing.assert_allclose(f.grad("y")(IMAGE, y, x), slope, rtol=1e-4)


def test_negative_indices_count_from_the_end():
    check(gathered, (X, np.array([0.1, 0.5, 0.99])))
    check(gathered, (X, np.array([-0.3, -0.99, 0.2])))


def test_rows_and_columns_are_taken():
    a, u = IMAGE[:, :5], np.array([0.5, -2.2, 3.1])
    for found, expected in zip(tensor(rows_and_columns)(a, u), rows_and_columns(a, u), strict=True):
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("u", [np.array([1.5, 0.1]), np.array([0.1, -3.0])])
def test_beyond_the_axis_it_reads_the_first_or_last_entry_as_jax_does(u):
    def of_jax(x):
        k = jnp.floor(jnp.asarray(u) * 7).astype(int)
        return jnp.sum(x[k] * u) + x[k[0] - 2] * 3

    f = tensor(gathered)
    np.testing.assert_allclose(f(X, u), jax.jit(of_jax)(X))
    expected = np.zeros(7)
    places = np.floor(u * 7).astype(int)
    for place, weight in [*zip(places, u, strict=True), (places[0] - 2, 3)]:
        expected[np.clip(place + 7 * (place < 0), 0, 6)] += weight
    np.testing.assert_allclose(f.grad("x")(X, u), expected)
    with pytest.raises(IndexError):
        f.debug(X, u)
