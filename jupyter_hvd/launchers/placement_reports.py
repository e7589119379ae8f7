"""The messages of a placement: one JSON object a line on standard output, which `gloo.py` reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
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

    def pass_on(self, rank: int, name: str, line: str) -> None:
        self.say({"rank": rank, "stream": name, "text": line})


def follow(process: subprocess.Popen[bytes], pass_on: Callable[[str, str], None]) -> int:
    """Pass on what a process writes until it ends, and give its exit code as a shell does: 137 where signal 9 ended it.

    Args:
        process: with pipes for what it writes. pass_on: gets "stdout" or "stderr", and a line.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    streams = {"stdout": process.stdout, "stderr": process.stderr}

    def pump(name: str) -> None:
        with suppress(OSError, ValueError):
            for line in lines_of(streams[name]):
                pass_on(name, line.decode(errors="replace"))

    pumps = [threading.Thread(target=pump, args=(name,), daemon=True) for name in streams]
    for each in pumps:
        each.start()
    code = process.wait()
    for each in pumps:
        each.join(1)  # a child of the process may hold its output open
    return code if code >= 0 else 128 - code


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
