"""Imports TensorFlow and forks, for `forks.py`: `python -P -m jupyter_hvd.ranks.forkserver (MODULE … LISTENER) …`.

Each listener is served by a process that has imported the modules before it: the last by this one, the others by its forks.
It makes no tensor and opens no device before it forks, and has no thread but NumPy's own, which bear it. A child
takes over the standard streams, the environment, the folder and the job's name of the process that asked for it.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass

from ..launch.base import JOB_VARIABLE
from .fork_exit import ForkExit
from .forks import NUMBER
from .imports import pause_gc

#: Seconds for a request to arrive once it has begun.
PATIENCE = 10.0


@dataclass(frozen=True)
class Request:
    """The child to fork: a module's `main`, its arguments, environment and folder, and its standard streams."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    streams: list[int]


@dataclass(frozen=True)
class Child:
    pid: int
    asking: socket.socket


class ForkServer:
    """Forks for each request, passes signals on, and reports how each child ends.

    Its standard input is held open by who began it; it ends with that.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._watched = selectors.DefaultSelector()
        self._watched.register(listener, selectors.EVENT_READ)
        self._watched.register(sys.stdin.fileno(), selectors.EVENT_READ)

    def serve_forks(self) -> Request | None:
        """Fork for each request; return the request in each child, and None in the server at its end."""
        while True:
            for key, _ in self._watched.select():
                if key.fd not in self._watched.get_map():
                    continue  # of a child that was found to have ended just now
                if key.fileobj is self._listener:
                    if (request := self._answer_request()) is not None:
                        return request
                elif isinstance(key.data, Child):
                    self._handle_child_event(key.data, key.fileobj is key.data.asking, key.fd)
                else:
                    return None

    def _answer_request(self) -> Request | None:
        """Read a request and fork; return the request in the child."""
        asking, _ = self._listener.accept()
        try:
            asking.settimeout(PATIENCE)
            request = read_request(asking)
        except (OSError, ValueError, struct.error):
            asking.close()
            return None
        pid = os.fork()
        if pid == 0:
            asking.close()
            self._close_in_child()
            return request
        for stream in request.streams:
            os.close(stream)
        child = Child(pid, asking)
        self._watched.register(asking, selectors.EVENT_READ, child)
        self._watched.register(os.pidfd_open(pid), selectors.EVENT_READ, child)
        with suppress(OSError):
            asking.send(b"!")
        return None

    def _close_in_child(self) -> None:
        """Close, in a forked child, the descriptors that the server watches."""
        for key in list(self._watched.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
            elif key.fd != sys.stdin.fileno():
                os.close(key.fd)
        self._watched.close()

    def _handle_child_event(self, child: Child, is_request: bool, descriptor: int) -> None:
        """Send requested signals to a child; or, when it has ended, its exit code to its requester.

        Args:
            is_request: whether the requester's socket is readable; else the child has ended.
            descriptor: the pidfd of the child.
        """
        if is_request:
            numbers = b""
            with suppress(OSError):
                numbers = child.asking.recv(16)
            for number in numbers or [signal.SIGKILL]:  # who asked has gone
                with suppress(ProcessLookupError):
                    os.kill(child.pid, number)
            if not numbers:
                self._watched.unregister(child.asking)
            return
        self._watched.unregister(descriptor)
        os.close(descriptor)
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        with suppress(OSError):
            child.asking.send(NUMBER.pack(code if code >= 0 else 128 - code))
        with suppress(KeyError):
            self._watched.unregister(child.asking)
        child.asking.close()


def read_request(asking: socket.socket) -> Request:
    """Return a request for a fork.

    Raises:
        OSError, ValueError, struct.error: it is none, or incomplete.
    """
    length, streams, *_ = socket.recv_fds(asking, NUMBER.size, 3)
    text, missing = b"", NUMBER.unpack(length)[0]
    while missing > len(text):
        part = asking.recv(missing - len(text))
        if not part:
            raise ConnectionError
        text += part
    module, arguments, environment, folder = json.loads(text)
    return Request(module, arguments, environment, folder, streams)


def adopt_settings(request: Request) -> None:
    """Set arguments, environment, folder and streams of this process as a request for a fork says."""
    os.setsid()
    for descriptor, stream in enumerate(request.streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    set_job_name(request.environment[JOB_VARIABLE])
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    tempfile.tempdir = None  # to be found anew in this environment
    if "numpy" in sys.modules:
        sys.modules[
            "numpy"
        ].random.seed()  # each process draws its own numbers, as Python's own module sees to
    sys.argv[1:] = request.arguments


def set_job_name(job: str) -> None:
    """Overwrite the job name in this process's original environment.

    The system shows the memory in which the environment lay at the start; there a job's processes are searched.
    """
    find = ctypes.CDLL(None).getenv
    find.restype = ctypes.c_void_p
    name = job.encode()
    if len(os.environ[JOB_VARIABLE].encode()) != len(name):
        raise ValueError(f"{job} is not the name of a job")
    ctypes.memmove(find(JOB_VARIABLE.encode()), name, len(name))


def main() -> None:
    """Import what is asked for, serve forks, and run each fork's module."""
    ending = ForkExit()
    *order, listener = sys.argv[1:]
    with pause_gc():
        for word in order:
            if not word.isdigit():
                with suppress(ImportError):  # who needs it says so itself
                    importlib.import_module(word)
            elif os.fork() == 0:
                listener = word
                break
    request = ForkServer(socket.socket(fileno=int(listener))).serve_forks()
    if request is not None:
        adopt_settings(request)
        ending.code = importlib.import_module(request.module).main() or 0
        sys.exit(ending.code)


if __name__ == "__main__":
    main()
