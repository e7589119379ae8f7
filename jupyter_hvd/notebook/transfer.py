"""Pushing values to the ranks: small ones in the message of a cell, large arrays through shared memory on this host.

A large array would pass through a socket for each rank. On this host it is written once, to memory that all ranks
map: they share it until one of them writes to its array, which then has pages of its own there.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..launch.reaper import make_shared_folder
from ..ranks import remote
from ..ranks.paths import AccessPath
from ..ranks.serialization import SerializedValue, size_of
from .cluster import Cluster
from .monitor import Run
from .weights import WeightedObject, outermost_objects

#: From this size on, a value goes through shared memory.
LARGE = 2**20
#: Where arrays begin in shared memory; vector instructions like it, and none needs more.
ALIGNMENT = 64


@dataclass(frozen=True)
class Push:
    """Values for the ranks by path, and the digests of what these have then."""

    values: Mapping[AccessPath, SerializedValue] = field(default_factory=dict)
    digests: Mapping[str, int] = field(default_factory=dict)

    def __or__(self, other: Push) -> Push:
        return Push({**self.values, **other.values}, {**self.digests, **other.digests})


def push_of_weights(owned: Sequence[WeightedObject], sent_digests: Mapping[str, int]) -> Push:
    """Collect the weights of the kernel that differ from the ranks' copies, with the digests of all."""
    differ = outermost_objects([each for each in owned if not each.is_known(sent_digests)])
    return Push(
        {path: each.weights for each in differ for path in each.paths},
        {str(path): each.digest for each in owned for path in each.paths},
    )


def needs_own_call(ranks: Cluster, values: Mapping[AccessPath, SerializedValue]) -> bool:
    """Whether values are so large that they are sent through shared memory, in a call before the cell's."""
    return ranks.is_local and sum(map(size_of, values.values())) >= LARGE


def push_values(ranks: Cluster, values: Mapping[AccessPath, SerializedValue]) -> Run:
    """Bind values or set weights on every rank, in one call; the replies say what failed, by path."""
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
