"""A forward derivative as linear statements: what a sparse Jacobian is made of.

The SSA of `D⟦e|x↦dx⟧` consists of statements that do not depend on dx, the *values*, and of those that do,
the *tangents*. A tangent is linear in dx. Where each is an addition or a contraction with one tangent among its factors,
the Jacobian of each by x follows from those before it, entry by entry of their supports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ..language.affine import Affine
from ..language.depth import deep_recursion
from ..language.errors import TensorError
from ..language.predicates import (
    TRUE,
    Predicate,
    conj,
    disj,
    exists_all,
    fresh,
    without_relations,
)
from ..language.predicates import substitute as substituted
from ..language.provenance import carry_origins
from ..language.terms import Binders, Let, Var, entry, gens, index_names, number_binders, substitute
from ..language.types import Product, Type, array, dimensions
from ..polyhedral import sets
from ..ssa.convert import to_ssa, to_term
from ..ssa.normalize import normalize
from ..ssa.program import (
    Addition,
    Contraction,
    Factor,
    Input,
    Map,
    Program,
    Rhs,
    operands,
    pointwise,
)
from ..ssa.simplify import simplify
from .forward import derivative
from .transforms import Derivative, Differentiable, one_hot, real_parameters


@dataclass(frozen=True)
class Addend:
    """`⊞g Σs. [mask]·T[indices]·X[…]`: what one tangent T contributes to another, times the entry of a value, if any."""

    sums: Binders
    mask: Predicate
    tangent: str
    indices: tuple[Affine, ...]
    value: Factor | None = None


@dataclass(frozen=True)
class Linearization:
    """The forward derivative of a function by one parameter.

    It holds a program, the variable that is the differential, and the variables that depend on it, in order.
    """

    program: Program
    seed: str | None
    tangents: tuple[str, ...]
    argument: tuple[Affine, ...]
    result: tuple[Affine, ...]

    @property
    def has_addends(self) -> bool:
        """Whether each tangent is a sum of entries of others, which those of loops are not."""
        known, kept = frozenset(self.tangents), self.statements
        return all(
            tangent_addends(kept[x], known) is not None for x in self.tangents if x != self.seed
        )

    @cached_property
    def statements(self) -> Mapping[str, Rhs]:
        """The right-hand side of each variable."""
        return {s.name: s.rhs for s in self.program.statements}

    def factor_variables(self) -> Iterator[str]:
        """Yield the variables by which tangents are multiplied."""
        known = frozenset(self.tangents)
        for x in self.tangents:
            for addend in tangent_addends(self.statements[x], known) or ():
                if addend.value is not None:
                    yield addend.value.name


@deep_recursion()
def linearize_by(function: Differentiable, name: str) -> Linearization:
    """Compute the forward derivative by one parameter. Raises TensorError where the parameter or the result is a tuple."""
    type_ = _require_array(function, name)
    dx = fresh(f"d{name}", {p.name for p in function.parameters})
    program = _derive_forward(function, name, dx, type_)
    known: list[str] = []
    seed = None
    for statement in program.statements:
        rhs = statement.rhs
        if isinstance(rhs, Input) and rhs.parameter == dx:
            seed = statement.name
            known.append(seed)
        elif not {*operands(rhs)}.isdisjoint(known):
            known.append(statement.name)
    program = _mask_by_values(program, frozenset(known))
    return Linearization(program, seed, tuple(known), dimensions(type_), dimensions(function.type))


def _mask_by_values(program: Program, tangents: frozenset[str]) -> Program:
    """Mask each tangent to the support of the value that it is multiplied by.

    Relations in a value's support count as true: the value itself shows what they decide.
    """
    supports: dict[str, Predicate] = {}  # those that are not the whole box
    gens_of: dict[str, Binders] = {}

    def support_of_entry(factor: Factor) -> Predicate:
        """Return the support of an entry."""
        names = index_names(gens_of[factor.name])
        at = dict(zip(names, factor.indices, strict=True))
        return substituted(supports.get(factor.name, TRUE), at)

    kept = []
    for statement in program.statements:
        rhs = statement.rhs
        gens_of[statement.name] = rhs.gens
        if statement.name not in tangents:
            p = sets.simplify(_support_of_rhs(rhs, support_of_entry), rhs.gens)
            if p != TRUE:
                supports[statement.name] = p
        elif isinstance(rhs, Contraction):
            values = (f for f in rhs.factors if f.name in supports)
            p = conj(rhs.mask, *map(support_of_entry, values))
            if p != rhs.mask:
                p = sets.simplify(p, (*rhs.gens, *rhs.sums))
                statement = replace(statement, rhs=replace(rhs, mask=p))
        kept.append(statement)
    return Program(tuple(kept), program.output)


def _support_of_rhs(rhs: Rhs, read: Callable[[Factor], Predicate]) -> Predicate:
    """Return a predicate without relations that is false only where a variable is zero; `read` gives that of the entries it
    reads.
    """
    match rhs:
        case Map():
            return without_relations(rhs.mask)
        case Addition():
            here = pointwise(rhs.gens)
            halves = (rhs.left_mask, rhs.left), (rhs.right_mask, rhs.right)
            return disj(*(conj(without_relations(p), read(Factor(x, here))) for p, x in halves))
        case Contraction():
            inside = conj(without_relations(rhs.mask), *map(read, rhs.factors))
            return exists_all(rhs.sums, inside)
    return TRUE


def _derive_forward(function: Differentiable, name: str, dx: str, type_: Type) -> Program:
    """Return the SSA of the forward derivative by one parameter, whose differential is the parameter `dx`."""
    with carry_origins({}):
        moved = derivative(to_term(function.differentiable), {name: Var(dx, type_)}, fused=False)
        return simplify(to_ssa(normalize(moved)))


def _require_array(function: Differentiable, name: str) -> Type:
    """Return the type of a parameter.

    Raises:
        TensorError: the parameter or the result is a tuple.
    """
    ((_, type_),) = real_parameters(function, (name,))
    if isinstance(type_, Product) or (type_ != real_array(type_)):
        raise TensorError(f"`{name}` is a tuple", "differentiate by one array at a time")
    if isinstance(function.type, Product) or function.type != real_array(function.type):
        raise TensorError(
            "the function returns a tuple", "return one array, or differentiate one part"
        )
    return type_


def real_array(type_: Type) -> Type:
    """Return the type of a real array with the dimensions of a type."""
    return array(dimensions(type_))


def tangent_addends(rhs: Rhs, tangents: frozenset[str]) -> tuple[Addend, ...] | None:
    """Return the addends of a tangent; None where it is not a sum of addends."""
    match rhs:
        case Input():
            return ()
        case Addition():
            here = pointwise(rhs.gens)
            halves = (rhs.left_mask, rhs.left), (rhs.right_mask, rhs.right)
            if not {rhs.left, rhs.right} <= tangents:
                return None
            return tuple(Addend((), p, x, here) for p, x in halves)
        case Contraction():
            moving = [f for f in rhs.factors if f.name in tangents]
            if len(moving) != 1:
                return None
            (tangent,) = moving
            value = next((f for f in rhs.factors if f is not tangent), None)
            return (Addend(rhs.sums, rhs.mask, tangent.name, tangent.indices, value),)
    return None


@deep_recursion()
def dense_jacobian(function: Differentiable, name: str, *, symmetric: bool = False) -> Derivative:
    """Apply `D⟦e⟧` to every one-hot array of one parameter: the result's dimensions, then the parameter's.

    For a `symmetric` Jacobian the order does not matter. Simplification removes the one-hot arrays.
    """
    type_ = _require_array(function, name)
    taken = {p.name for p in function.parameters}
    hot, columns = fresh("hot", taken), fresh("columns", taken)
    outer, inner = (
        number_binders("h", dimensions(type_)),
        number_binders("r", dimensions(function.type)),
    )
    with carry_origins({}):
        moved = derivative(to_term(function.differentiable), {name: Var(hot, type_)})
        body = gens(outer, substitute(moved, {hot: one_hot(outer)}))
        if not symmetric:
            turned = entry(Var(columns, body.type), *map(Affine.of, index_names((*outer, *inner))))
            body = Let(columns, body, gens(inner, gens(outer, turned)))
        return Derivative(simplify(to_ssa(normalize(body))), (), None)
