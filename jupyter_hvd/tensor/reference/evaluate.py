"""The meaning of a term (Figs. 4 and 5), read straight from the rules, over floats or exact
fractions.

Scalars are Python numbers, arrays are lists, pairs are 2-tuples. Every function takes an
`Environment`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ..language.affine import Affine
from ..language.definition import Definition
from ..language.predicates import And, Compare, Exists, Or, Predicate, Related, conjuncts, solve
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
    Pair,
    Proj,
    Sum,
    Term,
    Var,
    strip_sums,
)
from ..language.types import Array, Product, Type, dimensions

Holds = Callable[[tuple[int, ...]], bool]


@dataclass
class Environment:
    """σ: the values of variables, of index variables and sizes, and the relations."""

    values: dict[str, Any] = field(default_factory=dict)
    integers: dict[str, int] = field(default_factory=dict)
    relations: Mapping[str, Holds] = field(default_factory=dict)


def evaluate(e: Term, env: Environment) -> Any:
    """Compute `⟦e|σ⟧` (4.1–4.14), extended by loops. Raises IndexError where an unguarded entry is out of range."""
    match e:
        case Var(name):
            return env.values[name]
        case Const(value):
            return value.evaluate(env.integers) if isinstance(value, Affine) else value
        case Add(left, right):
            return evaluate(left, env) + evaluate(right, env)
        case Mul(left, right):
            return evaluate(left, env) * evaluate(right, env)
        case Call(function, arguments):
            return function.compute(*(evaluate(argument, env) for argument in arguments))
        case Pair(first, second):
            return (evaluate(first, env), evaluate(second, env))
        case Proj(side, body):
            return evaluate(body, env)[side]
        case Gen(index, size, body):
            return [evaluate(body, env) for _ in loop(index, size, env)]
        case Sum():
            binders, p, body = strip_sums(e)
            return sum((evaluate(body, env) for _ in points(binders, p, env)), 0)
        case At(body, index):
            array, k = evaluate(body, env), index.evaluate(env.integers)
            if not 0 <= k < len(array):
                raise IndexError(f"{body}[{index}] reads index {k} of {len(array)} entries")
            return array[k]
        case Guard(condition, body):
            return evaluate(body, env) if holds(condition, env) else zero(body.type, env)
        case Let(name, value, body):
            bound = evaluate(value, env)
            with_name = Environment({**env.values, name: bound}, env.integers, env.relations)
            return evaluate(body, with_name)
        case Iterate():
            return _run_loop(e, env)
        case Apply(definition, arguments):
            kind = object if definition.reduction else float  # fractions stay what they are
            arrays = [_array(evaluate(x, env), x.type, env, kind) for x in arguments]
            return _apply_definition(definition, arrays).tolist()
    raise TypeError(e)


def _array(value: Any, type_: Type, env: Environment, kind: type) -> Any:
    """Convert a value to a NumPy array of its type's shape, also if it has no entries."""
    shape = [max(0, n.evaluate(env.integers)) for n in dimensions(type_)]
    return np.asarray(value, dtype=kind).reshape(shape)


def _apply_definition(definition: Definition, arrays: list[Any]) -> Any:
    """Compute an array-level function, one batch entry after the other."""
    own = [x.ndim == rank for x, rank in zip(arrays, definition.ranks, strict=True)]
    with np.errstate(all="ignore"):
        if all(own):
            return np.asarray(definition.compute(*arrays))
        count = next(len(x) for x, one in zip(arrays, own, strict=True) if not one)
        if count == 0:
            sizes = [tuple(map(Affine.of, x.shape)) for x in arrays]
            return np.zeros([n.evaluate({}) for n in definition.result_dimensions(sizes)])
        parts = (
            [x if one else x[k] for x, one in zip(arrays, own, strict=True)] for k in range(count)
        )
        return np.stack([_apply_definition(definition, part) for part in parts])


def _run_loop(e: Iterate, env: Environment) -> Any:
    """Compute `⟦iterate k:n. x := e0, … in e|σ⟧`: for each x its values `⟦e0|σ⟧`, `⟦e|σ, k↦0, x↦…⟧`, …"""
    turn = [evaluate(start, env) for start in e.starts]
    histories = [[value] for value in turn]
    for _ in loop(e.index, e.size, env):
        carried = dict(zip(e.names_bound, turn, strict=True))
        rest = evaluate(e.body, Environment({**env.values, **carried}, env.integers, env.relations))
        for history in histories[:-1]:
            value, rest = rest
            history.append(value)
        histories[-1].append(rest)
        turn = [history[-1] for history in histories]
    found: Any = histories[-1]
    for history in reversed(histories[:-1]):
        found = (history, found)
    return found


