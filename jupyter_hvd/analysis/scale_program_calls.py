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
from .scale_findings import Opaque, Scale, unknown_scale
from .scale_state import StateUpdates
from .scale_walk import Walk
from .syntax import Function, method, parameters
from .tree import children_of

#: The reason of an equation that only hands an argument on.
PASSES = "passes it"


class ProgramCalls:
    """The calls of one module, and the parameters that they pass."""

    def __init__(self, walk: Walk, state: StateUpdates, containers: Containers) -> None:
        self._walk, self._state, self._containers = walk, state, containers
        self._values, self._module, self._index = walk.values, walk.values.module, walk.values.index
        self._returned: dict[Function, Scale] = {}
        self._given: dict[cst.Param, Scale] = {}

    def of_call(self, call: cst.Call) -> Scale:
        self._state.accumulate(call)
        name = self._walk.qualified(call)
        if self._containers.limit(call) is not None:
            return unknown_scale(call)
        special = BUILTINS.get("builtins.range" if self._walk.library.is_range(name) else name)
        special = special or OPERATORS.get(self._walk.library.operator_of(name))
        if special is not None:
            return special(self._walk, call)
        if is_iteration(name) and call.args:
            return self._walk.scale(call.args[0].value)
        if (handed_on := self._values.flow.handed_on(call)) is not None:
            return self._walk.scale(handed_on)
        known = self._walk.library.called(self._values, call)
        if known is not None:
            return apply_signature(self._walk, call, known)
        if (
            isinstance(call.func, cst.Attribute)
            and (held := self._walk.scale(call.func.value)).values
        ):
            return self._containers.of_dictionary_method(held, call) or unknown_scale(call)
        if (filled := self._containers.of_filled(call)) is not None:
            return filled
        direct = self._values.calls.direct(call)
        functions = [
            value.node
            for value in self._values.of(direct.func)
            if value.kind is Kind.FUNCTION and isinstance(value.node, Function)
        ]
        if functions:
            return self._walk.join([self._called(f, call) for f in functions], call)
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
            self._walk.scale(argument_.value)
        made = unknown_scale(call)
        methods = self._values.classes.methods
        if (iterated := next(methods(owner, "__iter__"), None)) in self._index.generators:
            assert isinstance(iterated, cst.FunctionDef)
            given = self._called(iterated, call)
            return replace(made, length=given.length, element=given.element)
        counted = next(methods(owner, "__len__"), None)
        if counted is not None and (returned := self._index.returns[counted]):
            return replace(
                made, length=self._walk.join([*map(self._walk.scale, returned)], counted).value
            )
        return made

    def _called(self, function: Function, call: cst.Call) -> Scale:
        if function in self._index.generators:
            length, element = ZERO, None
            for statement in self._yields(function):
                length = self._walk.frequencies.of(statement, inside=function)
                if isinstance(statement.value, cst.BaseExpression):
                    element = self._walk.scale(statement.value)
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

    def _yields(self, function: cst.CSTNode) -> Iterator[cst.Yield]:
        for child in children_of(function):
            if isinstance(child, cst.Yield):
                yield child
            elif not isinstance(child, Function):
                yield from self._yields(child)

    def opaque(self, call: cst.Call) -> Scale:
        """The result of an unknown function: if its arguments do not depend on the number of ranks, neither does the result."""
        if self._walk.is_external(call):
            return self._walk.outside(call)
        args = [self._walk.scale(arg.value) for arg in call.args]
        if method(call) in FILLING or self._values.records.is_record(call):
            return unknown_scale(call)
        if isinstance(call.func, cst.Attribute):
            args.append(self._walk.scale(call.func.value))
        unknown = Unknown(call)
        self._walk.found.opaque.append(Opaque(call, unknown, tuple(a.value for a in args)))
        rows = (a for a in args if a.element is None or a.element.length is None)
        length = next((a.length for a in rows if a.length is not None), None)
        return Scale(exponent_of(unknown), length)

    def unseen(self, node: cst.BaseExpression, *operands: cst.BaseExpression) -> Exponent:
        """The exponent of what an unknown operator gives."""
        unknown = Unknown(node)
        given = tuple(self._walk.scale(operand).value for operand in operands)
        self._walk.found.opaque.append(Opaque(node, unknown, given))
        return exponent_of(unknown)

    def of_parameter(self, param: cst.Param) -> Scale:
        found = self._given.get(param)
        if found is not None:
            return found
        value = exponent_of(Unknown(param, "parameter"))
        self._given[param] = found = Scale(value)
        function = self._module.owner(param)
        if function is None:
            return found
        entry = self._walk.frequencies.entry_point(function)
        names = parameters(function)
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
        passed = self._passed(function, param)
        sized: list[Scale] = []
        for argument_ in passed:
            scale = self._walk.scale(argument_)
            self._walk.flow(value, scale.value, argument_, PASSES)
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

    def _passed(self, function: Function, param: cst.Param) -> list[cst.BaseExpression]:
        """The arguments for a parameter; if training runs in the function, only of calls that train."""
        found = self._values.calls.actual_arguments(function, param)
        trained = [value for call, value in found if self._walk.frequencies.trains_at(call)]
        given = trained or [value for _, value in found]
        return [*given, *([param.default] if param.default is not None else [])]
