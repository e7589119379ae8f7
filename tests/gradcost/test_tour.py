"""The tour runs from top to bottom, says what it shows, and exports with every panel's fall-back."""

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
def test_the_surprises_are_true(reports):
    first = {}
    for report in reports:
        first.setdefault(report["function"], report)
    adjoint = {name: report["adjoint"] for name, report in first.items()}
    value = {name: report["value"] for name, report in first.items()}
    assert adjoint["corner"]["here"] == "1"
    assert adjoint["traces"]["total"] == 0
    assert adjoint["dead_lets"]["total"] == 0
    assert adjoint["skipping_sum"]["total"] == 0
    assert adjoint["trace_of_eye"]["here"] == value["trace_of_eye"]["here"] == "n − 1"
    assert adjoint["network"]["additions"] == value["network"]["additions"]
    assert adjoint["product"]["total"] == adjoint["product_by_lets"]["total"]
    rules = {row["rule"] for row in first["convolution_loss"]["adjoint_rows"]}
    assert "6.48" in rules
    kinds = {name: {a["kind"] for a in report["advice"]} for name, report in first.items()}
    assert "reassociated" in kinds["chain"]
    assert "jax" in kinds["corner"]
    for report in reports:
        assert report["adjoint_ratio"]["ratio"] <= 4
        assert report["forward_ratio"]["ratio"] <= 4


@pytest.mark.slow
def test_the_export_shows_every_fall_back(tour, reports):
    from nbconvert import HTMLExporter

    html, _ = HTMLExporter().from_notebook_node(tour)
    assert html.count("<b>Gradient cost</b>") == len(reports)
    plots = sum(len(report["curves"]) for report in reports)
    assert html.count('<img alt="Operations of') == plots > 10
    for report in reports:
        assert f"<code>{report['function']}</code>" in html
