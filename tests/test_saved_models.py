"""What `verify` says of the models that a converted program has saved, asked where Horovod is not to be had."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path

import pytest

from jupyter_hvd.launchers.base import rank_environment
from jupyter_hvd.verify import checks

SAVES = """
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
model.compile("adam", loss="mse")
model.save("model.keras")
model.save("plain.keras")
model.layers[0].kernel.assign_add([[1.0]] * 3)
model.save("other.keras")
open("weights.h5", "w").write("no model")
"""


@pytest.fixture
def saved(run_forked_script, tmp_path: Path) -> Path:
    folder = tmp_path / "original"
    folder.mkdir()
    (tmp_path / "saves.py").write_text(SAVES)
    done = run_forked_script(tmp_path / "saves.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def faults(original: Path, single: Path, ranks: Path, *names: str) -> dict[str, str | None]:
    places = (str(original), str(single), str(ranks))
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "jupyter_hvd.rank.forks", "--without-horovod"),
            *("jupyter_hvd.verify.loading", *places, *names),
        ],
        env=rank_environment(uuid.uuid4().hex),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_models_of_horovods_own_classes_are_found_out(saved: Path, tmp_path: Path) -> None:
    """As Horovod's wrapper of an optimizer leaves them: of a module that is not there (horovod #4028)."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    with zipfile.ZipFile(saved / "model.keras") as before:
        parts = {name: before.read(name) for name in before.namelist()}
    config = json.loads(parts["config.json"])
    config["compile_config"]["optimizer"]["module"] = "horovod._keras"
    config["compile_config"]["optimizer"]["class_name"] = "DistributedAdam"
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as after:
        for name, data in parts.items():
            after.writestr(name, json.dumps(config) if name == "config.json" else data)
    shutil.copy(saved / "model.keras", tmp_path / "other.keras")
    found = faults(
        saved, tmp_path, tmp_path, "model.keras", "other.keras", "plain.keras", "weights.h5"
    )
    assert found["model.keras"]
    assert found["other.keras"] == "it predicts something else than the original's"
    assert found["plain.keras"] is None
    assert "weights.h5" not in found
    assert checks.saved_models_load(list(found.items()), 3).status == "fail"


def test_what_cannot_be_asked_is_no_verdict() -> None:
    assert checks.saved_models_load([], 1).status == "unknown"
    assert checks.saved_models_load([], 0).status == "pass"
    assert checks.saved_models_load([("model.keras", None)], 1).status == "pass"
