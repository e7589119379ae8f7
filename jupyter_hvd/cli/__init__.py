"""`jupyter hvd`: parse, call, show. Each command is a module that adds its parser and runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from .. import __version__
from ..files import UnusableInputError
from ..removed_options import removed_words
from . import (
    certify,
    convert,
    device_profile,
    doctor,
    estimate,
    explanation,
    install,
    job,
    jobs,
    rule,
    run,
    verify,
)
from .codes import OK, UNUSABLE
from .show import print_error
from .streams import discard_unwritable, explain_error, open_closed_streams

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    open_closed_streams()
    try:
        try:
            return run_command(sys.argv[1:] if argv is None else list(argv))
        finally:  # after `--help` too: what cannot be written is to be reported
            sys.stdout.flush()
    except BrokenPipeError:  # nobody reads any more
        discard_unwritable()
        return OK
    except OSError as error:
        text = explain_error(error)
        discard_unwritable()
        with suppress(OSError):  # standard error may be the one that cannot be written
            print_error(text)
        return UNUSABLE


def run_command(arguments: list[str]) -> int:
    """Run the command in these arguments; report errors on standard error, and return the exit code."""
    own, extra = split_extra(arguments)
    if advice := removed_words(own):
        print_error(advice)
        return UNUSABLE
    options = make_parser().parse_args(own)
    options.extra, options.words = extra, arguments
    try:
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except UnusableInputError as error:
        print_error(error)
        return UNUSABLE
    except KeyboardInterrupt:
        print("jupyter hvd: interrupted", file=sys.stderr)
        return 130


def split_extra(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments at the first separate `--`."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def make_parser() -> argparse.ArgumentParser:
    """Create the parser with all commands."""
    parser = argparse.ArgumentParser(
        prog="jupyter hvd",
        description="Turn single-process TensorFlow 2 notebooks and scripts into Horovod programs.",
    )
    parser.add_argument("--version", action="version", version=f"jupyter-hvd {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    modules = (
        convert,
        explanation,
        estimate,
        run,
        verify,
        certify,
        device_profile,
        job,
        jobs,
        rule,
        doctor,
        install,
    )
    for module in modules:
        module.add_parser(commands)
    return parser
