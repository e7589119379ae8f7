"""The state of a notebook's ranks for a panel, at any time: positions, output, and differences of variables."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ..launch.diagnosis import (
    activity_of,
    align_columns,
    explain_breakpoint,
    explain_stall,
    line_name,
)
from ..launch.job_monitor import WAITS, is_hang
from ..launch.progress import Progress, Stall
from ..ranks import remote
from ..ranks import variables as rank_variables
from .cell_output import CellOutput
from .cluster import Cluster
from .reports import Cells, line_of
from .variables import (
    ComparedVariable,
    compare_summaries,
    ranks_to_fetch,
    shown_variables,
    within_limit,
)

#: Seconds for ranks to say what their variables are, and to send those that differ: to a panel, which asks again, and to a user.
PANEL_WITHIN, VARIABLES_WITHIN = 10.0, 30.0


class Inspector:
    """Looks at ranks from another thread than the one that cells run in; knows for how long each has waited.

    Its questions neither wait for a rank's own work nor call the user's code.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # several panels may ask at once
        self._ranks: Cluster | None = None
        self._progress = Progress((), 0.0)

    def panel_state(
        self,
        ranks: Cluster,
        cells: Cells,
        screen: CellOutput | None,
        rank: int | None = None,
        wants_variables: bool = True,
    ) -> dict[str, Any]:
        """Return the state of the ranks, as JSON: a row per rank, advice, output and variables.

        Args:
            cells: the cells by the names of their files on the ranks.
            screen: the output of the last cell.
            rank: whose output is included; None for no rank's.
            wants_variables: whether variables are compared.
        """
        with self._lock:
            is_running = screen is not None and not screen.has_ended
            rows, words = self._rank_rows(ranks, cells, is_running)
            answer = {
                "cell": screen.cell if screen is not None else 0,
                "running": is_running,
                "ranks": rows,
                "words": words,
            }
            if rank is not None:
                text = screen.texts.get(rank) if screen is not None else None
                answer["output"] = text.lines if text is not None else []
            if wants_variables:
                found, silent = _ask_variables(ranks, range(ranks.size))
                answer["variables"] = [_variable_as_json(each) for each in found]
                answer["silent"] = silent
            return answer

    def compare_variables(
        self, ranks: Cluster, cells: Cells, names: Sequence[str]
    ) -> tuple[list[ComparedVariable], list[Mapping[str, Any]]]:
        """Return the ranks' variables with these names, or all; and the rows of ranks that do not answer.

        Nothing is interrupted or restarted.
        """
        with self._lock:
            rows, _ = self._rank_rows(ranks, cells, is_running=False)
            answering = [row["rank"] for row in rows if row["answers"]]
            found, silent = _ask_variables(ranks, answering, names, during_cell=False)
            absent = {*range(ranks.size)} - {*answering} | {*silent}
            return found, [row for row in rows if row["rank"] in absent]

    def _rank_rows(
        self, ranks: Cluster, cells: Cells, is_running: bool
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Return a row for each rank, and why ranks wait, if they hang or one of them stands at a breakpoint."""
        if ranks is not self._ranks:
            self._ranks, self._progress = ranks, Progress(range(ranks.size), time.monotonic())
        reports = {
            r: told
            for r, told in ranks.ask_ranks(remote.panel_state).items()
            if isinstance(told, dict)
        }
        stall, hang = self._find_stall(ranks, reports, is_running)
        locate = partial(line_of, cells=cells)
        words = explain_stall(hang, locate) if hang else explain_breakpoint(stall, locate)
        return [self._rank_row(r, ranks, cells, reports, stall) for r in range(ranks.size)], words

    def _find_stall(
        self, ranks: Cluster, reports: Mapping[int, Mapping[str, Any]], is_running: bool
    ) -> tuple[Stall, Stall | None]:
        """Return the positions of all ranks; and these again if the ranks hang, else None.

        Args:
            reports: of the ranks that answered.
        """
        now, progress = time.monotonic(), self._progress
        for rank, told in reports.items():
            progress.note_position(rank, told, now)
        places = {rank: progress.seen[rank][0] for rank in reports}
        silent = [rank for rank in range(ranks.size) if rank not in reports]
        since = {r: progress.idle_seconds(r) for r in reports if progress.idle_seconds(r) >= 1}
        here = Stall(tuple(sorted({*silent, *since})), places, since)
        finished = [rank for rank, place in places.items() if place.awaits_work]
        working = [rank for rank in range(ranks.size) if rank not in finished]
        stall = (
            progress.find_stall(working, now, finished, WAITS) if is_running and working else None
        )
        return here, stall if stall is not None and is_hang(stall) else None

    def _rank_row(
        self,
        rank: int,
        ranks: Cluster,
        cells: Cells,
        reports: Mapping[int, Mapping[str, Any]],
        stall: Stall,
    ) -> dict[str, Any]:
        """Return a rank's row as JSON: process, position, activity and its seconds, memory in bytes."""
        known = ranks.rank_report(rank)
        place = stall.places.get(rank)
        line = line_of(place.cell, cells) if place is not None and place.cell is not None else None
        lost = ranks.find_lost([rank])
        if lost is not None:
            does = f"lost: {lost[1]}"
        elif ranks.ready:
            does = activity_of(rank, stall)
        else:
            does = str(known.get("stage", ranks.describe_stage()))
        return {
            "rank": rank,
            "host": str(known.get("host", "")),
            "pid": known.get("pid", 0),
            "device": reports.get(rank, {}).get("device", ""),
            "memory": reports.get(rank, {}).get("memory", 0),
            "line": "" if place is None else line_name(place, partial(line_of, cells=cells)),
            "text": "" if line is None else line.text,
            "does": does,
            "seconds": stall.since.get(rank, 0.0),
            "lost": lost is not None,
            "answers": rank in reports,
        }


def status_rows(ranks: Cluster) -> list[dict[str, Any]]:
    """Return a row for each rank in `%hvd status`: number, host, pid, device, memory, idle or busy.

    Blocks for at most five seconds. If a rank has failed, only its row is returned.
    """
    told = [{"rank": rank, **ranks.rank_report(rank)} for rank in range(ranks.size)]
    if not ranks.ready:
        return [{**row, "doing": row.get("stage", "starting")} for row in told]
    answers: Mapping[int, Any] = {}
    if ranks.find_lost() is None:
        answers = ranks.run(remote.status_row, timeout=5.0, aborts=False).replies
    lost = ranks.find_lost()
    if lost is not None:
        return [{**told[lost[0]], "doing": f"lost: {lost[1]}"}]
    return [
        {**row, **(answers.get(rank) or {}), "doing": "idle" if rank in answers else "busy"}
        for rank, row in enumerate(told)
    ]


def table_of_ranks(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a table, as lines of text, of the rows that `Inspector.panel_state` returns."""
    head = ("rank", "host", "at", "does", "for")
    body = [
        (
            *(str(row[name]) for name in ("rank", "host", "line", "does")),
            f"{row['seconds']:.0f} s" if row["seconds"] else "",
        )
        for row in rows
    ]
    return align_columns([head, *body])


def _ask_variables(
    ranks: Cluster, asked_ranks: Sequence[int], names: Sequence[str] = (), during_cell: bool = True
) -> tuple[list[ComparedVariable], list[int]]:
    """Ask some ranks for their variables; return the comparison, and the ranks that did not answer.

    Blocks for at most twice `PANEL_WITHIN` or `VARIABLES_WITHIN` seconds.

    Args:
        names: variables or parts of them; all if empty.
        during_cell: as `beside` of `summarize_variables`; also limits the size of what is fetched.
    """
    within = PANEL_WITHIN if during_cell else VARIABLES_WITHIN
    asked = rank_variables.summarize_variables, [*names], during_cell
    told = ranks.ask_ranks(*asked, ranks=asked_ranks, within=within)
    told = {rank: found for rank, found in told.items() if isinstance(found, dict)}
    found = compare_summaries(told)
    differing = [each for each in found if each.is_fetched and not each.is_replicated]
    differing = within_limit(differing) if during_cell else differing
    values: Mapping[int, Any] = {}
    if differing:
        values = ranks.ask_ranks(
            rank_variables.values_of_variables,
            *([each.name for each in differing], during_cell),
            ranks=ranks_to_fetch(differing),
            within=within,
        )
    there = {rank: each for rank, each in values.items() if isinstance(each, dict)}
    return shown_variables(found, there), [rank for rank in asked_ranks if rank not in told]


def silent_line(row: Mapping[str, Any]) -> str:
    """Return a line that says why a rank's variables are not compared."""
    at = f" at {row['line']}" if row["line"] else ""
    why = row["does"].removeprefix("lost: ") if row["lost"] else f"it {row['does']}{at}"
    return f"rank {row['rank']} is not compared: {why}"


def _variable_as_json(variable: ComparedVariable) -> dict[str, Any]:
    """Convert a compared variable to JSON for a panel."""
    groups = [{"ranks": g.ranks, "text": g.text, "note": g.note} for g in variable.groups]
    return {"name": variable.name, "groups": groups}
