"""A process that runs one program after another: a rank that shares, or one process beside them.

`living.py ADDRESS [SEED]`, started once by the project's own launchers. It is told over a socket what to run, and answers
with the record of each run, as `jupyter hvd verify --batch global` makes it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import io
import os
import random
import signal
import sys
import traceback
import types
from multiprocessing.connection import Client
from pathlib import Path

from jupyter_hvd.ranks.shared_rank import explain_failure
from jupyter_hvd.runtime.scaling import VIRTUAL_SIZE_VARIABLE
from jupyter_hvd.verify.exact import lines
from jupyter_hvd.verify.exact import observer as observing
from jupyter_hvd.verify.exact.rank import last_line
from jupyter_hvd.verify.exact.records import Record

sys.path.insert(0, str(Path(__file__).parent))

RANK = int(os.environ.get("HOROVOD_RANK", "-1"))


def begin(tf, seed: int) -> None:
    tf.keras.backend.clear_session()
    tf.config.run_functions_eagerly(False)
    for module in [m for name, m in sys.modules.items() if name in ("keras", "tf_keras")] + [
        tf.keras
    ]:
        with contextlib.suppress(AttributeError):
            module.mixed_precision.set_global_policy("float32")
    gc.collect()
    np = importlib.import_module("numpy")
    random.seed(seed)
    np.random.seed(seed)
    np.random.bit_generator.randbits = random.Random(seed).getrandbits
    tf.keras.utils.set_random_seed(seed)
    tf.random.set_global_generator(tf.random.Generator.from_seed(seed))


def run(tf, observer: observing.Observer, order: dict) -> Record:
    from jupyter_hvd.runtime.sharing import report
    from jupyter_hvd.runtime.sharing.context import sharing

    observer.begin_program()
    begin(tf, order["seed"])
    if RANK < 0:
        os.environ[VIRTUAL_SIZE_VARIABLE] = str(order.get("virtual", 1))
    sharing.has_shared = False
    report._reported.clear()
    folder = Path(order["folder"]) / str(RANK)
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    printed, told = io.StringIO(), io.StringIO()
    path = order["path"]
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__file__ = path
    error = ""
    mutation = contextlib.nullcontext()
    if order.get("mutant"):
        mutation = importlib.import_module("sharing_mutants").MUTANTS[order["mutant"]](RANK)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told), mutation:
        try:
            exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
        except BaseException:
            error = traceback.format_exc()
    told_lines = told.getvalue().splitlines()
    return observer.make_record(
        rank=max(RANK, 0),
        error=last_line(explain_failure(error)),
        code=int(bool(error)),
        printed=tuple(printed.getvalue().splitlines()),
        folder=str(folder),
        files=tuple(str(f.relative_to(folder)) for f in sorted(folder.rglob("*")) if f.is_file()),
        told=tuple(line for line in told_lines if line.startswith("jupyter_hvd:")),
    )


def main(address: str) -> None:
    connection = Client(address)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    if RANK >= 0:
        from jupyter_hvd.runtime.sharing.program import start_sharing

        start_sharing()
    # What a fault replaces is no line of a program.
    lines.INSTALLED += (str(Path(__file__).parent / "sharing_mutants.py"),)
    observer = observing.Observer()
    observer.install()
    stacks = (Path(address).parent / f"stack-{os.environ.get('HOROVOD_SIZE', 1)}-{RANK}").open("w")
    faulthandler.register(signal.SIGUSR1, file=stacks)
    gc.collect()
    gc.freeze()
    connection.send((int(os.environ.get("HOROVOD_SIZE", "1")), RANK, os.getpid()))
    while True:
        try:
            order = connection.recv()
        except EOFError:
            return
        connection.send(run(tf, observer, order))


if __name__ == "__main__":
    main(sys.argv[1])
