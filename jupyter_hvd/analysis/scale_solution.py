"""The solution of a module's equations, in a fixed order, and what follows from it.

What is certain (values that are handed on, recurrences, frequencies) comes first, then what must agree (sums, comparisons), then
what libraries take. A constant is an unknown until then. Where the equations leave a choice its exponent is 0: ratios and
factors first, counts with names last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import libcst as cst

from .exponents import ONE, ZERO, Equation, Exponent, Solution, Unknown, exponent_of
from .scale_findings import Agreement, Carried, Constant, Findings, Opaque, Rank, Repeated, Sink
from .scale_inference import SETS
from .scale_program_calls import PASSES
from .scale_state import ADDS

#: Reasons that only say that a value is handed on.
HANDED_ON = (SETS, PASSES, "calls it")


@dataclass(frozen=True)
class Solved:
    """The solution of one module's equations, and what stood against it."""

    found: Findings
    solution: Solution
    conflicted: frozenset[Unknown]
    sinks: tuple[tuple[Sink, Fraction], ...]
    operands: tuple[tuple[Agreement, cst.BaseExpression, Fraction], ...]
    disagreeing: tuple[Agreement, ...]
    scaled: tuple[tuple[Constant, Fraction, tuple[Equation, ...]], ...]
    repeated: tuple[tuple[Repeated, Fraction], ...]
    assumed: tuple[tuple[cst.CSTNode, Fraction], ...]
    unseen: tuple[cst.BaseExpression, ...]
    listed: tuple[cst.CSTNode, ...]
    contradictory: tuple[cst.CSTNode, ...]
    mixed: tuple[Agreement, ...]
    arguments: tuple[tuple[Equation, Fraction], ...]
    lookups: tuple[Sink, ...]
    stores: tuple[Sink, ...]
    unmet: tuple[cst.CSTNode, ...]
    carried: tuple[Carried, ...]
    grown_before: tuple[Equation, ...] = ()
    undetermined: tuple[Agreement, ...] = ()


def solve(found: Findings, conflicted: frozenset[Unknown]) -> Solved:
    """Solve the equations, the certain ones first; defaults fill in where these leave a choice.

    Args:
        conflicted: unknowns that get contradictory values; what flows into them is left out.
    """
    solution = Solution()
    for equation in found.facts:
        solution.add(equation)
    unmet = [demand for demand in found.demands if not solution.add(demand)]
    _assign_call_frequencies(solution, found.calls)
    clashing = set(conflicted)
    open_flows = _add_certain_flows(solution, found, clashing, unmet)
    _assume_counts(solution, found, trains=False)
    written = {constant.unknown for constant in found.constants}
    for sink in found.sinks:
        if sink.is_epochs and _only(solution.resolve(sink.actual)) in written:
            solution.add(Equation(sink.actual, sink.expected, sink.node, sink.reason))
    _assign_loop_exponents(solution, found)
    for equation in found.ramps:
        solution.add(equation)
    grown_before = [size for size in found.sizes if not solution.add(size)]
    _assume_rows(solution, found)
    rows = _assume_sizes(solution, found)
    operands, disagreeing = _solve_agreements(solution, found.agreements)
    # What is compared with another number that nothing has determined.
    undetermined = [
        a
        for a in found.agreements
        if a.kind in ("modulus", "comparison") and not solution.resolve(a.exponents[0]).is_known
    ]
    for equation in found.weights:
        solution.add(equation)
    _assume_opaque(solution, [o for o in found.opaque if isinstance(o.node, cst.Call)])
    ranked = sorted(found.constants, key=lambda constant: constant.rank)
    for constant in ranked:
        if constant.rank < Rank.UNSEEN:
            solution.add(Equation(exponent_of(constant.unknown), ZERO, constant.node))
    for equation in open_flows:
        if _only(equation.left) in found.asked:
            _fix_factor_of_steps(solution, equation.right, equation.left, written)
        _add_flows(solution, [equation], clashing)
    in_ratios = {constant.unknown for constant in ranked if constant.rank == Rank.IN_RATIO}
    sinks = [*rows]
    cuts = (cut for cut in found.cuts if (_known_exponent(solution, cut.expected) or 0) < 0)
    waiting = [*found.sinks, *cuts]
    for directly in (True, False):
        later: list[Sink] = []
        for sink in waiting:
            if directly and not _is_direct(solution, sink, in_ratios):
                later.append(sink)
                continue
            if not directly:
                _fix_factor_of_steps(solution, sink.actual, sink.expected, written)
            if not solution.add(Equation(sink.actual, sink.expected, sink.node, sink.reason)):
                difference = solution.resolve(sink.expected - sink.actual)
                sinks.append((sink, difference.constant))
        waiting = later
        for mean in found.means if directly else ():
            solution.add(mean)
        for constant in ranked:
            if directly and constant.rank < Rank.INCREMENT:
                solution.add(Equation(exponent_of(constant.unknown), ZERO, constant.node))
    _assume_opaque(solution, found.opaque)
    for constant in ranked:
        default = ONE if constant.rank == Rank.SIZE else ZERO
        reason = "divides rows by a batch" if default == ONE else ""
        solution.add(Equation(exponent_of(constant.unknown), default, constant.node, reason))
    _assume_counts(solution, found, trains=True)
    solved = _collect_solved(
        found, solution, frozenset(clashing), sinks, operands, disagreeing, unmet
    )
    return replace(solved, grown_before=tuple(grown_before), undetermined=tuple(undetermined))


