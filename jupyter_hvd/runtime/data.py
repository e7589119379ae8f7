"""Each rank trains on a share of the data of its own, and no rank runs out before the others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .randomness import go_on_alike, same_seed


def shard(data: Any, batch_size: int | None = None) -> Any:
    """This rank's share of what reaches `fit`, whatever that is: batches of datasets, generators and sequences, rows of arrays.

    Of batches each rank takes every size-th one; those that are left over at the end are divided by rows.

    Args:
        batch_size: of `fit`, where the data are arrays.

    Raises:
        TypeError: the data are nothing that `fit` takes.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    if hvd.size() == 1:
        return data
    if isinstance(data, tf.keras.utils.Sequence):
        return shard_sequence(data)
    if isinstance(data, tf.data.Dataset) or hasattr(data, "__next__"):
        return shard_batches(data)
    parts = list(data.values()) if isinstance(data, dict) else data
    if isinstance(parts, (list, tuple)) and all(hasattr(part, "shape") for part in parts):
        return tf.nest.map_structure(lambda part: shard_rows(part, batch_size or 32), data)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return shard_rows(data, batch_size or 32)
    raise TypeError(
        f"data of type {type(data).__name__} cannot be divided among {hvd.size()} ranks"
    )


def shard_rows(rows: Any, batch_size: int = 32) -> Any:
    """This rank's rows of an array, every size-th one.

    Rows that would give some ranks one batch more than others are left out. Where all rows are one batch of one process, that
    batch is divided, and rank 0 warns that it is no larger.

    Raises:
        ValueError: there are fewer rows than ranks.
    """
    import warnings

    import horovod.tensorflow as hvd

    count = len(rows)
    if count < hvd.size():
        raise ValueError(f"{count} examples cannot be divided among {hvd.size()} ranks")
    if count <= batch_size and hvd.size() > 1 and hvd.rank() == 0:
        warnings.warn(
            f"{count} examples are one batch of one process, and no larger one of {hvd.size()} ranks, for which the learning "
            f"rate is multiplied: take batches of {max(1, count // hvd.size() // 2)} or fewer, or a rate divided by {hvd.size()}",
            stacklevel=2,
        )
    if count // hvd.size() % batch_size == 0:
        count -= count % hvd.size()
    return rows[hvd.rank() : count : hvd.size()]


