"""Proves before anything runs that every read is in range, or finds a counter-example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..language.errors import TensorError
from ..language.predicates import TRUE, And, Or, Predicate, Related, compare, conj, disj
from ..language.printer import show
from ..language.terms import (
    At,
    Binder,
    Binders,
    Const,
    Gen,
    Guard,
    Iterate,
    Sum,
    Term,
    Var,
    index_names,
)
from ..language.types import Array, IndexArray, Parameter, Relation, TupleSet
from ..polyhedral import sets
from ..reference.evaluate import Environment, points
from .signature import environment, is_abstract
from .tracing.trace_result import Access, Lookup, Traced


def undecided(traced: Traced, sizes: Mapping[str, int]) -> tuple[Access, ...]:
    """Return the reads that are in range only for some data, at these sizes; every other read is in range.

    Raises TensorError at the first read that is never in range, with indices at which it is not.
    """
    pending = []
    for read in reads(traced):
        if _is_inside(read, sizes):
            continue
        bad = _out_of_range_condition(read)
        point = sets.sample_point(read.binders, bad, dict(sizes))
        if point is not None and not bad.relations:
            raise _out_of_range_error(read, point, sizes, traced.spelt)
        if point is not None:
            pending.append(read)
    return tuple(pending)


def check(
    traced: Traced, pending: Iterable[Access], env: Environment, data: Mapping[str, Any]
) -> None:
    """Raise TensorError if a relation does not guard a read after all, or an index array leads out of range.

    `data` has the index arrays, by name.
    """
    for read in pending:
        point = _first_point(read.binders, _out_of_range_condition(read), env)
        if point is not None:
            raise _out_of_range_error(read, point, env.integers, traced.spelt)
    for lookup in traced.lookups:
        if lookup.guarded:
            continue
        _check_lookup(lookup, env, data)


def check_call(
    checked: Traced,
    pending: Iterable[Access],
    parameters: Iterable[Parameter],
    arguments: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> None:
    """Raise TensorError where a read of a call is out of range.

    Under `jax.jit` and the like relations have no data yet, and what only they can show is not
    checked.
    """
    if (pending or checked.lookups) and (found := _known_data(parameters, arguments, sizes)):
        check(checked, pending, *found)


def counted_from_the_end(
    traced: Traced,
    parameters: Iterable[Parameter],
    arguments: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> frozenset[str]:
    """Return the index arrays of a call by which the program reads at negative indices although the arguments are not negative:
    `x[src[e] - 1]`, or arrays from outside.

    Under `jax.jit` and the like, all index arrays that may do so.
    """
    outside = {name for name, _ in traced.outside}
    lookups = [x for x in traced.lookups if not x.from_end]
    lookups = [x for x in lookups if x.offset.constant < 0 or x.relation in outside]
    found = _known_data(parameters, arguments, sizes) if lookups else None
    negative = lookups if found is None else [x for x in lookups if _is_negative(x, *found)]
    return frozenset(x.relation for x in negative)


def _known_data(
    parameters: Iterable[Parameter], arguments: Mapping[str, Any], sizes: Mapping[str, int]
) -> tuple[Environment, dict[str, Any]] | None:
    """Return the environment in which a call's predicates are evaluated, and its arrays of integers and booleans; None under
    `jax.jit` and the like.
    """
    relations = [p for p in parameters if isinstance(p.type, Relation | IndexArray | TupleSet)]
    data = {p.name: arguments[p.name] for p in relations}
    if any(map(is_abstract, data.values())):
        return None
    arrays = {x: np.asarray(v) for x, v in data.items() if not isinstance(v, set | frozenset)}
    return environment(relations, arguments, sizes), arrays


def _is_inside(read: Access, sizes: Mapping[str, int]) -> bool:
    """Whether sizes alone show that a read is in range."""
    if not (read.index.names | read.size.names) <= sizes.keys():
        return False
    return 0 <= read.index.evaluate(sizes) < read.size.evaluate(sizes)


def _out_of_range_condition(read: Access) -> Predicate:
    """Return the predicate under which a read happens and is out of range."""
    below, above = compare("<", read.index, 0), compare("≤", read.size, read.index)
    return conj(read.condition, disj(below, above))


def _first_point(binders: Binders, p: Predicate, env: Environment) -> dict[str, int] | None:
    """Return the indices of the first point of the binders at which a predicate holds; None if there is none."""
    for _ in points(binders, p, env):
        return {index: env.integers[index] for index, _ in binders}
    return None


def _out_of_range_error(
    read: Access, point: Mapping[str, int], sizes: Mapping[str, int], spelt: Mapping[str, str]
) -> TensorError:
    """Return the error for a read that is out of range at a point, with advice.

    Args:
        spelt: what the user writes for generated names.
    """
    integers = {**sizes, **point}
    index, size = read.index.evaluate(integers), read.size.evaluate(integers)
    where = ", ".join(
        f"{spelt.get(i, i)}={point[i]}" for i, _ in read.binders if i in read.index.names
    )
    at = f" at {where}" if where else ""
    axis = f" along axis {read.axis}" if read.axis else ""
    text = read.read if isinstance(read.read, str) else show(read.read, spelt)
    written, entries = read.index.rename_names(spelt), read.size.rename_names(spelt)
    wrapped = (
        f"count from the end by `({written}) % {entries}`" if index < 0 else "shorten the range"
    )
    return TensorError(
        f"{text} reads index {index}{at}; {read.owner} has {size} entries{axis}",
        f"guard it: `… if 0 <= {written} < {entries} else 0`, or {wrapped}",
        read.place,
    )


def _check_lookup(lookup: Lookup, env: Environment, data: Mapping[str, Any]) -> None:
    """Raise TensorError if an entry of an index array leads out of range."""
    found = _find_entry_out_of_range(lookup, env, data)
    if found is None:
        return
    where, moved, n = found
    spelt = ", ".join(map(str, where))
    entry = int(data[lookup.relation][where])
    raise TensorError(
        f"{lookup.relation}[{spelt}] is {entry}, which reads index {entry + moved} of {n} entries",
        "write `if k[i] < len(x): …` around what reads there, for entries that stand for nothing; or `x[k % len(x)]`",
        lookup.place,
    )


def _find_entry_out_of_range(
    lookup: Lookup, env: Environment, data: Mapping[str, Any]
) -> tuple[tuple[int, ...], int, int] | None:
    """Return the position of an entry that leads out of range, what is added to the entry, and the size of the axis; None if
    all are in range.
    """
    entries = data[lookup.relation]
    offset, size = lookup.offset, lookup.size
    if not offset.names & {*index_names(lookup.binders)} and entries.size:
        moved, n = offset.evaluate(env.integers), size.evaluate(env.integers)
        least = -n if lookup.from_end else 0
        if int(entries.min()) + moved >= least and int(entries.max()) + moved < n:
            return None
    for where, moved in _iterate_lookups(lookup, env):
        n = size.evaluate(env.integers)
        if not (-n if lookup.from_end else 0) <= int(entries[where]) + moved < n:
            return where, moved, n
    return None


def _is_negative(lookup: Lookup, env: Environment, data: Mapping[str, Any]) -> bool:
    """Whether the program reads at a negative index."""
    entries, offset = data[lookup.relation], lookup.offset
    fixed = not offset.names & {*index_names(lookup.binders)} and entries.size > 0
    if fixed and int(entries.min()) + offset.evaluate(env.integers) >= 0:
        return False
    return any(int(entries[where]) + moved < 0 for where, moved in _iterate_lookups(lookup, env))


def _iterate_lookups(lookup: Lookup, env: Environment) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the position of each entry that a program looks up, and what is added to it."""
    for _ in points(lookup.binders, lookup.condition, env):
        where = tuple(a.evaluate(env.integers) for a in lookup.arguments)
        yield where, lookup.offset.evaluate(env.integers)


