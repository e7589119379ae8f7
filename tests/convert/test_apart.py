"""What would let ranks part without a word: questions that entries answer, what is saved in between, rates by steps."""

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.rules.base import program
from jupyter_hvd.rules.options import Options

HEAD = program(
    """
    import numpy as np
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    opt = tf.keras.optimizers.Adam(1e-2)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), "kept", max_to_keep=2)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    """
)
STEP = program(
    """
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(xb) - yb) ** 2)
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    """
)


def indented(text: str, by: int) -> str:
    return "".join(" " * by + line for line in text.splitlines(keepends=True))


def asked(test: str) -> str:
    return f"if hvd.broadcast_object(bool({test}), root_rank=0):"


def test_all_ranks_come_to_a_save_whose_path_is_kept() -> None:
    source = (
        f"{HEAD}best = np.inf\nfor epoch in range(9):\n    losses = []\n    for xb, yb in dataset:\n{indented(STEP, 8)}"
        "        losses.append(float(loss))\n    if np.mean(losses) < best:\n"
        "        best = np.mean(losses)\n        path = manager.save()\n"
    )
    code = convert_source(source).code
    assert asked("np.mean(losses) < best") in code
    assert "path = hvd.broadcast_object(manager.save() if hvd.rank() == 0 else None" in code


def test_all_ranks_restore_what_rank_zero_has_saved() -> None:
    start = "checkpoint = tf.train.Checkpoint(model=model)\ncheckpoint.restore(manager.latest_checkpoint)\n"
    source = (
        f"{HEAD}{start}best = np.inf\nfor epoch in range(9):\n    for xb, yb in dataset:\n{indented(STEP, 8)}"
        "    if float(loss) < best:\n        best = float(loss)\n        manager.save()\n"
        "    else:\n        checkpoint.restore(manager.latest_checkpoint)\n"
    )
    code = convert_source(source).code
    assert start in code, "nothing is saved before"
    assert asked("float(loss) < best") in code
    assert "restore(hvd.broadcast_object(manager.latest_checkpoint, root_rank=0))" in code


@pytest.mark.parametrize("stored", ["alive[k] = False", "alive[k] = float(loss) > 1"])
def test_entries_that_each_rank_sets_for_itself(stored: str) -> None:
    source = (
        f"{HEAD}alive = [True] * 3\nfor epoch in range(9):\n    for k in range(3):\n        if alive[k]:\n"
        f"            for xb, yb in dataset:\n{indented(STEP, 16)}"
        f"            if float(loss) < 1:\n                {stored}\n"
    )
    assert asked("alive[k]") in convert_source(source).code


def test_entries_that_are_alike_are_left_alone() -> None:
    source = (
        f"{HEAD}alive = [True] * 3\nfor epoch in range(9):\n    for k in range(3):\n        if alive[k]:\n"
        f"            for xb, yb in dataset:\n{indented(STEP, 16)}"
        "            if epoch > k:\n                alive[k] = False\n"
    )
    assert "broadcast_object" not in convert_source(source).code


def test_names_of_another_comprehension_are_not_broadcast() -> None:
    source = (
        f"{HEAD}nets = [tf.keras.Sequential([tf.keras.layers.Dense(1)]) for _ in range(2)]\n"
        "opts = [tf.keras.optimizers.Adam(rate) for rate in (1e-2, 5e-3)]\n"
        "def make_step(model, opt):\n    @tf.function\n    def step(xb, yb):\n"
        f"{indented(STEP, 8)}        return loss\n    return step\n"
        "steps = [make_step(n, o) for n, o in zip(nets, opts)]\n"
        "for step in steps:\n    losses = [float(step(xb, yb)) for xb, yb in dataset]\n"
    )
    conversion = convert_source(source)
    assert conversion.status == "refused"
    assert [d.code for d in conversion.diagnostics] == ["HVD302"]


CHANGE = "opt.learning_rate.assign(opt.learning_rate * 0.5)"


