"""The view of a report: what every figure is called, how it reads, and in which order the sections stand."""

from __future__ import annotations

from collections.abc import Iterator

from ..tensor.language.units import in_seconds
from .charts import comparison_plots, curve_section, legend_of
from .report import HeavyLine, Measured, Report, Shown, sizes_text
from .tables import comparison_table, figures_table, statements_section
from .view import Action, Block, Card, Choice, Heat, Remark, Section, Slider, Span, View
from .wording import format_number, format_percent, format_spread, translatable


def make_view(report: Report, live: bool = True) -> View:
    """Return the view of a report.

    Args:
        live: whether a kernel answers, so that pending figures will come.
    """
    return View(
        id=report.id,
        function=report.function,
        title=translatable("Gradient cost"),
        about=_about(report),
        controls=tuple(_controls(report)),
        sections=tuple(_sections(report, live)),
        heat=tuple(map(_heat, report.heat)),
        pending=sizes_text(report) if report.plain and report.plain.state == "pending" else "",
    )


def _heat(line: HeavyLine) -> Heat:
    """Return the mark beside a source line: its share of all operations."""
    share, value = format_percent(line.share), format_number(line.value)
    title = f"{share} of all operations: value {value}, gradient {format_number(line.adjoint)}"
    return Heat(line.place, line.share, title)


def _about(report: Report) -> tuple[Span, ...]:
    """Return the spans after the title: the function, the parameters, the sizes."""
    sizes = sizes_text(report)
    return (
        *(Span("of"), Span(report.function, code=True)),
        *(Span("by"), Span(", ".join(report.wrt), code=True)),
        *([Span(f"at {sizes}")] if sizes else []),
    )


def _controls(report: Report) -> Iterator[Block]:
    """Yield the controls at the top: the function, the parameters, the button to measure."""
    if report.functions:
        names = tuple(dict.fromkeys((report.function, *report.functions)))
        function = (report.function,)
        yield Choice(
            translatable("Function"), names, function, {"do": "inspect"}, "function", single=True
        )
    else:
        yield Remark((Span(report.function, code=True),))
    yield Choice(
        "gradient with respect to",
        report.differentiable,
        report.wrt,
        {"do": "inspect", "function": report.function},
        "wrt",
        least=1,
    )
    yield Action(translatable("Measure"), {"do": "measure"}, measures=True, progress=True)


def _sections(report: Report, live: bool) -> Iterator[Section]:
    """Yield the sections in order: sliders, sentence, advice, figures, curves, comparison, statements."""
    yield from _sliders(report)
    yield Section("alert", (Remark((Span(report.error),), "alert"),))
    yield Section("sentence", (Remark((Span(_sentence(report)),), "lead"),))
    if report.advice:
        cards = tuple(_advice_cards(report))
        yield Section("advice", cards, translatable("Advice"), translatable("Advice"))
    yield Section("status", (Remark(tuple(map(Span, _status(report))), "kernel"),))
    yield Section("figures", (figures_table(report, live),))
    curves = [curve for curve in report.curves.values() if len(curve.sizes) > 1]
    if curves:
        drawn = tuple(curve_section(report, curve) for curve in curves)
        yield Section("curves", (*drawn, legend_of(report)), label="Operations over each size")
    if report.beside or report.compared:
        yield _comparison(report)
    yield statements_section(report)
    for view, shown in report.shown.items():
        if shown.state == "done" or live:
            yield _shown_section(report, view, shown)


def _sliders(report: Report) -> Iterator[Section]:
    """Yield the section of sliders; none for a function without sizes."""
    sliders: list[Block] = [
        Slider(
            slider.name,
            " = ".join(slider.names),
            report.sizes[slider.name],
            1,
            slider.high,
            f"fixed by the data of {slider.fixed}" if slider.fixed else "",
        )
        for slider in report.sliders
    ]
    if any(len(slider.names) > 1 for slider in report.sliders) or not report.linked:
        linked = ("Equal sizes move together",)
        chosen = linked if report.linked else ()
        sliders.append(Choice("", linked, chosen, {"do": "linked"}, "linked"))
    if sliders:
        yield Section("sliders", tuple(sliders), label=translatable("Sizes"))


