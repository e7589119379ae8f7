"""Which calls train, and what is converted of them."""

from __future__ import annotations

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import Conversion

HEAD = """import numpy as np
import tensorflow as tf

def build():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile('sgd', 'mse')
    return model

"""


def convert(text: str) -> Conversion:
    return convert_source(HEAD + text)


def codes(conversion: Conversion) -> set[str]:
    return {d.code for d in conversion.diagnostics if d.severity == "error"}


def test_a_name_that_held_a_loaded_model() -> None:
    loaded = "model = tf.keras.models.load_model('m')\nmodel.evaluate(x, y)\n"
    assert convert(f"{loaded}model = build()\nmodel.fit(x, y)\n").status == "converted"
    after = convert(f"model = build()\n{loaded}model.fit(x, y)\n").code
    assert "model = jhvd.distributed_model(tf.keras.models.load_model('m'))" in after


def test_a_loaded_model_that_a_function_trains_before_the_name_is_bound_anew() -> None:
    text = "model = tf.keras.models.load_model('m')\ndef train():\n    model.fit(x, y)\n\ntrain()\nmodel = build()\n"
    assert "model = jhvd.distributed_model(tf.keras.models.load_model('m'))" in convert(text).code


def test_a_line_follows_the_loop_behind_the_line_after_its_last_step() -> None:
    """A loop whose last statement is the step has two lines put in at one place."""
    text = (
        "model = build()\nfor step in range(100):\n    rows = np.random.randint(0, 100, 8)\n"
        "    model.train_on_batch(x[rows], y[rows])\n"
    )
    lines = convert(text).code.splitlines()
    assert lines[-2:] == ["    jhvd.broadcast_once(model.optimizer, model)", "jhvd.same_seed()"]


@pytest.mark.parametrize(
    "given", ["batches(), 20, 2, 2", "generator=batches(), steps_per_epoch=20, verbose=2"]
)
def test_arguments_of_fit_generator(given: str) -> None:
    text = (
        f"def batches():\n    while True:\n        yield x, y\n\nbuild().fit_generator({given})\n"
    )
    code = convert(text).code
    assert "jhvd.shard_batches(batches())" in code
    assert "20 // hvd.size() or 20" in code
    assert "2 if hvd.rank() == 0 else 0" in code
    assert "callbacks=[jhvd.BroadcastGlobalVariablesCallback(0)]" in code


def test_noise_alone_is_each_rank_s_own() -> None:
    """Without rows that are drawn beside it, too, each rank draws its own: all would train on the same."""
    text = (
        "model = build()\nfor step in range(100):\n"
        "    model.train_on_batch({}np.random.normal(size=(8, 2)), np.ones(8))\n"
    )
    code = convert(text.format("")).code
    assert "jhvd.draw_apart()\nfor step in range(100 // hvd.size() or 100):\n" in code
    whole = convert(text.format("x + "))
    assert [(d.code, d.severity) for d in whole.diagnostics] == [("HVD504", "warning")]


STRATEGY = """import tensorflow as tf

strategy = tf.distribute.{made}
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(8))


class Trainer:
    def __init__(self):
        self.model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        self.optimizer = tf.keras.optimizers.SGD(0.1)

    def step(self, bx, by):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(by - self.model(bx)))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    @tf.function
    def distributed(self, inputs):
        return strategy.run(self.step, args={args})


trainer = Trainer()
for inputs in data:
    trainer.distributed(inputs)
"""


@pytest.mark.parametrize("args", ["inputs", "(inputs[0], inputs[1])"])
def test_a_strategy_of_one_machine_goes(args: str) -> None:
    code = convert_source(STRATEGY.format(made="MirroredStrategy()", args=args)).code
    assert "strategy = tf.distribute.get_strategy()" in code
    assert "from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).batch(8)" in code
    assert "        tape = jhvd.DistributedGradientTape(tape)" in code
    assert "\n    jhvd.broadcast_once(trainer.optimizer, trainer.model)" in code


def test_a_strategy_of_several_machines_stays() -> None:
    text = STRATEGY.format(made="MultiWorkerMirroredStrategy()", args="inputs")
    assert "HVD902" in codes(convert_source(text))


def test_modes_are_no_estimator() -> None:
    assert (
        convert(
            "def load(mode=tf.estimator.ModeKeys.TRAIN):\n    return x\n\nbuild().fit(load(), y)\n"
        ).status
        == "converted"
    )


def test_a_name_that_held_the_function_that_builds() -> None:
    assert convert("build = build()\nbuild.fit(x, y)\n").status == "converted"


EPOCH = """import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.SGD(0.1)
data = {data}


@tf.function
def epoch():
    for bx, by in data:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(by - model(bx)))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))


{call}
"""


def test_an_epoch_compiled_as_a_whole() -> None:
    made = "tf.data.Dataset.from_tensor_slices((x, y)).batch(8)"
    before, after = "jhvd.broadcast_before(opt, model)\n", "\njhvd.broadcast_once(opt, model)"
    code = convert_source(EPOCH.format(data=made, call="epoch()")).code
    assert f"{before}epoch(){after}" in code
    # Data that are divided where they are used cannot be divided inside.
    assert "HVD302" in codes(convert_source(EPOCH.format(data="load()", call="epoch()")))
    # Nothing can stand in front of it.
    assert "HVD302" in codes(
        convert_source(EPOCH.format(data=made, call="for _ in range(3): epoch()"))
    )


