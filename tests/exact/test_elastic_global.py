"""`jupyter hvd run --elastic`: ranks that share each batch are lost in mid-training, and the final weights are one process's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exact")]

#: Kills rank 2 at a random step of an epoch after the first, once; and what both trainings begin with.
START = """\
import os, random, signal, threading, time
import numpy as np
import tensorflow as tf

SIZE = int(os.environ.get("HOROVOD_SIZE", "1"))


def kill_once():
    while not any(name.startswith("fit-") for name in os.listdir(os.environ["JUPYTER_HVD_STATE"])):
        time.sleep(0.01)
    time.sleep(random.SystemRandom().uniform(0, 1))
    os.kill(os.getpid(), signal.SIGKILL)


if SIZE == 3 and os.environ["HOROVOD_RANK"] == "2":
    threading.Thread(target=kill_once, daemon=True).start()
keras = tf.keras
keras.utils.set_random_seed(3)
x = np.random.rand(60, 6).astype("float32")
y = (x.sum(1, keepdims=True) > 3).astype("float32") + 0.1 * np.random.rand(60, 1)
layers = [keras.layers.Dense(8, use_bias=False), keras.layers.BatchNormalization(), keras.layers.Dropout(0.2)]
model = keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(1)])
"""
FIT = """
def slowly(*row):
    tf.py_function(lambda: time.sleep(0.005), [], [])
    return row


model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
first = model.fit(x, y, epochs=1, batch_size=7, verbose=0)
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(60).map(slowly).batch(7)
stopping = keras.callbacks.EarlyStopping("val_loss", patience=9, restore_best_weights=True)
callbacks = [keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=0.01), stopping]
second = model.fit(data, epochs=12, validation_data=(x[:20], y[:20]), callbacks=callbacks, verbose=0)
curves = [first.history["loss"], *second.history.values()]
"""
TAPE = """
optimizer, curves = keras.optimizers.Adam(0.01), [[]]
model.compile("sgd", "mse")
model.fit(x, y, epochs=1, verbose=0)


@tf.function
def step(rows, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(rows, training=True) - labels) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for epoch in range(30):
    for start in range(0, 60, 10):
        curves[0].append(float(step(x[start:start + 10], y[start:start + 10])))
        time.sleep(0.01)
"""
END = """
np.savez("end.npz", *model.get_weights(), *map(np.array, curves), np.random.rand(3), tf.random.normal([3]))
print("ended on", SIZE, "ranks")
"""


def results(folder: Path) -> list[np.ndarray]:
    with np.load(folder / "end.npz") as found:
        return [found[name] for name in found.files]


@pytest.mark.parametrize(
    ("training", "batch", "said"),
    [
        pytest.param(FIT, "global", "fit goes on after epoch", id="fit"),
        pytest.param(TAPE, "global", "goes on with 2 ranks", id="tape", marks=pytest.mark.thorough),
        pytest.param(FIT, "per-rank", "fit goes on after epoch", id="per-rank-fit"),
        pytest.param(
            TAPE, "per-rank", "goes on with 2 ranks", id="per-rank-tape", marks=pytest.mark.thorough
        ),
    ],
)
def test_a_rank_that_is_killed_changes_no_result(
    hvd, tmp_path: Path, training: str, batch: str, said: str
) -> None:
    """Batches and rates that are multiplied stay those of the three ranks with which the job began."""
    alone = tmp_path / "alone"
    alone.mkdir()
    program = tmp_path / "train.py"
    program.write_text(START + training + END)
    convert = hvd("convert", program, "--batch", batch, "-o", alone / "train.py")
    assert convert.returncode == 0, convert.stderr
    environment = {**os.environ, "JUPYTER_HVD_VIRTUAL_SIZE": "3"}
    command = [sys.executable, "train.py"]
    subprocess.run(command, cwd=alone, env=environment, check=True, capture_output=True)
    done = hvd("run", "train.py", "-n", 3, "--batch", batch, "--elastic", "--min", 2, "--no-log")
    assert done.returncode == 0, done.stderr
    assert said in done.stderr
    assert "ended on 2 ranks" in done.stdout
    one, ranks = results(alone), results(tmp_path)
    for number, (expected, found) in enumerate(zip(one, ranks, strict=True)):
        assert np.abs(expected - found).max() < 1e-4, number
