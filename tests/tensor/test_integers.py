"""Integers as people use them in NumPy: values are NumPy's, gradients as by differences, costs within their bound."""

import jax
import numpy as np
import pytest
from cases import entering
from differences import check

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(3)
X, A = R.normal(size=6), R.normal(size=(6, 4))
K = np.array([2, 0, 1, 3, 2, 4])
PARENT = np.array([-1, 0, 0, 1, 2, -1])
ENDS = np.array([0, 2, 2, 5, 6])
BONDS, CHOSEN = {(0, 1), (1, 2), (4, 0)}, {0, 2}
CASES = []
case = entering(CASES)


@case(X, K)
def compared_and_multiplied(x, k):
    return np.sum(np.where(k >= 2, x, 2 * x)) + np.sum(x * k) + np.sum(x * k.astype(int))


@case(X, K)
def divided(x, k):
    half = k // 2
    return np.sum(x * ((half + k % 2) * 2 - 1)) + np.sum(x[half] * x) + x[k[3] // 2 + 1]


@case(X, K)
def counted_from_the_end(x, k):
    return x[(k[2] - 2) % len(x)] + x[-k[0]] * x[k[1] + k[2]]


@case(X, PARENT)
def negative_entries(x, parent):
    return np.sum(x[parent % len(x)] * x)


@case(X, PARENT)
def guarded_entries(x, parent):
    s = 0.0
    for i in range(len(x)):
        if parent[i] >= 0:
            s += x[i] * x[parent[i]]
    return s


@case(X, PARENT)
def sums_up_a_tree(x, parent):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i] + (y[parent[i]] if parent[i] >= 0 else 0.0)
    return np.sum(y**2)


@case(X, PARENT)
def added_to_a_parent(x, parent):
    total, flat = x.copy(), np.zeros(6)
    for i in range(len(x) - 1, -1, -1):
        if parent[i] >= 0:
            total[parent[i]] += total[i]
    for i in range(len(x)):
        flat[parent[i] % 6] += x[i] ** 2
    return np.sum(total**2) + flat[-1]


@case(X, K)
def entries_of_entries(x, k):
    return sum(x[k[k[i]]] * x[i] for i in range(len(x))) + np.sum(x[k[k]] ** 2)


@case(X, K)
def sums_of_integers(x, k):
    c = 0
    for i in range(len(k)):
        c += k[i]
    return x[c % len(x)] ** 2 + c * x[0] + x[np.sum(k) - 10] * x[np.cumsum(k)[2]]


@case(X, K)
def functions_of_integers(x, k):
    low, order = np.maximum(k - 1, 0), np.sort(k)
    far = np.abs(k[0] - k[5])
    return np.sum(x[np.minimum(k, 2)] * x[low] ** 2) + np.sum(x[order] * order) + x[far]


@case(X, K)
def a_range_that_an_entry_ends(x, k):
    s = 0.0
    for i, count in enumerate(k):
        for j in range(count):
            s += x[j] * x[i]
    return s + sum(sum(x[j] ** 2 for j in range(k[i] + 1)) for i in range(len(k)))


@case(X)
def a_range_that_a_remainder_ends(x):
    return sum(sum(x[j] * x[i] for j in range(i % 3)) for i in range(len(x)))


@case(X, np.array([0.5, 1.2, -1.9, 4.4, 3.3, 2.2]))
def stored_at_floors(x, u):
    y, z = np.zeros(6), np.zeros(6)
    for i in range(len(u)):
        y[int(np.floor(u[i]))] += x[i]
        z[int(u[i])] = x[i] ** 2
    return np.sum(y**2) + np.sum(z)


@case(X, np.array([0.2, 0.5, 0.9]), np.array([0.1, 0.3, 0.4, 0.6, 0.8, 1.0]))
def between_knots(x, t, knots):
    total = 0.0
    for u in t:
        i = np.searchsorted(knots, u) - 1
        total += x[i] + (x[i + 1] - x[i]) * (u - knots[i])
    return total


@case(X)
def tuples_in_a_set(x):
    s = 0.0
    for i, j in sorted(BONDS):
        s += x[i] * x[j]
    for i in range(len(x)):
        for j in range(len(x)):
            if (i, j) in BONDS and (j, i) not in BONDS:
                s += x[i] - x[j] ** 2
    return s


@case(X, K)
def integers_in_a_set(x, k):
    s = sum(x[i] for i in range(len(x)) if i in CHOSEN) + len(CHOSEN) * x[1]
    for i in CHOSEN:
        s += x[i] ** 2
    for i in range(len(x)):
        if k[i] in (1, 4):
            s += x[i] ** 3
        if i not in CHOSEN:
            s -= x[i]
    return s


