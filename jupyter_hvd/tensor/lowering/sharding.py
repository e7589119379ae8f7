"""Sums over one index divided among devices.

Every device has its share of the parameters' rows along that index, and all of the rest. What is made
along the index stays where it is; what is summed over it is a partial sum on each device. Partial
sums go through additions and products with what all devices have; before anything else reads them,
and at the end, they are added up over the devices. Those at the end go in one all-reduce.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..language.errors import TensorError
from ..language.predicates import NOT, Exists, Or, Predicate, Related, conjuncts
from ..language.terms import At, Gen, Guard, Proj, Sum, Term, Var
from ..ssa.program import flat
from .dataflow import relations, sources
from .ir import Apply, Load, Product, Step, Total
from .lower import Plan
from .tiling import local, reads

Axis = tuple[str, tuple[int, ...], int]  # a parameter, a path of projections, an axis


@dataclass(frozen=True)
class Shards:
    """The steps of a plan for one device, `rows` values of the index each.

    `local` gives the axis that is divided of each array that is, `partial` the arrays that are
    partial sums; `early` those to be added up as soon as they are made.
    """

    steps: tuple[Step, ...]
    local: Mapping[str, int]
    partial: frozenset[str]
    early: frozenset[str]
    extent: int
    devices: int


def divided(body: Term, index: str) -> tuple[Axis, ...]:
    """The parameters' axes that are read at this index of the program, and only at it."""
    found: dict[Axis, None] = {}
    for e in _subterms(body):
        if isinstance(e, Sum | Gen) and _stem(e.index) == index:
            found.update(dict.fromkeys(_axes(e.body, e.index)))
    return tuple(found)


def _stem(name: str) -> str:
    stem, _, number = name.rpartition("_")
    return stem if stem and number.isdigit() else name


def _subterms(e: Term) -> Iterator[Term]:
    yield e
    for child in e.children:
        yield from _subterms(child)


def _axes(e: Term, index: str) -> Iterator[Axis]:
    for part in _subterms(e):
        if isinstance(part, At) and part.index.name == index:
            owner: Term = part.body
            axis, path = 0, tuple[int, ...]()
            while isinstance(owner, At):
                owner, axis = owner.body, axis + 1
            while isinstance(owner, Proj):
                path, owner = (owner.side, *path), owner.body
            if isinstance(owner, Var):
                yield owner.name, path, axis
        if isinstance(part, Guard):
            for atom in _atoms(part.condition):
                for axis, a in enumerate(atom.arguments):
                    if a.name == index:
                        yield atom.relation.removeprefix(NOT), (), axis


def _atoms(p: Predicate) -> Iterator[Related]:
    if isinstance(p, Related):
        yield p
    elif isinstance(p, Exists):
        yield from _atoms(p.body)
    elif isinstance(p, Or) or conjuncts(p) != (p,):
        for part in p.parts if isinstance(p, Or) else conjuncts(p):
            yield from _atoms(part)


def sharded(
    plan: Plan, axes: Sequence[Axis], shapes: Mapping[str, tuple[int, ...]], devices: int
) -> Shards:
    """Divide a plan. `shapes` has those of the relations' data, by name.

    Raises TensorError where an array is read across shares (`x[k+1]`) or they are not equal.
    """
    early: frozenset[str] = frozenset()
    while True:
        shards = _divided(plan, axes, shapes, devices, early)
        if shards.early == early:
            return shards
        early = shards.early


def _divided(
    plan: Plan,
    axes: Sequence[Axis],
    shapes: Mapping[str, tuple[int, ...]],
    devices: int,
    early: frozenset[str],
) -> Shards:
    """With the arrays in `early` added up once made, and those that turn out to have to be named."""
    given = {(x, path): axis for x, path, axis in axes}
    data = {x: axis for x, path, axis in axes if not path and x in shapes}
    extents = {shapes[x][axis] for x, axis in data.items()}
    along: dict[str, int] = {}
    partial: set[str] = set()
    needed = set(early)
    pending: list[tuple[Step, str | None]] = []
    for step in plan.steps:
        action = step.action
        if isinstance(action, Load) and (action.parameter, action.path) in given:
            along[step.name] = given[action.parameter, action.path]
        axis = _axis(step, along, data)
        if axis is not None and isinstance(action, Product | Total | Apply):
            sums = action.sums if isinstance(action, Product) else ()
            extents.add(dict((*action.out, *sums))[axis].constant)
            place = _place(action, axis)
            if place is not None:
                along[step.name] = place
            elif step.name not in early:
                partial.add(step.name)
        read = (sources(action) | relations(action)) & partial
        if read and (axis is not None or not _linear(step, partial)):
            needed |= read
        elif read and step.name not in early:
            partial.add(step.name)
        pending.append((step, axis))
    if len(extents) != 1:
        raise TensorError(
            "this index has not one range of values that could be divided",
            "shard the index of a sum over the data, `x[k]`",
        )
    (extent,) = extents
    if extent % devices:
        raise TensorError(
            f"{devices} devices cannot share {extent} values of the index equally",
            f"pass `devices=`, a divisor of {extent}, or pad the data with values that count nothing",
        )
    here, rows = {*along, *data}, extent // devices
    steps = tuple(s if axis is None else local(s, axis, here, rows) for s, axis in pending)
    return Shards(steps, along, frozenset(partial), frozenset(needed), extent, devices)


