"""The allocation of the calling process: its hosts, and the number of ranks for which each has room.

Slurm passes it by variables; PBS, LSF and Grid Engine pass a file of nodes or a list of them.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .hosts import Host, LaunchError


@dataclass(frozen=True)
class Allocation:
    """Hosts that are this job's own.

    Attributes:
        scheduler: "slurm", "pbs", "lsf" or "sge". job: its number there.
        hosts: in the scheduler's order; a host's slots are the tasks that were asked for on it.
        cores: as `hosts`, a slot for each core, where the scheduler tells that too.
    """

    scheduler: str
    job: str
    hosts: tuple[Host, ...]
    cores: tuple[Host, ...] = ()

    def hosts_for(self, size: int) -> tuple[Host, ...]:
        """Return hosts of the allocation with `size` slots: one per task or, if these are too few, per core.

        Raises:
            LaunchError: the allocation is smaller.
        """
        for hosts in (self.hosts, self.cores):
            if sum(host.slots for host in hosts) >= size:
                return hosts
        room = max(sum(host.slots for host in hosts) for hosts in (self.hosts, self.cores))
        raise LaunchError(
            f"job {self.job} of {self.scheduler} has room for {room} ranks, not for {size}: "
            "ask for more tasks when you submit it, or start fewer ranks"
        )


def current_allocation(environment: Mapping[str, str] | None = None) -> Allocation | None:
    """Return the allocation of a scheduler inside which this process runs; None outside of any.

    Raises:
        LaunchError: there is one, but its list of hosts cannot be read.
    """
    of = os.environ if environment is None else environment
    try:
        if "SLURM_JOB_ID" in of and "SLURM_JOB_NODELIST" in of:
            return _slurm_hosts(of)
        if "PBS_NODEFILE" in of:
            names = Path(of["PBS_NODEFILE"]).read_text().split()
            return Allocation("pbs", of.get("PBS_JOBID", "?"), _count_slots(names))
        if "LSB_DJOB_HOSTFILE" in of or "LSB_HOSTS" in of:
            file = of.get("LSB_DJOB_HOSTFILE")
            names = (Path(file).read_text() if file else of["LSB_HOSTS"]).split()
            return Allocation("lsf", of.get("LSB_JOBID", "?"), _count_slots(names))
        if "PE_HOSTFILE" in of:
            rows = [line.split() for line in Path(of["PE_HOSTFILE"]).read_text().splitlines()]
            hosts = tuple(Host(row[0], int(row[1])) for row in rows if row)
            return Allocation("sge", of.get("JOB_ID", "?"), hosts)
    except (OSError, ValueError, IndexError) as error:
        raise LaunchError(f"the scheduler's list of hosts cannot be read: {error}") from None
    return None


def _slurm_hosts(environment: Mapping[str, str]) -> Allocation:
    """Return the allocation that Slurm's variables describe."""
    names = slurm_names(environment["SLURM_JOB_NODELIST"])
    cores = expand_repeats(environment.get("SLURM_JOB_CPUS_PER_NODE") or "1")
    tasks = (
        expand_repeats(environment["SLURM_TASKS_PER_NODE"])
        if environment.get("SLURM_TASKS_PER_NODE")
        else cores
    )
    if not len(names) == len(tasks) == len(cores):
        raise ValueError(f"{len(names)} nodes, but tasks for {len(tasks)}")
    return Allocation(
        "slurm",
        environment["SLURM_JOB_ID"],
        tuple(map(Host, names, tasks)),
        tuple(map(Host, names, cores)),
    )


def slurm_names(nodes: str) -> list[str]:
    """Return the hosts of a list such as `node[01-03,07]`, by `scontrol`."""
    done = subprocess.run(  # noqa: S603 — a list of arguments, no shell
        ["scontrol", "show", "hostnames", nodes],  # noqa: S607 — the user's own Slurm
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr.strip() or f"scontrol does not know {nodes}")
    return done.stdout.split()


def expand_repeats(text: str) -> list[int]:
    """Return the numbers of a list of Slurm's: `4(x2),3` is 4, 4, 3."""
    numbers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a list of numbers")
        numbers += [int(match[1])] * int(match[2] or 1)
    return numbers


def _count_slots(names: Iterable[str]) -> tuple[Host, ...]:
    """Return the hosts of a node file, which names a host once for each slot."""
    return tuple(Host(name, slots) for name, slots in Counter(names).items())
