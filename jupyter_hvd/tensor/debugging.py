"""Runs a tensor function as the Python function that it is, so that `print` and breakpoints show values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_in_python: ContextVar[bool] = ContextVar("_in_python", default=False)


def runs_in_python() -> bool:
    """Whether tensor functions currently run as Python functions."""
    return _in_python.get()


@contextmanager
def running_in_python() -> Iterator[None]:
    """Run tensor functions as Python functions within the block, including those called by others."""
    before = _in_python.set(True)
    try:
        yield
    finally:
        _in_python.reset(before)


def run_in_python(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Run a Python function on arguments whose arrays are copied to NumPy, so that it cannot change the caller's."""
    with running_in_python():
        return function(*map(copy_to_numpy, args), **copy_to_numpy(dict(kwargs)))


def copy_to_numpy(value: Any) -> Any:
    """Replace the arrays in a value by NumPy copies, also those in lists, tuples, dictionaries and dataclasses."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if getattr(value, "shape", None) is not None and hasattr(value, "__array__"):
        return np.array(value)
    if isinstance(value, dict):
        return {key: copy_to_numpy(part) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(copy_to_numpy, value))
    if type(value) in (list, tuple):
        return type(value)(map(copy_to_numpy, value))
    if is_dataclass(value) and not isinstance(value, type):
        made = copy.copy(value)
        for field in fields(value):
            object.__setattr__(made, field.name, copy_to_numpy(getattr(value, field.name)))
        return made
    return value