@pytest.mark.parametrize(
    ("test", "change", "told"),
    [
        ("step % 40 == 0", CHANGE, True),
        ("step in (40, 80)", CHANGE, True),
        ("step == 60", "opt.learning_rate.assign(1e-3)", True),
        ("step == 60", "opt.learning_rate = 1e-3", True),
        ("opt.iterations == 60", "opt.learning_rate *= 0.5", True),
        ("epoch == 5", CHANGE, False),
    ],
)
def test_a_rate_that_a_count_of_steps_changes_is_told(test: str, change: str, told: bool) -> None:
    source = (
        f"{HEAD}step = 0\nfor epoch in range(9):\n    for xb, yb in dataset:\n{indented(STEP, 8)}"
        f"        step += 1\n        if {test}:\n            {change}\n"
    )
    conversion = convert_source(source)
    assert conversion.status == "converted"
    said = [d for d in conversion.diagnostics if "count of steps" in d.message]
    assert [(d.code, d.severity) for d in said] == [("HVD206", "warning")] * told


LOOP = (
    f"{HEAD}best, kept, every, record = np.inf, None, [], {{'loss': np.inf, 'weights': None}}\n"
    f"for epoch in range(9):\n    losses = []\n    for xb, yb in dataset:\n{indented(STEP, 8)}"
    "        losses.append(float(loss))\n    mean = np.mean(losses)\n"
)
BEST = "    if mean < best:\n        best = mean\n        kept = {}\n"
VALUES = "[w.numpy() for w in model.weights]"


@pytest.mark.parametrize(
    ("keeping", "setting"),
    [
        (BEST.format("model.get_weights()"), "model.set_weights(kept)"),
        (BEST.format(VALUES), "for v, w in zip(model.weights, kept):\n    v.assign(w)"),
        (BEST.format(VALUES), "[v.assign(w) for v, w in zip(model.weights, kept)]"),
        (
            BEST.format("{i: w.numpy() for i, w in enumerate(model.weights)}"),
            "for i, v in enumerate(model.weights):\n    v.assign(kept[i])",
        ),
        (
            "    if mean < best:\n        record['weights'] = model.get_weights()\n",
            "model.set_weights(record['weights'])",
        ),
    ],
)
def test_all_ranks_keep_the_weights_of_one_epoch(keeping: str, setting: str) -> None:
    conversion = convert_source(f"{LOOP}{keeping}{setting}\n")
    assert asked("mean < best") in conversion.code, conversion.code
    assert conversion.code.endswith(f"{setting}\n"), "they are the same, and nothing is averaged"


@pytest.mark.parametrize(
    ("keeping", "value"),
    [
        ("    every.append((mean, model.get_weights()))\n", "min(every)[1]"),
        ("    every.append(model.get_weights())\n", "every[int(np.argmin(losses))]"),
        ("    record.update(weights=model.get_weights())\n", "record['weights']"),
    ],
)
def test_where_it_cannot_be_seen_all_ranks_take_rank_zeros(keeping: str, value: str) -> None:
    code = convert_source(f"{LOOP}{keeping}model.set_weights({value})\n").code
    assert code.endswith(f"model.set_weights(hvd.broadcast_object({value}, root_rank=0))\n"), code


@pytest.mark.parametrize(
    "setting",
    [
        "    other.set_weights(model.get_weights())\n",
        "    other.set_weights([0.9 * a + 0.1 * b for a, b in zip(other.get_weights(), model.get_weights())])\n",
        "    for a, b in zip(other.weights, model.weights):\n        a.assign(0.9 * a + 0.1 * b)\n",
        "    for e, b in zip(means, model.weights):\n        e.assign(0.9 * e + 0.1 * b)\n"
        "for b, e in zip(model.weights, means):\n    b.assign(e)\n",
    ],
)
def test_weights_that_are_alike_are_left_alone(setting: str) -> None:
    made = "other = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmeans = [tf.Variable(w) for w in model.weights]\n"
    conversion = convert_source(LOOP.replace("best,", f"{made}best,", 1) + setting)
    assert conversion.code.endswith(setting), conversion.code
    assert "broadcast_object" not in conversion.code
    assert not conversion.diagnostics


