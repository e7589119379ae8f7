"""`jupyter hvd`: parse, call, show. Each command is a module that adds its parser and runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from .. import __version__
from ..files import UnusableInputError
from . import convert, doctor, install, job, jobs, rule, run, verify
from .codes import OK, UNUSABLE
from .show import complain

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    own, extra = split_extra(arguments)
    options = make_parser().parse_args(own)
    options.extra, options.words = extra, arguments
    try:
        command: Callable[[argparse.Namespace], int] = options.command
        code = command(options)
        sys.stdout.flush()
        return code
    except UnusableInputError as error:
        complain(error)
        return UNUSABLE
    except BrokenPipeError:
        # Nobody reads any more; what Python would still flush at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return OK
    except KeyboardInterrupt:
        print("jupyter hvd: interrupted", file=sys.stderr)
        return 130


def split_extra(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What stands before and after a lone `--`."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jupyter hvd",
        description="Turn single-process TensorFlow 2 notebooks and scripts into Horovod programs.",
    )
    parser.add_argument("--version", action="version", version=f"jupyter-hvd {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (convert, run, verify, job, jobs, rule, doctor, install):
        module.add_parser(commands)
    return parser
