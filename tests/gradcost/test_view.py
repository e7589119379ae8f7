"""What a view says of a report, in words and figures."""

from dataclasses import replace

import pytest

from jupyter_hvd.gradcost.charts import in_proportion
from jupyter_hvd.gradcost.fallback import report_bundle
from jupyter_hvd.gradcost.report import Plain, make_report
from jupyter_hvd.gradcost.sections import make_view
from jupyter_hvd.gradcost.subject import make_subject
from jupyter_hvd.gradcost.view import text_of
from jupyter_hvd.gradcost.wording import format_number, format_percent


def test_figures_as_people_read_them():
    assert [format_number(n) for n in (0, 8255, 1_234_567, None)] == [
        "0",
        "8\u202f255",
        "1.235\u202fM",
        "—",
    ]
    assert [format_percent(part) for part in (0, 0.001, 0.37)] == [
        "0\u202f%",
        "<1\u202f%",
        "37\u202f%",
    ]


def test_operations_go_through_the_last_measured_time():
    operations = tuple((n, n * n) for n in (1, 2, 4, 8, 16))
    measured = (2, 0.3), (4, 0.5), (8, 1.6)
    assert in_proportion(operations, measured) == ((4, 0.4), (8, 1.6))
    assert in_proportion((), measured) == ()


@pytest.fixture
def report(by_name):
    case = by_name["quadratic_form"]
    about = make_subject(case.function, ("x",), (case.arguments, {}))
    return make_report(about, about.start)


def plain_row(view):
    (table,) = next(section.blocks for section in view.sections if section.name == "figures")
    return next(row for row in table.rows if row.name == "jax")


def test_what_is_pending_comes_only_where_a_kernel_answers(report):
    report = replace(report, plain=Plain("pending", ""))
    assert make_view(report).pending == "n=A_0=A_1 = 3"
    words = [text_of(plain_row(make_view(report, live)).cells[2].text) for live in (True, False)]
    assert [text.split(" of ")[0] for text in words] == ["estimating…", "no estimate here"]


def test_statements_that_cost_nothing_are_not_in_the_page(report):
    rows = *report.value_rows, *report.adjoint_rows
    costly = [row for row in rows if row.operations]
    assert len(costly) < len(rows)
    body = report_bundle(report)["text/html"].split("Compiled statements")[1]
    assert body.count("<tr><td") == len(costly)
