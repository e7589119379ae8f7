"""Where each rank takes its shard of a training pipeline.

A `tf.data` pipeline is sharded at its source, before anything shuffles: ranks shuffle each
in their own order, so only there does every rank see the same examples in the same
order, and taking every N-th one gives each example to exactly one rank.
"""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from ...analysis.flow import Source, is_iteration
from ...analysis.index import ELEMENT
from ...analysis.library import Kind
from ...analysis.syntax import argument, method
from ...analysis.values import ValueAnalysis
from . import tf_api
from .keras_loops import fit_argument
from .pipelines import SPLITTING, Pipeline, Pipelines
from .roles import Role
from .training_data import TrainingData, looks_once

#: Methods of datasets that give one, go through its elements one by one, count them or tell of it.
_GIVING_DATASETS = tf_api.DATASET_METHODS | {
    "as_numpy_iterator",
    "__iter__",
    "cardinality",
    "fingerprint",
    "options",
}
#: Functions that take no elements of the datasets that they are given, or hand them on one by one.
_NOT_TAKING = (
    "tensorflow.data.",
    *("tensorflow.train.", "horovod.", "jupyter_hvd."),  # the state of an iterator is saved
    *(
        "collections.",
        "functools.",
        "itertools.",
        "types.",
        "random.shuffle",
        "numpy.random.shuffle",
    ),
    *(
        f"builtins.{name}"
        for name in "callable dict filter getattr hasattr id isinstance len map next print repr setattr str type".split()
    ),
)
_LAYERS = "tensorflow.keras.layers."
#: What a training is made of.
_PARTS = (Role.MODEL, Role.OPTIMIZER, Role.SCHEDULE)
#: What is the same of batches that differ.
_STATIC = frozenset({"shape", "dtype", "ndim", "element_spec"})


