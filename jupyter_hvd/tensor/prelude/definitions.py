"""The table of definitions, and the decorators that enter them: `@numpy.linalg.norm`, `@array.mean`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

#: Of a parameter: an array, a number, or a list of these that stands for an array.
Array: TypeAlias = Any
#: Several arrays, in a list or a tuple.
Arrays: TypeAlias = Any
Body = Callable[..., Any]


@dataclass(frozen=True)
class Definition:
    """What a function of NumPy's, SciPy's or JAX's is, by its path: `("numpy", "linalg", "norm")`.

    `entrywise` is whether it computes each entry by itself, `method` whether arrays have it as a method.
    """

    path: tuple[str, ...]
    body: Body
    entrywise: bool = False
    method: bool = False

    @property
    def name(self) -> str:
        """The last part of the definition's path."""
        return self.path[-1]


DEFINITIONS: list[Definition] = []


class Namespace:
    """A module whose attributes are decorators, which enter a definition of the function of that name."""

    def __init__(self, *path: str, method: bool = False) -> None:
        self.path = path
        self.method = method

    def __getattr__(self, name: str) -> Namespace:
        return Namespace(*self.path, name, method=self.method)

    def __call__(self, body: Body) -> Body:
        entrywise = body.__module__.endswith(".elementwise")
        DEFINITIONS.append(Definition(self.path, body, entrywise, self.method))
        return body


numpy, scipy, jax = Namespace("numpy"), Namespace("scipy"), Namespace("jax")
#: A method of arrays, and NumPy's function of that name.
array = Namespace("numpy", method=True)
