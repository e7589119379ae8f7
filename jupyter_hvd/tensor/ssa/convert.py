"""From terms to Tensor SSA (Figs. 11 and 12), and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..language.affine import Affine
from ..language.predicates import TRUE, Predicate, conj
from ..language.provenance import origin_of
from ..language.terms import (
    Add,
    Apply,
    At,
    Binder,
    Binders,
    Call,
    Const,
    Gen,
    Guard,
    Iterate,
    Let,
    Mul,
    Number,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
    in_ranges,
    index_names,
    indices_equal,
    number_binders,
    strip_entries,
    strip_guards,
    strip_sums,
)
from ..language.types import dimensions
from .builder import Builder, merge_equal
from .program import (
    Addition,
    Application,
    Constant,
    Contraction,
    Factor,
    Input,
    Map,
    Output,
    Part,
    Program,
    Recurrence,
    pointwise,
    type_of,
)
from .program import to_term as to_term


def to_ssa(e: Term) -> Program:
    """Convert a block of lets over flat terms (what `normalize` returns) to Tensor SSA
    (5.25–5.34).

    Three of the printed rules do not hold as they stand and are mended here;
    `docs/tensor-language.md` has the counter-examples: a constant keeps its guard (5.29), nested
    sums and their guard become one contraction whose mask includes that guard (5.34), and guards
    on factors join the mask (5.32).
    """
    builder = Builder()
    return builder.build_program(convert_block(e, {}, builder))


def convert_block(e: Term, env: Mapping[str, str], builder: Builder) -> Output:
    """Convert a block as `to_ssa` does, in a builder that has variables for some names; return the variables of its result."""
    env = {**env}
    while isinstance(e, Let):  # (5.25)
        if isinstance(e.value, Iterate):
            env[e.name] = _convert_loop(e.value, env, builder)
        elif isinstance(e.value, Apply):
            env[e.name] = _convert_application(e.value, env, builder)
        else:
            env[e.name] = _convert_term(e.value, (), TRUE, env, builder)
        e = e.body
    return _convert_output(e, env, builder)


def _convert_application(e: Apply, env: Mapping[str, str], builder: Builder) -> str:
    """Add the call of an array-level function; return its variable."""
    around, builder.origin = builder.origin, origin_of(e) or builder.origin
    operands = tuple([_convert_term(x, (), TRUE, env, builder) for x in e.arguments])
    dims = number_binders("g", dimensions(e.type))
    made = builder.add_statement(Application(dims, e.definition, operands), "definition")
    builder.origin = around
    return made


def _convert_loop(e: Iterate, env: Mapping[str, str], builder: Builder) -> str:
    """Add a loop, whose body takes outer variables as parameters; return its variable."""
    starts = tuple([_convert_term(start, (), TRUE, env, builder) for start in e.starts])
    carried = {x: f"s{j}" for j, x in enumerate(e.names_bound)}
    wholes: dict[str, str] = {}
    statements = []
    body = to_ssa(e.body)
    for s in body.statements:
        if isinstance(s.rhs, Input):
            parameter = carried.get(s.rhs.parameter)
            if parameter is None:
                outside = _outside_input(s.rhs, env, builder)
                parameter = wholes.setdefault(outside, f"c{len(wholes)}")
            s = replace(s, rhs=Input(parameter, type_of(s.rhs), (), s.rhs.gens))
        statements.append(s)
    turn = merge_equal(Program(tuple(statements), body.output), "B")
    around, builder.origin = builder.origin, origin_of(e) or builder.origin
    made = builder.add_statement(
        Recurrence(e.index, e.size, starts, (), tuple(wholes), turn), "loop"
    )
    builder.origin = around
    return made


def _outside_input(read: Input, env: Mapping[str, str], builder: Builder) -> str:
    """Return the outer variable that a loop's body reads as an input."""
    if read.parameter not in env:
        return builder.add_statement(read, "5.30")
    return _add_history_part(env[read.parameter], sum(read.path), builder)


def _add_history_part(name: str, place: int, builder: Builder) -> str:
    """Return a variable, or where it is a loop the history of one of its carried values."""
    loop = builder.defined[name]
    if not isinstance(loop, Recurrence):
        return name
    binders = number_binders("g", (loop.size + 1, *in_ranges(loop.carried[place])))
    return builder.add_statement(Part(name, place, len(loop.starts), binders), "loop")


def _convert_output(e: Term, env: Mapping[str, str], builder: Builder) -> Output:
    """Add statements for a result; return the tree of its variables."""
    if isinstance(e, Pair):
        return _convert_output(e.first, env, builder), _convert_output(e.second, env, builder)
    return _convert_term(e, (), TRUE, env, builder)


def _convert_term(
    e: Term, outer: Binders, p: Predicate, env: Mapping[str, str], builder: Builder
) -> str:
    """Add statements for `⊞outer. [p]·e`; return the variable."""
    around = builder.origin
    builder.origin = origin_of(e) or around
    name = _convert_scalar_term(e, outer, p, env, builder)
    builder.origin = around
    return name


