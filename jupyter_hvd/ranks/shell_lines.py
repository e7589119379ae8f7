"""Shell lines of a notebook, `!unzip data.zip` or `%%bash`, run on rank 0 first.

The other ranks wait until rank 0's line has ended. A rank that works on a copy of the folder then runs the line
there, for the files that it makes; `pip install` finds its work done. All ranks go on with rank 0's output and exit
code, so `lines = !date` gives one value.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..files import write_atomically
from ..source.magics import PROCESS_MAGICS

#: Options by which a cell magic binds names, which every rank needs.
BINDING = ("--out", "--err", "--proc", "--bg")
#: Seconds between two looks whether a line has ended.
PAUSE = 0.05


@dataclass(frozen=True)
class ShellResult:
    """How a line ended: what it printed, its exit code, the error of a cell magic, and the folder it ran in."""

    output: str = ""
    code: int = 0
    error: str = ""
    folder: str = ""


class ShellLines:
    """The shell lines of one rank's notebook.

    Attributes:
        folder: where the other ranks find rank 0's answers.
        quiet: this is another rank than 0, and prints nothing.
    """

    def __init__(self, shell: Any, folder: Path, *, quiet: bool) -> None:
        self._shell, self._folder, self._quiet = shell, folder, quiet
        self._seen: Counter[tuple[int, str]] = Counter()
        self._getoutput, self._run_cell_magic = shell.getoutput, shell.run_cell_magic

    def install(self) -> None:
        """Replace the shell's methods that run a line."""
        self._shell.system = self.system
        self._shell.getoutput = self.getoutput
        self._shell.run_cell_magic = self.run_cell_magic

    def system(self, command: str) -> None:
        """Run `!command` on rank 0 first, then on the others, and set `_exit_code` in the notebook's namespace."""
        line = self._shell.var_expand(command, depth=1)
        ended = self._run_rank_zero_first(line, lambda: self._run_line(line))
        self._shell.user_ns["_exit_code"] = ended.code

    def getoutput(self, command: str, split: bool = True, depth: int = 0) -> Any:
        """Run `lines = !command`; return the lines."""
        from IPython.utils.text import LSString, SList

        line = self._shell.var_expand(command, depth=depth + 1)
        ended = self._run_rank_zero_first(
            line, lambda: ShellResult(str(self._getoutput(line, split=False, depth=depth + 1)))
        )
        return SList(ended.output.splitlines()) if split else LSString(ended.output)

    def run_cell_magic(self, name: str, line: str, cell: str) -> Any:
        """Run `%%name line` with the rest of the cell; if it starts a process, on rank 0 first."""
        if name not in PROCESS_MAGICS or any(option in line for option in BINDING):
            return self._run_cell_magic(name, line, cell)
        result: list[Any] = []

        def run_command() -> ShellResult:
            try:
                result.append(self._run_cell_magic(name, line, cell))
            except Exception as error:
                result.append(error)
                return ShellResult(error=f"{type(error).__name__}: {error}")
            return ShellResult()

        ended = self._run_rank_zero_first(f"%%{name} {line}\n{cell}", run_command)
        failed = bool(result) and isinstance(result[0], Exception)
        if ended.error:
            raise result[0] if failed else RuntimeError(f"on rank 0, {ended.error}")
        return result[0] if result and not failed else None

    def _run_line(self, line: str) -> ShellResult:
        """Run a command line, showing its output as it comes; return how it ended."""
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
        return ShellResult("".join(said), process.returncode)

    def _run_rank_zero_first(self, line: str, run: Callable[[], ShellResult]) -> ShellResult:
        """Return how a line ended on rank 0; this rank runs it too if it works in another folder.

        Blocks on ranks other than 0 until rank 0 has run it.
        """
        answer, here = self._folder / f"line-{self._name_line(line)}.json", folder_id()
        if self._quiet:
            ended = self._wait_for_answer(answer)
            if ended.folder != here:
                run()
            return ended
        ended = ShellResult(error="it was interrupted", code=130)
        try:
            ended = run()
        finally:
            write_atomically(answer, json.dumps(asdict(replace(ended, folder=here))).encode())
        return ended

    def _wait_for_answer(self, answer: Path) -> ShellResult:
        """Wait until rank 0 has written how a line ended, and return that."""
        while not answer.exists():
            time.sleep(PAUSE)
        return ShellResult(**json.loads(answer.read_text()))

    def _name_line(self, line: str) -> str:
        """Return one name on all ranks that run the same line, for the same time in the same cell."""
        cell = self._shell.execution_count
        self._seen[cell, line] += 1
        parts = (cell, line, self._seen[cell, line])
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def folder_id() -> str:
    """Return an id of the working folder, the same on all ranks of a machine that work in it."""
    status = Path.cwd().stat()
    return f"{status.st_dev}-{status.st_ino}"
