"""The same program as a JAX user would write it, for `jax.grad` to differentiate.

Each array of the program becomes a dense `jax.numpy` array: `⊞` is broadcasting, `[p]` a
`jnp.where`, a sum of products an `einsum`, a sum under a condition a masked `sum`; reads at an index
are axes, at a constant or an offset slices, anywhere else gathers. That is what the language's
sparsity and derivatives are compared with. It knows no convolution: for that, and for any other trick,
give a version of one's own, `%gradcost f --against g`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..tensor.cost.counting import Data
from ..tensor.jax.elementwise import call
from ..tensor.language.affine import Affine
from ..tensor.language.predicates import (
    NOT,
    TRUE,
    And,
    Compare,
    Exists,
    Or,
    Predicate,
    Related,
    conj,
)
from ..tensor.language.terms import (
    Add,
    At,
    Binders,
    Call,
    Const,
    Gen,
    Guard,
    Let,
    Mul,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
    strip_guards,
    strip_sums,
)
from ..tensor.language.types import Array, Product, Real, dimensions
from ..tensor.tensor_function import Instance, laid_out
from .analysis import Sizes
from .subject import Subject


@dataclass(frozen=True)
class Named:
    """An array with an index name for each axis, in order."""

    array: Any
    axes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Translation:
    """A let-lifted, pair-free program at given sizes as JAX operations."""

    sizes: Sizes
    data: Mapping[str, Data]

    def block(self, e: Term, values: dict[str, Any]) -> Any:
        while isinstance(e, Let):
            values = {**values, e.name: self.whole(e.value, values)}
            e = e.body
        return self.output(e, values)

    def output(self, e: Term, values: dict[str, Any]) -> Any:
        if isinstance(e, Pair):
            return self.output(e.first, values), self.output(e.second, values)
        return self.whole(e, values)

    def whole(self, e: Term, values: dict[str, Any]) -> Any:
        """`⊞ i… . e` as an array."""
        binders: list[tuple[str, Affine]] = []
        while isinstance(e, Gen):
            binders.append((e.index, e.size))
            e = e.body
        rest = dimensions(e.type)
        for k, size in enumerate(rest):  # a whole array, named or guarded
            binders.append((f"η{k}", size))
        body = self.scalar(_entries(e, len(rest)), values, self.ranges({}, tuple(binders)))
        axes = tuple(index for index, _ in binders)
        shape = tuple(self.number(n) for _, n in binders)
        return jnp.broadcast_to(_aligned(body, axes), shape)

    def ranges(self, outer: Mapping[str, int], binders: Binders) -> dict[str, int]:
        return {**outer, **{index: self.number(size) for index, size in binders}}

    def number(self, a: Affine) -> int:
        return max(0, a.evaluate(self.sizes))

    def scalar(self, e: Term, values: Mapping[str, Any], ranges: Mapping[str, int]) -> Named:
        """A scalar term at every point of the ranges that it depends on."""
        match e:
            case Const(value):
                number = value.evaluate(self.sizes) if isinstance(value, Affine) else value
                return Named(jnp.asarray(float(number)))
            case Add(left, right):
                return _joined(
                    jnp.add, [self.scalar(x, values, ranges) for x in (left, right)], ranges
                )
            case Mul(left, right):
                return _joined(
                    jnp.multiply, [self.scalar(x, values, ranges) for x in (left, right)], ranges
                )
            case Call(function, arguments):
                return _joined(
                    lambda *xs: call(function, xs, jnp.result_type(float)),
                    [self.scalar(x, values, ranges) for x in arguments],
                    ranges,
                )
            case Guard(condition, body):
                return self.guarded(condition, self.scalar(body, values, ranges), ranges)
            case Sum():
                return self.sum(e, values, ranges)
        return self.read(e, values, ranges)

    def guarded(self, p: Predicate, body: Named, ranges: Mapping[str, int]) -> Named:
        if p == TRUE:
            return body
        mask = self.mask(p, ranges)
        return _joined(lambda m, x: jnp.where(m, x, 0.0), [mask, body], ranges)

    def sum(self, e: Sum, values: Mapping[str, Any], ranges: Mapping[str, int]) -> Named:
        binders, p, body = strip_sums(e)
        inner = self.ranges(ranges, binders)
        summed = tuple(index for index, _ in binders)
        factors: list[Named] = []
        for factor in _factors(body):
            q, plain = strip_guards(factor)
            p = conj(p, q)
            factors.append(self.scalar(plain, values, inner))
        if p != TRUE:
            product = _joined(lambda *xs: _product(xs), factors, inner)
            product = self.guarded(p, product, inner)
            kept = tuple(a for a in product.axes if a not in summed)
            places = tuple(k for k, a in enumerate(product.axes) if a in summed)
            total = Named(product.array.sum(axis=places), kept)
        else:
            total = _einsum(factors, summed)
        seen = {a for f in factors for a in f.axes} | (set(p.names) if p != TRUE else set())
        for index in summed:
            if index not in seen:
                total = Named(total.array * float(inner[index]), total.axes)
        return total

    def read(self, e: Term, values: Mapping[str, Any], ranges: Mapping[str, int]) -> Named:
        """`X[a…]`: axes and slices where they do, a gather where not."""
        places: list[Affine] = []
        while isinstance(e, At):
            places.insert(0, e.index)
            e = e.body
        array = self.variable(e, values)
        if not places:
            return Named(array)
        names = [_only(a) for a in places]
        plain = [n for n in names if n]
        if len(set(plain)) == len(plain) and all(
            self.sliceable(a, extent, ranges) for a, extent in zip(places, array.shape, strict=True)
        ):
            cut = tuple(
                slice(a.constant, a.constant + ranges[name])
                if (name := _only(a))
                else a.evaluate(self.sizes)
                for a in places
            )
            return Named(array[cut], tuple(plain))
        axes = tuple(dict.fromkeys(n for a in places for n in a.names if n in ranges))
        indices = tuple(
            jnp.clip(self.affine(a, axes, ranges), 0, extent - 1)
            for a, extent in zip(places, array.shape, strict=True)
        )
        return Named(array[indices], axes)

    def variable(self, e: Term, values: Mapping[str, Any]) -> Any:
        match e:
            case Var(name):
                return values[name]
            case Proj(side, body):
                return self.variable(body, values)[side]
        raise TypeError(e)

    def sliceable(self, a: Affine, extent: int, ranges: Mapping[str, int]) -> bool:
        name = _only(a)
        if name is None:
            inside = not any(n in ranges for n in a.names)
            return inside and 0 <= a.evaluate(self.sizes) < extent
        return name in ranges and a.constant >= 0 and a.constant + ranges[name] <= extent

    def affine(self, a: Affine, axes: Sequence[str], ranges: Mapping[str, int]) -> Any:
        total: Any = a.constant
        for name, k in a.terms:
            if name in ranges:
                shape = [ranges[name] if axis == name else 1 for axis in axes]
                total = total + k * jnp.arange(ranges[name]).reshape(shape)
            else:
                total = total + k * self.sizes[name]
        return total

    def mask(self, p: Predicate, ranges: Mapping[str, int]) -> Named:
        axes = tuple(n for n in ranges if n in p.names)
        return Named(self.holds(p, axes, ranges), axes)

    def holds(self, p: Predicate, axes: Sequence[str], ranges: Mapping[str, int]) -> Any:
        match p:
            case Compare(op, left, right):
                difference = self.affine(right - left, axes, ranges)
                if op == "=":
                    return difference == 0
                return difference > 0 if op == "<" else difference >= 0
            case Related(relation, arguments):
                inside = self.related(
                    relation.removeprefix(NOT), [self.affine(a, axes, ranges) for a in arguments]
                )
                return ~inside if relation.startswith(NOT) else inside
            case And(parts):
                return _all(jnp.logical_and, True, [self.holds(q, axes, ranges) for q in parts])
            case Or(parts):
                return _all(jnp.logical_or, False, [self.holds(q, axes, ranges) for q in parts])
            case Exists(index, size, body):
                inner = self.ranges(ranges, ((index, size),))
                found = self.holds(body, (*axes, index), inner)
                return jnp.any(found, axis=-1)
        raise TypeError(p)

    def related(self, name: str, columns: list[Any]) -> Any:
        known = self.data[name]
        if hasattr(known.type, "arity"):
            equal = [jnp.asarray(a)[..., None] == known.array[:, k] for k, a in enumerate(columns)]
            return _all(jnp.logical_and, True, equal).any(axis=-1)
        boolean = known.array.dtype == bool
        places = columns if boolean else columns[:-1]
        inside: Any = True
        for a, n in zip(places, known.array.shape, strict=True):
            inside = inside & (a >= 0) & (a < n)
        clipped = tuple(
            jnp.clip(jnp.asarray(a), 0, n - 1)
            for a, n in zip(places, known.array.shape, strict=True)
        )
        entry = jnp.asarray(known.array)[clipped]
        return inside & (entry if boolean else entry == columns[-1])


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


def _only(a: Affine) -> str | None:
    """The name i of `i + c`."""
    return a.terms[0][0] if len(a.terms) == 1 and a.terms[0][1] == 1 else None


def _factors(e: Term) -> list[Term]:
    if isinstance(e, Mul):
        return [*_factors(e.left), *_factors(e.right)]
    return [e]


def _product(arrays: Sequence[Any]) -> Any:
    result = arrays[0]
    for array in arrays[1:]:
        result = result * array
    return result


def _all(combine: Callable[[Any, Any], Any], empty: bool, parts: list[Any]) -> Any:
    result: Any = jnp.asarray(empty)
    for part in parts:
        result = combine(result, part)
    return result


def _aligned(x: Named, axes: Sequence[str]) -> Any:
    """The array with exactly these axes in order, of length 1 where it has none."""
    order = [x.axes.index(a) for a in axes if a in x.axes]
    array = jnp.transpose(x.array, order) if x.axes else x.array
    lengths = iter(array.shape)
    return array.reshape([next(lengths) if a in x.axes else 1 for a in axes])


def _joined(
    function: Callable[..., Any], parts: Sequence[Named], ranges: Mapping[str, int]
) -> Named:
    """An operation entry by entry, axes broadcast by name."""
    used = {a for part in parts for a in part.axes}
    axes = tuple(a for a in ranges if a in used)
    return Named(function(*(_aligned(part, axes) for part in parts)), axes)


def _einsum(factors: Sequence[Named], summed: Sequence[str]) -> Named:
    names = tuple(dict.fromkeys(a for f in factors for a in f.axes))
    number = {a: k for k, a in enumerate(names)}
    kept = tuple(a for a in names if a not in summed)
    operands: list[Any] = []
    for f in factors:
        operands += [f.array, [number[a] for a in f.axes]]
    return Named(jnp.einsum(*operands, [number[a] for a in kept]), kept)


def direct(subject: Subject, sizes: Sizes) -> Callable[..., Any]:
    """The program as a function of its real parameters in order, by JAX operations alone."""
    translation = Translation(sizes, subject.data)
    names = subject.differentiable

    def run(*arrays: Any) -> Any:
        return translation.block(subject.normal, dict(zip(names, arrays, strict=True)))

    return run


# What XLA says of it


@dataclass(frozen=True)
class Estimate:
    """XLA's own estimate of a compiled function: floating-point operations, and the bytes that it
    needs beside its arguments and result.
    """

    flops: float
    memory: int


@dataclass(frozen=True, eq=False)
class Both:
    """The value and its gradient as compiled JAX functions, with abstract arguments to lower them."""

    value: Callable[..., Any]
    adjoint: Callable[..., Any]
    shapes: tuple[Any, ...]


def plain(subject: Subject, sizes: Sizes) -> Both:
    """Plain JAX's value and gradient at these sizes: of `--against` where it is given."""
    real = [(x, t) for x, t in subject.types if isinstance(t, Real | Array | Product)]
    shapes = tuple(_shape(t, sizes) for _, t in real)
    value = direct(subject, sizes) if subject.against is None else _own(subject, sizes)
    by = tuple(k for k, (x, _) in enumerate(real) if x in subject.wrt)
    if subject.is_scalar:
        adjoint: Callable[..., Any] = jax.grad(value, by)
    else:

        def adjoint(*arrays: Any) -> Any:
            result, pull = jax.vjp(
                lambda *moved: value(*_placed(arrays, by, moved)), *(arrays[k] for k in by)
            )
            return pull(jax.tree_util.tree_map(jnp.ones_like, result))

    return Both(jax.jit(value), jax.jit(adjoint), shapes)


