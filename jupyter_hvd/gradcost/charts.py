"""The plots of a view: operations, stored values and measured times over each size, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..svg import decades
from ..tensor.language.units import in_seconds
from .report import Compared, Curve, Report, Times
from .view import Action, Block, Colour, Mark, Plot, Remark, Section, Series, Span
from .wording import format_number, name_of_plain, translatable

#: As many ticks as an axis has room for.
TICKS = 8, 6
#: The curves of a plot of operations.
NAMES: tuple[tuple[Colour, str], ...] = (
    ("value", translatable("value")),
    ("forward", "forward derivative"),
    ("adjoint", translatable("gradient")),
)

Points = tuple[tuple[float, float], ...]
Format = Callable[[float], str]


def make_plot(
    size: str,
    label: str,
    series: Sequence[Series],
    rule: float | None,
    text: Format | None = None,
    caption: str = "",
) -> Plot:
    """Return a plot of curves over a size, on logarithmic axes.

    Args:
        rule: the value of the size at which a vertical line stands.
        text: formats the values at the other axis; powers of ten by default.
    """
    x, y = (
        decades([point[k] for each in series for point in each.points], name, most)
        for k, (name, most) in enumerate(zip((size, ""), TICKS, strict=True))
    )
    if text is not None:
        y = replace(y, ticks=[(value, text(value)) for value, _ in y.ticks])
    label = f"{label}, both axes logarithmic"
    return Plot(label, x, y, tuple(each for each in series if each.points), rule, caption=caption)


def known_points(sizes: Sequence[int], values: Sequence[float | None]) -> Points:
    """Return the points that exist on a logarithmic axis: without None and zero."""
    return tuple((n, y) for n, y in zip(sizes, values, strict=True) if y)


def marks_of(points: Points, name: str, size: str, text: Format) -> tuple[Mark, ...]:
    """Return a labelled mark for each point."""
    return tuple(Mark(p, f"{name}, {size} = {p[0]}: {text(p[1])}") for p in points)


def curve_section(report: Report, curve: Curve) -> Section:
    """Return the section of one size: operations, stored values, measured times, a button to measure them."""
    size = curve.size
    blocks: list[Block] = [_operations_plot(report, curve)]
    history, times = report.histories.get(size), report.times.get(size)
    if history and any(history.counts["whole"]):
        blocks.append(_history_plot(history))
    if times:
        blocks.append(_times_plot(curve, times))
    text = f"Measure over {size} again" if times else f"Measure over {size}"
    title = f"Run value and gradient at powers of two of {size}"
    blocks.append(Action(text, {"do": "sweep", "size": size}, title, measures=True))
    return Section("size", tuple(blocks))


def legend_of(report: Report) -> Remark:
    """Return the legend of the curves."""
    spans = [
        Span(name, "dashed" if k == 1 else "line", colour=colour)
        for k, (colour, name) in enumerate(NAMES)
    ]
    if report.plain and any(report.plain.estimates.values()):
        of = name_of_plain(report.plain.against)
        spans.append(Span(f"jax.grad {of}, XLA’s estimate of flops", "line", colour="jax"))
    return Remark(tuple(spans), "legend")


def _operations_plot(report: Report, curve: Curve) -> Plot:
    """Return the plot of counted operations, with XLA's estimates of plain JAX as dots."""
    size, at = curve.size, curve.at
    plain = report.estimates_over(size).items()
    dots = tuple((n, estimate.flops) for n, estimate in plain if estimate.flops > 0)
    marks = tuple(
        Mark(dot, f"jax.grad, {size} = {dot[0]}: {format_number(dot[1])} flops (XLA)")
        for dot in dots
    )
    plain_series = Series("jax.grad", "jax", dots, marks, look="dots")
    counted = [_counted(curve, colour, name, colour) for colour, name in NAMES]
    counted[1] = replace(counted[1], look="dashed")
    return make_plot(size, f"Operations over {size}", [plain_series, *counted], at)


