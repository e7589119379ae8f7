"""A panel without a browser: what it answers to what a front end asks."""

import base64
import json
import re
import subprocess
import sys
import threading
import time
from xml.etree import ElementTree

import jax
import numpy as np
import pytest

from jupyter_hvd.gradcost import background_work
from jupyter_hvd.gradcost.cells import Cells
from jupyter_hvd.gradcost.fallback import MIME, report_bundle
from jupyter_hvd.gradcost.panel import Panel
from jupyter_hvd.gradcost.panel_comm import Panels
from jupyter_hvd.gradcost.report import make_report
from jupyter_hvd.gradcost.subject import make_subject
from jupyter_hvd.tensor import TensorFunction, tensor
from jupyter_hvd.tensor.language.units import in_seconds


@pytest.fixture
def shell():
    from IPython.core.interactiveshell import InteractiveShell

    made = InteractiveShell()
    made.run_line_magic("load_ext", "jupyter_hvd")
    return made


class Front:
    """A front end: it keeps what it is sent."""

    def __init__(self, panel):
        self.said = []
        self.panel = panel
        panel.attach_front_end(self.said.append)

    def ask(self, **message):
        self.panel.answer_message(message, self.said.append)
        return self.said[-1]

    def until(self, wanted, seconds=60):
        began = time.monotonic()
        while not any(wanted(m) for m in self.said):
            assert time.monotonic() - began < seconds, self.said[-1]
            time.sleep(0.02)
        return next(m for m in self.said if wanted(m))


def find(view, type_):
    """The blocks of a type in a view's JSON form."""
    found, left = [], [*view["controls"], *view["sections"]]
    while left:
        block = left.pop(0)
        found += [block] * (block["type"] == type_)
        left = [*block.get("blocks", ()), *left]
    return found


def rows_of(view, label):
    """The rows of a table: the words of each cell by its column."""
    (table,) = [each for each in find(view, "table") if each["label"] == label]
    names = [column["name"] for column in table["columns"]]
    return [
        {
            name: " ".join(span["text"] for span in cell.get("text", ()))
            for name, cell in zip(names, row["cells"], strict=True)
        }
        for row in table["rows"]
    ]


def opened(case, shell):
    about = make_subject(case.function, case.wrt, (case.arguments, {}))
    return Front(Panel(about, Cells(shell)))


def test_sizes_move_and_errors_leave_them(by_name, shell):
    front = opened(by_name["convolution_loss"], shell)
    answer = front.ask(do="sizes", sizes={"z_0": 2}, seq=7)
    assert answer["seq"] == 7
    assert {s["name"]: s["value"] for s in find(answer["report"], "slider")}["z_0"] == 2
    before = front.panel.make_report().value
    answer = front.ask(do="sizes", sizes={"x_0": 2}, seq=8)
    assert "reads index" in answer["error"]
    assert answer["seq"] == 8
    assert front.panel.make_report().value == before


def test_one_of_two_front_ends_keeps_the_figures(by_name, shell, monkeypatch):
    first = opened(by_name["quadratic_form"], shell)
    second = Front(first.panel)
    first.ask(do="sizes", sizes={"n": 5}, seq=3)
    assert [(f.said[-1]["seq"], f.said[-1]["keep"]) for f in (first, second)] == [
        (3, True),
        (None, False),
    ]
    second.ask(do="sizes", sizes={"n": 6}, seq=1)
    assert [(f.said[-1]["seq"], f.said[-1]["keep"]) for f in (first, second)] == [
        (None, True),
        (1, False),
    ]
    second.ask(do="linked", linked=False)
    first.ask(do="estimate")
    first.panel.tasks["estimate"].join(60)
    assert [f.said[-1]["keep"] for f in (first, second)] == [True, False], "whoever asks"
    assert "bundle" not in second.ask(do="save")
    assert "bundle" in first.ask(do="save")
    monkeypatch.setattr("jupyter_hvd.gradcost.panel.PATIENCE", 0.0)
    second.ask(do="sizes", sizes={"n": 5})
    second.ask(do="sizes", sizes={"n": 6})
    assert second.said[-1]["keep"], "the other one does not keep what it is told to"
    first.panel.detach_front_end(second.said.append)
    assert first.ask(do="sizes", sizes={"n": 4}, seq=4)["keep"]


