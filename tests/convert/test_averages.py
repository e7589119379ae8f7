"""Moving averages that come back to themselves through lists, entries, functions and a model's weights forget by examples."""

from __future__ import annotations

import pytest

from jupyter_hvd import Options, convert_source

SCALED = Options(select=("HVD7", "HVD801", "HVD804", "HVD9", "HVD102", "HVD104"))
PROGRAM = """\
import numpy as np
import tensorflow as tf
x = np.zeros((72, 1), "float32")
m = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
t = tf.keras.models.clone_model(m)
o = tf.keras.optimizers.SGD(0.1)
ema = m.get_weights()
named = {{w.path: w.numpy() for w in m.weights}}
flat = np.zeros(2)
mean, history = 0.0, [0.0]
def mix(old, new, d):
    return d * old + (1 - d) * new
def smoothed(losses):
    last, kept = losses[0], []
    for loss in losses:
        last = 0.9 * last + 0.1 * loss
        kept.append(last)
    return kept
class Shadow:
    def __init__(self):
        self.held = m.get_weights()
    def update(self):
        self.held = [0.9 * a + (1 - 0.9) * w for a, w in zip(self.held, m.get_weights())]
shadow = Shadow()
for a, b in tf.data.Dataset.from_tensor_slices((x, x)).batch(4):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(b - m(a))
    gradients = tape.gradient(loss, m.trainable_variables)
    o.apply_gradients(zip(gradients, m.trainable_variables))
{}
"""
KEPT, COMING, RATE = (
    "(0.9 ** hvd.size())",
    "(1 - (0.9 ** hvd.size()))",
    "(1 - (1 - 0.1) ** hvd.size())",
)
#: Lines of a step; `KEPT` stands for 0.9, `COMING` for 1 - 0.9, `RATE` for 0.1.
FED_BACK = {
    "list": ["ema = [KEPT * e + COMING * w for e, w in zip(ema, m.get_weights())]"],
    "entry": ["for i, w in enumerate(m.get_weights()):", "    ema[i] = KEPT * ema[i] + RATE * w"],
    "sum in an entry": [
        "for i, w in enumerate(m.get_weights()):",
        "    ema[i] += RATE * (w - ema[i])",
    ],
    "key": ["for w in m.weights:", "    named[w.path] = KEPT * named[w.path] + RATE * w.numpy()"],
    "dictionary": ["named = {k: KEPT * v + RATE * load(k) for k, v in named.items()}"],
    "statement of one line": [
        "if mean: mean += RATE * (float(loss) - mean)",
    ],
    "two statements": ["flat *= 0.9 ** hvd.size()", "flat += RATE * np.ones(2)"],
    "weights": [
        "t.set_weights([RATE * w + KEPT * e for w, e in zip(m.get_weights(), t.get_weights())])"
    ],
    "entries of weights": [
        "new, old = m.get_weights(), t.get_weights()",
        "for i in range(len(old)):",
        "    old[i] = new[i] * RATE + old[i] * KEPT",
        "t.set_weights(old)",
    ],
    "list of weights": [
        "new = []",
        "for w, e in zip(m.get_weights(), t.get_weights()):",
        "    new.append(RATE * w + KEPT * e)",
        "t.set_weights(new)",
    ],
    "structure": [
        "ema = tf.nest.map_structure(lambda e, w: KEPT * e + RATE * w, ema, m.get_weights())"
    ],
    "other name": ["old = mean", "mean = KEPT * old + RATE * float(loss)"],
    "last of a list": ["history.append(KEPT * history[-1] + RATE * float(loss))"],
}
#: Sums of a step that are no averages over steps.
WITHIN_A_STEP = {
    "mixed rows": ["a = 0.9 * a + 0.1 * a[::-1]"],
    "two losses": ["total = 0.9 * float(loss) + 0.1 * float(loss)"],
    "renewed list": [
        "out = [0.0]",
        "for k in range(9):",
        "    out.append(0.9 * out[-1] + 0.1 * k)",
    ],
    "layers": ["h = a", "for layer in m.layers:", "    h = 0.9 * h + 0.1 * layer(h)"],
    "function": ["print(smoothed([1.0, 2.0]))"],
    "momentum": ["ema = [0.9 * e + 0.1 * g for e, g in zip(ema, gradients)]"],
}


def program(lines: list[str]) -> str:
    return PROGRAM.format("\n".join("    " + line for line in lines))


def converted(lines: list[str]) -> str:
    return convert_source(program(lines), options=SCALED).code


@pytest.mark.parametrize("name", FED_BACK)
def test_an_average_that_comes_back_forgets_by_examples(name: str) -> None:
    written = [
        line.replace("KEPT", "0.9").replace("COMING", "(1 - 0.9)").replace("RATE", "0.1")
        for line in FED_BACK[name]
    ]
    written = [line.replace("0.9 ** hvd.size()", "0.9") for line in written]
    wanted = [
        line.replace("KEPT", KEPT).replace("COMING", COMING).replace("RATE", RATE)
        for line in FED_BACK[name]
    ]
    assert all("    " + line in converted(written) for line in wanted)


@pytest.mark.parametrize("name", WITHIN_A_STEP)
def test_sums_within_a_step_stay(name: str) -> None:
    assert all("    " + line in converted(WITHIN_A_STEP[name]) for line in WITHIN_A_STEP[name])


def test_a_function_that_averages_for_its_caller() -> None:
    code = converted(["mean = mix(mean, float(loss), 0.9)", "shadow.update()"])
    assert "return (d ** hvd.size()) * old + (1 - (d ** hvd.size())) * new" in code
    assert f"[{KEPT} * a + {COMING} * w for a, w in zip(self.held" in code