@case(X, K, {1, 4})
def integers_in_a_set_that_is_an_argument(x, k, chosen):
    s = sum(x[i] for i in range(len(x)) if i in chosen) + len(chosen) * x[1]
    for i in sorted(chosen):
        s = np.tanh(s) + x[i] ** 2
    for i in range(len(x)):
        if k[i] in chosen:
            s += x[i] ** 3
    return s + np.sum(x[list(chosen)] ** 4)


@case(X, np.array([3, 0, 2, 1, 3]))
def guarded_at_both_ends(x, y):
    total = 0.0
    for i in range(len(y)):
        upper = np.tanh(x[y[i]] - x[5]) if y[i] < 3 else 1.0
        lower = np.tanh(x[y[i] - 1] - x[5]) if y[i] > 0 else -1.0
        total += (upper - lower) ** 2
    return total


@case(X[:3], np.array([2, 6, 0]))
def led_out_where_a_condition_looks_first(x, k):
    total = 0.0
    for i in range(len(k)):
        if k[i] < len(x):
            total += x[k[i]] ** 2
    return total


@case(X, np.array([0, 2, 2, 5]), np.array([1, 0, 3, 5, 1]), X[:5])
def rows_of_a_sparse_matrix(x, begin, column, entry):
    y = np.zeros(len(begin) - 1)
    for i in range(len(begin) - 1):
        for e in range(begin[i], begin[i + 1]):
            y[i] += entry[e] * x[column[e]]
    return np.sum(y**2)


@case(X, np.array([0, 3, 4, 6]), np.array([-1, 3, 0, -4]))
def slices_that_entries_end(x, n, k):
    total = 0.0
    for i in range(3):
        total += np.sum(x[n[i] : n[i + 1]]) ** 2 + np.max(x[: n[i + 1]]) - np.mean(x[k[i] :]) * i
        total += np.sum(x[: n[i] - 1]) * (i + 1) + np.sum(x[i % 3 :])
        for v in x[n[i] : n[i + 1]]:
            total = 0.5 * total + v
    return total


@case(X, np.array([0, 2, 2, 5]))
def any_and_all_of_data(x, n):
    total = 0.0
    for i in range(len(n) - 1):
        if any(x[j] > 0.5 for j in range(n[i], n[i + 1])):
            total += x[i]
        if all(x[j] > -1 for j in range(n[i], n[i + 1])):
            total += x[i] ** 2
    highs = sum(x[i] for i in range(len(x)) if all(x[i] > x[j] for j in range(i)))
    some = x[1] if any(v > 1 for i, v in enumerate(x) if i != 2) else x[0]
    both = x[1] if all([x[0] > 0, x[1] < 0]) or any([n[0] > 1, x[3] > 0]) else x[2]
    return total + highs + 2 * some + 3 * both * (5.0 if all(v > -1 for v in x if v < 2) else 0.0)


@case(X, K)
def twice_as_many(x, k):
    return np.sum(np.repeat(x, 2) * np.tile(k, 2))


@case(X, np.array([2, 4, 5, 0]))
def down_from_and_to_entries(x, k):
    total = 0.0
    for b in range(len(k)):
        for j in range(k[b] - 1, -1, -1):
            total += x[j] * (b + 1)
        for j in range(5, k[b], -1):
            total += x[j] ** 2 * (b + 1)
    return total


@case(X, np.array([2, 4, 5, 0]))
def states_of_loops_that_data_end(x, k):
    v = 0.0
    for b in range(len(k)):
        for j in range(k[b]):
            v = 0.5 * v + x[j] * (b + 1)
        for j in range(k[b] + 1, len(x)):
            v = np.tanh(v + x[j])
        for j in range(k[b], -1, -1):
            v = 0.7 * v - x[j]
    return v


@case(X, np.array([-3, 1, 2, 5, 0, -1]))
def bits_of_integers(x, k):
    total = 0.0
    for i in range(len(x)):
        if i & 1:
            total += x[i >> 1]
        total += x[i] * ((i & 3) + (k[i] >> 1)) + (k[i] << 2) * x[0]
    return total


@case(X, A[:, 0])
def conditions_changed_in_place(x, y):
    alive, any_large, above = np.ones(len(x), dtype=bool), False, x > y
    for _ in range(3):
        x = x * 1.1
        alive &= x < 1.0
    for i in range(len(x)):
        any_large |= y[i] > 0.5
        above[i] &= x[i] > -1.0
    both = (x > 0) ^ (y > 0)
    return np.sum(alive * x) + any_large * np.sum(x**2) + np.sum(x[above]) + np.sum(both * x)


