"""Observes calls: the only module that replaces functions of TensorFlow, Keras and Horovod.

A listener answers the calls of a function. It gets the function first, then the arguments of the call:

    def timed(fit, model, *args, **options):
        began = time.time()
        try:
            return fit(model, *args, **options)
        finally:
            print(time.time() - began)

    observe(keras.Model, "fit", timed)

Of several listeners to a function, each gets the one before it as that function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]
#: Called with a function and the arguments of one of its calls; what it returns is the result of that call.
Listener = Callable[..., Any]


def listening(function: Function, listener: Listener) -> Function:
    """A function whose calls a listener answers; it has the other's name and module."""

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        return listener(function, *args, **options)

    return called


def observe(owner: Any, name: str, listener: Listener) -> None:
    """Let a listener answer the calls of a function or method of a module or class from now on; of a property, its reads."""
    found = inspect.getattr_static(owner, name) if isinstance(owner, type) else getattr(owner, name)
    match found:
        case classmethod() | staticmethod():
            setattr(owner, name, type(found)(listening(found.__func__, listener)))
        case property(fget=read) if read is not None:
            setattr(owner, name, found.getter(listening(read, listener)))
        case _:
            setattr(owner, name, listening(found, listener))


class Observation:
    """Listeners that are removed again."""

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any]] = []

    @property
    def names(self) -> list[str]:
        """The names of the functions that are observed, in the order in which they were."""
        return [name for _, name, _ in self._originals]

    def observe(self, owner: Any, name: str, listener: Listener) -> None:
        """As the function of this name does."""
        self._originals.append((owner, name, vars(owner).get(name, getattr(owner, name))))
        observe(owner, name, listener)

    def end(self) -> None:
        """Put everything back."""
        while self._originals:
            owner, name, original = self._originals.pop()
            setattr(owner, name, original)


def update_methods(module: Any) -> list[tuple[Any, str]]:
    """The methods by which optimizers of a Keras change variables, each with its class; those that scale losses call these.

    Args:
        module: `keras`, `tf_keras` or `tf.keras`, of any version.
    """
    kinds = [module.optimizers.Optimizer]
    if hasattr(kinds[0], "apply"):  # Keras 3
        return [(kinds[0], "apply")]
    if hasattr(module.optimizers, "legacy"):
        kinds.append(module.optimizers.legacy.Optimizer)
    return [(kind, "apply_gradients") for kind in kinds]
