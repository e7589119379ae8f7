"""Counts of steps in programs that train with TensorFlow: what `--batch per-rank` edits, beside batches and rates."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_hvd import convert_source, explain_source
from jupyter_hvd.convert.rules.base import program
from jupyter_hvd.convert.rules.options import Options

OPTIONS = Options(select=("HVD7", "HVD8"))
MODEL = """import math
import numpy as np
import tensorflow as tf
m = tf.keras.Sequential([tf.keras.layers.Dense(1)])
"""
FIT = MODEL + "m.compile(tf.keras.optimizers.SGD(0.02), loss='mse')\n"


def edits(source: str) -> list[str]:
    """The lines that HVD804 has changed, as they are afterwards."""
    outcome = convert_source(source, options=OPTIONS)
    assert outcome.status == "converted", outcome.diagnostics
    return [c.after.strip() for c in outcome.changes if c.rule == "HVD804"]


def notes(source: str) -> list[str]:
    """What HVD804 reports."""
    outcome = convert_source(source, options=OPTIONS)
    return [d.message for d in outcome.diagnostics if d.code == "HVD804"]


def callback(*lines: str, base: str = "Callback") -> str:
    """A callback with a method for each step, whose lines are given."""
    body = "\n".join(" " * 8 + line for line in lines)
    return f"""{FIT}
class Rate(tf.keras.callbacks.{base}):
    def __init__(self, base, warm, total):
        super().__init__()
        self.base, self.warm, self.total, self.step = base, warm, total, 0
    def on_train_batch_begin(self, batch, logs=None):
{body}
        self.step += 1
m.fit(x, y, batch_size=16, epochs=5, callbacks=[Rate(0.02, 40, 200)])
"""


def steps(*body: str, before: str = "", after: str = "", optimizer: str = "SGD(0.01)") -> str:
    """A loop over epochs and steps with a tape; `body` follows each step, `after` each epoch."""
    inner = "\n".join(" " * 8 + line for line in body)
    outer = "\n".join(" " * 4 + line for line in after.splitlines())
    return f"""{MODEL}
o = tf.keras.optimizers.{optimizer}
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
{before}
for epoch in range(9):
    for i, (a, b) in enumerate(ds):
        with tf.GradientTape() as tape:
            p = m(a)
            loss = tf.reduce_mean(tf.square(p - b))
        o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
{inner}
{outer}
"""


BLOCK = (
    "if self.step < self.warm:",
    "    rate = self.base * self.step / self.warm",
    "else:",
    "    done = (self.step - self.warm) / (self.total - self.warm)",
    "    rate = self.base * 0.5 * (1 + math.cos(math.pi * done))",
)
EXPRESSION = (
    "done = (self.step - self.warm) / (self.total - self.warm)",
    "rate = self.base * self.step / self.warm if self.step < self.warm"
    " else self.base * 0.5 * (1 + math.cos(math.pi * done))",
)
SET = "self.model.optimizer.learning_rate = rate"
CALLS = [
    "m.fit(x, y, batch_size=16, epochs=5, callbacks=[Rate(0.02, max(1, 40 // hvd.size()), 200)])",
    "m.fit(x, y, batch_size=16, epochs=5, callbacks=[Rate(0.02, 40, max(1, 200 // hvd.size()))])",
]
WARM_UP = (
    MODEL
    + """
class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, inner, warm):
        self.inner, self.warm = inner, warm
    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        {body}
m.compile(tf.keras.optimizers.SGD(WarmUp(tf.keras.optimizers.schedules.CosineDecay(0.1, 1000), 100)), loss='mse')
m.fit(x, y, batch_size=16)
"""
)
PATIENCE = "patience, bad, best = 8, 0, 1e9"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # Row 1: a formula and the comparison before it are in one unit, however they are written
        pytest.param(callback(*BLOCK, SET), CALLS, id="1-block"),
        pytest.param(callback(*EXPRESSION, SET), CALLS, id="1-expression"),
        # Row 3: means by hand
        pytest.param(
            steps(
                "correct += int(tf.reduce_sum(tf.cast(tf.round(p) == b, tf.int32)))",
                before="correct = 0",
                after="acc = correct / len(x)\ncorrect = 0\nif acc > 0.9:\n    break",
            ),
            [],
            id="3-rows",
        ),
        pytest.param(
            steps(
                "total += float(loss)",
                before="total = 0.0",
                after="mean = total / 20\ntotal = 0.0\nif mean < 0.1:\n    break",
            ),
            ["mean = total / max(1, 20 // hvd.size())"],
            id="3-batches",
        ),
        # Row 4: rates by epochs
        pytest.param(
            FIT
            + "s = tf.keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.5)\n"
            + "m.fit(x, y, callbacks=[tf.keras.callbacks.LearningRateScheduler(lambda e: float(s(e)))])\n",
            [],
            id="4-lambda",
        ),
        pytest.param(
            FIT
            + "def rate(epoch, lr):\n    return lr * 0.5 if epoch > 3 else 0.01 * (epoch + 1) / 4\n"
            + "m.fit(x, y, callbacks=[tf.keras.callbacks.LearningRateScheduler(rate)])\n",
            [],
            id="4-function",
        ),
        # Row 5: the optimizer's own count of steps
        pytest.param(
            steps(
                "it = o.iterations.numpy()",
                "if it >= 40:",
                "    break",
                optimizer="SGD(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 20, 0.5))",
            ),
            ["if it * hvd.size() >= 40:"],
            id="5-numpy",
        ),
        pytest.param(
            steps("if int(o.iterations) == 40:", "    o.learning_rate = 0.001"),
            ["if int(o.iterations) == max(1, 40 // hvd.size()):"],
            id="5-int",
        ),
        # Row 6: a patience that counts evaluations
        pytest.param(
            steps(
                "if (i + 1) % 20 == 0:",
                "    bad = 0 if loss < best else bad + 1",
                "    best = min(best, float(loss))",
                "    if bad >= patience:",
                "        break",
                before=PATIENCE,
            ),
            ["if (i + 1) % max(1, 20 // hvd.size()) == 0:"],
            id="6-guard",
        ),
        pytest.param(
            steps(
                "if (i + 1) % 20 != 0:",
                "    continue",
                "if loss < best:",
                "    best, bad = float(loss), 0",
                "else:",
                "    bad += 1",
                "if bad >= patience:",
                "    break",
                before=PATIENCE,
            ),
            ["if (i + 1) % max(1, 20 // hvd.size()) != 0:"],
            id="6-continue",
        ),
        pytest.param(
            steps(
                "if loss < best:",
                "    best, bad = float(loss), 0",
                "else:",
                "    bad += 1",
                "if bad >= 30:",
                "    break",
                before="bad, best = 0, 1e9",
            ),
            ["if bad * hvd.size() >= 30:"],
            id="6-steps",
        ),
        # Row 7: schedules that the optimizer asks
        pytest.param(
            WARM_UP.format(
                body="return tf.where(step < self.warm, 0.1 * step / self.warm, self.inner(step))"
            ),
            [],
            id="7-where",
        ),
        pytest.param(
            WARM_UP.format(
                body="return 0.1 * tf.minimum(tf.math.rsqrt(step), step * self.warm ** -1.5)"
            ),
            [],
            id="7-noam",
        ),
        # Row 9: bounds of rates
        pytest.param(
            FIT
            + "m.fit(x, y, callbacks=[tf.keras.callbacks.ReduceLROnPlateau(min_lr=0.004, patience=3)])\n",
            [],
            id="9-plateau",
        ),
        pytest.param(
            callback(
                "rate = max(float(self.model.optimizer.learning_rate) * 0.5, 1e-4)",
                "if batch == 20:",
                "    self.model.optimizer.learning_rate.assign(rate)",
            ),
            ["if batch == max(1, 20 // hvd.size()):"],
            id="9-bound",
        ),
        # Row 12: steps of an epoch
        pytest.param(
            FIT
            + "ds = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(16)\n"
            + "m.fit(ds, steps_per_epoch=7, epochs=3)\n",
            ["m.fit(ds, steps_per_epoch=max(1, 7 // hvd.size()), epochs=3)"],
            id="12-number",
        ),
        pytest.param(
            FIT
            + "BATCH = 16\nSTEPS = len(x) // BATCH\n"
            + "ds = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(BATCH)\n"
            + "m.fit(ds, steps_per_epoch=STEPS, epochs=3)\n",
            [],
            id="12-computed",
        ),
        # Row 16: a decay per step
        pytest.param(
            steps("for v in m.trainable_variables:", "    v.assign(v * (1 - 1e-4))"),
            ["v.assign(v * ((1 - 1e-4) ** hvd.size()))"],
            id="16-assign",
        ),
        pytest.param(
            steps("for v in m.trainable_variables:", "    v.assign_sub(1e-4 * v)"),
            ["v.assign_sub(1e-4 * hvd.size() * v)"],
            id="16-assign_sub",
        ),
        # Row 18: no false alarms
        pytest.param(
            steps(
                "o.learning_rate = 0.01 * (1 - s / total)",
                "s += 1",
                before="s, total = 0, 9 * len(ds)",
            ),
            [],
            id="18-ratio",
        ),
        pytest.param(
            steps(
                "weight = ramp(s)",
                "s += 1",
                before="s = 0\nramp = tf.keras.optimizers.schedules.PolynomialDecay(0.0, 500, 1.0)",
            ),
            ["weight = ramp(s * hvd.size())"],
            id="18-weight",
        ),
    ],
)
def test_rows_of_the_table(source, expected):
    assert edits(source) == expected
    assert notes(source) == []


@pytest.mark.parametrize("loop", ["enumerate(DATA)", "DATA.enumerate()", "DATA.enumerate(start=0)"])
@pytest.mark.parametrize("data", ["ds", "ds.repeat().take(40)"])
def test_steps_are_numbered_by_python_and_by_datasets(loop: str, data: str):
    source = f"""{MODEL}
