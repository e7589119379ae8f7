"""How many rows a training step takes, and where the program says so."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import libcst as cst

from ...analysis.index import Binding, Path
from ...analysis.library import Kind
from ...analysis.scale_findings import number_of
from ...analysis.syntax import argument, has_star, method, names_in, nodes_in
from ...analysis.values import ValueAnalysis
from .keras_loops import fit_argument
from .pipelines import Pipeline, Pipelines
from .roles import Role
from .step_loops import StepLoops
from .training_data import TrainingData
from .turns import is_range

#: Dataset methods that make batches of so many elements.
_BATCHING = frozenset({"batch", "padded_batch", "ragged_batch"})
#: Dataset methods that count batches, or take these apart, where they follow.
_COUNTING = frozenset({"shard", "skip", "take", "unbatch", "rebatch", "window"})
#: What loads data in batches, and the size that these have where none is given.
_LOADERS = (
    (re.compile(r"\.timeseries_dataset_from_array$"), 128),
    (re.compile(r"\.\w+_dataset_from_\w+$"), 32),
)
#: Methods of Keras' generators of images, with the position of the size of their batches.
_FLOWS = {"flow": 2, "flow_from_directory": 5, "flow_from_dataframe": 9}
#: That position in functions which load data.
_SIZE_POSITIONS = {
    "image_dataset_from_directory": 5,
    "text_dataset_from_directory": 4,
    "audio_dataset_from_directory": 4,
    "timeseries_dataset_from_array": 5,
    **_FLOWS,
}
DEFAULT = 32
#: What draws so many rows, or numbers of rows, by the name of the method: the place and the name of the count.
_DRAWS: Mapping[str, tuple[int, str]] = {
    "choice": (1, "size"),
    "integers": (2, "size"),
    "randint": (2, "size"),
    "sample": (1, "k"),
    "choices": (2, "k"),
}
#: What draws numbers of a shape that is given, by its name.
_NOISE = frozenset(
    {"normal", "uniform", "truncated_normal", "standard_normal", "random_sample", "random"}
)
#: Functions through which a number of rows goes as it is, or as a bound of it.
_BOUNDING = frozenset({"min", "int", "minimum"})
#: What computes a number that is no number of rows any more.
_COMPUTED = (cst.BinaryOperation, cst.BooleanOperation, cst.Call, cst.IfExp, cst.Integer)


@dataclass(frozen=True, eq=False)
class MissingSize:
    """A call that takes a batch size, and is given none."""

    call: cst.Call
    default: int = DEFAULT


@dataclass(frozen=True, eq=False)
class Batches:
    """What one training takes its batches from.

    Attributes:
        training: the call of `fit`, or of a training step.
        sizes: the expressions that say how many rows a batch has. missing: the calls that leave it at the default.
        counts: numbers of batches that a loop cuts out of data, by numbers from 0 on.
        joined: batches of which no size is seen. whole: the size of a batch of all rows, or the step that takes these.
        is_stateful: a layer goes on, row by row, from one batch to the next, so that a batch cannot have other rows.
    """

    training: cst.Call
    sizes: tuple[cst.BaseExpression, ...] = ()
    missing: tuple[MissingSize, ...] = ()
    counts: tuple[cst.BaseExpression, ...] = ()
    joined: tuple[cst.BaseExpression, ...] = ()
    whole: cst.BaseExpression | None = None
    is_stateful: bool = False

    @property
    def can_grow(self) -> bool:
        return bool(self.sizes or self.missing or self.joined)


class BatchSizes:
    """The batches that one module trains on."""

    def __init__(self, data: TrainingData, pipelines: Pipelines, loops: StepLoops) -> None:
        self.data = data
        self.values = data.values
        self.module = data.module
        self._pipelines = pipelines
        self._loops = loops

    @cached_property
    def trainings(self) -> list[Batches]:
        """What each training takes its batches from, those too whose batches cannot grow."""
        return [*self._of_fits(), *self._of_steps()]

    @cached_property
    def grown(self) -> frozenset[cst.Call]:
        """The calls of `fit`, and of training steps, whose batches grow with the number of ranks."""
        return frozenset(b.training for b in self.trainings if b.can_grow)

    @cached_property
    def whole(self) -> list[cst.BaseExpression]:
        """The sizes of batches that have all rows."""
        return list(dict.fromkeys(b.whole for b in self.trainings if b.whole is not None))

    @cached_property
    def unseen(self) -> list[Batches]:
        """The trainings whose batches cannot grow, though nothing says that they have all rows."""
        return [
            batches
            for batches in self.trainings
            if not batches.can_grow and batches.whole is None
            if not batches.is_stateful and not self._takes_grown(batches.training)
        ]

    def _takes_grown(self, step: cst.Call) -> bool:
        """Whether what a step is given has as many rows as a batch that grows, as noise may."""
        return not set(self.numbers).isdisjoint(self._loops.behind(step))

    @cached_property
    def missing(self) -> list[MissingSize]:
        """The calls that take a batch size, and are given none, each once."""
        found = {each.call: each for batches in self.trainings for each in batches.missing}
        return list(found.values())

    @cached_property
    def counts(self) -> list[cst.BaseExpression]:
        return list(dict.fromkeys(c for batches in self.trainings for c in batches.counts))

    @cached_property
    def joined(self) -> list[cst.BaseExpression]:
        """The batches that are joined when the program runs: no number that is multiplied says how large they are."""
        found = dict.fromkeys(j for batches in self.trainings for j in batches.joined)
        numbers = set(self.numbers)
        return [data for data in found if numbers.isdisjoint(self._sizes_behind(data))]

    def _sizes_behind(self, data: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        """What the sizes of batches are computed from: of a pipeline those that it is given, of others all of it."""
        pipelines = self._pipelines.of(data)
        given = [
            size.value
            for pipeline in pipelines
            for step in pipeline.steps
            if method(step) in _BATCHING and (size := argument(step, "batch_size", 0)) is not None
        ]
        if given:
            yield from (node for size in given for node in self._arithmetic(size))
            return
        yield from self.values.flow.backward_slice(data)
        for body in filter(None, map(self._body, self.values.of(data))):
            yield from (n for name in names_in(body) for n in self._arithmetic(name))

    @cached_property
    def numbers(self) -> list[cst.BaseExpression]:
        """The expressions that are multiplied by the number of ranks: each size once, where it is defined if that can be."""
        sizes = dict.fromkeys(s for batches in self.trainings for s in batches.sizes)
        found: dict[cst.BaseExpression, None] = {}
        for size in sizes:
            defined = list(dict.fromkeys(self._definitions(size, frozenset())))
            if any(p is not size and not self._may_grow(p, set(sizes)) for p in defined):
                defined = [size]
            found.update(dict.fromkeys(defined))
        for point in [p for p in found if isinstance(p, (cst.Attribute, cst.Subscript))]:
            found.update(dict.fromkeys(self._reads_of(point)))
        return [point for point in found if not self._is_computed_from(point, found)]

    def _reads_of(self, size: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """All reads of a size that comes from outside the program, `args.batch_size`, but for what is evaluated or printed."""
        text, owner = self.module.text(size), next(names_in(size), None)
        if owner is None:
            return
        identity = self.values.definitions.identity(owner)
        for name in self._names.get(owner.value, ()):
            read = self._whole_read(name, type(size))
            if read is None or self.module.text(read) != text:
                continue
            same = self.values.definitions.identity(name) == identity
            if same and not self._is_of_evaluation(read) and not self._is_shown(read):
                yield read

    def _whole_read(self, name: cst.Name, kind: type[cst.CSTNode]) -> cst.BaseExpression | None:
        """The `args.batch_size` that a name `args` begins, where it is read."""
        node, parent = name, self.module.parent(name)
        while isinstance(parent, (cst.Attribute, cst.Subscript)) and parent.value is node:
            node, parent = parent, self.module.parent(parent)  # type: ignore[assignment]
        is_target = isinstance(parent, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign))
        return node if isinstance(node, kind) and not is_target else None

    def _is_shown(self, number: cst.BaseExpression) -> bool:
        """Whether a number stands in a text or a call of `print`."""
        return any(
            isinstance(around, cst.FormattedString)
            or (isinstance(around, cst.Call) and self.module.text(around.func) == "print")
            for around in self.module.ancestors(number)
        )

    def follow(self, number: cst.BaseExpression) -> bool:
        """Whether a number is computed from a size that is multiplied, and so is multiplied with it."""
        return self._is_computed_from(number, dict.fromkeys(self.numbers))

    def _is_computed_from(
        self, number: cst.BaseExpression, others: Mapping[cst.BaseExpression, None]
    ) -> bool:
        return any(node is not number and node in others for node in self._arithmetic(number))

    # Where a size is defined

    def _definitions(
        self, size: cst.BaseExpression, seen: frozenset[cst.CSTNode]
    ) -> Iterator[cst.BaseExpression]:
        """The expressions that a size is the value of, as far as the program defines it; else the size itself."""
        sources = self._defined_by(size) if size not in seen else []
        if not sources:
            yield size
        for source in sources:
            yield from self._definitions(source, seen | {size})

    def _defined_by(self, size: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The values that a name, an attribute or an entry of a dictionary is defined by; none where another place is better."""
        match size:
            case cst.Name():
                found = []
                for definition in self.values.definitions.reaching(size):
                    match definition:
                        case Binding(adds=False) if (value := element_of(definition)) is not None:
                            found.append(value)
                        case cst.Param():
                            found += self._passed(definition)
                        case _:
                            return []
                return found
            case cst.Attribute():
                bindings = self.values.flow.bindings_of(size) or self._of_class(size)
                found = [value for b in bindings if (value := element_of(b)) is not None]
                return found if len(found) == len(bindings) else []
            case cst.Subscript():
                entry = self._entry(size)
                return [] if entry is None else [entry]
        return []

    def _of_class(self, size: cst.Attribute) -> list[Binding]:
        """What a class gives its objects: `class Config: batch_size = 32`."""
        owners = {v.node for v in self.values.of(size.value) if isinstance(v.node, cst.ClassDef)}
        name = size.attr.value
        return [b for o in owners for b in self.values.classes.attributes(o, name)]

    def _passed(self, param: cst.Param) -> list[cst.BaseExpression]:
        function = self.module.owner(param)
        if function is None:
            return []
        passed = self.values.calls.actual_arguments(function, param)
        trained = [(site, value) for site, value in passed if site in self._makers]
        omitted = not trained and len(passed) < len(self._sites(function))
        passed = trained or passed
        default = [param.default] if param.default is not None and (omitted or not passed) else []
        return [*(value for _, value in passed), *default]

    @cached_property
    def _makers(self) -> frozenset[cst.Call]:
        """The calls that make what training runs over, as against other data that the same functions make."""
        found: set[cst.Call] = set()
        data = [source for each in self.data.loop_data.values() for source in each]
        fits = self.data.training.keras.shown_fits
        data += [arg.value for call in fits if (arg := fit_argument(call, "x")) is not None]
        pending, seen = list(data), set[cst.CSTNode]()
        while pending:
            node = pending.pop()
            if node in seen or self._is_parameter(node):
                continue
            seen.add(node)
            found |= {node} if isinstance(node, cst.Call) else set()
            pending += [source for source, _ in self.values.flow.predecessors(node)]
            pending += [arg.value for arg in node.args[:1]] if isinstance(node, cst.Call) else []
        return frozenset(found)

    def _is_parameter(self, node: cst.CSTNode) -> bool:
        definitions = self.values.definitions
        return isinstance(node, cst.Name) and any(
            isinstance(d, cst.Param) for d in definitions.reaching(node)
        )

    def _sites(self, function: cst.CSTNode) -> list[cst.Call]:
        """The calls of a function, or of the class whose `__init__` it is."""
        owner = self.module.class_of(function)
        made = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
        sites = self.values.calls.sites(function)
        return sites or (self.values.calls.sites(owner) if made and owner is not None else [])

    def _entry(self, size: cst.Subscript) -> cst.BaseExpression | None:
        """What a dictionary that is written out has under a key: `config["batch_size"]`."""
        match size.slice:
            case [cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() as key))]:
                pass
            case _:
                return None
        held = {value.node for value in self.values.of(size.value)}
        if len(held) != 1:
            return None
        (made,) = held
        if isinstance(made, cst.Dict):
            for item in made.elements:
                match item:
                    case cst.DictElement(key=cst.SimpleString(evaluated_value=name), value=value):
                        if name == key.evaluated_value:
                            return value
        if isinstance(made, cst.Call) and isinstance(made.func, cst.Name):
            given = argument(made, str(key.evaluated_value))
            return given.value if made.func.value == "dict" and given is not None else None
        return None

    def _may_grow(self, point: cst.BaseExpression, sizes: set[cst.BaseExpression]) -> bool:
        """Whether a size is multiplied where it is defined: it has other uses than evaluations, or none."""

        uses = self._other_uses(point, sizes)
        return not uses or not all(map(self._is_of_evaluation, uses))

    def _arithmetic(self, expression: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        """The nodes that a number is computed from by names, operators and functions of numbers, itself first."""
        pending: list[cst.CSTNode] = [expression]
        seen: set[cst.CSTNode] = set()
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            yield node
            match node:
                case cst.BinaryOperation(left=left, right=right):
                    pending += [left, right]
                case cst.UnaryOperation(expression=inner):
                    pending.append(inner)
                case cst.Call():
                    pending += [arg.value for arg in node.args]
                case cst.List(elements=elements) | cst.Tuple(elements=elements):
                    pending += [element.value for element in elements]
                case cst.Subscript():
                    entry = self._entry(node)
                    pending += [entry] if entry is not None else []
                case _:
                    pass
            pending += [part_of(*each) for each in self.values.flow.predecessors(node)]

    def _other_uses(
        self, point: cst.BaseExpression, sizes: set[cst.BaseExpression]
    ) -> list[cst.Name]:
        """Where a name that is defined by an expression is used, beside sizes of training."""
        targets = [
            bound.target
            for bound in self.values.index.bound.values()
            if bound.target is not None and element_of(bound) is point
        ]
        definitions = self.values.definitions
        return [
            name
            for target in targets
            for name in self._names.get(target.value, ())
            if name is not target
            and name not in sizes
            and definitions.identity(name) == definitions.identity(target)
        ]

    @cached_property
    def _names(self) -> dict[str, list[cst.Name]]:
        found: dict[str, list[cst.Name]] = {}
        for name in names_in(self.module.tree):
            found.setdefault(name.value, []).append(name)
        return found

    def _is_of_evaluation(self, size: cst.BaseExpression) -> bool:
        """Whether a use says how large the batches are that a model is evaluated on."""
        arg = self.module.parent(size)
        call = self.module.parent(arg) if isinstance(arg, cst.Arg) else None
        if not isinstance(call, cst.Call):
            return False
        keyword = arg.keyword.value if isinstance(arg, cst.Arg) and arg.keyword else ""
        loads = method(call) in _FLOWS or any(
            kind.search(self.values.qualified(call.func)) for kind, _ in _LOADERS
        )
        return (
            method(call) in {"evaluate", "predict", *_BATCHING}
            or (loads and keyword == "batch_size")
            or keyword == "validation_batch_size"
        )

    # `fit`

    def _of_fits(self) -> Iterator[Batches]:
        arrays = {fit.call: fit for fit in self.data.fit_arrays}
        datasets, batches = dict(self.data.fit_datasets), dict(self.data.fits_of_batches)
        for call in self.data.training.keras.shown_fits:
            if self._is_stateful(call):
                yield Batches(call, is_stateful=True)
            elif call in arrays and self._is_one_batch(call, arrays[call].batch_size):
                yield Batches(call)
            elif call in arrays:
                yield self._of_arrays(call, arrays[call].batch_size)
                if call in batches:  # which `fit` cuts into its own
                    yield self._of_dataset(call, batches[call])
            elif call in datasets:
                yield self._of_dataset(call, datasets[call])
            elif (size := fit_argument(call, "batch_size")) is not None and (
                self.values.kinds(size.value) != {Kind.NONE}
            ):  # Keras takes one for arrays alone
                yield self._of_size(call, size.value)
            elif (given := fit_argument(call, "x")) is not None and self._is_dictionary(given):
                yield self._of_arrays(call, None)
            elif given is not None:
                yield self._of_source(call, given.value)

    def _is_dictionary(self, given: cst.Arg) -> bool:
        """Whether `fit` is given arrays by name."""
        held = [value.node for value in self.values.of(given.value)]
        return bool(held) and all(isinstance(node, cst.Dict) for node in held)

    def _is_stateful(self, fit: cst.Call) -> bool:
        """Whether a layer of the model goes on, row by row, from one batch to the next."""
        assert isinstance(fit.func, cst.Attribute)
        made = self.values.flow.backward_slice(fit.func.value)
        given = (argument(node, "stateful") for node in made if isinstance(node, cst.Call))
        return any(arg is not None and self.module.text(arg.value) == "True" for arg in given)

    def _is_one_batch(self, fit: cst.Call, batch_size: cst.BaseExpression | None) -> bool:
        """Whether rows are drawn or cut for a `fit` each time, of which it makes one batch, as far as is seen.

        These grow with what is drawn, `random.sample(memory, 32)`, and not with the batch size.
        """
        scope, given = self._repeated_scope(fit), fit_argument(fit, "x")
        if scope is None or given is None:
            return False
        made = self.values.flow.backward_slice(given.value)
        drawn = self._of_slices(
            fit, {node for node in made if scope in self.module.ancestors(node)}
        )
        most = DEFAULT if batch_size is None else max(self._numbers_of(batch_size), default=DEFAULT)
        return any(max(self._numbers_of(size), default=most) <= most for size in drawn.sizes)

    def _repeated_scope(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """What is run again and again with a node in it: its function, if a loop calls it, or the outermost loop around it."""
        function = self.module.function_of(node)
        sites = self.values.calls.sites(function) if function is not None else ()
        if any(self.module.enclosing(site, (cst.For, cst.While)) for site in sites):
            return function
        around = itertools.takewhile(lambda each: each is not function, self.module.ancestors(node))
        loops = [each for each in around if isinstance(each, cst.For | cst.While)]
        return loops[-1] if loops else None

    def _numbers_of(self, size: cst.BaseExpression) -> list[float]:
        """The numbers that an expression may be, as far as they are written out."""
        found = (
            number_of(value.node)
            for value in self.values.of(size)
            if isinstance(value.node, cst.BaseExpression)
        )
        return [number for number in found if number is not None]

    def _of_arrays(self, call: cst.Call, size: cst.BaseExpression | None) -> Batches:
        if size is None:
            given = fit_argument(call, "batch_size")
            is_missing = given is None and method(call) == "fit" and not has_star(call)
            return Batches(call, missing=(MissingSize(call),) if is_missing else ())
        given = fit_argument(call, "x")
        if given is not None and self._has_as_many_rows(given.value, size):
            return Batches(call, whole=size)
        return self._of_size(call, size)

    def _has_as_many_rows(self, data: cst.BaseExpression, size: cst.BaseExpression) -> bool:
        """Whether arrays are made with as many rows as a name says: `nodes` in `rng.normal(size=(nodes, 4))`."""
        if not isinstance(size, cst.Name):
            return False
        same = self.values.definitions.identity(size)
        made = [n for n in self.values.flow.backward_slice(data) if isinstance(n, cst.Call)]
        shapes = (shape for call in made for shape in shapes_given(call))
        return any(
            isinstance(rows, cst.Name) and self.values.definitions.identity(rows) == same
            for rows in shapes
        )

    def _of_size(self, training: cst.Call, size: cst.BaseExpression) -> Batches:
        if is_number_of_rows(self.values, size):
            return Batches(training, whole=size)
        return Batches(training, sizes=(size,))

    def _of_dataset(self, training: cst.Call, dataset: cst.BaseExpression) -> Batches:
        """The batches of `tf.data` pipelines; joined where the size of one is not seen, or batches are counted behind it."""
        found = [self._of_pipeline(training, p) for p in self._pipelines.of(dataset)]
        if not found or not all(each is not None for each in found):
            return Batches(training, joined=(self._unnumbered(dataset),))
        return merged(training, [each for each in found if each is not None])

    def _of_pipeline(self, training: cst.Call, pipeline: Pipeline) -> Batches | None:
        steps = list(pipeline.steps)
        behind: list[cst.Call] = []
        while steps and method(steps[-1]) not in _BATCHING:
            behind.append(steps.pop())
        if any(method(step) in _COUNTING for step in behind):
            return None
        if steps:
            size = argument(steps[-1], "batch_size", 0)
            return self._of_size(training, size.value) if size is not None else None
        source = pipeline.source
        name = self.values.qualified(source.func) if isinstance(source, cst.Call) else ""
        if name.endswith(".from_tensors"):
            return Batches(training, whole=source)
        default = next((size for kind, size in _LOADERS if kind.search(name)), None)
        if default is None or not isinstance(source, cst.Call) or has_star(source):
            return None
        return self._of_loader(training, source, default)

    def _of_loader(self, training: cst.Call, loader: cst.Call, default: int) -> Batches | None:
        """The batches of what loads data and is told how large they are."""
        size = argument(loader, "batch_size", _SIZE_POSITIONS.get(name_of(loader)))
        if size is None:
            return Batches(training, missing=(MissingSize(loader, default),))
        if self.values.kinds(size.value) == {Kind.NONE}:
            return None
        return self._of_size(training, size.value)

    def _of_source(self, training: cst.Call, source: cst.BaseExpression) -> Batches:
        """The batches of a generator, a `PyDataset`, or of what is not seen."""
        for node in self._made_by(source):
            if method(node) in _FLOWS and not has_star(node):
                found = self._of_loader(training, node, DEFAULT)
                return found or Batches(training)
        bodies = [body for body in map(self._body, self.values.of(source)) if body is not None]
        cut = merged(training, [self._of_slices(training, set(nodes_in(b))) for b in bodies])
        return cut if cut.sizes else Batches(training, joined=(source,))

    def _body(self, value: object) -> cst.CSTNode | None:
        node = getattr(value, "node", None)
        return node if isinstance(node, (cst.FunctionDef, cst.ClassDef)) else None

    def _made_by(self, expression: cst.BaseExpression) -> Iterator[cst.Call]:
        """The calls that make what an expression holds."""
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

    # The program's own steps

    def _of_steps(self) -> Iterator[Batches]:
        for call, given in self.data.loop_data.items():
            looped = self._of_loops(call, given)
            if looped is not None:
                noise = tuple(self._rows_of_noise(looped))
                yield replace(looped, sizes=(*looped.sizes, *noise))
                continue
            found = self._of_slices(call, set(self._loops.behind(call)))
            is_whole = not found.can_grow and call in self._loops.whole
            yield replace(found, whole=found.whole or call) if is_whole else found

    def _rows_of_noise(self, batches: Batches) -> Iterator[cst.BaseExpression]:
        """The numbers that repeat a batch's size where a step draws noise for each row: 20 of `tf.random.normal((20, 4))`."""
        numbers = {number for size in batches.sizes for number in self._numbers_of(size)}
        step = batches.training
        loop = self.module.enclosing(step, (cst.For, cst.While))
        for node in self._loops.behind(step) if numbers else ():
            if not isinstance(node, cst.Call) or method(node) not in _NOISE:
                continue
            if self.module.function_of(node) is None and loop not in {*self.module.ancestors(node)}:
                continue
            for rows in shapes_given(node):
                if isinstance(rows, cst.Integer) and number_of(rows) in numbers:
                    yield rows

    def _of_loops(self, call: cst.Call, given: list[cst.BaseExpression]) -> Batches | None:
        """The batches of what loops around a step run over, of the innermost that gives batches; None where none does."""
        for data in given:
            source = self.data.source(data)
            if self._pipelines.of(source):
                return self._of_dataset(call, data)
            if self.data.is_divided(data):
                found = self._of_source(call, source)
                return found if found.sizes else Batches(call, joined=(self._unnumbered(data),))
        return None

    def _unnumbered(self, data: cst.BaseExpression) -> cst.BaseExpression:
        """What gives batches, where their numbers are put beside them: `data` of `enumerate(data)` and of `data.enumerate()`."""
        source = self.data.source(data)
        match source:
            case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name("enumerate"))):
                return self._unnumbered(receiver)
        return source

    def _of_slices(self, training: cst.Call, nodes: set[cst.CSTNode]) -> Batches:
        """The batches that are cut out of arrays, `x[i:i + 32]`, or drawn from them, among some nodes."""
        sizes: dict[cst.BaseExpression, None] = {}
        counts: dict[cst.BaseExpression, None] = {}
        for node in nodes:
            if isinstance(node, cst.Subscript):
                for element in node.slice[:1]:
                    if isinstance(element.slice, cst.Slice):
                        found, numbered = self._cut(element.slice, start_of(node.value))
                        sizes.update(dict.fromkeys(found))
                        counts.update(dict.fromkeys(numbered))
            elif isinstance(node, cst.Call) and self._makes_slice(node):
                found, numbered = self._cut_between(node.args[0].value, node.args[1].value)
                sizes.update(dict.fromkeys(found))
                counts.update(dict.fromkeys(numbered))
            elif isinstance(node, cst.Call) and method(node) in _DRAWS:
                size = self._drawn(node)
                sizes.update(dict.fromkeys([size] if size is not None else []))
        whole = next((s for s in sizes if is_number_of_rows(self.values, s)), None)
        if whole is not None:
            return Batches(training, whole=whole)
        return Batches(training, sizes=tuple(sizes), counts=tuple(counts))

    def _drawn(self, call: cst.Call) -> cst.BaseExpression | None:
        place, name = _DRAWS[method(call)]
        if not isinstance(call.func, cst.Attribute):
            return None
        if self.values.kinds(call.func.value) & {Role.DATASET, Role.MODEL, Kind.INSTANCE}:
            return None
        given = argument(call, name, place)
        if given is None or isinstance(given.value, (cst.Tuple, cst.List)):
            return None
        return given.value

    def _cut(
        self, cut: cst.Slice, start: cst.BaseExpression | None
    ) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        """The sizes that a slice has in its bounds and in the loop whose numbers it goes by, and the count of that loop.

        Rows from `i` to `i + size`, or from `i * size` to `(i + 1) * size`.

        Args:
            start: from where on the rows were cut before: `i` of `x[i:][:size]`.
        """
        lower, upper = cut.lower or start, cut.upper
        if lower is None or upper is None:
            return [], []
        if cut.lower is None:
            return self._numbered(lower, [upper, *self._factors(lower, self.module.text(upper))])
        return self._cut_between(lower, upper)

    def _makes_slice(self, call: cst.Call) -> bool:
        return len(call.args) == 2 and self.values.qualified(call.func) == "builtins.slice"

    def _cut_between(
        self, lower: cst.BaseExpression, upper: cst.BaseExpression
    ) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        lower, upper = self._bound_of(lower), self._bound_of(upper)
        return self._numbered(lower, list(self._sizes_between(lower, upper)))

    def _bound_of(self, bound: cst.BaseExpression) -> cst.BaseExpression:
        """The `(i + 1) * size` that a bound of a slice is called `end` for."""
        if not isinstance(bound, cst.Name):
            return bound
        match self.values.definitions.reaching(bound):
            case [Binding(value=cst.BinaryOperation() as value, path=(), adds=False)]:
                return value
        return bound

    def _numbered(
        self, lower: cst.BaseExpression, sizes: list[cst.BaseExpression]
    ) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        """These sizes with those that the loop has whose numbers rows are cut by, and its count."""
        if not sizes:
            return [], []
        text = self.module.text(sizes[0])
        counts = []
        for name in names_in(lower):
            for definition in self.values.definitions.reaching(name):
                if not isinstance(definition, Binding):
                    continue
                if definition.adds and self.module.text(definition.value) == text:
                    sizes.append(definition.value)
                elif self._is_range(definition.value):
                    assert isinstance(definition.value, cst.Call)
                    found = self._of_range(definition.value, text)
                    sizes += found
                    if not found and len(definition.value.args) == 1:
                        counts.append(definition.value.args[0].value)
        return sizes, counts

    def _is_range(self, node: cst.BaseExpression) -> bool:
        if not isinstance(node, cst.Call) or not node.args:
            return False
        name = self.values.qualified(node.func)
        return is_range(name) or name == "numpy.arange"

    def _of_range(self, numbers: cst.Call, size: str) -> list[cst.BaseExpression]:
        """The sizes in a range: its step, or what its count is divided by."""
        if len(numbers.args) == 3:
            return [numbers.args[2].value]
        text = self.module.text
        return [
            node.right
            for node in self._arithmetic(numbers.args[-1].value)
            if isinstance(node, cst.BinaryOperation)
            and isinstance(node.operator, (cst.FloorDivide, cst.Divide))
            and text(node.right) == size
        ]

    def _sizes_between(
        self, lower: cst.BaseExpression, upper: cst.BaseExpression
    ) -> Iterator[cst.BaseExpression]:
        """The size, wherever it stands in the bounds of a slice."""
        text = self.module.text
        match upper:
            case cst.Call() if text(upper.func).rpartition(".")[2] in _BOUNDING:
                for arg in upper.args:
                    yield from self._sizes_between(lower, arg.value)
            case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
                for start, size in ((left, right), (right, left)):
                    if bare(text(start)) == bare(text(lower)):
                        yield size
                        yield from self._factors(lower, text(size))
                        yield from self._factors(start, text(size))
                        return
            case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
                for number, size in ((left, right), (right, left)):
                    following = re.sub(r"\s", "", bare(text(number)))
                    starts = list(self._factors(lower, text(size)))
                    others = [
                        re.sub(r"\s", "", bare(text(n)))
                        for n in (getattr(lower, "left", None), getattr(lower, "right", None))
                        if n is not None
                    ]
                    if starts and following in {f"{n}+1" for n in others} | {
                        f"1+{n}" for n in others
                    }:
                        yield size
                        yield from starts
                        return

    def _factors(self, number: cst.BaseExpression, size: str) -> Iterator[cst.BaseExpression]:
        """What is written as the size among the factors of products in a number."""
        for node in nodes_in(number):
            match node:
                case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
                    yield from [f for f in (left, right) if self.module.text(f) == size][:1]


