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
        """Its value where letters stand for these exponents; others are 0."""
        value = Exponent(self.constant)
        for letter, factor in self.letters:
            value += letters.get(letter, ZERO) * factor
        return value

    @property
    def letter(self) -> str | None:
        """The letter that the term is, alone."""
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
def signature(text: str) -> Signature:
    """The signature that is written `name: exponent, … -> [length][length of elements] exponent`, or `… -> #[length]` for
    elements with their numbers.

    An exponent is a sum of numbers and letters; `_` is any, `epochs` that of a number of epochs. The letters `l` and `m` are the
    length of the receiver, else of the first argument, and of its elements, `v` is its own exponent, and `u` one that nothing
    determines.

    Raises:
        ValueError: the text is no signature.
    """
    taken, arrow, given = text.partition("->")
    if not arrow:
        raise ValueError(f"no signature: {text}")
    parameters = tuple(
        (name.strip(), None if of.strip() == "_" else _term(of))
        for name, _, of in (each.partition(":") for each in taken.split(",") if each.strip())
    )
    lengths = re.findall(r"\[([^\]]*)\]", given)
    result = re.sub(r"#|\[[^\]]*\]", "", given).strip()
    return Signature(
        parameters,
        None if result in ("", "_") else _term(result),
        tuple(_term(length) for length in lengths),
        is_numbered="#" in given,
    )


def _term(text: str) -> Term:
    """
    Raises:
        ValueError: the text is no sum of letters and numbers.
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
class Edited:
    """The exponents that another edit adds to a number, to a sequence's length, and to its elements' lengths."""

    value: int = 0
    length: int = 0
    of_element: int = 0


class ScaleLibrary(Protocol):
    """The questions of the scale analysis to a framework."""

    def called(self, values: ValueAnalysis, call: cst.Call) -> Signature | None:
        """The signature of the function that is called; None where nothing is known of it."""

    def attribute(self, values: ValueAnalysis, node: cst.Attribute) -> Signature | None:
        """The signature of an attribute of a library's object, read or set; it has no parameters."""

    def entry_point(self, values: ValueAnalysis, function: cst.CSTNode) -> EntryPoint | None:
        """How a library calls a function or lambda of the program; None where it does not."""

    def steps(self, values: ValueAnalysis) -> Mapping[cst.Call, Fraction | None]:
        """The calls that are training steps, with the exponent of how often each must run: -1 where batches are scaled; None
        where nothing is asked.
        """

    def edited(self, values: ValueAnalysis) -> Mapping[cst.BaseExpression, Edited]:
        """The changes by other edits of the scaled program, mainly to batch sizes."""

    def repeated_sizes(self, values: ValueAnalysis) -> Collection[cst.BaseExpression]:
        """The constants that are the size of a batch where nothing tells otherwise, as 32 of `len(x) // 32`."""

    def is_unscaled_size(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether a number is written as the size of a training batch, and no edit multiplies it."""

    def lengths_of_epochs(self, values: ValueAnalysis) -> Collection[cst.BaseExpression]:
        """What the program gives as the number of steps of an epoch that a library trains."""

    def step_sites(self, values: ValueAnalysis) -> Collection[cst.Call]:
        """The calls that lead to training steps, each that takes one, and those of the functions around."""

    def fixed_loops(self, values: ValueAnalysis) -> Collection[cst.CSTNode]:
        """Iterables that are the same on any number of ranks, such as the variables of a model."""

    def may_count_steps(self, values: ValueAnalysis, call: cst.Call, name: str) -> bool:
        """Whether a library of which nothing is known may count steps by the argument of this name, or forget by it each step."""

    def is_data(self, values: ValueAnalysis, iterable: cst.BaseExpression) -> bool:
        """Whether a loop goes through batches, of which there are fewer where they are larger."""

    def accumulates(
        self, values: ValueAnalysis, call: cst.Call
    ) -> tuple[str, cst.BaseExpression] | None:
        """`+`, `-` or `=` and what a method adds to its receiver, subtracts from it or sets it to."""

    def is_gradient(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether an expression is made of gradients: their moments, as momentum, are not scaled."""

    def is_conversion(self, name: str) -> bool:
        """Whether calling this canonical name gives its first argument in another form, as an array, say."""

    def operator_of(self, name: str) -> str:
        """Which operator calling this canonical name stands for: comparison, modulus or power; '' for any other."""

    def is_range(self, name: str) -> bool:
        """Whether calling this canonical name counts as `range` does, with its arguments."""

    def is_external(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether a number comes from outside the program, and so is the same however many ranks there are."""

    def is_whole(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether a library, or whoever starts the program, gives a whole number here."""