def zero(type_: Type, env: Environment) -> Any:
    """Return the zero of a type."""
    match type_:
        case Array(size, element):
            return [zero(element, env) for _ in range(size.evaluate(env.integers))]
        case Product(first, second):
            return (zero(first, env), zero(second, env))
    return 0


def holds(p: Predicate, env: Environment) -> bool:
    """Return the truth value `⟦p|σ⟧` (4.15–4.21)."""
    match p:
        case Compare(op, left, right):
            difference = right.evaluate(env.integers) - left.evaluate(env.integers)
            return (
                difference > 0 if op == "<" else difference >= 0 if op == "≤" else difference == 0
            )
        case Related(relation, arguments, negated):
            point = tuple(a.evaluate(env.integers) for a in arguments)
            return bool(env.relations[relation](point)) is not negated
        case And(parts):
            return all(holds(part, env) for part in parts)
        case Or(parts):
            return any(holds(part, env) for part in parts)
        case Exists(index, size, body):
            return any(True for _ in points((Binder(index, size),), body, env))
    raise TypeError(p)


def loop(index: str, size: Affine, env: Environment) -> Iterator[int]:
    """Let an index run over `0 ≤ i < size`, and restore its earlier value afterwards."""
    integers = env.integers
    before = integers.get(index)
    try:
        for k in range(size.evaluate(integers)):
            integers[index] = k
            yield k
    finally:
        _restore(integers, index, before)


def points(binders: Binders, p: Predicate, env: Environment) -> Iterator[None]:
    """Let the binders run over the points where `p` holds, in no particular order.

    Equalities are solved rather than searched, and each conjunct is tested as soon as its indices are known. So a sum over a
    sparse predicate takes time in proportion to its support.
    """
    integers = env.integers
    before = [(index, integers.get(index)) for index, _ in binders]
    try:
        yield from _run_steps(_order_binders(binders, p), 0, env)
    finally:
        for index, value in before:
            _restore(integers, index, value)


def _restore(integers: dict[str, int], index: str, value: int | None) -> None:
    """Set an index back to its earlier value; remove it if it had none."""
    if value is None:
        integers.pop(index, None)
    else:
        integers[index] = value


Step = tuple[str, Affine, Affine | None, tuple[Predicate, ...]]


@lru_cache(maxsize=4096)
def _order_binders(binders: Binders, p: Predicate) -> tuple[Step, ...]:
    """Choose the order in which to bind indices: first those that an equality determines, otherwise the outermost."""
    unbound = dict(binders)
    waiting = list(conjuncts(p))
    steps: list[Step] = [("", Affine.of(0), None, _pop_ready(waiting, unbound))]
    while unbound:
        index, value = _find_determined(waiting, unbound) or (next(iter(unbound)), None)
        size = unbound.pop(index)
        steps.append((index, size, value, _pop_ready(waiting, unbound)))
    return tuple(steps)


def _pop_ready(waiting: list[Predicate], unbound: Mapping[str, Affine]) -> tuple[Predicate, ...]:
    """Remove from `waiting`, and return, the conjuncts whose indices are all bound."""
    ready = tuple(part for part in waiting if not any(i in unbound for i in part.names))
    waiting[:] = [part for part in waiting if part not in ready]
    return ready


def _find_determined(
    waiting: list[Predicate], unbound: Mapping[str, Affine]
) -> tuple[str, Affine] | None:
    """Return an unbound index that a waiting equality determines, and its value; None if there is none."""
    for part in waiting:
        missing = [i for i in part.names if i in unbound]
        if len(missing) == 1 and (value := solve(part, missing[0])) is not None:
            return missing[0], value
    return None


def _run_steps(steps: tuple[Step, ...], k: int, env: Environment) -> Iterator[None]:
    """Bind the indices of the steps from number `k` on, and yield at each point where all conjuncts hold."""
    if k == len(steps):
        yield
        return
    index, size, value, tests = steps[k]
    integers = env.integers
    if not index:
        if all(holds(test, env) for test in tests):
            yield from _run_steps(steps, k + 1, env)
        return
    bound = size.evaluate(integers)
    if value is None:
        candidates = range(bound)
    else:
        solved = value.evaluate(integers)
        candidates = range(solved, solved + 1) if 0 <= solved < bound else range(0)
    for candidate in candidates:
        integers[index] = candidate
        if all(holds(test, env) for test in tests):
            yield from _run_steps(steps, k + 1, env)
