"""Converts source: parses it, runs every rule, keeps the chosen fixes, and adds what they need."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache

import libcst as cst

from ..analysis.module import Module, Span
from ..source.cells import JoinedCells
from ..source.edits import Layer, apply_edits, by_priority
from ..source.parsing import NESTED_TOO_DEEPLY, deep_recursion, deepest_line, syntax_error
from .conversion import Change, Conversion, Diagnostic, Status
from .rules import RULES
from .rules.base import Finding, Fix, Problem
from .rules.context import Context, Rule
from .rules.imports import imports_tensorflow, is_converted_already, makes_models, uses_horovod
from .rules.options import SYNTAX, Options

PYTHON_2 = re.compile(
    r"^[ \t]*(print\s+[^\s(=]|exec\s+[^\s(=]|except\s+\w+\s*,\s*\w+\s*:)", re.MULTILINE
)
IGNORE = re.compile(r"#[ \t]*hvd:[ \t]*ignore(?:\[([A-Z0-9, \t]+)\])?")


#: What a conversion does just now, for whoever ends it: "it was ended while it …".
stage: ContextVar[str] = ContextVar("stage", default="read the program")


def convert_source(source: str, *, options: Options | None = None) -> Conversion:
    """Convert a TensorFlow 2 script into a Horovod program.

    Args:
        source: the text of the script, or of several cells one after the other.

    Returns:
        the conversion. Its `code` is `source` itself unless its status is `converted`.
    """
    cells = JoinedCells((source,))
    outcome = convert_joined(cells, options or Options.resolve())
    return replace(outcome, code="".join(cells.apply_edits(outcome.edits)))


def convert_joined(cells: JoinedCells, options: Options) -> Conversion:
    """Convert cells as one program. The edits of the result are not applied yet: its `code` is the original text."""
    # LibCST's own parser can crash on deep nesting, so Python's is asked first.
    stage.set("read the program")
    if (found := syntax_error(cells.python)) is not None:
        return _refuse_invalid_input(cells, found)
    try:
        with deep_recursion():
            context = Context(cells, options)
            stage.set("looked for what the program trains")
            is_foreign = uses_horovod(context) is not None
            if context.training.loop == "none" or is_foreign:  # a cell that is no Python may train
                for cell, fault in cells.left_alone.items():
                    return _refuse_syntax(
                        cells, (cells.labels or ())[cell], fault, cells.masked[cell]
                    )
            if is_foreign or not _has_work(context):
                return _refuse_or_leave_unchanged(context)
            return _add_syntax_warnings(cells, _refuse_invalid_output(cells, _apply_rules(context)))
    except cst.ParserSyntaxError as error:
        found = (error.raw_line, error.raw_column + 1, "invalid syntax")
    except (RecursionError, MemoryError):
        return _refuse_deep_nesting(cells)
    return _refuse_invalid_input(cells, found)


def _has_work(context: Context) -> bool:
    """Whether the ranks have something to share: the program trains, takes gradients, or another module may train the models
    that it makes.

    With batch global, every program that imports TensorFlow: sharing edits nothing, and also shares what other modules train.
    """
    if context.training.loop != "none":
        return True
    is_whole = context.options.batch == "global"
    may_train = makes_models(context) or context.training.gradients.are_taken_for_weights
    return imports_tensorflow(context) and (is_whole or may_train)


@dataclass(frozen=True)
class ChosenFix:
    """A fix that is made, and the rule that found it."""

    rule: Rule
    fix: Fix


def _apply_rules(context: Context) -> Conversion:
    """Run every rule that the options select, and return the conversion. An error among the findings refuses the program."""
    loop, text = context.training.loop, context.cells.text
    chosen: list[ChosenFix] = []
    diagnostics: list[Diagnostic] = []
    for rule in RULES:
        if context.options.batch not in rule.batches:
            continue
        if not (rule.mandatory or context.options.uses(rule.code)):
            continue
        stage.set(f"asked rule {rule.code} ({rule.name})")
        for finding in rule.find(context):
            if not rule.mandatory and _is_ignored(context, finding, rule.code):
                continue
            if isinstance(finding, Fix):
                chosen.append(ChosenFix(rule, finding))
            else:
                diagnostics.append(_make_diagnostic(context, rule, finding))
    diagnostics.sort(key=lambda d: (d.cell or 0, d.line, d.column))
    if any(each.severity == "error" for each in diagnostics):
        return Conversion("refused", loop, (), tuple(diagnostics), code=text)
    provided, problems = _provide_needs(context, chosen)
    if problems:
        diagnostics += problems
        return Conversion("refused", loop, (), tuple(diagnostics), code=text)
    made = {each.fix.edits for each in provided.values()}
    chosen = [each for each in chosen if each.fix.edits not in made]
    changes = _make_changes(context, [*provided.values(), *chosen], provided)
    status: Status = "converted" if changes else "unchanged"
    return Conversion(status, loop, changes, tuple(diagnostics), code=text)


def _refuse_or_leave_unchanged(context: Context) -> Conversion:
    """Return the outcome for a program without training, or with Horovod in it: refused or unchanged, never edited.

    For the converter's own output, errors are dropped.
    """
    found = (
        _make_diagnostic(context, rule, finding)
        for rule in RULES
        if rule.refuses
        and context.options.batch in rule.batches
        and context.options.uses(rule.code)
        for finding in rule.find(context)
        if isinstance(finding, Problem)
    )
    own = is_converted_already(context)
    diagnostics = tuple(d for d in found if not (own and d.severity == "error"))
    refused = any(d.severity == "error" for d in diagnostics)
    status: Status = "refused" if refused else "unchanged"
    return Conversion(status, context.training.loop, (), diagnostics, code=context.cells.text)


# What the chosen fixes need


def _provide_needs(
    context: Context, chosen: Sequence[ChosenFix]
) -> tuple[dict[str, ChosenFix], list[Diagnostic]]:
    """Find the fixes that provide what the chosen fixes need, directly or indirectly, such as the import of Horovod.

    Returns:
        the providing fixes by the name of what they provide; the diagnostics of needs that cannot be met.
    """
    found: dict[str, ChosenFix] = {}
    problems: dict[str, Diagnostic] = {}
    asked: set[str] = set()
    users = [each.fix for each in chosen if each.fix.needs]
    pending = [name for fix in users for name in fix.needs]
    while pending:
        name = pending.pop()
        if name in asked:
            continue
        asked.add(name)
        for rule in RULES:
            provided = rule.provide(context, name, users) if rule.mandatory else None
            if isinstance(provided, Problem):
                problems[provided.message] = _make_diagnostic(context, rule, provided)
            elif provided is not None:
                found[name] = ChosenFix(rule, provided)
                pending += provided.needs
    return found, list(problems.values())


def _provided_needs(fix: Fix, provided: dict[str, ChosenFix]) -> tuple[str, ...]:
    """Return the provided names that a fix needs, directly or indirectly, so that a panel keeps these changes together."""
    found: set[str] = set()
    pending = list(fix.needs)
    while pending:
        name = pending.pop()
        if name in provided and name not in found:
            found.add(name)
            pending += provided[name].fix.needs
    return tuple(name for name in provided if name in found)


# From fixes to changes


def _make_changes(
    context: Context, chosen: Sequence[ChosenFix], provided: dict[str, ChosenFix]
) -> tuple[Change, ...]:
    """Return the chosen fixes as changes, sorted by position.

    A line under `if hvd.rank() == 0:` directly below such a line shares that header. `final` gives each edit its place among
    edits at the same offset.
    """
    made = [(each.fix, _make_change(context, each, provided)) for each in chosen]
    made.sort(key=lambda pair: (pair[1].cell or 0, pair[1].line, pair[1].rule))
    changes = [change for _, change in made]
    guarded = {fix.guard.line: place for place, (fix, _) in enumerate(made) if fix.guard}
    new_lines = sorted(
        edit.start
        for change in changes
        for edit in change.edits
        if context.module.newline in edit.text and edit.priority != Layer.GUARD
    )
    for place, (fix, change) in enumerate(made):
        before = context.line_before(fix.guard.line) if fix.guard else None
        if fix.guard is None or before not in guarded:
            continue
        start, end = context.module.span(before).end, context.module.span(fix.guard.line).start
        if bisect_left(new_lines, start) == bisect_right(new_lines, end):
            shared = replace(fix.guard.header, unless=guarded[before])
            edits = tuple(shared if edit == fix.guard.header else edit for edit in change.edits)
            changes[place] = replace(change, edits=edits)
    final = by_priority(edit for change in changes for edit in change.edits)
    return tuple(
        replace(change, edits=tuple(final[edit] for edit in change.edits)) for change in changes
    )


def _make_change(context: Context, chosen: ChosenFix, provided: dict[str, ChosenFix]) -> Change:
    """Return one fix as a change: its cell and line, and the lines before and after this fix alone."""
    fix, rule = chosen.fix, chosen.rule
    span = _line_span(context.module, fix)
    before = context.cells.text[span.start : span.end]
    cell, line, _ = context.cells.locate_offset(span.start)
    return Change(
        rule.code,
        cell,
        line,
        before,
        apply_edits(before, (edit.relative_to(span.start) for edit in fix.edits)),
        fix.why or rule.rationale,
        _provided_needs(fix, provided),
        fix.provides,
        fix.edits,
        context.cells.starts[context.cells.cell_of(span.start)],
    )


def _line_span(module: Module, fix: Fix) -> Span:
    """Return the span of the full lines that a fix touches."""
    start = min(edit.start for edit in fix.edits)
    end = max(edit.end for edit in fix.edits)
    return Span(module.line_start(start), module.line_end(end))


def _make_diagnostic(context: Context, rule: Rule, problem: Problem) -> Diagnostic:
    """Return a rule's problem as a diagnostic with cell, line and column."""
    place = context.cells.locate_offset(_start_offset(context, problem))
    return Diagnostic(rule.code, problem.severity, *place, problem.message, problem.help)


