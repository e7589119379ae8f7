"""`jupyter hvd convert`, `rule` and `doctor`: exit codes, JSON, files, and every kind of bad input."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from jupyter_hvd import doctor

PROGRAM = "import tensorflow as tf\n\nmodel = tf.keras.Sequential()\nmodel.compile('sgd')\nmodel.fit(x, y)\n"
HOROVOD = "import horovod.tensorflow as hvd\n" + PROGRAM


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def written(tmp_path: Path) -> set[str]:
    return {p.name for p in tmp_path.iterdir()}


def test_writes_beside_the_input(hvd_process, hvd, script: Path, tmp_path: Path) -> None:
    done = hvd_process("convert", script)
    assert done.returncode == 0, done.stderr
    assert written(tmp_path) == {"train.py", "train_hvd.py"}
    assert "import horovod" in (tmp_path / "train_hvd.py").read_text()
    assert script.read_text() == PROGRAM
    assert hvd("convert", script).returncode == 0, "its own output is replaced"


def test_never_over_a_file_of_the_user(hvd, script: Path, tmp_path: Path) -> None:
    (tmp_path / "train_hvd.py").write_text("mine")
    done = hvd("convert", script)
    assert done.returncode == 2
    assert (tmp_path / "train_hvd.py").read_text() == "mine"
    assert "-o" in done.stderr


def test_output_and_in_place(hvd, script: Path, tmp_path: Path) -> None:
    script.chmod(0o750)
    assert hvd("convert", script, "-o", tmp_path / "out.py").returncode == 0
    assert hvd("convert", script, "--in-place").returncode == 0
    assert script.read_text() == (tmp_path / "out.py").read_text() != PROGRAM
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert written(tmp_path) == {"train.py", "out.py"}


def test_check_and_diff_write_as_they_say(hvd, script: Path, tmp_path: Path) -> None:
    done = hvd("convert", script, "--diff", "--check")
    assert done.returncode == 0
    assert "+import horovod.tensorflow as hvd" in done.stdout
    assert written(tmp_path) == {"train.py"}


def test_json(hvd, script: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("print('nothing to do')\n")
    (tmp_path / "old.py").write_text(HOROVOD)
    done = hvd("convert", script, tmp_path / "other.py", tmp_path / "old.py", "--json")
    assert done.returncode == 1
    files = json.loads(done.stdout)["files"]
    assert [f["status"] for f in files] == ["converted", "unchanged", "refused"]
    assert [f["training_loop"] for f in files] == ["keras_fit", "none", "keras_fit"]
    assert files[0]["output"] == str(tmp_path / "train_hvd.py")
    assert files[1]["output"] is files[2]["output"] is None
    assert set(files[0]["changes"][0]) >= {"rule", "cell", "line", "before", "after", "why"}
    (diagnostic,) = files[2]["diagnostics"]
    assert diagnostic["code"] == "HVD901"
    assert set(diagnostic) == {"code", "severity", "cell", "line", "column", "message", "help"}


def test_select_and_ignore(hvd, script: Path) -> None:
    done = hvd("convert", script, "--check", "--json", "--ignore", "HVD4,HVD8")
    rules = {c["rule"] for c in json.loads(done.stdout)["files"][0]["changes"]}
    assert rules == {"HVD202", "HVD701"}
    done = hvd("convert", script, "--check", "--json", "--select", "HVD202")
    changes = json.loads(done.stdout)["files"][0]["changes"]
    assert {c["rule"]: c["provides"] for c in changes} == {"HVD202": None, "HVD701": "runtime"}


def notebook_text(**metadata: object) -> str:
    return nbformat.writes(new_notebook(cells=[new_code_cell(PROGRAM)], metadata=metadata))


BAD = {
    "malformed.ipynb": (b'{"cells": [', "not a Jupyter notebook"),
    "list.ipynb": (b"[]", "not a Jupyter notebook"),
    "julia.ipynb": (
        notebook_text(
            kernelspec={"name": "julia", "language": "julia", "display_name": "J"}
        ).encode(),
        "written in julia",
    ),
    "latin1.py": ("# größer\n".encode("latin-1") + PROGRAM.encode(), "UTF-8"),
    "latin1.ipynb": ('{"cells": [], "metadata": {"a": "ä"}}'.encode("latin-1"), "UTF-8"),
    "notes.txt": (b"hello", "neither a notebook"),
}


@pytest.mark.parametrize("name", BAD)
def test_unusable_input(hvd, tmp_path: Path, name: str) -> None:
    data, message = BAD[name]
    (tmp_path / name).write_bytes(data)
    done = hvd("convert", name)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert written(tmp_path) == {name}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import tensorflow as tf\nx = (\n", "valid Python"),
        ("print 'loss', 1\n", "Python 2"),
        ("x = 1\n\ty = 2\n", "valid"),
    ],
)
def test_syntax_errors(hvd, tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "bad.py").write_text(source)
    done = hvd("convert", "bad.py")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "bad.py:" in done.stderr
    assert written(tmp_path) == {"bad.py"}


def test_syntax_error_in_a_cell(hvd, tmp_path: Path) -> None:
    cells = [new_code_cell("import tensorflow as tf"), new_code_cell("a = 1\nfor x in:\n    pass")]
    (tmp_path / "bad.ipynb").write_text(nbformat.writes(new_notebook(cells=cells)))
    done = hvd("convert", "bad.ipynb")
    assert done.returncode == 2
    assert "bad.ipynb:cell 1:2:" in done.stderr


def test_missing_file(hvd) -> None:
    done = hvd("convert", "nowhere.ipynb")
    assert (done.returncode, done.stderr) == (
        2,
        "jupyter hvd: nowhere.ipynb: there is no such file\n",
    )


def test_unwritable_target(hvd, script: Path, tmp_path: Path) -> None:
    done = hvd("convert", script, "-o", tmp_path / "no" / "such" / "folder.py")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert written(tmp_path) == {"train.py"}


def test_empty_notebook(hvd, tmp_path: Path) -> None:
    (tmp_path / "empty.ipynb").write_text(nbformat.writes(new_notebook()))
    done = hvd("convert", "empty.ipynb", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["files"][0]["status"] == "unchanged"


def test_large_notebook(hvd, tmp_path: Path) -> None:
    """50 MB, nearly all of it pictures in outputs, as large notebooks are."""
    picture = new_output("display_data", data={"image/png": "A" * 5_000_000})
    cells = [new_code_cell(PROGRAM), *(new_code_cell("1", outputs=[picture]) for _ in range(10))]
    (tmp_path / "large.ipynb").write_text(nbformat.writes(new_notebook(cells=cells)))
    done = hvd("convert", "large.ipynb")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "large_hvd.ipynb").stat().st_size > 50_000_000


def test_too_much_source(hvd, tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("x = 1\n" * 1_000_000)
    done = hvd("convert", "long.py")
    assert done.returncode == 2
    assert "too much to convert" in done.stderr


def test_encoding_and_newlines_stay(hvd, tmp_path: Path) -> None:
    text = "# -*- coding: latin-1 -*-\n# größer\n" + PROGRAM
    (tmp_path / "old.py").write_bytes(text.replace("\n", "\r\n").encode("latin-1"))
    assert hvd("convert", "old.py").returncode == 0
    converted = (tmp_path / "old_hvd.py").read_bytes()
    assert "größer".encode("latin-1") in converted
    assert converted.count(b"\n") == converted.count(b"\r\n")


def test_usage(hvd) -> None:
    assert hvd().returncode == 2
    assert hvd("convert").returncode == 2
    assert hvd("convert", "a.py", "-o", "b.py", "--in-place").returncode == 2
    assert hvd("rule", "HVD999").returncode == 2


def test_rule(hvd) -> None:
    assert "HVD401" in hvd("rule").stdout
    page = hvd("rule", "hvd401").stdout
    assert "broadcast" in page
    assert "jhvd.BroadcastGlobalVariablesCallback(" in page


@pytest.mark.slow
@pytest.mark.long
def test_doctor(hvd) -> None:
    """What is there, and what is missing and need not be there."""
    done = hvd("doctor")
    assert done.returncode == 0, done.stdout
    assert "MPI         --launcher mpirun: Horovod was built without MPI" in done.stdout
    assert "Gloo" in done.stdout
    for name in ("TensorFlow", "Keras", "Horovod", "JAX", "JupyterLab"):
        assert name in done.stdout


def test_import_is_light() -> None:
    program = (
        "import sys, jupyter_hvd, jupyter_hvd.cli\n"
        "print([m for m in ('tensorflow', 'jax', 'horovod', 'libcst', 'rich', 'nbformat') if m in sys.modules])\n"
        "jupyter_hvd.convert_source('x = 1')\n"
        "print('libcst.matchers' in sys.modules)"  # twice as long to import as LibCST
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[]", "False"]


@pytest.mark.slow
def test_atomic_under_interruption(script: Path, tmp_path: Path) -> None:
    """Killed at any moment, the output is whole or not there."""
    whole = None
    for delay in (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.6, 2.0, None):
        output = tmp_path / "out.py"
        output.unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_hvd", "convert", str(script), "-o", str(output)],
            stderr=subprocess.DEVNULL,
        )
        if delay is not None:
            time.sleep(delay)
            process.kill()
        process.wait()
        if output.exists():
            whole = whole or output.read_text()
            assert output.read_text() == whole
    assert whole is not None
    assert "jhvd.start_shared()" in whole


# The limit of a conversion


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A script whose conversion takes minutes: every line asks for all lines before it."""
    path = tmp_path / "slow.py"
    path.write_text(PROGRAM + "a = a + b\n" * 40_000)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["convert"],
        ["convert", "--check"],
        ["convert", "--diff"],
        ["verify"],
        ["run", "-n", "2"],
        ["job", "--slurm", "-n", "2"],
    ],
    ids=" ".join,
)
def test_a_conversion_that_takes_too_long_is_ended(
    hvd_process, slow: Path, words: list[str], tmp_path: Path
) -> None:
    done = hvd_process(words[0], slow, *words[1:], "--conversion-limit", "2")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "the conversion took more than 2 s and was ended while it " in line
    assert "--conversion-limit" in line
    assert written(tmp_path) == {"slow.py"}


