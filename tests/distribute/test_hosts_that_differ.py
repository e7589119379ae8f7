"""What is told, before a rank starts, of a host that is not as the others: two real ones, of which the second is changed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from .hosts import GATEWAY, HOSTS, another_keras, change, printed, sh

pytestmark = pytest.mark.slow

PROGRAM = "import os\nprint('ran on', os.uname().nodename, flush=True)\n"
HVD = (sys.executable, "-m", "jupyter_hvd")
SECOND = list(HOSTS)[1]
#: The second host by its address, as the user names it.
NAMED = f"host {HOSTS[SECOND]}:"


def second(folder: Path) -> str:
    """What names its sshd."""
    return str(folder / f"{SECOND}.conf")


@pytest.fixture
def job(two_hosts: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a folder of its own on both hosts."""
    work = two_hosts / "work"
    work.mkdir()
    (work / "job.py").write_text(PROGRAM)

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        hosts = ",".join(f"{address}:1" for address in HOSTS.values())
        return subprocess.run(
            [*HVD, "run", "job.py", "-n", "2", "-H", hosts, "--log", str(two_hosts / "logs")],
            cwd=work,
            env={**os.environ, "PATH": f"{two_hosts / 'bin'}:{os.environ['PATH']}", **environment},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run


def test_hosts_that_are_equal(two_hosts: Path, job: Any) -> None:
    done = job()
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [f"ran on {host}\n" for host in HOSTS]
    assert printed(two_hosts / "logs") == ran
    assert done.stdout == ran[0]


def test_all_that_differs_is_reported_before_a_rank_starts(two_hosts: Path, job: Any) -> None:
    another_keras(two_hosts, second(two_hosts))
    change(second(two_hosts), "mount", "-t", "tmpfs", "none", str(two_hosts / "work"))
    # A firewall: it may answer ssh, and begin nothing.
    sh(
        "ip",
        "-n",
        SECOND,
        "rule",
        "add",
        "pref",
        "10",
        "ipproto",
        "tcp",
        "sport",
        "22",
        "table",
        "main",
    )
    sh("ip", "-n", SECOND, "rule", "add", "pref", "20", "to", GATEWAY, "ipproto", "tcp", "prohibit")
    begun = time.monotonic()
    done = job()
    assert time.monotonic() - begun < 30
    assert done.returncode == 1
    assert "ran on" not in done.stdout
    told = done.stderr
    assert f"{NAMED} keras 3.0.1, but {distribution('keras').version} here: `pip install" in told
    assert f"{NAMED} {two_hosts / 'work'}/.jupyter-hvd-" in told
    assert "is not there: work in a folder that all hosts share" in told
    assert f"{NAMED} it cannot connect to {GATEWAY}:" in told
    assert f"host {next(iter(HOSTS.values()))}" not in told


@pytest.mark.long
def test_a_difference_that_the_user_knows_of(two_hosts: Path, job: Any) -> None:
    another_keras(two_hosts, second(two_hosts))
    done = job(JUPYTER_HVD_CHECK_HOSTS="0")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_a_host_without_this_python(two_hosts: Path, job: Any) -> None:
    change(second(two_hosts), "mount", "-t", "tmpfs", "none", str(Path(sys.executable).parent))
    done = job()
    assert done.returncode == 1
    assert f"host {HOSTS[SECOND]} has no {sys.executable}" in done.stderr
    assert "ran on" not in done.stdout


def test_it_is_reported_in_a_notebook(two_hosts: Path, open_notebook: Callable[..., Any]) -> None:
    another_keras(two_hosts, second(two_hosts))
    notebook = open_notebook(PATH=f"{two_hosts / 'bin'}:{os.environ['PATH']}")
    hosts = ",".join(f"{address}:1" for address in HOSTS.values())
    result = notebook.run(f"%hvd start -n 2 -H {hosts}")
    assert f"{NAMED} keras 3.0.1, but" in result.text
    assert not notebook.processes()
