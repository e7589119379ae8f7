"""Right programs, none of which may be called wrong: how many are.

`python -m tests.silent_errors.right_programs [--into FILE] [NAME …]` judges each on two ranks by `verify --against`, and prints a
line for each: programs of `tests/against/right`, those that the entries of the catalogue are patches of, conversions by hand from
Horovod's documentation, and our own conversions in both modes. `--examples CHECKOUT` judges Horovod's own examples instead, on
tiny data; they are for Keras 2: `.venv-tf215/bin/python -m …`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from jupyter_hvd import Options, convert_source

from .catalogue import put, starting_processes, verify_text

sys.path[:0] = [str(Path(__file__).parent)]

from entries import AGAINST, LOSS, MODEL, PATCHES, Edit, Entry, apply  # noqa: E402
from referee import Referee  # noqa: E402

PROGRAMS = Path(__file__).parents[1] / "programs"
#: Programs of `tests/programs` that are converted in both modes.
CONVERTED = (
    "batch_by_batch", "fit_functional", "fit_schedule", "fit_train_step", "fit_uneven", "fit_twice", "gan", "keras3_train_step",
    "minimize", "tape_accumulated", "tape_batch_norm", "tape_class", "tape_gradient_penalty", "tape_persistent",
    "tape_tf_function",
)  # fmt: skip
NUMBERS = 'y = (x @ rng.normal(size=(6, 1))).astype("float32")\n'
LABELS = NUMBERS + "y = (y > 0).astype('int32')\n"
CLASSIFIER = "loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)\n"
SQUARED = "loss_of = keras.losses.MeanSquaredError()\n"
MANY = ("Dense(1)])\n", "Dense(2)])\n")


def layers(*calls: str) -> Edit:
    """A model of other layers, one number for each row."""
    inner = ", ".join(f"keras.layers.{call}" for call in calls)
    return (
        MODEL,
        f"model = keras.Sequential([keras.Input((6,)), {inner}, keras.layers.Dense(1)])\n",
    )


#: What a scaled conversion by Horovod's page for TensorFlow has beside the original's own lines, in programs of several kinds.
BY_HAND: dict[str, tuple[Edit, ...]] = {
    "deep": (layers("Dense(16, 'relu')", "Dense(16, 'relu')", "Dense(8, 'relu')"),),
    "convolution": (
        layers("Reshape((6, 1))", "Conv1D(4, 3, activation='relu')", "GlobalAveragePooling1D()"),
    ),
    "recurrent": (layers("Reshape((6, 1))", "LSTM(4)"),),
    "gated": (layers("Reshape((3, 2))", "GRU(4, return_sequences=True)", "Flatten()"),),
    "normalized_rows": (layers("Dense(8)", "LayerNormalization()", "Activation('gelu')"),),
    "regularized": (
        layers("Dense(8, 'tanh', kernel_regularizer='l2')"),
        (LOSS, LOSS + "        loss += tf.add_n(model.losses)\n"),
    ),
    "classifier": ((NUMBERS, LABELS), MANY, (SQUARED, CLASSIFIER)),
    "clipped": (
        (
            "    optimizer.apply_gradients(",
            "    gradients, _ = tf.clip_by_global_norm(gradients, 1.0)\n    optimizer.apply_gradients(",
        ),
    ),
    "autoencoder": (
        layers("Dense(2, 'tanh')", "Dense(6)"),
        (LOSS, "        loss = loss_of(x, model(x, training=True)[:, :1] * tf.ones((1, 6)))\n"),
    ),
    "momentum": (
        ("optimizers.Adam(", "optimizers.SGD(momentum=0.9, nesterov=True, learning_rate="),
    ),
}


#: Horovod's examples, made small.
EXAMPLES: dict[str, tuple[Edit, ...]] = {
    "examples/tensorflow2/tensorflow2_mnist.py": (
        (".take(10000 // hvd.size())", ".take(8 // hvd.size())"),
    ),
    "examples/tensorflow2/tensorflow2_keras_mnist.py": (
        (
            "steps_per_epoch=500 // hvd.size(), callbacks=callbacks, epochs=24",
            "steps_per_epoch=4 // hvd.size(), callbacks=callbacks, epochs=4",
        ),
    ),
    "examples/elastic/tensorflow2/tensorflow2_mnist_elastic.py": (
        (".take(100 // hvd.size())", ".take(8 // hvd.size())"),
    ),
}
DIGITS = "tf.keras.datasets.mnist.load_data(path='mnist-%d.npz' % hvd.rank())"
TINY = "(__import__('numpy').random.default_rng(0).integers(0, 255, (64, 28, 28)), list(range(10)) * 6 + [0] * 4), None"
SMALLER: tuple[Edit, ...] = (
    (DIGITS, TINY),
    (".batch(128)", ".batch(16)"),
    (
        "tf.keras.layers.Conv2D(64, [3, 3], activation='relu'),",
        "tf.keras.layers.Conv2D(4, [3, 3], activation='relu'),",
    ),
    (
        "tf.keras.layers.Conv2D(32, [3, 3], activation='relu'),",
        "tf.keras.layers.Conv2D(4, [3, 3], activation='relu'),",
    ),
)
#: What stands in for Horovod in the original: one process.
ALONE = """\
from types import SimpleNamespace as Names

