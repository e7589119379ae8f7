"""Gathers of gathers and sums of sums in the plan of a sparse Jacobian, put together before JAX runs it.

A stage whose entries are one addend's points, in order, is read through by what reads it once: index arrays are composed on the
host, and its entries are never in memory. A stage that another only adds to its own becomes addends of that one. Then an entry
takes one gather for each array that it depends on, not one for each statement between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..language.function import Function
from .point_values import Added, Listed, PointStep, Summed

#: Entries for each point up to which an addend is computed by entry: of a number, of what is gathered, of a function.
OF_NUMBER, OF_GATHERED, OF_FUNCTION = 32, 4, 1
PARTS = 4  # of an addend, by entry


@dataclass
class Composer:
    """Composes gathers and scatters of arrays, by number. The values in `aligned` have the entries of an addend's points, in
    order.
    """

    listed: Listed
    aligned: frozenset[int]
    known: dict[tuple[int, int], int] = field(default_factory=dict)

    def compose_positions(self, array: int | None, index: int | None) -> int | None:
        """Return an array of positions read at those of another; None if positions are in order."""
        if array is None or index is None:
            return index if array is None else array
        if (array, index) not in self.known:
            arrays = self.listed.arrays
            self.known[array, index] = self.listed(arrays[array][arrays[index]])
        return self.known[array, index]

    def compose_steps(self, steps: Sequence[PointStep], index: int | None) -> tuple[PointStep, ...]:
        """Return an addend's steps at some of its points."""
        if index is None:
            return tuple(steps)
        moved = []
        for step in steps:
            places = tuple([self._compose_array(k, index) for k in step.places])
            if step.operation == "[]" and not places and step.value in self.aligned:
                places = (index,)
            masks = tuple(
                [None if k is None else self._compose_array(k, index) for k in step.masks]
            )
            moved.append(step._replace(places=places, masks=masks))
        return tuple(moved)

    def _compose_array(self, array: int, index: int) -> int:
        """Return an array read at positions."""
        found = self.compose_positions(array, index)
        assert found is not None
        return found

    def compose_through(self, inner: Added, outer: Added) -> Added:
        """Return an addend of a stage's entries, given the stage's only addend."""
        moved = self.move_addend(inner, outer.position)
        return moved._replace(steps=_multiply_addends(moved.steps, outer.steps), slot=outer.slot)

    def has_entries(self, slot: int, size: int, share: int) -> bool:
        """Whether points have entries of their own, of which there are at most `share` for each point."""
        slots = self.listed.arrays[slot]
        return share * len(slots) >= size and bool(np.all(slots[1:] > slots[:-1]))

    def at_entries(self, addend: Added, size: int) -> Iterator[Added]:
        """Yield an addend in parts by entry, and the rest with slots: XLA gathers in one loop over the entries, but adds to
        slots one by one.

        The first part has the first point of each entry, the second the second, while these are not far fewer than the
        entries.
        """
        if addend.slot is None:
            yield addend
            return
        slots, share = self.listed.arrays[addend.slot], _most_entries(addend)
        points = np.arange(len(slots))
        for _ in range(PARTS):
            is_first = np.append(True, slots[points[1:]] != slots[points[:-1]])[: len(points)]
            if not len(points) or share * np.count_nonzero(is_first) < size:
                break
            yield self._take_points(addend, size, points[is_first])
            points = points[~is_first]
        if len(points) == len(slots):
            yield addend
        elif len(points):
            index, slot = self.listed(points.astype(np.int32)), self.listed(slots[points])
            yield self.move_addend(addend._replace(slot=None), index)._replace(slot=slot)

    def _take_points(self, addend: Added, size: int, points: Any) -> Added:
        """Return the part of an addend at some points, at most one for each entry."""
        assert addend.slot is not None
        slots = self.listed.arrays[addend.slot][points]
        inside = np.zeros(size, bool)
        inside[slots] = True if addend.inside is None else self.listed.arrays[addend.inside][points]
        point = np.zeros(size, np.int32)
        point[slots] = points
        moved = self.move_addend(addend, self.listed(np.maximum.accumulate(point)))
        return moved._replace(slot=None, inside=None if inside.all() else self.listed(inside))

    def move_addend(self, addend: Added, index: int | None) -> Added:
        """Return an addend without slots at some of its points; None means all, in order."""
        return addend._replace(
            position=None
            if addend.source is None
            else self.compose_positions(addend.position, index),
            steps=self.compose_steps(addend.steps, index),
            inside=None if addend.inside is None else self.compose_positions(addend.inside, index),
        )


def _most_entries(addend: Added) -> int:
    """Return up to how many points per entry an addend is split by entry."""
    if _has_functions(addend):
        return OF_FUNCTION
    return OF_GATHERED if _count_gathers(addend, addend.source is not None) else OF_NUMBER


def _has_functions(addend: Added) -> bool:
    """Whether an addend's steps call elementary functions."""
    return any(isinstance(s.operation, Function) for s in addend.steps)


def _multiply_addends(
    first: tuple[PointStep, ...], second: tuple[PointStep, ...]
) -> tuple[PointStep, ...]:
    """Return the steps of a product of two factors."""
    if not first or not second:
        return first or second
    n = len(first)
    moved = [s._replace(arguments=tuple([k + n for k in s.arguments])) for s in second]
    return (*first, *moved, PointStep("*", (n - 1, n + len(second) - 1), (None,)))


