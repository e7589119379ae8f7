"""One MLIR context for many lowerings.

JAX makes a context for each function that it lowers, and loads all dialects into it: three quarters of what it takes to lower a
small function. Modules of one context do not know each other, so tests that lower thousands of small functions share one.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

#: A context keeps every constant that it has seen, so it is replaced after so many lowerings.
LOWERINGS = 500


def share_contexts() -> None:
    """Let each thread of this process take the same context for up to `LOWERINGS` lowerings."""
    from jax._src.interpreters import mlir

    if not hasattr(mlir.make_ir_context, "__wrapped__"):
        mlir.make_ir_context = shared(mlir.make_ir_context)


def shared(make: Callable[[], Any]) -> Callable[[], Any]:
    """A function that returns one context of `make` per thread, and a new one after `LOWERINGS` calls."""
    own = threading.local()

    @functools.wraps(make)
    def context() -> Any:
        own.left = getattr(own, "left", 0) - 1
        if own.left < 0:
            own.context, own.left = make(), LOWERINGS - 1
        return own.context

    return context
