"""`%%distribute --batch per-rank`: what has a name stays that of one process, and is scaled where a training uses it."""

from __future__ import annotations

import pytest

from jupyter_hvd import Options
from jupyter_hvd.notebook.program import Program, convert_program

CELLS = Options(open_ended=True, ignore=("HVD202", "HVD301", "HVD401", "HVD403", "HVD601"))
IMPORTS = "import math\nimport tensorflow as tf"
MODEL = "x, y = load()\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])"
MADE = "opt = tf.keras.optimizers.SGD(0.1)"
SCALED = "opt = jhvd.scale_rate(tf.keras.optimizers.SGD(0.1))"
STEP = """\
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""
ADDED = ("import horovod", "import jupyter_hvd", "hvd.init()")


def converted(*cells: str) -> Program:
    program = convert_program(tuple(enumerate((IMPORTS, MODEL, *cells))), CELLS)
    assert program.outcome is not None
    assert program.outcome.status == "converted", program.diagnostics
    return program


def changed(*cells: str) -> list[str]:
    """The lines of cells as they run, where they differ, but for imports."""
    program = converted(*cells)
    before = {line for source in program.sources.values() for line in source.splitlines()}
    after = [line for source in program.converted.values() for line in source.splitlines()]
    return [a.strip() for a in after if a not in before and not a.startswith(ADDED)]


DATA = "ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)"
SCALED_DATA = "ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(16 * hvd.size())"


def loop(*lines: str) -> str:
    """A cell that trains, with lines after each step."""
    return "\n".join(
        ["for i, (a, b) in enumerate(ds):", STEP.rstrip(), *("    " + line for line in lines)]
    )


CASES = {
    "milestones of a dictionary": (
        (
            "rates = {0: 0.1, 24: 0.02}",
            MADE,
            DATA,
            loop("if i in rates:", "    opt.learning_rate = rates[i]"),
        ),
        [
            SCALED,
            SCALED_DATA,
            "if i in {-(-each // hvd.size()): value for each, value in rates.items()}:",
            "opt.learning_rate = {-(-each // hvd.size()): value for each, value in rates.items()}[i]",
        ],
    ),
    "milestones of pairs": (
        (
            "pairs = [(0, 0.1), (24, 0.02)]",
            MADE,
            DATA,
            loop(
                "for start, rate in pairs:",
                "    if i >= start:",
                "        opt.learning_rate = rate",
            ),
        ),
        [SCALED, SCALED_DATA, "if i >= start / hvd.size():"],
    ),
    "milestones of a list": (
        ("starts = [24, 36]", MADE, DATA, loop("if i in starts:", "    opt.learning_rate = 0.01")),
        [SCALED, SCALED_DATA, "if i in [-(-each // hvd.size()) for each in starts]:"],
    ),
    "numbers of steps of a list for a schedule": (
        (
            "STEPS = 16\nbounds = [2 * STEPS, 4 * STEPS]",
            "opt = tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.PiecewiseConstantDecay(bounds, [0.1, 0.2, 0.3]))",
            DATA,
            loop("late = i > STEPS"),
        ),
        [
            "opt = jhvd.scale_rate(tf.keras.optimizers.SGD("
            "tf.keras.optimizers.schedules.PiecewiseConstantDecay(bounds, [0.1, 0.2, 0.3])))",
            SCALED_DATA,
            "late = i > max(1, STEPS // hvd.size())",
        ],
    ),
    "a size of an earlier cell": (
        ("BATCH = 32", "model.fit(x, y, batch_size=BATCH)"),
        ["model.fit(x, y, batch_size=BATCH * hvd.size())"],
    ),
    "a size of a dictionary": (
        (
            "settings = dict(batch=32)\nlist_of = {'batch': 16}",
            "data = tf.data.Dataset.from_tensor_slices((x, y)).batch(settings['batch'])",
            "model.fit(data)",
        ),
        ["data = tf.data.Dataset.from_tensor_slices((x, y)).batch(settings['batch'] * hvd.size())"],
    ),
    "a size that a class is given": (
        (
            "BATCH = 8\nclass Rows(tf.keras.utils.Sequence):\n    def __init__(self, batch_size):\n"
            "        self.size = batch_size\n"
            "    def __len__(self):\n        return math.ceil(len(x) / self.size)\n    def __getitem__(self, i):\n"
            "        return x[i * self.size:(i + 1) * self.size], y[i * self.size:(i + 1) * self.size]",
            "model.fit(Rows(BATCH))",
        ),
        ["model.fit(Rows(BATCH * hvd.size()))"],
    ),
    "a number of steps that is computed": (
        ("BATCH = 32\nSTEPS = len(x) // BATCH", "model.fit(x, y, 32, steps_per_epoch=STEPS)"),
        ["model.fit(x, y, 32 * hvd.size(), steps_per_epoch=max(1, STEPS // hvd.size()))"],
    ),
    "a number of steps that no cell defines": (
        ("model.fit(x, y, 32, steps_per_epoch=STEPS)",),
        ["model.fit(x, y, 32 * hvd.size(), steps_per_epoch=max(1, STEPS // hvd.size()))"],
    ),
    "an optimizer of an earlier cell": (
        (
            MADE,
            "LOG = 20\nstep = 0",
            f"for a, b in batches:\n{STEP}    step += 1\n    if step % LOG == 0:\n        print(step)",
        ),
        [
            SCALED,
            "for a, b in jhvd.join_batches(batches):",
            "if step % max(1, LOG // hvd.size()) == 0:",
        ],
    ),
    "batches by their numbers": (
        (
            MADE,
            "BATCH = 16\nSTEPS = len(x) // BATCH",
            f"for i in range(STEPS):\n    a, b = x[i * BATCH:(i + 1) * BATCH], y[i * BATCH:(i + 1) * BATCH]\n{STEP}",
        ),
        [
            SCALED,
            "for i in range(max(1, STEPS // hvd.size())):",
            "a, b = x[i * BATCH * hvd.size():(i + 1) * BATCH * hvd.size()], "
            "y[i * BATCH * hvd.size():(i + 1) * BATCH * hvd.size()]",
        ],
    ),
    "a loop that is counted in an earlier cell": (
        (
            MADE,
            "SETTINGS = {'steps': 200}",
            f"for _ in range(SETTINGS['steps']):\n    a, b = next(batches)\n{STEP}",
        ),
        [
            SCALED,
            "for _ in range(max(1, SETTINGS['steps'] // hvd.size())):",
            "a, b = next(jhvd.join_batches(batches))",
        ],
    ),
    "a size for evaluation beside": (
        (
            "BATCH = 8\ntest = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)",
            "model.fit(x, y, BATCH, validation_data=test)",
        ),
        ["model.fit(x, y, BATCH * hvd.size(), validation_data=test)"],
    ),
    "a count that goes on from an earlier cell": (
        (
            MADE,
            "PATIENCE = 200\nleft = PATIENCE",
            f"for a, b in batches:\n{STEP}    left -= 1\n    if left == 0:\n        break",
        ),
        [
            SCALED,
            "left = max(1, PATIENCE // hvd.size())",
            "for a, b in jhvd.join_batches(batches):",
        ],
    ),
    "a rate that goes by the size": (
        (
            "BATCH = 64\nRATE = 0.1 * BATCH / 256",
            "model.compile(tf.keras.optimizers.SGD(RATE))",
            "model.fit(x, y, BATCH)",
        ),
        [
            "model.compile(jhvd.scale_rate(tf.keras.optimizers.SGD(RATE)))",
            "model.fit(x, y, BATCH * hvd.size())",
        ],
    ),
    "an optimizer by its name": (
        ("model.compile('adam', 'mse')", "model.fit(x, y, 32)"),
        [
            "model.compile(jhvd.scale_rate(tf.keras.optimizers.Adam()), 'mse')",
            "model.fit(x, y, 32 * hvd.size())",
        ],
    ),
}


@pytest.mark.parametrize(("cells", "expected"), CASES.values(), ids=CASES)
def test_names_keep_their_values(cells: tuple[str, ...], expected: list[str]) -> None:
    program = converted(*cells)
    assert changed(*cells) == expected
    assert not [line for line in program.diagnostics if "HVD8" in line]


def test_what_the_conversion_makes_otherwise_is_known() -> None:
    """So that the kernel's value is not sent there: what counts on, and what is computed of that."""
    program = converted(
        MADE,
        "STEPS = 200\nleft = STEPS\nhalf = left / 2",
        f"for a, b in batches:\n{STEP}    left -= 1\n    if left < half:\n        break",
    )
    assert {"left", "half"} <= program.differing_names
    assert program.differing_names.isdisjoint({"STEPS", "model"})


def test_each_cell_has_what_it_needs() -> None:
    """The runtime is imported with TensorFlow; whether the ranks share is not for a cell to say."""
    program = converted(MADE, f"for a, b in batches:\n{STEP}")
    head = program.converted[0]
    assert "import jupyter_hvd.runtime as jhvd" in head
    assert "start_shared" not in "".join(program.converted.values())
    assert {"jhvd"} <= program.added_names


def test_a_training_that_a_later_cell_calls() -> None:
    """A cell that defines a step, or imports TensorFlow alone, is no fault."""
    step = f"def train(a, b):\n{STEP}"
    program = convert_program(tuple(enumerate((IMPORTS, MODEL, MADE, step))), CELLS)
    assert (program.converted, program.diagnostics) == (program.sources, [])
    assert "jhvd.join_batches(batches)" in "".join(
        converted(MADE, step, "for a, b in batches:\n    train(a, b)").converted.values()
    )
