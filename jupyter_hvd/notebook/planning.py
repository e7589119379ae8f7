"""Plans a cell of `%%distribute`: which cells run on the ranks, with which text. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from ..convert.rules.options import Options
from .cell_names import names_of
from .dependencies import Cell, Needs, find_needs
from .errors import DistributeError
from .program import (
    Program,
    convert_program,
    is_distributed,
    masked,
    refuse_unconvertible,
)


@dataclass(frozen=True)
class RanksState:
    """The cells and values that the ranks have been sent, by the numbers of cells.

    Attributes:
        ran: the cells that have run there, in that order.
        sent: the text that each was last sent as.
        trained: those that have trained. untrained: those that have run since any has.
        given: names whose values the user has pushed, with the number of the cell that did.
        again: cells that have run there, and are to run again where they are needed.
        pushed: digests of the values that the ranks have, by name; of weights, as the notebook had them when they were the same.
    """

    ran: tuple[int, ...] = ()
    sent: Mapping[int, str] = field(default_factory=dict)
    trained: frozenset[int] = frozenset()
    untrained: frozenset[int] = frozenset()
    given: Mapping[str, int] = field(default_factory=dict)
    again: frozenset[int] = frozenset()
    pushed: Mapping[str, int] = field(default_factory=dict)

    def after_cells(self, numbers: Sequence[int], program: Program, trained: bool) -> RanksState:
        """Return the state after some cells, of this program, ran on the ranks.

        Args:
            trained: whether they trained.
        """
        texts = {number: program.converted[number] for number in numbers}
        return replace(
            self,
            ran=(*self.ran, *numbers),
            sent={**self.sent, **texts},
            trained=self.trained | {numbers[-1]} if trained else self.trained,
            untrained=frozenset() if trained else self.untrained | {*numbers},
            again=self.again - {*numbers},
        )

    def after_failed_training(self) -> RanksState:
        """Return the state after a cell trained on the ranks and then failed."""
        return replace(self, untrained=frozenset())

    def with_given(self, names: Sequence[str], number: int) -> RanksState:
        """Return the state after the user pushed the values of some names in cell `number`."""
        return replace(self, given={**self.given, **dict.fromkeys(names, number)})

    def without_cells(self, numbers: Collection[int], names: Collection[str] = ()) -> RanksState:
        """Return the state in which some cells must run again, and some names must be pushed again."""
        return replace(
            self,
            again=self.again | {*numbers},
            pushed={name: value for name, value in self.pushed.items() if name not in names},
        )

    def with_pushed(self, digests: Mapping[str, int]) -> RanksState:
        """Return the state after values with these digests, by name, reached the ranks."""
        return replace(self, pushed={**self.pushed, **digests})


@dataclass(frozen=True)
class CellPlan:
    """A cell, what it needs, and both converted as one program.

    Attributes:
        number: the cell's. needs: of earlier cells and of values. program: as it runs on the ranks.
        compares: whether the ranks are compared when it has trained.
        outdated: cells that ran on the ranks as something else than they are in this program, and stay as they ran.
    """

    number: int
    needs: Needs
    program: Program
    compares: bool
    outdated: tuple[int, ...] = ()

    @property
    def shown_cells(self) -> tuple[int, ...]:
        """The cells that run now, this one last."""
        return (*self.needs.run, self.number)


def plan_cell(
    number: int,
    source: str,
    history: Sequence[Cell],
    texts: Mapping[int, str],
    state: RanksState,
    has_value: Callable[[str], bool],
    options: Options,
    dependencies: bool = True,
    travels: Callable[[str], bool] = lambda _: False,
    copies: Callable[[str], bool] | None = None,
    same: Callable[[str], frozenset[str]] = lambda _: frozenset(),
    runs_horovod: bool = True,
) -> CellPlan:
    """Return the plan of a cell: the earlier cells that run first, the conversion, the values to push.

    Args:
        source: the cell, its magic included.
        history: the cells that ran before it.
        texts: all cells as they were written, by number.
        has_value: whether the kernel has a value of this name.
        dependencies: whether the cells that it needs run first; they are converted with it in any case.
        travels, copies, same: as in `find_needs`.
        runs_horovod: as in `refuse_unconvertible`.

    Raises:
        DistributeError: the conversion is refused, or a needed cell can no longer run again with the same result.
    """
    current = Cell(number, masked(source), True)

    def with_again(again: Set[int]) -> Needs:
        among = state.again | again
        return find_needs(
            history, current, state.ran, has_value, state.given, travels, among, copies, same
        )

    needed = with_again(frozenset())
    program = convert_program(
        (*((n, texts[n]) for n in needed.cells), (number, source)),
        options,
    )
    refuse_unconvertible(program, runs_horovod)
    again, outdated = find_reconverted_cells(needed, program, state)
    if not dependencies:
        outdated = (*outdated, *sorted((again | {*needed.run}) & state.sent.keys() - {*outdated}))
        missing = {name for n in needed.run for name in names_of(masked(texts[n])).binds}
        alone = replace(needed, run=(), push=frozenset(), held=needed.held - missing)
        return CellPlan(number, alone, program, options.guard, outdated)
    own = {cell.number for cell in history if cell.distributed}
    stays = state.trained | (own - state.untrained)

    def can_run(again: Set[int]) -> bool:
        """Whether cells can run again without others that must not, and with the same results."""
        found = with_again(again)
        return not found.lost and stays.isdisjoint({*found.run} - {*needed.run} - again)

    if again:
        kept = again if can_run(again) else {n for n in again if can_run({n})}
        outdated = (*outdated, *sorted(again - kept))
        needed = with_again(kept)
    for cell, name in needed.lost:
        raise DistributeError(
            f"In[{cell}] must run again on the ranks and would give another result: it starts from `{name}`, which "
            "has changed since. Run the cells again that create it, or give the changed value "
            "a name of its own."
        )
    return CellPlan(number, needed, program, options.guard, outdated)


def find_reconverted_cells(
    needed: Needs, program: Program, state: RanksState
) -> tuple[frozenset[int], tuple[int, ...]]:
    """Return the cells to send again because their conversion has changed, and those that stay as they ran.

    A conversion changes when a later cell shows that the program trains: then datasets are sharded. Cells that ran after
    a changed one run again, too, unless something has trained since, because models and optimizers must then stay
    as they are. After training, cells with `%%distribute` never run again, and cells that trained never do.

    Returns:
        The cells to run again; and the changed cells that stay as they ran.
    """
    changed = {n for n in needed.cells if n in state.sent and state.sent[n] != program.converted[n]}
    changed -= state.trained
    if not program.trains or program.uses_horovod or not changed:
        return frozenset(), ()  # nothing is converted without training in sight, and what was stays
    own = {n for n in needed.cells if is_distributed(program.sources[n])}
    outdated = changed & own - state.untrained
    again = set[int]()
    for kind in (own, {*needed.cells} - own):
        first = min(changed & kind - outdated, default=math.inf)
        again |= {n for n in kind & state.untrained if n >= first} | (changed & kind - outdated)
    return frozenset(again), tuple(sorted(outdated))


def find_recovery(
    state: RanksState, history: Sequence[Cell], diverged: Set[str], weights: Set[str]
) -> tuple[frozenset[int], frozenset[str]]:
    """Return how the ranks' values of diverged names become replicated again after an interrupted cell.

    Args:
        history: the cells that ran without failing, in order.
        diverged: names whose values may differ between ranks now.
        weights: names whose weights are kept.

    Returns:
        The numbers of the cells to run again, which bind or change such a name; and the names that stay diverged, since
        such a cell has trained or creates an object in `weights`.
    """
    ran = [cell for cell in history if cell.number in state.ran]
    again: set[int] = set()
    left: set[str] = set()
    for name in diverged:
        touching = [c for c in ran if name in names_of(c.source).binds | names_of(c.source).changes]
        if any(c.distributed or names_of(c.source).binds & weights for c in touching):
            left.add(name)
        else:
            again.update(cell.number for cell in touching)
    return frozenset(again), frozenset(left)
