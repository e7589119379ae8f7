"""The panel's figures are `f.cost`'s and `f.profile`'s, for the paper's programs and the prototype's."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tensor"))

from IPython.core.interactiveshell import InteractiveShell
from programs import CASES

from jupyter_hvd.gradcost.cells import Cells
from jupyter_hvd.gradcost.fallback import report_bundle
from jupyter_hvd.gradcost.panel import Panel
from jupyter_hvd.gradcost.report import make_report, move_sizes
from jupyter_hvd.gradcost.rules import RULES
from jupyter_hvd.gradcost.sections import make_view
from jupyter_hvd.gradcost.subject import make_subject
from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.cost.statements import points_of
from jupyter_hvd.tensor.language.predicates import TRUE
from jupyter_hvd.tensor.language.printer import show

by_name = {case.name: case for case in CASES}


def fields(cost):
    return cost.additions, cost.multiplications, cost.calls, cost.total, cost.io


def figures(figure):
    return (
        figure.additions,
        figure.multiplications,
        figure.calls,
        figure.total,
        figure.io,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_figures_are_those_of_cost(case):
    about = make_subject(case.function, case.wrt, (case.arguments, {}))
    made = make_report(about, about.start)
    assert figures(made.value) == fields(case.function.cost(*case.arguments))
    assert made.value.formula == str(case.function.cost_formula())
    moved = tuple(
        a for x, a in zip(dict(about.types), case.arguments, strict=True) if x in case.wrt
    )
    jvp = case.function.jvp(*case.wrt)
    assert figures(made.forward) == fields(jvp.cost(*case.arguments, *moved))
    if about.is_scalar:
        assert figures(made.adjoint) == fields(about.reverse.cost(*case.arguments))
    else:
        result = case.function(*case.arguments)
        assert figures(made.adjoint) == fields(about.reverse.cost(*case.arguments, result))
    for ratio in (made.forward_ratio, made.adjoint_ratio):
        assert ratio.ratio is None or ratio.ratio <= ratio.bound


def predicate_of(line):
    _, predicate = points_of(line.rhs)
    return "" if predicate == TRUE else show(predicate)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["quadratic_form", "diagonal_dot", "masked_stencil", "springs", "gravity"]
)
def test_statements_are_those_of_profile(name):
    case = by_name[name]
    about = make_subject(case.function, case.wrt, (case.arguments, {}))
    made = make_report(about, about.start)
    sides = (
        (about.value.lines, made.value_rows, about.function),
        (about.adjoint.lines, made.adjoint_rows, about.reverse),
    )
    for lines, rows, function in sides:
        profile = function.profile(*case.arguments, repeats=1)
        shown = [
            (r.line.name, predicate_of(line), r.points, r.operations)
            for line, r in zip(lines, rows, strict=True)
        ]
        counted = [(s.name, s.predicate, s.support, s.operations) for s in profile.statements]
        assert shown == counted
        assert sum(r.operations for r in rows) == profile.total.operations


def test_sizes_that_move_are_counted_as_if_called_with_them():
    case = by_name["gravity"]
    about = make_subject(case.function, ("x",), (case.arguments, {}))
    sizes = move_sizes(about, about.start, {"n": 9}, linked=True)
    assert sizes["m_0"] == 9, "m has as many entries as x has rows, and goes along"
    made = make_report(about, sizes)
    x, m = np.random.default_rng(0).uniform(size=(9, 2)), np.ones(9)
    assert made.value.total == case.function.cost(x, m).total
    curve = made.curves["n"]
    assert curve.counts["value"][curve.sizes.index(9)] == made.value.total
    assert curve.counts["adjoint"][curve.sizes.index(9)] == made.adjoint.total


def test_sizes_out_of_range_are_an_error_with_a_counter_example():
    case = by_name["convolution_loss"]
    about = make_subject(case.function, ("x",), (case.arguments, {}))
    sizes = move_sizes(about, about.start, {"x_0": 3}, linked=True)
    assert not about.fits_data(sizes)
    with pytest.raises(TensorError, match="reads index"):
        make_report(about, sizes)


def test_data_fix_the_sizes_of_relations():
    case = by_name["masked_stencil"]
    about = make_subject(case.function, ("u",), (case.arguments, {}))
    with pytest.raises(TensorError, match="fixed by the data of `M`"):
        move_sizes(about, about.start, {"h": 7}, linked=True)
    assert all(slider.fixed == "M" for slider in make_report(about, about.start).sliders)


def test_without_the_data_of_a_relation_nothing_is_made_up():
    @tensor
    def guarded(x: 'Float[Array, "n"]', M: 'Bool[Array, "n"]'):  # noqa: F821
        return sum(x[i] * x[i] for i in range(len(x)) if M[i])

    about = make_subject(guarded)
    made = make_report(about, about.start)
    assert made.value.total is None
    assert made.adjoint_ratio.ratio is None
    assert "M(" in made.value.formula
    assert "`%gradcost guarded(x, M)`" in made.note
    assert "`%gradcost guarded(x, M)`" in report_bundle(made)["text/plain"]


def test_statements_point_at_lines_and_values():
    case = by_name["factorisation"]
    about = make_subject(case.function, case.wrt, (case.arguments, {}))
    made = make_report(about, about.start)
    names = {row.line.name for row in made.value_rows}
    for row in made.adjoint_rows:
        origin = row.line.origin
        assert origin.source == "" or origin.source in names
        assert not origin.rule or origin.rule in RULES
    assert made.heat[0].share == max(heat.share for heat in made.heat)
    assert sum(heat.share for heat in made.heat) == pytest.approx(1)
    assert "np.log(Y[i][j])" in " ".join(heat.place.text for heat in made.heat)


def test_a_function_without_types_says_what_to_do():
    @tensor
    def untyped(x):
        return sum(x[i] for i in range(len(x)))

    with pytest.raises(TensorError):
        make_subject(untyped)
    with pytest.raises(TensorError, match="not a tensor function"):
        make_subject(len)


def test_a_view_is_plain_json():
    case = by_name["as_rigid_as_possible"]
    about = make_subject(case.function, case.wrt, (case.arguments, {}))
    made = make_report(about, about.start)
    form = make_view(made).json()
    assert json.loads(json.dumps(form)) == form
    assert "look" not in form["about"][0], "what is as it is by default is left out"


def test_what_loops_keep_is_what_their_reverse_reads():
    """S reals are carried and K kept beside them: `docs/recurrences.md`."""

    @tensor
    def network(W, U, x, h):
        T = len(x)
        for t in range(T):
            h = np.tanh(W @ h + U @ x[t])
        return np.sum(h * h)

    arguments = np.eye(4), np.ones((4, 3)), np.ones((100, 3)), np.ones(4)
    about = make_subject(network, ("W",), (arguments, {}))
    made = make_report(about, about.start)
    (kept,) = made.histories.values()
    assert (kept.size, kept.at) == ("T", 100)
    here = kept.sizes.index(100)
    assert kept.counts["whole"][here] == 100 * (4 + 4)
    assert kept.counts["carried"][here] == 100 * 4
    assert kept.counts["blocks"][here] == 13 * 4 + 8 * 8, "13 blocks of 8 turns"
    assert (
        kept.counts["whole"][kept.sizes.index(1)] == kept.counts["blocks"][kept.sizes.index(1)] == 8
    )
    heat = {h.place.text.strip(): (h.value, h.adjoint) for h in made.heat}
    rows = [row for row in (*made.value_rows, *made.adjoint_rows) if "." not in row.line.name]
    of_line = [row for row in rows if row.place and "tanh" in row.place.text]
    assert sum(heat["h = np.tanh(W @ h + U @ x[t])"]) == sum(row.operations for row in of_line)
    loops = [row for row in rows if "iterate" in row.line.spelling.expression]
    assert all(row in of_line for row in loops), "a loop's lines are those of its body"
    panel = Panel(about, Cells(InteractiveShell()))
    assert not panel.make_report().advice, "no line of a loop is said to cost nothing"

    assert "for the reverse pass: a 800 as it is, b 400 with" in report_bundle(made)["text/plain"]

    case = by_name["quadratic_form"]
    about = make_subject(case.function, case.wrt, (case.arguments, {}))
    assert make_report(about, about.start).histories == {}


def test_a_loop_is_followed_by_the_statements_of_its_iterations():
    @tensor
    def rnn(W, x, h):
        T = len(x)
        for t in range(T):
            h = np.tanh(W @ h) + x[t]
        return np.sum(h * h)

    arguments = np.ones((4, 4)), np.ones((20, 4)), np.ones(4)
    about = make_subject(rnn, ("W",), (arguments, {}))
    made = make_report(about, about.start)
    assert "T" in [slider.name for slider in made.sliders]
    spelt = {row.line.spelling.expression: row for row in made.value_rows}
    loop = next(row for text, row in spelt.items() if text.startswith("iterate"))
    turn = [row for row in made.value_rows if row.line.name.startswith(f"{loop.line.name}.")]
    assert sum(row.operations for row in turn) == loop.operations == 20 * (28 + 4 + 4)
    assert [row.call for row in turn] == ["W @ h", "np.tanh(W @ h)", "np.tanh(W @ h) + x[t]"]
    names = {row.line.name for row in made.value_rows}
    sources = {row.line.origin.source for row in made.adjoint_rows}
    assert {source for source in sources if "." in source} <= names
    assert sum(heat.share for heat in made.heat) == pytest.approx(1)
    assert "np.tanh" in made.heat[0].place.text
    # The value keeps its last state alone; the gradient those of all turns, tanh's values and W's sum.
    assert made.value.histories == 4
    assert made.adjoint.histories > 20 * 4
    assert made.adjoint_ratio.theorem == "Theorem 2 of docs/recurrences.md"
    assert 0 < made.adjoint_ratio.ratio <= 4
    assert "in loops" in report_bundle(made)["text/html"]


def test_a_loop_in_a_loop_has_its_statements_too():
    @tensor
    def f(x, y):
        s = x[0]
        for t in range(len(x)):
            for u in range(len(y)):
                s = 0.5 * s + x[t] * y[u]
        return s

    about = make_subject(f, ("x",), ((np.ones(40), np.ones(50)), {}))
    made = make_report(about, about.start)
    inner = [row for row in made.value_rows if row.line.name.count(".") == 2]
    assert sum(row.operations for row in inner) == made.value.total == 40 * 50 * 3
