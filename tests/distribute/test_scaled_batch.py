"""`%%distribute --batch per-rank`: cells on two ranks do what the scaled program does in one process."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from .conftest import Notebook

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("distribute")]
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
DATA = """
import numpy as np
import tensorflow as tf
tf.keras.utils.set_random_seed(3)
x = np.random.rand(64, 4).astype("float32")
y = x.sum(1)
settings = {"epochs": 2, "log": 4}
"""
MODEL = """
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
"""
FIT = """
history = model.fit(x, y, batch_size=BATCH, epochs=settings["epochs"], verbose=0).history["loss"]
print(history, [float(np.sum(w)) for w in model.get_weights()])
"""
OPTIMIZER = """
own = tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.ExponentialDecay(RATE, DECAY_STEPS, 0.5))
made = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
"""
LOOP = """
step, seen = 0, []
for epoch in range(settings["epochs"]):
    for a, b in made:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(a)[:, 0] - b) ** 2)
        weights = model.trainable_variables
        own.apply_gradients(zip(tape.gradient(loss, weights), weights))
        step += 1
        if step % settings["log"] == 0:
            seen.append(float(loss))
print(seen, [float(np.sum(w)) for w in model.get_weights()])
"""
#: The sizes of the program, and of the same scaled by hand to twice the rows and twice the rate: a schedule that is asked for
#: half as many steps falls twice as fast.
ONE = "BATCH, RATE, DECAY_STEPS = 8, 0.05, 16"
TWO = "BATCH, RATE, DECAY_STEPS = 16, 0.1, 8\nsettings['log'] = 2"
#: One process trains at its own sizes for a while, with the schedule where it has come to, and goes on as two.
FALLS = """
double, settings["log"] = made, 4
made = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
own = tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.ExponentialDecay(0.05, 16, 0.5))
own.iterations.assign(32)
"""
GOES_ON = """
made, settings["log"] = double, 2
own = tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.ExponentialDecay(RATE, DECAY_STEPS, 0.5))
own.iterations.assign(24)
"""
COMPILE = "model.compile(tf.keras.optimizers.SGD(RATE, momentum=0.9), 'mse')"


def numbers(text: str) -> list[float]:
    return [float(found) for found in NUMBER.findall(text)]


@pytest.mark.long
def test_cells_are_scaled_once(open_notebook: Callable[..., Notebook]) -> None:
    """Sizes, optimizers and datasets of earlier cells, which the kernel keeps as they are; in cells that run again, too."""
    alone, shared = open_notebook(), open_notebook()
    for source, by_hand in ((DATA, DATA), (ONE, TWO), (MODEL, MODEL), (COMPILE, COMPILE)):
        shared.good(source)
        alone.good(by_hand)
    shared.good(OPTIMIZER)
    alone.good(OPTIMIZER)
    first, again = "%%distribute -n 2 --batch per-rank\n", "%%distribute\n"
    for magic, source in ((first, FIT), (again, FIT), (again, LOOP), (again, LOOP), (again, FIT)):
        expected, found = alone.good(source), shared.good(magic + source)
        assert numbers(found.stdout) == pytest.approx(numbers(expected.stdout), rel=1e-4), (
            found.text
        )
    kept = shared.good(
        "print(BATCH, RATE, settings, round(float(model.optimizer.learning_rate), 4))"
    )
    assert kept.stdout.strip() == "8 0.05 {'epochs': 2, 'log': 4} 0.05"
    # An optimizer that the kernel has trained with goes on at as many examples, and comes back with one process's count.
    counted = "print(int(own.iterations.numpy()))"
    assert shared.good(counted).stdout.strip() == "32"
    assert alone.good(counted).stdout.strip() == "16"
    shared.good(LOOP)
    alone.good(f"{FALLS}{LOOP}{GOES_ON}")
    expected, found = alone.good(LOOP), shared.good(again + LOOP)
    assert numbers(found.stdout) == pytest.approx(numbers(expected.stdout), rel=1e-4), found.text
    assert shared.good(counted).stdout.strip() == "64"
    shown = shared.good(f"%%distribute --dry-run\n{FIT}").text
    assert "batch_size=BATCH * hvd.size()" in shown
    # New ranks have the notebook's values, which are still those of one process.
    shared.good("%hvd restart")
    expected, found = alone.good(FIT), shared.good(again + FIT)
    assert numbers(found.stdout) == pytest.approx(numbers(expected.stdout), rel=1e-4), found.text
