"""`%hvd status`: a row for each rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ranks import remote
from .cluster import Cluster


def status_rows(ranks: Cluster) -> list[dict[str, Any]]:
    """One row a rank: number, host, pid, device, memory, what it does."""
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
