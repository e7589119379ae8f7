"""The cells that ranks have been sent: as the user wrote them, and as they were converted."""

from __future__ import annotations

from dataclasses import dataclass

from ..source.lines import line_origins


@dataclass(frozen=True)
class SentCell:
    """A cell as the user wrote it, and as it was converted."""

    number: int
    source: str
    converted: str

    def line_name(self, line: int) -> str:
        """The name of the user's line that a line of the conversion comes from: `In[3], line 5`."""
        return f"In[{self.number}], line {self.user_line(line)}"

    def user_line(self, line: int) -> int:
        """The user's line that a line of the conversion comes from."""
        origins = line_origins(self.source, self.converted)
        return origins[min(max(line, 1), len(origins)) - 1] if origins else line

    def sent_line(self, line: int) -> int:
        """The first line of the conversion that comes from a user's line, or from a later one."""
        origins = line_origins(self.source, self.converted)
        return next((sent for sent, origin in enumerate(origins, 1) if origin >= line), line)

    def source_line(self, line: int) -> str:
        """A line as the user wrote it; empty where the cell has none."""
        lines = self.source.splitlines()
        return lines[line - 1] if 0 < line <= len(lines) else ""
