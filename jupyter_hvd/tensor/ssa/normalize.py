"""The first normal-form passes: let-lifting, pair elimination and gen push-out (Figs. 7–9), and before them sums of one term.

Each keeps the meaning of a term and does not raise its cost. `normalize` applies them in order. The
body of a loop is a program of its own, which they bring to the same form.
"""

from __future__ import annotations

from collections.abc import Callable

from ..language.affine import Affine
from ..language.pairs import to_pairs
from ..language.predicates import Compare, Predicate, conj, conjuncts, fresh, in_range
from ..language.provenance import came_from
from ..language.terms import (
    Apply,
    At,
    Gen,
    Guard,
    Iterate,
    Let,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
    components,
    gens,
    guard,
    lets,
    number_binders,
    rebuild,
    substitute,
    uniquify,
)
from ..language.types import Array, Product, Type, dimensions

Bindings = list[tuple[str, Term]]


def lift_lets(e: Term) -> Term:
    """Move every `let` to the outermost level (5.1–5.10).

    (5.10) is printed with its two bindings in the wrong order; here the inner one comes first.
    """
    bindings, body = _split_lets(uniquify(_bind_loops_and_calls(e)))
    return lets(bindings, body)


def _bind_loops_and_calls(e: Term) -> Term:
    """Bind every loop and every call of an array-level function to a name with `let`."""
    match e:
        case Let(name, Iterate() | Apply() as value, body):
            return Let(name, rebuild(value, _bind_loops_and_calls), _bind_loops_and_calls(body))
        case Iterate():
            return Let("history", rebuild(e, _bind_loops_and_calls), Var("history", e.type))
        case Apply():
            return Let("applied", rebuild(e, _bind_loops_and_calls), Var("applied", e.type))
    return rebuild(e, _bind_loops_and_calls)


def _split_lets(e: Term) -> tuple[Bindings, Term]:
    """Return the lets that a term contains, and the term without them."""
    match e:
        case Gen(index, size, body) | Sum(index, size, body):  # (5.6), (5.7)
            bindings, body = _split_lets(body)
            at_index: dict[str, Term] = {}
            lifted: Bindings = []
            for name, value in bindings:
                if isinstance(value, Iterate):
                    value = _vectorize_loop(index, size, substitute(value, at_index))
                    lifted.append((name, value))
                    at_index[name] = _select_histories(Var(name, value.type), index)
                    continue
                value = substitute(value, at_index)
                if isinstance(value, Apply):
                    array = _batch_call(index, size, value)
                    lifted.append((name, array))
                    if array is not value:
                        at_index[name] = At(Var(name, array.type), Affine.of(index))
                    continue
                array = came_from(Gen(index, size, value), value)
                lifted.append((name, array))
                at_index[name] = At(Var(name, array.type), Affine.of(index))
            return lifted, came_from(type(e)(index, size, substitute(body, at_index)), e)
        case Guard(condition, body):  # (5.9)
            bindings, body = _split_lets(body)
            guarded: Bindings = [
                (x, came_from(_guard_term(condition, value), value)) for x, value in bindings
            ]
            return guarded, came_from(Guard(condition, body), e)
        case Let(name, value, body):  # (5.10)
            before, value = _split_lets(value)
            after, body = _split_lets(body)
            return [*before, (name, value), *after], body
        case Iterate(index, size, names, starts, body):  # What an iteration binds stays in it.
            bindings, began = [], []
            for start in starts:
                before, start = _split_lets(start)
                bindings += before
                began.append(start)
            turn = lets(*_split_lets(body))
            return bindings, came_from(Iterate(index, size, names, tuple(began), turn), e)
    bindings = []  # (5.1)–(5.5), (5.8)

    def lift_child(child: Term) -> Term:
        inner, child = _split_lets(child)
        bindings.extend(inner)
        return child

    body = rebuild(e, lift_child)
    return bindings, body


