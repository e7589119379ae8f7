"""The cost model (Figs. 6 and 17): additions, multiplications and calls of primitives; index
arithmetic, reads and writes are free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..language.affine import Affine
from ..language.predicates import conj
from ..language.terms import (
    Add,
    Apply,
    At,
    Call,
    Const,
    Gen,
    Guard,
    Iterate,
    Lambda,
    Let,
    Mul,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
    strip_guards,
    strip_sums,
    work_of_application,
)
from ..language.types import Array, Product, Real, size_cost
from ..reference.evaluate import Environment, holds, loop, points


@dataclass(frozen=True)
class Cost:
    """The number of operations of each kind. `io` also counts the reals that enter and leave (Theorem 6.55)."""

    additions: int = 0
    multiplications: int = 0
    calls: int = 0
    interface: int = 0

    @property
    def total(self) -> int:
        """The number of all operations: additions, multiplications and calls."""
        return self.additions + self.multiplications + self.calls

    @property
    def io(self) -> int:
        """`$IO(e) = $e + $(inputs) + $(output)`."""
        return self.total + self.interface

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.additions + other.additions,
            self.multiplications + other.multiplications,
            self.calls + other.calls,
            self.interface + other.interface,
        )

    def __mul__(self, times: int) -> Cost:
        return Cost(
            self.additions * times,
            self.multiplications * times,
            self.calls * times,
            self.interface * times,
        )


FREE = Cost()


def cost(e: Term, env: Environment) -> Cost:
    """Compute `$⟦e|σ⟧` (4.22–4.34); the cost of a loop is the sum of its iterations'.

    Needs the sizes and relations in σ, not the values of variables.
    """
    match e:
        case Var() | Const():
            return FREE
        case Add(left, right):
            p = conj(strip_guards(left)[0], strip_guards(right)[0])
            return cost(left, env) + cost(right, env) + Cost(additions=int(holds(p, env)))
        case Mul(left, right):
            return cost(left, env) + cost(right, env) + Cost(multiplications=1)
        case Call(_, arguments):
            return sum((cost(argument, env) for argument in arguments), Cost(calls=1))
        case Pair(first, second):
            return cost(first, env) + cost(second, env)
        case Proj(_, body) | At(body, _):
            return cost(body, env)
        case Gen(index, size, body):
            return _cost_of_iterations(index, size, body, env)
        case Sum():
            binders, p, body = strip_sums(e)
            bodies = [cost(body, env) for _ in points(binders, p, env)]
            return sum(bodies, Cost(additions=max(0, len(bodies) - 1)))
        case Guard(condition, body):
            return cost(body, env) if holds(condition, env) else FREE
        case Let(_, value, body):
            return cost(value, env) + cost(body, env)
        case Iterate(index, size, _, starts, body):
            return sum(
                (cost(start, env) for start in starts), _cost_of_iterations(index, size, body, env)
            )
        case Apply(_, arguments):
            return sum((cost(argument, env) for argument in arguments), _application_cost(e, env))
    raise TypeError(e)


def _application_cost(e: Apply, env: Environment) -> Cost:
    """Count the operations of an array-level function."""
    counts = {"additions": 0, "multiplications": 0, "calls": 0}
    for binders, work in work_of_application(e):
        counts[work.kind] += work.times * sum(1 for _ in points(binders, work.condition, env))
    return Cost(**counts)


def _cost_of_iterations(index: str, size: Affine, body: Term, env: Environment) -> Cost:
    """Return the cost of a body for all values of an index."""
    if index not in body.names:
        return cost(body, env) * max(0, size.evaluate(env.integers))
    return sum((cost(body, env) for _ in loop(index, size, env)), FREE)


def interface_size(function: Lambda, sizes: Mapping[str, int]) -> int:
    """Return how many reals a function receives and returns: `$(inputs) + $(output)` (6.53)."""
    types = [t for _, t in function.parameter_type if isinstance(t, Real | Product | Array)]
    return sum(size_cost(t, sizes) for t in (*types, function.body.type))
