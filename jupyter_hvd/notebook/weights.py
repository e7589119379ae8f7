"""Matches weights in the notebook with weights on the ranks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ranks.paths import TRAINED, AccessPath, Reached, group_paths, weighted_objects
from ..ranks.serialization import SerializedValue, digest_value, keras_kind, weights_of


@dataclass(frozen=True)
class WeightedObject:
    """An object with weights in the notebook.

    Attributes:
        paths: that lead to it, here and on the ranks. weights: that the ranks are to have there.
    """

    value: Any
    paths: tuple[AccessPath, ...]
    weights: SerializedValue
    digest: int

    def is_known(self, sent_digests: Mapping[str, int]) -> bool:
        """Whether the ranks have these weights under all paths, by the digests of what they have."""
        return all(sent_digests.get(str(path)) == self.digest for path in self.paths)


def outermost_objects(objects: Sequence[WeightedObject]) -> list[WeightedObject]:
    """Return these objects without those whose weights are part of another's."""
    own = [frozenset(map(id, weights_of(each.value))) for each in objects]
    return [
        one
        for place, one in enumerate(objects)
        if not any(
            own[place] < other or (own[place] == other and k < place) for k, other in enumerate(own)
        )
    ]


def paths_in_use(paths: Sequence[AccessPath], used: Collection[str]) -> tuple[AccessPath, ...]:
    """Return those of an object's paths whose names a cell uses; all paths if there are none.

    Paths from other names may lead to another object on the other side, for example through a loop variable.
    """
    return tuple(path for path in paths if path.name in used) or tuple(paths)


def find_counterparts(
    paths: Sequence[AccessPath], namespace: Mapping[str, Any], used: Collection[str]
) -> list[Reached]:
    """Return the kernel's objects that correspond to an object on the ranks, with their access paths.

    There may be several, if a cell has given one object a second name on the ranks.
    """
    values = {path: path.follow_path(namespace) for path in paths}
    there = [path for path in paths if keras_kind(values[path]) in TRAINED]
    return group_paths((path, values[path]) for path in paths_in_use(there, used))


def replicated_digests(answers: Collection[Mapping[str, int]]) -> dict[str, int]:
    """Return the digests that are the same on all ranks."""
    first, *others = answers
    return {path: own for path, own in first.items() if all(o.get(path) == own for o in others)}


def make_weighted_object(
    value: Any, paths: Sequence[AccessPath], used: Collection[str], weights: SerializedValue
) -> WeightedObject:
    """Return an object of the kernel with the paths that a cell uses, and the weights that the ranks should have."""
    return WeightedObject(value, paths_in_use(paths, used), weights, digest_value(weights))


def same_models(namespace: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return for each name the names that refer to the same models, to layers of them, or to containers of them."""
    parts: dict[str, set[int]] = {}
    for each in weighted_objects(namespace, names):
        for path in each.paths:
            if all(step.kind in ("entry", "place") for step in path.steps):
                parts.setdefault(path.name, set()).update(parts_of_model(each.value))
    by_part: dict[int, set[str]] = {}
    for name, own in parts.items():
        for part in own:
            by_part.setdefault(part, set()).add(name)
    return {name: frozenset().union(*(by_part[p] for p in own)) for name, own in parts.items()}


def parts_of_model(model: Any) -> set[int]:
    """Return the ids of a model, its layers and its variables; models that share a part have an id in common."""
    layers = model._flatten_layers() if hasattr(model, "_flatten_layers") else [model]
    return {*map(id, (*layers, *weights_of(model), model))}


def shortest_path(paths: Sequence[AccessPath]) -> str:
    """Return the shortest access path of an object, which names it in messages."""
    return str(min(paths, key=lambda path: len(path.steps)))


#: Why what is in a set, and has no other name, has no counterpart.
NO_ORDER = "members of a set have no order that processes share. Keep them in a list or a dict, or give them names"
