"""A Slurm of two nodes on one machine: its controller here, a daemon on each of two network namespaces."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .hosts import GATEWAY, HOSTS, NAMES, make_network, on_host, remove_network

CONFIGURATION = """
ClusterName=test
SlurmctldHost={controller}({address})
SlurmctldPort={port}
SlurmdPort={next_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=2
SchedulerParameters=sched_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
{nodes}
PartitionName=debug Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""
NO_CGROUPS = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint={folder}/no-cgroups\n"


class Slurm:
    """Its commands, as a login node has them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}

    def login(self, *command: str) -> list[str]:
        """A command where the nodes' names are known, as they are on a login node."""
        names = self.folder / "hosts"
        return [
            *("unshare", "--mount", "sh", "-c"),
            'mount --bind "$1" /etc/hosts && shift && exec "$@"',
            *("sh", str(names), *command),
        ]

    def __call__(self, *command: str) -> str:
        """What one of Slurm's own commands prints."""
        done = subprocess.run(
            self.login(*command),
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout

    def jobs(self) -> list[str]:
        """The jobs that run or wait."""
        return self("squeue", "--noheader", "--format=%i %j %T").splitlines()

    def no_job_left(self, within: float = 20) -> bool:
        return wait_until(lambda: not self.jobs(), within)


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.3)
    return held


@contextmanager
def slurm_of_two_nodes() -> Iterator[Slurm]:
    """Have it for a block; nothing of it is left.

    Raises:
        OSError: it cannot be done on this machine.
    """
    folder = Path(tempfile.mkdtemp(prefix="slurm"))  # a short path: sockets stand in it
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        make_network()
        _configure(folder)
        slurm = Slurm(folder)
        environment = {**os.environ, **slurm.environment, "PATH": _path()}
        commands = [
            _munged(folder),
            ["slurmctld", "-D", "-c"],
            *(on_host(name, "slurmd", "-D", "-N", name) for name in HOSTS),
        ]
        for command in commands:
            daemons.append(
                subprocess.Popen(
                    command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            )
            wait_until((folder / "munge.sock").exists, 5)
        if not wait_until(lambda: slurm("sinfo", "-h", "-o", "%T").split() == ["idle"], 30):
            logs = [path.read_text()[-2000:] for path in folder.glob("*.log")]
            raise OSError("Slurm's nodes do not come up:\n" + "\n".join(logs))
        yield slurm
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(5)
            daemon.kill()
        remove_network()
        for daemon in daemons:
            daemon.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def _configure(folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind((GATEWAY, 0))
        port = probe.getsockname()[1]
    controller = socket.gethostname().partition(".")[0]
    nodes = [f"NodeName={n} NodeHostname={n} NodeAddr={ip} CPUs=2" for n, ip in HOSTS.items()]
    text = CONFIGURATION.format(
        controller=controller,
        address=GATEWAY,
        port=port,
        next_port=port + 1 if port < 65535 else port - 1,
        folder=folder,
        nodes="\n".join(nodes),
        names=",".join(HOSTS),
    )
    (folder / "slurm.conf").write_text(text)
    (folder / "cgroup.conf").write_text(NO_CGROUPS.format(folder=folder))
    (folder / "hosts").write_text(NAMES + f"{GATEWAY} {controller}\n")
    for name in ("state", "no-cgroups", *(f"spool-{host}" for host in HOSTS)):
        (folder / name).mkdir()


def _munged(folder: Path) -> list[str]:
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    folder.chmod(0o755)
    files = {"key-file": key, "socket": folder / "munge.sock"}
    files |= {f"{name}-file": folder / f"munge.{name}" for name in ("pid", "log", "seed")}
    return ["munged", "--foreground", "--force", *(f"--{k}={v}" for k, v in files.items())]
