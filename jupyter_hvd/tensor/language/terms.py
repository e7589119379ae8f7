"""The core language (Fig. 3): immutable, hash-consed, typed terms, and substitution on them.

    e ::= x | c | e+e | e·e | f(e,…) | (e,e) | π0 e | π1 e | ⊞ i:n. e | Σ i:n. e | e[a] | [p]·e | let x = e in e
        | iterate k:n. x := e, … in e | F(e,…)

The last two are not the paper's: docs/recurrences-reference.md has the meaning of a loop, its cost and its
derivatives, `definition` that of an array-level function.

A term checks its own type when it is built. Equal terms are one object. Index variables, sizes
and value variables are names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, NamedTuple

from . import predicates
from .affine import Affine
from .definition import Definition, Work
from .depth import deep_recursion
from .function import Function
from .hashcons import HashConsed
from .pairs import to_pairs
from .predicates import NamesInUse, Predicate, conj, fresh
from .printer import Precedence, Style, show
from .provenance import came_from
from .types import REAL, Array, ParameterType, Product, Type, array, dimensions

Number = int | float | Fraction
_NONE: frozenset[str] = frozenset()


class Term(metaclass=HashConsed):
    """A term of the core language."""

    type: Type
    __match_args__: ClassVar[tuple[str, ...]] = ()

    @cached_property
    def children(self) -> tuple[Term, ...]:
        """The terms that it is built from, in order."""
        return tuple(part for part in self._constructor_arguments() if isinstance(part, Term))

    @cached_property
    def variables(self) -> frozenset[str]:
        """The value variables that occur free."""
        return _NONE.union(*(child.variables for child in self.children))

    @cached_property
    def names(self) -> frozenset[str]:
        """The index variables and sizes that occur free, those in types of variables apart."""
        parts = (
            part for part in self._constructor_arguments() if isinstance(part, Affine | Predicate)
        )
        return _NONE.union(*(part.names for part in (*self.children, *parts)))

    def over(self, *children: Term) -> Term:
        """Return a term of the same constructor with other children."""
        if not children:
            return self
        rest = iter(children)
        parts = (
            next(rest) if isinstance(part, Term) else part for part in self._constructor_arguments()
        )
        return type(self)(*parts)

    def _constructor_arguments(self) -> tuple[object, ...]:
        """Return the arguments of the constructor, in order."""
        return tuple(getattr(self, name) for name in self.__match_args__)

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        raise NotImplementedError

    @deep_recursion()
    def __str__(self) -> str:
        return show(self)


def _set_type(term: Term, type_: Type) -> None:
    """Set the type of a new term; terms are immutable otherwise."""
    object.__setattr__(term, "type", type_)


def _require_scalar(constructor: str, *terms: Term) -> None:
    """Raise TypeError if a term is not a scalar."""
    for term in terms:
        if term.type != REAL:
            raise TypeError(f"{constructor} takes scalars, not {term.type}")


@dataclass(frozen=True, eq=False)
class Var(Term):
    """A value variable of a declared type."""

    name: str
    declared: Type

    def __post_init__(self) -> None:
        _set_type(self, self.declared)

    @cached_property
    def variables(self) -> frozenset[str]:
        return frozenset((self.name,))

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        return s.name(self.name), Precedence.ATOM


@dataclass(frozen=True, eq=False)
class Const(Term):
    """A number; or an affine expression of sizes, which a call turns into a number."""

    numeric: ClassVar[bool] = True

    value: Number | Affine

    def __post_init__(self) -> None:
        _set_type(self, REAL)

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        return s.number(self.value), Precedence.ATOM


@dataclass(frozen=True, eq=False)
class Add(Term):
    left: Term
    right: Term

    def __post_init__(self) -> None:
        _require_scalar("+", self.left, self.right)
        _set_type(self, REAL)

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        left, right = (
            s.bracket_part(self.left, Precedence.SUM),
            s.bracket_part(self.right, Precedence.PRODUCT),
        )
        return f"{left}{s.plus}{right}", Precedence.SUM


@dataclass(frozen=True, eq=False)
class Mul(Term):
    left: Term
    right: Term

    def __post_init__(self) -> None:
        _require_scalar("·", self.left, self.right)
        _set_type(self, REAL)

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        # A guard on the left would take the whole product, so it is bracketed.
        first = Precedence.PRODUCT if isinstance(self.left, Mul) else Precedence.PREFIX
        return (
            f"{s.bracket_part(self.left, first)}{s.dot}{s.bracket_part(self.right, Precedence.PREFIX)}",
            Precedence.PRODUCT,
        )


@dataclass(frozen=True, eq=False)
class Call(Term):
    """A primitive scalar function applied to scalars."""

    function: Function
    arguments: tuple[Term, ...]

    def __post_init__(self) -> None:
        _require_scalar(self.function.name, *self.arguments)
        if len(self.arguments) != self.function.arity:
            raise TypeError(f"{self.function.name} takes {self.function.arity} arguments")
        _set_type(self, REAL)

    @cached_property
    def children(self) -> tuple[Term, ...]:
        return self.arguments

    def over(self, *children: Term) -> Term:
        """Return a call of the same function with other arguments."""
        return Call(self.function, children)

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        inside = ", ".join(s.bracket_part(argument, Precedence.BODY) for argument in self.arguments)
        return s.call.format(s.name(self.function.name), inside), Precedence.ATOM


@dataclass(frozen=True, eq=False)
class Pair(Term):
    """`(first, second)`."""

    first: Term
    second: Term

    def __post_init__(self) -> None:
        _set_type(self, Product(self.first.type, self.second.type))

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        return (
            f"({s.bracket_part(self.first, Precedence.BODY)}, {s.bracket_part(self.second, Precedence.BODY)})",
            Precedence.ATOM,
        )


@dataclass(frozen=True, eq=False)
class Proj(Term):
    """`π0 e` or `π1 e`."""

    side: int
    body: Term

    def __post_init__(self) -> None:
        if not isinstance(self.body.type, Product):
            raise TypeError(f"π{self.side} takes a pair, not {self.body.type}")
        _set_type(self, (self.body.type.first, self.body.type.second)[self.side])

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        return s.proj.format(
            self.side, s.bracket_part(self.body, Precedence.PREFIX)
        ), Precedence.PREFIX


@dataclass(frozen=True, eq=False)
class Loop(Term):
    """What binds an index of a range: an array or a sum."""

    index: str
    size: Affine
    body: Term

    def __post_init__(self) -> None:
        raise NotImplementedError

    @cached_property
    def names(self) -> frozenset[str]:
        return (self.body.names - {self.index}) | self.size.names

    def _spell_loop(self, s: Style, binder: str) -> tuple[str, Precedence]:
        """Return the text of an array or sum, with its binder's format, and its precedence."""
        inside = s.bracket_part(self.body, Precedence.BODY)
        return binder.format(s.name(self.index), s.affine(self.size), inside), Precedence.BODY


