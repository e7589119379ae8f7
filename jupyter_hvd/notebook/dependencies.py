"""Which earlier cells a cell needs: a pure analysis of names, cell by cell.

A cell binds names, uses names and changes what names stand for. What a cell needs
is, for each name that it uses, the cell that bound it last, the cells that have
changed it since, and all that these need. Functions look their globals up when
they are called, so what a function's body uses counts where the function is used.

A cell gives what it gave where each name stands for what it stood for then: `Y = Y * 2` doubles, each time. So a cell
runs again together with those that have made what it begins from; where these cannot run again, the notebook's value
is taken, of what the cell has made.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from heapq import merge
from types import MappingProxyType
from typing import Literal

from .cell_names import BUILTINS, GLOBAL, names_of


@dataclass(frozen=True)
class Cell:
    """A cell that has run, as it was then.

    Attributes:
        number: its execution count. source: its text, magics masked.
        distributed: whether it ran on the ranks and not in the notebook.
        star: whether it may have bound any name, as `%run` does.
    """

    number: int
    source: str
    distributed: bool = False
    star: bool = False


@dataclass(frozen=True)
class Needs:
    """What has to be on the ranks before a cell.

    Attributes:
        cells: all cells that it needs, in order, by number.
        run: those that have to be run now.
        push: names that no cell can rebuild, whose values the notebook has.
        names: every name that the cell, or a function that it calls, uses.
        changed: names whose values the cell may leave different.
        held: names that stand on the ranks for what they stand for in the notebook, of all that the cell may get at.
        given: names that stand for what the user has pushed.
        lost: cells that would have to run and would not give what they gave, each with a name that stands for something
            else by now, in the notebook as on the ranks.
    """

    cells: tuple[int, ...] = ()
    run: tuple[int, ...] = ()
    push: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    lost: tuple[tuple[int, str], ...] = ()


def find_needs(
    history: Sequence[Cell],
    current: Cell,
    on_ranks: Sequence[int] = (),
    has_value: Callable[[str], bool] = lambda _: False,
    pushed: Mapping[str, int] = MappingProxyType({}),
    travels: Callable[[str], bool] = lambda _: False,
    again: Collection[int] = (),
    copies: Callable[[str], bool] | None = None,
    same: Callable[[str], frozenset[str]] = lambda _: frozenset(),
) -> Needs:
    """Return which earlier cells a cell needs, and which values must be pushed to the ranks.

    Args:
        history: the cells that ran without failing, in order.
        on_ranks: the numbers of the cells that ran on the ranks, in that order.
        has_value: whether the kernel has a value of this name.
        pushed: names whose values the user has pushed, with the number of the cell that did.
        travels: whether the value of this name has weights, which are sent separately.
        again: numbers of cells that must run again if they are needed.
        copies: whether the value of this name can be pushed; `has_value` by default.
        same: the names that refer to the same models, to layers of them, or to containers of them.
    """
    analysis = _Analysis(
        (*history, current), on_ranks, has_value, pushed, travels, again, copies or has_value, same
    )
    return analysis.plan_needs()


#: How a name comes to stand on the ranks for what it stood for when a cell ran: cells make it, the notebook's value is
#: pushed, the user has pushed it, it was not there yet, any cell may have bound it. None: in none of these ways.
TransferMethod = Literal["cells", "push", "given", "later", "unknown"] | None


class _Analysis:
    def __init__(
        self,
        cells: tuple[Cell, ...],
        on_ranks: Sequence[int],
        has_value: Callable[[str], bool],
        pushed: Mapping[str, int],
        travels: Callable[[str], bool],
        again: Collection[int],
        copies: Callable[[str], bool],
        same: Callable[[str], frozenset[str]],
    ) -> None:
        self.cells = cells
        self.names = [names_of(cell.source) for cell in cells]
        self.changes, self.same = (
            cache(self._changed_names),
            cache(lambda name: same(name) | {name}),
        )
        self.last = len(cells) - 1
        place = {cell.number: index for index, cell in enumerate(cells)}
        self.on_ranks = [place[number] for number in on_ranks if number in place]
        self.sent = {index for index in self.on_ranks if cells[index].number not in again}
        self.has_value, self.given, self.copies = has_value, pushed, cache(copies)
        self.bound: dict[str, list[int]] = {}
        self.changed: dict[str, list[int]] = {}
        for index, own in enumerate(self.names):
            for name in own.binds:
                self.bound.setdefault(name, []).append(index)
        for index, own in enumerate(self.names):
            changes = {n for each in self.changes(index) for n in self.same(each)}
            reweighted_names = {
                n for each in own.reweighted_names for n in self.same(each) if not travels(n)
            }
            for name in changes | reweighted_names:
                self.changed.setdefault(name, []).append(index)
        self._needed: dict[int, frozenset[int]] = {}
        self.push: set[str] = set()
        self.lost: dict[int, str] = {}
        self.reach, self.replays = cache(self._needed_names), cache(self._is_replayable)
        self.providers = cache(self._providing_cells)

    def find_binder(self, name: str, before: int) -> int | None:
        """Return the last cell before the cell `before` that binds a name; None if there is none."""
        bound = self.bound.get(name, [])
        place = bisect_left(bound, before)
        return bound[place - 1] if place else None

    def is_changed(self, name: str, index: int) -> bool:
        """Whether a cell changes the object of a name, under any of its names; weights that travel do not count."""
        return index in self.changed.get(name, ())

    def _changed_names(self, index: int) -> Set[str]:
        """Return the names whose objects a cell changes, directly or by functions that it calls."""
        own = self.names[index]
        changed = {*own.changes}
        for called, place, handed in own.passed_arguments:
            maker = self.find_binder(called, index + 1)
            mutated_parameters = (
                self.names[maker].mutated_parameters if maker is not None else frozenset()
            )
            for name in (name for *one, name in mutated_parameters if one == [called, place]):
                if place != GLOBAL:
                    changed.add(handed)
                elif not self.copies(name):  # what can be copied is compared
                    changed.add(name)
        return changed - (own.binds - own.uses)

    def touching_cells(self, name: str, since: int) -> Iterator[int]:
        """Yield the cells from `since` on, without the last, that bind a name or change its object."""
        both = merge(self.bound.get(name, []), self.changed.get(name, []))
        return (index for index in both if since <= index < self.last)

    def _providing_cells(self, name: str, binder: int, before: int) -> tuple[int, ...]:
        """Return the cell that bound a name, and those that have changed its object before the cell `before`."""
        return (binder, *(i for i in self.changed.get(name, ()) if binder < i < before))

    def _needed_names(self, index: int) -> Mapping[str, int | None]:
        """Return the names needed to run a cell, also by functions that it may call, each with its binding cell.

        The binding cell is None if no earlier cell binds the name.
        """
        own = self.names[index]
        todo = list(own.uses | (own.later - own.surely if index == self.last else frozenset()))
        found: dict[str, int | None] = {}
        while todo:
            name = todo.pop()
            if name in found or name in BUILTINS:
                continue
            binder = self.find_binder(name, index)
            found[name] = binder
            if binder is not None:
                todo += self.names[binder].later
        return found

    # Which way a name comes to the ranks

    def is_own(self, index: int) -> bool:
        """Whether a cell cannot simply run again: it asks the user for input, or it ran on ranks that have ended."""
        return self.names[index].asks or (
            self.cells[index].distributed and index not in self.on_ranks
        )

    def is_given(self, name: str, index: int) -> bool:
        """Whether the value that the user pushed under a name is the one that a cell used, except for later changes."""
        pushed = self.given.get(name)
        if pushed is None:
            return False
        binder = self.find_binder(name, index)
        return (binder is None or self.cells[binder].number <= pushed) and not any(
            self.cells[i].number <= pushed for i in self.touching_cells(name, index)
        )

    def transfer_method(self, name: str, index: int) -> TransferMethod:
        """Return how the value that a name had when a cell ran reaches the ranks; None if it cannot.

        The kernel's present value is that value if no cell, this one included, has bound or changed it since.
        """
        binder = self.reach(index)[name]
        if self.is_given(name, index):
            return "given"
        since = next(self.touching_cells(name, index), None)
        if binder is None:
            made = since is not None and name not in self.names[since].uses
            if not self.has_value(name) or self.star_imports(index):
                return "unknown"
            if made:
                return "later"
        elif not (self.is_own(binder) and self.has_value(name)) and (
            all(map(self.replays, self.providers(name, binder, index))) or not self.copies(name)
        ):
            return "cells"
        # What functions use is looked up when they are called: it need not have been then.
        return "push" if since is None or name not in self.names[index].uses else None

    def _is_replayable(self, index: int) -> bool:
        """Whether a cell gives the same results when it runs again."""
        return not self.is_own(index) and self.missing_name(index) is None

    def missing_name(self, index: int) -> str | None:
        """Return a name that a cell used and whose value at that time cannot reach the ranks; None if all can."""
        return next(
            (n for n in sorted(self.reach(index)) if self.transfer_method(n, index) is None), None
        )

    def star_imports(self, index: int) -> list[int]:
        """Return the cells before one that import all names of a module, so that their names are unknown."""
        return [i for i in range(index) if self.names[i].star or self.cells[i].star]

    # What is needed

    def needed_cells(self, index: int) -> frozenset[int]:
        """Return the cells that must have run on the ranks before a cell can."""
        if index in self._needed:
            return self._needed[index]
        self._needed[index] = (
            frozenset()
        )  # a cell can only need earlier ones: no cycles, but be safe
        found: set[int] = set()
        for name, binder in self.reach(index).items():
            match self.transfer_method(name, index):
                case "later":
                    binder = self.find_binder(name, self.last)
                    assert binder is not None
                    makers = self.providers(name, binder, self.last)
                    if all(map(self.replays, makers)) or not self.copies(name):
                        found.update(makers)
                    else:
                        self.push.add(name)
                case "given":
                    later = (i for i in range(index) if self.cells[i].number > self.given[name])
                    found.update(i for i in later if self.is_changed(name, i))
                case "push":
                    self.push.add(name)
                case "cells":
                    assert binder is not None
                    found.update(self.providers(name, binder, index))
                case "unknown":
                    found.update(self.star_imports(index))
                case None:
                    self.lost.setdefault(index, name)
        for provider in list(found):
            found |= self.needed_cells(provider)
        self._needed[index] = frozenset(found)
        return self._needed[index]

    def plan_needs(self) -> Needs:
        """Return which cells to run, which names to push and which to leave alone, for the last cell."""
        for index in self._reachable_cells():
            self.replays(
                index
            )  # which asks the cells before it: in order, no chain of cells is too long
        needed = self.needed_cells(self.last)
        run = set(needed - self.sent)
        while (more := self._cells_to_rerun(run)) - run:
            run |= more
        own, reach = self.names[self.last], self.reach(self.last)
        changed = {*own.binds, *self.changes(self.last), *own.reweighted_names}
        for binder in {b for b in reach.values() if b is not None}:
            changed |= self.names[binder].changes_later
        changed |= own.changes_later
        return Needs(
            self._cell_numbers(needed),
            self._cell_numbers(run),
            frozenset(self.push),
            frozenset(reach),
            frozenset(changed),
            frozenset(
                filter(lambda name: self._is_provided(name, needed), self._names_in_use(needed))
            ),
            frozenset(name for name in self.given if self.is_given(name, self.last)),
            tuple((self.cells[i].number, self.lost[i]) for i in sorted(run & self.lost.keys())),
        )

    def _reachable_cells(self) -> list[int]:
        """Return all cells that the last one may need, in order."""
        found, todo = {self.last}, [self.last]
        while todo:
            index = todo.pop()
            for name, binder in self.reach(index).items():
                if binder is not None:
                    more = {*self.providers(name, binder, index)} - found
                    found |= more
                    todo += more
        return sorted(found - {self.last})

    def _names_in_use(self, needed: Collection[int]) -> set[str]:
        """Return the names that the last cell uses, and those that the cells which it needs have bound."""
        bound = (self.names[i].binds - self.names[i].modules for i in (*needed, self.last))
        return {*self.reach(self.last)}.union(*bound)

    def _is_provided(self, name: str, needed: Collection[int]) -> bool:
        """Whether all cells that provide a name's value are among the needed ones."""
        binder = self.find_binder(name, self.last + 1)
        return binder is None or {*self.providers(name, binder, self.last)} <= {*needed, self.last}

    def _cell_numbers(self, indices: Collection[int]) -> tuple[int, ...]:
        """Return the numbers by which the user knows some cells."""
        return tuple(self.cells[i].number for i in sorted(indices))

    def _cells_to_rerun(self, run: Collection[int]) -> set[int]:
        """Return the cells to run again, because names on the ranks have values from other cells than they need.

        A value that cells outside `run` have changed since is left as it is, unless the cell changes it further. An
        example are lists to which trainings append, when a cell runs again whose functions refer to them.
        """
        made: dict[str, tuple[int, ...]] = {}
        for index in self.on_ranks:
            self._note_makers(index, made)
        more: set[int] = set()
        for index in [*sorted(run), self.last]:
            for name, binder in self.reach(index).items():
                if (
                    binder is None
                    or self.transfer_method(name, index) != "cells"
                    or name in self.push
                ):
                    continue
                has, wanted = made.get(name, ()), self.providers(name, binder, index)
                if has == wanted or (
                    has[:1] == wanted[:1]
                    and name not in self.names[index].grows
                    and not {*run}.intersection(wanted)
                ):
                    continue
                trained = any(self.cells[i].distributed and i in self.sent for i in wanted)
                if index == self.last and trained and self.copies(name):
                    self.push.add(name)  # the notebook has got back what these have made
                else:
                    more.update(wanted)
            self._note_makers(index, made)
        return more

    def _note_makers(self, index: int, made: dict[str, tuple[int, ...]]) -> None:
        """Record which cells have made the values of names on the ranks, after a cell has run there."""
        own = self.names[index]
        for name in {
            n for each in {*self.changes(index), *own.reweighted_names} for n in self.same(each)
        }:
            if self.is_changed(name, index):
                once = index if own.grows.isdisjoint(self.same(name)) else None
                made[name] = (*(i for i in made.get(name, ()) if i != once), index)
        made.update(dict.fromkeys(own.binds, (index,)))
