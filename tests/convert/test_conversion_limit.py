"""The limit to a conversion's time."""

import time
from pathlib import Path

import pytest

from jupyter_hvd.convert.conversion_limit import TooLongError, conversion_limit


def test_what_fails_because_it_is_ended_is_reported_as_that() -> None:
    def interrupted() -> None:
        try:
            time.sleep(5)
        finally:
            raise KeyError("a library's own books are not in order here")

    with (
        pytest.raises(TooLongError, match=r"took more than 0\.1 s"),
        conversion_limit(Path("train.py"), 0.1),
    ):
        interrupted()


def test_what_fails_in_time_fails_for_its_own_reason() -> None:
    with pytest.raises(KeyError), conversion_limit(Path("train.py"), 60):
        raise KeyError("a fault")
