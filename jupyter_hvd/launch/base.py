"""The interface of `placement.py`, which starts the ranks of a job: its orders, and the reports of their output and ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from .hosts import GLOO_TIMEOUT, Host

#: What `--launcher` may be. Without it: hosts that are named, else an allocation, else this machine.
LAUNCHERS = ("horovodrun", "slurm", "hostfile", "mpirun")
#: What a rank's failure says that only tells of another rank's.
SECONDARY_FAILURE = re.compile(r"HorovodInternalError|Horovod has been shut down")
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
#: What salloc says while a job waits, and when it need wait no more.
WAITING = re.compile(r"salloc: .*(Pending job allocation|queued and waiting)")
GRANTED = re.compile(r"salloc: Granted job allocation (\d+)")

#: A line that is longer is reported in pieces.
LONGEST_LINE = 2**20


@dataclass(frozen=True)
class Launcher:
    """How the ranks of a job are started.

    Attributes:
        reach: how other hosts are reached, "ssh" or "srun".
        by_mpi: whether `mpirun` starts the ranks, which then sum by MPI.
        under: the command under which the placement runs, as words: `salloc …`.
    """

    remote_shell: str = "ssh"
    by_mpi: bool = False
    wrapper_command: tuple[str, ...] = ()


#: As `horovodrun` places ranks, over ssh.
HOROVODRUN = Launcher()


@dataclass(frozen=True)
class LaunchSpec:
    """The ranks that a placement shall start.

    Attributes:
        job: the job's name. hosts: where its ranks go, in order; none for those that a scheduler grants.
        module: what each rank runs, `python -m module *arguments`, or the `main` of it in a fork.
        environment: the ranks' environment. It holds secrets: it is in no command line.
        directory: where the ranks run.
        address: this machine's, as the hosts see it. port: for the ranks' rendezvous; any if 0.
        files: what every host must see, beside the directory.
        outlive: whether the other ranks go on when one has failed, until whoever began the job ends them.
    """

    job: str
    size: int
    hosts: tuple[Host, ...]
    module: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    directory: str = "."
    address: str = "127.0.0.1"
    port: int = 0
    launcher: Launcher = HOROVODRUN
    files: Sequence[str] = ()
    survivors_continue: bool = False


@dataclass(frozen=True)
class QueueReport:
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


def start_placement(orders: LaunchSpec) -> subprocess.Popen[str]:
    """Start the placement's process and send it its orders; its standard output has the reports.

    The ranks that it starts end with it.

    Raises:
        OSError: it cannot be started.
    """
    process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
        [
            *orders.launcher.wrapper_command,
            sys.executable,
            "-P",
            "-m",
            "jupyter_hvd.launch.placement",
        ],
        env=launcher_environment(orders),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it says itself why it ended
        json.dump(asdict(orders), process.stdin)
        process.stdin.close()
    return process


def read_launch_spec(text: str) -> LaunchSpec:
    """Parse the orders that `start_placement` wrote."""
    fields = json.loads(text)
    fields["hosts"] = tuple(Host(**host) for host in fields["hosts"])
    launcher = fields["launcher"]
    fields["launcher"] = Launcher(
        **{**launcher, "wrapper_command": tuple(launcher["wrapper_command"])}
    )
    return LaunchSpec(**fields)


def parse_report(line: str) -> Output | Exit | QueueReport | None:
    """Parse a line of output of a placement, or of the command under which it runs; None for an empty line."""
    if WAITING.match(line):
        return QueueReport("waiting in Slurm's queue")
    if GRANTED.match(line):
        return QueueReport("")
    try:
        report = json.loads(line)
    except ValueError:
        report = None
    match report:
        case {"rank": int(rank), "exit": int(code)}:
            return Exit(rank, code)
        case {"rank": rank, "stream": str(stream), "text": str(text)}:
            return Output(rank, stream, text)
        case _:  # Python's own last words
            return Output(None, "stderr", line) if line.strip() else None


_speaking = threading.Lock()


def write_report(report: Mapping[str, Any]) -> None:
    """Write a report as one line of standard output, from any thread."""
    with _speaking, suppress(OSError):
        print(json.dumps(report), flush=True)


def write_output(rank: int | None, stream: str, line: str) -> None:
    """Report a line that a rank has written; with rank None, the launcher's own."""
    write_report({"rank": rank, "stream": stream, "text": line})


def status_file(folder: Path, rank: int) -> Path:
    """Return the file that a rank writes, atomically, when its program has ended for any reason."""
    return folder / f"rank-{rank}.json"


def status_files(folder: Path) -> list[Path]:
    """Return the existing status files of all ranks, sorted by name."""
    return sorted(folder.glob("rank-*.json"))


def exit_now(code: int) -> NoReturn:
    """End this process at once; Python's own exit aborts if a thread is writing."""
    os._exit(code)


def rank_environment(job_name: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a job's ranks: the user's without Jupyter's tokens, with the job's name.

    All ranks have one hash seed, so that sets of words have the same order on all of them.

    Args:
        extra: variables that override all others.
    """
    return {
        "PYTHONHASHSEED": "0",
        **GLOO_TIMEOUT,
        **{k: v for k, v in os.environ.items() if not k.startswith(JUPYTERS_OWN)},
        JOB_VARIABLE: job_name,
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2"),
        **(extra or {}),
    }


def launcher_variables() -> dict[str, str]:
    """Return the variables of the user's environment that launchers need, such as those of Slurm."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in LAUNCHER_NEEDS or SLURMS.fullmatch(name)
    }


def launcher_environment(orders: LaunchSpec) -> dict[str, str]:
    """Return the environment of a placement: what launchers need, and the package's own variables."""
    ours = {k: v for k, v in orders.environment.items() if k.startswith("JUPYTER_HVD_")}
    return {**launcher_variables(), **ours}


def describe_exit(code: int, host: str = "") -> str:
    """Return in words why a rank ended, from its exit code; 128 + n stands for signal n."""
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
