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

from ..language.affine import Affine
from ..language.pairs import to_pairs
from ..language.predicates import TRUE, Predicate, conj, disj, exists_all, substitute
from ..language.provenance import NOWHERE, Origin
from ..language.terms import (
    Binders,
    Call,
    Const,
    Mul,
    Term,
    Var,
    equal,
    index_names,
    numbered,
    ranges,
)
from ..language.types import REAL, Product, Type, array
from ..polyhedral import sets
from ..ssa.builder import Builder, inputs
from ..ssa.program import (
    Addition,
    Constant,
    Contraction,
    Factor,
    Input,
    Map,
    Output,
    Part,
    Program,
    Recurrence,
    Statement,
    flat,
    operands,
    pointwise,
    rename,
    substituted,
    support,
    tree,
    type_of,
)
from ..ssa.simplify import live

Inner = tuple[str, Predicate]

MANY = 16  # inner products with one variable that are added in halves


def adjoint(
    program: Program,
    wrt: Iterable[tuple[str, Type]],
    seed: tuple[str, Type] | None,
    *,
    keep: bool = False,
) -> Program:
    """`Dᵀ⟦program|σ⟧` with σ differentiating the parameters in `wrt`.

    `seed` names and types the new parameter that holds the cotangent of the output; None takes 1
    for it, which makes the result the gradient of a scalar program. The output is one cotangent
    a parameter, nested pairs in order; with `keep`, a pair of the program's own output and
    those. Its `$IO` is at most 4 times the program's where black boxes have one argument or two
    (Theorem 6.55).
    """
    wrt = tuple(wrt)
    kept = [replace(s, origin=replace(s.origin, of="", source=s.name)) for s in program.statements]
    reverse = _Reverse(Builder(kept, {s.name: s.rhs for s in program.statements}))
    reverse.builder.found = {s.rhs: s.name for s in program.statements}
    reverse.builder.prefix = "T"
    reverse.active = _active(program, {name for name, _ in wrt})
    reverse.start(program.output, seed)
    for statement in reversed(program.statements):
        if statement.name not in reverse.active:
            continue
        if isinstance(statement.rhs, Recurrence):
            reverse.loop(statement, statement.rhs)
        elif reverse.due.get(statement.name):
            reverse.step(statement)
    cotangents = _nest([reverse.result(name, type_) for name, type_ in wrt])
    return reverse.builder.program((program.output, cotangents) if keep else cotangents)


def _active(program: Program, wrt: set[str]) -> set[str]:
    """The variables that depend on a differentiated parameter: σ, carried through the program
    (6.33, 6.34).
    """
    active: set[str] = set()
    for s in program.statements:
        if isinstance(s.rhs, Input):
            if s.rhs.parameter in wrt:
                active.add(s.name)
        elif any(x in active for x in operands(s.rhs)):
            active.add(s.name)
    return active


def _nest(parts: list[Output]) -> Output:
    return parts[0] if len(parts) == 1 else (parts[0], _nest(parts[1:]))


