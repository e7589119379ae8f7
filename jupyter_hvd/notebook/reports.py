"""Reports of failed runs on the ranks. Pure functions from a run and the cells to text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..launch.diagnosis import Line, ranks_text
from ..ranks.reply import RemoteError, Reply
from ..ranks.sent_cells import SentCell
from .monitor import Run
from .tracebacks import PLAIN, RED, find_blamed_rank, render_traceback

Cells = Mapping[str, SentCell]
#: The file whose frames an error has that was raised in the debugger.
DEBUGGER = "/ranks/debugger.py"
#: Said where a rank waits for one that has trained and ended.
UPDATES = "Ranks that train together make the same number of updates."


@dataclass(frozen=True)
class Failure:
    """The name and message of the error to raise, and the lines to show."""

    name: str
    message: str
    lines: tuple[str, ...]


def failure_of(run: Run, cells: Cells, timeout: float | None = None) -> Failure | None:
    """Return the failure of a run, as shown to the user; None if it succeeded.

    Args:
        cells: the cells by the names of their files on the ranks.
        timeout: the seconds that the run was given.
    """
    errors = {
        rank: reply
        for rank, reply in run.replies.items()
        if isinstance(reply, Reply) and reply.error is not None
    }
    if run.lost is not None:
        return headed_failure("RankLost", f"rank {run.lost[0]} was lost: {run.lost[1]}")
    match run.stopped:
        case "interrupt":
            return headed_failure(
                "KeyboardInterrupt",
                "interrupted",
                *position_lines(errors, cells),
                *stuck_lines(run),
            )
        case "timeout":
            message = f"not finished after {timeout:g} s"
            return headed_failure(
                "TimeoutError", message, *position_lines(errors, cells), *stuck_lines(run)
            )
        case "deadlock":
            late = run.stuck or run.waited or tuple(sorted(errors))
            done = ranks_text(sorted(set(run.replies) - set(late)) or sorted(run.replies))
            waiting = ranks_text(late)
            message = (
                f"{done} finished the cell while {waiting} still waits in a collective operation"
            )
            return headed_failure(
                "Deadlock", message, *([UPDATES] if run.has_trained else []), *stuck_lines(run)
            )
    if not errors:
        return None
    rank = find_blamed_rank(errors)
    error = errors[rank].error
    assert error is not None
    if error.type == "BdbQuit":
        return quit_failure(rank, error, cells)
    same = [
        r
        for r, e in sorted(errors.items())
        if e.error and (e.error.type, e.error.text) == (error.type, error.text)
    ]
    lines = (*render_traceback(error, ranks_text(same), cells), *stuck_lines(run))
    return Failure(error.type, error.text, lines)


def quit_failure(rank: int, error: RemoteError, cells: Cells) -> Failure:
    """The failure of a cell that the user has ended in the debugger of a rank: one line."""
    place = last_line(error, cells)
    at = f" at {place.name}" if place is not None else ""
    message = f"the cell was ended in the debugger of rank {rank}{at}"
    return Failure(error.type, message, (message,))


def headed_failure(name: str, message: str, *more: str) -> Failure:
    """Return a failure whose first line is its name, in red, and its message; other lines follow."""
    return Failure(name, message, (f"{RED}{name}{PLAIN}: {message}", *more))


def stuck_lines(run: Run) -> list[str]:
    """Return a line about the ranks that did not react to the interrupt; none if all did."""
    if run.stuck:
        return [f"{ranks_text(run.stuck)} waited in an operation that cannot be interrupted."]
    if run.waited:
        return [
            f"{ranks_text(run.waited)} waited for others; the collective operation was aborted."
        ]
    return []


def position_lines(errors: Mapping[int, Reply], cells: Cells) -> list[str]:
    """Return a line for each interrupted rank: the user's line at which it was."""
    lines = []
    for rank, reply in sorted(errors.items()):
        line = last_line(reply.error, cells) if reply.error else None
        if reply.error and line is not None:
            debugged = any(f.file.endswith(DEBUGGER) for f in reply.error.frames)
            lines.append(f"  rank {rank} was at {line.name}" + ", in the debugger" * debugged)
    return lines


def last_line(error: RemoteError, cells: Cells) -> Line | None:
    """The innermost of the user's lines in an error's frames."""
    lines = (line_of((f.file, f.line), cells) for f in error.frames)
    return next((line for line in reversed([*lines]) if line is not None), None)


def line_of(rank_position: tuple[str, int], cells: Cells) -> Line | None:
    """Return the user's line for a position on a rank; None if its file is no cell.

    Args:
        rank_position: file and line, as the cell was sent.
    """
    cell = cells.get(rank_position[0])
    if cell is None:
        return None
    number = cell.user_line(rank_position[1])
    rows = cell.source.splitlines()
    text = rows[number - 1].strip() if 0 < number <= len(rows) else ""
    return Line(f"In[{cell.number}], line {number}", text)
