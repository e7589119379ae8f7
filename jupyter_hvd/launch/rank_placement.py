"""Chooses the launcher and the hosts of a job: from the user's options, or from what a scheduler has allocated."""

from __future__ import annotations

from dataclasses import dataclass, field

from .addresses import own_address
from .allocation import Allocation, current_allocation
from .base import HOROVODRUN, LAUNCHERS, Launcher
from .hosts import Host, LaunchError, hosts_for, require_ranks
from .mpi import mpirun_launcher, require_mpi
from .slurm import Resources, address_towards_nodes, require_slurm, salloc_launcher


@dataclass(frozen=True)
class PlacementOptions:
    """The placement that the user requests.

    Attributes:
        hosts: as horovodrun's `-H`. launcher: one of `LAUNCHERS`. resources: for Slurm alone.
    """

    hosts: str | None = None
    launcher: str | None = None
    resources: Resources = field(default_factory=Resources)


#: This machine, even inside an allocation.
HERE = PlacementOptions(launcher="horovodrun")


@dataclass(frozen=True)
class RankAssignment:
    """The placement that was chosen.

    Attributes:
        size: how many ranks. where: they were asked to go.
        hosts: of the ranks, in order; none where the launcher learns them when Slurm grants some.
        address: this machine's, as these hosts see it.
    """

    size: int
    where: PlacementOptions
    launcher: Launcher
    hosts: tuple[Host, ...]
    address: str

    @property
    def is_local(self) -> bool:
        """Whether all ranks are on this machine."""
        return bool(self.hosts) and self.address.startswith("127.")


def place_ranks(size: int, where: PlacementOptions = HERE) -> RankAssignment:
    """Choose hosts and launcher for `size` ranks; may ask the scheduler and resolve host names.

    Raises:
        LaunchError: there is no room, or the options do not fit together.
    """
    if where.launcher not in (None, *LAUNCHERS):
        raise LaunchError(f"--launcher {where.launcher}: choose one of {', '.join(LAUNCHERS)}")
    if where.hosts is not None and where.launcher in ("slurm", "hostfile"):
        raise LaunchError(f"-H and --launcher {where.launcher} each name hosts: leave one out")
    if where.launcher == "mpirun":
        require_mpi()
    asked = where.resources.slurm_options()
    found = None if where.launcher == "horovodrun" or where.hosts else current_allocation()
    if where.launcher == "hostfile" and (found is None or found.scheduler == "slurm"):
        raise LaunchError(
            "--launcher hostfile: this is not a job of PBS, LSF or Grid Engine, which list their "
            "hosts in PBS_NODEFILE, LSB_HOSTS or PE_HOSTFILE"
        )
    if found is not None and where.launcher in (None, found.scheduler, "hostfile", "mpirun"):
        if asked:
            raise LaunchError(
                f"job {found.job} has its resources already: leave {' '.join(asked)} out"
            )
        return _place_in_allocation(found, size, where)
    if where.launcher == "slurm":
        require_slurm()
        require_ranks(size)
        address = address_towards_nodes(where.resources.partition)
        return RankAssignment(size, where, salloc_launcher(size, where.resources), (), address)
    if asked:
        raise LaunchError(f"{' '.join(asked)}: this is for --launcher slurm")
    hosts = hosts_for(size, where.hosts)
    launcher = mpirun_launcher() if where.launcher == "mpirun" else HOROVODRUN
    return RankAssignment(size, where, launcher, hosts, own_address(hosts))


def _place_in_allocation(
    allocation: Allocation, size: int, where: PlacementOptions
) -> RankAssignment:
    """Place ranks on the hosts of an allocation; raise LaunchError if it is too small."""
    require_ranks(size)
    hosts = allocation.hosts_for(size)
    within = Launcher("srun" if allocation.scheduler == "slurm" else "ssh")
    launcher = mpirun_launcher() if where.launcher == "mpirun" else within
    return RankAssignment(size, where, launcher, hosts, own_address(hosts))
