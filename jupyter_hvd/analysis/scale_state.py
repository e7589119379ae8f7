"""State from step to step: what adds to a variable, multiplies it or averages it, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from .exponents import ZERO, Equation, Exponent
from .index import Binding, Path, bound_expression
from .scale_averages import Weights, find_step_weight
from .scale_carried import CarriedState, State
from .scale_feedback import Feedback
from .scale_findings import (
    Assignment,
    Carried,
    Recurrence,
    Repeated,
    Scale,
    Sink,
    is_constant,
    number_of,
)
from .scale_walk import ScaleWalk

#: The reason of a recurrence.
ADDS = "adds to it"
#: Comparisons by which a bound is reached.
ORDERS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
#: A factor that is no larger is no decay by steps.
LEAST_FACTOR = 0.5


class StateUpdates:
    """The statements of one module that compute a variable from its previous value."""

    def __init__(self, walk: ScaleWalk) -> None:
        self._walk = walk
        self._values, self._module, self._index = walk.values, walk.values.module, walk.values.index
        self._feedback = Feedback(walk.values, walk.recurrences, walk.library)
        self._carried = CarriedState(walk.values, walk.library, walk.recurrences, walk.reaching)
        self._understood: set[cst.CSTNode] = set()  # places of recurrences
        self._operands: set[cst.CSTNode] = set()  # what recurrences add or multiply by
        self._weighted: set[cst.CSTNode] = set()  # weights of moving averages
        #: The exponents of entries of dictionaries, by the expressions that make them of what they were.
        self.made: dict[cst.BaseExpression, Exponent] = {}
        self._decays: set[str] = set()  # of moments of gradients, which stay

    def of_recurrence(self, node: cst.BinaryOperation) -> Scale | None:
        """Return how the variable of `x = x + c` scales, given its `x + c`, whose operands may have different exponents; else
        None.
        """
        if (made := self.made.get(node)) is not None:
            return Scale(made)
        statement = self._module.enclosing(node, (cst.Assign, cst.BaseStatement))
        if not isinstance(statement, cst.Assign):
            return None
        target = statement.targets[0].target
        places = [target, *(element.value for element in _elements(target))]
        for place in places:
            bound = self._find_binding(place)
            written = bound_expression(bound) if bound is not None else None
            if bound is None or written is None:
                continue
            if self._walk.recurrences.within_bounds(written, place) is node:
                known = self._walk.recurrences.of(bound, place) is not None
                return self._walk.of_binding(bound) if known else None
        return None

    def _find_binding(self, place: cst.BaseExpression) -> Binding | None:
        """Return the binding of a name or attribute that is assigned to; None for other targets."""
        match place:
            case cst.Name():
                return self._index.bound.get(place)
            case cst.Attribute(attr=cst.Name(value=name)):
                bindings = self._index.attribute_bindings.get(name, ())
                return next((each for each in bindings if each.place is place), None)
        return None

    def previous(self, binding: Binding, place: cst.CSTNode) -> Scale | None:
        """Return how the variable scales before the statement; None if nothing else sets it."""
        others: list[object] = []
        if isinstance(place, cst.Name):
            others = [d for d in self._walk.reaching(place) if d is not binding]
        elif isinstance(place, cst.Attribute):
            others = [b for b in self._values.attribute_bindings(place) if b is not binding]
        return self._walk.join_definitions(others, place) if others else None

    def find_starts(
        self, binding: Binding, place: cst.CSTNode, itself: bool = False
    ) -> list[cst.CSTNode]:
        """Return the statements that set the variable to something that no recurrence computes from itself.

        Args:
            itself: the variable is a list: this binding is one, and those that only extend or cut it are none.
        """
        if not isinstance(place, cst.Name | cst.Attribute):
            return []
        return [
            *self._given_parameters(place),
            *(
                self._walk.statement(other.place)
                for other in self.bindings(place)
                if (itself or other is not binding)
                and other.place is not None
                and self._walk.recurrences.of(other, other.place) is None
                and not (itself and self._walk.recurrences.reads(other.value, place))
            ),
        ]

    def bindings(self, place: cst.Name | cst.Attribute) -> list[Binding]:
        """Return what is assigned to a variable; [] if it has too many assignments to follow."""
        if isinstance(place, cst.Attribute):
            return self._values.attribute_bindings(place)
        found = self._values.definitions.of(place) if self._walk.has_few(place) else []
        return [each for each in found if isinstance(each, Binding)]

    def _given_parameters(self, place: cst.Name | cst.Attribute) -> Iterator[cst.Param]:
        """Yield the parameter that a name is, unless its function returns it: each call starts it again."""
        for each in self._values.definitions.of(place) if isinstance(place, cst.Name) else ():
            function = self._module.owner(each) if isinstance(each, cst.Param) else None
            if not isinstance(each, cst.Param) or function is None:
                continue
            returned = self._index.returns[function]
            parts = [part.value for value in returned for part in _elements(value)]
            if not any(self._walk.recurrences.is_same(part, place) for part in (*returned, *parts)):
                yield each

    def note_recurrence(
        self,
        place: cst.CSTNode,
        value: Exponent,
        recurrence: Recurrence,
        starts: Sequence[cst.CSTNode],
    ) -> None:
        """Record a recurrence: `x += c` at frequency D gives x the exponent of c plus D; `x *= c` makes c a repeated factor.

        Args:
            value: the exponent of x. starts: the statements that set x to something else.
        """
        self._understood.add(place)
        self._operands.add(recurrence.operand)
        if self._is_step(place):
            self._decays |= {self._module.text(weight) for weight, _ in recurrence.weights}
            return
        frequency = self._walk.frequencies.per_start(self._walk.statement(place), starts)
        self._walk.found.uncalled += [
            function
            for unknown in frequency.terms
            if (function := self._walk.frequencies.uncalled.get(unknown)) is not None
        ]
        operator, operand = recurrence.operator, recurrence.operand
        if operator in "+-":
            counts = number_of(operand) in (1, -1)
            increment = ZERO if counts else self._added_exponent(place, operand)
            reason = ADDS
            self._walk.found.counted.append((place, self._call_frequencies(place)))
            self._walk.note_size(operand, frequency)
            if not counts and self._is_advanced_bound(place):
                frequency = ZERO
            self._walk.found.facts.append(Equation(value, increment + frequency, place, reason))
            if is_constant(operand) and not isinstance(number_of(operand), int):
                self._walk.found.ramps.append(Equation(value, ZERO, place, reason))
        elif operator in "*/":
            value = self._walk.scale(operand).value
            calls, events = self._call_frequencies(place), self._find_events(place, operand)
            self._walk.found.repeated.append(
                Repeated(operand, frequency, value, calls=calls, events=events)
            )
        self._note_weights(recurrence.weights, frequency, self._call_frequencies(place))

    def _added_exponent(self, place: cst.CSTNode, operand: cst.BaseExpression) -> Exponent:
        """Return the exponent of what is added; in `sums += [a, b]` with an array `sums`, of the numbers."""
        if isinstance(operand, cst.List | cst.Tuple) and isinstance(place, cst.Name):
            bindings = self._values.definitions.of(place)
            made = [b.value for b in bindings if isinstance(b, Binding) and not b.adds]
            if made and not any(isinstance(value, cst.List | cst.ListComp) for value in made):
                return self._walk.numbers(operand).value
        return self._walk.scale(operand).value

    def _call_frequencies(self, place: cst.CSTNode) -> tuple[Exponent, ...]:
        """Return how often each of several calls of the function around a node runs; () for a single call."""
        function = self._module.function_of(place)
        sites = self._values.calls.sites(function) if function is not None else ()
        return tuple(map(self._walk.frequencies.of, sites)) if len(sites) > 1 else ()

    def note_carried(
        self,
        state: State,
        place: cst.BaseExpression,
        value: cst.BaseExpression,
        path: Path = (),
    ) -> None:
        """Record a variable that is computed from itself in a form that no recurrence explains."""
        if place in self._understood or self._is_step(place):
            return
        numbers = self._carried.find_numbers(state, value, path)
        known = self._operands | self._weighted
        if known.issuperset(numbers) or self._walk.library.is_gradient(self._values, value):
            return
        binding = state.binding
        starts = self.find_starts(binding, place) if binding is not None else ()
        frequency = self._walk.frequencies.per_start(self._walk.statement(place), starts)
        self._walk.found.carried.append(Carried(place, tuple(numbers), frequency))

    def note_feedback(self, node: cst.BinaryOperation) -> None:
        """Record an operation whose result returns as an operand through lists, functions, other names or a model's weights."""
        found = self._feedback.find_recurrence(node)
        if found is None or found.recurrence.operand in self._operands:
            return
        if any(weight in self._weighted for weight, _ in found.recurrence.weights):
            return
        if self._is_step(node) or self._walk.library.is_gradient(self._values, node):
            return
        starts = [
            self._walk.statement(each) for each in self._feedback.find_starts(found.place, node)
        ]
        self.note_recurrence(node, self._walk.scale(node).value, found.recurrence, starts)
        self._understood.add(found.place.node)

    def _note_weights(
        self, weights: Weights, frequency: Exponent, calls: tuple[Exponent, ...]
    ) -> None:
        """Record the weights of a moving average: repeated factors that do not depend on N before the edit."""
        for weight, kind in weights:
            value = self._walk.scale(weight).value
            self._weighted.add(weight)
            self._walk.found.repeated.append(Repeated(weight, frequency, value, kind, calls))
            self._walk.found.weights.append(
                Equation(value, ZERO, weight, "weights an average by it")
            )

    def _is_advanced_bound(self, place: cst.CSTNode) -> bool:
        """Whether a bound is advanced once it is reached, `if step >= bound: bound += 100`; it has the unit of `step`."""
        guard = self._module.enclosing(place, (cst.If, cst.For, cst.While, cst.FunctionDef))
        match guard:
            case cst.If(
                test=cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)])
            ) if isinstance(operator, ORDERS) and isinstance(place, cst.BaseExpression):
                sides = (left, right)
                return any(
                    self._walk.recurrences.is_same(side, place) for side in sides
                ) and not any(is_constant(side) for side in sides)
        return False

    def corrects_moment(self, sink: Sink) -> bool:
        """Whether a number is the `t` of `1 - beta ** t`, which corrects a moment of gradients: both stay as they are."""
        power = self._module.parent(sink.node)
        return (
            isinstance(power, cst.BinaryOperation)
            and isinstance(power.operator, cst.Power)
            and power.right is sink.node
            and self._module.text(power.left) in self._decays
        )

    def _find_events(
        self, place: cst.CSTNode, factor: cst.BaseExpression
    ) -> tuple[Exponent, ...] | None:
        """Return what is compared where a number is halved or doubled under a condition, as a loss scale is; else None."""
        number = number_of(factor)
        guard = self._module.enclosing(
            place, (cst.If, cst.For, cst.While, cst.FunctionDef, cst.Lambda)
        )
        is_large = number is not None and not LEAST_FACTOR < abs(number) < 1 / LEAST_FACTOR
        if not is_large or not isinstance(guard, cst.If):
            return None
        tests = [guard.test]
        while any(isinstance(test, cst.BooleanOperation) for test in tests):
            parts = [
                (t.left, t.right) if isinstance(t, cst.BooleanOperation) else (t,) for t in tests
            ]
            tests = [side for each in parts for side in each]
        compared = [test.left for test in tests if isinstance(test, cst.Comparison)]
        return tuple(self._walk.scale(side).value for side in compared)

    def _is_step(self, place: cst.CSTNode) -> bool:
        """Whether an assignment is a training step by hand."""
        return any(
            a in self._walk.frequencies.demands for a in (place, *self._module.ancestors(place))
        )

    def note_accumulation(self, call: cst.Call) -> None:
        """Record `step.assign_add(1)` and the like, where the library knows the method."""
        accumulated = self._walk.library.accumulates(self._values, call)
        if accumulated is None or not isinstance(call.func, cst.Attribute):
            return
        operator, operand = accumulated
        receiver = call.func.value
        value = self._walk.scale(receiver).value
        itself = lambda node: self._walk.recurrences.is_same(node, receiver)  # noqa: E731
        goes_round = False
        if operator == "=":
            added = self._walk.recurrences.within_bounds(operand, receiver)
            goes_round = added is not operand
            recurrence = self._walk.recurrences.of_value(added, itself)
        else:
            weights = find_step_weight(operand, operator, itself)
            recurrence = Recurrence("~" if weights else operator, operand, weights)
        # Of `x.assign(x + c)` nothing is known of c's unit; of a factor or weights, that they are constants; of `(x + c) % n`,
        # that it counts.
        if recurrence is not None and (
            operator != "=" or goes_round or recurrence.operator in "*/~"
        ):
            self.note_recurrence(call, value, recurrence, ())
        else:
            self._walk.note_flow(value, self._walk.scale(operand).value, call)
            self.note_carried(State(receiver), call, operand)
        often = self._walk.frequencies.of(call)
        name = self._module.text(receiver)
        self._walk.found.assignments.append(Assignment(name, call, value, often))


def _elements(node: cst.BaseExpression) -> Sequence[cst.BaseElement]:
    """Return the elements of a tuple; () for another expression."""
    return node.elements if isinstance(node, cst.Tuple) else ()
