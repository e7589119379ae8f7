"""How often a cell asks the ranks for something and waits for the answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import Notebook

pytestmark = pytest.mark.slow

MAKE = """\
import numpy as np
import tensorflow as tf
x = np.random.rand(32, 4).astype("float32")
y = x.sum(1)
rounds = 1
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(0.05), "mse")"""
TRAIN = "losses = model.fit(x, y, batch_size=8, epochs=rounds, verbose=0).history['loss']"
COUNT = "print(get_ipython().magics_manager.registry['HvdMagics'].session.held.cluster.calls)"


def calls_of(notebook: Notebook, source: str) -> int:
    before = int(notebook.good(COUNT).stdout)
    notebook.good(source)
    return int(notebook.good(COUNT).stdout) - before


@pytest.mark.parametrize("batch", ["global", "per-rank"])
@pytest.mark.long
def test_round_trips_of_a_cell(open_notebook: Callable[..., Notebook], batch: str) -> None:
    notebook = open_notebook()
    notebook.good(MAKE)
    notebook.good(f"%hvd start -n 2 --batch {batch}")
    cells = {
        "the first cell, with those that it needs": f"%%distribute\n{TRAIN}",
        "the same cell again": f"%%distribute\n{TRAIN}",
        "a cell that trains nothing": "%%distribute\nlosses = losses[-1:]",
    }
    counts = {name: calls_of(notebook, source) for name, source in cells.items()}
    notebook.good("x = x * 1.5\nmodel.fit(x, y, verbose=0)\nrounds = rounds + 1\ny += 1")
    counts["a cell whose data and weights have changed"] = calls_of(
        notebook, f"%%distribute\n{TRAIN}"
    )
    print(batch, counts)
    assert max(counts.values()) <= 2, counts
    notebook.good("large = np.zeros(2**18)")
    assert calls_of(notebook, "%%distribute\nlarge = large + 1") <= 3
