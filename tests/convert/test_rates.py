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
