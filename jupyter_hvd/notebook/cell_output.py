"""Shows the ranks' output in the notebook: one rank's unchanged, the others' folded."""

from __future__ import annotations

import html
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..launch.diagnosis import StallReport
from ..launch.progress import Stall
from .monitor import Message, ProgressResumed, Shown

#: Lines kept of each folded rank, and characters of each line.
KEPT, KEPT_CHARACTERS = 1000, 10_000
#: Seconds between two updates of the folded output.
PACE = 0.3


class RankText:
    """The last lines of a rank's output, as a terminal would show them: each stream has a line that it has not ended."""

    def __init__(self) -> None:
        self._ended: deque[str] = deque(maxlen=KEPT)
        self._open: dict[str, str] = {}

    @property
    def lines(self) -> list[str]:
        """The non-empty lines, oldest first, at most `KEPT`; unfinished lines come last."""
        lines = [*self._ended.copy(), *self._open.copy().values()][-KEPT:]
        return [line for line in lines if line]

    def add_text(self, text: str, stream: str = "stdout") -> None:
        r"""Append text of one stream, as a terminal would: `\r` overwrites the line, long lines are cut."""
        for piece in text.replace("\r\n", "\n").splitlines(keepends=True):
            line = self._open.get(stream, "") + piece.rstrip("\r\n")
            if len(line) > KEPT_CHARACTERS:
                line = line[:KEPT_CHARACTERS] + "…"
            if piece.endswith("\n"):
                self._ended.append(line)
            self._open[stream] = "" if piece.endswith(("\n", "\r")) else line


