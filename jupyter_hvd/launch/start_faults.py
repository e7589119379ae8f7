"""A fault of the start that passes by itself: a rank's Gloo finds that another does not listen, and aborts.

Gloo takes the first who connects for the other rank, and listens no more. So a program that tries all ports of the machine makes
the rank that comes after it fail. Whoever starts ranks then tries once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from .hosts import LaunchError

#: What Gloo's abort says, and the exit code of a process that aborts.
REFUSED = re.compile(r"gloo.*\bconnect \[?[\w.:%-]+\]?:\d+.*: Connection refused")
ABORTED = 134
#: What a rank reports by its heartbeat connection when it has joined the others' Horovod.
JOINED = "joined"
AGAIN = (
    "one rank could not connect to another (Connection refused); the ranks are started once more"
)

Started = TypeVar("Started")


class RefusedAtStartError(LaunchError):
    """The ranks did not start, because one could not connect to another.

    Attributes:
        result: how the start ended, for a caller that gives up.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


def is_refused_at_start(
    codes: Iterable[int], reports: Iterable[Mapping[str, Any]], size: int, words: Iterable[str]
) -> bool:
    """Whether a rank has aborted because it could not connect to another, before all had joined Horovod.

    Args:
        codes: the exit codes of ranks. reports: what ranks have said by their heartbeat connections.
        size: how many ranks there are to be. words: the lines that they have written.
    """
    joined = sum(report.get("stage") == JOINED for report in reports)
    return ABORTED in codes and joined < size and any(map(REFUSED.search, words))


def start_again_once(start: Callable[[], Started], told: Callable[[str], object]) -> Started:
    """Start ranks; once more where one could not connect to another.

    Args:
        told: gets a sentence if they are started again.

    Raises:
        RefusedAtStartError: one could not the second time either.
        Exception: those of `start`.
    """
    try:
        return start()
    except RefusedAtStartError:
        told(AGAIN)
    return start()
