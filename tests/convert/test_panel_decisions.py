"""The decisions that panels group changes by, and the numbers that they show of a training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_hvd.convert.decisions import DECISIONS, decision_of
from jupyter_hvd.convert.rules import RULES
from jupyter_hvd.convert.training_numbers import find_training_cells, read_training_numbers

ROOT = Path(__file__).parents[2]
IMPORTS = "import tensorflow as tf\n"


def test_every_rule_has_a_decision():
    assert {decision_of(rule.code) for rule in RULES} <= set(DECISIONS)


def test_the_schema_has_all_decisions():
    schema = json.loads((ROOT / "jupyter_hvd" / "conversion.schema.json").read_text())
    change = schema["definitions"]["Change"]["properties"]
    assert tuple(change["decision"]["enum"]) == DECISIONS


@pytest.mark.parametrize(
    ("code", "decision"),
    [
        ("HVD101", "start"),
        ("HVD701", "start"),
        ("HVD801", "batch"),
        ("HVD803", "rate"),
        ("HVD804", "steps"),
        ("HVD202", "averaging"),
        ("HVD403", "output"),
        ("HVD601", "output"),
    ],
)
def test_decisions_of_rules(code, decision):
    assert decision_of(code) == decision


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        (
            "B = 32\nd = tf.data.Dataset.from_tensor_slices((x, y)).batch(B)\n"
            "o = tf.keras.optimizers.Adam(1e-3)\nfor epoch in range(5): pass",
            (32, 0.001, 5, "x"),
        ),
        ("m.compile('sgd', 'mse')\nm.fit(x, y, epochs=3)", (32, 0.01, 3, "x")),
        ("m.fit(dataset)", (None, None, 1, None)),
        ("m.fit(x, y, batch_size=64)\nm.fit(x, y, batch_size=16)", (None, None, 1, "x")),
        ("B = int(input())\nd = data.batch(B)", (None, None, None, None)),
        ("B = 8\nB = 16\nd = data.batch(B)", (None, None, None, None)),
        ("o = tf.keras.optimizers.Adam(schedule)", (None, None, None, None)),
        ("x = = 1", (None, None, None, None)),
    ],
)
def test_numbers_of_a_training(source, numbers):
    found = read_training_numbers({0: IMPORTS + source})
    assert (found["batch"], found["rate"], found["epochs"], found["rows_of"]) == numbers


@pytest.mark.parametrize(
    ("cells", "training"),
    [
        (["m.compile('sgd')", "m.fit(x, y)"], [1]),
        (["scaler.fit(x)", "m.fit(x, y, epochs=3)"], [1]),
        (["def step(x):\n    o.apply_gradients(g)", "for x in d:\n    step(x)"], [1]),
        (
            ["def step(x): o.apply_gradients(g)", "def epoch():\n  step(1)", "print(1)", "epoch()"],
            [3],
        ),
        (["class T:\n  def run(self): m.train_on_batch(x)", "T().run()"], [1]),
        (["%%time\nm.train_on_batch(x)", "!ls", "x = = 1"], [0]),
        (["print('fit')"], []),
    ],
)
def test_cells_that_train_when_they_run(cells, training):
    assert find_training_cells(dict(enumerate(cells))) == training
