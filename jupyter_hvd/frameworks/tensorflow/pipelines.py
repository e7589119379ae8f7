"""`tf.data` pipelines: from where a dataset comes, and through which methods it went."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import libcst as cst

from ...analysis.flow import Source
from ...analysis.index import Path
from ...analysis.library import Kind
from ...analysis.syntax import argument, method, never_ends
from ...analysis.values import ValueAnalysis
from . import tf_api
from .roles import Role

#: Methods that neither mix nor regroup: what comes out of them is the same on every rank.
_ORDERLY = frozenset(
    {"cache", "enumerate", "filter", "map", "prefetch", "skip", "take", "with_options"}
)
_BATCHING = frozenset(
    {"batch", "padded_batch", "ragged_batch", "sparse_batch", "bucket_by_sequence_length"}
)
#: Methods that make elements out of several neighbours: others, if the source is divided before.
_GATHERING = frozenset({"group_by_window", "scan", "window"})
#: Methods that take such elements apart again, and belong with them.
_TAKING_APART = frozenset({"flat_map", "interleave", "unbatch"})
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
#: Sources that shuffle by themselves: the argument that says whether, and its default.
_SHUFFLING_SOURCES = {
    "tensorflow.data.Dataset.list_files": ("shuffle", True),
    "tensorflow.data.experimental.make_csv_dataset": ("shuffle", True),
    "tensorflow.keras.utils.image_dataset_from_directory": ("shuffle", True),
    "tensorflow.keras.utils.text_dataset_from_directory": ("shuffle", True),
    "tensorflow.keras.preprocessing.image_dataset_from_directory": ("shuffle", True),
    "tensorflow.keras.preprocessing.text_dataset_from_directory": ("shuffle", True),
    "tensorflow.keras.utils.timeseries_dataset_from_array": ("shuffle", False),
    "tensorflow_datasets.load": ("shuffle_files", False),
    "tensorflow.keras.utils.audio_dataset_from_directory": ("shuffle", True),
    "tensorflow.keras.preprocessing.timeseries_dataset_from_array": ("shuffle", False),
}
#: What chooses elements at random, and so, one after another, their order.
_CHOOSING_METHODS = frozenset({"shuffle", "rejection_resample"})
_CHOOSING_COMBINATIONS = re.compile(r"^tensorflow\.data\.\w+\.sample_from_datasets$")
#: Sources whose elements are batches: the argument that says how large, where None makes them examples.
_BATCHED_SOURCE = re.compile(r"\.(\w+_dataset_from_\w+|make_csv_dataset)$")


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A dataset from its source to its use.

    Attributes:
        source: the expression that gives the dataset first: a call of the library, or a name
            that a tuple of datasets was unpacked into.
        steps: the calls of dataset methods that follow, in order.
        is_endless: whether the source itself never ends, as a generator with `while True`.
    """

    source: cst.BaseExpression
    steps: tuple[cst.Call, ...] = ()
    is_endless: bool = False

    @property
    def is_orderly(self) -> bool:
        """Whether all ranks see the same elements in the same order at its end."""
        return all(method(step) in _ORDERLY for step in self.steps)

    @property
    def chain(self) -> tuple[cst.BaseExpression, ...]:
        return (self.source, *self.steps)

    @cached_property
    def gathered(self) -> int:
        """The place in the chain behind which the elements are whole: windows, sequences, and what is made of them.

        A batching makes the elements where another one follows.
        """
        batching = [k for k, step in enumerate(self.steps, 1) if method(step) in _BATCHING]
        making = [k for k, step in enumerate(self.steps, 1) if method(step) in _GATHERING]
        place = max([0, *making, *batching[:-1]])
        for k, step in enumerate(self.steps[place:] if place else (), place + 1):
            if method(step) in _TAKING_APART:
                place = k
            elif method(step) not in _ORDERLY:
                break
        return place

    def before(self, point: cst.BaseExpression) -> tuple[cst.Call, ...]:
        """The steps up to the place of sharding: they see all the data."""
        return self.steps[: self.chain.index(point)]

    def after(self, point: cst.BaseExpression) -> tuple[cst.Call, ...]:
        """The steps behind the place of sharding: they see one rank's shard only."""
        return self.steps if point is self.source else self.steps[self.chain.index(point) :]

    def last_batching(self, point: cst.BaseExpression) -> cst.BaseExpression:
        """The step, not before the place of sharding, after which an element is a training step."""
        batching = [step for step in self.after(point) if method(step) in _BATCHING]
        return batching[-1] if batching else point

    def regroups_before(self, point: cst.BaseExpression) -> bool:
        """Whether the elements at the place of sharding are other ones than the source gives."""
        return any(
            method(step) in _GATHERING or method(step) in ("flat_map", "unbatch")
            for step in self.before(point)
        )

    @property
    def is_infinite(self) -> bool:
        """Whether the dataset repeats forever, so that its ranks never run out."""
        return self.is_endless or any(map(_repeats, self.steps))

    @property
    def ends(self) -> bool:
        """Whether a loop over the dataset comes to its end: it does not repeat forever, or a part is taken of that."""
        repeats = [k for k, step in enumerate(self.steps) if _repeats(step)]
        cut = self.steps[repeats[-1] if repeats else 0 :]
        return not self.is_infinite or any(method(step) == "take" for step in cut)