def _vectorize_loop(index: str, size: Affine, loop: Term) -> Iterate:
    """Turn one loop per value of an index into a single loop whose carried values are arrays over that index.

    `⊞ i:n. iterate k:m. x := e0 in e` becomes `iterate k:m. X := ⊞ i:n. e0 in ⊞ i:n. e[x ↦ X[i]]`. In the histories, the
    iteration is the first dimension.
    """
    assert isinstance(loop, Iterate)
    starts = tuple([Gen(index, size, start) for start in loop.starts])
    arrays = [Var(x, start.type) for x, start in zip(loop.names_bound, starts, strict=True)]
    at = {x.name: At(x, Affine.of(index)) for x in arrays}
    bindings, body = _split_lets(Gen(index, size, substitute(loop.body, at)))
    assert isinstance(body, Gen)
    each: list[Term] = [Gen(index, size, part) for part in components(body.body, len(starts))]
    turn = lets(bindings, to_pairs(each, Pair))
    return came_from(Iterate(loop.index, loop.size, loop.names_bound, starts, turn), loop)


def _batch_call(index: str, size: Affine, e: Apply) -> Term:
    """Apply an array-level function to all values of an index in one batched call.

    Arguments that do not depend on the index stay unbatched.
    """
    batch = e.definition.batch_dimensions([dimensions(x.type) for x in e.arguments])
    inner = number_binders("β", batch)

    def name_argument(x: Term, rank: int) -> Term:
        whole = len(dimensions(x.type)) == rank
        if whole and index not in x.names:
            return x
        return Gen(index, size, gens(inner, x) if whole else x)

    arguments = map(name_argument, e.arguments, e.definition.ranks)
    return came_from(Apply(e.definition, tuple(arguments)), e)


def _select_histories(histories: Term, index: str) -> Term:
    """Return the histories of one loop, at `index`, from those of a vectorized loop."""

    def select_history(history: Term) -> Term:
        if isinstance(history.type, Product):
            return Pair(select_history(Proj(0, history)), select_history(Proj(1, history)))
        assert isinstance(history.type, Array)
        turn = fresh("k", {index})
        read = At(At(history, Affine.of(turn)), Affine.of(index))
        return Gen(turn, history.type.size, read)

    return select_history(histories)


def _guard_term(condition: Predicate, e: Term) -> Term:
    """Guard a term with a condition, where nothing else reads it.

    A loop is guarded in every iteration; for an array-level function, its arguments are guarded.
    """
    if isinstance(e, Apply):
        return rebuild(e, lambda child: Guard(condition, child))
    if not isinstance(e, Iterate):
        return Guard(condition, e)
    starts = tuple([Guard(condition, start) for start in e.starts])
    bindings, body = _split_lets(Guard(condition, e.body))
    return Iterate(e.index, e.size, e.names_bound, starts, lets(bindings, body))


Tree = Term | tuple["Tree", "Tree"]


def eliminate_pairs(e: Term) -> Term:
    """Turn arrays of pairs into pairs of arrays and take pairs apart (5.11–5.20).

    Takes let-lifted terms whose inputs are in struct-of-arrays form. Pairs remain only as
    projections of inputs and in the output, which comes out in struct-of-arrays form too.
    """
    return _without_pairs(e, {}, [])


def _without_pairs(e: Term, env: dict[str, Tree], outside: Bindings) -> Term:
    """Return a term without pairs. `env` has the pair-free terms of each name so far; `outside` the lets around it."""
    bindings = [*outside]
    while isinstance(e, Let):
        if isinstance(e.value, Iterate):
            name = fresh(e.name, frozenset(x for x, _ in bindings))
            bindings.append((name, _loop_without_pairs(e.value, env, bindings)))
            env[e.name] = _projections_of(Var(name, e.value.type), e.value.type)
        else:
            env[e.name] = _name_leaves(e.name, _split_pairs(e.value, env), bindings)
        e = e.body
    return lets(bindings[len(outside) :], _tree_to_pairs(_split_pairs(e, env)))


def _loop_without_pairs(e: Iterate, env: dict[str, Tree], outside: Bindings) -> Term:
    """Eliminate pairs in a loop's body. The histories are read as inputs are."""
    starts = tuple([_single_leaf(_split_pairs(start, env)) for start in e.starts])
    body = _without_pairs(e.body, {**env}, outside)
    return came_from(Iterate(e.index, e.size, e.names_bound, starts, body), e)


def _name_leaves(name: str, tree: Tree, bindings: Bindings) -> Tree:
    """`let x = (e0, e1) in … ⇝ let x0 = e0 in let x1 = e1 in …` (5.18–5.20)."""
    if isinstance(tree, tuple):
        first = _name_leaves(f"{name}_0", tree[0], bindings)
        return first, _name_leaves(f"{name}_1", tree[1], bindings)
    taken = frozenset(x for x, _ in bindings)
    name = fresh(name, taken)
    bindings.append((name, tree))
    return Var(name, tree.type)