def _counted(curve: Curve, kind: str, name: str, colour: Colour, letter: str = "") -> Series:
    """Return a curve of counts with a mark at the size on display."""
    points = known_points(curve.sizes, curve.counts[kind])
    here = tuple(point for point in points if point[0] == curve.at)
    marks = marks_of(here, name, curve.size, format_number)
    return Series(name, colour, points, marks, letter)


#: What loops keep between their turns, with each kind of `checkpoint`.
STORED: tuple[tuple[str, Colour, str, str], ...] = (
    ("a", "value", "whole", "as it is"),
    ("b", "adjoint", "carried", "with checkpoint=True"),
    ("c", "forward", "blocks", 'with checkpoint="blocks"'),
)


def _history_plot(history: Curve) -> Plot:
    """Return the plot of the values that loops store between iterations."""
    series, told = [], []
    for letter, colour, kind, name in STORED:
        series.append(_counted(history, kind, name, colour, letter))
        told.append(f"{letter} {format_number(history.count(kind, history.at))} {name}")
    caption = f"Values stored between iterations for the reverse pass: {', '.join(told)}"
    label = f"Values stored between iterations over {history.size}"
    return make_plot(history.size, label, series, history.at, caption=caption)


def _times_plot(curve: Curve, times: Times) -> Plot:
    """Return the plot of measured times, with the operations, faint, in the same scale."""
    size = curve.size
    counted, measured, grown = [], [], []
    for colour, name in (NAMES[0], NAMES[2]):
        points = tuple(zip(times.sizes, times.seconds[colour], strict=True))
        growth = times.growth[colour]
        operations = in_proportion(known_points(curve.sizes, curve.counts[colour]), points)
        counted.append(Series(f"operations of the {name}", colour, operations, look="faint"))
        measured.append(Series(name, colour, points, marks_of(points, name, size, in_seconds)))
        grown.append(
            f"{name} ∝ {size}^{growth.exponent} from {growth.since} on"
            if growth
            else f"{name}: no power law in {size}"
        )
    caption = f"Shortest times on {times.device} in {times.dtype}: {', '.join(grown)}; dashed, the operations in proportion."
    label = f"Measured times over {size}"
    return make_plot(size, label, [*counted, *measured], None, in_seconds, caption=caption)


def in_proportion(operations: Points, measured: Points) -> Points:
    """Scale operations so that their curve meets the last measured time; only sizes that were measured."""
    last, seconds = measured[-1]
    most, least = dict(operations).get(last), min(t for _, t in measured)
    if not most:
        return ()
    at = dict(measured)
    scaled = ((n, count / most * seconds) for n, count in operations if n in at)
    return tuple((n, t) for n, t in scaled if t >= least / 2)


def comparison_plots(report: Report) -> Iterator[Plot]:
    """Yield, for each size, a plot of all functions' operations, and one of their times if measured."""
    for size, curve in report.curves.items():
        over = [(side, side.curves[size]) for side in report.sides if size in side.curves]
        if len(over) < 2:
            continue
        names = ", ".join(side.function for side, _ in over)
        drawn = [each for side, x in over for each in _side_series(side, x.sizes, x.counts)]
        made = make_plot(size, f"Operations of {names} over {size}", drawn, curve.at)
        yield replace(made, heading="Operations: gradients, dashed values")
        timed = [(side, side.times[size]) for side in report.sides if size in side.times]
        drawn = [
            each for side, x in timed for each in _side_series(side, x.sizes, x.seconds, in_seconds)
        ]
        if drawn:
            label = f"Measured times of {names} over {size}"
            made = make_plot(size, label, drawn, curve.at, in_seconds)
            yield replace(made, heading="Measured times: gradients, dashed values")


def _side_series(
    side: Compared,
    sizes: Sequence[int],
    values: Mapping[str, Sequence[float | None]],
    text: Format = format_number,
) -> tuple[Series, Series]:
    """Return the curves of a function: value and gradient."""
    points = known_points(sizes, values["adjoint"])
    marks = tuple(Mark(p, f"{side.letter}, {side.function}: {p[0]}, {text(p[1])}") for p in points)
    value = known_points(sizes, values["value"])
    return (
        Series(f"value of {side.function}", side.colour, value, look="faint"),
        Series(side.function, side.colour, points, marks, side.letter),
    )
