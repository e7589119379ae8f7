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


def pack_state(target: Reached, candidates: Sequence[Reached]) -> SerializedValue:
    """Serialize an object's weights or state; for an optimizer, with the paths to the variables that it trains.

    Args:
        candidates: the objects among which these variables are searched.
    """
    found = pack_value(target.value)
    if not is_optimizer(target.value):
        return found
    return replace(
        found, shape=paths_to_variables(trained_by(target.value, candidates), candidates)
    )


def is_optimizer(value: Any) -> bool:
    """Whether a value is an optimizer."""
    return keras_kind(value) == "state" and hasattr(value, "apply_gradients")


def trained_by(optimizer: Any, candidates: Sequence[Reached]) -> Sequence[Any]:
    """Return the variables that an optimizer trains, in its order.

    Keras 2 stores only their keys: variables that are not among `candidates` are None.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales losses
    places: Mapping[str, int] = getattr(optimizer, "_index_dict", {})
    if not places:
        return getattr(optimizer, "_trainable_variables", ())
    weights = (one.value for one in candidates if keras_kind(one.value) == "weights")
    known = {optimizer._var_key(v): v for value in weights for v in weights_of(value)}
    return [known.get(key) for key in sorted(places, key=places.__getitem__)]


def paths_to_variables(
    variables: Sequence[Any], candidates: Sequence[Reached]
) -> tuple[AccessPath, ...] | None:
    """Return paths that lead to variables; None if some cannot be reached from `candidates`."""
    known: dict[int, AccessPath] = {}
    for one in candidates:
        if keras_kind(one.value) == "weights":
            known.setdefault(id(one.value), one.paths[0])
            for place, variable in enumerate(weights_of(one.value)):
                steps = (Step("attribute", "weights"), Step("entry", place))
                path = AccessPath(one.paths[0].name, (*one.paths[0].steps, *steps))
                known.setdefault(id(variable), path)
    found = [known.get(id(variable)) for variable in variables]
    return None if None in found else tuple(path for path in found if path is not None)


def set_state(target: Any, packed: SerializedValue, namespace: Mapping[str, Any]) -> None:
    """Set packed weights or state in an object; an optimizer finds its variables by paths.

    Raises:
        ValueError: it does not fit.
    """
    if packed.kind == "state" and is_optimizer(target):
        variables = [path.follow_path(namespace) for path in packed.shape or ()]
        if not weights_of(target) and variables and all(v is not None for v in variables):
            target.build(variables)
    set_weights(target, packed)
