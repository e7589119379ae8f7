"""Statements of a loop that read nothing that it carries are computed before the loop.

What is the same in all iterations is computed once, on condition that there is an iteration, so that no cost is raised
(`hoist_loop_invariants`). What differs by iteration is computed for all of them at once, and an iteration reads its row: as many
operations, and fewer kernels in an iteration (`distribute_loops`). These rows are stored, so they are no larger than others that
the loop reads, or than values that a nonlinear loop stores for its reverse. Loops and array-level functions stay in the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..language.affine import Affine
from ..language.predicates import Predicate, compare, conj
from ..language.terms import Binders, in_ranges
from .builder import Builder
from .dead_code import drop_unused_statements, replace_body
from .parallel_loops import vectorize_statement
from .program import (
    Application,
    Input,
    Map,
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


def hoist_loop_invariants(program: Program) -> Program:
    """Compute statements that are the same in all iterations once, before the loop."""
    return _move_out(program, "c", _compute_once)


def distribute_loops(program: Program) -> Program:
    """Compute statements that read no carried value for all iterations at once, before the loop."""
    return _move_out(program, "r", vectorize_statement)


#: Makes a loop's statement one before the loop, given the variables there of what it reads.
Mover = Callable[[Rhs, Recurrence, dict[str, str]], Rhs]


def _compute_once(rhs: Rhs, loop: Recurrence, outside: dict[str, str]) -> Rhs:
    def while_running(p: Predicate, _: Binders) -> Predicate:
        return conj(compare("<", 0, loop.size), p)

    rhs = rename(rhs, outside)
    return rhs if is_view(rhs) else with_masks(rhs, while_running)


def _move_out(program: Program, letter: str, move: Mover, prefix: str = "X") -> Program:
    """Move statements out of loops, inner loops first; the loops read them as parameters of this letter, wholes or rows.

    Returns the program itself where there is nothing to move.
    """
    builder, names = Builder(prefix=prefix), dict[str, str]()
    is_changed = False
    for s in program.statements:
        builder.origin = s.origin
        rhs = rename(s.rhs, names)
        if isinstance(rhs, Recurrence):
            body = _move_out(rhs.body, letter, move, "B")
            loop = rhs if body is rhs.body else replace(rhs, body=body)
            made = _Loop(loop, letter).without_early_statements(builder, move)
            is_changed |= made is not rhs
            rhs = made
        builder.origin = s.origin
        names[s.name] = builder.add_statement(rhs)
    return builder.build_program(rename_output(program.output, names)) if is_changed else program


@dataclass(frozen=True)
class _Loop:
    """A loop, of which invariant statements (`c`) or those that differ by iteration (`r`) are moved out."""

    loop: Recurrence
    letter: str

    def without_early_statements(self, builder: Builder, move: Mover) -> Recurrence:
        """Add the statements to the program around the loop, and return the loop that reads them."""
        loop, statements = self.loop, self.loop.body.statements
        moved = {x: f"{self.letter}{len(statements) + j}" for j, x in enumerate(self._find_moved())}
        reading = tuple([_read_instead(s, moved) for s in statements])
        body = drop_unused_statements(Program(reading, loop.body.output))
        read = [s.name for s in body.statements if s.name in moved]
        if not read:
            return loop
        arguments, outside = loop.arguments, dict[str, str]()
        for s in drop_unused_statements(Program(statements, pair_tree(read))).statements:
            builder.origin = s.origin
            if isinstance(s.rhs, Input) and self.letter == "c":
                outside[s.name] = arguments[s.rhs.parameter]
            else:
                outside[s.name] = builder.add_statement(move(s.rhs, loop, outside))
        return replace_body(loop, body, {**arguments, **{moved[x]: outside[x] for x in read}})

    def _find_moved(self) -> list[str]:
        """Find the variables to move: those that depend on nothing that the loop carries, and are more than views.

        Of a read at a computed index, the kernel needs the condition beside the sum.
        """
        varies = self._find_early()
        found = [
            s
            for s in self.loop.body.statements
            if varies.get(s.name) is (self.letter == "r")
            if not (isinstance(s.rhs, Input) or is_view(s.rhs) or is_picking(s.rhs))
        ]
        if self.letter == "c":
            return [s.name for s in found]
        shapes = self._find_stored_shapes(varies)
        return [s.name for s in found if any(_shape_of(s.rhs) <= shape for shape in shapes)]

    def _find_early(self) -> dict[str, bool]:
        """Find the variables that depend on nothing that the loop carries, and whether they differ by iteration."""
        varies: dict[str, bool] = {}
        for s in self.loop.body.statements:
            match s.rhs:
                case Input(parameter):
                    if parameter[0] != "s":
                        varies[s.name] = parameter[0] == "r"
                case Recurrence() | Part() | Application():
                    pass
                case rhs if varies.keys() >= {*operands(rhs)}:
                    by_index = self.loop.index in names_in_masks_and_indices(rhs)
                    varies[s.name] = by_index or any(varies[x] for x in operands(rhs))
        return varies

    def _find_stored_shapes(self, early: Mapping[str, bool]) -> list[Counter[Affine]]:
        """Find the sizes of the rows that the loop reads, and of the values that its reverse needs of nonlinear functions."""
        shapes = [Counter[Affine]()]
        for s in self.loop.body.statements:
            is_row = isinstance(s.rhs, Input) and s.rhs.parameter[0] == "r"
            if is_row or (isinstance(s.rhs, Map) and s.name not in early):
                shapes.append(_shape_of(s.rhs))
        return shapes


def _shape_of(rhs: Rhs) -> Counter[Affine]:
    return Counter(in_ranges(rhs.gens))


def _read_instead(s: Statement, parameters: Mapping[str, str]) -> Statement:
    """Replace a statement by a read of a parameter, where it is one now."""
    if s.name not in parameters:
        return s
    return replace(s, rhs=Input(parameters[s.name], type_of(s.rhs), (), s.rhs.gens))
