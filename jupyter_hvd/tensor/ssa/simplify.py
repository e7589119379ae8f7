"""Simplification (§6): what makes the bound real in running code.

Equalities in a mask eliminate indices, reads of reads compose, constants fold, zeros and dead
code vanish, equal terms merge. None of it changes the meaning, none raises the cost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

from ..language import predicates
from ..language.affine import Affine
from ..language.predicates import FALSE, TRUE, Compare, Predicate, conj, conjuncts, in_range
from ..language.terms import Binder, Binders, in_ranges, index_names, index_values, number_binders
from ..language.types import array
from ..polyhedral import sets
from .builder import Builder, canonical_form, merge_equal
from .dead_code import remove_dead_code, replace_body
from .program import (
    Addition,
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
    rename,
    rename_output,
    support,
    with_masks,
)


def simplify(program: Program) -> Program:
    """Simplify each statement in turn, fuse products into the sums that consume them, and drop
    what is dead.
    """
    return merge_equal(_simplify_once(_fuse_products(_simplify_once(program))))


def _simplify_once(program: Program) -> Program:
    """Simplify each statement once, and drop dead code."""
    builder = Builder()
    names: dict[str, str] = {}
    for statement in program.statements:
        builder.origin = statement.origin
        rhs = simplify_rhs(rename(statement.rhs, names), builder)
        names[statement.name] = rhs if isinstance(rhs, str) else builder.add_statement(rhs)
    return remove_dead_code(builder.build_program(rename_output(program.output, names)))


def simplify_rhs(rhs: Rhs, builder: Builder) -> Rhs | str:
    """Return a simpler right-hand side with the same meaning, or the variable that it equals."""
    match rhs:
        case Addition():
            return _simplify_addition(rhs, builder)
        case Map():
            mask = sets.simplify(rhs.mask, rhs.gens)
            return replace(rhs, mask=mask) if mask is not FALSE else Constant(rhs.gens, 0)
        case Contraction():
            return _simplify_contraction(rhs, builder)
        case Recurrence():
            return _simplify_loop(rhs, builder)
        case Part():
            return _simplify_history(rhs, builder)
    return rhs


def _simplify_history(rhs: Part, builder: Builder) -> Rhs:
    """Read the history of a value that no iteration reads, and that is another one before the iteration, from the other's."""
    loop = builder.defined[rhs.source]
    assert isinstance(loop, Recurrence)
    left = loop.body[flatten_output(loop.body.output)[rhs.place]]
    carried = {s.rhs.parameter for s in loop.body.statements if isinstance(s.rhs, Input)}
    if not isinstance(left, Input) or left.parameter[0] != "s":
        return rhs
    if f"s{rhs.place}" in carried or loop.again is not None:
        return rhs
    first, *rest = pointwise(rhs.gens)
    p, q = predicates.compare("=", first, 0), predicates.compare("≤", 1, first)
    other = builder.add_statement(replace(rhs, place=int(left.parameter[1:])))
    begun = Contraction(rhs.gens, (), p, (Factor(loop.starts[rhs.place], tuple(rest)),))
    later = Contraction(rhs.gens, (), q, (Factor(other, (first - 1, *rest)),))
    return Addition(rhs.gens, p, builder.add_statement(begun), q, builder.add_statement(later))


