"""Loops over few numbers as one kernel of XLA for CPUs.

XLA runs each fusion, copy and slice of an iteration as a kernel, at 0.05 to 0.1 µs each. So a loop whose iterations compute a few
numbers in many kernels waits for these. XLA compiles a `while` loop as one function only if an iteration reads and writes less
than 1 kB. It marks the call of that function by a frontend attribute, and here larger loops are calls with this attribute.

XLA cannot compile some operations inside such a call: what it leaves to a library, such as products of matrices, and sorting and
scattering. So a loop is checked first, as JAX has traced it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from ..lowering.plan import are_few
from .jaxpr_cost import inner_jaxprs, iterate_equations

MANY = (
    1000  # operations of an iteration, beyond which XLA takes long to compile one function of them
)

#: JAX's operations that XLA for CPUs compiles inside any function.
COMPILED_INLINE = frozenset(
    "abs acos acosh add add_any and argmax argmin asin asinh atan atan2 atanh broadcast_in_dim cbrt ceil clamp "
    "closed_call concatenate convert_element_type copy cos cosh custom_jvp_call custom_vjp_call digamma div "
    "dynamic_slice dynamic_update_slice eq erf erf_inv erfc exp exp2 expand_dims expm1 floor gather ge gt "
    "in_one_kernel integer_pow iota is_finite jit le lgamma log log1p logistic lt max min mul ne neg nextafter not "
    "or pad pjit pow reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum rem reshape rev round rsqrt "
    "scan select_n sign sin sinh slice split sqrt square squeeze stack stop_gradient sub tan tanh tile transpose "
    "while xor".split()
)
VIEWS = frozenset("dynamic_slice gather reshape slice squeeze".split())


def in_one_kernel(loop: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a loop, compiled as one kernel on CPUs if an iteration computes few numbers.

    Args:
        loop: returns what one `lax.scan` returns.
    """
    traced, shapes = jax.make_jaxpr(loop, return_shape=True)(*arguments)
    given = [*traced.consts, *jax.tree_util.tree_leaves(arguments)]

    def run(*arrays: Any) -> list[Any]:
        count = len(traced.consts)
        found: Any = jaxpr_as_fun(ClosedJaxpr(traced.jaxpr, arrays[:count]))(*arrays[count:])
        return list(found)

    if is_small(traced.jaxpr) and all(map(jnp.size, given)):
        # XLA aborts where a function does not read an argument: it may find out by itself that a loop does not need one.
        found = jax.jit(lambda *arrays: [*run(*arrays), _read_all(arrays)])(*given)
        *found, _ = marked_p.bind(*found)
    else:
        found = run(*given)
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shapes), found)


def _read_all(arrays: Sequence[Any]) -> Any:
    """Return a number that depends on an entry of each array."""
    return sum(jnp.ravel(x)[0].astype(jnp.float32) for x in arrays)


def is_small(jaxpr: Any) -> bool:
    """Return whether the loops of a jaxpr compute few numbers in an iteration, by operations that XLA compiles inside any
    function.
    """
    loops = [equation for equation in jaxpr.eqns if equation.primitive.name == "scan"]
    bodies = [loop.params["jaxpr"].jaxpr for loop in loops]  # none under `jax.disable_jit`
    equations = [equation for body in bodies for equation, _ in iterate_equations(body)]
    few = 0 < len(equations) <= MANY and are_few([*map(_count_entries, equations)])
    return few and all(map(_is_compiled_inline, bodies))


def _is_compiled_inline(jaxpr: Any) -> bool:
    """Return whether all operations of a jaxpr, also inside others, are known to be compiled inside any function."""
    return all(
        equation.primitive.name in COMPILED_INLINE
        and all(map(_is_compiled_inline, inner_jaxprs(equation)))
        for equation in jaxpr.eqns
    )


def _count_entries(equation: Any) -> int:
    """Return the number of entries of the largest array that an equation makes or, if it is no view, reads."""
    is_view = equation.primitive.name in VIEWS
    variables = equation.outvars if is_view else [*equation.outvars, *equation.invars]
    return max((prod(getattr(x.aval, "shape", ())) for x in variables), default=0)


# The mark


#: The identity of what a call returns, by which XLA compiles the call as one kernel.
marked_p = Primitive("in_one_kernel")
marked_p.multiple_results = True
marked_p.def_impl(lambda *arrays: list(arrays))
marked_p.def_abstract_eval(lambda *types: list(types))

ATTRIBUTES = {"inlineable": "false", "xla_cpu_small_call": "true"}


def _mark_call(_: Any, *arrays: Any) -> Any:
    """Mark the call that makes the arrays."""
    for array in arrays:
        call = array.owner
        if getattr(call, "name", "") == "func.call":
            strings = {x: mlir.ir.StringAttr.get(text) for x, text in ATTRIBUTES.items()}
            call.attributes["mhlo.frontend_attributes"] = mlir.ir.DictAttr.get(strings)
            break
    return arrays


def _differentiate(arrays: Any, tangents: Any) -> tuple[Any, Any]:
    """Return the marked arrays, and the tangents as they are: they may be scattered."""
    return marked_p.bind(*arrays), list(tangents)


def _batch(arrays: Any, axes: Any, **_: Any) -> tuple[Any, Any]:
    """Return the arrays without the mark: batches are larger, and what was sliced may be gathered and scattered."""
    return arrays, axes


ad.primitive_jvps[marked_p] = _differentiate
batching.primitive_batchers[marked_p] = _batch
mlir.register_lowering(marked_p, lambda _, *arrays: arrays)
# Newer JAX caches how it lowers a primitive, as a function, in which no call is to be seen.
uncached = {"cacheable"} & signature(mlir.register_lowering).parameters.keys()
mlir.register_lowering(marked_p, _mark_call, platform="cpu", **dict.fromkeys(uncached, False))