@pytest.mark.slow
def test_the_limit_is_for_each_file(hvd, slow: Path, script: Path) -> None:
    done = hvd("convert", slow, script, "--check", "--json", "--conversion-limit", "5")
    assert [f["status"] for f in json.loads(done.stdout)["files"]] == ["invalid", "converted"]
    assert done.returncode == 2


@pytest.mark.parametrize("wrong", ["-1", "soon", "nan"])
def test_wrong_limits(hvd, script: Path, wrong: str) -> None:
    done = hvd("convert", script, "--check", f"--conversion-limit={wrong}")
    assert done.returncode == 2
    assert "--conversion-limit" in done.stderr
    assert hvd("convert", script, "--check", "--conversion-limit=0").returncode == 0


@pytest.mark.slow
def test_a_slow_conversion_can_be_interrupted(slow: Path) -> None:
    command = [sys.executable, "-m", "jupyter_hvd", "convert", str(slow), "--check"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "jupyter hvd: interrupted\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "[tool.jupyter-hvd]\n" + ".".join(["a"] * 50_000) + " = 1\n",
            "line 2: a key has more than",
        ),
        ("[tool." + ".".join(["a"] * 50_000) + "]\n", "line 1: a key has more than"),
        (
            "".join(f"a.b{n} = 1\n" for n in range(50_000)) + "# " + "x" * 500_000,
            "too much for settings",
        ),
        (
            "[tool.jupyter-hvd]\n" + "".join(f"a.b{n} = 1\n" for n in range(50_000)),
            "no setting 'a'",
        ),
    ],
    ids=["parts", "table", "size", "keys"],
)
def test_settings_that_take_long_to_read(
    hvd, script: Path, tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    done = hvd("convert", script, "--check")
    assert (done.returncode, reason in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("tensorflow", "name", "version", "tested"),
    [
        ("2.21.0", "keras", "3.15.1", True),
        ("2.20.0", "keras", "3.12.0", False),
        ("2.18.1", "tf_keras", "2.18.0", True),
        ("2.18.1", "keras", "3.15.1", False),
    ],
)
def test_doctor_knows_tested_pairs(
    monkeypatch: pytest.MonkeyPatch, tensorflow: str, name: str, version: str, tested: bool
) -> None:
    """A Keras with which ranks would stop at their start is reported, with those that can be installed"""
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", str(int(name == "tf_keras")))
    versions = {"keras": "3.15.1", "tf-keras": version} | (
        {name: version} if name == "keras" else {}
    )
    monkeypatch.setattr(doctor, "version_of", lambda *names: versions.get(names[0], tensorflow))
    _, keras = doctor._check_tensorflow()
    assert keras.state == ("good" if tested else "bad")
    assert tested or "install one of keras 3.15 with TensorFlow 2.21" in keras.detail
