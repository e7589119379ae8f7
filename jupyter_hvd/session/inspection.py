"""The state of a notebook's ranks for a panel, at any time: positions, output, and differences of variables."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ..launchers.diagnosis import activity_of, align_columns, explain_stall, line_name
from ..launchers.job_monitor import WAITS, is_hang
from ..launchers.progress import Progress, Stall
from ..rank import remote
from ..rank import variables as rank_variables
from .cell_output import CellOutput
from .cluster import Cluster
from .reports import Cells, line_of
from .variables import (
    ShownVariable,
    compare_summaries,
    ranks_to_fetch,
    shown_variables,
    within_limit,
)

#: Seconds for ranks to say what their variables are, and to send those that differ.
VARIABLES_WITHIN = 10.0


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
        """The state of the ranks, as JSON.

        Args:
            cells: by the names of their files on the ranks.
            screen: the output of the last cell.
            rank: whose output is wanted; None for no rank's.
            wants_variables: whether variables are.
        """
        with self._lock:
            if ranks is not self._ranks:
                self._ranks, self._progress = ranks, Progress(range(ranks.size), time.monotonic())
            is_running = screen is not None and not screen.has_ended
            looks = {
                r: told
                for r, told in ranks.ask_ranks(remote.panel_state).items()
                if isinstance(told, dict)
            }
            stall, advice = self._find_stall(ranks, looks, is_running)
            rows = [self._rank_row(r, ranks, cells, looks, stall) for r in range(ranks.size)]
            answer = {
                "cell": screen.cell if screen is not None else 0,
                "running": is_running,
                "ranks": rows,
                "words": explain_stall(advice, lambda place: line_of(place, cells))
                if advice
                else [],
            }
            if rank is not None:
                text = screen.texts.get(rank) if screen is not None else None
                answer["output"] = text.lines if text is not None else []
            if wants_variables:
                found, silent = _ask_variables(ranks)
                answer["variables"] = [_variable_as_json(each) for each in found]
                answer["silent"] = silent
            return answer

    def _find_stall(
        self, ranks: Cluster, looks: Mapping[int, Mapping[str, Any]], is_running: bool
    ) -> tuple[Stall, Stall | None]:
        """Where all ranks are, and that again if it is a hang."""
        now, progress = time.monotonic(), self._progress
        for rank, told in looks.items():
            progress.note_position(rank, told, now)
        places = {rank: progress.seen[rank][0] for rank in looks}
        silent = [rank for rank in range(ranks.size) if rank not in looks]
        since = {r: progress.idle_seconds(r) for r in looks if progress.idle_seconds(r) >= 1}
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
        looks: Mapping[int, Mapping[str, Any]],
        stall: Stall,
    ) -> dict[str, Any]:
        """A rank: its process, its line, what it does and for how many seconds, its memory in bytes."""
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
            "device": looks.get(rank, {}).get("device", ""),
            "memory": looks.get(rank, {}).get("memory", 0),
            "line": "" if place is None else line_name(place, lambda each: line_of(each, cells)),
            "text": "" if line is None else line.text,
            "does": does,
            "seconds": stall.since.get(rank, 0.0),
            "lost": lost is not None,
        }


def table_of_ranks(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each rank of what `Inspector.panel_state` has found."""
    head = ("rank", "host", "at", "does", "for")
    body = [
        (
            *(str(row[name]) for name in ("rank", "host", "line", "does")),
            f"{row['seconds']:.0f} s" if row["seconds"] else "",
        )
        for row in rows
    ]
    return align_columns([head, *body])


def _ask_variables(ranks: Cluster) -> tuple[list[ShownVariable], list[int]]:
    """The ranks' variables as they are now, and the ranks that do not say what theirs are."""
    told = ranks.ask_ranks(rank_variables.summarize_variables, [], True, within=VARIABLES_WITHIN)
    told = {rank: found for rank, found in told.items() if isinstance(found, dict)}
    found = compare_summaries(told)
    differing = within_limit([each for each in found if each.is_fetched and not each.is_replicated])
    values: Mapping[int, Any] = {}
    if differing:
        values = ranks.ask_ranks(
            rank_variables.values_of_variables,
            *([each.name for each in differing], True),
            ranks=ranks_to_fetch(differing),
            within=VARIABLES_WITHIN,
        )
    there = {rank: each for rank, each in values.items() if isinstance(each, dict)}
    return shown_variables(found, there), [r for r in range(ranks.size) if r not in told]


def _variable_as_json(variable: ShownVariable) -> dict[str, Any]:
    groups = [{"ranks": g.ranks, "text": g.text, "note": g.note} for g in variable.groups]
    return {"name": variable.name, "groups": groups}
