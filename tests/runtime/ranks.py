"""What each function of the runtime does on two ranks; started by `test_runtime.py` under horovodrun."""

from __future__ import annotations

import contextlib
import gc
import io
import random
import re
import sys
import time
import urllib.error
import warnings
from collections.abc import Iterator
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from sklearn.base import BaseEstimator, clone

import jupyter_hvd.runtime as jhvd
from jupyter_hvd.runtime.guard import _guard, join_ranks, meet, training_digest, watch, watch_cell

folder = Path(sys.argv[1])
jhvd.start(guard=False)  # weights are parted on purpose below
rank, size = hvd.rank(), hvd.size()
assert size == 2


def of_all(value: object) -> list[object]:
    return hvd.allgather_object(value)


# Rows: a whole batch more for one rank is left out, anything else is kept.
assert of_all(jhvd.shard_rows(list(range(5)), 2)) == [[0, 2], [1, 3]]
assert of_all(jhvd.shard_rows(list(range(7)), 2)) == [[0, 2, 4, 6], [1, 3, 5]]
# What is one batch of one process is no larger one of two; rank 0 says so.
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    jhvd.shard_rows(list(range(8)), 8)
assert len(warned) == (rank == 0)

# Rows of what a step takes whole: the mean of the ranks' gradients is that of all rows; what are no rows of these stays.
inputs, targets = np.arange(6.0, dtype="float32"), np.ones(6, "float32")
assert of_all(jhvd.own_rows(inputs).tolist()) == [[0, 1, 2], [3, 4, 5]]
slope = tf.Variable(2.0)


def slope_gradient(given: np.ndarray, wanted: np.ndarray) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((slope * given - wanted) ** 2)
    return tape.gradient(loss, slope)


own_gradient = slope_gradient(jhvd.own_rows(inputs), jhvd.own_rows(targets, inputs))
mean = jhvd.average_gradients(own_gradient)
assert np.isclose(float(mean), float(slope_gradient(inputs, targets)))
assert not np.isclose(float(mean), float(own_gradient))
assert jhvd.own_rows(np.ones(3), inputs).shape == (3,)
assert jhvd.own_rows(np.float32(1.0), inputs) == 1.0
# Labels of other dimensions than the predictions beside them are compared each with each: the mean is right where they stay.
column, answers = inputs[:, None], (inputs + 1) ** 2
for labels in (answers, answers[:, None]):
    wide = slope_gradient(jhvd.own_rows(column), jhvd.own_rows(labels, column))
    assert np.isclose(float(jhvd.average_gradients(wide)), float(slope_gradient(column, labels)))
assert len(jhvd.own_rows(answers, column, dimensions=1)) == 3
assert len(jhvd.own_rows(answers, column, dimensions=-1)) == 3
assert len(jhvd.own_rows(answers, column, dimensions=None)) == 3
if hasattr(tf.keras, "ops"):
    assert len(jhvd.own_rows(answers, column, is_squeezed=True)) == 3
else:
    with pytest.raises(ValueError, match="labels of shape"):
        jhvd.own_rows(answers, column, is_squeezed=True)
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    assert of_all(len(jhvd.own_rows(np.arange(5)))) == [2, 3]
assert len(warned) == (rank == 0)
with pytest.raises(ValueError, match="2 ranks"):
    jhvd.own_rows(np.arange(1))


# Estimators for scikit-learn: ranks that would fit different data, or with different parameters, all stop; the class stays one.
class Estimator(BaseEstimator):
    def __init__(self, rate: float = 0.1) -> None:
        self.rate = rate

    def fit(self, X: np.ndarray, y: np.ndarray | None = None) -> Estimator:
        return self


assert jhvd.distributed_estimator(Estimator) is Estimator
assert jhvd.distributed_estimator(Estimator) is Estimator
assert clone(Estimator(0.2)).fit(inputs, y=targets).get_params() == {"rate": 0.2}
assert "_hvd_estimator" not in vars(tf.keras.Model)
for estimator, given in ((Estimator(), inputs + rank), (Estimator(0.1 * rank), inputs)):
    with pytest.raises(ValueError, match="random_state"):
        estimator.fit(given)

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

