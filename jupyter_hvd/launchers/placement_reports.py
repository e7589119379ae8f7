"""The messages of a placement: one JSON object a line on standard output, which `gloo.py` reads."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import IO, Any

#: A line that is longer is reported in pieces.
LONGEST_LINE = 2**20


class Reports:
    """Says one thing after the other, whichever thread it comes from."""

    def __init__(self) -> None:
        self._speaking = threading.Lock()

    def say(self, report: Mapping[str, Any]) -> None:
        with self._speaking, suppress(OSError):
            sys.stdout.write(json.dumps(report) + "\n")
            sys.stdout.flush()

    def pass_on(self, rank: int | None, name: str, stream: IO[bytes]) -> None:
        """Say what comes from a stream, until it ends."""
        with suppress(OSError, ValueError):
            for line in lines_of(stream):
                self.say({"rank": rank, "stream": name, "text": line.decode(errors="replace")})


def lines_of(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a stream as they come; what a carriage return ends is one, too: progress shows at once."""
    rest = b""
    while data := os.read(stream.fileno(), 2**16):
        *lines, rest = re.split(rb"\r?\n|\r(?!\n)", rest + data)
        yield from lines
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest
