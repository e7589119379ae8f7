"""`jupyter hvd run --batch global`: the program as it is, shared by N ranks."""

from __future__ import annotations

import argparse
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..documents import load
from ..files import UnusableInputError
from .program_copy import program_copy

if TYPE_CHECKING:
    from ..convert import Options
    from ..documents import Document
    from ..launchers.diagnosis import Locate
    from ..launchers.reaper import PrivateFolder

RANK_MODULE = "jupyter_hvd.rank.shared"
#: Options of conversions and of jobs that are started again, beside those that `Options` refuses.
OF_CONVERSIONS = ("select", "ignore", "standalone", "restarts")
USES_HOROVOD = re.compile(r"^[ \t]*(?:import|from)[ \t]+horovod\b", re.MULTILINE)


def refuse_other_options(arguments: argparse.Namespace) -> None:
    """
    Raises:
        UnusableInputError: an option was given that has no meaning for a program that is not converted.
    """
    for name in OF_CONVERSIONS:
        if getattr(arguments, name, None):
            raise UnusableInputError(
                f"--{name}: --batch global runs the program as it is, and does not convert it; leave one of them out"
            )


@contextmanager
def program_as_it_is(
    path: Path, shared: bool = False
) -> Iterator[tuple[Path, PrivateFolder, Locate]]:
    """A copy of a file, in a folder of its own that goes with the block, and whose lines those are.

    Args:
        shared: the folder is made beside the file, where other hosts see it too.

    Raises:
        UnusableInputError: the file cannot be shared.
    """
    document = load_as_it_is(path)
    with program_copy(path, path.name, document, document, shared) as copy:
        yield copy


def load_as_it_is(path: Path) -> Document:
    """A program for one process.

    Raises:
        UnusableInputError: the file cannot be shared.
    """
    document = load(path)
    if any(USES_HOROVOD.search(text) for text in document.sources.values()):
        raise UnusableInputError(
            f"{path}: it uses Horovod itself, and --batch global shares programs for one process; "
            "run it with horovodrun"
        )
    return document


def rank_environment(options: Options, seed: int | None = None) -> Mapping[str, str]:
    """What all ranks have in common: a seed, another one for each run as for a program that sets none.

    Args:
        seed: the seed, where it is given.
    """
    from ..runtime.sharing.program import GUARD_VARIABLE, SEED_VARIABLE

    return {
        SEED_VARIABLE: str(secrets.randbelow(2**31) if seed is None else seed),
        GUARD_VARIABLE: "1" if options.guard else "0",
    }
