"""Array contraction: a loop that fills an array carries the rows that its iterations read, not the array.

Where turn k changes of an array only the row at e(k), e is injective, and an iteration reads of what others have
left the rows at e(k - l) with 0 < l ≤ L, the loop carries the last L rows and leaves one. What it reads
elsewhere is what the array begins with. After the loop the array is the history of the rows, put together
with that. docs/recurrences-reference.md has the rule and its proof.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import starmap
from typing import TYPE_CHECKING, TypeVar

from ..language.affine import Affine
from ..language.errors import Place
from ..language.predicates import (
    FALSE,
    TRUE,
    Predicate,
    compare,
    conj,
    disj,
    exists_all,
    in_range,
    negate,
    substitute,
)
from ..language.provenance import NOWHERE, Origin
from ..language.terms import Binder, Binders, in_ranges, index_names, index_values, number_binders
from ..language.types import array
from ..polyhedral import sets
from .builder import Builder
from .parallel_loops import parallelize_loops
from .program import (
    Addition,
    Application,
    Contraction,
    Factor,
    Input,
    Map,
    Part,
    Program,
    Recurrence,
    Rhs,
    Statement,
    flatten_output,
    operands,
    pair_tree,
    pointwise,
    rename,
    rename_output,
    support,
)
from .simplify import simplify

if TYPE_CHECKING:
    import islpy

SHORT = 32  # rows of an array that a loop may carry in full
FEW = 4  # rows up to which each is carried by itself
AFTER_EACH = "something reads it as it is before the last iteration"
_NOTHING: frozenset[str] = frozenset()
T = TypeVar("T")


class _NotFilled(Exception):  # noqa: N818 - then the loop carries the array
    """Raised where a loop uses more of an array than its last rows: why, and the source of the statement that does."""

    def __init__(self, reason: str, origin: Origin = NOWHERE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.origin = origin


@dataclass(frozen=True)
class CarriedArray:
    """An array that a loop carries in full, though an iteration changes few of its entries: where it changes them, why it does
    not carry rows only, and where the program does what prevents that.
    """

    place: Place | None
    reason: str
    read: Place | None
    sizes: tuple[
        Affine, ...
    ]  # the number of iterations, and of the array's entries along each axis

    def steps(self, at: Mapping[str, int]) -> int:
        """Return how many entries all iterations copy; of a size that depends on the index of a loop around, one counts."""
        return math.prod(n.evaluate(at) for n in self.sizes if n.names <= at.keys())

    @property
    def name(self) -> str:
        """The array's name in the program."""
        text = "" if self.place is None else self.place.text[self.place.column :]
        found = re.match(r"\w+", text)
        return found[0] if found else "an array"

    def __str__(self) -> str:
        at = self.read or self.place
        line = "" if at is None else f" (line {at.line})"
        return f"an iteration copies all of `{self.name}`: {self.reason}{line}"


def find_carried_arrays(
    program: Program, around: frozenset[str] = _NOTHING
) -> Iterator[CarriedArray]:
    """Yield the arrays that loops of a contracted program carry in full, though an iteration changes few of their entries."""
    for s in program.statements:
        if not isinstance(s.rhs, Recurrence):
            continue
        yield from find_carried_arrays(s.rhs.body, around | {s.rhs.index})
        for place, output in enumerate(flatten_output(s.rhs.body.output)):
            changed = _changed_width(s.rhs, place)
            if changed is not None:
                why = _why_carried(program, s, place, around, changed)
                origin = _origin_of(s.rhs.body, output)
                sizes = s.rhs.size, *in_ranges(s.rhs.carried[place])
                yield CarriedArray(origin.place, why.reason, why.origin.place, sizes)


def _origin_of(program: Program, name: str) -> Origin:
    """Return the origin of a variable's statement."""
    return next(s.origin for s in program.statements if s.name == name)


def _why_carried(
    program: Program, s: Statement, place: int, around: frozenset[str], width: int
) -> _NotFilled:
    """Return why a loop carries an array, of which an iteration changes so many rows."""
    assert isinstance(s.rhs, Recurrence)
    for filled in _find_fillings(s.rhs, place):
        try:
            _contract_loop(program, s, s.rhs, filled, around)
        except _NotFilled as why:
            return why
    if width > 1:
        return _NotFilled(f"an iteration changes {width} of its rows")
    return _NotFilled("its index is no sum of multiples of the loop's index and sizes")


