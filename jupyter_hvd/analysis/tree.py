"""The children of LibCST's nodes, and walks over them.

LibCST's own visits rebuild every node, since a visitor may replace it. These walks
only read, which takes a fraction of the time, and skip whitespace and punctuation. (`libcst.matchers` finds nodes
as well, but takes longer to import than LibCST.)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import libcst as cst

#: Fields with whitespace and punctuation alone; those whose names begin with "whitespace" are more of them.
_FORMATTING = frozenset(
    "asynchronous colon comma dot equal first_colon footer header lbrace lbracket leading_lines leading_whitespace "
    "lines_after_decorators lpar posonly_ind rbrace rbracket relative rpar second_colon semicolon trailing_comma "
    "trailing_whitespace".split()
)
#: The fields of nodes that are declared in another order than they are written in.
_WRITTEN: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.Arg: ("keyword", "value"),
    cst.ClassDef: ("decorators", "name", "type_parameters", "bases", "keywords", "body"),
    cst.ExceptHandler: ("type", "name", "body"),
    cst.ExceptStarHandler: ("type", "name", "body"),
    cst.FunctionDef: ("decorators", "name", "type_parameters", "params", "returns", "body"),
    cst.IfExp: ("body", "test", "orelse"),
    cst.MatchCase: ("pattern", "guard", "body"),
    cst.Parameters: ("posonly_params", "params", "star_arg", "kwonly_params", "star_kwarg"),
    cst.TypeAlias: ("name", "type_parameters", "value"),
}


def children_of(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the direct children of a node except whitespace and punctuation, in the order of the text."""
    found: list[cst.CSTNode] = []
    for name in _content_fields(type(node)):
        value = getattr(node, name)
        kind: Any = type(value)
        if kind is list or kind is tuple:
            found += value
        elif _is_node(kind):
            found.append(value)
    return found


@cache
def _content_fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """Return the fields of a kind of node that may hold more than whitespace and punctuation, in the order of the text."""
    return _WRITTEN.get(kind) or tuple(
        name
        for name in kind.__dataclass_fields__
        if name not in _FORMATTING and not name.startswith(("whitespace", "__"))
    )


@cache
def _is_node(kind: Any) -> bool:
    """Whether a type is a kind of node."""
    return issubclass(kind, cst.CSTNode)


def nodes_in(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all nodes in it, in the order of the text."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += children_of(found)[::-1]


def names_in(node: cst.CSTNode) -> Iterator[cst.Name]:
    """Yield all names in a node, in the order of the text."""
    return (found for found in nodes_in(node) if type(found) is cst.Name)


def parents_in(root: cst.CSTNode) -> dict[cst.CSTNode, cst.CSTNode]:
    """Return the parent of each node in a tree, in the order of the text."""
    return {child: node for node in nodes_in(root) for child in children_of(node)}


class ReadOnlyVisitor(cst.CSTVisitor):
    """A visitor that only reads: it calls the methods `visit_…` and `leave_…` of nodes, not those of attributes.

    `node.visit(visitor)` works as with LibCST's own visitors, of which a subclass may be another one.
    """

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Visit a node and all nodes in it; return False, so that LibCST does not visit them again."""
        if super().on_visit(node):
            for child in children_of(node):
                self.on_visit(child)
        super().on_leave(node)
        return False

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Nothing: `on_visit` has left the node already."""
