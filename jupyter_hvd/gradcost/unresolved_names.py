"""Names in a function that are not defined: reported at the definition, before a call fails."""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any

ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


def unresolved_names(function: Callable[..., Any]) -> list[str]:
    """Return a sentence for each global name, or module attribute, that does not exist yet."""
    if not isinstance(function, FunctionType):
        return []
    return list(dict.fromkeys(_find_unresolved(function.__code__, function.__globals__)))


def _find_unresolved(code: CodeType, namespace: dict[str, object]) -> Iterator[str]:
    """Yield a sentence for each unresolved name in code, and in the code nested in it."""
    for first, second in pairwise(dis.get_instructions(code)):
        if first.opname not in ("LOAD_GLOBAL", "LOAD_NAME"):
            continue
        name = first.argval
        line = first.positions.lineno if first.positions else None
        where = f" (line {line})" if line else ""
        if name not in namespace and not hasattr(builtins, name):
            yield f"`{name}` is not defined{where}"
            continue
        module = namespace.get(name)
        is_member = isinstance(module, ModuleType) and second.opname in ATTRIBUTES
        if is_member and not hasattr(module, second.argval):
            yield f"`{name}.{second.argval}` does not exist{where}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _find_unresolved(constant, namespace)
