"""Large arrays with a short last axis, as the three coordinates of each pair of points, column by column.

XLA for CPUs computes such an array in loops over its last axis, in which there is nothing to do at once, and where it is read for
a sum along that axis it writes all of it first. Its columns are arrays with a long last axis; what is read of them together XLA
fuses into one loop: a gradient of n-body takes a third of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeGuard

from ..language.affine import Affine
from ..language.function import find_function
from ..language.predicates import FALSE, compare
from ..language.terms import Binders
from ..ssa.program import Output, flatten_output
from .dataflow import is_scatter, needed_steps
from .ir import (
    Access,
    Accumulate,
    Action,
    Apply,
    Contract,
    Entrywise,
    Fill,
    Masked,
    Reduce,
    Rewriting,
    Step,
)

SHORT = 4  # entries of a last axis, at most; of two axes one less, for XLA goes through both as one
LARGE = 20_000  # entries of an array, at least
MOST = 16  # steps that are made of one


def split_columns(steps: Sequence[Step], output: Output) -> tuple[Step, ...]:
    """Return steps that make large arrays with a short last axis column by column.

    Unchanged where no columns meet, which XLA computes as one long axis, or where a split array would have to be reassembled.
    """
    kept = frozenset(flatten_output(output))
    actions = ((s.name, s.action) for s in steps if s.name not in kept)
    split = _Split({name: action for name, action in actions if _is_split(action)})
    if not any(map(split.affects_step, steps)):
        return tuple(steps)
    found = needed_steps([made for step in steps for made in split.split_step(step)], output)
    again = any(s.name in split.arrays for s in found)
    return tuple(steps) if again else found


def _is_split(action: Action) -> TypeGuard[Entrywise]:
    """Whether an array is large, computed entry by entry, and its last axis short."""
    if not isinstance(action, Entrywise) or action.summed or is_scatter(action):
        return False
    shape = action.shape
    most = SHORT if len(shape) > 2 else SHORT - 1
    return len(shape) > 1 and 1 < shape[-1] <= most and prod(shape) >= LARGE


@dataclass(frozen=True)
class _Split:
    """The arrays of which there are columns, as they are made."""

    arrays: Mapping[str, Entrywise]

    def affects_step(self, step: Step) -> bool:
        """Whether a step reads columns by their numbers, or sums over them."""
        action = step.action
        if not isinstance(action, Entrywise):
            return False
        last = [r.indices[-1] for r in action.accesses if r.array in self.arrays]
        return any(a.is_constant or a.name in dict(action.summed) for a in last)

    def split_step(self, step: Step) -> Iterator[Step]:
        """Yield the steps that make an array along one of its short axes: each column, and their concatenation; or the terms
        of its sum or maximum, and what combines them.
        """
        action = step.action
        axis = self._short_axis(step)
        if axis is None or not isinstance(action, Entrywise):
            yield step
            return
        parts = []
        for k in range(action.extents[axis]):
            part = Step(_column_name(step.name, k), self._fix_axis(action, axis, k), step.statement)
            yield from self.split_step(part)
            parts.append(part)
        if axis in action.axes:
            yield replace(step, action=_side_by_side(action, axis, parts))
        elif isinstance(action, Reduce) and len(parts) > 1:
            yield from _reduce_parts(step, action, parts)
        else:
            yield replace(step, action=_add_parts(action, parts))

    def _short_axis(self, step: Step) -> str | None:
        """Return an axis along which a step reads columns, or the last axis of an array that is split; None if there is none."""
        action = step.action
        if not isinstance(action, Entrywise) or is_scatter(action):
            return None
        if step.name in self.arrays:
            return action.axes[-1]
        axes = dict.fromkeys(
            i
            for r in action.accesses
            if r.array in self.arrays and (i := r.indices[-1].name) in action.extents
            if i is not None and action.extents[i] <= self.arrays[r.array].shape[-1]
        )
        steps = prod(action.extents[i] for i in axes)
        return next(iter(axes), None) if steps <= MOST else None

    def _fix_axis(self, action: Entrywise, axis: str, k: int) -> Entrywise | Fill:
        """Return an array's action at one value of an axis."""
        substituting = Rewriting.substituting({axis: Affine.of(k)})

        def fix_access(r: Access) -> Access:
            found = substituting.access(r)
            if r.array not in self.arrays or not found.indices[-1].is_constant:
                return found
            column = found.indices[-1].constant
            if not 0 <= column < self.arrays[r.array].shape[-1]:
                return found
            return Access(_column_name(r.array, column), found.indices[:-1])

        made = action.rewritten(replace(substituting, access=fix_access))
        made = replace(made, out=_drop_binder(made.out, axis))
        if isinstance(made, Contract):
            made = replace(made, sums=_drop_binder(made.sums, axis))
        if isinstance(made, Reduce):
            made = replace(made, over=_drop_binder(made.over, axis))
            if not made.over:
                return Accumulate(made.out, (Masked(made.read),))
        zero = isinstance(made, Contract | Apply) and made.mask == FALSE
        return Fill(made.out, 0) if zero else made


def _column_name(name: str, k: int) -> str:
    """Return the name of an array's k-th column."""
    return f"{name}·{k}"


def _drop_binder(binders: Binders, axis: str) -> Binders:
    return tuple(b for b in binders if b.name != axis)


def _reduce_parts(step: Step, action: Reduce, parts: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps that combine the parts of a maximum or minimum, two at a time."""
    function = find_function(action.function)
    last, *rest = parts
    for k, part in enumerate(rest):
        name = step.name if k == len(rest) - 1 else f"{step.name}··{k}"
        both = tuple((Masked(action.entry_of(x.name)),) for x in (last, part))
        last = replace(step, name=name, action=Apply(action.out, function, both))
        yield last


def _add_parts(action: Entrywise, parts: Sequence[Step]) -> Accumulate:
    """Return the action that adds the terms of a sum."""
    made = (part.name for part in parts if not isinstance(part.action, Fill))
    return Accumulate(action.out, tuple(Masked(action.entry_of(x)) for x in made))


def _side_by_side(action: Entrywise, axis: str, parts: Sequence[Step]) -> Accumulate:
    """Assemble an array from its columns along `axis`."""
    rest = tuple(Affine.of(i) for i in action.axes if i != axis)
    addends = (
        Masked(Access(part.name, rest), compare("=", axis, k)) for k, part in enumerate(parts)
    )
    return Accumulate(action.out, tuple(addends))
