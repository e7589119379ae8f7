"""Tensor SSA (Fig. 10): a list of statements over whole tensors.

    S ::= let X = E in S | (X, …, X)
    E ::= π…π x                                   an input projection
        | ⊞g. c                                   a constant array
        | ⊞g. ([p0]·X0[g] + [p1]·X1[g])           a guarded addition
        | ⊞g. [p]·f(X0[g], …)                     a map
        | ⊞g Σs. [p]·X0[a0]·X1[a1]                a contraction
        | ⊞g Σs. [p]·X0[a0]                       a unary contraction

`convert` writes contractions as the paper does, with a distinct index variable in each place of
`a0` and `a1` and all structure in `p`. Simplification solves the equalities of `p`, and then
places hold affine expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ..language.affine import Affine
from ..language.function import Function
from ..language.predicates import TRUE, Predicate, disj, exists_all
from ..language.printer import show
from ..language.provenance import NOWHERE, Origin
from ..language.terms import (
    Add,
    Binders,
    Call,
    Const,
    Mul,
    Number,
    Pair,
    Proj,
    Term,
    Var,
    entry,
    gens,
    guard,
    index_names,
    ranges,
    sums,
)
from ..language.types import Type, array


@dataclass(frozen=True)
class Input:
    """`π…π x`: the component of a parameter that a path of projections leads to."""

    parameter: str
    type: Type
    path: tuple[int, ...]
    gens: Binders


@dataclass(frozen=True)
class Constant:
    """`⊞g. c`, where c is a number, or an affine expression of sizes and of g."""

    gens: Binders
    value: Number | Affine

    @property
    def is_uniform(self) -> bool:
        """Whether its entries are equal."""
        return not isinstance(self.value, Affine) or not self.value.names & {
            g for g, _ in self.gens
        }


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

    def substitute(self, values: Mapping[str, Affine]) -> Factor:
        """`X[a…]` with names replaced."""
        return Factor(self.name, tuple([a.substitute(values) for a in self.indices]))


@dataclass(frozen=True)
class Contraction:
    """`⊞g Σs. [p]·X0[a0]·X1[a1]`, with one factor or two."""

    gens: Binders
    sums: Binders
    mask: Predicate
    factors: tuple[Factor, ...]


Rhs = Input | Constant | Addition | Map | Contraction
Output = str | tuple["Output", "Output"]
T = TypeVar("T")


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
        lines = [f"let {name} = {show(value)} in" for name, value in statement_terms(self)]
        variables = {s.name: Var(s.name, type_of(s.rhs)) for s in self.statements}
        return "\n".join([*lines, show(output_term(self.output, variables))])

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
            factors = tuple(Factor(names.get(f.name, f.name), f.indices) for f in rhs.factors)
            return replace(rhs, factors=factors)
    return rhs


def flat(output: Output) -> list[str]:
    """The variables of an output tree, left to right."""
    if isinstance(output, str):
        return [output]
    return [*flat(output[0]), *flat(output[1])]


def map_output(f: Callable[[str], T], pair: Callable[[T, T], T], output: Output) -> T:
    """An output tree with `f` of its variables, joined by `pair`."""
    if isinstance(output, str):
        return f(output)
    return pair(map_output(f, pair, output[0]), map_output(f, pair, output[1]))


def renamed_output(output: Output, names: Mapping[str, str]) -> Output:
    """An output tree with other names for its variables."""
    if isinstance(output, str):
        return names[output]
    return renamed_output(output[0], names), renamed_output(output[1], names)


def pointwise(gens_: Binders) -> tuple[Affine, ...]:
    """The indices of the entry at the generators themselves."""
    return tuple(map(Affine.of, index_names(gens_)))


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


def type_of(rhs: Rhs) -> Type:
    """The type of an SSA variable: an array of scalars over its generators."""
    return array(ranges(rhs.gens))


def statement_terms(program: Program) -> Iterator[tuple[str, Term]]:
    """Each statement's variable and its right-hand side as a term over the variables before it."""
    variables: dict[str, Term] = {}
    for statement in program.statements:
        yield statement.name, term_of(statement.rhs, variables)
        variables[statement.name] = Var(statement.name, type_of(statement.rhs))


def output_term(output: Output, variables: Mapping[str, Term]) -> Term:
    """The output as nested pairs of those terms for the variables."""
    return map_output(variables.__getitem__, Pair, output)


def term_of(rhs: Rhs, variables: Mapping[str, Term]) -> Term:
    """The right-hand side over those terms for the variables that it reads."""
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
