"""Observes one process while it trains, and makes a record of it."""

from __future__ import annotations

import builtins
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...runtime.observe import Function, Observation
from ...runtime.sharing.context import sharing
from ...runtime.sharing.program import compile_without_xla
from .lines import find_calling_line, find_operation_line, find_running_line
from .measures import Part, measure_parts, project_batch_rows
from .number_recorder import recorder
from .records import KINDS, Event, Fit, Kind, Record, Site, Variable
from .rounding import look_up_gradient, perturb_last_bits

#: What is observed. All but the last two are public; all were tested with `tested_versions.TESTED`.
HOOKS = (
    "tf.GradientTape.gradient",
    "tf.GradientTape.jacobian",
    "tf.GradientTape.batch_jacobian",
    "tf.vectorized_map",
    "tf.saved_model.load",
    "tf.function",
    "keras.optimizers.Optimizer.apply",  # and what else `Keras.updates` has
    "keras.optimizers.LossScaleOptimizer.apply",
    "keras.Model.fit",
    "keras.Variable.__init__",
    "builtins.print",
    "type(tf.function(…)).__call__",
    "tensorflow.python.ops.resource_variable_ops.BaseResourceVariable.__init__",
)
#: And where gradients are added up in pieces.
ROUNDING_HOOKS = ("tensorflow.python.framework.ops.gradient_registry.lookup",)
#: And where steps are observed in detail.
DETAILED_HOOKS = (
    "keras.layers.Layer.__call__",
    "keras.optimizers.Optimizer.__init__",
    "tf.data.Dataset.batch",
    "tf.data.Dataset.shard",
    "tf.data.Dataset.__iter__",
    "tf.distribute.Strategy.experimental_distribute_dataset",
    "tf.distribute.Strategy.distribute_datasets_from_function",
    "keras.optimizers.Optimizer._all_reduce_sum_gradients",  # and what else `Keras.reductions` has
)
#: The attribute of a dataset that holds the line where it was sharded.
SHARDED = "_jupyter_hvd_sharded"
#: So many numbers about variables are stored for each process; losses and rates are stored after that, too.
MOST_MEASURES = 2**22
#: Bytes of variables that are held until the end of the program, in the order in which they were made.
MOST_BYTES = 2**30
MOST_PRINTS = 20_000
#: The attribute of a graph that holds the last operation that calls back.
LAST_NOTE = "_jupyter_hvd_last_note"
#: Reads of a variable, and variables that a compiled function makes later.
OTHERS = ("_UnreadVariable", "UninitializedVariable")
#: Seconds between two reports of the number of steps.
REPORTED_EACH = 0.5


class ObservedValue(NamedTuple):
    """One observation at a site: its value, and the arrays to measure, or their measures."""

    site: int
    value: Any
    parts: Any


class EnoughStepsError(SystemExit):
    """Raised to end the program cleanly after the requested number of steps."""


