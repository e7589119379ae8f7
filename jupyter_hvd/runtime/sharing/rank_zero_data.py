"""Data that rank 0 reads, and sends to the other ranks: `--data rank0`, and by hand `jhvd.rank_zero(value)`.

All ranks run one program, so they ask for the elements of a dataset at the same lines. There rank 0 reads an element and
broadcasts it, or that there is no more, or the error that it met: every rank goes on alike. Threads of datasets read as ever.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from ..observe import Function, observe
from . import keras_versions
from .calls import in_dataset
from .context import sharing

END = "end"
_sites = itertools.count()


class RankZeroError(RuntimeError):
    """Raised on the other ranks where rank 0 fails to read the data for all."""


def install_reads() -> None:
    """Let rank 0 read the elements of datasets for all ranks, where `sharing.rank_zero_reads`."""
    kind = keras_versions.iterator_class()
    observe(kind, "_next_internal", read_next)
    observe(kind, "get_next_as_optional", read_optional)
    observe(tf.data.Dataset, "reduce", reduce_on_rank_zero)
    for owner in (tf.data.Dataset, tf.data.experimental):
        observe(owner, "cardinality", count_on_rank_zero)


def install_keras(keras: Any) -> None:
    """Let Keras train as many steps an epoch as rank 0 has data for."""
    for owner, name in keras.step_counts():
        observe(owner, name, count_on_rank_zero)


def reads_for_all() -> bool:
    """Whether rank 0 reads here for all ranks, which ask for data at the same time."""
    together = sharing.in_charge and not sharing.checking and not sharing.reads_alone
    return sharing.rank_zero_reads and together and not in_dataset()


def read_next(original: Function, iterator: Any) -> Any:
    """Return the next element of an iterator, read by rank 0 for all ranks."""
    if not reads_for_all():
        return original(iterator)
    spec = iterator.element_spec
    if tf.executing_eagerly():
        try:
            arrays = call_on_rank_zero(lambda: read_arrays(iterator._iterator_resource, spec))
        except StopIteration:
            raise tf.errors.OutOfRangeError(None, None, "End of sequence") from None
        return pack_element(spec, list(map(tf.convert_to_tensor, arrays)))

    def read(resource: Any) -> Any:
        return call_on_rank_zero(lambda: read_arrays(resource, spec), name)

    name = f"jupyter_hvd.data.{next(_sites)}"
    types = [part.dtype for part in parts_of(spec)]
    return pack_element(spec, tf.py_function(read, [iterator._iterator_resource], types))


def read_optional(original: Function, iterator: Any) -> Any:
    """Return the next element of an iterator as an optional, read by rank 0 for all ranks."""
    if not reads_for_all():
        return original(iterator)
    spec = iterator.element_spec
    name = f"jupyter_hvd.data.{next(_sites)}"

    def read(resource: Any) -> Any:
        try:
            return [True, *call_on_rank_zero(lambda: read_arrays(resource, spec), name)]
        except StopIteration:
            return [False, *map(nothing_like, parts_of(spec))]

    types = [tf.bool, *(part.dtype for part in parts_of(spec))]
    found, *flat = tf.py_function(read, [iterator._iterator_resource], types)
    found.set_shape([])
    present = lambda: tf.experimental.Optional.from_value(pack_element(spec, flat))  # noqa: E731
    return tf.cond(found, present, lambda: tf.experimental.Optional.empty(spec))


def reduce_on_rank_zero(original: Function, dataset: Any, *args: Any, **options: Any) -> Any:
    """Run `Dataset.reduce` on rank 0 only. A compiled loop over a dataset is a reduction too, and cannot wait for rank 0."""
    if not reads_for_all():
        return original(dataset, *args, **options)
    if not tf.executing_eagerly():
        raise RuntimeError(
            "jupyter_hvd: with --data rank0 a compiled function cannot go through a dataset: give it an iterator, "
            "`iter(dataset)`, or loop over the dataset outside and call the function with each batch"
        )

    def read() -> Any:
        return tf.nest.map_structure(as_array, original(dataset, *args, **options))

    return tf.nest.map_structure(tf.convert_to_tensor, call_on_rank_zero(read))


def as_array(value: Any) -> Any:
    """Return a tensor as an array; anything else as it is."""
    return value.numpy() if isinstance(value, tf.Tensor) else value


def count_on_rank_zero(original: Function, *args: Any, **options: Any) -> Any:
    """Count data on rank 0 only. Return the number, a tensor for a TensorFlow function, or None."""
    if not (reads_for_all() and tf.executing_eagerly()):
        return original(*args, **options)
    found = call_on_rank_zero(lambda: as_array(original(*args, **options)))
    return tf.constant(found) if isinstance(found, np.generic | np.ndarray) else found


def rank_zero(value: Any) -> Any:
    """Return rank 0's value, on all ranks: see `jupyter_hvd.runtime.rank_zero`."""
    if isinstance(value, tf.data.Dataset):
        raise TypeError(
            "jupyter_hvd: rank_zero takes values and iterators; let rank 0 read datasets by --data rank0, or by "
            "start_shared(data='rank0')"
        )
    if not (sharing.in_charge and tf.executing_eagerly()):
        raise RuntimeError(
            "jupyter_hvd: rank_zero is for the program's first thread, outside compiled functions: all ranks must come there"
        )
    if hasattr(value, "__next__"):
        return elements_of_rank_zero(value)
    return call_on_rank_zero(lambda: value)


