"""Largest and smallest entries along an axis, which the language finds by halves, in one reduction.

`np.max` is `⌈log2 n⌉` statements, each with half of the entries (`frontend/forms/reductions`), and XLA makes a kernel of each.
One reduction gives the same entries. No derivative goes through it: what the entries share of that, `tangent` says beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..language.affine import Affine
from ..language.function import Function
from ..language.predicates import compare
from ..language.terms import Add, At, Call, Gen, Guard, Let, Term, Var
from ..language.types import dimensions

REDUCTIONS: dict[str, Callable[..., Any]] = {"maximum": jnp.max, "minimum": jnp.min}


@dataclass(frozen=True)
class Half:
    """`⊞ …i:⌈n/2⌉…. f(x[…i…], x[…i+⌈n/2⌉…])`, the one in the middle as it is: of `source` along an axis."""

    source: str
    extents: tuple[int, ...]
    axis: int
    function: Function
    left: int

    def goes_on_as(self, other: Half) -> bool:
        return (self.axis, self.function) == (other.axis, other.function)


@dataclass(frozen=True)
class Folds:
    """What is found by halves, by the name of the last, which has one entry along the axis; and the names before that."""

    last: Mapping[str, Half]
    inner: frozenset[str]


def folds(e: Term, at: Callable[[Affine], Affine]) -> Folds:
    """The reductions by halves of a program whose lets are in front."""
    lets = []
    while isinstance(e, Let):
        lets.append((e.name, e.value))
        e = e.body
    uses = Counter(x for part in (*(value for _, value in lets), e) for x in part.variables)
    moved = _moved(lets, e)
    begun: dict[str, tuple[Half, tuple[str, ...]]] = {}  # with the names so far
    last: dict[str, Half] = {}
    inner: set[str] = set()
    for name, value in lets:
        half = _half(value, at)
        if half is None:
            continue
        names: tuple[str, ...] = ()
        before, behind = begun.get(half.source, (None, ()))
        if before is not None and uses[half.source] == 1 and before.goes_on_as(half):
            names = (*behind, half.source)
            half = replace(half, source=before.source, extents=before.extents)
        begun[name] = half, names
        if half.left == 1 and names and name not in moved:
            last[name] = half
            inner |= {*names}
    return Folds(last, frozenset(inner))


def _half(value: Term, at: Callable[[Affine], Affine]) -> Half | None:
    binders: list[tuple[str, int]] = []
    while isinstance(value, Gen):
        binders.append((value.index, at(value.size).constant))
        value = value.body
    names = [Affine.of(index) for index, _ in binders]
    match value:
        case Call(function, (left, right)):
            odd = None
        case Add(Guard(paired, Call(function, (left, right))), Guard(alone, middle)):
            odd = paired, alone, middle
        case _:
            return None
    if function.name not in REDUCTIONS or not isinstance(x := _variable(left), Var):
        return None
    extents = [at(size).constant for size in dimensions(x.type)]
    if _variable(right) != x or _places(left) != names or len(extents) != len(names):
        return None
    apart = [k for k, (a, b) in enumerate(zip(_places(right), names, strict=True)) if a != b]
    if len(apart) != 1:
        return None
    (axis,) = apart
    (index, m), n = binders[axis], extents[axis]
    half, i = Affine.of(n // 2), Affine.of(index)
    there = [k for k, (_, extent) in enumerate(binders) if extent != extents[k]]
    if _places(right)[axis] != i + m or m != n - n // 2 or there not in ([], [axis]):
        return None
    if (odd is None) != (n % 2 == 0):
        return None
    if odd is not None and odd != (compare("<", i, half), compare("=", i, half), left):
        return None
    return Half(x.name, tuple(extents), axis, function, m)


def _variable(e: Term) -> Term:
    while isinstance(e, At):
        e = e.body
    return e


def _places(e: Term) -> list[Affine]:
    return [*_reversed_places(e)][::-1]


def _reversed_places(e: Term) -> Iterator[Affine]:
    while isinstance(e, At):
        yield e.index
        e = e.body


def folded(array: Any, half: Half) -> Any:
    """An array with one entry along an axis, the largest or the least; a constant to the derivative."""
    x = lax.stop_gradient(jnp.broadcast_to(array, half.extents))
    return REDUCTIONS[half.function.name](x, half.axis, keepdims=True)


def _moved(lets: Sequence[tuple[str, Term]], e: Term) -> set[str]:
    """The variables to which a derivative of the program goes."""
    found = {*_moving(e)}
    for name, value in reversed(lets):
        if name in found:
            found |= {*_moving(value)}
    return found


def _moving(e: Term) -> Iterator[str]:
    """The variables to which a derivative of a term goes."""
    match e:
        case Var(name):
            yield name
        case Call(function, arguments):
            slopes = function.partials(arguments)
            for x in (x for slope, x in zip(slopes, arguments, strict=True) if slope is not None):
                yield from _moving(x)
        case _:
            for x in e.children:
                yield from _moving(x)
