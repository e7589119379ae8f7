"""`breakpoint()` on a notebook's ranks: one rank stops, and its pdb reads and writes in the notebook.

The rank asks its kernel, which asks the user (`notebook/breakpoints.py`). The other ranks pass over the breakpoint.
"""

from __future__ import annotations

import os
import pdb
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from queue import SimpleQueue
from types import FrameType
from typing import Any

from ..launch import rank_location
from ..launch.rank_location import label_of
from .messages import BREAKPOINT, INPUT, Messages
from .sent_cells import SentCell

#: Asks the kernel something, and returns its answer.
Ask = Callable[[str, Mapping[str, Any]], Any]

COMPILED = (
    "TensorFlow compiles the function around it, and runs no Python in it afterwards. With "
    "`tf.config.run_functions_eagerly(True)`, or `run_eagerly=True` in `compile`, it stops there"
)
OTHER_THREAD = "it is in another thread than the one that runs the cell"
OUTSIDE = "it is called from outside of your cells"


class KernelQuestions:
    """What this rank asks its kernel, one question after the other."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._answers = SimpleQueue[tuple[int, Any]]()
        self._serial = count(1)

    def send(self, call: int, kind: str, content: Mapping[str, Any]) -> None:
        """Send the kernel a message that belongs to a call, after what was printed before."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # the user may have set another one
                stream.flush()
        parent = {"header": {"call": call}}
        self._messages.session.send(self._messages, kind, content, parent)

    def ask(self, call: int, kind: str, content: Mapping[str, Any]) -> Any:
        """Send a question, and wait for the answer, however long that takes."""
        number = next(self._serial)
        rank_location.at_breakpoint = True
        try:
            self.send(call, kind, {**content, "number": number})
            while True:
                answered, answer = self._answers.get()
                if answered == number:
                    return answer
        finally:
            rank_location.at_breakpoint = False

    def take_answer(self, number: int, answer: Any) -> None:
        """Take an answer; of an earlier question, which was given up, it is dropped."""
        self._answers.put((number, answer))


class Terminal:
    """The debugger's input and output: its text is shown together with the next question for a line."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._text = ""

    def write(self, text: str) -> int:
        self._text += text
        return len(text)

    def flush(self) -> None:
        """Nothing: the text goes with the next question."""

    def readline(self) -> str:
        """Return the line that the user types; where nobody can type any, the debugger continues."""
        said, newline, prompt = self._text.rpartition("\n")
        self._text = ""
        line = self._ask(INPUT, {"said": said + newline, "prompt": prompt})
        return "continue\n" if line is None else str(line)

    def take_rest(self) -> str:
        """Return the text that no question has followed."""
        text, self._text = self._text, ""
        return text


class CellDebugger(pdb.Pdb):
    """Pdb in the cells of a notebook: with the user's lines, and without what runs the cells."""

    def __init__(self, terminal: Terminal, cells: Mapping[str, SentCell]) -> None:
        """
        Args:
            cells: by the names of their files.
        """
        streams: Any = terminal
        # An interrupt ends the cell: the debugger does not take it.
        super().__init__(stdin=streams, stdout=streams, nosigint=True, readrc=False)
        self._cells = cells
        self._is_at_start = True

    # Where it stops

    def start(self, frame: FrameType) -> None:
        """Stop in a frame."""
        self._is_at_start = True
        self.set_trace(frame)

    def stop_here(self, frame: FrameType) -> bool:
        return bool(super().stop_here(frame)) and cell_frame(frame) is not None

    def user_call(self, frame: FrameType, argument_list: Any) -> None:
        if not is_top_level(frame):  # else its first line is at hand
            super().user_call(frame, argument_list)

    def user_return(self, frame: FrameType, return_value: Any) -> None:
        """At the end of a statement of a cell, go on to the next statement: IPython runs each by itself."""
        if not is_top_level(frame):
            super().user_return(frame, return_value)
        elif self._is_at_start:  # the statement is `breakpoint()`
            self.interaction(frame, None)

    def interaction(self, *arguments: Any) -> None:
        self._is_at_start = False
        super().interaction(*arguments)

    def _cmdloop(self) -> None:
        """Read and run commands; an interrupt is not caught."""
        self.cmdloop()

    # What it shows

    def get_stack(self, f: FrameType | None, t: Any) -> tuple[list[tuple[FrameType, int]], int]:
        """Return the stack from the cell on."""
        stack, index = super().get_stack(f, t)
        first = next((i for i, (frame, _) in enumerate(stack) if is_in_cell(frame)), 0)
        return stack[first:], max(0, index - first)

    def format_stack_entry(self, frame_lineno: tuple[FrameType, int], lprefix: str = ": ") -> str:
        frame, line = frame_lineno
        cell = self._cells.get(frame.f_code.co_filename)
        if cell is None or line is None:
            return super().format_stack_entry(frame_lineno, lprefix)
        function = "" if is_top_level(frame) else f", in {frame.f_code.co_name}"
        text = cell.source_line(cell.user_line(line))
        return f"{cell.line_name(line)}{function}{lprefix}{text}"

    def _print_lines(self, lines: Any, start: int, breaks: Any = (), frame: Any = None) -> None:
        """Print lines; of a cell, those that the user wrote."""
        cell = self._cells.get(frame.f_code.co_filename) if frame is not None else None
        if cell is None or not lines:
            super()._print_lines(lines, start, breaks, frame)
            return
        current, stops = cell.user_line(frame.f_lineno), {cell.user_line(each) for each in breaks}
        first, last = cell.user_line(start), cell.user_line(start + len(lines) - 1)
        for number in range(first, last + 1):
            marks = ("B" if number in stops else " ") + "->" * (number == current)
            self.message(f"{number:>3} {marks}\t{cell.source_line(number)}")

    # Commands

    def do_break(self, arg: str, temporary: Any = 0) -> Any:
        cell = self._cells.get(self.curframe.f_code.co_filename) if self.curframe else None
        number, comma, condition = arg.partition(",")
        if cell is not None and number.strip().isdigit():
            arg = f"{cell.sent_line(int(number))}{comma}{condition}"
        return super().do_break(arg, temporary)

    do_b = do_break

    def do_interact(self, arg: str) -> None:
        """interact
        Not on ranks.
        """
        self.error("there is no interpreter here: `!statement` runs a statement")

    def do_run(self, arg: str) -> None:
        """run
        Not on ranks.
        """
        self.error("a cell cannot be run again from here: `q` ends it")

    do_restart = do_run


