"""`%%distribute`, `%%rank` and `%hvd` in one notebook."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from ..convert.rules.base import Batch
from ..convert.rules.options import Data, Options
from ..launch.rank_placement import PlacementOptions
from ..ranks import allreduce_times as rank_network
from ..ranks import remote
from ..ranks.paths import AccessPath, weighted_objects
from ..ranks.remote import InitialState
from ..ranks.reply import Reply
from ..ranks.sent_cells import SentCell
from ..ranks.serialization import SerializedValue, digest_value, weights_of
from ..runtime.sharing.random_state import RandomState, set_random_state
from .breakpoints import BreakpointPrompts
from .cell_inputs import (
    collect_weighted_objects,
    is_copied,
    learning_rates,
    note_arrived,
    plain_values,
    push_of_changed,
    push_of_replaced,
    sync_with,
    values_for,
)
from .cell_names import names_of
from .cell_output import CellOutput
from .delta import apply_delta
from .errors import DistributeError, named_error
from .held_ranks import ANYWHERE, HeldRanks, quote_names
from .history import History
from .inspection import Inspector, silent_line, table_of_ranks
from .network import Network, fit_network
from .planning import CellPlan, plan_cell
from .program import (
    Program,
    below_magic,
    check_syntax,
    conversion_diff,
    options_here,
    runnable_source,
)
from .recovery import compare_weights, recover_from_run
from .transfer import push_of_weights
from .variables import VariablesTable
from .weights import WeightedObject, replicated_digests, same_models


@dataclass(frozen=True)
class Request:
    """The user's request in the line of the magic."""

    size: int | None = None
    where: PlacementOptions = ANYWHERE
    show: bool = False
    dry_run: bool = False
    dependencies: bool = True
    timeout: float | None = None
    batch: Batch | None = None
    data: Data | None = None


def absent_rank(rank: int, size: int) -> str:
    last = f"0 to {size - 1}" if size > 1 else "0 only"
    return f"there is no rank {rank}: this notebook has {last}"


