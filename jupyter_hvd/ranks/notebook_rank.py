"""A notebook's rank: `python -m jupyter_hvd.ranks.notebook_rank`, started by a launcher, or a fork (`forks.py`) that runs `main`.

It joins Horovod, then answers requests of the kernel, which name functions of `remote.py` and `variables.py`.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import zmq
from ipykernel.iostream import OutStream
from ipykernel.zmqshell import ZMQInteractiveShell
from traitlets.config import Config

from ..files import cache_folder
from ..launch.authentication import TOKEN_VARIABLE
from ..launch.heartbeat import MESSAGES_VARIABLE, HeartbeatClient, end_self
from ..launch.start_faults import JOINED
from ..launch.temporary_files import note_temporary_files
from . import remote
from .debugger import install_debugger
from .imports import pause_gc
from .job_rank import require_all_ranks
from .magic_output import make_quiet
from .messages import ANSWER, CALL, READY, Messages, dump, load, open_socket
from .reply import describe_error
from .trained_weights import join_ranks

Request = Mapping[str, Any]


def main() -> None:
    """Join Horovod and answer the kernel's requests until the heartbeat connection breaks."""
    note_temporary_files()
    rank, token = os.environ["HOROVOD_RANK"], os.environ[TOKEN_VARIABLE]
    kernel = os.environ.pop(MESSAGES_VARIABLE)
    held = HeartbeatClient(f"rank {rank}")
    remote.heartbeat_client = held
    remote.keep_outputs()
    signal.signal(signal.SIGINT, remote.handle_sigint)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    held.send_message({"stage": "importing TensorFlow"})
    with pause_gc():
        import horovod.tensorflow as hvd

    held.send_message({"stage": "joining Horovod"})
    require_all_ranks(remote.join_horovod())
    hvd.join = (
        join_ranks  # for cells that use Horovod by themselves: its own works once in a process
    )
    remote.share_cells()
    held.send_message({"stage": JOINED})
    requests = Requests(kernel, rank, token)
    requests.answer_calls(make_shell(requests.messages))


class Requests:
    """Takes the kernel's requests. Calls are answered one after the other, by the main thread.

    Attributes:
        messages: to the kernel.
    """

    def __init__(self, kernel: str, rank: str, token: str) -> None:
        """
        Args:
            kernel: where it listens, `host:port`.
        """
        self._calls = SimpleQueue[Request]()
        socket = open_socket(zmq.DEALER, token)
        socket.identity = rank.encode()
        self.messages = Messages(socket, token, self._take_request)
        monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        # What was on its way is lost, so this rank is, too.
        threading.Thread(target=lambda: (monitor.recv(), end_self()), daemon=True).start()
        socket.connect(f"tcp://{kernel}")

    def answer_calls(self, shell: Any) -> None:
        """Tell the kernel that this rank takes requests, and answer calls until the process ends."""
        self.messages.send_data(READY)
        while True:
            self._run_call(shell, self._calls.get())

    def _run_call(self, shell: Any, call: Request) -> None:
        """Run a call in the main thread and send its result; output is labelled with the call's header."""
        shell.set_parent({"header": call["header"]})  # not what came with it, which may be large
        remote.begin_call(call["header"]["call"])
        self._answer(call)

    def _take_request(self, _: Sequence[bytes], request: Request) -> None:
        """Queue a call for the main thread; answer a question in a thread of its own."""
        if request["msg_type"] == CALL:
            self._calls.put(request)
        else:  # a thread of its own: a function that does not return holds up no other question
            name = "hvd-question"
            threading.Thread(target=self._answer, args=(request,), name=name, daemon=True).start()

    def _answer(self, request: Request) -> None:
        """Call the function that a request names, and send its result, or the error that it raised."""
        try:
            function, *args = load(request)
            answer = dump(function(*args))
        except BaseException as error:
            answer = dump(describe_error(error))
        if request["msg_type"] == CALL:
            sys.stdout.flush()
            sys.stderr.flush()
        self.messages.send_data(ANSWER, answer, parent=request)


class RankShell(ZMQInteractiveShell):
    """The shell of a rank, which has no kernel around it."""

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing: `%matplotlib inline` needs no event loop here."""

    def ask_exit(self) -> None:
        """End the cell when it calls `exit()`, as `sys.exit()` does."""
        raise SystemExit


def make_shell(messages: Messages) -> Any:
    """Create the shell in which cells run; displays and Python's output go to the kernel as messages.

    Output of C++ goes through the launcher instead, so that a crash does not lose it.
    """
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    config = Config({"HistoryManager": {"hist_file": ":memory:"}})
    shell = RankShell.instance(config=config, ipython_dir=str(ipython_directory()))
    for publisher in (shell.displayhook, shell.display_pub):
        publisher.session, publisher.pub_socket = messages.session, messages
    make_quiet(shell)
    shell.extension_manager.load_extension("storemagic")
    for name in ("stdout", "stderr"):
        stream = OutStream(messages.session, messages, name, watchfd=False)  # type: ignore[no-untyped-call]
        setattr(sys, name, stream)
    install_debugger(messages)
    sys.path.insert(0, "")  # as in a kernel: what lies beside the notebook can be imported
    return shell


def ipython_directory() -> Path:
    """Return a folder for IPython's files without start-up scripts; a temporary one if the cache is not writable."""
    cache = cache_folder() / "ipython"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="jupyter-hvd-ipython-"))
    return cache


if __name__ == "__main__":
    main()