class Gen(Loop):
    """`⊞ index:size. body`, an array."""

    def __post_init__(self) -> None:
        _set_type(self, Array(self.size, self.body.type))

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        return self._spell_loop(s, s.gen)


class Sum(Loop):
    """`Σ index:size. body`."""

    def __post_init__(self) -> None:
        _require_scalar("Σ", self.body)
        _set_type(self, REAL)

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        return self._spell_loop(s, s.sum)


@dataclass(frozen=True, eq=False)
class At(Term):
    """`body[index]`."""

    body: Term
    index: Affine

    def __post_init__(self) -> None:
        if not isinstance(self.body.type, Array):
            raise TypeError(f"only an array has entries, not {self.body.type}")
        _set_type(self, self.body.type.element)

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        array, indices = strip_entries(self)
        inside = ", ".join(map(s.affine, indices))
        return f"{s.bracket_part(array, Precedence.ATOM)}[{inside}]", Precedence.ATOM


@dataclass(frozen=True, eq=False)
class Guard(Term):
    """`[condition]·body`, Iverson's bracket; it does not evaluate the body where the condition
    fails.
    """

    condition: Predicate
    body: Term

    def __post_init__(self) -> None:
        _set_type(self, self.body.type)

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        condition, body = (
            s.bracket_part(self.condition, Precedence.BODY),
            s.bracket_part(self.body, Precedence.PRODUCT),
        )
        return s.guard.format(condition, body), Precedence.PRODUCT


@dataclass(frozen=True, eq=False)
class Let(Term):
    """`let name = value in body`."""

    name: str
    value: Term
    body: Term

    def __post_init__(self) -> None:
        _set_type(self, self.body.type)

    @cached_property
    def variables(self) -> frozenset[str]:
        return self.value.variables | (self.body.variables - {self.name})

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        bound = s.bracket_part(
            self.value, Precedence.SUM if isinstance(self.value, Let) else Precedence.BODY
        )
        return s.let.format(
            s.name(self.name), bound, s.bracket_part(self.body, Precedence.BODY)
        ), Precedence.BODY