def test_a_history_that_says_how_long_to_train_is_of_all_ranks() -> None:
    """Each rank's own best epoch would have one train on while the others are done."""
    text = (
        "model = build()\nhistory = model.fit(x, y, epochs=50, validation_split=0.2)\n"
        "losses = history.history['val_loss']\nbest = losses.index(min(losses)) + 1\n"
        "again = build()\nagain.fit(x, y, epochs=best)\n"
    )
    first, second = (line for line in convert(text).code.splitlines() if ".fit(" in line)
    assert "jhvd.MetricAverageCallback()" in first
    assert "jhvd.MetricAverageCallback()" not in second


@pytest.mark.parametrize(
    ("fit", "averaged"),
    [
        ("h = model.fit(x, y)", True),
        ("draw(model.fit(x, y).history)", True),
        ("model.fit(x, y)", False),
    ],
)
def test_a_history_that_is_kept_is_of_all_ranks(fit: str, averaged: bool) -> None:
    """It was of rank 0's share."""
    assert ("jhvd.MetricAverageCallback()" in convert(f"model = build()\n{fit}\n").code) is averaged


WHOLE = """opt = tf.keras.optimizers.{made}
net = tf.keras.Sequential([tf.keras.layers.Dense(1)])
{loop}
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - net(x)))
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
{after}
"""
TURNS = "for epoch in range(100):"


@pytest.mark.parametrize(
    ("loop", "after"),
    [
        (TURNS, ""),
        ("step = 0\nwhile step < 100:", "    step += 1"),
        (TURNS, "    if epoch == 50: break"),
        (TURNS, "    print(float(loss))"),
    ],
)
def test_steps_of_an_optimizer_on_whole_data_beside_others(loop: str, after: str) -> None:
    """They take as many turns, at the same rate, as one process."""
    text = WHOLE.format(made="Adam(0.1)", loop=loop, after=after).replace("_mean(", "_sum(")
    conversion = convert(f"{text}build().fit(x, y)\n")
    assert [(d.code, d.severity) for d in conversion.diagnostics] == [("HVD504", "warning")]
    code = conversion.code
    assert "opt = tf.keras.optimizers.Adam(0.1)\n" in code
    assert "SGD(learning_rate=0.01 * hvd.size())" in code
    assert "DistributedGradientTape(tape)" in code
    assert "jhvd.broadcast_once(opt, net)" in code
    assert "// hvd.size()" not in code


@pytest.mark.parametrize(
    ("made", "after"),
    [
        ("Adam(0.1)", "net.compile(opt, 'mse')\nnet.fit(x, y)"),
        (
            "Adam(schedule)",
            "schedule = tf.keras.optimizers.schedules.CosineDecay(0.1, 100)\n"
            "build().compile(tf.keras.optimizers.SGD(schedule), 'mse')",
        ),
        (
            "Adam(0.1)",
            "for bx, by in tf.data.Dataset.from_tensor_slices((x, y)).batch(8):\n"
            "    with tf.GradientTape() as tape:\n        loss = tf.reduce_mean(tf.square(by - net(bx)))\n"
            "    grads = tape.gradient(loss, net.trainable_variables)\n"
            "    opt.apply_gradients(zip(grads, net.trainable_variables))",
        ),
    ],
)
def test_steps_on_whole_data_whose_rate_may_be_another(made: str, after: str) -> None:
    text = WHOLE.format(made=made, loop=TURNS, after=after)
    assert codes(convert(f"{text}build().fit(x, y)\n")) == {"HVD504"}


@pytest.mark.parametrize(
    ("made", "after"),
    [("Adam(0.1)", "opt.learning_rate = 1e-3"), ("Adam(**options)", ""), ("get('adam')", "")],
)
def test_such_steps_are_rank_zero_s_where_nothing_depends_on_them(made: str, after: str) -> None:
    text = WHOLE.format(made=made, loop=TURNS, after=after)
    assert codes(convert(text)) == {"HVD504"}
    conversion = convert(f"build().fit(x, y)\n{text}")
    assert [(d.code, d.severity) for d in conversion.diagnostics] == [("HVD609", "warning")]
    assert f"if hvd.rank() == 0:\n    {TURNS}\n        with tf.GradientTape()" in conversion.code
    assert "jhvd.DistributedGradientTape" not in conversion.code


def test_steps_on_rows_are_divided() -> None:
    """They are as many, at the same rate: the mean of the shares' gradients is that of all rows."""
    text = WHOLE.format(made="Adam(0.1)", loop=TURNS, after="")
    conversion = convert(text)
    assert conversion.diagnostics == ()
    assert "tf.square(jhvd.own_rows(y, x) - net(jhvd.own_rows(x)))" in conversion.code
    assert "hvd.size()" not in conversion.code


