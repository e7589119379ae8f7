"""A process that runs one program after another: a rank that shares, or one process beside them.

`living.py ADDRESS [SEED]`, started once by the project's own launchers. It is told over a socket what to run, and answers
with what the program printed, its histories and its weights.
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

sys.path.insert(0, str(Path(__file__).parent))

RANK = int(os.environ.get("HOROVOD_RANK", "-1"))
#: Reads of a variable, and variables that are saved in or loaded from a SavedModel.
OTHERS = ("_UnreadVariable", "UninitializedVariable")
variables: list = []
histories: list = []


def keep_variables(tf) -> None:
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

    original = BaseResourceVariable.__init__

    def made(self, *args, **kw):
        original(self, *args, **kw)
        variables.append(self)

    BaseResourceVariable.__init__ = made
    load = tf.saved_model.load

    def loaded(*args, **kw):
        """A SavedModel's variables come in the order of a set: what is computed with them is compared where it is printed."""
        before = len(variables)
        try:
            return load(*args, **kw)
        finally:
            del variables[before:]

    tf.saved_model.load = loaded
    fit = tf.keras.Model.fit

    def kept(self, *args, **kw):
        history = fit(self, *args, **kw)
        histories.append({k: [float(x) for x in v] for k, v in history.history.items()})
        return history

    tf.keras.Model.fit = kept


def values() -> list:
    """Of what is trained and no metric; those of a dataset's graph have none.

    A SavedModel's variables come in the order of a set, so they are compared by what the program prints of them.
    """
    found = []
    for variable in variables:
        if variable.trainable and type(variable).__name__ not in OTHERS:
            with contextlib.suppress(Exception):
                found.append(variable.numpy())
    return found


def begin(tf, seed: int) -> None:
    tf.keras.backend.clear_session()
    tf.config.run_functions_eagerly(False)
    for module in [m for name, m in sys.modules.items() if name in ("keras", "tf_keras")] + [
        tf.keras
    ]:
        with contextlib.suppress(AttributeError):
            module.mixed_precision.set_global_policy("float32")
    variables.clear()
    histories.clear()
    gc.collect()
    np = importlib.import_module("numpy")
    random.seed(seed)
    np.random.seed(seed)
    np.random.bit_generator.randbits = random.Random(seed).getrandbits
    tf.keras.utils.set_random_seed(seed)
    tf.random.set_global_generator(tf.random.Generator.from_seed(seed))


def run(tf, order: dict) -> dict:
    from jupyter_hvd.runtime.sharing import report
    from jupyter_hvd.runtime.sharing.context import sharing

    begin(tf, order["seed"])
    sharing.has_shared = False
    report._told.clear()
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
    return {
        "error": error,
        "printed": printed.getvalue(),
        "histories": list(histories),
        "weights": values(),
        "told": [line for line in told.getvalue().splitlines() if line.startswith("jupyter_hvd:")],
        "shared": sharing.has_shared,
    }


def main(address: str) -> None:
    connection = Client(address)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    if RANK >= 0:
        from jupyter_hvd.runtime.sharing.program import start_sharing

        start_sharing()
    keep_variables(tf)
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
        connection.send(run(tf, order))


if __name__ == "__main__":
    main(sys.argv[1])
