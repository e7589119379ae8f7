"""The cost of a program and of each statement of its Tensor SSA, as formulas in the sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ..language.errors import Place
from ..language.predicates import TRUE, Predicate, disj
from ..language.printer import show
from ..language.provenance import Origin
from ..language.terms import (
    Binder,
    Binders,
    Const,
    Gen,
    Guard,
    Lambda,
    Sum,
    Term,
    Var,
    gens,
    strip_gens,
)
from ..ssa.program import (
    Addition,
    Constant,
    Contraction,
    Input,
    Map,
    Program,
    Recurrence,
    Rhs,
    Statement,
    rhs_to_term,
    support,
    type_of,
)
from .formula import (
    Formula,
    Polynomial,
    cost_formula,
    cost_formulas,
    count_formula,
)
from .loops import Sizes as Sizes
from .loops import (
    count_stored_values,
    iteration_statements,
    loop_header,
    loop_interfaces,
    name_histories,
)
from .model import interface_size


class Spelling(NamedTuple):
    """A statement in einsum's index notation: `X3[i, j]`, `Σ k: A[i, k]·B[k, j]`, ` where k < i`."""

    target: str
    expression: str
    condition: str = ""


@dataclass(frozen=True)
class Line:
    """One SSA statement: its cost and the points of its predicate, as `f.profile` counts them."""

    name: str
    spelling: Spelling
    origin: Origin
    rhs: Rhs
    costs: Mapping[str, Formula]
    points: Formula
    entries: Formula
    iterations: tuple[Line, ...] = ()  # of a loop, the statements of an iteration, over all of them

    @property
    def source_lines(self) -> tuple[tuple[Place, Mapping[str, Formula]], ...]:
        """The user's source lines for this statement, with the cost of each; for a loop, those of its body."""
        spent = ((line.origin.place, line.costs) for line in self.iterations or (self,))
        return tuple((place, costs) for place, costs in spent if place is not None)

    @property
    def is_input(self) -> bool:
        """Whether the statement only names an input."""
        return isinstance(self.rhs, Input)


@dataclass(frozen=True, eq=False)
class ProgramCosts:
    """The cost of a program as in the source, and the cost of each statement of its Tensor SSA."""

    function: Lambda
    ssa: Program

    @cached_property
    def total(self) -> Formula:
        """The formula for all operations of the program."""
        return cost_formula(self.function)

    @cached_property
    def kinds(self) -> dict[str, Formula]:
        """The formulas for additions, multiplications and calls."""
        return cost_formulas(self.function.body)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The statements, each with its text and costs."""
        variables: dict[str, Term] = {}
        made = []
        for statement in self.ssa.statements:
            term = rhs_to_term(statement.rhs, variables)
            made.append(self._statement_line(statement, term, variables))
            # Inputs and numbers read better as they are than by the variable's name.
            plain = isinstance(statement.rhs, Input | Constant) and not isinstance(term, Gen)
            variables[statement.name] = (
                term if plain else Var(statement.name, type_of(statement.rhs))
            )
        return tuple(made)

    def _statement_line(
        self, statement: Statement, term: Term, variables: Mapping[str, Term]
    ) -> Line:
        """Return a statement with its costs; a loop with the statements of an iteration."""
        line, rhs = _statement_line(statement, term), statement.rhs
        if isinstance(rhs, Recurrence):
            called = name_histories(self.ssa, statement.name, rhs)
            iterations = tuple(
                _cost_loop_body(statement.name, rhs, called, variables, (), statement.origin)
            )
            short = loop_header(rhs, statement.name, called, variables)
            spelling = Spelling(statement.name, short)
            return replace(line, spelling=spelling, entries=NOTHING, iterations=iterations)
        return replace(line, entries=self.histories.get(statement.name, line.entries))

    @cached_property
    def histories(self) -> Mapping[str, Formula]:
        """The number of values that loops store from iteration to iteration, by variable."""
        return count_stored_values(self.ssa)

    def io_count(self, sizes: Sizes) -> int:
        """Return how many reals the program receives and returns: `$(inputs) + $(output)` (6.53)."""
        return interface_size(self.function, sizes)

    def loop_interfaces(self, sizes: Sizes) -> int:
        """Return how many values enter and leave all iterations of loops; 0 without loops."""
        return loop_interfaces(self.ssa, sizes)


NOTHING = Formula(((TRUE, Polynomial()),))


def _cost_loop_body(
    name: str,
    loop: Recurrence,
    called: list[str],
    variables: Mapping[str, Term],
    outer: Binders,
    origin: Origin,
) -> Iterator[Line]:
    """Yield a line for each statement of a loop's body, with its operation count summed over all iterations.

    The line of a nested loop has cost 0; the lines of its body follow it.

    Args:
        name: the loop's variable. called: names of the histories of its carried values.
        outer: the indices of the enclosing loops.
    """
    outer = (*outer, Binder(loop.index, loop.size))
    inside: dict[str, Term] = {}
    for outside, statement, term in iteration_statements(loop, name, called, variables, inside):
        rhs = statement.rhs
        binders, p = points_of(rhs)
        source = f"{origin.source}.{statement.origin.source}" if statement.origin.source else ""
        line = replace(
            _statement_line(
                statement, gens(outer, term) if not isinstance(rhs, Recurrence) else Const(0)
            ),
            name=outside,
            spelling=spelling_of(outside, term),
            origin=replace(statement.origin, source=source),
            points=count_formula((*outer, *binders), p),
            entries=NOTHING,
        )
        if isinstance(rhs, Recurrence):
            within = name_histories(loop.body, statement.name, rhs)
            within = [f"{name}.{x}" for x in within]
            short = loop_header(rhs, outside, within, inside)
            yield replace(line, spelling=Spelling(outside, short))
            yield from _cost_loop_body(outside, rhs, within, dict(inside), outer, line.origin)
        else:
            yield line


def _statement_line(statement: Statement, term: Term) -> Line:
    """Return a statement that is no loop with its costs."""
    rhs = statement.rhs
    binders, p = points_of(rhs)
    return Line(
        statement.name,
        spelling_of(statement.name, term),
        statement.origin,
        rhs,
        cost_formulas(term),
        count_formula(binders, p),
        count_formula(rhs.gens, support(rhs)),
    )


def spelling_of(name: str, term: Term) -> Spelling:
    """Print a statement's right-hand side in index notation: one entry of its result, not the full array."""
    binders, body = strip_gens(term)
    target = f"{name}[{', '.join(index for index, _ in binders)}]" if binders else name
    summed: list[str] = []
    while isinstance(body, Sum):
        summed.append(body.index)
        body = body.body
    condition = ""
    if isinstance(body, Guard):
        condition, body = f" where {show(body.condition)}", body.body
    total = f"Σ {', '.join(summed)}: " if summed else ""
    return Spelling(target, total + show(body), condition)


def points_of(rhs: Rhs) -> tuple[Binders, Predicate]:
    """Return the binders and condition of the points that a statement visits."""
    match rhs:
        case Addition():
            return rhs.gens, disj(rhs.left_mask, rhs.right_mask)
        case Map():
            return rhs.gens, rhs.mask
        case Contraction():
            return (*rhs.gens, *rhs.sums), rhs.mask
    return rhs.gens, TRUE
