"""Settings that something outside the program may override, such as a file: entries and attributes that nothing names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from .index import Index
from .library import Resolver
from .records import Records
from .syntax import text_key


class OverriddenSettings:
    """The settings of one module that may be overridden from outside."""

    def __init__(self, index: Index, records: Records, resolver: Resolver) -> None:
        self._index, self._records, self._resolver = index, records, resolver

    def is_overridden(self, member: cst.BaseExpression) -> bool:
        """Whether something that is not seen may set an entry or attribute: `settings.update(json.load(file))`.

        What the program computes is not meant: `state["step"] += 1`.
        """
        match member:
            case cst.Subscript(value=record) if (key := text_key(member)) is not None:
                places = self._index.stored_in(record)
                is_set = any(text_key(place) == key for place, _, _ in places)
            case cst.Attribute(value=record, attr=cst.Name(value=key)):
                is_set = any(b.adds for b in self._index.attribute_bindings.get(key, ()))
                is_set = is_set or any(key == name for _, name, _ in self._records.updates)
            case _:
                return False
        return not is_set and (self._takes_unseen(record) or self.is_overridden(record))

    def _takes_unseen(self, record: cst.BaseExpression) -> bool:
        if not self._overrides and not self._unpacked:
            return False
        made = {value.node for value in self._resolver.of(record)} - {None}
        if not made.isdisjoint(self._unpacked):
            return True
        return any(
            not made.isdisjoint(value.node for value in self._resolver.of(each))
            for each in self._overrides
        )

    @cached_property
    def _overrides(self) -> list[cst.BaseExpression]:
        """The records of which entries or attributes are set that nothing names: by `update`, by `setattr`."""
        found: list[cst.BaseExpression] = []
        for call in self._records.update_calls:
            if isinstance(call.func, cst.Attribute) and self._gives_unseen(call.args):
                found.append(_namespace_of(call.func.value))
        for call in self._index.calls:
            match call:
                case cst.Call(func=cst.Name("setattr"), args=[record, name, _]) if not isinstance(
                    name.value, cst.SimpleString
                ):
                    is_own = (
                        isinstance(record.value, cst.Name)
                        and record.value.value == "self"
                        and bool(self._keywords)
                    )
                    found += [] if is_own else [record.value]
        return [*found, *self._copied_into()]

    def _copied_into(self) -> Iterator[cst.BaseExpression]:
        """The `settings` of `for key, value in loaded.items(): settings[key] = value`."""
        copied = set()
        for loop in self._index.loops:
            match loop:
                case cst.For(
                    target=cst.Tuple(
                        elements=[cst.Element(cst.Name(key)), cst.Element(cst.Name(value))]
                    ),
                    iter=cst.Call(func=cst.Attribute(value=loaded, attr=cst.Name("items"))),
                ) if self._is_unseen(loaded):
                    copied.add((key, value))
        for places in self._index.stored.values() if copied else ():
            for target, stored, _ in places:
                match target.slice, stored:
                    case [cst.SubscriptElement(cst.Index(cst.Name(key)))], cst.Name(name) if (
                        key,
                        name,
                    ) in copied:
                        yield target.value

    @cached_property
    def _unpacked(self) -> frozenset[cst.CSTNode]:
        """The dictionaries, and the classes of objects, that are made of a dictionary that is not seen."""
        found: set[cst.CSTNode] = set()
        for node in self._index.dictionaries:
            stars = (e.value for e in node.elements if isinstance(e, cst.StarredDictElement))
            found |= {node} if any(map(self._is_unseen, stars)) else set()
        for call in self._index.calls:
            if any(arg.star == "**" and self._is_unseen(arg.value) for arg in call.args):
                values = self._resolver.of(call.func)
                found |= {v.node for v in values if isinstance(v.node, cst.ClassDef)}
                found.add(call)
        return frozenset(found)

    def _gives_unseen(self, args: Sequence[cst.Arg]) -> bool:
        return any(self._is_unseen(arg.value) for arg in args if arg.keyword is None)

    @cached_property
    def _keywords(self) -> frozenset[str]:
        """The names of `**given` of methods `__init__`: calls tell what is in these."""
        stars = (f.params.star_kwarg for f in self._index.functions if f.name.value == "__init__")
        return frozenset(star.name.value for star in stars if star is not None)

    def _is_unseen(self, given: cst.BaseExpression) -> bool:
        """Whether nothing is known of the entries of a dictionary that is given."""
        if isinstance(given, cst.Name) and given.value in self._keywords:
            return False
        made = {value.node for value in self._resolver.of(given)}
        return not any(
            isinstance(node, cst.Dict)
            or (
                isinstance(node, cst.Call)
                and isinstance(node.func, cst.Name)
                and node.func.value == "dict"
            )
            for node in made
        )


def _namespace_of(dictionary: cst.BaseExpression) -> cst.BaseExpression:
    """The object of `vars(config)` and of `config.__dict__`; else the dictionary."""
    match dictionary:
        case cst.Attribute(value=owner, attr=cst.Name("__dict__")):
            return owner
        case cst.Call(func=cst.Name("vars"), args=[owner]):
            return owner.value
    return dictionary
