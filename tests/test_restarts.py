"""`jupyter hvd run --restarts`: a job that loses a rank goes on where it was."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import Options

pytestmark = pytest.mark.slow

#: Rank 1 is killed in the fourth epoch of each fit, the first time, when rank 0 has ended the third;
#: or rank 0, while it keeps the fourth one's weights.
FAULTS = """
import json, os, signal
from pathlib import Path
import numpy as np
import tensorflow as tf

RANK = os.environ["HOROVOD_RANK"]
x = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")


class Fault(tf.keras.callbacks.Callback):
    def __init__(self, mark):
        super().__init__()
        self.mark = Path(mark)

    def on_epoch_begin(self, epoch, logs=None):
        print("EPOCH", self.mark.name, epoch)  # hvd: ignore
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if (self.epoch, batch, RANK) == (3, 1, "1"):
            self.end()

    def on_epoch_end(self, epoch, logs=None):
        if (epoch, RANK) == (3, "0"):
            self.model.save_weights = self.end

    def end(self, filepath="", overwrite=True):
        if not self.mark.exists():
            self.mark.touch()  # hvd: ignore
            if filepath:
                Path(filepath).write_text("half")  # hvd: ignore
            os.kill(os.getpid(), signal.SIGKILL)


def train(name, first):
    layers = [*first, tf.keras.layers.Dense(4), tf.keras.layers.BatchNormalization()]
    model = tf.keras.Sequential([*layers, tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.01), loss="mse")
    history = model.fit(x, y, epochs=5, batch_size=8, verbose=0, callbacks=[Fault(name)])
    weights = [np.asarray(w).tolist() for w in model.get_weights()]
    print("TRAINED", json.dumps([name, history.epoch, len(history.history["loss"]), weights]))


train("one", [])
train("two", [tf.keras.Input((8,))])
"""
BACKED_UP = FAULTS.replace(
    "Fault(name)", 'Fault(name), tf.keras.callbacks.BackupAndRestore("kept")'
).replace('train("one", [])\n', "")


def said(output: str, word: str) -> list[str]:
    return [line.partition(f"{word} ")[2] for line in output.splitlines() if f"] {word} " in line]


@pytest.mark.long
def test_each_fit_goes_on_after_its_last_epoch(hvd, tmp_path) -> None:
    (tmp_path / "faults.py").write_text(FAULTS)
    done = hvd("run", "faults.py", "-n", 2, "--restarts", 3, "--no-log")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("started again") == 2
    assert "2 of 3" in done.stderr
    # Epochs of both ranks; one more of a model that its data build shows it what it has to hold.
    epochs = said(done.stdout, "EPOCH")
    assert [epochs.count(f"one {epoch}") for epoch in range(5)] == [2, 2, 2, 4, 4]
    assert [epochs.count(f"two {epoch}") for epoch in range(5)] == [2, 2, 2, 4, 2]
    first, again, second = said(done.stdout, "TRAINED")
    assert first == again
    assert first.startswith('["one", [0, 1, 2, 3, 4], 5, ')
    assert second.startswith('["two", [0, 1, 2, 3, 4], 5, ')


@pytest.mark.parametrize(
    "killed",
    ["while it writes one", pytest.param("between two backups", marks=pytest.mark.thorough)],
)
def test_all_ranks_go_on_from_a_backup_of_keras_own(hvd, tmp_path, killed) -> None:
    source = BACKED_UP
    if killed == "while it writes one":
        source = source.replace('(3, 1, "1")', "None")
    (tmp_path / "backup.py").write_text(source)
    assert hvd("run", "backup.py", "-n", 2, "--no-log").returncode == 137
    # Keras' own, and how many ranks there were.
    assert len(list((tmp_path / "kept").glob("*.weights.h5"))) == 1
    assert json.loads((tmp_path / "kept" / "ranks.json").read_text())[1] == 2
    done = hvd("run", "backup.py", "-n", 2, "--no-log")
    assert done.returncode == 0, done.stderr
    assert sorted(said(done.stdout, "EPOCH")) == ["two 3", "two 3", "two 4", "two 4"]
    assert said(done.stdout, "TRAINED")[0].startswith('["two", [3, 4], 2, ')
    assert not (tmp_path / "kept").exists()


def test_what_fails_alike_is_not_started_for_ever(hvd, tmp_path) -> None:
    (tmp_path / "broken.py").write_text("print('here')\nraise ValueError('never right')\n")
    done = hvd("run", "broken.py", "-n", 2, "--restarts", 5, "--no-log")
    assert done.returncode == 1
    assert done.stderr.count("started again") == 1
    assert "never right" in done.stderr


def test_a_program_that_restores_is_left_to_that() -> None:
    loop = """
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
for images, labels in dataset:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(images) - labels))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
    kept = loop.replace(
        "for images", "tf.train.Checkpoint(model=model).restore('kept')\nfor images"
    )
    for source, wrapped in ((loop, True), (kept, False)):
        outcome = convert_source(source, options=Options(restartable=True))
        assert ("resumed_loop" in outcome.code) is wrapped


