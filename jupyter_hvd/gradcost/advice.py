"""Advice: what would lower the cost, by how much. Every figure is counted, estimated by XLA or measured.

A rewriting is advised where the program so written and its gradient cost less, by the cost model at the
sizes on display. What the compiled function does already, skipping terms that are zero and sharing equal
values, is told as such.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ..svg import SUPERSCRIPT
from ..tensor.cost.formula import Counted, Formula, cost_formulas, count_operations, sum_counts
from ..tensor.cost.statements import Sizes
from ..tensor.derivative.reverse import adjoint
from ..tensor.derivative.transforms import real_parameters
from ..tensor.frontend.signature import words
from ..tensor.language.errors import Place
from ..tensor.language.pairs import soa
from ..tensor.language.provenance import Origin, carry_origins, origin_of
from ..tensor.language.terms import uniquify
from ..tensor.measure import fit_exponent
from ..tensor.ssa.program import Program, statement_terms
from ..tensor.ssa.python_printer import print_python
from ..tensor.ssa.rewrites import Rewriting, find_rewritings
from ..tensor.ssa.simplify import simplify
from .report import Advice, AdviceKind, Locate, Report
from .subject import Subject
from .wording import format_number, operation_count

WORTH = 0.02  # of all operations: less is not worth a word
SHOWN = 6


@dataclass(frozen=True, eq=False)
class Adviser:
    """What is worked out once about a subject, whatever the sizes."""

    subject: Subject

    def give_advice(self, report: Report, locate: Locate) -> tuple[Advice, ...]:
        """Return the advice: cheaper rewritings, the largest saving first; costly lines; faster growth in JAX."""
        cheaper = sorted(_cheaper_rewritings(self, report.sizes, locate), key=lambda a: -a.saves)
        found = list(_costlier_lines(self, report, locate))
        return (*cheaper[:SHOWN], *found[:SHOWN], *_growth_estimate(report))

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The rewritings of the program that may lower its cost."""
        program = self.subject.instance.written
        return tuple(Candidate(self.subject, rewriting) for rewriting in find_rewritings(program))

    @cached_property
    def value(self) -> tuple[Formula, ...]:
        """What the value costs as it stands."""
        return tuple(_program_costs(self.subject.instance.written))

    @cached_property
    def written(self) -> list[tuple[Place, Formula]]:
        """The costs of the program as it stands, each at its place."""
        return _costs_as_written(self.subject)


# Cheaper ways to write it


@dataclass(frozen=True, eq=False)
class Candidate:
    """A rewriting, and what the program so written and its gradient cost."""

    subject: Subject
    rewriting: Rewriting

    @cached_property
    def program(self) -> Program:
        """The rewritten program, simplified."""
        return simplify(self.rewriting.program)

    @cached_property
    def value(self) -> tuple[Formula, ...]:
        """The costs of the rewritten program, by statement and kind."""
        return tuple(_program_costs(self.program))

    @cached_property
    def gradient(self) -> tuple[Formula, ...]:
        """The costs of the gradient of the rewritten program, by statement and kind."""
        body = self.subject.instance.function.body
        seed = None if self.subject.is_scalar else ("dy", soa(body.type))
        wrt = real_parameters(self.subject.instance, self.subject.wrt)
        return tuple(_program_costs(simplify(adjoint(self.program, wrt, seed))))


def _program_costs(program: Program) -> Iterator[Formula]:
    """Yield the nonzero cost formulas of a program's statements."""
    for _, term in statement_terms(program):
        yield from (f for f in cost_formulas(term).values() if str(f) != "0")


