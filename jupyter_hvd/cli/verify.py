"""`jupyter hvd verify`."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import UnusableInputError
from .codes import OK, REFUSED, UNUSABLE
from .options import add_options, options_for
from .show import make_consoles, print_diagnostics

if TYPE_CHECKING:
    from rich.console import Console

    from ..verify import Check, Verification


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "verify", help="check a conversion by running it on 1 and N processes"
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE")
    add("-n", type=int, default=2, metavar="N", dest="size", help="how many ranks (2)")
    add("--steps", type=int, default=20, metavar="K", help="training steps in each run (20)")
    add("--timeout", type=float, default=300, metavar="S", help="seconds for each run (300)")
    add(
        "--beside",
        type=Path,
        metavar="FOLDER",
        help="whose files the program has copies of (FILE's own)",
    )
    add(
        "--elastic",
        action="store_true",
        default=None,
        help="run it whole as an elastic job too, kill a rank, and check what becomes of the others",
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
    from ..convert import NotPythonError
    from ..launchers.hosts import LaunchError
    from ..launchers.signals import ended_by_signals
    from ..verify import UnconfirmedError

    try:
        with ended_by_signals():
            try:
                verification = run_checks(arguments, confirmed=arguments.yes)
            except UnconfirmedError as error:
                if not confirm(str(error), arguments):
                    raise UnusableInputError(f"{error}; say --yes if that is meant") from None
                verification = run_checks(arguments, confirmed=True)
    except (LaunchError, NotPythonError) as error:
        raise UnusableInputError(str(error)) from None
    if arguments.events:
        print(json.dumps({"done": True, **verification.as_json()}), flush=True)
    elif arguments.json:
        print(json.dumps(verification.as_json(), indent=2))
    else:
        print_verdict(arguments.file, verification)
    if verification.conversion.status == "invalid":
        return UNUSABLE
    unchanged = verification.conversion.status == "unchanged"
    return OK if verification.holds or unchanged else REFUSED


def run_checks(arguments: argparse.Namespace, *, confirmed: bool) -> Verification:
    from ..verify import verify

    console, _ = make_consoles(arguments.json or arguments.events)
    options = options_for(arguments, arguments.file, arguments.beside)
    if options.batch == "global":
        raise UnusableInputError(
            f"{arguments.file}: its settings choose batch global, and only per-rank conversions are verified"
        )
    # A live display would take the stream from JSON.
    quiet = arguments.json or arguments.events
    with nullcontext() if quiet else console.status("reading the file") as status:

        def show(check: Check) -> None:
            if status is not None and check.status == "running":
                status.update(f"{check.check}: {check.detail} …")
            elif status is not None:
                print_check(console, check)

        return verify(
            arguments.file,
            arguments.size,
            steps=arguments.steps,
            timeout=arguments.timeout,
            options=options,
            beside=arguments.beside,
            confirmed=confirmed,
            listener=print_event if arguments.events else show,
            conversion_seconds=arguments.conversion_limit,
        )


def confirm(question: str, arguments: argparse.Namespace) -> bool:
    """Ask on the terminal; nobody can be asked where there is none."""
    if arguments.json or arguments.events or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{question}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_event(check: Check) -> None:
    print(json.dumps(check.as_json()), flush=True)


def print_verdict(path: Path, verification: Verification) -> None:
    console, errors = make_consoles(False)
    if verification.checks:
        console.print(
            "The conversion holds." if verification.holds else "The conversion does not hold."
        )
        return
    print_diagnostics(errors, path, verification.conversion.diagnostics)
    console.print(f"{path}: {verification.conversion.status}, there is no conversion to verify")


def print_check(console: Console, check: Check) -> None:
    from rich.text import Text

    marks = {
        "pass": ("✓", "green"),
        "fail": ("✗", "bold red"),
        "unknown": ("?", "yellow"),
        "running": ("…", "dim"),
    }
    console.print(
        Text.assemble(marks[check.status], f" {check.check:<25} {check.detail}"), soft_wrap=True
    )
