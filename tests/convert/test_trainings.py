"""Which calls train, and what is converted of them."""

from __future__ import annotations

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import Conversion

HEAD = """import numpy as np
import tensorflow as tf

def build():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile('sgd', 'mse')
    return model

"""


def convert(text: str) -> Conversion:
    return convert_source(HEAD + text)


def codes(conversion: Conversion) -> set[str]:
    return {d.code for d in conversion.diagnostics if d.severity == "error"}


@pytest.mark.parametrize(
    "given", ["batches(), 20, 2, 2", "generator=batches(), steps_per_epoch=20, verbose=2"]
)
def test_arguments_of_fit_generator(given: str) -> None:
    text = (
        f"def batches():\n    while True:\n        yield x, y\n\nbuild().fit_generator({given})\n"
    )
    code = convert(text).code
    assert "jhvd.join_batches(batches())" in code
    assert "max(1, 20 // hvd.size())" in code
    assert "2 if hvd.rank() == 0 else 0" in code
    assert "callbacks=[jhvd.BroadcastGlobalVariablesCallback(0)]" in code


STRATEGY = """import tensorflow as tf

strategy = tf.distribute.{made}
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(8))


class Trainer:
    def __init__(self):
        self.model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        self.optimizer = tf.keras.optimizers.SGD(0.1)

    def step(self, bx, by):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(by - self.model(bx)))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    @tf.function
    def distributed(self, inputs):
        return strategy.run(self.step, args={args})


trainer = Trainer()
for inputs in data:
    trainer.distributed(inputs)
"""


@pytest.mark.parametrize("args", ["inputs", "(inputs[0], inputs[1])"])
def test_a_strategy_of_one_machine_goes(args: str) -> None:
    code = convert_source(STRATEGY.format(made="MirroredStrategy()", args=args)).code
    assert "strategy = tf.distribute.get_strategy()" in code
    assert "from_tensor_slices((x, y)).batch(8 * hvd.size())" in code
    assert "        tape = jhvd.DistributedGradientTape(tape)" in code


def test_a_strategy_of_several_machines_stays() -> None:
    text = STRATEGY.format(made="MultiWorkerMirroredStrategy()", args="inputs")
    assert "HVD902" in codes(convert_source(text))


def test_a_name_that_held_the_function_that_builds() -> None:
    assert convert("build = build()\nbuild.fit(x, y)\n").status == "converted"


def test_a_model_that_a_star_brings_in_place_of_a_function() -> None:
    """Nothing has a `fit` that is a function; it was left alone in silence."""
    conversion = convert_source(
        "import tensorflow as tf\n\n\ndef model(data):\n    return len(data)\n\n\nprint(model([1]))\n"
        "from poems import *\n\nmodel.fit(x, y, batch_size=128, epochs=1)\n"
    )
    assert conversion.status == "converted"
    assert "128 * hvd.size()" in conversion.code


BUILDS = """import functools
import tensorflow as tf


def build(choices, width=8):
    model = tf.keras.Sequential([tf.keras.layers.Dense(width)])
    model.compile(tf.keras.optimizers.Adam(0.1), loss='mse')
    return model


"""


@pytest.mark.parametrize(
    "program",
    [
        ("make = functools.partial(build, 1)\nmake().fit(x, y)\n"),
        ("make = functools.partial(build, width=1)\nmake(2, width=3).fit(x, y)\n"),
    ],
)
def test_a_function_with_some_of_its_arguments_given(program: str) -> None:
    conversion = convert_source(BUILDS + program)
    assert conversion.status == "converted", conversion.diagnostics
    assert "Adam(0.1 * hvd.size())" in conversion.code


BUILT = """\
import tensorflow as tf
def build():
    made = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    made.compile(tf.keras.optimizers.SGD(0.1), loss="mse")
    return made
"""


@pytest.mark.parametrize(
    "made",
    [
        "ms = {'a': build(), 'b': build()}\n",
        "def make():\n    return {'a': build(), 'b': build()}\nms = make()\n",
        "ms = {k: build() for k in 'ab'}\n",
        "def make():\n    return {k: build() for k in 'ab'}\nms = make()\n",
        "ms = {}\nfor k in 'ab':\n    ms[k] = build()\n",
        "def make():\n    ms = {}\n    for k in 'ab':\n        ms[k] = build()\n    return ms\nms = make()\n",
    ],
)
@pytest.mark.parametrize(
    "trained",
    [
        "for m in ms.values():\n    m.fit(x, y)\n",
        "for m in list(ms.values()):\n    m.fit(x, y)\n",
        "for k, m in ms.items():\n    m.fit(x, y)\n",
        "for i, (k, m) in enumerate(ms.items()):\n    m.fit(x, y)\n",
        "for k, m in sorted(ms.items()):\n    m.fit(x, y)\n",
        "for k in ms:\n    ms[k].fit(x, y)\n",
        "kept = {k: m.fit(x, y) for k, m in ms.items()}\n",
        "ms['a'].fit(x, y)\n",
        "ms.get('a').fit(x, y)\n",
        "m = ms.pop('a')\nm.fit(x, y)\n",
    ],
)
def test_models_in_a_dictionary_are_trained(made: str, trained: str) -> None:
    """Their `fit` was refused, as of something that nothing tells to be a model, or, of what is sorted, left as it was."""
    conversion = convert_source(BUILT + made + trained)
    assert conversion.status == "converted", conversion.diagnostics
    assert "BroadcastGlobalVariablesCallback" in conversion.code
