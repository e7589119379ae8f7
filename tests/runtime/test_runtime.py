"""`jupyter_hvd.runtime`: light to import, right on one rank and on two."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import jupyter_hvd.runtime as jhvd

HEAVY = ("tensorflow", "horovod", "numpy", "jax", "libcst", "IPython", "jupyter_server", "rich")


def test_import_is_light() -> None:
    code = f"""
import sys
import jupyter_hvd.runtime
loaded = [name for name in {HEAVY!r} if name in sys.modules]
loaded += [name for name in sys.modules if name.startswith("jupyter_hvd.") and "runtime" not in name]
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_everything_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "runtime.md").read_text()
    for name in jhvd.__all__:
        assert getattr(jhvd, name).__doc__
        assert f"jhvd.{name}" in page


@pytest.fixture(scope="module")
def alone():
    import horovod.tensorflow as hvd

    hvd.init()
    yield
    hvd.shutdown()


@pytest.mark.usefixtures("alone")
def test_one_rank_changes_nothing() -> None:
    import numpy as np
    import tensorflow as tf

    rows = np.arange(64)
    assert (jhvd.shard_rows(rows, 32) == rows).all()
    batches = [np.arange(3), np.arange(2)]
    assert list(jhvd.shard_batches(batches)) == batches
    dataset = tf.data.Dataset.range(3)
    assert jhvd.equal_steps(dataset) is dataset
    np.random.seed(0)
    before = np.random.get_state()[1].tolist()
    assert jhvd.same_seed() is None
    assert np.random.get_state()[1].tolist() == before
    assert jhvd.scaled_rates(lambda epoch: 0.5 + epoch)(0, 1.0) == 0.5
    assert jhvd.local_rank_zero_first(lambda: "loaded") == "loaded"


@pytest.mark.parametrize("where", ["tf.keras", "keras"])
def test_keras_3_is_refused(monkeypatch, where: str) -> None:
    import types

    import tensorflow as tf

    newer = types.SimpleNamespace(__version__="3.15.1")
    if where == "tf.keras":
        monkeypatch.setattr(tf, "keras", newer)
    else:
        monkeypatch.setitem(sys.modules, "keras", newer)
    with pytest.raises(RuntimeError, match="TF_USE_LEGACY_KERAS=1"):
        jhvd.start()


@pytest.mark.slow
def test_two_ranks(tmp_path: Path) -> None:
    horovodrun = Path(sys.executable).with_name("horovodrun")
    program = Path(__file__).with_name("ranks.py")
    done = subprocess.run(
        [horovodrun, "-np", "2", sys.executable, program, tmp_path],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert done.stdout.count("all is well") == 2
