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
        """The values that it takes from outside, as they are now."""
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
    """What a value is to a tensor function that calls it; None where it is no function of the user's
    own. What is compiled by `jax.jit` is the function that was compiled.
    """
    if type(value).__module__.startswith("jaxlib"):
        value = getattr(value, "__wrapped__", None)
    if not isinstance(value, FunctionType) or value.__code__.co_filename.startswith(_INSTALLED):
        return None
    return _helper(value)


@functools.lru_cache(maxsize=1024)
def _helper(function: FunctionType) -> Helper:
    from .rewrite import rewrite

    try:
        return Helper(function, rewrite(function))
    except TensorError as error:
        return Helper(function, error)
