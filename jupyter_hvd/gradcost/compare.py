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


def other_subject(about: Subject, name: str, functions: Mapping[str, Any], cells: Cells) -> Other:
    """Another function of the notebook, differentiated by the same parameters where it has them."""
    try:
        made = make_subject(functions.get(name), label=name)
        shared = tuple(x for x in about.wrt if x in made.differentiable_names)
        made = made.differentiate_by(shared)
    except TensorError as error:
        return explain_error(error, cells)
    return made.missing_data or made


def match_sizes(about: Subject, beside: Subject, linked: bool) -> list[tuple[Size, Size]]:
    """The sizes of one function with those of another that are called alike, or the only one of each."""
    here, there = about.size_sliders(linked), beside.size_sliders(linked)
    alike = [(a, b) for a in here for b in there if set(a.names) & set(b.names)]
    if not alike and len(here) == len(there) == 1:
        alike = [(here[0], there[0])]
    return [(a, b) for a, b in alike if not b.fixed]


def place_sizes(
    sizes: Sizes, beside: Subject, pairs: Sequence[tuple[Size, Size]]
) -> dict[str, int]:
    """The other's sizes: those that are shared as they stand here, the rest as of its last call."""
    result = dict(beside.start)
    for a, b in pairs:
        result |= dict.fromkeys(b.names, sizes[a.name])
    return result


def compare_function(
    about: Subject,
    sizes: Sizes,
    linked: bool,
    name: str,
    beside: Other,
    times: Mapping[str, Times],
) -> Compared:
    """The other function at the sizes of this one, its curves and times by this one's sizes."""
    if isinstance(beside, str):
        return Compared(name, (), None, None, {}, {}, beside)
    pairs = match_sizes(about, beside, linked)
    there = place_sizes(sizes, beside, pairs)
    spell = spell_formulas(beside, there, linked)
    fits = beside.fits_data(there)
    value, adjoint = (
        make_figure(beside, part, there, spell) if fits else None
        for part in (beside.value, beside.adjoint)
    )
    sliders = {a.name: replace(b, high=a.high) for a, b in pairs if not a.fixed}
    wrong = "" if fits else "at these sizes it reads out of range"
    if not sliders:
        wrong = wrong or f"it shares no size with `{about.name}`"
    return Compared(
        function=name,
        wrt=beside.wrt,
        value=value,
        adjoint=adjoint,
        curves={size: make_curve(beside, slider, there) for size, slider in sliders.items()},
        times={
            size: found
            for size, found in times.items()
            if size in sliders and found.at.items() <= there.items()
        },
        error=wrong,
    )
