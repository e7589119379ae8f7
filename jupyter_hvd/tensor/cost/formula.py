"""`cost_formula`: the cost of a program as an exact formula in its sizes.

By Fig. 6 the cost is a sum of counts `#{i… : p}` of integer points. A count over affine
conditions is summed symbolically, one index at a time, by Faulhaber's formulas, split into the
cases where one bound or the other is the tighter: what comes out is a polynomial on each region
of the sizes. A count that is no such polynomial, because data decide it or because it takes
remainders, stays as it is, `#{…}`, and is counted when evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import comb
from operator import itemgetter

from ..language.affine import Affine
from ..language.depth import deep_recursion
from ..language.predicates import (
    TRUE,
    Compare,
    Predicate,
    compare,
    conj,
    conjuncts,
    disj,
    exists_all,
    fresh,
)
from ..language.predicates import substitute as substitute_predicate
from ..language.printer import show
from ..language.terms import (
    Add,
    Apply,
    Binder,
    Binders,
    Call,
    Gen,
    Guard,
    Iterate,
    Lambda,
    Mul,
    Sum,
    Term,
    in_ranges,
    index_names,
    strip_guards,
    strip_sums,
    uniquify,
    work_of_application,
)
from ..polyhedral import sets
from ..reference.evaluate import Environment, holds, points

Monomial = tuple[tuple[str, int], ...]
FEW = 8  # values of an index that are counted one by one


@dataclass(frozen=True)
class Polynomial:
    """A polynomial with rational coefficients; `terms` is sorted and has no zero coefficient."""

    terms: tuple[tuple[Monomial, Fraction], ...] = ()

    @staticmethod
    def of(value: Affine | int | Fraction) -> Polynomial:
        """Return a number or an affine expression as a polynomial."""
        if not isinstance(value, Affine):
            return _make_polynomial({(): Fraction(value)})
        terms: dict[Monomial, Fraction] = {((name, 1),): Fraction(k) for name, k in value.terms}
        return _make_polynomial({**terms, (): Fraction(value.constant)})

    def __add__(self, other: Polynomial) -> Polynomial:
        sums = dict(self.terms)
        for monomial, k in other.terms:
            sums[monomial] = sums.get(monomial, Fraction(0)) + k
        return _make_polynomial(sums)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * Polynomial.of(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        sums: dict[Monomial, Fraction] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                powers = dict(left)
                for name, power in right:
                    powers[name] = powers.get(name, 0) + power
                monomial = tuple(sorted(powers.items()))
                sums[monomial] = sums.get(monomial, Fraction(0)) + a * b
        return _make_polynomial(sums)

    def power(self, exponent: int) -> Polynomial:
        """Return this polynomial to a power."""
        result = Polynomial.of(1)
        for _ in range(exponent):
            result = result * self
        return result

    def by_powers_of(self, name: str) -> dict[int, Polynomial]:
        """Return the coefficients, polynomials in the other names, of each power of a name."""
        parts: dict[int, dict[Monomial, Fraction]] = {}
        for monomial, k in self.terms:
            power = dict(monomial).get(name, 0)
            rest = tuple(factor for factor in monomial if factor[0] != name)
            parts.setdefault(power, {})[rest] = k
        return {power: _make_polynomial(terms) for power, terms in parts.items()}

    def substitute(self, name: str, value: Polynomial) -> Polynomial:
        """Replace a name by a polynomial."""
        terms = (k * value.power(power) for power, k in self.by_powers_of(name).items())
        return sum(terms, Polynomial())

    def evaluate(self, sizes: Mapping[str, int]) -> Fraction:
        """Return the value at these sizes."""
        total = Fraction(0)
        for monomial, k in self.terms:
            for name, power in monomial:
                k *= sizes[name] ** power
            total += k
        return total

    def __str__(self) -> str:
        ordered = sorted(self.terms, key=lambda t: (-sum(power for _, power in t[0]), t[0]))
        text = ""
        for monomial, k in ordered:
            factors = [name if power == 1 else f"{name}**{power}" for name, power in monomial]
            over = f"/{k.denominator}" if k.denominator > 1 else ""
            number = abs(k.numerator)
            shown = "*".join([*([str(number)] if number != 1 or not factors else []), *factors])
            sign = "-" if k < 0 else "+"
            text += f" {sign} {shown}{over}" if text else f"{'-' if k < 0 else ''}{shown}{over}"
        return text or "0"


def _make_polynomial(terms: Mapping[Monomial, Fraction]) -> Polynomial:
    """Return the polynomial with these coefficients, without zeros."""
    return Polynomial(tuple(sorted((m, k) for m, k in terms.items() if k)))


@dataclass(frozen=True)
class Count:
    """`times·#{binders : condition}`, counted when evaluated."""

    binders: Binders
    condition: Predicate
    times: int

    def __str__(self) -> str:
        ranges = ", ".join(f"{index}:{size}" for index, size in self.binders)
        condition = "" if self.condition == TRUE else f" | {show(self.condition)}"
        times = f"{self.times}*" if self.times != 1 else ""
        return f"{times}#{{{ranges}{condition}}}"


Piece = tuple[Predicate, Polynomial]
Counted = dict[tuple[Binders, Predicate], int]  # how many times each count of points


@dataclass(frozen=True)
class Formula:
    """An exact cost: the polynomial of the first region that holds, plus the counts that have no polynomial.

    The regions cover all sizes that are at least 1. `str` gives Python syntax if no count is left.
    """

    pieces: tuple[Piece, ...]
    counts: tuple[Count, ...] = field(default=())

    def __str__(self) -> str:
        cases = [
            f"{polynomial} if {_polynomial_source(region)}" if region != TRUE else str(polynomial)
            for region, polynomial in self.pieces
        ]
        if self.pieces and self.pieces[-1][0] != TRUE:
            cases[-1] = str(self.pieces[-1][1])
        text = " else ".join(cases)
        if not self.counts:
            return text
        counts = " + ".join(map(str, self.counts))
        if text == "0":
            return counts
        return f"({text}) + {counts}" if len(cases) > 1 else f"{text} + {counts}"

    def evaluate(self, env: Environment | None = None, **sizes: int) -> int:
        """Evaluate the cost at given sizes, each at least 1. Counts over relations need those in an environment."""
        env = env or Environment(integers=dict(sizes))
        integers = {**env.integers, **sizes}
        at = Environment(integers=integers)
        polynomial = next(q for p, q in self.pieces if holds(p, at))
        total = polynomial.evaluate(integers)
        for count in self.counts:
            here = Environment(env.values, dict(integers), env.relations)
            total += count.times * sum(1 for _ in points(count.binders, count.condition, here))
        assert total.denominator == 1
        return int(total)


def _polynomial_source(p: Predicate) -> str:
    """Return a predicate as Python source."""
    text = show(p).replace("=", " == ").replace("<", " < ").replace("≤", " <= ")
    return text.replace("∧", "and").replace("∨", "or").replace("·", "*")


@deep_recursion()
def cost_formula(function: Lambda) -> Formula:
    """Return the total cost of a program (4.22–4.34) as a formula in its sizes, exact wherever every size is at least 1."""
    together: Counted = {}
    for counted in _operations_by_kind(function.body).values():
        for key, times in counted.items():
            together[key] = together.get(key, 0) + times
    return sum_counts(together)


@deep_recursion()
def cost_formulas(e: Term) -> dict[str, Formula]:
    """Return the cost of a term by kind of operation, as in `Cost`: additions, multiplications, calls."""
    return {kind: sum_counts(counted) for kind, counted in _operations_by_kind(e).items()}


def count_formula(binders: Binders, p: Predicate) -> Formula:
    """Return `#{binders | p}` as a formula in the sizes."""
    return sum_counts({canonical_count(binders, p): 1})


def _operations_by_kind(e: Term) -> dict[str, Counted]:
    """Return the counts of a term's additions, multiplications and calls."""
    counted: dict[str, Counted] = {"additions": {}, "multiplications": {}, "calls": {}}
    for operation in count_operations(uniquify(e)):
        operation.count_in(counted[operation.kind])
    return counted


