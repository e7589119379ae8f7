"""Removes what a program computes and nobody reads: statements, and values that its loops carry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from .builder import merge_equal
from .program import (
    Input,
    Part,
    Program,
    Recurrence,
    Rhs,
    Statement,
    flatten_output,
    operands,
    pair_tree,
)


def remove_dead_code(program: Program) -> Program:
    """Drop statements that the output does not need, and carried values that neither later iterations nor later statements
    need.
    """
    program = drop_unused_statements(program)
    places = _find_read_parts(program)
    kept = {
        s.name: carried
        for s in program.statements
        if isinstance(s.rhs, Recurrence) and s.name in places
        if len(carried := _find_needed_values(s.rhs, places[s.name])) < len(s.rhs.starts)
    }
    if not kept:
        return program
    statements = tuple([replace(s, rhs=_shrink_loop(s, kept)) for s in program.statements])
    return drop_unused_statements(Program(statements, program.output))


def drop_unused_statements(program: Program) -> Program:
    """Drop the statements that the output does not need."""
    wanted = set(flatten_output(program.output))
    kept: list[Statement] = []
    for statement in reversed(program.statements):
        if statement.name in wanted:
            kept.append(statement)
            wanted.update(operands(statement.rhs))
    return Program(tuple(reversed(kept)), program.output)


def _find_read_parts(program: Program) -> dict[str, set[int]]:
    """Return, for each loop that is only read by parts, the positions that are read.

    Loops of which one recomputes the other keep all positions.
    """
    places = defaultdict[str, set[int]](set)
    whole = set(flatten_output(program.output))
    for s in program.statements:
        match s.rhs:
            case Part(source, place):
                places[source].add(place)
            case Recurrence(again=again):
                whole |= {*operands(s.rhs)} | (set() if again is None else {again, s.name})
            case _:
                whole |= {*operands(s.rhs)}
    return {x: found for x, found in places.items() if x not in whole}


def _find_needed_values(loop: Recurrence, places: set[int]) -> list[int]:
    """Return the positions of all values that a loop must carry in order to compute these, sorted."""
    outputs, read = flatten_output(loop.body.output), set[int]()
    while read != places:
        read = places
        body = drop_unused_statements(
            Program(loop.body.statements, pair_tree([outputs[j] for j in sorted(read)]))
        )
        places = read | {
            int(s.rhs.parameter[1:])
            for s in body.statements
            if isinstance(s.rhs, Input) and s.rhs.parameter[0] == "s"
        }
    return sorted(read)


def _shrink_loop(statement: Statement, kept: Mapping[str, list[int]]) -> Rhs:
    """Drop the values that a loop need not carry, or renumber a part of such a loop."""
    rhs = statement.rhs
    if isinstance(rhs, Part) and rhs.source in kept:
        left = kept[rhs.source]
        return replace(rhs, place=left.index(rhs.place), count=len(left))
    if not isinstance(rhs, Recurrence) or statement.name not in kept:
        return rhs
    left = kept[statement.name]
    outputs = flatten_output(rhs.body.output)
    body = drop_unused_statements(
        Program(rhs.body.statements, pair_tree([outputs[j] for j in left]))
    )
    places = {f"s{old}": f"s{new}" for new, old in enumerate(left)}
    renamed = tuple([replace(s, rhs=_rename_parameter(s.rhs, places)) for s in body.statements])
    starts = tuple([rhs.starts[j] for j in left])
    return replace_body(replace(rhs, starts=starts), Program(renamed, body.output), rhs.arguments)


def replace_body(rhs: Recurrence, body: Program, arguments: Mapping[str, str]) -> Recurrence:
    """Return the loop with another body. Its parameters are those of `arguments` that the body reads."""
    used = [s.rhs.parameter for s in body.statements if isinstance(s.rhs, Input)]
    kept = {letter: [x for x in arguments if x[0] == letter and x in used] for letter in "rc"}
    names = {x: f"{letter}{j}" for letter, group in kept.items() for j, x in enumerate(group)}
    statements = tuple([replace(s, rhs=_rename_parameter(s.rhs, names)) for s in body.statements])
    rows, wholes = (tuple([arguments[x] for x in kept[letter]]) for letter in "rc")
    body = merge_equal(Program(statements, body.output), "B")
    return replace(rhs, rows=rows, wholes=wholes, body=body)


def _rename_parameter(rhs: Rhs, names: Mapping[str, str]) -> Rhs:
    """Return an input with its parameter renamed; other right-hand sides unchanged."""
    if not isinstance(rhs, Input):
        return rhs
    return replace(rhs, parameter=names.get(rhs.parameter, rhs.parameter))
