"""Reports to the user: once for each layer, by rank 0."""

from __future__ import annotations

import sys
from typing import Any

from .checksums import call_site
from .context import sharing

_reported: set[str] = set()


def name_of(owner: Any) -> str:
    """Return a layer or function as the user knows it: `Encoder "encoder_1"`."""
    kind = getattr(owner, "__qualname__", None) or type(owner).__name__
    name = getattr(owner, "name", "")
    return f'`{kind}` "{name}"' if name and kind != name else f"`{kind}`"


def report_unsharded(owner: Any, reason: str) -> None:
    """Report that a call runs unsharded on every rank, and why."""
    name = name_of(owner)
    text = f"{name} ({call_site()}) runs unsharded on every rank, with the same result and no speedup: {reason}."
    report_once(text, key=name + reason)


def report_nothing_shared() -> None:
    """Report at the end of a program that trains that none of its calls was sharded, unless it was said of each."""
    if sharing.has_differentiated and not sharing.has_shared and not _reported:
        report_line(
            f"no call was sharded: each of the {sharing.size} ranks did all of the work, with the same result and no speedup. "
            "Calls of Keras layers and models, and of functions marked with jupyter_hvd.runtime.share, can be sharded."
        )


def report_once(text: str, key: str = "") -> None:
    """Report a text once.

    Args:
        key: identifies what is reported; "" for the text itself.
    """
    key = key or text
    if key not in _reported:
        _reported.add(key)
        report_line(text)


def report_line(text: str) -> None:
    """Print a line to stderr, on rank 0 only."""
    if sharing.rank == 0:
        print(f"jupyter_hvd: {text}", file=sys.stderr, flush=True)
