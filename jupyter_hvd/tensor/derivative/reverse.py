"""The adjoint (reverse) derivative `Dᵀ⟦e|σ⟧` (Figs. 15 and 16, 6.20–6.49) on Tensor SSA.

The paper rewrites `⟨dY | D⟦e|σ⟧⟩` until every differential stands alone on the right. Here that
state is a table: for each variable X whose differential is still due, the inner products
`⟨e|D⟦X⟧⟩_[p]` that are left of it, as pairs `(e, p)`. The statements are taken from the last to
the first, so that (6.31) reverses each and (6.32), dropping what has no inner product, is an
empty entry. The result is purely functional: no scatter-add, no tape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..language.affine import Affine
from ..language.pairs import to_pairs
from ..language.predicates import TRUE, Predicate, conj, disj, exists_all, substitute
from ..language.provenance import NOWHERE, Origin
from ..language.terms import (
    Apply,
    Binders,
    Call,
    Const,
    Mul,
    Term,
    Var,
    in_ranges,
    index_values,
    indices_equal,
    number_binders,
)
from ..language.types import REAL, Product, Type, array
from ..polyhedral import sets
from ..ssa.builder import Builder, add_inputs
from ..ssa.convert import convert_block
from ..ssa.dead_code import drop_unused_statements
from ..ssa.normalize import normalize
from ..ssa.program import (
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
    flatten_output,
    is_picking,
    operands,
    pair_tree,
    pointwise,
    rename,
    substitute_indices,
    support,
    type_of,
)
from . import matrices

Inner = tuple[str, Predicate]
Checkpoint = bool | Literal["blocks"]

MANY = 16  # inner products with one variable that are added in halves


def adjoint(
    program: Program,
    wrt: Iterable[tuple[str, Type]],
    seed: tuple[str, Type] | None,
    *,
    keep: bool = False,
    has_aux: bool = False,
    checkpoint: Checkpoint = False,
) -> Program:
    """Return the program `Dᵀ⟦program|σ⟧`, with σ differentiating the parameters in `wrt`.

    The output is one cotangent per parameter, as nested pairs in order. Its `$IO` is at most 4 times the program's if
    primitives have at most two arguments (Theorem 6.55).

    Args:
        seed: name and type of the new parameter that holds the cotangent of the output; None for the constant 1,
            which makes the result the gradient of a scalar program.
        keep: return a pair of the program's own output and the cotangents.
        has_aux: the output is a pair whose second part is not differentiated; without `keep`, return a pair of
            the cotangents and that part.
        checkpoint: a loop stores what the reverse of its iterations needs. With True, it stores only what it carries, and
            computes each iteration again before it is reversed. With "blocks", it stores nothing, and a second
            loop, which stores what the reverse needs, can be run block by block (docs/recurrences.md).
    """
    wrt, program = tuple(wrt), matrices.expand_bodies(program)
    kept = [replace(s, origin=replace(s.origin, of="", source=s.name)) for s in program.statements]
    reverse = _Reverse(Builder(kept, {s.name: s.rhs for s in program.statements}))
    reverse.builder.found = {s.rhs: s.name for s in program.statements}
    reverse.builder.prefix = "T"
    reverse.checkpoint = checkpoint
    reverse.active = _active_variables(program, {name for name, _ in wrt})
    output: Output = program.output
    reverse.start_reverse(output[0] if has_aux else output, seed)
    for statement in reversed(program.statements):
        if statement.name not in reverse.active:
            continue
        if isinstance(statement.rhs, Recurrence):
            reverse.reverse_loop(statement, statement.rhs)
        elif reverse.due.get(statement.name):
            reverse.reverse_statement(statement)
    cotangents = pair_tree([reverse.parameter_cotangent(name, type_) for name, type_ in wrt])
    given: Output = cotangents
    if keep:
        given = output, cotangents
    elif has_aux:
        given = cotangents, output[1]
    made = reverse.builder.build_program(given)
    return _keep_values(made, reverse.iterations)


def _active_variables(program: Program, wrt: set[str]) -> set[str]:
    """Return the variables that depend on a differentiated parameter: σ, carried through the program (6.33, 6.34)."""
    active: set[str] = set()
    for s in program.statements:
        if isinstance(s.rhs, Input):
            if s.rhs.parameter in wrt:
                active.add(s.name)
        elif any(x in active for x in operands(s.rhs)):
            active.add(s.name)
    return active


@dataclass
class _Reverse:
    builder: Builder
    active: set[str] = field(default_factory=set)
    checkpoint: Checkpoint = False
    due: dict[str, list[Inner]] = field(default_factory=dict)
    found: dict[tuple[str, tuple[int, ...]], Inner] = field(default_factory=dict)
    histories: dict[str, dict[int, str]] = field(default_factory=dict)  # their cotangents
    iterations: dict[str, _Iteration] = field(default_factory=dict)  # of each loop, in reverse

    def start_reverse(self, output: Output, seed: tuple[str, Type] | None) -> None:
        """Give each component of the output its part of the cotangent `seed`, or 1 (6.26)."""
        if seed is None:
            assert isinstance(output, str)
            self._add_cotangent(output, self.builder.add_statement(Constant((), 1)), TRUE)
            return
        components = add_inputs(*seed, self.builder)
        for name, dy in zip(flatten_output(output), components.values(), strict=True):
            self._add_cotangent(name, dy, TRUE)

    def reverse_statement(self, statement: Statement) -> None:
        """Reverse one binding (6.31): from its cotangent, the inner products with its operands."""
        self.builder.origin = Origin(source=statement.name, place=statement.origin.place)
        dy, p = self._merge_cotangents(statement)
        match statement.rhs:
            case Input(parameter, _, path, _):  # (6.33)
                self.found[parameter, path] = dy, p
            case Addition(_, p0, x0, p1, x1):  # (6.44)
                self._add_cotangent(x0, dy, conj(p0, p))
                self._add_cotangent(x1, dy, conj(p1, p))
            case Map() as rhs:  # (6.47)
                self._reverse_map(rhs, dy, p)
            case Contraction() as rhs:  # (6.48), (6.49)
                self._reverse_contraction(rhs, dy, p)
            case Part(source, place, _, binders):
                dy = self.builder.add_view(dy, binders, p, "loop", statement.name)
                self.histories.setdefault(source, {})[place] = dy
            case Application(binders) as rhs:
                dy = self.builder.add_view(dy, binders, p, "definition", statement.name)
                self._reverse_application(statement.name, rhs, dy)

    def _reverse_application(self, name: str, rhs: Application, dy: str) -> None:
        """Add the cotangents of the operands of an array-level function."""
        variables = {x: Var(x, type_of(self.builder.defined[x])) for x in (*rhs.operands, name, dy)}
        applied = Apply(rhs.definition, tuple([variables[x] for x in rhs.operands]))
        for k, x in enumerate(rhs.operands):
            if x not in self.active:
                continue
            due = matrices.cotangent_of_operand(applied, k, variables[name], variables[dy])
            if due is not None:
                own = {x: x for x in variables}
                made = convert_block(normalize(due), own, self.builder)
                assert isinstance(made, str)
                self._add_cotangent(x, made, TRUE)

    def reverse_loop(self, statement: Statement, rhs: Recurrence) -> None:
        """Reverse a loop: iterate from the last to the first iteration, over stored values.

        An iteration takes the cotangents of the values that it returned to those of the values that it received, by the
        adjoint of
        the body, and adds the cotangents of the latter's other uses. It recomputes nothing: the loop stores what its reverse
        needs
        for each iteration. The cotangent of an array that every iteration reads is carried and added to; that of a row is a
        row of
        the reverse loop's history.
        """
        due = self.histories.get(statement.name)
        if not due:
            return
        self.builder.origin = Origin(source=statement.name, place=statement.origin.place)
        moved = {p: x for p, x in rhs.arguments.items() if p[0] == "s" or x in self.active}
        iteration, kept_by = _reverse_iteration(rhs, moved, self.checkpoint is True), statement.name
        if self.checkpoint == "blocks":
            kept_by = self._recompute_loop(statement.name, rhs, iteration)
        else:
            self.iterations[statement.name] = iteration
        iterations = _Iterations(self.builder, statement.name, kept_by, rhs, due, iteration)
        for parameter, cotangent in iterations.reverse_iterations().items():
            self._add_cotangent(moved[parameter], cotangent, TRUE)

    def _recompute_loop(self, name: str, rhs: Recurrence, iteration: _Iteration) -> str:
        """Add the loop a second time, storing the values that the reverse iterations need; return its variable."""
        zeros = [Constant(number_binders("g", in_ranges(b)), 0) for b in iteration.kept.values()]
        starts = (*rhs.starts, *(self.builder.add_statement(zero, "loop") for zero in zeros))
        again = replace(rhs, starts=starts, body=iteration.value, again=name)
        return self.builder.add_statement(again, "loop", name)

    def _add_cotangent(self, x: str, e: str, p: Predicate) -> None:
        """Add `⟨e|D⟦X⟧⟩_[p]`, unless D⟦X⟧ is zero (6.34–6.36)."""
        p = sets.simplify(p, self.builder.defined[x].gens)
        if x in self.active and p != disj():
            self.due.setdefault(x, []).append((e, p))

    def _merge_cotangents(self, statement: Statement) -> Inner:
        """Add the due cotangents of a variable (6.39): one after the other, or many in halves.

        `⟨e0|dX⟩_[p0] + ⟨e1|dX⟩_[p1] ⇝ let dY=[p0]e0+[p1]e1 in ⟨dY|dX⟩_[p0∨p1]`. Each `p0∨p1` is as long as all masks
        below it.
        """
        binders = statement.rhs.gens

        def merge_due(due: Sequence[Inner]) -> Inner:
            if len(due) == 1:
                return due[0]
            middle = len(due) // 2 if len(due) > MANY else len(due) - 1
            (e0, p0), (e1, p1) = merge_due(due[:middle]), merge_due(due[middle:])
            dy = self.builder.add_statement(
                Addition(binders, p0, e0, p1, e1), "6.39", statement.name
            )
            return dy, sets.simplify(disj(p0, p1), binders)

        return merge_due(self.due[statement.name])

    def _reverse_map(self, rhs: Map, dy: str, p: Predicate) -> None:
        """Add the cotangents of the arguments of a map (6.47).

        `let dX'=[p0∧p1]Dᵀf(X,dY) in ⟨dX'|D⟦X⟧⟩_[p0∧p1]` for each argument. The paper prints the rule for one argument,
        where `Dᵀf(X,dY) = f′(X)·dY`; of several, each gets a primitive of its own.
        """
        p = sets.simplify(conj(rhs.mask, p), rhs.gens)
        variables = tuple(Var(x, REAL) for x in rhs.arguments)
        partials = rhs.function.partials(variables)
        moved = [
            (k, x)
            for k, x in enumerate(rhs.arguments)
            if x in self.active and partials[k] is not None
        ]
        for k, x in moved:
            partial = partials[k]
            assert partial is not None
            if len(moved) > 1:
                name = self.builder.add_statement(
                    Map(rhs.gens, p, rhs.function.cotangent_function(k), (*rhs.arguments, dy)),
                    "6.47",
                    x,
                )
            else:
                slope = self._pointwise_variable(partial, rhs.gens, p, x)
                name = self._product_variable(slope, dy, rhs.gens, p, x)
            self._add_cotangent(x, name, p)

    def _pointwise_variable(self, e: Term, binders: Binders, p: Predicate, source: str) -> str:
        """Add `⊞g. [p]·e` for a scalar term over SSA variables, each read at g; return its variable."""
        match e:
            case Var(name):
                return name
            case Const(value):
                return self.builder.add_statement(Constant(binders, value), "6.47", source)
            case Mul(left, right):
                x0 = self._pointwise_variable(left, binders, p, source)
                return self._product_variable(
                    x0, self._pointwise_variable(right, binders, p, source), binders, p, source
                )
            case Call(function, arguments):
                names = tuple(self._pointwise_variable(x, binders, p, source) for x in arguments)
                return self.builder.add_statement(Map(binders, p, function, names), "6.47", source)
        raise TypeError(e)

    def _product_variable(
        self, x0: str, x1: str, binders: Binders, p: Predicate, source: str
    ) -> str:
        """Add the product of two variables entry by entry; return its variable."""
        here = pointwise(binders)
        product = Contraction(binders, (), p, (Factor(x0, here), Factor(x1, here)))
        return self.builder.add_statement(product, "6.47", source)

    def _reverse_contraction(self, rhs: Contraction, dy: str, p: Predicate) -> None:
        """Reverse a product (6.48); with one factor, (6.49).

            ⟨dY|D⟦⊞g Σ_{i0,i1,s}[p]X0[i0]X1[i1]⟧⟩_[p'] ⇝
                let dX0'=⊞i0 Σ_{g,i1,s}[p∧p']dY[g]X1[i1] in … ⟨dX0'|D⟦X0⟧⟩_[∃g,i1,s. p∧p'] + …

        An affine read `X0[a0]` is `X0[i0]` with `i0=a0` in the mask.
        """
        p = conj(rhs.mask, p)
        summed = (*rhs.gens, *rhs.sums)
        for k, factor in enumerate(rhs.factors):
            if factor.name not in self.active:
                continue
            i = number_binders("ι", in_ranges(self.builder.defined[factor.name].gens))
            mask = conj(p, indices_equal(i, factor.indices))
            others = tuple(f for j, f in enumerate(rhs.factors) if j != k)
            factors = (Factor(dy, pointwise(rhs.gens)), *others)
            rule = "6.48" if others else "6.49"
            name = self.builder.add_statement(
                Contraction(i, summed, mask, factors), rule, factor.name
            )
            there = index_values(i, pointwise(number_binders("g", in_ranges(i))))
            self._add_cotangent(factor.name, name, substitute(exists_all(summed, mask), there))

    def parameter_cotangent(self, parameter: str, type_: Type) -> Output:
        """Return the cotangent of a parameter: its components (6.27, 6.28), zero outside their predicates."""
        self.builder.origin = NOWHERE
        parts: dict[tuple[int, ...], str] = {}
        for path, x in add_inputs(parameter, type_, self.builder).items():
            binders = self.builder.defined[x].gens
            found = self.found.get((parameter, path))
            if found is None:
                parts[path] = self.builder.add_statement(Constant(binders, 0), "6.34", parameter)
            else:
                parts[path] = self.builder.add_view(found[0], binders, found[1], "6.33", parameter)
        return _cotangent_tree(parts, ())


@dataclass(frozen=True)
class _Iteration:
    """One reversed iteration of a loop: the adjoint of the body, and the body's values that it needs.

    `carried` has the dimensions of the carried cotangents, by the parameter of the body to which each belongs, and `kept`
    the
    stored variables of the body with their dimensions. In `adjoint`, the tuple `dy` holds the cotangents of the body's
    results,
    and the stored variables are the parameters `k0`, `k1`, …; `value` is the body that also returns them.
    """

    carried: Mapping[str, Binders]
    kept: Mapping[str, Binders]
    adjoint: Program
    value: Program


def _reverse_iteration(
    rhs: Recurrence, differentiated: Iterable[str], checkpoint: bool
) -> _Iteration:
    """Return the reverse of a loop's iteration, and what it needs to be stored.

    Args:
        differentiated: the inputs of an iteration whose cotangents are wanted.
    """
    body = rhs.body
    dims = {s.rhs.parameter: s.rhs.gens for s in body.statements if isinstance(s.rhs, Input)}
    dims |= {f"s{j}": binders for j, binders in enumerate(rhs.carried)}
    carried = {p: dims[p] for p in differentiated}
    wrt = [(p, array(in_ranges(binders))) for p, binders in carried.items()]
    result = to_pairs([array(in_ranges(binders)) for binders in rhs.carried], Product)
    pulled = adjoint(body, wrt, ("dy", result), checkpoint=checkpoint)
    own = {s.name for s in body.statements}
    kept = {} if checkpoint else _needed_values(pulled, own)
    value = drop_unused_statements(
        Program(pulled.statements, pair_tree([*flatten_output(body.output), *kept]))
    )
    given = {x: _input_variable(f"k{i}", kept[x]) for i, x in enumerate(kept)}
    statements = [replace(s, rhs=given.get(s.name, s.rhs)) for s in pulled.statements]
    return _Iteration(
        carried, kept, drop_unused_statements(Program(tuple(statements), pulled.output)), value
    )


def _needed_values(adjoint_body: Program, body_variables: set[str]) -> dict[str, Binders]:
    """Return the variables of a loop's body that its adjoint needs, except plain reads, with their dimensions."""
    values = set(body_variables)
    for (
        s
    ) in adjoint_body.statements:  # Of a loop in the body, what is kept for its reverse is a value.
        if isinstance(s.rhs, Part) and s.rhs.source in values:
            values.add(s.name)
    needed = set(flatten_output(adjoint_body.output))
    read = _find_reads(adjoint_body)
    kept: dict[str, Binders] = {}
    for s in reversed(adjoint_body.statements):
        if s.name not in needed:
            continue
        # Of places that pick entries the numbers are kept: what they pick has no adjoint, so that to compute it again is within
        # the bound.
        if s.name in values and not (_is_read(s.rhs) or is_picking(s.rhs) or s.name in read):
            kept[s.name] = s.rhs.gens
        else:
            needed |= {*operands(s.rhs)}
    return kept


