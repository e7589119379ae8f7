"""What decides which kernel is the fastest on a kind of device, as data: the profiles in `devices`, most of whose figures
`benchmarks/device_profile.py` measures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Device:
    """A kind of device.

    Attributes:
        kinds: how the names begin that JAX has for such devices.
        source: where the figures are from.
        launch: seconds of a call that computes nothing.
        kernel: seconds of one more kernel in a call.
        iteration: seconds of an iteration of a loop, besides its kernels.
        bytes_per_second: read and written, one after the other.
        flops: operations in a second that are no products of matrices, by the type of numbers.
        products: those of products of matrices, at JAX's default precision.
        calls_per_second: of an elementary function in float32.
        gather: seconds for an entry that is read at an index from data.
        scatter: seconds for an entry that is added at an index from data.
        running_sum: seconds for an entry of running sums.
        memory: bytes.
        intermediate: entries of an array from which on it is made in blocks, where it is only summed.
        block: entries of the largest array in a block.
        unroll: iterations of a loop that are compiled as one.
        windows: whether a correlation is a convolution, or slices that are added.
        by_value: whether arrays lie as it suits a few cores (columns, parts, rows).
        many_cores: whether dense arrays and JAX's own derivative are preferred, unless structure saves half the bytes.
    """

    name: str
    platform: str
    kinds: tuple[str, ...]
    source: str
    launch: float
    kernel: float
    iteration: float
    bytes_per_second: float
    flops: Mapping[str, float]
    products: Mapping[str, float]
    calls_per_second: float
    gather: float
    scatter: float
    running_sum: float
    memory: float
    intermediate: int
    block: int
    unroll: int
    windows: bool
    by_value: bool
    many_cores: bool

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.platform

    @staticmethod
    def of(profile: Mapping[str, Any]) -> Device:
        """The device that a profile describes. Raises KeyError where it lacks a figure."""
        known = {f.name: profile[f.name] for f in fields(Device)}
        return Device(**{**known, "kinds": tuple(known["kinds"])})

    @property
    def without_windows(self) -> Device:
        """The same, its windows read as they are."""
        return replace(self, windows=False)

    def flop_rate(self, dtype: str) -> float:
        """Operations in a second in a type of numbers."""
        return self.flops.get(dtype, self.flops["float32"])


@cache
def profiles() -> tuple[Device, ...]:
    """The devices of which there is a profile."""
    files = sorted((Path(__file__).parent / "devices").glob("*.json"))
    return tuple(Device.of(json.loads(file.read_text())) for file in files)


@cache
def device_of(platform: str, kind: str) -> Device:
    """The profile of a device by JAX's names for it: that of its kind; of another GPU the slowest one's, of anything else a CPU's
    without what suits a CPU alone.
    """
    for device in profiles():
        if device.platform == platform and kind.startswith(device.kinds or ("",)):
            return device
    others = [device for device in profiles() if device.platform == platform]
    if others:
        slowest = min(others, key=lambda device: device.bytes_per_second)
        return replace(slowest, name=kind)
    return replace(CPU, name=kind, platform=platform, windows=False, by_value=False)


CPU = device_of("cpu", "cpu")
