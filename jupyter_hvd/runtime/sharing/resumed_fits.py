"""`--restarts` and `--elastic` with `--batch global`: epochs of `fit` that were completed are not computed again.

A job that is started again runs its program from the beginning, on as many ranks as there are then. With the same seed it
comes to the same calls of `fit`. After each epoch rank 0 has stored what the next one goes on from. In the epochs that were
completed, `fit` only reads its data, which leaves datasets as they were; then all ranks take up what was stored. Since
results do not depend on the number of ranks, they are still those of one process.

A `fit` is computed again where more than is stored may have changed in it: see `is_resumable`.
"""

from __future__ import annotations

import inspect
import itertools
import os
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..observe import Function, observe
from .random_state import RandomState, random_state, set_random_state
from .report import report_line

#: Names the folder in which completed epochs are stored.
STATE_VARIABLE = "JUPYTER_HVD_STATE"
#: Callbacks of Keras all of whose state is in plain attributes, and which write no file that they go on in.
CALLBACKS = (
    "EarlyStopping",
    "History",
    "LearningRateScheduler",
    "ModelCheckpoint",
    "ReduceLROnPlateau",
    "TerminateOnNaN",
)
#: Methods by which a model would do more in a step than what its layers do.
STEPS = ("train_step", "test_step", "make_train_function", "make_test_function", "compute_loss")
#: Methods of a list of callbacks that say nothing of an epoch that is only read.
SILENT = (
    "on_epoch_begin",
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_test_begin",
    "on_test_end",
    "on_test_batch_begin",
    "on_test_batch_end",
)


@dataclass(frozen=True)
class CompletedEpoch:
    """The state from which the next epoch starts.

    Attributes:
        epoch: its number. stopped: the training ended with it.
        variables: the values of the model's and its optimizer's variables. callbacks: the plain attributes of each callback.
    """

    epoch: int
    stopped: bool
    variables: tuple[Any, ...]
    callbacks: tuple[Mapping[str, Any], ...]
    random: RandomState


class RunningFit:
    """A call of `fit` that stores its completed epochs, and restores those of an earlier run instead of computing them.

    Attributes:
        reads: whether a completed epoch is being skipped: its data are read, and nothing is computed.
    """

    def __init__(self, model: Any, file: Path, completed: CompletedEpoch | None) -> None:
        self._model, self._file, self._completed = model, file, completed
        self._functions: tuple[Any, Any] = (None, None)
        self.reads = False

    def begin_fit(self) -> None:
        """Prepare the first epoch, after Keras has made the functions that compute steps."""
        if self._completed is None:
            return
        self.reads = True
        model = self._model
        self._functions = model.train_function, model.test_function
        model.train_function = model.test_function = self._read_step
        model.get_metrics_result = dict  # those that no step has updated have no result
        report_line(f"fit goes on after epoch {self._completed.epoch + 1}")

    def _read_step(self, iterator: Iterator[Any]) -> Mapping[str, Any]:
        """Read the batches of one step, at least one, without computing."""
        next(iterator)
        for _ in range(self._model.steps_per_execution - 1):
            if next(iterator, None) is None:
                break
        return {}

    def end_epoch(self, epoch: int, callbacks: list[Any]) -> None:
        """Store a computed epoch, or restore a completed one at its end."""
        if not self.reads:
            self._store_epoch(epoch, callbacks)
        elif self._completed is not None and epoch == self._completed.epoch:
            self.reads = False
            self._restore_epoch(self._completed, callbacks)

    def _store_epoch(self, epoch: int, callbacks: list[Any]) -> None:
        """Store the state after an epoch, on rank 0, and wait until it is stored."""
        import horovod.tensorflow as hvd

        from ..process import _broadcast_value

        if hvd.rank() == 0:
            values = tuple(variable.numpy() for variable in self._stored_variables())
            plain = tuple(map(plain_attributes, callbacks))
            stopped = bool(self._model.stop_training)
            write_completed(
                self._file, CompletedEpoch(epoch, stopped, values, plain, random_state())
            )
        _broadcast_value(self._file)

    def _restore_epoch(self, completed: CompletedEpoch, callbacks: list[Any]) -> None:
        """Restore the state after a completed epoch.

        Raises:
            RuntimeError: the stored training is another one.
        """
        model = self._model
        model.train_function, model.test_function = self._functions
        del model.get_metrics_result
        variables = self._stored_variables()
        shapes = [tuple(variable.shape) for variable in variables]
        if shapes != [value.shape for value in completed.variables]:
            raise RuntimeError(
                "jupyter_hvd: this fit trains another model than when the job was interrupted, so the program does not "
                "repeat itself: leave out --elastic and --restarts"
            )
        for variable, value in zip(variables, completed.variables, strict=True):
            variable.assign(value)
        for callback, attributes in zip(callbacks, completed.callbacks, strict=False):
            vars(callback).update(attributes)
        model.stop_training = completed.stopped
        set_random_state(completed.random)

    def _stored_variables(self) -> list[Any]:
        """Return the variables of the model and its optimizer."""
        model, optimizer = self._model, self._model.optimizer
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        return [*model.variables, *optimizer.variables]


