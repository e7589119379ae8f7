"""What `make env` says when it fails, and how it continues: a full disk, no network, other packages, an interrupted run."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "environment.py"
AGAIN = "then run the same command again: it goes on from there"
WRONG_HASH = "0" * 64


@pytest.fixture
def script() -> Any:
    """`scripts/environment.py` as a module."""
    spec = importlib.util.spec_from_file_location("environment_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Failed installations: what pip and uv say themselves

INSTALLERS = {
    "pip": (sys.executable, "-m", "pip", "install", "--no-input", "--retries=0"),
    "uv": (str(Path(sys.executable).with_name("uv")), "pip", "install"),
}


@pytest.fixture(params=INSTALLERS)
def installer(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[str, ...]:
    """A command that would install into a folder, without retries and caches."""
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    python = ("--python", sys.executable) if request.param == "uv" else ()
    return (*INSTALLERS[request.param], *python, f"--target={tmp_path / 'installed'}")


@pytest.fixture
def explained(script: Any, installer: tuple[str, ...], tmp_path: Path) -> Callable[..., str | None]:
    """Tries to install a package with a hash that it does not have; returns the explanation."""

    def explain(package: str, proxy: str | None = None, wheels: Path | None = None) -> str | None:
        wanted = tmp_path / "requirements.txt"
        wanted.write_text(f"{package} --hash=sha256:{WRONG_HASH}\n")
        source = script.Source(proxy, wheels)
        command = [*installer, *source.options, "--require-hashes", "--requirement", str(wanted)]
        said = script.failure(command, source)
        assert said
        found = source.explain(said, tmp_path / ".venv")
        assert found is None or isinstance(found, str)
        return found

    return explain


def test_a_folder_without_the_package(explained: Callable[..., str | None], tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    assert explained("hvd-no-such-package==1.0", wheels=tmp_path / "wheels") == (
        f"{tmp_path / 'wheels'} lacks a package of .venv; fill it where there is a network: "
        f"make wheels WHEELS={tmp_path / 'wheels'}"
    )


def test_another_package_than_the_locked_one(
    explained: Callable[..., str | None], tmp_path: Path
) -> None:
    """In a folder: an index would be asked for the same hash."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    about = "hvd_tiny-1.0.dist-info"
    with zipfile.ZipFile(folder / "hvd_tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("hvd_tiny.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: hvd-tiny\nVersion: 1.0\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(
            f"{about}/RECORD",
            f"hvd_tiny.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n",
        )
    said = explained("hvd-tiny==1.0", wheels=folder)
    assert said is not None
    assert said.startswith("a package is not the one that was locked: its hash is another")


def test_a_proxy_that_does_not_answer(explained: Callable[..., str | None]) -> None:
    said = explained("hvd-no-such-package==1.0", proxy="http://127.0.0.1:9")
    assert said == (
        f"the package index cannot be reached: by the proxy http://127.0.0.1:9; {AGAIN}"
    )


@pytest.mark.parametrize(
    "said",
    [
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        "error: failed to write to file `/x/y`: No space left on device (os error 28)",
        "error: failed to copy file: Disk quota exceeded (os error 122)",
    ],
)
def test_a_disk_that_becomes_full(script: Any, tmp_path: Path, said: str) -> None:
    told = script.Source(None, None).explain(said, tmp_path)
    assert told == f"the disk is full: {tmp_path} takes 3.5 GB. Free them, {AGAIN}"


def test_any_other_failure_is_quoted(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", "print('of this nobody knows'); raise SystemExit(2)"]
    with pytest.raises(SystemExit):
        script.run(command, tmp_path, script.Source(None, None))
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("this failed: ")
    assert second == "of this nobody knows"


# The disk


def test_a_disk_without_room(
    script: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is said before anything is made."""
    full = shutil.disk_usage("/")._replace(free=3_000_000_000)
    monkeypatch.setattr(script.shutil, "disk_usage", lambda _: full)
    folder = tmp_path / ".venv"
    with pytest.raises(SystemExit) as ended:
        script.make(folder, "tf221", None, script.Source(None, None))
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        f"the disk of {folder} is too full: an environment takes 3.5 GB. Free them, {AGAIN}\n"
    )
    assert not folder.exists()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk is full: FOLDER takes 3.5 GB. Free them, " + AGAIN),
        (errno.EACCES, "/a/file: Permission denied"),
    ],
)
def test_errors_of_the_system(
    script: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    said: str,
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number), "/a/file")

    monkeypatch.setattr(script, "make", fail)
    monkeypatch.setattr(script.sys, "argv", ["environment.py", str(tmp_path / ".venv")])
    with pytest.raises(SystemExit):
        script.main()
    assert capsys.readouterr().err == said.replace("FOLDER", str(tmp_path / ".venv")) + "\n"


# Interrupted runs

#: Answers as a Python does, notes how it is called, and takes long to install the lock until there is a file `fast`.
PYTHON = """#!/bin/sh
echo "$*" >> {folder}/calls
case "$*" in
    *print*) echo 3 11 {folder}/python ;;
    "-m venv "*) mkdir -p {folder}/.venv/bin && cp "$0" {folder}/.venv/bin/python ;;
    *tf221.txt*) [ -e {folder}/fast ] || exec sleep 60 ;;
esac
"""


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "interrupted; run the same command again: it goes on from there\n"),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_an_interrupted_run_is_continued(
    tmp_path: Path, number: signal.Signals, code: int, said: str
) -> None:
    """In a copy of the checkout, with an interpreter that only notes what it is to do."""
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    python, calls = tmp_path / "python", tmp_path / "calls"
    python.write_text(PYTHON.format(folder=tmp_path))
    python.chmod(0o755)
    ready = tmp_path / ".venv" / ".ready"
    command = [
        sys.executable,
        str(tmp_path / "scripts" / "environment.py"),
        str(tmp_path / ".venv"),
    ]
    command += ["tf221", "--python", str(python)]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        deadline = time.monotonic() + 30
        while "tf221.txt" not in (calls.read_text() if calls.exists() else ""):
            assert first.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.killpg(first.pid, number)
    assert first.communicate(timeout=30)[1] == said
    assert first.returncode == code
    assert not ready.exists()

    (tmp_path / "fast").touch()
    calls.unlink()
    subprocess.run(command, check=True, timeout=60)
    assert ready.exists()
    for words in ("-m venv --clear", "tf221.txt", "--editable", "-m jupyter_hvd install"):
        assert words in calls.read_text()
    calls.unlink()
    subprocess.run(command, check=True, timeout=60)
    assert "-m venv" not in calls.read_text()
