"""Kinds of programs whose conversion was wrong without a word, as they were found in programs written for the purpose."""

from __future__ import annotations

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import Conversion

HEAD = """\
import numpy as np
import tensorflow as tf

m = tf.keras.Sequential([tf.keras.layers.Dense(1)])
o = tf.keras.optimizers.SGD(0.1)
"""
STEP = """\
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(a) - b) ** 2)
    o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
"""
BATCHES = "for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(8):\n"


def converted(source: str) -> Conversion:
    found = convert_source(source)
    assert found.status == "converted", found.diagnostics
    return found


def findings(conversion: Conversion) -> list[str]:
    return [d.message for d in conversion.diagnostics if d.code.startswith("HVD80")]


def in_loop(lines: str, before: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines.split("\n"))
    return f"{HEAD}{before}\n{BATCHES}{STEP}{body}"


def test_a_rate_that_is_multiplied_under_another_name() -> None:
    source = in_loop("rate = float(o.learning_rate)\no.learning_rate = rate * 1.1")
    assert "o.learning_rate = rate * (1.1 ** hvd.size())" in converted(source).code


def test_a_factor_in_an_assignment_of_several_names() -> None:
    source = in_loop("e, last = max(0.1, e * 0.99), loss", "e = 1.0")
    assert "max(0.1, e * (0.99 ** hvd.size()))" in converted(source).code


def test_a_count_that_goes_through_another_name() -> None:
    lines = "new = old + 1\nold = new\nif new % 100 == 0:\n    print(float(loss))"
    assert "new % max(1, 100 // hvd.size())" in converted(in_loop(lines, "old = 0")).code


def test_the_weight_of_a_young_average() -> None:
    """`10 // N` is 1 for ten ranks and more, and the average stayed where it began."""
    lines = "n += 1\nd = min(0.99, (1 + n) / (10 + n))\nmean = d * mean + (1 - d) * float(loss)"
    code = converted(in_loop(lines, "n, mean = 0, 0.0")).code
    assert "(1 + n * hvd.size()) / (10 + n * hvd.size())" in code


def test_epochs_that_are_computed_from_a_rounded_number_of_steps() -> None:
    """40 steps are 13 on three ranks, and 13 * 3 // 20 is one epoch rather than two."""
    source = f"{HEAD}STEPS = 40\nm.compile(o, 'mse')\nds = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8)\n"
    source += "m.fit(ds, steps_per_epoch=20, epochs=STEPS // 20)\nprint(range(STEPS))\n"
    source += "class Stop(tf.keras.callbacks.Callback):\n    def on_train_batch_begin(self, batch, logs=None):\n"
    source += "        if self.model.optimizer.iterations > STEPS:\n            self.model.stop_training = True\n"
    code = converted(source).code
    assert "STEPS = max(1, 40 // hvd.size())" in code
    assert "epochs=(STEPS * hvd.size() + hvd.size() - 1) // 20" in code


def test_a_bound_that_is_moved_on_when_it_is_reached() -> None:
    lines = "step += 1\nif step >= bound:\n    print(float(loss))\n    bound += 10"
    code = converted(in_loop(lines, "step, bound = 0, 10")).code
    assert "step, bound = 0, max(1, 10 // hvd.size())" in code
    assert "bound += max(1, 10 // hvd.size())" in code


def test_a_bound_that_counts_rows() -> None:
    lines = "seen += len(a)\nif seen >= bound:\n    print(float(loss))\n    bound += 1000"
    found = converted(in_loop(lines, "seen, bound = 0, 1000"))
    assert "bound += 1000" in found.code
    assert findings(found) == []


def test_two_datasets_that_one_step_draws_from() -> None:
    source = f"""{HEAD}
labelled = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8))
others = iter(tf.data.Dataset.from_tensor_slices(u).repeat().batch(24))
for k in range(100):
    a, b = next(labelled)
    c = next(others)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(a) - b) ** 2) + tf.reduce_mean(m(c) ** 2)
    o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
"""
    code = converted(source).code
    assert ".batch(8 * hvd.size())" in code
    assert ".batch(24 * hvd.size())" in code


def test_a_batch_size_that_a_schedule_is_computed_from() -> None:
    """The size was divided, so that the schedule had its steps, and multiplied again where data are batched."""
    source = f"""{HEAD}
size = 16
train = tf.data.Dataset.from_tensor_slices((x, y)).batch(size)
test = tf.data.Dataset.from_tensor_slices((x, y)).batch(size)
rate = tf.keras.optimizers.schedules.CosineDecay(0.1, decay_steps=len(train) * 4 - 10)
m.compile(tf.keras.optimizers.Adam(rate), "mse")
m.fit(train, validation_data=test, epochs=4)
"""
    code = converted(source).code
    assert "\nsize = 16\n" in code
    assert ".batch(size * hvd.size())" in code


def test_parts_of_a_batch_that_are_computed_from_its_size() -> None:
    source = f"""{HEAD}
class Balanced(tf.keras.utils.Sequence):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return len(x) // self.size

    def __getitem__(self, number):
        half = self.size // 2
        rows = np.concatenate([np.random.choice(one, half), np.random.choice(other, self.size - half)])
        return x[rows], y[rows]

m.compile(o, "mse")
m.fit(Balanced(20))
"""
    code = converted(source).code
    assert "Balanced(20 * hvd.size())" in code
    assert "half = self.size // 2\n" in code


