"""The figures of a function and its derivatives at given sizes, as numbers: `sections.py` words them.

Every figure is `f.cost(…)`'s or, statement by statement, `f.profile(…)`'s, evaluated from formulas
instead of counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle
from string import ascii_lowercase
from typing import TYPE_CHECKING, Literal, get_args

from ..tensor import TensorError
from ..tensor.cost.formula import Formula, rename_sizes, select_region
from ..tensor.cost.statements import Line, ProgramCosts, Sizes
from ..tensor.language.errors import Place
from ..tensor.measure import Growth
from .subject import BOUND, Size, Subject
from .view import Colour, Source
from .wording import format_formula

if TYPE_CHECKING:
    from ..tensor.jax.timing import Spread, Verdict

#: Of functions that are compared; letters tell those apart that are more.
COLOURS: tuple[Colour, ...] = get_args(Colour)[1:]


@dataclass(frozen=True)
class Figure:
    """What a program costs: its formula, how it reads at these sizes, and its counts. `entries` are the
    numbers that its statements hold, on the supports of their predicates, `histories` those of them that loops keep from turn
    to turn.
    """

    formula: str
    here: str
    additions: int | None
    multiplications: int | None
    calls: int | None
    total: int | None
    io: int | None
    entries: int | None
    histories: int | None


@dataclass(frozen=True)
class Ratio:
    """A derivative against its function, and the theorem that bounds it; `interfaces` where the theorem counts what goes in
    and out of both beside the operations.
    """

    ratio: float | None
    bound: int
    theorem: str
    interfaces: bool = False


@dataclass(frozen=True)
class Row:
    """A statement of Tensor SSA, its cost, and the user's line that it came from.

    A loop is followed by the statements of its turns, `X4.B3`, whose operations, those of all turns, are in the loop's.
    """

    line: Line
    support: str
    points: int | None
    formula: str
    operations: int | None
    share: float
    place: Source | None

    @property
    def call(self) -> str:
        """What the user wrote that it came from; of more than one line, the first."""
        place = self.line.origin.place
        return "" if place is None else place.text[place.column : place.end_column].strip()


@dataclass(frozen=True)
class Curve:
    """Counts over one size, the others as chosen; None where they are not known, or a read would be out of range.

    They are operations of `value`, `forward` and `adjoint`, or the numbers that loops keep between their turns: `whole` as
    it is, `carried` with `checkpoint=True`, and `blocks` with `checkpoint="blocks"`.
    """

    size: str
    at: int
    sizes: tuple[int, ...]
    counts: Mapping[str, tuple[int | None, ...]]

    def count(self, kind: str, n: int) -> int | None:
        """Return the count of a kind at one of the sizes; None if it is unknown."""
        return self.counts[kind][self.sizes.index(n)]


@dataclass(frozen=True)
class HeavyLine:
    """A line of the user's and its part of all operations of value and gradient."""

    place: Source
    value: int
    adjoint: int
    share: float


AdviceKind = Literal["outside", "factored", "reassociated", "guard", "shared", "jax"]


@dataclass(frozen=True)
class Advice:
    """What would lower the cost: `saves` operations of value and gradient, at these sizes.

    `before` and `after` are the costs where the message does not tell them, `way` is the number of
    the rewriting, for who accepts it; -1 where there is none.
    """

    kind: AdviceKind
    message: str
    place: Source | None = None
    code: str = ""
    before: str = ""
    after: str = ""
    saves: int = 0
    way: int = -1


State = Literal["pending", "done", "failed"]


@dataclass(frozen=True)
class Estimate:
    """XLA's own estimate of a compiled function: floating-point operations, and the bytes that it
    needs beside its arguments and result.
    """

    flops: float
    memory: int


@dataclass(frozen=True)
class Plain:
    """What plain `jax.grad` makes of the program, or of the user's function `against`: XLA's
    estimates, at some values of each size.
    """

    state: State
    against: str
    message: str = ""
    estimates: Mapping[str, Mapping[int, Estimate]] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """Times in seconds and bytes at the sizes where they were measured, in numbers of type `dtype`.

    Value, gradient and plain JAX's gradient (`jax_adjoint`) run in turn, `repeats` times. `faster` says which of both
    gradients is; None without plain JAX's.
    """

    sizes: Mapping[str, int]
    at: str
    repeats: int
    device: str
    dtype: str
    value: Spread
    adjoint: Spread
    value_bytes: int
    adjoint_bytes: int
    value_statements: Mapping[str, float]
    adjoint_statements: Mapping[str, float]
    jax_adjoint: Spread | None
    faster: Verdict | None
    note: str = ""


