"""Calls of `compile` and `fit` whose arguments are known only when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .callbacks import BroadcastGlobalVariablesCallback, MetricAverageCallback
from .data import shard
from .optimizer import DistributedOptimizer, _average_outside

#: Callbacks that write files or to the screen.
_ON_RANK_ZERO: tuple[str, ...] = (
    "CSVLogger",
    "ModelCheckpoint",
    "ProgbarLogger",
    "RemoteMonitor",
    "TensorBoard",
)


def scaled_optimizer(optimizer: Any) -> Any:
    """The optimizer that `compile` makes of a name or a configuration, its rate multiplied by the number of ranks.

    An optimizer that is made already stays as it is: it is scaled where it is made.

    Raises:
        ValueError: the configuration has a schedule.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    made = tf.keras.optimizers.get(optimizer)
    if made is not optimizer and hvd.size() > 1:
        if isinstance(made.get_config()["learning_rate"], dict):
            raise ValueError(
                "the rates of this optimizer's schedule are not multiplied by the number of ranks: make it with "
                "tf.keras.optimizers in the program itself"
            )
        made.learning_rate = float(made.learning_rate) * hvd.size()
    return made


def distributed_compile(compile_model: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The method `compile` of a model, whose optimizer, whatever it is given as, averages the gradients of all ranks.

    Args:
        options: of `DistributedOptimizer`.
    """

    def distributed(*args: Any, **given: Any) -> Any:
        if args:
            given, args = {"optimizer": args[0], **given}, args[1:]
        made = scaled_optimizer(given.pop("optimizer", "rmsprop"))
        if "_hvd_distribute" not in vars(made):  # else it averages already
            made = DistributedOptimizer(made, **options)
        return compile_model(made, *args, **given)

    return distributed


def distributed_model(model: Any, **options: Any) -> Any:
    """The model itself, whose optimizer, wherever it comes from, averages the gradients of all ranks from now on.

    Args:
        options: of `DistributedOptimizer`.

    Raises:
        TypeError: the model has no optimizer of Keras.
    """
    optimizer = getattr(model, "optimizer", None)
    if not hasattr(optimizer, "apply_gradients"):
        raise TypeError(
            "this model has no optimizer that could average the gradients of the ranks: compile it in this program"
        )
    _average_outside(optimizer)
    if "_hvd_distribute" not in vars(optimizer):
        DistributedOptimizer(optimizer, **options)
        model.train_function = None  # a step that was compiled before does not average
    return model


def distributed_fit(fit: Callable[..., Any]) -> Callable[..., Any]:
    """The method `fit` of a model, by which each rank trains on its share of whatever it is given.

    All ranks start from rank 0's weights, callbacks see averaged metrics, rank 0 alone shows progress and
    writes files, and counts of steps are divided.
    """
    import functools

    import horovod.tensorflow as hvd
    import tensorflow as tf

    @functools.wraps(fit)
    def distributed(*args: Any, **options: Any) -> Any:
        given = _fit_arguments(fit, args, options)
        for name in ("x", "generator", "y", "sample_weight"):
            if given.get(name) is not None:
                given[name] = shard(given[name], given.get("batch_size"))
        if given.get("steps_per_epoch"):
            given["steps_per_epoch"] = max(1, given["steps_per_epoch"] // hvd.size())
        if hvd.rank() > 0:
            given["verbose"] = 0
        callbacks = [BroadcastGlobalVariablesCallback(0), MetricAverageCallback()]
        for callback in tf.nest.flatten(given.get("callbacks") or []):
            if hvd.rank() == 0 or type(callback).__name__ not in _ON_RANK_ZERO:
                callbacks.append(callback)
        given["callbacks"] = callbacks
        return fit(**given)

    return distributed


def _arguments(
    function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> dict[str, Any]:
    """What a function is called with, by name."""
    import inspect

    return {**dict(zip(inspect.signature(function).parameters, args, strict=False)), **options}


def _fit_arguments(
    fit: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> dict[str, Any]:
    """What a method `fit` is called with, by name, also where it hands on whatever it is given."""
    import functools
    import inspect

    import tensorflow as tf

    if not {"x", "generator"} & {*inspect.signature(fit).parameters}:
        fit = functools.partial(tf.keras.Model.fit, None)
    return _arguments(fit, args, options)


def distributed_tuner(tuner: Callable[..., Any]) -> Callable[..., Any]:
    """A class of KerasTuner's, whose tuners choose the same trials on all ranks.

    Rank 0 keeps its results in the tuner's directory, the others in a folder of their own, which begins with what is
    found there and does not last.
    """
    import contextlib
    import io
    import random
    import shutil
    import tempfile
    from pathlib import Path

    import horovod.tensorflow as hvd
    import tensorflow as tf

    def made(*args: Any, **options: Any) -> Any:
        if hvd.size() == 1:
            return tuner(*args, **options)
        given = _arguments(tuner, args, options)
        drawn = random.randint(1, 10_000)  # noqa: S311 — as the tuner itself would
        seed = hvd.broadcast_object(drawn, root_rank=0)
        if given.get("seed") is None:
            given["seed"] = seed
        if hvd.rank():
            project = given.get("project_name") or "untitled_project"
            before = Path(given.get("directory") or ".") / project
            own = tempfile.TemporaryDirectory(prefix="tuner-")
            if before.exists():
                shutil.copytree(before, Path(own.name) / project)
            given["directory"] = own.name
        hvd.allreduce(tf.zeros(()))  # rank 0 changes its folder when all have seen it
        with contextlib.redirect_stdout(io.StringIO()) if hvd.rank() else contextlib.nullcontext():
            search = tuner(**given)
        if hvd.rank():
            search.own_directory = own  # which goes with the tuner
        return search

    return made
