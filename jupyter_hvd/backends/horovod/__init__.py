"""Horovod, as converted TensorFlow programs call it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Horovod:
    """Horovod under the names that a program knows its modules by.

    Attributes:
        name: the module with ranks and, where there are tapes, all else.
        keras_name: the module with callbacks.
    """

    name: str = "hvd"
    keras_name: str = "hvd"

    @property
    def rank(self) -> str:
        return f"{self.name}.rank()"

    @property
    def size(self) -> str:
        return f"{self.name}.size()"

    @property
    def is_rank_zero(self) -> str:
        return f"{self.rank} == 0"

    @property
    def broadcast_function(self) -> str:
        return f"{self.name}.broadcast_object"

    @property
    def broadcast_variables_function(self) -> str:
        return f"{self.name}.broadcast_variables"

    @property
    def average_function(self) -> str:
        return f"{self.name}.allreduce"

    @property
    def tape_function(self) -> str:
        return f"{self.name}.DistributedGradientTape"

    @property
    def optimizer_function(self) -> str:
        return f"{self.name}.DistributedOptimizer"

    @property
    def callbacks(self) -> str:
        """The module of Keras callbacks."""
        return f"{self.keras_name}.callbacks"
