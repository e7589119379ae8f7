"""Split a batch into the rows of each rank, and gather them: each is the other's derivative.

Rank r of N has the rows r, r + N, r + 2 N, …; a rank that has one less than others has its last one twice. Within a
shared call, gradients are N times those of one process for own rows, and the mean over ranks is the whole gradient.
"""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from .checksums import Checksum
from .context import NotByRowsError, sharing

#: What Horovod sends.
SENT = (tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64, tf.float16, tf.float32, tf.float64)  # fmt: skip
#: What is sent as another type of equal size.
SENT_AS = {tf.bool: tf.uint8, tf.bfloat16: tf.int16, tf.uint32: tf.int32, tf.uint64: tf.int64}


def list_own_rows(rows: Any) -> Any:
    """Return the row numbers of this rank in the batch. The last one is past the end where other ranks have a row more."""
    own = (rows + sharing.size - 1) // sharing.size
    return sharing.rank + sharing.size * (
        np.arange(own) if isinstance(rows, int) else tf.range(own)
    )


def list_padded_rows(rows: Any) -> Any:
    """Return the row numbers of this rank; the last one is repeated where other ranks have a row more."""
    places = list_own_rows(rows)
    choose = np.where if isinstance(rows, int) else tf.where
    before = choose(places >= sharing.size, places - sharing.size, rows - 1)
    places = choose(places < rows, places, before)
    if not isinstance(rows, int):
        return places
    return (places if sharing.order is None else sharing.order[places]).astype(np.int32)


def is_padded(rows: Any) -> bool:
    """Whether some rank may have a repeated row."""
    return not isinstance(rows, int) or rows % sharing.size != 0


def real_rows(rows: Any) -> Any:
    """Return, for each row of this rank, whether it is no repetition."""
    return tf.convert_to_tensor(list_own_rows(rows) < rows)


def split_rows(x: Any, rows: Any) -> Any:
    """Return this rank's rows of a tensor."""
    if not has_gradient(x.dtype):
        return tf.gather(x, list_padded_rows(rows))

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def forward(x: Any) -> Any:
        def backward(g: Any) -> Any:
            return gather_rows(tf.convert_to_tensor(g), rows) / cast_number(sharing.size, g.dtype)

        return tf.gather(x, list_padded_rows(rows)), backward

    return forward(x)


def split_gradient(x: Any, rows: Any, factor: int = 1) -> Any:
    """Return this rank's rows of a gradient times a factor, with zeros for repeated rows."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def forward(x: Any) -> Any:
        own = tf.gather(x, list_padded_rows(rows))
        if is_padded(rows):
            real = tf.cast(real_rows(rows), x.dtype) * cast_number(factor, x.dtype)
            own *= tf.reshape(real, [-1] + [1] * (len(x.shape) - 1))
        elif factor != 1:
            own *= cast_number(factor, x.dtype)

        def backward(g: Any) -> Any:
            return gather_rows(tf.convert_to_tensor(g), rows) * cast_number(
                factor / sharing.size, g.dtype
            )

        return own, backward

    return forward(x)


def gather_rows(y: Any, rows: Any, checksum: Checksum | None = None) -> Any:
    """Gather the rows of all ranks, in order.

    Args:
        checksum: of the inputs of this computation, which must be equal on all ranks; it is sent along and compared.

    Raises:
        NotByRowsError: Horovod cannot send such a tensor.
    """
    if not has_gradient(y.dtype):
        return gather_values(y, rows, checksum)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def forward(y: Any) -> Any:
        def backward(g: Any) -> Any:
            return split_gradient(tf.convert_to_tensor(g), rows, factor=sharing.size)

        return gather_values(y, rows, checksum), backward

    return forward(y)


def gather_values(y: Any, rows: Any, checksum: Checksum | None = None) -> Any:
    """Return the rows of all ranks as one tensor, without a derivative."""
    if y.dtype.is_complex:
        parts = tf.stack([tf.math.real(y), tf.math.imag(y)], -1)
        both = gather_values(parts, rows, checksum)
        return tf.complex(both[..., 0], both[..., 1])
    if y.dtype in SENT_AS:
        sent = SENT_AS[y.dtype]
        if y.dtype == tf.bool:
            return tf.cast(gather_values(tf.cast(y, sent), rows, checksum), tf.bool)
        return tf.bitcast(gather_values(tf.bitcast(y, sent), rows, checksum), y.dtype)
    if y.dtype not in SENT:
        raise NotByRowsError(f"it returns values of type {y.dtype.name}, which cannot be sent")
    own = (rows + sharing.size - 1) // sharing.size
    trail = y.shape[1:] if y.shape[1:].is_fully_defined() else tf.shape(y)[1:]
    flat = tf.reshape(y, [1, -1])  # one row a rank: Horovod refuses what differs in size
    if checksum is None:
        every = hvd.allgather(flat)
    else:
        tail = tf.reshape(checksum.as_type(y.dtype), [1, -1])
        every = hvd.allgather(tf.concat([flat, tail], 1))
        every = checksum.compare_gathered(every, tail.shape[1])
    every = tf.reshape(every, tf.concat([[sharing.size * own], trail], 0))
    row = np.arange(rows) if isinstance(rows, int) else tf.range(rows)
    if sharing.order is not None:
        row = np.argsort(sharing.order)
    whole = tf.gather(every, row % sharing.size * own + row // sharing.size)
    static = rows if isinstance(rows, int) else None
    return tf.ensure_shape(whole, [static, *y.shape[1:]])


def replicate_tensor(x: Any) -> Any:
    """Return a tensor that all ranks use in full, whose gradient is the mean of theirs."""
    if not has_gradient(x.dtype):
        return x

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def forward(x: Any) -> Any:
        return tf.identity(x), mean_over_ranks

    return forward(x)


def mean_over_ranks(x: Any) -> Any:
    """Return the mean of a tensor over the ranks; the derivative is the same operation."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def forward(x: Any) -> Any:
        return hvd.allreduce(x, op=hvd.Average), mean_over_ranks

    return forward(tf.convert_to_tensor(x))


def gather_statistic(t: Any) -> Any:
    """Return a statistic of each rank's own rows, stacked, on all ranks; it has a derivative."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def forward(t: Any) -> Any:
        return hvd.allgather(t[None]), sum_and_select

    return forward(t)


def sum_and_select(g: Any) -> Any:
    """Sum over the ranks and select this rank's part: the derivative of `gather_statistic`, and vice versa."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def forward(g: Any) -> Any:
        return hvd.allreduce(g, op=hvd.Sum)[sharing.rank], gather_statistic

    return forward(tf.convert_to_tensor(g))


def has_gradient(dtype: Any) -> bool:
    """Whether tensors of a dtype have gradients."""
    return bool(dtype.is_floating or dtype.is_complex)


def cast_number(number: float, dtype: Any) -> Any:
    """Return a number as a tensor of a dtype."""
    return tf.cast(number, dtype)