def _repeats(step: cst.Call) -> bool:
    """Whether a step repeats its dataset forever."""
    if method(step) != "repeat":
        return False
    count = argument(step, "count", 0)
    return count is None or _means_forever(count.value)


def _means_forever(count: cst.BaseExpression) -> bool:
    match count:
        case cst.Name(value="None") | cst.UnaryOperation(operator=cst.Minus()):
            return True
    return False


class Pipelines:
    """The pipelines of one module."""

    def __init__(self, values: ValueAnalysis) -> None:
        self.values = values

    def of(
        self, node: cst.CSTNode, path: Path = (), seen: frozenset[cst.CSTNode] = frozenset()
    ) -> list[Pipeline]:
        """The pipelines that may reach an expression; none where it is no dataset that can be seen.

        Args:
            seen: what was come past on the way back. Of a function that was entered by one call, the
                parameters are what that call passes.
        """
        if node in seen:
            return []
        seen |= {node}
        match node:
            case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(value=name))) if (
                name in tf_api.DATASET_METHODS and self.values.may_be(receiver, Role.DATASET)
            ):
                found = self.of(receiver, (), seen)
                if name == "concatenate" and node.args:
                    found += self.of(node.args[0].value, (), seen)
                return [replace(p, steps=(*p.steps, node)) for p in found]
            case cst.Call(
                func=cst.Attribute(
                    value=receiver, attr=cst.Name(value="as_numpy_iterator" | "__iter__")
                )
            ):
                return self.of(receiver, (), seen)
            case cst.Call(args=[_, *_]) if self.values.qualified(node.func) in _COMBINING:
                return self._of_several(node, seen)
            case cst.Call() if self._is_source(node):
                return [Pipeline(node, is_endless=self._is_endless(node))]
            case cst.Call() if (inner := self.values.flow.unwrap_iteration(node)) is not node:
                return self.of(inner, (), seen)
            case cst.Subscript(value=value) if self._names_a_part(node) and any(
                self._is_source(source) for source in self._made_by(value)
            ):
                return [Pipeline(node)]  # one of several that the source gives by name
            case cst.Subscript():
                return []  # a part that nothing tells from the others
        found = []
        for source, part in self._predecessors(node, path, seen):
            if part and isinstance(node, cst.Name) and self._is_source(source):
                found.append(Pipeline(node))  # one of several that the source gives
            else:
                found += self.of(source, part, seen)
        return found

    def _predecessors(
        self, node: cst.CSTNode, path: Path, seen: frozenset[cst.CSTNode]
    ) -> list[Source]:
        """The step back, and from a parameter to the calls by which its function was entered, if it was."""
        found = self.values.flow.predecessors(node, path)
        if not isinstance(node, cst.Name):
            return found
        elsewhere: set[cst.CSTNode] = set()
        for param in self.values.definitions.reaching(node):
            function = self.values.module.owner(param) if isinstance(param, cst.Param) else None
            if isinstance(param, cst.Param) and function is not None:
                passed = self.values.calls.actual_arguments(function, param)
                here = {value for site, value in passed if site in seen}
                if here:
                    elsewhere |= {value for _, value in passed} - here
        return [(source, part) for source, part in found if source not in elsewhere]

    def roots(self, expression: cst.BaseExpression) -> dict[cst.CSTNode, tuple[str, Path]]:
        """What the datasets that an expression may hold are before methods of datasets change them, each with
        what tells it from others: the text of what makes it, and which part of that it is.
        """
        found: dict[cst.CSTNode, tuple[str, Path]] = {}
        pending: list[Source] = [(expression, ())]
        seen = set[tuple[cst.CSTNode, Path]]()
        while pending:
            node, path = pending.pop()
            if (node, path) in seen:
                continue
            seen.add((node, path))
            before = self._changed(node)
            if before is not None:
                pending.append((before, ()))
                continue
            sources = (
                [] if isinstance(node, cst.Call) else self.values.flow.predecessors(node, path)
            )
            if not sources:
                found[node] = (self.values.module.text(node), path)
            for source, part in sources:
                if part and isinstance(node, cst.Name) and self._is_source(source):
                    found[node] = (self.values.module.text(source), part)
                else:
                    pending.append((source, part))
        return found

    def _changed(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The dataset that an expression gives in another form, or runs over."""
        match node:
            case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(value=name))) if (
                name in (*tf_api.DATASET_METHODS, "as_numpy_iterator", "__iter__")
            ):
                return receiver if self.values.may_be(receiver, Role.DATASET) else None
            case cst.Call():
                inner = self.values.flow.unwrap_iteration(node)
                return inner if inner is not node else None
        return None

    def _names_a_part(self, node: cst.Subscript) -> bool:
        match node.slice:
            case [cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() | cst.Integer()))]:
                return True
        return False

    def _made_by(self, expression: cst.BaseExpression) -> list[cst.Call]:
        """The calls that make what an expression holds, or what holds that."""
        if isinstance(expression, cst.Call):
            return [expression]
        pending: list[Source] = [(expression, ())]
        found, seen = dict[cst.Call, None](), set[cst.CSTNode]()
        while pending:
            node, path = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, cst.Call):
                found[node] = None
            else:
                pending += self.values.flow.predecessors(node, path)
        return list(found)

    def _is_source(self, node: cst.CSTNode) -> bool:
        return any(v.kind is Role.DATASET and v.node is node for v in self.values.of(node))

    def _is_endless(self, source: cst.Call) -> bool:
        """Whether a dataset is made of a generator of this module that never ends."""
        generator = argument(source, "generator", 0)
        if generator is None or not self.values.qualified(source.func).endswith(".from_generator"):
            return False
        called = [value.node for value in self.values.of(generator.value)]
        given = (node.body for node in called if isinstance(node, cst.Lambda))
        called += [value.node for body in given for value in self.values.of(body)]
        functions = [node for node in called if not isinstance(node, cst.Lambda)]
        return bool(functions) and all(map(never_ends, functions))

    def _of_several(self, call: cst.Call, seen: frozenset[cst.CSTNode]) -> list[Pipeline]:
        """Datasets in one: sharded as a whole where all are in order, else each at its own source."""
        zips = self.values.qualified(call.func).endswith("zip")
        given = [part for arg in call.args[: None if zips else 1] for part in parts(arg.value)]
        each = [self.of(part, (), seen) for part in given]
        if not all(each):
            return []
        found = [pipeline for pipelines in each for pipeline in pipelines]
        in_order = all(p.is_orderly and not self.shuffles_at_source(p) for p in found)
        return [Pipeline(call)] if in_order and zips else found

    def shuffles_at_source(self, pipeline: Pipeline) -> list[cst.Call]:
        """The calls that make the source, or what that reads, where they shuffle by themselves: each rank in its own way."""
        found: dict[cst.Call, None] = {}
        pending, seen = self._made_by(pipeline.source), set[cst.Call]()
        while pending:
            call = pending.pop()
            if call in seen:
                continue
            seen.add(call)
            found |= dict.fromkeys(filter(self.shuffles, (call,)))
            for read in (p for arg in call.args for p in self.of(arg.value)):
                found |= dict.fromkeys(filter(self.shuffles, read.steps))
                pending += self._made_by(read.source)
        return list(found)

    def shuffles(self, call: cst.Call) -> bool:
        """Whether a call makes a dataset that shuffles by itself, shuffles one, or chooses of what it has at random."""
        chooses = method(call) in _CHOOSING_METHODS and bool(call.args)
        if chooses and isinstance(call.func, cst.Attribute):
            kinds = self.values.kinds(call.func.value)
            return not kinds or bool(kinds & {Role.DATASET, Kind.UNKNOWN})
        name = self.values.qualified(call.func)
        if _CHOOSING_COMBINATIONS.match(name):
            return True
        known = _SHUFFLING_SOURCES.get(name)
        if known is None:
            return False
        keyword, default = known
        arg = argument(call, keyword)
        if arg is None:
            return default
        return not (isinstance(arg.value, cst.Name) and arg.value.value == "False")

    def gives_batches(self, pipeline: Pipeline, point: cst.BaseExpression) -> bool:
        """Whether the elements at the place of sharding are the batches that training takes."""
        steps = pipeline.before(point)
        batching = [k for k, step in enumerate(steps) if method(step) in _BATCHING]
        if not batching:
            return self._source_gives_batches(pipeline) and not pipeline.regroups_before(point)
        last = pipeline.last_batching(point) is point
        return last and not any(method(step) in _TAKING_APART for step in steps[batching[-1] :])

    def _source_gives_batches(self, pipeline: Pipeline) -> bool:
        """Whether the elements of the source itself are batches."""
        made = self._made_by(pipeline.source)
        return bool(made) and all(
            _BATCHED_SOURCE.search(self.values.qualified(call.func))
            and not ((size := argument(call, "batch_size")) and _means_none(size.value))
            for call in made
        )


def _means_none(expression: cst.BaseExpression) -> bool:
    return isinstance(expression, cst.Name) and expression.value == "None"


def parts(expression: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The arrays of a list, tuple or dict of inputs; one array otherwise."""
    match expression:
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            for element in elements:
                yield from parts(element.value)
        case cst.Dict(elements=items):
            for item in items:
                yield from parts(item.value)
        case cst.Name(value="None"):
            return
        case _:
            yield expression
