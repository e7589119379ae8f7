"""Tuples as nested pairs, and arrays of tuples as tuples of arrays.

The language has pairs: a tuple `(a, b, c)` is `(a, (b, c))`. Pair elimination gives every output in
struct-of-arrays form, where pairs stand outside arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache, reduce
from typing import Any, TypeVar

from .types import Array, Layout, Product, Type, leaves

T = TypeVar("T")


@dataclass(frozen=True)
class Form:
    """The user's type of a tuple: built with `make(**fields)` from named parts, or a `list`."""

    names: tuple[str, ...]
    make: Callable[..., Any]

    def rebuild_value(self, parts: Sequence[Any]) -> Any:
        """Return a value of the user's type with these parts."""
        if self.names:
            return self.make(**dict(zip(self.names, parts, strict=True)))
        return self.make(parts)


#: One object, so that keys of calls are compared by identity.
LIST = Form((), list)


class Laid(tuple[Any, ...]):
    """A tuple that is a list, dictionary, named tuple or dataclass for the user. Its parts are values, or their layouts."""

    form: Form

    def __new__(cls, parts: Iterable[Any], form: Form) -> Laid:
        made = tuple.__new__(cls, parts)  # `super()` takes a third of the time
        made.form = form
        return made

    def __getattr__(self, name: str) -> Any:
        """A part by its name, as a named tuple or a dataclass has it."""
        if name.startswith("__") or name == "form" or name not in self.form.names:
            raise AttributeError(name)
        return self[self.form.names.index(name)]

    def with_parts(self, parts: Iterable[Any]) -> Laid:
        """Return a tuple of the same form with other parts."""
        return Laid(parts, self.form)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Laid) and self.form == other.form and tuple(self) == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.form, tuple(self)))

    def __reduce__(self) -> tuple[type[Laid], tuple[tuple[Any, ...], Form]]:
        return Laid, (tuple(self), self.form)


def lay_out(value: Any) -> Any:
    """Convert lists of arrays, dictionaries, named tuples and dataclasses to tuples; lists of numbers are arrays."""
    kind = type(value)
    return (_LAYING.get(kind) or _find_layout(kind))(value)


def has_parts(value: Any) -> bool:
    """Whether a value is a tuple, a list, a dictionary or a dataclass."""
    kind = type(value)
    return (_LAYING.get(kind) or _find_layout(kind)) is not _return_unchanged


_LAYING: dict[type, Callable[[Any], Any]] = {}  # what lays out the values of a type


def _find_layout(kind: type) -> Callable[[Any], Any]:
    """Return the function that lays out values of a type; the type is examined once."""
    _LAYING[kind] = made = _make_layout_function(kind)
    return made


def _make_layout_function(kind: type) -> Callable[[Any], Any]:
    """Make the function that lays out values of a type; the identity for a type without parts."""
    if issubclass(kind, dict):
        return _lay_out_dictionary
    if is_dataclass(kind):
        form = Form(tuple(field.name for field in fields(kind)), kind)
        return lambda value: Laid(_lay_out_parts([getattr(value, x) for x in form.names]), form)
    if issubclass(kind, Laid):
        return lambda value: Laid(_lay_out_parts(value), value.form)
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", ())
        if not names:
            return lambda value: tuple(_lay_out_parts(value))
        form = Form(names, kind)
        return lambda value: Laid(_lay_out_parts(value), form)
    return _lay_out_list if issubclass(kind, list) else _return_unchanged


def _lay_out_parts(values: Iterable[Any]) -> list[Any]:
    """Convert the parts of a value to tuples."""
    made = []
    for value in values:  # without a call for each array
        lay = _LAYING.get(type(value)) or _find_layout(type(value))
        made.append(value if lay is _return_unchanged else lay(value))
    return made


def _return_unchanged(value: Any) -> Any:
    """Return the value."""
    return value


def _lay_out_dictionary(value: dict[Any, Any]) -> Any:
    """Convert a dictionary with string keys to a tuple; return others unchanged."""
    form = _form_of_keys(tuple(value))
    return value if form is None else Laid(_lay_out_parts(value.values()), form)


@lru_cache(maxsize=1024)
def _form_of_keys(keys: tuple[Any, ...]) -> Form | None:
    """Return the form of a dictionary with these keys; None where a key is not a string."""
    return Form(keys, dict) if keys and all(isinstance(key, str) for key in keys) else None


