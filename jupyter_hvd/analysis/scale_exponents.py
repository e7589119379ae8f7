"""Solves for the scale exponent of each variable, and finds the numbers that must be edited.

Value on N ranks = value of one process * N ** k, at the same number of examples seen. Steps have k = -1, rows of a batch
+1, epochs and ratios 0. The exponents are solved for as units of measure are; a constant whose exponent is not 0 must be
edited, and so must an operand or an argument whose exponent is not the one that its place asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

import libcst as cst

from .exponents import ONE, ZERO, Equation, Exponent, Unknown, exponent_of
from .kept_values import KeptValues
from .library import Kind
from .scale_findings import (
    Constant,
    is_constant,
    number_of,
)
from .scale_inference import ScaleInference
from .scale_reports import ROOT, Reports, Unscaled
from .scale_signatures import ScaleLibrary
from .scale_solution import HANDED_ON, Solved, solve
from .scale_state import ADDS, ORDERS
from .values import ValueAnalysis

CoercionKind = Literal[
    "sink",
    "operand",
    "constant",
    "counterpart",
    "restored",
    "remainder",
    "last",
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
    of such a factor, the difference to 1. The `last` number of `range(1, n)` is one more than the steps.

    Of a `list` each number is multiplied, of a dictionary its `keys`. What is `read` holds the value of one process on any
    number of ranks. A `counterpart` is multiplied instead of dividing the constant that it is divided by or compared with:
    `steps * N // 3`, `step * N < 3`, since 3 // N is not 3 / N. One that was rounded down where it is defined is `restored`.

    Attributes:
        is_whole: the expression is a whole number, and must stay one.
        reason: what asks for it, as a sentence.
        bound: the text of what it must stay below: of the `r` of `step % p == r` p, of an index the length.
    """

    node: cst.BaseExpression
    power: Fraction
    kind: CoercionKind
    is_whole: bool
    reason: str
    bound: str = ""


