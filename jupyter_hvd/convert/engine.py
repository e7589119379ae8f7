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
from .rules.imports import imports_tensorflow, is_own_work, makes_models, uses_horovod
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
    """Convert cells as one program; the edits of the conversion are still to be made, so its `code` is as it was."""
    # LibCST's own parser can crash on deep nesting, so Python's is asked first.
    stage.set("read the program")
    if (found := syntax_error(cells.python)) is not None:
        return _invalid(cells, found)
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
                return _left_alone(context)
            return _with_warnings(cells, _checked(cells, _convert(context)))
    except cst.ParserSyntaxError as error:
        found = (error.raw_line, error.raw_column + 1, "invalid syntax")
    except (RecursionError, MemoryError):
        return _refuse_deep(cells)
    return _invalid(cells, found)


def _has_work(context: Context) -> bool:
    """Whether a program has something for the ranks to do: it trains, takes gradients, or another module may train what it makes.

    With batch global, whatever imports TensorFlow: nothing of it is edited, and what another module trains is shared as well.
    """
    if context.training.loop != "none":
        return True
    is_whole = context.options.batch == "global"
    may_train = makes_models(context) or context.training.gradients.are_taken_for_weights
    return imports_tensorflow(context) and (is_whole or may_train)


@dataclass(frozen=True)
class Chosen:
    """A fix that is made, and the rule that found it."""

    rule: Rule
    fix: Fix


def _convert(context: Context) -> Conversion:
    """The conversion by all rules."""
    loop, text = context.training.loop, context.cells.text
    chosen: list[Chosen] = []
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
                chosen.append(Chosen(rule, finding))
            else:
                diagnostics.append(_diagnostic(context, rule, finding))
    diagnostics.sort(key=lambda d: (d.cell or 0, d.line, d.column))
    if any(each.severity == "error" for each in diagnostics):
        return Conversion("refused", loop, (), tuple(diagnostics), code=text)
    provided, problems = _provided(context, chosen)
    if problems:
        diagnostics += problems
        return Conversion("refused", loop, (), tuple(diagnostics), code=text)
    made = {each.fix.edits for each in provided.values()}
    chosen = [each for each in chosen if each.fix.edits not in made]
    changes = _changes(context, [*provided.values(), *chosen], provided)
    status: Status = "converted" if changes else "unchanged"
    return Conversion(status, loop, changes, tuple(diagnostics), code=text)


def _left_alone(context: Context) -> Conversion:
    """The outcome for a program without training, or with Horovod in it.

    What a conversion has written is nothing to object to.
    """
    found = (
        _diagnostic(context, rule, finding)
        for rule in RULES
        if rule.refuses
        and context.options.batch in rule.batches
        and context.options.uses(rule.code)
        for finding in rule.find(context)
        if isinstance(finding, Problem)
    )
    own = is_own_work(context)
    diagnostics = tuple(d for d in found if not (own and d.severity == "error"))
    refused = any(d.severity == "error" for d in diagnostics)
    status: Status = "refused" if refused else "unchanged"
    return Conversion(status, context.training.loop, (), diagnostics, code=context.cells.text)


# What the chosen fixes need


def _provided(
    context: Context, chosen: Sequence[Chosen]
) -> tuple[dict[str, Chosen], list[Diagnostic]]:
    """The providers of all that the chosen fixes need, directly or indirectly, by name; or why there are none."""
    found: dict[str, Chosen] = {}
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
                problems[provided.message] = _diagnostic(context, rule, provided)
            elif provided is not None:
                found[name] = Chosen(rule, provided)
                pending += provided.needs
    return found, list(problems.values())


def _all_needs(fix: Fix, provided: dict[str, Chosen]) -> tuple[str, ...]:
    """The provided names that a fix needs, directly or indirectly."""
    found: set[str] = set()
    pending = list(fix.needs)
    while pending:
        name = pending.pop()
        if name in provided and name not in found:
            found.add(name)
            pending += provided[name].fix.needs
    return tuple(name for name in provided if name in found)


# From fixes to changes