def _simplify_loop(rhs: Recurrence, builder: Builder) -> Rhs:
    """Simplify a loop's body, and pass it less.

    Arrays that it reads only at the iteration's index become rows; of arrays that it reads at fixed indices, it gets the
    entries at these indices only.
    """
    rhs = replace(rhs, body=simplify(_inline_constants(rhs, builder)))
    rhs = replace(rhs, body=drop_range_masks(rhs.body, (Binder(rhs.index, rhs.size),)))
    statements = list(rhs.body.statements)
    inputs = {s.name: s.rhs for s in statements if isinstance(s.rhs, Input)}
    arguments = rhs.arguments
    turn = frozenset((rhs.index,))
    parts: dict[str, str] = {}  # each parameter to come: its variable outside

    def take_row(factor: Factor, own: frozenset[str]) -> Factor:
        read = inputs.get(factor.name)
        if read is None or read.parameter[0] != "c":
            return factor
        same = [not a.names & own for a in factor.indices]
        row = next((j for j, a in enumerate(factor.indices) if same[j] and turn <= a.names), None)
        fixed = {j for j, a in enumerate(factor.indices) if same[j] and not turn <= a.names}
        if row is None and not fixed:
            return factor
        gone = fixed if row is None else fixed | {row}
        sizes = in_ranges(read.gens)
        rest = tuple([n for j, n in enumerate(sizes) if j not in gone])
        binders = number_binders("g", rest if row is None else (rhs.size, *rest))
        others = iter(pointwise(binders)[0 if row is None else 1 :])
        here = {} if row is None else {rhs.index: pointwise(binders)[0]}
        at = [
            a.substitute(here) if j in gone else next(others) for j, a in enumerate(factor.indices)
        ]
        inside = conj(*(in_range(at[j], sizes[j]) for j in sorted(gone)))
        whole = Factor(arguments[read.parameter], tuple(at))
        made = _simplify_contraction(Contraction(binders, (), inside, (whole,)), builder)
        outside = made if isinstance(made, str) else builder.add_statement(made)
        letter, count = ("c", len(rhs.wholes)) if row is None else ("r", len(rhs.rows))
        known = (x for x, y in parts.items() if y == outside and x[0] == letter)
        parameter = next(known, f"{letter}{count + len(parts)}")
        if parameter not in parts:
            parts[parameter] = outside
            part = Input(parameter, array(rest), (), number_binders("g", rest))
            statements.insert(0, Statement(parameter, part))
        return Factor(parameter, tuple([a for j, a in enumerate(factor.indices) if j not in gone]))

    changed: dict[str, Rhs] = {}
    for s in rhs.body.statements:
        if isinstance(s.rhs, Contraction):
            own = frozenset(index_names((*s.rhs.gens, *s.rhs.sums)))
            changed[s.name] = replace(
                s.rhs, factors=tuple([take_row(f, own) for f in s.rhs.factors])
            )
    found = tuple([replace(s, rhs=changed.get(s.name, s.rhs)) for s in statements])
    body = remove_dead_code(Program(found, rhs.body.output))
    return replace_body(rhs, body, {**arguments, **parts})


def _inline_constants(rhs: Recurrence, builder: Builder) -> Program:
    """Inline the constants that a loop's body takes as parameters."""
    outside = {p: builder.defined[x] for p, x in rhs.arguments.items() if p[0] != "s"}

    def put_read(read: Rhs) -> Rhs:
        known = outside.get(read.parameter) if isinstance(read, Input) else None
        if isinstance(known, Constant) and known.is_uniform:
            return Constant(read.gens, known.value)
        return read

    statements = tuple([replace(s, rhs=put_read(s.rhs)) for s in rhs.body.statements])
    return Program(statements, rhs.body.output)


def drop_range_masks(program: Program, turns: Binders) -> Program:
    """Remove the conditions from a program's masks that follow from the ranges of the enclosing iterations."""

    def drop_ranges(p: Predicate, binders: Binders) -> Predicate:
        return sets.simplify(p, (*turns, *binders)) if p.names & {*index_names(turns)} else p

    def simplify_known(rhs: Rhs) -> Rhs:
        if isinstance(rhs, Recurrence):
            return replace(rhs, body=drop_range_masks(rhs.body, turns))
        return with_masks(rhs, drop_ranges)

    statements = tuple([replace(s, rhs=simplify_known(s.rhs)) for s in program.statements])
    return Program(statements, program.output)


def _is_constant(rhs: Rhs, value: int) -> bool:
    """Whether a right-hand side is a constant array with this value."""
    return isinstance(rhs, Constant) and rhs.value == value


