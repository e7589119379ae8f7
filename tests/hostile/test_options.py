"""Wrong options, wherever they stand: told at once, with their place, and nothing is converted."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_hvd import Options
from jupyter_hvd.convert import OptionError
from jupyter_hvd.files import UnusableInputError
from jupyter_hvd.server.worker import answer_convert
from jupyter_hvd.settings import settings_near

FIT = """import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', 'mse')
model.fit(x, y)
"""


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('select = "HVD1,HVD2"', "select: must be a list"),
        ("select = [1]", "select: must be a list"),
        ('ignore = ["HVD999"]', "ignore: there is no rule HVD999"),
        ('warmup-epochs = "three"', "warmup-epochs: must be a whole number"),
        ("warmup_epochs = -1", "warmup_epochs: must be a whole number"),
        ("backward-passes-per-step = 0", "backward-passes-per-step was removed: "),
        ('target = "keras3"', "target was removed: "),
        ('batch = "zip"', "batch: must be one of"),
        ("open-ended = true", "no setting 'open-ended'"),
        ("selct = []", "no setting 'selct'"),
    ],
)
def test_wrong_settings_name_their_line(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(f"[project]\nname = 'x'\n\n[tool.jupyter-hvd]\n# mine\n{line}\n")
    with pytest.raises(UnusableInputError) as error:
        settings_near(tmp_path / "train.py", Options)
    assert str(error.value).startswith(f"{file}:6: ")
    assert problem in str(error.value)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """At the bottom of a deep recursion no finalizer can run, of whatever other tests have left behind."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "text", ["[tool]\njupyter-hvd = 3\n", "tool = 3\n", "x = " + "[" * 5000, "\xff"]
)
def test_a_file_that_is_no_settings(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1"))
    if text.startswith("tool = "):
        assert settings_near(tmp_path / "train.py", Options) == {}
        return
    with pytest.raises(UnusableInputError, match=r"pyproject\.toml"):
        settings_near(tmp_path / "train.py", Options)


def test_unreadable_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(UnusableInputError, match="Permission denied"):
        settings_near(tmp_path / "train.py", Options)


def test_what_lies_in_a_shared_folder_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.jupyter-hvd]\nselect = "anything"\n')
    (tmp_path / "mine").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert settings_near(tmp_path / "mine" / "train.py", Options) == {}
    monkeypatch.undo()
    tmp_path.chmod(0o1777)
    assert settings_near(tmp_path / "mine" / "train.py", Options) == {}
    tmp_path.chmod(0o755)
    with pytest.raises(UnusableInputError):
        settings_near(tmp_path / "mine" / "train.py", Options)


@pytest.mark.parametrize(
    "wrong",
    [
        {"select": ("HVD999",)},
        {"select": "HVD1"},
        {"ignore": ("",)},
        {"warmup_epochs": True},
        {"data": "none"},
        {"open_ended": "no"},
    ],
)
def test_wrong_options_in_python(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        Options(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["convert", "verify", "run"])
def test_a_rule_that_there_is_none_of(hvd_here, tmp_path: Path, command: str) -> None:
    (tmp_path / "train.py").write_text(FIT)
    more = ["-n", "2"] if command == "run" else []
    done = hvd_here(command, "train.py", "--select", "HVD999", *more)
    assert done.returncode == 2
    assert done.stderr == (
        "jupyter hvd: --select: there is no rule HVD999; `jupyter hvd rule` lists all\n"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["train.py"]


def test_each_file_has_the_settings_of_its_own_project(hvd, tmp_path: Path) -> None:
    for name, settings in (("a", 'ignore = ["HVD4"]'), ("b", "warmup-epochs = 2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text(f"[tool.jupyter-hvd]\n{settings}\n")
        (tmp_path / name / "train.py").write_text(FIT)
    done = hvd("convert", "a/train.py", "b/train.py", "--check", "--json")
    first, second = json.loads(done.stdout)["files"]
    assert not [c for c in first["changes"] if c["rule"].startswith("HVD4")]
    assert any("warmup_epochs=2" in c["after"] for c in second["changes"])


def test_the_server_takes_the_project_s_settings_too(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [cell]}
    cell["source"] = FIT
    (tmp_path / "deep").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.jupyter-hvd]\nwarmup-epochs = 2\n")
    answer = answer_convert({"notebook": notebook, "path": "deep/train.ipynb"}, tmp_path)
    assert any("warmup_epochs=2" in change["after"] for change in answer["changes"])
