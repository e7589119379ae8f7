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
        """The value as shown to the user."""
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
        """Whether all ranks have the same value."""
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
    summaries: Mapping[int, Mapping[str, VariableSummary]],
) -> list[ComparedVariable]:
    """Group the ranks by their values of each variable; variables that differ come first.

    Replicated variables that belong to the background are left out.

    Args:
        summaries: the summaries of each rank, by variable.
    """
    names = dict.fromkeys(name for rank in sorted(summaries) for name in summaries[rank])
    found = [ComparedVariable(name, tuple(_group_ranks(name, summaries))) for name in names]
    shown = [
        each
        for each in found
        if not each.is_replicated
        or (each.groups[0].summary and not each.groups[0].summary.in_background)
    ]
    return sorted(shown, key=lambda each: each.is_replicated)


def _group_ranks(
    name: str, summaries: Mapping[int, Mapping[str, VariableSummary]]
) -> Iterator[RankGroup]:
    """Yield the groups of ranks with equal values of a variable, rank 0's first; unread values join it."""
    of_value: dict[Any, list[int]] = {}
    unread = []
    for rank in sorted(summaries):
        summary = summaries[rank].get(name)
        if summary is not None and summary.digest is None and summary.is_unread:
            unread.append(rank)  # which may have the value of any
            continue
        same = None if summary is None else summary.digest or summary.text
        of_value.setdefault(same, []).append(rank)
    first, *others = [*of_value.values()] or [[]]
    yield RankGroup(tuple(sorted([*unread, *first])), summaries[(first or unread)[0]].get(name))
    for ranks in others:
        yield RankGroup(tuple(ranks), summaries[ranks[0]].get(name))


def ranks_to_fetch(differing: Sequence[ComparedVariable]) -> list[int]:
    """Return the first rank of each group; these ranks send their values."""
    return sorted({group.ranks[0] for each in differing for group in each.groups})


def within_limit(differing: Sequence[ComparedVariable]) -> list[ComparedVariable]:
    """Return as many variables, the smallest first, as are together small enough to be fetched."""
    found, total = [], 0
    for each in sorted(differing, key=_size_of_variable):
        total += _size_of_variable(each)
        if total <= MOST_COMPARED:
            found.append(each)
    return found


def _size_of_variable(variable: ComparedVariable) -> int:
    """Return the bytes to fetch for a variable: its sizes in all groups, summed."""
    return sum(group.summary.size for group in variable.groups if group.summary is not None)


def shown_variables(
    compared: Sequence[ComparedVariable], values: Mapping[int, Mapping[str, SerializedValue]]
) -> list[ComparedVariable]:
    """Add to each group a note on where its value first differs from rank 0's; variables that differ come first.

    Digests of equal values may differ, as those of sets do. Such groups are merged.

    Args:
        values: of the variables that differ, by rank and name.
    """
    shown = []
    for variable in compared:
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
        """Return the table as HTML, for IPython."""
        rows = "".join(_row_as_html(*row) for row in _rows_of(self.shown))
        heads = "".join(f'<th style="text-align: left">{name}</th>' for name in HEAD)
        silent = "".join(f"<p>{html.escape(line)}</p>" for line in self.silent)
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{silent}"


