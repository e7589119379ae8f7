"""Functions with Horovod's usual names, which only mark what sharing does anyway."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

#: Models whose weights were broadcast.
_broadcast: WeakSet[Any] = WeakSet()


def DistributedGradientTape(tape: Any) -> Any:  # noqa: N802 — as Horovod calls it
    """Return the tape unchanged: the ranks average the gradients that any tape takes for variables."""
    return tape


def DistributedOptimizer(optimizer: Any) -> Any:  # noqa: N802 — as Horovod calls it
    """Return the optimizer, or its name, unchanged: its gradients are averaged already."""
    return optimizer


def BroadcastGlobalVariablesCallback(root_rank: int = 0) -> Any:  # noqa: N802 — as Horovod calls it
    """Make a `fit` callback that gives all ranks the root rank's weights of a model, once, when its first training
    begins.

    The weights are equal already, since all ranks draw the same random numbers. A model built by its first batch has
    none yet.
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
    """Return the TensorFlow variable in a variable of Keras 3; other variables are returned unchanged."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value
