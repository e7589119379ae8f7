"""Statements that need not wait for an iteration are computed before their loops, at no higher cost."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from differences import check
from random_loops import Loops, derivatives_are_cheap_and_adjoint
from random_programs import environment

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.cost.model import cost
from jupyter_hvd.tensor.language.parser import parse_lambda
from jupyter_hvd.tensor.reference.evaluate import Environment, evaluate
from jupyter_hvd.tensor.ssa import convert
from jupyter_hvd.tensor.ssa.loop_hoisting import distribute_loops, hoist_loop_invariants
from jupyter_hvd.tensor.ssa.normalize import normalize
from jupyter_hvd.tensor.ssa.program import Program, Recurrence, operands
from jupyter_hvd.tensor.ssa.simplify import simplify


def program_of(text: str) -> Program:
    return simplify(convert.to_ssa(normalize(parse_lambda(text).body)))


def operations(program: Program, **sizes: int) -> int:
    return cost(convert.to_term(program), Environment({}, sizes)).total


PRODUCT = "λ(u:ℝ, v:ℝ). let H = iterate k:n. s := u in (u·v)·s in H[n]"
NESTED = (
    "λ(u:ℝ, v:ℝ). let H = iterate k:n. s := u in "
    "(let G = iterate j:m. t := s in (u·v)·(s·t) in G[m]) in H[n]"
)


def test_a_product_is_computed_once():
    program = program_of(PRODUCT)
    assert operations(program, n=5) == 10
    assert operations(hoist_loop_invariants(program), n=5) == 6


def test_a_loop_without_iterations_costs_nothing():
    assert operations(hoist_loop_invariants(program_of(PRODUCT)), n=0) == 0


def test_invariants_of_an_inner_loop_leave_the_outer_one_too():
    program = program_of(NESTED)
    assert operations(program, n=5, m=3) == 45
    assert operations(hoist_loop_invariants(program), n=5, m=3) == 1 + 5 * 3 * 2
    assert operations(hoist_loop_invariants(program), n=5, m=0) == 0


def test_reads_stay_in_the_loop():
    program = program_of("λ(x:[n]ℝ). let H = iterate k:n. s := x[0] in s·x[0] in H[n]")
    assert hoist_loop_invariants(program) == program


@pytest.mark.parametrize("seed", range(12))
def test_derivatives_of_hoisted_programs_obey_the_theorems(seed):
    random = Random(seed)
    function = Loops(random).program(3)
    env = environment(random, random.randrange(1, 4), random.randrange(1, 4))
    program = simplify(convert.to_ssa(normalize(function.body)))
    hoisted = simplify(hoist_loop_invariants(program))
    derivatives_are_cheap_and_adjoint(hoisted, env, random)
    derivatives_are_cheap_and_adjoint(simplify(distribute_loops(hoisted)), env, random)


def test_what_no_iteration_waits_for_is_computed_for_all_at_once():
    program = program_of(
        "λ(x:[n]ℝ, u:ℝ). let H = iterate k:n. s := u in s·(x[k]·u) + x[k]·x[k] in H[n]"
    )
    made = simplify(distribute_loops(program))
    assert operations(made, n=5) == operations(program, n=5) == 20
    (loop,) = (s.rhs for s in made.statements if isinstance(s.rhs, Recurrence))
    assert len(loop.rows) == 2
    assert sum(len(operands(s.rhs)) > 1 for s in loop.body.statements) == 2


def test_no_large_rows_are_stored_for_a_linear_loop():
    program = program_of(
        "λ(x:[n]ℝ, v:[m]ℝ). let H = iterate k:n. s := v in ⊞ i:m. s[i] + x[k]·v[i] in H[n]"
    )
    assert distribute_loops(program) is program


def test_gradients_with_checkpoints_store_no_rows():
    f = tensor(decay)
    arguments = PROGRAMS[0][1]
    gradients = [f.grad("x", checkpoint=c) for c in (False, True, "blocks")]
    first, *others = [g(*arguments) for g in gradients]
    for other in others:
        np.testing.assert_allclose(first, other, rtol=1e-6)
    assert "exp" not in str(gradients[0].ssa).split("iterate")[1]


def test_a_value_that_is_another_one_iteration_later_is_not_carried():
    program = program_of(
        "λ(u:ℝ). let H = iterate k:n. s := u, t := 0 in (s·u, s) in Σ k:n. (π1 H)[k]·(π0 H)[k]"
    )
    (loop,) = (s.rhs for s in program.statements if isinstance(s.rhs, Recurrence))
    assert len(loop.starts) == 1
    term, environment = convert.to_term(program), Environment({"u": 2}, {"n": 4})
    assert evaluate(term, environment) == 0 * 2 + 2 * 4 + 4 * 8 + 8 * 16


def decay(x, rate, steps):
    for dt in steps:
        x = x - dt * np.exp(-rate) * np.sin(x)
    return np.sum(x * x)


def gathered(table, k, x):
    for t in range(len(k)):
        x = np.tanh(x * 0.5 + np.sqrt(table[t, k]) * x[0])
    return np.sum(x)


def looked_up(x, w, k):
    h = x
    for t in range(len(w)):
        h = np.tanh(h * np.cumsum(x)[k] + w[t])
    return np.sum(h)


def in_an_inner_loop(x, w):
    total = 0.0
    for i in range(len(x)):
        h = x[i]
        for t in range(len(w)):
            h = np.sin(h * np.exp(x[i]) + np.sum(np.exp(w)) * w[t])
        total = 0.5 * total + h
    return total


R = np.random.default_rng(0)
PROGRAMS = [
    (decay, (R.normal(size=4), np.array(0.3), R.uniform(size=5))),
    (gathered, (R.uniform(1, 2, (3, 4)), np.array([1, 3, 0]), R.normal(size=3))),
    (looked_up, (R.normal(size=3), R.normal(size=5), np.array([2, 0, 1]))),
    (in_an_inner_loop, (R.normal(size=4), R.normal(size=3))),
]


@pytest.mark.parametrize(("function", "arguments"), PROGRAMS)
def test_values_and_gradients(function, arguments):
    check(function, arguments)


def test_nothing_invariant_is_left_in_a_loop():
    f = tensor(decay)
    f(*PROGRAMS[0][1])
    (loop,) = (s.rhs for s in f.ssa.statements if isinstance(s.rhs, Recurrence))
    assert "exp" not in str(loop.body)