def _add_certain_flows(
    solution: Solution, found: Findings, clashing: set[Unknown], unmet: list[Equation]
) -> list[Equation]:
    """Add the equations of values that flow from one expression to another; return those that are postponed.

    A parameter that is given different exponents, or whose function asks for a unit, is postponed where an argument's
    exponent is not known yet.

    Args:
        clashing: the unknowns that get contradictory values; further ones are added.
        unmet: equations of training steps that do not hold; further ones are added.
    """
    given: defaultdict[Unknown | None, set[object]] = defaultdict(set)
    flows = [e for e in found.flows if _only(e.left) not in clashing]
    for equation in flows:
        if equation.reason == PASSES:
            given[_only(equation.left)].add(solution.resolve(equation.right).key)
    asked = [e for e in flows if _only(e.left) in found.asked and e.reason == PASSES]
    several = [e for e in flows if len(given[_only(e.left)]) > 1 and e.reason == PASSES]
    unmet += _add_flows(solution, (e for e in flows if e not in (*several, *asked)), clashing)
    several = [*(e for e in several if e not in asked), *asked]
    known = [e for e in several if e not in asked and solution.resolve(e.right).is_known]
    _add_flows(solution, known, clashing)
    return [e for e in several if e not in known]


def _add_flows(
    solution: Solution, flows: Iterable[Equation], clashing: set[Unknown]
) -> list[Equation]:
    """Add equations of flowing values; unknowns whose equation contradicts earlier ones are added to `clashing`, except
    frequencies of calls.

    Returns:
        the equations of frequencies that contradict earlier ones.
    """
    unmet = []
    for equation in flows:
        target = _only(equation.left)
        if not solution.add(equation) and target is not None:
            if target.label == "calls":
                unmet.append(equation)
            else:
                clashing.add(target)
    return unmet


def _assume_rows(solution: Solution, found: Findings) -> None:
    """Assume that a constant, or an unknown function's result, that a batch size divides is a number of rows of the data:
    `len(x) // batch`, `rows // batch`.
    """
    counts = {each.unknown for each in found.opaque} | {each.unknown for each in found.constants}
    for dividend, divisor, node in found.quotients:
        if solution.resolve(divisor) == ONE:
            rows = solution.resolve(dividend)
            if _only(rows) in counts:
                solution.add(Equation(rows, ZERO, node, "counts rows of the data"))


def _assume_sizes(solution: Solution, found: Findings) -> list[tuple[Sink, Fraction]]:
    """Assume that a number written like a batch size and multiplied by steps is the rows of one step, and so scales.

    Returns:
        the sizes that have another exponent, with the power to multiply them by where they are read.
    """
    reason = "multiplies steps by the rows of each"
    written = {constant.node: constant.unknown for constant in found.constants}
    read = []
    for rows in found.rows_of_steps:
        if solution.resolve(rows.count) != -ONE or solution.resolve(rows.size) == ONE:
            continue
        unknown = written.get(rows.node)
        is_edited = unknown is not None and solution.add(
            Equation(exponent_of(unknown), ONE, rows.node, reason)
        )
        if not is_edited:
            read.append((Sink(rows.node, rows.size, ONE, reason), Fraction(1)))
    return read


