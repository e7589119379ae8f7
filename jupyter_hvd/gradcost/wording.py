"""Formats the figures of a report for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..svg import SUPERSCRIPT
from ..tensor.cost.formula import Formula
from ..tensor.language.units import in_seconds

if TYPE_CHECKING:
    from ..tensor.jax.timing import Spread


def format_formula(formula: Formula) -> str:
    """Format a formula for people: `2·n² + n − 1`."""
    text = re.sub(r"\*\*(\d+)", lambda m: m[1].translate(SUPERSCRIPT), str(formula))
    text = text.replace("+ -1*#", "− #").replace("1*#", "#") if "#" in text else text
    text = re.sub(r"^-", "−", text)
    return text.replace(" - ", " − ").replace("*", "·")


def translatable(text: str) -> str:
    """Return the text unchanged; the call marks it for translation (`scripts/server_texts.py`)."""
    return text


def name_of_plain(name: str) -> str:
    """Return in words what `jax.grad` differentiates: the user's function, or the translation."""
    return translatable(f"of {name}") if name else "of the same program in dense jax.numpy"


def format_number(value: float | None) -> str:
    """Format a count: exact below a million, `—` for None."""
    if value is None:
        return "—"
    if value < 1_000_000:
        return f"{value:,.0f}".replace(",", "\u202f")
    power = min(5, (len(str(int(value))) - 1) // 3)
    return f"{value / 1000**power:.4g}\u202f{'kMGTP'[power - 1]}"


def operation_count(value: float | None) -> str:
    """Format a count with the word "operation" or "operations"."""
    return f"{format_number(value)} operation{'' if value == 1 else 's'}"


def format_percent(share: float) -> str:
    """Format a share as a percentage: `37 %`, `<1 %`."""
    return "<1\u202f%" if 0 < share < 0.005 else f"{100 * share:.0f}\u202f%"


def format_ratio(value: float) -> str:
    """Format a ratio with two digits."""
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.1g}"


def format_spread(times: Spread) -> str:
    """Format a time with its quartiles: `128 µs (105 µs to 160 µs)`."""
    return f"{in_seconds(times.median)} ({format_quartiles(times)})"


def format_quartiles(times: Spread) -> str:
    """Format the quartiles of a time: `105 µs to 160 µs`."""
    return f"{in_seconds(times.low)} to {in_seconds(times.high)}"
