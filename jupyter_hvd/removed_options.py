"""Options and values of earlier versions, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: What to do instead of each option, by its name on the command line.
REMOVED_OPTIONS: Mapping[str, str] = {
    "compression": "gradients are sent in full precision, so that N ranks give the result of one process; leave it out",
    "backward-passes-per-step": "with --batch per-rank each step already averages over N times the rows; "
    "leave it out, or choose a larger batch size in the program",
    "target": "a conversion runs on Keras 2, tf_keras and Keras 3; leave it out",
}
#: What to do instead of each value, by option and value.
REMOVED_VALUES: Mapping[tuple[str, str], str] = {
    ("batch", "scaled"): "write per-rank, which is the default",
}


def removed_option(name: str) -> str:
    """Return what to use instead of a removed option; "" for any other name, with hyphens or underscores."""
    option = name.replace("_", "-")
    advice = REMOVED_OPTIONS.get(option)
    return f"{option} was removed: {advice}" if advice else ""


def removed_value(name: str, value: Any) -> str:
    """Return what to use instead of a value that an option no longer accepts; "" for any other value."""
    advice = REMOVED_VALUES.get((name, value)) if isinstance(value, str) else None
    return f"{value} was removed: {advice}" if advice else ""


def removed_words(words: Sequence[str]) -> str:
    """Return what to use instead of the first removed option or value on a command line; "" for none."""
    for word, following in zip(words, [*words, ""][1:], strict=True):
        if not word.startswith("--"):
            continue
        name, given, value = word[2:].partition("=")
        if advice := removed_option(name):
            return f"--{advice}"
        if advice := removed_value(name, value if given else following):
            return f"--{name} {advice}"
    return ""
