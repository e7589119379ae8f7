"""A program as a JAX user would write it, in dense arrays.

Each array of the program becomes a dense `jax.numpy` array: `⊞` is broadcasting, `[p]` a
`jnp.where`, a sum of products an `einsum`, a sum under a condition a masked `sum`; reads at an index
are axes, at a constant or an offset slices, anywhere else gathers, and sums to the places that an index
array says are scattered; loops that carry values are
written out, iteration by iteration, long ones a `lax.scan`. It knows no convolution:
for that, and for any other trick, give a version of one's own, `%gradcost f --against g`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial, reduce
from math import prod
from operator import mul
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..derivative.elementary import SLOPES_OF_JAX
from ..derivative.matrices import inline_body, tangent_of_application
from ..language import types
from ..language.affine import Affine
from ..language.definition import Definition, find_definition
from ..language.errors import TensorError
from ..language.function import Function, parameter_names
from ..language.pairs import to_pairs
from ..language.predicates import (
    TRUE,
    Predicate,
    Related,
    conj,
    conjuncts,
    in_range,
    substitute,
)
from ..language.terms import (
    Add,
    Apply,
    At,
    Binder,
    Binders,
    Call,
    Const,
    Gen,
    Guard,
    Iterate,
    Let,
    Mul,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
    gens,
    lets,
    number_binders,
    strip_entries,
    strip_guards,
    strip_sums,
)
from ..language.terms import substitute as substitute_term
from ..language.types import REAL, Array, IndexArray, ParameterType, dimensions
from ..lowering.computed_indices import index_array_name
from ..lowering.strategy import Pairing, choose_pairing, is_covered
from ..polyhedral.points import Aligned
from ..ssa.normalize import normalize
from .access import Space, align
from .access import read as read_at
from .computed_indices import round_to_indices
from .definitions import FUNCTIONS
from .disjoint_sums import Span, find_spans
from .elementwise import call_primitive, evaluate_scalar, reduce_axes
from .masks import make_mask


@dataclass(frozen=True, eq=False)
class Dense:
    """Translates a let-lifted, pair-free program at given sizes into JAX operations, for relations with
    their types and data.

    Where it is `strict`, JAX's derivatives are the program's: what a condition leaves out is not computed, so that
    no NaN comes of it, and primitives have the slopes that the language gives them.
    """

    sizes: Mapping[str, int]
    relations: Mapping[str, tuple[ParameterType, Any]]
    dtype: Any = None
    strict: bool = False
    fuses: bool = False  # products of a matrix and a vector are fused with what makes the matrix
    picked: Mapping[str, int] = field(default_factory=dict)  # what places are below, by their array
    turns: Mapping[str, Aligned] = field(default_factory=dict)  # of loops around it that are scans
    rows: Mapping[Row, Any] = field(default_factory=dict)  # what they read of arrays there

    def compute_block(self, e: Term, values: Mapping[str, Any]) -> Any:
        """Compute a term below its lets; return its arrays as nested pairs."""
        here = self
        for name in self.picked.keys() & values.keys():
            here = here.with_index_array(name, values[name])
        while isinstance(e, Let):
            if isinstance(e.value, Iterate):
                values = {**values, e.name: here.run_loop(e.value, values)}
            elif isinstance(e.value, Apply):
                operands = [here.compute_array(x, values) for x in e.value.arguments]
                values = {**values, e.name: apply_definition(e.value.definition, operands)}
            else:
                values = {**values, e.name: here.compute_permuted(e.value, values, repeated=False)}
            if e.name in self.picked and e.name in values:
                here = here.with_index_array(e.name, values[e.name])
            e = e.body
        return here.compute_output(e, values)

    def with_index_array(self, name: str, value: Any) -> Dense:
        """Return a translator that knows the computed numbers of an array as an index array."""
        array, below = _in_program_order(value), self.picked[name]
        type_ = IndexArray(tuple(map(Affine.of, array.shape)), below)
        places = {index_array_name(name): (type_, round_to_indices(array, below))}
        return replace(self, relations={**self.relations, **places})

    def run_loop(self, e: Iterate, values: Mapping[str, Any]) -> Any:
        """Run a loop; return the histories of what it carries, as nested pairs."""
        if (added := find_summed_terms(e)) is not None:
            return self.cumulate_rows(e, added, values)
        turn = to_pairs([self.compute_array(start, values) for start in e.starts], _make_pair)
        rows = find_loop_rows(e, self.sizes)
        if rows is not None:
            return self.scan_with_rows(e, rows, turn, values)
        turns = [turn]
        for k in range(max(0, self.substitute_size_names(e.size).constant)):
            carried = dict(zip(e.names_bound, _unpair(turn, len(e.starts)), strict=True))
            turn = replace(self, sizes={**self.sizes, e.index: k}).compute_block(
                e.body, {**values, **carried}
            )
            turns.append(turn)
        parts = zip(*(_unpair(each, len(e.starts)) for each in turns), strict=True)
        return to_pairs([jnp.stack(part) for part in parts], _make_pair)

    def cumulate_rows(self, e: Iterate, added: Term, values: Mapping[str, Any]) -> Any:
        """Return the history of a loop that only adds `added` row by row, as a cumulative sum."""
        (start,) = e.starts
        if isinstance(added, Gen):
            one = substitute_term(added.body, indices={added.index: Affine.of(-1)})
            if one == start:  # the row before those
                here = {added.index: Affine.of(added.index) - 1}
                more = Gen(added.index, added.size + 1, substitute_term(added.body, indices=here))
                return jnp.cumsum(self.compute_array(more, values), axis=0)
        rows = [self.compute_array(start, values)[None], self.compute_block(added, values)]
        return jnp.cumsum(jnp.concatenate(rows), axis=0)

    def scan_with_rows(
        self, e: Iterate, wanted: Sequence[Row], start: Any, values: Mapping[str, Any]
    ) -> Any:
        """Run a loop by `lax.scan`, as `run_loop`, that hands each iteration the rows it reads.

        So JAX's derivative does not make an array of zeros around each row.
        """
        count = self.substitute_size_names(e.size).constant
        rows = [
            _rows_by_iteration(_in_program_order(values[row.array]), row, count) for row in wanted
        ]

        def one(carried: Any, now: Any) -> tuple[Any, Any]:
            k, here = now
            names = dict(zip(e.names_bound, _unpair(carried, len(e.starts)), strict=True))
            turns = {**self.turns, e.index: (k, ())}
            rows = {**self.rows, **dict(zip(wanted, here, strict=True))}
            inner = replace(self, turns=turns, rows=rows)
            made = inner.compute_block(e.body, {**values, **names})
            made = jax.tree_util.tree_map(lambda x, y: jnp.asarray(x, y.dtype), made, carried)
            return made, made

        _, histories = lax.scan(one, start, (jnp.arange(count, dtype=jnp.int32), rows))
        return jax.tree_util.tree_map(
            lambda x, xs: jnp.concatenate([x[None], xs]), start, histories
        )

    def compute_output(self, e: Term, values: Mapping[str, Any]) -> Any:
        """Compute a term that may be a pair; return arrays as nested pairs."""
        if isinstance(e, Pair):
            return self.compute_output(e.first, values), self.compute_output(e.second, values)
        return self.compute_array(e, values)

    def compute_array(self, e: Term, values: Mapping[str, Any]) -> Any:
        """Compute `⊞ i… . e` as an array."""
        return _in_program_order(self.compute_permuted(e, values))

    def compute_permuted(
        self, e: Term, values: Mapping[str, Any], repeated: bool = True
    ) -> PermutedArray:
        """Compute `⊞ i… . e` with axes in the order in which its operands lie in memory.

        Unless `repeated`, it has extent 1 along axes where all its entries are the same.
        """
        binders: list[Binder] = []
        while isinstance(e, Gen):
            binders.append(Binder(e.index, e.size))
            e = e.body
        rest = dimensions(e.type)
        binders += number_binders("η", rest)  # a whole array, named or guarded
        body = _entry_of_term(e, len(rest))
        lying = _preferred_order(body, [index for index, _ in binders])
        outer = Space({}, {**self.turns})
        space = self.bind_axes(outer, tuple(binders[k] for k in lying))
        axes = tuple(space.extents)
        array = align(self.compute_scalar(body, values, space), axes)
        if repeated or 0 in space.shape(axes):
            array = jnp.broadcast_to(array, space.shape(axes))
        return PermutedArray(array, tuple(lying), space.shape([index for index, _ in binders]))

    def bind_axes(self, outer: Space, binders: Binders) -> Space:
        """Return a space with the axes of more indices; they hide entries of the same name."""
        inner = {
            index: max(0, self.substitute_size_names(size).constant) for index, size in binders
        }
        entries = {x: v for x, v in outer.entries.items() if x not in inner}
        below = {x: n for x, n in outer.below.items() if x in entries}
        return Space({**outer.extents, **inner}, entries, below=below)

    def substitute_size_names(self, a: Affine) -> Affine:
        """Return an index or a size with the names of sizes replaced by numbers."""
        return a.substitute(self._values)

    @cached_property
    def _values(self) -> Mapping[str, Affine]:
        return {name: Affine.of(n) for name, n in self.sizes.items()}

    def compute_scalar(
        self, e: Term, values: Mapping[str, Any], space: Space, inside: Aligned | None = None
    ) -> Aligned:
        """Compute a scalar term at every point of the axes that it depends on; where `inside` is false, anything may stand."""

        def joined(function: Callable[..., Any], *parts: Term) -> Aligned:
            return _broadcast_apply(
                function, [self.compute_scalar(x, values, space, inside) for x in parts], space
            )

        match e:
            case Const(value):
                number = self.substitute_size_names(value) if isinstance(value, Affine) else value
                if not isinstance(number, Affine):
                    return jnp.asarray(float(number), self.dtype), ()
                array, axes = space.index(number)
                return array.astype(self.floating), axes
            case Add(left, Mul(Const(-1), right)):
                return joined(jnp.subtract, left, right)
            case Add() if inside is None and (found := self.find_spans(e, space)) is not None:
                return self.concatenate_spans(*found, values, space)
            case Add(left, right):
                return joined(jnp.add, left, right)
            case Mul(Const(-1), body):
                # XLA drops a second `-`; one number it would multiply by another.
                return joined(jnp.negative, body)
            case Mul() if len({*(factors := _factors_of_product(e))}) == 1:
                power = partial(lax.integer_pow, y=len(factors))
                return joined(power, factors[0])  # of which JAX's derivative has one term
            case Mul(left, Call(function, (right,))) if function.name == "recip":
                return _broadcast_apply(
                    jnp.divide,
                    [
                        self.compute_scalar(left, values, space, inside),
                        _where_inside(
                            self.compute_scalar(right, values, space, inside), inside, 1, space
                        ),
                    ],
                    space,
                )
            case Mul(left, right):
                return joined(jnp.multiply, left, right)
            case Call(function, arguments):
                parts = [self.compute_scalar(x, values, space, inside) for x in arguments]
                parts = [_where_inside(x, inside, 1, space) for x in parts]
                return _broadcast_apply(self.primitive_kernel(function), parts, space)
            case Guard(condition, body):
                p, plain = strip_guards(body)
                return self.multiply_where(conj(condition, p), [plain], values, space, inside)
            case Sum():
                return self.compute_sum(e, values, space, inside)
        return _where_inside(self.read_element(e, values, space), inside, 0, space)

    def find_spans(self, e: Add, space: Space) -> tuple[str, list[Span]] | None:
        """Return what `disjoint_sums.spans` finds; None also if the entries of an index array would be cut."""
        looked = {*space.entries}.union(*(has for _, has in space.entries.values()))
        axes = {i: n for i, n in space.extents.items() if i not in looked}
        return find_spans(e, axes, self._values)

    def concatenate_spans(
        self, axis: str, found: Sequence[Span], values: Mapping[str, Any], space: Space
    ) -> Aligned:
        """Compute each span of an axis by itself, and concatenate them with zeros between."""
        parts, end = list[tuple[int, Aligned]](), 0
        zero: Aligned = jnp.zeros((), self.floating), ()
        for span in found:
            inner = replace(space, extents={**space.extents, axis: span.end - span.start})
            parts += [(span.start - end, zero)] if span.start > end else []
            parts.append((span.end - span.start, self.compute_scalar(span.term, values, inner)))
            end = span.end
        rest = space.extents[axis] - end
        parts += [(rest, zero)] if rest else []
        axes = tuple(
            a for a in space.extents if a == axis or any(a in has for _, (_, has) in parts)
        )
        laid = [
            jnp.broadcast_to(align(part, axes), Space({**space.extents, axis: n}).shape(axes))
            for n, part in parts
        ]
        return jnp.concatenate(laid, axes.index(axis)), axes

    @property
    def floating(self) -> Any:
        """The floating dtype of the computation."""
        return jnp.result_type(float) if self.dtype is None else self.dtype

    def primitive_kernel(self, function: Function) -> Callable[..., Any]:
        """Return JAX's function for a primitive, with the slopes of the language if they differ from JAX's and `strict` asks
        for them.
        """
        dtype = self.floating
        if self.strict and function.name not in SLOPES_OF_JAX:
            return _with_own_slopes(function, dtype)
        return lambda *xs: call_primitive(function, xs, dtype)

    def multiply_where(
        self,
        p: Predicate,
        factors: Sequence[Term],
        values: Mapping[str, Any],
        space: Space,
        inside: Aligned | None,
    ) -> Aligned:
        """Compute a product of factors where `p` holds, zero elsewhere."""
        p = self.substitute_sizes(p)
        here = None if p == TRUE else make_mask(p, space, self.relation_array)
        if self.strict and here is not None:
            inside = (
                here if inside is None else _broadcast_apply(jnp.logical_and, [inside, here], space)
            )
        found = [self.compute_scalar(factor, values, space, inside) for factor in factors]
        whole = _broadcast_apply(lambda *xs: reduce(mul, xs), found, space)
        return _where_inside(whole, here, 0, space)

    def substitute_sizes(self, p: Predicate) -> Predicate:
        """Return a condition with the names of sizes replaced by numbers."""
        return substitute(p, self._values)

    def relation_array(self, name: str) -> tuple[ParameterType, Any]:
        """Return the type of a relation, and its data as a JAX array."""
        type_, array = self.relations[name]
        return type_, jnp.asarray(array)

    def compute_sum(
        self, e: Sum, values: Mapping[str, Any], space: Space, inside: Aligned | None = None
    ) -> Aligned:
        """Compute nested sums of a guarded product: as a segment sum, a lookup, or a contraction."""
        binders, p, body = strip_sums(e)
        if self.strict and any(i in space.extents or i in space.entries for i, _ in binders):
            raise TensorError("an index stands within itself")  # and `inside` would mean the other
        guards, plain = zip(*map(strip_guards, _factors_of_product(body)), strict=True)
        p = self.substitute_sizes(conj(p, *guards))
        inner, p = self.substitute_lookups(plain, p, self.bind_axes(space, binders), binders)
        inner = _order_like_largest(e, inner)
        place = None if inside is not None else self.find_scatter(plain, p, space, inner)
        if place is not None:
            left = {i: n for i, n in inner.extents.items() if i != place[1]}
            inner = replace(inner, extents=left)
            p = conj(*(q for q in conjuncts(p) if q is not place[0]))
        summed = tuple(index for index, _ in binders if index in inner.extents)
        if p == TRUE and place is None:
            factors = [
                self.compute_scalar(factor, values, inner, _reduce_mask(inside, factor))
                for factor in plain
            ]
            array, axes = _contract_factors(factors, summed, inner, self.fuses)
            seen = frozenset(a for _, has in factors for a in has)
        elif place is None and inside is None and (masks := self.assign_masks(plain, p, inner)):
            factors = [
                _where_inside(self.compute_scalar(factor, values, inner, m), m, 0, inner)
                for factor, m in zip(plain, masks, strict=True)
            ]
            array, axes = _contract_factors(factors, summed, inner, self.fuses)
            seen = frozenset(a for _, has in factors for a in has)
        else:
            whole = self.multiply_where(p, plain, values, inner, inside)
            seen = frozenset(whole[1])
            if place is not None:
                index, looked = self.relation_array(place[0].relation)[1], place[0].arguments[:-1]
                to = read_at(index, looked, inner)
                return _sum_segments(whole, to, place[1], summed, space, inner)
            array, axes = _sum_axes(whole, summed)
        for index in summed:
            if index not in seen:
                array = array * float(inner.extents[index])
        return array, axes

    def assign_masks(
        self, factors: Sequence[Term], p: Predicate, space: Space
    ) -> list[Aligned | None] | None:
        """Return the mask of each factor if every condition concerns one factor only, so that none is on the product; else
        None.
        """
        found: list[list[Aligned]] = [[] for _ in factors]
        for q in conjuncts(p):
            here = make_mask(q, space, self.relation_array)
            hosts = [k for k, factor in enumerate(factors) if {*here[1]} <= factor.names]
            others = (factor for k, factor in enumerate(factors) if k not in hosts)
            if not hosts or any(map(_has_call, others)):
                return None  # a function is not to see what the condition leaves out
            for k in hosts:
                found[k].append(here)
        return [
            _broadcast_apply(lambda *ms: reduce(jnp.logical_and, ms), ms, space) if ms else None
            for ms in found
        ]

    def substitute_lookups(
        self, factors: Sequence[Term], p: Predicate, space: Space, binders: Binders
    ) -> tuple[Space, Predicate]:
        """Replace sums `Σ j. [src(e, j)]·…`, which have one term: j becomes an entry of the index array.

        Returns the space with those entries, and the conditions that are left.
        """
        left = [*conjuncts(p)]
        bound = {index for index, _ in binders}
        while (found := self.next_lookup(left, bound)) is not None:
            q, index = found
            bound.remove(index)
            array, axes = read_at(self.relation_array(q.relation)[1], q.arguments[:-1], space)
            n = space.extents[index]
            extents = {i: size for i, size in space.extents.items() if i != index}
            left, known = [r for r in left if r is not q], {**space.below}
            below = self.relation_array(q.relation)[0].below  # type: ignore[union-attr]
            if below is not None and below <= n:
                # As JAX's indexing asks: on some processors XLA's loop is a tenth slower without.
                array = jnp.where(array < 0, array + n, array)
                known[index] = below
            elif not any(self.reads_all(factor, index, n) for factor in factors):
                left.append(in_range(Affine.of(index), Affine.of(n)))
            entries = {**space.entries, index: (array.astype(jnp.int32), axes)}
            space = Space(extents, entries, below=known)
        return space, conj(*left)

    def next_lookup(
        self, left: Sequence[Predicate], bound: AbstractSet[str]
    ) -> tuple[Related, str] | None:
        """Return a condition that makes a summed index an entry, and the index; None if none is left or each needs another
        first.
        """
        found = [(q, index) for q in left if (index := self.entry_index(q)) in bound]
        sought = {index for _, index in found}
        for q, index in found:
            assert isinstance(q, Related)
            assert index is not None
            if not any(a.names & sought for a in q.arguments[:-1]):
                return q, index
        return None

    def reads_all(self, factor: Term, index: str, n: int) -> bool:
        """Return whether a factor is read at an index along an axis of exactly n entries: beyond those it is zero."""
        while isinstance(factor, At):
            if factor.index.name == index and isinstance(factor.body.type, Array):
                return self.substitute_size_names(factor.body.type.size).constant == n
            factor = factor.body
        return False

    def find_scatter(
        self, factors: Sequence[Term], p: Predicate, space: Space, inner: Space
    ) -> tuple[Related, str] | None:
        """Return the condition of a sum `Σ k. [dst(k, i)]·…` whose terms an index array sends to places i, and the index i."""
        for q in conjuncts(p):
            index = self.entry_index(q)
            if index is None or index not in space.extents:
                continue
            assert isinstance(q, Related)
            others = [r for r in conjuncts(p) if r is not q]
            used = frozenset[str]().union(*(x.names for x in factors), *(r.names for r in others))
            from_ = frozenset[str]().union(*(a.names for a in q.arguments))
            if index not in used and from_ - {index} <= inner.extents.keys() - space.extents.keys():
                return q, index
        return None

    def entry_index(self, q: Predicate) -> str | None:
        """Return the index that a condition says to be an entry of an index array; None if it says no such thing."""
        if not isinstance(q, Related) or q.negated:
            return None
        if not isinstance(self.relations[q.relation][0], IndexArray):
            return None
        index = _unit_axis(q.arguments[-1])
        apart = not any(index in a.names for a in q.arguments[:-1])
        return index if q.arguments[-1].constant == 0 and apart else None

    def read_element(self, e: Term, values: Mapping[str, Any], space: Space) -> Aligned:
        """Compute `X[a…]`: by axes and slices if they serve, else by a gather."""
        places: list[Affine] = []
        while isinstance(e, At):
            places.insert(0, self.substitute_size_names(e.index))
            e = e.body
        row = next((row for row in self.rows if row.is_read(e, places)), None)
        if row is not None:
            del places[row.axis]
            array = self.rows[row]
        else:
            array, extents = _variable_value(e, values), dimensions(e.type)
            if isinstance(array, PermutedArray):
                places = [places[k] for k in array.order]
                extents = tuple(extents[k] for k in array.order)
                array = array.array
            array, places = self.drop_repeated(array, extents, places, space)
        if any(a.names & space.entries.keys() for a in places):
            return read_at(array, places, space)
        names = [_unit_axis(a) for a in places]
        plain = tuple(n for n in names if n)
        if len(set(plain)) == len(plain) and all(
            _is_slice(a, extent, space) for a, extent in zip(places, array.shape, strict=True)
        ):
            cut = tuple(
                slice(a.constant, a.constant + space.extents[name]) if name else a.constant
                for a, name in zip(places, names, strict=True)
            )
            return array[cut], plain
        if self.strict:  # where it lies outside of the array it is left out
            return read_at(array, places, space)
        indices = [space.index(a) for a in places]
        axes = tuple(n for n in space.extents if any(n in has for _, has in indices))
        within = tuple(
            jnp.clip(align(index, axes), 0, extent - 1)
            for index, extent in zip(indices, array.shape, strict=True)
        )
        return array[within], axes

    def drop_repeated(
        self, array: Any, sizes: Sequence[Affine], places: list[Affine], space: Space
    ) -> tuple[Any, list[Affine]]:
        """Return an array without the dimensions along which its entries repeat, and the places along the others.

        The array is left whole if it is read beyond those dimensions.
        """
        extents = [self.substitute_size_names(size).constant for size in sizes]
        same = [k for k, n in enumerate(extents) if array.shape[k] == 1 and n != 1]
        if not same:
            return array, places
        if not all(_stays_inside(places[k], extents[k], space) for k in same):
            return jnp.broadcast_to(array, extents), places
        kept = [k for k in range(len(extents)) if k not in same]
        return jnp.squeeze(array, tuple(same)), [places[k] for k in kept]


# Loops of many iterations

WRITTEN_OUT = 32  # turns


@dataclass(frozen=True)
class Row:
    """What one iteration reads of an array along an axis: at `place`, which has the loop's index alone."""

    array: str
    axis: int
    index: str
    place: Affine

    def is_read(self, e: Term, places: Sequence[Affine]) -> bool:
        """Return whether a term with these places reads exactly this."""
        return isinstance(e, Var) and e.name == self.array and places[self.axis] == self.place


