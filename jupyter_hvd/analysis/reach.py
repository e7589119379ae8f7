"""Finds the calls that reach a statement of a function: not those with `training=False` if it is inside `if training:`."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from .library import Kind
from .syntax import list_parameters
from .values import ValueAnalysis

#: What parameters hold, where that is written down.
Passed = Mapping[cst.Param, cst.BaseExpression]


def is_ruled_out(values: ValueAnalysis, chain: Sequence[cst.Call]) -> bool:
    """Whether the last of some calls provably never leads to the first one, because a condition between them does not hold.

    Args:
        chain: a call, a call of the function around it, a call of the function around that, and so on.
    """
    passed: Passed = {}
    for place in range(len(chain) - 1, -1, -1):
        call = chain[place]
        if place > 1 and _passes_another_function(values, *chain[place - 2 : place + 1]):
            return True
        for test, wanted in list_conditions(values, call):
            answer = evaluate_test(values, test, passed)
            if answer is not None and answer is not wanted:
                return True
        if place:
            passed = _literal_arguments(values, call, chain[place - 1], passed)
    return False


def _passes_another_function(
    values: ValueAnalysis, inner: cst.Call, site: cst.Call, outer: cst.Call
) -> bool:
    """Whether an outer call passes another function than the one around an inner call: `run(test_step, test)`."""
    function = values.module.function_of(site)
    match values.definitions.reaching(site.func) if isinstance(site.func, cst.Name) else []:
        case [cst.Param() as param] if function is not None:
            passed = values.calls.actual_arguments(function, param)
            run = {v for call, given in passed if call is outer for v in values.of(given)}
            known = {value.kind for value in run} == {Kind.FUNCTION}
            return known and values.module.function_of(inner) not in {v.node for v in run}
    return False


def list_conditions(
    values: ValueAnalysis, node: cst.CSTNode
) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """Yield the tests that decide whether a node of a function runs, each with the answer that leads to the node."""
    function, child = values.module.function_of(node), node
    for ancestor in values.module.ancestors(node):
        if ancestor is function:
            return
        match ancestor:
            case cst.If(test=test, body=body) | cst.IfExp(test=test, body=body):
                if child is not test:
                    yield test, child is body
            case cst.BooleanOperation(left=left, operator=operator) if child is not left:
                yield left, isinstance(operator, cst.And)
            case cst.IndentedBlock(body=statements):
                yield from ((test, False) for test in _early_exit_tests(statements, child))
        child = ancestor


def _early_exit_tests(
    statements: Sequence[cst.BaseStatement], last: cst.CSTNode
) -> Iterator[cst.BaseExpression]:
    """Yield the tests of `if` statements above that leave the block."""
    for before in itertools.takewhile(lambda each: each is not last, statements):
        if isinstance(before, cst.If) and before.orelse is None and _ends_in_exit(before):
            yield before.test


def _ends_in_exit(conditional: cst.If) -> bool:
    """Whether the body of an `if` ends by leaving the function or the iteration."""
    last = conditional.body.body[-1] if conditional.body.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, (cst.Return, cst.Raise, cst.Continue))


def _literal_arguments(
    values: ValueAnalysis, call: cst.Call, inner: cst.CSTNode, outer: Passed
) -> dict[cst.Param, cst.BaseExpression]:
    """Return the literal arguments of a call, by parameter of the function around a node."""
    function = values.module.function_of(inner)
    found: dict[cst.Param, cst.BaseExpression] = {}
    for param in list_parameters(function) if function is not None else ():
        assert function is not None
        given = [v for site, v in values.calls.actual_arguments(function, param) if site is call]
        value = given[0] if given else param.default
        written = _find_literal(values, value, outer) if value is not None else None
        if written is not None:
            found[param] = written
    return found


def _find_literal(
    values: ValueAnalysis, expression: cst.BaseExpression, passed: Passed
) -> cst.BaseExpression | None:
    """Return the literal that an expression is, or that is passed for its parameter; None if unknown."""
    match expression:
        case cst.Name("True" | "False" | "None") | cst.Integer() | cst.SimpleString():
            return expression
        case cst.Name():
            match values.definitions.reaching(expression):
                case [cst.Param() as param]:
                    return passed.get(param)
    return None


def evaluate_test(values: ValueAnalysis, test: cst.BaseExpression, passed: Passed) -> bool | None:
    """Return the value of a test for these arguments; None if it is not determined."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            answer = evaluate_test(values, inner, passed)
            return None if answer is None else not answer
        case cst.BooleanOperation(left=left, operator=operator, right=right):
            ends = isinstance(operator, cst.Or)
            sides = evaluate_test(values, left, passed), evaluate_test(values, right, passed)
            if ends in sides:
                return ends
            return None if None in sides else not ends
        case cst.Comparison(
            left=left, comparisons=[cst.ComparisonTarget(operator=how, comparator=right)]
        ):
            one, other = _find_literal(values, left, passed), _find_literal(values, right, passed)
            if one is None or other is None:
                return None
            same = _evaluate(values, one) == _evaluate(values, other)
            if isinstance(how, (cst.Is, cst.Equal)):
                return same
            return not same if isinstance(how, (cst.IsNot, cst.NotEqual)) else None
    written = _find_literal(values, test, passed)
    return None if written is None else bool(_evaluate(values, written))


def _evaluate(values: ValueAnalysis, literal: cst.BaseExpression) -> object:
    """Return the Python value of a literal."""
    return ast.literal_eval(values.module.text(literal))