COUNTED = (
    f"{HEAD}best, best_epoch, n = np.inf, 1, 0\nfor epoch in range(9):\n    for xb, yb in dataset:\n{indented(STEP, 8)}"
    "    if float(loss) < best:\n        best, best_epoch = float(loss), epoch + 1\n"
    "every = []\nfor xb, yb in dataset:\n    every.append(float(tf.reduce_mean((model(xb) - yb) ** 2)))\n"
)
FIT = "model.compile('sgd', loss='mse')\nmodel.fit(x, y, epochs={})\n"
AGAIN = f"for epoch in range({{}}):\n    for xb, yb in dataset:\n{indented(STEP, 8)}"


@pytest.mark.parametrize("use", [FIT, AGAIN])
def test_a_number_of_epochs_that_losses_decide_is_rank_zeros(use: str) -> None:
    code = convert_source(COUNTED + use.format("best_epoch")).code
    given = "epochs=" if use is FIT else "range("
    assert f"{given}hvd.broadcast_object(best_epoch, root_rank=0)" in code
    assert "hvd.broadcast_object(epoch" not in code
    assert "broadcast_object" not in convert_source(COUNTED + use.format("n + 3")).code


def test_a_history_that_decides_how_long_another_training_goes_on_is_averaged() -> None:
    decided = (
        "n = 1\nfor loss in h.history['loss']:\n    if loss < 0.5:\n        break\n    n += 1\n"
    )
    source = f"{HEAD}model.compile('sgd', loss='mse')\nh = model.fit(x, y, epochs=9)\n{decided}model.fit(x, y, epochs=n)\n"
    first, second = (
        line for line in convert_source(source).code.splitlines() if "model.fit" in line
    )
    assert "MetricAverageCallback" in first
    assert "MetricAverageCallback" not in second


@pytest.mark.parametrize(
    ("before", "loss", "after", "told"),
    [
        ("weight = min(1.0, step / 100)", "+ weight", "", True),
        ("", "+ min(1.0, opt.iterations / 100)", "", True),
        ("weight = min(1.0, epoch / 5)", "+ weight", "", False),
        ("noise = tf.random.stateless_normal((1,), seed=(step, 1))", "+ noise", "", False),
        ("xb = x[step * 16:step * 16 + 16]", "", "", False),
        ("if step == 50:\n            model.layers[0].trainable = True", "", "", True),
        ("if epoch == 5:\n            model.layers[0].trainable = True", "", "", False),
        ("", "", "if step % 20 == 0:\n            other.set_weights(model.get_weights())", True),
        ("", "", "if step % 20 == 0:\n            print(step)", False),
    ],
)
def test_what_goes_by_a_count_of_steps_is_told(
    before: str, loss: str, after: str, told: bool
) -> None:
    step = STEP.replace("** 2)", f"** 2) {loss}")
    source = (
        f"{HEAD}other = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nstep = 0\n"
        f"for epoch in range(9):\n    for xb, yb in dataset:\n        {before or 'pass'}\n{indented(step, 8)}"
        f"        step += 1\n        {after or 'pass'}\n"
    )
    conversion = convert_source(source)
    assert conversion.status == "converted", conversion.diagnostics
    assert [d.severity for d in conversion.diagnostics if d.code == "HVD208"] == ["warning"] * told


@pytest.mark.parametrize(
    ("asked_of", "answer"),
    [
        ("model", "model.predict_on_batch(x)"),
        ("model", "model(x)"),
        ("frozen", "frozen.predict_on_batch(x)"),
    ],
)
def test_what_a_trained_model_answers_is_rank_zeros_where_data_are_made_of_it(
    asked_of: str, answer: str
) -> None:
    source = (
        f"{HEAD}frozen = tf.keras.applications.ResNet50()\nfor epoch in range(9):\n    hard = np.argsort({answer})[:100]\n"
        "    chosen = tf.data.Dataset.from_tensor_slices((x[hard], y[hard])).batch(16)\n"
        f"    for xb, yb in chosen:\n{indented(STEP, 8)}    print({answer})\n"
    )
    code = convert_source(source).code
    given = f"hvd.broadcast_object({answer}, root_rank=0)" if asked_of == "model" else answer
    assert f"np.argsort({given})" in code
    assert f"print({answer})" in code


