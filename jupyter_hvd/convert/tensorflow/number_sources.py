"""What a number of rows is computed from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.index import select_part
from ...analysis.library import Kind
from ...analysis.scale_findings import number_of
from ...analysis.syntax import text_key
from ...analysis.values import ValueAnalysis

#: What computes a number that is no number of rows any more.
_COMPUTED = (cst.BinaryOperation, cst.BooleanOperation, cst.Call, cst.IfExp, cst.Integer)


class NumberSources:
    """What the numbers of one module are computed from."""

    def __init__(self, values: ValueAnalysis) -> None:
        self.values = values

    def find_sources(self, expression: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        """Yield the nodes from which a number is computed by names, operators and functions of numbers, the number itself
        first.
        """
        pending: list[cst.CSTNode] = [expression]
        seen: set[cst.CSTNode] = set()
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            yield node
            match node:
                case cst.BinaryOperation(left=left, right=right):
                    pending += [left, right]
                case cst.UnaryOperation(expression=inner):
                    pending.append(inner)
                case cst.Call():
                    pending += [arg.value for arg in node.args]
                case cst.List(elements=elements) | cst.Tuple(elements=elements):
                    pending += [element.value for element in elements]
                case cst.Subscript() if entries := self.entries_of(node):
                    pending += entries  # and nothing else that the dictionary has
                    continue
                case _:
                    pass
            pending += [select_part(*each) for each in self.values.flow.predecessors(node)]

    def constants_of(self, size: cst.BaseExpression) -> list[float]:
        """Return the numbers that an expression may equal, as far as they are literals."""
        found = (
            number_of(value.node)
            for value in self.values.of(size)
            if isinstance(value.node, cst.BaseExpression)
        )
        return [number for number in found if number is not None]

    def entries_of(self, size: cst.Subscript) -> list[cst.BaseExpression]:
        """Return what a literal dictionary has under a constant key: `config["batch_size"]`; [] if several dictionaries are
        possible.
        """
        if self.values.overridden.is_overridden(size):
            return []
        key = text_key(size)
        held = {v.node for v in self.values.of(size.value) if v.kind is not Kind.NONE}
        if key is None or len(held) != 1:
            return []
        return [each.value for each in self.values.records.entries(size.value, key)]


def is_number_of_rows(values: ValueAnalysis, size: cst.BaseExpression) -> bool:
    """Whether a number is an unmodified length: `len(x)`, `x.shape[0]`, `tf.shape(x)[0]`."""
    seen = list(values.flow.computed_from(size, _is_length))
    lengths = [node for node in seen if _is_length(node)]
    return bool(lengths) and not any(
        isinstance(node, _COMPUTED) and node not in lengths for node in seen
    )


def _is_length(node: cst.CSTNode) -> bool:
    """Whether a node is `len(…)` or `….shape[0]`."""
    match node:
        case cst.Call(func=cst.Name("len")):
            return True
        case cst.Subscript(
            value=shape, slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer("0")))]
        ):
            return isinstance(shape, (cst.Attribute, cst.Call)) and _names_shape(shape)
    return False


def _names_shape(node: cst.Attribute | cst.Call) -> bool:
    """Whether a node is an attribute or call named `shape`."""
    named = node.func if isinstance(node, cst.Call) else node
    return isinstance(named, cst.Attribute) and named.attr.value == "shape"
