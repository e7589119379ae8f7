"""A folder for each rank but the first: what the program reads is there, and what it writes stays there.

Ranks that run one program as it is write the same files. Each but rank 0 works on a copy of the folder: small files are
copied, large ones and full folders are links.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

#: Bytes of a file, and of all files, that are copied; entries of a folder that is no link.
LARGEST, TOTAL, ENTRIES = 10_000_000, 300_000_000, 1000
#: Folders that no training writes to.
LINKED = (".git", ".venv", "venv", "node_modules", "__pycache__", ".ipynb_checkpoints")


def copy_folder(source: Path, target: Path, without: Path) -> None:
    """Make a folder with what is in another.

    Args:
        without: a folder that is left out, with all in it.
    """
    left = TOTAL

    def copy(source: Path, target: Path) -> None:
        nonlocal left
        target.mkdir()
        for entry in os.scandir(source):
            path = Path(entry.path)
            if path == without:
                continue
            new = target / entry.name
            try:
                if entry.is_dir(follow_symlinks=False) and not is_linked(path):
                    copy(path, new)
                    continue
                size = entry.stat().st_size if entry.is_file() else LARGEST + 1
                if size <= min(LARGEST, left):
                    shutil.copy2(path, new)
                    left -= size
                    continue
            except OSError:  # it may not be read, or is gone
                pass
            if not new.exists():
                new.symlink_to(path)

    copy(source, target)


def is_linked(folder: Path) -> bool:
    """Whether a folder stays one that all ranks have together."""
    return folder.name in LINKED or sum(1 for _ in os.scandir(folder)) > ENTRIES
