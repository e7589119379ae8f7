"""All ranks train the same model: they go on from rank 0's weights."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

#: For each optimizer the models and variables, by identity, that have been broadcast with it.
_broadcast: MutableMapping[Any, MutableMapping[int, Any]] = WeakKeyDictionary()


def broadcast_once(optimizer: Any, *trained: Any) -> None:
    """Take rank 0's weights and optimizer state on every rank, after the optimizer's first update only.

    Before the first update a model that its first batch builds has no weights, and the optimizer no state.

    Args:
        trained: models, layers, variables, or lists of these.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    done = _broadcast.setdefault(optimizer, WeakValueDictionary())
    new = [each for each in tf.nest.flatten(trained) if done.get(id(each)) is not each]
    if not new:
        return
    variables = [variable for each in (*new, optimizer) for variable in _variables(each)]
    hvd.broadcast_variables(list({id(v): v for v in variables}.values()), root_rank=0)
    done.update((id(each), each) for each in new)


def _variables(owner: Any) -> list[Any]:
    """The variables of a model or optimizer, for some of which they are a method; or the variable itself."""
    found = getattr(owner, "variables", [owner])
    return list(found() if callable(found) else found)
