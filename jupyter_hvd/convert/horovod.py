"""Horovod, as converted TensorFlow programs call it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Horovod:
    """Horovod under the name that a program knows its module for TensorFlow by."""

    name: str = "hvd"

    @property
    def rank(self) -> str:
        return f"{self.name}.rank()"

    @property
    def size(self) -> str:
        return f"{self.name}.size()"

    @property
    def is_rank_zero(self) -> str:
        return f"{self.rank} == 0"
