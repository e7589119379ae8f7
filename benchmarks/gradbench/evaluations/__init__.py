"""GradBench's evaluations in the tensor language, one a module, each with its `FUNCTIONS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np


def as_lists(output: Any) -> Any:
    """Arrays as JSON has them."""
    return jax.tree.map(lambda a: np.asarray(a).tolist(), output)


@dataclass(frozen=True)
class Function:
    """A function of an evaluation: the arguments that a message's input stands for, what is timed, and the output as JSON."""

    prepare: Callable[[Any], tuple[Any, ...]]
    compute: Callable[..., Any]
    present: Callable[[Any], Any] = as_lists


def on_device(*arrays: Any) -> tuple[Any, ...]:
    """Arrays of 64-bit floats where kernels read them."""
    return tuple(jax.device_put(np.asarray(a, np.float64)) for a in arrays)