def _placed(arrays: tuple[Any, ...], by: tuple[int, ...], moved: tuple[Any, ...]) -> list[Any]:
    placed = list(arrays)
    for k, array in zip(by, moved, strict=True):
        placed[k] = array
    return placed


def _own(subject: Subject, sizes: Sizes) -> Callable[..., Any]:
    """The user's JAX version, called like the tensor function."""
    kinds = subject.types

    def value(*arrays: Any) -> Any:
        remaining = iter(arrays)
        arguments = []
        for x, t in kinds:
            if isinstance(t, Real | Array | Product):
                arguments.append(laid_out(next(remaining), _layout(subject, x)))
            elif x in sizes:
                arguments.append(sizes[x])
            else:
                assert subject.arguments is not None
                arguments.append(subject.arguments[x])
        return subject.against(*arguments)

    return value


def _layout(subject: Subject, name: str) -> Any:
    return next(layout for x, _, layout in subject.instance.parameters if x == name)


def _shape(type_: Any, sizes: Sizes) -> Any:
    if isinstance(type_, Product):
        return _shape(type_.first, sizes), _shape(type_.second, sizes)
    dims = tuple(n.evaluate(sizes) for n in dimensions(type_))
    return jax.ShapeDtypeStruct(dims, jnp.result_type(float))


