"""Explains in words how each variable changes when batches grow with the number of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import libcst as cst

from ..analysis.library import Kind
from ..analysis.scale_exponents import ExplainedVariable
from ..source.cells import JoinedCells
from ..source.parsing import deep_recursion, syntax_error
from .rules.context import Context
from .rules.options import Options
from .tensorflow.roles import Role

_EXPONENTS = {
    Fraction(-1): "steps (÷ N)",
    Fraction(0): "the same on any number of ranks",
    Fraction(1): "rows of a batch, or a rate (× N)",
}
_NUMBERS = {Kind.CONSTANT, Kind.CONTAINER, Kind.NONE, Kind.OTHER, Kind.UNKNOWN, Role.VARIABLE}
_FREQUENCIES = {Fraction(-1): "once a step", Fraction(0): "as often on any number of ranks"}


@dataclass(frozen=True)
class VariableScale:
    """A variable where it is set.

    Attributes:
        cell: the number of the cell, where the program is a notebook. line: in that cell, from 1.
        exponent: k, where N ranks have N ** k times the value of one process at the same number of examples seen; None where the
            program gives it contradictory ones; "any" where nothing determines it.
        frequency: likewise, of the number of times that the statement runs.
        cause: what determined the exponent. cause_line: the line of the program where; 0 where nothing did.
    """

    name: str
    cell: int | None
    line: int
    exponent: Fraction | str | None
    frequency: Fraction | str | None
    cause: str
    cause_line: int

    @property
    def words(self) -> str:
        """One sentence: the variable, its unit, why, and how often its statement runs."""
        where = f"line {self.line}" if self.cell is None else f"cell {self.cell}, line {self.line}"
        return f"`{self.name}` {where}: {self._describe_unit}{self._describe_cause}; runs {self._describe_frequency}"

    @property
    def _describe_unit(self) -> str:
        """Return the unit in words, such as "steps (÷ N)"."""
        if self.exponent is None:
            return "no unit: its values differ in unit"
        if isinstance(self.exponent, str):
            return "any unit"
        return _EXPONENTS.get(self.exponent, f"× N ** {self.exponent}")

    @property
    def _describe_cause(self) -> str:
        """Return ", because line 7 …", or '' for an exponent of 0 or unknown cause."""
        if not self.exponent or isinstance(self.exponent, str) or not self.cause_line:
            return ""
        return f", because line {self.cause_line} {self.cause}"

    @property
    def _describe_frequency(self) -> str:
        """Return in words how often the statement runs, compared with one process."""
        if self.frequency is None or isinstance(self.frequency, str):
            return "any number of times"
        return _FREQUENCIES.get(self.frequency, f"N ** {self.frequency} times as often")

    def as_json(self) -> dict[str, Any]:
        """Return the fields and the sentence as JSON; exponents are numbers, "any" or null."""
        return {
            "name": self.name,
            "cell": self.cell,
            "line": self.line,
            "exponent": _exponent_as_json(self.exponent),
            "frequency": _exponent_as_json(self.frequency),
            "cause": self.cause,
            "cause_line": self.cause_line,
            "words": self.words,
        }


def _exponent_as_json(exponent: Fraction | str | None) -> float | str | None:
    """Return an exponent as JSON has it: a number, "any" or null."""
    return float(exponent) if isinstance(exponent, Fraction) else exponent


def explain_source(source: str) -> tuple[VariableScale, ...]:
    """Return how each variable of a program scales, at every assignment, in the order of the text.

    Raises:
        SyntaxError: the source is not valid Python.
    """
    return explain_cells(JoinedCells((source,)))


def explain_cells(cells: JoinedCells) -> tuple[VariableScale, ...]:
    """Return how each variable of a notebook scales, as `explain_source` does for a script.

    Raises:
        SyntaxError: the source is not valid Python.
    """
    if (fault := syntax_error(cells.python)) is not None:
        raise SyntaxError(f"line {fault[0]}: {fault[2]}")
    with deep_recursion():
        try:
            context = Context(cells, Options())
        except cst.ParserSyntaxError as error:
            raise SyntaxError(str(error)) from None
        numbers = (e for e in context.scales.explained if _may_be_number(context, e.place))
        return tuple(_locate_variable(context, each) for each in numbers)


def _may_be_number(context: Context, place: cst.CSTNode) -> bool:
    """Whether the value that is bound at a node may be a number, rather than a model, a dataset or the like."""
    kinds = context.values.kinds(place)
    return not kinds or bool(kinds & _NUMBERS)


def _locate_variable(context: Context, each: ExplainedVariable) -> VariableScale:
    """Return an explained variable with its cell and line."""
    cell, line, _ = context.cells.locate_offset(context.module.span(each.place).start)
    return VariableScale(
        each.name,
        cell,
        line,
        each.exponent,
        each.frequency,
        each.cause,
        each.cause_line,
    )
