"""Numbers that a step makes of what the step before has left: `eps *= 0.995`, `self.beta = min(1, self.beta + 0.001)`.

N ranks take an N-th of the steps, so in the same data such a number comes only an N-th of its way, whatever it is used for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ...analysis.index import Binding
from ...analysis.reach import tests_around
from ...analysis.syntax import nodes_in
from ...analysis.uniformity import is_uniform
from .stops import Stops

#: What a number is kept in: a name, an attribute, an entry of a dictionary.
_KEEPING = (cst.Name, cst.Attribute, cst.Subscript)


class Recurring:
    """The numbers of one module that go by how many steps were taken, and not by what these have seen."""

    def __init__(self, stops: Stops) -> None:
        self._stops, self._values, self._module = stops, stops.values, stops.module

    @cached_property
    def places(self) -> list[cst.BaseExpression]:
        """Where such numbers are set, but for those that `Stops` knows as counts of steps."""
        return [
            place
            for place in self._targets()
            if self._is_made_of_itself(place)
            and not self._stops.counts(place)
            and self._stops.is_in_turns(place)
            and not self._is_once_a_pass(place)
            and not self._is_begun_anew(place)
        ]

    def read_in(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The places that set what a node reads."""
        if isinstance(node, _KEEPING):
            yield from (place for place in self.places if self._is_same(place, node))

    def _targets(self) -> Iterator[cst.BaseExpression]:
        """What the program's own assignments set: names, attributes, entries of containers that have names."""
        index = self._values.index
        yield from (target for target in index.bound if isinstance(target, cst.Name))
        for bindings in index.attribute_bindings.values():
            yield from (b.place for b in bindings if isinstance(b.place, cst.Attribute))
        for container in (name for stored in index.stored.values() for name, *_ in stored):
            entry = self._module.parent(container)
            if isinstance(entry, cst.Subscript):
                yield entry

    def _is_made_of_itself(self, place: cst.BaseExpression) -> bool:
        """Whether a place is set to what is made of its own number, and beside that of what is the same at all steps."""
        match self._module.enclosing(place, cst.BaseSmallStatement):
            case cst.AugAssign(target=target, value=cst.BaseExpression() as value):
                return target is place and self._is_of_steps(value, place)
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                reads = target is place and self._reads(value, place)
                return reads and self._is_of_steps(value, place)
        return False

    def _is_of_steps(self, value: cst.BaseExpression, place: cst.BaseExpression) -> bool:
        """Whether nothing but a place's own number and what all ranks have alike is in a value."""
        parts: list[cst.CSTNode] = [value]
        while parts:
            part = parts.pop()
            if isinstance(part, _KEEPING) and self._is_same(place, part):
                continue
            if isinstance(part, cst.Name | cst.Attribute):
                if not is_uniform(self._values, part):
                    return False
            elif isinstance(part, cst.Arg):
                parts.append(part.value)  # and not its keyword
            else:
                parts += self._module.children(part)
        return True

    def _reads(self, expression: cst.CSTNode, place: cst.BaseExpression) -> bool:
        return any(self._is_same(place, node) for node in nodes_in(expression))

    def _is_same(self, place: cst.BaseExpression, node: cst.CSTNode) -> bool:
        """Whether a node means what a place sets."""
        identity = self._values.definitions.identity
        match place, node:
            case cst.Name(), cst.Name():
                return place is node or identity(place) == identity(node)
            case cst.Attribute(attr=cst.Name(value=name)), cst.Attribute(
                attr=cst.Name(value=other)
            ) if name == other:
                return any(b.place is place for b in self._values.flow.bindings_of(node))
            case cst.Subscript(value=container), cst.Subscript(value=other):
                same = identity(container) == identity(other)
                return same and self._module.text(place) == self._module.text(node)
        return False

    def _is_once_a_pass(self, place: cst.BaseExpression) -> bool:
        """Whether a place is set at one batch of each pass over the data, `if i == 0:`, and so as often on N ranks."""
        return any(map(self._stops.is_once_a_pass, tests_around(self._values, place)))

    def _is_begun_anew(self, place: cst.BaseExpression) -> bool:
        """Whether the number begins anew in the turns: what is set there to something else is a batch, or the state of a game."""
        others = [other for other in self._others(place) if self._stops.is_in_turns(other)]
        if isinstance(place, cst.Name) and not self._outlives_turn(place):
            return True
        return not all(self._is_made_of_itself(o) or self._is_bound_by(place, o) for o in others)

    def _others(self, place: cst.BaseExpression) -> list[cst.BaseExpression]:
        """Where else the number is set."""
        return [
            other
            for other in self._targets()
            if other is not place and (self._is_same(place, other) or self._is_same(other, place))
        ]

    def _is_bound_by(self, place: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether the number is kept within a bound there: `if eps < 0.1: eps = 0.1`."""
        return any(self._reads(test, place) for test in tests_around(self._values, other))

    def _outlives_turn(self, name: cst.Name) -> bool:
        """Whether a name is there in the next turn: it is no parameter, and no name of a function that a turn calls."""
        bound = self._values.definitions.of(name)
        if not all(isinstance(b, Binding) for b in bound):
            return False
        here = self._module.function_of(name)
        if self._stops.turn_around(name) is not None:
            return True
        places = (b.place for b in bound if isinstance(b, Binding) and b.place is not None)
        return any(self._module.function_of(each) is not here for each in places)
