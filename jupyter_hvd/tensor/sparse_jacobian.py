"""`f.jacobian("x")`: a Jacobian as exactly the entries of its support."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..svg import draw_pattern
from .called_function import CalledFunction
from .calls import Call
from .cost.counting import RelationData
from .cost.patterns import (
    Sparsity,
    box_count,
    entry_count,
    entry_keys,
    explain_unstructured,
    jacobian_sparsity,
)
from .derivative.tangents import Linearization, linearize_by, tangent_addends
from .frontend.signature import is_abstract
from .frontend.tracing.trace_result import Traced
from .instance import Instance
from .language.affine import Affine
from .language.depth import deep_recursion
from .language.errors import TensorError
from .language.predicates import Related, conj, fresh
from .language.terms import Binder, Lambda, in_ranges, index_names, number_binders
from .language.types import IndexArray, Parameter, Relation, TupleSet, size_names
from .language.units import in_bytes
from .lowering.cells import Plan, batch_plan, values_as_cells
from .lowering.composition import compose_plan
from .lowering.entries import Stage, affine_column, box_positions, build_stages, upper_half
from .lowering.jacobian_cost import JacobianCost, jacobian_cost
from .lowering.point_values import Added, Contents, Node, Reading, Summed, sum_stages, value_nodes
from .ssa.convert import to_term
from .ssa.program import Contraction, Factor, Input, Program, Rhs, Statement, pair_tree, pointwise
from .ssa.simplify import simplify

if TYPE_CHECKING:
    from .jax.backend import Ready

SparseFormat = Literal["csr", "csc", "coo", "bcoo"]
Format = SparseFormat | Literal["dense"]
FORMATS = ("csr", "csc", "coo", "bcoo", "dense")
ENTRY = 24  # bytes: a value, its indices, and an array of one of them on the way
LARGEST_NUMBER = 8  # bytes
NO_ROOM = "differentiate by fewer entries at a time, or use `.jvp` and `.vjp`"
PATTERNS = 16  # that a Jacobian remembers
#: Tangents from which on the dense program, each of whose statements XLA compiles over all entries of the parameter, takes
#: minutes to compile: then the entries are listed even where they are nearly all.
MANY = 200


class Coordinates(NamedTuple):
    """A sparse matrix: row, column and value of each entry, in row-major order without duplicates."""

    rows: Any
    columns: Any
    values: Any


@dataclass(frozen=True, eq=False)
class Pattern:
    """The entries of a sparse matrix, in row-major order without duplicates.

    Rows number the entries of the result, columns those of the parameter, both as `numpy.ravel` does. Equal patterns of one
    Jacobian are the same object.
    """

    rows: Any
    columns: Any
    shape: tuple[int, int]

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.rows)

    def _repr_html_(self) -> str:
        """Return a picture for IPython; of a large matrix, a square stands for several entries."""
        height, width = self.shape
        words = f"{height:,} × {width:,}, {self.count:,} entries"
        return draw_pattern(self.rows, self.columns, self.shape, words)

    @functools.cached_property
    def row_starts(self) -> Any:
        """`indptr` of CSR, whose `indices` are `columns`."""
        return _freeze_array(
            np.searchsorted(self.rows, np.arange(self.shape[0] + 1)), self.rows.dtype
        )

    @functools.cached_property
    def by_columns(self) -> tuple[Any, Any, Any]:
        """For CSC: the order of the values, `indices` and `indptr`."""
        order = np.argsort(self.columns, kind="stable")
        starts = np.searchsorted(self.columns[order], np.arange(self.shape[1] + 1))
        kind = self.rows.dtype
        return order, _freeze_array(self.rows[order], kind), _freeze_array(starts, kind)


def _freeze_array(array: Any, kind: Any) -> Any:
    """Return a read-only copy of an array with this dtype."""
    made = np.array(array, kind)
    made.flags.writeable = False
    return made


@dataclass(frozen=True, eq=False)
class _Reading:
    """The entries of a value at the points of an addend, as a part of the program that computes values.

    It holds its position in the program's result, the entry, the parameters and the size that define the points, and the
    sizes that are the value's extents: kernels ask which size bounds all entries of an index array.
    """

    position: int
    entry: Factor
    indices: tuple[str, ...]
    size: str
    extents: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Values:
    """The program of the values that tangents are multiplied by.

    It holds the full arrays that the program returns, by name, and which of them are arguments; the entries that it returns
    at
    points; and the number of these arrays. `nodes` has the expression of each addend's value, by tangent and number.
    """

    instance: Instance | None
    whole: Mapping[str, int]
    passed_on: frozenset[int]
    readings: Mapping[Reading, _Reading]
    count: int
    nodes: Mapping[tuple[str, int], tuple[Node, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that the program reads."""
        read = (r.entry.name for r in self.readings.values())
        return (*dict.fromkeys((*self.whole, *read)),)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A pattern and the method to compute its values: a plan, or densely without one.

    `places` and `sizes` are arguments of the program of values that do not change between calls; `inputs` are the parameters
    that it takes if the plan computes the values. `ready` has the compiled programs, by the types of numbers that they take.
    """

    pattern: Pattern
    plan: Plan = ()
    arrays: tuple[Any, ...] = ()
    places: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[str, ...] | None = None
    ready: dict[Any, Ready] = field(default_factory=dict)


def check_room(call: Call, entries: int, smaller: Callable[[int], str]) -> None:
    """Raise TensorError where a dense Jacobian of `entries` entries does not fit into memory.

    Args:
        smaller: says what to write instead, given the available bytes.
    """
    from .jax.entries import choose_precision, free_bytes

    room = free_bytes()
    if entries * LARGEST_NUMBER <= room:
        return
    needed = entries * choose_precision(call.instance.parameters, call.arguments)[1].itemsize
    if needed > room:
        message = f"the dense Jacobian takes {in_bytes(needed)}, and {in_bytes(room)} are available"
        raise TensorError(message, smaller(room))


class SparseJacobian:
    """The Jacobian of a tensor function by one parameter, a function of the same arguments. It returns a
    `scipy.sparse` array for "csr" and "csc", `Coordinates` for "coo", and JAX's `BCOO` for "bcoo".

    Its pattern is known before its values: it depends on sizes, relations and index arrays alone.
    """

    def __init__(
        self,
        name: str,
        base: CalledFunction,
        wrt: str,
        format: SparseFormat,  # noqa: A002
        dense: CalledFunction,
        made_by: tuple[Any, ...],
        symmetric: bool = False,
    ) -> None:
        self.symmetric = symmetric
        self.__name__ = name
        self.__signature__ = base.__signature__
        self.base, self.wrt, self.format, self.dense = base, wrt, format, dense
        self.made_by = made_by
        self._linear = functools.cache(lambda instance: linearize_by(instance, wrt))
        self._sparsity = functools.cache(lambda instance: jacobian_sparsity(self._linear(instance)))
        self._values = functools.cache(
            lambda instance: _build_values_program(instance, self._linear(instance))
        )
        self._known: dict[Any, _Prepared] = {}

    def __reduce__(self) -> Any:
        return call_derivative_method, self.made_by

    def __repr__(self) -> str:
        return f"<sparse Jacobian {self.__name__}{self.__signature__}, {self.format}>"

    @property
    def sparsity(self) -> Sparsity:
        """The pattern as a formula, at the types of the last call or of the annotations."""
        return self._sparsity(self.base.instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The Jacobian. Raises TensorError as the function does, and where it does not fit into memory."""
        call = self.base._checked(args, kwargs)
        prepared = self._prepare_call(call)
        return convert_format(
            prepared.pattern, self._compute_values(call, prepared, args, kwargs), self.format
        )

    def advice(self, arguments: Mapping[str, Any], sizes: Mapping[str, int], room: int) -> str:
        """Return what to write instead if the dense array takes more than `room` bytes."""
        of, kind, names, options = self.made_by
        found = self._sparsity(self.base._resolve(arguments))
        count = entry_count(found, sizes)
        if explain_unstructured(found, sizes) or (count is not None and count * ENTRY > room):
            return NO_ROOM
        quoted = ", ".join(f'"{x}"' for x in names)
        written = f'{of.__name__}.{kind}({quoted}, format="{options["format"]}")'
        size = "" if count is None else f": {count:,} entries, {in_bytes(count * ENTRY)}"
        return f"take the entries that may be other than zero: `{written}`{size}"

    def pattern(self, *args: Any, **kwargs: Any) -> Pattern:
        """Return the positions of the entries for these arguments; values of real arguments do not matter."""
        return self._prepare_call(self.base._checked(args, kwargs)).pattern

    def values(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the values of the pattern's entries, in its order."""
        call = self.base._checked(args, kwargs)
        return self._compute_values(call, self._prepare_call(call), args, kwargs)

    @deep_recursion()
    def cost(self, *args: Any, **kwargs: Any) -> JacobianCost:
        """Return the operations of the Jacobian at these arguments, and their bound.

        Values of real arguments do not matter.

        Raises:
            TensorError: the Jacobian has no structure, so it is dense.
        """
        from .jax.entries import free_bytes

        call = self.base._checked(args, kwargs)
        linear = self._linear(call.instance)
        if reason := explain_unstructured(self._sparsity(call.instance), call.sizes):
            raise TensorError(f"{self.__name__} is dense: {reason}", "see `.dense.cost`")
        data = _select_pattern_data(call)
        made = build_stages(linear, call.sizes, data, free_bytes() / 2)
        return jacobian_cost(linear, made, call.sizes, data)

    @deep_recursion()
    def _prepare_call(self, call: Call) -> _Prepared:
        """Return pattern and program for a call; cached by sizes, relations and index arrays."""
        data = _select_pattern_data(call)
        at, contents = (call.instance, tuple(sorted(call.sizes.items()))), _data_key(data)
        found = self._known.get((*at, *contents))
        if found is None:
            if len(self._known) >= PATTERNS:
                self._known.clear()
            kept = [c.copied() for c in contents]
            found = self._known[(*at, *kept)] = self._build_prepared(call, data)
        return found

    def _build_prepared(self, call: Call, data: Mapping[str, RelationData]) -> _Prepared:
        """Determine the pattern for a call, and build the program of its values.

        Raises:
            TensorError: the entries do not fit into memory.
        """
        from .jax.entries import free_bytes, move_to_device

        linear, found = self._linear(call.instance), self._sparsity(call.instance)
        shape = box_count(found.rows, call.sizes), box_count(found.columns, call.sizes)
        every, count, room = shape[0] * shape[1], entry_count(found, call.sizes), free_bytes()
        if count is not None and count * ENTRY > room:
            raise TensorError(
                f"the Jacobian has {count} entries, {in_bytes(count * ENTRY)} with their indices; {in_bytes(room)} are available",
                NO_ROOM,
            )
        reason = explain_unstructured(found, call.sizes)
        is_full = bool(reason) or (count is not None and 2 * count > every)
        made = None
        if not is_full or (linear.has_addends and len(linear.tangents) >= MANY):
            try:
                made = build_stages(linear, call.sizes, data, room / 2)
            except TensorError:
                if not is_full:
                    raise
        if made is None:
            if reason:
                warnings.warn(f"{self.__name__}: {reason}, so it is computed densely", stacklevel=5)
            return _Prepared(_enumerate_pattern(found, call.sizes, data, shape))
        entries, m = made[-1].entries, len(found.rows)
        pattern = _make_pattern(
            entries.columns[:m],
            entries.columns[m:],
            entries.shape[:m],
            entries.shape[m:],
            entries.count,
        )
        mirror = _find_mirror_entries(pattern) if self.symmetric else None
        if mirror is not None:
            made = upper_half(made)
        values = self._values(call.instance)
        written = values_as_cells(linear.program, values.names, call.sizes, data)
        number = {x: k for k, x in enumerate(values.names)}

        def value(reading: Reading, entry: Factor) -> tuple[int, bool]:
            if written is not None:
                return number[entry.name], True
            found = values.readings.get(reading)
            return (values.whole[entry.name], True) if found is None else (found.position, False)

        steps, arrays = sum_stages(made, values.nodes, data, call.sizes, value)
        counts = [[p.count for p in stage.addends if p.count] for stage in made]
        aligned = frozenset[int]()
        if written is None:
            aligned = frozenset([r.position for r in values.readings.values()])
        if mirror is not None and len(mirror):
            steps = (*steps, Summed(len(mirror), (Added(len(steps) - 1, len(arrays), (), None),)))
            counts, arrays = [*counts, [len(mirror)]], (*arrays, mirror)
        steps, points, arrays = compose_plan(steps, counts, arrays, aligned)
        if written is not None:
            of = {number[x]: written.of[x] for x in values.names}
            plan, arrays = batch_plan(steps, arrays, points, of.__getitem__, of, written.cells)
            return _Prepared(pattern, plan, move_to_device(arrays), inputs=written.inputs)
        places, sizes = _reading_arguments(values, linear.statements, made, call.sizes)
        shapes = _result_shapes(values, linear, call.sizes, sizes)
        plan, arrays = batch_plan(steps, arrays, points, shapes.__getitem__, aligned=aligned)
        places |= {x: d.array for x, d in data.items() if not isinstance(d.type, TupleSet)}
        at = dict(zip(places, move_to_device([*places.values()]), strict=True))
        return _Prepared(pattern, plan, move_to_device(arrays), at, sizes)

    def _compute_values(self, call: Call, prepared: _Prepared, args: Any, kwargs: Any) -> Any:
        """Compute the values of the pattern's entries for a call."""
        from .jax.entries import EntryValues, choose_precision, evaluate_entries, select_arrays

        pattern = prepared.pattern
        if not prepared.plan:
            whole = self.dense(*args, **kwargs).reshape(pattern.shape)
            return whole[pattern.rows, pattern.columns]
        values = self._values(call.instance)
        double, dtype = choose_precision(call.instance.parameters, call.arguments)
        found = EntryValues(())
        if prepared.inputs is not None:
            found = EntryValues(
                select_arrays(call.instance.parameters, call.arguments, prepared.inputs, double)
            )
        elif values.instance is not None:
            run, given = _prepare_values(values.instance, call, prepared, (double, dtype))
            found = EntryValues(given, run, values.count, values.passed_on)
        return evaluate_entries(prepared.plan, prepared.arrays, found, dtype, double)


def _prepare_values(
    instance: Instance, call: Call, prepared: _Prepared, numbers: tuple[bool, Any]
) -> tuple[Ready, tuple[Any, ...]]:
    """Return the compiled program of values for a call with these types of numbers, and the arrays to run it on.

    What decides the pattern is the same in each call, so it is looked at once.
    """
    from .jax.entries import is_traced

    arguments = {**call.arguments, **prepared.places}
    key = numbers, call.constants
    if key in prepared.ready and not is_traced([*call.arguments.values()]):
        ready = prepared.ready[key]
        return ready, ready.operands([*arguments.values()])
    inner = Call(instance, arguments, {**call.sizes, **prepared.sizes}, call.constants)
    ready, arrays = inner.compile_kernel(())
    if not is_traced(arrays):
        prepared.ready[key] = ready.with_tables_on_device()
    return ready, arrays


def _find_mirror_entries(pattern: Pattern) -> Any:
    """Return, for each entry of a symmetric pattern, the number of its mirror image among the entries on and above the
    diagonal.

    None for any other pattern: structure may show a zero on one side of the diagonal only.
    """
    rows, columns = pattern.rows.astype(np.int64), pattern.columns.astype(np.int64)
    keys = rows * pattern.shape[1] + columns
    turned = columns * pattern.shape[1] + rows
    if not np.array_equal(np.sort(turned), keys):
        return None
    return np.searchsorted(keys[rows <= columns], np.minimum(keys, turned)).astype(np.int32)


def _reading_arguments(
    values: _Values,
    statements: Mapping[str, Rhs],
    made: tuple[Stage, ...],
    sizes: Mapping[str, int],
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the index arguments and sizes of the program of values; equal arguments are one array."""
    at_size = {x: Affine.of(n) for x, n in sizes.items()}
    by_name = {stage.name: stage for stage in made}
    places: dict[str, Any] = {}
    each: dict[Contents, Any] = {}
    counts: dict[str, int] = {}
    for (x, k, _), reading in values.readings.items():
        points = by_name[x].addends[k] if x in by_name else None
        n = points.count if points else 0
        counts[reading.size] = max(1, n)
        for size, (_, extent) in zip(
            reading.extents, statements[reading.entry.name].gens, strict=True
        ):
            counts[size] = extent.evaluate(sizes)
        for index, a in zip(reading.indices, reading.entry.indices, strict=True):
            at = (
                affine_column(a.substitute(at_size), points.columns, n)
                if points and n
                else np.zeros(1)
            )
            at = at.astype(np.int32)
            places[index] = each.setdefault(Contents(at), at)
    return places, counts


def _result_shapes(
    values: _Values,
    linear: Linearization,
    sizes: Mapping[str, int],
    counts: Mapping[str, int],
) -> dict[int, tuple[int, ...]]:
    """Return the shape of each array that the program of values returns, by position."""
    whole = {
        k: tuple([max(0, n.evaluate(sizes)) for n in in_ranges(linear.statements[x].gens)])
        for x, k in values.whole.items()
    }
    return whole | {r.position: (counts[r.size],) for r in values.readings.values()}


def call_derivative_method(
    function: Any, kind: str, names: tuple[str, ...], options: Mapping[str, Any]
) -> Any:
    """Return the derivative that a method of a function gives; by it derivatives are unpickled."""
    return getattr(function, kind)(*names, **options)


def _build_values_program(instance: Instance, linear: Linearization) -> _Values:
    """Build the program of the values that tangents are multiplied by.

    Of a computed array of several dimensions, which may be as sparse as the Jacobian, it returns the entries at the points,
    not
    the array.
    """
    known = frozenset(linear.tangents)
    statements = {s.name: s.rhs for s in linear.program.statements}
    kept = [s for s in linear.program.statements if s.name not in known]
    taken = {p.name for p in instance.parameters}.union(
        *(size_names(p.type) for p in instance.parameters)
    )
    extra: list[Parameter] = []
    added: list[Statement] = []
    outputs: list[str] = []
    whole: dict[str, int] = {}
    readings: dict[Reading, _Reading] = {}
    nodes: dict[tuple[str, int], tuple[Node, ...]] = {}

    def read(reading: Reading, entry: Factor) -> None:
        rhs = statements[entry.name]
        if entry.name in whole:
            return
        if isinstance(rhs, Input) or len(rhs.gens) < 2:
            whole[entry.name] = len(outputs)
            outputs.append(entry.name)
            return
        n = len(readings)
        size = fresh(f"points_{n}", taken)
        taken.add(size)
        indices = tuple([fresh(f"at_{n}_{d}", taken) for d in range(len(rhs.gens))])
        extents = tuple([fresh(f"below_{n}_{d}", taken) for d in range(len(rhs.gens))])
        taken.update(indices, extents)
        readings[reading] = _Reading(len(outputs), entry, indices, size, extents)
        extra.extend(Parameter(i, IndexArray((Affine.of(size),)), None) for i in indices)
        added.append(Statement(f"read{n}", _gather_entries(entry.name, rhs.gens, size, indices)))
        outputs.append(f"read{n}")

    for x in linear.tangents:
        for k, part in enumerate(tangent_addends(statements[x], known) or ()):
            if part.value is not None:
                nodes[x, k] = value_nodes(statements, part.value)
                for j, node in enumerate(nodes[x, k]):
                    if isinstance(node.operation, Factor):
                        read((x, k, j), node.operation)
    if not outputs:
        return _Values(None, {}, frozenset(), {}, 0, nodes)
    program = simplify(Program((*kept, *added), pair_tree(outputs)))
    parameters = (*instance.parameters, *extra)
    function = Lambda("arg", tuple((p.name, p.type) for p in parameters), to_term(program))
    made = Instance(parameters, Traced(function, None, {}), instance.checked, program)
    passed_on = frozenset([k for x, k in whole.items() if isinstance(statements[x], Input)])
    return _Values(made, whole, passed_on, readings, len(outputs), nodes)


def _gather_entries(name: str, gens: Any, size: str, indices: tuple[str, ...]) -> Contraction:
    """Return the statement `⊞ g:size. Σ s…. [at0(g, s0) ∧ …]·X[s0, …]`."""
    outer = (Binder("g0", Affine.of(size)),)
    summed = number_binders("s", in_ranges(gens))
    mask = conj(
        *(
            Related(index, (Affine.of("g0"), Affine.of(s)))
            for index, s in zip(indices, index_names(summed), strict=True)
        )
    )
    return Contraction(outer, summed, mask, (Factor(name, pointwise(summed)),))


def _select_pattern_data(call: Call) -> dict[str, RelationData]:
    """Return the arguments on which the pattern depends."""
    return {
        x: _relation_data(x, type_, call.arguments[x])
        for x, type_, _ in call.instance.parameters
        if isinstance(type_, Relation | IndexArray | TupleSet)
    }


def _relation_data(name: str, type_: Any, value: Any) -> RelationData:
    """Return the data of an argument on which the pattern depends.

    Raises:
        TensorError: JAX traces it.
    """
    from .jax.entries import is_traced

    if is_traced((value,)):
        raise TensorError(
            f"`{name}` decides which entries there are, and JAX traces it",
            f"make `{name}` a constant of the function that `jax.jit` compiles",
        )
    return RelationData.of(type_, value)


def _data_key(data: Mapping[str, RelationData]) -> tuple[Contents, ...]:
    """Return a key of relations and index arrays by their contents."""
    return tuple([Contents(data[x].array) for x in sorted(data)])


def _enumerate_pattern(
    sparsity: Sparsity,
    sizes: Mapping[str, int],
    data: Mapping[str, RelationData],
    shape: tuple[int, int],
) -> Pattern:
    """Enumerate the entries of a pattern's formula."""
    keys = entry_keys(sparsity, sizes, data)
    rows, columns = np.divmod(keys, max(1, shape[1]))
    kind = _index_type(shape, len(keys))
    return Pattern(_freeze_array(rows, kind), _freeze_array(columns, kind), shape)


def _make_pattern(rows: Any, columns: Any, left: Any, right: Any, count: int) -> Pattern:
    """Return the pattern whose entries have these indices.

    Args:
        left, right: extents of the result's and the parameter's dimensions.
    """
    shape = int(np.prod(left, dtype=np.int64)), int(np.prod(right, dtype=np.int64))
    kind = _index_type(shape, count)
    here, there = box_positions(rows, left, count), box_positions(columns, right, count)
    return Pattern(_freeze_array(here, kind), _freeze_array(there, kind), shape)


def _index_type(shape: tuple[int, int], count: int) -> Any:
    """Return the integer type of indices that SciPy takes without a conversion."""
    return np.int32 if max(*shape, count) <= np.iinfo(np.int32).max else np.int64


def convert_format(pattern: Pattern, values: Any, format: SparseFormat) -> Any:  # noqa: A002
    """Build a sparse matrix in a format from its pattern and values.

    Raises:
        TensorError: SciPy would have to hold values that a transformation of JAX's does not know yet.
    """
    if format == "coo":
        return Coordinates(pattern.rows, pattern.columns, values)
    if format == "bcoo":
        from .jax.entries import make_bcoo

        return make_bcoo(pattern.rows, pattern.columns, values, pattern.shape)
    from scipy import sparse  # type: ignore[import-untyped]

    if is_abstract(values):
        raise TensorError(
            f'`format="{format}"` makes an array of SciPy\'s, which JAX cannot trace',
            'within `jax.jit` and other transformations take `format="bcoo"`, `"coo"` or `"dense"`',
        )
    if format == "csr":
        parts = np.asarray(values), pattern.columns, pattern.row_starts
        return sparse.csr_array(parts, shape=pattern.shape)
    order, rows, starts = pattern.by_columns
    return sparse.csc_array((np.asarray(values)[order], rows, starts), shape=pattern.shape)


def check_format(format: object) -> None:  # noqa: A002
    """Raise TensorError for an unknown format."""
    if format not in FORMATS:
        raise TensorError(f"`format={format!r}` says nothing", f"it is one of {', '.join(FORMATS)}")