def find_loop_rows(e: Iterate, sizes: Mapping[str, int]) -> tuple[Row, ...] | None:
    """Return what the iterations of a loop read at its index, if `lax.scan` should run it: it has many, and they read row by
    row. Else None.
    """
    if e.size.evaluate(sizes) <= WRITTEN_OUT or e.index in _bound_indices(e.body):
        return None
    known = {name: Affine.of(n) for name, n in sizes.items()}
    found: dict[Row, None] = {}
    for array, places in _find_reads(e.body):
        with_index = [k for k, a in enumerate(places) if e.index in a.names]
        if not with_index:
            continue
        axis = with_index[0]
        a = places[axis].substitute(known)
        alone = a.names == {e.index} and abs(a.coefficient(e.index)) == 1
        if array is None or len(with_index) > 1 or not alone or array in _bound_names(e):
            return None
        found[Row(array, axis, e.index, a)] = None
    return tuple(found)


def find_summed_terms(e: Iterate) -> Term | None:
    """Return the array of what each iteration adds, if a loop carries one value and only adds to it; else None."""
    if len(e.names_bound) != 1:
        return None
    ((name,), body), before = (e.names_bound, e.body), list[tuple[str, Term]]()
    while isinstance(body, Let) and name not in body.value.variables:
        row = Gen(e.index, e.size, body.value)
        before.append((body.name, row))
        at_index = At(Var(body.name, row.type), Affine.of(e.index))
        body = substitute_term(body.body, {body.name: at_index})
    if isinstance(body, Let) and body.body == Var(body.name, body.value.type):
        body = body.value
    binders: list[Binder] = []
    while isinstance(body, Gen):
        binders.append(Binder(body.index, body.size))
        body = body.body
    sum_ = Var(name, e.starts[0].type)
    match body:
        case Add(left, right) if name not in right.variables:
            read, added = left, right
        case Add(left, right):
            read, added = right, left
        case _:
            return None
    whole = sum_, tuple(Affine.of(index) for index, _ in binders)
    if strip_entries(read) != whole or name in added.variables:
        return None
    return lets(before, Gen(e.index, e.size, gens(tuple(binders), added)))


