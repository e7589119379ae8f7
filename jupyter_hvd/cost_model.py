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
    """A connection between two ranks: `bandwidth` in bytes per second in each direction, and `latency` of a message in
    seconds.
    """

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
    """A step of one process: its seconds, its CPU seconds on all `cores` together, and the bytes of its gradients."""

    seconds: float
    cpu_seconds: float
    cores: int
    bytes: int


def batches_per_step(ranks: int, batch: Batch) -> int:
    """Return how many batches of one process a step of all ranks consumes."""
    return 1 if batch == "global" else ranks


def message_seconds(ranks: int, size: int, link: Link) -> float:
    """Estimate the seconds of a step's messages: a gather of outputs, then an average of gradients, in rings.

    The bytes of outputs are neglected: they are few compared to the gradients, unless a row is large, and such outputs
    are not gathered.

    Args:
        size: bytes of the gradients.
    """
    messages = 2 * (ranks - 1)
    averaging = messages * (size / ranks / link.bandwidth + ceil(size / FUSED) * link.latency)
    return averaging + (ranks - 1) * link.latency


def step_seconds(
    alone: SingleProcessStep, ranks: int, batch: Batch, link: Link, on_one_machine: bool = False
) -> float:
    """Estimate the seconds of a step on some ranks.

    Args:
        alone: the step as measured in one process.
        on_one_machine: whether the ranks share the cores of the machine on which that process ran; otherwise each has as
            many cores, or a GPU, of its own.
    """
    share = batches_per_step(ranks, batch) / ranks
    computing = share * alone.seconds
    if on_one_machine:
        computing = max(computing, share * ranks * alone.cpu_seconds / alone.cores)
    return computing + message_seconds(ranks, alone.bytes, link)


def speed_up(alone: SingleProcessStep, step: float, ranks: int, batch: Batch) -> float:
    """Return the factor by which all ranks train on more examples per second than one process."""
    return batches_per_step(ranks, batch) * alone.seconds / step