def _assume_opaque(solution: Solution, opaque: Sequence[Opaque]) -> None:
    """Assume that an unknown function's result does not depend on N, if its arguments do not."""
    for each in opaque:
        given = [solution.resolve(argument) for argument in each.arguments]
        if all(exponent == ZERO or not exponent.is_known for exponent in given):
            solution.add(Equation(exponent_of(each.unknown), ZERO, each.node))


def _is_direct(solution: Solution, sink: Sink, in_ratios: Collection[Unknown]) -> bool:
    """Whether a library takes a constant itself, or a ratio of steps and a constant, so that the constant can be edited."""
    actual = solution.resolve(sink.actual)
    match [*actual.terms.items()]:
        case [(_, -1)]:
            return True
        case [(unknown, 1)]:
            return not actual.constant or unknown in in_ratios
    return False


def _assign_loop_exponents(solution: Solution, found: Findings) -> None:
    """Give exponent 0 to all undetermined loops around a training step but the innermost, which takes the rest of the step's
    exponent.

    Steps with the fewest undetermined loops come first, because they determine loops that are shared with others.
    """

    def count_undetermined(entry: tuple[cst.Call, list[Exponent]]) -> int:
        """Count the undetermined loops around a step."""
        return sum(not solution.resolve(length).is_known for length in entry[1])

    for step, lengths in sorted(found.loops, key=count_undetermined):
        unknown = [length for length in lengths if not solution.resolve(length).is_known]
        for length in unknown[:-1]:
            solution.add(Equation(length, ZERO, step))


def _assign_call_frequencies(solution: Solution, functions: list[list[Equation]]) -> None:
    """Give each function the frequency of its most frequent call."""
    waiting, moves = list(functions), True
    while moves:
        known = [
            calls
            for calls in waiting
            if any(_known_exponent(solution, c.right) is not None for c in calls)
        ]
        moves = bool(known)
        for calls in known:
            most = min(
                (c for c in calls if _known_exponent(solution, c.right) is not None),
                key=lambda c: _known_exponent(solution, c.right) or 0,
            )
            solution.add(most)
        waiting = [calls for calls in waiting if calls not in known]
    for calls in waiting:
        solution.add(calls[0])


def _assume_counts(solution: Solution, found: Findings, trains: bool) -> None:
    """Assume that loops and functions run equally often for all N: those in which training runs, or the others."""
    for unknown, trained in found.counts:
        if trained is trains and unknown.node is not None:
            solution.add(Equation(exponent_of(unknown), ZERO, unknown.node))


def _only(exponent: Exponent) -> Unknown | None:
    """Return the unknown if the exponent is exactly one unknown, otherwise None."""
    match [*exponent.terms.items()]:
        case [(unknown, 1)] if not exponent.constant:
            return unknown
    return None


def _solve_agreements(
    solution: Solution, agreements: list[Agreement]
) -> tuple[list[tuple[Agreement, cst.BaseExpression, Fraction]], list[Agreement]]:
    """Return the operands to convert where two known exponents differ, and the agreements that converting one operand cannot
    satisfy.
    """
    operands, disagreeing = [], []
    for agreement in agreements:
        left, right = agreement.exponents
        equation = Equation(left, right, agreement.place, _describe_agreement(agreement))
        result = left
        sides = solution.resolve(left), solution.resolve(right)
        counts_rows = ONE in sides and ZERO in sides and agreement.kind in ("comparison", "bound")
        if agreement.cuts and -ONE not in sides:
            result = left
        elif (agreement.is_position and ONE in sides) or counts_rows:
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
        solution.add(
            Equation(agreement.result, result, agreement.place, _describe_agreement(agreement))
        )
    return operands, disagreeing


def _fix_factor_of_steps(
    solution: Solution, actual: Exponent, expected: Exponent, written: Collection[Unknown]
) -> None:
    """Leave a constant as it is by which steps are multiplied, such as a number of epochs: what takes the product converts it.

    Other uses of the constant would be scaled, too.
    """
    actual, expected = solution.resolve(actual), solution.resolve(expected)
    unknown = _only(actual - Exponent(actual.constant))
    is_multiplied = expected.is_known and actual.constant < min(ZERO.constant, expected.constant)
    if unknown is not None and unknown.node is not None and unknown in written and is_multiplied:
        solution.add(Equation(exponent_of(unknown), ZERO, unknown.node))


