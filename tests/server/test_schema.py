"""The documented JSON form holds for what Python writes, and TypeScript's types are made from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import nbformat
import pytest

from jupyter_hvd.server.worker import answer_convert, answer_rules, answer_script
from jupyter_hvd.source.edits import Edit, apply_edits

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "jupyter_hvd" / "conversion.schema.json").read_text())
FIXTURE = json.loads((ROOT / "labextension" / "tests" / "conversion.json").read_text())


def valid(value: Any, definition: str | None = None) -> None:
    chosen = {"$ref": f"#/definitions/{definition}", "definitions": SCHEMA["definitions"]}
    validator = jsonschema.Draft7Validator(chosen if definition else SCHEMA)
    validator.validate(json.loads(json.dumps(value)))


def test_the_schema_is_one():
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_answers_of_the_server(notebook):
    request = {"notebook": notebook, "options": {"ignore": ["HVD6"]}}
    valid(request, "ConvertRequest")
    valid(answer_convert(request, ROOT))
    valid(answer_script({"notebook": notebook}), "Script")
    for rule in answer_rules({}):
        valid(rule, "Rule")


@pytest.mark.parametrize(
    ("source", "status"),
    [("x = 1", "unchanged"), ("x = = 1", "invalid"), ("import tensorflow.compat.v1 as tf", None)],
)
def test_every_status(notebook, source, status):
    notebook["cells"][1]["source"] = source
    notebook["cells"] = notebook["cells"][:2]
    answer = answer_convert({"notebook": notebook}, ROOT)
    valid(answer)
    assert status in (None, answer["status"])


def test_what_the_command_line_prints(tmp_path, notebook):
    file = tmp_path / "notebook.ipynb"
    nbformat.write(nbformat.from_dict(notebook), file)
    command = [sys.executable, "-m", "jupyter_hvd", "convert", str(file), "--json"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (entry,) = json.loads(printed)["files"]
    valid(entry)
    assert entry["output"]


def test_wrong_forms_are_distinguished(notebook):
    for wrong in ({"rule": "HVD1"}, {"cell": -1}, {"line": 0}, {"more": 1}):
        answer = answer_convert({"notebook": notebook}, ROOT)
        answer["changes"][0] |= wrong
        with pytest.raises(jsonschema.ValidationError):
            valid(answer)


def test_the_fixture_of_the_typescript_tests():
    """Its edits make of its cells what its converted notebook holds, by Python's own hand."""
    valid(FIXTURE["conversion"])
    pairs = zip(
        FIXTURE["notebook"]["cells"], FIXTURE["conversion"]["notebook"]["cells"], strict=True
    )
    for index, (before, after) in enumerate(pairs):
        edits = [
            Edit(**edit)
            for change in FIXTURE["conversion"]["changes"]
            if change["cell"] == index
            for edit in change["edits"]
            if edit["unless"] is None
        ]
        assert apply_edits(before["source"], edits) == after["source"]


@pytest.mark.needs("types")
def test_the_types_are_made_from_the_schema():
    types = ROOT / "labextension" / "src" / "conversion.ts"
    before = types.read_text()
    subprocess.run(["jlpm", "types"], cwd=ROOT, check=True, capture_output=True)
    assert types.read_text() == before
