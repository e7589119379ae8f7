"""What `run --batch global` says about calls that it does not shard."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ..conftest import Command

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exact")]
HERE = Path(__file__).parent
SOME_UNSHARDED = """\
import threading

import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(1)
x = tf.random.normal((8, 3))


class Centre(keras.layers.Layer):
    def call(self, x):
        return x - tf.reduce_mean(x, 0)


model = keras.Sequential([keras.layers.Dense(4), Centre(name="middle"), keras.layers.Dense(1)])
model(x)
model(x)
apart = keras.Sequential([keras.layers.Dense(2)])
apart(x)
thread = threading.Thread(target=lambda: [apart(x) for _ in range(20)])
thread.start()
head = keras.Sequential([keras.layers.Dense(2)])
head(x)
for _ in range(20):
    head(x)
thread.join()
print("done")
"""


def reports(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("jupyter_hvd: ")]


def test_unsharded_calls_are_reported(hvd: Command, tmp_path: Path) -> None:
    """By the layer that is at fault, and in threads, which leave what the first one shares alone"""
    (tmp_path / "train.py").write_text(SOME_UNSHARDED)
    done = hvd("run", "train.py", "-n", 2, "--batch", "global", "--no-log")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 1
    mixed, apart = reports(done.stdout + done.stderr)
    assert "(train.py, line 17)" in mixed
    assert 'because of its `Centre` "middle"' in mixed
    assert "another thread" in apart


def test_a_program_without_layers_is_reported(hvd: Command, tmp_path: Path) -> None:
    shutil.copy(HERE / "programs" / "plain_variables.py", tmp_path / "train.py")
    done = hvd("run", "train.py", "-n", 2, "--batch", "global", "--no-log")
    assert done.returncode == 0, done.stderr
    (report,) = reports(done.stdout + done.stderr)
    assert "no call was sharded" in report