def _changed_width(loop: Recurrence, place: int) -> int | None:
    """Return in how many neighbouring rows an iteration changes entries of a carried array; None for a short array, and where
    that depends on sizes.
    """
    import islpy

    output, gens = flatten_output(loop.body.output)[place], loop.carried[place]
    binders = (Binder(loop.index, loop.size), *gens)
    unchanged = _unchanged_variables(loop.body, f"s{place}", binders) if gens else {}
    if output not in unchanged:
        return None
    changed = sets.integer_set(binders, _size_condition(loop.body)).subtract(unchanged[output])
    kinds = sets.dimension_kinds()
    for j, (_, size) in enumerate(gens, 1):
        rows = islpy.Map.from_range(changed)
        rows = rows.move_dims(kinds.in_, 0, kinds.out, j + 1, len(gens) - j)
        rows = rows.move_dims(kinds.in_, 0, kinds.out, 0, j)
        apart = rows.reverse().apply_range(rows).deltas()
        apart = apart.project_out(kinds.param, 0, apart.dim(kinds.param))
        most = apart.dim_max_val(0)
        if not most.is_int():  # infinite, or of no rows none
            continue
        width = int(most.to_python()) + 1
        if not size.is_constant or size.constant > max(SHORT, 2 * width):
            return width
    return None


def contract_arrays(program: Program, around: frozenset[str] = _NOTHING) -> Program:
    """Replace, in each loop, arrays that it fills by the rows that it reads; inner loops first.

    Args:
        around: the indices of the enclosing loops.
    """
    program = _contract_bodies(program, around)
    while (found := next(_find_contractions(program, around), None)) is not None:
        program = _contract_bodies(simplify(found), around)
    apart = parallelize_loops(program)
    return program if apart is program else simplify(apart)


def _contract_bodies(program: Program, around: frozenset[str]) -> Program:
    """Contract arrays in the bodies of a program's loops."""

    def contract_body(rhs: Rhs) -> Rhs:
        if not isinstance(rhs, Recurrence):
            return rhs
        made = contract_arrays(rhs.body, around | {rhs.index})
        return rhs if made is rhs.body else replace(rhs, body=made)

    made = tuple([replace(s, rhs=contract_body(s.rhs)) for s in program.statements])
    if all(s.rhs is t.rhs for s, t in zip(made, program.statements, strict=True)):
        return program
    return simplify(Program(made, program.output))


def _find_contractions(program: Program, around: frozenset[str]) -> Iterator[Program]:
    """Yield, for each carried array that can be contracted, the program with that array contracted."""
    for s in program.statements:
        if not isinstance(s.rhs, Recurrence):
            continue
        for place in range(len(s.rhs.carried)):
            for filled in _find_fillings(s.rhs, place):
                try:
                    yield _contract_loop(program, s, s.rhs, filled, around)
                except _NotFilled:
                    continue


# The row that an iteration changes


@dataclass(frozen=True)
class _Filled:
    """An array that a loop over `index` fills: an iteration changes only entries whose indices on some axes are `at`.

    On the axis `lead` this index differs in every iteration; without such an axis, all iterations change the same row.
    `versions` are the variables of the body that hold the array, with the changes that the iteration has made so far.
    """

    index: str
    place: int
    at: Mapping[int, Affine]
    lead: int | None
    versions: frozenset[str]

    def other_axes(self, axes: Iterable[T]) -> tuple[T, ...]:
        """Select the items of the axes that are not in `at`."""
        return tuple([x for j, x in enumerate(axes) if j not in self.at])

    def changed_entry(self, others: Sequence[Affine], turn: Affine) -> tuple[Affine, ...]:
        """Return the indices of an entry in the row that an iteration changes, given its indices on the other axes."""
        row = {j: a.substitute({self.index: turn}) for j, a in self.at.items()}
        rest = iter(others)
        return tuple([row[j] if j in row else next(rest) for j in range(len(row) + len(others))])

    def is_row(self, indices: Sequence[Affine], turn: Affine) -> Predicate:
        """Return the condition that an entry is in the row that an iteration changes."""
        row = {j: a.substitute({self.index: turn}) for j, a in self.at.items()}
        return conj(*(compare("=", indices[j], a) for j, a in row.items()))