@dataclass(frozen=True)
class Operation:
    """`times` operations of a kind at each point of `{binders | ∃ sums. condition}`, for a part of a
    term.
    """

    term: Term
    kind: str
    binders: Binders
    condition: Predicate
    sums: Binders = ()
    times: int = 1

    def count_in(self, counted: Counted) -> None:
        """Add this operation to a table of counts."""
        key = canonical_count(self.binders, exists_all(self.sums, self.condition))
        counted[key] = counted.get(key, 0) + self.times


def count_operations(e: Term, binders: Binders = (), p: Predicate = TRUE) -> Iterator[Operation]:
    """Yield the operations in the cost of a term (Fig. 6), at the points where it is evaluated.

    No name may be bound twice in the term.
    """
    match e:
        case Add(left, right):
            both = conj(p, strip_guards(left)[0], strip_guards(right)[0])
            yield Operation(e, "additions", binders, both)
        case Mul():
            yield Operation(e, "multiplications", binders, p)
        case Call():
            yield Operation(e, "calls", binders, p)
        case Gen(index, size, body):
            yield from count_operations(body, (*binders, Binder(index, size)), p)
            return
        case Guard(condition, body):
            yield from count_operations(body, binders, conj(p, condition))
            return
        case Sum():
            inner, q, body = strip_sums(e)
            yield Operation(e, "additions", (*binders, *inner), conj(p, q))
            yield Operation(e, "additions", binders, conj(p, q), inner, -1)
            yield from count_operations(body, (*binders, *inner), conj(p, q))
            return
        case Iterate(index, size, _, starts, body):
            for start in starts:
                yield from count_operations(start, binders, p)
            yield from count_operations(body, (*binders, Binder(index, size)), p)
            return
        case Apply():
            for inner, work in work_of_application(e):
                yield Operation(
                    e, work.kind, (*binders, *inner), conj(p, work.condition), (), work.times
                )
    for child in e.children:
        yield from count_operations(child, binders, p)


