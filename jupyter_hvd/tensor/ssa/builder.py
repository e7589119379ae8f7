"""Building Tensor SSA: statements hash-consed by their canonical form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ..language.affine import Affine
from ..language.predicates import TRUE, Predicate
from ..language.predicates import substitute as substitute_predicate
from ..language.provenance import NOWHERE, Origin
from ..language.terms import Binders, in_ranges, index_names, number_binders
from ..language.types import Type, dimensions, leaves
from .program import (
    Addition,
    Application,
    Constant,
    Contraction,
    Factor,
    Input,
    Map,
    Output,
    Part,
    Program,
    Recurrence,
    Rhs,
    Statement,
    pointwise,
    rename,
    rename_output,
)


def canonical_form(rhs: Rhs) -> Rhs:
    """Name the index variables g0, g1, … and s0, s1, … in order of occurrence, and sort addends and factors.

    Equal right-hand sides then are equal values.
    """
    if isinstance(rhs, Constant):
        gens_, renamed = _rename_binders("g", rhs.gens)
        value = rhs.value.substitute(renamed) if isinstance(rhs.value, Affine) else rhs.value
        return Constant(gens_, value)
    if isinstance(rhs, Recurrence):
        return rhs
    if isinstance(rhs, Input | Part | Application):
        return replace(rhs, gens=_rename_binders("g", rhs.gens)[0])
    if isinstance(rhs, Contraction):
        factors = tuple(sorted(rhs.factors, key=lambda f: _order_key(f.name)))
        order = {s: k for k, s in enumerate(_indices_by_occurrence(factors))}
        summed = sorted(rhs.sums, key=lambda b: order.get(b[0], len(order)))
        gens_, meant = _rename_binders("g", rhs.gens)
        sums_, also = _rename_binders("s", tuple(summed))
        meant |= also
        return Contraction(
            gens_,
            sums_,
            substitute_predicate(rhs.mask, meant),
            tuple(f.substitute(meant) for f in factors),
        )
    gens_, meant = _rename_binders("g", rhs.gens)
    if isinstance(rhs, Map):
        return replace(rhs, gens=gens_, mask=substitute_predicate(rhs.mask, meant))
    left = (_order_key(rhs.left), rhs.left, substitute_predicate(rhs.left_mask, meant))
    right = (_order_key(rhs.right), rhs.right, substitute_predicate(rhs.right_mask, meant))
    (_, x0, p0), (_, x1, p1) = (left, right) if left[0] <= right[0] else (right, left)
    return Addition(gens_, p0, x0, p1, x1)


def _order_key(name: str) -> tuple[int, str]:
    """Return the key by which variables are sorted: by number."""
    return len(name), name


def _indices_by_occurrence(factors: Iterable[Factor]) -> dict[str, None]:
    """Return the indices in factors, in order of occurrence."""
    return dict.fromkeys(n for f in factors for a in f.indices for n, _ in a.terms)


def _rename_binders(letter: str, binders: Binders) -> tuple[Binders, dict[str, Affine]]:
    """Return binders with numbered names, and the substitution."""
    renamed = number_binders(letter, in_ranges(binders))
    both = zip(index_names(binders), index_names(renamed), strict=True)
    return renamed, {old: Affine.of(new) for old, new in both if old != new}


@dataclass
class Builder:
    """Collects statements. Equal right-hand sides share one variable, with the origin of the first."""

    statements: list[Statement] = field(default_factory=list)
    defined: dict[str, Rhs] = field(default_factory=dict)
    found: dict[Rhs, str] = field(default_factory=dict)
    prefix: str = "X"
    origin: Origin = NOWHERE  # of the statements to come, as far as they do not say

    def add_statement(self, rhs: Rhs, rule: str = "", of: str = "") -> str:
        """Return the variable of a right-hand side; add a statement if there is no equal one."""
        rhs = canonical_form(rhs)
        name = self.found.get(rhs)
        if name is None:
            name = f"{self.prefix}{len(self.statements)}"
            self.found[rhs] = name
            self.defined[name] = rhs
            origin = replace(self.origin, rule=self.origin.rule or rule, of=of or self.origin.of)
            self.statements.append(Statement(name, rhs, origin))
        return name

    def add_view(
        self, name: str, gens_: Binders, mask: Predicate, rule: str = "", of: str = ""
    ) -> str:
        """Return a variable for `⊞g. [p]·X[g]`, or X itself where p is true."""
        if mask == TRUE:
            return name
        return self.add_statement(
            Contraction(gens_, (), mask, (Factor(name, pointwise(gens_)),)), rule, of
        )

    def build_program(self, output: Output) -> Program:
        """Return the program of all statements so far."""
        return Program(tuple(self.statements), output)


def merge_equal(program: Program, prefix: str = "X") -> Program:
    """Merge the variables of equal right-hand sides, and number the variables in order."""
    builder, names = Builder(prefix=prefix), dict[str, str]()
    for s in program.statements:
        builder.origin = s.origin
        names[s.name] = builder.add_statement(rename(s.rhs, names))
    return builder.build_program(rename_output(program.output, names))


def add_inputs(parameter: str, type_: Type, builder: Builder) -> dict[tuple[int, ...], str]:
    """Add a variable for each pair-free component of a parameter; return them by their path of projections."""
    found = {}
    for path, leaf in leaves(type_):
        dims = number_binders("g", dimensions(leaf))
        found[path] = builder.add_statement(Input(parameter, type_, path, dims))
    return found
