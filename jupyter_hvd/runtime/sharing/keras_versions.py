"""The only module that knows Keras' and TensorFlow's private names, with the versions that they were tested with."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from .context import sharing

#: The versions with which the test suite in tests/exact passes.
TESTED = {"tensorflow": ("2.21",), "keras": ("3.15",)}
Replace = Callable[[Any, str, Callable[..., Any]], None]


class UntestedVersionError(RuntimeError):
    """A Keras or TensorFlow that is shared nowhere yet."""


class Keras:
    """What sharing needs of a Keras, by names that are the same for all of them."""

    def __init__(self, module: Any) -> None:
        name = module.Model.__module__.partition(".")[0]
        self.package = importlib.import_module(name)
        require("tensorflow", tf.__version__)
        require(name, self.package.__version__)
        self.is_keras_3 = self.package.__version__.startswith("3.")
        self.Layer = module.layers.Layer
        self.batch_normalization = module.layers.BatchNormalization
        source = f"{name}.src"
        if self.is_keras_3:
            self.symbolic = self._get(f"{source}.backend", "KerasTensor")
            self.in_stateless_scope = self._get(f"{source}.backend", "in_stateless_scope")
        else:
            self.symbolic = self._get(f"{source}.engine.keras_tensor", "KerasTensor")
            self.in_stateless_scope = lambda: False

    @staticmethod
    def _get(module: str, name: str) -> Any:
        return getattr(importlib.import_module(module), name)

    @property
    def losses(self) -> Any:
        """Of Keras 3: what losses and metrics are reduced by, the classes that wrap functions, and where one has its own."""
        source = f"{self.package.__name__}.src"
        return SimpleNamespace(
            reducing=importlib.import_module(f"{source}.losses.loss"),
            metrics=importlib.import_module(f"{source}.metrics.reduction_metrics"),
            LossFunctionWrapper=self._get(f"{source}.losses.losses", "LossFunctionWrapper"),
            function_name="_fn",
            MeanMetricWrapper=self._get(f"{source}.metrics.reduction_metrics", "MeanMetricWrapper"),
        )

    def defines(self, function: Any) -> bool:
        """Whether a function is Keras' own."""
        module = getattr(function, "__module__", None) or ""
        return module.startswith(f"{self.package.__name__}.")

    def layers_of(self, layer: Any) -> list[Any]:
        """A layer and all that it consists of."""
        return list(layer._flatten_layers())

    def builds_itself(self, layer: Any) -> bool:
        """Whether a part of the layer has no weights yet."""
        return not all(part.built for part in self.layers_of(layer))

    def mask_of(self, tensor: Any) -> Any:
        return getattr(tensor, "_keras_mask", None)

    def set_mask(self, tensor: Any, mask: Any) -> None:
        tensor._keras_mask = mask

    def symbol(self, spec: tf.TensorSpec) -> Any:
        """A placeholder, with which a call builds a layer and computes nothing; no layer is made, or named, for it."""
        size, *shape = spec.shape
        if self.is_keras_3:
            return self.symbolic((size, *shape), spec.dtype.name, name="symbol")
        return self.package.Input(shape=tuple(shape), batch_size=size, dtype=spec.dtype)

    def generators_of(self, layer: Any) -> list[Any]:
        """The generators of Keras 2's layers, which draw their seed when they are first used."""
        parts = [] if self.is_keras_3 else self.layers_of(layer)
        return [p._random_generator for p in parts if hasattr(p, "_random_generator")]

    def seed_generator(self) -> Any:
        """What Keras 2 draws seeds from in this thread; None where nothing was seeded."""
        if self.is_keras_3:
            return None
        seeds = self._get(f"{self.package.__name__}.src.backend", "_SEED_GENERATOR")
        return getattr(seeds, "generator", None)

    def seed_by(self, generator: Any) -> None:
        """Let this thread draw seeds from it."""
        if generator is not None:
            seeds = self._get(f"{self.package.__name__}.src.backend", "_SEED_GENERATOR")
            seeds.generator = generator

    def compute_dtypes(self, layer: Any) -> set[str]:
        return {str(getattr(part, "compute_dtype", None)) for part in self.layers_of(layer)}

    def install_batch_norm(self, replace: Replace) -> None:
        """Let batch normalisation take its moments over the rows of all ranks."""
        from . import batch_norm

        kind = self.batch_normalization
        if self.is_keras_3:
            moments = kind._moments

            @functools.wraps(moments)
            def all_moments(layer: Any, inputs: Any, mask: Any) -> Any:
                region = sharing.region
                if region is None:
                    return moments(layer, inputs, mask)
                axes = list(layer._reduction_axes)
                epsilon = self.package.config.epsilon() if mask is not None else 0.0
                return batch_norm.moments(inputs, region, axes, mask, epsilon)

            replace(kind, "_moments", all_moments)
            return
        calculate = kind._calculate_mean_and_var

        @functools.wraps(calculate)
        def calculated(layer: Any, x: Any, axes: Any, keep_dims: bool, mask: Any = None) -> Any:
            region = sharing.region
            if region is None:
                return calculate(layer, x, axes, keep_dims, mask=mask)
            if layer.virtual_batch_size is not None:
                region.refuse("batch normalisation with virtual_batch_size goes by the whole batch")
            mean, variance = batch_norm.moments(x, region, list(axes), mask)
            if keep_dims:
                kept = [1 if d in axes else x.shape[d] for d in range(len(x.shape))]
                mean, variance = tf.reshape(mean, kept), tf.reshape(variance, kept)
            return mean, variance

        for owner in kind.__mro__:
            if "_calculate_mean_and_var" in vars(owner):
                replace(owner, "_calculate_mean_and_var", calculated)

    def install_fused_batch_norm(self, replace: Replace) -> None:
        """The same of the operation that Keras 2 uses for images."""
        from . import batch_norm

        fused = tf.compat.v1.nn.fused_batch_norm
        signature = inspect.signature(fused)

        @functools.wraps(fused)
        def normalized(*args: Any, **options: Any) -> Any:
            region = sharing.region
            given = signature.bind(*args, **options)
            given.apply_defaults()
            named = given.arguments
            if region is None or not named["is_training"]:
                return fused(*args, **options)
            x, last = named["x"], len(named["x"].shape) - 1
            channel = last if named["data_format"].endswith("C") else 1
            axes = [d for d in range(last + 1) if d != channel]
            precise = tf.cast(x, tf.float32)
            found = batch_norm.moments(precise, region, axes)
            shape = [-1 if d == channel else 1 for d in range(last + 1)]
            wide = [tf.reshape(t, shape) for t in (*found, named["offset"], named["scale"])]
            epsilon = max(named["epsilon"] or 0.001, 1.001e-5)  # as TensorFlow bounds it
            y = tf.cast(tf.nn.batch_normalization(precise, *wide, epsilon), x.dtype)
            others = tf.reduce_prod([tf.shape(x)[d] for d in axes[1:]]) * region.rows
            count = tf.cast(others, tf.float32)
            new = [found[0], found[1] * count / tf.maximum(count - 1.0, 1.0)]  # Bessel's correction
            factor = named["exponential_avg_factor"]
            if factor != 1.0:
                old = (named["mean"], named["variance"])
                new = [o * (1.0 - factor) + n * factor for o, n in zip(old, new, strict=True)]
            return (y, *new)

        replace(tf.compat.v1.nn, "fused_batch_norm", normalized)


