"""Digests of the functions and classes of cells, to find ranks with different code."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from typing import Any

from .paths import kept_by
from .serialization import SerializedValue, is_plain


def is_code(value: Any) -> bool:
    """Whether a value is a function or class that a cell defined."""
    return (
        isinstance(value, (types.FunctionType, type))
        and getattr(value, "__module__", "") == "__main__"
    )


def text_of_code(value: Any) -> str:
    """Return a function with the names of its parameters, or a class with its name, as text."""
    if isinstance(value, type):
        return f"class {value.__name__}"
    code = value.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return f"function {value.__name__}({', '.join(names)})"


def packed_code(value: Any) -> SerializedValue:
    """Serialize what distinguishes a function or class, for comparison only; no process can re-create it from that."""
    functions = _functions_of(value)
    return SerializedValue("none", {name: _parts_of(each) for name, each in functions.items()})


def _functions_of(value: Any) -> Mapping[str, types.FunctionType]:
    """Return a function, or the functions of a class, by name."""
    if isinstance(value, types.FunctionType):
        return {value.__name__: value}
    unwrapped = {
        name: inspect.unwrap(getattr(each, "__func__", each))
        for name, each in vars(value).items()
        if callable(each) or hasattr(each, "__func__")
    }
    return {
        name: each
        for name, each in sorted(unwrapped.items())
        if isinstance(each, types.FunctionType) and each.__module__ == value.__module__
    }


def _parts_of(function: types.FunctionType) -> Mapping[str, Any]:
    """Return what distinguishes a function: its instructions, defaults and plain values from outside."""
    given = {
        "defaults": function.__defaults__ or (),
        "keywords": function.__kwdefaults__ or {},
        "kept": dict(sorted(kept_by(function).items())),
    }
    return {
        "source": _source_of(function),
        "code": code_of(function.__code__),
        **{name: each for name, each in given.items() if is_plain(each)},
    }


def _source_of(function: types.FunctionType) -> str:
    """Return the source of a function; "" if it is not known."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def code_of(code: types.CodeType) -> tuple[Any, ...]:
    """Return instructions, names and constants of code, without its file and lines."""
    constants = [
        code_of(each) if isinstance(each, types.CodeType) else _constant_text(each)
        for each in code.co_consts
    ]
    return (code.co_code, code.co_names, code.co_varnames, constants)


def _constant_text(constant: Any) -> str:
    """Return a constant as text that is equal in all processes; the order of a set is not."""
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
