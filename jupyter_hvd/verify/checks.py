"""A line of a verification's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Outcome = Literal["running", "pass", "fail", "unknown"]


@dataclass(frozen=True)
class Step:
    """How long a step takes: on one rank, what it has of all cores together there, and on `ranks` of them."""

    seconds: float
    cpu_seconds: float
    cores: int
    ranks: int
    ranks_seconds: float


@dataclass(frozen=True)
class Check:
    """One line of the table; `step` is there where steps were timed."""

    check: str
    status: Outcome
    detail: str
    step: Step | None = None

    def as_json(self) -> dict[str, Any]:
        said = {"check": self.check, "status": self.status, "detail": self.detail}
        return said if self.step is None else {**said, "step": asdict(self.step)}


def files_untouched(refused: Sequence[str], changes: Sequence[str]) -> Check:
    """The files beside the program are as they were: it has worked on copies.

    Args:
        refused: files that the program was kept from changing.
        changes: the files that are not what they were when the first run began.
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
