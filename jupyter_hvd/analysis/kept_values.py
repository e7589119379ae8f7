"""Values that keep the unit of one process, because the notebook's kernel reads and sets them, too.

A number with a name in one cell is used in others, here and in the kernel. So `BATCH = 32` is not edited: `BATCH` is 32
everywhere, and what reads it on the ranks converts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import cached_property

import libcst as cst

from .index import Binding
from .library import Kind
from .tree import names_in, nodes_in
from .values import ValueAnalysis

#: What has attributes as a dictionary has entries.
NAMESPACE = "types.SimpleNamespace"
#: Functions that compute numbers of numbers, or hold them.
_COMPUTING = frozenset(
    {
        *(f"builtins.{n}" for n in "abs bool dict float int len list max min round tuple".split()),
        *(f"{module}.{name}" for module in ("math", "numpy") for name in ("ceil", "floor")),
        NAMESPACE,
    }
)


class KeptValues:
    """The plain named values of a module that are only computed from other plain values, by top-level assignments."""

    def __init__(self, values: ValueAnalysis) -> None:
        self._values, self._module = values, values.module

    def is_in_definition(self, node: cst.CSTNode) -> bool:
        """Whether an expression is in an assignment that defines such a value."""
        return self._module.enclosing(node, cst.Assign) in self._definitions

    @cached_property
    def reads(self) -> tuple[cst.BaseExpression, ...]:
        """Where such values, and undefined names, are read, except to define other such values."""
        return tuple(
            self._outermost_entry(name)
            for name in names_in(self._module.tree)
            if not self.is_in_definition(name) and (self._is_kept(name) or self.is_undefined(name))
        )

    def is_undefined(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a variable that nothing here defines, so that its value comes from another cell."""
        if not isinstance(node, cst.Name) or self._values.definitions.assignments(node):
            return False
        match self._module.parent(node):
            case cst.Attribute(attr=name) | cst.Arg(keyword=name) if name is node:
                return False
            case (
                cst.BaseExpression()
                | cst.Arg()
                | cst.ComparisonTarget()
                | cst.Index()
                | cst.Slice()
            ):
                return Kind.LIBRARY not in self._values.kinds(node)
        return False

    def _is_kept(self, name: cst.Name) -> bool:
        """Whether all definitions of a name that may hold here are of such a value."""
        if name.value not in self._names:
            return False
        reaching = self._values.definitions.reaching(name)
        return bool(reaching) and all(
            self._statement(each) in self._definitions for each in reaching
        )

    def _outermost_entry(self, name: cst.Name) -> cst.BaseExpression:
        """Return the full access that begins with a name: `settings["data"]["batch"]`, or an attribute of a namespace."""
        node: cst.BaseExpression = name
        is_namespace = any(value.name == NAMESPACE for value in self._values.of(name))
        kinds = (cst.Subscript, cst.Attribute) if is_namespace else (cst.Subscript,)
        while isinstance(around := self._module.parent(node), kinds):
            if around.value is not node:
                break
            node = around
        return node

    # Definitions

    @cached_property
    def _names(self) -> frozenset[str]:
        """The names of such values."""
        return frozenset(
            name.value for each in self._definitions for name in _iterate_targets(each)
        )

    @cached_property
    def _definitions(self) -> Set[cst.Assign]:
        """The assignments that define such values."""
        found: set[cst.Assign] = set(filter(self._computes_plain_value, self._values.index.assigns))
        while others := {each for each in found if not self._is_only_setter(each, found)}:
            found -= others
        return found

    def _computes_plain_value(self, assign: cst.Assign) -> bool:
        """Whether a top-level assignment binds names to a value computed by simple functions."""
        within = (cst.FunctionDef, cst.ClassDef, cst.For, cst.While)
        inner = [node for target in assign.targets for node in nodes_in(target.target)]
        calls = [node for node in nodes_in(assign.value) if isinstance(node, cst.Call)]
        return (
            self._module.enclosing(assign, within) is None
            and not any(isinstance(n, (cst.Attribute, cst.Subscript)) for n in inner)
            and not any(isinstance(n, (cst.Lambda, cst.BaseComp)) for n in nodes_in(assign.value))
            and all(self._values.qualified(call.func) in _COMPUTING for call in calls)
        )

    def _is_only_setter(self, assign: cst.Assign, found: Set[cst.Assign]) -> bool:
        """Whether only the found statements set the names that a statement sets."""
        return all(
            self._statement(each) in found
            for name in _iterate_targets(assign)
            for each in self._values.definitions.of(name)
        )

    def _statement(self, definition: object) -> cst.Assign | None:
        """Return the assignment of a definition; None for `+=` and other definitions."""
        if not isinstance(definition, Binding) or definition.target is None or definition.adds:
            return None
        return self._module.enclosing(definition.target, cst.Assign)


def _iterate_targets(assign: cst.Assign) -> Iterator[cst.Name]:
    """Yield the names that an assignment binds."""
    return (name for target in assign.targets for name in names_in(target.target))
