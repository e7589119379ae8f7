"""How many entries there are, where integers that are data say so: what NumPy makes of these is made before each call."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import entering
from differences import check

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(3)
X, Z = R.normal(size=9), R.normal(size=(9, 2))
IDS = np.array([4, 2, 2, 7, 4, 4, 7, 2, 2])
EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])
MASK = np.array([True, False, True, True, False, False, True, True, False])
WEEK = np.array([3, 1, 1, 0, 3, 2, 0, 1, 1])
CASES = []
case = entering(CASES)


@case(X, Z[:, 0], IDS)
def within_groups(y, x, ids):
    groups = np.unique(ids)
    yd, xd = np.zeros_like(y), np.zeros_like(x)
    for g in groups:
        mask = ids == g
        yd[mask] = y[mask] - y[mask].mean()
        xd[mask] = x[mask] - x[mask].mean()
    b = (xd @ yd) / (xd @ xd)
    e = yd - b * xd
    meat = 0.0
    for g in groups:
        meat += np.sum(xd[ids == g] * e[ids == g]) ** 2
    return b / np.sqrt(meat)


@case(X, IDS)
def counted_groups(y, ids):
    labels, inverse, counts = np.unique(ids, return_inverse=True, return_counts=True)
    sums = np.zeros(len(labels))
    for i in range(len(y)):
        sums[inverse[i]] += y[i]
    return np.sum(counts * (sums / counts) ** 2)


@case(X, WEEK)
def as_many_as_the_largest_says(y, week):
    n = int(week.max()) + 1
    sums = np.zeros(n)
    for i in range(len(y)):
        sums[week[i]] += y[i]
    return np.sum(sums**2) + np.sum(np.bincount(week, weights=y) ** 3) + max(week) * y[0]


@case(R.normal(size=4), EDGES)
def of_columns(v, edges):
    n = edges[:, 0].max() + 1
    src, dst = edges.T
    heads = np.unique(dst)
    return np.sum((v[src] - v[dst]) ** 2) + np.sum(v[heads] ** 3) * n


@case(X, MASK)
def chosen_entries(x, mask):
    (at,) = np.nonzero(mask)
    gaps = np.diff(x[at])
    return np.sum(gaps**2) + np.sum(x[np.flatnonzero(mask)]) + x[np.where(mask)[0][1]] ** 2


@case(X, WEEK)
def integers_in_an_order_that_data_decide(x, week):
    order = np.argsort(-x)
    ordered, sums = week[order], 0.0
    for i in range(len(x)):
        if ordered[i] == 1:
            sums += x[order[i]] ** 2 / (i + 1)
    return sums + np.sum(x * (ordered >= 2))


@case(X)
def several_quantiles(x):
    high, low = np.percentile(x, [75, 25])
    return high**2 - low + np.sum(np.quantile(x, (0.1, 0.5)) ** 3)


@case(np.array(0.35), X, Z)
def quantiles_at_data(level, x, z):
    return np.quantile(x, level) ** 2 + np.sum(np.percentile(z, 100 * level, axis=0))


@case(R.normal(size=5), {(0, 3), (1, 2), (4, 0), (2, 2)})
def over_a_set_of_tuples(x, bonds):
    energy = 0.0
    for i, j in bonds:
        energy += (x[i] - x[j]) ** 2
    for bond in SPRINGS:
        energy += x[bond[0]] * x[bond[1]] ** 2
    return energy + sum(x[i] for i, _ in bonds) / len(bonds)


SPRINGS = {(0, 1), (3, 4)}


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_value_and_gradient(function, arguments):
    check(function, arguments)


def test_the_integers_may_change_from_call_to_call():
    f = tensor(within_groups)
    for ids in (IDS, IDS % 2, np.arange(9) // 2, IDS):
        expected = within_groups(X, Z[:, 0], ids)
        assert f(X, Z[:, 0], ids) == pytest.approx(expected)
        gradient = f.grad("y")(X, Z[:, 0], ids)
        assert gradient.shape == X.shape
        assert np.all(np.isfinite(gradient))


def test_under_jit_integers_that_are_not_known_are_refused():
    f = tensor(counted_groups)
    with pytest.raises(TensorError, match=r"under `jax.jit`"):
        jax.jit(f.jax)(X, jnp.asarray(IDS))
    assert jax.jit(lambda y: f.jax(y, IDS))(X) == pytest.approx(counted_groups(X, IDS))


def test_floats_say_how_many_numbers_there_may_be():
    x = np.array([2.0, 0.5, 2.0, -1.0, 0.5])

    @tensor
    def distinct(x):
        return np.unique(x, size=4, fill_value=9.0) ** 2

    np.testing.assert_allclose(distinct(x), jnp.unique(x, size=4, fill_value=9.0) ** 2)

    @tensor
    def smallest(x):
        return np.unique(x, size=4)

    np.testing.assert_allclose(smallest(x), jnp.unique(x, size=4))
    with pytest.raises(TensorError, match=r"np.unique\(x, size=k\)"):
        tensor(lambda x: np.sum(np.unique(x)))(x)


def first_part(x, share):
    n = len(x)
    split = int(0.7 * n)
    train, rest = x[:split], x[split:]
    worst = sorted(-x, reverse=True)
    k = int(np.ceil((1 - share) * n))
    total = worst[k - 1] ** 2
    for i in range(k):
        total += worst[i] * (i + 1) / k
    return total + np.sum(train**2) - np.sum(rest) + np.sum(np.zeros(k) + x[0])


def backtracked(x):
    n = len(x)
    back = np.zeros((n, 3), dtype=int)
    for t in range(n):
        for s in range(3):
            back[t, s] = np.argmax(np.array([x[t], x[t - 1] if t > 0 else 0.0, s * 0.1]))
    path = [int(np.argmax(x[:3]))]
    for t in range(n - 1, 0, -1):
        path.append(back[t, path[-1]])
    path.reverse()
    total = 0.0
    for t in range(n):
        total += x[t] * (path[t] + 1) + x[path[t]] ** 2
    return total


@pytest.mark.parametrize(("f", "arguments"), [(first_part, (X, 0.6)), (backtracked, (X,))])
def test_sizes_that_numbers_decide_and_indices_in_lists(f, arguments):
    check(f, arguments)


def test_a_size_that_a_number_decides_is_another_in_the_next_call():
    f = tensor(first_part)
    outer = tensor(lambda x, share: 2 * f(x, share))
    for share in (0.6, 0.9):
        assert f(X, share) == pytest.approx(first_part(X, share))
        assert outer(X, share) == pytest.approx(2 * first_part(X, share))
    with pytest.raises(TensorError, match=r"under `jax.jit`"):
        jax.jit(f.jax)(X, 0.5)
