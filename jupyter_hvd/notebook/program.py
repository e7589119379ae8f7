"""A cell of `%%distribute` and the cells that it needs, converted as one program."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..convert.notebook import convert_cells
from ..convert.rules.already_horovod import AlreadyHorovod
from ..convert.rules.base import Batch
from ..convert.rules.options import Data, Options
from ..convert.unconverted_programs import USES_HOROVOD
from ..files import UnusableInputError
from ..settings import OptionError
from ..source.edits import Edit, apply_edits
from ..source.magics import CELL_MAGIC, OWN_LINES, PYTHON_CELL_MAGICS, cell_magics
from ..source.masking import mask_cell
from ..source.parsing import parse_python, syntax_error
from .cell_names import names_of
from .errors import DistributeError, named_error

if TYPE_CHECKING:
    from ..convert import Conversion

#: Without one of these words in it, a program trains nothing, and need not be parsed to know.
TRAINING_WORDS = re.compile(r"apply_gradients|minimize|fit|train_on_batch")
#: The refusal of programs that use Horovod already; living ranks are a place to run these.
OWN_HOROVOD = AlreadyHorovod.code


@dataclass(frozen=True)
class Program:
    """A cell and the cells that it needs, converted as one program.

    Attributes:
        sources: the cells as written, by number. converted: the same, converted.
    """

    sources: Mapping[int, str]
    converted: Mapping[int, str]
    outcome: Conversion | None

    @property
    def trains(self) -> bool:
        """Whether the conversion found a training loop."""
        return self.outcome is not None and self.outcome.training_loop != "none"

    @cached_property
    def added_names(self) -> frozenset[str]:
        """The names that the conversion binds and the user's text does not know, such as `hvd`."""
        before = [names_of(masked(source)) for source in self.sources.values()]
        after = [names_of(masked(source)) for source in self.converted.values()]
        known = frozenset().union(*(n.binds | n.uses | n.later for n in before))
        return frozenset().union(*(n.binds for n in after)) - known

    @cached_property
    def differing_names(self) -> frozenset[str]:
        """The names that may well stand for something else on the ranks than in the notebook: set by statements that are edited
        for them, that import Horovod, or that use such a name.
        """
        found: set[str] = set()
        for number, source in self.sources.items():
            written = {*statements_of(source)}
            for statement in statements_of(self.converted[number]):
                names, is_own = names_of(statement), statement in written
                if not is_own or USES_HOROVOD.search(statement) or names.uses & found:
                    found |= names.binds
        return frozenset(found)

    @property
    def asks_horovod(self) -> bool:
        """Whether a cell imports Horovod, so that each rank may print something else."""
        return any(map(USES_HOROVOD.search, self.sources.values()))

    @property
    def diagnostics(self) -> list[str]:
        """The diagnostics of the conversion, with positions in the user's cells."""
        return [
            f"In[{d.cell}], line {d.line}: {d.code} {d.message}"
            + (f"\n    {d.help}" if d.help else "")
            for d in (self.outcome.diagnostics if self.outcome else ())
        ]

    @property
    def is_refused(self) -> bool:
        """Whether the conversion refused the program or found it invalid."""
        return self.outcome is not None and self.outcome.status in ("refused", "invalid")

    @property
    def uses_horovod(self) -> bool:
        """Whether the program is written for Horovod already, and nothing else is wrong with it."""
        found = self.outcome.diagnostics if self.outcome else ()
        return {d.code for d in found if d.severity == "error"} == {OWN_HOROVOD}


@lru_cache(maxsize=64)
def convert_program(sources: tuple[tuple[int, str], ...], options: Options) -> Program:
    """Convert cells, each with its number, as one program."""
    texts = [source for _, source in sources]
    numbers = [number for number, _ in sources]
    if not any(TRAINING_WORDS.search(text) for text in texts):
        return Program(dict(sources), dict(sources), None)
    edits, outcome = convert_texts(tuple(texts), options)
    converted = dict(zip(numbers, map(apply_edits, texts, edits), strict=True))
    named = tuple(
        d if d.cell is None else replace(d, cell=numbers[d.cell]) for d in outcome.diagnostics
    )
    return Program(dict(sources), converted, replace(outcome, diagnostics=named))