def elements_of_rank_zero(iterator: Iterator[Any]) -> Iterator[Any]:
    """Yield the elements of rank 0's iterator; other ranks' iterators are not read."""
    while True:
        try:
            element = call_on_rank_zero(lambda: next(iterator))
        except StopIteration:
            return
        yield element


def call_on_rank_zero(read: Callable[[], Any], name: str = "jupyter_hvd.data") -> Any:
    """Call a function on rank 0 only, and return its result on all ranks.

    Args:
        name: of the message; no other message may have it at the same time.

    Raises:
        StopIteration: rank 0 has no more data.
        Exception: the error on rank 0; on other ranks TensorFlow's of the same class, or a `RankZeroError`.
    """
    if sharing.rank:
        what, found = pickle.loads(broadcast_bytes(None, name))  # noqa: S301 — rank 0 is this program, too
        if what == END:
            raise StopIteration
        if what:
            kind = getattr(tf.errors, what, None)
            text = f"rank 0: {what}: {found}"
            raise RankZeroError(text) if kind is None else kind(None, None, text)
        return found
    try:
        with sharing.read_on_rank_zero():
            value = read()
        sent = pickle.dumps(("", value), protocol=5)
    except (StopIteration, tf.errors.OutOfRangeError):
        broadcast_bytes(pickle.dumps((END, None)), name)
        raise StopIteration from None
    except Exception as error:
        broadcast_bytes(pickle.dumps((type(error).__name__, str(error))), name)
        raise
    broadcast_bytes(sent, name)
    return value


def broadcast_bytes(sent: bytes | None, name: str) -> bytes:
    """Send rank 0's bytes to all ranks; the others pass None."""
    size = tf.constant([0 if sent is None else len(sent)], tf.int64)
    size = hvd.broadcast(size, 0, name=f"{name}.size")
    content = np.zeros(int(size[0]), np.uint8) if sent is None else np.frombuffer(sent, np.uint8)
    received: bytes = hvd.broadcast(tf.constant(content), 0, name=name).numpy().tobytes()
    return received


def read_arrays(resource: Any, spec: Any) -> list[Any]:
    """Return the next element of an iterator, as arrays."""
    element = keras_versions.read_iterator(resource, spec)
    return [part.numpy() for part in tf.nest.flatten(element, expand_composites=True)]


def parts_of(spec: Any) -> list[Any]:
    """Return the `tf.TensorSpec`s of an element's tensors, including those of sparse and ragged tensors."""
    return list(tf.nest.flatten(spec, expand_composites=True))


def pack_element(spec: Any, flat: list[Any]) -> Any:
    """Return tensors in the structure of an iterator's elements, with their shapes."""
    for tensor, part in zip(flat, parts_of(spec), strict=True):
        if not tf.executing_eagerly():
            tensor.set_shape(part.shape)
    return tf.nest.pack_sequence_as(spec, flat, expand_composites=True)


def nothing_like(part: Any) -> Any:
    """Make a tensor that stands in where there is no element."""
    shape = [0 if size is None else size for size in part.shape] if part.shape.rank else []
    return tf.zeros(shape, part.dtype)
