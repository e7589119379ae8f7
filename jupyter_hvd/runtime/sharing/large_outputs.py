"""Shares losses and metrics of large outputs, if they are known to be means or sums over rows."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from ..observe import Function, listening, observe
from .calls import share_call
from .context import sharing
from .own_rows import find_own_rows

#: Losses by rows of TensorFlow.
LOSSES = (
    "sparse_softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits",
    "sigmoid_cross_entropy_with_logits",
)
#: What a loss makes of its values for all entries: of Keras' reductions, those that are means or sums over rows.
MEANS, SUMS = ("sum_over_batch_size", "mean"), ("sum",)


def install_losses(keras: Any) -> None:
    """Have losses and metrics of large outputs computed on each rank's own rows."""
    by_rows = functools.partial(share_rows, keras)
    for name in LOSSES:
        observe(tf.nn, name, by_rows)
    if keras.is_keras_3:
        losses = keras.losses
        reduce = functools.partial(reduce_by_rows, losses, keras)
        update = functools.partial(update_by_rows, losses.function_name, keras)
        observe(losses.LossFunctionWrapper, "call", functools.partial(share_loss, keras))
        observe(losses.reducing, "reduce_weighted_values", reduce)
        observe(losses.MeanMetricWrapper, "update_state", update)
        observe(losses.metrics, "reduce_to_samplewise_values", by_rows)


def has_own_rows(*values: Any) -> bool:
    """Whether a call may be shared here, and some of its arguments are not gathered yet."""
    if not sharing.active or sharing.region is not None or sharing.whole or not sharing.in_charge:
        return False
    return any(find_own_rows(value) is not None for value in tf.nest.flatten(values))


def share_rows(keras: Any, function: Function, /, *args: Any, **options: Any) -> Any:
    """Call a function that computes each row separately; shared if its inputs are large outputs."""
    if not has_own_rows(args, options):
        return function(*args, **options)
    return share_call(function, function, keras, args, options, any_rows=True)


def share_loss(keras: Any, call: Function, loss: Any, y_true: Any, y_pred: Any) -> Any:
    """Compute the entries of a Keras loss."""
    if not (keras.is_own_function(loss.fn) and has_own_rows(y_true, y_pred)):
        return call(loss, y_true, y_pred)
    values = functools.partial(call, loss)
    return share_call(values, loss, keras, (y_true, y_pred), {}, any_rows=True)


def reduce_by_rows(
    losses: Any,
    keras: Any,
    reduce: Function,
    values: Any,
    sample_weight: Any = None,
    mask: Any = None,
    reduction: Any = MEANS[0],
    dtype: Any = None,
) -> Any:
    """Compute a mean or sum over entries from those over each row."""
    by_rows = {**dict.fromkeys(MEANS, mean_of_rows), **dict.fromkeys(SUMS, sum_of_rows)}
    function = by_rows.get(reduction)
    if function is None or not has_own_rows(values):
        return reduce(values, sample_weight, mask, reduction, dtype)
    weights = losses.reducing.apply_mask(
        sample_weight, mask, dtype=values.dtype, reduction=reduction
    )
    if weights is not None:
        weights = tf.cast(weights, values.dtype)
        if len(weights.shape) != len(values.shape):
            return reduce(values, sample_weight, mask, reduction, dtype)
    found = share_call(function, function, keras, (values, weights), {}, any_rows=True)
    return reduce(found, None, None, reduction, dtype)


def mean_of_rows(values: Any, weights: Any) -> Any:
    """Return the weighted mean over all axes but the first."""
    weighted = values if weights is None else values * weights
    return tf.reduce_mean(weighted, list(range(1, len(weighted.shape))))


def sum_of_rows(values: Any, weights: Any) -> Any:
    """Return the weighted sum over all axes but the first."""
    weighted = values if weights is None else values * weights
    return tf.reduce_sum(weighted, list(range(1, len(weighted.shape))))


def update_by_rows(
    name: str,
    keras: Any,
    update: Function,
    metric: Any,
    y_true: Any,
    y_pred: Any,
    sample_weight: Any = None,
) -> Any:
    """Update a metric that is the mean of a Keras function.

    Args:
        name: the attribute that holds the function.
    """
    function = getattr(metric, name)
    if not (keras.is_own_function(function) and has_own_rows(y_true, y_pred)):
        return update(metric, y_true, y_pred, sample_weight)
    setattr(metric, name, listening(function, functools.partial(share_rows, keras)))
    try:
        return update(metric, y_true, y_pred, sample_weight)
    finally:
        setattr(metric, name, function)
