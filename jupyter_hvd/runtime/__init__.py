"""What converted programs need beside Horovod: `import jupyter_hvd.runtime as jhvd`.

Small functions over public interfaces of Horovod, TensorFlow and NumPy, which they import when
they are called; importing this package loads none of them. `convert --standalone` writes the
functions themselves into a program, from this same source, so each of them must be
complete with what it imports inside and the other names of its own module.
"""

from __future__ import annotations

from .data import equal_steps, shard_batches, shard_rows, shard_sequence
from .files import local_rank_zero_first, wait_for_rank_zero
from .process import start, use_tf_keras
from .randomness import same_seed
from .rates import scaled_rates, scaled_schedule
from .weights import broadcast_once

__all__ = [
    "broadcast_once",
    "equal_steps",
    "local_rank_zero_first",
    "same_seed",
    "scaled_rates",
    "scaled_schedule",
    "shard_batches",
    "shard_rows",
    "shard_sequence",
    "start",
    "use_tf_keras",
    "wait_for_rank_zero",
]
