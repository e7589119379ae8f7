"""`jupyter hvd run`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..documents import load, write
from ..files import UnusableInputError
from ..launchers.arguments import add_place_options, where_of
from .codes import REFUSED, UNUSABLE
from .options import add_options, options_for
from .show import make_consoles, print_outcome

if TYPE_CHECKING:
    from rich.console import Console

    from ..convert import Options
    from ..launchers.reaper import PrivateFolder

RANK_STYLES = ("cyan", "green", "magenta", "yellow", "blue", "red")


class RefusedError(Exception):
    """A file was refused; its diagnostics have been printed."""


def add_parser(commands: Any) -> None:
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
    add_options(parser)
    parser.set_defaults(command=run_run)


@contextmanager
def converted_copy(
    path: Path, options: Options, shared: bool = False
) -> Iterator[tuple[Path, PrivateFolder]]:
    """A converted copy of a file, in a folder of its own that goes with the block.

    Args:
        shared: the folder is made beside the file, where other hosts see it too.

    Raises:
        UnusableInputError: the file cannot be converted.
    """
    from ..launchers.reaper import private_folder

    outcome, converted = load(path).convert(options)
    if outcome.status not in ("converted", "unchanged"):
        _, errors = make_consoles(False)
        print_outcome(errors, path, outcome, None)
        raise RefusedError(outcome.status)
    with private_folder(path.resolve().parent if shared else None) as folder:
        copy = folder.path / f"{path.stem}_hvd{path.suffix or '.py'}"
        write(copy, converted)
        yield copy, folder


def run_run(arguments: argparse.Namespace) -> int:
    from ..launchers.hosts import LaunchError
    from ..launchers.job import Program, run_job
    from ..launchers.places import place
    from ..launchers.signals import ended_by_signals

    console, errors = make_consoles(False)
    options = options_for(arguments, arguments.file)
    try:
        ranks = place(arguments.size, where_of(arguments))  # refused before anything is done
        shared = not ranks.here
        with ended_by_signals(), converted_copy(arguments.file, options, shared) as (copy, folder):
            result = run_job(
                Program(copy, arguments.file, arguments.extra),
                ranks,
                folder,
                timeout=arguments.timeout,
                listener=tagged_printer(console, errors),
                queued=queue_printer(errors),
            )
    except LaunchError as error:
        raise UnusableInputError(str(error)) from None
    except RefusedError as error:
        return UNUSABLE if str(error) == "invalid" else REFUSED
    if result.code != 0:
        who = "the job" if result.rank is None else f"rank {result.rank}"
        errors.print(f"[bold red]{who} failed with exit code {result.code}[/]")
        if result.report:
            print(result.report.rstrip(), file=sys.stderr)
    return result.code


def tagged_printer(console: Console, errors: Console) -> Callable[[int, str, str], None]:
    """Prints each line of output behind its rank."""
    from rich.text import Text

    def show(rank: int, stream: str, line: str) -> None:
        style = RANK_STYLES[rank % len(RANK_STYLES)]
        target = errors if stream == "stderr" else console
        target.print(Text.assemble((f"[{rank}] ", style), Text.from_ansi(line)), soft_wrap=True)

    return show


def queue_printer(errors: Console) -> Callable[[str], None]:
    """Says what the job waits for, and for how long it has waited."""
    from rich.status import Status

    waiting: Status | None = None
    began = time.monotonic()

    def show(text: str) -> None:
        nonlocal waiting, began
        if text and waiting is None:
            began, waiting = time.monotonic(), Status(text, console=errors)
            errors.print(f"[dim]{text}; Ctrl-C gives up[/]")
            waiting.start()
        elif not text and waiting is not None:
            waiting.stop()
            waiting = None
            errors.print(f"[dim]started after {time.monotonic() - began:.0f} s in the queue[/]")

    return show
