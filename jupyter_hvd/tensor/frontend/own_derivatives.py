"""A derivative that a user writes beside a function: the function's value is a constant to derivatives, and `tangent` adds what
the user says that they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..language.types import Product
from .forms.table import build as form
from .rewrite import Rewritten
from .tracers import Value, is_tuple


def with_own_derivative(
    name: str, body: Rewritten, rule: Rewritten, parameters: inspect.Signature, rule_itself: Any
) -> Rewritten:
    """Return a rewritten function whose partial derivatives are what `rule` returns: one, or a tuple with one for each real
    parameter.
    """

    def build(tracer: Any) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            bound = parameters.bind(*args, **kwargs)
            bound.apply_defaults()
            value = tracer.inline(name, body, bound)
            slopes = tracer.inline(f"the derivative of {name}", rule, bound)
            real = [
                (x, v)
                for x, v in bound.arguments.items()
                if isinstance(v, Value) and v.data is None
            ]
            return _add_tangents(tracer, name, value, real, slopes)

        return function

    return replace(
        body, build=build, captured=lambda: (*body.captured(), rule_itself, *rule.captured())
    )


def _add_tangents(
    t: Any, name: str, value: Any, real: Sequence[tuple[str, Value]], slopes: Any
) -> Any:
    """Return a value whose partial derivatives are the slopes: the value as a constant, plus a tangent per parameter."""
    each = [slopes] if len(real) == 1 else t.several(slopes) if is_tuple(slopes) else slopes
    if not isinstance(each, list | tuple) or len(each) != len(real):
        names = ", ".join(f"`{x}`" for x, _ in real) or "none"
        message = f"the derivative of `{name}` is one array for each real parameter: {names}"
        raise t.error(message, f"return {len(real)} of them, in this order")
    tuples = [x for x, v in (("its result", value), *real) if _has_parts(v)]
    if tuples:
        message = f"`{name}` has a derivative of its own, and {tuples[0]} is a tuple"
        raise t.error(message, "pass and return its parts as arrays of their own")
    made = t.mapped("stopped", t.once(t.whole(value), "value"))
    for (x, argument), slope in zip(real, each, strict=True):
        made = t.computed("+", made, _tangent_term(t, f"{name}` by `{x}", made, argument, slope))
    return made


def _has_parts(value: Any) -> bool:
    """Whether a value is a container or a tuple of the program."""
    return isinstance(value, tuple | list | dict) or (
        isinstance(value, Value) and (is_tuple(value) or isinstance(value.type, Product))
    )


def _tangent_term(t: Any, which: str, value: Any, argument: Value, slope: Any) -> Any:
    """Return `Σ tangent(x, ∂y/∂x)` over the entries of x, which is zero; entry by entry if y, x and the derivative have one
    shape.
    """
    x, w = t.once(argument, "x"), t.once(t.whole(slope), "slope")
    out, own, dims = t.dims(t.whole(value)), t.dims(x), t.dims(w)
    if len(dims) == len(out) + len(own):
        for one, other in zip(dims, (*out, *own), strict=True):
            t.same(one, other)
        slopes = t.mapped("tangent", x, w)
        return form(t, "sum", slopes, tuple(range(len(out), len(dims)))) if own else slopes
    if len(dims) == len(out) == len(own):
        for one, two, three in zip(dims, out, own, strict=True):
            t.same(t.same(one, two), three)
        return t.mapped("tangent", x, w)
    raise t.error(
        f"the derivative of `{which}` has {len(dims)} dimensions",
        f"it has {len(out) + len(own)}, the result's and then the parameter's"
        + (", or the same as both where each entry depends on one" if len(out) == len(own) else ""),
    )
