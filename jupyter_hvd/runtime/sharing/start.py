"""The first call of a program that was converted with `--batch global`."""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType


def start_shared(guard: bool = True, data: str = "each") -> None:
    """Share the training of this program among the ranks of its job, with one process's result.

    The program calls it first. From then on all ranks draw the same random numbers. Rank 0 prints, and writes into the
    working folder; every other rank prints nothing, and works on a copy of the folder. Calls of layers and models are
    shared when TensorFlow has been imported. One process alone stays as it is.

    Args:
        guard: compare the data of the ranks, and stop them where these differ.
        data: `each`, every rank reads all data; `rank0`, rank 0 reads datasets and sends what it reads to the others;
            `augment`, as `each`, but each rank draws the random numbers of a dataset's maps for its own rows only.
    """
    from ..scaling import pretend_ranks
    from . import program
    from .launch_environment import launched_by

    launched = launched_by(os.environ)
    if launched is None:
        pretend_ranks()
    # Processes that a rank starts by `multiprocessing` have its environment, and are no ranks.
    if launched is None or program.has_begun() or multiprocessing.parent_process() is not None:
        return
    os.environ.setdefault(program.SEED_VARIABLE, str(launched.seed))
    os.environ.setdefault(program.GUARD_VARIABLE, "1" if guard else "0")
    os.environ.setdefault(program.DATA_VARIABLE, data)
    if launched.rank:
        work_on_a_copy()
        print_nothing(launched.rank)
    program.share_program()


def work_on_a_copy() -> Callable[[], None]:
    """Change to a copy of the working folder, which is removed at exit; return a function that updates it."""
    from .working_copy import renew_copy, work_on_copy

    source, folder = Path.cwd(), Path(tempfile.mkdtemp(prefix="jupyter-hvd-files-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / "files"
    work_on_copy(copy, folder)
    return functools.partial(renew_copy, source, copy, folder)


def print_nothing(rank: int) -> None:
    """Discard the output of this process, since rank 0 prints the same; an error that ends it is still reported."""
    nowhere = open(os.devnull, "w")  # noqa: SIM115, PTH123 — for as long as the process lives
    sys.stdout.flush()
    os.dup2(nowhere.fileno(), 1)
    sys.stdout = sys.stderr = nowhere

    def report(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        lines = traceback.format_exception(kind, error, at)
        print(f"rank {rank}:", *lines, sep="\n", file=sys.__stderr__, flush=True)

    sys.excepthook = report