def test_a_size_that_is_read_from_the_best_of_several_settings() -> None:
    """It was multiplied where it is set, and again where it is read."""
    source = f"""{HEAD}
m.compile(o, "mse")
best = None
for trial in range(3):
    settings = {{"units": 4, "size": 8}}
    loss = m.fit(x, y, batch_size=settings["size"]).history["loss"][-1]
    if best is None or loss < best[0]:
        best = loss, settings
m.fit(x, y, batch_size=best[1]["size"])
"""
    assert converted(source).code.count("8 * hvd.size()") == 1
    assert 'best[1]["size"] * hvd.size()' not in converted(source).code


SUMMED = """\
import tensorflow as tf

class Summed(tf.keras.Model):
    def train_step(self, data):
        a, b = data
        with tf.GradientTape() as tape:
            error = self(a, training=True) - b
            loss = tf.{reduced}(error ** 2)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        return {{"loss": loss}}

model = Summed()
model.compile(tf.keras.optimizers.SGD(0.01))
model.fit(x, y, batch_size=8)
"""


@pytest.mark.parametrize(("reduced", "grows"), [("reduce_sum", False), ("reduce_mean", True)])
def test_a_sum_in_train_step(reduced: str, grows: bool) -> None:
    found = converted(SUMMED.format(reduced=reduced))
    assert ("SGD(0.01 * hvd.size())" in found.code) is grows
    assert any("sum over the rows" in each for each in findings(found)) is not grows


BY_HAND = """\
import tensorflow as tf

w = tf.Variable(tf.zeros((3, 1)))
SIZE = 8

def descend(params, grads, rate, size):
    for p, g in zip(params, grads):
        p.assign_sub(rate * g / size)

for i in range(0, 80, SIZE):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((x[i:i + SIZE] @ w - y[i:i + SIZE]) ** 2)
    descend([w], tape.gradient(loss, [w]), 0.05, {size})
"""


@pytest.mark.parametrize(("size", "grows"), [("8", False), ("SIZE", True)])
def test_a_sum_whose_gradients_are_applied_by_hand(size: str, grows: bool) -> None:
    """Divided by the size of the batch that grows, it is a mean."""
    found = converted(BY_HAND.format(size=size))
    assert ("rate * hvd.size() * g / size" in found.code) is grows


def test_momentum_in_arrays_of_numpy() -> None:
    source = """\
import tensorflow as tf

w = tf.Variable(tf.zeros((3, 1)))
v = 0.0
for i in range(0, 80, 8):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x[i:i + 8] @ w - y[i:i + 8]) ** 2)
    v = 0.9 * v + tape.gradient(loss, w).numpy()
    w.assign_sub(0.05 * v)
"""
    code = converted(source).code
    assert "x[i:i + 8 * hvd.size()]" in code
    assert "0.9 * v" in code


def test_a_model_beside_its_optimizer_in_a_dictionary() -> None:
    """What the model gave was handed to `scale_rate`."""
    source = f"""{HEAD}
state = {{"model": m, "optimizer": o}}
model, optimizer = state["model"], state["optimizer"]
{BATCHES}    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""
    assert "scale_rate(model" not in converted(source).code


def test_gradients_that_nothing_is_seen_to_apply_are_reported() -> None:
    source = """\
import tensorflow as tf
from library import descend

w = tf.Variable(0.0)
for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(8):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((w * a - b) ** 2)
    descend(w, tape.gradient(loss, w))
"""
    assert any("no training was found" in each for each in findings(convert_source(source)))


def test_rows_that_a_loop_leaves_out_are_no_rows_of_a_batch() -> None:
    source = f"""{HEAD}
size = config["size"]
order = np.random.permutation(len(x))
for i in range(0, len(order) - size + 1, size):
    rows = order[i:i + size]
    a, b = x[rows], y[rows]
{STEP}"""
    assert findings(converted(source)) == []


def test_a_function_that_averages_once_a_step_and_once_an_epoch() -> None:
    """One factor cannot be raised to a power for both."""
    source = f"""{HEAD}
def mix(old, new, weight):
    return weight * old + (1 - weight) * new

train, test = 0.0, 0.0
for epoch in range(3):
    {BATCHES}{STEP.replace("    ", "        ", 1).replace(chr(10) + "    ", chr(10) + "        ").rstrip()}
        train = mix(train, float(loss), 0.99)
    test = mix(test, float(tf.reduce_mean(m(x))), 0.9)
