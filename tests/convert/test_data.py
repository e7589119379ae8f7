"""What is said of data where ranks must read them in one order."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import ways_divided
from jupyter_hvd.rules.base import program
from jupyter_hvd.source.edits import Edit, apply_edits, by_priority

PROGRAM = """\
import tensorflow as tf

train = tf.keras.utils.image_dataset_from_directory('photos', seed=1)
print({})
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', loss='mse')
model.fit(train)
"""


def test_all_ranks_go_through_what_they_shuffle_alike() -> None:
    """A rank that read the data once more than the others would have another order from then on."""
    for read in ("len(list(train))", "[x.shape for x, y in train]", "model.evaluate(train)"):
        code = convert_source(PROGRAM.format(read)).code
        assert "hvd_printed = " in code, code
    assert "hvd_printed" not in convert_source(PROGRAM.format("len(train)")).code


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("fit_sgd_call", ["divided exactly"]),
        ("tape_tf_function", ["divided exactly"]),
        ("fit_image_folder", ["divided by agreement"]),
        ("fit_generator", ["divided by agreement"]),
        ("fit_window_property", ["divided by agreement"]),
        ("fit_hidden_arguments", ["divided by agreement"]),
        ("tape_cut_batches", ["divided by agreement"]),
        ("tape_drawn_rows", ["drawn independently"]),
    ],
)
def test_the_way_is_told(name: str, ways: list[str]) -> None:
    program = Path(__file__).parents[1] / "programs" / f"{name}.py"
    assert ways_divided(convert_source(program.read_text()).changes) == ways


MODEL = """\
import numpy as np
import tensorflow as tf

x, y, a, b = load()
m = tf.keras.Sequential([tf.keras.layers.Dense(1)])
m.compile('sgd', loss='mse')
"""


def converted(body: str) -> str:
    """What becomes of the lines behind the model."""
    conversion = convert_source(MODEL + body)
    assert conversion.status == "converted", conversion.diagnostics
    ast.parse(conversion.code)
    return conversion.code[conversion.code.index("m.compile(") :]


@pytest.mark.parametrize(
    "made",
    [
        "tf.data.Dataset.from_tensor_slices(x).shuffle(10)",
        "tf.data.Dataset.list_files('*.txt')",
        "tfds.load('mnist', split='train', shuffle_files=True)",
    ],
)
def test_a_chain_is_put_in_one_order_at_each_of_its_shuffles(made: str) -> None:
    body = (
        "import tensorflow_datasets as tfds\n"
        f"train = {made}.map(f).shuffle(10).batch(4)\n"
        "norm = tf.keras.layers.Normalization()\n"
        "norm.adapt(train)\n"
        "m.fit(train)\n"
    )
    code = converted(body)
    assert code.count("jhvd.in_one_order(") == code.count(", hvd_seed)(") == 2
    assert "train = jhvd.in_one_order(jhvd." in code
    assert ".map(f).shuffle, hvd_seed)(10).batch(4)\n" in code
    assert "m.fit(jhvd.shard(train)" in code


def test_wrappers_that_begin_at_one_place_do_not_cross() -> None:
    """The layers of `f` and `g` would put the shorter outside."""
    f = (Edit(0, 0, 10, "f(", other_end=1), Edit(1, 1, -10, ")", other_end=0))
    g = (Edit(0, 0, 16, "g(", other_end=3), Edit(3, 3, -16, ", 1)", other_end=0))
    same = (Edit(0, 0, 10, "f(", other_end=3), Edit(3, 3, -10, ")", other_end=0))
    for edits in ((*f, *g, *same), (*same, *g, *f)):
        assert apply_edits("a.b", edits) == "f(g(f(a).b, 1))"
        plain = by_priority(edits)
        assert apply_edits("a.b", [plain[edit] for edit in reversed(edits)]) == "f(g(f(a).b, 1))"


SHARD = ".shard(hvd.size(), hvd.rank())"


@pytest.mark.parametrize(
    "chain",
    [
        "from_tensor_slices(x).window(21, shift=1).flat_map(lambda w: w.batch(21))|.map(f).batch(32)",
        "from_tensor_slices(x).window(21).map(f).flat_map(g)|.shuffle(9).batch(32)",
        "from_tensor_slices(x).batch(101, drop_remainder=True)|.map(f).shuffle(9).batch(64)",
        "from_tensor_slices(x).padded_batch(101)|.batch(64).repeat()",
        "TextLineDataset(x).batch(100).map(f).unbatch()|.shuffle(9).batch(64)",
        "TextLineDataset(x).scan(0, f)|.batch(64)",
        # Each element by itself makes these.
        "from_tensor_slices(x)|.flat_map(f).shuffle(9).batch(64)",
        "from_tensor_slices(x)|.interleave(f).batch(64).prefetch(1)",
    ],
)
def test_ranks_part_when_the_elements_are_made(chain: str) -> None:
    """Windows over every N-th element would be other windows."""
    expected = chain.replace("|", SHARD)
    assert f"tf.data.Dataset.{expected}" in converted(
        f"m.fit(tf.data.Dataset.{chain.replace('|', '')}, epochs=2)\n"
    ).replace(".apply(jhvd.equal_steps)", "")


def test_ranks_part_when_the_elements_are_made_in_a_function() -> None:
    code = converted(
        "def windowed(series):\n"
        "    ds = tf.data.Dataset.from_tensor_slices(series)\n"
        "    ds = ds.window(21, shift=1, drop_remainder=True)\n"
        "    ds = ds.flat_map(lambda w: w.batch(21))\n"
        "    ds = ds.shuffle(1000)\n"
        "    return ds.batch(32)\n"
        "m.fit(windowed(x))\n"
    )
    assert code.count(SHARD) == 1
    assert f"w.batch(21)){SHARD}\n" in code


def test_what_shuffles_before_the_elements_are_made_does_so_alike() -> None:
    code = converted(
        "m.fit(tf.data.Dataset.from_tensor_slices(x).shuffle(9).batch(9).shuffle(9).batch(4))\n"
    )
    alike = "jhvd.in_one_order(tf.data.Dataset.from_tensor_slices(x).shuffle, hvd_seed)(9)"
    assert f"{alike}.batch(9){SHARD}.shuffle(9).batch(4)" in code


def test_files_that_records_are_read_from_are_in_one_order() -> None:
    listed = "tf.data.Dataset.list_files"
    alike = f"jhvd.in_one_order({listed}, hvd_seed)('*.txt')"
    read = f"m.fit(tf.data.TFRecordDataset({listed}('*.txt')).map(f).batch(32))\n"
    assert f"TFRecordDataset({alike}){SHARD}.map(f)" in converted(read)
    shuffled = converted(
        f"files = {listed}('*.txt', shuffle=False).shuffle(9)\n"
        "m.fit(tf.data.TextLineDataset(files).shuffle(9).batch(32))\n"
    )
    assert shuffled.count("in_one_order") == 1
    assert "shuffle=False).shuffle, hvd_seed)(9)\n" in shuffled


ALIKE = "ds = jhvd.in_one_order(tf.data.Dataset.from_tensor_slices((x, y)).shuffle, hvd_seed)(99)"


@pytest.mark.parametrize(
    ("made", "use"),
    [
        (
            "ds\ntest, train = ds.take(100), ds.skip(100)|",
            "m.fit(train.batch(32))\nm.evaluate(test.batch(32))",
        ),
        (
            "ds.map(f)\ntest = ds.take(100)\ntrain = ds.cache().skip(100)|.shuffle(5)",
            "m.fit(train.batch(32), epochs=3, validation_data=test.batch(32))",
        ),
        (
            "ds\ntrain, rest = ds.take(80)|, ds.skip(80)\nval, test = rest.take(10), rest.skip(10)",
            "m.fit(train.batch(32))\nm.evaluate(val.batch(32))\nm.evaluate(test.batch(32))",
        ),
        ("ds.repeat()\ntrain = ds.take(500)|", "m.fit(train.batch(32))\nm.evaluate(ds.take(50))"),
    ],
)
def test_a_split_is_one_of_all_the_data(made: str, use: str) -> None:
    """Ranks that split their shares, or each its own order, would train on test data."""
    made = made.replace("ds", "tf.data.Dataset.from_tensor_slices((x, y)).shuffle(99)", 1)
    code = converted(f"ds = {made.replace('|', '')}\n{use}\n")
    _, _, behind = made.partition("\n")
    assert ALIKE in code
    assert behind.replace("|", SHARD) in code
    assert "//" not in code


def test_a_split_of_batches_is_divided_by_batches() -> None:
    code = converted(
        "ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(99).batch(32)\n"
        "train, val = ds.take(80), ds.skip(80)\n"
        "m.fit(train, validation_data=val)\n"
    )
    assert f"{ALIKE}.batch(32)\n" in code
    assert "train, val = ds.take(80).apply(jhvd.shard_batches), ds.skip(80)\n" in code


def test_a_look_at_some_elements_splits_nothing() -> None:
    code = converted(
        "ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(99).batch(32)\n"
        "for some, _ in ds.take(1):\n    print(some)\n"
        "m.fit(ds.take(500))\n"
    )
    assert f"from_tensor_slices((x, y)){SHARD}.shuffle(99)" in code
    assert "ds.take(500 // hvd.size() or 500)" in code


MAKE = (
    "def make(x, y):\n"
    "    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(9).batch(32)\n\n\n"
)
TWO = "train = tf.data.Dataset.from_tensor_slices((x, y))\ntest = tf.data.Dataset.from_tensor_slices((a, b))\n"
STEPS = """\
opt = tf.keras.optimizers.Adam()
train, test = make(x, y), make(a, b)
for epoch in range(10):
    for step, (u, v) in enumerate(train):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((m(u) - v) ** 2)
        opt.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
