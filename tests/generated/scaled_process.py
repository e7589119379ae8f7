"""Runs programs in one process that pretends to be several ranks, and notes what they do by examples seen."""

from __future__ import annotations

import ast
import contextlib
import gc
import io
import os
import sys
import types
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from jupyter_hvd.runtime.scaling import VIRTUAL_SIZE_VARIABLE
from jupyter_hvd.verify.exact import number_recorder
from jupyter_hvd.verify.exact.records import Record

NAME = "program.py"


@dataclass(frozen=True)
class ScaledRun:
    """What a program did.

    Attributes:
        printed: what each `print` has written, with the number of events that were observed before.
    """

    record: Record
    printed: tuple[tuple[int, str], ...]
    error: str


class _Process:
    """What one process has once it has imported TensorFlow."""

    observer: Any = None


def start() -> None:
    """Import TensorFlow, and watch this process."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    from jupyter_hvd.verify.exact import observer

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    # Batches and rates are enough; gradients and variables would take most of the time.
    observer.measure_parts = observer.project_batch_rows = lambda _: np.zeros(0)
    _Process.observer = observer.Observer(details=True)
    _Process.observer.install()
    gc.collect()
    gc.freeze()


def run(source: str, size: int) -> ScaledRun:
    """Run a program as one process that pretends to be so many ranks."""
    import tensorflow as tf

    os.environ[VIRTUAL_SIZE_VARIABLE] = str(size)
    observer = _Process.observer
    observer.begin_program()
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(1)
    printed: list[tuple[int, str]] = []
    module = types.ModuleType("__main__")

    def note(*values: object, **_: object) -> None:
        printed.append((len(observer._events), " ".join(map(str, values))))

    module.__dict__.update(__file__=NAME, print=note, **number_recorder.GLOBALS)
    error = ""
    before = sys.modules["__main__"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            sys.modules["__main__"] = module
            tree = number_recorder.recorder.instrument(ast.parse(source), NAME)
            exec(compile(tree, NAME, "exec"), module.__dict__)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        finally:
            sys.modules["__main__"] = before
    return ScaledRun(observer.make_record(), tuple(printed), error)


def pool() -> ProcessPoolExecutor:
    """One process in which programs are run one after another."""
    return ProcessPoolExecutor(1, get_context("spawn"), start)