def _find_reads(e: Term) -> Iterator[tuple[str | None, list[Affine]]]:
    """Yield each read: the name of the array (None for parts of pairs) and its places."""
    places: list[Affine] = []
    while isinstance(e, At):
        places.insert(0, e.index)
        e = e.body
    if places:
        yield e.name if isinstance(e, Var) else None, places
    for x in e.children:
        yield from _find_reads(x)


def _bound_names(e: Term) -> frozenset[str]:
    """Return the names that a term binds by `let` and loops."""
    own = (*e.names_bound,) if isinstance(e, Iterate) else ()
    own = (e.name,) if isinstance(e, Let) else own
    return frozenset(own).union(*map(_bound_names, e.children))


def _bound_indices(e: Term) -> frozenset[str]:
    """Return the indices that a term binds."""
    own = {e.index} if isinstance(e, Gen | Sum | Iterate) else ()
    return frozenset(own).union(*map(_bound_indices, e.children))


def _rows_by_iteration(array: Any, row: Row, count: int) -> Any:
    """Return what each iteration reads of an array, the first iteration's first; zeros where it lies outside."""
    rows = jnp.moveaxis(array, row.axis, 0)
    c, k = row.place.constant, row.place.coefficient(row.index)
    if k < 0:
        rows, c = jnp.flip(rows, 0), len(rows) - 1 - c
    before, after = max(0, -c), max(0, c + count - len(rows))
    padding = [(before, after), *[(0, 0)] * (rows.ndim - 1)]
    return lax.slice_in_dim(jnp.pad(rows, padding), c + before, c + before + count)


