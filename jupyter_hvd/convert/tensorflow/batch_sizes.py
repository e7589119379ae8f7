"""How many rows a training step takes, and where the program says so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

import libcst as cst

from ...analysis.index import bound_expression
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
        """What each training takes its batches from, including trainings whose batches cannot grow."""
        return [*self._batches.find_fit_batches(), *self._batches.find_step_batches()]

    @cached_property
    def grown(self) -> frozenset[cst.Call]:
        """The calls of `fit`, and of training steps, whose batches grow with the number of ranks."""
        return frozenset(b.training for b in self.trainings if b.can_grow)

    @cached_property
    def whole(self) -> list[cst.BaseExpression]:
        """The sizes of full batches, which have all rows of the data; the call of the step, where no size is written."""
        return list(dict.fromkeys(b.whole for b in self.trainings if b.whole is not None))

    @cached_property
    def unseen(self) -> list[Batches]:
        """The trainings whose batches cannot grow although nothing says that they have all rows: HVD801 warns about these."""
        return [
            batches
            for batches in self.trainings
            if not batches.can_grow and batches.whole is None
            if not batches.is_stateful and not self._takes_grown(batches.training)
        ]

    def _takes_grown(self, step: cst.Call) -> bool:
        """Whether a step's arguments, such as noise, have as many rows as a batch that grows."""
        return not set(self.numbers).isdisjoint(self._loops.find_inputs(step))

    def has_grown(self, dataset: cst.BaseExpression) -> bool:
        """Whether the batches of a dataset grow with those of training, as one size is multiplied where it is defined."""
        sizes = [*self._size_arguments(dataset)] if self._pipelines.of(dataset) else []
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
        """The calls that take a batch size and are given none, each once."""
        found = {each.call: each for batches in self.trainings for each in batches.missing}
        return list(found.values())

    @cached_property
    def counts(self) -> list[cst.BaseExpression]:
        """The numbers of batches in loops that cut batches out of arrays, unless a multiplied size divides them already."""
        counts = dict.fromkeys(c for batches in self.trainings for c in batches.counts)
        return [count for count in counts if not self.is_scaled_by_sources(count)]

    @cached_property
    def joined(self) -> list[cst.BaseExpression]:
        """The data whose batches are joined at run time, because no number that is multiplied determines their size."""
        found = dict.fromkeys(j for batches in self.trainings for j in batches.joined)
        numbers = set(self.numbers)
        return [data for data in found if numbers.isdisjoint(self._size_sources(data))]

    def _size_sources(self, data: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        """Yield what the sizes of batches are computed from: of a pipeline, its size arguments; of other data, everything."""
        if given := [*self._size_arguments(data)]:
            yield from given
            return
        yield from self.values.flow.backward_slice(data)
        for body in filter(None, map(self._batches.find_body, self.values.of(data))):
            yield from (n for name in names_in(body) for n in self._sources.find_sources(name))

    def _size_arguments(self, data: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        """Yield the nodes that the size arguments of pipelines are computed from."""
        steps = [step for pipeline in self._pipelines.of(data) for step in pipeline.steps]
        for step in steps or self.values.flow.backward_slice(data):
            if not isinstance(step, cst.Call) or method(step) not in tf_api.BATCHING_METHODS:
                continue
            if (size := argument(step, "batch_size", 0)) is not None:
                yield from self._sources.find_sources(size.value)

    @cached_property
    def numbers(self) -> list[cst.BaseExpression]:
        """The expressions that HVD801 multiplies by the number of ranks: each size once, where it is defined if possible."""
        sizes = dict.fromkeys(
            s for batches in self.trainings for s in self._common_sizes(batches.sizes)
        )
        found: dict[cst.BaseExpression, None] = {}
        for size in sizes:
            defined = list(dict.fromkeys(self._definitions.find_definitions(size, frozenset())))
            if any(p is not size and not self._may_grow(p, set(sizes)) for p in defined):
                defined = [size]
            found.update(dict.fromkeys(defined))
        for point in list(found):
            found.update(dict.fromkeys(self._find_reads(point)))
        return [point for point in found if not self._is_computed_from(point, found)]

    def _common_sizes(self, sizes: Sequence[cst.BaseExpression]) -> Sequence[cst.BaseExpression]:
        """Return the number from which the parts of one batch are computed, 32 of `half = 32 // 2` and `32 - half`; else the
        sizes.
        """
        made = [d for size in sizes for d in self._definitions.find_definitions(size, frozenset())]
        is_computed = any(isinstance(each, cst.BinaryOperation) for each in made)
        if len(sizes) < 2 or not is_computed:
            return sizes
        sources = {leaf for size in sizes for leaf in self._find_terms(size, frozenset())}
        return [*sources] if len(sources) == 1 and None not in sources else sizes  # type: ignore[list-item]

    def _find_terms(
        self, size: cst.BaseExpression, seen: frozenset[cst.CSTNode]
    ) -> Iterator[cst.BaseExpression | None]:
        """Yield the numbers whose sum, difference or quotient a size is; None for another expression."""
        match size:
            case cst.BinaryOperation(left=left, operator=cst.Add() | cst.Subtract(), right=right):
                yield from self._find_terms(left, seen)
                yield from self._find_terms(right, seen)
            case cst.BinaryOperation(
                left=left, operator=cst.FloorDivide() | cst.Divide(), right=cst.Integer()
            ):
                yield from self._find_terms(left, seen)
            case cst.BinaryOperation():
                yield None
            case _:
                defined = [*self._definitions.find_definitions(size, frozenset())]
                if defined == [size] or size in seen:
                    yield size
                    return
                for each in defined:
                    yield from self._find_terms(each, seen | {size})

    @cached_property
    def repetitions(self) -> frozenset[cst.BaseExpression]:
        """Literals that repeat a batch size where the number of rows is divided by it: 32 in `len(x) // 32`."""
        return frozenset(self._find_repetitions(self.numbers))

    def is_unscaled(self, number: cst.BaseExpression) -> bool:
        """Whether a number is the size of a training batch, written or read, that is not multiplied at this position."""
        if number in self._multiplied or self.is_scaled_by_sources(number):
            return False
        if isinstance(number, cst.Integer):
            return number_of(number) in self._literal_sizes
        if isinstance(number, (cst.Attribute, cst.Subscript)):
            held = self._find_creators(number.value)
            for size in self.numbers:
                if isinstance(size, (cst.Attribute, cst.Subscript)):
                    same = self._member_text(size) == self._member_text(number) != ""
                    if same and not held.isdisjoint(self._find_creators(size.value)):
                        return True
        if isinstance(number, cst.Name):
            identity = self.values.definitions.identity
            if any(identity(number) == identity(size) for size in self._size_names_of_joined):
                return True
        return any(value.node in self._unmultiplied for value in self.values.of(number))

    @cached_property
    def sizes_of_joined(self) -> list[cst.BaseExpression]:
        """What pipelines take as batch size where their batches are joined; it stays."""
        given = (n for data in self.joined for n in self._size_arguments(data))
        return [n for n in given if isinstance(n, cst.BaseExpression) and n not in self._multiplied]

    @cached_property
    def _size_names_of_joined(self) -> list[cst.Name]:
        """The names that pipelines take as batch size where their batches are joined."""
        return [node for node in self.sizes_of_joined if isinstance(node, cst.Name)]

    @cached_property
    def _multiplied(self) -> frozenset[cst.BaseExpression]:
        """`numbers` as a set."""
        return frozenset(self.numbers)

    @cached_property
    def _unmultiplied(self) -> frozenset[cst.CSTNode]:
        """The literals that define batch sizes and stay: batches are joined, or the size is multiplied where it is read."""
        read = (n for size in self.numbers for n in self._sources.find_sources(size))
        found = (*self.sizes_of_joined, *read)
        return frozenset(n for n in found if isinstance(n, cst.Integer)) - {*self.numbers}

    @cached_property
    def _literal_sizes(self) -> frozenset[float]:
        """The sizes of training batches as numbers, except 1."""
        sizes = [*self.numbers, *(n for n in self._unmultiplied if isinstance(n, cst.Integer))]
        return frozenset(n for size in sizes for n in self._sources.constants_of(size)) - {1}

    def _find_repetitions(
        self, sizes: Collection[cst.BaseExpression]
    ) -> Iterator[cst.BaseExpression]:
        """Yield the literals that repeat one of these sizes as a divisor of the number of rows."""
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
        """Whether a number is a bound of a slice of rows, as in `x[: len(x) // 10]`."""
        return self.module.enclosing(number, (cst.Slice, cst.BaseStatement)).__class__ is cst.Slice

    def _find_reads(self, size: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """Yield the reads of a size that comes from outside the program, such as `args.batch_size`, except for evaluation and
        printing.

        The object may have several names: `args`, and `self.args` or `config` where it is passed on.
        """
        if self._options.sets(size):
            yield from self._find_reads_of_option(size)
        if not isinstance(size, (cst.Attribute, cst.Subscript)):
            return
        held = self._find_creators(size.value)
        for read in self._reads_by_member.get(self._member_text(size), ()):
            same = read.value.deep_equals(size.value) and self._is_same_name(read, size)
            if not same and held.isdisjoint(self._find_creators(read.value)):
                continue
            if not self._is_of_evaluation(read) and not self._is_printed(read):
                yield read

    def _find_reads_of_option(self, option: cst.BaseExpression) -> Iterator[cst.Name]:
        """Yield the reads of a parameter that a command line sets, except for evaluation and printing."""
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
            if same and not self._is_of_evaluation(name) and not self._is_printed(name):
                yield name

    def _find_creators(self, owner: cst.BaseExpression) -> frozenset[cst.CSTNode]:
        """Return the calls, classes and dictionaries that may create an object, to tell whether two expressions may be the same
        object.
        """
        kinds = (cst.Call, cst.ClassDef, cst.Dict, cst.DictComp)
        return frozenset(v.node for v in self.values.of(owner) if isinstance(v.node, kinds))

    def _is_same_name(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether the first names in two expressions refer to the same variable."""
        names = [next(names_in(each), None) for each in (one, other)]
        identity = self.values.definitions.identity
        return None not in names and len({identity(name) for name in names if name}) == 1

    @cached_property
    def _reads_by_member(self) -> dict[str, list[cst.Attribute | cst.Subscript]]:
        """The reads of attributes and entries, by `_member_text`."""
        found: dict[str, list[cst.Attribute | cst.Subscript]] = {}
        for node in self.module.nodes():
            if not isinstance(node, (cst.Attribute, cst.Subscript)) or self.module.is_set(node):
                continue
            if name := self._member_text(node):
                found.setdefault(name, []).append(node)
        return found

    def _member_text(self, node: cst.Attribute | cst.Subscript) -> str:
        """Return which part of an object is read: `.batch_size`, `['batch_size']`; '' for a computed key."""
        if isinstance(node, cst.Attribute):
            return f".{node.attr.value}"
        key = text_key(node)
        return "" if key is None else f"[{key!r}]"

    def _is_printed(self, number: cst.BaseExpression) -> bool:
        """Whether a number is in an f-string or a call of `print`."""
        return any(
            isinstance(around, cst.FormattedString)
            or (isinstance(around, cst.Call) and self.module.text(around.func) == "print")
            for around in self.module.ancestors(number)
        )

    def is_scaled_by_sources(self, number: cst.BaseExpression) -> bool:
        """Whether a number is computed from a size that is multiplied, so that it grows without an edit."""
        return self._is_computed_from(number, dict.fromkeys(self.numbers))

    def _is_computed_from(
        self, number: cst.BaseExpression, others: Mapping[cst.BaseExpression, None]
    ) -> bool:
        """Whether a number is computed from one of the others, itself excepted."""
        return any(
            node is not number and node in others for node in self._sources.find_sources(number)
        )

    def _may_grow(self, point: cst.BaseExpression, sizes: set[cst.BaseExpression]) -> bool:
        """Whether a size may be multiplied where it is defined: it has uses other than evaluations, or no others at all."""

        uses = self._other_uses(point, sizes)
        return not uses or not all(map(self._is_of_evaluation, uses))

    def _other_uses(
        self, point: cst.BaseExpression, sizes: set[cst.BaseExpression]
    ) -> list[cst.Name]:
        """Return the uses of a name that an expression defines, other than as the size of a training."""
        targets = [
            bound.target
            for bound in self.values.index.bound.values()
            if bound.target is not None and bound_expression(bound) is point
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
        """Whether a use gives the batch size of an evaluation or of a separately batched dataset."""
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
