"""Callbacks of `fit`, for any Keras: equal weights at the start, metrics of all ranks, a rate that grows."""

from __future__ import annotations

from typing import Any

from .optimizer import _average_outside
from .weights import _tensorflow_variable, _variables


def BroadcastGlobalVariablesCallback(root_rank: int = 0) -> Any:  # noqa: N802 — as Horovod calls it
    """After the first batch of `fit` all ranks go on from the root rank's weights and optimizer state.

    Before it a model that its first batch builds has no weights, and the optimizer no state. Random
    numbers of layers, and metrics, stay each rank's own. Steps of several ranks are compiled without XLA. At the end
    all ranks have the root rank's moving averages, which no gradient changes.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    class BroadcastGlobalVariables(tf.keras.callbacks.Callback):  # type: ignore[misc]
        done = False

        def set_model(self, model: Any) -> None:
            super().set_model(model)
            # XLA, with which Keras 3 compiles a step unless told otherwise, cannot hold what ranks exchange.
            if hvd.size() > 1 and getattr(model, "jit_compile", False):
                model.jit_compile = False

        def on_train_begin(self, logs: Any = None) -> None:
            _average_outside(getattr(self.model, "optimizer", None))

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if self.done:
                return
            self.done = True
            optimizer = getattr(self.model, "optimizer", None)
            for owner in (self.model, optimizer):
                if owner is not None:
                    hvd.broadcast_variables(_variables(owner), root_rank=root_rank)

        def on_train_end(self, logs: Any = None) -> None:
            # What a step changes and no gradient does, as moving averages do, differs; data may be chosen by it next.
            trained = {id(_tensorflow_variable(v)) for v in self.model.trainable_variables}
            others = [v for v in _variables(self.model) if id(v) not in trained]
            if self.done and others and hvd.size() > 1:
                hvd.broadcast_variables(others, root_rank=root_rank)

    return BroadcastGlobalVariables()


def MetricAverageCallback(each_batch: bool = False) -> Any:  # noqa: N802 — as Horovod calls it
    """At the end of an epoch all callbacks behind this one see the metrics averaged over the ranks.

    Args:
        each_batch: at the end of a batch, too, for a callback that stops then.
    """
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf

    class MetricAverage(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.average(logs)

        def average(self, logs: Any) -> None:
            if not logs or hvd.size() == 1:
                return
            names = sorted(logs)
            metrics = [tf.constant(np.asarray(logs[name], np.float64)) for name in names]
            for name, mean in zip(names, hvd.grouped_allreduce(metrics), strict=True):
                logs[name] = mean.numpy() if mean.shape.rank else float(mean)

    class BatchMetricAverage(MetricAverage):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.average(logs)

    return BatchMetricAverage() if each_batch else MetricAverage()


def LearningRateWarmupCallback(initial_lr: float, warmup_epochs: int = 5) -> Any:  # noqa: N802
    """In the first epochs the learning rate grows from one process's to that of all ranks, batch by batch.

    Where `fit` does not know yet how many batches an epoch has, the first epoch keeps one process's rate.

    Args:
        initial_lr: the rate of all ranks, to be reached.
        warmup_epochs: after so many epochs.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    class LearningRateWarmup(tf.keras.callbacks.Callback):  # type: ignore[misc]
        epoch = 0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch
            self.reach(epoch)

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if self.epoch < warmup_epochs and self.params.get("steps"):
                self.reach(self.epoch + batch / self.params["steps"])

        def reach(self, epochs: float) -> None:
            if epochs <= warmup_epochs:
                share = (1 + epochs * (hvd.size() - 1) / warmup_epochs) / hvd.size()
                self.model.optimizer.learning_rate = initial_lr * share

    return LearningRateWarmup()