# Batches of datasets, of whatever structure, counted or not.
for made in (
    tf.data.Dataset.range(12).batch(4),
    tf.data.Dataset.range(10).batch(4),
    tf.data.Dataset.range(10).batch(4).filter(lambda batch: batch[0] >= 0),
):
    pairs = made.map(lambda batch: (batch, {"twice": 2 * batch}))
    share = jhvd.shard(pairs)
    read = [list(map(int, batch)) for batch, _ in share]
    assert all((two["twice"] == 2 * one).numpy().all() for one, two in share)
    assert len(share) == len(read) if made.cardinality() > 0 else share.cardinality() == -2
    assert len(set(of_all(len(read)))) == 1
    seen = sorted(number for of_rank in of_all(read) for batch in of_rank for number in batch)
    assert seen == list(range(len(seen))), seen
    assert len(seen) in (10, 12), seen
# What is no batch is repeated where it is left over; what never ends, is not counted.
assert of_all([int(n) for n in jhvd.shard(tf.data.Dataset.range(3))]) == [[0, 2], [1, 2]]
endless = jhvd.shard(tf.data.Dataset.range(4).repeat())
assert of_all([int(n) for n in endless.take(3)]) == [[0, 2, 0], [1, 3, 1]]
one = tf.data.Dataset.range(1).batch(4)
assert of_all([list(map(int, batch)) for batch in jhvd.shard(one)]) == [[[0]], [[0]]]
named = tf.data.Dataset.range(4)
named.class_names = ["a", "b"]
assert jhvd.shard(named).class_names == ["a", "b"]
assert of_all(jhvd.shard({"a": np.arange(4)})["a"].tolist()) == [[0, 2], [1, 3]]
for nothing in (np.arange(1), tf.data.Dataset.range(0)):
    with pytest.raises(ValueError, match="2 ranks"):
        list(jhvd.equal_steps(nothing) if hasattr(nothing, "apply") else jhvd.shard(nothing))

