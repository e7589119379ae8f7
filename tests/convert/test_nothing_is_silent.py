"""What the scale analysis does not understand is reported: without the handling of any one kind, a finding takes its place."""

from __future__ import annotations

import libcst as cst
import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.analysis import scale_builtins
from jupyter_hvd.analysis.scale_findings import Recurrence, Scale
from jupyter_hvd.analysis.scale_operators import Operators
from jupyter_hvd.analysis.scale_recurrences import Recurrences
from jupyter_hvd.convert import Conversion
from jupyter_hvd.convert.tensorflow import scale_signatures

LOOP = """\
import math
import numpy as np
import tensorflow as tf

m = tf.keras.Sequential([tf.keras.layers.Dense(1)])
o = tf.keras.optimizers.SGD(0.1)
ds = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8)
batches = iter(ds)
losses, value, step = [], 1.0, 0
{before}
for {counter} in {iterable}:
    a, b = next(batches)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(a) - b) ** 2)
    o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
    {line}
    print(value)
"""


def program(line: str, iterable: str = "range(600)", counter: str = "k", before: str = "") -> str:
    return LOOP.format(line=line, iterable=iterable, counter=counter, before=before)


def findings(conversion: Conversion) -> list[str]:
    return [d.message for d in conversion.diagnostics if d.code.startswith("HVD80")]


def is_silent(source: str, right: Conversion) -> bool:
    """Whether a program is converted in another way than is right, and nothing says so."""
    found = convert_source(source)
    return found.code != right.code and not set(findings(found)) - set(findings(right))


#: Lines that a table of functions is needed for, by the name of the function in it.
OF_PYTHON = {
    "builtins.range": program("value = k"),
    "builtins.enumerate": program("value = k % 30", "enumerate(range(600))", "k, _"),
    "builtins.len": program("losses.append(float(loss)); value = len(losses) % 30"),
    "builtins.max": program("value = max(0.1, 1 - k / 600)"),
    "builtins.min": program("value = min(1.0, k / 300)"),
    "builtins.divmod": program("value = divmod(k, 30)[1] == 29"),
    "builtins.int": program("value = int(k) % 30"),
}
OF_OPERATORS = {
    "mod": program("value = np.mod(k, 30) == 0"),
    "equal": program("value = tf.equal(k, 300)"),
    "pow": program("value = math.pow(0.99, k)"),
}
OF_NUMBERS = {
    "cos": program("value = math.cos(k / 300)"),
    "cast": program("value = tf.cast(k, tf.float32) / 300"),
    "minimum": program("value = tf.minimum(k, 300)"),
    "clip": program("value = np.clip(k, 0, 300)"),
    "where": program("value = np.where(k < 300, 0.1, 0.01)"),
    "interp": program("value = np.interp(k, [0, 300, 600], [0.1, 1.0, 0.1])"),
    "searchsorted": program("value = np.searchsorted([150, 300], k)"),
    "bisect": program("value = bisect.bisect([150, 300], k)", before="import bisect"),
    "linspace": program("value = rates[k]", before="rates = np.linspace(1, 0, 600)"),
}


@pytest.mark.parametrize("name", OF_PYTHON)
def test_a_function_of_python_that_is_not_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = OF_PYTHON[name]
    right = convert_source(source)
    monkeypatch.delitem(scale_builtins.BUILTINS, name)
    assert not is_silent(source, right)


