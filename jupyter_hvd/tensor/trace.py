"""Tracing: a rewritten function is called once with stand-ins for its arguments, and builds the
program instead of computing.

As in TensorFlow Federated, the arguments are packed into one struct of named fields, the
function is called with a `Value` for each, whose operators build terms, and what comes back is
packed into a `Lambda`, which stands for the whole function. A `Value` is backed by a term: a
parameter is a reference (`Var`), an entry of a tuple a selection (`Proj`).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from . import sets
from .affine import Affine
from .errors import Place, TensorError
from .functions import NAMES, named
from .predicates import FALSE, TRUE, Predicate, Related, compare, conj, disj, exists, fresh, negate
from .terms import (
    Add,
    At,
    Binders,
    Call,
    Const,
    Gen,
    Guard,
    Lambda,
    Let,
    Mul,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
    guard,
    lets,
    substitute,
)
from .types import (
    REAL,
    Array,
    IndexArray,
    Integer,
    ParameterType,
    Product,
    Relation,
    TupleSet,
)
from .values import Condition, Data, Index, IndexEntry, Layout, Value, data_help, describe, kind

if TYPE_CHECKING:
    from .rewrite import Rewritten


@dataclass(frozen=True)
class Traced:
    """A traced function: the program, how its result is laid out, and where in the source its
    terms are.
    """

    function: Lambda
    layout: Layout
    places: dict[Term, Place] = field(compare=False)
    size_names: dict[str, str] = field(compare=False)
    lookups: tuple[Lookup, ...] = ()


@dataclass(frozen=True)
class Lookup:
    """A read of an array through an index array, `x[src[e] + offset]`, whose range only the data
    can show.
    """

    relation: str
    arguments: tuple[Affine, ...]
    offset: Affine
    size: Affine
    binders: Binders
    condition: Predicate
    place: Place | None


@dataclass
class Scope:
    bindings: list[tuple[str, Term]] = field(default_factory=list)


class Tracer:
    """What rewritten code calls. Every method takes first the number of a place in the source."""

    def __init__(self) -> None:
        self.places: Sequence[Place] = ()
        self.place: Place | None = None
        self.used: set[str] = set()
        self.scopes: list[Scope] = [Scope()]
        self.binders: list[tuple[str, Affine]] = []
        self.conditions: list[Predicate] = []
        self.places_of: dict[Term, Place] = {}
        self.size_names: dict[str, str] = {}
        self.lookups: list[Lookup] = []
        self.stack: list[str] = []

    # Errors and scopes

    def error(self, message: str, help_: str = "") -> TensorError:
        return TensorError(message, help_, self.place)

    def at(self, k: int) -> None:
        self.place = self.places[k]

    def note(self, term: Term) -> None:
        """A term's place is where it is written first."""
        if self.place is not None and not isinstance(term, Var | Const):
            self.places_of.setdefault(term, self.place)

    @contextmanager
    def scope(
        self, binder: tuple[str, Affine] | None = None, condition: Predicate = TRUE
    ) -> Iterator[Scope]:
        """Collect the lets of a loop body or branch, which are closed where it ends."""
        scope = Scope()
        self.scopes.append(scope)
        self.conditions.append(condition)
        if binder:
            self.binders.append(binder)
        try:
            yield scope
        finally:
            self.scopes.pop()
            self.conditions.pop()
            if binder:
                self.binders.pop()

    def name(self, stem: str) -> str:
        made = fresh(stem, self.used)
        self.used.add(made)
        return made

    # Packing and unpacking

    def pack(self, value: Any) -> tuple[Term, Layout]:
        """A Python value of any kind as one term."""
        match value:
            case Value():
                return value.term, value.layout
            case Condition():
                return Guard(value.predicate, Const(1)), None
            case Index():
                return self._size_as_number(value), None
            case IndexEntry():
                raise self.error(
                    "an index array's entry is not a number",
                    "an array of integers is an index array; to compute with it, pass floats",
                )
            case Data():
                raise self.error(f"`{value.name}` is not an array of numbers", data_help(value))
            case bool():
                return Const(int(value)), None
            case int() | float() | Fraction():
                if value != value or value in (float("inf"), float("-inf")):
                    raise self.error(f"the constant {value} is no real number")
                return Const(value), None
            case tuple():
                if len(value) < 2:
                    raise self.error("a tuple needs at least two parts")
                parts = [self.pack(part) for part in value]
                term = parts[-1][0]
                for part, _ in reversed(parts[:-1]):
                    term = Pair(part, term)
                return term, tuple(layout for _, layout in parts)
        if _is_numpy_scalar(value):
            return self.pack(value.item())
        if hasattr(value, "shape"):
            raise self.error(
                "this array is not a parameter", "pass it as one, or write its entries out"
            )
        raise self.error(f"a {type(value).__name__} is no tensor", "use numbers, arrays and tuples")

    def _size_as_number(self, value: Index) -> Term:
        bound = {i for i, _ in self.binders}
        if value.affine.names & bound:
            raise self.error(
                "an index is not a number here",
                "pass an array of the numbers and read it: `t[i]`",
            )
        return Const(value.affine if value.affine.terms else value.affine.constant)

    def scalar(self, value: Any, what: str) -> Term:
        term, _ = self.pack(value)
        if term.type != REAL:
            raise self.error(
                f"{what} takes scalars, not {describe(term.type)}",
                "write it entry by entry: `[… for i in range(n)]`",
            )
        return term

    def affine(self, value: Any, what: str) -> Affine:
        match value:
            case Index():
                return value.affine
            case bool():
                pass
            case int():
                return Affine.of(value)
            case IndexEntry():
                raise self.error(
                    f"{what} takes an affine index, not an entry of an index array",
                    "read an array with it, `x[src[e]]`, or compare it, `src[e] == j`",
                )
        if _is_numpy_scalar(value) and isinstance(value.item(), int):
            return Affine.of(value.item())
        raise self.error(
            f"{what} takes an affine expression of indices and sizes, not {kind(value)}",
            "use i, n, constants, +, - and multiples: `x[2*i + 1]`; for data, an index array",
        )

    def condition(self, value: Any) -> Predicate:
        match value:
            case Condition():
                return value.predicate
            case bool():
                return TRUE if value else FALSE
        if _is_numpy_scalar(value) and isinstance(value.item(), bool):
            return TRUE if value.item() else FALSE
        raise self.error(
            f"a condition is about indices and relations, not {kind(value)}",
            "compare indices, read a boolean array, or use `np.maximum` and the like for data",
        )

    def parts(self, value: Value) -> list[Value]:
        """The selections of a tuple."""
        assert value.layout is not None
        made, term = [], value.term
        for k, layout in enumerate(value.layout):
            last = k == len(value.layout) - 1
            made.append(Value(self, term if last else Proj(0, term), layout))
            term = term if last else Proj(1, term)
        return made

    # Statements

    def bind(self, k: int, name: str, value: Any) -> Any:
        """An assignment is a let."""
        self.at(k)
        return self._bind(name, value)

    def _bind(self, name: str, value: Any) -> Any:
        if isinstance(value, Index) and (size := value.affine.name) and not self.binders:
            self.size_names.setdefault(size, name)
        if isinstance(value, tuple):
            return tuple(self._bind(f"{name}_{j}", part) for j, part in enumerate(value))
        if isinstance(value, Value) and not isinstance(value.term, Var | Const):
            bound = self.name(name)
            self.scopes[-1].bindings.append((bound, value.term))
            return Value(self, Var(bound, value.type), value.layout)
        return value

    def unpack(self, k: int, names: tuple[str, ...], value: Any) -> tuple[Any, ...]:
        self.at(k)
        if isinstance(value, Value) and isinstance(value.type, Product):
            whole = self._bind("_".join(names), value)
            value = tuple(self.parts(whole))
        if not isinstance(value, tuple):
            raise self.error(f"{kind(value)} does not unpack", "read its entries by index")
        if len(value) != len(names):
            raise self.error(f"{len(value)} parts do not fit {len(names)} names")
        return tuple(self._bind(name, part) for name, part in zip(names, value, strict=True))

    def result(self, k: int, value: Any) -> Any:
        self.at(k)
        self.pack(value)
        return value

    # Loops

    def _range(self, bounds: tuple[Any, ...]) -> tuple[Affine, Affine, int]:
        """`range(…)` as its start, its length and its step."""
        if not 1 <= len(bounds) <= 3:
            raise self.error("`range` takes one to three integers")
        ends = [self.affine(bound, "`range`") for bound in bounds[:2]]
        start, stop = (Affine.of(0), ends[0]) if len(ends) == 1 else ends
        step = self.affine(bounds[2], "a step") if len(bounds) == 3 else Affine.of(1)
        if not step.is_constant or step.constant < 1:
            raise self.error("a step is a positive constant")
        length, k = stop - start, step.constant
        if k > 1:
            rounded = length + (k - 1)
            if any(c % k for _, c in rounded.terms):
                raise self.error(
                    "this range's length is not affine in the sizes",
                    "loop with step 1 and a condition, or pass the length as an int parameter",
                )
            terms = tuple((name, c // k) for name, c in rounded.terms)
            length = Affine(terms, rounded.constant // k)
        return start, length, k

    def _binder(
        self, name: str, bounds: tuple[Any, ...], ragged: bool
    ) -> tuple[str, Affine, Affine, Predicate]:
        """A fresh index, its size, what the Python variable means, and the guard that a size
        which depends on outer indices takes.
        """
        start, length, step = self._range(bounds)
        index = self.name(name)
        meaning = start + Affine.of(index) * step
        outer = dict(self.binders)
        widest = length
        for i in length.names & outer.keys():
            end = outer[i] - 1 if length.coefficient(i) > 0 else Affine.of(0)
            widest = widest.substitute({i: end})
        if widest == length:
            return index, length, meaning, TRUE
        if not ragged:
            raise self.error(
                "this array's size depends on an outer index",
                "make it as wide as the widest, and zero the rest: `[e if j < i else 0 for j in range(n)]`",
            )
        if widest.names & outer.keys():
            raise self.error("this range depends on indices in a way that has no simple bound")
        return index, widest, meaning, compare("<", index, length)

    def generate(
        self, k: int, name: str, bounds: tuple[Any, ...], body: Callable[[Any], Any]
    ) -> Value:
        self.at(k)
        index, size, meaning, _ = self._binder(name, bounds, ragged=False)
        with self.scope((index, size)) as scope:
            term, layout = self.pack(body(Index(self, meaning)))
        self.at(k)
        return Value(self, Gen(index, size, lets(scope.bindings, term)), layout)

    def sum(self, k: int, name: str, bounds: tuple[Any, ...], body: Callable[[Any], Any]) -> Value:
        self.at(k)
        index, size, meaning, within = self._binder(name, bounds, ragged=True)
        with self.scope((index, size), within) as scope:
            term = self.scalar(body(Index(self, meaning)), "a sum")
        self.at(k)
        return Value(self, Sum(index, size, guard(within, lets(scope.bindings, term))))

    def given(self, k: int, condition: Any, body: Callable[[], Any]) -> Value:
        """A comprehension's `if` in a sum."""
        self.at(k)
        p = self.condition(condition)
        with self.scope(condition=p) as scope:
            term = self.scalar(body(), "a sum")
        return Value(self, _guarded(p, lets(scope.bindings, term)))

    def any(
        self, k: int, name: str, bounds: tuple[Any, ...], body: Callable[[Any], Any]
    ) -> Condition:
        self.at(k)
        index, size, meaning, within = self._binder(name, bounds, ragged=True)
        with self.scope((index, size), within):
            p = self.condition(body(Index(self, meaning)))
        return Condition(self, exists(index, size, conj(within, p)))

    def given_any(self, k: int, condition: Any, body: Callable[[], Any]) -> Condition:
        self.at(k)
        return Condition(self, conj(self.condition(condition), self.condition(body())))

    def all(
        self, k: int, name: str, bounds: tuple[Any, ...], body: Callable[[Any], Any]
    ) -> Condition:
        """`∀` is `¬∃¬`."""
        none = self.any(k, name, bounds, lambda i: self.negated(k, body(i)))
        return self.negated(k, none)

    def given_all(self, k: int, condition: Any, body: Callable[[], Any]) -> Condition:
        self.at(k)
        return Condition(self, disj(self.negated(k, condition).predicate, self.condition(body())))

    # Expressions

    def choose(self, k: int, test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """`a if p else b` is `[p]·a + [¬p]·b`."""
        self.at(k)
        if isinstance(test, bool):
            return then() if test else other()
        p = self.condition(test)
        not_p = self._negation(p)
        branches = []
        for condition, branch in ((p, then), (not_p, other)):
            with self.scope(condition=condition) as scope:
                term, layout = self.pack(branch())
            branches.append((condition, lets(scope.bindings, term), layout))
        self.at(k)
        return self._either(branches)

    def _either(self, branches: list[tuple[Predicate, Term, Layout]]) -> Value:
        (p, a, layout), (q, b, other) = branches
        if b is Const(0):
            return Value(self, _guarded(p, a), layout)
        if a is Const(0):
            return Value(self, _guarded(q, b), other)
        if a.type != b.type:
            raise self.error(
                f"one branch is {describe(a.type)}, the other {describe(b.type)}",
                "give both the same shape",
            )
        if a.type == REAL:
            return Value(self, Add(_guarded(p, a), _guarded(q, b)))
        first = self._bind("then", Value(self, Guard(p, a))).term
        second = self._bind("other", Value(self, Guard(q, b))).term
        return Value(self, self._entrywise(first, second, p, q), layout)

    def _entrywise(self, a: Term, b: Term, p: Predicate, q: Predicate) -> Term:
        match a.type:
            case Array(size, _):
                i = self.name("i")
                at = Affine.of(i)
                return Gen(i, size, self._entrywise(At(a, at), At(b, at), p, q))
            case Product():
                return Pair(
                    self._entrywise(Proj(0, a), Proj(0, b), p, q),
                    self._entrywise(Proj(1, a), Proj(1, b), p, q),
                )
        return Add(Guard(p, a), Guard(q, b))

    def both(self, k: int, left: Any, right: Any) -> Any:
        self.at(k)
        return Condition(self, conj(self.condition(left), self.condition(right)))

    def either(self, k: int, left: Any, right: Any) -> Any:
        self.at(k)
        return Condition(self, disj(self.condition(left), self.condition(right)))

    def negated(self, k: int, value: Any) -> Condition:
        self.at(k)
        return Condition(self, self._negation(self.condition(value)))

    def _negation(self, p: Predicate) -> Predicate:
        negation = negate(p)
        if negation is None:
            negation = sets.complement(p, tuple(self.binders))
        if negation is None:
            raise self.error(
                "this condition has no negation: it searches a relation",
                "pass the negated condition as a boolean array",
            )
        return negation

    def compare(self, k: int, ops: tuple[str, ...], *sides: Any) -> Any:
        self.at(k)
        results = [
            self._compare(op, left, right)
            for op, (left, right) in zip(ops, pairwise(sides), strict=True)
        ]
        if all(isinstance(result, bool) for result in results):
            return all(results)
        return Condition(self, conj(*map(self.condition, results)))

    def _compare(self, op: str, left: Any, right: Any) -> Any:
        if op in ("in", "not in"):
            inside = self._contains(left, right)
            return inside if op == "in" else Condition(self, self._negation(inside.predicate))
        if op in ("==", "!=") and (isinstance(left, IndexEntry) or isinstance(right, IndexEntry)):
            entry, other = (left, right) if isinstance(left, IndexEntry) else (right, left)
            assert isinstance(entry, IndexEntry)
            p = entry.equals(self.affine(other, "a comparison with an index array's entry"))
            return Condition(self, p if op == "==" else self._negation(p))
        for side in (left, right):
            if isinstance(side, Value | float):
                raise self.error(
                    f"a comparison of data, {kind(side)}",
                    "compare indices; for data use `np.maximum`, `np.minimum`, or a boolean array",
                )
        a, b = (self.affine(side, "a comparison") for side in (left, right))
        match op:
            case "<" | ">":
                p = compare("<", *((a, b) if op == "<" else (b, a)))
            case "<=" | ">=":
                p = compare("≤", *((a, b) if op == "<=" else (b, a)))
            case "==":
                p = compare("=", a, b)
            case "!=":
                p = disj(compare("<", a, b), compare("<", b, a))
            case _:
                raise self.error(f"`{op}` is no comparison of indices", "use <, <=, ==, != or in")
        return p is TRUE if p in (TRUE, FALSE) else Condition(self, p)

    def _contains(self, left: Any, right: Any) -> Condition:
        if not isinstance(right, Data) or not isinstance(right.type, TupleSet):
            raise self.error("`in` tests a relation", "pass a set of index tuples: `(i, j) in R`")
        places = left if isinstance(left, tuple) else (left,)
        if len(places) != right.type.arity:
            raise self.error(f"`{right.name}` holds tuples of {right.type.arity} integers")
        arguments = tuple(self.affine(a, "a relation") for a in places)
        return Condition(self, Related(right.name, arguments))

    def minus(self, k: int, value: Any) -> Any:
        self.at(k)
        if isinstance(value, int | float | Fraction):
            return -value
        if isinstance(value, Index):
            return Index(self, value.affine * -1)
        return Value(self, Mul(Const(-1), self.scalar(value, "`-`")))

    def plus(self, k: int, value: Any) -> Any:
        self.at(k)
        return value

    def binary(self, k: int, op: str, left: Any, right: Any) -> Any:
        self.at(k)
        plain = int | float | Fraction
        if isinstance(left, plain) and isinstance(right, plain):
            return _PYTHON[op](left, right) if op in _PYTHON else self._unknown(op)
        if isinstance(left, Index | IndexEntry | int) and isinstance(
            right, Index | IndexEntry | int
        ):
            return self._index_arithmetic(op, left, right)
        if op == "&" or op == "|":
            return self.both(k, left, right) if op == "&" else self.either(k, left, right)
        if op == "@":
            raise self.error(
                "`@` multiplies whole arrays",
                "write the sum: `sum(A[i, j]*x[j] for j in range(n))`",
            )
        if op == "*":
            return self._product(left, right)
        a, b = self.scalar(left, f"`{op}`"), self.scalar(right, f"`{op}`")
        match op:
            case "+":
                return Value(self, Add(a, b))
            case "-":
                return Value(self, Add(a, _negative(b)))
            case "/":
                return Value(self, self._quotient(a, b))
            case "**":
                return self._power(a, b)
        return self._unknown(op)

    def _unknown(self, op: str) -> Any:
        raise self.error(f"`{op}` is not in the tensor language", "use +, -, *, / and **")

    def _product(self, left: Any, right: Any) -> Value:
        """`e·e`, and `(i < j) * e` is Iverson's bracket, at any type."""
        if isinstance(left, Condition) and isinstance(right, Condition):
            return Value(self, Guard(conj(left.predicate, right.predicate), Const(1)))
        for test, other in ((left, right), (right, left)):
            if isinstance(test, Condition):
                term, layout = self.pack(other)
                return Value(self, _guarded(test.predicate, term), layout)
        return Value(self, Mul(self.scalar(left, "`*`"), self.scalar(right, "`*`")))

    def _quotient(self, a: Term, b: Term) -> Term:
        if isinstance(b, Const) and isinstance(b.value, int | Fraction):
            if b.value == 0:
                raise self.error("this divides by zero")
            return Mul(Const(Fraction(1, 1) / b.value), a)
        inverse = Call(named("recip"), (b,))
        return inverse if a is Const(1) else Mul(a, inverse)

    def _power(self, a: Term, b: Term) -> Value:
        """Small constant powers by multiplication, others by the black box `pow`."""
        if isinstance(b, Const) and isinstance(b.value, int) and 0 <= b.value <= 4:
            base = self._bind("base", Value(self, a)).term
            if b.value == 0:
                return Value(self, Const(1))
            squares = {1: base}
            if b.value > 1:
                squares[2] = Mul(base, base)
            if b.value == 4:
                square = self._bind("square", Value(self, squares[2])).term
                return Value(self, Mul(square, square))
            return Value(self, Mul(squares[2], base) if b.value == 3 else squares[b.value])
        if b is Const(0.5):
            return Value(self, Call(named("sqrt"), (a,)))
        if b is Const(-1):
            return Value(self, Call(named("recip"), (a,)))
        return Value(self, Call(named("pow"), (a, b)))

    def _index_arithmetic(self, op: str, left: Any, right: Any) -> Any:
        if isinstance(left, IndexEntry) or isinstance(right, IndexEntry):
            if op == "+" and isinstance(right, IndexEntry):
                left, right = right, left
            if op in "+-" and isinstance(left, IndexEntry):
                offset = self.affine(right, "an index")
                moved = left.offset + offset if op == "+" else left.offset - offset
                return IndexEntry(self, left.relation, left.arguments, moved)
            raise self.error(
                "an index array's entry takes only + and - here",
                "an array of integers is an index array; to compute with it, pass floats",
            )
        a, b = self.affine(left, "an index"), self.affine(right, "an index")
        match op:
            case "+":
                return Index(self, a + b)
            case "-":
                return Index(self, a - b)
            case "*" if a.is_constant or b.is_constant:
                return Index(self, b * a.constant if a.is_constant else a * b.constant)
            case "/" | "**" if not (a.names | b.names) & {i for i, _ in self.binders}:
                x, y = (self._size_as_number(Index(self, side)) for side in (a, b))
                return Value(self, self._quotient(x, y)) if op == "/" else self._power(x, y)
            case "*" if not (a.names | b.names) & {i for i, _ in self.binders}:
                x, y = (self._size_as_number(Index(self, side)) for side in (a, b))
                return Value(self, Mul(x, y))
        raise self.error(
            f"`{op}` makes this index not affine",
            "use i, n, constants, +, - and constant multiples; for anything else pass an index array",
        )

    def array(self, k: int, entries: list[Any]) -> Value:
        """`[a, b, c]` is `⊞ i:3. [i=0]·a + [i=1]·b + [i=2]·c`, whose additions are free."""
        self.at(k)
        if not entries:
            raise self.error("an empty list has no type", "use `[0 for i in range(n)]`")
        packed = [self.pack(entry) for entry in entries]
        index = self.name("k")
        types = {term.type for term, _ in packed}
        if len(types) > 1:
            raise self.error("this list's entries have different shapes")
        body, layout = packed[0]
        body = Guard(compare("=", index, 0), body)
        covered = compare("=", index, 0)
        for j, (term, _) in enumerate(packed[1:], 1):
            here = compare("=", index, j)
            body = (
                Add(body, Guard(here, term))
                if term.type == REAL
                else self._entrywise(body, Guard(here, term), covered, here)
            )
            covered = disj(covered, here)
        return Value(self, Gen(index, Affine.of(len(entries)), body), layout)

    def entry(self, k: int, array: Any, *places: Any) -> Any:
        """`x[i]`, `A[i, j]`, `pair[0]`, `R[i, j]`, `x[src[e]]`."""
        self.at(k)
        places = places[0] if len(places) == 1 and isinstance(places[0], tuple) else places
        for place in places:
            array = self._entry(array, place)
        return array

    def _entry(self, array: Any, place: Any) -> Any:
        if isinstance(array, tuple) or (
            isinstance(array, Value) and isinstance(array.type, Product)
        ):
            return self._selection(array, place)
        if isinstance(array, Data):
            return self._data_entry(array, place)
        if not isinstance(array, Value):
            array = Value(self, *self.pack(array))
        if not isinstance(array.type, Array):
            raise self.error(
                "this reads an entry of a scalar",
                "it has fewer dimensions than it has indices here",
            )
        size = array.type.size
        if isinstance(place, IndexEntry):
            return self._gathered(array, place, size)
        a = self.affine(place, "an index")
        if a.is_constant and a.constant < 0 and isinstance(place, int):
            a = size + a.constant  # Python's x[-1]
        return Value(self, At(array.term, a), array.layout)

    def _gathered(self, array: Value, place: IndexEntry, size: Affine) -> Value:
        """`x[src[e]]` is `Σ j:n. [src(e, j)]·x[j]`, which has one term: no addition."""
        here = conj(*self.conditions)
        self.lookups.append(
            Lookup(
                place.relation,
                place.arguments,
                place.offset,
                size,
                tuple(self.binders),
                here,
                self.place,
            )
        )
        index = self.name("j")
        at = Affine.of(index)
        return Value(
            self, self._sum_of(index, size, place.equals(at), At(array.term, at)), array.layout
        )

    def _sum_of(self, index: str, size: Affine, p: Predicate, e: Term) -> Term:
        match e.type:
            case Array(inner, _):
                i = self.name("i")
                return Gen(i, inner, self._sum_of(index, size, p, At(e, Affine.of(i))))
            case Product():
                return Pair(
                    self._sum_of(index, size, p, Proj(0, e)),
                    self._sum_of(index, size, p, Proj(1, e)),
                )
        return Sum(index, size, Guard(p, e))

    def _selection(self, value: Any, place: Any) -> Any:
        parts = value if isinstance(value, tuple) else self.parts(value)
        if isinstance(place, bool) or not isinstance(place, int):
            raise self.error("a tuple's part is chosen by a constant", "write `t[0]` or unpack it")
        if not -len(parts) <= place < len(parts):
            raise self.error(f"part {place} of a tuple of {len(parts)}")
        return parts[place]

    def _data_entry(self, data: Data, place: Any) -> Any:
        if isinstance(data.type, TupleSet):
            raise self.error("a set of tuples has no entries", f"test `(i, j) in {data.name}`")
        arguments = (*data.arguments, self.affine(place, "an index"))
        if len(arguments) < len(data.type.dims):
            return Data(self, data.name, data.type, arguments)
        if isinstance(data.type, Relation):
            related = Related(data.name, arguments)
            self.note(_probe(related))
            return Condition(self, related)
        return IndexEntry(self, data.name, arguments, Affine.of(0))

    # Calls

    def call(self, k: int, function: Any, *arguments: Any, **named_arguments: Any) -> Any:
        self.at(k)
        if not isinstance(function, Value) and hasattr(function, "__tensor_inline__"):
            return function.__tensor_inline__(self, arguments, named_arguments)
        if named_arguments:
            raise self.error("keyword arguments go only to tensor functions")
        handler = _BUILTINS.get(function) if function.__hash__ else None
        if handler is not None:
            return handler(self, *arguments)
        return self._black_box(function, arguments)

    def _black_box(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        plain = int | float | Fraction
        name = getattr(function, "__name__", str(function))
        module = (getattr(function, "__module__", None) or type(function).__module__).split(".")[0]
        if all(isinstance(a, plain) for a in arguments) and module in ("math", "numpy", "builtins"):
            return function(*arguments)
        made = _COMPOSITES.get(name) if module in _MODULES else None
        if made is not None:
            return made(self, *arguments)
        name = _SPELLINGS.get(name, name)
        if module not in _MODULES or name not in NAMES:
            help_ = (
                "write it out with comprehensions and `sum`"
                if module in _MODULES
                else f"decorate `{name}` with @tensor, or use a function of `math` or NumPy"
            )
            raise self.error(f"`{name}` is not in the tensor language", help_)
        f = named(name)
        if len(arguments) != f.arity:
            raise self.error(f"`{name}` takes {f.arity} argument{'s' * (f.arity > 1)} here")
        return Value(self, Call(f, tuple(self.scalar(a, f"`{name}`") for a in arguments)))

    def function(self, name: str, *arguments: Any) -> Value:
        f = named(name)
        return Value(self, Call(f, tuple(self.scalar(a, f"`{name}`") for a in arguments)))

    def length(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return len(value)
        if isinstance(value, Data):
            return Index(self, value.dims[0])
        if isinstance(value, Value) and isinstance(value.type, Array):
            return Index(self, value.type.size)
        raise self.error(f"{kind(value)} has no length", "only arrays have")

    def total(self, value: Any) -> Value:
        term, _ = self.pack(value)
        if not isinstance(term.type, Array) or term.type.element != REAL:
            raise self.error(
                f"`sum` takes an array of scalars, not {describe(term.type)}",
                "sum over indices: `sum(A[i, j] for i in range(n) for j in range(m))`",
            )
        index = self.name("i")
        return Value(self, Sum(index, term.type.size, At(term, Affine.of(index))))

    def extreme(self, name: str, values: tuple[Any, ...]) -> Any:
        """`max(a, b, …)` and `min(a, b, …)` of scalars."""
        if all(isinstance(value, int | float) for value in values):
            return max(values) if name == "maximum" else min(values)
        if len(values) < 2:
            raise self.error(f"the {name} of an array", "compare two scalars at a time")
        result = values[0]
        for value in values[1:]:
            result = self.function(name, result, value)
        return result

    # Whole functions

    def parameter(self, name: str, value: Any) -> tuple[str, ParameterType, Layout]:
        """The parameter that an argument of a call fits."""
        if isinstance(value, Data):
            return name, value.type, None
        if isinstance(value, Index):
            return name, Integer(), None
        term, layout = self.pack(value)
        return name, term.type, layout

    def inline(self, name: str, rewritten: Rewritten, arguments: dict[str, Any]) -> Any:
        """Trace another function's body in place, its lets in the scope of the call."""
        if name in self.stack:
            raise self.error(
                f"`{name}` calls itself",
                "recursion has no size: write a comprehension over `range`",
            )
        outer, place = self.places, self.place
        self.stack.append(name)
        self.places = rewritten.places
        try:
            bound = {x: self._bind(x, value) for x, value in arguments.items()}
            return rewritten.build(self)(**bound)
        finally:
            self.stack.pop()
            self.places, self.place = outer, place

    def apply(self, traced: Traced, arguments: dict[str, Any]) -> Value:
        """Call a derived function: its program, with its parameters bound to the arguments."""
        body = traced.function.body
        values: dict[str, Term] = {}
        sizes: dict[str, Affine] = {}
        for x, type_ in traced.function.parameter_type:
            argument = arguments[x]
            if isinstance(type_, Integer):
                sizes[x] = self.affine(argument, f"`{x}`")
            elif isinstance(argument, Data):
                if argument.name != x:
                    raise self.error(
                        f"`{x}` is `{argument.name}` here",
                        f"name the parameter `{x}` in both functions",
                    )
            else:
                values[x] = self._bind(x, Value(self, self.pack(argument)[0])).term
        applied = statement = substitute(body, values, sizes)
        while isinstance(statement, Let):
            self.note(statement.value)
            statement = statement.body
        return Value(self, applied, traced.layout)


def _probe(related: Related) -> Term:
    """A term that stands for a relation's place in the table of places."""
    return Guard(related, Const(1))


def _guarded(p: Predicate, e: Term) -> Term:
    """`[p]·e`, its condition joined with one that `e` begins with."""
    if isinstance(e, Guard):
        return Guard(conj(p, e.condition), e.body)
    return guard(p, e)


def _is_numpy_scalar(value: Any) -> bool:
    return type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()


def _negative(e: Term) -> Term:
    if isinstance(e, Const) and not isinstance(e.value, Affine):
        return Const(-e.value)
    return Mul(Const(-1), e)


_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: Fraction(a, b) if isinstance(a, int) and isinstance(b, int) else a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
}
_MODULES = ("math", "numpy", "jax")
_SPELLINGS = {
    "fabs": "abs", "absolute": "abs", "arctan": "atan", "arcsin": "asin", "arccos": "acos",
    "arctan2": "atan2", "power": "pow", "reciprocal": "recip", "fmax": "maximum", "fmin": "minimum",
}  # fmt: skip
_COMPOSITES: dict[str, Callable[..., Any]] = {
    "square": lambda t, x: t._power(t.scalar(x, "`square`"), Const(2)),
    "log2": lambda t, x: t._product(1.4426950408889634, t.function("log", x)),
    "log10": lambda t, x: t._product(0.4342944819032518, t.function("log", x)),
    "hypot": lambda t, x, y: t.function(
        "sqrt",
        Value(
            t,
            Add(
                t._power(t.scalar(x, "`hypot`"), Const(2)).term,
                t._power(t.scalar(y, "`hypot`"), Const(2)).term,
            ),
        ),
    ),
}
_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.len: Tracer.length,
    builtins.sum: Tracer.total,
    builtins.abs: lambda t, x: abs(x) if isinstance(x, int | float) else t.function("abs", x),
    builtins.max: lambda t, *xs: t.extreme("maximum", xs),
    builtins.min: lambda t, *xs: t.extreme("minimum", xs),
    builtins.float: lambda t, x: Value(t, t.scalar(x, "`float`")),
}


def stand_in(tracer: Tracer, name: str, type_: ParameterType, layout: Layout) -> Any:
    """What a parameter of this type is called with."""
    match type_:
        case Integer():
            return Index(tracer, Affine.of(name))
        case Relation() | IndexArray() | TupleSet():
            return Data(tracer, name, type_)
    return Value(tracer, Var(name, type_), layout)


def trace(
    name: str,
    rewritten: Rewritten,
    parameters: Sequence[tuple[str, ParameterType, Layout]],
    sizes: frozenset[str],
) -> Traced:
    """Call the function with stand-ins for its parameters, and pack what comes back into a
    Lambda.
    """
    tracer = Tracer()
    tracer.used |= sizes | {x for x, _, _ in parameters}
    arguments = {x: stand_in(tracer, x, t, layout) for x, t, layout in parameters}
    tracer.stack.append(name)
    tracer.places = rewritten.places
    try:
        value = rewritten.build(tracer)(**arguments)
        term, layout = tracer.pack(value)
    except TensorError as error:
        error.place = error.place or rewritten.place_of(error)
        raise
    except (TypeError, ValueError, AttributeError, NameError, IndexError) as error:
        raise TensorError(str(error), place=rewritten.place_of(error)) from error
    body = lets(tracer.scopes[0].bindings, term)
    function = Lambda("arg", tuple((x, t) for x, t, _ in parameters), body)
    return Traced(function, layout, tracer.places_of, tracer.size_names, tuple(tracer.lookups))
