"""Pictures as SVG are well-formed, whatever names stand in them, and show what they are given."""

from xml.etree import ElementTree

import numpy as np
import pytest

from jupyter_hvd.svg import Axis, Series, decades, draw_pattern, element, plot

NAME = "{http://www.w3.org/2000/svg}"


def test_text_and_attributes_are_escaped():
    assert (
        element("line", x1=1, stroke_width='"2"') == '<line x1="1" stroke-width="&quot;2&quot;"/>'
    )
    label = 'losses of a<b & "c"'
    shown = ElementTree.fromstring(
        plot([Series(label, [(1, 2)], {})], decades([1]), decades([2]), label, has_legend=True)
    )
    assert shown.get("aria-label") == label
    assert label in [text.text for text in shown.iter(f"{NAME}text")]


def test_a_logarithmic_axis_has_whole_decades():
    axis = decades([3, 0, 4000], "n")
    assert (axis.low, axis.high) == (1, 10_000)
    assert [text for _, text in axis.ticks] == ["1", "10", "100", "10³", "10⁴"]
    assert axis.part_of(100) == pytest.approx(0.5)
    assert len(decades([1, 1e12], most=6).ticks) <= 7
    assert decades([]).part_of(10) == 1
    assert [text for _, text in decades([0.002, 0.5]).ticks] == ["10⁻³", "10⁻²", "10⁻¹", "1"]


def test_lines_and_dots_stand_at_their_points():
    axis = Axis(0, 10, [(0, "0"), (10, "10")])
    series = [
        Series("line", [(0, 0), (10, 10)], {"stroke": "#0072b2"}),
        Series("dots", [(5, 5)], {"class": "other"}, dots=True),
    ]
    shown = ElementTree.fromstring(plot(series, axis, axis, "two", rule=5))
    first, second = shown.iter(f"{NAME}polyline")
    assert first.get("points") == "46.0,166.0 328.0,12.0"
    assert second.get("class") == "other"
    (dot,) = shown.iter(f"{NAME}circle")
    assert (dot.get("cx"), dot.get("cy")) == ("187.0", "89.0")
    assert [
        line.get("x1") for line in shown.iter(f"{NAME}line") if line.get("stroke-dasharray")
    ] == ["187.0"]


def test_a_large_matrix_is_drawn_by_parts():
    small = draw_pattern([0, 1, 1], [0, 0, 1], (2, 2), "2 × 2 <of 4>")
    assert "&lt;of 4&gt;" in small
    assert small.count("M") == 2, "a square, and two beside one another"
    rows = np.arange(600)
    picture = ElementTree.fromstring(draw_pattern(rows, rows, (600, 600), "").partition("<div>")[0])
    assert [float(path.get("opacity")) for path in picture.iter(f"{NAME}path")] == [2 / 5], (
        "a tenth of a part's positions"
    )
