"""`%%distribute`: one notebook, its history and its ranks."""

from __future__ import annotations

import os
import pickle
import re
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from ..convert.rules.base import Batch
from ..convert.rules.options import Data, Options
from ..launch.diagnosis import StallReport
from ..launch.hosts import LaunchError, is_local, parse_hosts
from ..launch.progress import Stall
from ..launch.rank_placement import Where, place_ranks
from ..ranks import allreduce_times as rank_network
from ..ranks import remote
from ..ranks import training_state as states
from ..ranks.forks import KeptForks
from ..ranks.paths import TRAINED, AccessPath, Reached, weighted_objects
from ..ranks.remote import Beginning, Sync
from ..ranks.reply import Reply
from ..ranks.serialization import (
    SMALL,
    SerializedValue,
    digest_value,
    is_plain,
    keras_kind,
    pack_value,
    rate_of,
    unpack_value,
    weights_of,
)
from ..runtime.sharing.random_state import RandomState, set_random_state
from ..source.magics import ANY_NAME
from .cell_names import names_of
from .cell_output import CellOutput
from .cluster import PRELOADED, Cluster
from .delta import apply_delta
from .dependencies import Cell
from .errors import DistributeError, named_error
from .gpu_memory import VARIABLE, kernel_gpus, kernel_warning
from .inspection import Inspector, silent_line, table_of_ranks
from .monitor import Run
from .network import Network, fit_network
from .planning import CellPlan, RanksState, find_recovery, plan_cell
from .program import (
    Program,
    below_magic,
    check_syntax,
    conversion_diff,
    is_distributed,
    masked,
    options_here,
    runnable_source,
)
from .reports import failure_of, headed_failure, stall_report
from .tracebacks import SentCell
from .transfer import Push, needs_own_call, push_of_weights, push_values
from .variables import VariablesTable
from .weights import Owned, make_owned, replicated_digests, same_models, shortest_path

DEFAULT_SIZE = 2
#: This machine, or the allocation inside which the notebook runs.
ANYWHERE = Where()


@dataclass(frozen=True)
class Request:
    """The user's request in the line of the magic."""

    size: int | None = None
    where: Where = ANYWHERE
    show: bool = False
    dry_run: bool = False
    dependencies: bool = True
    timeout: float | None = None
    batch: Batch | None = None
    data: Data | None = None


