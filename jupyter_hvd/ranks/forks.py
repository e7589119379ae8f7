"""Starts ranks on this machine as forks of processes that have imported TensorFlow.

Importing TensorFlow is most of what a rank does at its start, and of what a short run does at all. `forkserver.py`
imports once and forks. Who is started to be a rank asks for a fork, passes signals on to it, and ends as it ends;
where there is no server, it does the work itself:

    python -P -m jupyter_hvd.ranks.forks [--without-horovod] MODULE ARGUMENTS…

runs the `main` of a module so.

There are two servers: one forks what runs alone and rank 0, the other the other ranks. What differs between two processes
of a real job by itself, such as the order of a set of strings, so differs between ranks here, too. Where it is asked
for, the first leaves behind a third, forked before it has imported Horovod, for what must do without.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from ..launch.base import rank_environment
from ..launch.reaper import private_folder

#: What takes most of the time to import.
TENSORFLOW = ("numpy", "tensorflow")
HOROVOD = "horovod.tensorflow"
#: Names the environment of the servers and the folder of their sockets to a process that may ask them.
FORKS_VARIABLE = "JUPYTER_HVD_FORKS"
SOCKETS = ("rank-0", "other-ranks")
WITHOUT_HOROVOD = "--without-horovod"
#: An exit code, or the length of a request.
NUMBER = struct.Struct("!i")
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextmanager
def start_forkservers(
    folder: Path, job: str, modules: Sequence[str] = (), without_horovod: bool = False
) -> Iterator[Mapping[str, str]]:
    """Start fork servers for a block, and yield the variables by which processes find them; none if impossible.

    If the environment already names servers, these are used.

    Args:
        folder: for the sockets; only this user can enter it.
        job: the servers' job; their children get the name of the job that asks.
    """
    if sys.platform != "linux":  # elsewhere, system libraries do not bear to be forked
        yield {}
        return
    if inherited := _inherited_variables():
        yield inherited
        return
    with ExitStack() as servers:
        first, second = SOCKETS
        before = [WITHOUT_HOROVOD] if without_horovod else []
        servers.enter_context(_start_server(folder, job, [*before, HOROVOD, *modules, first]))
        servers.enter_context(_start_server(folder, job, [HOROVOD, *modules, second]))
        yield {FORKS_VARIABLE: f"{sys.prefix}:{folder}"}


@contextmanager
def separate_forkservers(modules: Sequence[str] = ()) -> Iterator[Mapping[str, str]]:
    """Start fork servers for a block in a job of their own, so that they survive the end of their children's jobs."""
    with private_folder() as folder, start_forkservers(folder.path, folder.job, modules) as found:
        yield found


def _inherited_variables() -> Mapping[str, str]:
    """Return the variables of servers that the environment names already."""
    found = _socket_folder(os.environ)
    return {} if found is None else {FORKS_VARIABLE: os.environ[FORKS_VARIABLE]}


def _socket_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder of sockets that an environment names, unless the servers run another Python."""
    prefix, _, folder = environment.get(FORKS_VARIABLE, "").rpartition(":")
    return Path(folder) if prefix == sys.prefix else None


@contextmanager
def _start_server(folder: Path, job: str, order: Sequence[str]) -> Iterator[None]:
    """Start a process that imports TensorFlow and then what is in `order`; at the name of a socket it leaves a server behind."""
    named = [name for name in order if name in (*SOCKETS, WITHOUT_HOROVOD)]
    with ExitStack() as kept:
        listeners = {name: kept.enter_context(socket.socket(socket.AF_UNIX)) for name in named}
        with _short_alias(folder) as place:
            for name, listener in listeners.items():
                listener.bind(f"{place}/{name}")
                listener.listen()
        numbers = {name: listener.fileno() for name, listener in listeners.items()}
        process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
            [
                *(sys.executable, "-P", "-m", "jupyter_hvd.ranks.forkserver"),
                *(*TENSORFLOW, *(str(numbers.get(word, word)) for word in order)),
            ],
            env=rank_environment(job),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=list(numbers.values()),
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
def _short_alias(folder: Path) -> Iterator[str]:
    """Give a shorter name of a folder for a block, as that of a socket has room for a hundred bytes only."""
    descriptor = os.open(folder, os.O_PATH)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class Fork:
    """A fork that runs a module's `main`.

    Attributes:
        stdout, stderr: what it writes, where it has pipes.
    """

    def __init__(
        self,
        server: socket.socket,
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,
    ) -> None:
        self._server, self.stdout, self.stderr = server, stdout, stderr

    def wait(self) -> int:
        """Wait for the fork's end and return its exit code, as a shell would."""
        told = b""
        with suppress(OSError):
            told = self._server.recv(NUMBER.size)
        # Where the server has gone, nobody knows of the child.
        return int(NUMBER.unpack(told)[0]) if told else 128 + signal.SIGKILL

    def send_signal(self, number: int) -> None:
        """Ask the server to send a signal to the fork; ignored if the server has ended."""
        with suppress(OSError):
            self._server.send(bytes([number]))


