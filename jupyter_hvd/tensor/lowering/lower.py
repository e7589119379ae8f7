"""From Tensor SSA at concrete sizes to steps: every variable on the support of its predicate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from ..language.affine import Affine
from ..language.predicates import (
    TRUE,
    And,
    Exists,
    Or,
    Predicate,
    Related,
    conj,
    disj,
    in_range,
    substitute,
)
from ..language.terms import Binders
from ..language.types import ParameterType, Relation
from ..polyhedral.entailment import quantified, trimmed
from ..polyhedral.lattice import residual
from ..polyhedral.sets import simplify
from ..ssa.program import (
    Addition,
    Constant,
    Contraction,
    Input,
    Map,
    Output,
    Program,
    Rhs,
    flat,
    pointwise,
    support,
)
from .coiteration import row_name
from .dataflow import both_ways, fenced, live, used_lookups
from .ir import Apply, Fill, Load, Masked, Product, Read, Step, Test
from .iteration import Domain
from .pieces import MANY, Pieces, untested
from .storage import Layout, Piece, identity, membership, read_shows, zero_outside
from .tiling import Blocks, blocked

Reading = tuple[Piece, tuple[Affine, ...]]


@dataclass(frozen=True)
class Plan:
    """The steps of a kernel and the arrays that it returns, as the program's output tree.

    Arrays in `fenced` are computed before anything reads them, those in `both_ways` are read
    straight and turned round. `order` has the steps around big
    intermediates gathered into blocks.
    """

    steps: tuple[Step, ...]
    output: Output
    fenced: frozenset[str] = frozenset()
    both_ways: frozenset[str] = frozenset()
    order: tuple[Step | Blocks, ...] = ()


def plan(program: Program, types: Mapping[str, ParameterType], counts: Mapping[str, int]) -> Plan:
    """Plan a program whose sizes are integers; `counts` has each tuple relation's number of rows."""
    planner = _Planner(dict(types), counts)
    for statement in program.statements:
        planner.statement = statement.name
        planner.gens[statement.name] = statement.rhs.gens
        planner.pieces[statement.name] = planner.rhs(statement.rhs)
        planner.supports[statement.name] = simplify(support(statement.rhs), statement.rhs.gens)
    wholes = {}
    for name in dict.fromkeys(flat(program.output)):
        planner.statement = name
        wholes[name] = planner.whole(name)
    output = _renamed(program.output, wholes)
    steps = live(planner.steps, output)
    return Plan(steps, output, fenced(steps), both_ways(steps), blocked(steps, output))


def _renamed(output: Output, names: Mapping[str, str]) -> Output:
    if isinstance(output, str):
        return names[output]
    return _renamed(output[0], names), _renamed(output[1], names)


