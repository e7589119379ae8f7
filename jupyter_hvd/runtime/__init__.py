"""The library that converted programs import besides Horovod: `import jupyter_hvd.runtime as jhvd`.

Importing this package loads neither Horovod nor TensorFlow. `convert --standalone` writes it, as one file, beside a program.
"""

from __future__ import annotations

from .horovod_names import (
    BroadcastGlobalVariablesCallback,
    DistributedGradientTape,
    DistributedOptimizer,
)
from .scaling import join_batches, scale_rate
from .sharing import rank_zero, share, start_shared

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "join_batches",
    "rank_zero",
    "scale_rate",
    "share",
    "start_shared",
]
