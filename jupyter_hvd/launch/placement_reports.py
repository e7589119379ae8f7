"""The messages of a placement: one JSON object per line on standard output, which `base.parse_report` reads."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

#: A line that is longer is reported in pieces.
LONGEST_LINE = 2**20


class Reports:
    """Says one thing after the other, whichever thread it comes from."""

    def __init__(self) -> None:
        self._speaking = threading.Lock()

    def write_report(self, report: Mapping[str, Any]) -> None:
        with self._speaking, suppress(OSError):
            sys.stdout.write(json.dumps(report) + "\n")
            sys.stdout.flush()

    def pass_on(self, rank: int | None, name: str, line: str) -> None:
        self.write_report({"rank": rank, "stream": name, "text": line})


def exit_now(code: int) -> NoReturn:
    """End this process, whatever its threads do: Python's own end aborts where one of them is writing."""
    os._exit(code)
