"""`jupyter hvd verify`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..convert.documents import load_document
from ..convert.unconverted_programs import common_variables, require_single_process
from ..files import UnusableInputError, write_atomically
from .codes import OK, REFUSED
from .global_batch import refuse_conversion_options
from .options import add_options, options_for
from .show import make_consoles

if TYPE_CHECKING:
    from rich.console import Console

    from ..convert import Options
    from ..verify.against.verification import AgainstVerification
    from ..verify.checks import Check
    from ..verify.exact.verification import ExactVerification


def add_parser(commands: Any) -> None:
    """Add the command `verify`."""
    parser = commands.add_parser(
        "verify",
        help="check a conversion, or a training on N ranks, by running it beside one process",
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE")
    add(
        "--batch",
        choices=("per-rank", "global"),
        help="per-rank: check that N ranks give what the scaled program gives in one process, and that it is scaled as it should "
        "be (default). global: check that the program as it is gives on N ranks what it gives in one process",
    )
    add(
        "--against",
        type=Path,
        metavar="OTHER",
        help="judge another program for the same training, which uses Horovod itself; --batch then says whether its ranks share "
        "FILE's batches (global) or take one each (per-rank); found out if it is left out",
    )
    add(
        "--launcher",
        metavar="COMMAND",
        help="with --against: the command that starts OTHER's ranks on this machine, such as 'mpirun -np 2'; it is split into "
        "words, and no shell reads it",
    )
    add(
        "--report",
        type=Path,
        metavar="FILE.html",
        help="with --against: write verdict, losses, checks and environment into a page of its own",
    )
    add(
        "-n",
        type=int,
        metavar="N",
        dest="size",
        help="how many ranks (2, then 3; with --against 2)",
    )
    add(
        "--steps",
        type=int,
        metavar="K",
        help="training steps in each run (all)",
    )
    add(
        "--tolerance",
        type=float,
        metavar="T",
        help="the part of the largest number of its kind by which a number may differ (0.0001)",
    )
    add("--timeout", type=float, default=300, metavar="S", help="seconds for each run (300)")
    add(
        "--beside",
        type=Path,
        metavar="FOLDER",
        help="whose files the program has copies of (FILE's own)",
    )
    add("--yes", action="store_true", help="copy these files without asking, however many they are")
    add("--json", action="store_true", help="print one JSON object")
    add(
        "--events",
        action="store_true",
        help="print one JSON object per line as checks begin and end",
    )
    add_options(parser)
    parser.set_defaults(command=run_verify)


def run_verify(arguments: argparse.Namespace) -> int:
    """Run `verify`: run the program on ranks and in one process, print the verdict, and return the exit code."""
    from ..convert import NotPythonError
    from ..launch.hosts import LaunchError
    from ..launch.signals import ended_by_signals
    from ..verify.workspace import UnconfirmedError

    options = options_for(arguments, arguments.file, arguments.beside)
    if options.batch == "global":
        refuse_conversion_options(arguments)
    if arguments.tolerance is not None and not 0 < arguments.tolerance < 1:
        raise UnusableInputError("--tolerance: must be between 0 and 1")
    if options.data == "augment":
        raise UnusableInputError(
            "--data augment: the maps draw other random numbers than in one process, so there is nothing to compare with; "
            "verify with --data each: all else is the same"
        )
    if arguments.against is None and (arguments.launcher or arguments.report):
        raise UnusableInputError("--launcher and --report are for --against OTHER")
    if arguments.report is not None and not arguments.report.resolve().parent.is_dir():
        raise UnusableInputError(f"{arguments.report}: there is no such folder")
    run: Callable[..., Any] = run_scaled_checks
    if arguments.against is not None:
        run = run_other_checks
    elif options.batch == "global":
        run = run_exact_checks
    verification: Any
    try:
        with ended_by_signals():
            try:
                verification = run(arguments, options, confirmed=arguments.yes)
            except UnconfirmedError as error:
                if not ask_confirmation(str(error), arguments):
                    raise UnusableInputError(f"{error}; say --yes if that is meant") from None
                verification = run(arguments, options, confirmed=True)
    except (LaunchError, NotPythonError) as error:
        raise UnusableInputError(str(error)) from None
    if arguments.report is not None:
        write_report(arguments, verification)
    if arguments.events:
        print(json.dumps({"done": True, **verification.as_json()}), flush=True)
    elif arguments.json:
        print(json.dumps(verification.as_json(), indent=2))
    else:
        print_verdict(verification)
    return OK if verification.holds else REFUSED


@contextmanager
def make_check_listener(arguments: argparse.Namespace) -> Iterator[Callable[[Check], None]]:
    """Make a listener that shows each check as it begins and ends: as a line, an event, or not at all if the outcome is JSON."""
    console, _ = make_consoles(arguments.json or arguments.events)
    # A live display would take the stream from JSON.
    quiet = arguments.json or arguments.events
    with nullcontext() if quiet else console.status("reading the file") as status:

        def show_check(check: Check) -> None:
            if status is not None and check.status == "running":
                status.update(f"{check.check}: {check.detail} …")
            elif status is not None:
                print_check(console, check)

        yield print_event if arguments.events else show_check


def run_exact_checks(
    arguments: argparse.Namespace, options: Options, *, confirmed: bool
) -> ExactVerification:
    """Verify `--batch global`: the ranks' results must equal those of one process."""
    from ..verify.exact.compare import TOLERANCE
    from ..verify.exact.verification import SEED, SIZES, verify_exact

    with make_check_listener(arguments) as show:
        return verify_exact(
            arguments.file,
            require_single_process(arguments.file, load_document(arguments.file)),
            SIZES if arguments.size is None else (arguments.size,),
            variables=common_variables(options, SEED),
            steps=arguments.steps,
            timeout=arguments.timeout,
            tolerance=arguments.tolerance or TOLERANCE,
            beside=arguments.beside,
            confirmed=confirmed,
            listener=show,
        )


