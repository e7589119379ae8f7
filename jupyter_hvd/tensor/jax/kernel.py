"""A program at the sizes of a call: planned for its arguments, run as one function or statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

from ..cost.counting import RelationData
from ..instance import Primal
from ..language import types
from ..language.affine import Affine
from ..language.errors import TensorError
from ..language.predicates import conjuncts, is_asserted
from ..language.types import IndexArray, Integer, ParameterType, Relation, TupleSet
from ..lowering.choices import DENSE, MODEL, Choices
from ..lowering.coo import (
    Tuples,
    enumerated_relations,
    is_sparse,
    split_operands,
    true_entries,
    unpad_rows,
)
from ..lowering.device import Device
from ..lowering.ir import Load, Step
from ..lowering.liveness import restrict_to_live
from ..lowering.lower import Lowered, lower
from ..lowering.plan import Counts, Plan
from ..lowering.relation_joins import Join, build_tables, joins_within, power_of_two
from ..lowering.roofline import work_of
from ..lowering.specialize import at_sizes
from ..ssa.program import Contraction, Map, Program, all_statements
from . import stored_choices
from .arguments import as_array, dtype_and_weakness, flat_arrays, floating_type
from .dense_candidate import DenseProgram, DenseWork
from .devices import current_device
from .execute import execute, initial_values, run_steps
from .runtime import Values

Kinds = list[tuple[str, ParameterType]]
NO_ROWS: Mapping[int, Any] = {}
WORSE = 8  # times as many entries as a kernel visits points: then JAX's own way is not tried
SAVED = 2  # times the plan's time from which on it is preferred on devices on which dense arrays come first
BYTES = 4  # times as many as the plan moves, from which on it is preferred there, too
OPERATIONS = 2000  # of JAX's own way, beyond which it takes long to compile
ROUNDS = 3  # in which it is found out what to join


@dataclass(frozen=True)
class Stage:
    """One statement, ready to run by itself: `run(*operands)` gives its arrays, `keep` stores
    them for the statements after it.
    """

    statement: str
    run: Callable[..., Any]
    operands: tuple[Any, ...]
    keep: Callable[[Any], None]


class Kernel:
    """A program at given sizes, for parameters of the given kinds.

    Methods take `arguments`, as a call has them, or `arrays`, as `arrays(arguments)` or
    `operands(arguments)` makes them: both one a parameter, in order. Arrays have the dimensions of
    their parameters' types, in any type of number; a tuple of arrays is a tuple, an integer `()`;
    of a set of tuples there is an array with a row for each, and of a boolean array that comes
    with its true entries the two as `Tuples`. Behind `operands` come, where there are any, the tables
    of the joins of relations that are iterated over.
    """

    def __init__(
        self,
        program: Program,
        kinds: Kinds,
        sizes: Mapping[str, int],
        primal: Primal | None = None,
        constants: Mapping[str, float] | None = None,
    ) -> None:
        self.kinds = kinds
        self._constants = constants or {}
        self.plain = None if primal is None else DenseProgram(primal, sizes)
        self._written, self._sizes = program, sizes
        self.program = at_sizes(program, sizes)
        known = {name: Affine.of(value) for name, value in sizes.items()}
        self.parameters = tuple((x, types.at_sizes(t, known)) for x, t in kinds)
        self.plans: dict[tuple[Counts, np.dtype[Any], Choices], Plan] = {}
        self.lowered: dict[tuple[Counts, np.dtype[Any]], Lowered] = {}
        self.functions: dict[Plan, Any] = {}
        self.models: dict[tuple[Counts, np.dtype[Any]], Choices] = {}
        self.fitting: dict[tuple[Counts, np.dtype[Any]], DenseWork | TensorError] = {}
        self.wanted: dict[Counts, dict[Join, int]] = {}
        self.digests: dict[tuple[Counts, np.dtype[Any]], str] = {}
        self.dtypes: dict[Any, np.dtype[Any]] = {}
        listed = enumerated_relations(self.program)
        relations = Relation | IndexArray | TupleSet | Integer
        self._reals = [k for k, (_, t) in enumerate(kinds) if not isinstance(t, relations)]
        self._indices = [k for k, (_, t) in enumerate(kinds) if isinstance(t, IndexArray)]
        self._sets = [k for k, (_, t) in enumerate(kinds) if isinstance(t, TupleSet)]
        self._sparse = [
            k for k, (x, t) in enumerate(kinds) if isinstance(t, Relation) and x in listed
        ]

    def arrays(
        self, arguments: Sequence[Any], rows: Mapping[int, Any] = NO_ROWS
    ) -> tuple[Any, ...]:
        """Return the arguments as JAX takes them: sets of tuples as sorted rows, those in `rows` as they stand there."""
        typed = zip(self.kinds, arguments, strict=True)
        if not rows:  # the usual case, which takes as little time as can be
            return tuple([as_array(type_, value) for (_, type_), value in typed])
        found = []
        for k, ((_, type_), value) in enumerate(typed):
            if isinstance(type_, TupleSet) and k in rows:
                found.append(rows[k])
            else:
                array = as_array(type_, value)
                found.append(Tuples(array, rows[k]) if k in rows else array)
        return tuple(found)

    def rows(self, arrays: Sequence[Any]) -> dict[int, Any]:
        """Return the tuples of sets, and of boolean arrays that come with them, by position."""
        sets = {k: arrays[k] for k in self._sets}
        return sets | {k: v.rows for k, v in enumerate(arrays) if isinstance(v, Tuples)}

    def operands(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return `arrays`, but boolean arrays with few true entries with their tuples, and all with the tables of joins."""
        found = list(self.arrays(arguments))
        for k in self._sparse:
            if not isinstance(found[k], jax.core.Tracer) and is_sparse(found[k]):
                found[k] = Tuples(found[k], true_entries(found[k]))
        return with_joins(tuple(found), self.joins(found))

    def relations(self, arguments: Sequence[Any]) -> dict[str, RelationData]:
        """Return the data of relations and index arrays on the host, by name."""
        return {
            x: RelationData(t, np.asarray(value))
            for (x, t), value in zip(self.kinds, self.arrays(arguments), strict=True)
            if isinstance(t, Relation | IndexArray | TupleSet)
        }

    # Plans, made on the host

    def counts(self, arrays: Sequence[Any]) -> Counts:
        """Return the number of tuples of each relation that is given by its tuples.

        Also the size of each index array for which all entries are less than a size of the program: the least such size.
        """
        rows = [(k, len(arrays[k])) for k in self._sets]
        rows += [(k, len(arrays[k].rows)) for k in self._sparse if isinstance(arrays[k], Tuples)]
        rows += [(k, n) for k in self._indices if (n := self._below(arrays[k])) is not None]
        counts = [(self.kinds[k][0], n) for k, n in sorted(rows)]
        return (*counts, *((x, len(found)) for x, found in split_operands(arrays)[1].items()))

    def _below(self, array: Any) -> int | None:
        """Return the smallest size of the program that exceeds every entry of an index array, or None where an entry is
        negative.
        """
        if isinstance(array, jax.core.Tracer) or array.size == 0:
            return None
        host = np.asarray(array)
        low, high = int(host.min()), int(host.max())
        return (
            min((n for n in self._sizes.values() if n > high), default=None) if low >= 0 else None
        )

    def joins(self, arrays: Sequence[Any]) -> dict[Join, Any]:
        """Return the tables of the joins over which to iterate, for arrays that come without them."""
        if not self._may_join:
            return {}
        counts = self.counts(arrays)
        about = tuple([(x, power_of_two(n)) for x, n in counts])
        given = self._sets or any(isinstance(arrays[k], Tuples) for k in self._sparse)
        if not given or not self.wanted.get(about, True):
            return {}
        tables = {self.kinds[k][0]: arrays[k] for k in self._sets}
        sparse = [k for k in self._sparse if isinstance(arrays[k], Tuples)]
        tables |= {self.kinds[k][0]: unpad_rows(arrays[k].rows) for k in sparse}
        if about not in self.wanted:
            self.wanted[about] = self._worthwhile(counts, self.dtype(arrays), tables)
        return build_tables(self.wanted[about], tables)

    def _worthwhile(
        self, counts: Counts, dtype: np.dtype[Any], tables: Mapping[str, Any]
    ) -> dict[Join, int]:
        """Choose the joins to iterate over: build the promising ones, count their tuples, and choose again."""
        found: dict[Join, int] = {}
        most: dict[Join, int] = {}
        for _ in range(ROUNDS):
            given = (*counts, *found.items())
            asked: dict[Join, int] = {}
            lowered = lower(
                self.restricted, self.parameters, given, dtype, self.device, asked=asked
            )
            plan = lowered.plan(MODEL)
            if not asked:
                self.plans[counts, dtype, MODEL] = plan
            if asked.keys() <= found.keys():
                used = {part for join in plan.joins for part in joins_within(join)}
                return {x: n for x, n in most.items() if x in used}
            most |= asked
            made = build_tables(most, tables)
            found = {x: len(made[x]) if x in made else 0 for x in most}
        return {x: n for x, n in most.items() if found[x]}

    @cached_property
    def device(self) -> Device:
        """The device that it is planned for."""
        return current_device()

    @cached_property
    def _may_join(self) -> bool:
        """Whether relations of which there are tuples stand more than once."""
        listed = {self.kinds[k][0] for k in (*self._sets, *self._sparse)}
        masks = [
            s.rhs.mask for s in all_statements(self.program) if isinstance(s.rhs, Contraction | Map)
        ]
        atoms = {q for mask in masks for q in conjuncts(mask) if is_asserted(q)}
        return sum(q.relation in listed for q in atoms) > 1

    def dtype(self, arrays: Sequence[Any]) -> np.dtype[Any]:
        """Return the floating dtype of the real arguments together, in which it is computed."""
        reals = [leaf for k in self._reals for leaf in flat_arrays(arrays[k])]
        kinds = (jax.config.jax_enable_x64, *map(dtype_and_weakness, reals))
        if kinds not in self.dtypes:
            self.dtypes[kinds] = floating_type(reals)
        return self.dtypes[kinds]

    @cached_property
    def restricted(self) -> Program:
        """The program without statements that nothing reads; the same for every number of tuples."""
        return restrict_to_live(self.program)

    def compile(self, counts: Counts, dtype: np.dtype[Any], choices: Choices = MODEL) -> Plan:
        """Return the plan in a floating dtype for relations with so many tuples; made once for each, without any array."""
        key = counts, dtype, choices
        if key not in self.plans and choices.dense:
            self.plans[key] = replace(self.compile(counts, dtype), choices=choices)
        elif key not in self.plans:
            made = self.lowered.get((counts, dtype))
            if made is None or not made.serves(choices):
                given = counts, dtype, self.device, choices
                made = lower(self.restricted, self.parameters, *given)
                self.lowered.setdefault((counts, dtype), made)
            self.plans[key] = made.plan(choices)
        return self.plans[key]

    def jit_plan(self, plan: Plan) -> Any:
        """Return the jitted function of a plan: one, so that what measures it and what calls it share what JAX compiles."""

        def run(*arrays: Any) -> Any:
            return self.executed(plan, arrays)

        if plan not in self.functions:
            self.functions[plan] = jax.jit(run)
        return self.functions[plan]

    def choices(self, arrays: Sequence[Any]) -> Choices:
        """Return the choices that `tuning` found the fastest, else those of the cost model."""
        found = stored_choices.find_choice(self.digest(self.counts(arrays), self.dtype(arrays)))
        return self.by_model(arrays) if found is None else found

    def by_model(self, arrays: Sequence[Any]) -> Choices:
        """Return the candidate that the cost model chooses, for kernels that were not measured."""
        key = self.counts(arrays), self.dtype(arrays)
        if key not in self.models:
            plain = self.plain
            reduces = plain is not None and plain.unrolled_iterations == 0 and plain.has_reductions
            dense = (
                reduces
                and self.is_dense_worth_trying(arrays)
                and not self.compile(*key).sums_row_by_row
                and not (self.device.by_value and self.compile(*key).has_small_loops)
            )
            if not dense and self.device.many_cores:
                dense = self.saves_little(arrays)
            self.models[key] = DENSE if dense else MODEL
        return self.models[key]

    def saves_little(self, arrays: Sequence[Any]) -> bool:
        """Return whether the plan saves less than half of the dense candidate's predicted time, and moves more than a quarter
        of its bytes.
        """
        key = self.counts(arrays), self.dtype(arrays)
        try:
            made = self.require_fit(self.compile(*key, DENSE), arrays)
        except TensorError:
            return False
        if made.scatters or made.loops or made.operations > OPERATIONS:
            return False
        plan = self.compile(*key)
        sizes = plan.device, plan.dtype.name, plan.dtype.itemsize
        work = work_of(plan)
        is_as_fast = made.work.least_seconds(*sizes) < SAVED * work.least_seconds(*sizes)
        return is_as_fast and made.work.stored < BYTES * work.stored

    def is_dense_worth_trying(self, arrays: Sequence[Any]) -> bool:
        """Return whether the dense candidate makes at most 8 (`WORSE`) times as many array entries as the plan visits points.

        The dense candidate is the program in dense arrays with JAX's own derivative (`choices.DENSE`). False if there is none
        for these arrays.
        """
        key = self.counts(arrays), self.dtype(arrays)
        try:
            made = self.require_fit(self.compile(*key, DENSE), arrays)
        except TensorError:
            return False
        return made.entries <= WORSE * self.compile(*key).points

    def digest(self, counts: Counts, dtype: np.dtype[Any]) -> str:
        """Return the key under which choices are stored: sizes and numbers of tuples up to the next power of two, dtype,
        constants and program.
        """
        key = counts, dtype
        if key not in self.digests:
            rounded = [(x, n.bit_length()) for x, n in (*sorted(self._sizes.items()), *counts)]
            known = (self.kinds, sorted(self._constants), rounded, dtype)
            self.digests[key] = stored_choices.kernel_digest(self._written, *known)
        return self.digests[key]

    def plan(self, arrays: Sequence[Any]) -> Plan:
        """Return the plan for these arrays."""
        return self.compile(self.counts(arrays), self.dtype(arrays), self.choices(arrays))

    # Runs

    def run(self, *arrays: Any) -> Any:
        """Return the results of the whole program, as nested pairs of arrays; traceable by JAX."""
        return self.executed(self.plan(arrays), arrays)

    def executed(self, plan: Plan, arrays: Sequence[Any]) -> Any:
        """Run a plan; use JAX's own derivative if the plan chose it and it fits these arrays."""
        given = zip(self.kinds, arrays, strict=False)
        known = [self._constants.get(x, value) for (x, _), value in given]
        arrays = (*known, *arrays[len(known) :])
        if plan.choices.dense:
            with suppress(TensorError):
                self.require_fit(plan, arrays)
                assert self.plain is not None
                return self.plain.jit_run(plan)(*arrays)
            plan = self.compile(plan.counts, plan.dtype, MODEL)
        return execute(plan, arrays)

    def require_fit(self, plan: Plan, arrays: Sequence[Any]) -> DenseWork:
        """Return the work of the dense program; raise TensorError if it is no way to compute these arrays."""
        if self.plain is None:
            raise TensorError("JAX has no such derivative")
        if any(isinstance(value, Tuples | dict) for value in arrays):
            raise TensorError("a relation that is given by its tuples is not a dense array")
        key = plan.counts, plan.dtype
        if key not in self.fitting:
            try:
                self.fitting[key] = self.plain.require_fit(plan, arrays)
            except TensorError as error:
                self.fitting[key] = error
        found = self.fitting[key]
        if isinstance(found, TensorError):
            raise found
        return found

    def stages(self, arguments: Sequence[Any]) -> Iterator[Stage]:
        """Yield the statements one by one, ready to run; each needs the arrays kept of those before it."""
        arrays = self.operands(arguments)
        plan = self.plan(arrays)
        start = initial_values(plan, arrays)
        for name in dict.fromkeys(s.name for s in self.program.statements):
            yield _make_stage(name, [s for s in plan.steps if s.statement == name], start)


def with_joins(arrays: tuple[Any, ...], joins: Mapping[Join, Any]) -> tuple[Any, ...]:
    """Return arrays, and behind them the tables of joins if there are any."""
    return (*arrays, {**joins}) if joins else arrays


def _make_stage(name: str, steps: Sequence[Step], start: Values) -> Stage:
    """Return one statement ready to run by itself."""
    own = {step.name for step in steps}
    used = frozenset[str]().union(*(step.action.relations for step in steps))
    sources = frozenset[str]().union(*(step.action.sources for step in steps))
    given = {x: start.arrays[x] for x in sorted((sources | used - start.data.keys()) - own)}
    loaded = {step.action.parameter for step in steps if isinstance(step.action, Load)}
    reals = {x: start.arguments[x] for x in sorted(loaded)}
    data = {x: start.data[x][1] for x in sorted(used & start.data.keys())}

    def run(given: Any, reals: Any, data: Any) -> Any:
        related = {x: (start.data[x][0], array) for x, array in data.items()}
        values = replace(start, arguments=reals, data=related, arrays=dict(given))
        run_steps(steps, values)
        return {x: values.arrays[x] for x in sorted(own)}

    return Stage(name, run, (given, reals, data), start.arrays.update)