o = tf.keras.optimizers.SGD(0.01)
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
for step, (a, b) in {loop.replace("DATA", data)}:
    with tf.GradientTape() as t:
        loss = tf.reduce_mean((m(a) - b) ** 2)
    o.apply_gradients(zip(t.gradient(loss, m.trainable_variables), m.trainable_variables))
    if (step + 1) % 20 == 0:
        m.save_weights("kept.weights.h5")
"""
    assert edits(source) == ["if (step + 1) % max(1, 20 // hvd.size()) == 0:"]


def test_all_rows_at_once_are_no_steps():
    """Batches of all rows do not grow, so nothing that counts them is divided."""
    source = program(
        """
        import tensorflow as tf

        m = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        o = tf.keras.optimizers.SGD(0.1)
        for step in range(500):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(m(x) - y))
            o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
            if step % 100 == 0:
                print(float(loss))
        """
    )
    assert edits(source) == []


def test_options_of_the_program_are_divided():
    source = steps(
        "if i % args.every == 0:",
        "    print(float(loss))",
        before="import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--every', type=int, default=100)\nargs = parser.parse_args()",
    )
    assert edits(source) == ["if i % max(1, args.every // hvd.size()) == 0:"]


AVERAGES = {
    "numbers": ("v = 0.9 * v + 0.1 * p", "v = (0.9 ** hvd.size()) * v + (1 - (1 - 0.1) ** hvd.size()) * p"),
    "a name": ("v = d * v + (1 - d) * p", "v = (d ** hvd.size()) * v + (1 - (d ** hvd.size())) * p"),
    "the other way": ("v = (1 - d) * v + d * p", "v = ((1 - d) ** hvd.size()) * v + (1 - (1 - d) ** hvd.size()) * p"),
    "a step": ("v += 0.1 * (p - v)", "v += (1 - (1 - 0.1) ** hvd.size()) * (p - v)"),
    "a step down": ("v = v - (1 - d) * (v - p)", "v = v - (1 - (d ** hvd.size())) * (v - p)"),
    "a variable": ("v.assign(d * v + (1 - d) * p)", "v.assign((d ** hvd.size()) * v + (1 - (d ** hvd.size())) * p)"),
    "a variable's step": ("v.assign_sub((1 - d) * (v - p))", "v.assign_sub((1 - (d ** hvd.size())) * (v - p))"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "scaled"), AVERAGES.values(), ids=AVERAGES)
def test_moving_averages_forget_by_examples(line: str, scaled: str):
    source = steps(line, before="d = 0.99\nv = tf.Variable(0.0)")
    assert scaled in [
        each.strip() for each in convert_source(source, options=OPTIONS).code.splitlines()
    ]
    assert notes(source) == []


def test_average_once_an_epoch_stays():
    assert edits(steps("pass", before="v = 0.0", after="v = 0.9 * v + 0.1 * float(loss)")) == []


def test_sum_that_forgets_is_reported():
    """Of momentum it is not seen what the weight of a new value is."""
    source = steps("v = 0.9 * v + float(loss)", before="v = 0.0")
    assert edits(source) == []
    assert any("is applied once a step" in note for note in notes(source))


def test_tables_are_looked_up_by_the_step_of_one_process():
    source = steps(
        "o.learning_rate = rates[s]", "s += 1", before="s, rates = 0, np.linspace(0.1, 0.01, 500)"
    )
    assert edits(source) == ["o.learning_rate = rates[min(s * hvd.size(), len(rates) - 1)]"]
    assert notes(source) == []


def test_tables_that_are_filled_stay():
    source = steps("seen[s] = float(loss)", "s += 1", before="s, seen = 0, np.zeros(500)")
    assert edits(source) == []


def test_explanation_names_the_line():
    source = steps("s += 1", before="s = 0")
    said = [each for each in explain_source(source) if each.name == "s"]
    line = 1 + source.splitlines().index("        s += 1")
    assert [each.line for each in said][1] == line
    assert said[0].words.startswith(f"`s` line {said[0].line}: steps (÷ N), because line {line} ")
    assert "once a step" in said[1].words


def test_explain_on_the_command_line(hvd, tmp_path):
    source = steps("s += 1", before="s = 0")
    script, notebook = tmp_path / "train.py", tmp_path / "train.ipynb"
    script.write_text(source)
    head, tail = source.split("s = 0\n")
    cells = [new_code_cell("%matplotlib inline\n" + head), new_code_cell("s = 0\n" + tail)]
    notebook.write_text(nbformat.writes(new_notebook(cells=cells)))
    said = hvd("explain", script).stdout.splitlines()
    assert any(line.startswith("`s` line ") and "steps (÷ N)" in line for line in said)
    found = json.loads(hvd("explain", notebook, "--json").stdout)["variables"]
    assert next((v["cell"], v["line"], v["exponent"]) for v in found if v["name"] == "s") == (
        1,
        1,
        -1,
    )
    script.write_text("if")
    assert hvd("explain", script).returncode == 2


def test_functions_called_at_steps_and_elsewhere_bind_no_other_loop():
    """What each step calls, and a loop over a depth, says nothing of the depth, nor of loops that only evaluate."""
    source = (
        steps("report(a)", before="def report(a):\n    return m(a)")
        + "depth = 4\nfor k in range(depth):\n    report(x)\nfor k in range(20):\n    report(x)\n"
    )
    assert edits(source) == []


def test_an_attribute_that_counts_steps_is_read_as_it_is_added_to():
    source = steps(
        "c.step.assign_add(1)",
        "if int(c.step) % 10 == 0:",
        "    print(1)",
        before="c = tf.train.Checkpoint(step=tf.Variable(1))",
    )
    assert edits(source) == ["if int(c.step) % max(1, 10 // hvd.size()) == 0:"]
    assert notes(source) == []


@pytest.mark.parametrize(
    ("formula", "scaled"),
    [
        (
            "0.05 * s / 6 if s < 9 else 0.05 * 8 / s",
            "0.05 * s * hvd.size() / 6 if s * hvd.size() < 9 else (0.05 * 8 / hvd.size()) / s",
        ),
        ("0.05 * s / 500", "0.05 * s * hvd.size() / 500"),
        ("0.05 * s / (2 * 250)", "0.05 * s * hvd.size() / (2 * 250)"),
        ("0.05 * 0.5 ** (s // 3)", "0.05 * 0.5 ** (s * hvd.size() // 3)"),
    ],
)
def test_a_number_in_a_ratio_has_the_unit_of_the_other(formula: str, scaled: str):
    source = steps(f"rate = {formula}", "o.learning_rate = rate", "s += 1", before="s = 0")
    code = convert_source(source, options=OPTIONS).code
    made = next(line.strip() for line in code.splitlines() if "rate = 0" in line)
    assert made == f"rate = {scaled}"


@pytest.mark.parametrize("part", ["n // 2", "int(n / 3)", "3 * n // 4", "max(1, n // 5)"])
def test_a_part_of_an_epoch_has_as_many_examples_on_any_number_of_ranks(part: str):
    """2 // 4 is not 2 / 4: a rounded divisor made the warm-up of half an epoch a quarter of one, on four ranks."""
    source = f"""{MODEL}
B = 16
n = len(x) // B
warm = {part}
s = tf.keras.optimizers.schedules.CosineDecay(0.1, 3 * n, warmup_steps=warm)
m.compile(tf.keras.optimizers.SGD(s), 'mse')
m.fit(x, y, batch_size=B)
"""
    code = convert_source(source, options=OPTIONS).code
    definitions = [line for line in code.splitlines() if line.startswith(("n = ", "warm = "))]
    given = next(line for line in code.splitlines() if line.startswith("s = "))
    handed = given.partition("warmup_steps=")[2].removesuffix(")")

    def warm_up(size: int) -> int:
        scope = {"x": range(960), "B": 16 * size, "hvd": SimpleNamespace(size=lambda: size)}
        exec("\n".join(definitions), scope)
        return eval(handed, scope)

    whole = warm_up(1)
    assert all(abs(warm_up(size) - whole) < size for size in (2, 3, 4, 6))


