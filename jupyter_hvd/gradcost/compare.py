"""Compares the inspected function with others of the notebook, over common sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..tensor import TensorError
from ..tensor.cost.statements import Sizes
from .cells import Cells, explain_error
from .report import Compared, Times, make_curve, make_figure, spell_formulas
from .subject import Size, Subject, make_subject

#: A function to compare with, or why it cannot be.
Other = Subject | str


def other_subject(subject: Subject, name: str, functions: Mapping[str, Any], cells: Cells) -> Other:
    """Return another function of the notebook as a subject, by the same parameters; or why that is impossible."""
    try:
        made = make_subject(functions.get(name), label=name)
        shared = tuple(x for x in subject.wrt if x in made.differentiable_names)
        made = made.differentiate_by(shared)
    except TensorError as error:
        return explain_error(error, cells)
    return made.missing_data or made


def match_sizes(subject: Subject, other: Subject, linked: bool) -> list[tuple[Size, Size]]:
    """Return pairs of a size of each function that have a name in common, or the only size of both."""
    here, there = subject.size_sliders(linked), other.size_sliders(linked)
    alike = [(a, b) for a in here for b in there if set(a.names) & set(b.names)]
    if not alike and len(here) == len(there) == 1:
        alike = [(here[0], there[0])]
    return [(a, b) for a, b in alike if not b.fixed]


def sizes_of_other(
    sizes: Sizes, other: Subject, pairs: Sequence[tuple[Size, Size]]
) -> dict[str, int]:
    """Return the other function's sizes: paired ones as here, the rest as in its last call."""
    result = dict(other.start)
    for a, b in pairs:
        result |= dict.fromkeys(b.names, sizes[a.name])
    return result


def compare_function(
    subject: Subject,
    sizes: Sizes,
    linked: bool,
    name: str,
    other: Other,
    times: Mapping[str, Times],
) -> Compared:
    """Return the figures of another function at this one's sizes, with its curves and times over them."""
    if isinstance(other, str):
        return Compared(name, (), None, None, {}, {}, other)
    pairs = match_sizes(subject, other, linked)
    there = sizes_of_other(sizes, other, pairs)
    spell = spell_formulas(other, there, linked)
    fits = other.fits_data(there)
    value, adjoint = (
        make_figure(other, part, there, spell) if fits else None
        for part in (other.value, other.adjoint)
    )
    sliders = {a.name: replace(b, high=a.high) for a, b in pairs if not a.fixed}
    wrong = "" if fits else "at these sizes it reads out of range"
    if not sliders:
        wrong = wrong or f"it shares no size with `{subject.name}`"
    return Compared(
        function=name,
        wrt=other.wrt,
        value=value,
        adjoint=adjoint,
        curves={size: make_curve(other, slider, there) for size, slider in sliders.items()},
        times={
            size: found
            for size, found in times.items()
            if size in sliders and found.at.items() <= there.items()
        },
        error=wrong,
    )
