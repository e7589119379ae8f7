"""The cost of a program that JAX has traced, as `lowering.roofline` counts it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import jax

from ..lowering.roofline import Work
from ..lowering.strategy import SCAN_KERNELS

FREE = frozenset(
    "broadcast_in_dim reshape squeeze transpose convert_element_type iota slice copy stop_gradient rev expand_dims pad "
    "concatenate pjit jit select_n closed_call custom_jvp_call custom_vjp_call".split()
)
SLOW = frozenset(
    "exp exp2 log log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh pow erf erfc erf_inv "
    "lgamma digamma logistic cbrt".split()
)


def count_jaxpr_work(jaxpr: Any) -> Work:
    """Return the work of a jaxpr, with loops counted as often as they run."""
    total = Work(stored=sum(map(_count_entries, jaxpr.invars)))
    for equation, times in iterate_equations(jaxpr):
        total += _equation_work(equation).repeat(times)
    return total


def _equation_work(equation: Any) -> Work:
    """Return the work of one equation of a jaxpr."""
    name = equation.primitive.name
    made = sum(map(_count_entries, equation.outvars))
    read = sum(map(_count_entries, equation.invars))
    if name in FREE:
        return Work()
    if name == "dot_general":
        ((left, _), _) = equation.params["dimension_numbers"]
        shape = equation.invars[0].aval.shape
        return Work(stored=read + made, products=2 * made * prod(shape[k] for k in left), kernels=1)
    if name == "scan":
        return Work(iterations=equation.params["length"])
    if name.startswith(("gather", "dynamic_slice")):
        return Work(gathered=made)
    if name.startswith("scatter"):
        return Work(scattered=_count_entries(equation.invars[2]), stored=2 * made, kernels=1)
    if name.startswith(("reduce_window", "cum")):
        return Work(running=made, stored=2 * made, kernels=SCAN_KERNELS)
    if name.startswith(("reduce_", "argm")) and name != "reduce_precision":
        return Work(operations=read, stored=2 * made, kernels=1)
    if name in SLOW:
        return Work(operations=made, calls=made)
    return Work(operations=made)


def iterate_equations(jaxpr: Any, times: int = 1) -> Iterator[tuple[Any, int]]:
    """Yield each equation of a jaxpr and of those inside, and how often it runs."""
    for equation in jaxpr.eqns:
        inner = inner_jaxprs(equation)
        iterations = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        for x in inner:
            yield from iterate_equations(x, times * iterations)
        if not inner or iterations > 1:  # a scan makes histories, too
            yield equation, times


def inner_jaxprs(equation: Any) -> list[Any]:
    """Return the jaxprs that an equation runs."""
    given = [value for name, value in equation.params.items() if name != "update_jaxpr"]
    found = jax.tree_util.tree_leaves(given, is_leaf=_is_jaxpr)
    return [getattr(x, "jaxpr", x) for x in found if _is_jaxpr(x)]


def _is_jaxpr(x: Any) -> bool:
    """Return whether a parameter of an equation is a jaxpr."""
    return hasattr(getattr(x, "jaxpr", x), "eqns")


def _count_entries(variable: Any) -> int:
    """Return the number of entries of a variable."""
    return prod(getattr(variable.aval, "shape", ()))
