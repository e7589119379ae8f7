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
from .computed_indices import with_index_arrays
from .dense import Dense, find_loop_rows, find_summed_terms
from .execute import started
from .jaxpr_cost import equations_of, work_of_jaxpr

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
class Plain:
    """The program of a kernel at given sizes, in dense arrays. `runs` has the functions that JAX has traced, by plan."""

    primal: Primal
    sizes: Mapping[str, int]
    runs: dict[Plan, Callable[..., Any]] = field(default_factory=dict)

    @cached_property
    def body(self) -> Term:
        return self._body_and_places[0]

    @cached_property
    def _body_and_places(self) -> tuple[Term, Mapping[str, int]]:
        body = normalize(self.primal.function.body)
        return with_index_arrays(unstack_rows(body, self.sizes), self.sizes)

    @cached_property
    def reason(self) -> str:
        """Why it is no way to compute a kernel; nothing where it is one."""
        if any(isinstance(t, TupleSet) for _, t in self.primal.function.parameter_type):
            return "a set of tuples is not a dense array"
        if self.unrolled > TURNS:
            return f"it would write out more than {TURNS} iterations of a loop"
        program = at_sizes(self.primal.ssa, self.sizes)
        if any(s not in program.statements for s in restrict_to_live(program).statements):
            return "it would compute values that are never read"
        return ""

    @cached_property
    def unrolled(self) -> int:
        """How many iterations of loops it writes out, each of which JAX traces."""
        return _count_written_iterations(self.body, self.sizes)

    @cached_property
    def has_reductions(self) -> bool:
        """Whether it reduces arrays otherwise than by sums."""
        return _has_reductions(self.body)

    def run(self, plan: Plan, arrays: Sequence[Any]) -> Any:
        """The results of a plan; traceable by JAX."""
        values = started(plan, arrays)
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
            found = dense.block(self.body, {**given, **moved})
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

    def traced_once(self, plan: Plan) -> Callable[..., Any]:
        """`run` of a plan: JAX traces it once for arrays of the same types, whether they are measured or computed with."""
        if plan not in self.runs:
            self.runs[plan] = jax.jit(lambda *arrays: self.run(plan, arrays), inline=True)
        return self.runs[plan]

    def require_fit(self, plan: Plan, arrays: Sequence[Any]) -> DenseWork:
        """What it does; TensorError where it is no way to compute these, or an array of it is
        much larger than the data and what the plan makes.
        """
        if self.reason:
            raise TensorError(self.reason)
        try:
            jaxpr = jax.make_jaxpr(self.traced_once(plan))(*arrays).jaxpr
        except Exception as error:  # what of a program JAX cannot do, nobody has listed
            raise TensorError(f"JAX has none of its own: {error}") from error
        equations = [*equations_of(jaxpr)]
        made = [(n, times) for eqn, times in equations for n in map(_entries, eqn.outvars)]
        names = {eqn.primitive.name for eqn, _ in equations}
        own = [prod(shape) for shape in plan.shapes().values()]
        data = map(_entries, (*jaxpr.invars, *jaxpr.outvars))
        largest = max((n for n, _ in made), default=0)
        limit = max(plan.device.intermediate, TIMES * max((*own, *data), default=0))
        if largest > limit:
            size = in_bytes(largest * plan.dtype.itemsize)
            raise TensorError(f"an array of {size} is much larger than the data")
        return DenseWork(
            sum(n * times for n, times in made),
            work_of_jaxpr(jaxpr),
            any(name.startswith("scatter") for name in names),
            bool(names & {"scan", "while"}),
            len(equations),
        )


def unstack_rows(e: Term, sizes: Mapping[str, int]) -> Term:
    """The program with each array of several rows that are all read by their numbers as so many arrays: the gates of a cell,
    `[[… if g < 2 else …] for g in range(4)]`. A JAX user would not stack what is different in each row.
    """
    if not isinstance(e, Let):
        return e
    value, name = e.value, e.name
    count = value.size.evaluate(sizes) if isinstance(value, Gen) else 0
    if not 1 < count <= ROWS or not _by_numbers(e.body, name, count):
        return Let(name, value, unstack_rows(e.body, sizes))
    assert isinstance(value, Gen)

    def row(t: Term) -> Term:
        if name not in t.variables:
            return t
        if isinstance(t, At) and isinstance(t.body, Var) and t.body.name == name:
            return Var(f"{name}.{t.index.constant}", t.type)
        return rebuild(t, row)

    own = [substitute(value.body, indices={value.index: Affine.of(k)}) for k in range(count)]
    rows = ((f"{name}.{k}", _decided(body)) for k, body in enumerate(own))
    return unstack_rows(lets(rows, row(e.body)), sizes)


def _decided(e: Term) -> Term:
    """A term without the conditions that hold, and without what stands under those that do not."""
    e = rebuild(e, _decided)
    match e:
        case Guard(condition, body) if condition == TRUE:
            return body
        case Guard(condition, _) if condition == FALSE and e.type == REAL:
            return Const(0)
        case Add(Const(0), other) | Add(other, Const(0)):
            return other
    return e


def _by_numbers(e: Term, name: str, count: int) -> bool:
    """Whether an array is read nowhere but at numbers below a count."""
    if isinstance(e, At) and isinstance(e.body, Var) and e.body.name == name:
        return e.index.is_constant and 0 <= e.index.constant < count
    if name not in e.variables:
        return True
    return not isinstance(e, Var) and all(_by_numbers(x, name, count) for x in e.children)


def _count_written_iterations(e: Term, sizes: Mapping[str, int]) -> int:
    """How many iterations of loops are written out, those in loops too."""
    inner = sum(_count_written_iterations(x, sizes) for x in e.children)
    if not isinstance(e, Iterate) or find_summed_terms(e) or find_loop_rows(e, sizes) is not None:
        return inner
    return max(0, e.size.evaluate(sizes)) * max(1, inner)


def _has_reductions(e: Term) -> bool:
    if isinstance(e, Apply) and e.definition.reduction:
        return True
    return any(map(_has_reductions, e.children))


def _entries(variable: Any) -> int:
    return prod(getattr(variable.aval, "shape", ()))
