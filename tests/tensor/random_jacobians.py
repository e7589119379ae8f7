"""Sparse Jacobians of random programs: the entries that they leave out are zero, the others are those of the dense derivative,
which the reference evaluator computes in fractions; where supports are affine they list no other entry than those that some
values would make other than zero; and they cost at most what the theorem of docs/jacobians.md says.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random

import jax
import numpy as np
from random_programs import INPUTS, PARAMETERS, Draw, M, N, Scope, environment

from jupyter_hvd.tensor.cost.counting import RelationData
from jupyter_hvd.tensor.cost.model import cost
from jupyter_hvd.tensor.cost.patterns import jacobian_sparsity
from jupyter_hvd.tensor.derivative.tangents import dense_jacobian, linearize_by
from jupyter_hvd.tensor.frontend.tracing.trace_result import Traced
from jupyter_hvd.tensor.instance import Instance
from jupyter_hvd.tensor.jax.entries import EntryValues, evaluate_entries
from jupyter_hvd.tensor.language.terms import Lambda
from jupyter_hvd.tensor.language.types import REAL, Array, Parameter
from jupyter_hvd.tensor.lowering.cells import batch_plan, values_as_cells
from jupyter_hvd.tensor.lowering.composition import compose_plan
from jupyter_hvd.tensor.lowering.entries import build_stages
from jupyter_hvd.tensor.lowering.jacobian_cost import derivative_factor, jacobian_cost
from jupyter_hvd.tensor.lowering.point_values import Added, Summed, sum_stages
from jupyter_hvd.tensor.reference.evaluate import Environment, evaluate
from jupyter_hvd.tensor.sparse_jacobian import (
    _build_values_program,
    _enumerate_pattern,
    _make_pattern,
    _reading_arguments,
)
from jupyter_hvd.tensor.ssa.convert import to_term
from jupyter_hvd.tensor.ssa.program import (
    Addition,
    Constant,
    Contraction,
    Factor,
    Input,
    Map,
    Program,
    Statement,
    pointwise,
)


@dataclass
class Seen:
    """What a run has seen: programs, Jacobians that are not zero, those with affine supports, entries and those of them that are
    not zero, and the largest part of the bound that a Jacobian costs.
    """

    programs: int = 0
    jacobians: int = 0
    affine: int = 0
    entries: int = 0
    nonzero: int = 0
    ratio: Fraction = Fraction(0)
    written: int = 0  # whose values are computed with the entries, as cells


SEEN = Seen()


def check(seed):
    """The Jacobians by each parameter of the program of a seed."""
    random = Random(seed)
    type_ = random.choice((Array(N, REAL), Array(N, Array(M, REAL)), Array(N + 1, Array(N, REAL))))
    body = Draw(random).term(type_, Scope(INPUTS), 5)
    n, m = random.randrange(1, 5), random.randrange(1, 5)
    env = environment(random, n, m)
    parameters = tuple(Parameter(x, t, None) for x, t in PARAMETERS)
    traced = Traced(Lambda("arg", tuple(PARAMETERS), body), None, {})
    instance = Instance(parameters, traced, traced)
    for name in "uvwA":
        _compare(instance, name, env, n, m, f"{seed} {name}")
    SEEN.programs += 1


def _compare(instance, name, env, n, m, seed):
    linear = linearize_by(instance, name)
    assert linear.has_addends
    data = _data(env, n, m)
    dense = to_term(dense_jacobian(instance, name).program)
    shape = tuple(
        np.prod([k.evaluate(env.integers) for k in d], dtype=int)
        for d in (linear.result, linear.argument)
    )
    expected = np.array(evaluate(dense, env), dtype=float).reshape(shape)

    made = build_stages(linear, env.integers, data, 1e9)
    listed = _enumerate_pattern(jacobian_sparsity(linear), env.integers, data, shape)
    _within_bound(instance, linear, made, data, env)
    entries, left = made[-1].entries, len(linear.result)
    c, s = entries.columns, entries.shape
    pattern = _make_pattern(c[:left], c[left:], s[:left], s[left:], entries.count)
    np.testing.assert_array_equal(pattern.rows, listed.rows, seed)
    np.testing.assert_array_equal(pattern.columns, listed.columns, seed)
    found = np.zeros(shape)
    found[pattern.rows, pattern.columns] = _values(instance, linear, made, data, env)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=str(seed))
    possible = _possible(linear, env).reshape(shape)
    entries = np.zeros(shape, bool)
    entries[pattern.rows, pattern.columns] = True
    assert not (possible & ~entries).any(), seed
    if not any(p.relations for s in linear.program.statements for p in _masks(s.rhs)):
        np.testing.assert_array_equal(entries, possible, seed)
        SEEN.affine += bool(listed.count)
    SEEN.jacobians += bool(listed.count)
    SEEN.entries += listed.count
    SEEN.nonzero += np.count_nonzero(expected)


def _possible(linear, env):
    """Where the Jacobian is other than zero if every value that structure does not make zero is 1: no two of them cancel."""
    statements = []
    for s in linear.program.statements:
        rhs = s.rhs
        if isinstance(rhs, Map):
            ones = Constant(rhs.gens, 1)
            statements.append(Statement(f"one_{s.name}", ones))
            one = Factor(f"one_{s.name}", pointwise(rhs.gens))
            rhs = Contraction(rhs.gens, (), rhs.mask, (one,))
        elif isinstance(rhs, Constant) or (isinstance(rhs, Input) and s.name != linear.seed):
            rhs = Constant(rhs.gens, int(getattr(rhs, "value", 1) != 0))
        statements.append(Statement(s.name, rhs))
    term = to_term(Program(tuple(statements), linear.program.output))
    extents = [n.evaluate(env.integers) for n in linear.argument]
    columns = []
    for k in range(int(np.prod(extents))):
        hot = np.zeros(extents, int)
        hot.flat[k] = 1
        seed = (
            {} if linear.seed is None else {linear.statements[linear.seed].parameter: hot.tolist()}
        )
        columns.append(evaluate(term, replace(env, values=seed)))
    return np.moveaxis(np.array(columns, dtype=float), 0, -1) != 0


def _masks(rhs):
    """The predicates of a right-hand side."""
    if isinstance(rhs, Addition):
        return rhs.left_mask, rhs.right_mask
    return (rhs.mask,) if isinstance(rhs, Map | Contraction) else ()


def _within_bound(instance, linear, made, data, env):
    """The theorem of docs/jacobians.md, and what its proof says of the forward derivative."""
    found = jacobian_cost(linear, made, env.integers, data)
    assert found.operations <= found.bound
    SEEN.ratio = max(SEEN.ratio, Fraction(found.operations, max(1, found.bound)))
    assert (
        found.derivative <= derivative_factor(instance.ssa) * cost(to_term(instance.ssa), env).total
    )


def _data(env, n, m):
    types = dict(PARAMETERS)
    related = np.array([[env.relations["R"]((i, j)) for j in range(m)] for i in range(n)])
    source = np.array([next(j for j in range(m) if env.relations["src"]((i, j))) for i in range(n)])
    return {"R": RelationData(types["R"], related), "src": RelationData(types["src"], source)}


def _values(instance, linear, made, data, env):
    """The values of the entries, from those of the reference evaluator at their points; stage by stage, and small stages
    together, and these together with the values.
    """
    values = _build_values_program(instance, linear)
    places, sizes = _reading_arguments(values, linear.statements, made, env.integers)
    found = []
    if values.instance is not None:
        relations = {x: lambda point, at=at: at[point[0]] == point[1] for x, at in places.items()}
        here = Environment(env.values, {**env.integers, **sizes}, {**env.relations, **relations})
        rest = evaluate(values.instance.function.body, here)
        for _ in range(values.count - 1):
            first, rest = rest
            found.append(first)
        found.append(rest)

    def value(reading, entry):
        at = values.readings.get(reading)
        return (values.whole[entry.name], True) if at is None else (at.position, False)

    plan, arrays = sum_stages(made, values.nodes, data, env.integers, value)
    given = [np.array(x, dtype=float) for x in found]
    alone = _run(plan, arrays, given)
    counts = [[p.count for p in stage.addends if p.count] for stage in made]
    aligned = frozenset([r.position for r in values.readings.values()])
    order = np.arange(3 * len(alone) // 2) * 7 % max(1, len(alone))
    last = Summed(len(order), (Added(len(plan) - 1, len(arrays), (), None),) if len(order) else ())
    longer = [*counts, [len(order)] if len(order) else []]
    for stages_, points, arrays_, expected in (
        (plan, counts, arrays, alone),
        ((*plan, last), longer, (*arrays, order), alone[order]),
    ):
        fewer, points, arrays_ = compose_plan(stages_, points, arrays_, aligned)
        assert len(fewer) <= len(stages_)
        shape = [*map(np.shape, given)].__getitem__
        for few in (0, len(plan)):
            batch = batch_plan(fewer, arrays_, points, shape, None, None, aligned, few)
            np.testing.assert_allclose(_run(*batch, given), expected, rtol=1e-9, atol=1e-9)

    written = values_as_cells(linear.program, values.names, env.integers, data, few=0)
    if written is not None:
        number = {x: k for k, x in enumerate(values.names)}
        read, arrays = sum_stages(
            made, values.nodes, data, env.integers, lambda _, entry: (number[entry.name], True)
        )
        read, points, arrays = compose_plan(read, counts, arrays)
        of = {k: written.of[x] for x, k in number.items()}
        batch = batch_plan(read, arrays, points, of.__getitem__, of, written.cells)
        inputs = [np.array(env.values[x], dtype=float) for x in written.inputs]
        np.testing.assert_allclose(_run(*batch, inputs), alone, rtol=1e-9, atol=1e-9)
        SEEN.written += 1
    return alone


def _run(plan, arrays, values):
    with jax.disable_jit():
        values = [jax.numpy.asarray(x) for x in values]
        return np.asarray(evaluate_entries(plan, arrays, EntryValues(values), np.float64, True))
