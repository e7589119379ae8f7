"""A rate is multiplied once: where it is a number of the program's own, and not where it comes from an optimizer's."""

from __future__ import annotations

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.rules.base import program

HEAD = program(
    """
    import argparse
    import tensorflow as tf

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    x, y = tf.zeros((64, 4)), tf.zeros((64, 1))
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    opt = tf.keras.optimizers.SGD(args.lr)
    model.compile(opt, loss="mse")
    model.fit(x, y)
    """
)
CALLBACK = program(
    """
    class Watch(tf.keras.callbacks.Callback):
        def __init__(self, lr):
            self.lr, self.seen = lr, []

        def on_epoch_begin(self, epoch, logs=None):
            {line}


    watch = Watch(0.1)
    model.fit(x, y, callbacks=[watch])
    """
)
AGAIN = "model.compile(tf.keras.optimizers.Adam({rate}), loss='mse')\nmodel.fit(x, y)\n"


def converted(source: str) -> str:
    conversion = convert_source(HEAD + source)
    assert conversion.status == "converted", conversion.diagnostics
    assert not conversion.diagnostics
    return conversion.code


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("self.model.optimizer.learning_rate = self.lr * 0.5", "(self.lr * 0.5) * hvd.size()"),
        ("opt.learning_rate.assign(args.lr * 0.5)", "assign((args.lr * 0.5) * hvd.size())"),
        ("opt = self.model.optimizer; opt.learning_rate.assign(0.5)", "assign(0.5 * hvd.size())"),
        ("opt.learning_rate.assign(opt.learning_rate * 0.5)", "assign(opt.learning_rate * 0.5)"),
    ],
    ids=["of the callback", "of the options", "optimizer in a name", "the present one"],
)
def test_a_rate_that_is_set_is_multiplied_unless_it_is_the_optimizers(line, after):
    assert after in converted(CALLBACK.format(line=line))


@pytest.mark.parametrize(
    ("before", "rate"),
    [
        ("rate = float(opt.learning_rate.numpy())\n", "rate / 10"),
        ("", "model.optimizer.learning_rate.numpy() / 10"),
        (
            CALLBACK.format(line="self.seen.append(float(self.model.optimizer.learning_rate))"),
            "watch.seen[-1]",
        ),
    ],
    ids=["in a name", "as it stands", "in a list of a callback"],
)
def test_a_rate_read_from_an_optimizer_is_in_proportion_already(before, rate):
    assert f"optimizers.Adam({rate}))" in converted(before + AGAIN.format(rate=rate))


def test_a_rate_of_the_options_is_multiplied_where_an_optimizer_is_made():
    assert "Adam((args.lr / 10) * hvd.size())" in converted(AGAIN.format(rate="args.lr / 10"))


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("rate.assign(0.01)", "rate.assign(0.01 * hvd.size())"),
        ("rate.assign(rate * 0.9)", "rate.assign(rate * 0.9)"),
        ("other.assign(0.01)", "other.assign(0.01)"),
    ],
)
def test_a_rate_that_is_a_variable(line: str, after: str) -> None:
    """It is multiplied where it is made, and so where it is set anew."""
    source = program(
        f"""
        rate, other = tf.Variable(0.1), tf.Variable(0.1)
        model.compile(tf.keras.optimizers.Adam(rate), loss="mse")
        model.fit(x, y)
        {line}
        model.fit(x, y)
        """
    )
    code = converted(source)
    assert "rate, other = tf.Variable(0.1 * hvd.size()), tf.Variable(0.1)" in code
    assert f"\n{after}\n" in code


