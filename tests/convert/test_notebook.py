"""Cells ↔ module: what stays as it is, and what a changed cell loses."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

from jupyter_hvd import convert_notebook, convert_source
from jupyter_hvd.convert import NotPythonError
from jupyter_hvd.convert.rules.base import Finding, Fix
from jupyter_hvd.convert.rules.context import Context, Rule
from jupyter_hvd.convert.rules.fit_progress import Verbose
from jupyter_hvd.source.masking import mask_cell


def training_notebook() -> nbformat.NotebookNode:
    notebook = new_notebook(
        cells=[
            new_markdown_cell("# Title"),
            new_code_cell("%matplotlib inline\nimport tensorflow as tf\n!pip list"),
            new_raw_cell("raw"),
            new_code_cell("%%bash\nls -l '"),
            new_code_cell("x, y = load()\nmodel = tf.keras.Sequential()\n\nfiles = !ls\n"),
            new_code_cell("model.compile('sgd')"),
            new_code_cell("%time model.fit(x, y)\nmodel?"),
            new_code_cell("1 + 1"),
        ]
    )
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [new_output("stream", text="old")]
            cell.execution_count = 7
            cell.metadata["tags"] = ["mine"]
    return notebook


def test_boundaries_magics_and_metadata_stay() -> None:
    notebook = training_notebook()
    before = copy.deepcopy(notebook)
    conversion = convert_notebook(notebook)
    assert notebook == before, "the original is left alone"
    after = conversion.notebook
    assert conversion.status == "converted"
    assert conversion.training_loop == "keras_fit"
    assert [c.id for c in after.cells] == [c.id for c in before.cells]
    assert [c.cell_type for c in after.cells] == [c.cell_type for c in before.cells]
    assert [c.metadata for c in after.cells] == [c.metadata for c in before.cells]
    assert after.cells[1].source.startswith(
        "%matplotlib inline\nimport jupyter_hvd.runtime as jhvd\njhvd.start_shared()"
    )
    assert after.cells[1].source.endswith("!pip list")
    assert after.cells[3].source == before.cells[3].source
    assert after.cells[6].source.startswith(
        "%time model.fit(x, y, batch_size=32 * hvd.size(), callbacks="
    )
    assert after.cells[6].source.endswith("\nmodel?")
    nbformat.validate(after)


def test_changed_cells_lose_outputs_and_others_keep_them() -> None:
    before = training_notebook()
    after = convert_notebook(before).notebook
    for old, new in zip(before.cells, after.cells, strict=True):
        if old.cell_type != "code":
            assert new == old
        elif old.source == new.source:
            assert new.outputs == old.outputs
            assert new.execution_count == 7
        else:
            assert new.outputs == []
            assert new.execution_count is None


def test_changes_name_cells_and_lines() -> None:
    conversion = convert_notebook(training_notebook())
    assert {(c.rule, c.cell, c.line) for c in conversion.changes} >= {
        ("HVD101", 1, 2),
        ("HVD202", 5, 1),
        ("HVD401", 6, 1),
    }


def test_twice_changes_nothing() -> None:
    once = convert_notebook(training_notebook()).notebook
    twice = convert_notebook(once)
    assert twice.status == "unchanged"
    assert twice.notebook == once


def test_other_languages_are_refused() -> None:
    notebook = new_notebook(
        metadata={"kernelspec": {"name": "ir", "language": "R", "display_name": "R"}}
    )
    with pytest.raises(NotPythonError, match="written in R"):
        convert_notebook(notebook)


def test_syntax_error_names_the_cell() -> None:
    notebook = new_notebook(
        cells=[new_code_cell("import tensorflow as tf"), new_code_cell("x = 1\ny = (")]
    )
    conversion = convert_notebook(notebook)
    assert conversion.status == "invalid"
    assert [(d.code, d.cell, d.line) for d in conversion.diagnostics] == [("HVD001", 1, 2)]


TRAINING = (
    "import tensorflow as tf",
    "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('sgd', loss='mse')",
    "x, y = tf.zeros((8, 2)), tf.zeros(8)",
    "model.fit(x, y)",
)


def converted_with(*more: str):
    return convert_notebook(new_notebook(cells=list(map(new_code_cell, (*TRAINING, *more)))))


def test_cell_indented_as_a_whole() -> None:
    conversion = converted_with("  print(1)\n\n  z = 2")
    assert (conversion.status, conversion.diagnostics) == ("converted", ())
    expected = "  if hvd.rank() == 0:\n    print(1)\n\n  z = 2"
    assert conversion.notebook.cells[-1].source == expected


@pytest.mark.parametrize(
    "timed", ["% time {}", "%% time\n{}", "time {}", "{}", "x = %time {}", "%prun -q {}"]
)
def test_training_that_is_timed(timed: str) -> None:
    notebook = new_notebook(cells=list(map(new_code_cell, TRAINING)))
    notebook.cells[-1].source = timed.format("history = model.fit(x, y)").replace(
        "%time history =", "%time"
    )
    conversion = convert_notebook(notebook)
    assert (conversion.status, conversion.diagnostics) == ("converted", ())
    assert "model.fit(x, y, batch_size=32 * hvd.size(), " in conversion.notebook.cells[-1].source


@pytest.mark.parametrize("source", ["await later()", "tf.data?", "%%html\n<b>x</b>", "  !ls"])
def test_cell_that_ipython_takes(source: str) -> None:
    conversion = converted_with(source)
    assert (conversion.status, conversion.diagnostics) == ("converted", ())
    assert conversion.notebook.cells[-1].source == source


def test_cell_that_is_no_python_and_needed_by_nothing() -> None:
    conversion = converted_with("Here are some notes.")
    assert conversion.status == "converted"
    assert [(d.severity, d.cell, d.line) for d in conversion.diagnostics] == [("warning", 4, 1)]


@pytest.mark.parametrize("source", ["x = (", "model.fit(", "def model("])
def test_cell_that_is_no_python_and_needed(source: str) -> None:
    assert converted_with(source).status == "invalid"


def test_empty_notebook() -> None:
    """And one without a cell of code: they are left as they are."""
    for cells in ([], [new_markdown_cell("# Title")]):
        notebook = new_notebook(cells=cells)
        conversion = convert_notebook(notebook)
        assert (conversion.status, conversion.diagnostics) == ("unchanged", ())
        assert conversion.notebook == notebook


MAGICAL = [
    "%matplotlib inline",
    "!ls -l | wc",
    "files = !ls",
    "x = %who_ls",
    "len?",
    "%time y = 1",
    "y = %time f(\\",
    "%  timeit -n 3 \\",
    "    !indented",
    "z = 5 % 3",
    "text = '''",
    "%inside",
    "'''",
    "for i in range(3):",
    "    pass",
    "!pip install \\",
    "    more",
    "",
]


@given(st.lists(st.sampled_from(MAGICAL), max_size=8))
def test_masking_keeps_length_and_lines(lines: list[str]) -> None:
    source = "\n".join(lines)
    masked = mask_cell(source)
    assert len(masked) == len(source)
    assert [len(line) for line in masked.split("\n")] == [len(line) for line in source.split("\n")]


@pytest.mark.parametrize(
    ("source", "masked"),
    [
        ("if a:\n    !ls\nb = 1", "if a:\n    0##\nb = 1"),
        ("%%time\nx = 1", "######\nx = 1"),
        ("%%html\n<b>", "######\n###"),
        ("s = '''\n%no\n'''", "s = '''\n%no\n'''"),
        ("!a \\\n  b\nx = !c", "0###\n###\nx = 0#"),
        ("%time f(x)", "0;    f(x)"),
        ("%  time x = f()", "0;      x = f()"),
        ("if a:\n    % time f(x)", "if a:\n    0;     f(x)"),
        ("%% time\nf(x)", "#######\nf(x)"),
        ("%time f(x, \\\n  y)\nb = 1", "0;    f(x, \\\n  y)\nb = 1"),
        ("%timeit -n 1 -r1 -q f(x)", f"{'0;':20}f(x)"),
        ("%prun -r -s cumulative f(x)", f"{'0;':23}f(x)"),
        ("x = %time f(x)", f"x ={' ':7}f(x)"),
        ("time x = f()\n", "0;   x = f()\n"),
        ("time = 1", "time = 1"),
    ],
)
def test_masking(source: str, masked: str) -> None:
    assert mask_cell(source) == masked


def test_what_is_written_is_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of a rule is told, and gives no file; also in a cell that nothing else needs."""

    def half(_: Rule, context: Context) -> Iterator[Finding]:
        for fit in context.training.keras.fits:
            yield Fix(fit, context.wrap(fit, "(", "")[:1])

    monkeypatch.setattr(Verbose, "find", half)
    lines = "import tensorflow as tf\nmodel = tf.keras.Sequential()\nmodel.compile('sgd')\n"
    script = convert_source(lines + "model.fit(x, y)\n")
    notebook = convert_notebook(
        new_notebook(cells=[new_code_cell(lines), new_code_cell("%time model.fit(x, y)")])
    )
    for conversion in (script, notebook):
        assert conversion.status == "refused"
        assert not conversion.changes
        assert "please report it" in conversion.diagnostics[0].help
    assert script.code == lines + "model.fit(x, y)\n"


