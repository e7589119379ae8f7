"""The log of a job, and `jupyter hvd jobs`, `logs`, `stop`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from jupyter_hvd.cli.jobs import jobs_table
from jupyter_hvd.jobs import control
from jupyter_hvd.jobs.control import Tail, list_jobs, output_lines, read_job, select_job
from jupyter_hvd.jobs.log import (
    BEGUN,
    KEPT,
    LARGEST,
    TOGETHER,
    JobLog,
    rank_file,
    remove_oldest,
    without_secrets,
)

#: Tells this module's processes from those of other jobs on the machine.
MARK = "JUPYTER_HVD_TEST"
SLEEPER = """\
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("begun", os.environ["JUPYTER_HVD_JOB"], flush=True)
time.sleep(600)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of logs of this test's own; what is temporary lies in the test's folder too."""
    place = tmp_path / "logs"
    monkeypatch.setenv("JUPYTER_HVD_JOBS", str(place))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return place


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[psutil.Process]]:
    """What comes from this test and still runs."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)

    def left() -> list[psutil.Process]:
        alive = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                    alive.append(process)
        return [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    return left


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_hvd", *map(str, arguments)],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=30)


# With real jobs


@pytest.mark.slow
def test_what_a_log_holds(hvd, tmp_path: Path, place: Path) -> None:
    (tmp_path / "job.py").write_text(
        "import os, sys, time\nrank = os.environ['HOROVOD_RANK']\n"
        f"token = {str(tmp_path / 'token-')!r}\n"  # a full path: rank 1 works on a copy of the folder
        "print('first', rank, flush=True)\nprint('second', rank, file=sys.stderr)\n"
        "open(token + rank, 'w').write(os.environ['JUPYTER_HVD_JOB'])\n"
        # Rank 1 ends the job, but not before rank 0 has spoken.
        "while not os.path.exists(token + '0'):\n    time.sleep(0.01)\n"
        "sys.exit(3 if rank == '1' else 0)\n"
    )
    done = hvd("run", "job.py", "-n", 2, "--", "--api-key=mine", "--password", "mine", "x")
    assert done.returncode == 3
    (job,) = list_jobs(place)
    assert job.state == "ended"
    assert job.ended is not None
    assert (job.ended["code"], job.ended["rank"]) == (3, 1)
    assert job.begun["command"][2:] == [
        *("run", "job.py", "-n", "2", "--", "--api-key=HIDDEN", "--password", "HIDDEN", "x")
    ]
    assert job.begun["versions"]["horovod"] == "0.28.1"
    assert (job.folder / "job_hvd.py").read_text() == (tmp_path / "job.py").read_text()
    assert {said.text for said in output_lines(job, 1)} >= {"first 1", "second 1"}
    assert {said.rank for said in output_lines(job)} == {0, 1}
    assert job.folder.stat().st_mode & 0o777 == 0o700
    assert place.stat().st_mode & 0o777 == 0o700
    token = (tmp_path / "token-1").read_text()
    kept = "".join(file.read_text() for file in job.folder.iterdir())
    assert token not in kept + job.name
    assert "mine" not in kept
    listed = hvd("jobs")
    assert job.name in listed.stdout
    row = listed.stdout.splitlines()[1]  # for who reads it by a program, whole and on one line
    assert "exit code 3 of rank 1" in row
    assert "jupyter hvd run job.py -n 2 -- --api-key=HIDDEN --password HIDDEN x" in row
    shown = hvd("logs", "--rank", 0)
    assert sorted(shown.stdout.splitlines()) == ["[0] first 0", "[0] second 0"]
    assert hvd("stop", job.name).returncode == 1


@pytest.mark.slow
def test_a_job_is_followed_and_stopped(
    hvd, begin: Any, tmp_path: Path, place: Path, processes: Any
) -> None:
    """When it is stopped, no process, no folder and no socket of it is left."""
    (tmp_path / "job.py").write_text(SLEEPER)
    job = begin("run", "job.py", "-n", 2)
    wait_for(lambda: list_jobs(place) and len(list(output_lines(list_jobs(place)[0]))) == 2)
    following = begin("logs", "-f")
    assert following.stdout.readline().split()[1] == "begun"
    (found_job,) = list_jobs(place)
    assert found_job.state == "runs"
    assert len(processes()) > 4
    done = hvd("stop", found_job.name[-8:])
    assert done.returncode == 0, done.stderr
    assert "stopped" in done.stdout
    job.communicate(timeout=30)
    assert job.returncode == 143
    following.communicate(timeout=30)
    assert following.returncode == 0
    wait_for(lambda: not processes(), 20)
    assert not list((tmp_path / "temporary").iterdir())
    ended = list_jobs(place)[0].ended
    assert ended is not None
    assert ended["code"] == 143


@pytest.mark.slow
def test_a_job_that_does_not_heed(
    begin: Any, tmp_path: Path, place: Path, processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command is stopped by SIGSTOP: it is killed, and its reaper does the rest."""
    (tmp_path / "job.py").write_text(SLEEPER)
    job = begin("run", "job.py", "-n", 2)
    wait_for(lambda: list_jobs(place) and len(list(output_lines(list_jobs(place)[0]))) == 2)
    psutil.Process(job.pid).suspend()
    monkeypatch.setattr(control, "PATIENCE", 1.0)
    told: list[str] = []
    assert control.stop_job(list_jobs(place)[0], told.append)
    assert "is killed" in told[0]
    job.communicate(timeout=30)
    wait_for(lambda: not processes(), 20)
    wait_for(lambda: not list((tmp_path / "temporary").iterdir()), 20)
    assert list_jobs(place)[0].state == "lost"


@pytest.mark.slow
def test_a_log_that_cannot_be_written(hvd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was asked for, nothing is run; else the job runs without, and says so."""
    (tmp_path / "job.py").write_text("print('ran')\n")
    (tmp_path / "file").touch()
    refused = hvd("run", "job.py", "-n", 1, "--log", "file")
    assert refused.returncode == 2
    assert "--log file: cannot be written" in refused.stderr
    assert "ran" not in refused.stdout
    monkeypatch.setenv("JUPYTER_HVD_JOBS", str(tmp_path / "file"))
    done = hvd("run", "job.py", "-n", 1)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "no log is written" in done.stderr
    monkeypatch.setenv("JUPYTER_HVD_JOBS", str(tmp_path / "none"))
    assert hvd("run", "job.py", "-n", 1, "--no-log").returncode == 0
    assert not (tmp_path / "none").exists()


# Without


def begun(place: Path, name: str = "job.py") -> JobLog:
    return JobLog(place, Path(name), 2, ["run"])


@pytest.mark.parametrize("state", ["other host", "other process", "other begin"])
def test_only_the_very_process_is_stopped(tmp_path: Path, state: str) -> None:
    """A number that another process bears now, or on another host, is nobody to be ended."""
    log = begun(tmp_path)
    written = json.loads((log.folder / BEGUN).read_text())
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        changes: dict[str, dict[str, object]] = {
            "other host": {"host": "elsewhere"},
            "other process": {"pid": other.pid},
            "other begin": {"started": written["started"] + "5"},
        }
        (log.folder / BEGUN).write_text(json.dumps(written | changes[state]))
        job = read_job(log.folder)
        assert job is not None
        if state == "other host":
            assert job.state == "elsewhere"
            with pytest.raises(control.NoSuchJobError, match="stop it there"):
                control.stop_job(job)
        else:
            assert job.state == "lost"
            assert not control.stop_job(job)
        assert other.poll() is None
        other.kill()


def test_jobs_on_a_narrow_terminal(tmp_path: Path) -> None:
    """Each on one line, its name whole, its command as far as there is room."""
    words = ["jupyter", "hvd", "run", "train.ipynb", "-n", "4", "--elastic", "--min", "2"]
    for name in ("train.ipynb", "weather.py"):
        JobLog(tmp_path, Path(name), 4, [*words, "--", name * 8])
    kept = list_jobs(tmp_path)
    console = Console(width=80, force_terminal=True, color_system=None)
    with console.capture() as shown:
        console.print(jobs_table(kept, 80))
    rows = shown.get().splitlines()
    assert len(rows) == 3
    for job, row in zip(kept, rows[1:], strict=True):
        assert row.startswith(job.name)
        assert "runs" in row
        assert "train.ipynb -n 4" in row
        assert row.rstrip().endswith("…")
        assert len(row) <= 80


def test_what_others_have_put_there(tmp_path: Path) -> None:
    """Links, folders that others can write to, and what is no log, are not read."""
    good = begun(tmp_path)
    (tmp_path / "link").symlink_to(good.folder)
    for name, text in (("list", "[]"), ("deep", "[" * 100_000), ("bytes", "\x00"), ("empty", "{}")):
        (tmp_path / name).mkdir(mode=0o700)
        (tmp_path / name / BEGUN).write_text(text)
    begun(tmp_path).folder.chmod(0o777)
    if os.getuid() == 0:
        foreign = begun(tmp_path).folder
        os.chown(foreign, 65534, 65534)
    assert [job.folder for job in list_jobs(tmp_path)] == [good.folder]
    assert list_jobs(tmp_path / "missing") == []


def test_names(tmp_path: Path) -> None:
    one, two = begun(tmp_path, "one.py"), begun(tmp_path, "two $x.py")
    assert select_job(tmp_path, "one").name == one.name
    assert select_job(tmp_path, two.name).name == two.name
    assert select_job(tmp_path, None).name == two.name
    for name, told in (
        ("no-such", "there is no such job"),
        ("20", "several jobs"),
        ("", "is empty"),
    ):
        with pytest.raises(control.NoSuchJobError, match=told):
            select_job(tmp_path, name)
    with pytest.raises(control.NoSuchJobError, match="there is no job"):
        select_job(tmp_path / "missing", None)


def test_a_large_output_keeps_its_end(tmp_path: Path) -> None:
    log = begun(tmp_path)
    tail, line = Tail(log.folder, 0), "x" * 10_000
    count = 5 * LARGEST // 2 // len(line)
    followed = []
    for number in range(count):
        log.add_output(0, f"{number} {line}")
        if number % 100 == 0:
            followed += tail.read_lines()
    log.note_end(0, None, "")
    followed += tail.read_lines()
    tail.close()
    sizes = [rank_file(log.folder, 0, before=b).stat().st_size for b in (True, False)]
    assert max(sizes) < LARGEST + 20_000
    job = read_job(log.folder)
    assert job is not None
    kept = [int(said.text.split()[0]) for said in output_lines(job)]
    assert kept == list(range(kept[0], count))
    assert [int(said.text.split()[0]) for said in followed] == list(range(count))


def test_old_logs_are_forgotten(tmp_path: Path) -> None:
    logs = [begun(tmp_path, f"job{number}.py") for number in range(KEPT + 3)]
    remove_oldest([job.folder for job in list_jobs(tmp_path)])
    assert {job.name for job in list_jobs(tmp_path)} == {log.name for log in logs[3:]}


FULL = """\
import resource, sys
from pathlib import Path
from jupyter_hvd.jobs.log import JobLog
log = JobLog(Path(sys.argv[1]), Path("job.py"), 1, [])
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
for _ in range(1000):
    log.add_output(0, "x" * 100)
log.note_end(0, None, "")
print(log.given_up)
"""


def test_a_log_that_has_gone(tmp_path: Path) -> None:
    """How the job ended is worth more: nothing is raised in its place."""
    log = begun(tmp_path)
    shutil.rmtree(log.folder)
    log.note_end(0, None, "")
    assert log.given_up


def test_a_place_that_others_may_change(tmp_path: Path) -> None:
    """Whoever may rename a log puts links in its place: none is written there, and none read."""
    place = tmp_path / "shared"
    begun(place)
    place.chmod(0o770)
    with pytest.raises(OSError, match="other users may change"):
        begun(place)
    with pytest.raises(OSError, match="other users may change"):
        list_jobs(place)
    place.chmod(0o1777)  # as /tmp: who owns a folder there alone renames it
    assert len(list_jobs(place)) == 1


def test_many_ranks_share_what_a_log_may_hold(tmp_path: Path) -> None:
    log = JobLog(tmp_path, Path("job.py"), 512, ["run"])
    for _ in range(40):
        log.add_output(0, "x" * 10_000)
    log.note_end(0, None, "")
    sizes = [rank_file(log.folder, 0, before=b).stat().st_size for b in (True, False)]
    assert max(sizes) < TOGETHER // 512 + 20_000


def test_a_full_disk(tmp_path: Path) -> None:
    """The system writes no more: the log is given up, and the job goes on."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "logs"], capture_output=True, text=True, check=True
    )
    assert "File too large" in done.stdout


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["--api-key=1", "x"], ["--api-key=HIDDEN", "x"]),
        (["--token", "1", "x"], ["--token", "HIDDEN", "x"]),
        (["--use-auth", "--lr", "1"], ["--use-auth", "--lr", "1"]),
        (["--epochs=3", "monkey=1"], ["--epochs=3", "monkey=1"]),
        (["-PASSWORD=x"], ["-PASSWORD=HIDDEN"]),
    ],
)
def test_secrets_in_a_command(words: list[str], kept: list[str]) -> None:
    assert list(without_secrets(words)) == kept