def _is_ignored(context: Context, finding: Finding, code: str) -> bool:
    """Whether a comment `# hvd: ignore[CODE]` on the finding's first line silences it."""
    ignored = _ignored_by_line(context.module)
    codes = ignored.get(context.module.line(_start_offset(context, finding)), frozenset())
    return codes is None or code in codes


@lru_cache(maxsize=2)
def _ignored_by_line(module: Module) -> dict[int, frozenset[str] | None]:
    """For each line with a comment `# hvd: ignore[CODE]`, the codes that it silences; None for all of them."""
    ignored: dict[int, frozenset[str] | None] = {}
    for match in IGNORE.finditer(module.source):
        codes = None if match[1] is None else frozenset(re.split(r"[, \t]+", match[1]))
        ignored.setdefault(module.line(match.start()), codes)
    return ignored


def _start_offset(context: Context, finding: Finding) -> int:
    """Return the offset in the text of the node at which the user should look."""
    anchor = finding.anchor
    if isinstance(anchor, int):
        return anchor
    return 0 if isinstance(anchor, cst.Module) else context.module.span(anchor).start


# Programs that are no Python


def _refuse_invalid_output(cells: JoinedCells, outcome: Conversion) -> Conversion:
    """Return the conversion if its output is valid Python. Otherwise refuse: the rules are at fault, and the message asks for a
    report.
    """
    if outcome.status != "converted":
        return outcome
    made = JoinedCells(tuple(cells.apply_edits(outcome.edits)), cells.labels)
    broken = made.left_alone.keys() - cells.left_alone.keys()
    found = made.left_alone[min(broken)] if broken else syntax_error(made.python)
    if found is None:
        return outcome
    line, _, reason = found
    shown = (made.masked[min(broken)] if broken else made.python).splitlines()[line - 1 : line]
    first = outcome.changes[0]
    fault = Diagnostic(
        SYNTAX,
        "error",
        first.cell,
        first.line,
        1,
        f"the converted program is not valid Python ({reason}): {''.join(shown).strip()}",
        "this is a fault of the converter: please report it, with this program",
    )
    return replace(outcome, status="refused", changes=(), diagnostics=(fault, *outcome.diagnostics))


