"""The same entries in another shape or order, and differences of neighbours."""

from __future__ import annotations

import numpy as np

from .axes import along, axes_of, named_axes
from .definitions import Array, Arrays, array, numpy


@array.squeeze
def squeeze(a: Array, axis=None):
    """Remove axes of size 1."""
    one = [k for k, n in enumerate(a.shape) if isinstance(n, int) and n == 1]
    gone = one if axis is None else axes_of(a.ndim, axis)
    if any(int(a.shape[k]) != 1 for k in gone):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return np.reshape(a, [n for k, n in enumerate(a.shape) if k not in gone])


@numpy.expand_dims
def expand_dims(a: Array, axis):
    """Insert axes of size 1 at these positions of the result."""
    named = axis if isinstance(axis, tuple | list) else (axis,)
    new = {*named_axes(a.ndim + len(named), named)}
    if len(new) < len(named):
        raise ValueError("repeated axis")
    sizes = iter(a.shape)
    return np.reshape(a, [1 if k in new else next(sizes) for k in range(a.ndim + len(new))])


@numpy.flip
def flip(m: Array, axis=None):
    """Reverse the entries along axes, all by default."""
    turned = axes_of(m.ndim, axis)
    return m[tuple(slice(None, None, -1 if k in turned else None) for k in range(m.ndim))]


@array.take
def take(a: Array, indices, axis=None):
    """Return the entries at some indices along an axis, or of the flattened array."""
    if axis is None:
        return np.ravel(a)[indices]
    (k,) = axes_of(a.ndim, axis)
    return a[along(k, indices)]


