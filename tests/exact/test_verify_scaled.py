"""`jupyter hvd verify --batch scaled`: what it confirms, and what it says of a program that is not scaled right."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import nbformat
import numpy as np
import pytest

from jupyter_hvd.verify.checks import Check
from jupyter_hvd.verify.exact.records import Event, Fit, Kind, Record, Site
from jupyter_hvd.verify.exact.scaling import check_scaling
from jupyter_hvd.verify.exact.verification import ExactVerification

LINE = "train.py, line 7"
PROGRAM = """\
import keras
import numpy as np

BATCH = 8
x = np.random.rand(48, 3).astype("float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
schedule = keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.8)
model.compile(keras.optimizers.SGD(schedule, momentum=0.9), "mse")
print(model.fit(x, x[:, :1], batch_size=BATCH, epochs=2, verbose=0).history["loss"])
"""


def record(rates: list[float], rows: list[int]) -> Record:
    """Of updates at these rates, each of a batch of so many rows."""
    sites = (Site("batch", LINE, ("row",)), Site("update", LINE, ("w",)))
    events = [
        Event(site, value, np.zeros(0))
        for rate, count in zip(rates, rows, strict=True)
        for site, value in ((0, float(count)), (1, rate))
    ]
    return Record(sites=sites, events=tuple(events))


#: Nine steps of three epochs, the last batch of each of two rows, at a rate that falls by steps.
FALLING = [0.1 * 0.9**n for n in range(9)]
ORIGINAL = record(FALLING, [4, 4, 2] * 3)
RIGHT = record(
    [0.2, 0.2 * 0.9**2, 0.2 * 0.9**3, 0.2 * 0.9**5, 0.2 * 0.9**6, 0.2 * 0.9**8], [8, 2] * 3
)


def checks(original: Record, scaled: Record) -> dict[str, str]:
    return {c.check.partition(": ")[2]: c.status for c in check_scaling(original, scaled, 2)}


def detail(original: Record, scaled: Record, what: str) -> str:
    return next(c.detail for c in check_scaling(original, scaled, 2) if c.check.endswith(what))


def test_a_program_that_is_scaled_right() -> None:
    assert set(checks(ORIGINAL, RIGHT).values()) == {"pass"}
    assert detail(ORIGINAL, RIGHT, "examples") == "30 → 30 in 9 → 6 steps"


@pytest.mark.parametrize(
    ("factor", "name"),
    [(1, "not scaled"), (4, "scaled twice, 4 times"), (0.5, "divided by 2"), (2**0.5, "scaled by √2"), (3, "3 times")],
)  # fmt: skip
def test_factors_of_rates_are_named(factor: float, name: str) -> None:
    scaled = record([0.1 * factor] * 3, [8, 8, 8])
    original = record([0.1] * 6, [4] * 6)
    assert checks(original, scaled)["rates"] == "fail"
    assert name in detail(original, scaled, "rates")
    assert LINE in detail(original, scaled, "rates")


def learned(losses: list[float], rows: int, power: float = 1) -> Record:
    """Steps at one rate whose updates are made of a power of the gradients: 1 for SGD."""
    kinds: tuple[Kind, ...] = ("batch", "gradient", "before", "applied", "update")
    names = ("v", "w")
    sites = tuple(Site(kind, LINE, ("row",) if kind == "batch" else names) for kind in kinds)
    weights, events = np.array([1.0, 1.0, 2.0, 2.0]), []
    for loss in losses:
        gradients = np.array([0.5, 0.5, 0.1, 0.1]) * loss
        after = weights - 0.1 * gradients**power
        given = zip(
            (rows, loss, 0.1, 0.1, 0.1),
            (weights, gradients, weights, gradients, after),
            strict=True,
        )
        events += [Event(site, value, measures) for site, (value, measures) in enumerate(given)]
        weights = after
    return Record(sites=sites, events=tuple(events))


@pytest.mark.parametrize(
    ("losses", "power", "status"),
    [([4.1, 3.7, 3.5], 1, "pass"), ([2.1, 1.9, 1.8], 1, "fail"), ([4.1, 3.7, 3.5], 0, "fail")],
    ids=["a sum", "a mean", "a sum with Adam"],
)
def test_a_rate_that_stays_where_the_loss_is_a_sum_over_rows(
    losses: list[float], power: float, status: str
) -> None:
    """The gradients of a sum grow with the batch, but updates by Adam do not grow with the gradients."""
    original = learned([2.2, 2.0, 1.9, 1.9, 1.8, 1.7], 4, power)
    assert checks(original, learned(losses, 8, power))["rates"] == status


def test_batches_that_do_not_grow() -> None:
    original, scaled = record([0.1] * 6, [4] * 6), record([0.2] * 6, [4] * 6)
    assert checks(original, scaled)["batches"] == "fail"
    assert "not scaled" in detail(original, scaled, "batches")


def test_steps_that_are_not_divided() -> None:
    original, scaled = record([0.1] * 6, [4] * 6), record([0.2] * 6, [8] * 6)
    assert checks(original, scaled)["examples"] == "fail"


@pytest.mark.parametrize(
    ("epochs", "status"), [(6, "pass"), (3, "fail"), (12, "fail"), (5, "unknown")]
)
def test_epochs_stay_as_many(epochs: int, status: str) -> None:
    original, scaled = (
        replace(r, fits=(Fit(LINE, n, {}),)) for r, n in ((ORIGINAL, 6), (RIGHT, epochs))
    )
    assert checks(original, scaled)["epochs"] == status


def evaluated(steps: int, period: int) -> Record:
    """Of steps on four rows, with an evaluation of two batches after each few of them."""
    sites = (Site("batch", LINE, ("row",)), Site("update", LINE, ("w",)))
    step = (Event(0, 4.0, np.zeros(0)), Event(1, 0.1, np.zeros(0)))
    events = [
        event
        for number in range(steps)
        for event in (*step, *(2 * [step[0]] if (number + 1) % period == 0 else []))
    ]
    return Record(sites=sites, events=tuple(events))


@pytest.mark.parametrize(
    ("scaled", "status"),
    [
        (evaluated(6, 2), "pass"),
        (evaluated(6, 4), "fail"),
        (evaluated(6, 1), "fail"),
        (evaluated(4, 2), "unknown"),
    ],
)
def test_evaluations_stay_as_many(scaled: Record, status: str) -> None:
    assert checks(evaluated(12, 4), scaled)["evaluations"] == status


def test_evaluations_that_come_between_the_same_steps() -> None:
    """An evaluation at the second step of an epoch, and one at its end, which is the second step of two ranks."""
    sites = (Site("batch", LINE, ("row",)), Site("update", LINE, ("w",)))
    call, update = Event(0, 4.0, np.zeros(0)), Event(1, 0.1, np.zeros(0))
    step = (call, update)
    original = Record(sites=sites, events=(*step, *step, call, *step, *step, call) * 3)
    scaled = Record(sites=sites, events=(*step, *step, call, call) * 3)
    assert checks(original, scaled)["evaluations"] == "pass"
    assert checks(original, scaled)["evaluated rows"] == "pass"


def evaluated_rows(rows: list[float], period: int) -> Record:
    """Four evaluations of batches of these rows, each after so many steps on four rows."""
    sites = (Site("batch", LINE, ("row",)), Site("update", LINE, ("w",)))
    step = (Event(0, 4.0, np.zeros(0)), Event(1, 0.1, np.zeros(0)))
    evaluation = [Event(0, count, np.zeros(0)) for count in rows]
    return Record(sites=sites, events=(*step * period, *evaluation) * 4)


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([8.0, 8.0], "pass"),
        ([8.0], "pass"),  # three batches of four rows become one of eight, as 3 // 2 is 1
        ([8.0, 8.0, 8.0], "fail"),
        ([8.0, 8.0, 8.0, 8.0], "unknown"),
        ([4.0, 4.0, 4.0], "pass"),
    ],
)
def test_evaluations_take_as_many_rows(rows: list[float], status: str) -> None:
    original, scaled = evaluated_rows([4.0, 4.0, 4.0], 2), evaluated_rows(rows, 1)
    assert checks(original, scaled)["evaluated rows"] == status


def test_rates_that_are_not_compared_are_in_the_verdict() -> None:
    original, scaled = record([0.1] * 4 + [0.05] * 4, [4] * 8), record([0.2] * 4, [8] * 4)
    found = check_scaling(original, scaled, 2)
    results = Check("2 ranks: final weights", "pass", "2 variables")
    verdict = ExactVerification((*found, results), (2,), scaled=True).verdict
    assert "Not compared with the original: scaled to 2: rates" in verdict
    assert f"from step 4 on ({LINE})" in verdict


def test_calls_that_each_step_needs_are_no_evaluations() -> None:
    assert "evaluations" not in checks(ORIGINAL, RIGHT)


def test_rates_that_begin_at_0() -> None:
    """A warm-up: the largest rate tells the factor."""
    original, right, unscaled = (
        record([rate * n for n in range(steps)], [rows] * steps)
        for rate, steps, rows in ((0.01, 8, 4), (0.04, 4, 8), (0.02, 4, 8))
    )
    assert checks(original, right)["rates"] == "pass"
    late = record([0.0] * 8 + [0.1] * 8, [4] * 16), record([0.0] * 4 + [0.1] * 4, [8] * 8)
    assert checks(*late)["rates"] == "fail"
    assert "not scaled" in detail(*late, "rates")
    assert "2 times too late" in detail(original, unscaled, "rates")


@pytest.mark.parametrize(("rows", "status"), [(8, "pass"), (16, "fail"), (4, "unknown")])
def test_batches_of_a_program_that_changes_its_weights_itself(rows: int, status: str) -> None:
    def record_of(rows: int, steps: int) -> Record:
        sites = (Site("batch", LINE, ("row",)), Site("gradient", LINE, ("w",)))
        step = (Event(0, float(rows), np.zeros(0)), Event(1, 0.5, np.zeros(0)))
        return Record(sites=sites, events=step * steps)

    original = record_of(4, 8)
    assert checks(original, record_of(rows, 32 // rows))["batches"] == status
    assert checks(original, record_of(rows, 32 // rows))["rates"] == "unknown"


def test_rates_that_begin_at_0_and_grow_by_the_right_factor() -> None:
    """That they go another way later, as a last batch of few rows counts as a step, is no wrong factor."""
    original = record([0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.08, 0.06], [4] * 8)
    scaled = record([0.0, 0.2, 0.2, 0.1], [8] * 4)
    assert checks(original, scaled)["rates"] == "unknown"


def test_batches_of_all_rows_stay_with_their_rate() -> None:
    original = record([0.1] * 6, [24] * 6)
    assert set(checks(original, original).values()) == {"pass"}


#: Rates of an original, those of two ranks, and what is said of these.
LATER = {
    "a schedule by its own steps": (FALLING, [0.2 * 0.9**n for n in range(5)], "fail", "2 times too late"),
    "a schedule by steps that are multiplied twice": (
        [0.1 * 0.9**n for n in range(16)],
        [0.2 * 0.9 ** (4 * n) for n in range(4)],
        "fail",
        "2 times too early",
    ),
    "a warm-up whose comparison is not scaled": (
        [0.01, 0.02, 0.03, 0.04, 0.04, 0.04, 0.04, 0.04],
        [0.02, 0.06, 0.10, 0.14],
        "fail",
        "up to 0.14, where 0.08 is the most",
    ),
    "a floor that is not scaled": (
        [0.1, 0.1, 0.03, 0.03, 0.01, 0.01, 0.01, 0.01],
        [0.2, 0.06, 0.02, 0.01],
        "fail",
        "a bound is not scaled",
    ),
    "a warm-up that begins with a step": (
        [0.01, 0.02, 0.03, 0.04, 0.04, 0.04, 0.04, 0.04],
        [0.04, 0.08, 0.08, 0.08],
        "pass",
        "0.01 → 0.04",
    ),
    "a rate that follows the loss": (
        [0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05],
        [0.2, 0.2, 0.2, 0.2],
        "unknown",
        "from step",
    ),
    "a rate that follows the loss of N ranks only": (
        [0.1] * 8,
        [0.2, 0.2, 0.2, 0.1],
        "unknown",
        "not compared from step 4 on",
    ),
    "a rate that follows the loss further": (
        [0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05],
        [0.2, 0.2, 0.1, 0.05],
        "unknown",
        "from step",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("one", "many", "status", "words"), LATER.values(), ids=LATER)
def test_rates_that_differ_later(
    one: list[float], many: list[float], status: str, words: str
) -> None:
    original, scaled = record(one, [4] * len(one)), record(many, [8] * len(many))
    assert checks(original, scaled)["rates"] == status
    assert words in detail(original, scaled, "rates")


@pytest.mark.slow
def test_a_scaled_program_holds(hvd, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    done = hvd("verify", "train.py", "-n", 2, "--json")
    outcome = json.loads(done.stdout)
    found = {c["check"]: (c["status"], c["detail"]) for c in outcome["checks"]}
    assert (done.returncode, outcome["batch"], outcome["holds"]) == (0, "per-rank", True), outcome
    assert found["one process"] == ("pass", "12 steps, to the end")
    assert found["one process as 2 ranks"] == ("pass", "6 steps, to the end")
    assert found["scaled to 2: batches"] == ("pass", "8 → 16 rows a step")
    assert found["scaled to 2: rates"] == ("pass", "0.05 → 0.1, and so on to the end")
    assert found["scaled to 2: epochs"] == ("pass", "2 → 2")
    assert found["2 ranks: learning rates"] == ("pass", "6 rates")
    assert [p.name for p in tmp_path.iterdir()] == ["train.py"]


#: Planted into the program, and so into ranks and reference alike: only the original tells.
FAULTS = {
    "rates": ("jhvd.scale_rate = lambda optimizer: optimizer", "not scaled"),
    "batches": ("BATCH = BATCH // 2", "not scaled"),
}


PLANTED = """\
import os
if "HOROVOD_RANK" in os.environ or os.environ["JUPYTER_HVD_VIRTUAL_SIZE"] != "1":
    import jupyter_hvd.runtime as jhvd
    FAULT
