"""States that are carried from batch to batch: `output, state = cell(x, state)`, where a turn takes what the one before has left.

One process goes through its batches one after the other, so that each row continues the same row of the batch before. A rank has
every N-th batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ...analysis.index import Binding
from ...analysis.syntax import argument, method
from .agreement import ASSIGNING
from .layers import is_layer
from .roles import Role
from .stops import Stops

#: What multiplies rows by weights, as a layer does.
_MULTIPLYING = frozenset(
    {"tensorflow.matmul", "tensorflow.linalg.matmul", "tensorflow.tensordot", "tensorflow.einsum"}
)


class Carried:
    """The states that the training steps of one module leave to the next."""

    def __init__(self, stops: Stops) -> None:
        self._stops, self._training = stops, stops.training
        self._values, self._module = stops.values, stops.module

    @cached_property
    def states(self) -> dict[cst.CSTNode, str]:
        """Where a step leaves to the next what a layer has made of what the step before has left; with its name."""
        return {
            place: self._module.text(name)
            for layer in self._behind_losses()
            for given in self._given(layer)
            for place, name in self._left_by(layer, given)
        }

    def _behind_losses(self) -> Iterator[cst.CSTNode]:
        """What the losses are computed from, in the `call` of the program's own layers too."""
        targets = (argument(call, "target", 0) for call in self._training.training_gradients)
        pending, seen = [arg.value for arg in targets if arg is not None], set[cst.CSTNode]()
        while pending:
            for node in self._values.flow.computed_from(pending.pop()):
                if node not in seen:
                    seen.add(node)
                    yield node
                    pending += self._answers(node) if isinstance(node, cst.Call) else ()

    def _answers(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """What a layer of the program's own answers a call."""
        owners = (value.node for value in self._values.of(call.func))
        for owner in owners:
            if isinstance(owner, cst.ClassDef):
                for function in self._values.classes.methods(owner, "call", "__call__"):
                    yield from self._values.index.returns[function]

    def _given(self, node: cst.CSTNode) -> list[cst.BaseExpression]:
        """What a layer, or a product with weights, is given; nothing of another node."""
        match node:
            case cst.BinaryOperation(operator=cst.MatrixMultiply(), left=left, right=right):
                return [left, right]
            case cst.Call(func=func, args=args):
                layers = any(is_layer(self._values, value) for value in self._values.of(func))
                if layers or self._values.qualified(func) in _MULTIPLYING:
                    return [arg.value for arg in args]
        return []

    def _left_by(
        self, layer: cst.CSTNode, given: cst.BaseExpression
    ) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        """Where earlier steps have left what a layer is given, if the layer has made that; with the name of it."""
        for read in self._values.flow.computed_from(given, self._is_another):
            for place, value in self._left(read):
                if layer in self._values.flow.computed_from(value, self._is_another):
                    yield place, read

    def _is_another(self, node: cst.CSTNode) -> bool:
        """Whether a node is no state of a layer's: a gradient, or what an environment answers, of which each rank has its own."""
        if self._training.gradients.is_gradient(node):
            return True
        match node:
            case cst.Call(func=cst.Attribute(value=asked, attr=cst.Name("reset" | "step"))):
                return "env" in self._module.text(asked).lower()
        return False

    def _left(self, read: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
        """Where the step before sets what is read here, and to what."""
        if self._training.agreement.is_weight(read):
            return
        match read:
            case cst.Name():
                bound = self._values.definitions.reaching(read)
                bindings = [b for b in bound if isinstance(b, Binding)]
            case cst.Attribute():
                bindings = self._values.flow.bindings_of(read)
                if any(self._begins_anew(b) for b in bindings):
                    return
            case _:
                return
        places = [(b.place, b.value) for b in bindings if b.place is not None]
        inside = [each for each in places if self._stops.is_in_turns(each[0])]
        begun = len(inside) < len(bindings)
        yield from (each for each in inside if begun or self._comes_round(each[0], read))
        yield from ((call, call.args[0].value) for call in self._assigned(read))

    def _begins_anew(self, binding: Binding) -> bool:
        """Whether each step sets an attribute to what no layer has made: `self.state = None`."""
        place = binding.place
        behind = self._values.flow.computed_from(binding.value)
        return (
            place is not None
            and self._stops.is_at_each_step(place)
            and not any(self._given(node) for node in behind)
        )

    def _comes_round(self, place: cst.CSTNode, read: cst.CSTNode) -> bool:
        """Whether a turn sets a name behind where it is read, or there: what it reads, the turn before has set."""
        loops = [
            self._module.enclosing(each, (cst.FunctionDef, cst.For, cst.While))
            for each in (place, read)
        ]
        statement = self._module.enclosing(place, cst.BaseSmallStatement)
        behind = statement is self._module.enclosing(read, cst.BaseSmallStatement) or (
            self._module.span(place).start > self._module.span(read).start
        )
        return loops[0] is loops[1] is self._stops.turn_around(place) and behind

    def _assigned(self, read: cst.CSTNode) -> list[cst.Call]:
        """Where steps assign a variable that is read."""
        variables = {v for v in self._values.of(read) if v.kind is Role.VARIABLE and v.node}
        return [
            call
            for call in (self._values.index.calls if variables else ())
            if method(call) in ASSIGNING and call.args and isinstance(call.func, cst.Attribute)
            if variables & self._values.of(call.func.value) and self._stops.is_in_turns(call)
        ]
