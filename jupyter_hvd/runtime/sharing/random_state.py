"""Saves and restores the state of default random generators, to copy it between processes."""

from __future__ import annotations

import random
import sys
from array import array
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class TwisterState:
    """The state of a Mersenne Twister, as Python's and NumPy's generators have it.

    Attributes:
        key: 624 numbers of 32 bits. Drawing changes it only once in 624 numbers.
        position: of the next number in it.
        rest: what else the generator stores, among it a normal number that it has drawn already.
    """

    key: bytes
    position: int
    rest: tuple[Any, ...]

    @classmethod
    def of_python(cls, state: tuple[Any, ...]) -> TwisterState:
        """Return the state that `random.getstate` gives."""
        version, (*key, position), gauss = state
        return cls(array("I", key).tobytes(), position, (version, gauss))

    @classmethod
    def of_numpy(cls, state: Any) -> Any:
        """Return the state that `numpy.random.get_state` gives; the state of another generator is returned as it is."""
        if not isinstance(state, tuple):
            return state
        name, key, position, *gauss = state
        return cls(key.tobytes(), position, (name, *gauss))

    def as_python(self) -> tuple[Any, ...]:
        """Return the state for `random.setstate`."""
        version, gauss = self.rest
        return (version, (*array("I", self.key), self.position), gauss)

    def as_numpy(self) -> tuple[Any, ...]:
        """Return the state for `numpy.random.set_state`."""
        name, *gauss = self.rest
        return (name, array("I", self.key), self.position, *gauss)

    def share_key(self, earlier: Any) -> TwisterState:
        """Return this state, with the key object of an earlier one if both are equal, to save memory."""
        if isinstance(earlier, TwisterState) and earlier.key == self.key:
            return replace(self, key=earlier.key)
        return self


@dataclass(frozen=True)
class RandomState:
    """The random states of Python, NumPy and TensorFlow; None for a library that is not imported or not seeded.

    Attributes:
        numpy: a `TwisterState`, or what NumPy says of another generator.
        seed: that of `tf.random.set_seed`. eager: from what eager operations then draw their seeds.
        generator: the state of TensorFlow's global generator.
        keras: what Keras 3 draws from; empty where it has drawn nothing yet.
    """

    python: TwisterState
    numpy: Any = None
    seed: int | None = None
    eager: TwisterState | None = None
    generator: Any = None
    keras: Any = None

    def share_keys(self, earlier: RandomState | None) -> RandomState:
        """Return this state, with the key objects of an earlier one where they are equal, to save memory."""
        if earlier is None:
            return self
        shared: dict[str, Any] = {
            name: own.share_key(getattr(earlier, name))
            for name in ("python", "numpy", "eager")
            if isinstance(own := getattr(self, name), TwisterState)
        }
        return replace(self, **shared)


def random_state() -> RandomState:
    """Return the random state of this process; nothing is imported and no device used for it. A `CommonSeed` stands for none."""
    numpy = getattr(sys.modules.get("numpy"), "random", None)
    drawn = None if numpy is None else TwisterState.of_numpy(numpy.get_state())
    python = TwisterState.of_python(random.getstate())
    if sys.modules.get("tensorflow") is None:
        return RandomState(python, drawn)
    from .keras_versions import eager_generator, eager_seed, global_generator
    from .program import CommonSeed

    given, generator = eager_seed(), global_generator()
    seed = None if isinstance(given, CommonSeed) else given
    return RandomState(
        python,
        drawn,
        seed,
        None if seed is None else TwisterState.of_python(eager_generator().getstate()),
        None if generator is None else generator.state.numpy(),
        keras_state(),
    )


def keras_state() -> Any:
    """Return the random state of Keras 3, as in `RandomState`."""
    if not getattr(sys.modules.get("keras"), "__version__", "").startswith("3."):
        return None
    from .keras_versions import keras_draws

    draws = keras_draws()
    return [] if draws is None else draws.state.numpy()


def set_random_state(state: RandomState) -> None:
    """Continue from the random state of another process, as far as that has one."""
    if state.keras is not None:
        from .keras_versions import forget_keras_draws, keras_draws

        if len(state.keras):
            keras_draws(make=True).state.assign(state.keras)
        else:
            forget_keras_draws()
    random.setstate(state.python.as_python())
    if state.numpy is not None:
        import numpy as np

        is_twister = isinstance(state.numpy, TwisterState)
        np.random.set_state(state.numpy.as_numpy() if is_twister else state.numpy)
    if state.seed is None and state.generator is None:
        return
    import tensorflow as tf

    from .keras_versions import eager_generator

    if state.seed is not None and state.eager is not None:
        tf.random.set_seed(state.seed)
        eager_generator().setstate(state.eager.as_python())
    if state.generator is not None:
        tf.random.get_global_generator().reset(state.generator)