@lru_cache(maxsize=64)
def convert_texts(texts: tuple[str, ...], options: Options) -> tuple[list[list[Edit]], Conversion]:
    """Convert some cells as one program; return the edits of each, and the conversion.

    Results are cached by text, so a cell that runs again under another number is not converted again.
    """
    return convert_cells(texts, options=options)


masked = lru_cache(maxsize=2048)(mask_cell)


def statements_of(source: str) -> list[str]:
    """Return the outermost statements of a cell, each as `ast.unparse` prints it.

    Raises:
        UnparsableError: it is not Python.
    """
    return [*map(ast.unparse, parse_python(masked(source)).body)]


def is_distributed(source: str) -> bool:
    """Whether a cell stands under `%%distribute`, at the top or below another cell magic such as `%%time`."""
    return "distribute" in cell_magics(source)


def runnable_source(source: str) -> str:
    """Return a cell as the ranks run it: line numbers stay, our magics do nothing.

    A comment replaces `%%distribute`, since IPython drops empty lines at the top. Above another cell magic an empty line
    does, since a cell magic counts at the top only.
    """
    head: list[str] = []
    start = 0
    while (magic := CELL_MAGIC.match(source, start)) is not None:
        name, line = magic["name"], magic.group()
        if name == "distribute":
            above = line[: line.index("%%")] if start else ""
            line = above if CELL_MAGIC.match(source, magic.end()) else f"{above}#"
        head.append(line)
        start = magic.end()
        if name not in PYTHON_CELL_MAGICS:
            break
    return OWN_LINES.sub(r"\1pass", "".join(head) + source[start:])


def below_magic(body: str) -> str:
    """Return the body of a cell with one line in front for its magic, so that line numbers stay."""
    return f"\n{body}" if CELL_MAGIC.match(body) else f"#\n{body}"


def conversion_diff(program: Program, numbers: Sequence[int]) -> list[str]:
    """Return the lines of a unified diff of the conversion of some cells."""
    lines: list[str] = []
    for number in numbers:
        before, after = program.sources[number], program.converted[number]
        lines += difflib.unified_diff(
            before.splitlines(),
            after.splitlines(),
            f"In[{number}]",
            f"In[{number}], for Horovod",
            lineterm="",
        )
    return lines


def refuse_unconvertible(program: Program, runs_horovod: bool) -> None:
    """Raise an error if the program was refused by the converter.

    Args:
        runs_horovod: whether the ranks share nothing, so that programs for Horovod run unchanged.

    Raises:
        DistributeError: with the diagnostics.
    """
    if program.is_refused and not (runs_horovod and program.uses_horovod):
        head = "\x1b[31m%%distribute\x1b[0m: this cannot be converted; nothing was run."
        lines = program.diagnostics
        if program.uses_horovod:
            lines = [
                *lines,
                "`%hvd stop` ends the ranks that share batches; new ones run it as it is written",
            ]
        raise named_error("ConversionRefused", "; ".join(lines), [head, *lines])


def options_here(batch: Batch | None = None, data: Data | None = None) -> Options:
    """Return the conversion options for a notebook in the current folder.

    Args:
        batch, data: override the folder's settings; None for these.

    Raises:
        DistributeError: the settings are invalid.
    """
    given: dict[str, Any] = {"open_ended": True, "standalone": False}
    asked = {"batch": batch, "data": data}
    given |= {name: value for name, value in asked.items() if value is not None}
    try:
        return Options.resolve(given, Path.cwd())
    except (UnusableInputError, OptionError) as error:
        raise DistributeError(str(error)) from None


def check_syntax(source: str) -> None:
    """Raise an error, with line number, if a cell is not valid Python.

    Raises:
        DistributeError: the cell is not valid Python.
    """
    fault = syntax_error(masked(source))
    if fault is not None:
        line, _, reason = fault
        raise named_error(
            "SyntaxError",
            reason,
            [f"\x1b[31mSyntaxError\x1b[0m in this cell, line {line}: {reason}. Nothing was run."],
        )
