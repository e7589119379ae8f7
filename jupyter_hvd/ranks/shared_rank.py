"""One rank of a job whose program is shared without conversion.

Run as `python -m jupyter_hvd.ranks.shared_rank PROGRAM STATUS_DIR ORIGINAL [ARGS]`.

See `jupyter_hvd.runtime.sharing`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

#: By what an error of ours is found, and what follows it in TensorFlow's.
MARK, ENDS = "jupyter_hvd: ", ("\n", "]", "[Op")
#: Seconds between two looks whether the other ranks have copied the folder.
PAUSE = 0.02


def explain_failure(report: str) -> str:
    """Return the user's report of a traceback: only the reason, if this package stopped the program."""
    if MARK not in report:
        if "Mismatched" in report and "Horovod" in report:
            return "the ranks computed on data of different sizes: every rank must read the same batches"
        return report
    # The last one is the error's own: from Python 3.13 on, a traceback shows the source of the whole message above it.
    text = report[report.rindex(MARK) + len(MARK) :]
    end = min((place for end in ENDS if (place := text.find(end)) > 0), default=len(text))
    return text[:end].strip().strip("'\"")


def await_copies(status: Path, size: int) -> None:
    """Wait until the other ranks have copied the working folder: rank 0 writes to it from then on."""
    copied = [status / f"copied-{rank}" for rank in range(1, size)]
    while not all(file.exists() for file in copied):
        time.sleep(PAUSE)


def main() -> int:
    """Run what the command line says; the exit code."""
    from ..runtime.sharing.program import share_program
    from ..runtime.sharing.working_copy import work_on_copy
    from .job_rank import hold_heartbeat, run_arguments

    hold_heartbeat()
    rank = int(os.environ.get("HOROVOD_RANK", "0"))
    status = Path(sys.argv[2])
    if rank:
        work_on_copy(status / f"files-{rank}", status.parent)
        (status / f"copied-{rank}").touch()
    else:
        await_copies(status, int(os.environ.get("HOROVOD_SIZE", "1")))
    share_program()
    return run_arguments(sys.argv[1:], explain=explain_failure)


if __name__ == "__main__":
    sys.exit(main())
