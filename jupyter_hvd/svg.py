"""Pictures as SVG: lines over linear or logarithmic axes, and the patterns of sparse matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10
from typing import Any

#: Of axes and words: to be read on light and on dark ground, of which a picture does not know.
GREY = "#7a7a7a"
#: Of a matrix: squares on a side at most, pixels of a side, and shades by how full a part is.
CELLS, SIDE, SHADES = 60, 240, 4

#: Digits, the minus and the point as they stand above the line.
SUPERSCRIPT = str.maketrans("-.0123456789", "⁻·⁰¹²³⁴⁵⁶⁷⁸⁹")

Points = Sequence[tuple[float, float]]


def element(tag: str, content: str = "", **attributes: Any) -> str:
    """Return an SVG element around its content; `_` in an attribute's name becomes `-`."""
    written = "".join(
        f' {name.strip("_").replace("_", "-")}="{escape(str(value))}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def image(parts: Iterable[str], width: float, height: float, label: str, **look: Any) -> str:
    """Return an SVG image of a size in pixels, with a text alternative."""
    return element(
        "svg",
        "".join(parts),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        **look,
    )


@dataclass(frozen=True)
class Series:
    """A line, or dots where only some positions were looked at.

    Attributes:
        look: attributes of its line and dots, such as the colours.
    """

    label: str
    points: Points
    look: Mapping[str, str]
    dots: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`; `ticks` are values and what stands beside them."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    label: str = ""
    is_logarithmic: bool = False

    def part_of(self, value: float) -> float:
        """Return the position of a value on the axis: 0 at `low`, 1 at `high`; outside of these, below 0 or above 1."""
        low, high = self.low, self.high
        if self.is_logarithmic:
            low, high, value = log10(low), log10(high), log10(value)
        return (value - low) / (high - low)


def decades(values: Iterable[float], label: str = "", most: int = 20) -> Axis:
    """Return a logarithmic axis over the powers of ten around some values, with at most `most` ticks."""
    found = [value for value in values if value > 0] or [1.0, 10.0]
    low = floor(log10(min(found)) + 1e-9)
    high = max(low + 1, ceil(log10(max(found)) - 1e-9))
    powers = range(low, high + 1, 1 + (high - low) // most)
    ticks = [(10.0**power, _power_label(power)) for power in powers]
    return Axis(10.0**low, 10.0**high, ticks, label, is_logarithmic=True)


@dataclass(frozen=True)
class Frame:
    """The size of a plot, and the margins of its axes: left, right, top, bottom."""

    width: int = 340
    height: int = 200
    margins: tuple[int, int, int, int] = field(default=(46, 12, 12, 34))


def plot(
    series: Sequence[Series],
    x: Axis,
    y: Axis,
    label: str,
    rule: float | None = None,
    frame: Frame = Frame(),
    has_legend: bool = False,
) -> str:
    """Return an SVG image of lines over two axes.

    Args:
        rule: the position of a vertical line.
        has_legend: name the series above the lines.
    """
    left, right, top, bottom = frame.margins
    right, bottom = frame.width - right, frame.height - bottom

    def across(value: float) -> float:
        return round(left + x.part_of(value) * (right - left), 1)

    def up(value: float) -> float:
        return round(bottom + y.part_of(value) * (top - bottom), 1)

    parts = []
    for value, text in x.ticks:
        at = across(value)
        parts += [_line(at, top, at, bottom), _text(at, bottom + 17, text, "middle")]
    for value, text in y.ticks:
        at = up(value)
        parts += [_line(left, at, right, at), _text(left - 6, at + 4, text, "end")]
    if rule is not None:
        at = across(rule)
        parts.append(_line(at, top, at, bottom, stroke_opacity=1, stroke_dasharray="2 3"))
    for n, each in enumerate(series):
        marks = [(across(a), up(b)) for a, b in each.points]
        path = " ".join(f"{a},{b}" for a, b in marks)
        if each.dots:
            dots = {"fill": each.look.get("stroke", GREY)}
            parts += [element("circle", cx=a, cy=b, r=3, **dots) for a, b in marks]
        parts.append(element("polyline", points=path, fill="none", stroke_width=1.8, **each.look))
        if has_legend:
            start = left + n * (right - left) / len(series)
            parts.append(_line(start, 18, start + 28, 18, **{"stroke_width": 2, **each.look}))
            parts.append(_text(start + 34, 22, each.label, "start"))
    parts.append(_text((left + right) / 2, frame.height - 4, x.label, "middle"))
    font = {"font_family": "sans-serif", "font_size": 11}
    return image(parts, frame.width, frame.height, label, **font)


def _line(x1: float, y1: float, x2: float, y2: float, **look: Any) -> str:
    """Return an SVG line; grey, unless it has a class."""
    plain = {} if "class" in look else {"stroke": GREY, "stroke_opacity": 0.3}
    return element("line", x1=x1, x2=x2, y1=y1, y2=y2, **{**plain, **look})


def _text(x: float, y: float, text: str, anchor: str) -> str:
    """Return an SVG text; "" for an empty one."""
    return element("text", escape(text), x=x, y=y, text_anchor=anchor, fill=GREY) if text else ""


def _power_label(power: int) -> str:
    """Return the label of a power of ten at an axis: `10`, `10⁵`."""
    if 0 <= power <= 2:
        return str(10**power)
    return "10" + str(power).translate(SUPERSCRIPT)


def draw_pattern(rows: Any, columns: Any, shape: tuple[int, int], words: str) -> str:
    """Return an SVG image with squares at the entries of a matrix, and `words` below.

    A matrix of more than `CELLS` rows or columns is drawn by blocks, darker the more entries a block has.
    """
    import numpy as np

    height, width = (max(1, n) for n in shape)
    per_cell = -(-max(height, width) // CELLS)
    cells = -(-height // per_cell), -(-width // per_cell)
    counts = np.zeros(cells, np.int64)
    np.add.at(counts, (np.asarray(rows) // per_cell, np.asarray(columns) // per_cell), 1)
    full = np.outer(*(np.diff(np.append(np.arange(0, n, per_cell), n)) for n in (height, width)))
    shades = np.ceil(SHADES * counts / full).astype(int)
    size = max(2, SIDE // max(cells))
    paths = [
        element(
            "path", opacity=(shade + 1) / (SHADES + 1), d=_draw_filled_cells(shades == shade, size)
        )
        for shade in range(1, SHADES + 1)
        if np.any(shades == shade)
    ]
    across, down = size * cells[1] + 2, size * cells[0] + 2
    frame = element(
        "rect", x=0.5, y=0.5, width=across - 1, height=down - 1, fill="none", stroke="currentColor", opacity=0.4
    )  # fmt: skip
    drawing = element("g", "".join(paths), fill="currentColor", transform="translate(1 1)")
    return image([frame, drawing], across, down, f"entries {words}") + f"<div>{escape(words)}</div>"


def _draw_filled_cells(cells: Any, size: int) -> str:
    """Return the SVG path of the true cells of a boolean matrix; neighbours in a row are one rectangle.

    Args:
        size: of a cell, in pixels.
    """
    import numpy as np

    parts = []
    for row, line in enumerate(cells):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], line.astype(int), [0]])))
        for start, end in edges.reshape(-1, 2):
            parts.append(
                f"M{start * size} {row * size}h{(end - start) * size}v{size}h-{(end - start) * size}z"
            )
    return "".join(parts)
