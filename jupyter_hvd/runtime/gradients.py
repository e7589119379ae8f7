"""Gradients averaged over the ranks: whatever structure they come in, of the variables of any Keras."""

from __future__ import annotations

from typing import Any


def average_gradients(gradients: Any, compression: Any = None) -> Any:
    """Gradients in any structure averaged over the ranks: dense ones of a type in one message; `None` stays.

    Args:
        compression: one of `hvd.Compression`.
    """
    import os

    import horovod.tensorflow as hvd
    import tensorflow as tf

    if hvd.size() == 1 and os.environ.get("HOROVOD_ELASTIC", "0") == "0":  # else more may come
        return gradients
    # Nothing here depends on a tensor's value: AutoGraph would rewrite Horovod's functions for seconds, in vain.
    average = tf.autograph.experimental.do_not_convert(_averages)
    return average(gradients, compression or hvd.Compression.none)


def _averages(gradients: Any, compression: Any) -> Any:
    """`average_gradients` of more than one rank."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    means = tf.nest.flatten(gradients)
    dense: dict[Any, list[int]] = {}
    for place, gradient in enumerate(means):
        if isinstance(gradient, tf.IndexedSlices):
            means[place] = hvd.allreduce(gradient, compression=compression)
        elif gradient is not None:
            means[place] = tf.convert_to_tensor(gradient)
            dense.setdefault(means[place].dtype, []).append(place)
    for places in dense.values():
        group = hvd.grouped_allreduce([means[p] for p in places], compression=compression)
        for place, mean in zip(places, group, strict=True):
            means[place] = mean
    return tf.nest.pack_sequence_as(gradients, means)


def DistributedGradientTape(tape: Any, compression: Any = None) -> Any:  # noqa: N802 — as Horovod calls it
    """A tape like this one, of what it has recorded, whose gradients are averaged over the ranks.

    Horovod's own knows flat lists of TensorFlow's variables; this one takes any sources, those of Keras 3 too.

    Args:
        compression: one of `hvd.Compression`.
    """
    import copy

    averaging = copy.copy(tape)
    gradient = type(tape).gradient.__get__(averaging)
    averaging.gradient = lambda *args, **kw: average_gradients(gradient(*args, **kw), compression)
    return averaging