def estimate(function: Callable[..., Any], shapes: Sequence[Any]) -> Estimate | None:
    """XLA's estimate after its own optimisations; None where it gives none."""
    compiled = function.lower(*shapes).compile()  # type: ignore[attr-defined]
    analysis = compiled.cost_analysis()
    if isinstance(analysis, list):
        analysis = analysis[0] if analysis else {}
    flops = (analysis or {}).get("flops")
    memory = compiled.memory_analysis()
    if flops is None:
        return None
    return Estimate(float(flops), int(getattr(memory, "temp_size_in_bytes", 0)))


@dataclass(frozen=True)
class Paired:
    """Median times of two functions that ran in turn; `apart` where their quartiles do not
    overlap.
    """

    first: float
    second: float
    apart: bool


SAMPLE = 2e-3  # seconds that one sample takes at least, so that the clock does not decide


def paired(
    first: Callable[[], Any], second: Callable[[], Any], repeats: int, step: Callable[[], None]
) -> Paired:
    """Time two functions in turn, after one call each to warm up; `step` is called between the
    samples and may raise.
    """

    def sample(run: Callable[[], Any], calls: int) -> float:
        began = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(run())
        return (time.perf_counter() - began) / calls

    both = (first, second)
    for run in both:
        step()
        sample(run, 1)
    calls = [max(1, int(SAMPLE / sample(run, 1))) for run in both]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        step()
        for run, n, found in zip(both, calls, times, strict=True):
            found.append(sample(run, n))
    (low0, mid0, high0), (low1, mid1, high1) = (np.quantile(t, (0.25, 0.5, 0.75)) for t in times)
    return Paired(float(mid0), float(mid1), bool(high0 < low1 or high1 < low0))


