"""Parses untrusted text with Python's own parser: refuses what it cannot parse, and never crashes.

Everything that parses the text of a program calls `parse_python` or `syntax_error`. Besides a
`SyntaxError`, Python's parser raises `ValueError` (a null character), `RecursionError` and `MemoryError` (deep nesting).
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

#: Line and column, from 1, and the reason.
SyntaxFault = tuple[int, int, str]
NESTED_TOO_DEEPLY = "an expression is nested too deeply"


class UnparsableError(ValueError):
    """Raised for a text that Python's parser refuses.

    Attributes:
        fault: line, column and reason.
    """

    def __init__(self, fault: SyntaxFault) -> None:
        line, _, reason = fault
        super().__init__(f"{reason} (line {line})")
        self.fault = fault

    @property
    def is_too_deep(self) -> bool:
        """Whether the text may be valid Python that is nested more deeply than Python's parser supports."""
        return is_too_deep(self.fault)


def parse_python(source: str, filename: str = "<cell>", *, awaits: bool = True) -> ast.Module:
    """Parse a text.

    Args:
        filename: the name of the text in warnings and tracebacks of the compiled tree.
        awaits: allow `await` outside of functions, as in a cell.

    Raises:
        UnparsableError: the text is not Python, or is nested too deeply.
    """
    flags = ast.PyCF_ONLY_AST | (ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if awaits else 0)
    with _convert_faults(source):
        tree = compile(source, filename, "exec", flags, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    return tree


@contextmanager
def _convert_faults(source: str) -> Iterator[None]:
    """Raise errors of Python's parser and compiler as `UnparsableError` within the block, and suppress their warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except SyntaxError as error:
        line = error.lineno or _line_number(
            source, source.find("\0")
        )  # the only fault without a place
        raise UnparsableError((line, error.offset or 1, error.msg)) from None
    except ValueError as error:  # a lone surrogate, or, in older Python, a null character
        place = error.start if isinstance(error, UnicodeEncodeError) else source.find("\0")
        raise UnparsableError((_line_number(source, place), 1, str(error))) from None
    except (RecursionError, MemoryError):
        raise UnparsableError((_deep_line(source), 1, NESTED_TOO_DEEPLY)) from None


def parse_program(source: str) -> ast.Module:
    """Parse a script, and check that `await` and `return` are at valid positions, which only the compiler does.

    Raises:
        UnparsableError: as for `parse_python`.
    """
    tree = parse_python(source, "program", awaits=False)
    with _convert_faults(source):
        compile(tree, "program", "exec", dont_inherit=True)
    return tree


def deepest_line(source: str) -> int:
    """Return the line, from 1, of the most deeply nested statement."""
    deepest, line = 0, 1
    for statement in parse_python(source).body:
        waiting: list[tuple[ast.AST, int]] = [(statement, 1)]
        while waiting:
            node, depth = waiting.pop()
            if depth > deepest:
                deepest, line = depth, statement.lineno
            waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return line


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise the recursion limit within the block: the tree of a sum of a thousand terms is a thousand levels deep."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 20_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def syntax_error(source: str) -> SyntaxFault | None:
    """Return line, column and Python's message, or None for valid Python. `await` is allowed, as in a cell."""
    try:
        _check_parses(source)
    except UnparsableError as error:
        return error.fault
    return None


@lru_cache(maxsize=4096)
def _check_parses(source: str) -> None:
    """Parse a text once: the cells of a notebook are asked about again and again, when one of them was edited too.

    Raises:
        UnparsableError: as for `parse_python`; this is not remembered.
    """
    parse_python(source)


def is_too_deep(fault: SyntaxFault) -> bool:
    """Whether a text was refused only because of its nesting."""
    return fault[2] == NESTED_TOO_DEEPLY


def _line_number(source: str, offset: int) -> int:
    """Return the line number, from 1, of an offset; 1 for an invalid offset."""
    return source.count("\n", 0, max(offset, 0)) + 1


def _deep_line(source: str) -> int:
    """Return the first line, from 1, up to which a text is nested too deeply, found by bisection."""
    lines = source.splitlines(keepends=True)
    below, above = 0, len(lines)
    while above - below > 1:
        middle = (below + above) // 2
        if _is_nested_too_deeply("".join(lines[:middle])):
            above = middle
        else:
            below = middle
    return max(above, 1)


def _is_nested_too_deeply(source: str) -> bool:
    """Whether Python's parser exceeds its recursion limit or memory on a text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (RecursionError, MemoryError):
        return True
    except (SyntaxError, ValueError):
        return False
    return False
