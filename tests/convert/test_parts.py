"""A training that cannot be divided, beside others: rank 0 does it where nothing that all ranks do depends on it."""

from __future__ import annotations

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import Conversion

HEAD = """\
import numpy as np
import tensorflow as tf
import ensembles
import gym

x, y = load()


def build(width=8):
    made = tf.keras.Sequential([tf.keras.layers.Dense(width)])
    made.compile("adam", loss="mse")
    return made


model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", loss="mse")
"""
FIT = "model.fit(x, y, verbose=0)\n"
WRAPPED = "wrapped = ensembles.Ensemble(build)\nwrapped.fit(x, y)\n"
#: Updates within episodes, of which each rank would make another number.
PLAYED = """\
env = gym.make("CartPole-v1")
w = tf.Variable(tf.zeros((4, 1)))
opt = tf.keras.optimizers.SGD(0.1)
for episode in range(9):
    state, done = env.reset(), False
    while not done:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(state[None] @ w)
        opt.apply_gradients([(tape.gradient(loss, w), w)])
        state, reward, done, _ = env.step(0)
"""


def convert(*parts: str) -> Conversion:
    return convert_source(HEAD + "".join(parts))


def told(conversion: Conversion) -> list[tuple[str, str]]:
    return [(d.code, d.severity) for d in conversion.diagnostics]


def test_what_reads_what_comes_of_it_stands_there_too() -> None:
    after = "score = wrapped.score(x, y)\nmodel.evaluate(x, y, verbose=0)\nbest = score * 2\nprint(best)\n"
    conversion = convert(FIT, WRAPPED, after)
    assert told(conversion) == [("HVD609", "warning")]
    assert conversion.code.endswith(
        "if hvd.rank() == 0:\n    wrapped = ensembles.Ensemble(build)\n    wrapped.fit(x, y)\n"
        "    score = wrapped.score(x, y)\nmodel.evaluate(x, y, verbose=0)\n"
        "if hvd.rank() == 0:\n    best = score * 2\n    print(best)\n"
    )
    # `build` makes models for rank 0 alone: it is left as it is.
    assert '    made.compile("adam", loss="mse")\n' in conversion.code
    compile(conversion.code, "converted", "exec")


def test_a_name_that_is_bound_anew_is_another() -> None:
    again = "wrapped = model.predict(x, verbose=0)\nnp.sum(wrapped)\n"
    code = convert(FIT, WRAPPED, again).code
    assert code.endswith(f"    wrapped.fit(x, y)\n{again}")


def test_a_semicolon_goes_with_its_line() -> None:
    wrapped = "wrapped = ensembles.Ensemble(build);\nwrapped.fit(x, y) ; # apart\n"
    conversion = convert(FIT, wrapped)
    assert conversion.code.endswith(
        "if hvd.rank() == 0:\n    wrapped = ensembles.Ensemble(build);\n    wrapped.fit(x, y) ; # apart\n"
    )
    compile(conversion.code, "converted", "exec")


def test_data_that_a_library_brings_are_no_file_of_the_part() -> None:
    """What rank 0 saves may be what is read below, but for a library's own data."""
    more = "(x, y), _ = tf.keras.datasets.mnist.load_data()\nmodel.evaluate(x, y, verbose=0)\n"
    code = convert(FIT, WRAPPED, "np.save('score', wrapped.score(x, y))\n", more).code
    assert "\n(x, y), _ = jhvd.local_rank_zero_first(" in code
    assert "    x = np.load('x.npy')\n" in (
        convert(FIT, WRAPPED, "np.save('x', wrapped.predict(x))\n", "x = np.load('x.npy')\n").code
    )


def test_strings_of_several_lines_stay() -> None:
    text = 'note = f"""\n  {wrapped}\n"""\n'
    assert convert(FIT, WRAPPED, text).code.endswith('    note = f"""\n  {wrapped}\n"""\n')


def test_episodes_before_another_training() -> None:
    """Rank 0 has drawn numbers that the others have not."""
    conversion = convert(PLAYED, FIT)
    assert told(conversion) == [("HVD609", "warning")]
    code = conversion.code
    assert "if hvd.rank() == 0:\n    for episode in range(9):\n        state, done =" in code
    assert "\njhvd.same_seed()\nmodel.fit(jhvd.shard_rows(x)" in code
    assert "opt = tf.keras.optimizers.SGD(0.1)\n" in code
    assert "broadcast_once" not in code


@pytest.mark.parametrize(
    "parts",
    [
        (FIT, WRAPPED, "model.fit(x, wrapped.predict(x), verbose=0)\n"),  # it is learned from
        (WRAPPED, FIT),  # rank 0 would count other names of layers than the rest
        (PLAYED, "x = x * w\n", FIT),
        (FIT, PLAYED.replace("tf.Variable(tf.zeros((4, 1)))", "model.layers[0].kernel")),
        (FIT, PLAYED.replace("opt = tf.keras.optimizers.SGD(0.1)", "opt = model.optimizer")),
        # What all ranks would download at once.
        (
            FIT,
            "base = tf.keras.applications.VGG16()\n"
            + PLAYED.replace("zeros((4, 1))", "zeros((4, 1)) + len(base.layers)"),
        ),
        # By way of a file.
        (PLAYED, "np.save('w.npy', w)\n", "x = np.load('w.npy')\n", FIT),
        # By one function.
        (FIT, "other = build()\nother.fit(x, y, verbose=0)\n", WRAPPED),
        # By what a function changes.
        (
            "kept = []\n\n\ndef keep(value):\n    kept.append(value)\n\n\n",
            PLAYED + "        keep(reward)\n",
            "model.fit(x, np.array(kept), verbose=0)\n",
        ),
        # With TensorFlow's seed, each draw of rank 0 goes on in the numbers of all.
        ("tf.random.set_seed(1)\n", PLAYED, FIT),
        # Inside one function with the other.
        (
            "def main():\n    model.fit(x, y)\n    ensembles.Ensemble(build).fit(x, y)\n\n\nmain()\n",
        ),
    ],
)
def test_what_others_depend_on_is_refused(parts: tuple[str, ...]) -> None:
    conversion = convert(*parts)
    assert conversion.status == "refused"
    assert "HVD609" not in dict(told(conversion))


def test_alone_it_is_refused() -> None:
    assert convert(WRAPPED).status == "refused"
    assert convert(PLAYED).status == "refused"