def _changes(
    context: Context, chosen: Sequence[Chosen], provided: dict[str, Chosen]
) -> tuple[Change, ...]:
    made = [(each.fix, _change(context, each, provided)) for each in chosen]
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


def _change(context: Context, chosen: Chosen, provided: dict[str, Chosen]) -> Change:
    fix, rule = chosen.fix, chosen.rule
    span = _lines_of(context.module, fix)
    before = context.cells.text[span.start : span.end]
    cell, line, _ = context.cells.locate_offset(span.start)
    return Change(
        rule.code,
        cell,
        line,
        before,
        apply_edits(before, (edit.relative_to(span.start) for edit in fix.edits)),
        fix.why or rule.rationale,
        _all_needs(fix, provided),
        fix.provides,
        fix.edits,
        context.cells.starts[context.cells.cell_of(span.start)],
    )


def _lines_of(module: Module, fix: Fix) -> Span:
    """The whole lines that a fix touches."""
    start = min(edit.start for edit in fix.edits)
    end = max(edit.end for edit in fix.edits)
    return Span(module.line_start(start), module.line_end(end))


def _diagnostic(context: Context, rule: Rule, problem: Problem) -> Diagnostic:
    place = context.cells.locate_offset(_start(context, problem))
    return Diagnostic(rule.code, problem.severity, *place, problem.message, problem.help)


def _is_ignored(context: Context, finding: Finding, code: str) -> bool:
    """Whether a comment `# hvd: ignore[CODE]` on the finding's first line silences it."""
    ignored = _ignored_by_line(context.module)
    codes = ignored.get(context.module.line(_start(context, finding)), frozenset())
    return codes is None or code in codes


@lru_cache(maxsize=2)
def _ignored_by_line(module: Module) -> dict[int, frozenset[str] | None]:
    """For each line with a comment `# hvd: ignore[CODE]`, the codes that it silences; None for all of them."""
    ignored: dict[int, frozenset[str] | None] = {}
    for match in IGNORE.finditer(module.source):
        codes = None if match[1] is None else frozenset(re.split(r"[, \t]+", match[1]))
        ignored.setdefault(module.line(match.start()), codes)
    return ignored


def _start(context: Context, finding: Finding) -> int:
    anchor = finding.anchor
    if isinstance(anchor, int):
        return anchor
    return 0 if isinstance(anchor, cst.Module) else context.module.span(anchor).start


# Programs that are no Python


def _checked(cells: JoinedCells, outcome: Conversion) -> Conversion:
    """The conversion if it is valid Python. Otherwise, a fault of the rules, nothing is converted, which is reported."""
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


def _with_warnings(cells: JoinedCells, outcome: Conversion) -> Conversion:
    """With a warning at each cell that was left alone because it is no Python."""
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


def _invalid(cells: JoinedCells, found: tuple[int, int, str]) -> Conversion:
    """A syntax error, blamed on the first cell that is no Python by itself."""
    for cell, label in enumerate(cells.labels or ()):
        masked = cells.masked[cell]
        in_cell = syntax_error(masked)
        if in_cell is not None and cell not in cells.left_alone and not cells.headers[cell]:
            return _refuse_syntax(cells, label, in_cell, masked)
    return _refuse_syntax(cells, None, found, cells.python)


def _refuse_deep(cells: JoinedCells) -> Conversion:
    """A program that Python reads, but that is nested too deeply to be looked at, blamed on its deepest statement."""
    offset = cells.line_start(deepest_line(cells.python))
    label, line, column = cells.locate_offset(offset)
    return _refuse_syntax(cells, label, (line, column, NESTED_TOO_DEEPLY), cells.python)


def _refuse_syntax(
    cells: JoinedCells, label: int | None, found: tuple[int, int, str], text: str
) -> Conversion:
    line, column, reason = found
    message, advice = f"this is not valid Python: {reason}", "fix the syntax error first"
    if PYTHON_2.search(text):
        message, advice = "this is Python 2", "bring it to Python 3 first, for instance with 2to3"
    diagnostic = Diagnostic(SYNTAX, "error", label, line, column, message, advice)
    return Conversion("invalid", "none", (), (diagnostic,), code=cells.text)