@pytest.mark.parametrize(
    ("line", "scaled"),
    [
        (
            "late = np.mean(losses[-20:]) > np.mean(losses[-40:-20])",
            "late = np.mean(losses[-max(1, 20 // hvd.size()):]) > "
            "np.mean(losses[-max(1, 40 // hvd.size()):-max(1, 20 // hvd.size())])",
        ),
        (
            "mean = sum(losses[-20:]) / 20",
            "mean = sum(losses[-max(1, 20 // hvd.size()):]) / max(1, 20 // hvd.size())",
        ),
        ("some = losses[4:8]", "some = losses[max(1, 4 // hvd.size()):max(1, 8 // hvd.size())]"),
        ("before = losses[-2]", "before = losses[-2]"),
        ("first = x[100:200]", "first = x[100:200]"),
    ],
)
def test_entries_of_a_list_that_grows_by_steps_are_counted_in_steps(line: str, scaled: str):
    source = steps("losses.append(float(loss))", before="losses = []", after=line)
    assert f"    {scaled}\n" in convert_source(source, options=OPTIONS).code


@pytest.mark.parametrize("rows", ["960", "len(x)", "6 * 160"])
def test_a_number_of_batches_is_divided_once(rows: str):
    """By its batch, which is scaled where it stands, and not again."""
    source = f"""{MODEL}
o = tf.keras.optimizers.SGD(0.1)
batches = {rows} // 16
for epoch in range(9):
    for k in range(batches):
        a, b = x[k * 16:(k + 1) * 16], y[k * 16:(k + 1) * 16]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((m(a) - b) ** 2)
        o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
"""
    code = convert_source(source, options=OPTIONS).code
    assert f"batches = {rows} // (16 * hvd.size())\n" in code
    assert "for k in range(batches):" in code


def test_a_batch_of_windows_has_as_many_rows_as_starts_are_drawn():
    """Neither the length of a window nor that of the data, which are drawn as well."""
    source = f"""{MODEL}
data = np.random.randint(0, 50, 10000)
o = tf.keras.optimizers.SGD(0.1)
def batch():
    starts = np.random.randint(0, len(data) - 33, (16,))
    return np.stack([data[i:i + 32] for i in starts]), np.stack([data[i + 1:i + 33] for i in starts])
for step in range(90):
    a, b = batch()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(a) - b) ** 2)
    o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
"""
    expected = source.replace("(16,)", "(16 * hvd.size(),)")
    expected = expected.replace("range(90)", "range(max(1, 90 // hvd.size()))")
    code = convert_source(source, options=OPTIONS).code
    lines = [line for line in code.splitlines() if line not in expected.splitlines()]
    assert not [line for line in lines if "hvd.size()" in line and "SGD" not in line]
    assert "(16 * hvd.size(),)" in code


