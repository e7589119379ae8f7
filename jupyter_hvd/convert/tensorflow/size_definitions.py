"""Where a program defines the size of its batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ...analysis.index import Binding, element_of
from .keras_loops import fit_argument
from .number_sources import NumberSources
from .training_data import TrainingData


class SizeDefinitions:
    """The names, parameters, attributes and entries of dictionaries that define sizes of batches."""

    def __init__(self, data: TrainingData, numbers: NumberSources) -> None:
        self.data = data
        self.values = data.values
        self.module = data.module
        self.numbers = numbers

    def definitions_of(
        self, size: cst.BaseExpression, seen: frozenset[cst.CSTNode]
    ) -> Iterator[cst.BaseExpression]:
        """The expressions that a size is the value of, as far as the program defines it; else the size itself."""
        sources = self._defined_by(size) if size not in seen else []
        if not sources:
            yield size
        for source in sources:
            yield from self.definitions_of(source, seen | {size})

    def _defined_by(self, size: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The values that a name, an attribute or an entry of a dictionary is defined by; none where another place is better."""
        match size:
            case cst.Name():
                found = []
                for definition in self.values.definitions.reaching(size):
                    match definition:
                        case Binding(adds=False) if (value := element_of(definition)) is not None:
                            found.append(value)
                        case cst.Param() if self.data.command_lines.sets_parameter(definition):
                            return []
                        case cst.Param():
                            found += self._passed(definition)
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
                    bindings += self._of_class(size)
                found = [value for b in bindings if (value := element_of(b)) is not None]
                return found if len(found) == len(bindings) else []
            case cst.Subscript():
                return self.numbers.entries_of(size)
            case cst.Call() if (given := self.values.flow.handed_on(size)) is not None:
                return [given]
        return []

    def _of_class(self, size: cst.Attribute) -> list[Binding]:
        """What a class gives its objects: `class Config: batch_size = 32`."""
        owners = {v.node for v in self.values.of(size.value) if isinstance(v.node, cst.ClassDef)}
        name = size.attr.value
        return [b for o in owners for b in self.values.classes.attributes(o, name)]

    def _passed(self, param: cst.Param) -> list[cst.BaseExpression]:
        function = self.module.owner(param)
        if function is None:
            return []
        passed = self.values.calls.actual_arguments(function, param)
        trained = [(site, value) for site, value in passed if site in self._makers]
        omitted = not trained and len(passed) < len(self._sites(function))
        passed = trained or passed
        default = [param.default] if param.default is not None and (omitted or not passed) else []
        return [*(value for _, value in passed), *default]

    @cached_property
    def _makers(self) -> frozenset[cst.Call]:
        """The calls that make what training runs over, as against other data that the same functions make."""
        found: set[cst.Call] = set()
        data = [source for each in self.data.loop_data.values() for source in each]
        fits = self.data.training.keras.shown_trainings
        data += [arg.value for call in fits if (arg := fit_argument(call, "x")) is not None]
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
        definitions = self.values.definitions
        return isinstance(node, cst.Name) and any(
            isinstance(d, cst.Param) for d in definitions.reaching(node)
        )

    def _sites(self, function: cst.CSTNode) -> list[cst.Call]:
        """The calls of a function, or of the class whose `__init__` it is."""
        owner = self.module.class_of(function)
        made = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
        sites = self.values.calls.sites(function)
        return sites or (self.values.calls.sites(owner) if made and owner is not None else [])
