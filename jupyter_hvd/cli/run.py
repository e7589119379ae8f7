"""`jupyter hvd run`."""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..convert.conversion_limit import CONVERSION_SECONDS, conversion_limit
from ..convert.documents import load_document
from ..convert.unconverted_programs import common_variables
from ..files import UnusableInputError
from ..launch.arguments import add_place_options, where_of
from .codes import REFUSED, UNUSABLE
from .global_batch import RANK_MODULE, copy_unconverted, refuse_conversion_options
from .options import add_batch, add_options, options_for
from .program_copy import write_program_copy
from .show import make_consoles, print_outcome

if TYPE_CHECKING:
    from rich.console import Console

    from ..convert import Options
    from ..jobs.log import JobLog
    from ..launch.diagnosis import Locate
    from ..launch.job import JobResult
    from ..launch.progress import Stall
    from ..launch.rank_placement import RankAssignment
    from ..launch.reaper import PrivateFolder
    from ..launch.restarts import RestartPolicy


class RefusedError(Exception):
    """Raised where a file was refused; its diagnostics have been printed."""


def add_parser(commands: Any) -> None:
    """Add the command `run`."""
    parser = commands.add_parser(
        "run",
        help="convert, then run on N processes",
        usage="jupyter hvd run FILE -n N [options] [-- ARGS]",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument(
        "-n", type=int, required=True, metavar="N", dest="size", help="how many ranks"
    )
    add_place_options(parser)
    parser.add_argument("--timeout", type=float, metavar="S", help="end the job after S seconds")
    parser.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="K",
        help="after a fault, start again up to K times; fit goes on from its last epoch",
    )
    parser.add_argument(
        "--elastic",
        action="store_true",
        default=None,
        help="go on with the ranks that are left when some are lost, and with more when hosts answer",
    )
    parser.add_argument(
        "--min", type=int, metavar="A", dest="least", help="with no fewer ranks than that (1)"
    )
    parser.add_argument(
        "--max", type=int, metavar="B", dest="most", help="and with no more (as many as -n says)"
    )
    log = parser.add_mutually_exclusive_group()
    log.add_argument(
        "--log",
        type=Path,
        metavar="DIR",
        help="where the job's log is kept; see `jupyter hvd jobs`",
    )
    log.add_argument("--no-log", action="store_true", help="keep none")
    add_batch(parser)
    add_options(parser)
    parser.set_defaults(command=run_program)


@contextmanager
def copy_converted(
    path: Path, options: Options, shared: bool = False, seconds: float = CONVERSION_SECONDS
) -> Iterator[tuple[Path, PrivateFolder, Locate]]:
    """Convert a file into a private folder, which is removed after the block. Yields what `write_program_copy` does.

    Args:
        seconds: the time limit of the conversion; 0 for none.
        shared: make the folder beside the file, where other hosts see it too.

    Raises:
        UnusableInputError: the file cannot be converted.
    """
    original = load_document(path)
    with conversion_limit(path, seconds):
        outcome, converted = original.convert(options)
    if outcome.status not in ("converted", "unchanged"):
        _, errors = make_consoles(False)
        print_outcome(errors, path, outcome, None)
        raise RefusedError(outcome.status)
    name = f"{path.stem}_hvd{path.suffix or '.py'}"
    with write_program_copy(path, name, original, converted, shared) as copy:
        yield copy


def run_program(arguments: argparse.Namespace) -> int:
    """Run `run`: convert a program, run it on ranks, pass its output on, and return its exit code."""
    from rich.text import Text

    from ..launch.hosts import LaunchError
    from ..launch.job import Program
    from ..launch.rank_placement import place_ranks
    from ..launch.restarts import RESIZED, run_job_with_restarts
    from ..launch.signals import ended_by_signals
    from ..runtime.scaling import VIRTUAL_SIZE_VARIABLE
    from ..runtime.sharing.program import RESUME_VARIABLE

    console, errors = make_consoles(False)
    # The ranks have this package, and import nothing from beside the program.
    options = replace(options_for(arguments, arguments.file), standalone=False)
    elastic = bool(arguments.elastic)
    begins_again = arguments.restarts > 0 or elastic
    if options.batch == "global":
        refuse_conversion_options(arguments)
    try:
        ranks = place_ranks(arguments.size, where_of(arguments))  # refused before anything is done
        queue = queue_printer(errors)
        policy = choose_restart_policy(arguments, elastic, ranks, queue)
        shared = not ranks.is_local
        program = (
            copy_unconverted(arguments.file, shared)
            if options.batch == "global"
            else copy_converted(arguments.file, options, shared, arguments.conversion_limit)
        )
        with ended_by_signals(), program as made:
            copy, folder, locate = made
            starts = itertools.count(1)
            with open_log(arguments, copy, errors) as log:

                def hear_line(rank: int, stream: str, text: str) -> None:
                    if rank == 0:  # the others print the same
                        (errors if stream == "stderr" else console).print(
                            Text.from_ansi(text), soft_wrap=True
                        )
                    if log is not None:
                        log.add_output(rank, text)

                def started_again(result: JobResult, following: RankAssignment) -> None:
                    if result.code != RESIZED:
                        print_failure(result, errors)
                    again = f"started again, {next(starts)} of {arguments.restarts}"
                    if elastic:
                        ranks_now = f"{following.size} rank{'s' if following.size > 1 else ''}"
                        again = f"continues with {ranks_now}, from the state stored last"
                    errors.print(again, style="yellow", soft_wrap=True)
                    if log is not None:
                        log.add_output(result.rank or 0, f"[{describe_failure(result)}; {again}]")

                def tried_again(why: str) -> None:
                    errors.print(why, style="yellow", soft_wrap=True)
                    if log is not None:
                        log.add_output(0, f"[{why}]")

                variables = {**common_variables(options), RESUME_VARIABLE: str(int(begins_again))}
                if begins_again and options.batch == "per-rank":
                    variables[VIRTUAL_SIZE_VARIABLE] = str(arguments.size)
                job = Program(copy, arguments.file, arguments.extra, module=RANK_MODULE)
                heard: Any = {
                    "environment": variables,
                    "timeout": arguments.timeout,
                    "listener": hear_line,
                    "queued": queue,
                    "stalled": stall_printer(locate, errors, log),
                    "again": tried_again,
                }
                result = run_job_with_restarts(
                    job, folder, policy=policy, restarted=started_again, **heard
                )
                if log is not None:
                    log.note_end(result.code, result.rank, result.report)
    except LaunchError as error:
        raise UnusableInputError(str(error)) from None
    except RefusedError as error:
        return UNUSABLE if str(error) == "invalid" else REFUSED
    if result.code != 0:
        print_failure(result, errors)
    return result.code


