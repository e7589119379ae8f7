"""The stages of a dataset, read from TensorFlow's private objects: `source.map(f).batch(8).prefetch(2)` is a chain of four.

Every dataset of TensorFlow's holds the datasets that it reads, and its parameters under private names, which are the same in
the versions that `keras_versions` lists. A dataset of another kind has no stage that is known, and is left as it is.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from . import keras_versions

MAPS = ("Map", "ParallelMap")
BATCHES = ("Batch", "ParallelBatch")
#: Stages that hand on the elements of one input unchanged, each once or as often as a number says, in their order.
UNCHANGED = ("Prefetch", "Options", "Take", "Skip", "Repeat", "AssertCardinality")
#: Of stages with one parameter the method that makes them, and the parameter's name.
COUNTS = {
    "Prefetch": ("prefetch", "buffer_size"),
    "Take": ("take", "count"),
    "Skip": ("skip", "count"),
    "Repeat": ("repeat", "count"),
}
#: Operations that TensorFlow calls stateful, and that return the same for the same values.
PURE = (
    *("Assert", "If", "While", "StatefulPartitionedCall", "LookupTableFindV2"),
    *("RangeDataset", "TensorDataset", "TensorSliceDataset", "TFRecordDataset", "TFRecordDatasetV2", "TextLineDataset"),
)  # fmt: skip
#: Operations that draw random numbers from the seeds that they were traced with.
RANDOM = (
    *("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "ParameterizedTruncatedNormal"),
    *("RandomShuffle", "Multinomial", "RandomGamma", "RandomPoisson", "RandomPoissonV2", "RandomCrop"),
    *("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2"),
)  # fmt: skip


def kind_of(dataset: Any) -> str:
    """The kind of a dataset's last stage: `Map` of `_MapDataset`."""
    return type(dataset).__name__.removeprefix("_").partition("Dataset")[0]


def inputs_of(dataset: Any) -> list[Any]:
    """The datasets that a stage reads."""
    return list(dataset._inputs())


def parameter_of(dataset: Any, name: str) -> Any:
    """A number of a stage's, such as `batch_size`; None where it is not known."""
    return tf.get_static_value(getattr(dataset, f"_{name}", None))


def is_ordered(dataset: Any) -> bool:
    """Whether a stage gives its elements in an order that threads do not decide."""
    return getattr(dataset, "_deterministic", "default") != "false"


def function_of(dataset: Any) -> Any:
    """The compiled function of a stage, from the tensors of its input's elements to those of its own."""
    return dataset._map_func.function


def code_of(dataset: Any) -> Any:
    """The code of the Python function of a stage; None for what has none."""
    return getattr(dataset._map_func._func, "__code__", None)


def all_stages(dataset: Any) -> Iterator[Any]:
    """A dataset and all that it reads."""
    yield dataset
    for read in inputs_of(dataset):
        yield from all_stages(read)


def impure_operations(function: Any) -> set[str]:
    """The operations of a compiled function that may return something else for the same values.

    These draw random numbers, read variables, print, or call Python.
    """
    graph = function.graph.as_graph_def()
    own = {f.signature.name for f in graph.library.function}
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    others = {str(node.op) for node in nodes} - own - {*PURE}
    definitions = {name: op_def_registry.get(name) for name in others}
    return {n for n, found in definitions.items() if found is None or found.is_stateful}


def is_pure(dataset: Any) -> bool:
    """Whether all functions of a stage return the same for the same values."""
    return not any(impure_operations(f.function) for f in dataset._functions())


def retrace_with_seed(dataset: Any, number: int) -> Any:
    """The compiled function of a `Map`, traced again so that it draws other random numbers for each number."""
    (before,) = inputs_of(dataset)
    with keras_versions.other_seed(number), contextlib.redirect_stdout(io.StringIO()):
        return function_of(before.map(dataset._map_func._func))


def repeat_stage(stage: Any, dataset: Any) -> Any:
    """An `UNCHANGED` stage, or a cache in memory, over another dataset."""
    kind = kind_of(stage)
    if kind in COUNTS:
        name, parameter = COUNTS[kind]
        return getattr(dataset, name)(int(parameter_of(stage, parameter)))
    if kind == "Cache":
        return dataset.cache()
    if kind == "Options":
        return dataset.with_options(stage.options())
    return dataset  # the number of elements that the program promises


def zip_like(stage: Any, datasets: list[Any]) -> Any:
    """Datasets side by side, in the structure of a `Zip`."""
    return tf.data.Dataset.zip(tf.nest.pack_sequence_as(stage._datasets, datasets))
