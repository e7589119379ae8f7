"""One more candidate for a kernel: the program in dense arrays, as a JAX user would write it, and JAX's own
derivative of it. Where nothing is sparse it is at times the faster one.

It is the same function or it is not taken: conditions guard what they leave out (`Dense.strict`), so that no NaN comes of it,
and a program of which something is computed that nobody reads has none. A NaN in a row of a matrix product that some condition
lets in is in all of the product, as where a relation is a matrix (`strategy`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from ..instance import Primal
from ..language.affine import Affine
from ..language.errors import TensorError
from ..language.pairs import to_pairs
from ..language.predicates import FALSE, TRUE
from ..language.terms import (
    Add,
    Apply,
    At,
    Const,
    Gen,
    Guard,
    Iterate,
    Let,
    Term,
    Var,
    lets,
    rebuild,
    substitute,
)
from ..language.types import REAL, TupleSet
from ..language.units import in_bytes
from ..lowering.liveness import restrict_to_live
from ..lowering.plan import Plan
from ..lowering.roofline import Work
from ..lowering.specialize import at_sizes
from ..ssa.normalize import normalize
from .computed_indices import introduce_index_arrays
from .dense import Dense, find_loop_rows, find_summed_terms
from .execute import initial_values
from .jaxpr_cost import count_jaxpr_work, iterate_equations

TURNS = 64  # of loops that are written out
ROWS = 8  # of an array that are arrays of their own
TIMES = 4  # the data, which the largest array may be in entries


@dataclass(frozen=True)
class DenseWork:
    """What JAX's own way does.

    Attributes:
        entries: of all arrays that it makes, were nothing fused.
        work: what it does, as it is fused.
        scatters: whether it adds entries up at indices from data.
        loops: whether it has loops that are not written out.
        operations: how many JAX traces.
    """

    entries: int
    work: Work
    scatters: bool
    loops: bool
    operations: int


@dataclass(frozen=True, eq=False)
class DenseProgram:
    """The program of a kernel at given sizes, in dense arrays. `runs` has the functions that JAX has traced, by plan."""

    primal: Primal
    sizes: Mapping[str, int]
    runs: dict[Plan, Callable[..., Any]] = field(default_factory=dict)

    @cached_property
    def body(self) -> Term:
        """The program without pairs, in dense arrays."""
        return self._body_and_places[0]

    @cached_property
    def _body_and_places(self) -> tuple[Term, Mapping[str, int]]:
        """The program, and the exclusive bounds of the numbers in its computed index arrays."""
        body = normalize(self.primal.function.body)
        return introduce_index_arrays(unstack_rows(body, self.sizes), self.sizes)

    @cached_property
    def reason(self) -> str:
        """Why this is no way to compute the kernel; empty if it is one."""
        if any(isinstance(t, TupleSet) for _, t in self.primal.function.parameter_type):
            return "a set of tuples is not a dense array"
        if self.unrolled_iterations > TURNS:
            return f"it would write out more than {TURNS} iterations of a loop"
        program = at_sizes(self.primal.ssa, self.sizes)
        if any(s not in program.statements for s in restrict_to_live(program).statements):
            return "it would compute values that are never read"
        return ""

    @cached_property
    def unrolled_iterations(self) -> int:
        """How many iterations of loops it writes out, each of which JAX traces."""
        return _count_written_iterations(self.body, self.sizes)

    @cached_property
    def has_reductions(self) -> bool:
        """Whether it reduces arrays otherwise than by sums."""
        return _has_reductions(self.body)

    def run(self, plan: Plan, arrays: Sequence[Any]) -> Any:
        """Return the results of a plan; traceable by JAX."""
        values = initial_values(plan, arrays)
        given = jax.tree_util.tree_map(lambda x: jnp.asarray(x, plan.dtype), values.arguments)
        picked = self._body_and_places[1]
        dense = Dense(
            self.sizes,
            values.data,
            plan.dtype,
            strict=True,
            fuses=plan.device.many_cores,
            picked=picked,
        )

        def value(moved: Mapping[str, Any]) -> Any:
            found = dense.compute_block(self.body, {**given, **moved})
            return jax.tree_util.tree_map(lambda x: jnp.asarray(x, plan.dtype), found)

        pulled = self.primal.pulled
        if pulled is None:
            return value({})
        result, pull = jax.vjp(value, {x: given[x] for x in pulled.wrt})
        if pulled.by_cotangent:
            (dy,) = given.keys() - dict(self.primal.function.parameter_type).keys()
            (slopes,) = pull(given[dy])
        else:
            (slopes,) = pull(jnp.ones_like(result))
        found = to_pairs([slopes[x] for x in pulled.wrt], lambda a, b: (a, b))
        return (result, found) if pulled.with_value else found

    def jit_run(self, plan: Plan) -> Callable[..., Any]:
        """Return `run` of a plan, jitted: JAX traces it once for arrays of the same types, whether they are measured or
        computed with.
        """
        if plan not in self.runs:
            self.runs[plan] = jax.jit(lambda *arrays: self.run(plan, arrays), inline=True)
        return self.runs[plan]

    def require_fit(self, plan: Plan, arrays: Sequence[Any]) -> DenseWork:
        """Return the work of the dense program; raise TensorError if it is no way to compute these arrays, or makes far larger
        ones than the plan.
        """
        if self.reason:
            raise TensorError(self.reason)
        try:
            jaxpr = jax.make_jaxpr(self.jit_run(plan))(*arrays).jaxpr
        except Exception as error:  # what of a program JAX cannot do, nobody has listed
            raise TensorError(f"JAX has none of its own: {error}") from error
        equations = [*iterate_equations(jaxpr)]
        made = [(n, times) for eqn, times in equations for n in map(_count_entries, eqn.outvars)]
        names = {eqn.primitive.name for eqn, _ in equations}
        own = [prod(shape) for shape in plan.shapes().values()]
        data = map(_count_entries, (*jaxpr.invars, *jaxpr.outvars))
        largest = max((n for n, _ in made), default=0)
        limit = max(plan.device.intermediate, TIMES * max((*own, *data), default=0))
        if largest > limit:
            size = in_bytes(largest * plan.dtype.itemsize)
            raise TensorError(f"an array of {size} is much larger than the data")
        return DenseWork(
            sum(n * times for n, times in made),
            count_jaxpr_work(jaxpr),
            any(name.startswith("scatter") for name in names),
            bool(names & {"scan", "while"}),
            len(equations),
        )


def unstack_rows(e: Term, sizes: Mapping[str, int]) -> Term:
    """Return the program with each array of few rows, all read by constant numbers, as one array for each row.

    Such are the gates of a cell, `[[… if g < 2 else …] for g in range(4)]`. A JAX user would not stack what differs in each
    row.
    """
    if not isinstance(e, Let):
        return e
    value, name = e.value, e.name
    count = value.size.evaluate(sizes) if isinstance(value, Gen) else 0
    if not 1 < count <= ROWS or not _is_read_by_numbers(e.body, name, count):
        return Let(name, value, unstack_rows(e.body, sizes))
    assert isinstance(value, Gen)

    def row(t: Term) -> Term:
        if name not in t.variables:
            return t
        if isinstance(t, At) and isinstance(t.body, Var) and t.body.name == name:
            return Var(f"{name}.{t.index.constant}", t.type)
        return rebuild(t, row)

    own = [substitute(value.body, indices={value.index: Affine.of(k)}) for k in range(count)]
    rows = ((f"{name}.{k}", _drop_decided(body)) for k, body in enumerate(own))
    return unstack_rows(lets(rows, row(e.body)), sizes)


def _drop_decided(e: Term) -> Term:
    """Return a term without conditions that are true, and without what stands under false ones."""
    e = rebuild(e, _drop_decided)
    match e:
        case Guard(condition, body) if condition == TRUE:
            return body
        case Guard(condition, _) if condition == FALSE and e.type == REAL:
            return Const(0)
        case Add(Const(0), other) | Add(other, Const(0)):
            return other
    return e


def _is_read_by_numbers(e: Term, name: str, count: int) -> bool:
    """Return whether an array is only read at constant numbers below a count."""
    if isinstance(e, At) and isinstance(e.body, Var) and e.body.name == name:
        return e.index.is_constant and 0 <= e.index.constant < count
    if name not in e.variables:
        return True
    return not isinstance(e, Var) and all(_is_read_by_numbers(x, name, count) for x in e.children)


def _count_written_iterations(e: Term, sizes: Mapping[str, int]) -> int:
    """Return how many iterations of loops are written out, nested ones included."""
    inner = sum(_count_written_iterations(x, sizes) for x in e.children)
    if not isinstance(e, Iterate) or find_summed_terms(e) or find_loop_rows(e, sizes) is not None:
        return inner
    return max(0, e.size.evaluate(sizes)) * max(1, inner)


def _has_reductions(e: Term) -> bool:
    """Return whether a term applies a function that reduces an array."""
    if isinstance(e, Apply) and e.definition.reduction:
        return True
    return any(map(_has_reductions, e.children))


def _count_entries(variable: Any) -> int:
    """Return the number of entries of a variable of a jaxpr."""
    return prod(getattr(variable.aval, "shape", ()))
