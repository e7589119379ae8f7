"""Each rank computes its own rows of a dataset's batches: `source.map(decode).batch(32)` decodes each image on one rank only.

All ranks read the whole source, which is cheap: paths, say. Each rank takes its rows of every batch, `rows[rank::size]`, before
the maps that compute a row by itself, and batches the results. The iterator gathers the rows of all ranks, so the program gets
the same batches as in one process. A checksum of the source's rows is sent with them.

A pipeline is sharded where its maps are pure functions of a row and only maps stand between them and `batch`. The first batches
are computed both ways. Where they differ, or where sharding takes no less CPU time, every rank computes all rows.

With `--data augment` maps may draw random numbers. Each rank draws others, from the same distribution, for its own rows.
"""

from __future__ import annotations

import time
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from ..observe import Function
from . import dataset_stages as stages
from . import keras_versions, report
from .calls import in_dataset, is_number
from .checksums import Checksum, call_site, hash_tensors
from .context import sharing
from .own_rows import attach_read_rows, has_large_rows
from .split_gather import gather_values, list_padded_rows

#: How many batches are computed in both ways.
COMPARED = 3
#: The part of the CPU time for a batch that sharding may take at most; seconds a batch below which it is not tried.
WORTHWHILE, SHORT = 1.0, 0.005
#: Sources that can be read once more, which changes nothing.
SOURCES = ("TensorSlice", "Tensor", "Range", "TFRecord", "TextLine", "FixedLengthRecord", "Zip", "Concatenate")  # fmt: skip
#: Stages whose elements depend only on those of their input and on a function.
COMPUTED = (
    *(*stages.MAPS, *stages.BATCHES, *stages.UNCHANGED),
    *("Interleave", "ParallelInterleave", "FlatMap", "Filter"),
)
RowFunction = Callable[[list[Any]], list[Any]]

