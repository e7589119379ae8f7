"""The changes of a cell to the contents of objects: entries, attributes, names.

Models and the user's own objects never travel. But where a cell lets a dictionary, a list, an object or a name hold one that
was there before it (`models["best"] = models["a"]`), the notebook has its counterpart, and the path that led to it. So what
they hold travels with such paths in the place of what stays: a pickle whose persistent ids are paths.
"""

from __future__ import annotations

import io
import pickle
import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..runtime.sharing.context import sharing
from .paths import (
    LEAVES,
    TRAINED,
    AccessPath,
    Step,
    kept_by,
    objects_below,
    own_attributes,
    plain_of_model,
    states_of_model,
)
from .serialization import (
    PLAIN_MODULES,
    SMALL,
    SerializedValue,
    digest_value,
    is_plain,
    keras_kind,
    pack_value,
    rate_of,
    size_of,
    unpack_value,
    why_not,
)

#: Bytes up to which a plain value comes back that an object of the user's own holds.
SMALL_PART = 2**20
#: The modules of plain values and of containers, and of the functions that make them again.
MADE_ANEW = PLAIN_MODULES | {"_codecs", "copyreg", "jupyter_hvd", "types"}


class Place(NamedTuple):
    """Where an object holds something: `kind` and `key` as a step has them; or all that it holds, where order is part of that."""

    kind: str
    key: Any = None

    def set_value(self, owner: Any, value: Any) -> None:
        match self.kind:
            case "attribute":
                setattr(owner, self.key, value)
            case "kept":
                cells = dict(zip(owner.__code__.co_freevars, owner.__closure__, strict=True))
                cells[self.key].cell_contents = value
            case "entry":
                owner[self.key] = value
            case "all" if isinstance(owner, (list, deque)):
                owner.clear()
                owner.extend(value)
            case "all":
                owner.clear()
                owner.update(value)

    def remove_value(self, owner: Any) -> None:
        match self.kind:
            case "attribute":
                delattr(owner, self.key)
            case "entry":
                del owner[self.key]

    def __str__(self) -> str:
        return "" if self.kind == "all" else str(Step(self.kind, self.key))  # type: ignore[arg-type]


class Link(NamedTuple):
    """A changed name, or a changed entry or attribute of an object at a path.

    Attributes:
        path: the object's, or the name. place: None, where it is the name. value: None, where it holds nothing there any more.
    """

    path: AccessPath
    place: Place | None
    value: SerializedValue | None

    def set_value(self, namespace: dict[str, Any], owner: Any, value: Any) -> None:
        """Let the notebook's name, or the owner that it has at the path, hold a value."""
        if self.place is None:
            namespace[self.path.name] = value
        elif self.value is not None:
            self.place.set_value(owner, value)
        else:
            self.place.remove_value(owner)

    def __str__(self) -> str:
        return f"{self.path}{self.place or ''}"


@dataclass(frozen=True)
class Known:
    """An object that was there before the cell, how it was reached, and what it held, as ids and digests."""

    path: AccessPath
    value: Any
    held: Mapping[Place, Any]


@dataclass(frozen=True)
class Before:
    """The objects behind some names before a cell, by id, and the values of others; held, so that no id is reused."""

    objects: Mapping[int, Known]
    named: Mapping[str, Any]

    def __contains__(self, value: object) -> bool:
        return id(value) in self.objects


def note_objects(namespace: Mapping[str, Any], held: Sequence[str], named: Sequence[str]) -> Before:
    """Note what is there.

    Args:
        held: names that stand for what they stand for in the notebook. named: names that the cell may bind.
    """
    objects: dict[int, Known] = {}
    for path, value in objects_below(
        namespace, [n for n in held if not is_plain(namespace.get(n))]
    ):
        if id(value) not in objects and not is_plain(value):
            marks = {place: change_mark(part) for place, part in settable_parts(value)}
            objects[id(value)] = Known(path, value, marks)
    return Before(objects, {name: namespace[name] for name in named if name in namespace})


def changed_links(known: Before) -> Iterator[Link]:
    """What objects hold otherwise than before; those that were not there are others than the notebook's."""
    for one in known.objects.values():
        now = dict(settable_parts(one.value))
        for place, part in now.items():
            if one.held.get(place) != change_mark(part):
                stays = isinstance(part, Rate)
                yield Link(
                    one.path,
                    place,
                    part.sent_value() if stays else pack_linked(part, known, SMALL_PART),
                )
        for place in one.held.keys() - now.keys():
            yield Link(one.path, place, None)