# One order on all ranks, in each epoch, whatever their seeds; afterwards each goes on by itself.
tf.random.set_seed(rank)
seed = jhvd.same_seed()
for make in (
    lambda: jhvd.in_one_order(tf.data.Dataset.range(100).shuffle, seed)(30),
    lambda: jhvd.in_one_order(lambda: tf.data.Dataset.range(100).shuffle(30, seed=7), seed)(),
):
    order = make()
    epochs = [[int(n) for n in order] for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert of_all(epochs)[0] == of_all(epochs)[1]
assert len(set(of_all(float(tf.random.uniform([]))))) == 2

# What is learned is drawn alike, each time anew; then each goes on by itself, also who has drawn more in between.
drawn = []
for number in range(2):
    drawn.append(jhvd.draw_alike(tf.random.normal, seed)((3,)).numpy().tolist())
    if rank == number:
        jhvd.draw_alike(tf.random.normal, seed)((3,))
generator = jhvd.draw_alike(tf.random.Generator.from_non_deterministic_state, seed)()
drawn.append(generator.normal((3,)).numpy().tolist())
assert len({tuple(numbers) for numbers in drawn}) == 3
assert of_all(drawn) == [drawn, drawn]
assert len(set(of_all(float(tf.random.uniform([]))))) == 2

# Noise for weights is rank 0's, in compiled loops too.
moved = tf.Variable(tf.zeros(3))


@tf.function
def shake() -> None:
    for _ in tf.range(5):
        moved.assign_add(0.5 * moved + jhvd.of_rank_zero(tf.random.normal(moved.shape)))


shake()
assert of_all(moved.numpy().tolist())[0] == of_all(moved.numpy().tolist())[1] != [0, 0, 0]

# Random numbers of one's own, and then again the same.
jhvd.draw_apart()
assert len(set(of_all((np.random.rand(), random.random())))) == 2
jhvd.same_seed()
assert len(set(of_all((np.random.rand(), random.random())))) == 1

own = np.random.default_rng(7), np.random.RandomState(7), random.Random(7)
jhvd.draw_apart(*own)
assert len(set(of_all((own[0].random(), own[1].rand(), own[2].random())))) == 2
for each in (own[0].random(), own[1].rand(), own[2].random()):
    assert len(set(of_all(each))) == 2
jhvd.same_seed(*own)
assert len(set(of_all((own[0].random(), own[1].rand(), own[2].random())))) == 1

# Batches with their numbers: what is left over is divided by rows, the number is each rank's.
numbered = list(jhvd.shard_batches(enumerate([np.arange(4)] * 3)))
assert of_all([(n, rows.tolist()) for n, rows in numbered]) == [
    [(0, [0, 1, 2, 3]), (2, [0, 2])],
    [(1, [0, 1, 2, 3]), (2, [1, 3])],
]

# Numbers that a loop over data draws beside these: each rank those of its batches; a loop over numbers alone has no batches.
weights = iter([0.1, 0.2, 0.3, 0.4])
drawn = [next(jhvd.shard_batches(weights, beside=True)) for _ in range(2)]
assert of_all(drawn) == [[0.1, 0.3], [0.2, 0.4]]
with pytest.raises(TypeError, match="none over batches of data"):
    list(jhvd.shard_batches([0.1, 0.2]))


# What each draws for batches of other sizes changes nothing of the batches that are made next.
def of_sizes() -> Iterator[np.ndarray]:
    for rows in (3, 2, 3):
        yield np.random.rand(rows)


for _ in range(2):
    read = []
    for batch in jhvd.shard_batches(of_sizes()):
        read.append(batch.tolist())
        np.random.rand(len(batch)), [random.random() for _ in batch]
    every = of_all(read)
    assert [len(each) for each in every] == [2, 2]
    assert len({number for each in every for rows in each for number in rows}) == 8
    assert len(set(of_all((np.random.rand(), random.random())))) == 1

# Turns: as many on each rank.
assert of_all(list(jhvd.shard_turns(range(0, 50, 10)))) == [[0, 20, 40], [10, 30, 40]]


# A bar of progress goes on with them; what has no length has them at once.
class Bar:
    passed = 0

    def __len__(self) -> int:
        return 5

    def __iter__(self) -> Iterator[int]:
        for self.passed in range(1, 6):
            yield 10 * (self.passed - 1)


bar = Bar()
assert of_all([(i, bar.passed) for i in jhvd.shard_turns(bar)]) == [
    [(0, 2), (20, 4), (40, 5)],
    [(10, 2), (30, 4), (40, 5)],
]
assert of_all(list(jhvd.shard_turns(iter(range(3))))) == [[0, 2], [1, 2]]
# What hangs on the number of a turn happens on all ranks, at the step that has it, in a loop within another one, too.
asked = [
    (
        jhvd.any_turn(lambda i: i == 10, i),
        any(jhvd.any_turn(lambda j: j > 2, j) for j in jhvd.shard_turns(range(4))),
    )
    for i in jhvd.shard_turns(range(0, 50, 10))
]
assert of_all([jhvd.first_turn(i) for i in jhvd.shard_turns(range(0, 50, 10))]) == [[0, 20, 40]] * 2
assert jhvd.first_turn(7) == 7
assert of_all(asked) == [[(True, True), (False, True), (False, True)]] * 2

# Behind them, however many random numbers each rank has drawn in its own, and whether it came to their end, the same ones again.
own = np.random.default_rng(7), np.random.RandomState(7), random.Random(7)
for ends in (False, True):
    for _ in jhvd.shard_turns(range(4), *own):
        for _ in range(1 + rank):
            np.random.rand(), random.random(), own[0].random(), own[1].rand(), own[2].random()
        if ends:
            break
    then = (np.random.rand(), random.random(), own[0].random(), own[1].rand(), own[2].random())
    assert len(set(of_all(then))) == 1

# Datasets: as many batches as the rank with the fewest, counted where their number is not known.
data = tf.data.Dataset.range(6 + rank)
assert len(list(jhvd.equal_steps(data))) == 6
assert len(list(jhvd.equal_steps(data.filter(lambda n: n >= 0)))) == 6
# Passes of other lengths, and shares that differ: a pass goes on with the next one's batches, and rank 0 says so.
drawing = tf.data.Dataset.range(60).filter(lambda _: tf.random.uniform([]) < 0.5)
drawn = jhvd.equal_steps(drawing)
assert (
    len({length for each in of_all([len(list(drawn)) for _ in range(5)]) for length in each}) == 1
)
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    uneven = jhvd.equal_steps(tf.data.Dataset.range(4 + 4 * rank).filter(lambda n: n >= 0))
assert [str(w.message)[:40] for w in warned] == ["the ranks' shares have 4, 8 batches: of "] * (
    rank == 0
)
assert of_all([int(n) for n in uneven]) == [[0, 1, 2, 3, 0, 1], [0, 1, 2, 3, 4, 5]]
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
    gradients = jhvd.DistributedGradientTape(tape).gradient(loss, variables)
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


# What is made of a configuration gets the rate of all ranks, once; an optimizer that is made already keeps its own.
config = {"class_name": "SGD", "config": {"learning_rate": 0.25}}
ready = tf.keras.optimizers.deserialize(config)
assert float(jhvd.multiplied_rate(ready).learning_rate) == 0.5
assert float(jhvd.scaled_optimizer(config).learning_rate) == 0.5
assert float(jhvd.scaled_optimizer(ready).learning_rate) == 0.5


halving = tf.keras.optimizers.schedules.ExponentialDecay(0.25, 4, 0.5)
falling = tf.keras.optimizers.serialize(tf.keras.optimizers.SGD(halving))
assert float(jhvd.scaled_optimizer(falling)._learning_rate(2)) == 0.25


class Falling(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step: int) -> float:
        return 1 / (1 + step)


schedule = jhvd.scaled_schedule(Falling())
assert schedule(3) == 2 / 7
assert isinstance(schedule, Falling)
assert type(schedule).__name__ == "Falling"
assert jhvd.scaled_rates(lambda epoch: 0.1 + epoch)(0, 4.0) == 0.2
assert jhvd.scaled_rates(lambda epoch, rate: epoch + rate / 2)(0, 4.0) == 2.0

# Callbacks that stop: all ranks see one batch's metrics.
logs = {"loss": float(rank)}
jhvd.MetricAverageCallback(each_batch=True).on_train_batch_end(0, logs)
assert logs == {"loss": 0.5}

# Ranks with other versions are told apart; weights that are no numbers are told once, by rank 0.
version = tf.__version__
tf.__version__ = str(rank)
with pytest.raises(RuntimeError, match=r"rank 0 has TensorFlow 0 with .*, rank 1 has TensorFlow 1"):
    watch()
tf.__version__ = version
heard = io.StringIO()
with contextlib.redirect_stderr(heard):
    for _ in range(2):
        _guard.tell_of_nan([("w", tf.constant([1.0, float("nan")]))])
assert heard.getvalue().count("w is not finite") == (rank == 0)

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


def fail() -> None:
    assert rank == 0, "the others do not try"
    raise urllib.error.HTTPError(
        "http://a", 404, "not found", {}, io.BytesIO(b"an open connection")
    )


# An error of rank 0 that cannot be sent as it is; the ranks go on together where it is caught.
for go in (jhvd.local_rank_zero_first, jhvd.on_rank_zero):
    with pytest.raises(urllib.error.URLError, match="not found"):
        go(fail)
assert of_all(rank) == [0, 1]
# Who is done answers for the others, as often as it is done: Horovod's own `join` did so once.
for turn in range(4):
    tf.config.run_functions_eagerly(turn > 1)
    others = turn % 2
    if rank == others:
        time.sleep(0.3)  # the other one is done
        sums = [float(hvd.allreduce(tf.constant(1.0), name="turn")) for _ in range(2)]
        assert sums == [0.5, 0.5]
    assert join_ranks() == others
    assert float(hvd.allreduce(tf.constant(1.0), name="turn")) == 1.0
tf.config.run_functions_eagerly(False)

# What optimizers update is compared when nobody trains, also where nobody has counted it; whoever has gone is left out.
watch_cell()
assert not training_digest()
assert meet() == ""
parted, kept = (tf.Variable([1.0, 2.0], name=name) for name in ("parted", "kept"))
by_hand = tf.keras.optimizers.SGD(0.5)
by_hand.apply_gradients([(tf.constant([0.0, float(rank)]), parted), (tf.ones(2), kept)])
if rank == 0:
    gone = tf.keras.optimizers.SGD(0.5)
    gone.apply_gradients([(tf.ones(2), tf.Variable([1.0, 2.0]))])
    del gone
    gc.collect()
assert training_digest()
assert re.match(
    r"After training \S*parted\S* \(\d+\.0\) of rank 1 differs from rank 0's, by up to 0\.5: .*HVD301",
    meet(),
)
watch_cell()
assert not training_digest(), "another cell"
if rank == 1:
    by_hand.apply_gradients([(tf.zeros(2), parted), (tf.ones(2), kept)])
assert re.match(r"After training \S*parted", meet()), (
    "it was apart before, and one rank has trained"
)
parted.assign(tf.zeros(2))
assert re.match(r"After training \S*kept", meet()), "one rank alone has trained"
print("all is well")
