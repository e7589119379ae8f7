"""From Tensor SSA at concrete sizes to steps: every variable on the support of its predicate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..language.affine import Affine
from ..language.definition import Definition
from ..language.predicates import (
    TRUE,
    And,
    Exists,
    Or,
    Predicate,
    Related,
    conj,
    conjuncts,
    disj,
    in_range,
    substitute,
)
from ..language.terms import Binder, Binders, in_ranges, index_values, number_binders
from ..language.types import IndexArray, ParameterType, Relation, TupleSet, array
from ..polyhedral.entailment import drop_implied, open_quantifier, open_quantifiers
from ..polyhedral.lattice import remaining_condition
from ..polyhedral.sets import simplify
from ..ssa.program import (
    Addition,
    Application,
    Constant,
    Contraction,
    Input,
    Map,
    Output,
    Part,
    Program,
    Recurrence,
    Rhs,
    flatten_output,
    operands,
    pointwise,
    rename_output,
    support,
)
from .choices import MODEL, Choices
from .coiteration import is_table
from .computed_indices import extract_index_arrays, index_array_name
from .coo import table_name
from .coordinate_columns import split_columns
from .dataflow import (
    find_transposed_reads,
    fusion_barriers,
    mark_parted_sums,
    names_of,
    needed_steps,
    used_lookups,
)
from .device import CPU, Device
from .fusion import Fused, fuse_steps
from .ir import (
    Access,
    Action,
    Apply,
    Contract,
    Fill,
    IndexLookup,
    Load,
    MakeIndexArray,
    Masked,
    Nonzero,
    Reduce,
    Rerun,
    ReversedRow,
    Scan,
    Step,
    Take,
    Whole,
    extents_of,
)
from .iteration import IterationDomain
from .linear import find_linear_solution
from .liveness import restrict_to_live
from .loop_counters import counter_relation, look_up_counter
from .pieces import MANY, Pieces, remaining_test
from .plan import Counts, Plan
from .recomputation import Again, find_block_variables, find_blockwise_loops, given_rows
from .relation_joins import Join, TupleCounts
from .running_sums import find_running_sums
from .shared_slopes import share_slopes
from .storage import (
    Piece,
    Storage,
    full_storage,
    last_entry_storage,
    nonzero_read,
    stored_condition,
    zero_outside,
)
from .strategy import needs_library
from .tiling import Blocks, block_row_sums, block_steps
from .windows import sweep_windows

_RELATIONS = Relation | IndexArray | TupleSet
LITTLE = 1 << 16  # entries that may be made whole rather than be sought
Reading = tuple[Piece, tuple[Affine, ...]]


@dataclass(frozen=True, eq=False)
class Lowered:
    """The steps of a program, before they are fused. `bounds` says what entries of index arrays are below, `choices` by which the
    bodies of loops are planned.
    """

    parameters: tuple[tuple[str, ParameterType], ...]
    counts: Counts
    dtype: np.dtype[Any]
    device: Device
    steps: tuple[Step, ...]
    output: Output
    storages: Mapping[str, Storage]
    bounds: Mapping[str, int]
    choices: Choices

    def serves(self, choices: Choices) -> bool:
        """Whether other choices would lower to the same steps."""
        return choices == self.choices or not any(step.action.loops for step in self.steps)

    @cached_property
    def fused(self) -> Fused:
        """The fused steps."""
        made = fuse_steps(self.steps, self.output, self.storages, self.bounds)
        return replace(made, steps=share_slopes(made.steps)) if self.device.by_value else made

    def plan(self, choices: Choices) -> Plan:
        """Return the plan for some choices: order, blocks and barriers."""
        run, device, output = self.fused, self.device, self.output
        if not choices.fused:
            run = Fused(share_slopes(self.steps) if device.by_value else self.steps, {})
        swept = sweep_windows(run.steps, output) if device.by_value and choices.blocked else None
        if device.by_value and swept is None:
            run = replace(run, steps=split_columns(run.steps, output)) if choices.columns else run
            run = replace(run, steps=mark_parted_sums(run.steps)) if choices.apart else run
        barriers = fusion_barriers(run.steps) if choices.apart else frozenset[str]()
        order: tuple[Step | Blocks, ...] = swept or run.steps
        if choices.blocked and swept is None:
            loads = [s.name for s in run.steps if isinstance(s.action, Load)]
            order = block_steps(
                run.steps, output, {x: self.storages[x].extents for x in loads}, device
            )
            order = block_row_sums(order, output, barriers, device) if device.by_value else order
        return Plan(
            self.parameters,
            self.counts,
            self.dtype,
            device,
            self.steps,
            output,
            barriers,
            find_transposed_reads(run.steps),
            order,
            {x: run.fused_storage(x, storage) for x, storage in self.storages.items()},
            choices,
        )


def lower(
    program: Program,
    parameters: Sequence[tuple[str, ParameterType]],
    counts: Counts,
    dtype: np.dtype[Any],
    device: Device,
    choices: Choices = MODEL,
    turns: Mapping[str, int] | None = None,
    asked: dict[Join, int] | None = None,
) -> Lowered:
    """Lower a program with known sizes to steps.

    Relations are joined where `counts` has their join. With `asked`, joins that `counts` lacks are assumed to have the
    expected number of tuples: such steps only show which joins to count.

    Args:
        counts: the numbers of tuples of relations, and what the entries of index arrays are below.
        turns: for the body of a loop, the number of iterations of each loop around, by the relation that holds its index.
        asked: gets the joins that may be worthwhile, with how many tuples each may have.
    """
    indices = {x for x, t in parameters if isinstance(t, IndexArray)}
    below = {x: n for x, n in counts if x in indices}
    tuples = TupleCounts({x: n for x, n in counts if x not in indices}, asked)
    types = {
        x: replace(t, below=below.get(x, t.below)) if isinstance(t, IndexArray) else t
        for x, t in parameters
    }
    lowering = _Lowering(types, tuples, dtype=dtype, device=device, choices=choices)
    lowering.turns = dict(turns or {})
    lowering.kept = find_stored_histories(program)
    lowering.again = find_blockwise_loops(program)
    within_blocks = find_block_variables(lowering.again)
    program, arrays = extract_index_arrays(program)
    for statement in program.statements:
        if statement.name in within_blocks:
            continue
        lowering.statement = statement.name
        lowering.gens[statement.name] = statement.rhs.gens
        lowering.defined[statement.name] = statement.rhs
        lowering.pieces[statement.name] = lowering.lower_rhs(statement.rhs)
        lowering.supports[statement.name] = simplify(support(statement.rhs), statement.rhs.gens)
        if statement.name in arrays:
            lowering.add_index_array(statement.name, arrays[statement.name])
    wholes = {}
    for name in dict.fromkeys(flatten_output(program.output)):
        lowering.statement = name
        wholes[name] = lowering.full_array(name)
    output = rename_output(program.output, wholes)
    steps = needed_steps(lowering.steps, output)
    known = ((x, t.below) for x, t in lowering.types.items() if isinstance(t, IndexArray))
    bounds = {x: n for x, n in known if n is not None} | lowering.turns
    return Lowered(
        tuple(parameters),
        counts,
        dtype,
        device,
        steps,
        output,
        lowering.storages,
        bounds,
        choices,
    )


@dataclass
class _Lowering(Pieces):
    """Lowers one program. `defined` has the right-hand side of each variable so far, `supports` its predicate, `tests` the
    relations made from quantifiers, `outer` the factors of arrays that are outer products, `kept` the histories that are
    stored, `again` the loops in reverse that run block by block.
    """

    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(float))
    device: Device = CPU
    choices: Choices = MODEL
    defined: dict[str, Rhs] = field(default_factory=dict)
    supports: dict[str, Predicate] = field(default_factory=dict)
    tests: dict[tuple[Predicate, Binders], str] = field(default_factory=dict)
    outer: dict[str, list[Reading]] = field(default_factory=dict)
    kept: frozenset[tuple[str, int]] = frozenset()
    again: dict[str, Again] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)

    def lower_rhs(self, rhs: Rhs) -> tuple[Piece, ...]:
        """Return the pieces of a right-hand side."""
        if any(n.constant == 0 for _, n in rhs.gens):
            return ()
        match rhs:
            case Input(parameter, _, path, gens):
                return (self.make_piece(Load(parameter, path), full_storage(gens)),)
            case Constant(gens, value):
                whole = full_storage(gens)
                if isinstance(value, Affine):
                    named = zip(whole.coordinates, gens, strict=True)
                    value = value.substitute({g: Affine.of(u) for (u, _), (g, _) in named})
                return (self.make_piece(Fill(whole.coordinates, value), whole),) if value else ()
            case Addition(gens, p0, x0, p1, x1):
                left, right = self.lower_view(x0, gens, p0), self.lower_view(x1, gens, p1)
                return self.merge_pieces((*left, *right))
            case Map():
                return self.lower_map(rhs)
            case Contraction():
                return self.lower_contraction(rhs)
            case Recurrence():
                return (self.lower_loop(rhs),)
            case Application(gens, Definition(reduction=str(function)), (operand,)) if function:
                whole = full_storage(gens)
                over = number_binders("over", in_ranges(self.gens[operand])[len(gens) :])
                axes = (*whole.coordinates, *over)
                read = Access(self.full_array(operand), pointwise(axes))
                return (self.make_piece(Reduce(whole.coordinates, function, over, read), whole),)
            case Application(gens, definition, operands):
                dims = tuple([in_ranges(self.gens[x]) for x in operands])
                applied = Whole(gens, definition, tuple(map(self.full_array, operands)), dims)
                return (self.make_piece(applied, full_storage(gens)),)
            case Part(source, place, _, gens):
                (histories,) = self.pieces[source]
                kept = (source, place) in self.kept
                storage = full_storage(gens) if kept else last_entry_storage(gens)
                return (self.make_piece(Take(histories.name, place), storage),)
        raise TypeError(rhs)

    # Loops

    def lower_loop(self, rhs: Recurrence) -> Piece:
        """Return the piece of a loop: a scan, or a loop in reverse that recomputes values."""
        kept = frozenset(place for name, place in self.kept if name == self.statement)
        again = self.again.get(self.statement)
        if again is not None:
            return Piece(self.add_step(self.lower_rerun(rhs, kept, again)), full_storage(()))
        every = [x.length for x in self.again.values() if x.source == self.statement]
        made = self.run_backwards(replace(self.lower_scan(rhs, kept), every=sum(every)))
        if not every:
            sums = find_running_sums(made.body)
            solution = () if sums else find_linear_solution(made.body, made.count, self.device)
            made = replace(made, sums=sums, solution=solution)
        return Piece(self.add_step(made), full_storage(()))

    def run_backwards(self, scan: Scan) -> Scan:
        """Return a loop that reads rows in reverse as one that runs from the last iteration, so that rows need not be
        reversed.
        """
        made = {s.name: s.action for s in self.steps}
        found = {x: self.reversed_row(made[x], scan.count) for x in scan.rows}
        if scan.every or not any(found.values()):
            return scan
        rows = tuple([found[x] or ReversedRow(x) for x in scan.rows])
        return replace(scan, rows=tuple([r.array for r in rows]), backwards=rows)

    def reversed_row(self, action: Action, count: int) -> ReversedRow | None:
        """Return `⊞k, g. X[c-k, g]` as rows of X; None for another action."""
        if not isinstance(action, Contract) or action.sums or action.scatter_to or action.lookups:
            return None
        if action.mask != TRUE or len(action.reads) != 1:
            return None
        (read,) = action.reads
        if not read.indices:
            return None
        (turn, _), inner = action.out[0], action.out[1:]
        first, rest = read.indices[0], read.indices[1:]
        storage = self.storages.get(read.array)
        if first + Affine.of(turn) != Affine.of(first.constant) or storage is None:
            return None
        if rest != pointwise(inner) or storage.extents[1:] != extents_of(inner):
            return None
        begin = first.constant - (count - 1)
        inside = begin >= 0 and first.constant < storage.extents[0]
        return ReversedRow(read.array, begin) if inside else None

    def lower_rerun(self, rhs: Recurrence, kept: frozenset[int], again: Again) -> Rerun:
        """Return the action of a loop in reverse that recomputes its values block by block."""
        (source,) = self.pieces[again.source]
        outside = given_rows(rhs.rows, again)
        back = self.lower_scan(replace(rhs, rows=tuple([rhs.rows[j] for j in outside])), kept)
        values = self.lower_scan(again.loop, frozenset(x.place for x in again.taken))
        return Rerun(source.name, again.length, values, back, again.taken, outside)

    def lower_scan(self, rhs: Recurrence, kept: frozenset[int]) -> Scan:
        """Return the action of a loop over full arrays, its body planned once."""
        count = rhs.size.constant
        body = restrict_to_live(look_up_counter(rhs.body, rhs.index, count))
        dims = {s.rhs.parameter: s.rhs.gens for s in body.statements if isinstance(s.rhs, Input)}
        related = {x: t for x, t in self.types.items() if isinstance(t, _RELATIONS)}
        related[counter_relation(rhs.index)] = IndexArray((), count)
        parameters = [(p, array(in_ranges(gens))) for p, gens in dims.items()]
        counts, asked = tuple(self.counts.known.items()), self.counts.asked
        inside = [*parameters, *related.items()]
        turns = {**self.turns, counter_relation(rhs.index): count}
        device = self.device.for_iterations
        made = lower(body, inside, counts, self.dtype, device, self.choices, turns, asked)
        plan = made.plan(self.choices)
        if needs_library(plan.steps, device):
            plan = replace(plan, device=replace(device, in_loop=False))
        consulted = frozenset[str]().union(*(step.action.relations for step in plan.steps))
        own = {counter_relation(rhs.index), *(s.name for s in plan.steps)}
        known = frozenset(x for x in consulted if x not in own)
        starts, rows, wholes = (
            tuple(map(self.full_array, names)) for names in (rhs.starts, rhs.rows, rhs.wholes)
        )
        return Scan(rhs.index, count, starts, rows, wholes, plan, kept, known)

    # Predicates

    def resolve_condition(
        self, p: Predicate, binders: Binders, factors: Sequence[tuple[str, Sequence[Affine]]]
    ) -> Predicate:
        """Return `p`, at points where every factor may be nonzero, without quantifiers over relations."""
        if not p.relations:
            return p
        known = []
        for name, indices in factors:
            at = index_values(self.gens[name], indices)
            known.append(simplify(substitute(self.supports[name], at), binders))
        return self.materialize_tests(
            drop_implied(simplify(p, binders), conj(*known), binders), binders
        )

    def materialize_tests(self, p: Predicate, binders: Binders) -> Predicate:
        """Return a predicate in which each `∃` over relations is a relation that a step makes."""
        match p:
            case And(parts):
                return conj(*(self.materialize_tests(part, binders) for part in parts))
            case Or(parts):
                return disj(*(self.materialize_tests(part, binders) for part in parts))
            case Exists() if p.relations:
                free = tuple(b for b in binders if b[0] in p.names)
                bound, body = open_quantifiers(p, "∃")
                if self.has_joins(free, bound, body):
                    return self.materialize_test(
                        self.materialize_tests(body, (*free, *bound)), free, bound
                    )
                bound, body = open_quantifier(p)
                return self.materialize_test(
                    self.materialize_tests(body, (*free, *bound)), free, bound
                )
        return p

    def materialize_test(self, body: Predicate, free: Binders, bound: Binders) -> Predicate:
        """Return `∃ bound. body` as a relation over the free indices."""
        key = body, (*free, *bound)
        gens = number_binders("g", in_ranges(free))
        sums = number_binders("e", in_ranges(bound))
        if key not in self.tests:
            spelt = zip((*free, *bound), (*gens, *sums), strict=True)
            at = {i: Affine.of(j) for (i, _), (j, _) in spelt}
            one = self.make_piece(Fill((), 1), full_storage(()))
            pieces = self.lower_product(gens, sums, substitute(body, at), [(one, ())])
            whole = self.add_pieces(
                full_storage(gens), [self.densify_piece(x) for x in self.merge_pieces([*pieces])]
            )
            name = self.tests[key] = f"∃{len(self.tests)}"
            self.steps.append(Step(name, Nonzero(whole.name), self.statement))
            self.types[name] = Relation(in_ranges(gens))
        return Related(self.tests[key], tuple(Affine.of(i) for i, _ in free))

    def add_index_array(self, name: str, type_: IndexArray) -> None:
        """Add a step that makes a variable's numbers an index array."""
        assert type_.below is not None
        relation = index_array_name(name)
        made = MakeIndexArray(self.full_array(name), type_.below)
        self.steps.append(Step(relation, made, self.statement))
        self.types[relation] = type_

    # Contractions

    def lower_contraction(self, rhs: Contraction) -> tuple[Piece, ...]:
        """Return the pieces of a contraction, one combination of the factors' pieces at a time."""
        binders = (*rhs.gens, *rhs.sums)
        p = self.resolve_condition(rhs.mask, binders, [(f.name, f.indices) for f in rhs.factors])
        choices = [self.pieces[f.name] for f in rhs.factors]
        if prod(map(len, choices)) > 4 * MANY:
            choices = [(self.single_piece(f.name),) for f in rhs.factors]
        made: list[Piece] = []
        for chosen in product(*choices):
            readings = [(x, f.indices) for x, f in zip(chosen, rhs.factors, strict=True)]
            if rhs.sums:
                made += self.lower_product(
                    rhs.gens, rhs.sums, *self.factor_outer_products(p, readings)
                )
            else:
                made += self.lower_product(rhs.gens, rhs.sums, p, readings)
        return self.merge_pieces(made)

    def factor_outer_products(
        self, p: Predicate, readings: Sequence[Reading]
    ) -> tuple[Predicate, list[Reading]]:
        """Return the readings with outer products replaced by their factors: `Σjq. (A⊗B)[ip,jq]·x[jq]` has three, and does not
        need `A⊗B`.
        """
        found: list[Reading] = []
        for piece, indices in readings:
            factors = self.outer.get(piece.name)
            if factors is None:
                found.append((piece, indices))
                continue
            p = conj(p, stored_condition(piece.storage, indices))
            places = piece.storage.place_of_entry(indices)
            at = piece.storage.at_place(places)
            for factor, inner in factors:
                found.append((factor, tuple(a.substitute(at) for a in inner)))
        return p, found

    def lower_view(self, name: str, gens: Binders, p: Predicate) -> tuple[Piece, ...]:
        """Return `⊞g. [p]·X[g]` as pieces; those on which p always holds are not copied."""
        here = pointwise(gens)
        p = self.resolve_condition(p, gens, [(name, here)])
        made: list[Piece] = []
        for piece in self.pieces[name]:
            if remaining_condition(p, gens, zero_outside(piece.storage, here)) == TRUE:
                made.append(piece)
            else:
                made += self.lower_product(gens, (), p, [(piece, here)])
        return tuple(made)

    def lower_product(
        self, gens: Binders, sums: Binders, p: Predicate, readings: Sequence[Reading]
    ) -> Iterator[Piece]:
        """Yield the pieces of `⊞g Σs. [p]·…` for one piece of each factor."""
        inside = (stored_condition(x.storage, indices) for x, indices in readings)
        for d in self.find_domains(gens, sums, conj(p, *inside)):
            reads, known = [], []
            for piece, indices in readings:
                at = tuple(a.substitute(d.index_map) for a in piece.storage.place_of_entry(indices))
                reads.append(Access(piece.name, at))
                known.append(substitute(nonzero_read(piece.storage, indices), d.index_map))
            known += [in_range(a, Affine.of(n)) for a, n in d.scatter_to]
            box = (*d.out, *d.sums, *self.looked_up_iterations(d))
            mask = remaining_test(d.condition, box, conj(*known), d.lookups)
            indices = (*(a for r in reads for a in r.indices), *(a for a, _ in d.scatter_to))
            used = used_lookups(d.lookups, mask.names | names_of(indices))
            action = Contract(d.out, d.sums, tuple(reads), mask, used, d.scatter_to)
            made = self.make_piece(action, d.storage)
            stored = sum(piece.storage.volume for piece, _ in readings)
            if not d.sums and mask == TRUE and not used and d.storage.volume > 4 * stored:
                self.outer[made.name] = [
                    (Piece(piece.name, _as_stored(piece.storage)), r.indices)
                    for (piece, _), r in zip(readings, reads, strict=True)
                ]
            yield made

    def looked_up_iterations(self, d: IterationDomain) -> Binders:
        """Return the loop counters that a domain looks up, with their ranges."""
        turns = [(x.name, self.turns[x.relation]) for x in d.lookups if x.relation in self.turns]
        return tuple([Binder(name, Affine.of(count)) for name, count in turns])

    # Maps

    def lower_map(self, rhs: Map) -> tuple[Piece, ...]:
        """Return the pieces of an elementwise function."""
        made = []
        for d in self.find_domains(rhs.gens, (), self.resolve_condition(rhs.mask, rhs.gens, ())):
            arguments = tuple(self.lower_addends(x, rhs.gens, d) for x in rhs.arguments)
            mask = remaining_test(
                d.condition, (*d.out, *self.looked_up_iterations(d)), TRUE, d.lookups
            )
            used = used_lookups(d.lookups, mask.names)
            apply = Apply(d.out, rhs.function, arguments, mask, used)
            if d.scatter_to:
                applied = Access(self.add_step(apply), pointwise(d.out))
                used = used_lookups(d.lookups, names_of(a for a, _ in d.scatter_to))
                sent = Contract(d.out, (), (applied,), TRUE, used, d.scatter_to)
                made.append(self.make_piece(sent, d.storage))
            else:
                made.append(self.make_piece(apply, d.storage))
        return tuple(made)

    def lower_addends(self, name: str, gens: Binders, d: IterationDomain) -> tuple[Masked, ...]:
        """Return a variable on a domain's axes, as a sum of its pieces."""
        here = pointwise(gens)
        parts = []
        for piece in self.pieces[name]:
            found: tuple[IndexLookup, ...] = ()
            at = d.index_map
            if not {*piece.storage.positions} <= d.positions:
                if self.is_small(piece, d):
                    piece = self.densify_piece(piece)
                else:
                    piece, at, found = self.search_positions(piece, d)
            at = {**piece.storage.substitutions_at(here), **at}
            parts.append(self.mask_piece(piece, at, d.out, d.condition, (*d.lookups, *found)))
        return tuple(parts)

    def is_small(self, piece: Piece, d: IterationDomain) -> bool:
        """Whether a piece may be stored in full where a domain reads it."""
        points = prod(extents_of(d.out))
        return prod(extents_of(piece.storage.gens)) <= max(LITTLE, 4 * points)

    def search_positions(
        self, piece: Piece, d: IterationDomain
    ) -> tuple[Piece, dict[str, Affine], tuple[IndexLookup, ...]]:
        """Return how to read a piece that is stored by positions of relations over which a domain does not iterate: the piece,
        its index map, and the searches.
        """
        storage, at = piece.storage, dict(d.index_map)
        lookups: list[IndexLookup] = []
        for position in (x for x in storage.positions if x not in d.positions):
            q = position.atom
            rows = q.relation if is_table(q.relation, self.types) else table_name(q.relation)
            places = tuple([a.substitute(d.index_map) for a in q.arguments])
            lookups.append(IndexLookup(f"σ{len(lookups)}", rows, places, True))
            at[position] = Affine.of(lookups[-1].name)
        sought = {x.atom for x in storage.positions}
        lattice = conj(*(q for q in conjuncts(storage.lattice) if q not in sought))
        return Piece(piece.name, replace(storage, lattice=lattice)), at, tuple(lookups)


def find_stored_histories(program: Program) -> frozenset[tuple[str, int]]:
    """Return the loops and carried values of which more than the last value is read."""
    parts = {s.name: s.rhs for s in program.statements if isinstance(s.rhs, Part)}
    found = {x for x in flatten_output(program.output) if x in parts}
    for s in program.statements:
        ends = isinstance(s.rhs, Contraction) and all(
            f.indices[0] == parts[f.name].gens[0].size - 1 for f in s.rhs.factors if f.name in parts
        )
        found |= set() if ends else {x for x in operands(s.rhs) if x in parts}
    return frozenset((parts[x].source, parts[x].place) for x in found)


def _as_stored(storage: Storage) -> Storage:
    """Return the storage of the array itself as a tensor."""
    return full_storage(number_binders("g", in_ranges(storage.coordinates)))
