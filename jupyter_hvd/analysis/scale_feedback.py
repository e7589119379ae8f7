"""Numbers whose result comes back as an operand: through lists, entries, functions, other names, and a model's weights.

`ema = [d * a + (1 - d) * w for a, w in zip(ema, weights)]` and `target.set_weights(…)` of `target.get_weights()` make a
variable of itself, as `x = d * x + (1 - d) * y` does. Where the result goes is followed forwards, where an operand comes from
backwards; they meet in a variable, an attribute, or the weights of a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from .flow import positional
from .index import ELEMENT, Binding, Path
from .scale_averages import step_of_average
from .scale_findings import Recurrence, is_constant, number_of
from .scale_recurrences import AUGMENTED, CONVERTING, Recurrences
from .scale_signatures import ScaleLibrary
from .syntax import Function, method, parameters
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
class Place:
    """What holds an average between steps.

    Attributes:
        name: the text of an attribute or of a model, the identity of a name. node: where it is written.
    """

    kind: str
    name: object
    node: cst.CSTNode

    @property
    def key(self) -> tuple[str, object]:
        return self.kind, self.name


@dataclass(frozen=True)
class MovingAverage:
    """How a number is made of what it was, and what holds it."""

    recurrence: Recurrence
    place: Place


class Feedback:
    """The recurrences of one module that `Recurrences` does not see in a statement alone."""

    def __init__(
        self, values: ValueAnalysis, recurrences: Recurrences, library: ScaleLibrary
    ) -> None:
        self._values, self._module, self._library = values, values.module, library
        self._recurrences = recurrences

    def recurrence(self, node: cst.BinaryOperation) -> MovingAverage | None:
        """How an operation makes a number of what it was: a moving average, a product, or a count by 1.

        None where no operand is what the operation gave before.
        """
        if (added := self._added_to_entry(node)) is not None:
            return added
        if not _may_come_back(node):
            return None
        targets = {place.key: place for place in self._targets(node)}
        targets["record", node] = Place("record", node, node)
        met: list[tuple[str, object]] = []

        def comes_back(operand: cst.BaseExpression) -> bool:
            found = [key for key in self._origins(operand, node) if key in targets]
            met.extend(found)
            return bool(found)

        recurrence = self._recurrences.made_of(node, comes_back)
        if recurrence is None or not met or not _is_known(recurrence):
            return None
        places = [targets[key] for key in dict.fromkeys(met)]
        longest = min(
            places, key=lambda place: (_LASTING.index(place.kind), self._depth(place, node))
        )
        return MovingAverage(recurrence, longest)

    def _depth(self, place: Place, itself: cst.CSTNode) -> int:
        """In how many loops at most what holds an average is set to something else."""
        depths = (
            sum(isinstance(a, cst.For | cst.While) for a in self._module.ancestors(start))
            for start in self.starts(place, itself)
        )
        return max(depths, default=0)

    def _added_to_entry(self, node: cst.BinaryOperation) -> MovingAverage | None:
        """`a[i] += w * (b - a[i])`."""
        match self._module.parent(node):
            case cst.AugAssign(target=cst.Subscript() as target, operator=operator):
                sign = AUGMENTED.get(type(operator), "?")
                weights = step_of_average(node, sign, target.deep_equals)
                places = [*self._places(target)]
                recurrence = Recurrence("~", node, weights)
                return MovingAverage(recurrence, places[0]) if weights and places else None
        return None

    # Forwards

    def _targets(self, node: cst.BaseExpression) -> Iterator[Place]:
        """What is set to an expression, or to a list of such, also by who calls its function."""
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
                    if (mapped := self._mapped_by(parent)) is not None:
                        pending.append(mapped)
                case cst.Attribute(attr=cst.Name(value=name)) if name in _SAME:
                    pending.append(self._module.parent(parent) or parent)
                case cst.Arg():
                    if isinstance(call := self._module.parent(parent), cst.Call):
                        if self._converts(call):
                            pending.append(call)
                        yield from self._set_by(call)
                case cst.Assign(targets=targets) if parent.value is node_:
                    for each in targets:
                        for place in self._places(each.target):
                            yield place
                            pending += self._uses(place.node)
                case cst.AnnAssign(target=target) | cst.AugAssign(target=target) if (
                    parent.value is node_
                ):
                    yield from self._places(target)

    def _set_by(self, call: cst.Call) -> Iterator[Place]:
        if not isinstance(call.func, cst.Attribute):
            return
        receiver = call.func.value
        if method(call) == _SETTING:
            yield Place("weights", self._module.text(receiver), call)
        elif method(call) in ("append", "extend", "insert"):
            for place in self._places(receiver):
                yield place
                for use in self._uses(receiver):
                    arg = self._module.parent(use)
                    outer = self._module.parent(arg) if isinstance(arg, cst.Arg) else None
                    if isinstance(outer, cst.Call) and method(outer) == _SETTING:
                        yield from self._set_by(outer)
        elif method(call) == "assign":
            yield from self._places(receiver)

    def _converts(self, call: cst.Call) -> bool:
        name = self._values.qualified(call.func)
        return name in _CONVERTING or self._library.is_conversion(name)

    def _places(self, target: cst.BaseExpression) -> Iterator[Place]:
        """The variable that an assignment to a name, an attribute, or an entry of one changes."""
        while isinstance(target, cst.Subscript):
            target = target.value
        match target:
            case cst.Name():
                yield Place("name", self._values.definitions.identity(target), target)
            case cst.Attribute():
                yield Place("attribute", self._module.text(target), target)

    def _uses(self, target: cst.CSTNode) -> list[cst.Name]:
        """Where a name is read."""
        if not isinstance(target, cst.Name):
            return []
        identity = self._values.definitions.identity
        same = self._module.names.get(target.value, ())
        return [name for name in same if name is not target and identity(name) == identity(target)]

    # Backwards

    def _origins(
        self, node: cst.BaseExpression, made: cst.CSTNode | None = None
    ) -> Iterator[tuple[str, object]]:
        """The variables that an operand may come from, unchanged or as an element of one.

        Args:
            made: the operation; where it is a field of the record that the operand is read from, that is no variable.
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
                    yield from (place.key for place in self._places(each))
                case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(value=name))):
                    if name == _GIVING:
                        yield "weights", self._module.text(receiver)
                        continue
                    if name in _SAME:
                        pending.append((receiver, path))
                        continue
            if isinstance(each, cst.Call) and self._converts(each):
                pending += [(arg, path) for arg in positional(each)[:1]]
                continue
            if isinstance(each, cst.Name):
                pending += self._mapped(each)
            if isinstance(each, (cst.Name, cst.Attribute, cst.Subscript, cst.IfExp)) or path:
                pending += self._values.flow.predecessors(each, path)
                pending += self._values.flow.held(each, path)

    def _mapped_by(self, function: cst.CSTNode) -> cst.Call | None:
        """The call of `map_structure` or `map` that is given a function, directly."""
        arg = self._module.parent(function)
        call = self._module.parent(arg) if isinstance(arg, cst.Arg) else None
        if not isinstance(call, cst.Call) or call.args[0] is not arg:
            return None
        name = method(call) or (call.func.value if isinstance(call.func, cst.Name) else "")
        return call if name in _MAPPING else None

    def _mapped(self, name: cst.Name) -> Iterator[tuple[cst.CSTNode, Path]]:
        """The structures whose elements a parameter of `map_structure(lambda a, b: …, one, other)` is."""
        for param in self._values.definitions.reaching(name):
            function = self._module.owner(param) if isinstance(param, cst.Param) else None
            call = self._mapped_by(function) if isinstance(function, Function) else None
            if call is None or not isinstance(param, cst.Param):
                continue
            place = parameters(function).index(param) + 1  # type: ignore[arg-type]
            if place < len(call.args):
                yield call.args[place].value, (ELEMENT,)

    # Starts

    def starts(self, place: Place, itself: cst.CSTNode) -> Sequence[cst.CSTNode]:
        """Where what holds an average is set to something else."""
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

    def _holds(self, value: cst.BaseExpression, place: Place) -> bool:
        """Whether a variable is set to what it held before, or to a copy of it."""
        return place.key in self._origins(value)


def _may_come_back(node: cst.BinaryOperation) -> bool:
    """Whether an operation is a product, a sum with a product in it, or one with 1."""
    if isinstance(node.operator, (cst.Multiply, cst.Divide)):
        return not is_constant(node)
    return isinstance(node.operator, (cst.Add, cst.Subtract)) and any(
        number_of(side) == 1
        or (isinstance(side, cst.BinaryOperation) and isinstance(side.operator, cst.Multiply))
        for side in (node.left, node.right)
    )


def _is_known(recurrence: Recurrence) -> bool:
    """Whether a recurrence is one of which the steps of N ranks are known."""
    match recurrence.operator:
        case "~":
            return all(kind != "open" for _, kind in recurrence.weights)
        case "+" | "-":
            return number_of(recurrence.operand) == 1
    return recurrence.operator in "*/"
