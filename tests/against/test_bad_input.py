"""Programs that are hard to judge: a launcher of their own, no end, no output, other data, a random original."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ORIGINAL = (HERE / "originals" / "loop.py").read_text()
RIGHT = (HERE / "right" / "loop_allreduce.py").read_text()
HOROVODRUN = f"{Path(sys.executable).parent / 'horovodrun'} -np 2"
EPOCHS = "for epoch in range(3):\n"
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("against"), pytest.mark.thorough]


def put(folder: Path, name: str, text: str, *edits: tuple[str, str]) -> Path:
    """A program with some edits, each of a text that is there once."""
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / name).mkdir()
    (folder / name / f"{name}.py").write_text(text)
    return folder / name / f"{name}.py"


def verdict(hvd: Any, original: Path, other: Path, *options: object) -> dict[str, Any]:
    words = ("verify", original, "--against", other, "--json", "--timeout", 250, *options)
    done = hvd(*words, timeout=900)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["holds"] else 1)
    return found


def test_a_launcher_of_its_own(hvd, tmp_path: Path) -> None:
    original, other = put(tmp_path, "train", ORIGINAL), put(tmp_path, "other", RIGHT)
    found = verdict(hvd, original, other, "--launcher", HOROVODRUN)
    assert found["holds"], found
    assert found["compared"] == found["steps"] == 12
    summed = ("op=hvd.Average", "op=hvd.Sum")
    wrong = put(tmp_path, "wrong", RIGHT, summed)
    found = verdict(hvd, original, wrong, "--launcher", HOROVODRUN)
    assert found["fault"]["kind"] == "summed instead of averaged", found


@pytest.mark.parametrize(
    ("launcher", "said"),
    [("nothing-of-this-name -np 2", "nothing-of-this-name"), ("'open", "quot"), ("", "command")],
)
def test_launchers_that_are_none(hvd, tmp_path: Path, launcher: str, said: str) -> None:
    original, other = put(tmp_path, "train", ORIGINAL), put(tmp_path, "other", RIGHT)
    done = hvd("verify", original, "--against", other, "--launcher", launcher)
    assert done.returncode == 2
    assert said in done.stderr.lower()


def test_no_shell_reads_the_launcher(hvd, tmp_path: Path) -> None:
    original, other = put(tmp_path, "train", ORIGINAL), put(tmp_path, "other", RIGHT)
    touched = tmp_path / "touched"
    hvd("verify", original, "--against", other, "--launcher", f"false; touch {touched} #")
    assert not touched.exists()


def test_a_program_that_never_ends(hvd, tmp_path: Path) -> None:
    endless = (EPOCHS, "import itertools\n\nfor epoch in itertools.count():\n")
    found = verdict(hvd, put(tmp_path, "train", ORIGINAL), put(tmp_path, "other", RIGHT, endless))
    assert found["fault"]["kind"] == "other number of steps", found
    assert found["fault"]["step"] == 13


def test_a_program_that_prints_nothing(hvd, tmp_path: Path) -> None:
    silent = ("    if hvd.rank() == 0:\n        print(epoch, float(loss))\n", "")
    found = verdict(hvd, put(tmp_path, "train", ORIGINAL), put(tmp_path, "other", RIGHT, silent))
    assert found["holds"], found


def test_a_rank_that_fails(hvd, tmp_path: Path) -> None:
    missing = (EPOCHS, f'if hvd.rank() == 1:\n    raise ValueError("no shard")\n{EPOCHS}')
    other = put(tmp_path, "other", RIGHT, missing)
    number = other.read_text().splitlines().index('    raise ValueError("no shard")') + 1
    found = verdict(hvd, put(tmp_path, "train", ORIGINAL), other)
    said = f"the ranks fail, other.py, line {number}: rank 1: ValueError: no shard"
    assert said in found["verdict"], found
    assert any(check["detail"].startswith(said) for check in found["checks"])


def test_other_data(hvd, tmp_path: Path) -> None:
    other = put(tmp_path, "other", RIGHT, ("default_rng(0)", "default_rng(1)"))
    found = verdict(hvd, put(tmp_path, "train", ORIGINAL), other)
    assert found["fault"]["kind"] == "other data on a rank", found


def test_another_number_of_epochs(hvd, tmp_path: Path) -> None:
    other = put(tmp_path, "other", RIGHT, (EPOCHS, "for epoch in range(2):\n"))
    found = verdict(hvd, put(tmp_path, "train", ORIGINAL), other)
    assert found["fault"]["kind"] == "other number of steps", found
    assert found["fault"]["step"] == 9


def test_an_original_that_is_random_beyond_seeds(hvd, tmp_path: Path) -> None:
    chance = (
        "data = tf.data",
        "import time\n\nx *= 1 + time.time_ns() % 1000 / 1000\ndata = tf.data",
    )
    original, other = (
        put(tmp_path, "train", ORIGINAL, chance),
        put(tmp_path, "other", RIGHT, chance),
    )
    found = verdict(hvd, original, other)
    assert found["fault"] is None, found
    reason = "cannot be judged: two runs of the original with equal seeds differ from step 1 on ("
    assert reason in found["verdict"]


def test_the_report(hvd, tmp_path: Path) -> None:
    original = put(tmp_path, "train", ORIGINAL)
    other = put(tmp_path, "other", RIGHT, ("op=hvd.Average", "op=hvd.Sum"))
    page = tmp_path / "report.html"
    found = verdict(hvd, original, other, "--report", page)
    text = page.read_text()
    assert found["verdict"] in text.replace("&#x27;", "'")
    assert f"<tr><th>tensorflow</th><td>{version('tensorflow-cpu')}</td></tr>" in text
    assert text.count("<polyline") == 2
    assert "http" not in text
    assert all(check["check"] in text for check in found["checks"])


@pytest.mark.own_forks
def test_ranks_of_every_run_are_forked(hvd, tmp_path: Path) -> None:
    """Each run is a job, and what forks the ranks stays when a job is ended."""
    forked = (
        "hvd.init()\n",
        "import sys\n\nassert any('forkserver' in word for word in sys.orig_argv)\nhvd.init()\n",
    )
    found = verdict(hvd, put(tmp_path, "train", ORIGINAL), put(tmp_path, "other", RIGHT, forked))
    broadcast = next(c for c in found["checks"] if c["check"] == "2 ranks: broadcast")
    assert broadcast["status"] == "pass", found