def _simplify_addition(rhs: Addition, builder: Builder) -> Rhs | str:
    """Return a simpler addition: without an addend that is always zero, or as one contraction."""
    rhs_ = canonical_form(rhs)
    assert isinstance(rhs_, Addition)
    binders = rhs_.gens
    here = pointwise(binders)
    p0, p1 = (
        sets.simplify(conj(p, _support_at(builder.defined[x], here)), binders)
        for p, x in ((rhs_.left_mask, rhs_.left), (rhs_.right_mask, rhs_.right))
    )
    if p0 is FALSE or _is_constant(builder.defined[rhs_.left], 0):
        return _simplify_contraction(_view_rhs(binders, p1, rhs_.right), builder)
    if p1 is FALSE or _is_constant(builder.defined[rhs_.right], 0):
        return _simplify_contraction(_view_rhs(binders, p0, rhs_.left), builder)
    if rhs_.left == rhs_.right and p0 == p1:  # e + e = 2·e
        two = Factor(builder.add_statement(Constant((), 2)), ())
        doubled = Contraction(binders, (), p0, (two, Factor(rhs_.left, pointwise(binders))))
        return _simplify_contraction(doubled, builder)
    return Addition(binders, p0, rhs_.left, p1, rhs_.right)


def _view_rhs(binders: Binders, p: Predicate, name: str) -> Contraction:
    """Return `⊞g. [p]·X[g]`."""
    return Contraction(binders, (), p, (Factor(name, pointwise(binders)),))


def _support_at(operand: Rhs, indices: tuple[Affine, ...]) -> Predicate:
    """Return the operand's support at these indices, if it is a plain conjunction."""
    known = support(operand)
    plain = Compare | predicates.Related
    if not all(isinstance(part, plain) for part in conjuncts(known)):
        return TRUE
    return predicates.substitute(known, index_values(operand.gens, indices))


def _simplify_contraction(rhs: Contraction, builder: Builder) -> Rhs | str:
    """Return a simpler contraction: reads composed, equalities solved, constants folded."""
    binders, summed, mask, factors = rhs.gens, rhs.sums, rhs.mask, rhs.factors
    factors, mask = _compose_reads(factors, mask, builder)
    mask = conj(mask, *(_support_at(builder.defined[f.name], f.indices) for f in factors))
    summed, mask, factors = _solve_equalities(summed, mask, factors)
    mask = sets.simplify(mask, (*binders, *summed))
    summed, mask, factors = _solve_equalities(summed, mask, factors)
    if mask is FALSE or any(_is_constant(builder.defined[f.name], 0) for f in factors):
        return Constant(binders, 0)
    factors = _fold_constants(factors, builder)
    if not summed and len(factors) == 1:
        (factor,) = factors
        source = builder.defined[factor.name]
        same_shape = in_ranges(source.gens) == in_ranges(binders)
        if mask is TRUE and same_shape and factor.indices == pointwise(binders):
            return factor.name
        if mask is TRUE and isinstance(source, Constant) and source.is_uniform:
            return Constant(binders, source.value)
    return Contraction(binders, summed, mask, factors)


def _solve_equalities(
    summed: Binders, mask: Predicate, factors: tuple[Factor, ...]
) -> tuple[Binders, Predicate, tuple[Factor, ...]]:
    """Rewrite `Σi. [i=a ∧ q]·e ⇝ [0≤a<n ∧ q[i↦a]]·e[i↦a]` for every sum that an equality in the mask determines.

    All equations are solved first, and then substituted at once.
    """
    equations = [p.difference for p in conjuncts(mask) if isinstance(p, Compare) and p.op == "="]
    found: dict[str, Affine] = {}
    left = list(index_names(summed))
    while solution := next(
        ((i, a) for i in left for e in equations if (a := e.solve(i)) is not None), None
    ):
        index, a = solution
        at = {index: a}
        left.remove(index)
        equations = [e.substitute(at) for e in equations]
        found = at | {i: b.substitute(at) for i, b in found.items()}
    if not found:
        return summed, mask, factors
    size = dict(summed)
    mask = conj(
        *(in_range(a, size[i]) for i, a in found.items()), predicates.substitute(mask, found)
    )
    factors = tuple(f.substitute(found) for f in factors)
    # What is left of a disjunction may be an equation, too.
    return _solve_equalities(tuple(b for b in summed if b.name in left), mask, factors)


