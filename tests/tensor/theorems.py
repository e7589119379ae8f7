"""What the paper proves of every program, as checks of one program at one input, in exact
fractions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

from random_programs import INPUTS, Draw, environment, value

from jupyter_hvd.tensor.cost.model import cost
from jupyter_hvd.tensor.derivative import forward
from jupyter_hvd.tensor.derivative import reverse as adjoint
from jupyter_hvd.tensor.language import parser
from jupyter_hvd.tensor.language.terms import Gen, Lambda, Pair, Term, Var
from jupyter_hvd.tensor.language.types import REAL, Array, Product, Type, size_cost
from jupyter_hvd.tensor.reference.evaluate import Environment, evaluate
from jupyter_hvd.tensor.ssa import convert as ssa
from jupyter_hvd.tensor.ssa import normalize as normal
from jupyter_hvd.tensor.ssa import simplify
from jupyter_hvd.tensor.ssa.loop_hoisting import distribute_loops, hoist_loop_invariants
from jupyter_hvd.tensor.ssa.repeated_axes import drop_repeated_axes

Pass = tuple[str, Callable[[Term], Term]]

PASSES: tuple[Pass, ...] = (
    ("sums of one term", normal.solve_sums),
    ("let-lifting", normal.lift_lets),
    ("pair elimination", normal.eliminate_pairs),
    ("gen push-out", normal.push_out_gens),
    ("Tensor SSA", lambda e: ssa.to_term(ssa.to_ssa(e))),
    ("simplification", lambda e: ssa.to_term(_simplified(e))),
    ("dropping axes", lambda e: ssa.to_term(drop_repeated_axes(_simplified(e)))),
    ("hoisting", lambda e: ssa.to_term(simplify.simplify(hoist_loop_invariants(_simplified(e))))),
    ("distribution", lambda e: ssa.to_term(simplify.simplify(distribute_loops(_simplified(e))))),
)


def _simplified(e: Term) -> ssa.Program:
    return simplify.simplify(ssa.to_ssa(normal.normalize(e)))


@dataclass
class Ratios:
    """The largest cost ratios seen, each with its program."""

    programs: int = 0
    forward: Fraction = Fraction(0)
    adjoint: Fraction = Fraction(0)
    worst: dict[str, str] = field(default_factory=dict)

    def see(self, kind: str, ratio: Fraction, program: object) -> None:
        if ratio > getattr(self, kind):
            setattr(self, kind, ratio)
            self.worst[kind] = str(program)


RATIOS = Ratios()
MOST_ENTRIES = 1000  # of a gradient's arrays; where there would be more, all sizes are 1


def struct_of_arrays(v: object, type_: Type) -> object:
    """A value as pair elimination leaves it: arrays of pairs as pairs of arrays."""
    match type_:
        case Product(first, second):
            return struct_of_arrays(v[0], first), struct_of_arrays(v[1], second)
        case Array(_, element):
            entries = [struct_of_arrays(entry, element) for entry in v]
            return _unzip(entries, element)
    return v


def _unzip(entries: list, element: Type) -> object:
    while isinstance(element, Array):
        return _unzip_nested(entries, element)
    if isinstance(element, Product):
        return tuple(
            _unzip([e[k] for e in entries], part)
            for k, part in enumerate((element.first, element.second))
        )
    return entries


def _unzip_nested(entries: list, element: Array) -> object:
    inner = soa_type(element)
    if isinstance(inner, Product):
        return tuple(
            _unzip([e[k] for e in entries], part)
            for k, part in enumerate((inner.first, inner.second))
        )
    return entries


def soa_type(type_: Type) -> Type:
    """The struct-of-arrays form of a type."""
    match type_:
        case Product(first, second):
            return Product(soa_type(first), soa_type(second))
        case Array(size, element):
            inner = soa_type(element)
            if isinstance(inner, Product):
                first = soa_type(Array(size, inner.first))
                return Product(first, soa_type(Array(size, inner.second)))
            return Array(size, inner)
    return type_


def passes_keep_value_and_cost(
    function: Lambda, env: Environment, passes: tuple[Pass, ...] = PASSES
) -> Term:
    """Each normal-form pass preserves evaluation and does not raise the cost (§5). Returns the
    last form.
    """
    e = function.body
    expected = struct_of_arrays(evaluate(e, env), e.type)
    spent = cost(e, env).total
    for name, transform in passes:
        after = transform(e)
        found = struct_of_arrays(evaluate(after, env), after.type)
        assert found == expected, f"{name} changed the value:\n{e}\n⇝\n{after}"
        now = cost(after, env).total
        assert now <= spent, f"{name} raised the cost from {spent} to {now}:\n{e}\n⇝\n{after}"
        e, spent = after, now
    return e


def round_trips(function: Lambda) -> None:
    """The parser reads what the printer writes."""
    assert parser.parse_lambda(str(function)) == function


def inner(u: object, v: object) -> object:
    """`⟨u|v⟩`."""
    if isinstance(u, list | tuple):
        return sum(inner(a, b) for a, b in zip(u, v, strict=True))
    return u * v


def derivatives_are_cheap_and_adjoint(e: Term, env: Environment, random: Random) -> None:
    """Of a term in Tensor SSA: `⟨dy|D dx⟩ = ⟨Dᵀ dy|dx⟩`, `$D ≤ 4·$` (Theorem 6.1), `$IO(Dᵀ) ≤
    4·$IO` (6.55).
    """
    forwards = forward.derivative(e, {x: Var(f"d{x}", t) for x, t in INPUTS})
    simple = ssa.to_term(simplify.simplify(ssa.to_ssa(normal.normalize(forwards))))
    backwards = adjoint.adjoint(ssa.to_ssa(e), INPUTS, ("dy", e.type))
    reverse = ssa.to_term(backwards)
    if count_entries(reverse, env.integers) > MOST_ENTRIES:
        env = environment(random, 1, 1)
    sizes = env.integers
    tangents = {f"d{x}": value(random, t, sizes) for x, t in INPUTS}
    dy = value(random, e.type, sizes)
    here = Environment({**env.values, **tangents, "dy": dy}, sizes, env.relations)

    moved = evaluate(forwards, here)
    assert evaluate(simple, here) == moved
    pulled = evaluate(reverse, here)
    dx = _nest([tangents[f"d{x}"] for x, _ in INPUTS])
    assert inner(dy, moved) == inner(pulled, dx), f"not adjoint:\n{e}\n⇝\n{reverse}"
    simplified = ssa.to_term(simplify.simplify(backwards))
    assert evaluate(simplified, here) == pulled

    spent = cost(e, env).total
    both = cost(ssa.to_term(ssa.to_ssa(normal.normalize(Pair(e, forwards)))), here).total
    assert both <= 4 * spent, f"$D = {both} > 4·{spent}:\n{e}\n⇝\n{forwards}"
    assert cost(simple, here).total <= cost(forwards, here).total
    RATIOS.see("forward", Fraction(both, spent or 1), e)

    ins = sum(size_cost(t, sizes) for _, t in INPUTS)
    out = size_cost(e.type, sizes)
    io = spent + ins + out
    io_reverse = cost(reverse, here).total + (ins + out) + ins
    assert io_reverse <= 4 * io, f"$IO(Dᵀ) = {io_reverse} > 4·{io}:\n{e}\n⇝\n{reverse}"
    assert cost(simplified, here).total <= cost(reverse, here).total
    RATIOS.see("adjoint", Fraction(io_reverse, io), e)


def count_entries(e: Term, sizes: dict[str, int]) -> int:
    """How many entries the arrays in a term have, together."""
    inner = sum(count_entries(child, sizes) for child in e.children)
    return max(1, inner) * max(0, e.size.evaluate(sizes)) if isinstance(e, Gen) else inner


def _nest(parts: list) -> object:
    return parts[0] if len(parts) == 1 else (parts[0], _nest(parts[1:]))


def check(random: Random, depth: int = 4) -> None:
    """Draw one program and one input, and check everything."""
    function = Draw(random).program(depth)
    env = environment(random, random.randrange(1, 4), random.randrange(1, 4))
    round_trips(function)
    e = passes_keep_value_and_cost(function, env, PASSES[:5])
    passes_keep_value_and_cost(Lambda("arg", function.parameter_type, e), env, PASSES[5:])
    derivatives_are_cheap_and_adjoint(e, env, random)
    RATIOS.programs += 1


__all__ = ["RATIOS", "REAL", "Draw", "Ratios", "check", "cost"]
