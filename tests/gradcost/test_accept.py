"""Advice that is taken: what is put into the cell is equal, and costs less."""

import math

import numpy as np
import pytest

from jupyter_hvd.gradcost.advice import Adviser
from jupyter_hvd.gradcost.apply_advice import accept_advice, compare_programs, rewrite_subject
from jupyter_hvd.gradcost.report import make_report, plain_source
from jupyter_hvd.gradcost.rewritten_source import Written
from jupyter_hvd.gradcost.subject import make_subject
from jupyter_hvd.tensor import TensorError, tensor

SQUARE = np.random.default_rng(0).uniform(size=(16, 16))
VECTOR = SQUARE[0]


@tensor
def chain(A, B, x):
    n = len(x)
    C = [[sum(A[i, k] * B[k, j] for k in range(n)) for j in range(n)] for i in range(n)]
    y = [sum(C[i][j] * x[j] for j in range(n)) for i in range(n)]
    return sum(y[i] * y[i] for i in range(n))


@tensor
def invariant(x, t):
    return sum(math.exp(t * t) * x[i] for i in range(len(x)))


@tensor
def scaled(a, x):
    return sum(a * x[i] for i in range(len(x)))


def inspected(f, wrt, *arguments):
    about = make_subject(f, wrt, (arguments, {}))
    adviser = Adviser(about)
    made = make_report(about, about.start)
    ways = [a for a in adviser.give_advice(made, plain_source) if a.way >= 0]
    return adviser, ways


def taken(f, wrt, *arguments):
    adviser, ways = inspected(f, wrt, *arguments)
    return accept_advice(adviser, ways[0].way, adviser.subject.start, plain_source)


def test_another_order_of_sums():
    change = taken(chain, ("x",), SQUARE, SQUARE, VECTOR)
    assert change.before.splitlines()[0].startswith("    C = "), "nothing reads it any more"
    assert change.after.splitlines() == [
        "    t = [sum(B[i, j] * x[j] for j in range(n)) for i in range(n)]",
        "    y = [sum(A[i, j] * t[j] for j in range(n)) for i in range(n)]",
    ]
    assert "C[i][j] * x[j]" in change.before
    assert change.value == (8463, 1023)
    assert change.gradient[1] < change.gradient[0]
    assert change.draws == 8
    assert change.difference < 1e-12


def test_what_does_not_depend_on_the_loop():
    _, ways = inspected(invariant, ("x",), VECTOR, 0.5)
    change = taken(invariant, ("x",), VECTOR, 0.5)
    assert change.after.splitlines() in (
        ["    t1 = math.exp(t * t)", "    return sum(t1 * x[i] for i in range(len(x)))"],
        ["    t1 = t * t", "    return sum(math.exp(t1) * x[i] for i in range(len(x)))"],
    )
    assert len(ways) >= 1


def test_a_factor_outside_its_sum():
    change = taken(scaled, ("x",), 2.0, VECTOR)
    assert change.after == "    return a * sum(x[i] for i in range(len(x)))"
    assert change.value == (31, 16)


@tensor
def named(A, B, C, x):
    n = len(x)
    D = [[A[i, j] + C[i, j] for j in range(n)] for i in range(n)]
    E = [[sum(D[i][k] * B[k, j] for k in range(n)) for j in range(n)] for i in range(n)]
    return sum(E[i][j] * x[j] for i in range(n) for j in range(n))


def test_variables_keep_their_names():
    adviser, ways = inspected(named, ("x",), SQUARE, SQUARE, SQUARE, VECTOR)
    assert ways
    change = accept_advice(adviser, ways[0].way, adviser.subject.start, plain_source)
    assert change.value[1] < change.value[0]


# fmt: off
@tensor
def inner(x, a):
    y = [
        sum(
            a * x[i]
            for i in range(len(x))
        )
        * x[j]
        for j in range(len(x))
    ]
    return sum(y[j] for j in range(len(x)))
# fmt: on


def test_lines_of_their_own():
    adviser, ways = inspected(inner, ("x",), VECTOR, 2.0)
    changes = {
        w.kind: accept_advice(adviser, w.way, adviser.subject.start, plain_source) for w in ways
    }
    assert changes["outside"].value == (527, 62)
    assert changes["factored"].after.strip() == "(a * sum(x[i] for i in range(len(x))))"
    assert changes["reassociated"].before.startswith("    y = [\n")
    assert "y = " not in changes["reassociated"].after


def test_what_is_not_equal_is_refused():
    about = make_subject(scaled, ("x",), ((2.0, VECTOR), {}))
    written = Written.of(scaled)
    other = rewrite_subject(about, written, written.text.replace("a * x[i]", "a * a * x[i]"))
    with pytest.raises(
        TensorError, match=r"on random values at .* the value so written is another"
    ):
        compare_programs(about, other, about.start, lambda: None)


def test_what_is_equal_for_positive_numbers_alone_is_refused():
    one = make_subject(magnitude, ("x",), ((VECTOR,), {}))
    written = Written.of(magnitude)
    other = rewrite_subject(one, written, written.text.replace("abs(x[i])", "x[i]"))
    with pytest.raises(TensorError, match="is another"):
        compare_programs(one, other, one.start, lambda: None)


@tensor
def magnitude(x):
    return sum(abs(x[i]) for i in range(len(x)))


def test_a_line_of_another_function_is_refused():
    adviser, ways = inspected(calling, ("x",), 2.0, VECTOR)
    with pytest.raises(TensorError, match="the line belongs to another function"):
        accept_advice(adviser, ways[0].way, adviser.subject.start, plain_source)


@tensor
def calling(a, x):
    return math.pi * scaled(a, x)


def test_the_cards_of_the_function_are_left_alone():
    scaled(2.0, np.ones(3))
    last = scaled.last_sizes
    taken(scaled, ("x",), 2.0, VECTOR)
    assert scaled.last_sizes == last


def test_there_is_no_such_advice():
    adviser, _ = inspected(scaled, ("x",), 2.0, VECTOR)
    with pytest.raises(TensorError, match="no longer applies"):
        accept_advice(adviser, 99, adviser.subject.start, plain_source)
