"""What decides which kernel is the fastest on a kind of device, as data: the profiles in `devices`, and those that
`jupyter hvd device-profile` has measured for this user.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from ...files import UnusableInputError, write_atomically


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
        in_loop: whether kernels are those of a loop's iterations; not part of a profile.
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
    in_loop: bool = False

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.platform

    @staticmethod
    def of(profile: Mapping[str, Any]) -> Device:
        """Return the device that a profile describes.

        Raises:
            KeyError: it lacks a figure.
            TypeError, ValueError: a figure is not a positive number, or of another type.
        """
        known = {f.name: profile[f.name] for f in fields(Device) if f.default is MISSING}
        for name, value in _profile_numbers(known):
            if type(value) not in (int, float) or not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value!r}")
        return Device(**{**known, "kinds": tuple(known["kinds"])})

    def as_json(self) -> str:
        """Return the profile as text that `of` can read."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @property
    def for_iterations(self) -> Device:
        """The same device, for the kernels of a loop's iterations."""
        return replace(self, in_loop=True)

    @property
    def without_windows(self) -> Device:
        """The same device without special kernels for windows."""
        return replace(self, windows=False)

    def flop_rate(self, dtype: str) -> float:
        """Return the operations per second for a type of numbers."""
        return self.flops.get(dtype, self.flops["float32"])


def _profile_numbers(profile: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the numbers of a profile, by name; not booleans and texts."""
    for f in fields(Device):
        match f.type:
            case "float" | "int":
                yield f.name, profile[f.name]
            case "Mapping[str, float]":
                yield from ((f"{f.name} of {dtype}", x) for dtype, x in profile[f.name].items())


@cache
def known_profiles() -> tuple[Device, ...]:
    """Return all device profiles, those that the user has measured first."""
    return (*_measured_profiles(), *_bundled_profiles())


def _bundled_profiles() -> Iterator[Device]:
    """Yield the profiles in this package."""
    for file in sorted((Path(__file__).parent / "devices").glob("*.json")):
        yield Device.of(json.loads(file.read_text()))


def profile_folder() -> Path:
    """Return the folder of the user's own profiles; it may not exist."""
    own = os.environ.get("XDG_CONFIG_HOME")
    return (Path(own) if own else Path.home() / ".config") / "jupyter-hvd" / "devices"


def keep_profile(device: Device) -> Path:
    """Write a profile where later processes find it.

    Raises:
        UnusableInputError: the place cannot be written.
    """
    name = re.sub(r"\W+", "-", f"{device.platform} {device.name}".lower())
    file = profile_folder() / f"{name}.json"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableInputError(f"{file.parent}: cannot be made ({error.strerror})") from None
    write_atomically(file, device.as_json().encode())
    return file


def _measured_profiles() -> Iterator[Device]:
    """Yield the user's readable profiles; warn about others in one line."""
    for file in sorted(profile_folder().glob("*.json")):
        try:
            yield Device.of(json.loads(file.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            reason = f"lacks {error}" if isinstance(error, KeyError) else error
            warnings.warn(
                f"{file} is ignored: {reason}; `jupyter hvd device-profile` measures it again",
                stacklevel=2,
            )


@cache
def device_of(platform: str, kind: str) -> Device:
    """Return the profile for JAX's platform and device kind.

    For an unknown GPU, the slowest GPU's profile; for anything else, a CPU's without what only suits CPUs.
    """
    for device in known_profiles():
        if device.platform == platform and kind.startswith(device.kinds or ("",)):
            return device
    others = [device for device in known_profiles() if device.platform == platform]
    if others:
        slowest = min(others, key=lambda device: device.bytes_per_second)
        return replace(slowest, name=kind)
    return replace(CPU, name=kind, platform=platform, windows=False, by_value=False)


#: Any CPU, whatever was measured of this one.
CPU = next(device for device in _bundled_profiles() if device.platform == "cpu")