@case(X, K, ENDS)
def ranges_from_data_to_a_size(x, k, ends):
    y = np.zeros_like(x)
    for i in range(len(ends)):
        for j in range(ends[i], len(x)):
            y[j] += x[i]
    return np.sum(y**2) + sum(x[j] * x[i] for i in range(6) for j in range(k[i] - 1, 6) if j >= 0)


@case(X, ENDS)
def ranges_with_a_step(x, ends):
    s = 1.0
    for i in range(len(ends) - 1):
        for j in range(ends[i], ends[i + 1], 2):
            s = np.sin(s) + x[j]
    ahead = sum(x[j] * x[i] for i in range(4) for j in range(ends[i], ends[i + 1], 2))
    back = sum(x[j] * i for i in range(4) for j in range(ends[i + 1] - 1, ends[i] - 1, -2))
    return s + ahead + back + sum(x[j] for i in range(5) for j in range(0, ends[i], 3))


@case(X, PARENT)
def ranges_from_negative_entries(x, parent):
    s = 0.0
    for i in range(len(parent)):
        for j in range(parent[i], parent[i] + 2):
            s += j * x[i]
        if not any(parent[i] == j for j in range(2)):
            s *= x[i]
    return s


@case(X, ENDS)
def ranges_to_computed_integers(x, ends):
    s, y = 0.0, np.zeros_like(x)
    for i in range(len(ends) - 1):
        n = ends[i + 1] - ends[i]
        for j in range(n):
            y[ends[i] + j] = x[i] * (n - j)
        if any(x[j] > 0.5 for j in range(ends[i] // 2)):
            s += x[i]
    return s + np.sum(y**2) + sum(x[j] for i in range(5) for j in range(2 * ends[i]) if j < 6)


@case(X, ENDS)
def stored_in_slices_that_data_end(x, ends):
    y, z, u = np.zeros_like(x), x.copy(), np.zeros_like(x)
    for i in range(len(ends) - 1):
        y[ends[i] : ends[i + 1]] += x[i]
        z[ends[i] : ends[i + 1]] *= x[i] * x[ends[i] : ends[i + 1]]
        u[ends[i] : ends[i + 1]] = np.sum(x[ends[i] : ends[i + 1]])
    return np.sum(y * x) + np.sum(z * y) + np.sum(u**2)


@case(R.normal(size=6), np.array([3, 1, 0, 2, 3, -1]), ENDS, X[:4])
def rows_of_a_sparse_matrix_as_slices(v, columns, ends, x):
    y = np.zeros(len(ends) - 1)
    for i in range(len(ends) - 1):
        y[i] = v[ends[i] : ends[i + 1]] @ x[columns[ends[i] : ends[i + 1]]]
    A = np.outer(x, x)
    return np.sum(y**2) + np.sum(A[columns[ends[1] : ends[3]], 1]) + np.sum(x[columns[columns > 1]])


@case(X, ENDS)
def assigned_in_a_loop_that_data_end(x, ends):
    y = np.zeros_like(x)
    for i in range(1, len(ends) - 1):
        for j in range(ends[i], ends[i + 1]):
            y[i] = x[j] * x[i]
    return np.sum(y)


@case(X, K)
def largest_and_absolute_integers_as_indices(x, k):
    return x[max(k[0] - 3, 0)] * x[abs(k[1] - 2)] * x[min(k[3], k[4], 1)]


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_value_gradient_and_cost(function, arguments):
    f = check(function, arguments)
    if np.ndim(function(*arguments)) == 0:
        assert f.grad("x").cost(*arguments).total <= 4 * f.cost(*arguments).total


def test_a_set_that_changes_is_examined_again():
    chosen = {0}

    def f(x):
        return sum(x[i] for i in chosen) + sum(2 * x[i] for i in range(len(x)) if i in chosen)

    g = tensor(f)
    np.testing.assert_allclose(g(X), f(X))
    chosen.add(3)
    np.testing.assert_allclose(g(X), f(X))


def test_a_set_that_is_an_argument_may_be_another_set():
    f = tensor(lambda x, chosen: sum(x[i] for i in range(len(x)) if i in chosen))
    chosen = {1}
    for change in ({2}, {np.int64(3)}, set()):
        np.testing.assert_allclose(f(X, chosen), sum(X[i] for i in chosen))
        np.testing.assert_allclose(f.grad("x")(X, chosen), [i in chosen for i in range(len(X))])
        chosen |= change
    assert f(X, set()) == 0
    g = tensor(lambda x, words: np.sum(x) if "a" in words else x[0])
    assert g(X, {"b"}) == X[0]


def test_the_sign_of_integers_may_change_from_call_to_call():
    f = tensor(lambda x, k: np.sum(x[k % len(x)] * x))
    for k in (K, PARENT, -K - 1, K):
        np.testing.assert_allclose(f(X, k), np.sum(X[k] * X))


NEGATIVE = np.array([3, -1, 0, -6, 5, -2])
FROM_OUTSIDE = np.array([-2, 1, -6])


def stored_from_the_end(x, k):
    y, z = np.zeros(len(x)), x.copy()
    y[k] += x[: len(k)]
    for i in range(len(k)):
        z[k[i]] = x[i] ** 2
    return np.sum(y * x) + np.sum(z**3)


def states_from_the_end(x, k):
    s = x[0]
    for i in range(len(k)):
        s = np.sin(s) * x[k[i]] if x[i] > 0 else s + x[k[i]] ** 2
    return s


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: np.sum(x[k] * x),
        lambda x, k: np.sum(np.where(k >= 0, x[k], 0.0)) + np.sum(x[k] * (k < 0)),
        lambda x, k: sum(x[k[i]] ** 2 if x[i] > 0 else 0.0 for i in range(len(k))),
        lambda x, k: sum(x[k[i]] for i in range(len(k)) if k[i] >= 0 and x[k[i]] > -5),
        lambda x, k: sum(x[k[i]] for i in range(len(k)) if k[i] < 0 or x[k[i]] > 0),
        lambda x, k: np.sum(x[np.abs(k) % 6 - 1] ** 2) + np.sum((x[:4] ** 2)[k[:3] - 1]),
        lambda x, k: sum(x[k[i] - i] for i in range(3)),
        lambda x, k: np.sum(x[FROM_OUTSIDE] ** 2) + x[k[1]],
        stored_from_the_end,
        states_from_the_end,
    ],
)
def test_negative_entries_count_from_the_end(f):
    """In calls, in gradients and within `jax.jit`, where the entries are not known, with a condition or without."""
    g = tensor(f)
    np.testing.assert_allclose(g(X, NEGATIVE), f(X, NEGATIVE))
    np.testing.assert_allclose(jax.jit(g.jax)(X, NEGATIVE), f(X, NEGATIVE))
    ahead = A[:, 0]
    slope = (f(X + 1e-6 * ahead, NEGATIVE) - f(X - 1e-6 * ahead, NEGATIVE)) / 2e-6
    for gradient in (g.grad("x"), jax.jit(g.grad("x").jax), jax.jit(jax.grad(g.jax))):
        np.testing.assert_allclose(gradient(X, NEGATIVE) @ ahead, slope, rtol=1e-5)


