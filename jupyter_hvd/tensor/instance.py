"""A tensor function at given types: what everything after tracing starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from .derivative.matrices import expand_bodies
from .derivative.transforms import Pulled
from .frontend.tracing.trace_result import Traced
from .language.depth import deep_recursion
from .language.provenance import Origin, carry_origins
from .language.terms import Lambda
from .language.types import Layout, Parameter, Type
from .ssa.array_contraction import contract_arrays
from .ssa.convert import to_ssa
from .ssa.normalize import normalize
from .ssa.program import Program
from .ssa.repeated_axes import drop_repeated_axes
from .ssa.resolved_derivatives import resolve_markers, resolve_markers_in_term
from .ssa.simplify import simplify


@dataclass(frozen=True)
class Primal:
    """The function that a derivative is of, by which JAX's own way to compute it is found. `pulled` is None where it
    is that function.
    """

    function: Lambda
    ssa: Program
    pulled: Pulled | None = None


@dataclass(frozen=True, eq=False)
class Instance:
    """A tensor function at given types: its program, its Tensor SSA, and how its result is laid
    out.

    `checked` is the function as written, whose reads and lookups are checked at each call: this
    one, or the one that it is a derivative of. `derived` is the SSA of a derivative, and `base` what it is
    the derivative of, where that says all about it.
    """

    parameters: tuple[Parameter, ...]
    traced: Traced
    checked: Traced
    derived: Program | None = None
    base: Primal | None = None

    @property
    def primal(self) -> Primal | None:
        """The function by which it can be computed otherwise; None where it cannot."""
        return Primal(self.traced.function, self.ssa) if self.derived is None else self.base

    @cached_property
    @deep_recursion()
    def function(self) -> Lambda:
        """The program of what is computed."""
        whole = self.traced.function
        return replace(whole, body=resolve_markers_in_term(whole.body))

    @property
    def type(self) -> Type:
        """Of the result, its arrays of tuples as the program has them."""
        return self.function.body.type

    @property
    def layout(self) -> Layout:
        return self.traced.layout

    @property
    def says_how(self) -> bool:
        """Whether something in it is not computed, but says how to differentiate what is."""
        return self.function != self.traced.function

    @cached_property
    @deep_recursion()
    def differentiable(self) -> Program:
        """The Tensor SSA, simplified, with what says how to differentiate it."""
        if self.derived is not None:
            return self.derived
        places = {term: Origin(place=place) for term, place in self.traced.places.items()}
        with carry_origins(places):
            program = simplify(to_ssa(normalize(self.traced.function.body)))
            fewer = drop_repeated_axes(program)
            return contract_arrays(program if fewer is program else simplify(fewer))

    @cached_property
    @deep_recursion()
    def ssa(self) -> Program:
        """The Tensor SSA of what is computed."""
        return resolve_markers(self.differentiable)

    @cached_property
    @deep_recursion()
    def computed(self) -> Program:
        """As `ssa`, with the bodies of array-level functions, where what is zero or not needed is not computed."""
        whole = expand_bodies(self.ssa)
        return whole if whole is self.ssa else simplify(whole)