def require(name: str, version: str) -> None:
    """
    Raises:
        UntestedVersionError: sharing was not tested with this version.
    """
    if ".".join(version.split(".")[:2]) not in TESTED.get(name, ()):
        tested = " and ".join(f"{n} {v}" for n, versions in TESTED.items() for v in versions)
        raise UntestedVersionError(
            f"jupyter_hvd: --batch global was not tested with {name} {version}, and stops before it could compute "
            f"something else. Tested: {tested}. Install one of these, or leave --batch global out."
        )


def raw_operations(module: str) -> Any:
    """TensorFlow's module of operations of a name."""
    return importlib.import_module(f"tensorflow.python.ops.{module}")


def compiled_function() -> Any:
    """The class of what `tf.function` returns."""
    return type(tf.function(lambda: None))


def eager_draws() -> Any:
    """The generator by which TensorFlow seeds eager random operations; None where no seed is set."""
    from tensorflow.python.eager import context

    return context.context()._rng


def eager_seed() -> int | None:
    """The seed that `tf.random.set_seed` was given last; None where it was not called."""
    from tensorflow.python.eager import context

    seed: int | None = context.context()._seed
    return seed


def global_generator() -> Any:
    """TensorFlow's global generator of random numbers; None where it was not used yet."""
    return raw_operations("stateful_random_ops").global_generator


def keras_draws(make: bool = False) -> Any:
    """What operations of Keras 3 without a seed draw from; None where none was used yet.

    Args:
        make: make it where there is none.
    """
    seeds = importlib.import_module("keras.src.random.seed_generator")
    if make:
        return seeds.global_seed_generator()
    return _keras_state().get_global_attribute(seeds.GLOBAL_SEED_GENERATOR)


def forget_keras_draws() -> None:
    """Let Keras make it anew, from Python's random numbers, when it is used next."""
    seeds = importlib.import_module("keras.src.random.seed_generator")
    _keras_state().set_global_attribute(seeds.GLOBAL_SEED_GENERATOR, None)


def _keras_state() -> Any:
    return importlib.import_module("keras.src.backend.common.global_state")


def seed_states(layer: Any) -> list[Any]:
    """The variables from which a layer of Keras 3, and all that it consists of, draw random numbers."""
    return [
        generator.state
        for part in layer._flatten_layers()
        for generator in getattr(part, "_seed_generators", ())
    ]


def variable_classes() -> list[Any]:
    """The classes of TensorFlow's variables with methods that assign."""
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

    return [BaseResourceVariable, ResourceVariable]


def vectorize_collectives() -> None:
    """Let Jacobians be taken through collectives: those of all rows are one message."""
    import horovod.tensorflow as hvd
    from tensorflow.python.ops.parallel_for import pfor

    def gathered(given: Any) -> Any:
        given.stack_inputs()
        stacked = given.stacked_input(0)
        count, shape = tf.shape(stacked)[0], tf.shape(stacked)[2:]
        order = [1, 0, *range(2, len(stacked.shape))]
        moved = tf.reshape(tf.transpose(stacked, order), [1, -1])
        every = tf.reshape(hvd.allgather(moved), tf.concat([[sharing.size, count], shape], 0))
        return pfor.wrap(tf.transpose(every, order), True)

    def reduced(given: Any) -> Any:
        given.stack_inputs()
        stacked = [given.stacked_input(n) for n in range(given.num_inputs)]
        operation = given.get_attr("reduce_op")
        return [pfor.wrap(hvd.allreduce(t, op=operation), True) for t in stacked]

    found = {
        "HorovodAllgather": gathered,
        "HorovodAllreduce": reduced,
        "HorovodGroupedAllreduce": reduced,
    }
    for name, converter in found.items():
        with contextlib.suppress(Exception):  # registered before
            pfor.RegisterPFor(name)(converter)
