"""The state of the random numbers that a program draws without naming a generator, to be taken from one process to another."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RandomState:
    """What Python, NumPy and TensorFlow draw from; None for what a process has not imported, or has not seeded.

    Attributes:
        seed: that of `tf.random.set_seed`. eager: from what eager operations then draw their seeds.
        generator: the state of TensorFlow's global generator.
        keras: what Keras 3 draws from; empty where it has drawn nothing yet.
    """

    python: Any
    numpy: Any = None
    seed: int | None = None
    eager: Any = None
    generator: Any = None
    keras: Any = None


def random_state(unset: int | None = None) -> RandomState:
    """That of this process; nothing is imported and no device used for it.

    Args:
        unset: a seed that stands for none.
    """
    numpy = getattr(sys.modules.get("numpy"), "random", None)
    drawn = None if numpy is None else numpy.get_state()
    if sys.modules.get("tensorflow") is None:
        return RandomState(random.getstate(), drawn)
    from .keras_versions import eager_draws, eager_seed, global_generator

    seed, generator = eager_seed(), global_generator()
    return RandomState(
        random.getstate(),
        drawn,
        None if seed == unset else seed,
        None if seed in (None, unset) else eager_draws().getstate(),
        None if generator is None else generator.state.numpy(),
        keras_state(),
    )


def keras_state() -> Any:
    """What Keras 3 draws from, as `RandomState` has it."""
    if not getattr(sys.modules.get("keras"), "__version__", "").startswith("3."):
        return None
    from .keras_versions import keras_draws

    draws = keras_draws()
    return [] if draws is None else draws.state.numpy()


def set_random_state(state: RandomState) -> None:
    """Go on from another process's, as far as that has one."""
    if state.keras is not None:
        from .keras_versions import forget_keras_draws, keras_draws

        if len(state.keras):
            keras_draws(make=True).state.assign(state.keras)
        else:
            forget_keras_draws()
    random.setstate(state.python)
    if state.numpy is not None:
        import numpy as np

        np.random.set_state(state.numpy)
    if state.seed is None and state.generator is None:
        return
    import tensorflow as tf

    from .keras_versions import eager_draws

    if state.seed is not None:
        tf.random.set_seed(state.seed)
        eager_draws().setstate(state.eager)
    if state.generator is not None:
        tf.random.get_global_generator().reset(state.generator)
