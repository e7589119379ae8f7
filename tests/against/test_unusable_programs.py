"""Programs that are refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hvd.documents import Script, load
from jupyter_hvd.files import UnusableInputError
from jupyter_hvd.verify.against.programs import names_processes, require_processes, require_python

RIGHT = sorted((Path(__file__).parent / "right").glob("*.py"))


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_right_programs_are_usable(path: Path) -> None:
    require_python(path, load(path))
    require_processes(path, load(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        (" \n\n", "it is empty"),
        ("x = 1\ndef f(:\n", "it is no Python: line 2"),
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
    assert all(names_processes(load(path)) for path in RIGHT)
    originals = (Path(__file__).parent / "originals").glob("*.py")
    assert not any(names_processes(load(path)) for path in originals)
