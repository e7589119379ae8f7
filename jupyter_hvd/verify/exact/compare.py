"""Finds the differences between two records. The functions are pure, and do not depend on how the programs were distributed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .file_contents import Content, read_contents
from .records import Event, Record, Site, Variable
from .text_comparison import compare_texts, select_compared_lines

#: Numbers are equal when they differ by no more than this part of the largest number of their kind until then.
TOLERANCE = 1e-4
#: The largest number is taken to be at least this for curves and losses; for variables, at least 1. Adam moves a variable
#: whose true gradient is 0, such as a bias before a normalisation, by what rounding leaves of that gradient.
LEAST = 1e-3
#: Aspects that say how a training went, in the order in which a difference shows.
ENDING, STEPS, LOSSES, RATES, UPDATES, HISTORY, PRINTED, FILES, WEIGHTS = (
    "ending", "steps", "losses", "learning rates", "gradients, updates", "history", "printed output", "files",
    "final weights",
)  # fmt: skip
ASPECTS = (ENDING, STEPS, LOSSES, RATES, UPDATES, HISTORY, PRINTED, FILES, WEIGHTS)
#: Aspects that are compared step by step.
BY_STEP = (LOSSES, RATES, UPDATES)
#: Aspects of which single entries may vary from run to run, such as a time that is printed.
BY_ENTRY = (PRINTED, FILES)


@dataclass(frozen=True)
class Difference:
    """One difference between two records.

    Attributes:
        key: identifies what differs, equally in any two records.
        detail: its value in both. step: the first step with the difference, 0 where unknown. line: of the program.
        ends: whether nothing after it could be compared.
        kind: equal for numbers that a text repeats, such as one for each epoch; "" for none.
        size: by how much such a number differs.
    """

    key: str
    detail: str
    step: int = 0
    line: str = ""
    ends: bool = False
    kind: str = ""
    size: float = 0.0

    def __str__(self) -> str:
        at = [f"at step {self.step}"] * bool(self.step) + [self.line] * bool(self.line)
        return f"{', '.join(at)}: {self.detail}" if at else self.detail


@dataclass(frozen=True)
class Comparison:
    """The comparison of one aspect of two records.

    Attributes:
        observed: what was compared, "" for nothing. count: how many values were compared.
        differences: in the order in which they appear.
    """

    aspect: str
    observed: str
    count: int = 0
    differences: tuple[Difference, ...] = ()


def compare_records(
    reference: Record, tested: Record, tolerance: float = TOLERANCE
) -> tuple[Comparison, ...]:
    """Compare two records of one program, aspect by aspect."""
    return (
        compare_endings(reference, tested),
        *compare_steps(reference, tested, tolerance),
        compare_histories(reference, tested, tolerance),
        compare_printed(reference, tested, tolerance),
        compare_files(reference, tested, tolerance),
        compare_weights(reference, tested, tolerance),
    )


def first_difference(comparisons: Iterable[Comparison]) -> Difference | None:
    """Return the difference at the earliest step; of several, that of the first aspect."""
    found = [d for comparison in comparisons for d in comparison.differences]
    return min(found, key=lambda d: d.step or float("inf"), default=None)


def describe_ending(record: Record) -> str:
    """Return how a program ended: with an error, an exit code, or normally."""
    if record.error:
        return f"ends with {record.error[:200]}"
    return f"ends with exit code {record.code}" if record.code else "ends without an error"


def compare_endings(reference: Record, tested: Record) -> Comparison:
    """Check that both programs complete, or fail with the same error."""
    _, differing = compare_texts(
        select_compared_lines([describe_ending(reference)]),
        select_compared_lines([describe_ending(tested)]),
        TOLERANCE,
    )
    found = (
        Difference(
            "ending", f"it {describe_ending(tested)}; one process {describe_ending(reference)}"
        ),
    )
    observed = (
        "both end without an error" if describe_ending(reference) == "ends without an error" else ""
    )
    observed = observed or f"both: {describe_ending(reference).removeprefix('ends with ')}"
    return Comparison(ENDING, observed, 1, found if differing else ())


# Step by step


class RunningMaximum:
    """Stores the largest absolute value so far for each key; `least` is the smallest maximum."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._largest: dict[Any, float] = {}

    def of(self, key: Any, *values: float) -> float:
        """Update the key's maximum with the values, and return it."""
        finite = [abs(v) for v in values if np.isfinite(v)]
        known = max([self._largest.get(key, self._least), *finite])
        self._largest[key] = known
        return known