@dataclass(frozen=True)
class ExplainedVariable:
    """A variable where it is set, with what determined its exponent.

    Attributes:
        name: as the program writes it. place: the name, where it is set.
        exponent: None if the program contradicts itself; the text "any" if nothing determines it.
        frequency: how often the statement runs, likewise.
        cause: what determined the exponent, and its line; '' and 0 if nothing did.
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
    def _solved(self) -> Solved:
        """The solution. It is repeated without the values that conflict, until no further ones do."""
        found = self._inference.collect()
        found.facts += [
            Equation(exponent_of(each.unknown), ZERO, each.node)
            for each in found.constants
            if self._is_in_kept_pair(each.node)
        ]
        conflicted: frozenset[Unknown] = frozenset()
        while True:
            solved = solve(found, conflicted)
            if solved.conflicted <= conflicted:
                return solved
            conflicted |= solved.conflicted

    def exponent(self, node: cst.BaseExpression) -> Fraction | None:
        """Return the exponent of an expression; None if it is not known."""
        return self._resolve(self._inference.scale(node).value)

    def _resolve(self, exponent: Exponent) -> Fraction | None:
        """Return the number that an exponent resolves to; None if it is not known."""
        exponent = self._solved.solution.resolve(exponent)
        return exponent.constant if exponent.is_known else None

    @cached_property
    def explained(self) -> tuple[ExplainedVariable, ...]:
        """Every variable at every assignment, in the order of the text."""
        solved = self._solved
        return tuple(
            ExplainedVariable(
                each.name,
                each.place,
                self._explain_exponent(each.exponent),
                self._explain_exponent(each.frequency),
                *self._find_cause(each.exponent, each.place),
            )
            for each in sorted(
                solved.found.assignments, key=lambda a: self.module.span(a.place).start
            )
        )

    def _explain_exponent(self, exponent: Exponent) -> Fraction | Literal["any"] | None:
        """Return an exponent for the user: a number, "any", or None for a contradiction."""
        if exponent.terms.keys() & self._solved.conflicted:
            return None
        resolved = self._solved.solution.resolve(exponent)
        return resolved.constant if resolved.is_known else "any"

    def _find_cause(self, exponent: Exponent, place: cst.CSTNode) -> tuple[str, int]:
        """Return the reason and line of the nearest informative equation that determined an exponent, on another line if
        possible.
        """
        here = self._line(place)
        told = [e for e in self._solved.solution.causes(exponent) if e.reason]
        said = [e for e in told if e.reason not in HANDED_ON]
        counted = [e for e in said[:4] if e.reason == ADDS]
        elsewhere = [e for e in said if self._line(e.place) != here]
        chosen = next(iter([*counted, *elsewhere, *told]), None)
        return (chosen.reason, self._line(chosen.place)) if chosen is not None else ("", 0)

    def _line(self, node: cst.CSTNode) -> int:
        """Return the line of a node."""
        return self.module.line(self.module.span(node).start)

    # What must be edited

    @cached_property
    def coercions(self) -> tuple[Coercion, ...]:
        """The edits that scale the program, each expression once, in the order of the text."""
        found: dict[tuple[cst.CSTNode, str], Coercion] = {}
        for coercion in (
            *self._coerce_sinks(),
            *self._coerce_operands(),
            *self._coerce_arguments(),
            *self._coerce_lookups(),
            *self._coerce_constants(),
            *self._coerce_repeated(),
        ):
            if not self.is_kept(coercion.node):
                found.setdefault((coercion.node, coercion.kind), coercion)
        for node in {key[0] for key in found}:
            # A number that is divided where it is read, and multiplied for what takes it there, stays.
            both = [found.get((node, kind)) for kind in ("constant", "sink")]
            if all(both) and not sum(each.power for each in both if each is not None):
                for kind in ("constant", "sink"):
                    del found[node, kind]
        for read in self._coerce_reads():
            others = [
                found.pop(key) for key in [*found] if key[0] is read.node and key[1] != "repeated"
            ]
            power = read.power + sum(other.power for other in others)
            if power:
                found[read.node, "read"] = replace(read, power=power)
        return tuple(sorted(found.values(), key=lambda c: self.module.span(c.node).start))

    @property
    def sizes_read(self) -> list[cst.BaseExpression]:
        """Where batch sizes are read whose definitions are kept as they are."""
        return [c.node for c in self.coercions if c.kind == "read" and c.power == 1]

    def is_kept(self, node: cst.CSTNode) -> bool:
        """Whether an expression is in the definition of a kept value, which is not edited."""
        return self._kept is not None and self._kept.is_in_definition(node)

    def _is_in_kept_pair(self, node: cst.CSTNode) -> bool:
        """Whether a number is in a tuple of a kept list: what it is compared with is converted instead."""
        entry = self.module.parent(node)
        if not isinstance(entry, cst.Element):
            return False
        around = self.module.parent(self.module.parent(entry) or entry)
        return isinstance(around, cst.Element) and self.is_kept(node)

    def _coerce_reads(self) -> Iterator[Coercion]:
        """Yield the conversions of kept values where they are read."""
        for node in self._kept.reads if self._kept is not None else ():
            looked_up = node.value if isinstance(node, cst.Subscript) else node
            if self._inference.scale(looked_up).values:
                yield from self._coerce_keys(looked_up)
            numbers = self._inference.numbers(node)
            is_list = numbers is not self._inference.scale(node)
            exponent, edited = self._resolve(numbers.value), self._inference.edited.get(node)
            power = (exponent or Fraction()) - (edited.value if edited is not None else 0)
            if self._kept is not None and exponent is not None and power:
                undefined = self._kept.is_undefined(node)
                reason = f"`{self.module.text(node)}` is that of one process"
                found = self._make_coercion(node, power, "list" if is_list else "read", reason)
                yield replace(found, is_whole=found.is_whole or undefined)

    def _coerce_keys(self, node: cst.BaseExpression) -> Iterator[Coercion]:
        """Yield the conversion of a dictionary whose keys are steps of one process; steps may lie between them."""
        keys = self._inference.element(self._inference.scale(node))
        power = self._resolve(keys.value) if keys is not None else None
        if power:
            made = [value.node for value in self.values.of(node)]
            entries = (e for each in made if isinstance(each, cst.Dict) for e in each.elements)
            written = (e.key for e in entries if isinstance(e, cst.DictElement))
            is_whole = all(map(self._inference.whole.is_whole, written))
            reason = f"`{self.module.text(node)}` is that of one process"
            yield Coercion(node, power, "keys", is_whole, reason)

    def _make_coercion(
        self,
        node: cst.BaseExpression,
        power: Fraction,
        kind: CoercionKind,
        reason: str,
        bound: str = "",
    ) -> Coercion:
        """Return a conversion, with whether the expression is an integer and must stay one."""
        is_whole = self._inference.whole.is_whole(node) or self._is_beside_whole(node)
        is_whole = is_whole or (power == -1 and node in self._counting)
        if power == 1 and self._rounds_steps(node):
            assert isinstance(node, cst.BinaryOperation)
            node = node.left
        return Coercion(node, power, kind, is_whole, reason, bound)

    @cached_property
    def _counting(self) -> frozenset[cst.CSTNode]:
        """What libraries and lists take as a number of steps, which is a whole number."""
        found = self._inference.found
        resolve = self._solved.solution.resolve
        return frozenset(
            sink.node for sink in (*found.sinks, *found.cuts) if resolve(sink.expected) == -ONE
        )

    def _rounds_steps(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is `steps // n`, whose dividend is multiplied before it is rounded."""
        match node:
            case cst.BinaryOperation(left=left, operator=cst.FloorDivide(), right=right):
                return self.exponent(left) == -1 and self.exponent(right) == 0
        return False

    def _is_beside_whole(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is the `p` of `step % p`, `step == p` or `range(p)` with an integer number of steps."""
        parent = self.module.parent(node)
        around = self.module.parent(parent) if isinstance(parent, cst.ComparisonTarget) else parent
        match parent, around:
            case _, cst.BinaryOperation(left=left, operator=cst.Modulo(), right=right):
                return right is node and self._inference.whole.is_whole(left)
            case cst.ComparisonTarget(operator=cst.Equal() | cst.NotEqual()), cst.Comparison():
                return self._inference.whole.is_whole(around.left)
            case cst.Arg(), _:
                call = self.module.parent(parent)
                return isinstance(call, cst.Call) and self._library.is_range(
                    self.values.qualified(call.func)
                )
        return False

    def _coerce_sinks(self) -> Iterator[Coercion]:
        """Yield the conversions of arguments that libraries take in another unit."""
        for sink, power in self._solved.sinks:
            reason = f"line {self._line(sink.node)} {sink.reason}"
            kind: CoercionKind = "list" if sink.is_list else "sink"
            yield self._make_coercion(sink.node, power, kind, reason)

    def _coerce_operands(self) -> Iterator[Coercion]:
        """Yield the conversions of operands that must have the unit of the other operand."""
        for agreement, node, power in self._solved.operands:
            reason = f"line {self._line(agreement.place)} needs both sides in one unit"
            yield self._make_coercion(node, power, "operand", reason)

    def _coerce_arguments(self) -> Iterator[Coercion]:
        """Yield the conversions of arguments of user-defined functions."""
        for equation, power in self._solved.arguments:
            if isinstance(equation.place, cst.BaseExpression):
                causes = tuple(self._solved.solution.causes(equation.left))
                yield self._make_coercion(
                    equation.place, power, "operand", self._nearest_reason(causes)
                )

    def _coerce_lookups(self) -> Iterator[Coercion]:
        """Yield the conversions of steps that are used as indices of a table whose length does not depend on N.

        The last step of N ranks may be beyond the last of one process, because the last batch of an epoch is smaller.
        """
        for lookup in self._solved.lookups:
            reason = f"line {self._line(lookup.node)} {lookup.reason}"
            around = self.module.enclosing(lookup.node, cst.Subscript)
            table = around.value if around is not None else lookup.node
            has_name = isinstance(table, cst.Name | cst.Attribute)
            length = f"len({self.module.text(table)})" if has_name else ""
            if length and self._rounds_steps(lookup.node):
                assert isinstance(lookup.node, cst.BinaryOperation)
                divisor = self.module.text(lookup.node.right)
                # min(s, length * d - 1) // d == min(s // d, length - 1)
                length += f" * {divisor}"
            yield self._make_coercion(lookup.node, Fraction(1), "lookup", reason, length)

    def _coerce_constants(self) -> Iterator[Coercion]:
        """Yield the conversions of constants, or of the counterpart that is multiplied instead."""
        kind: CoercionKind
        for constant, power, causes in self._solved.scaled:
            if power.denominator <= ROOT and not self._needs_no_edit(constant, power):
                if power == -1 and (other := self._find_counterpart(constant.node)) is not None:
                    kind = "restored" if self._is_rounded(other) else "counterpart"
                    yield self._make_coercion(other, -power, kind, self._nearest_reason(causes))
                    continue
                if power == -1 and (product := self._product(constant.node)) is not None:
                    yield self._make_coercion(
                        product, power, "operand", self._nearest_reason(causes)
                    )
                    continue
                modulus = self._find_modulus(constant)
                kind = "constant" if modulus is None else "remainder"
                if power == -1 and self._ends_after_one(constant.node):
                    kind = "last"
                text = self.module.text(modulus) if modulus is not None else ""
                yield self._make_coercion(
                    constant.node, power, kind, self._nearest_reason(causes), text
                )

    def _is_rounded(self, dividend: cst.BaseExpression) -> bool:
        """Whether the `total` of `total // 20` is a constant that is divided and rounded where it is defined."""
        parent = self.module.parent(dividend)
        if not isinstance(parent, cst.BinaryOperation) or parent.left is not dividend:
            return False
        rounded = {c.node for c, power, _ in self._solved.scaled if power == -1}
        made = {value.node for value in self.values.of(dividend)}
        return isinstance(parent.operator, cst.FloorDivide) and made <= rounded and bool(made)

    def _needs_no_edit(self, constant: Constant, power: Fraction) -> bool:
        """Whether a constant needs no edit: one step is one in any unit, and batch sizes of other data are not the training's."""
        parent = self.module.parent(constant.node)
        if power == -1:
            # A length of 1.0 steps that has a name is divided: `1 + step / length`.
            has_name = isinstance(parent, (cst.Param, cst.Assign, cst.AnnAssign, cst.DictElement))
            is_length = has_name and isinstance(constant.node, cst.Float)
            is_divided = is_length or self._find_divisor(constant.node) is not None
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
        """Whether a call runs a function or class of the program."""
        return bool(self.values.kinds(call.func) & {Kind.FUNCTION, Kind.CLASS})

    def _find_counterpart(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return what is multiplied instead of dividing a constant: what it divides, or what it is compared with; None if
        nothing.
        """
        target = self.module.parent(node)
        comparison = (
            self.module.parent(target) if isinstance(target, cst.ComparisonTarget) else None
        )
        match comparison:
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=operator)]):
                is_order = isinstance(operator, ORDERS)
                return left if is_order and not is_constant(left) else None
        return self._find_divisor(node) or self._find_dividend(node)

    def _find_divisor(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return the `step + 1` of `1 / (step + 1)`; None for another expression."""
        match self.module.parent(node):
            case cst.BinaryOperation(left=left, operator=cst.Divide(), right=right) if left is node:
                return right if number_of(node) == 1 and not is_constant(right) else None
        return None

    def _find_dividend(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return what is divided by a constant, or by a product with it; None in a mean, which divides by the steps that were
        taken.
        """
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

    def _product(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return the product that an integer is a factor of: `3 * steps // N` rounds less off than `3 // N * steps`."""
        product: cst.BaseExpression | None = None
        parent = self.module.parent(node)
        while isinstance(parent, cst.BinaryOperation):
            if not isinstance(parent.operator, cst.Multiply):
                break
            product, parent = parent, self.module.parent(parent)
        is_whole = product is not None and self._inference.whole.is_whole(product)
        return product if is_whole else None

    def _ends_after_one(self, node: cst.BaseExpression) -> bool:
        """Whether a number is the end of `range(1, n)`, which has `n - 1` steps."""
        arg = self.module.parent(node)
        match self.module.parent(arg) if isinstance(arg, cst.Arg) else None:
            case cst.Call(args=[first, second, *_]) as call:
                counts = self._library.is_range(self.values.qualified(call.func))
                return counts and second is arg and number_of(first.value) == 1
        return False

    def _find_modulus(self, constant: Constant) -> cst.BaseExpression | None:
        """Return the `p` of `step % p == r`, given a constant r; None for another constant."""
        target = self.module.parent(constant.node)
        comparison = self.module.parent(target) if target is not None else None
        match target, comparison:
            case cst.ComparisonTarget(), cst.Comparison(
                left=cst.BinaryOperation(operator=cst.Modulo(), right=modulus)
            ):
                return modulus
        return None

    def _nearest_reason(self, causes: tuple[Equation, ...]) -> str:
        """Return the reason of the nearest informative equation, with its line; '' if there is none."""
        told = [c for c in causes if c.reason and c.reason not in HANDED_ON] or [*causes]
        return f"line {self._line(told[0].place)} {told[0].reason}" if told else ""

    def _coerce_repeated(self) -> Iterator[Coercion]:
        """Yield the conversions of factors that are applied once per step, and of weights of moving averages."""
        for repeated, power in self._solved.repeated:
            if repeated.weight != "open":
                kind: CoercionKind = "repeated" if repeated.weight == "factor" else "rest"
                reason = f"line {self._line(repeated.node)} multiplies by it once a step"
                yield self._make_coercion(repeated.node, -power, kind, reason)

    @cached_property
    def unscaled(self) -> tuple[Unscaled, ...]:
        """The numbers that are not edited and that the user should check."""
        reports = Reports(self._inference, self._solved, self.is_kept)
        return reports.unscaled({coercion.node for coercion in self.coercions})
