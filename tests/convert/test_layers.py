"""Layers of the converter: the analysis names no framework, and protocols are implemented."""

import re
from pathlib import Path

import pytest

from jupyter_hvd import analysis
from jupyter_hvd.convert.backend import Backend
from jupyter_hvd.convert.framework import Framework
from jupyter_hvd.convert.horovod import Horovod
from jupyter_hvd.convert.tensorflow.program import TensorFlow

FOLDER = Path(analysis.__file__).parent


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_analysis_names_no_framework(path: Path) -> None:
    assert not re.findall(r"(?i)tensorflow|keras|horovod|\btf\b|torch", path.read_text())


def test_protocols_are_kept() -> None:
    framework: Framework = TensorFlow()
    backend: Backend = Horovod()
    assert framework.package == "tensorflow"
    assert backend.is_rank_zero == "hvd.rank() == 0"
