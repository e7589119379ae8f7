"""A report as text and as HTML with a static plot, for whoever does not have the panel: nbconvert, VS
Code, GitHub, a terminal.

All that comes from the user's notebook is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from ..svg import Series, decades, plot
from ..tensor.language.units import in_seconds
from ..tensor.measure import Growth
from .report import (
    Advice,
    Compared,
    Curve,
    Figure,
    History,
    Measured,
    Plain,
    Ratio,
    Report,
    Row,
    Times,
)
from .wording import compare_gradients, format_number, format_spread, name_of_plain
from .wording import format_ratio as spelt

MIME = "application/vnd.jupyter-hvd.gradcost+json"

# Okabe and Ito's colours, which colour-blind people tell apart, on light and dark ground.
VALUE, FORWARD, ADJOINT, JAX = "#0072b2", "#009e73", "#d55e00", "#8a6bbe"
# One a function, where several are compared, as in the panel's style sheet.
SEVERAL = ("#0072b2", "#c14a00", "#00835f", "#7d5bb5", "#8a6d00", "#b0125b")
SHOWN = 12  # rows of a table that are not folded away


def report_bundle(report: Report) -> dict[str, Any]:
    """The report in every form that a front end may take."""
    return {
        MIME: report.json(),
        "text/html": report_html(report),
        "text/plain": report_text(report),
    }


# Text


def report_text(report: Report) -> str:
    sizes = ", ".join(f"{'='.join(s.names)} = {s.value}" for s in report.sliders)
    lines = [
        f"gradient cost of {report.function} by {', '.join(report.wrt)}"
        + (f" at {sizes}" if sizes else ""),
        _text_line("value", report.value, None),
        _text_line("forward", report.forward, report.forward_ratio),
        _text_line("adjoint", report.adjoint, report.adjoint_ratio),
    ]
    if report.note:
        lines.append(report.note)
    if report.measured:
        lines.append(measured_text(report.measured))
    lines += map(times_text, report.times)
    lines += [line for line in map(history_text, report.histories) if line]
    lines += map(_compared_line, report.compared)
    lines += [f"advice: {a.message}" for a in report.advice]
    if report.error:
        lines.append(f"error: {report.error}")
    return "\n".join(lines)


def _text_line(name: str, figure: Figure, ratio: Ratio | None) -> str:
    bound = ""
    if ratio is not None and ratio.ratio is not None:
        counted = ", inputs and outputs counted" if ratio.interfaces else ""
        bound = f"   {spelt(ratio.ratio)} × value{counted}, bound {ratio.bound}"
    return f"  {name:8} {format_number(figure.total):>14} operations   {figure.here}{bound}"


def history_text(h: History) -> str:
    """What loops store between iterations, at the sizes on display."""
    k = h.sizes.index(h.at)
    if not h.whole[k]:
        return ""
    return (
        f"stored between {h.at} iterations of {h.size}: {format_number(h.whole[k])} numbers, {format_number(h.carried[k])} with "
        f'checkpoint=True, {format_number(h.blocks[k])} with checkpoint="blocks"'
    )


def _compared_line(c: Compared) -> str:
    if c.value is None or c.adjoint is None:
        return f"beside it {c.function}: {c.error}"
    return (
        f"beside it {c.function} by {', '.join(c.wrt)}: value {format_number(c.value.total)} operations, {c.value.here}; "
        f"gradient {format_number(c.adjoint.total)} operations, {c.adjoint.here}"
    )


def measured_text(m: Measured) -> str:
    jax = ""
    if m.jax_adjoint is not None and m.jax_spread is not None:
        jax = f", jax.grad {format_spread(m.jax_adjoint, m.jax_spread)}: {compare_gradients(m.faster)}"
    return (
        f"measured at {m.at or 'these arguments'} on {m.device} in {m.dtype}, {m.repeats} alternating rounds: "
        f"value {in_seconds(m.value)}, gradient {format_spread(m.adjoint, m.adjoint_spread)}{jax}"
    )


def times_text(t: Times) -> str:
    return (
        f"measured over {t.size} on {t.device} in {t.dtype}, shortest calls: "
        f"value {_growth_text(t.size, t.value, t.value_growth)}, gradient {_growth_text(t.size, t.adjoint, t.adjoint_growth)}"
    )


def _growth_text(size: str, times: Sequence[float], growth: Growth | None) -> str:
    """From the first time to the last, and how they grow."""
    span = f"{in_seconds(times[0])} to {in_seconds(times[-1])}"
    return span if growth is None else f"{span}, ∝ {size}^{growth.exponent} from {growth.since} on"


# HTML


def report_html(report: Report) -> str:
    sizes = ", ".join(f"{escape('='.join(s.names))} = {s.value}" for s in report.sliders)
    parts = [
        '<div style="font-family:sans-serif;font-size:13px;line-height:1.45;max-width:960px">',
        f"<p><b>Gradient cost</b> of <code>{escape(report.function)}</code> by "
        f"<code>{escape(', '.join(report.wrt))}</code>{f', {sizes}' if sizes else ''}</p>",
    ]
    if report.error:
        parts.append(f"<pre>{escape(report.error)}</pre>")
    if report.note:
        parts.append(f"<p>{escape(report.note)}</p>")
    parts.append(_figures_table(report))
    plots = [_curve_plot(report, c) for c in report.curves if len(c.sizes) > 1]
    if plots:
        parts.append(
            '<div style="display:flex;flex-wrap:wrap;gap:12px">' + "".join(plots) + "</div>"
        )
        parts.append(_plot_legend(report.plain))
    parts += [f"<p>{escape(line)}</p>" for line in map(history_text, report.histories) if line]
    if report.compared:
        parts.append(_comparison_html(report))
    for times in report.times:
        parts.append(_times_plot(times) + f"<p>{escape(times_text(times))}</p>")
    if report.measured:
        parts.append(f"<p>{escape(measured_text(report.measured))}</p>")
    if report.advice:
        parts.append(
            "<p><b>Advice</b></p><ul>" + "".join(map(_advice_html, report.advice)) + "</ul>"
        )
    parts.append(_statements_table("Statements of the value", report.value_rows))
    parts.append(_statements_table("Statements of the gradient", report.adjoint_rows))
    parts.append("</div>")
    return "".join(parts)


def _figures_table(report: Report) -> str:
    rows = [
        ("value", report.value, None),
        ("forward", report.forward, report.forward_ratio),
        ("adjoint", report.adjoint, report.adjoint_ratio),
    ]
    return _html_table(
        ("", "formula", "operations", "+", "·", "f", "intermediate values", "× value", "bound"),
        (
            (
                f"<b>{name}</b>",
                f'<code title="{escape(figure.formula, quote=True)}">{escape(figure.here)}</code>',
                format_number(figure.total),
                format_number(figure.additions),
                format_number(figure.multiplications),
                format_number(figure.calls),
                format_number(figure.entries) + _stored_text(figure),
                _multiple_text(ratio),
                "" if ratio is None else f"{ratio.bound} ({escape(ratio.theorem)})",
            )
            for name, figure, ratio in rows
        ),
    )


def _multiple_text(ratio: Ratio | None) -> str:
    if ratio is None or ratio.ratio is None:
        return ""
    return spelt(ratio.ratio) + (", inputs and outputs counted" if ratio.interfaces else "")


def _stored_text(figure: Figure) -> str:
    """How much of it loops keep from turn to turn."""
    return f" ({format_number(figure.histories)} in loops)" if figure.histories else ""


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    cell = 'style="padding:1px 8px;text-align:left;vertical-align:top"'
    top = "".join(f"<th {cell}>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td {cell}>{part}</td>" for part in row) + "</tr>" for row in rows
    )
    return f'<table style="border-collapse:collapse"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _plot_image(series: Sequence[Series], size: str, at: int, title: str) -> str:
    """A plot over a size, both axes logarithmic, for front ends that run no script; a rule marks the size of the figures.

    An SVG within an `img`: a page that lets no data in, such as GitHub's, then shows what the picture is of; of an SVG that
    stands in the text it would leave the words, one after the other.
    """
    drawn = [each for each in series if each.points]
    x, y = (
        decades([p[k] for each in drawn for p in each.points], label, most)
        for k, label, most in ((0, size, 20), (1, "", 6))
    )
    title = f"{title}, both axes logarithmic"
    picture = b64encode(plot(drawn, x, y, title, rule=at).encode()).decode()
    ends = (f"{s.label} {s.points[0][1]:.3g} to {s.points[-1][1]:.3g}" for s in drawn)
    alt = escape("; ".join([title, *ends]))
    return f'<img alt="{alt}" src="data:image/svg+xml;base64,{picture}">'


def _series_of(
    label: str, colour: str, sizes: Sequence[int], values: Sequence[float | None], dash: str = ""
) -> Series:
    """What is known and more than 0, which alone stands on a logarithmic axis."""
    look = {"stroke": colour, **({"stroke_dasharray": dash} if dash else {})}
    points = [(n, y) for n, y in zip(sizes, values, strict=True) if y]
    return Series(label, points, look)


def _curve_plot(report: Report, curve: Curve) -> str:
    dots = report.plain.adjoint.get(curve.size, ()) if report.plain else ()
    drawn = [
        _series_of("value", VALUE, curve.sizes, curve.value),
        _series_of("forward", FORWARD, curve.sizes, curve.forward, dash="6 3"),
        _series_of("adjoint", ADJOINT, curve.sizes, curve.adjoint),
        Series("jax.grad", [point for point in dots if point[1] > 0], {"stroke": JAX}, dots=True),
    ]
    title = f"Operations of {report.function} and its derivatives over {curve.size}"
    return _plot_image(drawn, curve.size, curve.at, title)


def _comparison_html(report: Report) -> str:
    """All functions in one table, and the gradients in one plot a size."""
    rows = [
        (report.function, report.wrt, report.value, report.adjoint, ""),
        *((c.function, c.wrt, c.value, c.adjoint, c.error) for c in report.compared),
    ]

    def figure_cells(figure: Figure | None) -> tuple[str, str]:
        return ("", "—") if figure is None else (escape(figure.here), format_number(figure.total))

    table = _html_table(
        ("", "function", "by", "value", "operations", "gradient", "operations", ""),
        (
            (
                f'<span style="color:{SEVERAL[k % len(SEVERAL)]}">●</span>',
                f"<code>{escape(name)}</code>",
                f"<code>{escape(', '.join(wrt))}</code>",
                *figure_cells(value),
                *figure_cells(adjoint),
                escape(error),
            )
            for k, (name, wrt, value, adjoint, error) in enumerate(rows)
        ),
    )
    plots = [_gradients_plot(report, c) for c in report.curves if len(c.sizes) > 1]
    return f"<p><b>Compared</b></p>{table}" + "".join(plots)


def _gradients_plot(report: Report, own: Curve) -> str:
    """The gradients of all functions over one size."""
    curves = [own, *(c.curves.get(own.size) for c in report.compared)]
    names = [report.function, *(c.function for c in report.compared)]
    drawn = [
        _series_of(name, SEVERAL[k % len(SEVERAL)], c.sizes, c.adjoint)
        for k, (name, c) in enumerate(zip(names, curves, strict=True))
        if c is not None
    ]
    title = f"Operations of the gradients of {', '.join(names)} over {own.size}"
    return _plot_image(drawn, own.size, own.at, title)


def _times_plot(times: Times) -> str:
    drawn = [
        _series_of("value", VALUE, times.sizes, times.value),
        _series_of("gradient", ADJOINT, times.sizes, times.adjoint),
    ]
    title = f"Measured seconds of value and gradient over {times.size}"
    return _plot_image(drawn, times.size, times.sizes[-1], title)


def _plot_legend(plain: Plain | None) -> str:
    entries = [
        (VALUE, "value"),
        (FORWARD, "forward derivative"),
        (ADJOINT, "adjoint (gradient)"),
    ]
    if plain is not None and plain.adjoint:
        entries.append((JAX, f"jax.grad, XLA's estimate of flops ({name_of_plain(plain.against)})"))
    marks = "".join(
        f'<span style="margin-right:14px"><span style="color:{colour}">●</span> {escape(name)}</span>'
        for colour, name in entries
    )
    return f"<p>{marks}</p>"


def _advice_html(advice: Advice) -> str:
    where = f" (line {advice.place.line})" if advice.place else ""
    code = f"<pre>{escape(advice.code)}</pre>" if advice.code else ""
    return f"<li>{escape(advice.message)}{where}{code}</li>"


def _statements_table(title: str, rows: Sequence[Row]) -> str:
    timed = any(row.seconds is not None for row in rows)
    head = ["", "statement", "points", "operations", "share", "rule", "from", "line"]
    shown = [row for row in rows if row.operations] or list(rows)
    table = _html_table(
        [*head, *(["time"] if timed else [])],
        (
            [
                f"<code>{escape(row.target or row.name)}</code>",
                f"<code>{escape(row.as_text)}</code>",
                escape(row.support),
                format_number(row.operations),
                f"{100 * row.share:.0f} %",
                f'<span title="{escape(row.why, quote=True)}">({escape(row.rule)})</span>'
                if row.rule
                else "",
                escape(row.source),
                f'<code title="{escape(row.call or row.place.text.strip(), quote=True)}">{row.place.line}</code>'
                if row.place
                else "",
                *([("" if row.seconds is None else in_seconds(row.seconds))] if timed else []),
            ]
            for row in shown
        ),
    )
    opened = " open" if len(shown) <= SHOWN else ""
    free = len(rows) - len(shown)
    note = f" and {free} that are free" if free else ""
    summary = f"{escape(title)}: {len(shown)}{note}"
    return f"<details{opened}><summary>{summary}</summary>{table}</details>"