"""


@pytest.mark.parametrize(
    ("body", "divided"),
    [
        ("m.fit(make(x, y))\nm.evaluate(make(a, b))\n", "m.fit(jhvd.shard(make(x, y))"),
        (
            "train, test = make(x, y), make(a, b)\nm.fit(train, validation_data=test)\n",
            "m.fit(jhvd.shard(train), validation_data=test",
        ),
        (
            "train = make(x, y)\nm.fit(train)\nfor u, v in make(a, b):\n    total += f(m(u), v)\n",
            "m.fit(jhvd.shard(train)",
        ),
        (
            STEPS + "        if step % 80 == 0:\n            z = next(iter(test))\n",
            "in enumerate(jhvd.shard_batches(train))",
        ),
        (
            STEPS + "    for u, v in test:\n        total += f(m(u), v)\n",
            "in enumerate(jhvd.shard_batches(train))",
        ),
    ],
)
def test_what_a_function_makes_for_training_and_tests_is_divided_at_use(
    body: str, divided: str
) -> None:
    code = converted(MAKE + body)
    assert divided in code
    assert code.count("jhvd.shard") == 1
    assert ".shard(" not in code.replace("jhvd.shard(", "")
    assert "jhvd.in_one_order(tf.data.Dataset.from_tensor_slices((x, y)).shuffle, hvd_seed)" in code


@pytest.mark.parametrize(
    "steps",
    [
        "window(9).flat_map(f).batch(4)",  # behind which they part
        "shuffle(9).batch(4).take(100)",  # a count of steps
    ],
)
def test_what_a_function_divides_is_not_for_tests(steps: str) -> None:
    code = converted(
        f"{TWO}def prep(ds):\n    return ds.{steps}\n\n\n"
        "train, test = prep(train), prep(test)\nm.fit(train)\nm.evaluate(test)\n"
    )
    assert "m.fit(jhvd.shard(train)" in code
    assert ".shard(" not in code.replace("jhvd.shard(", "")
    assert "//" not in code


def test_a_function_prepares_the_shares_of_one_and_all_of_the_other() -> None:
    code = converted(
        f"{TWO}def prep(ds):\n    return ds.map(f).shuffle(9).batch(4)\n\n\n"
        "train, test = prep(train), prep(test)\nm.fit(train)\nm.evaluate(test)\n"
    )
    assert f"train = tf.data.Dataset.from_tensor_slices((x, y)){SHARD}\n" in code
    assert code.count(SHARD) == 1


OWN = """\
class Warm(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, rate, total, warm=100):
        self.rate, self.total = rate, total

    def __call__(self, step):
        return self.rate * step / self.total


train = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
steps = len(train)
schedule = Warm(1e-3, len(train) * 2, warm=steps)
m.compile(tf.keras.optimizers.Adam(schedule), loss='mse')
m.fit(train)
"""


def test_a_schedule_of_the_programs_own_is_told_one_process_s_steps() -> None:
    """It is asked for those, so what is counted from a share is multiplied; what is counted from all data is not."""
    given = "Warm(1e-3, (len(train) * 2) * hvd.size(), warm=steps * hvd.size())"
    code = converted(OWN)
    assert given in code
    assert "Adam(jhvd.scaled_schedule(schedule))" in code
    early = OWN.replace("(x, y)).batch", "(x, y))\nsteps = len(train)\ntrain = train.batch")
    assert "Warm(1e-3, 400)" in converted(early.replace("len(train) * 2, warm=steps", "400"))
    whole = converted(OWN + "norm = tf.keras.layers.Normalization()\nnorm.adapt(train)\n")
    assert "m.fit(jhvd.shard(train)" in whole
    assert "len(train) * 2, warm=steps)" in whole


@pytest.mark.parametrize(
    ("imported", "name"),
    [
        ("from six.moves import xrange", "xrange"),
        ("from six.moves import range", "range"),
        ("from past.builtins import xrange as turns", "turns"),
        ("import six", "six.moves.xrange"),
        ("xrange = range", "xrange"),
    ],
)
def test_a_range_by_another_name_counts(imported: str, name: str) -> None:
    """It gives no batches that could be divided."""
    code = converted(
        f"{imported}\nit = iter(tf.data.Dataset.from_tensor_slices((x, y)).batch(9).repeat())\n"
        f"for step in {name}(1000):\n    m.train_on_batch(*next(it))\n"
    )
    assert f"for step in {name}(1000 // hvd.size() or 1000):" in code
    whole = convert_source(
        f"{MODEL}{imported}\nfor step in {name}(9):\n    m.train_on_batch(x, y)\n"
    )
    assert [d.code for d in whole.diagnostics] == ["HVD504"]


GIVEN = "for e in range(1000):\n    m.train_on_batch({}, np.zeros(64))\n"


@pytest.mark.parametrize(
    "body",
    [
        "for e in range(1000):\n    u = np.random.normal(size=(64, 2))\n    m.train_on_batch(u, np.zeros(64))\n",
        "def batch(n):\n    u = np.random.rand(n, 2)\n    return u, np.sin(u[:, 0])\n\n\n"
        "for e in range(1000):\n    u, v = batch(64)\n    m.train_on_batch(u, v)\n",
        GIVEN.format("tf.random.uniform((64, 2))"),
    ],
)
def test_examples_that_are_drawn_anew_are_each_rank_s_own(body: str) -> None:
    code = converted(body)
    assert "jhvd.draw_apart()\nfor e in range(1000 // hvd.size() or 1000):" in code
    assert code.endswith("jhvd.same_seed()\n")


@pytest.mark.parametrize(
    "body",
    [
        GIVEN.format("x + np.random.normal(size=(64, 2))"),
        "u = np.random.normal(size=(64, 2))\n" + GIVEN.format("u + np.random.normal(size=(64, 2))"),
        "u = np.load('u.npy')\n" + GIVEN.format("u + np.random.normal(size=(64, 2))"),
        "(u, _), _ = tf.keras.datasets.mnist.load_data()\n"
        + GIVEN.format("u + np.random.normal(size=(64, 2))"),
        # One seed gives all ranks the same.
        "rng = np.random.default_rng(1)\n" + GIVEN.format("rng.normal(size=(64, 2))"),
        "tf.random.set_seed(1)\n" + GIVEN.format("tf.random.normal((64, 2))"),
    ],
)
def test_noise_added_to_all_the_data_does_not_divide_them(body: str) -> None:
    assert [d.code for d in convert_source(MODEL + body).diagnostics] == ["HVD504"]


def test_what_functions_of_functions_draw_is_each_rank_s_own() -> None:
    """A generator that learns from noise, and a function that draws a sample to be shown."""
    code = converted(
        "def noise(n):\n    return np.random.randn(n, 2)\n\n\n"
        "def made(n):\n    return g.predict(noise(n)), np.zeros(n)\n\n\n"
        "def drawn(n):\n    rows = np.random.randint(0, len(x), n)\n    return x[rows], np.ones(n)\n\n\n"
        "def show():\n    seen, _ = drawn(3)\n    plot(seen, made(3))\n\n\n"
        "def train(n):\n    for e in range(1000):\n"
        "        seen, ones = drawn(n)\n        m.train_on_batch(seen, ones)\n"
        "        other, zeros = made(n)\n        m.train_on_batch(other, zeros)\n"
        "        if e % 100 == 0:\n            show()\n\n\ntrain(8)\n"
    )
    assert "for e in range(1000 // hvd.size() or 1000):" in code


WHOLE = "for e in range(100):\n    m.train_on_batch(x, y)\n"


@pytest.mark.parametrize(
    ("compiled", "beside", "after"),
    [
        (
            "m.compile('sgd', 'mse')",
            "",
            "m.compile(jhvd.DistributedOptimizer(tf.keras.optimizers.SGD()), 'mse')",
        ),
        ("m.compile(tf.keras.optimizers.SGD(0.3), 'mse')", "", "SGD(0.3)), 'mse')"),
        ("m.compile('sgd', 'mse')", "    m.optimizer.learning_rate = 0.1\n", None),
        ("m.compile('sgd', 'mse')", "m.fit(x, y)\n", None),
    ],
)
def test_a_model_that_takes_all_data_at_each_step_keeps_its_rate(
    compiled: str, beside: str, after: str | None
) -> None:
    """Unless that is the rate of other steps too, or set later."""
    head = MODEL[: MODEL.index("m.compile")]
    conversion = convert_source(f"{head}{compiled}\n{WHOLE}{beside}")
    assert conversion.status == ("converted" if after else "refused")
    assert [d.code for d in conversion.diagnostics] == ["HVD504"]
    assert (after or compiled) in conversion.code


def test_batches_of_another_module() -> None:
    draw = "from data import batches, loader\nfor e in range(90):\n    m.train_on_batch(*{})\n"
    code = converted(draw.format("next(batches)"))
    assert "for e in range(90 // hvd.size() or 90):" in code
    assert "next(jhvd.shard_batches(batches))" in code
    for drawn in ("loader.get_batch(8)", "loader(8).next()"):
        refused = convert_source(MODEL + draw.format(drawn))
        assert [(d.code, d.severity) for d in refused.diagnostics] == [("HVD504", "error")]


def test_a_critic_has_as_many_turns_in_each_step() -> None:
    code = converted(
        "for e in range(1000):\n    for _ in range(5):\n"
        "        m.train_on_batch(x[np.random.randint(0, 90, 8)], np.ones(8))\n"
        "    m.train_on_batch(np.random.normal(size=(8, 2)), np.ones(8))\n"
    )
    assert "for e in range(1000 // hvd.size() or 1000):\n    for _ in range(5):" in code


KEPT = "for n in range(len(kept)):\n    m.train_on_batch(*kept[n])\n"


def test_batches_that_a_list_keeps_are_divided_by_number() -> None:
    for kept in (
        "kept = []\nfor i in range(0, len(x), 8):\n    kept.append((x[i:i + 8], y[i:i + 8]))\n",
        "kept = [(x[i:i + 8], y[i:i + 8]) for i in range(0, len(x), 8)]\n",
    ):
        assert "for n in jhvd.shard_turns(range(len(kept))):" in converted(kept + KEPT)
    whole = convert_source(f"{MODEL}kept = [(x, y), (x, 2 * y)]\n{KEPT}")
    assert [d.code for d in whole.diagnostics] == ["HVD504"]


@pytest.mark.parametrize(
    "use",
    [
        "m.evaluate(data)",
        "m.predict(data)",
        "m.fit(a, b, validation_data=data)",
        "labels = [label for _, label in data]",
        "count = 0\nfor _ in data:\n    count += 1",
    ],
)
def test_what_does_not_train_sees_all_of_the_data(use: str) -> None:
    """Each rank had evaluated its own share, and said it of all."""
    data = "data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(9).batch(4)\n"
    code = convert_source(f"{MODEL}{data}m.fit(data)\n{use}\n").code
    assert "m.fit(jhvd.shard(data)," in code
    assert ".shard(hvd.size()" not in code


def test_a_look_at_some_of_the_data_divides_them_no_other_way() -> None:
    data = "data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(9).batch(4)\n"
    code = convert_source(f"{MODEL}{data}m.fit(data)\nm.predict(data.take(1))\n").code
    assert "from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank())" in code


BOTH = """\
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.01)
train = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
test = tf.data.Dataset.from_tensor_slices((a, b)).batch(4)


def run(data, how={default}):
    for x, y in data:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        {leaves}
        if {test}:
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))


def train_on(data):
    run(data, {train})


