"""What a rank has seen by itself decides neither rates nor weights by itself."""

from __future__ import annotations

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.rules.base import program

HEAD = program(
    """
    import numpy as np
    import tensorflow as tf

    x, y = np.zeros((64, 4)), np.zeros((64, 1))
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    opt = tf.keras.optimizers.SGD(0.1)
    seen = tf.keras.metrics.Mean()
    """
)
STEP = program(
    """
    def step(bx, by):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(bx) - by) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(gradients, model.trainable_variables))
        seen.update_state(loss)
        return loss


    best = 1e9
    for epoch in range(5):
        total = 0
        for bx, by in batches:
            total += step(bx, by)
        {line}
    """
)
ASKED = "if hvd.broadcast_object(bool({}), root_rank=0): "


def converted(source: str) -> str:
    conversion = convert_source(HEAD + source)
    assert conversion.status == "converted", conversion.diagnostics
    return conversion.code


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (
            "if total > best: opt.learning_rate.assign(opt.learning_rate / 2)",
            ASKED.format("total > best") + "opt.learning_rate.assign(opt.learning_rate / 2)",
        ),
        (
            "if total > best: model.set_weights(kept)",
            ASKED.format("total > best") + "model.set_weights(kept)",
        ),
        (
            "opt.learning_rate = 0.01 * total",
            "opt.learning_rate = (hvd.broadcast_object(float(0.01 * total), root_rank=0)) * hvd.size()",
        ),
        (
            "opt.learning_rate.assign(0.1 * seen.result())",
            "assign((hvd.broadcast_object(float(0.1 * seen.result()), root_rank=0)) * hvd.size())",
        ),
        ("opt.learning_rate = 0.1 / (1 + epoch)", "= (0.1 / (1 + epoch)) * hvd.size()"),
        (
            "if epoch > 2: opt.learning_rate = 0.1",
            "if epoch > 2: opt.learning_rate = 0.1 * hvd.size()",
        ),
    ],
    ids=["rate", "weights", "computed", "by a metric", "by the epoch", "at an epoch"],
)
def test_rates_and_weights_are_set_alike(line: str, after: str) -> None:
    """By a rank's own losses ranks would go on at rates of their own, and part."""
    assert after in converted(STEP.format(line=line))


CALLBACK = program(
    """
    class Own(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            {line}


    model.compile(opt, loss="mse")
    model.fit(x, y, callbacks=[Own()])
    """
)


@pytest.mark.parametrize(
    ("line", "each"),
    [
        ("self.model.stop_training = logs['loss'] > 9", "each_batch=True"),
        ("if logs['loss'] > 9: self.model.optimizer.learning_rate = 0.1", "each_batch=True"),
        ("self.seen = logs['loss']", ""),
        ("self.model.stop_training = batch > 9", ""),
    ],
    ids=["stops", "sets the rate", "looks", "counts"],
)
def test_a_callback_that_decides_by_a_batch_sees_the_mean_of_all_ranks(
    line: str, each: str
) -> None:
    assert f"jhvd.MetricAverageCallback({each})" in converted(CALLBACK.format(line=line))


@pytest.mark.parametrize("cond", [False, True], ids=["if", "tf.cond"])
@pytest.mark.parametrize(("test", "status"), [("norm < 10", "converted"), ("loss < 10", "refused")])
def test_whether_a_compiled_step_updates(test: str, status: str, cond: bool) -> None:
    """Averaged gradients say so alike; a rank's own loss does not, and nobody can be asked there."""
    update = "opt.apply_gradients(zip(gradients, model.trainable_variables))"
    line = f"tf.cond({test}, lambda: {update}, lambda: None)" if cond else f"if {test}: {update}"
    source = program(
        f"""
        @tf.function
        def step(bx, by):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(bx) - by) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            norm = tf.linalg.global_norm(gradients)
            {line}


        for bx, by in batches:
            step(bx, by)
        """
    )
    assert convert_source(HEAD + source).status == status


CHOSEN = program(
    """
    def train(x, y):
        model = tf.keras.Sequential([tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(1)])
        opt = tf.keras.optimizers.SGD(0.1)
        losses, hard = [], []
        for bx, by in tf.data.Dataset.from_tensor_slices((x, y)).batch(8):
            with tf.GradientTape() as tape:
                errors = (model(bx) - by) ** 2
                loss = tf.reduce_mean(errors)
            gradients = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(gradients, model.trainable_variables))
            losses.append(float(loss))
            hard.append(bx[errors[:, 0] > loss])
        return model, losses, hard


    more = np.zeros((640, 4))
    for turn in range(3):
        trained, losses, hard = train(x, y)
        {line}
        x, y = np.concatenate([x, chosen]), np.concatenate([y, trained.predict(chosen)])
    """
)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("chosen = np.concatenate(hard)", "HVD509"),
        ("chosen = more[:int(100 * losses[-1])]", "HVD509"),
        ("chosen = more[trained.predict(more)[:, 0] > 0.5]", None),
    ],
    ids=["found in steps", "by a loss", "by the model"],
)
def test_data_that_go_by_what_a_rank_has_seen(line: str, code: str | None) -> None:
    """By the model all ranks choose the same; by their own batches each would choose others."""
    conversion = convert_source(HEAD + CHOSEN.format(line=line))
    assert {d.code for d in conversion.diagnostics if d.severity == "error"} == {code} - {None}