@pytest.mark.parametrize(
    "loss",
    [
        "tf.reduce_sum(tf.square(y - net(x)))",
        "tf.sqrt(tf.reduce_mean(tf.square(y - net(x))))",
        "tf.reduce_mean(tf.square(y - net(x - mean)))",
        "tf.reduce_mean(tf.square(y - net(x)), axis=0)",
        "tf.reduce_mean(net(x) @ tf.transpose(net(x)))",
        "tf.reduce_mean(tf.nn.softmax(net(x), axis=0))",
        "tf.reduce_mean(tf.square(net(x) - tf.reduce_mean(net(x))))",
        "tf.reduce_mean(other(net(x)))",
        "tf.reduce_mean(tf.square(y - net(x)) - tf.reduce_max(net(x), 0))",
        "tf.reduce_mean(tf.sort(tf.square(y - net(x)), 0))",
        "tf.reduce_mean(tf.cumsum(net(x)))",
        "tf.reduce_mean(tf.linalg.inv(tf.matmul(net(x), net(x), transpose_a=True)))",
        "tf.reduce_mean(tf.transpose(net(x)) - net(x))",
        "tf.reduce_mean(tf.square(y - net(x)) * tf.keras.losses.mse(y, net(x)))",  # (n, 1) by (n,)
        "tf.math.reduce_std(net(x))",
        "np.median(tf.square(y - net(x)))",
        "tf.keras.losses.MeanSquaredError(reduction='sum')(y, net(x))",
        "tf.keras.losses.MeanSquaredError('sum')(y, net(x))",
        "tf.reduce_mean(tf.keras.losses.categorical_crossentropy(y, net(x), axis=0))",
        "(lambda m, d=net(x): tf.reduce_mean(tf.square(d)))(1)",
    ],
)
def test_steps_whose_rows_go_by_one_another_stay_whole(loss: str) -> None:
    """A sum, a root of a mean, what compares rows: the mean of shares would be another gradient."""
    text = WHOLE.format(made="Adam(0.1)", loop=TURNS, after="")
    conversion = convert(text.replace("tf.reduce_mean(tf.square(y - net(x)))", loss))
    (told,) = conversion.diagnostics
    assert (told.code, told.severity) == ("HVD504", "warning")
    assert "nothing else of this program is divided" in told.message
    assert "own_rows" not in conversion.code
    assert "hvd.size()" not in conversion.code


@pytest.mark.parametrize(
    ("layers", "divided"),
    [
        ("L.Dense(8, 'relu'), L.Dropout(0.1), L.Dense(1, activation=tf.nn.sigmoid)", True),
        (
            "L.Dense(8, activation=lambda t: t * tf.sigmoid(t)), L.LayerNormalization(), L.Dense(1)",
            True,
        ),
        ("L.Dense(8, activation=L.LeakyReLU()), L.Dense(1)", True),
        ("L.BatchNormalization(), L.Dense(1)", False),
        ("L.Dense(8, activation=lambda t: tf.tanh(t - tf.reduce_mean(t, 0))), L.Dense(1)", False),
        ("L.Dense(8, activation=mix), L.Dense(1)", False),
        ("L.Dense(8, activation='mix'), L.Dense(1)", False),
        ("L.Dense(8, mix), L.Dense(1)", False),
        ("L.Activation(lambda t: t - y), L.Dense(1)", False),
        ("L.LayerNormalization(axis=0), L.Dense(1)", False),
        ("L.Softmax(axis=0), L.Dense(1)", False),
        ("L.Lambda(lambda t: t), L.Dense(1)", False),
        ("Own(), L.Dense(1)", False),
        ("L.TimeDistributed(L.BatchNormalization()), L.Dense(1)", False),
        ("L.LSTM(4, time_major=True), L.Dense(1)", False),
        ("L.EinsumDense('bi,cb->ci', 4), L.Dense(1)", False),
        ("L.Dense(1)]); net.add(L.BatchNormalization()); print([", False),
        ("L.Dense(1)]); net.layers[0].activation = print([", False),
    ],
)
def test_rows_of_layers_that_answer_each_by_itself_are_divided(layers: str, divided: bool) -> None:
    own = "L = tf.keras.layers\nclass Own(L.Layer):\n    def call(self, t):\n        return t - t[0]\n\n"
    text = WHOLE.format(made="Adam(0.1)", loop=TURNS, after="")
    conversion = convert(own + text.replace("tf.keras.layers.Dense(1)", layers))
    assert ("own_rows" in conversion.code) is divided
    assert [d.code for d in conversion.diagnostics] == ([] if divided else ["HVD504"])


@pytest.mark.parametrize(
    ("layers", "loss", "rows"),
    [
        ("L.Dense(1)", "tf.reduce_mean((y - net(x)) ** 2)", "own_rows(y, x)"),
        ("L.Flatten(), L.Dense(1)", "tf.reduce_mean((y - net(x)) ** 2)", "own_rows(y, x, dimensions=2)"),
        ("L.Dense(1)", "tf.keras.losses.Huber()(y, net(x))", "own_rows(y, x, is_squeezed=True)"),
        (
            "L.Dense(9)",
            "tf.reduce_mean(w * tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x)))",
            "own_rows(w, x, dimensions=-1) * tf.nn.sparse_softmax_cross_entropy_with_logits(jhvd.own_rows(y, x, dimensions=None)",
        ),
    ],
)  # fmt: skip
def test_labels_are_divided_that_stand_beside_predictions(
    layers: str, loss: str, rows: str
) -> None:
    """Labels of shape (n,) beside predictions of (n, 1) are compared each with each: such are left whole at run time."""
    text = WHOLE.format(made="Adam(0.1)", loop=TURNS, after="")
    text = text.replace("tf.keras.layers.Dense(1)", layers)
    text = text.replace("tf.reduce_mean(tf.square(y - net(x)))", loss)
    assert f"jhvd.{rows}" in convert(f"L = tf.keras.layers\n{text}").code


def test_a_schedule_of_steps_on_whole_data_stays() -> None:
    schedule = "Adam(tf.keras.optimizers.schedules.CosineDecay(0.1, 100))"
    text = WHOLE.format(made=schedule, loop=TURNS, after="")
    code = convert(f"{text}build().fit(x, y)\n").code
    assert f"opt = tf.keras.optimizers.{schedule}\n" in code


