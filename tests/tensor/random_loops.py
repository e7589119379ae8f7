"""Random programs with loops that carry values, nested ones too, and the theorems for them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random

from random_programs import INPUTS, PARAMETERS, SIZES, Draw, Scope, environment, value
from theorems import inner, passes_keep_value_and_cost, round_trips

from jupyter_hvd.tensor.cost.formula import cost_formula
from jupyter_hvd.tensor.cost.loops import loop_interfaces
from jupyter_hvd.tensor.cost.model import cost
from jupyter_hvd.tensor.derivative import forward, reverse
from jupyter_hvd.tensor.language.affine import Affine
from jupyter_hvd.tensor.language.pairs import to_pairs
from jupyter_hvd.tensor.language.parser import parse_lambda
from jupyter_hvd.tensor.language.terms import Iterate, Lambda, Let, Pair, Term, Var
from jupyter_hvd.tensor.language.types import REAL, Array, Type, size_cost
from jupyter_hvd.tensor.reference.evaluate import Environment, evaluate
from jupyter_hvd.tensor.ssa import convert
from jupyter_hvd.tensor.ssa.normalize import normalize
from jupyter_hvd.tensor.ssa.program import Program
from jupyter_hvd.tensor.ssa.simplify import simplify


@dataclass
class Loops(Draw):
    """Draws loops, too: as what a `let` binds, and a whole program begins with one."""

    loops: int = 0

    def program(self, depth: int) -> Lambda:
        scope = Scope(INPUTS)
        loop = self.loop(scope, depth - 1)
        name = self.name("H")
        inside = replace(scope, variables=tuple({**dict(INPUTS), name: loop.type}.items()))
        body = Let(name, loop, self.term(self.type(1), inside, depth))
        return Lambda("arg", PARAMETERS, body)

    def let(self, type_: Type, scope: Scope, depth: int) -> Term:
        if depth < 2 or self.random.randrange(3):
            return super().let(type_, scope, depth)
        value_ = self.loop(scope, depth - 1)
        name = self.name("H")
        variables = {**dict(scope.variables), name: value_.type}
        inside = replace(scope, variables=tuple(variables.items()))
        return Let(name, value_, self.term(type_, inside, depth - 1))

    def loop(self, scope: Scope, depth: int) -> Iterate:
        self.loops += 1
        self.bound += 1
        index, size = f"k{self.bound}", self.random.choice((*SIZES, Affine.of(0)))
        types = [
            self.random.choice((REAL, REAL, Array(self.random.choice(SIZES), REAL)))
            for _ in range(self.random.choice((1, 1, 2)))
        ]
        starts = tuple(self.term(type_, scope, depth - 1) for type_ in types)
        names = tuple(f"{self.name('c')}_{j}" for j in range(len(types)))
        variables = {**dict(scope.variables), **dict(zip(names, types, strict=True))}
        inside = Scope(tuple(variables.items()), (*scope.indices, (index, size)))
        turn = [self.term(type_, inside, depth) for type_ in types]
        return Iterate(index, size, names, starts, to_pairs(turn, Pair))


@dataclass
class Ratios:
    """The largest ratios seen: of the forward derivative's cost, and of the adjoint's with and without
    what the turns take and give, and of that in blocks with it.
    """

    programs: int = 0
    forward: Fraction = Fraction(0)
    adjoint: Fraction = Fraction(0)
    operations: Fraction = Fraction(0)
    blocks: Fraction = Fraction(0)
    failures: list[int] = field(default_factory=list)


RATIOS = Ratios()


def derivatives_are_cheap_and_adjoint(
    program: Program,
    env: Environment,
    random: Random,
    inputs: Sequence[tuple[str, Type]] = INPUTS,
    equal: Callable[[object, object], bool] = operator.eq,
) -> None:
    """`⟨dy|D dx⟩ = ⟨Dᵀ dy|dx⟩`, `$D ≤ 4·$` and `$IO(Dᵀ) ≤ 4·$IO`, the turns' interfaces counted; in
    blocks of turns, the same cotangents at one more value. `equal` compares values, where a root makes floats.
    """
    e, sizes = convert.to_term(program), env.integers
    tangents = {f"d{x}": value(random, t, sizes) for x, t in inputs}
    dy = value(random, e.type, sizes)
    here = Environment({**env.values, **tangents, "dy": dy}, sizes, env.relations)

    forwards = forward.derivative(e, {x: Var(f"d{x}", t) for x, t in inputs})
    moved = evaluate(forwards, here)
    simple = convert.to_term(simplify(convert.to_ssa(normalize(forwards))))
    assert equal(evaluate(simple, here), moved)

    adjoint = reverse.adjoint(program, inputs, ("dy", e.type))
    backwards = convert.to_term(adjoint)
    pulled = evaluate(backwards, here)
    dx = to_pairs([tangents[f"d{x}"] for x, _ in inputs], lambda a, b: (a, b))
    assert equal(inner(dy, moved), inner(pulled, dx)), f"not adjoint:\n{e}\n⇝\n{backwards}"
    simplified = convert.to_term(simplify(adjoint))
    assert equal(evaluate(simplified, here), pulled)
    again = reverse.adjoint(program, inputs, ("dy", e.type), checkpoint="blocks")
    twice = convert.to_term(again)
    assert equal(evaluate(twice, here), pulled)

    spent = cost(e, env).total
    forth = cost(convert.to_term(convert.to_ssa(normalize(forwards))), here).total
    assert forth <= 4 * spent, f"$D = {forth} > 4·{spent}:\n{e}\n⇝\n{forwards}"
    RATIOS.forward = max(RATIOS.forward, Fraction(forth, spent or 1))

    ins = sum(size_cost(t, sizes) for _, t in inputs)
    out = size_cost(e.type, sizes)
    back = cost(backwards, here).total + 2 * ins + out
    all_in = spent + ins + out + loop_interfaces(program, sizes)
    assert back <= 4 * all_in, f"$IO(Dᵀ) = {back} > 4·{all_in}:\n{e}\n⇝\n{backwards}"
    assert cost(simplified, here).total <= cost(backwards, here).total
    more = cost(twice, here).total - cost(backwards, here).total
    assert 0 <= more <= spent, f"{more} more than {spent} with blocks:\n{e}\n⇝\n{twice}"
    assert cost(convert.to_term(simplify(again)), here).total <= cost(twice, here).total
    RATIOS.adjoint = max(RATIOS.adjoint, Fraction(back, all_in))
    RATIOS.blocks = max(RATIOS.blocks, Fraction(back + more, all_in))
    RATIOS.operations = max(RATIOS.operations, Fraction(back, spent + ins + out))


def check(seed: int, depth: int = 4) -> None:
    """Draw one program with a loop and one input, and check everything."""
    random = Random(seed)
    function = Loops(random).program(depth)
    env = environment(random, random.randrange(1, 4), random.randrange(1, 4))
    round_trips(function)
    passes_keep_value_and_cost(function, env)
    assert cost_formula(function).evaluate(env) == cost(function.body, env).total
    program = convert.to_ssa(normalize(function.body))
    derivatives_are_cheap_and_adjoint(program, env, random)
    derivatives_are_cheap_and_adjoint(simplify(program), env, random)
    RATIOS.programs += 1


def chain_ratio(length: int = 60) -> Fraction:
    """`$IO(Dᵀ)/$IO`, the turns' interfaces counted, where a turn multiplies the two last products,
    many times over.
    """
    products = "".join(f"let y{k + 2} = y{k}·y{k + 1} in " for k in range(length))
    last = f"(y{length}, y{length + 1})"
    turns = f"iterate k:n. f := u, g := u in let y0 = f in let y1 = g in {products}{last}"
    text = f"λ(u:ℝ). let H = {turns} in (π0 H)[n]"
    program = convert.to_ssa(normalize(parse_lambda(text).body))
    env = Environment({}, {"n": 50})
    backwards = convert.to_term(reverse.adjoint(program, [("u", REAL)], ("dy", REAL)))
    spent = cost(convert.to_term(program), env).total + 2 + loop_interfaces(program, env.integers)
    return Fraction(cost(backwards, env).total + 3, spent)


def exchange_ratio(entries: int = 40, turns: int = 40) -> tuple[Fraction, Fraction]:
    """`$IO(Dᵀ)/$IO` of a loop that exchanges two arrays, an entry of which is read in each turn; with
    the turns' interfaces, and without.
    """
    text = (
        "λ(u:[m]ℝ, v:[m]ℝ). let H = iterate k:n. f := u, g := v in (g, f) in Σ k:n. (π0 H)[k+1, 0]"
    )
    f = parse_lambda(text)
    program = convert.to_ssa(normalize(f.body))
    env = Environment({}, {"n": turns, "m": entries})
    backwards = reverse.adjoint(program, f.parameter_type, ("dy", REAL))
    back = cost(convert.to_term(backwards), env).total + 4 * entries + 1
    spent = cost(f.body, env).total + 2 * entries + 1
    return Fraction(back, spent + loop_interfaces(program, env.integers)), Fraction(back, spent)


__all__ = ["RATIOS", "Loops", "chain_ratio", "check", "exchange_ratio"]