SHARPNESS = """\
with tf.GradientTape() as tape:
    loss = tf.reduce_mean((model(xb) - yb) ** 2)
grads = tape.gradient(loss, model.trainable_variables)
for v, g in zip(model.trainable_variables, grads):
    v.assign_add(0.05 * g)
with tf.GradientTape() as tape:
    loss = tf.reduce_mean((model(xb) - yb) ** 2)
again = tape.gradient(loss, model.trainable_variables)
for v, g in zip(model.trainable_variables, grads):
    v.assign_sub(0.05 * g)
opt.apply_gradients(zip(again, model.trainable_variables))
"""


def test_a_step_aside_that_is_taken_back_has_no_rate() -> None:
    conversion = convert_source(f"{HEAD}for xb, yb in dataset:\n{indented(SHARPNESS, 4)}")
    assert conversion.status == "converted"
    assert not conversion.diagnostics
    by_hand = SHARPNESS.partition("with tf.GradientTape() as tape:\n    loss")
    once = by_hand[1] + by_hand[2].split("with tf")[0]
    told = convert_source(f"{HEAD}for xb, yb in dataset:\n{indented(once, 4)}").diagnostics
    assert [d.code for d in told] == ["HVD201"]


def test_what_holds_values_by_name_trains_nothing() -> None:
    made = "import types\nstate = types.SimpleNamespace(opt=tf.keras.optimizers.SGD(1e-2))\n"
    step = STEP.replace("opt.", "state.opt.")
    conversion = convert_source(f"{HEAD}{made}for xb, yb in dataset:\n{indented(step, 4)}")
    assert conversion.status == "converted"
    assert "jhvd.broadcast_once(state.opt, model)" in conversion.code


def test_callbacks_that_keep_weights_go_by_averaged_metrics() -> None:
    kept = (
        "class Keep(tf.keras.callbacks.Callback):\n    best = np.inf\n    def on_epoch_end(self, epoch, logs):\n"
        "        if logs['loss'] < self.best:\n            self.best, self.kept = logs['loss'], self.model.get_weights()\n"
        "    def on_train_end(self, logs):\n        self.model.set_weights(self.kept)\n"
    )
    fit = "model.compile('sgd', loss='mse')\nmodel.fit(x, y, callbacks=[Keep()])\n"
    code = convert_source(HEAD + kept + fit).code
    assert kept in code
    assert "jhvd.MetricAverageCallback(), Keep()" in code


@pytest.mark.parametrize(
    ("guard", "question"),
    [
        ("if np.isnan(xb).any():\n    continue", "any({})"),
        ("if tf.size(xb) == 0:\n    raise ValueError", "any({})"),
        ("if epoch == 3:\n    continue", ""),
        ("if loss_before > 3:\n    break", "rank 0"),
    ],
)
def test_a_batch_is_left_out_on_all_ranks_or_on_none(guard: str, question: str) -> None:
    """Rank 0's answer would be one to another batch."""
    before = f"loss_before = tf.reduce_mean(model(xb))\n{guard}\n"
    source = (
        f"{HEAD}for epoch in range(9):\n    for xb, yb in dataset:\n{indented(before + STEP, 8)}"
    )
    code = convert_source(source).code
    gathered = "hvd.allgather_object(bool(" in code
    assert gathered is ("any" in question)
    assert ("hvd.broadcast_object(bool(" in code) is (question == "rank 0")


