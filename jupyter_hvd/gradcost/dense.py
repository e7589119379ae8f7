"""A program as a JAX user would write it, in dense arrays.

Each array of the program becomes a dense `jax.numpy` array: `⊞` is broadcasting, `[p]` a
`jnp.where`, a sum of products an `einsum`, a sum under a condition a masked `sum`; reads at an index
are axes, at a constant or an offset slices, anywhere else gathers; loops that carry values are written
out, turn by turn. It knows no convolution: for that,
and for any other trick, give a version of one's own, `%gradcost f --against g`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import mul
from typing import Any

import jax.numpy as jnp

from ..tensor.cost.counting import Data
from ..tensor.jax.access import Space, align
from ..tensor.jax.elementwise import call
from ..tensor.jax.masks import mask
from ..tensor.language.affine import Affine
from ..tensor.language.pairs import to_pairs
from ..tensor.language.predicates import TRUE, Predicate, conj, substitute
from ..tensor.language.terms import (
    Add,
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
    numbered,
    strip_guards,
    strip_sums,
)
from ..tensor.language.types import dimensions
from ..tensor.polyhedral.points import Aligned
from .analysis import Sizes


@dataclass(frozen=True, eq=False)
class Dense:
    """Translates a let-lifted, pair-free program at given sizes into JAX operations."""

    sizes: Sizes
    data: Mapping[str, Data]

    def block(self, e: Term, values: Mapping[str, Any]) -> Any:
        while isinstance(e, Let):
            if isinstance(e.value, Iterate):
                values = {**values, e.name: self.loop(e.value, values)}
            else:
                values = {**values, e.name: self.whole(e.value, values)}
            e = e.body
        return self.output(e, values)

    def loop(self, e: Iterate, values: Mapping[str, Any]) -> Any:
        """The histories of what a loop carries, as nested pairs."""
        turn = to_pairs([self.whole(start, values) for start in e.starts], _pair)
        turns = [turn]
        for k in range(max(0, self.at(e.size).constant)):
            carried = dict(zip(e.names_bound, _unpaired(turn, len(e.starts)), strict=True))
            turn = replace(self, sizes={**self.sizes, e.index: k}).block(
                e.body, {**values, **carried}
            )
            turns.append(turn)
        parts = zip(*(_unpaired(each, len(e.starts)) for each in turns), strict=True)
        return to_pairs([jnp.stack(part) for part in parts], _pair)

    def output(self, e: Term, values: Mapping[str, Any]) -> Any:
        if isinstance(e, Pair):
            return self.output(e.first, values), self.output(e.second, values)
        return self.whole(e, values)

    def whole(self, e: Term, values: Mapping[str, Any]) -> Any:
        """`⊞ i… . e` as an array."""
        binders: list[Binder] = []
        while isinstance(e, Gen):
            binders.append(Binder(e.index, e.size))
            e = e.body
        rest = dimensions(e.type)
        binders += numbered("η", rest)  # a whole array, named or guarded
        space = self.within(Space({}), tuple(binders))
        axes = tuple(space.extents)
        body = self.scalar(_entries(e, len(rest)), values, space)
        return jnp.broadcast_to(align(body, axes), space.shape(axes))

    def within(self, outer: Space, binders: Binders) -> Space:
        inner = {index: max(0, self.at(size).constant) for index, size in binders}
        return Space({**outer.extents, **inner})

    def at(self, a: Affine) -> Affine:
        """An index or a size, the names of sizes replaced."""
        return a.substitute(self._values)

    @cached_property
    def _values(self) -> Mapping[str, Affine]:
        return {name: Affine.of(n) for name, n in self.sizes.items()}

    def scalar(self, e: Term, values: Mapping[str, Any], space: Space) -> Aligned:
        """A scalar term at every point of the axes that it depends on."""

        def joined(function: Callable[..., Any], *parts: Term) -> Aligned:
            return _joined(function, [self.scalar(x, values, space) for x in parts], space)

        match e:
            case Const(value):
                number = self.at(value).constant if isinstance(value, Affine) else value
                return jnp.asarray(float(number)), ()
            case Add(left, right):
                return joined(jnp.add, left, right)
            case Mul(left, right):
                return joined(jnp.multiply, left, right)
            case Call(function, arguments):
                dtype = jnp.result_type(float)
                return joined(lambda *xs: call(function, xs, dtype), *arguments)
            case Guard(condition, body):
                return self.guarded(condition, self.scalar(body, values, space), space)
            case Sum():
                return self.sum(e, values, space)
        return self.read(e, values, space)

    def guarded(self, p: Predicate, body: Aligned, space: Space) -> Aligned:
        if p == TRUE:
            return body
        here = mask(substitute(p, self._values), space, self.relation)
        return _joined(lambda inside, x: jnp.where(inside, x, 0.0), [here, body], space)

    def relation(self, name: str) -> tuple[Any, Any]:
        known = self.data[name]
        return known.type, jnp.asarray(known.array)

    def sum(self, e: Sum, values: Mapping[str, Any], space: Space) -> Aligned:
        binders, p, body = strip_sums(e)
        inner = self.within(space, binders)
        summed = tuple(index for index, _ in binders)
        guards, plain = zip(*map(strip_guards, _factors(body)), strict=True)
        p = conj(p, *guards)
        factors = [self.scalar(factor, values, inner) for factor in plain]
        if p == TRUE:
            array, axes = _einsum(factors, summed)
        else:
            product = _joined(lambda *xs: reduce(mul, xs), factors, inner)
            array, axes = self.guarded(p, product, inner)
            array = array.sum(axis=tuple(k for k, a in enumerate(axes) if a in summed))
            axes = tuple(a for a in axes if a not in summed)
        seen = p.names.union(*(has for _, has in factors))
        for index in summed:
            if index not in seen:
                array = array * float(inner.extents[index])
        return array, axes

    def read(self, e: Term, values: Mapping[str, Any], space: Space) -> Aligned:
        """`X[a…]`: axes and slices where they do, a gather where not."""
        places: list[Affine] = []
        while isinstance(e, At):
            places.insert(0, self.at(e.index))
            e = e.body
        array = _variable(e, values)
        names = [_only(a) for a in places]
        plain = tuple(n for n in names if n)
        if len(set(plain)) == len(plain) and all(
            _is_slice(a, extent, space) for a, extent in zip(places, array.shape, strict=True)
        ):
            cut = tuple(
                slice(a.constant, a.constant + space.extents[name]) if name else a.constant
                for a, name in zip(places, names, strict=True)
            )
            return array[cut], plain
        indices = [space.index(a) for a in places]
        axes = tuple(n for n in space.extents if any(n in has for _, has in indices))
        within = tuple(
            jnp.clip(align(index, axes), 0, extent - 1)
            for index, extent in zip(indices, array.shape, strict=True)
        )
        return array[within], axes


def _pair(first: Any, second: Any) -> Any:
    return first, second


def _unpaired(value: Any, count: int) -> list[Any]:
    """The parts of so many nested pairs."""
    parts = []
    for _ in range(count - 1):
        first, value = value
        parts.append(first)
    return [*parts, value]


def _variable(e: Term, values: Mapping[str, Any]) -> Any:
    match e:
        case Var(name):
            return values[name]
        case Proj(side, body):
            return _variable(body, values)[side]
    raise TypeError(e)


def _is_slice(a: Affine, extent: int, space: Space) -> bool:
    name = _only(a)
    if name is None:
        return not a.names and 0 <= a.constant < extent
    return a.constant >= 0 and a.constant + space.extents[name] <= extent


def _only(a: Affine) -> str | None:
    """The name i of `i + c`."""
    return a.terms[0][0] if len(a.terms) == 1 and a.terms[0][1] == 1 else None


def _entries(e: Term, dims: int) -> Term:
    for k in range(dims):
        e = At(e, Affine.of(f"η{k}"))
    return _pushed(e)


def _pushed(e: Term) -> Term:
    """`([p]e)[a] ⇝ [p]e[a]`."""
    if isinstance(e, At):
        body = _pushed(e.body)
        if isinstance(body, Guard):
            return Guard(body.condition, _pushed(At(body.body, e.index)))
        return At(body, e.index)
    return e


def _factors(e: Term) -> list[Term]:
    if isinstance(e, Mul):
        return [*_factors(e.left), *_factors(e.right)]
    return [e]


def _joined(function: Callable[..., Any], parts: Sequence[Aligned], space: Space) -> Aligned:
    """An operation entry by entry, axes broadcast by name."""
    axes = tuple(a for a in space.extents if any(a in has for _, has in parts))
    return function(*(align(part, axes) for part in parts)), axes


def _einsum(factors: Sequence[Aligned], summed: Sequence[str]) -> Aligned:
    names = tuple(dict.fromkeys(a for _, axes in factors for a in axes))
    number = {a: k for k, a in enumerate(names)}
    kept = tuple(a for a in names if a not in summed)
    operands: list[Any] = []
    for array, axes in factors:
        operands += [array, [number[a] for a in axes]]
    return jnp.einsum(*operands, [number[a] for a in kept]), kept