class Session:
    """The magics of one notebook.

    Attributes:
        history: its cells. held: its ranks.
        screen: the output of the last cell that ran on ranks.
        drawn: the random numbers with which each cell of the notebook began; 0 stands for the one that runs.
        debug_rank: the rank that stops at breakpoints.
    """

    def __init__(self, shell: Any) -> None:
        self.history = History(shell)
        self.held = HeldRanks(self.history)
        self.screen: CellOutput | None = None
        self.drawn: dict[int, RandomState] = {}
        self.debug_rank = 0
        self._inspector = Inspector()
        self._serial = count(1)

    # `%%distribute`

    def distribute_cell(self, request: Request, line: str, body: str) -> None:
        """Run a cell on the ranks, after the cells that it needs, and apply its changes to the kernel.

        Starts the ranks if necessary. With `--dry-run`, only shows what would run.

        Args:
            line: the rest of the magic's line.
            body: the cell without it.

        Raises:
            DistributeError: the cell was refused, or failed.
        """
        number = self.history.number_of(body)
        source = f"%%distribute {line}".rstrip() + "\n" + body
        check_syntax(source)
        plan = self._plan_cell(number, source, request)  # a refusal starts nothing
        self._refuse_sets(plan)
        batch = self._batch_for(plan, request)
        screen = self.screen = self.held.make_screen(
            shows_others=batch is None or plan.program.asks_horovod, cell=number
        )
        try:
            if not request.dry_run:
                before = self.held.state
                self.held.ensure_ready(request.size, request.where, batch, screen)
                if self.held.state != before:  # new ranks need more cells
                    plan = self._plan_cell(number, source, request)
            self._report_conversion(plan, screen)
            if request.show or request.dry_run:
                screen.show_diff(
                    conversion_diff(plan.program, plan.shown_cells) or ["nothing to convert"]
                )
            if request.dry_run:
                self.history.failed.add(number)  # it has not run: nothing can need it
                self._announce_run(plan, screen, "would run")
                return
            self._announce_run(plan, screen, "ran")
            self._run_plan(request, plan, screen)
        finally:
            screen.show_rest()

    def _plan_cell(self, number: int, source: str, request: Request) -> CellPlan:
        """Return the plan of a cell; raise DistributeError if it cannot be converted or run."""
        history, cluster = self.history, self.held.cluster
        same = same_models(history.namespace, history.user_names())
        return plan_cell(
            number,
            source,
            history.cells_before(number),
            dict(enumerate(history.texts)),
            self.held.state,
            history.has_value,
            self._conversion_options(request),
            request.dependencies,
            self._has_weights,
            lambda name: history.has_value(name) and is_copied(history.namespace[name]),
            lambda name: same.get(name, frozenset()),
            request.batch is None and (cluster is None or not cluster.shares_batches),
        )

    def _batch_for(self, plan: CellPlan, request: Request) -> Batch | None:
        """Return how the ranks of a cell share batches; None if the cell uses Horovod itself.

        A cell that trains nothing uses the ranks that exist, however they share batches.
        """
        program = plan.program
        if request.batch is None and self.held.cluster is not None:
            if program.uses_horovod or not program.trains:
                return self.held.batch
        elif request.batch is None and program.asks_horovod:
            return None
        return self._conversion_options(request).batch

    def _conversion_options(self, request: Request) -> Options:
        """Return the options of the conversion: the requested batch mode, else the ranks', else the folder's."""
        return options_here(request.batch or self.held.batch, request.data)

    def _refuse_sets(self, plan: CellPlan) -> None:
        """Raise DistributeError if a cell uses a set with several models, since sets have no common order."""
        used = sorted(filter(self.history.has_value, plan.needs.names))
        paths = [
            path for each in weighted_objects(self.history.namespace, used) for path in each.paths
        ]
        for path in (path for path in paths if path.is_unordered):
            lines = plan.program.sources[plan.number].splitlines()
            uses = re.compile(rf"\b{re.escape(path.name)}\b")
            line = next((f", line {k}" for k, text in enumerate(lines, 1) if uses.search(text)), "")
            raise DistributeError(
                f"In[{plan.number}]{line} uses `{path.name}`, where a set has several models: each rank would go through it in "
                "an order of its own, and train another model than the others. Make it a list, or a dict."
            )

    def _has_weights(self, name: str) -> bool:
        """Whether a name leads to models or variables in the kernel, all of which have been built."""
        found = weighted_objects(self.history.namespace, [name])
        return bool(found) and all(weights_of(each.value) for each in found)

    def _report_conversion(self, plan: CellPlan, screen: CellOutput) -> None:
        """Show the converter's diagnostics, and which earlier cells ran unconverted."""
        if plan.program.uses_horovod:
            screen.add_line("this cell calls Horovod itself, so it runs unconverted")
            return
        for line in plan.program.diagnostics:
            screen.add_line(line)
        for number in plan.outdated:
            screen.add_line(
                f"In[{number}] ran on the ranks before this training was known, so its data are not scaled. "
                "Run it again and then this cell; the training then starts over"
            )

    def _announce_run(self, plan: CellPlan, screen: CellOutput, verb: str) -> None:
        """Show which cells run on the ranks before the current one; nothing if none do."""
        if plan.needs.run:
            screen.add_line(f"{verb} first: {', '.join(f'In[{n}]' for n in plan.needs.run)}")

    # Running

    def _run_plan(self, request: Request, plan: CellPlan, screen: CellOutput) -> None:
        """Run a plan in two calls, one for what the cell needs and one for the cell; apply the changes to the kernel."""
        cluster, program = self.held.require_cluster(), plan.program
        used = [
            *sorted(plan.needs.held & plan.needs.names),
            *sorted(plan.needs.held - plan.needs.names),
        ]
        names = [
            n for n in used if self.history.has_value(n) and not self._has_diverged(n, plan, screen)
        ]
        owned, plain = (
            collect_weighted_objects(self.held, plan, names),
            plain_values(plan, self.held),
        )
        found = self._prepare_cell(request, plan, owned, plain, screen)
        zero = found[0].digests if found else {}
        differing = {n: v for n, v in plain.items() if n in zero and zero[n] != digest_value(v)}
        made = plan.needs.run  # which may have made anew what any path leads to
        known = replicated_digests([r.digests for r in found]) if made else self.held.state.pushed
        push = push_of_replaced(self.held, plan) | push_of_changed(differing, self.held.state)
        push |= push_of_weights(owned, known)
        sync, push = sync_with(self.held, push, self._initial_state(request, [0], names), screen)
        marker = f"\x1e{uuid.uuid4().hex}"
        text, file = self._sent_file(plan.number, program)
        run = cluster.run(
            partial(remote.run_cell, debugs=self._debugged_rank(range(cluster.size))),
            sync,
            text,
            file,
            sorted(program.added_names),
            marker,
            sorted(plan.needs.changed),
            plan.compares,
            False,
            names,
            show=screen.show_output,
            timeout=request.timeout,
            marker=marker,
            prompts=self._prompts(screen),
        )
        note_arrived(self.held, push, run, screen)
        recover_from_run(self.held, run, screen, None, request.timeout, plan)
        compare_weights(self.held, run, program, screen)
        if run.has_trained and not program.trains and cluster.batch == "per-rank":
            screen.add_line(
                "the code that trains here is in no cell, so its batches and learning rate are not scaled"
            )
        self.held.state = self.held.state.after_cells([plan.number], program, run.has_trained)
        reply: Reply = run.replies[0]
        self._apply_delta(reply, plan, screen)
        if reply.drawn is not None:
            state, seeds = reply.drawn
            set_random_state(state)
            remote.set_layer_seeds(self.history.namespace, seeds)

    def _prepare_cell(
        self,
        request: Request,
        plan: CellPlan,
        owned: Sequence[WeightedObject],
        plain: Mapping[str, SerializedValue],
        screen: CellOutput,
    ) -> list[Reply]:
        """Send the values that a cell needs, and run the cells that it needs.

        Returns:
            Each rank's reply, with digests of these objects and values; empty if there was nothing to do.

        Raises:
            DistributeError: a value cannot be sent, or a cell failed.
        """
        needed = plan.needs.run
        push = push_of_changed(values_for(plan, self.history.namespace), self.held.state)
        if not (push.values or needed or plain):
            return []
        beginning = self._initial_state(request, needed, ()) if needed else None
        sync, push = sync_with(self.held, push, beginning, screen)
        run = self.held.require_cluster().run(
            remote.prepare_cell,
            sync,
            [self._sent_file(n, plan.program) for n in needed],
            sorted(plan.program.added_names),
            plan.compares,
            [AccessPath(name) for name in plain],
            [path for each in owned for path in each.paths],
            timeout=request.timeout,
        )
        note_arrived(self.held, push, run, screen)
        if needed:
            what = "a cell that this one needs failed on the ranks"
            recover_from_run(self.held, run, screen, what, request.timeout, plan)
            compare_weights(self.held, run, plan.program, screen)
            self.held.state = self.held.state.after_cells(needed, plan.program, run.has_trained)
        else:
            recover_from_run(self.held, run, screen, "values could not be pushed", request.timeout)
        return [run.replies[rank] for rank in sorted(run.replies)]

    def _initial_state(
        self, request: Request, cells: Sequence[int], names: Sequence[str]
    ) -> InitialState | None:
        """Return the kernel's state with which ranks that share batches start some cells; None for other ranks.

        Args:
            names: the names from which models and optimizers are searched, for learning rates and seeds.
        """
        if not self.held.require_cluster().shares_batches:
            return None
        states = tuple(map(self.drawn.get, cells))
        options = self._conversion_options(request)
        rates = learning_rates(self.history.namespace, names)
        seeds = remote.layer_seeds(self.history.namespace, names)
        return InitialState(states, rates, seeds, options.guard, options.data)

    def run_on(
        self, ranks: Sequence[int] | None, line: str, body: str, timeout: float | None = None
    ) -> None:
        """Run a cell on some ranks without conversion; no values are exchanged with the kernel.

        Args:
            ranks: None for all.
            line: the rest of the magic's line.
            timeout: seconds after which the ranks are interrupted; None for no limit.

        Raises:
            DistributeError: it failed, a rank does not exist, or there are no ranks.
        """
        number = self.history.number_of(body)
        source = f"%%rank {line}".rstrip() + "\n" + body
        text = below_magic(body)
        check_syntax(text)
        there = self.held.require_ready()
        ranks = range(there.size) if ranks is None else ranks
        if absent := [rank for rank in ranks if rank >= there.size]:
            raise DistributeError(absent_rank(absent[0], there.size))
        screen = self.screen = self.held.make_screen(
            shown=ranks[0],
            opens_others=True,
            cell=number,
            title=f"rank {ranks[0]}:" if len(ranks) > 1 else "",
        )
        marker = f"\x1e{uuid.uuid4().hex}"
        file = self._name_file(SentCell(number, source, source))
        try:
            run = there.run(
                # What other ranks need not run prints here, too.
                partial(remote.run_cell, quiet=False, debugs=self._debugged_rank(ranks)),
                *(None, text, file, (), marker),
                show=screen.show_output,
                timeout=timeout,
                marker=marker,
                ranks=ranks,
                prompts=self._prompts(screen),
            )
        finally:
            screen.show_rest()
        recover_from_run(self.held, run, screen, None, timeout, same_end=False)

    def _debugged_rank(self, ranks: Sequence[int]) -> int:
        """The rank that stops at breakpoints, of those that run a cell: the chosen one, else the first."""
        return self.debug_rank if self.debug_rank in ranks else ranks[0]

    def _prompts(self, screen: CellOutput) -> BreakpointPrompts:
        return BreakpointPrompts(self.history.shell, screen, self.held.files)

    def _sent_file(self, number: int, program: Program) -> tuple[str, str]:
        """Return the converted text of a cell as ranks run it, and the file name that stands for it there."""
        converted = program.converted[number]
        cell = SentCell(number, program.sources[number], converted)
        return runnable_source(converted), self._name_file(cell)

    def _name_file(self, cell: SentCell) -> str:
        """Choose a file name for a cell on the ranks, record which cell it stands for, and return it."""
        file = remote.CELL_FILE.format(number=cell.number, serial=next(self._serial))
        self.held.files[file] = cell
        return file

    def _has_diverged(self, name: str, plan: CellPlan, screen: CellOutput) -> bool:
        """Whether a name refers to another object on the ranks than in the kernel; if so, show a line.

        This holds until an ordinary cell binds the name again.
        """
        since = self.held.diverged.get(name)
        if since is None:
            return False
        later = (
            c
            for c in self.history.cells_before(plan.number)
            if c.number > since and not c.distributed
        )
        if any(name in names_of(c.source).binds for c in later):
            del self.held.diverged[name]
            return False
        screen.add_line(
            f"`{name}` on the ranks differs from the notebook's since In[{since}], so its contents are not copied. "
            "Re-create it in an ordinary cell"
        )
        return True

    def _apply_delta(self, reply: Reply, plan: CellPlan, screen: CellOutput) -> None:
        """Apply a cell's changes on the ranks to the kernel's objects, and show which could not be applied."""
        namespace = self.history.namespace
        done = apply_delta(reply.delta, namespace, self.history.user_names(), plan.needs.names)
        for line in done.lines:
            screen.add_line(line)
        self.held.diverged |= dict.fromkeys(done.diverged, plan.number)
        self.held.state = self.held.state.with_pushed(done.digests)

    # `%hvd`

    def start_ranks(
        self, size: int | None, where: PlacementOptions, batch: Batch | None = None
    ) -> None:
        """Start ranks, unless suitable ones exist, and wait until they are ready.

        Args:
            size: their number; None for the default or as many as exist.

        Raises:
            DistributeError: they do not start.
        """
        screen = self.held.make_screen()
        batch = self._conversion_options(Request(batch=batch)).batch
        try:
            self.held.ensure_ready(size, where, batch, screen)
        finally:
            screen.show_rest()

    def restart_ranks(self) -> None:
        """End the ranks, start as many new ones, and wait until they are ready.

        Raises:
            DistributeError: there are none, or they do not start.
        """
        self.held.renew()
        self.held.rescued.clear()
        self.held.require_ready()

    def choose_debug_rank(self, rank: int) -> None:
        """Let this rank stop at breakpoints.

        Raises:
            DistributeError: there is no such rank.
        """
        size = self.held.cluster.size if self.held.cluster is not None else rank + 1
        if rank >= size:
            raise DistributeError(absent_rank(rank, size))
        self.debug_rank = rank

    def rank_positions(self) -> list[str]:
        """Return a table, as lines of text, of the user's line at which each rank is now.

        Raises:
            DistributeError: there are no ranks.
        """
        return table_of_ranks(self.panel_state(None, wants_variables=False)["ranks"])

    def panel_state(self, rank: int | None, wants_variables: bool) -> dict[str, Any]:
        """Return the state of the ranks for a panel, as JSON; callable from any thread, while a cell runs.

        Args:
            rank: whose output is included; None for no rank's.

        Raises:
            DistributeError: there are no ranks.
        """
        return self._inspector.panel_state(
            self.held.require_cluster(), self.held.files, self.screen, rank, wants_variables
        )

    def compare_variables(self, names: Sequence[str]) -> VariablesTable:
        """Compare variables across the ranks; those that differ come first in the table.

        Ranks that do not answer are listed below it. Starts new ranks if one has failed.

        Args:
            names: variables or parts of them; all if empty.

        Raises:
            DistributeError: there are no ranks, or no rank has such a variable.
        """
        ranks = self.held.cluster
        if ranks is None or not ranks.ready:
            ranks = self.held.require_ready()
        try:
            found, silent = self._inspector.compare_variables(ranks, self.held.files, names)
        except KeyboardInterrupt:
            raise named_error("KeyboardInterrupt", "interrupted", []) from None
        missing = [n for n in names if not any(each.name.startswith(n) for each in found)]
        if missing and len(silent) < ranks.size:
            raise DistributeError(f"no rank has {quote_names(missing)}")
        return VariablesTable(found, [*map(silent_line, silent)])

    def measure_network(self) -> Network:
        """Measure bandwidth and latency between the ranks.

        Raises:
            DistributeError: there are no ranks, or only one, or the measurement failed.
        """
        ranks = self.held.require_ready()
        if ranks.size == 1:
            raise DistributeError(
                "one rank has no other rank to average with; run `%hvd start -n 2`"
            )
        run = ranks.run(rank_network.allreduce_times)
        recover_from_run(self.held, run, self.held.make_screen())
        return fit_network(ranks.size, run.replies[0])
