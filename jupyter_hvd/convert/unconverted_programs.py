"""Programs that run on N ranks without conversion: which are refused, and which settings are replicated."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import UnusableInputError

if TYPE_CHECKING:
    from . import Options
    from .documents import Document

USES_HOROVOD = re.compile(r"^[ \t]*(?:import|from)[ \t]+horovod\b", re.MULTILINE)


def require_single_process(path: Path, document: Document) -> Document:
    """Return the document, if it is a program for one process.

    Args:
        path: the name of the program in the error.

    Raises:
        UnusableInputError: it uses Horovod itself.
    """
    if any(USES_HOROVOD.search(text) for text in document.sources.values()):
        raise UnusableInputError(
            f"{path}: it uses Horovod itself, and ranks share programs for one process; "
            "run it with horovodrun"
        )
    return document


def common_variables(options: Options, seed: int | None = None) -> Mapping[str, str]:
    """Return the environment variables that all ranks get: a common seed, and the options of sharing.

    Args:
        seed: the seed; None for a random one.
    """
    from ..runtime.sharing.program import DATA_VARIABLE, GUARD_VARIABLE, SEED_VARIABLE

    return {
        SEED_VARIABLE: str(secrets.randbelow(2**31) if seed is None else seed),
        GUARD_VARIABLE: "1" if options.guard else "0",
        DATA_VARIABLE: options.data,
    }