def compiled(function: Callable[..., Any], arguments: Sequence[Any]) -> Callable[[], Any]:
    """A call that is compiled beforehand, for real arguments."""
    run = jax.jit(function).lower(*arguments).compile()
    return partial(run, *arguments)


def on_device(values: Any) -> Any:
    return jax.tree_util.tree_map(jnp.asarray, values)


def device() -> str:
    return str(jax.devices()[0].device_kind)


def random_arguments(
    instance: Instance, sizes: Sizes, given: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Arguments to measure with: numbers from 0.5 to 1.5, and the relations that are given."""
    random = np.random.default_rng(0)
    dtype = jnp.result_type(float)

    def made(type_: Any, layout: Any) -> Any:
        if isinstance(type_, Product):
            assert layout is not None
            if len(layout) == 2:
                return made(type_.first, layout[0]), made(type_.second, layout[1])
            return (made(type_.first, layout[0]), *made(type_.second, layout[1:]))
        dims = tuple(n.evaluate(sizes) for n in dimensions(type_))
        return np.asarray(random.uniform(0.5, 1.5, dims), dtype)

    return {
        x: made(type_, layout)
        if isinstance(type_, Real | Array | Product)
        else sizes[x]
        if x in sizes
        else (given or {})[x]
        for x, type_, layout in instance.parameters
    }


def real_arguments(subject: Subject, arguments: Mapping[str, Any]) -> list[Any]:
    """Those of the real parameters, tuples as nested pairs."""

    def pairs(type_: Any, value: Any) -> Any:
        if isinstance(type_, Product):
            rest = value[1:] if len(value) > 2 else value[1]
            return pairs(type_.first, value[0]), pairs(type_.second, rest)
        return jnp.asarray(value)

    return [
        pairs(t, arguments[x]) for x, t in subject.types if isinstance(t, Real | Array | Product)
    ]
