"""Listeners answer calls of functions, methods, class methods and properties, and are removed again."""

from types import SimpleNamespace

import pytest

from jupyter_hvd.runtime.observe import Observation, listening, observe, update_methods


def doubled(function, *args, **options):
    return 2 * function(*args, **options)


@pytest.fixture
def kind():
    class Base:
        factor = 3

        def method(self, x):
            """Its own."""
            return self.factor * x

        @classmethod
        def of_class(cls, x):
            return cls.factor + x

        @staticmethod
        def alone(x):
            return x

        @property
        def value(self):
            return self.factor

        @value.setter
        def value(self, given):
            self.factor = given

    return type("Kind", (Base,), {})


def test_a_listener_gets_the_function_and_the_arguments(kind):
    for name in ("method", "of_class", "alone", "value"):
        observe(kind, name, doubled)
    made = kind()
    assert (made.method(5), kind.of_class(5), made.value) == (30, 16, 6)
    assert made.alone(7) == kind.alone(7) == 14
    made.value = 4
    assert made.value == 8, "a property is set as before"
    assert kind.method.__doc__ == "Its own."
    assert kind.__base__().method(5) == 15, "the class above is not observed"


def test_each_listener_gets_the_one_before_it():
    module = SimpleNamespace(f=lambda x, *, y=0: x + y)
    observe(module, "f", doubled)
    observe(module, "f", lambda f, *args, **options: f(*args, **options) + 1)
    assert module.f(2, y=3) == 11
    assert listening(max, doubled)(1, 4) == 8


def test_an_observation_ends(kind):
    before = dict(vars(kind.__base__))
    observation = Observation()
    for name in ("method", "of_class", "value", "method"):
        observation.observe(kind.__base__, name, doubled)
    assert kind().method(5) == 60
    assert observation.names == ["method", "of_class", "value", "method"]
    observation.end()
    assert dict(vars(kind.__base__)) == before
    assert observation.names == []


def test_methods_that_update_variables_by_version():
    optimizer = type("Optimizer", (), {"apply": None})
    keras_3 = SimpleNamespace(optimizers=SimpleNamespace(Optimizer=optimizer))
    assert update_methods(keras_3) == [(optimizer, "apply")]
    new, old = type("New", (), {}), type("Old", (), {})
    legacy = SimpleNamespace(Optimizer=old)
    keras_2 = SimpleNamespace(optimizers=SimpleNamespace(Optimizer=new, legacy=legacy))
    assert update_methods(keras_2) == [(new, "apply_gradients"), (old, "apply_gradients")]
