"""Arrays of all windows, one entry of the windows at a time.

`f(x[i+p, j+q])`, summed over the p and q of a window, is a sum of slices of x. As an array over i, j, p and q it is many times
as large, has short last axes, and XLA gathers it. So the steps that make and read such arrays run once for each p and q, on
slices, and sums over the window are added up. What a derivative reads again after such a sum is computed again: no array of all
windows is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ..language.affine import Affine
from ..language.terms import Binder
from ..ssa.program import Output, flatten_output
from .ir import OFFSET, Access, Contract, Entrywise, Rewriting, Step
from .strategy import WINDOWS, window_axes
from .tiling import Blocks, PlacedResult

LARGE = 1 << 12  # entries of a slice, at least
FEWEST = 5  # entries of a window, at least


def sweep_windows(steps: Sequence[Step], output: Output) -> tuple[Step | Blocks, ...] | None:
    """Return the steps, with those on arrays of windows run for one entry of the windows at a time; None if there are none."""
    for shape in dict.fromkeys(_window_shapes(steps)):
        swept = _Swept.of(steps, output, shape)
        if swept.arrays:
            return swept.order()
    return None


def _window_shapes(steps: Sequence[Step]) -> Iterator[tuple[int, ...]]:
    """Yield the extents of the windows of which arrays are made entry by entry."""
    for step in steps:
        action = step.action
        if not isinstance(action, Entrywise) or action.summed or action.relations:
            continue
        found = {i for r in action.accesses for i in _overlapping(r, action)}
        tail = [i for i in action.axes if i in found]
        count = prod(action.extents[i] for i in tail)
        is_last = tail == [*action.axes[len(action.axes) - len(tail) :]]
        if tail and is_last and count >= FEWEST and prod(action.shape) >= LARGE * count:
            yield tuple([action.extents[i] for i in tail])


def _overlapping(read: Access, action: Entrywise) -> set[str]:
    """Return the short axes of the windows in which a read overlaps."""
    if any(not a.names <= action.extents.keys() for a in read.indices):
        return set()
    axes = window_axes(read.indices, action.extents)
    return {i for i in axes if action.extents[i] <= WINDOWS and i != _longest(read, i, action)}


def _longest(read: Access, axis: str, action: Entrywise) -> str:
    """Return the longest of the axes that are in one index with an axis."""
    index = next(a for a in read.indices if axis in a.names)
    return max(index.names, key=lambda i: action.extents[i])


@dataclass(frozen=True)
class _Swept:
    """The `arrays` with windows of a shape as their last axes, and the axes of each step that run along the windows."""

    steps: Sequence[Step]
    arrays: frozenset[str]
    axes: Mapping[str, tuple[str, ...]]
    shape: tuple[int, ...]

    @staticmethod
    def of(steps: Sequence[Step], output: Output, shape: tuple[int, ...]) -> _Swept:
        """Return the arrays of windows of this shape that can be swept."""
        kept = set(flatten_output(output))
        found = {s.name for s in steps if s.name not in kept and _has_windows(s, shape)}
        while True:
            axes, wrong = dict[str, tuple[str, ...]](), set[str]()
            for step in steps:
                along = _axes_along(step, found, shape)
                if along is None:
                    wrong |= (step.needs | {step.name}) & found
                elif along:
                    axes[step.name] = along
            if not wrong:
                break
            found -= wrong
        actions = [s.action for s in steps if s.name in found]
        entrywise = [a for a in actions if isinstance(a, Entrywise)]
        seen = any(_overlapping(r, a) for a in entrywise for r in a.accesses)
        return _Swept(steps, frozenset(found if seen else ()), axes, shape)

    def order(self) -> tuple[Step | Blocks, ...]:
        """Return all steps: in each phase those that need nothing of a later one, then the sums over windows that are possible
        then.
        """
        ready: dict[str, int] = {}
        phases: dict[str, int] = {}
        for step in self.steps:
            phases[step.name] = phase = max((ready[x] for x in step.needs if x in ready), default=0)
            ready[step.name] = phase + self._is_end(step)
        made = list[Step | Blocks]()
        for phase in range(max(phases.values(), default=0) + 1):
            here = [s for s in self.steps if phases[s.name] == phase]
            made += [s for s in here if s.name not in self.axes]
            ends = {s.name for s in here if self._is_end(s)}
            if ends:
                made.append(self._block(ends))
        return tuple(made)

    def _is_end(self, step: Step) -> bool:
        """Whether a step sums over windows."""
        return step.name in self.axes and step.name not in self.arrays

    def _block(self, ends: set[str]) -> Blocks:
        """Return the block of some sums over windows, with the arrays of windows behind them."""
        needed = {*ends}
        for step in reversed(self.steps):
            if step.name in needed:
                needed |= step.needs & self.arrays
        made, placed = [], []
        for step in self.steps:
            if step.name in needed:
                fixed = self._fix_windows(step)
                if step.name in ends:
                    fixed, place = self._place(fixed, step)
                    placed.append(place)
                made.append(fixed)
        return Blocks(tuple(made), prod(self.shape), 1, (), (), self.shape, tuple(placed))

    @property
    def _offsets(self) -> dict[str, int]:
        """The names of the offsets within a window, with the number of values of each."""
        return {f"{OFFSET}{k}": n for k, n in enumerate(self.shape)}

    def _fix_windows(self, step: Step) -> Step:
        """Return a step for one entry of the windows."""
        action = step.action
        assert isinstance(action, Entrywise)
        axes = self.axes[step.name]
        at = dict(zip(axes, map(Affine.of, self._offsets), strict=True))
        whole = Rewriting.substituting(at)

        def fix_access(r: Access) -> Access:
            if r.array in self.arrays:
                r = Access(r.array, r.indices[: len(r.indices) - len(axes)])
            return whole.access(r)

        made = action.rewritten(replace(whole, access=fix_access))
        made = replace(made, out=tuple([b for b in made.out if b.name not in axes]))
        if isinstance(made, Contract):
            made = replace(made, sums=tuple([b for b in made.sums if b.name not in axes]))
        return replace(step, action=made)

    def _place(self, fixed: Step, step: Step) -> tuple[Step, PlacedResult]:
        """Return a sum over windows, `out[i] += x[i - β]` for one entry of these, over all entries of x, with the position of
        the first one.

        So nothing is read outside of x.
        """
        action, whole = fixed.action, step.action
        assert isinstance(action, Contract)
        assert isinstance(whole, Contract)
        along = dict(zip(self.axes[step.name], self._offsets, strict=True))
        starts, out, at = [], [], dict[str, Affine]()
        for i, n in whole.out:
            one = Affine.of(along[i]) if i in along else Affine.of(0), 1
            start, extent = one if i in along else self._find_start(i, n.constant, action)
            starts.append(start)
            out.append(Binder(i, Affine.of(extent)))
            at[i] = Affine.of(i) + start
        moved = replace(action.rewritten(Rewriting.substituting(at)), out=tuple(out))
        return replace(fixed, action=moved), PlacedResult(fixed.name, tuple(starts), whole.shape)

    def _find_start(self, axis: str, extent: int, action: Contract) -> tuple[Affine, int]:
        """Return where the first entry of an array of windows is added along an axis, and how many there are."""
        shapes = {s.name: s.action.shape for s in self.steps if isinstance(s.action, Entrywise)}
        for r in action.reads:
            if r.array not in self.arrays:
                continue
            for a, n in zip(r.indices, shapes[r.array], strict=False):
                start = Affine.of(axis) - a
                if start.names and start.names <= self._offsets.keys():
                    low, high = start.value_range(self._offsets)
                    if low >= 0 and high + n <= extent:
                        return start, n
        return Affine.of(0), extent


def _has_windows(step: Step, shape: tuple[int, ...]) -> bool:
    """Whether an array is made entry by entry and has windows as its last axes."""
    action = step.action
    if not isinstance(action, Entrywise) or action.summed or action.relations:
        return False
    if isinstance(action, Contract) and action.scatter_to:
        return False
    tail = action.shape[len(action.shape) - len(shape) :]
    return tail == shape and prod(action.shape) >= LARGE * prod(shape)


def _axes_along(step: Step, arrays: set[str], shape: tuple[int, ...]) -> tuple[str, ...] | None:
    """Return the axes of a step along the windows of the arrays that it reads or makes; () if none.

    None if it cannot run for one entry of the windows at a time.
    """
    action, count = step.action, len(shape)
    if not step.needs & arrays and step.name not in arrays:
        return ()
    if not isinstance(action, Entrywise):
        return None
    own = action.axes[len(action.axes) - count :] if step.name in arrays else None
    reads = [r for r in action.accesses if r.array in arrays]
    tails = {r.indices[len(r.indices) - count :] for r in reads}
    if own is not None:
        tails.add(tuple(map(Affine.of, own)))
    if len(tails) != 1 or action.relations:
        return None
    (tail,) = tails
    axes = tuple([a.name for a in tail if a.name is not None])
    if len({*axes}) != count or tuple([action.extents.get(i) for i in axes]) != shape:
        return None
    if own is None and not isinstance(action, Contract):
        return None
    return None if isinstance(action, Contract) and action.scatter_to else axes