class Breakpoints:
    """The breakpoints of one call, on the rank that stops at them."""

    def __init__(self, questions: KernelQuestions, call: int) -> None:
        self._questions, self._call = questions, call
        self._terminal = Terminal(self._ask)
        self._debugger: CellDebugger | None = None
        self._is_passed_over = False
        self._reported = set[tuple[Any, str]]()

    def stop(self, frame: FrameType) -> None:
        """Open the debugger in a frame, if the kernel has someone to ask."""
        if self._is_passed_over or os.environ.get("PYTHONBREAKPOINT") == "0":
            return
        found = cell_frame(frame)
        place = None if found is None else (found.f_code.co_filename, found.f_lineno)
        if why := reason_to_pass(found):
            if (place, why) not in self._reported:
                self._reported.add((place, why))
                self._questions.send(self._call, BREAKPOINT, {"place": place, "why": why})
            return
        cells = self._ask(BREAKPOINT, {"place": place, "why": ""})
        if cells is None:
            self._is_passed_over = True
            return
        if self._debugger is None:
            self._debugger = CellDebugger(self._terminal, cells)
        self._debugger.start(frame)

    def end(self, namespace: dict[str, Any]) -> None:
        """Let the debugger go, and what it has put in a cell's names."""
        if self._debugger is not None:
            sys.settrace(None)
            self._debugger.clear_all_breaks()
            for name in ("__return__", "__exception__"):
                namespace.pop(name, None)
            sys.stdout.write(self._terminal.take_rest())

    def _ask(self, kind: str, content: Mapping[str, Any]) -> Any:
        answer = self._questions.ask(self._call, kind, content)
        if answer is None:
            self._is_passed_over = True
            if self._debugger is not None:
                self._debugger.clear_all_breaks()
        return answer


def cell_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of a cell, from a frame outwards; None if there is none."""
    while frame is not None and not is_in_cell(frame):
        frame = frame.f_back
    return frame


def is_in_cell(frame: FrameType) -> bool:
    return label_of(frame.f_code.co_filename) is not None


def is_top_level(frame: FrameType) -> bool:
    """Whether a frame runs a statement of a cell outside of functions."""
    return is_in_cell(frame) and frame.f_code.co_name == "<module>"


def reason_to_pass(frame: FrameType | None) -> str:
    """Return why the debugger cannot stop here; "" if it can.

    Args:
        frame: the cell's, None outside of any.
    """
    if threading.current_thread() is not threading.main_thread():
        return OTHER_THREAD
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and not tensorflow.executing_eagerly():
        return COMPILED
    return OUTSIDE if frame is None else ""


_questions: KernelQuestions | None = None
#: Those of the cell that runs; None on ranks that pass over them.
_breakpoints: Breakpoints | None = None


def install_debugger(messages: Messages) -> None:
    """Let `breakpoint()` and `set_trace()` ask the kernel."""
    global _questions
    from IPython.core import debugger

    _questions = KernelQuestions(messages)
    sys.breakpointhook = stop_at_breakpoint
    pdb.set_trace = debugger.set_trace = stop_at_breakpoint


def stop_at_breakpoint(*_: Any, **__: Any) -> None:
    """Open the debugger where this is called, on the rank that stops there."""
    if _breakpoints is not None:
        _breakpoints.stop(sys._getframe(1))


def take_answer(number: int, answer: Any) -> None:
    """Take the kernel's answer to a question; called in another thread than the one that waits."""
    if _questions is not None:
        _questions.take_answer(number, answer)


@contextmanager
def stops_at_breakpoints(call: int | None, namespace: dict[str, Any]) -> Iterator[None]:
    """Stop at breakpoints within; on a rank that is not to, they are passed over.

    Args:
        call: the number of the call; None on ranks that pass over.
        namespace: of the cells.
    """
    global _breakpoints
    if call is None or _questions is None:
        yield
        return
    _breakpoints = Breakpoints(_questions, call)
    try:
        yield
    finally:
        _breakpoints.end(namespace)
        _breakpoints = None
