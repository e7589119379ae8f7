"""Ranks on this machine and others, which find one another by Horovod's Gloo rendezvous.

`placement.py` is the process that places them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

from .base import Exit, Orders, Output, Queued, launcher_environment


class GlooLauncher:
    """Places ranks as `horovodrun --gloo` does; see `base.Launcher`."""

    reach = "ssh"

    def start(self, orders: Orders) -> subprocess.Popen[str]:
        return start_placement(orders)

    def parse_line(self, line: str) -> Output | Exit | Queued | None:
        return parse_report(line)


def start_placement(
    orders: Orders, under: Sequence[str] = (), module: str = "jupyter_hvd.launchers.placement"
) -> subprocess.Popen[str]:
    """The process that places the ranks, its orders on standard input; a command may stand before it."""
    process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
        [*under, sys.executable, "-P", "-m", module],
        env=launcher_environment(orders),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it says itself why it ended
        json.dump(asdict(orders), process.stdin)
        process.stdin.close()
    return process


def parse_report(line: str) -> Output | Exit | None:
    """The report in a line of placement's output."""
    try:
        report = json.loads(line)
    except ValueError:
        report = None
    match report:
        case {"rank": int(rank), "exit": int(code)}:
            return Exit(rank, code)
        case {"rank": rank, "stream": str(stream), "text": str(text)}:
            return Output(rank, stream, text)
        case _:  # Python's own last words
            return Output(None, "stderr", line) if line.strip() else None
