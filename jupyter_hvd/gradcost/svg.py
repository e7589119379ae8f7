"""A log-log plot of operations against a size, as a small picture for front ends that run no script.

An SVG within an `img`: a page that lets no data in, such as GitHub's, then shows what the picture is of; of an SVG that stands in
the text it would leave the words, one after the other.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 340, 200
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 34

#: Of axes and words: to be read on light and on dark ground, of which a picture does not know.
GREY = "#7a7a7a"

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Series:
    """A line, or dots where only some sizes were looked at."""

    label: str
    colour: str
    points: Points
    dots: bool = False
    dash: str = ""


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis over whole decades."""

    low: int
    high: int
    start: float
    end: float

    def position_of(self, value: float) -> float:
        part = (log10(value) - self.low) / (self.high - self.low)
        return round(self.start + part * (self.end - self.start), 1)


def make_axis(values: Sequence[float], start: float, end: float) -> Axis:
    low = floor(log10(min(values, default=1)) + 1e-9)
    high = max(low + 1, ceil(log10(max(values, default=10)) - 1e-9))
    return Axis(low, high, start, end)


def plot_svg(series: Sequence[Series], size: str, at: int, title: str) -> str:
    """The plot; a rule marks the size that the figures are for."""
    drawn = [s for s in series if s.points]
    xs = [x for s in drawn for x, _ in s.points]
    ys = [y for s in drawn for _, y in s.points if y > 0]
    across = make_axis(xs, LEFT, WIDTH - RIGHT)
    up = make_axis(ys, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
    ]
    for power in range(across.low, across.high + 1):
        x = across.position_of(10**power)
        parts.append(_grid_line(x, x, TOP, HEIGHT - BOTTOM))
        parts.append(_label_text(x, HEIGHT - BOTTOM + 14, _power_label(power), "middle"))
    step = 1 + (up.high - up.low) // 6
    for power in range(up.low, up.high + 1, step):
        y = up.position_of(10**power)
        parts.append(_grid_line(LEFT, WIDTH - RIGHT, y, y))
        parts.append(_label_text(LEFT - 6, y + 4, _power_label(power), "end"))
    here = across.position_of(at)
    parts.append(
        f'<line x1="{here}" x2="{here}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" '
        f'stroke="{GREY}" stroke-dasharray="2 3"/>'
    )
    for s in drawn:
        marks = [(across.position_of(x), up.position_of(y)) for x, y in s.points if y > 0]
        if s.dots:
            parts += [f'<circle cx="{x}" cy="{y}" r="3" fill="{s.colour}"/>' for x, y in marks]
        path = " ".join(f"{x},{y}" for x, y in marks)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{s.colour}" stroke-width="1.8" '
            f'stroke-dasharray="{s.dash or "none"}"/>'
        )
    parts.append(_label_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, size, "middle"))
    parts.append("</svg>")
    picture = b64encode("".join(parts).encode()).decode()
    told = "; ".join(
        [title, *(f"{s.label} {s.points[0][1]:.3g} to {s.points[-1][1]:.3g}" for s in drawn)]
    )
    return f'<img alt="{escape(told, quote=True)}" src="data:image/svg+xml;base64,{picture}">'


def _grid_line(x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}" stroke="{GREY}" stroke-opacity=".3"/>'


def _label_text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{GREY}">{escape(text)}</text>'


def _power_label(power: int) -> str:
    if 0 <= power <= 2:
        return str(10**power)
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
