"""A report as text and as HTML with a static plot, for front ends without the panel: nbconvert, VS Code, GitHub, a terminal.

All that comes from the user's notebook is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from ..svg import Series, decades, plot
from ..tensor.language.units import in_seconds
from ..tensor.measure import Growth
from .report import (
    Compared,
    Curve,
    Figure,
    History,
    Measured,
    Ratio,
    Report,
    Times,
)
from .templates import render_html
from .wording import compare_gradients, format_number, format_ratio, format_spread, name_of_plain

MIME = "application/vnd.jupyter-hvd.gradcost+json"

# Okabe and Ito's colours, which colour-blind people tell apart, on light and dark ground.
VALUE, FORWARD, ADJOINT, JAX = "#0072b2", "#009e73", "#d55e00", "#8a6bbe"
# One a function, where several are compared, as in the panel's style sheet.
SEVERAL = ("#0072b2", "#c14a00", "#00835f", "#7d5bb5", "#8a6d00", "#b0125b")


def report_bundle(report: Report) -> dict[str, Any]:
    """The report in every form that a front end may take."""
    return {
        MIME: report.json(),
        "text/html": report_html(report),
        "text/plain": report_text(report),
    }


# Text


def report_text(report: Report) -> str:
    sizes = _sizes_text(report)
    lines = [
        f"gradient cost of {report.function} by {', '.join(report.wrt)}"
        + (f" at {sizes}" if sizes else ""),
        *(_text_line(*each) for each in _named_figures(report)),
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


def _multiple_text(ratio: Ratio | None, unit: str = "") -> str:
    """A derivative's cost as a multiple of its function's; nothing where it is not known."""
    if ratio is None or ratio.ratio is None:
        return ""
    counted = ", inputs and outputs counted" if ratio.interfaces else ""
    return f"{format_ratio(ratio.ratio)}{unit}{counted}"


def _sizes_text(report: Report) -> str:
    return ", ".join(f"{'='.join(s.names)} = {s.value}" for s in report.sliders)


def _named_figures(report: Report) -> tuple[tuple[str, Figure, Ratio | None], ...]:
    return (
        ("value", report.value, None),
        ("forward", report.forward, report.forward_ratio),
        ("adjoint", report.adjoint, report.adjoint_ratio),
    )


def _text_line(name: str, figure: Figure, ratio: Ratio | None) -> str:
    times = _multiple_text(ratio, " × value")
    bound = f"   {times}, bound {ratio.bound}" if ratio and times else ""
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
    own = Compared(report.function, report.wrt, report.value, report.adjoint, {}, {})
    legend = [
        (VALUE, "value"),
        (FORWARD, "forward derivative"),
        (ADJOINT, "adjoint (gradient)"),
    ]
    if report.plain is not None and report.plain.adjoint:
        of = name_of_plain(report.plain.against)
        legend.append((JAX, f"jax.grad, XLA's estimate of flops ({of})"))
    curves = [curve for curve in report.curves if len(curve.sizes) > 1]
    return render_html(
        "report.html.jinja",
        report=report,
        sizes=_sizes_text(report),
        figures=[(*each, _multiple_text(each[-1])) for each in _named_figures(report)],
        plots=[_curve_plot(report, curve) for curve in curves],
        legend=legend,
        stored=list(filter(None, map(history_text, report.histories))),
        compared=list(zip(cycle(SEVERAL), (own, *report.compared))),
        gradient_plots=[_gradients_plot(report, curve) for curve in curves],
        times=[(_times_plot(times), times_text(times)) for times in report.times],
        measured=measured_text(report.measured) if report.measured else "",
    )


def _plot_image(series: Sequence[Series], size: str, at: int, title: str) -> dict[str, str]:
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
    return {"alt": "; ".join([title, *ends]), "picture": picture}


def _series_of(
    label: str, colour: str, sizes: Sequence[int], values: Sequence[float | None], dash: str = ""
) -> Series:
    """What is known and more than 0, which alone stands on a logarithmic axis."""
    look = {"stroke": colour, **({"stroke_dasharray": dash} if dash else {})}
    points = [(n, y) for n, y in zip(sizes, values, strict=True) if y]
    return Series(label, points, look)


def _curve_plot(report: Report, curve: Curve) -> dict[str, str]:
    dots = report.plain.adjoint.get(curve.size, ()) if report.plain else ()
    drawn = [
        _series_of("value", VALUE, curve.sizes, curve.value),
        _series_of("forward", FORWARD, curve.sizes, curve.forward, dash="6 3"),
        _series_of("adjoint", ADJOINT, curve.sizes, curve.adjoint),
        Series("jax.grad", [point for point in dots if point[1] > 0], {"stroke": JAX}, dots=True),
    ]
    title = f"Operations of {report.function} and its derivatives over {curve.size}"
    return _plot_image(drawn, curve.size, curve.at, title)


def _gradients_plot(report: Report, own: Curve) -> dict[str, str]:
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


def _times_plot(times: Times) -> dict[str, str]:
    drawn = [
        _series_of("value", VALUE, times.sizes, times.value),
        _series_of("gradient", ADJOINT, times.sizes, times.adjoint),
    ]
    title = f"Measured seconds of value and gradient over {times.size}"
    return _plot_image(drawn, times.size, times.sizes[-1], title)