@array.swapaxes
def swapaxes(a: Array, axis1, axis2):
    """Exchange two axes."""
    order = list(range(a.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return np.transpose(a, order)


@numpy.moveaxis
def moveaxis(a: Array, source, destination):
    """Move axes to other positions; the others keep their order."""
    before, after = named_axes(a.ndim, source), named_axes(a.ndim, destination)
    order = [k for k in range(a.ndim) if k not in before]
    for place, k in sorted(zip(after, before, strict=True)):
        order.insert(place, k)
    return np.transpose(a, order)


@numpy.flipud
def flipud(m):
    """Reverse the rows."""
    return np.flip(m, 0)


@numpy.fliplr
def fliplr(m):
    """Reverse the columns."""
    return np.flip(m, 1)


@numpy.rot90
def rot90(m: Array, k=1, axes=(0, 1)):
    """Rotate by 90 degrees, k times, from the first axis to the second."""
    one, two = named_axes(m.ndim, axes)
    if one == two:
        raise ValueError("Axes must be different.")
    if k % 2 == 0:
        return np.flip(m, axes) if k % 4 else m
    return np.swapaxes(np.flip(m, two if k % 4 == 1 else one), one, two)


# Side by side


@numpy.atleast_1d
def atleast_1d(x: Array):
    """Return an array of at least one axis."""
    return x if x.ndim else np.expand_dims(x, 0)


@numpy.atleast_2d
def atleast_2d(x: Array):
    """Return an array of at least two axes."""
    return x if x.ndim > 1 else np.expand_dims(np.atleast_1d(x), 0)


@numpy.hstack
def hstack(arrays: Arrays):
    """Concatenate arrays along the second axis, vectors along their only one."""
    parts = [np.atleast_1d(x) for x in arrays]
    return np.concatenate(parts, 0 if parts[0].ndim == 1 else 1)


@numpy.row_stack
@numpy.vstack
def vstack(arrays: Arrays):
    """Concatenate arrays along the first axis, vectors as rows."""
    return np.concatenate([np.atleast_2d(x) for x in arrays], 0)


@numpy.dstack
def dstack(arrays: Arrays):
    """Concatenate arrays along the third axis."""
    parts = [np.atleast_2d(x) for x in arrays]
    return np.concatenate([x[:, :, None] if x.ndim == 2 else x for x in parts], 2)


@numpy.column_stack
def column_stack(arrays: Arrays):
    """Concatenate arrays along the second axis, vectors as columns."""
    return np.concatenate([x if x.ndim > 1 else np.atleast_2d(x).T for x in arrays], 1)


@numpy.append
def append(a: Array, values: Array, axis=None):
    """Concatenate two arrays along an axis, or flattened."""
    if axis is None:
        return np.concatenate([np.ravel(a), np.ravel(values)])
    return np.concatenate([a, values], axis)


@numpy.tile
def tile(a: Array, reps):
    """Repeat an array along its axes."""
    counts = tuple(reps) if isinstance(reps, tuple | list) else (reps,)
    while a.ndim < len(counts):
        a = np.expand_dims(a, 0)
    counts = (1,) * (a.ndim - len(counts)) + counts
    if any(isinstance(count, int) and count < 1 for count in counts):
        raise ValueError("no times leaves no entries: repeat it once at least")
    for k, count in enumerate(counts):
        a = a if count == 1 else np.concatenate([a] * count, k)
    return a


@numpy.insert
def insert(a: Array, index, value, axis=None):
    """Insert a number before a constant index of a vector."""
    if not isinstance(index, int) or a.ndim != 1 or axis or getattr(value, "ndim", 0):
        raise TypeError("takes a vector, a constant place and a number: `concatenate` the parts")
    return np.concatenate([a[:index], [value], a[index:]])


@numpy.vander
def vander(x: Array, N=None, increasing=False):  # noqa: N803 - NumPy's name
    """Return the powers of a vector as columns, by default in descending order."""
    count = int(x.shape[0] if N is None else N)
    powers = range(count) if increasing else range(count - 1, -1, -1)
    return np.stack([x**k for k in powers], 1)


# Apart


@numpy.split
def split(ary: Array, indices_or_sections, axis=0):
    """Split along an axis into equal parts, or at indices."""
    (k,) = axes_of(ary.ndim, axis)
    ends = indices_or_sections
    if not isinstance(ends, tuple | list):
        size, parts = int(ary.shape[k]), int(ends)
        if size % parts:
            raise ValueError("array split does not result in an equal division")
        ends = [size // parts * j for j in range(1, parts)]
    pairs = zip([None, *ends], [*ends, None], strict=True)
    return [ary[along(k, slice(*pair))] for pair in pairs]


@numpy.hsplit
def hsplit(ary: Array, indices_or_sections):
    """Split along the second axis, vectors along their only one."""
    return np.split(ary, indices_or_sections, min(1, ary.ndim - 1))


@numpy.vsplit
def vsplit(ary, indices_or_sections):
    """Split along the first axis."""
    return np.split(ary, indices_or_sections, 0)


# Differences


@numpy.diff
def diff(a: Array, n=1, axis=-1, prepend: Array = None, append: Array = None):
    """Return `a[i + 1] - a[i]`, n times; with values before the first and after the last entry, if given."""
    (k,) = axes_of(a.ndim, axis)
    if not isinstance(n, int) or n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    if n == 0:
        return a
    if prepend is not None or append is not None:
        edge = (*a.shape[:k], 1, *a.shape[k + 1 :])
        parts = [prepend, a, append]
        parts = [x if x.ndim else np.broadcast_to(x, edge) for x in parts if x is not None]
        a = np.concatenate(parts, k)
    step = a[along(k, slice(1, None))] - a[along(k, slice(None, -1))]
    return step if n == 1 else np.diff(step, n - 1, k)


@numpy.gradient
def gradient(f: Array, *varargs, axis=None, edge_order=1):
    """Return central differences along each axis, with one-sided ones at the ends.

    Args:
        varargs: for each axis the spacing, or the coordinates; or one for all.
    """
    axes = axes_of(f.ndim, axis)
    steps = varargs * len(axes) if len(varargs) == 1 else varargs or (1,) * len(axes)
    if len(steps) != len(axes):
        raise TypeError("invalid number of arguments")
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    made = [_axis_slopes(f, step, k, edge_order) for step, k in zip(steps, axes, strict=True)]
    return made[0] if len(made) == 1 else tuple(made)


def _axis_slopes(f, spacing, k, order):
    """Return slopes along axis k; with `order` 2, the ends use three entries, exact for parabolas."""
    if isinstance(f.shape[k], int) and f.shape[k] <= order:
        raise ValueError("Shape of array too small to calculate a numerical gradient")
    rank = getattr(spacing, "ndim", 0)
    if rank > 1 or (rank and order == 2):
        raise ValueError("places are of one dimension, and edge_order is 1 beside them")

    def part(array, *ends):
        return array[along(k, slice(*ends))]

    if rank:
        step = np.diff(spacing)[(*[None] * k, ..., *[None] * (f.ndim - 1 - k))]
        each = np.diff(f, axis=k) / step
        # The slopes on both sides, each with the other side's width as its weight.
        before, after = part(step, None, -1), part(step, 1, None)
        sides = after * part(each, None, -1) + before * part(each, 1, None)
        inner = sides / (before + after)
        return np.concatenate([part(each, None, 1), inner, part(each, -1, None)], k)
    step = spacing
    first = (part(f, 1, 2) - part(f, None, 1)) / step
    last = (part(f, -1, None) - part(f, -2, -1)) / step
    inner = (part(f, 2, None) - part(f, None, -2)) / (2 * step)
    if order == 2:
        first = 1.5 * first - 0.5 * ((part(f, 2, 3) - part(f, 1, 2)) / step)
        last = 1.5 * last - 0.5 * ((part(f, -2, -1) - part(f, -3, -2)) / step)
    return np.concatenate([first, inner, last], k)