train_on(train)
run(test{rest})
"""


@pytest.mark.parametrize(
    ("test", "train", "rest", "default", "leaves"),
    [
        ("how", "True", ", False", "None", "pass"),
        ("not how", "False", ", how=True", "None", "pass"),
        ("how is not None", "optimizer", "", "None", "pass"),
        ("how == 'train'", "'train'", ", 'test'", "None", "pass"),
        ("loss > 0 and how", "True", "", "False", "pass"),
        ("True", "True", "", "False", "if not how: continue"),
    ],
)
def test_a_loop_that_trains_and_tests(
    test: str, train: str, rest: str, default: str, leaves: str
) -> None:
    """What is passed where nothing is trained stays whole."""
    program = BOTH.format(test=test, train=train, rest=rest, default=default, leaves=leaves)
    conversion = convert_source(program)
    code = conversion.code
    assert "from_tensor_slices((x, y)).shard(" in code
    assert "from_tensor_slices((a, b)).batch(4)\n" in code
    assert not any("which is not seen" in d.message for d in conversion.diagnostics)


PASSED = """
opt = tf.keras.optimizers.SGD(0.1)


@tf.function
def train_step(a):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(m(a))
    gradients = tape.gradient(loss, m.trainable_variables)
    opt.apply_gradients(zip(gradients, m.trainable_variables))


def test_step(a):
    return m(a)


def run(step, batches, steps):
    for _ in range(steps):
        step(next(batches))


run(train_step, iter(tf.data.Dataset.from_tensor_slices(x).repeat().batch(4)), 90)
run(test_step, iter(tf.data.Dataset.from_tensor_slices(y).batch(4)), steps=9)
"""


def test_a_loop_that_is_passed_its_step() -> None:
    """The test's data and turns stay as they are."""
    code = converted(PASSED)
    assert (
        "from_tensor_slices(x).shard(hvd.size(), hvd.rank()).repeat().batch(4)), 90 // hvd.size() or 90)"
        in code
    )
    assert "run(test_step, iter(tf.data.Dataset.from_tensor_slices(y).batch(4)), steps=9)" in code
    assert "for _ in range(steps):" in code


def test_a_loop_that_seems_to_train_and_test_is_told() -> None:
    program = BOTH.format(
        test="how", train="flags[0]", rest=", flags[1]", default="None", leaves="pass"
    )
    (told,) = (d for d in convert_source(program).diagnostics if "which is not seen" in d.message)
    assert (told.code, told.severity) == ("HVD502", "warning")


QUEUE = """
keys = tf.Variable(tf.zeros((64, 4)), trainable=False)
opt = tf.keras.optimizers.SGD(0.1)
for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(8):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(m(a) @ tf.transpose({}))
    opt.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
    keys.assign(tf.concat([m(b), keys[8:]], 0))
"""


def test_a_variable_that_each_rank_fills_is_told_where_the_loss_goes_by_it() -> None:
    """A queue of keys, a threshold that moves: no layer keeps it, and no gradient changes it."""
    told = convert_source(MODEL + QUEUE.format("keys")).diagnostics
    assert [(d.code, d.severity) for d in told] == [("HVD509", "warning")]
    assert "this variable" in told[0].message
    assert convert_source(MODEL + QUEUE.format("m(b)")).diagnostics == ()


def test_the_way_out_for_a_step_that_is_sent_its_batches_is_a_function() -> None:
    sent = program(
        """
        def trainer():
            loss = None
            while True:
                a, b = yield loss
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((m(a) - b) ** 2)
                opt.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))


        opt = tf.keras.optimizers.SGD(0.1)
        step = trainer()
        next(step)
        for batch in tf.data.Dataset.from_tensor_slices((x, y)).batch(8):
            step.send(batch)
        """
    )
    (error,) = (d for d in convert_source(MODEL + sent).diagnostics if d.severity == "error")
    assert error.code == "HVD504"
    assert "`step(batch)`" in error.help
    called = sent.replace("trainer():", "step(a, b):").replace("        a, b = yield loss\n", "")
    called = called.replace("    loss = None\n    while True:\n", "    if True:\n").replace(
        "step.send(batch)", "step(*batch)"
    )
    called = called.replace("step = trainer()\nnext(step)\n", "")
    assert convert_source(MODEL + called).status == "converted"


PLAYED = """
import gym

env = gym.make("CartPole-v1"{made})
opt = tf.keras.optimizers.Adam(0.01)


def step(state):
    with tf.GradientTape() as tape:
        loss = tf.constant(0.0)
        for t in range(100):
            answer = m(state[None])
            state, reward, done, info = env.step(int(answer[0, 0] > 0))
            loss += reward * answer[0, 0]
            if done:
                break
    opt.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))


for episode in range(500):
    step(env.reset({reset}))
"""


def test_each_rank_plays_its_own_episodes() -> None:
    played = convert_source(MODEL + PLAYED.format(made="", reset=""))
    assert played.diagnostics == ()
    assert "jhvd.draw_apart()\nfor episode in range(500 // hvd.size() or 500):" in played.code
    assert "Adam(0.01 * hvd.size())" in played.code
    graded = PLAYED.replace("step(env", "chance = 1 - episode / 500\n    step(env")
    (told,) = convert_source(MODEL + graded.format(made="", reset="")).diagnostics
    assert (told.severity, told.message[:32]) == ("warning", "this goes by the number of the e")


@pytest.mark.parametrize(("made", "reset"), [(", seed=1", ""), ("", "seed=episode")])
def test_episodes_by_a_seed_are_the_same_on_all_ranks(made: str, reset: str) -> None:
    same = convert_source(MODEL + PLAYED.format(made=made, reset=reset))
    assert [(d.code, d.severity) for d in same.diagnostics] == [("HVD504", "warning")]
    assert "hvd.size()" not in same.code


def test_a_fit_of_what_an_environment_answers_is_refused() -> None:
    """Each rank has met other states: their rows are no shares of one thing."""
    text = (
        "import collections\nimport random\nimport gym\n\nenv = gym.make('CartPole-v1')\n\n\n"
        "class Agent:\n    def __init__(self):\n        self.memory = collections.deque(maxlen=99)\n\n"
        "    def remember(self, state, after):\n        self.memory.append((state, after))\n\n"
        "    def learn(self):\n        for state, after in random.sample(self.memory, 9):\n"
        "            m.fit(state, m.predict(after), verbose=0)\n\n\n"
        "agent = Agent()\nfor episode in range(100):\n    state = env.reset()\n"
        "    after, reward, done, _ = env.step(0)\n    agent.remember(state, after)\n    agent.learn()\n"
    )
    (told,) = convert_source(MODEL + text).diagnostics
    assert (told.code, told.severity) == ("HVD504", "error")
    assert "environment" in told.message


def test_a_loop_over_a_sequence_takes_batches_of_its_own() -> None:
    code = convert_source(
        f"{MODEL}flow = tf.keras.preprocessing.image.ImageDataGenerator().flow(x, y, batch_size=9)\n"
        "for step, (a, b) in enumerate(flow):\n    m.train_on_batch(a, b)\n    if step >= 100:\n        break\n"
    ).code
    assert "for step, (a, b) in enumerate(jhvd.shard_batches(flow)):" in code
    assert "if step >= max(1, 100 // hvd.size()):" in code
    assert "jhvd.same_seed()" in code


def test_loops_over_unseen_data_around_one_step_are_all_divided() -> None:
    code = converted(
        "from other import make\ndata = make()\nopt = tf.keras.optimizers.SGD(0.1)\n\n\ndef step(a, b):\n"
        "    with tf.GradientTape() as tape:\n        loss = tf.reduce_mean((m(a) - b) ** 2)\n"
        "    gradients = tape.gradient(loss, m.trainable_variables)\n"
        "    opt.apply_gradients(zip(gradients, m.trainable_variables))\n\n\n"
        "for a, b in data.first:\n    step(a, b)\nfor a, b in data.second:\n    step(a, b)\n"
    )
    assert "in jhvd.shard_batches(data.first):" in code
    assert "in jhvd.shard_batches(data.second):" in code


