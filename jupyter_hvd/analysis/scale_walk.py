"""The interface between the walk of the scale analysis and the modules that it calls."""

from __future__ import annotations

from typing import Protocol

import libcst as cst

from .exponents import Exponent
from .scale_findings import Agreeing, Found, Scale


class Walk(Protocol):
    """The walk that finds how expressions scale.

    Attributes:
        found: what it has found.
    """

    found: Found

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
