"""`tf.data` pipelines: from where a dataset comes, and through which methods it went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from ...analysis.flow import Source
from ...analysis.index import Path
from ...analysis.library import Kind
from ...analysis.tree import nodes_in
from ...analysis.values import ValueAnalysis
from . import tf_api
from .library import batches_dataset
from .roles import Role

#: What makes one dataset of several, which it takes in a tuple or list first.
_COMBINING = frozenset(
    f"tensorflow.data.{name}"
    for name in (
        "Dataset.zip",
        "Dataset.sample_from_datasets",
        "Dataset.choose_from_datasets",
        "experimental.sample_from_datasets",
        "experimental.choose_from_datasets",
    )
)


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A dataset from its source to its use.

    Attributes:
        source: the expression that gives the dataset first: a call of the library, or a name
            that a tuple of datasets was unpacked into.
        steps: the calls of dataset methods that follow, in order.
    """

    source: cst.BaseExpression
    steps: tuple[cst.Call, ...] = ()


class Pipelines:
    """The pipelines of one module."""

    def __init__(self, values: ValueAnalysis) -> None:
        self.values = values

    def of(
        self, node: cst.CSTNode, path: Path = (), seen: frozenset[cst.CSTNode] = frozenset()
    ) -> list[Pipeline]:
        """Return the pipelines that an expression may hold; [] if it is no dataset, or its source is unknown.

        Args:
            path: the part of the expression that is meant.
            seen: the nodes passed on the way back. In a function that was entered by one call, parameters are what that call
                passes.
        """
        if node in seen:
            return []
        seen |= {node}
        match node:
            case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(value=name))) if (
                name in tf_api.DATASET_METHODS
                and (self.values.may_be(receiver, Role.DATASET) or self._batches_unseen(node))
            ):
                found = self.of(receiver, (), seen)
                if name == "concatenate" and node.args:
                    found += self.of(node.args[0].value, (), seen)
                if not found and batches_dataset(node):  # of another module's dataset
                    found = [Pipeline(receiver)]
                return [replace(p, steps=(*p.steps, node)) for p in found]
            case cst.Call(
                func=cst.Attribute(
                    value=receiver, attr=cst.Name(value="as_numpy_iterator" | "__iter__")
                )
            ):
                return self.of(receiver, (), seen)
            case cst.Call(args=[_, *_]) if self.values.qualified(node.func) in _COMBINING:
                return self._find_combined(node, seen)
            case cst.Call() if self._is_source(node):
                return [Pipeline(node)]
            case cst.Call() if (inner := self.values.flow.unwrap_iteration(node)) is not node:
                return self.of(inner, (), seen)
            case cst.Call() if handed_on := self._find_forwarded_data(node):
                return [p for each in handed_on for p in self.of(each, (), seen)]
            case cst.Subscript(value=value) if self._names_a_part(node) and any(
                self._is_source(source) for source in self._find_creating_calls(value)
            ):
                return [Pipeline(node)]  # one of several that the source gives by name
            case cst.Subscript():
                return []  # a part that nothing tells from the others
        found = []
        for source, part in self._predecessors(node, path, seen):
            if part and isinstance(node, cst.Name) and self._is_source(source):
                found.append(Pipeline(node))  # one of several that the source gives
            else:
                found += self.of(source, part, seen)
        return found

    def _predecessors(
        self, node: cst.CSTNode, path: Path, seen: frozenset[cst.CSTNode]
    ) -> list[Source]:
        """Return the sources of a node, one step back. A parameter leads only to the call by which its function was entered, if
        any.
        """
        found = self.values.flow.predecessors(node, path)
        if not isinstance(node, cst.Name):
            return found
        elsewhere: set[cst.CSTNode] = set()
        for param in self.values.definitions.reaching(node):
            function = self.values.module.owner(param) if isinstance(param, cst.Param) else None
            if isinstance(param, cst.Param) and function is not None:
                passed = self.values.calls.actual_arguments(function, param)
                here = {value for site, value in passed if site in seen}
                if here:
                    elsewhere |= {value for _, value in passed} - here
        return [(source, part) for source, part in found if source not in elsewhere]

    def _find_forwarded_data(self, call: cst.Call) -> list[cst.BaseExpression]:
        """Return the data whose elements a user-defined generator yields unchanged: `for batch in data: yield batch`; [] for
        other generators.
        """
        values = self.values.of(call)
        if {value.kind for value in values} != {Kind.GENERATOR}:
            return []
        found: list[cst.BaseExpression] = []
        for value in values:
            for each in nodes_in(value.node) if value.node is not None else ():
                if not isinstance(each, cst.Yield):
                    continue
                loop = self.values.module.enclosing(each, (cst.For, cst.FunctionDef))
                match each.value, loop:
                    case cst.From(item=data), _:
                        found.append(data)
                    case cst.BaseExpression() as element, cst.For(target=target, iter=data) if (
                        element.deep_equals(target)
                    ):
                        found.append(data)
                    case _:
                        return []
        return found

    def _batches_unseen(self, call: cst.Call) -> bool:
        """Whether a call batches a dataset whose source is unknown, such as another module's."""
        return batches_dataset(call) and self._is_source(call)

    def _names_a_part(self, node: cst.Subscript) -> bool:
        """Whether a subscript has one constant index or key."""
        match node.slice:
            case [cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() | cst.Integer()))]:
                return True
        return False

    def _find_creating_calls(self, expression: cst.BaseExpression) -> list[cst.Call]:
        """Return the calls that create an expression's value, or the container that holds it."""
        if isinstance(expression, cst.Call):
            return [expression]
        pending: list[Source] = [(expression, ())]
        found, seen = dict[cst.Call, None](), set[cst.CSTNode]()
        while pending:
            node, path = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, cst.Call):
                found[node] = None
            else:
                pending += self.values.flow.predecessors(node, path)
        return list(found)

    def _is_source(self, node: cst.CSTNode) -> bool:
        """Whether a node creates a dataset, rather than transforms one."""
        return any(v.kind is Role.DATASET and v.node is node for v in self.values.of(node))

    def _find_combined(self, call: cst.Call, seen: frozenset[cst.CSTNode]) -> list[Pipeline]:
        """Return the pipelines of all datasets that `zip`, `sample_from_datasets` and the like combine; [] if one is unknown."""
        zips = self.values.qualified(call.func).endswith("zip")
        given = [
            part for arg in call.args[: None if zips else 1] for part in iterate_parts(arg.value)
        ]
        each = [self.of(part, (), seen) for part in given]
        if not all(each):
            return []
        return [pipeline for pipelines in each for pipeline in pipelines]


def iterate_parts(expression: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the arrays in a list, tuple or dict of inputs; an expression of another form itself; nothing for None."""
    match expression:
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            for element in elements:
                yield from iterate_parts(element.value)
        case cst.Dict(elements=items):
            for item in items:
                yield from iterate_parts(item.value)
        case cst.Name(value="None"):
            return
        case _:
            yield expression
