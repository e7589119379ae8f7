"""The roles that values play in a training program."""

from __future__ import annotations

from enum import Enum, auto


class Role(Enum):
    """What TensorFlow makes, as far as rules must tell it apart."""

    MODEL = auto()
    OPTIMIZER = auto()
    SCHEDULE = auto()
    TAPE = auto()
    DATASET = auto()
    CHECKPOINT = auto()
    CHECKPOINT_MANAGER = auto()
    CALLBACK = auto()
    VARIABLE = auto()
    STRATEGY = auto()
    TUNER = auto()
    ESTIMATOR = auto()
