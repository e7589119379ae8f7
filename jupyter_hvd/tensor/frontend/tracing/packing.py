"""Packing Python values into terms, and the scopes that collect lets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ...language.affine import Affine
from ...language.errors import Place, TensorError
from ...language.function import Function, find_function
from ...language.pairs import Laid, to_pairs
from ...language.predicates import FALSE, TRUE, Predicate, conj, fresh, reserve_generated_names
from ...language.terms import (
    Add,
    At,
    Binder,
    Call,
    Const,
    Gen,
    Guard,
    Mul,
    Pair,
    Proj,
    Term,
    Var,
    guard,
    strip_entries,
    strip_guards,
    substitute,
)
from ...language.types import REAL, Layout, Parameter
from ..captured_data import Reference
from ..tracers import (
    Condition,
    Data,
    Index,
    Nature,
    Selected,
    UnreadableError,
    UnreadableValue,
    Value,
    affine_of,
    data_of,
    describe,
    kind,
)
from .aliasing import Memory
from .trace_result import Access, Lookup


class SizeNamed(Exception):  # noqa: N818 - no error
    """The program names a size, as `n = len(x)` does: what is traced starts again with that name."""

    def __init__(self, size: str, name: str) -> None:
        super().__init__(size, name)
        self.size = size
        self.name = name


@dataclass
class Scope:
    """The lets that belong to a loop's body or a branch, which are bound at its end."""

    bindings: list[tuple[str, Term]] = field(default_factory=list)


