"""`jupyter hvd install`: flags, what is missing, and wheels that are kept. Compiling itself takes minutes: `make env` does it."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from jupyter_hvd.install import build, run
from jupyter_hvd.install.build import PATCHES, Build, CannotBuildError, installed_tensorflow
from jupyter_hvd.install.run import kept


def test_flags() -> None:
    plain, all_of_it = Build("2.21.0").flags, Build("2.21.0", gpu=True, mpi=True).flags
    assert plain["HOROVOD_CPU_OPERATIONS"] == "GLOO"
    assert "HOROVOD_WITHOUT_MPI" in plain
    assert "HOROVOD_GPU_OPERATIONS" not in plain
    assert all_of_it["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert all_of_it["HOROVOD_WITH_MPI"] == all_of_it["HOROVOD_WITH_GLOO"] == "1"


def test_what_is_missing_is_named(monkeypatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    tools, mpi, *gpu = Build("2.21.0", gpu=True, mpi=True).missing({})
    assert tools == "cmake, g++, make, patch: apt-get install cmake g++ make patch"
    assert "libopenmpi-dev" in mpi
    assert "HOROVOD_NCCL_HOME" in gpu[-1]


def test_nccl_is_found_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "nccl.h").touch()
    named = {"HOROVOD_NCCL_HOME": str(tmp_path)}
    assert not any("nccl.h" in said for said in Build("2.21.0", gpu=True).missing(named))


def test_wheels_are_kept_apart(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUPYTER_HVD_CACHE", str(tmp_path))
    builds = [
        Build("2.15.1"),
        Build("2.21.0"),
        Build("2.21.0", gpu=True),
        Build("2.21.0", mpi=True),
    ]
    assert len({b.folder for b in builds}) == 4
    assert all(f"gcc{build.compiler_version()}" in b.folder.name for b in builds)
    assert kept(builds[0]) is None
    builds[0].folder.mkdir()
    wheel = builds[0].folder / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    wheel.touch()
    assert kept(builds[0]) == wheel


@pytest.mark.parametrize(
    ("found", "said"), [("1.15.5", "cannot be built"), (None, "no TensorFlow")]
)
def test_a_tensorflow_that_horovod_is_not_for(monkeypatch, found: str | None, said: str) -> None:
    def version(name: str) -> str:
        if found is None:
            raise build.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(build, "version", version)
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
        run._run(["sh", "-c", program], listener=give_up)
    for _ in range(100):
        if not is_running(int(said.read_text())):
            break
        time.sleep(0.05)
    assert not is_running(int(said.read_text()))


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
