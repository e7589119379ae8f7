"""Runs the program in one observed process: `python -P -m jupyter_hvd.verify.exact.rank PROGRAM STATUS_DIR ORIGINAL [ARGS]`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ...ranks.forks import run_forked

#: What an observer is to do: a JSON object of arguments of `Observer`.
LIMITS_VARIABLE = "JUPYTER_HVD_OBSERVE"
#: "same" or "each": the program distributes its training itself, and its ranks begin with one seed, or each with its own.
SEEDS_VARIABLE = "JUPYTER_HVD_SEEDS"
#: Set where a launcher of the user's starts the ranks: by their variables, processes know which rank they are.
LAUNCHED_VARIABLE = "JUPYTER_HVD_LAUNCHED"
RANK_VARIABLES = (
    "HOROVOD_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
    "RANK",
)
SIZE_VARIABLES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "WORLD_SIZE")
#: The addresses of the workers of `tf.distribute`, with commas between them.
WORKERS_VARIABLE = "JUPYTER_HVD_WORKERS"

#: So long a rank that has failed waits for the others to fail, too.
FAILING_SECONDS = 10.0


def limit_variables(
    steps: int | None = None,
    seconds: float = 0.0,
    rounding: int = 0,
    pieces: int = 1,
    details: bool = False,
    numbers: bool = False,
    by_updates: bool = False,
) -> Mapping[str, str]:
    """Return the environment variables that tell an observed process when to end.

    Args:
        steps, seconds: it ends cleanly after these; None and 0 for no limit. the others but numbers: see `Observer`.
        numbers: record the numbers that meet in the program's text (`number_sites.py`).
    """
    given = {
        "steps": steps or sys.maxsize,
        "seconds": seconds or float("inf"),
        "rounding": rounding,
        "pieces": pieces,
        "details": details,
        "numbers": numbers,
        "by_updates": by_updates,
    }
    return {LIMITS_VARIABLE: json.dumps(given)}


def record_stem(folder: Path, rank: int) -> Path:
    """Return the path of a record without its suffixes."""
    return folder / f"record-{rank}"


def report_file(folder: Path) -> Path:
    """Return the file to which rank 0 writes its step count."""
    return folder / "steps"


def main() -> int:
    """Run the program on the command line under observation; return its exit code."""
    from ...ranks.job_rank import ObservedText, hold_heartbeat, run_arguments
    from ...ranks.shared_rank import explain_failure
    from ...runtime.sharing.program import (
        SEED_VARIABLE,
        seed_early,
        seed_tensorflow,
        share_program,
    )
    from ..file_guard import FileGuard
    from ..workspace import ORDERS_VARIABLE, list_changed_files, read_working_state, working_folder
    from .number_recorder import GLOBALS, recorder
    from .observer import Observer
    from .recorded_imports import record_imports
    from .records import save_record

    hold_heartbeat()
    set_cluster_variable()
    ordered = json.loads(os.environ[ORDERS_VARIABLE])
    folder, rank = Path(ordered["folder"]), int(os.environ.get("HOROVOD_RANK", "0"))
    here = working_folder(folder, rank)
    os.chdir(here)
    import tensorflow  # noqa: F401 — sharing and observing begin with it

    seeds = os.environ.get(SEEDS_VARIABLE)
    if "HOROVOD_RANK" in os.environ and seeds is None:
        share_program()
    else:
        common = os.environ.get(SEED_VARIABLE, "0")
        if seeds == "each":
            os.environ[SEED_VARIABLE] = str(int(common) + rank)
        seed_early()
        # `tf.distribute` wants to be set up before TensorFlow makes its first tensor.
        seed_tensorflow(generator=WORKERS_VARIABLE not in os.environ)
        os.environ[SEED_VARIABLE] = (
            common  # a job whose programs seed themselves by it tells all ranks one
        )
    report = report_file(folder) if rank == 0 else None
    limits = json.loads(os.environ[LIMITS_VARIABLE])
    observed = None
    if limits.pop("numbers"):
        observed = ObservedText(recorder.instrument, GLOBALS)
        record_imports(here.resolve())
    observer = Observer(**limits, report=report)
    observer.install()
    guard = FileGuard(*(Path(ordered[name]) for name in ("beside", "own", "temporary")))
    before = read_working_state(here)
    sys.addaudithook(guard)
    errors: list[str] = []

    def note_explanation(text: str) -> str:
        errors.append(explain_failure(text))
        return errors[-1]

    def write_record() -> None:
        files = list_changed_files(before, read_working_state(here))
        record = observer.make_record(
            rank=rank,
            error=last_line(errors[-1] if errors else ""),
            folder=str(here),
            files=tuple(name for name in files if "__pycache__" not in name),
            refused=tuple(guard.refused),
        )
        save_record(record, record_stem(folder, rank))
        if record.error:
            await_records(folder, int(os.environ.get("HOROVOD_SIZE", "1")))

    program, status, original, *arguments = sys.argv[1:]
    # Its imports and its `__file__` belong to the copy that it works on.
    return run_arguments(
        [program, status, str(here / Path(original).name), *arguments],
        write_record,
        note_explanation,
        observed,
    )


def await_records(folder: Path, size: int) -> None:
    """Wait for the records of all ranks if all fail with one process's error: the launcher ends the others when the first
    fails.
    """
    end = time.monotonic() + FAILING_SECONDS
    others = [record_stem(folder, rank).with_suffix(".npz") for rank in range(size)]
    while time.monotonic() < end and not all(file.exists() for file in others):
        time.sleep(0.05)


def adopt_rank() -> None:
    """Set Horovod's variables for rank and size from those of the user's launcher."""
    if LAUNCHED_VARIABLE in os.environ:
        for name, given in (("HOROVOD_RANK", RANK_VARIABLES), ("HOROVOD_SIZE", SIZE_VARIABLES)):
            found = next((os.environ[other] for other in given if other in os.environ), None)
            if found is not None:
                os.environ[name] = found


def set_cluster_variable() -> None:
    """Set TF_CONFIG, as a cluster's scheduler would, from the addresses of the ranks and this rank's number."""
    workers = os.environ.get(WORKERS_VARIABLE)
    if workers and "HOROVOD_RANK" in os.environ:
        task = {"type": "worker", "index": int(os.environ["HOROVOD_RANK"])}
        told = {"cluster": {"worker": workers.split(",")}, "task": task}
        os.environ.setdefault("TF_CONFIG", json.dumps(told))


def last_line(text: str) -> str:
    """Return the last line of a text that is not blank, stripped; "" if there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


if __name__ == "__main__":
    adopt_rank()
    code = run_forked("jupyter_hvd.verify.exact.rank", sys.argv[1:])
    sys.exit(main() if code is None else code)
