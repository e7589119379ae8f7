"""Optimizers that average: of Keras 2, `tf_keras` and Keras 3, and still of their own class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .gradients import average_gradients


def DistributedOptimizer(  # noqa: N802 — as Horovod calls it
    optimizer: Any, compression: Any = None, backward_passes_per_step: int = 1
) -> Any:
    """The optimizer itself, which from now on averages the gradients of all ranks before it applies them.

    It stays of its class, with its name and configuration, so that a model saved with it loads where
    neither Horovod nor this package is. Gradients are averaged as they are handed over, so clipping,
    accumulation, moving averages of weights and the scaling of losses see the same ones on every rank.

    Args:
        compression: one of `hvd.Compression`.
        backward_passes_per_step: the sum of the gradients of so many steps is averaged and applied at once.
    """

    def distribute(outermost: Any) -> None:
        name = "apply" if hasattr(outermost, "apply") else "apply_gradients"  # Keras 3, Keras 2
        own = getattr(type(outermost), name).__get__(outermost)
        sums = _sums(outermost, backward_passes_per_step)

        def update(gradients: list[Any], then: Callable[[list[Any]], Any], variables: Any) -> Any:
            if sums is not None:
                return sums(
                    gradients, variables, lambda total: then(average_gradients(total, compression))
                )
            return then(average_gradients(gradients, compression))

        def apply(grads: Any, trainable_variables: Any = None) -> Any:
            variables = None if trainable_variables is None else list(trainable_variables)
            return update(list(grads), lambda means: own(means, variables), variables)

        def apply_gradients(grads_and_vars: Any, *args: Any, **kw: Any) -> Any:
            gradients, variables = map(list, zip(*grads_and_vars, strict=True))

            def then(means: list[Any]) -> Any:
                return own(list(zip(means, variables, strict=True)), *args, **kw)

            return update(gradients, then, variables)

        # Into the instance itself: what is assigned to an attribute, Keras would track.
        vars(outermost)[name] = apply if name == "apply" else apply_gradients
        vars(outermost)["_hvd_distribute"] = distribute
        _average_outside(outermost)

    distribute(optimizer)
    return optimizer


def _average_outside(optimizer: Any) -> None:
    """Let an optimizer that holds another average in its place.

    Under mixed precision Keras puts what `compile` is given into a `LossScaleOptimizer`. That leaves out
    a step where a gradient is not finite, which all ranks must decide alike: on the average.
    """
    inner = getattr(optimizer, "inner_optimizer", None)
    if inner is None or "_hvd_distribute" not in vars(inner):
        return
    for name in ("apply", "apply_gradients"):
        vars(inner).pop(name, None)
    distribute = vars(inner).pop("_hvd_distribute")
    if "_hvd_distribute" not in vars(optimizer):
        distribute(optimizer)


def _sums(optimizer: Any, passes: int) -> Callable[..., Any] | None:
    """What sums gradients on each rank and hands them on after every so many passes; None where each counts."""
    import tensorflow as tf

    if passes == 1:
        return None
    count: list[Any] = []
    totals: list[Any] = []

    def prepare(gradients: list[Any], variables: Any) -> None:
        """Make all variables now: where it is decided whether to apply, none can be made."""
        with tf.init_scope():
            if variables is not None and not hasattr(optimizer, "build"):
                optimizer._create_all_weights(variables)
            elif variables is not None and not getattr(optimizer, "built", False):
                optimizer.build(variables)
            if not count:
                count.append(tf.Variable(0, dtype=tf.int64, trainable=False))
                for gradient in gradients:
                    zeros = None if gradient is None else tf.zeros(gradient.shape, gradient.dtype)
                    totals.append(None if zeros is None else tf.Variable(zeros, trainable=False))

    def add(gradients: list[Any], variables: Any, then: Callable[[list[Any]], Any]) -> Any:
        prepare(gradients, variables)
        for total, gradient in zip(totals, gradients, strict=True):
            if total is not None:
                total.assign_add(tf.convert_to_tensor(gradient))
        count[0].assign_add(1)

        def step() -> Any:
            then([None if total is None else total.read_value() for total in totals])
            for total in totals:
                if total is not None:
                    total.assign(tf.zeros_like(total))
            return tf.constant(True)

        def wait() -> Any:
            optimizer.iterations.assign_add(1)
            return tf.constant(False)

        tf.cond(tf.equal(count[0].read_value() % passes, 0), step, wait)
        return optimizer.iterations

    return add
