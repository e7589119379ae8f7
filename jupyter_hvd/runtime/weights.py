"""All ranks train the same model: they go on from rank 0's weights."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from .guard import compare_ranks

#: For each optimizer the models and variables, by identity, that have been broadcast with it.
_broadcast: MutableMapping[Any, MutableMapping[int, Any]] = WeakKeyDictionary()
#: Variables that have been broadcast, and those of them that were because others of their model were.
_alike: MutableMapping[int, Any] = WeakValueDictionary()
_beside_others: MutableMapping[int, Any] = WeakValueDictionary()


def broadcast_once(optimizer: Any, *trained: Any) -> None:
    """Take rank 0's weights and optimizer state on every rank, after the optimizer's first update only.

    Before the first update a model that its first batch builds has no weights, and the optimizer no state.
    It is told of every update, so that the guard (`start`) can compare the ranks.

    Args:
        optimizer: None where the program updates variables by itself.
        trained: models, layers, variables, or lists of these.
    """
    _broadcast_new(optimizer, trained)
    compare_ranks(*trained)


def broadcast_behind(result: Any, optimizer: Any, *trained: Any) -> Any:
    """What a step has given, after `broadcast_once`: for steps inside a larger expression, as `[step(batch) for batch in data]`.

    Args:
        optimizer, trained: as for `broadcast_once`.
    """
    broadcast_once(optimizer, *trained)
    return result


def broadcast_before(optimizer: Any, *trained: Any) -> None:
    """Take rank 0's weights on every rank before a call that makes many updates at once.

    Args:
        optimizer, trained: as for `broadcast_once`, which then finds all broadcast.

    Raises:
        RuntimeError: a model has no weights before its first batch.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    if hvd.size() == 1:
        return
    for each in tf.nest.flatten(trained):
        try:
            exist = bool(_variables(each))
        except ValueError:  # of a model that is not built
            exist = False
        if not exist:
            raise RuntimeError(
                f"{getattr(each, 'name', each)} has no weights before its first batch, and a whole epoch is compiled: the "
                "ranks cannot begin alike. Build the model first: model.build(shape), or call it on a batch"
            )
    _broadcast_new(optimizer, trained)


def _broadcast_new(optimizer: Any, trained: tuple[Any, ...]) -> None:
    """Broadcast what has not been broadcast with the optimizer."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    key = broadcast_once if optimizer is None else optimizer
    done = _broadcast.setdefault(key, WeakValueDictionary())
    new = [each for each in tf.nest.flatten(trained) if done.get(id(each)) is not each]
    if not new:
        return
    owners = new if optimizer is None else [*new, optimizer]
    given = [variable for each in owners for variable in _variables(each)]
    known = {*map(id, given)}
    parts = [v for each in new if _is_part(each) for v in _variables(each)]
    beside = _beside([each for each in new if _is_variable(each)] + parts)
    beside = [v for v in beside if id(v) not in known and id(v) not in _alike]
    found = [v for v in given if _beside_others.pop(id(v), None) is None] + beside
    _beside_others.update((id(v), v) for v in beside)
    _alike.update((id(v), v) for v in found)
    if found:
        hvd.broadcast_variables(list({id(v): v for v in found}.values()), root_rank=0)
    done.update((id(each), each) for each in new)


def forget_broadcasts() -> None:
    """Let all ranks broadcast anew after their next update, where a training was broken off on some sooner than on others."""
    for known in (_broadcast, _beside_others, _alike):
        known.clear()


def _is_variable(owner: Any) -> bool:
    return not hasattr(owner, "weights") and not hasattr(owner, "variables")


def _is_part(owner: Any) -> bool:
    """Whether something is a layer, and no model: it may be trained as a part of one, whose other layers are frozen."""
    import tensorflow as tf

    return isinstance(owner, tf.keras.layers.Layer) and not isinstance(owner, tf.keras.Model)


def _beside(variables: list[Any]) -> list[Any]:
    """All variables of the layers and models that have these, in an order that the ranks share.

    Who hands over `model.trainable_variables` trains a model, and what is frozen in it began on each rank by itself.
    """
    import gc

    import tensorflow as tf

    if not variables:
        return []
    places = {id(_tensorflow_variable(each)): k for k, each in enumerate(variables)}
    kinds = tf.keras.layers.Layer, tf.Module
    gc.collect()  # what is no longer used may be gone on some ranks
    found = []
    for each in gc.get_objects():
        if issubclass(type(each), kinds):
            try:
                own = _variables(each)
            except ValueError:  # it is not built
                continue
            known = [places[id(variable)] for variable in own if id(variable) in places]
            if known:
                found.append((known, [variable.name for variable in own], own))
    found.sort(key=lambda owner: owner[:2])
    return [variable for *_, own in found for variable in own]


def _variables(owner: Any) -> list[Any]:
    """TensorFlow's variables of a model or optimizer, for some of which they are a method; or the variable itself.

    A layer of Keras 3 counts metrics and random numbers among its variables, but not among its weights.
    """
    found = getattr(owner, "weights", None)
    if found is None:
        found = getattr(owner, "variables", [owner])
    return [_tensorflow_variable(each) for each in (found() if callable(found) else found)]


def _tensorflow_variable(variable: Any) -> Any:
    """What a variable of Keras 3 holds; other variables are their own, and `value` is a method of theirs."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value
