"""The total (forward) derivative `D⟦e|σ⟧` (Fig. 13, 6.1–6.16), and that of loops, source to source."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..language.pairs import to_pairs
from ..language.predicates import exists_all, fresh
from ..language.provenance import NOWHERE, Origin, note_origin, origin_of
from ..language.terms import (
    Add,
    Apply,
    At,
    Call,
    Const,
    Gen,
    Guard,
    Iterate,
    Let,
    Mul,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
    components,
    guard,
    lets,
    strip_sums,
    sums,
    uniquify,
)
from ..language.types import Array, Product, Type
from .matrices import inline_body, tangent_of_application


def differential(e: Term, sigma: Mapping[str, Term], *, fused: bool = True) -> Term | None:
    """Compute `D⟦e|σ⟧` (6.1–6.16), where σ maps each differentiated variable to its differential; None where it is zero.

    On Tensor SSA it costs at most 4 times as much as `e` (Theorem 6.1). `fused` counts `Df` of several arguments as one
    primitive, as (6.6) does; without it, `Df` is expanded into partial derivatives.
    """
    taken = frozenset().union(*(d.names | d.variables for d in sigma.values()))
    return _D(uniquify(e, taken), dict(sigma), fused)


def derivative(e: Term, sigma: Mapping[str, Term], *, fused: bool = True) -> Term:
    """Compute `D⟦e|σ⟧` as a term, the zero of the type of `e` where nothing in it depends on σ."""
    return differential(e, sigma, fused=fused) or zero_of(e.type)


def zero_of(type_: Type) -> Term:
    """Return the zero of a type, as a term."""
    match type_:
        case Array(size, element):
            return Gen("i", size, zero_of(element))
        case Product(first, second):
            return Pair(zero_of(first), zero_of(second))
    return Const(0)


def _D(e: Term, sigma: dict[str, Term], fused: bool) -> Term | None:  # noqa: N802
    """Return `D⟦e|σ⟧`; None if it is zero.

    Args:
        sigma: the differential of each variable.
        fused: use one primitive for the total derivative of a call.
    """
    if not any(x in sigma for x in e.variables):
        return None

    def D(child: Term) -> Term | None:  # noqa: N802
        return _D(child, sigma, fused)

    match e:
        case Var(name):  # (6.1), (6.2)
            return sigma.get(name)
        case Add(left, right):  # (6.4)
            return add_differentials(D(left), D(right))
        case Mul(left, right):  # (6.5)
            return add_differentials(multiply_terms(D(left), right), multiply_terms(left, D(right)))
        case Call():  # (6.6)
            return _differentiate_call(e, [D(argument) for argument in e.arguments], fused)
        case Pair(first, second):  # (6.7)
            return Pair(D(first) or zero_of(first.type), D(second) or zero_of(second.type))
        case Proj(side, body):  # (6.8)
            return (d := D(body)) and Proj(side, d)
        case Gen(index, size, body):  # (6.9)
            return (d := D(body)) and Gen(index, size, d)
        case Sum():  # (6.10)
            return _differentiate_sum(e, sigma, fused)
        case At(body, index):  # (6.11)
            return (d := D(body)) and At(d, index)
        case Guard(condition, body):  # (6.12)
            return (d := D(body)) and Guard(condition, d)
        case Let():  # (6.16)
            return _differentiate_let(e, sigma, lambda body, sigma: _D(body, sigma, fused), fused)
        case Iterate() | Apply():
            name = fresh("history", e.variables)
            return _D(Let(name, e, Var(name, e.type)), sigma, fused)
    raise TypeError(e)


Rest = Callable[[Term, dict[str, Term]], Term | None]


def _differentiate_let(e: Let, sigma: dict[str, Term], rest: Rest, fused: bool) -> Term | None:
    """Differentiate `D⟦let x=e0 in e⟧ ⇝ let x=e0 in let dx=D⟦e0⟧ in D⟦e⟧` (6.16), where `rest` differentiates e.

    A loop carries the differentials along with its values.
    """
    name, value, body = e.name, e.value, e.body
    if isinstance(value, Apply):
        value = uniquify(inline_body(value), _variables_of(sigma) | body.variables)
    if not any(x in sigma for x in value.variables):
        dx, bindings = None, [(name, value)]
    elif isinstance(value, Iterate):
        pairs = _carry_differentials(value, sigma, fused)
        both = fresh(f"d{name}", _variables_of(sigma) | body.variables | value.variables | {name})
        parts = components(Var(both, pairs.type), 2 * len(value.starts))
        x, dx = (
            to_pairs(half, Pair)
            for half in (parts[: len(value.starts)], parts[len(value.starts) :])
        )
        bindings = [(both, pairs), (name, x)]
    elif isinstance(value, Apply):
        moved = [_D(x, sigma, fused) for x in value.arguments]
        dx, bindings = tangent_of_application(value, moved, Var(name, value.type)), [(name, value)]
    else:
        dx, bindings = _D(value, sigma, fused), [(name, value)]
    if dx is None:
        d = rest(body, {x: t for x, t in sigma.items() if x != name})
        return d and lets(bindings, d)
    origin = origin_of(value) or NOWHERE
    note_origin(dx, Origin(_differentiation_rule(value), name, name, origin.place))
    taken = _variables_of(sigma) | body.variables | value.variables | {x for x, _ in bindings}
    dname = fresh(f"d{name}", taken)
    d = rest(body, {**sigma, name: Var(dname, dx.type)})
    return d and lets([*bindings, (dname, dx)], d)


def _variables_of(sigma: Mapping[str, Term]) -> frozenset[str]:
    """Return the variables that the differentials use."""
    return frozenset().union(*(t.variables for t in sigma.values()))


def _carry_differentials(e: Iterate, sigma: dict[str, Term], fused: bool) -> Iterate:
    """Make the loop that carries, beside each value, its differential.

    `iterate k:n. x := e0 in e` becomes `iterate k:n. x := e0, dx := D⟦e0⟧ in (e, D⟦e⟧)`. The body shares the parts of e that
    D⟦e⟧ needs.
    """
    taken = {*_variables_of(sigma), *e.variables, *e.body.variables, *e.names_bound}
    moved = []
    for name in e.names_bound:
        moved.append(fresh(f"d{name}", taken))
        taken.add(moved[-1])
    starts = [_D(start, sigma, fused) or zero_of(start.type) for start in e.starts]
    count = len(starts)
    inner = {x: t for x, t in sigma.items() if x not in e.names_bound}
    inner |= {x.name: Var(dx, x.type) for x, dx in zip(e.carried, moved, strict=True)}

    def differentiate_both(body: Term, sigma: dict[str, Term]) -> Term:
        if isinstance(body, Let):
            made = _differentiate_let(body, sigma, differentiate_both, fused)
            assert made is not None
            return made
        d = _D(body, sigma, fused) or zero_of(body.type)
        return to_pairs([*components(body, count), *components(d, count)], Pair)

    names = (*e.names_bound, *moved)
    return Iterate(e.index, e.size, names, (*e.starts, *starts), differentiate_both(e.body, inner))


def _differentiation_rule(e: Term) -> str:
    """Return the paper's rule that differentiates the outermost operation of a statement."""
    match e:
        case Gen(_, _, body) | Guard(_, body):
            return _differentiation_rule(body)
        case Add():
            return "6.4"
        case Mul():
            return "6.5"
        case Call():
            return "6.6"
        case Sum():
            return "6.10"
        case Iterate():
            return "loop"
        case Apply():
            return "definition"
    return "6.11"