def element_of(bound: Binding) -> cst.BaseExpression | None:
    """What a binding binds, also `32` of `size, rate = 32, 0.1`; None where that is not written there."""
    value, path = descended(bound.value, bound.path)
    return None if path else value


def part_of(value: cst.BaseExpression, path: Path) -> cst.BaseExpression:
    """The part of a tuple or list that is written there, as far as it is."""
    return descended(value, path)[0]


def descended(value: cst.BaseExpression, path: Path) -> tuple[cst.BaseExpression, Path]:
    """The expression that a path leads to within tuples and lists as they are written, and the rest of the path."""
    while path and isinstance(value, (cst.Tuple, cst.List)):
        elements = list(value.elements)
        starred = any(isinstance(e, cst.StarredElement) for e in elements)
        if starred or not 0 <= path[0] < len(elements):
            break
        value, path = elements[path[0]].value, path[1:]
    return value, path


def start_of(rows: cst.BaseExpression) -> cst.BaseExpression | None:
    """From where on rows are cut, `i` of `x[i:]`; None where they are not."""
    match rows:
        case cst.Subscript(
            slice=[cst.SubscriptElement(slice=cst.Slice(lower=lower, upper=None)), *_]
        ):
            return lower
    return None


def bare(text: str) -> str:
    """A text without parentheses around it."""
    while text.startswith("(") and text.endswith(")") and "(" not in text[1:-1]:
        text = text[1:-1]
    return text


