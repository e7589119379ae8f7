"""What is the same in all iterations of a loop is computed once, before the loop.

The body of a loop then reads it as it reads other arrays. Before the loop it is computed on condition that there is an
iteration, so that no cost is raised. Loops and array-level functions have no condition, and stay in the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..language.predicates import compare, conj
from .builder import Builder
from .dead_code import drop_unused_statements, replace_body
from .program import (
    Application,
    Input,
    Part,
    Program,
    Recurrence,
    Rhs,
    Statement,
    is_picking,
    is_view,
    names_in_masks_and_indices,
    operands,
    pair_tree,
    rename,
    rename_output,
    type_of,
    with_masks,
)


def hoist_loop_invariants(program: Program, prefix: str = "X") -> Program:
    """Compute loop-invariant statements before their loops, those of inner loops first."""
    if not any(isinstance(s.rhs, Recurrence) for s in program.statements):
        return program
    builder, names = Builder(prefix=prefix), dict[str, str]()
    for s in program.statements:
        builder.origin = s.origin
        rhs = rename(s.rhs, names)
        if isinstance(rhs, Recurrence):
            loop = replace(rhs, body=hoist_loop_invariants(rhs.body, "B"))
            rhs = _hoist_from_body(loop, builder)
        builder.origin = s.origin
        names[s.name] = builder.add_statement(rhs)
    return builder.build_program(rename_output(program.output, names))


def _hoist_from_body(loop: Recurrence, builder: Builder) -> Recurrence:
    """Add a loop's invariants to the program around it, and return the loop that reads them."""
    statements, arguments = loop.body.statements, loop.arguments
    invariant = _find_invariants(loop)
    hoisted = {
        s.name: f"c{len(loop.wholes) + j}"
        for j, s in enumerate(statements)
        if s.name in invariant and _is_worth_storing(s.rhs)
    }
    reading = tuple([_read_instead(s, hoisted) for s in statements])
    body = drop_unused_statements(Program(reading, loop.body.output))
    read = [s.name for s in body.statements if s.name in hoisted]
    if not read:
        return loop
    runs, outside = compare("<", 0, loop.size), dict[str, str]()
    for s in drop_unused_statements(Program(statements, pair_tree(read))).statements:
        builder.origin = s.origin
        if isinstance(s.rhs, Input):
            outside[s.name] = arguments[s.rhs.parameter]
            continue
        rhs = rename(s.rhs, outside)
        if not is_view(rhs):
            rhs = with_masks(rhs, lambda p, _: conj(runs, p))
        outside[s.name] = builder.add_statement(rhs)
    return replace_body(loop, body, {**arguments, **{hoisted[x]: outside[x] for x in read}})


def _find_invariants(loop: Recurrence) -> frozenset[str]:
    """Find the variables of a loop's body that are the same in all iterations."""
    found = set[str]()
    for s in loop.body.statements:
        match s.rhs:
            case Input(parameter):
                is_same = parameter[0] == "c"
            case Recurrence() | Part() | Application():
                is_same = False
            case rhs:
                is_same = loop.index not in names_in_masks_and_indices(rhs)
        if is_same and found.issuperset(operands(s.rhs)):
            found.add(s.name)
    return frozenset(found)


def _is_worth_storing(rhs: Rhs) -> bool:
    """Whether it takes more than reading; of a read at a computed index, the kernel needs the condition beside the sum."""
    return not (isinstance(rhs, Input) or is_view(rhs) or is_picking(rhs))


def _read_instead(s: Statement, parameters: Mapping[str, str]) -> Statement:
    """Replace a statement by a read of a parameter, where it is one now."""
    if s.name not in parameters:
        return s
    return replace(s, rhs=Input(parameters[s.name], type_of(s.rhs), (), s.rhs.gens))