def test_a_derivative_in_another_function_refuses_entries_that_lead_out():
    gradient = tensor(lambda x, k: np.sum(x[k] ** 2)).grad("x")
    f = tensor(lambda x, k: np.sum(gradient(x, k) ** 2))
    np.testing.assert_allclose(f(X, K[:2]), 4 * np.sum(X[K[:2]] ** 2))
    for entry in (-1, 6):
        with pytest.raises(TensorError, match=rf"reads index {entry} of 6 entries"):
            f(X, np.array([0, entry]))


def test_the_jacobian_has_entries_that_count_from_the_end():
    f = tensor(lambda x, k: [x[k[i]] ** 2 for i in range(len(k))])
    expected = np.zeros((6, 6))
    expected[np.arange(6), NEGATIVE] = 2 * X[NEGATIVE]
    np.testing.assert_allclose(f.jacobian("x")(X, NEGATIVE).todense(), expected, rtol=1e-6)


def test_an_entry_that_leads_out_is_refused_unless_the_condition_looks_at_it():
    f = tensor(lambda x, k: sum(x[k[i]] if x[i] > 0 else 0.0 for i in range(len(k))))
    with pytest.raises(TensorError, match=r"k\[0\] is 6, which reads index 6 of 6 entries"):
        f(np.ones(6), np.array([6, 1]))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x, k: x[0] * (k[0] | 2), "bits"),
        (lambda x, k: x.at[: k[0]].set(0.0)[0], "a slice that data end"),
    ],
)
def test_what_would_not_mean_the_same_is_refused(f, message):
    with pytest.raises(TensorError, match=message):
        tensor(f)(X, PARENT)


