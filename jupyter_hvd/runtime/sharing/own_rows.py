"""Large outputs of shared calls: the next shared call takes this rank's rows instead of the gathered tensor.

`split(gather(y))` is `y`. So the gathered tensor keeps `y` beside it, and a shared call that is given it, such as that
of a loss, neither splits nor waits. In a compiled step nothing is sent of what nobody reads: TensorFlow leaves that
operation out. An eager call has gathered already when the next one comes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ..observe import Function, observe

#: Bytes of an output's row from which the message that it saves is worth those that sharing a loss takes.
LARGE_ROW = 4096
ATTRIBUTE = "_jupyter_hvd_own_rows"
#: The same of what an iterator gathered, which a shared call takes only within a step of Keras' own.
READ = "_jupyter_hvd_read_rows"
STEPS = ("train_step", "test_step", "predict_step")
#: Operations that compute each row of what they return from the same row.
FOLLOWED = ("Cast", "Identity")


@dataclass(frozen=True)
class OwnRows:
    """This rank's rows of a gathered tensor.

    Attributes:
        values: the rows, including padding. rows: the number of rows of the gathered tensor, a number or a tensor.
    """

    values: Any
    rows: Any


def is_large(output: Any) -> bool:
    """Whether a row of a compiled call's output has many bytes."""
    return not tf.executing_eagerly() and has_large_rows(output)


def has_large_rows(output: Any) -> bool:
    """Whether a row of a tensor has many bytes; unknown dimensions count as one."""
    entries = 1
    for dimension in output.shape[1:]:
        entries *= dimension or 1
    return bool(entries * output.dtype.size >= LARGE_ROW)


def attach_own_rows(full_tensor: Any, values: Any, rows: Any) -> None:
    """Attach own rows to the tensor that was gathered from them.

    Reading the rows and gathering them use different tensors. So the gradient for the gathered tensor is the sum of
    two
    gradients, neither of which is part of the other.
    """
    setattr(full_tensor, ATTRIBUTE, OwnRows(tf.identity(values), rows))


def find_own_rows(tensor: Any) -> OwnRows | None:
    """Return the own rows from which a tensor was gathered, also after a cast; None where unknown."""
    if not isinstance(tensor, tf.Tensor) or hasattr(tensor, "numpy"):
        return None
    found: OwnRows | None = getattr(tensor, ATTRIBUTE, None)
    if found is None and tensor.op.type in FOLLOWED:
        before = find_own_rows(tensor.op.inputs[0])
        if before is not None:
            found = OwnRows(tf.cast(before.values, tensor.dtype), before.rows)
            setattr(tensor, ATTRIBUTE, found)
    return found


def attach_read_rows(full_tensor: Any, values: Any, rows: Any) -> None:
    """Attach own rows to a large input that an iterator has gathered from them."""
    setattr(full_tensor, READ, OwnRows(tf.identity(values), rows))


def has_read_rows(values: Any) -> bool:
    """Whether a value is a large input that an iterator has gathered from own rows."""
    return any(hasattr(value, READ) for value in tf.nest.flatten(values))


def install_steps(keras: Any) -> None:
    """Let the steps of Keras models read own rows of gathered inputs."""
    for name in STEPS:
        owner = next(kind for kind in keras.Model.__mro__ if name in vars(kind))
        observe(owner, name, functools.partial(run_step_on_own_rows, keras))


def run_step_on_own_rows(keras: Any, step: Function, model: Any, data: Any) -> Any:
    """Run one of Keras' own steps on own rows: it reads the inputs only to call the model. A user-defined loss may read more."""
    if not keras.is_own_function(model.compute_loss):
        return step(model, data)
    with reading_own_rows(data):
        return step(model, data)


@contextmanager
def reading_own_rows(data: Any) -> Iterator[None]:
    """Let shared calls within the block read own rows of data that an iterator has gathered."""
    read = [tensor for tensor in tf.nest.flatten(data) if hasattr(tensor, READ)]
    for tensor in read:
        setattr(tensor, ATTRIBUTE, getattr(tensor, READ))
    try:
        yield
    finally:
        for tensor in read:
            delattr(tensor, ATTRIBUTE)


def shape_by_own_rows(shape: Function, input: Any, *args: Any, **options: Any) -> Any:  # noqa: A002 — as TensorFlow calls it
    """Compute `tf.shape` without gathering the tensor."""
    own = find_own_rows(input)
    if own is None:
        return shape(input, *args, **options)
    sizes = shape(own.values, *args, **options)
    return tf.concat([[tf.cast(own.rows, sizes.dtype)], sizes[1:]], 0)
