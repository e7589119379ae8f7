"""A determinant expanded by minors, each of the l! products taken: minors are nodes of a tree, by the columns removed before."""

from __future__ import annotations

import numpy as np

from evaluations import Function, on_device
from jupyter_hvd.tensor import tensor


@tensor
def determinant(A, columns):
    size = len(columns)
    minors = [A[size - 1, c[0]] for c in columns[size - 1]]
    for row in range(size - 2, -1, -1):
        width = size - row
        minors = [
            sum(
                (1 - 2 * (j % 2)) * A[row, columns[row][node, j]] * minors[width * node + j]
                for j in range(width)
            )
            for node in range(len(columns[row]))
        ]
    return minors[0]


def remaining_columns(size):
    """By row, the columns that are left, for each choice of one in every row above."""
    levels = [np.arange(size, dtype=np.int32)[None]]
    for width in range(size, 1, -1):
        others = np.array([[k for k in range(width) if k != j] for j in range(width)])
        levels.append(levels[-1][:, others].reshape(-1, width - 1))
    return tuple(levels)


def _prepare(given):
    (entries,) = on_device(np.reshape(given["A"], (given["ell"], given["ell"])))
    return entries, remaining_columns(given["ell"])


FUNCTIONS = {
    "primal": Function(_prepare, determinant),
    "gradient": Function(
        _prepare, determinant.grad("A"), lambda gradient: np.ravel(gradient).tolist()
    ),
}
