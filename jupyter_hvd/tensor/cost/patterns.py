"""The sparsity pattern of a Jacobian as a formula, and the number of its entries as one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..derivative.tangents import Linearization, addends
from ..language.affine import Affine
from ..language.depth import deep
from ..language.predicates import (
    FALSE,
    TRUE,
    Predicate,
    compare,
    conj,
    disj,
    exists_all,
    substitute,
)
from ..language.printer import show
from ..language.terms import Binders, index_names, numbered
from ..polyhedral import sets
from ..ssa.program import pointwise
from .formula import Formula, count_formula


@dataclass(frozen=True)
class Sparsity:
    """Where a Jacobian may be other than zero: at row `rows`, indices of the result, and column `columns`, indices of
    the parameter, where `condition` holds. `reason` says why that is everywhere, where it is for want of structure.
    """

    rows: Binders
    columns: Binders
    condition: Predicate
    reason: str = ""

    @cached_property
    def count(self) -> Formula:
        """The number of entries in the sizes, each at least 1; what data decide stays a count, `#{…}`."""
        return count_formula((*self.rows, *self.columns), self.condition)

    def __str__(self) -> str:
        box = ", ".join(f"{index}:{size}" for index, size in (*self.rows, *self.columns))
        row, column = (", ".join(index_names(b)) for b in (self.rows, self.columns))
        where = "everywhere" if self.condition == TRUE else f"where {show(self.condition)}"
        said = f"; {self.reason}" if self.reason else ""
        return f"({row}; {column}) in {box or 'one entry'} {where}{said}\nentries: {self.count}"


@deep()
def sparsity(linear: Linearization) -> Sparsity:
    """The pattern of a function's Jacobian by one parameter, exact up to what cancels or is zero by its values."""
    rows, columns = numbered("i", linear.result), numbered("j", linear.argument)
    if not linear.has_addends:
        return Sparsity(rows, columns, TRUE, "a loop carries it, of which nothing is known")
    known = frozenset(linear.tangents)
    found: dict[str, Predicate] = {}
    own = numbered("h", linear.argument)
    for x in linear.tangents:
        rhs = linear.program[x]
        if x == linear.seed:
            here = zip(pointwise(rhs.gens), pointwise(own), strict=True)
            found[x] = conj(*(compare("=", a, b) for a, b in here))
            continue
        cases = []
        for part in addends(rhs, known) or ():
            source = linear.program[part.tangent].gens
            at = dict(zip(index_names(source), part.indices, strict=True))
            reached = conj(part.mask, substitute(found[part.tangent], at))
            cases.append(exists_all(part.sums, reached))
        found[x] = sets.simplify(disj(*cases), (*rhs.gens, *own))
    output = linear.program.output
    assert isinstance(output, str)
    p = found.get(output, FALSE)
    gens = linear.program[output].gens
    meant = dict(zip(index_names((*gens, *own)), pointwise((*rows, *columns)), strict=True))
    condition = sets.simplify(substitute(p, meant), (*rows, *columns))
    full = "no structure: computed densely" if condition == TRUE and rows and columns else ""
    return Sparsity(rows, columns, condition, full)


def entry_count(found: Sparsity, sizes: dict[str, int]) -> int | None:
    """The number of entries at given sizes; None where data decide, or it is no polynomial."""
    if found.count.counts or any(n.evaluate(sizes) < 1 for _, n in (*found.rows, *found.columns)):
        return None
    return found.count.evaluate(**sizes)


def box_count(binders: Binders, sizes: dict[str, int]) -> int:
    """The number of index tuples that the ranges of some binders have."""
    total = 1
    for _, n in binders:
        total *= max(0, Affine.of(n).evaluate(sizes))
    return total
