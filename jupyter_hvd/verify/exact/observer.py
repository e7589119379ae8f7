"""Watches one process while it trains, and makes a record of it.

It listens to functions of TensorFlow and Keras (`runtime/observe.py`). A compiled step is observed, too: it calls back with a
few numbers for each variable. Nothing is drawn from any generator, so that a program computes what it computes unobserved.
"""

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
from .records import KINDS, Event, Fit, Kind, Record, Site, Variable
from .rounding import look_up_gradient, rounded_otherwise

#: What is observed. All but the last two are public; all were tested with `keras_versions.TESTED`.
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


class Seen(NamedTuple):
    """An observation at a site: a value, and the parts whose measures are stored, or these measures."""

    site: int
    value: Any
    parts: Any


class EnoughStepsError(SystemExit):
    """Ends the program, in order, when it has made the steps that were asked for."""


class Observer:
    """Makes the record of this process.

    Args:
        steps: the program ends, in order, after so many training steps. seconds: or after this time.
        rounding: gradients are changed in their last bit, for each number above 0 in another pattern.
        pieces: gradients are added up as so many ranks do. Both show what rounding makes of the training (`rounding.py`).
        details: observe the rows of each batch, too, the gradients that each update is given, and variables before it.
        report: a file that gets the number of steps.
    """

    def __init__(
        self,
        steps: int = sys.maxsize,
        seconds: float = float("inf"),
        rounding: int = 0,
        pieces: int = 1,
        details: bool = False,
        report: Path | None = None,
    ) -> None:
        self._most_steps, self._most_seconds, self._rounding = steps, seconds, rounding
        self._pieces, self._details = pieces, details
        self._report = report
        self._thread = threading.get_ident()
        self.observation = Observation()
        self.begin_program()

    def begin_program(self) -> None:
        """Forget what was observed: another program begins."""
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

    def install(self) -> None:
        """Begin to watch.

        Raises:
            UntestedVersionError: the functions that are observed were not tested with this TensorFlow or Keras.
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
        """Put everything back."""
        self.observation.end()
        sharing.listener = None

    def make_record(self, **known: Any) -> Record:
        """The observations until now.

        Args:
            known: fields of the record that others have observed.
        """
        return Record(
            prints=tuple(self._prints),
            sites=tuple(self._sites),
            events=tuple(self._events),
            fits=tuple(self._fits),
            variables=tuple(self._variable_values()),
            unheld=self._unheld,
            rows=tuple(sorted(self._rows)),
            shared=sharing.has_shared,
            normalizations=self._names_of(self._is_normalization),
            random_layers=self._names_of(draws_random_numbers),
            data_lines=tuple(self._distribution_lines or self._batch_lines),
            shard_line=self._shard_line(),
            stopped=self._stopped,
            **known,
        )

    @property
    def steps(self) -> int:
        return self._counts["update"] or self._counts["gradient"]

    # Steps

    def _observe_gradient(
        self, gradient: Function, tape: Any, target: Any, sources: Any, *args: Any, **options: Any
    ) -> Any:
        """The loss that a gradient for variables is taken of, and the gradient; it is the ranks' average by now."""
        import tensorflow as tf

        flat = tf.nest.flatten(sources)
        if not self._is_observing() or not any(map(is_variable, flat)):
            return gradient(tape, target, sources, *args, **options)
        if tf.executing_eagerly():
            self._stop_if_enough()
        found = gradient(tape, target, sources, *args, **options)
        gradients = tf.nest.flatten(found)
        if self._rounding:
            gradients = rounded_otherwise(gradients, self._rounding)
            found = tf.nest.pack_sequence_as(found, gradients)
        names = tuple(map(name_of, flat))
        self._write_events(
            self._see_value("gradient", names, loss_total(target), map(parts_of, gradients))
        )
        return found

    def _observe_update(self, apply: Function, optimizer: Any, *args: Any, **options: Any) -> Any:
        """The learning rate of an update, and the variables after it."""
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
            seen.append(self._see_value("before", names, rate, map(values_of, known)))
            if not in_worker():
                seen.append(self._see_value("applied", names, rate, map(given_parts, args[0])))
        self._suspended += 1  # an optimizer may hand on to another one
        try:
            result = apply(optimizer, *args, **options)
        finally:
            self._suspended -= 1
        if variables is None:
            variables = optimizer._trainable_variables
        names = tuple(map(name_of, variables))
        if self._details and in_worker():
            given = self._reduced or args[0]
            seen.append(self._see_value("applied", names, rate, map(given_parts, given)))
        made = self._optimizer_lines.get(id(optimizer), "")
        seen.append(self._see_value("update", names, rate, map(values_of, variables), made))
        self._write_events(*seen)
        if tf.executing_eagerly():
            self._stop_if_enough()
        return result

    def _observe_reduction(self, reduce: Function, /, *args: Any, **options: Any) -> Any:
        """The gradients of all processes that `tf.distribute` shares a step among, added up by the optimizer."""
        self._reduced = list(reduce(*args, **options))
        return self._reduced

    def _observe_batch(self, call: Function, layer: Any, *args: Any, **options: Any) -> Any:
        """The rows that a model is called with: a projection of each, by which it is found again in another batch."""
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

    def _note_batch(self, given: Any) -> None:
        import tensorflow as tf

        parts = [row_sums(part) for part in tf.nest.flatten(given) if is_array(part)]
        if parts:
            self._write_events(self._see_value("batch", ("row",), tf.shape(parts[0])[0], [parts]))

    def _is_normalization(self, layer: Any) -> bool:
        return isinstance(layer, self._keras.batch_normalization)

    def _names_of(self, predicate: Callable[[Any], bool]) -> tuple[str, ...]:
        """Names of the layers, of models that were called, for which a predicate holds."""
        layers = (part for model in self._models.values() for part in self._keras.layers_of(model))
        return tuple(dict.fromkeys(part.name for part in layers if predicate(part)))

    def _is_observing(self) -> bool:
        """Whether what runs now also runs where nothing is shared, and can be observed."""
        import tensorflow as tf

        from ...runtime.sharing.calls import in_dataset

        return not (
            self._suspended
            or sharing.checking
            or sharing.region is not None
            or (threading.get_ident() != self._thread and not in_worker())
            or (tf.distribute.has_strategy() and not (self._details and in_worker()))
            or in_dataset()
        )

    def _see_value(
        self, kind: Kind, names: tuple[str, ...], value: Any, parts: Iterable[Part], made: str = ""
    ) -> Seen:
        """A value and some arrays, as they are now or at this place of a compiled step.

        Args:
            made: the line of an optimizer.
        """
        import tensorflow as tf

        if tf.executing_eagerly():
            site = self._site_number(Site(kind, find_running_line(), names, made))
            arrays = [[array_of(part) for part in parts_of_one] for parts_of_one in parts]
            return Seen(site, float(value), self._measured_by(site, arrays))
        value = tf.identity(value)
        site = self._site_number(Site(kind, find_operation_line(value.op), names, made))
        tensors = [[tf.convert_to_tensor(part) for part in parts_of_one] for parts_of_one in parts]
        return Seen(site, value, tensors)

    def _measured_by(self, site: int, arrays: Sequence[Part]) -> NDArray[np.float64]:
        """The numbers that are stored of some arrays."""
        if self._measured >= MOST_MEASURES:
            return np.zeros(0)
        is_batch = self._kinds[site] == "batch"
        numbers = project_batch_rows(arrays[0]) if is_batch else measure_parts(arrays)
        self._measured += len(numbers)
        return numbers

    def _write_events(self, *seen: Seen) -> None:
        """Make events of what was seen, now or whenever the compiled step runs."""
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
                self._add_event(one.site, value, self._measured_by(one.site, own))

        # TensorFlow would run the notes of a graph in any order.
        graph = seen[0].value.graph
        with tf.control_dependencies(getattr(graph, LAST_NOTE, [])):
            note = tf.numpy_function(noted, flat, [])
        setattr(graph, LAST_NOTE, [note])

    def _site_number(self, site: Site) -> int:
        if site not in self._sites:
            self._sites[site] = len(self._sites)
            self._kinds.append(site.kind)
        return self._sites[site]

    def _add_event(self, site: int, value: float, measured: NDArray[np.float64]) -> None:
        self._events.append(Event(site, value, measured))
        self._counts[self._kinds[site]] += 1
        now = time.monotonic()
        if self._report is not None and now - self._reported > REPORTED_EACH:
            self._reported = now
            self._report.write_text(str(self.steps))

    @contextmanager
    def _nothing_observed(self) -> Iterator[None]:
        self._suspended += 1
        try:
            yield
        finally:
            self._suspended -= 1

    def _suspend_within(self, function: Function, /, *args: Any, **options: Any) -> Any:
        """A function within which nothing is observed: it may be computed for all rows at once, or for one after another."""
        with self._nothing_observed():
            return function(*args, **options)

    # Early end

    def _observe_call(self, call: Function, function: Any, *args: Any, **options: Any) -> Any:
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
        """End the program after enough steps, but only right after one, so that all processes end at the same step.

        Raises:
            EnoughStepsError: they have.
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
        history = fit(model, *args, **options)
        curves = {
            str(name): tuple(float(np.mean(value)) for value in values)
            for name, values in history.history.items()
        }
        self._fits.append(Fit(find_running_line(), len(history.epoch), curves))
        return history

    def _observe_print(self, write: Function, /, *values: Any, **options: Any) -> Any:
        write(*values, **options)
        if options.get("file") in (None, sys.stdout) and len(self._prints) < MOST_PRINTS:
            with suppress(Exception):
                text = (options.get("sep") or " ").join(map(str, values))
                first = next((line for line in text.splitlines() if line.strip()), "")
                self._prints.append((first.strip(), find_running_line()))

    def _observe_load(self, load: Function, /, *args: Any, **options: Any) -> Any:
        """A SavedModel's variables come in the order of a set, so they are not held."""
        before = len(self._variables)
        try:
            return load(*args, **options)
        finally:
            del self._variables[before:]

    def _observe_rows(self, rows: Any) -> None:
        import tensorflow as tf

        if isinstance(rows, int):
            self._rows.add(rows)
        else:
            add = lambda number: self._rows.add(int(number))  # noqa: E731
            tf.numpy_function(add, [rows], [])

    # Data

    def _observe_batching(self, batch: Function, /, *args: Any, **options: Any) -> Any:
        if line := find_calling_line():
            self._batch_lines[line] = None
        return batch(*args, **options)

    def _observe_iteration(self, iterate: Function, dataset: Any) -> Any:
        """Iteration over a dataset; what is iterated before the first update has the data of that."""
        if not self._counts["update"]:
            self._iterated.add(shard_line_of(dataset))
        return iterate(dataset)

    def _observe_distribution(
        self, distribute: Function, strategy: Any, given: Any, *args: Any, **options: Any
    ) -> Any:
        """A method of a strategy that gives each worker its part of a dataset, or lets a function make that."""
        line = find_calling_line()
        if not line:
            return distribute(strategy, given, *args, **options)
        self._distribution_lines[line] = None
        if not callable(given):
            self._distributed.add(line if is_sharded_by_tensorflow(given) else "")
            return distribute(strategy, given, *args, **options)

        def made(context: Any) -> Any:
            dataset = given(context)
            self._distributed.add(shard_line_of(dataset))
            return dataset

        return distribute(strategy, made, *args, **options)

    def _shard_line(self) -> str:
        """Where the first data were sharded; "" where some were not. Of distributed datasets, workers iterate over copies."""
        lines = self._distributed or self._iterated
        return "" if "" in lines else min(lines, default="")

    def _note_optimizer(self, optimizer: Any) -> None:
        self._optimizer_lines[id(optimizer)] = find_running_line()

    def _hold_variable(self, variable: Any) -> None:
        if type(variable).__name__ in OTHERS:
            return
        if self._bytes > MOST_BYTES:
            self._unheld += 1
            return
        self._variables.append(variable)
        if variable.shape.is_fully_defined():
            self._bytes += variable.shape.num_elements() * max(1, variable.dtype.size)

    def _hold_name(self, variable: Any) -> None:
        if self._bytes <= MOST_BYTES:
            self._keras_variables.append(variable)

    def _variable_values(self) -> Iterator[Variable]:
        """Variables and what they hold; those of a dataset's graph hold nothing here."""
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
    """Initialize an object, and note it."""
    init(made, *args, **options)
    if not sharing.checking:
        note(made)


