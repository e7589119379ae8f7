"""`jupyter hvd jobs`, `logs` and `stop`."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import UnusableInputError
from .codes import OK, REFUSED
from .show import make_consoles

if TYPE_CHECKING:
    from ..jobs.found import Job


def add_parser(commands: Any) -> None:
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


def place_of(arguments: argparse.Namespace) -> Path:
    """
    Raises:
        UnusableInputError: nobody says where, and there is no home.
    """
    from ..jobs.log import default_place

    try:
        return arguments.log or default_place()
    except RuntimeError as error:
        raise UnusableInputError(f"where logs are is not known ({error}): say --log DIR") from None


def find(arguments: argparse.Namespace) -> Job:
    """
    Raises:
        UnusableInputError: there is no such job.
    """
    from ..jobs.found import NoSuchJobError, job_named

    try:
        return job_named(place_of(arguments), arguments.job)
    except (NoSuchJobError, OSError) as error:
        raise UnusableInputError(str(error)) from None


def run_jobs(arguments: argparse.Namespace) -> int:
    from rich.table import Column, Table
    from rich.text import Text

    from ..jobs.found import jobs

    console, errors = make_consoles(False)
    try:
        found = jobs(place_of(arguments))
    except OSError as error:
        raise UnusableInputError(str(error)) from None
    if not found:
        errors.print(f"no jobs in {place_of(arguments)}", markup=False)
        return OK
    # A name is for typing: it is not broken.
    name = Column("job", no_wrap=True)
    table = Table(name, "ranks", "began", "state", "command", box=None, pad_edge=False)
    for job in found:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(job.begun["began"]))
        command = shlex.join(map(str, job.begun.get("command", ())))
        row = (job.name, job.begun.get("ranks"), began, state_text(job), command)
        table.add_row(*(Text(str(entry), overflow="fold") for entry in row))
    console.print(table)
    return OK


def state_text(job: Job) -> str:
    if job.ended is not None:
        rank, code = job.ended.get("rank"), job.ended.get("code")
        if code == 0:
            return "ended well"
        return f"exit code {code}" + ("" if rank is None else f" of rank {rank}")
    texts = {"runs": "runs", "lost": "was killed", "elsewhere": f"on {job.begun.get('host')}"}
    return texts[job.state]


def run_logs(arguments: argparse.Namespace) -> int:
    from ..jobs.found import follow, lines
    from .run import tagged_printer

    job = find(arguments)
    console, errors = make_consoles(False)
    show = tagged_printer(console, errors)
    for said in (follow if arguments.follow else lines)(job, arguments.rank):
        show(said.rank, "stdout", said.text)
    return OK


def run_stop(arguments: argparse.Namespace) -> int:
    from ..jobs.found import NoSuchJobError, stop

    job = find(arguments)
    console, errors = make_consoles(False)
    try:
        done = stop(job, lambda text: errors.print(f"{job.name}: {text}", markup=False))
    except NoSuchJobError as error:
        raise UnusableInputError(str(error)) from None
    console.print(f"{job.name}: {'stopped' if done else 'does not run'}", markup=False)
    return OK if done else REFUSED
