"""Arrays of integers side by side in brackets, which NumPy broadcasts: `A[i[:, None], j]`, and `np.ix_`."""

import numpy as np
import pytest
from cases import entering
from differences import check

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(0)
A, T, X = R.normal(size=(5, 6)), R.normal(size=(4, 5, 6)), R.normal(size=7)
ROWS, COLUMNS, BOTH = np.array([0, 2, 2]), np.array([1, 5]), np.array([[0, 1, 2], [3, 4, 4]])
ELEMENTS, STIFFNESS = np.array([[0, 1], [1, 2], [2, 3]]), R.normal(size=(3, 2, 2))
CASES = []
case = entering(CASES)


@case(A, ROWS, COLUMNS)
def rows_and_columns(A, i, j):
    return A[i[:, None], j] * A[i[:, None], j[None, :]]


@case(A, BOTH)
def an_array_beside_a_range(A, k):
    return A[k, np.arange(3)]


@case(A, ROWS, BOTH)
def of_one_and_of_two_dimensions(A, i, k):
    return A[i, k] + np.sum(A[i[:, None], i])


@case(T, ROWS, COLUMNS)
def beside_slices(T, i, j):
    return np.sum(T[i[:, None], :, j] ** 2) + np.sum(T[:, i[:, None], j] ** 3) + T[i[:, None], 1, j]


@case(A, X)
def that_floats_decide(A, x):
    return A[np.argsort(x)[:3][:, None] % 5, np.argsort(x[:6])[:2]]


@case(A, ROWS[:2], COLUMNS)
def assigned(A, i, j):
    B = np.zeros((5, 6))
    B[i[:, None], j] = A[:2, :2]
    B[np.ix_(i + 1, j)] = A[2:4, :2]
    return B


@case(A, ROWS, COLUMNS)
def added(A, i, j):
    B, C = np.ones((5, 6)), np.ones((5, 6))
    B[i[:, None], j] += A[:3, :2]
    np.add.at(C, (i[:, None], j), A[:3, :2])
    return B * C


@case(T, ROWS, COLUMNS)
def crossed(T, i, j):
    return T[np.ix_(i, j - 1, j)] + np.sum(T[0][np.ix_([0, 2], [1, 3])])


@case(STIFFNESS, ELEMENTS)
def assembled(stiffness, elements):
    K = np.zeros((4, 4))
    for e in range(len(elements)):
        K[np.ix_(elements[e], elements[e])] += stiffness[e]
        nodes = elements[e]
        K[nodes[:, None], nodes] += stiffness[e] ** 2
    return K


@case(T, ROWS, np.array([1, 0]))
def lists_beside_arrays_and_lists(T, i, two):
    rows = T[[0, 2, -1], i] + T[[0, 2, 1], :, [1, 1, 3]][:, :1] + T[1, [0, 2, 2]]
    block = T[np.ix_([0, 1, 3], two, [2, -1])]
    return rows * np.sum(block**2) + T[[3], i] * np.sum(T[:, two, [0, 4]]) + np.sum(T[[2]])


@case(A, ROWS[:2])
def assigned_at_lists(A, i):
    B = np.where(A > 0, A, 1.0)
    B[[0, 0, 2], [1, 1, 3]] += A[0, 0]
    B[[1, -1]] = A[i]
    B[:, [0, 5]] *= A[:, :2]
    B[np.ix_([0, 2], [1, 3])] += A[:2, :2]
    B[np.ix_([1, 1], [2, -4])] += A[:2, :2]
    return B


@case(A, X)
def slices_that_data_end(A, x):
    k = np.searchsorted(np.sort(x), 0.1)
    y = np.zeros(len(x))
    y[k:] = x[0]
    y[: np.argmax(x)] += 2.0 * x[1]
    return np.sum(A[0, 0] * x[:k] ** 2) + np.sum(y * x)


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_value_and_gradient(function, arguments):
    check(function, arguments)


def test_what_numpy_does_not_broadcast_is_refused():
    with pytest.raises(TensorError, match="do not go together"):
        tensor(lambda A, i, j: A[i, j])(A, ROWS, COLUMNS)
    with pytest.raises(TensorError, match="reads index 6"):
        tensor(lambda A, i, j: A[i[:, None], j])(A, ROWS, COLUMNS + 1)
