"""Applies the patches of `patches/`: a machine that compiles need not have the program `patch`."""

from __future__ import annotations

import re
from pathlib import Path

from .build import CannotBuildError

HUNK = re.compile(r"^@@ .*\n", re.MULTILINE)


def apply_patch(patch: Path, source: Path) -> None:
    """Apply a unified diff to the folder `source`: each hunk must fit at exactly one place.

    Raises:
        CannotBuildError: a hunk does not fit.
    """
    _, *parts = re.split(r"^--- a/.*\n\+\+\+ b/", patch.read_text(), flags=re.MULTILINE)
    for part in parts:
        name, _, hunks = part.partition("\n")
        file = source / name
        text = file.read_text()
        for hunk in HUNK.split(hunks)[1:]:
            lines = hunk.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if line[0] in " -")
            after = "".join(line[1:] for line in lines if line[0] in " +")
            if text.count(before) != 1:
                raise CannotBuildError(f"{patch.name} does not fit {name} of this Horovod")
            text = text.replace(before, after)
        file.write_text(text)
