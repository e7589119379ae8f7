"""Options of the conversion on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..convert.conversion_limit import CONVERSION_SECONDS
from ..files import UnusableInputError

if TYPE_CHECKING:
    from ..convert import Options


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a conversion. Their default is None, so that the project's settings apply."""
    add = parser.add_argument
    add("--select", type=parse_codes, metavar="CODES", help="use these rules only: HVD2,HVD301")
    add("--ignore", type=parse_codes, metavar="CODES", help="leave these rules out")
    add(
        "--warmup-epochs",
        type=int,
        metavar="E",
        help="with batch per-rank: let fit reach N times the learning rate after E epochs",
    )
    add(
        "--standalone",
        action=argparse.BooleanOptionalAction,
        help="write what the program needs of jupyter_hvd.runtime into a file beside it",
    )
    add(
        "--guard",
        action=argparse.BooleanOptionalAction,
        help="compare the ranks while they train, and stop them where they part; on if not given",
    )
    add(
        "--data",
        choices=("each", "rank0", "augment"),
        help="each: every rank reads all data (default); rank0: rank 0 reads datasets for all ranks; augment: each rank draws "
        "the random numbers of a dataset's maps for its own rows only",
    )
    add_limit(parser)


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Add the option for the time limit of a conversion."""
    parser.add_argument(
        "--conversion-limit",
        type=parse_seconds,
        default=CONVERSION_SECONDS,
        metavar="S",
        help=f"give up a conversion after S seconds ({CONVERSION_SECONDS:g}); 0: never",
    )


def add_batch(parser: argparse.ArgumentParser) -> None:
    """Add the option `--batch`."""
    parser.add_argument(
        "--batch",
        choices=("per-rank", "global"),
        help="per-rank: the ranks share batches N times as large, at N times the learning rate (default). "
        "global: they share the batches of one process, with its result",
    )


def parse_seconds(text: str) -> float:
    """Parse a number of seconds.

    Raises:
        ValueError: it is not a number, or negative.
    """
    value = float(text)
    if not 0 <= value < 1e9:
        raise ValueError(text)
    return value


def parse_codes(text: str) -> tuple[str, ...]:
    """Parse rule codes such as `HVD1,HVD205`."""
    return tuple(code.strip() for code in text.split(",") if code.strip())


def options_for(arguments: argparse.Namespace, path: Path, near: Path | None = None) -> Options:
    """Return the options for a file: those of the command line override the notebook's, which override its project's.

    Args:
        near: a file or folder in the project, if not `path`.

    Raises:
        UnusableInputError: an option has a wrong value.
    """
    from dataclasses import fields

    from ..convert import OptionError, Options
    from ..settings import notebook_settings

    given = {field.name: getattr(arguments, field.name, None) for field in fields(Options)}
    given = {name: value for name, value in given.items() if value is not None}
    try:
        return Options.resolve({**notebook_settings(path, Options), **given}, near or path)
    except OptionError as error:
        option = error.name.replace("_", "-")
        raise UnusableInputError(f"--{option}: {error.problem}") from None