ENDLESS = """\
def batches():
    while True:
        for start in range(0, 100, 10):
            if start > 95:
                break
            yield x[start:start + 10], y[start:start + 10]
"""
STEPS = """\
opt = tf.keras.optimizers.SGD()
for xb, yb in d:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(xb) - yb) ** 2)
    g = tape.gradient(loss, m.trainable_variables)
    opt.apply_gradients(zip(g, m.trainable_variables))
"""
SOURCE = "d = tf.data.Dataset.from_generator({}, output_signature=spec)\n"


@pytest.mark.parametrize(
    ("generator", "given", "counts"),
    [
        ("batches", ENDLESS, False),
        ("lambda: batches()", ENDLESS, False),
        ("batches", ENDLESS.replace("True", "more()"), True),
        ("batches", f"{ENDLESS}        if done():\n            return\n", True),
        ("batches", f"{ENDLESS}        if done():\n            break\n", True),
        ("other", ENDLESS, True),
    ],
)
def test_what_never_ends_is_not_counted(generator: str, given: str, counts: bool) -> None:
    source = f"{MODEL}{given}{SOURCE.format(generator)}{STEPS}"
    assert (".apply(jhvd.equal_steps)" in convert_source(source).code) is counts


STEPPED = "m.fit(d, steps_per_epoch={})\n"


@pytest.mark.parametrize(
    ("uses", "repeats"),
    [
        (STEPPED.format(10), True),
        (f"steps = len(x) // 10\n{STEPPED.format('steps')}m.evaluate(a)\n", True),
        (f"{STEPPED.format(10)}m.fit(d)\n", False),
        (STEPPED.format("None"), False),
        (f"def run(d, steps=None):\n    {STEPPED.format('steps')}run(d)\n", False),
        (f"steps = None\nif a:\n    steps = 10\n{STEPPED.format('steps')}", False),
    ],
)
def test_a_pass_begins_anew_where_the_steps_are_said(uses: str, repeats: bool) -> None:
    code = convert_source(f"{MODEL}{SOURCE.format('other')}{uses}").code
    assert ("m.fit(d.repeat()," in code) is repeats, code
    assert (".apply(jhvd.equal_steps)" in code) is not repeats, code


@pytest.mark.parametrize("loop", ["rows in {}", "number, rows in enumerate({})"])
def test_a_loop_over_parts_of_the_numbers_of_rows_is_divided(loop: str) -> None:
    parts = "np.array_split(order, 32)"
    source = f"""
import numpy as np
import tensorflow as tf
rng = np.random.default_rng()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(1e-3)
for epoch in range(2):
    order = rng.permutation(len(x))
    for {loop.format(parts)}:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x[rows]) - y[rows]) ** 2)
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""
    code = convert_source(source).code
    assert f"for {loop.format(f'jhvd.shard_turns({parts})')}:" in code
    assert "np.random.default_rng(hvd_seed)" in code  # the order is the same on all ranks


STEPPED = """
import numpy as np
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(1e-3)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)


def batches():
    while True:
        for start in range(0, 256, 16):
            yield x[start:start + 16], y[start:start + 16]


{compiled}
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


for a, b in dataset:
    step(a, b)
endless = batches()
for turn in range(8):
    step(*next(endless))
for turn in range(4):
    a, b = next(endless)
    step(a, b)
for turn in range(16):
    rows = np.random.choice(256, 16)
    step(x[rows], y[rows])
for start in range(0, 256, 32):
    step(x[start:start + 32], y[start:start + 32])
"""


@pytest.mark.parametrize("compiled", ["", "@tf.function"])
def test_each_loop_around_one_step_is_divided_by_itself(compiled: str) -> None:
    """The data of one loop were taken for those of all that call the same step, which then trained on all of theirs."""
    conversion = convert_source(STEPPED.format(compiled=compiled))
    assert conversion.diagnostics == ()
    lines = conversion.code.splitlines()
    assert "for turn in range(8 // hvd.size() or 8):" in lines
    assert "for turn in range(4 // hvd.size() or 4):" in lines
    assert "for turn in range(16 // hvd.size() or 16):" in lines
    assert "for start in jhvd.shard_turns(range(0, 256, 32)):" in lines
    assert sum("jhvd.shard_batches(endless)" in line for line in lines) == 2
    assert sum(".shard(hvd.size(), hvd.rank())" in line for line in lines) == 1


def stepped(loop: str, head: str = "") -> str:
    """A program of its own steps on `x` and `y`; the line `step(…)` of its loop is one."""
    return f"""
import numpy as np
import tensorflow as tf
from tqdm import tqdm, trange
x, y = np.load('x.npy'), np.load('y.npy')
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(1e-3)


def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


{head}{loop}"""


CUT = "    loss = step(x[i:i + 32], y[i:i + 32])\n    bar.set_postfix(loss=float(loss))\n"


@pytest.mark.parametrize(
    ("loop", "divided"),
    [
        (f"bar = tqdm(range(0, 256, 32))\nfor i in bar:\n{CUT}", "for i in jhvd.shard_turns(bar):"),
        (f"bar = trange(0, 256, 32)\nfor i in bar:\n{CUT}", "for i in jhvd.shard_turns(bar):"),
        (
            "with tqdm(range(0, 256, 32)) as bar:\n  for i in bar:\n  "
            + CUT.replace("\n  ", "\n    "),
            "  for i in jhvd.shard_turns(bar):",
        ),
        (
            "bar = tqdm(range(100))\nfor i in bar:\n    rows = np.random.choice(256, 32)\n    step(x[rows], y[rows])\n",
            "bar = tqdm(range(100 // hvd.size() or 100))",
        ),
        (
            "batches = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(32))\n"
            "bar = tqdm(range(100))\nfor i in bar:\n    a, b = next(batches)\n    step(a, b)\n",
            "bar = tqdm(range(100 // hvd.size() or 100))",
        ),
    ],
    ids=["tqdm", "trange", "with", "drawn", "next"],
)
def test_a_bar_that_is_kept_counts_as_its_range_does(loop: str, divided: str) -> None:
    """Its numbers were taken for batches, and the converted program stopped at the first."""
    conversion = convert_source(stepped(loop))
    assert conversion.diagnostics == ()
    assert divided in conversion.code.splitlines()
    assert "shard_batches" not in conversion.code


FOLDS = {
    "a number": "for f in range(4):\n    a, b = 64 * f, 64 * f + 64\n",
    "parts": "for part in np.array_split(np.arange(256), 4):\n    a, b = part[0], part[-1]\n",
    "sklearn": "for part, _ in KFold(4).split(x):\n    a, b = part[0], part[-1]\n",
    "seeds": "for a, b in seeds():\n    x = y = a\n",
}
ANEW = {
    "there": "    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n    opt = tf.keras.optimizers.SGD(1e-3)\n",
    "made": "    model, opt = make()\n",
    "weights": "    model.set_weights(first)\n",
}
OF_FOLD = "    for epoch in range(9):\n        step(x[a:b], y[a:b])\n"
MAKING = """
from sklearn.model_selection import KFold