class Observer:
    """Makes the record of this process.

    Args:
        steps: the number of training steps after which the program ends cleanly. seconds: or the time after which it does.
        rounding: a number above 0 changes the last bit of gradients, in another pattern for each number.
        pieces: sum gradients in this many parts, as that number of ranks would. Both show the effect of rounding
            (`rounding.py`).
        details: also observe the rows of each batch, the gradients that the optimizer gets, and variables before the update.
        by_updates: the program updates its weights by optimizers: gradients before the first update are no steps.
        report: a file to which the number of steps is written.
    """

    def __init__(
        self,
        steps: int = sys.maxsize,
        seconds: float = float("inf"),
        rounding: int = 0,
        pieces: int = 1,
        details: bool = False,
        by_updates: bool = False,
        report: Path | None = None,
    ) -> None:
        self._most_steps, self._most_seconds, self._rounding = steps, seconds, rounding
        self._pieces, self._details = pieces, details
        self._report, self._by_updates = report, by_updates
        self._thread = threading.get_ident()
        self.observation = Observation()
        self.begin_program()

    def begin_program(self) -> None:
        """Forget all observations before another program begins."""
        self._sites: dict[Site, int] = {}
        self._kinds: list[Kind] = []
        self._events: list[Event] = []
        self._counts = dict.fromkeys(KINDS, 0)
        self._models: dict[int, Any] = {}
        self._calls = 0
        self._measured = 0
        self._variables: list[Any] = []
        self._bytes = self._unheld = 0
        self._keras_variables: list[Any] = []
        self._fits: list[Fit] = []
        self._prints: list[tuple[str, str]] = []
        self._rows: set[int] = set()
        self._optimizer_lines: dict[int, str] = {}
        self._batch_lines: dict[str, None] = {}
        self._distribution_lines: dict[str, None] = {}
        self._iterated: set[str] = set()
        self._distributed: set[str] = set()
        self._suspended = 0
        self._reduced: list[Any] | None = None
        self._depth = 0
        self._seen_steps = 0
        self._stopped = ""
        self._began = self._reported = time.monotonic()
        recorder.begin_program(self._events)

    def install(self) -> None:
        """Begin to observe.

        Raises:
            UntestedVersionError: observation was not tested with this version of TensorFlow or Keras.
        """
        import tensorflow as tf

        from ...runtime.sharing.keras_versions import (
            compiled_function,
            gradient_registry,
            keras_of,
            variable_classes,
        )

        keras = self._keras = keras_of(tf.keras)
        observe = self.observation.observe
        state = random.getstate()
        tape = tf.GradientTape
        observe(tape, "gradient", self._observe_gradient)
        for owner, name in ((tape, "jacobian"), (tape, "batch_jacobian"), (tf, "vectorized_map")):
            observe(owner, name, self._suspend_within)
        for kind, name in keras.updates:
            observe(kind, name, self._observe_update)
        observe(tf.keras.Model, "fit", self._observe_fit)
        if self._details:
            observe(keras.Layer, "__call__", self._observe_batch)
            for kind, _ in keras.updates:
                observe(kind, "__init__", partial(note_created, self._note_optimizer))
            data, strategy = tf.data.Dataset, tf.distribute.Strategy
            observe(data, "batch", self._observe_batching)
            observe(data, "shard", observe_sharding)
            observe(data, "__iter__", self._observe_iteration)
            for name in ("experimental_distribute_dataset", "distribute_datasets_from_function"):
                observe(strategy, name, self._observe_distribution)
            for kind, name in keras.reductions:
                observe(kind, name, self._observe_reduction)
        observe(builtins, "print", self._observe_print)
        if keras.is_keras_3:
            observe(tf.keras.Variable, "__init__", partial(note_created, self._hold_name))
        observe(variable_classes()[0], "__init__", partial(note_created, self._hold_variable))
        observe(tf.saved_model, "load", self._observe_load)
        observe(compiled_function(), "__call__", self._observe_call)
        for owner in (tf, tf.compat.v2):
            observe(owner, "function", compile_without_xla)
        if self._pieces > 1:
            registry = gradient_registry()
            observe(type(registry), "lookup", partial(look_up_gradient, registry, self._pieces))
        sharing.listener = self._observe_rows
        random.setstate(state)

    def uninstall(self) -> None:
        """Stop observing, and restore the observed functions."""
        self.observation.end()
        sharing.listener = None

    def make_record(self, **known: Any) -> Record:
        """Return a record of all observations so far.

        Args:
            known: fields of the record that the caller has observed.
        """
        return Record(
            prints=tuple(self._prints),
            sites=tuple(self._sites),
            events=tuple(self._events),
            fits=tuple(self._fits),
            variables=tuple(self._read_variables()),
            unheld=self._unheld,
            rows=tuple(sorted(self._rows)),
            shared=sharing.has_shared,
            normalizations=self._list_layers(self._is_normalization),
            random_layers=self._list_layers(draws_random_numbers),
            data_lines=tuple(self._distribution_lines or self._batch_lines),
            shard_line=self._shard_line(),
            stopped=self._stopped,
            number_sites=recorder.sites(),
            number_series=recorder.series(),
            **known,
        )

    @property
    def steps(self) -> int:
        if self._by_updates:
            return self._counts["update"]
        return self._counts["update"] or self._counts["gradient"]

    # Steps

    def _observe_gradient(
        self, gradient: Function, tape: Any, target: Any, sources: Any, *args: Any, **options: Any
    ) -> Any:
        """Note a gradient for variables, already averaged over the ranks, and its loss."""
        import tensorflow as tf

        flat = tf.nest.flatten(sources)
        if not self._is_observing() or not any(map(is_variable, flat)):
            return gradient(tape, target, sources, *args, **options)
        if tf.executing_eagerly():
            self._stop_if_enough()
        found = gradient(tape, target, sources, *args, **options)
        gradients = tf.nest.flatten(found)
        if self._rounding:
            gradients = perturb_last_bits(gradients, self._rounding)
            found = tf.nest.pack_sequence_as(found, gradients)
        names = tuple(map(name_of, flat))
        self._write_events(
            self._make_observation(
                "gradient", names, sum_loss(target), map(list_gradient_tensors, gradients)
            )
        )
        return found

    def _observe_update(self, apply: Function, optimizer: Any, *args: Any, **options: Any) -> Any:
        """Note the learning rate of an update, and the variables after it."""
        import tensorflow as tf

        if not self._is_observing():
            return apply(optimizer, *args, **options)
        args, options, variables = self._keras.bind_update(*args, **options)
        rate = tf.cast(tf.convert_to_tensor(self._keras.learning_rate(optimizer)), tf.float64)
        self._reduced = None
        seen = []
        if self._details:
            known = variables or optimizer._trainable_variables
            names = tuple(map(name_of, known))
            seen.append(self._make_observation("before", names, rate, map(read_variable, known)))
            if not is_in_worker():
                seen.append(
                    self._make_observation(
                        "applied", names, rate, map(list_argument_tensors, args[0])
                    )
                )
        self._suspended += 1  # an optimizer may hand on to another one
        try:
            result = apply(optimizer, *args, **options)
        finally:
            self._suspended -= 1
        if variables is None:
            variables = optimizer._trainable_variables
        names = tuple(map(name_of, variables))
        if self._details and is_in_worker():
            given = self._reduced or args[0]
            seen.append(
                self._make_observation("applied", names, rate, map(list_argument_tensors, given))
            )
        made = self._optimizer_lines.get(id(optimizer), "")
        seen.append(
            self._make_observation("update", names, rate, map(read_variable, variables), made)
        )
        self._write_events(*seen)
        if tf.executing_eagerly():
            self._stop_if_enough()
        return result

    def _observe_reduction(self, reduce: Function, /, *args: Any, **options: Any) -> Any:
        """Sum the gradients of all `tf.distribute` processes, without observing what happens inside."""
        self._reduced = list(reduce(*args, **options))
        return self._reduced

    def _observe_batch(self, call: Function, layer: Any, *args: Any, **options: Any) -> Any:
        """Note a projection of each row that a model is called with, so that the row can be found in another batch."""
        if self._calls or not args or not self._is_observing():
            return call(layer, *args, **options)
        if isinstance(layer, self._keras.Model):
            self._models.setdefault(id(layer), layer)
            # Ranks that share each batch are all given all of its rows.
            if not sharing.active:
                self._note_batch(args[0])
        self._calls += 1
        try:
            return call(layer, *args, **options)
        finally:
            self._calls -= 1

    def _note_batch(self, inputs: Any) -> None:
        """Note the rows of the arrays in a batch."""
        import tensorflow as tf

        parts = [sum_sparse_rows(part) for part in tf.nest.flatten(inputs) if is_array(part)]
        if parts:
            self._write_events(
                self._make_observation("batch", ("row",), tf.shape(parts[0])[0], [parts])
            )

    def _is_normalization(self, layer: Any) -> bool:
        """Whether a layer is a batch normalization."""
        return isinstance(layer, self._keras.batch_normalization)

    def _list_layers(self, predicate: Callable[[Any], bool]) -> tuple[str, ...]:
        """Return the names of the layers, in models that were called, for which a predicate holds."""
        layers = (part for model in self._models.values() for part in self._keras.layers_of(model))
        return tuple(dict.fromkeys(part.name for part in layers if predicate(part)))

    def _is_observing(self) -> bool:
        """Whether the running code can be observed: it would also run in one process, and is not inside a shared call or
        dataset.
        """
        import tensorflow as tf

        from ...runtime.sharing.calls import in_dataset

        return not (
            self._suspended
            or sharing.checking
            or sharing.region is not None
            or (threading.get_ident() != self._thread and not is_in_worker())
            or (tf.distribute.has_strategy() and not (self._details and is_in_worker()))
            or in_dataset()
        )

    def _make_observation(
        self, kind: Kind, names: tuple[str, ...], value: Any, parts: Iterable[Part], made: str = ""
    ) -> ObservedValue:
        """Make an observation of a value and arrays: their current values, or symbolic ones in a compiled step.

        Args:
            made: the line that created the optimizer.
        """
        import tensorflow as tf

        if tf.executing_eagerly():
            site = self._register_site(Site(kind, find_running_line(), names, made))
            arrays = [[read_tensor(part) for part in parts_of_one] for parts_of_one in parts]
            return ObservedValue(site, float(value), self._measure_arrays(site, arrays))
        value = tf.identity(value)
        site = self._register_site(Site(kind, find_operation_line(value.op), names, made))
        tensors = [[tf.convert_to_tensor(part) for part in parts_of_one] for parts_of_one in parts]
        return ObservedValue(site, value, tensors)

    def _measure_arrays(self, site: int, arrays: Sequence[Part]) -> NDArray[np.float64]:
        """Compute the measures that are stored for the arrays of a site."""
        if self._measured >= MOST_MEASURES:
            return np.zeros(0)
        is_batch = self._kinds[site] == "batch"
        numbers = project_batch_rows(arrays[0]) if is_batch else measure_parts(arrays)
        self._measured += len(numbers)
        return numbers

    def _write_events(self, *seen: ObservedValue) -> None:
        """Add an event for each observation: now, or whenever the compiled step runs."""
        import tensorflow as tf

        if tf.executing_eagerly():
            for one in seen:
                self._add_event(one.site, one.value, one.parts)
            return
        flat = tf.nest.flatten([(one.value, one.parts) for one in seen])

        def noted(*arrays: Any) -> None:
            left = iter(arrays)
            for one in seen:
                value = float(next(left))
                own = [[next(left) for _ in part] for part in one.parts]
                self._add_event(one.site, value, self._measure_arrays(one.site, own))

        # TensorFlow would run the notes of a graph in any order.
        graph = seen[0].value.graph
        with tf.control_dependencies(getattr(graph, LAST_NOTE, [])):
            note = tf.numpy_function(noted, flat, [])
        setattr(graph, LAST_NOTE, [note])

    def _register_site(self, site: Site) -> int:
        """Return the position of a site among the sites; add it if it is new."""
        if site not in self._sites:
            self._sites[site] = len(self._sites)
            self._kinds.append(site.kind)
        return self._sites[site]

    def _add_event(self, site: int, value: float, measured: NDArray[np.float64]) -> None:
        """Append an event, and report the number of steps from time to time."""
        self._events.append(Event(site, value, measured))
        self._counts[self._kinds[site]] += 1
        now = time.monotonic()
        if self._report is not None and now - self._reported > REPORTED_EACH:
            self._reported = now
            self._report.write_text(str(self.steps))

    @contextmanager
    def _suspend_observation(self) -> Iterator[None]:
        """Observe nothing within the block."""
        self._suspended += 1
        try:
            yield
        finally:
            self._suspended -= 1

    def _suspend_within(self, function: Function, /, *args: Any, **options: Any) -> Any:
        """Call a function without observing inside, since it may compute all rows at once or one after another."""
        with self._suspend_observation():
            return function(*args, **options)

    # Early end

    def _observe_call(self, call: Function, function: Any, *args: Any, **options: Any) -> Any:
        """Call an observed function, and end the program afterwards if it has made enough steps."""
        if threading.get_ident() != self._thread:
            return call(function, *args, **options)
        self._depth += 1
        try:
            result = call(function, *args, **options)
        finally:
            self._depth -= 1
        if not self._depth:
            self._stop_if_enough()
        return result

    def _stop_if_enough(self) -> None:
        """End the program after enough steps; always right after a step, so that all processes end at the same one.

        Raises:
            EnoughStepsError: to end the program.
        """
        if self.steps == self._seen_steps or threading.get_ident() != self._thread:
            return
        self._seen_steps = self.steps
        if self.steps >= self._most_steps:
            self._stopped = "steps"
        elif time.monotonic() - self._began > self._most_seconds:
            self._stopped = "time"
        if self._stopped:
            raise EnoughStepsError(0)

    # What else there is

    def _observe_fit(self, fit: Function, model: Any, *args: Any, **options: Any) -> Any:
        """Call `fit`, and record its epochs and curves."""
        history = fit(model, *args, **options)
        curves = {
            str(name): tuple(float(np.mean(value)) for value in values)
            for name, values in history.history.items()
        }
        self._fits.append(Fit(find_running_line(), len(history.epoch), curves))
        return history

    def _observe_print(self, write: Function, /, *values: Any, **options: Any) -> Any:
        """Call `print`, and record the first line of its text with the line that printed it."""
        write(*values, **options)
        if options.get("file") in (None, sys.stdout) and len(self._prints) < MOST_PRINTS:
            with suppress(Exception):
                text = (options.get("sep") or " ").join(map(str, values))
                first = next((line for line in text.splitlines() if line.strip()), "")
                self._prints.append((first.strip(), find_running_line()))

    def _observe_load(self, load: Function, /, *args: Any, **options: Any) -> Any:
        """Load a SavedModel without registering its variables, whose order is that of a set."""
        before = len(self._variables)
        try:
            return load(*args, **options)
        finally:
            del self._variables[before:]

    def _observe_rows(self, rows: Any) -> None:
        """Record the number of rows of a batch that the ranks share."""
        import tensorflow as tf

        if isinstance(rows, int):
            self._rows.add(rows)
        else:
            add = lambda number: self._rows.add(int(number))  # noqa: E731
            tf.numpy_function(add, [rows], [])

    # Data

    def _observe_batching(self, batch: Function, /, *args: Any, **options: Any) -> Any:
        """Call a dataset's `batch`, and record the line that called it."""
        if line := find_calling_line():
            self._batch_lines[line] = None
        return batch(*args, **options)

    def _observe_iteration(self, iterate: Function, dataset: Any) -> Any:
        """Note the line that begins to iterate over a dataset, for the data of the first update."""
        if not self._counts["update"]:
            self._iterated.add(find_shard_line(dataset))
        return iterate(dataset)

    def _observe_distribution(
        self, distribute: Function, strategy: Any, given: Any, *args: Any, **options: Any
    ) -> Any:
        """Note the line at which a strategy distributes a dataset, or calls a function that creates one for each worker."""
        line = find_calling_line()
        if not line:
            return distribute(strategy, given, *args, **options)
        self._distribution_lines[line] = None
        if not callable(given):
            self._distributed.add(line if is_sharded_by_tensorflow(given) else "")
            return distribute(strategy, given, *args, **options)

        def made(context: Any) -> Any:
            dataset = given(context)
            self._distributed.add(find_shard_line(dataset))
            return dataset

        return distribute(strategy, made, *args, **options)

    def _shard_line(self) -> str:
        """Return the line that sharded the first data; "" where some were not sharded. Workers iterate over copies of
        distributed data.
        """
        lines = self._distributed or self._iterated
        return "" if "" in lines else min(lines, default="")

    def _note_optimizer(self, optimizer: Any) -> None:
        """Record the line that created an optimizer."""
        self._optimizer_lines[id(optimizer)] = find_running_line()

    def _hold_variable(self, variable: Any) -> None:
        """Keep a new variable for the comparison of weights, unless memory is short."""
        if type(variable).__name__ in OTHERS:
            return
        if self._bytes > MOST_BYTES:
            self._unheld += 1
            return
        self._variables.append(variable)
        if variable.shape.is_fully_defined():
            self._bytes += variable.shape.num_elements() * max(1, variable.dtype.size)

    def _hold_name(self, variable: Any) -> None:
        """Keep a Keras variable for its name, unless memory is short."""
        if self._bytes <= MOST_BYTES:
            self._keras_variables.append(variable)

    def _read_variables(self) -> Iterator[Variable]:
        """Yield the variables with their current values, except those in a dataset's graph."""
        paths = {}
        for variable in self._keras_variables:
            with suppress(Exception):
                paths[id(tensorflow_variable(variable))] = variable.path
        for variable in self._variables:
            with suppress(Exception):
                value = np.asarray(variable.numpy())
                if value.dtype.kind == "V":  # bfloat16 and the like, unknown to NumPy
                    value = value.astype(np.float32)
                if value.dtype.kind in "biufc":
                    name = paths.get(id(variable), variable.name.removesuffix(":0"))
                    yield Variable(name, bool(variable.trainable), value)


