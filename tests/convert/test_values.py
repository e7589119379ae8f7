"""What expressions may hold, through scopes, aliases, calls, returns and attributes."""

from __future__ import annotations

import libcst as cst
import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.analysis.library import Kind
from jupyter_hvd.analysis.module import Module
from jupyter_hvd.analysis.values import ValueAnalysis
from jupyter_hvd.convert.tensorflow.library import TensorFlowLibrary
from jupyter_hvd.convert.tensorflow.roles import Role

HEAD = "import tensorflow as tf\nfrom tensorflow import keras as k\n"


def kinds_of_last(source: str) -> set[Kind]:
    """The kinds of the expression on the last line."""
    module = Module(HEAD + source)
    line = module.tree.body[-1]
    assert isinstance(line, cst.SimpleStatementLine)
    assert isinstance(line.body[0], cst.Expr)
    return set(ValueAnalysis(module, TensorFlowLibrary()).kinds(line.body[0].value))


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("tf.keras.optimizers.Adam()", {Role.OPTIMIZER}),
        ("k.optimizers.legacy.SGD(0.1)", {Role.OPTIMIZER}),
        ("Adam = tf.keras.optimizers.Adam\nopt = Adam(1)\nopt", {Role.OPTIMIZER}),
        ("o = tf.optimizers\no.Nadam()", {Role.OPTIMIZER}),
        ("from keras.optimizers import Adam as A\nA()", {Role.OPTIMIZER}),
        ("from tensorflow.keras.optimizers import *\nAdam()", {Role.OPTIMIZER}),
        ("from keras.callbacks import *\nfrom keras.models import *\nSequential()", {Role.MODEL}),
        (
            "from keras.applications import *\nfrom keras.callbacks import *\nEarlyStopping()",
            {Role.CALLBACK},
        ),
        ("def make(rate):\n    return k.optimizers.Adam(rate)\nmake(1)", {Role.OPTIMIZER}),
        ("def m(i):\n    return k.Model(i, i)\nm = m(x)\nm", {Role.MODEL}),
        ("def f():\n    pass\nif fast:\n    f = k.Sequential()\nf", {Kind.FUNCTION, Role.MODEL}),
        ("class M(k.Model): pass\nM = M()\nM", {Role.MODEL}),
        ("opts = [k.optimizers.Adam(), k.Sequential()]\nopts[0]", {Role.OPTIMIZER}),
        ("pair = {'m': k.Sequential()}\npair['m']", {Role.MODEL}),
        ("m, o = k.Sequential(), k.optimizers.Adam()\nm", {Role.MODEL}),
        ("class M(k.Model): pass\nclass N(M): pass\nN()", {Role.MODEL}),
        ("class T:\n    def __init__(self, m): self.m = m\nT(k.Sequential()).m", {Role.MODEL}),
        ("class T: pass\nT()", {Kind.INSTANCE}),
        ("m = k.Sequential() if c else None\nm", {Role.MODEL, Kind.NONE}),
        ("m = k.Sequential()\nm.compile('adam')\nm.optimizer", {Role.OPTIMIZER}),
        ("d = tf.data.Dataset.range(3)\nd = d.map(f).batch(2)\nd", {Role.DATASET}),
        ("with tf.GradientTape() as t: pass\nt", {Role.TAPE}),
        ("from sklearn.svm import SVC\nSVC()", {Kind.OTHER}),
        ("tf = 3\ntf.keras.Sequential()", {Role.MODEL}),
    ],
)
def test_kinds(source: str, kinds: set[Kind]) -> None:
    assert kinds_of_last(source) == kinds


TWO_CLASSES = """
class Trainer:
    def __init__(self, data):
        self.data = data

    def run(self, model):
        model.fit(self.data)


class Evaluator:
    def __init__(self, data):
        self.data = data

    def run(self, model):
        for x, y in self.data:
            count(model(x), y)


model = k.Sequential()
model.compile('sgd')
train = tf.data.Dataset.from_tensor_slices(a).batch(8)
test = tf.data.Dataset.from_tensor_slices(b).batch(8)
Trainer(train).run(model)
Evaluator(test).run(model)
"""


def test_an_attribute_belongs_to_the_classes_of_its_receiver() -> None:
    code = convert_source(HEAD + TWO_CLASSES).code
    assert "test = tf.data.Dataset.from_tensor_slices(b).batch(8)\n" in code
    assert "from_tensor_slices(a).batch(8 * hvd.size())" in code


def test_an_attribute_may_be_set_by_a_class_that_inherits() -> None:
    source = TWO_CLASSES.replace(
        "    def __init__(self, data):\n        self.data = data\n\n    def run(self, model):\n        model.fit",
        "    def run(self, model):\n        model.fit",
    ).replace(
        "class Evaluator:",
        "class Own(Trainer):\n    def __init__(self, d): self.data = d\n\n\nclass Evaluator:",
    )
    code = convert_source(HEAD + source.replace("Trainer(train)", "Own(train)")).code
    assert "test = tf.data.Dataset.from_tensor_slices(b).batch(8)\n" in code
    assert "from_tensor_slices(a).batch(8 * hvd.size())" in code


def test_shadowed_names_are_distinguished() -> None:
    source = HEAD + "def f():\n    tf = other\n    return tf.keras.Sequential()\nf().fit(x, y)\n"
    assert "fit(x, y)" in convert_source(source).code


def test_a_dataset_is_what_it_was_bound_to_last() -> None:
    source = HEAD + (
        "ds = tf.data.Dataset.from_tensor_slices((x, y))\nds = ds.shuffle(9)\nds = ds.batch(3)\n"
        "m = k.Sequential()\nm.compile('sgd')\nm.fit(ds)\n"
    )
    code = convert_source(source).code
    assert "ds = ds.batch(3 * hvd.size())" in code
    assert code.count("hvd.size()") == 2  # and the rate


def test_stacked_rebinding_ends() -> None:
    """A name bound sixty times in terms of itself was once followed along every order of its bindings."""
    layers = "".join("    x = x if deep else g(x) + x\n" for _ in range(60))
    source = f"{HEAD}def f(x):\n{layers}    return x\nm = f(k.Input(3))\nm.fit(1, 2, epochs=3)\n"
    assert convert_source(source).status in ("converted", "unchanged", "refused")


def test_rings_of_functions_end() -> None:
    """Functions that pass their parameters round in rings were once asked without end."""
    ring = "".join(
        f"def f{n}(a, b, *rest, **more):\n    return f{(n + 1) % 8}(b, a) or f{(n + 3) % 8}(a, more)\n"
        for n in range(8)
    )
    assert convert_source(f"{HEAD}{ring}m = f0(k.Sequential(), 1)\nm.fit(1, 2, epochs=3)\n").status