def test_a_loop_that_counts_no_steps_trains_less_often():
    """A batch drawn at every fourth turn of an environment is N times as large at every (4 N)-th."""
    source = f"""{MODEL}
o = tf.keras.optimizers.SGD(0.1)
total, buffer = 0, []
for episode in range(5):
    for t in range(40):
        buffer.append(np.random.rand(4))
        total += 1
        if len(buffer) >= 64 and total % 4 == 0:
            a = np.array(buffer)[np.random.choice(len(buffer), 64)]
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(m(a) ** 2)
            o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
        if total % 100 == 0:
            print(total)
"""
    assert edits(source) == ["if len(buffer) >= 64 and total % (4 * hvd.size()) == 0:"]


@pytest.mark.parametrize("numbers", ["B = 16\nrate = 0.5", "B, rate = 16, 0.5"])
@pytest.mark.parametrize("full", ["pos + B > len(x)", "pos > len(x) - B"])
def test_the_position_of_a_row_and_a_batch_are_counted_in_rows(numbers: str, full: str):
    """However the batch is set, what the next rows are compared with stays."""
    source = f"""{MODEL}
{numbers}
o = tf.keras.optimizers.SGD(0.1)
pos = 0
for step in range(90):
    if {full}:
        pos = 0
    a, b = x[pos:pos + B], y[pos:pos + B]
    pos += B
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(a) - b) ** 2)
    o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
"""
    code = convert_source(source, options=OPTIONS).code
    assert f"    if {full}:\n" in code
    assert "16 * hvd.size()" in code


def test_rows_compared_with_a_batch_stay():
    """A number of rows, and how many a batch has, are both rows."""
    source = (
        FIT + "BATCH = 16\nif len(x) >= BATCH:\n    m.fit(x, y, batch_size=min(BATCH, len(x)))\n"
    )
    assert edits(source) == []


def test_a_period_of_one_step_is_not_divided():
    source = steps("if s % 1 == 0:", "    print(s)", "s += 1", before="s = 0")
    assert edits(source) == []


def test_a_loop_that_ends_with_the_data_counts_steps():
    """Several steps of one model for each of another: their ratio stays, and so does the flag that ends the loop."""
    source = f"""{MODEL}
one, two = tf.keras.optimizers.SGD(0.1), tf.keras.optimizers.SGD(0.1)
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
def step(o, a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(a) - b) ** 2)
    o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
batches, over = iter(ds), 0
while True:
    for i in range(5):
        try:
            a, b = next(batches)
            step(one, a, b)
        except StopIteration:
            over = 1
            break
    if over == 0:
        step(two, a, b)
    else:
        break
"""
    assert edits(source) == []


@pytest.mark.parametrize(
    ("shown", "scaled"),
    [("total / 4", ["print(total / max(1, 4 // hvd.size()))"]), ("total / 60", []), ("s / 4", [])],
)
def test_a_sum_over_steps_is_divided_by_as_many(shown: str, scaled: list[str]):
    """The mean of an epoch of four steps; a time in minutes, and a number of steps, stay what they are."""
    after = f"print({shown})\ntotal = 0.0"
    source = steps("total += float(loss)", "s += 1", before="s, total = 0, 0.0", after=after)
    assert edits(source) == scaled


@pytest.mark.parametrize(
    ("call", "scaled"),
    [
        ("some(tf.constant(40))", ["some(tf.constant(max(1, 40 // hvd.size())))"]),
        (
            "k = 40\nsome(min(k, 40))",
            ["k = max(1, 40 // hvd.size())", "some(min(k, max(1, 40 // hvd.size())))"],
        ),
    ],
)
@pytest.mark.parametrize("counts", ["tf.range(n)", "np.arange(0, n)", "trange(n)"])
def test_loops_that_count_by_a_librarys_range(counts: str, call: str, scaled: list[str]):
    source = f"""{MODEL}
from tqdm import trange
o = tf.keras.optimizers.SGD(0.1)
batches = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(16))
@tf.function
def some(n):
    for _ in {counts}:
        a, b = next(batches)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((m(a) - b) ** 2)
        o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
{call}
"""
    assert edits(source) == scaled


def test_averages_of_several_variables_forget_by_examples():
    """A loop over variables, of which nothing tells the number, iterates as often on any number of ranks."""
    line = "for a, b in zip(slow.variables, m.variables): a.assign(D * a + (1 - D) * b)"
    source = steps(line, before="D, slow = 0.99, tf.keras.models.clone_model(m)\n")
    raised = "(D ** hvd.size())"
    assert edits(source) == [line.replace("D *", f"{raised} *"), line.replace("- D", f"- {raised}")]


@pytest.mark.parametrize(
    ("start", "advance"),
    [
        ("tf.Variable(0, dtype=tf.int64)", "at.assign((at + B) % SIZE)"),
        ("0", "at = (at + B) % SIZE"),
    ],
)
def test_a_queue_holds_as_many_rows_on_any_number_of_ranks(start: str, advance: str):
    lines = ("rows = tf.range(at, at + B) % SIZE", advance)
    before = f"B, SIZE = 16, 512\nat, queue = {start}, tf.Variable(tf.zeros((SIZE, 1)))\n"
    source = steps(*lines, before=before).replace("batch(16)", "batch(B)")
    source = source.replace(before, "").replace("\nds =", f"\n{before}ds =")
    assert edits(source) == []


def test_a_function_of_numbers_in_two_units_is_given_each_in_its_own():
    """The rate falls by cycles, or by steps; a number of cycles is the same on any number of ranks."""
    source = callback(
        "decay = lambda n: 0.99 ** n",
        "cycle = np.floor(1 + self.step / (2 * self.warm))",
        "rate = self.base * (decay(cycle) if self.total else decay(self.step))",
        SET,
    )
    assert edits(source) == [
        "rate = self.base * (decay(cycle) if self.total else decay(self.step * hvd.size()))",
        "m.fit(x, y, batch_size=16, epochs=5, callbacks=[Rate(0.02, max(1, 40 // hvd.size()), 200)])",
    ]


def test_a_pool_is_filled_by_the_rows_of_an_output():
    lines = ("for row in p.numpy():", "    if kept < POOL:", "        kept += 1")
    assert edits(steps(*lines, before="kept, POOL = 0, 50\n")) == []


def test_counts_of_two_schedules_are_those_of_one_process():
    """Nothing is known of `x`, but that a batch divides its length."""
    source = f"""{MODEL}
EPOCHS, START, BATCH = 6, 3, 8
per_epoch = -(-len(x) // BATCH)
class Decay(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, total, start):
        self.total, self.start = total, start
    def __call__(self, step):
        return tf.where(step >= self.start, 1 - (step - self.start) / (self.total - self.start), 1.0)
one = tf.keras.optimizers.SGD(Decay(EPOCHS * per_epoch, START * per_epoch))
two = tf.keras.optimizers.SGD(Decay(EPOCHS * per_epoch, START * per_epoch))
for epoch in range(EPOCHS):
    for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH):
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((m(a) - b) ** 2)
        one.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
        two.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
"""
    code = convert_source(source, options=OPTIONS).code
    assert "EPOCHS, START, BATCH = 6, 3, 8 * hvd.size()" in code
    assert "(self.total - self.start)" in code
    assert code.count("Decay(EPOCHS * per_epoch * hvd.size(), START * per_epoch * hvd.size())") == 2


