"""A process that runs one program after another as it is, observed in detail: a rank, or one process beside the ranks.

`living_referee.py ADDRESS`, started once by the project's own launchers. It is told over a socket what to run, and answers with
the record of each run, as `jupyter hvd verify --against` makes it.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import traceback
import types
from multiprocessing.connection import Client
from pathlib import Path

from jupyter_hvd.launch.rank_location import own_files
from jupyter_hvd.verify.exact.observer import Observer
from jupyter_hvd.verify.exact.rank import last_line
from jupyter_hvd.verify.exact.records import Record

sys.path.insert(0, str(Path(__file__).parents[1] / "exact"))

from living import begin

RANK = int(os.environ.get("HOROVOD_RANK", "-1"))


def run(tf, order: dict) -> Record:
    """Run a program. `order` has its path, its seed, how much that grows with the rank, and limits of the observer."""
    begin(tf, order["seed"] + order["seeds_apart"] * max(RANK, 0))
    observer = Observer(**order["limits"], details=True)
    observer.install()
    path, error = order["path"], ""
    own_files[path] = ""
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__file__ = path
    code = 0
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException:
            error, code = traceback.format_exc(), 1
    record = observer.make_record(rank=max(RANK, 0), error=last_line(error), code=code)
    observer.uninstall()
    return record


def main(address: str) -> None:
    connection = Client(address)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    if RANK >= 0:
        import horovod.tensorflow as hvd

        hvd.init()
    gc.collect()
    gc.freeze()
    connection.send((int(os.environ.get("HOROVOD_SIZE", "1")), RANK, os.getpid()))
    while True:
        try:
            order = connection.recv()
        except EOFError:
            return
        connection.send(run(tf, order))


if __name__ == "__main__":
    main(sys.argv[1])
