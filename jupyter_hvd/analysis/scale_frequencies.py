"""How often each statement runs: the scale exponent of its count after equally many examples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

import libcst as cst

from .exponents import ZERO, Equation, Exponent, Unknown, exponent_of
from .index import Binding
from .scale_findings import number_of
from .scale_signatures import EntryPoint, ScaleLibrary
from .syntax import Function, argument
from .tree import names_in, nodes_in
from .values import ValueAnalysis

#: The exceptions by which iterators say that they have no more batches.
_EXHAUSTED = ("StopIteration", "OutOfRangeError")
#: Exponents of the number of iterations of a loop or comprehension, and of the value of an expression.
ExponentOf = Callable[[cst.BaseExpression], Exponent]
#: The comparisons by which a counter has reached its period, by whether the counter is on their left and whether they hold.
_REACHES = (cst.GreaterThan, cst.GreaterThanEqual)
_STAYS_BELOW = (cst.LessThan, cst.LessThanEqual)
_EXCEEDS = {
    (True, True): _REACHES,
    (True, False): _STAYS_BELOW,
    (False, True): _STAYS_BELOW,
    (False, False): _REACHES,
}


class Frequencies:
    """The frequencies of one module's statements.

    Attributes:
        facts: the equations between a function that trains and its calls.
        calls: those between another function and each of its calls, one of which may be made at each step, another once.
        counts: how often functions are called and loops iterate, and whether training runs in them.
        uncalled: functions that nothing calls, by the unknown number of times that they run.
    """

    def __init__(
        self,
        values: ValueAnalysis,
        library: ScaleLibrary,
        length_of: ExponentOf,
        value_of: ExponentOf,
        is_whole: Callable[[cst.BaseExpression], bool],
    ) -> None:
        self._values, self._library = values, library
        self._module = values.module
        self._length_of, self._value_of, self._is_whole = length_of, value_of, is_whole
        self._functions: dict[cst.CSTNode, Exponent] = {}
        self._loops: dict[cst.CSTNode, Exponent] = {}
        self._asked: dict[object, bool] = {}
        self.facts: list[Equation] = []
        self.calls: list[list[Equation]] = []
        self.counts: list[tuple[Unknown, bool]] = []
        steps = library.steps(values)
        self.uncalled: dict[Unknown, cst.FunctionDef] = {}
        self._trained = frozenset({*steps, *library.step_sites(values)})
        self.demands = steps

    def of(self, node: cst.CSTNode, inside: cst.CSTNode | None = None) -> Exponent:
        """Return the exponent of how often a node runs: in total, or per run of a node around it, `inside`."""
        frequency, child = ZERO, node
        for around in self._module.ancestors(node):
            if around is inside:
                break
            frequency += self._exponent_of_block(around, child)
            if isinstance(around, Function):
                if child is around.body:
                    return frequency if inside is not None else frequency + self.of_function(around)
                return frequency  # defaults and decorators run where the function is defined
            child = around
        return frequency

    def _exponent_of_block(self, around: cst.CSTNode, child: cst.CSTNode) -> Exponent:
        """Return the exponent that an enclosing node adds to the frequency of its child."""
        match around:
            case cst.For(iter=iterable, body=body) if child is body:
                return self._length_of(iterable)
            case cst.While(test=test, body=body) if child is body:
                advanced = self._exponent_of_test(test, True, body)
                if advanced != ZERO and not self.trains_in(around):
                    return -advanced
                if around not in self._loops:
                    self._loops[around] = self._new_frequency(around, "iterations")
                return self._loops[around]
            case cst.If(test=test, body=body, orelse=orelse):
                if child is body or child is orelse:
                    return -self._exponent_of_test(test, child is body, child)
            case cst.MatchCase(body=body, pattern=cst.MatchValue() | cst.MatchOr()):
                match = self._module.parent(around)
                if child is body and isinstance(match, cst.Match):
                    return -self._value_of(match.subject)
            case cst.IndentedBlock(body=body):
                left = (test for test in _early_exit_tests(body, child))
                return sum((-self._exponent_of_test(test, False, around) for test in left), ZERO)
            case cst.BaseComp(for_in=loop) if child is not loop:
                return self._exponent_of_comprehension(loop)
        return ZERO

    def _exponent_of_comprehension(self, loop: cst.CompFor | None) -> Exponent:
        """Return the exponent of the number of iterations of a comprehension."""
        total = ZERO
        while loop is not None:
            total, loop = total + self._length_of(loop.iter), loop.inner_for_in
        return total

    # Guards

    def _exponent_of_test(
        self, test: cst.BaseExpression, holds: bool, guarded: cst.CSTNode
    ) -> Exponent:
        """Return the exponent of evaluations of a test per time that it holds (or fails): that of p for `step % p == 0`.

        Args:
            guarded: the block that runs where the test holds, or fails.
        """
        match test:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return self._exponent_of_test(inner, not holds, guarded)
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                found = [self._exponent_of_test(side, holds, guarded) for side in (left, right)]
                # `step % p == 0 or step == last` holds as often as its parts do.
                if isinstance(operator, cst.And) is holds or ZERO not in found:
                    return next((each for each in found if each != ZERO), ZERO)
            case cst.BinaryOperation(operator=cst.Modulo(), right=period) if not holds:
                return self._value_of(period)
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]):
                for counter, period in ((left, right), (right, left)):
                    exceeds = isinstance(operator, _EXCEEDS[counter is left, holds])
                    exceeds = exceeds and not self._is_parameter(counter)
                    if exceeds and self._holds(_starts_over, counter, guarded):
                        return self._value_of(period) - self._increment(counter)
                    if exceeds and self._holds(_advances, test, guarded):
                        return self._value_of(counter)
                among = (cst.Equal, cst.In) if holds else (cst.NotEqual, cst.NotIn)
                equal = isinstance(operator, among)
                if not equal:
                    return ZERO
                if isinstance(left, cst.BinaryOperation) and isinstance(left.operator, cst.Modulo):
                    return self._value_of(left.right)
                if self._stays_full(left) or self._stays_full(right):
                    return ZERO
                if (self._is_whole(left) or self._is_whole(right)) and not self._is_flag(left):
                    return self._value_of(left)
        return ZERO

    def _holds(
        self,
        asks: Callable[[cst.BaseExpression, cst.CSTNode], bool],
        compared: cst.BaseExpression,
        block: cst.CSTNode,
    ) -> bool:
        """Return what a function says about an expression and a block; asked once."""
        key = asks, compared, block
        if key not in self._asked:
            self._asked[key] = asks(compared, block)
        return self._asked[key]

    def _is_parameter(self, number: cst.BaseExpression) -> bool:
        """Whether a name is a parameter, which starts over with each call."""
        found = self._values.definitions.of(number) if isinstance(number, cst.Name) else ()
        return any(isinstance(each, cst.Param) for each in found)

    def _stays_full(self, number: cst.BaseExpression) -> bool:
        """Whether a number is the length of a queue that holds so many of the last: `len(recent)`."""
        match number:
            case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=queue)]):
                made = (value.node for value in self._values.of(queue))
                return any(
                    isinstance(call, cst.Call)
                    and self._values.qualified(call.func) == "collections.deque"
                    and argument(call, "maxlen", 1) is not None
                    for call in made
                )
        return False

    def _increment(self, counter: cst.BaseExpression) -> Exponent:
        """The exponent of what is added to a counter at a time."""
        bindings: Sequence[object] = ()
        match counter:
            case cst.Name():
                bindings = self._values.definitions.of(counter)
            case cst.Attribute():
                bindings = self._values.attribute_bindings(counter)
        added = [each for each in bindings if isinstance(each, Binding) and each.adds]
        statements = [(self._module.parent(each.place), each.value) for each in added if each.place]
        rows = [
            value
            for statement, value in statements
            if isinstance(statement, cst.AugAssign)
            and isinstance(statement.operator, cst.AddAssign)
            and number_of(value) is None
        ]
        return self._value_of(rows[0]) if rows else ZERO

    def _is_flag(self, tested: cst.BaseExpression) -> bool:
        """Whether a name is only ever 0 or 1, `stop = 1`, so that it counts nothing."""
        bindings = self._values.definitions.reaching(tested) if isinstance(tested, cst.Name) else ()
        return bool(bindings) and all(
            isinstance(each, Binding) and not each.adds and number_of(each.value) in (0, 1)
            for each in bindings
        )

    def loops_around(self, call: cst.Call) -> list[Exponent]:
        """Return how often each loop around a training step iterates, outermost first, including loops around calls of its
        function.

        The first element is how often a function runs that nothing in the module calls.
        """
        found: list[Exponent] = []
        child: cst.CSTNode = call
        for around in self._module.ancestors(call):
            if isinstance(around, cst.For | cst.While) and child is around.body:
                found.append(self._exponent_of_block(around, child))
            if isinstance(around, Function):
                sites = self._call_sites(around)
                if not sites:  # others call it, once if it has a loop
                    return [self.of_function(around), *reversed(found)]
                return [*(self.loops_around(sites[0]) if len(sites) == 1 else ()), *reversed(found)]
            child = around
        return found[::-1]

    @cached_property
    def _nodes_around_training(self) -> frozenset[cst.CSTNode]:
        """The loops and functions around training steps."""
        return frozenset(a for site in self._trained for a in self._module.ancestors(site))

    def trains_at(self, call: cst.Call) -> bool:
        """Whether a call leads to a training step."""
        return call in self._trained

    def trains_in(self, node: cst.CSTNode | None) -> bool:
        """Whether a training step runs in a loop or function."""
        return node in self._nodes_around_training

    def counts_accumulation(self, modulo: cst.BinaryOperation) -> bool:
        """Whether `step % n` decides whether a training step runs: n batches are accumulated for one step."""
        if not isinstance(modulo.operator, cst.Modulo):
            return False
        guard = self._module.enclosing(modulo, (cst.If, cst.BaseSmallStatement))
        if isinstance(guard, cst.If):
            return guard.body in self._nodes_around_training or self._skips_training(guard)
        return any(
            isinstance(around, cst.Call)
            and around in self._trained
            and self._values.calls.find_condition(around) is not None
            for around in self._module.ancestors(modulo)
        )

    def _skips_training(self, guard: cst.If) -> bool:
        """Whether a training step below runs only where a test fails: `if micro % n: continue`."""
        block = self._module.parent(guard)
        if not isinstance(block, cst.IndentedBlock):
            return False
        below = (each for each in block.body if each in self._nodes_around_training)
        return any(guard.test in _early_exit_tests(block.body, each) for each in below)

    # Functions

    def of_function(self, function: Function) -> Exponent:
        """Return the exponent of how often a function is called; note the equations with its calls."""
        found = self._functions.get(function)
        if found is None:
            entry = self.entry_point(function)
            sites = self._call_sites(function)
            found = self._new_frequency(function, "calls", last=bool(sites))
            self._functions[function] = found
            if entry is not None and entry.frequency is not None:
                known = Exponent(entry.frequency)
                self.facts.append(Equation(found, known, function, entry.reason))
            unknown = next(iter(found.terms))
            if entry is None and not sites and isinstance(function, cst.FunctionDef):
                self.uncalled[unknown] = function
            calls = [Equation(found, self.of(site), site, "calls it") for site in sites]
            if any(map(self.trains_at, sites)):
                self.facts += calls
            elif calls:
                self.calls.append(calls)
        return found

    def _new_frequency(self, node: cst.CSTNode, label: str, last: bool = False) -> Exponent:
        """Return an unknown frequency, which becomes 0 if nothing determines it.

        Args:
            last: other equations may determine it until the end.
        """
        unknown = Unknown(node, label)
        self.counts.append((unknown, last or self.trains_in(node)))
        return exponent_of(unknown)

    def _call_sites(self, function: Function) -> list[cst.Call]:
        """Return the calls of a function, or of the class of an `__init__`; if some of them train, only these."""
        sites = self._values.calls.sites(function)
        owner = self._module.class_of(function)
        if isinstance(function, cst.FunctionDef) and function.name.value == "__init__" and owner:
            sites = [*sites, *self._values.calls.sites(owner)]
        return [site for site in sites if site in self._trained] or sites

    def entry_point(self, function: cst.CSTNode) -> EntryPoint | None:
        """Return how a library calls a function; None if it does not."""
        return self._library.entry_point(self._values, function)

    def uncounted_loops(self) -> Iterator[Equation]:
        """Yield equations for loops around training that no comparison ends, `while not done`: their length does not depend on
        N.
        """
        for loop in self._nodes_around_training:
            if isinstance(loop, cst.While) and not (
                _ends_by_comparison(loop) or _ends_with_data(loop)
            ):
                yield Equation(
                    self._exponent_of_block(loop, loop.body), ZERO, loop, "ends by itself"
                )

    def training_facts(self) -> Iterator[Equation]:
        """Yield equations that say how often training steps must run."""
        for call, demand in self.demands.items():
            if demand is None:
                continue
            often = "once a step" if demand else "on all rows"
            yield Equation(self.of(call), Exponent(demand), call, f"trains {often}")

    # Recurrences

    def per_start(self, place: cst.CSTNode, starts: Sequence[cst.CSTNode]) -> Exponent:
        """Return how often a node runs per run of the statements that surely start its state again.

        A start counts if it runs unconditionally, in a loop around the node or in the body of another method.
        """
        function = self._module.function_of(place)
        for around in self._module.ancestors(place):
            if isinstance(around, cst.For | cst.While) and any(
                self._is_sure_in(start, around.body) for start in starts
            ):
                return self.of(place, inside=around)
            if around is function:
                break
        for start in starts:
            home = self._module.function_of(start)
            if isinstance(start, cst.Param) and home is not None and home is function:
                return self.of(place, inside=home)
            if home is None or not self._is_sure_in(start, home.body):
                continue
            if home is function:
                return self.of(place, inside=home)
            if home.name.value != "__init__":
                return self.of(place) - self.of_function(home)
        return self.of(place)

    def _is_sure_in(self, node: cst.CSTNode, body: cst.CSTNode) -> bool:
        """Whether a node runs each time that a block does."""
        child = node
        for around in self._module.ancestors(node):
            if isinstance(around, cst.IndentedBlock) and next(
                _early_exit_tests(around.body, child), None
            ):
                return False
            child = around
            if around is body:
                return True
            if isinstance(around, cst.If | cst.For | cst.While | cst.Try | Function):
                return False
        return False


def _starts_over(counter: cst.BaseExpression, block: cst.CSTNode) -> bool:
    """Whether a block sets a counter back: `wait = 0`, `wait, span = 0, 2 * span`, `wait -= patience`."""
    if not isinstance(counter, cst.Name | cst.Attribute | cst.Subscript):
        return False
    for node in nodes_in(block):
        match node:
            case cst.Assign(targets=targets, value=value):
                pairs = (pair for each in targets for pair in _pair_parts(each.target, value))
                if any(number_of(v) in (0, 1) and t.deep_equals(counter) for t, v in pairs):
                    return True
            case cst.AugAssign(target=target, operator=cst.SubtractAssign()):
                if target.deep_equals(counter):
                    return True
    return False


def _pair_parts(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield the targets of an assignment with their values, of tuples part by part."""
    match target, value:
        case cst.Tuple() | cst.List(), cst.Tuple() | cst.List() if len(target.elements) == len(
            value.elements
        ):
            for each, part in zip(target.elements, value.elements, strict=True):
                yield from _pair_parts(each.value, part.value)
        case _:
            yield target, value


