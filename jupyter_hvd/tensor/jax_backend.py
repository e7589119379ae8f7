"""Tensor SSA as JAX: one array operation or a few for each statement, jitted at the sizes of a
call.

This lowering is simple and right. Where a contraction's reads are bare indices without a mask it
is an `einsum`; anywhere else it forms the whole index space of the statement, gathers, masks and
sums. So time and memory follow the index space, not yet the support of the predicate: the cost
model's bound holds for operation counts (`f.cost`), not for these kernels' seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from .affine import Affine
from .functions import Function, parameter_names
from .kernels.counting import Data
from .predicates import NOT, TRUE, And, Compare, Exists, Or, Predicate, Related
from .ssa import (
    Addition,
    Constant,
    Contraction,
    Factor,
    Input,
    Map,
    Output,
    Rhs,
    Statement,
    operands,
)
from .terms import Add, Binders, Call, Const, Mul, Term, Var
from .types import IndexArray, Integer, Product, Relation, TupleSet

if TYPE_CHECKING:
    from .tensor_function import Instance

_SAME = (
    *("sin", "cos", "tan", "exp", "log", "sinh", "cosh", "tanh", "abs", "sign", "floor"),
    *("sqrt", "expm1", "log1p", "maximum", "minimum"),
)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(jnp, name) for name in _SAME},
    "atan": jnp.arctan,
    "asin": jnp.arcsin,
    "acos": jnp.arccos,
    "atan2": jnp.arctan2,
    "pow": jnp.power,
    "erf": special.erf,
    "recip": lambda x: 1 / x,
    "greater": lambda x, y: jnp.where(x > y, 1.0, jnp.where(x == y, 0.5, 0.0)).astype(x.dtype),
}

Grid = Mapping[str, Any]


@dataclass
class Step:
    """One statement, ready to run by itself: `run(*operands)` gives its value, `keep` stores that
    for the statements after it.
    """

    statement: Statement
    run: Callable[..., Any]
    operands: tuple[Any, ...]
    keep: Callable[[Any], None]


class Kernel:
    """An instance at given sizes: as one function of its parameters, and statement by statement."""

    def __init__(self, instance: Instance, sizes: dict[str, int]) -> None:
        self.instance = instance
        self.sizes = sizes
        self.kinds = [(x, t) for x, t, _ in instance.parameters]

    def arrays(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments as JAX takes them."""
        return tuple(_array(t, v) for (_, t), v in zip(self.kinds, arguments, strict=True))

    def relations(self, arguments: tuple[Any, ...]) -> dict[str, Data]:
        """The data of relations and index arrays, on the host."""
        return {
            x: Data(t, np.asarray(value))
            for (x, t), value in zip(self.kinds, self.arrays(arguments), strict=True)
            if isinstance(t, Relation | IndexArray | TupleSet)
        }

    def _lowering(self, arrays: tuple[Any, ...], dtype: Any) -> _Lowering:
        lowering = _Lowering(self.sizes, {}, {}, dtype)
        for (x, type_), value in zip(self.kinds, arrays, strict=True):
            if isinstance(type_, Relation | IndexArray | TupleSet):
                lowering.data[x] = (type_, value)
            elif not isinstance(type_, Integer) and value is not None:
                lowering.arguments[x] = _pairs(type_, value)
        return lowering

    def run(self, *arrays: Any) -> Any:
        """The whole program; nested pairs of arrays."""
        lowering = self._lowering(arrays, _float_type(self.kinds, arrays))
        for statement in self.instance.ssa.statements:
            lowering.arrays[statement.name] = lowering.rhs(statement.rhs)
        return lowering.output(self.instance.ssa.output)

    def steps(self, arguments: tuple[Any, ...]) -> Iterator[Step]:
        """The statements one by one; each needs the values kept of those before it."""
        arrays = self.arrays(arguments)
        dtype = _float_type(self.kinds, arrays)
        values: dict[str, Any] = {}
        for statement in self.instance.ssa.statements:
            rhs = statement.rhs
            needed = tuple(dict.fromkeys(operands(rhs)))

            def run(arrays: Any, *given: Any, rhs: Rhs = rhs, names: Any = needed) -> Any:
                lowering = self._lowering(arrays, dtype)
                lowering.arrays.update(zip(names, given, strict=True))
                return lowering.rhs(rhs)

            used = tuple(
                value if _uses(rhs, x) else None
                for (x, _), value in zip(self.kinds, arrays, strict=True)
            )

            def keep(value: Any, name: str = statement.name) -> None:
                values[name] = value

            yield Step(statement, run, (used, *(values[x] for x in needed)), keep)


