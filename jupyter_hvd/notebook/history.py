"""The cells that have run in a notebook, and its names."""

from __future__ import annotations

from typing import Any

from ..source.magics import ANY_NAME
from .dependencies import Cell
from .program import is_distributed, masked


class History:
    """What has been executed in one notebook.

    Attributes:
        failed: the numbers of the cells that failed: nothing can need them.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.failed: set[int] = set()

    @property
    def texts(self) -> list[str]:
        """The cells as they were written, by number."""
        texts: list[str] = self.shell.history_manager.input_hist_raw
        return texts

    def cells_before(self, number: int) -> list[Cell]:
        """Return the cells that ran before the cell `number` without failing, with the text that they had then."""
        return [
            Cell(each, masked(text), is_distributed(text), bool(ANY_NAME.search(text)))
            for each, text in enumerate(self.texts[:number])
            if each and each not in self.failed and text.strip()
        ]

    def number_of(self, body: str) -> int:
        """Return the number of the running cell; one past the history if it runs silently."""
        last = len(self.texts) - 1
        return last if self.texts[last].rstrip().endswith(body.rstrip()) else last + 1

    @property
    def namespace(self) -> dict[str, Any]:
        """The notebook's names and their values, with IPython's own."""
        namespace: dict[str, Any] = self.shell.user_ns
        return namespace

    def has_value(self, name: str) -> bool:
        """Whether the user has given a name a value."""
        return name in self.namespace and name not in self.shell.user_ns_hidden

    def user_names(self) -> list[str]:
        """Return the names to which the user has given values, sorted."""
        return sorted(filter(self.has_value, self.namespace))
