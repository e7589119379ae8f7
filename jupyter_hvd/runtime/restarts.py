"""Training that was interrupted goes on where it was, on all ranks alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from .calls import _arguments, _fit_arguments
from .process import _agreed
from .weights import _variables

#: Numbers the calls of `fit`, as often as the program is started.
_fits: Any = itertools.count()
#: Beside a backup of Keras': the rate that its run began with, and how many ranks that had.
_RANKS: str = "ranks.json"


def distributed_backup(backup: Callable[..., Any]) -> Callable[..., Any]:
    """Keras' class `BackupAndRestore`, whose callbacks go on from rank 0's backup on all ranks.

    Rank 0 alone keeps one. Without this it would go on from a later epoch than the others, which wait for it at the end.
    Keras writes over the backup before; here one takes the other's place when it is whole, so that a rank that ends while
    it writes leaves the one before.
    """
    import json
    import shutil
    import sys
    import tempfile
    from pathlib import Path

    import horovod.tensorflow as hvd

    def made(*args: Any, **options: Any) -> Any:
        if hvd.size() == 1:
            return backup(*args, **options)
        given = _arguments(backup, args, options)
        kept = Path(given["backup_dir"])
        before, following = (kept.with_name(kept.name + end) for end in (".before", ".following"))
        own = tempfile.TemporaryDirectory(prefix="backup-")
        given["backup_dir"] = own.name
        if hvd.rank():
            given["save_freq"] = sys.maxsize

        class Distributed(backup):  # type: ignore[valid-type, misc]
            _written: Any = None

            _begun_with: float | None = None

            def on_train_begin(self, logs: Any = None) -> None:
                whole = kept if kept.exists() else before
                files = {} if hvd.rank() else _contents(whole)
                files = hvd.broadcast_object(files, root_rank=0)
                rate, size = json.loads(files.pop(_RANKS, b"[null, 0]"))
                _write(files, Path(own.name))
                optimizer = self.model.optimizer
                self._begun_with = _rate(optimizer)
                if size:
                    with _following(optimizer, self._begun_with, rate, size):
                        super().on_train_begin(logs)
                else:
                    super().on_train_begin(logs)
                self._written = _times(own.name)

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                super().on_epoch_end(epoch, logs)
                self._replace()

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                super().on_train_batch_end(batch, logs)
                if given.get("save_freq", "epoch") != "epoch":
                    self._replace()

            def on_train_end(self, logs: Any = None) -> None:
                super().on_train_end(logs)
                if hvd.rank() == 0 and not _times(own.name):
                    for folder in (kept, before, following):
                        shutil.rmtree(folder, ignore_errors=True)

            def _replace(self) -> None:
                """Put what has been written in the place of the backup before."""
                times = {} if hvd.rank() else _times(own.name)
                if not times or times == self._written:
                    return
                self._written = times
                for folder in (following, before) if kept.exists() else (following,):
                    shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(own.name, following)
                (following / _RANKS).write_text(json.dumps([self._begun_with, hvd.size()]))
                if kept.exists():
                    kept.rename(before)
                following.rename(kept)
                shutil.rmtree(before, ignore_errors=True)

        callback = Distributed(**given)
        callback.own_directory = own  # which goes with the callback
        return callback

    return made


def _files(folder: Any) -> list[Any]:
    from pathlib import Path

    return sorted(file for file in Path(folder).rglob("*") if file.is_file())


def _times(folder: Any) -> dict[str, int]:
    """When each file of a folder was written."""
    return {str(file): file.stat().st_mtime_ns for file in _files(folder)}


def _contents(folder: Any) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in _files(folder)}


def _write(contents: dict[str, bytes], folder: Any) -> None:
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def resumed_fit(fit: Callable[..., Any]) -> Callable[..., Any]:
    """The method `fit` of a model, which goes on from the last epoch that was kept where a job is started again.

    `jupyter hvd run --restarts` names the folder in which rank 0 keeps, after each epoch, the weights, the optimizer's state and
    the history of each `fit`; without such a folder this is `fit` itself, and with `--batch global`, where each `fit` goes on by
    itself. A `fit` that came to its end is not done again.
    """
    import inspect
    import os
    from pathlib import Path

    import horovod.tensorflow as hvd
    import tensorflow as tf

    folder = os.environ.get("JUPYTER_HVD_STATE")
    if not folder or os.environ.get("JUPYTER_HVD_RESUME") == "1":
        return fit

    def resumed(*args: Any, **options: Any) -> Any:
        given = _fit_arguments(fit, args, options)
        file = Path(folder) / f"fit-{next(_fits)}.npz"
        epochs = given.get("epochs") or 1
        state, arrays = _kept(file) if hvd.rank() == 0 else (None, [])
        state = hvd.broadcast_object(state, root_rank=0)
        done = state is not None and state["epoch"] >= epochs
        if state is not None:
            model = getattr(inspect.unwrap(fit), "__self__", None)
            # What its first batch builds has no weights yet; those of the epoch that builds it do not stay.
            again = done and not getattr(model, "built", False)
            given["initial_epoch"] = epochs - 1 if again else min(state["epoch"], epochs)
            if hvd.rank() == 0:
                kept = "was done before" if done else f"goes on after epoch {state['epoch']}"
                print(f"fit {kept}", flush=True)
        first, last = _keepers(file, state, arrays, done)
        given["callbacks"] = [first, *tf.nest.flatten(given.get("callbacks") or []), last]
        history = fit(**given)
        if done:
            first.take_up()
        else:
            last.keep(epochs)
        history.epoch, history.history = last.epochs, last.history
        return history

    return resumed


def _keepers(file: Any, state: Any, arrays: list[Any], done: bool) -> tuple[Any, Any]:
    """Two callbacks: one takes up a kept state, before rank 0's is broadcast; one keeps the next, after metrics are averaged."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    class TakeUp(tf.keras.callbacks.Callback):  # type: ignore[misc]
        waits = state is not None
        rate: float | None = None

        def on_train_begin(self, logs: Any = None) -> None:
            self.rate = _rate(getattr(self.model, "optimizer", None))
            self.waits = self.waits and not self.take_up()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if self.waits and not self.take_up():
                raise RuntimeError(
                    "this fit trains another model than it did when the job was interrupted: what was kept does not fit"
                )
            self.waits = False

        def take_up(self) -> bool:
            variables = _state_of(self.model)
            if [list(variable.shape) for variable in variables] != state["shapes"]:
                return False
            optimizer = getattr(self.model, "optimizer", None)
            with _following(optimizer, self.rate, state["rate"], state["size"]):
                for variable, array in zip(variables, arrays, strict=False):  # rank 0 has them
                    variable.assign(array.view(variable.dtype.as_numpy_dtype))
                hvd.broadcast_variables(variables, root_rank=0)
            return True

    class Keep(tf.keras.callbacks.Callback):  # type: ignore[misc]
        epochs: list[int] = [*state["epochs"]] if state else []
        history: dict[str, list[Any]] = (
            {k: [*v] for k, v in state["history"].items()} if state else {}
        )

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if done:
                return
            self.epochs.append(epoch)
            for name, value in (logs or {}).items():
                self.history.setdefault(name, []).append(value)
            self.keep(epoch + 1)
            _agreed(file)

        def keep(self, epoch: int) -> None:
            if hvd.rank() == 0:
                kept = {"epoch": epoch, "epochs": self.epochs, "history": self.history}
                _keep(file, _state_of(self.model), {**kept, "rate": first.rate})

    first = TakeUp()
    return first, Keep()


