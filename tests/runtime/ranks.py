"""What each function of the runtime does on two ranks; started by `test_runtime.py` under horovodrun."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

import jupyter_hvd.runtime as jhvd

folder = Path(sys.argv[1])
jhvd.start()
rank, size = hvd.rank(), hvd.size()
assert size == 2


def of_all(value: object) -> list[object]:
    return hvd.allgather_object(value)


# Rows: a whole batch more for one rank is left out, anything else is kept.
assert of_all(jhvd.shard_rows(list(range(5)), 2)) == [[0, 2], [1, 3]]
assert of_all(jhvd.shard_rows(list(range(7)), 2)) == [[0, 2, 4, 6], [1, 3, 5]]

# Batches of generators and sequences: left-over ones by rows.
batches = [np.arange(4) + 4 * n for n in range(3)]
expected = [[0, 1, 2, 3], [8, 10]] if rank == 0 else [[4, 5, 6, 7], [9, 11]]
assert [list(batch) for batch in jhvd.shard_batches(batches)] == expected


class Numbers(tf.keras.utils.Sequence):
    ended = 0

    def __len__(self) -> int:
        return len(batches)

    def __getitem__(self, index: int) -> np.ndarray:
        return batches[index]

    def on_epoch_end(self) -> None:
        self.ended += 1
        self.drawn = np.random.rand()


sequence = Numbers()
share = jhvd.shard_sequence(sequence, shuffles=True)
assert [list(share[index]) for index in range(len(share))] == expected
np.random.seed(rank)
share.on_epoch_end()
assert sequence.ended == 1
assert len(set(of_all(sequence.drawn))) == 1

# Datasets: as many batches as the rank with the fewest, counted where their number is not known.
data = tf.data.Dataset.range(6 + rank)
assert len(list(jhvd.equal_steps(data))) == 6
assert len(list(jhvd.equal_steps(data.filter(lambda n: n >= 0)))) == 6
endless = data.repeat()
assert jhvd.equal_steps(endless) is endless

# Random numbers: those of rank 0, and a seed for others.
np.random.seed(rank)
random.seed(rank)
seed = jhvd.same_seed()
assert seed is not None
assert len(set(of_all((seed, np.random.rand(), random.random())))) == 1

# Weights: rank 0's, once for each model, raw variables too.
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
extra = tf.Variable(float(rank))
optimizer = tf.keras.optimizers.Adam(0.1)


def step() -> None:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.ones((1, 3)))) + extra
    variables = [*model.trainable_variables, extra]
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, variables)
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    jhvd.broadcast_once(optimizer, model, [extra])


tf.random.set_seed(rank)
step()
weights = [variable.numpy().tolist() for variable in [*model.variables, extra]]
assert of_all(weights) == [weights, weights]
extra.assign(float(rank))
step()
assert len(set(of_all(float(extra)))) == 2, "what is broadcast already is left alone"
other = tf.Variable(float(rank))
jhvd.broadcast_once(optimizer, other)
assert float(other) == 0.0

# Rates: N times as large, at the step or epoch that one process would have reached.


class Falling(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step: int) -> float:
        return 1 / (1 + step)


schedule = jhvd.scaled_schedule(Falling())
assert schedule(3) == 2 / 7
again = type(schedule).from_config(schedule.get_config())
assert again(3) == 2 / 7
assert type(jhvd.scaled_schedule(Falling())) is type(schedule)
assert jhvd.scaled_rates(lambda epoch: 0.1 + epoch)(0, 4.0) == 0.2
assert jhvd.scaled_rates(lambda epoch, rate: epoch + rate / 2)(0, 4.0) == 2.0

# Files: the others wait until rank 0 has written, and find what the first rank has downloaded.
if rank == 0:
    (folder / "written").write_text("by rank 0")
jhvd.wait_for_rank_zero()
assert (folder / "written").read_text() == "by rank 0"


def download() -> str:
    place = folder / "downloaded"
    first = not place.exists()
    place.write_text("x")
    return "first" if first else "later"


assert of_all(jhvd.local_rank_zero_first(download)) == ["first", "later"]
print("all is well")
