"""Starts one rank, on whatever host: `python -m jupyter_hvd.ranks.agent [HOST:PORT]`.

The job's placement (`launch/placement.py`) tells it what to run, and is told what that writes and how it ends: over
standard input and output or, where mpirun starts agents, over a connection to HOST:PORT. When this ends, so does the rank.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any

from ..launch.authentication import take_token
from ..launch.base import LONGEST_LINE, exit_now
from ..launch.heartbeat import connect_as, decode_message, encode_message, end_self
from ..launch.hosts import LaunchError, interface_variables
from ..launch.mpi import require_horovod_for_mpi
from .forks import PASSED_ON, Fork, start_fork

#: By which Open MPI tells a process its rank.
RANK_VARIABLE = "OMPI_COMM_WORLD_RANK"
RENDEZVOUS_VARIABLE = "HOROVOD_GLOO_RENDEZVOUS_ADDR"
#: Seconds without a word after which a process that has ended has written all; its children may hold its output open.
LAST_WORDS = 1.0
#: Seconds for that to be passed on, where the machine is slow or a child writes on.
LATE_WORDS = 10.0


class PlacementConnection:
    """The agent's end of what connects it with the placement."""

    def __init__(self, lines: IO[bytes], out: IO[bytes]) -> None:
        self._lines, self._out = lines, out
        self._speaking = threading.Lock()

    def send_message(self, message: Mapping[str, Any]) -> None:
        """Send a message to the placement; a broken connection is ignored."""
        with self._speaking, suppress(OSError):
            self._out.write(encode_message(message))
            self._out.flush()

    def next_message(self) -> dict[str, Any]:
        """Wait for the placement's next message; end this process when the connection has ended."""
        message = None
        with suppress(OSError):
            message = decode_message(self._lines.readline())
        return message or end_self()


def connect_to_placement(address: str) -> PlacementConnection:
    """Connect to the placement at HOST:PORT; end this process if nobody there knows the job's token."""
    rank = int(os.environ[RANK_VARIABLE])
    who = {"rank": rank, "host": os.uname().nodename}
    try:
        connection, lines = connect_as(f"rank {rank}", address, take_token(), who)
    except OSError:
        end_self()
    return PlacementConnection(lines, connection.makefile("wb"))


def start_rank(orders: Mapping[str, Any]) -> subprocess.Popen[bytes] | Fork:
    """Start the rank's process: a fork of a server if possible, else a new interpreter.

    Args:
        orders: the keys `module`, `arguments`, `directory`, `environment` (added to this process's), and `fork`, whether
            a fork is wanted.

    Raises:
        OSError: it cannot be started.
    """
    module, arguments, directory = orders["module"], orders["arguments"], orders["directory"]
    environment = {**os.environ, **orders["environment"]}
    if RENDEZVOUS_VARIABLE in environment:
        environment = {**interface_variables(environment[RENDEZVOUS_VARIABLE]), **environment}
    if orders["fork"] and (fork := start_fork(module, arguments, environment, directory)):
        return fork
    return subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
        [sys.executable, "-P", "-m", module, *arguments],
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def follow_process(
    process: subprocess.Popen[bytes] | Fork, forward: Callable[[str, str], None]
) -> int:
    """Forward a process's output until it ends; return its exit code, 128 + n for signal n.

    Args:
        process: with pipes for its output.
        forward: gets "stdout" or "stderr", and a line.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    streams = {"stdout": process.stdout, "stderr": process.stderr}

    ended = threading.Event()

    def pump_stream(name: str) -> None:
        with suppress(OSError, ValueError):
            for line in lines_of(streams[name], ended.is_set):
                forward(name, line.decode(errors="replace"))

    pumps = [threading.Thread(target=pump_stream, args=(name,), daemon=True) for name in streams]
    for each in pumps:
        each.start()
    code = process.wait()
    ended.set()
    for each in pumps:
        each.join(LATE_WORDS)
    return code if code >= 0 else 128 - code


def lines_of(stream: IO[bytes], has_ended: Callable[[], bool]) -> Iterator[bytes]:
    """Yield the lines that a process writes, as they come; a carriage return ends a line, too.

    Args:
        has_ended: whether the process has ended; a child of it may hold the stream open.
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


def main(address: str = "") -> int:
    """Start a rank as the placement orders, forward its output and signals, and return its exit code."""
    link = (
        connect_to_placement(address)
        if address
        else PlacementConnection(sys.stdin.buffer, sys.stdout.buffer)
    )
    orders = link.next_message()
    try:
        if address:
            require_horovod_for_mpi()  # that of this host
        process = start_rank(orders)
    except (LaunchError, OSError) as error:
        link.send_message({"stream": "stderr", "text": f"host {os.uname().nodename}: {error}"})
        link.send_message({"exit": 1})
        return 1
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: process.send_signal(number))
    threading.Thread(target=link.next_message, daemon=True).start()
    code = follow_process(
        process, lambda name, line: link.send_message({"stream": name, "text": line})
    )
    link.send_message({"exit": code})
    return code


if __name__ == "__main__":
    exit_now(main(*sys.argv[1:]))
