"""Shards the outermost calls of layers, models and functions: each rank computes its rows and gathers those of the others."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from ..observe import Function, listening
from . import report
from .checksums import Checksum, call_site
from .context import NotByRowsError, Region, sharing
from .own_rows import attach_own_rows, find_own_rows, is_large
from .split_gather import gather_rows, replicate_tensor, split_rows

#: Activations that crossentropies of Keras know by their operation, whose rows do not depend on one another.
ACTIVATIONS = {"Softmax": tf.nn.softmax, "Sigmoid": tf.nn.sigmoid}
#: Types of numbers that have no rows of ours.
SCALARS = (bool, int, float, complex, str, bytes, type(None))
#: Why a call runs unsharded in a thread of its own: collectives there would come in another order on every rank.
OTHER_THREAD = "it is called in another thread than the program's first"


@dataclass(frozen=True)
class Batch:
    """The arguments of a call.

    Attributes:
        rows: the number of rows, a number, or None where it is known only when the program runs.
        divided: for each argument, whether its first dimension is that of rows.
        key: with the layer, the key under which the verdict of the row check is stored.
        whole: why the call runs unsharded whatever it computes. silently: do not report this.
    """

    rows: int | None = None
    divided: tuple[bool, ...] = ()
    key: tuple[Any, ...] = ()
    whole: str = ""
    silently: bool = False


def call_layer(keras: Any, call: Function, layer: Any, /, *args: Any, **options: Any) -> Any:
    """Call a layer on this rank's rows, and gather its result; calls inside another shared call run as they are."""
    if not sharing.active or sharing.region is not None or sharing.whole:
        result = call(layer, *args, **options)
        if sharing.recorder is not None and sharing.in_charge:
            sharing.recorder(functools.partial(call, layer), layer, args, options)
        return result
    return share_call(functools.partial(call, layer), layer, keras, args, options)


def share_function(function: Function) -> Function:
    """See `jupyter_hvd.runtime.share`."""
    from .program import installed_keras

    if isinstance(function, tf.types.experimental.PolymorphicFunction):
        return tf.function(share_function(function.python_function))  # type: ignore[no-any-return]
    keras = installed_keras()
    if isinstance(function, keras.Layer):
        return function  # type: ignore[no-any-return] # its calls are shared already
    converted = tf.autograph.experimental.do_not_convert

    def call(function: Function, /, *args: Any, **options: Any) -> Any:
        if not sharing.active or sharing.region is not None or sharing.whole:
            return function(*args, **options)
        return share_call(function, function, keras, args, options)

    return converted(listening(function, call))  # type: ignore[no-any-return]


def share_call(
    call: Function, owner: Any, keras: Any, args: Any, options: Any, any_rows: bool = False
) -> Any:
    """Compute a call for the full batch: sharded among the ranks if its rows do not depend on each other, else unsharded.

    Args:
        any_rows: the call computes the same for any number of rows, and is checked on few.
    """
    from .row_check import NOT_YET, find_unsharded_reason

    stateless = keras.in_stateless_scope()
    batch = None if stateless else describe_batch(keras, args, options)
    if not sharing.in_charge and batch is not None and not batch.silently:
        report.report_unsharded(owner, batch.whole or OTHER_THREAD)
    if not sharing.in_charge or stateless:
        with sharing.run_whole():
            return call(*args, **options)
    if batch is None:  # symbols: a model is being made
        return call(*args, **options)
    reason = batch.whole
    if not reason:
        checked = replace(batch, rows=None) if any_rows else batch
        reason = find_unsharded_reason(call, owner, keras, checked, args, options)
    if not reason:
        try:
            return compute_shared(call, keras, batch, args, options)
        except NotByRowsError as error:
            if tf.executing_eagerly():
                raise RuntimeError(
                    f"jupyter_hvd: {report.name_of(owner)} was found to compute each row by itself, and now does not: "
                    f"{error}. Its results may differ from one process's; do not share this program."
                ) from None
            reason = str(error)
    later = reason == NOT_YET and tf.executing_eagerly()
    if not later and not (batch.whole and batch.silently):
        report.report_unsharded(owner, reason)
    with sharing.run_whole():
        return call(*args, **options)


