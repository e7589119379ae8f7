"""Tensor functions in pickles: by reference to the module that defines them, else by source.

Functions of a notebook cell, of a script that is run (`__main__`), and functions within functions have no module from which
another process could import them. Of these a pickle holds the source, and the values that they take from outside, as they are
when it is made.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dis
import hashlib
import importlib
import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary


@dataclass(frozen=True)
class Source:
    """The text of a function: its file and line, its name, and its `__future__` flags."""

    text: str
    first: int
    filename: str
    name: str
    qualname: str
    module: str
    flags: int


def is_importable(value: Any) -> bool:
    """Whether another process can import this object by its module and name."""
    found = sys.modules.get(value.__module__)
    if found is None or value.__module__ == "__main__":
        return False
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def read_source(function: FunctionType) -> Source:
    """Return the source of a function. Raises OSError where there is none."""
    lines, first = inspect.getsourcelines(function)
    code = function.__code__
    flags = code.co_flags & __future__.annotations.compiler_flag
    place = function.__qualname__, function.__module__
    return Source(
        textwrap.dedent("".join(lines)), first, code.co_filename, code.co_name, *place, flags
    )


def values_in_signature(function: FunctionType) -> dict[str, Any]:
    """Return the outer values that a function's defaults and annotations use."""
    (node,) = ast.parse(read_source(function).text).body
    assert isinstance(node, ast.FunctionDef)
    names = {x.id for x in ast.walk(node.args) if isinstance(x, ast.Name)}
    if node.returns is not None:
        names |= {x.id for x in ast.walk(node.returns) if isinstance(x, ast.Name)}
    return _outer_values(function, names)


def values_in_body(function: FunctionType) -> dict[str, Any]:
    """Return the outer values that a function uses when it runs."""
    return _outer_values(
        function, {*_global_names(function.__code__), *function.__code__.co_freevars}
    )


def _outer_values(function: FunctionType, names: set[str]) -> dict[str, Any]:
    """Return the values of these names in a function's globals and closure, so that they can be pickled."""
    inside = inspect.getclosurevars(function).nonlocals
    known = {**function.__globals__, **inside}
    return {x: _make_picklable(known[x]) for x in sorted(names) if x in known}


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the global names that code uses, nested code included."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def compile_source(source: Source, outer_values: dict[str, Any]) -> FunctionType:
    """Compile a function from its source, without its decorators.

    Args:
        outer_values: the outer values of its signature.
    """
    tree = ast.parse(source.text)
    (node,) = tree.body
    assert isinstance(node, ast.FunctionDef)
    node.decorator_list = []
    ast.increment_lineno(tree, source.first - 1)
    filename = _register_source(source)
    code = compile(tree, filename, "exec", source.flags, dont_inherit=True)
    namespace = {"__name__": source.module, "__builtins__": builtins, **outer_values}
    exec(code, namespace)  # noqa: S102 - the user's own function
    made = namespace[source.name]
    assert isinstance(made, FunctionType)
    made.__qualname__ = source.qualname
    return made


def fill(function: Any, values: dict[str, Any]) -> None:
    """Set the outer values of a restored function. They may contain the function itself."""
    inspect.unwrap(function).__globals__.update(values)


def _register_source(source: Source) -> str:
    """Return the file name under which Python finds the source; without such a file, the source is registered in memory."""
    lines = source.text.splitlines(keepends=True)
    span = slice(source.first - 1, source.first - 1 + len(lines))
    known = linecache.getlines(source.filename)
    if textwrap.dedent("".join(known[span])) == source.text:
        return source.filename
    filename = source.filename
    if Path(filename).exists() or any(line.strip() for line in known[span]):  # another text
        digest = hashlib.sha256(source.text.encode()).hexdigest()[:12]
        filename, known = f"<{source.name} {digest}>", []
    known = [*known, *["\n"] * (span.stop - len(known))]
    known[span] = lines
    linecache.cache[filename] = (len("".join(known)), None, known, filename)
    return filename


# Values that pickle cannot take as they are


def _make_picklable(value: Any) -> Any:
    """Return a value that can be pickled in place of a module or function."""
    if isinstance(value, ModuleType):
        return _Module(value.__name__)
    if isinstance(value, FunctionType) and not is_importable(value) and _has_source(value):
        return _FUNCTIONS.setdefault(value, _Plain(value))
    return value


def _has_source(function: FunctionType) -> bool:
    """Whether the source of a function can be read, and is a definition."""
    try:
        source = read_source(function)
    except (OSError, TypeError):
        return False
    return source.text.lstrip().startswith(("def ", "@"))


@dataclass(frozen=True)
class _Module:
    name: str

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return importlib.import_module, (self.name,)


@dataclass(frozen=True, eq=False)
class _Plain:
    """A user-defined function that a tensor function calls."""

    function: FunctionType

    def __reduce__(self) -> tuple[Any, ...]:
        given = read_source(self.function), values_in_signature(self.function)
        return compile_source, given, values_in_body(self.function), None, None, fill


_FUNCTIONS: WeakKeyDictionary[FunctionType, _Plain] = WeakKeyDictionary()
