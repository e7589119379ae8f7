"""Faults planted into the sharing of one run: each must change what a program prints or learns, or stop it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

MUTANTS: dict[str, Callable[[int], Any]] = {}
FOLDER = "jupyter_hvd.runtime.sharing"
SCALING = "jupyter_hvd.runtime.scaling"


def mutant(function: Callable[..., Any]) -> Callable[..., Any]:
    MUTANTS[function.__name__] = contextlib.contextmanager(function)
    return function


def blind() -> Any:
    """Without the row check, which would run whole what is wrong."""
    return mock.patch(f"{FOLDER}.row_check.find_unsharded_reason", lambda *_: "")


@mutant
def no_average(rank: int) -> Iterator[None]:
    with blind(), mock.patch(f"{FOLDER}.gradients.average_gradients", lambda found, _=None: found):
        yield


@mutant
def gather_without_factor(rank: int) -> Iterator[None]:
    from jupyter_hvd.runtime.sharing import split_gather

    original = split_gather.split_gradient
    with blind(), mock.patch.object(split_gather, "split_gradient", lambda x, rows, factor=1: original(x, rows)):  # fmt: skip
        yield


@mutant
def split_without_factor(rank: int) -> Iterator[None]:
    from jupyter_hvd.runtime.sharing import calls, split_gather

    def split(x: Any, rows: Any) -> Any:
        import tensorflow as tf

        @tf.custom_gradient
        def forward(x: Any) -> Any:
            return tf.gather(
                x, split_gather.list_padded_rows(rows)
            ), lambda g: split_gather.gather_rows(g, rows)

        return (
            forward(x) if x.dtype.is_floating else tf.gather(x, split_gather.list_padded_rows(rows))
        )

    with blind(), mock.patch.object(calls, "split_rows", split):
        yield


@mutant
def local_moments(rank: int) -> Iterator[None]:
    from jupyter_hvd.runtime.sharing import batch_norm

    def one(t: Any) -> Any:
        return t[None]

    with blind(), mock.patch.object(batch_norm, "gather_statistic", one):
        yield


@mutant
def moments_of_repeated_rows(rank: int) -> Iterator[None]:
    from jupyter_hvd.runtime.sharing import batch_norm

    with blind(), mock.patch.object(batch_norm, "is_padded", lambda rows: False):
        yield


@mutant
def variance_without_means(rank: int) -> Iterator[None]:
    """The variance within ranks alone."""
    from jupyter_hvd.runtime.sharing import batch_norm

    original = batch_norm.gather_statistic

    def gathered(t: Any) -> Any:
        import tensorflow as tf

        every = original(t)
        count, mean, squares = every[:, :1], every[:, 1:2], every[:, 2:]
        whole = tf.reduce_sum(count * mean, 0, keepdims=True) / tf.reduce_sum(
            count, 0, keepdims=True
        )
        return tf.concat([count, tf.broadcast_to(whole, tf.shape(mean)), squares], 1)

    with blind(), mock.patch.object(batch_norm, "gather_statistic", gathered):
        yield


@mutant
def other_seed(rank: int) -> Iterator[None]:
    import tensorflow as tf

    original = tf.keras.utils.set_random_seed
    with mock.patch.object(tf.keras.utils, "set_random_seed", lambda seed: original(seed + rank)):
        yield


@mutant
def own_draws(rank: int) -> Iterator[None]:
    """Random numbers for own rows, instead of own rows of the whole batch's."""
    with blind(), mock.patch(f"{FOLDER}.random_ops.find_full_shape", lambda shape, region: None):
        yield


