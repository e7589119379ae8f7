"""`TensorError`: what is wrong, where, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A stretch of one source line; columns count from 0."""

    filename: str
    line: int
    column: int
    end_column: int
    text: str


class TensorError(Exception):
    """A program or an argument that the tensor language does not have.

    `message` says what is wrong, `help` what to write instead, `place` where in the source, if
    anywhere.
    """

    def __init__(self, message: str, help: str = "", place: Place | None = None) -> None:  # noqa: A002
        super().__init__(message)
        self.message = message
        self.help = help
        self.place = place

    def __str__(self) -> str:
        lines = [self.message]
        if self.place is not None:
            at = self.place
            number = str(at.line)
            margin = " " * len(number)
            carets = "^" * max(1, at.end_column - at.column)
            lines = [
                f"{at.filename}:{at.line}:{at.column + 1}: {self.message}",
                f" {number} | {at.text.rstrip()}",
                f" {margin} | {' ' * at.column}{carets}",
            ]
        if self.help:
            lines.append(f"help: {self.help}")
        return "\n".join(lines)
