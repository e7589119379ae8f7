"""The source of a lambda, as the `def` that it stands for."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from types import CodeType, FunctionType

#: What Python calls a lambda.
LAMBDA = "<lambda>"
#: What it is called where it is rewritten.
NAME = "lambda_"


def as_definition(function: FunctionType) -> tuple[str, int] | None:
    """Return a `def` of `NAME` for a lambda, and the line where it begins; None without source, or if several lambdas match."""
    lines = linecache.getlines(function.__code__.co_filename)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return None
    found = {ast.unparse(node): node for node in lambdas_at(tree, function.__code__)}
    if len(found) != 1:
        return None
    ((_, node),) = found.items()
    parameters, body = ast.unparse(node.args), ast.unparse(node.body)
    return f"def {NAME}({parameters}): return {body}\n", node.lineno


def lambdas_at(tree: ast.AST, code: CodeType) -> Iterator[ast.Lambda]:
    """Yield the innermost lambdas of the source that may have compiled to this code: with its arguments, and around its
    positions.
    """
    spans = [
        ((line, col), (end, end_col))
        for line, end, col, end_col in code.co_positions()
        if None not in (line, end, col, end_col) and (col, end_col) != (0, 0)
    ]
    if not spans:
        return
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda)
        and _start_position(node.body) <= first
        and last <= _end_position(node.body)
    ]
    innermost = max(map(_start_position, around), default=None)
    for node in around:
        named = arguments_of(node) == code.co_varnames[: code.co_argcount]
        if named and _start_position(node) == innermost:
            yield node


def _start_position(node: ast.expr) -> tuple[int, int]:
    """Return the line and column where a node begins."""
    return node.lineno, node.col_offset


def _end_position(node: ast.expr) -> tuple[int, int]:
    """Return the line and column where a node ends."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def arguments_of(node: ast.Lambda) -> tuple[str, ...]:
    """Return the names of a lambda's parameters."""
    return tuple(x.arg for x in (*node.args.posonlyargs, *node.args.args))
