"""What a notebook gives to a shell is run once for all ranks that work in one folder: `!unzip data.zip`, `%%bash`.

Whichever rank comes first runs it; the others wait until it has ended, and are given its output and exit code.
So no rank removes, writes or reads what another is about to write. Ranks with folders of their own each run it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..files import write_atomically

#: Cell magics that are given to another process, or write a file.
CELL_MAGICS = frozenset(
    ("!", "bash", "perl", "python", "python3", "ruby", "script", "sh", "sx", "system", "writefile")
)
#: Options by which a cell magic binds names, which every rank needs.
BINDING = ("--out", "--err", "--proc", "--bg")
#: Seconds between two looks whether a line has ended.
PAUSE = 0.05


@dataclass(frozen=True)
class Ended:
    """How a line ended: what it printed, its exit code, the error of a cell magic."""

    output: str = ""
    code: int = 0
    error: str = ""


class ShellLines:
    """The shell lines of one rank's notebook.

    Attributes:
        folder: where the ranks of a job find one another's marks.
        quiet: print nothing, since rank 0 does.
        around: what is entered around each line that this rank runs.
    """

    around: Callable[[], AbstractContextManager[object]] = staticmethod(nullcontext)

    def __init__(self, shell: Any, folder: Path, *, quiet: bool) -> None:
        self._shell, self._folder, self._quiet = shell, folder, quiet
        self._seen: Counter[tuple[int, str]] = Counter()
        self._getoutput, self._run_cell_magic = shell.getoutput, shell.run_cell_magic

    def install(self) -> None:
        """Take the place of the shell's own ways to run a line."""
        self._shell.system = self.system
        self._shell.getoutput = self.getoutput
        self._shell.run_cell_magic = self.run_cell_magic

    def system(self, command: str) -> None:
        """`!command`"""
        line = self._shell.var_expand(command, depth=1)
        ended, mine = self._once(line, lambda: self._run(line))
        if not mine and not self._quiet:
            print(ended.output, end="")
        self._shell.user_ns["_exit_code"] = ended.code

    def getoutput(self, command: str, split: bool = True, depth: int = 0) -> Any:
        """`lines = !command`"""
        from IPython.utils.text import LSString, SList

        line = self._shell.var_expand(command, depth=depth + 1)
        ended, _ = self._once(
            line, lambda: Ended(str(self._getoutput(line, split=False, depth=depth + 1)))
        )
        return SList(ended.output.splitlines()) if split else LSString(ended.output)

    def run_cell_magic(self, name: str, line: str, cell: str) -> Any:
        """`%%name line`, with the rest of the cell."""
        if name not in CELL_MAGICS or any(option in line for option in BINDING):
            return self._run_cell_magic(name, line, cell)
        result: list[Any] = []

        def run() -> Ended:
            try:
                result.append(self._run_cell_magic(name, line, cell))
            except Exception as error:
                result.append(error)
                return Ended(error=f"{type(error).__name__}: {error}")
            return Ended()

        ended, mine = self._once(f"%%{name} {line}\n{cell}", run)
        if mine and isinstance(result[0], Exception):
            raise result[0]
        if ended.error:
            raise RuntimeError(f"on another rank, {ended.error}")
        return result[0] if mine else None

    def _run(self, line: str) -> Ended:
        """Run a command line, showing what it prints as it comes."""
        said = []
        with subprocess.Popen(  # noqa: S602 — the user's own line
            line,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for printed in process.stdout:
                said.append(printed)
                if not self._quiet:
                    sys.stdout.write(printed)
                    sys.stdout.flush()
        return Ended("".join(said), process.returncode)

    def _once(self, line: str, run: Callable[[], Ended]) -> tuple[Ended, bool]:
        """How a line ended, and whether this rank has run it."""
        mark = self._folder / f"line-{self._name(line)}"
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return self._wait(mark.with_suffix(".json")), False
        ended = Ended(error="the rank that ran it was interrupted", code=130)
        try:
            with self.around():
                ended = run()
        finally:
            write_atomically(mark.with_suffix(".json"), json.dumps(asdict(ended)).encode())
        return ended, True

    def _wait(self, answer: Path) -> Ended:
        while not answer.exists():
            time.sleep(PAUSE)
        return Ended(**json.loads(answer.read_text()))

    def _name(self, line: str) -> str:
        """One name on all ranks that run the same line, for the same time in the same cell, in the same folder."""
        cell = self._shell.execution_count
        self._seen[cell, line] += 1
        here = Path.cwd().stat()
        parts = (cell, line, self._seen[cell, line], here.st_dev, here.st_ino)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
