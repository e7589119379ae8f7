"""Programs that others have published, made small: Horovod's examples, TensorFlow's tutorials and Keras' guide.

They are read from checkouts and are no part of this repository. Beside each stands the original, which is the same program with
something in place of Horovod, or of the strategy, that is one process. Digits are drawn in place of downloads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

Edit = tuple[str, str]
#: A pattern, and what stands in for all that it matches.
Rewrite = tuple[str, str]


@dataclass(frozen=True)
class Right:
    """A right program and its original.

    Attributes:
        apart: whether it needs processes of its own. keras: the version of Keras that it is for, 0 for any.
        differs: the kind of fault that is right to name, as the program does not train as its original; "" for none.
    """

    name: str
    original: str
    other: str
    apart: bool = False
    keras: int = 0
    differs: str = ""


@dataclass(frozen=True)
class Example:
    """A published program.

    Attributes:
        path: within its checkout. name: that of the file if it is "".
        rewrites: make it small; each matches at least once. alone: what makes it the original, beside `ALONE`.
        entry: what the last part of a script begins with, and what stands in its place; or the files that a notebook writes, of
            which the last is the program; or what the last cell of a notebook has in it.
        differs, keras: see `Right`.
    """

    path: str
    rewrites: tuple[Rewrite, ...] = ()
    alone: tuple[Rewrite, ...] = ()
    entry: tuple[str, str] = ("", "")
    differs: str = ""
    keras: int = 2
    name: str = ""


#: Horovod's.
MAIN = ("if __name__", "main()\n")
TINY_MODEL = (
    r"getattr\(applications, args\.model\)\(weights=None\)",
    "tf.keras.Sequential([tf.keras.layers.InputLayer((8, 8, 3)), tf.keras.layers.Conv2D(4, 3, activation='relu'), "
    "tf.keras.layers.GlobalAveragePooling2D(), tf.keras.layers.Dense(1000, activation='softmax')])",
)
BENCHMARK = (TINY_MODEL, (r"224, 224", "8, 8"), (r"default=10,", "default=2,"))
#: Keras without TensorFlow 1's sessions.
NO_SESSION = ((r"(?m)^(config|K\.set_session).*\n", ""),)
FOLDER = """\
import numpy as np
pictures = np.random.default_rng(0).integers(0, 255, (64, 8, 8, 3)).astype("uint8")
for number, picture in enumerate(pictures):
    folder = f"pictures/{number % 2}"
    os.makedirs(folder, exist_ok=True)
    tf.keras.utils.save_img(f"{folder}/{number}.png", picture)
"""
HOROVOD: tuple[Example, ...] = (
    Example(
        "examples/tensorflow2/tensorflow2_mnist.py",
        ((r"10000 // hvd", "8 // hvd"),),
        entry=MAIN,
    ),
    Example(
        "examples/tensorflow2/tensorflow2_keras_mnist.py",
        ((r"500 // hvd", "4 // hvd"), (r"epochs=24", "epochs=4")),
        entry=MAIN,
    ),
    Example(
        "examples/tensorflow2/tensorflow2_synthetic_benchmark.py",
        BENCHMARK,
        differs="rate not scaled",  # each rank takes a batch as large, at the same rate
    ),
    Example(
        "examples/tensorflow2/tensorflow2_synthetic_benchmark.py",
        (*BENCHMARK, (r"SGD\(0\.01\)", "SGD(0.01 * hvd.size())")),
        name="synthetic_benchmark_scaled",
    ),
    Example(
        "examples/tensorflow2/tensorflow2_keras_synthetic_benchmark.py",
        BENCHMARK,
        differs="rate not scaled",  # each rank takes a batch as large, at the same rate
    ),
    Example(
        "examples/tensorflow2/tensorflow2_keras_synthetic_benchmark.py",
        (*BENCHMARK, (r"SGD\(0\.01\)", "SGD(0.01 * hvd.size())")),
        name="keras_synthetic_benchmark_scaled",
    ),
    Example(
        "examples/elastic/tensorflow2/tensorflow2_mnist_elastic.py",
        ((r"100 // hvd", "8 // hvd"),),
        entry=MAIN,
    ),
    Example(
        "examples/elastic/tensorflow2/tensorflow2_keras_mnist_elastic.py",
        ((r"500 // hvd", "4 // hvd"), (r"epochs=24", "epochs=4")),
    ),
    Example("examples/elastic/tensorflow2/tensorflow2_synthetic_benchmark_elastic.py", BENCHMARK),
    Example(
        "examples/ray/tensorflow2_mnist_ray.py",
        (
            (r"(?m)^(import ray|from ray|from horovod\.ray|from horovod import).*\n", ""),
            (r"500 // hvd", "4 // hvd"),
        ),
        entry=("if __name__", "train(num_epochs=4)\n"),
    ),
    Example("examples/keras/keras_mnist.py", (*NO_SESSION, (r"12\.0", "4.0"))),
    Example(
        "examples/keras/keras_mnist_advanced.py",
        (
            *NO_SESSION,
            (r"fit_generator", "fit"),
            (r"(?<!_)lr=scaled_lr", "learning_rate=scaled_lr"),
            (r"default=24", "default=4"),
        ),
    ),
    Example(
        "examples/keras/keras_imagenet_resnet50.py",
        (
            *NO_SESSION,
            (r"(fit|evaluate)_generator", r"\1"),
            (r"lr=initial_lr, momentum", "learning_rate=initial_lr, momentum"),
            (r"os\.path\.expanduser\('~/imagenet/\w+'\)", "'pictures'"),
            (r"hvd\.init\(\)\n", "hvd.init()\n" + FOLDER),
            (r"224, 224", "8, 8"),
            (r"default=32", "default=8"),
            (r"default=90", "default=2"),
            (
                r"keras\.applications\.resnet50\.ResNet50\(weights=None\)",
                "keras.Sequential([keras.layers.InputLayer((8, 8, 3)), keras.layers.Conv2D(4, 3, activation='relu'), "
                "keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(2, activation='softmax')])",
            ),
            (r"keras\.models\.Model\.from_config", "keras.Sequential.from_config"),
            (r", 'top_k_categorical_accuracy'", ""),
        ),
    ),
)
#: What stands in for Horovod in an original: one process.
ALONE = """\
from types import SimpleNamespace as Names