def ask_fork(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    streams: Sequence[int] = (0, 1, 2),
    name: str = "",
) -> socket.socket | None:
    """Ask a server for a fork that runs a module's `main`; return the connection to the server, None if there is none.

    Args:
        streams: descriptors of its standard streams.
        name: of the server; that of the environment's rank by default.
    """
    folder = _socket_folder(environment)
    name = name or SOCKETS[environment.get("HOROVOD_RANK", "0") != "0"]
    if folder is None:
        return None
    server = socket.socket(socket.AF_UNIX)
    try:
        with _short_alias(folder) as place:
            server.connect(f"{place}/{name}")
        text = json.dumps([module, arguments, dict(environment), directory]).encode()
        socket.send_fds(server, [NUMBER.pack(len(text))], streams)
        server.sendall(text)
        if server.recv(1):
            return server
    except OSError:
        pass
    server.close()
    return None


def start_fork(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], directory: str
) -> Fork | None:
    """Start a fork that reads nothing and writes to pipes; None if there can be none."""
    ends = [os.open(os.devnull, os.O_RDONLY), *os.pipe(), *os.pipe()]
    nothing, out, into_out, error, into_error = ends
    streams = (nothing, into_out, into_error)
    server = ask_fork(module, arguments, environment, directory, streams)
    for descriptor in (*streams, *((out, error) if server is None else ())):
        os.close(descriptor)
    return None if server is None else Fork(server, open(out, "rb"), open(error, "rb"))  # noqa: PTH123


def run_forked(module: str, arguments: Sequence[str], name: str = "") -> int | None:
    """Run a module in a fork that takes this process's place; return its exit code, None if there can be no fork. See
    `ask_fork`.
    """
    try:
        directory = os.getcwd()  # noqa: PTH109 — as it is named
    except OSError:  # it has been removed
        return None
    server = ask_fork(module, arguments, os.environ, directory, name=name)
    if server is None:
        return None
    fork = Fork(server)
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: fork.send_signal(number))
    return fork.wait()


class ForkServerCache:
    """Servers that are kept from one start of ranks to the next, as long as the environment stays what it was."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules
        self._kept = ExitStack()
        self._environment: Mapping[str, str] = {}
        self._server_variables: Mapping[str, str] = {}

    def server_variables(self) -> Mapping[str, str]:
        """Return the variables by which ranks find the servers; they are started if there are none, or the environment has
        changed.
        """
        if inherited := _inherited_variables():
            return inherited
        if not self._server_variables or self._environment != os.environ:
            self.end_servers()
            self._environment = dict(os.environ)
            self._server_variables = self._kept.enter_context(separate_forkservers(self._modules))
        return self._server_variables

    def end_servers(self) -> None:
        """End the servers, to free their memory."""
        self._server_variables = {}
        self._kept.close()


def main() -> None:
    """Run a module in a fork if possible, else in this process."""
    given = sys.argv[1:]
    name = given.pop(0) if given[0] == WITHOUT_HOROVOD else ""
    module, *arguments = given
    code = run_forked(module, arguments, name)
    if code is None:
        sys.argv[1:] = arguments
        code = importlib.import_module(module).main()
    sys.exit(code)


if __name__ == "__main__":
    main()
