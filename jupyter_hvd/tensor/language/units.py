"""Formats amounts for people."""

from __future__ import annotations


def in_bytes(n: float) -> str:
    """Format a number of bytes, to three figures."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"


def in_seconds(seconds: float) -> str:
    """Format a time, to three figures."""
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
    unit, scale = next((u for u in units if seconds >= u[1]), units[-1])
    return f"{seconds / scale:.3g} {unit}"
