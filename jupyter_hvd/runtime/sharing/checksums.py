"""Checksums of the inputs of shared calls: ranks with different data stop at once."""

from __future__ import annotations

import re
import sys
import sysconfig
import zlib
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

#: How the message about ranks with different data begins, by which it is found in TensorFlow's errors.
DIFFERENT = "jupyter_hvd: the ranks computed on different data"
#: Losses of ranks are equal when they differ by no more than this part.
EQUAL_LOSSES = 1e-4
#: What is no line of the user's.
INSTALLED = tuple({*sysconfig.get_paths().values(), str(Path(__file__).parents[2])})
#: The file of a notebook's cell on the ranks.
CELL = re.compile(r"<(In\[\d+\])#\d+>")


class DifferentDataError(RuntimeError):
    """Raised where ranks call a layer on different data."""


class Checksum:
    """A 32-bit checksum of some tensors and the order of their rows, and the line that uses them."""

    def __init__(self, bits: Any, site: str) -> None:
        self.bits, self.site = bits, site

    @classmethod
    def of(cls, tensors: list[Any], site: str) -> Checksum:
        """Return the checksum of some tensors at a call's place, as a tensor of int32."""
        if not all(hasattr(t, "numpy") for t in tensors):
            return cls(hash_tensors(tensors), site)
        bits = 0
        for t in tensors:
            bits = zlib.crc32(np.ascontiguousarray(t.numpy()).tobytes(), bits)
        return cls(tf.constant(bits - 2**31, tf.int32), site)

    def as_type(self, dtype: Any) -> Any:
        """Return the checksum as one or several values of another type."""
        if dtype.size == 8:
            return tf.bitcast(tf.cast(self.bits, tf.int64), dtype)
        return tf.bitcast(self.bits, dtype)

    def compare_gathered(self, every: Any, count: int) -> Any:
        """Compare the checksums at the end of gathered values, and return the values without them.

        Raises:
            DifferentDataError: in an eager call they differ; a compiled one raises an error of TensorFlow.
        """
        sent = every[:, -count:]
        own = tf.reshape(self.as_type(every.dtype), [1, -1])
        integer = {1: tf.uint8, 2: tf.uint16, 4: tf.int32, 8: tf.int64}[every.dtype.size]
        same = tf.reduce_all(tf.equal(tf.bitcast(sent, integer), tf.bitcast(own, integer)))
        if tf.executing_eagerly():
            if not bool(same):
                raise DifferentDataError(self.as_message())
            return every[:, :-count]
        with tf.control_dependencies([tf.debugging.Assert(same, [self.as_message()])]):
            return every[:, :-count]

    def exchange_checksums(self) -> None:
        """Compare the checksums of all ranks in a separate message.

        Raises:
            DifferentDataError: as `compare_gathered` does.
        """
        own = tf.reshape(self.as_type(tf.int32), [1, -1])
        self.compare_gathered(hvd.allgather(own), 1)

    def as_message(self) -> str:
        """Return the message for ranks with different data at this place."""
        return describe_different_data(self.site)


def describe_different_data(site: str) -> str:
    """Return the message for ranks with different data.

    Args:
        site: the line; "" for the one that is running.
    """
    return (
        f"{DIFFERENT} at {site or call_site()}. Every rank must read the same batches: give one seed to all that draws or "
        "shuffles them, and sort lists of files; or let rank 0 read them, by "
        "--data rank0 for datasets and arrays, by jhvd.rank_zero(value) for other values."
    )


def require_equal_losses(loss: Any, mean: Any, site: str) -> list[Any]:
    """Check that this rank's loss equals the mean: labels and weights are not among the arguments of shared calls.

    Args:
        loss: this rank's.
        mean: over all ranks.

    Returns:
        Operations that must run before the gradients are used, in a compiled step.

    Raises:
        DifferentDataError: in an eager call they differ; a compiled one raises an error of TensorFlow.
    """
    allowed = EQUAL_LOSSES * tf.abs(loss) + tf.cast(1e-6, loss.dtype)
    same = tf.logical_or(tf.abs(loss - mean) <= allowed, tf.logical_not(tf.math.is_finite(loss)))
    if not tf.executing_eagerly():
        return [tf.debugging.Assert(same, [describe_different_data(site)])]
    if not bool(same):
        raise DifferentDataError(describe_different_data(site))
    return []


def hash_tensors(tensors: list[Any]) -> Any:
    """Return a number that changes with any value in the tensors and with the order of their rows."""
    return tf.add_n([(2 * i + 1) * hash_tensor(t) for i, t in enumerate(tensors)])


def hash_tensor(tensor: Any) -> Any:
    """Return a number that changes with any value in a tensor and with the order of its rows."""
    dtype = tensor.dtype
    if dtype == tf.string:
        tensor = tf.strings.to_hash_bucket_fast(tensor, 2**31 - 1)
        dtype = tensor.dtype
    if dtype.is_complex:
        tensor = tf.stack([tf.math.real(tensor), tf.math.imag(tensor)], -1)
        dtype = tensor.dtype
    if dtype.size in (4, 8):
        bits = tensor if dtype == tf.int32 else tf.bitcast(tensor, tf.int32)
    elif dtype.size == 2:
        bits = tf.cast(tf.bitcast(tensor, tf.int16), tf.int32)
    else:
        bits = tf.cast(tensor, tf.int32)
    rows = tf.shape(tensor)[0]
    sums = tf.reduce_sum(bits, list(range(1, len(bits.shape))))
    return tf.reduce_sum(sums * (2 * tf.range(rows) + 1)) + rows


def call_site() -> str:
    """Return the line of the user's program that is running, as `train.py, line 12`."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if (
            not name.startswith((*INSTALLED, "<frozen"))
            and "__autograph_generated_file" not in name
        ):
            cell = CELL.fullmatch(name)
            return f"{cell[1] if cell else Path(name).name}, line {frame.f_lineno}"
        frame = frame.f_back
    return "an unknown line"
