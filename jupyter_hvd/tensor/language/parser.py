"""Reads what `printer` writes: `parse(show(e), types) is e`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import TypeVar

from .affine import Affine
from .definition import find_definition, is_defined
from .function import Cotangent, Derivation, Function, Partial, Total, find_function
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
    """Parse the text of a term, given the types of its free variables. Raises ValueError for anything else."""
    parser = _Parser(text, dict(types))
    return parser.check_finished(parser.parse_expression())


def parse_lambda(text: str) -> Lambda:
    """Parse the text of a function."""
    parser = _Parser(text, {})
    return parser.check_finished(parser.parse_function())


def parse_predicate(text: str) -> Predicate:
    """Parse the text of a predicate."""
    parser = _Parser(text, {})
    return parser.check_finished(parser.parse_disjunction())


T = TypeVar("T")


class _Parser:
    def __init__(self, text: str, types: dict[str, Type]) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0
        self.types = types

    @property
    def next(self) -> str:
        """The next token, not yet taken; "" at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take_token(self, expected: str | None = None) -> str:
        """Return the next token and move past it.

        Raises:
            ValueError: there is none, or it is not the expected one.
        """
        token = self.next
        if not token or (expected is not None and token != expected):
            before = " ".join(self.tokens[max(0, self.at - 8) : self.at])
            raise ValueError(f"expected {expected or 'more'} after `{before}`, found `{token}`")
        self.at += 1
        return token

    def accept_token(self, token: str) -> bool:
        """Move past the next token if it is this one; return whether it was."""
        if self.next == token:
            self.at += 1
            return True
        return False

    def check_finished(self, result: T) -> T:
        """Return the result; raise ValueError if tokens are left."""
        if self.next:
            raise ValueError(f"expected the end, found `{self.next}`")
        return result

    def parse_function(self) -> Lambda:
        """Parse `λ(x: T, …). e`."""
        self.take_token("λ")
        self.take_token("(")
        fields: list[tuple[str, ParameterType]] = []
        while not self.accept_token(")"):
            name = self.take_token()
            self.take_token(":")
            fields.append((name, self.parse_parameter_type()))
            self.accept_token(",")
        self.take_token(".")
        self.types |= {name: t for name, t in fields if isinstance(t, Real | Product | Array)}
        return Lambda("arg", tuple(fields), self.parse_expression())

    def parse_parameter_type(self) -> ParameterType:
        """Parse a type, or `{ℤ^k}`, `[n]𝔹`, `[n]ℤ`, `ℤ`."""
        if self.accept_token("{"):
            self.take_token("ℤ")
            self.take_token("^")
            arity = int(self.take_token())
            self.take_token("}")
            return TupleSet(arity)
        start, dims = self.at, []
        while self.accept_token("["):
            dims.append(self.parse_affine())
            self.take_token("]")
        if self.accept_token("𝔹"):
            return Relation(tuple(dims))
        if self.accept_token("ℤ"):
            return IndexArray(tuple(dims)) if dims else Integer()
        self.at = start
        return self.parse_type()

    def parse_type(self) -> Type:
        """Parse `T × T`."""
        first = self.parse_simple_type()
        return Product(first, self.parse_type()) if self.accept_token("×") else first

    def parse_simple_type(self) -> Type:
        """Parse `[n]T`, `(T)` or `ℝ`."""
        if self.accept_token("["):
            size = self.parse_affine()
            self.take_token("]")
            return Array(size, self.parse_simple_type())
        if self.accept_token("("):
            inside = self.parse_type()
            self.take_token(")")
            return inside
        self.take_token("ℝ")
        return REAL

    def parse_expression(self) -> Term:
        """Parse `let x = e in e` or `e + e`."""
        if self.accept_token("let"):
            name = self.take_token()
            self.take_token("=")
            value = self.parse_expression()
            self.take_token("in")
            return Let(name, value, self._parse_under({name: value.type}, self.parse_expression))
        e = self.parse_product()
        while self.accept_token("+"):
            e = Add(e, self.parse_product())
        return e

    def _parse_under(self, types: Mapping[str, Type], read: Callable[[], Term]) -> Term:
        """Parse with more variables in scope."""
        before = self.types
        self.types = {**before, **types}
        body = read()
        self.types = before
        return body

    def parse_product(self) -> Term:
        """Parse `[p]·e` or `e·e`."""
        if self.accept_token("["):
            p = self.parse_disjunction()
            self.take_token("]")
            self.take_token("·")
            return Guard(p, self.parse_product())
        e = self.parse_prefix()
        while self.accept_token("·"):
            e = Mul(e, self.parse_prefix())
        return e

    def parse_prefix(self) -> Term:
        """Parse `⊞ i:n. e`, `Σ i:n. e`, a loop, `π0 e`, or `e[a, …]`."""
        for token, make in (("⊞", Gen), ("Σ", Sum)):
            if self.accept_token(token):
                index, size = self.parse_binder()
                return make(index, size, self.parse_expression())
        if self.accept_token("iterate"):
            return self.parse_loop()
        if self.next in ("π0", "π1"):
            side = int(self.take_token()[1])
            return Proj(side, self.parse_prefix())
        e = self.parse_atom()
        while self.accept_token("["):
            e = At(e, self.parse_affine())
            while self.accept_token(","):
                e = At(e, self.parse_affine())
            self.take_token("]")
        return e

    def parse_loop(self) -> Term:
        """Parse a loop after the word `iterate`."""
        index, size = self.parse_binder()
        starts: dict[str, Term] = {}
        while not starts or self.accept_token(","):
            name = self.take_token()
            self.take_token(":")
            self.take_token("=")
            starts[name] = self.parse_expression()
        self.take_token("in")
        body = self._parse_under({x: e.type for x, e in starts.items()}, self.parse_expression)
        return Iterate(index, size, tuple(starts), tuple(starts.values()), body)

    def parse_binder(self) -> tuple[str, Affine]:
        """Parse `i:n.`."""
        index = self.take_token()
        self.take_token(":")
        size = self.parse_affine()
        self.take_token(".")
        return index, size

    def parse_atom(self) -> Term:
        """Parse a term in brackets, a pair, a number, a variable or a call."""
        if self.accept_token("("):
            e = self.parse_expression()
            if self.accept_token(","):
                e = Pair(e, self.parse_expression())
            self.take_token(")")
            return e
        if self.next in ("-", "∞") or self.next[0].isdigit():
            return self.parse_number()
        if self.accept_token("ℝ"):
            self.take_token("(")
            size = self.parse_affine()
            self.take_token(")")
            return Const(size)
        name = self.take_token()
        if self.accept_token("("):
            arguments = self.parse_arguments(self.parse_expression)
            if is_defined(name):
                return Apply(find_definition(name), arguments)
            return Call(_find_printed_function(name), arguments)
        if name not in self.types:
            raise ValueError(f"`{name}` has no type")
        return Var(name, self.types[name])

    def parse_arguments(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Parse a list of arguments up to its closing bracket, after the opening one."""
        found = [read()]
        while self.accept_token(","):
            found.append(read())
        self.take_token(")")
        return tuple(found)

    def parse_number(self) -> Const:
        """Parse an integer, a float, a fraction or `∞`, with a sign."""
        sign = -1 if self.accept_token("-") else 1
        token = self.take_token().replace("∞", "inf")
        if self.accept_token("/"):
            return Const(Fraction(sign * int(token), int(self.take_token())))
        return Const(sign * (int(token) if token.isdigit() else float(token)))

    def parse_affine(self) -> Affine:
        """Parse a sum of affine terms."""
        total = self.parse_affine_term()
        while self.next in ("+", "-"):
            total = total + self.parse_affine_term()
        return total

    def parse_affine_term(self) -> Affine:
        """Parse `k·i`, `i` or `k`, with a sign."""
        sign = -1 if self.accept_token("-") else 1
        self.accept_token("+")
        token = self.take_token()
        if not token.isdigit():
            return Affine.of(token) * sign
        k = int(token) * sign
        return Affine.of(self.take_token()) * k if self.accept_token("·") else Affine.of(k)

    def parse_disjunction(self) -> Predicate:
        """Parse `p ∨ …`."""
        parts = [self.parse_conjunction()]
        while self.accept_token("∨"):
            parts.append(self.parse_conjunction())
        return parts[0] if len(parts) == 1 else disj(*parts)

    def parse_conjunction(self) -> Predicate:
        """Parse `p ∧ …`."""
        parts = [self.parse_condition()]
        while self.accept_token("∧"):
            parts.append(self.parse_condition())
        return parts[0] if len(parts) == 1 else conj(*parts)

    def parse_condition(self) -> Predicate:
        """Parse `true`, `false`, `(p)`, `∃ i:n. p`, `R(a, …)`, `¬R(a, …)` or a comparison."""
        if self.accept_token("true"):
            return TRUE
        if self.accept_token("false"):
            return FALSE
        if self.accept_token("("):
            p = self.parse_disjunction()
            self.take_token(")")
            return p
        if self.accept_token("∃"):
            index, size = self.parse_binder()
            return exists(index, size, self.parse_disjunction())
        negated = self.accept_token("¬")
        if negated or self.tokens[self.at + 1 : self.at + 2] == ["("]:
            name = self.take_token()
            self.take_token("(")
            return Related(name, self.parse_arguments(self.parse_affine), negated)
        left = self.parse_affine()
        op = self.take_token()
        return compare(op, left, self.parse_affine())


def _find_printed_function(name: str) -> Function:
    """Return the primitive that is printed with this name, derived ones included.

    Raises:
        KeyError: there is none.
    """
    how: Derivation
    with suppress(KeyError):
        return find_function(name)
    if name.endswith("′"):
        of, how = _find_printed_function(name[:-1]), Partial(0)
    elif found := re.fullmatch(r"(∂|Dᵀ)(\d)(.+)", name):
        k = int(found[2])
        of, how = _find_printed_function(found[3]), Partial(k) if found[1] == "∂" else Cotangent(k)
    elif found := re.fullmatch(r"D(\d*)(.+)", name):
        of = _find_printed_function(found[2])
        how = Total(tuple(map(int, found[1])) or tuple(range(of.arity)))
    else:
        raise KeyError(name)
    made = of.derived(how)
    if made is None:
        raise KeyError(name)
    return made
