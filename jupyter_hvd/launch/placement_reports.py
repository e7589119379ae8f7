"""The messages of a placement: one JSON object per line on standard output, which `base.parse_report` reads."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

#: A line that is longer is reported in pieces.
LONGEST_LINE = 2**20


_speaking = threading.Lock()


def write_report(report: Mapping[str, Any]) -> None:
    """Write one report after the other, whichever thread it comes from."""
    with _speaking, suppress(OSError):
        print(json.dumps(report), flush=True)


def pass_on(rank: int | None, stream: str, line: str) -> None:
    """Report a line that a rank has written, or, of no rank, the launcher."""
    write_report({"rank": rank, "stream": stream, "text": line})


def exit_now(code: int) -> NoReturn:
    """End this process, whatever its threads do: Python's own end aborts where one of them is writing."""
    os._exit(code)