def is_close(a: float, b: float, allowed: float) -> bool:
    """Whether two numbers differ by at most `allowed`; two NaN are equal."""
    return a == b or abs(a - b) <= allowed or (np.isnan(a) and np.isnan(b))


@dataclass(frozen=True)
class Maxima:
    """The largest loss, rate and gradient of each statement so far, and the largest value of each variable."""

    losses: RunningMaximum = field(default_factory=lambda: RunningMaximum(LEAST))
    rates: RunningMaximum = field(default_factory=lambda: RunningMaximum(0.0))
    gradients: RunningMaximum = field(default_factory=lambda: RunningMaximum(0.0))
    values: RunningMaximum = field(default_factory=lambda: RunningMaximum(1.0))


def compare_steps(reference: Record, tested: Record, tolerance: float) -> tuple[Comparison, ...]:
    """Compare losses, learning rates, and each variable's gradient and value, step by step."""
    found: dict[str, dict[str, Difference]] = {a: {} for a in (STEPS, *BY_STEP)}
    by = "update" if any(site.kind == "update" for site in reference.sites) else "gradient"
    counts: Counter[str] = Counter()
    scales, others = Maxima(), events_by_site(tested)
    measured = 0
    for ours in reference.events:
        site = reference.sites[ours.site]
        step = counts[by] + 1
        theirs = next(others[site_key(site)], None)
        if theirs is None:
            detail = f"the {site.kind} does not run any more; it does in one process"
            found[STEPS].setdefault(site_key(site), Difference(site_key(site), detail, step, site.line))  # fmt: skip
            continue
        counts[site.kind] += 1
        measured += len(pair_measures(ours, theirs))
        for aspect, key, detail in compare_events(site, ours, theirs, scales, tolerance):
            found[aspect].setdefault(key, Difference(key, detail, step, site.line))
    for key, rest in others.items():
        if (more := next(rest, None)) is not None:
            site = tested.sites[more.site]
            detail = f"the {site.kind} runs more often than in one process"
            found[STEPS][key] = Difference(key, detail, reference.steps, site.line)
    tensors = number_of(measured, "tensor", "tensors")
    if tensors and any(
        reference.sites[e.site].names and not len(e.measures) for e in reference.events[-1:]
    ):
        tensors += "; later ones are not observed, for lack of memory"
    return (
        compare_counts(reference, tested, found[STEPS].values()),
        *(
            Comparison(aspect, observed, count, tuple(found[aspect].values()))
            for aspect, observed, count in (
                (LOSSES, number_of(counts["gradient"], "loss", "losses"), counts["gradient"]),
                (RATES, number_of(counts["update"], "rate", "rates"), counts["update"]),
                (UPDATES, tensors, measured),
            )
        ),
    )


def compare_events(
    site: Site, reference: Event, tested: Event, scales: Maxima, tolerance: float
) -> Iterator[tuple[str, str, str]]:
    """Yield aspect, key and detail of each difference between two events of the same site and number."""
    a, b = reference.value, tested.value
    if site.kind == "gradient":
        if not is_close(a, b, tolerance * scales.losses.of(site, a)):
            yield LOSSES, site.line, f"the loss is {b:.6g}; {a:.6g} in one process"
    elif not is_close(a, b, tolerance * scales.rates.of(site, a)):
        yield RATES, site.line, f"the learning rate is {b:.6g}; {a:.6g} in one process"
    largest = (
        scales.gradients.of(site, *reference.measures[1::2]) if site.kind == "gradient" else 0.0
    )
    for place, (mine, yours) in enumerate(pair_measures(reference, tested)):
        scale = largest or scales.values.of((site, place), mine[1])
        if all(is_close(x, y, tolerance * scale) for x, y in zip(mine, yours, strict=True)):
            continue
        name = site.names[place] if place < len(site.names) else "a variable"
        what = "the gradient for" if site.kind == "gradient" else "after the update,"
        apart = max(abs(x - y) for x, y in zip(mine, yours, strict=True)) / scale
        detail = f"{what} `{name}` differs by {apart:.2g} of its size"
        yield UPDATES, f"{site.kind} {site.line} {place}", detail