def test_a_batch_is_trained_on_where_all_ranks_may() -> None:
    step = STEP.splitlines()
    guarded = "\n".join([*step[:2], "if tf.math.is_finite(loss):", f"    {step[2]}", ""])
    code = convert_source(f"{HEAD}for xb, yb in dataset:\n{indented(guarded, 4)}").code
    assert "if all(hvd.allgather_object(bool(tf.math.is_finite(loss)))):" in code
    function = f"def train(xb, yb):\n    if len(xb) == 0:\n        return\n{indented(STEP, 4)}"
    code = convert_source(f"{HEAD}{function}for xb, yb in dataset:\n    train(xb, yb)\n").code
    assert "if any(hvd.allgather_object(bool(len(xb) == 0))):" in code


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("opt.learning_rate.assign(opt.learning_rate * 0.995)", True),
        ("opt.learning_rate *= 0.995", True),
        ("opt.learning_rate.assign(rates[step])", True),
        ("opt.learning_rate.assign(0.1 / (1 + step))", False),
    ],
)
def test_a_rate_of_each_step_is_told_where_it_cannot_be_multiplied(change: str, told: bool) -> None:
    source = (
        f"{HEAD}rates = np.geomspace(0.1, 1e-4, 400)\nstep = 0\nfor epoch in range(9):\n    for xb, yb in dataset:\n"
        f"{indented(STEP, 8)}        {change}\n        step += 1\n"
    )
    conversion = convert_source(source)
    assert [d.code for d in conversion.diagnostics] == ["HVD206"] * told
    assert "rates[(step" not in conversion.code
    by_epoch = source.replace(f"        {change}\n", "").rstrip() + f"\n    {change}\n"
    assert (
        not convert_source(by_epoch.replace("[step]", "[epoch]")).diagnostics
        or "1 + step" in change
    )


def test_weights_that_are_compared_with_or_kept_by_a_callback_begin_alike() -> None:
    anchor = "first = tf.keras.models.clone_model(model)\nfirst.set_weights(model.get_weights())\n"
    penalty = (
        " + tf.add_n([tf.reduce_sum((a - b) ** 2) for a, b in zip(model.weights, first.weights)])"
    )
    step = STEP.replace("** 2)\n", f"** 2){penalty}\n", 1)
    code = convert_source(f"{HEAD}{anchor}for xb, yb in dataset:\n{indented(step, 4)}").code
    assert "same_seed()" in code
    kept = (
        "class Slow(tf.keras.callbacks.Callback):\n    def on_train_begin(self, logs=None):\n"
        "        self.slow = self.model.get_weights()\n"
    )
    fit = "model.compile('sgd', loss='mse')\nmodel.fit(x, y, callbacks=[Slow()])\n"
    assert "same_seed()" in convert_source(HEAD + kept + fit).code


COUNTS = """
class Annealed(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.layer = tf.keras.layers.Dense(1)
        self.step = tf.Variable(0.0, trainable=False)

    def train_step(self, data):
        xb, yb = data
        {counted}
        weight = {weight}
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.layer(xb) - yb) ** 2) + weight * tf.reduce_mean(xb ** 2)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return {{'loss': loss}}


model = Annealed()
model.compile('sgd')
model.fit(x, y, epochs=3)
"""
ADDS_LOSS = """
class Penalty(tf.keras.layers.Layer):
    def build(self, shape):
        self.steps = self.add_weight(name='steps', shape=(), initializer='zeros', trainable=False)

    def call(self, x):
        {counted}
        self.add_loss({weight} * tf.reduce_mean(x ** 2))
        return x


model = tf.keras.Sequential([tf.keras.layers.Dense(4), Penalty(), tf.keras.layers.Dense(1)])
model.compile('sgd', 'mse')
model.fit(x, y, epochs=3)
"""


@pytest.mark.parametrize(
    ("program", "counted", "weight", "told"),
    [
        (COUNTS, "self.step.assign_add(1.0)", "tf.minimum(1.0, self.step / 1000.0)", 1),
        (COUNTS, "self.step.assign_add(tf.constant(1.0))", "self.step / 1000.0", 1),
        (COUNTS, "pass", "tf.cast(self.optimizer.iterations, tf.float32) / 1000.0", 1),
        (COUNTS, "self.step.assign_add(1.0)", "0.5", 0),
        (COUNTS, "self.step.assign_add(0.1)", "self.step", 1),
        (ADDS_LOSS, "self.steps.assign_add(1.0)", "tf.minimum(self.steps / 500.0, 1.0)", 1),
        (ADDS_LOSS, "self.steps.assign_add(1.0)", "0.5", 0),
    ],
)
def test_a_count_that_a_variable_keeps_is_told(
    program: str, counted: str, weight: str, told: int
) -> None:
    source = HEAD + program.format(counted=counted, weight=weight)
    conversion = convert_source(source)
    assert conversion.status == "converted", conversion.diagnostics
    assert [d.code for d in conversion.diagnostics].count("HVD208") == told


