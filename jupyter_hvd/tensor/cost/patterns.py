"""The sparsity pattern of a Jacobian as a formula, and the number of its entries as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import prod
from typing import Any

import numpy as np

from ...svg import CELLS, draw_pattern
from ..derivative.tangents import Linearization, tangent_addends
from ..language.affine import Affine
from ..language.depth import deep_recursion
from ..language.predicates import (
    FALSE,
    TRUE,
    Compare,
    Predicate,
    compare,
    conj,
    conjuncts,
    disj,
    exists_all,
    substitute,
)
from ..language.printer import show
from ..language.terms import Binder, Binders, in_ranges, index_names, number_binders
from ..polyhedral import sets
from ..reference.evaluate import Environment
from ..ssa.program import pointwise
from .counting import RelationData, point_tables, sort_unique
from .formula import Formula, Polynomial, count_formula

LARGER = 8  # times as large sizes at which a pattern without structure is full, too
#: Sizes of a picture, in the order in which the formula names them: the first that need no more than its cells.
DRAWN = ((12, 9, 7, 5), (7, 6, 5, 4), (4, 3, 3, 3))


@dataclass(frozen=True)
class Sparsity:
    """The condition under which an entry of a Jacobian may be nonzero.

    `rows` are the indices of the result, `columns` those of the parameter. `reason` says why the pattern is full, if that is
    for lack of structure.
    """

    rows: Binders
    columns: Binders
    condition: Predicate
    reason: str = ""

    @cached_property
    def count(self) -> Formula:
        """The number of entries in the sizes, each at least 1; counts that depend on data stay `#{…}`."""
        return _merge_regions(count_formula((*self.rows, *self.columns), self.condition))

    def __str__(self) -> str:
        box = ", ".join(f"{index}:{size}" for index, size in (*self.rows, *self.columns))
        row, column = (", ".join(index_names(b)) for b in (self.rows, self.columns))
        where = "everywhere" if self.condition == TRUE else f"where {show(self.condition)}"
        said = f"; {self.reason}" if self.reason else ""
        return f"({row}; {column}) in {box or 'one entry'} {where}{said}\nentries: {self.count}"

    def _repr_html_(self) -> str:
        """Return the formula for IPython, with a picture at small sizes unless data decide."""
        text = f"<pre>{escape(str(self))}</pre>"
        if self.condition.relations:
            return text
        names = dict.fromkeys(
            x for n in in_ranges((*self.rows, *self.columns)) for x in sorted(n.names)
        )
        names |= dict.fromkeys(
            sorted(self.condition.names - {*index_names((*self.rows, *self.columns))})
        )
        for drawn in DRAWN:
            sizes = {x: drawn[min(k, len(drawn) - 1)] for k, x in enumerate(names)}
            shape = box_count(self.rows, sizes), box_count(self.columns, sizes)
            if max(shape) <= CELLS:
                break
        rows, columns = np.divmod(entry_keys(self, sizes, {}), max(1, shape[1]))
        at = ", ".join(f"{x} = {n}" for x, n in sizes.items())
        return text + draw_pattern(rows, columns, shape, f"at {at}" if at else "")


def entry_keys(
    sparsity: Sparsity, sizes: Mapping[str, int], data: Mapping[str, RelationData]
) -> Any:
    """Return the positions of the entries in the matrix, in row-major order."""
    values = {x: Affine.of(n) for x, n in sizes.items()}
    binders = tuple(
        Binder(i, Affine.of(max(0, n.evaluate(sizes))))
        for i, n in (*sparsity.rows, *sparsity.columns)
    )
    box, names = tuple(n.evaluate({}) for n in in_ranges(binders)), index_names(binders)
    blocks = []
    for rows, columns in point_tables(binders, substitute(sparsity.condition, values), data):
        key = np.zeros(rows, np.int64)
        for index, extent in zip(names, box, strict=True):
            key = key * extent + columns[index]
        blocks.append(key)
    return sort_unique(np.concatenate(blocks)) if blocks else np.zeros(0, np.int64)


@deep_recursion()
def jacobian_sparsity(linear: Linearization) -> Sparsity:
    """Derive the pattern of a function's Jacobian by one parameter; exact up to cancellation and accidental zeros."""
    rows, columns = number_binders("i", linear.result), number_binders("j", linear.argument)
    if not linear.has_addends:
        return Sparsity(rows, columns, TRUE, "a loop or a decomposition depends on it")
    known = frozenset(linear.tangents)
    found: dict[str, Predicate] = {}
    own = number_binders("h", linear.argument)
    for x in linear.tangents:
        rhs = linear.statements[x]
        if x == linear.seed:
            here = zip(pointwise(rhs.gens), pointwise(own), strict=True)
            found[x] = conj(*(compare("=", a, b) for a, b in here))
            continue
        cases = []
        for part in tangent_addends(rhs, known) or ():
            source = linear.statements[part.tangent].gens
            at = dict(zip(index_names(source), part.indices, strict=True))
            reached = conj(part.mask, substitute(found[part.tangent], at))
            cases.append(exists_all(part.sums, reached))
        found[x] = sets.simplify(disj(*cases), (*rhs.gens, *own))
    output = linear.program.output
    assert isinstance(output, str)
    p = found.get(output, FALSE)
    gens = linear.statements[output].gens
    meant = dict(zip(index_names((*gens, *own)), pointwise((*rows, *columns)), strict=True))
    return Sparsity(rows, columns, sets.simplify(substitute(p, meant), (*rows, *columns)))


def entry_count(sparsity: Sparsity, sizes: Mapping[str, int]) -> int | None:
    """Return the number of entries at given sizes; None where it depends on data or is not a polynomial."""
    if sparsity.count.counts:
        return None
    if any(n.evaluate(sizes) < 1 for _, n in (*sparsity.rows, *sparsity.columns)):
        return 0
    return sparsity.count.evaluate(Environment(integers=dict(sizes)))


def explain_unstructured(sparsity: Sparsity, sizes: Mapping[str, int]) -> str:
    """Return why there is no structure to exploit, or "".

    A pattern that is full only at small sizes has structure.
    """
    if sparsity.reason:
        return sparsity.reason
    for at in (sizes, {x: LARGER * n for x, n in sizes.items()}):
        every = box_count(sparsity.rows, at) * box_count(sparsity.columns, at)
        if not (sparsity.rows and sparsity.columns and every) or entry_count(sparsity, at) != every:
            return ""
    return "every entry may be other than zero"


def box_count(binders: Binders, sizes: Mapping[str, int]) -> int:
    """Return the number of index tuples in the ranges of some binders."""
    return prod(max(0, n.evaluate(sizes)) for n in in_ranges(binders))


def _merge_regions(formula: Formula) -> Formula:
    """Drop regions on which another region's polynomial holds as well: `n**2 if n == 1 else 2*n - 1` becomes `2*n - 1`."""
    pieces = [*formula.pieces]
    for piece in formula.pieces:
        at = dict(_fixed_sizes(piece[0]))
        others = [
            p
            for p in pieces
            if p is not piece and _substitute_sizes(p[1], at) == _substitute_sizes(piece[1], at)
        ]
        if at and others:
            chosen = min(others, key=lambda p: len([*_fixed_sizes(p[0])]))
            region = sets.simplify_under(disj(chosen[0], piece[0]), TRUE)
            pieces[pieces.index(chosen)] = region, chosen[1]
            pieces.remove(piece)
    return Formula(tuple(pieces), formula.counts)


def _fixed_sizes(region: Predicate) -> Iterator[tuple[str, int]]:
    """Yield the sizes whose value a region fixes, with that value."""
    for q in conjuncts(region):
        if isinstance(q, Compare) and q.op == "=":
            for a, b in ((q.left, q.right), (q.right, q.left)):
                if a.name and b.is_constant:
                    yield a.name, b.constant


def _substitute_sizes(polynomial: Polynomial, values: Mapping[str, int]) -> Polynomial:
    """Replace names in a polynomial by numbers."""
    for name, value in values.items():
        polynomial = polynomial.substitute(name, Polynomial.of(value))
    return polynomial
