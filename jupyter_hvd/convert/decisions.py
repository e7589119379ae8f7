"""Groups changes into decisions of the user, so that a panel shows a few decisions instead of hundreds of lines."""

from __future__ import annotations

from typing import Literal, get_args

#: What a reader of a conversion decides on. A program is right with all of `rate`, `batch` and `steps`, or none of them.
Decision = Literal["start", "averaging", "rate", "batch", "steps", "output"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)

#: By a rule's code, or the beginning of codes; the longest that matches counts.
_BY_CODE: dict[str, Decision] = {
    "HVD1": "start",
    "HVD2": "averaging",
    "HVD3": "averaging",
    "HVD4": "averaging",
    "HVD403": "output",
    "HVD6": "output",
    "HVD7": "start",
    "HVD8": "batch",
    "HVD803": "rate",
    "HVD804": "steps",
    "HVD9": "start",
}


def decision_of(code: str) -> Decision:
    """Return the decision to which a rule's changes belong: users accept or reject all changes of a decision together.

    Raises:
        KeyError: there is no rule with this code.
    """
    return _BY_CODE.get(code) or _BY_CODE[code[:4]]
