"""What a conversion is: the data that Python, JSON, REST and TypeScript share.

The JSON form is documented in `docs/json.md` and is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..frameworks.base import TrainingLoop
from .edits import Edit

if TYPE_CHECKING:
    from nbformat import NotebookNode

Status = Literal["converted", "unchanged", "refused", "invalid"]
Severity = Literal["error", "warning", "info"]
Target = Literal["keras2", "tf_keras"]
Compression = Literal["none", "fp16"]
#: The code of what is no Python; it belongs to no rule.
SYNTAX = "HVD001"


class OptionError(ValueError):
    """A value that an option does not take.

    Attributes:
        name: the option's. problem: what is wrong with the value, for the user.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name, self.problem = name, problem


@dataclass(frozen=True)
class Options:
    """What the caller chooses.

    Attributes:
        select: codes or prefixes of codes (`HVD3`) of the rules to use; empty means all.
        ignore: codes or prefixes of the rules and diagnostics to leave out.
        target: which Keras the program will run on: `keras2`, that of TensorFlow up to 2.15, or
            `tf_keras`, the same as a package of its own beside newer TensorFlow.
        compression: `fp16` halves what gradients cost on the network.
        warmup_epochs: `fit` reaches the multiplied learning rate after so many epochs.
        backward_passes_per_step: `fit` averages the gradients of so many batches at once.
        open_ended: the program goes on elsewhere, as a notebook's next cell: a training step that
            nothing calls yet is no fault.
        standalone: what the program needs of `jupyter_hvd.runtime` is written into it, so that it
            runs where Horovod is and this package is not.

    Raises:
        OptionError: a value is of another kind, or names a rule that there is none of.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    target: Target = "keras2"
    compression: Compression = "none"
    warmup_epochs: int = 0
    backward_passes_per_step: int = 1
    open_ended: bool = False
    standalone: bool = False

    def __post_init__(self) -> None:
        for name in ("select", "ignore"):
            check_codes(name, getattr(self, name))
        for name, choices in (("target", get_args(Target)), ("compression", get_args(Compression))):
            if getattr(self, name) not in choices:
                raise OptionError(name, f"must be one of {', '.join(choices)}")
        for name, least in (("warmup_epochs", 0), ("backward_passes_per_step", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise OptionError(name, f"must be a whole number from {least} on")
        for name in ("open_ended", "standalone"):
            if type(getattr(self, name)) is not bool:
                raise OptionError(name, "must be true or false")

    @classmethod
    def resolve(
        cls, explicit: Mapping[str, Any] | None = None, path: Path | None = None
    ) -> Options:
        """What was asked for, else what the project says, else what is installed.

        Args:
            explicit: the options that the caller gave.
            path: the file, or its folder, whose nearest `pyproject.toml` counts; none where it is None.

        Raises:
            OptionError: a value that was given is wrong.
            UnusableInputError: one in `pyproject.toml` is.
        """
        from ..settings import installed_target, settings_near

        project = {} if path is None else settings_near(path)
        return cls(**{"target": installed_target(), **project, **(explicit or {})})

    def uses(self, code: str) -> bool:
        """Whether the rule or diagnostic with this code takes part."""
        chosen = not self.select or code.startswith(self.select)
        return chosen and not (self.ignore and code.startswith(self.ignore))


def check_codes(name: str, codes: Any) -> None:
    """Refuse what is no tuple of codes, or beginnings of codes, of rules.

    Raises:
        OptionError
    """
    if not isinstance(codes, tuple) or not all(isinstance(code, str) for code in codes):
        raise OptionError(name, 'must be a list of codes, such as ["HVD2", "HVD301"]')
    if not codes:
        return
    from .rules import RULES

    known = [SYNTAX, *(rule.code for rule in RULES)]
    for code in codes:
        if not code or not any(each.startswith(code) for each in known):
            raise OptionError(name, f"there is no rule {code}; `jupyter hvd rule` lists all")


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
        """The change, its edits counted in characters (code points) from the start of its cell."""
        return {
            "rule": self.rule,
            "cell": self.cell,
            "line": self.line,
            "before": self.before,
            "after": self.after,
            "why": self.why,
            "needs": list(self.needs),
            "provides": self.provides,
            "edits": [
                asdict(edit.shifted(self.origin)) for edit in sorted(self.edits, key=Edit.order)
            ],
        }


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
class Conversion:
    """The outcome of converting a script: `code` is the input where nothing was converted."""

    code: str
    status: Status
    training_loop: TrainingLoop
    changes: tuple[Change, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def edits(self) -> list[Edit]:
        """The edits that make all changes."""
        return [e for change in self.changes for e in change.edits if e.unless is None]

    def as_json(self) -> dict[str, Any]:
        return outcome_as_json(self)


@dataclass(frozen=True)
class NotebookConversion:
    """The outcome of converting a notebook: `notebook` is a new one, the input is left alone."""

    notebook: NotebookNode
    status: Status
    training_loop: TrainingLoop
    changes: tuple[Change, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return outcome_as_json(self)


def outcome_as_json(outcome: Conversion | NotebookConversion) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "training_loop": outcome.training_loop,
        "changes": [change.as_json() for change in outcome.changes],
        "diagnostics": [diagnostic.as_json() for diagnostic in outcome.diagnostics],
    }