def merged(training: cst.Call, found: list[Batches]) -> Batches:
    """The batches of one training that come from several places; of all rows where none of them can grow."""
    growing = [each for each in found if each.can_grow]
    whole = next((each.whole for each in found if each.whole is not None), None)
    return Batches(
        training,
        tuple(s for each in growing for s in each.sizes),
        tuple(m for each in growing for m in each.missing),
        tuple(c for each in growing for c in each.counts),
        tuple(j for each in growing for j in each.joined),
        None if growing else whole,
    )


def name_of(call: cst.Call) -> str:
    """The last part of the name of what is called."""
    match call.func:
        case cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name)):
            return name
    return ""


def shapes_given(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """What a call may be told as the number of rows of the array that it makes: the first size of each shape."""
    for arg in call.args:
        match arg.value:
            case (
                cst.Tuple(elements=[cst.Element(value=first), *_])
                | cst.List(elements=[cst.Element(value=first), *_])
            ):
                yield first


def is_number_of_rows(values: ValueAnalysis, size: cst.BaseExpression) -> bool:
    """Whether a number is a length, and nothing is computed from it: `len(x)`, `x.shape[0]`, `tf.shape(x)[0]`."""
    seen = list(values.flow.computed_from(size, _is_length))
    lengths = [node for node in seen if _is_length(node)]
    return bool(lengths) and not any(
        isinstance(node, _COMPUTED) and node not in lengths for node in seen
    )


def _is_length(node: cst.CSTNode) -> bool:
    match node:
        case cst.Call(func=cst.Name("len")):
            return True
        case cst.Subscript(
            value=shape, slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer("0")))]
        ):
            return isinstance(shape, (cst.Attribute, cst.Call)) and _names_shape(shape)
    return False


def _names_shape(node: cst.Attribute | cst.Call) -> bool:
    named = node.func if isinstance(node, cst.Call) else node
    return isinstance(named, cst.Attribute) and named.attr.value == "shape"