nothing = lambda *_, **__: tf.keras.callbacks.Callback()
names = ("BroadcastGlobalVariablesCallback", "MetricAverageCallback")
callbacks = Names(**dict.fromkeys((*names, "LearningRateWarmupCallback"), nothing))
one = Names(size=lambda: 1, rank=lambda: 0, local_rank=lambda: 0, init=nothing, broadcast_variables=nothing, callbacks=callbacks)
one.DistributedGradientTape = lambda tape: tape
one.DistributedOptimizer = lambda optimizer, **_: optimizer
one.elastic = Names(
    run=lambda train: train,
    TensorFlowKerasState=lambda *_, **known: Names(**known, commit=nothing, register_reset_callbacks=nothing),
)
hvd = one
"""


@dataclass(frozen=True)
class Right:
    """A right program and its original."""

    name: str
    original: str
    other: str
    apart: bool = False


@dataclass(frozen=True)
class Outcome:
    """What was said of it: *right*, *wrong*, or *not judged*, and why."""

    program: str
    outcome: str
    why: str
    seconds: float


def given() -> Iterator[Right]:
    for path in sorted((AGAINST / "right").glob("*.py")):
        entry = Entry(path.stem, "", "", f"right/{path.stem}")
        yield Right(path.stem, entry.original, entry.text, path.stem.startswith("workers"))


def patched() -> Iterator[Right]:
    """Programs that entries of the catalogue are patches of, where they are not given already."""
    for entry in PATCHES:
        if entry.both or entry.right_edits:
            yield Right(f"before_{entry.name}", entry.original, entry.right_text, entry.apart)


def by_hand() -> Iterator[Right]:
    for name, edits in BY_HAND.items():
        entry = Entry(name, "", "", "right/loop_scaled", both=edits)
        yield Right(f"by_hand_{name}", entry.original, entry.right_text)


def converted() -> Iterator[Right]:
    for name in CONVERTED:
        text = (PROGRAMS / f"{name}.py").read_text()
        for batch in ("global", "per-rank"):
            found = convert_source(text, options=Options(batch=batch))
            if found.status == "converted":
                yield Right(f"{name}, {batch}", text, found.code, apart=True)


def examples(checkout: Path) -> Iterator[Right]:
    """Horovod's own programs; in the originals, something else stands in for it that is one process."""
    for name, edits in EXAMPLES.items():
        text = (checkout / name).read_text().replace("import horovod\n", "")
        text = apply(text[: text.index("if __name__")] + "main()\n", (*SMALLER, *edits))
        lines = [line for line in text.splitlines() if line.startswith("import horovod")]
        yield Right(Path(name).stem, apply(text, ((lines[0] + "\n", ALONE),)), text, apart=True)


def every() -> Iterator[Right]:
    yield from given()
    yield from patched()
    yield from by_hand()
    yield from converted()


def judge(right: Right, folder: Path, known: dict, referee: Referee) -> Outcome:
    began = time.monotonic()
    if right.apart:
        found = verify_text(folder, right.original, right.other, known)
    else:
        paths = put(folder, "train.py", right.original), put(folder, "train_hvd.py", right.other)
        found = referee.judge(*paths)
    outcome = "wrong" if found.fails else "right" if found.holds else "not judged"
    why = found.verdict
    if outcome != "right":
        why = "; ".join(f"{c.check}: {c.detail}" for c in found.checks if c.status != "pass")
    return Outcome(right.name, outcome, why, round(time.monotonic() - began, 1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="names or parts of them")
    parser.add_argument("--into", type=Path)
    parser.add_argument("--examples", type=Path, metavar="CHECKOUT")
    chosen = parser.parse_args()
    made = {}
    if chosen.into and chosen.into.exists():
        lines = chosen.into.read_text().splitlines()
        made = {o.program: o for o in (Outcome(**json.loads(line)) for line in lines)}
    counts: Counter[str] = Counter()
    known: dict = {}
    referee = Referee()
    with tempfile.TemporaryDirectory() as folder, starting_processes():
        for right in examples(chosen.examples) if chosen.examples else every():
            if chosen.names and not any(name in right.name for name in chosen.names):
                continue
            outcome = made.get(right.name) or judge(right, Path(folder), known, referee)
            if chosen.into and right.name not in made:
                with chosen.into.open("a") as stream:
                    stream.write(json.dumps(asdict(outcome)) + "\n")
            counts[outcome.outcome] += 1
            said = f"{outcome.seconds:5.1f} s  {outcome.why[:300]}"
            print(f"{outcome.program:36} {outcome.outcome:10} {said}", flush=True)
    referee.close()
    print(", ".join(f"{counts[name]} {name}" for name in ("right", "wrong", "not judged")))
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
