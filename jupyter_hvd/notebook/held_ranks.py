"""The ranks that a notebook has, from their start to their end, and what its kernel knows of them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from functools import partial
from typing import Any

from ..convert.rules.base import Batch
from ..launch.diagnosis import StallReport, report_stall
from ..launch.hosts import LaunchError, is_local, parse_hosts
from ..launch.progress import Stall
from ..launch.rank_placement import PlacementOptions, RankAssignment, place_ranks
from ..launch.start_faults import start_again_once
from ..ranks.forks import ForkServerCache
from ..ranks.paths import weighted_objects
from ..ranks.sent_cells import SentCell
from ..ranks.serialization import SerializedValue, digest_value, pack_value
from .cell_names import names_of
from .cell_output import CellOutput
from .cluster import Cluster
from .errors import DistributeError, named_error
from .gpu_memory import VARIABLE, kernel_gpus, kernel_warning
from .history import History
from .monitor import Run
from .planning import RanksState
from .rank_processes import PRELOADED
from .reports import line_of
from .weights import shortest_path

DEFAULT_SIZE = 2
#: This machine, or the allocation inside which the notebook runs.
ANYWHERE = PlacementOptions()
NO_RANKS = "there are no ranks; a cell with %%distribute starts them"


class HeldRanks:
    """The ranks of one notebook.

    Attributes:
        cluster: None where there are none. state: what they have been sent.
        files: the cells that they have been sent, by the files that their code is known by there.
        rescued: weights of ended ranks, by access path, each with a digest of the notebook's copy at that time.
        parted: names that refer to other objects there than in the notebook, and the number of the cell that parted them.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.cluster: Cluster | None = None
        self.state = RanksState()
        self.files: dict[str, SentCell] = {}
        self.rescued: dict[str, tuple[SerializedValue, int]] = {}
        self.diverged: dict[str, int] = {}
        self._forks = ForkServerCache(PRELOADED)

    @property
    def batch(self) -> Batch | None:
        """How the ranks share batches; None without ranks."""
        return self.cluster.batch if self.cluster is not None else None

    def require_cluster(self) -> Cluster:
        """Return the ranks, whether or not they are ready.

        Raises:
            DistributeError: there are none.
        """
        if self.cluster is None:
            raise DistributeError(NO_RANKS)
        return self.cluster

    def make_screen(self, **options: Any) -> CellOutput:
        """Create the output area of a cell; options are those of `CellOutput`."""
        return CellOutput(self.history.shell, self._stall_report, **options)

    def require_ready(self) -> Cluster:
        """Return the ranks once they are ready; if one has failed, start as many new ones.

        Raises:
            DistributeError: there are none, or they do not start.
        """
        batch = self.require_cluster().batch
        return self.ensure_ready(None, ANYWHERE, batch, self.make_screen())

    def ensure_ready(
        self, size: int | None, where: PlacementOptions, batch: Batch | None, screen: CellOutput
    ) -> Cluster:
        """Return ranks with these properties once they are ready; end others, and start new ones as needed.

        Args:
            size: None for as many as there are.
            batch: how they share batches; None for ranks that share nothing.

        Raises:
            DistributeError: they do not start.
        """
        held = self.cluster
        try:
            size, where = self._choose_size_and_hosts(size, where)
            asked = (size, where, batch)
            others = held is None or (held.size, held.where, held.batch) != asked
            # What cannot be started ends nothing.
            new = place_ranks(size, where) if others else None
        except LaunchError as error:
            raise DistributeError(str(error)) from None
        try:
            if held is not None and others:
                screen.add_line(f"{held.size} ranks are stopped, their state goes with them")
                self.stop()
            self._end_after_failure(screen)
            if self.cluster is None:
                warn_of_gpus(new or place_ranks(size, where), screen)
            return start_again_once(
                lambda: self._start(new or place_ranks(size, where), batch, screen),
                screen.add_line,
            )
        except LaunchError as error:
            self.stop()
            raise DistributeError(str(error)) from None
        except KeyboardInterrupt:
            self.stop()
            raise named_error(
                "KeyboardInterrupt",
                "interrupted",
                ["the start of the ranks was interrupted; none is left"],
            ) from None

    def _start(self, place: RankAssignment, batch: Batch | None, screen: CellOutput) -> Cluster:
        """Have ranks ready: those that there are, else new ones in a place.

        Raises:
            LaunchError: they do not start; then there are none.
        """
        if self.cluster is None:
            self.cluster = Cluster(place, self._forks, batch)
        try:
            if not self.cluster.ready:
                wait_ready(self.cluster, screen)
            return self.cluster
        except LaunchError:
            self.stop()
            raise

    def _choose_size_and_hosts(
        self, size_option: int | None, where: PlacementOptions
    ) -> tuple[int, PlacementOptions]:
        """Return the number of ranks and where they run; those of the current ranks by default.

        Raises:
            LaunchError: the option that names the hosts is malformed.
        """
        held, size = self.cluster, DEFAULT_SIZE if size_option is None else size_option
        if size_option is None and where.hosts is not None:
            size = sum(host.slots for host in parse_hosts(where.hosts))
        elif size_option is None and held is not None:
            size = held.size
        if where == ANYWHERE and held is not None and size_option in (None, held.size):
            where = held.where
        return size, where

    def _end_after_failure(self, screen: CellOutput) -> None:
        """End all ranks if one has failed; first rescue their weights, and show what remains."""
        lost = self.cluster.find_lost() if self.cluster is not None else None
        if lost is None:
            return
        rescued = self.rescue_weights(Run({}, lost=lost))
        beside = (
            f" but the weights that the others had of {quote_names(rescued)}" if rescued else ""
        )
        screen.add_line(
            f"rank {lost[0]} had gone: {lost[1]}. New ranks are started, with nothing on them{beside}."
        )
        self.stop()

    def stop(self) -> None:
        """End the ranks and forget their state."""
        if self.cluster is not None:
            self.cluster.stop()
        self.cluster = None
        self.state = RanksState()
        self.diverged.clear()
        self.files.clear()

    def end(self) -> None:
        """End the ranks and the servers from which they were forked, so that the next start takes longer."""
        self.stop()
        self._forks.end_servers()

    def renew(self) -> None:
        """End the ranks and start as many new ones, without waiting for them.

        Raises:
            DistributeError: there are none.
        """
        old = self.require_cluster()
        self.stop()
        self.cluster = Cluster(place_ranks(old.size, old.where), self._forks, old.batch)

    def rescue_weights(self, run: Run) -> list[str]:
        """Store weights that only the ranks have, before these are ended; return their shortest access paths."""
        cells = self.history.cells_before(len(self.history.texts))
        there = {n for c in cells if c.number in self.state.ran for n in names_of(c.source).binds}
        owned = weighted_objects(self.history.namespace, sorted(there))
        paths = [path for each in owned for path in each.paths]
        if not paths:
            return []
        values = self.require_cluster().rescue_values(paths, run.stuck)
        found = {}
        for each in owned:
            own = digest_value(pack_value(each.value))
            for path in map(str, each.paths):
                packed = values.get(path)
                if (
                    packed
                    and packed.kind == "weights"
                    and packed.data
                    and digest_value(packed) != own
                ):
                    found[path] = packed, own
        self.rescued |= found
        return sorted(
            shortest_path(each.paths) for each in owned if found.keys() & {*map(str, each.paths)}
        )

    def rank_hosts(self) -> dict[int, str]:
        """Return the name of each rank's host; "" if it has not reported it."""
        cluster = self.require_cluster()
        return {r: str(cluster.rank_report(r).get("host", "")) for r in range(cluster.size)}

    def _stall_report(self, stall: Stall) -> StallReport:
        """Return a report, a table with explanations, of ranks that make no progress."""
        return report_stall(stall, partial(line_of, cells=self.files), self.rank_hosts())


def warn_of_gpus(assignment: RankAssignment, screen: CellOutput) -> None:
    """Show a warning if this kernel holds the memory of GPUs that ranks on this machine need."""
    if assignment.is_local or any(is_local(host.name) for host in assignment.hosts):
        warning = kernel_warning(kernel_gpus(), os.environ.get(VARIABLE))
        if warning:
            screen.add_line(warning)


def wait_ready(cluster: Cluster, screen: CellOutput) -> None:
    """Wait until the ranks are ready, and show the progress of their start.

    Raises:
        LaunchError: they do not start.
    """
    name = f"{cluster.size} rank{'s' * (cluster.size != 1)}"
    screen.add_line(f"starting {name}")

    def show_stage(stage: str, seconds: float) -> None:
        screen.replace_last(f"starting {name}: {stage} ({seconds:.0f} s)")

    cluster.wait_ready(show_stage)
    screen.replace_last(f"{name} ready after {time.monotonic() - cluster.started:.1f} s")


def quote_names(names: Collection[str]) -> str:
    """Return the names in backticks, sorted and separated by commas."""
    return ", ".join(f"`{name}`" for name in sorted(names))