class Sharding:
    """The places of one module at which the ranks part."""

    def __init__(self, data: TrainingData, pipelines: Pipelines) -> None:
        self.data = data
        self.values = data.values
        self._pipelines = pipelines

    def shard_point(self, pipeline: Pipeline) -> cst.BaseExpression:
        """The expression whose elements are divided among the ranks."""
        return self._points.get(pipeline.chain, self._candidates(pipeline)[0])

    @cached_property
    def _points(self) -> dict[tuple[cst.BaseExpression, ...], cst.BaseExpression]:
        """For each training pipeline the first point that is not upstream of what needs all the data.

        That is a layer's `adapt`, a loop that only looks, data of which a test is made, and every other training
        pipeline that parts elsewhere: its examples would be divided twice.
        """
        whole = {node for _, looked_at in self.other_uses for p in looked_at for node in p.chain}
        whole.update(node for pipeline in self._untrained for node in pipeline.chain)
        chosen: dict[tuple[cst.BaseExpression, ...], cst.BaseExpression] = {}
        for pipeline in self.data.pipelines:
            candidates = self._candidates(pipeline)
            free = [point for point in candidates if point not in whole]
            chosen[pipeline.chain] = (free or candidates)[0]
        for chain, point in chosen.items():
            for other in self.data.pipelines:
                if point in other.chain and chosen[other.chain] is not point:
                    own = next(p for p in self.data.pipelines if p.chain == chain)
                    apart = [p for p in self._candidates(own) if p not in other.chain]
                    chosen[chain] = apart[0] if apart else point
        return chosen

    def _candidates(self, pipeline: Pipeline) -> tuple[cst.BaseExpression, ...]:
        """The expressions behind which ranks may part, the earliest first: a split comes before, it is one of all the data."""
        split = (k for k in range(len(pipeline.steps), 0, -1) if self._splits(pipeline, k))
        return pipeline.shard_candidates(next(split, 0))

    def _splits(self, pipeline: Pipeline, place: int) -> bool:
        """Whether a step takes some of the elements that stand at its place, or skips some, where others get the rest."""
        step, elements = pipeline.steps[place - 1], pipeline.elements_before(place)
        return method(step) in SPLITTING and any(
            other is not step
            and (method(other) != method(step) or is_evaluated)
            and elements == given
            for other, given, is_evaluated in self._cuts
        )

    @cached_property
    def _cuts(self) -> list[tuple[cst.Call, tuple[cst.BaseExpression, ...], bool]]:
        """Each `take` and `skip` of a dataset, with what it is of, and whether what it gives is evaluated on."""
        evaluated = {
            step
            for data in self.data.evaluated
            for pipeline in self._pipelines.of(data)
            for step in pipeline.steps
        }
        return [
            (call, pipeline.elements_before(len(pipeline.steps)), call in evaluated)
            for call in self.values.index.calls
            if method(call) in SPLITTING
            for pipeline in self._pipelines.of(call)
            if pipeline.steps and pipeline.steps[-1] is call
        ]

    @cached_property
    def divides_at_use(self) -> bool:
        """Whether all data are divided where training takes them.

        So they are where it cannot be seen whence some come, or where they part too late for what needs all of
        them: nothing is then divided further up, lest it be divided twice.
        """
        keras = self.data.training.keras
        hidden = keras.hidden_fits or keras.estimator_fits
        late = self._needs_all or any(map(self._is_changed, self._untrained))
        return bool(self._unseen or hidden or late or self.double_sharded)

    @cached_property
    def _unseen(self) -> dict[cst.BaseExpression, bool]:
        unseen = dict.fromkeys(self.data.unseen_fits, True)
        unseen |= dict.fromkeys(self.data.unseen_iterables, False)
        return unseen

    @cached_property
    def at_use(self) -> dict[cst.BaseExpression, bool]:
        """The expressions that are divided where training takes its data from them, and whether that is `fit`: all or none."""
        if not self.divides_at_use:
            return {}
        used = {data: True for _, data in self.data.fit_datasets}
        shared = {batches.expression for batches in self.data.batch_sources}
        for call, iterables in self.data.loop_data.items():
            if call not in self.data.unseen_loops:
                divided = [data for data in iterables if self._pipelines.of(data)]
                inner = map(self.data.source, divided)
                used |= {data: False for data in inner if data not in shared}
        return used | self._unseen

    @cached_property
    def _untrained(self) -> list[Pipeline]:
        """The pipelines of data that training does not run over: what models are evaluated on, and what loops run over beside it.

        A function may make them as it makes those that are trained on.
        """
        used = [data for iterables in self.data.loop_data.values() for data in iterables]
        used += [dataset for _, dataset in self.data.fit_datasets]
        trained = {root for data in used for root in self._pipelines.roots(data).values()}
        found = []
        given = [(data, self._pipelines.of(data)) for data in self.data.evaluated]
        looped = [(data, self._pipelines.of(data)) for data in self.data.run_over]
        for data, pipelines in given + [each for each in looped if not _is_sample(each[1])]:
            if not pipelines:
                continue
            roots = (r for r, known in self._pipelines.roots(data).items() if known not in trained)
            begun = [each.chain for root in roots for each in self._pipelines.of(root)]
            found += [p for p in pipelines if any(p.chain[: len(b)] == b for b in begun)]
        return found

    def _is_changed(self, untrained: Pipeline) -> bool:
        """Whether other data come past a place at which ranks part, or a count that is divided behind it."""
        return any(
            point in untrained.chain
            or any(step in untrained.steps for step in p.after(point) if method(step) in SPLITTING)
            for p in self.data.pipelines
            for point in (self.shard_point(p),)
        )

    @cached_property
    def _needs_all(self) -> bool:
        """Whether what needs all of the data gets those that are divided already: a layer that is adapted to them, what saves
        or counts them, what evaluates a model on them.
        """
        evaluated = (self._pipelines.of(data) for data in self.data.evaluated)
        uses = [looked_at for _, looked_at in self.other_uses]
        uses += [pipelines for pipelines in evaluated if pipelines and not _is_sample(pipelines)]
        return any(self._is_behind_point(pipeline) for looked_at in uses for pipeline in looked_at)

    @cached_property
    def in_one_order(self) -> list[cst.Call]:
        """The calls that shuffle before the data are divided: all ranks must do so alike."""
        shuffling = [call for call in self.values.index.calls if self._pipelines.shuffles(call)]
        if self.divides_at_use:
            return shuffling
        early = {
            call
            for p in self.data.pipelines
            for call in self._pipelines.shuffles_before(p, self.shard_point(p))
        }
        agreed = any(method(call) != "shuffle" for call in early)
        return [c for c in shuffling if c in early or (agreed and method(c) != "shuffle")]

    @cached_property
    def double_sharded(self) -> list[Pipeline]:
        """Training pipelines that come past two places at which ranks part."""
        points = set(self._points.values())
        return [p for p in self.data.pipelines if len(points & set(p.chain)) > 1]

    @cached_property
    def other_uses(self) -> list[tuple[cst.CSTNode, list[Pipeline]]]:
        """What takes from a training dataset without training: whatever is no method that gives a dataset, and does not train.

        What only looks at some elements is left out, unless what trains is computed from them.
        """
        trained = {p.source for p in self.data.pipelines}
        if not trained:
            return []
        used = self.data.trained_over
        found: list[tuple[cst.CSTNode, cst.BaseExpression, bool]] = [
            (call, data, False) for call in self.values.index.calls for data in self._taken_by(call)
        ]
        found += [
            (loop, loop.iter, looks_once(loop))
            for loop in self.values.index.loops
            if loop.iter not in used
        ]
        found += [
            (draw, data, True)
            for draw in self.data.draws
            if (data := draw.args[0].value) not in used
        ]
        uses = [
            (anchor, looked, looks)
            for anchor, data, looks in found
            if (looked := [p for p in self._pipelines.of(data) if p.source in trained])
        ]
        return [
            (anchor, looked)
            for anchor, looked, looks in uses
            if not (looks or _is_sample(looked)) or self._trains_by(anchor)
        ]

    def _taken_by(self, call: cst.Call) -> list[cst.BaseExpression]:
        """The datasets that a call takes elements of, to compute with them or to keep them, by itself."""
        if (saved := saved_dataset(self.values, call)) is not None:
            return [saved]
        found: list[cst.BaseExpression] = []
        values, name = self.values, self.values.qualified(call.func)
        if isinstance(call.func, cst.Attribute):
            receiver = call.func.value
            kinds = values.kinds(receiver)
            if Role.DATASET in kinds and self._is_dataset(receiver):
                return [] if method(call) in _GIVING_DATASETS else [receiver]
            if kinds == {Kind.OTHER}:  # a layer, which is adapted
                found += [arg.value for arg in call.args]
        takes = not name.startswith(_NOT_TAKING) or name.endswith(".get_single_element")
        if name and takes and not is_iteration(name):
            found += [arg.value for arg in call.args]
        if (
            is_iteration(name)
            and name.endswith(("list", "tuple"))
            and call.args
            and not self._is_trained_on(call)
        ):
            found.append(call.args[0].value)
        if method(call) == "adapt" and call.args:
            found.append(call.args[0].value)
        return [data for data in found if self._is_dataset(data)]

    def _is_dataset(self, data: cst.BaseExpression) -> bool:
        """Whether an expression is a dataset, or goes through one, and is no element of one."""
        match self.values.flow.unwrap_iteration(data):
            case cst.Call(func=cst.Attribute(value=made, attr=cst.Name("as_numpy_iterator"))):
                return self._is_dataset(made)
            case inner if not self.values.may_be(inner, Role.DATASET):
                return False
        pending: list[Source] = [(inner, ())]
        seen = set[Source]()
        while pending:
            node, path = pending.pop()
            if (node, path) in seen:
                continue
            seen.add((node, path))
            sources = list(self.values.flow.predecessors(node, path))
            if isinstance(node, cst.Subscript):  # one of several by name
                sources.append((node.value, path))
            if not sources and path[:1] != (ELEMENT,) and self.values.may_be(node, Role.DATASET):
                return True
            pending += sources
        return False

    def _is_trained_on(self, call: cst.Call) -> bool:
        """Whether a list of batches is what a training runs over."""
        return any(
            call in self.values.flow.computed_from(data)
            for data in self.data.trained_over
            if isinstance(data, cst.BaseExpression)
        )

    def _trains_by(self, anchor: cst.CSTNode) -> bool:
        """Whether what trains is computed from what is seen there: a constant of a layer, a rate, what a dataset is told."""
        seen = anchor.iter if isinstance(anchor, (cst.For, cst.CompFor)) else anchor
        return seen in self._behind_training

    @cached_property
    def _behind_training(self) -> frozenset[cst.CSTNode]:
        """What models, layers, optimizers, schedules, losses and training data are computed from, but by its shape."""
        made = [
            arg.value
            for call in self.values.index.calls
            if self.values.qualified(call.func).startswith(_LAYERS)
            or method(call) == "compile"
            or any(v.node is call and v.kind in _PARTS for v in self.values.of(call))
            for arg in call.args
        ]
        weighted = (
            fit_argument(fit, "class_weight") for fit in self.data.training.keras.shown_fits
        )
        made += [arg.value for arg in weighted if arg is not None]
        made += [arg.value for p in self.data.pipelines for s in p.steps for arg in s.args]
        made += [
            target.value
            for gradient in self.data.training.training_gradients
            if (target := argument(gradient, "target", 0)) is not None
        ]
        return frozenset(
            n for each in made for n in self.values.flow.computed_from(each, _is_static)
        )

    def counts_shard(self, count: cst.BaseExpression) -> bool:
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
            if counted is not None and any(map(self.is_shard, self._pipelines.of(counted))):
                return True
        return False

    def is_shard(self, counted: Pipeline) -> bool:
        """Whether a pipeline comes past a place at which ranks part."""
        return not self.divides_at_use and self._is_behind_point(counted)

    def _is_behind_point(self, counted: Pipeline) -> bool:
        return any(self.shard_point(training) in counted.chain for training in self.data.pipelines)


def _is_static(node: cst.CSTNode) -> bool:
    """Whether a node is the same of all batches: a shape, a type, how many rows there are."""
    match node:
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in _STATIC
        case cst.Call(func=cst.Name("len")):
            return True
    return False


def saved_dataset(values: ValueAnalysis, call: cst.Call) -> cst.BaseExpression | None:
    """The dataset that a call saves, all of it."""
    data: cst.BaseExpression | None = None
    if values.qualified(call.func) in tf_api.SAVING_DATASETS:
        arg = argument(call, "dataset", 0)
        data = arg.value if arg is not None else None
    elif isinstance(call.func, cst.Attribute) and method(call) == "save":
        data = call.func.value
    elif method(call) == "write" and call.args:
        data = call.args[0].value
    return data if data is not None and values.kinds(data) == {Role.DATASET} else None


def _is_sample(looked_at: list[Pipeline]) -> bool:
    """Whether only some elements are taken, to be shown."""
    return all(any(method(step) == "take" for step in p.steps) for p in looked_at)