def make():
    return tf.keras.Sequential([tf.keras.layers.Dense(1)]), tf.keras.optimizers.SGD(1e-3)


first = model.get_weights()
"""


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("made", ANEW)
def test_folds_are_not_divided_but_what_each_trains_on(fold: str, made: str) -> None:
    """Each rank trained a fold of its own, and all averaged the gradients of models for other data."""
    source = stepped(FOLDS[fold] + ANEW[made] + OF_FOLD, MAKING)
    conversion = convert_source(source)
    assert [(d.code, d.severity) for d in conversion.diagnostics] == [("HVD504", "warning")]
    assert "jhvd.shard" not in conversion.code
    inner = "    for i in range(0, len(x[a:b]), 32):\n        step(x[i:i + 32], y[i:i + 32])\n"
    conversion = convert_source(stepped(FOLDS[fold] + ANEW[made] + inner, MAKING))
    assert conversion.diagnostics == ()
    assert "    for i in jhvd.shard_turns(range(0, len(x[a:b]), 32)):" in conversion.code
    assert conversion.code.count("jhvd.shard") == 1


def test_a_model_that_the_first_batch_makes_is_one_of_all() -> None:
    loop = "for i in range(0, 256, 32):\n    if opt is None:\n        model, opt = make()\n    step(x[i:i + 32], y[i:i + 32])\n"
    code = convert_source(stepped(loop, MAKING)).code
    assert "for i in jhvd.shard_turns(range(0, 256, 32)):" in code


def test_a_fold_at_which_training_stops_is_no_step() -> None:
    loop = (
        "for fold, part in enumerate(KFold(4).split(x)):\n"
        "    model, opt = make()\n    n = 0\n"
        "    for a, b in data:\n        step(a, b)\n        n += 1\n        if n == 9:\n            break\n"
        "    if fold == 2:\n        break\n"
    )
    data = "data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)\n"
    code = convert_source(stepped(loop, MAKING + data)).code
    assert "if n == max(1, 9 // hvd.size()):" in code
    assert "    if fold == 2:" in code.splitlines()


def test_what_is_refused_is_not_hidden_by_what_is_told() -> None:
    """Before a step whose data cannot be divided stood one that stays whole, and both were taken whole, at N times the rate."""
    step = """    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(({0}(a) - b) ** 2)
    {1}.apply_gradients(zip(tape.gradient(loss, {0}.trainable_variables), {0}.trainable_variables))
"""
    loop = "for a, b in tasks:\n    fast, inner = make()\n" + step.format("fast", "inner")
    tasks = "tasks = [(x[:9], y[:9]), (x[9:], y[9:])]\n"
    conversion = convert_source(stepped(loop + step.format("model", "opt"), MAKING + tasks))
    assert conversion.status == "refused"


@pytest.mark.parametrize(
    ("head", "loop", "turns"),
    [
        ("", "i in range(0, 256, 32):\n    rows = slice(i, i + 32)", "range(0, 256, 32)"),
        ("", "i in np.arange(0, 256, 32):\n    rows = np.s_[i:i + 32]", "np.arange(0, 256, 32)"),
        (
            "",
            "i in np.random.permutation(8):\n    rows = slice(i * 32, i * 32 + 32)",
            "np.random.permutation(8)",
        ),
        (
            "",
            "i in reversed(range(8)):\n    rows = slice(i * 32, i * 32 + 32)",
            "reversed(range(8))",
        ),
        ("rows_of = [slice(i, i + 32) for i in range(0, 256, 32)]", "rows in rows_of:", "rows_of"),
        (
            "def rows_of(n):\n    return [slice(i, i + 32) for i in range(0, n, 32)]",
            "rows in rows_of(256):",
            "rows_of(256)",
        ),
        (
            "def spans(n):\n    return [(i, min(i + 32, n)) for i in range(0, n, 32)]",
            "a, b in spans(256):\n    rows = slice(a, b)",
            "spans(256)",
        ),
        (
            "def rows_of(n):\n    for i in range(0, n, 32):\n        yield slice(i, i + 32)",
            "rows in rows_of(256):",
            "rows_of(256)",
        ),
        (
            "rows_of = []\nfor i in range(0, 256, 32):\n    rows_of.append(slice(i, i + 32))",
            "k in range(len(rows_of)):\n    rows = rows_of[k]",
            "range(len(rows_of))",
        ),
    ],
    ids="slice s_ permutation reversed list function spans generator number".split(),
)
def test_turns_whose_slices_cut_the_batches_are_divided(head: str, loop: str, turns: str) -> None:
    source = stepped(f"for {loop}\n    step(x[rows], y[rows])\n", f"{head}\n")
    conversion = convert_source(source)
    assert conversion.diagnostics == ()
    assert f"in jhvd.shard_turns({turns}):" in conversion.code
    assert conversion.code.count("jhvd.shard") == 1


PARTED = "a, b = np.array_split(x, 8), np.array_split(y, 8)"


@pytest.mark.parametrize(
    ("head", "loop", "turns"),
    [
        ("", "u, v in zip(np.array_split(x, 8), np.array_split(y, 8)):\n    step(u, v)", ""),
        ("", "u, v in zip(tf.split(x, 8), tf.split(y, 8)):\n    step(u, v)", ""),
        (PARTED, "u, v in zip(a, b):\n    step(u, v)", ""),
        (PARTED, "k in range(8):\n    step(a[k], b[k])", "range(8)"),
        (
            "batches = [(x[i:i + 32], y[i:i + 32]) for i in range(0, 256, 32)]",
            "k in range(len(batches)):\n    u, v = batches[k]\n    step(u, v)",
            "range(len(batches))",
        ),
    ],
    ids="there tensors named number batches".split(),
)
def test_turns_that_take_parts_of_arrays_are_divided(head: str, loop: str, turns: str) -> None:
    turns = turns or loop.partition(" in ")[2].partition(":\n")[0]
    conversion = convert_source(stepped(f"for {loop}\n", f"{head}\n"))
    assert conversion.diagnostics == ()
    assert f"in jhvd.shard_turns({turns}):" in conversion.code
    assert conversion.code.count("jhvd.shard") == 1


def test_what_parts_are_made_of_is_one_thing_on_all_ranks() -> None:
    loop = "for u, v in zip(tf.split(x, 8), tf.split(y, 8)):\n    step(u, v)\n"
    code = convert_source(stepped(loop, "x = tf.random.normal((256, 3))\n")).code
    assert "jhvd.draw_alike(tf.random.normal, hvd_seed)" in code


def test_turns_over_the_numbers_of_a_sequence_are_divided() -> None:
    sequence = """
class Batches(tf.keras.utils.Sequence):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return x[i * 32:(i + 1) * 32], y[i * 32:(i + 1) * 32]


