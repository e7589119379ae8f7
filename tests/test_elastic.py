"""`jupyter hvd run --elastic`: a job that loses ranks goes on with those that are left, and with more when there are places."""

from __future__ import annotations

import json
import os
import time
from collections import Counter

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.cli.run import converted_copy
from jupyter_hvd.convert import Options
from jupyter_hvd.launchers import again
from jupyter_hvd.launchers.again import Elastic, run_job_again
from jupyter_hvd.launchers.hosts import Host, LaunchError
from jupyter_hvd.launchers.job import JobResult, Program
from jupyter_hvd.launchers.places import Where, place

#: The last rank is killed in the fourth epoch, once. It says of each epoch its number, the ranks, and the rate.
START = """
import json, os, signal
from pathlib import Path
import numpy as np
import tensorflow as tf

RANK, SIZE = int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])
x = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0).astype("float32")


def fault(epoch):
    mark = Path("mark")
    if (epoch, RANK) == (3, SIZE - 1) and not mark.exists():
        mark.touch()  # hvd: ignore
        os.kill(os.getpid(), signal.SIGKILL)


model = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(0.01)
"""
FIT = """
class Fault(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        fault(self.epoch)

    def on_epoch_end(self, epoch, logs=None):
        told = [epoch, SIZE, round(float(self.model.optimizer.learning_rate), 6)]
        print("EPOCH", json.dumps(told))  # hvd: ignore


model.compile(optimizer, loss="mse")
kept = model.fit(x, y, epochs=6, batch_size=8, verbose=0, callbacks=[Fault()]).history["loss"]
best = min(kept)
"""
TAPE = """
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(96).batch(8)
kept, best = [], 1e9


@tf.function
def step(rows, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(rows, training=True) - labels))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(6):
    total = tf.constant(0.0)
    for rows, labels in dataset:
        fault(epoch)
        total += step(rows, labels)
    kept.append(float(total))
    best = min(best, kept[-1])
    print("EPOCH", json.dumps([epoch, SIZE, round(float(optimizer.learning_rate), 6)]))  # hvd: ignore
"""
END = """
weights = [np.asarray(w).tolist() for w in model.trainable_variables]
print("DONE", json.dumps([len(kept), best == min(kept), weights]))  # hvd: ignore
"""


def said(output: str, word: str) -> list[list[object]]:
    return [
        json.loads(line.partition(f"{word} ")[2])
        for line in output.splitlines()
        if f"] {word} " in line
    ]


#: One of each in `make test`.
FIT_THOROUGH = pytest.param(FIT, marks=pytest.mark.thorough)
TAPE_THOROUGH = pytest.param(TAPE, marks=pytest.mark.thorough)


@pytest.mark.slow
@pytest.mark.parametrize("loop", [FIT_THOROUGH, TAPE], ids=["fit", "tape"])
def test_the_ranks_that_are_left_go_on(hvd, tmp_path, loop) -> None:
    (tmp_path / "train.py").write_text(START + loop + END)
    done = hvd("run", "train.py", "-n", 3, "--elastic", "--min", 2, "--no-log")
    assert done.returncode == 0, done.stderr
    assert "goes on with 2 ranks" in done.stderr
    epochs = Counter(map(tuple, said(done.stdout, "EPOCH")))
    assert {key: n for key, n in epochs.items() if key[1] == 3} == {
        (epoch, 3, 0.03): 3 for epoch in range(3)
    }
    # The rate follows the ranks. Turns that take milliseconds are not kept each: some are done again.
    after = {key: n for key, n in epochs.items() if key[1] == 2}
    assert {(epoch, 2, 0.02): 2 for epoch in range(3, 6)}.items() <= after.items()
    assert {n for key, n in after.items()} == {2}
    first, second = said(done.stdout, "DONE")
    assert first[:2] == second[:2] == [6, True]
    assert first[2] == second[2]


@pytest.mark.thorough
def test_more_ranks_come_when_there_are_places(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(again, "LOOK", 0.2)
    source = (START + TAPE + END).replace(
        "        fault(epoch)\n",
        "        fault(epoch)\n        __import__('time').sleep(0.05 if epoch > 3 else 0.0)\n",
    )
    (tmp_path / "train.py").write_text(source.replace("range(6)", "range(40)"))
    sizes, lines = [], []
    with converted_copy(tmp_path / "train.py", Options(elastic=True)) as (copy, folder, _):
        result = run_job_again(
            Program(copy, tmp_path / "train.py"),
            folder,
            policy=Elastic(place(2), 1, 2, cooling=1.0),
            told=lambda _, following: sizes.append(following.size),
            listener=lambda rank, _, text: lines.append(f"[{rank}] {text}"),
        )
    assert result.code == 0, result.report
    assert sizes == [1, 2]
    printed = "\n".join(lines)
    assert {tuple(each[1:]) for each in said(printed, "EPOCH")} == {(1, 0.01), (2, 0.02)}
    first_done, second_done = said(printed, "DONE")
    assert first_done[0] == second_done[0] == 40
    assert first_done[2] == second_done[2]


def test_places_that_are_left(monkeypatch) -> None:
    first = place(3, Where("127.0.0.1:2,localhost:2"))
    policy = Elastic(first, 2, 4)
    lost = JobResult(137, 2, "killed")
    following = policy.after(lost, first)
    assert following is not None
    assert (following.size, following.hosts) == (3, (Host("127.0.0.1", 2), Host("localhost", 1)))
    # Where there would be too few, the places of ranks that were lost are taken again.
    monkeypatch.setattr(again, "last_kept", lambda _: policy._kept + 1)
    for _ in range(3):
        following = policy.after(JobResult(137, 0, "killed"), following)
        assert following is not None
    assert following.size == 2
    assert sum(host.slots for host in following.hosts) == 4


def test_what_never_keeps_anything_ends(tmp_path) -> None:
    first = place(2)
    policy = Elastic(first, 1, 2)
    policy._state = tmp_path
    again_and_again = []
    while (following := policy.after(JobResult(137, 0, "killed"), first)) is not None:
        again_and_again.append(following)
    assert len(again_and_again) == again.FAULTS - 1


def test_a_program_that_keeps_nothing_is_ended_where_it_loses_little(tmp_path) -> None:
    now = time.time()

    def written(name: str, seconds: float) -> None:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (now - seconds, now - seconds))

    written("resize", again.GRACE + 10)
    assert again.is_worth_ending(tmp_path, began=now - again.LOST + 60)
    assert not again.is_worth_ending(tmp_path, began=now - again.LOST - 60)
    written("fit-0.pickle", again.LOST - 60)
    assert again.is_worth_ending(tmp_path, began=now - again.LOST - 60)
    written("resize", again.GRACE - 10)
    assert not again.is_worth_ending(tmp_path, began=now - again.LOST - 60)