@dataclass(frozen=True)
class Times:
    """Measured seconds of `value` and `adjoint` over one size, the others as `at` says, in numbers of type `dtype`.

    No growth is told where few sizes take longer than what any call does, or no power fits.
    """

    size: str
    at: Mapping[str, int]
    device: str
    dtype: str
    sizes: tuple[int, ...]
    seconds: Mapping[str, tuple[float, ...]]
    growth: Mapping[str, Growth | None]


@dataclass(frozen=True)
class Compared:
    """Another function, at the sizes of this one: `curves` and `times` by this one's sizes, each over the
    other's that goes with it. `error` says what is missing.

    `Report.sides` gives each function a `letter` and a `colour`.
    """

    function: str
    wrt: tuple[str, ...]
    value: Figure | None
    adjoint: Figure | None
    curves: Mapping[str, Curve]
    times: Mapping[str, Times]
    error: str = ""
    letter: str = ""
    colour: Colour = ""


@dataclass(frozen=True)
class Shown:
    """What a panel shows on demand, for the sizes at which it was asked for: see `background_work.view_text`."""

    state: Literal["unasked", "pending", "done"] = "unasked"
    sizes: Mapping[str, int] = field(default_factory=dict)
    at: str = ""
    text: str = ""
    error: str = ""


@dataclass(frozen=True)
class Report:
    """All that the panel shows: `functions` may be inspected instead of this one, `beside` compared with it. Curves, times and
    histories are by the size that they are over.
    """

    id: str
    function: str
    wrt: tuple[str, ...]
    differentiable: tuple[str, ...]
    linked: bool
    sliders: tuple[Size, ...]
    sizes: Sizes
    value: Figure
    forward: Figure
    adjoint: Figure
    forward_ratio: Ratio
    adjoint_ratio: Ratio
    curves: Mapping[str, Curve]
    value_rows: tuple[Row, ...]
    adjoint_rows: tuple[Row, ...]
    heat: tuple[HeavyLine, ...]
    advice: tuple[Advice, ...] = ()
    plain: Plain | None = None
    measured: Measured | None = None
    times: Mapping[str, Times] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    histories: Mapping[str, Curve] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    compared: tuple[Compared, ...] = ()
    note: str = ""
    shown: Mapping[str, Shown] = field(default_factory=dict)
    error: str = ""

    def is_at(self, sizes: Sizes) -> bool:
        """Whether the report's sizes are among these."""
        return self.sizes.items() <= sizes.items()

    @property
    def measured_here(self) -> Measured | None:
        """The times, where they are for the sizes on display."""
        return self.measured if self.measured and self.is_at(self.measured.sizes) else None

    def estimates_over(self, size: str) -> Mapping[int, Estimate]:
        """Return XLA's estimates of plain JAX, by the values of a size."""
        return self.plain.estimates.get(size, {}) if self.plain else {}

    @property
    def plain_here(self) -> Estimate | None:
        """The estimate of XLA's at the sizes on display, over any of them."""
        found = (self.estimates_over(s.name).get(self.sizes[s.name]) for s in self.sliders)
        return next((estimate for estimate in found if estimate), None)

    @property
    def sides(self) -> tuple[Compared, ...]:
        """The report's own function, and those beside it."""
        own = Compared(self.function, self.wrt, self.value, self.adjoint, self.curves, self.times)
        named = zip((own, *self.compared), cycle(ascii_lowercase), cycle(COLOURS), strict=False)
        return tuple(replace(side, letter=letter, colour=colour) for side, letter, colour in named)


def sizes_text(report: Report) -> str:
    """Return the sizes as text; those that move together once."""
    return ", ".join(f"{'='.join(s.names)} = {report.sizes[s.name]}" for s in report.sliders)


