"""Small predicates on syntax nodes."""

from __future__ import annotations

import libcst as cst

Function = cst.FunctionDef | cst.Lambda


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.Arg | None:
    """Return the argument passed by name, or at a position before any `*args`, counted from 0; None if there is none."""
    for index, arg in enumerate(call.args):
        if arg.keyword is not None:
            if arg.keyword.value == name:
                return arg
        elif arg.star:
            if arg.star == "*":
                position = None
        elif index == position:
            return arg
    return None


def has_star(call: cst.Call) -> bool:
    """Whether some arguments are hidden behind `*args` or `**kwargs`."""
    return any(arg.star for arg in call.args)


def method(call: cst.Call) -> str:
    """Return the name of the called method; '' if no method is called."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def text_key(entry: cst.Subscript) -> str | None:
    """Return the string by which an entry is read or set: 'batch' of `settings["batch"]`; None for another key."""
    match entry.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() as key))]:
            return str(key.evaluated_value)
    return None


def find_entry_key(entry: cst.BaseExpression) -> str | None:
    """Return the string by which an entry is read, set, or set if it is missing; None for another key."""
    match entry:
        case cst.Subscript():
            return text_key(entry)
        case cst.Call(args=[cst.Arg(value=cst.SimpleString() as key), *_]):
            return str(key.evaluated_value)
    return None


def find_increment(start: cst.BaseExpression, end: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the `n` of an end that is written `start + n`; None for another end."""
    match end:
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            if left.deep_equals(start):
                return right
            if right.deep_equals(start):
                return left
    return None


def list_parameters(function: Function) -> list[cst.Param]:
    """Return all parameters of a function, without `*args` and `**kwargs`, in order."""
    params = function.params
    return [*params.posonly_params, *params.params, *params.kwonly_params]


def is_decorated(function: cst.CSTNode, *names: str) -> bool:
    """Whether a function has a decorator of one of these names: `staticmethod`, `property`."""
    return isinstance(function, cst.FunctionDef) and any(
        isinstance(d.decorator, cst.Name) and d.decorator.value in names
        for d in function.decorators
    )


def is_string_literal(node: cst.BaseExpression) -> bool:
    """Whether an expression is a string literal."""
    return isinstance(node, cst.SimpleString | cst.FormattedString | cst.ConcatenatedString)
