"""Ranks that Open MPI's `mpirun` starts, and that communicate by MPI."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from .authentication import TOKEN_VARIABLE
from .base import JOB_VARIABLE, Launcher
from .hosts import Host, LaunchError

#: What gives Horovod its MPI, and this machine its `mpirun`.
BUILD, INSTALL = "jupyter hvd install --mpi", "apt-get install openmpi-bin"
#: Symbols that Horovod's library asks for where it was built with MPI, and with Open MPI.
ANY_MPI, OPEN_MPI = b"\0MPI_Init_thread\0", b"\0ompi_mpi_comm_world\0"
#: What MPI itself tells each process, and takes from its environment.
OF_MPI = re.compile(r"(OMPI|PMIX|PMI|PRTE|OPAL|ORTE)_\w+")
#: What users set of it, which mpirun writes into command lines; the list of variables with values is left out.
SETTING = re.compile(r"(OMPI|PMIX|PRTE)_MCA_(?!mca_base_env_list)\w+|OPAL_PREFIX")
#: As Horovod's own launcher calls Open MPI, and never a question on a terminal that nobody sees.
SETTINGS = {
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "^openib",
    "OMPI_MCA_plm_rsh_agent": "ssh -o BatchMode=yes -o ConnectTimeout=15",
    "PRTE_MCA_plm_ssh_agent": "ssh -o BatchMode=yes -o ConnectTimeout=15",
}
#: Variables that mpirun hands on to other hosts, where they are set: what it takes to start there.
HANDED_ON = (JOB_VARIABLE, TOKEN_VARIABLE, "PATH", "PYTHONPATH", "LD_LIBRARY_PATH")


def mpirun_launcher() -> Launcher:
    """Return the launcher for mpirun; hosts are reached as mpirun itself reaches them, by srun in an allocation of Slurm."""
    return Launcher("srun" if "SLURM_JOB_ID" in os.environ else "ssh", by_mpi=True)


def require_mpi() -> None:
    """Check that there is an mpirun, and a Horovod that was built for it.

    Raises:
        LaunchError: there is not, and what to do.
    """
    require_horovod_for_mpi()
    said = mpirun_version()
    if said is None:
        raise LaunchError(f"--launcher mpirun: there is no mpirun on this machine: {INSTALL}")
    if "Open MPI" not in said:
        raise LaunchError(f"--launcher mpirun: this one is not Open MPI's: {said}")


def require_horovod_for_mpi() -> None:
    """Check that Horovod was built for Open MPI, since it would crash otherwise.

    Raises:
        LaunchError: it was not, and what to do.
    """
    if not horovod_has(ANY_MPI):
        raise LaunchError(
            f"--launcher mpirun: Horovod was built without MPI; `{BUILD}` rebuilds it"
        )
    if not horovod_has(OPEN_MPI):
        raise LaunchError(
            f"--launcher mpirun: Horovod was built with another MPI than Open MPI; `{BUILD}` rebuilds it"
        )


def horovod_has(symbol: bytes) -> bool:
    """Whether Horovod's library for TensorFlow contains a symbol; the file is not loaded."""
    found = find_spec("horovod")
    folders = (found.submodule_search_locations or []) if found else []
    libraries = (path for folder in folders for path in Path(folder).glob("tensorflow/mpi_lib*.so"))
    return any(_file_contains(library, symbol) for library in libraries)


def _file_contains(file: Path, text: bytes) -> bool:
    """Whether a file contains some bytes."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as all_:
        return all_.find(text) >= 0


def mpirun_version() -> str | None:
    """Return the first line of `mpirun --version`; None if there is no mpirun."""
    if shutil.which("mpirun") is None:
        return None
    done = subprocess.run(
        ["mpirun", "--version"],  # noqa: S607 — the user's own MPI
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout.splitlines() or [""])[0] if done.returncode == 0 else None


def mpirun_command(
    size: int, hosts: Sequence[Host], rank: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """Return the command that starts `rank` on the hosts, the first filled first.

    It contains the names of environment variables, not their values, which other users could read.
    """
    return [
        *("mpirun", "--allow-run-as-root", "-np", str(size)),
        *("--host", ",".join(f"{host.name}:{host.slots}" for host in hosts)),
        # A rank has threads: it is not to be kept on one core.
        *("--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none"),
        *(word for name in HANDED_ON if name in environment for word in ("-x", name)),
        *rank,
    ]


def mpirun_environment(
    launcher_environment: Mapping[str, str], ranks: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of mpirun itself: what launchers need, and the user's settings of MPI.

    Args:
        launcher_environment: see `base.launcher_environment`.
        ranks: the environment of the ranks.
    """
    needed = {name: ranks[name] for name in ("PYTHONPATH", TOKEN_VARIABLE) if name in ranks}
    settings = {name: value for name, value in ranks.items() if SETTING.fullmatch(name)}
    return {**SETTINGS, **launcher_environment, **needed, **settings}
