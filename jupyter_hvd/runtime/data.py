"""Each rank trains on a share of the data of its own, and no rank runs out before the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .randomness import same_seed


def shard_rows(rows: Any, batch_size: int = 32) -> Any:
    """This rank's rows of an array, every size-th one.

    Rows that would give some ranks one batch more than others are left out.
    """
    import horovod.tensorflow as hvd

    count = len(rows)
    if count // hvd.size() % batch_size == 0:
        count -= count % hvd.size()
    return rows[hvd.rank() : count : hvd.size()]


def equal_steps(dataset: Any) -> Any:
    """As many batches of this rank's dataset as every rank has: none may wait for one that has finished."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    steps = dataset.cardinality()
    if hvd.size() == 1 or steps == tf.data.INFINITE_CARDINALITY:
        return dataset
    if steps == tf.data.UNKNOWN_CARDINALITY:
        steps = dataset.reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1)
    least = int(min(hvd.allgather([int(steps)])))
    return dataset if least == steps else dataset.take(least)


def shard_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """This rank's batches of a generator: one of as many as there are ranks."""
    import horovod.tensorflow as hvd

    group: list[Any] = []
    for batch in batches:
        group.append(batch)
        if len(group) == hvd.size():
            yield group[hvd.rank()]
            group = []
    yield from map(_shard_batch, group)


def shard_sequence(batches: Any, shuffles: bool = False) -> Any:
    """This rank's batches of a `keras.utils.Sequence`: one of as many as there are ranks.

    Args:
        shuffles: the sequence draws random numbers at the end of an epoch, which must be the same on all ranks.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    class Shard(tf.keras.utils.Sequence):  # type: ignore[misc]
        def __len__(self) -> int:
            return sum(divmod(len(batches), hvd.size()))

        def __getitem__(self, index: int) -> Any:
            whole = len(batches) // hvd.size()
            if index < whole:
                return batches[index * hvd.size() + hvd.rank()]
            return _shard_batch(batches[whole * (hvd.size() - 1) + index])

        def on_epoch_end(self) -> None:
            if shuffles:
                same_seed()
            batches.on_epoch_end()

    return Shard()


def _shard_batch(batch: Any) -> Any:
    """This rank's rows of a batch that is left over when each rank has had as many; never none."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    return tf.nest.map_structure(
        lambda rows: rows[min(hvd.rank(), len(rows) - 1) :: hvd.size()], batch
    )
