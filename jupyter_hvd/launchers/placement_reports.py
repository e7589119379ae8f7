"""The messages of a placement: one JSON object a line on standard output, which `base.parse_report` reads."""

from __future__ import annotations

import json
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any, NoReturn, Protocol

#: A line that is longer is reported in pieces.
LONGEST_LINE = 2**20
#: Seconds without a word after which a process that has ended has written all; its children may hold its output open.
LAST_WORDS = 1.0
#: Seconds for that to be passed on, where the machine is slow or a child writes on.
LATE_WORDS = 10.0


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


class Process(Protocol):
    """What is asked of a process here: of a `subprocess.Popen`, or of a fork."""

    @property
    def stdout(self) -> IO[bytes] | None: ...

    @property
    def stderr(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def send_signal(self, number: int, /) -> None: ...


def follow_process(process: Process, pass_on: Callable[[str, str], None]) -> int:
    """Pass on what a process writes until it ends, and give its exit code as a shell does: 137 where signal 9 ended it.

    Args:
        process: with pipes for what it writes. pass_on: gets "stdout" or "stderr", and a line.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    streams = {"stdout": process.stdout, "stderr": process.stderr}

    def pump_stream(name: str) -> None:
        with suppress(OSError, ValueError):
            for line in lines_of(streams[name], lambda: process.poll() is not None):
                pass_on(name, line.decode(errors="replace"))

    pumps = [threading.Thread(target=pump_stream, args=(name,), daemon=True) for name in streams]
    for each in pumps:
        each.start()
    code = process.wait()
    for each in pumps:
        each.join(LATE_WORDS)
    return code if code >= 0 else 128 - code


def exit_now(code: int) -> NoReturn:
    """End this process, whatever its threads do: Python's own end aborts where one of them is writing."""
    os._exit(code)


def lines_of(stream: IO[bytes], has_ended: Callable[[], bool]) -> Iterator[bytes]:
    """The lines of a process's stream as they come; what a carriage return ends is one, too: progress shows at once.

    Args:
        has_ended: whether the process has ended. A child of it may hold the stream open.
    """
    rest = b""
    while True:
        if not select.select([stream], [], [], LAST_WORDS)[0]:
            if has_ended():
                break
            continue
        data = os.read(stream.fileno(), 2**16)
        if not data:
            break
        *lines, rest = re.split(rb"\r?\n|\r(?!\n)", rest + data)
        yield from lines
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest
