"""What training keeps beside weights, on its way to its counterpart: no process is started here."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from jupyter_hvd.ranks import training_state
from jupyter_hvd.ranks.paths import TRAINED, weighted_objects
from jupyter_hvd.ranks.serialization import is_random_generator, pack_value, weights_of


class Own(tf.keras.Model):
    """A model with an optimizer and a metric of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = tf.keras.layers.Dense(1)
        self.second = tf.keras.optimizers.Adam(0.1)
        self.seen = tf.keras.metrics.Mean()
        self.build((None, 2))

    def build(self, shape: Any) -> None:
        self.layer.build(shape)
        self.built = True


def compiled(optimizer: Any) -> tf.keras.Model:
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer, loss="mse")
    return model


def make() -> dict[str, Any]:
    """What the same cells make on both sides."""
    scaled = getattr(tf.keras.mixed_precision, "LossScaleOptimizer", None)
    model = compiled(tf.keras.optimizers.Adam(0.1))
    made = {"model": model, "of_model": model.optimizer, "plain": compiled("sgd"), "own": Own()}
    made |= {"scaled": compiled(scaled(tf.keras.optimizers.SGD(0.1, momentum=0.9)))}
    made |= {"metric": tf.keras.metrics.Mean(), "random": tf.random.Generator.from_seed(1)}
    made |= {"rng": np.random.default_rng(1), "old": np.random.RandomState(1)}
    made |= {"python": random.Random(1)}
    return made | {"trainer": {"opt": tf.keras.optimizers.RMSprop(0.1), "net": model}}


def train(net: Any, optimizer: Any) -> None:
    gradients = [tf.ones_like(each) for each in net.trainable_variables]
    optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))


X, Y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")


@pytest.mark.parametrize(
    ("trained", "path"),
    [
        (lambda has: has["model"].fit(X, Y, verbose=0), "model.optimizer"),
        (lambda has: has["plain"].fit(X, Y, verbose=0), "plain.optimizer"),
        (lambda has: has["scaled"].fit(X, Y, verbose=0), "scaled.optimizer"),
        (lambda has: train(has["model"], has["trainer"]["opt"]), "trainer['opt']"),
        (lambda has: train(has["own"], has["own"].second), "own.second"),
        (lambda has: has["own"].seen.update_state(3.0), "own.seen"),
        (lambda has: has["metric"].update_state(3.0), "metric"),
        (lambda has: has["random"].normal(()), "random"),
        (lambda has: has["rng"].normal(), "rng"),
        (lambda has: has["old"].normal(), "old"),
        (lambda has: has["python"].random(), "python"),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_a_state_comes_to_its_counterpart(
    trained: Callable[[Any], object], path: str, again: bool
) -> None:
    here, there = make(), make()
    rates = [float(each.optimizer.learning_rate) for each in (there["model"], there["plain"])]
    for _ in range(1 + again):
        trained(here)
        found = {str(each.paths[0]): each for each in weighted_objects(here, [*here], TRAINED)}
        one = found[path]
        packed = training_state.pack_state(one, [*found.values()])
        assert packed.data
        other = one.paths[0].follow_path(there)
        training_state.set_state(other, packed, there)
        for mine, its in zip(weights_of(one.value), weights_of(other), strict=True):
            if hasattr(mine, "numpy"):
                np.testing.assert_array_equal(mine.numpy(), its.numpy())
        assert not is_random_generator(other) or pack_value(other).data == packed.data
    now = [float(each.optimizer.learning_rate) for each in (there["model"], there["plain"])]
    assert now == rates
    trained(there)


def test_what_has_not_trained_has_no_state() -> None:
    has = make()
    fresh = weighted_objects(has, ["of_model", "trainer"], TRAINED)
    assert [weights_of(e.value) for e in fresh if training_state.is_optimizer(e.value)] == [[], []]


def test_a_state_that_does_not_fit() -> None:
    here, there = make(), make()
    here["plain"].fit(X, Y, verbose=0)
    here["model"].fit(X, Y, verbose=0)
    found = weighted_objects(here, ["of_model"], TRAINED)
    packed = training_state.pack_state(
        found[0], found
    )  # without the model, whose variables it trains
    with pytest.raises(ValueError, match="its state has other shapes"):
        training_state.set_state(there["plain"].optimizer, packed, there)
    with pytest.raises(ValueError, match="no object here that this state could be set in"):
        training_state.set_state(there["model"], packed, there)
