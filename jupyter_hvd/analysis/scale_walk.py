"""The interface between the walk of the scale analysis and the modules that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import libcst as cst

from .definitions import Definition
from .exponents import Exponent
from .index import Binding
from .scale_constants import Constants
from .scale_findings import Agreeing, Findings, Scale
from .scale_frequencies import Frequencies
from .scale_recurrences import Recurrences
from .scale_signatures import ScaleLibrary
from .values import ValueAnalysis
from .whole_numbers import WholeNumbers


class ScaleWalk(Protocol):
    """What the modules of the scale analysis ask of the walk over a program (`ScaleInference`).

    Attributes:
        found: the findings so far. whole: which numbers are integers. frequencies: how often statements run.
    """

    values: ValueAnalysis
    library: ScaleLibrary
    found: Findings
    whole: WholeNumbers
    recurrences: Recurrences
    constants: Constants
    frequencies: Frequencies

    def scale(self, node: cst.BaseExpression) -> Scale:
        """Return how an expression scales."""

    def element(self, sequence: Scale) -> Scale | None:
        """Return how any element of a sequence scales; None if unknown."""

    def numbers(self, node: cst.BaseExpression) -> Scale:
        """Return how an expression scales; for a list, how each number in it scales."""

    def agree(
        self,
        kind: Agreeing,
        place: cst.BaseExpression,
        left: cst.BaseExpression,
        right: cst.BaseExpression,
    ) -> Exponent:
        """Return the exponent of the result of two operands that must have the same exponent."""

    def note_sink(
        self,
        node: cst.BaseExpression,
        expected: Exponent,
        reason: str,
        is_epochs: bool = False,
    ) -> None:
        """Record that a library takes a number, or a list of numbers, of this exponent."""

    def note_size(self, node: cst.BaseExpression, count: Exponent) -> None:
        """Record a number that is written like a batch size and multiplied by a count."""

    def new_length(self, iterable: cst.BaseExpression) -> Exponent:
        """Return a new unknown for the length of an iterable."""

    def note_draws(self, generator: cst.CSTNode, often: Exponent) -> None:
        """Record that a generator yields as often as `next` is called with it."""

    def qualified(self, call: cst.Call) -> str:
        """Return the canonical name of the called function, or ''."""

    def scale_opaque_call(self, call: cst.Call) -> Scale:
        """Return how the result of an unknown function scales."""

    def scale_unknown_source(self, node: cst.BaseExpression) -> Scale:
        """Return how a number from outside the program scales; for an expression without any known source, an unknown."""

    def is_external(self, node: cst.BaseExpression) -> bool:
        """Whether a number comes from outside the program."""

    def scale_opaque_operator(
        self, node: cst.BaseExpression, *operands: cst.BaseExpression
    ) -> Exponent:
        """Return the exponent of the result of an unknown operator."""

    def any_of(self, scales: tuple[Scale, ...]) -> Scale | None:
        """Return how a value scales that may be any of several; None for none."""

    def join(self, scales: Sequence[Scale], node: cst.CSTNode) -> Scale:
        """Return how an expression scales that may be any of several."""

    def join_definitions(self, definitions: Sequence[object], node: cst.CSTNode) -> Scale:
        """Return how a variable scales that one of some definitions sets."""

    def of_binding(self, binding: Binding) -> Scale:
        """Return how the value of a binding scales."""

    def reaching(self, name: cst.Name) -> list[Definition]:
        """Return the definitions that a name may hold; [] if it has too many to follow."""

    def has_few(self, name: cst.Name) -> bool:
        """Whether a name has few enough assignments to follow."""

    def note_flow(
        self, target: Exponent, source: Exponent, node: cst.CSTNode, reason: str = ""
    ) -> None:
        """Record that a value flows from one expression to another, so that their exponents are equal."""

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the statement of an expression; for a loop's variable, the first statement of the loop's body."""
