"""Ranks on Slurm's nodes: by `srun` inside an allocation; outside, in a new one by `salloc`.

`placement.py` starts the ranks in either case. Outside an allocation it runs under `salloc`, which
waits in the queue, and gives the allocation back when placement ends.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from .base import Launcher
from .hosts import LaunchError, address_of, address_towards


@dataclass(frozen=True)
class Resources:
    """The resources that are requested from Slurm, beside the number of tasks.

    Attributes:
        time: the limit, as sbatch has it, `2:00:00`. partition: where.
        more: further options of salloc, `--gpus-per-task=1`.
    """

    time: str | None = None
    partition: str | None = None
    more: tuple[str, ...] = ()

    def slurm_options(self) -> list[str]:
        """Return the options of salloc or sbatch for these resources."""
        named = (("--time", self.time), ("--partition", self.partition))
        return [*(f"{name}={value}" for name, value in named if value), *self.more]


def salloc_launcher(size: int, resources: Resources) -> Launcher:
    """Return the launcher for a job outside an allocation: salloc asks for one, and waits in the queue."""
    salloc = ("salloc", f"--ntasks={size}", "--job-name=jupyter-hvd", "--kill-command=TERM")
    return Launcher("srun", wrapper_command=(*salloc, *resources.slurm_options()))


def require_slurm() -> None:
    """Raise LaunchError if there is no Slurm here."""
    if shutil.which("salloc") is None or shutil.which("srun") is None:
        raise LaunchError("--launcher slurm: salloc or srun is missing on this machine")


def address_towards_nodes(partition: str | None) -> str:
    """Return this machine's address as Slurm's nodes see it.

    Raises:
        LaunchError: Slurm does not answer, has no such partition, or no node that can be reached.
    """
    words = ["sinfo", "--noheader", "--Node", "--format=%o"]
    words += [f"--partition={partition}"] if partition else []
    done = subprocess.run(  # noqa: S603 — a list of arguments, no shell
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LaunchError(f"Slurm does not answer: {done.stderr.strip()}")
    nodes = done.stdout.split()
    if not nodes:
        raise LaunchError(
            f"Slurm has no node in the partition {partition or 'that is the default'}"
        )
    return _first_address(nodes)


def _first_address(nodes: Sequence[str]) -> str:
    """Return this machine's address towards the first node that can be reached."""
    refusal: Exception | None = None
    for node in nodes[:16]:
        try:
            return address_towards(address_of(node))
        except (LaunchError, OSError) as error:
            refusal = error
    raise LaunchError(f"no node of Slurm's can be reached from here: {refusal}")