def _advances(test: cst.BaseExpression, block: cst.CSTNode) -> bool:
    """Whether a block sets what is compared so that the test fails for some time: `if step >= marks[i]: i += 1`.

    Also `if step >= bound: bound += 100`, and `if step - last >= 100: last = step`. Adding 1 to a number that is compared
    itself counts up to a bound.
    """
    compared = [*nodes_in(test)]
    indices = [
        node
        for each in compared
        if isinstance(each, cst.SubscriptElement)
        for node in nodes_in(each)
    ]
    for node in nodes_in(block):
        match node:
            case cst.AugAssign(target=target, operator=cst.AddAssign(), value=value):
                among = indices if number_of(value) == 1 else compared
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=cst.Name() as value):
                among = compared if any(each.deep_equals(value) for each in compared) else []
            case _:
                continue
        if isinstance(target, cst.Name | cst.Attribute) and any(map(target.deep_equals, among)):
            return True
    return False


def _early_exit_tests(
    body: Sequence[cst.CSTNode], child: cst.CSTNode
) -> Iterator[cst.BaseExpression]:
    """Yield the tests above a statement that, where they hold, skip the rest of the block."""
    for statement in body:
        if statement is child:
            return
        match statement:
            case cst.If(test=test, orelse=None, body=cst.IndentedBlock(body=[*_, last])) if (
                _ends_in_exit(last)
            ):
                yield test
            case cst.If(test=test, orelse=None, body=cst.SimpleStatementSuite(body=[*_, last])) if (
                isinstance(last, cst.Continue | cst.Return)
            ):
                yield test


