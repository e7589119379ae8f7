"""The programs of `tests/programs/`, each with what is expected of its conversion, as compilers test their diagnostics.

`NAME.py` begins with the rules that change it or say something about it: `# expect: HVD101 HVD301`, or, of a program that is
refused, `# expect: refused HVD902`. A second comment names what a program is for, or not for, where another Keras cannot run it
(`# Keras 2 alone: …`, `# Not tf-keras: …`), and says of one that is a fragment that it is not run (`# Not run: …`).
`NAME.expected` has each change with its reason, each diagnostic, and the difference of the texts. `make accept` writes the first
line and that file anew; read the diff.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jupyter_hvd.convert import Conversion

from .stacks import KERAS_2, LEGACY

FOLDER = Path(__file__).parent / "programs"
MARK = "# expect: "
REFUSED = "refused"


@dataclass(frozen=True)
class Program:
    """A program of the suite.

    Attributes:
        expected: of its first line: codes of rules, after `refused` where it is.
    """

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def source(self) -> str:
        return self.path.read_text()

    @property
    def expected(self) -> list[str]:
        first = self.source.partition("\n")[0]
        return first.removeprefix(MARK).split() if first.startswith(MARK) else []

    @property
    def is_refused(self) -> bool:
        return self.expected[:1] == [REFUSED]

    @property
    def is_run(self) -> bool:
        return not self._second.startswith("# Not run: ")

    def cannot_run(self, keras: str) -> str | None:
        """Why a program, as it is written, is for another Keras than this; None where it is for this one."""
        if found := re.fullmatch(r"# Not (.+?): (.+)", self._second):
            return found[2] if found[1] == keras else None
        found = re.fullmatch(r"# (Keras [23]) alone: (.+)", self._second)
        family = KERAS_2.keras if keras == LEGACY.keras else keras
        return found[2] if found and found[1] != family else None

    @property
    def _second(self) -> str:
        return self.source.splitlines()[1]

    @property
    def golden(self) -> Path:
        return self.path.with_suffix(".expected")


def found(conversion: Conversion) -> list[str]:
    """What the first line of a converted program is to say."""
    if conversion.status == "refused":
        return [REFUSED, *sorted({d.code for d in conversion.diagnostics if d.severity == "error"})]
    changes = {change.rule for change in conversion.changes}
    return sorted(changes | {d.code for d in conversion.diagnostics})


def described(source: str, conversion: Conversion) -> str:
    """A conversion as a text to be read: each change with its reason, each diagnostic, and what changed."""
    changes = [(c.line, f"line {c.line}: {c.rule}: {c.why}") for c in conversion.changes]
    said = [
        (d.line, f"line {d.line}: {d.severity} {d.code}: {d.message}; {d.help}")
        for d in conversion.diagnostics
    ]
    lines = [text for _, text in sorted(changes + said, key=lambda each: each[0])]
    difference = difflib.unified_diff(
        source.splitlines(), conversion.code.splitlines(), "before", "after", n=1, lineterm=""
    )
    return "\n".join([*lines, *difference, ""])


def representatives(programs: Sequence[Program], most: int) -> frozenset[str]:
    """The names of at most so many programs for each set of rules, the longest ones."""
    by_rules: dict[tuple[str, ...], list[Program]] = {}
    for program in sorted(programs, key=lambda program: (-len(program.source), program.name)):
        by_rules.setdefault(tuple(program.expected), []).append(program)
    return frozenset(program.name for found in by_rules.values() for program in found[:most])


PROGRAMS = [Program(path) for path in sorted(FOLDER.glob("*.py"))]
RUN = [program for program in PROGRAMS if program.is_run]
