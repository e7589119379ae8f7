"""A process that runs one program after another: a living rank, or one process beside them.

`living.py ADDRESS`, started once by the project's own launchers. It asks for programs over a socket, runs each
in a namespace of its own and answers with what it saw of it: see `outcome`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import hashlib
import io
import os
import signal
import sys
import traceback
import types
from collections import Counter
from multiprocessing.connection import Client
from pathlib import Path

RANK = int(os.environ.get("HOROVOD_RANK", "-1"))  # -1: one process, without Horovod


class Watch:
    """What the program that runs now has done.

    Attributes:
        variables: all that it made, in order. rows: the examples that a model saw under a tape, where its steps are
            not compiled. opened: the files that Python opened for writing.
    """

    def __init__(self) -> None:
        self.variables: list = []
        self.rows: Counter[str] = Counter()
        self.opened: list[str] = []
        self.inside = 0


watch = Watch()


def keep_variables() -> None:
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

    original = BaseResourceVariable.__init__

    def made(self, *args, **kw):
        original(self, *args, **kw)
        watch.variables.append(self)

    BaseResourceVariable.__init__ = made


def keep_rows(tf) -> None:
    from tensorflow.python.eager import record

    original = tf.keras.Model.__call__

    def called(self, inputs, *args, **kw):
        seen = watch.inside == 0 and record.could_possibly_record()
        first = tf.nest.flatten(inputs)[0]
        if seen and hasattr(first, "numpy"):
            watch.rows.update(map(name_of, first.numpy()))
        watch.inside += 1
        try:
            return original(self, inputs, *args, **kw)
        finally:
            watch.inside -= 1

    tf.keras.Model.__call__ = called


def name_of(array) -> str:
    return hashlib.sha1(array.tobytes(), usedforsecurity=False).hexdigest()[:12]


def note_opened(event: str, arguments: tuple) -> None:
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    if event == "open" and isinstance(arguments[0], str) and arguments[2] & writes:
        watch.opened.append(arguments[0])


def run(order: dict) -> dict:
    """Run a program; how it ended, and what was seen of it."""
    global watch
    import tensorflow as tf

    tf.keras.backend.clear_session()
    tf.keras.mixed_precision.set_global_policy("float32")
    watch = Watch()
    gc.collect()
    folder = Path(order["folder"])
    os.chdir(folder)
    # Who has created a file stands in its mode.
    os.umask(0o077 if RANK > 0 else 0o022)
    tf.keras.utils.set_random_seed(order["seed"] + max(RANK, 0))
    tf.config.run_functions_eagerly(order["eager"])
    printed, said = io.StringIO(), io.StringIO()
    module = types.ModuleType("__main__")
    module.__file__ = order["path"]
    error = ""
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        try:
            exec(compile(order["source"], order["path"], "exec"), module.__dict__)
        except BaseException as failure:
            error = "".join(traceback.format_exception(failure))
    return outcome(error, printed.getvalue())


def has_value(variable) -> bool:
    try:
        return bool(variable.is_initialized())
    except Exception:  # it belongs to a graph, a dataset's perhaps
        return False


def outcome(error: str, printed: str) -> dict:
    """Weights are what is trained and how often; state is all else but metrics: ranks may differ in it."""
    made = [v for v in watch.variables if type(v).__name__ != "_UnreadVariable" and has_value(v)]
    trained = [v for v in made if v.trainable]
    counters = [v for v in made if v.name.startswith("iter")]
    return {
        "rank": RANK,
        "error": error,
        "weights": [v.numpy() for v in trained],
        "names": [v.name for v in trained],
        # Horovod copies an optimizer: the first one then counts nothing.
        "steps": [steps for v in counters if (steps := int(v.numpy()))],
        "rows": dict(watch.rows),
        "opened": [name for name in watch.opened if not name.startswith(("/dev", "/proc", "/sys"))],
        "printed": printed,
    }


def main(address: str) -> None:
    connection = Client(address)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if RANK >= 0:
        import horovod.tensorflow as hvd

        import jupyter_hvd.runtime  # noqa: F401

        hvd.init()
    keep_variables()
    keep_rows(tf)
    stacks = (Path(address).parent / f"stack-{RANK}").open("w")
    faulthandler.register(signal.SIGUSR1, file=stacks)
    sys.addaudithook(note_opened)
    gc.collect()
    gc.freeze()
    connection.send((RANK, os.getpid()))
    while True:
        try:
            order = connection.recv()
        except EOFError:
            return
        connection.send(run(order))


if __name__ == "__main__":
    main(sys.argv[1])
