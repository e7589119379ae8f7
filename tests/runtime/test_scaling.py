"""Learning rates that are multiplied where an optimizer applies them, and joined batches: one process as three ranks."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..stacks import KERAS_2, LEGACY, OWN, Stack

#: Each optimizer beside one whose numbers are multiplied by hand: weights after six steps, and the rate that the program reads.
OPTIMIZERS = """
import copy, json, os, sys
os.environ["JUPYTER_HVD_VIRTUAL_SIZE"] = "3"
import jupyter_hvd.runtime as jhvd
jhvd.start_shared()
import numpy as np
import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()
O, L = tf.keras.optimizers, tf.keras.optimizers.legacy
is_keras_3 = tf.keras.Model.__module__.startswith("keras.src.models")


def falling(n):
    return O.schedules.ExponentialDecay(0.1 * n, 12 / n, 0.5)


def train(optimizer, callbacks=(), fits=(2,)):
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    x = np.random.rand(12, 3).astype("float32")
    model.compile(optimizer, "mse")
    for epochs in fits:
        model.fit(x, x[:, :1], batch_size=4, epochs=epochs, verbose=0, shuffle=False, callbacks=callbacks)
    return [float(w) for v in model.get_weights() for w in v.ravel()]


def dict_with(config, **changed):
    config.update(changed)
    return config


def read(optimizer):
    rate = optimizer.learning_rate
    return float(rate) if not callable(rate) else None


class Growing(tf.keras.callbacks.Callback):
    steps = 0  # after two epochs of three it is the rate of three ranks

    def on_train_batch_begin(self, batch, logs=None):
        self.model.optimizer.learning_rate = 0.01 * min(3, 1 + 2 * self.steps / 6)
        self.steps += 1


pairs = {
    "momentum": (lambda: O.SGD(0.01, momentum=0.9), lambda: O.SGD(0.03, momentum=0.9)),
    "decay of weights": (lambda: O.AdamW(0.01, weight_decay=0.1), lambda: O.AdamW(0.03, weight_decay=0.1)),
    "a schedule": (lambda: O.Adam(falling(1)), lambda: O.Adam(falling(3))),
}
if not is_keras_3:
    pairs |= {
        "decay by steps": (lambda: L.SGD(0.01, decay=0.1), lambda: L.SGD(0.03, decay=0.3)),
        "a schedule of old": (lambda: L.Adam(falling(1)), lambda: L.Adam(falling(3))),
        "Nadam of old": (lambda: L.Nadam(0.01), lambda: L.Nadam(0.03)),
    }
found = {}
ways = {
    "from_config": lambda o: type(o).from_config(o.get_config()),
    "a changed config": lambda o: type(o).from_config(dict_with(o.get_config().copy(), name="other")),
    "deepcopy": copy.deepcopy,
}
for name, copied in ways.items():
    found[f"a copy by {name}"] = [train(copied(jhvd.scale_rate(O.SGD(0.01)))), train(O.SGD(0.03)), 0.01]
for name, (own, by_hand) in pairs.items():
    scaled = jhvd.scale_rate(jhvd.scale_rate(own()))
    found[name] = [train(scaled), train(by_hand()), read(scaled)]
growing = jhvd.scale_rate(O.SGD(0.01), warmup_epochs=2)
found["a rate that grows"] = [train(growing, fits=(1, 2)), train(O.SGD(0.01), [Growing()], (1, 2)), read(growing)]
if is_keras_3:
    losses = O.LossScaleOptimizer(O.SGD(0.01))
    found["scaled losses"] = [train(jhvd.scale_rate(losses)), train(O.LossScaleOptimizer(O.SGD(0.03))), read(losses)]
    named = jhvd.scale_rate("sgd")
    found["a name"] = [train(named), train(O.SGD(0.03)), read(named)]
    assigned = jhvd.scale_rate(O.SGD(1.0))
    assigned.learning_rate = 0.01
    found["a rate that is set"] = [train(assigned), train(O.SGD(0.03)), read(assigned)]
print(json.dumps(found))
"""
BATCHES = """
import json, os
os.environ["JUPYTER_HVD_VIRTUAL_SIZE"] = "3"
import jupyter_hvd.runtime as jhvd
jhvd.start_shared()
import numpy as np
import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()
kind = tf.keras.utils.PyDataset if hasattr(tf.keras.utils, "PyDataset") else tf.keras.utils.Sequence


class Numbers(kind):
    def __init__(self, count):
        super().__init__()
        self.count, self.ends = count, 0

    def __len__(self):
        return self.count

    def __getitem__(self, n):
        return np.full(2, n), {"y": np.full((2, 1), 2 * n)}

    def on_epoch_end(self):
        self.ends += 1


data = tf.data.Dataset.range(20).map(lambda n: (n, {"y": 2 * n})).batch(3)
joined, numbers = jhvd.join_batches(data), Numbers(7)
sequence = jhvd.join_batches(numbers)
sequence.on_epoch_end()
batches = [np.arange(2), np.arange(3), np.arange(1), np.arange(2)]
passes = jhvd.join_batches(batches)
found = {
    "dataset": [len(joined), [n.numpy().tolist() for n, _ in joined], [p["y"].shape[0] for _, p in joined]],
    "length not known": jhvd.join_batches(data.filter(lambda n, _: True)).cardinality().numpy().item(),
    "endless": jhvd.join_batches(data.repeat()).cardinality().numpy().item(),
    "sequence": [len(sequence), isinstance(sequence, Numbers), sequence[2][0].tolist(), len(sequence[0][1]["y"]), numbers.ends],
    "iterator": [b.tolist() for b in jhvd.join_batches(iter(batches))],
    "list": [len(passes), [b.tolist() for b in passes], [len(b) for b in passes]],
    "array": jhvd.join_batches(np.arange(4)).tolist(),
}
print(json.dumps(found))
"""


@pytest.fixture
def printed(run_forked_script: Any, tmp_path: Path) -> Callable[[Stack, str], dict]:
    """Runs a program on a stack: the JSON that it prints last."""
    path = tmp_path / "program.py"

    def run(stack: Stack, program: str) -> dict:
        path.write_text(textwrap.dedent(program))
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **stack.environment}
        if stack == OWN:
            done = run_forked_script(path, env=environment)
        else:
            done = subprocess.run(
                [stack.python, path],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
            )
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


STACKS = [OWN.case(), KERAS_2.case(pytest.mark.thorough), LEGACY.case(pytest.mark.thorough)]


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_an_optimizer_updates_at_n_times_its_rate_and_shows_its_own(
    printed: Any, stack: Stack
) -> None:
    found = printed(stack, OPTIMIZERS)
    assert len(found) >= 6
    for name, (scaled, by_hand, rate) in found.items():
        assert scaled == pytest.approx(by_hand, rel=1e-6), name
        assert rate is None or rate <= 0.1 * (1 + 1e-6), name
    assert found["momentum"][2] == pytest.approx(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_three_batches_become_one(printed: Any, stack: Stack) -> None:
    found = printed(stack, BATCHES)
    assert found["dataset"] == [3, [[*range(9)], [*range(9, 18)], [18, 19]], [9, 9, 2]]
    assert (found["length not known"], found["endless"]) == (-2, -1)
    assert found["sequence"] == [3, True, [6, 6], 6, 1]
    assert found["iterator"] == [[0, 1, 0, 1, 2, 0], [0, 1]]
    assert found["list"] == [2, [[0, 1, 0, 1, 2, 0], [0, 1]], [6, 2]]
    assert found["array"] == [0, 1, 2, 3]
