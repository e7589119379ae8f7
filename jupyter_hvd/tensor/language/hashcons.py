"""Hash-consing: equal terms are one object, so that equality is identity and sharing is free."""

from __future__ import annotations

from threading import RLock
from typing import Any
from weakref import WeakValueDictionary


class HashConsed(type):
    """A metaclass whose classes, dataclasses all, build each distinct value once, keyed by its
    constructor's arguments.

    Arguments must be hashable. Of a class that is `numeric` the first is compared with its type:
    `1` and `1.0` are different constants.
    """

    numeric = False

    __match_args__: tuple[str, ...]
    __dataclass_fields__: dict[str, Any]

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._made: WeakValueDictionary[Any, Any] = WeakValueDictionary()

    def __call__(cls, *arguments: Any) -> Any:
        if len(arguments) < len(cls.__match_args__):
            defaults = (cls.__dataclass_fields__[name].default for name in cls.__match_args__)
            arguments += tuple(defaults)[len(arguments) :]
        key = (*arguments, type(arguments[0])) if cls.numeric else arguments
        found = cls._made.get(key)
        if found is None:
            with _MAKING:
                found = cls._made.setdefault(key, super().__call__(*arguments))
        return found


_MAKING = RLock()  # two threads that make the same value make it once
