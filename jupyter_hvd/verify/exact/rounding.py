"""Varies the rounding errors of a training: changes the last bits of gradients, and sums over rows in another order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime.observe import Function

#: How much a gradient is changed, relative to the largest entry of all gradients.
LAST_BIT = 2.0**-22
GradientFunction = Callable[..., Any]
#: Operations whose gradient for their second input is a sum over the first dimension of another, by the place of that one.
SUMS = {
    "MatMul": 0,
    "Conv2D": 0,
    "Conv3D": 0,
    "DepthwiseConv2dNative": 0,
    "BiasAdd": 0,
    "Conv2DBackpropInput": 2,
    "Conv3DBackpropInputV2": 2,
}
#: Operations of which that holds where the second input has fewer dimensions.
BROADCASTS = {"AddV2": 0, "Sub": 0, "Mul": 0, "BatchMatMulV2": 0, "BatchMatMulV3": 0}


class OperationOnRows:
    """An operation as its gradient function sees it, with other inputs."""

    def __init__(self, operation: Any, inputs: list[Any]) -> None:
        self._operation, self.inputs = operation, inputs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operation, name)


def sum_gradient_in_pieces(name: str, gradient: GradientFunction, pieces: int) -> GradientFunction:
    """Wrap the gradient function of an operation in `SUMS` or `BROADCASTS` so that it first sums every n-th row separately.

    Args:
        pieces: the number of partial sums, at least 2.
    """
    rows_of = (SUMS | BROADCASTS)[name]

    def summed(operation: Any, *received: Any) -> Any:
        import tensorflow as tf

        found = gradient(operation, *received)
        if not is_sum_over_rows(name, operation, received[0], pieces):
            return found
        first, whole, *more = found
        if not isinstance(whole, tf.Tensor):
            return found
        parts = []
        for place in range(pieces):
            inputs = list(operation.inputs or ())
            # Eagerly, what the gradient does not need is left out.
            if inputs and inputs[rows_of] is not None:
                inputs[rows_of] = inputs[rows_of][place::pieces]
            own, rows = OperationOnRows(operation, inputs), received[0][place::pieces]
            part = gradient(own, rows)[1]
            # Of no rows TensorFlow leaves the gradient of a depthwise convolution unwritten.
            parts.append(tf.where(tf.equal(tf.shape(rows)[0], 0), tf.zeros_like(part), part))
        return [first, tf.add_n(parts), *more]

    return summed


def is_sum_over_rows(name: str, operation: Any, received: Any, pieces: int) -> bool:
    """Whether the gradient for an operation's second input is a sum over enough rows.

    Args:
        received: the gradient for the operation's output, which has these rows.
    """
    import tensorflow as tf

    if not isinstance(received, tf.Tensor) or not received.shape.rank:
        return False
    if name == "MatMul" and operation.get_attr("transpose_a"):
        return False
    rank = operation.inputs[1].shape.rank if name in BROADCASTS else 0
    rows = received.shape[0]
    return rank is not None and received.shape.rank > rank and (rows is None or rows >= pieces)


def look_up_gradient(registry: Any, pieces: int, lookup: Function, other: Any, name: str) -> Any:
    """Look up a function in a TensorFlow registry, and wrap it with `sum_gradient_in_pieces` if it is a gradient function.

    Args:
        registry: the registry of gradients. lookup: TensorFlow's method. other: the registry in which `lookup` searches.
    """
    found = lookup(other, name)
    if other is not registry or name not in SUMS | BROADCASTS:
        return found
    return sum_gradient_in_pieces(name, found, pieces)


def perturb_last_bits(gradients: list[Any], pattern: int = 1) -> list[Any]:
    """Change the last bits of gradients; exact zeros stay.

    Args:
        pattern: decides which entries become larger, and which smaller.
    """
    import tensorflow as tf

    floats = [getattr(g, "values", g) for g in gradients if g is not None]
    floats = [g for g in floats if g.dtype.is_floating]
    if not floats:
        return gradients
    largest = tf.reduce_max([tf.reduce_max(tf.abs(tf.cast(g, tf.float32))) for g in floats])

    def rounded(g: Any) -> Any:
        if g is None or not g.dtype.is_floating:
            return g
        if isinstance(g, tf.IndexedSlices):
            return tf.IndexedSlices(rounded(g.values), g.indices, g.dense_shape)
        places = tf.reshape(tf.range(tf.size(g)), tf.shape(g))
        sign = tf.sign(tf.cos((1.7 + 0.4 * pattern) * tf.cast(places, tf.float32) + 0.3))
        moved = g + tf.cast(LAST_BIT * largest * sign, g.dtype)
        return tf.where(tf.equal(g, 0), g, moved)

    return list(map(rounded, gradients))