def observe_sharding(shard: Function, /, *args: Any, **options: Any) -> Any:
    """`shard` of a dataset, which notes in what it returns where the user's program calls it."""
    line, dataset = find_calling_line(), shard(*args, **options)
    if line:
        setattr(dataset, SHARDED, line)
    return dataset


def shard_line_of(dataset: Any) -> str:
    """Where a dataset, or one of those that it is made from, was sharded; "" where none was."""
    found = getattr(dataset, SHARDED, "")
    return found or max(map(shard_line_of, dataset._inputs()), default="")


def is_sharded_by_tensorflow(dataset: Any) -> bool:
    """Whether each worker takes a part of the dataset when it is distributed, as `tf.distribute` does by default."""
    import tensorflow as tf

    policy = dataset.options().experimental_distribute.auto_shard_policy
    return bool(policy != tf.data.experimental.AutoShardPolicy.OFF)


def is_array(given: Any) -> bool:
    """Whether it holds numbers in rows; a placeholder of Keras does not."""
    import tensorflow as tf

    if isinstance(given, np.ndarray):
        return given.ndim > 0 and given.dtype.kind in "biuf"
    if isinstance(given, tf.SparseTensor):
        has_rows = given.shape.rank == 2
    elif isinstance(given, tf.Tensor):
        has_rows = given.shape.rank not in (None, 0)
    else:
        return False
    return has_rows and bool(given.dtype.is_floating or given.dtype.is_integer)


