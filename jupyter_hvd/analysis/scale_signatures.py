"""How functions of libraries scale: signatures over exponents, and what the scale analysis asks of a framework."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Protocol

import libcst as cst

from .exponents import ZERO, Exponent
from .values import ValueAnalysis

#: One summand of an exponent: `-1`, `r`, `-b`, `r/2`.
_SUMMAND = re.compile(r"([+-]?)\s*(?:([a-z])|(\d+))(?:/(\d+))?")


@dataclass(frozen=True)
class Term:
    """An exponent over the letters of a signature."""

    constant: Fraction
    letters: tuple[tuple[str, Fraction], ...]
    is_epochs: bool = False

    def at(self, letters: Mapping[str, Exponent]) -> Exponent:
        """Return the exponent for these values of letters; other letters are 0."""
        value = Exponent(self.constant)
        for letter, factor in self.letters:
            value += letters.get(letter, ZERO) * factor
        return value

    @property
    def letter(self) -> str | None:
        """The letter, if the term is exactly one letter; else None."""
        match self.constant, self.letters:
            case 0, ((letter, 1),):
                return letter
        return None


@dataclass(frozen=True)
class Signature:
    """The exponents of a function's arguments and of its result.

    Attributes:
        parameters: name and exponent, in the order of positions; None for an argument of any exponent.
        result: the exponent of a number that it gives, or of the elements of a sequence.
        lengths: where it gives a sequence, its length, the length of its elements, and so on.
        is_numbered: it gives each element with its number, as `enumerate` does.
    """

    parameters: tuple[tuple[str, Term | None], ...]
    result: Term | None
    lengths: tuple[Term, ...] = ()
    is_numbered: bool = False


@cache
def parse_signature(text: str) -> Signature:
    """Parse `name: exponent, … -> [length][length of elements] exponent`, or `… -> #[length]` for elements with their index.

    An exponent is a sum of numbers and letters; `_` is any, `epochs` that of a number of epochs. The letters `l` and `m` are
    the length of the receiver, else of the first argument, and of its elements; `v` is its own exponent, and `u` one that
    nothing determines.

    Raises:
        ValueError: the text is no signature.
    """
    taken, arrow, given = text.partition("->")
    if not arrow:
        raise ValueError(f"no signature: {text}")
    parameters = tuple(
        (name.strip(), None if of.strip() == "_" else _parse_term(of))
        for name, _, of in (each.partition(":") for each in taken.split(",") if each.strip())
    )
    lengths = re.findall(r"\[([^\]]*)\]", given)
    result = re.sub(r"#|\[[^\]]*\]", "", given).strip()
    return Signature(
        parameters,
        None if result in ("", "_") else _parse_term(result),
        tuple(_parse_term(length) for length in lengths),
        is_numbered="#" in given,
    )


def _parse_term(text: str) -> Term:
    """Parse a sum of letters and numbers, such as `l-b` or `r/2`.

    Raises:
        ValueError: the text is no such sum.
    """
    constant, letters, end = Fraction(0), [], 0
    if text.strip() == "epochs":
        return Term(constant, (), is_epochs=True)
    for match in _SUMMAND.finditer(text := text.strip()):
        sign, letter, number, divisor = match.groups()
        factor = Fraction(-1 if sign == "-" else 1, int(divisor or 1))
        if letter:
            letters.append((letter, factor))
        else:
            constant += factor * int(number)
        end = match.end()
    if end != len(text) or not text:
        raise ValueError(f"no exponent: {text!r}")
    return Term(constant, tuple(letters))


@dataclass(frozen=True)
class EntryPoint:
    """A function of the program that a library calls: how often, and with what.

    Attributes:
        frequency: the exponent of the number of its calls: -1 for once a step.
        parameters: exponents of its parameters, `self` left out; None is any.
        takes_batch: its first parameter is a batch, or a tuple of such, that grows with the number of ranks.
    """

    frequency: Fraction | None
    parameters: Sequence[Fraction | None] = field(default=())
    reason: str = ""
    takes_batch: bool = False


@dataclass(frozen=True)
class EditedExponents:
    """The exponents that another edit adds to a number, to a sequence's length, and to its elements' lengths."""

    value: int = 0
    length: int = 0
    of_element: int = 0


class ScaleLibrary(Protocol):
    """The questions of the scale analysis to a framework."""

    def called(self, values: ValueAnalysis, call: cst.Call) -> Signature | None:
        """Return the signature of the called function; None if it is unknown."""

    def attribute(self, values: ValueAnalysis, node: cst.Attribute) -> Signature | None:
        """Return the signature of a library object's attribute, read or set; it has no parameters."""

    def entry_point(self, values: ValueAnalysis, function: cst.CSTNode) -> EntryPoint | None:
        """Return how a library calls a function or lambda of the program; None if it does not."""

    def steps(self, values: ValueAnalysis) -> Mapping[cst.Call, Fraction | None]:
        """Return the calls that are training steps, each with the exponent of how often it must run: -1 if its batches are
        scaled, None if nothing is required.
        """

    def edited(self, values: ValueAnalysis) -> Mapping[cst.BaseExpression, EditedExponents]:
        """Return the expressions that other edits change, mainly batch sizes, with the exponents that they add."""

    def repeated_sizes(self, values: ValueAnalysis) -> Collection[cst.BaseExpression]:
        """Return the constants that are a batch size unless something says otherwise, as 32 of `len(x) // 32`."""

    def is_unscaled_size(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether a number is written as a training's batch size, and no edit multiplies it."""

    def lengths_of_epochs(self, values: ValueAnalysis) -> Collection[cst.BaseExpression]:
        """Return what the program gives a library as the number of steps of an epoch."""

    def step_sites(self, values: ValueAnalysis) -> Collection[cst.Call]:
        """Return the calls that lead to training steps: each that takes one, and those of the functions around it."""

    def fixed_loops(self, values: ValueAnalysis) -> Collection[cst.CSTNode]:
        """Return the iterables whose length does not depend on N, such as a model's variables."""

    def may_count_steps(self, values: ValueAnalysis, call: cst.Call, name: str) -> bool:
        """Whether an unknown library may count steps by the argument of this name, or apply it as a factor each step."""

    def is_data(self, values: ValueAnalysis, iterable: cst.BaseExpression) -> bool:
        """Whether a loop runs over batches, of which there are fewer if they are larger."""

    def accumulates(
        self, values: ValueAnalysis, call: cst.Call
    ) -> tuple[str, cst.BaseExpression] | None:
        """Return `+`, `-` or `=`, and the value, if a method adds to its receiver, subtracts from it or sets it; else None."""

    def is_gradient(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether an expression is computed from gradients: their moments, such as momentum, are not scaled."""

    def is_conversion(self, name: str) -> bool:
        """Whether calling this canonical name returns its first argument in another form, such as an array."""

    def operator_of(self, name: str) -> str:
        """Return which operator or built-in a function stands for: "comparison", "modulus", "power", "zip"; '' for others."""

    def is_range(self, name: str) -> bool:
        """Whether calling this canonical name counts as `range` does, with its arguments."""

    def is_external(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether a number comes from outside the program, and so does not depend on N."""

    def is_whole(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether a library, or an option's type, makes an expression an integer."""
