"""The paper's programs, shared with the tests of the tensor language."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tensor"))


@pytest.fixture
def by_name():
    from programs import CASES

    return {case.name: case for case in CASES}


@pytest.fixture(scope="session", autouse=True)
def compiled_once(kernels_kept):
    """Panels compile many small kernels."""
