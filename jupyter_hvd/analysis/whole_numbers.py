"""Finds the expressions whose values are integers, as counts are."""

from __future__ import annotations

import libcst as cst

from .index import ELEMENT, Binding, bound_expression
from .library import Kind
from .scale_findings import Reaching
from .scale_signatures import ScaleLibrary
from .syntax import method, text_key
from .values import ValueAnalysis

BOUNDS = ("builtins.max", "builtins.min")


class WholeNumbers:
    """Which expressions of one module are integers."""

    def __init__(self, values: ValueAnalysis, library: ScaleLibrary, reaching: Reaching) -> None:
        self._values, self._library, self._reaching = values, library, reaching
        self._whole: dict[cst.CSTNode, bool] = {}

    def is_whole(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is an integer, as counts are; computed once."""
        found = self._whole.get(node)
        if found is None:
            self._whole[node] = True  # for what depends on itself
            self._whole[node] = found = self._compute_is_whole(node)
        return found

    def _compute_is_whole(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is an integer, without the cache."""
        match node:
            case cst.Integer():
                return True
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                return all(self.is_whole(element.value) for element in elements)
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=inner):
                return self.is_whole(inner)
            case cst.BinaryOperation(
                left=left,
                operator=cst.Add()
                | cst.Subtract()
                | cst.Multiply()
                | cst.FloorDivide()
                | cst.Modulo(),
                right=right,
            ):
                return self.is_whole(left) and self.is_whole(right)
            case cst.IfExp(body=one, orelse=other) | cst.BooleanOperation(left=one, right=other):
                return self.is_whole(one) and self.is_whole(other)
            case cst.Name():
                definitions = self._reaching(node)
                return bool(definitions) and all(map(self._sets_whole, definitions))
            case cst.Attribute():
                if bindings := self._values.attribute_bindings(node):
                    return all(map(self._sets_whole, bindings))
                return self._library.is_whole(self._values, node)
            case cst.Call():
                return self._returns_whole(node)
            case cst.Subscript():
                key = text_key(node)
                entries = self._values.records.entries(node.value, key) if key is not None else ()
                if written := [entry.value for entry in entries]:
                    return all(map(self.is_whole, written))
                held = self._values.of(node)
                is_written = bool(held) and all(isinstance(v.node, cst.Integer) for v in held)
                return is_written or self._library.is_whole(self._values, node)
        return False

    def _sets_whole(self, definition: object) -> bool:
        """Whether a definition binds an integer."""
        match definition:
            case Binding() if (value := bound_expression(definition)) is not None:
                return self.is_whole(value)
            case Binding(value=cst.Call() as call, path=path):
                name = self._values.qualified(call.func)
                if path == (ELEMENT,):
                    return self._library.is_range(name)
                known = self._library.called(self._values, call)
                is_numbered = name == "builtins.enumerate" or (
                    known is not None and known.is_numbered
                )
                return is_numbered and path == (ELEMENT, 0)
            case cst.Param():
                function = self._values.module.owner(definition)
                entry = (
                    self._library.entry_point(self._values, function)
                    if function is not None
                    else None
                )
                if entry is not None:
                    return True
                passed = self._values.flow.find_arguments(definition)
                if definition.default is not None:
                    passed = [*passed, definition.default]
                return bool(passed) and all(map(self.is_whole, passed))
        return False

    def _returns_whole(self, call: cst.Call) -> bool:
        """Whether a call returns an integer."""
        name = self._values.qualified(call.func)
        if name in ("builtins.int", "builtins.len") or (
            name == "builtins.round" and len(call.args) == 1
        ):
            return True
        if (
            name in BOUNDS
            or name in ("builtins.abs", "builtins.sum")
            or self._library.is_range(name)
        ):
            return all(self.is_whole(arg.value) for arg in call.args)
        if self._library.is_whole(self._values, call):
            return True
        if (handed_on := self._values.flow.find_returned_argument(call)) is not None:
            return self.is_whole(handed_on)
        functions = [v.node for v in self._values.of(call.func) if v.kind is Kind.FUNCTION]
        returned = [r for f in functions if f is not None for r in self._values.index.returns[f]]
        if returned:
            return all(map(self.is_whole, returned))
        if isinstance(call.func, cst.Attribute) and method(call) in ("numpy", "item", "value"):
            return self.is_whole(call.func.value)
        return False
