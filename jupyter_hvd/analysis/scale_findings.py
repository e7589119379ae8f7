"""The findings of the scale analysis in a module: how values scale, constants, and required agreements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Literal

import libcst as cst

from .definitions import Definition
from .exponents import ZERO, Equation, Exponent, Unknown, exponent_of

#: The definitions that a name may hold.
Reaching = Callable[[cst.Name], list[Definition]]
#: What must agree: two summands, two sides of a comparison, a number and its modulus, several bounds, a number and those among
#: which it is looked up.
Agreeing = Literal["sum", "comparison", "modulus", "bound", "lookup"]


class Rank(IntEnum):
    """In which order constants are taken to be the same on any number of ranks, where the equations leave a choice.

    The first are those that are the least likely to count steps: a ratio that is compared, a factor. What repeats the size of a
    batch is taken for one at last.
    """

    RATIO = 0
    FACTOR = 1
    WHOLE_FACTOR = 2
    UNSEEN = 3
    IN_RATIO = 4
    COUNT = 5
    NAMED = 6
    INCREMENT = 7
    SIZE = 8


@dataclass(frozen=True)
class Scale:
    """How a value scales.

    Attributes:
        value: the exponent of a number, or of each number in a sequence.
        length: of a sequence, the exponent of its length.
        element: of a sequence, how its elements scale.
        items: of a tuple or list that is written out, how each item scales; of a dictionary, how each key does.
        values: of a dictionary that is written out, how each value scales.
        is_record: a tuple of unknown length whose items all scale like this, as what a dataset gives.
    """

    value: Exponent
    length: Exponent | None = None
    element: Scale | None = None
    items: tuple[Scale, ...] = ()
    values: tuple[Scale, ...] = ()
    is_record: bool = False

    def item(self, index: int) -> Scale | None:
        """Return how one item of a tuple or list scales; None if there is no such item."""
        if self.is_record:
            return replace(self, is_record=False)
        if self.items:
            return self.items[index] if index < len(self.items) else None
        return self.element


@dataclass(frozen=True)
class Constant:
    """A number that the program, or whoever starts it, writes down.

    Attributes:
        node: where; the edit that would scale it stands here.
        rank: when it is taken to be the same on any number of ranks.
    """

    node: cst.BaseExpression
    unknown: Unknown
    rank: Rank


@dataclass(frozen=True)
class Agreement:
    """Two operands that must have the same exponent, and the exponent of the result.

    Attributes:
        is_position: a sum of whole numbers: of a row's number and the size of a batch, perhaps, which are both counted in rows.
        cuts: it is in the bound of a slice: of rows, perhaps, from `i` to `i + size`.
    """

    kind: Agreeing
    place: cst.BaseExpression
    left: cst.BaseExpression
    right: cst.BaseExpression
    exponents: tuple[Exponent, Exponent]
    result: Exponent
    is_position: bool = False
    cuts: bool = False


@dataclass(frozen=True)
class Sink:
    """A number that a library takes, and the exponent that it expects.

    Attributes:
        is_list: it takes a list of such numbers, which is written out elsewhere.
        is_epochs: it counts epochs: a number that the program writes down for it is none of steps.
    """

    node: cst.BaseExpression
    actual: Exponent
    expected: Exponent
    reason: str
    is_list: bool = False
    is_epochs: bool = False


#: What a factor `c` becomes where N steps are one: `c ** N`, `1 - (1 - c) ** N`, or what cannot be told.
Weight = Literal["factor", "rest", "open"]


@dataclass(frozen=True)
class Repeated:
    """A factor by which a number is multiplied again and again, and how often that is.

    Attributes:
        value: its own exponent.
        weight: of a moving average, `factor` is the weight of what it was before, `rest` that of what comes in; `open` where the
            two are not seen to sum to 1.
        calls: how often each call of its function runs, where there are several.
        events: of a number that is halved or doubled under a condition, the exponents of what is compared there, one of each
            comparison's sides; None if it is none. It is a factor of each step only where all of these count steps.
    """

    node: cst.BaseExpression
    frequency: Exponent
    value: Exponent
    weight: Weight = "factor"
    calls: tuple[Exponent, ...] = ()
    events: tuple[Exponent, ...] | None = None


@dataclass(frozen=True)
class Recurrence:
    """How an assignment makes a variable of what it was before.

    Attributes:
        operator: `+`, `-`, `*`, `/`, `~` for a moving average, or `?`. operand: what it is applied to.
        weights: of a moving average.
    """

    operator: str
    operand: cst.BaseExpression
    weights: tuple[tuple[cst.BaseExpression, Weight], ...] = ()


@dataclass(frozen=True)
class Carried:
    """A variable that is computed from what it was, in a form that is not known, and how often that is.

    Attributes:
        numbers: what it is combined with on the way.
    """

    node: cst.BaseExpression
    numbers: tuple[cst.CSTNode, ...]
    frequency: Exponent


@dataclass(frozen=True)
class Opaque:
    """The result of an unknown function or operator, and the exponents of its arguments.

    Attributes:
        lengths: of arguments that are sequences. numbers: of whole numbers above 1 that are given beside these.
    """

    node: cst.CSTNode
    unknown: Unknown
    arguments: tuple[Exponent, ...]
    lengths: tuple[Exponent, ...] = ()
    numbers: tuple[Exponent, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """A variable that is set, with its exponent and the frequency of the statement."""

    name: str
    place: cst.CSTNode
    exponent: Exponent
    frequency: Exponent


@dataclass(frozen=True)
class RowsOfSteps:
    """A number that is written as the size of a batch, and multiplied by a count: `steps * 32`.

    Attributes:
        size: how the number scales. count: the exponent of the count.
    """

    node: cst.BaseExpression
    size: Exponent
    count: Exponent


@dataclass
class Findings:
    """What the walk over a module has found, in the order of the text.

    Attributes:
        facts: equations that hold. demands: how often training steps must run. uncounted: loops of which nothing tells how often
            they iterate. flows: equations of values that are handed on, not all of which may hold.
        calls: how often functions run that do not train, by each of their calls.
        loops: how often the loops around each training step iterate, the outermost first.
        lookups: entries of sequences by a number, with the exponent of the length.
        stores: entries of sequences that are set by a number, likewise.
        means: sums over steps that are divided by a number, with the exponent of the quotient.
        quotients: the exponents of dividend and divisor.
        weights: the weights of moving averages, which are the same on any number of ranks before they are raised to a power.
        ramps: what is taken for the same on any number of ranks, as fractions are added to it.
        cuts: positions in sequences, with the exponent of the length; they are counts of steps where the length is one.
        counts: how often loops of unknown length iterate, and functions run, and whether training runs in them.
        counted: where functions count that are called several times, with how often each of the calls runs.
        rows_of_steps: sizes of batches that no edit multiplies, times counts.
        sizes: sizes of batches as they were written, before another edit multiplies them.
        uncalled: functions with counts or factors in them which nothing is seen to call.
        asked: parameters of what makes a schedule, which is asked for the steps of one process.
    """

    facts: list[Equation] = field(default_factory=list)
    demands: list[Equation] = field(default_factory=list)
    uncounted: list[cst.CSTNode] = field(default_factory=list)
    calls: list[list[Equation]] = field(default_factory=list)
    flows: list[Equation] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    repeated: list[Repeated] = field(default_factory=list)
    opaque: list[Opaque] = field(default_factory=list)
    carried: list[Carried] = field(default_factory=list)
    counted: list[tuple[cst.CSTNode, tuple[Exponent, ...]]] = field(default_factory=list)
    rows_of_steps: list[RowsOfSteps] = field(default_factory=list)
    sizes: list[Equation] = field(default_factory=list)
    uncalled: list[cst.FunctionDef] = field(default_factory=list)
    means: list[Equation] = field(default_factory=list)
    quotients: list[tuple[Exponent, Exponent, cst.CSTNode]] = field(default_factory=list)
    weights: list[Equation] = field(default_factory=list)
    ramps: list[Equation] = field(default_factory=list)
    stores: list[Sink] = field(default_factory=list)
    lookups: list[Sink] = field(default_factory=list)
    cuts: list[Sink] = field(default_factory=list)
    loops: list[tuple[cst.Call, list[Exponent]]] = field(default_factory=list)
    counts: list[tuple[Unknown, bool]] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    asked: set[Unknown] = field(default_factory=set)


def unknown_scale(node: cst.CSTNode) -> Scale:
    """Return a scale with a new unknown for a node."""
    return Scale(exponent_of(Unknown(node)))


def is_constant(node: cst.BaseExpression) -> bool:
    """Whether an expression consists of number literals: `100`, `5 * 1000`, `-1`."""
    match node:
        case cst.Integer() | cst.Float():
            return True
        case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=inner):
            return is_constant(inner)
        case cst.BinaryOperation(left=left, right=right):
            return is_constant(left) and is_constant(right)
    return False


def pair_with_index(length: Exponent, element: Scale) -> Scale:
    """Return how a pair of an index and an element of a sequence scales."""
    return Scale(ZERO, items=(Scale(length), element))


def number_of(node: cst.BaseExpression) -> int | float | None:
    """Return the number that a literal is, signed; None for other expressions."""
    match node:
        case cst.Integer() | cst.Float():
            return node.evaluated_value
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.BaseNumber() as inner):
            number = number_of(inner)
            return -number if number is not None else None
    return None


def is_plain(node: cst.BaseExpression) -> bool:
    """Whether an expression is a variable, perhaps plus or minus a number, rather than a product."""
    match node:
        case cst.Name() | cst.Attribute() | cst.Subscript() | cst.Call():
            return True
        case cst.BinaryOperation(left=left, operator=cst.Add() | cst.Subtract()):
            return is_plain(left)
        case cst.BinaryOperation(operator=cst.FloorDivide()):
            return True
    return False
