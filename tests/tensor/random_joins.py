"""Random programs whose sums are over relations that share indices, and their kernels.

As `random_programs`, with two relations more, and predicates of which most are conjunctions of atoms
over the indices that are there: so most of what a kernel runs over are joins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import jax
import numpy as np
import random_programs
from random_programs import INPUTS, M, N, Scope

from jupyter_hvd.tensor.derivative import reverse
from jupyter_hvd.tensor.jax.kernel import Kernel
from jupyter_hvd.tensor.language.affine import Affine
from jupyter_hvd.tensor.language.pairs import soa
from jupyter_hvd.tensor.language.predicates import Predicate, Related, conj, disj
from jupyter_hvd.tensor.language.terms import Gen, Guard, Lambda, Let, Mul, Sum
from jupyter_hvd.tensor.language.types import REAL, ParameterType, Relation, TupleSet
from jupyter_hvd.tensor.lowering import coiteration, lower, relation_joins
from jupyter_hvd.tensor.lowering.relation_joins import Join, TupleCounts
from jupyter_hvd.tensor.reference.evaluate import Environment, evaluate
from jupyter_hvd.tensor.ssa import normalize, simplify
from jupyter_hvd.tensor.ssa.convert import to_ssa, to_term
from jupyter_hvd.tensor.ssa.program import Program

RELATIONS = {"R": 2, "S": 2, "W": 3}  # their arities
PARAMETERS = (
    *(p for p in random_programs.PARAMETERS if p[0] != "R"),
    *((x, TupleSet(arity)) for x, arity in RELATIONS.items()),
)
TOP = 5  # more than any index of a program


def join_always(change: Callable[[object, str, object], None]) -> None:
    """From now on join what can be joined, whether or not it is worth its while, and make nothing whole."""
    found = TupleCounts.is_worthwhile
    change(coiteration, "SMALL", 1)
    change(lower, "LITTLE", 0)
    change(
        TupleCounts,
        "is_worthwhile",
        lambda counts, join, rows, _: found(counts, join, min(rows, 1), relation_joins.MOST),
    )


@dataclass
class Draw(random_programs.Draw):
    """Draws terms over relations that share indices."""

    def predicate(self, scope: Scope, depth: int) -> Predicate:
        if not scope.indices or self.random.randrange(4) == 0:
            return super().predicate(scope, depth)
        atoms = self.atoms(scope)
        match self.random.randrange(8):
            case 0:
                return conj(atoms, super().predicate(scope, 1))
            case 1:
                return disj(atoms, self.atom(scope))
        return atoms

    def atom(self, scope: Scope) -> Predicate:
        relation, arity = self.random.choice([*RELATIONS.items()])
        return Related(relation, tuple(self.argument(scope) for _ in range(arity)))

    def argument(self, scope: Scope) -> Affine:
        index = Affine.of(self.random.choice(scope.indices)[0])
        match self.random.randrange(16):
            case 0:
                return self.affine(scope)
            case 1:
                return index * -1 + self.random.choice((0, 1, 2))
            case 2:
                return index + self.random.choice((-1, 1))
        return index

    def program(self, depth: int) -> Lambda:
        """A sum over relations that share indices, maybe for entries of an array, and maybe read."""
        scope = Scope(INPUTS)
        outer = [self.binder("i") for _ in range(self.random.randrange(3))]
        inner = [self.binder("s") for _ in range(self.random.randrange(4))]
        within = replace(scope, indices=(*outer, *inner))
        body = self.term(REAL, within, depth - 2)
        if within.indices:
            body = Mul(body, Guard(self.atoms(within), self.term(REAL, within, depth - 2)))
        for index, size in reversed(inner):
            body = Sum(index, size, body)
        if outer and self.random.randrange(2):
            body = Guard(self.atom(replace(scope, indices=tuple(outer))), body)
        for index, size in reversed(outer):
            body = Gen(index, size, body)
        if self.random.randrange(2):
            name = self.name("t")
            read = replace(scope, variables=(*scope.variables, (name, body.type)))
            body = Let(name, body, self.term(self.type(1), read, depth - 1))
        return Lambda("arg", PARAMETERS, body)

    def binder(self, stem: str) -> tuple[str, Affine]:
        self.bound += 1
        return f"{stem}{self.bound}", self.random.choice((N, N, M))

    def atoms(self, scope: Scope) -> Predicate:
        return conj(*(self.atom(scope) for _ in range(self.random.randrange(2, 5))))


def environment(random: Random, n: int, m: int) -> tuple[Environment, dict[str, Any]]:
    """Random exact inputs at the given sizes, and the data of the relations."""
    env = random_programs.environment(random, n, m)
    src = [next(j for j in range(m) if env.relations["src"]((i, j))) for i in range(n)]
    share = random.choice((0.1, 0.3, 0.5, 0.5, 0.8))
    data: dict[str, Any] = {}
    related = {**env.relations}
    for x, arity in RELATIONS.items():
        points = {p for p in np.ndindex(*[TOP] * arity) if random.random() < share}
        data[x], related[x] = points, points.__contains__
        if random.randrange(2):
            data[x] = np.zeros([TOP] * arity, bool)
            for p in points:
                data[x][p] = True
    return Environment(env.values, dict(env.integers), related), {**data, "src": np.array(src)}


def check(seed: int, depth: int) -> int:
    """A program and its adjoint by kernels, against the evaluator; raises AssertionError where they
    differ. The number of joins that they ran over.
    """
    random = Random(seed)
    function = Draw(random).program(depth)
    env, data = environment(random, random.randrange(1, 5), random.randrange(1, 5))
    arguments = [data[x] if x in data else _arrays(env.values[x]) for x, _ in PARAMETERS]
    parameters = [(x, _kind(t, data.get(x))) for x, t in PARAMETERS]
    program = simplify.simplify(to_ssa(normalize.normalize(function.body)))
    found = _compare(program, parameters, arguments, env, seed)
    type_ = soa(function.body.type)
    dy = random_programs.value(Random(seed + 1), type_, env.integers)
    gradient = simplify.simplify(reverse.adjoint(program, INPUTS, ("dy", type_)))
    env = Environment({**env.values, "dy": dy}, dict(env.integers), env.relations)
    parameters.append(("dy", type_))
    return found + _compare(gradient, parameters, [*arguments, _arrays(dy)], env, seed)


def _kind(type_: ParameterType, data: Any) -> ParameterType:
    """A relation that comes as a boolean array is one."""
    if isinstance(type_, TupleSet) and not isinstance(data, set):
        return Relation((Affine.of(TOP),) * type_.arity)
    return type_


def _compare(
    program: Program,
    parameters: Sequence[tuple[str, ParameterType]],
    arguments: Sequence[Any],
    env: Environment,
    seed: int,
) -> int:
    expected = evaluate(to_term(program), env)
    kernel = Kernel(program, [*parameters], env.integers)
    operands = kernel.operands(arguments)
    with jax.disable_jit():  # compiling would take nearly all of the time
        found = kernel.run(*operands)
    for a, b in zip(_leaves(found), _leaves(expected), strict=True):
        np.testing.assert_allclose(a.ravel(), b.ravel(), rtol=1e-9, atol=1e-9, err_msg=str(seed))
    return sum(isinstance(x, Join) for x, _ in kernel.counts(operands))


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in _leaves(part)]
    return [np.asarray(value, dtype=float)]


def _arrays(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_arrays, value))
    return np.asarray(value, dtype=float)
