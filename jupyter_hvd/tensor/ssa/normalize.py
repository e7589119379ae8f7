"""The first three normal-form passes: let-lifting, pair elimination and gen push-out (Figs. 7–9).

Each keeps the meaning of a term and does not raise its cost. `normalize` applies them in order.
"""

from __future__ import annotations

from collections.abc import Callable

from ..language.affine import Affine
from ..language.predicates import conj, fresh
from ..language.provenance import came_from
from ..language.terms import (
    At,
    Gen,
    Guard,
    Let,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
    lets,
    rebuild,
    substitute,
    uniquify,
)
from ..language.types import Product, Type

Bindings = list[tuple[str, Term]]


def lift_lets(e: Term) -> Term:
    """Move every `let` to the outermost level (5.1–5.10).

    (5.10) is printed with its two bindings in the wrong order; here the inner one comes first.
    """
    bindings, body = _lift(uniquify(e))
    return lets(bindings, body)


def _lift(e: Term) -> tuple[Bindings, Term]:
    match e:
        case Gen(index, size, body) | Sum(index, size, body):  # (5.6), (5.7)
            bindings, body = _lift(body)
            at_index: dict[str, Term] = {}
            lifted: Bindings = []
            for name, value in bindings:
                array = came_from(Gen(index, size, substitute(value, at_index)), value)
                lifted.append((name, array))
                at_index[name] = At(Var(name, array.type), Affine.of(index))
            return lifted, came_from(type(e)(index, size, substitute(body, at_index)), e)
        case Guard(condition, body):  # (5.9)
            bindings, body = _lift(body)
            guarded: Bindings = [
                (x, came_from(Guard(condition, value), value)) for x, value in bindings
            ]
            return guarded, came_from(Guard(condition, body), e)
        case Let(name, value, body):  # (5.10)
            before, value = _lift(value)
            after, body = _lift(body)
            return [*before, (name, value), *after], body
    bindings = []  # (5.1)–(5.5), (5.8)

    def lift(child: Term) -> Term:
        inner, child = _lift(child)
        bindings.extend(inner)
        return child

    body = rebuild(e, lift)
    return bindings, body


Tree = Term | tuple["Tree", "Tree"]


def eliminate_pairs(e: Term) -> Term:
    """Turn arrays of pairs into pairs of arrays and take pairs apart (5.11–5.20).

    Takes let-lifted terms whose inputs are in struct-of-arrays form. Pairs remain only as
    projections of inputs and in the output, which comes out in struct-of-arrays form too.
    """
    env: dict[str, Tree] = {}
    bindings: Bindings = []
    while isinstance(e, Let):
        env[e.name] = _name_leaves(e.name, _split(e.value, env), bindings)
        e = e.body
    return lets(bindings, _pairs(_split(e, env)))


def _name_leaves(name: str, tree: Tree, bindings: Bindings) -> Tree:
    """`let x = (e0, e1) in … ⇝ let x0 = e0 in let x1 = e1 in …` (5.18–5.20)."""
    if isinstance(tree, tuple):
        first = _name_leaves(f"{name}_0", tree[0], bindings)
        return first, _name_leaves(f"{name}_1", tree[1], bindings)
    taken = frozenset(x for x, _ in bindings)
    name = fresh(name, taken)
    bindings.append((name, tree))
    return Var(name, tree.type)


def _split(e: Term, env: dict[str, Tree]) -> Tree:
    """The tree of pair-free terms that `e` is, with pairs moved outwards (5.11–5.17)."""
    match e:
        case Var(name):
            return env[name] if name in env else _projections(e, e.type)
        case Pair(first, second):
            return _split(first, env), _split(second, env)
        case Proj(side, body):  # (5.11)
            tree = _split(body, env)
            assert isinstance(tree, tuple)
            return tree[side]
        case Gen(index, size, body):  # (5.12), (5.13)
            return _leafwise(lambda leaf: came_from(Gen(index, size, leaf), e), _split(body, env))
        case At(body, a):  # (5.14), (5.15)
            return _leafwise(lambda leaf: came_from(At(leaf, a), e), _split(body, env))
        case Guard(condition, body):  # (5.16), (5.17)
            return _leafwise(lambda leaf: came_from(Guard(condition, leaf), e), _split(body, env))
    return rebuild(e, lambda child: _leaf(_split(child, env)))


def _projections(e: Term, type_: Type) -> Tree:
    if isinstance(type_, Product):
        return _projections(Proj(0, e), type_.first), _projections(Proj(1, e), type_.second)
    return e


def _leafwise(f: Callable[[Term], Term], tree: Tree) -> Tree:
    return (_leafwise(f, tree[0]), _leafwise(f, tree[1])) if isinstance(tree, tuple) else f(tree)


def _leaf(tree: Tree) -> Term:
    assert not isinstance(tree, tuple)
    return tree


def _pairs(tree: Tree) -> Term:
    return Pair(_pairs(tree[0]), _pairs(tree[1])) if isinstance(tree, tuple) else tree


def push_out_gens(e: Term) -> Term:
    """Cancel generators against entries and move guards inside them (5.21–5.24)."""
    e = rebuild(e, push_out_gens)
    return came_from(_pushed_out(e), e)


def _pushed_out(e: Term) -> Term:
    match e:
        case At(Gen(index, _, body), a):  # (5.21)
            return push_out_gens(substitute(body, indices={index: a}))
        case At(Guard(condition, body), a):  # (5.22)
            return push_out_gens(Guard(condition, At(body, a)))
        case Guard(condition, Gen(index, size, body)):  # (5.23)
            if index in condition.names:
                renamed = uniquify(e.body, condition.names)
                assert isinstance(renamed, Gen)
                index, size, body = renamed.index, renamed.size, renamed.body
            return Gen(index, size, push_out_gens(Guard(condition, body)))
        case Guard(condition, Guard(inner, body)):  # (5.24)
            return push_out_gens(Guard(conj(condition, inner), body))
    return e


def normalize(e: Term) -> Term:
    """The three passes in order: a block of lets over pair-free, flat terms."""
    return push_out_gens(eliminate_pairs(lift_lets(e)))
