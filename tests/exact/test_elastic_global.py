"""`jupyter hvd run --elastic`: ranks that share each batch are lost in mid-training, and the final weights are one process's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from jupyter_hvd.cli.global_batch import RANK_MODULE, copy_unconverted
from jupyter_hvd.convert import Options
from jupyter_hvd.convert.unconverted_programs import common_variables
from jupyter_hvd.launch import restarts
from jupyter_hvd.launch.job import Program
from jupyter_hvd.launch.rank_placement import place_ranks
from jupyter_hvd.launch.restarts import RESIZED, ElasticRestartPolicy, run_job_with_restarts
from jupyter_hvd.runtime.sharing.program import RESUME_VARIABLE

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exact")]

#: Kills rank 2 at a random step of an epoch after the first, once; and what both trainings begin with.
START = """\
import contextlib, os, random, signal, threading, time
import numpy as np
import tensorflow as tf

SIZE = int(os.environ.get("HOROVOD_SIZE", "1"))
STATE = os.environ.get("JUPYTER_HVD_STATE", "")


def note_training():
    # The place of the lost rank is free from now on.
    if SIZE == 2:
        open(STATE + "-training", "w").close()


def kill_once():
    while not any(name.startswith("fit-") for name in os.listdir(STATE)):
        time.sleep(0.01)
    time.sleep(random.SystemRandom().uniform(0, 1))
    with contextlib.suppress(FileExistsError):
        os.mkdir(STATE + "-killed")
        os.kill(os.getpid(), signal.SIGKILL)


if SIZE == 3 and os.environ["HOROVOD_RANK"] == "2":
    threading.Thread(target=kill_once, daemon=True).start()
keras = tf.keras
keras.utils.set_random_seed(3)
x = np.random.rand(60, 6).astype("float32")
y = ((x.sum(1, keepdims=True) > 3) + 0.1 * np.random.rand(60, 1)).astype("float32")
layers = [keras.layers.Dense(8, use_bias=False), keras.layers.BatchNormalization(), keras.layers.Dropout(0.2)]
model = keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(1)])
"""
FIT = """
def slowly(*row):
    tf.py_function(lambda: time.sleep(0.005), [], [])
    return row


model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
first = model.fit(x, y, epochs=1, batch_size=7, verbose=0)
note_training()
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
    note_training()
"""
END = """
np.savez("end.npz", *model.get_weights(), *map(np.array, curves), np.random.rand(3), tf.random.normal([3]))
print("ended on", SIZE, "ranks")
"""


#: A loop that writes what it goes on from, and begins with it where there is some; rank 1 is killed in its 18th step, once.
CHECKPOINTS = """\
import os, signal
import numpy as np
import tensorflow as tf

keras = tf.keras
keras.utils.set_random_seed(3)
x = np.random.rand(60, 6).astype("float32")
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(0.01)
optimizer.build(model.trainable_variables)
steps = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, steps=steps)
manager = tf.train.CheckpointManager(checkpoint, "kept", max_to_keep=2)
manager.restore_or_initialize()
print("begins with step", int(steps))
for number in range(int(steps), 30):
    if number == 17 and os.environ.get("HOROVOD_RANK") == "1" and not os.path.exists(os.environ["KILLED"]):
        os.mkdir(os.environ["KILLED"])
        os.kill(os.getpid(), signal.SIGKILL)
    rows = x[number:number + 7]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(rows, training=True) - rows[:, :1]) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    steps.assign_add(1)
    if number % 5 == 4:
        manager.save()
