"""The JSON form of a view is that of its classes, and TypeScript's types are made from it."""

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_hvd.gradcost.cells import Cells
from jupyter_hvd.gradcost.panel import Panel
from jupyter_hvd.gradcost.schema import make_schema
from jupyter_hvd.gradcost.subject import make_subject
from jupyter_hvd.gradcost.view import View

ROOT = Path(__file__).parents[2]
SCHEMA = make_schema(View)


def test_the_schema_is_one():
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_views_have_its_form(by_name):
    case = by_name["quadratic_form"]
    panel = Panel(
        make_subject(case.function, ("x",), (case.arguments, {})), Cells(InteractiveShell())
    )
    panel.estimate_plain().join(60)
    panel.measure_times().join(60)
    panel.sweep_size("n").join(120)
    panel.show_view("plan").join(60)
    made = panel.make_report()
    assert made.plain.state == "done"
    assert made.measured is not None
    assert made.times
    form = json.loads(json.dumps(panel.make_form()))
    jsonschema.validate(form, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**form, "more": 1}, SCHEMA)


@pytest.mark.needs("types")
def test_the_types_are_made_of_the_classes():
    types = ROOT / "labextension" / "src" / "gradcost" / "view.schema.ts"
    before = types.read_text()
    subprocess.run(["jlpm", "types:view"], cwd=ROOT, check=True, capture_output=True)
    assert types.read_text() == before