# Terms and arrays


class PermutedArray(NamedTuple):
    """An array of the program whose axes are its dimensions in another order, so that it is not turned round to be kept.

    It has extent 1 where its entries are the same along a dimension; `extents` are the program's.
    """

    array: Any
    order: tuple[int, ...]
    extents: tuple[int, ...]


def _in_program_order(value: Any) -> Any:
    """Return an array with the axes of the program, repeated along those where it has extent 1."""
    if not isinstance(value, PermutedArray):
        return value
    array = jnp.transpose(value.array, [value.order.index(k) for k in range(len(value.order))])
    return jnp.broadcast_to(array, value.extents)


def _preferred_order(e: Term, names: Sequence[str]) -> list[int]:
    """Return the order of axes in all that is read along all of them, if it is the same everywhere; else their own order."""
    found = {order for order in _read_orders(e) if sorted(order) == sorted(names)}
    (order,) = found if len(found) == 1 else {tuple(names)}
    return [names.index(i) for i in order]


def _order_like_largest(e: Term, space: Space) -> Space:
    """Return the space with the axes in the order of the largest array that is read, so that it is not transposed before it is
    summed.
    """
    known = space.extents
    read = [order for order in _read_orders(e) if known.keys() >= {*order}]
    largest = max(read, key=lambda order: prod(known[i] for i in order), default=())
    lying = iter(dict.fromkeys(largest))
    axes = [next(lying) if i in largest else i for i in known]
    return replace(space, extents={i: known[i] for i in axes})


