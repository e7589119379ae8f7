"""A training run scaled up: N times the rows per step, N times the learning rate, and 1/N of the steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .observe import Function, observe

#: For how many ranks batches and rates are multiplied, where that is another number than that of the processes: one process
#: pretends to be so many, and a job that has lost ranks goes on as it began.
VIRTUAL_SIZE_VARIABLE = "JUPYTER_HVD_VIRTUAL_SIZE"
#: What an optimizer's rate is multiplied by when it updates weights, among the optimizer's attributes.
FACTOR = "_jupyter_hvd_rate_factor"
#: How that factor grows in the first epochs, where it does.
GROWTH = "_jupyter_hvd_rate_growth"
#: Whether it updates weights just now.
APPLYING = "_jupyter_hvd_applying"
#: The Kerases whose optimizers can be scaled by now.
_installed: set[str] = set()


def pretend_ranks() -> None:
    """Let `hvd.size()` return the size that the environment gives, once TensorFlow is imported; sharding is not affected."""
    import os
    import sys

    size = os.environ.get(VIRTUAL_SIZE_VARIABLE)
    if size is None:
        return
    from .sharing.program import FrameworkFinder

    def pretend_sizes() -> None:
        import horovod.tensorflow as hvd

        observe(hvd, "size", lambda _: int(size))

    if "tensorflow" in sys.modules:
        pretend_sizes()
    else:
        sys.meta_path.insert(0, FrameworkFinder(pretend_sizes))


# The learning rate


class WarmUp:
    """The warm-up of a learning rate in the first epochs of `fit`, batch by batch, from one process's rate to that of all
    ranks.

    Where `fit` does not know the number of batches in an epoch, the rate grows from epoch to epoch.

    Attributes:
        factor: a variable by which the rate is multiplied.
    """

    def __init__(self, size: int, epochs: int) -> None:
        import tensorflow as tf

        self._size, self._epochs = size, epochs
        self._completed = self._epoch = 0
        self.factor = tf.Variable(1.0, trainable=False)

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch.

        Args:
            epoch: its number in this `fit`; the optimizer may have trained in other calls before.
        """
        self._epoch = max(epoch, self._completed)
        self.set_progress(0.0)

    def set_progress(self, part: float) -> None:
        """Set the rate for the completed part of the epoch."""
        grown = min(1.0, (self._epoch + part) / self._epochs)
        self.factor.assign(1.0 + grown * (self._size - 1))

    def end_epoch(self) -> None:
        """Note that the present epoch is complete, so that the next one has the next rate."""
        self._completed = self._epoch + 1


def scale_rate(optimizer: Any, warmup_epochs: int = 0) -> Any:
    """Make an optimizer update weights at N times its learning rate, for N ranks, and return it.

    Only updates see the multiplied rate: what the program reads, sets and plots stays the rate of one process. A
    schedule gets N times the step, at which one process has seen as many examples. `iterations` counts the steps made.

    Args:
        optimizer: an optimizer of Keras 3, tf_keras or Keras 2; its name or configuration; or a compiled model.
        warmup_epochs: the first epochs of `fit`, in which the rate grows from batch to batch to its multiple.

    Raises:
        UntestedVersionError: this was not tested with its Keras.
    """
    import horovod.tensorflow as hvd

    if isinstance(optimizer, str | dict):
        import tensorflow as tf

        optimizer = tf.keras.optimizers.get(optimizer)
    if hvd.size() == 1 or optimizer is None:
        return optimizer
    if hasattr(optimizer, "compile") and hasattr(optimizer, "optimizer"):
        scale_rate(optimizer.optimizer, warmup_epochs)
        return optimizer
    inner = _unwrap_loss_scaling(optimizer)
    _install_scaling(type(inner))
    vars(inner)[FACTOR] = hvd.size()
    if warmup_epochs and GROWTH not in vars(inner):
        vars(inner)[GROWTH] = WarmUp(hvd.size(), warmup_epochs)
    return optimizer


def _unwrap_loss_scaling(optimizer: Any) -> Any:
    """Return the optimizer inside one that scales losses."""
    return getattr(optimizer, "inner_optimizer", None) or optimizer


