"""Other functions beside the one that is inspected, over the sizes that they share."""

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_hvd.gradcost import background_work
from jupyter_hvd.gradcost.cells import Cells
from jupyter_hvd.gradcost.fallback import report_bundle
from jupyter_hvd.gradcost.panel import Panel
from jupyter_hvd.gradcost.subject import make_subject
from jupyter_hvd.gradcost.wording import format_number
from jupyter_hvd.tensor import tensor


@tensor
def product(A, B, x):
    n = len(x)
    C = [[sum(A[i, k] * B[k, j] for k in range(n)) for j in range(n)] for i in range(n)]
    return sum(sum(C[i][j] * x[j] for j in range(n)) ** 2 for i in range(n))


@tensor
def turn(A, B, x):
    n = len(x)
    y = [sum(B[i, j] * x[j] for j in range(n)) for i in range(n)]
    return sum(sum(A[i, j] * y[j] for j in range(n)) ** 2 for i in range(n))


@tensor
def squares(v):
    m = len(v)
    return sum(v[i] ** 2 for i in range(m))


@tensor
def steps(x, k: int):
    return sum((x[i + k] - x[i]) ** 2 for i in range(len(x) - k))


@tensor
def unseen(z):
    return sum(z)


M, x = np.ones((8, 8)), np.ones(8)
FUNCTIONS = {
    f.__name__: f for f in (product, turn, squares, steps, unseen)
}  # the notebook's own, as a kernel knows them


@pytest.fixture
def panel():
    for function, arguments in ((product, (M, M, x)), (turn, (M, M, x)), (squares, (x,))):
        function(*arguments)
    steps(x, 2)
    cells = Cells(InteractiveShell())
    return Panel(make_subject(product, ("x",)), cells, lambda: FUNCTIONS, fixed=True)


def asked(panel, **message):
    said = []
    panel.answer_message(message, said.append)
    return said


def test_functions_stand_beside_one_another_over_a_size_that_they_share(panel):
    made = panel.make_report()
    assert made.functions == ()
    assert made.beside == ("turn", "squares", "steps", "unseen")
    asked(panel, do="compare", functions=["turn", "squares", "unseen", "product", "nothing"])
    turned, squared, untyped, unknown = panel.make_report().compared
    assert (turned.wrt, squared.wrt) == (("x",), ("v",)), "by the same parameters where it has them"
    assert turned.value.total == turn.cost(M, M, x).total
    assert turned.adjoint.total == turn.grad("x").cost(M, M, x).total
    own = panel.make_report().curves["n"]
    assert turned.curves["n"].sizes == own.sizes
    assert turned.curves["n"].counts["adjoint"][-1] < own.counts["adjoint"][-1] / 100
    assert squared.curves["n"].size == "m", "the only size of each"
    assert "call `unseen` once" in untyped.error
    assert "not a tensor function" in unknown.error

    asked(panel, do="sizes", sizes={"n": 32}, seq=1)
    turned, squared, *_ = panel.make_report().compared
    assert turned.value.total == turn.cost(np.ones((32, 32)), np.ones((32, 32)), np.ones(32)).total
    assert squared.value.total == squares.cost(np.ones(32)).total


def test_sizes_of_its_own_stay_as_they_were(panel):
    asked(panel, do="compare", functions=["steps"])
    asked(panel, do="sizes", sizes={"n": 32}, seq=1)
    (found,) = panel.make_report().compared
    assert found.error == "it shares no size with `product`"
    assert found.value.total == steps.cost(x, 2).total


def test_times_of_all_and_what_a_notebook_keeps(panel, monkeypatch):
    monkeypatch.setattr(background_work, "LONG", 0.0)  # one size of each tells all
    asked(panel, do="compare", functions=["turn", "steps"])
    panel.sweep_size("n").join(120)
    made = panel.make_report()
    assert made.error == ""
    turned, stepped = made.compared
    assert turned.times["n"].sizes
    assert made.times["n"].sizes
    assert not stepped.times
    forms = report_bundle(made)
    (line,) = [line for line in forms["text/plain"].splitlines() if " b turn by x " in line]
    assert f" {format_number(turned.value.total)} " in line
    assert "Operations of product, turn over n" in forms["text/html"]
    assert "Measured times of product, turn over n" in forms["text/html"]
    asked(panel, do="compare", functions=[])
    assert panel.make_report().compared == ()


def test_another_gradient_keeps_what_is_compared(panel):
    asked(panel, do="compare", functions=["turn"])
    asked(panel, do="inspect", function="product", wrt=["A"])
    (turned,) = panel.make_report().compared
    assert turned.wrt == ("A",)
    panel.tasks["estimate"].cancel()


def test_the_magic_compares():
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "jupyter_hvd")
    shell.user_ns |= FUNCTIONS | {"M": M, "x": x}
    shell.run_line_magic("gradcost", "product(M, M, x) --wrt x --compare turn")
    panels = shell.magics_manager.registry["TensorMagics"].panels.panels
    (made,) = [panel.make_report() for panel in panels.values()]
    assert [c.function for c in made.compared] == ["turn"]
