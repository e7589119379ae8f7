"""Bandwidth and latency between ranks, from how long they took to add up numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from ..cost_model import FUSED
from .errors import DistributeError


@dataclass(frozen=True)
class Network:
    """The network between some ranks: `bandwidth` in bytes a second and `latency` in seconds a message.

    `times` are the bytes of an allreduce and its seconds, `error` how far the figures miss one of these at most.
    """

    ranks: int
    bandwidth: float
    latency: float
    error: float
    times: tuple[tuple[int, float], ...]

    def allreduce_seconds(self, size: float) -> float:
        """Return the seconds of a ring allreduce of `size` bytes: each rank sends 2·(N−1) messages of an N-th."""
        messages = 2 * (self.ranks - 1)
        return messages * (size / self.ranks / self.bandwidth + self.latency)

    def averaging_seconds(self, size: int) -> float:
        """Return the seconds that averaging gradients of `size` bytes adds to a step.

        Gradients of a type are one message, which is sent when the last is there, so that it does not overlap the
        backward pass. It is split into as many buffers as it fills.
        """
        buffers = ceil(size / FUSED)
        return buffers * self.allreduce_seconds(size / buffers) if buffers else 0.0

    def gathering_seconds(self, size: float) -> float:
        """Return the seconds of a ring allgather of `size` bytes in all: each rank sends N−1 messages of an N-th."""
        return (self.ranks - 1) * (size / self.ranks / self.bandwidth + self.latency)

    def sharing_seconds(self, size: int, outputs: int) -> float:
        """Return the seconds of the messages of a step with `--batch global`, which follow one another.

        Args:
            size: bytes of the gradients.
            outputs: bytes of the model's outputs for the full batch.
        """
        return self.averaging_seconds(size) + self.gathering_seconds(outputs)


def fit_network(ranks: int, times: Sequence[tuple[int, float]]) -> Network:
    """Return the bandwidth and latency that explain these times of a ring allreduce best, by relative error.

    Raises:
        DistributeError: the times do not grow with the bytes.
    """
    sizes, seconds = (np.array(column, float) for column in zip(*times, strict=True))
    parts = np.stack([np.ones_like(sizes), sizes]) / seconds
    (fixed, a_byte), *_ = np.linalg.lstsq(parts.T, np.ones_like(sizes), rcond=None)
    if a_byte <= 0:
        raise DistributeError(
            "the times of these allreduces do not grow with their bytes: measure again on a quiet machine"
        )
    messages = 2 * (ranks - 1)
    bandwidth = messages / ranks / a_byte
    network = Network(
        ranks, float(bandwidth), max(float(fixed) / messages, 1e-9), 0.0, tuple(times)
    )
    error = max(abs(network.allreduce_seconds(size) / found - 1) for size, found in times)
    return Network(ranks, network.bandwidth, network.latency, float(error), network.times)
