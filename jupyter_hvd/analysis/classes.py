"""The classes of a module: what they inherit from, and which of them one object may be of."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from .index import Binding, Index
from .library import Kind, Resolver


class ClassHierarchy:
    """The classes of one module."""

    def __init__(self, index: Index, resolver: Resolver) -> None:
        self._index = index
        self._resolver = resolver

    def lineage(self, owner: cst.ClassDef) -> list[cst.ClassDef]:
        """The class and its base classes, as far as this module defines them."""
        found = [owner]
        for cls in found:
            for base in cls.bases:
                for value in self._resolver.of(base.value):
                    if isinstance(value.node, cst.ClassDef) and value.node not in found:
                        found.append(value.node)
        return found

    def library_bases(self, owner: cst.ClassDef) -> set[str]:
        """The canonical names of the library classes that a class inherits from."""
        return {
            value.name
            for cls in self.lineage(owner)
            for base in cls.bases
            for value in self._resolver.of(base.value)
            if value.kind is Kind.LIBRARY
        }

    def methods(self, owner: cst.ClassDef, *names: str) -> Iterator[cst.FunctionDef]:
        """The methods of these names that instances of a class have, its own or inherited."""
        for cls in self.lineage(owner):
            for member in cls.body.body:
                if isinstance(member, cst.FunctionDef) and member.name.value in names:
                    yield member

    def attributes(self, owner: cst.ClassDef, name: str) -> Iterator[Binding]:
        """What the body of a class, or of one that it inherits from, binds a name to."""
        for cls in self.lineage(owner):
            for line in cls.body.body:
                for statement in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                    match statement:
                        case cst.Assign(targets=targets):
                            named = [each.target for each in targets]
                        case cst.AnnAssign(target=target):
                            named = [target]
                        case _:
                            continue
                    bound = (self._index.bound.get(each) for each in named)
                    yield from (b for b in bound if b and b.target and b.target.value == name)

    def may_share_instances(self, one: cst.ClassDef, other: cst.ClassDef) -> bool:
        """Whether an object may be of both classes: some class is, or inherits from, both."""
        return one is other or any(
            {one, other} <= set(self.lineage(cls)) for cls in (one, other, *self._index.classes)
        )
