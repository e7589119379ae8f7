"""The derivatives of a tensor function, from the SSA and the types of the function to those of the
derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..language.errors import TensorError
from ..language.pairs import soa
from ..language.predicates import fresh
from ..language.provenance import carry_origins
from ..language.terms import (
    Binders,
    Const,
    Term,
    Var,
    gens,
    guard,
    in_ranges,
    index_names,
    indices_equal,
    number_binders,
)
from ..language.types import Array, Layout, Parameter, Product, Real, Type
from ..ssa.convert import to_ssa, to_term
from ..ssa.loop_hoisting import distribute_loops
from ..ssa.normalize import normalize
from ..ssa.program import Program
from ..ssa.simplify import simplify
from .forward import derivative
from .reverse import Checkpoint, adjoint


class Differentiable(Protocol):
    """The input of differentiation: a program with the types of its parameters and of its result."""

    @property
    def parameters(self) -> tuple[Parameter, ...]: ...
    @property
    def type(self) -> Type: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def differentiable(self) -> Program: ...


@dataclass(frozen=True)
class Pulled:
    """Describes a derivative as the reverse one by the parameters `wrt`: its seed and its results."""

    wrt: tuple[str, ...]
    with_value: bool = False
    by_cotangent: bool = False


@dataclass(frozen=True)
class Derivative:
    """A derivative: its simplified SSA, the parameters that it adds, and its result's layout.

    `pulled` describes it, where another way to compute it gives the same result and stores no more.
    """

    program: Program
    extra: tuple[Parameter, ...]
    layout: Layout
    pulled: Pulled | None = None


def gradient(
    function: Differentiable,
    wrt: tuple[str, ...],
    *,
    value: bool = False,
    has_aux: bool = False,
    checkpoint: Checkpoint = False,
) -> Derivative:
    """Return the gradient of a scalar by the parameters `wrt`, nested pairs for several; with `value`, the pair of value and
    gradient.

    With `has_aux` the function returns a pair of the scalar and anything else, which is returned too: `(gradient, aux)`, or
    `((value, aux), gradient)`.
    """
    program = _reverse(function, wrt, None, checkpoint, keep=value, has_aux=has_aux)
    layout = _gradient_layout(function, wrt)
    if value:
        layout = (function.layout, layout)
    elif has_aux:
        assert function.layout is not None
        layout = (layout, function.layout[1])
    pulled = None if checkpoint or has_aux else Pulled(wrt, with_value=value)
    return Derivative(program, (), layout, pulled)


def pullback(
    function: Differentiable, wrt: tuple[str, ...], *, checkpoint: Checkpoint = False
) -> Derivative:
    """Return the adjoint derivative (vjp): takes one more parameter, the cotangent `dy` of the result.

    It returns the cotangents of the parameters `wrt`.
    """
    type_ = soa(function.type)
    dy = fresh("dy", {p.name for p in function.parameters})
    program = _reverse(function, wrt, (dy, type_), checkpoint)
    extra = (Parameter(dy, type_, function.layout),)
    pulled = None if checkpoint else Pulled(wrt, by_cotangent=True)
    return Derivative(program, extra, _gradient_layout(function, wrt), pulled)


def _reverse(
    function: Differentiable,
    wrt: tuple[str, ...],
    seed: tuple[str, Type] | None,
    checkpoint: Checkpoint,
    **results: bool,
) -> Program:
    """Return the simplified adjoint. Without checkpoints, loops may store rows that need not wait for an iteration."""
    program = function.differentiable
    distributed = program if checkpoint else distribute_loops(program)
    if distributed is not program:
        program = simplify(distributed)
    found = adjoint(program, real_parameters(function, wrt), seed, checkpoint=checkpoint, **results)
    return simplify(found)


def pushforward(function: Differentiable, wrt: tuple[str, ...]) -> Derivative:
    """Return the forward derivative (jvp): takes one more parameter for each of `wrt`, its differential `dx`.

    It returns the differential of the result.
    """
    taken = {p.name for p in function.parameters}
    layouts = {p.name: p.layout for p in function.parameters}
    extra: list[Parameter] = []
    sigma: dict[str, Term] = {}
    for x, type_ in real_parameters(function, wrt):
        dx = fresh(f"d{x}", taken)
        taken.add(dx)
        extra.append(Parameter(dx, type_, layouts[x]))
        sigma[x] = Var(dx, type_)
    with carry_origins({}):
        moved = to_ssa(normalize(derivative(to_term(function.differentiable), sigma)))
        return Derivative(simplify(moved), tuple(extra), function.layout)


def real_parameters(function: Differentiable, wrt: tuple[str, ...]) -> tuple[tuple[str, Type], ...]:
    """Return the parameters to differentiate by, with their types.

    Raises TensorError where one is a relation, an index array or an integer.
    """
    types = {p.name: p.type for p in function.parameters}
    made = []
    for x in wrt:
        type_ = types.get(x)
        if not isinstance(type_, Real | Array | Product):
            message = f"`{x}` is not a real parameter, so there is no derivative by it"
            raise TensorError(message, "pass floats")
        made.append((x, type_))
    return tuple(made)


def _gradient_layout(function: Differentiable, wrt: tuple[str, ...]) -> Layout:
    """Return the layout of a gradient: that of the parameter, or a tuple of several."""
    layouts = {p.name: p.layout for p in function.parameters}
    return layouts[wrt[0]] if len(wrt) == 1 else tuple(layouts[x] for x in wrt)


def one_hot(outer: Binders) -> Term:
    """Return `⊞k. [k=h]·1` over the dimensions of h."""
    inner = number_binders("k", in_ranges(outer))
    return gens(inner, guard(indices_equal(inner, index_names(outer)), Const(1)))