np.savez("end.npz", *model.get_weights())
"""


def results(folder: Path) -> list[np.ndarray]:
    with np.load(folder / "end.npz") as found:
        return [found[name] for name in found.files]


def write_program(folder: Path, training: str) -> list[np.ndarray]:
    """Write `train.py`; what it comes to in one process."""
    alone = folder / "alone"
    alone.mkdir()
    for each in (alone, folder):
        (each / "train.py").write_text(START + training + END)
    subprocess.run([sys.executable, "train.py"], cwd=alone, check=True, capture_output=True)
    return results(alone)


def assert_equal_results(one: list[np.ndarray], ranks: list[np.ndarray]) -> None:
    for number, (expected, found) in enumerate(zip(one, ranks, strict=True)):
        assert np.abs(expected - found).max() < 1e-4, number


@pytest.mark.parametrize(
    ("training", "batch", "said"),
    [
        pytest.param(FIT, "global", "fit goes on after epoch", id="fit"),
        pytest.param(
            TAPE, "global", "continues with 2 ranks", id="tape", marks=pytest.mark.thorough
        ),
        pytest.param(FIT, "per-rank", "fit goes on after epoch", id="per-rank-fit"),
        pytest.param(
            TAPE,
            "per-rank",
            "continues with 2 ranks",
            id="per-rank-tape",
            marks=pytest.mark.thorough,
        ),
    ],
)
@pytest.mark.long
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
    assert_equal_results(results(alone), results(tmp_path))


@pytest.mark.thorough
def test_a_loop_goes_on_from_its_own_checkpoint(hvd, tmp_path: Path, monkeypatch) -> None:
    """Started again, every rank reads the checkpoint that rank 0 has written."""
    monkeypatch.setenv("KILLED", str(tmp_path / "killed"))
    alone = tmp_path / "alone"
    alone.mkdir()
    (tmp_path / "train.py").write_text(CHECKPOINTS)
    subprocess.run([sys.executable, "../train.py"], cwd=alone, check=True, capture_output=True)
    options = ("-n", 2, "--batch", "global", "--restarts", 1, "--no-log")
    done = hvd("run", "train.py", *options)
    assert done.returncode == 0, done.stderr
    begun = [line for line in done.stdout.splitlines() if line.startswith("begins")]
    assert begun == ["begins with step 0", "begins with step 15"]
    assert_equal_results(results(alone), results(tmp_path))


def test_a_program_that_keeps_nothing_is_ended_where_it_loses_little(tmp_path: Path) -> None:
    now = time.time()

    def written(name: str, seconds: float) -> None:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (now - seconds, now - seconds))

    written("resize", restarts.GRACE + 10)
    assert restarts.is_worth_ending(tmp_path, began=now - restarts.LOST + 60)
    assert not restarts.is_worth_ending(tmp_path, began=now - restarts.LOST - 60)
    written("fit-0.pickle", restarts.LOST - 60)
    assert restarts.is_worth_ending(tmp_path, began=now - restarts.LOST - 60)
    written("resize", restarts.GRACE - 10)
    assert not restarts.is_worth_ending(tmp_path, began=now - restarts.LOST - 60)


class FreedInTraining(ElasticRestartPolicy):
    """The place where a rank was lost is left out until the program on the other ranks trains."""

    def _slots_on_cooldown(self) -> Counter[str]:
        is_training = Path(f"{self._state}-training").exists()
        return Counter() if is_training else super()._slots_on_cooldown()


@pytest.mark.thorough
@pytest.mark.parametrize("training", [pytest.param(FIT, id="fit"), pytest.param(TAPE, id="tape")])
def test_a_rank_that_comes_back_changes_no_result(tmp_path: Path, monkeypatch, training: str) -> None:  # fmt: skip
    """One of three ranks is killed; the job goes on with two, and takes a third when its place is free again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(restarts, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(restarts, "GRACE", 0.5)
    one = write_program(tmp_path, training)
    starts, lines = [], []
    with copy_unconverted(tmp_path / "train.py") as (copy, folder, _):
        result = run_job_with_restarts(
            Program(copy, tmp_path / "train.py", module=RANK_MODULE),
            folder,
            policy=FreedInTraining(place_ranks(3), 2, 3),
            restarted=lambda ended, following: starts.append(
                (ended.code == RESIZED, following.size)
            ),
            listener=lambda rank, _, text: lines.append(text) if rank == 0 else None,
            environment={**common_variables(Options(batch="global")), RESUME_VARIABLE: "1"},
        )
    assert result.code == 0, result.report
    assert starts == [(False, 2), (True, 3)]
    assert "ended on 3 ranks" in lines
    assert_equal_results(one, results(tmp_path))