def describe_batch(keras: Any, args: Any, options: Any) -> Batch | None:
    """Describe the arguments of a call as a batch; None where they are symbols."""
    leaves = tf.nest.flatten((args, options))
    if any(isinstance(leaf, keras.symbolic) for leaf in leaves):
        return None
    tensors = [leaf for leaf in leaves if is_tensor(leaf)]
    for leaf in leaves:
        if isinstance(leaf, tf.__internal__.CompositeTensor) and not is_tensor(leaf):
            return Batch(whole=f"it is called on a {type(leaf).__name__}")
    batched = [t for t in tensors if len(t.shape) > 0]
    if not batched:
        return Batch(whole="it is called on no tensor with rows", silently=True)
    if in_dataset():
        return Batch(whole="it is called within a dataset's graph")
    if any(not is_number(t) for t in tensors):
        return Batch(whole="it is called on strings or objects", silently=True)
    rows = batched[0].shape[0]
    if rows is not None and rows < sharing.size:
        return Batch(whole="it is called on fewer rows than there are ranks", silently=True)
    divided = tuple(is_tensor(t) and len(t.shape) > 0 and t.shape[0] == rows for t in leaves)
    kinds = tuple(
        (tf.as_dtype(leaf.dtype).name, len(leaf.shape), has_rows, keras.mask_of(leaf) is not None)
        if is_tensor(leaf)
        else leaf if isinstance(leaf, SCALARS) else type(leaf).__qualname__
        for leaf, has_rows in zip(leaves, divided, strict=True)
    )  # fmt: skip
    remainder = None if rows is None else rows % sharing.size > 0
    return Batch(rows, divided, (kinds, remainder))


def is_tensor(value: Any) -> bool:
    """Whether a value is an array of TensorFlow, NumPy or Keras with a known rank."""
    if isinstance(value, tf.Tensor | np.ndarray | tf.Variable):
        return value.shape is not None and getattr(value.shape, "rank", 0) is not None
    return hasattr(value, "assign") and hasattr(value, "shape")  # a variable of Keras 3


def is_number(tensor: Any) -> bool:
    """Whether a tensor or array has numbers or booleans, which can be gathered."""
    try:
        dtype = tf.as_dtype(tensor.dtype)
    except TypeError:  # objects
        return False
    return bool(dtype.is_floating or dtype.is_integer or dtype.is_bool or dtype.is_complex)


def in_dataset() -> bool:
    """Whether a dataset's function is being traced or run, which happens in threads of its own."""
    graph = tf.compat.v1.get_default_graph() if not tf.executing_eagerly() else None
    while graph is not None:
        if "Dataset" in (getattr(graph, "name", "") or ""):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