def _read_orders(e: Term) -> Iterator[tuple[str, ...]]:
    """Yield the axes of each read, in order."""
    places: list[Affine] = []
    while isinstance(e, At):
        places.insert(0, e.index)
        e = e.body
    if places:
        yield tuple(i for a in places if len(a.names) == 1 for i in a.names)
    for x in e.children:
        yield from _read_orders(x)


def _has_call(e: Term) -> bool:
    """Return whether a term calls a primitive."""
    return isinstance(e, Call) or any(map(_has_call, e.children))


def _make_pair(first: Any, second: Any) -> Any:
    """Return two values as a pair."""
    return first, second


def _unpair(value: Any, count: int) -> list[Any]:
    """Return the parts of `count` values in nested pairs, as a list."""
    parts = []
    for _ in range(count - 1):
        first, value = value
        parts.append(first)
    return [*parts, value]


def _variable_value(e: Term, values: Mapping[str, Any]) -> Any:
    """Return the value of a variable, or of a part of one."""
    match e:
        case Var(name):
            return values[name]
        case Proj(side, body):
            return _variable_value(body, values)[side]
    raise TypeError(e)


def _stays_inside(a: Affine, extent: int, space: Space) -> bool:
    """Return whether an index is known to lie in `range(extent)`."""
    if not a.names <= space.extents.keys():
        return False
    low, high = a.value_range(space.extents)
    return low >= 0 and high < extent


