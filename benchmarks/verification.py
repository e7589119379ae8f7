"""How long a verification takes beside the training that it judges: `jupyter hvd verify` with and without `--against`.

    python benchmarks/verification.py [--steps 20] [--repeats 3]

Each program trains for one step and for `--steps` more, so that the difference is free of start-up. What one process takes alone,
`verify --batch global` and `verify --against` on 2 ranks are timed in turn, so that what else the machine does meets them alike.
The ranks share this machine's cores. Printed are medians in seconds and their ratios.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

BEGIN = """\
import keras
import numpy as np
import tensorflow as tf
{imports}
keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
"""
LOOP = """\
x = rng.normal(size=({batch}, {width})).astype("float32")
y = (x @ rng.normal(size=({width}, 1)) / {width} ** 0.5).astype("float32")
hidden = [keras.layers.Dense({units}, "tanh") for _ in range(3)]
model = keras.Sequential([keras.Input(({width},)), *hidden, keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(0.001)
loss_of = keras.losses.MeanSquaredError()
variables_of = lambda: [*model.variables, *optimizer.variables]  # noqa: E731


{compiled}
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    {wrapped}
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range({steps}):
    order = rng.permutation({batch})
    loss = train_step(tf.constant(x[order]{shard}), tf.constant(y[order]{shard}))
    {broadcast}
print(float(loss))
"""
FIT = """\
x = rng.normal(size=({steps} * {batch}, {width}, {width}, 3)).astype("float32")
y = rng.integers(0, 10, {steps} * {batch})
model = keras.Sequential([
    keras.Input(({width}, {width}, 3)),
    keras.layers.Conv2D({units}, 3, activation="relu"),
    keras.layers.Conv2D({units}, 3, activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(10),
])
model.compile(keras.optimizers.SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size={batch}, epochs=1, shuffle=False, verbose=0)
"""
EAGER = {"compiled": "", "batch": 1024, "width": 256, "units": 1024}
COMPILED = {**EAGER, "compiled": "@tf.function"}
IMAGES = {"batch": 128, "width": 32, "units": 32}
#: Each a text and what it is filled with.
PROGRAMS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "eager loop": (LOOP, EAGER),
    "compiled loop": (LOOP, COMPILED),
    "fit, images": (FIT, IMAGES),
}
ALONE = {"imports": "", "wrapped": "", "shard": "", "broadcast": ""}
BY_HAND = {
    "imports": "import horovod.tensorflow as hvd\nhvd.init()",
    "wrapped": "tape = hvd.DistributedGradientTape(tape)",
    "shard": "[hvd.rank()::hvd.size()]",
    "broadcast": "if step == 0:\n        hvd.broadcast_variables([v.value for v in variables_of()], root_rank=0)",
}


def text_of(name: str, steps: int, parts: Mapping[str, str]) -> str:
    """A program that trains for so many steps."""
    body, filled = PROGRAMS[name]
    return (BEGIN + body).format(**{**filled, **parts, "steps": steps})


def seconds_of(command: list[str], folder: Path) -> float:
    """Raises RuntimeError where the command fails."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{command} ends with {done.returncode}: {done.stdout[-600:]}{done.stderr[-600:]}"
        )
    return time.perf_counter() - began


def commands_of(name: str, steps: int, folder: Path) -> dict[str, list[str]]:
    """The commands to time, their programs written into the folder."""
    file = folder / f"train_{steps}.py"
    file.write_text(text_of(name, steps, ALONE))
    verify = [sys.executable, "-m", "jupyter_hvd", "verify", file.name]
    commands = {
        "training": [sys.executable, file.name],
        "verify --batch global": [*verify, "--batch", "global", "-n", "2"],
    }
    if PROGRAMS[name][0] is LOOP:
        other = folder / f"train_{steps}_hvd.py"
        other.write_text(text_of(name, steps, BY_HAND))
        commands["verify --against"] = [*verify, "--against", other.name, "-n", "2"]
    return commands


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--programs", nargs="*", choices=[*PROGRAMS], default=[*PROGRAMS])
    given = parser.parse_args()
    print("| program | | one step | more steps | beside the training |\n|---|---|---|---|---|")
    for name in given.programs:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            short, long = (commands_of(name, steps, folder) for steps in (1, 1 + given.steps))
            times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in short}
            for _ in range(given.repeats):
                for kind in short:
                    first = seconds_of(short[kind], folder)
                    times[kind].append((first, seconds_of(long[kind], folder) - first))
        medians = {
            k: [statistics.median(each) for each in zip(*t, strict=True)] for k, t in times.items()
        }
        for kind, (first, more) in medians.items():
            ratio = more / medians["training"][1]
            print(f"| {name} | {kind} | {first:.1f} s | {more:.2f} s | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
