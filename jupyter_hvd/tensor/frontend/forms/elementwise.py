"""Elementwise functions, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...derivative.primitives import NUMPY
from ...language.function import Function
from ..tracers import lists_of, numbers_of
from .table import build, form


def _make_primitive_form(f: Function) -> Callable[..., Any]:
    """Return the form of an elementary function."""
    if f.arity == 1:
        return lambda t, x: t.mapped(f.name, x)
    return lambda t, x, y: t.mapped(f.name, x, y)


for _name, _f in NUMPY.items():
    form(_name)(_make_primitive_form(_f))


def _make_operation_form(op: str) -> Callable[..., Any]:
    """Return the form of an arithmetic operator."""
    return lambda t, x, y: t.computed(op, x, y)


def _make_comparison_form(op: str) -> Callable[..., Any]:
    """Return the form of a comparison operator."""
    return lambda t, x, y: t._compare(op, x, y)


for _names, _op in (
    (("add",), "+"),
    (("subtract",), "-"),
    (("multiply",), "*"),
    (("divide",), "/"),
    (("floor_divide",), "//"),
    (("mod", "remainder"), "%"),
):
    form(*_names)(_make_operation_form(_op))
for _name, _op in (
    *(("less", "<"), ("less_equal", "<="), ("greater", ">"), ("greater_equal", ">=")),
    *(("equal", "=="), ("not_equal", "!=")),
):
    form(_name)(_make_comparison_form(_op))


@form("negative")
def negative(t: Any, x: Any) -> Any:
    """Build `-x`."""
    return t.negative(x)


@form("positive", "float64", "float32", "float_")
def positive(t: Any, x: Any) -> Any:
    """Build `+x`, which is x, as an array of numbers."""
    return build(t, "astype", x)


@form("asarray")
def asarray(t: Any, x: Any, dtype: Any = None) -> Any:
    """Build NumPy's `asarray`: x itself if it is an array, else an array of it."""
    return t.whole(x) if t.is_array(x) and not lists_of(x) else build(t, "array", x, dtype)


@form("clip", method=True)
def clip(t: Any, x: Any, low: Any = None, high: Any = None, **named: Any) -> Any:
    """Build NumPy's `clip`: `minimum(maximum(x, low), high)`."""
    low = named.pop("a_min", named.pop("min", low))
    high = named.pop("a_max", named.pop("max", high))
    if named:
        raise t.error(f"`clip` takes no {', '.join(named)}")
    made = x if low is None else t.mapped("maximum", x, low)
    made = made if high is None else t.mapped("minimum", made, high)
    return t.clipped_within(x, low, high, made)


@form("where")
def where(t: Any, test: Any, then: Any = None, other: Any = None) -> Any:
    """Build NumPy's `where`: `a if p else b` for each entry."""
    if then is None or other is None:
        raise t.error(
            "`where` of a condition alone makes a size that data decide", "give both values"
        )
    return t.chosen(test, then, other)


@form("select")
def select(t: Any, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Build NumPy's `select`: for each entry the value of the first condition that holds, else `default`."""
    tests, values = (list(t.several(t.listed(x))) for x in (condlist, choicelist))
    if len(tests) != len(values) or not tests:
        raise t.error("`select` takes a value for each condition, one or more")
    if any(numbers_of(test) != "bool" for test in tests):
        raise t.error("`select` takes conditions, not numbers", "compare them: `x > 0`")
    for test, value in reversed(list(zip(tests, values, strict=True))):
        default = t.chosen(test, value, default)
    return default


@form("logical_and", "bitwise_and")
def logical_and(t: Any, x: Any, y: Any) -> Any:
    """Build `a and b` for each entry."""
    return t._both(x, y)


@form("logical_or", "bitwise_or")
def logical_or(t: Any, x: Any, y: Any) -> Any:
    """Build `a or b` for each entry."""
    return t._either_of(x, y)


@form("logical_not", "bitwise_not", "invert")
def logical_not(t: Any, x: Any) -> Any:
    """Build `not a` for each entry."""
    return t._negated(x)


@form("stop_gradient")
def stop_gradient(t: Any, x: Any) -> Any:
    """Build JAX's `stop_gradient`: x with derivative zero."""
    return t.mapped("stopped", x)
