"""What outlives a process that is killed, and cleans up after it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BEGINNER = """\
import os, subprocess, sys, time
from jupyter_hvd.launch.base import JOB_VARIABLE
from jupyter_hvd.launch.reaper import PrivateFolder, make_shared_folder
folder = PrivateFolder()
shared = make_shared_folder(folder.job, 1)
child = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, JOB_VARIABLE: folder.job}
)
if sys.argv[1] == "fork" and os.fork() == 0:
    time.sleep(600)  # a forked child, as of a data loader: it holds no pipe open
print(folder.path, shared, child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("forks", ["alone", "fork"])
def test_the_beginner_is_killed(forks: str, tmp_path: Path) -> None:
    """SIGKILL of a process with a private folder, shared memory and a child"""
    beginner = subprocess.Popen(
        [sys.executable, "-c", BEGINNER, forks],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert beginner.stdout is not None
    *folders, pid = beginner.stdout.readline().split()
    assert all(Path(folder).is_dir() for folder in folders)
    assert {Path(folder).stat().st_mode & 0o777 for folder in folders} == {0o700}
    beginner.kill()
    beginner.wait()
    deadline = time.monotonic() + 10
    while any(Path(folder).exists() for folder in folders) or Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    subprocess.run(["pkill", "-s", str(beginner.pid)], check=False)  # the forked child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_to_the_reaper(number: signal.Signals) -> None:
    """The reaper itself heeds no signal but SIGKILL"""
    from jupyter_hvd.launch.reaper import private_folder

    with private_folder() as folder:
        time.sleep(0.5)
        folder._reaper.send_signal(number)
        time.sleep(0.2)
        assert folder._reaper.poll() is None
        assert folder.path.is_dir()
    assert not folder.path.exists()