def choose_restart_policy(
    arguments: argparse.Namespace,
    elastic: bool,
    ranks: RankAssignment,
    queued: Callable[[str], None],
) -> RestartPolicy:
    """Choose what happens after a failure: nothing, a restart, or an elastic continuation.

    Args:
        queued: see `ElasticRestartPolicy`.

    Raises:
        UnusableInputError: the options do not fit together.
        LaunchError: the hosts do not fit the options.
    """
    from ..launch.restarts import ElasticRestartPolicy, RestartPolicy

    if arguments.restarts < 0:
        raise UnusableInputError("--restarts: must be a whole number from 0 on")
    if not elastic:
        if arguments.least is not None or arguments.most is not None:
            raise UnusableInputError("--min and --max are for --elastic")
        return RestartPolicy(ranks, arguments.restarts)
    if arguments.restarts:
        raise UnusableInputError("--elastic restarts the job already: leave --restarts out")
    least = 1 if arguments.least is None else arguments.least
    return ElasticRestartPolicy(ranks, least, arguments.most or max(ranks.size, least), queued)


def describe_failure(result: JobResult) -> str:
    """Return a sentence on which rank failed, and with which exit code."""
    who = "the job" if result.rank is None else f"rank {result.rank}"
    return f"{who} failed with exit code {result.code}"


def print_failure(result: JobResult, errors: Console) -> None:
    """Print which rank failed, and its traceback, to standard error."""
    errors.print(f"[bold red]{describe_failure(result)}[/]")
    if result.report:
        print(result.report.rstrip(), file=sys.stderr)


@contextmanager
def open_log(arguments: argparse.Namespace, copy: Path, errors: Console) -> Iterator[JobLog | None]:
    """Open the job's log, which stores the converted program; None where no log is wanted or possible.

    Raises:
        UnusableInputError: it cannot be written to the place that the user named.
    """
    from ..jobs.control import list_jobs
    from ..jobs.log import JobLog, default_logs_folder, remove_oldest

    if arguments.no_log:
        yield None
        return
    log = None
    try:
        place = arguments.log or default_logs_folder()
        log = JobLog(place, arguments.file, arguments.size, find_command_line(arguments))
        shutil.copyfile(copy, log.folder / copy.name)
        if arguments.log is None:
            remove_oldest([job.folder for job in list_jobs(place) if job.is_past])
    except (OSError, RuntimeError, UnusableInputError) as error:  # RuntimeError: there is no home
        if log is not None:
            shutil.rmtree(log.folder, ignore_errors=True)
        if arguments.log is not None:
            raise UnusableInputError(
                f"--log {arguments.log}: cannot be written ({error})"
            ) from None
        errors.print(f"no log is written: {error}", style="dim", markup=False)
        yield None
        return
    try:
        yield log
    except SystemExit as stopped:  # by a signal
        log.note_end(
            stopped.code if isinstance(stopped.code, int) else 1, None, "ended by a signal"
        )
        raise
    except KeyboardInterrupt:
        log.note_end(130, None, "interrupted")
        raise
    except Exception as error:
        log.note_end(1, None, str(error))
        raise
    if log.given_up:
        errors.print(f"the log is incomplete: {log.given_up}", style="dim", markup=False)


def find_command_line(arguments: argparse.Namespace) -> list[str]:
    """Return the command as the user typed it, as far as this process knows."""
    return ["jupyter", "hvd", *arguments.words]


def stall_printer(
    locate: Locate, errors: Console, log: JobLog | None
) -> Callable[[Stall, Mapping[int, str]], None]:
    """Make a listener that prints, and logs, where ranks are stalled and what that means."""
    from rich.text import Text

    from ..launch.diagnosis import report_stall

    def show_stall(stall: Stall, hosts: Mapping[int, str]) -> None:
        lines = report_stall(stall, locate, hosts).lines
        if log is not None:
            log.note_stall(lines)
        for line in lines:
            errors.print(Text(line, style="yellow"), soft_wrap=True)

    return show_stall


def queue_printer(errors: Console) -> Callable[[str], None]:
    """Make a listener that prints what the job waits for, and for how long it has waited."""
    from rich.status import Status

    waiting: Status | None = None
    began = time.monotonic()

    def show_text(text: str) -> None:
        nonlocal waiting, began
        if text and waiting is None:
            began, waiting = time.monotonic(), Status(text, console=errors)
            errors.print(f"[dim]{text}; Ctrl-C gives up[/]")
            waiting.start()
        elif not text and waiting is not None:
            waiting.stop()
            waiting = None
            errors.print(f"[dim]started after {time.monotonic() - began:.0f} s in the queue[/]")

    return show_text