def _is_slice(a: Affine, extent: int, space: Space) -> bool:
    """Return whether an index reads a slice: `i + c` within the extent, or a number."""
    name = _unit_axis(a)
    if name is None:
        return not a.names and 0 <= a.constant < extent
    return a.constant >= 0 and a.constant + space.extents[name] <= extent


def _unit_axis(a: Affine) -> str | None:
    """Return the name i of an index `i + c`, else None."""
    return a.terms[0][0] if len(a.terms) == 1 and a.terms[0][1] == 1 else None


def _entry_of_term(e: Term, dims: int) -> Term:
    """Return a term's entry at fresh indices, with guards outermost."""
    for k in range(dims):
        e = At(e, Affine.of(f"η{k}"))
    return _push_index(e)


def _push_index(e: Term) -> Term:
    """Rewrite `([p]e)[a]` as `[p]e[a]`."""
    if isinstance(e, At):
        body = _push_index(e.body)
        if isinstance(body, Guard):
            return Guard(body.condition, _push_index(At(body.body, e.index)))
        return At(body, e.index)
    return e


def _factors_of_product(e: Term) -> list[Term]:
    """Return the factors of a product, as a flat list."""
    if isinstance(e, Mul):
        return [*_factors_of_product(e.left), *_factors_of_product(e.right)]
    return [e]


