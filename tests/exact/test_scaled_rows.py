"""What went wrong where data were divided among ranks is scaled right, and verification finds each fault of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "generated"))

import scaled_process
from scaled_process import ScaledRun

from jupyter_hvd import convert_source
from jupyter_hvd.verify.exact.scaling import check_scaling

from .table_rows import PROGRAMS_OF_ROWS, path_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("scaled process")]
Run = Callable[[str, int], ScaledRun]
#: For each row a fault: of which program, what of its conversion is replaced by what, and the check that finds it.
FAULTS = {
    "1: the comparison is not scaled": (
        "callback_one_cycle", "if self.step < self.warm:", "if self.step < self.warm * hvd.size():", "rates",
    ),
    "1: the counts are not scaled": (
        "callback_one_cycle", "max(1, 6 // hvd.size()), max(1, 20 // hvd.size())", "6, 20", "rates",
    ),
    "2: a batch of all rows at N times the rate": ("batch_of_all_rows", "SGD(", "SGD(hvd.size() * ", "batches"),
    "3: the rate is not scaled": ("accuracy_by_hand", "0.03 * hvd.size()", "0.03", "rates"),
    "4: the rate twice": ("scheduler_of_schedule", "float(schedule(e))", "float(schedule(e)) * hvd.size()", "rates"),
    "5: the exit is not scaled": ("iterations_break", "max(1, 40 // hvd.size())", "40", "examples"),
    "7: the rate is not scaled": ("warmup_class", "jhvd.scale_rate(", "(", "rates"),
    "8: the batch is not scaled": ("lookahead", "[:7 * hvd.size()]", "[:7]", "batches"),
    "9: the floor is not scaled": (
        "rate_floor",
        "jhvd.scale_rate(keras.optimizers.RMSprop(0.02))",
        "keras.optimizers.RMSprop(0.02 * hvd.size())",
        "rates",
    ),
    "11: the batch is not scaled": ("uneven_validation_split", "batch_size=16 * hvd.size()", "batch_size=16", "batches"),
    "12: the steps of an epoch are not divided": ("counted_steps", "max(1, 7 // hvd.size())", "7", "examples"),
}  # fmt: skip
#: What `make test` runs.
QUICK = ("callback_one_cycle", "step_patience", "rate_floor")


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with scaled_process.pool() as pool:
        yield lambda source, size: pool.submit(scaled_process.run, source, size).result(300)


def converted(name: str) -> str:
    outcome = convert_source(path_of(name).read_text())
    assert outcome.status == "converted", outcome.diagnostics
    return outcome.code


def judged(run: Run, name: str, code: str, size: int) -> dict[str, str]:
    """What verification says of a conversion, for each check that does not pass."""
    original, scaled = original_of(run, name), run(code, size)
    assert not original.error, original.error
    found = check_scaling(original.record, scaled.record, size)
    problems = {
        c.check.partition(": ")[2]: f"{c.status}: {c.detail}" for c in found if c.status != "pass"
    }
    return {**problems, **({"error": scaled.error} if scaled.error else {})}


@cache
def original_of(run: Run, name: str) -> ScaledRun:
    return run(path_of(name).read_text(), 1)


def cases(names: list[str]) -> list:
    return [
        pytest.param(name, id=name, marks=() if name in QUICK else pytest.mark.thorough)
        for name in names
    ]


@pytest.mark.parametrize("name", cases([*PROGRAMS_OF_ROWS]))
@pytest.mark.long
def test_each_row_is_scaled_right(run: Run, name: str) -> None:
    found = {size: judged(run, name, converted(name), size) for size in (2, 3)}
    wrong = {s: f for s, f in found.items() if any(not t.startswith("unknown") for t in f.values())}
    assert wrong == {}


@pytest.mark.parametrize(
    ("name", "old", "new", "check"),
    [
        pytest.param(*fault, id=row, marks=() if fault[0] in QUICK else pytest.mark.thorough)
        for row, fault in FAULTS.items()
    ],
)
@pytest.mark.long
def test_each_fault_is_found(
    run: Run,
    name: str,
    old: str,
    new: str,
    check: str,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("mutant", "in a conversion's batches, rates and counts")
    code = converted(name)
    assert old in code
    if "import horovod" not in code:
        code = code.replace(
            "jhvd.start_shared()", "import horovod.tensorflow as hvd; jhvd.start_shared()"
        )
    code = code.replace(old, new)
    found = judged(run, name, code, 3)
    assert found.get(check, "").startswith("fail"), found
