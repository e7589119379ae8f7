"""Where a loop over training steps ends before its data do, by a count: `if step == 1000: break`.

N ranks go on side by side, so each is to stop at an N-th of the count. What counts steps is found first: a number
of `enumerate`, a name that goes up by one, an optimizer's `iterations`, a list that grows, each in a loop around the steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import libcst as cst

from ...analysis.definitions import Definition, Identity
from ...analysis.index import Binding
from ...analysis.reach import leaving_tests
from ...analysis.syntax import Function, argument, method, nodes_in, parameters
from ...analysis.uniformity import is_uniform, tests_of
from .step_loops import StepLoops, is_one_more

Loop = cst.For | cst.While


#: Methods of callbacks that Keras calls for each batch of `fit`, with its number.
BATCH_METHODS = frozenset(
    f"on_{phase}batch_{when}" for phase in ("", "train_") for when in ("begin", "end")
)


class Stops:
    """The counts at which the loops of one module stop.

    Args:
        data_counts: whether a number is counted from data of which each rank has but its share.
    """

    def __init__(self, steps: StepLoops, data_counts: Callable[[cst.BaseExpression], bool]) -> None:
        self.data_counts = data_counts
        self._steps, self.data, self.training = steps, steps.data, steps.training
        self.values, self.module = steps.values, steps.module

    @cached_property
    def limits(self) -> list[cst.BaseExpression]:
        """The numbers of steps that counters are compared with, where that ends a loop."""
        return list(dict.fromkeys(limit for found in self._found.values() for limit in found))

    @cached_property
    def unclear(self) -> dict[cst.BaseExpression, bool]:
        """The tests that end a loop by a count of steps in which no limit is seen, and whether the count alone decides."""
        return {t: is_uniform(self.values, t) for t, found in self._found.items() if not found}

    @cached_property
    def _found(self) -> dict[cst.BaseExpression, list[cst.BaseExpression]]:
        """For each test that ends a loop by a count of steps, the numbers of steps in it."""
        counted = {
            loop.test
            for loop in self._steps.loops
            if isinstance(loop, cst.While) and self._steps.counter_limit(loop) is not None
        }
        found = {}
        for test in self._leaving_tests:
            alike = is_uniform(self.values, test)
            nodes = self._decided_by(test) if alike else list(nodes_in(test))
            compared = [n for n in nodes if isinstance(n, cst.Comparison) and self.counts(n)]
            if "inf" in self.module.text(test) or test in counted:
                continue
            if compared or (alike and any(map(self.is_counter, nodes))):
                limits = map(self._limit, compared)
                found[test] = [limit for limit in limits if limit is not None]
        return found

    def _decided_by(self, test: cst.BaseExpression) -> list[cst.CSTNode]:
        """What a test is computed from, and what decides which of its values a name in it has."""
        nodes = dict.fromkeys(self.values.flow.backward_slice(test))
        for node in list(nodes):
            if isinstance(node, (cst.Name, cst.Attribute)):
                for other in tests_of(self.values, node):
                    nodes.update(dict.fromkeys(self.values.flow.backward_slice(other)))
        return list(nodes)

    # Loops

    @cached_property
    def _around(self) -> tuple[dict[Loop, None], dict[cst.CSTNode, None]]:
        """The loops whose turns are steps, and all calls and loops around the steps, through calls."""
        turns: dict[Loop, None] = {}
        calls: dict[cst.CSTNode, None] = {}
        pending = [(update.call, False, update.call) for update, _ in self.training.own_updates]
        while pending:
            call, ended, update = pending.pop()
            if call in calls:
                continue
            calls[call] = None
            function = self.module.function_of(call)
            for loop in self.module.ancestors(call):
                if loop is function:
                    break
                if not isinstance(loop, (cst.For, cst.While)):
                    continue
                if self.data.anew.is_made_in({update}, loop):
                    ended = True
                elif not ended and self._takes(loop):
                    turns[loop] = None
                    ended = isinstance(loop, cst.For)
            if function is not None:
                sites = self.values.calls.sites(function)
                pending += [(site, ended, update) for site in sites]
        return turns, calls

    def _takes(self, loop: Loop) -> bool:
        """Whether a turn of a loop takes a batch."""
        if loop in self._cutting:
            return True
        if isinstance(loop, cst.For):
            return self.data.gives_data(loop.iter)
        return any(self._is_within(call, loop) for call in self.data.draws)

    def _is_within(self, draw: cst.Call, loop: Loop) -> bool:
        """Whether a loop draws from an iterator that goes on from turn to turn."""
        made = self._steps.iterators(draw.args[0].value)
        return loop in self.module.ancestors(draw) and not any(
            loop in self.module.ancestors(node) for node in made
        )

    @cached_property
    def undivided_draws(self) -> list[cst.Call]:
        """What divided turns draw from an iterator that goes on from turn to turn, and is none of data: `next(weights)`."""
        divided = [loop for loop in self._around[0] if self._is_divided(loop)]
        return [
            draw
            for draw in self.data.draws
            if not self.data.is_divided(draw.args[0].value)
            and any(self._is_within(draw, loop) for loop in divided)
        ]

    @cached_property
    def _cutting(self) -> frozenset[Loop]:
        """The loops whose numbers say which batch a turn takes."""
        return frozenset((*self._steps.loops, *self._steps.cut.values()))

    def _is_divided(self, loop: Loop) -> bool:
        return loop in self._cutting or (
            isinstance(loop, cst.For) and self.data.is_divided(loop.iter)
        )

    @cached_property
    def _leaving_tests(self) -> list[cst.BaseExpression]:
        """The tests that end a loop around the steps."""
        found = {t: None for call in self._around[1] for t in leaving_tests(self.values, call)}
        for binding in self.values.index.attribute_bindings.get("stop_training", ()):
            place = binding.place
            if place is not None and self.module.function_of(place) in self._batch_methods:
                around = self.module.ancestors(place)
                found |= {a.test: None for a in around if isinstance(a, cst.If)}
        return list(found)

    # Counters

    @cached_property
    def _counters(self) -> frozenset[Identity]:
        """The names that count steps."""
        return self._counted_in(self._around[0])

    @cached_property
    def _batch_counters(self) -> frozenset[Identity]:
        """Those of them that count batches which a loop, or `fit`, is given; by the others batches may be cut."""
        return self._counted_in(turn for turn in self._around[0] if turn not in self._cutting)

    def _counted_in(self, turns: Iterable[Loop]) -> frozenset[Identity]:
        """The names that count the turns of some loops, and the batches of callbacks."""
        found: set[Identity] = set()
        for block in (*self._batch_methods, *turns):
            for node in nodes_in(block.body):
                if (name := is_one_more(node)) is not None:
                    found.add(self.values.definitions.identity(name))
            if isinstance(block, cst.For):
                found.update(map(self.values.definitions.identity, self._numbers(block)))
        return frozenset(found)

    @cached_property
    def _batch_methods(self) -> list[Function]:
        """What Keras calls for each batch of `fit`: methods of callbacks of the program's own, functions of `LambdaCallback`."""
        given = (
            value.node
            for call in self.values.index.calls
            if self.values.qualified(call.func).endswith(".LambdaCallback")
            for arg in call.args
            if arg.keyword is not None and arg.keyword.value in BATCH_METHODS
            for value in self.values.of(arg.value)
        )
        return [
            *(function for function in given if isinstance(function, cst.FunctionDef | cst.Lambda)),
            *(
                function
                for function in self.values.index.functions
                if function.name.value in BATCH_METHODS
                and self.training.keras.is_callback(self.module.class_of(function))
            ),
        ]

    @cached_property
    def _batch_numbers(self) -> frozenset[cst.CSTNode]:
        """The parameters by which these methods are told which batch of the epoch it is."""
        numbers = ((f, int(self.module.class_of(f) is not None)) for f in self._batch_methods)
        return frozenset(p for f, place in numbers for p in parameters(f)[place : place + 1])

    @cached_property
    def _counted_attributes(self) -> frozenset[cst.CSTNode]:
        """The attributes that go up by one for each batch, where they do: in these methods, or in a loop over batches."""
        turns, _ = self._around
        found: set[cst.CSTNode] = set()
        for block in (*self._batch_methods, *turns):
            for node in nodes_in(block.body):
                match node:
                    case cst.AugAssign(
                        target=cst.Attribute() as counted,
                        operator=cst.AddAssign(),
                        value=cst.Integer(value="1"),
                    ):
                        found.add(counted)
                    case cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Attribute() as counted)],
                        value=cst.BinaryOperation(
                            left=cst.Attribute() as before,
                            operator=cst.Add(),
                            right=cst.Integer(value="1"),
                        ),
                    ) if self.module.text(before) == self.module.text(counted):
                        found |= {counted, before}
        return frozenset(found)

    def counts_behind(
        self,
        expression: cst.BaseExpression,
        ends: Callable[[cst.CSTNode], bool] | None = None,
    ) -> list[cst.BaseExpression]:
        """The counts of steps that a value is computed from; none where it depends on how many steps a rank has, too.

        Args:
            ends: at which nodes it is not asked any further what they are computed from.
        """
        behind = list(dict.fromkeys(self.values.flow.computed_from(expression, ends)))
        if self.data_counts(expression) or any(map(_tells_steps, behind)):
            return []
        return [
            node
            for node in behind
            if isinstance(node, (cst.Name, cst.Attribute))
            and self.is_counter(node)
            and node not in self._counted_attributes
            and is_one_more(self.module.enclosing(node, cst.BaseSmallStatement)) is None
            and not isinstance(self.module.parent(node), (cst.Param, cst.AssignTarget))
        ]

    def is_at_each_step(
        self, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()
    ) -> bool:
        """Whether a node runs once for each batch, under no condition: in the body of such a loop, of a callback's method, of a
        model's own `train_step`, or of what these call.
        """
        function, turns = self.module.function_of(node), self._around[0]
        for ancestor in self.module.ancestors(node):
            if ancestor is function:
                break
            if isinstance(ancestor, (cst.For, cst.While)):
                return ancestor in turns
            if isinstance(ancestor, (cst.If, cst.IfExp)):
                return False
        return self._is_called_so(function, self.is_at_each_step, seen)

    def is_in_turns(self, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()) -> bool:
        """Whether a node runs there, be it at some steps and not at others."""
        function = self.module.function_of(node)
        if self.turn_around(node) is not None:
            return True
        return self._is_called_so(function, self.is_in_turns, seen)

    def _is_called_so(
        self,
        function: cst.FunctionDef | None,
        runs: Callable[[cst.CSTNode, frozenset[cst.CSTNode]], bool],
        seen: frozenset[cst.CSTNode],
    ) -> bool:
        """Whether a function is one for a batch, or some call of it runs as asked."""
        if function is None or function in seen:
            return False
        sites = self.values.calls.sites(function)
        return self._is_of_batch(function) or any(runs(site, seen | {function}) for site in sites)

    @cached_property
    def ending(self) -> frozenset[cst.BaseExpression]:
        """The tests by which loops whose turns are steps go on."""
        return frozenset(loop.test for loop in self._around[0] if isinstance(loop, cst.While))

    def turn_around(self, node: cst.CSTNode) -> Loop | None:
        """The loop around a node, in its function, whose turns are steps."""
        function, turns = self.module.function_of(node), self._around[0]
        around = itertools.takewhile(lambda a: a is not function, self.module.ancestors(node))
        return next((a for a in around if isinstance(a, Loop) and a in turns), None)

    def _is_of_batch(self, function: cst.FunctionDef) -> bool:
        return function in self._batch_methods or self.training.keras.runs(function)

    def is_once_a_pass(self, test: cst.BaseExpression) -> bool:
        """Whether a test holds at one batch of each pass over the data: `i == 0` of `enumerate`, or of a callback's batch."""
        match test:
            case cst.Comparison(
                left=cst.Name() as number, comparisons=[cst.ComparisonTarget(operator=cst.Equal())]
            ):
                found = self.values.definitions.of(number)
                return any(d in self._batch_numbers or self._is_number_of_batch(d) for d in found)
        return False

    def _is_number_of_batch(self, definition: Definition) -> bool:
        """Whether a loop over data, or over the numbers that cut these, gives a name the number of its turn."""
        if not isinstance(definition, Binding):
            return False
        loop = self.module.parent(definition.value)
        return isinstance(loop, cst.For) and (
            any(name is definition.target for name, _ in self._counts_in(loop.target, loop.iter))
            or loop in self._steps.cut.values()
        )

    def _numbers(self, loop: cst.For) -> Iterator[cst.Name]:
        """The names that a loop gives the numbers of its turns."""
        if isinstance(loop.target, cst.Name) and loop in self._steps.loops:
            yield loop.target
        yield from (name for name, _ in self._counts_in(loop.target, loop.iter))

    def _counts_in(
        self, target: cst.BaseExpression, iterable: cst.BaseExpression
    ) -> Iterator[tuple[cst.Name, cst.Call | None]]:
        """The names in the target of a loop that count its turns: by an `enumerate`, given too, or zipped with data."""
        if not isinstance(target, cst.Tuple) or not isinstance(iterable, cst.Call):
            return
        names = [element.value for element in target.elements]
        given = [arg.value for arg in iterable.args]
        name = self.values.qualified(iterable.func)
        if name == "builtins.zip":
            _, counts = self.data.turns.beside(iterable)
            for inner, each in zip(names, given, strict=False) if counts else ():
                if each in counts and isinstance(inner, cst.Name):
                    yield inner, None
                else:
                    yield from self._counts_in(inner, each)
        elif name == "builtins.enumerate" or method(iterable) == "enumerate":
            if isinstance(names[0], cst.Name):
                yield names[0], iterable
            if given and len(names) > 1:
                yield from self._counts_in(names[1], given[0])
        elif given:
            yield from self._counts_in(target, given[0])  # of `tqdm(enumerate(…))`

    def begins_late(self, count: cst.BaseExpression) -> bool:
        """Whether a count is a number of turns and another one: `i` of `enumerate(batches, start=100)`."""
        return isinstance(count, cst.Name) and any(
            isinstance(d, Binding) and self._begins_late(d)
            for d in self.values.definitions.of(count)
        )

    def _begins_late(self, binding: Binding) -> bool:
        loop = self.module.parent(binding.value)
        if not isinstance(loop, cst.For) or not binding.path:
            return False
        counts = self._counts_in(loop.target, loop.iter)
        enumerated = (by for name, by in counts if by is not None and name is binding.target)
        starts = (argument(call, "start", int(method(call) != "enumerate")) for call in enumerated)
        return any(
            not (isinstance(start.value, cst.Integer) and start.value.value in ("0", "1"))
            for start in starts
            if start is not None
        )

    def is_counter(self, node: cst.CSTNode) -> bool:
        """Whether a node is a counter itself."""
        match node:
            case cst.Name():
                return self._is_counted(node, self._counters)
            case cst.Attribute(attr=cst.Name(value="iterations")):
                return True
            case cst.Attribute() if self._counted_attributes:
                bound = self.values.flow.bindings_of(node)
                return any(binding.place in self._counted_attributes for binding in bound)
            case cst.Call(args=[cst.Arg(value=cst.Name(value=name))]) if (
                self.values.qualified(node.func) == "builtins.len"
            ):
                filled = self.values.index.filled.get(name, ())
                turns, _ = self._around
                return any(a in turns for call in filled for a in self.module.ancestors(call))
        return False

    def _is_counted(self, name: cst.Name, counters: frozenset[Identity]) -> bool:
        is_batch = any(d in self._batch_numbers for d in self.values.definitions.of(name))
        return is_batch or self.values.definitions.identity(name) in counters

    def counts_batches(self, node: cst.CSTNode) -> bool:
        """Whether a name that counts batches, and cuts none, stands in an expression."""
        if isinstance(node, cst.Name):
            return self._is_counted(node, self._batch_counters)
        return any(map(self.counts_batches, node.children))

    def counts(self, node: cst.CSTNode) -> bool:
        """Whether a counter stands in an expression."""
        return self.is_counter(node) or any(map(self.counts, node.children))

    def _limit(self, comparison: cst.Comparison) -> cst.BaseExpression | None:
        """The number of steps that a counter is compared with, `n` of `step + 1 >= n` and of `step % n == 0`; else None."""
        match comparison.comparisons:
            case [cst.ComparisonTarget(comparator=right)]:
                left = comparison.left
            case _:
                return None
        if self.counts(left) == self.counts(right):
            return None
        counter, limit = (left, right) if self.counts(left) else (right, left)
        match counter, limit:
            case (
                cst.BinaryOperation(operator=cst.Modulo(), left=count, right=period),
                cst.Integer(value="0"),
            ):
                counter, limit = count, period
        return limit if self._is_plain(counter) and not self.counts(limit) else None

    def _is_plain(self, counter: cst.BaseExpression) -> bool:
        """Whether an expression is a counter, as it is or but for a small number."""
        if self.is_counter(counter):
            return not isinstance(counter, cst.Name) or self._begins(counter)
        match counter:
            case cst.BinaryOperation(
                left=left, operator=cst.Add() | cst.Subtract(), right=cst.Integer()
            ):
                return self._is_plain(left)
            case cst.Call(args=[cst.Arg(value=given)]):
                return self.values.qualified(counter.func) == "builtins.int" and self._is_plain(
                    given
                )
            case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(value="numpy"))):
                return self._is_plain(receiver)
        return False

    def _begins(self, counter: cst.Name) -> bool:
        """Whether a name counts from 0 or 1, and is set anew in no loop over the steps."""
        turns, _ = self._around
        for binding in self.values.definitions.of(counter):
            if not isinstance(binding, Binding) or binding.target is None:
                return False
            if self._begins_late(binding):
                return False
            if binding.path or is_one_more(
                self.module.enclosing(binding.target, cst.BaseSmallStatement)
            ):
                continue
            if not isinstance(binding.value, cst.Integer) or binding.value.value not in ("0", "1"):
                return False
            if any(a in turns for a in self.module.ancestors(binding.target)):
                return False
        return True


def _tells_steps(node: cst.CSTNode) -> bool:
    """`self.params["steps"]`: Keras tells a callback how many steps this rank's epoch has."""
    match node:
        case cst.Subscript(value=cst.Attribute(attr=cst.Name("params"))):
            return True
        case cst.Call(func=cst.Attribute(value=cst.Attribute(attr=cst.Name("params")))):
            return True
    return False
