"""What converted programs need beside Horovod: `import jupyter_hvd.runtime as jhvd`.

Small functions over public interfaces of Horovod, TensorFlow and NumPy, which they import when
they are called; importing this package loads none of them. `convert --standalone` writes the
functions themselves into a program, from this same source, so each of them must be
complete with what it imports inside and the other names of its own module.
"""

from __future__ import annotations

from .callbacks import (
    BroadcastGlobalVariablesCallback,
    LearningRateWarmupCallback,
    MetricAverageCallback,
)
from .calls import (
    distributed_compile,
    distributed_estimator,
    distributed_fit,
    distributed_model,
    distributed_tuner,
    multiplied_rate,
    scaled_optimizer,
)
from .data import (
    any_turn,
    equal_steps,
    first_turn,
    own_rows,
    shard,
    shard_batches,
    shard_rows,
    shard_sequence,
    shard_turns,
)
from .files import (
    local_rank_zero_first,
    on_rank_zero,
    own_folder,
    rank_zero_file,
    wait_for_rank_zero,
)
from .gradients import DistributedGradientTape, average_gradients
from .guard import compare_ranks
from .loops import resumed_loop
from .optimizer import DistributedOptimizer
from .process import start
from .randomness import draw_alike, draw_apart, in_one_order, of_rank_zero, same_seed
from .rates import scaled_rates, scaled_schedule
from .restarts import distributed_backup, resumed_fit
from .scaling import join_batches, scale_rate
from .sharing import rank_zero, share, start_shared
from .weights import broadcast_before, broadcast_behind, broadcast_once

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
    "any_turn",
    "average_gradients",
    "broadcast_before",
    "broadcast_behind",
    "broadcast_once",
    "compare_ranks",
    "distributed_backup",
    "distributed_compile",
    "distributed_estimator",
    "distributed_fit",
    "distributed_model",
    "distributed_tuner",
    "draw_alike",
    "draw_apart",
    "equal_steps",
    "first_turn",
    "in_one_order",
    "join_batches",
    "local_rank_zero_first",
    "multiplied_rate",
    "of_rank_zero",
    "on_rank_zero",
    "own_folder",
    "own_rows",
    "rank_zero",
    "rank_zero_file",
    "resumed_fit",
    "resumed_loop",
    "same_seed",
    "scale_rate",
    "scaled_optimizer",
    "scaled_rates",
    "scaled_schedule",
    "shard",
    "shard_batches",
    "shard_rows",
    "shard_sequence",
    "shard_turns",
    "share",
    "start",
    "start_shared",
    "wait_for_rank_zero",
]
