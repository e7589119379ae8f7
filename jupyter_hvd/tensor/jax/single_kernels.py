"""Loops over few numbers as one kernel of XLA for CPUs.

XLA runs each fusion, copy and slice of an iteration as a kernel, at 0.05 to 0.1 µs each. So a loop whose iterations compute a few
numbers in many kernels waits for these. XLA compiles a `while` loop as one function only if an iteration reads and writes less
than 1 kB. It marks the call of that function by a frontend attribute, and here larger loops are calls with this attribute.

XLA cannot compile some operations inside such a call: what it leaves to a library, such as products of matrices, and sorting and
scattering. So a loop is checked first, as JAX has traced it.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from math import prod
from typing import Any

import jax
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from ..lowering.plan import FEW
from .jaxpr_cost import iterate_equations

MANY = 1000  # operations of an iteration, beyond which XLA takes long to compile one function of them

#: JAX's operations that XLA for CPUs compiles inside any function.
COMPILED_INLINE = frozenset(
    "abs acos acosh add add_any and argmax argmin asin asinh atan atan2 atanh broadcast_in_dim cbrt ceil clamp closed_call concatenate "
    "cond convert_element_type copy cos cosh custom_jvp_call custom_vjp_call digamma div dynamic_slice dynamic_update_slice eq "
    "erf erf_inv erfc exp exp2 expand_dims expm1 floor gather ge gt in_one_kernel integer_pow iota is_finite jit le lgamma log log1p logistic lt max "
    "min mul ne neg nextafter not or pad pjit pow reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum rem reshape rev "
    "round rsqrt scan select_n sign sin sinh slice sqrt square squeeze stop_gradient sub tan tanh transpose while xor".split()
)
VIEWS = frozenset("dynamic_slice gather reshape slice squeeze".split())


def in_one_kernel(loop: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a loop, compiled as one kernel on CPUs if an iteration computes few numbers.

    Args:
        loop: returns what one `lax.scan` returns.
    """
    traced, shapes = jax.make_jaxpr(loop, return_shape=True)(*arguments)
    run: Callable[..., Any] = jaxpr_as_fun(traced)
    given = jax.tree_util.tree_leaves(arguments)
    if is_small(traced.jaxpr):
        found = marked_p.bind(*jax.jit(run)(*given))
    else:
        found = run(*given)
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shapes), found)


def is_small(jaxpr: Any) -> bool:
    """Return whether the loops of a jaxpr compute few numbers in an iteration, by operations that XLA compiles inside any
    function.
    """
    (loop,) = [equation for equation in jaxpr.eqns if equation.primitive.name == "scan"]
    equations = [equation for equation, _ in iterate_equations(loop.params["jaxpr"].jaxpr)]
    return len(equations) <= MANY and all(map(_is_small_equation, equations))


def _is_small_equation(equation: Any) -> bool:
    """Return whether an equation makes few numbers from few numbers, by an operation that XLA compiles inside any function."""
    name = equation.primitive.name
    if name not in COMPILED_INLINE:
        return False
    variables = equation.outvars if name in VIEWS else [*equation.outvars, *equation.invars]
    return all(prod(getattr(x.aval, "shape", ())) <= FEW for x in variables)


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