class Packing:
    """Places, scopes, and every kind of value as a term or a part of one."""

    # What classes that extend this one define
    holds_here: Callable[[Predicate], bool]
    attribute: Callable[[Any, str], Any]
    built: Callable[..., Any]
    several: Callable[[Any], list[Any]]
    pack_container: Callable[[dict[str, Any] | list[Any]], tuple[Term, Layout]]
    looked_up: Callable[[str, tuple[Affine, ...], Affine], Index]
    as_term: Callable[[Index], Term]
    count_before_call: Callable[[Value], Affine | None]
    as_numbers: Callable[[Data], Value]
    one_case: Callable[[Index], Affine | None]

    def __init__(self) -> None:
        self.places: Sequence[Place] = ()
        self.place: Place | None = None
        self.here = 0
        self.used: set[str] = set()
        self.scopes: list[Scope] = [Scope()]
        self.bound = (
            0  # how many names have been bound, those of what was traced in vain among them
        )
        self.binders: list[Binder] = []
        self.masks: list[Value] = []  # the conditions on data under which statements stand
        self.holding: list[Callable[[], Value]] = []  # and expressions, too
        self.numbers_where: dict[
            Term, Term
        ] = {}  # what these test for being a number, and the test
        self.sizing: frozenset[str] = frozenset()  # indices of loops that are like sizes in them
        self.conditions: list[Predicate] = []
        self.places_of: dict[Term, Place] = {}
        self.reserved: frozenset[str] = frozenset()  # parameters and sizes
        self.integers: set[str] = set()  # parameters that are sizes themselves
        self.numbers: dict[str, Value] = {}  # the index arrays whose entries arrays of numbers have
        self.signed: frozenset[str] = (
            frozenset()
        )  # index arrays of which an entry may count from an axis' end
        self.ends_ascend = True  # of segments, where arrays of integers are such
        self.counting_up: set[str] = (
            set()
        )  # and such as are made of these, which count from its start
        self.nameless: set[str] = set()  # sizes that the program may name
        self.spelt: dict[
            str, str
        ] = {}  # what the program writes for an index, or for a nameless size
        self.methods: dict[Callable[..., Any], None] = {}  # of arguments, that are called
        self.lookups: list[Lookup] = []
        self.accesses: list[Access] = []
        self.stack: list[Any] = []  # the functions whose bodies are being traced
        self.recurrences = 0  # how often one of them has called itself
        self.truths: dict[str, Term] = {}  # names of conditions, or of arrays of them
        self.counting: dict[str, Term] = {}  # names of arrays of indices as numbers
        self.memory = Memory()
        self.arguments: dict[str, Any] = {}  # the stand-ins of parameters
        self.outside: dict[Reference, str] = {}  # the parameters that arrays from outside are
        self.parameters: tuple[Parameter, ...] = ()
        self.argument_values: Mapping[str, Any] = {}  # the arguments of the call that is traced for

    def error(self, message: str, help_: str = "") -> TensorError:
        """Return an error at the present source location, with advice."""
        return TensorError(message, help_, self.place)

    def so_far(self) -> tuple[Any, ...]:
        """Return the present state of tracing, for `back_to`."""
        ends = [len(scope.bindings) for scope in self.scopes]
        checked = len(self.lookups), len(self.accesses)
        known = set(self.used), dict(self.truths), dict(self.counting)
        return ends, checked, known, self.memory.so_far()

    def back_to(self, before: tuple[Any, ...]) -> None:
        """Restore a state that `so_far` returned."""
        ends, (lookups, accesses), known, memory = before
        self.used, self.truths, self.counting = known
        self.memory.back_to(memory)
        for scope, end in zip(self.scopes, ends, strict=True):
            del scope.bindings[end:]
        del self.lookups[lookups:], self.accesses[accesses:]

    def check(self, value: Value) -> None:
        """Raise TensorError if a value has no value here, or shares entries with an array that has been changed since."""
        if value.defined is not None and not self.holds_here(value.defined):
            root, _ = strip_entries(value.unchecked)
            name = self.spelt.get(root.name, root.name) if isinstance(root, Var) else "this name"
            raise self.error(
                f"an `if` gives `{name}` its value, and here it may have none",
                "give it one in the other branch, too, or before the `if`",
            )
        if self.memory.changes and (array := self.memory.outdated(value)):
            raise self.error(
                f"this shares its entries with `{array}`, which has been changed in place since",
                "take a copy before: `old = y.copy()`; or, where `+=` changes it, write `y = y + …`",
            )

    def at(self, k: int) -> None:
        """Move to the k-th source location."""
        self.place = self.places[k]
        self.here = k

    def note(self, term: Term) -> None:
        """Remember the source location of a term, at its first occurrence."""
        if self.place is not None and not isinstance(term, Var | Const):
            self.places_of.setdefault(term, self.place)

    @contextmanager
    def scope(self, binder: Binder | None = None, condition: Predicate = TRUE) -> Iterator[Scope]:
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

    @contextmanager
    def where(self, mask: Callable[[], Value]) -> Iterator[None]:
        """Trace under a condition on data.

        `mask` makes the condition where it is needed, because a name from an inner scope would have no meaning outside.
        """
        self.holding.append(mask)
        before = self.numbers_where
        tested = set(self._tested_for_numbers(mask().term))
        test = mask().term if tested else None
        self.numbers_where = before | {e: test for e in tested if test is not None}
        try:
            yield
        finally:
            self.holding.pop()
            self.numbers_where = before

    def _tested_for_numbers(self, truth: Term) -> Iterator[Term]:
        """Yield the scalars that a condition on data tests for being numbers, or finite."""
        match truth:
            case Var(name) if name in self.truths or self._resolve_name(truth) is not truth:
                yield from self._tested_for_numbers(
                    self.truths.get(name, self._resolve_name(truth))
                )
            case Call(Function(name="equal"), (a, b)) if a is b:
                yield self._resolve_name(a)
            case Call(Function(name="less"), (Call(Function(name="abs"), (a,)), Const(math.inf))):
                yield self._resolve_name(a)
            case Call() | Mul() | Guard():
                for child in truth.children:
                    yield from self._tested_for_numbers(child)

    def as_number(self, e: Term) -> Term:
        """Return a term, or 0 where a condition around says that it is no number: its derivative would be multiplied by that."""
        if not self.numbers_where or not isinstance(e, Var | At) or e.type != REAL:
            return e
        test = self.numbers_where.get(self._resolve_name(e))
        return e if test is None else Call(find_function("kept"), (test, e))

    def name(self, stem: str) -> str:
        """Return an unused name, like `stem`."""
        made = fresh(stem, self.used | {i for i, _ in self.binders})
        self.used.add(made)
        if made != stem:
            self.spelt[made] = self.spelt.get(stem, stem)
        return made

    def times(self, a: Term, b: Term) -> Term:
        """Return `a·b`; for `|x|·|x|` return `x·x`, which has a derivative at 0."""
        inner = self.inside_of_abs(a) if a is b else None
        return Mul(a, b) if inner is None else Mul(inner, inner)

    def inside_of_abs(self, e: Term) -> Term | None:
        """Return x if a term is known to be `|x|`, else None."""
        match self._resolve_name(e):
            case Call(function, (inner,)) if function.name == "abs":
                return inner
        return None

    def _resolve_name(self, e: Term) -> Term:
        """Return what a name, or an entry of a named array, stands for, as far as known here."""
        match e:
            case Var(name):
                bindings = (pair for s in reversed(self.scopes) for pair in reversed(s.bindings))
                found = next((term for bound, term in bindings if bound == name), e)
                return e if found is e else self._resolve_name(found)
            case At(body, index):
                array = self._resolve_name(body)
                if isinstance(array, Gen):
                    return self._resolve_name(substitute(array.body, indices={array.index: index}))
        return e

    # Packing and unpacking

    def pack(self, value: Any) -> tuple[Term, Layout]:
        """Return a Python value of any kind as one term, with its layout."""
        match value:
            case Value():
                return value.term, value.layout
            case Condition():
                return Guard(value.predicate, Const(1)), None
            case Index():
                return self.as_term(value), None
            case UnreadableValue():
                raise UnreadableError(value, self.place)
            case Selected(length=Affine()):
                raise TensorError(
                    "this slice's length depends on an index",
                    "sum it, or take its mean: `np.sum(x[:i])`; or multiply by a mask",
                    value.place,
                )
            case Selected():
                raise TensorError(
                    "data decide how many entries this condition or slice chooses",
                    "sum them, or take their mean: `x[p].sum()`; or keep every entry: `np.where(p, x, 0)`",
                    value.place,
                )
            case bool():
                return Const(int(value)), None
            case int() | float() | Fraction():
                if value != value:
                    return self.not_a_number, None
                return Const(value), None
            case tuple():
                if not value:
                    raise self.error("an empty tuple is not a value", "give it a part")
                parts = [self.pack(part) for part in value]
                term = to_pairs([part for part, _ in parts], Pair)
                layouts = tuple(layout for _, layout in parts)
                return term, Laid(layouts, value.form) if isinstance(value, Laid) else layouts
            case dict() | list():
                return self.pack_container(value)
        if is_numpy_scalar(value):
            return self.pack(value.item())
        if hasattr(value, "shape"):
            raise self.error(
                "this array is not a parameter", "pass it as one, or write its entries out"
            )
        raise self.error(
            f"a {type(value).__name__} is not a tensor", "use numbers, arrays and tuples"
        )

    @property
    def not_a_number(self) -> Term:
        """NaN as `∞ - ∞`, because the language has no such constant."""
        return Add(Const(math.inf), Const(-math.inf))

    def index_term(self, a: Affine) -> Term:
        """Return an affine expression as a number."""
        return Const(a if a.terms else a.constant)

    def scalar(self, value: Any, subject: str) -> Term:
        """Return a value as a term of type ℝ.

        Args:
            subject: what needs it, for the error.

        Raises:
            TensorError: it is no scalar.
        """
        term, _ = self.pack(value)
        if term.type != REAL:
            raise self.error(
                f"{subject} takes scalars, not {describe(term.type, self.spelt)}",
                "write it entry by entry: `[… for i in range(n)]`",
            )
        return term

    def affine(self, value: Any, subject: str) -> Affine:
        """Return a value as an affine expression of indices and sizes.

        Args:
            subject: what needs it, for the error.

        Raises:
            TensorError: it is none.
        """
        if (a := affine_of(value)) is not None:
            return a
        if (data := data_of(value)) is not None:
            value = data
        if isinstance(value, Index):
            if value.sought is not None:
                message, help_ = value.sought.refusal
                raise self.error(message.format(what=subject), help_)
            if (only := self.one_case(value)) is not None:
                return only
            raise self.error(
                f"{subject} takes one affine expression, and indices decide which of several this is",
                "write an `if` around what takes it: `if i < n: …`",
            )
        if isinstance(value, Value) and (count := self.count_before_call(value)) is not None:
            return count
        help_ = "use i, n, constants, +, - and multiples: `x[2*i + 1]`; for data, an index array"
        if isinstance(value, Value) and value.type == REAL:
            help_ = (
                "make an integer of it, `int(np.floor(t))`, or read an index array; after `while p:  # at most n` "
                "integers may be NaN: write `for _ in range(n):` and `break`"
            )
        raise self.error(
            f"{subject} takes an affine expression of indices and sizes, not {kind(value)}", help_
        )

    def condition(self, value: Any) -> Predicate:
        """Return a value as a predicate over indices; TensorError if data decide it."""
        match value:
            case Condition():
                return value.predicate
            case bool():
                return TRUE if value else FALSE
            case Value() if strip_guards(value.term)[1] is Const(1):
                return strip_guards(value.term)[0]
        if is_numpy_scalar(value) and isinstance(value.item(), bool):
            return TRUE if value.item() else FALSE
        raise self.error(
            f"a condition is about indices and relations, not {kind(value)}",
            "compare indices, read a boolean array, or use `np.maximum` and the like for data",
        )

    def parts(self, value: Value) -> list[Value]:
        """Return the parts of a tuple."""
        assert value.layout is not None
        made, term = [], value.term
        nature = Nature(shares=self.memory.of(value))
        for k, layout in enumerate(value.layout):
            last = k == len(value.layout) - 1
            made.append(Value(self, term if last else Proj(0, term), layout).of_nature(nature))
            term = term if last else Proj(1, term)
        return made

    # Statements

    def bind(self, k: int, name: str, value: Any) -> Any:
        """Return the value that a name has after an assignment: a let."""
        self.at(k)
        return self._bind(name, value)

    def _bind(self, name: str, value: Any) -> Any:
        """Bind a value to a name without a source location: costly terms get a let, containers part by part."""
        size = a.name if (a := affine_of(value)) is not None else None
        if size is not None and size in self.nameless and not self.binders:
            self.nameless.remove(size)
            if reserve_generated_names(name) not in self.reserved:
                raise SizeNamed(size, reserve_generated_names(name))
        if isinstance(value, tuple):
            parts = tuple(self._bind(f"{name}_{j}", part) for j, part in enumerate(value))
            return value.with_parts(parts) if isinstance(value, Laid) else parts
        if isinstance(value, dict):  # the same object, for it may have other names
            unnamed = [x for x, part in value.items() if isinstance(part, Value)]
            value |= {x: self._bind(f"{name}_{x}", value[x]) for x in unnamed}
            return value
        if isinstance(value, Value) and not value.data and not isinstance(value.term, Var | Const):
            bound = self.name(name)
            self.scopes[-1].bindings.append((bound, value.term))
            self.bound += 1
            if is_truth(value.term):
                self.truths[bound] = value.term
            if is_counting(value.term):
                self.counting[bound] = value.term
            if value.nature.shares:
                self.memory.name(bound, value.nature.shares)
            made = Value(self, Var(bound, value.type), value.layout).of_nature(value.nature)
            made.written = value.written
            return made
        return value

    def result(self, k: int, value: Any) -> Any:
        """Check and return what the function returns: anything that can be packed."""
        self.at(k)
        self.pack(value)
        return value