def test_measured_times_are_those_of_profile(by_name, shell):
    case = by_name["quadratic_form"]
    front = opened(case, shell)
    front.ask(do="measure")
    done = front.until(lambda m: "Measured on" in str(m.get("report")))["report"]
    progress = [m["progress"] for m in front.said if m.get("progress")]
    assert progress[-1]["done"] == progress[-1]["total"]
    assert [p["done"] for p in progress] == sorted(p["done"] for p in progress)
    measured = front.panel.measured
    times = measured.adjoint_statements
    shown = [row["seconds"] for row in rows_of(done, "Statements of the gradient")]
    assert shown == list(map(in_seconds, times.values()))
    costs = {row["name"]: row for row in rows_of(done, "Costs")}
    assert costs["Gradient"]["time"] == in_seconds(measured.adjoint.median)
    assert costs["jax.grad"]["time"] == in_seconds(measured.jax_adjoint.median)
    profile = front.panel.subject.reverse.profile(*case.arguments, repeats=1)
    assert list(times) == [s.name for s in profile.statements]
    assert all(t > 0 for t in times.values())
    assert measured.adjoint_bytes == profile.total.bytes
    answer = front.ask(do="sizes", sizes={"n": 5}, seq=1)["report"]
    assert "seconds" not in rows_of(answer, "Statements of the gradient")[0]
    assert {row.get("time") for row in rows_of(answer, "Costs")} == {"—", ""}
    assert "Measured at n = 3 on" in str(answer)


def test_a_measurement_is_cancelled(by_name, shell):
    front = opened(by_name["factorisation"], shell)
    front.ask(do="measure")
    front.panel.measure_times()
    front.ask(do="cancel")
    front.until(lambda m: m.get("progress", "none") is None)
    assert front.panel.make_report().measured is None
    front.panel.tasks["measure"].join(10)
    assert not front.panel.tasks["measure"].is_alive()


def test_times_over_a_size(shell):
    """They are shown while the other sizes are as they were."""

    @tensor
    def product(A, B):
        n, m = A.shape
        return sum(
            sum(A[i, k] * B[k, j] for k in range(m)) ** 2 for i in range(n) for j in range(n)
        )

    arguments = np.ones((8, 4)), np.ones((4, 8))
    front = Front(Panel(make_subject(product, ("A",), (arguments, {})), Cells(shell)))
    name = front.panel.make_report().sliders[0].name
    front.ask(do="sweep", size=name)
    front.until(lambda m: "Measured times over" in str(m.get("report")))
    made = front.panel.make_report()
    (times,) = made.times.values()
    progress = [m["progress"]["done"] for m in front.said if m.get("progress")]
    assert progress == sorted(progress)
    assert times.size == name
    value, adjoint = times.seconds["value"], times.seconds["adjoint"]
    assert len(times.sizes) == len(value) == len(adjoint) > 5
    assert min(value + adjoint) > 0
    forms = report_bundle(made)
    assert "Shortest times on" in forms["text/plain"]
    assert f"Measured times over {name}" in forms["text/html"]
    (other,) = [s.name for s in made.sliders if s.name != name]
    assert set(times.at) & {other}
    front.ask(do="sizes", sizes={other: 5}, seq=1)
    assert not front.panel.make_report().times
    front.ask(do="sizes", sizes={other: 4}, seq=2)
    assert front.panel.make_report().times


def test_times_over_a_size_are_cancelled(by_name, shell):
    front = opened(by_name["quadratic_form"], shell)
    front.ask(do="sweep", size="n")
    front.until(lambda m: m.get("progress"))
    front.ask(do="cancel")
    front.until(lambda m: m.get("progress", "none") is None)
    assert front.panel.make_report().times == {}
    front.ask(do="sweep", size="no size")
    front.until(lambda m: "is not a size that can be chosen" in str(m.get("report")))


def test_an_estimate_of_the_sizes_before_is_none_of_those_after(by_name, shell, monkeypatch):
    """Sizes that moved while XLA was asked still wait for their own estimate."""
    front = opened(by_name["quadratic_form"], shell)
    at_its_end, go_on = threading.Event(), threading.Event()
    whole = background_work.estimate_plain

    def slow(*arguments):
        found = whole(*arguments)
        at_its_end.set()
        go_on.wait(60)
        return found

    monkeypatch.setattr(background_work, "estimate_plain", slow)
    task = front.panel.estimate_plain()
    assert at_its_end.wait(60)
    front.ask(do="sizes", sizes={"n": 9}, seq=1)
    go_on.set()
    task.join(60)
    assert front.panel.plain.state == "pending"
    monkeypatch.undo()
    front.panel.estimate_plain().join(60)
    assert front.panel.plain.state == "done"
    assert 9 in front.panel.plain.estimates["n"]


