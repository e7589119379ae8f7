"""Pipelines whose maps each rank computes for its own rows: the same batches, in the same order, as the plain pipeline gives."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exact")]

#: For each pipeline, whether it is sharded. Both ways are read in the same process: TensorFlow's own iterator is the plain way.
PROGRAM = """\
import os
import numpy as np
import tensorflow as tf
from unittest import mock
from jupyter_hvd.runtime.sharing import own_rows, sharded_reads

sharded_reads.WORTHWHILE, sharded_reads.SHORT, sharded_reads.COMPARED = 1e9, 0.0, 1
thorough = os.environ["VARIANT"] == "thorough"
tf.random.set_seed(3)
Dataset = tf.data.Dataset
numbers = Dataset.range(11)
f = lambda i: tf.stack([tf.cast(i, tf.float32) ** 0.5, tf.sin(tf.cast(i, tf.float32))])
pair = lambda i: {"x": f(i), "y": (i, i % 3 == 0)}
rows = [np.arange(9), np.arange(9) % 2 == 0]
words = Dataset.from_tensor_slices([f"{i}.5" for i in range(10)])

types = (tf.uint8, tf.bfloat16, tf.complex64, tf.uint32)

def noisy(i):
    return f(i) + tf.random.normal(())

def in_python(i):
    return tf.numpy_function(lambda i: np.float32(i), [i], tf.float32)

def generate():
    yield from range(8)

SHARDED = {
    "last partial batch": lambda: numbers.map(f).batch(4),
    "one row left": lambda: numbers.map(f).batch(5).prefetch(2),
    "not divisible": lambda: numbers.map(f).batch(3),
    "drop remainder": lambda: numbers.map(f).batch(4, drop_remainder=True),
    "drop odd remainder": lambda: numbers.map(f).batch(3, drop_remainder=True),
    "parallel": lambda: numbers.map(f, num_parallel_calls=2).batch(4, num_parallel_calls=2),
    "nested": lambda: numbers.map(pair).batch(4),
    "two maps": lambda: numbers.map(pair).map(lambda e: (e["x"] * 2, e["y"][1])).batch(4),
    "seeded shuffle": lambda: numbers.shuffle(5, seed=2).map(f).batch(4).repeat(2),
    "shuffle": lambda: numbers.shuffle(5).map(f).batch(4),
    "repeat before": lambda: numbers.map(f).repeat(3).batch(4).take(7).skip(1),
    "strings": lambda: words.map(lambda s: (tf.strings.to_number(s), tf.strings.length(s))).batch(4),
    "zip": lambda: Dataset.zip((words.map(tf.strings.to_number), {"i": numbers.map(f)}, numbers)).batch(4),
    "arrays": lambda: Dataset.from_tensor_slices(tuple(rows)).map(lambda a, b: (f(a), b)).batch(4),
    "cache after": lambda: numbers.map(f).batch(4).cache().repeat(2),
    "cache before": lambda: numbers.map(lambda i: i + 1).cache().map(f).batch(4),
    "branches": lambda: numbers.map(lambda i: tf.cond(i > 4, lambda: i, lambda: -i)).batch(4),
    "filter before": lambda: numbers.filter(lambda i: i % 3 != 1).map(f).batch(4),
    "interleave before": lambda: numbers.interleave(lambda i: Dataset.range(i, i + 2)).map(f).batch(4),
    "types": lambda: numbers.map(lambda i: tuple(tf.cast(i, t) for t in types)).batch(4),
    "growing": lambda: Dataset.from_tensor_slices(rows[0]).map(lambda i: tf.ones([3 + 0 * i])).batch(4),
}
PLAIN = {
    "random": lambda: numbers.map(noisy).batch(4),
    "Python": lambda: numbers.map(in_python).batch(4),
    "filter between": lambda: numbers.map(f).filter(lambda v: v[1] > 0).batch(4),
    "flat_map between": lambda: numbers.map(f).flat_map(Dataset.from_tensor_slices).batch(4),
    "unbatch between": lambda: numbers.map(f).batch(2).unbatch().batch(4),
    "map after": lambda: numbers.map(f).batch(4).map(lambda x: x - tf.reduce_mean(x)),
    "shuffle between": lambda: numbers.map(f).shuffle(4, seed=1).batch(4),
    "cache in a file": lambda: numbers.map(f).batch(4).cache(f"cache-{len(os.listdir('.'))}"),
    "padded": lambda: numbers.map(lambda i: tf.range(i)).padded_batch(4),
    "ragged": lambda: numbers.map(lambda i: tf.range(i)).ragged_batch(4),
    "ragged rows": lambda: numbers.map(lambda i: tf.RaggedTensor.from_row_lengths([i], [1])).batch(4),
    "strings out": lambda: numbers.map(tf.strings.as_string).batch(4),
    "generator": lambda: Dataset.from_generator(generate, output_signature=tf.TensorSpec((), tf.int64)).map(f).batch(4),
    "no map": lambda: numbers.batch(4),
    "small batches": lambda: numbers.map(f).batch(1),
    "any order": lambda: numbers.map(f, num_parallel_calls=2, deterministic=False).batch(4),
    "variable": lambda: numbers.map(lambda i: tf.cast(i, tf.float32) * variable).batch(4),
}
variable = tf.Variable(2.0)
plain = sharded_reads.iterator_of

