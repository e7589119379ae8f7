"""The example notebooks, run to their end: in one process, in one that pretends to be two ranks, and on two ranks."""

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

from .ledger import verify

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))
NAMES = ("gradient_tape", "tf_function", "keras_fit", "gan", "rubber_picture")
EXAMPLES = [path for path in EXAMPLES if path.stem in NAMES]
#: What is shortened, and to what: after some 50 steps rounding is amplified so much that it decides which epoch is the best.
SHORTER = {"keras_fit": ("epochs=12", "epochs=2")}


def case(path: Path):
    """All but one run in `make test-thorough`: their steps are those of `test_programs.py`."""
    thorough = [pytest.mark.thorough] if path.stem != "keras_fit" else []
    return pytest.param(path, id=path.stem, marks=[pytest.mark.long, *thorough])


@pytest.mark.slow
@pytest.mark.parametrize("path", map(case, EXAMPLES))
@pytest.mark.long
def test_two_ranks_train_as_one_process_that_pretends_to_be_two(path: Path, tmp_path: Path) -> None:
    before, after = SHORTER.get(path.stem, ("", ""))
    text = path.read_text()
    assert before in text
    copy = tmp_path / path.name
    copy.write_text(text.replace(before, after) if before else text)
    verification = verify(copy, 2, beside=path.parent)
    assert verification.holds, verification.checks


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
