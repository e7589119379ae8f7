"""Reads what `printer` writes: `parse(show(e), types) is e`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import TypeVar

from .affine import Affine
from .definition import definition, is_defined
from .function import Cotangent, Derivation, Function, Partial, Total, named
from .predicates import FALSE, TRUE, Predicate, Related, compare, conj, disj, exists
from .terms import (
    Add,
    Apply,
    At,
    Call,
    Const,
    Gen,
    Guard,
    Iterate,
    Lambda,
    Let,
    Mul,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
)
from .types import (
    REAL,
    Array,
    IndexArray,
    Integer,
    ParameterType,
    Product,
    Real,
    Relation,
    TupleSet,
    Type,
)

_TOKEN = re.compile(
    r"\s*(\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+|π[01]|[ℝℤ𝔹λ]|(?:∂|[^\W\dℝℤ𝔹λπ])[\w′∂]*|\S)"
)


def parse(text: str, types: Mapping[str, Type]) -> Term:
    """The term that `text` prints, given the types of its free variables. Raises ValueError
    where it is none.
    """
    parser = _Parser(text, dict(types))
    return parser.finished(parser.expression())


def parse_lambda(text: str) -> Lambda:
    """The function that `text` prints."""
    parser = _Parser(text, {})
    return parser.finished(parser.function())


def parse_predicate(text: str) -> Predicate:
    """The predicate that `text` prints."""
    parser = _Parser(text, {})
    return parser.finished(parser.predicate())


T = TypeVar("T")


class _Parser:
    def __init__(self, text: str, types: dict[str, Type]) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0
        self.types = types

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.next
        if not token or (expected is not None and token != expected):
            before = " ".join(self.tokens[max(0, self.at - 8) : self.at])
            raise ValueError(f"expected {expected or 'more'} after `{before}`, found `{token}`")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.next == token:
            self.at += 1
            return True
        return False

    def finished(self, result: T) -> T:
        if self.next:
            raise ValueError(f"expected the end, found `{self.next}`")
        return result

    def function(self) -> Lambda:
        self.take("λ")
        self.take("(")
        fields: list[tuple[str, ParameterType]] = []
        while not self.accept(")"):
            name = self.take()
            self.take(":")
            fields.append((name, self.parameter_type()))
            self.accept(",")
        self.take(".")
        self.types |= {name: t for name, t in fields if isinstance(t, Real | Product | Array)}
        return Lambda("arg", tuple(fields), self.expression())

    def parameter_type(self) -> ParameterType:
        if self.accept("{"):
            self.take("ℤ")
            self.take("^")
            arity = int(self.take())
            self.take("}")
            return TupleSet(arity)
        start, dims = self.at, []
        while self.accept("["):
            dims.append(self.affine())
            self.take("]")
        if self.accept("𝔹"):
            return Relation(tuple(dims))
        if self.accept("ℤ"):
            return IndexArray(tuple(dims)) if dims else Integer()
        self.at = start
        return self.type()

    def type(self) -> Type:
        first = self.simple_type()
        return Product(first, self.type()) if self.accept("×") else first

    def simple_type(self) -> Type:
        if self.accept("["):
            size = self.affine()
            self.take("]")
            return Array(size, self.simple_type())
        if self.accept("("):
            inside = self.type()
            self.take(")")
            return inside
        self.take("ℝ")
        return REAL

    def expression(self) -> Term:
        if self.accept("let"):
            name = self.take()
            self.take("=")
            value = self.expression()
            self.take("in")
            return Let(name, value, self._under({name: value.type}, self.expression))
        e = self.product()
        while self.accept("+"):
            e = Add(e, self.product())
        return e

    def _under(self, types: Mapping[str, Type], read: Callable[[], Term]) -> Term:
        before = self.types
        self.types = {**before, **types}
        body = read()
        self.types = before
        return body

    def product(self) -> Term:
        if self.accept("["):
            p = self.predicate()
            self.take("]")
            self.take("·")
            return Guard(p, self.product())
        e = self.prefix()
        while self.accept("·"):
            e = Mul(e, self.prefix())
        return e

    def prefix(self) -> Term:
        for token, make in (("⊞", Gen), ("Σ", Sum)):
            if self.accept(token):
                index, size = self.binder()
                return make(index, size, self.expression())
        if self.accept("iterate"):
            return self.loop()
        if self.next in ("π0", "π1"):
            side = int(self.take()[1])
            return Proj(side, self.prefix())
        e = self.atom()
        while self.accept("["):
            e = At(e, self.affine())
            while self.accept(","):
                e = At(e, self.affine())
            self.take("]")
        return e

    def loop(self) -> Term:
        """What stands after `iterate`."""
        index, size = self.binder()
        starts: dict[str, Term] = {}
        while not starts or self.accept(","):
            name = self.take()
            self.take(":")
            self.take("=")
            starts[name] = self.expression()
        self.take("in")
        body = self._under({x: e.type for x, e in starts.items()}, self.expression)
        return Iterate(index, size, tuple(starts), tuple(starts.values()), body)

    def binder(self) -> tuple[str, Affine]:
        index = self.take()
        self.take(":")
        size = self.affine()
        self.take(".")
        return index, size

    def atom(self) -> Term:
        if self.accept("("):
            e = self.expression()
            if self.accept(","):
                e = Pair(e, self.expression())
            self.take(")")
            return e
        if self.next in ("-", "∞") or self.next[0].isdigit():
            return self.number()
        if self.accept("ℝ"):
            self.take("(")
            size = self.affine()
            self.take(")")
            return Const(size)
        name = self.take()
        if self.accept("("):
            arguments = self.arguments(self.expression)
            if is_defined(name):
                return Apply(definition(name), arguments)
            return Call(_function(name), arguments)
        if name not in self.types:
            raise ValueError(f"`{name}` has no type")
        return Var(name, self.types[name])

    def arguments(self, read: Callable[[], T]) -> tuple[T, ...]:
        """What stands between brackets, of which the first has been taken."""
        found = [read()]
        while self.accept(","):
            found.append(read())
        self.take(")")
        return tuple(found)

    def number(self) -> Const:
        sign = -1 if self.accept("-") else 1
        token = self.take().replace("∞", "inf")
        if self.accept("/"):
            return Const(Fraction(sign * int(token), int(self.take())))
        return Const(sign * (int(token) if token.isdigit() else float(token)))

    def affine(self) -> Affine:
        total = self.affine_term()
        while self.next in ("+", "-"):
            total = total + self.affine_term()
        return total

    def affine_term(self) -> Affine:
        sign = -1 if self.accept("-") else 1
        self.accept("+")
        token = self.take()
        if not token.isdigit():
            return Affine.of(token) * sign
        k = int(token) * sign
        return Affine.of(self.take()) * k if self.accept("·") else Affine.of(k)

    def predicate(self) -> Predicate:
        parts = [self.conjunction()]
        while self.accept("∨"):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else disj(*parts)

    def conjunction(self) -> Predicate:
        parts = [self.condition()]
        while self.accept("∧"):
            parts.append(self.condition())
        return parts[0] if len(parts) == 1 else conj(*parts)

    def condition(self) -> Predicate:
        if self.accept("true"):
            return TRUE
        if self.accept("false"):
            return FALSE
        if self.accept("("):
            p = self.predicate()
            self.take(")")
            return p
        if self.accept("∃"):
            index, size = self.binder()
            return exists(index, size, self.predicate())
        negated = self.accept("¬")
        if negated or self.tokens[self.at + 1 : self.at + 2] == ["("]:
            name = self.take()
            self.take("(")
            return Related(name, self.arguments(self.affine), negated)
        left = self.affine()
        op = self.take()
        return compare(op, left, self.affine())


def _function(name: str) -> Function:
    """The primitive that is printed so; KeyError where there is none."""
    how: Derivation
    with suppress(KeyError):
        return named(name)
    if name.endswith("′"):
        of, how = _function(name[:-1]), Partial(0)
    elif found := re.fullmatch(r"(∂|Dᵀ)(\d)(.+)", name):
        k = int(found[2])
        of, how = _function(found[3]), Partial(k) if found[1] == "∂" else Cotangent(k)
    elif found := re.fullmatch(r"D(\d*)(.+)", name):
        of = _function(found[2])
        how = Total(tuple(map(int, found[1])) or tuple(range(of.arity)))
    else:
        raise KeyError(name)
    made = of.derived(how)
    if made is None:
        raise KeyError(name)
    return made
