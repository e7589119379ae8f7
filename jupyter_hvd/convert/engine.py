"""From source to conversion: parse, ask every rule, apply what they found."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import libcst as cst

from ..analysis.module import Module, Span
from .conversion import SYNTAX, Change, Conversion, Diagnostic, Options
from .edits import Edit, apply_edits
from .rule import Context, Finding, Fix, Problem, Rule
from .rules import RULES
from .rules.refusals import imports_horovod, is_own_work

PYTHON_2 = re.compile(
    r"^\s*(print\s+[^\s(=]|exec\s+[^\s(=]|except\s+\w+\s*,\s*\w+\s*:)", re.MULTILINE
)
TOO_DEEP = (1, 1, "an expression is nested too deeply")
IGNORE = re.compile(r"#\s*hvd:\s*ignore(?:\[([A-Z0-9,\s]+)\])?")


def convert_source(source: str, *, options: Options | None = None) -> Conversion:
    """Convert a TensorFlow 2 script into a Horovod program.

    Args:
        source: the text of the script, or of several cells one after the other.

    Returns:
        the conversion. Its `code` is `source` itself unless its status is `converted`.
    """
    return convert_module(source, source, (0,), None, options or Options.resolve())


def convert_module(
    source: str,
    original: str,
    cell_starts: tuple[int, ...],
    cells: Sequence[int] | None,
    options: Options,
) -> Conversion:
    """Convert a text whose parts, from each offset in `cell_starts` on, are cells.

    Args:
        source: Python; where the original has magics, something of the same length that Python accepts.
        original: the text to apply the edits to.
        cells: for each part its index in the notebook, None for a script.
    """
    if (found := syntax_error(source)) is not None:  # LibCST's own parser can crash on deep nesting
        return _invalid(source, original, cell_starts, cells, found)
    try:
        with deep_recursion():
            return _convert_parsed(Module(source), original, cell_starts, cells, options)
    except cst.ParserSyntaxError as error:
        found = (error.raw_line, error.raw_column + 1, "invalid syntax")
    except RecursionError:
        found = TOO_DEEP
    return _invalid(source, original, cell_starts, cells, found)


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Room for deep trees: a sum of a thousand terms is a tree a thousand levels deep."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 20_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _convert_parsed(
    module: Module,
    original: str,
    cell_starts: tuple[int, ...],
    cells: Sequence[int] | None,
    options: Options,
) -> Conversion:
    places = Places(module, cell_starts, cells)
    context = Context(module, options, cell_starts)
    if context.training.loop == "none" or imports_horovod(context) is not None:
        return _left_alone(context, places, original, options)
    fixes: list[tuple[Rule, Fix]] = []
    diagnostics: list[Diagnostic] = []
    for rule in RULES:
        for finding in rule.find(context) if options.uses(rule.code) else ():
            # No other change works without the start of Horovod: a comment cannot leave that out.
            if rule.code != "HVD101" and places.is_ignored(finding, rule.code):
                continue
            if isinstance(finding, Fix):
                fixes.append((rule, finding))
            else:
                diagnostics.append(places.diagnostic(rule.code, finding))
    diagnostics.sort(key=lambda d: (d.cell or 0, d.line, d.column))
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        return Conversion(original, "refused", context.training.loop, (), tuple(diagnostics))
    code = apply_edits(original, [edit for _, fix in fixes for edit in fix.edits])
    changes = sorted(
        (places.change(rule, fix, original) for rule, fix in fixes),
        key=lambda c: (c.cell or 0, c.line, c.rule),
    )
    return Conversion(code, "converted", context.training.loop, tuple(changes), tuple(diagnostics))


def _left_alone(context: Context, places: Places, original: str, options: Options) -> Conversion:
    """The outcome for a program without training, or with Horovod in it."""
    diagnostics = tuple(
        places.diagnostic(rule.code, finding)
        for rule in RULES
        if rule.code.startswith("HVD90") and options.uses(rule.code)
        for finding in rule.find(context)
        if isinstance(finding, Problem)
    )
    refused = any(d.severity == "error" for d in diagnostics) and not is_own_work(context)
    return Conversion(
        original, "refused" if refused else "unchanged", context.training.loop, (), diagnostics
    )


def _invalid(
    source: str,
    original: str,
    cell_starts: tuple[int, ...],
    cells: Sequence[int] | None,
    found: tuple[int, int, str],
) -> Conversion:
    """A syntax error, blamed on the first cell that is no Python by itself."""
    for index, start in enumerate(cell_starts if cells is not None else ()):
        end = cell_starts[index + 1] if index + 1 < len(cell_starts) else len(source)
        in_cell = syntax_error(source[start:end])
        if in_cell is not None:
            assert cells is not None
            return _refuse_syntax(original, cells[index], in_cell, source[start:end])
    return _refuse_syntax(original, None, found, source)


def syntax_error(source: str) -> tuple[int, int, str] | None:
    """Line, column and Python's own message, or None for valid Python; cells may await."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        return error.lineno or 1, error.offset or 1, error.msg
    except ValueError as error:
        return 1, 1, str(error)
    except (RecursionError, MemoryError):
        return TOO_DEEP
    return None


