"""How often a scaled program evaluates, compared with the original."""

import numpy as np
import pytest

from jupyter_hvd.verify.exact.records import Event, Record, Site
from jupyter_hvd.verify.exact.scaling import check_evaluations

SITES = (Site("batch", "train.py, line 3", ()), Site("update", "train.py, line 5", ("kernel",)))
BATCH, UPDATE = 0, 1


def training(steps: int, period: int) -> Record:
    """A program that calls its model once for each step, and once more behind each `period`-th."""
    events: list[Event] = []
    for step in range(steps):
        kinds = (BATCH, UPDATE, *([BATCH] if (step + 1) % period == 0 else []))
        events += [Event(kind, 0.0, np.zeros(0)) for kind in kinds]
    return Record(sites=SITES, events=tuple(events))


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (training(16, 4), training(8, 2), "pass"),
        (training(16, 4), training(8, 4), "fail"),  # the period is not divided
        (training(16, 8), training(8, 1), "unknown"),
        (training(5, 1), training(2, 1), "pass"),  # after each step: there is no shorter period
        (training(16, 1), training(8, 2), "unknown"),
    ],
)
def test_evaluations(before: Record, after: Record, status: str) -> None:
    (check,) = check_evaluations(before, after, 2)
    assert check.status == status, check.detail