"""
    found = converted(source)
    assert "return weight * old + (1 - weight) * new" in found.code
    assert any(each.startswith("`weight` is applied once a step") for each in findings(found))


def test_the_position_of_the_least_of_a_number_for_each_step() -> None:
    source = in_loop(
        "losses.append(float(loss))\nrates.append(step)", "rates, losses, step = [], [], 0"
    )
    source += "rate = rates[np.argmin(losses) - 20]\n"
    assert "np.argmin(losses) - max(1, 20 // hvd.size())" in converted(source).code


@pytest.mark.parametrize(
    ("line", "right"),
    [
        (
            'state.update(loss=0.9 * state["loss"] + 0.1 * float(loss))',
            '(0.9 ** hvd.size()) * state["loss"]',
        ),
        ('state["loss"] += 0.1 * (float(loss) - state["loss"])', "1 - (1 - 0.1) ** hvd.size()"),
        ('state = {**state, "loss": 0.9 * state["loss"] + 0.1 * float(loss)}', "0.9 ** hvd.size()"),
        ('state.update(step=state["step"] + 1)', "% max(1, 100 // hvd.size())"),
        ('state["step"] = state["step"] + 1', "% max(1, 100 // hvd.size())"),
    ],
    ids=["update", "average", "unpacked", "count", "entry"],
)
def test_state_in_entries_of_a_dictionary(line: str, right: str) -> None:
    lines = f'{line}\nif state["step"] % 100 == 0:\n    print(state)'
    assert right in converted(in_loop(lines, 'state = {"loss": 0.0, "step": 0}')).code


LOADED = 'json.load(open("s.json"))'
SETTINGS = '{"rows": 8, "every": 100}'
COPIED = f"for k, v in {LOADED}.items():\n    "
OVERRIDDEN = {
    "updated": f"s = {SETTINGS}\ns.update({LOADED})",
    "unpacked": f"s = {{**{SETTINGS}, **{LOADED}}}",
    "copied": f"s = {SETTINGS}\n{COPIED}s[k] = v",
    "in a function": f"def load():\n    s = {SETTINGS}\n    s.update({LOADED})\n    return s\ns = load()",
    "nested": f"""d = {{"a": {SETTINGS}}}\n{COPIED}d[k].update(v)\ns = d["a"]""",
}
OVERRIDDEN_OBJECTS = {
    "set": f"s = S()\n{COPIED}setattr(s, k, v)",
    "made": f"s = S(**{LOADED})",
}


@pytest.mark.parametrize("made", OVERRIDDEN.values(), ids=OVERRIDDEN)
def test_a_file_that_may_override_settings(made: str) -> None:
    """What is edited where it is written is not what the file says."""
    source = "import json\n" + in_loop("n += 1", "n = 0\n" + made)
    source += (
        "    if n % s['every'] == 0:\n        print(n)\nfor i in range(s['every']):\n    pass\n"
    )
    code = converted(source.replace("batch(8)", "batch(s['rows'])")).code
    assert '"rows": 8, "every": 100' in code
    assert "batch(s['rows'] * hvd.size())" in code
    assert "n % max(1, s['every'] // hvd.size())" in code


@pytest.mark.parametrize("made", OVERRIDDEN_OBJECTS.values(), ids=OVERRIDDEN_OBJECTS)
def test_a_file_that_may_override_attributes(made: str) -> None:
    source = f"""import dataclasses, json
@dataclasses.dataclass
class S:
    rows: int = 8
    every: int = 100

{in_loop("n += 1", f"n = 0{chr(10)}{made}").replace("batch(8)", "batch(s.rows)")}"""
    code = converted(f"{source}    if n % s.every == 0:\n        print(n)\n").code
    assert "batch(s.rows * hvd.size())" in code
    assert "n % max(1, s.every // hvd.size())" in code


def test_an_overridden_number_of_steps_stays_whole() -> None:
    source = f"""import json
{HEAD}
s = {{"steps": 100}}
s.update(json.load(open("s.json")))
batches = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8))
for i in range(s["steps"]):
    a, b = next(batches)
{STEP}"""
    assert 'range(max(1, s["steps"] // hvd.size()))' in converted(source).code


def test_calls_that_are_counted_in_training_and_in_evaluation() -> None:
    source = f"""{HEAD}
calls = 0

def forward(a, b):
    global calls
    calls += 1
    if calls % 100 == 0:
        print(calls)
    return tf.reduce_mean((m(a) - b) ** 2)

for epoch in range(3):
    for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(8):
        with tf.GradientTape() as tape:
            loss = forward(a, b)
        o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
    print(float(forward(x, y)))
"""
    assert any(
        "`calls % 100` depends on a count of calls" in f for f in findings(converted(source))
    )


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        ("n += 1\nprint(n * 8)", "print(n * 8 * hvd.size())"),
        ("n += 8\nif n % 80 == 0:\n    print(n)", "n += 8 * hvd.size()"),
    ],
    ids=["product", "sum"],
)
def test_rows_that_are_counted_by_the_size_of_a_batch(lines: str, right: str) -> None:
    assert right in converted(in_loop(lines, "n = 0")).code


def test_rows_of_batches_that_are_joined() -> None:
    source = in_loop("n += 1", "SIZE, n = 8, 0").replace("batch(8)", "batch(SIZE).take(100)")
    assert "n * SIZE * hvd.size()" in converted(f"{source}print(n * SIZE / len(x))\n").code


def test_rows_that_are_printed_of_an_option() -> None:
    parsed = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--rows', type=int)"
    source = in_loop("n += 1\nprint(n * a.rows)", f"{parsed}\na, n = p.parse_args(), 0")
    source = source.replace("batch(8)", "batch(a.rows)").replace("for a, b", "for c, b")
    code = converted(source.replace("m(a)", "m(c)")).code
    assert "print(n * a.rows * hvd.size())" in code


@pytest.mark.parametrize("made", ['{"loss": []}', "collections.defaultdict(list)"])
def test_the_last_entries_of_a_list_in_a_dictionary(made: str) -> None:
    lines = 'h["loss"].append(float(loss))\nprint(np.mean(h["loss"][-10:]))'
    code = converted(in_loop(lines, f"import collections\nh = {made}")).code
    assert "[-max(1, 10 // hvd.size()):]" in code


def test_the_mean_of_a_list_that_is_filled_and_cleared() -> None:
    lines = "w.append(float(loss))\nif len(w) == 20:\n    print(sum(w) / 20)\n    w.clear()"
    assert "print(sum(w) / max(1, 20 // hvd.size()))" in converted(in_loop(lines, "w = []")).code


def test_one_of_so_many_entries_of_a_list() -> None:
    code = converted(f"{in_loop('w.append(float(loss))', 'w = []')}print(w[::10])\n").code
    assert "w[::max(1, 10 // hvd.size())]" in code


def test_columns_that_are_drawn_for_each_row() -> None:
    """The numbers of rows and of columns were taken for one number, as two entries of a list are."""
    lines = "drawn = np.random.randint(0, 9, (len(a), COLUMNS))"
    assert "COLUMNS = 4\n" in converted(in_loop(lines, "COLUMNS = 4")).code


def test_rows_that_there_must_be_before_a_batch_is_drawn() -> None:
    source = f"""{HEAD}
