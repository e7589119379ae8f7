"""`jupyter hvd install`: flags, what is missing, and wheels that are kept. Compiling itself takes minutes: `make env` does it."""

from __future__ import annotations

import errno
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from jupyter_hvd.cli import install as command
from jupyter_hvd.install import build, pip, run
from jupyter_hvd.install.build import PATCHES, Build, CannotBuildError, installed_tensorflow
from jupyter_hvd.install.lock import hold_lock
from jupyter_hvd.install.patch import apply_patch
from jupyter_hvd.install.pip import Source, explain_error
from jupyter_hvd.install.run import find_cached_wheel, install_horovod


def test_flags() -> None:
    plain, all_of_it = Build("2.21.0").build_flags, Build("2.21.0", gpu=True, mpi=True).build_flags
    assert plain["HOROVOD_CPU_OPERATIONS"] == "GLOO"
    assert "HOROVOD_WITHOUT_MPI" in plain
    assert "HOROVOD_GPU_OPERATIONS" not in plain
    assert all_of_it["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert all_of_it["HOROVOD_WITH_MPI"] == all_of_it["HOROVOD_WITH_GLOO"] == "1"


def test_what_is_missing_is_named(monkeypatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    tools, mpi, *gpu = Build("2.21.0", gpu=True, mpi=True).find_missing({})
    assert tools == "cmake, g++, make: apt-get install cmake g++ make"
    assert "libopenmpi-dev" in mpi
    assert "HOROVOD_NCCL_HOME" in gpu[-1]


def test_nccl_is_found_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "nccl.h").touch()
    named = {"HOROVOD_NCCL_HOME": str(tmp_path)}
    assert not any("nccl.h" in said for said in Build("2.21.0", gpu=True).find_missing(named))


def test_wheels_are_kept_apart(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUPYTER_HVD_CACHE", str(tmp_path))
    builds = [
        Build("2.15.1"),
        Build("2.21.0"),
        Build("2.21.0", gpu=True),
        Build("2.21.0", mpi=True),
    ]
    assert len({b.folder_name for b in builds}) == 4
    assert all(f"gcc{build.compiler_version()}" in b.folder_name for b in builds)
    assert find_cached_wheel(builds[0]) is None
    (tmp_path / builds[0].folder_name).mkdir()
    wheel = tmp_path / builds[0].folder_name / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    wheel.touch()
    assert find_cached_wheel(builds[0]) == wheel


@pytest.mark.parametrize(
    ("found", "said"), [("1.15.5", "cannot be built"), (None, "no TensorFlow")]
)
def test_a_tensorflow_that_horovod_is_not_for(monkeypatch, found: str | None, said: str) -> None:
    monkeypatch.setattr(build, "version_of", lambda *_names: found)
    with pytest.raises(CannotBuildError, match=said) as error:
        installed_tensorflow()
    assert "pip install" in str(error.value)


def test_patches_begin_with_their_reason() -> None:
    assert PATCHES
    for patch in PATCHES:
        reason, _, rest = patch.read_text().partition("\n--- a/")
        assert len(reason) > 80
        assert "+++ b/" in rest


def test_who_gives_up_leaves_no_compiler_behind(tmp_path: Path) -> None:
    """A build of a process that starts another, as pip starts compilers, ended after its first line."""
    said = tmp_path / "pid"
    program = f"sleep 600 & echo $! > {said}; echo '[ 3%]'; wait"

    def give_up(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pip.run_command(["sh", "-c", program], listener=give_up)
    for _ in range(100):
        if not is_running(int(said.read_text())):
            break
        time.sleep(0.05)
    assert not is_running(int(said.read_text()))


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_patches_apply_without_the_program_patch(tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text("one\ntwo\nthree\n")
    patch = tmp_path / "a.patch"
    patch.write_text("Why.\n\n--- a/a.cc\n+++ b/a.cc\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")
    apply_patch(patch, tmp_path)
    assert (tmp_path / "a.cc").read_text() == "one\n2\nthree\n"
    with pytest.raises(CannotBuildError, match=r"a\.patch does not fit a\.cc"):
        apply_patch(patch, tmp_path)


# Who waits


def test_who_waits_says_for_whom_and_how_far_it_is(tmp_path: Path) -> None:
    said: list[tuple[str, float]] = []
    waits = threading.Event()

    def hear(step: str, share: float) -> None:
        said.append((step, share))
        waits.set()

    def second() -> None:
        with hold_lock(tmp_path / "lock", hear):
            pass

    with hold_lock(tmp_path / "lock", lambda *_: None) as tell:
        tell("compiling", 0.45)
        other = threading.Thread(target=second)
        other.start()
        assert waits.wait(10)
    other.join(10)
    assert not other.is_alive()
    (waiting, share), *_, last = said
    assert waiting.startswith(f"waiting for process {os.getpid()}, which has been building since ")
    assert share == 0.45
    assert last == ("starting", 0.0)


def test_a_lock_whose_holder_was_killed_is_free(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from jupyter_hvd.install.lock import hold_lock\n"
        "with hold_lock(Path(sys.argv[1]), lambda *_: None):\n    print('held', flush=True); time.sleep(600)"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "lock")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline()
        holder.kill()
    with hold_lock(
        tmp_path / "lock", lambda step, _: pytest.fail(step) if "waiting" in step else None
    ):
        pass


def test_progress_without_a_terminal(monkeypatch) -> None:
    now = 0.0
    monkeypatch.setattr(command.time, "monotonic", lambda: now)
    text = io.StringIO()
    with command.show_progress(Console(file=text)) as tell:
        for second in range(101):
            now = float(second)
            tell("compiling", second / 100)
        for second in range(101, 201):
            now = float(second)
            tell("waiting for process 7", 0.0)
    lines = text.getvalue().splitlines()
    assert lines[:3] == [
        "compiling",
        "compiling for 10 s, 10% of the files compiled",
        "compiling for 20 s, 20% of the files compiled",
    ]
    assert lines[-2:] == ["waiting for process 7 for 60 s", "waiting for process 7 for 90 s"]


# What can be wrong


@pytest.fixture
def cache(monkeypatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("JUPYTER_HVD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def refusal(source: Source) -> str:
    """Why an installation into this environment fails, before anything in it is touched."""
    with pytest.raises(CannotBuildError) as error:
        install_horovod(Build("0"), lambda *_: None, source)
    return str(error.value)


@pytest.mark.usefixtures("cache")
def test_another_source_of_horovod_is_not_run(tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    (tmp_path / "horovod-0.28.1").mkdir()
    (tmp_path / "horovod-0.28.1" / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    folder.mkdir()
    with tarfile.open(folder / "horovod-0.28.1.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "horovod-0.28.1", "horovod-0.28.1")
    assert "another source of Horovod 0.28.1" in refusal(Source(wheels=folder))
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("kind", ["wheels", "proxy"])
def test_packages_that_cannot_be_had(tmp_path: Path, kind: str) -> None:
    sources = {"wheels": Source(wheels=tmp_path), "proxy": Source(proxy="http://127.0.0.1:9")}
    told = {
        "wheels": f"{tmp_path} lacks a package",
        "proxy": "by the proxy http://127.0.0.1:9",
    }
    said = refusal(sources[kind])
    assert told[kind] in said
    assert "\n" not in said


def test_a_full_disk(cache: Path, monkeypatch) -> None:
    full = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(run.shutil, "disk_usage", lambda _: full)
    assert f"the disk of {cache} is full: a build needs 500 MB" in refusal(Source())


def test_a_disk_that_becomes_full(cache: Path, monkeypatch) -> None:
    said = ["x.cc:1: fatal error: error writing to /tmp/x.s: No space left on device", "make: ***"]
    told = explain_error(said, Source())
    assert told is not None
    assert "the disk is full" in told

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(cache))

    monkeypatch.setattr(run, "make_wheel", full)
    assert "is full" in refusal(Source())


def test_a_home_that_is_read_only(monkeypatch, tmp_path: Path) -> None:
    """The wheel is kept in the environment."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("JUPYTER_HVD_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(build.sys, "prefix", str(tmp_path / "prefix"))
    assert run.find_writable_folder(Build("0")) == tmp_path / "prefix" / "share" / "jupyter-hvd"
    monkeypatch.setattr(build.sys, "prefix", str(tmp_path / "file" / "prefix"))
    with pytest.raises(CannotBuildError, match="set JUPYTER_HVD_CACHE"):
        run.find_writable_folder(Build("0"))


def test_what_a_killed_build_left_is_removed(cache: Path, tmp_path: Path) -> None:
    left = cache / f"{Build('0').folder_name}-unfinished-abc"
    left.mkdir(parents=True)
    refusal(Source(wheels=tmp_path))
    assert [path.name for path in cache.iterdir()] == [f"{Build('0').folder_name}.lock"]


def test_a_folder_of_wheels_that_is_none(hvd_here, tmp_path: Path) -> None:
    done = hvd_here("install", "--wheels", tmp_path / "none")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "there is no such folder" in done.stderr