"""


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_of_the_scaling_is_found(hvd, tmp_path: Path, what: str) -> None:
    """What the ranks and one process that pretends to be so many have in common is compared with the original."""
    fault, name = FAULTS[what]
    plant = PLANTED.replace("FAULT", fault)
    (tmp_path / "train.py").write_text(PROGRAM.replace("x = np", f"{plant}x = np", 1))
    done = hvd("verify", "train.py", "-n", 2, "--json")
    outcome = json.loads(done.stdout)
    found = {c["check"]: (c["status"], c["detail"]) for c in outcome["checks"]}
    assert done.returncode == 1
    assert found[f"scaled to 2: {what}"][0] == "fail", found
    assert name in found[f"scaled to 2: {what}"][1]


@pytest.mark.slow
def test_the_scaled_program_stops_after_as_many_examples(hvd, tmp_path: Path) -> None:
    """A rate that moves with the steps is compared at equal numbers of examples, also where `--steps` ends the runs."""
    (tmp_path / "train.py").write_text(PROGRAM)
    done = hvd("verify", "train.py", "-n", 2, "--steps", 6, "--json")
    outcome = json.loads(done.stdout)
    found = {c["check"]: (c["status"], c["detail"]) for c in outcome["checks"]}
    assert (done.returncode, outcome["holds"]) == (0, True), outcome
    assert found["one process"] == ("pass", "6 steps, stopped there as --steps asks")
    assert found["one process as 2 ranks"] == ("pass", "3 steps, stopped there as --steps asks")
    assert found["scaled to 2: examples"] == ("pass", "48 → 48 in 6 → 3 steps")
    assert found["scaled to 2: rates"] == ("pass", "0.05 → 0.1, and so on to the end")


CELLS = (
    """\
