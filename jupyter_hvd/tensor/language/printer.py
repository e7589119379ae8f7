"""The notation: programs as the paper writes them, in Unicode, which `parser` reads back, and in LaTeX.

A predicate or term writes itself in a `Style`; here are the styles, and what all of them share. Binders
reach as far right as they can and stand in brackets where more follows; `[p]·a·b` guards the whole
product.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from fractions import Fraction
from typing import Protocol

from .affine import Affine
from .depth import deep_recursion


class Precedence(IntEnum):
    """The precedence of a constructor: its operands need the same or a higher one, or brackets."""

    BODY = 0
    SUM = 1
    PRODUCT = 2
    PREFIX = 3
    ATOM = 4


@dataclass(frozen=True)
class Style:
    """How the constructors are spelled."""

    gen: str
    sum: str
    exists: str
    proj: str
    let: str
    iterate: str
    call: str
    dot: str
    plus: str
    guard: str
    conj: str
    disj: str
    negation: str
    true: str
    false: str
    size: str
    brackets: str
    relations: tuple[tuple[str, str], ...]  # how `<`, `≤` and `=` are spelt
    latex: bool = False
    words: Mapping[str, str] = field(default_factory=dict)  # what is written for some names

    def name(self, name: str) -> str:
        """Return the text of a variable, index, size or relation."""
        return _latex_name(name) if self.latex else self.words.get(name, name)

    def affine(self, a: Affine) -> str:
        """Return the text of an index expression."""
        if not self.latex:
            return str(a.rename_names(self.words))
        spelt = re.sub(r"[^\W\d]\w*", lambda m: _latex_name(m[0]), str(a))
        return spelt.replace("·", r" \cdot ")

    def number(self, value: int | float | Fraction | Affine) -> str:
        """Return the text of a constant."""
        if isinstance(value, Affine):
            return self.size.format(self.affine(value))
        if isinstance(value, Fraction):
            return f"{value.numerator}/{value.denominator}"
        if math.isinf(value):
            return ("-" if value < 0 else "") + (r"\infty" if self.latex else "∞")
        return repr(value)

    def compare(self, op: str, left: Affine, right: Affine) -> str:
        """Return the text of `left op right`."""
        return f"{self.affine(left)}{dict(self.relations)[op]}{self.affine(right)}"

    def bracket_part(self, written: Written, level: Precedence) -> str:
        """Print a part of a constructor, in brackets if its precedence is lower than `level`."""
        text, binds = written.written(self)
        return text if binds >= level else self.brackets.format(text)


class Written(Protocol):
    """An object that prints itself in a style, and returns the precedence of its text."""

    def written(self, s: Style) -> tuple[str, Precedence]: ...


UNICODE = Style(
    gen="⊞ {}:{}. {}",
    sum="Σ {}:{}. {}",
    exists="∃ {}:{}. {}",
    proj="π{} {}",
    let="let {} = {} in\n{}",
    iterate="iterate {}:{}. {} in\n{}",
    call="{}({})",
    dot="·",
    plus=" + ",
    guard="[{}]·{}",
    conj=" ∧ ",
    disj=" ∨ ",
    negation="¬",
    true="true",
    false="false",
    size="ℝ({})",
    brackets="({})",
    relations=(("<", "<"), ("≤", "≤"), ("=", "=")),
)

LATEX = Style(
    gen=r"\boxplus_{{{}:{}}}\, {}",
    sum=r"\sum_{{{}:{}}} {}",
    exists=r"\exists_{{{}:{}}}\, {}",
    proj=r"\pi_{{{}}}\, {}",
    let=r"\mathbf{{let}}\ {} = {}\ \mathbf{{in}}\\ {}",
    iterate=r"\mathbf{{iterate}}\ {}:{}.\ {}\ \mathbf{{in}}\\ {}",
    call=r"\operatorname{{{}}}({})",
    dot=r" \cdot ",
    plus=" + ",
    guard=r"\left[{}\right] \cdot {}",
    conj=r" \wedge ",
    disj=r" \vee ",
    negation=r"\neg ",
    true=r"\mathbf{true}",
    false=r"\mathbf{false}",
    size="{}",
    brackets=r"\left({}\right)",
    relations=(("<", "< "), ("≤", r"\le "), ("=", "= ")),
    latex=True,
)


def show(e: Written, words: Mapping[str, str] | None = None) -> str:
    """Print a term or predicate in the paper's notation. `words` replaces some names."""
    return e.written(replace(UNICODE, words=words) if words else UNICODE)[0]


@deep_recursion()
def latex(e: Written) -> str:
    """Print a term or predicate as LaTeX, for math mode."""
    return e.written(LATEX)[0]


def _latex_name(name: str) -> str:
    """Return a name in LaTeX, with trailing digits as subscripts."""
    stem, _, rest = name.replace("′", "'").partition("_")
    digits = re.fullmatch(r"(\D+)(\d+)", stem)
    if digits:
        stem, rest = digits[1], digits[2] + (f",{rest}" if rest else "")
    body = stem if len(stem.rstrip("'")) == 1 else rf"\mathit{{{stem}}}"
    return f"{body}_{{{rest}}}" if rest else body