def values(iterator):
    return [tf.nest.map_structure(lambda t: t.numpy().tolist(), tf.nest.flatten(e, expand_composites=True)) for e in iterator]

def read(name, make, iterate):
    tf.random.set_seed(3)  # the seeds that TensorFlow chooses
    data = make()
    return [values(iterate(data)) for _ in range(2 if "shuffle" in name or "cache" in name else 1)], data

QUICK = (
    "one row left", "not divisible", "drop odd remainder", "nested", "seeded shuffle", "repeat before", "strings", "zip",
    "cache after", "types",
    "random", "Python", "filter between", "map after", "cache in a file", "padded", "generator", "any order",
)
for name, make in {**SHARDED, **PLAIN}.items():
    if not (thorough or name in QUICK):
        continue
    found, data = read(name, make, iter)
    sharded = type(iter(data)) is sharded_reads.ShardedIterator
    if sharded != (name in SHARDED):
        print(name, "is sharded" if sharded else "is not sharded")
    if sharded and found != read(name, make, plain)[0]:
        print(name, "differs", found, read(name, make, plain)[0])

@tf.function
def total(iterator):
    found = 0.0
    for x in iterator:
        found += tf.reduce_sum(x)
    return found

@tf.function
def following(iterator):
    return next(iterator), iterator.get_next_as_optional().has_value()

data = SHARDED["one row left"]()
assert float(total(iter(data))) == float(total(plain(data)))
assert np.allclose(following(iter(data))[0], following(plain(data))[0])
optional = iter(data.take(1))
assert [bool(optional.get_next_as_optional().has_value()) for _ in range(2)] == [True, False]

never = lambda: mock.patch.object(sharded_reads, "is_sharding_possible", lambda: False)
layers, kept = tf.keras.layers, []

# It differentiates for its inputs, so it needs all rows of them.
class Penalized(tf.keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                y_pred = self(x, training=True)
            slopes = inner.gradient(y_pred, x)
            loss = self.compute_loss(x, y, y_pred) + tf.reduce_mean(slopes**2)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
        return self.compute_metrics(x, y, y_pred, None) | {"loss": loss}

class Reconstructing(tf.keras.Model):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, **options):
        return super().compute_loss(x, y, y_pred, sample_weight) + tf.reduce_mean(x) * tf.reduce_mean(y_pred)

def keep(data):
    read = original(data)
    kept.append(sum(hasattr(t, own_rows.READ) for t in tf.nest.flatten(data)))
    return read

# A history and predictions, and how many tensors each traced step takes own rows of.
def train(data, kind=tf.keras.Model, steps=1):
    kept.clear()
    tf.keras.utils.set_random_seed(1)
    inputs = tf.keras.Input(data.element_spec[0].shape[1:])
    hidden = layers.Dropout(0.3)(layers.BatchNormalization()(layers.Flatten()(inputs)))
    model = kind(inputs, layers.Dense(1)(hidden))
    model.compile("sgd", "mse", metrics=["mae"], steps_per_execution=steps)
    found = model.fit(data, validation_data=data.take(1), verbose=0).history
    if kind is tf.keras.Model:
        found |= {"predictions": model.predict(data, verbose=0)}
    return found, list(kept)

