"""The state of a rank that is in no variable: random states, Keras's settings, the environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from ..runtime.sharing import program
from ..runtime.sharing.random_state import TwisterState, random_state

#: Variables of the environment that each rank has of its own, or each host, by how they begin.
OF_A_RANK = re.compile(
    r"HOROVOD_|JUPYTER_HVD_|OMPI_|PMI|MPI|SLURM|LOCAL_|RANK|WORLD_"
    r"|SSH_|XDG_|TMP|HOSTNAME|PWD|OLDPWD|SHLVL|_|JPY_|CUDA_VISIBLE_DEVICES"
)


class State(NamedTuple):
    """A part of the process's state.

    Attributes:
        name: what a program would write for it. text: what it is, "" where the value says so itself.
        is_secret: whether its value is not to be shown.
    """

    name: str
    value: Any
    text: str = ""
    is_secret: bool = False


def state_rows() -> Iterator[State]:
    """Yield the random states, if ranks share them, then Keras's settings and the environment variables."""
    if os.environ.get(program.BATCH_VARIABLE) is not None:
        yield from _random_numbers()
    keras = sys.modules.get("keras")
    for name in ("floatx", "image_data_format", "epsilon"):
        with suppress(AttributeError):
            yield State(f"keras.config.{name}()", getattr(keras.config, name)())  # type: ignore[union-attr]
    with suppress(AttributeError):
        policy = keras.config.dtype_policy().name  # type: ignore[union-attr]
        yield State("keras.config.dtype_policy()", policy)
    for name, value in sorted(os.environ.items()):
        if not OF_A_RANK.match(name):
            yield State(f"os.environ[{name!r}]", value, is_secret=True)


def _random_numbers() -> Iterator[State]:
    """Yield the random states of Python, NumPy and TensorFlow, as far as they are known."""
    state = random_state()
    text = "the state of a generator of random numbers"
    for name, value in (
        ("random.getstate()", state.python),
        ("numpy.random.get_state()", state.numpy),
        ("tf.random.set_seed(…)", state.seed),
        ("tf.random.get_global_generator().state", state.generator),
    ):
        if isinstance(value, TwisterState):
            parts = {"position": value.position, "key": value.key, "rest": value.rest}
            yield State(name, parts, text)
        elif value is not None:
            yield State(name, value, text if hasattr(value, "shape") else "")