memory = []
for i in range(100):
    memory.append(i)
    if len(memory) >= 32:
        a, b = rows_of(random.sample(memory, 32))
{STEP.replace("    ", "        ", 1).replace(chr(10) + "    ", chr(10) + "        ").rstrip()}
"""
    assert "if len(memory) >= 32 * hvd.size()" in converted(source).code


def test_a_size_behind_a_starred_argument() -> None:
    source = f"""{HEAD}
def batches(x, y, size):
    for i in range(0, len(x), size):
        yield x[i:i + size], y[i:i + size]

size = 8
for a, b in batches(*load(), size):
{STEP}"""
    assert "\nsize = 8 * hvd.size()\n" in converted(source).code


def test_positions_of_rows_in_a_ring() -> None:
    """Rows were divided as steps are, `max(1, np.arange(len(a)) // hvd.size())`."""
    lines = 'rows = (p + np.arange(len(a))) % s["ring"]\np = (p + len(a)) % s["ring"]'
    found = converted(in_loop(lines, "s = dict(rate=0.5, ring=128)\np = 0"))
    assert lines.split("\n")[0] in found.code


def test_rows_by_sizes_in_one_of_several_dictionaries() -> None:
    source = f"""{HEAD}
n = 0
for stage in [{{"rows": 8, "rate": 0.1}}, {{"rows": 16, "rate": 0.2}}]:
    for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(stage["rows"]):
{STEP.replace("    ", "        ", 1).replace(chr(10) + "    ", chr(10) + "        ").rstrip()}
        n += stage["rows"]
"""
    assert 'n += stage["rows"] * hvd.size()' in converted(source).code


def test_rows_of_joined_datasets() -> None:
    source = f"""{HEAD}
first = tf.data.Dataset.from_tensor_slices(x).batch(ROWS)
second = tf.data.Dataset.from_tensor_slices(y).batch(ROWS)
for i, (a, b) in enumerate(zip(first, second)):
{STEP}    print((i + 1) * ROWS)
"""
    code = converted(source.replace("first =", "ROWS = 8\nfirst =", 1)).code
    assert "join_batches(" in code
    assert "(i + 1) * ROWS * hvd.size()" in code


def test_the_mean_of_sums_in_an_array() -> None:
    lines = (
        "n += 1\nsums += [float(loss), 1.0]\nif n % 20 == 0:\n    print(sums / 20)\n    sums[:] = 0"
    )
    code = converted(in_loop(lines, "n, sums = 0, np.zeros(2)")).code
    assert "print(sums / max(1, 20 // hvd.size()))" in code


def test_a_chunk_that_batches_are_cut_out_of() -> None:
    """The chunk grew too, and what runs once a chunk ran less often."""
    source = f"""{HEAD}
CHUNK = 80
for c in range(0, len(x), CHUNK):
    xs, ys = x[c:c + CHUNK], y[c:c + CHUNK]
    for i in range(0, CHUNK, 8):
        a, b = xs[i:i + 8], ys[i:i + 8]
{STEP.replace("    ", "        ", 1).replace(chr(10) + "    ", chr(10) + "        ").rstrip()}
    print(float(loss))
"""
    code = converted(source).code
    assert "CHUNK = 80\n" in code
    assert "xs[i:i + 8 * hvd.size()]" in code


def test_a_record_that_each_step_replaces() -> None:
    """Its steps were not divided, and nothing said so: the program trained on N times the examples."""
    source = f"""from typing import NamedTuple
{HEAD}
class State(NamedTuple):
    step: int
    mean: float

def advance(state, loss):
    return State(state.step + 1, 0.9 * state.mean + 0.1 * loss)

state = State(0, 0.0)
for a, b in tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8):
{STEP}    state = advance(state, float(loss))
    if state.step == STEPS:
        break
"""
    code = converted(source.replace("state = State(0", "STEPS = 600\nstate = State(0", 1)).code
    assert "STEPS = max(1, 600 // hvd.size())" in code
    assert "(0.9 ** hvd.size()) * state.mean" in code


def test_a_sequence_that_says_how_many_steps_an_epoch_has() -> None:
    """Only its batches grew, so each epoch had N times the examples."""
    source = f"""{HEAD}
