"""Odd files: read, refused in one line, and never replaced by something else than was asked for."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_hvd.convert.documents import Notebook, load_document
from jupyter_hvd.files import UnusableInputError, write_atomically

FIT = """import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', 'mse')
model.fit(x, y)
"""


def notebook_of(source: str) -> str:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [cell | {"source": source}]
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells})


def test_in_place_through_a_link(hvd, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "train.py").write_text(FIT)
    (tmp_path / "link.py").symlink_to("real/train.py")
    assert hvd("convert", "link.py", "--in-place").returncode == 0
    assert (tmp_path / "link.py").readlink() == Path("real/train.py")
    assert "horovod" in (tmp_path / "real" / "train.py").read_text()


def test_a_fifo_and_a_device_are_left_alone(tmp_path: Path) -> None:
    pipe = tmp_path / "out.py"
    os.mkfifo(pipe)
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    for path in (pipe, tmp_path / "zero.py", Path("/dev/null")):
        with pytest.raises(UnusableInputError, match="not a regular file"):
            write_atomically(path, b"x")
        assert not stat.S_ISREG(path.stat().st_mode)
    for path in (pipe, tmp_path / "zero.py"):
        with pytest.raises(UnusableInputError, match="not a regular file"):
            load_document(path)


def test_what_lies_in_the_place_of_the_output(hvd, tmp_path: Path) -> None:
    """A folder, a fifo or a link that leads nowhere under the output's name is not replaced."""
    (tmp_path / "train.py").write_text(FIT)
    place = tmp_path / "train_hvd.py"
    for make in (place.mkdir, lambda: os.mkfifo(place), lambda: place.symlink_to("nowhere")):
        make()
        done = hvd("convert", "train.py")
        assert done.returncode == 2
        assert "is there already" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        place.rmdir() if place.is_dir() else place.unlink()


def test_a_notebook_with_a_byte_order_mark(hvd, tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_bytes(b"\xef\xbb\xbf" + notebook_of(FIT).encode())
    done = hvd("convert", "train.ipynb")
    assert done.returncode == 0, done.stderr
    assert "horovod" in (tmp_path / "train_hvd.ipynb").read_text()


def test_a_lone_surrogate_is_written_as_it_came(tmp_path: Path) -> None:
    file = tmp_path / "text.ipynb"
    file.write_text(notebook_of("x = 1  # \ud800"), encoding="utf-8")
    document = load_document(file)
    assert isinstance(document, Notebook)
    assert "\\ud800" in document.as_bytes().decode()


@pytest.mark.parametrize(
    "name", ["x" * 300 + ".py", "x" * 300 + ".ipynb", "no\nsuch.py", "\udcff.py"]
)
def test_names(hvd, name: str) -> None:
    done = hvd("convert", name)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("jupyter hvd: ")


@pytest.mark.parametrize(
    "source", ["a = 1\n" * 300_000, "a=1;" * 300_000], ids=["lines", "semicolons"]
)
def test_very_many_statements(hvd, tmp_path: Path, source: str) -> None:
    (tmp_path / "long.py").write_text(FIT + source)
    done = hvd("convert", "long.py")
    assert done.returncode == 2
    assert "too many to convert; the limit is 50,000" in done.stderr


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FIT * 50)
    command = f"{sys.executable} -m jupyter_hvd convert train.py --check --json | head -c 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.slow
def test_modules_in_the_working_folder(hvd_process, tmp_path: Path) -> None:
    """`python -m jupyter_hvd` imports nothing from where it is called."""
    for name in ("nbformat", "libcst", "rich", "psutil"):
        (tmp_path / f"{name}.py").write_text("open('mark', 'w').close()\nraise ImportError\n")
    (tmp_path / "train.ipynb").write_text(notebook_of(FIT))
    assert hvd_process("convert", "train.ipynb", "--diff").returncode == 0
    (tmp_path / "plain.py").write_text("x = 1\n")
    done = hvd_process("verify", "plain.py", "--batch", "global", "-n", "2")
    assert "no result of it was observed" in done.stdout, done.stderr
    assert not (tmp_path / "mark").exists()