def compute_shared(
    call: Function, keras: Any, batch: Batch, args: Any, options: Any, sizes: set[int] | None = None
) -> Any:
    """Split the arguments, call the function on this rank's rows, and gather the results.

    Args:
        sizes: is extended by `Region.other_sizes`.

    Raises:
        NotByRowsError: a result has no rows.
    """
    leaves = tf.nest.flatten((args, options))
    tensors = [tf.convert_to_tensor(leaf) for leaf in leaves if is_tensor(leaf)]
    at = iter(tensors)
    values = [next(at) if is_tensor(leaf) else leaf for leaf in leaves]
    known = [find_own_rows(v) if has_rows else None for v, has_rows in zip(values, batch.divided, strict=True)]  # fmt: skip
    rows = batch.rows
    if rows is None:
        divided = [
            tf.shape(v)[0] if own is None else own.rows
            for v, own, has_rows in zip(values, known, batch.divided, strict=True)
            if has_rows
        ]
        rows = require_equal_rows(divided)
    checksum = None
    # What was gathered had its checksum then.
    received = [v for v, own in zip(values, known, strict=True) if is_tensor(v) and own is None]
    if sharing.guarded and received:
        checksum = Checksum.of(received, "" if tf.executing_eagerly() else call_site())
    if sharing.listener is not None and not sharing.checking:
        sharing.listener(rows)
    region = Region(rows, sharing.size)
    own = []
    for leaf, value, kept, has_rows in zip(leaves, values, known, batch.divided, strict=True):
        if kept is not None:
            part = kept.values
        else:
            part = (
                split_rows(value, rows)
                if has_rows
                else replicate_tensor(value)
                if is_tensor(leaf)
                else value
            )
        mask = keras.mask_of(leaf)
        if mask is not None:
            keras.set_mask(part, split_rows(tf.convert_to_tensor(mask), rows))
        own.append(part)
    own_args, own_options = tf.nest.pack_sequence_as((args, options), own)
    with sharing.run_region(region):
        found = call(*own_args, **own_options)
    if region.failed:
        raise NotByRowsError(region.failed)
    if sizes is not None:
        sizes |= region.other_sizes
    sharing.has_shared = True
    outputs = []
    for output in tf.nest.flatten(found):
        if isinstance(output, SCALARS):
            outputs.append(output)
            continue
        require_rows(output, region)
        if is_large(output):
            whole = gather_output(output, rows, keras)
            attach_own_rows(whole, output, rows)
        else:
            whole = gather_output(output, rows, keras, checksum)
            checksum = None  # once is enough
        mask = keras.mask_of(output)
        if mask is not None:
            keras.set_mask(whole, gather_rows(mask, rows))
        outputs.append(whole)
    if all(isinstance(output, SCALARS) for output in outputs):
        raise NotByRowsError("it returns no tensor")
    if checksum is not None:
        checksum.exchange_checksums()
    return tf.nest.pack_sequence_as(found, outputs)


def gather_output(output: Any, rows: Any, keras: Any, checksum: Checksum | None = None) -> Any:
    """Gather the rows of an output from all ranks.

    Keras' crossentropies read the logits from which probabilities were computed, since logits are not rounded to 0 or
    1. They
    need those of all rows. In a compiled step they find logits through the operation, so it is recomputed from
    gathered logits.
    """
    logits = keras.logits_of(output)
    activate = ACTIVATIONS.get(output.op.type) if tf.is_symbolic_tensor(output) else None
    if activate is not None:
        logits = gather_rows(output.op.inputs[0], rows, checksum)
        whole = activate(logits)
    else:
        whole = gather_rows(output, rows, checksum)
        logits = None if logits is None else gather_rows(logits, rows)
    if logits is not None:
        keras.set_logits(whole, logits)
    return whole


def require_equal_rows(numbers: list[Any]) -> Any:
    """Return the number of rows after a check that all arguments have the same."""
    rows, *others = numbers
    others = [other for other in others if other is not rows]
    if not others:
        return rows
    message = "jupyter_hvd: the arguments of a call have different numbers of rows, so that it cannot be shared"
    same = [tf.debugging.assert_equal(other, rows, message) for other in others]
    with tf.control_dependencies([s for s in same if s is not None]):
        return tf.identity(rows)


def require_rows(output: Any, region: Region) -> None:
    """Check that all outputs of a call have its rows.

    Raises:
        NotByRowsError: an output does not.
    """
    if not isinstance(output, tf.Tensor):
        raise NotByRowsError(f"it returns a {type(output).__name__}")
    if output.shape.rank is None:
        raise NotByRowsError("it returns a tensor of unknown rank")
    if output.shape.rank == 0:
        raise NotByRowsError("it returns a scalar")
    size = output.shape[0]
    if size is not None and region.is_static and size != region.own:
        raise NotByRowsError(f"it returns {size} rows for {region.own}")
    if size is not None and not region.is_static:
        raise NotByRowsError(f"it returns {size} rows, however many it is called on")
    if not is_number(output):
        raise NotByRowsError(f"it returns values of type {output.dtype.name}")