def compiled(instance: Instance, sizes: dict[str, int]) -> Callable[..., Any]:
    """A jitted function of the instance's parameters, at the given sizes; it returns nested
    pairs of arrays.
    """
    kernel = Kernel(instance, sizes)
    jitted = jax.jit(kernel.run)

    def call(*arguments: Any) -> Any:
        return jitted(*kernel.arrays(arguments))

    return call


def _uses(rhs: Rhs, parameter: str) -> bool:
    match rhs:
        case Input():
            return rhs.parameter == parameter
        case Addition(_, p0, _, p1, _):
            named = p0.relations | p1.relations
        case Map() | Contraction():
            named = rhs.mask.relations
        case _:
            return False
    return parameter in {relation.removeprefix(NOT) for relation in named}


def _array(type_: Any, value: Any) -> Any:
    if isinstance(type_, Integer):
        return ()
    if isinstance(type_, TupleSet):
        return np.array(sorted(value), dtype=np.int64).reshape(len(value), type_.arity)
    if isinstance(value, tuple):
        return tuple(_array(None, part) for part in value)
    if isinstance(value, list):
        value = np.array(value)
    exact = getattr(getattr(value, "dtype", None), "kind", "") == "O"  # fractions
    return value.astype(float) if exact else value


def _pairs(type_: Any, value: Any) -> Any:
    if isinstance(type_, Product):
        rest = value[1:] if len(value) > 2 else value[1]
        return _pairs(type_.first, value[0]), _pairs(type_.second, rest)
    return value


def _float_type(kinds: list[tuple[str, Any]], arrays: tuple[Any, ...]) -> Any:
    """The floating type of the real arguments together."""
    reals = [
        leaf
        for (_, t), value in zip(kinds, arrays, strict=True)
        if not isinstance(t, Relation | IndexArray | TupleSet | Integer)
        for leaf in jax.tree_util.tree_leaves(value)
    ]
    together = jnp.result_type(*reals) if reals else jnp.result_type(float)
    return together if jnp.issubdtype(together, jnp.floating) else jnp.result_type(float)


