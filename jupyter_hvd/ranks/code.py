"""Digests of the functions and classes of cells, to find ranks with different code."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from typing import Any

from .paths import kept_by
from .serialization import SerializedValue, is_plain


def is_code(value: Any) -> bool:
    """Whether a value is a function or a class that a cell has made."""
    return (
        isinstance(value, (types.FunctionType, type))
        and getattr(value, "__module__", "") == "__main__"
    )


def text_of_code(value: Any) -> str:
    """A function with the names of its parameters, or a class with its name."""
    if isinstance(value, type):
        return f"class {value.__name__}"
    code = value.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return f"function {value.__name__}({', '.join(names)})"


def packed_code(value: Any) -> SerializedValue:
    """The code of a function or class as plain data; kind "none", as no process re-creates it from that."""
    functions = _functions_of(value)
    return SerializedValue("none", {name: _parts_of(each) for name, each in functions.items()})


def _functions_of(value: Any) -> Mapping[str, types.FunctionType]:
    """A function, or the functions of a class."""
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
    """The instructions of a function and the plain values that it has been given."""
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
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def code_of(code: types.CodeType) -> tuple[Any, ...]:
    """Instructions, names and constants, without the file and the lines that they come from."""
    constants = [
        code_of(each) if isinstance(each, types.CodeType) else _constant_text(each)
        for each in code.co_consts
    ]
    return (code.co_code, code.co_names, code.co_varnames, constants)


def _constant_text(constant: Any) -> str:
    """A constant in words; a set has no order that two processes share."""
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
