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
    """The lambdas whose bodies begin and end where this code does."""
    ends = {(line, col, end, end_col) for line, end, col, end_col in code.co_positions()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            body = node.body
            place = body.lineno, body.col_offset, body.end_lineno, body.end_col_offset
            if place in ends and arguments_of(node) == code.co_varnames[: code.co_argcount]:
                yield node


def arguments_of(node: ast.Lambda) -> tuple[str, ...]:
    return tuple(x.arg for x in (*node.args.posonlyargs, *node.args.args))