@dataclass(frozen=True, eq=False)
class Apply(Term):
    """`F(e, …)`: an array-level function applied to arrays."""

    definition: Definition
    arguments: tuple[Term, ...]

    def __post_init__(self) -> None:
        operands = [dimensions(e.type) for e in self.arguments]
        for e, dims in zip(self.arguments, operands, strict=True):
            if e.type != array(dims):
                raise TypeError(f"{self.definition.name} takes arrays of reals, not {e.type}")
        _set_type(self, array(self.definition.result_dimensions(operands)))

    @cached_property
    def children(self) -> tuple[Term, ...]:
        return self.arguments

    def over(self, *children: Term) -> Term:
        """Return an application of the same function to other arguments."""
        return Apply(self.definition, children)

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        inside = ", ".join(s.bracket_part(argument, Precedence.BODY) for argument in self.arguments)
        return s.call.format(s.name(self.definition.name), inside), Precedence.ATOM


@dataclass(frozen=True, eq=False)
class Iterate(Term):
    """`iterate index:size. x := e0, … in body`: every value of what a loop carries.

    The names begin as `starts`, scalars or arrays of reals, and each iteration makes of them what the
    body is, of several the nested pairs. The term is, for each name, the array of its `size + 1`
    values, the start first and what the last iteration leaves last; of several, nested pairs of these.
    """

    index: str
    size: Affine
    names_bound: tuple[str, ...]
    starts: tuple[Term, ...]
    body: Term

    def __post_init__(self) -> None:
        types = [start.type for start in self.starts]
        for type_ in types:
            if type_ != array(dimensions(type_)):
                raise TypeError(f"a loop carries arrays of reals, not {type_}")
        if self.body.type != to_pairs(types, Product):
            raise TypeError(f"an iteration makes {self.body.type} of {to_pairs(types, Product)}")
        histories: list[Type] = [Array(self.size + 1, type_) for type_ in types]
        _set_type(self, to_pairs(histories, Product))

    @cached_property
    def children(self) -> tuple[Term, ...]:
        return (*self.starts, self.body)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The free value variables."""
        outside = _NONE.union(*(start.variables for start in self.starts))
        return outside | (self.body.variables - {*self.names_bound})

    @cached_property
    def names(self) -> frozenset[str]:
        """The free indices and sizes."""
        outside = self.size.names.union(*(start.names for start in self.starts))
        return outside | (self.body.names - {self.index})

    @property
    def carried(self) -> tuple[Var, ...]:
        """The names, as the body reads them."""
        pairs = zip(self.names_bound, self.starts, strict=True)
        return tuple([Var(name, start.type) for name, start in pairs])

    def over(self, *children: Term) -> Term:
        """Return the same loop with other start values and another body, the last child."""
        return Iterate(self.index, self.size, self.names_bound, children[:-1], children[-1])

    def written(self, s: Style) -> tuple[str, Precedence]:
        """Return the text in a style, and its precedence."""
        starts = ", ".join(
            f"{s.name(name)} := {s.bracket_part(start, Precedence.SUM)}"
            for name, start in zip(self.names_bound, self.starts, strict=True)
        )
        inside = s.bracket_part(self.body, Precedence.BODY)
        index, size = s.name(self.index), s.affine(self.size)
        return s.iterate.format(index, size, starts, inside), Precedence.BODY


@dataclass(frozen=True)
class Lambda:
    """A whole function: its parameter, packed into one struct of named fields, and its body.

    The body's free value variables are the fields of the parameter; its free index names are
    sizes, bound by the fields' types.
    """

    parameter_name: str
    parameter_type: tuple[tuple[str, ParameterType], ...]
    body: Term

    @deep_recursion()
    def __str__(self) -> str:
        fields = ", ".join(f"{name}:{type_}" for name, type_ in self.parameter_type)
        return f"λ({fields}).\n{show(self.body)}"


class Binder(NamedTuple):
    """`name:size`: an index that runs over `0 ≤ name < size`."""

    name: str
    size: Affine


Binders = tuple[Binder, ...]


def number_binders(stem: str, sizes: Iterable[Affine]) -> Binders:
    """Return binders over these sizes, named `stem0`, `stem1`, …"""
    return tuple([Binder(f"{stem}{k}", size) for k, size in enumerate(sizes)])


def index_names(binders: Iterable[Binder]) -> tuple[str, ...]:
    """Return the indices of some binders."""
    return tuple([name for name, _ in binders])


def in_ranges(binders: Iterable[Binder]) -> tuple[Affine, ...]:
    """Return the sizes of some binders."""
    return tuple([size for _, size in binders])


def index_values(binders: Binders, values: Iterable[Affine]) -> dict[str, Affine]:
    """Return a substitution that gives each index its value; indices that keep theirs are left out."""
    pairs = zip(index_names(binders), values, strict=True)
    return {index: a for index, a in pairs if a.name != index}


def indices_equal(binders: Binders, values: Iterable[Affine | str]) -> Predicate:
    """Return the predicate `i=a ∧ …`, each index equal to its value."""
    same = zip(index_names(binders), values, strict=True)
    return conj(*(predicates.compare("=", i, a) for i, a in same))


def guard(p: Predicate, e: Term) -> Term:
    """Return `[p]·e`; `e` itself if p is true."""
    return e if p == predicates.TRUE else Guard(p, e)


def gens(binders: Binders, body: Term) -> Term:
    """Return `⊞` over several binders, the first outermost."""
    for index, size in reversed(binders):
        body = Gen(index, size, body)
    return body


def strip_gens(e: Term) -> tuple[Binders, Term]:
    """Split `⊞ i… . e` into its binders and its body."""
    binders: list[Binder] = []
    while isinstance(e, Gen):
        binders.append(Binder(e.index, e.size))
        e = e.body
    return tuple(binders), e


def sums(binders: Binders, body: Term) -> Term:
    """Return `Σ` over several binders, the first outermost."""
    for index, size in reversed(binders):
        body = Sum(index, size, body)
    return body


def lets(bindings: Iterable[tuple[str, Term]], body: Term) -> Term:
    """Return `let` for several bindings, the first outermost."""
    for name, value in reversed(tuple(bindings)):
        body = Let(name, value, body)
    return body


def entry(e: Term, *indices: Affine) -> Term:
    """Return `e[a0]…[ak]`."""
    for a in indices:
        e = At(e, a)
    return e


def strip_entries(e: Term) -> tuple[Term, tuple[Affine, ...]]:
    """Split `e[a0]…[ak]` into `(e, (a0, …, ak))`."""
    indices: list[Affine] = []
    while isinstance(e, At):
        indices.append(e.index)
        e = e.body
    return e, tuple(reversed(indices))


def strip_guards(e: Term) -> tuple[Predicate, Term]:
    """Split `([p]·[q]·…e)` into `(p∧q∧…, e)`."""
    p = predicates.TRUE
    while isinstance(e, Guard):
        p, e = conj(p, e.condition), e.body
    return p, e


def components(e: Term, count: int) -> tuple[Term, ...]:
    """Return the parts of `count` nested pairs; of a guarded pair, the guarded parts (5.16)."""
    if count == 1:
        return (e,)
    match e:
        case Guard(condition, body):
            return tuple([Guard(condition, part) for part in components(body, count)])
        case Pair(first, rest):
            return (first, *components(rest, count - 1))
    return (Proj(0, e), *components(Proj(1, e), count - 1))


def strip_sums(e: Term) -> tuple[Binders, Predicate, Term]:
    """Split `Σ i… [p]·e` into binders, predicate and body, which (4.30) counts jointly."""
    binders: list[Binder] = []
    while isinstance(e, Sum):
        binders.append(Binder(e.index, e.size))
        e = e.body
    p, body = (e.condition, e.body) if isinstance(e, Guard) else (predicates.TRUE, e)
    for k, (index, size) in enumerate(binders):
        hidden = {later for later, _ in binders[k + 1 :]}
        if index in hidden:  # The body means the inner one; the outer one needs another name.
            binders[k] = Binder(fresh(index, hidden | e.names | {*index_names(binders)}), size)
    return tuple(binders), p, body


def work_of_application(e: Apply) -> Iterator[tuple[Binders, Work]]:
    """Yield the operations of an array-level function, each with the indices at which it takes place."""
    operands = [dimensions(x.type) for x in e.arguments]
    batch = e.definition.batch_dimensions(operands)
    for work in e.definition.cost(*e.definition.own_dimensions(operands)):
        yield (*number_binders("δ", batch), *(Binder(i, n) for i, n in work.ranges)), work


def rebuild(e: Term, transform: Callable[[Term], Term]) -> Term:
    """Return the same constructor over the transformed children."""
    return came_from(e.over(*map(transform, e.children)), e)


def substitute(
    e: Term,
    variables: Mapping[str, Term] = {},
    indices: Mapping[str, Affine] = {},
) -> Term:
    """Replace free value variables by terms and free index variables by affine expressions,
    without capture.
    """
    if e.variables.isdisjoint(variables) and e.names.isdisjoint(indices):
        return e
    return came_from(_substitute_uncached(e, variables, indices), e)


def _substitute_uncached(
    e: Term, variables: Mapping[str, Term], indices: Mapping[str, Affine]
) -> Term:
    """Replace free variables and indices in a term; bound names are renamed to avoid capture."""
    match e:
        case Var(name):
            return variables.get(name, e)
        case Const(Affine() as value):
            return Const(value.substitute(indices))
        case At(body, index):
            return At(substitute(body, variables, indices), index.substitute(indices))
        case Guard(condition, body):
            condition = predicates.substitute(condition, indices)
            return Guard(condition, substitute(body, variables, indices))
        case Gen(index, size, body) | Sum(index, size, body):
            inner = {i: a for i, a in indices.items() if i != index and i in e.names}
            used = [t for x, t in variables.items() if x in e.variables]
            taken = _NONE.union(*(a.names for a in inner.values()), *(t.names for t in used))
            bound = fresh(index, taken | (body.names - {index})) if index in taken else index
            if bound != index:
                inner[index] = Affine.of(bound)
            body = substitute(body, variables, inner)
            return type(e)(bound, size.substitute(indices), body)
        case Let(name, value, body):
            value = substitute(value, variables, indices)
            kept = {x: t for x, t in variables.items() if x != name and x in e.variables}
            taken = _NONE.union(*(t.variables for t in kept.values()))
            bound = fresh(name, taken | (body.variables - {name})) if name in taken else name
            if bound != name or value.type != e.value.type:
                kept[name] = Var(bound, value.type)
            return Let(bound, value, substitute(body, kept, indices))
        case Iterate():
            return _substitute_in_loop(e, variables, indices)
    return rebuild(e, lambda child: substitute(child, variables, indices))


def _substitute_in_loop(
    e: Iterate, variables: Mapping[str, Term], indices: Mapping[str, Affine]
) -> Term:
    """Replace free variables and indices in a loop; bound names are renamed to avoid capture."""
    inner = {i: a for i, a in indices.items() if i != e.index and i in e.names}
    kept = {x: t for x, t in variables.items() if x not in e.names_bound and x in e.variables}
    hidden = _NONE.union(*(a.names for a in inner.values()), *(t.names for t in kept.values()))
    index = fresh(e.index, hidden | (e.body.names - {e.index})) if e.index in hidden else e.index
    if index != e.index:
        inner[e.index] = Affine.of(index)
    taken = _NONE.union(*(t.variables for t in kept.values()))
    names: list[str] = []
    starts = tuple([substitute(start, variables, indices) for start in e.starts])
    for name, before, after in zip(e.names_bound, e.starts, starts, strict=True):
        avoided = taken | e.body.variables | {*e.names_bound, *names}
        names.append(fresh(name, avoided) if name in taken else name)
        if names[-1] != name or before.type != after.type:
            kept[name] = Var(names[-1], after.type)
    size = e.size.substitute(indices)
    return Iterate(index, size, tuple(names), starts, substitute(e.body, kept, inner))


def uniquify(e: Term, taken: Iterable[str] = ()) -> Term:
    """Rename bound variables and indices so that none is bound twice or hides a free one ("no
    reuse of names", Fig. 7).
    """
    used = NamesInUse({*taken, *e.variables, *e.names})

    def rename(e: Term) -> Term:
        match e:
            case Gen(index, size, body) | Sum(index, size, body):
                bound = used.take_fresh(index)
                if bound != index:
                    body = substitute(body, indices={index: Affine.of(bound)})
                return came_from(type(e)(bound, size, rename(body)), e)
            case Let(name, value, body):
                value = rename(value)
                bound = used.take_fresh(name)
                if bound != name:
                    body = substitute(body, {name: Var(bound, value.type)})
                return Let(bound, value, rename(body))
            case Iterate(index, size, names, starts, body):
                starts = tuple(map(rename, starts))
                at, renamed = used.take_fresh(index), [used.take_fresh(name) for name in names]
                meant = {x: Var(y, t.type) for x, y, t in zip(names, renamed, starts, strict=True)}
                body = rename(substitute(body, meant, {index: Affine.of(at)}))
                return came_from(Iterate(at, size, tuple(renamed), starts, body), e)
        return rebuild(e, rename)

    return rename(e)