def _state_of(model: Any) -> list[Any]:
    """TensorFlow's variables of a model and its optimizer; none of what is not built yet."""
    if not model.built:
        return []
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not getattr(optimizer, "built", True):
        optimizer.build(model.trainable_variables)
    owners = [model] if optimizer is None else [model, optimizer]
    return [variable for owner in owners for variable in _variables(owner)]


def _keep(file: Any, variables: list[Any], kept: dict[str, Any]) -> None:
    """Write a state, so that the old or the new one is there, whole, whenever the job is interrupted."""
    import json

    import horovod.tensorflow as hvd
    import numpy as np

    shapes = [list(variable.shape) for variable in variables]
    state = {**kept, "shapes": shapes, "size": hvd.size()}
    new = file.with_suffix(".new")
    with new.open("wb") as stream:
        arrays = {str(number): variable.numpy() for number, variable in enumerate(variables)}
        np.savez(
            stream, state=json.dumps(state, default=lambda v: np.asarray(v).tolist()), **arrays
        )
    new.replace(file)


def _kept(file: Any) -> tuple[Any, list[Any]]:
    """A state and its arrays; None where nothing was kept."""
    import json

    import numpy as np

    if not file.exists():
        return None, []
    with np.load(file) as found:
        state = json.loads(str(found["state"]))
        return state, [found[str(number)] for number in range(len(state["shapes"]))]


def _rate(optimizer: Any) -> float | None:
    """The learning rate that an optimizer has now; None where it follows a schedule, or is none of Keras."""
    given = _inner(optimizer).get_config().get("learning_rate") if optimizer is not None else None
    return float(_inner(optimizer).learning_rate) if isinstance(given, (int, float)) else None


def _inner(optimizer: Any) -> Any:
    """The optimizer that has the rate: the one within an optimizer that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _following(optimizer: Any, own: float | None, kept: float | None, size: int) -> Any:
    """A block within which an optimizer's state is taken up, perhaps of a job of another number of ranks.

    The rate differs from the kept one as the program's own does from the one before, and where it follows a schedule, the
    count of steps becomes that of as many examples.

    Args:
        own: the rate that the program has begun with now. kept, size: that, and the number of ranks, when the state was kept.
    """
    import contextlib

    import horovod.tensorflow as hvd

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        inner = _inner(optimizer)
        if own is not None:
            inner.learning_rate = float(
                "nan"
            )  # and stays so where the rate is no part of the state
        yield
        if own is not None:
            taken = float(inner.learning_rate)
            inner.learning_rate = own if taken != taken else taken * own / (kept or own)
        elif size != hvd.size() and hasattr(inner, "iterations"):
            inner.iterations.assign(round(int(inner.iterations) * size / hvd.size()))

    return block()
