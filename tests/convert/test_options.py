"""Options of the conversion, and the settings of a project."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_hvd import convert_source

FIT = """import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', 'mse')
model.fit(x, y)  # hvd: ignore[HVD403]
"""


def test_ignore_comment() -> None:
    assert "verbose" not in convert_source(FIT).code
    assert "verbose" in convert_source(FIT.replace("HVD403", "HVD401")).code
    bare = convert_source(FIT.replace("ignore[HVD403]", "ignore"))
    assert "HVD401" not in {change.rule for change in bare.changes}


def rules(done) -> set[str]:
    return {change["rule"] for change in json.loads(done.stdout)["files"][0]["changes"]}


def test_settings_of_a_project(hvd, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.jupyter-hvd]\nignore = ["HVD4"]\n')
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "train.py").write_text(FIT)
    assert "HVD401" not in rules(hvd("convert", "deep/train.py", "--check", "--json"))
    done = hvd("convert", "deep/train.py", "--check", "--json", "--ignore", "HVD803")
    assert "HVD401" in rules(done)
    assert "HVD803" not in rules(done)


@pytest.mark.parametrize("text", ["[tool.jupyter-hvd]\nselct = []\n", "[tool"])
def test_wrong_settings(hvd, tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "train.py").write_text(FIT)
    done = hvd("convert", "train.py")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "pyproject.toml" in done.stderr


def test_a_notebook_keeps_its_options(hvd, tmp_path: Path) -> None:
    """The command line goes before them, and they before the project's."""
    notebook = new_notebook(cells=[new_code_cell(FIT)])
    notebook.metadata["jupyter_hvd"] = {"options": {"ignore": ["HVD803"]}}
    nbformat.write(notebook, tmp_path / "train.ipynb")
    (tmp_path / "pyproject.toml").write_text('[tool.jupyter-hvd]\nignore = ["HVD401"]\n')
    kept = rules(hvd("convert", "train.ipynb", "--check", "--json"))
    assert "HVD803" not in kept
    assert "HVD401" in kept
    given = rules(hvd("convert", "train.ipynb", "--check", "--json", "--ignore", "HVD801"))
    assert "HVD803" in given
    assert "HVD801" not in given
    notebook.metadata["jupyter_hvd"] = {"options": {"data": "some"}}
    nbformat.write(notebook, tmp_path / "train.ipynb")
    done = hvd("convert", "train.ipynb", "--check")
    assert done.returncode == 2
    assert "metadata" in done.stderr
    assert "data" in done.stderr


REMOVED = {
    "an option": (("--compression", "fp16"), "--compression was removed: gradients are sent in full precision"),
    "with a value behind =": (("--compression=none",), "--compression was removed"),
    "another option": (("--backward-passes-per-step", "2"), "leave it out, or choose a larger batch size"),
    "a value": (("--batch", "scaled"), "--batch scaled was removed: write per-rank"),
    "a value behind =": (("--batch=scaled",), "write per-rank"),
}  # fmt: skip


@pytest.mark.parametrize("name", REMOVED)
def test_removed_options_say_what_to_use_instead(hvd, tmp_path: Path, name: str) -> None:
    words, advice = REMOVED[name]
    (tmp_path / "train.py").write_text(FIT)
    done = hvd("convert", "train.py", *words)
    assert done.returncode == 2
    assert advice in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "advice"),
    [('batch = "scaled"', "write per-rank"), ('compression = "fp16"', "compression was removed"),
     ("backward_passes_per_step = 2", "backward-passes-per-step was removed")],
)  # fmt: skip
def test_removed_settings_say_what_to_use_instead(hvd, tmp_path: Path, line: str, advice: str) -> None:  # fmt: skip
    (tmp_path / "pyproject.toml").write_text(f"[tool.jupyter-hvd]\n{line}\n")
    (tmp_path / "train.py").write_text(FIT)
    done = hvd("convert", "train.py")
    assert done.returncode == 2
    assert advice in done.stderr
    assert "pyproject.toml:2" in done.stderr


def test_removed_options_of_a_notebook(hvd, tmp_path: Path) -> None:
    notebook = new_notebook(cells=[new_code_cell(FIT)])
    notebook.metadata["jupyter_hvd"] = {"options": {"backward_passes_per_step": 2}}
    nbformat.write(notebook, tmp_path / "train.ipynb")
    done = hvd("convert", "train.ipynb", "--check")
    assert done.returncode == 2
    assert "backward-passes-per-step was removed" in done.stderr
