"""Errors that `%%distribute` shows to the user, without any frames of ours."""

from __future__ import annotations

from collections.abc import Sequence


class DistributeError(Exception):
    """For the user: IPython shows these lines and no frames of ours."""

    def __init__(self, message: str, lines: Sequence[str] | None = None) -> None:
        super().__init__(message)
        self.lines = (
            list(lines) if lines is not None else [f"\x1b[31m%%distribute\x1b[0m: {message}"]
        )

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows as traceback."""
        return self.lines


def named_error(name: str, message: str, lines: Sequence[str]) -> DistributeError:
    """Return an error whose class has the name of the one on the rank, as in a normal cell."""
    kind: type[DistributeError] = type(name, (DistributeError,), {})
    return kind(message, lines)