def note_created(
    note: Callable[[Any], None], init: Function, made: Any, *args: Any, **options: Any
) -> None:
    """Initialize an object, and pass it to `note`."""
    init(made, *args, **options)
    if not sharing.checking:
        note(made)


def observe_sharding(shard: Function, /, *args: Any, **options: Any) -> Any:
    """Call a dataset's `shard`, and store the line of the call in the dataset that it returns."""
    line, dataset = find_calling_line(), shard(*args, **options)
    if line:
        setattr(dataset, SHARDED, line)
    return dataset


def find_shard_line(dataset: Any) -> str:
    """Return the line that sharded a dataset or one of its sources; "" for none."""
    found = getattr(dataset, SHARDED, "")
    return found or max(map(find_shard_line, dataset._inputs()), default="")


def is_sharded_by_tensorflow(dataset: Any) -> bool:
    """Whether `tf.distribute` shards the dataset among the workers when it distributes it, which is its default."""
    import tensorflow as tf

    policy = dataset.options().experimental_distribute.auto_shard_policy
    return bool(policy != tf.data.experimental.AutoShardPolicy.OFF)


def is_array(value: Any) -> bool:
    """Whether the value holds numbers in rows. Placeholders of Keras do not."""
    import tensorflow as tf

    if isinstance(value, np.ndarray):
        return value.ndim > 0 and value.dtype.kind in "biuf"
    if isinstance(value, tf.SparseTensor):
        has_rows = value.shape.rank == 2
    elif isinstance(value, tf.Tensor):
        has_rows = value.shape.rank not in (None, 0)
    else:
        return False
    return has_rows and bool(value.dtype.is_floating or value.dtype.is_integer)


