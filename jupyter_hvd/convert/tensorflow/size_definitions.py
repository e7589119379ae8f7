"""Where a program defines the size of its batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ...analysis.index import Binding, bound_expression
from .keras_loops import find_fit_argument
from .number_sources import NumberSources
from .training_data import TrainingData


class SizeDefinitions:
    """Finds the names, parameters, attributes and dictionary entries that define batch sizes."""

    def __init__(self, data: TrainingData, numbers: NumberSources) -> None:
        self.data = data
        self.values = data.values
        self.module = data.module
        self.numbers = numbers

    def find_definitions(
        self, size: cst.BaseExpression, seen: frozenset[cst.CSTNode]
    ) -> Iterator[cst.BaseExpression]:
        """Yield the expressions that define a size, as far as the program shows them; else the size itself."""
        sources = self._defining_values(size) if size not in seen else []
        if not sources:
            yield size
        for source in sources:
            yield from self.find_definitions(source, seen | {size})

    def _defining_values(self, size: cst.BaseExpression) -> list[cst.BaseExpression]:
        """Return the values by which a name, an attribute or a dictionary entry is defined, one step back; [] to stop there."""
        match size:
            case cst.Name():
                found = []
                for definition in self.values.definitions.reaching(size):
                    match definition:
                        case Binding(adds=False) if (
                            value := bound_expression(definition)
                        ) is not None:
                            found.append(value)
                        case cst.Param() if self.data.command_lines.sets_parameter(definition):
                            return []
                        case cst.Param():
                            found += self._passed_values(definition)
                        case _:
                            return []
                return found
            case cst.Attribute() if self.values.overridden.is_overridden(size):
                return []
            case cst.Attribute():
                bindings = self.values.flow.bindings_of(size)
                if all(
                    binding.receiver is None for binding in bindings
                ):  # objects may have the class' own
                    bindings += self._class_attributes(size)
                found = [value for b in bindings if (value := bound_expression(b)) is not None]
                return found if len(found) == len(bindings) else []
            case cst.Subscript():
                return self.numbers.entries_of(size)
            case cst.Call() if (given := self.values.flow.find_returned_argument(size)) is not None:
                return [given]
        return []

    def _class_attributes(self, size: cst.Attribute) -> list[Binding]:
        """Return the bindings in the bodies of an object's classes: `class Config: batch_size = 32`."""
        owners = {v.node for v in self.values.of(size.value) if isinstance(v.node, cst.ClassDef)}
        name = size.attr.value
        return [b for o in owners for b in self.values.classes.attributes(o, name)]

    def _passed_values(self, param: cst.Param) -> list[cst.BaseExpression]:
        """Return the values that a parameter takes: arguments of calls that create training data, if there are such calls, and
        the default.
        """
        function = self.module.owner(param)
        if function is None:
            return []
        passed = self.values.calls.actual_arguments(function, param)
        trained = [(site, value) for site, value in passed if site in self._training_data_calls]
        omitted = not trained and len(passed) < len(self._call_sites(function))
        passed = trained or passed
        default = [param.default] if param.default is not None and (omitted or not passed) else []
        return [*(value for _, value in passed), *default]

    @cached_property
    def _training_data_calls(self) -> frozenset[cst.Call]:
        """The calls that create training data, as opposed to other data that the same functions create."""
        found: set[cst.Call] = set()
        data = [source for each in self.data.loop_data.values() for source in each]
        fits = self.data.training.keras.shown_trainings
        data += [arg.value for call in fits if (arg := find_fit_argument(call, "x")) is not None]
        pending, seen = list(data), set[cst.CSTNode]()
        while pending:
            node = pending.pop()
            if node in seen or self._is_parameter(node):
                continue
            seen.add(node)
            found |= {node} if isinstance(node, cst.Call) else set()
            pending += [source for source, _ in self.values.flow.predecessors(node)]
            pending += [arg.value for arg in node.args[:1]] if isinstance(node, cst.Call) else []
        return frozenset(found)

    def _is_parameter(self, node: cst.CSTNode) -> bool:
        """Whether a node is a name that a parameter may define."""
        definitions = self.values.definitions
        return isinstance(node, cst.Name) and any(
            isinstance(d, cst.Param) for d in definitions.reaching(node)
        )

    def _call_sites(self, function: cst.CSTNode) -> list[cst.Call]:
        """Return the calls of a function, or of the class whose `__init__` it is."""
        owner = self.module.class_of(function)
        made = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
        sites = self.values.calls.sites(function)
        return sites or (self.values.calls.sites(owner) if made and owner is not None else [])
