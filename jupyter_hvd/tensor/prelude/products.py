"""Products of vectors and matrices, parts of matrices, and norms."""

from __future__ import annotations

import numpy as np

from ..language.errors import TensorError
from .axes import axes_of, named_axes
from .definitions import Array, array, numpy


@numpy.matmul
def matmul(a: Array, b: Array):
    """Return `a @ b`: a sum over the last axis of a and the last but one of b; other axes broadcast."""
    if not a.ndim or not b.ndim:
        raise TensorError("`@` takes arrays, not a scalar", "write `*`")
    left, right = "...ij" if a.ndim > 1 else "j", "...jk" if b.ndim > 1 else "j"
    return np.einsum(f"{left},{right}->...{left[3:4]}{right[4:]}", a, b)


@array.dot
def dot(a: Array, b: Array):
    """Return the sum over the last axis of a and the last but one of b."""
    if not a.ndim or not b.ndim:
        return a * b
    return np.tensordot(a, b, (-1, -2 if b.ndim > 1 else -1))


@numpy.vdot
def vdot(a: Array, b: Array):
    """Return the inner product of the flattened arrays."""
    return np.dot(np.ravel(a), np.ravel(b))


@numpy.inner
def inner(a: Array, b: Array):
    """Return the sum over the last axes of both."""
    return np.tensordot(a, b, (-1, -1)) if a.ndim and b.ndim else a * b


@numpy.outer
def outer(a: Array, b: Array):
    """Return `a[i]·b[j]` of the flattened arrays."""
    return np.einsum("i,j->ij", np.ravel(a), np.ravel(b))


@numpy.cross
def cross(a: Array, b: Array):
    """Return the cross product of vectors of three numbers along the last axes."""
    for x in (a, b):
        if not x.ndim or int(x.shape[-1]) != 3:
            raise ValueError("incompatible dimensions for cross product (dimension must be 3)")
    u, v = ([x[..., k] for k in range(3)] for x in (a, b))
    return np.stack([u[j - 2] * v[j - 1] - u[j - 1] * v[j - 2] for j in range(3)], -1)


@numpy.kron
def kron(a: Array, b: Array):
    """Return the Kronecker product."""
    if a.ndim != b.ndim:
        raise ValueError("takes two arrays with the same number of dimensions")
    left, right = "abcdefgh"[: a.ndim], "pqrstuvw"[: b.ndim]
    mixed = "".join(x + y for x, y in zip(left, right, strict=True))
    shape = [int(m) * int(n) for m, n in zip(a.shape, b.shape, strict=True)]
    return np.reshape(np.einsum(f"{left},{right}->{mixed}", a, b), shape)


@numpy.correlate
def correlate(a: Array, v: Array, mode="valid"):
    """Return the cross-correlation of two vectors."""
    return np.convolve(a, v[::-1], mode)


@array.trace
def trace(a: Array, offset=0):
    """Return the sum of a diagonal."""
    return np.sum(np.diagonal(a, offset), -1)


@numpy.diag
def diag(v: Array, k=0):
    """Return the matrix with a diagonal, or the diagonal of a matrix."""
    if v.ndim == 2:
        return np.diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    row = np.pad(v, (max(0, -k), max(0, k))) if k else v
    return np.where(np.eye(row.shape[0], k=k, dtype=bool, like=v), row[:, None], 0)


@numpy.diagflat
def diagflat(v: Array, k=0):
    """Return the matrix whose diagonal is the flattened array."""
    return np.diag(np.ravel(v), k)


@numpy.tril
def tril(m: Array, k=0):
    """Return the part on and below a diagonal, zero elsewhere."""
    return np.where(_on_or_below(m.shape, k, like=m), m, 0)


@numpy.triu
def triu(m: Array, k=0):
    """Return the part on and above a diagonal, zero elsewhere."""
    return np.where(_on_or_below(m.shape, k - 1, like=m), 0, m)


def _on_or_below(shape, k, like):
    """Whether an entry is on the k-th diagonal of a matrix, or below it."""
    if len(shape) < 2:
        raise ValueError("a triangle is that of a matrix")
    return np.tri(shape[-2], shape[-1], k, bool, like=like)


@numpy.linalg.norm
def norm(x: Array, ord=None, axis=None, keepdims=False):  # noqa: A002 - NumPy's name
    """Return a norm of vectors, or of matrices.

    Of vectors these are `sum(|x|**p)**(1/p)` and `max(|x|)`; of matrices the largest sum of `|x|` over a row or column,
    and the sum, the largest and the least of the singular values.
    """
    axes = axes_of(x.ndim, axis)
    if ord is None or (ord == "fro" and len(axes) == 2) or (ord == 2 and len(axes) == 1):
        return np.sqrt(np.sum(x**2, axis, keepdims=keepdims))
    if len(axes) == 1 and isinstance(ord, int | float):
        return _norm_of_vectors(abs(x), ord, axis, keepdims)
    if len(axes) == 2 and ord in (1, -1, np.inf, -np.inf):
        rows, columns = axes if axis is None else named_axes(x.ndim, axis)
        summed, rest = (rows, columns) if abs(ord) == 1 else (columns, rows)
        extreme = np.max if ord > 0 else np.min
        made = extreme(np.sum(abs(x), summed, keepdims=True), rest, keepdims=True)
        return made if keepdims else np.squeeze(made, axes)
    if len(axes) == 2 and x.ndim == 2 and ord in ("nuc", 2, -2):
        values = np.linalg.svd(x, compute_uv=False)
        extreme = np.max if ord == 2 else np.min
        made = np.sum(values) if ord == "nuc" else extreme(values)
        return np.reshape(made, (1, 1)) if keepdims else made
    raise TensorError(
        f"the norm of order {ord!r}",
        "of one matrix there are 'fro', 'nuc', 1, -1, 2, -2, inf and -inf",
    )


def _norm_of_vectors(size, p, axis, keepdims):
    """Return the p-norm along one axis, from absolute values."""
    if abs(p) == np.inf:
        return (np.max if p > 0 else np.min)(size, axis, keepdims=keepdims)
    if p == 0:
        return np.sum(size != 0, axis, keepdims=keepdims)
    if p == 1:
        return np.sum(size, axis, keepdims=keepdims)
    return np.sum(size**p, axis, keepdims=keepdims) ** (1 / p)
