"""Predicates `p ::= a<a | a≤a | a=a | R(a,…) | p∧p | p∨p | ∃ i:n. p` (Fig. 3) and how they are
built and rewritten.

`true` is the empty conjunction, `false` the empty disjunction. Build conjunctions, disjunctions
and quantifiers with `conj`, `disj` and `exists`, which flatten, deduplicate and fold constants;
then equal predicates are one object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeGuard

from .affine import Affine
from .hashcons import HashConsed
from .printer import Precedence, Style, show


class Predicate(metaclass=HashConsed):
    """A predicate over index variables, sizes and relations."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The free index variables and sizes."""
        raise NotImplementedError

    @cached_property
    def relations(self) -> frozenset[str]:
        """The names of the relations in the predicate, complemented or not."""
        return frozenset()

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        raise NotImplementedError

    def __str__(self) -> str:
        return show(self)


@dataclass(frozen=True, eq=False)
class Compare(Predicate):
    """`left op right`, with `op` one of `<`, `≤`, `=`."""

    op: str
    left: Affine
    right: Affine

    @cached_property
    def names(self) -> frozenset[str]:
        return self.left.names | self.right.names

    @cached_property
    def difference(self) -> Affine:
        """The right side minus the left side."""
        return self.right - self.left

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        return s.compare(self.op, self.left, self.right), Precedence.ATOM


@dataclass(frozen=True, eq=False)
class Related(Predicate):
    """`R(a,…)`: the index tuple is in the relation R, which the program receives as data; with `negated`, it is not in R."""

    relation: str
    arguments: tuple[Affine, ...]
    negated: bool = False

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(a.names for a in self.arguments))

    @cached_property
    def relations(self) -> frozenset[str]:
        return frozenset((self.relation,))

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        inside = ", ".join(map(s.affine, self.arguments))
        negation = s.negation if self.negated else ""
        return f"{negation}{s.name(self.relation)}({inside})", Precedence.ATOM


@dataclass(frozen=True, eq=False)
class _Parts(Predicate):
    parts: tuple[Predicate, ...]

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(p.names for p in self.parts))

    @cached_property
    def relations(self) -> frozenset[str]:
        return frozenset().union(*(p.relations for p in self.parts))

    def _join_parts(self, s: Style, sign: str, empty: str) -> tuple[str, Precedence]:
        """Return the parts joined by a sign, those that are joined or quantified themselves in brackets."""
        if not self.parts:
            return empty, Precedence.ATOM
        return sign.join(
            s.bracket_part(part, Precedence.ATOM) for part in self.parts
        ), Precedence.SUM


class And(_Parts):
    """`p ∧ …`; `true` without parts."""

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        return self._join_parts(s, s.conj, s.true)


class Or(_Parts):
    """`p ∨ …`; `false` without parts."""

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        return self._join_parts(s, s.disj, s.false)


@dataclass(frozen=True, eq=False)
class Exists(Predicate):
    """`∃ index:size. body`."""

    index: str
    size: Affine
    body: Predicate

    @cached_property
    def names(self) -> frozenset[str]:
        return (self.body.names - {self.index}) | self.size.names

    @cached_property
    def relations(self) -> frozenset[str]:
        return self.body.relations

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        body = self.body.written(s)[0]
        return s.exists.format(s.name(self.index), s.affine(self.size), body), Precedence.BODY


TRUE: Predicate = And(())
FALSE: Predicate = Or(())

_HOLDS: Mapping[str, Callable[[int], bool]] = {
    "<": lambda difference: difference > 0,
    "≤": lambda difference: difference >= 0,
    "=": lambda difference: difference == 0,
}


def compare(op: str, left: Affine | int | str, right: Affine | int | str) -> Predicate:
    """Return `left op right`, or its truth value where both sides differ by a constant."""
    left, right = Affine.of(left), Affine.of(right)
    if left.terms == right.terms:
        return TRUE if _HOLDS[op](right.constant - left.constant) else FALSE
    return Compare(op, left, right)


def conj(*parts: Predicate) -> Predicate:
    """Return the flattened conjunction without duplicates; `false` if a part is."""
    flat: dict[Predicate, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, And) else (part,)))
    if FALSE in flat:
        return FALSE
    return next(iter(flat)) if len(flat) == 1 else And(tuple(flat))


def disj(*parts: Predicate) -> Predicate:
    """Return the flattened disjunction without duplicates; `true` if a part is."""
    flat: dict[Predicate, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, Or) else (part,)))
    if TRUE in flat:
        return TRUE
    return next(iter(flat)) if len(flat) == 1 else Or(tuple(flat))


def conjuncts(p: Predicate) -> tuple[Predicate, ...]:
    """Split a predicate into the parts whose conjunction it is."""
    return p.parts if isinstance(p, And) else (p,)


def is_asserted(p: Predicate) -> TypeGuard[Related]:
    """Whether a predicate is a relation that is not complemented."""
    return isinstance(p, Related) and not p.negated


def in_range(a: Affine, size: Affine) -> Predicate:
    """Return the predicate `0 ≤ a < size`."""
    return conj(compare("≤", 0, a), compare("<", a, size))


