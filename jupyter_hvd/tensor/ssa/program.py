"""Tensor SSA (Fig. 10): a list of statements over whole tensors, and the pass that reaches it
(Figs. 11 and 12).

    S ::= let X = E in S | (X, …, X)
    E ::= π…π x                                   an input projection
        | ⊞g. c                                   a constant array
        | ⊞g. ([p0]·X0[g] + [p1]·X1[g])           a guarded addition
        | ⊞g. [p]·f(X0[g], …)                     a map
        | ⊞g Σs. [p]·X0[a0]·X1[a1]                a contraction
        | ⊞g Σs. [p]·X0[a0]                       a unary contraction

The pass writes contractions as the paper does, with a distinct index variable in each place of
`a0` and `a1` and all structure in `p`. Simplification solves the equalities of `p`, and then
places hold affine expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..language.affine import Affine
from ..language.functions import Function
from ..language.predicates import TRUE, Predicate, compare, conj, disj, exists_all
from ..language.predicates import substitute as substitute_predicate
from ..language.provenance import NOWHERE, Origin, noted, origin_of
from ..language.terms import (
    Add,
    At,
    Binders,
    Call,
    Const,
    Gen,
    Guard,
    Let,
    Mul,
    Number,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
    entry,
    gens,
    guard,
    lets,
    strip_guards,
    strip_sums,
    sums,
)
from ..language.types import Type, array, dimensions, leaves


@dataclass(frozen=True)
class Input:
    """`π…π x`: the component of a parameter that a path of projections leads to."""

    parameter: str
    type: Type
    path: tuple[int, ...]
    gens: Binders


@dataclass(frozen=True)
class Constant:
    """`⊞g. c`."""

    gens: Binders
    value: Number | Affine


@dataclass(frozen=True)
class Addition:
    """`⊞g. ([p0]·X0[g] + [p1]·X1[g])`."""

    gens: Binders
    left_mask: Predicate
    left: str
    right_mask: Predicate
    right: str


@dataclass(frozen=True)
class Map:
    """`⊞g. [p]·f(X0[g], …)`."""

    gens: Binders
    mask: Predicate
    function: Function
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Factor:
    """`X[a…]`."""

    name: str
    indices: tuple[Affine, ...]


@dataclass(frozen=True)
class Contraction:
    """`⊞g Σs. [p]·X0[a0]·X1[a1]`, with one factor or two."""

    gens: Binders
    sums: Binders
    mask: Predicate
    factors: tuple[Factor, ...]


Rhs = Input | Constant | Addition | Map | Contraction
Output = str | tuple["Output", "Output"]


@dataclass(frozen=True)
class Statement:
    """`let name = rhs`, and where it came from."""

    name: str
    rhs: Rhs
    origin: Origin = NOWHERE


@dataclass(frozen=True)
class Program:
    """A block of statements and the tree of variables that it returns."""

    statements: tuple[Statement, ...]
    output: Output

    def __str__(self) -> str:
        from ..language.printer import show_ssa

        return show_ssa(self)

    def __getitem__(self, name: str) -> Rhs:
        return next(s.rhs for s in self.statements if s.name == name)


def operands(rhs: Rhs) -> tuple[str, ...]:
    """The variables that a right-hand side reads."""
    match rhs:
        case Addition():
            return (rhs.left, rhs.right)
        case Map():
            return rhs.arguments
        case Contraction():
            return tuple(factor.name for factor in rhs.factors)
    return ()


def rename(rhs: Rhs, names: Mapping[str, str]) -> Rhs:
    """Replace the variables that a right-hand side reads."""
    match rhs:
        case Addition():
            left, right = names.get(rhs.left, rhs.left), names.get(rhs.right, rhs.right)
            return replace(rhs, left=left, right=right)
        case Map():
            return replace(rhs, arguments=tuple(names.get(x, x) for x in rhs.arguments))
        case Contraction():
            factors = tuple(replace(f, name=names.get(f.name, f.name)) for f in rhs.factors)
            return replace(rhs, factors=factors)
    return rhs


def flat(output: Output) -> list[str]:
    """The variables of an output tree, left to right."""
    if isinstance(output, str):
        return [output]
    return [*flat(output[0]), *flat(output[1])]


def pointwise(gens_: Binders) -> tuple[Affine, ...]:
    """The indices of the entry at the generators themselves."""
    return tuple(Affine.of(g) for g, _ in gens_)


def canonical(rhs: Rhs) -> Rhs:
    """Index variables named g0, g1, … and s0, s1, … in order of occurrence; addends and factors
    in order.

    So equal right-hand sides are equal values.
    """
    if isinstance(rhs, Input | Constant):
        return replace(rhs, gens=_numbered("g", rhs.gens)[0])
    if isinstance(rhs, Contraction):
        factors = tuple(sorted(rhs.factors, key=lambda f: _order(f.name)))
        order = {s: k for k, s in enumerate(_by_occurrence(factors))}
        summed = sorted(rhs.sums, key=lambda b: order.get(b[0], len(order)))
        gens_, renamed = _numbered("g", rhs.gens)
        sums_, also = _numbered("s", tuple(summed))
        renamed |= also
        return Contraction(
            gens_,
            sums_,
            substitute_predicate(rhs.mask, renamed),
            tuple(Factor(f.name, tuple(a.substitute(renamed) for a in f.indices)) for f in factors),
        )
    gens_, renamed = _numbered("g", rhs.gens)
    if isinstance(rhs, Map):
        return replace(rhs, gens=gens_, mask=substitute_predicate(rhs.mask, renamed))
    left = (_order(rhs.left), rhs.left, substitute_predicate(rhs.left_mask, renamed))
    right = (_order(rhs.right), rhs.right, substitute_predicate(rhs.right_mask, renamed))
    (_, x0, p0), (_, x1, p1) = (left, right) if left[0] <= right[0] else (right, left)
    return Addition(gens_, p0, x0, p1, x1)


def _order(name: str) -> tuple[int, str]:
    return len(name), name


def _by_occurrence(factors: Iterable[Factor]) -> dict[str, None]:
    return dict.fromkeys(n for f in factors for a in f.indices for n, _ in a.terms)


def _numbered(letter: str, binders: Binders) -> tuple[Binders, dict[str, Affine]]:
    renamed = {index: Affine.of(f"{letter}{k}") for k, (index, _) in enumerate(binders)}
    return tuple((f"{letter}{k}", size) for k, (_, size) in enumerate(binders)), renamed


@dataclass
class Builder:
    """Collects statements; equal right-hand sides share one variable, whose origin is that of the
    first.
    """

    statements: list[Statement] = field(default_factory=list)
    defined: dict[str, Rhs] = field(default_factory=dict)
    found: dict[Rhs, str] = field(default_factory=dict)
    prefix: str = "X"
    origin: Origin = NOWHERE  # of the statements to come, as far as they do not say

    def add(self, rhs: Rhs, rule: str = "", of: str = "") -> str:
        """The variable for a right-hand side, new where no equal one is there."""
        rhs = canonical(rhs)
        name = self.found.get(rhs)
        if name is None:
            name = f"{self.prefix}{len(self.statements)}"
            self.found[rhs] = name
            self.defined[name] = rhs
            origin = replace(self.origin, rule=self.origin.rule or rule, of=of or self.origin.of)
            self.statements.append(Statement(name, rhs, origin))
        return name

    def view(self, name: str, gens_: Binders, mask: Predicate, rule: str = "", of: str = "") -> str:
        """`⊞g. [p]·X[g]`, or X itself where p is true."""
        if mask == TRUE:
            return name
        return self.add(Contraction(gens_, (), mask, (Factor(name, pointwise(gens_)),)), rule, of)

    def program(self, output: Output) -> Program:
        return Program(tuple(self.statements), output)


def to_ssa(e: Term) -> Program:
    """Convert a block of lets over flat terms (what `normalize` returns) to Tensor SSA
    (5.25–5.34).

    Three of the printed rules do not hold as they stand and are mended here;
    `docs/tensor-language.md` has the counter-examples: a constant keeps its guard (5.29), nested
    sums and their guard become one contraction whose mask includes that guard (5.34), and guards
    on factors join the mask (5.32).
    """
    builder = Builder()
    env: dict[str, str] = {}
    while isinstance(e, Let):  # (5.25)
        env[e.name] = _convert(e.value, (), TRUE, env, builder)
        e = e.body
    return builder.program(_output(e, env, builder))


def _output(e: Term, env: Mapping[str, str], builder: Builder) -> Output:
    if isinstance(e, Pair):
        return _output(e.first, env, builder), _output(e.second, env, builder)
    return _convert(e, (), TRUE, env, builder)


def _convert(
    e: Term, outer: Binders, p: Predicate, env: Mapping[str, str], builder: Builder
) -> str:
    """The variable for `⊞outer. [p]·e`."""
    around = builder.origin
    builder.origin = origin_of(e) or around
    name = _converted(e, outer, p, env, builder)
    builder.origin = around
    return name


def _converted(
    e: Term, outer: Binders, p: Predicate, env: Mapping[str, str], builder: Builder
) -> str:
    if dims := dimensions(e.type):
        if isinstance(e, Gen):  # (5.27)
            return _convert(e.body, (*outer, (e.index, e.size)), p, env, builder)
        if isinstance(e, Guard):
            return _convert(e.body, outer, conj(p, e.condition), env, builder)
        fresh = f"η{len(outer)}"
        return _convert(At(e, Affine.of(fresh)), (*outer, (fresh, dims[0])), p, env, builder)
    match e:
        case Guard(condition, body):  # (5.28)
            return _convert(body, outer, conj(p, condition), env, builder)
        case Const(value):  # (5.29)
            if p == TRUE:
                return builder.add(Constant(outer, value), "5.29")
            return builder.add(Contraction(outer, (), p, (Factor(_scalar(value, builder), ()),)))
        case Add(left, right):  # (5.31)
            (p0, left), (p1, right) = strip_guards(left), strip_guards(right)
            p0, p1 = conj(p, p0), conj(p, p1)
            x0 = _convert(left, outer, p0, env, builder)
            x1 = _convert(right, outer, p1, env, builder)
            return builder.add(Addition(outer, p0, x0, p1, x1), "5.31")
        case Mul(left, right):  # (5.32)
            (p0, left), (p1, right) = strip_guards(left), strip_guards(right)
            p = conj(p, p0, p1)
            factors = [_convert(factor, outer, p, env, builder) for factor in (left, right)]
            return builder.add(_product(outer, p, factors), "5.32")
        case Call(function, arguments):  # (5.33)
            names = tuple(_convert(argument, outer, p, env, builder) for argument in arguments)
            return builder.add(Map(outer, p, function, names), "5.33")
        case Sum():  # (5.34)
            binders, q, body = strip_sums(e)
            p = conj(p, q)
            x = _convert(body, (*outer, *binders), p, env, builder)
            return builder.add(_total(outer, binders, p, x), "5.34")
    return _read(e, outer, p, env, builder)  # (5.26), (5.30)


def _scalar(value: Number | Affine, builder: Builder) -> str:
    return builder.add(Constant((), value), "5.29")


def _copies(binders: Binders, mark: str) -> tuple[Binders, Predicate]:
    """Fresh indices over the same ranges, and the condition that they equal the old ones."""
    fresh = tuple((f"{mark}{k}", size) for k, (_, size) in enumerate(binders))
    same = (compare("=", i, j) for (i, _), (j, _) in zip(binders, fresh, strict=True))
    return fresh, conj(*same)


def _product(outer: Binders, p: Predicate, names: list[str]) -> Contraction:
    """`⊞g Σ i0,i1. [p ∧ g=i0 ∧ g=i1]·X0[i0]·X1[i1]`."""
    i0, same0 = _copies(outer, "ι")
    i1, same1 = _copies(outer, "κ")
    factors = (Factor(names[0], pointwise(i0)), Factor(names[1], pointwise(i1)))
    return Contraction(outer, (*i0, *i1), conj(p, same0, same1), factors)


def _total(outer: Binders, inner: Binders, p: Predicate, name: str) -> Contraction:
    """`⊞g Σ i,j. [p ∧ g=i]·X[i,j]`."""
    i, same = _copies(outer, "ι")
    factor = Factor(name, (*pointwise(i), *pointwise(inner)))
    return Contraction(outer, (*i, *inner), conj(p, same), (factor,))


def _read(e: Term, outer: Binders, p: Predicate, env: Mapping[str, str], builder: Builder) -> str:
    """`⊞g. [p]·X[a…] ⇝ ⊞g Σi. [p ∧ i=a…]·X[i…]` (5.30), and X itself for `X[g]`."""
    accesses: list[Affine] = []
    while isinstance(e, At):
        accesses.insert(0, e.index)
        e = e.body
    name = env[e.name] if isinstance(e, Var) and e.name in env else _input(e, builder)
    sizes = _dims(builder.defined[name])
    if p == TRUE and tuple(accesses) == pointwise(outer) and sizes == tuple(n for _, n in outer):
        return name
    i = tuple((f"ι{k}", size) for k, size in enumerate(sizes))
    same = (compare("=", index, a) for (index, _), a in zip(i, accesses, strict=True))
    factor = Factor(name, pointwise(i))
    return builder.add(Contraction(outer, i, conj(p, *same), (factor,)), "5.30")


def _dims(rhs: Rhs) -> tuple[Affine, ...]:
    return tuple(size for _, size in rhs.gens)


def _input(e: Term, builder: Builder) -> str:
    type_ = e.type
    path: list[int] = []
    while isinstance(e, Proj):
        path.insert(0, e.side)
        e = e.body
    assert isinstance(e, Var), e
    dims = tuple((f"g{k}", size) for k, size in enumerate(dimensions(type_)))
    return builder.add(Input(e.name, e.declared, tuple(path), dims), "5.30")


def inputs(parameter: str, type_: Type, builder: Builder) -> dict[tuple[int, ...], str]:
    """The variable for each pair-free component of a parameter."""
    found = {}
    for path, leaf in leaves(type_):
        dims = tuple((f"g{k}", size) for k, size in enumerate(dimensions(leaf)))
        found[path] = builder.add(Input(parameter, type_, path, dims))
    return found


def type_of(rhs: Rhs) -> Type:
    """The type of an SSA variable: an array of scalars over its generators."""
    return array(_dims(rhs))


def to_term(program: Program) -> Term:
    """The program as a term of the core language, with which its meaning and cost are defined."""
    variables: dict[str, Term] = {}
    bindings: list[tuple[str, Term]] = []
    for statement in program.statements:
        value = _term(statement.rhs, variables)
        if isinstance(statement.rhs, Input):
            variables[statement.name] = value
        else:
            noted(value, replace(statement.origin, of="", source=statement.name))
            bindings.append((statement.name, value))
            variables[statement.name] = Var(statement.name, value.type)
    return lets(bindings, _output_term(program.output, variables))


def _output_term(output: Output, variables: Mapping[str, Term]) -> Term:
    if isinstance(output, str):
        return variables[output]
    return Pair(_output_term(output[0], variables), _output_term(output[1], variables))


def _term(rhs: Rhs, variables: Mapping[str, Term]) -> Term:
    match rhs:
        case Input(parameter, type_, path, _):
            e: Term = Var(parameter, type_)
            for side in path:
                e = Proj(side, e)
            return e
        case Constant(binders, value):
            return gens(binders, Const(value))
        case Addition(binders, p0, x0, p1, x1):
            here = pointwise(binders)
            left = guard(p0, entry(variables[x0], *here))
            return gens(binders, Add(left, guard(p1, entry(variables[x1], *here))))
        case Map(binders, p, function, names):
            arguments = tuple(entry(variables[x], *pointwise(binders)) for x in names)
            return gens(binders, guard(p, Call(function, arguments)))
        case Contraction(binders, summed, p, factors):
            entries = [entry(variables[f.name], *f.indices) for f in factors]
            body = entries[0] if len(entries) == 1 else Mul(*entries)
            return gens(binders, sums(summed, guard(p, body)))
    raise TypeError(rhs)


def support(rhs: Rhs) -> Predicate:
    """A predicate over the generators outside which the variable is zero."""
    match rhs:
        case Addition():
            return disj(rhs.left_mask, rhs.right_mask)
        case Map():
            return rhs.mask
        case Contraction():
            return exists_all(rhs.sums, rhs.mask)
    return TRUE