def test_models_that_choose_with_noise_have_the_same_on_all_ranks() -> None:
    line = "chosen = more[trained(more, training=True)[:, 0] > 0.5]"
    conversion = convert_source(HEAD + CHOSEN.format(line=line))
    assert conversion.status == "converted"
    assert "\njhvd.same_seed()" in conversion.code


CURRICULUM = program(
    """
    class Stream:
        def __init__(self):
            self.level = 0.1

        def __iter__(self):
            for number in range(64):
                yield number * self.level


    stream = Stream()
    endless = tf.data.Dataset.from_generator(lambda: iter(stream), output_types=tf.float32)
    level, best = 0.1, 1e9
    for epoch in range(5):
        easy = x[x[:, 0] < level]
        total = 0
        for batch in {data}.batch(8):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(batch) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(gradients, model.trainable_variables))
            total += loss
        if total < {limit}:
            {line}
    """
)


@pytest.mark.parametrize(
    ("data", "limit", "line", "asked"),
    [
        ("tf.data.Dataset.from_tensor_slices(easy)", "0.5", "level *= 2", True),
        ("endless", "0.5", "stream.level *= 2", True),
        ("endless", "best", "best = total", False),
    ],
    ids=["a name", "an attribute", "none of the data"],
)
def test_what_data_are_made_of_is_decided_alike(data, limit, line, asked) -> None:
    """A curriculum that goes by the losses; what is only remembered may be each rank's own."""
    test = (
        f"hvd.broadcast_object(bool(total < {limit}), root_rank=0)" if asked else f"total < {limit}"
    )
    assert f"if {test}:\n" in converted(CURRICULUM.format(data=data, limit=limit, line=line))


@pytest.mark.parametrize(
    ("kept", "told"),
    [("0.9 * self.mean + 0.1 * tf.reduce_mean(x)", True), ("0.9 * self.mean + 0.1", False)],
)
def test_a_layer_that_keeps_what_its_inputs_say_is_told(kept: str, told: bool) -> None:
    """As the codebook of a VQ-VAE: each rank's own goes by its own batches, and all are trained through it."""
    source = program(
        f"""
        class Own(tf.keras.layers.Layer):
            def build(self, shape):
                self.mean = self.add_weight(shape=(), trainable=False)

            def call(self, x, training=False):
                if training:
                    self.keep(x)
                return x - self.mean

            def keep(self, x):
                self.mean.assign({kept})


        model = tf.keras.Sequential([tf.keras.layers.Dense(1), Own()])
        model.compile("sgd", "mse")
        model.fit(x, y)
        """
    )
    conversion = convert_source(HEAD + source)
    assert conversion.status == "converted"
    assert [d.code for d in conversion.diagnostics] == ["HVD508"] * told


@pytest.mark.parametrize(
    "line", ["opt.learning_rate.assign(0.1 * loss)", "if loss > 1: opt.learning_rate.assign(0.01)"]
)
def test_in_a_compiled_step_nobody_can_be_asked(line: str) -> None:
    source = STEP.format(line="pass").replace("def step", "@tf.function\ndef step")
    source = source.replace("    return loss", f"    {line}\n    return loss")
    conversion = convert_source(HEAD + source)
    (error,) = (d for d in conversion.diagnostics if d.severity == "error")
    assert error.code == "HVD303"
    assert "outside the tf.function" in error.help
    assert "hvd." not in error.help  # a program that uses Horovod is refused


@pytest.mark.parametrize(("made", "told"), [("total / 8", True), ("0.9 ** epoch", False)])
def test_a_loss_that_goes_by_what_a_rank_has_seen_is_told(made: str, told: bool) -> None:
    """As weights of tasks that go by their last losses."""
    source = program(
        f"""
        weight = 1.0
        for epoch in range(5):
            total = 0.0
            for bx, by in batches:
                with tf.GradientTape() as tape:
                    loss = weight * tf.reduce_mean((model(bx) - by) ** 2)
                gradients = tape.gradient(loss, model.trainable_variables)
                opt.apply_gradients(zip(gradients, model.trainable_variables))
                total += float(loss)
            weight = {made}
        """
    )
    conversion = convert_source(HEAD + source)
    assert conversion.status == "converted"
    assert [d.code for d in conversion.diagnostics] == ["HVD509"] * told


