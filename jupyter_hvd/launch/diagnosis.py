"""Explains a stall in a table and in words. Pure functions from the ranks' positions to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .progress import Position, Stall


@dataclass(frozen=True)
class Line:
    """A line of the user's own text: its name, `In[3], line 5`, and what stands there."""

    name: str
    text: str = ""


#: The user's line for a file and line of what runs; None where it is none of theirs.
Locate = Callable[[tuple[str, int]], Line | None]


def locate_by(
    find: Callable[[tuple[str, int]], tuple[int | None, int, str] | None], name: str
) -> Locate:
    """Return a function that locates positions in the user's program, which messages call `name`.

    Args:
        find: the cell (None for a script), line and text for a file and line; None if it is not in the program.
    """

    def locate_line(position: tuple[str, int]) -> Line | None:
        found = find(position)
        if found is None:
            return None
        cell, line, text = found
        return Line(f"{name}{'' if cell is None else f', cell {cell}'}, line {line}", text)

    return locate_line


def ranks_text(ranks: Sequence[int]) -> str:
    """Return the ranks as text: `rank 1`, `ranks 0, 2 and 3`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


@dataclass(frozen=True)
class StallReport:
    """What a user is told of ranks that make no progress.

    Attributes:
        head: for how long. rows: of a table with a row for each rank, the names of its columns first.
        sentences: the cause, and where to look.
    """

    head: str
    rows: Sequence[Sequence[str]]
    sentences: Sequence[str]

    @property
    def lines(self) -> list[str]:
        """The report as text, for a terminal or a log."""
        return [self.head, *align_columns(self.rows), *self.sentences]


def rank_rows(stall: Stall, locate: Locate, hosts: Mapping[int, str]) -> list[tuple[str, ...]]:
    """Return a header and a row for each rank: its host, line, activity, and for how long."""
    rows: list[tuple[str, ...]] = [("rank", "host", "at", "does", "for")]
    for rank in sorted({*stall.waiting, *stall.places, *stall.finished}):
        place, seconds = stall.places.get(rank), stall.since.get(rank)
        lasts = "" if seconds is None else f"{seconds:.0f} s"
        at = line_name(place, locate) if place is not None else ""
        rows.append((str(rank), hosts.get(rank, ""), at, activity_of(rank, stall), lasts))
    return rows


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows of cells as lines whose columns are as wide as their widest cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def line_name(position: Position, locate: Locate) -> str:
    """Return the name of the user's line at which a rank is, or "outside your code"."""
    found = locate(position.cell) if position.cell is not None else None
    return "outside your code" if found is None else found.name


def activity_of(rank: int, stall: Stall) -> str:
    """Return what a rank does, in a few words."""
    place = stall.places.get(rank)
    if place is None:
        return "has finished" if rank in stall.finished else "does not answer"
    if place.at_breakpoint:
        what = "stands at a breakpoint"
    elif place.collective:
        what = f"waits in {place.collective}"
    elif place.awaits_work:
        what = "waits for a cell"
    elif place.doing:
        what = place.doing
    elif rank not in stall.waiting:
        what = "computes"
    elif place.in_horovod:
        what = "waits in Horovod"
    else:
        what = "waits in TensorFlow" if place.in_tensorflow else "waits"
    return what


def explain_stall(stall: Stall, locate: Locate) -> list[str]:
    """Return the likely cause of a stall, and where to look: one sentence per element."""
    together = ranks_in_collectives(stall)
    absent = sorted(({*stall.waiting, *stall.places} - {*together}) | {*stall.finished})
    said: list[str] = []
    kinds = {stall.places[rank].collective for rank in together} - {""}
    if len(kinds) > 1:
        each = ", ".join(
            f"rank {r} in {stall.places[r].collective}"
            for r in together
            if stall.places[r].collective
        )
        said.append(
            f"The ranks wait in different collective operations: {each}. All ranks must call the same "
            "collective operations in the same order."
        )
    if together and absent:
        waiting, waited_for = ranks_text(together).capitalize(), ranks_text(absent)
        said.append(
            f"{waiting} waits for {waited_for}."
            if len(together) == 1
            else f"{waiting} wait for {waited_for}."
        )
    said += [line for rank in absent for line in explain_rank(rank, stall, locate)]
    if together and not absent and len(kinds) <= 1:
        said.append(
            "All ranks wait in the same operation: for the network, or, inside TensorFlow, for data."
        )
    for rank, place in sorted(stall.places.items()):
        if place.handling:
            said.append(
                f"Rank {rank} has caught {place.handling!r} and is handling it, so it does not run "
                "what the other ranks run meanwhile."
            )
    return said


def explain_breakpoint(stall: Stall, locate: Locate) -> list[str]:
    """Which rank stands at a breakpoint, and which ranks wait for it; nothing if none stands at one."""
    rank = stall.debugged
    if rank is None:
        return []
    at = line_name(stall.places[rank], locate)
    in_collective = {each for each, place in stall.places.items() if place.collective}
    waiting = sorted({*ranks_in_collectives(stall), *in_collective} - {rank})
    if not waiting:
        return [f"Rank {rank} stands at a breakpoint ({at})."]
    who = ranks_text(waiting).capitalize()
    return [
        f"{who} waits for rank {rank}, which stands at a breakpoint ({at})."
        if len(waiting) == 1
        else f"{who} wait for rank {rank}, which stands at a breakpoint ({at})."
    ]


def ranks_in_collectives(stall: Stall) -> list[int]:
    """Return the waiting ranks that wait for others: in a collective operation, in Horovod or in TensorFlow."""
    return [
        rank
        for rank in stall.waiting
        if (place := stall.places.get(rank)) is not None
        and (place.collective or place.in_horovod or place.in_tensorflow)
    ]


def explain_rank(rank: int, stall: Stall, locate: Locate) -> list[str]:
    """Return a sentence on a rank that others wait for, or that waits alone."""
    place = stall.places.get(rank)
    if place is None and rank in stall.finished:
        return [f"Rank {rank} has finished, so it takes part in no further operation."]
    if place is None:
        return [f"Rank {rank} does not answer: its process is stopped, or busy below Python."]
    found = locate(place.cell) if place.cell is not None else None
    at = "outside your code" if found is None else f"at {found.name}"
    text = f": {found.text}" if found is not None and found.text else ""
    if rank not in stall.waiting:
        return [
            f"Rank {rank} computes {at}{text}. It may still arrive, or this never ends on rank {rank}."
        ]
    return [f"Rank {rank} {place.doing or 'waits'} {at}{text}"]


def report_stall(stall: Stall, locate: Locate, hosts: Mapping[int, str]) -> StallReport:
    """Return the report of a stall: a headline, a table of the ranks, and an explanation."""
    longest = max(stall.since.values(), default=0.0)
    head = f"no progress for {longest:.0f} s:"
    return StallReport(head, rank_rows(stall, locate, hosts), explain_stall(stall, locate))
