"""What is stored where arrays and lists of indices say, with NumPy's meaning: of what one place is given the last counts, and
`y[k] += v` adds once to a place that k names twice.
"""

import jax
import numpy as np
import pytest
from cases import entering_by_name
from differences import check

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(0)
x, v, A = R.uniform(0.3, 1.3, 5), R.uniform(0.3, 1.3, 3), R.uniform(0.3, 1.3, (4, 5))
B, C, V2 = R.uniform(0.3, 1.3, (3, 5)), R.uniform(0.3, 1.3, (4, 3)), R.uniform(0.3, 1.3, (2, 2))
k, kk, c = np.array([0, 3, 1]), np.array([0, 3, 0]), np.array([1, 4, 2])
PLACES = np.array([[0, 1], [1, 2]])
CASES = {}
case = entering_by_name(CASES)


@case(A, k)
def every_second_column(A, k):
    y = A * 2.0
    y[k, ::2] = A[:3, :3]
    y[k, 1::2] *= A[0, 0]
    return y


@case(A)
def every_second_column_in_a_loop(A):
    y = np.zeros(A.shape)
    for i in range(len(A)):
        y[i, ::2] = A[i, :3]
        y[i, 4:0:-2] += A[i, 0]
    return y


@case(x, k)
def a_number(x, k):
    y = x.copy()
    y[k] = 0.0
    return y


@case(x, kk)
def a_number_twice(x, k):
    y = x.copy()
    y[k] = x[4]
    return y


@case(x, k, v)
def an_array(x, k, v):
    y = x.copy()
    y[k] = v * x[1]
    return y


@case(x, kk, v)
def an_array_whose_last_counts(x, k, v):
    y = x.copy()
    y[k] = v * x[1]
    return y


@case(x, kk, v)
def added_once(x, k, v):
    y = x.copy()
    y[k] += v * x[1]
    return y


@case(x, kk)
def multiplied_once(x, k):
    y = x.copy()
    y[k] *= 3.0
    return y


@case(x, kk)
def subtracted_once(x, k):
    y = x.copy()
    y[k] -= x[0]
    return y


@case(A, k, c)
def a_number_at_pairs(x, k, c):
    y = x.copy()
    y[k, c] = 0.0
    return y


@case(A, kk, c, v)
def an_array_at_pairs(x, k, c, v):
    y = x.copy()
    y[k, c] = v
    return y


@case(A, kk, c, v)
def added_at_pairs(x, k, c, v):
    y = x.copy()
    y[k, c] += v * x[0, 1]
    return y


@case(A, kk, np.array([1, 2, 1]), v)
def pairs_named_twice(x, k, c, v):
    y = x.copy()
    y[k, c] = v * x[0, 0]
    return y


@case(A, kk, B)
def rows(x, k, B):
    y = x.copy()
    y[k] = B * x[1]
    return y


@case(A, k)
def one_row(x, k):
    y = x.copy()
    y[k] = x[0]
    return y


@case(A, kk, B)
def parts_of_rows(x, k, B):
    y = x.copy()
    y[k, 1:4] = B[:, :3]
    return y


@case(A, k, v)
def equal_columns(x, k, v):
    y = x.copy()
    y[:, k] = v
    return y


@case(A, k)
def columns_by_broadcast(x, k):
    y = x.copy()
    y[:, k] = x[:, 1:2]
    return y


@case(A, kk, C)
def columns(x, k, C):
    y = x.copy()
    y[:, k] = C * 2
    return y


@case(A, kk)
def in_one_row(x, k):
    y = x.copy()
    y[2, k] *= 0.5
    return y


@case(A, kk)
def in_one_column(x, k):
    y = x.copy()
    y[k, 2] = 0
    return y


@case(x)
def a_list(x):
    y = x.copy()
    y[[0, 2]] = 0.0
    return y


@case(x)
def a_list_whose_last_counts(x):
    y = x.copy()
    y[[0, 2, 0]] = x[:3] * 2
    return y


@case(x)
def a_list_added_once(x):
    y = x.copy()
    y[[0, 0]] += 1.0
    return y


@case(x)
def a_list_added_once_of_an_array(x):
    y = x.copy()
    y[[0, 3, 0]] += x[1:4]
    return y


@case(A)
def lists_at_pairs(x):
    y = x.copy()
    y[[0, 3], [1, 2]] = x[1, :2]
    return y


@case(A)
def a_list_of_columns(x):
    y = x.copy()
    y[:, [0, -1]] = 0
    return y


@case(A)
def a_list_of_rows(x):
    y = x.copy()
    y[[0, -1], :] *= x[1]
    return y


@case(x)
def where_data_say(x):
    y = x.copy()
    y[np.argsort(x)[:2]] += 1.0
    return y


@case(x)
def where_constants_say(x):
    p = np.array([0, 0])
    y = x.copy()
    y[p] += np.array([1.0, 2.0])
    return y


@case(x, PLACES, V2)
def places_of_two_dimensions(x, k, v):
    y = x.copy()
    y[k] = v
    return y


@case(A, PLACES, V2)
def columns_of_places(x, k, v):
    y = x.copy()
    y[k[:, 0], k[:, 1]] = v[0]
    return y


@case(x, k)
def parts_of_places(x, k):
    y = np.zeros(5)
    y[k[1:]] = x[k[:-1]]
    return y


@case(A)
def a_diagonal(x):
    y = x.copy()
    i = np.arange(4)
    y[i, i] = 0.0
    return y


@case(A)
def added_to_a_diagonal(x):
    y = x.copy()
    y[np.arange(4), np.arange(4)] += x[:, 0]
    return y


@case(A)
def a_diagonal_by_numpy(x):
    y = x.copy()
    y[np.diag_indices(4)] = 0.0
    return y


@case(x, k)
def at_an_entry_of_an_index_array_in_a_loop(x, k):
    y = x.copy()
    for e in range(len(k)):
        y[k[e]] = 2 * y[k[e]] + x[e]
    return y


@case(x, kk)
def where_the_last_iteration_counts(x, k):
    y = np.zeros(len(x))
    for e in range(len(k)):
        y[k[e]] = x[e]
    return y


@case(x)
def at_quotients_and_remainders_in_a_loop(x):
    y = np.ones(len(x))
    for i in range(len(x)):
        y[i // 2] = y[i % 3] * x[i]
    return y


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    check(*CASES[name])


def test_under_jit():
    f, arguments = CASES["an_array_whose_last_counts"]
    found = jax.jit(tensor(f).jax)(*arguments)
    np.testing.assert_allclose(found, f(*arguments), rtol=1e-6)


def test_jax_adds_all():
    @tensor
    def added(x, k, v):
        return x.at[k].add(v)

    np.testing.assert_allclose(added(x, kk, v), x + np.array([v[0] + v[2], 0, 0, v[1], 0]))


def test_what_does_not_fit_is_refused():
    @tensor
    def wide(x, k, A):
        y = x.copy()
        y[k] = A
        return y

    with pytest.raises(TensorError, match="does not fit"):
        wide(x, k, A)


def test_places_out_of_range_are_reported():
    f, _ = CASES["a_number"]
    with pytest.raises(TensorError, match="reads index 7 of 5"):
        tensor(f)(x, np.array([0, 7]))
