"""What the rest of the converter asks of a framework."""

from __future__ import annotations

from typing import Literal

#: How a program trains: by tapes and optimizers of its own, by Keras' `fit`, by both, or not at all.
TrainingLoop = Literal["gradient_tape", "keras_fit", "both", "none"]
