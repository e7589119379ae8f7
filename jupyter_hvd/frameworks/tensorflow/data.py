"""The data of a training loop: where it comes from, and where each rank's share is to be taken.

A `tf.data` pipeline is cut at its source, before anything shuffles: ranks shuffle each
in their own order, so only there does every rank see the same examples in the same
order, and taking every N-th one gives each example to exactly one rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from ...analysis.index import Binding, Path
from ...analysis.library import Kind, Value
from ...analysis.syntax import argument, method
from . import tf_api
from .training import Training

#: Methods that neither mix nor regroup: what comes out of them is the same on every rank.
_ORDERLY = frozenset(
    {"cache", "enumerate", "filter", "map", "prefetch", "skip", "take", "with_options"}
)
#: Of these, the ones behind which shares are cut: before them, they would not be equal.
_CUTTING = frozenset({"filter", "skip", "take"})
_BATCHING = frozenset(
    {"batch", "padded_batch", "ragged_batch", "sparse_batch", "bucket_by_sequence_length"}
)
#: What makes one dataset of several, which it takes in a tuple or list first.
_COMBINING = frozenset(
    f"tensorflow.data.{name}"
    for name in (
        "Dataset.zip",
        "Dataset.sample_from_datasets",
        "Dataset.choose_from_datasets",
        "experimental.sample_from_datasets",
        "experimental.choose_from_datasets",
    )
)
#: Sources that shuffle by themselves, unless told not to: the argument, and its default.
_SHUFFLING_SOURCES = {
    "tensorflow.data.Dataset.list_files": ("shuffle", True),
    "tensorflow.data.experimental.make_csv_dataset": ("shuffle", True),
    "tensorflow.keras.utils.image_dataset_from_directory": ("shuffle", True),
    "tensorflow.keras.utils.text_dataset_from_directory": ("shuffle", True),
    "tensorflow.keras.preprocessing.image_dataset_from_directory": ("shuffle", True),
    "tensorflow.keras.preprocessing.text_dataset_from_directory": ("shuffle", True),
    "tensorflow.keras.utils.timeseries_dataset_from_array": ("shuffle", False),
    "tensorflow_datasets.load": ("shuffle_files", False),
}


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A dataset from its source to its use.

    Attributes:
        source: the expression that gives the dataset first: a call of the library, or a name
            that a tuple of datasets was unpacked into.
        steps: the calls of dataset methods that follow, in order.
    """

    source: cst.BaseExpression
    steps: tuple[cst.Call, ...] = ()

    @property
    def is_orderly(self) -> bool:
        """Whether all ranks see the same elements in the same order at its end."""
        return all(method(step) in _ORDERLY for step in self.steps)

    @property
    def chain(self) -> tuple[cst.BaseExpression, ...]:
        return (self.source, *self.steps)

    @property
    def share_points(self) -> tuple[cst.BaseExpression, ...]:
        """The expressions behind which ranks may part, the earliest first.

        They go from the source, less what is split off it, to the last step at which the order of
        the elements is still the same on every rank.
        """
        points: list[cst.BaseExpression] = [self.source]
        for step in self.steps:
            if method(step) not in _ORDERLY:
                break
            points = [step] if method(step) in _CUTTING else [*points, step]
        return tuple(points)

    def after(self, point: cst.BaseExpression) -> tuple[cst.Call, ...]:
        """The steps behind a share point: they see one rank's share only."""
        return self.steps if point is self.source else self.steps[self.chain.index(point) :]

    def last_batching(self, point: cst.BaseExpression) -> cst.BaseExpression:
        """The step, not before the share point, after which an element is a training step."""
        batching = [step for step in self.after(point) if method(step) in _BATCHING]
        return batching[-1] if batching else point

    @property
    def is_endless(self) -> bool:
        """Whether the dataset repeats for ever, so that its ranks never run out."""
        return any(map(_repeats, self.steps))

    @property
    def ends(self) -> bool:
        """Whether a loop over the dataset comes to its end: it does not repeat for ever, or a part is taken of that."""
        repeats = [k for k, step in enumerate(self.steps) if _repeats(step)]
        return not repeats or any(method(step) == "take" for step in self.steps[repeats[-1] :])


def _repeats(step: cst.Call) -> bool:
    """Whether a step repeats its dataset for ever."""
    if method(step) != "repeat":
        return False
    count = argument(step, "count", 0)
    return count is None or _means_endless(count.value)


