"""How the expressions of a module scale with the number of ranks: their exponents, and the equations between these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import libcst as cst

from .definitions import Definition
from .exponents import ONE, ZERO, Equation, Exponent, Unknown, exponent_of
from .flow import is_iteration, is_property
from .index import ELEMENT, FILLING, Binding, Path, element_of
from .library import Kind
from .records import is_text
from .scale_averages import Weights, step_of_average
from .scale_builtins import BUILTINS, OPERATORS
from .scale_calls import apply_signature, signature_result
from .scale_carried import CarriedState, State
from .scale_constants import UNITS, Constants
from .scale_feedback import Feedback
from .scale_findings import (
    Agreeing,
    Agreement,
    Assignment,
    Carried,
    Constant,
    Found,
    Opaque,
    Rank,
    Recurrence,
    Repeated,
    Scale,
    Sink,
    is_constant,
    number_of,
    unknown_scale,
)
from .scale_frequencies import Frequencies
from .scale_recurrences import AUGMENTED, CONVERTING, Recurrences
from .scale_signatures import Edited, ScaleLibrary
from .syntax import Function, added_to, argument, method, parameters, text_key
from .tree import children_of
from .values import ValueAnalysis
from .whole_numbers import WholeNumbers

#: Reasons of equations that only hand a value on.
SETS, PASSES = "sets it", "passes it"
#: The reason of a recurrence.
ADDS = "adds to it"


#: Comparisons by which a bound is reached.
ORDERS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
#: A factor that is no larger is no decay by steps.
LEAST_FACTOR = 0.5
#: The entry of a list that is one step before the last: one step is one in any unit.
LAST_BUT_ONE = 2
#: The label of the length of a list without elements, to which any may be added.
EMPTY = "empty"
#: How many definitions of one name are followed.
MAX_DEFINITIONS = 40
#: What scales by its operands.
_SCALED = frozenset({cst.Comparison, cst.BinaryOperation, cst.Call, cst.Subscript, cst.NamedExpr})


class ScaleInference:
    """The exponents of one module's expressions, as terms over unknowns."""

    def __init__(self, values: ValueAnalysis, library: ScaleLibrary) -> None:
        self._values, self._library = values, library
        self._module, self._index = values.module, values.index
        self._known: dict[cst.CSTNode, Scale] = {}
        self._bound: dict[int, Scale] = {}
        self._kept: list[object] = []  # bindings and items whose identity is remembered
        self._any: dict[int, Scale] = {}
        self._options: dict[str, Unknown] = {}
        self._decays: set[str] = set()  # of moments of gradients, which stay
        self._joined: dict[frozenset[int], Scale] = {}
        self.edited = library.edited(values)
        self._repeated_sizes = library.repeated_sizes(values)
        self._reached: dict[cst.Name, list[Definition]] = {}
        self._entered: dict[tuple[object, str], Scale] = {}
        self.whole = WholeNumbers(values, library, self._reaching)
        self._recurrences = Recurrences(values, self._reaching)
        self._feedback = Feedback(values, self._recurrences, library)
        self._carried = CarriedState(values, library, self._recurrences, self._reaching)
        self._understood: set[cst.CSTNode] = set()  # places of recurrences
        self._operands: set[cst.CSTNode] = set()  # what recurrences add or multiply by
        self._weighted: set[cst.CSTNode] = set()  # weights of moving averages
        self._constants = Constants(values)
        self.found = Found()
        self.frequencies = Frequencies(
            values, library, self._length_of, lambda e: self.scale(e).value, self.whole.is_whole
        )

    def collect(self) -> Found:
        """All equations of the module."""
        found = self.found
        for iterable in self._library.fixed_loops(self._values):
            if isinstance(iterable, cst.BaseExpression):
                found.facts.append(Equation(self._length_of(iterable), ZERO, iterable))
        uncounted = list(self.frequencies.uncounted_loops())
        found.facts += uncounted
        found.uncounted += [equation.place for equation in uncounted]
        found.demands += self.frequencies.training_facts()
        for step in self.frequencies.demands:
            found.loops.append((step, self.frequencies.loops_around(step)))
        self._visit()
        found.sinks = [sink for sink in found.sinks if not self._corrects_moment(sink)]
        found.flows[:0] = self.frequencies.facts
        found.calls += self.frequencies.calls
        found.constants.sort(key=lambda constant: self._module.span(constant.node).start)
        found.counts += self.frequencies.counts
        return found

    def _visit(self) -> None:
        """All assignments and operations, in the order of the text."""
        bound = dict(self._index.bound)
        for bindings in self._index.attribute_bindings.values():
            bound.update((b.place, b) for b in bindings if b.place is not None)
        places = [n for n in self._module.nodes() if type(n) in _SCALED or n in bound]
        span = self._module.span
        for node in sorted(places, key=lambda n: (span(n).start, -span(n).end)):
            if type(node) in _SCALED and isinstance(node, cst.BaseExpression):
                self.scale(node)
            if (binding := bound.get(node)) is not None and isinstance(node, cst.BaseExpression):
                self._note(node, binding)
        for node in places:
            if isinstance(node, cst.BinaryOperation):
                self._feed_back(node)
        for node, binding in bound.items():
            if isinstance(node, cst.BaseExpression):
                self._carry(State(node, binding), node, binding.value, binding.path)
        for stored in self._index.stored.values():
            for container, value, path in stored:
                target = self._module.parent(container)
                if isinstance(target, cst.Subscript):
                    self._carry(State(target), target, value, path)

    def _note(self, place: cst.BaseExpression, binding: Binding) -> None:
        """An assignment, and what a library's attribute expects that is set."""
        scale = self._of_binding(binding)
        statement = self._statement(place)
        often = self.frequencies.of(statement)
        name = self._module.text(place)
        self.found.assignments.append(Assignment(name, place, scale.value, often))
        if isinstance(place, cst.Attribute) and not binding.path and not binding.adds:
            expected = self._library.attribute(self._values, place)
            if expected is not None and expected.result is not None:
                self.sink(binding.value, expected.result.at({}), f"`{name}` takes it")

    # Expressions

    def scale(self, node: cst.BaseExpression) -> Scale:
        """How an expression scales."""
        found = self._known.get(node)
        if found is None:
            self._known[node] = unknown_scale(node)  # for what depends on itself
            found = self._scale(node)
            if (edited := self.edited.get(node)) is not None:
                found = self._after(edited, found, node)
            self._known[node] = found
        return found

    def _after(self, edited: Edited, scale: Scale, node: cst.BaseExpression) -> Scale:
        """How an expression scales that another edit changes; a constant, or what is not seen, is the same before that."""
        is_unseen = bool(self.found.opaque) and self.found.opaque[-1].node is node
        if is_constant(node) or is_unseen or self.is_external(node):
            self.found.facts.append(Equation(scale.value, ZERO, node))
        if edited.value:
            self.found.sizes.append(Equation(scale.value, ZERO, node))
            told = exponent_of(Unknown(node, "edited"))
            after = scale.value + Exponent(Fraction(edited.value))
            self.found.facts.append(Equation(told, after, node, "is scaled as a batch size"))
            scale = replace(scale, value=told)
        if edited.length:
            length = scale.length if scale.length is not None else ZERO
            scale = replace(scale, length=length + Exponent(Fraction(edited.length)))
        element = scale.element
        if edited.of_element and element is not None:
            rows = element.length if element.length is not None else ZERO
            rows += Exponent(Fraction(edited.of_element))
            scale = replace(scale, element=replace(element, length=rows))
        return scale

    def _has_edited_operand(self, node: cst.BaseExpression) -> bool:
        """Whether another edit changes a number in an expression: the size of a batch in `2000 // 40`."""
        return isinstance(node, cst.BinaryOperation) and any(
            operand in self.edited or self._has_edited_operand(operand)
            for operand in (node.left, node.right)
        )

    def _scale(self, node: cst.BaseExpression) -> Scale:
        is_signed = isinstance(node, cst.UnaryOperation)
        if is_constant(node) and not is_signed and not self._has_edited_operand(node):
            return self._constant(node)
        match node:
            case cst.Name():
                return self._of_name(node)
            case cst.Attribute():
                return self._of_attribute(node)
            case cst.Call():
                return self._of_call(node)
            case cst.BinaryOperation():
                return self._of_operation(node)
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=inner):
                return self.scale(inner)
            case cst.Comparison(left=left, comparisons=targets):
                for target in targets:
                    self._compare(node, left, target)
                    left = target.comparator
                sides = (self.scale(s) for s in (node.left, *(t.comparator for t in targets)))
                sized = next((s.length for s in sides if s.length is not None), None)
                return Scale(ZERO, sized)
            case cst.IfExp(body=one, orelse=other) | cst.BooleanOperation(left=one, right=other):
                return self._join([self.scale(one), self.scale(other)], node)
            case cst.NamedExpr(value=value) | cst.Await(expression=value):
                return self.scale(value)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                items = tuple(self.scale(e.value) for e in elements)
                length = ZERO if items else exponent_of(Unknown(node, EMPTY))
                return Scale(exponent_of(Unknown(node)), length, None, items)
            case cst.Dict():
                return self._of_dictionary(node)
            case cst.ListComp(elt=elt, for_in=loop) | cst.GeneratorExp(elt=elt, for_in=loop):
                element = self.scale(elt)
                return Scale(element.value, self._length_of(loop.iter), element)
            case cst.Subscript():
                return self._of_subscript(node)
        return unknown_scale(node)

    def _part(self, scale: Scale, path: Path) -> Scale | None:
        """The part of a value that an assignment takes."""
        found: Scale | None = scale
        for step in path:
            if found is None:
                return None
            found = self.element(found) if step == ELEMENT else found.item(step)
        return found

    def element(self, sequence: Scale) -> Scale | None:
        """How any element of a sequence scales; of one that is written out, any of its items may be meant."""
        if sequence.element is not None:
            return sequence.element
        return self._any_of(sequence.items)

    def _any_of(self, scales: tuple[Scale, ...]) -> Scale | None:
        """How a value scales that may be any of several, tuples item by item."""
        if not scales:
            return None
        key = id(scales)
        if key not in self._any:
            self._kept.append(scales)
            found = self._join(scales, self._module.tree)
            counts = {len(scale.items) for scale in scales}
            if counts != {0} and len(counts) == 1:
                columns = zip(*(scale.items for scale in scales), strict=True)
                items = tuple(self._join(column, self._module.tree) for column in columns)
                found = replace(found, items=items)
            self._any[key] = found
        return self._any[key]

    def numbers(self, node: cst.BaseExpression) -> Scale:
        return self._numbers(self.scale(node))

    def _numbers(self, scale: Scale) -> Scale:
        element = self.element(scale) if scale.items and not scale.values else None
        if element is None:
            return scale
        element = self._numbers(element)
        return replace(scale, value=element.value, element=element, items=())

    def _of_dictionary(self, node: cst.Dict) -> Scale:
        """A dictionary by numbers, as `{0: 0.1, 1000: 0.01}`; one by texts has entries of their own."""
        written = [e for e in node.elements if isinstance(e, cst.DictElement)]
        if len(written) < len(node.elements) or any(_is_string_literal(e.key) for e in written):
            return unknown_scale(node)
        keys, values = (
            tuple(self.scale(side) for side in sides)
            for sides in ((e.key for e in written), (e.value for e in written))
        )
        return Scale(exponent_of(Unknown(node)), ZERO, None, keys, values)

    def _constant(self, node: cst.BaseExpression) -> Scale:
        """A number that is written down: of any exponent where it is 0, and where it shifts a count by one."""
        unknown = Unknown(node)
        if number_of(node) != 0 and not self._constants.shifts_count(node):
            rank = Rank.SIZE if node in self._repeated_sizes else self._constants.rank(node)
            self.found.constants.append(Constant(node, unknown, rank))
        return Scale(exponent_of(unknown))

    # Names

    def _of_name(self, name: cst.Name) -> Scale:
        definitions = self._reaching(name)
        is_parameter = any(isinstance(each, cst.Param) for each in definitions)
        if is_parameter and self.is_external(name):
            return self.outside(name)
        return self._join_definitions(definitions, name)

    def _reaching(self, name: cst.Name) -> list[Definition]:
        """The definitions that a name may hold; none where it has too many to be followed."""
        found = self._reached.get(name)
        if found is None:
            found = self._values.definitions.reaching(name) if self._has_few(name) else []
            self._reached[name] = found
        return found

    def _has_few(self, name: cst.Name) -> bool:
        return len(self._values.definitions.assignments(name)) <= MAX_DEFINITIONS

    def _join_definitions(self, definitions: Sequence[object], node: cst.CSTNode) -> Scale:
        if not definitions:
            return unknown_scale(node)
        key = frozenset(map(id, definitions))
        found = self._joined.get(key)
        if found is None:
            self._joined[key] = unknown_scale(node)
            scales = [self._of_definition(each) for each in definitions]
            self._joined[key] = found = self._join(scales, node)
        return found

    def _of_definition(self, definition: object) -> Scale:
        match definition:
            case Binding():
                return self._of_binding(definition)
            case cst.Param():
                return self._of_parameter(definition)
            case cst.CSTNode():
                return unknown_scale(definition)
        raise TypeError(definition)

    def _join(self, scales: Sequence[Scale], node: cst.CSTNode) -> Scale:
        """The exponent of an expression that may be any of several."""
        distinct = list(dict.fromkeys(map(_key, scales)))
        if len(distinct) == 1:
            return scales[0]
        unknown = Unknown(node, "joined")
        for scale in scales:
            self._flow(exponent_of(unknown), scale.value, node)
        sized = [s for s in scales if s.length is not None]
        filled = (s for s in sized if all(u.label != EMPTY for u in (s.length or ZERO).terms))
        longest = next(filled, sized[0] if sized else scales[0])
        return replace(longest, value=exponent_of(unknown))

    def _flow(
        self, target: Exponent, source: Exponent, node: cst.CSTNode, reason: str = ""
    ) -> None:
        reason = reason or SETS
        self.found.flows.append(Equation(target, source, node, reason))

    # Bindings

    def _of_binding(self, binding: Binding) -> Scale:
        found = self._bound.get(id(binding))
        if found is None:
            self._kept.append(binding)
            place = binding.place or binding.value
            value = exponent_of(Unknown(place, "variable"))
            self._bound[id(binding)] = Scale(value)
            found = self._bind(binding, place, value)
            self._bound[id(binding)] = found
        return found

    def _bind(self, binding: Binding, place: cst.CSTNode, value: Exponent) -> Scale:
        recurrence = self._recurrences.of(binding, place)
        if recurrence is not None:
            previous = self._previous(binding, place)
            if previous is not None:
                self._flow(value, previous.value, place)
            self._recur(place, value, recurrence, self._starts(binding, place))
            return Scale(value)
        source = self._part(self.scale(binding.value), binding.path)
        if source is None:
            return Scale(value)
        written = element_of(binding)
        if isinstance(written, cst.List) or (written and self._limit(written) is not None):
            source = self._filled(binding, place, source)
        self._flow(value, source.value, place)
        return replace(source, value=value)

    def _filled(self, binding: Binding, place: cst.CSTNode, scale: Scale) -> Scale:
        """How a list scales to which elements are appended: its length by how often that is done."""
        if isinstance(place, cst.Name):
            calls = self._index.filled.get(place.value, [])
        elif isinstance(place, cst.Attribute):
            calls = self._index.filled_attributes.get(place.attr.value, [])
        else:
            return scale
        for call in calls:
            assert isinstance(call.func, cst.Attribute)
            if method(call) == "append" and self._recurrences.is_same(call.func.value, place):
                often = self.frequencies.since(call, self._starts(binding, place, itself=True))
                written = element_of(binding)
                limit = self._limit(written) if written is not None else None
                if limit is not None:
                    self.sink(limit, often, "holds so many of the last")
                return Scale(scale.value, often, self.scale(call.args[0].value))
        return scale

    def _limit(self, value: cst.BaseExpression) -> cst.BaseExpression | None:
        """The `n` of `deque(maxlen=n)`."""
        if isinstance(value, cst.Call) and self.qualified(value) == "collections.deque":
            limit = argument(value, "maxlen", 1)
            return limit.value if limit is not None else None
        return None

    def _of_recurrence(self, node: cst.BinaryOperation) -> Scale | None:
        """The exponent of the variable of `x = x + c`, given its `x + c`; the operands may have different exponents."""
        statement = self._module.enclosing(node, (cst.Assign, cst.BaseStatement))
        if not isinstance(statement, cst.Assign):
            return None
        place = statement.targets[0].target
        if isinstance(place, cst.Name):
            bound = self._index.bound.get(place)
        else:
            named = place.attr.value if isinstance(place, cst.Attribute) else ""
            bindings = self._index.attribute_bindings.get(named, ())
            bound = next((b for b in bindings if b.place is place), None)
        if bound is None or self._recurrences.within_bounds(bound.value, place) is not node:
            return None
        return self._of_binding(bound) if self._recurrences.of(bound, place) is not None else None

    def _previous(self, binding: Binding, place: cst.CSTNode) -> Scale | None:
        """The variable's value before the statement."""
        others: list[object] = []
        if isinstance(place, cst.Name):
            others = [d for d in self._reaching(place) if d is not binding]
        elif isinstance(place, cst.Attribute):
            others = [b for b in self._values.attribute_bindings(place) if b is not binding]
        return self._join_definitions(others, place) if others else None

    def _starts(
        self, binding: Binding, place: cst.CSTNode, itself: bool = False
    ) -> list[cst.CSTNode]:
        """Where the variable is set to something that is not made of itself."""
        bindings: Iterable[object] = ()
        if isinstance(place, cst.Name):
            few = self._has_few(place)
            bindings = self._values.definitions.of(place) if few else ()
        elif isinstance(place, cst.Attribute):
            bindings = self._values.attribute_bindings(place)
        return [
            self._statement(other.place)
            for other in bindings
            if isinstance(other, Binding)
            and (itself or other is not binding)
            and other.place is not None
            and self._recurrences.of(other, other.place) is None
        ]

    def _recur(
        self,
        place: cst.CSTNode,
        value: Exponent,
        recurrence: Recurrence,
        starts: Sequence[cst.CSTNode],
    ) -> None:
        """`x += c` at a statement of frequency D gives x the exponent of c plus D; `x *= c` raises c to the number of times."""
        self._understood.add(place)
        self._operands.add(recurrence.operand)
        if self._is_step(place):
            self._decays |= {self._module.text(weight) for weight, _ in recurrence.weights}
            return
        frequency = self.frequencies.since(self._statement(place), starts)
        self.found.uncalled += [
            function
            for unknown in frequency.terms
            if (function := self.frequencies.uncalled.get(unknown)) is not None
        ]
        operator, operand = recurrence.operator, recurrence.operand
        if operator in "+-":
            counts = number_of(operand) in (1, -1)
            increment = ZERO if counts else self.scale(operand).value
            reason = ADDS
            if self._is_moved_on(place):
                frequency = ZERO
            self.found.facts.append(Equation(value, increment + frequency, place, reason))
            if is_constant(operand) and not isinstance(number_of(operand), int):
                self.found.ramps.append(Equation(value, ZERO, place, reason))
        elif operator in "*/" and not self._is_event(place, operand):
            value = self.scale(operand).value
            calls = self._often_called(place)
            self.found.repeated.append(Repeated(operand, frequency, value, calls=calls))
        self._weight(recurrence.weights, frequency, self._often_called(place))

    def _often_called(self, place: cst.CSTNode) -> tuple[Exponent, ...]:
        """How often each of several calls of the function around a place runs."""
        function = self._module.function_of(place)
        sites = self._values.calls.sites(function) if function is not None else ()
        return tuple(map(self.frequencies.of, sites)) if len(sites) > 1 else ()

    def _carry(
        self,
        state: State,
        place: cst.BaseExpression,
        value: cst.BaseExpression,
        path: Path = (),
    ) -> None:
        """Note a variable that is computed from itself, if nothing has told how."""
        if place in self._understood or self._is_step(place):
            return
        numbers = self._carried.numbers(state, value, path)
        known = self._operands | self._weighted
        if known.issuperset(numbers) or self._library.is_gradient(self._values, value):
            return
        binding = state.binding
        starts = self._starts(binding, place) if binding is not None else ()
        frequency = self.frequencies.since(self._statement(place), starts)
        self.found.carried.append(Carried(place, tuple(numbers), frequency))

    def _feed_back(self, node: cst.BinaryOperation) -> None:
        """A number that comes back through lists, functions, other names or a model's weights."""
        found = self._feedback.recurrence(node)
        if found is None or found.recurrence.operand in self._operands:
            return
        if any(weight in self._weighted for weight, _ in found.recurrence.weights):
            return
        if self._is_step(node) or self._library.is_gradient(self._values, node):
            return
        starts = [self._statement(each) for each in self._feedback.starts(found.place, node)]
        self._recur(node, self.scale(node).value, found.recurrence, starts)
        self._understood.add(found.place.node)

    def _weight(self, weights: Weights, frequency: Exponent, calls: tuple[Exponent, ...]) -> None:
        for weight, kind in weights:
            value = self.scale(weight).value
            self._weighted.add(weight)
            self.found.repeated.append(Repeated(weight, frequency, value, kind, calls))
            self.found.weights.append(Equation(value, ZERO, weight, "weights an average by it"))

    def _is_moved_on(self, place: cst.CSTNode) -> bool:
        """Whether a bound is moved on once it is reached, `if step >= bound: bound += 100`.

        It has the unit of what reaches it.
        """
        guard = self._module.enclosing(place, (cst.If, cst.For, cst.While, cst.FunctionDef))
        match guard:
            case cst.If(
                test=cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)])
            ) if isinstance(operator, ORDERS) and isinstance(place, cst.BaseExpression):
                sides = (left, right)
                return any(self._recurrences.is_same(side, place) for side in sides) and not any(
                    is_constant(side) for side in sides
                )
        return False

    def _corrects_moment(self, sink: Sink) -> bool:
        """Whether a number is the `t` of `1 - beta ** t`, which corrects a moment of gradients: both stay as they are."""
        power = self._module.parent(sink.node)
        return (
            isinstance(power, cst.BinaryOperation)
            and isinstance(power.operator, cst.Power)
            and power.right is sink.node
            and self._module.text(power.left) in self._decays
        )

    def _is_event(self, place: cst.CSTNode, factor: cst.BaseExpression) -> bool:
        """Whether a number is halved or doubled where something has happened, as a loss scale is, and not step by step."""
        number = number_of(factor)
        guard = self._module.enclosing(
            place, (cst.If, cst.For, cst.While, cst.FunctionDef, cst.Lambda)
        )
        is_large = number is not None and not LEAST_FACTOR < abs(number) < 1 / LEAST_FACTOR
        return is_large and isinstance(guard, cst.If)

    def _is_step(self, place: cst.CSTNode) -> bool:
        """Whether an assignment is a training step by hand."""
        return any(a in self.frequencies.demands for a in (place, *self._module.ancestors(place)))

    def _of_parameter(self, param: cst.Param) -> Scale:
        found = self._known.get(param)
        if found is not None:
            return found
        value = exponent_of(Unknown(param, "parameter"))
        self._known[param] = found = Scale(value)
        function = self._module.owner(param)
        if function is None:
            return found
        entry = self.frequencies.entry_point(function)
        names = parameters(function)
        own = isinstance(function, cst.FunctionDef) and self._module.class_of(function) is not None
        place = names.index(param) - own if param in names else -1
        if entry is not None and 0 <= place < len(entry.parameters):
            given = entry.parameters[place]
            if given is not None:
                self.found.facts.append(Equation(value, Exponent(given), param, entry.reason))
        if entry is not None and entry.takes_batch and place == 0:
            self._known[param] = found = Scale(value, ONE, is_record=True)
            return found
        passed = self._passed(function, param)
        sized: list[Scale] = []
        for argument_ in passed:
            scale = self.scale(argument_)
            self._flow(value, scale.value, argument_, PASSES)
            sized += [scale] if scale.length is not None or scale.items else []
        if sized:
            lengths = {each.length.key for each in sized if each.length is not None}
            length = sized[0].length
            if len(lengths) > 1 or len(sized) < len(passed):  # rows of a batch, and others
                unknown = Unknown(param, "length")
                self.found.counts.append((unknown, len(lengths) < 2))
                length = exponent_of(unknown)
            self._known[param] = found = replace(sized[0], value=value, length=length)
        return found

    def _passed(self, function: Function, param: cst.Param) -> list[cst.BaseExpression]:
        """The arguments for a parameter; if training runs in the function, only of calls that train."""
        found = self._values.calls.actual_arguments(function, param)
        trained = [value for call, value in found if self.frequencies.trains_at(call)]
        given = trained or [value for _, value in found]
        return [*given, *([param.default] if param.default is not None else [])]

    # Attributes and subscripts

    def _of_attribute(self, node: cst.Attribute) -> Scale:
        known = self._library.attribute(self._values, node)
        if known is not None:
            return signature_result(self, known, {}, self.scale(node.value), node)
        bindings = self._values.attribute_bindings(node)
        if bindings:
            return self._join_definitions(bindings, node)
        properties = [m for m in self._values.flow.methods(node) if is_property(m)]
        if returned := [v for m in properties for v in self._index.returns[m]]:
            return self._join([self.scale(value) for value in returned], node)
        if node.attr.value == "shape":
            length = self.scale(node.value).length
            return Scale(ZERO, items=(Scale(length),)) if length is not None else Scale(ZERO)
        return self.outside(node)

    def outside(self, node: cst.BaseExpression) -> Scale:
        """A number that comes from outside the program; of an expression of which nothing is known, an unknown."""
        unknown = self._option(node) or Unknown(node)
        is_external = self.is_external(node)
        if not is_external and (name := self._values.qualified(node)):  # such as `math.pi`
            is_infinite = name.rpartition(".")[2] in ("inf", "nan", "Inf", "infty")
            return Scale(exponent_of(unknown) if is_infinite else ZERO)
        if is_external:
            self.found.constants.append(Constant(node, unknown, Rank.NAMED))
            return Scale(exponent_of(unknown))
        key = self._attribute_of(node)
        if key is not None and key in self._entered:
            return self._entered[key]
        self.found.opaque.append(Opaque(node, unknown, ()))
        found = Scale(exponent_of(unknown))
        if key is not None:
            self._entered[key] = found
        return found

    def _option(self, node: cst.BaseExpression) -> Unknown | None:
        """The exponent of an option of the program, which is the same wherever it is read: `args.steps`, `self.args.steps`."""
        match node:
            case cst.Attribute(attr=cst.Name(value=name)) | cst.Name(value=name):
                pass
            case cst.Subscript() if (key := text_key(node)) is not None:
                name = key
            case _:
                return None
        if not self.is_external(node):
            return None
        return self._options.setdefault(name, Unknown(node, "option"))

    def _attribute_of(self, node: cst.BaseExpression) -> tuple[object, str] | None:
        """The key of an unknown attribute: its variable and its text."""
        match node:
            case cst.Attribute(value=cst.Name() as owner) if owner.value != "self":
                identity = self._values.definitions.identity(owner)
                return (identity, node.attr.value) if identity is not None else None
        return None

    def _of_subscript(self, node: cst.Subscript) -> Scale:
        container = self.scale(node.value)
        if (key := text_key(node)) is not None:
            return self._of_entry(node, key)
        match node.slice:
            case [cst.SubscriptElement(slice=cst.Slice(lower=lower, upper=upper)), *_]:
                length = self._slice_length(lower, upper, container.length)
                return replace(container, length=length, items=())
            case [cst.SubscriptElement(slice=cst.Index(value=index))]:
                if container.values:
                    return self._looked_up(container, index) or unknown_scale(node)
                number = number_of(index)
                if number is not None and self._is_counted(node):
                    return self._of_entry(node, str(number))
                chosen = self.scale(index)
                at = number if isinstance(number, int) else -1
                found = container.item(at) if at >= 0 else self.element(container)
                if at < -LAST_BUT_ONE and container.length:
                    back = _without_sign(index)
                    self.sink(back, container.length, "takes it from the end")
                if chosen.length is not None:
                    return replace(container, length=chosen.length, items=())
                if container.length is not None and number is None and not self._is_set(node):
                    lookup = Sink(index, chosen.value, container.length, "looks up an entry by it")
                    self.found.lookups.append(lookup)
                elif container.length is None and number is None and not self._is_set(node):
                    self.found.opaque.append(Opaque(node, Unknown(node), (chosen.value,)))
                return found or Scale(container.value)
        return Scale(container.value)

    def _looked_up(self, dictionary: Scale, key: cst.BaseExpression) -> Scale | None:
        """The value of a dictionary that a number is the key of."""
        keys = self.element(dictionary)
        if keys is not None:
            self._look_up(key, keys)
        return self._any_of(dictionary.values)

    def _look_up(self, number: cst.BaseExpression, among: Scale) -> None:
        """A number that is compared with each of several: those that are written out are edited, else the number is."""
        exponents = self.scale(number).value, among.value
        result = exponent_of(Unknown(number, "lookup"))
        agreement = Agreement("lookup", number, number, number, exponents, result)
        self.found.agreements.append(agreement)

    def _is_set(self, node: cst.Subscript) -> bool:
        return isinstance(self._module.parent(node), cst.AssignTarget | cst.AugAssign)

    def _slice_length(
        self,
        lower: cst.BaseExpression | None,
        upper: cst.BaseExpression | None,
        whole: Exponent | None,
    ) -> Exponent | None:
        """The length of `x[i:i + n]`, of `x[i * n:(i + 1) * n]`, of `x[:n]`."""
        if upper is None:
            match lower:
                case cst.UnaryOperation(operator=cst.Minus(), expression=window) if whole:
                    self.sink(window, whole, "takes so many of the last")
                    return whole
            return whole
        text = self._module.text
        if lower is None:
            return self.scale(upper).value
        if isinstance(upper, cst.Name):
            match self._reaching(upper):
                case [Binding(value=cst.BinaryOperation() as end, path=(), adds=False)]:
                    upper = end
        if (added := added_to(lower, upper)) is not None:
            return self.scale(added).value
        match lower, upper:
            case cst.BinaryOperation(left=a, operator=cst.Multiply(), right=b), cst.BinaryOperation(
                left=c, operator=cst.Multiply(), right=d
            ):
                for size in (a, b):
                    if text(size) in (text(c), text(d)):
                        return self.scale(size).value
        bounds = [_without_sign(bound) for bound in (lower, upper)]
        if whole and all(isinstance(bound, cst.Integer) for bound in bounds):
            for bound in bounds:
                self.sink(bound, whole, "cuts at so many")
            return whole
        return None

    def _of_entry(self, node: cst.Subscript, key: str) -> Scale:
        """`cfg["steps"]`: what the entry of a dictionary of the program is set to, and what is added to it."""
        entries = list(self._entries(node.value, key))
        if not entries:
            return self.outside(node)
        identity = self._values.definitions.identity(node.value)
        of = identity if isinstance(identity, frozenset) else self._module.text(node.value)
        if (of, key) not in self._entered:
            value = exponent_of(Unknown(node, "entry"))
            self._entered[of, key] = Scale(value)
            starts = [self._statement(place) for place, _, operator in entries if not operator]
            for place, source, operator in entries:
                if operator:
                    self._recur(place, value, Recurrence(operator, source), starts)
                    continue
                scale = self.scale(source)
                self._flow(value, scale.value, place)
                if scale.length is not None:
                    self._entered[of, key] = replace(scale, value=value)
        return self._entered[of, key]

    def _is_counted(self, node: cst.Subscript) -> bool:
        """Whether an entry of a list counts, as in `count[0] += 1` within a function."""
        if not isinstance(node.value, cst.Name):
            return False
        text = self._module.text
        return any(
            isinstance(target := self._module.parent(there), cst.Subscript)
            and isinstance(self._module.parent(target), cst.AugAssign)
            and text(target) == text(node)
            for there, added, part in self._index.stored.get(node.value.value, ())
            if not part and isinstance(number_of(added), int)
        )

    def _entries(
        self, container: cst.BaseExpression, key: str
    ) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, str]]:
        """Where an entry is set, to what, and the operator of an assignment such as `+=`."""
        for entry in self._values.records.entries(container, key):
            yield entry.place, entry.value, ""
        for made in self._values.of(container) if key.isdecimal() else ():
            match made.node:
                case cst.List(elements=elements) if int(key) < len(elements):
                    yield made.node, elements[int(key)].value, ""
        if isinstance(container, cst.Name):
            for there, value, part in self._index.stored.get(container.value, ()):
                target = self._module.parent(there)
                if isinstance(target, cst.Subscript) and not part and _has_key(target, key):
                    statement = self._module.parent(target)
                    if self._recurrences.is_same(there, container):
                        operator = ""
                        if isinstance(statement, cst.AugAssign):
                            operator = AUGMENTED.get(type(statement.operator), "?")
                        yield target, value, operator

    # Operators

    def _of_operation(self, node: cst.BinaryOperation) -> Scale:
        if _is_string_literal(node.left) or _is_string_literal(node.right):
            return unknown_scale(node)
        left, right = self.scale(node.left), self.scale(node.right)
        sized = left if left.length is not None else right
        match node.operator:
            case cst.Add() | cst.Subtract() if (itself := self._of_recurrence(node)) is not None:
                value = itself.value
            case cst.Add() if (count := self._constants.count_in_ratio(node)) is not None:
                self.sink(count, ZERO, "adds numbers to it in a ratio")
                value = ZERO
            case cst.Add() | cst.Subtract():
                value = self.agree("sum", node, node.left, node.right)
            case cst.Multiply():
                value = left.value + right.value
                if isinstance(node.left, cst.List):
                    return replace(left, length=right.value)
            case cst.Divide() | cst.FloorDivide():
                value = left.value - right.value
                self.found.quotients.append((left.value, right.value, node))
                if self._is_mean(node):
                    reason = "is the mean of what each step adds"
                    self.found.means.append(Equation(value, ZERO, node, reason))
            case cst.Modulo():
                if self.frequencies.counts_accumulation(node):
                    value = left.value
                else:
                    value = self.agree("modulus", node, node.left, node.right)
            case cst.Power():
                number = number_of(node.right)
                if number is not None:
                    value = left.value * Fraction(number).limit_denominator(1000)
                else:
                    reason = "takes it as an exponent"
                    self.sink(node.right, ZERO, reason)
                    value = left.value
            case _:
                value = self._unseen(node, node.left, node.right)
        return replace(sized, value=value, items=())

    def _is_mean(self, quotient: cst.BinaryOperation) -> bool:
        """Whether what a loop sums is divided by a number that is no unit, such as 60 or 1000: `total / 4`.

        Or the sum of a list's last entries by their number: `sum(losses[-4:]) / 4`.
        """
        if self._sums_last(quotient.left, quotient.right):
            return True
        count = number_of(quotient.right) if isinstance(quotient.right, cst.Integer) else None
        if count is None or count < 2 or count in UNITS or not isinstance(quotient.left, cst.Name):
            return False
        return any(
            isinstance(each, Binding) and each.adds and number_of(each.value) is None
            for each in self._reaching(quotient.left)
        )

    def _sums_last(self, node: cst.BaseExpression, count: cst.BaseExpression) -> bool:
        """Whether an expression is `sum(losses[-count:])`."""
        match node:
            case cst.Call(args=[cst.Arg(value=cst.Subscript(slice=[cut]))]):
                name = self._values.qualified(node.func)
                match cut.slice:
                    case cst.Slice(
                        lower=cst.UnaryOperation(operator=cst.Minus(), expression=last), upper=None
                    ):
                        same = self._module.text(last) == self._module.text(count)
                        return same and name in ("builtins.sum", "math.fsum", "numpy.sum")
        return False

    def agree(
        self,
        kind: Agreeing,
        place: cst.BaseExpression,
        left: cst.BaseExpression,
        right: cst.BaseExpression,
    ) -> Exponent:
        """The exponent of the result of two operands that must have the same exponent."""
        exponents = self.scale(left).value, self.scale(right).value
        if self._is_in_slice(place):
            return exponents[0]
        for one, other in (exponents, exponents[::-1]):
            node = left if one is exponents[0] else right
            if number_of(node) is not None and not self._is_scaled(node):
                return other
        result = exponent_of(Unknown(place, "result"))
        whole = kind == "sum" and self.whole.is_whole(left) and self.whole.is_whole(right)
        agreement = Agreement(kind, place, left, right, exponents, result, whole)
        self.found.agreements.append(agreement)
        return result

    def _is_in_slice(self, node: cst.CSTNode) -> bool:
        """Whether a number is a bound of a slice: rows from `i` to `i + size`."""
        return self._module.enclosing(node, (cst.Slice, cst.BaseStatement)).__class__ is cst.Slice

    def _is_scaled(self, node: cst.BaseExpression) -> bool:
        """Whether a constant is one whose exponent counts, neither 0 nor the 1 of `step + 1`."""
        return number_of(node) != 0 and not self._constants.shifts_count(node)

    def _compare(
        self, node: cst.Comparison, left: cst.BaseExpression, target: cst.ComparisonTarget
    ) -> None:
        right = target.comparator
        if isinstance(target.operator, cst.In | cst.NotIn):
            if isinstance(right, cst.Tuple | cst.List | cst.Set):
                for element in right.elements:
                    self.agree("comparison", node, left, element.value)
            elif (held := self.element(self.scale(right))) is not None:
                self._look_up(left, held)
        elif not isinstance(target.operator, cst.Is | cst.IsNot) and not (
            _is_string_literal(left) or _is_string_literal(right)
        ):
            self.agree("comparison", node, left, right)

    # Calls

    def qualified(self, call: cst.Call) -> str:
        return self._values.qualified(call.func)

    def _of_call(self, call: cst.Call) -> Scale:
        self._accumulate(call)
        name = self.qualified(call)
        if self._limit(call) is not None:
            return unknown_scale(call)
        special = BUILTINS.get("builtins.range" if self._library.is_range(name) else name)
        special = special or OPERATORS.get(self._library.operator_of(name))
        if special is not None:
            return special(self, call)
        if is_iteration(name) and call.args:
            return self.scale(call.args[0].value)
        if (handed_on := self._values.flow.handed_on(call)) is not None:
            return self.scale(handed_on)
        known = self._library.called(self._values, call)
        if known is not None:
            return apply_signature(self, call, known)
        if isinstance(call.func, cst.Attribute) and (held := self.scale(call.func.value)).values:
            return self._of_dictionary_method(held, call) or unknown_scale(call)
        direct = self._values.calls.direct(call)
        functions = [
            value.node
            for value in self._values.of(direct.func)
            if value.kind is Kind.FUNCTION and isinstance(value.node, Function)
        ]
        if functions:
            return self._join([self._called(f, call) for f in functions], call)
        if (owner := self._made_by(call)) is not None:
            return self._instance(owner, call)
        return self.opaque(call)

    def _made_by(self, call: cst.Call) -> cst.ClassDef | None:
        """The class of the program whose object a call makes."""
        classes = (v.node for v in self._values.of(call.func) if v.kind is Kind.CLASS)
        return next((node for node in classes if isinstance(node, cst.ClassDef)), None)

    def _instance(self, owner: cst.ClassDef, call: cst.Call) -> Scale:
        """An object of the program: a loop over it has as many iterations as `__iter__` yields, or `__len__` says."""
        for argument_ in call.args:
            self.scale(argument_.value)
        made = unknown_scale(call)
        methods = self._values.classes.methods
        if (iterated := next(methods(owner, "__iter__"), None)) in self._index.generators:
            assert isinstance(iterated, cst.FunctionDef)
            given = self._called(iterated, call)
            return replace(made, length=given.length, element=given.element)
        counted = next(methods(owner, "__len__"), None)
        if counted is not None and (returned := self._index.returns[counted]):
            return replace(made, length=self._join([*map(self.scale, returned)], counted).value)
        return made

    def _of_dictionary_method(self, held: Scale, call: cst.Call) -> Scale | None:
        keys, values = self.element(held), self._any_of(held.values)
        match method(call), call.args:
            case (("get" | "pop" | "setdefault"), [key, *rest]):
                found = self._looked_up(held, key.value)
                return (
                    self._join([found, self.scale(rest[0].value)], call)
                    if rest and found
                    else found
                )
            case "items", [] if keys is not None and values is not None:
                return Scale(ZERO, ZERO, Scale(ZERO, items=(keys, values)))
            case "keys", []:
                return Scale(ZERO, ZERO, keys)
            case "values", []:
                return Scale(ZERO, ZERO, values)
        return None

    def _called(self, function: Function, call: cst.Call) -> Scale:
        if function in self._index.generators:
            length, element = ZERO, None
            for statement in self._yields(function):
                length = self.frequencies.of(statement, inside=function)
                if isinstance(statement.value, cst.BaseExpression):
                    element = self.scale(statement.value)
            return Scale(ZERO, length, element)
        returned = self._index.returns[function]
        if not returned:
            return unknown_scale(call)
        found = self._known.get(function)
        if found is None:
            self._known[function] = unknown_scale(function)
            found = self._join([self.scale(value) for value in returned], function)
            self._known[function] = found
        return found

    def _yields(self, function: cst.CSTNode) -> Iterator[cst.Yield]:
        for child in children_of(function):
            if isinstance(child, cst.Yield):
                yield child
            elif not isinstance(child, Function):
                yield from self._yields(child)

    def opaque(self, call: cst.Call) -> Scale:
        """The result of an unknown function: if its arguments do not depend on the number of ranks, neither does the result."""
        if self.is_external(call):
            return self.outside(call)
        args = [self.scale(arg.value) for arg in call.args]
        if method(call) in FILLING or self._values.records.is_record(call):
            return unknown_scale(call)
        if isinstance(call.func, cst.Attribute):
            args.append(self.scale(call.func.value))
        unknown = Unknown(call)
        self.found.opaque.append(Opaque(call, unknown, tuple(a.value for a in args)))
        rows = (a for a in args if a.element is None or a.element.length is None)
        length = next((a.length for a in rows if a.length is not None), None)
        return Scale(exponent_of(unknown), length)

    def _unseen(self, node: cst.BaseExpression, *operands: cst.BaseExpression) -> Exponent:
        """The exponent of what an unknown operator gives."""
        unknown = Unknown(node)
        given = tuple(self.scale(operand).value for operand in operands)
        self.found.opaque.append(Opaque(node, unknown, given))
        return exponent_of(unknown)

    def sink(
        self,
        node: cst.BaseExpression,
        expected: Exponent,
        reason: str,
        is_epochs: bool = False,
    ) -> None:
        is_list = bool(self.scale(node).items)
        actual = self.numbers(node).value
        self.found.sinks.append(Sink(node, actual, expected, reason, is_list, is_epochs))

    def _accumulate(self, call: cst.Call) -> None:
        """`step.assign_add(1)`, where the library knows the method."""
        accumulated = self._library.accumulates(self._values, call)
        if accumulated is None or not isinstance(call.func, cst.Attribute):
            return
        operator, operand = accumulated
        receiver = call.func.value
        value = self.scale(receiver).value
        itself = lambda node: self._recurrences.is_same(node, receiver)  # noqa: E731
        goes_round = False
        if operator == "=":
            added = self._recurrences.within_bounds(operand, receiver)
            goes_round = added is not operand
            recurrence = self._recurrences.made_of(added, itself)
        else:
            weights = step_of_average(operand, operator, itself)
            recurrence = Recurrence("~" if weights else operator, operand, weights)
        # Of `x.assign(x + c)` nothing is known of c's unit; of a factor or weights, that they are constants; of `(x + c) % n`,
        # that it counts.
        if recurrence is not None and (
            operator != "=" or goes_round or recurrence.operator in "*~"
        ):
            self._recur(call, value, recurrence, ())
        else:
            self._flow(value, self.scale(operand).value, call)
            self._carry(State(receiver), call, operand)
        often = self.frequencies.of(call)
        name = self._module.text(receiver)
        self.found.assignments.append(Assignment(name, call, value, often))

    def is_external(self, node: cst.BaseExpression) -> bool:
        """Whether a number comes from outside the program, as text perhaps: `int(sys.argv[1])`."""
        if isinstance(node, cst.Call) and self.qualified(node) in CONVERTING and node.args:
            return self.is_external(node.args[0].value)
        return self._library.is_external(self._values, node)

    def _length_of(self, iterable: cst.BaseExpression) -> Exponent:
        scale = self.scale(iterable)
        if scale.length is None:
            scale = replace(scale, length=self.count(iterable))
            self._known[iterable] = scale
        assert scale.length is not None
        return scale.length

    def count(self, iterable: cst.BaseExpression) -> Exponent:
        unknown = Unknown(iterable, "length")
        loop = self._module.enclosing(iterable, (cst.For, cst.CompFor, cst.BaseStatement))
        self.found.counts.append((unknown, self.frequencies.trains_in(loop)))
        return exponent_of(unknown)

    # Positions

    def _statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """The statement of an expression; of a loop's own variable, a node in its body."""
        statement = self._module.enclosing(node, (cst.BaseSmallStatement, cst.BaseStatement))
        loop = self._module.enclosing(node, (cst.CompFor, cst.For, cst.BaseStatement))
        if isinstance(loop, cst.For):
            return loop.body.body[0] if loop.body.body else loop
        return statement or node

    def _line(self, node: cst.CSTNode) -> int:
        return self._module.line(self._module.span(node).start)


def _key(scale: Scale) -> object:
    return (
        scale.value.constant,
        frozenset(scale.value.terms.items()),
        id(scale.element),
        scale.length is None,
    )


def _without_sign(node: cst.BaseExpression) -> cst.BaseExpression:
    match node:
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return inner
    return node


def _is_string_literal(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.SimpleString | cst.FormattedString | cst.ConcatenatedString)


def _has_key(entry: cst.Subscript, key: str) -> bool:
    return any(
        isinstance(e.slice, cst.Index)
        and (is_text(e.slice.value, key) or str(number_of(e.slice.value)) == key)
        for e in entry.slice
    )
