"""Prints statements of Tensor SSA as Python: comprehensions, `sum` and calls of functions."""

from __future__ import annotations

from collections.abc import Mapping

from ..language.affine import Affine
from ..language.predicates import TRUE, Predicate, conj, conjuncts
from ..language.printer import show
from ..language.terms import Binders
from ..polyhedral import sets
from .program import Contraction, Input, Map, Program, Rhs, operands


def print_python(
    rhs: Rhs,
    program: Program,
    sizes: Mapping[str, int],
    words: Mapping[str, str],
    around: tuple[str, ...] = (),
    names: Mapping[str, str] | None = None,
    taken: frozenset[str] = frozenset(),
) -> str:
    """Print the right-hand side of a statement as Python; "" where it has no short form.

    Conditions that always hold at these sizes are left out.

    Args:
        words: the user's names for sizes.
        around: the variables of the enclosing loops, which run over the first generators.
        names: the user's names for SSA variables; a computed variable without one has no short form. None: print their own
            names.
        taken: names that loop variables must not have.
    """
    spelt = {
        s.name: s.rhs.parameter
        for s in program.statements
        if isinstance(s.rhs, Input) and not s.rhs.path
    }
    if names is not None:
        spelt |= names
        if not {*operands(rhs)} <= spelt.keys():
            return ""
    letters = [*around, *(x for x in "ijklpqrs" if x not in taken | {*around})]
    indices = {index: letter for (index, _), letter in zip(_binders_of(rhs), letters, strict=False)}
    written = {**words, **indices}

    def spell_index(a: Affine) -> str:
        return str(a.rename_names(written)).replace("·", "*")

    def entry_text(name: str, places: tuple[str, ...]) -> str:
        return spelt.get(name, name) + (f"[{', '.join(places)}]" if places else "")

    match rhs:
        case Contraction(gens, sums, mask, factors):
            if mask.relations:
                return ""
            mask = conj(
                *(q for q in conjuncts(mask) if not _always_holds(q, _binders_of(rhs), sizes))
            )
            if "∃" in show(mask):
                return ""
            body = " * ".join(
                entry_text(f.name, tuple(map(spell_index, f.indices))) for f in factors
            )
        case Map(gens, mask, function, arguments) if mask == TRUE:
            places = tuple(indices[g] for g, _ in gens)
            sums = ()
            body = f"{function.name}({', '.join(entry_text(x, places) for x in arguments)})"
        case _:
            return ""
    if sums:
        loops = " ".join(f"for {indices[s]} in range({spell_index(n)})" for s, n in sums)
        condition = "" if mask == TRUE else f" if {_condition_text(show(mask, written))}"
        body = f"sum({body} {loops}{condition})"
    for g, n in reversed(gens[len(around) :]):
        body = f"[{body} for {indices[g]} in range({spell_index(n)})]"
    return body


def _always_holds(q: Predicate, binders: Binders, sizes: Mapping[str, int]) -> bool:
    """Whether a condition holds for all indices at these sizes."""
    used = tuple(b for b in binders if b[0] in q.names)
    opposite = sets.complement(q, used)
    return opposite is not None and sets.sample_point(used, opposite, dict(sizes)) is None


def _binders_of(rhs: Rhs) -> Binders:
    """Return the binders that a right-hand side's condition is over."""
    return (*rhs.gens, *rhs.sums) if isinstance(rhs, Contraction) else rhs.gens


def _condition_text(text: str) -> str:
    """Return a condition in Python's notation."""
    signs: dict[str, str | int | None] = {
        "=": " == ",
        "<": " < ",
        "≤": " <= ",
        "∧": "and",
        "∨": "or",
        "·": "*",
    }
    return text.translate(str.maketrans(signs))
