"""The interface of launchers, which place a job's ranks on hosts and report their output and exits."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from .hosts import GLOO_TIMEOUT, Host

#: What `--launcher` may be. Without it: hosts that are named, else an allocation, else this machine.
LAUNCHERS = ("horovodrun", "slurm", "hostfile", "mpirun")
#: What a rank's failure says that only tells of another rank's.
ECHO = re.compile(r"HorovodInternalError|Horovod has been shut down")
#: Names a job in the environment of its processes, so that each of them can be found again.
JOB_VARIABLE = "JUPYTER_HVD_JOB"
#: Variables by which Jupyter's own processes trust one another; ranks have no use for them.
JUPYTERS_OWN = ("JPY_", "JUPYTERHUB_API_TOKEN", "JUPYTER_TOKEN", "JUPYTERHUB_SERVICE_PREFIX")
#: What a launcher itself needs of the user's environment, and gets: how to find programs, libraries, ssh and
#: its agent, and in which language to speak.
LAUNCHER_NEEDS = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH"),
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "KRB5CCNAME"),
)

#: What Slurm's commands need: which cluster, which job.
SLURMS = re.compile(r"SLURM_\w+|SALLOC_\w+")


@dataclass(frozen=True)
class Orders:
    """The ranks that a launcher shall start.

    Attributes:
        job: the job's name. hosts: where its ranks go, in order; none for those that a scheduler grants.
        module: what each rank runs, `python -m module *arguments`.
        environment: the ranks' environment. It holds secrets: it is in no command line.
        directory: where the ranks run.
        address: this machine's, as the hosts see it. port: for the ranks' rendezvous; any if 0.
        reach: how other hosts are reached, "ssh" or "srun".
        files: what every host must see, beside the directory.
        outlive: whether the other ranks go on when one has failed, until whoever began the job ends them.
    """

    job: str
    size: int
    hosts: tuple[Host, ...]
    module: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    directory: str = "."
    address: str = "127.0.0.1"
    port: int = 0
    reach: str = "ssh"
    files: tuple[str, ...] = ()
    outlive: bool = False


@dataclass(frozen=True)
class Queued:
    """The job waits for a scheduler; nothing is said when it need wait no more."""

    text: str


@dataclass(frozen=True)
class Output:
    """A line that a rank has written, or, of no rank, that the launcher has to say."""

    rank: int | None
    stream: str
    text: str


@dataclass(frozen=True)
class Exit:
    """A rank's process has ended."""

    rank: int
    code: int


class Launcher(Protocol):
    """Starts ranks, and tells what they write and how they end.

    Ending its process ends the ranks that it has placed.
    """

    @property
    def reach(self) -> str:
        """How it reaches other hosts, see `Orders`."""
        ...

    def start(self, orders: Orders) -> subprocess.Popen[str]:
        """The launcher's process, its reports on standard output.

        Raises:
            OSError: it cannot be started.
        """
        ...

    def parse_line(self, line: str) -> Output | Exit | Queued | None:
        """The report in a line of its output."""
        ...


def rank_environment(job: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of the ranks: the user's, unbuffered, named, silent about TensorFlow's start.

    All ranks have one hash seed: a set of words, `enumerate(set(labels))`, has one order on all ranks.
    """
    return {
        "PYTHONHASHSEED": "0",
        **GLOO_TIMEOUT,
        **{k: v for k, v in os.environ.items() if not k.startswith(JUPYTERS_OWN)},
        JOB_VARIABLE: job,
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2"),
        **(extra or {}),
    }


def launcher_variables() -> dict[str, str]:
    """The variables of the user's environment that our own processes need, and no more."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in LAUNCHER_NEEDS or SLURMS.fullmatch(name)
    }


def launcher_environment(orders: Orders) -> dict[str, str]:
    """A clean environment: what a launcher needs, and what names the job and its lifeline."""
    ours = {k: v for k, v in orders.environment.items() if k.startswith("JUPYTER_HVD_")}
    return {**launcher_variables(), **ours}


def describe_exit(code: int, host: str = "") -> str:
    """What the exit code of a rank, on a host where that is known, tells the user."""
    if code == 137:
        return "it was killed (signal 9); by the system, perhaps, because memory ran out"
    if code == 134:
        return "it aborted (signal 6); memory may have run out"
    if code == 255:
        there = f" with {host}" if host else ""
        return f"its process ended with code 255; over ssh, this is a lost connection{there}"
    if code > 128:
        return f"it was killed by signal {code - 128}"
    return f"its process ended with exit code {code}"
