"""Tensor SSA (Fig. 10): a list of statements over full tensors.

    S ::= let X = E in S | (X, …, X)
    E ::= π…π x                                   an input projection
        | ⊞g. c                                   a constant array
        | ⊞g. ([p0]·X0[g] + [p1]·X1[g])           a guarded addition
        | ⊞g. [p]·f(X0[g], …)                     a map
        | ⊞g Σs. [p]·X0[a0]·X1[a1]                a contraction
        | ⊞g Σs. [p]·X0[a0]                       a unary contraction
        | iterate k:n. s0 := X0, … in P           a loop, whose body is a program
        | π…π X                                   the history of one of the values that X carries
        | F(X0, …)                                an array-level function

`convert` writes contractions as the paper does, with a distinct index variable in each place of
`a0` and `a1` and all structure in `p`. Simplification solves the equalities of `p`, and then
places hold affine expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ..language.affine import Affine
from ..language.definition import Definition
from ..language.depth import deep_recursion
from ..language.function import Function
from ..language.pairs import to_pairs
from ..language.predicates import TRUE, Predicate, disj, exists_all, fresh
from ..language.predicates import substitute as substitute_predicate
from ..language.printer import show
from ..language.provenance import NOWHERE, Origin, note_origin
from ..language.terms import (
    Add,
    Apply,
    Binders,
    Call,
    Const,
    Iterate,
    Mul,
    Number,
    Pair,
    Proj,
    Term,
    Var,
    components,
    entry,
    gens,
    guard,
    in_ranges,
    index_names,
    lets,
    substitute,
    sums,
)
from ..language.types import Product, Type, array


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
        """Whether all entries are equal."""
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
        """Return `X[a…]` with names replaced."""
        return Factor(self.name, tuple([a.substitute(values) for a in self.indices]))


@dataclass(frozen=True)
class Contraction:
    """`⊞g Σs. [p]·X0[a0]·X1[a1]`, with one factor or two."""

    gens: Binders
    sums: Binders
    mask: Predicate
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class Recurrence:
    """`iterate index:size. s0 := X0, … in body`: the histories of the values that a loop carries.

    The body is a program whose parameters are the values that it reads: `s0`, `s1`, … are the carried values, initially
    `starts`; `r0`, `r1`, … are the entries of the arrays `rows` at the iteration's index; `c0`, `c1`, … are the arrays
    `wholes`.
    It returns the next carried values.

    `again` is the loop whose first values this loop recomputes, if any. The reader may run it block by block, from the
    values
    that the blocks of that loop begin with (`lowering/recomputation`).
    """

    index: str
    size: Affine
    starts: tuple[str, ...]
    rows: tuple[str, ...]
    wholes: tuple[str, ...]
    body: Program
    gens: Binders = ()
    again: str | None = None

    @property
    def arguments(self) -> dict[str, str]:
        """The outer variable for each parameter of the body."""
        groups = (("s", self.starts), ("r", self.rows), ("c", self.wholes))
        return {f"{letter}{j}": x for letter, names in groups for j, x in enumerate(names)}

    @property
    def carried(self) -> tuple[Binders, ...]:
        """The dimensions of each carried value."""
        return tuple([self.body[x].gens for x in flatten_output(self.body.output)])


@dataclass(frozen=True)
class Part:
    """`π…π X`: the history of one of the `count` values that a loop carries."""

    source: str
    place: int
    count: int
    gens: Binders


@dataclass(frozen=True)
class Application:
    """`F(X0, …)`: an array-level function."""

    gens: Binders
    definition: Definition
    operands: tuple[str, ...]


Rhs = Input | Constant | Addition | Map | Contraction | Recurrence | Part | Application
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

    @deep_recursion()
    def __str__(self) -> str:
        lines = [f"let {name} = {show(value)} in" for name, value in statement_terms(self)]
        variables = {s.name: Var(s.name, type_of(s.rhs)) for s in self.statements}
        return "\n".join([*lines, show(output_term(self.output, variables))])

    def __getitem__(self, name: str) -> Rhs:
        return next(s.rhs for s in self.statements if s.name == name)


def operands(rhs: Rhs) -> tuple[str, ...]:
    """List the variables that a right-hand side reads."""
    match rhs:
        case Addition():
            return (rhs.left, rhs.right)
        case Map():
            return rhs.arguments
        case Contraction():
            return tuple(factor.name for factor in rhs.factors)
        case Recurrence():
            again = () if rhs.again is None else (rhs.again,)
            return (*rhs.starts, *rhs.rows, *rhs.wholes, *again)
        case Part():
            return (rhs.source,)
        case Application():
            return rhs.operands
    return ()


def names_in_masks_and_indices(rhs: Rhs) -> frozenset[str]:
    """List the index variables and sizes in a right-hand side, outside the bodies of loops."""
    match rhs:
        case Constant(_, Affine() as value):
            return value.names
        case Addition():
            return rhs.left_mask.names | rhs.right_mask.names
        case Map():
            return rhs.mask.names
        case Contraction():
            return rhs.mask.names.union(*(a.names for f in rhs.factors for a in f.indices))
    return frozenset()


def is_view(rhs: Rhs) -> bool:
    """Whether a right-hand side is a constant, or only reads entries of one variable."""
    if isinstance(rhs, Contraction):
        return not rhs.sums and len(rhs.factors) == 1
    return isinstance(rhs, Constant)


def is_picking(rhs: Rhs) -> bool:
    """Whether a right-hand side applies the primitive `picks`, entry by entry."""
    return isinstance(rhs, Map) and rhs.function.name == "picks"


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
        case Recurrence():
            groups = (rhs.starts, rhs.rows, rhs.wholes)
            starts, rows, wholes = (tuple(names.get(x, x) for x in group) for group in groups)
            again = None if rhs.again is None else names.get(rhs.again, rhs.again)
            return replace(rhs, starts=starts, rows=rows, wholes=wholes, again=again)
        case Part():
            return replace(rhs, source=names.get(rhs.source, rhs.source))
        case Application():
            return replace(rhs, operands=tuple(names.get(x, x) for x in rhs.operands))
    return rhs


def with_masks(rhs: Rhs, f: Callable[[Predicate, Binders], Predicate]) -> Rhs:
    """Apply `f` to each mask of a right-hand side. `f` gets the mask and the indices that it is over."""
    match rhs:
        case Addition():
            left, right = (f(p, rhs.gens) for p in (rhs.left_mask, rhs.right_mask))
            return replace(rhs, left_mask=left, right_mask=right)
        case Map():
            return replace(rhs, mask=f(rhs.mask, rhs.gens))
        case Contraction():
            return replace(rhs, mask=f(rhs.mask, (*rhs.gens, *rhs.sums)))
    return rhs


def all_statements(program: Program) -> Iterator[Statement]:
    """Yield all statements, including those in the bodies of loops."""
    for statement in program.statements:
        yield statement
        if isinstance(statement.rhs, Recurrence):
            yield from all_statements(statement.rhs.body)


def flatten_output(output: Output) -> list[str]:
    """List the variables of an output tree, left to right."""
    if isinstance(output, str):
        return [output]
    return [*flatten_output(output[0]), *flatten_output(output[1])]


def map_output(f: Callable[[str], T], pair: Callable[[T, T], T], output: Output) -> T:
    """Apply `f` to the variables of an output tree, and `pair` to its nodes."""
    if isinstance(output, str):
        return f(output)
    return pair(map_output(f, pair, output[0]), map_output(f, pair, output[1]))


def pair_tree(parts: Sequence[Output]) -> Output:
    """Nest variables, or trees of them, as pairs, the last innermost."""
    return to_pairs(parts, _nested_pair)


def rename_output(output: Output, names: Mapping[str, str]) -> Output:
    """Rename the variables of an output tree."""
    return map_output(names.__getitem__, _nested_pair, output)


def _nested_pair(first: Output, second: Output) -> Output:
    """Return two output trees as a pair."""
    return first, second


def pointwise(gens_: Binders) -> tuple[Affine, ...]:
    """Return the indices that read the entry at the generators themselves."""
    return tuple(map(Affine.of, index_names(gens_)))


def support(rhs: Rhs) -> Predicate:
    """Return a predicate over the generators that is false only where the variable is zero."""
    match rhs:
        case Addition():
            return disj(rhs.left_mask, rhs.right_mask)
        case Map():
            return rhs.mask
        case Contraction():
            return exists_all(rhs.sums, rhs.mask)
    return TRUE


def type_of(rhs: Rhs) -> Type:
    """Return the type of an SSA variable: an array of scalars over its generators, or pairs of histories."""
    if isinstance(rhs, Recurrence):
        return to_pairs([array((rhs.size + 1, *in_ranges(g))) for g in rhs.carried], Product)
    return array(in_ranges(rhs.gens))


def statement_terms(program: Program) -> Iterator[tuple[str, Term]]:
    """Yield each statement's variable, with its right-hand side as a term over the earlier variables."""
    variables: dict[str, Term] = {}
    for statement in program.statements:
        yield statement.name, rhs_to_term(statement.rhs, variables)
        variables[statement.name] = Var(statement.name, type_of(statement.rhs))


