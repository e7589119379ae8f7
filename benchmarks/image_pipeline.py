"""What an image pipeline costs with `--batch global`: all rows decoded on every rank, or own rows on each.

`python benchmarks/image_pipeline.py [--ranks 2] [--steps 20]` writes a folder of JPEG files, trains a small CNN on them, decoded
and resized, and prints the time of a step, the CPU time of each rank for it, and the part of the step that the maps take in one
process. Each process computes with one thread, so that a process and a rank compare where each has a core.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"
)
PROGRAM = """\
import os, resource, time
import numpy as np
import tensorflow as tf

if os.environ.get("ALL_ROWS") and "HOROVOD_RANK" in os.environ:
    from jupyter_hvd.runtime.sharing import sharded_reads
    sharded_reads.SHORT = float("inf")
tf.keras.utils.set_random_seed(1)
rank, paths = os.environ.get("HOROVOD_RANK", "0"), sorted(tf.io.gfile.glob(os.environ["IMAGES"] + "/*.jpg"))
labels = np.arange(len(paths)) % 10

def decode(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (SIZE, SIZE), antialias=True) / 255.0, label

data = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths), seed=1, reshuffle_each_iteration=False).repeat()
data = data.map(decode, num_parallel_calls=1).batch(BATCH)
layers = tf.keras.layers
model = tf.keras.Sequential([
    tf.keras.Input((SIZE, SIZE, 3)), layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, strides=2, activation="relu"),
    layers.GlobalAveragePooling2D(), layers.Dense(10),
])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))

def used():
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return np.array([time.monotonic(), spent.ru_utime + spent.ru_stime])

def measure(what, run, steps):
    run(3)
    before = used()
    found = run(steps)
    wall, cpu = 1000 * (used() - before) / steps
    with open(os.environ["FIGURES"], "a") as file:
        file.write(f"{what} {rank} {wall} {cpu}\\n")
    return found

def train(steps):
    return model.fit(data, steps_per_epoch=steps, verbose=0).history["loss"][-1]

def read(steps):
    for batch in data.take(steps):
        pass

loss = measure("step", train, STEPS)
if "HOROVOD_RANK" not in os.environ:
    measure("maps", read, STEPS)
print("LOSS", loss)
"""


def write_images(folder: Path, number: int) -> None:
    """JPEG files of 320 x 320 points, smooth and with noise, as photographs are."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    for i in range(number):
        smooth = tf.image.resize(rng.random((8, 8, 3)), (320, 320)) * 230
        image = tf.cast(smooth + rng.random((320, 320, 3)) * 25, tf.uint8)
        tf.io.write_file(str(folder / f"{i:04}.jpg"), tf.io.encode_jpeg(image))


def measure(folder: Path, command: list[str], **variables: str) -> tuple[list[list[str]], str]:
    """Lines of figures, and the loss, of a run of the program."""
    figures = folder / "figures"
    figures.unlink(missing_ok=True)
    paths = {"IMAGES": str(folder / "images"), "FIGURES": str(figures)}
    environment = {**os.environ, **paths, **ONE_THREAD, **variables}
    done = subprocess.run([*command, "program.py"], env=environment, capture_output=True, text=True, cwd=folder)  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    loss = [line for line in done.stdout.splitlines() if "LOSS" in line]
    said = [line for line in done.stderr.splitlines() if line.startswith("jupyter_hvd:")]
    print(*said, sep="\n", file=sys.stderr)
    return [line.split() for line in sorted(figures.read_text().splitlines())], loss[0].split()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=96)
    given = parser.parse_args()
    ranks = [sys.executable, "-m", "jupyter_hvd", "run", "--batch", "global", "-n", str(given.ranks), "--no-log"]  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "images").mkdir()
        write_images(folder / "images", 128)
        program = PROGRAM
        for word, number in (("STEPS", given.steps), ("BATCH", given.batch), ("SIZE", given.size)):
            program = program.replace(word, str(number))
        (folder / "program.py").write_text(program)
        runs = {
            "one process": ([sys.executable], {}),
            f"{given.ranks} ranks, all rows on each": (ranks, {"ALL_ROWS": "1"}),
            f"{given.ranks} ranks, own rows": (ranks, {}),
        }
        for what, (command, variables) in runs.items():
            figures, loss = measure(folder, command, **variables)
            for kind, rank, wall, cpu in figures:
                times = f"{float(wall):7.1f} ms {float(cpu):7.1f} ms CPU"
                print(f"{what:28} {kind} rank {rank} {times}   loss {loss}", flush=True)


if __name__ == "__main__":
    main()
