"""What the runtime does with optimizers and `fit` on two ranks, on any Keras; started by `test_runtime.py` under horovodrun."""

from __future__ import annotations

import sys
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

import jupyter_hvd.runtime as jhvd

folder = Path(sys.argv[1])
jhvd.start()
rank = hvd.rank()
assert hvd.size() == 2
keras = tf.keras
IS_3 = hasattr(keras.optimizers.Optimizer, "apply")


def on_all_equal(values: object) -> bool:
    first, second = hvd.allgather_object(values)
    return first == second


def numbers(variables: object) -> list[object]:
    return [np.asarray(v).tolist() for v in variables]


def apply(optimizer: object, gradients: list[object], variables: list[object]) -> None:
    if IS_3:
        optimizer.apply(gradients, variables)
    else:
        optimizer.apply_gradients(zip(gradients, variables, strict=True))


def variable(value: float | list[float]) -> object:
    return keras.Variable(value) if IS_3 else tf.Variable(value)


def value(of: object) -> object:
    return np.asarray(of.value if IS_3 else of).tolist()


# The optimizer is the same object, of the same class, with the same configuration.
adam = keras.optimizers.Adam(0.5)
before = type(adam), keras.optimizers.serialize(adam)
assert jhvd.DistributedOptimizer(adam) is adam
assert (type(adam), keras.optimizers.serialize(adam)) == before


# Dense gradients of two types, sparse ones and None, compiled and eager.
def kinds_of_gradients(compiled: bool) -> None:
    one, two, idle = variable(0.0), variable([0.0, 0.0]), variable(7.0)
    table = variable([[0.0], [0.0], [0.0]])
    sgd = jhvd.DistributedOptimizer(keras.optimizers.SGD(1.0))

    def step() -> None:
        rows = tf.IndexedSlices(tf.constant([[2.0]]), tf.constant([rank]), tf.constant([3, 1]))
        dense = [tf.constant(1.0 + rank), tf.constant([float(rank), 4.0])]
        apply(sgd, [dense[0], None, dense[1], rows], [one, idle, two, table])

    if IS_3:
        sgd.build([one, idle, two, table])
    (tf.function(step) if compiled else step)()
    assert value(one) == -1.5
    assert value(two) == [-0.5, -4.0]
    assert value(table) == [[-1.0], [-1.0], [0.0]]
    assert value(idle) == 7.0


kinds_of_gradients(compiled=False)
kinds_of_gradients(compiled=True)

# Clipped is the average: that of 4 and 0 is 2, clipped to 1; each clipped first would give 0.5.
one = variable(0.0)
clipping = jhvd.DistributedOptimizer(keras.optimizers.SGD(1.0, clipvalue=1.0))
apply(clipping, [tf.constant(4.0 * rank)], [one])
assert value(one) == -1.0

# Compressed to half precision and back.
one = variable(0.0)
half = jhvd.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=hvd.Compression.fp16)
apply(half, [tf.constant(1 / 3 + rank)], [one])
assert abs(value(one) + 1 / 3 + 0.5) < 1e-3
assert value(one) != -np.float32(1 / 3 + 0.5)


# The sum of two passes is averaged and applied at once.
def two_passes(compiled: bool) -> None:
    one, idle = variable(0.0), variable(7.0)
    twice = jhvd.DistributedOptimizer(keras.optimizers.SGD(1.0), backward_passes_per_step=2)

    def step(gradient: object) -> None:
        apply(twice, [gradient, None], [one, idle])

    run = tf.function(step) if compiled else step
    seen = []
    for number in (1.0, 2.0, 3.0, 4.0):
        run(tf.constant(number + rank))
        seen.append(value(one))
    assert seen == [0.0, -4.0, -4.0, -12.0], seen


two_passes(compiled=False)
two_passes(compiled=True)

# A tape: sources in a structure, None among the gradients; asked on one rank's own as before.
one, other = variable(1.0), variable(2.0)
with tf.GradientTape(persistent=True) as tape:
    loss = one * one * float(1 + rank)
averaged = jhvd.DistributedGradientTape(tape).gradient(loss, {"a": one, "b": [other]})
assert float(averaged["a"]) == 3.0
assert averaged["b"] == [None]
assert float(tape.gradient(loss, one)) == 2.0 * (1 + rank)
assert on_all_equal(float(jhvd.average_gradients({"g": tf.constant(float(rank))})["g"]))

# Weights, optimizer state and moving averages agree after `fit`; noise stays each rank's own.
x = np.random.RandomState(rank).rand(64, 3).astype("float32")
y = x.sum(1)