def is_numpy_scalar(value: Any) -> bool:
    """Whether a value is NumPy's kind of a single number."""
    return type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()


def guarded(p: Predicate, e: Term) -> Term:
    """Return `[p]·e`; conditions at the start of e are joined with p."""
    if isinstance(e, Guard):
        return Guard(conj(p, e.condition), e.body)
    return guard(p, e)


def is_truth(e: Term) -> bool:
    """Whether a term is an indicator, 1 or 0, or an array of such: a comparison, or what is made of
    comparisons.
    """
    match e:
        case Gen(_, _, body) | Guard(_, body):
            return is_truth(body)
        case Mul(left, right):
            return is_truth(left) and is_truth(right)
        case Call(function, arguments):
            if function.name == "maximum":
                return all(map(is_truth, arguments))
            return function.name in ("less", "less_equal", "equal", "picks")
    return e is Const(1)


def is_rounded(e: Term) -> bool:
    """Whether a term is a rounded number, or an array of such."""
    match e:
        case Gen(_, _, body) | Mul(Const(-1), body):
            return is_rounded(body)
        case Call(function, _):
            return function.name in ("floor", "rint", "trunc")
    return False


def is_counting(e: Term) -> bool:
    """Whether a term is an array of indices as numbers, `np.arange(n)`."""
    while isinstance(e, Gen):
        e = e.body
    return isinstance(e, Const) and isinstance(e.value, Affine)
