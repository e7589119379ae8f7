"""Batches and learning rates are multiplied by the number of ranks, each once, where the program says them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_hvd import Options, convert_source
from jupyter_hvd.jobs.shared_runtime import runtime_file

#: Batches and rates alone: counts of steps are edited by HVD804.
SCALED = Options(select=("HVD7", "HVD801", "HVD802", "HVD803", "HVD9", "HVD102", "HVD104"))
ADDED = ("jupyter_hvd", "horovod", "start_shared", "hvd.init()")
HEAD = "import numpy as np\nimport tensorflow as tf\nimport keras\nx, y = np.load('x.npy'), np.load('y.npy')\n"
MODEL = "model = keras.Sequential([keras.layers.Dense(1)])\nmodel.compile(keras.optimizers.SGD(0.1), loss='mse')\n"
PIPELINE = "data = tf.data.Dataset.from_tensor_slices((x, y))"
STEP = """\
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""


def changed(program: str) -> list[str]:
    """The lines of a program as they are after the conversion, where they differ, but for what starts Horovod."""
    conversion = convert_source(HEAD + program, options=SCALED)
    assert conversion.status == "converted", conversion.diagnostics
    before = (HEAD + program).splitlines()
    return [
        line.strip()
        for line in conversion.code.splitlines()
        if line not in before and not any(word in line for word in ADDED)
    ]


def told(program: str) -> set[tuple[str, str]]:
    """The rules that tell something, and how severe that is."""
    conversion = convert_source(HEAD + program, options=SCALED)
    return {(d.code, d.severity) for d in conversion.diagnostics}


def test_noise_for_each_row_grows_with_the_batch():
    source = f"""{MODEL}
optimizer = keras.optimizers.SGD(0.1)
seeds = tf.random.normal((8, 3))
def train(b):
    noise = tf.random.normal((8, 3)) + tf.random.uniform((4, 1))
    a = noise
{STEP}
for batch in {PIPELINE[7:]}.batch(8):
    train(batch)
model(seeds)
"""
    assert [line for line in changed(source) if "random" in line] == [
        "noise = tf.random.normal((8 * hvd.size(), 3)) + tf.random.uniform((4, 1))"
    ]


ONE_BATCH_EACH = {
    "a loop draws": f"{MODEL}for step in range(300):\n    some = np.array(random.sample(memory, 32))\n    model.fit(some, some)",
    "a name": f"{MODEL}while True:\n    some = np.array(random.sample(old, SIZE))\n    model.fit(some, some, batch_size=SIZE)",
    "a loop cuts": f"{MODEL}for i in range(0, len(x), 16):\n    model.fit(x[i:i + 16], y[i:i + 16])",
    "a function that a loop calls": f"""{MODEL}
def replay(rows):
    for one, other in random.sample(memory, rows):
        model.fit(one, other)
for step in range(300):
    replay(8)""",
}


@pytest.mark.parametrize("source", ONE_BATCH_EACH.values(), ids=ONE_BATCH_EACH.keys())
def test_rows_that_are_drawn_for_one_batch_are_not_scaled_and_reported(source: str):
    source = "import random\n" + source
    assert not [line for line in changed(source) if "size" in line]
    assert ("HVD801", "warning") in told(source)


def test_a_size_that_is_set_beside_others_is_multiplied_where_it_is_read():
    source = f"""{MODEL}
class Settings:
    def __init__(self, path):
        self.epochs, self.batch_size = 4, 16
        self.__dict__.update(json.load(open(path)))
some = Settings("settings.json")
model.fit(x, y, batch_size=some.batch_size, epochs=some.epochs)
"""
    fit = "model.fit(x, y, batch_size=some.batch_size * hvd.size(), epochs=some.epochs)"
    assert fit in changed("import json\n" + source)
    assert "self.epochs, self.batch_size" not in "".join(changed("import json\n" + source))


def test_noise_of_a_named_batch_size_is_the_batch_of_a_step():
    source = f"""{MODEL}
class Settings:
    def __init__(self, **given):
        self.batch_size = 32
        for name, value in given.items():
            setattr(self, name, value)
some = Settings(epochs=2)
rng = np.random.default_rng(0)
for b in range(len(x) // some.batch_size):
    z = rng.normal(size=(some.batch_size, 4))
    model.train_on_batch(z, np.ones((some.batch_size, 1)))
"""
    assert "self.batch_size = 32 * hvd.size()" in changed(source)
    assert not told(source)


