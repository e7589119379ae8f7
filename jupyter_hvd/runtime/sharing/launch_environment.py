"""The launcher's variables in each rank's environment, read before Horovod starts."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

#: For each launcher the variable that has a process's rank, and those that name the job, the same on all its ranks:
#: horovodrun and `jupyter hvd`; Open MPI; what starts processes by PMIx, as srun can; other MPIs, which name no job.
VARIABLES = (
    ("HOROVOD_RANK", ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")),
    ("OMPI_COMM_WORLD_RANK", ("PMIX_NAMESPACE",)),
    ("PMIX_RANK", ("PMIX_NAMESPACE",)),
    ("PMI_RANK", ()),
)


@dataclass(frozen=True)
class Launched:
    """A rank as its launcher describes it.

    Attributes:
        seed: derived from the job's name, so equal on all ranks and different in the next job.
    """

    rank: int
    seed: int


def launched_by(environment: Mapping[str, str]) -> Launched | None:
    """Return the rank of this process; None where no launcher has started it."""
    for rank, names in VARIABLES:
        if rank in environment:
            job = ":".join(environment.get(name, "") for name in names)
            return Launched(int(environment[rank]), zlib.crc32(job.encode()) % 2**31)
    return None
