"""What is released: one version everywhere, and what the check of a wheel finds wrong."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import jupyter_hvd

ROOT = Path(__file__).parents[1]
CHECK = runpy.run_path(str(ROOT / "scripts" / "check_distributions.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGE = json.loads((ROOT / "package.json").read_text())

METADATA = """\
Metadata-Version: 2.4
Name: jupyter-hvd
Version: 0.1.0
{classifiers}
{extras}

[docs](https://example.org/docs.md)
"""


def contents() -> dict[str, str]:
    """The files of a wheel that is as it must be."""
    licences = [
        {"name": name, "licenseId": "ISC", "extractedText": "Permission …"}
        for name in CHECK["BUNDLED"]
    ]
    metadata = METADATA.format(
        classifiers="\n".join(f"Classifier: {c}" for c in CHECK["CLASSIFIERS"]),
        extras="\n".join(f"Provides-Extra: {e}" for e in CHECK["EXTRAS"]),
    )
    return {
        **dict.fromkeys(CHECK["NEEDED"], ""),
        CHECK["LICENCES"]: json.dumps({"packages": licences}),
        "jupyter_hvd-0.1.0.dist-info/METADATA": metadata,
    }


def problems(folder: Path, files: dict[str, str]) -> list[str]:
    path = folder / "jupyter_hvd-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return list(CHECK["problems_of_wheel"](path))


def test_a_wheel_as_it_must_be(tmp_path):
    assert problems(tmp_path, contents()) == []


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("jupyter_hvd/tests/test_a.py", "", "does not belong"),
        ("jupyter_hvd/__pycache__/a.cpython-311.pyc", "", "does not belong"),
        ("jupyter_hvd/.mypy_cache/a.json", "", "does not belong"),
        ("share/jupyter/labextensions/jupyter-hvd/static/1.js.map", "", "does not belong"),
        (CHECK["NEEDED"][0], None, "it lacks share/jupyter"),
        (CHECK["LICENCES"], '{"packages": []}', "the licence of style-mod is missing"),
        ("jupyter_hvd-0.1.0.dist-info/METADATA", "Name: a\n\n[a](a.md)", "links to a.md"),
        ("jupyter_hvd-0.1.0.dist-info/METADATA", "Name: a\n\n", "the extra lab is missing"),
        ("jupyter_hvd-0.1.0.dist-info/METADATA", "Name: a\n\n", ":: Prebuilt is missing"),
    ],
)
def test_what_is_wrong_with_a_wheel(tmp_path, name, text, problem):
    files = {**contents(), name: text}
    found = problems(tmp_path, {key: value for key, value in files.items() if value is not None})
    assert any(problem in each for each in found), found


def test_one_version_everywhere():
    citation = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert citation
    versions = {
        PROJECT["project"]["version"],
        PROJECT["tool"]["tbump"]["version"]["current"],
        PACKAGE["version"],
        citation[1],
    }
    assert versions == {jupyter_hvd.__version__}


def test_one_address_everywhere():
    home = PROJECT["project"]["urls"]["Repository"]
    assert PACKAGE["homepage"] == home
    assert PACKAGE["repository"]["url"] == f"{home}.git"
    assert PACKAGE["bugs"]["url"] == PROJECT["project"]["urls"]["Issues"] == f"{home}/issues"
    assert f"repository-code: {home}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("field", ["description", "author", "license", "keywords", "files"])
def test_the_extension_can_be_published(field: str) -> None:
    package: dict[str, Any] = PACKAGE
    assert package[field]
    assert not package.get("private")
    assert package["jupyterlab"]["discovery"]["server"]["base"]["name"] == "jupyter_hvd"