def compare_counts(
    reference: Record, tested: Record, differing: Iterable[Difference]
) -> Comparison:
    """Compare the numbers of steps and epochs.

    Args:
        differing: the statements that run more or less often.
    """
    found = list(differing)
    epochs = [sum(fit.epochs for fit in record.fits) for record in (reference, tested)]
    if reference.steps != tested.steps:
        detail = f"it makes {tested.steps} steps; one process {reference.steps}"
        found.insert(0, Difference("count", detail, min(reference.steps, tested.steps) + 1))
    if epochs[0] != epochs[1]:
        detail = f"`fit` makes {epochs[1]} epochs; {epochs[0]} in one process"
        line = reference.fits[-1].line if reference.fits else ""
        found.append(Difference("epochs", detail, line=line))
    observed = f"{reference.steps} steps" + (
        f", {number_of(epochs[0], 'epoch', 'epochs')} of fit" if epochs[0] else ""
    )
    count = reference.steps + epochs[0]
    return Comparison(STEPS, observed if reference.steps else "", count, tuple(found))


def number_of(count: int, singular: str, plural: str) -> str:
    """Return a count with its noun; "" for 0."""
    return f"{count} {singular if count == 1 else plural}" if count else ""


def site_key(site: Site) -> str:
    """Return the key of a site. A statement that is compiled again has the same key."""
    return f"{site.kind} {site.line} {len(site.names)}"


def events_by_site(record: Record) -> dict[str, Iterator[Event]]:
    """Return the events of each site in order; the order of several sites in one compiled step is not defined."""
    found: dict[str, list[Event]] = {}
    for event in record.events:
        found.setdefault(site_key(record.sites[event.site]), []).append(event)
    return defaultdict(lambda: iter(()), {place: iter(events) for place, events in found.items()})


def pair_measures(reference: Event, tested: Event) -> list[tuple[list[float], list[float]]]:
    """Return the projection and norm of each variable in both events; empty where one of the events stored none."""
    if len(reference.measures) != len(tested.measures):
        return []
    both = (event.measures.reshape(-1, 2).tolist() for event in (reference, tested))
    return list(zip(*both, strict=True))


# After the steps


def compare_histories(reference: Record, tested: Record, tolerance: float) -> Comparison:
    """Compare every curve of every Keras `History`."""
    found = []
    count = 0
    for number, fit in enumerate(reference.fits):
        other = tested.fits[number] if number < len(tested.fits) else None
        for name, curve in fit.curves.items():
            count += len(curve)
            theirs = other.curves.get(name) if other is not None else None
            key = f"{number} {name}"
            if theirs is None or len(theirs) != len(curve):
                have = "none" if theirs is None else f"{len(theirs)} epochs"
                detail = f"`{name}` has {have}; {len(curve)} epochs in one process"
                found.append(Difference(key, detail, line=fit.line))
                continue
            scale = max([LEAST, *(abs(v) for v in curve if np.isfinite(v))])
            for epoch, (a, b) in enumerate(zip(curve, theirs, strict=True)):
                if not is_close(a, b, tolerance * scale):
                    detail = f"`{name}` of epoch {epoch + 1} is {b:.6g}; {a:.6g} in one process"
                    found.append(Difference(key, detail, line=fit.line))
                    break
    return Comparison(HISTORY, number_of(count, "value", "values"), count, tuple(found))


def compare_printed(reference: Record, tested: Record, tolerance: float) -> Comparison:
    """Compare the printed lines: numbers within the tolerance."""
    ours, theirs = (
        select_compared_lines(
            line.replace(r.folder, "") if r.folder else line for line in r.printed
        )
        for r in (reference, tested)
    )
    count, differing = compare_texts(ours, theirs, tolerance)
    lines = {
        text: line
        for text, line in reversed(reference.prints)
        for text in select_compared_lines([text])
    }
    found = tuple(
        Difference(d.key, d.detail, 0, lines.get(d.ours, ""), d.ends, d.kind, d.size)
        for d in differing
    )
    observed = number_of(count, "line", "lines")
    return Comparison(PRINTED, observed or ("1 line" if found else ""), count, found)