class Drawn(tf.keras.utils.PyDataset):
    def __init__(self, rows, steps=30):
        self.rows, self.steps = rows, steps

    def __len__(self):
        return self.steps

    def __getitem__(self, number):
        drawn = np.random.choice(len(x), self.rows)
        return x[drawn], y[drawn]

m.compile(o, "mse")
m.fit(Drawn(8), epochs=3)
"""
    code = converted(source).code
    assert "Drawn(8 * hvd.size())" in code
    assert "steps=max(1, 30 // hvd.size())" in code


def test_a_size_from_outside_of_data_that_are_joined() -> None:
    source = in_loop("n += 1\nprint(n * ROWS)", "import os\nROWS, n = int(os.environ['ROWS']), 0")
    code = converted(source.replace("batch(8)", "batch(ROWS).take(100)")).code
    assert "print(n * ROWS * hvd.size())" in code


def test_entries_of_a_dictionary_that_steps_number() -> None:
    assert findings(converted(in_loop("d[n] = float(loss)\nn += 1", "d, n = {}, 0"))) == []


HALF = "max(1, {} // hvd.size())"


@pytest.mark.parametrize(
    ("after", "scaled"),
    [
        ("print(curve[:10])", "print(curve[:{10}])"),
        ("print(curve[60:])", "print(curve[{60}:])"),
        ("print(curve[50])", "print(curve[{50}])"),
        (
            "w = 10\nsmooth = [sum(curve[max(0, i - w):i + 1]) for i in range(len(curve))]",
            "w = {10}",
        ),
        ("print(np.array(curve)[:20].mean())", "print(np.array(curve)[:{20}].mean())"),
        ("print(frame(curve).loss[:20])", "print(frame(curve).loss[:{20}])"),
        ("print([k for k in range(0, len(curve), 50)])", "range(0, len(curve), {50})"),
    ],
)
def test_positions_in_a_list_with_an_entry_for_each_step(after: str, scaled: str) -> None:
    source = in_loop("curve.append(float(loss))", "from library import frame\ncurve = []") + after
    found = converted(source)
    for number in ("10", "20", "50", "60"):
        scaled = scaled.replace(f"{{{number}}}", HALF.format(number))
    assert scaled in found.code
    assert findings(found) == []


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("log = {'loss': []}\ndef kept(): return log\nother = kept()", "log['loss'].append(step)"),
        ("other = {}\nlog = other", "log.setdefault('loss', []).append(step)"),
    ],
    ids=["another name", "setdefault"],
)
def test_positions_in_a_list_that_is_filled_under_another_name(before: str, line: str) -> None:
    source = in_loop(f"step += 1\n{line}", f"step = 0\n{before}") + "print(other['loss'][50])\n"
    assert f"other['loss'][{HALF.format(50)}]" in converted(source).code


def test_positions_in_a_list_that_is_cut_where_it_grows() -> None:
    lines = "norms.append(float(loss))\nif len(norms) > 30:\n    norms = norms[-30:]"
    code = converted(in_loop(lines, "norms = []")).code
    assert f"norms = norms[-{HALF.format(30)}:]" in code
    assert "if len(norms) * hvd.size() > 30:" in code


def test_entries_of_a_dictionary_that_are_set_under_steps() -> None:
    source = in_loop("step += 1\nlog[step] = float(loss)", "step, log = 0, {}")
    code = converted(source + "print(log[40], [v for k, v in log.items() if k < 50])\n").code
    assert f"log[{HALF.format(40)}], [v for k, v in log.items() if k * hvd.size() < 50]" in code


@pytest.mark.parametrize(
    ("marks", "scaled"),
    [
        ("{30, 60}", "{a, b}"),
        ("frozenset([30, 60])", "frozenset([a, b])"),
        ("{30 * k for k in range(1, 3)}", "{max(1, 30 * k // hvd.size()) for k in range(1, 3)}"),
        (
            "{30 * k: 0.1 for k in range(1, 3)}",
            "{max(1, 30 * k // hvd.size()): 0.1 for k in range(1, 3)}",
        ),
    ],
)
def test_steps_that_are_in_a_set(marks: str, scaled: str) -> None:
    source = in_loop("step += 1\nif step in marks:\n    print(step)", f"step, marks = 0, {marks}")
    scaled = scaled.replace("a,", f"{HALF.format(30)},").replace(" b", f" {HALF.format(60)}")
    assert f"step, marks = 0, {scaled}" in converted(source).code


@pytest.mark.parametrize(
    ("before", "lines", "after", "told"),
    [
        (
            "from library import marks",
            "if step in marks():\n    print(step)",
            "",
            "`step in marks()` is given a number of steps",
        ),
        (
            "marks = [int(each) for each in '30,60'.split(',')]",
            "if step in marks:\n    print(step)",
            "",
            "`each` is taken to scale with the number of ranks by itself",
        ),
        (
            "curve = []",
            "curve.append(float(loss))",
            "print(np.convolve(curve, np.ones(20) / 20))",
            "`np.convolve(curve, np.ones(20) / 20)` combines a sequence",
        ),
        (
            "from library import frame\ncurve = []",
            "curve.append(float(loss))",
            "window = 20\nprint(frame(curve).rolling(window))",
            "`frame(curve).rolling(window)` combines a sequence",
        ),
        (
            "curve = []",
            "curve.append(float(loss))",
            "print(all(curve[-k] > 1 for k in range(1, 6)))",
            "`curve[-k]` combines a sequence",
        ),
        (
            "from library import frame\nrows = []",
            "rows.append({'step': step})",
            "print(frame(rows).step > 30)",
            "nothing tells whether `frame(rows).step` counts steps",
        ),
        (
            "rate = 0.1",
            "match step:\n    case 30 | 60:\n        rate *= 0.9",
            "",
            "`match step` compares a number of steps",
        ),
        ("scale = 512.0", "if loss > 9:\n    scale *= 0.5", "", "`0.5` is applied at some steps"),
    ],
    ids=["in", "parsed", "window", "method", "from the end", "column", "match", "event"],
)
def test_numbers_of_steps_that_are_reported(before: str, lines: str, after: str, told: str) -> None:
    source = in_loop(f"step += 1\n{lines}", f"step = 0\n{before}") + after
    found = converted(source)
    assert [message for message in findings(found) if message.startswith(told)]
    assert "0.5 **" not in found.code
    assert "0.9 **" not in found.code


def test_a_number_that_is_halved_in_each_step_after_a_wait() -> None:
    lines = "step += 1\nif step >= 40 and step < 50:\n    rate *= 0.5\no.learning_rate = rate"
    found = converted(in_loop(lines, "step, rate = 0, 0.1"))
    assert "rate *= 0.5 ** hvd.size()" in found.code
    assert findings(found) == []


def test_a_number_that_is_halved_where_an_entry_starts_over() -> None:
    lines = "at['bad'] += 1\nif at['bad'] > 8:\n    rate *= 0.5\n    at['bad'] = 0"
    found = converted(in_loop(lines, "rate, at = 0.1, {'bad': 0}"))
    assert "rate *= 0.5\n" in found.code
    assert findings(found) == []


def test_batches_that_are_accumulated_before_an_update() -> None:
    source = f"""{HEAD}ACCUM, micro, done = 4, 0, 0