nothing = lambda *_, **__: tf.keras.callbacks.Callback()
names = ("BroadcastGlobalVariables", "MetricAverage", "LearningRateWarmup", "LearningRateSchedule")
callbacks = Names(**{f"{name}Callback": nothing for name in names})
one = Names(size=lambda: 1, rank=lambda: 0, local_rank=lambda: 0, init=nothing, broadcast_variables=nothing, callbacks=callbacks)
one.DistributedGradientTape = lambda tape, **_: tape
one.DistributedOptimizer = lambda optimizer, **_: optimizer
one.Compression = Names(none=None)
one.broadcast = lambda value, *_, **__: value
one.allreduce = lambda value, **_: value
one.elastic = Names(
    run=lambda train: train,
    TensorFlowKerasState=lambda *_, **known: Names(**known, commit=nothing, register_reset_callbacks=nothing),
    KerasState=lambda model, **known: Names(model=model, **known, commit=nothing, register_reset_callbacks=nothing),
    UpdateEpochStateCallback=nothing,
    UpdateBatchStateCallback=nothing,
    CommitStateCallback=nothing,
)
hvd = one
"""
DIGITS = """\
import numpy as _numpy

def _digits():
    rng = _numpy.random.default_rng(0)
    images = rng.integers(0, 255, (64, 28, 28)).astype("uint8")
    return (images, _numpy.arange(64) % 10), (images[:32], _numpy.arange(32) % 10)

