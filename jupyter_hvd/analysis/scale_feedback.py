"""Numbers whose result comes back as an operand: through lists, entries, functions, other names, and a model's weights.

`ema = [d * a + (1 - d) * w for a, w in zip(ema, weights)]` and `target.set_weights(…)` of `target.get_weights()` make a
variable of itself, as `x = d * x + (1 - d) * y` does. Where the result goes is followed forwards, where an operand comes from
backwards; they meet in a variable, an attribute, or the weights of a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from .flow import positional_arguments
from .index import ELEMENT, Binding, Path
from .scale_averages import find_step_weight
from .scale_findings import Recurrence, is_constant, number_of
from .scale_recurrences import AUGMENTED, CONVERTING, Recurrences
from .scale_signatures import ScaleLibrary
from .syntax import Function, list_parameters, method
from .values import ValueAnalysis

#: How many expressions are followed, forwards or backwards.
MAX_FOLLOWED = 60
#: Methods that set the weights of their receiver, and those that give them.
_SETTING, _GIVING = "set_weights", "get_weights"
#: Methods that give what their receiver is, in another form; and functions that do so with their first argument.
_SAME = frozenset({"numpy", "copy", "clone", "value", "read_value", "astype"})
_CONVERTING = frozenset({*CONVERTING, "builtins.list", "builtins.tuple", "builtins.dict"})
#: What holds an average, the longest first.
_LASTING = ("weights", "attribute", "name", "record")
_MAPPING = ("map_structure", "map")


@dataclass(frozen=True)
class StateHolder:
    """What holds a number between steps: a name, an attribute, a model's weights, a record.

    Attributes:
        name: the text of an attribute or of a model; the identity of a name. node: where it is written.
    """

    kind: str
    name: object
    node: cst.CSTNode

    @property
    def key(self) -> tuple[str, object]:
        """What identifies the holder, wherever it is written."""
        return self.kind, self.name


@dataclass(frozen=True)
class HeldRecurrence:
    """How a number is computed from its previous value, and what holds it between steps."""

    recurrence: Recurrence
    place: StateHolder


class Feedback:
    """The recurrences of one module that span several statements, which `Recurrences` does not find."""

    def __init__(
        self, values: ValueAnalysis, recurrences: Recurrences, library: ScaleLibrary
    ) -> None:
        self._values, self._module, self._library = values, values.module, library
        self._recurrences = recurrences

    def find_recurrence(self, node: cst.BinaryOperation) -> HeldRecurrence | None:
        """Return how an operation computes a number from its own last result: a moving average, a product, or a count by 1.

        None if no operand is the last result.
        """
        if (added := self._find_entry_average(node)) is not None:
            return added
        if not _may_be_recurrence(node):
            return None
        targets = {place.key: place for place in self._find_holders(node)}
        targets["record", node] = StateHolder("record", node, node)
        met: list[tuple[str, object]] = []

        def comes_back(operand: cst.BaseExpression) -> bool:
            """Whether an operand may be a variable that the result is stored in; note which."""
            found = [key for key in self._find_origins(operand, node) if key in targets]
            met.extend(found)
            return bool(found)

        recurrence = self._recurrences.of_value(node, comes_back)
        if recurrence is None or not met or not _is_convertible(recurrence):
            return None
        places = [targets[key] for key in dict.fromkeys(met)]
        longest = min(
            places, key=lambda place: (_LASTING.index(place.kind), self._loop_depth(place, node))
        )
        return HeldRecurrence(recurrence, longest)

    def _loop_depth(self, place: StateHolder, itself: cst.CSTNode) -> int:
        """Return the most loops around a statement that sets a holder to something else."""
        depths = (
            sum(isinstance(a, cst.For | cst.While) for a in self._module.ancestors(start))
            for start in self.find_starts(place, itself)
        )
        return max(depths, default=0)

    def _find_entry_average(self, node: cst.BinaryOperation) -> HeldRecurrence | None:
        """Return the recurrence of `a[i] += w * (b - a[i])`; None for another operation."""
        match self._module.parent(node):
            case cst.AugAssign(target=cst.Subscript() as target, operator=operator):
                sign = AUGMENTED.get(type(operator), "?")
                weights = find_step_weight(node, sign, target.deep_equals)
                places = [*self._holders_of_target(target)]
                recurrence = Recurrence("~", node, weights)
                return HeldRecurrence(recurrence, places[0]) if weights and places else None
        return None

    # Forwards

    def _find_holders(self, node: cst.BaseExpression) -> Iterator[StateHolder]:
        """Yield what an expression is stored in: directly, in a list, or by the callers of its function."""
        pending: list[cst.CSTNode] = [node]
        seen: set[cst.CSTNode] = set()
        while pending and len(seen) < MAX_FOLLOWED:
            node_ = pending.pop()
            if node_ in seen:
                continue
            seen.add(node_)
            parent = self._module.parent(node_)
            match parent:
                case cst.BaseComp() | cst.Element() | cst.IfExp() | cst.DictElement():
                    pending.append(parent)
                case cst.List() | cst.Tuple() | cst.Dict():
                    pending.append(parent)
                case cst.Return():
                    function = self._module.function_of(parent)
                    pending += self._values.calls.sites(function) if function is not None else ()
                case cst.Lambda():
                    pending += self._values.calls.sites(parent)
                    if (mapped := self._find_mapping_call(parent)) is not None:
                        pending.append(mapped)
                case cst.Attribute(attr=cst.Name(value=name)) if name in _SAME:
                    pending.append(self._module.parent(parent) or parent)
                case cst.Arg():
                    if isinstance(call := self._module.parent(parent), cst.Call):
                        if self._converts(call):
                            pending.append(call)
                        yield from self._holders_set_by(call)
                case cst.Assign(targets=targets) if parent.value is node_:
                    for each in targets:
                        for place in self._holders_of_target(each.target):
                            yield place
                            pending += self._find_reads(place.node)
                case cst.AnnAssign(target=target) | cst.AugAssign(target=target) if (
                    parent.value is node_
                ):
                    yield from self._holders_of_target(target)

    def _holders_set_by(self, call: cst.Call) -> Iterator[StateHolder]:
        """Yield what a method call stores its argument in: `set_weights`, `append`, `assign`."""
        if not isinstance(call.func, cst.Attribute):
            return
        receiver = call.func.value
        if method(call) == _SETTING:
            yield StateHolder("weights", self._module.text(receiver), call)
        elif method(call) in ("append", "extend", "insert"):
            for place in self._holders_of_target(receiver):
                yield place
                for use in self._find_reads(receiver):
                    arg = self._module.parent(use)
                    outer = self._module.parent(arg) if isinstance(arg, cst.Arg) else None
                    if isinstance(outer, cst.Call) and method(outer) == _SETTING:
                        yield from self._holders_set_by(outer)
        elif method(call) == "assign":
            yield from self._holders_of_target(receiver)

    def _converts(self, call: cst.Call) -> bool:
        """Whether a call returns its argument in another form."""
        name = self._values.qualified(call.func)
        return name in _CONVERTING or self._library.is_conversion(name)

    def _holders_of_target(self, target: cst.BaseExpression) -> Iterator[StateHolder]:
        """Yield the variable that an assignment to a name, an attribute, or an entry of one changes."""
        while isinstance(target, cst.Subscript):
            target = target.value
        match target:
            case cst.Name():
                yield StateHolder("name", self._values.definitions.identity(target), target)
            case cst.Attribute():
                yield StateHolder("attribute", self._module.text(target), target)

    def _find_reads(self, target: cst.CSTNode) -> list[cst.Name]:
        """Return the reads of a name."""
        if not isinstance(target, cst.Name):
            return []
        identity = self._values.definitions.identity
        same = self._module.names.get(target.value, ())
        return [name for name in same if name is not target and identity(name) == identity(target)]

    # Backwards

    def _find_origins(
        self, node: cst.BaseExpression, made: cst.CSTNode | None = None
    ) -> Iterator[tuple[str, object]]:
        """Yield the keys of the holders from which an operand may come, unchanged or as an element.

        Args:
            made: the operation itself; if the operand is read from a record with it as a field, the key names the record.
        """
        pending: list[tuple[cst.CSTNode, Path]] = [(node, ())]
        seen: set[tuple[cst.CSTNode, Path]] = set()
        while pending and len(seen) < MAX_FOLLOWED:
            each, path = pending.pop()
            if (each, path) in seen:
                continue
            seen.add((each, path))
            if each is made and not path:
                yield "record", made
                continue
            match each:
                case cst.Name() | cst.Attribute():
                    yield from (place.key for place in self._holders_of_target(each))
                case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(value=name))):
                    if name == _GIVING:
                        yield "weights", self._module.text(receiver)
                        continue
                    if name in _SAME:
                        pending.append((receiver, path))
                        continue
            if isinstance(each, cst.Call) and self._converts(each):
                pending += [(arg, path) for arg in positional_arguments(each)[:1]]
                continue
            if isinstance(each, cst.Name):
                pending += self._find_mapped_structures(each)
            if isinstance(each, (cst.Name, cst.Attribute, cst.Subscript, cst.IfExp)) or path:
                pending += self._values.flow.predecessors(each, path)
                pending += self._values.flow.find_held_values(each, path)

    def _find_mapping_call(self, function: cst.CSTNode) -> cst.Call | None:
        """Return the call of `map_structure` or `map` that is given a function as its first argument; else None."""
        arg = self._module.parent(function)
        call = self._module.parent(arg) if isinstance(arg, cst.Arg) else None
        if not isinstance(call, cst.Call) or call.args[0] is not arg:
            return None
        name = method(call) or (call.func.value if isinstance(call.func, cst.Name) else "")
        return call if name in _MAPPING else None

    def _find_mapped_structures(self, name: cst.Name) -> Iterator[tuple[cst.CSTNode, Path]]:
        """Yield the structures whose elements are passed to a parameter: `one` for `a` of `map_structure(lambda a, b: …, one,
        other)`.
        """
        for param in self._values.definitions.reaching(name):
            function = self._module.owner(param) if isinstance(param, cst.Param) else None
            call = self._find_mapping_call(function) if isinstance(function, Function) else None
            if call is None or not isinstance(param, cst.Param):
                continue
            place = list_parameters(function).index(param) + 1  # type: ignore[arg-type]
            if place < len(call.args):
                yield call.args[place].value, (ELEMENT,)

    # Starts

    def find_starts(self, place: StateHolder, itself: cst.CSTNode) -> Sequence[cst.CSTNode]:
        """Return where a holder is set to something other than the recurrence.

        Args:
            itself: the operation of the recurrence.
        """
        bindings: Sequence[object]
        match place.node:
            case cst.Name() if place.kind == "name":
                bindings = self._values.definitions.of(place.node)
            case cst.Attribute() if place.kind == "attribute":
                bindings = self._values.attribute_bindings(place.node)
            case _:
                return ()
        return [
            bound.place
            for bound in bindings
            if isinstance(bound, Binding)
            and bound.place is not None
            and itself not in (bound.value, *self._module.ancestors(bound.value))
            and bound.value not in self._module.ancestors(itself)
            and bound.value is not itself
            and not self._holds(bound.value, place)
        ]

    def _holds(self, value: cst.BaseExpression, place: StateHolder) -> bool:
        """Whether a holder is set to what it held before, or to a copy of it."""
        return place.key in self._find_origins(value)


def _may_be_recurrence(node: cst.BinaryOperation) -> bool:
    """Whether an operation is a product, a sum with a product in it, or a sum with 1."""
    if isinstance(node.operator, (cst.Multiply, cst.Divide)):
        return not is_constant(node)
    return isinstance(node.operator, (cst.Add, cst.Subtract)) and any(
        number_of(side) == 1
        or (isinstance(side, cst.BinaryOperation) and isinstance(side.operator, cst.Multiply))
        for side in (node.left, node.right)
    )


def _is_convertible(recurrence: Recurrence) -> bool:
    """Whether it is known what a recurrence becomes on N ranks."""
    match recurrence.operator:
        case "~":
            return all(kind != "open" for _, kind in recurrence.weights)
        case "+" | "-":
            return number_of(recurrence.operand) == 1
    return recurrence.operator in "*/"
