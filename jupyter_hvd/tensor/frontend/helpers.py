"""Undecorated user functions that a tensor function calls."""

from __future__ import annotations

import functools
import inspect
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..language.errors import TensorError

if TYPE_CHECKING:
    from .rewrite import Rewritten

#: Where functions are nobody's own: Python's library and what is installed.
_INSTALLED = tuple({sysconfig.get_path(x) for x in ("stdlib", "platstdlib", "purelib", "platlib")})


@dataclass(frozen=True, eq=False)
class Helper:
    """A function that is written in the language, or why it is not."""

    function: Callable[..., Any]
    rewritten: Rewritten | TensorError

    def captured(self) -> tuple[Any, ...]:
        """Return the values that the function takes from outside, as they are now."""
        return () if isinstance(self.rewritten, TensorError) else self.rewritten.captured()

    def __tensor_inline__(self, tracer: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(self.rewritten, TensorError):
            raise self.rewritten.with_traceback(None)
        name = self.function.__name__
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError as error:
            raise tracer.error(f"`{name}`: {error}") from error
        bound.apply_defaults()
        return tracer.inline(name, self.rewritten, bound)


def helper_of(value: Any) -> Helper | None:
    """Return a callable as a user-defined helper function; None if it is none. For a function under `jax.jit`, the function
    inside.
    """
    if type(value).__module__.startswith("jaxlib"):
        value = getattr(value, "__wrapped__", None)
    if not isinstance(value, FunctionType) or value.__code__.co_filename.startswith(_INSTALLED):
        return None
    return _make_helper(value)


@functools.lru_cache(maxsize=1024)
def _make_helper(function: FunctionType) -> Helper:
    """Return the helper for a function: rewritten, or with the reason why it cannot be. Cached."""
    from .rewrite import rewrite

    try:
        return Helper(function, rewrite(function))
    except TensorError as error:
        return Helper(function, error)
