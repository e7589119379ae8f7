"""A training step on two ranks beside its peers, and what becomes of each when a worker is killed.

    python benchmarks/peers.py [--turns 5] [--batches 64 512] [--ranks 1 2] [--models 3] [--python OTHER/bin/python …]
        [--write docs/peers.md]

Three models, each as the program of one process, as `jupyter hvd convert` makes it for each `--batch`, written for Horovod by
hand, and with `tf.distribute.MultiWorkerMirroredStrategy`. A step is on one batch in one process and with `--batch global`,
whose ranks share it, and on one for each rank with the others. The programs of one model run one after another; each prints the
medians of its own steps, in seconds and in seconds of CPU. Medians over the turns, and of the ratios within a turn, are printed,
for this Python's TensorFlow and for that of each other Python.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from jupyter_hvd import convert_source
from jupyter_hvd.cli.global_batch import RANK_MODULE
from jupyter_hvd.convert import Options
from jupyter_hvd.convert.rules.base import Batch
from jupyter_hvd.convert.unconverted_programs import common_variables
from jupyter_hvd.launch.job import Program, run_job
from jupyter_hvd.launch.rank_placement import place_ranks
from jupyter_hvd.launch.reaper import private_folder

ONE, CONVERTED, BY_HAND, STRATEGY = "one process", "per-rank", "by hand", "MultiWorkerMirrored"
GLOBAL = "global"
WAYS = (ONE, GLOBAL, CONVERTED, BY_HAND, STRATEGY)
#: What ranks share, and the batch option by which.
SHARED: Mapping[str, Batch] = {GLOBAL: "global", CONVERTED: "per-rank"}
RATIOS = ((CONVERTED, BY_HAND), (CONVERTED, STRATEGY))
#: The batch that programs are written with, and their epochs, which grow with it: there are as many steps.
BATCH, EPOCHS = 64, 3
TIMEOUT = 240.0


@dataclass(frozen=True)
class Model:
    """Lines that make a model and its data: `model`, `x`, `y`, `loss_of(true, predicted)`, an entry an example."""

    name: str
    data: str
    layers: str
    loss: str


MODELS = (
    Model(
        "dense, 264,193 weights",
        'x = random.normal(size=(8192, 256)).astype("float32")\ny = (x[:, :1] > 0).astype("float32")',
        '[tf.keras.layers.Dense(512, activation="relu"), tf.keras.layers.Dense(256, activation="relu"),'
        " tf.keras.layers.Dense(1)]",
        "tf.keras.losses.binary_crossentropy(true, predicted, from_logits=True)",
    ),
    Model(
        "convolutional, 28 × 28",
        'x = random.normal(size=(4096, 28, 28, 1)).astype("float32")\ny = random.randint(10, size=(4096,))',
        '[tf.keras.layers.Conv2D(16, 3, activation="relu"), tf.keras.layers.MaxPooling2D(),'
        ' tf.keras.layers.Conv2D(32, 3, activation="relu"), tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)]',
        "tf.keras.losses.sparse_categorical_crossentropy(true, predicted, from_logits=True)",
    ),
    Model(
        "embedding, sparse gradients",
        'x = random.randint(20000, size=(8192, 32))\ny = random.randint(2, size=(8192, 1)).astype("float32")',
        "[tf.keras.layers.Embedding(20000, 64), tf.keras.layers.GlobalAveragePooling1D(), tf.keras.layers.Dense(1)]",
        "tf.keras.losses.binary_crossentropy(true, predicted, from_logits=True)",
    ),
)

ORIGINAL = """\
import time

import numpy as np
import tensorflow as tf

random = np.random.RandomState(0)
{data}
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(64)
model = tf.keras.Sequential({layers})
optimizer = tf.keras.optimizers.Adam(1e-3)