def test_many_rows_that_are_drawn_are_cut_into_batches():
    source = f"{MODEL}for turn in range(9):\n    rows = np.random.choice(len(x), 5000)\n    model.fit(x[rows], y[rows])"
    assert "model.fit(x[rows], y[rows], batch_size=32 * hvd.size())" in changed(source)
    assert not told(source)


BATCHES = {
    "a size and a rate side by side": (
        "SIZE, RATE = 8, 0.1\nmodel.compile(keras.optimizers.SGD(RATE))\nmodel.fit(x, y, SIZE)",
        [
            "SIZE, RATE = 8 * hvd.size(), 0.1",
            "model.compile(keras.optimizers.SGD(RATE * hvd.size()))",
        ],
    ),
    "fit without a size": ("model.fit(x, y)", ["model.fit(x, y, batch_size=32 * hvd.size())"]),
    "fit with a size": ("model.fit(x, y, 16)", ["model.fit(x, y, 16 * hvd.size())"]),
    "fit cuts what a dataset gives, by a size": (
        f"{PIPELINE}.batch(64)\n{MODEL}for a, b in data:\n    model.fit(a, b, batch_size=16)",
        [
            f"{PIPELINE}.batch(64 * hvd.size())",
            "model.compile(keras.optimizers.SGD(0.1 * hvd.size()), loss='mse')",
            "model.fit(a, b, batch_size=16 * hvd.size())",
        ],
    ),
    "a pipeline": (
        f"{PIPELINE}.batch(8).prefetch(1)\nmodel.fit(data)",
        [f"{PIPELINE}.batch(8 * hvd.size()).prefetch(1)"],
    ),
    "evaluation keeps its size": (
        f"SIZE = 8\n{PIPELINE}.batch(SIZE)\ntest = data.batch(SIZE)\nmodel.fit(data, validation_data=test)".replace(
            "test = data", "test = tf.data.Dataset.from_tensor_slices((x, y))"
        ),
        [f"{PIPELINE}.batch(SIZE * hvd.size())"],
    ),
    "a definition that steps are counted by": (
        "SIZE = 8\nmodel.fit(x, y, batch_size=SIZE, steps_per_epoch=len(x) // SIZE)",
        ["SIZE = 8 * hvd.size()"],
    ),
    "one of two numbers that a size is computed from": (
        f"SIZE = 8\nBATCH = 2 * SIZE\n{PIPELINE}.batch(BATCH)\nmodel.fit(data)\nmodel.fit(x, y, batch_size=SIZE)",
        ["SIZE = 8 * hvd.size()"],
    ),
    "a size that a model is built for": (
        f"SIZE = 8\n{PIPELINE}.batch(SIZE)\nother = build(batch_size=SIZE)\nmodel.fit(data)",
        ["SIZE = 8 * hvd.size()"],
    ),
    "an option of the command line": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--size', type=int)\n"
        "args = parser.parse_args()\nmodel.fit(x, y, batch_size=args.size)",
        ["model.fit(x, y, batch_size=args.size * hvd.size())"],
    ),
    "an option that other lines go by": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--size', type=int)\n"
        "args = parser.parse_args()\nprint(args.size)\nif len(x) >= args.size:\n"
        "    model.fit(x, y, batch_size=args.size)\n    model.evaluate(x, y, batch_size=args.size)",
        [
            "if len(x) >= args.size * hvd.size():",
            "model.fit(x, y, batch_size=args.size * hvd.size())",
        ],
    ),
    "arrays by name": (
        "model.fit({'one': x, 'other': y})",
        ["model.fit({'one': x, 'other': y}, batch_size=32 * hvd.size())"],
    ),
    "a dictionary": (
        "config = dict(size=8, epochs=2)\nmodel.fit(x, y, batch_size=config['size'], epochs=config['epochs'])",
        ["config = dict(size=8 * hvd.size(), epochs=2)"],
    ),
    "a function that makes data for training and for evaluation": (
        "def make(x, y, size):\n    return tf.data.Dataset.from_tensor_slices((x, y)).batch(size)\n"
        "model.fit(make(x, y, 8), validation_data=make(x, y, 4))",
        ["model.fit(make(x, y, 8 * hvd.size()), validation_data=make(x, y, 4))"],
    ),
    "a size by its position in a generator of images": (
        "SIZE = 8\nimages = keras.preprocessing.image.ImageDataGenerator().flow(x, y, SIZE)\nmodel.fit(images)",
        ["SIZE = 8 * hvd.size()"],
    ),
    "images of a folder": (
        "model.fit(keras.utils.image_dataset_from_directory('photos'))",
        [
            "model.fit(keras.utils.image_dataset_from_directory('photos', batch_size=32 * hvd.size()))"
        ],
    ),
    "batches that are taken": (
        f"{PIPELINE}.batch(8)\nmodel.fit(data.take(5))",
        ["model.fit(jhvd.join_batches(data.take(5)))"],
    ),
    "batches that are taken of some that have grown": (
        f"{PIPELINE}.batch(8)\nmodel.fit(data)\nmodel.fit(data.take(5))",
        [f"{PIPELINE}.batch(8 * hvd.size())"],
    ),
    "a generator whose size has grown": (
        "SIZE = 8\nmodel.fit(x, y, batch_size=SIZE)\n"
        "def batches():\n    while True:\n        yield draw(x, SIZE)\nmodel.fit(batches(), steps_per_epoch=5)",
        ["SIZE = 8 * hvd.size()"],
    ),
    "arrays of another module": (
        "from other import load\nmodel.fit(load(), batch_size=8)",
        ["model.fit(load(), batch_size=8 * hvd.size())"],
    ),
    "data of another module": (
        "from other import load\nmodel.fit(load())",
        ["model.fit(jhvd.join_batches(load()))"],
    ),
    "rows up to the last": (
        "for i in range(0, len(x), 8):\n    model.train_on_batch(x[i : min(i + 8, len(x))], y[i : min(8 + i, len(x))])",
        [
            "for i in range(0, len(x), 8 * hvd.size()):",
            "model.train_on_batch(x[i : min(i + 8 * hvd.size(), len(x))], y[i : min(8 * hvd.size() + i, len(x))])",
        ],
    ),
    "a counter": (
        "i = 0\nwhile i < len(x):\n    model.train_on_batch(x[i : i + 8], y[i : i + 8])\n    i += 8",
        [
            "model.train_on_batch(x[i : i + 8 * hvd.size()], y[i : i + 8 * hvd.size()])",
            "i += 8 * hvd.size()",
        ],
    ),
    "numbers of batches": (
        "for i in range(len(x) // 8):\n    model.train_on_batch(x[i * 8 : (i + 1) * 8], y[8 * i : 8 * (i + 1)])",
        [
            "for i in range(len(x) // (8 * hvd.size())):",
            "model.train_on_batch(x[i * 8 * hvd.size() : (i + 1) * 8 * hvd.size()], "
            "y[8 * hvd.size() * i : 8 * hvd.size() * (i + 1)])",
        ],
    ),
    "numbers of batches, with names for the bounds": (
        "SIZE = 8\nfor i in range(len(x) // SIZE):\n    start = i * SIZE\n    end = (i + 1) * SIZE\n"
        "    model.train_on_batch(x[start:end], y[start:end])",
        ["SIZE = 8 * hvd.size()"],
    ),
    "numbers that are drawn": (
        "for _ in range(9):\n    rows = np.random.choice(len(x), 8)\n    model.train_on_batch(x[rows], y[rows])",
        ["rows = np.random.choice(len(x), 8 * hvd.size())"],
    ),
}


