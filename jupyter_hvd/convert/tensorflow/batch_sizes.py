"""How many rows a training step takes, and where the program says so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

import libcst as cst

from ...analysis.index import element_of
from ...analysis.scale_findings import number_of
from ...analysis.syntax import argument, method, text_key
from ...analysis.tree import names_in
from . import tf_api
from .batches import Batches, MissingSize
from .number_sources import NumberSources, is_number_of_rows
from .pipelines import Pipelines
from .size_definitions import SizeDefinitions
from .step_loops import StepLoops
from .training_batches import FLOWS, LOADERS, TrainingBatches
from .training_data import TrainingData


class BatchSizes:
    """The batches that one module trains on, and the numbers that say how large they are."""

    def __init__(self, data: TrainingData, pipelines: Pipelines, loops: StepLoops) -> None:
        self.values = data.values
        self.module = data.module
        self._pipelines = pipelines
        self._loops = loops
        self._options = data.command_lines
        self._sources = NumberSources(data.values)
        self._batches = TrainingBatches(data, pipelines, loops, self._sources)
        self._definitions = SizeDefinitions(data, self._sources)

    @cached_property
    def trainings(self) -> list[Batches]:
        """What each training takes its batches from, those too whose batches cannot grow."""
        return [*self._batches.of_fits(), *self._batches.of_steps()]

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

    def has_grown(self, dataset: cst.BaseExpression) -> bool:
        """Whether the batches of a dataset grow with those of training, as one size is multiplied where it is defined."""
        sizes = [*self._sizes_given(dataset)] if self._pipelines.of(dataset) else []
        return any(size in self._multiplied for size in sizes)

    def gives_rows(self, call: cst.Call) -> bool:
        """Whether the receiver of a dataset's method gives rows, of which the methods that follow make batches."""
        assert isinstance(call.func, cst.Attribute)
        before = self._pipelines.of(call.func.value)
        batching = (*tf_api.BATCHING_METHODS, tf_api.BUCKETING)
        if not before or any(method(step) in batching for p in before for step in p.steps):
            return False
        node: cst.CSTNode | None = call
        while isinstance(node, cst.Call | cst.Attribute):
            if isinstance(node, cst.Attribute) and node.attr.value in batching:
                return True
            node = self.module.parent(node)
        return False

    @cached_property
    def missing(self) -> list[MissingSize]:
        """The calls that take a batch size, and are given none, each once."""
        found = {each.call: each for batches in self.trainings for each in batches.missing}
        return list(found.values())

    @cached_property
    def counts(self) -> list[cst.BaseExpression]:
        """The numbers of batches that loops go through, and that no size which is multiplied divides."""
        counts = dict.fromkeys(c for batches in self.trainings for c in batches.counts)
        return [count for count in counts if not self.follow(count)]

    @cached_property
    def joined(self) -> list[cst.BaseExpression]:
        """The batches that are joined when the program runs: no number that is multiplied says how large they are."""
        found = dict.fromkeys(j for batches in self.trainings for j in batches.joined)
        numbers = set(self.numbers)
        return [data for data in found if numbers.isdisjoint(self._sizes_behind(data))]

    def _sizes_behind(self, data: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        """What the sizes of batches are computed from: of a pipeline those that it is given, of others all of it."""
        if given := [*self._sizes_given(data)]:
            yield from given
            return
        yield from self.values.flow.backward_slice(data)
        for body in filter(None, map(self._batches.body_of, self.values.of(data))):
            yield from (n for name in names_in(body) for n in self._sources.arithmetic(name))

    def _sizes_given(self, data: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        """What the sizes are computed from that pipelines are given."""
        steps = [step for pipeline in self._pipelines.of(data) for step in pipeline.steps]
        for step in steps or self.values.flow.backward_slice(data):
            if not isinstance(step, cst.Call) or method(step) not in tf_api.BATCHING_METHODS:
                continue
            if (size := argument(step, "batch_size", 0)) is not None:
                yield from self._sources.arithmetic(size.value)

    @cached_property
    def numbers(self) -> list[cst.BaseExpression]:
        """The expressions that are multiplied by the number of ranks: each size once, where it is defined if that can be."""
        sizes = dict.fromkeys(
            s for batches in self.trainings for s in self._common_sizes(batches.sizes)
        )
        found: dict[cst.BaseExpression, None] = {}
        for size in sizes:
            defined = list(dict.fromkeys(self._definitions.definitions_of(size, frozenset())))
            if any(p is not size and not self._may_grow(p, set(sizes)) for p in defined):
                defined = [size]
            found.update(dict.fromkeys(defined))
        for point in list(found):
            found.update(dict.fromkeys(self._reads_of(point)))
        return [point for point in found if not self._is_computed_from(point, found)]

    def _common_sizes(self, sizes: Sequence[cst.BaseExpression]) -> Sequence[cst.BaseExpression]:
        """The number from which the parts of one batch are computed, 32 of `half = 32 // 2` and `32 - half`; else the sizes."""
        made = [d for size in sizes for d in self._definitions.definitions_of(size, frozenset())]
        is_computed = any(isinstance(each, cst.BinaryOperation) for each in made)
        if len(sizes) < 2 or not is_computed:
            return sizes
        sources = {leaf for size in sizes for leaf in self._leaves(size, frozenset())}
        return [*sources] if len(sources) == 1 and None not in sources else sizes  # type: ignore[list-item]

    def _leaves(
        self, size: cst.BaseExpression, seen: frozenset[cst.CSTNode]
    ) -> Iterator[cst.BaseExpression | None]:
        """The numbers that a size is a sum, a difference or a part of; None where it is something else."""
        match size:
            case cst.BinaryOperation(left=left, operator=cst.Add() | cst.Subtract(), right=right):
                yield from self._leaves(left, seen)
                yield from self._leaves(right, seen)
            case cst.BinaryOperation(
                left=left, operator=cst.FloorDivide() | cst.Divide(), right=cst.Integer()
            ):
                yield from self._leaves(left, seen)
            case cst.BinaryOperation():
                yield None
            case _:
                defined = [*self._definitions.definitions_of(size, frozenset())]
                if defined == [size] or size in seen:
                    yield size
                    return
                for each in defined:
                    yield from self._leaves(each, seen | {size})

    @cached_property
    def repetitions(self) -> frozenset[cst.BaseExpression]:
        """Where a size is written again that divides the rows of the data: 32 of `len(x) // 32`."""
        return frozenset(self._repetitions(self.numbers))

    def is_unscaled(self, number: cst.BaseExpression) -> bool:
        """Whether a number is the size of a training batch, as it is written or read, and is not multiplied there."""
        if number in self._multiplied or self.follow(number):
            return False
        if isinstance(number, cst.Integer):
            return number_of(number) in self._written
        if isinstance(number, (cst.Attribute, cst.Subscript)):
            held = self._held(number.value)
            for size in self.numbers:
                if isinstance(size, (cst.Attribute, cst.Subscript)):
                    same = self._member(size) == self._member(number) != ""
                    if same and not held.isdisjoint(self._held(size.value)):
                        return True
        if isinstance(number, cst.Name):
            identity = self.values.definitions.identity
            if any(identity(number) == identity(size) for size in self._names_joined):
                return True
        return any(value.node in self._unmultiplied for value in self.values.of(number))

    @cached_property
    def _names_joined(self) -> list[cst.Name]:
        """The names by which pipelines are given sizes whose batches are joined."""
        given = (n for data in self.joined for n in self._sizes_given(data))
        return [node for node in given if isinstance(node, cst.Name)]

    @cached_property
    def _multiplied(self) -> frozenset[cst.BaseExpression]:
        return frozenset(self.numbers)

    @cached_property
    def _unmultiplied(self) -> frozenset[cst.CSTNode]:
        """The numbers that define sizes of batches and stay: what data are joined of, or what is multiplied where it is read."""
        joined = (n for data in self.joined for n in self._sizes_given(data))
        read = (n for size in self.numbers for n in self._sources.arithmetic(size))
        return frozenset(n for n in (*joined, *read) if isinstance(n, cst.Integer)) - {
            *self.numbers
        }

    @cached_property
    def _written(self) -> frozenset[float]:
        """The sizes of training batches, as numbers."""
        sizes = [*self.numbers, *(n for n in self._unmultiplied if isinstance(n, cst.Integer))]
        return frozenset(n for size in sizes for n in self._sources.constants_of(size)) - {1}

    def _repetitions(self, sizes: Collection[cst.BaseExpression]) -> Iterator[cst.BaseExpression]:
        numbers = {n for size in sizes for n in self._sources.constants_of(size)} - {1}
        for node in self.module.nodes() if numbers else ():
            match node:
                case cst.BinaryOperation(
                    left=rows,
                    operator=cst.FloorDivide() | cst.Divide(),
                    right=cst.Integer() as size,
                ) if number_of(size) in numbers and size not in sizes:
                    rows = rows.expression if isinstance(rows, cst.UnaryOperation) else rows
                    if is_number_of_rows(self.values, rows) and not self._cuts_rows(node):
                        yield size

    def _cuts_rows(self, number: cst.BaseExpression) -> bool:
        """Whether a number is a bound of rows, as in `x[: len(x) // 10]`."""
        return self.module.enclosing(number, (cst.Slice, cst.BaseStatement)).__class__ is cst.Slice

    def _reads_of(self, size: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """All reads of a size that comes from outside the program, `args.batch_size`, but for what is evaluated or printed.

        The object may have several names: `args`, and `self.args` or `config` where it is passed on.
        """
        if self._options.sets(size):
            yield from self._reads_of_option(size)
        if not isinstance(size, (cst.Attribute, cst.Subscript)):
            return
        held = self._held(size.value)
        for read in self._reads.get(self._member(size), ()):
            same = read.value.deep_equals(size.value) and self._is_same_name(read, size)
            if not same and held.isdisjoint(self._held(read.value)):
                continue
            if not self._is_of_evaluation(read) and not self._is_shown(read):
                yield read

    def _reads_of_option(self, option: cst.BaseExpression) -> Iterator[cst.Name]:
        """All reads of a parameter that a command line sets, likewise."""
        assert isinstance(option, cst.Name)
        identity = self.values.definitions.identity
        for name in self.module.names.get(option.value, ()):
            parent = self.module.parent(name)
            if (
                isinstance(parent, (cst.Param, cst.Arg))
                and getattr(parent, "value", None) is not name
            ):
                continue  # the parameter itself, or a keyword
            same = identity(name) == identity(option) and self._options.sets(name)
            if same and not self._is_of_evaluation(name) and not self._is_shown(name):
                yield name

    def _held(self, owner: cst.BaseExpression) -> frozenset[cst.CSTNode]:
        """The calls, classes and dictionaries that may make an object."""
        kinds = (cst.Call, cst.ClassDef, cst.Dict, cst.DictComp)
        return frozenset(v.node for v in self.values.of(owner) if isinstance(v.node, kinds))

    def _is_same_name(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        names = [next(names_in(each), None) for each in (one, other)]
        identity = self.values.definitions.identity
        return None not in names and len({identity(name) for name in names if name}) == 1

    @cached_property
    def _reads(self) -> dict[str, list[cst.Attribute | cst.Subscript]]:
        """Where attributes and entries are read, by their names."""
        found: dict[str, list[cst.Attribute | cst.Subscript]] = {}
        for node in self.module.nodes():
            if not isinstance(node, (cst.Attribute, cst.Subscript)) or self.module.is_set(node):
                continue
            if name := self._member(node):
                found.setdefault(name, []).append(node)
        return found

    def _member(self, node: cst.Attribute | cst.Subscript) -> str:
        """What is read of an object: `.batch_size`, `["batch_size"]`."""
        if isinstance(node, cst.Attribute):
            return f".{node.attr.value}"
        key = text_key(node)
        return "" if key is None else f"[{key!r}]"

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
        return any(
            node is not number and node in others for node in self._sources.arithmetic(number)
        )

    def _may_grow(self, point: cst.BaseExpression, sizes: set[cst.BaseExpression]) -> bool:
        """Whether a size is multiplied where it is defined: it has other uses than evaluations, or none."""

        uses = self._other_uses(point, sizes)
        return not uses or not all(map(self._is_of_evaluation, uses))

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
            for name in self.module.names.get(target.value, ())
            if name is not target
            and name not in sizes
            and definitions.identity(name) == definitions.identity(target)
        ]

    def _is_of_evaluation(self, size: cst.BaseExpression) -> bool:
        """Whether a use says how large the batches are that a model is evaluated on."""
        arg = self.module.parent(size)
        call = self.module.parent(arg) if isinstance(arg, cst.Arg) else None
        if not isinstance(call, cst.Call):
            return False
        keyword = arg.keyword.value if isinstance(arg, cst.Arg) and arg.keyword else ""
        loads = method(call) in FLOWS or any(
            kind.search(self.values.qualified(call.func)) for kind, _ in LOADERS
        )
        return (
            method(call) in {"evaluate", "predict", *tf_api.BATCHING_METHODS}
            or (loads and keyword == "batch_size")
            or keyword == "validation_batch_size"
        )
