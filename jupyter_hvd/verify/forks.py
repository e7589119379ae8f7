"""Where a run of a verification comes from: forks of processes that have imported TensorFlow already.

Importing TensorFlow is most of what a short run does, and a verification consists of short runs. `forkserver.py`
imports once and forks. Who is started to run a program asks for a fork, passes signals on to it, and ends as it
ends; where there is no server, it runs the program itself.

There are two servers: one forks what runs alone and rank 0, the other the other ranks. What differs between two processes
of a real job by itself, such as the order of a set of strings, so differs between ranks here, too.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ..launchers.base import rank_environment

#: Names the environment of the servers and the folder of their sockets to a process that may ask them.
FORKS_VARIABLE = "JUPYTER_HVD_FORKS"
SOCKETS = ("rank-0", "other-ranks")
#: An exit code, or the length of a request.
NUMBER = struct.Struct("!i")
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextmanager
def forkservers(folder: Path, job: str) -> Iterator[Mapping[str, str]]:
    """Servers for a block, and the variables by which processes find them; none where they cannot be.

    Several verifications in turn, or several processes, share those that the environment already names.

    Args:
        folder: that only this user can enter; the sockets are there.
        job: the servers' own. Their children bear the name of the job that asks.
    """
    if sys.platform != "linux":  # elsewhere, system libraries do not bear to be forked
        yield {}
        return
    if _sockets() is not None:
        yield {FORKS_VARIABLE: os.environ[FORKS_VARIABLE]}
        return
    with ExitStack() as servers:
        for name in SOCKETS:
            servers.enter_context(_server(folder, name, rank_environment(job)))
        yield {FORKS_VARIABLE: f"{sys.prefix}:{folder}"}


def _sockets() -> Path | None:
    """The folder that the environment names, unless it is of servers of another Python."""
    prefix, _, folder = os.environ.get(FORKS_VARIABLE, "").rpartition(":")
    return Path(folder) if prefix == sys.prefix else None


@contextmanager
def _server(folder: Path, name: str, environment: Mapping[str, str]) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as listener:
        with _short(folder) as place:
            listener.bind(f"{place}/{name}")
        listener.listen()
        process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
            [sys.executable, "-P", "-m", "jupyter_hvd.verify.forkserver", str(listener.fileno())],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    try:
        yield
    finally:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        process.kill()
        process.wait()


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """Another name of a folder: that of a socket has room for a hundred bytes."""
    descriptor = os.open(folder, os.O_PATH)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def run_forked(arguments: list[str]) -> int | None:
    """The exit code of a fork that has run `verify.rank` with these arguments; None where none can be had."""
    folder = _sockets()
    if folder is None:
        return None
    with socket.socket(socket.AF_UNIX) as server:
        try:
            with _short(folder) as place:
                server.connect(f"{place}/{SOCKETS[os.environ.get('HOROVOD_RANK', '0') != '0']}")
            request = [arguments, dict(os.environ), os.getcwd()]  # noqa: PTH109 — as it is named
            text = json.dumps(request).encode()
            socket.send_fds(server, [NUMBER.pack(len(text))], [0, 1, 2])
            server.sendall(text)
            if not server.recv(1):
                return None
        except OSError:
            return None
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: server.send(bytes([number])))
        with suppress(OSError):
            if code := server.recv(NUMBER.size):
                return int(NUMBER.unpack(code)[0])
        return 128 + signal.SIGKILL  # the server has gone, and nobody knows of the child
