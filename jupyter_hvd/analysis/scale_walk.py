"""The interface between the walk of the scale analysis and the modules that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import libcst as cst

from .definitions import Definition
from .exponents import Exponent
from .index import Binding
from .scale_constants import Constants
from .scale_findings import Agreeing, Found, Scale
from .scale_frequencies import Frequencies
from .scale_recurrences import Recurrences
from .scale_signatures import ScaleLibrary
from .values import ValueAnalysis
from .whole_numbers import WholeNumbers


class Walk(Protocol):
    """The walk that finds how expressions scale.

    Attributes:
        found: what it has found. whole: which numbers are whole. frequencies: how often statements run.
    """

    values: ValueAnalysis
    library: ScaleLibrary
    found: Found
    whole: WholeNumbers
    recurrences: Recurrences
    constants: Constants
    frequencies: Frequencies

    def scale(self, node: cst.BaseExpression) -> Scale:
        """How an expression scales."""

    def element(self, sequence: Scale) -> Scale | None:
        """How any element of a sequence scales."""

    def numbers(self, node: cst.BaseExpression) -> Scale:
        """How an expression scales, and, if it is a list, each number in it."""

    def agree(
        self,
        kind: Agreeing,
        place: cst.BaseExpression,
        left: cst.BaseExpression,
        right: cst.BaseExpression,
    ) -> Exponent:
        """The exponent of the result of two operands that must have the same exponent."""

    def sink(
        self,
        node: cst.BaseExpression,
        expected: Exponent,
        reason: str,
        is_epochs: bool = False,
    ) -> None:
        """A number that a library takes, or a list of numbers."""

    def note_size(self, node: cst.BaseExpression, count: Exponent) -> None:
        """A number that is multiplied by a count: of rows, if it is the size of a batch."""

    def count(self, iterable: cst.BaseExpression) -> Exponent:
        """The exponent of a length that nothing tells."""

    def qualified(self, call: cst.Call) -> str:
        """The full name of the function that is called."""

    def opaque(self, call: cst.Call) -> Scale:
        """The result of an unknown function."""

    def outside(self, node: cst.BaseExpression) -> Scale:
        """A number that comes from outside the program."""

    def is_external(self, node: cst.BaseExpression) -> bool:
        """Whether a number comes from outside the program."""

    def unseen(self, node: cst.BaseExpression, *operands: cst.BaseExpression) -> Exponent:
        """The exponent of what an unknown operator gives."""

    def any_of(self, scales: tuple[Scale, ...]) -> Scale | None:
        """How a value scales that may be any of several."""

    def join(self, scales: Sequence[Scale], node: cst.CSTNode) -> Scale:
        """The exponent of an expression that may be any of several."""

    def join_definitions(self, definitions: Sequence[object], node: cst.CSTNode) -> Scale:
        """How a variable scales that one of some definitions sets."""

    def of_binding(self, binding: Binding) -> Scale:
        """How what a binding binds scales."""

    def reaching(self, name: cst.Name) -> list[Definition]:
        """The definitions that a name may hold; none where it has too many to be followed."""

    def has_few(self, name: cst.Name) -> bool:
        """Whether the definitions of a name are followed."""

    def flow(self, target: Exponent, source: Exponent, node: cst.CSTNode, reason: str = "") -> None:
        """Note that a value is handed on."""

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """The statement of an expression; of a loop's own variable, a node in its body."""