import numpy as np
import tensorflow as tf
from curves import late

x = np.random.rand(96, 3).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.01)
""",
    """\
step, kept = 0, []
for epoch in range(2):
    for rows in tf.data.Dataset.from_tensor_slices(x).batch(4):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(rows) - rows[:, :1]) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        kept.append(float(loss))
print(len(kept) > 0, np.mean(np.append([], kept)[:10]), len(late(kept)))
""",
)
#: A module beside the notebook, which is not converted.
MODULE = "def late(losses):\n    return losses[-16:]\n"


@pytest.mark.slow
def test_units_of_a_notebook(hvd, tmp_path: Path) -> None:
    """A list with an entry per step is cut at a number that the conversion leaves as it is."""
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, CELLS)])
    nbformat.write(notebook, tmp_path / "train.ipynb")
    (tmp_path / "curves.py").write_text(MODULE)
    done = hvd("verify", "train.ipynb", "-n", 2, "--json")
    found = {c["check"]: (c["status"], c["detail"]) for c in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1
    status, detail = found["scaled to 2: units"]
    assert status == "fail"
    assert "cell 1, line 9: `len(np.append([], kept))` counts steps (48 → 24)" in detail
    assert "curves.py, line 2: `len(losses)` counts steps (48 → 24)" in detail


@pytest.mark.slow
def test_run_on_ranks(hvd, tmp_path: Path) -> None:
    """Rank 0 alone prints; the program trains on batches as large as those of one process that pretends to be two."""
    (tmp_path / "train.py").write_text(f"{PROGRAM}print(int(model.optimizer.iterations))\n")
    done = hvd("run", "train.py", "-n", 2, "--no-log")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "6"
    assert len(done.stdout.splitlines()) == 2
