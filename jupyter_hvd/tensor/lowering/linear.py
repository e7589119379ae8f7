"""Loops whose iterations are linear in what they carry. Two such iterations are one, `A₂(A₁s + b₁) + b₂ = (A₂A₁)s + (A₂b₁ + b₂)`,
which is associative, so that a device with many cores need not wait for one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from math import log2, prod
from typing import TYPE_CHECKING

from ..language.predicates import TRUE
from ..ssa.program import flatten_output, pointwise
from .device import Device
from .ir import Accumulate, Action, Contract, Fill, Load, Masked
from .roofline import work_of
from .strategy import SCAN_KERNELS

if TYPE_CHECKING:
    from .plan import Plan


class Form(IntEnum):
    """How an array depends on what a loop carries at a place: the later ones are more general."""

    FREE = 0  # not at all
    SAME = 1  # it is that and something else, added
    DIAGONAL = 2  # each entry is a multiple of the same entry, and something else
    MATRIX = 3  # each entry is a linear combination of entries, and something else
    OTHER = 4

    def __str__(self) -> str:
        return ("recomputed", "running sums", "entry by entry", "by matrices", "")[self]


#: What is solved one place after the other, and how.
Solution = tuple[tuple[int, Form], ...]
Forms = Mapping[int, Form]
SHORT = 16  # iterations that are run one after the other
LEVELS = 6  # kernels of each halving


def linear_solution(body: Plan, count: int, device: Device) -> Solution:
    """The places of what a loop carries, each behind those that it depends on, with the form in which it depends on itself; ()
    where one is not linear, or where it is faster to run the iterations one after the other.
    """
    if count < SHORT or not device.many_cores:
        return ()
    forms = _output_forms(body)
    order: list[int] = []
    while len(order) < len(forms):
        ready = [
            place
            for place, found in enumerate(forms)
            if place not in order and all(q == place or q in order for q in found)
        ]
        if not ready:
            return ()
        order += ready
    own = {place: forms[place].get(place, Form.FREE) for place in order}
    if Form.OTHER in own.values() or all(form is Form.FREE for form in own.values()):
        return ()
    solution = tuple((place, own[place]) for place in order)
    return solution if _is_faster(body, solution, count, device) else ()


def _is_faster(body: Plan, solution: Solution, count: int, device: Device) -> bool:
    shapes = body.shapes()
    extents = [prod(shapes[x]) for x in flatten_output(body.output)]
    rows = [extents[place] for place, form in solution if form is Form.MATRIX]
    if any(n * n * count > device.intermediate for n in rows):
        return False
    work = work_of(body)
    one = work.kernels * device.kernel + device.iteration / device.unroll
    multiplied = sum(4 * count * n**3 for n in rows)
    formed = count * max([*rows, 1]) * (work.operations + work.products + work.calls)
    computed = (multiplied + formed) / device.flop_rate(body.dtype.name)
    halvings = sum(form >= Form.DIAGONAL for _, form in solution)
    waiting = (halvings * LEVELS * log2(count) + len(solution) * SCAN_KERNELS) * device.kernel
    return computed + waiting < count * one


def _output_forms(body: Plan) -> list[dict[int, Form]]:
    """How what an iteration leaves at each place depends on what it takes."""
    known: dict[str, dict[int, Form]] = {}
    for step in body.steps:
        found = _linear_forms(step.action, known)
        for name in step.action.relations & known.keys():
            found |= dict.fromkeys(known[name], Form.OTHER)
        known[step.name] = {place: form for place, form in found.items() if form}
    return [known[x] for x in flatten_output(body.output)]


def _linear_forms(action: Action, known: Mapping[str, Forms]) -> dict[int, Form]:
    match action:
        case Load(parameter, _):
            return {int(parameter[1:]): Form.SAME} if parameter[0] == "s" else {}
        case Fill():
            return {}
        case Contract():
            terms = [[*_contract_forms(action, known)]]
        case Accumulate(_, addends):
            terms = [[*_addend_forms(action, a, known)] for a in addends]
        case _:
            return dict.fromkeys((p for x in action.sources for p in known.get(x, ())), Form.OTHER)
    return _add_forms(_multiply_forms(factors) for factors in terms)


def _contract_forms(action: Contract, known: Mapping[str, Forms]) -> Iterator[Forms]:
    alone = len(action.reads) == 1 and action.mask == TRUE and not action.scatter_to
    for read in action.reads:
        straight = read.indices == pointwise(action.out) and not action.sums
        least = Form.MATRIX if not straight or action.scatter_to else Form.DIAGONAL
        yield _at_least(known.get(read.array, {}), Form.SAME if alone and straight else least)


def _addend_forms(
    action: Accumulate, addend: Masked, known: Mapping[str, Forms]
) -> Iterator[Forms]:
    plain = addend.mask == TRUE and not addend.scale and not addend.minus
    straight = addend.read.indices == pointwise(action.out)
    least = Form.MATRIX if not straight else Form.SAME if plain else Form.DIAGONAL
    yield _at_least(known.get(addend.read.array, {}), least)
    for name in addend.scale:
        yield _at_least(known.get(name, {}), Form.MATRIX)


def _at_least(forms: Forms, least: Form) -> Forms:
    return {place: max(form, least) for place, form in forms.items()}


def _multiply_forms(factors: list[Forms]) -> dict[int, Form]:
    """A product is linear in what one of its factors depends on."""
    found: dict[int, Form] = {}
    for forms in factors:
        for place, form in forms.items():
            found[place] = Form.OTHER if place in found else form
    return found


def _add_forms(terms: Iterator[dict[int, Form]]) -> dict[int, Form]:
    """A sum; of two terms that are both the same as what is carried it is twice that."""
    found: dict[int, Form] = {}
    for forms in terms:
        for place, form in forms.items():
            found[place] = max(form, found[place], Form.DIAGONAL) if place in found else form
    return found