def _broadcast_apply(
    function: Callable[..., Any], parts: Sequence[Aligned], space: Space
) -> Aligned:
    """Apply a function entry by entry, to parts whose axes are broadcast by name."""
    axes = tuple(a for a in space.extents if any(a in has for _, has in parts))
    return function(*(align(part, axes) for part in parts)), axes


def _where_inside(value: Aligned, inside: Aligned | None, other: float, space: Space) -> Aligned:
    """Return a value where a mask holds, `other` elsewhere."""
    if inside is None:
        return value
    return _broadcast_apply(
        lambda here, x: jnp.where(here, x, jnp.asarray(other, x.dtype)), [inside, value], space
    )


def _reduce_mask(inside: Aligned | None, factor: Term) -> Aligned | None:
    """Return a mask reduced by `any` to the axes of a factor, so that the factor of a matrix product stays small."""
    if inside is None:
        return None
    array, axes = inside
    gone = tuple(k for k, i in enumerate(axes) if i not in factor.names)
    kept = tuple(i for i in axes if i in factor.names)
    return (array.any(gone) if gone else array, kept) if kept else None


def _with_own_slopes(function: Function, dtype: Any) -> Callable[..., Any]:
    """Return a primitive whose derivatives are those of the language, which differ from JAX's only where there is none."""
    names = parameter_names(function.arity)
    slopes = function.partials(tuple(Var(x, REAL) for x in names))

    run: Any = jax.custom_jvp(lambda *arguments: call_primitive(function, arguments, dtype))

    def jvp_rule(arguments: Any, differentials: Any) -> Any:
        """Return the value, and the sum of the slopes times the tangents."""
        value = run(*arguments)
        given, total = dict(zip(names, arguments, strict=True)), jnp.zeros_like(value)
        for slope, dx in zip(slopes, differentials, strict=True):
            if slope is not None:
                total = total + evaluate_scalar(slope, given, dtype) * dx
        return value, total

    run.defjvp(jvp_rule)
    return run  # type: ignore[no-any-return]


def _sum_axes(value: Aligned, summed: Sequence[str]) -> Aligned:
    """Return a value summed along some of its axes."""
    array, axes = value
    gone = tuple(k for k, a in enumerate(axes) if a in summed)
    return (array.sum(axis=gone) if gone else array), tuple(a for a in axes if a not in summed)


def _sum_segments(
    terms: Aligned, to: Aligned, index: str, summed: Sequence[str], outer: Space, inner: Space
) -> Aligned:
    """Add up terms at the places that an index array sends them to, along a new axis `index`; those sent outside are dropped."""
    places, keys = to
    whole = _broadcast_apply(lambda x, _: x, [terms, (jnp.zeros(inner.shape(keys)), keys)], inner)
    array, axes = _sum_axes(whole, [a for a in summed if a not in keys])
    for a in summed:
        if a not in whole[1]:
            array = array * float(inner.extents[a])
    rest = tuple(a for a in axes if a not in keys)
    array = jnp.broadcast_to(align((array, axes), (*keys, *rest)), inner.shape((*keys, *rest)))
    flat, n = array.reshape(-1, *inner.shape(rest)), outer.extents[index]
    at = jnp.where(places < 0, n, places).reshape(-1)
    total = jnp.zeros((n, *inner.shape(rest)), array.dtype).at[at].add(flat, mode="drop")
    order = tuple(a for a in outer.extents if a == index or a in rest)
    return align((total, (index, *rest)), order), order


def _contract_factors(
    factors: Sequence[Aligned], summed: Sequence[str], space: Space, fuses: bool
) -> Aligned:
    """Return the sum of a product, by a matrix product if `lowering.strategy` says so; numbers are multiplied last."""
    numbers = [f for f in factors if not f[1]]
    if numbers and len(numbers) < len(factors):
        array, axes = _contract_factors([f for f in factors if f[1]], summed, space, fuses)
        return reduce(mul, (array, *(number for number, _ in numbers))), axes
    first, *others = factors
    if all({*axes} == {*first[1]} for _, axes in others):
        # No product of matrices, which is not fused with what makes its operands.
        if len(factors) == 2 and first[0] is others[0][0] and first[1] == others[0][1]:
            return _sum_axes((jnp.square(first[0]), first[1]), summed)
        return _sum_axes(_broadcast_apply(lambda *xs: reduce(mul, xs), factors, space), summed)
    if fuses and is_covered([{*axes} for _, axes in factors]):
        return _sum_axes(_broadcast_apply(lambda *xs: reduce(mul, xs), factors, space), summed)
    if len(factors) == 2:
        here, there = {*first[1]}, {*others[0][1]}
        if choose_pairing(here, there, (here | there) - {*summed}) is Pairing.APART:
            return _broadcast_apply(jnp.multiply, [_sum_axes(x, summed) for x in factors], space)
    order = [*space.extents]
    in_order = sorted(factors, key=lambda f: min(map(order.index, f[1])))
    if len(factors) == 2:
        return _multiply_matrices(in_order[0], in_order[1], summed)
    return _einsum_by_name(in_order, summed)


