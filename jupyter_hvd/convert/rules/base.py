"""The base class of rules: a code, a rationale, examples, and `find`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

import libcst as cst

from ...source.edits import Edit

Severity = Literal["error", "warning", "info"]
#: Which batch the ranks share at a step: `per-rank`, one process's times the number of ranks; `global`, one process's.
Batch = Literal["per-rank", "global"]
BATCHES: tuple[Batch, ...] = get_args(Batch)
#: What a family of rules looks at: a program, and the names to write with.
ContextT = TypeVar("ContextT")

#: What a fix needs that says nothing else: the backend, imported and started. Changes speak of it by this name.
BACKEND = "horovod"
#: The codes of all rules.
CODES: list[str] = []


@dataclass(frozen=True)
class Example:
    """Source before and after a rule, with the rules in `ignore` left out, and for the mode in `batch`.

    `after` is None if the program is refused, and equals `before` if the rule only reports something. It shows this rule's
    changes alone. The test of the example converts `before` and compares; `docs/rules.md` shows it.
    """

    before: str
    after: str | None
    note: str = ""
    ignore: tuple[str, ...] = ()
    batch: Batch = "per-rank"


def program(text: str) -> str:
    """The program in an indented triple-quoted string."""
    return cleandoc(text) + "\n"


@dataclass(frozen=True)
class Guard:
    """A line that is put under a header, such as `if hvd.rank() == 0:`; consecutive lines share one header."""

    line: cst.SimpleStatementLine
    header: Edit


@dataclass(frozen=True)
class Fix:
    """Edits that belong together, anchored where the user should look.

    Attributes:
        anchor: the node to look at, or an offset of the program's text.
        needs: what must be in the program for them to work; a mandatory rule provides it.
        provides: what they provide for others.
        guard: the header among the edits, left out where the line before stands under the same one.
    """

    anchor: cst.CSTNode | int
    edits: tuple[Edit, ...]
    why: str = ""
    needs: tuple[str, ...] = (BACKEND,)
    provides: str | None = None
    guard: Guard | None = None


@dataclass(frozen=True)
class Problem:
    """Something to report to the user; no edit is made.

    Attributes:
        anchor: the node to look at; for text that is not Python, its offset in the program.
    """

    anchor: cst.CSTNode | int
    message: str
    help: str
    severity: Severity = "error"


Finding = Fix | Problem


class Rule(ABC, Generic[ContextT]):
    """Base of all rules. The docstring of a rule is its page in the documentation.

    Attributes:
        code: `HVD` and three digits; the first is the family.
        name: a few words, for lists.
        rationale: why, in one sentence, for the user who reads a diff.
        examples: what it does, tested and shown.
        mandatory: it provides what the changes of others need; no option leaves it out.
        refuses: it looks at programs, too, in which there is nothing to convert.
        batches: the `--batch` modes in which it applies; both by default.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    rationale: ClassVar[str]
    examples: ClassVar[tuple[Example, ...]] = ()
    mandatory: ClassVar[bool] = False
    refuses: ClassVar[bool] = False
    batches: ClassVar[tuple[Batch, ...]] = BATCHES

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "code" in vars(cls):
            CODES.append(cls.code)

    @abstractmethod
    def find(self, context: ContextT) -> Iterator[Finding]:
        """Yield all edits and problems that this rule finds in the program."""

    def provide(self, context: ContextT, name: str, users: Sequence[Fix]) -> Fix | Problem | None:
        """Return the fix that puts `name` into the program, such as an import; None if this rule does not provide it.

        Args:
            users: the fixes that need it; it must stand above them.
        """
        return None