@pytest.mark.parametrize(("program", "lines"), BATCHES.values(), ids=BATCHES)
def test_batches(program: str, lines: list[str]) -> None:
    rate = "model.compile(keras.optimizers.SGD(0.1 * hvd.size()), loss='mse')"
    assert changed(f"{MODEL}{program}\n") == [rate, *lines]


OPTIMIZERS = {
    "a number": ("keras.optimizers.Adam(1e-3)", "keras.optimizers.Adam(1e-3 * hvd.size())"),
    "a sum": ("keras.optimizers.Adam(lr=r + 1)", "keras.optimizers.Adam(lr=(r + 1) * hvd.size())"),
    "none": ("keras.optimizers.Adam()", "keras.optimizers.Adam(learning_rate=0.001 * hvd.size())"),
    "a name": ("'adam'", "tf.keras.optimizers.Adam(learning_rate=0.001 * hvd.size())"),
    "a schedule": (
        "keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 100))",
        "jhvd.scale_rate(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 100)))",
    ),
    "a decay by steps": (
        "keras.optimizers.legacy.SGD(0.1, decay=1e-3)",
        "jhvd.scale_rate(keras.optimizers.legacy.SGD(0.1, decay=1e-3))",
    ),
    "one around another": (
        "tfa.optimizers.Lookahead(keras.optimizers.Adam(1e-3))",
        "tfa.optimizers.Lookahead(keras.optimizers.Adam(1e-3 * hvd.size()))",
    ),
    "another module's": ("optimizer_of()", "jhvd.scale_rate(optimizer_of())"),
}