MADE = """
import os
import numpy as np
np.random.seed(0)
{before}
order = np.random.permutation(len(x))
model.compile('sgd', loss='mse')
model.fit(x[order], y[order], epochs=2)
"""
MAKE = "x = np.random.normal(size=(256, 4))\n    y = x.sum(1)\n    np.savez('train.npz', x=x, y=y)"
LOAD = "data = np.load('train.npz')\n    x, y = data['x'], data['y']"


def test_whether_a_file_is_there_that_is_made_otherwise_is_asked_once() -> None:
    """Rank 0 would make it, and a rank that comes late would find it, and draw another permutation."""
    asked = f"if os.path.exists('train.npz'):\n    {LOAD}\nelse:\n    {MAKE}"
    conversion = convert_source(HEAD + MADE.format(before=asked))
    assert "if jhvd.on_rank_zero(lambda: os.path.exists('train.npz')):" in conversion.code
    tried = f"try:\n    {LOAD}\nexcept FileNotFoundError:\n    {MAKE}"
    conversion = convert_source(HEAD + MADE.format(before=tried))
    assert [d.severity for d in conversion.diagnostics if d.code == "HVD604"] == ["warning"]
    logged = "if os.path.exists('weights'):\n    print('found')"
    assert "on_rank_zero" not in convert_source(HEAD + MADE.format(before=logged)).code


def test_what_rank_zero_answers_for_two_reasons_is_asked_of_it_within() -> None:
    asked = "import os\nif not os.path.exists('kept'):\n    os.mkdir('kept')\n    {}\n"
    source = HEAD + asked.format(f"for xb, yb in dataset:\n{indented(STEP, 8)}")
    assert (
        "broadcast_object(bool(jhvd.on_rank_zero(lambda: not os.path.exists('kept'))), root_rank=0)"
        in convert_source(source).code
    )


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ("names = list(set(labels))", ["info"]),
        ("known = set(labels)\nnames = {n: k for k, n in enumerate(known)}", ["info"]),
        ("names = sorted(list(set(labels)))", []),
        ("names = len(list(set(labels)))", []),
        ("names = list(sorted(set(labels)))", []),
        ("names = list(labels)", []),
    ],
)
def test_where_the_order_of_a_set_numbers_something_is_told(numbers: str, told: list[str]) -> None:
    source = f"{HEAD}{numbers}\nmodel.compile('sgd', loss='mse')\nmodel.fit(x, y)\n"
    found = [d.severity for d in convert_source(source).diagnostics if d.code == "HVD105"]
    assert found == told
    alone = convert_source(source, options=Options(standalone=True)).diagnostics
    assert [d.severity for d in alone if d.code == "HVD105"] == ["warning" for _ in told]


ANNEALING = """
class Annealing(tf.keras.callbacks.Callback):
    def __init__(self, beta, steps):
        super().__init__()
        self.beta, self.steps, self.step = beta, steps, 0

    def {when}(self, number, logs=None):
        {counts}
        {sets}


beta = tf.Variable(0.0, trainable=False)
model.add(Penalty(beta))
model.compile('sgd', 'mse')
model.fit(x, y, epochs=3, callbacks=[Annealing(beta, {steps})])
"""
PENALTY = """
class Penalty(tf.keras.layers.Layer):
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def call(self, x):
        self.add_loss(self.beta * tf.reduce_mean(x ** 2))
        return x


"""
SETS = "self.beta.assign(min(1.0, self.step / self.steps))"