def _ends_by_comparison(loop: cst.While) -> bool:
    """Whether a comparison ends a loop: `while step < total`, `if loss < 0.1: break`, or `done = loss < 0.1`."""
    if _has_comparison(loop.test):
        return True
    flags = {name.value for name in names_in(loop.test)}
    return any(
        (isinstance(node, cst.AugAssign) and _counts_down(node, flags))
        or (
            isinstance(node, cst.If) and _has_comparison(node.test) and _may_leave(node.body, flags)
        )
        or (
            isinstance(node, cst.Assign) and _sets_flag(node, flags) and _has_comparison(node.value)
        )
        for node in nodes_in(loop.body)
    )


def _counts_down(statement: cst.AugAssign, names: Collection[str]) -> bool:
    """Whether a statement subtracts from one of these names, `left -= 1`."""
    target = statement.target
    is_named = isinstance(target, cst.Name) and target.value in names
    return is_named and isinstance(statement.operator, cst.SubtractAssign)


def _ends_with_data(loop: cst.While) -> bool:
    """Whether a loop runs until an iterator is exhausted: it has as many iterations as there are batches."""
    return any(
        isinstance(node, cst.ExceptHandler)
        and node.type is not None
        and any(name.value in _EXHAUSTED for name in names_in(node.type))
        for node in nodes_in(loop.body)
    )


def _may_leave(body: cst.CSTNode, flags: Collection[str]) -> bool:
    """Whether a block leaves a loop, or sets a flag of the loop's test."""
    return any(
        isinstance(node, cst.Break | cst.Return)
        or (isinstance(node, cst.Assign) and _sets_flag(node, flags))
        for node in nodes_in(body)
    )


def _sets_flag(statement: cst.Assign, flags: Collection[str]) -> bool:
    """Whether an assignment sets one of these names."""
    targets = (each.target for each in statement.targets)
    return any(isinstance(t, cst.Name) and t.value in flags for t in targets)


def _has_comparison(test: cst.BaseExpression) -> bool:
    """Whether a test has a comparison in it."""
    return any(isinstance(node, cst.Comparison) for node in nodes_in(test))


def _ends_in_exit(statement: cst.CSTNode) -> bool:
    """Whether a statement leaves the iteration or the function."""
    match statement:
        case cst.SimpleStatementLine(body=[*_, last]):
            return isinstance(last, cst.Continue | cst.Return)
    return False
