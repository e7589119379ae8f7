"""`jupyter hvd jobs`, `logs` and `stop`."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import UnusableInputError
from .codes import OK, REFUSED
from .show import make_consoles

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..jobs.control import Job

#: How every command of a job begins.
EACH = ("jupyter", "hvd", "run")
RANK_STYLES = ("cyan", "green", "magenta", "yellow", "blue", "red")
#: Columns that no table fills; and those that are left for a command at least.
UNBOUNDED, SHORTEST = 10**6, 12


def add_parser(commands: Any) -> None:
    """Add the commands `jobs`, `logs` and `stop`."""
    listed = commands.add_parser("jobs", help="the jobs that `run` has begun, and how they ended")
    listed.set_defaults(command=run_jobs)
    shown = commands.add_parser("logs", help="what a job's ranks have said")
    shown.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    shown.add_argument("--rank", type=int, metavar="R", help="of this rank alone")
    shown.set_defaults(command=run_logs)
    stopped = commands.add_parser("stop", help="end a job that runs")
    stopped.set_defaults(command=run_stop)
    for parser in (listed, shown, stopped):
        parser.add_argument(
            "--log", type=Path, metavar="DIR", help="where `run --log DIR` keeps them"
        )
    shown.add_argument("job", nargs="?", metavar="JOB", help="its name, or a part; the last one")
    stopped.add_argument("job", metavar="JOB", help="its name, or a part that no other has")


def logs_folder_of(arguments: argparse.Namespace) -> Path:
    """Return the folder of logs: that of `--log`, or the default one.

    Raises:
        UnusableInputError: the default one is unknown, as there is no home folder.
    """
    from ..jobs.log import default_logs_folder

    try:
        return arguments.log or default_logs_folder()
    except RuntimeError as error:
        raise UnusableInputError(f"where logs are is not known ({error}): say --log DIR") from None


def require_job(arguments: argparse.Namespace) -> Job:
    """Return the job that the arguments name.

    Raises:
        UnusableInputError: there is no such job.
    """
    from ..jobs.control import NoSuchJobError, select_job

    try:
        return select_job(logs_folder_of(arguments), arguments.job)
    except (NoSuchJobError, OSError) as error:
        raise UnusableInputError(str(error)) from None


def run_jobs(arguments: argparse.Namespace) -> int:
    """Run `jobs`: print a table of all jobs, and return the exit code."""
    from ..jobs.control import list_jobs

    console, errors = make_consoles(False)
    try:
        found = list_jobs(logs_folder_of(arguments))
    except OSError as error:
        raise UnusableInputError(str(error)) from None
    if not found:
        errors.print(f"no jobs in {logs_folder_of(arguments)}", markup=False)
        return OK
    table = jobs_table(found)
    needed = console.measure(table, options=console.options.update_width(UNBOUNDED)).maximum
    if console.is_terminal and needed > console.width:
        table = jobs_table(found, console.width)
        needed = console.measure(table, options=console.options.update_width(UNBOUNDED)).maximum
    console.width = max(console.width, needed)  # a name is for typing: it is not broken
    console.print(table)
    return OK


def jobs_table(jobs: Sequence[Job], columns: int | None = None) -> Table:
    """Return a table with a row for each job.

    Args:
        columns: the width of a narrow terminal, for which commands are shortened and dates left out; None for no limit.
    """
    from rich.table import Table
    from rich.text import Text

    dates = ["began"] if columns is None else []
    table = Table("job", "ranks", *dates, "state", "command", box=None, pad_edge=False)
    names = max(len("job"), *(len(job.name) for job in jobs))
    states = max(len("state"), *(len(state_text(job)) for job in jobs))
    for job in jobs:
        words = tuple(map(str, job.begun.get("command", ())))
        command = shlex.join(words)
        if columns is not None:
            command = shlex.join(words[len(EACH) :] if words[: len(EACH)] == EACH else words)
            room = max(SHORTEST, columns - names - states - len("ranks") - 6)
            command = command if len(command) <= room else f"{command[: room - 1]}…"
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(job.begun["began"]))
        row = (job.begun.get("ranks"), *([began] if dates else []), state_text(job))
        table.add_row(*(Text(str(entry)) for entry in (job.name, *row, command)))
    return table


def state_text(job: Job) -> str:
    """Return in words whether a job is running, or how it ended."""
    if job.ended is not None:
        rank, code = job.ended.get("rank"), job.ended.get("code")
        if code == 0:
            return "ended well"
        return f"exit code {code}" + ("" if rank is None else f" of rank {rank}")
    texts = {"runs": "runs", "lost": "was killed", "elsewhere": f"on {job.begun.get('host')}"}
    return texts[job.state]


def tagged_printer(console: Console, errors: Console) -> Callable[[int, str, str], None]:
    """Make a function that prints each line of output after its rank."""
    from rich.text import Text

    def show_line(rank: int, stream: str, line: str) -> None:
        style = RANK_STYLES[rank % len(RANK_STYLES)]
        target = errors if stream == "stderr" else console
        target.print(Text.assemble((f"[{rank}] ", style), Text.from_ansi(line)), soft_wrap=True)

    return show_line


def run_logs(arguments: argparse.Namespace) -> int:
    """Run `logs`: print the output of a job, also while it runs; return the exit code."""
    from ..jobs.control import follow_output, output_lines

    job = require_job(arguments)
    console, errors = make_consoles(False)
    show = tagged_printer(console, errors)
    for said in (follow_output if arguments.follow else output_lines)(job, arguments.rank):
        show(said.rank, "stdout", said.text)
    return OK


def run_stop(arguments: argparse.Namespace) -> int:
    """Run `stop`: end a job; return `REFUSED` if it does not run."""
    from ..jobs.control import NoSuchJobError, stop_job

    job = require_job(arguments)
    console, errors = make_consoles(False)
    try:
        done = stop_job(job, lambda text: errors.print(f"{job.name}: {text}", markup=False))
    except NoSuchJobError as error:
        raise UnusableInputError(str(error)) from None
    console.print(f"{job.name}: {'stopped' if done else 'does not run'}", markup=False)
    return OK if done else REFUSED
