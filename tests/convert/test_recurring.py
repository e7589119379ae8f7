"""Numbers of the program's own that each step changes, and by which training goes: N ranks make an N-th of the steps."""

from __future__ import annotations

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.rules.base import program

HEAD = program(
    """
    import random
    import numpy as np
    import tensorflow as tf

    x, y = np.random.rand(1000, 8), np.random.rand(1000, 1)
    drop = tf.keras.layers.Dropout(0.5, name="drop")
    model = tf.keras.Sequential([tf.keras.layers.Dense(8), drop, tf.keras.layers.Dense(1)])
    """
)
LOOP = program(
    """
    opt = tf.keras.optimizers.Adam(1e-3)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32)


    def step(a, b):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
        variables = model.trainable_variables
        opt.apply_gradients(zip(tape.gradient(loss, variables), variables))


    class Agent:
        def __init__(self):
            self.eps, self.steps, self.seen = 1.0, 0, 0

        def chooses(self):
            return random.random() < self.eps

        def less(self):
            self.eps *= 0.99

        def counts(self):
            self.steps += 1
            self.eps = max(0.1, 1 - self.steps / 1000)


    def less():
        global eps
        eps = np.maximum(0.1, eps * 0.99)


    agent, state, eps = Agent(), {{"eps": 1.0}}, 1.0
    for epoch in range(3):
        for n, (a, b) in enumerate(dataset):
            {before}
            step(a, b)
            {after}
        {behind}
    """
)
CALLBACK = program(
    """
    class Own(tf.keras.callbacks.Callback):
        def __init__(self, layer):
            super().__init__()
            self.layer, self.seen, self.level = layer, 0, 0.5

        def on_epoch_end(self, epoch, logs=None):
            {epoch}

        def on_train_batch_end(self, batch, logs=None):
            {batch}


    model.compile("sgd", "mse")
    model.fit(x, y, epochs=3, callbacks=[Own(model.layers[1])])
    """
)
#: What is put in at random, less and less of it.
MIXED = "a = tf.zeros_like(a) if {} else a"


def told(source: str) -> list[str]:
    """The lines of which it is told that they go by steps."""
    conversion = convert_source(HEAD + source)
    assert conversion.status == "converted", conversion.diagnostics
    lines = (HEAD + source).splitlines()
    found = [d for d in conversion.diagnostics if d.code == "HVD208"]
    assert all(d.severity == "warning" for d in found)
    return [lines[d.line - 1].strip() for d in found]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (MIXED.format("random.random() < eps"), "eps *= 0.995"),
        (MIXED.format("np.random.rand() > 1 - eps"), "eps = max(0.05, eps * 0.995)"),
        (MIXED.format("np.random.uniform() < eps"), "if eps > 0.05: eps -= 0.001"),
        (MIXED.format("random.random() < eps"), "if n % 10 == 0: eps *= 0.9"),
        (MIXED.format("random.random() < state['eps']"), "state['eps'] *= 0.995"),
        ("a = a * np.random.binomial(1, eps, size=(8,))", "eps *= 0.995"),
        ("a = a + tf.random.normal((8,), stddev=eps)", "eps *= 0.995"),
        ("a = a + eps * tf.random.normal((8,))", "eps *= 0.995"),
        ("drop.rate = eps", "eps *= 0.995"),
        ("opt.learning_rate.assign(eps)", "eps *= 0.995"),
        ("", "drop.rate *= 0.995"),
        ("", "model.get_layer('drop').rate = 0.9 * model.get_layer('drop').rate"),
    ],
)
def test_a_number_that_each_step_makes_smaller_is_told(before: str, after: str) -> None:
    source = LOOP.format(before=before or "pass", after=after, behind="pass")
    assert told(source) == [after]


