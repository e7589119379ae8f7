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
    """Source before and after a rule, without those it says to `ignore`, or for another `batch`.

    `after` is None where the program is refused, and `before` again where something is told and nothing changed.

    `after` shows this rule's changes alone. The test of the example converts `before` and
    compares; `docs/rules.md` shows it.
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
    """A line that is put under a header, which the line before may have already."""

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
    """Something to tell the user instead.

    Attributes:
        anchor: the node to look at; for what is no Python, where it begins in the program's text.
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
        """Everything in the module that this rule changes or objects to."""

    def provide(self, context: ContextT, name: str, users: Sequence[Fix]) -> Fix | Problem | None:
        """What puts something that is needed into the program, where it is this rule that does.

        Args:
            users: the fixes that are made, in front of which it must stand.
        """
        return None