def named_since(known: Before, namespace: Mapping[str, Any]) -> Iterator[Link]:
    """Which names stand for something else than before that comes back in no other way, or may."""
    for name, value in namespace.items():
        if value is not known.named.get(name) or value not in known:
            link = pack_linked(value, known, SMALL)
            if is_plain(value):
                link = replace(link, why=f"{link.why}. `%hvd pull {name}` brings it")
            if link.kind == "linked" or keras_kind(value) != "weights":
                yield Link(AccessPath(name), None, link)


def settable_parts(value: Any) -> Iterator[tuple[Place, Any]]:
    """The contents of an object that can be set."""
    if keras_kind(value) in TRAINED:
        parts = {**states_of_model(value), **plain_of_model(value)}
        yield from ((Place("attribute", name), part) for name, part in parts.items())
        if hasattr(value, "apply_gradients"):
            yield Place("attribute", "learning_rate"), Rate(rate_of(value))
        return
    if isinstance(value, dict) and all(map(is_plain, value)):
        yield from ((Place("entry", key), part) for key, part in [*value.items()])
    elif isinstance(value, dict):
        yield Place("all"), tuple(value.items())
    elif isinstance(value, (list, set, deque)):
        yield Place("all"), tuple(value)
    if isinstance(value, types.FunctionType):
        yield from ((Place("kept", name), part) for name, part in kept_by(value).items())
    yield from ((Place("attribute", name), part) for name, part in own_attributes(value).items())


@dataclass(frozen=True)
class Rate:
    """A learning rate, which of ranks that share nothing is another one in the notebook."""

    value: float | None

    def __str__(self) -> str:
        return "a schedule" if self.value is None else f"{self.value:g}"

    def sent_value(self) -> SerializedValue:
        if sharing.active and self.value is not None:
            return pack_value(self.value)
        why = f"it is {self} there, for all ranks together; set it in an ordinary cell, too"
        return SerializedValue("none", why=why)


@dataclass(frozen=True, eq=False)
class Same:
    """Stands for an object, and keeps it, so that nothing else gets its id."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value


def change_mark(value: Any) -> Any:
    """Changes when what stands at a place does: with its value where that is plain and small."""
    if isinstance(value, Rate):
        return value
    if isinstance(value, LEAVES):
        return type(value), repr(value) if value != value else value
    if is_plain(value) and size_of(value) <= SMALL_PART:
        return digest_value(pack_value(value))
    return tuple(map(change_mark, value)) if isinstance(value, tuple) else Same(value)


# On their way


def pack_linked(value: Any, known: Before, limit: int) -> SerializedValue:
    """A value, with paths to what was there before it; "none" where it is made of anything else that does not travel."""
    simple = pack_value(value, limit)
    if simple.kind in ("plain", "history") or is_plain(value):
        return simple
    data = io.BytesIO()
    try:
        _Pickler(data, known).dump(value)
    except Exception as error:
        why = str(error) if isinstance(error, StaysError) else simple.why
        return SerializedValue("none", why=f"{why}; make it in an ordinary cell")
    if data.tell() > limit:
        return SerializedValue("none", why=f"it is larger than {limit // 2**20} MB")
    return SerializedValue("linked", data.getvalue())


def unpack_linked(packed: SerializedValue, namespace: Mapping[str, Any]) -> Any:
    """The value, with what the paths lead to here.

    Raises:
        LookupError: one leads to nothing of its kind.
    """
    if packed.kind != "linked":
        return unpack_value(packed, None)
    return _Unpickler(io.BytesIO(packed.data), namespace).load()


class StaysError(Exception):
    """What holds a value back."""


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, known: Before) -> None:
        super().__init__(file, protocol=5)
        self._known = known

    def persistent_id(self, value: Any) -> tuple[AccessPath, bool] | None:
        known = self._known.objects.get(id(value))
        return None if known is None else (known.path, keras_kind(value) == "weights")

    def reducer_override(self, value: Any) -> Any:
        if keras_kind(value) in ("tensor", "history"):
            return unpack_value, (pack_value(value, None), None)
        named = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType))
        kind = value if named else type(value)
        top = (kind.__module__ or "").partition(".")[0]
        if (
            kind not in self._known and top not in MADE_ANEW
        ):  # a class may be one that the notebook has, too
            raise StaysError(why_not(value))
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, namespace: Mapping[str, Any]) -> None:
        super().__init__(file)
        self._namespace = namespace

    def persistent_load(self, known: tuple[AccessPath, bool]) -> Any:
        path, has_weights = known
        value = path.follow_path(self._namespace)
        if value is None or (keras_kind(value) == "weights") != has_weights:
            raise LookupError(f"the ranks have no `{path}`")
        return value
