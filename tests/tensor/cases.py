"""Functions with the arguments that tests give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Cases = list[tuple[Any, tuple[Any, ...]]]


def entering(cases: Cases) -> Callable[..., Any]:
    """A decorator that enters a function there, with arguments of its own."""
    return _entering(lambda function, arguments: cases.append((function, arguments)))


def entering_by_name(cases: dict[str, tuple[Any, tuple[Any, ...]]]) -> Callable[..., Any]:
    """A decorator that enters a function there by its name, with arguments of its own."""
    return _entering(
        lambda function, arguments: cases.update({function.__name__: (function, arguments)})
    )


def _entering(enter: Callable[[Any, tuple[Any, ...]], None]) -> Callable[..., Any]:
    def case(*arguments: Any) -> Callable[[Any], Any]:
        def entered(function: Any) -> Any:
            enter(function, arguments)
            return function

        return entered

    return case