def _lay_out_list(value: list[Any]) -> Any:
    """Convert a list of numbers to an array, another one to a tuple."""
    return (
        convert_number_list(value) if _holds_numbers(value) else Laid(_lay_out_parts(value), LIST)
    )


def field_names(class_: type) -> tuple[str, ...]:
    """Return the field names of a named tuple or dataclass; () for any other class."""
    if is_dataclass(class_):
        return tuple(field.name for field in fields(class_))
    return tuple(getattr(class_, "_fields", ())) if issubclass(class_, tuple) else ()


def _holds_numbers(value: list[Any]) -> bool:
    """Whether a list is a single array: of numbers, of lists of numbers, or of integer or boolean arrays, which are data.

    A list of float arrays is not: JAX and users treat it as several arrays.
    """
    return {*map(type, value)} <= _NUMBERS or all(map(_is_number, value))


def _is_number(entry: Any) -> bool:
    """Whether an entry of a list is a number, or a list of numbers."""
    if isinstance(entry, list):
        return _holds_numbers(entry)
    if entry is None or isinstance(entry, dict | tuple | str) or is_dataclass(entry):
        return False
    return not getattr(entry, "shape", ()) or getattr(entry.dtype, "kind", "f") in "biu"


def convert_number_list(value: Any) -> Any:
    """Convert a list of numbers that contains JAX arrays or tracers to one array of their library; return any other value
    unchanged.
    """
    if not isinstance(value, list):
        return value
    owner: Any = next((x for x in _iterate_leaves(value) if type(x).__module__ not in _PLAIN), None)
    if not hasattr(owner, "__array_namespace__"):
        return value
    return owner.__array_namespace__().asarray(value)


def _iterate_leaves(value: list[Any]) -> Iterator[Any]:
    """Yield the leaves of a nested list, skipping inner lists that hold only Python numbers.

    `convert_number_list` searches these leaves for an array or a JAX tracer.
    """
    if {*map(type, value)} <= _NUMBERS:
        return
    for entry in value:
        if isinstance(entry, list):
            yield from _iterate_leaves(entry)
        else:
            yield entry


_NUMBERS = frozenset((int, float, bool))
_PLAIN = ("builtins", "numpy", "fractions")


def to_pairs(parts: Sequence[T], pair: Callable[[T, T], T]) -> T:
    """Nest the parts of a tuple as pairs, the last innermost. A single part is returned as it is."""
    return reduce(lambda rest, part: pair(part, rest), reversed(parts))


def unwrap_single(value: Any) -> Any:
    """Return the only part of a tuple of one, since its type is that of its part; any other value unchanged."""
    while isinstance(value, tuple) and len(value) == 1:
        (value,) = value
    return value


def split_tuple(value: tuple[Any, ...]) -> tuple[Any, Any]:
    """Split a tuple into its first part and the rest."""
    value = unwrap_single(value)
    return value[0], tuple(value)[1:] if len(value) > 2 else value[1]


def from_pairs(value: Any, layout: Layout) -> Any:
    """Convert nested pairs to the tuple that the user's program returned."""
    if layout is None:
        return value
    parts = []
    for inner in layout[:-1]:
        parts.append(from_pairs(value[0], inner))
        value = value[1]
    parts.append(from_pairs(value, layout[-1]))
    return layout.form.rebuild_value(parts) if isinstance(layout, Laid) else tuple(parts)


def soa(type_: Type) -> Type:
    """Return a type in struct-of-arrays form: arrays of pairs become pairs of arrays. Pair elimination gives every output this
    form.
    """
    match type_:
        case Product(first, second):
            return Product(soa(first), soa(second))
        case Array(size, element):
            inner = soa(element)
            if isinstance(inner, Product):
                return Product(soa(Array(size, inner.first)), soa(Array(size, inner.second)))
            return Array(size, inner)
    return type_


def struct_of_arrays(value: Any, type_: Type) -> Any:
    """Convert a value to the struct-of-arrays form of its type."""
    match type_:
        case Product(first, second):
            return struct_of_arrays(value[0], first), struct_of_arrays(value[1], second)
        case Array(_, element) if len(leaves(soa(element))) > 1:
            return _gather_entries(
                soa(element), [struct_of_arrays(entry, element) for entry in value]
            )
    return value


def _gather_entries(type_: Type, entries: list[Any]) -> Any:
    """Convert a list of tuples, of a type in struct-of-arrays form, to a tuple of lists."""
    if not isinstance(type_, Product):
        return entries
    parts = enumerate((type_.first, type_.second))
    return tuple(_gather_entries(part, [entry[k] for entry in entries]) for k, part in parts)
