"""HVD6, continued: a training that cannot be divided, beside others that can."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from ...analysis.effects import changes_files, opens_for, writes
from ...analysis.module import Span
from ...frameworks.tensorflow.parts import Part
from ...source.edits import Edit, Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, Apart, Context, Rule
from .imports import end_of_imports, first_import
from .questions import may_download

#: What is asked of Horovod without the others: which rank this is, and how many there are. Anything else may wait for them.
_ASKS, _COUNTS = re.compile(r"\b\w+\.rank\(\)"), re.compile(r"\b\w+\.size\(\)")
_MORE = re.compile(r"hvd|horovod")
_SEMICOLON = re.compile(r"[ \t]*;")
#: What waits for other ranks by names that nothing of Keras is in.
_WAITS = re.compile(
    r"(?<![\w.])[\w.]*(?:local_rank_zero_first|wait_for_rank_zero|on_rank_zero)|hvd_printed\w*"
)


class Alone(Rule):
    """Let rank 0 alone do a training that cannot be divided, where nothing that all ranks do depends on it.

    Of several trainings in a program those that can be divided are. One that would be refused by itself, an ensemble of another module's, say, or episodes
    that decide how many updates there are, runs on rank 0 as it is written, with everything below that reads what it makes or changes, which is
    told. What makes a model, or an optimizer, for it alone stays as it is. Where a training that is divided depends on it, shares a model, an optimizer
    or a step with it, or where ranks would not draw the same numbers and count the same names afterwards, the program is refused.
    """

    code = "HVD609"
    name = "training on rank 0"
    rationale = (
        "This cannot be divided, and nothing that all ranks do depends on it, so rank 0 does it."
    )
    examples = (
        Example(
            program(
                """
                import ensembles
                import tensorflow as tf


                def build(width=8):
                    model = tf.keras.Sequential([tf.keras.layers.Dense(width)])
                    model.compile('adam', loss='mse')
                    return model


                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                wrapped = ensembles.Ensemble(build)
                wrapped.fit(x, y)
                """
            ),
            program(
                """
                import ensembles
                import tensorflow as tf


                def build(width=8):
                    model = tf.keras.Sequential([tf.keras.layers.Dense(width)])
                    model.compile('adam', loss='mse')
                    return model


                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                if hvd.rank() == 0:
                    wrapped = ensembles.Ensemble(build)
                    wrapped.fit(x, y)
                """
            ),
            "The other model is trained on all ranks.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        apart = context.apart
        if apart is None:
            return
        for start, edits in apart.alone:
            yield Fix(start, edits)
        if apart.behind:
            again = f"{context.module.newline}{context.runtime('same_seed')}()"
            edits = tuple(replace(edit, text=again) for edit in apart.behind)
            yield Fix(
                apart.behind[0].start,
                edits,
                "Rank 0 has drawn random numbers that the others have not.",
                (HOROVOD, "same_seed"),
            )
        for start, reason in apart.reasons:
            yield Problem(
                start,
                f"rank 0 alone trains here, as one process would, and what reads what comes of it stands there too: {reason}",
                "to divide it, convert this training by itself and follow the advice",
                "warning",
            )


def set_apart(context: Context, problems: Sequence[Problem], shared: bool) -> Apart | None:
    """What rank 0 is to do alone, so that these problems are none; None where that would not be right.

    Args:
        shared: whether ranks come together behind it.
    """
    nodes = [problem.anchor for problem in problems if isinstance(problem.anchor, cst.CSTNode)]
    part = context.parts.of(nodes) if len(nodes) == len(problems) else None
    first = first_import(context)
    if part is not None and not all(_running(context, part, problem) for problem in problems):
        return None
    if part is None or first is None or (shared and not context.parts.is_nameless(part)):
        return None
    left = (node for statement in part.bare for node in context.parts.region(statement))
    if any(isinstance(node, cst.Call) and _is_once(context, node) for node in left):
        return None
    after = end_of_imports(context, first)
    unseen = [_span(context, each) for each in (*part.alone, *part.bare, *part.defined)]
    if any(_is_indented_cell(context, span) for span in unseen):
        return None
    blocks = _blocks(context, part)
    if any(context.module.span(block[0]).start < after for block in blocks):
        return None
    edits = tuple((_span(context, block[0]).start, _under(context, block)) for block in blocks)
    ends = [context.module.line_end(context.module.span(block[-1]).end) for block in blocks]
    return Apart(
        tuple(unseen),
        edits,
        tuple((_span(context, _running(context, part, p)[0]).start, p.message) for p in problems),
        tuple(_span(context, each) for each in part.used),
        tuple(context.insert(end, "", Layer.BEHIND_BLOCK) for end in ends) if shared else (),
    )


def is_right(apart: Apart, edits: Sequence[Edit]) -> bool:
    """Whether no change is made in a function that rank 0 runs alone and others run as well, but for what is printed or written."""
    own = _own(apart)
    inside = (e for e in edits for span in apart.used if span.start <= e.start < span.end)
    return not any(_MORE.search(_ASKS.sub("", edit.text)) for edit in inside if edit not in own)


def comes_together(apart: Apart, edits: Sequence[Edit]) -> bool:
    """Whether with these edits ranks may train together behind what rank 0 does alone, or draw the same numbers."""
    first, own = min(start for start, _ in apart.alone), _own(apart)
    behind = (edit for edit in edits if edit.start >= first and edit not in own)
    texts = (_COUNTS.sub("", _ASKS.sub("", _WAITS.sub("", edit.text))) for edit in behind)
    return any(map(_MORE.search, texts))


def _own(apart: Apart) -> set[Edit]:
    return {edit for _, each in apart.alone for edit in each}


def _is_once(context: Context, call: cst.Call) -> bool:
    """Whether a call downloads or writes, which all ranks must not do at once."""
    values = context.values
    return (
        may_download(context, call)
        or writes(values, call)
        or changes_files(values, call)
        or bool(set(opens_for(values, call) or "") & set("wax"))
    )


def _running(context: Context, part: Part, problem: Problem) -> list[cst.CSTNode]:
    """The statements of a part that come to where a problem is."""
    assert isinstance(problem.anchor, cst.CSTNode)
    running = context.parts.running(problem.anchor)
    return [each for each in part.alone if each in running]


def _span(context: Context, statement: cst.CSTNode) -> Span:
    """Where a statement stands, with its decorators and the `;` behind it, which is no statement by itself."""
    span = context.module.span(statement)
    semicolon = _SEMICOLON.match(context.module.source, span.end)
    decorators = getattr(statement, "decorators", ())
    starts = [context.module.line_start(context.module.span(each).start) for each in decorators]
    return Span(min([span.start, *starts]), semicolon.end() if semicolon else span.end)


def _is_indented_cell(context: Context, span: Span) -> bool:
    """Whether a statement is a cell that is indented as a whole, which the rules see under a header."""
    cells = context.cells
    cell = cells.cell_of(span.end)
    return bool(cells.headers[cell]) or cells.cell_of(span.start) != cell


def _blocks(context: Context, part: Part) -> list[list[cst.CSTNode]]:
    """The statements that rank 0 runs alone, those that follow one another in one cell together."""
    place = {each: n for n, each in enumerate(context.module.tree.body)}
    blocks: list[list[cst.CSTNode]] = []
    for each in part.alone:
        last = blocks[-1][-1] if blocks else None
        cell = context.cells.cell_of(context.module.span(each).start)
        if (
            last is not None
            and place[last] + 1 == place[each]  # type: ignore[index]
            and context.cells.cell_of(context.module.span(last).start) == cell
        ):
            blocks[-1].append(each)
        else:
            blocks.append([each])
    return blocks


def _under(context: Context, block: Sequence[cst.CSTNode]) -> tuple[Edit, ...]:
    """Statements put under a condition that holds on rank 0."""
    module = context.module
    start, end = _span(context, block[0]).start, module.span(block[-1]).end
    header = context.insert(
        start, f"if {context.backend.is_rank_zero}:{module.newline}", Layer.GUARD
    )
    strings = [span for each in block for span in context.spans_inside_strings(each)]
    lines = [
        line
        for line in module.line_starts_within(Span(start, end))
        if module.source[line : module.line_end(line)].strip()
        and not any(string.start < line <= string.end for string in strings)
    ]
    step = context.indent_step(block[0])
    return (header, *(context.insert(line, step, Layer.INDENT) for line in (start, *lines)))


RULES: tuple[type[Rule], ...] = (Alone,)