@mutant
def first_draws(rank: int) -> Iterator[None]:
    """All ranks take the first rows of what is drawn."""
    from jupyter_hvd.runtime.sharing import random_ops

    def first(rows: Any) -> Any:
        import tensorflow as tf

        return tf.range((rows + 1) // 2) if not isinstance(rows, int) else range((rows + 1) // 2)

    with blind(), mock.patch.object(random_ops, "list_padded_rows", first):
        yield


@mutant
def dropped_last_row(rank: int) -> Iterator[None]:
    """The last row of a batch is a repetition of the one before."""
    from jupyter_hvd.runtime.sharing import split_gather

    original = split_gather.list_padded_rows

    def index(rows: Any) -> Any:
        import tensorflow as tf

        return tf.minimum(original(rows), tf.maximum(rows - 2, 0))

    with blind(), mock.patch.object(split_gather, "list_padded_rows", index):
        yield


@mutant
def rows_by_rank(rank: int) -> Iterator[None]:
    """Rows come back rank after rank."""
    import tensorflow as tf

    from jupyter_hvd.runtime.sharing import split_gather
    from jupyter_hvd.runtime.sharing.context import sharing

    original = split_gather.gather_values

    def unordered(y: Any, rows: Any, checksum: Any = None) -> Any:
        order = tf.concat([tf.range(first, rows, sharing.size) for first in range(sharing.size)], 0)
        return tf.gather(original(y, rows, checksum), order)

    with blind(), mock.patch.object(split_gather, "gather_values", unordered):
        yield


@mutant
def repeated_rows_count(rank: int) -> Iterator[None]:
    """A repeated row has a gradient, too."""
    from jupyter_hvd.runtime.sharing import split_gather

    with blind(), mock.patch.object(split_gather, "is_padded", lambda rows: False):
        yield


@mutant
def no_row_check(rank: int) -> Iterator[None]:
    with blind():
        yield


@mutant
def sparse_not_divided(rank: int) -> Iterator[None]:
    """Sparse gradients are summed."""
    from jupyter_hvd.runtime.sharing import gradients

    original = gradients.average_slices

    def summed(slices: Any) -> Any:
        import tensorflow as tf

        found = original(slices)
        return tf.IndexedSlices(found.values * 2.0, found.indices, found.dense_shape)

    with blind(), mock.patch.object(gradients, "average_slices", summed):
        yield


@mutant
def no_checksum(rank: int) -> Iterator[None]:
    from jupyter_hvd.runtime.sharing.context import sharing

    with mock.patch.object(sharing, "guarded", False):
        yield


@mutant
def check_outputs_only(rank: int) -> Iterator[None]:
    from jupyter_hvd.runtime.sharing import row_check

    with mock.patch.object(row_check, "WORDS", {"outputs": "its outputs differ"}):
        yield


@mutant
def draws_not_put_back(rank: int) -> Iterator[None]:
    with mock.patch(f"{FOLDER}.row_check.restoring_generators", lambda _: contextlib.nullcontext()):
        yield


@mutant
def states_not_put_back(rank: int) -> Iterator[None]:
    with mock.patch(f"{FOLDER}.row_check.StateChanges.restore_values", lambda self: None):
        yield


@mutant
def sum_of_gradients(rank: int) -> Iterator[None]:
    """Gradients are summed, not averaged."""
    from jupyter_hvd.runtime.sharing import gradients

    original = gradients.hvd.grouped_allreduce

    def summed(tensors: Any, op: Any) -> Any:
        return original(tensors, op=gradients.hvd.Sum)

    with blind(), mock.patch.object(gradients.hvd, "grouped_allreduce", summed):
        yield


@mutant
def averaged_twice(rank: int) -> Iterator[None]:
    from jupyter_hvd.runtime.sharing import gradients

    original = gradients.average_group

    def halved(tensors: Any, loss: Any = None) -> Any:
        return [mean / 2 for mean in original(tensors, loss)]

    with blind(), mock.patch.object(gradients, "average_group", halved):
        yield


@mutant
def sparse_not_averaged(rank: int) -> Iterator[None]:
    """Each rank keeps the rows of a sparse gradient that it looked up."""
    with blind(), mock.patch(f"{FOLDER}.gradients.average_slices", lambda slices: slices):
        yield


@mutant
def jacobian_not_averaged(rank: int) -> Iterator[None]:
    from jupyter_hvd.runtime.sharing import gradients

    average, leave = gradients.average_gradients, gradients.sharing_nothing_more.__exit__
    left: list[bool] = []

    def left_block(block: Any, *error: object) -> None:
        leave(block, *error)
        left.append(True)

    def averaged(found: Any, loss: Any = None) -> Any:
        return found if left and left.pop() else average(found, loss)

    with (
        blind(),
        mock.patch.object(gradients.sharing_nothing_more, "__exit__", left_block),
        mock.patch.object(gradients, "average_gradients", averaged),
    ):
        yield


@mutant
def moments_without_gradient(rank: int) -> Iterator[None]:
    """Moments of batch normalisation count as constants in the gradient."""
    from jupyter_hvd.runtime.sharing import batch_norm

    original = batch_norm.gather_statistic

    def constant(t: Any) -> Any:
        import tensorflow as tf

        return tf.stop_gradient(original(t))

    with blind(), mock.patch.object(batch_norm, "gather_statistic", constant):
        yield


@mutant
def second_input_not_split(rank: int) -> Iterator[None]:
    """All ranks take the first rows of what is not the first input, as of sample weights that are not split."""
    from jupyter_hvd.runtime.sharing import calls

    original, first = calls.split_rows, []

    def split(x: Any, rows: Any) -> Any:
        if not first or first[0] is not rows:
            first[:] = [rows]
            return original(x, rows)
        own = (rows + calls.sharing.size - 1) // calls.sharing.size
        return x[:own]

    with blind(), mock.patch.object(calls, "split_rows", split):
        yield


@mutant
def ranks_in_reverse(rank: int) -> Iterator[None]:
    """Rows come back in the order of the last rank first."""
    from jupyter_hvd.runtime.sharing import split_gather

    original = split_gather.hvd.allgather

    def reversed_gather(t: Any) -> Any:
        import tensorflow as tf

        return tf.reverse(original(t), [0])

    hvd = mock.Mock(
        wraps=split_gather.hvd, Average=split_gather.hvd.Average, Sum=split_gather.hvd.Sum
    )
    hvd.allgather = reversed_gather
    with blind(), mock.patch.object(split_gather, "hvd", hvd):
        yield


@mutant
def stale_optimizer_state(rank: int) -> Iterator[None]:
    """The optimizer of the last rank has made five steps more than that of the first."""
    import tensorflow as tf

    original = tf.keras.optimizers.Optimizer.build

    def built(optimizer: Any, variables: Any) -> Any:
        result = original(optimizer, variables)
        if rank == 1:
            with tf.init_scope():
                optimizer.iterations.assign(5)
        return result

    with mock.patch.object(tf.keras.optimizers.Optimizer, "build", built):
        yield


@mutant
def other_learning_rate(rank: int) -> Iterator[None]:
    """One rank has another learning rate."""
    import tensorflow as tf

    original = tf.keras.optimizers.Optimizer.apply

    def applied(optimizer: Any, *args: Any, **options: Any) -> Any:
        if rank == 1 and not getattr(optimizer, "doubled", False):
            optimizer.doubled = True
            with tf.init_scope():
                optimizer.learning_rate.assign(2.0 * optimizer.learning_rate)
        return original(optimizer, *args, **options)

    with mock.patch.object(tf.keras.optimizers.Optimizer, "apply", applied):
        yield


@mutant
def update_left_out(rank: int) -> Iterator[None]:
    """One rank leaves out an update of its last variable."""
    import tensorflow as tf

    original = tf.keras.optimizers.Optimizer.apply

    def applied(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
        grads = list(grads)
        if rank == 1:
            grads[-1] = tf.zeros_like(grads[-1])
        return original(optimizer, grads, trainable_variables)

    with mock.patch.object(tf.keras.optimizers.Optimizer, "apply", applied):
        yield


@mutant
def early_exit_on_a_rank(rank: int) -> Iterator[None]:
    """One rank's `fit` ends after its first epoch."""
    import tensorflow as tf

    original = tf.keras.Model.fit

    def fit(model: Any, *args: Any, **options: Any) -> Any:
        return original(model, *args, **({**options, "epochs": 1} if rank == 1 else options))

    with mock.patch.object(tf.keras.Model, "fit", fit):
        yield


@mutant
def check_in_order(rank: int) -> Iterator[None]:
    """The row check deals rows as shared calls do."""
    with mock.patch(
        f"{FOLDER}.context.Sharing.deal_rows_in_order", lambda *_: contextlib.nullcontext()
    ):
        yield


@mutant
def no_weights_check(rank: int) -> Iterator[None]:
    with mock.patch(f"{FOLDER}.row_check.require_equal_weights", lambda _: None):
        yield


@mutant
def no_losses_check(rank: int) -> Iterator[None]:
    with mock.patch(f"{FOLDER}.gradients.loss_of", lambda _: None):
        yield


@mutant
def one_verdict_for_all_switches(rank: int) -> Iterator[None]:
    with mock.patch(f"{FOLDER}.row_check.switch_attributes", lambda *_: ()):
        yield


@mutant
def rate_twice(rank: int) -> Iterator[None]:
    """The ranks of a scaled program update weights at the rate times N squared."""
    with mock.patch(f"{SCALING}.rate_factor", lambda o: vars(o).get("_jupyter_hvd_rate_factor", 1) ** 2):  # fmt: skip
        yield


@mutant
def wrong_remainder(rank: int) -> Iterator[None]:
    """A repeated row counts on the rank that comes next after the last row."""
    from jupyter_hvd.runtime.sharing import batch_norm, split_gather

    def real(rows: Any) -> Any:
        import tensorflow as tf

        return tf.convert_to_tensor(split_gather.list_own_rows(rows) <= rows)

    with (
        blind(),
        mock.patch.object(split_gather, "real_rows", real),
        mock.patch.object(batch_norm, "real_rows", real),
    ):
        yield


@mutant
def rate_not_at_all(rank: int) -> Iterator[None]:
    with mock.patch(f"{SCALING}.rate_factor", lambda _: 1):
        yield


@mutant
def sparse_summed_twice(rank: int) -> Iterator[None]:
    """The rows of a sparse gradient are there twice."""
    from jupyter_hvd.runtime.sharing import gradients

    original = gradients.average_slices

    def doubled(slices: Any) -> Any:
        import tensorflow as tf

        found = original(slices)
        values, indices = ([part, part] for part in (found.values, found.indices))
        return tf.IndexedSlices(tf.concat(values, 0), tf.concat(indices, 0), found.dense_shape)

    with blind(), mock.patch.object(gradients, "average_slices", doubled):
        yield


@mutant
def schedule_by_its_own_steps(rank: int) -> Iterator[None]:
    """A schedule is asked for the step of N ranks: its rate is multiplied before it is asked."""
    import keras

    kind = keras.src.optimizers.base_optimizer.BaseOptimizer
    scaled = kind._get_current_learning_rate

    def by_steps(optimizer: Any) -> Any:
        factor = vars(optimizer).get("_jupyter_hvd_rate_factor", 1)
        if factor == 1 or not callable(optimizer._learning_rate):
            return scaled(optimizer)
        return optimizer._learning_rate(optimizer._iterations) * factor

    with mock.patch.object(kind, "_get_current_learning_rate", by_steps):
        yield


@mutant
def mask_of_first_rows(rank: int) -> Iterator[None]:
    """All ranks take the mask of the first rows."""
    from jupyter_hvd.runtime.sharing import calls

    original = calls.split_rows

    def split(x: Any, rows: Any) -> Any:
        if x.dtype.is_bool:
            return x[: (rows + calls.sharing.size - 1) // calls.sharing.size]
        return original(x, rows)

    with blind(), mock.patch.object(calls, "split_rows", split):
        yield


@mutant
def batches_not_joined(rank: int) -> Iterator[None]:
    with mock.patch("jupyter_hvd.runtime.join_batches", lambda batches: batches):
        yield


@mutant
def replicated_not_averaged(rank: int) -> Iterator[None]:
    """The gradient for an argument without rows is each rank's own."""
    with blind(), mock.patch(f"{FOLDER}.calls.replicate_tensor", lambda x: x):
        yield


@mutant
def batch_of_one_process(rank: int) -> Iterator[None]:
    """The program multiplies its batches, and its rates, by 1."""
    with mock.patch("horovod.tensorflow.size", lambda: 1):
        yield


@mutant
def own_rows_not_divided(rank: int) -> Iterator[None]:
    """The gradient for a large output, of losses by rows, is not divided by the number of ranks."""
    from jupyter_hvd.runtime.sharing import gradients

    def summed(whole: Any, own: Any, rows: Any) -> Any:
        import tensorflow as tf

        if own is None:
            return whole
        gathered = gradients.gather_rows(tf.convert_to_tensor(own), rows.rows)
        return gathered if whole is None else gathered + tf.convert_to_tensor(whole)

    with blind(), mock.patch.object(gradients, "add_own_row_gradients", summed):
        yield


#: Of programs that are converted with `--batch per-rank`.
FOUND_BY_SCALED = {
    "rate_twice": "rate_floor",
    "rate_not_at_all": "rate_floor",
    "schedule_by_its_own_steps": "warmup_class",
    "batches_not_joined": "taken_batches",
    "batch_of_one_process": "config_dictionary",
}
#: For each mutant a program that finds it.
FOUND_BY = {
    "no_average": "train_step_ema",
    "gather_without_factor": "train_step_ema",
    "split_without_factor": "eager_calls",
    "local_moments": "fit_batch_norm_dropout",
    "moments_of_repeated_rows": "fit_batch_norm_dropout",
    "variance_without_means": "fit_batch_norm_dropout",
    "other_seed": "compiled_loop",
    "own_draws": "eager_calls",
    "first_draws": "eager_calls",
    "dropped_last_row": "lbfgs_scipy",
    "rows_by_rank": "lbfgs_scipy",
    "repeated_rows_count": "lbfgs_scipy",
    "no_row_check": "not_by_rows",
    "sparse_not_divided": "lstm_masks",
    "no_checksum": "different_data",
    "check_outputs_only": "not_by_rows",
    "draws_not_put_back": "eager_draws",
    "states_not_put_back": "eager_draws",
    "sum_of_gradients": "train_step_ema",
    "averaged_twice": "train_step_ema",
    "sparse_not_averaged": "lstm_masks",
    "jacobian_not_averaged": "jacobians",
    "moments_without_gradient": "fit_batch_norm_dropout",
    "second_input_not_split": "several_inputs",
    "ranks_in_reverse": "lbfgs_scipy",
    "stale_optimizer_state": "compiled_loop",
    "other_learning_rate": "train_step_ema",
    "update_left_out": "compiled_loop",
    "early_exit_on_a_rank": "train_step_ema",
    "check_in_order": "layers_of_whole_batches",
    "no_weights_check": "different_weights",
    "no_losses_check": "different_labels",
    "one_verdict_for_all_switches": "toggled_modes",
    "wrong_remainder": "lbfgs_scipy",
    "sparse_summed_twice": "lstm_masks",
    "mask_of_first_rows": "masks_between_calls",
    "replicated_not_averaged": "shared_function",
    "own_rows_not_divided": "large_outputs",
}

#: Plants a fault into a program, where it is shared. What it draws from the system is the same in each run of a rank.
PLANTED = """\
import os, sys
sys.path.insert(0, {folder!r})
rank = int(os.environ.get("HOROVOD_RANK", "0"))
os.urandom = lambda count, rank=rank: bytes((37 * rank + 101 * number) % 251 for number in range(count))
if "HOROVOD_RANK" in os.environ:
    import sharing_mutants
    fault = sharing_mutants.MUTANTS[{name!r}](rank)
    fault.__enter__()
del rank
"""


def with_fault(name: str, text: str) -> str:
    """A program with a fault, in the same lines but for those in front."""
    return PLANTED.format(folder=str(Path(__file__).parent), name=name) + text