def model() -> object:
    tf.random.set_seed(rank)
    return keras.Sequential(
        [
            keras.layers.Dense(4, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )


def fit(optimizer: object, epochs: int = 2, **kw: object) -> object:
    own = model()
    own.compile(jhvd.DistributedOptimizer(optimizer), loss="mse", **kw)
    callbacks = [jhvd.BroadcastGlobalVariablesCallback(0), jhvd.MetricAverageCallback()]
    history = own.fit(x, y, batch_size=8, epochs=epochs, verbose=0, callbacks=callbacks)
    state = own.optimizer.variables
    trained = numbers(own.trainable_variables) + numbers(state() if callable(state) else state)
    assert np.isfinite(trained[0]).all()
    assert on_all_equal(trained)
    assert on_all_equal(history.history)
    return own


saved = fit(keras.optimizers.Adam(0.01))
fit(keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=3, global_clipnorm=1.0))
fit(keras.optimizers.SGD(0.01, momentum=0.9), run_eagerly=True, epochs=1)
fit(keras.optimizers.Adam(0.01), steps_per_execution=2)
if IS_3:
    fit(keras.optimizers.Adam(0.01, gradient_accumulation_steps=2))
    fit(keras.optimizers.Adam(0.01, loss_scale_factor=1024.0))
    fit(keras.optimizers.Adam(0.01), jit_compile=True)
if hasattr(keras.mixed_precision, "LossScaleOptimizer"):
    fit(keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(0.01)))

# Under mixed precision Keras wraps the optimizer by itself; where one rank overflows, all leave the step out.
keras.mixed_precision.set_global_policy("mixed_float16")
mixed = model()
mixed.compile(jhvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), loss="mse")
assert type(mixed.optimizer).__name__.startswith("LossScaleOptimizer")
huge = np.where(rank == 1, np.float32(1e30), y).astype("float32")
start = jhvd.BroadcastGlobalVariablesCallback(0)
mixed.fit(x, y, batch_size=8, verbose=0, callbacks=[start])
trained = numbers(mixed.trainable_variables)
mixed.fit(x, huge, batch_size=64, verbose=0, callbacks=[start])
assert numbers(mixed.trainable_variables) == trained
assert on_all_equal(trained)
keras.mixed_precision.set_global_policy("float32")

# Moving averages are each rank's own in training, and rank 0's behind it.
averages = keras.layers.BatchNormalization()
normal = keras.Sequential([averages, keras.layers.Dense(1)])
normal.compile(jhvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")
start = jhvd.BroadcastGlobalVariablesCallback(0)
normal.fit(x * (1 + rank), y, batch_size=8, verbose=0, callbacks=[start])
assert on_all_equal(numbers([averages.moving_mean, averages.moving_variance]))

# Warm-up: from one process's rate to that of both ranks, which is kept.
own, rates = model(), []
own.compile(jhvd.DistributedOptimizer(keras.optimizers.SGD(0.02)), loss="mse")


class Rates(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        rates.append(float(self.model.optimizer.learning_rate))


start = jhvd.BroadcastGlobalVariablesCallback(0)
warmup = jhvd.LearningRateWarmupCallback(0.02, warmup_epochs=2)
own.fit(x, y, batch_size=16, epochs=3, verbose=0, callbacks=[start, warmup, Rates()])
expected = [0.01 + 0.01 * n / 8 for n in range(8)] + [0.02] * 4
assert np.allclose(rates, expected), rates

# A schedule of the program's own is followed N times as fast, at N times its rates, in `fit` too.


class Falling(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step: object) -> object:
        return 0.1 / (1 + tf.cast(step, tf.float32))

    def get_config(self) -> dict[str, object]:
        return {}


scheduled = fit(keras.optimizers.SGD(jhvd.scaled_schedule(Falling())))
assert "jupyter_hvd" not in str(keras.optimizers.serialize(scheduled.optimizer))

# A model that another module has compiled, and trained: the step that was compiled there is made anew.
made = keras.Sequential(
    [keras.layers.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")]
)
made.compile(keras.optimizers.SGD(0.5), "mse", **({"jit_compile": False} if IS_3 else {}))
own_x, own_y = np.ones((2, 1), "float32"), np.full((2, 1), float(1 + rank), "float32")
made.train_on_batch(own_x, own_y)
assert not on_all_equal(numbers(made.trainable_variables))
made.set_weights([np.zeros((1, 1)), np.zeros(1)])
assert jhvd.distributed_model(made) is made
averaging = made.optimizer
assert jhvd.distributed_model(made).optimizer is averaging
made.train_on_batch(own_x, own_y)
assert numbers(made.trainable_variables) == [[[1.5]], [1.5]]
with pytest.raises(TypeError, match="compile it in this program"):
    jhvd.distributed_model(keras.Sequential([keras.layers.Dense(1)]))

# What is saved loads where neither Horovod nor this package is: `test_runtime.py` does.
if rank == 0:
    saved.save(folder / "model.keras")
    np.save(folder / "input.npy", x)
    np.save(folder / "output.npy", saved.predict(x, verbose=0))
print("all is well")
