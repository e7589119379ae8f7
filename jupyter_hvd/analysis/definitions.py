"""The bindings of a name: all of them, and those that reach a use (reaching definitions)."""

from __future__ import annotations

from typing import TypeGuard

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import Assignment, BaseAssignment

from .index import Binding, Index
from .module import Module

#: A binding, or the def, class, import or parameter itself.
Definition = Binding | cst.CSTNode
#: A node, or the assignments of the variable that a name stands for.
Identity = cst.CSTNode | frozenset[BaseAssignment]

#: What defines a name by a block of its own.
_DEFINING = (cst.FunctionDef, cst.ClassDef)
#: What a program runs from its first statement to its last, if at all; a suite stands behind its header, `if late: rate = 0.1`.
BLOCKS = (cst.IndentedBlock, cst.SimpleStatementSuite, cst.Module)


class Definitions:
    """The definitions of the names of one module."""

    def __init__(self, module: Module, index: Index) -> None:
        self._module = module
        self._index = index
        self._identities: dict[cst.Name, Identity] = {}

    def identity(self, node: cst.CSTNode) -> Identity:
        """Return a key that expressions of the same variable share: its assignments; for other expressions the node itself.

        Without it a name that is bound fifty times in terms of itself, as layers are stacked, would be followed along every
        order of its bindings.
        """
        if type(node) is not cst.Name:  # asked so often that LibCST's slow `isinstance` is felt
            return node
        found = self._identities.get(node)
        if found is None:
            found = self._identities[node] = self.assignments(node) or node
        return found

    def assignments(self, name: cst.Name) -> frozenset[BaseAssignment]:
        """Return all bindings of a name; for a function or class that is bound again, only those that reach the use.

        `model = model(inputs)` calls the function, and what follows is the model.
        """
        scope = self._module.scope(name)
        found = frozenset(scope[name.value]) if scope is not None else frozenset()
        found = self._last_definitions_above(name, found)
        defines = {isinstance(a.node, _DEFINING) for a in found if isinstance(a, Assignment)}
        if len(defines) < 2:
            return found
        reached = {
            id(self._bound_node(each))
            for each in self._filter_reaching(name, self._as_definitions(found))
        }
        return frozenset(a for a in found if not isinstance(a, Assignment) or id(a.node) in reached)

    def _last_definitions_above(
        self, name: cst.Name, found: frozenset[BaseAssignment]
    ) -> frozenset[BaseAssignment]:
        """If one block defines several functions or classes of this name, keep only the last one above the use.

        In another function, which may run at any time, each of them may be meant.
        """
        module = self._module
        defined = [a for a in found if isinstance(a, Assignment) and isinstance(a.node, _DEFINING)]
        blocks = {module.parent(a.node) for a in defined}
        if len(defined) < 2 or len(blocks) > 1:
            return found
        inside = module.function_of(name) is module.function_of(defined[0].node)
        start = module.span(name).start
        above = [a for a in defined if module.span(a.node).start < start]
        if not inside or not above or not blocks & {*module.ancestors(name)}:
            return found
        last = max(above, key=lambda a: module.span(a.node).start)
        return frozenset(a for a in found if a is last or a not in defined)

    def _bound_node(self, definition: Definition) -> cst.CSTNode | None:
        """Return the name that a binding binds, or the definition itself."""
        return definition.target if isinstance(definition, Binding) else definition

    def _as_definitions(self, found: frozenset[BaseAssignment]) -> list[Definition]:
        """Return the index's bindings for LibCST's assignments; for functions, classes and parameters their nodes."""
        nodes = [a.node for a in found if isinstance(a, Assignment)]
        return [self._index.bound.get(node, node) for node in nodes]

    def of(self, name: cst.Name) -> list[Definition]:
        """Return the definitions of a name anywhere in its scope, by its `assignments`."""
        return self._as_definitions(self.assignments(name))

    def reaching(self, name: cst.Name) -> list[Definition]:
        """Return the definitions of a name that may hold where it is used, by the order of the text.

        In `ds = ds.batch(8)`, the second `ds` is the one before. A binding ends earlier ones if it surely runs first: its block
        is also around the name. A later one in a loop around both reaches the name in the next iteration, unless the loop
        surely binds the name before.
        """
        return self._filter_reaching(name, self.of(name))

    def _filter_reaching(self, name: cst.Name, found: list[Definition]) -> list[Definition]:
        """Return those of some definitions that may hold where a name is used."""
        bound = [b for b in found if isinstance(b, Binding) and b.target is not None]
        known = {id(b) for b in bound}
        others = [b for b in found if id(b) not in known]
        before = [b for b in bound if self._is_before(b, name)]
        if not before and not others:
            return [*bound]
        sure = {id(b): self._start_offset(b) for b in before if self._is_sure(b, name)}
        earlier = {id(b) for b in before}
        carried = [
            b
            for b in bound
            if id(b) not in earlier
            and (loop := self._common_loop(b, name)) is not None
            and not any(id(s) in sure and self._is_within(s, loop) for s in before)
        ]
        last = max(sure.values(), default=-1)
        reached = [b for b in before if self._start_offset(b) >= last]
        return [*(others if not sure else ()), *reached, *carried]

    def _start_offset(self, binding: Binding) -> int:
        """Return the offset of the bound name."""
        assert binding.target is not None
        return self._module.span(binding.target).start

    def _is_within(self, binding: Binding, loop: cst.CSTNode) -> bool:
        """Whether a binding is in a loop."""
        assert binding.target is not None
        return any(ancestor is loop for ancestor in self._module.ancestors(binding.target))

    def _common_loop(self, binding: Binding, name: cst.Name) -> cst.CSTNode | None:
        """Return the innermost loop around both a binding and a name of one function; None if there is none."""
        assert binding.target is not None
        function = self._module.function_of(name)
        if self._module.function_of(binding.target) is not function:
            return None
        around = [
            a for a in self._module.ancestors(binding.target) if isinstance(a, (cst.For, cst.While))
        ]
        for ancestor in self._module.ancestors(name):
            if ancestor is function:
                return None
            if ancestor in around:
                return ancestor
        return None

    def _is_before(self, binding: Binding, name: cst.Name) -> bool:
        """Whether a binding can run before a name is used: it is above it, or in another function."""
        assert binding.target is not None
        if self._module.function_of(name) is not self._module.function_of(binding.target):
            return True
        statement = self._module.enclosing(
            binding.target, (cst.BaseSmallStatement, cst.BaseStatement)
        )
        around = statement is not None and any(a is statement for a in self._module.ancestors(name))
        inside_block = isinstance(statement, cst.BaseCompoundStatement)
        return (not around or inside_block) and (
            self._module.span(binding.target).start < self._module.span(name).start
        )

    def _is_sure(self, binding: Binding, name: cst.Name) -> bool:
        """Whether a binding surely runs before code below it: it is unconditional, and `+=` does not count."""
        assert binding.target is not None
        if binding.adds:
            return False
        block = self._module.enclosing(binding.target, BLOCKS)
        while block is not None and _runs_once(around := self._module.parent(block)):
            block = self._module.enclosing(around, BLOCKS)
        elsewhere = self._module.function_of(name) is not self._module.function_of(binding.target)
        return (
            isinstance(block, cst.Module)
            if elsewhere
            else any(a is block for a in self._module.ancestors(name))
        )


def _runs_once(statement: cst.CSTNode | None) -> TypeGuard[cst.With]:
    """Whether a statement runs its block once and to its end: a `with`, except `suppress` and `raises`."""
    return isinstance(statement, cst.With) and not any(
        isinstance(item.item, cst.Call)
        and (get_full_name_for_node(item.item.func) or "").endswith(("suppress", "raises"))
        for item in statement.items
    )