def _refuse_syntax(
    original: str, cell: int | None, found: tuple[int, int, str], text: str
) -> Conversion:
    line, column, reason = found
    message, advice = f"this is not valid Python: {reason}", "mend the syntax first"
    if PYTHON_2.search(text):
        message, advice = "this is Python 2", "bring it to Python 3 first, for instance with 2to3"
    diagnostic = Diagnostic(SYNTAX, "error", cell, line, column, message, advice)
    return Conversion(original, "invalid", "none", (), (diagnostic,))


class Places:
    """Where findings stand, in the user's terms: cell, line, column."""

    def __init__(
        self, module: Module, cell_starts: tuple[int, ...], cells: Sequence[int] | None
    ) -> None:
        self.module = module
        self.cell_starts = cell_starts
        self.cells = cells

    def locate(self, offset: int) -> tuple[int | None, int, int]:
        """Cell (None in a script), line in it and column, of an offset."""
        line, column = self.module.line(offset), self.module.column(offset)
        if self.cells is None:
            return None, line, column
        part = max(i for i, start in enumerate(self.cell_starts) if start <= offset)
        return self.cells[part], line - self.module.line(self.cell_starts[part]) + 1, column

    def origin(self, offset: int) -> int:
        """Where the cell of an offset begins in the joined text."""
        return max(start for start in self.cell_starts if start <= offset)

    def is_ignored(self, finding: Finding, code: str) -> bool:
        """Whether a comment `# hvd: ignore[CODE]` on the finding's first line silences it."""
        start = self._start(finding)
        line = self.module.source[self.module.line_start(start) : self.module.line_end(start)]
        match = IGNORE.search(line)
        if match is None:
            return False
        codes = match.group(1)
        return codes is None or code in re.split(r"[,\s]+", codes)

    def _start(self, finding: Finding) -> int:
        return (
            0 if isinstance(finding.anchor, cst.Module) else self.module.span(finding.anchor).start
        )

    def diagnostic(self, code: str, problem: Problem) -> Diagnostic:
        cell, line, column = self.locate(self._start(problem))
        return Diagnostic(code, problem.severity, cell, line, column, problem.message, problem.help)

    def change(self, rule: Rule, fix: Fix, original: str) -> Change:
        span = self._lines_of(fix.edits)
        before = original[span.start : span.end]
        shifted = [
            Edit(e.start - span.start, e.end - span.start, e.priority, e.text) for e in fix.edits
        ]
        cell, line, _ = self.locate(span.start)
        return Change(
            rule.code,
            cell,
            line,
            before,
            apply_edits(before, shifted),
            fix.why or rule.message,
            fix.edits,
            self.origin(span.start),
        )

    def _lines_of(self, edits: Sequence[Edit]) -> Span:
        """The whole lines that some edits touch."""
        start = min(edit.start for edit in edits)
        end = max(edit.end for edit in edits)
        return Span(self.module.line_start(start), self.module.line_end(end))
