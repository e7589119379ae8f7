"""Loops that count steps, and those that do not say how many there are."""

from pathlib import Path

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.verify.steps import mark_steps

PROGRAM = (Path(__file__).parents[1] / "programs" / "tape_while.py").read_text()


def loops(source: str) -> tuple[list[str], list[str]]:
    """The loops of the conversion, and what is said of the data."""
    conversion = convert_source(source)
    assert conversion.status == "converted"
    lines = [line for line in conversion.code.splitlines() if line.startswith(("while", "for"))]
    return lines, [d.message for d in conversion.diagnostics]


@pytest.mark.parametrize(
    ("test", "converted"),
    [
        ("step < total", "step < max(1, total // hvd.size())"),
        ("step < 2 * total", "step < max(1, (2 * total) // hvd.size())"),
        (
            "step < len(x)",
            "hvd.broadcast_object(bool(step < max(1, len(x) // hvd.size())), root_rank=0)",
        ),
    ],
)
def test_a_counter_is_compared_with_a_share_of_the_steps(test, converted):
    assert PROGRAM.count("step < total") == 1
    lines, said = loops(PROGRAM.replace("step < total", test))
    assert lines == [f"while {converted}:"]
    assert not said


OVER_DATA = (
    PROGRAM.replace("while step < total:", "for features, labels in batches:")
    .replace("    features, labels = next(batches)\n", "")
    .replace("    step += 1\n", "    step += 1\n    if step == total:\n        break\n")
)


@pytest.mark.parametrize(
    "source",
    [
        PROGRAM.replace("step < total", "True"),
        PROGRAM.replace("step < total", "step < total and loss > 1e-3"),
        PROGRAM.replace("step += 1", "step += 2"),
        PROGRAM.replace("step = 0", "step = 30"),
        PROGRAM.replace("step = 0", "step = int(optimizer.iterations)"),
        PROGRAM + "    if loss > 1:\n        step = 0\n",
        PROGRAM.replace("step < total", "step < float('inf')"),
        OVER_DATA,
    ],
    ids=["for ever", "a condition", "by twos", "from 30", "resumed", "patience", "inf", "a break"],
)
def test_data_without_end_that_no_count_limits_are_told(source):
    (said,) = loops(source)[1]
    assert said.startswith("these data never end")


def test_data_that_end_need_no_count():
    assert not loops(OVER_DATA.replace(".batch(20)", ".batch(20).take(50)"))[1]


def test_a_counter_from_one():
    source = PROGRAM.replace("step = 0", "step = 1").replace("step < total", "step <= total")
    assert loops(source) == (["while step <= max(1, total // hvd.size()):"], [])


def test_steps_are_divided_and_not_epochs_too():
    source = PROGRAM.replace("    features, labels", "        features, labels").replace(
        "    loss =", "        loss ="
    )
    source = source.replace("while step < total:", "while step < total:\n    for _ in range(100):")
    source = source.replace("    step += 1", "    shown = next(batches)\n    step += 1")
    conversion = convert_source(source)
    assert "    for _ in range(100 // hvd.size() or 100):" in conversion.code
    assert "while step < total:" in conversion.code


def test_a_range_behind_a_progress_bar():
    source = PROGRAM.replace("while step < total:", "for step in tqdm(range(total)):").replace(
        "    step += 1\n", ""
    )
    source = source.replace("import numpy", "from tqdm import tqdm\nimport numpy")
    assert loops(source) == (["for step in tqdm(range(total // hvd.size() or total)):"], [])


def test_steps_of_a_deep_program_are_marked():
    """A sum of a thousand terms is a tree a thousand levels deep."""
    deep = PROGRAM + "total = " + " + ".join("x" for _ in range(1000)) + "\n"
    assert convert_source(deep).status == "converted"
    assert mark_steps([deep]) == [mark_steps([PROGRAM])[0] + deep[len(PROGRAM) :]]


def test_steps_of_a_notebook_of_one_cell_are_marked():
    (marked,) = mark_steps([f"%matplotlib inline\n{PROGRAM}"])
    assert marked == f"%matplotlib inline\n{mark_steps([PROGRAM])[0]}"
