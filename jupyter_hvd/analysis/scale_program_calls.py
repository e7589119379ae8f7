"""How the results of calls scale: of Python's functions, of libraries', and of user-defined functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from .exponents import ONE, ZERO, Equation, Exponent, Unknown, exponent_of
from .flow import is_iteration
from .index import FILLING
from .library import Kind
from .scale_builtins import BUILTINS, OPERATORS
from .scale_calls import apply_signature
from .scale_containers import Containers
from .scale_findings import Opaque, Scale, number_of, unknown_scale
from .scale_state import StateUpdates
from .scale_walk import ScaleWalk
from .syntax import Function, is_string_literal, list_parameters, method
from .tree import children_of, nodes_in

#: The reason of an equation that only hands an argument on.
PASSES = "passes it"


class ProgramCalls:
    """The calls of one module, and the parameters that they pass."""

    def __init__(self, walk: ScaleWalk, state: StateUpdates, containers: Containers) -> None:
        self._walk, self._state, self._containers = walk, state, containers
        self._values, self._module, self._index = walk.values, walk.values.module, walk.values.index
        self._returned: dict[Function, Scale] = {}
        self._given: dict[cst.Param, Scale] = {}

    def scale_call(self, call: cst.Call) -> Scale:
        """Return how the result of a call scales: of a built-in, a library's or a user-defined function."""
        self._state.note_accumulation(call)
        name = self._walk.qualified(call)
        if self._containers.find_limit(call) is not None:
            return unknown_scale(call)
        special = BUILTINS.get("builtins.range" if self._walk.library.is_range(name) else name)
        special = special or OPERATORS.get(self._walk.library.operator_of(name))
        if special is not None:
            return special(self._walk, call)
        if is_iteration(name) and call.args:
            return self._walk.scale(call.args[0].value)
        if (handed_on := self._values.flow.find_returned_argument(call)) is not None:
            return self._walk.scale(handed_on)
        known = self._walk.library.called(self._values, call)
        if known is not None:
            return apply_signature(self._walk, call, known)
        if (
            isinstance(call.func, cst.Attribute)
            and (held := self._walk.scale(call.func.value)).values
        ):
            return self._containers.scale_dictionary_method(held, call) or unknown_scale(call)
        if (filled := self._containers.scale_filled_dictionary(call)) is not None:
            return filled
        direct = self._values.calls.unwrap_call(call)
        functions = [
            value.node
            for value in self._values.of(direct.func)
            if value.kind is Kind.FUNCTION and isinstance(value.node, Function)
        ]
        functions = functions or list(self._called_methods(direct))
        if functions:
            return self._walk.join([self._scale_function(f, call) for f in functions], call)
        if (owner := self._instantiated_class(call)) is not None:
            return self._scale_instance(owner, call)
        return self.scale_opaque_call(call)

    def _called_methods(self, call: cst.Call) -> Iterator[Function]:
        """Yield the `__call__` of the program's objects that a call calls."""
        for value in self._values.of(call.func):
            if value.kind is not Kind.CLASS and isinstance(value.node, cst.ClassDef):
                yield from self._values.classes.methods(value.node, "__call__")

    def _instantiated_class(self, call: cst.Call) -> cst.ClassDef | None:
        """Return the class of the program that a call creates an instance of; None for other calls."""
        classes = (v.node for v in self._values.of(call.func) if v.kind is Kind.CLASS)
        return next((node for node in classes if isinstance(node, cst.ClassDef)), None)

    def _scale_instance(self, owner: cst.ClassDef, call: cst.Call) -> Scale:
        """Return how an instance scales: its length as often as `__iter__` yields, or as `__len__` says."""
        for argument_ in call.args:
            self._walk.scale(argument_.value)
        made = unknown_scale(call)
        methods = self._values.classes.methods
        if (iterated := next(methods(owner, "__iter__"), None)) in self._index.generators:
            assert isinstance(iterated, cst.FunctionDef)
            given = self._scale_function(iterated, call)
            return replace(made, length=given.length, element=given.element)
        counted = next(methods(owner, "__len__"), None)
        if counted is not None and (returned := self._index.returns[counted]):
            return replace(
                made, length=self._walk.join([*map(self._walk.scale, returned)], counted).value
            )
        return made

    def _scale_function(self, function: Function, call: cst.Call) -> Scale:
        """Return how the result of a user-defined function scales, by its `return` or `yield` statements."""
        if function in self._index.generators:
            length, elements = ZERO, []
            for statement in self._iterate_yields(function):
                length = self._walk.frequencies.of(statement, inside=function)
                if isinstance(statement.value, cst.BaseExpression):
                    elements.append(self._walk.scale(statement.value))
            element = self._walk.join(elements, function) if elements else None
            return Scale(ZERO, length, element)
        returned = self._index.returns[function]
        if not returned:
            return unknown_scale(call)
        found = self._returned.get(function)
        if found is None:
            self._returned[function] = unknown_scale(function)
            found = self._walk.join([self._walk.scale(value) for value in returned], function)
            self._returned[function] = found
        return found

    def note_draws(self, generator: cst.CSTNode, often: Exponent) -> None:
        """Record that a generator yields as often as `next` is called with it."""
        for statement in self._iterate_yields(generator):
            yields = self._walk.frequencies.of(statement, inside=generator)
            self._walk.found.flows.append(Equation(yields, often, statement, "is drawn from"))

    def _iterate_yields(self, function: cst.CSTNode) -> Iterator[cst.Yield]:
        """Yield the `yield` expressions of a function, without those of functions in it."""
        for child in children_of(function):
            if isinstance(child, cst.Yield):
                yield child
            elif not isinstance(child, Function):
                yield from self._iterate_yields(child)

    def scale_opaque_call(self, call: cst.Call) -> Scale:
        """Return how the result of an unknown function scales: if its arguments do not depend on N, neither does the result."""
        if self._walk.is_external(call):
            return self._walk.scale_unknown_source(call)
        args = [self._walk.scale(arg.value) for arg in call.args]
        if method(call) in FILLING or self._values.records.is_record(call):
            return unknown_scale(call)
        if isinstance(call.func, cst.Attribute) and is_string_literal(call.func.value):
            return unknown_scale(call)  # a text, `"step {}".format(step)`
        if isinstance(call.func, cst.Attribute):
            args.append(self._walk.scale(call.func.value))
        unknown = Unknown(call)
        opaque = Opaque(
            call,
            unknown,
            tuple(a.value for a in args),
            tuple(a.length for a in args if a.length is not None),
            tuple(self._walk.scale(n).value for a in call.args for n in self._whole_numbers(a)),
        )
        self._walk.found.opaque.append(opaque)
        rows = (a for a in args if a.element is None or a.element.length is None)
        length = next((a.length for a in rows if a.length is not None), None)
        return Scale(exponent_of(unknown), length)

    def _whole_numbers(self, argument_: cst.Arg) -> Iterator[cst.BaseExpression]:
        """Yield the whole numbers above 1, written or named, in an argument."""
        for node in nodes_in(argument_.value):
            if isinstance(node, cst.Integer | cst.Name | cst.Attribute):
                numbers = [number_of(each) for each in self._literals(node)]
                if numbers and all(isinstance(n, int) and n > 1 for n in numbers):
                    yield node

    def _literals(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """Return the literals that an expression may be; [] if it may be anything else."""
        made = [value.node for value in self._values.of(node)]
        return [n for n in made if isinstance(n, cst.BaseNumber)] if None not in made else []

    def scale_opaque_operator(
        self, node: cst.BaseExpression, *operands: cst.BaseExpression
    ) -> Exponent:
        """Return the exponent of the result of an unknown operator."""
        unknown = Unknown(node)
        given = tuple(self._walk.scale(operand).value for operand in operands)
        self._walk.found.opaque.append(Opaque(node, unknown, given))
        return exponent_of(unknown)

    def scale_parameter(self, param: cst.Param) -> Scale:
        """Return how a parameter scales: by the arguments of calls, or by the library that calls the function."""
        found = self._given.get(param)
        if found is not None:
            return found
        value = exponent_of(Unknown(param, "parameter"))
        self._given[param] = found = Scale(value)
        function = self._module.owner(param)
        if function is None:
            return found
        entry = self._walk.frequencies.entry_point(function)
        names = list_parameters(function)
        own = isinstance(function, cst.FunctionDef) and self._module.class_of(function) is not None
        place = names.index(param) - own if param in names else -1
        if entry is not None and 0 <= place < len(entry.parameters):
            given = entry.parameters[place]
            if given is not None:
                self._walk.found.facts.append(Equation(value, Exponent(given), param, entry.reason))
        if entry is not None and entry.takes_batch and place == 0:
            self._given[param] = found = Scale(value, ONE, is_record=True)
            return found
        if self._is_asked(function):
            self._walk.found.asked.update(value.terms)
        passed = self._find_arguments(function, param)
        sized: list[Scale] = []
        for argument_ in passed:
            scale = self._walk.scale(argument_)
            self._walk.note_flow(value, scale.value, argument_, PASSES)
            sized += [scale] if scale.length is not None or scale.items else []
        if sized:
            lengths = {each.length.key for each in sized if each.length is not None}
            length = sized[0].length
            if len(lengths) > 1 or len(sized) < len(passed):  # rows of a batch, and others
                unknown = Unknown(param, "length")
                self._walk.found.counts.append((unknown, len(lengths) < 2))
                length = exponent_of(unknown)
            self._given[param] = found = replace(sized[0], value=value, length=length)
        return found

    def _is_asked(self, function: Function) -> bool:
        """Whether a function makes an object that is asked for the steps of one process, as a schedule is."""
        owner = self._module.class_of(function)
        if owner is None or not isinstance(function, cst.FunctionDef):
            return False
        if function.name.value != "__init__":
            return False
        called = next(self._values.classes.methods(owner, "__call__"), None)
        entry = self._walk.frequencies.entry_point(called) if called is not None else None
        return entry is not None and entry.frequency is None

    def _find_arguments(self, function: Function, param: cst.Param) -> list[cst.BaseExpression]:
        """The arguments for a parameter; if training runs in the function, only of calls that train."""
        found = self._values.calls.actual_arguments(function, param)
        trained = [value for call, value in found if self._walk.frequencies.trains_at(call)]
        given = trained or [value for _, value in found]
        return [*given, *([param.default] if param.default is not None else [])]