def _comparison(report: Report) -> Section:
    """Return the section that compares other functions of the notebook with this one."""
    chosen = tuple(other.function for other in report.compared)
    names = tuple(dict.fromkeys((*report.beside, *chosen)))
    blocks: tuple[Block, ...] = (
        Choice("compare with", names, chosen, {"do": "compare"}, "functions"),
    )
    if chosen:
        plots = Section("sides", tuple(comparison_plots(report)))
        blocks = (*blocks, plots, comparison_table(report))
    return Section("compare", blocks, label="Comparison with other functions")


def _sentence(report: Report) -> str:
    """Return a sentence on what the gradient costs."""
    name, by, total = report.function, ", ".join(report.wrt), report.adjoint.total
    count, ratio = format_number(total), report.adjoint_ratio
    if ratio.ratio is None:
        if total == 1:
            return f"The gradient of {name} by {by}: {count} operation."
        return f"The gradient of {name} by {by}: {count} operations."
    multiple = f"{ratio.ratio:.2f}"
    if total == 1:
        return f"The gradient of {name} by {by}: {count} operation, {multiple} × the value (never above {ratio.bound} ×)."
    return f"The gradient of {name} by {by}: {count} operations, {multiple} × the value (never above {ratio.bound} ×)."


def _advice_cards(report: Report) -> Iterator[Card]:
    """Yield a card for each piece of advice."""
    for advice in report.advice:
        place = advice.place
        line = (
            (Span(translatable(f"line {place.line}"), title=place.text.strip(), place=place),)
            if place
            else ()
        )
        change = advice.way if advice.way >= 0 else None
        costs = (Span(advice.before), Span("→"), Span(advice.after, "strong"))
        detail = costs if advice.before else ()
        yield Card((Span(advice.message), *line), detail, advice.code, change)


# Times


def _status(report: Report) -> Iterator[str]:
    """Yield what data are missing, and what was measured."""
    yield from filter(None, [report.note])
    if report.measured:
        yield from filter(None, _say_measured(report.measured, report))


def _say_measured(measured: Measured, report: Report) -> Iterator[str]:
    """Yield the measured times, and which gradient is faster if that is significant."""
    where = f"on {measured.device} in {measured.dtype}, {measured.repeats} alternating rounds"
    yield (
        f"Measured {where}."
        if report.is_at(measured.sizes)
        else f"Measured at {measured.at} {where}."
    )
    value, adjoint = in_seconds(measured.value.median), format_spread(measured.adjoint)
    yield translatable(f"Value {value}, gradient {adjoint}.")
    if measured.jax_adjoint is not None and measured.faster is not None:
        jax = format_spread(measured.jax_adjoint)
        yield translatable(f"jax.grad {jax}: {_FASTER[measured.faster]}.")
    yield measured.note


_FASTER = {
    "first": "this gradient is faster",
    "second": "jax.grad is faster",
    "neither": "no difference",
    "noisy": "too noisy to compare",
}


# On demand


def _shown_section(report: Report, view: str, shown: Shown) -> Section:
    """Return the section of a view, "plan" or "certificate", for the sizes at which it was computed."""
    title, about = VIEWS[view]
    ask = {"do": "view", "view": view}
    fresh = shown.state == "done" and report.is_at(shown.sizes)
    blocks: list[Block] = []
    if shown.state == "pending":
        blocks.append(Remark((Span(translatable("Computing…")),), "status"))
    if shown.state == "done":
        blocks.append(Remark((Span(translatable(f"At {shown.at}.")),), "status"))
        if not fresh:
            blocks.append(Action("Show at the sizes above", ask))
        wrong = Remark((Span(shown.error),), "error")
        blocks.append(wrong if shown.error else Remark((Span(shown.text, code=True),), "code"))
    asked = None if fresh or shown.state == "pending" else ask
    return Section(view, tuple(blocks), title, about, folded=True, ask=asked)


VIEWS = {
    "plan": (
        "How it is computed",
        "Each array of the kernels, how it is made and stored: f.plan(…)",
    ),
    "certificate": (
        translatable("Certificate"),
        "Formulas, bound and measured growth: f.certify(…)",
    ),
}