def _convert_scalar_term(
    e: Term, outer: Binders, p: Predicate, env: Mapping[str, str], builder: Builder
) -> str:
    """Add statements for `⊞outer. [p]·e` with a scalar `e` (5.25–5.34); return the variable."""
    if dims := dimensions(e.type):
        if isinstance(e, Gen):  # (5.27)
            return _convert_term(e.body, (*outer, Binder(e.index, e.size)), p, env, builder)
        if isinstance(e, Guard):
            return _convert_term(e.body, outer, conj(p, e.condition), env, builder)
        fresh = f"η{len(outer)}"
        return _convert_term(
            At(e, Affine.of(fresh)), (*outer, Binder(fresh, dims[0])), p, env, builder
        )
    match e:
        case Guard(condition, body):  # (5.28)
            return _convert_term(body, outer, conj(p, condition), env, builder)
        case Const(value):  # (5.29)
            if p == TRUE:
                return builder.add_statement(Constant(outer, value), "5.29")
            if e.names & {
                i for i, _ in outer
            }:  # An index as a number: an array that is read where p holds.
                ramp = builder.add_statement(Constant(outer, value), "5.29")
                return builder.add_statement(
                    Contraction(outer, (), p, (Factor(ramp, pointwise(outer)),))
                )
            return builder.add_statement(
                Contraction(outer, (), p, (Factor(_convert_constant(value, builder), ()),))
            )
        case Add(left, right):  # (5.31)
            (p0, left), (p1, right) = strip_guards(left), strip_guards(right)
            p0, p1 = conj(p, p0), conj(p, p1)
            x0 = _convert_term(left, outer, p0, env, builder)
            x1 = _convert_term(right, outer, p1, env, builder)
            return builder.add_statement(Addition(outer, p0, x0, p1, x1), "5.31")
        case Mul(left, right):  # (5.32)
            (p0, left), (p1, right) = strip_guards(left), strip_guards(right)
            p = conj(p, p0, p1)
            factors = [_convert_term(factor, outer, p, env, builder) for factor in (left, right)]
            return builder.add_statement(_make_product(outer, p, factors), "5.32")
        case Call(function, arguments):  # (5.33)
            names = tuple(_convert_term(argument, outer, p, env, builder) for argument in arguments)
            return builder.add_statement(Map(outer, p, function, names), "5.33")
        case Sum():  # (5.34)
            binders, q, body = strip_sums(e)
            p = conj(p, q)
            x = _convert_term(body, (*outer, *binders), p, env, builder)
            return builder.add_statement(_make_sum(outer, binders, p, x), "5.34")
    return _read_entry(e, outer, p, env, builder)  # (5.26), (5.30)


def _convert_constant(value: Number | Affine, builder: Builder) -> str:
    """Add a scalar constant; return its variable."""
    return builder.add_statement(Constant((), value), "5.29")


def _copy_binders(binders: Binders, mark: str) -> tuple[Binders, Predicate]:
    """Make fresh indices over the same ranges, and the condition that they equal the old ones."""
    fresh = number_binders(mark, in_ranges(binders))
    return fresh, indices_equal(binders, index_names(fresh))


def _make_product(outer: Binders, p: Predicate, names: list[str]) -> Contraction:
    """Make the contraction `⊞g Σ i0,i1. [p ∧ g=i0 ∧ g=i1]·X0[i0]·X1[i1]`."""
    i0, same0 = _copy_binders(outer, "ι")
    i1, same1 = _copy_binders(outer, "κ")
    factors = (Factor(names[0], pointwise(i0)), Factor(names[1], pointwise(i1)))
    return Contraction(outer, (*i0, *i1), conj(p, same0, same1), factors)


def _make_sum(outer: Binders, inner: Binders, p: Predicate, name: str) -> Contraction:
    """Make the contraction `⊞g Σ i,j. [p ∧ g=i]·X[i,j]`."""
    i, same = _copy_binders(outer, "ι")
    factor = Factor(name, (*pointwise(i), *pointwise(inner)))
    return Contraction(outer, (*i, *inner), conj(p, same), (factor,))


def _read_entry(
    e: Term, outer: Binders, p: Predicate, env: Mapping[str, str], builder: Builder
) -> str:
    """Add a read, `⊞g. [p]·X[a…] ⇝ ⊞g Σi. [p ∧ i=a…]·X[i…]` (5.30); return its variable, X itself for `X[g]`."""
    e, accesses = strip_entries(e)
    name = _full_variable(e, env, builder)
    sizes = in_ranges(builder.defined[name].gens)
    if p == TRUE and accesses == pointwise(outer) and sizes == in_ranges(outer):
        return name
    i = number_binders("ι", sizes)
    factor = Factor(name, pointwise(i))
    return builder.add_statement(
        Contraction(outer, i, conj(p, indices_equal(i, accesses)), (factor,)), "5.30"
    )


def _full_variable(e: Term, env: Mapping[str, str], builder: Builder) -> str:
    """Return the variable for `π…π x`, a name or an input."""
    type_ = e.type
    path: list[int] = []
    while isinstance(e, Proj):
        path.insert(0, e.side)
        e = e.body
    assert isinstance(e, Var), e
    if e.name in env:
        return _add_history_part(env[e.name], sum(path), builder)
    dims = number_binders("g", dimensions(type_))
    return builder.add_statement(Input(e.name, e.declared, tuple(path), dims), "5.30")
