"""A step of a converted program against a step of the same program written for Horovod by hand, on two ranks.

    python benchmarks/step_time.py [--pairs 5]

Both are run in turn; each prints the median of its own steps. The medians over the pairs and of their ratio are printed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

from jupyter_hvd import convert_source
from jupyter_hvd.launchers.job import Program, run_job
from jupyter_hvd.launchers.reaper import private_folder

HEAD = """\
import time
import numpy as np
import tensorflow as tf
{imports}
x = np.random.RandomState(0).normal(size=(8192, 256)).astype("float32")
y = (x[:, :1] > 0).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)){shard}.shuffle(8192).batch(64)
model = tf.keras.Sequential([tf.keras.layers.Dense(512, activation="relu"), tf.keras.layers.Dense(1)])
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam(1e-3{scale})


@tf.function
def step(bx, by{argument}):
    with tf.GradientTape() as tape:
        loss = bce(by, model(bx, training=True))
{wrap}    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
{broadcast}    return loss


seconds = []
for epoch in range(3):
    for number, (bx, by) in enumerate(dataset):
        started = time.perf_counter()
        step(bx, by{first})
        seconds.append(time.perf_counter() - started)
print("median", sorted(seconds[20:])[len(seconds[20:]) // 2])
"""
ORIGINAL = HEAD.format(imports="", shard="", scale="", argument="", wrap="", broadcast="", first="")
# After the example of Horovod's own documentation.
BY_HAND = HEAD.format(
    imports="import horovod.tensorflow as hvd\n\nhvd.init()\n",
    shard=".shard(hvd.size(), hvd.rank())",
    scale=" * hvd.size()",
    argument=", first_batch",
    wrap="    tape = hvd.DistributedGradientTape(tape)\n",
    broadcast=(
        "    if first_batch:\n"
        "        hvd.broadcast_variables(model.variables, root_rank=0)\n"
        "        hvd.broadcast_variables(opt.variables(), root_rank=0)\n"
    ),
    first=", epoch == 0 and number == 0",
)


def step_seconds(path: Path) -> float:
    printed: list[str] = []
    with private_folder() as folder:
        result = run_job(
            Program(path, path),
            2,
            folder,
            listener=lambda rank, _, line: printed.append(line) if rank == 0 else None,
        )
    assert result.code == 0, result.report
    return float(next(line for line in printed if line.startswith("median")).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=5)
    pairs = parser.parse_args().pairs
    conversion = convert_source(ORIGINAL)
    assert conversion.status == "converted", conversion.diagnostics
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = Path(name) / "ours.py", Path(name) / "by_hand.py"
        ours.write_text(conversion.code)
        theirs.write_text(BY_HAND)
        measured = [(step_seconds(ours), step_seconds(theirs)) for _ in range(pairs)]
    print(
        f"converted {median(a for a, _ in measured) * 1e3:6.2f} ms a step, median of {pairs} runs on 2 ranks"
    )
    print(f"by hand   {median(b for _, b in measured) * 1e3:6.2f} ms")
    print(f"ratio     {median(a / b for a, b in measured):6.3f}")


if __name__ == "__main__":
    main()
