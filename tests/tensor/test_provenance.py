"""Every statement knows the line it is written in, every statement of a derivative also what it came
from and by which rule.
"""

from __future__ import annotations

import numpy as np
import pytest
from programs import CASES

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.ssa.program import Constant, Input


@tensor
def chain(A, x):
    n = len(x)
    y = [sum(A[i, j] * x[j] for j in range(n)) for i in range(n)]
    z = [
        np.tanh(y[i])
        + x[i]
        for i in range(n)
    ]  # fmt: skip
    return sum(z[i] * z[i] for i in range(n))


@tensor
def twin(A, x):
    n = len(x)
    y = [sum(A[i, j] * x[j] for j in range(n)) for i in range(n)]

    z = [np.tanh(y[i]) + x[i] for i in range(n)]
    return sum(z[i] * z[i] for i in range(n))


ARGUMENTS = np.eye(3), np.ones(3)


def lines(program):
    """The line of each statement, from the function's first, by rule."""
    made = {s.name: s.origin for s in program.statements}
    return {
        name: (o.rule, o.place.line - chain.python.__code__.co_firstlineno)
        for name, o in made.items()
        if o.place is not None
    }


def test_statements_know_their_lines_even_within_an_expression():
    chain(*ARGUMENTS)
    found = set(lines(chain.ssa).values())
    assert {("5.34", 3), ("5.33", 5), ("5.31", 5), ("5.34", 9)} <= found


def test_equal_programs_keep_lines_of_their_own():
    """Their terms are the same objects."""
    chain(*ARGUMENTS)
    twin(*ARGUMENTS)
    assert twin.program == chain.program
    first = {s.origin.place.line for s in chain.ssa.statements if s.origin.place}
    second = {s.origin.place.line for s in twin.ssa.statements if s.origin.place}
    assert not first & second


def test_a_called_function_keeps_its_own_lines():
    case = next(c for c in CASES if c.name == "convolution_loss")
    case.function(*case.arguments)
    texts = {s.origin.rule: s.origin.place.text for s in case.function.ssa.statements}
    assert "(y[k] - z[k]) ** 2" in texts["5.31"]
    assert any(
        "x[i - j + m - 1] * c[j]" in s.origin.place.text and s.origin.rule == "5.34"
        for s in case.function.ssa.statements
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_derivatives_know_what_they_came_from(case):
    f = case.function
    f.cost(*case.arguments)
    values = {s.name: s for s in f.ssa.statements}
    adjoint = f.vjp(*case.wrt)
    for program in (adjoint.ssa, f.jvp(*case.wrt).ssa):
        for s in program.statements:
            origin = s.origin
            if origin.source:
                assert origin.source in values
                assert origin.place == values[origin.source].origin.place
            elif not isinstance(s.rhs, Input | Constant):
                assert origin.rule in ("6.33", "6.34"), "only the last step has no source"
            if origin.rule.startswith("6.4"):
                assert origin.of in values
    kept = {s.origin.source: s.rhs for s in adjoint.ssa.statements if s.origin.rule[:1] == "5"}
    assert all(type(values[name].rhs) is type(rhs) for name, rhs in kept.items())


def test_second_derivatives_point_at_the_first():
    case = next(c for c in CASES if c.name == "quadratic_form")
    case.function.cost(*case.arguments)
    gradient = case.function.grad("x")
    first = {s.name for s in gradient.ssa.statements}
    second = [s.origin.source for s in gradient.jvp("x").ssa.statements]
    assert set(filter(None, second)) <= first
    assert any(second)