def run_scaled_checks(
    arguments: argparse.Namespace, options: Options, *, confirmed: bool
) -> ExactVerification:
    """Verify `--batch per-rank`: against the scaled program in one process, and that against the original."""
    from ..verify.exact.scaled_program import verify_scaled
    from ..verify.exact.verification import SIZES

    with make_check_listener(arguments) as show:
        return verify_scaled(
            arguments.file,
            load_document(arguments.file),
            SIZES if arguments.size is None else (arguments.size,),
            options=options,
            steps=arguments.steps,
            timeout=arguments.timeout,
            tolerance=arguments.tolerance,
            beside=arguments.beside,
            confirmed=confirmed,
            listener=show,
            conversion_seconds=arguments.conversion_limit,
        )


def run_other_checks(
    arguments: argparse.Namespace, options: Options, *, confirmed: bool
) -> AgainstVerification:
    """Verify `--against`: judge another program that distributes the training itself."""
    from ..verify.against.verification import Program, verify_against
    from ..verify.exact.compare import TOLERANCE
    from ..verify.exact.verification import SEED

    original, other = (
        Program(path, load_document(path)) for path in (arguments.file, arguments.against)
    )
    require_single_process(original.path, original.document)
    with make_check_listener(arguments) as show:
        return verify_against(
            original,
            other,
            2 if arguments.size is None else arguments.size,
            variables=common_variables(options, SEED),
            mode={None: None, "global": "exact", "per-rank": "scaled"}[arguments.batch],
            steps=arguments.steps,
            timeout=arguments.timeout,
            tolerance=arguments.tolerance or TOLERANCE,
            beside=arguments.beside,
            confirmed=confirmed,
            listener=show,
            launcher=split_command(arguments.launcher),
        )


def split_command(launcher: str | None) -> list[str] | None:
    """Split a command into words as a shell does; None for None.

    Raises:
        UnusableInputError: it is empty, or a quotation mark is not closed.
    """
    if launcher is None:
        return None
    try:
        words = shlex.split(launcher)
    except ValueError as error:
        raise UnusableInputError(f"--launcher {launcher}: {error}") from None
    if not words:
        raise UnusableInputError("--launcher: needs a command, such as 'mpirun -np 2'")
    return words


def write_report(arguments: argparse.Namespace, verification: AgainstVerification) -> None:
    """Write the report page.

    Raises:
        UnusableInputError: the file cannot be written.
    """
    from ..verify.against.report_page import describe_environment, render_report

    page = render_report(
        arguments.file.name, arguments.against.name, verification, describe_environment()
    )
    write_atomically(arguments.report, page.encode())


def ask_confirmation(question: str, arguments: argparse.Namespace) -> bool:
    """Ask a yes-or-no question on the terminal; return whether the answer is yes, False without a terminal."""
    if arguments.json or arguments.events or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{question}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_event(check: Check) -> None:
    """Print a check as a line of JSON."""
    print(json.dumps(check.as_json()), flush=True)


def print_verdict(verification: ExactVerification | AgainstVerification) -> None:
    """Print the verdict."""
    console, _ = make_consoles(False)
    console.print(verification.verdict, markup=False, soft_wrap=True)


def print_check(console: Console, check: Check) -> None:
    """Print a check as a line with a mark."""
    from rich.text import Text

    from ..verify.checks import MARKS

    styles = {"pass": "green", "fail": "bold red", "unknown": "yellow", "running": "dim"}
    mark = (MARKS[check.status], styles[check.status])
    console.print(Text.assemble(mark, f" {check.check:<25} {check.detail}"), soft_wrap=True)
