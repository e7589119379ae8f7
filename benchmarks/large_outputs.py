"""What large outputs cost with `--batch global`: outputs gathered, or losses and metrics shared as well.

`python benchmarks/large_outputs.py [--ranks 2]` prints for a vocabulary of 50,000 and for masks of images the time of a
step, the CPU time of rank 0 for it, and the peak of its memory, in one process and on ranks.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """\
import os, resource, time
import numpy as np
import keras

if os.environ.get("GATHERED") and "HOROVOD_RANK" in os.environ:
    from jupyter_hvd.runtime.sharing import own_rows
    own_rows.LARGE_ROW = float("inf")
keras.utils.set_random_seed(1)
layers = keras.layers
if os.environ["CASE"] == "vocabulary":
    x = np.random.randint(0, 1000, (32, 8))
    y = np.random.randint(0, 50_000, (32, 8))
    model = [keras.Input((8,), dtype="int32"), layers.Embedding(1000, 64), layers.Dense(256, "relu"), layers.Dense(50_000)]
else:
    x = np.random.rand(16, 128, 128, 3).astype("float32")
    y = np.random.randint(0, 21, (16, 128, 128))
    hidden = [layers.Conv2D(16, 3, padding="same", activation="relu") for _ in range(3)]
    model = [keras.Input((128, 128, 3)), *hidden, layers.Conv2D(21, 1)]
model = keras.Sequential(model)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"])
step = lambda: model.train_on_batch(x, y)
for _ in range(3):
    step()
def used():
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return time.monotonic(), spent.ru_utime + spent.ru_stime
before, losses = used(), [float(step()[0]) for _ in range(STEPS)]
wall, cpu = (1000 * (b - a) / STEPS for a, b in zip(before, used()))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"RESULT {wall:7.0f} ms {cpu:7.0f} ms CPU {peak:7.0f} MB   loss {losses[-1]:.6f}")
"""


def measure(folder: Path, case: str, command: list[str], **variables: str) -> str:
    program = folder / "program.py"
    environment = {
        **os.environ,
        "CASE": case,
        "OMP_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "2",
        **variables,
    }
    done = subprocess.run(
        [*command, str(program)], env=environment, capture_output=True, text=True, cwd=folder
    )
    found = [line for line in done.stdout.splitlines() if "RESULT" in line]
    return found[0].partition("RESULT")[2] if found else done.stderr[-2000:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    given = parser.parse_args()
    ranks = [sys.executable, "-m", "jupyter_hvd", "run", "--batch", "global", "-n", str(given.ranks), "--no-log"]  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM.replace("STEPS", str(given.steps)))
        for case in ("vocabulary", "masks"):
            runs = {
                "one process": measure(folder, case, [sys.executable]),
                f"{given.ranks} ranks, outputs gathered": measure(
                    folder, case, ranks, GATHERED="1"
                ),
                f"{given.ranks} ranks, losses shared": measure(folder, case, ranks),
            }
            for what, figures in runs.items():
                print(f"{case:12} {what:28} {figures}", flush=True)


if __name__ == "__main__":
    main()