@pytest.mark.parametrize("k", [np.array([0, 6, 1, 1, 1, 1]), np.array([0, -7, 1, 1, 1, 1])])
def test_an_index_array_that_leaves_the_axis(k):
    f = tensor(lambda x, k: np.sum(x[k] * x))
    with pytest.raises(TensorError, match=r"reads index (6|-7) of 6 entries"):
        f(X, k)
    with pytest.raises((IndexError, TensorError)):
        f.debug(X, k)


def test_within_jit_entries_beyond_the_axis_read_and_store_nothing():
    """There they are not known, so that no call can refuse them."""

    def stored(x, k):
        y = np.zeros(len(x))
        for i in range(len(k)):
            y[k[i]] += x[i]
        return y

    k = np.array([0, 6, 1, -7, 1, -1])
    inside = (k >= -6) & (k < 6)
    read, sums = np.where(inside, X[np.where(inside, k, 0)], 0), np.zeros(6)
    np.add.at(sums, k[inside], X[inside])
    np.testing.assert_allclose(jax.jit(tensor(stored).jax)(X, k), sums)
    f = tensor(lambda x, k: np.sum(x[k] * x))
    np.testing.assert_allclose(jax.jit(f.jax)(X, k), np.sum(read * X))
    for gradient in (jax.jit(f.grad("x").jax), jax.jit(jax.grad(f.jax))):
        np.testing.assert_allclose(gradient(X, k), read + sums)


def test_beyond_the_axis_nothing_is_stored_as_in_jax():
    def f(x, u):
        y = np.zeros(3)
        for i in range(len(u)):
            y[int(u[i])] += x[i]
        return y

    u = np.array([0.0, 3.0, -4.0, -1.0, 7.0, 2.0])
    np.testing.assert_allclose(tensor(f)(X, u), [X[0], 0, X[3] + X[5]])
    with pytest.raises(IndexError):
        tensor(f).debug(X, u)


def test_integers_that_floats_do_not_hold_are_refused():
    f = tensor(lambda x, k: np.sum(x * (k - k[0])))
    np.testing.assert_allclose(f(X, K + 2**50), np.sum(X * (K - K[0])))
    with pytest.raises(TensorError, match=r"beyond 2\*\*53"):
        f(X, K + 2**53)


def test_jax_integers_that_float32_does_not_hold_are_refused():
    """JAX computes with them as integers; `(2**24 + 1) * 3 % 7` is 6, and that of the next float32 is 3"""
    f = tensor(lambda k: [(k[i] * 3) % 7 for i in range(len(k))])
    k = jax.numpy.array([2**24 + 1, -5])
    with jax.enable_x64(False):
        with pytest.raises(TensorError, match=r"beyond 2\*\*24.*\n?.*NumPy"):
            f(k)
        np.testing.assert_allclose(f(np.asarray(k)), [6, 6])
        np.testing.assert_allclose(f(k - 1), (np.asarray(k) - 1) * 3 % 7)
        np.testing.assert_allclose(
            f(jax.numpy.array([2**14 + 1, 5], "int16")), [(2**14 + 1) * 3 % 7, 1]
        )


def test_an_integer_that_wraps_in_numpy_does_not():
    k = np.array([50_000, 1], dtype=np.int32)
    np.testing.assert_allclose(
        tensor(lambda x, k: np.sum(x * (k * k)))(X[:2], k), X[0] * 2.5e9 + X[1]
    )


TABLE = np.arange(6.0)


def test_data_from_outside_that_change_their_shape():
    global TABLE
    f = tensor(lambda x: np.sum(x * TABLE))
    np.testing.assert_allclose(f(X), np.sum(X * np.arange(6.0)))
    TABLE = np.arange(12.0).reshape(2, 6)
    np.testing.assert_allclose(f(X), np.sum(X * TABLE))
    np.testing.assert_allclose(f.grad("x")(X), TABLE.sum(axis=0))
    TABLE = np.arange(5.0)
    with pytest.raises(TensorError, match="do not go together"):
        f(X)
    TABLE = np.arange(6.0)


def test_index_arrays_are_compared_with_numbers_of_every_kind():
    @tensor
    def f(x, src, dst):
        return np.sum((src == x[1]) * x) + 10 * np.sum((src != 1.0 * dst) * x)

    x, src, dst = np.array([3.0, 2.0, -1.0]), np.array([2, 0, 2]), np.array([2, 1, 1])
    assert f(x, src, dst) == f.python(x, src, dst) == 12