def _install_scaling(kind: type) -> None:
    """Let the optimizers of a Keras apply their scaled rate."""
    import importlib

    packages = [base.__module__.partition(".")[0] for base in kind.__mro__]
    name = next((p for p in packages if p in ("keras", "tf_keras")), None)
    if name is None:
        raise TypeError(
            f"jupyter_hvd: {kind.__name__} is not a Keras optimizer: multiply its rate by hvd.size()"
        )
    if name not in _installed:
        from .sharing import keras_versions

        module = importlib.import_module(name)
        keras_versions.keras_of(module).install_rate_scaling()
        _install_warm_up(module.callbacks.CallbackList)
        _installed.add(name)


def _install_warm_up(callbacks: type) -> None:
    """Observe the callbacks of `fit`, and pass epochs and batches on to the warm-up of the model's optimizer."""

    def growth_of(called: Any) -> WarmUp | None:
        optimizer = getattr(getattr(called, "model", None), "optimizer", None)
        return (
            vars(_unwrap_loss_scaling(optimizer)).get(GROWTH)
            if hasattr(optimizer, "__dict__")
            else None
        )

    def observe_callback(name: str, tell: Callable[[WarmUp, Any, int], None]) -> None:
        def called(
            method: Function, original: Any, number: int, *args: Any, **options: Any
        ) -> None:
            if (growth := growth_of(original)) is not None:
                tell(growth, original, number)
            method(original, number, *args, **options)

        observe(callbacks, name, called)

    def begin_batch(growth: WarmUp, original: Any, batch: int) -> None:
        if steps := (getattr(original, "params", None) or {}).get("steps"):
            growth.set_progress(batch / steps)

    observe_callback("on_epoch_begin", lambda growth, _, epoch: growth.begin_epoch(epoch))
    observe_callback("on_train_batch_begin", begin_batch)
    observe_callback("on_epoch_end", lambda growth, *_: growth.end_epoch())


def rate_factor(optimizer: Any) -> int:
    """Return the number of ranks for which an optimizer is scaled: each of its steps counts as this many steps of one process."""
    return int(vars(optimizer).get(FACTOR, 1))


def update_rate(rate: Any, optimizer: Any) -> Any:
    """Return the rate with which an optimizer updates weights, given the program's rate."""
    growth: WarmUp | None = vars(optimizer).get(GROWTH)
    if growth is None:
        return rate * rate_factor(optimizer)
    import tensorflow as tf

    return rate * tf.cast(growth.factor, getattr(rate, "dtype", "float32"))


def is_updating(optimizer: Any) -> bool:
    """Whether an optimizer is updating weights right now."""
    return bool(vars(optimizer).get(APPLYING))


class ScaledConfig(dict[str, Any]):
    """The configuration of a scaled optimizer. An optimizer that is created from it is scaled too.

    Attributes:
        factor: multiplies the rate.
    """

    factor = 1

    def copy(self) -> ScaledConfig:
        """Return a copy that is also scaled when an optimizer is made from it."""
        return scaled_config(self, self.factor)


def scaled_config(config: Mapping[str, Any], factor: int) -> ScaledConfig:
    """Return an optimizer's configuration that remembers the factor by which its rate is multiplied."""
    found = ScaledConfig(config)
    found.factor = factor
    return found


def install_copies(kind: Any) -> None:
    """Let copies of scaled optimizers be scaled too: those by `from_config(get_config())`, and so by `deepcopy`."""

    def get(get_config: Function, optimizer: Any) -> Any:
        config, factor = get_config(optimizer), rate_factor(optimizer)
        return config if factor == 1 else scaled_config(config, factor)

    def make(from_config: Function, cls: Any, config: Any, *args: Any, **options: Any) -> Any:
        optimizer = from_config(cls, config, *args, **options)
        factor = getattr(config, "factor", 1)
        if factor != 1:
            optimizer.__dict__[FACTOR] = factor
        return optimizer

    def reduce(reduce_own: Function, optimizer: Any) -> Any:
        made, arguments, *state = reduce_own(optimizer)
        return rebuild_scaled, (rate_factor(optimizer), made, *arguments), *state

    observe(kind, "get_config", get)
    observe(kind, "from_config", make)
    if kind.__reduce__ is not object.__reduce__:  # Keras 3 saves an optimizer to copy it
        observe(kind, "__reduce__", reduce)


def rebuild_scaled(factor: int, make: Callable[..., Any], *arguments: Any) -> Any:
    """Copy an optimizer, and set the factor of its rate."""
    optimizer = make(*arguments)
    if factor != 1:
        vars(optimizer)[FACTOR] = factor
    return optimizer


@contextmanager
def applying_updates(optimizer: Any) -> Iterator[None]:
    """Let `learning_rate` return the scaled rate within the block, as an update needs it."""
    before = vars(optimizer).get(APPLYING, False)
    vars(optimizer)[APPLYING] = True
    try:
        yield
    finally:
        vars(optimizer)[APPLYING] = before


