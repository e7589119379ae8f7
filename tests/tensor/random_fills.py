"""Random programs with loops that fill arrays, and array contraction of them: it keeps what they mean and what they
cost, and their derivatives are within the theorems' bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import random_loops
from random_loops import Loops, derivatives_are_cheap_and_adjoint
from random_programs import FUNCTIONS, INPUTS, PARAMETERS, Draw, M, N, Scope, environment

from jupyter_hvd.tensor.cost.model import cost
from jupyter_hvd.tensor.language.affine import Affine
from jupyter_hvd.tensor.language.pairs import to_pairs
from jupyter_hvd.tensor.language.predicates import Predicate, compare, conj, in_range, negate
from jupyter_hvd.tensor.language.terms import (
    Add,
    At,
    Call,
    Gen,
    Guard,
    Iterate,
    Lambda,
    Let,
    Pair,
    Proj,
    Term,
    Var,
)
from jupyter_hvd.tensor.language.types import REAL, Array, Type
from jupyter_hvd.tensor.reference.evaluate import evaluate
from jupyter_hvd.tensor.ssa import convert
from jupyter_hvd.tensor.ssa.array_contraction import contract_arrays
from jupyter_hvd.tensor.ssa.normalize import normalize
from jupyter_hvd.tensor.ssa.simplify import simplify


@dataclass
class Fills(Loops):
    """Draws loops each turn of which stores a row of an array, and reads rows at fixed distances; at times any entry."""

    def program(self, depth: int) -> Lambda:
        return Lambda("arg", PARAMETERS, self.after_loop(self.type(1), Scope(INPUTS), depth, True))

    def let(self, type_: Type, scope: Scope, depth: int) -> Term:
        if depth < 2 or self.random.randrange(3):
            return Draw.let(self, type_, scope, depth)
        return self.after_loop(type_, scope, depth)

    def after_loop(self, type_: Type, scope: Scope, depth: int, with_array: bool = False) -> Term:
        """A term that reads what a loop leaves after its last turn; with the array itself beside it."""
        loop = self.loop(scope, depth - 1)
        history = Var(self.name("H"), loop.type)
        left = At(Proj(0, history), loop.size), At(Proj(1, history), loop.size)
        array, other = (f"{self.name('last')}_{j}" for j in range(2))
        after = ((array, left[0].type), (other, left[1].type))
        inside = replace(scope, variables=(*scope.variables, *after))
        rest = self.term(type_, inside, depth - 1)
        if with_array:
            rest = Pair(Var(array, left[0].type), rest)
        return Let(history.name, loop, Let(array, left[0], Let(other, left[1], rest)))

    def loop(self, scope: Scope, depth: int) -> Iterate:
        self.loops += 1
        self.bound += 1
        draw, index = self.random, f"k{self.bound}"
        size = draw.choice((N, M, N + 1, Affine.of(0)))
        row: Type = Array(M, REAL) if draw.randrange(3) == 0 else REAL
        length = draw.choice((N, N + 1, M, size + 1))
        type_ = Array(length, row)
        step = draw.choice((1, 1, 1, -1, 2, 0))
        at = Affine.of(index) * step + (size if step < 0 else Affine.of(0)) + draw.randrange(3)
        array, other = Var(f"{self.name('c')}_0", type_), Var(f"{self.name('c')}_1", REAL)
        inside = Scope((*scope.variables, (other.name, REAL)), (*scope.indices, (index, size)))
        if draw.randrange(8) == 0:
            inside = replace(inside, variables=(*inside.variables, (array.name, type_)))
        before = []
        for lag in draw.sample((1, 2, 3, 0, -1), draw.randrange(1, 4)):
            place = at - Affine.of(step * lag)
            read = Guard(in_range(place, length), At(array, place))
            before.append((f"{self.name('r')}_{lag}", read))
        inside = replace(inside, variables=(*inside.variables, *((x, e.type) for x, e in before)))
        read = Var(before[0][0], row)
        turn = self.filled(array, at, self.joined(read, self.term(row, inside, depth)), inside)
        carried = to_pairs([turn, self.term(REAL, inside, depth - 1)], Pair)
        for name, read in reversed(before):
            carried = Let(name, read, carried)
        starts = self.term(type_, scope, depth - 1), self.term(REAL, scope, depth - 1)
        return Iterate(index, size, (array.name, other.name), starts, carried)

    def joined(self, read: Term, new: Term) -> Term:
        """A row that reads another for certain."""
        if read.type == REAL:
            return Add(Call(self.random.choice(FUNCTIONS[:2]), (read,)), new)
        j = self.name("j")
        entry = At(read, Affine.of(j)), At(new, Affine.of(j))
        return Gen(j, M, self.joined(*entry))

    def filled(self, array: Var, at: Affine, new: Term, scope: Scope) -> Term:
        """The array with a new row at a place, at times under a condition."""
        g = f"g{self.bound}_"
        here = Affine.of(g)
        p: Predicate = compare("=", here, at)
        if self.random.randrange(3) == 0:
            p = conj(p, compare("≤", self.affine(scope), self.affine(scope)))
        elsewhere = negate(p)
        assert elsewhere is not None
        assert isinstance(array.type, Array)
        old: Term = At(array, here)
        if array.type.element == REAL:
            return Gen(g, array.type.size, Add(Guard(p, new), Guard(elsewhere, old)))
        j = Affine.of(f"{g}j")
        both = Add(Guard(p, At(new, j)), Guard(elsewhere, At(old, j)))
        return Gen(g, array.type.size, Gen(f"{g}j", M, both))


@dataclass
class Seen:
    """How many programs were drawn, and how many of them were contracted."""

    programs: int = 0
    contracted: int = 0


SEEN = Seen()


def check(seed: int, depth: int = 3) -> None:
    """Draw one program with a loop that fills an array, contract it, and check everything."""
    random = Random(seed)
    function = Fills(random).program(depth)
    env = environment(random, random.randrange(1, 4), random.randrange(1, 4))
    program = simplify(convert.to_ssa(normalize(function.body)))
    made = contract_arrays(program)
    before, after = convert.to_term(program), convert.to_term(made)
    assert evaluate(after, env) == evaluate(before, env), f"{program}\n⇝\n{made}"
    assert cost(after, env).total <= cost(before, env).total, f"{program}\n⇝\n{made}"
    derivatives_are_cheap_and_adjoint(made, env, random)
    random_loops.RATIOS.programs += 1
    SEEN.programs += 1
    SEEN.contracted += made != program


__all__ = ["SEEN", "Fills", "Seen", "check"]