# Cell magics


@pytest.mark.parametrize(
    ("source", "masked"),
    [
        ("\n%%time\nx = 1", "\n######\nx = 1"),
        ("%%capture\n%%time\nx = !ls", "#########\n######\nx = 0##"),
        ("%%time\n\n%%distribute -n 2\nx = 1", "######\n\n#################\nx = 1"),
        ("%%time\n%%bash\nls '", "######\n######\n####"),
        ("%%bash\n%%time\nls '", "######\n######\n####"),
        ("x = 1\n%%time\ny = 2", "x = 1\n0#####\ny = 2"),
        ("%%time?\nx = 1", "0######\nx = 1"),
        ("%%time\n" * 500 + "x = 1", "######\n" * 500 + "x = 1"),
    ],
)
def test_cell_magics_count_where_ipython_takes_them(source: str, masked: str) -> None:
    assert mask_cell(source) == masked


def test_masking_goes_on_within_blocks() -> None:
    source = "for a in b:\n    if a:\n        %time f(a)\n    !echo it's\n%time g()\nhelp?\nx = '''\n%y\n'''"
    masked = "for a in b:\n    if a:\n        0;    f(a)\n    0#########\n0;    g()\n0####\nx = '''\n%y\n'''"
    assert mask_cell(source) == masked


def test_text_that_ends_in_the_midst_of_a_magic() -> None:
    assert mask_cell('x = %"""abc') == 'x = %"""abc'
    assert mask_cell("if 1:\n        a\n    b\n%time x") == "if 1:\n        a\n    b\n%time x"
