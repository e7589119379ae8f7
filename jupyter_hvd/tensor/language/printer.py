"""Programs as the paper writes them, in Unicode, which `parser` reads back, and in LaTeX.

Binders reach as far right as they can and stand in brackets where more follows; `[p]·a·b` guards
the whole product.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from .affine import Affine
from .predicates import NOT, And, Compare, Exists, Or, Predicate, Related
from .terms import (
    Add,
    At,
    Call,
    Const,
    Gen,
    Guard,
    Lambda,
    Let,
    Mul,
    Number,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
)
from .types import ParameterType

if TYPE_CHECKING:
    from ..ssa.program import Program


@dataclass(frozen=True)
class Style:
    """How the constructors are spelt."""

    gen: str
    sum: str
    exists: str
    proj: str
    let: str
    dot: str
    plus: str
    guard: str
    conj: str
    disj: str
    true: str
    false: str
    size: str
    lambda_: str
    latex: bool = False

    def name(self, name: str) -> str:
        return _latex_name(name) if self.latex else name

    def symbol(self, op: str) -> str:
        return r"\le" if self.latex and op == "≤" else op


UNICODE = Style(
    gen="⊞ {}:{}. {}",
    sum="Σ {}:{}. {}",
    exists="∃ {}:{}. {}",
    proj="π{} {}",
    let="let {} = {} in\n{}",
    dot="·",
    plus=" + ",
    guard="[{}]·{}",
    conj=" ∧ ",
    disj=" ∨ ",
    true="true",
    false="false",
    size="ℝ({})",
    lambda_="λ({}).\n{}",
)

LATEX = Style(
    gen=r"\boxplus_{{{}:{}}}\, {}",
    sum=r"\sum_{{{}:{}}} {}",
    exists=r"\exists_{{{}:{}}}\, {}",
    proj=r"\pi_{{{}}}\, {}",
    let=r"\mathbf{{let}}\ {} = {}\ \mathbf{{in}}\\ {}",
    dot=r" \cdot ",
    plus=" + ",
    guard=r"\left[{}\right] \cdot {}",
    conj=r" \wedge ",
    disj=r" \vee ",
    true=r"\mathbf{true}",
    false=r"\mathbf{false}",
    size="{}",
    lambda_=r"\lambda({}).\\ {}",
    latex=True,
)

# How tightly a constructor binds: what stands to its left or right must bind at least as tightly, or be bracketed.
_BODY, _SUM, _PRODUCT, _PREFIX, _ATOM = range(5)


def show(e: Term) -> str:
    """A term in the paper's notation."""
    return _show(e, _BODY, UNICODE)


def latex(e: Term) -> str:
    """A term as LaTeX, for math mode."""
    return _show(e, _BODY, LATEX)


def show_lambda(function: Lambda) -> str:
    """A function: its parameters with their types, then its body."""
    fields = ", ".join(f"{name}:{show_type(t)}" for name, t in function.parameter_type)
    return UNICODE.lambda_.format(fields, show(function.body))


def show_type(type_: ParameterType) -> str:
    """A parameter's type."""
    return str(type_)


def show_ssa(program: Program) -> str:
    """A block of SSA statements, one a line, and its output."""
    from ..ssa.program import _output_term, _term, type_of

    variables: dict[str, Term] = {}
    lines = []
    for statement in program.statements:
        value = _term(statement.rhs, variables)
        variables[statement.name] = Var(statement.name, type_of(statement.rhs))
        lines.append(f"let {statement.name} = {show(value)} in")
    return "\n".join([*lines, show(_output_term(program.output, variables))])


def _show(e: Term, level: int, s: Style) -> str:
    text, binds = _render(e, s)
    if binds >= level:
        return text
    return rf"\left({text}\right)" if s.latex else f"({text})"


