"""The rows of a verification's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Outcome = Literal["running", "pass", "fail", "unknown"]
#: How an outcome is shown where a word would be too long.
MARKS: Mapping[Outcome, str] = {"pass": "✓", "fail": "✗", "unknown": "?", "running": "…"}


@dataclass(frozen=True)
class Check:
    """One row of the table."""

    check: str
    status: Outcome
    detail: str

    def as_json(self) -> dict[str, Any]:
        """Return the check as JSON."""
        return asdict(self)


def check_files_untouched(refused: Sequence[str], changes: Sequence[str]) -> Check:
    """Check that the files beside the program are unchanged: it has worked on copies.

    Args:
        refused: files that the program tried to change.
        changes: files that changed since the first run began.
    """
    name = "your files untouched"
    if refused:
        return Check(
            name,
            "fail",
            f"the program wants to change {refused[0]}, which was refused: it may write below its working folder",
        )
    if changes:
        also = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        return Check(
            name,
            "unknown",
            f"{changes[0]}{also} changed meanwhile: by the program, under a full path, or by somebody else",
        )
    return Check(name, "pass", "the programs worked on copies")