@pytest.mark.parametrize("rows", ["len(x)", "x.shape[0]", "cfg['rows']"])
def test_settings_that_steps_are_computed_from_stay_beside_a_schedule(rows: str):
    """The rows of the data, and the epochs of a warm-up, are read elsewhere, too."""
    source = f"""{MODEL}
cfg = {{'rows': 500, 'batch': 8, 'warm': 2}}
x = np.ones((cfg['rows'], 3), 'float32')
per_epoch = {rows} // cfg['batch']
class Warm(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, warm):
        self.warm = warm
    def __call__(self, step):
        return tf.where(step < self.warm, 0.1 * step / self.warm, 0.1)
m.compile(tf.keras.optimizers.SGD(Warm(cfg['warm'] * per_epoch)), loss='mse')
m.fit(x, x, batch_size=cfg['batch'], epochs=5)
"""
    code = convert_source(source, options=OPTIONS).code
    assert "'rows': 500, 'batch': 8 * hvd.size(), 'warm': 2}" in code
    assert "Warm(cfg['warm'] * per_epoch * hvd.size())" in code


def test_epochs_that_a_schedule_of_keras_multiplies_stay():
    source = f"""{MODEL}
cfg = {{'batch': 8, 'cycle': 2}}
rate = tf.keras.optimizers.schedules.CosineDecay(0.1, cfg['cycle'] * (len(x) // cfg['batch']))
m.compile(tf.keras.optimizers.SGD(rate), loss='mse')
m.fit(x, y, batch_size=cfg['batch'], epochs=5)
"""
    code = convert_source(source, options=OPTIONS).code
    assert "'cycle': 2}" in code
    assert "(len(x) // cfg['batch']) * hvd.size())" in code


RESETS = {
    "if": ("self.n += 1", "if self.n >= self.period:", "    {}", "    self.n = 0"),
    "turned": ("self.n += 1", "if self.period <= self.n:", "    self.n -= self.period", "    {}"),
    "return": ("self.n += 1", "if self.n < self.period:", "    return", "self.n = 0", "{}"),
}


@pytest.mark.parametrize("lines", RESETS.values(), ids=RESETS)
def test_a_factor_of_each_period_stays_where_a_counter_starts_over(lines: tuple[str, ...]):
    factor = "self.model.optimizer.learning_rate = self.model.optimizer.learning_rate * 0.5"
    body = "\n".join(" " * 8 + line.format(factor) for line in lines)
    source = f"""{FIT}
class Halve(tf.keras.callbacks.Callback):
    n = 0
    def __init__(self, period):
        self.period = period
    def on_train_batch_end(self, batch, logs=None):
{body}
m.fit(x, y, batch_size=16, epochs=5, callbacks=[Halve(50)])
"""
    assert edits(source) == [
        "m.fit(x, y, batch_size=16, epochs=5, callbacks=[Halve(max(1, 50 // hvd.size()))])"
    ]
    assert notes(source) == []


def test_a_factor_stays_where_rows_are_counted_and_start_over():
    lines = (
        "seen += len(a)",
        "if seen >= 1000:",
        "    rate *= 0.5",
        "    seen = 0",
        "o.learning_rate = rate",
    )
    assert edits(steps(*lines, before="seen, rate = 0, 0.1")) == []


def test_a_factor_of_each_step_after_a_wait_is_raised():
    lines = ("n += 1", "if n >= 40:", "    rate *= 0.99", "o.learning_rate = rate")
    found = edits(steps(*lines, before="n, rate = 0, 0.1"))
    assert found == ["if n * hvd.size() >= 40:", "rate *= 0.99 ** hvd.size()"]


@pytest.mark.parametrize("rows", ["x[slice(i, i + BATCH)]", "x[cut]"])
def test_rows_of_a_slice_object_are_those_of_a_batch(rows: str):
    source = f"""{MODEL}
o, BATCH, seen, share = tf.keras.optimizers.SGD(0.01), 16, 0, 0
for i in range(0, len(x), BATCH):
    cut = slice(i, i + BATCH)
    a = {rows}
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(m(a) ** 2) * (0.5 + 0.5 * seen / 5000)
    o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
    seen += a.shape[0]
    if seen % 800 == 0:
        print(seen)
"""
    assert edits(source) == []
    assert notes(source) == []


def test_the_whole_of_a_ratio_is_the_same_on_any_number_of_ranks():
    lines = ("noise = BASE * (1 - n / total)", "n += 1")
    found = edits(steps(*lines, before="n, BASE = 0, 0.2\ntotal = 3 * 70"))
    assert found == ["total = max(1, 3 * 70 // hvd.size())"]


def test_rows_that_are_taken_before_they_are_batched_are_as_many():
    source = f"""{FIT}
BATCH, VALID = 16, 4
rows = tf.data.Dataset.from_tensor_slices((x, y))
valid = rows.take(VALID * BATCH).batch(BATCH)
m.fit(rows.skip(VALID * BATCH).batch(BATCH), epochs=5, validation_data=valid)
"""
    assert edits(source) == [
        "valid = rows.take(max(1, VALID * BATCH // hvd.size())).batch(BATCH)",
        "m.fit(rows.skip(max(1, VALID * BATCH // hvd.size())).batch(BATCH), epochs=5, validation_data=valid)",
    ]


def test_validation_steps_are_divided_where_their_batches_grow():
    source = f"""{FIT}
BATCH = 16
valid = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
train = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).repeat()
m.fit(train, steps_per_epoch=len(x) // BATCH, epochs=5, validation_data=valid, validation_steps=4)
"""
    assert edits(source) == [
        "m.fit(train, steps_per_epoch=len(x) // BATCH, epochs=5, validation_data=valid, "
        "validation_steps=max(1, 4 // hvd.size()))"
    ]
    assert edits(source.replace(".batch(BATCH)\ntrain", ".batch(25)\ntrain")) == []


STARTS = "starts, values = [24, 36], [0.05, 0.02, 0.01]"
SCALED = [
    STARTS.replace("24", "max(1, 24 // hvd.size())"),
    STARTS.replace("36", "max(1, 36 // hvd.size())"),
]