def sum_counts(counted: Counted) -> Formula:
    """Add counts to one formula."""
    total: list[Piece] = [(TRUE, Polynomial.of(0))]
    counts = []
    for (binders, p), times in counted.items():
        if not times or p == disj():
            continue
        pieces = symbolic_count(binders, p)
        if pieces is None:
            counts.append(Count(binders, p, times))
        else:
            total = _sum_pieces(total, [(r, q * Polynomial.of(times)) for r, q in pieces])
    return Formula(_order_pieces(total), tuple(counts))


def canonical_count(binders: Binders, p: Predicate) -> tuple[Binders, Predicate]:
    """Simplify a count and rename its binders by position, so that equal counts are computed once."""
    taken = p.names.union(*(n.names for n in in_ranges(binders))) - {*index_names(binders)}
    names = [fresh(f"i{k}", taken) for k in range(len(binders))]
    meaning = {index: Affine.of(name) for (index, _), name in zip(binders, names, strict=True)}
    renamed = tuple(map(Binder, names, in_ranges(binders)))
    return renamed, sets.simplify(substitute_predicate(p, meaning), renamed)


@lru_cache(maxsize=1024)
def symbolic_count(binders: Binders, p: Predicate) -> list[Piece] | None:
    """Count `#{binders | p}` as polynomials on disjoint regions of the sizes; None where it is not piecewise polynomial."""
    if p.relations:
        return None
    names = sorted(p.names.union(*(n.names for _, n in binders)) - {*index_names(binders)})
    positive = conj(*(compare("≤", 1, name) for name in names))
    set_ = sets.integer_set(binders, conj(p, positive)).make_disjoint()
    spelt = sets.isl_names(binders, p)
    total: list[Piece] = [(TRUE, Polynomial.of(0))]
    for basic in set_.compute_divs().get_basic_sets():
        case = sets.set_to_predicate(basic, spelt)
        if case is None:
            return None
        parts = _sum_over_points(index_names(binders), conj(case, positive), Polynomial.of(1))
        if parts is None:
            return None
        for part in parts:
            total = _sum_pieces(total, _with_rest(part, positive))
    return total


def _with_rest(piece: Piece, positive: Predicate) -> list[Piece]:
    """Return a piece, and the zero piece for all other sizes."""
    region, polynomial = piece
    region = sets.simplify_under(region, positive)
    if region == TRUE:
        return [(TRUE, polynomial)]
    rest = sets.complement(conj(region, positive), ())
    assert rest is not None
    return [(region, polynomial), (sets.simplify_under(rest, positive), Polynomial.of(0))]


def _sum_over_points(
    indices: tuple[str, ...], p: Predicate, weight: Polynomial
) -> list[Piece] | None:
    """Sum a weight over the points of a conjunction `p`, the last index first.

    Returns:
        pieces whose regions may overlap and then add up.
    """
    if sets.is_impossible((), p):
        return []
    if not indices:
        return [(p, weight)]
    found = _sum_between_bounds(indices, p, weight)
    return _sum_value_by_value(indices, p, weight) if found is None else found


def _bounds_of_index(
    index: str, p: Predicate
) -> tuple[list[Affine], list[Affine], list[Predicate]] | None:
    """Return the lower and upper bounds of an index, and the conditions that do not bound it; None if a multiple of it is
    bounded.
    """
    lower: list[Affine] = []
    upper: list[Affine] = []
    rest: list[Predicate] = []
    for part in conjuncts(p):
        if not isinstance(part, Compare):
            return None
        k = part.difference.coefficient(index)
        if k == 0:
            rest.append(part)
            continue
        if abs(k) != 1:
            return None
        # difference ≥ 0 (or > 0, or = 0), solved for the index
        slack = -1 if part.op == "<" else 0
        bound = (part.difference + slack) * -k + Affine.of(index)
        if part.op == "=" or k == 1:
            lower.append(bound)
        if part.op == "=" or k == -1:
            upper.append(bound)
    return lower, upper, rest


