"""Names the files in which the ranks of a job write how their programs ended."""

from __future__ import annotations

from pathlib import Path


def status_file(folder: Path, rank: int) -> Path:
    """The file that a rank writes, whole, when its program has ended, however it has."""
    return folder / f"rank-{rank}.json"


def status_files(folder: Path) -> list[Path]:
    """The files of all ranks whose programs have ended, in the order of their names."""
    return sorted(folder.glob("rank-*.json"))