def _describe_agreement(agreement: Agreement) -> str:
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


def _collect_solved(
    found: Findings,
    solution: Solution,
    conflicted: frozenset[Unknown],
    sinks: list[tuple[Sink, Fraction]],
    operands: list[tuple[Agreement, cst.BaseExpression, Fraction]],
    disagreeing: list[Agreement],
    unmet: list[Equation],
) -> Solved:
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
            often = {_known_exponent(solution, call) for call in each.calls}
            is_event = each.events is not None and {
                _known_exponent(solution, e) for e in each.events
            } != {Fraction(-1)}
            follows = each.weight != "open" and (
                solution.resolve(each.value).constant or len(often) > 1 or is_event
            )
            known = replace(each, weight="open") if follows else each
            repeated.append((known, frequency.constant))
    counted = {_only(e.left) for e in found.facts if e.reason == ADDS}
    assumed: list[tuple[cst.CSTNode, Fraction]] = []
    unseen: list[cst.BaseExpression] = []
    listed: list[cst.CSTNode] = []
    for opaque in found.opaque:
        if opaque.unknown in counted:
            continue
        exponent = solution.resolve(exponent_of(opaque.unknown))
        is_same = exponent == ZERO or not exponent.is_known
        if is_same and any(solution.resolve(a) == -ONE for a in opaque.arguments):
            unseen += [opaque.node] if isinstance(opaque.node, cst.BaseExpression) else []
        if any(solution.resolve(n) == ZERO for n in opaque.numbers) and any(
            solution.resolve(length) == -ONE for length in opaque.lengths
        ):
            listed.append(opaque.node)
        if exponent.is_known and exponent.constant:
            assumed.append((opaque.node, exponent.constant))
    used = {u for a in found.agreements for e in a.exponents for u in e.terms}
    used |= {u for s in found.sinks for u in s.actual.terms}
    arguments = tuple(_find_converted_arguments(found, solution, conflicted))
    adapted = {_only(equation.left) for equation, _ in arguments}
    contradictory = tuple(
        u.node
        for u in conflicted & used
        if u.node is not None and u.label != "calls" and u not in adapted
    )
    return Solved(
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
        tuple(listed),
        contradictory,
        tuple(_find_mixed_counts(found, solution)),
        arguments,
        tuple(s for s in found.lookups if _counts_steps(solution, s)),
        tuple(s for s in found.stores if _counts_steps(solution, s)),
        tuple(demand.place for demand in unmet),
        tuple(c for c in found.carried if _known_exponent(solution, c.frequency)),
    )


def _find_mixed_counts(found: Findings, solution: Solution) -> Iterator[Agreement]:
    """Yield comparisons with a counter that some calls advance once per step and others do not, such as training and
    evaluation.
    """
    places = {
        place
        for place, calls in found.counted
        if len({_known_exponent(solution, call) for call in calls} - {None}) > 1
    }
    for agreement in found.agreements if places else ():
        if agreement.kind in ("modulus", "comparison"):
            causes = (e for side in agreement.exponents for e in solution.causes(side))
            if any(each.reason == ADDS and each.place in places for each in causes):
                yield agreement


def _known_exponent(solution: Solution, exponent: Exponent) -> Fraction | None:
    """Return the number that an exponent resolves to; None if it is not known."""
    resolved = solution.resolve(exponent)
    return resolved.constant if resolved.is_known else None


def _find_converted_arguments(
    found: Findings, solution: Solution, conflicted: Collection[Unknown]
) -> Iterator[tuple[Equation, Fraction]]:
    """Yield the arguments to convert for parameters whose exponent the function determines.

    The step, and also the number of the cycle, for the `n` of `gamma ** n`, which does not depend on N.
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
    """Whether a lookup indexes a sequence, whose length does not depend on N, by steps."""
    index, length = solution.resolve(lookup.actual), solution.resolve(lookup.expected)
    return index == -ONE and length == ZERO