@pytest.mark.parametrize(
    ("line", "scaled"),
    [
        (
            "if s in rates:\n            rate = rates[s]",
            ["rates = {0: 0.1, max(1, 24 // hvd.size()): 0.02}"],
        ),
        ("rate = rates.get(s, rate)", ["rates = {0: 0.1, max(1, 24 // hvd.size()): 0.02}"]),
        (
            "for start, new in rates.items():\n            rate = new if s >= start else rate",
            ["rates = {0: 0.1, max(1, 24 // hvd.size()): 0.02}"],
        ),
        (
            "for start, new in pairs:\n            rate = new if s >= start else rate",
            ["pairs = [(0, 0.1), (max(1, 24 // hvd.size()), 0.02)]"],
        ),
        ("rate = values[sum(s >= each for each in starts)]", SCALED),
        ("if s in starts:\n            rate *= 0.5", SCALED),
        (
            "rate = values[bisect.bisect_right(starts, s)]",
            ["rate = values[bisect.bisect_right(starts, s * hvd.size())]"],
        ),
        (
            "rate = values[np.searchsorted(starts, s)]",
            ["rate = values[np.searchsorted(starts, s * hvd.size())]"],
        ),
        (
            "rate = np.interp(s, [0, 24, 90], [0.0, 0.1, 0.0])",
            ["rate = np.interp(s * hvd.size(), [0, 24, 90], [0.0, 0.1, 0.0])"],
        ),
    ],
)
def test_milestones_that_are_written_out(line: str, scaled: list[str]):
    before = f"import bisect\ns, rate = 0, 0.1\nrates = {{0: 0.1, 24: 0.02}}\npairs = [(0, 0.1), (24, 0.02)]\n{STARTS}"
    source = steps(*line.split("\n        "), "o.learning_rate = rate", "s += 1", before=before)
    assert edits(source) == scaled


def test_a_table_of_rates_that_is_computed_element_by_element():
    source = steps(
        "o.learning_rate = rates[s]",
        "s += 1",
        before="s, rates = 0, 0.1 * (1 + np.cos(np.pi * np.arange(900) / 900)) / 2",
    )
    assert edits(source) == ["o.learning_rate = rates[min(s * hvd.size(), len(rates) - 1)]"]


@pytest.mark.parametrize(
    ("line", "scaled"),
    [
        ("before = losses[-20]", ["before = losses[-max(1, 20 // hvd.size())]"]),
        ("before = losses[-2]", []),
        ("before = losses[-1]", []),
    ],
)
def test_an_entry_that_many_steps_before_is_counted_in_steps(line: str, scaled: list[str]):
    assert edits(steps("losses.append(float(loss))", line, before="losses = []")) == scaled


@pytest.mark.parametrize("places", ["np.arange(len(b))", "tf.range(0, len(b))"])
def test_a_queue_is_filled_by_as_many_rows_as_a_batch_has(places: str):
    line = f"queue[(at + {places}) % 512] = b"
    source = steps(line, "at = (at + len(b)) % 512", before="at, queue = 0, np.zeros((512, 1))")
    assert edits(source) == []


@pytest.mark.parametrize(
    "cut",
    [
        "a, b = x[s:s + 40], y[s:s + 40]",
        "e = s + 40; a, b = x[s:e], y[s:e]",
        "e = s + 40; a, b = x[k * 40:e], y[k * 40:e]",
    ],
)
def test_batches_whose_bounds_have_names(cut: str):
    source = f"""{MODEL}
o = tf.keras.optimizers.SGD(0.1)
for k in range(len(x) // 40):
    s = k * 40
    {cut}
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(a) - b) ** 2)
    o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
"""
    code = convert_source(source, options=OPTIONS).code
    assert "range(len(x) // (40 * hvd.size()))" in code
    assert code.count("40") == code.count("40 * hvd.size()")


@pytest.mark.parametrize(
    ("line", "scaled"),
    [
        ("n = math.ceil(len(x) / 16)", "n = math.ceil(len(x) / (16 * hvd.size()))"),
        ("n = -(-len(x) // 16)", "n = -(-len(x) // (16 * hvd.size()))"),
        ("n = len(x[: len(x) // 16])", "n = len(x[: len(x) // 16])"),
        ("n = len(x) // 10", "n = len(x) // 10"),
    ],
)
def test_a_batch_size_that_is_written_again_divides_the_rows(line: str, scaled: str):
    code = convert_source(steps("part = i / n", before=line), options=OPTIONS).code
    assert f"\n{scaled}\n" in code


def test_an_unknown_function_of_a_step_is_reported():
    source = "from schedules import rate_at\n" + steps(
        "o.learning_rate = rate_at(i)", "some = rate_at(epoch)"
    )
    assert edits(source) == []
    assert [each.partition(",")[0] for each in notes(source)] == [
        "`rate_at(i)` is given a number of steps"
    ]


def test_a_number_in_a_comparison_is_not_rounded():
    """A warm-up that is divided in its formula, and rounded where it is compared, exceeds its rate."""
    source = steps("rate = 0.05 * i / 21 if i < 21 else 0.05", "o.learning_rate = rate")
    code = convert_source(source, options=OPTIONS).code
    assert "rate = 0.05 * i * hvd.size() / 21 if i * hvd.size() < 21 else 0.05" in code


def test_the_weight_of_an_average_that_grows_with_steps_is_that_of_one_process():
    """As of a mean teacher: it is raised to a power, so before that it is the one after as many examples."""
    line = "alpha = min(1 - 1 / (s + 1), 0.99)"
    average = "slow = alpha * slow + (1 - alpha) * p"
    raised = "(alpha ** hvd.size())"
    assert edits(steps("s += 1", line, average, before="s, slow = 0, 0.0")) == [
        "alpha = min(1 - 1 / ((s + 1) * hvd.size()), 0.99)",
        average.replace("alpha * slow", f"{raised} * slow"),
        average.replace("1 - alpha", f"1 - {raised}"),
    ]


@pytest.mark.parametrize(
    ("line", "scaled"),
    [
        ("if float(loss) > 9:\n            scale /= 2", []),
        ("if float(loss) > 9:\n            scale *= 0.5", []),
        ("if float(loss) > 9:\n            scale *= 0.99", ["scale *= 0.99 ** hvd.size()"]),
        ("scale *= 0.5", ["scale *= 0.5 ** hvd.size()"]),
    ],
)
def test_what_is_halved_when_something_happens_is_no_decay_by_steps(line: str, scaled: list[str]):
    """As a loss scale is, where a gradient is infinite."""
    assert edits(steps(*line.split("\n        "), before="scale = 1024.0")) == scaled


def test_a_repeated_batch_size_in_a_schedule_is_that_of_one_process():
    source = f"""{MODEL}
s = tf.keras.optimizers.schedules.ExponentialDecay(0.1, len(x) // 16, 0.9)
m.compile(tf.keras.optimizers.SGD(s), 'mse')
m.fit(x, y, batch_size=16)
"""
    assert edits(source) == []