class CellOutput:
    """The output of one `%%distribute` cell.

    Attributes:
        cell: its number, 0 where it is none. texts: what each rank has printed. has_ended: whether no more is to come.
    """

    def __init__(
        self,
        shell: Any,
        stall_report: Callable[[Stall], StallReport],
        shows_others: bool = True,
        shown: int = 0,
        opens_others: bool = False,
        cell: int = 0,
        title: str = "",
    ) -> None:
        """
        Args:
            shows_others: show what other ranks print; those that share each batch print the same.
            shown: the rank whose output is shown as it is.
            opens_others: whether the output of others is unfolded.
            title: a line above the shown rank's output, if it has any.
        """
        self._shell = shell
        self._shows_others = shows_others
        self._shown = shown
        self._open = " open" * opens_others
        self._title = title
        self._stall_report = stall_report
        self._head: Any = None
        self._lines: list[str] = []
        self._folded: Any = None
        self.cell, self.has_ended = cell, False
        self.texts: dict[int, RankText] = {}
        self._dirty = False
        self._shown_at = 0.0
        self._stall: Any = None

    # Our own words

    def add_line(self, line: str) -> None:
        """Show one more line about what this cell does, above the ranks' output."""
        self._lines.append(line)
        self._show_head()

    def replace_last(self, line: str) -> None:
        """Replace the last line that `add_line` showed, or add the first."""
        if self._lines and self._lines[-1] == line:
            return
        self._lines[-1:] = [line]
        self._show_head()

    def _show_head(self) -> None:
        """Show the lines of `add_line`, in place of those shown before."""
        text = "\n".join(self._lines)
        markup = "<br>".join(html.escape(line) for line in self._lines)
        self._head = self._publish_data(
            {"text/plain": text, "text/html": f'<small style="opacity: 0.7">{markup}</small>'},
            self._head,
        )

    def show_diff(self, lines: Sequence[str]) -> None:
        """Show a unified diff; in HTML, added and removed lines are coloured."""
        colours = {"+": "#1a7f37", "-": "#cf222e", "@": "#0969da"}
        rows = (
            f'<span style="color: {colours[line[0]]}">{html.escape(line)}</span>'
            if line[:1] in colours
            else html.escape(line)
            for line in lines
        )
        self._publish_data(
            {"text/plain": "\n".join(lines), "text/html": f"<pre>{chr(10).join(rows)}</pre>"}, None
        )

    # The ranks' words

    def show_output(self, output: Shown) -> None:
        """Show output of a rank, a stall or its end: the shown rank's now, others' folded, at most every `PACE` s."""
        if isinstance(output, Stall):
            self._show_stall(self._stall_report(output))
        elif isinstance(output, ProgressResumed):
            went_on = f"The ranks waited {output.seconds:.0f} s for one another, and went on."
            self._stall = self._publish_data(
                {"text/plain": went_on, "text/html": f"<p>{html.escape(went_on)}</p>"}, self._stall
            )
        elif output.kind == "clear_output":
            self.texts.pop(output.rank, None)
        elif text := text_of(output):
            stream = str(output.content.get("name", "display"))  # what it displays comes by none
            self.texts.setdefault(output.rank, RankText()).add_text(text, stream)
            self._dirty |= output.rank != self._shown and self._shows_others
        if isinstance(output, Message) and output.rank == self._shown:
            if self._title:
                self.add_line(self._title)
                self._title = ""
            self._show_own(output)
        if self._dirty and time.monotonic() - self._shown_at > PACE:
            self._show_folded()

    def _show_stall(self, report: StallReport) -> None:
        """Show a report of ranks without progress, in place of the one shown before."""
        advice = "The stop button, or --timeout S, ends the cell."
        head, *rows = ([html.escape(text) for text in row] for row in report.rows)
        cells = [f"<th>{'</th><th>'.join(head)}</th>"]
        cells += [f"<td>{'</td><td>'.join(row)}</td>" for row in rows]
        sentences = (html.escape(sentence) for sentence in (*report.sentences, advice))
        markup = (
            f"<p>{html.escape(report.head)}</p><table><tr>{'</tr><tr>'.join(cells)}</tr></table>"
            f"<p>{'<br>'.join(sentences)}</p>"
        )
        plain = "\n".join([*report.lines, advice])
        self._stall = self._publish_data({"text/plain": plain, "text/html": markup}, self._stall)

    def _show_own(self, output: Message) -> None:
        """Show output of the shown rank as if the kernel had produced it."""
        content = output.content
        if output.kind == "stream":
            (sys.stderr if content["name"] == "stderr" else sys.stdout).write(content["text"])
        elif output.kind in ("display_data", "update_display_data", "execute_result"):
            self._shell.display_pub.publish(
                content["data"],
                content.get("metadata") or {},
                transient=content.get("transient") or {},
                update=output.kind == "update_display_data",
            )
        elif output.kind == "clear_output":
            self._shell.display_pub.clear_output(wait=bool(content.get("wait")))

    def _show_folded(self) -> None:
        """Show the other ranks' output in sections that the user can unfold."""
        self._dirty, self._shown_at = False, time.monotonic()
        plain, markup = [], []
        for rank in sorted(self.texts):
            lines = self.texts[rank].lines
            if not lines or rank == self._shown:
                continue
            plain += [f"[{rank}] {line}" for line in lines]
            count = f"{len(lines)} line{'s' * (len(lines) != 1)}"
            body = html.escape("\n".join(lines))
            title = f"<small>rank {rank}: {count}</small>"
            markup.append(
                f'<details{self._open}><summary style="cursor: pointer; opacity: 0.7">{title}</summary>'
                f"<pre>{body}</pre></details>"
            )
        if plain:
            self._folded = self._publish_data(
                {"text/plain": "\n".join(plain), "text/html": "".join(markup)}, self._folded
            )

    def show_rest(self) -> None:
        """Show folded output that was delayed, and mark this output as complete."""
        self.has_ended = True
        if self._dirty:
            self._show_folded()

    def _publish_data(self, data: dict[str, str], handle: Any) -> Any:
        """Display data, or update the display that `handle` stands for; return the display's handle."""
        from IPython.display import DisplayHandle, publish_display_data

        update = handle is not None
        handle = handle or DisplayHandle()
        publish_display_data(data, transient={"display_id": handle.display_id}, update=update)
        return handle


def text_of(output: Message) -> str:
    """Return the text of a rank's output as shown when folded; "" if it has none."""
    if output.kind == "stream":
        return str(output.content["text"])
    if output.kind in ("display_data", "execute_result"):
        return str(output.content["data"].get("text/plain", "")) + "\n"
    return ""