@pytest.mark.parametrize("outcome", ["times", "error"])
def test_what_was_measured_of_another_gradient_is_dropped(by_name, shell, monkeypatch, outcome):
    """A measurement compiles after it was last asked whether to go on."""
    case = by_name["quadratic_form"]
    front = Front(Panel(make_subject(case.function, ("x",), (case.arguments, {})), Cells(shell)))
    at_its_end, go_on = threading.Event(), threading.Event()
    whole = background_work.measure_subject

    def slow(*arguments):
        try:
            if outcome == "error":
                raise RuntimeError("out of memory")
            return whole(*arguments[:-1], lambda: None)
        finally:
            at_its_end.set()
            go_on.wait(60)

    monkeypatch.setattr(background_work, "measure_subject", slow)
    task = front.panel.measure_times()
    assert at_its_end.wait(60)
    front.ask(do="inspect", function=front.panel.subject.name, wrt=["A", "x"])
    go_on.set()
    task.join(60)
    made = front.panel.make_report()
    assert made.wrt == ("A", "x")
    assert made.measured is None
    assert made.error == ""
    front.panel.tasks["estimate"].join(60)


@pytest.fixture(params=[False, True], ids=["float32 by default", "float64 by default"])
def default_precision(request):
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", request.param)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.usefixtures("default_precision")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_times_are_those_of_the_type_of_a_call(by_name, shell, dtype):
    """Ours and plain JAX's are compared in the type that a call with these arguments has."""
    function = by_name["quadratic_form"].function
    arguments = np.ones((4, 4), dtype), np.ones(4, dtype)
    panel = Panel(make_subject(function, ("x",), (arguments, {})), Cells(shell))
    panel.measure_times().join(60)
    assert panel.error == ""
    assert panel.measured.dtype == dtype == str(function(*arguments).dtype)
    entries = 16 + 4 + 1
    assert panel.measured.value_bytes >= entries * np.dtype(dtype).itemsize
    assert panel.measured.jax_adjoint.median > 0
    times = panel.measured.adjoint
    assert times.low <= times.median <= times.high
    assert panel.measured.repeats >= 11
    assert panel.measured.faster is not None


def test_a_call_in_the_cell_is_one_of_a_tensor_function(shell):
    """Of functions above and below it in the cell; after an error nothing that may call it runs."""
    cell = (
        "%%tensor\nimport numpy as np\ndef twice(x):\n    return 2 * squares(x)\n"
        "def squares(x):\n    return np.sum(x**2)\nfound = twice.grad('x')(np.ones(3))"
    )
    assert shell.run_cell(cell).success
    assert shell.user_ns["found"].tolist() == [4.0, 4.0, 4.0]
    cell = (
        "%%tensor\ndef wrong(x):\n    yield x\ndef right(x):\n    return 2 * x\nfound = wrong(1.0)"
    )
    assert not shell.run_cell(cell).success
    assert shell.user_ns["found"].tolist() == [4.0, 4.0, 4.0]
    assert "wrong" not in shell.user_ns
    assert isinstance(shell.user_ns["right"], TensorFunction)


def test_measuring_leaves_the_cards(shell):
    from jupyter_hvd.gradcost.cards import make_card

    shell.run_cell("%%tensor\ndef f(x):\n    return sum(x[i] for i in range(len(x)))")
    f = shell.user_ns["f"]
    f(np.ones(3))
    front = Front(Panel(make_subject(f), Cells(shell)))
    front.ask(do="sizes", sizes={"x_0": 50})
    front.panel.measure_times().join(60)
    assert front.panel.measured.sizes == {"x_0": 50}
    assert f.last_sizes == {"x_0": 3}
    assert "x_0 = 3" in make_card(f).state or "2 sizes" in make_card(f).state


def test_views_are_what_the_functions_say(shell):
    shell.run_cell("%%tensor\ndef f(x):\n    return sum(x[i] * x[i] for i in range(len(x)))")
    f = shell.user_ns["f"]
    f(np.ones(3, np.float32))
    front = Front(Panel(make_subject(f), Cells(shell)))
    front.ask(do="sizes", sizes={"x_0": 50})
    for view in ("plan", "certificate"):
        front.ask(do="view", view=view)
        front.panel.tasks[view].join(120)
    report = front.panel.make_report()
    x = np.ones(50, jax.numpy.result_type(float))  # as numbers are drawn
    plan, certificate = report.shown["plan"], report.shown["certificate"]
    assert plan.text == f"value\n{f.plan(x)}\n\ngradient by x\n{f.grad('x').plan(x)}"
    assert (plan.at, plan.sizes) == ("x_0 = 50", {"x_0": 50})
    assert "f: value, and gradient by x" in certificate.text
    assert "2*x_0 - 1" in certificate.text
    assert plan.text in report_bundle(report)[MIME]["sections"][-2]["blocks"][1]["text"][0]["text"]
    assert f.last_sizes == {"x_0": 3}, "its cards tell of its last call"
    assert "no view" in front.ask(do="view", view="../secret")["error"]
    front.panel.sizes = {"x_0": 1 << 40}
    front.panel.show_view("plan").join(60)
    assert "choose smaller sizes" in front.panel.make_report().shown["plan"].error


