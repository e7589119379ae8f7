"""Kills a rank of an elastic job while it trains, for `verify --elastic`."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ..launchers.again import Elastic, last_kept, run_job_again
from ..launchers.job import JobResult, Program
from ..launchers.places import Place, place
from ..launchers.processes import processes_of
from ..launchers.reaper import PrivateFolder

#: The part of the time that the program may take to keep something before a rank is killed all the same.
PATIENCE = 0.4


@dataclass(frozen=True)
class Loss:
    """How an elastic job went on that lost a rank.

    Attributes:
        killed: which one; None where the program ended before. had_kept: whether the program had kept something.
        left: how many ranks came to the end. goes_on: what rank 0 said of where it went on.
    """

    result: JobResult
    killed: int | None
    had_kept: bool
    left: int
    goes_on: tuple[str, ...] = ()


def run_and_lose(
    program: Program,
    folder: PrivateFolder,
    size: int,
    environment: Mapping[str, str],
    timeout: float,
    seed: int,
) -> Loss:
    """Run a program, converted for elastic jobs, and kill a rank, drawn by the seed, once it has kept what it goes on from.

    Of two ranks both begin again, of more those that are left.

    Raises:
        LaunchError: the job cannot be started.
    """
    first = place(size)
    sizes, said = [size], list[str]()
    killer = Killer(folder, random.Random(seed).randrange(size), timeout * PATIENCE)  # noqa: S311

    def hear(rank: int, stream: str, line: str) -> None:
        if rank == 0 and stream == "stdout" and " goes on after " in line:
            said.append(line)

    def told(_: JobResult, following: Place) -> None:
        sizes.append(following.size)

    with killer.at_work():
        result = run_job_again(
            program,
            folder,
            policy=Elastic(first, min(2, size), size, cooling=math.inf),
            told=told,
            timeout=timeout,
            listener=hear,
            environment=environment,
        )
    return Loss(result, killer.killed, killer.had_kept, sizes[-1], tuple(said))


class Killer:
    """Waits until a job has kept something, or for some seconds at the most, and kills one of its ranks."""

    def __init__(self, folder: PrivateFolder, rank: int, patience: float) -> None:
        self._folder, self._rank, self._patience = folder, rank, patience
        self.killed: int | None = None
        self.had_kept = False
        self._over = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._wait_and_kill, name="hvd-killer", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _wait_and_kill(self) -> None:
        began, state = time.monotonic(), self._folder.path / "state"
        while not self._over.wait(0.1):
            self.had_kept = state.exists() and last_kept(state) > 0
            if (self.had_kept or time.monotonic() - began > self._patience) and self._kill():
                return

    def _kill(self) -> bool:
        """Kill the rank, if it is there."""
        import psutil

        for pid in processes_of(self._folder.job):
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                environment, command = process.environ(), process.cmdline()
                named = environment.get("HOROVOD_RANK") == str(self._rank)
                if named and "jupyter_hvd.verify.rank" in command:
                    process.kill()
                    self.killed = self._rank
                    return True
        return False
