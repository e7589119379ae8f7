"""Finds the batches of every training run: of `fit`, and of user-defined steps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from ...analysis.library import Kind
from ...analysis.scale_findings import number_of
from ...analysis.syntax import argument, has_star, method
from ...analysis.tree import nodes_in
from . import tf_api
from .batches import DEFAULT, Batches, MissingSize, merge_batches
from .keras_loops import find_fit_argument
from .number_sources import NumberSources, is_number_of_rows
from .pipelines import Pipeline, Pipelines
from .row_slices import RowSlices
from .step_loops import StepLoops
from .training_data import TrainingData

#: Dataset methods that count batches, or take these apart, where they follow.
_COUNTING = frozenset({"shard", "skip", "take", "unbatch", "rebatch", "window"})
#: What loads data in batches, and the size that these have where none is given.
LOADERS = (
    (re.compile(r"\.timeseries_dataset_from_array$"), 128),
    (re.compile(r"\.\w+_dataset_from_\w+$"), 32),
)
#: Methods of Keras' generators of images, with the position of the size of their batches.
FLOWS = {"flow": 2, "flow_from_directory": 5, "flow_from_dataframe": 9}
#: That position in functions which load data.
_SIZE_POSITIONS = {
    "image_dataset_from_directory": 5,
    "text_dataset_from_directory": 4,
    "audio_dataset_from_directory": 4,
    "timeseries_dataset_from_array": 5,
    **FLOWS,
}
#: The end of a name that says how many rows a batch has.
_NAMED_SIZE = re.compile(r"batch_?size$", re.IGNORECASE)
#: What draws numbers of a shape that is given, by its name.
_NOISE = frozenset(
    {"normal", "uniform", "truncated_normal", "standard_normal", "random_sample", "random"}
)


class TrainingBatches:
    """The batches that the calls of `fit` and the training steps of one module take."""

    def __init__(
        self, data: TrainingData, pipelines: Pipelines, loops: StepLoops, numbers: NumberSources
    ) -> None:
        self.data = data
        self.values = data.values
        self.module = data.module
        self.numbers = numbers
        self._pipelines = pipelines
        self._loops = loops
        self._slices = RowSlices(numbers)

    def find_fit_batches(self) -> Iterator[Batches]:
        """Yield the batches of each call of `fit`, and of tuner searches."""
        arrays = {fit.call: fit for fit in self.data.fit_arrays}
        datasets, batches = dict(self.data.fit_datasets), dict(self.data.fits_of_batches)
        yield from self._find_hidden_batches()
        for call in self.data.training.keras.shown_trainings:
            if self._is_stateful(call):
                yield Batches(call, is_stateful=True)
            elif call in arrays and self._is_one_batch(call, arrays[call].batch_size):
                yield Batches(call)
            elif call in arrays:
                yield self._batches_of_arrays(call, arrays[call].batch_size)
                if call in batches:  # which `fit` cuts into its own
                    yield self._batches_of_dataset(call, batches[call])
            elif call in datasets:
                yield self._batches_of_dataset(call, datasets[call])
            elif (size := find_fit_argument(call, "batch_size")) is not None and (
                self.values.kinds(size.value) != {Kind.NONE}
            ):  # Keras takes one for arrays alone
                yield self._batches_of_size(call, size.value)
            elif (given := find_fit_argument(call, "x")) is not None and self._is_dictionary(given):
                yield self._batches_of_arrays(call, None)
            elif given is not None:
                yield self._batches_of_source(call, given.value)

    def _find_hidden_batches(self) -> Iterator[Batches]:
        """Yield the batches of calls whose data are hidden in `*` or `**`, but whose size is visible."""
        keras = self.data.training.keras
        for call in (fit for fit in keras.fits if has_star(fit)):
            size = argument(call, "batch_size")
            if size is not None and self.values.kinds(size.value) != {Kind.NONE}:
                yield self._batches_of_size(call, size.value)
        for search in keras.tuners.searches:
            for value in keras.tuners.sizes_set:
                yield self._batches_of_size(search, value)

    def _is_dictionary(self, given: cst.Arg) -> bool:
        """Whether `fit` is given a dictionary of arrays."""
        held = [value.node for value in self.values.of(given.value)]
        return bool(held) and all(isinstance(node, cst.Dict) for node in held)

    def _is_stateful(self, fit: cst.Call) -> bool:
        """Whether a layer of the model is `stateful=True`: it continues each row from one batch to the next."""
        assert isinstance(fit.func, cst.Attribute)
        made = self.values.flow.backward_slice(fit.func.value)
        given = (argument(node, "stateful") for node in made if isinstance(node, cst.Call))
        return any(arg is not None and self.module.text(arg.value) == "True" for arg in given)

    def _is_one_batch(self, fit: cst.Call, batch_size: cst.BaseExpression | None) -> bool:
        """Whether rows are drawn or cut anew for each `fit`, few enough for one batch, as far as is known.

        Such a batch grows with the drawn rows, `random.sample(memory, 32)`, and not with the batch size.
        """
        scope, given = self._repeated_scope(fit), find_fit_argument(fit, "x")
        if scope is None or given is None:
            return False
        made = self.values.flow.backward_slice(given.value)
        drawn = self._slices.batches_among(
            fit, {node for node in made if scope in self.module.ancestors(node)}
        )
        most = (
            DEFAULT
            if batch_size is None
            else max(self.numbers.constants_of(batch_size), default=DEFAULT)
        )
        return any(
            max(self.numbers.constants_of(size), default=most) <= most for size in drawn.sizes
        )

    def _repeated_scope(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the scope that runs repeatedly around a node: its function, if a loop calls it; else the outermost loop; else
        None.
        """
        function = self.module.function_of(node)
        sites = self.values.calls.sites(function) if function is not None else ()
        if any(self.module.enclosing(site, (cst.For, cst.While)) for site in sites):
            return function
        around = itertools.takewhile(lambda each: each is not function, self.module.ancestors(node))
        loops = [each for each in around if isinstance(each, cst.For | cst.While)]
        return loops[-1] if loops else None

    def _batches_of_arrays(self, call: cst.Call, size: cst.BaseExpression | None) -> Batches:
        """Return the batches of a `fit` of arrays, given the expression of its batch size, or None."""
        if size is None:
            given = find_fit_argument(call, "batch_size")
            is_missing = given is None and method(call) in ("fit", "search")
            return Batches(call, missing=(MissingSize(call),) if is_missing else ())
        given = find_fit_argument(call, "x")
        if given is not None and self._has_as_many_rows(given.value, size):
            return Batches(call, whole=size)
        return self._batches_of_size(call, size)

    def _has_as_many_rows(self, data: cst.BaseExpression, size: cst.BaseExpression) -> bool:
        """Whether arrays are created with as many rows as a name says: `nodes` in `rng.normal(size=(nodes, 4))`."""
        if not isinstance(size, cst.Name):
            return False
        same = self.values.definitions.identity(size)
        made = [n for n in self.values.flow.backward_slice(data) if isinstance(n, cst.Call)]
        shapes = (shape for call in made for shape in find_leading_sizes(call))
        return any(
            isinstance(rows, cst.Name) and self.values.definitions.identity(rows) == same
            for rows in shapes
        )

    def _batches_of_size(self, training: cst.Call, size: cst.BaseExpression) -> Batches:
        """Return batches of a given size; full batches if the size is the number of rows."""
        if is_number_of_rows(self.values, size):
            return Batches(training, whole=size)
        return Batches(training, sizes=(size,))

    def _batches_of_dataset(self, training: cst.Call, dataset: cst.BaseExpression) -> Batches:
        """Return the batches of `tf.data` pipelines; joined if a size is unknown, or batches are counted behind it."""
        found = [self._batches_of_pipeline(training, p) for p in self._pipelines.of(dataset)]
        if not found or not all(each is not None for each in found):
            return Batches(training, joined=(self._strip_enumeration(dataset),))
        return merge_batches(training, [each for each in found if each is not None])

    def _batches_of_pipeline(self, training: cst.Call, pipeline: Pipeline) -> Batches | None:
        """Return the batches of one pipeline; None if their size is unknown or the pipeline counts batches."""
        steps = list(pipeline.steps)
        behind: list[cst.Call] = []
        while steps and method(steps[-1]) not in (*tf_api.BATCHING_METHODS, tf_api.BUCKETING):
            behind.append(steps.pop())
        if steps and method(steps[-1]) == tf_api.BUCKETING:
            counted = any(method(step) in _COUNTING for step in behind)
            sizes = () if counted else tuple(self._sizes_of_buckets(steps[-1]))
            return Batches(training, sizes=sizes) if sizes else None
        size = argument(steps[-1], "batch_size", 0) if steps else None
        counting = [step for step in behind if method(step) in _COUNTING]
        if not all(size and self._is_counted_by(step, size.value) for step in counting):
            return None
        if steps:
            return self._batches_of_size(training, size.value) if size is not None else None
        source = pipeline.source
        name = self.values.qualified(source.func) if isinstance(source, cst.Call) else ""
        if name.endswith(".from_tensors"):
            return Batches(training, whole=source)
        default = next((size for kind, size in LOADERS if kind.search(name)), None)
        if default is None or not isinstance(source, cst.Call) or has_star(source):
            return None
        return self._batches_of_loader(training, source, default)

    def _sizes_of_buckets(self, bucketing: cst.Call) -> Iterator[cst.BaseExpression]:
        """Yield the literal sizes of the batches of `bucket_by_sequence_length`."""
        given = argument(bucketing, "bucket_batch_sizes", 2)
        for value in self.values.of(given.value) if given is not None else ():
            if isinstance(value.node, (cst.List, cst.Tuple)):
                yield from (element.value for element in value.node.elements)

    def _is_counted_by(self, step: cst.Call, size: cst.BaseExpression) -> bool:
        """Whether the number of batches to take or skip is divided by their size: `take(len(x) // size)`."""
        count = argument(step, "count", 0) if method(step) in ("take", "skip") else None
        if count is None:
            return False
        same = set(self.numbers.find_sources(size))
        return any(
            isinstance(node, cst.BinaryOperation)
            and isinstance(node.operator, (cst.Divide, cst.FloorDivide))
            and not same.isdisjoint(self.numbers.find_sources(node.right))
            for node in self.numbers.find_sources(count.value)
        )

    def _batches_of_loader(
        self, training: cst.Call, loader: cst.Call, default: int
    ) -> Batches | None:
        """Return the batches of a function that loads data with a batch size, or a default; None with `batch_size=None`."""
        size = argument(loader, "batch_size", _SIZE_POSITIONS.get(find_called_name(loader)))
        if size is None:
            return Batches(training, missing=(MissingSize(loader, default),))
        if self.values.kinds(size.value) == {Kind.NONE}:
            return None
        return self._batches_of_size(training, size.value)

    def _batches_of_source(self, training: cst.Call, source: cst.BaseExpression) -> Batches:
        """Return the batches of a generator, a `PyDataset`, or of an unknown object, which are joined."""
        for node in self._find_creating_calls(source):
            if method(node) in FLOWS and not has_star(node):
                found = self._batches_of_loader(training, node, DEFAULT)
                return found or Batches(training)
        bodies = [body for body in map(self.find_body, self.values.of(source)) if body is not None]
        cut = merge_batches(
            training, [self._slices.batches_among(training, set(nodes_in(b))) for b in bodies]
        )
        return cut if cut.sizes else Batches(training, joined=(source,))

    def find_body(self, value: object) -> cst.CSTNode | None:
        """Return the function or class that a value is defined by; None if it is outside the program."""
        node = getattr(value, "node", None)
        return node if isinstance(node, (cst.FunctionDef, cst.ClassDef)) else None

    def _find_creating_calls(self, expression: cst.BaseExpression) -> Iterator[cst.Call]:
        """Yield the calls that create the values an expression may hold."""
        pending, seen = [expression], set[cst.CSTNode]()
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            sources = self.values.flow.predecessors(node)
            pending += [source for source, _ in sources]
            if not sources and isinstance(node, cst.Call):
                yield node

    def find_step_batches(self) -> Iterator[Batches]:
        """Yield the batches of each user-defined training step."""
        for call, given in self.data.loop_data.items():
            looped = self._batches_of_loops(call, given)
            if looped is not None:
                noise = tuple(self._find_noise_rows(looped))
                yield replace(looped, sizes=(*looped.sizes, *noise))
                continue
            found = self._slices.batches_among(call, set(self._loops.find_inputs(call)))
            if not found.can_grow and found.whole is None:
                found = replace(found, sizes=tuple(self._sizes_asked_for(call)))
            is_whole = not found.can_grow and call in self._loops.full_batch_steps
            yield replace(found, whole=found.whole or call) if is_whole else found

    def _sizes_asked_for(self, step: cst.Call) -> Iterator[cst.BaseExpression]:
        """Yield the batch sizes, recognized by name, that a step's loop passes to a function that returns rows:
        `data.next_batch(batch_size)`, `rng.normal(size=(batch_size, 4))`.
        """
        loop = self.module.enclosing(step, (cst.For, cst.While))
        for node in self._loops.find_inputs(step) if loop is not None else ():
            if not isinstance(node, cst.Call) or loop not in {*self.module.ancestors(node)}:
                continue
            if method(node) in _NOISE:
                names = ((rows, self.module.text(rows)) for rows in find_leading_sizes(node))
                yield from (rows for rows, name in names if _NAMED_SIZE.search(name))
                continue
            if self.values.kinds(node) != {Kind.UNKNOWN}:
                continue
            for arg in node.args:
                named = arg.keyword.value if arg.keyword else self.module.text(arg.value)
                if not arg.star and _NAMED_SIZE.search(named):
                    yield arg.value

    def _find_noise_rows(self, batches: Batches) -> Iterator[cst.BaseExpression]:
        """Yield the literals that repeat a batch's size where a step draws noise for each row: 20 of `tf.random.normal((20,
        4))`.
        """
        numbers = {number for size in batches.sizes for number in self.numbers.constants_of(size)}
        step = batches.training
        loop = self.module.enclosing(step, (cst.For, cst.While))
        for node in self._loops.find_inputs(step) if numbers else ():
            if not isinstance(node, cst.Call) or method(node) not in _NOISE:
                continue
            if self.module.function_of(node) is None and loop not in {*self.module.ancestors(node)}:
                continue
            for rows in find_leading_sizes(node):
                if isinstance(rows, cst.Integer) and number_of(rows) in numbers:
                    yield rows

    def _batches_of_loops(self, call: cst.Call, given: list[cst.BaseExpression]) -> Batches | None:
        """Return the batches of the innermost loop around a step that runs over batches; None if there is none.

        Datasets that are drawn from beside it, such as unlabelled rows with labelled ones, grow with it.

        Args:
            given: what the loops run over, innermost first.
        """
        for number, data in enumerate(given):
            source = self.data.unwrap_data(data)
            if self._pipelines.of(source):
                beside = [d for d in given[number + 1 :] if self._is_drawn(d)]
                return merge_batches(
                    call, [self._batches_of_dataset(call, each) for each in (data, *beside)]
                )
            if self.data.yields_batches(data):
                found = self._batches_of_source(call, source)
                return (
                    found if found.sizes else Batches(call, joined=(self._strip_enumeration(data),))
                )
        return None

    def _is_drawn(self, data: cst.BaseExpression) -> bool:
        """Whether data is a dataset from which `next` draws, rather than one that a loop runs over."""
        around = self.module.parent(data)
        is_looped = isinstance(around, (cst.For, cst.CompFor)) and around.iter is data
        return not is_looped and bool(self._pipelines.of(self.data.unwrap_data(data)))

    def _strip_enumeration(self, data: cst.BaseExpression) -> cst.BaseExpression:
        """Return the data under an enumeration: `data` of `enumerate(data)` and of `data.enumerate()`."""
        source = self.data.unwrap_data(data)
        match source:
            case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name("enumerate"))):
                return self._strip_enumeration(receiver)
        return source


def find_called_name(call: cst.Call) -> str:
    """Return the last part of the called name; '' if there is none."""
    match call.func:
        case cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name)):
            return name
    return ""


def find_leading_sizes(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """Yield the first size of each shape among a call's arguments: the number of rows of the array that it creates."""
    for arg in call.args:
        match arg.value:
            case (
                cst.Tuple(elements=[cst.Element(value=first), *_])
                | cst.List(elements=[cst.Element(value=first), *_])
            ):
                yield first