def test_a_view_is_asked_for_again_at_other_sizes(by_name, shell):
    """What is shown stays, with the sizes that it is about."""
    front = opened(by_name["quadratic_form"], shell)

    def section():
        (found,) = [s for s in find(front.said[-1]["report"], "section") if s["name"] == "plan"]
        return found

    assert (section()["ask"], section()["blocks"]) == ({"do": "view", "view": "plan"}, [])
    front.ask(do="view", view="plan")
    assert "ask" not in section()
    front.panel.tasks["plan"].join(60)
    assert "ask" not in section()
    front.ask(do="sizes", sizes={"n": 9}, seq=1)
    assert section()["ask"] == {"do": "view", "view": "plan"}
    assert [b["text"] for b in section()["blocks"] if b["type"] == "action"] == [
        "Show at the sizes above"
    ]
    front.ask(do="inspect", function=front.panel.subject.name, wrt=["A"])
    front.panel.tasks["estimate"].join(60)
    assert section()["blocks"] == [], "it was about another gradient"


def test_too_much_to_measure_is_not_begun(by_name, shell):
    front = opened(by_name["factorisation"], shell)
    front.ask(do="sizes", sizes={"n": 4096, "m": 4096})
    for name in ("n", "m"):
        front.panel.sizes |= dict.fromkeys(
            next(s.names for s in front.panel.subject.size_sliders() if name in s.names), 1 << 20
        )
    front.panel.measure_times().join(60)
    assert "choose smaller sizes" in front.panel.error


def test_another_parameter_and_another_function(by_name, shell):
    functions = {"energy": by_name["quadratic_form"].function, "traces": by_name["traces"].function}
    for case in (by_name["quadratic_form"], by_name["traces"]):
        case.function.cost(*case.arguments)
    panel = Panel(
        make_subject(functions["energy"], ("x",), label="energy"), Cells(shell), lambda: functions
    )
    front = Front(panel)
    front.ask(do="sizes", sizes={"n": 9})
    front.ask(do="inspect", function="energy", wrt=["A", "x"])
    made = panel.make_report()
    assert (made.wrt, made.sizes["n"]) == (("A", "x"), 9), "the sizes stay"
    front.ask(do="inspect", function="traces", wrt=[])
    assert panel.make_report().function == "traces"
    panel.tasks["estimate"].join(60)


def test_every_form_is_there_and_nothing_is_markup():
    @tensor
    def f(x: 'Float[Array, "n"]'):  # noqa: F821
        return sum(x[i] * x[i] for i in range(len(x)) if i < 2)  # </script><b>"&'

    about = make_subject(f)
    made = make_report(about, about.start)
    forms = report_bundle(made)
    assert set(forms) == {MIME, "text/html", "text/plain"}
    assert "</script>" not in forms["text/html"]
    assert "<b>&quot;" not in forms["text/html"]
    assert "if i &lt; 2" in forms["text/html"]
    (picture,) = re.findall(
        r'<img alt="[^"]*" src="data:image/svg\+xml;base64,([^"]*)">', forms["text/html"]
    )
    assert ElementTree.fromstring(base64.b64decode(picture)).tag.endswith("svg")
    assert f"{made.value.total}" in forms["text/plain"].replace("\u202f", "")
    json.dumps(forms)


#: What GitHub leaves of HTML (github.com/gjtorikian/html-pipeline, its sanitization filter), but for what no report has.
GITHUB_TAGS = set(
    "h1 h2 h3 h4 b i strong em a pre code img tt div ins del sup sub p ol ul table thead tbody tfoot blockquote "
    "dl dt dd kbd samp var hr li tr td th s summary details caption figure figcaption span br".split()
)
GITHUB_ATTRIBUTES = {
    "a": ["href"],
    "img": ["src", "alt"],
    "*": ["align", "alt", "open", "title", "valign", "width", "height"],
}


