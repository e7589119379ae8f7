"""What the converter believes about Keras, compared with the Keras that is installed."""

from __future__ import annotations

import inspect

import pytest

from jupyter_hvd.convert.tensorflow.tf_api import (
    CALLBACKS,
    OPTIMIZERS,
    SCHEDULES,
    find_optimizer,
    makes_model,
)

from ..stacks import skip_for_another_keras


@pytest.fixture(scope="module")
def optimizers():
    import tensorflow as tf

    return tf.keras.optimizers


#: Since Keras 3.
LATER = {"Lamb", "Muon", "ScheduleFreeAdamW"}


def parameters(cls) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(cls).parameters)


def test_every_optimizer_is_known(optimizers) -> None:
    classes = {
        name
        for name, cls in vars(optimizers).items()
        if inspect.isclass(cls)
        and issubclass(cls, optimizers.Optimizer)
        and name != "Optimizer"
        and "learning_rate" in parameters(cls)
    }
    known = {known.name for known in OPTIMIZERS.values()}
    assert known - LATER <= classes <= known


@pytest.mark.parametrize("known", OPTIMIZERS.values(), ids=lambda known: known.name)
def test_defaults(optimizers, known) -> None:
    if known.name in LATER and not hasattr(optimizers, known.name):
        skip_for_another_keras()
    own = parameters(getattr(optimizers, known.name))
    assert next(iter(own)) == "learning_rate"
    default = own["learning_rate"].default
    assert known.learning_rate in (None, default)
    legacy = getattr(optimizers.legacy, known.name, None)
    if legacy is not None and "learning_rate" in parameters(legacy):  # Keras 3 has but its name
        assert parameters(legacy)["learning_rate"].default == default


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(optimizers, name) -> None:
    parameters = list(inspect.signature(getattr(optimizers.schedules, name)).parameters)
    for keyword, position in SCHEDULES[name]:
        assert parameters[position] == keyword


def classes(module) -> set[str]:
    return {name for name in vars(module) if name[:1].isupper()}


def test_every_callback_is_known() -> None:
    import tensorflow as tf

    assert classes(tf.keras.callbacks) <= CALLBACKS


def test_every_application_is_known() -> None:
    import tensorflow as tf

    names = classes(tf.keras.applications)
    assert names == {n for n in names if makes_model(f"tensorflow.keras.applications.{n}")}


@pytest.mark.parametrize(
    "name",
    [
        "tensorflow.keras.optimizers.Adam",
        "tensorflow.keras.optimizers.legacy.Adam",
        "tensorflow.keras.optimizers.adam_v2.Adam",
    ],
)
def test_spellings(name: str) -> None:
    assert find_optimizer(name) is OPTIMIZERS["adam"]