batches = Batches()
"""
    loop = "for k in range(len(batches)):\n    a, b = batches[k]\n    step(a, b)\n"
    conversion = convert_source(stepped(loop, sequence))
    assert conversion.diagnostics == ()
    assert "for k in jhvd.shard_turns(range(len(batches))):" in conversion.code


def test_what_grows_from_turn_to_turn_is_no_batch() -> None:
    """Each rank trained on another beginning of the series, and all averaged their gradients."""
    loop = "for t in range(100, 256, 20):\n    for epoch in range(9):\n        step(x[:t], y[:t])\n"
    assert convert_source(stepped(loop)).status == "refused"


@pytest.mark.parametrize(("inner", "told"), [("for epoch in range(9):", 1), ("if True:", 0)])
def test_stages_that_are_learned_one_after_the_other_are_told(inner: str, told: int) -> None:
    loop = f"for u, v in zip(tf.split(x, 4), tf.split(y, 4)):\n    {inner}\n        step(u, v)\n"
    codes = [d.code for d in convert_source(stepped(loop)).diagnostics]
    assert codes == ["HVD507"] * told


CRITIC = """
import numpy as np
import tensorflow as tf
x = np.load('x.npy')
opt = tf.keras.optimizers.Adam(1e-3)
critic = tf.keras.Sequential([tf.keras.layers.Dense(1)])
maker = tf.keras.Sequential([tf.keras.layers.Dense(3)])
for epoch in range(2):
    for k in range(8):
        real = x[32 * k:32 * k + 32]
        for _ in range(5):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(critic(maker(tf.random.normal((32, 2))))) - tf.reduce_mean(critic(real))
            opt.apply_gradients(zip(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables))
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(critic(maker(tf.random.normal((32, 2)))))
        opt.apply_gradients(zip(tape.gradient(loss, maker.trainable_variables), maker.trainable_variables))
"""


def test_a_step_of_noise_beside_cut_batches_does_not_divide_them_again() -> None:
    """The generator's step had the ranks draw apart, and the loop's turns divided once more."""
    conversion = convert_source(CRITIC)
    assert conversion.diagnostics == ()
    assert "    for k in jhvd.shard_turns(range(8)):" in conversion.code
    assert "draw_apart" not in conversion.code


def test_the_way_out_of_a_while_that_counts_batches_divides_it() -> None:
    """It was told to make a dataset, where the loop needs but another line."""
    told = convert_source(
        stepped(
            "i = 0\nwhile i < len(x):\n    step(x[i:i + bs], y[i:i + bs])\n    i += bs\n",
            "bs = 32\n",
        )
    )
    assert [d.code for d in told.diagnostics] == ["HVD504"]
    line = "for i in range(i, len(x), bs):"
    assert f"`{line}`" in told.diagnostics[0].help
    done = convert_source(
        stepped(f"i = 0\n{line}\n    step(x[i:i + bs], y[i:i + bs])\n", "bs = 32\n")
    )
    assert done.diagnostics == ()
    assert "for i in jhvd.shard_turns(range(i, len(x), bs)):" in done.code
    seldom = convert_source(
        stepped(
            "i = 0\nwhile i < len(x):\n    step(x[i:i + bs], y[i:i + bs])\n    if x[i, 0]:\n        i += bs\n",
            "bs = 32\n",
        )
    )
    assert "tf.data.Dataset" in seldom.diagnostics[0].help


OWN_BATCHES = """
import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(1e-3)
rng = np.random.default_rng(0)


def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


def batches():
    while True:
        rows = rng.integers(0, len(x), 32)
        yield x[rows], y[rows]


class Endless:
    def __iter__(self):
        return self

    def __next__(self):
        rows = rng.integers(0, len(x), 32)
        return x[rows], y[rows]


class Numbered:
    def __len__(self):
        return len(x) // 32

    def __getitem__(self, n):
        return x[32 * n:32 * n + 32], y[32 * n:32 * n + 32]


class Drawn:
    def __next__(self):
        rows = rng.integers(0, len(x), 32)
        return x[rows], y[rows]

    def batch(self):
        return next(self)


class Trainer:
    def __init__(self):
        self.source = batches()

    def train(self, steps):
        for n in range(steps):
            step(*next(self.source))


"""
IN_TURNS = "for n in range(900):\n    step(*next({}))\n"


@pytest.mark.parametrize(
    ("loop", "data", "turns"),
    [
        ("source = batches()\n" + IN_TURNS.format("source"), "source", "range(900"),
        ("source = Endless()\n" + IN_TURNS.format("source"), "source", "range(900"),
        ("source = iter(Numbered())\n" + IN_TURNS.format("source"), "source", "range(900"),
        ("kept = {'a': batches()}\n" + IN_TURNS.format("kept['a']"), "kept['a']", "range(900"),
        (IN_TURNS.format("batches()"), "batches()", "range(900"),
        ("Trainer().train(900)\n", "self.source", "range(steps"),
        ("for a, b in Endless():\n    step(a, b)\n", "Endless()", ""),
        ("for a, b in Numbered():\n    step(a, b)\n", "Numbered()", ""),
    ],
)
def test_batches_of_a_class_of_the_programs_own_are_divided(
    loop: str, data: str, turns: str
) -> None:
    """Each rank drew all of them, by one seed, at one process's rate, and took an N-th of the steps; or N times as many."""
    conversion = convert_source(OWN_BATCHES + loop)
    assert (conversion.status, conversion.diagnostics) == ("converted", ())
    assert f"jhvd.shard_batches({data})" in conversion.code
    assert f"{turns} // hvd.size() or " in conversion.code or not turns
    assert "Adam(1e-3 * hvd.size())" in conversion.code


@pytest.mark.parametrize(
    "loop",
    [
        "source = Drawn()\nfor n in range(900):\n    step(*source.batch())\n",
        "source = batches()\nfor n in range(900):\n    step(*source.__next__())\n",
    ],
)
def test_batches_that_cannot_be_divided_are_not_said_to_be_all_the_data(loop: str) -> None:
    conversion = convert_source(OWN_BATCHES + loop)
    assert [(d.code, d.severity) for d in conversion.diagnostics] == [("HVD504", "error")]


OWN_RATES = """class Rates:
    def __iter__(self):
        yield 0.1
        yield 0.01


def rates():
    yield 0.1


data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
"""


@pytest.mark.parametrize("rates", ["Rates()", "rates()"])
@pytest.mark.parametrize(
    ("inner", "divided"),
    [
        ("for a, b in data:\n        step(a, b)", "data = tf.data.Dataset.from_tensor_slices((x, y)).shard("),
        ("for a, b in data:\n        step(a * rate, b)", "(x, y)).shard(hvd.size(), hvd.rank()).batch(32)"),
        ("for i in range(0, 960, 32):\n        step(x[i:i + 32], y[i:i + 32])", "in jhvd.shard_turns(range(0, 960, 32))"),
    ],
)  # fmt: skip
def test_a_loop_over_rates_of_the_programs_own_is_none_over_batches(
    rates: str, inner: str, divided: str
) -> None:
    """They were divided as batches, and the program stopped at its first turn."""
    loop = f"for rate in {rates}:\n    opt.learning_rate.assign(rate)\n    {inner}\n"
    code = converted(OWN_BATCHES + OWN_RATES + loop)
    assert f"for rate in {rates}:" in code
    assert divided in code


def test_what_is_drawn_beside_data_may_be_numbers() -> None:
    loop = "drawn = rates()\nfor a, b in data:\n    step(a * next(drawn), b)\n"
    code = converted(OWN_BATCHES + OWN_RATES + loop)
    assert "next(jhvd.shard_batches(drawn, beside=True))" in code


