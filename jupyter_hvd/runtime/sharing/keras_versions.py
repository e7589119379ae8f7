"""The private names of Keras and TensorFlow (except those in `dataset_stages`), and the versions they were tested with."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from .. import scaling
from ..observe import Function, observe, update_methods
from . import batch_norm
from .context import sharing
from .tested_versions import is_tested, list_tested


class UntestedVersionError(RuntimeError):
    """Raised for a Keras or TensorFlow version that sharing was not tested with."""


class Keras:
    """The interface to a Keras that sharing needs, the same for all versions.

    Attributes:
        package: the module whose version identifies it. symbolic: the class of placeholders.
        updates: the methods of optimizers that change variables, each with its class.
        reductions: the methods that sum the gradients of the `tf.distribute` processes, each with its class.
    """

    is_keras_3 = False
    symbolic: Any
    updates: list[tuple[Any, str]]
    reductions: list[tuple[Any, str]]

    def __init__(self, module: Any, package: Any) -> None:
        self.package = package
        self.Layer, self.Model = module.layers.Layer, module.Model
        self.batch_normalization = module.layers.BatchNormalization

    def _get_attribute(self, module: str, name: str) -> Any:
        """Return an attribute of one of Keras's private modules."""
        return getattr(importlib.import_module(f"{self.package.__name__}.src.{module}"), name)

    def is_own_function(self, function: Any) -> bool:
        """Whether a function is Keras' own."""
        module = getattr(function, "__module__", None) or ""
        return module.startswith(f"{self.package.__name__}.")

    def layers_of(self, layer: Any) -> list[Any]:
        """Return a layer and all layers inside it."""
        return list(layer._flatten_layers())

    def builds_itself(self, layer: Any) -> bool:
        """Whether a part of the layer has no weights yet."""
        return not all(part.built for part in self.layers_of(layer))

    def mask_of(self, tensor: Any) -> Any:
        """Return the mask that Keras has attached to a tensor; None if there is none."""
        return getattr(tensor, "_keras_mask", None)

    def set_mask(self, tensor: Any, mask: Any) -> None:
        """Attach a mask to a tensor, as Keras does."""
        tensor._keras_mask = mask

    def logits_of(self, tensor: Any) -> Any:
        """Return the logits of an activation, which cross-entropies read instead; None if Keras has not stored them."""
        return getattr(tensor, "_keras_logits", None)

    def set_logits(self, tensor: Any, logits: Any) -> None:
        """Attach logits to an activation, as Keras does."""
        tensor._keras_logits = logits

    def compute_dtypes(self, layer: Any) -> set[str]:
        """Return the dtypes in which a layer and those inside it compute."""
        return {str(getattr(part, "compute_dtype", None)) for part in self.layers_of(layer)}

    def in_stateless_scope(self) -> bool:
        """Whether a layer is called as a function of its weights, or for the shapes of its outputs alone."""
        return False

    def make_symbol(self, spec: tf.TensorSpec) -> Any:
        """Return a placeholder with which a call builds a layer and computes nothing; no layer is made, or named, for it."""
        raise NotImplementedError

    def step_counts(self) -> list[tuple[Any, str]]:
        """Return the methods and properties from which Keras takes how many steps an epoch has, each with its class."""
        raise NotImplementedError

    def install_sequential(self) -> None:
        """Let models that depend on the batch size see that of the global batch."""

    def install_recurrent(self) -> None:
        """Let recurrent layers compute own rows in a compiled step."""

    def install_rate_scaling(self) -> None:
        """Let optimizers update weights at a multiple of their rate, by `scaling.rate_factor`."""
        for kind, name in self.updates:
            observe(kind, name, apply_scaled)

    def generators_of(self, layer: Any) -> list[Any]:
        """Return the generators of layers that draw their seed when they are first used."""
        return []

    def seed_generator(self) -> Any:
        """Return the generator of layers' seeds in this thread; None if nothing was seeded."""
        return None

    def seed_by(self, generator: Any) -> None:
        """Let this thread draw the seeds of layers from a generator."""

    def install_batch_norm(self) -> None:
        """Let batch normalization take its moments over the rows of all ranks."""
        raise NotImplementedError

    def bind_update(
        self, *args: Any, **options: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """Return the arguments of one of `updates`, with iterators read, and the variables; None for those of the optimizer."""
        raise NotImplementedError

    def learning_rate(self, optimizer: Any) -> Any:
        """Return the rate by which an optimizer is about to update weights."""
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        with scaling.applying_updates(inner):
            return inner.learning_rate


class Keras3(Keras):
    """Keras 3 on TensorFlow."""

    is_keras_3 = True

    def __init__(self, module: Any, package: Any) -> None:
        super().__init__(module, package)
        self.symbolic = self._get_attribute("backend", "KerasTensor")
        self.updates = [*update_methods(module), (module.optimizers.LossScaleOptimizer, "apply")]
        self.reductions = [(module.optimizers.Optimizer, "_all_reduce_sum_gradients")]

    def in_stateless_scope(self) -> bool:
        """Whether a stateless call is running, in which variables are arguments."""
        return bool(self._get_attribute("backend", "in_stateless_scope")())

    def step_counts(self) -> list[tuple[Any, str]]:
        """Return the methods from which Keras takes how many steps an epoch has, each with its class."""
        adapter = self._get_attribute("trainers.data_adapters.data_adapter", "DataAdapter")
        return [(kind, "num_batches") for kind in adapter.__subclasses__()]

    @property
    def losses(self) -> Any:
        """Keras's modules of losses and metrics that reduce, and the classes of both that wrap functions."""
        source = f"{self.package.__name__}.src"
        return SimpleNamespace(
            reducing=importlib.import_module(f"{source}.losses.loss"),
            metrics=importlib.import_module(f"{source}.metrics.reduction_metrics"),
            LossFunctionWrapper=self._get_attribute("losses.losses", "LossFunctionWrapper"),
            function_name="_fn",
            MeanMetricWrapper=self._get_attribute("metrics.reduction_metrics", "MeanMetricWrapper"),
        )

    def make_symbol(self, spec: tf.TensorSpec) -> Any:
        """Return a placeholder of a spec's shape and dtype, with which a call builds a layer and computes nothing."""
        return self.symbolic(tuple(spec.shape), spec.dtype.name, name="symbol")

    def install_batch_norm(self) -> None:
        """Have batch normalization compute its moments over the rows of all ranks."""

        def all_moments(moments: Function, layer: Any, inputs: Any, mask: Any) -> Any:
            region = sharing.region
            if region is None:
                return moments(layer, inputs, mask)
            axes = list(layer._reduction_axes)
            epsilon = self.package.config.epsilon() if mask is not None else 0.0
            return batch_norm.global_moments(inputs, region, axes, mask, epsilon)

        observe(self.batch_normalization, "_moments", all_moments)

    def install_rate_scaling(self) -> None:
        """Have optimizers update weights at the multiplied rate."""
        super().install_rate_scaling()
        kind = self._get_attribute("optimizers.base_optimizer", "BaseOptimizer")
        schedule = self._get_attribute(
            "optimizers.schedules.learning_rate_schedule", "LearningRateSchedule"
        )

        def scaled(current: Function, optimizer: Any) -> Any:
            factor, rate = scaling.rate_factor(optimizer), optimizer._learning_rate
            if factor == 1:
                return current(optimizer)
            is_schedule = isinstance(rate, schedule)
            rate = rate(optimizer._iterations * factor) if is_schedule else current(optimizer)
            return scaling.update_rate(rate, optimizer) if scaling.is_updating(optimizer) else rate

        observe(kind, "_get_current_learning_rate", scaled)
        scaling.install_copies(kind)

    def bind_update(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Return an update's arguments, with iterators read, and the variables; None for those of the optimizer."""
        given = None if trainable_variables is None else list(trainable_variables)
        return (grads, given), {}, given


class Keras2(Keras):
    """Keras 2: `tf.keras` until TensorFlow 2.15, `tf_keras` since."""

    def __init__(self, module: Any, package: Any) -> None:
        super().__init__(module, package)
        self.symbolic = self._get_attribute("engine.keras_tensor", "KerasTensor")
        self._seeds = self._get_attribute("backend", "_SEED_GENERATOR")
        scaling = [
            self._get_attribute("mixed_precision.loss_scale_optimizer", name)
            for name in ("LossScaleOptimizer", "LossScaleOptimizerV3")
        ]
        self.updates = update_methods(module) + [(kind, "apply_gradients") for kind in scaling]
        self.reductions = [
            (module.optimizers.Optimizer, "aggregate_gradients"),
            (module.optimizers.legacy.Optimizer, "_aggregate_gradients"),
        ]

    def make_symbol(self, spec: tf.TensorSpec) -> Any:
        """Return a placeholder of a spec's shape and dtype, with which a call builds a layer and computes nothing."""
        size, *shape = spec.shape
        return self.package.Input(shape=tuple(shape), batch_size=size, dtype=spec.dtype)

    def in_stateless_scope(self) -> bool:
        """Whether a graph of Keras's own is being made."""
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        while graph is not None:
            name = getattr(graph, "name", "") or ""
            if name == "keras_graph" or name.endswith("_scratch_graph"):
                return True
            graph = getattr(graph, "outer_graph", None)
        return False

    def step_counts(self) -> list[tuple[Any, str]]:
        """Return the methods from which Keras takes how many steps an epoch has, each with its class."""
        return [(self._get_attribute("engine.data_adapter", "DataHandler"), "_infer_steps")]

    def install_sequential(self) -> None:
        """Have a `Sequential` without an input layer build its graph with the full batch size.

        It would build one at the first batch, and again for a batch of another size.
        """
        kind = self._get_attribute("engine.sequential", "Sequential")

        def made(make: Function, model: Any, input_shape: Any, input_dtype: Any = None) -> None:
            region = sharing.region
            if sharing.checking and model._graph_initialized:
                return
            if region is not None:
                input_shape = (region.find_full_size(input_shape[0]), *input_shape[1:])
            with sharing.run_whole():
                make(model, input_shape, input_dtype)

        observe(kind, "_build_graph_network_for_inferred_shape", made)

    def install_recurrent(self) -> None:
        """Have LSTM and GRU compute own rows with the plain `tf.function`, not the one chosen by device."""

        def computed(plain: Function, choose: Function, /, *args: Any, **options: Any) -> Any:
            compute = choose if sharing.region is None else plain
            return compute(*args, **options)

        for name in ("lstm", "gru"):
            owner = importlib.import_module(f"{self.package.__name__}.src.layers.rnn.{name}")
            listener = functools.partial(computed, getattr(owner, f"standard_{name}"))
            observe(owner, f"{name}_with_backend_selection", listener)

    def generators_of(self, layer: Any) -> list[Any]:
        """Return the generators of layers that draw their seed when they are first used."""
        parts = self.layers_of(layer)
        return [p._random_generator for p in parts if hasattr(p, "_random_generator")]

    def seed_generator(self) -> Any:
        """Return the generator of layers' seeds in this thread; None if nothing was seeded."""
        return getattr(self._seeds, "generator", None)

    def seed_by(self, generator: Any) -> None:
        """Set the generator of layers' seeds in this thread."""
        if generator is not None:
            self._seeds.generator = generator

    def install_batch_norm(self) -> None:
        """Have batch normalization compute its moments over the rows of all ranks."""

        def calculated(
            calculate: Function, layer: Any, x: Any, axes: Any, keep_dims: bool, mask: Any = None
        ) -> Any:
            region = sharing.region
            if region is None:
                return calculate(layer, x, axes, keep_dims, mask=mask)
            if layer.virtual_batch_size is not None:
                region.refuse_sharing(
                    "batch normalisation with virtual_batch_size depends on the full batch"
                )
            mean, variance = batch_norm.global_moments(x, region, list(axes), mask)
            if keep_dims:
                kept = [1 if d in axes else x.shape[d] for d in range(len(x.shape))]
                mean, variance = tf.reshape(mean, kept), tf.reshape(variance, kept)
            return mean, variance

        for owner in self.batch_normalization.__mro__:
            if "_calculate_mean_and_var" in vars(owner):
                observe(owner, "_calculate_mean_and_var", calculated)
            if "_fused_batch_norm" in vars(owner):
                self._install_fused_batch_norm(owner)

    @staticmethod
    def _install_fused_batch_norm(owner: Any) -> None:
        """Have the fused batch normalization of images use the moments over the rows of all ranks.

        Layer normalization uses the same operation, for each row separately, and is left alone.
        """
        within: list[Any] = []

        def normalizing(normalize: Function, layer: Any, *args: Any, **options: Any) -> Any:
            within.append(layer)
            try:
                return normalize(layer, *args, **options)
            finally:
                within.pop()

        observe(owner, "_fused_batch_norm", normalizing)
        signature = inspect.signature(tf.compat.v1.nn.fused_batch_norm)

        def normalized(fused: Function, /, *args: Any, **options: Any) -> Any:
            region = sharing.region
            given = signature.bind(*args, **options)
            given.apply_defaults()
            named = given.arguments
            if region is None or not within or not named["is_training"]:
                return fused(*args, **options)
            x, last = named["x"], len(named["x"].shape) - 1
            channel = last if named["data_format"].endswith("C") else 1
            axes = [d for d in range(last + 1) if d != channel]
            precise = tf.cast(x, tf.float32)
            found = batch_norm.global_moments(precise, region, axes)
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

        observe(tf.compat.v1.nn, "fused_batch_norm", normalized)

    def install_rate_scaling(self) -> None:
        """Have optimizers, current and legacy, update weights at the multiplied rate."""
        super().install_rate_scaling()
        schedule = self._get_attribute(
            "optimizers.schedules.learning_rate_schedule", "LearningRateSchedule"
        )
        self._scale_current(schedule)
        self._scale_legacy(schedule)

    def _scale_current(self, schedule: Any) -> None:
        """Scale optimizers since Keras 2.11, which store the rate of a schedule in a variable before each update."""
        kind = self._get_attribute("optimizers.optimizer", "_BaseOptimizer")

        def computed(compute: Function, optimizer: Any) -> None:
            compute(optimizer)
            factor, rate = scaling.rate_factor(optimizer), optimizer._learning_rate
            if factor != 1 and isinstance(rate, schedule):
                optimizer._current_learning_rate.assign(rate(optimizer.iterations * factor))

        def scaled(rate_of: Function, optimizer: Any) -> Any:
            rate = rate_of(optimizer)
            return scaling.update_rate(rate, optimizer) if scaling.is_updating(optimizer) else rate

        observe(kind, "_compute_current_learning_rate", computed)
        observe(kind, "learning_rate", scaled)
        scaling.install_copies(kind)

    def _scale_legacy(self, schedule: Any) -> None:
        """Scale legacy optimizers, whose `decay` counts steps as well."""
        kind = self._get_attribute("optimizers.legacy.optimizer_v2", "OptimizerV2")

        def scaled(get: Function, optimizer: Any, name: str, dtype: Any = None) -> Any:
            value = get(optimizer, name, dtype)
            is_rate = name == "learning_rate" and scaling.is_updating(optimizer)
            if not is_rate or isinstance(value, schedule):
                return value
            return scaling.update_rate(value, optimizer)

        def decayed_scaled(decayed: Function, optimizer: Any, dtype: Any) -> Any:
            factor = scaling.rate_factor(optimizer)
            if factor == 1:
                return decayed(optimizer, dtype)
            rate = optimizer._get_hyper("learning_rate", dtype)
            step = tf.cast(optimizer.iterations, dtype) * factor
            if isinstance(rate, schedule):
                rate = tf.cast(rate(step), dtype)
                rate = (
                    scaling.update_rate(rate, optimizer) if scaling.is_updating(optimizer) else rate
                )
            return rate / (1.0 + tf.cast(optimizer._initial_decay, dtype) * step)

        observe(kind, "_get_hyper", scaled)
        observe(kind, "_decayed_lr", decayed_scaled)
        scaling.install_copies(kind)

    def bind_update(self, grads_and_vars: Any, *args: Any, **options: Any) -> Any:
        """Return an update's arguments, with iterators read, and the variables whose gradients it gets."""
        pairs = list(grads_and_vars)
        return (pairs, *args), options, [variable for _, variable in pairs]

    def learning_rate(self, optimizer: Any) -> Any:
        """Return the rate by which an optimizer is about to update weights; a legacy optimizer's is decayed."""
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        decayed = getattr(inner, "_decayed_lr", None)  # of a legacy optimizer
        if decayed is None:
            return super().learning_rate(optimizer)
        with scaling.applying_updates(inner):
            return decayed(tf.float32)


def apply_scaled(update: Function, optimizer: Any, *args: Any, **options: Any) -> Any:
    """Update weights, by the optimizer's rate multiplied."""
    with scaling.applying_updates(optimizer):
        return update(optimizer, *args, **options)


def keras_of(module: Any) -> Keras:
    """Return the interface to the Keras of a module, for its version.

    Args:
        module: `keras`, `tf_keras` or `tf.keras`.

    Raises:
        UntestedVersionError: sharing was not tested with it and this TensorFlow.
    """
    package = importlib.import_module(module.Model.__module__.partition(".")[0])
    require_version(package.__name__, package.__version__)
    kind = Keras3 if package.__version__.startswith("3.") else Keras2
    return kind(module, package)


def require_version(name: str, version: str) -> None:
    """Stop a program whose Keras has other private names than those that sharing was tested with.

    Args:
        name: of a Keras. version: its own.

    Raises:
        UntestedVersionError: sharing was not tested with it and this TensorFlow.
    """
    if is_tested(tf.__version__, name, version):
        return
    raise UntestedVersionError(
        f"jupyter_hvd was not tested with {name} {version} on TensorFlow {tf.__version__}, so nothing runs. "
        f"Install one of {list_tested()}."
    )


def raw_operations(module: str) -> Any:
    """Return a module of TensorFlow's operations by its name."""
    return importlib.import_module(f"tensorflow.python.ops.{module}")


def gradient_registry() -> Any:
    """Return the registry in which TensorFlow finds the gradient function of an operation by its name."""
    from tensorflow.python.framework import ops

    return ops._gradient_registry


def compiled_function() -> Any:
    """Return the class of what `tf.function` returns."""
    return type(tf.function(lambda: None))


def converted_lines() -> dict[tuple[str, int], tuple[str, int]]:
    """Return where the statements come from that AutoGraph has written for what is traced now, in any thread: file and line of
    both.
    """
    from tensorflow.python.util import tf_stack

    mappers = [stack[-1] for stack in list(tf_stack._source_mapper_stacks.values())]
    maps = (mapper.get_effective_source_map() for mapper in mappers)
    return {place: origin[:2] for found in maps for place, origin in found.items()}


def iterator_class() -> Any:
    """Return the class of iterators of datasets."""
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    return OwnedIterator


def read_iterator(resource: Any, spec: Any) -> Any:
    """Return the next element of an iterator.

    Args:
        resource: the iterator's, as a tensor.
        spec: of its elements.

    Raises:
        tf.errors.OutOfRangeError: there is none.
    """
    from tensorflow.python.data.util import structure

    found = raw_operations("gen_dataset_ops").iterator_get_next(
        resource,
        output_types=structure.get_flat_tensor_types(spec),
        output_shapes=structure.get_flat_tensor_shapes(spec),
    )
    return structure.from_compatible_tensor_list(spec, found)


def eager_generator() -> Any:
    """Return the generator by which TensorFlow seeds eager random operations; None if no seed is set."""
    from tensorflow.python.eager import context

    return context.context()._rng


def eager_seed() -> int | None:
    """Return the seed that `tf.random.set_seed` was given last; None if it was not called."""
    from tensorflow.python.eager import context

    seed: int | None = context.context()._seed
    return seed


@contextlib.contextmanager
def other_seed(number: int) -> Iterator[None]:
    """Let functions that are traced within the block draw other random numbers for each number."""
    from tensorflow.python.eager import context

    known = context.context()._seed
    context.context()._seed = zlib.crc32(f"{known} {number}".encode()) >> 1
    try:
        yield
    finally:
        context.context()._seed = known


def global_generator() -> Any:
    """Return TensorFlow's global generator of random numbers; None if it was not used yet."""
    return raw_operations("stateful_random_ops").global_generator


def keras_draws(make: bool = False) -> Any:
    """Return the generator of Keras 3's operations without a seed; None before its first use.

    Args:
        make: create it if there is none.
    """
    seeds = importlib.import_module("keras.src.random.seed_generator")
    if make:
        return seeds.global_seed_generator()
    return _keras_state().get_global_attribute(seeds.GLOBAL_SEED_GENERATOR)


def forget_keras_draws() -> None:
    """Let Keras create it again, from Python's random numbers, at its next use."""
    seeds = importlib.import_module("keras.src.random.seed_generator")
    _keras_state().set_global_attribute(seeds.GLOBAL_SEED_GENERATOR, None)


def _keras_state() -> Any:
    """Return Keras 3's module of global state."""
    return importlib.import_module("keras.src.backend.common.global_state")


def seed_states(layer: Any) -> list[Any]:
    """Return the variables from which a Keras 3 layer, and all its parts, draw random numbers."""
    return [
        generator.state
        for part in layer._flatten_layers()
        for generator in getattr(part, "_seed_generators", ())
    ]


def variable_classes() -> list[Any]:
    """Return the classes of TensorFlow's variables with methods that assign."""
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

    return [BaseResourceVariable, ResourceVariable]


def vectorize_collectives() -> None:
    """Let Jacobians be taken through collectives: those of all rows are one message."""
    import horovod.tensorflow as hvd
    from tensorflow.python.ops.parallel_for import pfor

    def gathered(inputs: Any) -> Any:
        inputs.stack_inputs()
        stacked = inputs.stacked_input(0)
        count, shape = tf.shape(stacked)[0], tf.shape(stacked)[2:]
        order = [1, 0, *range(2, len(stacked.shape))]
        moved = tf.reshape(tf.transpose(stacked, order), [1, -1])
        every = tf.reshape(hvd.allgather(moved), tf.concat([[sharing.size, count], shape], 0))
        return pfor.wrap(tf.transpose(every, order), True)

    def reduced(inputs: Any) -> Any:
        inputs.stack_inputs()
        stacked = [inputs.stacked_input(n) for n in range(inputs.num_inputs)]
        operation = inputs.get_attr("reduce_op")
        return [pfor.wrap(hvd.allreduce(t, op=operation), True) for t in stacked]

    found = {
        "HorovodAllgather": gathered,
        "HorovodAllreduce": reduced,
        "HorovodGroupedAllreduce": reduced,
    }
    for name, converter in found.items():
        with contextlib.suppress(Exception):  # registered before
            pfor.RegisterPFor(name)(converter)