def _find_reads(program: Program) -> frozenset[str]:
    """Find the variables that are put together from entries of inputs and constants, without any operation."""
    found = set[str]()
    for s in program.statements:
        match s.rhs:
            case Addition(gens, p, _, q, _):
                is_free = sets.is_impossible(gens, conj(p, q))
            case rhs:
                is_free = _is_read(rhs)
        if is_free and found.issuperset(operands(s.rhs)):
            found.add(s.name)
    return frozenset(found)


def _is_read(rhs: Rhs) -> bool:
    """Whether a variable is a constant, or read from others without any operation."""
    if isinstance(rhs, Contraction):
        return len(rhs.factors) == 1 and not rhs.sums
    return isinstance(rhs, Input | Constant)


@dataclass(frozen=True)
class _Iterations:
    """The reversed iterations of a loop: `due` are the cotangents of its histories, by position; the stored values are among
    the
    histories of the loop `kept_by`.
    """

    builder: Builder
    name: str
    kept_by: str
    rhs: Recurrence
    due: Mapping[int, str]
    iteration: _Iteration

    def reverse_iterations(self) -> dict[str, str]:
        """Return the cotangents of the values that enter the loop, by the parameters of its body."""
        outside: dict[str, str] = {}  # of each row of the reverse loop
        inside = Builder(prefix="B")
        cotangents = self._pull_back(inside, outside)
        starts = []
        for place, (p, binders) in enumerate(self.iteration.carried.items()):
            j = int(p[1:])
            begin = self.builder.add_statement(Constant(binders, 0), "loop")
            if p[0] == "c":
                before = inside.add_statement(_input_variable(f"s{place}", binders))
                cotangents[p] = _add_cotangents(inside, binders, cotangents[p], before, p)
            elif p[0] == "s" and j in self.due:
                begin = self._read_at(self.due[j], self.rhs.size)
                outside[row := f"r{len(outside)}"] = self._read_backwards(self.due[j], 0)
                there = inside.add_statement(_input_variable(row, binders))
                cotangents[p] = _add_cotangents(inside, binders, cotangents[p], there, p)
            starts.append(begin)
        body = inside.build_program(pair_tree(list(cotangents.values())))
        size, rows = self.rhs.size, tuple(outside.values())
        made = Recurrence(self.rhs.index, size, tuple(starts), rows, self.rhs.wholes, body)
        source = self.builder.add_statement(made, "loop", self.name)
        found = {}
        for place, (p, binders) in enumerate(self.iteration.carried.items()):
            gens = number_binders("g", (size + 1, *in_ranges(binders)))
            history = self.builder.add_statement(
                Part(source, place, len(starts), gens), "loop", self.name
            )
            found[p] = (
                self._read_backwards(history, 1) if p[0] == "r" else self._read_at(history, size)
            )
        return found

    def _pull_back(self, inside: Builder, outside: dict[str, str]) -> dict[str, str]:
        """Add the adjoint of the body to the reverse loop's; return the cotangents that an iteration makes."""
        back = self.rhs.size - 1 - Affine.of(self.rhs.index)
        found: dict[str, str] = {}
        rows: dict[str, str] = {}  # the row for each parameter
        for s in substitute_indices(self.iteration.adjoint, {self.rhs.index: back}).statements:
            made = rename(s.rhs, found)
            if isinstance(made, Input):
                p = made.parameter
                if p == "dy":
                    p = f"s{sum(made.path)}"
                elif p[0] != "c":
                    rows.setdefault(p, f"r{len(outside)}")
                    outside.setdefault(rows[p], self._read_stored_values(p))
                    p = rows[p]
                made = Input(p, type_of(made), (), made.gens)
            inside.origin = s.origin
            found[s.name] = inside.add_statement(made)
        pulled = [found[x] for x in flatten_output(self.iteration.adjoint.output)]
        return dict(zip(self.iteration.carried, pulled, strict=True))

    def _read_stored_values(self, parameter: str) -> str:
        """Read the stored values of a parameter in all iterations, the last first."""
        j = int(parameter[1:])
        if parameter[0] == "r":
            return self._read_backwards(self.rhs.rows[j], 0)
        if parameter[0] == "s":
            return self._read_backwards(self._history_of(j, self.rhs.carried[j]), 0)
        binders = [*self.iteration.kept.values()][j]
        return self._read_backwards(self._history_of(len(self.rhs.starts) + j, binders), 1)

    def _history_of(self, index: int, binders: Binders) -> str:
        """Add a view of the loop's history at a position; return its variable."""
        count = len(self.rhs.starts) + len(self.iteration.kept)
        gens = number_binders("g", (self.rhs.size + 1, *in_ranges(binders)))
        return self.builder.add_statement(Part(self.kept_by, index, count, gens), "loop")

    def _read_at(self, name: str, iteration: Affine) -> str:
        """Add `⊞g. X[iteration, g]`; return its variable."""
        binders = number_binders("g", in_ranges(self.builder.defined[name].gens)[1:])
        read = Factor(name, (iteration, *pointwise(binders)))
        return self.builder.add_statement(
            Contraction(binders, (), TRUE, (read,)), "loop", self.name
        )

    def _read_backwards(self, name: str, later: int) -> str:
        """Add `⊞k:n, g. X[n-1-k+later, g]`; return its variable."""
        sizes = in_ranges(self.builder.defined[name].gens)[1:]
        binders = number_binders("g", (self.rhs.size, *sizes))
        iteration, *rest = pointwise(binders)
        read = Factor(name, (self.rhs.size - 1 - iteration + later, *rest))
        return self.builder.add_statement(
            Contraction(binders, (), TRUE, (read,)), "loop", self.name
        )


