"""Prepares a program for `--batch global`, for `jupyter hvd run` and `verify`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..convert.documents import load_document
from ..convert.unconverted_programs import require_single_process
from ..files import UnusableInputError
from .program_copy import write_program_copy

if TYPE_CHECKING:
    from ..launch.diagnosis import Locate
    from ..launch.reaper import PrivateFolder

RANK_MODULE = "jupyter_hvd.ranks.shared_rank"
#: Options of conversions.
OF_CONVERSIONS = ("standalone", "select", "ignore", "warmup_epochs")


def refuse_conversion_options(arguments: argparse.Namespace) -> None:
    """Refuse options that have no effect on a program that runs without conversion.

    Raises:
        UnusableInputError: such an option was given.
    """
    for name in OF_CONVERSIONS:
        if getattr(arguments, name, None):
            option = name.replace("_", "-")
            raise UnusableInputError(
                f"--{option}: --batch global runs the program as it is, and does not convert it; leave one of them out"
            )


@contextmanager
def copy_unconverted(
    path: Path, shared: bool = False
) -> Iterator[tuple[Path, PrivateFolder, Locate]]:
    """Copy a file into a private folder, which is removed after the block. Yields what `write_program_copy` does.

    Args:
        shared: make the folder beside the file, where other hosts see it too.

    Raises:
        UnusableInputError: the file cannot be shared.
    """
    document = require_single_process(path, load_document(path))
    with write_program_copy(path, path.name, document, document, shared) as copy:
        yield copy