DATA = """
import numpy as np
import tensorflow as tf

x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(0.01)
loss_of = tf.keras.losses.BinaryCrossentropy(from_logits=True)
"""
FIT = """
model.compile(optimizer, loss=loss_of)
model.fit(x, y, batch_size=32, epochs=60, verbose=0)
"""
TAPE = """
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(640).batch(32)
epoch = tf.Variable(0)
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, epoch=epoch)
manager = tf.train.CheckpointManager(checkpoint, "kept", max_to_keep=2)
checkpoint.restore(manager.latest_checkpoint)


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


while int(epoch) < 60:
    for images, labels in dataset:
        step(images, labels)
    epoch.assign_add(1)
    manager.save()
"""
LOOP = TAPE.replace(TAPE[TAPE.index("epoch = tf") : TAPE.index("@tf.function")], "\n").replace(
    TAPE[TAPE.index("while") :],
    """for epoch in range(60):
    for images, labels in dataset:
        step(images, labels)
""",
)
RESULT = """
import json

accuracy = float(np.mean((model(x).numpy() > 0) == (y > 0)))
print("DONE", json.dumps([accuracy, [w.tolist() for w in model.get_weights()]]))  # hvd: ignore
"""


RESTARTS, ELASTIC = "-n 2 --restarts 1", "-n 3 --elastic --min 2"


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("loop", "options"),
    [(FIT, RESTARTS), (TAPE, RESTARTS), (FIT, ELASTIC), (LOOP, ELASTIC)],
    ids=["fit", "tape", "elastic fit", "elastic tape"],
)
def test_a_random_rank_killed_at_a_random_time(
    loop: str, options: str, seed: int, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(DATA + loop + RESULT)
    drawn, size = random.Random(seed), int(options.split()[1])
    command = f"run train.py {options} --no-log".split()
    with subprocess.Popen(
        [sys.executable, "-m", "jupyter_hvd", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        ranks: list[psutil.Process] = []
        while len(ranks) < size and job.poll() is None:
            time.sleep(0.1)
            ranks = [p for p in psutil.Process(job.pid).children(recursive=True) if is_rank(p)]
        time.sleep(drawn.uniform(0, 15))
        killed = drawn.choice(ranks)
        if killed.is_running():
            killed.kill()
        output, errors = job.communicate(timeout=300)
    assert job.returncode == 0, errors
    results = [json.loads(line) for line in said(output, "DONE")]
    assert len(results) >= 2
    assert results[-1] == results[-2]
    assert results[-1][0] > 0.97


def is_rank(process: psutil.Process) -> bool:
    try:
        return "jupyter_hvd.rank.batch" in process.cmdline() and "HOROVOD_RANK" in process.environ()
    except psutil.Error:
        return False
