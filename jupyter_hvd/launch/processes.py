"""Finds and ends the processes of a job on this machine, by its name in their environment."""

from __future__ import annotations

import os
from contextlib import suppress

from .base import JOB_VARIABLE


def processes_of(job: str, variable: str = JOB_VARIABLE) -> list[int]:
    """Return the ids of the processes in whose environment `variable` has the job's name, without this process."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(variable) == job:
                found.append(process.pid)
    return found


def end_processes(job: str, grace: float = 3.0, variable: str = JOB_VARIABLE) -> None:
    """Terminate a job's remaining processes, and kill those that do not end within `grace` seconds.

    Processes that they start meanwhile are ended in the next round.
    """
    import psutil

    for _ in range(3):
        left = []
        for pid in processes_of(job, variable):
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                process.terminate()
                left.append(process)
        if not left:
            return
        for process in psutil.wait_procs(left, grace)[1]:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, grace)