@pytest.mark.parametrize("name", OF_OPERATORS)
def test_a_function_for_an_operator_that_is_not_known(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = OF_OPERATORS[name]
    right = convert_source(source)
    monkeypatch.delitem(scale_signatures._OPERATORS, name)
    assert not is_silent(source, right)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_a_function_of_numbers_that_is_not_known(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = OF_NUMBERS[name]
    right = convert_source(source)
    monkeypatch.delitem(scale_signatures._OF_NUMBERS, name)
    assert not is_silent(source, right)


OPERATORS: dict[type[cst.BaseBinaryOp], str] = {
    cst.Modulo: program("value = k % 30 == 0"),
    cst.FloorDivide: program("value = k // 30"),
    cst.Divide: program("value = k / 300"),
    cst.Subtract: program("value = k - 300 > 0"),
    cst.Power: program("value = 0.99 ** k"),
}


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda each: each.__name__)
def test_an_operator_that_is_not_known(
    operator: type[cst.BaseBinaryOp], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = OPERATORS[operator]
    right = convert_source(source)
    known = Operators.scale_operation

    def scale_operation(self: Operators, node: cst.BinaryOperation) -> Scale:
        if isinstance(node.operator, operator):
            return Scale(self._walk.scale_opaque_operator(node, node.left, node.right))
        return known(self, node)

    monkeypatch.setattr(Operators, "scale_operation", scale_operation)
    assert not is_silent(source, right)


RECURRENCES = {
    "*": program("value *= 0.99"),
    "bounded *": program("value = max(0.1, value * 0.99)"),
    "tuple *": program("value, other = max(0.1, value * 0.99), a"),
    "+": program("step += 1; value = step % 30 == 0"),
    "~": program("value = 0.99 * value + 0.01 * float(loss)"),
    "~ toward": program("value += 0.01 * (float(loss) - value)"),
}


@pytest.mark.parametrize("name", RECURRENCES)
def test_a_recurrence_that_is_not_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = RECURRENCES[name]
    right = convert_source(source)
    of_value, of = Recurrences.of_value, Recurrences.of

    def forget(found: Recurrence | None) -> Recurrence | None:
        return found if found is None or found.operator not in name else None

    monkeypatch.setattr(Recurrences, "of_value", lambda *given: forget(of_value(*given)))
    monkeypatch.setattr(Recurrences, "of", lambda *given: forget(of(*given)))
    assert not is_silent(source, right)


# What is outside of the tables


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (program("value = k & 31 == 0"), "`k & 31` is given a number of steps"),
        (program("value = curve(k)", before="from library import curve"), "`curve(k)` is given"),
        (
            program("value = next(made) % 30", before="from library import made"),
            "nothing tells whether `next(made)` counts steps",
        ),
        (
            program("pass", "itertools.islice(itertools.count(), 600)", before="import itertools"),
            "nothing tells how often the loop over `itertools.islice(itertools.count(), 600)`",
        ),
        (
            program(
                "value = smooth(value, float(loss))",
                before="def smooth(a, b, k=0.05):\n    return np.average([a, b], weights=[1 - k, k])",
            ),
            "`value` is computed from its last value once a step",
        ),
        (
            program(
                "state.update(mean=smooth(state['mean'], float(loss)))",
                before="state = {'mean': 0.0}\n"
                "def smooth(a, b, k=0.05):\n    return np.average([a, b], weights=[1 - k, k])",
            ),
            "`smooth(state['mean'], float(loss))` is computed from its last value once a step",
        ),
        (
            program(
                "state = state._replace(mean=smooth(state.mean, float(loss)))",
                before="import collections\nState = collections.namedtuple('State', 'mean')\nstate = State(0.0)\n"
                "def smooth(a, b, k=0.05):\n    return np.average([a, b], weights=[1 - k, k])",
            ),
            "`smooth(state.mean, float(loss))` is computed from its last value once a step",
        ),
        (
            program(
                "state = advance(state)\n    if state.step % EVERY == 0:\n        print(state)",
                before="from library import State, advance\nEVERY, state = 30, State(step=0)",
            ),
            "nothing tells whether `state.step` counts steps",
        ),
        (
            program("kept[step] = float(loss); step += 1", before="kept = np.zeros(600)"),
            "`kept[step]` is set once a step",
        ),
        (
            program(
                "saver.step()", before="from library import Saver\nsaver = Saver(m, every=100)"
            ),
            "nothing tells whether `Saver` counts steps by `every=100`",
        ),
        (
            program("pass", before="mean = tf.train.ExponentialMovingAverage(0.99)"),
            "nothing tells whether `tf.train.ExponentialMovingAverage` counts steps by `0.99`",
        ),
        (
            program(
                "run(hooks)",
                before="from library import run\nclass Mean:\n    value = 0.0\n"
                "    def update(self, new):\n        self.value = 0.9 * self.value + 0.1 * new\n"
                "mean = Mean()\nhooks = [mean.update]",
            ),
            "nothing tells how often `update` runs",
        ),
    ],
    ids=[
        "bits",
        "function",
        "counter",
        "loop",
        "state",
        "entry",
        "field",
        "name",
        "store",
        "library",
        "average",
        "hook",
    ],
)
def test_what_nothing_tells_is_reported(source: str, told: str) -> None:
    assert [m for m in findings(convert_source(source)) if m.startswith(told)]


@pytest.mark.parametrize(
    "line",
    [
        "value = float(loss) * 0.5 + 0.1",
        "losses.append(float(loss))",
        "value = 0.5 * value if math.isnan(value) else value",
        "value = tf.clip_by_value(loss, 0.1, 0.9)",
    ],
)
def test_numbers_of_one_step_are_not_reported(line: str) -> None:
    assert findings(convert_source(program(line))) == []


@pytest.mark.parametrize(
    "line",
    [
        "path = manager.save(checkpoint_number=step); step += 1; print(path)",
        "step += 1; value = step % 30 or print(step)",
        "step += 1; print('step {}'.format(step))",
    ],
    ids=["checkpoint", "print", "text"],
)
def test_what_computes_no_number_is_not_reported(line: str) -> None:
    before = "count = tf.Variable(0)\nkept = tf.train.Checkpoint(model=m, step=count)\n"
    before += "manager = tf.train.CheckpointManager(kept, 'kept', max_to_keep=3)"
    assert findings(convert_source(program(f"count.assign_add(1); {line}", before=before))) == []