class Session:
    """The ranks of one notebook, and what they have been sent."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.ranks: Cluster | None = None
        #: The output of the last cell that ran on ranks.
        self.screen: CellOutput | None = None
        self._inspector = Inspector()
        self._forks = KeptForks(PRELOADED)
        self.failed: set[int] = set()
        #: The random numbers with which each cell of the notebook began; 0 stands for the one that runs.
        self.drawn: dict[int, RandomState] = {}
        self._state = RanksState()
        self._files: dict[str, SentCell] = {}
        self._serial = count(1)
        #: Weights that ranks had which were ended, by what led to them, each with a digest of the notebook's own at that time.
        self._rescued: dict[str, tuple[SerializedValue, int]] = {}
        #: Names that lead to other things on the ranks than here, with the number of the cell since which they do.
        self._parted: dict[str, int] = {}

    # What has been executed

    def cell_history(self, before: int) -> list[Cell]:
        """The cells that ran without failing before a number, as they were then."""
        raw = self.shell.history_manager.input_hist_raw
        return [
            Cell(
                number,
                masked(raw[number]),
                is_distributed(raw[number]),
                bool(ANY_NAME.search(raw[number])),
            )
            for number in range(1, min(before, len(raw)))
            if number not in self.failed and raw[number].strip()
        ]

    def _cell_number(self, body: str) -> int:
        """The number of the cell that runs; IPython has it in its history, unless it was run silently."""
        raw = self.shell.history_manager.input_hist_raw
        last = len(raw) - 1
        return last if raw[last].rstrip().endswith(body.rstrip()) else last + 1

    # The magic

    def distribute_cell(self, request: Request, line: str, body: str) -> None:
        """Run a cell on the ranks, the cells that it needs first.

        Raises:
            DistributeError: for the user.
        """
        number = self._cell_number(body)
        source = f"%%distribute {line}".rstrip() + "\n" + body
        check_syntax(source)
        plan = self._plan_cell(number, source, request)  # a refusal starts nothing
        self._refuse_sets(plan)
        batch = self._batch_for(plan, request)
        screen = self.screen = CellOutput(
            self.shell,
            self._stall_report,
            shows_others=batch is None or plan.program.asks_horovod,
            cell=number,
        )
        try:
            if not request.dry_run:
                before = self._state
                self._ensure_ranks(request, batch, screen)
                if self._state != before:  # new ranks need more cells
                    plan = self._plan_cell(number, source, request)
            self._report_conversion(plan, screen)
            if request.show or request.dry_run:
                screen.show_diff(
                    conversion_diff(plan.program, plan.shown_cells) or ["nothing to convert"]
                )
            if request.dry_run:
                self.failed.add(number)  # it has not run: nothing can need it
                self._announce_run(plan, screen, "would run")
                return
            self._announce_run(plan, screen, "ran")
            self._run_plan(request, plan, screen)
        finally:
            screen.show_rest()

    def _plan_cell(self, number: int, source: str, request: Request) -> CellPlan:
        raw = self.shell.history_manager.input_hist_raw
        namespace = self.shell.user_ns
        same = same_models(namespace, sorted(filter(self._has_value, namespace)))
        return plan_cell(
            number,
            source,
            self.cell_history(number),
            dict(enumerate(raw)),
            self._state,
            self._has_value,
            self._conversion_options(request),
            request.dependencies,
            self._has_weights,
            lambda name: self._has_value(name) and is_copied(self.shell.user_ns[name]),
            lambda name: same.get(name, frozenset()),
            request.batch is None and (self.ranks is None or not self.ranks.shares_batches),
        )

    def _batch_for(self, plan: CellPlan, request: Request) -> Batch | None:
        """How the ranks of a cell share batches; None where they share nothing, because the cell uses Horovod itself.

        A cell that trains nothing runs on the ranks that there are.
        """
        program = plan.program
        if request.batch is None and self.ranks is not None:
            if program.uses_horovod or not program.trains:
                return self.ranks.batch
        elif request.batch is None and program.asks_horovod:
            return None
        return self._conversion_options(request).batch

    def _conversion_options(self, request: Request) -> Options:
        """How cells are converted: for the batch that is asked for, else that of the ranks there are, else of the folder."""
        batch = request.batch or (self.ranks.batch if self.ranks else None)
        return options_here(batch, request.data)

    def _refuse_sets(self, plan: CellPlan) -> None:
        """Refuse a cell that uses a set of several models.

        Raises:
            DistributeError: where they are.
        """
        used = sorted(filter(self._has_value, plan.needs.names))
        paths = [path for each in weighted_objects(self.shell.user_ns, used) for path in each.paths]
        for path in (path for path in paths if path.is_unordered):
            lines = plan.program.sources[plan.number].splitlines()
            uses = re.compile(rf"\b{re.escape(path.name)}\b")
            line = next((f", line {k}" for k, text in enumerate(lines, 1) if uses.search(text)), "")
            raise DistributeError(
                f"In[{plan.number}]{line} uses `{path.name}`, where a set has several models: each rank would go through it in "
                "an order of its own, and train another model than the others. Make it a list, or a dict."
            )

    def _has_weights(self, name: str) -> bool:
        """Whether a name leads to models or variables in the notebook, all with weights, which come to the ranks."""
        found = weighted_objects(self.shell.user_ns, [name])
        return bool(found) and all(weights_of(each.value) for each in found)

    def _has_value(self, name: str) -> bool:
        return name in self.shell.user_ns and name not in self.shell.user_ns_hidden

    def _report_conversion(self, plan: CellPlan, screen: CellOutput) -> None:
        """Show what the conversion has to say."""
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
        if plan.needs.run:
            screen.add_line(f"{verb} first: {', '.join(f'In[{n}]' for n in plan.needs.run)}")

    # Ranks

    def _ensure_ranks(self, request: Request, batch: Batch | None, screen: CellOutput) -> None:
        """Have the ranks that are asked for, ready.

        Args:
            batch: which batches they share; None for ranks that share nothing.
        """
        size, where = request.size, request.where
        try:
            if size is None and where.hosts is not None:
                size = sum(host.slots for host in parse_hosts(where.hosts))
            elif size is None:
                size = self.ranks.size if self.ranks else DEFAULT_SIZE
            same_size = self.ranks is not None and request.size in (None, self.ranks.size)
            if where == ANYWHERE and self.ranks is not None and same_size:
                where = self.ranks.where
            asked = (size, where, batch)
            others = (
                self.ranks is None or (self.ranks.size, self.ranks.where, self.ranks.batch) != asked
            )
            new = (
                place_ranks(size, where) if others else None
            )  # what cannot be started ends nothing
        except LaunchError as error:
            raise DistributeError(str(error)) from None
        try:
            if self.ranks is not None and others:
                screen.add_line(f"{self.ranks.size} ranks are stopped, their state goes with them")
                self.stop_ranks()
            if self.ranks is not None and (lost := self.ranks.find_lost()) is not None:
                rescued = self._rescue_weights(Run({}, lost=lost))
                beside = (
                    f" but the weights that the others had of {quote_names(rescued)}"
                    if rescued
                    else ""
                )
                screen.add_line(
                    f"rank {lost[0]} had gone: {lost[1]}. New ranks are started, with nothing on them{beside}."
                )
                self.stop_ranks()
            if self.ranks is None:
                start = new or place_ranks(size, where)
                if start.is_local or any(is_local(host.name) for host in start.hosts):
                    warning = kernel_warning(kernel_gpus(), os.environ.get(VARIABLE))
                    if warning:
                        screen.add_line(warning)
                self.ranks = Cluster(start, self._forks, batch)
            ranks = self.ranks
            if not ranks.ready:
                name = f"{size} rank{'s' * (size != 1)}"
                screen.add_line(f"starting {name}")

                def show_stage(stage: str, seconds: float) -> None:
                    screen.replace_last(f"starting {name}: {stage} ({seconds:.0f} s)")

                ranks.wait_ready(show_stage)
                screen.replace_last(f"{name} ready after {time.monotonic() - ranks.started:.1f} s")
        except LaunchError as error:
            self.stop_ranks()
            raise DistributeError(str(error)) from None
        except KeyboardInterrupt:
            self.stop_ranks()
            raise named_error(
                "KeyboardInterrupt",
                "interrupted",
                ["the start of the ranks was interrupted; none is left"],
            ) from None

    def stop_ranks(self) -> None:
        """End the ranks; nothing of them is left."""
        if self.ranks is not None:
            self.ranks.stop()
        self.ranks = None
        self._forget_state()

    def end_session(self) -> None:
        """End the ranks, and what they were forked from: the next start is as long as the first."""
        self.stop_ranks()
        self._forks.end_servers()

    def _forget_state(self) -> None:
        self._state = RanksState()
        self._parted.clear()
        self._files.clear()

    def start_ranks(self, size: int | None, where: Where, batch: Batch | None = None) -> None:
        """Have ranks ready before a cell needs them.

        Raises:
            DistributeError: they do not start.
        """
        screen = CellOutput(self.shell, self._stall_report)
        try:
            request = Request(size, where, batch=batch)
            self._ensure_ranks(request, self._conversion_options(request).batch, screen)
        finally:
            screen.show_rest()

    def renew_ranks(self) -> None:
        """End the ranks and start as many new ones, without waiting for them."""
        assert self.ranks is not None
        size, where, batch = self.ranks.size, self.ranks.where, self.ranks.batch
        self.stop_ranks()
        self.ranks = Cluster(place_ranks(size, where), self._forks, batch)

    def restart_ranks(self) -> None:
        """End the ranks, start as many new ones, and wait for them.

        Raises:
            DistributeError: there are none, or they do not start.
        """
        if self.ranks is None:
            raise DistributeError("there are no ranks; a cell with %%distribute starts them")
        self.renew_ranks()
        self._rescued.clear()
        self._ensure_ranks(Request(), self.ranks.batch, CellOutput(self.shell, self._stall_report))

    # Running

    def _run_plan(self, request: Request, plan: CellPlan, screen: CellOutput) -> None:
        """Run a plan in two calls: one for what the cell needs, one for the cell itself."""
        assert self.ranks is not None
        program = plan.program
        used = [
            *sorted(plan.needs.held & plan.needs.names),
            *sorted(plan.needs.held - plan.needs.names),
        ]
        held = [n for n in used if self._has_value(n) and not self._is_parted(n, plan, screen)]
        owned, plain = self._owned_objects(plan, held), self._plain_values(plan)
        found = self._prepare_cell(request, plan, owned, plain, screen)
        zero = found[0].digests if found else {}
        differing = {n: v for n, v in plain.items() if n in zero and zero[n] != digest_value(v)}
        made = plan.needs.run  # which may have made anew what any path leads to
        known = replicated_digests([r.digests for r in found]) if made else self._state.pushed
        push = self._push_of_replaced(plan) | self._push_of_changed(differing)
        push |= push_of_weights(owned, known)
        sync, push = self._sync_with(push, self._beginning(request, [0], held), screen)
        marker = f"\x1e{uuid.uuid4().hex}"
        text, file = self._sent_file(plan.number, program)
        run = self.ranks.run(
            remote.run_cell,
            sync,
            text,
            file,
            sorted(program.added_names),
            marker,
            sorted(plan.needs.changed),
            plan.watch,
            False,
            held,
            show=screen.show_output,
            timeout=request.timeout,
            marker=marker,
        )
        self._note_arrived(push, run, screen)
        self._judge_run(run, screen, None, request.timeout, plan)
        self._compare_weights(run, program, screen)
        if run.has_trained and not program.trains and self.ranks.batch == "per-rank":
            screen.add_line(
                "the code that trains here is in no cell, so its batches and learning rate are not scaled"
            )
        self._state = self._state.after_cells([plan.number], program, run.has_trained)
        reply: Reply = run.replies[0]
        self._apply_delta(reply, plan, screen)
        if reply.drawn is not None:
            state, seeds = reply.drawn
            set_random_state(state)
            remote.set_layer_seeds(self.shell.user_ns, seeds)

    def _prepare_cell(
        self,
        request: Request,
        plan: CellPlan,
        owned: Sequence[Owned],
        plain: Mapping[str, SerializedValue],
        screen: CellOutput,
    ) -> list[Reply]:
        """Let the ranks have the values and run the cells that a cell needs.

        Returns:
            what each rank answers, with digests of what these objects and values are there then; nothing where nothing is to be
            done or asked.
        """
        assert self.ranks is not None
        push, needed = self._push_of_changed(self._values_for(plan)), plan.needs.run
        if not (push.values or needed or plain):
            return []
        beginning = self._beginning(request, needed, ()) if needed else None
        sync, push = self._sync_with(push, beginning, screen)
        run = self.ranks.run(
            remote.prepare_cell,
            sync,
            [self._sent_file(n, plan.program) for n in needed],
            sorted(plan.program.added_names),
            plan.watch,
            [AccessPath(name) for name in plain],
            [path for each in owned for path in each.paths],
            timeout=request.timeout,
        )
        self._note_arrived(push, run, screen)
        if needed:
            what = "a cell that this one needs failed on the ranks"
            self._judge_run(run, screen, what, request.timeout, plan)
            self._compare_weights(run, plan.program, screen)
            self._state = self._state.after_cells(needed, plan.program, run.has_trained)
        else:
            self._judge_run(run, screen, "values could not be pushed", request.timeout)
        return [run.replies[rank] for rank in sorted(run.replies)]

    def _beginning(
        self, request: Request, cells: Sequence[int], held: Sequence[str]
    ) -> Beginning | None:
        """How ranks that share each batch begin some cells as the notebook did; None where they do not share.

        Args:
            held: names that lead to models and optimizers.
        """
        assert self.ranks is not None
        if not self.ranks.shares_batches:
            return None
        rates = {
            path: rate
            for each in weighted_objects(self.shell.user_ns, held, TRAINED)
            if hasattr(each.value, "apply_gradients") and (rate := rate_of(each.value)) is not None
            for path in each.paths
        }
        states = tuple(map(self.drawn.get, cells))
        options = self._conversion_options(request)
        seeds = remote.layer_seeds(self.shell.user_ns, held)
        return Beginning(states, rates, seeds, options.guard, options.data)

    def _plain_values(self, plan: CellPlan) -> dict[str, SerializedValue]:
        """The plain values that a cell uses, which other cells may have made otherwise on the ranks.

        What is meant to be otherwise there is left out.
        """
        namespace = self.shell.user_ns
        used = filter(self._has_value, plan.needs.names - plan.program.differing_names)
        return {
            n: pack_value(namespace[n], limit=None) for n in sorted(used) if is_plain(namespace[n])
        }

    def run_on(
        self, ranks: Sequence[int] | None, line: str, body: str, timeout: float | None = None
    ) -> None:
        """Run a cell on some ranks as it is written; nothing comes from the notebook, and nothing goes there.

        Args:
            ranks: None for all.

        Raises:
            DistributeError: for the user.
        """
        number = self._cell_number(body)
        source = f"%%rank {line}".rstrip() + "\n" + body
        text = below_magic(body)
        check_syntax(text)
        there = self.require_ranks()
        ranks = range(there.size) if ranks is None else ranks
        if absent := [rank for rank in ranks if rank >= there.size]:
            last = f"0 to {there.size - 1}" if there.size > 1 else "0 only"
            raise DistributeError(f"there is no rank {absent[0]}: this notebook has {last}")
        screen = self.screen = CellOutput(
            self.shell,
            self._stall_report,
            shown=ranks[0],
            opens_others=True,
            cell=number,
            title=f"rank {ranks[0]}:" if len(ranks) > 1 else "",
        )
        marker = f"\x1e{uuid.uuid4().hex}"
        file = self._name_file(SentCell(number, source, ()))
        try:
            run = there.run(
                remote.run_alone,
                *(text, file, marker),
                show=screen.show_output,
                timeout=timeout,
                marker=marker,
                ranks=ranks,
            )
        finally:
            screen.show_rest()
        self._judge_run(run, screen, None, timeout, together=False)

    def _sent_file(self, number: int, program: Program) -> tuple[str, str]:
        """A cell as it is sent, and the file that it is known by."""
        cell = SentCell(number, program.sources[number], program.lines[number])
        return runnable_source(program.converted[number]), self._name_file(cell)

    def _name_file(self, cell: SentCell) -> str:
        """The file that a cell is known by on the ranks."""
        file = remote.CELL_FILE.format(number=cell.number, serial=next(self._serial))
        self._files[file] = cell
        return file

    # Values

    def _values_for(self, plan: CellPlan) -> dict[str, SerializedValue]:
        """The values to push before anything runs: those that no cell makes."""
        namespace = self.shell.user_ns
        values = {}
        for name in sorted(plan.needs.push):
            packed = pack_copied(namespace[name])
            if packed.kind == "none":
                way = "Make it in a cell, or in this one"
                if pack_copied(namespace[name], limit=None).kind != "none":
                    way += f", or send it with  %hvd push {name}"
                raise DistributeError(
                    f"`{name}` is needed on the ranks, but no cell that has run makes it, "
                    f"and {packed.why}. {way}."
                )
            values[name] = packed
        return values

    def _push_of_replaced(self, plan: CellPlan) -> Push:
        """What is the notebook's, or the user's, where cells have just made something else of it."""
        run = [names_of(masked(plan.program.sources[n])) for n in plan.needs.run]
        bound = {name for names in run for name in names.binds}
        changed = {name for names in run for name in names.changes}
        names = (bound & plan.needs.given) | ((bound | changed) & plan.needs.push)
        names &= self.shell.user_ns.keys()
        self._state = self._state.without_cells((), names)
        values = {name: pack_value(self.shell.user_ns[name], limit=None) for name in sorted(names)}
        self._state = self._state.with_given(sorted(names & plan.needs.given), plan.number - 1)
        return self._push_of_changed({n: v for n, v in values.items() if v.kind not in TRAINED})

    def _push_of_changed(self, values: Mapping[str, SerializedValue]) -> Push:
        """The plain values that the ranks do not have as they are."""
        digests = {n: digest_value(v) for n, v in values.items()}
        fresh = [n for n in values if digests[n] != self._state.pushed.get(n)]
        return Push({AccessPath(n): values[n] for n in fresh}, {n: digests[n] for n in fresh})

    def _owned_objects(self, plan: CellPlan, held: Sequence[str]) -> list[Owned]:
        """What has weights or a state in the notebook, with those that the ranks are to have."""
        every = weighted_objects(self.shell.user_ns, held, TRAINED)
        ways = [tuple(path for path in each.paths if not path.is_unordered) for each in every]
        there = [Reached(e.value, paths) for e, paths in zip(every, ways, strict=True) if paths]
        return [
            make_owned(each.value, each.paths, plan.needs.names, weights)
            for each in there
            if (weights := self._initial_weights(each, there)).data
        ]

    def _sync_with(
        self, push: Push, beginning: Beginning | None, screen: CellOutput
    ) -> tuple[Sync, Push]:
        """What ranks take before they run cells, and of that what they have not yet: large values go before."""
        assert self.ranks is not None
        if needs_own_call(self.ranks, push.values):
            failed = self._push_values(push.values, screen)
            self._note_pushed(push, failed)
            push = Push()
        return Sync(pickle.dumps(dict(push.values), protocol=5), beginning), push

    def _note_arrived(self, push: Push, run: Run, screen: CellOutput) -> None:
        """Tell of the values that went with a call, and remember that the ranks have them."""
        reply = run.replies.get(0)
        if isinstance(reply, Reply) and reply.failed is not None:
            self._report_pushed(push.values, reply.failed, screen)
            self._note_pushed(push, reply.failed)

    def _note_pushed(self, push: Push, failed: Collection[str]) -> None:
        arrived = {name: digest for name, digest in push.digests.items() if name not in failed}
        self._state = self._state.with_pushed(arrived)

    def _push_values(
        self, values: Mapping[AccessPath, SerializedValue], screen: CellOutput
    ) -> Mapping[str, str]:
        """Push values in a call of their own, and say so; which have not arrived, by path, and why."""
        assert self.ranks is not None
        run = push_values(self.ranks, values)
        self._judge_run(run, screen, "values could not be pushed")
        failed: dict[str, str] = run.replies[0]
        self._report_pushed(values, failed, screen)
        return failed

    def _report_pushed(
        self,
        values: Mapping[AccessPath, SerializedValue],
        failed: Mapping[str, str],
        screen: CellOutput,
    ) -> None:
        """Say which values have come to the ranks."""
        if plain := [str(path) for path, value in values.items() if value.kind not in TRAINED]:
            screen.add_line(f"pushed: {', '.join(plain)}")
        of_weights: dict[int, list[AccessPath]] = {}
        for path, value in values.items():
            if value.kind in TRAINED:
                of_weights.setdefault(id(value), []).append(path)
        rescued, own = list[str](), dict[str, list[str]]()
        for paths in of_weights.values():
            among = {*map(str, paths)}
            if among <= failed.keys():
                why = failed[str(paths[0])]
                known = f"the {values[paths[0]].kind} of `{shortest_path(paths)}` on the ranks"
                screen.add_line(f"{known} {verb_for(values[paths[0]])} not the notebook's: {why}")
            else:
                fresh = self._rescued.keys().isdisjoint(among)
                of_kind = own.setdefault(values[paths[0]].kind, []) if fresh else rescued
                of_kind.append(shortest_path(paths))
        if rescued:
            screen.add_line(f"with the weights that the ranks before had: {', '.join(rescued)}")
        for kind, names in own.items():
            screen.add_line(f"with the notebook's {kind}: {', '.join(names)}")

    def _is_parted(self, name: str, plan: CellPlan, screen: CellOutput) -> bool:
        """Whether a name refers to another object on the ranks than in the notebook.

        This is reported, and holds until a cell binds the name again.
        """
        since = self._parted.get(name)
        if since is None:
            return False
        later = (
            c for c in self.cell_history(plan.number) if c.number > since and not c.distributed
        )
        if any(name in names_of(c.source).binds for c in later):
            del self._parted[name]
            return False
        screen.add_line(
            f"`{name}` on the ranks differs from the notebook's since In[{since}], so its contents are not copied. "
            "Re-create it in an ordinary cell"
        )
        return True

    def _apply_delta(self, reply: Reply, plan: CellPlan, screen: CellOutput) -> None:
        """Let the notebook's objects have what the ranks' do, and tell of what they cannot have."""
        namespace = self.shell.user_ns
        names = sorted(filter(self._has_value, namespace))
        done = apply_delta(reply.delta, namespace, names, plan.needs.names)
        for line in done.lines:
            screen.add_line(line)
        self._parted |= dict.fromkeys(done.parted, plan.number)
        self._state = self._state.with_pushed(done.digests)

    # What went wrong

    def _judge_run(
        self,
        run: Run,
        screen: CellOutput,
        what: str | None = None,
        timeout: float | None = None,
        plan: CellPlan | None = None,
        together: bool = True,
    ) -> None:
        """Tell what went wrong in a run, and see to it that the ranks are usable.

        Args:
            together: whether all ranks were to come to the same end.

        Raises:
            DistributeError: something did.
        """
        failure = failure_of(run, self._files, timeout)
        if failure is None:
            return
        screen.show_rest()
        if run.has_trained:
            self._state = self._state.having_trained()
        lines = [
            *([what] if what else []),
            *failure.lines,
            *self._recover_ranks(run, plan, together),
        ]
        raise named_error(failure.name, failure.message, lines)

    def _compare_weights(self, run: Run, program: Program, screen: CellOutput) -> None:
        """Compare the ranks' weights where a run has trained.

        Raises:
            DistributeError: they differ.
        """
        assert self.ranks is not None
        if not run.has_trained or run.is_replicated:
            return
        met = self.ranks.run(remote.compare_weights)
        self._judge_run(met, screen)
        told: str = next(filter(None, met.replies.values()), "")
        if told and program.uses_horovod:
            screen.add_line(told)
        elif told:
            failure = headed_failure(
                "RanksDiffer", told, "The notebook keeps the weights that it had."
            )
            raise named_error(failure.name, failure.message, list(failure.lines))

    def _stall_report(self, stall: Stall) -> StallReport:
        return stall_report(stall, self._files, self._rank_hosts())

    def _rank_hosts(self) -> dict[int, str]:
        assert self.ranks is not None
        return {r: str(self.ranks.rank_report(r).get("host", "")) for r in range(self.ranks.size)}

    def _recover_ranks(self, run: Run, plan: CellPlan | None, together: bool) -> list[str]:
        """Make sure that the next cell finds usable ranks, with the state that they have if that can be; says which."""
        assert self.ranks is not None
        usable = run.is_usable and not run.waited and self.ranks.ranks_agree()
        if usable and (run.in_step or not together):
            return []
        # Those that share each batch begin no training with a broadcast.
        goes_on = not self.ranks.shares_batches
        if goes_on and (usable or (run.is_usable and self.ranks.rejoin_horovod())):
            found = self._synchronize_ranks(plan)
            if found is not None:
                how = "are usable" if usable else "live on, and Horovod is restarted in them"
                return [f"The ranks {how}: what is on them is kept.", *found]
        rescued = self._rescue_weights(run)
        self.renew_ranks()
        lines = [
            "The ranks are restarted; what was on them is gone. "
            "The next %%distribute runs the cells that it needs again."
        ]
        if rescued:
            lines.append(
                f"It goes on with the weights that the ranks had of {quote_names(rescued)}; optimizers are as in the notebook. "
                "`%hvd restart` forgets them."
            )
        return lines

    def _rescue_weights(self, run: Run) -> list[str]:
        """Keep the weights that the ranks have trained and the notebook has not, before they are ended; under which names."""
        assert self.ranks is not None
        namespace = self.shell.user_ns
        history = self.cell_history(len(self.shell.history_manager.input_hist_raw))
        there = {
            n for c in history if c.number in self._state.ran for n in names_of(c.source).binds
        }
        owned = weighted_objects(namespace, sorted(there))
        paths = [path for each in owned for path in each.paths]
        if not paths:
            return []
        values = self.ranks.rescue_values(paths, run.stuck)
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
        self._rescued |= found
        return sorted(
            shortest_path(each.paths) for each in owned if found.keys() & {*map(str, each.paths)}
        )

    def _initial_weights(self, each: Reached, among: Sequence[Reached]) -> SerializedValue:
        """What a model is to begin with on the ranks: the notebook's weights, or those that its last ranks had."""
        own = states.pack_state(each, among)
        for path in map(str, each.paths):
            rescued, before = self._rescued.get(path, (own, 0))
            if before == digest_value(own):
                return rescued
            self._rescued.pop(path, None)  # the notebook has later ones
        return own

    def _synchronize_ranks(self, plan: CellPlan | None) -> list[str] | None:
        """Let the ranks go on as one program after a cell was interrupted on them at different points.

        Weights are broadcast by the next training. What the cell has changed beside them, and what gives its elements in an
        order of its own, is made anew, by its cell, when it is needed: what it is on each rank, the notebook does not know.

        Returns:
            what the user must know, None where the ranks are not usable.
        """
        assert self.ranks is not None
        if plan is None or plan.program.uses_horovod:
            return []  # what is as it was; and ranks that may mean to differ
        namespace = self.shell.user_ns
        history = self.cell_history(plan.number)
        bound = {name for cell in history for name in names_of(cell.source).binds}
        weights = {n for n in bound if n in namespace and is_trained(namespace[n])}
        weights |= {
            path.name for each in weighted_objects(namespace, sorted(bound)) for path in each.paths
        }
        data = {n for n in plan.needs.changed if n in namespace and is_plain(namespace[n])}
        ordered = self.ranks.draw_level(plan.needs.names)
        if ordered is None:
            return None
        again, left = find_recovery(self._state, history, ordered | data, weights)
        left |= data & self._state.given.keys()
        self._state = self._state.without_cells(again, data)
        lines = ["The next training begins with rank 0's weights on all of them."] * bool(weights)
        if left:
            lines.append(
                f"They may have stopped at different points in {quote_names(left)}: `%hvd restart` starts all of them with the "
                "notebook's weights."
            )
        return lines

    # %hvd

    def require_ranks(self) -> Cluster:
        """The ranks, ready.

        Raises:
            DistributeError: there are none.
        """
        if self.ranks is None:
            raise DistributeError("there are no ranks; a cell with %%distribute starts them")
        self._ensure_ranks(Request(), self.ranks.batch, CellOutput(self.shell, self._stall_report))
        return self.ranks

    def pull_values(self, names: Sequence[str]) -> None:
        """Bring values from rank 0 into the notebook.

        Raises:
            DistributeError: a name is not there, or its value cannot travel.
        """
        run = self.require_ranks().run(
            remote.get_values, [AccessPath(name) for name in names], ranks=[0]
        )
        self._judge_run(run, CellOutput(self.shell, self._stall_report), None)
        values: dict[str, SerializedValue] = run.replies[0]
        namespace = self.shell.user_ns
        for name in names:
            packed = values.get(name)
            if packed is None:
                raise DistributeError(f"there is no `{name}` on rank 0")
            try:
                namespace[name] = unpack_value(packed, namespace.get(name))
            except Exception as error:
                raise DistributeError(f"`{name}`: {error}") from None
            if packed.kind in TRAINED:
                self._state = self._state.with_pushed(
                    {name: digest_value(pack_value(namespace[name]))}
                )

    def push_values(self, names: Sequence[str]) -> None:
        """Send values from the notebook to every rank.

        Raises:
            DistributeError: a name is not there, or its value cannot travel.
        """
        namespace = self.shell.user_ns
        values = {}
        for name in names:
            if name not in namespace:
                raise DistributeError(f"there is no `{name}` in the notebook")
            values[name] = pack_value(namespace[name], limit=None)
            if values[name].kind == "none":
                raise DistributeError(f"`{name}`: {values[name].why}")
            self._rescued.pop(name, None)  # it is the notebook's that the ranks are to have
        self.require_ranks()
        failed = self._push_values(
            {AccessPath(n): v for n, v in values.items()},
            CellOutput(self.shell, self._stall_report),
        )
        arrived = {name: value for name, value in values.items() if name not in failed}
        weights = {n: digest_value(v) for n, v in arrived.items() if v.kind in TRAINED}
        self._state = self._state.with_pushed(weights)
        number = len(self.shell.history_manager.input_hist_raw) - 1
        # Weights are set in what a cell has made; that cell is needed as before.
        plain = [name for name, value in arrived.items() if value.kind not in TRAINED]
        self._state = self._state.with_given(plain, number)

    def rank_positions(self) -> list[str]:
        """Where each rank is now, in the user's lines.

        Raises:
            DistributeError: there are no ranks.
        """
        return table_of_ranks(self.panel_state(None, wants_variables=False)["ranks"])

    def panel_state(self, rank: int | None, wants_variables: bool) -> dict[str, Any]:
        """The state of the ranks for a panel, also while a cell runs; callable from any thread.

        Args:
            rank: whose output is wanted.

        Raises:
            DistributeError: there are no ranks.
        """
        if self.ranks is None:
            raise DistributeError("there are no ranks; a cell with %%distribute starts them")
        return self._inspector.panel_state(
            self.ranks, self._files, self.screen, rank, wants_variables
        )

    def status_rows(self) -> list[dict[str, Any]]:
        """One row a rank: number, host, pid, device, memory, what it does."""
        ranks = self.ranks
        if ranks is None:
            return []
        if not ranks.ready:
            return [
                {
                    "rank": r,
                    **ranks.rank_report(r),
                    "doing": ranks.rank_report(r).get("stage", "starting"),
                }
                for r in range(ranks.size)
            ]
        run = (
            ranks.run(remote.status_row, timeout=5.0, aborts=False)
            if ranks.find_lost() is None
            else None
        )
        lost = ranks.find_lost()
        if run is None or lost is not None:
            rank, how = lost or (0, "")
            return [{"rank": rank, **ranks.rank_report(rank), "doing": f"lost: {how}"}]
        return [
            {
                "rank": r,
                **ranks.rank_report(r),
                **(run.replies.get(r) or {}),
                "doing": "idle" if r in run.replies else "busy",
            }
            for r in range(ranks.size)
        ]

    def compare_variables(self, names: Sequence[str]) -> VariablesTable:
        """The ranks' variables, those first that differ; the ranks that do not answer are named.

        Args:
            names: of variables or parts of them; none for all.

        Raises:
            DistributeError: there are no ranks, or no rank has such a variable.
        """
        ranks = self.ranks
        if ranks is None or not ranks.ready:
            ranks = self.require_ranks()
        try:
            found, silent = self._inspector.compare_variables(ranks, self._files, names)
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
        ranks = self.require_ranks()
        if ranks.size == 1:
            raise DistributeError(
                "one rank has no other rank to average with; run `%hvd start -n 2`"
            )
        run = ranks.run(rank_network.allreduce_times)
        self._judge_run(run, CellOutput(self.shell, self._stall_report), None)
        return fit_network(ranks.size, run.replies[0])


def pack_copied(value: Any, limit: int | None = SMALL) -> SerializedValue:
    """A value for a name that stands for nothing on the ranks: weights alone are none."""
    packed = pack_value(value, limit)
    if packed.kind not in TRAINED:
        return packed
    return SerializedValue(
        "none", why=f"a {type(value).__name__} cannot be copied between processes"
    )


def is_copied(value: Any) -> bool:
    """Whether a value travels as it is, however large."""
    kind = keras_kind(value)
    return is_plain(value) if kind is None else kind not in TRAINED


def is_trained(value: Any) -> bool:
    """Whether a value keeps what training has made of it: a model, a layer, a variable, an optimizer."""
    return keras_kind(value) in TRAINED or hasattr(value, "apply_gradients")


def verb_for(packed: SerializedValue) -> str:
    return "are" if packed.kind == "weights" else "is"


def quote_names(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