for a, b in tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(a) - b) ** 2) / ACCUM
    total = [g + h for g, h in zip(total, tape.gradient(loss, m.trainable_variables))]
    micro += 1
    if micro % ACCUM:
        continue
    o.apply_gradients(zip(total, m.trainable_variables))
    done += 1
    if done == 60:
        break
"""
    code = converted(source).code
    assert "if micro % ACCUM:" in code
    assert "ACCUM, micro, done = 4, 0, 0" in code
    assert f"if done == {HALF.format(60)}:" in code


@pytest.mark.parametrize(
    "count", ["tf.data.experimental.cardinality(ds).numpy()", "ds.cardinality().numpy()"]
)
def test_a_schedule_of_as_many_steps_as_there_are_batches(count: str) -> None:
    source = f"""{HEAD}ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
total = 4 * {count}
rate = tf.keras.optimizers.schedules.CosineDecay(0.1, total)
m.compile(tf.keras.optimizers.Adam(rate), "mse")
m.fit(ds, epochs=4)
"""
    assert "CosineDecay(0.1, total * hvd.size())" in converted(source).code


def test_settings_that_keras_takes_as_numbers_of_steps_are_whole() -> None:
    source = f"""{HEAD}import yaml
cfg = yaml.safe_load(open("settings.yaml"))
saver = tf.keras.callbacks.ModelCheckpoint("kept", save_freq=cfg["save"])
m.compile(o, "mse")
m.fit(x, y, batch_size=8, callbacks=[saver])
"""
    assert 'save_freq=max(1, cfg["save"] // hvd.size())' in converted(source).code


def test_steps_are_multiplied_before_they_are_rounded() -> None:
    source = f"""{HEAD}import yaml
