"""The tables of a view: what each program costs, other functions beside this one, and the compiled statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..tensor.language.units import in_bytes, in_seconds
from .report import Figure, Measured, Plain, Ratio, Report
from .report import Row as Statement
from .rules import RULES
from .view import Cell, Colour, Column, Remark, Row, Section, Span, Table
from .wording import (
    format_number,
    format_percent,
    format_quartiles,
    format_ratio,
    name_of_plain,
    translatable,
)

if TYPE_CHECKING:
    from ..tensor.jax.timing import Spread

#: What a row of a table has in each column, by the column's name.
Cells = dict[str, Cell]


def make_table(
    label: str,
    columns: tuple[Column, ...],
    rows: list[tuple[Row, Cells]],
    caption: str = "",
    empty: str = "",
) -> Table:
    """Return a table without its empty columns."""
    used = tuple(column for column in columns if any(column.name in cells for _, cells in rows))
    filled = tuple(
        replace(row, cells=tuple(cells.get(c.name, Cell()) for c in used)) for row, cells in rows
    )
    return Table(label, used, filled, caption, empty)


def plain_cell(text: str, title: str = "") -> Cell:
    """Return a cell of text, with a tooltip."""
    return Cell((Span(text),), title=title)


def count_cell(count: float | None, title: str = "", unit: str = "operations") -> Cell:
    """Return a cell of a number; its unit is for screen readers only."""
    return Cell((Span(format_number(count)), Span(unit, "unseen")), title=title, value=count)


# What each program costs

_FIGURES = (
    Column("name", ""),
    Column("total", translatable("operations")),
    Column("formula", translatable("formula")),
    Column("ratio", "× the value"),
    Column(
        "entries",
        "intermediate values",
        "Entries of all intermediate arrays that are not known to be zero",
    ),
    Column("loops", "in loops", "Those that loops store between iterations"),
    Column("memory", translatable("memory")),
    Column("time", translatable("time")),
)


def figures_table(report: Report, live: bool) -> Table:
    """Return the table of costs: value, forward derivative, gradient, plain JAX's gradient."""
    rows: list[tuple[Colour, Cells]] = [
        ("value", _figure_cells(translatable("Value"), report.value)),
        ("forward", _figure_cells("Forward derivative", report.forward, report.forward_ratio)),
        ("adjoint", _figure_cells(translatable("Gradient"), report.adjoint, report.adjoint_ratio)),
    ]
    if report.plain:
        rows.append(("jax", _plain_cells(report, report.plain, live)))
    measured = _measured_cells(report.measured_here)
    filled = [
        (Row(colour, (), colour), {**cells, **measured.get(colour, {})}) for colour, cells in rows
    ]
    return make_table(translatable("Costs"), _FIGURES, filled)


def _figure_cells(name: str, figure: Figure, ratio: Ratio | None = None) -> Cells:
    """Return the cells of one program's costs."""
    additions, multiplications, calls = map(
        format_number, (figure.additions, figure.multiplications, figure.calls)
    )
    kinds = translatable(f"{additions} additions, {multiplications} multiplications, {calls} calls")
    cells = {
        "name": plain_cell(name),
        "total": count_cell(figure.total, kinds),
        "formula": Cell((Span(figure.here, title=figure.formula, code=True),)),
        "entries": plain_cell(format_number(figure.entries)),
    }
    if ratio is not None:
        cells["ratio"] = plain_cell(_ratio_text(ratio), ratio.theorem)
    if figure.histories:
        cells["loops"] = plain_cell(format_number(figure.histories))
    return cells


def _ratio_text(ratio: Ratio) -> str:
    """Return a ratio and the bound that holds at all sizes."""
    text = "—" if ratio.ratio is None else format_ratio(ratio.ratio)
    if ratio.interfaces:
        return f"{text}, never above {ratio.bound} (with inputs and outputs)"
    return f"{text}, never above {ratio.bound}"


def _measured_cells(measured: Measured | None) -> dict[Colour, Cells]:
    """Return the cells of measured times and memory, by program; the forward derivative is not measured."""
    unknown = plain_cell("—")
    if measured is None:
        return {"value": {"time": unknown}, "adjoint": {"time": unknown}, "jax": {"time": unknown}}
    own = plain_cell(in_seconds(measured.value.median))
    jax = _time_cell(measured.jax_adjoint) if measured.jax_adjoint else unknown
    adjoint = _time_cell(measured.adjoint)
    return {
        "value": {"memory": plain_cell(in_bytes(measured.value_bytes)), "time": own},
        "adjoint": {"memory": plain_cell(in_bytes(measured.adjoint_bytes)), "time": adjoint},
        "jax": {"time": jax},
    }


def _time_cell(times: Spread) -> Cell:
    """Return a cell with the median time, and the quartiles below."""
    return Cell((Span(in_seconds(times.median)),), (Span(format_quartiles(times)),))


def _plain_cells(report: Report, plain: Plain, live: bool) -> Cells:
    """Return the cells of plain JAX's gradient: XLA's estimates, or why there are none."""
    estimate = report.plain_here
    state = "no estimate here"
    if plain.state == "failed":
        state = plain.message
    elif plain.state == "done" and estimate:
        state = "flops, XLA’s estimate"
    elif plain.state == "pending" and live and not report.error:
        state = translatable("estimating…")
    cells = {
        "name": plain_cell("jax.grad"),
        "total": count_cell(
            estimate.flops if estimate else None, plain.message, translatable("flops")
        ),
        "formula": Cell((Span(state), Span(name_of_plain(plain.against)))),
    }
    if estimate:
        cells["memory"] = plain_cell(in_bytes(estimate.memory))
    return cells