@pytest.mark.parametrize(
    "taken",
    [
        "step(*listed[n])",
        "pair = listed[n]; step(*pair)",
        "step(*listed[n][:2])",
        "step(listed[n][0], *listed[n][1:])",
        "a, b = listed[n]; step(a, b)",
    ],
)
def test_batches_that_are_passed_behind_a_star_are_divided(taken: str) -> None:
    """They were refused: what the step is given was not seen."""
    listed = "listed = [(x[i:i + 32], y[i:i + 32]) for i in range(0, 960, 32)]\n"
    code = converted(f"{OWN_BATCHES}{listed}for n in range(len(listed)):\n    {taken}\n")
    assert "for n in jhvd.shard_turns(range(len(listed))):" in code


LOOKED_AT = """\
train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64).batch(16)
{use}
model = tf.keras.Sequential([tf.keras.layers.Rescaling(n), tf.keras.layers.Dense(1)])
rate = tf.keras.optimizers.schedules.CosineDecay(0.1, 4 * steps)
model.compile(tf.keras.optimizers.SGD(rate), 'mse')
model.fit(train)
"""


@pytest.mark.parametrize(
    "use",
    [
        "n = train.reduce(0.0, f)",
        "print(train.reduce(0.0, f))",
        "n = next(iter(train.unbatch().batch(64)))[0].numpy().mean()",
        "n = train.rebatch(64).get_single_element()[0].numpy().std()",
        "n = tf.data.experimental.get_single_element(train.rebatch(64))[0]",
        "n = np.mean([u for u, v in train.take(3)])",
        "for u, v in train:\n    n = u.numpy().mean()\n    break",
        "n = list(train)[0][0]",
        "n = np.concatenate(list(train.as_numpy_iterator()))",
        "n = np.fromiter(train)",
        "n = sum(u.sum() for u, v in train.as_numpy_iterator())",
        "norm = tf.keras.layers.Normalization()\nnorm.adapt(train)",
    ],
)
def test_whatever_does_not_train_sees_all(use: str) -> None:
    """The ranks' models would have other constants, each those of a share."""
    code = converted(LOOKED_AT.format(use=f"steps = 9\n{use}"))
    assert "model.fit(jhvd.shard(train)" in code
    assert ".shard(" not in code.replace("jhvd.shard(", "")


@pytest.mark.parametrize(
    "use",
    [
        "for u, v in train.take(1):\n    print(u.shape)",
        "u, v = next(iter(train))\nn = u.shape[-1]",
        "for u, v in train:\n    n = len(u)\n    break",
        "n = train.element_spec[0].shape[1]",
        "model = build()\nmodel(next(iter(train))[0])",
        "draw(list(train.take(1))[0])",
        "n = len(train)",
        "print(train, type(train), train.cardinality())",
        "for u, v in train.take(1):\n    print(tf.reduce_mean(u), u.numpy().mean())",
        "def show(u, v):\n    plt.plot(tf.reduce_sum(v), list(u))\n\nfor b in train.take(2):\n    show(*b)",
    ],
)
def test_what_only_looks_changes_nothing(use: str) -> None:
    code = converted(LOOKED_AT.format(use=f"steps, n = 9, 2\n{use}"))
    assert f"from_tensor_slices((x, y)){SHARD}.shuffle(64)" in code
    assert "jhvd.shard(" not in code


@pytest.mark.parametrize(
    ("steps", "divided"),
    [
        ("train.reduce(0, lambda n, _: n + 1).numpy()", True),
        ("sum(1 for _ in train)", True),
        ("len(list(train))", True),
        ("len(train)", False),
        ("train.cardinality().numpy()", False),
        ("tf.data.experimental.cardinality(train).numpy()", False),
    ],
)
def test_steps_counted_from_a_dataset_are_divided_once(steps: str, divided: bool) -> None:
    """What goes through the dataset sees all of it; its length is that of a rank's share."""
    code = converted(LOOKED_AT.format(use=f"n = 2\nsteps = {steps}"))
    assert ("max(1, (4 * steps) // hvd.size())" in code) is divided
    assert ("model.fit(jhvd.shard(train)" in code) is divided
    assert (SHARD in code) is not divided


GATHERED = """\
train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64).batch(10)
opt = tf.keras.optimizers.Adam(1e-3)
acc = None
for epoch in range(3):
    for i, (u, v) in enumerate({data}):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((m(u) - v) ** 2) / 4
        g = tape.gradient(loss, m.trainable_variables)
        acc = g if acc is None else [a + b for a, b in zip(acc, g)]
        if (i + 1) % 4 == 0:
            opt.apply_gradients(zip(acc, m.trainable_variables))
            acc = None
{behind}
"""
FLUSH = """\
    if acc is not None:
        opt.apply_gradients(zip(acc, m.trainable_variables))
        acc = None
"""


@pytest.mark.parametrize(
    ("data", "behind"),
    [
        ("train", FLUSH),
        ("train", "    opt.apply_gradients(zip(acc, m.trainable_variables))\n    acc = None\n"),
        ("(f(*b) for b in train)", FLUSH),
        ("(f(b) for b in (f(b) for b in iter(train)))", ""),
        ("map(f, (f(b) for b in train))", FLUSH),
    ],
)
def test_gradients_that_are_left_behind_the_loop_are_of_its_data(data: str, behind: str) -> None:
    """All ranks have as many batches, so they apply what is left, or not, together; what is made of each batch is of the data."""
    code = converted(GATHERED.format(data=data, behind=behind))
    assert (
        f"from_tensor_slices((x, y)){SHARD}.shuffle(64).batch(10).apply(jhvd.equal_steps)" in code
    )
    assert f"enumerate({data})" in code
    assert code.count("jhvd.DistributedGradientTape(tape)") == 1


def test_a_step_for_all_that_a_loop_runs_over_is_one_on_all_ranks() -> None:
    """There are as many of them as in one process: a share of the data, at N times the rate, would be another training."""
    text = GATHERED.format(data="train", behind=FLUSH.replace("if acc is not None", "if True"))
    once = text.replace("if (i + 1) % 4 == 0:", "if False:").replace(
        "            opt.apply_gradients(zip(acc, m.trainable_variables))\n            acc = None\n",
        "            pass\n",
        1,
    )
    code = converted(once)
    assert SHARD not in code
    assert "* hvd.size()" not in code[code.index("train =") :]


def test_what_is_made_of_some_batches_cannot_be_divided() -> None:
    """Each rank would choose by its own batches, and have another number of them."""
    text = GATHERED.format(data="(f(b) for b in train if g(b))", behind="")
    conversion = convert_source(MODEL + text)
    assert [d.code for d in conversion.diagnostics if d.severity == "error"] == ["HVD504"]


def test_variables_that_a_step_goes_through_are_no_batches() -> None:
    """Each turn takes one step, however many variables that changes."""
    body = (
        "P, Q = tf.Variable(x), tf.Variable(y)\nfor s in np.array_split(order, 9):\n"
        "    with tf.GradientTape() as t:\n        loss = tf.reduce_mean(tf.gather(P, s) * tf.gather(Q, s))\n"
        "    for v, g in zip((P, Q), t.gradient(loss, (P, Q))):\n        v.assign_sub({})\n"
    )
    conversion = convert_source(MODEL + "lr = 0.1\n" + body.format("lr * g"))
    assert "HVD507" not in {d.code for d in conversion.diagnostics}
    assert "for s in jhvd.shard_turns(np.array_split(order, 9)):" in conversion.code
