"""The training state beside weights: moments and counts of optimizers, metrics, random generators.

Like weights it is set in the object that the other side has. An optimizer that has not trained yet has no moments to be set:
it gets the access paths of the variables for which to make them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .paths import AccessPath, Reached, Step
from .serialization import SerializedValue, keras_kind, pack_value, set_weights, weights_of


def pack_state(each: Reached, among: Sequence[Reached]) -> SerializedValue:
    """Return an object with weights or a state as data, with the paths to what an optimizer trains, as far as these are in
    `among`.
    """
    found = pack_value(each.value)
    if not is_optimizer(each.value):
        return found
    return replace(found, shape=paths_to_variables(trained_by(each.value, among), among))


def is_optimizer(value: Any) -> bool:
    """Return whether a value is an optimizer."""
    return keras_kind(value) == "state" and hasattr(value, "apply_gradients")


def trained_by(optimizer: Any, among: Sequence[Reached]) -> Sequence[Any]:
    """Return the variables that an optimizer trains, in its order; for Keras 2, which keeps only their keys, those in `among`."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales losses
    places: Mapping[str, int] = getattr(optimizer, "_index_dict", {})
    if not places:
        return getattr(optimizer, "_trainable_variables", ())
    weights = (one.value for one in among if keras_kind(one.value) == "weights")
    known = {optimizer._var_key(v): v for value in weights for v in weights_of(value)}
    return [known.get(key) for key in sorted(places, key=places.__getitem__)]


def paths_to_variables(
    variables: Sequence[Any], among: Sequence[Reached]
) -> tuple[AccessPath, ...] | None:
    """Return paths that lead to variables; None if not all are reached."""
    known: dict[int, AccessPath] = {}
    for one in among:
        if keras_kind(one.value) == "weights":
            known.setdefault(id(one.value), one.paths[0])
            for place, variable in enumerate(weights_of(one.value)):
                steps = (Step("attribute", "weights"), Step("entry", place))
                path = AccessPath(one.paths[0].name, (*one.paths[0].steps, *steps))
                known.setdefault(id(variable), path)
    found = [known.get(id(variable)) for variable in variables]
    return None if None in found else tuple(path for path in found if path is not None)


def set_state(existing: Any, packed: SerializedValue, namespace: Mapping[str, Any]) -> None:
    """Set weights or a state in what there is.

    Raises:
        ValueError: it does not fit.
    """
    if packed.kind == "state" and is_optimizer(existing):
        variables = [path.follow_path(namespace) for path in packed.shape or ()]
        if not weights_of(existing) and variables and all(v is not None for v in variables):
            existing.build(variables)
    set_weights(existing, packed)
