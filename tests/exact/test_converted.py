"""Programs converted with `--batch global`, on two ranks: they print what one process does, once, into one folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CompletedProcess

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

sys.path.insert(0, str(Path(__file__).parent))

from shared_laboratory import ENVIRONMENT, PROGRAMS

from jupyter_hvd.verify.exact.compare import TOLERANCE
from jupyter_hvd.verify.exact.text_comparison import compare_texts

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exact")]
#: They train by `fit`, a tape, a step of their own, layers alone, and from one to three models.
CONVERTED = (
    "train_step_ema",
    "eager_calls",
    "wgan_gp",
    "lstm_masks",
    "several_inputs",
    "transformer",
)
HOROVODRUN = Path(sys.executable).with_name("horovodrun")
#: It draws before TensorFlow is imported, writes files and reads them, and drops.
FILES = """import os
import random
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np

x = np.random.rand(14, 3).astype("float32")
Path("drawn.txt").write_text(f"{random.random()}")
Path(f"process-{os.getpid()}").touch()
import tensorflow as tf

model = tf.keras.Sequential(
    [tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dropout(0.3), tf.keras.layers.Dense(1)]
)
model.compile("adam", "mse")
model.fit(x, x[:, :1], batch_size=5, epochs=2, verbose=0)
model.save("model.keras")
from jupyter_hvd.runtime.sharing.context import sharing

print("shared", sharing.has_shared, "of", sharing.size, sorted(p.name for p in Path().glob("*.*")))
"""


def run(*command: object, folder: Path, environment: Mapping[str, str] = ENVIRONMENT) -> str:
    """What a command prints on standard output."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def assert_same(one: str, ranks: str) -> None:
    """The same text, and numbers within the tolerance of `verify`."""
    compared, differences = compare_texts(one.splitlines(), ranks.splitlines(), TOLERANCE)
    assert differences == []
    assert compared


def run_converted(path: Path) -> str:
    """Convert a file, and run the outcome on two ranks; what rank 0 prints. Others print nothing."""
    hvd = (sys.executable, "-m", "jupyter_hvd")
    run(*hvd, "convert", path, "--batch", "global", folder=path.parent)
    converted = path.with_stem(f"{path.stem}_hvd")
    return run(*hvd, "run", converted, "-n", 2, "--no-log", folder=path.parent)


@pytest.mark.thorough
@pytest.mark.parametrize("program", CONVERTED)
def test_equal_to_one_process(tmp_path: Path, program: str) -> None:
    path = tmp_path / f"{program}.py"
    path.write_text((PROGRAMS / path.name).read_text())
    one = run(sys.executable, path, folder=tmp_path)
    assert one.strip()
    assert_same(one, run_converted(path))


@pytest.mark.long
def test_a_notebook(
    tmp_path: Path, run_forked_script: Callable[..., CompletedProcess[str]]
) -> None:
    source = (PROGRAMS / "train_step_ema.py").read_text()
    head, tail = source.split("\nfor ", 1) if "\nfor " in source else (source, "")
    cells = ["%matplotlib inline\n" + head, *(["for " + tail] if tail else [])]
    path = tmp_path / "train.ipynb"
    nbformat.write(new_notebook(cells=[*map(new_code_cell, cells)]), path)
    (tmp_path / "train.py").write_text(source)
    environment = {**os.environ, **ENVIRONMENT}
    one = run_forked_script(tmp_path / "train.py", cwd=tmp_path, env=environment)
    assert one.returncode == 0, one.stderr
    assert_same(one.stdout, run_converted(path))


@pytest.mark.long
def test_started_by_horovodrun(
    tmp_path: Path, run_forked_script: Callable[..., CompletedProcess[str]]
) -> None:
    """Nothing of ours starts the ranks: they draw the same numbers, rank 0 alone prints and writes into the folder."""
    (tmp_path / "train.py").write_text(FILES)
    run(
        sys.executable,
        "-m",
        "jupyter_hvd",
        "convert",
        "train.py",
        "--batch",
        "global",
        folder=tmp_path,
    )
    environment = {**os.environ, **ENVIRONMENT}
    alone = run_forked_script("train_hvd.py", cwd=tmp_path, env=environment).stdout
    assert alone.startswith("shared False of 1 ['drawn.txt', 'model.keras', ")
    first = (tmp_path / "drawn.txt").read_text()
    printed = run(HOROVODRUN, "-np", 2, sys.executable, "train_hvd.py", folder=tmp_path)
    names = "['drawn.txt', 'model.keras', 'train.py', 'train_hvd.py']"
    assert [line for line in printed.splitlines() if "shared" in line] == [
        f"[0]<stdout>:shared True of 2 {names}"
    ]
    assert "[1]<stdout>" not in printed
    assert (tmp_path / "drawn.txt").read_text() != first
    assert len([*tmp_path.glob("process-*")]) == 2, "one of the program alone, and one of rank 0"


@pytest.mark.parametrize("batch", ["per-rank", pytest.param("global", marks=pytest.mark.thorough)])
@pytest.mark.long
def test_runs_where_this_package_is_not(tmp_path: Path, batch: str) -> None:
    """A stand-alone program with the file beside it; a layer that goes by the batch is told with its line."""
    source = f"""import sys
sys.modules["jupyter_hvd"] = None
{(PROGRAMS / "train_step_ema.py").read_text()}
class Centre(keras.layers.Layer):
    def call(self, x):
        return x - tf.reduce_mean(x, 0)
centre = Centre()
centre(x)
print(float(tf.norm(centre(x))))
assert not any(name.startswith("jupyter_hvd.") and sys.modules[name] for name in sys.modules)
"""
    (tmp_path / "train.py").write_text(source)
    options = ("--batch", batch, "--standalone")
    run(sys.executable, "-m", "jupyter_hvd", "convert", "train.py", *options, folder=tmp_path)
    pretending = {**ENVIRONMENT, "JUPYTER_HVD_VIRTUAL_SIZE": "2"}
    one = run(sys.executable, "train_hvd.py", folder=tmp_path, environment=pretending)
    command = (HOROVODRUN, "-np", 2, "bash", "-c", f"{sys.executable} train_hvd.py 2>&1")
    printed = run(*command, folder=tmp_path)
    lines = [
        t.removeprefix("[0]<stdout>:") for t in printed.splitlines() if t.startswith("[0]<stdout>:")
    ]
    told = [line for line in lines if line.startswith("jupyter_hvd: ")]
    assert (
        len([line for line in told if "`Centre`" in line and "(train_hvd.py, line" in line]) == 1
    ), printed
    assert_same(one, "\n".join(line for line in lines if line not in told))