def loss_of(true, predicted):
    return {loss}


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(loss_of(labels, model(images, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


seconds = []
spent = []
for epoch in range(3):
    for images, labels in dataset:
        started, used = time.perf_counter(), time.process_time()
        step(images, labels)
        seconds.append(time.perf_counter() - started)
        spent.append(time.process_time() - used)
print("median", np.median(seconds[20:]), np.median(spent[20:]))
"""

#: What a person changes for Horovod, after the example of its own documentation; on Keras 3 variables are asked for
#: their values, since Horovod knows those of TensorFlow alone.
HAND = (
    (
        "import tensorflow as tf\n",
        "import horovod.tensorflow as hvd\nimport tensorflow as tf\n\nhvd.init()\n",
    ),
    ("((x, y))", "((x, y)).shard(hvd.size(), hvd.rank())"),
    ("Adam(1e-3)", "Adam(1e-3 * hvd.size())"),
    ("step(images, labels):", "step(images, labels, first_batch):"),
    ("    gradients =", "    tape = hvd.DistributedGradientTape(tape)\n    gradients ="),
    (
        "    return loss\n\n\nseconds",
        "    if first_batch:\n        hvd.broadcast_variables({model}, root_rank=0)\n"
        "        hvd.broadcast_variables({optimizer}, root_rank=0)\n    return loss\n\n\nseconds",
    ),
    ("step(images, labels)\n        seconds", "step(images, labels, not seconds)\n        seconds"),
)
VARIABLES = {
    2: ("model.variables", "optimizer.variables()"),
    3: ("[v.value for v in model.variables]", "[v.value for v in optimizer.variables]"),
}
#: On Keras 3 Horovod's tape knows no Keras variable: "'Variable' object has no attribute 'ref'".
SOURCES = (
    "tape.gradient(loss, model.trainable_variables)",
    "tape.gradient(loss, [v.value for v in model.trainable_variables])",
)

#: What a person changes for the strategy, after TensorFlow's guide "Custom training loop with Keras and
#: MultiWorkerMirroredStrategy": the batches are those of all workers.
MIRRORED = (
    (
        "random = np",
        "strategy = tf.distribute.MultiWorkerMirroredStrategy()\nWORKERS = strategy.num_replicas_in_sync\nrandom = np",
    ),
    (".batch(64)\n", ".batch(64 * WORKERS)\ndataset = strategy.experimental_distribute_dataset(dataset)\n"),
    ("model = tf", "with strategy.scope():\n    model = tf"),
    ("optimizer = tf.keras.optimizers.Adam(1e-3)", "    optimizer = tf.keras.optimizers.Adam(1e-3 * WORKERS)"),
    ("@tf.function\ndef step(", "def step_of_a_replica("),
    ("tf.reduce_mean(loss_of(", "tf.nn.compute_average_loss(loss_of("),
    (
        "    return loss\n\n\nseconds",
        "    return loss\n\n\n@tf.function\ndef step(images, labels):\n"
        "    losses = strategy.run(step_of_a_replica, args=(images, labels))\n"
        "    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)\n\n\nseconds",
    ),
)  # fmt: skip


def original(model: Model) -> str:
    return ORIGINAL.format(data=model.data, layers=model.layers, loss=model.loss)


def changed(text: str, changes: tuple[tuple[str, str], ...]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def with_batch(text: str, batch: int) -> str:
    epochs = EPOCHS * batch // BATCH
    return text.replace(f".batch({BATCH}", f".batch({batch}").replace(f"range({EPOCHS})", f"range({epochs})")  # fmt: skip


def programs(model: Model, keras: int) -> Mapping[str, str]:
    """The program of each way."""
    text = original(model)
    weights, slots = VARIABLES[keras]
    hand = [(a, b.replace("{model}", weights).replace("{optimizer}", slots)) for a, b in HAND]
    hand += [SOURCES] if keras == 3 else []
    return {
        ONE: text,
        **{way: converted(text, Options(batch=batch)) for way, batch in SHARED.items()},
        BY_HAND: changed(text, tuple(hand)),
        STRATEGY: changed(text, MIRRORED),
    }


def converted(text: str, options: Options) -> str:
    conversion = convert_source(text, options=options)
    assert conversion.status == "converted", conversion.diagnostics
    return conversion.code


def lines_changed(before: str, after: str) -> int:
    """Lines of a program that are new or other than they were."""
    changes = difflib.ndiff(before.splitlines(), after.splitlines())
    return sum(line.startswith("+ ") and bool(line[2:].strip()) for line in changes)


#: Seconds of a step, and its seconds of CPU.
Times = tuple[float, float]


def step_times(way: str, path: Path, size: int) -> Times | str:
    """The medians of rank 0's steps, or how it failed."""
    printed: list[str] = []
    if way in (*SHARED, BY_HAND):
        program, environment = Program(path, path), {}
        if way in SHARED:
            program, environment = Program(path, path, module=RANK_MODULE), common_variables(Options(), 1)  # fmt: skip
        with private_folder() as folder:
            heard = lambda rank, _, line: printed.append(line) if rank == 0 else None  # noqa: E731
            result = run_job(
                program,
                place_ranks(size),
                folder,
                listener=heard,
                timeout=TIMEOUT,
                environment=environment,
            )
        failed = failure(result.report.splitlines(), True) if result.code else ""
    else:
        workers = start_workers(path, size if way == STRATEGY else 1)
        ended = wait_for(workers, TIMEOUT)
        printed = outputs(workers)[0].splitlines()
        failed = "" if ended and not any(w.returncode for w in workers) else failure(printed, ended)
    found = next((line for line in printed if line.startswith("median")), None)
    if failed or found is None:
        return failed or "no step was made"
    _, seconds, spent = found.split()
    return float(seconds), float(spent)


def failure(printed: list[str], ended: bool) -> str:
    if not ended:
        return f"hung for {TIMEOUT:g} s"
    return next((line for line in reversed(printed) if "Error" in line), "failed")[:160]


def start_workers(path: Path, count: int) -> list[subprocess.Popen[str]]:
    """Processes with `TF_CONFIG`, as TensorFlow's guide starts them; without it where there is one."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(count)]
    workers = []
    for index in range(count):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        more = {"TF_CONFIG": json.dumps(task)} if count > 1 else {}
        output = path.with_suffix(f".{index}.log").open("w+")
        workers.append(
            subprocess.Popen(
                [sys.executable, path],
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **more},
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        output.close()
        workers[-1].log = path.with_suffix(f".{index}.log")  # type: ignore[attr-defined]
    return workers


def outputs(workers: list[subprocess.Popen[str]]) -> list[str]:
    return [w.log.read_text() for w in workers]  # type: ignore[attr-defined]


def wait_for(workers: list[subprocess.Popen[str]], timeout: float) -> bool:
    """Wait until all have ended, or one has failed; end those that are left. Whether all ended by themselves."""
    end = time.monotonic() + timeout
    while time.monotonic() < end and any(w.poll() is None for w in workers):
        time.sleep(0.1)
    ended = all(w.poll() is not None for w in workers)
    for worker in workers:
        worker.kill()
        worker.wait()
    return ended


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def after_a_kill(way: str, path: Path) -> str:
    """What becomes of the job when its second process is killed while it trains."""
    text = (
        path.read_text()
        .replace("range(3)", "range(3000)")
        .replace("seconds = []", "seconds = []\nprint('training', flush=True)")
    )
    path = path.with_name(f"long_{path.name}")
    path.write_text(text)
    if way == STRATEGY:
        workers = start_workers(path, 2)
        pids = [w.pid for w in workers]
        job = None
    else:
        job = subprocess.Popen(
            [sys.executable, "-m", "jupyter_hvd", "run", path, "-n", "2"],
            stdout=path.with_suffix(".log").open("w"),
            stderr=subprocess.STDOUT,
        )
        pids = []
    end = time.monotonic() + 120
    while time.monotonic() < end:
        said = outputs(workers) if job is None else [path.with_suffix(".log").read_text()]
        if all("training" in text for text in said):
            break
        time.sleep(0.2)
    time.sleep(8)
    if job is not None:
        listed = subprocess.run(
            ["pgrep", "-f", path.name], capture_output=True, text=True, check=False
        )
        own = {os.getpid(), job.pid}
        pids = [p for p in map(int, listed.stdout.split()) if p not in own and rank_of(p) == 1]
    os.kill(pids[-1], signal.SIGKILL)
    began = time.monotonic()
    first = job if job is not None else workers[0]
    try:
        first.wait(120)
        took = f"ends after {time.monotonic() - began:.0f} s"
    except subprocess.TimeoutExpired:
        took = "hangs for more than 120 s"
    said = path.with_suffix(".log").read_text() if job is not None else outputs(workers)[0]
    for process in [job] if job is not None else workers:
        process.kill()
        process.wait()
    tail = [line.strip() for line in said.splitlines() if "Error" in line or "killed" in line]
    return f"{took}: {tail[-1][:200]}" if tail else took


def rank_of(pid: int) -> int | None:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = [v for v in variables if v.startswith(b"HOROVOD_RANK=")]
    return int(found[0].partition(b"=")[2]) if found else None


def measure(
    models: int, turns: int, batches: list[int], ranks: list[int], kill: bool
) -> dict[str, object]:
    """All figures of this Python's stack."""
    from importlib.metadata import PackageNotFoundError, version

    keras = int(version("keras").split(".")[0])
    try:
        tensorflow = version("tensorflow_cpu")
    except PackageNotFoundError:
        tensorflow = version("tensorflow")
    rows, killed = [], {}
    # Ranks that share a program work on copies of the folder.
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        paths = {way: Path(name) / f"{way.replace(' ', '_')}.py" for way in WAYS}
        for model, batch, size in itertools.product(MODELS[:models], batches, ranks):
            texts = programs(model, keras)
            for way, path in paths.items():
                path.write_text(with_batch(texts[way], batch))
            times: dict[str, list[Times | str]] = {way: [] for way in WAYS}
            for _ in range(turns):
                for way in WAYS:
                    if not any(isinstance(t, str) for t in times[way]):
                        times[way].append(step_times(way, paths[way], size))
            rows.append(
                {
                    "model": model.name,
                    "batch": batch,
                    "ranks": size,
                    "times": times,
                    "lines": {w: lines_changed(texts[ONE], texts[w]) for w in WAYS},
                }
            )
            print(model.name, batch, size, times, file=sys.stderr, flush=True)
        if kill:
            texts = programs(MODELS[0], keras)
            for way in (CONVERTED, STRATEGY):
                path = Path(name) / f"{way}.py"
                path.write_text(texts[ONE if way == CONVERTED else way])  # `run` converts it
                killed[way] = after_a_kill(way, path)
                print(way, killed[way], file=sys.stderr, flush=True)
    return {
        "stack": f"TensorFlow {tensorflow}, Keras {version('keras')}",
        "rows": rows,
        "killed": killed,
    }


def table(stacks: list[dict]) -> str:
    out = []
    for stack in stacks:
        out.append(f"\n## {stack['stack']}\n")
        out.append("Milliseconds of a step, and of CPU of one rank in it.\n")
        out.append(
            f"| model | batch | ranks | {' | '.join([*WAYS, *(f'{a} / {b}' for a, b in RATIOS)])} |"
        )
        out.append("|---|---:|---:|" + "---:|" * (len(WAYS) + len(RATIOS)))
        for row in stack["rows"]:
            times = row["times"]
            cells = [shown(times[way]) for way in WAYS]
            ratios = [ratio(times[a], times[b]) for a, b in RATIOS]
            first = (row["model"], str(row["batch"]), str(row["ranks"]))
            out.append(f"| {' | '.join([*first, *cells, *ratios])} |")
        lines = stack["rows"][0]["lines"]
        out.append(
            f"\nLines changed: by hand {lines[BY_HAND]}, for the strategy {lines[STRATEGY]},"
            f" by the conversion {lines[GLOBAL]} (global), {lines[CONVERTED]} (per-rank)."
        )
        out += [f"\nA worker killed, {way}: {what}" for way, what in stack["killed"].items()]
    return "\n".join(out)


def shown(times: list[Times | str]) -> str:
    failed = [t for t in times if isinstance(t, str)]
    if failed:
        return failed[0].replace("|", "/")
    seconds, spent = (median(column) * 1e3 for column in zip(*times, strict=True))
    return f"{seconds:.2f}, {spent:.2f}"


def ratio(ours: list[Times | str], theirs: list[Times | str]) -> str:
    if any(isinstance(t, str) for t in (*ours, *theirs)):
        return "–"
    return f"{median(a[0] / b[0] for a, b in zip(ours, theirs, strict=True)):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=3, help="the first so many")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--python", action="append", default=[], help="another stack's Python")
    parser.add_argument("--json", action="store_true", help="this stack's figures alone")
    parser.add_argument("--no-kill", action="store_true")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    if arguments.json:
        given = (arguments.models, arguments.turns, arguments.batches, arguments.ranks)
        print(json.dumps(measure(*given, not arguments.no_kill)))
        return
    stacks = []
    for python in (sys.executable, *arguments.python):
        more = ["--no-kill"] if arguments.no_kill else []
        more += ["--batches", *map(str, arguments.batches), "--ranks", *map(str, arguments.ranks)]
        counts = ["--turns", str(arguments.turns), "--models", str(arguments.models)]
        command = [python, __file__, "--json", *counts, *more]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        stacks.append(json.loads(done.stdout.splitlines()[-1]))
    print(table(stacks))
    if arguments.write:
        page = arguments.write.read_text() if arguments.write.exists() else ""
        head = page.partition("\n## ")[0].rstrip()
        arguments.write.write_text(f"{head}\n{table(stacks)}\n")


if __name__ == "__main__":
    main()