original = own_rows.reading_own_rows
own_rows.reading_own_rows = keep
image = lambda i: (tf.ones((32, 32, 1)) * f(i)[1], tf.cast(i % 2, tf.float32))
small, large = (Dataset.range(11).map(g).batch(4) for g in (lambda i: (f(i), i % 2), image))
cases = {(large,): 1, (large, Penalized): 1}
if thorough:
    cases |= {(large, Reconstructing): 0, (small, tf.keras.Model, 3): 0}
for case, taken in cases.items():
    found, kept_rows = train(*case)
    with never():
        expected, _ = train(*case)
    for name, value in found.items():
        if not np.allclose(value, expected[name], atol=1e-5):
            print(case, name, value, expected[name])
    if max(kept_rows, default=0) != taken:
        print(case, "took own rows", kept_rows)
print("the end")
"""


AUGMENTED = """\
import numpy as np
import tensorflow as tf
from jupyter_hvd.runtime.sharing import sharded_reads

sharded_reads.WORTHWHILE, sharded_reads.SHORT, sharded_reads.COMPARED = 1e9, 0.0, 1

def augment(i):
    return i, tf.random.uniform(()), tf.image.random_brightness(tf.zeros((1, 1, 1)), 0.5, seed=3)

def count(i):
    return tf.random.uniform(()) + tf.cast(counter.assign_add(1), tf.float32)

counter = tf.Variable(0)
data = tf.data.Dataset.range(400).map(augment).batch(7).prefetch(1)
assert type(iter(data)) is sharded_reads.ShardedIterator
read = [tuple(t.numpy().ravel() for t in batch) for batch in data]
assert [len(i) for i, *_ in read] == 57 * [7] + [1]
order, *drawn = map(np.concatenate, zip(*read))
assert order.tolist() == list(range(400))
for numbers in drawn:
    # Rows, and with them ranks, draw independent numbers.
    assert len({*numbers}) > 398
    assert abs(np.corrcoef(numbers[::2], numbers[1::2])[0, 1]) < 0.3
assert np.abs(np.quantile(drawn[0], [0.1, 0.5, 0.9]) - [0.1, 0.5, 0.9]).max() < 0.1
assert type(iter(tf.data.Dataset.range(8).map(count).batch(4))) is not sharded_reads.ShardedIterator
print("next", tf.random.uniform(()).numpy())
"""


def test_own_rows_are_augmented(hvd, run_forked_script, tmp_path: Path) -> None:
    """Each rank draws for its own rows; what the program draws elsewhere is what one process draws."""
    path = tmp_path / "train.py"
    path.write_text("import tensorflow as tf\ntf.random.set_seed(3)\n" + AUGMENTED)
    done = hvd("run", path, "-n", 2, "--batch", "global", "--data", "augment", "--no-log")
    assert done.returncode == 0, done.stderr
    said = "`augment` draws other random numbers than in one process, from the same distribution"
    assert done.stderr.count(said) == 1
    alone = "import tensorflow as tf\ntf.random.set_seed(3)\nprint('next', tf.random.uniform(()).numpy())\n"
    path.write_text(alone)
    one = run_forked_script(path, check=True)
    assert done.stdout == one.stdout
    refused = hvd("verify", path, "--batch", "global", "--data", "augment")
    assert (refused.returncode, "there is nothing to compare with" in refused.stderr) == (2, True)


@pytest.mark.parametrize("variant", ["quick", pytest.param("thorough", marks=pytest.mark.thorough)])
@pytest.mark.long
def test_sharded_pipelines_give_the_same_batches(
    hvd, tmp_path: Path, monkeypatch, variant: str
) -> None:
    monkeypatch.setenv("VARIANT", variant)
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "1")
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    done = hvd("run", path, "-n", 2, "--batch", "global", "--no-log")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the end"]
    assert (
        done.stderr.count("`noisy`, because it draws random numbers; with --data augment each") == 1
    )
    assert done.stderr.count("`in_python`, because it calls Python") == 1
