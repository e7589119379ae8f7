"""One living rank: `python -m jupyter_hvd.ranks.notebook_rank`, started by a launcher, or a fork (`forks.py`) that runs `main`.

It joins Horovod, then becomes an ipyparallel engine whose id is its rank. What the
kernel asks of it, it asks by calling the functions of `remote.py`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..files import cache_folder
from ..launch.heartbeat import HeartbeatClient
from ..launch.temporary_files import note_temporary_files
from . import remote
from .imports import pause_gc
from .job_rank import require_all_ranks
from .questions import add_questions
from .trained_weights import join_ranks


def main() -> None:
    note_temporary_files()
    rank = int(os.environ["HOROVOD_RANK"])
    held = HeartbeatClient(f"rank {rank}")
    remote.lifeline = held
    remote.keep_outputs()
    signal.signal(signal.SIGINT, remote.heed_interrupt)
    held.interrupt = remote.interrupt_call
    held.send_message({"stage": "importing TensorFlow"})
    with pause_gc():
        import horovod.tensorflow as hvd

    held.send_message({"stage": "joining Horovod"})
    require_all_ranks(remote.join_horovod())
    held.abort = remote.abort_call
    hvd.join = (
        join_ranks  # for cells that use Horovod by themselves: its own works once in a process
    )
    remote.share_cells()
    held.send_message({"stage": "joined"})
    connection, identity = held.wait_for("connection"), held.wait_for("engine")
    os.environ["IPP_CONNECTION_INFO"] = json.dumps(connection)
    run_engine(rank, identity)


def run_engine(rank: int, identity: str) -> None:
    """Be an engine until the end, under an identity that the kernel alone knows besides."""
    import ipyparallel.engine.app
    from ipykernel.iostream import OutStream
    from ipyparallel.engine.kernel import IPythonParallelKernel

    class PythonOutStream(OutStream):
        """Python's own output; what C++ writes goes through the launcher, and is not lost in a crash."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "watchfd": False})  # type: ignore[no-untyped-call]

        def write(self, string: str) -> int:
            remote.printed += len(string)
            return super().write(string) or 0

    class RankEngine(ipyparallel.engine.app.IPEngine):  # type: ignore[misc]
        def init_signal(self) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

        def to_work_dir(self) -> None:
            """It stays where it was begun; ipyparallel would go where it was imported, which is a server's folder."""

        def initialize(self, argv: Any = None) -> None:
            super().initialize(argv)
            del os.environ["IPP_CONNECTION_INFO"]  # the key is not for what a cell starts
            sys.path.insert(0, "")  # as in a kernel: what lies beside the notebook can be imported

    add_questions(IPythonParallelKernel)
    # ipykernel's own would interrupt whatever it does with a message, the sending of the answer too.
    IPythonParallelKernel.pre_handler_hook = lambda _: None
    IPythonParallelKernel.post_handler_hook = lambda _: None
    sys.argv = [sys.argv[0]]
    RankEngine.launch_instance(
        argv=[
            f"--ipython-dir={ipython_directory()}",
            "--log-level=ERROR",
            "--IPEngine.enable_nanny=False",  # the lifeline does its work with no second process
            "--IPEngine.max_heartbeat_misses=0",  # so here
            f"--IPEngine.id={rank}",
            f"--Session.session={identity}",
            "--IPEngine.timeout=60",
        ],
        out_stream_factory=PythonOutStream,
    )


def ipython_directory() -> Path:
    """A home for IPython's files in which no start-up script of the user's stands."""
    cache = cache_folder() / "ipython"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="jupyter-hvd-ipython-"))
    return cache


if __name__ == "__main__":
    main()
