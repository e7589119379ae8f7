"""The device that kernels are planned for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax

from ..lowering.device import Device, device_of

_assumed: list[Device] = []


def current_device() -> Device:
    """Return the profile of JAX's first device, or of the one that kernels are `planned_for`."""
    if _assumed:
        return _assumed[-1]
    return device_of(jax.default_backend(), jax.devices()[0].device_kind)


@contextmanager
def planned_for(device: Device) -> Iterator[None]:
    """Plan kernels for another device than JAX's in this context, to look at their plans or to compare them."""
    _assumed.append(device)
    try:
        yield
    finally:
        _assumed.pop()
