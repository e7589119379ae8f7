"""A program as TensorFlow's rules see it."""

from __future__ import annotations

from functools import cached_property

from ...analysis.kept_values import KeptValues
from ...analysis.module import Module
from ...analysis.scale_exponents import ScaleAnalysis
from ...analysis.values import ValueAnalysis
from ..framework import TrainingLoop
from .batch_sizes import BatchSizes
from .library import TensorFlowLibrary
from .pipelines import Pipelines
from .scale_signatures import TensorFlowScale
from .step_loops import StepLoops
from .training import Training
from .training_data import TrainingData


class TensorFlowProgram:
    """What is known of one program; each part is worked out when it is asked for."""

    def __init__(self, module: Module) -> None:
        self.module = module

    @property
    def keeps_values(self) -> bool:
        """Whether named values stay those of one process where batches grow, because other cells may read and set them."""
        return False

    @cached_property
    def values(self) -> ValueAnalysis:
        return ValueAnalysis(self.module, TensorFlowLibrary())

    @cached_property
    def training(self) -> Training:
        return Training(self.values)

    @cached_property
    def pipelines(self) -> Pipelines:
        return Pipelines(self.values)

    @cached_property
    def data(self) -> TrainingData:
        return TrainingData(self.training, self.pipelines)

    @cached_property
    def step_loops(self) -> StepLoops:
        return StepLoops(self.data)

    @cached_property
    def batch_sizes(self) -> BatchSizes:
        return BatchSizes(self.data, self.pipelines, self.step_loops)

    @cached_property
    def scales(self) -> ScaleAnalysis:
        kept = KeptValues(self.values) if self.keeps_values else None
        return ScaleAnalysis(self.values, TensorFlowScale(self.data, self.batch_sizes), kept)

    @property
    def loop(self) -> TrainingLoop:
        return self.training.loop


class TensorFlow:
    """TensorFlow 2 with Keras 2 or 3."""

    name = "TensorFlow"
    package = "tensorflow"

    def read(self, module: Module) -> TensorFlowProgram:
        """Return the program that a module contains."""
        return TensorFlowProgram(module)