@pytest.mark.parametrize(("given", "scaled"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_rates(given: str, scaled: str) -> None:
    program = "from other import optimizer_of\nimport tensorflow_addons as tfa\nr = 0.1\n"
    program += "model = keras.Sequential([keras.layers.Dense(1)])\n"
    program += f"model.compile({given}, loss='mse')\nmodel.fit(x, y, batch_size=4)\n"
    line, fit = changed(program)
    assert line == f"model.compile({scaled}, loss='mse')"
    assert fit == "model.fit(x, y, batch_size=4 * hvd.size())"


TOUCHED = (
    "model.fit(x, y, batch_size=4, callbacks=[keras.callbacks.ReduceLROnPlateau()])",
    "model.optimizer.learning_rate = 0.01\nmodel.fit(x, y, batch_size=4)",
    "model.fit(x, y, batch_size=4)\nprint(model.optimizer.learning_rate)",
    "model.fit(x, y, batch_size=4)\nprint(int(model.optimizer.iterations))",
    "model.fit(x, y, batch_size=4)\ncopy = keras.optimizers.SGD.from_config(model.optimizer.get_config())",
)


@pytest.mark.parametrize("touch", TOUCHED)
def test_a_rate_that_the_program_goes_by_is_scaled_where_it_is_applied(touch: str) -> None:
    assert changed(f"{MODEL}{touch}\n")[0] == (
        "model.compile(jhvd.scale_rate(keras.optimizers.SGD(0.1)), loss='mse')"
    )


def test_a_loaded_model_goes_on_at_n_times_the_rate_that_it_was_saved_with() -> None:
    program = "model = keras.models.load_model('model.keras')\nmodel.fit(x, y, batch_size=4)\n"
    assert changed(program) == [
        "model = jhvd.scale_rate(keras.models.load_model('model.keras'))",
        "model.fit(x, y, batch_size=4 * hvd.size())",
    ]


def test_a_rate_that_follows_the_batch_is_scaled_once() -> None:
    program = "SIZE = 8\nmodel = keras.Sequential([keras.layers.Dense(1)])\n"
    program += "model.compile(keras.optimizers.SGD(0.1 * SIZE / 256), loss='mse')\nmodel.fit(x, y, batch_size=SIZE)\n"
    assert changed(program) == ["SIZE = 8 * hvd.size()"]
    assert ("HVD803", "info") in told(program)


MOMENTS = """\
layer = keras.layers.Dense(1)
layer.build((None, 4))
moments = [tf.Variable(tf.zeros_like(v), trainable=False) for v in layer.trainable_variables]
for i in range(0, len(x), 6):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(x[i : i + 6]) ** 2)
    for v, m, g in zip(layer.trainable_variables, moments, tape.gradient(loss, layer.trainable_variables)):
        m.assign(0.9 * m + 0.1 * g)
        v.assign(v * (1 - 1e-3) - 0.05 * m)
"""


def test_of_a_descent_by_hand_rate_and_decay_are_scaled_and_no_moment() -> None:
    assert changed(MOMENTS) == [
        "for i in range(0, len(x), 6 * hvd.size()):",
        "loss = tf.reduce_mean(layer(x[i : i + 6 * hvd.size()]) ** 2)",
        "v.assign(v * ((1 - 1e-3) ** hvd.size()) - 0.05 * hvd.size() * m)",
    ]


def test_the_file_beside_a_program_has_what_it_needs(tmp_path: Path) -> None:
    options = Options(standalone=True)
    code = convert_source(f"{HEAD}{MODEL}model.fit(x, y)\n", options=options).code
    assert code.startswith("import jupyter_hvd_sharing as jhvd\njhvd.start_shared()")
    (tmp_path / "jupyter_hvd_sharing.py").write_text(runtime_file())
    names = "import jupyter_hvd_sharing as j; print(j.scale_rate, j.join_batches)"
    done = subprocess.run(
        [sys.executable, "-c", names], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


REPORTED = {
    "hidden arguments": (
        "arguments = dict(epochs=2)\nmodel.fit(x, y, **arguments)",
        ("HVD801", "warning"),
    ),
    "another module's training": ("import other\nother.train(model)", ("HVD801", "warning")),
    "all rows": ("model.fit(x, y, batch_size=len(x))", ("HVD801", "info")),
}


@pytest.mark.parametrize(("training", "finding"), REPORTED.values(), ids=REPORTED)
def test_what_cannot_be_scaled_is_reported(training: str, finding: tuple[str, str]) -> None:
    assert finding in told(f"{MODEL}{training}\n")


def test_an_optimizer_that_another_module_makes_is_reported() -> None:
    program = "from other import build\nmodel = build()\nmodel.fit(x, y, epochs=3, batch_size=8)\n"
    assert changed(program) == ["model.fit(x, y, epochs=3, batch_size=8 * hvd.size())"]
    assert told(program) == {("HVD803", "warning")}


WHOLE = (
    "model.fit(x, y, batch_size=len(x))",
    "n = x.shape[0]\nmodel.fit(x, y, batch_size=n)",
    f"{PIPELINE}.batch(len(x))\nmodel.fit(data)",
    "model.fit(tf.data.Dataset.from_tensors((x, y)))",
)


@pytest.mark.parametrize("fit", WHOLE)
def test_a_batch_of_all_rows_keeps_its_size_and_rate(fit: str) -> None:
    assert changed(f"{MODEL}{fit}\n") == []
    assert told(f"{MODEL}{fit}\n") == {("HVD801", "info")}


def test_batches_of_a_stateful_layer_do_not_grow() -> None:
    program = (
        "model = keras.Sequential([keras.layers.LSTM(3, stateful=True), keras.layers.Dense(1)])\n"
    )
    program += "model.compile('adam', loss='mse')\nmodel.fit(x, y, batch_size=1)\n"
    assert changed(program) == []
    assert told(program) == {("HVD801", "info")}


def test_an_optimizer_of_all_rows_beside_one_that_is_scaled() -> None:
    program = "model = keras.Sequential([keras.layers.Dense(1)])\n"
    program += "optimizer, first = keras.optimizers.Adam(0.1), keras.optimizers.SGD(0.2)\n"
    whole = STEP.replace("optimizer.", "first.")
    program += f"for a, b in {PIPELINE[7:]}.batch(len(x)):\n{whole}"
    program += f"for a, b in {PIPELINE[7:]}.batch(4):\n{STEP}"
    assert changed(program) == [
        "optimizer, first = keras.optimizers.Adam(0.1 * hvd.size()), keras.optimizers.SGD(0.2)",
        f"for a, b in {PIPELINE[7:]}.batch(4 * hvd.size()):",
    ]


def test_reasons_say_what_becomes_of_the_training() -> None:
    conversion = convert_source(f"{HEAD}{MODEL}model.fit(x, y, batch_size=32)\n", options=SCALED)
    reasons = {change.rule: change.why for change in conversion.changes}
    assert reasons["HVD801"].startswith("batch 32 → 32 × ranks: N ranks train on N × 32 rows")
    assert reasons["HVD803"].startswith("rate 0.1 → 0.1 × ranks")
    assert not any(re.search(r"\d ranks|1/\d", reason) for reason in reasons.values())


@pytest.mark.parametrize("left", ["HVD801", "HVD803"])
def test_each_can_be_left_out(left: str) -> None:
    options = replace(SCALED, ignore=(left,))
    conversion = convert_source(f"{HEAD}{MODEL}model.fit(x, y, batch_size=32)\n", options=options)
    assert {change.rule for change in conversion.changes} == {
        "HVD101",
        "HVD701",
        "HVD801",
        "HVD803",
    } - {left}


def test_a_scaled_program_is_not_converted_again() -> None:
    once = convert_source(f"{HEAD}{MODEL}model.fit(x, y)\n", options=SCALED).code
    assert convert_source(once, options=SCALED).status == "unchanged"


def test_settings_of_a_project(hvd, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.jupyter-hvd]\nbatch = "global"\n')
    (tmp_path / "train.py").write_text(f"{HEAD}{MODEL}model.fit(x, y)\n")
    more: tuple[str, ...]
    for more, rules in (
        ((), {"HVD701"}),
        (("--batch", "per-rank", "--select", "HVD7,HVD801"), {"HVD101", "HVD701", "HVD801"}),
    ):
        done = hvd("convert", "train.py", "--check", "--json", *more)
        assert {c["rule"] for c in json.loads(done.stdout)["files"][0]["changes"]} == rules


def test_a_rate_that_grows_in_the_first_epochs(hvd, tmp_path: Path) -> None:
    """It is multiplied where it is applied; in loops, whose epochs nobody counts, that is told. It goes with growing batches."""
    options = Options(select=SCALED.select, warmup_epochs=3)
    fits = convert_source(f"{HEAD}{MODEL}model.fit(x, y, 16)\n", options=options)
    assert "compile(jhvd.scale_rate(keras.optimizers.SGD(0.1), warmup_epochs=3), " in fits.code
    (why,) = (change.why for change in fits.changes if change.rule == "HVD803")
    assert "first 3 epochs" in why
    loop = f"optimizer = keras.optimizers.SGD(0.1)\nfor a, b in {PIPELINE[7:]}.batch(8):\n{STEP}"
    loops = convert_source(f"{HEAD}{MODEL}{loop}", options=options)
    assert any("this training has no warm-up" in d.message for d in loops.diagnostics)
    (tmp_path / "train.py").write_text(f"{HEAD}{MODEL}model.fit(x, y)\n")
    refused = hvd("run", "train.py", "-n", 1, "--batch", "global", "--warmup-epochs", 3)
    assert (refused.returncode, "--warmup-epochs: --batch global" in refused.stderr) == (2, True)


PRODUCTS = {
    "a batch of one row": ("1", "hvd.size()"),
    "a product": ("2 * rows", "2 * rows * hvd.size()"),
    "a quotient": ("total // 4", "total // 4 * hvd.size()"),
    "a sum": ("rows + 1", "(rows + 1) * hvd.size()"),
    "in parentheses": ("(rows + 1)", "(rows + 1) * hvd.size()"),
    "a choice": ("8 if rows else 4", "(8 if rows else 4) * hvd.size()"),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_written_without_what_changes_nothing(name: str):
    size, product = PRODUCTS[name]
    source = f"from settings import rows, total\nmodel = keras.models.load_model('m')\nmodel.fit(x, y, batch_size={size})"
    assert f"model.fit(x, y, batch_size={product})" in changed(source)


def test_batches_of_another_modules_dataset():
    """Noise of as many rows as the batch has is drawn by the same number."""
    source = f"""from data import photos
BATCH = 8
data = photos().shuffle(100).batch(BATCH, drop_remainder=True)
{MODEL}optimizer = keras.optimizers.SGD(0.1)
for b in data:
    a = tf.random.normal((BATCH, 3))
{STEP}"""
    assert "BATCH = 8 * hvd.size()" in changed(source)
    assert not [line for line in changed(source) if "join_batches" in line]


def test_a_size_that_is_passed_to_another_modules_function():
    source = f"""from data import next_batch
{MODEL}for step in range(100):
    model.train_on_batch(*next_batch(x, y, batch_size=16))
"""
    lines = changed(source)
    assert "model.train_on_batch(*next_batch(x, y, batch_size=16 * hvd.size()))" in lines
    assert "model.compile(keras.optimizers.SGD(0.1 * hvd.size()), loss='mse')" in lines


def test_an_optimizer_that_nothing_is_known_of_is_scaled_where_it_is_compiled():
    head = (
        "from tensorflow.python.keras.optimizer_v2.adam import Adam\nmodel = keras.Sequential([])\n"
    )
    source = f"{head}opt = Adam(0.1)\nmodel.compile(optimizer=opt)\nmodel.fit(x, y)"
    assert "model.compile(optimizer=jhvd.scale_rate(opt))" in changed(source)


def test_batches_that_are_taken_by_a_number_that_follows_their_size():
    """So what is made for each row of a batch, a state or a first word, has as many rows as the batch."""
    source = f"""SIZE = 8
steps = len(x) // SIZE
{PIPELINE}.batch(SIZE, drop_remainder=True)
state = np.zeros((SIZE, 4))
{MODEL}for a, b in data.take(steps):
    model.train_on_batch([a, state], b)
"""
    assert "SIZE = 8 * hvd.size()" in changed(source)
    assert not [line for line in changed(source) if "join_batches" in line]


def test_of_classes_and_rows_of_each_the_classes_grow() -> None:
    """A batch that was N times as large in both had N squared times the rows."""
    program = f"""
P, K = 4, 3
def batches():
    while True:
        classes = np.random.choice(10, P)
        yield np.concatenate([x[c][np.random.choice(30, K)] for c in classes]), np.repeat(classes, K)
optimizer = tf.keras.optimizers.SGD(0.1)
for a, b in batches():
{STEP}"""
    assert "P, K = 4 * hvd.size(), 3" in changed(MODEL + program)


def test_an_entry_beside_the_batch_size_does_not_follow_it() -> None:
    """A rate that was taken for one that is computed from the batch, as both stand in one dictionary, was not scaled."""
    program = f"""
C = dict(batch=24, lr=0.03)
optimizer = tf.keras.optimizers.SGD(C["lr"])
for a, b in {PIPELINE.removeprefix("data = ")}.batch(C["batch"]):
{STEP}"""
    assert changed(MODEL + program)[1:] == [
        "C = dict(batch=24 * hvd.size(), lr=0.03)",
        'optimizer = tf.keras.optimizers.SGD(C["lr"] * hvd.size())',
    ]


SAM = """\
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
model = keras.Sequential([keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.1)
for a, b in data:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    moves = [0.05 * g / (tf.linalg.global_norm(gradients) + 1e-12) for g in gradients]
    for w, move in zip(model.trainable_variables, moves):
        w.assign_add(move)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    for w, move in zip(model.trainable_variables, moves):
        w.assign_sub({undone})
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""


@pytest.mark.parametrize(("undone", "count"), [("move", 0), ("tf.abs(move)", 2)])
def test_weights_that_are_moved_back_have_no_rate(undone: str, count: int) -> None:
    conversion = convert_source(HEAD + SAM.format(undone=undone), options=SCALED)
    told = [d for d in conversion.diagnostics if "without an optimizer" in d.message]
    assert len(told) == count


def test_a_step_on_unknown_rows_is_not_said_to_take_all() -> None:
    program = """\
    model = keras.Sequential([keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    for episode in range(8):
        states = play(model)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(states))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    """
    conversion = convert_source(HEAD + textwrap.dedent(program), options=SCALED)
    assert [d.message for d in conversion.diagnostics] == [
        "no number of rows was found that this step takes, so neither batch nor rate is scaled"
    ]


OWN = "optimizer = keras.optimizers.SGD(0.1)\n"
SCALED_OWN = "optimizer = keras.optimizers.SGD(0.1 * hvd.size())"


def test_a_generator_that_hands_batches_on() -> None:
    program = (
        "def forever(data):\n    while True:\n        for batch in data:\n            yield batch\n"
        f"batches = forever({PIPELINE[7:]}.batch(SIZE))\n"
        f"for step in range(100):\n    a, b = next(batches)\n    c = np.random.normal(size=(SIZE, 2))\n{STEP}"
    )
    assert changed(
        f"SIZE = 8\nmodel = keras.Sequential([keras.layers.Dense(1)])\n{OWN}{program}"
    ) == ["SIZE = 8 * hvd.size()", SCALED_OWN]


def test_batches_of_buckets() -> None:
    bucketed = "ds.bucket_by_sequence_length(len, [4, 8], {})"
    program = (
        f"model = keras.Sequential([keras.layers.Dense(1)])\n{OWN}ds = tf.data.TFRecordDataset('rows')\n"
        f"for a, b in {bucketed.format('[16, 8, 8]')}:\n{STEP}"
    )
    sizes = "[16 * hvd.size(), 8 * hvd.size(), 8 * hvd.size()]"
    assert changed(program) == [SCALED_OWN, f"for a, b in {bucketed.format(sizes)}:"]


def test_rows_up_to_a_bounded_end() -> None:
    program = f"""model = keras.Sequential([keras.layers.Dense(1)])\n{OWN}def batches(size):
    order = np.random.permutation(len(x))
    for number in range(len(x) // size):
        low = number * size
        high = min(low + size, len(x))
        yield x[order[low:high]], y[order[low:high]]
for a, b in batches(8):
{STEP}"""
    assert changed(program) == [SCALED_OWN, "for a, b in batches(8 * hvd.size()):"]


@pytest.mark.parametrize(
    ("optimizer", "loss", "is_scaled"),
    [
        ("SGD", "tf.reduce_sum((model(a) - b) ** 2)", False),
        ("Adam", "tf.reduce_sum((model(a) - b) ** 2)", True),
        ("SGD", "tf.reduce_sum((model(a) - b) ** 2) / len(a)", True),
        ("SGD", "tf.reduce_mean(tf.reduce_sum((model(a) - b) ** 2, axis=1))", True),
    ],
)
def test_a_summed_loss_grows_with_the_batch(optimizer: str, loss: str, is_scaled: bool) -> None:
    step = STEP.replace("tf.reduce_mean((model(a) - b) ** 2)", loss)
    program = (
        "model = keras.Sequential([keras.layers.Dense(1)])\n"
        f"optimizer = keras.optimizers.{optimizer}(0.1)\nfor a, b in {PIPELINE[7:]}.batch(4):\n{step}"
    )
    conversion = convert_source(HEAD + program, options=SCALED)
    assert ("(0.1 * hvd.size())" in conversion.code) == is_scaled
    assert bool(conversion.diagnostics) != is_scaled


def test_a_step_that_draws_from_what_its_loop_collects() -> None:
    program = """\
    import random
    model = keras.Sequential([keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    memory = []
    for step in range(100):
        {filled}memory.append(play(model))
        a = np.stack(random.sample(memory, 8))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(a) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    """
    text = HEAD + textwrap.dedent(program).format(filled="")
    told = [d.message for d in convert_source(text, options=SCALED).diagnostics]
    assert len(told) == 1
    assert told[0].startswith("this step draws its rows from a list that the same loop fills")
    outside = text.replace("    memory.append(play(model))\n", "").replace(
        "memory = []", "memory = []\nfor row in x:\n    memory.append(row)"
    )
    assert convert_source(outside, options=SCALED).diagnostics == ()


@pytest.mark.parametrize("optimizer", ["keras.optimizers.SGD(0.1)", "'sgd'"])
@pytest.mark.parametrize(
    ("loss", "is_scaled"),
    [
        ("keras.losses.MeanSquaredError(reduction='sum')", False),
        ("tf.keras.losses.Huber(reduction=tf.keras.losses.Reduction.SUM)", False),
        ("keras.losses.MeanSquaredError()", True),
        ("'mse'", True),
    ],
)
def test_a_loss_that_compile_sums_grows_with_the_batch(
    optimizer: str, loss: str, is_scaled: bool
) -> None:
    program = (
        "model = keras.Sequential([keras.layers.Dense(1)])\n"
        f"loss = {loss}\nmodel.compile({optimizer}, loss=loss)\nmodel.fit(x, y, batch_size=4)\n"
    )
    conversion = convert_source(HEAD + program, options=SCALED)
    (compiled,) = (line for line in conversion.code.splitlines() if ".compile(" in line)
    assert ("hvd.size()" in compiled) == is_scaled
    assert any("is a sum" in d.message for d in conversion.diagnostics) != is_scaled