# Batches


def join_batches(batches: Any) -> Any:
    """Join as many consecutive batches into one as there are ranks; the last may be smaller.

    Args:
        batches: a `tf.data.Dataset`, a `PyDataset` or `Sequence` of Keras, or an iterable of batches. Arrays, which are not
            batches, are returned unchanged, with a message.
    """
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf

    size = hvd.size()
    if size == 1:
        return batches
    if isinstance(batches, np.ndarray | tf.Tensor | dict) or hasattr(batches, "iloc"):
        from .sharing.report import report_line

        report_line(
            "an array is given where batches were expected, so they are not joined: give `fit` batch_size=32 * hvd.size()"
        )
        return batches
    if isinstance(batches, tf.data.Dataset):
        return _join_dataset(batches, size)
    if hasattr(batches, "__getitem__") and hasattr(batches, "on_epoch_end"):
        return _join_sequence(batches, size)
    if hasattr(batches, "__next__"):
        return _join_iterator(batches, size)
    return JoinedBatches(batches, size)


def _join_dataset(dataset: Any, size: int) -> Any:
    """Return a dataset in which `size` batches at a time are one."""
    import tensorflow as tf

    def join_window(*windows: Any) -> Any:
        """Return the rows of some batches as one batch."""
        rows = tf.data.Dataset.zip(windows if len(windows) > 1 else windows[0])
        return rows.unbatch().batch(tf.int64.max)

    result = dataset.window(size).flat_map(join_window)
    count = int(dataset.cardinality())
    if count != tf.data.UNKNOWN_CARDINALITY:
        known = count if count < 0 else -(-count // size)
        result = result.apply(tf.data.experimental.assert_cardinality(known))
    return result


def _join_sequence(sequence: Any, size: int) -> Any:
    """Wrap a `PyDataset` in one of the same class that joins several of its batches."""

    def length(_: Any) -> int:
        return -(-len(sequence) // size)

    def item(_: Any, number: int) -> Any:
        numbers = range(number * size, min((number + 1) * size, len(sequence)))
        return concatenate_batches([sequence[n] for n in numbers])

    methods: dict[str, Any] = {
        "__init__": lambda self: self.__dict__.update(sequence.__dict__),
        "__len__": length,
        "__getitem__": item,
        "on_epoch_begin": lambda _: getattr(sequence, "on_epoch_begin", lambda: None)(),
        "on_epoch_end": lambda _: sequence.on_epoch_end(),
    }
    if hasattr(type(sequence), "num_batches"):
        methods["num_batches"] = property(length)
    return type(f"Joined{type(sequence).__name__}", (type(sequence),), methods)()


def _join_iterator(batches: Iterator[Any], size: int) -> Iterator[Any]:
    """Yield `size` batches at a time as one."""
    while group := list(itertools.islice(batches, size)):
        yield concatenate_batches(group)


class JoinedBatches:
    """An iterable that joins several batches of another in each iteration."""

    def __init__(self, batches: Iterable[Any], size: int) -> None:
        self._batches, self._size = batches, size

    def __iter__(self) -> Iterator[Any]:
        return _join_iterator(iter(self._batches), self._size)

    def __len__(self) -> int:
        return -(-len(self._batches) // self._size)  # type: ignore[arg-type]


def concatenate_batches(parts: Sequence[Any]) -> Any:
    """Return batches as one: arrays, tensors or sparse matrices of rows, in tuples, lists and dictionaries."""
    import numpy as np
    import tensorflow as tf

    first = parts[0]
    if isinstance(first, dict):
        return {key: concatenate_batches([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(concatenate_batches(each) for each in zip(*parts, strict=True)))
    if isinstance(first, tuple):
        return tuple(concatenate_batches(each) for each in zip(*parts, strict=True))
    if isinstance(first, list) and first and not np.isscalar(first[0]):
        return [concatenate_batches(each) for each in zip(*parts, strict=True)]
    if isinstance(first, tf.SparseTensor):
        return tf.sparse.concat(0, list(parts))
    if isinstance(first, tf.Tensor | tf.RaggedTensor):
        return tf.concat(list(parts), 0)
    if first is None:
        return None
    if hasattr(first, "tocsr"):
        import scipy.sparse  # type: ignore[import-untyped]

        return scipy.sparse.vstack(list(parts))
    return np.concatenate(parts)
