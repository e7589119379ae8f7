"""Computes the moments of batch normalization over the rows of all ranks, in one message."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .context import Region
from .split_gather import gather_statistic, is_padded, real_rows


def global_moments(
    x: Any, region: Region, axes: list[int], mask: Any = None, epsilon: float = 0.0
) -> tuple[Any, Any]:
    """Compute mean and variance over the real rows of all ranks, without the reduced dimensions.

    Args:
        x: this rank's rows, of a type that is precise enough. axes: the axes to reduce, that of rows among them.
        mask: of the shape of `x` without its last dimension; only marked entries count.
        epsilon: is added to counts where there is a mask, as in Keras.
    """
    weight = row_weights(x, region, mask)
    if weight is None:
        count = tf.cast(tf.reduce_prod(tf.gather(tf.shape(x), axes)), x.dtype)
        mean = tf.reduce_mean(x, axes)
        squares = tf.reduce_sum(tf.math.squared_difference(x, tf.reduce_mean(x, axes, keepdims=True)), axes)  # fmt: skip
        counts = tf.ones_like(mean) * count
    else:
        weight = tf.broadcast_to(weight, tf.shape(x))
        counts = tf.reduce_sum(weight, axes)
        total = tf.reduce_sum(weight * x, axes, keepdims=True)
        kept_mean = tf.math.divide_no_nan(total, tf.reduce_sum(weight, axes, keepdims=True))
        mean = tf.reshape(kept_mean, tf.shape(counts))
        squares = tf.reduce_sum(weight * tf.math.squared_difference(x, kept_mean), axes)
    every = gather_statistic(tf.stack([counts, mean, squares]))
    counts, means, squares = every[:, 0], every[:, 1], every[:, 2]
    count = tf.reduce_sum(counts, 0) + epsilon * (mask is not None)
    mean = tf.math.divide_no_nan(tf.reduce_sum(counts * means, 0), count)
    apart = counts * tf.math.squared_difference(means, mean)
    return mean, tf.math.divide_no_nan(tf.reduce_sum(squares + apart, 0), count)


def row_weights(x: Any, region: Region, mask: Any) -> Any:
    """Return 1 for entries that count, 0 for padding rows and masked entries; None where all entries count."""
    weight = None
    if is_padded(region.rows):
        real = tf.cast(real_rows(region.rows), x.dtype)
        weight = tf.reshape(real, [-1] + [1] * (len(x.shape) - 1))
    if mask is not None:
        marked = tf.cast(mask, x.dtype)[..., None]
        weight = marked if weight is None else weight * marked
    return weight