_verdicts: dict[tuple[Any, ...], bool] = {}
_sharded: weakref.WeakKeyDictionary[Any, ShardedDataset | None] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Mapped:
    """A dataset as a source and the row-wise function of its maps.

    Attributes:
        function: from the source's tensors to those of the dataset; None where there is no map.
        calls: how many rows are computed in parallel; None for one after another.
        codes: the code objects of the Python functions. random: those of functions that draw random numbers.
    """

    source: Any
    function: RowFunction | None = None
    calls: Any = None
    codes: tuple[Any, ...] = ()
    random: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Pipeline:
    """A dataset of batches that can be sharded.

    Attributes:
        rows: the source and maps of the rows. size: of a batch. drop_remainder: drop the last batch if it is smaller.
        after: the stages after `batch`, in order. whole: the dataset itself.
    """

    rows: Mapped
    size: int
    drop_remainder: bool
    after: tuple[Any, ...]
    whole: Any

    def own_batches(self, source: Any) -> Any:
        """Make a dataset of this rank's rows of each batch, with the number of rows of the full batch, and its checksum.

        Args:
            source: yields elements like those of the pipeline's source.
        """
        function = self.rows.function
        assert function is not None

        def deal_rows(*element: Any) -> Any:
            flat = tf.nest.flatten(element)
            rows = tf.shape(flat[0])[0]
            own = [tf.gather(part, list_padded_rows(rows)) for part in flat]
            notes = tf.tile([[rows, hash_tensors(flat)]], [tf.shape(own[0])[0], 1])
            return (*own, notes)

        def compute_rows(*parts: Any) -> Any:
            *own, notes = parts
            return (*function(own), notes)

        own = -(-self.size // sharing.size)
        dealt = source.batch(self.size, self.drop_remainder).map(deal_rows).unbatch()
        return dealt.map(compute_rows, self.rows.calls).batch(own, self.drop_remainder)


@dataclass(frozen=True)
class ShardedDataset:
    """A dataset that yields this rank's rows.

    Attributes:
        own: the dataset. spec: of the elements of the unsharded dataset.
    """

    own: Any
    spec: Any

    def iterate_sharded(self) -> Any:
        """Return an iterator that reads own rows and gathers them."""
        return ShardedIterator(iterator_of(self.own), self.spec)


def make_iterator(iterator_of: Function, dataset: Any) -> Any:
    """Make an iterator over a dataset, which computes only own rows where that saves time."""
    if not is_sharding_possible():
        return iterator_of(dataset)
    if dataset not in _sharded:
        _sharded[dataset] = shard_dataset(dataset)
    found = _sharded[dataset]
    return iterator_of(dataset) if found is None else found.iterate_sharded()


def is_sharding_possible() -> bool:
    """Whether all ranks create an iterator here at the same time."""
    free = sharing.in_charge and sharing.region is None and not sharing.whole
    if not free or sharing.checking or sharing.rank_zero_reads:
        return False
    return tf.executing_eagerly() and not in_dataset()


def shard_dataset(dataset: Any) -> ShardedDataset | None:
    """Return the sharded version of a dataset of full batches; None where it is impossible or saves no time."""
    pipeline = parse_pipeline(dataset)
    sample = None if pipeline is None else sample_source(pipeline.rows.source)
    if pipeline is None or sample is None:
        return None
    key = (pipeline.rows.codes, pipeline.size, str(dataset.element_spec))
    if key not in _verdicts:
        _verdicts[key] = pays_off(pipeline, sample)
    if not _verdicts[key]:
        return None
    own = pipeline.own_batches(pipeline.rows.source)
    for stage in pipeline.after:
        own = stages.repeat_stage(stage, own)
    return ShardedDataset(own.with_options(dataset.options()), dataset.element_spec)


def parse_pipeline(dataset: Any) -> Pipeline | None:
    """Split a `tf.data` dataset into source rows, pure maps, batch size and later stages; None where it cannot be sharded."""
    after: list[Any] = []
    stage = dataset
    while stages.kind_of(stage) in stages.UNCHANGED or is_cache_in_memory(stage):
        after.insert(0, stage)
        (stage,) = stages.inputs_of(stage)
    if stages.kind_of(stage) not in stages.BATCHES:
        return None
    size = stages.parameter_of(stage, "batch_size")
    drop_remainder = stages.parameter_of(stage, "drop_remainder")
    if size is None or size < sharing.size or drop_remainder is None:
        return None
    ordered = all(stages.is_ordered(each) for each in stages.all_stages(dataset))
    if not ordered or dataset.options().deterministic is False:
        return None
    (unbatched,) = stages.inputs_of(stage)
    rows = split_maps(unbatched)
    if (
        rows.function is None
        or not has_fixed_row_shapes(rows.source)
        or not has_numeric_batches(dataset)
    ):
        return None
    return Pipeline(rows, int(size), bool(drop_remainder), tuple(after), dataset)


def is_cache_in_memory(dataset: Any) -> bool:
    """Whether a stage caches elements in memory. Later programs would read a cache file, and need full batches."""
    return stages.kind_of(dataset) == "Cache" and not stages.parameter_of(dataset, "filename")


def has_fixed_row_shapes(source: Any) -> bool:
    """Whether a source's rows are tensors of fixed shape, of numbers or strings."""
    parts = tf.nest.flatten(source.element_spec)
    return all(isinstance(p, tf.TensorSpec) and p.shape.is_fully_defined() for p in parts) and all(
        is_number(p) or p.dtype == tf.string for p in parts
    )


def has_numeric_batches(dataset: Any) -> bool:
    """Whether a dataset's batches consist of numeric tensors, which can be gathered from all ranks."""
    parts = tf.nest.flatten(dataset.element_spec)
    return all(isinstance(p, tf.TensorSpec) and p.shape.rank and is_number(p) for p in parts)


def split_maps(dataset: Any) -> Mapped:
    """Split a dataset into a source and the pure maps after it."""
    kind = stages.kind_of(dataset)
    if kind in stages.UNCHANGED:
        (before,) = stages.inputs_of(dataset)
        rows = split_maps(before)
        if rows.function is None:
            return Mapped(dataset)
        source = stages.repeat_stage(dataset, rows.source)
        return replace(rows, source=source)
    if kind == "Zip":
        return split_zipped_maps(dataset)
    if kind not in stages.MAPS:
        return Mapped(dataset)
    function = stages.function_of(dataset)
    code, operations = stages.code_of(dataset), stages.impure_operations(function)
    draws = bool(operations) and operations <= {*stages.RANDOM} and sharing.augments_own_rows
    if operations and not draws:
        report_impure(code, operations)
        return Mapped(dataset)
    if draws:
        function = stages.retrace_with_seed(dataset, sharing.rank)
    (before,) = stages.inputs_of(dataset)
    rows = split_maps(before)

    def computed(flat: list[Any]) -> list[Any]:
        found = function(*(flat if rows.function is None else rows.function(flat)))
        return list(tf.nest.flatten(found, expand_composites=True))

    calls = choose_parallel_calls([rows.calls, getattr(dataset, "_num_parallel_calls", None)])
    random = (*rows.random, code) if draws else rows.random
    return Mapped(rows.source, computed, calls, (*rows.codes, code), random)


def split_zipped_maps(dataset: Any) -> Mapped:
    """Split zipped datasets into their zipped sources and the maps of all of them."""
    parts = [split_maps(part) for part in stages.inputs_of(dataset)]
    if all(part.function is None for part in parts):
        return Mapped(dataset)
    counts = [len(tf.nest.flatten(part.source.element_spec, expand_composites=True)) for part in parts]  # fmt: skip

    def computed(flat: list[Any]) -> list[Any]:
        left, found = list(flat), []
        for part, count in zip(parts, counts, strict=True):
            own, left = left[:count], left[count:]
            found += own if part.function is None else part.function(own)
        return found

    source = tf.data.Dataset.zip(tuple(part.source for part in parts))
    codes, random = (
        tuple(code for part in parts for code in found)
        for found in ([part.codes for part in parts], [part.random for part in parts])
    )
    return Mapped(
        source, computed, choose_parallel_calls([part.calls for part in parts]), codes, random
    )


def choose_parallel_calls(calls: list[Any]) -> Any:
    """Return how many rows to compute in parallel, where stages give different numbers."""
    numbers = [int(tf.get_static_value(c)) for c in calls if c is not None]
    if not numbers:
        return None
    return tf.data.AUTOTUNE if tf.data.AUTOTUNE in numbers else max(numbers)


def sample_source(source: Any) -> Any:
    """Return a dataset of rows like the source's that can be read without side effects on the source; None where there is
    none.

    Reading a shuffled dataset changes its next order, and reading a generator runs it.
    """
    kind = stages.kind_of(source)
    if kind in (*stages.UNCHANGED, "Shuffle", "Cache"):
        (before,) = stages.inputs_of(source)
        return sample_source(before)
    if kind == "Zip":
        parts = [sample_source(part) for part in stages.inputs_of(source)]
        if any(part is None for part in parts):
            return None
        return stages.zip_like(source, parts)
    for stage in stages.all_stages(source):
        if stages.kind_of(stage) not in (*SOURCES, *COMPUTED) or not stages.is_pure(stage):
            return None
    return source


def pays_off(pipeline: Pipeline, sample: Any) -> bool:
    """Whether sharding yields the same batches in less time; the answer is equal on all ranks.

    Args:
        sample: rows like those of the pipeline's source.
    """
    site = call_site()
    sample = sample.take(COMPARED * pipeline.size)
    function = pipeline.rows.function
    assert function is not None
    plain = sample.map(lambda *e: tuple(function(tf.nest.flatten(e))), pipeline.rows.calls)
    plain = plain.batch(pipeline.size, pipeline.drop_remainder)
    options = pipeline.whole.options()
    seconds, batches = read_all(iterator_of(plain.with_options(options)))
    seconds, unread = mean_of_ranks(seconds, not batches)
    if unread or seconds < SHORT:
        return False
    own = pipeline.own_batches(sample).with_options(options)
    own_seconds, own_batches = read_all(ShardedDataset(own, plain.element_spec).iterate_sharded())
    same = bool(pipeline.rows.random) or are_batches_equal(batches, own_batches)
    own_seconds, different = mean_of_ranks(own_seconds, not same)
    if different:
        report.report_line(
            f"the dataset that is read at {site}: every rank computes all rows, because "
            f"{names_of(pipeline.rows.codes)} gives other values the second time."
        )
        return False
    if own_seconds > WORTHWHILE * seconds:
        return False
    report.report_line(
        f"the dataset that is read at {site}: each rank computes only its own rows of {names_of(pipeline.rows.codes)} "
        f"({1000 * own_seconds:.0f} ms of CPU a batch, {1000 * seconds:.0f} ms before)."
    )
    if pipeline.rows.random:
        report.report_once(
            f"{names_of(pipeline.rows.random)} draws other random numbers than in one process, from the same distribution."
        )
    return True


def iterator_of(dataset: Any) -> Any:
    """Make TensorFlow's own iterator over a dataset."""
    return keras_versions.iterator_class()(dataset)


def read_all(iterator: Iterator[Any]) -> tuple[float, list[Any]]:
    """Read all batches; return the CPU seconds of all threads for a batch after the first, and the batches. Empty on
    failure.

    The first batch includes one-time preparations. CPU seconds do not depend on other programs on the machine.
    """
    found, times = [], []
    try:
        for batch in iterator:
            found.append(batch)
            times.append(time.process_time())
    except tf.errors.OpError:
        return 0.0, []
    return (times[-1] - times[0]) / max(len(times) - 1, 1) if times else 0.0, found


def are_batches_equal(batch: list[Any], other: list[Any]) -> bool:
    """Whether batches have bitwise equal values."""
    return list(map(bits_of, batch)) == list(map(bits_of, other))


def bits_of(batch: Any) -> list[int]:
    """Return a checksum for each tensor of a batch."""
    return [zlib.crc32(np.ascontiguousarray(t.numpy()).tobytes()) for t in tf.nest.flatten(batch)]


def mean_of_ranks(*numbers: float) -> list[float]:
    """Return the means of some numbers over the ranks."""
    every = hvd.allreduce(np.array(numbers, np.float64), op=hvd.Average, name="jupyter_hvd.sharded")
    return list(map(float, every))


def report_impure(code: Any, operations: set[str]) -> None:
    """Report once why every rank computes a map for all rows: it draws random numbers or calls Python."""
    name = names_of((code,))
    if any("PyFunc" in operation for operation in operations):
        report.report_once(f"every rank computes all rows of {name}, because it calls Python.")
    elif operations & {*stages.RANDOM}:
        only = operations <= {*stages.RANDOM}
        option = "; with --data augment each rank draws for its own rows" if only else ""
        report.report_once(
            f"every rank computes all rows of {name}, because it draws random numbers{option}."
        )


def names_of(codes: tuple[Any, ...]) -> str:
    """Return the names of maps' functions, as the user knows them."""
    names = dict.fromkeys(getattr(code, "co_name", "a map") for code in codes)
    return ", ".join(f"`{name.replace('<lambda>', 'lambda')}`" for name in names)


class ShardedIterator(keras_versions.iterator_class()):  # type: ignore[misc] # a class of TensorFlow's
    """An iterator over full batches that reads own rows and gathers those of the others.

    Args:
        own: an iterator over own rows. spec: of full batches.
    """

    def __init__(self, own_rows: Any, spec: Any) -> None:
        super().__init__(components=(own_rows._iterator_resource,), element_spec=spec)
        self._own = own_rows

    def _next_internal(self) -> Any:
        """Return the next batch, gathered from the rows of all ranks."""
        if not sharing.in_charge:
            raise RuntimeError(
                "jupyter_hvd: an iterator that was made in the program's first thread is read in another: make it there"
            )
        return gather_batch(self._own._next_internal(), self.element_spec)

    def get_next_as_optional(self) -> Any:
        """Return the next batch as an optional, gathered from the rows of all ranks."""
        spec, own = self.element_spec, self._own.get_next_as_optional()

        def gather_next() -> Any:
            batch = gather_batch(own.get_value(), spec)
            return tf.experimental.Optional.from_value(batch)

        if tf.executing_eagerly():
            return gather_next() if own.has_value() else tf.experimental.Optional.empty(spec)
        return tf.cond(own.has_value(), gather_next, lambda: tf.experimental.Optional.empty(spec))

    @property
    def _type_spec(self) -> Any:
        return ShardedIteratorSpec(self.element_spec, self._own.element_spec)


class ShardedIteratorSpec(tf.TypeSpec):  # type: ignore[misc] # a class of TensorFlow's
    """The type of a `ShardedIterator`, by which compiled functions identify it."""

    def __init__(self, spec: Any, own_spec: Any) -> None:
        self._spec, self._own_spec = spec, own_spec

    @property
    def value_type(self) -> Any:
        return ShardedIterator

    def _serialize(self) -> tuple[Any, ...]:
        """Return the specifications of the full batches and of the own rows; called by TensorFlow."""
        return self._spec, self._own_spec

    @property
    def _component_specs(self) -> Any:
        return (tf.TensorSpec([], tf.resource),)

    def _to_components(self, value: Any) -> Any:
        """Return the tensors in an iterator; called by TensorFlow."""
        return (value._own._iterator_resource,)

    def _from_components(self, components: Any) -> Any:
        """Create an iterator from its tensors; called by TensorFlow."""
        own = keras_versions.iterator_class()(components=components, element_spec=self._own_spec)
        return ShardedIterator(own, self._spec)


def gather_batch(own_rows: Any, spec: Any) -> Any:
    """Gather the full batch from each rank's own rows. Collective.

    Args:
        own_rows: an element of `Pipeline.own_batches`.
        spec: of the full batch.
    """
    *parts, notes = own_rows
    static = tf.nest.flatten(spec)[0].shape[0]
    rows = notes[0, 0] if static is None else static
    checksum = None
    if sharing.guarded:
        checksum = Checksum(notes[0, 1], "" if tf.executing_eagerly() else call_site())
    alone = [has_large_rows(p) or not p.shape[1:].is_fully_defined() for p in parts]
    small = [part for part, is_alone in zip(parts, alone, strict=True) if not is_alone]
    if small:
        together = iter(gather_together(small, rows, checksum))
    elif checksum is not None:
        checksum.exchange_checksums()
    whole = [
        gather_separately(part, rows) if is_alone else next(together)
        for part, is_alone in zip(parts, alone, strict=True)
    ]
    return tf.nest.pack_sequence_as(spec, whole)


def gather_separately(part: Any, rows: Any) -> Any:
    """Gather an input's rows from all ranks, in a message that a compiled step omits if it reads only own rows."""
    whole = gather_values(part, rows)
    if not tf.executing_eagerly() and has_large_rows(part):
        attach_read_rows(whole, part, rows)
    return whole


def gather_together(parts: list[Any], rows: Any, checksum: Checksum | None) -> list[Any]:
    """Gather the rows of several tensors with known row shapes in one message."""
    sent = [tf.cast(part, tf.uint8) if part.dtype == tf.bool else part for part in parts]
    widths = [part.shape[1:].num_elements() * part.dtype.size for part in sent]
    own = tf.shape(parts[0])[0]
    columns = [
        tf.reshape(tf.bitcast(part, tf.uint8), [own, width])
        for part, width in zip(sent, widths, strict=True)
    ]
    every = gather_values(tf.concat(columns, 1), rows, checksum)
    found = []
    for part, piece in zip(sent, tf.split(every, widths, 1), strict=True):
        size = [part.dtype.size] if part.dtype.size > 1 else []
        piece = tf.reshape(piece, [-1, *part.shape[1:], *size])
        found.append(piece if part.dtype == tf.uint8 else tf.bitcast(piece, part.dtype))
    return [tf.cast(t, part.dtype) for t, part in zip(found, parts, strict=True)]