def _split_pairs(e: Term, env: dict[str, Tree]) -> Tree:
    """Move pairs outwards (5.11–5.17), and return the tree of pair-free terms."""
    match e:
        case Var(name):
            return env[name] if name in env else _projections_of(e, e.type)
        case Pair(first, second):
            return _split_pairs(first, env), _split_pairs(second, env)
        case Proj(side, body):  # (5.11)
            tree = _split_pairs(body, env)
            assert isinstance(tree, tuple)
            return tree[side]
        case Gen(index, size, body):  # (5.12), (5.13)
            return _map_leaves(
                lambda leaf: came_from(Gen(index, size, leaf), e), _split_pairs(body, env)
            )
        case At(body, a):  # (5.14), (5.15)
            return _map_leaves(lambda leaf: came_from(At(leaf, a), e), _split_pairs(body, env))
        case Guard(condition, body):  # (5.16), (5.17)
            return _map_leaves(
                lambda leaf: came_from(Guard(condition, leaf), e), _split_pairs(body, env)
            )
    return rebuild(e, lambda child: _single_leaf(_split_pairs(child, env)))


def _projections_of(e: Term, type_: Type) -> Tree:
    """Return the pair-free projections of a term, as a tree."""
    if isinstance(type_, Product):
        return _projections_of(Proj(0, e), type_.first), _projections_of(Proj(1, e), type_.second)
    return e


def _map_leaves(f: Callable[[Term], Term], tree: Tree) -> Tree:
    """Apply `f` to the leaves of a tree."""
    return (
        (_map_leaves(f, tree[0]), _map_leaves(f, tree[1])) if isinstance(tree, tuple) else f(tree)
    )


def _single_leaf(tree: Tree) -> Term:
    """Return the term of a tree that is one leaf."""
    assert not isinstance(tree, tuple)
    return tree


def _tree_to_pairs(tree: Tree) -> Term:
    """Return a tree of terms as nested pairs."""
    return (
        Pair(_tree_to_pairs(tree[0]), _tree_to_pairs(tree[1])) if isinstance(tree, tuple) else tree
    )


def push_out_gens(e: Term) -> Term:
    """Cancel generators against entries and move guards inside them (5.21–5.24)."""
    e = rebuild(e, push_out_gens)
    return came_from(_push_out_gens(e), e)


def _push_out_gens(e: Term) -> Term:
    """Push generators out of a term whose parts are done already."""
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


def solve_sums(e: Term) -> Term:
    """Solve sums, `Σ i:n. [i=a ∧ p]·e ⇝ [0≤a<n ∧ p[i↦a]]·e[i↦a]`, before lets in them become arrays over i."""
    if isinstance(e, Sum) and (a := _solve_index(e.body, e.index)) is not None:
        body = substitute(e.body, indices={e.index: a})
        return came_from(solve_sums(_add_condition(in_range(a, e.size), body)), e)
    return rebuild(e, solve_sums)


def _add_condition(p: Predicate, e: Term) -> Term:
    """Return `[p]·e` with p in the guard of what e sums, because nested sums and one guard count their terms jointly (4.30)."""
    if isinstance(e, Sum):
        renamed = uniquify(e, p.names) if e.index in p.names else e
        assert isinstance(renamed, Sum)
        return rebuild(renamed, lambda body: _add_condition(p, body))
    return guard(conj(p, e.condition), e.body) if isinstance(e, Guard) else guard(p, e)


def _solve_index(e: Term, index: str) -> Affine | None:
    """Return the value of an index wherever a term is nonzero, if an equality in a guard determines it."""
    match e:
        case Guard(condition, body):
            equalities = (
                p.difference for p in conjuncts(condition) if isinstance(p, Compare) and p.op == "="
            )
            solutions = (a for one in equalities if (a := one.solve(index)) is not None)
            return next(solutions, None) or _solve_index(body, index)
        case Let(_, _, body):
            return _solve_index(body, index)
        case Sum(inner, _, body) if inner != index:
            found = _solve_index(body, index)
            return None if found is None or inner in found.names else found
    return None


def normalize(e: Term) -> Term:
    """Run all passes; the result is a block of lets over pair-free, flat terms."""
    return push_out_gens(eliminate_pairs(lift_lets(solve_sums(e))))