def _compose_reads(
    factors: tuple[Factor, ...], mask: Predicate, builder: Builder
) -> tuple[tuple[Factor, ...], Predicate]:
    """Read through reads: where X is `⊞g. [q]·Z[b]`, `X[a]` is `[q[g↦a]]·Z[b[g↦a]]`; an entry of
    a constant array is the constant.
    """
    result = []
    for factor in factors:
        source = builder.defined[factor.name]
        at = index_values(source.gens, factor.indices)
        if isinstance(source, Contraction) and not source.sums and len(source.factors) == 1:
            (inner,) = source.factors
            mask = conj(mask, predicates.substitute(source.mask, at))
            factor = inner.substitute(at)
        elif isinstance(source, Constant) and source.gens and source.is_uniform:
            ranges = [in_range(a, n) for a, (_, n) in zip(factor.indices, source.gens, strict=True)]
            mask = conj(mask, *ranges)
            factor = Factor(builder.add_statement(Constant((), source.value)), ())
        result.append(factor)
    return tuple(result), mask


def _fold_constants(factors: tuple[Factor, ...], builder: Builder) -> tuple[Factor, ...]:
    """Fold `c0·c1` to one constant, `1·e` to `e`, and `c0·(c1·e)` to `(c0·c1)·e`."""
    if len(factors) < 2:
        return factors
    constants = [f for f in factors if isinstance(builder.defined[f.name], Constant)]
    rest = [f for f in factors if f not in constants]
    values = [v for f in constants if not isinstance(v := _constant_of(builder, f), Affine)]
    if len(values) == 2:
        return (Factor(builder.add_statement(Constant((), values[0] * values[1])), ()),)
    if values and values[0] == 1 and rest:
        return (rest[0],)
    return factors


def _constant_of(builder: Builder, factor: Factor) -> int | float | Fraction | Affine:
    """Return the value of a factor that is a constant."""
    rhs = builder.defined[factor.name]
    assert isinstance(rhs, Constant)
    return rhs.value


def _fuse_products(program: Program) -> Program:
    """Sum a product where it is consumed: `Σs. X[a]` with `X = ⊞h Σt. [q]·X0·X1` becomes one
    contraction.

    That keeps the cost where nothing else reads X and no two terms of the sum read the same
    entry: then every term of the two sums is one of the one.
    """
    readers = Counter(x for s in program.statements for x in operands(s.rhs))
    readers.update(flatten_output(program.output))
    defined = {s.name: s.rhs for s in program.statements}
    origins = {s.name: s.origin for s in program.statements}
    fused: list[Statement] = []
    for statement in program.statements:
        rhs = statement.rhs
        if isinstance(rhs, Contraction) and len(rhs.factors) == 1:
            (factor,) = rhs.factors
            source = defined[factor.name]
            once = readers[factor.name] == 1 and _is_injective(factor, rhs)
            if isinstance(source, Contraction) and once:
                if not rhs.sums:  # A read: the operations are those of what it reads.
                    origins[statement.name] = origins[factor.name]
                rhs = _substitute_product(rhs, factor, source)
                defined[statement.name] = rhs
        fused.append(Statement(statement.name, rhs, origins[statement.name]))
    return Program(tuple(fused), program.output)


def _is_injective(factor: Factor, rhs: Contraction) -> bool:
    """Whether different values of generators and summed indices read different entries: each is itself an index of the read."""
    places = {a.name for a in factor.indices}
    return all(index in places for index, _ in (*rhs.gens, *rhs.sums))


def _substitute_product(rhs: Contraction, factor: Factor, source: Contraction) -> Contraction:
    """Return a contraction with a factor replaced by the product that defines it."""
    inner = number_binders("t", in_ranges(source.sums))
    at = index_values(source.gens, factor.indices) | index_values(source.sums, pointwise(inner))
    factors = tuple(f.substitute(at) for f in source.factors)
    mask = conj(rhs.mask, predicates.substitute(source.mask, at))
    result = canonical_form(Contraction(rhs.gens, (*rhs.sums, *inner), mask, factors))
    assert isinstance(result, Contraction)
    return result