def output_term(output: Output, variables: Mapping[str, Term]) -> Term:
    """Convert an output tree to nested pairs of terms."""
    return map_output(variables.__getitem__, Pair, output)


def rhs_to_term(rhs: Rhs, variables: Mapping[str, Term]) -> Term:
    """Convert a right-hand side to a term, given terms for the variables that it reads."""
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
        case Recurrence():
            return _loop_term(rhs, variables)
        case Part(source, place, count, _):
            return components(variables[source], count)[place]
        case Application(_, definition, names):
            return Apply(definition, tuple(variables[x] for x in names))
    raise TypeError(rhs)


def _loop_term(rhs: Recurrence, variables: Mapping[str, Term]) -> Term:
    """Convert a loop to a term whose body reads the outer variables."""
    starts = tuple([variables[x] for x in rhs.starts])
    turn = Affine.of(rhs.index)
    read = {f"r{j}": entry(variables[x], turn) for j, x in enumerate(rhs.rows)}
    read |= {f"c{j}": variables[x] for j, x in enumerate(rhs.wholes)}
    # A loop around this one has values called so, too.
    taken = frozenset[str]().union(*(e.variables for e in read.values()))
    names = tuple[str, ...]()
    for j in range(len(starts)):
        names = (*names, fresh(f"s{j}", taken.union(names)))
    read |= {f"s{j}": Var(x, e.type) for j, (x, e) in enumerate(zip(names, starts, strict=True))}
    return Iterate(rhs.index, rhs.size, names, starts, substitute(to_term(rhs.body), read))


