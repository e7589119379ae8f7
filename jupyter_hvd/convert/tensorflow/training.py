"""Where and how a module trains, from the answers of the other modules.

Every update of weights (`apply_gradients`, `minimize`, `fit`) is found, with the
tapes whose gradients reach it and the place, outside every compiled function,
from which a first update can be followed by a broadcast.
"""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from ...analysis.index import Path
from ...analysis.reach import is_ruled_out
from ...analysis.values import ValueAnalysis
from ..framework import TrainingLoop
from .compiled import CompiledCode, EagerSite
from .gradients import Gradients
from .keras_loops import KerasLoops
from .tapes import TrainingTape, find_training_tapes
from .updates import Update, find_updates, find_variable_loops


class Training:
    """The training of one module."""

    def __init__(self, values: ValueAnalysis) -> None:
        self.values = values
        self.module = values.module
        self.gradients = Gradients(values)
        self.compiled = CompiledCode(values)
        self.keras = KerasLoops(values)

    @cached_property
    def updates(self) -> list[Update]:
        """All calls that change weights."""
        return list(find_updates(self.values, self.gradients, self.keras))

    @cached_property
    def own_updates(self) -> list[tuple[Update, list[EagerSite]]]:
        """The updates that the program runs itself, without Keras, each with the eager calls that lead to it."""
        return [
            (update, self._reachable_sites(update, self.compiled.eager_sites(update)))
            for update in self.updates
            if not self.keras.runs(update.function)
        ]

    def _reachable_sites(self, update: Update, sites: list[EagerSite]) -> list[EagerSite]:
        """Return the sites whose chain of calls is not ruled out by conditions; all if none would remain."""
        live = [s for s in sites if not is_ruled_out(self.values, (update.call, *s.chain))]
        return live or sites

    @cached_property
    def variable_loops(self) -> frozenset[cst.CSTNode]:
        """The loops over variables in hand-written updates, and their iterables."""
        return find_variable_loops(self.values, self.updates)

    @cached_property
    def training_gradients(self) -> frozenset[cst.Call]:
        """The `tape.gradient(…)` calls whose result reaches an update."""
        seen: set[tuple[cst.CSTNode, Path]] = set()
        applied = [update.applied for update in self.updates if update.applied is not None]
        return frozenset(
            call for each in applied for call in self.gradients.flowing_into(*each, seen)
        )

    @cached_property
    def training_tapes(self) -> list[TrainingTape]:
        """The tapes of `training_gradients`, each with all calls on it."""
        return list(find_training_tapes(self.values, self.training_gradients))

    @cached_property
    def loop(self) -> TrainingLoop:
        """How the module trains, Keras and hand-written loops taken together."""
        in_keras = self.keras.fits or self.keras.searches
        if self.own_updates:
            return "both" if in_keras else "gradient_tape"
        return "keras_fit" if in_keras else "none"