# Other functions


def comparison_table(report: Report) -> Table:
    """Return the table of the compared functions' costs, as formulas."""
    columns = (
        Column("name", translatable("function")),
        Column("long", translatable("value")),
        Column("value", "its operations"),
        Column("long", translatable("gradient")),
        Column("adjoint", "its operations"),
        Column("beside", translatable(f"beside {report.function}")),
    )
    rows = []
    for side in report.sides:
        own, value, adjoint = report.adjoint, side.value, side.adjoint
        multiple = "—"
        if adjoint and adjoint.total and own.total:
            multiple = f"× {adjoint.total / own.total:.2g}"
        by = (Span(translatable(f"by {', '.join(side.wrt)}"), "quiet"),) if side.wrt else ()
        wrong = (Span(side.error),) if side.error else ()
        name = Span(side.letter, "strong", colour=side.colour), Span(side.function, code=True)
        cells = (
            Cell((*name, *by), wrong),
            *_formula_cells(value),
            *_formula_cells(adjoint),
            plain_cell(multiple),
        )
        rows.append(Row(side.function, cells))
    return Table("Costs of the functions", columns, tuple(rows))


def _formula_cells(figure: Figure | None) -> tuple[Cell, Cell]:
    """Return the cells of a formula and of its value."""
    if figure is None:
        return Cell(), plain_cell("—")
    return plain_cell(figure.here, figure.formula), plain_cell(format_number(figure.total))


# Statements

_STATEMENTS = (
    Column("statement", translatable("statement")),
    Column("support", translatable("iterations"), "How often the statement runs"),
    Column("count", translatable("operations")),
    Column("share", translatable("share")),
    Column("seconds", translatable("time")),
)


def statements_section(report: Report) -> Section:
    """Return the section with the statements of value and gradient side by side; rows of one origin are linked."""
    value, adjoint = report.value_rows, report.adjoint_rows
    free = sum(not row.operations for row in (*value, *adjoint))
    measured = report.measured_here
    times = (measured.value_statements, measured.adjoint_statements) if measured else ({}, {})
    tables = (
        _statements_table("Statements of the value", translatable("Value"), value, times[0]),
        _statements_table(
            "Statements of the gradient", translatable("Gradient"), adjoint, times[1], derived=True
        ),
    )
    return Section(
        "statements",
        (Remark((Span(_NOTATION),)), Section("tables", tables)),
        "Compiled statements",
        folded=True,
        more=f"Show the {free} statements that cost nothing" if free else "",
    )


_NOTATION = (
    "Each statement fills an array: “X3[i, j] = Σ k: A[i, k]·B[k, j]” is the entry for each i and j, summed over k; where the "
    "condition behind “where” does not hold, it is 0. A rule is a number in the paper’s derivation; point at it for its words."
)


def _statements_table(
    label: str,
    caption: str,
    statements: tuple[Statement, ...],
    times: Mapping[str, float],
    derived: bool = False,
) -> Table:
    """Return the table of a program's statements.

    Args:
        times: measured seconds by statement.
        derived: whether the statements are those of the gradient.
    """
    rows = []
    for each in statements:
        name, source = each.line.name, each.line.origin.source
        seconds = times.get(name)
        timed = {} if seconds is None else {"seconds": plain_cell(in_seconds(seconds))}
        cells = {
            "statement": Cell(_statement_text(each), _origin_text(each, derived)),
            "support": plain_cell(
                each.support, translatable(f"{format_number(each.points)} iterations")
            ),
            "count": plain_cell(format_number(each.operations), each.formula),
            "share": Cell((Span(format_percent(each.share)),), share=each.share),
            **timed,
        }
        group = source if derived else name
        rows.append((Row(name, (), group=group, extra=not each.operations), cells))
    return make_table(label, _STATEMENTS, rows, caption, empty="No statement costs anything.")


def _statement_text(statement: Statement) -> tuple[Span, ...]:
    """Return the spans of a statement; its condition is a span of its own."""
    target, expression, condition = statement.line.spelling
    quiet = [Span(condition.strip(), "quiet", code=True)] if condition else []
    return Span(target, "strong", code=True), Span(f"= {expression}", code=True), *quiet


def _origin_text(statement: Statement, derived: bool) -> tuple[Span, ...]:
    """Return the spans of a statement's origin: rule, statement of the value, and the user's line."""
    place, origin, spans = statement.place, statement.line.origin, []
    if origin.rule:
        why = RULES.get(origin.rule, "")
        spans.append(Span(translatable(f"rule {origin.rule}"), title=why))
    if derived and origin.source:
        title = "The statement of the value that it came from"
        spans.append(Span(f"← {origin.source}", title=title, row=origin.source))
    if place:
        line = translatable(f"line {place.line}")
        if place.count is not None:
            line = translatable(f"[{place.count}] line {place.line}")
        spans.append(Span(line, title=statement.call or place.text.strip(), place=place))
    return tuple(spans)
