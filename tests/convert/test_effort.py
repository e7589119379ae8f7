"""Programs that lead an analysis astray: deep trees, names in terms of themselves, functions passed around."""

import pytest

from jupyter_hvd import convert_source

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
    assert conversion.status == "refused"


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
    assert "        run(x, y)\n        jhvd.broadcast_once(optimizer, " in conversion.code