def _find_fillings(loop: Recurrence, place: int) -> Iterator[_Filled]:
    """Find the row of a carried value that each iteration changes, if only one, and the row that contains all of them, if any."""
    output, gens = flatten_output(loop.body.output)[place], loop.carried[place]
    binders = (Binder(loop.index, loop.size), *gens)
    unchanged = _unchanged_variables(loop.body, f"s{place}", binders) if gens else {}
    if output not in unchanged:
        return
    changed = sets.integer_set(binders, _size_condition(loop.body)).subtract(unchanged[output])
    names = {*index_names(gens)}
    found = ((j, sets.determined_value(binders, changed, g)) for j, (g, _) in enumerate(gens))
    at = {j: a for j, a in found if a is not None and not a.names & names}
    fixed = {j: a for j, a in at.items() if not a.coefficient(loop.index)}
    lead = next((j for j in at if j not in fixed), None)
    if lead is not None:
        yield _Filled(loop.index, place, at, lead, frozenset(unchanged))
    if fixed:
        yield _Filled(loop.index, place, fixed, None, frozenset(unchanged))


def _size_condition(body: Program) -> Predicate:
    """Return the condition that no size is negative, which each call of a loop checks."""
    loops = {s.rhs.size for s in body.statements if isinstance(s.rhs, Recurrence)}
    sizes = loops.union(*(in_ranges(s.rhs.gens) for s in body.statements))
    return conj(*(compare("≤", 0, n) for n in sorted(sizes, key=str)))


def _unchanged_variables(body: Program, parameter: str, binders: Binders) -> dict[str, islpy.Set]:
    """Find the variables of a body with entries that equal the parameter's, and the condition on their indices."""
    defined = {s.name: s.rhs for s in body.statements}
    found: dict[str, islpy.Set] = {}

    def single_source(p: Predicate, x: str, q: Predicate, y: str) -> islpy.Set | None:
        """Where `[p]·X + [q]·Y` is the parameter because X is, and the other addend is zero."""
        if x not in found or p.relations:
            return None
        beside = sets.integer_set(binders, conj(q, support(defined[y])))
        return found[x].intersect(sets.integer_set(binders, p)).subtract(beside)

    def chosen_source(p: Predicate, x: str, q: Predicate, y: str) -> islpy.Set | None:
        """Where `[p]·X + [q]·Y` is the parameter because X and Y are, one of which a condition on data chooses."""
        match defined[x], defined[y]:
            case Map(_, m, kept, (c, one)), Map(_, n, dropped, (d, other)) if c == d:
                names, within = {kept.name, dropped.name}, conj(p, q, m, n)
                both = one in found and other in found
                if names == {"kept", "dropped"} and both and not within.relations:
                    where = sets.integer_set(binders, within)
                    return where.intersect(found[one]).intersect(found[other])
        return None

    for name, rhs in defined.items():
        where: list[islpy.Set | None] = []
        match rhs:
            case Input(own) if own == parameter:
                where = [sets.integer_set(binders, TRUE)]
            case Contraction(gens, (), p, (Factor(x, indices),)) if indices == pointwise(gens):
                where = [found[x].intersect(sets.integer_set(binders, p)) if x in found else None]
                where = [] if p.relations else where
            case Addition(_, p0, x0, p1, x1):
                sides = (p0, x0, p1, x1), (p1, x1, p0, x0)
                where = [*starmap(single_source, sides), chosen_source(p0, x0, p1, x1)]
        for one in where:
            if one is not None and not one.is_empty():
                found[name] = one.union(found[name]) if name in found else one
    return found


# The rows that an iteration reads


@dataclass(frozen=True)
class _Carried:
    """What a loop carries of a contracted array: the last `single` rows separately and, where iterations read a variable number
    of
    rows, the last `window` rows as an array.
    """

    single: int = 1
    window: Affine | None = None