def test_a_page_that_strips_styles_and_data_still_shows_the_figures():
    import bleach  # nbconvert brings it

    @tensor
    def square(x):
        return sum(x[i] * x[i] for i in range(len(x)))

    about = make_subject(square, ("x",), ((np.ones(64),), {}))
    whole = report_bundle(make_report(about, about.start))["text/html"]
    left = bleach.clean(
        whole,
        tags=GITHUB_TAGS,
        attributes=GITHUB_ATTRIBUTES,
        protocols={"http", "https", "mailto"},
        strip=True,
    )
    assert "style=" not in left
    assert "data:" not in left
    (rows,) = re.findall(r"<tbody>(<tr><td><b>Value.*?)</tbody>", left)
    assert '<td title="63 additions, 64 multiplications, 0 calls">127</td>' in rows
    assert re.search(r'<img alt="Operations over x_0[^"]*; value \S+ to \S+; ', left)
    assert not re.search(r"10[⁰¹²³⁴⁵⁶⁷⁸⁹]", re.sub("<[^>]*>", "", left)), "no words of a picture"
    assert left.count("<summary>Compiled statements") == 1


def test_a_cell_of_functions(shell):
    shell.run_cell("import math")
    result = shell.run_cell(
        "%%tensor\ndef norm(x: 'Float[Array, \"n\"]'):\n"
        "    return math.sqrt(sum(x[i] ** 2 for i in range(len(x))))\n\n"
        "def bad(x):\n    return x.mode()\n\n"
        "def worse(x):\n    yield x[0]"
    )
    error = result.error_in_exec
    assert type(error).__name__ == "CellError"
    (text,) = error.texts
    assert "line 9" in text
    assert "yield x[0]" in text
    assert "→ return" in text
    assert "Traceback" not in "".join(error._render_traceback_())
    assert str(shell.user_ns["norm"].cost_formula()) == "2*n"
    assert "bad" in shell.user_ns, "found wrong when it has types"
    assert "worse" not in shell.user_ns
    with pytest.raises(Exception, match=r"has no `\.mode`"):
        shell.user_ns["bad"](np.ones(3))


def test_cards_follow_their_functions(shell):
    from jupyter_hvd.gradcost.cards import make_card

    shell.run_cell("%%tensor\ndef f(x):\n    return sum(x[i] for i in range(len(x)))")
    f = shell.user_ns["f"]
    assert "Not compiled yet" in make_card(f).state
    f.cost(np.ones(3))
    assert make_card(f).state == "Not compiled yet: its first call compiles it."
    assert make_card(f).cost == "x_0 − 1"
    f(np.ones(3))
    assert make_card(f).state == "compiled for x_0 = 3"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return A @ xx", ("`xx` is not defined (line 3)",)),
        ("y = np.summ(A)\n    return y", ("`np.summ` does not exist (line 3)",)),
        ("return sum(A[i] * x[j] for i in range(len(x)))", ("`j` is not defined (line 3)",)),
        ("return np.sum(A @ x)", ()),
    ],
)
def test_a_card_tells_names_that_there_are_not(shell, body, told):
    from jupyter_hvd.gradcost.cards import cards_text, make_card

    shell.run_cell("import numpy as np")
    shell.run_cell(f"%%tensor\ndef f(A, x):\n    {body}")
    found = make_card(shell.user_ns["f"])
    assert found.unresolved == told
    assert all(each in cards_text([found]) for each in told)
    shell.run_cell("xx = 1")
    assert "`xx` is not defined (line 3)" not in make_card(shell.user_ns["f"]).unresolved


def test_what_is_asked_about_what_is_not_there(shell):
    panels = Panels(shell, Cells(shell))
    said = []

    class Comm:
        send = staticmethod(said.append)

    panels.connect_front_end(Comm(), {"content": {"data": {"id": "unknown"}}})
    assert said == [{"gone": True}]
    panels.connect_front_end(Comm(), {"content": {"data": {"source": "x = 1"}}})
    assert "no tensor function yet" in said[1]["error"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "required"),
        ("missing", "missing"),
        ("len", "is not a tensor function"),
        ("f(", "neither a function nor a call"),
        ("f --wrt y", "no parameter `y`"),
    ],
)
def test_wrong_lines(shell, line, message):
    shell.run_cell(
        "%%tensor\ndef f(x: 'Float[Array, \"n\"]'):\n    return sum(x[i] for i in range(len(x)))"
    )
    result = shell.run_cell(f"%gradcost {line}")
    assert message in str(result.error_in_exec)


def test_loading_is_instant():
    """No library of the tensor language is loaded with the extension."""
    code = (
        "import sys; from IPython.core.interactiveshell import InteractiveShell as S; s = S(); "
        "s.run_line_magic('load_ext', 'jupyter_hvd'); "
        "print(*(m for m in ('jax', 'islpy', 'libcst', 'jupyter_hvd.tensor') if m in sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""