def _sum_value_by_value(
    indices: tuple[str, ...], p: Predicate, weight: Polynomial
) -> list[Piece] | None:
    """Sum as `_sum_over_points` if the last index has at most `FEW` values: each value separately; else None.

    This counts |i| + |j| ≤ 1, for example, where the bounds of i combine to bounds of 2·i.
    """
    *outer, index = indices
    bounds = _bounds_of_index(index, p)
    if bounds is None:
        return None
    widths = ((b - a, a) for a in bounds[0] for b in bounds[1])
    narrow = min(
        ((w.constant, a) for w, a in widths if w.is_constant), key=itemgetter(0), default=None
    )
    if narrow is None or narrow[0] >= FEW:
        return None
    width, low = narrow
    result: list[Piece] = []
    for k in range(width + 1):
        at = low + k
        here = substitute_predicate(p, {index: at})
        inner = _sum_over_points(
            tuple(outer), sets.simplify(here, ()), weight.substitute(index, Polynomial.of(at))
        )
        if inner is None:
            return None
        result += inner
    return result


def _sum_between_bounds(
    indices: tuple[str, ...], p: Predicate, weight: Polynomial
) -> list[Piece] | None:
    """Sum as `_sum_over_points` between the bounds of the last index; None if a multiple of it is bounded."""
    *outer, index = indices
    bounds = _bounds_of_index(index, p)
    if bounds is None:
        return None
    lower, upper, rest = bounds
    result: list[Piece] = []
    for a in range(len(lower)):
        for b in range(len(upper)):
            # The case where this lower bound is the first of the greatest and this upper bound the first of the least.
            tight = [
                *(
                    compare("<" if j < a else "≤", other, lower[a])
                    for j, other in enumerate(lower)
                    if j != a
                ),
                *(
                    compare("<" if j < b else "≤", upper[b], other)
                    for j, other in enumerate(upper)
                    if j != b
                ),
                compare("≤", lower[a], upper[b]),
            ]
            inner = _sum_over_points(
                tuple(outer),
                conj(*rest, *tight),
                _sum_polynomial(weight, index, lower[a], upper[b]),
            )
            if inner is None:
                return None
            result += inner
    return result


def _sum_polynomial(weight: Polynomial, index: str, low: Affine, high: Affine) -> Polynomial:
    """Return `Σ_{index=low}^{high} weight`, by Faulhaber's formula for each power."""
    total = Polynomial()
    for power, coefficient in weight.by_powers_of(index).items():
        up_to_high = _power_sum(power, Polynomial.of(high + 1))
        below_low = _power_sum(power, Polynomial.of(low))
        total = total + coefficient * (up_to_high - below_low)
    return total


def _power_sum(power: int, n: Polynomial) -> Polynomial:
    """Return `Σ_{k=0}^{n-1} k^power` as a polynomial in n, valid for every integer n as a difference."""
    total = Polynomial()
    for j in range(power + 1):
        k = Fraction(comb(power + 1, j) * _bernoulli_number(j), power + 1)
        total = total + n.power(power + 1 - j) * Polynomial.of(k)
    return total


@lru_cache(maxsize=64)
def _bernoulli_number(n: int) -> Fraction:
    """Return the n-th Bernoulli number, with B₁ = -1/2."""
    if n == 0:
        return Fraction(1)
    return -sum((comb(n + 1, j) * _bernoulli_number(j) for j in range(n)), Fraction(0)) / (n + 1)


def _sum_pieces(left: Iterable[Piece], right: Iterable[Piece]) -> list[Piece]:
    """Add two piecewise polynomials, on the regions where both have a piece."""
    together: dict[Polynomial, list[Predicate]] = {}
    right = list(right)
    for p, a in left:
        for q, b in right:
            region = sets.simplify_under(conj(p, q), TRUE)
            if region != disj():
                together.setdefault(a + b, []).append(region)
    return [(sets.simplify_under(disj(*ps), TRUE), a) for a, ps in together.items()]


def _order_pieces(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Sort pieces so that those of large sizes come first: fewest equalities, then highest degree."""

    def total_degree(polynomial: Polynomial) -> int:
        return max((sum(power for _, power in m) for m, _ in polynomial.terms), default=0)

    return tuple(sorted(pieces, key=lambda piece: -total_degree(piece[1])))


def select_region(formula: Formula, sizes: Mapping[str, int]) -> Formula:
    """Return the formula on the region that contains the sizes."""
    here = Environment(integers=dict(sizes))
    polynomial = next(q for region, q in formula.pieces if holds(region, here))
    return Formula(((TRUE, polynomial),), formula.counts)


def rename_sizes(formula: Formula, names: Mapping[str, str]) -> Formula:
    """Rename the sizes in a formula; equal sizes get the same name."""
    pieces = []
    for region, polynomial in formula.pieces:
        total = Polynomial()
        for monomial, k in polynomial.terms:
            term = Polynomial.of(k)
            for name, power in monomial:
                term = term * Polynomial.of(Affine.of(names.get(name, name))).power(power)
            total = total + term
        pieces.append((region, total))
    return Formula(tuple(pieces), formula.counts)