def reads(traced: Traced) -> Iterator[Access]:
    """Yield every read of a traced function."""
    yield from traced.accesses
    types = dict(traced.function.parameter_type)
    yield from _reads_in_term(traced.function.body, (), TRUE, traced, types)


def _reads_in_term(
    e: Term, binders: Binders, p: Predicate, traced: Traced, types: Mapping[str, Any]
) -> Iterator[Access]:
    """Yield the reads in a term, with the binders around each and the predicate `p` under which it happens."""
    match e:
        case Gen(index, size, body) | Sum(index, size, body):
            yield from _reads_in_term(body, (*binders, Binder(index, size)), p, traced, types)
            return
        case Iterate(index, size, _, starts, body):
            for start in starts:
                yield from _reads_in_term(start, binders, p, traced, types)
            yield from _reads_in_term(body, (*binders, Binder(index, size)), p, traced, types)
            return
        case Guard(condition, body):
            yield from _reads_in_condition(condition, binders, p, traced, types)
            yield from _reads_in_term(body, binders, conj(p, condition), traced, types)
            return
        case At(body, index):
            assert isinstance(body.type, Array)
            place = traced.places.get(e)
            owner, axis = _find_owner(body, traced.spelt)
            yield Access(e, owner, axis, index, body.type.size, binders, p, place)
    for child in e.children:
        yield from _reads_in_term(child, binders, p, traced, types)


def _find_owner(e: Term, spelt: Mapping[str, str]) -> tuple[str, int]:
    """Return how the user writes the array that is read, and along which axis."""
    axis = 0
    while isinstance(e, At):
        e, axis = e.body, axis + 1
    return (spelt.get(e.name, e.name) if isinstance(e, Var) else "the array"), axis


def _reads_in_condition(
    q: Predicate, binders: Binders, p: Predicate, traced: Traced, types: Mapping[str, Any]
) -> Iterator[Access]:
    """Yield the reads of boolean and index arrays in a condition, each under the other parts of the condition."""
    match q:
        case And(parts):
            for part in parts:
                rest = conj(p, *(other for other in parts if other is not part))
                yield from _reads_in_condition(part, binders, rest, traced, types)
        case Or(parts):
            for part in parts:
                yield from _reads_in_condition(part, binders, p, traced, types)
        case Related(name, arguments):
            type_ = types.get(name)
            if isinstance(type_, Relation | IndexArray):
                place = traced.places.get(Guard(q, Const(1)))
                for axis, (a, size) in enumerate(zip(arguments, type_.dims, strict=False)):
                    yield Access(q, name, axis, a, size, binders, p, place)