def test_a_name_that_each_step_binds_anew_keeps_nothing_of_the_steps_before() -> None:
    """What was shown of the last epoch has the same name."""
    source = program(
        """
        mean = tf.keras.metrics.Mean()
        for epoch in range(5):
            for bx, by in batches:
                with tf.GradientTape() as tape:
                    main = tf.reduce_mean((model(bx) - by) ** 2)
                    loss = main + sum(model.losses)
                gradients = tape.gradient(loss, model.trainable_variables)
                opt.apply_gradients(zip(gradients, model.trainable_variables))
                mean.update_state(loss)
            main = mean.result()
        """
    )
    conversion = convert_source(HEAD + source)
    assert conversion.status == "converted"
    assert conversion.diagnostics == ()


INLINE = """
        weight, fisher, table = 1.0, [1.0, 1.0], np.ones(8)
        for bx, by in batches:
            with tf.GradientTape() as tape:
                loss = weight * table[0] * tf.reduce_mean((model(bx) - by) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(gradients, model.trainable_variables))
            {line}
        """


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("weight = 0.9 * weight + float(loss)", True),
        ("weight, other = float(loss), 1", True),
        ("weight = 0.9 * weight + float(tf.norm(gradients[0]))", False),
        ("weight = 0.9 * weight", False),
        ("other = 0.9 * weight + float(loss)", False),
        ("for n in range(3): other = weight; weight = float(loss)", True),
        ("table[:8] = by.numpy() * float(loss)", True),
        ("table[:8] = float(tf.norm(gradients[0]))", False),
    ],
)
def test_what_a_turn_leaves_to_the_loss_of_the_next_is_told(line: str, told: bool) -> None:
    """It was told where steps stand in a function alone; gradients are averaged."""
    conversion = convert_source(HEAD + program(INLINE.replace("{line}", line)))
    assert conversion.status == "converted"
    assert [d.code for d in conversion.diagnostics if d.code == "HVD509"] == ["HVD509"] * told


MINED = """
        def losses_of(bx, by):
            return tf.reduce_sum((model(bx) - by) ** 2, axis=1)


        for epoch in range(5):
            order = np.argsort({answer})
            for start in range(0, len(x), 32):
                rows = order[start:start + 32]
                bx, by = x[rows], y[rows]
                {own}
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(losses_of(bx, by))
                gradients = tape.gradient(loss, model.trainable_variables)
                opt.apply_gradients(zip(gradients, model.trainable_variables))
        """


def test_answers_of_the_loss_to_all_data_are_rank_0s() -> None:
    """They were taken for what each rank has seen of its own batches."""
    source = MINED.replace("{answer}", "losses_of(x, y)").replace("{own}", "")
    conversion = convert_source(HEAD + program(source))
    assert conversion.diagnostics == ()
    assert "np.argsort(hvd.broadcast_object(losses_of(x, y), root_rank=0))" in conversion.code
    assert "return tf.reduce_sum((model(bx) - by) ** 2, axis=1)" in conversion.code


def test_an_answer_to_a_rank_s_own_batch_is_its_own() -> None:
    """Rank 0's answer to its batch chose the rows of the others' batches."""
    own = "hard = np.argsort(model(bx)[:, 0])[:8]; bx, by = bx[hard], by[hard]"
    source = MINED.replace("{answer}", "y[:, 0]").replace("{own}", own)
    conversion = convert_source(HEAD + program(source))
    assert conversion.diagnostics == ()
    assert own in conversion.code


def test_what_a_loop_within_a_step_hands_on_is_of_this_step() -> None:
    source = program(
        """
        for bx, by in batches:
            with tf.GradientTape() as tape:
                state, loss = by, 0.0
                for n in range(4):
                    answer = model(bx + state)
                    state, loss = answer, loss + tf.reduce_mean(answer ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(gradients, model.trainable_variables))
        """
    )
    assert convert_source(HEAD + source).diagnostics == ()


@pytest.mark.parametrize(
    ("test", "own"),
    [
        ("tf.reduce_mean((x @ (w - a * g) - y) ** 2) > loss", True),
        ("0.1 < tf.reduce_mean((x @ (w - a * g) - y) ** 2)", True),
        ("tf.norm(a * g) > 1.0", False),
    ],
    ids=["own batch", "own batch at the right", "averaged gradient"],
)
def test_a_step_of_a_length_that_a_ranks_batch_decides_is_averaged(test: str, own: bool) -> None:
    """In a line search on the batch of each rank they find other lengths."""
    source = program(
        f"""
        import tensorflow as tf

        w = tf.Variable(tf.zeros((8, 1)))
        for x, y in tf.data.Dataset.from_tensor_slices((features, labels)).batch(16):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ w - y) ** 2)
            g = tape.gradient(loss, w)
            a = 1.0
            while {test}:
                a *= 0.5
            w.assign_sub(a * g)
        """
    )
    code = convert_source(source).code
    assert ("w.assign_sub(jhvd.average_gradients(a * g))" in code) is own