CLASSES = """OPTS = {"sgd": tf.keras.optimizers.SGD, "adam": tf.keras.optimizers.Adam}


class Settings:
    made = tf.keras.optimizers.SGD


class Noam(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 0.1


"""
STEP = """
for bx, by in tf.data.Dataset.from_tensor_slices((x, y)).batch(8):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(bx) - by) ** 2)
    other.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""
RATE = "0.05 * hvd.size()"
KERAS = "tf.keras.optimizers"


@pytest.mark.parametrize(
    ("made", "after"),
    [
        ('OPTS["sgd"](0.05)', f'OPTS["sgd"]({RATE})'),
        ('dict(sgd=OPTS["sgd"])[args.name](0.05)', f"[args.name]({RATE})"),
        ("(OPTS['sgd'] if args.name else OPTS['adam'])(lr=0.05)", f"(lr={RATE})"),
        (f"getattr({KERAS}, 'SGD')(0.05)", f"getattr({KERAS}, 'SGD')({RATE})"),
        (f"getattr({KERAS}, args.name)(0.05)", f"getattr({KERAS}, args.name)({RATE})"),
        ("Settings().made(0.05)", f"Settings().made({RATE})"),
        (f"functools.partial({KERAS}.SGD, 0.05)(momentum=0.9)", f"partial({KERAS}.SGD, {RATE})("),
        (
            "OPTS['sgd'](clipnorm=1.0)",
            "(learning_rate=float(OPTS['sgd']().learning_rate) * hvd.size(), clipnorm=1.0)",
        ),
        ("OPTS['sgd'](Noam())", "OPTS['sgd'](jhvd.scaled_schedule(Noam()))"),
        (f"{KERAS}.get(args.name)", "jhvd.scaled_optimizer(args.name)"),
        (
            f"{KERAS}.deserialize(args.name)",
            f"jhvd.multiplied_rate({KERAS}.deserialize(args.name))",
        ),
        (
            f"{KERAS}.SGD.from_config({{'learning_rate': 0.05}})",
            f"jhvd.multiplied_rate({KERAS}.SGD.from_config({{'learning_rate': 0.05}}))",
        ),
        ("type(opt).from_config(opt.get_config())", "type(opt).from_config(opt.get_config())"),
        (f"{KERAS}.get({KERAS}.serialize(opt))", f"{KERAS}.get({KERAS}.serialize(opt))"),
        ("copy.deepcopy(opt)", "copy.deepcopy(opt)"),
    ],
)
def test_an_optimizer_is_scaled_wherever_its_class_is_kept(made: str, after: str) -> None:
    source = f"import copy\nimport functools\n{CLASSES}other = {made}{STEP}"
    assert after in converted(source)


def test_an_optimizer_in_its_own_name_that_scales_losses() -> None:
    made = "other = opt\nother = tf.keras.mixed_precision.LossScaleOptimizer(other)"
    assert converted(made + STEP)


@pytest.mark.parametrize(
    "made",
    [
        "eval(args.name)(0.05)",
        "{**OPTS, 'own': lambda rate: tf.keras.optimizers.Lion(rate)}['own'](0.05)",
        "OPTS['sgd'](**args.options)",
        "library.optimizer(0.05)",
        "tf.keras.mixed_precision.LossScaleOptimizer(library.optimizer(0.05))",
    ],
)
def test_an_optimizer_whose_rate_is_not_seen_is_told(made: str) -> None:
    found = convert_source(f"{HEAD}import library\n{CLASSES}other = {made}{STEP}")
    assert [d.code for d in found.diagnostics] == ["HVD201"]


LOOP = """kept, n, total, best = None, 0, 0.0, 1.0
for epoch in range(9):
    for bx, by in dataset:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(bx) - by) ** 2)
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        n += 1
        total += float(loss)
        {step}
    {epoch}
if kept is not None:
    model.set_weights(kept)
"""
KEEP = "kept = model.get_weights()"
DATASET = "dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)\n"


@pytest.mark.parametrize(
    ("step", "epoch", "told"),
    [
        (f"if n > 40: {KEEP}", "pass", True),
        (f"if n % len(dataset) == 0: {KEEP}", "pass", False),
        ("if n % 100 == 0: model.save('model.keras')", "pass", False),
        ("pass", f"if epoch > 4: {KEEP}", False),
        ("pass", f"if total / n < best: {KEEP}", False),
    ],
)
def test_which_weights_are_kept_by_a_count_of_steps_is_told(
    step: str, epoch: str, told: bool
) -> None:
    found = convert_source(HEAD + DATASET + LOOP.format(step=step, epoch=epoch)).diagnostics
    assert [d.code for d in found] == ["HVD208"] * told


SAVED = f"{HEAD}{DATASET}{LOOP}".replace("model.set_weights(kept)", "{back}")


@pytest.mark.parametrize(
    ("save", "back", "told"),
    [
        ("model.save_weights('w.h5')", "model.load_weights('w.h5')", True),
        ("model.save_weights('w.h5')", "model.load_weights('other.h5')", False),
        ("model.save('m.keras')", "model = tf.keras.models.load_model('m.keras')", True),
        ("manager.save()", "ckpt.restore(manager.latest_checkpoint)", True),
        ("manager.save()", "pass", False),
    ],
)
def test_which_weights_come_back_through_a_file_by_a_count_of_steps_is_told(
    save: str, back: str, told: bool
) -> None:
    """Where they are loaded before the training, it goes on from them, whatever they are."""
    source = SAVED.format(step=f"if n % 100 == 0: {save}", epoch="pass", back=back)
    manager = (
        "ckpt = tf.train.Checkpoint(model)\nmanager = tf.train.CheckpointManager(ckpt, 'c', 3)\n"
    )
    source = source.replace("kept, n", f"{manager}kept, n")
    assert [d.code for d in convert_source(source).diagnostics] == ["HVD208"] * told
    before = source.replace(back, "pass").replace("kept, n", f"if x: {back}\nkept, n")
    assert not convert_source(before).diagnostics


AVERAGE = """class Average(tf.keras.callbacks.Callback):
    steps, kept = 0, []

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if {test}:
            self.kept.append(self.model.get_weights())

    def on_train_end(self, logs=None):
        self.model.set_weights([sum(each) / len(each) for each in zip(*self.kept)])


model.fit(x, y, callbacks=[Average()])
"""


@pytest.mark.parametrize(("test", "told"), [("self.steps > 40", True), ("logs['loss'] < 1", False)])
def test_which_weights_a_callback_averages_by_a_count_of_steps_is_told(
    test: str, told: bool
) -> None:
    found = convert_source(HEAD + AVERAGE.format(test=test)).diagnostics
    assert [d.code for d in found] == ["HVD208"] * told


def test_a_number_of_a_step_beside_its_batch_is_not_in_the_loss() -> None:
    """The rate goes by it, and this is told."""
    loop = LOOP.format(step="opt.learning_rate = [0.1, 0.01][n > 40]", epoch="pass")
    loop = loop.replace(
        "for bx, by in dataset", "for n, (bx, by) in enumerate(dataset, start=n + 1)"
    )
    found = convert_source(HEAD + DATASET + loop.replace("        n += 1\n", "")).diagnostics
    assert [d.code for d in found] == ["HVD206"]
