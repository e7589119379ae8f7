"""Asks the user what the debugger of a rank wants to know, by the kernel's own input request."""

from __future__ import annotations

import _thread
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from IPython.core.error import StdinNotImplementedError

from ..launch.diagnosis import Line
from ..ranks.messages import BREAKPOINT
from .cell_output import CellOutput
from .monitor import Message
from .reports import Cells, line_of

#: Seconds after which a question that nobody has answered is given up: the front end has been closed.
ANSWER_WITHIN = 3600.0
#: Seconds between two looks whether a question is still of use.
LOOK = 0.5


class BreakpointPrompts:
    """The questions of one cell's debugger.

    Once one could not be answered, later breakpoints of the cell are passed over.
    """

    def __init__(self, shell: Any, screen: CellOutput, cells: Cells) -> None:
        """
        Args:
            screen: the output of the cell. cells: by the names of their files on the ranks.
        """
        self._shell, self._screen, self._cells = shell, screen, cells
        self._place, self._has_stopped = "", False

    def answer(self, message: Message, is_lost: Callable[[], bool]) -> Any:
        """Return the answer for a rank's debugger: the cells at a breakpoint, a line where it reads one; None lets it go on.

        Args:
            is_lost: whether a rank has ended, so that an answer is of no use.

        Raises:
            KeyboardInterrupt: the user interrupts the kernel.
        """
        content = message.content
        if message.kind != BREAKPOINT:
            sys.stdout.write(content["said"])
            return self._read_line(message.rank, content["prompt"], is_lost)
        line = line_of(tuple(content["place"]), self._cells) if content["place"] else None
        self._place = self._name_place(message.rank, line)
        if content["why"]:
            self._pass_over(content["why"])
            return None
        if not takes_input(self._shell):
            self._pass_over("this front end takes no input")
            return None
        if not self._has_stopped:
            self._has_stopped = True
            self._screen.add_line(
                f"rank {message.rank} stands at a breakpoint ({line.name if line else ''}); the other ranks pass over it, and "
                "wait in their next collective operation. `c` goes on, `q` ends the cell, `h` lists the commands."
            )
        return dict(self._cells)

    def _name_place(self, rank: int, line: Line | None) -> str:
        return f"on rank {rank}" if line is None else f"at {line.name} on rank {rank}"

    def _pass_over(self, why: str) -> None:
        self._screen.add_line(f"breakpoint() {self._place} is passed over: {why}.")

    def _read_line(self, rank: int, prompt: str, is_lost: Callable[[], bool]) -> str | None:
        """Return what the user types, "" at the end of input; None if nobody answers."""
        deadline = time.monotonic() + ANSWER_WITHIN
        try:
            line = read_line(prompt, lambda: is_lost() or time.monotonic() > deadline)
        except EOFError:
            return ""
        except StdinNotImplementedError:
            self._pass_over("this front end takes no input")
            return None
        if line is None and time.monotonic() > deadline:
            self._screen.add_line(
                f"nobody has answered the debugger of rank {rank} for {ANSWER_WITHIN / 60:.0f} minutes: "
                "the cell goes on without it."
            )
        return None if line is None else f"{line}\n"


def takes_input(shell: Any) -> bool:
    """Whether the front end that runs this cell can be asked for a line."""
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", True))


def read_line(prompt: str, is_over: Callable[[], bool]) -> str | None:
    """Ask the user for a line, in the thread that runs cells; None once the question is of no use any more.

    Raises:
        EOFError: the user ends the input. KeyboardInterrupt: the user interrupts the kernel.
        StdinNotImplementedError: the front end cannot be asked.
    """
    ended, given_up = threading.Event(), threading.Event()

    def look_on() -> None:
        while not ended.wait(LOOK):
            if is_over():
                given_up.set()
                _thread.interrupt_main()
                return

    threading.Thread(target=look_on, name="hvd-prompt", daemon=True).start()
    try:
        return input(prompt)
    except KeyboardInterrupt:
        if given_up.is_set():
            return None
        raise
    finally:
        ended.set()
