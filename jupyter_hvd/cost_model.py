"""Predicts the time of a step on N ranks from its time on one, for the panel's cost estimate.

See docs/distribute-reference.md.

Ranks share each batch: `global`, one process's; `per-rank`, one that is N times as large.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .convert.rules.base import Batch

#: Horovod puts gradients together into buffers of so many bytes, where `HOROVOD_FUSION_THRESHOLD` says nothing else.
FUSED = 128 * 2**20


@dataclass(frozen=True)
class Link:
    """What lies between two ranks: `bandwidth` in bytes a second and direction, `latency` of a message in seconds."""

    bandwidth: float
    latency: float


#: By name; bandwidth as the hardware states it, latency as commonly measured.
LINKS = {
    "10GbE": Link(1.25e9, 50e-6),
    "25GbE": Link(3.125e9, 30e-6),
    "100GbE": Link(12.5e9, 10e-6),
    "HDR": Link(25e9, 2e-6),
    "PCIe4": Link(32e9, 5e-6),
    "NDR": Link(50e9, 2e-6),
    "NVLink3": Link(300e9, 2e-6),
    "NVLink4": Link(450e9, 2e-6),
}


@dataclass(frozen=True)
class SingleProcessStep:
    """A step of one process: its seconds, those of all `cores` together, and the bytes of its gradients."""

    seconds: float
    cpu_seconds: float
    cores: int
    bytes: int


def batches_per_step(ranks: int, batch: Batch) -> int:
    """Of how many batches of one process a step of all ranks is."""
    return 1 if batch == "global" else ranks


def message_seconds(ranks: int, size: int, link: Link) -> float:
    """The time that the messages of a step take: outputs are gathered, then gradients of `size` bytes averaged, in rings.

    The bytes of outputs are left out: they are few beside the gradients unless a row is large, and then they are not gathered.
    """
    messages = 2 * (ranks - 1)
    averaging = messages * (size / ranks / link.bandwidth + ceil(size / FUSED) * link.latency)
    return averaging + (ranks - 1) * link.latency


def step_seconds(
    alone: SingleProcessStep, ranks: int, batch: Batch, link: Link, here: bool = False
) -> float:
    """The time of a step on some ranks.

    Args:
        here: they share the cores of the machine on which one process was timed, evenly where they want more than it has;
            else each has such cores, or a GPU, of its own.
    """
    share = batches_per_step(ranks, batch) / ranks
    computing = share * alone.seconds
    if here:
        computing = max(computing, share * ranks * alone.cpu_seconds / alone.cores)
    return computing + message_seconds(ranks, alone.bytes, link)


def speed_up(alone: SingleProcessStep, step: float, ranks: int, batch: Batch) -> float:
    """How many times as many examples the ranks train on in the same time as one process."""
    return batches_per_step(ranks, batch) * alone.seconds / step
