"""Loads saved models where neither Horovod nor this package is: `main` takes ORIGINAL SINGLE RANKS NAME …

It runs where Horovod has not been imported (`rank.forks --without-horovod`): its operations would be in TensorFlow's lists.

The folders are those of the original, of the conversion on one rank, and of rank 0 of several; each name is a model that
the last has saved, and the others perhaps. Prints a JSON list: for each model its name and what is wrong with it, null
for nothing. Left out is what the original's process has not left loadable either: weights alone, a model of the
program's own classes.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: What Python takes for not installed.
ABSENT = ("horovod", "jupyter_hvd")


def main() -> None:
    original, single, ranks, *names = sys.argv[1:]
    sys.modules.update(hidden(sys.modules))
    gc.disable()  # it looks through all that TensorFlow defines again and again, and this is soon over
    places = [Path(original), Path(single), Path(ranks)]
    asked = ((name, judge(*(place / name for place in places))) for name in names)
    print(json.dumps([(name, fault) for name, (known, fault) in asked if known]))


def hidden(modules: Iterable[str]) -> dict[str, Any]:
    """What `sys.modules` has to say for Python to take these packages for not installed, whatever was imported of them."""
    imported = [name for name in modules if name.partition(".")[0] in ABSENT]
    return dict.fromkeys((*ABSENT, *imported))


def judge(original: Path, single: Path, ranks: Path) -> tuple[bool, str | None]:
    """Whether a model tells something of the conversion, and what is wrong with it."""
    import numpy as np

    try:
        predictions(ranks)
        if original.exists() and single.exists():
            before, after = predictions(original), predictions(single)
            same = len(before) == len(after) and all(map(np.array_equal, before, after))
            return True, None if same else "it predicts something else than the original's"
    except Exception as error:
        fault = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        return any(name in str(error) for name in ABSENT) or is_loadable(original), fault
    return True, None


def is_loadable(path: Path) -> bool:
    try:
        predictions(path)
    except Exception:
        return False
    return True


def predictions(path: Path) -> list[Any]:
    """The weights of a model, and what it says to inputs that are the same at every call; nothing of a bare SavedModel."""
    import numpy as np
    import tensorflow as tf

    if path.is_dir():
        tf.saved_model.load(str(path))
        return []
    model = tf.keras.models.load_model(path)
    random = np.random.RandomState(0)
    inputs = []
    for tensor in model.inputs or ():
        shape = [2 if size is None else size for size in tensor.shape]
        kind = tf.as_dtype(tensor.dtype)
        values = random.uniform(size=shape) if kind.is_floating else np.zeros(shape)
        inputs.append(tf.constant(values, kind) if kind != tf.string else tf.fill(shape, ""))
    said = model(inputs[0] if len(inputs) == 1 else inputs) if inputs else []
    return [*model.get_weights(), *(part.numpy() for part in tf.nest.flatten(said))]
