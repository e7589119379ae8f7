"""What the rest of the converter asks of a framework.

A framework tells the analysis what its functions give (`analysis.library.Library`), and reads from
that how a program trains, and on what. Rules are written for a framework and a backend,
and ask the framework's own program for more than stands here.
"""

from __future__ import annotations

from typing import Literal, Protocol

from ..analysis.module import Module
from ..analysis.values import ValueAnalysis

#: How a program trains: by tapes and optimizers of its own, by Keras' `fit`, by both, or not at all.
TrainingLoop = Literal["gradient_tape", "keras_fit", "both", "none"]


class Program(Protocol):
    """A program as a framework reads it."""

    module: Module

    @property
    def values(self) -> ValueAnalysis:
        """What its expressions may hold."""

    @property
    def loop(self) -> TrainingLoop:
        """How it trains."""


class Framework(Protocol):
    """A library that programs train with.

    Attributes:
        name: as users know it.
        package: the top-level module that is imported.
    """

    name: str
    package: str

    def read(self, module: Module) -> Program:
        """What there is to know about a program."""
