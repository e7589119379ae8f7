"""Rewritings of Tensor SSA that lower the cost and keep the value, by distributivity only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ..language.affine import Affine
from ..language.predicates import TRUE, Predicate, conj, conjuncts, exists_all, substitute
from ..language.terms import (
    Binders,
    in_ranges,
    number_binders,
)
from .program import (
    Addition,
    Application,
    Constant,
    Contraction,
    Factor,
    Input,
    Map,
    Part,
    Program,
    Recurrence,
    Rhs,
    Statement,
    flatten_output,
    operands,
    pointwise,
)


@dataclass(frozen=True)
class Rewriting:
    """A possible rewriting: the statement it replaces, the statement that it computes first, and the full rewritten program."""

    kind: Literal["outside", "factored", "reassociated"]
    statement: Statement
    first: Rhs
    program: Program


def find_rewritings(program: Program) -> Iterator[Rewriting]:
    """Yield every one-step rewriting of a program, whether or not it lowers the cost."""
    defined = {s.name: s for s in program.statements}
    readers = Counter(x for s in program.statements for x in operands(s.rhs))
    readers.update(flatten_output(program.output))
    depends = find_dependences(program)
    for statement in program.statements:
        rhs = statement.rhs
        if isinstance(rhs, Map | Contraction | Addition):
            idle = [g for g in rhs.gens if g[0] not in depends[statement.name]]
            if idle:
                yield _hoist_invariant(program, statement, tuple(idle))
        if not isinstance(rhs, Contraction) or len(rhs.factors) != 2:
            continue
        for k in (0, 1):
            if made := _factor_sum(program, statement, rhs, k):
                yield made
            source = defined[rhs.factors[k].name]
            once = readers[source.name] == 1
            if once and isinstance(source.rhs, Contraction) and len(source.rhs.factors) == 2:
                for j in (0, 1):
                    if found := _reassociate_sums(program, statement, rhs, k, source.rhs, j):
                        yield found


def find_dependences(program: Program) -> dict[str, frozenset[str]]:
    """Return, for each variable, the generators on which its entries depend."""
    found: dict[str, frozenset[str]] = {}
    gens = {s.name: [g for g, _ in s.rhs.gens] for s in program.statements}
    for s in program.statements:
        here = frozenset(gens[s.name])
        match s.rhs:
            case Input() | Recurrence() | Part() | Application():
                used = here
            case Constant():
                used = frozenset()
            case Addition(_, p0, x0, p1, x1):
                used = p0.names | p1.names
                for x in (x0, x1):
                    used |= _dependences_at(gens[x], found[x], pointwise(s.rhs.gens))
            case Map(_, p, _, names):
                used = p.names
                for x in names:
                    used |= _dependences_at(gens[x], found[x], pointwise(s.rhs.gens))
            case Contraction(_, _, p, factors):
                used = p.names
                for f in factors:
                    used |= _dependences_at(gens[f.name], found[f.name], f.indices)
        found[s.name] = used & here
    return found


def _dependences_at(
    gens: list[str], depends: frozenset[str], indices: tuple[Affine, ...]
) -> frozenset[str]:
    """Return the names on which an entry at these indices depends."""
    read = [a.names for g, a in zip(gens, indices, strict=True) if g in depends]
    return frozenset[str]().union(*read)


def _replace_statement(program: Program, statement: Statement, *made: tuple[str, Rhs]) -> Program:
    """Replace a statement by several; the last gets its name."""
    statements: list[Statement] = []
    for s in program.statements:
        if s.name == statement.name:
            statements += [Statement(name, rhs, s.origin) for name, rhs in made]
        else:
            statements.append(s)
    return Program(tuple(statements), program.output)


def _hoist_invariant(program: Program, statement: Statement, idle: Binders) -> Rewriting:
    """Rewrite `⊞i. e ⇝ let t = e in ⊞i. t`, for an `e` without i."""
    rhs = statement.rhs
    zero = {index: Affine.of(0) for index, _ in idle}
    kept = tuple(g for g in rhs.gens if g not in idle)
    first = f"{statement.name}′"
    made: list[tuple[str, Rhs]] = []
    match rhs:
        case Contraction(_, summed, p, factors):
            moved = tuple(
                Factor(f.name, tuple(a.substitute(zero) for a in f.indices)) for f in factors
            )
            made.append((first, Contraction(kept, summed, p, moved)))
        case Map() | Addition():
            # Its operands are read at the generators: each needs a view without the idle ones.
            views = {}
            for k, x in enumerate(dict.fromkeys(operands(rhs))):
                views[x] = f"{first}{k}"
                indices = tuple(a.substitute(zero) for a in pointwise(rhs.gens))
                made.append((views[x], Contraction(kept, (), TRUE, (Factor(x, indices),))))
            if isinstance(rhs, Map):
                arguments = tuple(views[x] for x in rhs.arguments)
                made.append((first, replace(rhs, gens=kept, arguments=arguments)))
            else:
                left, right = views[rhs.left], views[rhs.right]
                made.append((first, replace(rhs, gens=kept, left=left, right=right)))
    inner = made[-1][1]
    view = Contraction(rhs.gens, (), TRUE, (Factor(first, pointwise(kept)),))
    whole = _replace_statement(program, statement, *made, (statement.name, view))
    return Rewriting("outside", statement, inner, whole)


def _factor_sum(
    program: Program, statement: Statement, rhs: Contraction, k: int
) -> Rewriting | None:
    """Return the rewriting `Σ i. a·x[i] ⇝ a·Σ i. x[i]`; None if nothing can be moved out."""
    constant, summed = rhs.factors[k], rhs.factors[1 - k]
    outside = frozenset[str]().union(*(a.names for a in constant.indices))
    inner = tuple(s for s in rhs.sums if s[0] not in outside)
    if not inner:
        return None
    used = rhs.mask.names.union(*(a.names for a in summed.indices))
    every = (*rhs.gens, *rhs.sums)
    kept = tuple(b for b in every if b not in inner and b[0] in used)
    first = f"{statement.name}′"
    total = Contraction(kept, inner, rhs.mask, (summed,))
    rest = tuple(s for s in rhs.sums if s not in inner)
    outer = Contraction(
        rhs.gens,
        rest,
        exists_all(inner, rhs.mask),
        (constant, Factor(first, pointwise(kept))),
    )
    whole = _replace_statement(program, statement, (first, total), (statement.name, outer))
    return Rewriting("factored", statement, total, whole)


def _reassociate_sums(
    program: Program, statement: Statement, rhs: Contraction, k: int, source: Contraction, j: int
) -> Rewriting | None:
    """Rewrite `Σ j. (Σ k. a[k]·b[k,j])·c[j] ⇝ Σ k. a[k]·(Σ j. b[k,j]·c[j])`."""
    read, third = rhs.factors[k], rhs.factors[1 - k]
    at = dict(zip((g for g, _ in source.gens), read.indices, strict=True))
    renamed = number_binders("t", in_ranges(source.sums))
    at |= {s: Affine.of(t) for (s, _), (t, _) in zip(source.sums, renamed, strict=True)}
    inside = [f.substitute(at) for f in source.factors]
    last, second = inside[j], inside[1 - j]
    mask = conj(rhs.mask, substitute(source.mask, at))
    sums = (*rhs.sums, *renamed)
    outside = frozenset[str]().union(*(a.names for a in last.indices))
    inner = tuple(s for s in sums if s[0] not in outside)
    if not inner:
        return None
    names = {index for index, _ in inner}
    within: list[Predicate] = [q for q in conjuncts(mask) if q.names & names]
    rest = conj(*(q for q in conjuncts(mask) if not q.names & names))
    used = frozenset[str]().union(
        *(a.names for f in (second, third) for a in f.indices), *(q.names for q in within)
    )
    kept = tuple(b for b in (*rhs.gens, *sums) if b not in inner and b[0] in used)
    first = f"{statement.name}′"
    early = Contraction(kept, inner, conj(*within), (second, third))
    late = Contraction(
        rhs.gens,
        tuple(s for s in sums if s not in inner),
        conj(rest, exists_all(inner, conj(*within))),
        (last, Factor(first, pointwise(kept))),
    )
    whole = _replace_statement(program, statement, (first, early), (statement.name, late))
    return Rewriting("reassociated", statement, early, whole)
