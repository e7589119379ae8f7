"""Programs whose numbers have units, each with the conversion's text that is right, and one that is wrong.

A case has the program's training, the edit of its conversion that makes it right where the converter misses something, and the
edit that plants a fault. A line that ends in a comment `# here` is the one that verification must name.
"""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_hvd import Options, convert_source

START = """\
import collections

import numpy as np
import tensorflow as tf

BATCH = 4
rng = np.random.default_rng(0)
x = rng.normal(size=(192, 3)).astype("float32")
y = x[:, :1]
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.01)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)


def train_step(inputs, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(inputs) - targets) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return float(loss)


"""
Edit = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Case:
    """A program, and edits of what the converter makes of it.

    Attributes:
        body: what follows `START`, with `# here` at the line of the fault. right: edits that make the conversion right where
            the converter misses something. wrong: edits that plant a fault; none where the converter makes it, or there is none.
    """

    body: str
    right: Edit = ()
    wrong: Edit = ()

    @property
    def source(self) -> str:
        return f"{START}{self.body}".replace("  # here", "")

    @property
    def line(self) -> str:
        """The line of the fault, as verification names it."""
        lines = f"{START}{self.body}".splitlines()
        number = next(n for n, line in enumerate(lines, 1) if line.endswith("# here"))
        return f"program.py, line {number}"

    def convert(self, edits: Edit) -> str:
        """The conversion with edits.

        Raises:
            ValueError: an edit finds nothing to replace.
        """
        conversion = convert_source(self.source, options=Options())
        if conversion.status != "converted":
            raise ValueError(conversion.diagnostics)
        code = conversion.code
        for old, new in edits:
            if old not in code:
                raise ValueError(f"{old!r} is not in\n{code}")
            code = code.replace(old, new)
        return code


