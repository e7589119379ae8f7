"""Large outputs of shared calls: a call that follows takes this rank's rows as they are, before they are gathered.

`split(gather(y))` is `y`. So the gathered tensor keeps `y` beside it, and a shared call that is given it, such as that
of a loss, neither splits nor waits. In a compiled step nothing is sent of what nobody reads: TensorFlow leaves that
operation out. An eager call has gathered already when the next one comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

#: Bytes of an output's row from which the message that it saves is worth those that sharing a loss takes.
LARGE_ROW = 4096
ATTRIBUTE = "_jupyter_hvd_own_rows"
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
    """Whether a row of an output of a compiled call has many bytes; dimensions that are not known count as one."""
    if tf.executing_eagerly():
        return False
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
    """What a tensor was gathered from, also if it was cast since; None where that is not known."""
    if not isinstance(tensor, tf.Tensor) or hasattr(tensor, "numpy"):
        return None
    found: OwnRows | None = getattr(tensor, ATTRIBUTE, None)
    if found is None and tensor.op.type in FOLLOWED:
        before = own_rows_of(tensor.op.inputs[0])
        if before is not None:
            found = OwnRows(tf.cast(before.values, tensor.dtype), before.rows)
            setattr(tensor, ATTRIBUTE, found)
    return found
