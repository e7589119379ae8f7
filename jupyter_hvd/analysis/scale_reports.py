"""Numbers of a program that nothing scales and that the user should check, with the edit that would scale each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction

import libcst as cst

from .exponents import Exponent, exponent_of
from .library import Kind
from .scale_findings import Agreement, is_constant, number_of
from .scale_inference import ScaleInference
from .scale_solution import Solved
from .scale_state import ORDERS
from .tree import nodes_in

#: The root that rates are computed by; others come of powers of what counts steps.
ROOT = 2


@dataclass(frozen=True)
class Unscaled:
    """A value that is left alone, as its exponent is not known, with the edit that would scale it."""

    node: cst.CSTNode
    message: str
    help: str


class Reports:
    """The warnings about one module.

    Args:
        is_kept: whether an expression is in the definition of a value that is not edited there.
    """

    def __init__(
        self,
        inference: ScaleInference,
        solved: Solved,
        is_kept: Callable[[cst.CSTNode], bool],
    ) -> None:
        self._inference, self._solved, self._is_kept = inference, solved, is_kept
        self._values, self._library = inference.values, inference.library
        self._module = inference.values.module

    def _resolve(self, exponent: Exponent) -> Fraction | None:
        """Return the number that an exponent resolves to; None if it is not known."""
        resolved = self._solved.solution.resolve(exponent)
        return resolved.constant if resolved.is_known else None

    def _line(self, node: cst.CSTNode) -> int:
        """Return the line of a node."""
        return self._module.line(self._module.span(node).start)

    def _is_of_program(self, call: cst.Call) -> bool:
        """Whether a call runs a function or class of the program."""
        return bool(self._values.kinds(call.func) & {Kind.FUNCTION, Kind.CLASS})

    def _uncounted_lengths(self) -> Iterator[cst.BaseExpression]:
        """Yield the iterables of loops around training that are not data, and whose length only follows from the training."""
        for unknown, trains in self._solved.found.counts:
            node = unknown.node
            if not trains or unknown.label != "length" or not isinstance(node, cst.BaseExpression):
                continue
            around = self._module.parent(node)
            is_loop = isinstance(around, cst.For) and around.iter is node
            is_of_steps = is_loop and self._resolve(exponent_of(unknown)) == -1
            if is_of_steps and not self._library.is_data(self._values, node):
                yield node

    def _unknown_counts(
        self, scaled: Collection[cst.CSTNode]
    ) -> Iterator[tuple[cst.Call, cst.Arg]]:
        """Yield the arguments whose name suggests steps, given to unknown libraries, and that nothing has scaled."""
        for call in self._values.index.calls:
            for position, arg in enumerate(call.args):
                name = arg.keyword.value if arg.keyword else "decay" if not position else ""
                if not self._library.may_count_steps(self._values, call, name):
                    continue
                made = {value.node for value in self._values.of(arg.value)}
                numbers = {n for n in made if isinstance(n, cst.BaseNumber)}
                is_number = bool(numbers) or self._library.is_external(self._values, arg.value)
                if is_number and not any(n in scaled for n in (arg.value, *numbers)):
                    yield call, arg

    def _comparing_methods(self) -> Iterator[cst.FunctionDef]:
        """Yield the methods without known calls that compare, or divide by, whole numbers that may count steps."""
        uncalled = self._inference.frequencies.uncalled
        for agreement in self._solved.undetermined:
            terms = self._inference.frequencies.of(agreement.place).terms
            if self._is_count(agreement.left) or self._is_count(agreement.right):
                functions = (uncalled[unknown] for unknown in terms if unknown in uncalled)
                yield from (f for f in functions if self._module.class_of(f) is not None)

    def _may_be_called(self, function: cst.FunctionDef) -> bool:
        """Whether a function without known calls is named elsewhere, so that something else may call it."""
        name = function.name.value
        attributes = self._values.index.attributes
        named = [n for n in self._module.names.get(name, ()) if n is not function.name]
        if self._module.class_of(function) is not None:
            return any(each.attr.value == name for each in attributes)
        return bool(named)

    def _may_count(self, agreement: Agreement) -> bool:
        """Whether an integer bounds or divides, at each step, something that may count steps.

        What is only equal to it may be a kind or a position, unless the loop ends there.
        """
        if isinstance(agreement.place, cst.Comparison) and not (
            self._is_ordering(agreement.place) or self._ends_loop(agreement.place)
        ):
            return False
        is_whole = self._is_count(agreement.left) or self._is_count(agreement.right)
        around = self._module.enclosing(
            agreement.place, (cst.BaseSmallStatement, cst.BaseStatement)
        )
        place = around.body if isinstance(around, cst.While) else agreement.place
        lengths = (self._inference.scale(side).length for side in (agreement.left, agreement.right))
        often = [self._inference.frequencies.of(place), *(each for each in lengths if each)]
        return is_whole and any(self._resolve(each) == -1 for each in often)

    def _is_count(self, number: cst.BaseExpression) -> bool:
        """Whether a number is an integer above 1, literal or named, or an integer option."""
        if self._library.is_external(self._values, number):
            return self._inference.whole.is_whole(number)
        made = [value.node for value in self._values.of(number)]
        numbers = [number_of(node) for node in made if isinstance(node, cst.BaseExpression)]
        return bool(numbers) and all(isinstance(n, int) and n > 1 for n in numbers)

    def _is_ordering(self, comparison: cst.Comparison) -> bool:
        """Whether a comparison is `<`, `<=`, `>` or `>=`."""
        return all(isinstance(target.operator, ORDERS) for target in comparison.comparisons)

    def _ends_loop(self, test: cst.BaseExpression) -> bool:
        """Whether a loop or function is left where a test holds."""
        guard = self._module.parent(test)
        return (
            isinstance(guard, cst.If)
            and guard.test is test
            and any(isinstance(n, cst.Break | cst.Return) for n in nodes_in(guard.body))
        )

    def unscaled(self, scaled: Collection[cst.CSTNode]) -> tuple[Unscaled, ...]:
        """Return the numbers that are not edited and that the user should check, each once per line and message.

        Args:
            scaled: the nodes that are edited.
        """
        span = self._module.span
        found = sorted(self._find_unscaled(scaled), key=lambda u: span(u.node).start)
        once = {(self._line(each.node), each.message): each for each in reversed(found)}
        return tuple(reversed(once.values()))

    def _find_unscaled(self, scaled: Collection[cst.CSTNode]) -> Iterator[Unscaled]:
        """Yield the numbers to check, kind by kind, with the edit that would scale each."""
        text = self._module.text
        for repeated, _ in self._solved.repeated:
            if repeated.weight == "open":
                often = "once a step" if repeated.events is None else "at some steps"
                yield Unscaled(
                    repeated.node,
                    f"`{text(repeated.node)}` is applied {often}, of which N ranks take an N-th, and is left as it is",
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
            if self._is_kept(opaque) or power.denominator > 1:
                continue
            factor = _describe_factor(power)
            yield Unscaled(
                opaque,
                f"`{text(opaque)}` is taken to scale with the number of ranks by itself; nothing tells whether it does",
                f"if it is the same on any number of ranks, {factor}",
            )
        for constant, power, _ in self._solved.scaled:
            if power.denominator > ROOT and not self._is_kept(constant.node):
                yield Unscaled(
                    constant.node,
                    f"`{text(constant.node)}` stands beside a power of a number that scales with the number of ranks",
                    "compute the power of a ratio of steps, or of epochs",
                )
        for call in self._solved.unseen:
            is_used = not isinstance(self._module.parent(call), cst.Expr)
            is_called = isinstance(call, cst.Call) and self._is_of_program(call)
            if is_used and not self._is_kept(call) and not is_called:
                yield Unscaled(
                    call,
                    f"`{text(call)}` is given a number of steps, of which N ranks take an N-th; "
                    "nothing tells what it computes from them",
                    "give it the step of one process: multiply by the number of ranks",
                )
        for listed in self._solved.listed:
            if not isinstance(self._module.parent(listed), cst.Expr) and not self._is_kept(listed):
                yield Unscaled(
                    listed,
                    f"`{text(listed)}` combines a sequence that has an entry for each step with numbers that stay as they are",
                    "if a number counts steps, divide it by the number of ranks",
                )
        for match in (n for n in self._module.nodes() if isinstance(n, cst.Match)):
            if self._resolve(self._inference.scale(match.subject).value) == -1:
                yield Unscaled(
                    match.subject,
                    f"`match {text(match.subject)}` compares a number of steps with numbers that stay as they are",
                    "compare it in an `if` statement, whose numbers are converted",
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
        for call, arg in self._unknown_counts(scaled):
            yield Unscaled(
                arg.value,
                f"nothing tells whether `{text(call.func)}` counts steps by `{text(arg)}`, which stays as it is",
                "if it counts steps, divide it by the number of ranks; raise a factor of each step to the power of it",
            )
        for function in dict.fromkeys([*self._solved.found.uncalled, *self._comparing_methods()]):
            if self._may_be_called(function):
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
        for store in self._solved.stores:
            entry = self._module.enclosing(store.node, cst.Subscript) or store.node
            yield Unscaled(
                entry,
                f"`{text(entry)}` is set once a step, of which N ranks take an N-th, so the last entries stay as they were",
                "make it as long as there are steps, or store what each step gives in a list",
            )
        for agreement in self._solved.mixed:
            yield Unscaled(
                agreement.place,
                f"`{text(agreement.place)}` depends on a count of calls, some of which run once a step and others do not",
                "count the steps of training in a variable of its own",
            )
        for node in self._solved.contradictory:
            yield Unscaled(
                node,
                f"`{text(node)}` gets numbers that scale differently with the number of ranks",
                "use a variable for each of them",
            )


def _describe_factor(power: Fraction) -> str:
    """Return the advice to multiply by N ** power, in words."""
    if power == -1:
        return "divide it by the number of ranks"
    if power == 1:
        return "multiply it by the number of ranks"
    return f"multiply it by the number of ranks to the power {power}"
