"""Distinguishes the user's code from that of libraries."""

from __future__ import annotations

import os
import site
import sysconfig
from functools import cache
from pathlib import Path

#: Code that libraries make out of strings; what other names in brackets stand for comes from a cell.
GENERATED = ("<frozen ", "<decorator-gen-")


@cache
def is_library(file: str) -> bool:
    """Whether a file of code is Python's own, or of an installed package, and so not the user's."""
    return file.startswith((*GENERATED, *library_folders()))


@cache
def library_folders() -> tuple[str, ...]:
    """Return the folders of Python's library, of installed packages and of this package, each ending in a separator."""
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])}
    return tuple({f"{path}{os.sep}" for each in found for path in (each, os.path.realpath(each))})
