"""Arrays made from sizes."""

from __future__ import annotations

from typing import Any

from ...language.predicates import compare
from .table import form


@form("zeros", "empty", maker=True)
def zeros(t: Any, shape: Any, *_: Any) -> Any:
    """`0` at every entry."""
    return full(t, shape, 0)


@form("ones", maker=True)
def ones(t: Any, shape: Any, *_: Any) -> Any:
    """`1` at every entry."""
    return full(t, shape, 1)


@form("full", maker=True)
def full(t: Any, shape: Any, value: Any, *_: Any) -> Any:
    """One number at every entry."""
    value = t.once(t.whole(value))
    return t.build(t.shape_of(shape), lambda *at: value, value)


@form("zeros_like", "empty_like")
def zeros_like(t: Any, x: Any) -> Any:
    """`0` at every entry of an array of x's shape."""
    return _like(t, x, 0)


@form("ones_like")
def ones_like(t: Any, x: Any) -> Any:
    """`1` at every entry of an array of x's shape."""
    return _like(t, x, 1)


@form("full_like")
def full_like(t: Any, x: Any, value: Any) -> Any:
    """One number at every entry of an array of x's shape."""
    return _like(t, x, value)


def _like(t: Any, x: Any, value: Any) -> Any:
    value = t.once(t.whole(value))
    return t.build(t.dims(t.whole(x)), lambda *at: value, value)


@form("eye", "identity", maker=True)
def eye(t: Any, n: Any, m: Any = None, k: int = 0) -> Any:
    """`1 if j == i + k else 0`."""
    rows = t.size_of(n)
    columns = rows if m is None else t.size_of(m)
    return t.condition_array([rows, columns], lambda i, j: compare("=", j, i + k))


@form("tri", maker=True)
def tri(t: Any, n: Any, m: Any = None, k: int = 0) -> Any:
    """`1 if j <= i + k else 0`."""
    rows = t.size_of(n)
    columns = rows if m is None else t.size_of(m)
    return t.condition_array([rows, columns], lambda i, j: compare("≤", j, i + k))


@form("arange", maker=True)
def arange(t: Any, *bounds: Any) -> Any:
    """`i` at every i."""
    start, length, step = t._range(bounds)
    return t.build([length], lambda i: t.ramp(start + i * step))


@form("linspace", maker=True)
def linspace(t: Any, low: Any, high: Any, num: Any = 50, endpoint: bool = True) -> Any:
    """`low + i·(high - low)/(n - 1)`."""
    n = t.size_of(num)
    steps = t.number(n) - (1 if endpoint else 0)
    low = t.once(t.whole(low), "low")
    step = t.once(t.whole(t.computed("/", t.computed("-", high, low), max(1, steps))), "step")
    return t.build([n], lambda i: t.computed("+", low, t.computed("*", step, t.ramp(i))), low, step)


@form("meshgrid")
def meshgrid(t: Any, x: Any, y: Any, indexing: str = "xy") -> Any:
    """`x[j]` and `y[i]` at every `[i, j]`."""
    x, y = t.once(t.whole(x), "x"), t.once(t.whole(y), "y")
    (n,), (m,) = t.dims(x), t.dims(y)
    if indexing == "ij":
        return (
            t.build([n, m], lambda i, j: t.read(x, i), x),
            t.build([n, m], lambda i, j: t.read(y, j), y),
        )
    return (
        t.build([m, n], lambda i, j: t.read(x, j), x),
        t.build([m, n], lambda i, j: t.read(y, i), y),
    )
