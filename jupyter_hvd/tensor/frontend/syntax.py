"""Searches in Python's syntax trees, which stop at inner functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

#: What has names of its own: statements around it do not change them.
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


def dotted_name(node: ast.AST) -> str | None:
    """Return `a.b.c` for attributes of a name; None for another expression."""
    if isinstance(node, ast.Attribute):
        before = dotted_name(node.value)
        return before and f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


def read_names(node: ast.AST) -> set[str]:
    """Return the names in a node."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def iterate_within(nodes: Iterable[ast.AST], kind: type[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a kind, except in inner functions."""
    for node in nodes:
        if isinstance(node, kind):
            yield node
        children = ast.iter_child_nodes(node)
        yield from iterate_within((x for x in children if not isinstance(x, INNER)), kind)


def iterate_jumps(nodes: Iterable[ast.AST], kind: type[ast.AST]) -> Iterator[ast.AST]:
    """Yield the `continue`s or `break`s of the loop that statements are in."""
    for node in nodes:
        if isinstance(node, kind):
            yield node
        children = ast.iter_child_nodes(node)
        yield from iterate_jumps((x for x in children if not isinstance(x, (*INNER, *LOOPS))), kind)


def contains(nodes: Iterable[ast.AST], kind: type[ast.AST]) -> bool:
    """Whether statements contain a node of a kind, outside of inner functions."""
    return next(iterate_within(nodes, kind), None) is not None


def contains_jump(nodes: Iterable[ast.AST], kind: type[ast.AST]) -> bool:
    """Whether statements contain a `continue` or `break` of the loop that they are in."""
    return next(iterate_jumps(nodes, kind), None) is not None
