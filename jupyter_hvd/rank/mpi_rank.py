"""The process that mpirun starts for each rank: `python -m jupyter_hvd.rank.mpi_rank HOST:PORT`.

It connects to the job's placement (`launchers/mpi_placement.py`), learns from it what to run, and sends it what that
writes and how it ends. When the connection breaks, the rank ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..launchers.authentication import take_token
from ..launchers.heartbeat import connect_as, encode_message, end_self
from ..launchers.hosts import LaunchError
from ..launchers.mpi import require_horovod_for_mpi
from ..launchers.placement_reports import follow_process

#: By which Open MPI tells a process its rank.
RANK_VARIABLE = "OMPI_COMM_WORLD_RANK"


class Placement:
    """The placement's end of the connection, as this side sees it."""

    def __init__(self, address: str, rank: int) -> None:
        """Connect, and say which rank this is; where nobody listens that knows the job's token, the process ends."""
        who = {"rank": rank, "host": os.uname().nodename}
        try:
            self._connection, self._lines = connect_as(f"rank {rank}", address, take_token(), who)
        except OSError:
            end_self()
        self._speaking = threading.Lock()

    def send_message(self, message: Mapping[str, Any]) -> None:
        with self._speaking, suppress(OSError):
            self._connection.sendall(encode_message(message))

    def next_message(self) -> dict[str, Any]:
        """The placement's next message. When there are no more, the job has ended, and so does this process."""
        try:
            message: dict[str, Any] = json.loads(self._lines.readline())
        except (OSError, ValueError):
            end_self()
        return message


def main(address: str) -> int:
    placement = Placement(address, int(os.environ[RANK_VARIABLE]))
    orders = placement.next_message()
    try:
        require_horovod_for_mpi()  # that of this host
        process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
            orders["command"],
            env={**os.environ, **orders["environment"]},
            cwd=orders["directory"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except (LaunchError, OSError) as error:
        placement.send_message({"stream": "stderr", "text": f"host {os.uname().nodename}: {error}"})
        placement.send_message({"exit": 1})
        return 1
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: process.terminate())
    threading.Thread(target=placement.next_message, daemon=True).start()
    code = follow_process(
        process, lambda name, line: placement.send_message({"stream": name, "text": line})
    )
    placement.send_message({"exit": code})
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
