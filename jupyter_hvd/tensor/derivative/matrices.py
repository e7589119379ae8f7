"""Algebra of matrices as terms, in which the derivatives of array-level functions are written; and how these are applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..language.affine import Affine
from ..language.definition import Definition
from ..language.function import find_function
from ..language.predicates import TRUE, Predicate, compare, conj, fresh
from ..language.terms import (
    Add,
    Apply,
    Binders,
    Call,
    Const,
    Mul,
    Sum,
    Term,
    Var,
    entry,
    gens,
    guard,
    index_names,
    lets,
    number_binders,
    sums,
)
from ..language.types import dimensions
from ..ssa.builder import Builder
from ..ssa.convert import convert_block
from ..ssa.normalize import normalize
from ..ssa.program import Application, Program, pointwise, rename, rename_output, type_of

Entry = Callable[..., Term]
Where = Callable[[Affine, Affine], Predicate]
Block = tuple[Term, Affine, Affine]  # a matrix, and the row and the column at which it begins


def _true_everywhere(*_: Affine) -> Predicate:
    """Return the predicate that always holds."""
    return TRUE


class Matrices:
    """Builds terms for matrices, vectors and numbers. Each result is bound to a variable, so that it is computed once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.bindings: list[tuple[str, Term]] = []
        self.taken = {*taken}

    def name_term(self, e: Term) -> Term:
        """Bind a term to a variable."""
        if isinstance(e, Var):
            return e
        name = fresh("w", self.taken)
        self.taken.add(name)
        self.bindings.append((name, e))
        return Var(name, e.type)

    def build(self, dims: Sequence[Affine], entry_at: Entry) -> Term:
        """Return the array `⊞ i:dims[0], …. entry_at(i, …)`."""
        binders = number_binders("ϕ", dims)
        return self.name_term(gens(binders, entry_at(*map(Affine.of, index_names(binders)))))

    def map_entries(self, transform: Entry, *arrays: Term) -> Term:
        """Apply `transform` to the entries of arrays of one shape."""
        dims = dimensions(arrays[0].type)
        return self.build(dims, lambda *at: transform(*(entry(a, *at) for a in arrays)))

    def apply_definition(self, definition: Definition, *arguments: Term) -> Term:
        """Apply an array-level function."""
        return self.name_term(Apply(definition, tuple(map(self.name_term, arguments))))

    def product(
        self,
        a: Term,
        b: Term,
        *more: Term,
        within: Where = _true_everywhere,
        where: Where = _true_everywhere,
    ) -> Term:
        """Build `a @ b @ …`. Entries of the first factor outside `within`, and of the product outside `where`, are zero."""
        (m, k), (_, n) = dimensions(a.type), dimensions(b.type)
        s = Affine.of("ψ")

        def at(i: Affine, j: Affine) -> Term:
            both = guard(within(i, s), Mul(entry(a, i, s), entry(b, s, j)))
            return guard(where(i, j), Sum("ψ", k, both))

        made = self.build((m, n), at)
        return self.product(made, *more) if more else made

    def inner(self, a: Term, b: Term) -> Term:
        """Return the number `sum(a * b)` of two matrices."""
        m, n = dimensions(a.type)
        at = Affine.of("ψ0"), Affine.of("ψ1")
        return self.name_term(Sum("ψ0", m, Sum("ψ1", n, Mul(entry(a, *at), entry(b, *at)))))

    def transposed(self, a: Term) -> Term:
        """Return `a.T`."""
        m, n = dimensions(a.type)
        return self.build((n, m), lambda i, j: entry(a, j, i))

    def plus(self, a: Term, b: Term) -> Term:
        """Return `a + b`."""
        return self.map_entries(Add, a, b)

    def minus(self, a: Term, b: Term) -> Term:
        """Return `a - b`."""
        return self.map_entries(lambda x, y: Add(x, Mul(Const(-1), y)), a, b)

    def negative(self, a: Term) -> Term:
        """Return `-a`."""
        return self.map_entries(lambda x: Mul(Const(-1), x), a)

    def scaled(self, x: Term, a: Term) -> Term:
        """Return the array a times the number x."""
        return self.map_entries(lambda y: Mul(x, y), a)

    def inverse_or_zero(self, x: Term) -> Term:
        """Return `1 / x` of a number; 0 if x is 0."""
        zero = Call(find_function("equal"), (x, Const(0)))
        return Add(Call(find_function("recip"), (Add(x, zero),)), Mul(Const(-1), zero))

    def symmetric(self, a: Term) -> Term:
        """Return `(a + a.T) / 2`."""
        return self.map_entries(lambda x, y: Mul(Const(0.5), Add(x, y)), a, self.transposed(a))

    def masked(self, a: Term, p: Where) -> Term:
        """Keep the entries of a matrix at indices where a condition holds; the others become zero."""
        return self.build(dimensions(a.type), lambda i, j: guard(p(i, j), entry(a, i, j)))

    def lower(self, a: Term) -> Term:
        """Return `tril(a)`."""
        return self.masked(a, lambda i, j: compare("≤", j, i))

    def strictly_lower(self, a: Term) -> Term:
        """Return `tril(a, -1)`."""
        return self.masked(a, lambda i, j: compare("<", j, i))

    def upper(self, a: Term) -> Term:
        """Return `triu(a)`."""
        return self.masked(a, lambda i, j: compare("≤", i, j))

    def lower_half(self, a: Term) -> Term:
        """Return `tril(a)` with half of the diagonal."""
        return self.map_entries(
            lambda x, y: Mul(Const(0.5), Add(x, y)), self.lower(a), self.strictly_lower(a)
        )

    def identity(self, n: Affine) -> Term:
        """Return `eye(n)`."""
        return self.build((n, n), lambda i, j: guard(compare("=", i, j), Const(1)))

    def blocks(self, dims: Sequence[Affine], *blocks: Block) -> Term:
        """Build a matrix of blocks, with zeros between them."""

        def at(i: Affine, j: Affine) -> Term:
            found: Term | None = None
            for a, row, column in blocks:
                m, n = dimensions(a.type)
                inside = conj(
                    compare("≤", row, i),
                    compare("<", i, row + m),
                    compare("≤", column, j),
                    compare("<", j, column + n),
                )
                here = guard(inside, entry(a, i - row, j - column))
                found = here if found is None else Add(found, here)
            assert found is not None
            return found

        return self.build(dims, at)

    def submatrix(self, a: Term, row: Affine | int, column: Affine | int, *dims: Affine) -> Term:
        """Return the submatrix that begins at a row and column, with the given dimensions."""
        return self.build(dims, lambda i, j: entry(a, i + row, j + column))


@dataclass(frozen=True)
class _Batch:
    """One batch entry of an array-level function and of the other arrays that its derivative reads; `bindings` name them all."""

    binders: Binders
    bindings: list[tuple[str, Term]]
    known: Mapping[Term, Term]
    taken: set[str]

    @staticmethod
    def of(e: Apply, *others: Term | None) -> _Batch:
        """Return the batch of an application; name its arguments and other arrays as variables."""
        binders = number_binders(
            "ϐ", e.definition.batch_dimensions([dimensions(x.type) for x in e.arguments])
        )
        read = (*e.arguments, *(x for x in others if x is not None))
        outside = Matrices(frozenset[str]().union(*(x.variables for x in read)))
        known = {x: outside.name_term(x) for x in read}
        return _Batch(binders, outside.bindings, known, outside.taken)

    def batch_entry(self, x: Term, rank: int) -> Term:
        """Return one batch entry, of `rank` dimensions, of an array."""
        whole = len(dimensions(x.type)) == rank
        return self.known[x] if whole else entry(self.known[x], *pointwise(self.binders))

    def map_batch(self, transform: Callable[[Matrices], Term | None]) -> Term | None:
        """Apply `transform` to each batch entry, with the names in `bindings` replaced."""
        m = Matrices(self.taken)
        made = transform(m)
        return None if made is None else gens(self.binders, lets(m.bindings, made))


def tangent_of_application(e: Apply, moved: Sequence[Term | None], result: Term) -> Term | None:
    """Return the differential of an array-level function from those of its operands (None for zero); `result` is its value."""
    rule = e.definition.tangent
    if rule is None or not any(d is not None for d in moved):
        return None
    batch, own = _Batch.of(e, *moved, result), e.definition
    arguments = list(map(batch.batch_entry, e.arguments, own.ranks))
    changes = [d and batch.batch_entry(d, rank) for d, rank in zip(moved, own.ranks, strict=True)]
    value = batch.batch_entry(result, len(dimensions(result.type)) - len(batch.binders))
    made = batch.map_batch(lambda m: rule(m, arguments, changes, value))
    return made and lets(batch.bindings, made)


def cotangent_of_operand(e: Apply, k: int, result: Term, due: Term) -> Term | None:
    """Return the cotangent of the operand with number k, given that of the value; None where it is zero."""
    rule = e.definition.cotangent
    if rule is None:
        return None
    batch, own = _Batch.of(e, result, due), e.definition
    arguments = list(map(batch.batch_entry, e.arguments, own.ranks))
    rank = len(dimensions(result.type)) - len(batch.binders)
    value, change = batch.batch_entry(result, rank), batch.batch_entry(due, rank)
    made = batch.map_batch(lambda m: rule(m, k, arguments, value, change))
    if made is None:
        return None
    if batch.binders and len(dimensions(e.arguments[k].type)) == own.ranks[k]:
        whole = Var(fresh("w", batch.taken), made.type)
        inner = number_binders("ϕ", dimensions(e.arguments[k].type))
        read = entry(whole, *pointwise(batch.binders), *pointwise(inner))
        made = lets([(whole.name, made)], gens(inner, sums(batch.binders, read)))
    return lets(batch.bindings, made)


def inline_body(e: Apply) -> Term:
    """Replace the call of an array-level function by its body, if it has one."""
    rule = e.definition.body
    if rule is None:
        return e
    batch = _Batch.of(e)
    arguments = list(map(batch.batch_entry, e.arguments, e.definition.ranks))
    made = batch.map_batch(lambda m: rule(m, *arguments))
    assert made is not None
    return lets(batch.bindings, made)


def expand_bodies(program: Program) -> Program:
    """Inline the bodies of a program's array-level functions."""
    if not any(
        isinstance(s.rhs, Application) and s.rhs.definition.body for s in program.statements
    ):
        return program
    builder, names = Builder(), dict[str, str]()
    for s in program.statements:
        builder.origin = s.origin
        rhs = rename(s.rhs, names)
        if isinstance(rhs, Application) and rhs.definition.body:
            variables = {x: Var(x, type_of(builder.defined[x])) for x in rhs.operands}
            e = inline_body(Apply(rhs.definition, tuple([variables[x] for x in rhs.operands])))
            found = convert_block(normalize(e), {x: x for x in variables}, builder)
            assert isinstance(found, str)
            names[s.name] = found
        else:
            names[s.name] = builder.add_statement(rhs)
    return builder.build_program(rename_output(program.output, names))
