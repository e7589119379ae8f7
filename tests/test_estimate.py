"""`jupyter hvd estimate`: the step of one process, timed, and what N ranks would take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_hvd.cost_model import (
    LINKS,
    Link,
    SingleProcessStep,
    message_seconds,
    speed_up,
    step_seconds,
)
from jupyter_hvd.notebook.network import Network

ALONE = SingleProcessStep(seconds=0.1, cpu_seconds=0.15, cores=2, bytes=10_000_000)
TRAINING = """
import numpy as np
import tensorflow as tf
x = np.random.rand(64, 8).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(16), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x.sum(1), batch_size=16, epochs=100_000, verbose=0)
open("ended.txt", "w")
"""


@pytest.mark.parametrize("ranks", [1, 2, 4, 16])
def test_messages_are_those_of_the_notebooks_network(ranks: int) -> None:
    link = LINKS["25GbE"]
    network = Network(ranks, link.bandwidth, link.latency, 0.0, ())
    for size in (4, 10_000_000, 500_000_000):
        assert message_seconds(ranks, size, link) == pytest.approx(network.sharing_seconds(size, 0))


def test_a_step_on_several_ranks() -> None:
    """Each computes its share; those that share two cores, of which one process keeps one and a half busy, wait for these."""
    free = Link(1e15, 1e-15)
    assert step_seconds(ALONE, 4, "per-rank", free) == pytest.approx(0.1)
    assert step_seconds(ALONE, 4, "global", free) == pytest.approx(0.025)
    assert step_seconds(ALONE, 4, "per-rank", free, on_one_machine=True) == pytest.approx(
        4 * 0.15 / 2
    )
    assert step_seconds(ALONE, 4, "global", free, on_one_machine=True) == pytest.approx(0.15 / 2)
    assert speed_up(ALONE, 0.1, 4, "per-rank") == speed_up(ALONE, 0.025, 4, "global") == 4
    assert step_seconds(ALONE, 2, "global", LINKS["10GbE"]) == pytest.approx(
        0.05 + 10_000_000 / 1.25e9 + 3 * 50e-6
    )


@pytest.mark.slow
@pytest.mark.long
def test_the_command(hvd, tmp_path: Path) -> None:
    """It times the program in a copy of the folder, and ends it."""
    (tmp_path / "train.py").write_text(TRAINING)
    done = hvd("estimate", "train.py", "-n", "1,2", "--json", "--network", "HDR")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["alone"]["bytes"] == 4 * (8 * 16 + 16 + 16 + 1)
    assert [(row["ranks"], row["batch"], row["measured"]) for row in found["rows"]] == [
        (1, "per-rank", True),
        (2, "per-rank", False),
        (2, "global", False),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    (tmp_path / "train.py").write_text("print('no training')")
    done = hvd("estimate", "train.py")
    assert (done.returncode, "no step could be timed" in done.stderr) == (2, True)