def sum_sparse_rows(part: Any) -> Any:
    """Return the sum of each row of a sparse matrix, shape `(rows, 1)`; any other value unchanged."""
    import tensorflow as tf

    if isinstance(part, tf.SparseTensor):
        return tf.sparse.reduce_sum(part, axis=1, keepdims=True)
    return part


def list_gradient_tensors(gradient: Any) -> Part:
    """Return the tensors of a gradient: of a sparse one, values and indices."""
    import tensorflow as tf

    if gradient is None:
        return []
    if isinstance(gradient, tf.IndexedSlices):
        return [gradient.values, gradient.indices]
    return [gradient]


def list_argument_tensors(gradient: Any) -> Part:
    """Return the tensors of an optimizer's argument: a gradient, or a pair of a gradient and its variable."""
    return list_gradient_tensors(gradient[0] if isinstance(gradient, tuple) else gradient)


def read_variable(variable: Any) -> Part:
    """Return a variable's current value."""
    import tensorflow as tf

    return [tf.convert_to_tensor(tensorflow_variable(variable))]


def read_tensor(part: Any) -> NDArray[Any]:
    """Return a tensor's current value, without a copy if it is in this process's memory."""
    return np.asarray(part)


def draws_random_numbers(layer: Any) -> bool:
    """Whether a layer is one of Keras' layers that draw random numbers at each call, such as dropout."""
    return hasattr(layer, "seed_generator") or bool(getattr(layer, "_random_generator", None))


def is_in_worker() -> bool:
    """Whether a step is running that `tf.distribute` shares among processes."""
    import tensorflow as tf

    return bool(tf.distribute.has_strategy()) and tf.distribute.get_replica_context() is not None


def is_variable(source: Any) -> bool:
    """Whether a value is a variable of TensorFlow or Keras."""
    return hasattr(source, "assign") and hasattr(source, "shape")


def name_of(variable: Any) -> str:
    """Return a variable's name, without `:0`."""
    name: str = getattr(variable, "path", None) or getattr(variable, "name", None) or "a tensor"
    return name.removesuffix(":0")


def tensorflow_variable(variable: Any) -> Any:
    """Return the TensorFlow variable inside a Keras variable; a TensorFlow variable unchanged."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value


def sum_loss(target: Any) -> Any:
    """Return the sum of the values whose gradient is taken, usually a loss."""
    import tensorflow as tf

    parts = [tf.convert_to_tensor(part) for part in tf.nest.flatten(target)]
    parts = [tf.math.real(part) if part.dtype.is_complex else part for part in parts]
    return tf.add_n([tf.reduce_sum(tf.cast(part, tf.float64)) for part in parts])
