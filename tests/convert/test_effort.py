"""Programs that lead an analysis astray: deep trees, names in terms of themselves, functions passed around."""

import json
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_hvd import convert_notebook, convert_source
from jupyter_hvd.convert.documents import Notebook
from jupyter_hvd.convert.model_parameters import list_model_sizes
from jupyter_hvd.files import UnusableInputError
from jupyter_hvd.jobs.program import script_of
from jupyter_hvd.notebook.cell_names import names_of
from jupyter_hvd.notebook.errors import DistributeError
from jupyter_hvd.notebook.program import check_syntax
from jupyter_hvd.server.worker import answer_convert, answer_request
from jupyter_hvd.source.parsing import UnparsableError, parse_python

TRAINING = """
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
for x, y in tf.data.Dataset.from_tensor_slices((xs, ys)).batch(8):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - model(x)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""


def converted(lines: str) -> str:
    conversion = convert_source(f"import tensorflow as tf\n{lines}\n{TRAINING}")
    assert conversion.status == "converted", conversion.diagnostics
    return conversion.code


def test_sum_of_a_thousand_terms() -> None:
    total = "total = " + " + ".join(["1"] * 1000)
    assert total in converted(total)


@pytest.mark.parametrize("source", ["(" * 3000 + "1" + ")" * 3000, "-" * 50_000 + "1"])
def test_what_python_itself_cannot_read(source: str) -> None:
    conversion = convert_source(f"x = {source}\n")
    assert conversion.status == "invalid"
    assert "nested" in conversion.diagnostics[0].message


def test_part_of_itself_for_ever() -> None:
    converted("part = load()\nwhile more(part):\n    part = part[0] if odd(part) else part[2]")


def test_pairs_made_of_themselves() -> None:
    conversion = convert_source(
        "import tensorflow as tf\n\n\n"
        "def step(optimizer, pairs):\n    pairs = list(pairs)\n    optimizer.apply_gradients(pairs)\n"
    )
    assert conversion.status == "converted"


def test_step_that_is_passed_through_functions() -> None:
    source = TRAINING.partition("for x, y")[0] + (
        "def step(x, y):\n"
        "    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_mean(tf.square(y - model(x)))\n"
        "    gradients = tape.gradient(loss, model.trainable_variables)\n"
        "    optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n\n\n"
        "def epoch(run, data):\n    for x, y in data:\n        run(x, y)\n\n\n"
        "def train(run, data):\n    epoch(run, data)\n\n\n"
        "train(tf.function(step), tf.data.Dataset.from_tensor_slices((xs, ys)).batch(8))\n"
    )
    conversion = convert_source(f"import tensorflow as tf\n{source}")
    assert conversion.status == "converted", conversion.diagnostics
    assert "batch(8 * hvd.size())" in conversion.code


# What Python's own parser breaks down at

TOO_DEEP = {
    "signs": "-" * 100_000 + "1",
    "words": "not " * 50_000 + "a",
    "lists": "[" * 199 + "]" * 199,
    "brackets that stay open": "[" * 199,
    "calls": "f(" * 150 + ")" * 150,
    "attributes": "a" + ".b" * 30_000,
    "a sum": "+".join(["a"] * 60_000),
    "a null character": "'\0'",
}


@pytest.mark.parametrize("source", TOO_DEEP.values(), ids=TOO_DEEP)
def test_everything_that_parses_gives_an_answer(source: str, tmp_path: Path) -> None:
    cells = ["import tensorflow as tf", f"a = 1\n\nx = {source}", TRAINING]
    notebook = new_notebook(cells=[*map(new_code_cell, cells)])
    conversion = convert_notebook(notebook)
    list_model_sizes(cells)
    names_of(cells[1])
    body = json.dumps({"notebook": notebook}).encode()
    status, answered = answer_request(partial(answer_convert, root=tmp_path), body)
    assert (status, json.loads(answered)["status"]) == (200, conversion.status)
    with suppress(UnusableInputError):
        script_of(Notebook(notebook))
    if conversion.status == "invalid":
        (found,) = conversion.diagnostics
        assert (found.cell, found.line) == (1, 3)


def test_what_is_nested_too_deeply_is_refused_with_its_place() -> None:
    for name in ("signs", "words"):
        source = f"a = 1\nx = {TOO_DEEP[name]}\ny = 2\n"
        found = convert_source(source).diagnostics[0]
        assert (found.line, found.severity) == (2, "error")
        assert "nested too deeply" in found.message
        with pytest.raises(DistributeError, match="nested too deeply"):
            check_syntax(source)
        with pytest.raises(UnparsableError, match=r"nested too deeply \(line 2\)"):
            parse_python(source)


def test_sizes_of_models_stay_small_numbers() -> None:
    squares = "a = 3\n" + "a = a * a\n" * 60
    layer = "tf.keras.layers.Dense(a, input_shape=(2,))"
    assert list_model_sizes([f"{squares}m = tf.keras.Sequential([{layer}])"]) == []
    assert (
        list_model_sizes([f"a = 3 * 4\nm = tf.keras.Sequential([{layer}])"])[0]["parameters"] == 36
    )


def test_many_functions_that_call_two_others_each() -> None:
    functions = "".join(f"def f{n}(a):\n    return f{n + 1}(a) + f{n + 2}(a)\n" for n in range(600))
    code = converted(functions + "first = f0(1)")
    assert "horovod" in code
