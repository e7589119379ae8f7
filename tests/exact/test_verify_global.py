"""`jupyter hvd verify --batch global`: what it confirms, what it finds, and what it says that it cannot judge."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

HERE = Path(__file__).parent
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exact")]

PROGRAM = """\
import keras
import numpy as np

x = np.random.rand(22, 3).astype("float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
log = keras.callbacks.CSVLogger("log.csv")
history = model.fit(x, x[:, :1], batch_size=5, epochs=2, verbose=2, callbacks=[log])
model.save_weights("model.weights.h5")
np.savez("kernel.npz", kernel=model.layers[0].kernel.numpy())
print("loss", history.history["loss"][-1])
"""
#: Plants a fault into the sharing, where there is some.
PLANTED = f"""\
import os, sys
sys.path.insert(0, {str(HERE)!r})
if "HOROVOD_RANK" in os.environ:
    import sharing_mutants
    fault = sharing_mutants.MUTANTS["{{name}}"](int(os.environ["HOROVOD_RANK"]))
    fault.__enter__()
"""


def verify(hvd: Any, path: Path, *options: object) -> tuple[int, dict[str, Any], dict[str, tuple]]:
    """The exit code, the outcome, and by the name of each check its status and detail."""
    done = hvd("verify", path, "--batch", "global", "-n", 2, "--json", *options)
    assert done.stdout, done.stderr
    outcome = json.loads(done.stdout)
    checks = {c["check"]: (c["status"], c["detail"]) for c in outcome["checks"]}
    return done.returncode, outcome, checks


def write(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    path = folder / "train.py"
    path.write_text(text)
    return path


def test_a_program_that_holds(hvd, tmp_path: Path) -> None:
    path = write(tmp_path, PROGRAM)
    code, outcome, checks = verify(hvd, path)
    assert (code, outcome["holds"], outcome["steps"]) == (0, True, 10), outcome
    assert checks["one process"] == ("pass", "10 steps, to the end")
    assert checks["2 ranks: steps"] == ("pass", "10 steps, 2 epochs of fit")
    assert checks["2 ranks: losses"] == ("pass", "10 losses")
    assert checks["2 ranks: learning rates"] == ("pass", "10 rates")
    assert checks["2 ranks: files"] == ("pass", "3 files")
    assert checks["2 ranks: history"] == ("pass", "2 values")
    assert "not divided by 2: 5" in checks["2 ranks: work shared"][1]
    assert all(status == "pass" for status, _ in checks.values()), checks
    assert [p.name for p in path.parent.iterdir()] == ["train.py"]


def test_a_fault_is_found_with_step_variable_and_line(hvd, tmp_path: Path) -> None:
    path = write(tmp_path, PLANTED.format(name="no_average") + PROGRAM)
    code, outcome, checks = verify(hvd, path)
    line = PLANTED.count("\n") + 8
    assert (code, outcome["holds"]) == (1, False)
    first = outcome["first_difference"]
    assert (first["step"], first["line"]) == (1, f"train.py, line {line}"), first
    assert "the gradient for `sequential/dense" in checks["2 ranks: gradients, updates"][1]
    assert checks["2 ranks: final weights"][0] == "fail"
    assert checks["2 ranks: ending"][0] == "pass"


@pytest.mark.thorough
def test_a_rank_that_differs_from_the_others(hvd, tmp_path: Path) -> None:
    """What rank 1 alone writes shows in no record of rank 0."""
    last = "import os\nopen('rank.txt', 'w').write('x' * (1 + (os.environ.get('HOROVOD_RANK') == '1')))\n"
    code, _, checks = verify(hvd, write(tmp_path, PROGRAM + last))
    assert code == 1
    status, detail = checks["2 ranks: ranks agree"]
    assert status == "fail"
    assert "rank 1 differs from rank 0 in files: rank.txt" in detail
    assert checks["2 ranks: files"] == ("pass", "4 files")


@pytest.mark.thorough
def test_what_one_process_does_not_do_twice_is_not_judged(hvd, tmp_path: Path) -> None:
    seeded = "np.random.default_rng(int.from_bytes(os.urandom(4))).random((22, 3))"
    text = PROGRAM.replace("np.random.rand(22, 3)", seeded)
    code, outcome, checks = verify(hvd, write(tmp_path, f"import os\n{text}"))
    assert (code, outcome["holds"]) == (1, False)
    status, detail = checks["reproducible"]
    assert status == "unknown"
    assert detail.startswith("two runs in one process with equal seeds differ")
    assert not any(status == "fail" for status, _ in checks.values())


@pytest.mark.thorough
def test_a_time_that_is_printed_is_left_out(hvd, tmp_path: Path) -> None:
    code, _, checks = verify(
        hvd, write(tmp_path, f"import time\n{PROGRAM}print(time.time() % 100)\n")
    )
    assert code == 0
    assert "but for 1 that vary" in checks["2 ranks: printed output"][1]


@pytest.mark.long
def test_a_file_that_ranks_make_larger_is_found(hvd, tmp_path: Path) -> None:
    """The original runs again: its files are there as long as they are compared."""
    last = (
        "import os\nopen('size.bin', 'wb').write(b'\\xff' * (3 + ('HOROVOD_RANK' in os.environ)))\n"
    )
    _, _, checks = verify(hvd, write(tmp_path, PROGRAM + last))
    assert checks["2 ranks: files"] == ("fail", "size.bin has 4 bytes; 3 in one process")


@pytest.mark.thorough
def test_an_error_is_compared_and_steps_are_limited(hvd, tmp_path: Path) -> None:
    text = PROGRAM + "raise ValueError(f'stopped after {len(history.epoch)} epochs')\n"
    path = write(tmp_path, text)
    code, _, checks = verify(hvd, path)
    assert code == 0, checks
    assert checks["2 ranks: ending"] == ("pass", "both: ValueError: stopped after 2 epochs")
    code, outcome, checks = verify(hvd, path, "--steps", 3)
    assert (code, outcome["steps"]) == (0, 3), checks
    assert checks["one process"] == ("pass", "3 steps, stopped there as --steps asks")
    assert checks["2 ranks: history"] == ("unknown", "not observed")


def test_rank_0_fails_later_than_the_others(hvd, tmp_path: Path) -> None:
    text = "import os, time\ntime.sleep(os.environ.get('HOROVOD_RANK') == '0')\nraise ValueError('no data')\n"
    _, _, checks = verify(hvd, write(tmp_path, text))
    assert checks["2 ranks: ending"] == ("pass", "both: ValueError: no data"), checks
    assert checks["2 ranks: ranks agree"][0] == "pass"


@pytest.mark.thorough
def test_a_notebook_names_the_cell(hvd, tmp_path: Path) -> None:
    cells = [
        new_code_cell(PLANTED.format(name="sum_of_gradients")),
        new_markdown_cell("The training"),
        new_code_cell(PROGRAM),
    ]
    path = tmp_path / "train.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    code, outcome, _ = verify(hvd, path)
    assert code == 1
    assert outcome["first_difference"]["line"] == "cell 2, line 8"


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("import horovod.tensorflow\n", (), "it uses Horovod itself"),
        ("", ("--tolerance", 2), "--tolerance: must be between 0 and 1"),
    ],
)
def test_what_is_refused(hvd, tmp_path: Path, text: str, options: tuple, said: str) -> None:
    done = hvd("verify", write(tmp_path, text), "--batch", "global", *options)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.thorough
def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    path = write(tmp_path, f"import time\n{PROGRAM}open('there', 'w')\ntime.sleep(600)\n")
    command = [sys.executable, "-m", "jupyter_hvd", "verify", path, "--batch", "global", "-n", "2"]
    environment = {**os.environ, "JUPYTER_HVD_TEST": mark, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        # A shell's background job ignores it, and what that starts does, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        while not list(tmp_path.glob("jupyter-hvd-*/*/cwd-0/there")):
            assert process.poll() is None
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        process.kill()
    assert process.returncode != 0
    assert not list(tmp_path.glob("jupyter-hvd-*"))
    left = [p for p in psutil.process_iter() if mark in marks_of(p)]
    assert not left


def marks_of(process: psutil.Process) -> str:
    try:
        return process.environ().get("JUPYTER_HVD_TEST", "")
    except psutil.Error:
        return ""


@pytest.mark.long
def test_a_project_s_settings_choose_the_batch(hvd, tmp_path: Path) -> None:
    path = write(tmp_path, PROGRAM)
    (path.parent / "pyproject.toml").write_text('[tool.jupyter-hvd]\nbatch = "global"\n')
    done = hvd("verify", path, "-n", 2, "--steps", 2, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 ranks: losses" in {check["check"] for check in json.loads(done.stdout)["checks"]}