def _axis(step: Step, arrays: Mapping[str, int], data: Mapping[str, int]) -> str | None:
    """The axis of a step along the divided one of what it reads; None where it reads none such."""
    found: set[str | None] = set()
    for r in reads(step):
        if r.array in arrays:
            found.add(r.indices[arrays[r.array]].name)
    for lookup in _lookups(step):
        if lookup.relation in data:
            found.add(lookup.places[data[lookup.relation]].name)
    for p in _masks(step):
        for atom in _atoms(p):
            name = atom.relation.removeprefix(NOT)
            if name in data:
                found.add(atom.arguments[data[name]].name)
    if sources(step.action) & arrays.keys() and not found:
        found.add(None)
    if len(found) > 1 or None in found:
        raise TensorError(
            "an array is read across the shares of this index",
            "shard an index that every array is read at directly, `x[k]`",
        )
    return next(iter(found), None)


def _lookups(step: Step) -> list[Any]:
    match step.action:
        case Product() | Apply():
            extra = [x for part in _parts(step) for x in part.lookups]
            return [*step.action.lookups, *extra]
        case Total():
            return [x for part in step.action.addends for x in part.lookups]
    return []


def _parts(step: Step) -> list[Any]:
    match step.action:
        case Apply():
            return [m for argument in step.action.arguments for m in argument]
        case Total():
            return list(step.action.addends)
    return []


def _masks(step: Step) -> list[Predicate]:
    own = [step.action.mask] if isinstance(step.action, Product | Apply) else []
    return [*own, *(part.mask for part in _parts(step))]


def _place(action: Product | Total | Apply, axis: str) -> int | None:
    """Where the axis is in the result; None where it is summed."""
    targets = action.targets if isinstance(action, Product) else ()
    if any(axis in a.names and a.name != axis for a, _ in targets):
        raise TensorError(
            "a result has this index as a part of another one, `k·i + j`",
            "give the array an axis of its own for it",
        )
    names = [a.name for a, _ in targets] or [i for i, _ in action.out]
    return names.index(axis) if axis in names else None


def _linear(step: Step, partial: set[str]) -> bool:
    """Whether a step of partial sums is the partial sum of the step."""
    action = step.action
    if relations(action) & partial:
        return False
    if isinstance(action, Total):
        return True  # what all devices have is added on the first one only
    return isinstance(action, Product) and sum(r.array in partial for r in action.reads) == 1


def gathered(found: Any, plan: Plan, shards: Shards, axis: str) -> Any:
    """The outputs, partial sums added up over the devices in one all-reduce."""
    names = [x for x in dict.fromkeys(flat(plan.output)) if x in shards.partial]
    if not names:
        return found
    together = jnp.concatenate([found[x].ravel() for x in names])
    together = lax.psum(together, axis)
    start = 0
    for x in names:
        part = lax.slice_in_dim(together, start, start + found[x].size)
        start += found[x].size
        found = {**found, x: part.reshape(found[x].shape)}
    return found


def once(step: Step, shards: Shards, arrays: Mapping[str, Any], axis: str) -> dict[str, Any]:
    """The arrays as a total of partial sums reads them: those that all devices have, on the first
    device only.
    """
    if not isinstance(step.action, Total) or step.name not in shards.partial:
        return dict(arrays)
    read = sources(step.action)
    if not read & shards.partial:
        return dict(arrays)
    first = lax.axis_index(axis) == 0
    common = read - shards.partial - shards.local.keys()
    return {**arrays, **{x: jnp.where(first, arrays[x], 0) for x in common}}


def mapped(function: Any, mesh: Any, in_specs: Any, out_specs: Any) -> Any:
    """`shard_map`, wherever this JAX has it."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map(
            function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )
    from jax.experimental.shard_map import shard_map

    return shard_map(function, mesh, in_specs=in_specs, out_specs=out_specs, check_rep=False)
