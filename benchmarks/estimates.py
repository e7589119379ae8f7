"""Step times as the cost estimate predicts them, beside measured ones: three models, both batches, on 2 and on 4 ranks.

    python benchmarks/estimates.py [--turns 40] [--ranks 2 4] [--write]

What is predicted is the time of a step's own computing plus that of averaging its gradients: bandwidth and latency come
from allreduces as `%hvd network` makes them, whose sizes know nothing of the models, and nothing is fitted to a step. The ranks
share this machine's cores, so computing is measured as all of them do it at once, without averaging, from a common
start until the last is done. With `--batch global` the ranks share one batch: an N-th of that computing, and what
`jupyter_hvd.notebook.network.Network.sharing_seconds` says. One iteration has some of each, so that what else the machine
does meets them all; every figure is the mean over the iterations, since means add up. `--write` puts the table into
docs/distribute-reference.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from page_sections import replace_section

PAGE = Path(__file__).parent.parent / "docs" / "distribute-reference.md"
HEADER = (
    "| model | batch | gradients | ranks | computing ms | messages ms, predicted | step ms, predicted | measured | off by |\n"
    "|---|---|---|---|---|---|---|---|---|"
)
#: Of this environment, on whatever path.
HOROVODRUN = Path(sys.executable).with_name("horovodrun")
#: So many in each turn, of either kind.
STEPS = 3


@dataclass(frozen=True)
class Row:
    """Sizes in bytes, times in seconds."""

    model: str
    batch: str
    size: int
    ranks: int
    computing: float
    messages: float
    measured: float

    @property
    def predicted(self) -> float:
        return self.computing + self.messages

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    def __str__(self) -> str:
        times = (self.computing, self.messages, self.predicted, self.measured)
        shown = " | ".join(f"{1e3 * seconds:.1f}" for seconds in times)
        return f"| {self.model} | {self.batch} | {self.size / 1e6:.2g} MB | {self.ranks} | {shown} | {self.error:+.0%} |"


def models() -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """A name, a network and the shape of a batch: much to average, little, and something of both."""
    import tensorflow as tf

    layers = tf.keras.layers

    def network(*parts: Any) -> Any:
        return tf.keras.Sequential(list(parts))

    yield (
        "perceptron",
        network(*(layers.Dense(1024, activation="relu") for _ in range(2)), layers.Dense(10)),
        (64, 784),
    )
    yield (
        "convolutions",
        network(
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ),
        (32, 32, 32, 3),
    )
    yield "LSTM", network(layers.LSTM(256), layers.Dense(10)), (32, 20, 64)


def make_step(model: Any, shape: tuple[int, ...], *, averages: bool) -> Callable[[], Any]:
    """A compiled step of training, as a converted program has it, or as it was before."""
    import tensorflow as tf

    import jupyter_hvd.runtime as jhvd

    optimizer = tf.keras.optimizers.SGD(1e-3)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    x, y = tf.random.normal(shape), tf.random.uniform(shape[:1], 0, 10, tf.int32)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        if averages:
            tape = jhvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step


def measure(turns: int) -> list[Row]:
    """On one rank of several: the same figures on all."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    from jupyter_hvd.notebook.network import fit_network
    from jupyter_hvd.ranks.allreduce_times import SIZES, allreduce_seconds
    from jupyter_hvd.runtime.sharing.context import sharing
    from jupyter_hvd.runtime.sharing.program import start_sharing

    start_sharing()
    sharing.active = False
    tf.keras.utils.set_random_seed(0)  # ranks that share must begin alike
    for size in SIZES:
        allreduce_seconds(size)  # the first makes room

    def seconds(work: Callable[[], Any]) -> float:
        """From a common start."""
        hvd.allreduce(tf.zeros(1), name="together").numpy()
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    rows = []
    for name, model, shape in models():
        alone, averaging = (make_step(model, shape, averages=flag) for flag in (False, True))
        shared = make_step(model, shape, averages=False)

        def compute(step: Callable[[], Any] = alone) -> None:
            step().numpy()

        def train(step: Callable[[], Any]) -> None:
            for _ in range(STEPS):
                step().numpy()

        compute()
        train(averaging)
        # What a function shares is decided when it is traced.
        sharing.active = True
        train(shared)
        sharing.active = False
        kept = [
            [
                seconds(partial(train, averaging)) / STEPS,
                seconds(partial(train, shared)) / STEPS,
                *(seconds(compute) for _ in range(STEPS)),
                *(seconds(partial(allreduce_seconds, size)) for size in SIZES),
            ]
            for _ in range(turns)
        ]
        # Each time is its slowest rank's.
        slowest = hvd.allgather(tf.constant([kept], tf.float64)).numpy().max(axis=0)
        per_rank, whole, *others = (float(figure) for figure in slowest.mean(axis=0))
        computing, swept = mean(others[:STEPS]), others[STEPS:]
        size = sum(4 * int(tf.size(weights)) for weights in model.trainable_variables)
        network = fit_network(hvd.size(), list(zip(SIZES, swept, strict=True)))
        outputs = 4 * shape[0] * model.output_shape[-1]
        rows += [
            Row(
                name,
                "per rank",
                size,
                hvd.size(),
                computing,
                network.averaging_seconds(size),
                per_rank,
            ),
            Row(
                name,
                "global",
                size,
                hvd.size(),
                computing / hvd.size(),
                network.sharing_seconds(size, outputs),
                whole,
            ),
        ]
    if hvd.rank() == 0:
        Path(os.environ["ESTIMATES"]).write_text(json.dumps([asdict(row) for row in rows]))
    return rows


def on_ranks(ranks: int, turns: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "rows.json"
        program = [sys.executable, __file__, "--turns", str(turns), "--rank"]
        subprocess.run(
            [HOROVODRUN, "--gloo", "-np", str(ranks), "-H", f"localhost:{ranks}", *program],
            env={**os.environ, "ESTIMATES": str(found), "TF_CPP_MIN_LOG_LEVEL": "2"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return [Row(**row) for row in json.loads(found.read_text())]


def page_of(rows: list[Row], turns: int) -> str:
    worst = max(rows, key=lambda row: abs(row.error))
    middle = median(abs(row.error) for row in rows)
    return "\n".join(
        [
            f"{os.cpu_count()} cores, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}; means of {turns} steps.",
            "",
            HEADER,
            *map(str, rows),
            "",
            f"The median error is {middle:.0%}, the largest {abs(worst.error):.0%} "
            f"({worst.model}, {worst.batch}, on {worst.ranks} ranks).",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument(
        "--write", action="store_true", help="the table of docs/distribute-reference.md"
    )
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        measure(options.turns)
        return
    rows = [row for ranks in options.ranks for row in on_ranks(ranks, options.turns)]
    rows.sort(key=lambda row: (row.model, row.batch, row.ranks))
    text = page_of(rows, options.turns)
    print(text)
    if options.write:
        replace_section(PAGE, "estimates", text)


if __name__ == "__main__":
    main()