def test_callbacks_that_nothing_shows_may_be_one() -> None:
    """Another module's may be one callback, a list of them, or none."""
    code = convert("import lib\nbuild().fit(x, y, callbacks=lib.Update())\n").code
    first = "jhvd.BroadcastGlobalVariablesCallback(0), jhvd.MetricAverageCallback()"
    assert f"callbacks=[{first}] + tf.nest.flatten(lib.Update() or [])" in code


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("lib.PolynomialDecay(begin_step=0, end_step=1000)", 1),
        ("lib.create_optimizer(num_warmup_steps=steps, num_train_steps=100)", 1),
        ("lib.PolynomialDecay(begin_step=0, end_step=None)", 0),
        ("lib.PolynomialDecay(frequency=100)", 0),
        ("np.linspace(num_steps=1000)", 0),
    ],
)
def test_another_library_that_counts_steps_is_told(made: str, told: int) -> None:
    conversion = convert(f"import lib\nmade = {made}\nbuild().fit(x, y)\n")
    assert [d.code for d in conversion.diagnostics] == ["HVD203"] * told


@pytest.mark.parametrize(
    ("looked_at", "everywhere"),
    [
        ("tf.keras.Model(model.inputs, model.layers[0].output).predict(x)", True),
        ("tf.keras.models.clone_model(model).count_params()", True),
        ("tf.keras.metrics.Mean()(x)", True),
        ("tf.keras.losses.MeanSquaredError()(x, y)", True),
        ("tf.keras.metrics.mean_squared_error(x, y)", False),
        ("model.predict(x, verbose=0)", False),
    ],
)
def test_what_keras_names_is_made_on_every_rank(looked_at: str, everywhere: bool) -> None:
    """Names are counted, and gradients of other names are not found by other ranks: they waited forever."""
    code = convert(
        f"model = build()\nmodel.fit(x, y)\nprint({looked_at})\nbuild().fit(x, y)\n"
    ).code
    assert ("hvd_printed = (" in code) == everywhere


@pytest.mark.parametrize(
    ("before", "loop", "given"),
    [
        # A lambda hands on what nothing shows.
        ("taken = lambda *batch: step(*batch)\n", "for a, b in pairs:", "taken(a, b)"),
        ("", "for a, b in pairs:", "step(a, b)"),
        ("", "for n in range(100):", "step(x[n], y[n])"),
        ("", "for n in range(100):", "step(tf.gather(x, n), tf.gather(y, n))"),
        ("rng = np.random.default_rng(0)\n", "for n in range(100):", "step(*rows(rng))"),
        ("", "for n in range(100):", "step(np.random.default_rng(n).choice(x), 1.0)"),
    ],
)
def test_steps_that_take_other_data_at_each_turn_are_not_whole(
    before: str, loop: str, given: str
) -> None:
    """All ranks would take the same ones, which could be divided."""
    text = (
        "import numpy as np\nopt = tf.keras.optimizers.Adam(0.1)\nnet = build()\n"
        "pairs = [(x[n : n + 2], y[n : n + 2]) for n in range(0, 100, 2)]\n\n\n"
        "def rows(rng):\n    return x[rng.permutation(9)], y[rng.permutation(9)]\n\n\n"
        "def step(a, b):\n    with tf.GradientTape() as tape:\n        loss = tf.reduce_mean((b - net(a)) ** 2)\n"
        "    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))\n\n\n"
        f"{before}{loop}\n    {given}\n"
    )
    assert codes(convert(text)) == {"HVD504"}


def test_a_model_that_a_star_brings_in_place_of_a_function() -> None:
    """Nothing has a `fit` that is a function; it was left alone in silence."""
    conversion = convert_source(
        "import tensorflow as tf\n\n\ndef model(data):\n    return len(data)\n\n\nprint(model([1]))\n"
        "from poems import *\n\nmodel.fit(x, y, batch_size=128, epochs=1)\n"
    )
    assert conversion.status == "converted"
    assert "jhvd.distributed_model(model).fit(" in conversion.code


BUILDS = """import functools
import tensorflow as tf


def build(choices, width=8):
    model = tf.keras.Sequential([tf.keras.layers.Dense(width)])
    model.compile(tf.keras.optimizers.Adam(0.1), loss='mse')
    return model


def objective(trial, rows):
    return build(trial).fit(rows, rows).history['loss'][-1]


"""


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("make = functools.partial(build, 1)\nmake().fit(x, y)\n", "converted"),
        ("make = functools.partial(build, width=1)\nmake(2, width=3).fit(x, y)\n", "converted"),
        ("import other\nother.Ensemble(functools.partial(build, 1)).fit(x, y)\n", "refused"),
        (
            "import optuna\nstudy = optuna.create_study()\n"
            "study.optimize(functools.partial(objective, rows=x), n_trials=3)\n",
            "refused",
        ),
        (
            "import keras_tuner\ntuner = keras_tuner.RandomSearch(functools.partial(build, width=4))\ntuner.search(x, y)\n",
            "converted",
        ),
    ],
)
def test_a_function_with_some_of_its_arguments_given(program: str, status: str) -> None:
    conversion = convert_source(BUILDS + program)
    assert conversion.status == status, conversion.diagnostics
    assert ("Adam(0.1 * hvd.size())" in conversion.code) == (status == "converted")


