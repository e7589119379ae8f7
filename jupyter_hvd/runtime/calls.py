"""Calls of `compile` and `fit` whose arguments are known only when the program runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from .callbacks import BroadcastGlobalVariablesCallback, MetricAverageCallback
from .data import shard
from .optimizer import DistributedOptimizer, _average_outside
from .rates import scaled_schedule

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
        ValueError: see `multiplied_rate`.
    """
    import tensorflow as tf

    made = tf.keras.optimizers.get(optimizer)
    return made if made is optimizer else multiplied_rate(made)


def multiplied_rate(optimizer: Any) -> Any:
    """An optimizer that was just made of a name or a configuration, its rate, or its schedule's, that of all ranks.

    Raises:
        ValueError: it is one of Keras 2's older optimizers, and has a schedule.
    """
    import horovod.tensorflow as hvd

    if hvd.size() == 1:
        return optimizer
    if isinstance(optimizer.get_config()["learning_rate"], dict):
        if hasattr(optimizer, "_learning_rate"):
            scaled_schedule(optimizer._learning_rate)
            return optimizer
        raise ValueError(
            "the rates of this optimizer's schedule are not multiplied by the number of ranks: make it with "
            "tf.keras.optimizers in the program itself"
        )
    optimizer.learning_rate = float(optimizer.learning_rate) * hvd.size()
    return optimizer


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
            if hvd.rank() == 0 or not _writes(callback):
                callbacks.append(callback)
        given["callbacks"] = callbacks
        return fit(**given)

    return distributed


def _writes(callback: Any) -> bool:
    """Whether a callback writes and does nothing else: its class, or one that it inherits and changes nothing of in `fit`."""
    for owner in type(callback).__mro__:
        if owner.__name__ in _ON_RANK_ZERO:
            return True
        if any(name.startswith(("on_", "set_")) for name in vars(owner)):
            return False
    return False


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


#: What estimators do with models.
_OF_ESTIMATORS: tuple[str, ...] = (
    "fit",
    "partial_fit",
    "decision_function",
    "predict",
    "predict_proba",
    "score",
    "transform",
)


def distributed_estimator(estimator: Any, **options: Any) -> Any:
    """The class itself, of estimators that fit Keras models for scikit-learn: from now on they do so on all ranks.

    It stays the class that it is, so that what scikit-learn clones, and what is saved, is as before.

    Args:
        options: of `DistributedOptimizer`.

    Raises:
        ValueError: when it fits, the ranks have been given different data or parameters.
    """
    import functools

    import horovod.tensorflow as hvd

    def together(method: Callable[..., Any], fits: bool) -> Callable[..., Any]:
        @functools.wraps(method)
        def on_all_ranks(self: Any, *args: Any, **given: Any) -> Any:
            if fits:
                _compare_given(self, args, given)
            with _models_on_all_ranks(self, options):
                return method(self, *args, **given)

        return on_all_ranks

    if hvd.size() > 1 and "_hvd_options" not in vars(estimator):
        estimator._hvd_options = options
        for name in _OF_ESTIMATORS:
            method = getattr(estimator, name, None)
            if method is not None:
                setattr(estimator, name, together(method, name in ("fit", "partial_fit")))
    return estimator


def _compare_given(estimator: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
    """An error on all ranks where they are about to fit different things, whose gradients do not belong together."""
    import horovod.tensorflow as hvd
    import joblib

    plain = (bool, float, int, str, tuple)
    params = estimator.get_params()
    chosen = sorted((name, repr(v)) for name, v in params.items() if isinstance(v, plain))
    named = [given.get(name) for name in ("X", "x", "y", "sample_weight")]
    told = joblib.hash((args, named, chosen))
    if len(set(hvd.allgather_object(told, name="distributed_estimator"))) > 1:
        raise ValueError(
            "the ranks are about to fit different data, or with different parameters: give what splits, shuffles or searches a "
            "random_state"
        )


@contextlib.contextmanager
def _models_on_all_ranks(estimator: Any, options: dict[str, Any]) -> Iterator[None]:
    """Here, all Keras models train on all ranks, and tell what they do on rank 0."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    model = tf.keras.Model
    if "_hvd_estimator" in vars(model):  # an estimator that calls itself
        yield
        return
    names = ("compile", "fit", "evaluate", "predict")
    before = {name: getattr(model, name) for name in names}
    own = {name: vars(model)[name] for name in names if name in vars(model)}
    # What a name or a class stands for, the estimator makes; an optimizer that is made already has its rate.
    makes = isinstance(getattr(estimator, "optimizer", None), (str, type))
    makes = makes and not isinstance(getattr(estimator, "model", None), model)

    def compile_model(self: Any, *args: Any, **given: Any) -> Any:
        if args:
            given, args = {"optimizer": args[0], **given}, args[1:]
        made = tf.keras.optimizers.get(given.pop("optimizer", "rmsprop"))
        if "_hvd_distribute" not in vars(made):  # else this program compiles it
            made = DistributedOptimizer(multiplied_rate(made) if makes else made, **options)
        return before["compile"](self, made, *args, **given)

    def fit(self: Any, *args: Any, **given: Any) -> Any:
        averaging = distributed_model(self, **options)
        return distributed_fit(before["fit"].__get__(averaging))(*args, **given)

    def silent(method: Callable[..., Any]) -> Callable[..., Any]:
        def asked(self: Any, *args: Any, **given: Any) -> Any:
            return method(self, *args, **({**given, "verbose": 0} if hvd.rank() else given))

        return asked

    here = {"compile": compile_model, "fit": fit, "_hvd_estimator": True}
    here |= {name: silent(before[name]) for name in ("evaluate", "predict")}
    for name, value in here.items():
        setattr(model, name, value)
    try:
        yield
    finally:
        for name in here:
            delattr(model, name)
        for name, value in own.items():
            setattr(model, name, value)