FAULTS = {
    "a factor in every step after a threshold": Case(
        """\
n, strength = 0, 1.0
for epoch in range(2):
    for inputs, targets in data:
        train_step(inputs, targets)
        n += 1
        if n >= 40:
            strength *= 0.9  # here
print(strength)
""",
        wrong=(("0.9 ** hvd.size()", "0.9"),),
    ),
    "a threshold of a counter in an object": Case(
        """\
class Progress:
    done = 0

    def is_late(self):
        return self.done > 30  # here


progress, late = Progress(), 0
for epoch in range(2):
    for inputs, targets in data:
        if progress.is_late():
            late = epoch
        train_step(inputs, targets)
        progress.done += 1
print(late)
""",
        wrong=(("self.done * hvd.size() > 30", "self.done > 30"),),
    ),
    "the first entries of a list of losses": Case(
        """\
curve = []
for epoch in range(2):
    for inputs, targets in data:
        curve.append(train_step(inputs, targets))
print(np.mean(curve[:10]))  # here
""",
        wrong=(("max(1, 10 // hvd.size())", "10"),),
    ),
    "the last losses at each epoch": Case(
        """\
losses = []
for epoch in range(4):
    for inputs, targets in data:
        losses.append(train_step(inputs, targets))
    print(np.mean(losses[-24:]))  # here
""",
        wrong=(("-max(1, 24 // hvd.size())", "-24"),),
    ),
    "milestones in a set": Case(
        """\
milestones, step, saved = {24, 48, 72}, 0, []
for epoch in range(2):
    for inputs, targets in data:
        loss = train_step(inputs, targets)
        step += 1
        if step in milestones:  # here
            saved.append(loss)
print(len(saved))
""",
        wrong=tuple((f"max(1, {n} // hvd.size())", f"{n}") for n in (24, 48, 72)),
    ),
    "a ramp by steps": Case(
        """\
ramp, weights = iter(range(1000)), []
for epoch in range(2):
    for inputs, targets in data:
        weight = min(1.0, next(ramp) / 64)  # here
        weights.append(weight * train_step(inputs, targets))
print(len(weights) > 0)
""",
        right=(("next(ramp) / 64", "next(ramp) * hvd.size() / 64"),),
    ),
    "a period of optimizer.iterations": Case(
        """\
def is_due():
    return int(optimizer.iterations) % 24 == 0  # here


for epoch in range(2):
    for inputs, targets in data:
        loss = train_step(inputs, targets)
        if is_due():
            print(loss)
""",
        wrong=(("max(1, 24 // hvd.size())", "24"),),
    ),
    "a window that is cut": Case(
        """\
recent = []
for epoch in range(2):
    for inputs, targets in data:
        recent.append(train_step(inputs, targets))
        while len(recent) > 20:  # here
            del recent[0]
print(np.mean(recent))
""",
        wrong=(("len(recent) * hvd.size() > 20", "len(recent) > 20"),),
    ),
    "stages of a staircase": Case(
        """\
step, rates = 0, (1.0, 0.5, 0.25, 0.1, 0.1, 0.1, 0.1)
total = 0.0
for epoch in range(2):
    for inputs, targets in data:
        total += rates[step // 16]  # here
        train_step(inputs, targets)
        step += 1
print(total > 0)
""",
        wrong=(("min(step * hvd.size(), len(rates) * 16 - 1) // 16", "step // 16 * hvd.size()"),),
    ),
    "a callback that counts batches": Case(
        """\
class Stopper(tf.keras.callbacks.Callback):
    def __init__(self, limit):
        super().__init__()
        self.limit, self.batches = limit, 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        if self.batches >= self.limit:  # here
            self.model.stop_training = True


model.compile(optimizer, "mse")
model.fit(x, y, batch_size=BATCH, epochs=3, verbose=0, callbacks=[Stopper(100)])
""",
        wrong=(("max(1, 100 // hvd.size())", "100"),),
    ),
    "a period of epochs that is divided": Case(
        """\
for epoch in range(6):
    for inputs, targets in data.take(12):
        loss = train_step(inputs, targets)
    if epoch % 4 == 3:  # here
        print(loss)
""",
        wrong=(("epoch % 4", "epoch % (4 // hvd.size())"),),
    ),
    "a floor of a rate": Case(
        """\
rate = 0.01
for epoch in range(8):
    for inputs, targets in data:
        train_step(inputs, targets)
    rate = max(rate * 0.85, 0.004)  # here
    optimizer.learning_rate.assign(rate)
print(rate)
""",
        wrong=(
            ("jhvd.scale_rate(tf.keras.optimizers.SGD(0.01))", "tf.keras.optimizers.SGD(0.01)"),
            ("rate = 0.01\n", "rate = 0.01 * hvd.size()\n"),
        ),
    ),
    "rows of an evaluation": Case(
        """\
test = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
for epoch in range(3):
    for inputs, targets in data:
        train_step(inputs, targets)
    errors = []
    for inputs, targets in test.take(6):
        errors.append(float(tf.reduce_mean((model(inputs) - targets) ** 2)))  # here
    print(np.mean(errors))
""",
        wrong=(
            (
                "test = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)",
                "test = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH * hvd.size())",
            ),
        ),
    ),
    "a countdown": Case(
        """\
left, early = 90, []
for epoch in range(2):
    for inputs, targets in data:
        early.append(train_step(inputs, targets))
        if left == 0:  # here
            early.clear()
        left = max(0, left - 1)
print(len(early) > 0)
""",
        wrong=(("left, early = max(1, 90 // hvd.size())", "left, early = 90"),),
    ),
    "a number of gradients for each update that is divided": Case(
        """\
steps, total = 0, [tf.zeros_like(v) for v in model.trainable_variables]
for epoch in range(2):
    for inputs, targets in data:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs) - targets) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        total = [a + g for a, g in zip(total, gradients)]
        steps += 1
        if steps % 4 == 0:  # here
            optimizer.apply_gradients(zip([a / 4 for a in total], model.trainable_variables))
            total = [tf.zeros_like(v) for v in model.trainable_variables]
""",
        wrong=(("steps % 4", "steps % max(1, 4 // hvd.size())"),),
    ),
}
#: Programs that are converted right, whose numbers are spelled much like these.
RIGHT = {
    "a patience of evaluations": Case(
        """\
best, wait = 1e9, 0
for epoch in range(12):
    for inputs, targets in data.take(12):
        train_step(inputs, targets)
    error = float(tf.reduce_mean((model(x[:48]) - y[:48]) ** 2))
    if error < best * 0.9:
        best, wait = error, 0
    else:
        wait += 1
    if wait >= 3:
        break
print(wait)
"""
    ),
    "numbers that are drawn in each step": Case(
        """\
skipped = 0
for epoch in range(2):
    for inputs, targets in data:
        if rng.random() < 0.1 or rng.integers(10) == 3:
            skipped += 1
        train_step(inputs, targets)
"""
    ),
    "rows that were seen": Case(
        """\
seen, half = 0, 0
for epoch in range(2):
    for inputs, targets in data:
        train_step(inputs, targets)
        seen += len(inputs)
        if seen <= 192:
            half = epoch
print(half)
"""
    ),
    "loops over few rows and columns": Case(
        """\
names, lines = ["a", "b", "c"], []
for row in range(len(x)):
    if row % 10 == 0 and len(lines) < 5:
        lines.append(names[row % 3])
for epoch in range(2):
    for inputs, targets in data:
        train_step(inputs, targets)
        for column in range(3):
            if column > 1:
                lines[0] = names[column - 1]
print(lines[0], lines[-2:])
"""
    ),
    "curves of epochs": Case(
        """\
curve, rows = [], 0
for epoch in range(9):
    total, count = 0.0, 0
    for inputs, targets in data.take(12):
        total += train_step(inputs, targets) * len(inputs)
        count += len(inputs)
    curve.append(total / count)
    if epoch >= 3 and min(curve[-4:]) > 1e6:
        break
    if epoch % 2 == 0:
        rows = max(rows, count)
print(curve[:3], rows)
"""
    ),
    "two networks that alternate": Case(
        """\
other = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
second = tf.keras.optimizers.SGD(0.01)
count = 0
for epoch in range(2):
    for inputs, targets in data:
        train_step(inputs, targets)
        count += 1
        if count % 3 == 0:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((other(inputs) - targets) ** 2)
            gradients = tape.gradient(loss, other.trainable_variables)
            second.apply_gradients(zip(gradients, other.trainable_variables))
"""
    ),
}
