"""What a training is made of, where losses of an earlier one choose it: all ranks must choose the same."""

import pytest

from jupyter_hvd import convert_source

from .test_apart import STEP, indented

HEAD = """\
import numpy as np
import tensorflow as tf

dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
def build(units, rate=1e-3):
    m = tf.keras.Sequential([tf.keras.layers.Dense(units), tf.keras.layers.Dense(1)])
    m.compile(tf.keras.optimizers.Adam(rate), loss='mse')
    return m
"""
#: Three models, each trained by a tape; what is kept of each.
TAPE = (
    "opt = tf.keras.optimizers.Adam(1e-3)\nrates, losses, models, runs, best, units = [], [], [], [], np.inf, 1\n"
    f"for n in (4, 8, 16):\n    model = build(n)\n    for xb, yb in dataset:\n{indented(STEP, 8)}"
    "    losses.append(float(loss))\n    rates.append(1 / n)\n    models.append(model)\n"
    "    runs.append((float(loss), n, model))\n"
)
FINAL = "final = {}\nfinal.fit(x, y)\n"
#: The same by Keras' own loop.
FITS = (
    "results, best, units = {}, np.inf, 1\nfor n in (4, 8, 16):\n    model = build(n)\n"
    "    h = model.fit(x, y, validation_split=0.2)\n    {}\n"
)


@pytest.mark.parametrize(
    ("choosing", "final", "asked"),
    [
        ("", "build(4, rates[int(np.argmin(losses))])", "rates[int({})]"),
        ("k = int(np.argmin(losses))", "build(4, rates[k])", "np.argmin"),
        ("", "models[int(np.argmin(losses))]", "models[int({})]"),
        ("rate = min(zip(losses, rates))[1]", "build(4, rate)", "{}[1]"),
        ("rate = losses[0] / 10", "build(4, rate)", "Adam({}"),
    ],
)
def test_what_losses_choose_is_rank_zeros_choice(choosing: str, final: str, asked: str) -> None:
    code = convert_source(f"{HEAD}{TAPE}{choosing}\n{FINAL.format(final)}").code
    lines = [line for line in code.splitlines() if "broadcast_object" in line]
    assert len(lines) == 1, code
    before, after = asked.split("{}") if "{}" in asked else ("", "")
    assert f"{before}hvd.broadcast_object(" in lines[0]
    assert f", root_rank=0){after}" in lines[0]


def test_a_question_that_chooses_is_asked_of_rank_zero() -> None:
    test = "    if float(loss) < best:\n        best, units = float(loss), n\n"
    code = convert_source(f"{HEAD}{TAPE}{test}{FINAL.format('build(units)')}").code
    assert "if hvd.broadcast_object(bool(float(loss) < best), root_rank=0):" in code
    evaluated = "score = model.evaluate(x, y)\n    if score < best:\n        best, units = score, n"
    code = convert_source(
        f"{HEAD}{FITS.replace('{}, np', '{{}}, np').format(evaluated)}{FINAL.format('build(units)')}"
    ).code
    assert "if hvd.broadcast_object(bool(score < best), root_rank=0):" in code


@pytest.mark.parametrize(
    ("kept", "final"),
    [
        ("results[n, 1e-3] = min(h.history['val_loss'])", "build(*min(results, key=results.get))"),
        ("results[n] = h.history['val_loss'][-1]", "build(min(results, key=results.get))"),
    ],
)
def test_histories_that_choose_are_averaged(kept: str, final: str) -> None:
    code = convert_source(
        f"{HEAD}{FITS.replace('{}, np', '{{}}, np').format(kept)}{FINAL.format(final)}"
    ).code
    first, last = (line for line in code.splitlines() if ".fit(" in line)
    assert "MetricAverageCallback" in first
    assert "MetricAverageCallback" not in last
    assert "broadcast_object" not in code


@pytest.mark.parametrize(
    "choosing",
    [
        "best = min(runs, key=lambda run: run[0])",
        "best = sorted(runs, key=lambda run: run[0])[0]",
        "runs.sort(key=lambda run: run[0])\nbest = runs[0]",
    ],
)
def test_a_model_that_is_chosen_by_losses_beside_it_is_refused(choosing: str) -> None:
    again = f"for xb, yb in dataset:\n{indented(STEP.replace('model', 'best[2]'), 4)}"
    conversion = convert_source(f"{HEAD}{TAPE}{choosing}\n{again}")
    assert conversion.status == "refused"
    assert "HVD303" in {d.code for d in conversion.diagnostics}


def test_what_nothing_chooses_is_left_alone() -> None:
    last = f"print(min(losses))\nnp.save('losses.npy', losses)\n{FINAL.format('build(max(4, 8), rates[0])')}"
    conversion = convert_source(f"{HEAD}{TAPE}{last}")
    assert "broadcast_object" not in conversion.code
    assert not conversion.diagnostics


LOSSES = (
    "model = build(4)\nopt, size = tf.keras.optimizers.Adam(1e-3), 16\nfor epoch in range(9):\n    total = 0\n"
    f"    for xb, yb in tf.data.Dataset.from_tensor_slices((x, y)).batch(size):\n{indented(STEP, 8)}"
    "        total += float(loss)\n    if {}:\n        {}\n"
)


@pytest.mark.parametrize(
    "change",
    [
        "model.layers[0].trainable = True",
        "opt = tf.keras.optimizers.SGD(1e-3)",
        "opt.beta_1 = 0.5",
        "size *= 2",
    ],
)
def test_what_losses_change_in_the_training_changes_on_all_ranks(change: str) -> None:
    code = convert_source(HEAD + LOSSES.format("total < 5", change)).code
    assert "    if hvd.broadcast_object(bool(total < 5), root_rank=0):\n" in code
    assert "broadcast_object" not in convert_source(HEAD + LOSSES.format("epoch > 5", change)).code
    told = convert_source(HEAD + LOSSES.format("total < 5", "print(epoch)")).code
    assert "broadcast_object" not in told


CALLBACK = (
    "class Stop(tf.keras.callbacks.Callback):\n    def on_epoch_end(self, epoch, logs=None):\n"
    "        error = {}\n        if {}:\n            {}\n"
)
CALLED = "model = build(4)\nmodel.fit(x, y, callbacks=[Stop()])\n"


@pytest.mark.parametrize(
    ("error", "test", "then", "asked"),
    [
        ("self.model.evaluate(x, y)", "error < 1", "self.model.stop_training = True", "evaluate"),
        ("self.model(x)", "error < 1", "self.model.stop_training = True", "self.model(x)"),
        ("0", "time.time() > 9", "self.model.stop_training = True", "time.time() > 9"),
        ("self.model.evaluate(x, y)", "error < 1", "self.low = True", ""),
        ("self.model.evaluate(x, y)", "error < 1", "logs['low'] = error", "evaluate"),
        ("self.model.evaluate(x, y)", "error < 1", "logs.update(low=error)", "evaluate"),
        ("0", "time.time() > 9", "self.late = True", ""),
    ],
)
def test_callbacks_decide_by_what_rank_zero_sees(
    error: str, test: str, then: str, asked: str
) -> None:
    source = f"import time\n{HEAD}{CALLBACK.format(error, test, then)}{CALLED}"
    lines = [ln for ln in convert_source(source).code.splitlines() if "hvd.broadcast_object" in ln]
    assert len(lines) == bool(asked)
    assert all(asked in line for line in lines)