def compare_files(reference: Record, tested: Record, tolerance: float) -> Comparison:
    """Compare the written files: arrays and numbers within the tolerance, other contents by size."""
    ours, theirs = (
        read_contents(Path(r.folder), r.files) if r.folder else {} for r in (reference, tested)
    )
    found = []
    for name in sorted({*ours, *theirs}):
        if name not in theirs or name not in ours:
            what = "is missing" if name in ours else "is written, and not in one process"
            found.append(Difference(name, f"{name} {what}"))
        else:
            found += compare_content(name, ours[name], theirs[name], tolerance)
    observed = number_of(len(ours), "file", "files") or ("1 file" if found else "")
    return Comparison(FILES, observed, len(ours), tuple(found))


def compare_content(
    name: str, reference: Content, tested: Content, tolerance: float
) -> list[Difference]:
    """Compare the contents of one file in both records."""
    if (reference.lines is None) != (tested.lines is None) or reference.size != tested.size:
        sizes = f"{tested.size} bytes; {reference.size} in one process"
        return [
            Difference(
                name, f"{name} has {sizes if reference.size != tested.size else 'another form'}"
            )
        ]
    _, differing = compare_texts(reference.lines or (), tested.lines or (), tolerance)
    found = [
        Difference(
            f"{name} {d.key}",
            f"{name}: {d.detail}",
            ends=d.ends,
            kind=f"{name} {d.kind}" * bool(d.kind),
            size=d.size,
        )
        for d in differing
    ]
    for key in sorted({*reference.arrays, *tested.arrays}):
        a, b = reference.arrays.get(key), tested.arrays.get(key)
        apart = (
            "it is missing"
            if a is None or b is None
            else describe_array_difference(a, b, tolerance)
        )
        if apart:
            found.append(Difference(f"{name} {key}", f"{name}{f', `{key}`' * bool(key)}: {apart}"))
    return found


def describe_array_difference(
    reference: NDArray[Any], tested: NDArray[Any], tolerance: float
) -> str:
    """Say how two arrays differ, "" where they are equal. Integers must be equal exactly."""
    if reference.shape != tested.shape:
        return f"its shape is {tested.shape}; {reference.shape} in one process"
    if reference.dtype.kind not in "fc" or tested.dtype.kind not in "fc":
        differing = int(np.sum(reference != tested))
        return f"{differing} of {reference.size} entries differ" if differing else ""
    wide = np.complex128 if "c" in (reference.dtype.kind, tested.dtype.kind) else np.float64
    a, b = reference.astype(wide), tested.astype(wide)
    largest = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a)))
    allowed = tolerance * max(1.0, largest)
    if np.allclose(a, b, rtol=0, atol=allowed, equal_nan=True):
        return ""
    return f"differs by {float(np.nanmax(np.abs(a - b))):.2g} (tolerance {allowed:.2g})"


def compare_weights(reference: Record, tested: Record, tolerance: float) -> Comparison:
    """Compare all variables at the end, including those of models and optimizers, in the order of their creation."""
    ours, theirs = number_variables(reference.variables), number_variables(tested.variables)
    found = []
    count = 0
    for key, variable in ours.items():
        other = theirs.get(key)
        if other is None:
            if variable.trainable:
                found.append(Difference(f"{key}", f"`{variable.name}` is missing"))
            continue
        count += 1
        if apart := describe_array_difference(variable.value, other.value, tolerance):
            found.append(Difference(f"{key}", f"`{variable.name}` {apart}"))
    observed = number_of(count, "variable", "variables")
    if reference.unheld and observed:
        observed += f"; {reference.unheld} more are not observed, for lack of memory"
    return Comparison(WEIGHTS, observed, count, tuple(found))


def number_variables(
    variables: Sequence[Variable],
) -> dict[tuple[str, tuple[int, ...], int], Variable]:
    """Key each variable by its name, its shape, and the number of earlier ones with the same name and shape."""
    before: Counter[tuple[str, tuple[int, ...]]] = Counter()
    found = {}
    for variable in variables:
        key = (variable.name, variable.value.shape)
        found[(*key, before[key])] = variable
        before[key] += 1
    return found