def _add_syntax_warnings(cells: JoinedCells, outcome: Conversion) -> Conversion:
    """Add a warning for each cell that was left unconverted because it is not valid Python."""
    if not cells.left_alone:
        return outcome
    warnings = tuple(
        Diagnostic(
            SYNTAX,
            "warning",
            (cells.labels or ())[cell],
            line,
            column,
            f"this cell is left alone: it is not valid Python ({reason})",
            "no other cell needs it; delete it, or make it a Markdown cell",
        )
        for cell, (line, column, reason) in cells.left_alone.items()
    )
    return replace(outcome, diagnostics=(*warnings, *outcome.diagnostics))


def _refuse_invalid_input(cells: JoinedCells, found: tuple[int, int, str]) -> Conversion:
    """Refuse a program with a syntax error; the diagnostic is at the first cell that is invalid by itself."""
    for cell, label in enumerate(cells.labels or ()):
        masked = cells.masked[cell]
        in_cell = syntax_error(masked)
        if in_cell is not None and cell not in cells.left_alone and not cells.headers[cell]:
            return _refuse_syntax(cells, label, in_cell, masked)
    return _refuse_syntax(cells, None, found, cells.python)


def _refuse_deep_nesting(cells: JoinedCells) -> Conversion:
    """Refuse a program that Python can parse, but whose nesting is too deep to analyse; the diagnostic is at its deepest
    statement.
    """
    offset = cells.line_start(deepest_line(cells.python))
    label, line, column = cells.locate_offset(offset)
    return _refuse_syntax(cells, label, (line, column, NESTED_TOO_DEEPLY), cells.python)


def _refuse_syntax(
    cells: JoinedCells, label: int | None, found: tuple[int, int, str], text: str
) -> Conversion:
    """Return the outcome "invalid" with one error.

    Args:
        label: the index of the notebook's cell; None for a script.
        found: line, column and reason.
        text: the source that is searched for signs of Python 2.
    """
    line, column, reason = found
    message, advice = f"this is not valid Python: {reason}", "fix the syntax error first"
    if PYTHON_2.search(text):
        message, advice = "this is Python 2", "bring it to Python 3 first, for instance with 2to3"
    diagnostic = Diagnostic(SYNTAX, "error", label, line, column, message, advice)
    return Conversion("invalid", "none", (), (diagnostic,), code=cells.text)
