"""`jupyter_hvd.runtime`: light to import, right on one rank and on two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jupyter_hvd.runtime as jhvd

from ..stacks import KERAS_2, LEGACY, OWN, Stack

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


@pytest.mark.parametrize(
    ("used", "also", "backend", "said"),
    [
        ("keras", "tf_keras", "tensorflow", "set TF_USE_LEGACY_KERAS=1"),
        ("tf_keras", "keras", "tensorflow", "unset TF_USE_LEGACY_KERAS"),
        ("keras", None, "jax", "set KERAS_BACKEND=tensorflow"),
    ],
)
def test_what_cannot_be_averaged_is_told_at_start(
    monkeypatch, used: str, also: str | None, backend: str, said: str
) -> None:
    import types

    import horovod.tensorflow  # noqa: F401 — reads tf.keras when it is loaded
    import tensorflow as tf

    model = types.SimpleNamespace(__module__=f"{used}.src.models.model")
    keras = types.SimpleNamespace(
        Model=model, backend=types.SimpleNamespace(backend=lambda: backend)
    )
    monkeypatch.setattr(tf, "keras", keras)
    for name in ("keras", "tf_keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    if also is not None:
        monkeypatch.setitem(sys.modules, also, types.ModuleType(also))
    with pytest.raises(RuntimeError, match=said):
        jhvd.start()


RUN = (OWN.case(), KERAS_2.case(), LEGACY.case(pytest.mark.thorough))


def on_two_ranks(stack: Stack, program: str, folder: Path) -> None:
    done = subprocess.run(
        [
            *(stack.python.with_name("horovodrun"), "--gloo", "-np", "2"),
            *(stack.python, Path(__file__).with_name(program), folder),
        ],
        env={**os.environ, **stack.environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert done.stdout.count("all is well") == 2


@pytest.mark.slow
@pytest.mark.parametrize("stack", RUN)
def test_two_ranks(stack: Stack, tmp_path: Path) -> None:
    on_two_ranks(stack, "ranks.py", tmp_path)


LOADED = """
import sys
sys.modules["horovod"] = sys.modules["jupyter_hvd"] = None
import numpy as np
import tensorflow as tf
model = tf.keras.models.load_model("model.keras")
assert type(model.optimizer).__name__ == "Adam"
state = model.optimizer.variables
assert int((state() if callable(state) else state)[0]) == 16
assert (model.predict(np.load("input.npy"), verbose=0) == np.load("output.npy")).all()
"""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "stack", [OWN.case(), KERAS_2.case(pytest.mark.thorough), LEGACY.case(pytest.mark.thorough)]
)
def test_every_keras(stack: Stack, tmp_path: Path) -> None:
    on_two_ranks(stack, "kerases.py", tmp_path)
    done = subprocess.run(
        [stack.python, "-P", "-c", LOADED],
        cwd=tmp_path,
        env={**os.environ, **stack.environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.parametrize("stack", RUN)
def test_weights_travel_into_a_model_that_has_none_yet(stack: Stack, run_forked_script) -> None:
    """As the notebook's model has none, where ranks alone have trained it: it stayed untrained on Keras 3."""
    script = Path(__file__).with_name("weights.py")
    if stack == OWN:
        done = run_forked_script(script, timeout=240)
    else:
        done = subprocess.run(
            [stack.python, script],
            env={**os.environ, **stack.environment},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.stdout == "both\n", done.stderr