def compose_plan(
    plan: Sequence[Summed],
    counts: Sequence[Sequence[int]],
    arrays: Sequence[Any],
    aligned: frozenset[int] = frozenset(),
) -> tuple[tuple[Summed, ...], tuple[tuple[int, ...], ...], tuple[Any, ...]]:
    """Return a plan with fewer stages, the points of each addend, and the arrays that it reads."""
    composer = Composer(Listed.of(arrays), aligned)
    reads = Counter(a.source for stage in plan for a in stage.addends)
    made: list[tuple[Summed, tuple[int, ...]]] = []
    for k, (stage, points) in enumerate(zip(plan, counts, strict=True)):
        parts = [
            part
            for addend, n in zip(stage.addends, points, strict=True)
            for part in _expand_addend(addend, n, stage.size, made, reads, composer)
        ]
        here = Summed(stage.size, tuple([a for a, _ in parts]))
        made.append((here, tuple([n for _, n in parts])))
        if _is_free(here) and here.addends[0].source is not None:
            reads[here.addends[0].source] += max(0, reads[k] - 1)
    return *_needed_stages(made), tuple(composer.listed.arrays)


def _expand_addend(
    addend: Added,
    points: int,
    size: int,
    made: Sequence[tuple[Summed, tuple[int, ...]]],
    reads: Mapping[int | None, int],
    composer: Composer,
) -> Iterator[tuple[Added, int]]:
    """Yield an addend, or the addends whose sum it is, with the number of points of each."""
    if addend.source is None:
        yield addend, points
        return
    stage, counts = made[addend.source]
    once = reads[addend.source] == 1
    if _is_in_order(stage) and (_is_free(stage) or (once and points <= stage.size)):
        yield composer.compose_through(stage.addends[0], addend), points
    elif once and _only_adds(addend) and _pays_off(stage, addend, size, composer):
        for inner, n in zip(stage.addends, counts, strict=True):
            yield inner._replace(slot=composer.compose_positions(addend.slot, inner.slot)), n
    elif by_entry := once and not addend.steps and _split_by_entry(stage, points, composer):
        for inner in by_entry:
            yield composer.move_addend(inner, addend.position)._replace(slot=addend.slot), points
    else:
        yield addend, points


def _split_by_entry(stage: Summed, points: int, composer: Composer) -> list[Added]:
    """Return the addends of a stage by entry; [] if gathering each takes longer than gathering their sum."""
    found = [part for a in stage.addends for part in composer.at_entries(a, stage.size)]
    after = sum(_count_gathers(a, a.source is not None) for a in found)
    before = sum(_count_gathers(a, a.position is not None) for a in found)
    calls = any(map(_has_functions, found)) and points > stage.size
    more = points * after > stage.size * before + points
    return [] if calls or more or any(a.slot is not None for a in found) else found


def _pays_off(stage: Summed, addend: Added, size: int, composer: Composer) -> bool:
    """Whether adding all addends of a stage instead of their sum gathers no more."""
    if addend.slot is None or len(stage.addends) == 1:
        return True
    gathered = sum(_count_gathers(a, a.source is not None) for a in stage.addends)
    before = sum(_count_gathers(a, a.position is not None) for a in stage.addends)
    has_entries = composer.has_entries(addend.slot, size, OF_GATHERED)
    return has_entries and size * gathered <= stage.size * before + size


def _count_gathers(addend: Added, of_source: bool) -> int:
    """Return the number of gathers in an addend's steps, plus one if `of_source`."""
    return of_source + sum(bool(s.places) or s.operation == "[]" for s in addend.steps)


def _is_in_order(stage: Summed) -> bool:
    """Whether a stage has one addend, whose points are the entries in order."""
    return len(stage.addends) == 1 and stage.addends[0].slot is None


def _is_free(stage: Summed) -> bool:
    """Whether reading through a stage computes nothing: it multiplies by a number at most."""
    return (
        _is_in_order(stage)
        and stage.addends[0].inside is None
        and all(
            not s.places and s.operation != "[]" and not s.arguments and s.masks == (None,)
            for s in stage.addends[0].steps
        )
    )


def _only_adds(addend: Added) -> bool:
    """Whether an addend adds a source unchanged."""
    return addend.position is None and not addend.steps


def _needed_stages(
    made: Sequence[tuple[Summed, tuple[int, ...]]],
) -> tuple[tuple[Summed, ...], tuple[tuple[int, ...], ...]]:
    """Return the stages that the last one is computed from, renumbered."""
    needed = {len(made) - 1}
    for k in range(len(made) - 1, -1, -1):
        if k in needed:
            needed.update(a.source for a in made[k][0].addends if a.source is not None)
    number = {k: n for n, k in enumerate(sorted(needed))}
    stages = [
        Summed(
            stage.size,
            tuple(
                [
                    a if a.source is None else a._replace(source=number[a.source])
                    for a in stage.addends
                ]
            ),
        )
        for k, (stage, _) in enumerate(made)
        if k in needed
    ]
    return tuple(stages), tuple([n for k, (_, n) in enumerate(made) if k in needed])


@dataclass(frozen=True)
class Group:
    """Stages by number, of which only the last is read elsewhere, and whether that pays to compute once: it is gathered, and
    more than numbers.
    """

    stages: tuple[int, ...]
    once: bool


def group_stages(plan: Sequence[Summed], first: int) -> Iterator[Group]:
    """Yield the stages from number `first` on in groups, in order: a stage that is read once, in order, is in its reader's
    group.
    """
    reads = Counter(a.source for stage in plan for a in stage.addends)
    gathered = {a.source for stage in plan for a in stage.addends if a.position is not None}
    last = first + len(plan) - 1
    waiting: dict[int, tuple[int, ...]] = {}
    for k, stage in enumerate(plan, first):
        behind = [i for a in stage.addends if a.source in waiting for i in waiting.pop(a.source)]
        group = (*sorted(behind), k)
        if k == last or reads[k] != 1 or k in gathered:
            computes = any(_count_gathers(a, a.source is not None) for a in stage.addends)
            yield Group(group, computes and k in gathered)
        else:
            waiting[k] = group
