"""Finds the datasets and arrays that training loops and `fit` read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from ...analysis.index import ELEMENT, Binding
from ...analysis.library import Kind, Value
from ...analysis.reach import is_ruled_out
from ...analysis.tree import names_in, nodes_in
from . import tf_api
from .command_lines import CommandLines
from .compiled import EagerSite
from .gradients import VARIABLE_LISTS
from .keras_loops import find_fit_argument
from .pipelines import Pipelines, iterate_parts
from .recreated_models import RecreatedModels
from .roles import Role
from .selecting_loops import LoopIterables
from .training import Training
from .updates import Update

#: Methods by which Python goes through what has them.
_GOING_THROUGH = ("__iter__", "__next__", "__getitem__")


@dataclass(frozen=True, eq=False)
class ArrayFit:
    """A `fit` of arrays, and its `batch_size` argument, if any."""

    call: cst.Call
    arrays: tuple[cst.BaseExpression, ...]
    batch_size: cst.BaseExpression | None


class TrainingData:
    """The data that one module trains on."""

    def __init__(self, training: Training, pipelines: Pipelines) -> None:
        self.training = training
        self.values = training.values
        self.module = training.module
        self.anew = RecreatedModels(training)
        self.turns = LoopIterables(self.values)
        self.command_lines = CommandLines(self.values)
        self._pipelines = pipelines

    # Loops

    @cached_property
    def loop_data(self) -> dict[cst.Call, list[cst.BaseExpression]]:
        """The data of each training step, by its eager call: what the loops around it run over and what it draws from."""
        return {
            call: taken or list(self._drawn_before(call)) or list(self._gathered_before(call))
            for call, taken in self._taken.items()
        }

    @cached_property
    def step_sites(self) -> list[tuple[Update, list[EagerSite]]]:
        """The program's own updates, each with the eager calls that are its steps.

        If a function that steps is called from several positions, each of these is a step, because each has its own loops
        around it.
        """
        return [
            (update, [each for site in sites for each in self._split_by_caller(update, site)])
            for update, sites in self.training.own_updates
        ]

    def _split_by_caller(self, update: Update, site: EagerSite) -> list[EagerSite]:
        """Split an update's call into one site per caller, where the function that steps is called from several positions."""
        pending, found = [(update.call, *site.chain)], list[tuple[cst.Call, ...]]()
        while pending:
            chain = pending.pop(0)
            callers = [] if self._is_in_loop(chain[-1]) else self._callers(chain)
            pending += callers
            found += [] if callers else [chain]
        return [EagerSite(c[-1], c[1:]) for c in found] if len(found) > 1 else [site]

    def _is_in_loop(self, call: cst.Call) -> bool:
        """Whether a call is in a loop of its function, or the function draws data by `next`."""
        function = self.module.function_of(call)
        around = self.module.enclosing(call, (cst.FunctionDef, cst.For, cst.While, cst.BaseComp))
        drawn = any(self.module.function_of(draw) is function for draw in self.draws)
        return (around is not None and around is not function) or (drawn and function is not None)

    @cached_property
    def _taken(self) -> dict[cst.Call, list[cst.BaseExpression]]:
        """Return, for each training step's call, the iterables of the loops around it and the data that they draw from."""
        found: dict[cst.Call, list[cst.BaseExpression]] = {}
        for update, sites in self.step_sites:
            for site in sites:
                if site.call not in found:
                    whole = (update.call, *site.chain)
                    # Within what the site calls, not around other sites that call the same.
                    inner = (
                        t for n in range(1, len(whole)) for t in self._data_in_function(whole[:n])
                    )
                    found[site.call] = [*self._data_around(whole), *inner]
        return found

    def _drawn_before(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """Yield the data for a step outside any loop: from `next(iter(data))`, or the variable of an earlier loop."""
        for node in self.values.flow.backward_slice(call):
            match node:
                case cst.Call(args=[cst.Arg(value=drawn), *_]) if (
                    self.values.qualified(node.func) == "builtins.next"
                ):
                    yield drawn
        for name in names_in(call):
            for binding in self.values.definitions.reaching(name):
                loop = isinstance(binding, Binding) and self.module.parent(binding.value)
                if isinstance(loop, cst.For) and self._pipelines.of(loop.iter):
                    yield loop.iter

    def _gathered_before(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """Yield the data of loops that accumulate gradients, where a step after the loop applies the remainder."""
        gradients = {update: set(self._applied_by(update)) for update in self.training.updates}
        for update, sites in self.step_sites:
            if all(site.call is not call for site in sites):
                continue
            for other, applied in gradients.items():
                for gradient in applied & gradients[update] if other is not update else ():
                    around = self._loop_around(gradient)
                    if around is not None and around in self.module.ancestors(other.call):
                        yield from self._data_in_function((gradient,))

    def _applied_by(self, update: Update) -> Iterator[cst.Call]:
        """Yield the `gradient(…)` calls whose results an update applies."""
        if update.applied is not None:
            yield from self.training.gradients.flowing_into(*update.applied)

    def _loop_around(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the innermost loop or function around a node."""
        return self.module.enclosing(node, (cst.FunctionDef, cst.For))

    def _data_around(self, chain: tuple[cst.Call, ...]) -> Iterator[cst.BaseExpression]:
        """Yield what the loops around a call run over and draw from, in its function and in all callers.

        Args:
            chain: an update, what calls its function, and so on: the call last.
        """
        yield from self._data_in_function(chain)
        for caller in self._callers(chain):
            yield from self._data_around(caller)

    def _data_in_function(self, chain: tuple[cst.Call, ...]) -> Iterator[cst.BaseExpression]:
        """Yield what the loops around a chain's last call run over and draw from, in that call's function only."""
        call = chain[-1]
        function = self.module.function_of(call)
        outermost: cst.CSTNode = call
        inner: list[cst.BaseExpression] = []
        for ancestor in self.module.ancestors(call):
            if ancestor is function:
                break
            if isinstance(ancestor, cst.BaseComp):
                yield self.turns.split_counters(ancestor.for_in.iter)[0]
            if isinstance(ancestor, (cst.For, cst.While)):
                outermost = ancestor
                if isinstance(ancestor, cst.For) and self._loop_yields_batches(
                    ancestor, chain, inner
                ):
                    inner.append(ancestor.iter)
                    yield from self._resolve_parameter(ancestor.iter, chain)
        drawn = [d for d in self.draws if outermost in (d, *self.module.ancestors(d))]
        given = set(self.values.flow.backward_slice(call)) if drawn else set()
        # Beside what a step is given, examples may be drawn to be looked at, or for a test.
        unclear = not inner and not given & set(drawn)
        taken = (d.args[0].value for d in drawn if unclear or d in given)
        yield from (passed for data in taken for passed in self._resolve_parameter(data, chain))

    def _loop_yields_batches(
        self, loop: cst.For, chain: tuple[cst.Call, ...], inner: Sequence[cst.BaseExpression]
    ) -> bool:
        """Whether a loop around the steps of a chain yields batches, rather than settings or new models.

        Args:
            inner: what the loops within this one run over.
        """
        return (
            self.is_over_data(loop.iter)
            and not self.anew.are_recreated_in({chain[0]}, loop)
            and not self._yields_settings(loop.iter, chain, inner)
        )

    def _yields_settings(
        self,
        iterable: cst.BaseExpression,
        chain: tuple[cst.Call, ...],
        inner: Sequence[cst.BaseExpression],
    ) -> bool:
        """Whether a loop over a user-defined generator or iterable yields settings, such as rates, rather than batches.

        That is so if no step uses its elements, or if the batches come from a dataset in an inner loop that does not use them.

        Args:
            chain: an update and the calls that lead to it.
            inner: what the loops within this one run over.
        """
        values = self.values.of(self.unwrap_data(iterable))
        if not values or not all(map(self._is_iterable, values)):
            return False
        if not any(self._is_computed_from(call, iterable) for call in chain):
            return True
        datasets = (data for data in inner if self._pipelines.of(data))
        return any(not self._is_computed_from(data, iterable) for data in datasets)

    def _is_computed_from(self, node: cst.BaseExpression, iterable: cst.BaseExpression) -> bool:
        """Whether a node is computed from the elements of an iterable."""
        return any(behind is iterable for behind in self.values.flow.backward_slice(node))

    def _callers(self, chain: tuple[cst.Call, ...]) -> list[tuple[cst.Call, ...]]:
        """Return the call chain extended by each call site of the function that contains its last call.

        Empty where that function is already in the chain (recursion).
        """
        function = self.module.function_of(chain[-1])
        if function in map(self.module.function_of, chain[:-1]):
            return []
        return [(*chain, site) for site in self._reachable_sites(chain)]

    @cached_property
    def training_sites(self) -> dict[cst.CSTNode, frozenset[cst.Call]]:
        """The functions in which training runs, each with the calls of it that train."""
        found: dict[cst.CSTNode, set[cst.Call]] = {}
        for update, sites in self.training.own_updates:
            pending = [(update.call, *site.chain) for site in sites]
            while pending:
                chain = pending.pop()
                function = self.module.function_of(chain[-1])
                if function is None or function in map(self.module.function_of, chain[:-1]):
                    continue
                live = self._reachable_sites(chain)
                pending += [(*chain, s) for s in live if s not in found.get(function, ())]
                found.setdefault(function, set()).update(live)
        return {function: frozenset(sites) for function, sites in found.items()}

    def _reachable_sites(self, chain: tuple[cst.Call, ...]) -> list[cst.Call]:
        """Return the call sites of the function around a chain's last call, without those that never reach the chain's first
        call.

        All sites if none would remain.
        """
        function = self.module.function_of(chain[-1])
        sites = self.values.calls.sites(function) if function is not None else []
        return [s for s in sites if not is_ruled_out(self.values, (*chain, s))] or sites

    def _resolve_parameter(
        self, iterable: cst.BaseExpression, chain: tuple[cst.Call, ...]
    ) -> list[cst.BaseExpression]:
        """Return the iterables that a training loop may run over: if it is a parameter and only some callers train, their
        arguments.
        """
        iterable = self._unwrap_map(iterable)
        source = self.unwrap_data(iterable)
        bound = self.values.definitions.reaching(source) if isinstance(source, cst.Name) else []
        function = self.module.function_of(chain[-1])
        match bound:
            case [cst.Param() as param] if function is not None:
                live = self._reachable_sites(chain)
                passed = self.values.calls.actual_arguments(function, param)
                if any(site not in live for site, _ in passed):
                    trained = ((value, site) for site, value in passed if site in live)
                    return [
                        d
                        for value, site in trained
                        for d in self._resolve_parameter(value, (*chain, site))
                    ]
        return [self.turns.split_counters(iterable)[0]]

    def _unwrap_map(self, iterable: cst.BaseExpression) -> cst.BaseExpression:
        """Return the dataset under a generator expression or `map` that transforms each batch; other iterables unchanged."""
        match self.values.flow.unwrap_iteration(iterable):
            case cst.GeneratorExp(for_in=cst.CompFor(iter=data, ifs=[], inner_for_in=None)):
                pass
            case cst.Call(args=[_, cst.Arg(value=data, star="")]) as call if (
                self.values.qualified(call.func) == "builtins.map"
            ):
                pass
            case _:
                return iterable
        data = self._unwrap_map(data)
        return data if self._pipelines.of(data) else iterable

    @cached_property
    def draws(self) -> list[cst.Call]:
        """The calls of `next`."""
        calls = self.values.index.calls
        return [c for c in calls if c.args and self.values.qualified(c.func) == "builtins.next"]

    def unwrap_data(self, iterable: cst.BaseExpression) -> cst.BaseExpression:
        """Return what a loop takes its elements from, without counters, progress bars and the like."""
        return self.values.flow.unwrap_iteration(self.turns.split_counters(iterable)[0])

    def is_over_data(self, iterable: cst.BaseExpression) -> bool:
        """Whether a loop runs over data, not over numbers, parts of arrays, or variables."""
        if iterable in self.training.variable_loops:
            return False
        turns = self.turns
        return not (
            turns.is_over_range(iterable)
            or turns.is_over_numbers(iterable)
            or turns.is_over_parts(iterable)
        )

    # `fit`

    @cached_property
    def fit_datasets(self) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """The `fit` calls with a dataset and no labels, each with the dataset."""
        return [
            (call, data)
            for call, data in self.fits_of_batches
            if find_fit_argument(call, "y") is None
        ]

    @cached_property
    def fits_of_batches(self) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """The `fit` calls whose `x` may be a dataset or its elements, each with `x`."""
        return [
            (call, arg.value)
            for call in self.training.keras.shown_trainings
            if (arg := find_fit_argument(call, "x")) is not None
            and self.values.may_be(arg.value, Role.DATASET)
        ]

    @cached_property
    def fit_arrays(self) -> list[ArrayFit]:
        """The `fit` calls with arrays, recognized by labels or by the kind of `x`."""
        found = []
        datasets = {call for call, _ in self.fit_datasets}
        for call in self.training.keras.shown_trainings:
            x, y = find_fit_argument(call, "x"), find_fit_argument(call, "y")
            if (
                call in datasets
                or x is None
                or x.value in self._user_iterables
                or (y is None and not self._is_array(x.value))
            ):
                continue
            passed = [x, y, find_fit_argument(call, "sample_weight")]
            size = find_fit_argument(call, "batch_size")
            arrays = tuple(
                part for arg in passed if arg is not None for part in iterate_parts(arg.value)
            )
            batch_size = (
                size.value if size and self.values.kinds(size.value) != {Kind.NONE} else None
            )
            found.append(ArrayFit(call, arrays, batch_size))
        return found

    @cached_property
    def _user_iterables(self) -> frozenset[cst.BaseExpression]:
        """The generators and `Sequence`s of this program that training runs over."""
        shown = self.training.keras.shown_trainings
        given = [x.value for call in shown if (x := find_fit_argument(call, "x"))]
        models = {loop.iter for loop in self.values.index.loops if yields_models(loop)}
        every = (data for iterables in self.loop_data.values() for data in iterables)
        looped = {self.unwrap_data(data) for data in every if data not in models}
        return frozenset(
            expression
            for expression in (*given, *looped)
            if self.is_sequence(expression)
            or self.values.kinds(expression) == {Kind.GENERATOR}
            or (
                expression in looped
                and (values := self.values.of(expression))
                and all(map(self._is_iterable, values))
            )
        )

    def yields_batches(self, data: cst.BaseExpression) -> bool:
        """Whether a loop's iterable, or the argument of `next`, yields batches."""
        return self._has_known_source(data) or data in self.unseen_iterables

    def _has_known_source(self, data: cst.BaseExpression) -> bool:
        """Whether data come from a `tf.data` pipeline, or from a user-defined generator or `Sequence`."""
        source = self.unwrap_data(data)
        return source in self._user_iterables or bool(self._pipelines.of(source))

    def is_sequence(self, expression: cst.BaseExpression) -> bool:
        """Whether an expression is a `Sequence`, which returns batches by number."""
        values = self.values.of(expression)
        return bool(values) and all(map(self._is_sequence_value, values))

    def _is_sequence_value(self, value: Value) -> bool:
        """Whether a value is a Keras `Sequence`, the library's or a subclass."""
        return tf_api.makes_sequence(value.name) or (
            isinstance(value.node, cst.ClassDef)
            and bool(self.values.classes.library_bases(value.node) & tf_api.SEQUENCES)
        )

    def _is_iterable(self, value: Value) -> bool:
        """Whether a value is a generator or an instance of a user-defined iterable class."""
        through = ("__iter__", "__getitem__")
        return value.kind is Kind.GENERATOR or self.is_user_defined_iterable(value, *through)

    def is_user_defined_iterable(self, value: Value, *methods: str) -> bool:
        """Whether a value is an instance of a user-defined class with one of these methods; by default, those by which Python
        iterates.
        """
        return (
            value.kind is Kind.INSTANCE
            and isinstance(value.node, cst.ClassDef)
            and any(self.values.classes.methods(value.node, *(methods or _GOING_THROUGH)))
        )

    def _is_array(self, expression: cst.BaseExpression) -> bool:
        """Whether an expression is known, and is no object that the analysis distinguishes."""
        values = self.values.of(expression)
        return bool(values) and all(v.kind is Kind.OTHER for v in values)

    # What cannot be seen

    @cached_property
    def unseen_loops(self) -> dict[cst.Call, cst.BaseExpression | None]:
        """The training steps whose data are unknown, each with the innermost iterable around it that may yield batches."""
        return {
            call: next(filter(self._may_yield_batches, iterables), None)
            for call, iterables in self.loop_data.items()
            if not any(map(self._has_known_source, iterables))
        }

    @cached_property
    def unseen_iterables(self) -> list[cst.BaseExpression]:
        """The innermost iterable that may yield batches, for each chain of calls to a step whose data are unknown."""
        found: dict[cst.BaseExpression, None] = {}
        for call, data in self.unseen_loops.items():
            if data is None:
                continue
            found[data] = None
            pending = [
                (update.call, *site.chain)
                for update, sites in self.step_sites
                for site in sites
                if site.call is call
            ]
            while pending:
                chain = pending.pop()
                around = self._data_in_function(chain)
                given = next(filter(self._may_yield_batches, around), None)
                if given is None:
                    pending += self._callers(chain)
                elif self.unwrap_data(given) not in self._user_iterables:
                    found[given] = None
        return list(found)

    def _may_yield_batches(self, iterable: cst.BaseExpression) -> bool:
        """Whether an iterable of unknown origin may yield batches: its elements are not known to be models or the like."""
        inner = self.values.flow.unwrap_iteration(iterable)
        if isinstance(inner, cst.Call) and self.values.qualified(inner.func) == "builtins.zip":
            return any(self._may_yield_batches(arg.value) for arg in inner.args)
        kinds = self.values.kinds(inner)
        if kinds == {Kind.LIBRARY} and any(d.args[0].value is iterable for d in self.draws):
            return True  # `from data import batches`
        elements = {value.kind for value in self.values.of(inner, (ELEMENT,))}
        return (
            bool(not kinds or kinds & {Kind.UNKNOWN, Role.DATASET})
            and not elements & {Role.MODEL, Role.OPTIMIZER, Role.VARIABLE}
            and not any(
                loop.iter is iterable and yields_models(loop) for loop in self.values.index.loops
            )
        )


def yields_models(loop: cst.For | cst.CompFor) -> bool:
    """Whether a loop's variables are used like models or optimizers: `for name, net in nets.items()`."""
    names = {name.value for name in names_in(loop.target)}
    body = loop.body if isinstance(loop, cst.For) else None
    used = (node for node in nodes_in(body) if isinstance(node, cst.Attribute)) if body else ()
    return any(
        isinstance(node.value, cst.Name)
        and node.value.value in names
        and node.attr.value in _OF_MODELS
        for node in used
    )


#: What models, layers and optimizers have, and batches of data have not.
_OF_MODELS = VARIABLE_LISTS | frozenset(
    "apply_gradients minimize compile fit train_on_batch set_weights get_weights optimizer".split()
)