def test_bounds_that_do_not_fit(hvd, tmp_path) -> None:
    (tmp_path / "train.py").write_text("print('here')\n")
    for options, reason in (
        (["-n", 2, "--elastic", "--min", 3], "not between --min 3 and --max 3"),
        (["-n", 2, "--elastic", "--max", 1], "not between --min 1 and --max 1"),
        (["-n", 2, "--min", 1], "are for --elastic"),
        (["-n", 2, "--elastic", "--restarts", 2], "leave --restarts out"),
        (["-n", 2, "--elastic", "-H", "localhost:2", "--max", 4], "room for 2 ranks, not for 4"),
    ):
        done = hvd("run", "train.py", *options, "--no-log")
        assert done.returncode == 2, done.stderr
        assert reason in " ".join(done.stderr.split())
    with pytest.raises(LaunchError, match="room for 1 ranks"):
        Elastic(place(1, Where("localhost:1")), 1, 2)


LOOP = """
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)


def step(images, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(images) - labels))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

"""


def test_what_begins_anew_is_told() -> None:
    """A `while` loop is refused; what a function's loop counts by itself begins anew beside training that goes on."""
    turns = (
        "epoch = 0\nwhile epoch < 3:\n    for a, b in data:\n        step(a, b)\n    epoch += 1\n"
    )
    counts = """
def train():
    best, last = 1e9, 0
    for epoch in range(3):
        for a, b in data:
            best = min(best, step(a, b))
        last = best
    return best
train()
"""
    for source, told, refused in ((turns, "`while`", True), (counts, "`best` of this", False)):
        for options in (Options(elastic=True), Options(restartable=True)):
            outcome = convert_source(LOOP + source, options=options)
            found = [d for d in outcome.diagnostics if d.code == "HVD407"]
            assert [told in d.message for d in found] == [True]
            is_error = refused and options.elastic
            assert (found[0].severity, outcome.status) == (
                ("error", "refused") if is_error else ("warning", "converted")
            )


@pytest.mark.parametrize(
    ("loop", "written"),
    [
        (
            "def train():\n    for epoch in range(3):\n        loss = 0.0\n        for a, b in data:\n"
            "            loss += step(a, b)\n        print(loss)\ntrain()\n",
            "in jhvd.resumed_loop(range(3), globals(), locals()):",
        ),
        (
            "def epoch():\n    for a, b in data:\n        step(a, b)\nfor turn in range(3):\n    epoch()\n",
            "in jhvd.resumed_loop(range(3), globals()):",
        ),
        (
            "for a, b in data:\n    step(a, b)\n",
            "in jhvd.resumed_loop(jhvd.shard_batches(data), globals()):",
        ),
    ],
)
def test_the_outermost_loop_goes_on(loop: str, written: str) -> None:
    outcome = convert_source(
        LOOP.replace("model =", "data = load()\nmodel =", 1) + loop, options=Options(elastic=True)
    )
    assert outcome.code.count("resumed_loop") == 1
    assert written in outcome.code


def test_what_is_being_written_is_not_kept_yet(tmp_path) -> None:
    """A rank that was killed while it wrote the first time left nothing to go on from."""
    (tmp_path / "fit-0.new").touch()
    assert again.last_kept(tmp_path) == 0
    (tmp_path / "fit-0.npz").touch()
    assert again.last_kept(tmp_path) > 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("loop", [FIT, TAPE_THOROUGH], ids=["fit", "tape"])
def test_verify_kills_a_rank(hvd, tmp_path, loop) -> None:
    source = (START + loop + END).replace("  # hvd: ignore", "").replace("mark.touch()", "return")
    (tmp_path / "train.py").write_text(source.replace("(6)", "(30)").replace("=6", "=30"))
    done = hvd("verify", "train.py", "-n", 3, "--elastic", "--json")
    found = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    told = found["goes on without a rank"]
    assert told["status"] == "pass", done.stdout
    assert "goes on after" in told["detail"]
    assert "2 ranks came to the end" in told["detail"]
    assert done.returncode == 0, done.stdout
