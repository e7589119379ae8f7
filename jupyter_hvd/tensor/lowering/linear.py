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
    """How an array depends on a carried value; later forms are more general."""

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


def find_linear_solution(body: Plan, count: int, device: Device) -> Solution:
    """Return the carried values, each after those on which it depends, with the form in which it depends on itself.

    () if one is not linear, or if running the iterations sequentially is faster.
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
    """Whether composing iterations pairwise is predicted to be faster than running them sequentially."""
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
    """Return how each value that an iteration leaves depends on the carried values."""
    known: dict[str, dict[int, Form]] = {}
    for step in body.steps:
        found = _linear_forms(step.action, known)
        for name in step.action.relations & known.keys():
            found |= dict.fromkeys(known[name], Form.OTHER)
        known[step.name] = {place: form for place, form in found.items() if form}
    return [known[x] for x in flatten_output(body.output)]


def _linear_forms(action: Action, known: Mapping[str, Forms]) -> dict[int, Form]:
    """Return how an action's array depends on the carried values."""
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
    """Yield how each factor of a contraction depends on the carried values."""
    alone = len(action.reads) == 1 and action.mask == TRUE and not action.scatter_to
    for read in action.reads:
        straight = read.indices == pointwise(action.out) and not action.sums
        least = Form.MATRIX if not straight or action.scatter_to else Form.DIAGONAL
        yield _generalize(known.get(read.array, {}), Form.SAME if alone and straight else least)


def _addend_forms(
    action: Accumulate, addend: Masked, known: Mapping[str, Forms]
) -> Iterator[Forms]:
    """Yield how each factor of an addend depends on the carried values."""
    plain = addend.mask == TRUE and not addend.scale and not addend.minus
    straight = addend.read.indices == pointwise(action.out)
    least = Form.MATRIX if not straight else Form.SAME if plain else Form.DIAGONAL
    yield _generalize(known.get(addend.read.array, {}), least)
    for name in addend.scale:
        yield _generalize(known.get(name, {}), Form.MATRIX)


def _generalize(forms: Forms, least: Form) -> Forms:
    """Return forms that are at least as general as `least`."""
    return {place: max(form, least) for place, form in forms.items()}


def _multiply_forms(factors: list[Forms]) -> dict[int, Form]:
    """Return the forms of a product, which is linear if only one factor depends on a carried value."""
    found: dict[int, Form] = {}
    for forms in factors:
        for place, form in forms.items():
            found[place] = Form.OTHER if place in found else form
    return found


def _add_forms(terms: Iterator[dict[int, Form]]) -> dict[int, Form]:
    """Return the forms of a sum; twice the same carried value is diagonal."""
    found: dict[int, Form] = {}
    for forms in terms:
        for place, form in forms.items():
            found[place] = max(form, found[place], Form.DIAGONAL) if place in found else form
    return found
