"""Computes the stored measures of arrays: a projection and a norm of each, and a projection of each row of a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
#: An array, or the values and indices of a sparse gradient; nothing for a gradient that is None.
Part = Sequence[Any]


@lru_cache(maxsize=256)
def projection_weights(length: int, frequency: float, phase: float, single: bool) -> NDArray[Any]:
    """Return the weights of a vector's entries in its projection."""
    found: NDArray[Any] = np.cos(frequency * np.arange(length) + phase)
    return found.astype(np.float32) if single else found


def measure_parts(parts: Sequence[Part]) -> Numbers:
    """Return a projection and a norm of each part, shape `(2 * parts,)`."""
    return np.array([number for part in parts for number in measure_part(part)], np.float64)


def measure_part(part: Part) -> tuple[float, float]:
    """Compute projection and norm; those of a sparse gradient do not depend on the order or repetition of its rows."""
    if not part:
        return 0.0, 0.0
    values, *indices = map(np.asarray, part)
    if values.dtype.kind in "biu":
        return float(values.sum(dtype=np.float64)), 0.0
    if values.dtype.kind == "c":
        values = values.real + 2.0 * values.imag
    single = values.dtype != np.float64
    rows = len(values) if values.ndim else 1
    flat: NDArray[Any] = values.astype(np.float32 if single else np.float64, copy=False)
    flat = flat.reshape(rows, math.prod(values.shape[1:]))
    across = projection_weights(flat.shape[1], 0.7, 0.0, single)
    if indices:
        # How rows are divided among entries of a sparse gradient must not matter, so they are summed before the norm is taken.
        along = np.cos(1.3 * indices[0] + 0.5).astype(flat.dtype)
        flat = np.einsum("i,ij->j", along, flat)[np.newaxis]
        return float(np.einsum("ij,j->i", flat, across)[0]), vector_norm(flat)
    along = projection_weights(rows, 1.3, 0.5, single)
    return float(np.sum(along * np.einsum("ij,j->i", flat, across), dtype=np.float64)), vector_norm(
        flat
    )


def vector_norm(matrix: NDArray[Any]) -> float:
    """Return the Euclidean norm of all entries of a matrix, summed in double precision."""
    return math.sqrt(np.sum(np.einsum("ij,ij->i", matrix, matrix), dtype=np.float64))


def project_batch_rows(parts: Sequence[Any]) -> Numbers:
    """Project each row of some arrays, concatenated, to a number that does not depend on the other rows: shape `(rows,)`."""
    found: Numbers = sum((project_rows_of_array(np.asarray(part)) for part in parts), np.zeros(()))
    return found


def project_rows_of_array(part: NDArray[Any]) -> Numbers:
    """Project each row of one array to a number, shape `(rows,)`."""
    rows = part.reshape(len(part), math.prod(part.shape[1:])).astype(np.float64)
    projected: Numbers = np.einsum(
        "ij,j->i", rows, projection_weights(rows.shape[1], 0.7, 0.3, False)
    )
    return projected
