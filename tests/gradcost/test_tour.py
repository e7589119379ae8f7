"""The tour runs from top to bottom, says what it shows, and exports with every panel's fall-back."""

import re
from pathlib import Path

import nbformat
import pytest

from jupyter_hvd.gradcost.fallback import MIME

TOUR = Path(__file__).parents[2] / "examples" / "gradient_cost.ipynb"


@pytest.fixture(scope="module")
def tour():
    from nbclient import NotebookClient

    notebook = nbformat.read(TOUR, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=300).execute()
    return notebook


@pytest.fixture(scope="module")
def reports(tour):
    outputs = [o for cell in tour.cells for o in cell.get("outputs", ()) if "data" in o]
    return [output.data[MIME] for output in outputs if MIME in output.data]


@pytest.mark.slow
@pytest.mark.long
def test_every_panel_has_every_form(tour, reports):
    asked = [
        cell.source
        for cell in tour.cells
        if "%gradcost" in cell.source and cell.cell_type == "code"
    ]
    assert len(reports) == len(asked) == 14
    for cell in tour.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error"
            if MIME in output.get("data", {}):
                assert {"text/html", "text/plain"} <= set(output.data)


@pytest.mark.slow
@pytest.mark.long
def test_the_surprises_are_true(reports):
    first = {}
    for report in reports:
        first.setdefault(report["function"], report)
    value, adjoint = (
        {name: costs(report)[row] for name, report in first.items()} for row in ("value", "adjoint")
    )
    assert adjoint["corner"]["formula"]["text"][0]["text"] == "1"
    for free in ("traces", "dead_lets", "skipping_sum"):
        assert adjoint[free]["total"]["value"] == 0
    for side in (value, adjoint):
        assert side["trace_of_eye"]["formula"]["text"][0]["text"] == "n − 1"
    additions = [side["network"]["total"]["title"].split(",")[0] for side in (value, adjoint)]
    assert additions[0] == additions[1]
    products = [adjoint[name]["total"]["value"] for name in ("product", "product_by_lets")]
    assert products[0] == products[1]
    assert "rule 6.48" in str(first["convolution_loss"])
    assert "Sum in another order" in str(first["chain"])
    assert "JAX alone would differentiate this worse" in str(first["corner"])
    for report in reports:
        ratios = [row.get("ratio", {}).get("text") for row in costs(report).values()]
        assert all(float(text[0]["text"].split(",")[0]) <= 4 for text in filter(None, ratios))


def costs(view):
    """The cells of the table of costs, by row and column."""
    (table,) = [
        block
        for section in view["sections"]
        for block in section["blocks"]
        if block.get("label") == "Costs"
    ]
    names = [column["name"] for column in table["columns"]]
    return {row["name"]: dict(zip(names, row["cells"], strict=True)) for row in table["rows"]}


@pytest.mark.slow
def test_the_export_shows_every_fall_back(tour, reports):
    from nbconvert import HTMLExporter

    html, _ = HTMLExporter().from_notebook_node(tour)
    assert html.count("<b>Gradient cost</b>") == len(reports)
    plots = len(re.findall(r"'Operations over \w+, both", str(reports)))
    assert html.count('<img alt="Operations over') == plots > 10
    for report in reports:
        assert f"<code>{report['function']}</code>" in html
