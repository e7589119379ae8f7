"""`TensorError`: what is wrong, where, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A range of columns, from 0, in one line of the user's source."""

    filename: str
    line: int
    column: int
    end_column: int
    text: str


def as_tensor_error(name: str, error: Exception, place: Place | None = None) -> TensorError:
    """Convert an unexpected exception, such as insufficient memory or an internal error, to a TensorError."""
    text = f"{type(error).__name__}: {error}".strip(": ")
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        message = f"`{name}` needs more memory than there is: {text.splitlines()[0]}"
        return TensorError(message, "`print(f.plan(…))` says which array is large", place)
    if isinstance(error, RecursionError):
        return TensorError(
            f"`{name}` is nested too deeply", "give parts of its expressions names", place
        )
    advice = (
        "this is a fault of jupyter_hvd, not of your program: please report it with the program"
    )
    return TensorError(f"`{name}` failed within: {text}", advice, place)


class TensorError(Exception):
    """A program or argument that the tensor language does not support.

    `message` says what is wrong, `help` what to write instead, and `place` where in the source it is, if known.
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
