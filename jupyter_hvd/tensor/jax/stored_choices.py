"""The fastest candidate found for a kernel (`tuning`), in this process and on disk."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import jax

from ...files import UnusableInputError, cache_folder, write_atomically
from ..lowering.choices import DENSE, Choices

#: By `digest`; None where a look at the disk found nothing.
_make_once: dict[str, Choices | None] = {}
_told = False


def known(digest: str) -> Choices | None:
    """What has been chosen for a kernel, if anything has."""
    if digest not in _make_once:
        _make_once[digest] = _read(digest)
    return _make_once[digest]


def assume(digest: str, choices: Choices) -> None:
    """From now on, in this process."""
    _make_once[digest] = choices


def remember(digest: str, choices: Choices) -> None:
    """From now on, and in later processes where the disk takes it; where not, that is told once."""
    global _told
    assume(digest, choices)
    file = _folder() / f"{digest}.json"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(_written(choices)).encode())
    except (OSError, UnusableInputError) as error:
        if not _told:
            _told = True
            message = f"measurements are stored in this process only: {error}"
            warnings.warn(message, stacklevel=2)


def _read(digest: str) -> Choices | None:
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        kept = json.loads((_folder() / f"{digest}.json").read_bytes())
        return DENSE if kept.get("dense") else Choices.without(tuple(kept["omitted"]))
    return None


def _written(choices: Choices) -> dict[str, object]:
    return {"dense": True} if choices.dense else {"omitted": choices.omitted}


def _folder() -> Path:
    return cache_folder() / "kernels"


def digest(*parts: object) -> str:
    """A name for a kernel on this device, with these versions."""
    device = jax.devices()[0]
    own = sys.modules[
        __name__.partition(".")[0]
    ].__version__  # importing it would name what it shows
    whole = (*parts, device.platform, device.device_kind, jax.__version__, own)
    return hashlib.sha256("\n".join(map(str, whole)).encode()).hexdigest()[:32]
