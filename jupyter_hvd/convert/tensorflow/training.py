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
from .tapes import TrainingTape, training_tapes
from .updates import Update, updates, variable_loops


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
        return list(updates(self.values, self.gradients, self.keras))

    @cached_property
    def own_updates(self) -> list[tuple[Update, list[EagerSite]]]:
        """The updates that the program itself runs, not Keras, with the eager calls that come to each."""
        return [
            (update, self._live(update, self.compiled.eager_sites(update)))
            for update in self.updates
            if not self.keras.runs(update.function)
        ]

    def _live(self, update: Update, sites: list[EagerSite]) -> list[EagerSite]:
        live = [s for s in sites if not is_ruled_out(self.values, (update.call, *s.chain))]
        return live or sites

    @cached_property
    def variable_loops(self) -> frozenset[cst.CSTNode]:
        """The loops over variables that an update by hand goes through, and what they run over."""
        return variable_loops(self.values, self.updates)

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
        """The tapes of `training_gradients`, each with all that is asked of it."""
        return list(training_tapes(self.values, self.training_gradients))

    @cached_property
    def loop(self) -> TrainingLoop:
        """GradTape ⊔ Optimizer of the whole module."""
        in_keras = self.keras.fits or self.keras.searches
        if self.own_updates:
            return "both" if in_keras else "gradient_tape"
        return "keras_fit" if in_keras else "none"