def own_rows(
    rows: Any, of: Any = None, dimensions: int | None = 0, is_squeezed: bool = False
) -> Any:
    """This rank's rows of an array that one process takes whole at each step, as many as every other has, or one more.

    The mean of what the ranks find in theirs is what one process finds in all; where shares are not equal, rank 0 warns.

    Args:
        of: the inputs that these rows belong to; what has not as many rows as those is the same for all of them.
        dimensions: how many what these rows are compared with has, so many more than `of` where that is 0 or less. An array
            of others does not stand beside that row by row: each row is compared with all that it holds, and it is left
            whole. With None rows are compared with rows in any case.
        is_squeezed: they are in a loss of Keras', which may make the dimensions of the two the same: Keras 3 does.

    Raises:
        ValueError: there are fewer rows than ranks, or Keras 2 may compare each row with every other one.
    """
    import warnings

    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf

    if hvd.size() == 1:
        return rows
    if of is not None:
        if not _rows_of(rows) or len(rows) != len(of):
            return rows
        found = np.ndim(rows)
        wanted = dimensions if dimensions is None or dimensions > 0 else dimensions + np.ndim(of)
        if wanted not in (None, found):
            if not is_squeezed:
                return rows
            if not hasattr(tf.keras, "ops"):
                raise ValueError(
                    f"labels of shape {np.shape(rows)} are compared with predictions of {wanted} dimensions, each perhaps with "
                    "every other one: give them the shape of the predictions, as by labels[:, None]"
                )
    count = len(rows)
    if count < hvd.size():
        raise ValueError(f"{count} examples cannot be divided among {hvd.size()} ranks")
    if count % hvd.size() and hvd.rank() == 0:
        warnings.warn(
            f"{count} rows are no equal shares for {hvd.size()} ranks: those of the smaller ones count a little more",
            stacklevel=2,
        )
    return rows[hvd.rank() * count // hvd.size() : (hvd.rank() + 1) * count // hvd.size()]


def _rows_of(rows: Any) -> bool:
    return len(getattr(rows, "shape", "rows")) > 0 and hasattr(rows, "__len__")


def equal_steps(dataset: Any) -> Any:
    """As many batches of this rank's dataset, in each pass, as every rank has: none may wait for one that has finished.

    Where TensorFlow does not know how many there are, they are counted first, and they may be others in another pass: a file
    more, a filter that draws. So a pass that ends early goes on with the next one's batches. Where shares differ, a pass is
    as long as they are in the mean; where one is a tenth larger than that, rank 0 warns.

    Raises:
        ValueError: some rank has none.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    known = int(dataset.cardinality())
    if hvd.size() == 1 or known == tf.data.INFINITE_CARDINALITY:
        return dataset
    is_counted = known == tf.data.UNKNOWN_CARDINALITY
    counts = [int(n) for n in hvd.allgather([_counted(dataset) if is_counted else known])]
    if min(counts) == 0:
        raise ValueError(f"there are fewer batches than {hvd.size()} ranks: take smaller batches")
    _warn_of_unequal(counts)
    if is_counted:
        return dataset.repeat().take(sum(counts) // hvd.size())
    return dataset if min(counts) == known else dataset.take(min(counts))


def _counted(dataset: Any) -> int:
    """How many batches a pass has. Rank 0 says when that takes long: of data that never end there is no end to it."""
    import time

    import horovod.tensorflow as hvd

    count, told = 0, time.monotonic() + 10
    for _ in dataset:
        count += 1
        if hvd.rank() == 0 and time.monotonic() > told:
            print(
                f"counting the batches of a pass, {count:,} so far, so that no rank runs out before the others: say how many "
                "there are with .apply(tf.data.experimental.assert_cardinality(n)), or .repeat() if the data never end",
                flush=True,
            )
            told += 60
    return count


def _warn_of_unequal(counts: list[int]) -> None:
    import warnings

    import horovod.tensorflow as hvd

    is_uneven = max(counts) - min(counts) > 1 and max(counts) * len(counts) > 1.1 * sum(counts)
    if is_uneven and hvd.rank() == 0:
        warnings.warn(
            f"the ranks' shares have {', '.join(map(str, counts))} batches: of the larger ones not all is trained on in a pass. "
            "Write files of one size, or many times as many as there are ranks",
            stacklevel=4,  # where `apply` is called
        )


def shard_batches(batches: Any, beside: bool = False) -> Any:
    """This rank's batches of a dataset or a generator, one of as many as there are ranks.

    For each example to be seen once all ranks must have the same batches in the same order. What is left
    over when each rank has had as many is divided by rows; an element that is no batch is then repeated.

    Args:
        beside: whether they are drawn beside the batches of other data, and may be numbers: a schedule's, which goes by
            those data then.

    Raises:
        TypeError: for numbers that are not.
    """
    import tensorflow as tf

    if isinstance(batches, tf.data.Dataset):
        return _shard_dataset(batches)
    return _every_nth(batches, beside)


def shard_turns(turns: Iterable[Any], *generators: Any) -> Iterable[Any]:
    """This rank's turns of a loop, one of as many as there are ranks; every rank has as many.

    Left-over ones are the last rank's turn too where there are fewer than ranks. However many random numbers a rank draws in its
    turns, less for a shorter last batch, say: behind the loop all ranks go on from the same.

    Args:
        generators: of random numbers that the turns draw from, beside those of NumPy and Python for the whole process.
    """
    import horovod.tensorflow as hvd

    every: Any = turns
    try:
        count = len(every)
    except TypeError:  # a generator, which may draw random numbers, as all ranks do here alike
        every = list(turns)
        count = len(every)

    size: int = hvd.size()

    class Turns:
        def __len__(self) -> int:
            return -(-count // size)

        def __iter__(self) -> Iterator[Any]:
            if size == 1:
                yield from every
                return
            go_on = go_on_alike(*generators)
            _side_by_side.append([])
            rest = iter(every)  # not at once: a bar goes on with the turns
            try:
                while group := list(itertools.islice(rest, size)):
                    _side_by_side[-1] = group
                    yield group[min(hvd.rank(), len(group) - 1)]
            finally:
                _side_by_side.pop()
                go_on()

    return Turns()


#: Of the loops of `shard_turns` that run, the innermost last, the turns that the ranks take at the same time.
_side_by_side: list[list[Any]] = []


def any_turn(test: Callable[[Any], Any], turn: Any) -> bool:
    """Whether a test of a turn's number holds for one of the turns that the ranks of `shard_turns` take at the same time.

    What is done every so many turns, or at the last, is done by all ranks then: each alone has an N-th of the turns, and may
    have none of those. In one process, it is `test(turn)`.
    """
    import horovod.tensorflow as hvd

    turns = _side_by_side[-1] if hvd.size() > 1 and _side_by_side else [turn]
    return any(map(test, turns))


def first_turn(turn: Any) -> Any:
    """The first of the turns that the ranks of `shard_turns` take at the same time, the same on all of them.

    What sets a rate goes by it, so that all have one rate. In one process, it is the turn.
    """
    import horovod.tensorflow as hvd

    return _side_by_side[-1][0] if hvd.size() > 1 and _side_by_side else turn


def _every_nth(batches: Iterable[Any], beside: bool) -> Iterator[Any]:
    import horovod.tensorflow as hvd

    if hvd.size() == 1:
        yield from itertools.chain(
            batches
        )  # a generator itself would be closed, and may be asked again
        return
    read, go_on = _drawing_apart(iter(batches), beside), go_on_alike()
    try:
        while len(group := read(hvd.size())) == hvd.size():
            yield group[hvd.rank()]
        yield from map(_shard_batch, group)
    finally:
        go_on()


def _drawing_apart(batches: Iterator[Any], beside: bool) -> Callable[[int], list[Any]]:
    """What reads so many batches; all ranks draw the same random numbers of NumPy and Python where these are made, whatever each
    draws for its own.
    """
    import random

    import numpy as np

    make = go_on_alike()

    def read(count: int) -> list[Any]:
        nonlocal make
        own = np.random.get_state(), random.getstate()
        make()
        group = list(itertools.islice(batches, count))
        make = go_on_alike()
        np.random.set_state(own[0])
        random.setstate(own[1])
        for batch in group if not beside else ():
            if not hasattr(batch, "__len__") and not hasattr(batch, "shape"):
                raise TypeError(
                    f"a loop over {type(batch).__name__} objects is none over batches of data"
                )
        return group

    return read


def _shard_dataset(dataset: Any) -> Any:
    """This rank's elements of a dataset, without counting them first; they are read in groups of one for each rank."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    size, rank, count = hvd.size(), hvd.rank(), int(dataset.cardinality())
    if size == 1:
        return dataset
    shapes = [getattr(spec, "shape", None) for spec in tf.nest.flatten(dataset.element_spec)]
    divisible = all(shape is not None and shape.rank and shape[0] is None for shape in shapes)

    def own(*group: Any) -> Any:
        elements = group if isinstance(dataset.element_spec, tuple) else group[0]
        there = tf.nest.flatten(elements)[0].cardinality()
        whole = there == size

        def is_own(place: Any, _: Any) -> Any:
            everyone = tf.logical_and(divisible, tf.logical_not(whole))
            return tf.logical_or(everyone, place == tf.minimum(tf.cast(rank, tf.int64), there - 1))

        def rows(part: Any) -> Any:
            start = tf.minimum(rank, tf.shape(part)[0] - 1)
            return part[start::size]

        def share(_: Any, element: Any) -> Any:
            if not divisible:
                return element
            return tf.cond(whole, lambda: element, lambda: tf.nest.map_structure(rows, element))

        return tf.data.Dataset.zip(elements).enumerate().filter(is_own).map(share)

    shared = dataset.window(size).flat_map(own)
    if count >= 0:
        left = count % size
        shared = shared.apply(
            tf.data.experimental.assert_cardinality(
                count // size + (left if divisible else min(left, 1))
            )
        )
    elif count == tf.data.INFINITE_CARDINALITY:
        shared = dataset.shard(size, rank)
    for name, value in vars(dataset).items():
        if not name.startswith("_"):  # `class_names` of Keras' datasets
            setattr(shared, name, value)
    return shared


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

    def own(rows: Any) -> Any:
        if not getattr(rows, "shape", hasattr(rows, "__len__")):
            return rows  # a number of the batch
        return rows[min(hvd.rank(), len(rows) - 1) :: hvd.size()]

    return tf.nest.map_structure(own, batch)
