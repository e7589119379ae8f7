"""Options of the conversion, and the settings of a project."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_hvd import Options, convert_source

TAPE = """import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.1)
for x, y in tf.data.Dataset.from_tensor_slices(data).batch(8):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - model(x)))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""
FIT = """import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', 'mse')
model.fit(x, y)  # hvd: ignore[HVD403]
"""


def test_compression() -> None:
    options = Options(compression="fp16")
    assert (
        "DistributedGradientTape(tape, compression=hvd.Compression.fp16)"
        in convert_source(TAPE, options=options).code
    )
    assert (
        "0.01 * hvd.size()), compression=hvd.Compression.fp16)"
        in convert_source(FIT, options=options).code
    )


def test_warmup_and_backward_passes() -> None:
    code = convert_source(FIT, options=Options(warmup_epochs=3, backward_passes_per_step=2)).code
    assert (
        "LearningRateWarmupCallback(float(model.optimizer.learning_rate), warmup_epochs=3)" in code
    )
    assert "backward_passes_per_step=2)" in code


STEP = """import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.1)
batches = tf.data.Dataset.from_tensor_slices(data).batch(8)
@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - model(x)))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""
COMPILED_EPOCH = """
@tf.function
def epoch():
    for x, y in batches:
        step(x, y)
for _ in range(3): epoch()
"""


def test_open_ended() -> None:
    """A step that nothing calls yet is no fault where more code follows; what would train apart still is."""
    assert convert_source(STEP).status == "refused"
    open_ended = Options(open_ended=True)
    begun = convert_source(STEP, options=open_ended)
    assert [(d.code, d.severity) for d in begun.diagnostics] == [("HVD302", "info")]
    assert "DistributedGradientTape" in begun.code
    assert convert_source(STEP + COMPILED_EPOCH, options=open_ended).status == "refused"
    undecorated = STEP.replace("@tf.function\n", "")
    assert convert_source(undecorated).status == "refused"
    assert "jhvd.broadcast_once(opt, model)" in convert_source(undecorated, options=open_ended).code


def test_ignore_comment() -> None:
    assert "verbose" not in convert_source(FIT).code
    assert "verbose" in convert_source(FIT.replace("HVD403", "HVD503")).code
    bare = convert_source(FIT.replace("ignore[HVD403]", "ignore"))
    assert "HVD401" not in {change.rule for change in bare.changes}


def test_settings_of_a_project(hvd, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.jupyter-hvd]\nignore = ["HVD4"]\nwarmup-epochs = 2\n'
    )
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "train.py").write_text(FIT)
    done = hvd("convert", "deep/train.py", "--check", "--json")
    assert not [
        c for c in json.loads(done.stdout)["files"][0]["changes"] if c["rule"].startswith("HVD4")
    ]
    done = hvd("convert", "deep/train.py", "--check", "--json", "--ignore", "HVD503")
    (after,) = [
        c["after"] for c in json.loads(done.stdout)["files"][0]["changes"] if c["rule"] == "HVD401"
    ]
    assert "warmup_epochs=2" in after


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
    notebook.metadata["jupyter_hvd"] = {"options": {"warmup_epochs": 3, "ignore": ["HVD503"]}}
    nbformat.write(notebook, tmp_path / "train.ipynb")
    (tmp_path / "pyproject.toml").write_text("[tool.jupyter-hvd]\nwarmup-epochs = 2\n")
    for more, epochs in (((), 3), (("--warmup-epochs", 4), 4)):
        done = hvd("convert", "train.ipynb", "--check", "--json", *more)
        changes = json.loads(done.stdout)["files"][0]["changes"]
        assert any(f"warmup_epochs={epochs}" in change["after"] for change in changes)
        assert "HVD503" not in {change["rule"] for change in changes}
    notebook.metadata["jupyter_hvd"] = {"options": {"compression": "fp8"}}
    nbformat.write(notebook, tmp_path / "train.ipynb")
    done = hvd("convert", "train.ipynb", "--check")
    assert done.returncode == 2
    assert "metadata" in done.stderr
    assert "compression" in done.stderr
