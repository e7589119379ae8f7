"""Large arrays with a short last axis, column by column, and that this changes no result."""

import jax
import numpy as np
import pytest
from programs import gravity

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.lowering import coordinate_columns


@pytest.fixture(autouse=True)
def _however_small(monkeypatch):
    monkeypatch.setattr(coordinate_columns, "LARGE", 1)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def agrees(function, *arguments):
    found, expected = function(*arguments), function.interpret(*arguments)
    jax.tree_util.tree_map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), found, expected
    )


def columns_of(function, *arguments):
    """The names of the columns in a plan."""
    rows = str(function.plan(*arguments)).splitlines()
    return [row.split()[0] for row in rows if "·" in row.split()[0]]


@tensor
def colours(u):
    h, w, c = u.shape
    return sum(
        np.sqrt(0.1 + sum((u[i + 1, j, k] - u[i, j, k]) ** 2 for k in range(c)))
        for i in range(h - 1)
        for j in range(w)
    )


@tensor
def turned(q, v):
    """Cross products, by the numbers of columns."""
    cross = [
        [
            q[1] * p[2] - q[2] * p[1],
            q[2] * p[0] - q[0] * p[2],
            q[0] * p[1] - q[1] * p[0],
        ]
        for p in v
    ]
    return sum(np.tanh(c[k] * c[(k + 1) % 3]) for c in cross for k in range(3))


@tensor
def shares(x):
    n, d = x.shape
    e = [[np.exp(x[i, k]) for k in range(d)] for i in range(n)]
    return sum(np.log(sum(e[i][k] for k in range(d))) for i in range(n))


@tensor
def bonds(x, a, b, rest):
    d = [[x[i, k] - x[j, k] for k in range(3)] for i, j in zip(a, b, strict=True)]
    return sum((np.sqrt(sum(y**2 for y in p)) - r) ** 2 for p, r in zip(d, rest, strict=True))


@tensor
def shifted_columns(x):
    """Reads one column further on, which is none behind the last."""
    n, d = x.shape
    y = [[np.sin(x[i, k]) for k in range(d)] for i in range(n)]
    return sum(y[i][k] * y[i][k + 1] for i in range(n) for k in range(d - 1)) + y[0][1]


@tensor
def of_triples(x):
    """Two short axes."""
    n, d = x.shape
    outer = [[[np.tanh(x[i, k] * x[i, m]) for m in range(d)] for k in range(d)] for i in range(n)]
    return sum(sum(o[k][m] for k in range(d) for m in range(d)) ** 2 for o in outer)


@tensor
def pooled(x):
    """Maxima over two short axes, and over the last."""
    n, m, d = x.shape
    blocks = np.tanh(x).reshape(n // 2, 2, m // 2, 2, d).max(axis=(1, 3))
    return np.sum(blocks**2) + np.sum(np.sin(x).max(axis=2)) - np.sum(np.cos(x).min(axis=2))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (gravity, (normal(7, 3), normal(7, seed=1))),
        (gravity, (normal(6, 2), normal(6, seed=1))),
        (colours, (normal(5, 4, 3),)),
        (turned, (normal(4), normal(6, 3, seed=1))),
        (shares, (normal(8, 3),)),
        (bonds, (normal(5, 3), np.array([0, 1, 4, 2]), np.array([3, 2, 0, 1]), normal(4, seed=2))),
        (shifted_columns, (normal(6, 3),)),
        (of_triples, (normal(5, 3),)),
        (pooled, (normal(4, 6, 3),)),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_columns_agree_with_the_reference(function, arguments):
    agrees(function, *arguments)
    for name, value in zip(function.__signature__.parameters, arguments, strict=True):
        if value.dtype.kind == "f":
            agrees(function.grad(name), *arguments)


def test_the_coordinates_of_pairs_are_arrays_of_their_own():
    found = columns_of(gravity.grad("x"), normal(7, 3), normal(7, seed=1))
    assert {x.split("·")[1] for x in found} == {"0", "1", "2"}
    assert columns_of(gravity.grad("x"), normal(7, 8), normal(7, seed=1)) == []  # no short axis


@tensor
def one_after_the_other(x):
    n, d = x.shape
    return sum(np.sqrt(1 + (x[i + 1, k] - x[i, k]) ** 2) for i in range(n - 1) for k in range(d))


def test_where_columns_never_meet_they_are_one_array():
    assert columns_of(one_after_the_other.grad("x"), normal(9, 3)) == []


@tensor
def kept(x):
    n, d = x.shape
    y = [[np.exp(x[i, k]) for k in range(d)] for i in range(n)]
    return [[y[i][k] / sum(y[i][m] for m in range(d)) for k in range(d)] for i in range(n)]


def test_a_result_is_put_together_again():
    x = normal(6, 3)
    assert columns_of(kept, x)
    agrees(kept, x)
    agrees(kept.vjp("x"), x, normal(6, 3, seed=1))
