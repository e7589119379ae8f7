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
    """A `def` of `NAME` for a lambda, and the line of the source that it begins on; None where the source has none, or several
    lambdas that it may be.
    """
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
    """The lambdas that this code may be of: those with its arguments whose bodies it lies in, and no smaller ones."""
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
        if isinstance(node, ast.Lambda) and _start(node.body) <= first and last <= _end(node.body)
    ]
    innermost = max(map(_start, around), default=None)
    for node in around:
        named = arguments_of(node) == code.co_varnames[: code.co_argcount]
        if named and _start(node) == innermost:
            yield node


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def arguments_of(node: ast.Lambda) -> tuple[str, ...]:
    return tuple(x.arg for x in (*node.args.posonlyargs, *node.args.args))
