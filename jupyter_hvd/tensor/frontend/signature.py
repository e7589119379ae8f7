"""What a tensor function's parameters are: from annotations as jaxtyping writes them, or from
the arguments of a call.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, cast

import numpy as np

from ..language.affine import Affine
from ..language.errors import TensorError
from ..language.pairs import Laid, split_tuple, to_pairs, unwrap_single
from ..language.predicates import reserve_generated_names
from ..language.types import (
    REAL,
    Array,
    IndexArray,
    Integer,
    Layout,
    Parameter,
    ParameterType,
    Product,
    Real,
    Relation,
    TupleSet,
    Type,
    array,
    dimensions,
)
from ..reference.evaluate import Environment, Holds


def declared(name: str, annotation: Any) -> ParameterType | None:
    """Return the type that an annotation declares: `Float[Array, "n m"]`, `Bool[…]`, `Int[…]`, `float`, `int`; None without
    annotation.

    jaxtyping itself need not be installed: its annotations are also read as strings.
    """
    if annotation is inspect.Parameter.empty:
        return None
    if annotation in (int, "int"):
        return Integer()
    if annotation in (float, "float"):
        return REAL
    kind, dims = _parse_jaxtyping(annotation)
    if dims is None:
        return None
    sizes = tuple(_parse_dimension(name, text) for text in dims.split())
    if kind.startswith("Bool"):
        return Relation(sizes)
    if kind.startswith(("Int", "UInt")):
        return IndexArray(sizes) if sizes else Integer()
    return array(sizes)


def _parse_jaxtyping(annotation: Any) -> tuple[str, str | None]:
    """Return the kind and the dimensions of a jaxtyping annotation, an object or a string; ("", None) for others."""
    if isinstance(annotation, str):
        if (
            annotation[:1] in "'\""
        ):  # quoted, and quoted again by `from __future__ import annotations`
            annotation = ast.literal_eval(annotation)
        found = re.fullmatch(r"""(?:\w+\.)*(\w+)\[.*,\s*(["'])(.*)\2\s*\]""", annotation.strip())
        return (found[1], found[3]) if found else ("", None)
    dims = getattr(annotation, "dim_str", None)
    return getattr(annotation, "__name__", ""), dims if isinstance(dims, str) else None


def _parse_dimension(name: str, text: str) -> Affine:
    """Parse one size of a jaxtyping annotation: a name, a number, or a sum of them."""
    total = Affine.of(0)
    if not re.fullmatch(r"-?\w+([+-]\w+)*", text):
        raise TensorError(
            f"`{name}` has the size `{text}`", "a size is a name, a number, or a sum of them"
        )
    for sign, part in re.findall(r"([+-]?)(\w+)", text):
        size = Affine.of(int(part) if part.isdigit() else reserve_generated_names(part))
        total = total + size * (-1 if sign == "-" else 1)
    return total


def observed(name: str, value: Any) -> tuple[ParameterType, Layout]:
    """Return an argument's type, with sizes named after it, `A_0`, `A_1`, and its layout. Raises TensorError if it is no
    tensor.
    """
    if isinstance(value, tuple):
        if not value:
            raise TensorError(f"`{name}` is an empty tuple", "pass one that has a part, or none")
        parts = [observed(f"{name}_{k}", part) for k, part in enumerate(value)]
        if any(not isinstance(t, Real | Array | Product) for t, _ in parts):
            raise TensorError(
                f"`{name}` has a part that is not an array of floats",
                "pass relations, index arrays and integers as parameters of their own",
            )
        types = [cast("Type", t) for t, _ in parts]
        layouts = tuple(layout for _, layout in parts)
        return to_pairs(types, Product), Laid(layouts, value.form) if isinstance(
            value, Laid
        ) else layouts
    if isinstance(value, set | frozenset):
        return TupleSet(_find_arity(name, value)), None
    if isinstance(value, int) and not isinstance(value, bool):
        return Integer(), None
    kind, shape = _kind_and_shape(name, value)
    dims = tuple(Affine.of(f"{name}_{axis}") for axis in range(len(shape)))
    if kind == "b":
        return Relation(dims), None
    if kind in "iu" and not dims:  # under `jax.jit` it is a number, of which nothing is known
        return (REAL if is_abstract(value) else Integer()), None
    if kind in "iu":
        return IndexArray(dims), None
    return array(dims), None


def is_abstract(value: Any) -> bool:
    """Whether a value is JAX's stand-in for one that is not known yet."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def may_count_from_the_end(value: Any) -> bool:
    """Whether a value is an array of integers some of which are, or may be, negative."""
    if getattr(getattr(value, "dtype", None), "kind", "") != "i" or value.ndim == 0:
        return False
    return is_abstract(value) or (value.size > 0 and int(value.min()) < 0)


def static(name: str) -> str:
    """Return the advice to pass an integer to `jax.jit` as a static argument."""
    return f'tell JAX that it is known: `jax.jit(f.jax, static_argnames="{name}")`'


def unknown_integer(arguments: Mapping[str, Any]) -> str | None:
    """Return the name of a parameter whose argument is an integer that JAX traces; None if there is none."""
    for name, value in arguments.items():
        if is_abstract(value) and not value.shape and value.dtype.kind in "iu":
            return name
    return None


def _find_arity(name: str, tuples: Collection[Any]) -> int:
    """Return the length of index tuples. Sets may have millions, so no Python code runs for each."""
    kinds = {*map(type, tuples)}
    arities = {*map(len, tuples)} if all(issubclass(kind, tuple) for kind in kinds) else {0}
    if len(arities) > 1 or 0 in arities:
        raise TensorError(f"`{name}` is a set, but not of index tuples of one length")
    for kind in {*map(type, chain.from_iterable(tuples))}:
        if not issubclass(kind, int | np.integer):
            one = next(t for t in tuples if kind in map(type, t))
            message = f"`{name}` has {one!r}, of which {kind.__name__} is not an index"
            raise TensorError(message, "indices are integers, from 0 on")
    return arities.pop() if arities else 2


def words(parameters: Sequence[Parameter]) -> dict[str, str]:
    """Return what a user writes for each size that is named after an argument: `len(x)` for `x_0`, `x.shape[1]` for `x_1`."""
    found: dict[str, str] = {}

    def walk(name: str, written: str, type_: ParameterType, layout: Layout) -> None:
        for axis, size in enumerate(_dimensions(type_)):
            if size.name == f"{name}_{axis}":
                found[size.name] = f"{written}.shape[{axis}]" if axis else f"len({written})"
        if layout is None:
            return
        parts: list[ParameterType] = []
        rest: ParameterType = type_
        while len(parts) < len(layout) - 1 and isinstance(rest, Product):
            parts.append(rest.first)
            rest = rest.second
        for k, (part, inner) in enumerate(zip((*parts, rest), layout, strict=True)):
            walk(f"{name}_{k}", written + _member_suffix(layout, k), part, inner)

    for name, type_, layout in parameters:
        walk(name, name, type_, layout)
    return found


def _member_suffix(layout: tuple[Layout, ...], k: int) -> str:
    """Return how the k-th part of a tuple is accessed: `[0]`, `['w']`, `.w`."""
    if not isinstance(layout, Laid) or not layout.form.names:
        return f"[{k}]"
    name = layout.form.names[k]
    return f"[{name!r}]" if layout.form.make is dict else f".{name}"


def has_no_counterpart(dtype: Any) -> bool:
    """Whether a NumPy type of numbers is wider than any of JAX's: `np.longdouble`."""
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError):
        return False
    return (
        found.kind in "fc" and found.itemsize > np.dtype("d" if found.kind == "f" else "D").itemsize
    )


def _kind_and_shape(name: str, value: Any) -> tuple[str, tuple[int, ...]]:
    """Return the kind of number (b, i, u, f, or O for exact ones) and the shape of an argument. Raises TensorError for other
    objects.
    """
    is_own = isinstance(value, np.ndarray) and type(value) is not np.ndarray
    if is_own and isinstance(value, np.ma.MaskedArray):  # NumPy loads `np.ma` when it is named.
        raise TensorError(
            f"`{name}` is a masked array, and the language has no missing entries",
            f"pass `{name}.data` and `~np.ma.getmaskarray({name})`, and sum under that boolean array: "
            f"`sum({name}[i] for i in range(n) if present[i])`",
        )
    if not hasattr(value, "dtype"):
        if value is None or isinstance(value, str | bytes | dict):
            raise TensorError(
                f"`{name}` is {value!r}, which is not a tensor", "pass numbers or arrays"
            )
        try:
            value = np.asarray(value)
        except ValueError as error:
            raise TensorError(f"`{name}` has rows of different lengths") from error
    kind = getattr(value.dtype, "kind", "f")
    if kind == "V" and getattr(value.dtype, "type", None) is not np.void:
        kind = "f"  # bfloat16 and its like, which NumPy does not know
    if kind == "O":
        kind = "O" if all(isinstance(x, int | float | Fraction) for x in value.flat) else "?"
    if kind == "f" and has_no_counterpart(value.dtype):
        raise TensorError(
            f"`{name}` holds {value.dtype}, which JAX does not have", "pass `x.astype(float)`"
        )
    if kind not in "biufO":
        raise TensorError(
            f"`{name}` holds {value.dtype}, not real numbers", "pass floats, booleans or integers"
        )
    return kind, tuple(value.shape)


def adapt(name: str, declared_: ParameterType, value: Any) -> ParameterType:
    """Return the declared type with what the argument adds to it; raise TensorError if the argument has another kind or rank."""
    found, _ = observed(name, value)
    if isinstance(declared_, Integer):
        if not isinstance(found, Integer):
            advice = static(name) if is_abstract(value) else "pass an int"
            raise TensorError(f"`{name}` is declared an integer, but is {value!r}", advice)
        return declared_
    # Whole numbers are as good as floats where floats are declared.
    if isinstance(declared_, Real) and isinstance(found, Integer):
        return declared_
    if isinstance(declared_, Array) and isinstance(found, IndexArray):
        found = array(found.dims)
    same_kind = type(found) is type(declared_)
    if not same_kind or _rank_of(found) != _rank_of(declared_):
        raise TensorError(f"`{name}` is declared {declared_}, but is {_describe_type(found)}")
    return declared_


def matches(name: str, type_: ParameterType, value: Any) -> None:
    """Raise TensorError unless an argument has the kind, rank and number of parts of a type."""
    if isinstance(type_, Product):
        if not isinstance(unwrap_single(value), tuple):
            raise TensorError(f"`{name}` is a tuple of type {type_}, not {type(value).__name__}")
        for part_type, part in zip((type_.first, type_.second), split_tuple(value), strict=True):
            matches(name, part_type, part)
    else:
        adapt(name, type_, unwrap_single(value))


def _dimensions(type_: ParameterType) -> tuple[Affine, ...]:
    """Return the sizes of an array of any kind; () for other types."""
    match type_:
        case Relation(dims) | IndexArray(dims):
            return dims
        case Array():
            return dimensions(type_)
    return ()


def _rank_of(type_: ParameterType) -> int:
    """Return the number of axes of a type."""
    return len(_dimensions(type_))


def _describe_type(type_: ParameterType) -> str:
    """Return a type in words, for errors."""
    rank = _rank_of(type_)
    noun = {Relation: "booleans", IndexArray: "integers"}.get(type(type_), "numbers")
    if isinstance(type_, TupleSet):
        return "a set of index tuples"
    if rank == 0:
        return "a scalar"
    return f"an array of {noun} with {rank} dimension{'s' * (rank > 1)}"


def sizes_of(parameters: Sequence[Parameter], arguments: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes that the arguments give to the names in the parameters' types. Raises TensorError if they disagree."""
    found: dict[str, tuple[int, str]] = {}
    pending: list[tuple[str, int, Affine, int]] = []
    for name, type_, _ in parameters:
        if isinstance(type_, Integer):
            found[reserve_generated_names(name)] = int(arguments[name]), f"`{name}`"
        else:
            pending += [(name, *axis) for axis in _iterate_axes(type_, arguments[name])]
    for name, _, size, entries in pending:
        if size.name is not None:
            found.setdefault(size.name, (entries, f"`{name}`"))
    sizes = {name: value for name, (value, _) in found.items()}
    for name, axis, size, entries in pending:
        unknown = size.names - sizes.keys()
        if unknown:
            raise TensorError(
                f"`{name}` has the size {size}, but nothing says what {', '.join(sorted(unknown))} is"
            )
        if size.evaluate(sizes) != entries:
            origin = next((who for n, (_, who) in found.items() if n in size.names), "its type")
            said = f"{size} = {size.evaluate(sizes)}" if size.names else str(size)
            raise TensorError(
                f"`{name}` has {entries} entries along axis {axis}, but {origin} says {said}"
            )
    return sizes


def _iterate_axes(type_: ParameterType, value: Any) -> list[tuple[int, Affine, int]]:
    """Return `(axis, declared size, number of entries)` for an argument's axes; for a tuple, of its parts in order."""
    if isinstance(type_, Product):
        first, rest = split_tuple(value)
        return _iterate_axes(type_.first, first) + _iterate_axes(type_.second, rest)
    dims, value = _dimensions(type_), unwrap_single(value)
    shape = np.shape(value) if dims else ()
    return [(axis, *pair) for axis, pair in enumerate(zip(dims, shape, strict=True))]


def plain(type_: Type, value: Any) -> Any:
    """Return an argument as the evaluator takes it: nested lists of numbers, nested pairs for a tuple."""
    if isinstance(type_, Product):
        first, rest = split_tuple(value)
        return plain(type_.first, first), plain(type_.second, rest)
    value = unwrap_single(value)
    if isinstance(value, int | float | Fraction):
        return value
    return np.asarray(value).tolist()


def relation(type_: Relation | IndexArray | TupleSet, value: Any) -> Holds:
    """Return a relation's data as a test of an index tuple."""
    if isinstance(type_, TupleSet):
        return lambda point: point in value
    data = np.asarray(value)
    if isinstance(type_, Relation):
        return lambda point: _is_inside(point, data.shape) and bool(data[point])
    return lambda point: _is_inside(point[:-1], data.shape) and int(data[point[:-1]]) == point[-1]


def _is_inside(point: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a point is within a shape."""
    return all(0 <= k < n for k, n in zip(point, shape, strict=True))


def environment(
    parameters: Sequence[Parameter], arguments: Mapping[str, Any], sizes: Mapping[str, int]
) -> Environment:
    """Return what the evaluator needs of a call's arguments."""
    values, relations = {}, {}
    for x, type_, _ in parameters:
        match type_:
            case Real() | Array() | Product():
                values[x] = plain(type_, arguments[x])
            case Relation() | IndexArray() | TupleSet():
                relations[x] = relation(type_, arguments[x])
    return Environment(values, dict(sizes), relations)
