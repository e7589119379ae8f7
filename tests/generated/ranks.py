"""Two living ranks, and one process beside them, that run one program after another."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Listener, wait
from pathlib import Path

from jupyter_hvd.launchers.job import Program, run_job, run_single
from jupyter_hvd.launchers.places import place
from jupyter_hvd.launchers.processes import end_processes
from jupyter_hvd.launchers.reaper import PrivateFolder

LIVING = Path(__file__).with_name("living.py")
SIZE = 2
ALONE = -1
#: Small programs on few cores: threads and waits cost more than they bring.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HOROVOD_CYCLE_TIME": "5"}


class StuckError(Exception):
    """Some processes gave no answer in time; the message says where they stood."""


class Ranks:
    """Launched once, by the project's own launchers; started anew where a program has left them stuck."""

    def __init__(self, *, beside: bool = True, start_timeout: float = 180.0) -> None:
        """
        Args:
            beside: one process without Horovod, too.
        """
        self._folder = PrivateFolder()
        self.folder = self._folder.path
        self._programs = 0
        address = str(self.folder / "socket")
        program = Program(LIVING, LIVING, (address,))
        self._said: list[str] = []
        listener = Listener(address, "AF_UNIX")
        jobs = [
            lambda: run_job(
                program,
                place(SIZE),
                self._folder,
                listener=lambda rank, _, line: self._said.append(f"[{rank}] {line}"),
                environment=ENVIRONMENT,
            ),
            lambda: run_single(program, self._folder, environment=ENVIRONMENT),
        ]
        for job in jobs if beside else jobs[:1]:
            threading.Thread(target=job, daemon=True).start()
        self._connections: dict[int, Connection] = {}
        self._pids: dict[int, int] = {}
        accepted: list[Connection] = []

        def accept() -> None:
            with suppress(OSError):
                for _ in range(SIZE + beside):
                    accepted.append(listener.accept())

        threading.Thread(target=accept, daemon=True).start()
        end = time.monotonic() + start_timeout
        while len(self._pids) < SIZE + beside:
            if time.monotonic() > end:
                self.close()
                raise StuckError("the ranks did not start\n" + "\n".join(self._said[-20:]))
            waiting = [c for c in accepted if c not in self._connections.values()]
            for ready in wait(waiting, 0.1) if waiting else ():
                rank, pid = ready.recv()
                self._connections[rank], self._pids[rank] = ready, pid
            time.sleep(0.02)
        listener.close()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        end_processes(self._folder.job, grace=1.0)
        self._folder.remove()

    def run(
        self, sources: Mapping[int, str], *, seed: int, eager: bool, timeout: float = 30.0
    ) -> tuple[dict[int, dict], dict[int, list[str]]]:
        """Run a program on the ranks, and another in the one process.

        Args:
            sources: the program of each process: its rank, or `ALONE`.
            timeout: seconds that the ranks have after the one process has ended; more where that took long.

        Returns:
            what each saw, and for each folder that they worked in the files with the rank that created them.

        Raises:
            StuckError: not all answered in time; the ranks are of no more use.
        """
        self._programs += 1
        folders = {}
        for rank, source in sources.items():
            folder = self.folder / f"{self._programs}-{'alone' if rank == ALONE else 'ranks'}"
            folder.mkdir(exist_ok=True)
            path = self.folder / f"program-{self._programs}-{folder.name}.py"
            path.write_text(source)
            folders[rank] = folder
            order = {
                "source": source,
                "path": str(path),
                "folder": str(folder),
                "seed": seed,
                "eager": eager,
            }
            self._connections[rank].send(order)
        answers: dict[int, dict] = {}
        began = time.monotonic()
        end = began + 10 * timeout
        while len(answers) < len(sources):
            open_ones = {self._connections[r]: r for r in sources if r not in answers}
            ready = wait(list(open_ones), max(0.0, end - time.monotonic()))
            if not ready:
                raise StuckError(self._where(sorted(open_ones.values()), answers, timeout))
            for connection in ready:
                rank = open_ones[connection]
                try:
                    answers[rank] = connection.recv()
                except (EOFError, ConnectionResetError):
                    raise StuckError(
                        f"rank {rank} has died\n" + "\n".join(self._said[-20:])
                    ) from None
                if rank == ALONE:
                    # What it took, on a machine that may be busy, says what ranks may take that wait for none.
                    end = time.monotonic() + max(timeout, 20 * (time.monotonic() - began))
        files = {
            rank: sorted(
                (str(path.relative_to(folder)), int(path.stat().st_mode & 0o077 == 0))
                for path in folder.rglob("*")
                if path.is_file()
            )
            for rank, folder in folders.items()
        }
        return answers, files

    def _where(self, missing: list[int], answers: Mapping[int, dict], timeout: float) -> str:
        for rank in missing:
            with suppress(OSError):
                os.kill(self._pids[rank], signal.SIGUSR1)
        time.sleep(0.3)
        lines = [f"no answer within {timeout:g} s from rank {', '.join(map(str, missing))}"]
        for rank in missing:
            stack = (self.folder / f"stack-{rank}").read_text().splitlines()
            lines += [line.strip() for line in stack if "program-" in line][:3]
        lines += [
            f"rank {r}: {a['error'].strip()[-300:]}" for r, a in answers.items() if a["error"]
        ]
        return "\n".join(lines)