def exists(index: str, size: Affine, body: Predicate) -> Predicate:
    """Build `∃ index:size. body`, with the one-point rule of §6: `∃i.[i=a ∧ q] ⇝ 0≤a<n ∧ q[i↦a]`.

    Conjuncts without the index move out of the quantifier, and it distributes over `∨`.
    """
    if body == FALSE:
        return FALSE
    if isinstance(body, Or):
        return disj(*(exists(index, size, part) for part in body.parts))
    inside = [part for part in conjuncts(body) if index in part.names]
    outside = [part for part in conjuncts(body) if index not in part.names]
    if not inside:
        return conj(compare("<", 0, size), *outside)
    solved = next((s for part in inside if (s := solve(part, index)) is not None), None)
    if solved is not None:
        rest = substitute(conj(*inside), {index: solved})
        return conj(*outside, in_range(solved, size), rest)
    return conj(*outside, Exists(index, size, conj(*inside)))


def exists_all(binders: Iterable[tuple[str, Affine]], body: Predicate) -> Predicate:
    """Build `∃` over several binders, the last innermost."""
    for index, size in reversed(tuple(binders)):
        body = exists(index, size, body)
    return body


def solve(p: Predicate, index: str) -> Affine | None:
    """Solve an equality for an index with coefficient ±1: return the `a` with `p ⇔ index = a`, None for any other predicate."""
    return p.difference.solve(index) if isinstance(p, Compare) and p.op == "=" else None


def substitute(p: Predicate, values: Mapping[str, Affine]) -> Predicate:
    """Replace free index variables by affine expressions, without capture."""
    if p.names.isdisjoint(values):
        return p
    match p:
        case Compare(op, left, right):
            return compare(op, left.substitute(values), right.substitute(values))
        case Related(relation, arguments, negated):
            return Related(relation, tuple(a.substitute(values) for a in arguments), negated)
        case And(parts):
            return conj(*(substitute(part, values) for part in parts))
        case Or(parts):
            return disj(*(substitute(part, values) for part in parts))
        case Exists(index, size, body):
            values = {name: a for name, a in values.items() if name != index and name in p.names}
            taken = frozenset().union(*(a.names for a in values.values())) | body.names
            free = fresh(index, taken) if any(index in a.names for a in values.values()) else index
            body = substitute(body, {**values, index: Affine.of(free)} if free != index else values)
            return exists(free, size.substitute(values), body)
    raise TypeError(p)


def without_relations(p: Predicate) -> Predicate:
    """Weaken a predicate to an affine one: relations and their complements become true."""
    if not p.relations:
        return p
    match p:
        case And(parts):
            return conj(*map(without_relations, parts))
        case Or(parts):
            return disj(*map(without_relations, parts))
        case Exists(index, size, body):
            return exists(index, size, without_relations(body))
    return TRUE


def negate(p: Predicate) -> Predicate | None:
    """Negate a predicate in the grammar, which has no `¬`: comparisons are inverted, and a relation becomes its complement.

    None where the predicate has a quantifier, unless it is over a multiple, `∃ q:n. 2·q = i`; `sets.complement` can
    eliminate
    other quantifiers.
    """
    match p:
        case Compare("<", left, right):
            return compare("≤", right, left)
        case Compare("≤", left, right):
            return compare("<", right, left)
        case Compare(_, left, right):
            return disj(compare("<", left, right), compare("<", right, left))
        case Related(relation, arguments, negated):
            return Related(relation, arguments, not negated)
        case And(parts) | Or(parts):
            complements = [negate(part) for part in parts]
            whole = [part for part in complements if part is not None]
            if len(whole) < len(complements):
                return None
            return disj(*whole) if isinstance(p, And) else conj(*whole)
        case Exists(index, size, Compare("=") as equality) if index not in size.names:
            return _other_remainders(index, size, equality.difference)
    return None


def _other_remainders(index: str, size: Affine, difference: Affine) -> Predicate:
    """Negate `∃ index:size. k·index = a`: a is below 0, at least k·size, or leaves a remainder by k."""
    k = difference.coefficient(index)
    a = (difference - Affine.of(index) * k) * (-1 if k > 0 else 1)
    k = abs(k)
    others = (exists(index, size, compare("=", a, Affine.of(index) * k + r)) for r in range(1, k))
    return disj(compare("<", a, 0), compare("≤", size * k, a), *others)


def reserve_generated_names(name: str) -> str:
    """Rename a program's index or size that looks like a name of the passes: `g0` becomes `g0_`.

    The passes generate names such as `g0` without looking at the names in the program.
    """
    return f"{name}_" if re.fullmatch(r"[ghkstzηικτ]\d+", name) else name


def fresh(base: str, taken: frozenset[str] | set[str]) -> str:
    """Return a name like `base` that is not taken."""
    return base if base not in taken else _number_name(base, taken, {})


class NamesInUse:
    """A growing set of names.

    It stores the last number of each stem, so that a fresh name takes constant time.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self._numbers: dict[str, int] = {}

    def take_fresh(self, base: str) -> str:
        """Return a name like `base` that is not taken, and take it."""
        name = base if base not in self.taken else _number_name(base, self.taken, self._numbers)
        self.taken.add(name)
        return name


def _number_name(base: str, taken: frozenset[str] | set[str], numbers: dict[str, int]) -> str:
    """Return `base` with a number, so that the name is not taken; remember the number in `numbers`."""
    stem = base.rstrip("0123456789").rstrip("_") or base
    k = numbers.get(stem, 1)
    while f"{stem}_{k}" in taken:
        k += 1
    numbers[stem] = k
    return f"{stem}_{k}"