def _multiply_matrices(left: Aligned, right: Aligned, summed: Sequence[str]) -> Aligned:
    """Return the sum of a product of two as a batched matrix product; its axes are those of both, of the left one, of the
    right one.
    """
    left, right = (
        _sum_axes(one, [a for a in summed if a not in other[1]])
        for one, other in ((left, right), (right, left))
    )
    both = [a for a in left[1] if a in right[1]]
    gone, kept = ([a for a in both if (a in summed) == is_gone] for is_gone in (True, False))
    numbers = tuple(
        tuple(tuple(map(axes.index, names)) for axes in (left[1], right[1]))
        for names in (gone, kept)
    )
    dtype = jnp.result_type(left[0], right[0])
    array = lax.dot_general(left[0].astype(dtype), right[0].astype(dtype), numbers)
    rest = (a for a in (*left[1], *right[1]) if a not in both)
    return array, (*kept, *rest)


def _einsum_by_name(factors: Sequence[Aligned], summed: Sequence[str]) -> Aligned:
    """Return the sum of a product of factors by `jnp.einsum`, with axes by name."""
    names = tuple(dict.fromkeys(a for _, axes in factors for a in axes))
    number = {a: k for k, a in enumerate(names)}
    kept = tuple(a for a in names if a not in summed)
    operands: list[Any] = []
    for array, axes in factors:
        operands += [array, [number[a] for a in axes]]
    return jnp.einsum(*operands, [number[a] for a in kept]), kept


# Array-level functions

WIDTH = 4  # bytes of the least type of numbers for which XLA has these


#: Those that take the columns of their last operand one by one.
BY_COLUMNS = ("solve", "solve_transposed", "solve_lower", "solve_upper")
#: Those that take one operand for a batch of others as it is.
BROADCASTING = ("count_below", "count_up_to")


def apply_definition(definition: Definition, arrays: Sequence[Any]) -> Any:
    """Apply an array-level function, such as `solve`, in single precision at least."""
    dtype = jnp.result_type(*arrays)
    wide = dtype if dtype.itemsize >= WIDTH else jnp.float32
    *rest, last = (x.astype(wide) for x in arrays)
    run = _differentiable_function(definition.name)
    more = [x.shape[: x.ndim - rank] for x, rank in zip(arrays, definition.ranks, strict=True)]
    if definition.name in BY_COLUMNS and more[-1] and not any(more[:-1]):
        rows, columns = last.shape[-2:]
        side = jnp.moveaxis(last, -2, 0).reshape(rows, -1)
        made = run(*rest, side).reshape(rows, *more[-1], columns)
        return jnp.moveaxis(made, 0, -2).astype(dtype)
    if definition.name in BROADCASTING:
        return run(*rest, last).astype(dtype)
    batch = max(more, key=len)
    whole = (
        x if has == batch else jnp.broadcast_to(x, batch + x.shape)
        for x, has in zip((*rest, last), more, strict=True)
    )
    return run(*whole).astype(dtype)


@cache
def _differentiable_function(name: str) -> Callable[..., Any]:
    """Return an array-level function for JAX, with the definition's derivative."""
    own = find_definition(name)
    if own.body is not None:
        return lambda *arrays: _evaluate_at(inline_body, own, arrays)

    def plain(*arrays: Any) -> Any:
        if own.reduction:
            return reduce_axes(own.reduction, arrays[0], tuple(range(-own.ranks[0], 0)))
        return FUNCTIONS[name](*arrays)

    made: Any = jax.custom_jvp(plain)

    def derivative(primals: Any, tangents: Any) -> tuple[Any, Any]:
        y = made(*primals)
        moved = [Var(f"d{k}", _array_type(x)) for k, x in enumerate(primals)]
        dy = _evaluate_at(
            lambda e: tangent_of_application(e, moved, Var("y", _array_type(y))),
            own,
            primals,
            {"y": y, **{x.name: dx for x, dx in zip(moved, tangents, strict=True)}},
        )
        return y, jnp.zeros_like(y) if dy is None else dy

    made.defjvp(derivative)
    return made  # type: ignore[no-any-return]


def _array_type(x: Any) -> Any:
    """Return the tensor type of an array."""
    return types.array(tuple(map(Affine.of, x.shape)))


def _evaluate_at(
    of: Callable[[Apply], Term | None],
    definition: Definition,
    arrays: Sequence[Any],
    others: Mapping[str, Any] = {},
) -> Any:
    """Evaluate a term that `of` makes of a definition, in dense arrays; None if there is no such term."""
    operands = tuple([Var(f"x{k}", _array_type(x)) for k, x in enumerate(arrays)])
    e = of(Apply(definition, operands))
    if e is None:
        return None
    values = {**{x.name: value for x, value in zip(operands, arrays, strict=True)}, **others}
    return Dense({}, {}, arrays[0].dtype).compute_block(normalize(e), values)
