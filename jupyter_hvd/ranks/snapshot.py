"""Snapshots of what names refer to on a rank before and after a cell, and their difference as assignments for the notebook.

A snapshot has a node for each object below these names: an object with weights or a state by a digest of these, any other by
marks of what it holds. The difference of two is a list of assignments, which another process applies to its own objects.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ..runtime.sharing.context import sharing
from . import training_state
from .linked_pickle import pack_linked
from .paths import (
    LEAVES,
    TRAINED,
    AccessPath,
    Reached,
    Step,
    group_paths,
    kept_by,
    objects_below,
    own_attributes,
    plain_of_model,
    states_of_model,
    weighted_objects,
)
from .serialization import (
    SMALL,
    SerializedValue,
    digest_value,
    is_plain,
    keras_kind,
    pack_value,
    rate_of,
    size_of,
    weights_of,
)

#: Bytes up to which a plain value comes back that an object of the user's own holds.
SMALL_PART = 2**20


class Assignment(NamedTuple):
    """What a name, an object at a path, or an entry or attribute of it holds otherwise than before.

    Attributes:
        paths: the name, or what leads to the object now. value: None, where it holds nothing there any more.
        place: in the object; None, where it is the name, or the weights of the object.
        before: for weights, what led to the object before, and so leads to its counterpart in the notebook; none, where it was
            not there.
    """

    paths: tuple[AccessPath, ...]
    value: SerializedValue | None
    place: Step | None = None
    before: tuple[AccessPath, ...] = ()

    @property
    def is_of_weights(self) -> bool:
        """Whether this sets the weights or the state of an object that is there."""
        return self.place is None and self.value is not None and self.value.kind in TRAINED

    def set_value(self, namespace: dict[str, Any], owner: Any, value: Any) -> None:
        """Bind the name, or set or remove the part of `owner`, that this assignment is about."""
        if self.place is None:
            namespace[self.paths[0].name] = value
        elif self.value is not None:
            self.place.set_value(owner, value)
        else:
            self.place.remove_value(owner)

    def __str__(self) -> str:
        return f"{self.paths[0]}{self.place or ''}"


@dataclass(frozen=True)
class Node:
    """An object that was there, how it was reached, and what it held; kept, so that nothing else gets its id.

    Attributes:
        digest: of its weights or state; None, where it has none. held: what stood at its places, as digests and ids.
    """

    value: Any
    paths: tuple[AccessPath, ...]
    digest: int | None
    held: Mapping[Step, Any]


@dataclass(frozen=True)
class Snapshot:
    """The objects below some names, by id, and the values of other names."""

    nodes: Mapping[int, Node]
    named: Mapping[str, Any]

    def __contains__(self, value: object) -> bool:
        return id(value) in self.nodes

    @cached_property
    def paths(self) -> Mapping[int, AccessPath]:
        """The first path to each object, by its id."""
        return {key: node.paths[0] for key, node in self.nodes.items()}


def take_snapshot(
    namespace: Mapping[str, Any], roots: Sequence[str], named: Sequence[str] = ()
) -> Snapshot:
    """Record what names refer to before a cell.

    Args:
        roots: names that refer to the corresponding objects in the kernel.
        named: names that the cell may bind.
    """
    own = [name for name in roots if not is_plain(namespace.get(name))]
    reached = group_paths(objects_below(namespace, own))
    nodes = {id(each.value): _make_node(*each) for each in reached if not is_plain(each.value)}
    return Snapshot(nodes, {name: namespace[name] for name in named if name in namespace})


def _make_node(value: Any, paths: tuple[AccessPath, ...]) -> Node:
    """Record a value: the digest of its weights, or marks that show a change of its parts."""
    has_weights = keras_kind(value) in TRAINED
    digest = digest_value(pack_value(value)) if has_weights else None
    return Node(value, paths, digest, {p: change_mark(part) for p, part in settable_parts(value)})


def find_delta(
    before: Snapshot, namespace: Mapping[str, Any], roots: Sequence[str], named: Sequence[str] = ()
) -> list[Assignment]:
    """Return the assignments that change the kernel's objects as a cell has changed the rank's.

    Args:
        before: the snapshot from before the cell.
        roots, named: as for `take_snapshot`.
    """
    there = {name: namespace[name] for name in named if name in namespace}
    return [
        *_changed_weights(before, namespace, [*dict.fromkeys((*roots, *named))]),
        *_changed_parts(before),
        *_changed_bindings(before, there),
    ]


def _changed_weights(
    before: Snapshot, namespace: Mapping[str, Any], roots: Sequence[str]
) -> Iterator[Assignment]:
    """Yield an assignment for each object whose weights or state changed, and for each new object with weights."""
    known = {k: node for k, node in before.nodes.items() if node.digest is not None}
    parts = {id(part) for node in known.values() for part in weights_of(node.value)}
    there = [Reached(node.value, node.paths) for node in known.values()]
    for each in weighted_objects(namespace, roots, TRAINED):
        node, own = known.get(id(each.value)), weights_of(each.value)
        is_new = keras_kind(each.value) == "weights" and not parts.issuperset(map(id, own))
        if not own or not (node or is_new):
            continue
        if node is None or node.digest != digest_value(pack_value(each.value)):
            found = training_state.pack_state(each, there)
            yield Assignment(each.paths, found, before=node.paths if node else ())


def _changed_parts(before: Snapshot) -> Iterator[Assignment]:
    """Yield an assignment or deletion for each part of an earlier object that has changed."""
    for node in before.nodes.values():
        now, owner = dict(settable_parts(node.value)), node.paths[:1]
        for place, part in now.items():
            if node.held.get(place) != change_mark(part):
                stays = isinstance(part, Rate)
                value = part.sent_value() if stays else pack_linked(part, before.paths, SMALL_PART)
                yield Assignment(owner, value, place)
        for place in node.held.keys() - now.keys():
            yield Assignment(owner, None, place)


def _changed_bindings(before: Snapshot, namespace: Mapping[str, Any]) -> Iterator[Assignment]:
    """Yield an assignment for each name that refers to another object than before, or to a copied value.

    Models and variables are left out: their weights are sent separately.
    """
    for name, value in namespace.items():
        is_copied = keras_kind(value) not in TRAINED and value not in before
        if is_copied and (packed := pack_value(value)).kind != "none":
            yield Assignment((AccessPath(name),), packed)
        elif value is not before.named.get(name) or value not in before:
            link = pack_linked(value, before.paths, SMALL)
            if is_plain(value):
                link = replace(link, why=f"{link.why}. `%hvd pull {name}` brings it")
            if link.kind == "linked" or keras_kind(value) != "weights":
                yield Assignment((AccessPath(name),), link)


def settable_parts(value: Any) -> Iterator[tuple[Step, Any]]:
    """Yield the parts of an object that can be assigned, each with the step that leads to it."""
    if keras_kind(value) in TRAINED:
        parts = {**states_of_model(value), **plain_of_model(value)}
        yield from ((Step("attribute", name), part) for name, part in parts.items())
        if hasattr(value, "apply_gradients"):
            yield Step("attribute", "learning_rate"), Rate(rate_of(value))
        return
    if isinstance(value, dict) and all(map(is_plain, value)):
        yield from ((Step("entry", key), part) for key, part in [*value.items()])
    elif isinstance(value, dict):
        yield Step("all", None), tuple(value.items())
    elif isinstance(value, (list, set, deque)):
        yield Step("all", None), tuple(value)
    if isinstance(value, types.FunctionType):
        yield from ((Step("kept", name), part) for name, part in kept_by(value).items())
    yield from ((Step("attribute", name), part) for name, part in own_attributes(value).items())


@dataclass(frozen=True)
class Rate:
    """A learning rate, which of ranks that share nothing is another one in the notebook."""

    value: float | None

    def __str__(self) -> str:
        return "a schedule" if self.value is None else f"{self.value:g}"

    def sent_value(self) -> SerializedValue:
        """Serialize the rate; of kind "none" if ranks share nothing, since theirs differs from the kernel's."""
        if sharing.active and self.value is not None:
            return pack_value(self.value)
        why = f"it is {self} there, for all ranks together; set it in an ordinary cell, too"
        return SerializedValue("none", why=why)


@dataclass(frozen=True, eq=False)
class IdentityKey:
    """Stands for an object, and keeps it, so that nothing else gets its id."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and other.value is self.value


def change_mark(value: Any) -> Any:
    """Return a value that differs when an object does: by content if it is plain and small, else by identity."""
    if isinstance(value, Rate):
        return value
    if isinstance(value, LEAVES):
        return type(value), repr(value) if value != value else value
    if is_plain(value) and size_of(value) <= SMALL_PART:
        return digest_value(pack_value(value))
    return tuple(map(change_mark, value)) if isinstance(value, tuple) else IdentityKey(value)