"""
#: Of any of them: what is downloaded, and how large models and batches are.
SMALLER: tuple[Rewrite, ...] = (
    (r"[\w.]*mnist\.load_data\((?:[^()]|\([^()]*\))*\)", "_digits()"),
    (r"Conv2D\((?:32|64), ", "Conv2D(4, "),
    (r"Dense\((?:128|256|64)\b", "Dense(8"),
    (r"\.batch\(128\)", ".batch(16)"),
    (r"\bbatch_size = (?:128|64|32)\n", "batch_size = 16\n"),
    (r"default=128", "default=16"),
)

#: TensorFlow's tutorials and Keras' guide.
WORKERS = r"tf\.distribute\.(?:MultiWorker)?MirroredStrategy\(\)"
ONE_WORKER = (WORKERS, "tf.distribute.get_strategy()")
TWO = (r"(?m)^(\s*)(num_workers) = .*$", r"\1\2 = 2")
NO_CONFIG = (r"(?m)^tf_config = .*\n", "")
CHIEF = (
    r"task_type, task_id, cluster_spec = \((?:.|\n)*?\)\)\n",
    "task_type, task_id, cluster_spec = None, None, None\n",
)
PLACES = "site/en/tutorials/distribute"
FEW_STEPS = (r"num_steps_per_epoch ?= ?70", "num_steps_per_epoch = 2")
PER_WORKER = (r"per_worker_batch_size = 64", "per_worker_batch_size = 16")
SEEDED_ALL = (r"\.shuffle\(BUFFER_SIZE\)", ".shuffle(BUFFER_SIZE, seed=1)")
SEEDED = (r"\.shuffle\(60000\)", ".shuffle(60000, seed=1)")
RESETS = (r"reset_states\(\)", "reset_state()")
LOOP = Example(
    f"{PLACES}/multi_worker_with_ctl.ipynb",
    (FEW_STEPS, PER_WORKER, RESETS, (r"tf\.keras\.losses\.Reduction\.NONE", "'none'")),
    alone=(ONE_WORKER, TWO, NO_CONFIG, CHIEF),
    entry=("mnist.py", "main.py"),
    keras=0,
)
FIT = Example(
    f"{PLACES}/multi_worker_with_keras.ipynb",
    (PER_WORKER, (r"steps_per_epoch=70", "steps_per_epoch=2")),
    alone=(ONE_WORKER, TWO, NO_CONFIG),
    entry=("mnist_setup.py", "main.py"),
)
CUSTOM = Example(
    f"{PLACES}/custom_training.ipynb",
    (
        (WORKERS, "tf.distribute.MultiWorkerMirroredStrategy()"),
        (r"fashion_mnist = .*\n", ""),
        (r"EPOCHS = 10", "EPOCHS = 3"),
        (r"tf\.keras\.losses\.Reduction\.NONE", "'none'"),
        (r"GLOBAL_BATCH_SIZE = .*", "GLOBAL_BATCH_SIZE = 16"),
        RESETS,
    ),
    alone=(ONE_WORKER,),
    entry=("for epoch in range(EPOCHS)", ""),
    keras=0,
)
TUTORIALS = (
    # Workers shuffle without a seed in common before they shard, which the documentation of `Dataset.shard` warns of.
    replace(LOOP, differs="shards overlap"),
    replace(LOOP, rewrites=(*LOOP.rewrites, SEEDED), name="multi_worker_with_ctl_seeded"),
    replace(FIT, differs="shards overlap"),
    replace(FIT, rewrites=(*FIT.rewrites, SEEDED), name="multi_worker_with_keras_seeded"),
    replace(CUSTOM, differs="shards overlap"),
    replace(CUSTOM, rewrites=(*CUSTOM.rewrites, SEEDED_ALL), name="custom_training_seeded"),
)
GUIDE = Example(
    "guides/distributed_training_with_tensorflow.py",
    ((WORKERS, "tf.distribute.MultiWorkerMirroredStrategy()"), (r"= 10000\n", "= 16\n")),
    alone=(ONE_WORKER,),
)


def changed(text: str, rewrites: tuple[Rewrite, ...], needed: bool = True) -> str:
    """A text with all that patterns match replaced.

    Raises:
        ValueError: one matches nothing, and each is needed.
    """
    for pattern, new in rewrites:
        text, count = re.subn(pattern, new, text)
        if needed and not count:
            raise ValueError(f"{pattern!r} matches nothing")
    return text


def small(example: Example, text: str) -> str:
    text = changed(text, SMALLER, needed=False)
    return changed(text, example.rewrites)


def horovod_examples(checkout: Path) -> Iterator[Right]:
    for example in HOROVOD:
        text = (checkout / example.path).read_text().replace("import horovod\n", "")
        marker, call = example.entry
        text = text[: text.index(marker)] + call if marker else text
        text = DIGITS + small(example, text)
        line = next(line for line in text.splitlines() if line.startswith("import horovod"))
        alone = "import tensorflow as tf\n" + text.replace(f"{line}\n", ALONE)
        yield right(example, alone, text)


def right(example: Example, alone: str, text: str) -> Right:
    name = example.name or Path(example.path).stem
    return Right(name, alone, text, True, example.keras, example.differs)


# TensorFlow and Keras


def cells_of(path: Path) -> list[str]:
    """The code cells of a notebook."""
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def files_of(cells: list[str], names: tuple[str, ...]) -> str:
    """What some cells write into files, one file after another in one text."""
    written = {c.split("\n", 1)[0].removeprefix("%%writefile "): c.split("\n", 1)[1] for c in cells}
    text = "\n".join(written[name] for name in names)
    module = names[0].removesuffix(".py")
    text = re.sub(rf"(?m)^import {module}\n", "", text)
    return re.sub(rf"(?<!\.)\b{module}\.(?=\w)", "", text)


def tutorial(checkout: Path, example: Example) -> str:
    cells = cells_of(checkout / example.path)
    if example.entry[0].endswith(".py"):
        return files_of([c for c in cells if c.startswith("%%writefile")], example.entry)
    last = next(n for n, cell in enumerate(cells) if example.entry[0] in cell)
    return "\n".join(cells[: last + 1])


def tutorial_examples(checkout: Path) -> Iterator[Right]:
    """Of TensorFlow's documentation."""
    for example in TUTORIALS:
        text = DIGITS + small(example, tutorial(checkout, example))
        yield right(example, changed(text, example.alone), text)


def guide_examples(checkout: Path) -> Iterator[Right]:
    """Of Keras' documentation. Its other guide, `distribution.py`, trains nothing."""
    text = DIGITS + small(GUIDE, (checkout / GUIDE.path).read_text())
    yield right(GUIDE, changed(text, GUIDE.alone), text)