class _Body:
    """Builds the body of a loop that carries the last rows of an array that it fills.

    `variable` maps a variable of the old body to one of the new body, `row` to the row of it that the iteration changes.
    `lags` are the distances, in iterations, of the rows that the body reads, and whether each is constant.
    """

    def __init__(
        self, loop: Recurrence, filled: _Filled, carried: _Carried, around: frozenset[str]
    ) -> None:
        self.loop, self.filled, self.carried, self.around = loop, filled, carried, around
        self.defined = {s.name: s.rhs for s in loop.body.statements}
        self.origins = {s.name: s.origin for s in loop.body.statements}
        self.gens = loop.carried[filled.place]
        self.rest = filled.other_axes(self.gens)
        self.turn = Affine.of(loop.index)
        self.state = f"s{filled.place}"
        self.builder = Builder(prefix="B")
        self.variables: dict[str, str] = {}
        self.rows: dict[str, str] = {}
        self.reading = self._reading_variables()
        self.read = _Carried()

    def _reading_variables(self) -> frozenset[str]:
        """Return the variables that depend on the array."""
        found = set[str]()
        for name, rhs in self.defined.items():
            own = isinstance(rhs, Input) and rhs.parameter == self.state
            if own or not found.isdisjoint(operands(rhs)):
                found.add(name)
        return frozenset(found)

    def make_body(self) -> Program:
        """Build the body: it returns the other values, the new row, and the rows that are carried on."""
        outputs = flatten_output(self.loop.body.output)
        left = [
            self.row_of(x) if j == self.filled.place else self.map_variable(x)
            for j, x in enumerate(outputs)
        ]
        left += [self.carried_row(lag) for lag in range(1, self.carried.single)]
        if self.carried.window is not None:
            left.append(self._next_window(self.carried.window, left[self.filled.place]))
        twice = self.variables.keys() & self.rows.keys()
        for x in twice:
            if _takes_operation(self.defined[x]):
                reason = "an iteration uses what it stores there elsewhere, too"
                raise _NotFilled(reason, self.origins[x])
        return self.builder.build_program(pair_tree(left))

    @contextmanager
    def _in_statement(self, name: str) -> Iterator[None]:
        """Give an error within the origin of this statement of the old body, unless it has one."""
        try:
            yield
        except _NotFilled as why:
            if why.origin is NOWHERE:
                why.origin = self.origins[name]
            raise

    # Variables

    def map_variable(self, name: str) -> str:
        """Return the new body's variable for one of the old body."""
        if name not in self.variables:
            rhs = self.defined[name]
            if isinstance(rhs, Input) and rhs.parameter == self.state:
                raise _NotFilled("it reads all entries")
            with self._in_statement(name):
                made = self._remap_rhs(rhs, self.map_variable)
            self.builder.origin = self.origins[name]
            self.variables[name] = self.builder.add_statement(made)
        return self.variables[name]

    def row_of(self, name: str) -> str:
        """Return the row of an array that the iteration changes."""
        if name not in self.rows:
            with self._in_statement(name):
                made = self._make_row(name, self.defined[name])
            self.builder.origin = self.origins[name]
            self.rows[name] = self.builder.add_statement(made)
        return self.rows[name]

    def _make_row(self, name: str, rhs: Rhs) -> Rhs:
        """Return a statement of the old body restricted to the row that the iteration changes."""
        here = self.filled.changed_entry(pointwise(self.rest), self.turn)
        within = conj(*(in_range(here[j], self.gens[j].size) for j in self.filled.at))
        at = index_values(rhs.gens, here)

        def restrict_row(p: Predicate) -> Predicate:
            return conj(within, substitute(p, at))

        match rhs if name in self.reading else None:
            case Addition(_, p, x, q, y):
                rhs = Addition(self.rest, restrict_row(p), x, restrict_row(q), y)
                return self._remap_rhs(rhs, self.row_of)
            case Map(_, p, function, arguments):
                return self._remap_rhs(
                    Map(self.rest, restrict_row(p), function, arguments), self.row_of
                )
            case Contraction(_, sums, p, factors):
                sums_ = number_binders("σ", in_ranges(sums))
                at |= index_values(sums, pointwise(sums_))
                read = tuple([f.substitute(at) for f in factors])
                return self._remap_rhs(
                    Contraction(self.rest, sums_, restrict_row(p), read), self.row_of
                )
            case Input() if self.filled.lead is not None:
                return Contraction(self.rest, (), within, (Factor(self.initial_array, here),))
            case Input():
                row = Factor(self.carried_row(1), pointwise(self.rest))
                return Contraction(self.rest, (), TRUE, (row,))
        return Contraction(self.rest, (), within, (Factor(self.map_variable(name), here),))

    def _remap_rhs(self, rhs: Rhs, of: Callable[[str], str]) -> Rhs:
        """Return a right-hand side with its variables replaced, and its reads of the array converted."""
        if not isinstance(rhs, Contraction):
            return rename(rhs, {x: of(x) for x in operands(rhs)})
        binders = (*rhs.gens, *rhs.sums)
        return replace(
            rhs, factors=tuple([self._read_row(f, binders, rhs.mask) for f in rhs.factors])
        )

    # Reads

    @property
    def initial_array(self) -> str:
        """The array's initial value."""
        start = self.loop.starts[self.filled.place]
        known = (p for p, x in self.loop.arguments.items() if p[0] == "c" and x == start)
        return self._input_row(next(known, f"c{len(self.loop.wholes)}"), self.gens)

    def carried_row(self, lag: int) -> str:
        """Return the row of the iteration `lag` iterations earlier."""
        place = self.filled.place if lag == 1 else len(self.loop.starts) + lag - 2
        return self._input_row(f"s{place}", self.rest)

    def _window_rows(self, length: Affine) -> tuple[str, Binders]:
        """Return the rows that are carried as an array, the last first."""
        gens = number_binders("g", (length, *in_ranges(self.rest)))
        return self._input_row(f"s{len(self.loop.starts) + self.carried.single - 1}", gens), gens

    def _input_row(self, parameter: str, gens: Binders) -> str:
        """Add an input of the new body; return its variable."""
        return self.builder.add_statement(Input(parameter, array(in_ranges(gens)), (), gens))

    def _next_window(self, length: Affine, row: str) -> str:
        """Return the carried rows after an iteration: the new row, and all earlier ones but the last."""
        window, gens = self._window_rows(length)
        first, *rest = pointwise(gens)
        new = Contraction(gens, (), compare("=", first, 0), (Factor(row, tuple(rest)),))
        older = Factor(window, (first - 1, *rest))
        old = Contraction(gens, (), compare("≤", 1, first), (older,))
        p, q = new.mask, old.mask
        return self.builder.add_statement(
            Addition(gens, p, self.builder.add_statement(new), q, self.builder.add_statement(old))
        )

    def _read_row(self, f: Factor, binders: Binders, p: Predicate) -> Factor:
        """Convert a read of an old body's variable, where `p` holds."""
        if f.name in self.filled.versions:
            return self._read_of_array(f, binders, p)
        like_it = f.name in self.reading and len(f.indices) == len(self.gens)
        if like_it and all(f.indices[j] == a for j, a in self.filled.at.items()):
            return Factor(self.row_of(f.name), self.filled.other_axes(f.indices))
        return Factor(self.map_variable(f.name), f.indices)

    def _read_of_array(self, f: Factor, binders: Binders, p: Predicate) -> Factor:
        """Convert a read of the array to one of this iteration's row, an earlier row, or the initial array."""
        sizes = in_ranges(self.gens)
        inside = conj(*(in_range(a, n) for a, n in zip(f.indices, sizes, strict=True)))
        reached = conj(p, inside)
        turns = (Binder(self.loop.index, self.loop.size), *binders)
        first = isinstance(self.defined[f.name], Input) and self.filled.lead is not None
        here = FALSE if first else self.filled.is_row(f.indices, self.turn)
        lag = self._lag_of_read(f.indices)
        before = FALSE
        if lag is not None:
            before = conj(compare("≤", 1, lag), self.filled.is_row(f.indices, self.turn - lag))
        elsewhere = negate(disj(here, before))
        assert elsewhere is not None
        rest = self.filled.other_axes(f.indices)
        ways: list[tuple[Predicate, Factor]] = []
        if not sets.is_impossible(turns, conj(reached, here)):
            ways.append((here, Factor(self.row_of(f.name), rest)))
        if lag is not None and not sets.is_impossible(turns, conj(reached, before)):
            ways.append((before, self._row_before(lag, rest, turns, conj(reached, before))))
        if not ways or not sets.is_impossible(turns, conj(reached, elsewhere)):
            ways.append((elsewhere, Factor(self.initial_array, f.indices)))
        return ways[0][1] if len(ways) == 1 else self._select_by_condition(ways, binders, inside)

    def _lag_of_read(self, indices: tuple[Affine, ...]) -> Affine | None:
        """Return how many iterations earlier the row at these indices is changed; None where no iteration changes it."""
        if self.filled.lead is None:
            return None
        at = self.filled.at[self.filled.lead]
        step, apart = at.coefficient(self.loop.index), at - indices[self.filled.lead]
        if any(k % step for _, k in apart.terms):
            raise _NotFilled("which iteration has stored the row that one reads is no whole number")
        if apart.constant % step:
            return None
        terms = tuple([(name, k // step) for name, k in apart.terms])
        return Affine(terms, apart.constant // step)

    def _row_before(
        self, lag: Affine, rest: tuple[Affine, ...], turns: Binders, p: Predicate
    ) -> Factor:
        """Read an entry of the row of the iteration `lag` iterations earlier, where `p` holds."""
        if lag.is_constant and lag.constant <= FEW:
            single = max(self.read.single, lag.constant)
            self.read = replace(self.read, single=single)
            return Factor(self.carried_row(lag.constant), rest)
        length = self._bound_lag(lag, turns, p)
        if self.read.window is not None and self.read.window != length:
            length = self._larger_lag(self.read.window, length)
        self.read = replace(self.read, window=length)
        return Factor(self._window_rows(self.carried.window or length)[0], (lag - 1, *rest))

    def _bound_lag(self, lag: Affine, turns: Binders, p: Predicate) -> Affine:
        """Return an upper bound of the distance that iterations read back, if it does not grow with the number of iterations."""
        if lag.is_constant:
            return lag
        size = self.loop.size
        for bound in sets.upper_bounds(turns, p, lag):
            grows = any(k > 0 and size.coefficient(x) > 0 for x, k in bound.terms)
            many = bound.is_constant and size.is_constant and 2 * bound.constant > size.constant
            if not (grows or many or bound.names & self.around):
                return bound
        raise _NotFilled("an iteration reads rows that any earlier one has stored")

    @staticmethod
    def _larger_lag(one: Affine, other: Affine) -> Affine:
        """Return the larger of two distances. Raises `_NotFilled` if that depends on sizes."""
        if not (one - other).is_constant:
            raise _NotFilled("how many earlier rows iterations read is one of several sizes")
        return one if (one - other).constant > 0 else other

    def _select_by_condition(
        self, ways: list[tuple[Predicate, Factor]], binders: Binders, inside: Predicate
    ) -> Factor:
        """Combine reads that hold under different conditions into one array over the reader's indices."""
        names = inside.names.union(*(p.names for p, _ in ways))
        used = tuple([b for b in binders if b.name in names])
        whole, held = "", FALSE
        for p, factor in ways:
            p = conj(p, inside)
            view = self.builder.add_statement(Contraction(used, (), p, (factor,)))
            both = Addition(used, held, whole, p, view)
            whole, held = (self.builder.add_statement(both) if whole else view), disj(held, p)
        return Factor(whole, pointwise(used))


def _takes_operation(rhs: Rhs) -> bool:
    """Whether computing a variable takes an arithmetic operation, rather than only reads."""
    if isinstance(rhs, Contraction):
        return len(rhs.factors) > 1 or bool(rhs.sums)
    if isinstance(rhs, Addition):
        return not sets.is_impossible(rhs.gens, conj(rhs.left_mask, rhs.right_mask))
    return isinstance(rhs, Map | Recurrence | Application)


# The loop, and the array after it


def _contract_loop(
    program: Program, s: Statement, loop: Recurrence, filled: _Filled, around: frozenset[str]
) -> Program:
    """Replace the array that a loop carries by rows."""
    first = _Body(loop, filled, _Carried(), around)
    body, carried = first.make_body(), first.read
    if carried != _Carried():
        body = _Body(loop, filled, carried, around).make_body()
    outside = _Outside(Builder(), loop, filled, carried, {})
    for t in program.statements:
        outside.builder.origin = t.origin
        if t.name == s.name:
            outside.made[t.name] = outside.loop_over(body)
        elif isinstance(t.rhs, Part) and t.rhs.source == s.name:
            outside.add_history(t.name, t.rhs)
        else:
            outside.rewrite_statement(t)
    made = outside.made
    if not made.keys() >= {*flatten_output(program.output)}:
        raise _NotFilled("the result is the array after each iteration")
    return outside.builder.build_program(rename_output(program.output, made))


@dataclass
class _Outside:
    """Rewrites the statements around a loop that now carries rows. `made` are the variables of the new program."""

    builder: Builder
    loop: Recurrence
    filled: _Filled
    carried: _Carried
    made: dict[str, str]
    count: int = 0  # of what it carries
    array: str = ""
    histories: frozenset[str] = _NOTHING  # of the array, in the old program

    @property
    def gens(self) -> Binders:
        """The array's dimensions."""
        return self.loop.carried[self.filled.place]

    def loop_over(self, body: Program) -> str:
        """Return the loop with another body."""
        start, wholes = self.loop.starts[self.filled.place], self.loop.wholes
        rest = self.filled.other_axes(self.gens)
        begun = [
            self._first_row(rest, Affine.of(-lag)) for lag in range(1, self.carried.single + 1)
        ]
        if self.carried.window is not None:
            gens = number_binders("g", (self.carried.window, *in_ranges(rest)))
            lag, *_ = pointwise(gens)
            begun.append(self._first_row(gens, lag * -1 - 1))
        starts = [self.made[x] for x in self.loop.starts]
        starts[self.filled.place], *more = begun
        self.count = len(starts) + len(more)
        loop = replace(
            self.loop,
            starts=(*starts, *more),
            rows=tuple([self.made[x] for x in self.loop.rows]),
            wholes=tuple([self.made[x] for x in dict.fromkeys((*wholes, start))]),
            body=body,
        )
        return self.builder.add_statement(loop)

    def _first_row(self, gens: Binders, turn: Affine) -> str:
        """Return the row that a read before the first iteration sees: the array's initial value."""
        inner = pointwise(gens)
        rest = inner[len(gens) - (len(self.gens) - len(self.filled.at)) :]
        at = self.filled.changed_entry(rest, turn)
        within = conj(*(in_range(at[j], self.gens[j].size) for j in self.filled.at))
        start = self.made[self.loop.starts[self.filled.place]]
        return self.builder.add_statement(Contraction(gens, (), within, (Factor(start, at),)))

    def add_history(self, name: str, part: Part) -> None:
        """Add the history of a carried value; for the array, the array after the loop."""
        if part.place != self.filled.place:
            self.made[name] = self.builder.add_statement(
                replace(part, source=self.made[part.source], count=self.count)
            )
            return
        self.histories = self.histories | {name}
        self.array = self._filled_array(self.made[part.source])

    def _filled_array(self, loop: str) -> str:
        """Assemble the array after the loop from the rows that the loop carried, and its initial value elsewhere."""
        size, place = self.loop.size, self.filled.place
        rows = number_binders("g", (size + 1, *in_ranges(self.filled.other_axes(self.gens))))
        history = self.builder.add_statement(Part(loop, place, self.count, rows))
        gens, here, then = self.gens, pointwise(self.gens), Affine.of("σ0")
        turns = (Binder("σ0", size + 1),) if self.filled.lead is not None else ()
        row = self.filled.is_row(here, then - 1)
        changed = exists_all(turns, row)
        unchanged = negate(changed) or sets.complement(changed, gens)
        if unchanged is None:
            raise _NotFilled("which entries the loop leaves has no condition on indices")
        read = Factor(history, (then if turns else size, *self.filled.other_axes(here)))
        new = self.builder.add_statement(Contraction(gens, turns, row, (read,)))
        start = self.made[self.loop.starts[place]]
        old = self.builder.add_view(start, gens, unchanged)
        return self.builder.add_statement(Addition(gens, changed, new, unchanged, old))

    def rewrite_statement(self, t: Statement) -> None:
        """Rewrite another statement to read the filled array instead of the last entry of its history."""
        rhs = t.rhs
        if isinstance(rhs, Contraction):
            rhs = replace(rhs, factors=tuple(map(self._rewrite_read, rhs.factors)))
        elif not self.histories.isdisjoint(operands(rhs)):
            raise _NotFilled(AFTER_EACH, t.origin)
        else:
            rhs = rename(rhs, self.made)
        self.made[t.name] = self.builder.add_statement(rhs)

    def _rewrite_read(self, f: Factor) -> Factor:
        """Return a read with new names; of the array's history, only the last entry may be read."""
        if f.name not in self.histories:
            return Factor(self.made[f.name], f.indices)
        if f.indices[0] != self.loop.size:
            raise _NotFilled(AFTER_EACH)
        return Factor(self.array, f.indices[1:])
