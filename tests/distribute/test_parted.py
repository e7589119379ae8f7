"""Living ranks that part, or that make other numbers of updates, are told; those that hold go on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]

IMPORTS = "import os\nimport numpy as np\nimport tensorflow as tf"
DATA = (
    "x = np.linspace(0, 1, 64, dtype='float32')[:, None]\ny = 3 * x + 1\n"
    "ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)"
)
MODEL = (
    "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
    "model.compile(tf.keras.optimizers.SGD(0.1), loss='mse')\n"
    "opt = tf.keras.optimizers.SGD(0.1)"
)
STEP = """\
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    g = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(g, model.trainable_variables))"""
LOOP = "%%distribute\nfor a, b in ds:\n    step(a, b)"
FIT = "%%distribute\nmodel.fit(x, y, batch_size=8, epochs=2, verbose=0)"
#: Neither the broadcast nor anything that counts is put in.
UNCOUNTED = """\
%%distribute
for a, b in ds:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    g = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(g, model.trainable_variables))  # hvd: ignore"""
#: Equal updates on all ranks, whatever is averaged.
CONSTANT = STEP.replace("(model(a) - b) ** 2", "model(tf.ones((1, 1)))")
#: The last rank leaves its loop before the others do, after half as many updates as are written.
FEWER = """\
%%distribute
for i, (a, b) in enumerate(ds):
    if os.environ["HOROVOD_RANK"] == "1" and i == 6:
        break
    step(a, b)"""
OWN_JOINS = """\
%%distribute
import time
import horovod.tensorflow as hvd
rank, found = hvd.rank(), []
for late in (0, 1, 0):
    if rank == late:
        time.sleep(0.3)
        found.append(float(hvd.allreduce(tf.constant(1.0), name="alone")))
    found.append(int(hvd.join()))
print(found)"""


@pytest.fixture(scope="module")
def ready(open_notebook: Callable[..., Any]) -> Any:
    notebook = open_notebook()
    for source in ("from pathlib import Path", IMPORTS, DATA):
        notebook.good(source)
    return notebook


def settings(notebook: Any, text: str) -> None:
    notebook.good(f"_ = Path('pyproject.toml').write_text('[tool.jupyter-hvd]\\n' + {text!r})")


def test_what_holds_goes_on(ready: Any) -> None:
    settings(ready, "")
    for source in (MODEL, STEP, LOOP, LOOP, FIT, FIT, LOOP):
        ready.good(source)


def test_functions_and_classes_stay_on_the_ranks(ready: Any) -> None:
    """They were sent by name to the notebook, which did not know it: the answer was lost, and the ranks with it."""
    ready.good("%%distribute\ndef double(n):\n    return 2 * n\nclass Named:\n    size = 7")
    assert (
        "14"
        in ready.good("%%distribute\nkept = [double, Named]\nprint(kept[0](Named.size))").stdout
    )
    assert "NameError" in ready.run("double(1)").traceback


#: What is left out, and what is told.
PARTED = {
    "no broadcast": (
        'ignore = ["HVD302"]',
        STEP,
        LOOP,
        "After 1 update .*kernel.* of rank 1 differs",
    ),
    "no average": ('ignore = ["HVD301"]', STEP, LOOP, "After 2 updates .*kernel.*rule HVD301"),
    "no broadcast in fit": ('ignore = ["HVD401"]', "", FIT, "After 1 update .*kernel.*rule HVD401"),
    "no average in fit": ('ignore = ["HVD202"]', "", FIT, "After 2 updates .*kernel.*rule HVD202"),
    "other counts": ('ignore = ["HVD301"]', CONSTANT, FEWER, "rank 1 has made 3.*HVD303"),
}


@pytest.mark.parametrize("kind", PARTED)
def test_ranks_that_part_are_stopped(ready: Any, kind: str) -> None:
    options, step, cell, told = PARTED[kind]
    settings(ready, options)
    for source in (MODEL, step):
        ready.good(source)
    result = ready.run(cell)
    assert result.error is not None, result.text
    assert re.search(told, result.traceback), result.traceback


def test_what_nobody_counts_is_compared_behind_the_cell(ready: Any) -> None:
    settings(ready, "")
    ready.good(MODEL)
    result = ready.run(UNCOUNTED)
    assert result.error["ename"] == "RanksDiffer", result.text
    assert "The notebook keeps the weights that it had." in result.traceback
    settings(ready, "guard = false")
    ready.good(MODEL)
    ready.good(UNCOUNTED)


def test_a_program_that_uses_horovod_itself_is_told(ready: Any) -> None:
    settings(ready, "")
    ready.good(MODEL)
    result = ready.good(f"{FIT}\nimport horovod.tensorflow as hvd")
    assert "runs as it is written" in result.shown
    assert "of rank 1 differs from rank 0's" in result.shown
    assert "of rank 1 differs" not in ready.good(OWN_JOINS).shown


def test_join_works_more_than_once(ready: Any) -> None:
    """Horovod's own returns at once from the second on, and ranks that go on wait or add up what is not theirs."""
    for _ in range(2):
        result = ready.good(OWN_JOINS)
        assert "[0.5, 0, 1, 0.5, 0]" in result.stdout
        assert "[1] [0, 0.5, 1, 0]" in result.shown


def test_other_numbers_of_updates_name_the_rule(ready: Any) -> None:
    """Last in this file: the ranks wait, and new ones are started."""
    settings(ready, "")
    for source in (MODEL, STEP):
        ready.good(source)
    result = ready.run(FEWER)
    assert "rank 1 finished the cell while rank 0 still waits" in result.traceback
    assert "the same number of updates. See: jupyter hvd rule HVD303" in result.traceback
    ready.good(LOOP)
