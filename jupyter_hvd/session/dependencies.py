"""Which earlier cells a cell needs: a pure analysis of names, cell by cell.

A cell binds names, uses names and changes what names stand for. What a cell needs
is, for each name that it uses, the cell that bound it last, the cells that have
changed it since, and what these need in turn. Functions look their globals up when
they are called, so what a function's body uses counts where the function is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from .cell_names import BUILTINS, names_of


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
    """

    cells: tuple[int, ...] = ()
    run: tuple[int, ...] = ()
    push: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()


def needs(
    history: Sequence[Cell],
    current: Cell,
    on_ranks: Sequence[int] = (),
    has_value: Callable[[str], bool] = lambda _: False,
    given: Mapping[str, int] = MappingProxyType({}),
    travels: Callable[[str], bool] = lambda _: False,
) -> Needs:
    """What a cell needs of those that ran before it.

    Args:
        history: the cells that have run without failing, in order.
        on_ranks: the numbers of the cells that have run on the ranks, in that order.
        has_value: whether the notebook has, under a name, a value that could be pushed.
        given: names whose values the user has pushed, with the number of the cell that did.
        travels: whether what a name stands for has weights that come to the ranks as the notebook has them.
    """
    cells = (*history, current)
    return _Analysis(cells, frozenset(on_ranks), has_value, given, travels).plan(on_ranks)


class _Analysis:
    def __init__(
        self,
        cells: tuple[Cell, ...],
        sent: frozenset[int],
        has_value: Callable[[str], bool],
        given: Mapping[str, int],
        travels: Callable[[str], bool],
    ) -> None:
        self.cells, self.travels = cells, travels
        self.names = [names_of(cell.source) for cell in cells]
        self.place = {cell.number: index for index, cell in enumerate(cells)}
        self.sent, self.has_value, self.given = sent, has_value, given
        self._needed: dict[int, frozenset[int]] = {}
        self.push: set[str] = set()

    def binder(self, name: str, before: int) -> int | None:
        for index in range(before - 1, -1, -1):
            if name in self.names[index].binds:
                return index
        return None

    def rebuildable(self, name: str, index: int) -> bool:
        """Whether running the cell again is the way to the value.

        It is not for what the user typed in, nor for what ranks that have gone computed.
        """
        cell = self.cells[index]
        if self.names[index].asks or (cell.distributed and cell.number not in self.sent):
            return not self.has_value(name)
        return True

    def is_given(self, name: str, binder: int | None) -> bool:
        """Whether the ranks have a name's value from the user, and no cell has bound it since."""
        bound = 0 if binder is None else self.cells[binder].number
        return bound <= self.given.get(name, -1)

    def reach(self, index: int, *, calls: bool) -> dict[str, int | None]:
        """The names needed when a cell runs, functions that it may call included, each with its binder."""
        own = self.names[index]
        todo = list(own.uses | own.later if calls else own.uses)
        found: dict[str, int | None] = {}
        while todo:
            name = todo.pop()
            if name in found or name in BUILTINS:
                continue
            binder = self.binder(name, index)
            found[name] = binder
            if binder is not None:
                todo += self.names[binder].later
        return found

    def providers(self, name: str, binder: int, before: int) -> Iterator[int]:
        yield binder
        for index in range(binder + 1, before):
            if self.is_changed(name, index):
                yield index

    def is_changed(self, name: str, index: int) -> bool:
        """Whether a cell changes what a name stands for, by more than weights that travel."""
        own = self.names[index]
        return name in own.changes or (name in own.weighs and not self.travels(name))

    def needed(self, index: int, *, calls: bool = False) -> frozenset[int]:
        if index in self._needed:
            return self._needed[index]
        self._needed[index] = (
            frozenset()
        )  # a cell can only need earlier ones: no cycles, but be safe
        found: set[int] = set()
        for name, binder in self.reach(index, calls=calls).items():
            if self.is_given(name, binder):
                later = (i for i in range(index) if self.cells[i].number > self.given[name])
                found.update(i for i in later if self.is_changed(name, i))
            elif binder is None:
                stars = [i for i in range(index) if self.names[i].star or self.cells[i].star]
                found.update(stars)
                if not stars and self.has_value(name):
                    self.push.add(name)
            elif not self.rebuildable(name, binder):
                self.push.add(name)
            else:
                found.update(self.providers(name, binder, index))
        for provider in list(found):
            found |= self.needed(provider)
        self._needed[index] = frozenset(found)
        return self._needed[index]

    def plan(self, on_ranks: Sequence[int]) -> Needs:
        last = len(self.cells) - 1
        needed = sorted(self.needed(last, calls=True))
        reach = self.reach(last, calls=True)
        run = {index for index in needed if self.cells[index].number not in self.sent}
        while (more := self._stale(run, needed, on_ranks)) - run:
            run |= more
        own = self.names[last]
        changed = {*own.binds, *own.changes, *own.weighs}
        for binder in {b for b in reach.values() if b is not None}:
            changed |= self.names[binder].changes_later
        changed |= self.names[last].changes_later
        return Needs(
            tuple(self.cells[i].number for i in needed),
            tuple(self.cells[i].number for i in sorted(run)),
            frozenset(self.push),
            frozenset(reach),
            frozenset(changed),
        )

    def _stale(self, run: set[int], needed: Sequence[int], on_ranks: Sequence[int]) -> set[int]:
        """Cells to run again, because a name on the ranks would stand for another cell's value."""
        bound: dict[str, int] = {}
        for number in on_ranks:
            if number in self.place:
                bound.update(
                    dict.fromkeys(self.names[self.place[number]].binds, self.place[number])
                )
        more: set[int] = set()
        last = len(self.cells) - 1
        for index in [*sorted(run), last]:
            for name, binder in self.reach(index, calls=index == last).items():
                if binder is None or self.is_given(name, binder):
                    continue
                if name in self.push or bound.get(name) == binder:
                    continue
                more.update(i for i in self.providers(name, binder, index) if i in needed)
            bound.update(dict.fromkeys(self.names[index].binds, index))
        return more
