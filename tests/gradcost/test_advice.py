"""Advice holds: what it says would be saved is saved by a function so written."""

import gc
import math
import weakref

import numpy as np
import pytest
from programs import CASES

from jupyter_hvd.gradcost import background_work
from jupyter_hvd.gradcost.advice import Adviser
from jupyter_hvd.gradcost.report import make_report, plain_source
from jupyter_hvd.gradcost.subject import make_subject
from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.frontend.signature import environment
from jupyter_hvd.tensor.reference.evaluate import Environment, evaluate
from jupyter_hvd.tensor.ssa.convert import to_term


@tensor
def chain(A, B, x):
    n = len(x)
    C = [[sum(A[i, k] * B[k, j] for k in range(n)) for j in range(n)] for i in range(n)]
    y = [sum(C[i][j] * x[j] for j in range(n)) for i in range(n)]
    return sum(y[i] * y[i] for i in range(n))


@tensor
def chain_in_order(A, B, x):
    n = len(x)
    t = [sum(B[i, j] * x[j] for j in range(n)) for i in range(n)]
    y = [sum(A[i, k] * t[k] for k in range(n)) for i in range(n)]
    return sum(y[i] * y[i] for i in range(n))


@tensor
def invariant(x, t):
    return sum(math.exp(t * t) * x[i] for i in range(len(x)))


@tensor
def named(x, t):
    e = math.exp(t * t)
    return sum(x[i] for i in range(len(x))) * e


@tensor
def scaled(a, x):
    return sum(a * x[i] for i in range(len(x)))


@tensor
def diagonal(x):
    n = len(x)
    A = [[x[i] if i == j else 0 for j in range(n)] for i in range(n)]
    return sum(A[i][j] for i in range(n) for j in range(n))


@tensor
def repeated(x):
    n = len(x)
    a = sum(x[i] * x[i] for i in range(n))
    b = sum(x[i] * x[i] for i in range(n))
    return a + b


SQUARE = np.random.default_rng(0).uniform(size=(16, 16))
VECTOR = SQUARE[0]


def given(f, wrt, *arguments):
    about = make_subject(f, wrt, (arguments, {}))
    made = make_report(about, about.start)
    return {a.kind: a for a in Adviser(about).give_advice(made, plain_source)}


def test_another_order_of_sums():
    found = given(chain, ("x",), SQUARE, SQUARE, VECTOR)["reassociated"]
    assert found.code == "t = [sum(B[i, j] * x[j] for j in range(n)) for i in range(n)]"
    assert "C[i][j] * x[j]" in found.place.text
    before = chain.cost(SQUARE, SQUARE, VECTOR).total
    after = chain_in_order.cost(SQUARE, SQUARE, VECTOR).total
    gradients = [f.grad("x").cost(SQUARE, SQUARE, VECTOR).total for f in (chain, chain_in_order)]
    assert found.saves == before + gradients[0] - after - gradients[1]
    assert not given(chain_in_order, ("x",), SQUARE, SQUARE, VECTOR)


def test_what_does_not_depend_on_the_loop():
    found = given(invariant, ("x",), VECTOR, 0.5)["outside"]
    assert "math.exp(t * t)" in found.place.text
    assert found.saves > 0
    assert "outside" not in given(named, ("x",), VECTOR, 0.5)


def test_a_factor_outside_its_sum():
    found = given(scaled, ("x",), 2.0, VECTOR)["factored"]
    assert found.code == "t = sum(x[i] for i in range(len(x)))"
    assert found.saves == 15


def test_a_guard_and_a_value_that_are_found():
    found = given(diagonal, ("x",), VECTOR)["guard"]
    assert found.message.startswith("As written this line costs 255 operations, as compiled 15:")
    assert diagonal.cost(VECTOR).total == 255
    found = given(repeated, ("x",), VECTOR)["shared"]
    assert "b = sum" in found.place.text
    assert found.message.startswith("As written this line costs 31 operations, as compiled nothing")


def test_arguments_are_let_go():
    """Advice about a call does not keep the user's arrays when the panel has gone."""
    x = np.ones(16)
    kept = weakref.ref(x)
    assert given(diagonal, ("x",), x)
    del x
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rewritings_keep_the_value(case):
    """By the reference evaluator, and so do their gradients have a cost."""
    about = make_subject(case.function, case.wrt, (case.arguments, {}))
    instance, arguments, sizes, _ = case.function.specialised(*case.arguments)
    env = environment(instance.parameters, arguments, sizes)
    expected = np.ravel(np.array(evaluate(to_term(instance.ssa), env), dtype=object))
    for candidate in Adviser(about).candidates:
        rewriting = candidate.rewriting
        again = Environment(dict(env.values), dict(sizes), env.relations)
        value = np.ravel(np.array(evaluate(to_term(rewriting.program), again), dtype=object))
        assert np.allclose(value.astype(float), expected.astype(float)), rewriting.kind
        assert candidate.gradient is not None


def test_jax_alone_by_its_own_estimate():
    def direct(x):
        import jax.numpy as jnp

        A = jnp.diag(x)
        return A[:, 0] @ A[0, :]

    @tensor
    def corner(x):
        n = len(x)
        A = [[x[i] if i == j else 0 for j in range(n)] for i in range(n)]
        return sum(A[i][0] * A[0][i] for i in range(n))

    about = make_subject(corner, ("x",), ((VECTOR,), {}), direct)
    known = {}
    plain = background_work.estimate_plain(about, about.start, True, known, lambda: None)
    made = make_report(about, about.start)
    from dataclasses import replace

    found = Adviser(about).give_advice(replace(made, plain=plain), plain_source)
    (said,) = [a for a in found if a.kind == "jax"]
    assert "grows like n², this one like a constant" in said.message
    said = {dict(key)["n"]: estimate for key, estimate in known.items()}
    assert plain.estimates["n"] == said, "only what XLA said is shown"
