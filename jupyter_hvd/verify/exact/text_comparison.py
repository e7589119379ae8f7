"""Compares two texts line by line: numbers within a tolerance, other words exactly. Times and progress bars are ignored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w])|\bnan\b|\binf\b"
)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: What marks a progress bar: of Keras, of tqdm, of rich.
BAR = re.compile(r"[━█▏▎▍▌▋▊▉╸╺]|\d+/\d+ \[[=>.]+\]|\d+%\|")
#: Times of day, durations and speeds, and where an object is in memory.
VARYING = re.compile(
    r"0x[0-9a-f]{6,}|\b\d{12,}(?=: TensorSpec\()"
    r"|\d+:\d\d(?::\d\d(?:\.\d+)?)?"
    r"|\d+(?:\.\d*)?(?:e[-+]?\d+)?\s*(?:ns|µs|us|ms|s|sec|secs|seconds?|min|minutes?|hours?|h)(?:/\w+)?(?![\w])"
    r"|\d+(?:\.\d*)?\s*(?:it|its|steps?|batch(?:es)?|images?|img|samples?|examples?|rows?|tokens?|epochs?)/(?:s|sec|second)\b"
)
#: A number that was printed with digits behind the point may be off by one in the last of them.
LAST_DIGIT = 1.01
#: So many characters of a line are shown, and so many of those left of a difference.
MOST_SHOWN, LEFT_OF = 70, 30


@dataclass(frozen=True)
class TextDifference:
    """A difference between two texts.

    Attributes:
        key: `LINE` or `LINE.NUMBER`, counted from 0, among the compared lines.
        ours: the line of the first text, "" for none. ends: whether nothing after it was compared.
        kind: of a number: the words of its line and its position among the numbers. size: the absolute difference.
    """

    key: str
    detail: str
    ours: str = ""
    ends: bool = False
    kind: str = ""
    size: float = 0.0


def select_compared_lines(lines: Iterable[str]) -> list[str]:
    """Return the lines to compare, without invisible characters, times and progress bars."""
    found = []
    for line in lines:
        pieces = [p for p in re.split(r"[\r\x08]+", ESCAPE.sub("", line)) if not BAR.search(p)]
        text = VARYING.sub("…", pieces[-1] if pieces else "").strip()
        if text:
            found.append(" ".join(text.split()))
    return found


def compare_texts(
    reference: Sequence[str], tested: Sequence[str], tolerance: float
) -> tuple[int, list[TextDifference]]:
    """Return the number of compared lines, and their differences.

    Args:
        reference, tested: lines from `select_compared_lines`.
    """
    found: list[TextDifference] = []
    for number, (ours, theirs) in enumerate(zip(reference, tested, strict=False)):
        if replace_numbers(ours) != replace_numbers(theirs):
            start = find_excerpt_start(ours, theirs)
            detail = f"{shorten_line(theirs[start:])} instead of {shorten_line(ours[start:])}"
            return number, [*found, TextDifference(str(number), detail, ours, ends=True)]
        pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
        found += [
            TextDifference(
                f"{number}.{place}",
                f"{b} instead of {a} in {shorten_line(ours)}",
                ours,
                kind=f"{replace_numbers(ours)} {place}",
                size=abs(float(a) - float(b)),
            )
            for place, (a, b) in enumerate(pairs)
            if not are_numbers_equal(a, b, tolerance)
        ]
    least = min(len(reference), len(tested))
    if len(reference) > least:
        detail = f"{shorten_line(reference[least])} is missing"
        found.append(TextDifference(str(least), detail, reference[least], ends=True))
    elif len(tested) > least:
        found.append(
            TextDifference(str(least), f"{shorten_line(tested[least])} is added", ends=True)
        )
    return least, found


def replace_numbers(line: str) -> str:
    """Replace the numbers in a line by `#`, and remove its spaces."""
    return re.sub(r"\s", "", NUMBER.sub("#", line))


def find_excerpt_start(line: str, other: str) -> int:
    """Return the position from which two lines are shown, so that a difference late in the line is visible."""
    pairs = enumerate(zip(line, other, strict=False))
    first = next((place for place, (a, b) in pairs if a != b), min(len(line), len(other)))
    return first - LEFT_OF if first > MOST_SHOWN else 0


def shorten_line(line: str) -> str:
    """Quote a line, shortened to `MOST_SHOWN` characters."""
    return repr(line if len(line) <= MOST_SHOWN else f"{line[: MOST_SHOWN - 1]}…")


def are_numbers_equal(reference: str, tested: str, tolerance: float) -> bool:
    """Whether two printed numbers are equal: integers exactly, others within the tolerance or one unit in the last digit."""
    if reference == tested:
        return True
    if not (is_decimal(reference) or is_decimal(tested)):
        return False
    a, b = float(reference), float(tested)
    if a != a or b != b:
        return a != a and b != b
    allowed = max(
        tolerance * max(1.0, abs(a)),
        LAST_DIGIT * max(last_digit_value(reference), last_digit_value(tested)),
    )
    return a == b or abs(a - b) <= allowed


def is_decimal(number: str) -> bool:
    """Whether a printed number has a decimal point or an exponent, or is inf or nan."""
    return any(c in number.lower() for c in ".en")


def last_digit_value(number: str) -> float:
    """Return the value of one unit in the last decimal place; 0 for an integer."""
    digits, _, exponent = number.lower().partition("e")
    places = len(digits.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - places) if "." in digits else 0.0