def _means_endless(count: cst.BaseExpression) -> bool:
    match count:
        case cst.Name(value="None") | cst.UnaryOperation(operator=cst.Minus()):
            return True
    return False


def _is_one_more(statement: cst.CSTNode, counter: str) -> bool:
    match statement:
        case cst.AugAssign(
            target=cst.Name(value=name), operator=cst.AddAssign(), value=cst.Integer(value="1")
        ):
            return name == counter
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=name))],
            value=cst.BinaryOperation(
                left=cst.Name(value=other), operator=cst.Add(), right=cst.Integer(value="1")
            ),
        ):
            return name == other == counter
    return False


def _looks_once(loop: cst.For | cst.CompFor) -> bool:
    """Whether a loop ends in its first turn: it looks at one batch."""
    body = loop.body if isinstance(loop, cst.For) else None
    last = body.body[-1] if isinstance(body, cst.IndentedBlock) and body.body else None
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Break)


def _is_sample(looked_at: list[Pipeline]) -> bool:
    """Whether only some elements are taken, to be shown."""
    return all(any(method(step) == "take" for step in p.steps) for p in looked_at)


def is_range(name: str) -> bool:
    """Whether calling this canonical name counts: a loop over it runs over numbers, not data."""
    return name in ("builtins.range", "tensorflow.range") or name.endswith(".trange")


