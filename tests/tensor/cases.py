"""Functions with the arguments that tests give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Cases = list[tuple[Any, tuple[Any, ...]]]


def entering(cases: Cases) -> Callable[..., Any]:
    """A decorator that enters a function there, with arguments of its own."""

    def case(*arguments: Any) -> Callable[[Any], Any]:
        def enter(function: Any) -> Any:
            cases.append((function, arguments))
            return function

        return enter

    return case
