"""IPython's own syntax in a cell, masked by Python of the same length and with the same lines.

What is special is found as IPython finds it: a cell magic is one on the cell's first line that is not blank; line magics,
`!` lines, `x = !ls` and `help?` are found among the tokens of a logical line.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator, Sequence
from itertools import chain

from .magics import CELL_MAGIC, PYTHON_CELL_MAGICS, TIMED
from .parsing import syntax_error

#: The same without its `%`: as a cell of one line IPython takes it too.
_AUTOMATIC = re.compile(TIMED.pattern.removeprefix("%"), re.VERBOSE)
#: Python of any length from one character on: a statement and a comment.
_SHORTEST = "0"
#: How deep Python lets blocks stand in one another; what is deeper is no Python, masked or not.
_MAX_INDENTS = 100


def mask_cell(source: str) -> str:
    """Convert a cell to Python of the same length and with the same lines, in linear time."""
    start = 0
    while (magic := CELL_MAGIC.match(source, start)) is not None:
        if magic["name"] not in PYTHON_CELL_MAGICS:
            return comment_out(source)
        start = magic.end()
    if start:
        return comment_out(source[:start]) + _mask_statements(source[start:])
    automatic = _AUTOMATIC.match(source)
    if automatic is not None and "\n" not in source.strip() and syntax_error(source) is not None:
        return "0;".ljust(automatic.end()) + source[automatic.end() :]
    return _mask_statements(source)


def comment_out(source: str) -> str:
    """Return a text of the same length in which each line is a comment after its indentation."""
    return re.sub(r"\S[^\n\r]*", lambda line: "#" * len(line.group()), source)


def extract_statement(line: str, masked: str) -> str | None:
    """Return the Python statement in a line with a magic: `x = f()` of `x = %time f()`; None where there is none."""
    start = next((n for n, both in enumerate(zip(line, masked, strict=True)) if len({*both}) > 1))
    if masked.startswith((" ", "0;"), start):
        return line[:start] + masked[start:].removeprefix("0;").lstrip()
    return None


def _mask_statements(source: str) -> str:
    """Mask a cell, or the body of a cell magic, line by line if it is not valid Python."""
    if not re.search(r"[%!?]", source) or syntax_error(source) is None:
        return source
    return _mask_lines(source)


def _mask_lines(source: str) -> str:
    """Mask line magics, `!` lines, `x = !ls` and `help?`, found as IPython itself finds them.

    IPython reads the whole cell again behind each, since what follows a `!` need not be tokens of Python. Here reading
    goes on behind the masked lines: what is above them stays as it was read.
    """
    from IPython.core.inputtransformer2 import find_end_of_continued_line

    lines = source.splitlines(keepends=True)
    indents: list[str] = []  # of the blocks that are open where reading goes on
    following = 0
    while following < len(lines) and len(indents) <= _MAX_INDENTS:
        for tokens in _logical_lines(lines, following, indents):
            found = _find_syntax(tokens)
            if found is not None:
                break
        else:
            break
        row, column, is_assigned = found
        line = lines[row]
        timed = TIMED.match(line, column)
        if timed is not None:  # and what it goes on with behind a backslash stays too
            end = timed.end()
            while is_assigned and (timed := TIMED.match(line, end)) is not None:
                end = timed.end()
            mask = "" if is_assigned else "0;"
            lines[row] = line[:column] + mask.ljust(end - column) + line[end:]
            following = min(token.start[0] for token in tokens) - 1
            continue
        last_line = min(find_end_of_continued_line(lines, row), len(lines) - 1)
        for number in range(row, last_line + 1):
            start = column if number == row else 0
            body = lines[number].rstrip("\r\n")
            mask = "#" * (len(body) - start)
            if number == row:
                mask = _SHORTEST + mask[1:]
            lines[number] = body[:start] + mask + lines[number][len(body) :]
        following = last_line + 1
    return "".join(lines)


def _find_syntax(tokens: list[tokenize.TokenInfo]) -> tuple[int, int, bool] | None:
    """Find IPython's own syntax in a logical line, given as tokens.

    Returns:
        Line and column, from 0, and whether it is a magic whose result is assigned; None if there is none.
    """
    from IPython.core.inputtransformer2 import EscapedCommand, HelpEnd, MagicAssign, SystemAssign

    found: list[tuple[int, int, bool]] = []
    for kind in (MagicAssign, SystemAssign, EscapedCommand, HelpEnd):
        try:
            special = kind.find([tokens])
        except IndexError:  # the text ends behind `x = %`
            continue
        if special is not None:
            found.append((special.start_line, special.start_col, kind is MagicAssign))
    return min(found, key=lambda each: each[:2]) if found else None


def _logical_lines(
    lines: Sequence[str], following: int, indents: list[str]
) -> Iterator[list[tokenize.TokenInfo]]:
    """Yield the tokens of each logical line from line `following` (from 0) on, as IPython groups them.

    Args:
        indents: the indentation of each open block, outermost first; kept up to date. Lines are read only when needed.
    """
    from IPython.utils import tokenutil

    # Blocks that are open are opened again, so that the end of one is not taken for a wrong indentation.
    opened = [f"{indent}0\n" for indent in ("", *indents)] if indents else []
    shift = following - len(opened)
    rest = (lines[number] for number in range(following, len(lines)))
    tokens: list[tokenize.TokenInfo] = []
    depth = 0
    reading = tokenutil.generate_tokens_catch_errors(
        chain(opened, rest).__next__, extra_errors_to_catch=["expected EOF"]
    )
    try:
        for token in reading:
            row = token.start[0]
            if row <= len(opened):
                continue
            if token.type == tokenize.INDENT:
                indents.append(token.string)
            elif token.type == tokenize.DEDENT and indents:
                indents.pop()
            start, end = (row + shift, token.start[1]), (token.end[0] + shift, token.end[1])
            tokens.append(token._replace(start=start, end=end))
            is_end = token.type == tokenize.NEWLINE or (token.type == tokenize.NL and depth <= 0)
            if is_end:
                yield tokens
                tokens = []
            elif token.type == tokenize.OP and token.string in ("(", "[", "{"):
                depth += 1
            elif token.type == tokenize.OP and token.string in (")", "]", "}"):
                depth = max(0, depth - 1)
    except (tokenize.TokenError, IndentationError):
        pass  # the cell ends within a string or brackets, or an indentation is wrong
    if tokens:
        yield tokens
