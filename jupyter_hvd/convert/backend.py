"""The interface of backends: the Python that rules write for ranks, sizes and collective operations.

Each answer is the text of an expression in the converted program. A backend knows no rules, and not where its text goes.
"""

from __future__ import annotations

from typing import Protocol


class Backend(Protocol):
    """A library that ranks average and agree through."""

    @property
    def rank(self) -> str:
        """This rank's number, from 0."""

    @property
    def size(self) -> str:
        """How many ranks there are."""

    @property
    def is_rank_zero(self) -> str:
        """Whether this is the first rank."""
