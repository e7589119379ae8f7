"""The lines by which programs for Horovod are known: where they are added, and where not."""

from __future__ import annotations

import pytest

from jupyter_hvd import Options, convert_source

OPTIONS = Options(select=("HVD202", "HVD301", "HVD401", "HVD403", "HVD601"))
HEAD = "import random\nimport numpy as np\nimport tensorflow as tf\nx, y = np.load('x.npy'), np.load('y.npy')\n"
MODEL = "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\n"
BROADCAST = "jhvd.BroadcastGlobalVariablesCallback(0)"
VERBOSE = "verbose=1 if hvd.rank() == 0 else 0"


def converted(program: str) -> str:
    conversion = convert_source(HEAD + program, options=OPTIONS)
    assert conversion.status == "converted", conversion.diagnostics
    return conversion.code


@pytest.mark.parametrize(
    "printed",
    [
        "'loss', float(model.losses), f'{x.shape[0]:3d}', end=''",
        "'{}: {:.3f}'.format(1, np.mean(x))",
        "x[0], len(x), history.history['loss'][-1]",
    ],
)
def test_prints_that_rank_zero_may_compute_alone(printed: str) -> None:
    code = converted(f"{MODEL}history = model.fit(x, y, verbose=0)\nprint({printed})\n")
    assert f"if hvd.rank() == 0:\n    print({printed})\n" in code


@pytest.mark.parametrize(
    ("more", "printed"),
    [
        ("", "model.predict(x)"),
        ("", "model(x)"),
        ("", "random.random()"),
        ("", "next(batches)"),
        ("", "list(batches)"),
        ("", "[model(row) for row in x]"),
        ("", "(n := 3)"),
        ("", "1, file=open('log.txt', 'w')"),
        ("", "*batches"),
        ("def show(): return model(x)\n", "show()"),
        ("class Own:\n    @property\n    def loss(self): return model(x)\n", "Own().loss"),
        ("class Own:\n    def __str__(self): return str(model(x))\n", "'own'"),
        ("class Own:\n    def result(self): return model(x)\nown = Own()\n", "own.result()"),
    ],
)
def test_prints_that_all_ranks_compute_together(more: str, printed: str) -> None:
    """A model is called, data are drawn, or it cannot be seen: a rank alone would wait for the others, or draw other numbers."""
    code = converted(f"{MODEL}model.fit(x, y, verbose=0)\n{more}print({printed})\n")
    assert f"\nprint({printed})\n" in code


@pytest.mark.parametrize(
    ("callbacks", "after"),
    [
        ("[]", f"[{BROADCAST}]"),
        ("None", f"[{BROADCAST}]"),
        ("kept", f"[{BROADCAST}, *kept]"),
        ("one", f"[{BROADCAST}, one]"),
        ("given()", "given()"),
    ],
)
def test_callbacks_of_fit(callbacks: str, after: str) -> None:
    """Where it is not seen what they are, they stay."""
    lines = "from other import given\nkept = [tf.keras.callbacks.History()]\none = tf.keras.callbacks.History()\n"
    code = converted(f"{lines}{MODEL}model.fit(x, y, callbacks={callbacks})\n")
    assert f"model.fit(x, y, callbacks={after}, {VERBOSE})" in code


@pytest.mark.parametrize(
    ("verbose", "after"),
    [("2", "2 if hvd.rank() == 0 else 0"), ("0", "0"), ("level", "level")],
)
def test_progress_of_fit(verbose: str, after: str) -> None:
    code = converted(f"{MODEL}level = 1\nmodel.fit(x, y, verbose={verbose})\n")
    assert f"verbose={after}, callbacks=[{BROADCAST}])" in code


TAPES = """\
optimizer = tf.keras.optimizers.SGD(0.1)
for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(8):
    with tf.GradientTape() as attack:
        attack.watch(a)
        loss = tf.reduce_mean(model(a))
    a += tf.sign(attack.gradient(loss, a))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
        print('recorded')
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    with tf.GradientTape() as inside:
        loss = tf.reduce_mean((model(a) - b) ** 2)
        gradients = inside.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""


def test_tapes_whose_gradients_train() -> None:
    """Not that of an adversarial example; and of one that is asked within its block there is no place behind it."""
    code = converted(MODEL + TAPES)
    assert code.count("DistributedGradientTape") == 1
    assert "            print('recorded')\n    tape = jhvd.DistributedGradientTape(tape)\n" in code


def test_batches_of_one_process_have_none_of_them() -> None:
    program = f"{HEAD}{MODEL}model.fit(x, y)\nprint('done')\n{TAPES}"
    code = convert_source(program, options=Options(batch="global")).code
    assert "Distributed" not in code
    assert "hvd.rank()" not in code
