"""The example notebooks, run to their end on one process, one rank and two ranks with different seeds."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from jupyter_hvd import convert_notebook
from jupyter_hvd.source.masking import mask_cell
from jupyter_hvd.verify import Verification

from .ledger import verify

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))
NAMES = ("gradient_tape", "tf_function", "keras_fit", "gan", "rubber_picture")
EXAMPLES = [path for path in EXAMPLES if path.stem in NAMES]
TO_THE_END = 1_000_000


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            p,
            id=p.stem,
            marks=[
                pytest.mark.long,
                # The others, whose steps are those of `test_programs.py`, run in `make test-thorough`.
                *([pytest.mark.thorough] if p.stem != "keras_fit" else []),
            ],
        )
        for p in EXAMPLES
    ],
)
def verified(request) -> tuple[str, Verification]:
    return request.param.stem, verify(request.param, 2, steps=TO_THE_END)


@pytest.mark.slow
def test_one_rank_is_bit_identical(verified) -> None:
    _, verification = verified
    original, single, _ = verification.runs
    assert original.code == single.code == 0
    assert original.records[0].weights
    assert original.records[0].weights == single.records[0].weights
    assert original.records[0].optimizer_state == single.records[0].optimizer_state


@pytest.mark.slow
def test_two_ranks_agree(verified) -> None:
    _, verification = verified
    job = verification.runs[2]
    zero, one = job.records
    assert zero.weights == one.weights
    assert zero.optimizer_state == one.optimizer_state
    assert zero.steps == one.steps
    assert zero.weights != verification.runs[1].records[0].weights, (
        "two ranks do train another model"
    )


@pytest.mark.slow
def test_every_variable_is_broadcast_once(verified) -> None:
    for record in verified[1].runs[2].records:
        assert set(record.broadcasts) == {1}
        assert record.compiled_broadcasts == 0
        assert record.optimizer_broadcasts
        assert set(record.optimizer_broadcasts) == {1}


@pytest.mark.slow
def test_learning_rate_is_scaled(verified) -> None:
    original, _, job = verified[1].runs
    first = [rates[0] for rates in original.records[0].learning_rates]
    assert [rates[0] for rates in job.records[0].learning_rates] == [2 * rate for rate in first]


@pytest.mark.slow
def test_only_rank_zero_speaks_and_writes(verified) -> None:
    name, verification = verified
    zero, one = verification.runs[2].records
    assert zero.printed
    assert not one.printed
    assert not one.files
    expected = {"gan": "checkpoint", "tf_function": "loss.png", "keras_fit": "best.h5"}
    assert all(
        any(part in file for file in zero.files) for key, part in expected.items() if key == name
    )


@pytest.mark.slow
def test_all_checks_pass(verified) -> None:
    assert {
        check.check: check.status for check in verified[1].checks if check.status != "pass"
    } == {}


@pytest.mark.slow
def test_accuracy(verified) -> None:
    name, verification = verified
    if name in ("gan", "rubber_picture"):
        pytest.skip(f"{name} has no accuracy")
    for run in verification.runs[::2]:
        (line,) = [
            line for line in run.records[0].printed if "accuracy on held-back digits" in line
        ]
        assert float(line.split(":")[1]) >= 0.95


@pytest.mark.slow
def test_pictures_are_near_the_least_energy(verified) -> None:
    """The network has learnt what minimising the energy of each picture gives, on one rank and on two."""
    name, verification = verified
    if name != "rubber_picture":
        pytest.skip(f"{name} has no energy")
    for run in verification.runs:
        (line,) = [line for line in run.records[0].printed if "over the least there is" in line]
        assert 1.0 <= float(line.split(":")[1]) < 1.2


@pytest.mark.slow
@pytest.mark.thorough
def test_a_tensor_function_trains_on_three_ranks() -> None:
    (path,) = (path for path in EXAMPLES if path.stem == "rubber_picture")
    assert {c.check: c.status for c in verify(path, 3).checks if c.status != "pass"} == {}


def comments_and_blanks(source: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(mask_cell(source)).readline)
    found = Counter(
        token.string
        for token in tokens
        if token.type == tokenize.COMMENT and token.string.strip("#")
    )
    found[""] = len(re.findall(r"^\s*$", source, re.MULTILINE))
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_comments_and_blank_lines_stay(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    converted = convert_notebook(notebook).notebook
    for before, after in zip(notebook.cells, converted.cells, strict=True):
        if before.cell_type == "code":
            missing = comments_and_blanks(before.source) - comments_and_blanks(after.source)
            assert not missing
        else:
            assert before == after


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_little_is_added(path: Path) -> None:
    """What a reader of the diff has to read: at most 15 lines more than there were."""
    notebook = nbformat.read(path, as_version=4)
    converted = convert_notebook(notebook).notebook
    pairs = zip(notebook.cells, converted.cells, strict=True)
    grown = [len(b.source.splitlines()) - len(a.source.splitlines()) for a, b in pairs]
    assert sum(grown) <= 15