def test_a_step_with_some_of_its_arguments_given() -> None:
    conversion = convert_source(
        "from functools import partial\nimport tensorflow as tf\n\n"
        "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nopt = tf.keras.optimizers.Adam(0.1)\n\n\n"
        "def step(model, opt, x, y):\n    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_mean((model(x) - y) ** 2)\n"
        "    grads = tape.gradient(loss, model.trainable_variables)\n"
        "    opt.apply_gradients(zip(grads, model.trainable_variables))\n\n\n"
        "train = partial(step, model, opt)\n"
        "for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(10):\n    train(a, b)\n"
    )
    assert conversion.status == "converted"
    assert "jhvd.broadcast_once(opt, model)" in conversion.code
    assert ".shard(hvd.size(), hvd.rank()).batch(10).apply(jhvd.equal_steps)" in conversion.code


ESTIMATOR = BUILDS + "from scikeras.wrappers import KerasRegressor\n"


def test_data_that_an_estimator_takes_are_divided_there() -> None:
    """Those of another fit are divided where it takes them, not before, lest they be divided twice."""
    conversion = convert_source(
        ESTIMATOR
        + "data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(100).batch(10)\n"
        + "build(1).fit(data)\n"
        + "KerasRegressor(build, choices=1).fit(*next(iter(data)))\n"
    )
    assert "build(1).fit(jhvd.shard(data)," in conversion.code


def test_an_estimator_of_the_program_s_own() -> None:
    conversion = convert_source(
        ESTIMATOR + "class Own(KerasRegressor):\n    pass\n\n\nOwn(build, choices=1).fit(x, y)\n"
    )
    assert conversion.status == "converted"
    assert "class Own(jhvd.distributed_estimator(KerasRegressor)):" in conversion.code


def test_an_estimator_s_own_model_is_written_by_rank_zero() -> None:
    conversion = convert_source(
        ESTIMATOR
        + "made = KerasRegressor(build, choices=1)\nmade.fit(x, y)\nmade.model_.save('m.keras')\n"
    )
    assert "if hvd.rank() == 0:\n    made.model_.save('m.keras')" in conversion.code


def test_a_search_that_draws_is_searched_alike() -> None:
    conversion = convert_source(
        ESTIMATOR
        + "from sklearn.model_selection import RandomizedSearchCV\n"
        + "RandomizedSearchCV(KerasRegressor(build, choices=1), {'width': [4, 8]}).fit(x, y)\n"
        + "KerasRegressor(build, choices=1).fit(x, y)\n"
    )
    assert "jhvd.same_seed()" in conversion.code
    assert not conversion.diagnostics, "what is fitted here is told of by nothing"


def test_a_search_of_estimators_inside_another_is_refused() -> None:
    conversion = convert_source(
        ESTIMATOR
        + "import optuna\n\n\ndef tried(trial):\n    made = KerasRegressor(build, choices=trial)\n"
        + "    made.fit(x, y)\n    return made.score(x, y)\n\n\n"
        + "study = optuna.create_study()\nstudy.optimize(tried, n_trials=3)\n"
    )
    assert conversion.status == "refused"


MAKES_STEPS = """import tensorflow as tf

one = tf.keras.Sequential([tf.keras.layers.Dense(1)])
two = tf.keras.Sequential([tf.keras.layers.Dense(1)])
first, second = tf.keras.optimizers.SGD(0.1), tf.keras.optimizers.SGD(0.2)


def make_step(net, optimizer):
    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((net(x) - y) ** 2)
        grads = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(grads, net.trainable_variables))

    return step


step_one = make_step(one, first)
step_two = make_step(two, optimizer=second)
for x, y in tf.data.Dataset.from_tensor_slices((a, b)).batch(10):
    step_one(x, y)
    step_two(x, y)
"""


def test_a_step_that_a_function_makes() -> None:
    """It changes what the function is given that makes it."""
    conversion = convert_source(MAKES_STEPS)
    assert conversion.status == "converted"
    assert "    jhvd.broadcast_once(first, one)\n" in conversion.code
    assert "    jhvd.broadcast_once(second, two)\n" in conversion.code


def test_a_step_that_one_of_two_calls_has_made_is_refused() -> None:
    """Which of them it was cannot be seen."""
    steps = "step_one = make_step(one, first) if a else make_step(two, second)\n"
    conversion = convert_source(MAKES_STEPS.replace("step_one = make_step(one, first)\n", steps))
    assert conversion.status == "refused"


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("library.train_ch3(net, data, [w])", True),
        ("rows = library.train_rows(data)", False),
        ("made = tflite_model_maker.image_classifier.create(data)", True),
        ("made = library.create(data)", False),
    ],
)
def test_what_another_library_trains_is_told(line: str, is_told: bool) -> None:
    imports = "import tensorflow as tf\nimport library\nimport tflite_model_maker\n"
    conversion = convert_source(f"{imports}w = tf.Variable(0.0)\n{line}\n")
    assert conversion.status == "unchanged"
    assert [d.code for d in conversion.diagnostics] == ["HVD911"] * is_told


def cut_by(loop: str, line: str, before: str = "", target: str = "n") -> Conversion:
    """A training whose loop cuts its batches, with a line behind each step."""
    return convert_source(
        "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        f"opt = tf.keras.optimizers.SGD(0.1)\n{before}for {target} in {loop}:\n    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_mean((model(x[n : n + 32]) - y[n : n + 32]) ** 2)\n"
        "    grads = tape.gradient(loss, model.trainable_variables)\n"
        f"    opt.apply_gradients(zip(grads, model.trainable_variables))\n    {line}\n"
    )


