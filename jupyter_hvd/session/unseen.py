"""What the notebook has changed where no cell is seen to change it: by another name, or in a function.

Which cells change what is found in their text (`cell_names`); this is what that misses, by what the values are. Weights
come to the ranks whoever has changed them (`distribute`). Of plain values it is known what they were when the ranks had
them last, and what they are; of optimizers, their rates. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..rank import serialization
from ..rank.serialization import digest, is_plain, keras_kind, pack
from .cell_names import names_of
from .dependencies import Cell
from .planning import CellPlan
from .program import is_distributed, masked


@dataclass(frozen=True)
class Seen:
    """What the notebook had when the ranks had the same.

    Attributes:
        values: digests of plain values, by name. rates: learning rates of optimizers, by their names and their models'.
    """

    values: Mapping[str, int]
    rates: Mapping[str, float]

    def then(self, later: Seen) -> Seen:
        return Seen({**self.values, **later.values}, {**self.rates, **later.rates})


NOTHING = Seen({}, {})


def seen(namespace: Mapping[str, Any], names: Collection[str]) -> Seen:
    """What the notebook has now."""
    there = {n: namespace[n] for n in names if n in namespace}
    values = {n: digest(pack(v, None)) for n, v in there.items() if is_plain(v)}
    rates = {n: rate for n, v in there.items() if (rate := rate_of(v)) is not None}
    return Seen(values, rates)


def rate_of(value: Any) -> float | None:
    """The learning rate of an optimizer, or of a model's; None where there is none, or a schedule."""
    if not hasattr(value, "apply_gradients"):
        value = getattr(value, "optimizer", None) if keras_kind(value) == "weights" else None
    return serialization.rate_of(value)


@dataclass(frozen=True)
class Unseen:
    """What a cell uses that the notebook may have otherwise than the ranks.

    Attributes:
        changed: plain values that it has changed since the ranks had the same. rates: learning rates, likewise, as they are now.
        doubtful: values that cells have just made on the ranks, and the cells of the notebook that may have changed its own.
        now: what the notebook has of all that.
    """

    changed: frozenset[str]
    rates: Mapping[str, float]
    doubtful: Mapping[str, Sequence[int]]
    now: Seen


def unseen(
    plan: CellPlan,
    history: Sequence[Cell],
    since: int,
    before: Seen,
    namespace: Mapping[str, Any],
) -> Unseen:
    """Look for what no cell is seen to have changed.

    Args:
        history: the cells that ran before this one. since: the number of the one that was the ranks' last.
        before: what the notebook had then. namespace: what it has now.
    """
    sources, run = plan.program.sources, plan.needs.run
    own = {n: names_of(masked(sources[n])) for n in plan.needs.cells}
    made = {x for names in own.values() for x in names.binds}
    used = made & (plan.needs.names | {x for n in run for x in own[n].uses}) & namespace.keys()
    known = before.values.keys() | before.rates.keys()
    idle = not run and all(c.distributed for c in history if c.number > since)
    if idle and all(x in known or not is_plain(namespace[x]) for x in used):
        return Unseen(frozenset(), {}, {}, NOTHING)
    now = seen(namespace, used)
    anew = {x for n in run for x in own[n].binds | own[n].changes}
    for names in own.values():  # what functions change that have been called there
        if any(names.binds & own[n].uses for n in run):
            anew |= names.changes_later
    here = plan.needs.names - anew  # else the ranks have made it as the cells say
    rates = {x: now.rates[x] for x in _changed(before.rates, now.rates) & here}
    as_written = {
        n for n in own if plan.program.converted[n] == sources[n] and not is_distributed(sources[n])
    }
    doubtful = {
        x: suspects
        for x in sorted({x for n in run for x in own[n].binds} & now.values.keys())
        if all(n in as_written for n, names in own.items() if x in names.binds | names.changes)
        and (suspects := _suspects(x, history, plan.needs.cells))
    }
    return Unseen(frozenset(_changed(before.values, now.values) & here), rates, doubtful, now)


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    return {name for name in before.keys() & now.keys() if before[name] != now[name]}


def _suspects(name: str, history: Sequence[Cell], needed: Collection[int]) -> list[int]:
    """The cells that may have changed what a name stands for and do not run on the ranks: those that use it, or a function
    that changes it, and came after the cell that bound it last.
    """
    bound = max((c.number for c in history if name in names_of(c.source).binds), default=0)
    later = (
        c for c in history if c.number > bound and not c.distributed and c.number not in needed
    )
    makers = {
        f
        for c in history
        for f in names_of(c.source).binds
        if name in names_of(c.source).changes_later
    }
    used = {name} | makers
    return [c.number for c in later if used & (names_of(c.source).uses | names_of(c.source).later)]
