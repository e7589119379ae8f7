"""The data of a conversion, which Python, JSON, REST and TypeScript share.

The JSON form is documented in `docs/json.md` and is the same everywhere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..source.edits import Edit
from .decisions import decision_of
from .framework import TrainingLoop
from .rules.base import Severity

if TYPE_CHECKING:
    from nbformat import NotebookNode

Status = Literal["converted", "unchanged", "refused", "invalid"]


@dataclass(frozen=True)
class Change:
    """One change to the source, the rule that asked for it and why.

    Attributes:
        rule: the rule's code.
        cell: index of the notebook's cell from 0, None in a script.
        line: line in the cell or script, from 1, at which the change starts.
        before: the changed lines as they were.
        after: the same lines as they are now, with this change alone.
        why: one sentence for the user.
        needs: what must be in the program for this change to work; other changes provide it.
        provides: what this change provides: it is made where one that needs it is made, and only there.
        edits: the edits to the text of the script, or of the joined cells.
        origin: where the cell begins in the joined cells; 0 in a script.
    """

    rule: str
    cell: int | None
    line: int
    before: str
    after: str
    why: str
    needs: tuple[str, ...] = ()
    provides: str | None = None
    edits: tuple[Edit, ...] = field(default=(), repr=False)
    origin: int = field(default=0, repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return the change in the JSON form of `docs/json.md`. Its edits count characters (code points) from the start of its
        cell.
        """
        return {
            "rule": self.rule,
            "decision": decision_of(self.rule),
            "cell": self.cell,
            "line": self.line,
            "before": self.before,
            "after": self.after,
            "why": self.why,
            "needs": list(self.needs),
            "provides": self.provides,
            "edits": [
                _edit_as_json(edit.relative_to(self.origin))
                for edit in sorted(self.edits, key=Edit.sort_key)
            ],
        }


def _edit_as_json(edit: Edit) -> dict[str, Any]:
    """Return an edit's fields for JSON, without `other_end`, which only serves to order edits (`by_priority`)."""
    return {name: value for name, value in asdict(edit).items() if name != "other_end"}


@dataclass(frozen=True)
class Diagnostic:
    """Something found that the user should know; an error refuses the file.

    Attributes:
        cell: index of the notebook's cell from 0, None in a script.
        line: from 1. column: from 1.
        message: what is wrong. help: what to do about it.
    """

    code: str
    severity: Severity
    cell: int | None
    line: int
    column: int
    message: str
    help: str

    def as_json(self) -> dict[str, Any]:
        """Return the diagnostic in the JSON form of `docs/json.md`."""
        return {
            "code": self.code,
            "severity": self.severity,
            "cell": self.cell,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "help": self.help,
        }


@dataclass(frozen=True)
class Outcome:
    """What became of a program."""

    status: Status
    training_loop: TrainingLoop
    changes: tuple[Change, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return status, changes and diagnostics in the JSON form of `docs/json.md`; the converted text is not part of it."""
        return {
            "status": self.status,
            "training_loop": self.training_loop,
            "changes": [change.as_json() for change in self.changes],
            "diagnostics": [diagnostic.as_json() for diagnostic in self.diagnostics],
        }


@dataclass(frozen=True)
class Conversion(Outcome):
    """The outcome of converting a script: `code` is the input where nothing was converted."""

    code: str = field(kw_only=True)

    @property
    def edits(self) -> list[Edit]:
        """The edits that make all changes."""
        return [e for change in self.changes for e in change.edits if e.unless is None]


@dataclass(frozen=True)
class NotebookConversion(Outcome):
    """The outcome of converting a notebook: `notebook` is a new one, the input is left alone."""

    notebook: NotebookNode = field(kw_only=True)