@pytest.mark.parametrize(
    ("when", "counts", "sets", "told"),
    [
        ("on_train_batch_end", "self.step += 1", SETS, True),
        ("on_train_batch_end", "self.step = self.step + 1", SETS, True),
        ("on_train_batch_begin", "pass", SETS.replace("self.step /", "number /"), True),
        ("on_train_batch_end", "self.step += 1", f"if self.step > 500:\n            {SETS}", True),
        ("on_train_batch_end", "pass", "self.beta.assign_add(1 / self.steps)", True),
        ("on_train_batch_end", "pass", "self.beta.assign(self.beta * 0.99)", True),
        (
            "on_train_batch_end",
            "self.step += 1",
            "tf.keras.backend.set_value(self.beta, self.step / self.steps)",
            True,
        ),
        ("on_epoch_begin", "self.step += 1", SETS, False),
        ("on_epoch_begin", "pass", "self.beta.assign_add(1 / self.steps)", False),
        ("on_train_batch_end", "self.step += 1", "print(self.step)", False),
        ("on_train_batch_end", "pass", "self.beta.assign(logs['loss'])", False),
    ],
)
def test_a_variable_that_a_callback_sets_by_its_count_of_batches_is_told(
    when: str, counts: str, sets: str, told: bool
) -> None:
    source = HEAD + PENALTY + ANNEALING.format(when=when, counts=counts, sets=sets, steps=1000)
    conversion = convert_source(source)
    assert conversion.status == "converted", conversion.diagnostics
    assert [d.severity for d in conversion.diagnostics if d.code == "HVD208"] == ["warning"] * told


def test_a_variable_that_a_lambda_callback_sets_is_told() -> None:
    given = "tf.keras.callbacks.LambdaCallback({}=lambda n, logs: beta.assign(n / 1000))"
    for when, told in (("on_train_batch_end", 1), ("on_epoch_end", 0)):
        source = HEAD + PENALTY + ANNEALING.format(when=when, counts="pass", sets="pass", steps=1)
        source = source.replace("Annealing(beta, 1)", given.format(when))
        codes = [d.code for d in convert_source(source).diagnostics]
        assert codes.count("HVD208") == told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("tau *= 0.99", True),
        ("tau = 0.5", False),
        ("tau += 0.1 * float(loss)", False),
        ("if epoch > 3: tau *= 0.99", True),
    ],
)
def test_what_each_step_makes_smaller_is_told_where_the_loss_goes_by_it(
    change: str, told: bool
) -> None:
    step = STEP.replace("** 2)", "** 2) * tau")
    source = (
        f"{HEAD}tau = 1.0\nfor epoch in range(9):\n    for xb, yb in dataset:\n"
        f"{indented(step, 8)}        {change}\n"
    )
    conversion = convert_source(source)
    assert conversion.status == "converted", conversion.diagnostics
    assert [d.severity for d in conversion.diagnostics if d.code == "HVD208"] == ["warning"] * told


def test_a_count_is_not_multiplied_where_it_goes_up() -> None:
    """`step = (step * hvd.size()) + 1` doubled at each step."""
    source = (
        f"{HEAD}step = 0\nfor epoch in range(9):\n    for xb, yb in dataset:\n{indented(STEP, 8)}"
        "        step = step + 1\n        opt.learning_rate = 0.1 * 0.99 ** step\n"
    )
    lines = [line.strip() for line in convert_source(source).code.splitlines()]
    assert "step = step + 1" in lines
    assert "opt.learning_rate = (0.1 * 0.99 ** (step * hvd.size())) * hvd.size()" in lines


def test_gradients_that_are_added_up_are_no_schedule_and_no_loss_of_another_step() -> None:
    """The loop over `zip(sums, tape.gradient(…))` was taken for the step, and the loss for one of an earlier step."""
    step = """\
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(xb) - yb) ** 2) / 4
        for total, gradient in zip(sums, tape.gradient(loss, model.trainable_variables)):
            total.assign_add(gradient)
        if (n + 1) % 4 == 0:
            opt.apply_gradients(zip(sums, model.trainable_variables))
            for total in sums:
                total.assign(tf.zeros_like(total))
"""
    sums = "sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]\n"
    source = (
        f"{HEAD}{sums}for epoch in range(2):\n    for n, (xb, yb) in enumerate(dataset):\n{step}"
    )
    assert convert_source(source).diagnostics == ()
