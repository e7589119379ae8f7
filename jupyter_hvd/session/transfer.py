"""Pushing values to the ranks: small ones in the message, large arrays through shared memory on this host.

A large array would pass twice through sockets for each rank, by the controller. On
this host it is written once, to memory that all ranks map: they share it until one
of them writes to its array, which then has pages of its own there.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Mapping

from ..launchers.reaper import make_shared_folder
from ..rank import remote
from ..rank.paths import AccessPath
from ..rank.serialization import SerializedValue
from .cluster import Cluster
from .monitor import Run

#: From this size on, a value goes through shared memory.
LARGE = 2**20
#: Where arrays begin in shared memory; vector instructions like it, and none needs more.
ALIGNMENT = 64


def push_values(ranks: Cluster, values: Mapping[AccessPath, SerializedValue]) -> Run:
    """Bind values on every rank, or set weights there; the ranks answer with what failed."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(dict(values), protocol=5, buffer_callback=buffers.append)
    size = sum(buffer.raw().nbytes for buffer in buffers)
    if not ranks.is_local or size < LARGE:
        return ranks.run(remote.set_values, pickle.dumps(dict(values), protocol=5), None, [])
    folder = make_shared_folder(ranks.job, size)
    try:
        places = []
        with (folder / "buffers").open("wb") as file:
            for buffer in buffers:
                file.seek(-(-file.tell() // ALIGNMENT) * ALIGNMENT)
                places.append((file.tell(), buffer.raw().nbytes))
                file.write(buffer.raw())
            file.truncate()
        return ranks.run(remote.set_values, head, str(folder / "buffers"), places)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