@pytest.mark.parametrize(
    ("loop", "line", "is_told"),
    [
        ("range(0, len(x), 32)", "if n % 320 == 0:\n        model.save('m.keras')", False),
        ("range(0, len(x), 32)", "if n % 320 == 0:\n        print(loss)", False),
        ("range(0, len(x), 32)", "k = n // 32\n    if k % 10 == 0:\n        print(loss)", True),
        ("range(0, len(x), 32)", "if loss < 0.1:\n        model.save('m.keras')", False),
    ],
)
def test_what_is_saved_at_some_turns_is_told(loop: str, line: str, is_told: bool) -> None:
    conversion = cut_by(loop, line)
    assert conversion.status == "converted"
    assert ("HVD507" in [d.code for d in conversion.diagnostics]) == is_told
    assert ("if jhvd.any_turn(lambda n: n % 320 == 0, n)" in conversion.code) == ("if n %" in line)


def test_a_test_of_the_turn_that_reads_the_loss_too_is_asked_of_all_and_answered_by_rank_0() -> (
    None
):
    conversion = cut_by(
        "range(0, len(x), 32)", "if n % 320 == 0 and float(loss) < 0.1:\n        break"
    )
    asked = "bool(jhvd.any_turn(lambda n: n % 320 == 0 and float(loss) < 0.1, n))"
    assert f"if hvd.broadcast_object({asked}, root_rank=0):" in conversion.code


@pytest.mark.parametrize(
    "line",
    [
        "if n == 0:\n        x = x[::-1]",
        "k = n // 32\n    if k == 3:\n        opt.learning_rate = 0.01",
        "while n > 64 and loss > 1:\n        break",
        "if n == 64:\n        continue",
    ],
)
def test_what_some_turns_do_to_the_data_is_refused(line: str) -> None:
    """One rank alone did it."""
    conversion = cut_by("range(0, len(x), 32)", line)
    assert conversion.status == "refused"
    assert "HVD507" in [d.code for d in conversion.diagnostics]


DUE = "jhvd.any_turn(lambda n: n % 320 == 0, n)"


@pytest.mark.parametrize(
    ("before", "line", "expected"),
    [
        ("", "n % 320 == 0 and print(loss)", f"{DUE} and ("),
        ("", "due = n % 320 == 0\n    if due:\n        model.save('m.keras')", f"due = {DUE}\n"),
        ("", "print([v for v in model.weights if n % 320 == 0])", f"if {DUE}]"),
        (
            "def log(loss, write=False):\n    if write:\n        model.save('m.keras')\n",
            "log(loss, write=n % 320 == 0)",
            f"log(loss, write={DUE})",
        ),
        (
            "def log():\n    if n % 320 == 0:\n        model.save('m.keras')\n",
            "log()",
            f"    if {DUE} and hvd.rank() == 0:",
        ),
        (
            "def log(i):\n    if i % 320 == 0:\n        model.save('m.keras')\n",
            "log(n)",
            "    if jhvd.any_turn(lambda i: i % 320 == 0, i) and hvd.rank() == 0:",
        ),
        (
            "def due(i):\n    return i % 320 == 0\n",
            "if due(n):\n        model.save('m.keras')",
            "    return jhvd.any_turn(lambda i: i % 320 == 0, i)\n",
        ),
    ],
)
def test_the_number_of_a_turn_is_asked_of_all_wherever_it_is_asked(
    before: str, line: str, expected: str
) -> None:
    conversion = cut_by("range(0, len(x), 32)", line, before)
    assert conversion.status == "converted"
    assert expected in conversion.code
    assert "HVD507" not in [d.code for d in conversion.diagnostics]


@pytest.mark.parametrize(
    ("before", "line", "expected"),
    [
        ("", "opt.learning_rate = 0.1 / (1 + n)", "(0.1 / (1 + jhvd.first_turn(n))) * hvd.size()"),
        (
            "",
            "rate = 0.1 / (1 + n)\n    opt.learning_rate.assign(rate)",
            "rate = 0.1 / (1 + jhvd.first_turn(n))",
        ),
        (
            "def rate(i):\n    return 0.1 / (1 + i)\n",
            "opt.learning_rate = rate(n)",
            "rate(jhvd.first_turn(n)) * hvd.size()",
        ),
        (
            "",
            "a = min(1, n / 1000)\n    model.set_weights([a * v for v in model.get_weights()])",
            "a = min(1, jhvd.first_turn(n) / 1000)",
        ),
        (
            "",
            "opt.learning_rate = 0.1 if n < 100 else 0.01",
            "(0.1 if jhvd.any_turn(lambda n: n < 100, n) else 0.01)",
        ),
    ],
)
def test_rates_and_weights_set_by_the_number_of_a_turn_are_one_on_all_ranks(
    before: str, line: str, expected: str
) -> None:
    """Each rank had a rate of its own, and the guard ended the training as soon as their weights had parted."""
    assert expected in cut_by("range(0, len(x), 32)", line, before).code


def test_steps_may_be_counted_beside_the_turns_that_are_divided() -> None:
    """All ranks have taken as many."""
    conversion = cut_by(
        "enumerate(range(0, len(x), 32))", "if k % 10 == 0:\n        print(loss)", target="k, n"
    )
    assert "any_turn" not in conversion.code
    assert "HVD507" not in [d.code for d in conversion.diagnostics]