def _cheaper_rewritings(adviser: Adviser, sizes: Sizes, locate: Locate) -> Iterator[Advice]:
    """Yield advice for each rewriting that saves a sizable part of the operations, one per kind and line."""
    subject, count = adviser.subject, adviser.subject.evaluate.sum_formulas
    told: set[tuple[str, Place | None]] = set()
    gradient = tuple(f for line in subject.adjoint.lines for f in line.costs.values())
    for way, candidate in enumerate(adviser.candidates):
        value, value_then = count(adviser.value, sizes), count(candidate.value, sizes)
        if value is None or value_then is None or value_then >= value:
            continue
        adjoint_now, adjoint_then = count(gradient, sizes), count(candidate.gradient, sizes)
        if adjoint_now is None or adjoint_then is None:
            continue
        saves = value + adjoint_now - value_then - adjoint_then
        place = candidate.rewriting.statement.origin.place
        kind = candidate.rewriting.kind
        if saves <= WORTH * (value + adjoint_now) or (kind, place) in told:
            continue
        told.add((kind, place))
        first, program = candidate.rewriting.first, subject.instance.written
        code = print_python(first, program, sizes, words(subject.instance.parameters))
        yield Advice(
            kind,
            _MESSAGES[kind],
            None if place is None else locate(place),
            f"t = {code}" if code else "",
            f"value {format_number(value)}, gradient {format_number(adjoint_now)} operations",
            f"value {format_number(value_then)}, gradient {format_number(adjoint_then)} operations",
            saves,
            way,
        )


_MESSAGES = {
    "outside": "Part of this does not depend on the loop's index: name it before the loop.",
    "factored": "A factor does not depend on the index that is summed: multiply after the sum.",
    "reassociated": "Sum in another order: the product of the small factors first.",
}


# What the compiled function finds by itself


def _costs_as_written(subject: Subject) -> list[tuple[Place, Formula]]:
    """Return what each source line costs as written, with a position in it."""
    places = subject.instance.traced.places
    counted: dict[tuple[str, int], tuple[Place, Counted]] = {}
    with carry_origins({term: Origin(place=place) for term, place in places.items()}):
        for operation in count_operations(uniquify(subject.instance.function.body)):
            origin = origin_of(operation.term)
            if origin is not None and (place := origin.place) is not None:
                _, own = counted.setdefault((place.filename, place.line), (place, {}))
                operation.count_in(own)
    return [(place, sum_counts(own)) for place, own in counted.values()]


def _costlier_lines(adviser: Adviser, report: Report, locate: Locate) -> Iterator[Advice]:
    """Yield advice for lines that cost more as written than as compiled."""
    count = adviser.subject.evaluate
    compiled = {line.place: line.value for line in report.heat}
    whole = report.value.total
    for place, formula in adviser.written:
        source = locate(place)
        cost, now = count(formula, report.sizes), compiled.get(source, 0)
        if cost is None or not whole or cost - now <= WORTH * whole:
            continue
        kind: AdviceKind = "guard" if now else "shared"
        message = _FOUND[kind].format(cost=operation_count(cost), now=format_number(now))
        yield Advice(kind, message, source)


_FOUND = {
    "guard": (
        "As written this line costs {cost}, as compiled {now}: the other terms are zero or "
        "repeated. In plain Python a condition on the sum would say so."
    ),
    "shared": (
        "As written this line costs {cost}, as compiled nothing: its value is known already, is "
        "zero, or is never used."
    ),
}


# JAX alone


def _growth_estimate(report: Report) -> Iterator[Advice]:
    """Yield advice for each size over which plain JAX's gradient grows faster, by XLA's estimates."""
    for name, curve in report.curves.items():
        estimates = report.estimates_over(name)
        across = list(estimates)[-2:]
        flops = [estimates[n].flops for n in across]
        counts = [curve.count("adjoint", n) for n in across]
        if None in counts:
            continue
        jax = fit_exponent(across, flops)
        own = fit_exponent(across, [max(count or 0, 1) for count in counts])
        if jax is None or own is None or jax - own < 0.5 or flops[-1] < 4 * (counts[-1] or 0):
            continue
        yield Advice(
            "jax",
            f"JAX alone would differentiate this worse: over {name} its gradient grows like "
            f"{_power_text(name, jax)}, this one like {_power_text(name, own)}. At {name} = {across[-1]} "
            f"XLA estimates {format_number(flops[-1])} flops, against {operation_count(counts[-1])} here.",
        )


def _power_text(name: str, exponent: float) -> str:
    """Return a power of a size in words: `n²`, or `a constant`."""
    if abs(exponent) < 0.05:
        return "a constant"
    rounded = f"{exponent:.1f}".removesuffix(".0")
    return name if rounded == "1" else name + rounded.translate(SUPERSCRIPT)