@dataclass
class _Planner(Pieces):
    """`supports` has the predicate of each variable, `tests` the relations made from quantifiers,
    `outer` the factors of arrays that are outer products.
    """

    supports: dict[str, Predicate] = field(default_factory=dict)
    tests: dict[tuple[Predicate, Binders], str] = field(default_factory=dict)
    outer: dict[str, list[Reading]] = field(default_factory=dict)

    def rhs(self, rhs: Rhs) -> tuple[Piece, ...]:
        if any(n.constant == 0 for _, n in rhs.gens):
            return ()
        match rhs:
            case Input(parameter, _, path, gens):
                return (Piece(self.step(Load(parameter, path)), identity(gens)),)
            case Constant(gens, value):
                assert not isinstance(value, Affine)
                whole = identity(gens)
                return (Piece(self.step(Fill(whole.coordinates, value)), whole),) if value else ()
            case Addition(gens, p0, x0, p1, x1):
                left, right = self.view(x0, gens, p0), self.view(x1, gens, p1)
                return self.merged((*left, *right))
            case Map():
                return self.map(rhs)
            case Contraction():
                return self.contraction(rhs)
        raise TypeError(rhs)

    # Predicates

    def settled(
        self, p: Predicate, binders: Binders, factors: Sequence[tuple[str, Sequence[Affine]]]
    ) -> Predicate:
        """`p` at points where every factor may be other than zero, without quantifiers over
        relations.
        """
        if not p.relations:
            return p
        known = []
        for name, indices in factors:
            at = dict(zip((g for g, _ in self.gens[name]), indices, strict=True))
            known.append(simplify(substitute(self.supports[name], at), binders))
        return self.tested(trimmed(simplify(p, binders), conj(*known), binders), binders)

    def tested(self, p: Predicate, binders: Binders) -> Predicate:
        """Each `∃` over relations as a relation that a step makes: whether any point is there."""
        match p:
            case And(parts):
                return conj(*(self.tested(part, binders) for part in parts))
            case Or(parts):
                return disj(*(self.tested(part, binders) for part in parts))
            case Exists() if p.relations:
                bound, body = quantified(p)
                free = tuple(b for b in binders if b[0] in p.names)
                return self.test(self.tested(body, (*free, *bound)), free, bound)
        return p

    def test(self, body: Predicate, free: Binders, bound: Binders) -> Predicate:
        """`∃ bound. body` as a relation over the free indices."""
        key = body, (*free, *bound)
        gens = tuple((f"g{k}", n) for k, (_, n) in enumerate(free))
        sums = tuple((f"e{k}", n) for k, (_, n) in enumerate(bound))
        if key not in self.tests:
            spelt = zip((*free, *bound), (*gens, *sums), strict=True)
            at = {i: Affine.of(j) for (i, _), (j, _) in spelt}
            one = Piece(self.step(Fill((), 1)), identity(()))
            pieces = self.product(gens, sums, substitute(body, at), [(one, ())])
            whole = self.sum_of(identity(gens), [self.plain(x) for x in self.merged([*pieces])])
            name = self.tests[key] = f"∃{len(self.tests)}"
            self.steps.append(Step(name, Test(whole.name), self.statement))
            self.types[name] = Relation(tuple(n for _, n in gens))
        return Related(self.tests[key], tuple(Affine.of(i) for i, _ in free))

    # Contractions

    def contraction(self, rhs: Contraction) -> tuple[Piece, ...]:
        binders = (*rhs.gens, *rhs.sums)
        p = self.settled(rhs.mask, binders, [(f.name, f.indices) for f in rhs.factors])
        choices = [self.pieces[f.name] for f in rhs.factors]
        if prod(map(len, choices)) > 4 * MANY:
            choices = [(self.joined(f.name),) for f in rhs.factors]
        made: list[Piece] = []
        for chosen in product(*choices):
            readings = [(x, f.indices) for x, f in zip(chosen, rhs.factors, strict=True)]
            if rhs.sums:
                made += self.product(rhs.gens, rhs.sums, *self.factored(p, readings))
            else:
                made += self.product(rhs.gens, rhs.sums, p, readings)
        return self.merged(made)

    def factored(
        self, p: Predicate, readings: Sequence[Reading]
    ) -> tuple[Predicate, list[Reading]]:
        """Outer products among the factors replaced by their own factors: `Σjq. (A⊗B)[ip,jq]·x[jq]`
        has three, and no need of `A⊗B`.
        """
        found: list[Reading] = []
        for piece, indices in readings:
            factors = self.outer.get(piece.name)
            if factors is None:
                found.append((piece, indices))
                continue
            p = conj(p, membership(piece.layout, indices))
            places = piece.layout.stored(indices)
            at = {f"u{k}": a for k, a in enumerate(places)}
            for factor, inner in factors:
                found.append((factor, tuple(a.substitute(at) for a in inner)))
        return p, found

    def view(self, name: str, gens: Binders, p: Predicate) -> tuple[Piece, ...]:
        """`⊞g. [p]·X[g]`; pieces on which p holds anyway are not copied."""
        here = pointwise(gens)
        p = self.settled(p, gens, [(name, here)])
        made: list[Piece] = []
        for piece in self.pieces[name]:
            if residual(p, gens, zero_outside(piece.layout, here)) == TRUE:
                made.append(piece)
            else:
                made += self.product(gens, (), p, [(piece, here)])
        return tuple(made)

    def product(
        self, gens: Binders, sums: Binders, p: Predicate, readings: Sequence[Reading]
    ) -> Iterator[Piece]:
        """`⊞g Σs. [p]·…` of one piece of each factor."""
        inside = (membership(x.layout, indices) for x, indices in readings)
        for d in self.domains(gens, sums, conj(p, *inside)):
            reads, known = [], []
            for piece, indices in readings:
                at = tuple(a.substitute(d.meaning) for a in piece.layout.stored(indices))
                reads.append(Read(piece.name, at))
                known.append(substitute(read_shows(piece.layout, indices), d.meaning))
            known += [in_range(a, Affine.of(n)) for a, n in d.targets]
            mask = untested(d.condition, (*d.out, *d.sums), conj(*known), d.lookups)
            used = used_lookups(d.lookups, (*reads, *(a for a, _ in d.targets), mask))
            action = Product(d.out, d.sums, tuple(reads), mask, used, d.targets)
            made = self.piece(action, d.layout)
            stored = sum(piece.layout.volume for piece, _ in readings)
            if not d.sums and mask == TRUE and not used and d.layout.volume > 4 * stored:
                self.outer[made.name] = [
                    (Piece(piece.name, _as_stored(piece.layout)), r.indices)
                    for (piece, _), r in zip(readings, reads, strict=True)
                ]
            yield made

    # Maps

    def map(self, rhs: Map) -> tuple[Piece, ...]:
        made = []
        for d in self.domains(rhs.gens, (), self.settled(rhs.mask, rhs.gens, ())):
            arguments = tuple(self.addends(x, rhs.gens, d) for x in rhs.arguments)
            mask = untested(d.condition, d.out, TRUE, d.lookups)
            used = used_lookups(d.lookups, (mask, *(a for x in arguments for a in x)))
            apply = Apply(d.out, rhs.function, arguments, mask, used)
            if d.targets:
                applied = Read(self.step(apply), pointwise(d.out))
                used = used_lookups(d.lookups, [a for a, _ in d.targets])
                sent = Product(d.out, (), (applied,), TRUE, used, d.targets)
                made.append(self.piece(sent, d.layout))
            else:
                made.append(self.piece(apply, d.layout))
        return tuple(made)

    def addends(self, name: str, gens: Binders, d: Domain) -> tuple[Masked, ...]:
        """A variable on the axes of a domain, as a sum of its pieces there."""
        here = pointwise(gens)
        parts = []
        for piece in self.pieces[name]:
            if not {row_name(a) for a in piece.layout.rows} <= d.rows:
                piece = self.plain(piece)
            at = {**piece.layout.at(here), **d.meaning}
            parts.append(self.masked(piece, at, d.out, d.condition, d.lookups))
        return tuple(parts)


def _as_stored(layout: Layout) -> Layout:
    """The array itself as a tensor."""
    return identity(tuple((f"g{k}", n) for k, (_, n) in enumerate(layout.coordinates)))