def test_the_rate_of_an_optimizer_that_compile_makes_for_a_loop_is_multiplied() -> None:
    conversion = convert_source(
        "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\n"
        "for x, y in tf.data.Dataset.from_tensor_slices((a, b)).batch(8):\n    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_mean((model(x) - y) ** 2)\n"
        "    grads = tape.gradient(loss, model.trainable_variables)\n"
        "    model.optimizer.apply_gradients(zip(grads, model.trainable_variables))\n"
    )
    assert (
        "model.compile(tf.keras.optimizers.SGD(learning_rate=0.01 * hvd.size()), 'mse')"
        in conversion.code
    )


def test_a_loop_over_models_is_none_over_data() -> None:
    conversion = convert_source(
        "import tensorflow as tf\nclass Twins:\n    def __init__(self, nets, data):\n"
        "        self.nets = {k: n for k, n in nets}\n        self.opt = tf.keras.optimizers.SGD(0.1)\n"
        "        self.data = {'train': data}\n"
        "    def run(self):\n        for x, y in self.data['train']:\n            for name, net in self.nets.items():\n"
        "                with tf.GradientTape() as tape:\n                    loss = tf.reduce_mean((net(x) - y) ** 2)\n"
        "                grads = tape.gradient(loss, net.trainable_variables)\n"
        "                self.opt.apply_gradients(zip(grads, net.trainable_variables))\n"
    )
    assert "shard_batches(self.nets" not in conversion.code
    assert "in jhvd.shard_batches(self.data['train']):" in conversion.code


def test_the_decay_of_keras_2_counts_steps() -> None:
    conversion = convert_source(
        "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        "model.compile(tf.keras.optimizers.legacy.SGD(lr=0.1, decay=1e-3), 'mse')\nmodel.fit(x, y)\n"
    )
    assert "SGD(lr=0.1 * hvd.size(), decay=1e-3 * hvd.size())" in conversion.code


def test_an_optimizer_that_is_made_where_it_is_passed_is_not_made_again() -> None:
    conversion = convert_source(
        "import tensorflow as tf\ndef make(net, opt):\n    @tf.function\n    def step(x, y):\n"
        "        with tf.GradientTape() as tape:\n"
        "            loss = tf.reduce_mean((net(x) - y) ** 2)\n"
        "        grads = tape.gradient(loss, net.trainable_variables)\n"
        "        opt.apply_gradients(zip(grads, net.trainable_variables))\n    return step\n"
        "net = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nstep = make(net, tf.keras.optimizers.SGD(0.1))\n"
        "for x, y in tf.data.Dataset.from_tensor_slices((a, b)).batch(8):\n    step(x, y)\n"
    )
    assert "jhvd.broadcast_once(None, net)" in conversion.code


@pytest.mark.parametrize(
    "line",
    [
        "train = model.fit",
        "train: object = model.train_on_batch",
        "(train := model.fit)(x, y)",
        "train = model.fit if big else model.train_on_batch",
        "train = own or model.fit",
        "train = lambda: model.fit",
        "train = model.optimizer.minimize",
    ],
)
def test_a_method_that_trains_under_another_name_is_refused(line: str) -> None:
    assert codes(convert(f"model = build()\nmodel.fit(x, y)\n{line}\n")) == {"HVD909"}


@pytest.mark.parametrize(
    "line",
    [
        "model.fit = own",
        "model.fit: object = own",
        "del model.fit",
        "print(model.fit.__doc__)",
        "print(model.fit is None)",
        "model.fit",
    ],
)
def test_a_method_that_trains_may_be_named(line: str) -> None:
    assert convert(f"model = build()\nmodel.fit(x, y)\n{line}\n").status == "converted"


#: Callbacks that write, one of each way of adding one to a list.
WRITERS = """
from tensorflow.keras.callbacks import *

class Table(CSVLogger):
    def __init__(self, name):
        super().__init__(name + '.csv')

class Rates(TensorBoard):
    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, {**logs, 'rate': 0.1})

model = build()
callbacks = [EarlyStopping()]
"""


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("callbacks.append(CSVLogger('a')); n = 1", "callbacks.append(CSVLogger('a')) if R else None; n = 1"),
        ("if n: callbacks.append(Table('a'))", "if n: callbacks.append(Table('a')) if R else None"),
        ("callbacks.insert(0, Table('a'))", "if R:\n    callbacks.insert(0, Table('a'))"),
        ("callbacks.extend([Table('a')])", "callbacks.extend([*([Table('a')] if R else [])])"),
        ("callbacks.extend((Table('a'),))", "callbacks.extend((*([Table('a')] if R else []),))"),
        ("callbacks += [TensorBoard()]", "callbacks += [*([TensorBoard()] if R else [])]"),
        (
            "callbacks = callbacks + [CSVLogger('a')]",
            "callbacks = callbacks + [*([CSVLogger('a')] if R else [])]",
        ),
    ],
)  # fmt: skip
def test_callbacks_that_write_are_rank_zeros_however_they_are_added(line: str, after: str) -> None:
    conversion = convert(f"{WRITERS}{line}\nmodel.fit(x, y, callbacks=callbacks)\n")
    assert f"\n{after.replace('R', 'hvd.rank() == 0', 1)}\n" in conversion.code
    assert conversion.diagnostics == ()


