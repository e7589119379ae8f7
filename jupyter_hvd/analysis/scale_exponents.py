"""Solves for the scale exponent of each variable, and finds the numbers that must be edited.

Value on N ranks = value of one process * N ** k, at the same number of examples seen. Steps have k = -1, rows of a batch
+1, epochs and ratios 0. The exponents are solved for as units of measure are; a constant whose exponent is not 0 must be
edited, and so must an operand or an argument whose exponent is not the one that its place asks for.

The equations are solved in a fixed order: what is certain (values that are handed on, recurrences, frequencies), what must
agree (sums, comparisons), what libraries take. A constant is an unknown until then. Where the equations leave a choice its
exponent is 0: ratios and factors first, counts with names last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

import libcst as cst

from .exponents import ONE, ZERO, Equation, Exponent, Solution, Unknown, exponent_of
from .kept_values import KeptValues
from .library import Kind
from .scale_findings import (
    Agreement,
    Carried,
    Constant,
    Found,
    Opaque,
    Rank,
    Repeated,
    Sink,
    is_constant,
    number_of,
)
from .scale_inference import SETS, ScaleInference
from .scale_program_calls import PASSES
from .scale_signatures import ScaleLibrary
from .scale_state import ADDS, ORDERS
from .values import ValueAnalysis

#: The root that rates are computed by; others come of powers of what counts steps.
ROOT = 2
#: Reasons that only say that a value is handed on.
HANDED_ON = (SETS, PASSES, "calls it")
CoercionKind = Literal[
    "sink",
    "operand",
    "constant",
    "counterpart",
    "restored",
    "remainder",
    "repeated",
    "rest",
    "lookup",
    "list",
    "keys",
    "read",
]


@dataclass(frozen=True)
class Coercion:
    """An expression to multiply by N ** power; of a factor that is `repeated`, to raise to the power N ** power; of the `rest`
    of such a factor, the difference to 1.

    Of a `list` each number is multiplied, of a dictionary its `keys`. What is `read` holds the value of one process on any
    number of ranks. A `counterpart` is multiplied instead of dividing the constant that it is divided by or compared with:
    `steps * N // 3`, `step * N < 3`, since 3 // N is not 3 / N. One that was rounded down where it is defined is `restored`.

    Attributes:
        is_whole: the expression is a whole number, and must stay one.
        reason: what asks for it, as a sentence.
        bound: the text of what it must stay below: of the `r` of `step % p == r` p, of an index the sequence.
    """

    node: cst.BaseExpression
    power: Fraction
    kind: CoercionKind
    is_whole: bool
    reason: str
    bound: str = ""


@dataclass(frozen=True)
class Unscaled:
    """A value that is left alone, as its exponent is not known, with the edit that would scale it."""

    node: cst.CSTNode
    message: str
    help: str


@dataclass(frozen=True)
class Explained:
    """A variable where it is set.

    Attributes:
        name: as the program writes it. place: the name, where it is set.
        exponent: None where the program gives it contradictory ones; the text "any" where nothing determines it.
        frequency: how often the statement runs, likewise.
        cause: what determined the exponent, and the line of it; '' and 0 where nothing did.
    """

    name: str
    place: cst.CSTNode
    exponent: Fraction | Literal["any"] | None
    frequency: Fraction | Literal["any"] | None
    cause: str
    cause_line: int


class ScaleAnalysis:
    """The scale exponents of one module; worked out when asked for.

    Args:
        kept: values that are not edited where they are defined; they are converted where they are read.
    """

    def __init__(
        self, values: ValueAnalysis, library: ScaleLibrary, kept: KeptValues | None = None
    ) -> None:
        self.values = values
        self.module = values.module
        self._library, self._kept = library, kept

    @cached_property
    def _inference(self) -> ScaleInference:
        return ScaleInference(self.values, self._library)

    @cached_property
    def _solved(self) -> _Solved:
        found = self._inference.collect()
        found.facts += [
            Equation(exponent_of(each.unknown), ZERO, each.node)
            for each in found.constants
            if self._is_in_kept_pair(each.node)
        ]
        conflicted: frozenset[Unknown] = frozenset()
        while True:
            solved = _solve(found, conflicted)
            if solved.conflicted <= conflicted:
                return solved
            conflicted |= solved.conflicted

    def exponent(self, node: cst.BaseExpression) -> Fraction | None:
        """The exponent of an expression; None where it is not known."""
        return self._resolved(self._inference.scale(node).value)

    def _resolved(self, exponent: Exponent) -> Fraction | None:
        exponent = self._solved.solution.resolve(exponent)
        return exponent.constant if exponent.is_known else None

    @cached_property
    def explained(self) -> tuple[Explained, ...]:
        """Every variable at every assignment, in the order of the text."""
        solved = self._solved
        return tuple(
            Explained(
                each.name,
                each.place,
                self._known(each.exponent),
                self._known(each.frequency),
                *self._cause(each.exponent, each.place),
            )
            for each in sorted(
                solved.found.assignments, key=lambda a: self.module.span(a.place).start
            )
        )

    def _known(self, exponent: Exponent) -> Fraction | Literal["any"] | None:
        if exponent.terms.keys() & self._solved.conflicted:
            return None
        resolved = self._solved.solution.resolve(exponent)
        return resolved.constant if resolved.is_known else "any"

    def _cause(self, exponent: Exponent, place: cst.CSTNode) -> tuple[str, int]:
        """The nearest equation on another line that says more of an exponent than that a value is handed on."""
        here = self._line(place)
        told = [e for e in self._solved.solution.causes(exponent) if e.reason]
        said = [e for e in told if e.reason not in HANDED_ON]
        counted = [e for e in said[:4] if e.reason == ADDS]
        elsewhere = [e for e in said if self._line(e.place) != here]
        chosen = next(iter([*counted, *elsewhere, *told]), None)
        return (chosen.reason, self._line(chosen.place)) if chosen is not None else ("", 0)

    def _line(self, node: cst.CSTNode) -> int:
        return self.module.line(self.module.span(node).start)

    # What must be edited

    @cached_property
    def coercions(self) -> tuple[Coercion, ...]:
        """The edits that scale the program, each expression once, in the order of the text."""
        found: dict[tuple[cst.CSTNode, str], Coercion] = {}
        for coercion in (
            *self._of_sinks(),
            *self._of_operands(),
            *self._of_arguments(),
            *self._of_lookups(),
            *self._of_constants(),
            *self._of_repeated(),
        ):
            if not self.is_kept(coercion.node):
                found.setdefault((coercion.node, coercion.kind), coercion)
        for node in {key[0] for key in found}:
            # A number that is divided where it is read, and multiplied for what takes it there, stays.
            both = [found.get((node, kind)) for kind in ("constant", "sink")]
            if all(both) and not sum(each.power for each in both if each is not None):
                for kind in ("constant", "sink"):
                    del found[node, kind]
        for read in self._of_reads():
            others = [
                found.pop(key) for key in [*found] if key[0] is read.node and key[1] != "repeated"
            ]
            power = read.power + sum(other.power for other in others)
            if power:
                found[read.node, "read"] = replace(read, power=power)
        return tuple(sorted(found.values(), key=lambda c: self.module.span(c.node).start))

    @property
    def sizes_read(self) -> list[cst.BaseExpression]:
        """Where sizes of batches are read that are kept as they are."""
        return [c.node for c in self.coercions if c.kind == "read" and c.power == 1]

    def is_kept(self, node: cst.CSTNode) -> bool:
        """Whether an expression stands in the definition of a value that is kept, so that it is not edited."""
        return self._kept is not None and self._kept.is_in_definition(node)

    def _is_in_kept_pair(self, node: cst.CSTNode) -> bool:
        """Whether a number stands in a tuple of a list that is kept: what it is compared with is converted."""
        entry = self.module.parent(node)
        if not isinstance(entry, cst.Element):
            return False
        around = self.module.parent(self.module.parent(entry) or entry)
        return isinstance(around, cst.Element) and self.is_kept(node)

    def _of_reads(self) -> Iterator[Coercion]:
        for node in self._kept.reads if self._kept is not None else ():
            looked_up = node.value if isinstance(node, cst.Subscript) else node
            if self._inference.scale(looked_up).values:
                yield from self._of_keys(looked_up)
            numbers = self._inference.numbers(node)
            is_list = numbers is not self._inference.scale(node)
            exponent, edited = self._resolved(numbers.value), self._inference.edited.get(node)
            power = (exponent or Fraction()) - (edited.value if edited is not None else 0)
            if self._kept is not None and exponent is not None and power:
                undefined = self._kept.is_undefined(node)
                reason = f"`{self.module.text(node)}` is that of one process"
                found = self._coercion(node, power, "list" if is_list else "read", reason)
                yield replace(found, is_whole=found.is_whole or undefined)

    def _of_keys(self, node: cst.BaseExpression) -> Iterator[Coercion]:
        """The dictionary whose keys are those of one process: steps that are looked up in it may lie between them."""
        keys = self._inference.element(self._inference.scale(node))
        power = self._resolved(keys.value) if keys is not None else None
        if power:
            made = [value.node for value in self.values.of(node)]
            entries = (e for each in made if isinstance(each, cst.Dict) for e in each.elements)
            written = (e.key for e in entries if isinstance(e, cst.DictElement))
            is_whole = all(map(self._inference.whole.is_whole, written))
            reason = f"`{self.module.text(node)}` is that of one process"
            yield Coercion(node, power, "keys", is_whole, reason)

    def _coercion(
        self,
        node: cst.BaseExpression,
        power: Fraction,
        kind: CoercionKind,
        reason: str,
        bound: str = "",
    ) -> Coercion:
        is_whole = self._inference.whole.is_whole(node) or self._is_beside_whole(node)
        return Coercion(node, power, kind, is_whole, reason, bound)

    def _is_beside_whole(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is the `p` of `step % p` or `step == p`, of a whole number of steps."""
        parent = self.module.parent(node)
        around = self.module.parent(parent) if isinstance(parent, cst.ComparisonTarget) else parent
        match parent, around:
            case _, cst.BinaryOperation(left=left, operator=cst.Modulo(), right=right):
                return right is node and self._inference.whole.is_whole(left)
            case cst.ComparisonTarget(operator=cst.Equal() | cst.NotEqual()), cst.Comparison():
                return self._inference.whole.is_whole(around.left)
        return False

    def _of_sinks(self) -> Iterator[Coercion]:
        for sink, power in self._solved.sinks:
            reason = f"line {self._line(sink.node)} {sink.reason}"
            kind: CoercionKind = "list" if sink.is_list else "sink"
            coercion = self._coercion(sink.node, power, kind, reason)
            # A library that takes a number of steps takes a whole number.
            counts = self._solved.solution.resolve(sink.expected) == -ONE
            yield replace(coercion, is_whole=coercion.is_whole or counts)

    def _of_operands(self) -> Iterator[Coercion]:
        for agreement, node, power in self._solved.operands:
            reason = f"line {self._line(agreement.place)} needs both sides in one unit"
            yield self._coercion(node, power, "operand", reason)

    def _of_arguments(self) -> Iterator[Coercion]:
        for equation, power in self._solved.arguments:
            if isinstance(equation.place, cst.BaseExpression):
                causes = tuple(self._solved.solution.causes(equation.left))
                yield self._coercion(equation.place, power, "operand", self._nearest_reason(causes))

    def _of_lookups(self) -> Iterator[Coercion]:
        """Steps by which an entry of a table is looked up that has as many on any number of ranks.

        The last step of N ranks may be beyond the last of one process, as the last batch of an epoch is smaller.
        """
        for lookup in self._solved.lookups:
            reason = f"line {self._line(lookup.node)} {lookup.reason}"
            around = self.module.enclosing(lookup.node, cst.Subscript)
            table = around.value if around is not None else lookup.node
            has_name = isinstance(table, cst.Name | cst.Attribute)
            text = self.module.text(table) if has_name else ""
            yield self._coercion(lookup.node, Fraction(1), "lookup", reason, text)

    def _of_constants(self) -> Iterator[Coercion]:
        kind: CoercionKind
        for constant, power, causes in self._solved.scaled:
            if power.denominator <= ROOT and not self._is_left_alone(constant, power):
                if power == -1 and (other := self._counterpart(constant.node)) is not None:
                    kind = "restored" if self._is_rounded(other) else "counterpart"
                    yield self._coercion(other, -power, kind, self._nearest_reason(causes))
                    continue
                modulus = self._modulus(constant)
                kind = "constant" if modulus is None else "remainder"
                text = self.module.text(modulus) if modulus is not None else ""
                yield self._coercion(constant.node, power, kind, self._nearest_reason(causes), text)

    def _is_rounded(self, dividend: cst.BaseExpression) -> bool:
        """Whether `total // 20` has a total that is written down, and is divided and rounded there."""
        parent = self.module.parent(dividend)
        if not isinstance(parent, cst.BinaryOperation) or parent.left is not dividend:
            return False
        rounded = {c.node for c, power, _ in self._solved.scaled if power == -1}
        made = {value.node for value in self.values.of(dividend)}
        return isinstance(parent.operator, cst.FloorDivide) and made <= rounded and bool(made)

    def _is_left_alone(self, constant: Constant, power: Fraction) -> bool:
        """Whether a constant needs no edit: one step is one in any unit, and sizes of other batches are none of training's."""
        parent = self.module.parent(constant.node)
        if power == -1:
            # A length of 1.0 steps that has a name is divided: `1 + step / length`.
            has_name = isinstance(parent, (cst.Param, cst.Assign, cst.AnnAssign, cst.DictElement))
            is_length = has_name and isinstance(constant.node, cst.Float)
            is_divided = is_length or self._divisor(constant.node) is not None
            return number_of(constant.node) in (0, 1) and not is_divided
        if isinstance(parent, cst.Arg):
            call = self.module.parent(parent)
            return isinstance(call, cst.Call) and self._is_of_program(call)
        if not isinstance(parent, cst.BinaryOperation):
            return False
        # `if total % 4 == 0: train(batch)` in a loop that counts no steps trains on larger batches less often.
        is_period = isinstance(parent.operator, cst.Modulo)
        return is_period and not self._inference.frequencies.counts_accumulation(parent)

    def _is_of_program(self, call: cst.Call) -> bool:
        return bool(self.values.kinds(call.func) & {Kind.FUNCTION, Kind.CLASS})

    def _counterpart(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What is multiplied instead of dividing a constant: what it divides, or what is less or more than it."""
        target = self.module.parent(node)
        comparison = (
            self.module.parent(target) if isinstance(target, cst.ComparisonTarget) else None
        )
        match comparison:
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=operator)]):
                is_order = isinstance(operator, ORDERS)
                return left if is_order and not is_constant(left) else None
        return self._divisor(node) or self._dividend(node)

    def _divisor(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The `step + 1` of `1 / (step + 1)`."""
        match self.module.parent(node):
            case cst.BinaryOperation(left=left, operator=cst.Divide(), right=right) if left is node:
                return right if number_of(node) == 1 and not is_constant(right) else None
        return None

    def _dividend(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What is divided by a constant, or by a product of it; None in a mean, which divides by the steps that were taken."""
        means = {mean.place for mean in self._inference.found.means}
        parent = self.module.parent(node)
        while isinstance(parent, cst.BinaryOperation):
            match parent:
                case cst.BinaryOperation(
                    operator=cst.Divide() | cst.FloorDivide(), left=left, right=right
                ):
                    return left if right is node and parent not in means else None
                case cst.BinaryOperation(operator=cst.Multiply()):
                    node, parent = parent, self.module.parent(parent)
                case _:
                    return None
        return None

    def _modulus(self, constant: Constant) -> cst.BaseExpression | None:
        """The `p` of `step % p == r`, of a constant r."""
        target = self.module.parent(constant.node)
        comparison = self.module.parent(target) if target is not None else None
        match target, comparison:
            case cst.ComparisonTarget(), cst.Comparison(
                left=cst.BinaryOperation(operator=cst.Modulo(), right=modulus)
            ):
                return modulus
        return None

    def _nearest_reason(self, causes: tuple[Equation, ...]) -> str:
        """The nearest of some equations that says more than that a value is handed on, with its line."""
        told = [c for c in causes if c.reason and c.reason not in HANDED_ON] or [*causes]
        return f"line {self._line(told[0].place)} {told[0].reason}" if told else ""

    def _of_repeated(self) -> Iterator[Coercion]:
        for repeated, power in self._solved.repeated:
            if repeated.weight != "open":
                kind: CoercionKind = "repeated" if repeated.weight == "factor" else "rest"
                reason = f"line {self._line(repeated.node)} multiplies by it once a step"
                yield self._coercion(repeated.node, -power, kind, reason)

    def _uncounted_lengths(self) -> Iterator[cst.BaseExpression]:
        """What loops around training go through that is no data, and of which only the training tells how long it must be."""
        for unknown, trains in self._solved.found.counts:
            node = unknown.node
            if not trains or unknown.label != "length" or not isinstance(node, cst.BaseExpression):
                continue
            around = self.module.parent(node)
            is_loop = isinstance(around, cst.For) and around.iter is node
            is_of_steps = is_loop and self._resolved(exponent_of(unknown)) == -1
            if is_of_steps and not self._library.is_data(self.values, node):
                yield node

    def _unknown_counts(self) -> Iterator[tuple[cst.Call, cst.Arg]]:
        """The numbers that libraries take under a name that says steps, and that nothing has scaled."""
        scaled = {coercion.node for coercion in self.coercions}
        for call in self.values.index.calls:
            for position, arg in enumerate(call.args):
                name = arg.keyword.value if arg.keyword else "decay" if not position else ""
                if not self._library.may_count_steps(self.values, call, name):
                    continue
                made = {value.node for value in self.values.of(arg.value)}
                numbers = {n for n in made if isinstance(n, cst.BaseNumber)}
                is_number = bool(numbers) or self._library.is_external(self.values, arg.value)
                if is_number and scaled.isdisjoint((arg.value, *numbers)):
                    yield call, arg

    def _is_handed_on(self, function: cst.FunctionDef) -> bool:
        """Whether a function that nothing is seen to call is named elsewhere, and may be called by what it is given to."""
        name = function.name.value
        attributes = self.values.index.attributes
        named = [n for n in self.module.names.get(name, ()) if n is not function.name]
        if self.module.class_of(function) is not None:
            return any(each.attr.value == name for each in attributes)
        return bool(named)

    def _may_count(self, agreement: Agreement) -> bool:
        """Whether a whole number bounds or divides, at each step, something that may count steps.

        What is only equal to it may be of a kind, or at a position.
        """
        numbers = [number_of(side) for side in (agreement.left, agreement.right)]
        written = [n for n in numbers if isinstance(n, int) and n > 1]
        if isinstance(agreement.place, cst.Comparison):
            written = written if self._orders(agreement.place) else []
        frequency = self._resolved(self._inference.frequencies.of(agreement.place))
        return bool(written) and bool(frequency)

    def _orders(self, comparison: cst.Comparison) -> bool:
        return all(isinstance(target.operator, ORDERS) for target in comparison.comparisons)

    @cached_property
    def unscaled(self) -> tuple[Unscaled, ...]:
        """The numbers that are not edited and that the user should check."""
        found = sorted(self._unscaled(), key=lambda u: self.module.span(u.node).start)
        once = {(self._line(each.node), each.message): each for each in reversed(found)}
        return tuple(reversed(once.values()))

    def _unscaled(self) -> Iterator[Unscaled]:
        text = self.module.text
        for repeated, _ in self._solved.repeated:
            if repeated.weight == "open":
                yield Unscaled(
                    repeated.node,
                    f"`{text(repeated.node)}` is applied once a step, of which N ranks take an N-th, and is left as it is",
                    f"raise it to the power of the number of ranks, `{text(repeated.node)} ** size`, "
                    "where it is applied once a step, and adapt the other weight of an average",
                )
        for agreement in self._solved.disagreeing:
            yield Unscaled(
                agreement.place,
                f"`{text(agreement.place)}` relates numbers that scale differently with the number of ranks",
                "convert one of them to the unit of the other",
            )
        for opaque, power in self._solved.assumed:
            if self.is_kept(opaque) or power.denominator > 1:
                continue
            factor = _factor_words(power)
            yield Unscaled(
                opaque,
                f"`{text(opaque)}` is taken to scale with the number of ranks by itself; nothing tells whether it does",
                f"if it is the same on any number of ranks, {factor}",
            )
        for constant, power, _ in self._solved.scaled:
            if power.denominator > ROOT and not self.is_kept(constant.node):
                yield Unscaled(
                    constant.node,
                    f"`{text(constant.node)}` stands beside a power of a number that scales with the number of ranks",
                    "compute the power of a ratio of steps, or of epochs",
                )
        for call in self._solved.unseen:
            is_used = not isinstance(self.module.parent(call), cst.Expr)
            is_called = isinstance(call, cst.Call) and self._is_of_program(call)
            if is_used and not self.is_kept(call) and not is_called:
                yield Unscaled(
                    call,
                    f"`{text(call)}` is given a number of steps, of which N ranks take an N-th; "
                    "nothing tells what it computes from them",
                    "give it the step of one process: multiply by the number of ranks",
                )
        cycles = {frozenset(c.numbers): c for c in reversed(self._solved.carried)}
        for carried in cycles.values():
            numbers = " and ".join(dict.fromkeys(f"`{text(number)}`" for number in carried.numbers))
            yield Unscaled(
                carried.node,
                f"`{text(carried.node)}` is computed from its last value once a step; {numbers} stays as it is",
                "a step of N ranks stands for N steps: raise a factor to the power of the number of ranks, "
                "multiply a summand by it",
            )
        for call, arg in self._unknown_counts():
            yield Unscaled(
                arg.value,
                f"nothing tells whether `{text(call.func)}` counts steps by `{text(arg)}`, which stays as it is",
                "if it counts steps, divide it by the number of ranks; raise a factor of each step to the power of it",
            )
        for function in dict.fromkeys(self._solved.found.uncalled):
            if self._is_handed_on(function):
                yield Unscaled(
                    function,
                    f"nothing tells how often `{function.name.value}` runs, so what it counts or multiplies stays as it is",
                    "if it runs once a step, divide the steps that it counts by the number of ranks, "
                    "and raise factors to the power of it",
                )
        for agreement in self._solved.undetermined:
            if self._may_count(agreement):
                other = agreement.right if is_constant(agreement.left) else agreement.left
                yield Unscaled(
                    agreement.place,
                    f"nothing tells whether `{text(other)}` counts steps, so `{text(agreement.place)}` stays as it is",
                    "if it counts steps, divide what it is compared with by the number of ranks",
                )
        for size in self._solved.grown_before:
            yield Unscaled(
                size.place,
                f"`{text(size.place)}` is multiplied as a batch size, and is computed from numbers that scale, too",
                "check that the batch becomes as many times larger as there are ranks",
            )
        for unknown in self._uncounted_lengths():
            yield Unscaled(
                unknown,
                f"nothing tells how often the loop over `{text(unknown)}` iterates, "
                "so N ranks may take as many steps, on N times the examples",
                "divide by the number of ranks what decides how long the program trains",
            )
        for loop in self._solved.found.uncounted if self._solved.unmet else ():
            yield Unscaled(
                loop,
                "nothing tells how many steps this loop takes, so N ranks may take as many, on N times the examples",
                "divide by the number of ranks what decides how long the program trains",
            )
        for node in self._solved.contradictory:
            yield Unscaled(
                node,
                f"`{text(node)}` gets numbers that scale differently with the number of ranks",
                "use a variable for each of them",
            )


def _factor_words(power: Fraction) -> str:
    """The factor N ** power, in words."""
    if power == -1:
        return "divide it by the number of ranks"
    if power == 1:
        return "multiply it by the number of ranks"
    return f"multiply it by the number of ranks to the power {power}"


@dataclass(frozen=True)
class _Solved:
    """The solution of one module's equations, and what stood against it."""

    found: Found
    solution: Solution
    conflicted: frozenset[Unknown]
    sinks: tuple[tuple[Sink, Fraction], ...]
    operands: tuple[tuple[Agreement, cst.BaseExpression, Fraction], ...]
    disagreeing: tuple[Agreement, ...]
    scaled: tuple[tuple[Constant, Fraction, tuple[Equation, ...]], ...]
    repeated: tuple[tuple[Repeated, Fraction], ...]
    assumed: tuple[tuple[cst.CSTNode, Fraction], ...]
    unseen: tuple[cst.BaseExpression, ...]
    contradictory: tuple[cst.CSTNode, ...]
    arguments: tuple[tuple[Equation, Fraction], ...]
    lookups: tuple[Sink, ...]
    unmet: tuple[cst.CSTNode, ...]
    carried: tuple[Carried, ...]
    grown_before: tuple[Equation, ...] = ()
    undetermined: tuple[Agreement, ...] = ()


def _solve(found: Found, conflicted: frozenset[Unknown]) -> _Solved:
    """Solve the equations, the certain ones first; defaults fill in where these leave a choice.

    Args:
        conflicted: unknowns that get contradictory values; what flows into them is left out.
    """
    solution = Solution()
    for equation in found.facts:
        solution.add(equation)
    unmet = [demand for demand in found.demands if not solution.add(demand)]
    _fix_calls(solution, found.calls)
    clashing = set(conflicted)
    open_flows = _hand_on(solution, found, clashing)
    _fix_counts(solution, found, trains=False)
    written = {constant.unknown for constant in found.constants}
    for sink in found.sinks:
        if sink.is_epochs and _only(solution.resolve(sink.actual)) in written:
            solution.add(Equation(sink.actual, sink.expected, sink.node, sink.reason))
    _assign_loop_exponents(solution, found)
    for equation in found.ramps:
        solution.add(equation)
    grown_before = [size for size in found.sizes if not solution.add(size)]
    _fix_rows(solution, found)
    operands, disagreeing = _agree(solution, found.agreements)
    # What is compared with another number that nothing has determined.
    undetermined = [
        a
        for a in found.agreements
        if a.kind in ("modulus", "comparison") and not solution.resolve(a.exponents[0]).is_known
    ]
    for equation in found.weights:
        solution.add(equation)
    _fix_opaque(solution, [o for o in found.opaque if isinstance(o.node, cst.Call)])
    ranked = sorted(found.constants, key=lambda constant: constant.rank)
    for constant in ranked:
        if constant.rank < Rank.UNSEEN:
            solution.add(Equation(exponent_of(constant.unknown), ZERO, constant.node))
    _add_flows(solution, open_flows, clashing)
    in_ratios = {constant.unknown for constant in ranked if constant.rank == Rank.IN_RATIO}
    sinks = []
    waiting = list(found.sinks)
    for directly in (True, False):
        later: list[Sink] = []
        for sink in waiting:
            if directly and not _is_direct(solution, sink, in_ratios):
                later.append(sink)
                continue
            if not solution.add(Equation(sink.actual, sink.expected, sink.node, sink.reason)):
                difference = solution.resolve(sink.expected - sink.actual)
                sinks.append((sink, difference.constant))
        waiting = later
        for mean in found.means if directly else ():
            solution.add(mean)
        for constant in ranked:
            if directly and constant.rank < Rank.INCREMENT:
                solution.add(Equation(exponent_of(constant.unknown), ZERO, constant.node))
    _fix_opaque(solution, found.opaque)
    for constant in ranked:
        default = ONE if constant.rank == Rank.SIZE else ZERO
        reason = "divides rows by a batch" if default == ONE else ""
        solution.add(Equation(exponent_of(constant.unknown), default, constant.node, reason))
    _fix_counts(solution, found, trains=True)
    solved = _judged(found, solution, frozenset(clashing), sinks, operands, disagreeing, unmet)
    return replace(solved, grown_before=tuple(grown_before), undetermined=tuple(undetermined))


def _hand_on(solution: Solution, found: Found, clashing: set[Unknown]) -> list[Equation]:
    """Let values be handed on; gives the arguments of unknown exponents for parameters that are given several.

    Args:
        clashing: unknowns that get contradictory values, to which those are added that do so here.
    """
    given: defaultdict[Unknown | None, set[object]] = defaultdict(set)
    flows = [e for e in found.flows if _only(e.left) not in clashing]
    for equation in flows:
        if equation.reason == PASSES:
            given[_only(equation.left)].add(solution.resolve(equation.right).key)
    several = [e for e in flows if len(given[_only(e.left)]) > 1 and e.reason == PASSES]
    _add_flows(solution, (e for e in flows if e not in several), clashing)
    known = [e for e in several if solution.resolve(e.right).is_known]
    _add_flows(solution, known, clashing)
    return [e for e in several if e not in known]


def _add_flows(solution: Solution, flows: Iterable[Equation], clashing: set[Unknown]) -> None:
    for equation in flows:
        target = _only(equation.left)
        if not solution.add(equation) and target is not None and target.label != "calls":
            clashing.add(target)


def _fix_rows(solution: Solution, found: Found) -> None:
    """Take what unknown functions give, and the size of a batch divides, for a number of rows of the data: `len(x) // batch`."""
    opaque = {each.unknown for each in found.opaque}
    for dividend, divisor, node in found.quotients:
        if solution.resolve(divisor) == ONE:
            rows = solution.resolve(dividend)
            if _only(rows) in opaque:
                solution.add(Equation(rows, ZERO, node, "counts rows of the data"))


def _fix_opaque(solution: Solution, opaque: Sequence[Opaque]) -> None:
    """Take what unknown functions give to be the same on any number of ranks, as far as what they are given is."""
    for each in opaque:
        given = [solution.resolve(argument) for argument in each.arguments]
        if all(exponent == ZERO or not exponent.is_known for exponent in given):
            solution.add(Equation(exponent_of(each.unknown), ZERO, each.node))


def _is_direct(solution: Solution, sink: Sink, in_ratios: Collection[Unknown]) -> bool:
    """Whether a library takes a constant as it is, or a ratio of steps and a constant, so that the constant can be edited."""
    actual = solution.resolve(sink.actual)
    match [*actual.terms.items()]:
        case [(_, -1)]:
            return True
        case [(unknown, 1)]:
            return not actual.constant or unknown in in_ratios
    return False


def _assign_loop_exponents(solution: Solution, found: Found) -> None:
    """Give exponent 0 to all undetermined loops around a training step but the innermost, which takes the rest of the step's
    exponent.

    Steps with the fewest undetermined loops come first, because they determine loops that are shared with others.
    """

    def open_ends(entry: tuple[cst.Call, list[Exponent]]) -> int:
        return sum(not solution.resolve(length).is_known for length in entry[1])

    for step, lengths in sorted(found.loops, key=open_ends):
        unknown = [length for length in lengths if not solution.resolve(length).is_known]
        for length in unknown[:-1]:
            solution.add(Equation(length, ZERO, step))


def _fix_calls(solution: Solution, functions: list[list[Equation]]) -> None:
    """Give each function the frequency of its most frequent call."""
    waiting, moves = list(functions), True
    while moves:
        known = [
            calls for calls in waiting if any(_known(solution, c.right) is not None for c in calls)
        ]
        moves = bool(known)
        for calls in known:
            most = min(
                (c for c in calls if _known(solution, c.right) is not None),
                key=lambda c: _known(solution, c.right) or 0,
            )
            solution.add(most)
        waiting = [calls for calls in waiting if calls not in known]
    for calls in waiting:
        solution.add(calls[0])


def _fix_counts(solution: Solution, found: Found, trains: bool) -> None:
    """Take loops and functions, in which training runs or does not, to run as often on any number of ranks."""
    for unknown, trained in found.counts:
        if trained is trains and unknown.node is not None:
            solution.add(Equation(exponent_of(unknown), ZERO, unknown.node))


def _only(exponent: Exponent) -> Unknown | None:
    """Return the unknown if the exponent is exactly one unknown, otherwise None."""
    match [*exponent.terms.items()]:
        case [(unknown, 1)] if not exponent.constant:
            return unknown
    return None


def _agree(
    solution: Solution, agreements: list[Agreement]
) -> tuple[list[tuple[Agreement, cst.BaseExpression, Fraction]], list[Agreement]]:
    """Return the operands to convert where two known exponents differ, and the agreements that no conversion of one operand can
    satisfy.
    """
    operands, disagreeing = [], []
    for agreement in agreements:
        left, right = agreement.exponents
        equation = Equation(left, right, agreement.place, _reason(agreement))
        result = left
        sides = solution.resolve(left), solution.resolve(right)
        counts_rows = ONE in sides and ZERO in sides and agreement.kind in ("comparison", "bound")
        if (agreement.is_position and ONE in sides) or counts_rows:
            result = sides[1] if sides[0] == ONE else sides[0]
        elif not solution.add(equation):
            one, other = solution.resolve(left), solution.resolve(right)
            if not (one.is_known and other.is_known) or (one.constant and other.constant):
                disagreeing.append(agreement)
                continue
            if agreement.kind == "lookup":  # the numbers are those of a sequence
                operands.append((agreement, agreement.left, other.constant - one.constant))
                continue
            scaled = agreement.left if one.constant else agreement.right
            power = one.constant or other.constant
            if agreement.kind == "sum":
                operands.append((agreement, scaled, -power))
                result = ZERO
            else:
                same = agreement.right if scaled is agreement.left else agreement.left
                operands.append((agreement, same, power))
                result = Exponent(power)
        solution.add(Equation(agreement.result, result, agreement.place, _reason(agreement)))
    return operands, disagreeing


def _reason(agreement: Agreement) -> str:
    """Say what the program does with two numbers that must have the same scale exponent: "compares it", for example.

    The result becomes the `reason` of an `Equation`.
    """
    verbs = {
        "sum": "adds it to another number",
        "comparison": "compares it",
        "modulus": "takes it modulo another number",
        "bound": "bounds it",
        "lookup": "looks it up",
    }
    return verbs[agreement.kind]


def _judged(
    found: Found,
    solution: Solution,
    conflicted: frozenset[Unknown],
    sinks: list[tuple[Sink, Fraction]],
    operands: list[tuple[Agreement, cst.BaseExpression, Fraction]],
    disagreeing: list[Agreement],
    unmet: list[Equation],
) -> _Solved:
    """Collect the constants to scale, the contradictions and the assumptions that follow from a solution."""
    scaled = []
    for constant in found.constants:
        exponent = solution.resolve(exponent_of(constant.unknown))
        if exponent.is_known and exponent.constant:
            causes = tuple(solution.causes(exponent_of(constant.unknown)))
            scaled.append((constant, exponent.constant, causes))
    repeated = []
    for each in found.repeated:
        frequency = solution.resolve(each.frequency)
        if frequency.is_known and frequency.constant:
            often = {_known(solution, call) for call in each.calls}
            follows = each.weight != "open" and (
                solution.resolve(each.value).constant or len(often) > 1
            )
            known = replace(each, weight="open") if follows else each
            repeated.append((known, frequency.constant))
    counted = {_only(e.left) for e in found.facts if e.reason == ADDS}
    assumed: list[tuple[cst.CSTNode, Fraction]] = []
    unseen: list[cst.BaseExpression] = []
    for opaque in found.opaque:
        if opaque.unknown in counted:
            continue
        exponent = solution.resolve(exponent_of(opaque.unknown))
        is_same = exponent == ZERO or not exponent.is_known
        if is_same and any(solution.resolve(a) == -ONE for a in opaque.arguments):
            unseen += [opaque.node] if isinstance(opaque.node, cst.BaseExpression) else []
        if exponent.is_known and exponent.constant:
            assumed.append((opaque.node, exponent.constant))
    used = {u for a in found.agreements for e in a.exponents for u in e.terms}
    used |= {u for s in found.sinks for u in s.actual.terms}
    arguments = tuple(_converted_arguments(found, solution, conflicted))
    adapted = {_only(equation.left) for equation, _ in arguments}
    contradictory = tuple(
        u.node
        for u in conflicted & used
        if u.node is not None and u.label != "calls" and u not in adapted
    )
    return _Solved(
        found,
        solution,
        conflicted,
        tuple(sinks),
        tuple(operands),
        tuple(disagreeing),
        tuple(scaled),
        tuple(repeated),
        tuple(assumed),
        tuple(unseen),
        contradictory,
        arguments,
        tuple(s for s in found.lookups if _counts_steps(solution, s)),
        tuple(demand.place for demand in unmet),
        tuple(c for c in found.carried if _known(solution, c.frequency)),
    )


def _known(solution: Solution, exponent: Exponent) -> Fraction | None:
    """An exponent that is known; None of one that is not."""
    resolved = solution.resolve(exponent)
    return resolved.constant if resolved.is_known else None


def _converted_arguments(
    found: Found, solution: Solution, conflicted: Collection[Unknown]
) -> Iterator[tuple[Equation, Fraction]]:
    """The arguments to convert for parameters whose exponent their function tells: the step and the number of the cycle for the
    `n` of `gamma ** n`, which is the same number on any number of ranks.
    """
    for equation in found.flows:
        if equation.reason != PASSES or _only(equation.left) not in conflicted:
            continue
        wanted, given = solution.resolve(equation.left), solution.resolve(equation.right)
        is_told = any(c.reason not in ("", *HANDED_ON) for c in solution.causes(equation.left))
        if not is_told:
            continue
        # A number of steps, perhaps; a root of it is a consequence of what was taken for one unit elsewhere.
        power = wanted.constant - given.constant
        if wanted.is_known and given.is_known and power and power.denominator == 1:
            yield equation, power


def _counts_steps(solution: Solution, lookup: Sink) -> bool:
    index, length = solution.resolve(lookup.actual), solution.resolve(lookup.expected)
    return index == -ONE and length == ZERO