def row_sums(part: Any) -> Any:
    """The sum of each row of a sparse matrix, shape `(rows, 1)`; anything else as it is."""
    import tensorflow as tf

    if isinstance(part, tf.SparseTensor):
        return tf.sparse.reduce_sum(part, axis=1, keepdims=True)
    return part


def parts_of(gradient: Any) -> Part:
    """The tensors of a gradient: of a sparse one, values and indices."""
    import tensorflow as tf

    if gradient is None:
        return []
    if isinstance(gradient, tf.IndexedSlices):
        return [gradient.values, gradient.indices]
    return [gradient]


def given_parts(given: Any) -> Part:
    """The tensors of what an optimizer is given: a gradient, or a pair of one and its variable."""
    return parts_of(given[0] if isinstance(given, tuple) else given)


def values_of(variable: Any) -> Part:
    """The current value of a variable."""
    import tensorflow as tf

    return [tf.convert_to_tensor(tensorflow_variable(variable))]


def array_of(part: Any) -> NDArray[Any]:
    """The current value of a tensor; not a copy if it is in this process's memory."""
    return np.asarray(part)


def draws_random_numbers(layer: Any) -> bool:
    """Whether a layer is one of Keras' that draw at each call, such as dropout."""
    return hasattr(layer, "seed_generator") or bool(getattr(layer, "_random_generator", None))


def in_worker() -> bool:
    """Whether a step runs that `tf.distribute` shares among processes."""
    import tensorflow as tf

    return bool(tf.distribute.has_strategy()) and tf.distribute.get_replica_context() is not None


def is_variable(source: Any) -> bool:
    return hasattr(source, "assign") and hasattr(source, "shape")


def name_of(variable: Any) -> str:
    name: str = getattr(variable, "path", None) or getattr(variable, "name", None) or "a tensor"
    return name.removesuffix(":0")


def tensorflow_variable(variable: Any) -> Any:
    """The TensorFlow variable in a variable of Keras; TensorFlow's own have a method of that name."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value


def loss_total(target: Any) -> Any:
    """The sum of what a gradient is taken of, most often a loss."""
    import tensorflow as tf

    parts = [tf.convert_to_tensor(part) for part in tf.nest.flatten(target)]
    parts = [tf.math.real(part) if part.dtype.is_complex else part for part in parts]
    return tf.add_n([tf.reduce_sum(tf.cast(part, tf.float64)) for part in parts])
