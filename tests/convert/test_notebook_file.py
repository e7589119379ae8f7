"""A notebook's file: read as JupyterLab reads it, and as it was but for the cells that change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_hvd.convert.documents import Notebook, load_notebook
from jupyter_hvd.files import UnusableInputError

TRAINING = [
    "import tensorflow as tf\n",
    "\n",
    "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])  # ☃\n",
    "model.compile('sgd', 'mse')\n",
    "model.fit(x, y)",
]


def cells(**more: Any) -> list[dict[str, Any]]:
    output = {"name": "stdout", "output_type": "stream", "text": ["old\n"]}
    return [
        {"cell_type": "markdown", "source": ["# Title"], "metadata": {}, "id": "one"},
        {"source": TRAINING, "outputs": [output], "execution_count": 3, "metadata": {"tags": []}}
        | {"cell_type": "code", "id": "two", **more},
        {"cell_type": "code", "metadata": {}, "id": "three", "execution_count": None}
        | {"outputs": [output], "source": ["x = 1.50\n", "!ls"]},
    ]


def notebook(**more: Any) -> dict[str, Any]:
    return {
        "nbformat_minor": 4,
        "metadata": {"z": 1e-05, "kernelspec": {"name": "python3", "language": "python"}, "a": {}},
        "cells": cells(**more),
        "nbformat": 4,
    }


def loaded(folder: Path, text: str) -> Notebook:
    path = folder / "train.ipynb"
    path.write_text(text, encoding="utf-8")
    return load_notebook(path)


def form(text: str) -> list[str]:
    """The lines of a file, but for those of the texts of cells."""
    return [line for line in text.splitlines() if not line.lstrip().startswith(("import", '"'))]


@pytest.mark.parametrize("minor", [0, 4, 5, 9])
def test_ids_are_read_in_any_minor_version(tmp_path: Path, minor: int) -> None:
    text = json.dumps(notebook() | {"nbformat_minor": minor})
    assert loaded(tmp_path, text).convert()[0].status == "converted"


@pytest.mark.parametrize(
    "layout",
    [
        {"indent": 1, "ensure_ascii": False},
        {"indent": 2},
        {"indent": "\t", "ensure_ascii": False},
        {},
    ],
)
def test_only_changed_cells_change_in_the_file(tmp_path: Path, layout: dict[str, Any]) -> None:
    text = json.dumps(notebook(), **layout) + "\n"
    document = loaded(tmp_path, text)
    assert document.as_bytes().decode() == text, "an unchanged one is written as it was"
    outcome, converted = document.convert()
    assert outcome.status == "converted"
    written = converted.as_bytes().decode()
    was, now = json.loads(text), json.loads(written)
    changed = now["cells"][1]
    assert "hvd" in "".join(changed["source"])
    assert all(line.endswith("\n") for line in changed["source"][:-1])
    assert (changed["outputs"], changed["execution_count"]) == ([], None)
    expected = notebook()
    expected["cells"][1] |= {key: changed[key] for key in ("source", "outputs", "execution_count")}
    assert json.dumps(expected, **layout) + "\n" == written
    assert list(now) == list(was)


def test_source_that_is_one_string_stays_one(tmp_path: Path) -> None:
    document = loaded(tmp_path, json.dumps(notebook(source="".join(TRAINING)), indent=1))
    written = json.loads(document.convert()[1].as_bytes())
    assert isinstance(written["cells"][1]["source"], str)


def test_lone_surrogate_in_a_changed_cell(tmp_path: Path) -> None:
    document = loaded(tmp_path, json.dumps(notebook(source=[*TRAINING, "\ns = '\ud800'"])))
    written = json.loads(document.convert()[1].as_bytes())
    assert "\ud800" in "".join(written["cells"][1]["source"])


def test_older_format_is_written_in_the_new_one(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "language": "python", "outputs": [], "collapsed": False}
    sheet = {"cells": [cell | {"input": TRAINING}], "metadata": {}}
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [sheet]}
    _, converted = loaded(tmp_path, json.dumps(old)).convert()
    nbformat.validate(nbformat.reads(converted.as_bytes().decode(), as_version=4))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"cells": 3}, "cells"),
        ({"cells": [3]}, ""),
        ({"cells": [{"cell_type": "code"}]}, "cell 0 has no text"),
        ({"cells": [{"source": "x"}]}, "cell 0 has no type"),
        ({"nbformat": 7}, "version 7"),
        ({"metadata": 3}, "metadata"),
    ],
)
def test_what_is_no_notebook_is_refused(
    tmp_path: Path, broken: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnusableInputError, match=f"not a Jupyter notebook.*{reason}"):
        loaded(tmp_path, json.dumps(notebook() | broken))