def test_an_option_has_one_unit_wherever_it_is_read():
    """A decay that was computed in two units was made right by powers of its rate."""
    source = f"""{MODEL}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument('--total', type=int)
parser.add_argument('--warm', type=int)
parser.add_argument('--lr', type=float)
class Trainer:
    def __init__(self, args):
        self.args, self.it, self.opt = args, 0, tf.keras.optimizers.SGD(args.lr)
    def rate(self):
        t = (self.it - self.args.warm) / (self.args.total - self.args.warm)
        return self.args.lr * (1 - t) ** 0.9
    def step(self, a, b):
        self.opt.learning_rate = self.rate()
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((m(a) - b) ** 2)
        self.opt.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
        self.it += 1
trainer = Trainer(parser.parse_args())
for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(16):
    trainer.step(a, b)
"""
    code = convert_source(source, options=OPTIONS).code
    warm, total = (f"max(1, self.args.{name} // hvd.size())" for name in ("warm", "total"))
    assert f"t = (self.it - {warm}) / ({total} - {warm})\n" in code
    assert "return self.args.lr * (1 - t) ** 0.9\n" in code
    assert "self.opt.learning_rate = self.rate()\n" in code


def test_the_last_step_of_a_period_stays_the_last():
    """On 3 ranks 199 // 3 is the length of a period of 200 // 3 steps, which was its first one."""
    source = steps("if i % 200 == 199:", "    print(i)")
    (line,) = (each for each in convert_source(source).code.splitlines() if "if i %" in each)
    test = line.strip().removeprefix("if ").partition(" and hvd.rank")[0].removesuffix(":")
    for size in (1, 2, 3, 4, 7):
        hvd, period = SimpleNamespace(size=lambda size=size: size), 200 // size
        assert [eval(test, {"hvd": hvd, "i": i}) for i in (0, period - 1)] == [False, True]


@pytest.mark.parametrize(
    "test",
    [
        "if s % PERIOD == 0 or s == LAST:",
        "if s == 1 or s % PERIOD == 0:",
        "if not (s % PERIOD and s != LAST):",
    ],
)
def test_an_evaluation_each_few_steps_and_at_the_last_is_no_step(test: str):
    """Its patience counts evaluations."""
    body = (test, "    bad += 1", "    if bad > PATIENCE:", "        break", "s += 1")
    source = steps(*body, before="PERIOD = 40\nLAST = 90\nPATIENCE = 4\ns, bad = 0, 0")
    scaled = edits(source)
    assert "PERIOD = max(1, 40 // hvd.size())" in scaled
    assert not any("PATIENCE" in line for line in scaled)


def test_a_list_of_numbers_of_steps_is_converted_for_a_schedule():
    """It was asked for a step of one process, and fell N times too early."""
    made = "o = tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.PiecewiseConstantDecay({}, [0.1, 0.02, 0.01]))"
    before = f"STEPS = 16\nbounds = [2 * STEPS, 4 * STEPS]\n{made.format('bounds')}"
    assert edits(steps("late = i > STEPS", before=before)) == [
        "STEPS = max(1, 16 // hvd.size())",
        made.format("[each * hvd.size() for each in bounds]"),
    ]


@pytest.mark.parametrize(
    "made", ["class C: warm = 40; batch = 16", "class C:\n    warm = 40\n    batch = 16"]
)
@pytest.mark.parametrize("name", ["C", "C()"])
def test_a_class_of_constants(made: str, name: str):
    before = f"{made}\nc = {name}\nds = tf.data.Dataset.from_tensor_slices((x, y)).batch(c.batch)"
    code = convert_source(
        steps("part = min(1.0, i / c.warm)", "late = i > c.warm", before=before)
    ).code
    assert "warm = max(1, 40 // hvd.size())" in code
    assert "batch = 16 * hvd.size()" in code
    assert "i > c.warm\n" in code


def test_epochs_are_those_that_fit_is_given():
    """They were multiplied for a schedule of all steps, and a rate that falls by epochs fell N times too late."""
    source = f"""{MODEL}
EPOCHS, BATCH = 4, 16
STEPS = len(x) // BATCH
TOTAL = EPOCHS * STEPS
WARM = int(0.1 * TOTAL)
class Falling(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, total, warm):
        self.total, self.warm = total, warm
    def __call__(self, step):
        rate = 0.1 * (step - self.warm) / (self.total - self.warm)
        return tf.where(step > self.total, 0.0, tf.where(step < self.warm, 0.1, rate))
rate = tf.keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 * (1 - epoch / EPOCHS))
m.compile(tf.keras.optimizers.SGD(Falling(TOTAL, WARM)), 'mse')
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).repeat()
m.fit(ds, steps_per_epoch=STEPS, epochs=EPOCHS, callbacks=[rate])
"""
    code = convert_source(source, options=OPTIONS).code
    assert "EPOCHS, BATCH = 4, 16 * hvd.size()\n" in code
    assert "epochs=EPOCHS," in code


@pytest.mark.parametrize(
    "table",
    [
        "np.geomspace(0.1, 0.01, 900)",
        "np.full(900, 0.1)",
        "np.repeat([0.1, 0.01], 450)",
        "np.concatenate([np.linspace(0, 0.1, 100), np.full(800, 0.1)])",
        "np.concatenate((np.array([]), np.linspace(0.1, 0, 900)))",
    ],
)
def test_tables_that_numpy_makes_have_a_length(table: str):
    source = steps("o.learning_rate = rates[s]", "s += 1", before=f"s, rates = 0, {table}")
    assert edits(source) == ["o.learning_rate = rates[min(s * hvd.size(), len(rates) - 1)]"]


def test_a_table_with_an_entry_for_each_step_of_n_ranks_is_looked_up_by_these():
    """As of self-supervised training: a warm-up, perhaps none, and a cosine."""
    table = """def table(base, epochs, per_epoch, warm_epochs=0):
    first, warm = np.array([]), warm_epochs * per_epoch
    if warm_epochs > 0:
        first = np.linspace(0, base, warm)
    steps = np.arange(epochs * per_epoch - warm)
    return np.concatenate((first, base * 0.5 * (1 + np.cos(np.pi * steps / len(steps)))))
rates, weights = table(0.1, 9, len(ds), 1), table(0.9, 9, len(ds))"""
    lines = ("s = epoch * len(ds) + i", "o.learning_rate = rates[s]", "weight = weights[s]")
    assert edits(steps(*lines, before=table)) == []


def test_a_list_in_a_dictionary_counts_steps():
    lines = ("for each in C['drops']:", "    if s >= each:", "        rate *= 0.1", "s += 1")
    source = steps(
        "rate = 0.1", *lines, "o.learning_rate = rate", before="C = {'drops': [40, 80]}\ns = 0"
    )
    assert edits(source) == [
        "C = {'drops': [max(1, 40 // hvd.size()), 80]}",
        "C = {'drops': [40, max(1, 80 // hvd.size())]}",
    ]


def test_an_epoch_is_what_divmod_gives_of_a_step():
    """The number of epochs was divided, so that rates by epochs never fell."""
    source = f"""{MODEL}
per_epoch, epochs = 20, 6
o = tf.keras.optimizers.SGD(0.1)
batches = iter(tf.data.Dataset.from_tensor_slices((x, y)).batch(16).repeat())
for step in range(per_epoch * epochs):
    epoch, i = divmod(step, per_epoch)
    a, b = next(batches)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(a) - b) ** 2)
    o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
    o.learning_rate = 0.1 if epoch < 4 else 0.01
"""
    assert edits(source) == ["per_epoch, epochs = max(1, 20 // hvd.size()), 6"]