class _Lowering:
    def __init__(
        self,
        sizes: dict[str, int],
        arguments: dict[str, Any],
        data: dict[str, Any],
        dtype: Any,
    ) -> None:
        self.sizes = sizes
        self.arguments = arguments
        self.data = data
        self.dtype = dtype
        self.arrays: dict[str, Any] = {}

    def output(self, output: Output) -> Any:
        if isinstance(output, str):
            return self.arrays[output]
        return self.output(output[0]), self.output(output[1])

    def shape(self, binders: Binders) -> tuple[int, ...]:
        return tuple(max(0, size.evaluate(self.sizes)) for _, size in binders)

    def rhs(self, rhs: Rhs) -> Any:
        match rhs:
            case Input(parameter, _, path, _):
                value = self.arguments[parameter]
                for side in path:
                    value = value[side]
                return jnp.asarray(value, self.dtype)
            case Constant(binders, value):
                return jnp.full(self.shape(binders), self.number(value), self.dtype)
            case Addition(binders, p0, x0, p1, x1):
                grid = self.grid(binders)
                left = self.masked(p0, self.arrays[x0], grid)
                return left + self.masked(p1, self.arrays[x1], grid)
            case Map(binders, p, function, names):
                return self.map(binders, p, function, [self.arrays[x] for x in names])
            case Contraction():
                return self.contraction(rhs)
        raise TypeError(rhs)

    def number(self, value: Any) -> Any:
        return float(value.evaluate(self.sizes) if isinstance(value, Affine) else value)

    def grid(self, binders: Binders) -> dict[str, Any]:
        """Each binder's values along its own axis."""
        grid: dict[str, Any] = dict(self.sizes)
        for axis, n in enumerate(self.shape(binders)):
            shape = [1] * len(binders)
            shape[axis] = n
            grid[binders[axis][0]] = np.arange(n).reshape(shape)
        return grid

    def masked(self, p: Predicate, array: Any, grid: Grid) -> Any:
        return array if p == TRUE else jnp.where(self.mask(p, grid), array, 0)

    def map(self, binders: Binders, p: Predicate, function: Function, arguments: list[Any]) -> Any:
        if p == TRUE:
            return self.apply(function, arguments)
        mask = self.mask(p, self.grid(binders))
        # Where the mask is false the function sees 1, so that neither it nor JAX's derivative of it makes NaN there.
        safe = [jnp.where(mask, argument, 1) for argument in arguments]
        return jnp.where(mask, self.apply(function, safe), 0)

    def apply(self, function: Function, arguments: list[Any]) -> Any:
        if function.body is None:
            return FUNCTIONS[function.name](*arguments)
        return self.scalar(
            function.body, dict(zip(parameter_names(function.arity), arguments, strict=True))
        )

    def scalar(self, e: Term, values: Mapping[str, Any]) -> Any:
        """A scalar term, at every entry at once."""
        match e:
            case Var(name):
                return values[name]
            case Const(value):
                return jnp.asarray(self.number(value), self.dtype)
            case Add(left, right):
                return self.scalar(left, values) + self.scalar(right, values)
            case Mul(left, right):
                return self.scalar(left, values) * self.scalar(right, values)
            case Call(function, arguments):
                return self.apply(function, [self.scalar(x, values) for x in arguments])
        raise TypeError(e)

    def contraction(self, rhs: Contraction) -> Any:
        bare = [[a.name for a in factor.indices] for factor in rhs.factors]
        binders = (*rhs.gens, *rhs.sums)
        used = {index for names in bare for index in names}
        plain = all(None not in names and len(set(names)) == len(names) for names in bare)
        whole = all(self.fits(f, rhs) for f in rhs.factors)
        if rhs.mask == TRUE and plain and whole and used == {index for index, _ in binders}:
            number = {index: k for k, (index, _) in enumerate(binders)}
            operands: list[Any] = []
            for factor, names in zip(rhs.factors, bare, strict=True):
                operands += [self.arrays[factor.name], [number[str(n)] for n in names]]
            return jnp.einsum(*operands, list(range(len(rhs.gens))), precision="highest")
        grid = self.grid(binders)
        product: Any = jnp.ones((1,) * len(binders), self.dtype)
        for factor in rhs.factors:
            product = product * self.gather(factor, grid)
        product = jnp.broadcast_to(product, self.shape(binders))
        product = self.masked(rhs.mask, product, grid)
        return product.sum(axis=tuple(range(len(rhs.gens), len(binders))))

    def fits(self, factor: Factor, rhs: Contraction) -> bool:
        """Whether each index of a read runs over exactly the axis that it reads."""
        ranges = dict((*rhs.gens, *rhs.sums))
        extents = self.arrays[factor.name].shape
        return all(
            a.name in ranges and ranges[str(a.name)].evaluate(self.sizes) == n
            for a, n in zip(factor.indices, extents, strict=True)
        )

    def gather(self, factor: Factor, grid: Grid) -> Any:
        array = self.arrays[factor.name]
        if not factor.indices:
            return array
        if 0 in array.shape:
            return jnp.zeros((), self.dtype)
        places = tuple(
            np.clip(self.affine(a, grid), 0, n - 1)
            for a, n in zip(factor.indices, array.shape, strict=True)
        )
        return array[places]

    def affine(self, a: Affine, grid: Grid) -> Any:
        return sum((grid[name] * k for name, k in a.terms), np.asarray(a.constant))

    def mask(self, p: Predicate, grid: Grid) -> Any:
        match p:
            case Compare(op, left, right):
                difference = self.affine(right, grid) - self.affine(left, grid)
                return {"<": difference > 0, "≤": difference >= 0, "=": difference == 0}[op]
            case Related(relation, arguments):
                inside = self.related(
                    relation.removeprefix(NOT), [self.affine(a, grid) for a in arguments]
                )
                return ~inside if relation.startswith(NOT) else inside
            case And(parts):
                result: Any = np.asarray(True)
                for part in parts:
                    result = result & self.mask(part, grid)
                return result
            case Or(parts):
                result = np.asarray(False)
                for part in parts:
                    result = result | self.mask(part, grid)
                return result
            case Exists(index, size, body):
                last = np.arange(max(0, size.evaluate(self.sizes)))
                inner = {name: np.asarray(v)[..., None] for name, v in grid.items()}
                inside = self.mask(body, {**inner, index: last})
                return jnp.any(jnp.asarray(inside), axis=-1) if last.size else np.asarray(False)
        raise TypeError(p)

    def related(self, name: str, arguments: list[Any]) -> Any:
        type_, data = self.data[name]
        if isinstance(type_, TupleSet):
            equal = [np.asarray(a)[..., None] == data[:, k] for k, a in enumerate(arguments)]
            together = equal[0]
            for other in equal[1:]:
                together = together & other
            return together.any(axis=-1)
        places = arguments if isinstance(type_, Relation) else arguments[:-1]
        if 0 in data.shape:
            return np.asarray(False)
        inside: Any = np.asarray(True)
        for a, n in zip(places, data.shape, strict=True):
            inside = inside & (a >= 0) & (a < n)
        clipped = tuple(np.clip(a, 0, n - 1) for a, n in zip(places, data.shape, strict=True))
        entry = jnp.asarray(data)[clipped] if clipped else jnp.asarray(data)
        return inside & (entry if isinstance(type_, Relation) else entry == arguments[-1])
