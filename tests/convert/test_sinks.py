"""Every place where weights change is found, from the call that changes them."""

from __future__ import annotations

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert.rules.base import program

HEAD = program(
    """
    import numpy as np
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    opt = tf.keras.optimizers.SGD(0.1)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
    """
)
STEP = """with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - model(bx)))
    gradients = tape.gradient(loss, model.trainable_variables)"""


def converted(body: str) -> str:
    conversion = convert_source(HEAD + body)
    assert conversion.status == "converted", conversion.diagnostics
    return conversion.code


def refused(source: str) -> set[str]:
    conversion = convert_source(source)
    assert conversion.status == "refused"
    return {d.code for d in conversion.diagnostics if d.severity == "error"}


def test_an_inherited_apply_gradients_is_an_update() -> None:
    code = converted(
        "class Own(tf.keras.optimizers.Optimizer):\n    def update_step(self, gradient, variable):\n        pass\n\n\n"
        f"own = Own('own')\nfor bx, by in dataset:\n    {STEP}\n"
        "    own.apply_gradients(zip(gradients, model.trainable_variables))\n"
    )
    assert "DistributedGradientTape" in code


MODEL = "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('adam', loss='mse')\n"


@pytest.mark.parametrize(
    "made",
    [
        "import tensorflow_recommenders as tfrs\nclass Own(tfrs.Model): pass\nmodel = Own()",
        "from mymodels import Base\nclass Own(Base): pass\nmodel = Own()",
        "from mymodels import make\nmodel = make()",
    ],
)
@pytest.mark.parametrize("compiled", ["'adam', 'mse'", "optimizer=tf.keras.optimizers.Adam()"])
def test_models_of_other_modules_are_trained_by_fit(made: str, compiled: str) -> None:
    """What has `compile` and `fit` is Keras', whoever makes it."""
    conversion = convert_source(
        f"import tensorflow as tf\n{made}\nmodel.compile({compiled})\nmodel.fit(x, y)\n"
    )
    assert conversion.status == "converted"
    assert {"HVD202", "HVD401"} <= {change.rule for change in conversion.changes}


def test_a_main_function_that_a_library_runs() -> None:
    body = "def main(argv):\n" + "".join(f"    {line}\n" for line in MODEL.splitlines()[1:])
    conversion = convert_source(
        "import tensorflow as tf\nfrom absl import app\n"
        + body
        + "    model.fit(x, y)\napp.run(main)\n"
    )
    assert conversion.status == "converted", conversion.diagnostics


RESOLVER = "tf.distribute.cluster_resolver.TPUClusterResolver()"
TPU = {
    "tried": f"try:\n    s = tf.distribute.TPUStrategy({RESOLVER})\nexcept ValueError:\n    s = tf.distribute.get_strategy()\n",
    "asked": f"try:\n    tpu = {RESOLVER}\nexcept ValueError:\n    tpu = None\n"
    "if tpu:\n    tf.config.experimental_connect_to_cluster(tpu)\n    s = tf.distribute.experimental.TPUStrategy(tpu)\n"
    "else:\n    s = tf.distribute.MirroredStrategy()\n",
    "alone": f"s = tf.distribute.TPUStrategy({RESOLVER})\n",
    "workers": "try:\n    s = tf.distribute.MultiWorkerMirroredStrategy()\n"
    "except ValueError:\n    s = tf.distribute.get_strategy()\n",
}


@pytest.mark.parametrize(
    ("name", "is_converted"),
    [("tried", True), ("asked", True), ("alone", False), ("workers", False)],
)
def test_a_program_that_goes_on_without_tpus(name: str, is_converted: bool) -> None:
    body = "".join(f"    {line}\n" for line in MODEL.splitlines()[1:])
    conversion = convert_source(
        f"import tensorflow as tf\n{TPU[name]}with s.scope():\n{body}model.fit(x, y)\n"
    )
    assert (conversion.status == "converted") is is_converted
    assert "with s.scope()" in conversion.code
