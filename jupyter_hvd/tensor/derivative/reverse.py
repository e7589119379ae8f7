"""The adjoint (reverse) derivative `Dᵀ⟦e|σ⟧` (Figs. 15 and 16, 6.20–6.49) on Tensor SSA.

The paper rewrites `⟨dY | D⟦e|σ⟧⟩` until every differential stands alone on the right. Here that
state is a table: for each variable X whose differential is still due, the inner products
`⟨e|D⟦X⟧⟩_[p]` that are left of it, as pairs `(e, p)`. The statements are taken from the last to
the first, so that (6.31) reverses each and (6.32), dropping what has no inner product, is an
empty entry. The result is purely functional: no scatter-add, no tape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

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
from ..language.types import REAL, Type
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
    Program,
    Statement,
    flat,
    operands,
    pointwise,
)

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
        if statement.name in reverse.active and reverse.due.get(statement.name):
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


def _tree(parts: dict[tuple[int, ...], str], path: tuple[int, ...]) -> Output:
    if path in parts:
        return parts[path]
    return _tree(parts, (*path, 0)), _tree(parts, (*path, 1))
