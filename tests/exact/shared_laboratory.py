"""Living ranks that share one program after another, beside one process: what they print and learn, compared.

`python tests/exact/shared_laboratory.py [--sizes 2,3] [--mutants] [PROGRAM …]` prints a line for each program.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from multiprocessing.connection import Listener, wait
from pathlib import Path

from jupyter_hvd.launch.job import Program, run_job, run_single
from jupyter_hvd.launch.processes import end_processes
from jupyter_hvd.launch.rank_placement import place_ranks
from jupyter_hvd.launch.reaper import PrivateFolder
from jupyter_hvd.verify.exact.compare import PRINTED, compare_records, first_difference
from jupyter_hvd.verify.exact.records import Record

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
LIVING = HERE / "living.py"
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "HOROVOD_CYCLE_TIME": "1",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "PYTHONHASHSEED": "0",
}


class StuckError(Exception):
    """Some processes gave no answer in time."""


class Ranks:
    """Processes of one size that live from program to program; begun again where they are stuck.

    Args:
        living: what each of them runs.
    """

    def __init__(self, size: int, living: Path = LIVING) -> None:
        self.size, self._living = size, living
        self._folder: PrivateFolder | None = None

    def start(self, timeout: float = 180.0) -> None:
        self._folder = PrivateFolder()
        self.folder = self._folder.path
        self._runs = 0
        self._said: list[str] = []
        address = str(self.folder / "socket")
        listener = Listener(address, "AF_UNIX")
        program = Program(self._living, self._living, (address,))
        folder = self._folder
        listen = lambda rank, _, line: self._said.append(f"[{rank}] {line}")  # noqa: E731

        def job() -> None:
            if self.size == 1:
                run_single(program, folder, environment=ENVIRONMENT)
            else:
                run_job(
                    program,
                    place_ranks(self.size),
                    folder,
                    listener=listen,
                    environment=ENVIRONMENT,
                )

        threading.Thread(target=job, daemon=True).start()
        self._connections, self._pids, accepted = {}, {}, []

        def accept() -> None:
            with suppress(OSError):
                for _ in range(self.size):
                    accepted.append(listener.accept())

        threading.Thread(target=accept, daemon=True).start()
        end = time.monotonic() + timeout
        while len(self._pids) < self.size:
            if time.monotonic() > end:
                self.close()
                raise StuckError("the ranks did not start\n" + "\n".join(self._said[-20:]))
            waiting = [c for c in accepted if c not in self._connections.values()]
            for ready in wait(waiting, 0.1) if waiting else ():
                _, rank, pid = ready.recv()
                self._connections[rank], self._pids[rank] = ready, pid
            time.sleep(0.02)
        listener.close()

    def close(self) -> None:
        if self._folder is not None:
            end_processes(self._folder.job, grace=1.0)
            self._folder.remove_folder()
            self._folder = None

    def send(self, program: Path, mutant: str = "", virtual: int = 1) -> None:
        """Begin a run of a program.

        Args:
            virtual: how many ranks one process pretends to be.
        """
        self.order(path=str(program), seed=5, mutant=mutant, virtual=virtual)

    def order(self, **order: object) -> None:
        """Tell all processes what to run, and in which folder."""
        if self._folder is None:
            self.start()
        self._runs += 1
        for connection in self._connections.values():
            connection.send({**order, "folder": str(self.folder / f"run-{self._runs}")})

    def receive(self, timeout: float = 120.0) -> list[Record]:
        """What each rank saw of it, by rank.

        Raises:
            StuckError: not all have answered in time.
        """
        answers: dict[int, Record] = {}
        end = time.monotonic() + timeout
        while len(answers) < self.size:
            open_ones = {c: r for r, c in self._connections.items() if r not in answers}
            ready = wait(list(open_ones), max(0.0, end - time.monotonic()))
            if answers and any(a.error for a in answers.values()):
                end = min(end, time.monotonic() + 5)
            try:
                for connection in ready:
                    answers[open_ones[connection]] = connection.recv()
            except (EOFError, OSError):
                ready = []
            if not ready:
                message = self.where(answers)
                self.close()
                raise StuckError(message)
        return [answers[rank] for rank in sorted(answers)]

    def where(self, answers: dict[int, Record]) -> str:
        lines = []
        for rank, pid in self._pids.items():
            if rank in answers:
                lines.append(f"rank {rank}: {answers[rank].error[-600:] or 'is done'}")
                continue
            with suppress(OSError):
                os.kill(pid, signal.SIGUSR1)
            time.sleep(0.3)
            with suppress(OSError):
                text = (self.folder / f"stack-{self.size}-{rank}").read_text().splitlines()
                lines += [
                    f"rank {rank} stands at:",
                    *[t for t in text if "site-packages" not in t][-6:],
                ]
        return "\n".join([*lines, *self._said[-5:]])


def judge(one: Record, ranks: list[Record]) -> tuple[str, str]:
    """equal, whole, refused or wrong, and why."""
    if one.error:
        return "fails alone", one.error
    for rank in ranks:
        if "ranks computed on different data" in rank.error or "different sizes" in rank.error:
            return "refused", rank.error[:300]
    for rank in ranks:
        # A converted program may print on rank 0 only.
        compared = (c for c in compare_records(one, rank) if rank.rank == 0 or c.aspect != PRINTED)
        first = first_difference(compared)
        if first is not None:
            return "wrong", f"rank {rank.rank} {first}"
    told = "; ".join(line.removeprefix("jupyter_hvd: ") for line in ranks[0].told)
    return ("equal" if ranks[0].shared else "whole"), told


#: What becomes of programs that are not shared and equal.
EXPECTED = {
    **dict.fromkeys(("not_by_rows", "plain_variables", "experts_balanced"), "whole"),
    **dict.fromkeys(("graph_convolution", "layers_of_whole_batches", "compiled_only"), "whole"),
    **dict.fromkeys(("different_data", "different_labels", "different_weights"), "refused"),
}


def expected(program: str) -> str:
    return EXPECTED.get(program, "equal")


class Laboratory:
    """Ranks of some sizes, begun when they are first asked."""

    def __init__(self) -> None:
        self._ranks: dict[int, Ranks] = {}
        self._alone: dict[str, Record] = {}

    def close(self) -> None:
        for ranks in self._ranks.values():
            ranks.close()

    def run(self, program: Path, size: int, mutant: str = "", virtual: int = 1) -> list[Record]:
        # Idle ranks are ended: Horovod's exchange messages every millisecond, and several sizes at once slow each other down.
        if size > 1:
            for other in set(self._ranks) - {1, size}:
                self._ranks[other].close()
        ranks = self._ranks.setdefault(size, Ranks(size))
        ranks.send(program, mutant, virtual)
        return ranks.receive()

    def judge(
        self, program: Path, size: int, mutant: str = "", virtual: int = 1
    ) -> tuple[str, str]:
        """What becomes of a program on so many ranks, and why.

        Args:
            virtual: how many ranks the one process pretends to be that it is compared with.
        """
        alone = f"{program.stem} {virtual}"
        if alone not in self._alone:
            self._alone[alone] = self.run(program, 1, virtual=virtual)[0]
        try:
            return judge(self._alone[alone], self.run(program, size, mutant))
        except StuckError as error:
            return "wrong", f"STUCK {error}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sizes", default="2,3")
    parser.add_argument("--mutants", action="store_true", help="plant each fault")
    options = parser.parse_args()
    programs = sorted(PROGRAMS.glob("*.py"))
    if options.names:
        programs = [Path(n) if "/" in n else PROGRAMS / f"{n}.py" for n in options.names]
    runs = [(program, "") for program in programs]
    if options.mutants:
        sys.path.insert(0, str(HERE))
        from sharing_mutants import FOUND_BY

        runs = [(PROGRAMS / f"{program}.py", mutant) for mutant, program in FOUND_BY.items()]
    counts: Counter[tuple[int, str]] = Counter()
    laboratory = Laboratory()
    try:
        for size in map(int, options.sizes.split(",")):
            for program, mutant in runs:
                began = time.monotonic()
                verdict, why = laboratory.judge(program, size, mutant)
                if mutant:
                    verdict = "missed" if verdict == expected(program.stem) else "found"
                counts[size, verdict] += 1
                seconds = time.monotonic() - began
                name = mutant or program.stem
                print(f"{name:28} {size}: {verdict:8} {seconds:5.1f} s  {why}", flush=True)
    finally:
        laboratory.close()
    for (size, verdict), count in sorted(counts.items()):
        print(f"{size} ranks: {verdict} {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
