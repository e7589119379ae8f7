"""Positions and scopes of a module's nodes, as LibCST's providers find them, without rebuilding the tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import libcst as cst
from libcst.metadata import (
    CodeRange,
    ExpressionContext,
    ExpressionContextProvider,
    PositionProvider,
    Scope,
    ScopeProvider,
)
from libcst.metadata.scope_provider import ScopeVisitor

from .tree import ReadOnlyVisitor, children_of, nodes_in


class _Positions(PositionProvider):
    def compute(self, tree: cst.Module) -> Mapping[cst.CSTNode, CodeRange]:
        """Return the text range of each node."""
        self._gen_impl(tree)
        return cast(Mapping[cst.CSTNode, CodeRange], self._computed)


def positions_in(tree: cst.Module) -> Mapping[cst.CSTNode, CodeRange]:
    """Return the text range of each node."""
    return _Positions().compute(tree)


class _Scopes(ScopeProvider):
    def compute(self, tree: cst.Module) -> Mapping[cst.CSTNode, Scope]:
        """Return the scope of each node."""
        assigned = {name for node in nodes_in(tree) for name in _assigned_names(node)}
        contexts: dict[cst.CSTNode, object] = dict.fromkeys(assigned, ExpressionContext.STORE)
        self.metadata = {ExpressionContextProvider: contexts}
        visitor = _ScopeWalk(self)
        tree.visit(visitor)
        visitor.infer_accesses()
        return cast(Mapping[cst.CSTNode, Scope], self._computed)


class _ScopeWalk(ReadOnlyVisitor, ScopeVisitor):
    """LibCST's own visitor, which records assignments and accesses."""


def scopes_in(tree: cst.Module) -> Mapping[cst.CSTNode, Scope]:
    """Return the scope of each node, with the assignments to its names and their reads."""
    return _Scopes().compute(tree)


def _assigned_names(node: cst.CSTNode) -> Iterator[cst.Name]:
    """Yield the names that a node itself assigns to, as LibCST's `ExpressionContextProvider` defines it."""
    match node:
        case (
            cst.AssignTarget(target=target)
            | cst.AnnAssign(target=target)
            | cst.AugAssign(target=target)
            | cst.NamedExpr(target=target)
            | cst.For(target=target)
            | cst.CompFor(target=target)
            | cst.AsName(name=target)
            | cst.Param(name=target)
            | cst.FunctionDef(name=target)
            | cst.ClassDef(name=target)
        ):
            return _names_in_target(target)
    return iter(())


def _names_in_target(target: cst.CSTNode) -> Iterator[cst.Name]:
    """Yield the names in an assignment target; attributes and subscripts bind no names."""
    if isinstance(target, cst.Name):
        yield target
    elif not isinstance(target, (cst.Attribute, cst.Subscript)):
        for child in children_of(target):
            yield from _names_in_target(child)
