"""Operands: the values that the prelude's definitions compute with while tracing.

An operand is a stand-in whose operators, and NumPy's functions of it, are traced, by the protocols that NumPy
has for arrays of other libraries (NEP 13, NEP 18).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from ..language.affine import Affine
from .tracers import Value

NUMPYS = (("order", "C"), ("device", None))  # how NumPy stores what it makes
PLAIN = bool | int | float | Fraction | str | type | None


class Operand:
    """A stand-in of the tracer's, as an operand of Python's operators and of NumPy's functions."""

    __slots__ = ("tracer", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tracer: Any, value: Any) -> None:
        self.tracer = tracer
        self.value = value

    def applied(self, function: Any, arguments: Any, named: dict[str, Any]) -> Any:
        """Return a function of this operand and others, traced."""
        given = {x: unwrapped(value) for x, value in named.items() if (x, value) not in NUMPYS}
        return wrapped(self.tracer, self.tracer.applied(function, *unwrapped(arguments), **given))

    def __array_function__(self, function: Any, _types: Any, arguments: Any, named: Any) -> Any:
        return self.applied(function, arguments, named)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return self.applied(function, inputs, named)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes: integers where known, operands elsewhere."""
        t = self.tracer
        dims = t.dims(t.whole(self.value))
        return tuple(n.constant if n.is_constant else Operand(t, t.index(n)) for n in dims)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.tracer.dims(self.tracer.whole(self.value)))

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The array with its axes reversed."""
        return wrapped(self.tracer, self.tracer.attribute(self.value, "T"))

    def __getitem__(self, indices: Any) -> Any:
        t = self.tracer
        indices = unwrapped(indices if isinstance(indices, tuple) else (indices,))
        return wrapped(t, t.entry(t.here, self.value, *indices))

    def __iter__(self) -> Iterator[Any]:
        return iter([wrapped(self.tracer, row) for row in self.tracer.several(self.value)])

    def __bool__(self) -> bool:
        """What sizes decide, which become numbers; TensorError where data decide."""
        names = self.tracer.condition(self.value).names
        raise (
            self.tracer.error("data decide this") if not names else self._require_known_sizes(names)
        )

    def _require_known_sizes(self, sizes: Any) -> Exception:
        """Raise the error by which tracing starts again with these sizes as numbers."""
        for size in sorted(sizes):
            self.tracer.number(Affine.of(size))
        raise AssertionError(f"sizes {sizes} are known")

    def __index__(self) -> int:
        """A size as a number."""
        return int(self.tracer.number(self.tracer.affine(self.value, "a size")))

    def __int__(self) -> int:
        return self.__index__()

    def __neg__(self) -> Any:
        return wrapped(self.tracer, self.tracer.minus(self.tracer.here, self.value))

    def __invert__(self) -> Any:
        return wrapped(self.tracer, self.tracer.negated(self.tracer.here, self.value))

    def __abs__(self) -> Any:
        return wrapped(self.tracer, self.tracer.absolute(self.value))


def wrapped(t: Any, value: Any) -> Any:
    """Return a value as definitions take it: stand-ins become operands, also within lists and tuples."""
    if isinstance(value, tuple | list):
        return type(value)(wrapped(t, part) for part in value)
    return value if isinstance(value, PLAIN | Operand) else Operand(t, value)


def unwrapped(value: Any) -> Any:
    """Return a value as the tracer takes it: operands become stand-ins, also within lists, tuples and slices."""
    match value:
        case Operand():
            return value.value
        case tuple() | list():
            return type(value)(unwrapped(part) for part in value)
        case slice():
            return slice(*map(unwrapped, (value.start, value.stop, value.step)))
    return value


def let(name: str, value: Any) -> Any:
    """Give a value that is read several times a name in the program, unless it costs nothing."""
    if isinstance(value, tuple):
        return tuple(let(name, part) for part in value)
    if isinstance(value, Operand) and isinstance(value.value, Value):
        return Operand(value.tracer, value.tracer.once(value.value, name))
    return value


def _make_binary_method(op: str, turned: bool) -> Callable[[Operand, Any], Any]:
    """Return the method of `Operand` for an operator. `turned` is for reflected methods such as `__radd__`."""

    def method(self: Operand, other: Any) -> Any:
        sides = self.value, unwrapped(other)
        left, right = sides[::-1] if turned else sides
        return wrapped(self.tracer, self.tracer.binary(self.tracer.here, op, left, right))

    return method


def _make_comparison_method(op: str) -> Callable[[Operand, Any], Any]:
    """Return the method of `Operand` for a comparison operator."""

    def method(self: Operand, other: Any) -> Any:
        t = self.tracer
        return wrapped(t, t.compare(t.here, (op,), self.value, unwrapped(other)))

    return method


for _name, _op in (
    *(("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%")),
    *(("pow", "**"), ("matmul", "@"), ("and", "&"), ("or", "|")),
):
    setattr(Operand, f"__{_name}__", _make_binary_method(_op, turned=False))
    setattr(Operand, f"__r{_name}__", _make_binary_method(_op, turned=True))
for _name, _op in (
    *(("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")),
):
    setattr(Operand, f"__{_name}__", _make_comparison_method(_op))
