"""What the converter believes about Keras, compared with the Keras that is installed."""

from __future__ import annotations

import inspect

import pytest

from jupyter_hvd.frameworks.tensorflow.tf_api import OPTIMIZERS, SCHEDULES, optimizer


@pytest.fixture(scope="module")
def optimizers():
    tf = pytest.importorskip("tensorflow")
    return tf.keras.optimizers


def test_every_optimizer_is_known(optimizers) -> None:
    classes = {
        name
        for name, cls in vars(optimizers).items()
        if inspect.isclass(cls) and issubclass(cls, optimizers.Optimizer) and name != "Optimizer"
    }
    assert classes == {known.name for known in OPTIMIZERS.values()}


@pytest.mark.parametrize("known", OPTIMIZERS.values(), ids=lambda known: known.name)
def test_defaults(optimizers, known) -> None:
    parameters = inspect.signature(getattr(optimizers, known.name)).parameters
    assert next(iter(parameters)) == "learning_rate"
    assert parameters["learning_rate"].default == known.learning_rate
    legacy = getattr(optimizers.legacy, known.name, None)
    if legacy is not None:
        assert inspect.signature(legacy).parameters["learning_rate"].default == known.learning_rate


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(optimizers, name) -> None:
    parameters = list(inspect.signature(getattr(optimizers.schedules, name)).parameters)
    for keyword, position in SCHEDULES[name]:
        assert parameters[position] == keyword


@pytest.mark.parametrize(
    "name",
    [
        "tensorflow.keras.optimizers.Adam",
        "tensorflow.keras.optimizers.legacy.Adam",
        "tensorflow.keras.optimizers.adam_v2.Adam",
    ],
)
def test_spellings(name: str) -> None:
    assert optimizer(name) is OPTIMIZERS["adam"]
