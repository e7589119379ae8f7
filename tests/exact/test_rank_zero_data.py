"""`--data rank0`: ranks whose data differ get rank 0's, its end and its errors, and none waits for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exact")]

#: Each rank has other data, of other lengths and with other errors; a line that ranks differ in is found by its label.
PROGRAM = """\
import os
import numpy as np
import tensorflow as tf
import jupyter_hvd.runtime as jhvd

rank = int(os.environ.get("HOROVOD_RANK", "0"))
rng = np.random.default_rng(rank)
lines, reads = [], []
say = lambda label, *found: lines.append(f"{label} {found}")

def batches():
    for _ in range(5):
        reads.append(1)
        yield rng.random((4, 3)).astype("float32"), rng.random((4, 1)).astype("float32")

spec = (tf.TensorSpec((None, 3)), tf.TensorSpec((None, 1)))
ds = tf.data.Dataset.from_generator(batches, output_signature=spec).prefetch(2)
say("all", [float(x[0, 0]) for x, _ in ds])
say("take", [float(x[0, 0]) for x, _ in ds.take(1)])
for x, _ in ds:
    break
say("break", float(x[0, 0]))
if rank:
    assert not reads

for steps in (1, 2):
    model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse", steps_per_execution=steps)
    history = model.fit(ds.repeat(), epochs=2, steps_per_epoch=4, validation_data=ds.take(2), validation_steps=2, verbose=0)
    say("fit", history.history)
    say("evaluate", model.evaluate(ds.take(4), steps=4, verbose=0))

def some(rows):
    return rng.random((rows, 3)).astype("float32"), rng.random((rows, 1)).astype("float32")

class Batches(getattr(tf.keras.utils, "PyDataset", tf.keras.utils.Sequence)):
    def __len__(self):
        return 4 - rank
    def __getitem__(self, index):
        return some(4)

uneven = tf.data.Dataset.from_tensor_slices(some(8 + 8 * rank)).batch(4)
say("lengths", len(uneven), int(tf.data.experimental.cardinality(uneven)))
for data in (uneven, Batches()):
    say("known lengths", model.fit(data, validation_data=uneven, epochs=2, verbose=0).history, model.evaluate(data, verbose=0))
say("arrays of other lengths", model.fit(*some(9 + 4 * rank), batch_size=4, verbose=0).history)
say("a dataset within a generator", list(jhvd.rank_zero(len(x) for x, _ in uneven)))
model.run_eagerly = True
say("arrays", model.fit(rng.random((9, 3)), rng.random((9, 1)), verbose=0).history)

@tf.function
def total(iterator):
    return tf.reduce_sum(next(iterator)[0])

@tf.function
def total_of_all(iterator):
    found = 0.0
    for x, _ in iterator:
        found += tf.reduce_sum(x)
    return found

iterator = iter(ds)
sums = []
try:
    while True:
        sums.append(float(total(iterator)))
except tf.errors.OutOfRangeError:
    say("compiled", sums)
say("compiled loop", float(total_of_all(iter(ds))))

@tf.function
def over_dataset(data):
    for x, _ in data:
        tf.print(x)

try:
    over_dataset(ds)
except RuntimeError as error:
    say("refused", "cannot go through a dataset" in str(error))

def broken():
    yield np.float32(rank)
    if rank == 0:
        raise ValueError("broken file")

data = tf.data.Dataset.from_generator(broken, output_signature=tf.TensorSpec((), tf.float32))
step = tf.function(lambda iterator: next(iterator))
for follow in (next, step):
    iterator = iter(data)
    try:
        while True:
            follow(iterator)
    except tf.errors.OpError as error:
        say("error", type(error).__name__, "broken file" in str(error))
ragged = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1.0], [2.0, 3.0], [rank]])).batch(2)
say("ragged", [part.to_list() for part in ragged])
say("words", list(tf.data.Dataset.from_tensor_slices({"s": [f"of {rank}"]}).as_numpy_iterator()))
say("reduce", int(tf.data.Dataset.range(5 + rank).reduce(np.int64(0), lambda a, b: a + b)))
say("by hand", jhvd.rank_zero(rank), list(jhvd.rank_zero(iter(range(2 + rank)))))

def failing():
    yield rank
    raise KeyError("lost")

try:
    list(jhvd.rank_zero(failing()))
except (KeyError, RuntimeError) as error:
    say("error by hand", "lost" in str(error))
try:
    jhvd.rank_zero(lambda: 1)
except Exception as error:
    say("cannot be sent", "pickle" in str(error))
try:
    jhvd.rank_zero(ds)
except TypeError as error:
    say("dataset", "--data rank0" in str(error))
with open(os.environ["LINES"] + str(rank), "w") as file:
    file.write("\\n".join(lines))
print("the end", len(lines))
"""


@pytest.mark.long
def test_all_ranks_get_what_rank_zero_reads(hvd, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    monkeypatch.setenv("LINES", str(tmp_path / "lines-"))
    done = hvd("run", path, "-n", 2, "--batch", "global", "--data", "rank0", "--no-log")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the end 25"]
    zero, one = ((tmp_path / f"lines-{rank}").read_text().splitlines() for rank in (0, 1))
    assert zero == one
    assert not [line for line in zero if "False" in line]


def test_an_error_that_ends_rank_zero_ends_all(hvd, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    lines = "import tensorflow as tf\ndata = tf.data.TextLineDataset('missing.txt')\nfor line in data: pass\n"
    path.write_text(lines)
    done = hvd("run", path, "-n", 2, "--batch", "global", "--data", "rank0", "--no-log")
    assert done.returncode == 1
    assert "missing.txt" in done.stderr
