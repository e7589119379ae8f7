"""A view as HTML and as text, for front ends without the panel: nbconvert, VS Code, GitHub, a terminal.

All that comes from the user's notebook is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any

from .. import svg
from .report import Report
from .sections import make_view
from .templates import render_html
from .view import Block, Card, Cell, Colour, Plot, Remark, Section, Table, View, text_of

MIME = "application/vnd.jupyter-hvd.gradcost+json"

#: Okabe and Ito's colours, which colour-blind people tell apart, as in the panel's style sheet.
COLOURS: dict[Colour, str] = {
    "value": "#0072b2",
    "adjoint": "#c14a00",
    "forward": "#00835f",
    "jax": "#7d5bb5",
    "fifth": "#8a6d00",
    "sixth": "#b0125b",
}
_DASHES = {"dashed": "6 3", "faint": "3 4"}


def report_bundle(report: Report) -> dict[str, Any]:
    """Return the report as a MIME bundle: for the panel, as HTML, as text."""
    view = make_view(report, live=False)
    return {MIME: view.json(), "text/html": view_html(view), "text/plain": view_text(view)}


# Text


def view_text(view: View) -> str:
    """Return the unfolded parts of a view as lines of text."""
    return "\n".join([f"{view.title} {text_of(view.about)}", *_block_lines(view.sections)])


def _block_lines(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield the lines of some blocks; legends and folded sections are left out."""
    for block in blocks:
        match block:
            case Section() if not block.folded:
                yield from _block_lines(block.blocks)
            case Remark(text, role) if role != "legend" and text_of(text):
                yield text_of(text)
            case Plot() if block.caption:
                yield block.caption
            case Card():
                yield f"advice: {text_of(block.text)}"
            case Table():
                yield from _table_lines(block)


def _table_lines(table: Table) -> Iterator[str]:
    """Yield the lines of a table with aligned columns."""
    head = [column.title for column in table.columns]
    lines = [head, *([_cell_text(cell) for cell in row.cells] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        yield f"  {'   '.join(padded)}".rstrip()


def _cell_text(cell: Cell) -> str:
    """Return a table cell and its note on one line."""
    note = f" ({text_of(cell.note)})" if cell.note else ""
    return f"{text_of(cell.text)}{note}".replace("\n", " ")


# HTML


def view_html(view: View) -> str:
    """Return a view as static HTML."""
    return render_html("view.html.jinja", view=view, colours=COLOURS, draw=_plot_image)


def _plot_image(plot: Plot) -> dict[str, str]:
    """Return a plot as the alternative text and the base64 data of an `img`.

    Pages that filter HTML, such as GitHub's, would strip an inline SVG to its words; of an `img` they show this text.
    """
    drawn = [
        svg.Series(
            series.label,
            series.points,
            {
                "stroke": COLOURS[series.colour],
                "stroke_dasharray": _DASHES.get(series.look, "none"),
            },
            dots=series.look == "dots",
        )
        for series in plot.series
    ]
    picture = b64encode(svg.plot(drawn, plot.x, plot.y, plot.label, rule=plot.rule).encode())
    ends = (f"{s.label} {s.points[0][1]:.3g} to {s.points[-1][1]:.3g}" for s in drawn)
    return {"alt": "; ".join([plot.label, *ends]), "picture": picture.decode()}
