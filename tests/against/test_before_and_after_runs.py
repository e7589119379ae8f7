"""What is said of programs before anything runs, and of ranks that do not come to their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hvd.convert.documents import Script, load_document
from jupyter_hvd.files import UnusableInputError
from jupyter_hvd.launch.job import TIMED_OUT
from jupyter_hvd.verify.against.programs import names_processes, require_processes, require_python
from jupyter_hvd.verify.against.steps import process_of
from jupyter_hvd.verify.against.verification import check_endings, find_traceback_line
from jupyter_hvd.verify.exact.records import Record
from jupyter_hvd.verify.exact.verification import Run

RIGHT = sorted((Path(__file__).parent / "right").glob("*.py"))


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_right_programs_are_usable(path: Path) -> None:
    require_python(path, load_document(path))
    require_processes(path, load_document(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        (" \n\n", "it is empty"),
        ("x = 1\ndef f(:\n", "it is not valid Python: line 2"),
    ],
)
def test_what_is_no_python(text: str, said: str) -> None:
    with pytest.raises(UnusableInputError, match=f"train.py: {said}"):
        require_python(Path("train.py"), Script(text))


@pytest.mark.parametrize(
    "name",
    [
        "MirroredStrategy",
        "ParameterServerStrategy",
        "TPUStrategy",
        "keras.distribution.DataParallel",
    ],
)
def test_what_shares_a_training_elsewhere(name: str) -> None:
    text = f"import tensorflow as tf\n\nstrategy = {name}()\n"
    with pytest.raises(UnusableInputError, match="MultiWorkerMirroredStrategy and Horovod can be"):
        require_processes(Path("train.py"), Script(text))
    require_processes(Path("train.py"), Script(text.replace("strategy =", "# strategy =")))


def test_programs_whose_text_connects_no_processes() -> None:
    assert all(names_processes(load_document(path)) for path in RIGHT)
    originals = (Path(__file__).parent / "originals").glob("*.py")
    assert not any(names_processes(load_document(path)) for path in originals)


def test_a_rank_that_was_stopped_has_not_left_early() -> None:
    """Where it ends after as many steps as were asked for, the other one may only be slow."""
    for stopped, kind in (("steps", None), ("", "early exit on one rank")):
        record = Record(rank=1, stopped=stopped)
        job = Run(TIMED_OUT, "", (record,))
        check, fault = check_endings(job, (process_of(record),), 2, 100.0, "train.py")
        assert (fault.kind if fault else None) == kind
        assert check.status == ("fail" if kind else "unknown")


def test_the_line_of_a_failure() -> None:
    text = 'File "/tmp/a/train.py", line 3\n File "/tmp/b/model.py", line 9\n File "/tmp/a/train.py", line 7, in f\nKeyError: 1'
    assert find_traceback_line(text, "train.py") == "train.py, line 7"
    assert find_traceback_line(text, "other.py") == ""
    assert find_traceback_line(text, "rain.py") == ""
