"""Which lines are noted of a program that `tf.distribute` shares among workers, whose steps run in threads of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

RIGHT = Path(__file__).parent / "right"
OBSERVED = """
import runpy, sys
import tensorflow as tf
from jupyter_hvd.verify.exact.observer import Observer
observer = Observer(steps=2, details=True)
observer.install()
try:
    runpy.run_path(sys.argv[1])
except SystemExit:
    pass
record = observer.make_record()
print([f"{site.kind}: {site.line}" for site in record.sites if site.kind in ("gradient", "update")])
print(record.data_lines, record.shard_line)
"""


def line(text: str, wanted: str) -> str:
    (number,) = (n for n, line in enumerate(text.splitlines(), 1) if wanted in line)
    return f"train.py, line {number}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "distributing", "sharding"),
    [
        ("workers_loop", "experimental_distribute_dataset", "experimental_distribute_dataset"),
        ("workers_own_shard", "distribute_datasets_from_function", ".shard("),
    ],
)
def test_lines_of_workers(
    run_forked_script: Callable[..., CompletedProcess[str]],
    tmp_path: Path,
    name: str,
    distributing: str,
    sharding: str,
) -> None:
    text = (RIGHT / f"{name}.py").read_text()
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "observed.py").write_text(OBSERVED.lstrip("\n"))
    done = run_forked_script(tmp_path / "observed.py", tmp_path / "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *_, steps, data = done.stdout.splitlines()
    gradient, update = line(text, "tape.gradient("), line(text, "apply_gradients(")
    assert steps == str([f"gradient: {gradient}", f"update: {update}"])
    assert data == f"({line(text, distributing)!r},) {line(text, sharding)}"