cfg = yaml.safe_load(open("settings.yaml"))
rate = tf.keras.optimizers.schedules.ExponentialDecay(0.1, cfg["decay"], 0.9)
m.compile(tf.keras.optimizers.Adam(rate), "mse")
steps = len(x) // 8
m.fit(x, y, batch_size=8, steps_per_epoch=steps)
print(0.1 * 0.9 ** (steps // cfg["decay"]))
"""
    assert '0.9 ** (steps * hvd.size() // cfg["decay"])' in converted(source).code


def test_loops_that_count_down() -> None:
    source = f"{HEAD}left, data = 100, iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8))\n"
    source += f"def train(a, b):\n{STEP}while left:\n    train(*next(data))\n    left -= 1\n"
    assert f"left, data = {HALF.format(100)}," in converted(source).code


def test_a_loop_in_which_a_function_trains_until_something_ends_it() -> None:
    source = f"{HEAD}data = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8))\n"
    source += f"todo = list(range(100))\ndef train(a, b):\n{STEP}while todo:\n    train(*next(data))\n    todo.pop()\n"
    told = [m for m in findings(converted(source)) if "how many steps this loop takes" in m]
    assert told


@pytest.mark.parametrize(
    ("before", "value", "scaled"),
    [
        (
            "def rates():\n    for k in range(50):\n        yield 0.1 * k / 50\n    while True:\n        yield 0.1",
            "next(made)",
            f"    for k in range({HALF.format(50)}):\n        yield 0.1 * k * hvd.size() / 50",
        ),
        (
            "def rates(n=50):\n    k = 0\n    while True:\n        yield 0.1 * min(1, k / n)\n        k += 1",
            "next(made)",
            f"def rates(n={HALF.format(50)}):",
        ),
        (
            "import itertools\ndef rates(): return itertools.count(1)",
            "0.1 * 0.9 ** (next(made) // 30)",
            "0.9 ** (next(made) * hvd.size() // 30)",
        ),
    ],
    ids=["loop", "counter", "count"],
)
def test_what_next_draws_once_a_step(before: str, value: str, scaled: str) -> None:
    source = in_loop(f"o.learning_rate = {value}", f"{before}\nmade = rates()")
    assert scaled in converted(source).code


@pytest.mark.parametrize(
    ("lines", "stays"),
    [
        ("if k < len(marks) and step >= marks[k]:\n    k += 1", "if k < len(marks) and"),
        ("while k < len(marks) and step >= marks[k]:\n    k += 1", "while k < len(marks) and"),
        ("if marks and step >= marks[0]:\n    marks.pop(0)", "if marks and step >= marks[0]:"),
    ],
    ids=["if", "while", "pop"],
)
def test_bounds_that_are_gone_through(lines: str, stays: str) -> None:
    before = "step, k, marks = 0, 0, [30, 60]"
    code = converted(in_loop(f"step += 1\n{lines}", before)).code
    assert f"marks = 0, 0, [{HALF.format(30)}, {HALF.format(60)}]" in code
    assert stays in code


def test_a_warm_up_that_counts_only_its_own_steps() -> None:
    lines = (
        "if warm.n < warm.last:\n    warm.n += 1\n    o.learning_rate = 0.1 * warm.n / warm.last"
    )
    before = "class Warm:\n    def __init__(self, last):\n        self.n, self.last = 0, last\nwarm = Warm(50)"
    assert f"warm = Warm({HALF.format(50)})" in converted(in_loop(lines, before)).code


def test_the_size_of_joined_batches_stays_beside_a_small_number() -> None:
    """A divisor of rows, with a number that keeps it above 0, made the batch size a number of steps."""
    source = f"""{HEAD}import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int)
args = parser.parse_args()
ds = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(args.size)
for a, b in ds.take(100):
{STEP}    print(tf.reduce_sum(a) / (tf.reduce_sum(b) + 1e-6))
"""
    assert ".batch(args.size)" in converted(source).code


def test_a_pool_that_is_filled_by_rows_of_zipped_data() -> None:
    source = f"""{HEAD}one, other = (tf.data.Dataset.from_tensor_slices(each).repeat().batch(8) for each in (x, y))
one = tf.data.Dataset.from_tensor_slices(x).repeat().batch(8)
other = tf.data.Dataset.from_tensor_slices(y).repeat().batch(8)
pool, LIMIT, step = [], 50, 0
for a, b in tf.data.Dataset.zip((one, other)):
{STEP}    for row in b:
        if len(pool) < LIMIT:
            pool.append(row)
    step += 1
    if step == 100:
        break
"""
    assert "pool, LIMIT, step = [], 50, 0" in converted(source).code


def test_a_factor_that_divides_a_rate_is_reported_only_where_it_stays() -> None:
    found = converted(in_loop("if loss > 1:\n    o.learning_rate.assign(o.learning_rate / 1.5)"))
    assert "o.learning_rate / (1.5 ** hvd.size())" in found.code
    assert findings(found) == []


def test_an_object_that_is_called_with_steps() -> None:
    before = "class Rate:\n    def __init__(self, n):\n        self.n = n\n"
    before += "    def __call__(self, k):\n        return 0.1 * min(1.0, k / self.n)\nrate, k = Rate(50), 0"
    found = converted(in_loop("k += 1\no.learning_rate = rate(k)", before))
    assert f"rate, k = Rate({HALF.format(50)}), 0" in found.code
    assert findings(found) == []


def test_steps_that_are_numbered_from_one() -> None:
    source = f"{HEAD}data = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8))\n"
    source += f"for k in range(1, 121):\n    a, b = next(data)\n{STEP}"
    assert "for k in range(1, max(1, (121 - 1) // hvd.size()) + 1):" in converted(source).code


PHASES = """def rate(n, warm=20, hold=50):
    if n < warm:
        return 0.1 * n / warm
    n -= warm
    if n < hold:
        return 0.1
    n -= hold
    return 0.1 * 0.99 ** n
step = 0"""


def test_phases_that_a_function_subtracts_from_the_step_that_it_is_given() -> None:
    code = converted(in_loop("step += 1\no.learning_rate = rate(step)", PHASES)).code
    assert f"def rate(n, warm={HALF.format(20)}, hold={HALF.format(50)}):" in code
    assert "return 0.1 * 0.99 ** (n * hvd.size())" in code


@pytest.mark.parametrize(
    ("before", "passed"),
    [
        (
            "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--size', type=int)\n"
            "options = parser.parse_args()",
            "**vars(options)",
        ),
        ("import json\nsettings = json.load(open('settings.json'))", "**settings"),
    ],
    ids=["options", "file"],
)
def test_options_that_are_passed_by_two_stars(before: str, passed: str) -> None:
    """They replace the defaults of parameters, so these are multiplied where they are read."""
    body = f"for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(size):\n{STEP}"
    body = "".join(f"    {line}\n" for line in body.splitlines())
    source = f"{HEAD}{before}\ndef main(size=8):\n{body}main({passed})\n"
    code = converted(source).code
    assert "def main(size=8):" in code
    assert ".batch(size * hvd.size())" in code


def test_settings_that_arguments_override() -> None:
    source = f"""{HEAD}import sys
conf = {{"size": 8, "steps": 100}}
for each in sys.argv[1:]:
    key, value = each.split("=")
    conf[key] = int(value)
data = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(conf["size"]))
for k in range(conf["steps"]):
    a, b = next(data)
{STEP}"""
    code = converted(source).code
    assert 'conf = {"size": 8, "steps": 100}' in code
    assert '.batch(conf["size"] * hvd.size())' in code
    assert 'range(max(1, conf["steps"] // hvd.size()))' in code


def test_a_queue_that_takes_what_another_one_drops() -> None:
    lines = "if len(recent) == W:\n    old.append(recent[0])\nrecent.append(float(loss))"
    before = "from collections import deque\nW = 30\nrecent, old = deque(maxlen=W), deque(maxlen=W)"
    code = converted(in_loop(lines, before)).code
    assert f"W = {HALF.format(30)}" in code
    assert "recent, old = deque(maxlen=W), deque(maxlen=W)" in code


@pytest.mark.parametrize(
    ("lines", "before", "scaled"),
    [
        (
            "if step - last >= 50:\n    last = step\n    rate *= 0.9",
            "last, rate = 0, 0.1",
            "if (step - last) * hvd.size() >= 50:",
        ),
        (
            "if step - start > length:\n    start += length\n    length *= 3",
            "start, length = 0, 30",
            f"start, length = 0, {HALF.format(30)}",
        ),
    ],
)
def test_what_happens_once_in_so_many_steps(lines: str, before: str, scaled: str) -> None:
    found = converted(in_loop(f"step += 1\n{lines}", f"step = 0\n{before}"))
    assert scaled in found.code
    assert "** hvd.size()" not in found.code


def test_methods_that_others_call_and_that_compare_steps() -> None:
    source = in_loop("run(hooks)", "from library import run\nHOOK\nhooks = [Hook.before]")
    hook = (
        "class Hook:\n    def before(self):\n        if self.loop.step < 50:\n            print(1)"
    )
    found = converted(source.replace("HOOK", hook))
    assert [m for m in findings(found) if m.startswith("nothing tells how often `before` runs")]


@pytest.mark.parametrize(
    "line",
    [
        "curve += [float(loss)]",
        "curve = curve + [float(loss)]",
        "curve.extend([float(loss)])",
        "curve = (curve + [float(loss)])[-900:]",
    ],
)
def test_positions_in_a_list_that_grows_in_another_way(line: str) -> None:
    code = converted(in_loop(line, "curve = []") + "print(curve[:20], curve.argmin() + 40)\n").code
    assert f"curve[:{HALF.format(20)}], curve.argmin() + {HALF.format(40)}" in code
    if "900" in line:
        assert f"[-{HALF.format(900)}:]" in code


def test_a_loop_over_rows_that_another_bound_follows() -> None:
    source = f"""{HEAD}data = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8))
