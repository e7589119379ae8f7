"""Functions with Horovod's usual names, which only mark what sharing does anyway."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

#: Models whose weights were broadcast.
_broadcast: WeakSet[Any] = WeakSet()


def DistributedGradientTape(tape: Any) -> Any:  # noqa: N802 — as Horovod calls it
    """The tape itself: the ranks average the gradients that a tape takes for variables."""
    return tape


def DistributedOptimizer(optimizer: Any) -> Any:  # noqa: N802 — as Horovod calls it
    """The optimizer itself, or its name: it is given gradients that are averaged over the ranks."""
    return optimizer


def BroadcastGlobalVariablesCallback(root_rank: int = 0) -> Any:  # noqa: N802 — as Horovod calls it
    """A callback of `fit` that gives all ranks the root rank's weights of a model, once, when its first training begins.

    They are equal already: all ranks draw the same. A model that its first batch builds has none yet.
    """
    import tensorflow as tf

    class BroadcastGlobalVariables(tf.keras.callbacks.Callback):  # type: ignore[misc]
        #: A `fit` with it goes on after a fault, behind the epochs that were completed.
        _hvd_keeps_nothing = True

        def on_train_begin(self, logs: Any = None) -> None:
            from .sharing.context import sharing

            if not sharing.active or self.model in _broadcast:
                return
            import horovod.tensorflow as hvd

            _broadcast.add(self.model)
            # Keras 2 raises where there are no weights yet.
            given = self.model.weights if self.model.built else []
            if weights := [_tensorflow_variable(each) for each in given]:
                hvd.broadcast_variables(weights, root_rank=root_rank)

    return BroadcastGlobalVariables()


def _tensorflow_variable(variable: Any) -> Any:
    """What a variable of Keras 3 holds; other variables are their own, and `value` is a method of theirs."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value