@dataclass
class _Reverse:
    builder: Builder
    active: set[str] = field(default_factory=set)
    due: dict[str, list[Inner]] = field(default_factory=dict)
    found: dict[tuple[str, tuple[int, ...]], Inner] = field(default_factory=dict)
    histories: dict[str, dict[int, str]] = field(default_factory=dict)  # their cotangents

    def start(self, output: Output, seed: tuple[str, Type] | None) -> None:
        """`⟨dY|D⟦(e0, e1)⟧⟩ ⇝ ⟨π0 dY|D⟦e0⟧⟩ + ⟨π1 dY|D⟦e1⟧⟩` (6.26)."""
        if seed is None:
            assert isinstance(output, str)
            self._owe(output, self.builder.add(Constant((), 1)), TRUE)
            return
        components = inputs(*seed, self.builder)
        for name, dy in zip(flat(output), components.values(), strict=True):
            self._owe(name, dy, TRUE)

    def step(self, statement: Statement) -> None:
        """Reverse one binding (6.31): from its cotangent, the inner products with its operands."""
        self.builder.origin = Origin(source=statement.name, place=statement.origin.place)
        dy, p = self._merge(statement)
        match statement.rhs:
            case Input(parameter, _, path, _):  # (6.33)
                self.found[parameter, path] = dy, p
            case Addition(_, p0, x0, p1, x1):  # (6.44)
                self._owe(x0, dy, conj(p0, p))
                self._owe(x1, dy, conj(p1, p))
            case Map() as rhs:  # (6.47)
                self._map(rhs, dy, p)
            case Contraction() as rhs:  # (6.48), (6.49)
                self._contraction(rhs, dy, p)
            case Part(source, place, _, binders):
                dy = self.builder.view(dy, binders, p, "loop", statement.name)
                self.histories.setdefault(source, {})[place] = dy

    def loop(self, statement: Statement, rhs: Recurrence) -> None:
        """Reverse a loop: the loop over the turns from the last to the first, over kept values.

        Turn k takes `dx`, what is due to the values that turn k leaves, to what is due to those that
        it finds, by the adjoint of the body at the kept `x[k]`; and adds what is due to these by
        themselves. What is due to an array that every turn reads is carried along and added to; what is
        due to a row is one row of the loop's history.
        """
        due = self.histories.get(statement.name)
        if not due:
            return
        self.builder.origin = Origin(source=statement.name, place=statement.origin.place)
        turns = _Turns(self.builder, statement.name, rhs, due)
        moved = {p: x for p, x in rhs.arguments.items() if p[0] == "s" or x in self.active}
        for parameter, cotangent in turns.reversed(moved).items():
            self._owe(moved[parameter], cotangent, TRUE)

    def _owe(self, x: str, e: str, p: Predicate) -> None:
        """Add `⟨e|D⟦X⟧⟩_[p]`, unless D⟦X⟧ is zero (6.34–6.36)."""
        p = sets.simplify(p, self.builder.defined[x].gens)
        if x in self.active and p != disj():
            self.due.setdefault(x, []).append((e, p))

    def _merge(self, statement: Statement) -> Inner:
        """`⟨e0|dX⟩_[p0] + ⟨e1|dX⟩_[p1] ⇝ let dY=[p0]e0+[p1]e1 in ⟨dY|dX⟩_[p0∨p1]` (6.39), one
        after the other; many in halves, for each `p0∨p1` is as long as all the masks below it.
        """
        binders = statement.rhs.gens

        def merged(due: Sequence[Inner]) -> Inner:
            if len(due) == 1:
                return due[0]
            middle = len(due) // 2 if len(due) > MANY else len(due) - 1
            (e0, p0), (e1, p1) = merged(due[:middle]), merged(due[middle:])
            dy = self.builder.add(Addition(binders, p0, e0, p1, e1), "6.39", statement.name)
            return dy, sets.simplify(disj(p0, p1), binders)

        return merged(self.due[statement.name])

    def _map(self, rhs: Map, dy: str, p: Predicate) -> None:
        """`let dX'=[p0∧p1]Dᵀf(X,dY) in ⟨dX'|D⟦X⟧⟩_[p0∧p1]` (6.47), for each argument.

        The paper prints the rule for one argument, where `Dᵀf(X,dY) = f′(X)·dY`; of several,
        each gets a black box of its own.
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
                name = self.builder.add(
                    Map(rhs.gens, p, rhs.function.cotangent(k), (*rhs.arguments, dy)), "6.47", x
                )
            else:
                slope = self._pointwise(partial, rhs.gens, p, x)
                name = self._times(slope, dy, rhs.gens, p, x)
            self._owe(x, name, p)

    def _pointwise(self, e: Term, binders: Binders, p: Predicate, of: str) -> str:
        """`⊞g. [p]·e` for a scalar term over SSA variables, each read at g."""
        match e:
            case Var(name):
                return name
            case Const(value):
                return self.builder.add(Constant(binders, value), "6.47", of)
            case Mul(left, right):
                x0 = self._pointwise(left, binders, p, of)
                return self._times(x0, self._pointwise(right, binders, p, of), binders, p, of)
            case Call(function, arguments):
                names = tuple(self._pointwise(x, binders, p, of) for x in arguments)
                return self.builder.add(Map(binders, p, function, names), "6.47", of)
        raise TypeError(e)

    def _times(self, x0: str, x1: str, binders: Binders, p: Predicate, of: str) -> str:
        here = pointwise(binders)
        product = Contraction(binders, (), p, (Factor(x0, here), Factor(x1, here)))
        return self.builder.add(product, "6.47", of)

    def _contraction(self, rhs: Contraction, dy: str, p: Predicate) -> None:
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
            i = numbered("ι", ranges(self.builder.defined[factor.name].gens))
            mask = conj(p, equal(i, factor.indices))
            others = tuple(f for j, f in enumerate(rhs.factors) if j != k)
            factors = (Factor(dy, pointwise(rhs.gens)), *others)
            rule = "6.48" if others else "6.49"
            name = self.builder.add(Contraction(i, summed, mask, factors), rule, factor.name)
            there = dict(zip(index_names(i), pointwise(numbered("g", ranges(i))), strict=True))
            self._owe(factor.name, name, substitute(exists_all(summed, mask), there))

    def result(self, parameter: str, type_: Type) -> Output:
        """The cotangent of a parameter: its components regrouped (6.27, 6.28), each zero outside
        its predicate.
        """
        self.builder.origin = NOWHERE
        parts: dict[tuple[int, ...], str] = {}
        for path, x in inputs(parameter, type_, self.builder).items():
            binders = self.builder.defined[x].gens
            found = self.found.get((parameter, path))
            if found is None:
                parts[path] = self.builder.add(Constant(binders, 0), "6.34", parameter)
            else:
                parts[path] = self.builder.view(found[0], binders, found[1], "6.33", parameter)
        return _tree(parts, ())


@dataclass(frozen=True)
class _Turns:
    """The turns of a loop in reverse: `due` are the cotangents of its histories, by place."""

    builder: Builder
    name: str
    rhs: Recurrence
    due: Mapping[int, str]

    def reversed(self, moved: Iterable[str]) -> dict[str, str]:
        """The cotangents of what comes into the loop, by the parameters of its body."""
        turn = _Turn(self.rhs, tuple(moved))
        rows = [self._backwards(self._history(j), 0) for j in turn.kept]
        rows += [self._backwards(self.rhs.rows[j], 0) for j in turn.rows]
        rows += [self._backwards(self.due[j], 0) for j in turn.add(self.due)]
        starts = []
        for parameter, binders in turn.carried.items():
            j = int(parameter[1:])
            begun = parameter[0] == "s" and j in self.due
            starts.append(
                self._at(self.due[j], self.rhs.size)
                if begun
                else self.builder.add(Constant(binders, 0), "loop")
            )
        wholes = tuple([self.rhs.wholes[j] for j in turn.wholes])
        made = Recurrence(
            self.rhs.index, self.rhs.size, tuple(starts), tuple(rows), wholes, turn.program()
        )
        source = self.builder.add(made, "loop", self.name)
        found = {}
        for place, (parameter, binders) in enumerate(turn.carried.items()):
            gens = numbered("g", (self.rhs.size + 1, *ranges(binders)))
            history = self.builder.add(Part(source, place, len(starts), gens), "loop", self.name)
            found[parameter] = (
                self._backwards(history, 1)
                if parameter[0] == "r"
                else self._at(history, self.rhs.size)
            )
        return found

    def _history(self, place: int) -> str:
        gens = numbered("g", (self.rhs.size + 1, *ranges(self.rhs.carried[place])))
        return self.builder.add(Part(self.name, place, len(self.rhs.starts), gens), "loop")

    def _at(self, name: str, turn: Affine) -> str:
        """`⊞g. X[turn, g]`."""
        binders = numbered("g", ranges(self.builder.defined[name].gens)[1:])
        read = Factor(name, (turn, *pointwise(binders)))
        return self.builder.add(Contraction(binders, (), TRUE, (read,)), "loop", self.name)

    def _backwards(self, name: str, last: int) -> str:
        """`⊞k:n, g. X[n-1-k+last, g]`."""
        sizes = ranges(self.builder.defined[name].gens)[1:]
        binders = numbered("g", (self.rhs.size, *sizes))
        turn, *rest = pointwise(binders)
        read = Factor(name, (self.rhs.size - 1 - turn + last, *rest))
        return self.builder.add(Contraction(binders, (), TRUE, (read,)), "loop", self.name)


class _Turn:
    """One turn in reverse: the adjoint of a loop's body, whose parameters are `s0`, …, the cotangents
    that it carries, and the rows and wholes of the body, its kept values among the rows.

    `carried` has what it carries, by the parameter of the body whose cotangent it is.
    """

    def __init__(self, rhs: Recurrence, moved: tuple[str, ...]) -> None:
        body, self.index, self.size = rhs.body, rhs.index, rhs.size
        dims = {f"s{j}": binders for j, binders in enumerate(rhs.carried)}
        dims |= {s.rhs.parameter: s.rhs.gens for s in body.statements if isinstance(s.rhs, Input)}
        self.carried = {p: dims[p] for p in moved if p in dims}
        wrt = [(p, array(ranges(binders))) for p, binders in self.carried.items()]
        result = to_pairs([array(ranges(binders)) for binders in rhs.carried], Product)
        pulled = live(adjoint(body, wrt, ("dy", result)))
        reads = [s.rhs.parameter for s in pulled.statements if isinstance(s.rhs, Input)]
        self.kept = _numbers("s", reads)
        self.rows = _numbers("r", reads)
        self.wholes = _numbers("c", reads)
        names = {f"s{j}": f"r{i}" for i, j in enumerate(self.kept)}
        names |= {f"r{j}": f"r{len(self.kept) + i}" for i, j in enumerate(self.rows)}
        names |= {f"c{j}": f"c{i}" for i, j in enumerate(self.wholes)}
        self.builder, found = Builder(prefix="B"), dict[str, str]()
        for s in substituted(pulled, {self.index: self.size - 1 - Affine.of(self.index)}).statements:
            made = rename(s.rhs, found)
            if isinstance(made, Input):
                seed = made.parameter == "dy"
                parameter = f"s{sum(made.path)}" if seed else names[made.parameter]
                made = Input(parameter, type_of(made), (), made.gens)
            self.builder.origin = s.origin
            found[s.name] = self.builder.add(made)
        cotangents = [found[x] for x in flat(pulled.output)]
        self.cotangents = dict(zip(self.carried, cotangents, strict=True))
        places = {p: f"s{i}" for i, p in enumerate(self.carried)}
        for p, binders in self.carried.items():
            if p[0] == "c":
                self._add(p, self.builder.add(_input(places[p], binders)))

    def add(self, due: Iterable[int]) -> list[int]:
        """Add rows, after those that there are, to the cotangents of the values at these places."""
        first = len(self.kept) + len(self.rows)
        places = sorted(due)
        for i, j in enumerate(places):
            row = self.builder.add(_input(f"r{first + i}", self.carried[f"s{j}"]))
            self._add(f"s{j}", row)
        return places

    def _add(self, parameter: str, other: str) -> None:
        """A cotangent and another, each where it is not zero."""
        binders, x = self.carried[parameter], self.cotangents[parameter]
        p = sets.simplify(support(self.builder.defined[x]), binders)
        added = Addition(binders, p, x, TRUE, other)
        self.cotangents[parameter] = self.builder.add(added, "6.39", parameter)

    def program(self) -> Program:
        return self.builder.program(tree([*self.cotangents.values()]))


def _numbers(letter: str, parameters: Iterable[str]) -> list[int]:
    """Of the parameters `s0`, `s1`, … of one letter the numbers, in order."""
    return sorted({int(p[1:]) for p in parameters if p[0] == letter})


def _input(parameter: str, binders: Binders) -> Input:
    return Input(parameter, array(ranges(binders)), (), numbered("g", ranges(binders)))


def _tree(parts: dict[tuple[int, ...], str], path: tuple[int, ...]) -> Output:
    if path in parts:
        return parts[path]
    return _tree(parts, (*path, 0)), _tree(parts, (*path, 1))
