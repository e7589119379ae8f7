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
        values: the rows, with padding. rows: of the gathered tensor, a number or a tensor.
    """

    values: Any
    rows: Any


def is_large(output: Any) -> bool:
    """Whether a row of an output of a compiled call has many bytes."""
    return not tf.executing_eagerly() and has_large_rows(output)


def has_large_rows(output: Any) -> bool:
    """Whether a row of a tensor has many bytes; dimensions that are not known count as one."""
    entries = 1
    for dimension in output.shape[1:]:
        entries *= dimension or 1
    return bool(entries * output.dtype.size >= LARGE_ROW)


def keep_own_rows(whole: Any, values: Any, rows: Any) -> None:
    """Note what a tensor was gathered from.

    What reads the rows reads another tensor than what gathers them: the gradient for the gathered tensor is then the sum
    of two, of which neither is part of the other.
    """
    setattr(whole, ATTRIBUTE, OwnRows(tf.identity(values), rows))


def own_rows_of(tensor: Any) -> OwnRows | None:
    """The rank's own rows from which a tensor was gathered, even after a cast; None where not known."""
    if not isinstance(tensor, tf.Tensor) or hasattr(tensor, "numpy"):
        return None
    found: OwnRows | None = getattr(tensor, ATTRIBUTE, None)
    if found is None and tensor.op.type in FOLLOWED:
        before = own_rows_of(tensor.op.inputs[0])
        if before is not None:
            found = OwnRows(tf.cast(before.values, tensor.dtype), before.rows)
            setattr(tensor, ATTRIBUTE, found)
    return found


def note_read_rows(whole: Any, values: Any, rows: Any) -> None:
    """Note what an iterator has gathered a large input from."""
    setattr(whole, READ, OwnRows(tf.identity(values), rows))


def has_read_rows(values: Any) -> bool:
    return any(hasattr(value, READ) for value in tf.nest.flatten(values))


def install_steps(keras: Any) -> None:
    """Let the steps of Keras' models take own rows of what an iterator gathers."""
    for name in STEPS:
        owner = next(kind for kind in keras.Model.__mro__ if name in vars(kind))
        observe(owner, name, functools.partial(step_of_own_rows, keras))


def step_of_own_rows(keras: Any, step: Function, model: Any, data: Any) -> Any:
    """A step of Keras' own, which calls the model and reads nothing else of the inputs; a loss of the program's might."""
    if not keras.is_own_function(model.compute_loss):
        return step(model, data)
    with read_rows_kept(data):
        return step(model, data)


@contextmanager
def read_rows_kept(data: Any) -> Iterator[None]:
    """Let shared calls take own rows of data that an iterator has gathered."""
    read = [tensor for tensor in tf.nest.flatten(data) if hasattr(tensor, READ)]
    for tensor in read:
        setattr(tensor, ATTRIBUTE, getattr(tensor, READ))
    try:
        yield
    finally:
        for tensor in read:
            delattr(tensor, ATTRIBUTE)


def shape_by_own_rows(shape: Function, input: Any, *args: Any, **options: Any) -> Any:  # noqa: A002 — as TensorFlow calls it
    """`tf.shape`, for which a tensor need not be gathered."""
    own = own_rows_of(input)
    if own is None:
        return shape(input, *args, **options)
    sizes = shape(own.values, *args, **options)
    return tf.concat([[tf.cast(own.rows, sizes.dtype)], sizes[1:]], 0)
