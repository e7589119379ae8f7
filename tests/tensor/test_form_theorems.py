"""The bounds of docs/recurrences.md, the paper's where there is no loop, of forms that are longer programs: what is in order,
what data choose, linear systems. Costs depend on no values; these are fractions where no root is taken, floats elsewhere.
"""

from __future__ import annotations

import linecache
from fractions import Fraction
from random import Random

import jax
import numpy as np
import pytest
import random_loops
from random_programs import value

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.cost.formula import cost_formula
from jupyter_hvd.tensor.cost.model import cost
from jupyter_hvd.tensor.reference.evaluate import Environment
from jupyter_hvd.tensor.ssa import convert
from jupyter_hvd.tensor.ssa.normalize import normalize
from jupyter_hvd.tensor.ssa.simplify import simplify

TYPES = {
    "x": "4",
    "w": "4",
    "v": "2",
    "A": "3 4",
    "B": "3 4",
    "S": "3 3",
    "Q": "2 2",
    "b": "3",
    "T": "4 2",
}
EXACT = (
    "np.sort(x)", "np.sort(A, axis=0)", "np.median(x)", "np.quantile(A, 0.3, axis=1)", "np.argmax(x) * v", "x[np.argmax(w)]",
    "A[np.arange(3), np.argmin(B, axis=1)]", "x[np.argsort(w)]", "np.take_along_axis(A, np.argsort(B, axis=1), axis=1)",
    "v * np.searchsorted(np.sort(x), v)", "np.interp(v, np.cumsum(x * x + 1), w)", "jax.lax.top_k(x, 2)[0]",
    "np.bincount(np.argsort(w), weights=x, minlength=4)", "np.max(x)", "np.min(A * B, axis=1)",
)  # fmt: skip
ROOTS = (
    "np.linalg.solve(S, b)", "np.linalg.inv(Q)", "np.linalg.det(Q)", "np.linalg.slogdet(Q)[1]",
    "np.linalg.cholesky(Q @ Q.T + 9 * np.eye(2))", "np.linalg.lstsq(T, x)[0]",
    "np.linalg.qr(Q)[0] @ np.linalg.qr(Q)[1]",
    "jax.scipy.linalg.solve_triangular(S, b, lower=True)",
)  # fmt: skip


def program_of(call: str):
    """The program that a call is, at constant sizes, as it is differentiated."""
    names = [name for name in TYPES if name in compile(call, "<call>", "eval").co_names]
    typed = ", ".join(f"{x}: 'Float[Array, \"{TYPES[x]}\"]'" for x in names)
    source, file = f"def f({typed}):\n    return {call}\n", f"<theorems of {call}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    namespace = {"np": np, "jax": jax}
    exec(compile(source, file, "exec"), namespace)
    return tensor(namespace["f"]).instance.traced.function


def hold(call: str, number, equal) -> Fraction:
    """The bounds hold of a call; the adjoint's ratio."""
    function, random = program_of(call), Random(1)
    values = {x: number(value(random, type_, {})) for x, type_ in function.parameter_type}
    env = Environment(values)
    random_loops.round_trips(function)
    assert cost_formula(function).evaluate(env) == cost(function.body, env).total
    program = convert.to_ssa(normalize(function.body))
    before, random_loops.RATIOS = random_loops.RATIOS, random_loops.Ratios()
    try:
        for one in (program, simplify(program)):
            random_loops.derivatives_are_cheap_and_adjoint(
                one, env, random, function.parameter_type, equal
            )
        return random_loops.RATIOS.adjoint
    finally:
        random_loops.RATIOS = before


def floats(values: object) -> object:
    """Numbers that are no fractions, and no two alike."""
    drawn = np.random.default_rng(0)
    return (np.asarray(values, dtype=float) + drawn.uniform(0.1, 0.9, np.shape(values))).tolist()


def close(found: object, expected: object) -> bool:
    flat = [np.concatenate([np.ravel(x) for x in jax.tree.leaves(v)]) for v in (found, expected)]
    return bool(np.allclose(*flat, rtol=1e-6, atol=1e-9))


@pytest.mark.parametrize("call", EXACT)
def test_what_data_choose_obeys_the_theorems(call):
    """Also where entries are equal: of four numbers between -3 and 3 some mostly are."""
    assert 1 < hold(call, lambda v: v, lambda a, b: a == b) <= 4


@pytest.mark.parametrize("call", ROOTS)
def test_linear_systems_obey_the_theorems(call):
    assert 1 < hold(call, floats, close) <= 4