def _rows_of(shown: Sequence[ComparedVariable]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row per group of ranks: the variable's name, in the first row only; the ranks, the value, the note."""
    for variable in shown:
        name = variable.name if variable.is_replicated else f"{DIFFERS}{variable.name}"
        for place, group in enumerate(variable.groups):
            ranks = "all ranks" if variable.is_replicated else ranks_text(group.ranks)
            yield "" if place else name, ranks, group.text, group.note


def _row_as_html(name: str, ranks: str, text: str, note: str) -> str:
    """Return a row of the table as HTML; a variable that differs is bold."""
    strong = "; font-weight: bold" if name.startswith(DIFFERS) else ""
    below = f"<br><small>{html.escape(note)}</small>" if note else ""
    return (
        f'<tr><td style="text-align: left{strong}">{html.escape(name)}</td><td style="text-align: left">{ranks}</td>'
        f'<td style="text-align: left">{html.escape(text)}{below}</td></tr>'
    )


def table_of_variables(shown: Sequence[ComparedVariable]) -> list[str]:
    """Return a table, as lines of text, with a row per group of ranks and its note below."""
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
    """Return where the value of a group first differs from rank 0's; "" if unknown, None if it does not."""
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


def first_difference(expected: Any, actual: Any, parts: Sequence[str] = (), path: str = "") -> str:
    """Return where two values first differ, and by how much; "" if no difference can be named.

    Args:
        parts: the names of a list's elements.
        path: the access path of the values.
    """
    import numpy as np

    where = f"{path}: " if path else ""
    expected, actual = map(_as_plain, (expected, actual))
    if type(expected) is not type(actual):
        return f"{where}{type(actual).__name__} instead of {type(expected).__name__}"
    if isinstance(expected, np.ndarray):
        return _difference_of_arrays(expected, actual, path)
    if isinstance(expected, Mapping):
        if missing := [key for key in expected if key not in actual]:
            return f"{where}has no {missing[0]!r}"
        if added := [key for key in actual if key not in expected]:
            return f"{where}has {added[0]!r}, too"
        if list(expected) != list(actual):
            return f"{where}the keys are in another order"
        pairs = [(f"{path}[{key!r}]", expected[key], actual[key]) for key in expected]
    elif isinstance(expected, (list, tuple)):
        if len(expected) != len(actual):
            return f"{where}{len(actual)} elements instead of {len(expected)}"
        names = (
            parts if len(parts) == len(expected) else [f"{path}[{k}]" for k in range(len(expected))]
        )
        pairs = list(zip(names, expected, actual, strict=True))
    elif isinstance(expected, (set, frozenset)):
        for more, has in ((expected - actual, "has no"), (actual - expected, "has")):
            if more:
                return f"{where}{has} {shorten_text(repr(min(more, key=repr)))}"
        return ""
    elif isinstance(expected, str):
        pairs_of_letters = enumerate(zip(expected, actual, strict=False))
        shorter = min(len(expected), len(actual))
        start = next((at for at, (a, b) in pairs_of_letters if a != b), shorter)
        own, its = (text[start : start + MOST_CHARACTERS // 4] for text in (expected, actual))
        return "" if expected == actual else f"{path}[{start}]: {its!r} instead of {own!r}"
    elif isinstance(expected, bytes):
        return "" if expected == actual else f"{where}other bytes"
    else:
        size = (
            f", a difference of {abs(actual - expected):.3g}"
            if isinstance(expected, (int, float, complex))
            else ""
        )
        same = repr(expected) == repr(actual)
        return (
            ""
            if same
            else f"{where}{shorten_text(repr(actual))} instead of {shorten_text(repr(expected))}{size}"
        )
    return next(filter(None, (first_difference(a, b, (), name) for name, a, b in pairs)), "")


def _as_plain(value: Any) -> Any:
    """Convert a table to an array and a NumPy scalar to a Python number; return other values unchanged."""
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()
    return value.to_numpy() if hasattr(value, "to_numpy") else value


def _difference_of_arrays(expected: Any, actual: Any, path: str) -> str:
    """Return where two arrays first differ, the largest difference, and the count; "" if they are equal."""
    import numpy as np

    where = f"{path}: " if path else ""
    if (expected.shape, expected.dtype) != (actual.shape, actual.dtype):
        return f"{where}{actual.dtype} {actual.shape} instead of {expected.dtype} {expected.shape}"
    differ = expected != actual
    is_number = expected.dtype.kind in "biufc"
    if expected.dtype.kind in "fc":
        differ &= ~(np.isnan(expected) & np.isnan(actual))
    if not differ.any():
        same = expected.dtype.kind not in "fc" or expected.tobytes() == actual.tobytes()
        return "" if same else f"{where}equal numbers with other bits, as 0.0 and -0.0 are"
    index = tuple(map(int, np.argwhere(differ)[0]))
    place = path + (f"[{', '.join(map(str, index))}]" if index else "")
    values = f"{actual[index]} instead of {expected[index]}"
    told = [f"{place}: {values}" if place else values]
    if is_number:
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        apart = np.abs(expected.astype(wide) - actual.astype(wide))[differ]
        finite = apart[np.isfinite(apart)]
        if finite.size:
            told.append(f"largest difference {finite.max():.3g}")
    told.append(f"{int(differ.sum())} of {differ.size} entries")
    return ", ".join(told)
