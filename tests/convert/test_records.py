"""Numbers in namespaces, named tuples, data classes and dictionaries are scaled where the record is made, however it is read."""

from __future__ import annotations

import pytest

from jupyter_hvd import Options, convert_source

SCALED = Options(select=("HVD7", "HVD801", "HVD802", "HVD804", "HVD9", "HVD102", "HVD104"))
GIVEN = "batch={}, every={}, total={}"
FIELDS = "    batch: int{}\n    every: int{}\n    total: int{}\n"
DATA_CLASS = "from dataclasses import dataclass, field, replace\n@dataclass\nclass Config:\n"
#: Each makes a record `C`; `{}` are the sizes of batches, of a period and of the training.
RECORDS = {
    "namespace": f"from types import SimpleNamespace\nC = SimpleNamespace({GIVEN})",
    "namespace of a dictionary": (
        f"from types import SimpleNamespace\nD = dict({GIVEN})\nC = SimpleNamespace(**D)"
    ),
    "nested namespaces": (
        "from types import SimpleNamespace\n"
        f"N = SimpleNamespace(train=SimpleNamespace({GIVEN}))\nC = N.train"
    ),
    "namespace of options": f"import argparse\nC = argparse.Namespace({GIVEN})",
    "data class": f"{DATA_CLASS}{FIELDS.replace('{}', ' = {}')}C = Config()",
    "fields with defaults": (
        f"{DATA_CLASS}{FIELDS.replace('{}', ' = field(default={})')}C = Config()"
    ),
    "data class by keywords": f"{DATA_CLASS}{FIELDS.replace('{}', '')}C = Config({GIVEN})",
    "data class by position": f"{DATA_CLASS}{FIELDS.replace('{}', '')}C = Config({{}}, {{}}, {{}})",
    "replaced fields": (
        f"{DATA_CLASS}{FIELDS.replace('{}', '')}C = replace(Config(**load()), {GIVEN})"
    ),
    "named tuple": (
        "from collections import namedtuple\n"
        "Config = namedtuple('Config', 'batch every total')\nC = Config({}, {}, {})"
    ),
    "typed tuple": f"from typing import NamedTuple\nclass Config(NamedTuple):\n{FIELDS.replace('{}', '')}"
    f"C = Config({GIVEN})",
    "nested classes": (
        "class All:\n    class train:\n        batch = {}\n        every = {}\n        total = {}\nC = All.train"
    ),
    "object of its keywords": (
        "class Config:\n    def __init__(self, **given):\n        self.__dict__.update(given)\n"
        f"C = Config({GIVEN})"
    ),
    "dictionary with attributes": (
        f"from ml_collections import ConfigDict\nC = ConfigDict(dict({GIVEN}))"
    ),
}
DICTIONARIES = {
    "unpacked dictionary": "base = {{'batch': {}, 'every': {}}}\nC = {{**base, 'total': {}}}",
    "updated dictionary": "C = dict(batch={}, every={})\nC.update(total={})",
    "dictionary of a dictionary": "base = dict(batch={}, every={})\nC = dict(base, total={})",
}
PROGRAM = """\
import numpy as np
import tensorflow as tf
x = np.zeros((72, 1), "float32")
{made}
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
def train({parameter}):
    data = tf.data.Dataset.from_tensor_slices((x, x)).repeat().batch({batch})
    for step, (a, b) in enumerate(data):
        if step == {total}:
            break
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(b - model(a))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        if step % {every} == 0:
            log(step, len(x) // {batch})
train({argument})
"""


def program(made: str, read: str, *numbers: str, is_passed: bool) -> str:
    """A program whose numbers are in a record, which is passed to a function or not."""
    record = "config" if is_passed else "C"
    reads = {name: record + read.format(name) for name in ("batch", "every", "total")}
    given = ("config", "C") if is_passed else ("", "")
    return PROGRAM.format(
        made=made.format(*numbers), parameter=given[0], argument=given[1], **reads
    )


@pytest.mark.parametrize("is_passed", [False, True], ids=["read", "passed"])
@pytest.mark.parametrize("name", [*RECORDS, *DICTIONARIES])
def test_a_record_is_scaled_where_it_is_made(name: str, is_passed: bool) -> None:
    made = {**RECORDS, **DICTIONARIES}[name]
    read = "['{}']" if name in DICTIONARIES else ".{}"
    conversion = convert_source(
        program(made, read, "4", "6", "12", is_passed=is_passed), options=SCALED
    )
    numbers = "4 * hvd.size()", "max(1, 6 // hvd.size())", "max(1, 12 // hvd.size())"
    assert conversion.code.endswith(
        program(made, read, *numbers, is_passed=is_passed).partition("float32")[2]
    )
    assert conversion.diagnostics == ()


SETTINGS = {
    "file of settings": ("import yaml\nC = yaml.safe_load(open('settings.yml'))", "['{}']"),
    "parsed options": ("import argparse\nC = argparse.ArgumentParser().parse_args()", ".{}"),
    "variables of options": (
        "import argparse\nC = vars(argparse.ArgumentParser().parse_args())",
        "['{}']",
    ),
    "flags": ("from absl import flags\nC = flags.FLAGS", ".{}"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_from_outside_are_scaled_wherever_they_are_read(name: str) -> None:
    made, read = SETTINGS[name]
    conversion = convert_source(program(made, read, is_passed=True), options=SCALED)
    batch, every, total = (f"config{read.format(each)}" for each in ("batch", "every", "total"))
    assert f".batch({batch} * hvd.size())" in conversion.code
    assert f"len(x) // ({batch} * hvd.size())" in conversion.code
    assert f"step == max(1, {total} // hvd.size())" in conversion.code
    assert f"step % max(1, {every} // hvd.size()) == 0" in conversion.code
    assert conversion.diagnostics == ()


COMMAND_LINES = {
    "click": "import click\n@click.command()\n@click.option('--batch', default=4)\n{}main()\n",
    "typer": "import typer\napp = typer.Typer()\n@app.command()\n{}app()\n",
    "fire": "import fire\n{}fire.Fire(main)\n",
}


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_parameters_that_a_command_line_sets_are_scaled_wherever_they_are_read(name: str) -> None:
    """A default that is edited is none where the command line gives another value."""
    reads = {"batch": "batch", "every": "every", "total": "total"}
    text = PROGRAM.format(made="", parameter="batch=4, every=6, total=12", argument="", **reads)
    text = text.replace("def train(", "def main(").removesuffix("train()\n")
    head, body = text.split("def main", 1)
    code = convert_source(head + COMMAND_LINES[name].format("def main" + body), options=SCALED).code
    assert "def main(batch=4, every=6, total=12):" in code
    assert ".batch(batch * hvd.size())" in code
    assert "len(x) // (batch * hvd.size())" in code
    assert "step == max(1, total // hvd.size())" in code
    assert "step % max(1, every // hvd.size()) == 0" in code
