"""Settings that something outside the program may override, such as a file: entries and attributes that nothing names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from .definitions import Definitions
from .index import Binding, Index
from .library import Resolver
from .records import Records
from .syntax import method, text_key


class OverriddenSettings:
    """The settings of one module that may be overridden from outside."""

    def __init__(
        self, index: Index, records: Records, definitions: Definitions, resolver: Resolver
    ) -> None:
        self._index, self._records, self._resolver = index, records, resolver
        self._definitions = definitions

    def is_overridden(self, member: cst.BaseExpression) -> bool:
        """Whether something unknown may set an entry or attribute: `settings.update(json.load(file))`.

        Not if the program also computes it: `state["step"] += 1`.
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
        return not is_set and (self._is_updated_unseen(record) or self.is_overridden(record))

    def is_given_unseen(self, function: cst.CSTNode | None) -> bool:
        """Whether a function is called with a dictionary of unknown contents: `main(**vars(options))`."""
        return function in self._created_from_unseen

    def _is_updated_unseen(self, record: cst.BaseExpression) -> bool:
        """Whether an object may be created or updated from a dictionary of unknown contents."""
        if not self._updated_records and not self._created_from_unseen:
            return False
        made = {value.node for value in self._resolver.of(record)} - {None}
        if not made.isdisjoint(self._created_from_unseen):
            return True
        return any(
            not made.isdisjoint(value.node for value in self._resolver.of(each))
            for each in self._updated_records
        )

    @cached_property
    def _updated_records(self) -> list[cst.BaseExpression]:
        """The objects whose entries or attributes are set by unknown names: by `update`, by `setattr`."""
        found: list[cst.BaseExpression] = []
        for call in self._records.update_calls:
            if isinstance(call.func, cst.Attribute) and self._has_unseen_argument(call.args):
                found.append(_unwrap_namespace(call.func.value))
        for call in self._index.calls:
            match call:
                case cst.Call(func=cst.Name("setattr"), args=[record, name, _]) if not isinstance(
                    name.value, cst.SimpleString
                ):
                    is_own = (
                        isinstance(record.value, cst.Name)
                        and record.value.value == "self"
                        and bool(self._keyword_parameters)
                    )
                    found += [] if is_own else [record.value]
        return [*found, *self._find_copies()]

    def _find_copies(self) -> Iterator[cst.BaseExpression]:
        """Yield the `settings` of `for key, value in loaded.items(): settings[key] = value`."""
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
        for places in self._index.stored.values():
            for target, stored, _ in places:
                match target.slice, stored:
                    case [cst.SubscriptElement(cst.Index(cst.Name(key) as name))], _ if (
                        isinstance(stored, cst.Name) and (key, stored.value) in copied
                    ) or self._is_read(name):
                        yield target.value

    def _is_read(self, key: cst.Name) -> bool:
        """Whether a name is a part of a text, `key, value = each.split("=")`."""
        return any(
            isinstance(each, Binding)
            and isinstance(each.value, cst.Call)
            and method(each.value) in ("split", "partition")
            for each in self._definitions.of(key)
        )

    @cached_property
    def _created_from_unseen(self) -> frozenset[cst.CSTNode]:
        """The dictionaries, calls, classes and functions that are given a dictionary of unknown contents, by `**`."""
        found: set[cst.CSTNode] = set()
        for node in self._index.dictionaries:
            stars = (e.value for e in node.elements if isinstance(e, cst.StarredDictElement))
            found |= {node} if any(map(self._is_unseen, stars)) else set()
        for call in self._index.calls:
            if any(arg.star == "**" and self._is_unseen(arg.value) for arg in call.args):
                values = self._resolver.of(call.func)
                kinds = (cst.ClassDef, cst.FunctionDef)
                found |= {v.node for v in values if isinstance(v.node, kinds)}
                found.add(call)
        return frozenset(found)

    def _has_unseen_argument(self, args: Sequence[cst.Arg]) -> bool:
        """Whether a positional argument is a dictionary of unknown contents."""
        return any(self._is_unseen(arg.value) for arg in args if arg.keyword is None)

    @cached_property
    def _keyword_parameters(self) -> frozenset[str]:
        """The names of `**` parameters of `__init__`: calls show their contents."""
        stars = (f.params.star_kwarg for f in self._index.functions if f.name.value == "__init__")
        return frozenset(star.name.value for star in stars if star is not None)

    def _is_unseen(self, given: cst.BaseExpression) -> bool:
        """Whether nothing is known about a dictionary's entries."""
        if isinstance(given, cst.Name) and given.value in self._keyword_parameters:
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


def _unwrap_namespace(dictionary: cst.BaseExpression) -> cst.BaseExpression:
    """Return the object of `vars(config)` and of `config.__dict__`; another dictionary unchanged."""
    match dictionary:
        case cst.Attribute(value=owner, attr=cst.Name("__dict__")):
            return owner
        case cst.Call(func=cst.Name("vars"), args=[owner]):
            return owner.value
    return dictionary