def to_term(program: Program) -> Term:
    """Convert a program to a term of the core language, which defines its meaning and cost."""
    variables: dict[str, Term] = {}
    bindings: list[tuple[str, Term]] = []
    taken = {s.rhs.parameter for s in program.statements if isinstance(s.rhs, Input)}
    for statement in program.statements:
        value = rhs_to_term(statement.rhs, variables)
        if isinstance(statement.rhs, Input):
            variables[statement.name] = value
        else:
            note_origin(value, replace(statement.origin, of="", source=statement.name))
            name = fresh(statement.name, taken)
            taken.add(name)
            bindings.append((name, value))
            variables[statement.name] = Var(name, value.type)
    return lets(bindings, output_term(program.output, variables))


def substitute_indices(program: Program, indices: Mapping[str, Affine]) -> Program:
    """Replace free index names in a program. None of them may be bound in it."""
    statements = tuple(
        [replace(s, rhs=_substitute_in_rhs(s.rhs, indices)) for s in program.statements]
    )
    return Program(statements, program.output)


def _substitute_in_rhs(rhs: Rhs, indices: Mapping[str, Affine]) -> Rhs:
    """Replace free index names in a right-hand side."""
    match rhs:
        case Constant(binders, Affine() as value):
            return Constant(binders, value.substitute(indices))
        case Contraction():
            rhs = replace(rhs, factors=tuple([f.substitute(indices) for f in rhs.factors]))
        case Recurrence():
            return replace(rhs, body=substitute_indices(rhs.body, indices))
    return with_masks(rhs, lambda p, _: substitute_predicate(p, indices))
