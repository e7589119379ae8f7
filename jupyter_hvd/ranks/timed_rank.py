"""One process, or one rank, that ends once enough of its training steps were timed.

`python -m jupyter_hvd.ranks.timed_rank PROGRAM STATUS_DIR ORIGINAL [ARGS]`. It works on a copy of the folder. Steps are those
that optimizers count, looked at from another thread: nothing is added to a step.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

#: Names the file that rank 0 writes its times to.
TIMES_VARIABLE = "JUPYTER_HVD_STEP_TIMES"
#: Seconds between two looks; after the first step until it counts, in which functions are compiled; of which steps are timed.
PAUSE, WARM_UP, ENOUGH = 0.25, 2.0, 5.0
#: So many steps are timed at least, unless that takes `PATIENCE` seconds.
LEAST, PATIENCE = 10, 30.0


@dataclass(frozen=True)
class StepTimes:
    """Means over some steps.

    Attributes:
        steps: how many. seconds, cpu_seconds: of one step; the second of all cores together.
        cores: that this process may use. bytes: of what the optimizer trains; 0 where that is not known.
    """

    steps: int
    seconds: float
    cpu_seconds: float
    cores: int
    bytes: int


@dataclass(frozen=True)
class ProgressSample:
    """How many steps were made at a time, by the clock and by the processor, in seconds."""

    steps: int
    clock: float
    processor: float


def find_optimizers() -> list[Any]:
    """Return all optimizers of this process."""
    return [o for o in gc.get_objects() if hasattr(type(o), "apply_gradients")]


def sample_progress(optimizers: list[Any]) -> ProgressSample:
    """Return the largest step count of some optimizers, with the clock and the CPU time."""
    counts = [int(o.iterations.numpy()) for o in optimizers if getattr(o, "built", True)]
    return ProgressSample(max(counts, default=0), time.perf_counter(), time.process_time())


def trained_bytes(optimizers: list[Any]) -> int:
    """Return the bytes of the variables that the optimizers train, as far as these are known."""
    variables = [v for o in optimizers for v in getattr(o, "_trainable_variables", ())]
    own = {id(v): v for v in variables}.values()
    return sum(int(v.numpy().nbytes) for v in own)


def times_between(first: ProgressSample, last: ProgressSample, optimizers: list[Any]) -> StepTimes:
    """Return the mean times of a step between two samples."""
    steps = last.steps - first.steps
    return StepTimes(
        steps,
        (last.clock - first.clock) / steps,
        (last.processor - first.processor) / steps,
        len(os.sched_getaffinity(0)),
        trained_bytes(optimizers),
    )


class StepTimer:
    """Looks at the training from another thread, and ends the process when it has seen enough."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begun: float | None = None
        self._first: ProgressSample | None = None
        self._optimizers: list[Any] = []

    def start(self) -> None:
        """Begin to sample the progress of training in a thread."""
        atexit.register(self._write_times)
        threading.Thread(target=self._look_on, daemon=True).start()

    def _look_on(self) -> None:
        """Sample the progress until enough steps were timed, then write the times and end the process."""
        while True:
            time.sleep(PAUSE)
            now = self._sample_progress()
            if now is None or not now.steps:
                continue
            self._begun = self._begun or now.clock
            if self._first is None and now.clock - self._begun >= WARM_UP:
                self._first = now
            if self._first is None:
                continue
            timed, steps = now.clock - self._first.clock, now.steps - self._first.steps
            if (timed >= ENOUGH and steps >= LEAST) or (timed >= PATIENCE and steps):
                self._write_times()
                os._exit(0)

    def _sample_progress(self) -> ProgressSample | None:
        """Return a sample of the progress; None before Keras is imported, or while an optimizer is being made."""
        if not any(name in sys.modules for name in ("keras", "tf_keras")):
            return None
        try:
            self._optimizers = self._optimizers or find_optimizers()
            return sample_progress(self._optimizers)
        except Exception:  # one that is being made just now
            return None

    def _write_times(self) -> None:
        """Write the measured times; if training ended early, those of its last steps."""
        last = self._sample_progress()
        if self._first is None or last is None or last.steps <= self._first.steps:
            return
        times = times_between(self._first, last, self._optimizers)
        self._file.write_text(json.dumps(asdict(times)))


def main() -> int:
    """Run and time the program that the command line names, and return its exit code."""
    from ..runtime.sharing.program import share_program
    from ..runtime.sharing.working_copy import work_on_copy
    from .job_rank import hold_heartbeat, run_arguments

    hold_heartbeat()
    rank, status = os.environ.get("HOROVOD_RANK"), Path(sys.argv[2])
    work_on_copy(status / f"files-{rank or 0}", status.parent)
    if rank in (None, "0"):
        StepTimer(Path(os.environ[TIMES_VARIABLE])).start()
    if rank is not None:
        share_program()
    return run_arguments(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
