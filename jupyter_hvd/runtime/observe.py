"""Intercepts calls: the only module that replaces functions of TensorFlow, Keras and Horovod."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]
#: Called with a function and the arguments of one of its calls; what it returns is the result of that call.
Listener = Callable[..., Any]


def listening(function: Function, listener: Listener) -> Function:
    """Wrap a function so that a listener answers its calls; name and module stay those of the function."""

    @functools.wraps(function)
    def call_listener(*args: Any, **options: Any) -> Any:
        return listener(function, *args, **options)

    return call_listener


def observe(owner: Any, name: str, listener: Listener) -> None:
    """Let a listener answer all calls of a function or method from now on, or all reads of a property."""
    found = inspect.getattr_static(owner, name) if isinstance(owner, type) else getattr(owner, name)
    match found:
        case classmethod() | staticmethod():
            setattr(owner, name, type(found)(listening(found.__func__, listener)))
        case property(fget=read) if read is not None:
            setattr(owner, name, found.getter(listening(read, listener)))
        case _:
            setattr(owner, name, listening(found, listener))


class Observation:
    """A group of listeners that can be removed again."""

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any]] = []

    @property
    def names(self) -> list[str]:
        """Return the names of the observed functions, in the order in which they were added."""
        return [name for _, name, _ in self._originals]

    def observe(self, owner: Any, name: str, listener: Listener) -> None:
        """Observe a function until `end` is called; see `observe`."""
        self._originals.append((owner, name, vars(owner).get(name, getattr(owner, name))))
        observe(owner, name, listener)

    def end(self) -> None:
        """Remove all listeners."""
        while self._originals:
            owner, name, original = self._originals.pop()
            setattr(owner, name, original)


def update_methods(module: Any) -> list[tuple[Any, str]]:
    """Return the methods by which a Keras's optimizers change variables, each with its class.

    Optimizers that scale losses call these methods.

    Args:
        module: `keras`, `tf_keras` or `tf.keras`, of any version.
    """
    kinds = [module.optimizers.Optimizer]
    if hasattr(kinds[0], "apply"):  # Keras 3
        return [(kinds[0], "apply")]
    if hasattr(module.optimizers, "legacy"):
        kinds.append(module.optimizers.legacy.Optimizer)
    return [(kind, "apply_gradients") for kind in kinds]