def _add_cotangents(builder: Builder, binders: Binders, x: str, other: str, source: str) -> str:
    """Add two cotangents, of which the first is zero outside its support; return the variable."""
    p = sets.simplify(support(builder.defined[x]), binders)
    return builder.add_statement(Addition(binders, p, x, TRUE, other), "6.39", source)


def _keep_values(program: Program, reversed_iterations: Mapping[str, _Iteration]) -> Program:
    """Let the loops of a program store the values that their reversed iterations need."""
    if not reversed_iterations:
        return program
    statements: list[Statement] = []
    for s in program.statements:
        if isinstance(s.rhs, Recurrence) and s.name in reversed_iterations:
            iteration, zeros = reversed_iterations[s.name], list[str]()
            for binders in iteration.kept.values():
                zeros.append(f"{s.name}·{len(zeros)}")
                begin = Constant(number_binders("g", in_ranges(binders)), 0)
                statements.append(Statement(zeros[-1], begin, s.origin))
            s = replace(s, rhs=replace(s.rhs, starts=(*s.rhs.starts, *zeros), body=iteration.value))
        elif isinstance(s.rhs, Part) and s.rhs.source in reversed_iterations:
            loop = program[s.rhs.source]
            assert isinstance(loop, Recurrence)
            count = len(loop.starts) + len(reversed_iterations[s.rhs.source].kept)
            s = replace(s, rhs=replace(s.rhs, count=count))
        statements.append(s)
    return Program(tuple(statements), program.output)


def _input_variable(parameter: str, binders: Binders) -> Input:
    """Return the input for a parameter with these dimensions."""
    return Input(parameter, array(in_ranges(binders)), (), number_binders("g", in_ranges(binders)))


def _cotangent_tree(parts: dict[tuple[int, ...], str], path: tuple[int, ...]) -> Output:
    """Nest the components of a cotangent as pairs, by their paths."""
    if path in parts:
        return parts[path]
    return _cotangent_tree(parts, (*path, 0)), _cotangent_tree(parts, (*path, 1))