def _render(e: Term, s: Style) -> tuple[str, int]:
    """The text of a term and how tightly it binds."""
    match e:
        case Var(name):
            return s.name(name), _ATOM
        case Const(value):
            return _number(value, s), _ATOM
        case Add(left, right):
            return f"{_show(left, _SUM, s)}{s.plus}{_show(right, _PRODUCT, s)}", _SUM
        case Mul(left, right):
            # A guard on the left would take the whole product, so it is bracketed.
            first = _show(left, _PRODUCT if isinstance(left, Mul) else _PREFIX, s)
            return f"{first}{s.dot}{_show(right, _PREFIX, s)}", _PRODUCT
        case Call(function, arguments):
            inside = ", ".join(_show(argument, _BODY, s) for argument in arguments)
            name = rf"\operatorname{{{s.name(function.name)}}}" if s.latex else function.name
            return f"{name}({inside})", _ATOM
        case Pair(first_, second):
            return f"({_show(first_, _BODY, s)}, {_show(second, _BODY, s)})", _ATOM
        case Proj(side, body):
            return s.proj.format(side, _show(body, _PREFIX, s)), _PREFIX
        case Gen(index, size, body):
            inside = _show(body, _BODY, s)
            return s.gen.format(s.name(index), _affine(size, s), inside), _BODY
        case Sum(index, size, body):
            inside = _show(body, _BODY, s)
            return s.sum.format(s.name(index), _affine(size, s), inside), _BODY
        case At():
            indices: list[str] = []
            array: Term = e
            while isinstance(array, At):
                indices.insert(0, _affine(array.index, s))
                array = array.body
            return f"{_show(array, _ATOM, s)}[{', '.join(indices)}]", _ATOM
        case Guard(condition, body):
            inside = _show(body, _PRODUCT, s)
            return s.guard.format(_predicate(condition, s), inside), _PRODUCT
        case Let(name, value, body):
            bound = _show(value, _SUM if isinstance(value, Let) else _BODY, s)
            return s.let.format(s.name(name), bound, _show(body, _BODY, s)), _BODY
    raise TypeError(e)


def _number(value: Number | Affine, s: Style) -> str:
    if isinstance(value, Affine):
        return s.size.format(_affine(value, s))
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    return repr(value)


def _affine(a: Affine, s: Style) -> str:
    if not s.latex:
        return str(a)
    return re.sub(r"[^\W\d]\w*", lambda m: _latex_name(m[0]), str(a)).replace("·", r" \cdot ")


def show_predicate(p: Predicate) -> str:
    """A predicate in the paper's notation."""
    return _predicate(p, UNICODE)


def _predicate(p: Predicate, s: Style) -> str:
    match p:
        case And(()):
            return s.true
        case Or(()):
            return s.false
        case Compare(op, left, right):
            return f"{_affine(left, s)}{s.symbol(op)}{' ' if s.latex else ''}{_affine(right, s)}"
        case Related(relation, arguments):
            inside = ", ".join(_affine(a, s) for a in arguments)
            name = s.name(relation.removeprefix(NOT))
            negation = (r"\neg " if s.latex else NOT) if relation.startswith(NOT) else ""
            return f"{negation}{name}({inside})"
        case And(parts):
            return s.conj.join(_bracketed(part, (Or, Exists), s) for part in parts)
        case Or(parts):
            return s.disj.join(_bracketed(part, (And, Exists), s) for part in parts)
        case Exists(index, size, body):
            return s.exists.format(s.name(index), _affine(size, s), _predicate(body, s))
    raise TypeError(p)


def _bracketed(p: Predicate, kinds: tuple[type, ...], s: Style) -> str:
    text = _predicate(p, s)
    return f"({text})" if isinstance(p, kinds) else text


def _latex_name(name: str) -> str:
    stem, _, rest = name.replace("′", "'").partition("_")
    digits = re.fullmatch(r"(\D+)(\d+)", stem)
    if digits:
        stem, rest = digits[1], digits[2] + (f",{rest}" if rest else "")
    body = stem if len(stem.rstrip("'")) == 1 else rf"\mathit{{{stem}}}"
    return f"{body}_{{{rest}}}" if rest else body
