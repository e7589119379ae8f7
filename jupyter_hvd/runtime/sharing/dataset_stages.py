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
    """Return the kind of a dataset's last stage: `Map` for a `_MapDataset`."""
    return type(dataset).__name__.removeprefix("_").partition("Dataset")[0]


def inputs_of(dataset: Any) -> list[Any]:
    """Return the datasets that a stage reads."""
    return list(dataset._inputs())


def parameter_of(dataset: Any, name: str) -> Any:
    """Return a parameter of a stage, such as `batch_size`; None where unknown."""
    return tf.get_static_value(getattr(dataset, f"_{name}", None))


def is_ordered(dataset: Any) -> bool:
    """Whether the order of a stage's elements does not depend on thread scheduling."""
    return getattr(dataset, "_deterministic", "default") != "false"


def function_of(dataset: Any) -> Any:
    """Return the compiled function of a stage, from the tensors of an input element to those of an output element."""
    return dataset._map_func.function


def code_of(dataset: Any) -> Any:
    """Return the code object of a stage's Python function; None where there is none."""
    return getattr(dataset._map_func._func, "__code__", None)


def all_stages(dataset: Any) -> Iterator[Any]:
    """Yield a dataset and all datasets that it reads."""
    yield dataset
    for read in inputs_of(dataset):
        yield from all_stages(read)


def impure_operations(function: Any) -> set[str]:
    """Return the operations of a compiled function whose results may differ for equal inputs.

    They draw random numbers, read variables, print, or call Python.
    """
    graph = function.graph.as_graph_def()
    own = {f.signature.name for f in graph.library.function}
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    others = {str(node.op) for node in nodes} - own - {*PURE}
    definitions = {name: op_def_registry.get(name) for name in others}
    return {n for n, found in definitions.items() if found is None or found.is_stateful}


def is_pure(dataset: Any) -> bool:
    """Whether all functions of a stage return equal results for equal inputs."""
    return not any(impure_operations(f.function) for f in dataset._functions())


def retrace_with_seed(dataset: Any, number: int) -> Any:
    """Trace the function of a `Map` again, with seeds that depend on `number`."""
    (before,) = inputs_of(dataset)
    with keras_versions.other_seed(number), contextlib.redirect_stdout(io.StringIO()):
        return function_of(before.map(dataset._map_func._func))


def repeat_stage(stage: Any, dataset: Any) -> Any:
    """Apply an `UNCHANGED` stage, or a cache in memory, to another dataset."""
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
    """Return datasets zipped in the structure of another `Zip`."""
    return tf.data.Dataset.zip(tf.nest.pack_sequence_as(stage._datasets, datasets))
