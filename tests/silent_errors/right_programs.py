"""Right programs, none of which may be called wrong: how many are.

`python -m tests.silent_errors.right_programs [--into FILE] [NAME …]` judges each on two ranks by `verify --against`, and prints a
line for each: programs of `tests/against/right`, those that the entries of the catalogue are patches of, conversions by hand from
Horovod's documentation, and our own conversions in both modes. `--horovod CHECKOUT`, `--tutorials CHECKOUT` and
`--guides CHECKOUT` judge the examples of horovod/horovod, the tutorials of tensorflow/docs and the guides of keras-team/keras-io
instead, on tiny data. Most are for Keras 2: `.venv-tf215/bin/python -m …`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from jupyter_hvd import Options, convert_source

from .catalogue import put, starting_processes, verify_text

sys.path[:0] = [str(Path(__file__).parent)]

from entries import AGAINST, LOSS, MODEL, PATCHES, Edit, Entry  # noqa: E402
from published_examples import (  # noqa: E402
    Right,
    guide_examples,
    horovod_examples,
    tutorial_examples,
)
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


#: What reads the examples of a checkout, by the option that names it.
EXAMPLES: Mapping[str, Callable[[Path], Iterator[Right]]] = {
    "horovod": horovod_examples,
    "tutorials": tutorial_examples,
    "guides": guide_examples,
}


@dataclass(frozen=True)
class Outcome:
    """What was said of it: *right*, *wrong*, *differs* (as it is right to say), or *not judged*, and why."""

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


def of_checkouts(given: Mapping[str, Path | None]) -> list[Right]:
    """The examples of the checkouts that are given, as far as they are for this version of Keras."""
    import keras

    version = int(keras.__version__.split(".")[0])
    found = [
        right for name, read in EXAMPLES.items() if (path := given[name]) for right in read(path)
    ]
    return [right for right in found if right.keras in (0, version)]


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
    if right.differs and found.fault is not None and found.fault.kind == right.differs:
        outcome = "differs"
    why = found.verdict
    if outcome in ("wrong", "not judged"):
        why = "; ".join(f"{c.check}: {c.detail}" for c in found.checks if c.status != "pass")
    return Outcome(right.name, outcome, why, round(time.monotonic() - began, 1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="names or parts of them")
    parser.add_argument("--into", type=Path)
    for name in EXAMPLES:
        parser.add_argument(f"--{name}", type=Path, metavar="CHECKOUT")
    chosen = parser.parse_args()
    made = {}
    if chosen.into and chosen.into.exists():
        lines = chosen.into.read_text().splitlines()
        made = {o.program: o for o in (Outcome(**json.loads(line)) for line in lines)}
    counts: Counter[str] = Counter()
    known: dict = {}
    referee = Referee()
    with tempfile.TemporaryDirectory() as folder, starting_processes():
        for right in of_checkouts(vars(chosen)) or every():
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
    print(
        ", ".join(f"{counts[name]} {name}" for name in ("right", "differs", "wrong", "not judged"))
    )
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
