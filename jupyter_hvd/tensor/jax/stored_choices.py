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


def find_choice(digest: str) -> Choices | None:
    """Return what has been chosen for a kernel, in this process or on disk; None if nothing has."""
    if digest not in _make_once:
        _make_once[digest] = _read_choice(digest)
    return _make_once[digest]


def set_choice(digest: str, choices: Choices) -> None:
    """Use these choices for a kernel from now on, in this process."""
    _make_once[digest] = choices


def store_choice(digest: str, choices: Choices) -> None:
    """Use these choices for a kernel from now on, and store them on disk; a failure to do so is reported once."""
    global _told
    set_choice(digest, choices)
    file = _choices_folder() / f"{digest}.json"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(_choice_as_json(choices)).encode())
    except (OSError, UnusableInputError) as error:
        if not _told:
            _told = True
            message = f"measurements are stored in this process only: {error}"
            warnings.warn(message, stacklevel=2)


def _read_choice(digest: str) -> Choices | None:
    """Return the stored choices; None if there are none that can be read."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        kept = json.loads((_choices_folder() / f"{digest}.json").read_bytes())
        return DENSE if kept.get("dense") else Choices.without(tuple(kept["omitted"]))
    return None


def _choice_as_json(choices: Choices) -> dict[str, object]:
    """Return choices as they are stored in JSON."""
    return {"dense": True} if choices.dense else {"omitted": choices.omitted}


def _choices_folder() -> Path:
    """Return the folder of stored choices."""
    return cache_folder() / "kernels"


def kernel_digest(*parts: object) -> str:
    """Return a name for a kernel on this device, with these versions of JAX and this package."""
    device = jax.devices()[0]
    own = sys.modules[
        __name__.partition(".")[0]
    ].__version__  # importing it would name what it shows
    whole = (*parts, device.platform, device.device_kind, jax.__version__, own)
    return hashlib.sha256("\n".join(map(str, whole)).encode()).hexdigest()[:32]