Locate = Callable[[Place], Source]
Spell = Callable[[Formula], str]


def plain_source(position: Place) -> Source:
    """Return the source line of a position outside the notebook's cells, such as in a file."""
    return Source(None, None, position.filename, position.line, position.text.rstrip("\n"))


def make_report(
    subject: Subject,
    sizes: Sizes,
    *,
    id: str = "",  # noqa: A002
    linked: bool = True,
    locate: Locate = plain_source,
) -> Report:
    """Return the figures at these sizes.

    Args:
        linked: whether equal sizes move together.
        locate: finds the cell and line of a source position.

    Raises:
        TensorError: at these sizes a read is out of range.
    """
    subject.require_in_range(sizes)
    here = spell_formulas(subject, sizes, linked)
    value, forward, adjoint = (
        make_figure(subject, part, sizes, here)
        for part in (subject.value, subject.forward, subject.adjoint)
    )
    known = subject.differentiated
    primal = value if known is subject.value else make_figure(subject, known, sizes, here)
    value_rows = _make_rows(subject, subject.value, sizes, locate, here)
    adjoint_rows = _make_rows(subject, subject.adjoint, sizes, locate, here)
    sliders = subject.size_sliders(linked)
    return Report(
        id=id,
        function=subject.name,
        wrt=subject.wrt,
        differentiable=subject.differentiable_names,
        linked=linked,
        sliders=sliders,
        sizes=dict(sizes),
        value=value,
        forward=forward,
        adjoint=adjoint,
        forward_ratio=Ratio(_ratio_of(forward.total, primal.total), BOUND, "Theorem 6.1"),
        adjoint_ratio=_adjoint_ratio(subject, primal, adjoint, sizes),
        curves={s.name: make_curve(subject, s, sizes) for s in sliders if not s.fixed},
        value_rows=value_rows,
        adjoint_rows=adjoint_rows,
        heat=_heaviest_lines(subject, sizes, locate),
        histories=_stored_curves(subject, sliders, sizes),
        note=subject.missing_data,
    )


def spell_formulas(subject: Subject, sizes: Sizes, linked: bool) -> Spell:
    """Return a function that formats formulas for these sizes; linked sizes have one name."""
    tied = {n: s.name for s in subject.size_sliders(linked) for n in s.names}
    return lambda formula: format_formula(rename_sizes(select_region(formula, sizes), tied))


def _adjoint_ratio(subject: Subject, primal: Figure, adjoint: Figure, sizes: Sizes) -> Ratio:
    """Return the gradient's cost relative to the function's, both with reads and results counted."""
    turns = subject.value.loop_interfaces(sizes)
    theorem = "Theorem 2 of docs/recurrences.md" if turns else "Theorem 6.55"
    whole = None if primal.io is None else primal.io + turns
    return Ratio(_ratio_of(adjoint.io, whole), BOUND, theorem, interfaces=True)


def _ratio_of(dividend: int | None, divisor: int | None) -> float | None:
    """Return a quotient; None if either is unknown or the divisor is 0."""
    return None if dividend is None or not divisor else dividend / divisor


def make_figure(subject: Subject, part: ProgramCosts, sizes: Sizes, spell: Spell) -> Figure:
    """Return the figures of one program of the subject at these sizes."""
    evaluate = subject.evaluate
    counts = {kind: evaluate(formula, sizes) for kind, formula in part.kinds.items()}
    total = evaluate(part.total, sizes)
    return Figure(
        formula=str(part.total),
        here=spell(part.total),
        **counts,
        total=total,
        io=None if total is None else total + part.io_count(sizes),
        entries=evaluate.sum_formulas((s.entries for s in part.lines if not s.is_input), sizes),
        histories=evaluate.sum_formulas(part.histories.values(), sizes),
    )


def _make_rows(
    subject: Subject, part: ProgramCosts, sizes: Sizes, locate: Locate, spell: Spell
) -> tuple[Row, ...]:
    """Return a row per statement; a loop is followed by its body's statements, whose operations it includes."""
    make = partial(_make_row, subject, sizes, locate, spell)
    rows: list[Row] = []
    whole = 0
    for line in part.lines:
        row = make(line)
        rows += [row, *map(make, line.iterations)]
        whole += row.operations or 0
    return tuple(
        replace(row, share=(row.operations or 0) / whole if whole else 0.0) for row in rows
    )


