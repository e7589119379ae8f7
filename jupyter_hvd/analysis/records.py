"""What records hold, by the calls and literals that make them: namespaces, named tuples, data classes, dictionaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from .calls import CallGraph
from .classes import ClassHierarchy
from .index import Binding, Index
from .library import Kind, Resolver
from .syntax import argument, method
from .tree import nodes_in

#: Classes of libraries whose objects have the attributes that they are given, by keywords or in a dictionary.
_RECORDS = re.compile(
    r"types\.SimpleNamespace|argparse\.Namespace"
    r"|(.*\.)?(ConfigDict|FrozenConfigDict|EasyDict|AttrDict|DotMap|Box|Munch|Bunch)"
    r"|addict\.Dict|omegaconf\.(OmegaConf\.create|OmegaConf\.structured|DictConfig)"
)
#: Functions that give a field of a data class its default, with the position of that.
_FIELDS = {
    "dataclasses.field": None,
    "pydantic.Field": 0,
    "attr.ib": 0,
    "attrs.field": None,
}
#: How deep dictionaries may be unpacked into one another.
MAX_UNPACKED = 8


@dataclass(frozen=True)
class RecordEntry:
    """What an entry of a dictionary is set to."""

    place: cst.CSTNode
    value: cst.BaseExpression


class Records:
    """The records of one module: objects whose attributes or entries are what their constructor was given."""

    def __init__(
        self, index: Index, classes: ClassHierarchy, calls: CallGraph, resolver: Resolver
    ) -> None:
        self._index, self._classes, self._calls, self._resolver = index, classes, calls, resolver
        self._bindings: dict[cst.BaseExpression, Binding] = {}

    # Attributes

    def attributes(self, used: cst.Attribute) -> list[Binding]:
        """Return what an attribute is set to by the calls that create or replace the objects which may have it."""
        name = used.attr.value
        if name not in self._names:
            return []
        found: dict[cst.BaseExpression, None] = {}
        for value in self._resolver.of(used.value):
            if isinstance(value.node, cst.ClassDef) and value.kind is Kind.INSTANCE:
                found.update(dict.fromkeys(self._fields_from_class(value.node, name)))
            elif isinstance(value.node, cst.Call) and value.kind in (Kind.UNKNOWN, Kind.OTHER):
                found.update(dict.fromkeys(self._fields_from_call(value.node, name)))
                found.update(dict.fromkeys(self._fields_from_replacements(value.node, name)))
        return [self._binding(value) for value in found]

    def is_record(self, call: cst.Call) -> bool:
        """Whether a call creates a record of a library's class, which only stores its arguments."""
        return any(
            callee.name == "collections.namedtuple" and isinstance(callee.node, cst.Call)
            if callee.kind is not Kind.LIBRARY
            else callee.name == "builtins.dict" or _RECORDS.fullmatch(callee.name) is not None
            for callee in self._resolver.of(call.func)
        )

    @cached_property
    def _names(self) -> frozenset[str]:
        """The names of all fields and entries that records may have."""
        keywords = (a.keyword.value for c in self._index.calls for a in c.args if a.keyword)
        texts = (text for call in self._index.calls for text in _words_in_arguments(call))
        fields = (name for owner in self._index.classes for name in _annotated_names(owner))
        return frozenset((*keywords, *texts, *fields))

    def _binding(self, value: cst.BaseExpression) -> Binding:
        """Return the binding of a field to a value; one object for each value."""
        if value not in self._bindings:
            self._bindings[value] = Binding(value, place=value)
        return self._bindings[value]

    def _fields_from_call(self, call: cst.Call, name: str) -> Iterator[cst.BaseExpression]:
        """Yield what a library's record has under a name, by the call that creates it."""
        for callee in self._resolver.of(call.func):
            if callee.name == "collections.namedtuple" and isinstance(callee.node, cst.Call):
                fields = _fields_of_tuple(callee.node)
                if name in fields:
                    yield from self._find_passed(call, name, fields.index(name))
            elif callee.kind is Kind.LIBRARY and _RECORDS.fullmatch(callee.name):
                yield from self._find_passed(call, name)
                if call.args and call.args[0].keyword is None and not call.args[0].star:
                    yield from (e.value for e in self.entries(call.args[0].value, name))

    def _fields_from_class(self, owner: cst.ClassDef, name: str) -> Iterator[cst.BaseExpression]:
        """Yield what instances of a user-defined record class have under a name, by their constructor calls."""
        initial = next(self._classes.methods(owner, "__init__"), None)
        if initial is None:
            fields = [
                f for each in reversed(self._classes.lineage(owner)) for f in _annotated_names(each)
            ]
            position = fields.index(name) if name in fields else None
            for site in self._calls.sites(owner):
                yield from self._find_passed(site, name, position)
        elif initial.params.star_kwarg is not None and _stores_keywords(initial):
            for site in self._calls.sites(owner):
                yield from self._find_passed(site, name)
        yield from self._fields_from_replacements(owner, name)

    def _fields_from_replacements(
        self, made: cst.CSTNode, name: str
    ) -> Iterator[cst.BaseExpression]:
        """Yield what `replace` calls set a field of a record to."""
        for call in self._replace_calls:
            if any(value.node is made for value in self._resolver.of(self._replaced_record(call))):
                yield from self._find_passed(call, name)

    @cached_property
    def _replace_calls(self) -> list[cst.Call]:
        """The calls of `dataclasses.replace` and of `_replace`."""
        return [call for call in self._index.calls if self._is_replacement(call)]

    def _find_passed(
        self, call: cst.Call, name: str, position: int | None = None
    ) -> Iterator[cst.BaseExpression]:
        """Yield what a call passes by name, by position, or in a dictionary that it unpacks."""
        given = argument(call, name, position)
        if given is not None:
            yield given.value
            return
        for arg in call.args:
            if arg.star == "**":
                yield from (entry.value for entry in self.entries(arg.value, name))

    # Entries

    def entries(
        self, container: cst.BaseExpression, key: str, depth: int = 0
    ) -> Iterator[RecordEntry]:
        """Yield the values stored under `key` in the dictionaries that `container` may be: from literals, `dict(…)` and
        `.update(…)`.

        `depth` counts the dictionaries unpacked so far; the search ends at MAX_UNPACKED.
        """
        if depth > MAX_UNPACKED:
            return
        made = {value.node for value in self._resolver.of(container)} - {None}
        for node in made:
            yield from self._entries_in_literal(node, key, depth + 1)
        for call in self.update_calls:
            assert isinstance(call.func, cst.Attribute)
            if not made.isdisjoint(value.node for value in self._resolver.of(call.func.value)):
                yield from self._entries_in_arguments(call.args, key, depth + 1)

    def _entries_in_literal(
        self, made: cst.CSTNode | None, key: str, depth: int
    ) -> Iterator[RecordEntry]:
        """Yield the entry of a key in a dictionary literal or call of `dict`; the last one counts."""
        match made:
            case cst.Dict(elements=elements):
                for element in reversed(elements):  # the last one holds
                    if isinstance(element, cst.DictElement):
                        is_it = is_string(element.key, key)
                        found = [RecordEntry(element.value, element.value)] if is_it else []
                    else:
                        found = list(self.entries(element.value, key, depth))
                    if found:
                        yield from found
                        return
            case cst.Call(func=cst.Name("dict"), args=args):
                yield from self._entries_in_arguments(args, key, depth)

    def _entries_in_arguments(
        self, args: Sequence[cst.Arg], key: str, depth: int
    ) -> Iterator[RecordEntry]:
        """Yield what `dict` or `update` is given for a key; a keyword counts before a dictionary's entry."""
        for arg in reversed(args):
            if arg.keyword is not None:
                is_it = arg.keyword.value == key
                found = [RecordEntry(arg.value, arg.value)] if is_it else []
            elif arg.star == "*":
                found = []
            else:
                found = list(self.entries(arg.value, key, depth))
            if found:
                yield from found
                return

    @cached_property
    def update_calls(self) -> list[cst.Call]:
        """The calls of a method `update`."""
        return [
            call
            for call in self._index.calls
            if method(call) == "update" and isinstance(call.func, cst.Attribute)
        ]

    @property
    def updates(self) -> Iterator[tuple[cst.BaseExpression, str, cst.BaseExpression]]:
        """The entries and fields that `update` and `replace` set by keywords: record, name and value."""
        changes = [
            (c, c.func.value) for c in self.update_calls if isinstance(c.func, cst.Attribute)
        ]
        changes += [(call, self._replaced_record(call)) for call in self._replace_calls]
        for call, record in changes:
            yield from ((record, a.keyword.value, a.value) for a in call.args if a.keyword)

    def _replaced_record(self, call: cst.Call) -> cst.BaseExpression:
        """Return the record that `dataclasses.replace(record, …)` or `record._replace(…)` copies."""
        if isinstance(call.func, cst.Attribute) and method(call) == "_replace":
            return call.func.value
        return call.args[0].value

    # What calls hand on

    def find_returned_argument(self, call: cst.Call) -> cst.BaseExpression | None:
        """Return the 32 of `field(default=32)`, or the `config` of `replace(config, rate=1)`; None for other calls."""
        if self._is_replacement(call):
            return self._replaced_record(call)
        name = self._resolver.qualified(call.func)
        given = argument(call, "default", _FIELDS[name]) if name in _FIELDS else None
        return given.value if given is not None else None

    def _is_replacement(self, call: cst.Call) -> bool:
        """Whether a call copies a record with changes."""
        if not call.args:
            return False
        return (
            method(call) == "_replace"
            or self._resolver.qualified(call.func) == "dataclasses.replace"
        )


