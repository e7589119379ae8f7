"""Random well-typed programs, over every constructor of the language, with exact inputs.

A program is drawn type by type: `ℝ`, arrays and pairs each have constructors that make them,
leaves where the depth runs out. Reads are in range by construction or guarded by their range, so
every program means something at every size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random

from jupyter_hvd.tensor.derivative.primitives import define_primitive
from jupyter_hvd.tensor.language.affine import Affine
from jupyter_hvd.tensor.language.parser import parse
from jupyter_hvd.tensor.language.predicates import (
    Predicate,
    Related,
    compare,
    conj,
    disj,
    exists,
    in_range,
)
from jupyter_hvd.tensor.language.terms import (
    Add,
    At,
    Call,
    Const,
    Gen,
    Guard,
    Lambda,
    Let,
    Mul,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
)
from jupyter_hvd.tensor.language.types import REAL, Array, IndexArray, Product, Relation, Type
from jupyter_hvd.tensor.reference.evaluate import Environment

N, M, ONE = Affine.of("n"), Affine.of("m"), Affine.of(1)
SIZES = (N, M, N + 1, Affine.of(2))
REALS = {"x": REAL, "y": REAL, "z": REAL}
# Rational black boxes, so that everything stays exact.
FUNCTIONS = (
    define_primitive("quadratic", 1, parse("x·x + 3·x + -1", REALS)),
    define_primitive("bounded", 1, parse("recip(1 + x·x)", REALS)),
    define_primitive("skewed", 2, parse("x·x·y + -2·y", REALS)),
)
PARAMETERS = (
    ("u", REAL),
    ("v", Array(N, REAL)),
    ("w", Array(N + 1, REAL)),
    ("A", Array(N, Array(M, REAL))),
    ("q", Product(REAL, Array(M, REAL))),
    ("R", Relation((N, M))),
    ("src", IndexArray((N,))),
)
INPUTS = tuple((x, t) for x, t in PARAMETERS if isinstance(t, type(REAL) | Array | Product))


@dataclass(frozen=True)
class Scope:
    variables: tuple[tuple[str, Type], ...]
    indices: tuple[tuple[str, Affine], ...] = ()


@dataclass
class Draw:
    """Draws terms with one source of randomness."""

    random: Random
    bound: int = 0

    def program(self, depth: int) -> Lambda:
        body = self.term(self.type(2), Scope(INPUTS), depth)
        return Lambda("arg", PARAMETERS, body)

    def type(self, depth: int) -> Type:
        kind = self.random.randrange(8) if depth else 0
        if kind < 4:
            return REAL
        if kind < 7:
            return Array(self.random.choice(SIZES), self.type(depth - 1))
        return Product(self.type(depth - 1), self.type(depth - 1))

    def name(self, stem: str) -> str:
        # Sometimes a name that is taken: shadowing has to work.
        self.bound += self.random.randrange(4) > 0
        return f"{stem}{self.bound}"

    def term(self, type_: Type, scope: Scope, depth: int) -> Term:
        if depth <= 0:
            return self.leaf(type_, scope)
        match self.random.randrange(12):
            case 0:
                return Guard(self.predicate(scope, 2), self.term(type_, scope, depth - 1))
            case 1 | 2:
                return self.let(type_, scope, depth)
            case 3:
                other = self.type(1)
                side = self.random.randrange(2)
                parts = (type_, other) if side == 0 else (other, type_)
                return Proj(side, self.term(Product(*parts), scope, depth - 1))
            case 4:
                return self.entry(type_, scope, depth)
        return self.construct(type_, scope, depth)

    def construct(self, type_: Type, scope: Scope, depth: int) -> Term:
        match type_:
            case Array(size, element):
                index = self.name("i")
                inner = replace(scope, indices=(*scope.indices, (index, size)))
                return Gen(index, size, self.term(element, inner, depth - 1))
            case Product(first, second):
                return Pair(self.term(first, scope, depth - 1), self.term(second, scope, depth - 1))
        match self.random.randrange(8):
            case 0 | 1:
                return Add(self.addend(scope, depth - 1), self.addend(scope, depth - 1))
            case 2 | 3:
                return Mul(self.term(REAL, scope, depth - 1), self.term(REAL, scope, depth - 1))
            case 4:
                f = self.random.choice(FUNCTIONS)
                arguments = [self.term(REAL, scope, depth - 1) for _ in range(f.arity)]
                return Call(f, tuple(arguments))
        return self.sum(scope, depth)

    def addend(self, scope: Scope, depth: int) -> Term:
        e = self.term(REAL, scope, depth)
        return Guard(self.predicate(scope, 1), e) if self.random.randrange(2) else e

    def sum(self, scope: Scope, depth: int) -> Term:
        index, size = self.name("s"), self.random.choice(SIZES)
        inner = replace(scope, indices=(*scope.indices, (index, size)))
        body = self.term(REAL, inner, depth - 1)
        if self.random.randrange(2):
            body = Guard(self.predicate(inner, 2), body)
        return Sum(index, size, body)

    def let(self, type_: Type, scope: Scope, depth: int) -> Term:
        value = self.term(self.type(2), scope, depth - 1)
        name = self.name("t")
        variables = {**dict(scope.variables), name: value.type}
        inner = replace(scope, variables=tuple(variables.items()))
        return Let(name, value, self.term(type_, inner, depth - 1))

    def entry(self, type_: Type, scope: Scope, depth: int) -> Term:
        """An entry of an array drawn on the spot, guarded by its range."""
        size, a = self.random.choice(SIZES), self.affine(scope)
        array = self.term(Array(size, type_), scope, depth - 1)
        return Guard(in_range(a, size), At(array, a))

    def leaf(self, type_: Type, scope: Scope) -> Term:
        """A variable or a part of one, where there is one of that type; a constant otherwise."""
        variables = list(scope.variables) if self.random.randrange(4) else []
        self.random.shuffle(variables)
        for name, t in variables[:4]:
            found = self.part(Var(name, t), type_, scope)
            if found is not None:
                return found
        match type_:
            case Array(size, element):
                index = self.name("i")
                inner = replace(scope, indices=(*scope.indices, (index, size)))
                return Gen(index, size, self.leaf(element, inner))
            case Product(first, second):
                return Pair(self.leaf(first, scope), self.leaf(second, scope))
        return Const(self.random.choice((0, 1, 2, -1, Fraction(1, 2))))

    def part(self, e: Term, type_: Type, scope: Scope) -> Term | None:
        if e.type == type_:
            return e
        if isinstance(e.type, Product):
            side = self.random.randrange(2)
            return self.part(Proj(side, e), type_, scope)
        if isinstance(e.type, Array):
            fitting = self.in_range(e.type.size, scope)
            if fitting and self.random.randrange(3):
                return self.part(At(e, self.random.choice(fitting)), type_, scope)
            a = self.affine(scope)
            inner = self.part(At(e, a), type_, scope)
            return None if inner is None else Guard(in_range(a, e.type.size), inner)
        return None

    def in_range(self, size: Affine, scope: Scope) -> list[Affine]:
        """Reads of so many entries that need no guard."""
        # As a dict: the last binder of a name hides the others, which may have had another size.
        indices = dict(scope.indices).items()
        exact = [Affine.of(i) for i, bound in indices if bound == size]
        shorter = [Affine.of(i) for i, bound in indices if bound + 1 == size]
        return [*exact, *shorter, *(a + 1 for a in shorter)]

    def affine(self, scope: Scope) -> Affine:
        a = Affine.of(self.random.choice((-1, 0, 0, 1, 2)))
        for index, _ in scope.indices:
            a = a + Affine.of(index) * self.random.choice((0, 0, 1, 1, -1, 2))
        return a + N if self.random.randrange(8) == 0 else a

    def predicate(self, scope: Scope, depth: int) -> Predicate:
        match self.random.randrange(9 if depth else 5):
            case 0 | 1:
                return compare("=", self.affine(scope), self.affine(scope))
            case 2:
                return compare(self.random.choice("<≤"), self.affine(scope), self.affine(scope))
            case 3:
                negated = self.random.choice((False, False, True))
                return Related("R", (self.affine(scope), self.affine(scope)), negated)
            case 4:
                return Related("src", (self.affine(scope), self.affine(scope)))
            case 5 | 6:
                return conj(self.predicate(scope, depth - 1), self.predicate(scope, depth - 1))
            case 7:
                return disj(self.predicate(scope, depth - 1), self.predicate(scope, depth - 1))
        index, size = self.name("e"), self.random.choice(SIZES)
        inner = replace(scope, indices=(*scope.indices, (index, size)))
        return exists(index, size, self.predicate(inner, depth - 1))


def environment(random: Random, n: int, m: int) -> Environment:
    """Random exact inputs at the given sizes."""
    sizes = {"n": n, "m": m}
    values = {x: value(random, t, sizes) for x, t in INPUTS}
    related = {(i, j) for i in range(n) for j in range(m) if random.randrange(2)}
    src = [random.randrange(m) for _ in range(n)]
    return Environment(
        values,
        dict(sizes),
        {
            "R": lambda point: point in related,
            "src": lambda point: 0 <= point[0] < n and src[point[0]] == point[1],
        },
    )


def value(random: Random, type_: Type, sizes: dict[str, int]) -> object:
    """A random value of a type."""
    match type_:
        case Array(size, element):
            return [value(random, element, sizes) for _ in range(size.evaluate(sizes))]
        case Product(first, second):
            return (value(random, first, sizes), value(random, second, sizes))
    return Fraction(random.randrange(-3, 4))