@pytest.mark.parametrize(
    "line",
    [
        "callbacks.append(Rates())",
        "callbacks += [CSVLogger(name) for name in names]",
        "table = Table('a') if n else None\ncallbacks.append(table)",
        "callbacks = others(TensorBoard())",
        "table = Table('a')\ncallbacks.append(table)\ncallbacks = others(callbacks, Table('b'))",
        "callbacks = Table('a')",
    ],
)
def test_callbacks_that_write_on_every_rank_are_told(line: str) -> None:
    conversion = convert(f"{WRITERS}{line}\nmodel.fit(x, y, callbacks=callbacks)\n")
    assert [d.code for d in conversion.diagnostics] == ["HVD402"]


def test_a_writer_that_a_function_makes_is_told_where_it_is_made() -> None:
    made = "def make():\n    return TensorBoard()\n\ncallbacks = others(make())\n"
    conversion = convert(f"{WRITERS}{made}model.fit(x, y, callbacks=callbacks)\n")
    assert [d.code for d in conversion.diagnostics] == ["HVD402"]


def test_a_bound_method_in_a_name_is_refused() -> None:
    conversion = convert_source(
        "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\n"
        "fit = model.fit\nfit(x, y)\n"
    )
    assert conversion.status == "refused"
    assert "HVD909" in [d.code for d in conversion.diagnostics]


def test_callbacks_that_write_are_rank_0_s_however_they_come_into_the_list() -> None:
    conversion = convert_source(
        "from tensorflow.keras.callbacks import *\nfrom tensorflow.keras.models import *\nfrom tensorflow.keras.layers import *\n"
        "class Log(CSVLogger):\n    pass\nmore = []\nmore.insert(0, CSVLogger('a'))\nmore.extend([CSVLogger('b')])\n"
        "model = Sequential([Dense(1)])\nmodel.compile('sgd', 'mse')\nmodel.fit(x, y, callbacks=more + [Log('c')])\n"
    )
    assert "if hvd.rank() == 0:\n    more.insert(0, CSVLogger('a'))" in conversion.code
    assert "more.extend([*([CSVLogger('b')] if hvd.rank() == 0 else [])])" in conversion.code
    assert "*([Log('c')] if hvd.rank() == 0 else [])" in conversion.code


BUILT = """\
import tensorflow as tf
def build():
    made = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    made.compile(tf.keras.optimizers.SGD(0.1), loss="mse")
    return made
"""


@pytest.mark.parametrize(
    "made",
    [
        "ms = {'a': build(), 'b': build()}\n",
        "def make():\n    return {'a': build(), 'b': build()}\nms = make()\n",
        "ms = {k: build() for k in 'ab'}\n",
        "def make():\n    return {k: build() for k in 'ab'}\nms = make()\n",
        "ms = {}\nfor k in 'ab':\n    ms[k] = build()\n",
        "def make():\n    ms = {}\n    for k in 'ab':\n        ms[k] = build()\n    return ms\nms = make()\n",
    ],
)
@pytest.mark.parametrize(
    "trained",
    [
        "for m in ms.values():\n    m.fit(x, y)\n",
        "for m in list(ms.values()):\n    m.fit(x, y)\n",
        "for k, m in ms.items():\n    m.fit(x, y)\n",
        "for i, (k, m) in enumerate(ms.items()):\n    m.fit(x, y)\n",
        "for k, m in sorted(ms.items()):\n    m.fit(x, y)\n",
        "for k in ms:\n    ms[k].fit(x, y)\n",
        "kept = {k: m.fit(x, y) for k, m in ms.items()}\n",
        "ms['a'].fit(x, y)\n",
        "ms.get('a').fit(x, y)\n",
        "m = ms.pop('a')\nm.fit(x, y)\n",
    ],
)
def test_models_in_a_dictionary_are_trained(made: str, trained: str) -> None:
    """Their `fit` was refused, as of something that nothing tells to be a model, or, of what is sorted, left as it was."""
    conversion = convert_source(BUILT + made + trained)
    assert conversion.status == "converted", conversion.diagnostics
    assert "BroadcastGlobalVariablesCallback" in conversion.code


@pytest.mark.parametrize(
    ("loop", "told"),
    [
        ("for b in data:\n    w.assign_add(tf.transpose(b) @ (b @ w) / 32)", 1),
        (
            "for i in range(0, 64, 8):\n    b = x[i : i + 8]\n    w.assign_add(b.T @ (b @ w) / 32)",
            1,
        ),
        (
            "for b in data:\n    with tf.GradientTape() as tape:\n        r = b @ w\n"
            "    w.assign_sub(tf.linalg.solve(tape.jacobian(r, w)[:, 0, :, 0], r))",
            1,
        ),
        ("for b in data:\n    w.assign_add(tf.reduce_mean(b, 0)[:, None])", 0),
        ("for i in range(9):\n    w.assign(x.T @ (x @ w) / (i + 1))", 0),
        ("for one, other in ((w, w),):\n    one.assign(0.5 * one + 0.5 * other)", 0),
    ],
    ids=["data", "rows", "jacobian", "a sum", "no data", "variables"],
)
def test_weights_that_no_gradient_sets_are_told(loop: str, told: int) -> None:
    source = (
        "import numpy as np\nimport tensorflow as tf\n\nx, y = np.ones((64, 4)), np.ones((64, 1))\n"
        "w = tf.Variable(tf.zeros((4, 1)))\n"
        "data = tf.data.Dataset.from_tensor_slices(x).shuffle(64).batch(8)\n"
        f"{loop}\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\nmodel.fit(x @ w.numpy(), y, verbose=0)\n"
    )
    conversion = convert_source(source)
    assert conversion.status == "converted"
    assert [d.code for d in conversion.diagnostics] == ["HVD909"] * told
