"""The ranks' variables side by side: which differ, where first, and by how much. Pure: what ranks answer in, lines out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..launchers.diagnosis import columns, ranks_text
from ..rank.serialization import SerializedValue
from ..rank.variables import MOST_CHARACTERS, VariableSummary, shortened

#: Bytes up to which a value is fetched to see where it differs.
MOST_COMPARED = 64 * 2**20
HEAD = ("variable", "on", "value")


@dataclass(frozen=True)
class RankGroup:
    """Ranks that have the same value of a variable; None where they do not have the variable."""

    ranks: tuple[int, ...]
    summary: VariableSummary | None


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
            each.digest is not None and each.size <= MOST_COMPARED for each in there
        )


def compare_summaries(
    told: Mapping[int, Mapping[str, VariableSummary]],
) -> list[ComparedVariable]:
    """Group the ranks by their values of each variable; variables that differ come first."""
    names = dict.fromkeys(name for rank in sorted(told) for name in told[rank])
    found = [ComparedVariable(name, tuple(_groups(name, told))) for name in names]
    return sorted(found, key=lambda each: each.is_replicated)


def _groups(name: str, told: Mapping[int, Mapping[str, VariableSummary]]) -> Iterator[RankGroup]:
    of_value: dict[Any, list[int]] = {}
    for rank in sorted(told):
        summary = told[rank].get(name)
        same = None if summary is None else summary.digest or summary.text
        of_value.setdefault(same, []).append(rank)
    for ranks in of_value.values():
        yield RankGroup(tuple(ranks), told[ranks[0]].get(name))


def table_of_variables(
    found: Sequence[ComparedVariable], values: Mapping[int, Mapping[str, SerializedValue]]
) -> list[str]:
    """A line for each group of ranks; below one that differs, where it first does and by how much.

    Args:
        values: of variables that differ, by rank.
    """
    rows = []
    notes: dict[int, str] = {}
    for variable in found:
        first = variable.groups[0]
        for group in variable.groups:
            on = "all ranks" if variable.is_replicated else ranks_text(group.ranks)
            mark = "" if variable.is_replicated else "≠ "
            name = f"{mark}{variable.name}" if group is first else ""
            text = "not there" if group.summary is None else group.summary.text
            if group.summary is not None and group.summary.digest is None:
                text += " (not compared)"
            rows.append((name, on, text))
            if group is not first and group.summary and first.summary:
                difference = _difference(variable, group, values)
                if difference:
                    notes[len(rows)] = difference
    lines = columns([HEAD, *rows])
    margin = " " * max(0, lines[0].rindex(HEAD[2]))
    return [
        text
        for number, line in enumerate(lines)
        for text in ([line, f"{margin}{notes[number]}"] if number in notes else [line])
    ]


def _difference(
    variable: ComparedVariable,
    group: RankGroup,
    values: Mapping[int, Mapping[str, SerializedValue]],
) -> str:
    first = variable.groups[0]
    assert first.summary is not None
    zero, other = (values.get(each.ranks[0], {}).get(variable.name) for each in (first, group))
    if zero is None or other is None:
        large = first.summary.digest is not None and not variable.is_fetched
        return f"larger than {MOST_COMPARED // 2**20} MB: not compared by entry" if large else ""
    found = first_difference(zero.data, other.data, first.summary.parts)
    return f"differs from {ranks_text(first.ranks[:1])}: {found}" if found else ""


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
        pairs = [(f"{path}[{key!r}]", zero[key], other[key]) for key in zero]
    elif isinstance(zero, (list, tuple)):
        if len(zero) != len(other):
            return f"{where}{len(other)} elements instead of {len(zero)}"
        names = parts if len(parts) == len(zero) else [f"{path}[{k}]" for k in range(len(zero))]
        pairs = list(zip(names, zero, other, strict=True))
    elif isinstance(zero, str):
        pairs_of_letters = enumerate(zip(zero, other, strict=False))
        shorter = min(len(zero), len(other))
        start = next((at for at, (a, b) in pairs_of_letters if a != b), shorter)
        own, its = (text[start : start + MOST_CHARACTERS // 4] for text in (zero, other))
        return "" if zero == other else f"{path}[{start}]: {its!r} instead of {own!r}"
    elif isinstance(zero, bytes):
        return f"{where}other bytes"
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
            else f"{where}{shortened(repr(other))} instead of {shortened(repr(zero))}{size}"
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
        return ""
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