def is_string(node: cst.BaseExpression, text: str) -> bool:
    """Whether a node is a string literal of this text."""
    return isinstance(node, cst.SimpleString) and node.evaluated_value == text


def _name_or_empty(node: cst.BaseExpression) -> str:
    """Return the text of a name; '' for another expression."""
    return node.value if isinstance(node, cst.Name) else ""


def _words_in_arguments(call: cst.Call) -> Iterator[str]:
    """Yield the words in a call's string arguments, and the keys of its dictionaries."""
    for arg in call.args:
        match arg.value:
            case cst.SimpleString():
                yield from _split_words(arg.value)
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                texts = (e.value for e in elements if isinstance(e.value, cst.SimpleString))
                yield from (word for text in texts for word in _split_words(text))
            case cst.Dict(elements=entries):
                keys = (e.key for e in entries if isinstance(e, cst.DictElement))
                texts = (key for key in keys if isinstance(key, cst.SimpleString))
                yield from (word for text in texts for word in _split_words(text))


def _split_words(text: cst.SimpleString) -> list[str]:
    """Return the words of a string literal, separated by spaces or commas."""
    value = text.evaluated_value
    return re.split(r"[\s,]+", value.strip()) if isinstance(value, str) and len(value) < 500 else []


def _fields_of_tuple(made: cst.Call) -> list[str]:
    """Return the field names of `namedtuple("Config", "batch rate")`."""
    given = argument(made, "field_names", 1)
    return (
        list(_words_in_arguments(cst.Call(made.func, [cst.Arg(given.value)])))
        if given is not None
        else []
    )


def _annotated_names(owner: cst.ClassDef) -> Iterator[str]:
    """Yield the names that the body of a class annotates, in order."""
    for line in owner.body.body:
        for statement in line.body if isinstance(line, cst.SimpleStatementLine) else [line]:
            match statement:
                case cst.AnnAssign(target=cst.Name(value=name)):
                    yield name


def _stores_keywords(initial: cst.FunctionDef) -> bool:
    """Whether an `__init__` stores all of its keywords as attributes: by `self.__dict__` or `setattr`."""
    return any(
        (isinstance(node, cst.Attribute) and node.attr.value == "__dict__")
        or (isinstance(node, cst.Call) and _name_or_empty(node.func) == "setattr")
        for node in nodes_in(initial.body)
    )