@pytest.mark.parametrize(
    ("chance", "after", "where"),
    [
        ("agent.chooses()", "agent.less()", ["self.eps *= 0.99"]),
        ("agent.chooses()", "agent.counts()", ["self.steps += 1"]),
        ("random.random() < eps", "less()", ["eps = np.maximum(0.1, eps * 0.99)"]),
    ],
)
def test_so_is_one_that_a_function_changes_at_each_step(
    chance: str, after: str, where: list[str]
) -> None:
    source = LOOP.format(before=MIXED.format(chance), after=after, behind="pass")
    assert told(source) == where


TABLES = program(
    """
    import itertools

    table, ramp = np.linspace(0, 1, 1000), iter(np.linspace(0, 1, 1000))
    count, cycle, steps = itertools.count(), itertools.cycle([0.1, 0.2]), 0
    """
)


@pytest.mark.parametrize(
    ("before", "where"),
    [
        (MIXED.format("random.random() < table[n]"), True),
        (MIXED.format("random.random() < table[min(n, 999)]"), True),
        (MIXED.format("random.random() < table[steps]") + "; steps += 1", True),
        ("drop.rate = table[n]", True),
        ("a = a + tf.random.normal((8,), stddev=next(ramp))", True),
        ("weight = next(ramp); a = a * weight", True),
        (MIXED.format("random.random() < next(count) / 1000"), True),
        ("drop.rate = next(cycle)", True),
        ("opt.learning_rate.assign(next(ramp))", True),
        (MIXED.format("random.random() < table[epoch]"), False),
        ("drop.rate = next(iter(table))", False),
        ("print(next(count))", False),
        ("print(table[n])", False),
    ],
)
def test_a_schedule_of_numbers_for_each_step_is_told(before: str, where: bool) -> None:
    """Each rank went by the first of them, N-th as many, and nobody said so."""
    source = TABLES + LOOP.format(before=before, after="pass", behind="pass")
    assert told(source) == [before] * where


@pytest.mark.parametrize(
    ("before", "after", "behind"),
    [
        (MIXED.format("random.random() < eps"), "pass", "eps *= 0.9"),
        (MIXED.format("random.random() < eps"), "if n == 0: eps *= 0.9", "pass"),
        (MIXED.format("random.random() < eps"), "eps = 0.5", "pass"),
        ("a = a / 255.0", "a = a * 2", "pass"),
        ("pass", "eps += 32; print(eps)", "print(eps)"),
        ("pass", "agent.seen += 1", "print(agent.seen)"),
        ("drop.rate = 0.1 + 0.1 * epoch", "pass", "pass"),
    ],
    ids=["epochs", "once a pass", "set", "a batch", "printed", "counted", "by epochs"],
)
def test_no_other_number_is_told(before: str, after: str, behind: str) -> None:
    assert told(LOOP.format(before=before, after=after, behind=behind)) == []


@pytest.mark.parametrize(
    ("batch", "is_told"),
    [
        ("drop.rate *= 0.999", True),
        ("self.model.get_layer('drop').rate *= 0.999", True),
        ("for layer in self.model.layers[1:2]: layer.rate = 0.999 * layer.rate", True),
        ("self.seen += 1; self.layer.rate = max(0.0, 0.5 - self.seen / 1000)", True),
        ("self.level *= 0.999; drop.rate = self.level", True),
        ("self.layer.rate = 0.5 - batch / 1000", True),
        ("self.seen += 1; print(self.seen)", False),
        ("drop.rate = 0.5", False),
    ],
)
def test_what_a_callback_sets_in_a_layer_at_each_batch_is_told(batch: str, is_told: bool) -> None:
    assert len(told(CALLBACK.format(batch=batch, epoch="pass"))) == is_told
    assert told(CALLBACK.format(batch="pass", epoch=batch.replace("batch", "epoch"))) == []


def test_a_variable_that_a_compiled_step_changes_is_told() -> None:
    compiled = LOOP.replace("def step", "weight = tf.Variable(1.0)\n\n\n@tf.function\ndef step")
    change = "weight.assign(tf.maximum(0.1, weight * 0.99))"
    compiled = compiled.replace("** 2)\n", f"** 2) * weight\n        {change}\n")
    assert told(compiled.format(before="pass", after="pass", behind="pass")) == [change]