seen, mark = 0, 0
while seen < 3.2 * 1000:
    a, b = next(data)
{STEP}    seen += 8
    if seen >= mark + 0.8 * 1000:
        mark = seen
"""
    code = converted(source).code
    assert "while seen < 3.2 * 1000:" in code
    assert "if seen >= mark + 0.8 * 1000:" in code


def test_seconds_are_not_reported() -> None:
    found = converted(
        in_loop("if time.time() - start > 300:\n    break", "import time\nstart = time.time()")
    )
    assert findings(found) == []


def test_a_sum_that_is_set_beside_a_count() -> None:
    lines = (
        "total, count = total + float(loss), count + 1\nif count == 20:\n    total, count = 0.0, 0"
    )
    code = converted(in_loop(lines, "total, count = 0.0, 0")).code
    assert "total, count = total + float(loss), count + 1" in code
    assert f"if count == {HALF.format(20)}:" in code


def test_batches_that_are_numbered_from_where_training_goes_on() -> None:
    source = f"""{HEAD}from library import last
STEPS, start = 100, last()
ds = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8)
for k, (a, b) in zip(range(start + 1, STEPS + 1), ds):
{STEP}"""
    found = converted(source)
    assert ".batch(8 * hvd.size())" in found.code
    assert f"STEPS, start = {HALF.format(100)}, last()" in found.code
    assert [m for m in findings(found) if m.startswith("`last()` is taken to scale")]


def test_a_value_that_a_layer_computes_anew_before_it_is_multiplied() -> None:
    source = f"""import tensorflow as tf
class Embed(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.inner = tf.keras.layers.Dense(4)
    def call(self, x):
        x = self.inner(x)
        x *= 0.7
        return x
m = tf.keras.Sequential([Embed(), tf.keras.layers.Dense(1)])
o = tf.keras.optimizers.SGD(0.1)
{BATCHES}{STEP}"""
    found = converted(source)
    assert "x *= 0.7\n" in found.code
    assert findings(found) == []
