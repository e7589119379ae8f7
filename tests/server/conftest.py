"""A server with the extension, and a notebook that trains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from jupyter_hvd.server import routes as server

MODEL = """\
model = tf.keras.Sequential([
    tf.keras.Input(shape=(3,)),
    tf.keras.layers.Dense(8, activation="relu"),
    tf.keras.layers.Dense(1),
])
opt = tf.keras.optimizers.Adam(1e-2)
"""
TRAIN = """\
x = np.linspace(0, 1, 192, dtype="f").reshape(64, 3)
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(8)
for a, b in data:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    print("café 🚀", float(loss))
"""


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Workers]:
    worker = server.Workers(tmp_path_factory.mktemp("nothing"))
    yield worker
    worker.stop()


@pytest.fixture(autouse=True)
def one_worker(worker: server.Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of all tests share one worker, which saves its start."""
    monkeypatch.setattr(server, "Workers", lambda _: worker)


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    extensions = {"jupyter_hvd.server": True}
    return {"ServerApp": {"jpserver_extensions": extensions, "allow_unauthenticated_access": False}}


@pytest.fixture
def notebook() -> Any:
    """Plain JSON, as a browser sends it."""
    cells = [
        new_markdown_cell("# A model"),
        new_code_cell("import numpy as np\nimport tensorflow as tf"),
        new_code_cell(MODEL),
        new_code_cell(TRAIN),
    ]
    return new_notebook(cells=cells)


@pytest.fixture
def slow_notebook() -> Any:
    """One whose conversion takes minutes: every line asks for all lines before it."""
    lines = "a = a + b\n" * 40_000
    return new_notebook(cells=[new_code_cell(f"import tensorflow as tf\n{lines}{MODEL}{TRAIN}")])
