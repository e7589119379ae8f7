"""Copies a cell's changes from the ranks to the notebook. Works on a namespace alone, without any rank."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ranks import training_state
from ..ranks.linked_pickle import unpack_linked
from ..ranks.paths import Reached, objects_below, weighted_objects
from ..ranks.serialization import digest_value, pack_value
from ..ranks.snapshot import Assignment
from .weights import NO_ORDER, find_counterparts, shortest_path


@dataclass(frozen=True)
class DeltaResult:
    """What has become of a delta.

    Attributes:
        lines: of what stays on the ranks, and why. parted: names that lead to other things there than here.
        digests: of the weights that both have now, by path.
    """

    lines: Sequence[str]
    diverged: Collection[str]
    digests: Mapping[str, int]


def apply_delta(
    delta: Sequence[Assignment],
    namespace: dict[str, Any],
    names: Sequence[str],
    used: Collection[str],
) -> DeltaResult:
    """Change a namespace as a cell has changed that of rank 0.

    Paths led to the namespace's objects before the cell, so all are followed before any object is changed.

    Args:
        names: the user's names.
        used: the names that the cell uses.
    """
    weights = [each for each in delta if each.is_of_weights]
    found = [_find_counterparts(each, namespace, names, used) for each in weights]
    absent = [each for each, there in zip(weights, found, strict=True) if not there]
    ways = [path for each in absent for path in each.paths]
    # What the notebook has at these paths is other things.
    diverged = {path.name for path in ways if path.follow_path(namespace) is not None}
    others = [each for each in delta if not each.is_of_weights]
    diverged |= {
        name for each in others for name in _names_of_diverged_object(each, namespace, names)
    }
    lines = []
    for each, assign in [(each, _prepare_assignment(each, namespace)) for each in others]:
        why = assign()
        if why and (each.place is not None or each.paths[0].name in names):  # else Python tells
            lines.append(f"`{each}` in the notebook is not that of the ranks: {why}")
    digests: dict[str, int] = {}
    for each, there in zip(weights, found, strict=True):
        if line := _describe_untransferred(each, there, namespace):
            lines.append(line)
        for value, own in there:
            if failure := _set_weights(value, each, namespace):
                lines.append(
                    f"`{shortest_path(own)}` in the notebook is not that of the ranks: {failure}"
                )
            else:
                same = [path for path in each.paths if path.follow_path(namespace) is value]
                digests |= dict.fromkeys(map(str, same), digest_value(pack_value(value)))
    return DeltaResult(lines, diverged, digests)


def _find_counterparts(
    changed: Assignment, namespace: Mapping[str, Any], names: Sequence[str], used: Collection[str]
) -> list[Reached]:
    """Return the kernel's objects that get the weights of an object changed on the ranks.

    Where the cell has created the object, these are the objects that it replaces, unless other paths lead to them.
    """
    found = find_counterparts(changed.before or changed.paths, namespace, used)
    if changed.before:
        return found
    ways = {id(each.value): {*each.paths} for each in weighted_objects(namespace, names)}
    return [each for each in found if ways[id(each.value)] <= {*changed.paths}]


def _names_of_diverged_object(
    changed: Assignment, namespace: Mapping[str, Any], names: Sequence[str]
) -> set[str]:
    """Return the names of an object whose contents stay on the ranks and are all that it holds; else none."""
    stays = changed.value is not None and changed.value.kind == "none"
    if not stays or changed.place is None or changed.place.kind != "all":
        return set()
    owner = changed.paths[0].follow_path(namespace)
    return {path.name for path, value in objects_below(namespace, names) if value is owner}


def _prepare_assignment(changed: Assignment, namespace: dict[str, Any]) -> Callable[[], str]:
    """Return a function that makes an assignment in the kernel and returns why it failed, or "".

    The value is unpacked now, before any other assignment changes the namespace.
    """
    if changed.value is not None and changed.value.kind == "none":
        why = changed.value.why
        return lambda: why
    owner = changed.paths[0].follow_path(namespace)
    try:
        value = None if changed.value is None else unpack_linked(changed.value, namespace)
    except Exception as error:
        failure = str(error)
        return lambda: failure

    def assign() -> str:
        try:
            changed.set_value(namespace, owner, value)
        except Exception as error:  # a property of the user's own may raise anything
            return str(error) or type(error).__name__
        return ""

    return assign


def _describe_untransferred(
    changed: Assignment, counterparts: Sequence[Reached], namespace: Mapping[str, Any]
) -> str:
    """Return a line that says why weights stay on the ranks; "" if the kernel has taken them."""
    lost = [path for path in changed.paths if path.steps and path.follow_path(namespace) is None]
    if counterparts and (changed.before or not lost):
        return ""
    assert changed.value is not None
    none = "the notebook has no model or variable there"
    why = NO_ORDER if any(path.is_unordered for path in changed.paths) else none
    stay = "stay" if changed.value.kind == "weights" else "stays"
    known = f"the {changed.value.kind} of `{shortest_path(lost or changed.paths)}`"
    return f"{known} {stay} on the ranks: {why}"


def _set_weights(value: Any, changed: Assignment, namespace: Mapping[str, Any]) -> str:
    """Set weights in an object; return why that failed, or ""."""
    assert changed.value is not None
    try:
        training_state.set_state(value, changed.value, namespace)
    except Exception as error:
        return str(error) or type(error).__name__
    return ""
