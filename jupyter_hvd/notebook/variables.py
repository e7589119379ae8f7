"""The ranks' variables side by side: which differ, where first, and by how much. Pure: what ranks answer in, lines out."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..launch.diagnosis import align_columns, ranks_text
from ..ranks.serialization import SerializedValue
from ..ranks.variables import MOST_CHARACTERS, VariableSummary, shorten_text

#: Bytes up to which a value is fetched to see where it differs.
MOST_COMPARED = 64 * 2**20
HEAD = ("variable", "on", "value")
#: Marks variables that differ; it needs no colour to be seen.
DIFFERS = "≠ "


@dataclass(frozen=True)
class RankGroup:
    """Ranks that have the same value of a variable.

    Attributes:
        summary: None where they do not have the variable.
        note: where their value first differs from that of the first group.
    """

    ranks: tuple[int, ...]
    summary: VariableSummary | None
    note: str = ""

    @property
    def text(self) -> str:
        if self.summary is None:
            return "not there"
        compared = "" if self.summary.digest is not None else " (not compared)"
        return f"{self.summary.text}{compared}"


@dataclass(frozen=True)
class ComparedVariable:
    """A variable and the groups of ranks that have the same value of it, the group of rank 0 first."""

    name: str
    groups: tuple[RankGroup, ...]

    @property
    def is_replicated(self) -> bool:
        return len(self.groups) == 1

    @property
    def is_fetched(self) -> bool:
        """Whether the values are to be compared entry by entry."""
        there = [group.summary for group in self.groups if group.summary is not None]
        return len(there) > 1 and all(
            each.digest is not None and each.size <= MOST_COMPARED and not each.is_secret
            for each in there
        )


def compare_summaries(
    told: Mapping[int, Mapping[str, VariableSummary]],
) -> list[ComparedVariable]:
    """Group the ranks by their values of each variable; variables that differ come first.

    What is in the background is left out where it is replicated.
    """
    names = dict.fromkeys(name for rank in sorted(told) for name in told[rank])
    found = [ComparedVariable(name, tuple(_group_ranks(name, told))) for name in names]
    shown = [
        each
        for each in found
        if not each.is_replicated
        or (each.groups[0].summary and not each.groups[0].summary.in_background)
    ]
    return sorted(shown, key=lambda each: each.is_replicated)


def _group_ranks(
    name: str, told: Mapping[int, Mapping[str, VariableSummary]]
) -> Iterator[RankGroup]:
    of_value: dict[Any, list[int]] = {}
    unread = []
    for rank in sorted(told):
        summary = told[rank].get(name)
        if summary is not None and summary.digest is None and summary.is_unread:
            unread.append(rank)  # which may have the value of any
            continue
        same = None if summary is None else summary.digest or summary.text
        of_value.setdefault(same, []).append(rank)
    first, *others = [*of_value.values()] or [[]]
    yield RankGroup(tuple(sorted([*unread, *first])), told[(first or unread)[0]].get(name))
    for ranks in others:
        yield RankGroup(tuple(ranks), told[ranks[0]].get(name))


def ranks_to_fetch(differing: Sequence[ComparedVariable]) -> list[int]:
    """The ranks whose values are to be fetched: one of each group."""
    return sorted({group.ranks[0] for each in differing for group in each.groups})


def within_limit(differing: Sequence[ComparedVariable]) -> list[ComparedVariable]:
    """As many of some variables, the smallest first, as are together not too large to fetch."""
    found, total = [], 0
    for each in sorted(differing, key=_size_of_variable):
        total += _size_of_variable(each)
        if total <= MOST_COMPARED:
            found.append(each)
    return found


def _size_of_variable(variable: ComparedVariable) -> int:
    return sum(group.summary.size for group in variable.groups if group.summary is not None)


def shown_variables(
    found: Sequence[ComparedVariable], values: Mapping[int, Mapping[str, SerializedValue]]
) -> list[ComparedVariable]:
    """Say of each group of ranks where its value first differs from rank 0's, and by how much.

    Digests of equal values may differ, as those of sets do: then the ranks are one group after all.

    Args:
        values: of variables that differ, by rank.
    """
    shown = []
    for variable in found:
        first, *others = variable.groups
        groups = [first]
        for group in others:
            note = _first_difference(variable, group, values)
            if note is None:
                same = tuple(sorted((*groups[0].ranks, *group.ranks)))
                groups[0] = replace(first, ranks=same)
            else:
                groups.append(replace(group, note=note))
        shown.append(ComparedVariable(variable.name, tuple(groups)))
    return sorted(shown, key=lambda each: each.is_replicated)


@dataclass(frozen=True, repr=False)
class VariablesTable:
    """What `%hvd vars` displays.

    Attributes:
        silent: a line for each rank that is not compared, and why.
    """

    shown: Sequence[ComparedVariable]
    silent: Sequence[str] = ()

    def __repr__(self) -> str:
        return "\n".join([*table_of_variables(self.shown), *self.silent])

    def _repr_html_(self) -> str:
        rows = "".join(_row_as_html(*row) for row in _rows_of(self.shown))
        heads = "".join(f'<th style="text-align: left">{name}</th>' for name in HEAD)
        silent = "".join(f"<p>{html.escape(line)}</p>" for line in self.silent)
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{silent}"


def _rows_of(shown: Sequence[ComparedVariable]) -> Iterator[tuple[str, str, str, str]]:
    """For each group of ranks the name of the variable, if it is the first; the ranks, the value, and the note."""
    for variable in shown:
        name = variable.name if variable.is_replicated else f"{DIFFERS}{variable.name}"
        for place, group in enumerate(variable.groups):
            ranks = "all ranks" if variable.is_replicated else ranks_text(group.ranks)
            yield "" if place else name, ranks, group.text, group.note


def _row_as_html(name: str, ranks: str, text: str, note: str) -> str:
    strong = "; font-weight: bold" if name.startswith(DIFFERS) else ""
    below = f"<br><small>{html.escape(note)}</small>" if note else ""
    return (
        f'<tr><td style="text-align: left{strong}">{html.escape(name)}</td><td style="text-align: left">{ranks}</td>'
        f'<td style="text-align: left">{html.escape(text)}{below}</td></tr>'
    )


def table_of_variables(shown: Sequence[ComparedVariable]) -> list[str]:
    """A line for each group of ranks; below one that differs, where it first does and by how much."""
    rows = [*_rows_of(shown)]
    head, *lines = align_columns([HEAD, *(row[:3] for row in rows)])
    margin = " " * head.rindex(HEAD[2])
    notes = ([f"{margin}{note}"] if note else [] for *_, note in rows)
    return [
        head,
        *(text for line, note in zip(lines, notes, strict=True) for text in (line, *note)),
    ]


def _first_difference(
    variable: ComparedVariable,
    group: RankGroup,
    values: Mapping[int, Mapping[str, SerializedValue]],
) -> str | None:
    """Where the value of a group first differs from that of the first, "" where that is not known; None where it does not."""
    first = variable.groups[0]
    if first.summary is None or group.summary is None or not variable.is_fetched:
        sizes = [each.summary.size for each in (first, group) if each.summary is not None]
        large = f"larger than {MOST_COMPARED // 2**20} MB: not compared by entry"
        return large if max(sizes) > MOST_COMPARED else ""
    zero, other = (values.get(each.ranks[0], {}).get(variable.name) for each in (first, group))
    if zero is None or other is None:
        return ""
    found = first_difference(zero.data, other.data, first.summary.parts)
    if not found:
        return None if zero.kind == other.kind == "plain" else ""
    return f"differs from {ranks_text(first.ranks[:1])}: {found}"


def first_difference(zero: Any, other: Any, parts: Sequence[str] = (), path: str = "") -> str:
    """Where two values first differ, and by how much; '' where no difference can be named.

    Args:
        parts: the names of a list's elements.
        path: what leads to the values.
    """
    import numpy as np

    where = f"{path}: " if path else ""
    zero, other = map(_as_plain, (zero, other))
    if type(zero) is not type(other):
        return f"{where}{type(other).__name__} instead of {type(zero).__name__}"
    if isinstance(zero, np.ndarray):
        return _difference_of_arrays(zero, other, path)
    if isinstance(zero, Mapping):
        if missing := [key for key in zero if key not in other]:
            return f"{where}has no {missing[0]!r}"
        if added := [key for key in other if key not in zero]:
            return f"{where}has {added[0]!r}, too"
        if list(zero) != list(other):
            return f"{where}the keys are in another order"
        pairs = [(f"{path}[{key!r}]", zero[key], other[key]) for key in zero]
    elif isinstance(zero, (list, tuple)):
        if len(zero) != len(other):
            return f"{where}{len(other)} elements instead of {len(zero)}"
        names = parts if len(parts) == len(zero) else [f"{path}[{k}]" for k in range(len(zero))]
        pairs = list(zip(names, zero, other, strict=True))
    elif isinstance(zero, (set, frozenset)):
        for more, has in ((zero - other, "has no"), (other - zero, "has")):
            if more:
                return f"{where}{has} {shorten_text(repr(min(more, key=repr)))}"
        return ""
    elif isinstance(zero, str):
        pairs_of_letters = enumerate(zip(zero, other, strict=False))
        shorter = min(len(zero), len(other))
        start = next((at for at, (a, b) in pairs_of_letters if a != b), shorter)
        own, its = (text[start : start + MOST_CHARACTERS // 4] for text in (zero, other))
        return "" if zero == other else f"{path}[{start}]: {its!r} instead of {own!r}"
    elif isinstance(zero, bytes):
        return "" if zero == other else f"{where}other bytes"
    else:
        size = (
            f", a difference of {abs(other - zero):.3g}"
            if isinstance(zero, (int, float, complex))
            else ""
        )
        same = repr(zero) == repr(other)
        return (
            ""
            if same
            else f"{where}{shorten_text(repr(other))} instead of {shorten_text(repr(zero))}{size}"
        )
    return next(filter(None, (first_difference(a, b, (), name) for name, a, b in pairs)), "")


def _as_plain(value: Any) -> Any:
    """A table as an array, a number of NumPy's as one of Python's."""
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()
    return value.to_numpy() if hasattr(value, "to_numpy") else value


def _difference_of_arrays(zero: Any, other: Any, path: str) -> str:
    import numpy as np

    where = f"{path}: " if path else ""
    if (zero.shape, zero.dtype) != (other.shape, other.dtype):
        return f"{where}{other.dtype} {other.shape} instead of {zero.dtype} {zero.shape}"
    differ = zero != other
    is_number = zero.dtype.kind in "biufc"
    if zero.dtype.kind in "fc":
        differ &= ~(np.isnan(zero) & np.isnan(other))
    if not differ.any():
        same = zero.dtype.kind not in "fc" or zero.tobytes() == other.tobytes()
        return "" if same else f"{where}equal numbers with other bits, as 0.0 and -0.0 are"
    index = tuple(map(int, np.argwhere(differ)[0]))
    place = path + (f"[{', '.join(map(str, index))}]" if index else "")
    values = f"{other[index]} instead of {zero[index]}"
    told = [f"{place}: {values}" if place else values]
    if is_number:
        wide = np.complex128 if zero.dtype.kind == "c" else np.float64
        apart = np.abs(zero.astype(wide) - other.astype(wide))[differ]
        finite = apart[np.isfinite(apart)]
        if finite.size:
            told.append(f"largest difference {finite.max():.3g}")
    told.append(f"{int(differ.sum())} of {differ.size} entries")
    return ", ".join(told)
