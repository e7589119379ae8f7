"""`%%distribute --batch global`: a cell on two ranks does what it does in the kernel."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from .conftest import Notebook

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("distribute")]
MAKE = """
import numpy as np
import tensorflow as tf
tf.keras.utils.set_random_seed(3)
x = np.random.rand(20, 4).astype("float32")
y = x.sum(1)
model = tf.keras.Sequential([
    tf.keras.Input((4,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.BatchNormalization(),
    tf.keras.layers.Dropout(0.3), tf.keras.layers.Dense(1),
])
model.compile(tf.keras.optimizers.SGD(0.05, momentum=0.9), "mse")
open("runs.txt", "w").write("made ")
"""
TRAIN = """
losses = model.fit(x, y, batch_size=8, epochs=2, verbose=0).history["loss"]
drawn = [float(np.random.rand()), float(tf.random.normal(())), float(tf.keras.random.normal(()))]
open("runs.txt", "a").write("trained ")
print("in the cell", losses, drawn, open("runs.txt").read())
"""
AFTER = """
model.fit(x, y, batch_size=8, epochs=1, verbose=0)
print("after", losses, drawn, np.random.rand(), float(tf.random.normal(())), float(tf.keras.random.normal(())),
      model.evaluate(x, y, verbose=0),
      *[float(np.sum(w)) for w in model.get_weights()], open("runs.txt").read())
"""
DRAW = "z = np.random.rand(6, 4).astype('float32')\ndata = tf.data.Dataset.from_tensor_slices(z)"
DRAWN = "print(float(z.sum()), float(next(iter(data.batch(6))).numpy().sum()), model.predict(z, verbose=0).sum())"
RATE = "def slower(m):\n    m.optimizer.learning_rate = 0.01\n[slower][0](model)"
SLOWER = "rate = float(model.optimizer.learning_rate)\nmodel.optimizer.learning_rate = 0.002\nprint(rate)"
RATES = "print(float(model.optimizer.learning_rate), rate)"
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def numbers(text: str) -> list[float]:
    return [float(found) for found in NUMBER.findall(text)]


@pytest.mark.long
def test_a_cell_does_what_it_does_in_the_kernel(open_notebook: Callable[..., Notebook]) -> None:
    """Its random numbers and files are the kernel's, and the kernel goes on from where it has come to; twice."""
    alone, shared = open_notebook(), open_notebook()
    first, second = "%%distribute -n 2 --batch global\n", "%%distribute\n"
    for magic, source in (("", MAKE), (first, TRAIN), ("", AFTER), (second, TRAIN), ("", AFTER)):
        expected = alone.good(source).stdout
        found = shared.good(magic + source)
        assert NUMBER.sub("#", found.stdout) == NUMBER.sub("#", expected), found.text
        assert numbers(found.stdout) == pytest.approx(numbers(expected), rel=1e-4, abs=1e-4)
        assert not re.search(r"(?<!In)\[1\]", found.text)
    # What a cell draws that needs no seed; a rate that is set in no cell that the ranks run, and one that a cell sets there.
    for magic, source in (("", DRAW), (second, DRAWN), ("", RATE), (second, SLOWER), ("", RATES)):
        expected, found = alone.good(source), shared.good(magic + source)
        assert numbers(found.stdout) == pytest.approx(numbers(expected.stdout), rel=1e-4), (
            found.text
        )
    assert "not that of the ranks" not in found.text
    failed = shared.run("%%distribute\nnp.random.rand()\n1 / 0")
    assert "ZeroDivisionError" in failed.traceback
    assert "restarted" not in failed.traceback
    # Every rank has the files that the notebook has, and no rank but 0 has written there.
    files = "%%distribute\nimport horovod.tensorflow as hvd\nfound = hvd.allgather_object(open('runs.txt').read())\nprint(found)"
    told = alone.good("print([open('runs.txt').read()] * 2)").stdout
    shared.good("open('runs.txt', 'a').write('later ')")
    assert shared.good(files).stdout == told.replace("trained '", "trained later '")
    inside = "%%distribute\nfrom jupyter_hvd.runtime.sharing.context import sharing\nprint(sharing.size, sharing.has_shared)"
    assert shared.good(inside).stdout.strip() == "2 True"

    read = "read = hvd.allgather_object([int(n) for n in tf.data.Dataset.range(2 + hvd.rank())])\nprint(read)"
    assert shared.good(f"%%distribute --data rank0\n{read}").stdout.strip() == "[[0, 1], [0, 1]]"
    assert shared.good(f"%%distribute\n{read}").stdout.strip() == "[[0, 1], [0, 1, 2]]"

    refused = shared.run("%%distribute\nimport horovod.tensorflow as hvd\nmodel.fit(x, y)")
    assert "HVD901" in refused.traceback
    whole = shared.good(
        "%%distribute\nclass Centre(tf.keras.layers.Layer):\n    def call(self, x):\n"
        "        return x - tf.reduce_mean(x, 0)\ncentre = Centre()\ncentre(x)\nprint(float(tf.norm(centre(x))))"
    )
    assert "`Centre`" in whole.text
    assert re.search(r"\(In\[\d+\], line 7\) runs unsharded", whole.text)
    again = shared.good("%%distribute --batch per-rank\nprint(1)")
    assert "2 ranks are stopped" in again.text
