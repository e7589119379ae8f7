"""Costs of loops that carry values: the statements of an iteration, counted over all iterations, the numbers that loops store
for their reverse, and the inputs and outputs of iterations, which the bound counts (docs/recurrences.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ..language.affine import Affine
from ..language.predicates import TRUE
from ..language.printer import show
from ..language.terms import Binders, Term, Var, entry, strip_entries
from ..language.types import Array
from ..ssa.program import (
    Constant,
    Input,
    Part,
    Program,
    Recurrence,
    Statement,
    flatten_output,
    rhs_to_term,
    statement_terms,
    type_of,
)
from .formula import Formula, count_formula

Sizes = Mapping[str, int]


def loop_interfaces(program: Program, sizes: Sizes) -> int:
    """Compute I(P): the number of values that enter and leave all loops and each of their iterations."""
    total = 0
    for statement in program.statements:
        loop = statement.rhs
        if isinstance(loop, Recurrence):
            carried = sum(_entry_count(gens, sizes) for gens in loop.carried)
            rows = sum(_entry_count(program[x].gens[1:], sizes) for x in loop.rows)
            wholes = sum(_entry_count(program[x].gens, sizes) for x in loop.wholes)
            iteration = 2 * carried + rows + wholes + loop_interfaces(loop.body, sizes)
            total += carried + wholes + max(0, loop.size.evaluate(sizes)) * iteration
    return total


def _entry_count(gens: Binders, sizes: Sizes) -> int:
    """Return how many entries an array over these binders has."""
    return prod(max(0, size.evaluate(sizes)) for _, size in gens)


def count_stored_values(program: Program) -> dict[str, Formula]:
    """Count the values that loops store from iteration to iteration, by the history's variable.

    If only the last entry of a history is read, only that entry is stored.
    """
    terms = [term for _, term in statement_terms(program)]
    ends = {s.name: s.rhs.gens for s in program.statements if isinstance(s.rhs, Part)}
    read: dict[str, set[Affine | None]] = {name: set() for name in ends}
    for term in terms:
        for name, place in _read_variables(term):
            if name in read:
                read[name].add(place)
    for name in flatten_output(program.output):
        if name in read:
            read[name].add(None)
    found = {}
    for name, gens in ends.items():
        last = {gens[0].size - 1}
        found[name] = count_formula(gens[1:] if read[name] <= last else gens, TRUE)
    return found


def _read_variables(e: Term) -> Iterator[tuple[str, Affine | None]]:
    """Yield the variables that a term reads, each with its first index; None if the full array is read."""
    root, places = strip_entries(e)
    if isinstance(root, Var):
        yield root.name, places[0] if places else None
        return
    for child in root.children:
        yield from _read_variables(child)


def name_histories(program: Program, name: str, loop: Recurrence) -> list[str]:
    """Name the histories of a loop."""
    names = [name] * len(loop.starts)
    for statement in program.statements:
        if isinstance(statement.rhs, Part) and statement.rhs.source == name:
            names[statement.rhs.place] = statement.name
    return names


def loop_header(
    loop: Recurrence, name: str, called: list[str], variables: Mapping[str, Term]
) -> str:
    """Summarize a loop: the initial values of its histories, and the statement of an iteration that computes the next of each."""
    first = [f"{x}[0] := {show(variables[s])}" for x, s in zip(called, loop.starts, strict=True)]
    made = [
        f"{x}[{loop.index}+1] := {name}.{y}"
        for x, y in zip(called, flatten_output(loop.body.output), strict=True)
    ]
    return f"iterate {loop.index}:{loop.size}. {', '.join((*first, *made))}"


def iteration_statements(
    loop: Recurrence,
    name: str,
    called: list[str],
    variables: Mapping[str, Term],
    terms_by_name: dict[str, Term],
) -> Iterator[tuple[str, Statement, Term]]:
    """Yield the statements of an iteration with their outer names, and with their terms at the loop's index.

    Args:
        terms_by_name: is filled with the names of the iteration's variables.
    """
    iteration = Affine.of(loop.index)
    inside: dict[str, Term] = {}
    for j, (x, gens) in enumerate(zip(called, loop.carried, strict=True)):
        element = type_of(Constant(gens, 0))
        inside[f"s{j}"] = entry(Var(x, Array(loop.size + 1, element)), iteration)
    inside |= {f"r{j}": entry(variables[x], iteration) for j, x in enumerate(loop.rows)}
    inside |= {f"c{j}": variables[x] for j, x in enumerate(loop.wholes)}
    for statement in loop.body.statements:
        rhs = statement.rhs
        if isinstance(rhs, Input):
            terms_by_name[statement.name] = inside[rhs.parameter]
            continue
        term = rhs_to_term(rhs, terms_by_name)
        outside = f"{name}.{statement.name}"
        terms_by_name[statement.name] = (
            term if isinstance(rhs, Constant) and not rhs.gens else Var(outside, type_of(rhs))
        )
        yield outside, statement, term
