"""The classes of a module: their bases, and which of them an object may be an instance of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter

import libcst as cst

from .index import Binding, Index
from .library import Kind, Resolver


class ClassHierarchy:
    """The classes of one module."""

    def __init__(self, index: Index, resolver: Resolver) -> None:
        self._index = index
        self._resolver = resolver
        self._members: dict[cst.ClassDef, dict[str, list[tuple[int, cst.FunctionDef]]]] = {}
        self._bindings: dict[cst.ClassDef, dict[str, list[Binding]]] = {}

    def lineage(self, owner: cst.ClassDef) -> list[cst.ClassDef]:
        """Return the class and its base classes, as far as this module defines them."""
        found = [owner]
        for cls in found:
            for base in cls.bases:
                for value in self._resolver.of(base.value):
                    if isinstance(value.node, cst.ClassDef) and value.node not in found:
                        found.append(value.node)
        return found

    def library_bases(self, owner: cst.ClassDef) -> set[str]:
        """Return the canonical names of the library classes that a class inherits from."""
        return {
            value.name
            for cls in self.lineage(owner)
            for base in cls.bases
            for value in self._resolver.of(base.value)
            if value.kind is Kind.LIBRARY
        }

    def methods(self, owner: cst.ClassDef, *names: str) -> Iterator[cst.FunctionDef]:
        """Yield the methods of these names that instances of a class have, its own or inherited."""
        for cls in self.lineage(owner):
            members = self._methods_by_name(cls)
            found = (each for name in dict.fromkeys(names) for each in members.get(name, ()))
            yield from (member for _, member in sorted(found, key=itemgetter(0)))

    def _methods_by_name(self, cls: cst.ClassDef) -> dict[str, list[tuple[int, cst.FunctionDef]]]:
        """Return the methods in the body of a class by name, each with its index in the body; computed once."""
        members = self._members.get(cls)
        if members is None:
            members = self._members[cls] = defaultdict(list)
            for place, member in enumerate(cls.body.body):
                if isinstance(member, cst.FunctionDef):
                    members[member.name.value].append((place, member))
        return members

    def attributes(self, owner: cst.ClassDef, name: str) -> Iterator[Binding]:
        """Yield the bindings of a name in the body of a class or of a base class."""
        for cls in self.lineage(owner):
            yield from self._bindings_by_name(cls).get(name, ())

    def nested(self, owner: cst.ClassDef, name: str) -> Iterator[cst.ClassDef]:
        """Yield the classes of this name in the body of a class or of a base class: `class Config: class data: batch = 32`."""
        for cls in self.lineage(owner):
            yield from (
                member
                for member in cls.body.body
                if isinstance(member, cst.ClassDef) and member.name.value == name
            )

    def _bindings_by_name(self, cls: cst.ClassDef) -> dict[str, list[Binding]]:
        """Return the bindings in the body of a class by name; computed once."""
        bindings = self._bindings.get(cls)
        if bindings is None:
            bindings = self._bindings[cls] = defaultdict(list)
            for line in cls.body.body:
                # Of a class in one line, the body has the statements themselves.
                for statement in line.body if isinstance(line, cst.SimpleStatementLine) else [line]:
                    match statement:
                        case cst.Assign(targets=targets):
                            named = [each.target for each in targets]
                        case cst.AnnAssign(target=target):
                            named = [target]
                        case _:
                            continue
                    for bound in map(self._index.bound.get, named):
                        if bound is not None and bound.target is not None:
                            bindings[bound.target.value].append(bound)
        return bindings

    def may_share_instances(self, one: cst.ClassDef, other: cst.ClassDef) -> bool:
        """Whether an object may be an instance of both classes: some class is, or inherits, both."""
        return one is other or any(
            {one, other} <= set(self.lineage(cls)) for cls in (one, other, *self._index.classes)
        )