def _differentiate_sum(e: Sum, sigma: dict[str, Term], fused: bool) -> Term | None:
    """Return `D⟦Σ[p]e⟧ ⇝ Σ[p]D⟦e⟧` (6.10), with the two halves of a product as two sums.

    These are `[∃p]Σ[p]de0·e1 + [∃p]Σ[p]e0·de1`. Both forms cost the same, `4·#p - #∃p` on SSA, and each half is a
    contraction again. None if it is zero.
    """
    binders, p, body = strip_sums(e)
    halves = (
        [
            multiply_terms(_D(body.left, sigma, fused), body.right),
            multiply_terms(body.left, _D(body.right, sigma, fused)),
        ]
        if isinstance(body, Mul)
        else [_D(body, sigma, fused)]
    )
    live = [sums(binders, guard(p, half)) for half in halves if half is not None]
    if len(live) < 2:
        return live[0] if live else None
    some = exists_all(binders, p)
    return Add(guard(some, live[0]), guard(some, live[1]))


def _differentiate_call(e: Call, differentials: list[Term | None], fused: bool) -> Term | None:
    """Return `D⟦f(e,…)⟧ = Df(e,…; D⟦e⟧,…)` (6.6); None if it is zero."""
    partials = e.function.partials(e.arguments)
    active = tuple(
        k for k, d in enumerate(differentials) if d is not None and partials[k] is not None
    )
    if fused and len(active) > 1:
        moved = tuple(d for k in active if (d := differentials[k]) is not None)
        return Call(e.function.total_derivative(active), (*e.arguments, *moved))
    result: Term | None = None
    for k in active:
        result = add_differentials(result, multiply_terms(partials[k], differentials[k]))
    return result


def add_differentials(left: Term | None, right: Term | None) -> Term | None:
    """Add two differentials, either of which may be zero (None)."""
    if left is None or right is None:
        return left or right
    return Add(left, right)


def multiply_terms(left: Term | None, right: Term | None) -> Term | None:
    """Multiply two terms; None is zero, and a factor of 1 is dropped."""
    if left is None or right is None:
        return None
    if left is Const(1):
        return right
    return left if right is Const(1) else Mul(left, right)
