"""Runs a stand-alone program on the ranks of a job of Slurm: `python FILE PROGRAM [ARGS]`.

`jupyter hvd job` writes this module, with what it needs of its neighbours, into one file beside
the program. The batch script runs that file once, on the job's first node: it keeps the store in
which the ranks find one another, and lets `srun` start the file again for each rank. What the
ranks are told travels in Slurm's own messages, and in no command line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from horovod.runner.gloo_run import create_slot_env_vars

from .allocation import current_allocation
from .hosts import (
    GLOO_TIMEOUT,
    LaunchError,
    address_of,
    address_towards,
    hosts_of_ranks,
    interface_variables,
    is_local,
)
from .rendezvous import Rendezvous, slots_of

ADDRESS = "HOROVOD_GLOO_RENDEZVOUS_ADDR"


def start_ranks(arguments: Sequence[str]) -> int:
    """Start a rank for each task of the job with `srun`, wait, and return srun's exit code.

    Raises:
        LaunchError: this is no job of Slurm, or its nodes do not know one another.
    """
    found = current_allocation()
    if found is None or found.scheduler != "slurm":
        raise LaunchError("this is not a Slurm job: submit the script with sbatch")
    others = [address_of(host.name) for host in found.hosts if not is_local(host.name)]
    address = address_towards(others[0]) if others else "127.0.0.1"
    slots = slots_of(hosts_of_ranks(found.hosts))
    store = Rendezvous((address, 0), others, slots)
    # Since Slurm 22.05 srun does not take this over from the job.
    cores = os.environ.get("SLURM_CPUS_PER_TASK")
    command = [
        *("srun", "--label", "--kill-on-bad-exit=1", "--distribution=block"),
        f"--ntasks={len(slots)}",
        *([f"--cpus-per-task={cores}"] if cores else []),
        *(sys.executable, "-P", os.path.abspath(__file__), *arguments),  # noqa: PTH100 — as it is named
    ]
    environment = {
        "PYTHONHASHSEED": "0",
        **GLOO_TIMEOUT,
        **os.environ,
        **store.variables,
        "PYTHONUNBUFFERED": "1",
    }
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 — a list, no shell


def become_rank(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Replace this process, a task of `srun`, by the program, with Horovod's variables for its rank."""
    step = {
        **environment,
        "SLURM_JOB_NODELIST": environment["SLURM_STEP_NODELIST"],
        "SLURM_TASKS_PER_NODE": environment["SLURM_STEP_TASKS_PER_NODE"],
        "SLURM_JOB_CPUS_PER_NODE": environment["SLURM_STEP_TASKS_PER_NODE"],
    }
    found = current_allocation(step)
    assert found is not None
    slot = slots_of(hosts_of_ranks(found.hosts))[int(environment["SLURM_PROCID"])]
    own = {name: str(value) for name, value in create_slot_env_vars(slot).items()}
    os.execve(  # noqa: S606 — no shell
        sys.executable,
        [sys.executable, *arguments],
        {**interface_variables(environment[ADDRESS]), **environment, **own},
    )


def main() -> int:
    """Become a rank, or start all of them with `srun`; return the exit code."""
    if ADDRESS in os.environ and "SLURM_PROCID" in os.environ:
        become_rank(sys.argv[1:], os.environ)
    try:
        return start_ranks(sys.argv[1:])
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