@dataclass(frozen=True, eq=False)
class ArrayFit:
    """A `fit` of arrays: the arguments of which each rank takes its rows."""

    call: cst.Call
    arrays: tuple[cst.BaseExpression, ...]
    batch_size: cst.BaseExpression | None


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches that the program itself makes: one after another, or by number as a `Sequence`."""

    expression: cst.BaseExpression
    is_sequence: bool


class Datasets:
    """The data that one module trains on."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.values = training.values
        self.module = training.module

    # Where training takes its data from

    @cached_property
    def loops(self) -> dict[cst.Call, list[cst.BaseExpression]]:
        """For each eager call of a training step, what the loops around it run over and what it draws from."""
        found: dict[cst.Call, list[cst.BaseExpression]] = {}
        for update in self.training.updates:
            if self.training.in_keras(update.function):
                continue
            for site in self.training.eager_sites(update):
                if site.call not in found:
                    calls = dict.fromkeys((site.call, update.call, *site.chain))
                    found[site.call] = [d for c in calls for d in self._data_around(c, frozenset())]
        return found

    def _data_around(
        self, call: cst.Call, seen: frozenset[cst.CSTNode]
    ) -> Iterator[cst.BaseExpression]:
        function = self.module.function_of(call)
        outermost: cst.CSTNode = call
        for ancestor in self.module.ancestors(call):
            if ancestor is function:
                break
            if isinstance(ancestor, cst.BaseComp):
                yield ancestor.for_in.iter
            if isinstance(ancestor, (cst.For, cst.While)):
                outermost = ancestor
                if isinstance(ancestor, cst.For) and self._gives_data(ancestor.iter):
                    yield ancestor.iter
        for drawn in self.values.index.calls:
            is_draw = self.values.qualified(drawn.func) == "builtins.next" and drawn.args
            if is_draw and outermost in (drawn, *self.module.ancestors(drawn)):
                yield drawn.args[0].value
        if function is not None and function not in seen:
            for site in self.values.calls.sites(function):
                yield from self._data_around(site, seen | {function})

    def _gives_data(self, iterable: cst.BaseExpression) -> bool:
        """Whether a loop runs over data, not over numbers."""
        inner = self.values.flow.unwrap_iteration(iterable)
        return not (isinstance(inner, cst.Call) and is_range(self.values.qualified(inner.func)))

    @cached_property
    def counted_loops(self) -> list[cst.For | cst.While]:
        """The loops over a count that draw one batch a turn with `next`: their turns are steps.

        Of the loops around a draw, the innermost that runs every update of the outermost: within
        the steps of a GAN, the turns of its critic stay as many as they are.
        """
        sites = [s.call for u in self.training.updates for s in self.training.eager_sites(u)]
        found: dict[cst.For | cst.While, None] = {}
        for drawn in self.values.index.calls:
            if self.values.qualified(drawn.func) != "builtins.next" or not drawn.args:
                continue
            made = self._iterators(drawn.args[0].value)
            around = [
                loop
                for loop in self._counts_around(drawn, frozenset())
                if not any(loop in self.module.ancestors(node) for node in made)
            ]
            if not around or not self.pipelines_of(drawn.args[0].value):
                continue
            loops_of = [list(self._counts_around(site, frozenset())) for site in sites]
            turns = [loops for loops in loops_of if around[-1] in loops]
            steps = [loop for loop in around if turns and all(loop in loops for loops in turns)]
            found.update(dict.fromkeys(steps[:1]))
        outer = {ancestor for loop in found for ancestor in self.module.ancestors(loop)}
        return [loop for loop in found if loop not in outer]  # else epochs and steps were divided

    def counter_limit(self, loop: cst.While) -> cst.BaseExpression | None:
        """The number of turns of a loop that counts them: `step = 0`, `while step < limit: … step += 1`, or
        from 1 to `<=`; None where the counter begins elsewhere or anything else sets it.
        """
        match loop.test:
            case cst.Comparison(
                left=cst.Name(value=name) as counter,
                comparisons=[
                    cst.ComparisonTarget(
                        operator=cst.LessThan() | cst.LessThanEqual() as operator, comparator=limit
                    )
                ],
            ):
                pass
            case _:
                return None
        lines = [line for line in loop.body.body if isinstance(line, cst.SimpleStatementLine)]
        ups = [small for line in lines for small in line.body if _is_one_more(small, name)]
        first = "0" if isinstance(operator, cst.LessThan) else "1"
        within = {id(small) for small in ups}
        for binding in self.values.definitions.of(counter):
            value = binding.value if isinstance(binding, Binding) else binding
            node = (binding.target or binding.value) if isinstance(binding, Binding) else binding
            if within & {id(each) for each in (node, *self.module.ancestors(node))}:
                continue
            starts = isinstance(value, cst.Integer) and value.value == first
            if not starts or loop in self.module.ancestors(node):
                return None
        endless = "inf" in self.module.text(limit)
        return limit if len(ups) == 1 and not endless else None

    @cached_property
    def uncounted(self) -> list[cst.BaseExpression]:
        """The data that training takes without end, stopping by something other than a count of turns."""
        data = dict.fromkeys(data for found in self.loops.values() for data in found)
        return [
            each
            for each in data
            if (pipelines := self.pipelines_of(each))
            and not any(pipeline.ends for pipeline in pipelines)
            and not any(self._counts_around(each, frozenset()))
        ]

    def _counts_around(
        self, node: cst.CSTNode, seen: frozenset[cst.CSTNode]
    ) -> Iterator[cst.For | cst.While]:
        """The loops over a `range`, or until a counter, around a node, the innermost first, up to one over data,
        through calls.
        """
        function = self.module.function_of(node)
        for ancestor in self.module.ancestors(node):
            if ancestor is function:
                break
            if isinstance(ancestor, cst.For):
                if self._gives_data(ancestor.iter):
                    return
                yield ancestor
            if isinstance(ancestor, cst.While) and self.counter_limit(ancestor) is not None:
                yield ancestor
        sites = self.values.calls.sites(function) if function is not None else []
        if function is not None and len(sites) == 1 and function not in seen:
            yield from self._counts_around(sites[0], seen | {function})

    def _iterators(self, iterator: cst.BaseExpression) -> list[cst.CSTNode]:
        """Where an iterator is made: the expression itself, or what its name is bound to."""
        if not isinstance(iterator, cst.Name):
            return [iterator]
        bound = self.values.definitions.of(iterator)
        return [b if isinstance(b, cst.CSTNode) else b.value for b in bound]

    @cached_property
    def fit_datasets(self) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """The `fit` calls of a dataset, with it."""
        return [
            (call, arg.value)
            for call in self.training.fits
            if (arg := argument(call, "x", 0)) is not None
            and self.values.may_be(arg.value, Kind.DATASET)
        ]

    @cached_property
    def fit_arrays(self) -> list[ArrayFit]:
        """The `fit` calls of arrays: those that are passed labels."""
        found = []
        datasets = {call for call, _ in self.fit_datasets}
        batches = {each.expression for each in self.batches}
        for call in self.training.fits:
            x, y = argument(call, "x", 0), argument(call, "y", 1)
            if (
                call in datasets
                or x is None
                or x.value in batches
                or (y is None and not self._is_array(x.value))
            ):
                continue
            passed = [x, y, argument(call, "sample_weight", 9)]
            size = argument(call, "batch_size", 2)
            arrays = tuple(
                part for arg in passed if arg is not None for part in self._parts(arg.value)
            )
            batch_size = (
                size.value if size and self.values.kinds(size.value) != {Kind.NONE} else None
            )
            found.append(ArrayFit(call, arrays, batch_size))
        return found

    @cached_property
    def batches(self) -> list[Batches]:
        """The generators and `Sequence`s of this program that training runs over."""
        given = [x.value for call in self.training.fits if (x := argument(call, "x", 0))]
        found: dict[cst.BaseExpression, Batches] = {}
        for expression in given:
            values = self.values.values(expression)
            if values and all(self._is_sequence(v) for v in values):
                found[expression] = Batches(expression, True)
        given += [
            self.values.flow.unwrap_iteration(data)
            for iterables in self.loops.values()
            for data in iterables
        ]
        for expression in given:
            if self.values.kinds(expression) == {Kind.GENERATOR}:
                found[expression] = Batches(expression, False)
        return list(found.values())

    def _is_sequence(self, value: Value) -> bool:
        return tf_api.sequence(value.name) or (
            isinstance(value.node, cst.ClassDef)
            and bool(self.values.classes.library_bases(value.node) & tf_api.SEQUENCES)
        )

    def _is_array(self, expression: cst.BaseExpression) -> bool:
        values = self.values.values(expression)
        return bool(values) and all(v.kind is Kind.OTHER for v in values)

    def _parts(self, expression: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The arrays of a list, tuple or dict of inputs; one array otherwise."""
        match expression:
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                for element in elements:
                    yield from self._parts(element.value)
            case cst.Dict(elements=items):
                for item in items:
                    yield from self._parts(item.value)
            case cst.Name(value="None"):
                return
            case _:
                yield expression

    # Where the ranks part

    def share_after(self, pipeline: Pipeline) -> cst.BaseExpression:
        """The expression whose elements are divided among the ranks."""
        return self._share_points.get(pipeline.chain, pipeline.share_points[0])

    @cached_property
    def _share_points(self) -> dict[tuple[cst.BaseExpression, ...], cst.BaseExpression]:
        """For each training pipeline the first point that is not upstream of what needs all the data.

        That is a layer's `adapt`, a loop that only looks, and every other training pipeline that parts
        elsewhere: its examples would be divided twice.
        """
        whole = {node for _, looked_at in self.other_uses for p in looked_at for node in p.chain}
        chosen: dict[tuple[cst.BaseExpression, ...], cst.BaseExpression] = {}
        for pipeline in self.pipelines:
            free = [point for point in pipeline.share_points if point not in whole]
            chosen[pipeline.chain] = (free or pipeline.share_points)[0]
        for chain, point in chosen.items():
            for other in self.pipelines:
                if point in other.chain and chosen[other.chain] is not point:
                    own = next(p for p in self.pipelines if p.chain == chain)
                    apart = [p for p in own.share_points if p not in other.chain]
                    chosen[chain] = apart[0] if apart else point
        return chosen

    @cached_property
    def divided_twice(self) -> list[Pipeline]:
        """Training pipelines that come past two places at which ranks part."""
        points = set(self._share_points.values())
        return [p for p in self.pipelines if len(points & set(p.chain)) > 1]

    @cached_property
    def other_uses(self) -> list[tuple[cst.CSTNode, list[Pipeline]]]:
        """What takes from a training dataset without training: `adapt` of a layer, and loops."""
        trained = {p.source for p in self.pipelines}
        if not trained:
            return []
        used = {data for iterables in self.loops.values() for data in iterables}
        found: list[tuple[cst.CSTNode, cst.BaseExpression]] = [
            (call, call.args[0].value)
            for call in self.values.index.calls
            if method(call) == "adapt" and call.args
        ]
        found += [
            (loop, loop.iter)
            for loop in self.values.index.loops
            if loop.iter not in used and not _looks_once(loop)
        ]
        uses = [
            (anchor, [p for p in self.pipelines_of(data) if p.source in trained])
            for anchor, data in found
        ]
        return [(anchor, looked) for anchor, looked in uses if looked and not _is_sample(looked)]

    # Pipelines

    @cached_property
    def pipelines(self) -> list[Pipeline]:
        """All pipelines that training runs over."""
        used = [data for iterables in self.loops.values() for data in iterables]
        used += [dataset for _, dataset in self.fit_datasets]
        found: list[Pipeline] = []
        for expression in used:
            found += self.pipelines_of(expression)
        return found

    def pipelines_of(
        self, node: cst.CSTNode, path: Path = (), seen: frozenset[cst.CSTNode] = frozenset()
    ) -> list[Pipeline]:
        """The pipelines that may reach an expression; none where it is no dataset that can be seen."""
        if node in seen:
            return []
        seen |= {node}
        match node:
            case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(value=name))) if (
                name in tf_api.DATASET_METHODS and self.values.may_be(receiver, Kind.DATASET)
            ):
                found = self.pipelines_of(receiver, (), seen)
                if name == "concatenate" and node.args:
                    found += self.pipelines_of(node.args[0].value, (), seen)
                return [Pipeline(p.source, (*p.steps, node)) for p in found]
            case cst.Call(
                func=cst.Attribute(
                    value=receiver, attr=cst.Name(value="as_numpy_iterator" | "__iter__")
                )
            ):
                return self.pipelines_of(receiver, (), seen)
            case cst.Call(args=[_, *_]) if self.values.qualified(node.func) in _COMBINING:
                return self._pipelines_of_several(node, seen)
            case cst.Call() if self._is_source(node):
                return [Pipeline(node)]
            case cst.Call() if (inner := self.values.flow.unwrap_iteration(node)) is not node:
                return self.pipelines_of(inner, (), seen)
            case cst.Subscript():
                return []  # a part that nothing tells from the others
        found = []
        for source, part in self.values.flow.predecessors(node, path):
            if part and isinstance(node, cst.Name) and self._is_source(source):
                found.append(Pipeline(node))  # one of several that the source gives
            else:
                found += self.pipelines_of(source, part, seen)
        return found

    def _is_source(self, node: cst.CSTNode) -> bool:
        return any(v.kind is Kind.DATASET and v.node is node for v in self.values.values(node))

    def _pipelines_of_several(self, call: cst.Call, seen: frozenset[cst.CSTNode]) -> list[Pipeline]:
        """Datasets in one: divided as a whole where all are in order, else each at its own source."""
        zips = self.values.qualified(call.func).endswith("zip")
        given = [
            part for arg in call.args[: None if zips else 1] for part in self._parts(arg.value)
        ]
        each = [self.pipelines_of(part, (), seen) for part in given]
        if not all(each):
            return []
        found = [pipeline for pipelines in each for pipeline in pipelines]
        in_order = all(p.is_orderly and self.shuffles_at_source(p) is None for p in found)
        return [Pipeline(call)] if in_order and zips else found

    def shuffles_at_source(self, pipeline: Pipeline) -> str | None:
        """The argument that makes the source shuffle, each rank in its own way, or None."""
        if not isinstance(pipeline.source, cst.Call):
            return None
        known = _SHUFFLING_SOURCES.get(self.values.qualified(pipeline.source.func))
        if known is None:
            return None
        keyword, default = known
        arg = argument(pipeline.source, keyword)
        if arg is None:
            return keyword if default else None
        return None if isinstance(arg.value, cst.Name) and arg.value.value == "False" else keyword

    def counts_a_share(self, count: cst.BaseExpression) -> bool:
        """Whether a number is counted from a dataset of which each rank has but its share.

        `len(train)` is a rank's own number of steps where `train` is behind the place at
        which the ranks part.
        """
        for node in self.values.flow.backward_slice(count):
            counted: cst.BaseExpression | None = None
            match node:
                case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name("cardinality"))) if (
                    not node.args
                ):
                    counted = receiver
                case cst.Call(args=[cst.Arg(value=given)]) if self.values.qualified(node.func) in (
                    "builtins.len",
                    "tensorflow.data.experimental.cardinality",
                ):
                    counted = given
            if counted is not None and any(map(self.is_share, self.pipelines_of(counted))):
                return True
        return False

    def is_share(self, counted: Pipeline) -> bool:
        """Whether a pipeline comes past a place at which ranks part."""
        return any(self.share_after(training) in counted.chain for training in self.pipelines)

    # What the program must define to take shares

    @property
    def needs_equal_steps(self) -> bool:
        return any(not pipeline.is_endless for pipeline in self.pipelines)

    @property
    def needs_array_share(self) -> bool:
        return any(fit.arrays for fit in self.fit_arrays)
