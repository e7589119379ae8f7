"""What `verify` says of how the work is divided where examples are drawn by more ranks than train on them, or made anew."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from jupyter_hvd.verify.checks import Run, work_divided

from .ledger import verify

#: Seven batches a pass, so that one is left over for two ranks.
PROGRAM = """\
import itertools

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(70, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1))).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model(x[:1])
opt = tf.keras.optimizers.SGD(1e-2)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(70).batch(10)
more = tf.data.Dataset.from_tensor_slices(x).repeat().batch(20)
for epoch in range(2):
    for {turn}:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(u) - v) ** 2)
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "turn", ["u, v in itertools.islice(itertools.cycle(ds), 21)", "w, (u, v) in zip(more, ds)"]
)
def test_what_every_rank_draws_counts_where_it_is_kept(turn: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(turn=turn))
    verification = verify(program, 2, steps=4)
    assert verification.holds, verification.checks
    (divided,) = (check for check in verification.checks if check.check == "work divided")
    assert divided.status == "pass", divided
    assert divided.detail.startswith("70 examples"), divided


def run(*shares: str) -> Run:
    rows = [{row: share.count(row) for row in share} for share in shares]
    return Run(0, "", tuple(SimpleNamespace(rows=each, endless=False) for each in rows))


@pytest.mark.parametrize(
    ("shares", "status"),
    [
        (("abcd", "efgh"), "pass"),
        (("abcdefgh", "abcdefgh"), "fail"),
        (("ab", "cd"), "fail"),
        (("abst", "cuvw"), "unknown"),  # pairs of two orders, some of which come again
        (("stuv", "wxyz"), "unknown"),
    ],
)
def test_examples_that_are_made_anew_cannot_be_counted(
    shares: tuple[str, ...], status: str
) -> None:
    assert work_divided(run("abcdefgh"), run(*shares)).status == status
