"""Gradients: the calls that ask a tape for them, and where their results flow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ...analysis.flow import Source
from ...analysis.index import ELEMENT, Path
from ...analysis.library import Kind, Value
from ...analysis.syntax import argument, method
from ...analysis.tree import children_of
from ...analysis.values import MAX_PATH, MAX_STEPS, ValueAnalysis
from .roles import Role

GRADIENT_METHODS = frozenset({"gradient"})
#: What a model has lists of its variables under.
VARIABLE_LISTS = frozenset({"trainable_variables", "trainable_weights", "variables", "weights"})

#: Methods that give what their array holds, in another form.
_ARRAY_METHODS = frozenset(
    "numpy astype copy clip reshape flatten ravel squeeze transpose mean sum round".split()
)


class Gradients:
    """The gradients that one module takes."""

    def __init__(self, values: ValueAnalysis) -> None:
        self._values = values

    def is_gradient(self, node: cst.CSTNode) -> bool:
        """Whether an expression is `tape.gradient(…)` of a tape or of an unknown object."""
        match node:
            case cst.Call(func=cst.Attribute(value=tape)) if method(node) in GRADIENT_METHODS:
                kinds = self._values.kinds(tape)
                return bool(kinds & {Role.TAPE, Kind.UNKNOWN}) or not kinds
        return False

    @cached_property
    def sources(self) -> frozenset[Value]:
        """The variables created in this module for which gradients are taken."""
        found: set[Value] = set()
        for call in self._values.index.calls:
            arg = argument(call, "sources", 1) if method(call) in GRADIENT_METHODS else None
            if arg is not None:
                found |= self._values.of(arg.value) | self._values.of(arg.value, (ELEMENT,))
        return frozenset(v for v in found if v.kind is Role.VARIABLE)

    @cached_property
    def are_taken_for_weights(self) -> bool:
        """Whether the program takes gradients for variables, its own or a model's."""
        taken = (
            argument(call, "sources", 1)
            for call in self._values.index.calls
            if self.is_gradient(call)
        )
        return any(
            arg is not None and (self.is_weight(arg.value) or self.is_weight(arg.value, (ELEMENT,)))
            for arg in taken
        )

    def is_weight(self, variable: cst.CSTNode, path: Path = ()) -> bool:
        """Whether an expression is one of a model's variables, or one for which a gradient is taken."""
        pending: list[Source] = [(variable, path)]  # type: ignore[list-item]
        seen: set[tuple[cst.CSTNode, Path]] = set()
        while pending and len(seen) < MAX_STEPS:
            node, part = pending.pop()
            if (node, part) in seen or len(part) > MAX_PATH:
                continue
            seen.add((node, part))
            if part and isinstance(node, cst.Attribute) and node.attr.value in VARIABLE_LISTS:
                return True
            pending.extend(self._values.flow.predecessors(node, part))
        return not self.sources.isdisjoint(self._values.of(variable, path))

    def flowing_into(
        self,
        node: cst.CSTNode,
        path: Path = (),
        seen: set[tuple[cst.CSTNode, Path]] | None = None,
    ) -> Iterator[cst.Call]:
        """Yield the `gradient(…)` calls whose results flow into the part `path` of an expression. Their arguments are not
        searched.
        """
        seen = set() if seen is None else seen
        if (node, path) in seen or len(path) > MAX_PATH:
            return
        seen.add((node, path))
        if isinstance(node, cst.Call) and self.is_gradient(node):
            yield node
            return
        sources = self._values.flow.predecessors(node, path)
        for source, part in sources:
            yield from self.flowing_into(source, part, seen)
        if sources:
            return
        if isinstance(node, cst.Call):
            if not any(v.kind is Kind.FUNCTION for v in self._values.of(node.func)):
                if method(node) in _ARRAY_METHODS and isinstance(node.func, cst.Attribute):
                    yield from self.flowing_into(node.func.value, (), seen)
                for arg in node.args:  # a library computes it from them, or from their elements
                    yield from self.flowing_into(arg.value, (), seen)
                    yield from self.flowing_into(arg.value, (ELEMENT,), seen)
        elif not isinstance(node, (cst.Name, cst.Attribute)):
            for child in children_of(node):
                yield from self.flowing_into(child, (), seen)