def install_resuming(module: Any) -> None:
    """Let each `fit` of Keras 3 be stored and resumed; with another Keras, each is computed again.

    Args:
        module: a Keras.
    """
    if not module.__version__.startswith("3."):
        return
    running: list[RunningFit | None] = []
    numbers = itertools.count()
    signature = inspect.signature(module.Model.fit)

    def resumed(fit: Function, /, *args: Any, **options: Any) -> Any:
        given = signature.bind(*args, **options).arguments
        # All calls are counted, so that each has the same number whenever the program runs.
        file = Path(os.environ[STATE_VARIABLE]) / f"fit-{next(numbers)}.pickle"
        stored = is_resumable(module, given)
        running.append(RunningFit(given["self"], file, completed_epoch(file)) if stored else None)
        try:
            return fit(*args, **options)
        finally:
            running.pop()

    def current() -> RunningFit | None:
        return running[-1] if running else None

    def silenced(method: Function, /, *args: Any, **options: Any) -> None:
        found = current()
        if found is None or not found.reads:
            method(*args, **options)

    def begun(begin: Function, callbacks: Any, logs: Any = None) -> None:
        begin(callbacks, logs)
        if (found := current()) is not None:
            found.begin_fit()

    def ended(end: Function, callbacks: Any, epoch: int, logs: Any = None) -> None:
        found = current()
        if found is None or not found.reads:
            end(callbacks, epoch, logs)
        if found is not None:
            # The progress bar last: where only rank 0 shows it, the other ranks have none.
            bars_last = sorted(
                callbacks.callbacks, key=lambda c: type(c).__name__ == "ProgbarLogger"
            )
            found.end_epoch(epoch, bars_last)

    observe(module.Model, "fit", resumed)
    kind = module.callbacks.CallbackList
    for name in SILENT:
        observe(kind, name, silenced)
    observe(kind, "on_train_begin", begun)
    observe(kind, "on_epoch_end", ended)


def is_resumable(module: Any, arguments: Mapping[str, Any]) -> bool:
    """Whether a `fit` changes only state that is stored, and its data can be read without computing.

    This holds for Keras' own layers, optimizers and steps, and for those of its callbacks that have only plain
    attributes, on arrays and datasets.

    Args:
        arguments: the arguments, including `self`.
    """
    import numpy as np
    import tensorflow as tf

    model = arguments["self"]
    parts = [*model._flatten_layers(), model.optimizer]
    if not all(is_of_keras(type(part)) and type(part).__name__ != "Lambda" for part in parts):
        return False
    if not all(is_of_keras(getattr(type(model), name)) for name in STEPS):
        return False
    kinds = tuple(getattr(module.callbacks, name) for name in CALLBACKS)
    callbacks = tf.nest.flatten(arguments.get("callbacks") or [])
    if not all(
        type(each) in kinds or getattr(each, "_hvd_keeps_nothing", False) for each in callbacks
    ):
        return False
    data = [arguments.get("x"), arguments.get("validation_data")]
    leaves = [leaf for each in data for leaf in tf.nest.flatten(each)]
    return all(
        leaf is None or isinstance(leaf, np.ndarray | tf.Tensor | tf.data.Dataset)
        for leaf in leaves
    )


def is_of_keras(thing: Any) -> bool:
    """Whether an object's class or function is Keras's own."""
    return (getattr(thing, "__module__", None) or "").startswith("keras.")


def plain_attributes(callback: Any) -> Mapping[str, Any]:
    """Return the attributes of a callback that are plain values, which can be stored."""
    return {name: value for name, value in vars(callback).items() if is_plain(value)}


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, an array, or a list or dictionary of such."""
    import numpy as np

    if isinstance(value, Mapping):
        return all(map(is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return isinstance(value, bool | int | float | str | np.ndarray | np.generic | type(None))


def write_completed(file: Path, completed: CompletedEpoch) -> None:
    """Write the epoch atomically, so that an interrupted job leaves the old file or the new one."""
    new = file.with_suffix(".new")
    new.write_bytes(pickle.dumps(completed))
    new.replace(file)


def completed_epoch(file: Path) -> CompletedEpoch | None:
    """Return, on all ranks, the last epoch of a `fit` that rank 0 has stored; None where there is none."""
    import horovod.tensorflow as hvd

    stored = None
    if hvd.rank() == 0 and file.exists():
        stored = pickle.loads(file.read_bytes())  # noqa: S301 — written by rank 0 of this job
    completed: CompletedEpoch | None = hvd.broadcast_object(stored, root_rank=0)
    return completed