def _make_row(subject: Subject, sizes: Sizes, locate: Locate, spell: Spell, line: Line) -> Row:
    """Return the row of one statement; its share is filled in later."""
    spent = [f for f in line.costs.values() if str(f) != "0"]
    return Row(
        line=line,
        support=spell(line.points),
        points=subject.evaluate(line.points, sizes),
        formula=" + ".join(map(spell, spent)) or "0",
        operations=subject.evaluate.sum_formulas(line.costs.values(), sizes),
        share=0.0,
        place=locate(line.source_lines[0][0]) if line.source_lines else None,
    )


def _count_over(
    subject: Subject,
    slider: Size,
    sizes: Sizes,
    kinds: Sequence[str],
    count: Callable[[Sizes], Sequence[int | None]],
) -> Curve:
    """Return counts over one size, at powers of two and at the slider's value.

    Args:
        count: the counts at some sizes, in the order of `kinds`.
    """
    powers = (1 << k for k in range(slider.high.bit_length()))
    at = sorted({sizes[slider.name], *(n for n in powers if n <= slider.high)})
    sizes_at = [{**sizes, **dict.fromkeys(slider.names, n)} for n in at]
    none = (None,) * len(kinds)
    found = [count(here) if subject.fits_data(here) else none for here in sizes_at]
    counts = zip(kinds, zip(*found, strict=True), strict=True)
    return Curve(slider.name, sizes[slider.name], tuple(at), dict(counts))


def make_curve(subject: Subject, slider: Size, sizes: Sizes) -> Curve:
    """Return the operations over one size."""
    kinds = "value", "forward", "adjoint"
    totals = [getattr(subject, kind).total for kind in kinds]
    return _count_over(
        subject, slider, sizes, kinds, lambda here: [subject.evaluate(t, here) for t in totals]
    )


def _stored_curves(subject: Subject, sliders: Sequence[Size], sizes: Sizes) -> dict[str, Curve]:
    """Return the numbers that loops store, over each size that determines a loop's iterations."""
    turns = {name for loop in subject.kept for name in loop.iterations.names}
    kinds = "whole", "carried", "blocks"
    return {
        slider.name: _count_over(subject, slider, sizes, kinds, partial(_stored_total, subject))
        for slider in sliders
        if not slider.fixed and turns & set(slider.names)
    }


def _stored_total(subject: Subject, sizes: Sizes) -> tuple[int | None, int | None, int | None]:
    """Return the numbers that all loops store together, by checkpointing method; None where unknown."""
    found = [loop.stored_count(subject.evaluate, sizes) for loop in subject.kept]
    if None in found:
        return None, None, None
    whole, carried, blocks = (sum(part) for part in zip(*filter(None, found), strict=True))
    return whole, carried, blocks


def _heaviest_lines(subject: Subject, sizes: Sizes, locate: Locate) -> tuple[HeavyLine, ...]:
    """Return the user's lines with the operations that come from them, the heaviest first."""
    value, adjoint = Counter[Source](), Counter[Source]()
    for part, found in ((subject.value, value), (subject.adjoint, adjoint)):
        for place, costs in (spent for line in part.lines for spent in line.source_lines):
            if operations := subject.evaluate.sum_formulas(costs.values(), sizes):
                found[locate(place)] += operations
    both = value + adjoint
    return tuple(
        HeavyLine(x, value[x], adjoint[x], n / both.total()) for x, n in both.most_common()
    )


def move_sizes(
    subject: Subject, sizes: Sizes, moved: Mapping[str, int], linked: bool
) -> dict[str, int]:
    """Return the sizes after a user has moved some; linked sizes move along.

    Raises:
        TensorError: data fix a moved size.
    """
    result = dict(sizes)
    for size in subject.size_sliders(linked):
        for name, value in moved.items():
            if name in size.names:
                if size.fixed:
                    raise TensorError(f"`{name}` is fixed by the data of `{size.fixed}`")
                result |= dict.fromkeys(size.names, max(1, min(size.high, int(value))))
    return result
