"""A tensor function at given types: what everything after tracing starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from .derivative.matrices import expand_bodies
from .derivative.transforms import Pulled
from .frontend.tracing.trace_result import Traced
from .language.depth import deep_recursion
from .language.provenance import Origin, carry_origins
from .language.terms import Lambda, Term
from .language.types import Layout, Parameter, Type
from .ssa.array_contraction import CarriedArray, contract_arrays, find_carried_arrays
from .ssa.convert import to_ssa
from .ssa.loop_hoisting import hoist_loop_invariants
from .ssa.normalize import normalize
from .ssa.program import Program
from .ssa.repeated_axes import drop_repeated_axes
from .ssa.resolved_derivatives import resolve_markers, resolve_markers_in_term
from .ssa.simplify import simplify


@dataclass(frozen=True)
class Primal:
    """The function whose derivative this is, so that JAX's own differentiation can be tried as a candidate.

    `pulled` is None where it is that function itself.
    """

    function: Lambda
    ssa: Program
    pulled: Pulled | None = None


@dataclass(frozen=True, eq=False)
class Instance:
    """A tensor function at given types: its program, its Tensor SSA, and the layout of its result.

    `checked` is the source function whose reads and lookups are checked at each call: this one, or the one of which it is a
    derivative. `derived` is the SSA of a derivative, and `base` the instance that it is the derivative of, where that
    defines it completely.
    """

    parameters: tuple[Parameter, ...]
    traced: Traced
    checked: Traced
    derived: Program | None = None
    base: Primal | None = None

    @property
    def primal(self) -> Primal | None:
        """The function from which JAX can compute the same result; None where it cannot."""
        return Primal(self.traced.function, self.ssa) if self.derived is None else self.base

    @cached_property
    @deep_recursion()
    def function(self) -> Lambda:
        """The traced function, not simplified; markers of differentiation (`stopped`, `tangent`) are resolved."""
        whole = self.traced.function
        return replace(whole, body=resolve_markers_in_term(whole.body))

    @property
    def type(self) -> Type:
        """The result's type, with arrays of tuples as in the program."""
        return self.function.body.type

    @property
    def layout(self) -> Layout:
        return self.traced.layout

    @property
    def has_markers(self) -> bool:
        """Whether it contains markers such as `stopped`, which only direct the differentiation."""
        return self.function != self.traced.function

    @cached_property
    @deep_recursion()
    def differentiable(self) -> Program:
        """The simplified Tensor SSA with the markers that direct differentiation."""
        if self.derived is not None:
            return self.derived
        program = self.simplified
        with carry_origins(self._origins()):
            fewer = drop_repeated_axes(program)
            filled = contract_arrays(program if fewer is program else simplify(fewer))
            hoisted = hoist_loop_invariants(filled)
            return filled if hoisted is filled else simplify(hoisted)

    @cached_property
    @deep_recursion()
    def simplified(self) -> Program:
        """The simplified Tensor SSA, with markers, whose arrays still have the axes along which their entries repeat."""
        if self.derived is not None:
            return self.derived
        with carry_origins(self._origins()):
            return simplify(to_ssa(normalize(self.traced.function.body)))

    def _origins(self) -> dict[Term, Origin]:
        """The source position of each term."""
        return {term: Origin(place=place) for term, place in self.traced.places.items()}

    @cached_property
    @deep_recursion()
    def written(self) -> Program:
        """As `ssa`, with the loops as they are written: advice is about these."""
        return resolve_markers(self.simplified)

    @cached_property
    @deep_recursion()
    def ssa(self) -> Program:
        """The simplified Tensor SSA without markers."""
        return resolve_markers(self.differentiable)

    @cached_property
    @deep_recursion()
    def carried_arrays(self) -> tuple[CarriedArray, ...]:
        """The arrays that loops of the program, or of the one that it is a derivative of, copy in each iteration."""
        primal = self.primal
        found = find_carried_arrays(self.ssa if primal is None else primal.ssa)
        return tuple({(str(one), one.place): one for one in found}.values())

    @cached_property
    @deep_recursion()
    def computed(self) -> Program:
        """The Tensor SSA with the bodies of array-level functions inlined; what is zero or unused is dropped."""
        whole = expand_bodies(self.ssa)
        return whole if whole is self.ssa else simplify(whole)
