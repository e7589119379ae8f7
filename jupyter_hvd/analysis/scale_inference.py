"""How the expressions of a module scale with the number of ranks: their exponents, and the equations between these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import libcst as cst

from .definitions import Definition
from .exponents import ONE, ZERO, Equation, Exponent, Unknown, exponent_of
from .flow import is_property
from .index import ELEMENT, Binding, Path, bound_expression
from .scale_calls import scale_by_signature
from .scale_carried import State
from .scale_constants import Constants
from .scale_containers import Containers
from .scale_findings import (
    Agreeing,
    Assignment,
    Constant,
    Findings,
    Opaque,
    Rank,
    RowsOfSteps,
    Scale,
    Sink,
    is_constant,
    number_of,
    unknown_scale,
)
from .scale_frequencies import Frequencies
from .scale_operators import Operators
from .scale_program_calls import ProgramCalls
from .scale_recurrences import CONVERTING, Recurrences
from .scale_signatures import EditedExponents, ScaleLibrary
from .scale_state import StateUpdates
from .syntax import text_key
from .values import ValueAnalysis
from .whole_numbers import WholeNumbers

#: The reason of an equation that only says what sets a variable.
SETS = "sets it"
#: The label of the length of a list without elements, to which any may be added.
EMPTY = "empty"
#: How many definitions of one name are followed.
MAX_DEFINITIONS = 40
#: What scales by its operands.
_SCALED = frozenset({cst.Comparison, cst.BinaryOperation, cst.Call, cst.Subscript, cst.NamedExpr})


class ScaleInference:
    """The exponents of one module's expressions, as terms over unknowns."""

    def __init__(self, values: ValueAnalysis, library: ScaleLibrary) -> None:
        self.values, self.library = values, library
        self._module, self._index = values.module, values.index
        self._known: dict[cst.CSTNode, Scale] = {}
        self._bound: dict[int, Scale] = {}
        self._kept: list[object] = []  # bindings and items whose identity is remembered
        self._any: dict[int, Scale] = {}
        self._options: dict[str, Unknown] = {}
        self._joined: dict[frozenset[int], Scale] = {}
        self.edited = library.edited(values)
        self._repeated_sizes = library.repeated_sizes(values)
        self._reached: dict[cst.Name, list[Definition]] = {}
        self._outside: dict[tuple[object, str], Scale] = {}
        self.whole = WholeNumbers(values, library, self.reaching)
        self.recurrences = Recurrences(values, self.reaching)
        self.constants = Constants(values)
        self.found = Findings()
        self.frequencies = Frequencies(
            values, library, self._length_of, lambda e: self.scale(e).value, self.whole.is_whole
        )
        self._state = StateUpdates(self)
        self._containers = Containers(self, self._state)
        self._operators = Operators(self, self._state, self._containers)
        self._calls = ProgramCalls(self, self._state, self._containers)

    def collect(self) -> Findings:
        """Walk over the module, and return all equations and other findings."""
        found = self.found
        for iterable in self.library.fixed_loops(self.values):
            if isinstance(iterable, cst.BaseExpression):
                found.facts.append(Equation(self._length_of(iterable), ZERO, iterable))
        uncounted = list(self.frequencies.uncounted_loops())
        found.facts += uncounted
        found.uncounted += [equation.place for equation in uncounted]
        found.demands += self.frequencies.training_facts()
        for step in self.frequencies.demands:
            found.loops.append((step, self.frequencies.loops_around(step)))
        self._visit_module()
        self._containers.note_cuts()
        for length in self.library.lengths_of_epochs(self.values):
            self.note_sink(length, -ONE, "counts the steps of an epoch by it")
        found.sinks = [sink for sink in found.sinks if not self._state.corrects_moment(sink)]
        found.flows[:0] = self.frequencies.facts
        found.calls += self.frequencies.calls
        found.constants.sort(key=lambda constant: self._module.span(constant.node).start)
        found.counts += self.frequencies.counts
        return found

    def _visit_module(self) -> None:
        """Visit all assignments and operations, in the order of the text."""
        bound = dict(self._index.bound)
        for bindings in self._index.attribute_bindings.values():
            bound.update((b.place, b) for b in bindings if b.place is not None)
        places = [n for n in self._module.nodes() if type(n) in _SCALED or n in bound]
        span = self._module.span
        for node in sorted(places, key=lambda n: (span(n).start, -span(n).end)):
            if type(node) in _SCALED and isinstance(node, cst.BaseExpression):
                self.scale(node)
            if (binding := bound.get(node)) is not None and isinstance(node, cst.BaseExpression):
                self._note_assignment(node, binding)
        for node in places:
            if isinstance(node, cst.BinaryOperation):
                self._state.note_feedback(node)
        for node, binding in bound.items():
            if isinstance(node, cst.BaseExpression):
                self._state.note_carried(State(node, binding), node, binding.value, binding.path)
        for record, key, value in self.values.records.updates:
            self._state.note_carried(State(value, record=record, key=key), value, value)
        for stored in self._index.stored.values():
            for target, value, path in stored:
                self._state.note_carried(State(target), target, value, path)

    def _note_assignment(self, place: cst.BaseExpression, binding: Binding) -> None:
        """Record an assignment, and what a library expects of an attribute that is set."""
        scale = self.of_binding(binding)
        statement = self.statement(place)
        often = self.frequencies.of(statement)
        name = self._module.text(place)
        self.found.assignments.append(Assignment(name, place, scale.value, often))
        if isinstance(place, cst.Attribute) and not binding.path and not binding.adds:
            expected = self.library.attribute(self.values, place)
            if expected is not None and expected.result is not None:
                self.note_sink(binding.value, expected.result.at({}), f"`{name}` takes it")

    def scale(self, node: cst.BaseExpression) -> Scale:
        """Return how an expression scales; computed once."""
        found = self._known.get(node)
        if found is None:
            self._known[node] = unknown_scale(node)  # for what depends on itself
            found = self._compute_scale(node)
            if (edited := self.edited.get(node)) is not None:
                found = self._apply_edit(edited, found, node)
            self._known[node] = found
        return found

    def _apply_edit(self, edited: EditedExponents, scale: Scale, node: cst.BaseExpression) -> Scale:
        """Return how an expression scales after another edit, such as of a batch size. Before it, a constant or unknown is the
        same for all N.
        """
        is_unseen = bool(self.found.opaque) and self.found.opaque[-1].node is node
        stays = edited == EditedExponents()
        if stays or is_constant(node) or is_unseen or self.is_external(node):
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
        """Whether another edit changes a number in an expression: the batch size in `2000 // 40`."""
        return isinstance(node, cst.BinaryOperation) and any(
            operand in self.edited or self._has_edited_operand(operand)
            for operand in (node.left, node.right)
        )

    def _compute_scale(self, node: cst.BaseExpression) -> Scale:
        """Return how an expression scales, by its kind, without the cache and edits."""
        is_signed = isinstance(node, cst.UnaryOperation)
        if is_constant(node) and not is_signed and not self._has_edited_operand(node):
            return self._scale_constant(node)
        match node:
            case cst.Name():
                return self._scale_name(node)
            case cst.Attribute():
                return self._scale_attribute(node)
            case cst.Call():
                return self._calls.scale_call(node)
            case cst.BinaryOperation():
                return self._operators.scale_operation(node)
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=inner):
                return self.scale(inner)
            case cst.Comparison(left=left, comparisons=targets):
                for target in targets:
                    self._operators.compare(node, left, target)
                    left = target.comparator
                sides = (self.scale(s) for s in (node.left, *(t.comparator for t in targets)))
                sized = next((s.length for s in sides if s.length is not None), None)
                return Scale(ZERO, sized)
            case cst.IfExp(body=one, orelse=other) | cst.BooleanOperation(left=one, right=other):
                return self.join([self.scale(one), self.scale(other)], node)
            case cst.NamedExpr(value=value) | cst.Await(expression=value):
                return self.scale(value)
            case (
                cst.Tuple(elements=elements)
                | cst.List(elements=elements)
                | cst.Set(elements=elements)
            ):
                items = tuple(self.scale(e.value) for e in elements)
                length = ZERO if items else exponent_of(Unknown(node, EMPTY))
                return Scale(exponent_of(Unknown(node)), length, None, items)
            case cst.Dict():
                return self._containers.scale_dictionary(node)
            case cst.BaseSimpleComp(elt=elt, for_in=loop):
                element = self.scale(elt)
                return Scale(element.value, self._length_of(loop.iter), element)
            case cst.DictComp(key=key, value=value, for_in=loop):
                element = self.scale(key)
                length = self._length_of(loop.iter)
                return Scale(element.value, length, element, values=(self.scale(value),))
            case cst.Subscript():
                return self._containers.scale_subscript(node)
        return unknown_scale(node)

    def _select_part(self, scale: Scale, path: Path) -> Scale | None:
        """Return how the part of a value that an assignment takes scales; None if unknown."""
        found: Scale | None = scale
        for step in path:
            if found is None:
                return None
            found = self.element(found) if step == ELEMENT else found.item(step)
        return found

    def element(self, sequence: Scale) -> Scale | None:
        """Return how any element of a sequence scales; of a literal, any of its items; None if unknown."""
        if sequence.element is not None:
            return sequence.element
        return self.any_of(sequence.items)

    def any_of(self, scales: tuple[Scale, ...]) -> Scale | None:
        """Return how a value scales that may be any of several; tuples are joined item by item."""
        if not scales:
            return None
        key = id(scales)
        if key not in self._any:
            self._kept.append(scales)
            found = self.join(scales, self._module.tree)
            counts = {len(scale.items) for scale in scales}
            if counts != {0} and len(counts) == 1:
                columns = zip(*(scale.items for scale in scales), strict=True)
                items = tuple(self.join(column, self._module.tree) for column in columns)
                found = replace(found, items=items)
            self._any[key] = found
        return self._any[key]

    def numbers(self, node: cst.BaseExpression) -> Scale:
        """Return how an expression scales; for a list, how each number in it scales."""
        return self._scale_of_numbers(self.scale(node))

    def _scale_of_numbers(self, scale: Scale) -> Scale:
        """Return a list's scale with the exponent of its numbers as its value."""
        element = self.element(scale) if scale.items and not scale.values else None
        if element is None:
            return scale
        element = self._scale_of_numbers(element)
        return replace(scale, value=element.value, element=element, items=())

    def _scale_constant(self, node: cst.BaseExpression) -> Scale:
        """Return how a literal scales. 0, and a 1 that shifts a count, may have any exponent, so they are not noted as
        constants.
        """
        unknown = Unknown(node)
        if number_of(node) != 0 and not self.constants.shifts_count(node):
            rank = Rank.SIZE if node in self._repeated_sizes else self.constants.rank(node)
            self.found.constants.append(Constant(node, unknown, rank))
        return Scale(exponent_of(unknown))

    def _scale_name(self, name: cst.Name) -> Scale:
        """Return how a name scales: by its definitions, or as a value from outside the program."""
        definitions = self.reaching(name)
        is_parameter = any(isinstance(each, cst.Param) for each in definitions)
        if is_parameter and self.is_external(name):
            return self.scale_unknown_source(name)
        return self.join_definitions(definitions, name)

    def reaching(self, name: cst.Name) -> list[Definition]:
        """Return the definitions that a name may hold; [] if it has too many to follow."""
        found = self._reached.get(name)
        if found is None:
            found = self.values.definitions.reaching(name) if self.has_few(name) else []
            self._reached[name] = found
        return found

    def has_few(self, name: cst.Name) -> bool:
        """Whether a name has few enough assignments to follow."""
        return len(self.values.definitions.assignments(name)) <= MAX_DEFINITIONS

    def join_definitions(self, definitions: Sequence[object], node: cst.CSTNode) -> Scale:
        """Return how a variable scales that one of some definitions sets."""
        if not definitions:
            return unknown_scale(node)
        key = frozenset(map(id, definitions))
        found = self._joined.get(key)
        if found is None:
            self._joined[key] = unknown_scale(node)
            scales = [self._scale_definition(each) for each in definitions]
            self._joined[key] = found = self.join(scales, node)
        return found

    def _scale_definition(self, definition: object) -> Scale:
        """Return how the value of a definition scales."""
        match definition:
            case Binding():
                return self.of_binding(definition)
            case cst.Param():
                return self._calls.scale_parameter(definition)
            case cst.CSTNode():
                return unknown_scale(definition)
        raise TypeError(definition)

    def join(self, scales: Sequence[Scale], node: cst.CSTNode) -> Scale:
        """Return how an expression scales that may be any of several; their exponents flow into one unknown."""
        distinct = list(dict.fromkeys(map(_scale_key, scales)))
        if len(distinct) == 1:
            return scales[0]
        unknown = Unknown(node, "joined")
        for scale in scales:
            self.note_flow(exponent_of(unknown), scale.value, node)
        sized = [s for s in scales if s.length is not None]
        filled = (s for s in sized if all(u.label != EMPTY for u in (s.length or ZERO).terms))
        longest = next(filled, sized[0] if sized else scales[0])
        return replace(longest, value=exponent_of(unknown))

    def note_flow(
        self, target: Exponent, source: Exponent, node: cst.CSTNode, reason: str = ""
    ) -> None:
        """Record that a value flows from one expression to another, so that their exponents are equal."""
        reason = reason or SETS
        self.found.flows.append(Equation(target, source, node, reason))

    def of_binding(self, binding: Binding) -> Scale:
        """Return how the value of a binding scales."""
        found = self._bound.get(id(binding))
        if found is None:
            self._kept.append(binding)
            place = binding.place or binding.value
            value = exponent_of(Unknown(place, "variable"))
            self._bound[id(binding)] = Scale(value)
            found = self._scale_binding(binding, place, value)
            self._bound[id(binding)] = found
        return found

    def _scale_binding(self, binding: Binding, place: cst.CSTNode, value: Exponent) -> Scale:
        """Return how the value of a binding scales, without the cache: a recurrence, or the bound part."""
        recurrence = self.recurrences.of(binding, place)
        if recurrence is not None:
            previous = self._state.previous(binding, place)
            if previous is not None:
                self.note_flow(value, previous.value, place)
            self._state.note_recurrence(
                place, value, recurrence, self._state.find_starts(binding, place)
            )
            return Scale(value)
        source = self._select_part(self.scale(binding.value), binding.path)
        if source is None:
            self.found.opaque.append(Opaque(place, next(iter(value.terms)), ()))
            return Scale(value)
        written = bound_expression(binding)
        if isinstance(written, cst.List) or (
            written and self._containers.find_limit(written) is not None
        ):
            source = self._containers.scale_filled_list(binding, place, source)
        elif isinstance(written, cst.Dict) and not written.elements:
            source = self._containers.scale_filled_mapping(place, source)
        self.note_flow(value, source.value, place)
        return replace(source, value=value)

    def _scale_attribute(self, node: cst.Attribute) -> Scale:
        """Return how an attribute scales: by the library, its bindings, its property, or as an unknown."""
        known = self.library.attribute(self.values, node)
        if known is not None:
            return scale_by_signature(self, known, {}, self.scale(node.value), node)
        bindings = self.values.attribute_bindings(node)
        if bindings and not self.values.overridden.is_overridden(node):
            return self.join_definitions(bindings, node)
        properties = [m for m in self.values.flow.methods(node) if is_property(m)]
        if returned := [v for m in properties for v in self._index.returns[m]]:
            return self.join([self.scale(value) for value in returned], node)
        if node.attr.value == "shape":
            length = self.scale(node.value).length
            rows = Scale(length) if length is not None else self.scale_unknown_source(node)
            return Scale(ZERO, items=(rows,))
        found = self.scale_unknown_source(node)
        return found if found.length else replace(found, length=self.scale(node.value).length)

    def scale_unknown_source(self, node: cst.BaseExpression) -> Scale:
        """Return how a number from outside the program scales; for an expression without any known source, an unknown."""
        unknown = self._option_unknown(node) or Unknown(node)
        is_external = self.is_external(node)
        if not is_external and (name := self.values.qualified(node)):  # such as `math.pi`
            is_infinite = name.rpartition(".")[2] in ("inf", "nan", "Inf", "infty")
            return Scale(exponent_of(unknown) if is_infinite else ZERO)
        if is_external:
            self.found.constants.append(Constant(node, unknown, Rank.NAMED))
            return Scale(exponent_of(unknown))
        key = self._attribute_key(node)
        if key is not None and key in self._outside:
            return self._outside[key]
        self.found.opaque.append(Opaque(node, unknown, ()))
        found = Scale(exponent_of(unknown))
        if key is not None:
            self._outside[key] = found
        return found

    def _option_unknown(self, node: cst.BaseExpression) -> Unknown | None:
        """Return the exponent of a program's option, one for all its reads: `args.steps`, `self.args.steps`; None for other
        expressions.
        """
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

    def _attribute_key(self, node: cst.BaseExpression) -> tuple[object, str] | None:
        """Return the key of an unknown attribute: its variable and its name; None for other expressions."""
        match node:
            case cst.Attribute(value=cst.Name() as owner) if owner.value != "self":
                identity = self.values.definitions.identity(owner)
                return (identity, node.attr.value) if identity is not None else None
        return None

    def note_draws(self, generator: cst.CSTNode, often: Exponent) -> None:
        """Record that a generator yields as often as `next` is called with it."""
        self._calls.note_draws(generator, often)

    def qualified(self, call: cst.Call) -> str:
        """Return the canonical name of the called function, or ''."""
        return self.values.qualified(call.func)

    def note_sink(
        self,
        node: cst.BaseExpression,
        expected: Exponent,
        reason: str,
        is_epochs: bool = False,
    ) -> None:
        """Record that a library takes a number, or a list of numbers, of this exponent."""
        is_list = bool(self.scale(node).items)
        actual = self.numbers(node).value
        self.found.sinks.append(Sink(node, actual, expected, reason, is_list, is_epochs))

    def is_external(self, node: cst.BaseExpression) -> bool:
        """Whether a number comes from outside the program, perhaps as text: `int(sys.argv[1])`."""
        if isinstance(node, cst.Call) and self.qualified(node) in CONVERTING and node.args:
            return self.is_external(node.args[0].value)
        return self.library.is_external(self.values, node)

    def _length_of(self, iterable: cst.BaseExpression) -> Exponent:
        """Return the exponent of an iterable's length; a new unknown if nothing determines it."""
        scale = self.scale(iterable)
        if scale.length is None:
            scale = replace(scale, length=self.new_length(iterable))
            self._known[iterable] = scale
        assert scale.length is not None
        return scale.length

    def new_length(self, iterable: cst.BaseExpression) -> Exponent:
        """Return a new unknown for the length of an iterable."""
        unknown = Unknown(iterable, "length")
        loop = self._module.enclosing(iterable, (cst.For, cst.CompFor, cst.BaseStatement))
        self.found.counts.append((unknown, self.frequencies.trains_in(loop)))
        return exponent_of(unknown)

    def note_size(self, node: cst.BaseExpression, count: Exponent) -> None:
        """Record a number that is written like a batch size and multiplied by a count."""
        if self.library.is_unscaled_size(self.values, node):
            rows = RowsOfSteps(node, self.scale(node).value, count)
            self.found.rows_of_steps.append(rows)

    def agree(
        self,
        kind: Agreeing,
        place: cst.BaseExpression,
        left: cst.BaseExpression,
        right: cst.BaseExpression,
    ) -> Exponent:
        """Return the exponent of the result of two operands that must have the same exponent."""
        return self._operators.agree(kind, place, left, right)

    def scale_opaque_call(self, call: cst.Call) -> Scale:
        """Return how the result of an unknown function scales."""
        return self._calls.scale_opaque_call(call)

    def scale_opaque_operator(
        self, node: cst.BaseExpression, *operands: cst.BaseExpression
    ) -> Exponent:
        """Return the exponent of the result of an unknown operator."""
        return self._calls.scale_opaque_operator(node, *operands)

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the statement of an expression; for a loop's variable, the first statement of the loop's body."""
        statement = self._module.enclosing(node, (cst.BaseSmallStatement, cst.BaseStatement))
        loop = self._module.enclosing(node, (cst.CompFor, cst.For, cst.BaseStatement))
        if isinstance(loop, cst.For):
            return loop.body.body[0] if loop.body.body else loop
        return statement or node

    def _line(self, node: cst.CSTNode) -> int:
        return self._module.line(self._module.span(node).start)


def _scale_key(scale: Scale) -> object:
    """Return a key by which `join` recognizes equal scales."""
    return (
        scale.value.constant,
        frozenset(scale.value.terms.items()),
        id(scale.element),
        scale.length is None,
    )