def test_a_window_of_a_list_that_is_made_beside_another_value():
    before = """class Meter:
    def __init__(self, window=10):
        self.window, self.losses = window, []
    def add(self, loss):
        self.losses.append(loss)
        if len(self.losses) > self.window:
            self.losses.pop(0)
meter = Meter()"""
    assert edits(steps("meter.add(float(loss))", before=before)) == [
        "def __init__(self, window=max(1, 10 // hvd.size())):"
    ]


def test_batches_that_are_joined_again_have_all_rows():
    assert (
        edits(
            steps(
                "pass",
                after="labels = np.concatenate([b for _, b in ds])\nassert len(labels) == 900",
            )
        )
        == []
    )


def test_a_corrected_moment_of_gradients_counts_updates() -> None:
    source = f"""{MODEL}
w = tf.Variable(tf.zeros((4, 1)))
moment, updates = tf.Variable(tf.zeros((4, 1))), 0
for step in range(600):
    rows = np.random.choice(len(x), 8)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x[rows] @ w - y[rows]) ** 2)
    gradient = tape.gradient(loss, w)
    updates += 1
    moment.assign(0.9 * moment + (1 - 0.9) * gradient)
    w.assign_sub(0.01 * moment / (1 - 0.9 ** updates))
"""
    assert edits(source) == ["for step in range(max(1, 600 // hvd.size())):"]


def test_rows_of_a_function_that_is_called_with_two_kinds_of_rows() -> None:
    """A network is asked for each environment, and trained on batches: there are as many environments on N ranks."""
    source = f"""{MODEL}
optimizer = tf.keras.optimizers.SGD(0.1)
players, length, size = 4, 16, 8
class Player:
    def __init__(self):
        self.turn = 0
    def reset(self):
        self.turn = 0
        return np.zeros(3)
    def play(self, choice):
        self.turn += 1
        return self.reset() if self.turn >= 10 else np.ones(3)
def ask(rows):
    return m(rows)
all_players = [Player() for _ in range(players)]
seen = np.stack([each.reset() for each in all_players])
for update in range(1024 // (players * length)):
    rows = []
    for turn in range(length):
        choices = np.array([float(a) for a in ask(seen)])
        seen = np.stack([p.play(c) for p, c in zip(all_players, choices)])
        rows.append(seen)
    rows = np.concatenate(rows)
    order = np.random.permutation(players * length)
    for i in range(0, players * length, size):
        some = rows[order[i:i + size]]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(ask(some) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
"""
    assert edits(source) == []
    assert notes(source) == []


def test_a_length_of_one_step_that_has_a_name_is_divided() -> None:
    body = "print(1 / (1 + step / length))"
    source = steps(body, "step += 1", before="length = 1.0\nstep = 0")
    assert edits(source) == ["length = 1.0 / hvd.size()"]


def test_weights_of_a_layer_scale_as_what_is_assigned_to_them() -> None:
    source = f"""{MODEL}
class Counted(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = tf.keras.layers.Dense(1)
        self.made = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False)
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.inner(x) - y) ** 2)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.inner.trainable_variables), self.inner.trainable_variables))
        self.made.assign_add(1)
        return {{"ramp": tf.minimum(1.0, tf.cast(self.made, tf.float32) / 50.0)}}
c = Counted()
c.compile(tf.keras.optimizers.SGD(0.1))
c.fit(x, y, batch_size=8)
"""
    assert edits(source) == [
        'return {"ramp": tf.minimum(1.0, tf.cast(self.made, tf.float32) / 50.0 * hvd.size())}'
    ]
    assert notes(source) == []


def test_an_object_of_the_program_gives_as_many_batches_as_it_yields() -> None:
    """It was taken to have as many elements as its first argument, whose rows were divided."""
    source = f"""{MODEL}
o = tf.keras.optimizers.SGD(0.01)
x = np.zeros((720, 1))
class Loader:
    def __init__(self, rows, size):
        self.rows, self.size = rows, size
    def __iter__(self):
        for i in range(0, len(self.rows), self.size):
            yield self.rows[i:i + self.size]
    def __len__(self):
        return len(self.rows) // self.size
loader = Loader(x, 8)
for epoch in range(2):
    for i, a in enumerate(loader):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(m(a) - a))
        o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
        if i == len(loader) - 1 or i % 30 == 0:
            print(i)
"""
    assert edits(source) == ["if i == len(loader) - 1 or i % max(1, 30 // hvd.size()) == 0:"]


def test_a_function_that_a_callback_calls_counts_steps_in_a_list() -> None:
    source = f"""{FIT}
made = [0]
def follow(batch, logs):
    made[0] += 1
    m.optimizer.learning_rate = 0.1 * min(1, made[0] / 200)
m.fit(x, y, batch_size=8, callbacks=[tf.keras.callbacks.LambdaCallback(on_train_batch_end=follow)])
"""
    assert edits(source) == ["m.optimizer.learning_rate = 0.1 * min(1, made[0] * hvd.size() / 200)"]


def test_optimizers_take_numbers_of_steps() -> None:
    made = "tf.keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency={})"
    source = MODEL + f"m.compile({made.format(100)}, loss='mse')\nm.fit(x, y, batch_size=8)\n"
    (edited,) = edits(source)
    assert "ema_overwrite_frequency=max(1, 100 // hvd.size())" in edited


def test_labels_are_not_multiplied_by_a_root() -> None:
    """Two losses that one function returns were taken for one unit, so labels were multiplied by the root of N."""
    program = Path(__file__).parents[1] / "exact" / "programs" / "compiled_epoch.py"
    code = convert_source(program.read_text(), options=OPTIONS).code
    assert "total += step(x, y)\n" in code
    assert "** 0.5" not in code


def test_a_function_that_others_call_trains_once() -> None:
    source = f"""{MODEL}
o = tf.keras.optimizers.SGD(0.01)
def train(every=6):
    data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(16)
    for step, (a, b) in enumerate(data):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(m(a) - b))
        o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
        if step % every == 0:
            print(step)
"""
    assert edits(source) == ["def train(every=max(1, 6 // hvd.size())):"]


def test_the_columns_of_a_shape_stay() -> None:
    """The sizes of a shape were taken for one unit, so columns were multiplied with the rows of a batch."""
    source = f"""{MODEL}
o = tf.keras.optimizers.SGD(0.01)
size = 4
for step, a in enumerate(tf.data.Dataset.from_tensor_slices(x).batch(size)):
    a += np.ones((size, 8)) + tf.zeros([size, 8])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(m(a))
    o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
    if step % 6 == 0:
        print(step)
"""
    assert edits(source) == ["if step % max(1, 6 // hvd.size()) == 0:"]
